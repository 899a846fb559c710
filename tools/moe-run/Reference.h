/* Reference.h - computes a function's launches with libmoe_ref.
 *
 * Why it exists: the manifest says what each launch computes; this is the table from its ops to the
 * C reference, which runs where there is no GPU and judges where there is one.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_RUN_REFERENCE_H
#define MOE_RUN_REFERENCE_H

#include "tools/moe-run/Random.h"
#include "tools/moe-run/Tensor.h"

/* Computes the launches of the call's function, in order. Reads call->arguments and writes
 * `results`, which have the layout of call->results; both have data. Work is cut into slices on
 * `threads` threads; with 1 each launch is one plain call of libmoe_ref, two if it is dual. */
int moe__run_reference_run(const moe__run_call_t *call, moe__run_tensor_t *results, int threads);

/* What is to be known of a result beyond the reference's bits. */
typedef struct moe__run_judgment_t {
  bool has_groups;         /* rows of dimension 0 are in groups, or in none */
  int64_t written_rows;    /* rows from this one on are not to be written; else all there are */
  bool has_gaps;           /* rows before it may be nobody's, and are not to be written either */
  bool is_product;         /* the rest holds; bits are compared otherwise */
  bool is_empty;           /* a sum of no products in all elements: no data could make more of it */
  moe_ref_score_t score;   /* of what was found */
  bool is_quantized;       /* by launches of the function, both operands of the product: then */
  moe_ref_score_t quality; /* compares with the product of what they were before */
} moe__run_judgment_t;

/* The same, and judges those tensors of `found`, laid out like `results`, that are products by
 * their bounds; judgments are one per result, and zero at first. Without `found` there are none. */
int moe__run_reference_judge(const moe__run_call_t *call, moe__run_tensor_t *results,
                             const moe__run_tensor_t *found, int threads,
                             moe__run_judgment_t *judgments);

/* What an argument is to the function's first launch of a known op that reads it; where there
 * is none, cells are MX blocks along the last dimension. No tensor needs data. */
int moe__run_reference_use(const moe__run_call_t *call, const moe_rt_tensor_info_t *argument,
                           moe__run_use_t *out_use);

/* Floating-point operations of the call's products, in whose arguments the offsets have data.
 * *out_known is false where it has no product. */
int moe__run_reference_flops(const moe__run_call_t *call, bool *out_known, double *out_flops);

#endif /* MOE_RUN_REFERENCE_H */
