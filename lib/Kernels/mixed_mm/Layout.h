/* Layout.h - where the bits of a weight are in a word of the layout "16x64_e2m1".
 *
 * Each half of a word has a weight of each register of the tensor core's operand: three bits that
 * are the end of the exponent and the begin of the mantissa, and a sign. The places are those from
 * which both come to their own in a bf16 with the fewest instructions: of registers 0 and 1 by one
 * shift, or none.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_KERNELS_MIXED_MM_LAYOUT_H
#define MOE_KERNELS_MIXED_MM_LAYOUT_H

/* The lowest bit of the three of register i, and its sign. */
static const int moe__e2m1_magnitude_at[] = {6, 3, 0, 9};
static const int moe__e2m1_sign_at[] = {15, 12, 13, 14};

#endif /* MOE_KERNELS_MIXED_MM_LAYOUT_H */
