/* Fp8.c - see Fp8.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Device/Fp8.h"

#include "lib/Device/Elements.h"
#include "lib/Device/Warp.h"

#include "mlir-c/BuiltinTypes.h"

#include <math.h>
#include <stdio.h>

#define F32_INFINITY 0x7F800000
#define F32_QUIET_NAN 0x7FC00000
#define F32_MANTISSA 0x007FFFFF
#define E8M0_NAN 255

/* What the formulas need of an element type. */
static const struct {
  int max_exponent; /* exponent of the largest finite value */
  float max_finite;
  int mantissa_bits;
  const char *mlir_type;
} FORMATS[] = {
    [MOE__E4M3] = {8, 448.0F, 3, "f8E4M3FN"},
    [MOE__E5M2] = {15, 57344.0F, 2, "f8E5M2"},
};

moe__fp8_t moe__fp8_of(MlirType tensor) {
  return mlirTypeIsAFloat8E4M3FN(mlirShapedTypeGetElementType(tensor)) ? MOE__E4M3 : MOE__E5M2;
}

bool moe__fp8_from_name(MlirStringRef name, moe__fp8_t *out) {
  for (int i = 0; i < (int)(sizeof FORMATS / sizeof *FORMATS); i++)
    if (mlirStringRefEqual(name, mlirStringRefCreateFromCString(FORMATS[i].mlir_type))) {
      *out = (moe__fp8_t)i;
      return true;
    }
  return false;
}

bool moe__mx_mode_from_name(MlirStringRef name, moe__mx_mode_t *out) {
  static const char *const names[] = {
#define MOE_MX_MODE(symbol, name) [MOE__##symbol] = (name),
#include "moe/mx_modes.def"
  };
  for (int i = 0; i < (int)(sizeof names / sizeof *names); i++)
    if (mlirStringRefEqual(name, mlirStringRefCreateFromCString(names[i]))) {
      *out = (moe__mx_mode_t)i;
      return true;
    }
  return false;
}

static MlirValue exponent(moe__builder_t *b, MlirValue bits) {
  return moe__lshr(b, bits, MOE__F32_MANTISSA_BITS);
}

/* The biased exponent, plus 1 where the mantissa is not zero. */
static MlirValue exponent_rounded_up(moe__builder_t *b, MlirValue bits) {
  return exponent(b, moe__add(b, bits, F32_MANTISSA));
}

static MlirValue multiply_bits(moe__builder_t *b, MlirValue bits, float factor) {
  MlirValue product = moe__fmul(b, moe__bitcast(b, bits, b->f32), moe__f32(b, factor));
  return moe__bitcast(b, product, b->i32);
}

MlirValue moe__mx_scale(moe__builder_t *b, MlirValue amax, moe__mx_mode_t mode,
                        moe__fp8_t element) {
  int max_exponent = FORMATS[element].max_exponent;
  float to_scale = ldexpf(1.0F, -max_exponent);
  /* NaN becomes Inf: both give 255, and no addition below can carry into the sign. */
  MlirValue bits = moe__umin(b, moe__bitcast(b, amax, b->i32), F32_INFINITY);
  switch (mode) {
  case MOE__FLOOR:
    return exponent(b, multiply_bits(b, bits, to_scale));
  case MOE__EVEN: {
    int half = 1 << (MOE__F32_MANTISSA_BITS - FORMATS[element].mantissa_bits - 1);
    MlirValue rounded = moe__and(b, moe__add(b, bits, half), F32_INFINITY);
    return exponent(b, multiply_bits(b, rounded, to_scale));
  }
  case MOE__RCEIL: {
    MlirValue d = multiply_bits(b, bits, 1.0F / FORMATS[element].max_finite);
    /* Byte 0 is 2^-127, half of the least normal number: up to there nothing is rounded up. */
    MlirValue tiny = moe__ult(b, d, 0x00400001);
    return moe__select(b, tiny, 0, exponent_rounded_up(b, d));
  }
  case MOE__CEIL: {
    MlirValue up = exponent_rounded_up(b, bits);
    MlirValue limit = moe__i32(b, max_exponent);
    MlirValue scale = moe__sub(b, up, moe__umin(b, up, limit));
    return moe__select(b, moe__eq(b, bits, F32_INFINITY), E8M0_NAN, scale);
  }
  }
  __builtin_unreachable();
}

MlirValue moe__mx_reciprocal(moe__builder_t *b, MlirValue scale) {
  /* Byte 254 would need a subnormal, but no finite amax has a scale above 247. */
  MlirValue bits = moe__shl(b, moe__sub(b, 254, scale), MOE__F32_MANTISSA_BITS);
  MlirValue is_nan = moe__eq(b, scale, E8M0_NAN);
  return moe__bitcast(b, moe__select(b, is_nan, F32_QUIET_NAN, bits), b->f32);
}

