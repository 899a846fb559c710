/* F16.h - whether a product becomes one in f16, which the passes that expand products ask.
 * Candidates.c and CandidatesFew.c know.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_KERNELS_MIXED_MM_F16_H
#define MOE_KERNELS_MIXED_MM_F16_H

#include "mlir-c/IR.h"

#include <stdbool.h>
#include <stdint.h>

/* Whether a mixed_mm of integers, scales of bf16 and bf16 tokens takes less time in f16, with the
 * launch that makes f16 of the tokens. False where a size is not known. */
bool moe__mixed_is_faster_in_f16(MlirOperation op);

/* Whether a product forward of MX blocks, of so many tokens of all experts, takes less time with
 * weights that become f16 in the kernel, with the launch that makes f16 of the tokens, than by
 * blocks. has_scales_of_rows: those of a row of weights lie side by side. */
bool moe__mixed_is_faster_than_blocks(int64_t tokens, int64_t experts, int64_t rows,
                                      int64_t columns, bool has_scales_of_rows);

#endif /* MOE_KERNELS_MIXED_MM_F16_H */
