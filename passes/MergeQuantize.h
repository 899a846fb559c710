/* MergeQuantize.h - two quantizers become one op: of one tensor along both of its last two axes, or
 * of two tensors whose rows are in the same groups.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_PASSES_MERGE_QUANTIZE_H
#define MOE_PASSES_MERGE_QUANTIZE_H

#include "mlir-c/IR.h"

/* Merges the verified quantizers of a block. Those that are merged stay, without uses. */
void moe__merge_quantizers(MlirBlock block);

#endif /* MOE_PASSES_MERGE_QUANTIZE_H */
