/* Layout.h - where the bits of a weight are in a word of the layout "16x64_e2m1".
 *
 * A word has two weights of each register of the tensor core's operand, the elements of its lower
 * and of its upper half, and the bits of the second one are 16 places further than those of the
 * first, past bit 31 from bit 0 on. Three bits of a weight are the end of the exponent and the
 * begin of the mantissa, the fourth one is the sign. The places are those from which all come to
 * their own in a bf16 with the fewest instructions: of registers 0, 1 and 2 by one rotation of the
 * word, or none, of register 3 by two. A search of all places found none with fewer.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_KERNELS_MIXED_MM_LAYOUT_H
#define MOE_KERNELS_MIXED_MM_LAYOUT_H

#define MOE__E2M1_BITS 4

/* Where the bits of register i's first weight are, the lowest first. */
static const int moe__e2m1_at[][MOE__E2M1_BITS] = {
    {6, 7, 8, 15}, {2, 3, 4, 11}, {28, 29, 30, 5}, {0, 1, 10, 9}};

#endif /* MOE_KERNELS_MIXED_MM_LAYOUT_H */
