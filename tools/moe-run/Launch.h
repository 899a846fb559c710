/* Launch.h - a launch of the manifest, as the C reference computes it; internal to Reference.c and
 * the files of ops.
 *
 * Why it exists: what differs from op to op is what it takes, how its work is cut for threads,
 * which rows it writes, and whether its results have certain bits. To support a new op, write a
 * moe__op_t and name it in Reference.c.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_RUN_LAUNCH_H
#define MOE_RUN_LAUNCH_H

#include "tools/moe-run/Random.h"

#include <jansson.h>
#include <stdatomic.h>

enum {
  MOE__MAX_LAUNCH_TENSORS = 9,
  MOE__DEFAULT_BLOCK = 32,
  MOE__SLICES_PER_THREAD = 16, /* unequal slices still balance */
};

typedef struct moe__launch_t moe__launch_t;

/* How work along one dimension is cut into slices. */
typedef struct moe__cut_t {
  int dimension; /* -1: it is not */
  int64_t size;  /* of the dimension */
  int64_t unit;  /* slices begin at multiples of it */
  int64_t slices;
} moe__cut_t;

/* An op of the manifest. Its tensors are its operands, then its results. Functions may be NULL from
 * `judge` on. */
typedef struct moe__op_t {
  const char *name;
  int least_operands, most_operands, result_count;
  /* Parses the attributes and checks the tensors' shapes, as far as the rest relies on them. Errors
   * are reported. */
  int (*prepare)(moe__launch_t *launch, const json_t *attributes);
  /* Decides launch->slices for so many threads; 1 for one. */
  void (*cut)(moe__launch_t *launch, int threads);
  moe_ref_status_t (*run)(const moe__launch_t *launch, int64_t slice);
  /* What operand number `operand` is; the tensors need no data. Blocks of the last dimension
   * otherwise. */
  void (*use)(const moe__launch_t *launch, int operand, moe__use_t *out_use);
  /* Judges a slice of a product's result, which the launch's tensors name. */
  moe_ref_status_t (*judge)(const moe__launch_t *launch, int64_t slice, moe_ref_score_t *score);
  /* Compares a slice of it with the product of `factors`, of which the first two operands are
   * quantizations. */
  moe_ref_status_t (*compare)(const moe__launch_t *launch, const moe_ref_tensor_t factors[2],
                              int64_t slice, moe_ref_score_t *score);
  /* The operand that result number `result` is a quantization of, element by element; -1 where there
   * is none. */
  int (*quantized_from)(const moe__launch_t *launch, int result);
  double (*flops)(const moe__launch_t *launch);
  /* Rows of dimension 0 of result number `result` from this one on are in no group, and not
   * written; -1 where it has no such rows. Called after all slices have run. */
  int64_t (*written_rows)(const moe__launch_t *launch, int result);
} moe__op_t;

struct moe__launch_t {
  const moe__op_t *op;
  const char *name; /* the op's, in the manifest */
  moe_ref_tensor_t tensors[MOE__MAX_LAUNCH_TENSORS];
  int operand_count;
  int64_t slices;
  atomic_int failed;
  moe__cut_t
      cuts[2]; /* a dual op has two directions, a pair two tensors, with slices of their own */
  struct {
    int axis;
    int64_t block;
    moe_ref_mx_mode_t mode;
  } mx;
  struct {
    moe_ref_fp8_scaling_t scaling;
    moe_ref_dtype_t element;
  } fp8;
  int64_t align; /* of groups that are padded */
  moe_ref_accumulation_t accumulation;
};

extern const moe__op_t moe__op_quantize, moe__op_quantize_dual, moe__op_dequantize;
extern const moe__op_t moe__op_quantize_fp8, moe__op_quantize_fp8_dual, moe__op_dequantize_fp8;
extern const moe__op_t moe__op_scale_fp8, moe__op_scale_fp8_dual;
extern const moe__op_t moe__op_cast_fp8, moe__op_cast_fp8_dual;
extern const moe__op_t moe__op_quantize_fp8_pair, moe__op_scale_fp8_pair, moe__op_cast_fp8_pair;
extern const moe__op_t moe__op_pack_scales, moe__op_pad_groups, moe__op_unpad_groups;
extern const moe__op_t moe__op_scaled_mm;
extern const moe__op_t moe__op_scaled_mm_bias;

/* ---- Attributes; errors are reported ---- */

/* An integer from `least` to `most`. */
int moe__attribute_integer(const moe__launch_t *launch, const json_t *attributes, const char *name,
                           int64_t least, int64_t most, int64_t *out_value);

/* true or false, or 1 or 0. */
int moe__attribute_flag(const moe__launch_t *launch, const json_t *attributes, const char *name,
                        bool *out_value);

/* A name that from_name knows. */
int moe__attribute_name(const moe__launch_t *launch, const json_t *attributes, const char *name,
                        int (*from_name)(const char *name), int *out_value);

/* ---- Slices ---- */

/* Cuts the dimension into slices for so many threads, one for one thread, which begin at multiples
 * of `unit`, and of a cache line where there is enough. Dimension -1 is not cut. */
moe__cut_t moe__cut(int dimension, int64_t size, int64_t unit, int threads);

/* Which of launch->cuts the slice is of, and what it takes of the dimension. */
int moe__slice(const moe__launch_t *launch, int64_t slice, int64_t *out_begin, int64_t *out_end);

/* The elements [begin, end) of `dimension`; all for dimension -1. */
moe_ref_tensor_t moe__part(const moe_ref_tensor_t *tensor, int dimension, int64_t begin,
                           int64_t end);

#endif /* MOE_RUN_LAUNCH_H */
