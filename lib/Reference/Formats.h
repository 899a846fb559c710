/* Formats.h - the element types as inline functions: each format's conversion to fp32 and back.
 *
 * Why it exists: the MX quantizer converts hundreds of millions of elements, and a call for each
 * would cost more than the conversion. Formats.c gives the same functions their public names.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_LIB_REFERENCE_FORMATS_H
#define MOE_LIB_REFERENCE_FORMATS_H

#include "moe/reference.h"

#include <float.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifdef __FAST_MATH__
#error "the numerics contract needs IEEE arithmetic: build without -ffast-math"
#endif
_Static_assert(FLT_EVAL_METHOD == 0, "fp32 arithmetic must not be carried out in a wider format");

enum {
  MOE__REF_F32_MANTISSA_BITS = 23,
  MOE__REF_F32_BIAS = 127,
  MOE__REF_F32_MAGNITUDE = 0x7FFFFFFF, /* every bit but the sign */
  MOE__REF_F32_INF = 0x7F800000,       /* a magnitude above it is a NaN */
  MOE__REF_F32_NAN = 0x7FC00000,
  MOE__REF_FP8_NAN = 0x7F,
  MOE__REF_HALF_NAN = 0x7FFF, /* of f16 and of bf16 */
};

static inline bool moe__ref_is_fp8(moe_ref_dtype_t dtype) {
  return dtype == MOE_REF_E4M3 || dtype == MOE_REF_E5M2;
}

