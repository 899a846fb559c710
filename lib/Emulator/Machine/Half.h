/* Half.h - f16 to fp32.
 *
 * Why it exists: f16 is an operand type of wgmma but no type of the numerics contract, so that
 * libmoe_ref has no cast for it.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_EMULATOR_MACHINE_HALF_H
#define MOE_EMULATOR_MACHINE_HALF_H

#include <math.h>
#include <stdint.h>

/* Exact; a NaN gives a quiet NaN. */
static inline float moe__emu_f32_from_f16(uint16_t bits) {
  const int exponent = bits >> 10 & 0x1F;
  const int mantissa = bits & 0x3FF;
  float magnitude;
  if (exponent == 0x1F)
    magnitude = mantissa ? NAN : INFINITY;
  else if (exponent == 0)
    magnitude = ldexpf((float)mantissa, -24);
  else
    magnitude = ldexpf((float)(mantissa | 0x400), exponent - 25);
  return bits >> 15 ? -magnitude : magnitude;
}

#endif /* MOE_EMULATOR_MACHINE_HALF_H */
