/* Launch.h - a launch of the manifest, as the C reference computes it; internal to Reference.c
 * and the files in ops/.
 *
 * Why it exists: what differs from op to op is what it takes, how its work is cut for threads,
 * which rows it writes, and whether its results have certain bits. Tensors are called by their
 * roles in the op. A new op is a moe__run_op_t in the table of a file in ops/.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_RUN_LAUNCH_H
#define MOE_RUN_LAUNCH_H

#include "tools/moe-run/Random.h"

#include "moe/limits.h"

#include <jansson.h>
#include <stdatomic.h>

enum {
  MOE__RUN_MAX_LAUNCH_TENSORS = 11,
  MOE__RUN_SLICES_PER_THREAD = 16, /* unequal slices still balance */
};

typedef struct moe__run_launch_t moe__run_launch_t;

/* How work along one dimension is cut into slices. */
typedef struct moe__run_cut_t {
  int dimension; /* -1: it is not */
  int64_t size;  /* of the dimension */
  int64_t unit;  /* slices begin at multiples of it */
  int64_t slices;
} moe__run_cut_t;

/* An op of the manifest. Functions may be NULL from `judge` on. */
typedef struct moe__run_op_t {
  const char *name;
  /* The roles of its operands and results, "x [offs] -> q scales": those in brackets may be
   * missing. */
  const char *tensors;
  /* Parses the attributes and checks the tensors' shapes, as far as the rest relies on them. Errors
   * are reported. */
  int (*prepare)(moe__run_launch_t *launch, const json_t *attributes);
  /* Decides launch->slices for so many threads; 1 for one. */
  void (*cut)(moe__run_launch_t *launch, int threads);
  moe_ref_status_t (*run)(const moe__run_launch_t *launch, int64_t slice);
  /* Computes what all slices of `run` read, before them. NULL where there is nothing. */
  moe_ref_status_t (*begin)(const moe__run_launch_t *launch);
  /* What the operand of this role is; the tensors need no data. Without it, MX
   * blocks of the last dimension are cells. */
  void (*use)(const moe__run_launch_t *launch, const char *role, moe__run_use_t *out_use);
  /* Judges a slice of a product's result, which the launch's tensors name. */
  moe_ref_status_t (*judge)(const moe__run_launch_t *launch, int64_t slice, moe_ref_score_t *score);
  /* The roles of its factors. Compares a slice of the result with the product of tensors of which
   * these are quantizations. */
  const char *factors[2];
  moe_ref_status_t (*compare)(const moe__run_launch_t *launch, const moe_ref_tensor_t factors[2],
                              int64_t slice, moe_ref_score_t *score);
  /* The role of the operand that the result of this role is a quantization of, element by element;
   * NULL where there is none. */
  const char *(*quantized_from)(const moe__run_launch_t *launch, const char *role);
  /* The role of its result that has the numbers of its first operand, element by element, and its
   * dimensions: what reads that says what the operands are. NULL where there is none. */
  const char *passed_on;
  double (*flops)(const moe__run_launch_t *launch);
  /* Rows of dimension 0 of the result of this role from this one on are in no group, and not
   * written; -1 where it has no such rows. Called after all slices have run. */
  int64_t (*written_rows)(const moe__run_launch_t *launch, const char *role);
  /* Whether rows in between are not written either: those that the reference leaves as they are. */
  bool (*has_gaps)(const moe__run_launch_t *launch, const char *role);
} moe__run_op_t;

struct moe__run_launch_t {
  const moe__run_op_t *op;
  const char *name;                                      /* the op's, in the manifest */
  moe_ref_tensor_t tensors[MOE__RUN_MAX_LAUNCH_TENSORS]; /* the operands, then the results */
  const char *const *roles;                              /* of these; borrowed */
  int operand_count, tensor_count;
  int64_t slices;
  atomic_int status; /* moe_ref_status_t: of a slice that failed, if one did */
  moe__run_cut_t
      cuts[2]; /* a dual op has two directions, a pair two tensors, with slices of their own */
  struct {
    int axis;
    int64_t block_size;
    moe_ref_mx_mode_t mode;
    bool aligned;            /* groups of q */
    bool evens_first;        /* columns of what is dequantized */
    moe_ref_dtype_t element; /* that is rounded to */
  } mx;
  struct {
    moe_ref_fp8_scaling_t scaling;
    moe_ref_dtype_t element;
  } fp8;
  int64_t align; /* of groups that are padded; of a product 0 where they are not */
  moe_ref_accumulation_t accumulation;
  struct {
    moe_ref_weight_format_t format;
    moe_ref_weight_layout_t layout; /* of pack_weights */
    bool is_1x16;                   /* FP8 weights */
    int64_t group_size;             /* -1: the whole row */
  } weights;
  bool token_blocks; /* a gradient's scales are of FP8 blocks of tokens */
};

/* The ops of each file, up to one without a name. */
extern const moe__run_op_t moe__run_quantize_ops[], moe__run_fp8_ops[], moe__run_f16_ops[],
    moe__run_layout_ops[], moe__run_product_ops[], moe__run_weight_ops[];

/* ---- Tensors ---- */

/* Whether two roles, or two other names, are the same. */
bool moe__run_is(const char *name, const char *other);

/* The operand or result of this role; NULL where the launch has none. */
const moe_ref_tensor_t *moe__run_tensor(const moe__run_launch_t *launch, const char *role);

/* Whether a result has this role. */
bool moe__run_makes(const moe__run_launch_t *launch, const char *role);

/* The first operand: what the others are as long, or as many rows, as. */
const moe_ref_tensor_t *moe__run_first_operand(const moe__run_launch_t *launch);

/* Checks that the launch's operands and results are those of its op; errors are reported. */
int moe__run_check_roles(const moe__run_launch_t *launch);

/* ---- Attributes; errors are reported ---- */

/* An integer from `least` to `most`. */
int moe__run_attribute_integer(const moe__run_launch_t *launch, const json_t *attributes,
                               const char *name, int64_t least, int64_t most, int64_t *out_value);

/* true or false, or 1 or 0. */
int moe__run_attribute_flag(const moe__run_launch_t *launch, const json_t *attributes,
                            const char *name, bool *out_value);

/* A name that from_name knows. */
int moe__run_attribute_name(const moe__run_launch_t *launch, const json_t *attributes,
                            const char *name, int (*from_name)(const char *name), int *out_value);

/* ---- Slices ---- */

/* Cuts the dimension into slices for so many threads, one for one thread, which begin at multiples
 * of `unit`, and of a cache line where there is enough. Dimension -1 is not cut. */
moe__run_cut_t moe__run_cut(int dimension, int64_t size, int64_t unit, int threads);

/* Which of launch->cuts the slice is of, and what it takes of the dimension. */
int moe__run_slice(const moe__run_launch_t *launch, int64_t slice, int64_t *out_begin,
                   int64_t *out_end);

/* The elements [begin, end) of `dimension`; all for dimension -1. */
moe_ref_tensor_t moe__run_part(const moe_ref_tensor_t *tensor, int dimension, int64_t begin,
                               int64_t end);

/* Puts the columns of x, of 16 bits, into the order "evens_first": of each 16 those with an
 * even number first. */
void moe__run_put_evens_first(const moe_ref_tensor_t *x);

#endif /* MOE_RUN_LAUNCH_H */
