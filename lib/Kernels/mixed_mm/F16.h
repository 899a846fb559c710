/* F16.h - whether a product of four-bit integers becomes one in f16, which the pass that expands
 * recipes asks. Candidates.c knows.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_KERNELS_MIXED_MM_F16_H
#define MOE_KERNELS_MIXED_MM_F16_H

#include "mlir-c/IR.h"

#include <stdbool.h>

/* Whether a mixed_mm of integers, scales of bf16 and bf16 tokens takes less time in f16, with the
 * launch that makes f16 of the tokens. False where a size is not known. */
bool moe__mixed_is_faster_in_f16(MlirOperation op);

#endif /* MOE_KERNELS_MIXED_MM_F16_H */
