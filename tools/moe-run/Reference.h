/* Reference.h - computes a function's launches with libmoe_ref.
 *
 * Why it exists: the manifest says what each launch computes; this is the table from its ops to the
 * C reference, which runs where there is no GPU and judges where there is one.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_RUN_REFERENCE_H
#define MOE_RUN_REFERENCE_H

#include "tools/moe-run/Tensor.h"

/* Computes the launches of the call's function, in order. Reads call->arguments and writes
 * `results`, which have the layout of call->results; both have data. Work is cut into slices on
 * `threads` threads; with 1 each launch is one plain call of libmoe_ref. */
int moe__reference_run(const moe__call_t *call, moe__tensor_t *results, int threads);

/* The axis and the length of the blocks in which the function's first launch that reads `argument`
 * sees it; the last dimension and 32 where that does not say. */
void moe__reference_blocks(const moe_rt_function_info_t *function,
                           const moe_rt_tensor_info_t *argument, int *out_axis, int64_t *out_block);

#endif /* MOE_RUN_REFERENCE_H */
