/* Launch.h - a launch of the manifest, as the C reference computes it; internal to Reference.c and
 * the files of ops.
 *
 * Why it exists: what differs from op to op is what it takes, how its work is cut for threads, and
 * whether its results have certain bits. To support a new op, write a moe__op_t and name it in
 * Reference.c.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_RUN_LAUNCH_H
#define MOE_RUN_LAUNCH_H

#include "tools/moe-run/Random.h"

#include <jansson.h>
#include <stdatomic.h>

enum {
  MOE__MAX_LAUNCH_TENSORS = 6,
  MOE__DEFAULT_BLOCK = 32,
  MOE__SLICES_PER_THREAD = 16, /* unequal slices still balance */
};

typedef struct moe__launch_t moe__launch_t;

/* An op of the manifest. Its tensors are its operands, then its results. Functions that are NULL
 * are for products alone. */
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
  /* Judges a slice of its result, which the launch's tensors name. */
  moe_ref_status_t (*judge)(const moe__launch_t *launch, int64_t slice, moe_ref_score_t *score);
  double (*flops)(const moe__launch_t *launch);
  /* Rows of its result from this one on are not written. Only operands have data. */
  int64_t (*written_rows)(const moe__launch_t *launch);
} moe__op_t;

struct moe__launch_t {
  const moe__op_t *op;
  const char *name; /* the op's, in the manifest */
  moe_ref_tensor_t tensors[MOE__MAX_LAUNCH_TENSORS];
  int operand_count;
  int64_t slices;
  atomic_int failed;
  struct {
    int axis;
    int64_t block;
    moe_ref_mx_mode_t mode;
    int slice_dimension;
    int64_t slice_unit; /* slices begin at multiples of it */
  } mx;
  moe_ref_accumulation_t accumulation;
};

extern const moe__op_t moe__op_quantize, moe__op_dequantize, moe__op_scaled_mm;

#endif /* MOE_RUN_LAUNCH_H */
