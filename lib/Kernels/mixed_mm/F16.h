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

/* The most tokens of each expert, on average, that become f16 where both operands are MX blocks:
 * with more the tensor core's power is the limit, and bf16 is faster. */
#define MOE__MX_MOST_IN_F16 384

/* Whether a product forward of MX blocks, of so many tokens of all experts, takes less time with
 * weights that become numbers of 16 bits in the kernel, with the launch that makes such numbers of
 * the tokens, than by blocks. has_scales_of_rows: those of a row of weights lie side by side.
 * in_f16: the numbers are f16, else bf16. */
bool moe__mixed_is_faster_than_blocks(int64_t tokens, int64_t experts, int64_t rows,
                                      int64_t columns, bool has_scales_of_rows, bool in_f16);

#endif /* MOE_KERNELS_MIXED_MM_F16_H */