/* Slices with a smaller amax are scaled as if it were this. */
#define LEAST_AMAX 1e-12

MlirValue moe__fp8_factor(moe__builder_t *b, MlirValue amax_bits, moe__fp8_t element, bool pow2) {
  float max = FORMATS[element].max_finite;
  /* The least f32 that is not below 1e-12, and the factor of what is. For all others the quotient
   * in f32 is the one in double, rounded: double has more than twice the digits. */
  float least = (float)LEAST_AMAX;
  if ((double)least < LEAST_AMAX)
    least = nextafterf(least, INFINITY);
  float largest_factor = (float)((double)max / LEAST_AMAX);
  MlirValue is_small = moe__ult(b, amax_bits, moe__bitcast(b, moe__f32(b, least), b->i32));
  MlirValue quotient = moe__fdiv(b, moe__f32(b, max), moe__bitcast(b, amax_bits, b->f32));
  MlirValue factor = moe__select(b, is_small, moe__f32(b, largest_factor), quotient);
  if (!pow2)
    return factor;
  MlirValue is_nan = moe__ult(b, F32_INFINITY, amax_bits);
  MlirValue power = moe__and(b, moe__bitcast(b, factor, b->i32), F32_INFINITY);
  return moe__select(b, is_nan, factor, moe__bitcast(b, power, b->f32));
}

MlirValue moe__fp8_inverse(moe__builder_t *b, MlirValue factor) {
  return moe__fdiv(b, moe__f32(b, 1.0F), factor);
}

#define F32_POWER_MINUS_127 0x00400000

MlirValue moe__e8m0_value(moe__builder_t *b, MlirValue byte) {
  MlirValue bits = moe__shl(b, byte, MOE__F32_MANTISSA_BITS);
  MlirValue is_least = moe__eq(b, byte, 0);
  MlirValue is_nan = moe__eq(b, byte, E8M0_NAN);
  bits = moe__select(b, is_least, F32_POWER_MINUS_127, bits);
  return moe__bitcast(b, moe__select(b, is_nan, F32_QUIET_NAN, bits), b->f32);
}

MlirValue moe__fp8_evens_first(moe__builder_t *b, MlirValue thread, MlirValue vector) {
  MlirValue low = moe__extract(b, vector, 0), high = moe__extract(b, vector, 1);
  MlirValue evens = moe__pick_bytes(b, low, high, 0x6420);
  MlirValue odds = moe__pick_bytes(b, low, high, 0x7531);
  MlirValue is_first = moe__eq(b, moe__and(b, thread, 1), 0);
  MlirValue kept = moe__select(b, is_first, evens, odds);
  MlirValue other = moe__shuffle_xor(b, moe__select(b, is_first, odds, evens), 1);
  return moe__vector(
      b, 2,
      (MlirValue[]){moe__select(b, is_first, kept, other), moe__select(b, is_first, other, kept)});
}

void moe__fp8_widen4(moe__builder_t *b, MlirValue word, moe__fp8_t element, MlirValue out[2]) {
  MlirType f16 = moe__type(b, "f16"), bytes = moe__vector_type(b, 2, b->i8);
  MlirValue halves = moe__bitcast(b, word, moe__vector_type(b, 2, b->i16));
  char attributes[32];
  snprintf(attributes, sizeof attributes, "srcType = %s", FORMATS[element].mlir_type);
  for (int i = 0; i < 2; i++) {
    MlirValue pair = moe__bitcast(b, moe__extract(b, halves, i), bytes);
    out[i] = moe__op1(b, "nvvm.convert.f8x2.to.f16x2", moe__vector_type(b, 2, f16),
                      MOE__VALUES(pair), attributes);
  }
}

void moe__fp8_unpack4(moe__builder_t *b, MlirValue word, moe__fp8_t element, MlirValue out[4]) {
  MlirValue pairs[2];
  moe__fp8_widen4(b, word, element, pairs);
  for (int i = 0; i < 4; i++)
    out[i] =
        moe__op1(b, "llvm.fpext", b->f32, MOE__VALUES(moe__extract(b, pairs[i / 2], i % 2)), NULL);
}

MlirValue moe__fp8_pack4(moe__builder_t *b, const MlirValue x[4], moe__fp8_t element) {
  char attributes[128];
  snprintf(attributes, sizeof attributes,
           "rnd = #nvvm.fp_rnd_mode<rn>, sat = #nvvm.sat_mode<satfinite>, dstTy = %s",
           FORMATS[element].mlir_type);
  MlirValue halves[2];
  for (size_t i = 0; i < 2; i++) /* the first operand becomes the upper byte */
    halves[i] = moe__op1(b, "nvvm.convert.f32x2.to.f8x2", b->i16,
                         MOE__VALUES(x[2 * i + 1], x[2 * i]), attributes);
  return moe__bitcast(b, moe__vector(b, 2, halves), b->i32);
}