static inline int32_t moe__ref_bits_from_f32(float x) {
  int32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static inline float moe__ref_f32_from_bits(int32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* |x| as bits. Magnitudes compare as integers in the order of their values, with NaN above Inf. */
static inline int32_t moe__ref_magnitude(float x) {
  return moe__ref_bits_from_f32(x) & MOE__REF_F32_MAGNITUDE;
}

/* 2^exponent, for exponents of normal numbers. */
static inline float moe__ref_power_of_two(int exponent) {
  return moe__ref_f32_from_bits((exponent + MOE__REF_F32_BIAS) << MOE__REF_F32_MANTISSA_BITS);
}

/* What tells one float of at most 16 bits from another. A code is the bits but for the sign. */
typedef struct moe__ref_small_float_t {
  int mantissa_bits;
  int bias;
  int max_exponent;  /* of the largest finite value */
  int32_t max_code;  /* what casts of larger values give: the largest finite value, or Inf */
  int32_t inf_code;  /* -1 where the format has no Inf */
  int32_t first_nan; /* this code and those above it are NaN */
} moe__ref_small_float_t;

static const moe__ref_small_float_t moe__ref_e4m3 = {3, 7, 8, 0x7E, -1, 0x7F};
static const moe__ref_small_float_t moe__ref_e5m2 = {2, 15, 15, 0x7B, 0x7C, 0x7D};
static const moe__ref_small_float_t moe__ref_f16 = {10, 15, 15, 0x7C00, 0x7C00, 0x7C01};

/* |x| -> code, round to nearest even; NaN gives max_code. Free of branches, so that loops over it
 * are vectorized. */
static inline int32_t moe__ref_code_from_f32(float x, moe__ref_small_float_t format) {
  const int dropped = MOE__REF_F32_MANTISSA_BITS - format.mantissa_bits;
  const int32_t magnitude = moe__ref_magnitude(x);

  /* A normal result: half an ulp less one, plus one where the kept part is odd, carries exactly
   * when RNE rounds up. */
  const int32_t half = 1 << (dropped - 1);
  const int32_t odd = (magnitude >> dropped) & 1;
  /* Past the largest finite value the sum must not overflow; what it would have been does not
   * matter there. */
  const int32_t bounded = magnitude < MOE__REF_F32_INF ? magnitude : MOE__REF_F32_INF;
  const int32_t rebias = (MOE__REF_F32_BIAS - format.bias) << format.mantissa_bits;
  const int32_t normal = ((bounded + half - 1 + odd) >> dropped) - rebias;

  /* A subnormal result: the ulp of this anchor is the least subnormal, so the fp32 addition rounds
   * to a multiple of it. */
  const int min_exponent = 1 - format.bias;
  const float anchor =
      moe__ref_power_of_two(min_exponent - format.mantissa_bits + MOE__REF_F32_MANTISSA_BITS);
  const float least_normal = moe__ref_power_of_two(min_exponent);
  const int32_t subnormal = moe__ref_bits_from_f32(moe__ref_f32_from_bits(magnitude) + anchor) -
                            moe__ref_bits_from_f32(anchor);

  const int32_t code = magnitude < moe__ref_bits_from_f32(least_normal) ? subnormal : normal;
  return code < format.max_code ? code : format.max_code;
}

/* Code and sign -> fp32, exact; NaN has no sign. */
static inline float moe__ref_f32_from_code(int32_t code, bool negative,
                                           moe__ref_small_float_t format) {
  const int min_exponent = 1 - format.bias;
  const int32_t rebias = (MOE__REF_F32_BIAS - format.bias) << format.mantissa_bits;

  float value;
  if (code >= format.first_nan)
    return moe__ref_f32_from_bits(MOE__REF_F32_NAN);
  if (code == format.inf_code)
    value = moe__ref_f32_from_bits(MOE__REF_F32_INF);
  else if (code < 1 << format.mantissa_bits)
    value = (float)code * moe__ref_power_of_two(min_exponent - format.mantissa_bits);
  else
    value = moe__ref_f32_from_bits((code + rebias)
                                   << (MOE__REF_F32_MANTISSA_BITS - format.mantissa_bits));
  return negative ? -value : value;
}

static inline uint8_t moe__ref_fp8_from_f32(float x, moe__ref_small_float_t format) {
  const int32_t sign = (moe__ref_bits_from_f32(x) >> 24) & 0x80;
  const int32_t code = moe__ref_code_from_f32(x, format) | sign;
  return (uint8_t)(moe__ref_magnitude(x) > MOE__REF_F32_INF ? MOE__REF_FP8_NAN : code);
}

static inline float moe__ref_f32_from_fp8(uint8_t byte, moe__ref_small_float_t format) {
  return moe__ref_f32_from_code(byte & 0x7F, byte & 0x80, format);
}

/* Unlike the 8-bit casts, those to f16 and bf16 give Inf for what is too large. */
static inline uint16_t moe__ref_f16_from_f32(float x) {
  const int32_t sign = (moe__ref_bits_from_f32(x) >> 16) & 0x8000;
  const int32_t code = moe__ref_code_from_f32(x, moe__ref_f16) | sign;
  return (uint16_t)(moe__ref_magnitude(x) > MOE__REF_F32_INF ? MOE__REF_HALF_NAN : code);
}

static inline float moe__ref_f32_from_f16(uint16_t bits) {
  return moe__ref_f32_from_code(bits & 0x7FFF, bits & 0x8000, moe__ref_f16);
}

/* bf16 is the upper half of fp32. */
static inline float moe__ref_f32_from_bf16(uint16_t bits) {
  return moe__ref_f32_from_bits((int32_t)((uint32_t)bits << 16));
}

static inline uint16_t moe__ref_bf16_from_f32(float x) {
  const uint32_t bits = (uint32_t)moe__ref_bits_from_f32(x);
  const uint32_t rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
  return (uint16_t)(moe__ref_magnitude(x) > MOE__REF_F32_INF ? MOE__REF_HALF_NAN : rounded);
}

/* E8M0 -> fp32, exact. 2^-127 is an fp32 subnormal: its exponent field is 0 and its leading bit is
 * explicit. */
static inline float moe__ref_f32_from_e8m0(uint8_t byte) {
  if (byte == 0)
    return moe__ref_f32_from_bits(1 << (MOE__REF_F32_MANTISSA_BITS - 1));
  if (byte == 255)
    return moe__ref_f32_from_bits(MOE__REF_F32_NAN);
  return moe__ref_f32_from_bits((int32_t)byte << MOE__REF_F32_MANTISSA_BITS);
}

/* ---- By element type ---- */

/* An element as fp32, exact; I32 and U8 have no part in arithmetic. */
static inline float moe__ref_element_load(moe_ref_dtype_t dtype, const void *data, int64_t index) {
  switch (dtype) {
  case MOE_REF_F32:
    return ((const float *)data)[index];
  case MOE_REF_BF16:
    return moe__ref_f32_from_bf16(((const uint16_t *)data)[index]);
  case MOE_REF_F16:
    return moe__ref_f32_from_f16(((const uint16_t *)data)[index]);
  case MOE_REF_E4M3:
    return moe__ref_f32_from_fp8(((const uint8_t *)data)[index], moe__ref_e4m3);
  case MOE_REF_E5M2:
    return moe__ref_f32_from_fp8(((const uint8_t *)data)[index], moe__ref_e5m2);
  case MOE_REF_E8M0:
    return moe__ref_f32_from_e8m0(((const uint8_t *)data)[index]);
  case MOE_REF_I32:
  case MOE_REF_U8:
    break;
  }
  return 0;
}

/* The least normal number of a type that a tensor core multiplies. */
static inline double moe__ref_least_normal(moe_ref_dtype_t dtype) {
  const int bias = dtype == MOE_REF_E4M3   ? moe__ref_e4m3.bias
                   : dtype == MOE_REF_E5M2 ? moe__ref_e5m2.bias
                   : dtype == MOE_REF_F16  ? moe__ref_f16.bias
                                           : MOE__REF_F32_BIAS;
  return moe__ref_power_of_two(1 - bias);
}

/* |x| of an operand as what a tensor core cuts off its products goes by: the exponent of a
 * subnormal number is that of the least normal one. */
static inline double moe__ref_operand_magnitude(double x, double least_normal) {
  const double magnitude = x < 0 ? -x : x;
  return magnitude > 0 && magnitude < least_normal ? least_normal : magnitude;
}

/* Casts an fp32 value to an element. Scales, offsets and bytes are integers from the start, and
 * nothing is cast to them. */
static inline void moe__ref_element_store(moe_ref_dtype_t dtype, void *data, int64_t index,
                                          float value) {
  switch (dtype) {
  case MOE_REF_F32:
    ((float *)data)[index] = value;
    return;
  case MOE_REF_BF16:
    ((uint16_t *)data)[index] = moe__ref_bf16_from_f32(value);
    return;
  case MOE_REF_F16:
    ((uint16_t *)data)[index] = moe__ref_f16_from_f32(value);
    return;
  case MOE_REF_E4M3:
    ((uint8_t *)data)[index] = moe__ref_fp8_from_f32(value, moe__ref_e4m3);
    return;
  case MOE_REF_E5M2:
    ((uint8_t *)data)[index] = moe__ref_fp8_from_f32(value, moe__ref_e5m2);
    return;
  case MOE_REF_E8M0:
  case MOE_REF_I32:
  case MOE_REF_U8:
    return;
  }
}

#endif /* MOE_LIB_REFERENCE_FORMATS_H */
