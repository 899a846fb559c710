/* Codes.h - the codes of positions that probes find in memory.
 *
 * Why it exists: the kernels, the program that runs them and the test that predicts their output
 * must write the same codes.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_TEST_EMULATOR_GOLDEN_CODES_H
#define MOE_TEST_EMULATOR_GOLDEN_CODES_H

#include <stdint.h>

enum { GOLDEN_UNTOUCHED = 0xEE }; /* each byte of an output that the kernel does not write */

/* Global memory x, and shared memory of store probes: word w holds the halfwords 2w + 1 and 2w + 2.
 */
static inline uint32_t golden_position_code(uint32_t word) {
  return word * UINT32_C(0x20002) + UINT32_C(0x20001);
}

/* An operand of 16-bit elements: element i is 0x2000 + i, a normal number in bf16 and f16. */
static inline uint32_t golden_operand_code16(uint32_t word) {
  return word * UINT32_C(0x20002) + UINT32_C(0x20012000);
}

/* An operand of 8-bit elements: 64 different normal numbers, in an order without a period that a
 * layout has. */
static inline uint32_t golden_operand_code8(uint32_t word) {
  uint32_t code = 0;
  for (uint32_t part = 0; part < 4; part++) {
    const uint32_t i = word * 4 + part;
    code |= (((i * 29 + (i >> 6) * 11 + (i >> 11) * 3) & 63) + 8) << 8 * part;
  }
  return code;
}

#endif /* MOE_TEST_EMULATOR_GOLDEN_CODES_H */
