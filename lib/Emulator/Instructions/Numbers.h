/* Numbers.h - floating-point helpers that the instruction files share.
 *
 * Why it exists: a GPU's NaN results are one canonical pattern, and 16-bit arithmetic is rounded
 * once from the exact result. The casts themselves are libmoe_ref's.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_EMULATOR_INSTRUCTIONS_NUMBERS_H
#define MOE_EMULATOR_INSTRUCTIONS_NUMBERS_H

#include "lib/Emulator/Machine/Half.h"
#include "lib/Reference/Formats.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { MOE__EMU_NAN32 = 0x7FFFFFFF, MOE__EMU_NAN16 = 0x7FFF };

static inline float moe__emu_float(uint32_t bits) {
  return moe__ref_f32_from_bits((int32_t)bits);
}

/* The bits of a result. */
static inline uint32_t moe__emu_result(float value) {
  return value != value ? (uint32_t)MOE__EMU_NAN32 : (uint32_t)moe__ref_bits_from_f32(value);
}

static inline double moe__emu_double(uint64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static inline uint64_t moe__emu_result64(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return value != value ? UINT64_C(0x7FFFFFFFFFFFFFFF) : bits;
}

/* a + b, rounded to odd: what rounds it again to a much shorter format rounds as if once. */
static inline double moe__emu_add_odd(double a, double b) {
  double sum = a + b;
  double rest_b = sum - a, rest = (a - (sum - rest_b)) + (b - rest_b);
  uint64_t bits;
  memcpy(&bits, &sum, sizeof bits);
  if (rest != 0 && isfinite(sum) && !(bits & 1))
    bits += (rest > 0) == (sum > 0) ? 1 : -1;
  memcpy(&sum, &bits, sizeof bits);
  return sum;
}

/* fp64 -> fp32 -> 16 bits would round twice; to odd first, it does not. */
static inline float moe__emu_float_odd(double value) {
  float rounded = (float)value;
  uint32_t bits = (uint32_t)moe__ref_bits_from_f32(rounded);
  if (isfinite(rounded) && (double)rounded != value && !(bits & 1)) {
    bool is_smaller = fabs((double)rounded) < fabs(value);
    return moe__emu_float(is_smaller ? bits + 1 : bits - 1);
  }
  if (isinf(rounded) && isfinite(value))
    return copysignf(FLT_MAX, rounded);
  return rounded;
}

/* Toward zero. */
static inline float moe__emu_float_zero(double value) {
  float rounded = (float)value;
  uint32_t bits = (uint32_t)moe__ref_bits_from_f32(rounded);
  return fabs((double)rounded) > fabs(value) ? moe__emu_float(bits - 1) : rounded;
}

/* .ftz: a subnormal number is a zero of its sign. */
static inline uint32_t moe__emu_flush(uint32_t bits) {
  return bits & 0x7F800000 ? bits : bits & 0x80000000;
}

static inline uint16_t moe__emu_bf16_result(double value) {
  return moe__ref_bf16_from_f32(moe__emu_float_odd(value));
}

static inline uint16_t moe__emu_f16_result(double value) {
  return moe__ref_f16_from_f32(moe__emu_float_odd(value));
}

#endif /* MOE_EMULATOR_INSTRUCTIONS_NUMBERS_H */
