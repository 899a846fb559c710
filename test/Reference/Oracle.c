/* Oracle.c - the numerics contract a second time, slowly and from its definitions.
 *
 * Why it exists: see Oracle.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "test/Reference/Oracle.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

_Static_assert(LDBL_MANT_DIG >= 64, "products of two fp32 numbers must be exact in long double");

float f32_of(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

uint32_t bits_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

int same_f32(float a, float b) {
  return bits_of(a) == bits_of(b) || (isnan(a) && isnan(b));
}

/* ---- 8-bit floats ---- */

static int max_code(moe_ref_dtype_t format) {
  return format == MOE_REF_E4M3 ? 0x7E : 0x7B;
}

static double fp8_value(moe_ref_dtype_t format, uint8_t byte) {
  const int mantissa_bits = format == MOE_REF_E4M3 ? 3 : 2;
  const int bias = format == MOE_REF_E4M3 ? 7 : 15;
  const int code = byte % 128;
  const int exponent = code >> mantissa_bits;
  const double fraction = ldexp(code % (1 << mantissa_bits), -mantissa_bits);
  double value = exponent == 0 ? ldexp(fraction, 1 - bias) : ldexp(1 + fraction, exponent - bias);
  if (format == MOE_REF_E5M2 && code == 0x7C)
    value = INFINITY;
  else if (code > max_code(format))
    value = NAN;
  return byte < 128 ? value : -value;
}

double oracle_fp8_value(moe_ref_dtype_t format, uint8_t byte) {
  static double values[2][256]; /* the slow tests ask for the same ones a billion times */
  static bool is_filled;
  if (!is_filled)
    for (int i = 0; i < 256; i++) {
      values[0][i] = fp8_value(MOE_REF_E4M3, (uint8_t)i);
      values[1][i] = fp8_value(MOE_REF_E5M2, (uint8_t)i);
    }
  is_filled = true;
  return values[format != MOE_REF_E4M3][byte];
}

double oracle_fp8_max(moe_ref_dtype_t format) {
  return oracle_fp8_value(format, (uint8_t)max_code(format));
}

/* The largest code whose value is at most |x|. */
static int code_below(moe_ref_dtype_t format, double x) {
  int low = 0, high = max_code(format);
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (oracle_fp8_value(format, (uint8_t)middle) <= fabs(x))
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

uint8_t oracle_fp8_from_f32(moe_ref_dtype_t format, float x) {
  if (isnan(x))
    return 0x7F;
  int code = code_below(format, x);
  if (code < max_code(format)) {
    const double below = fabs((double)x) - oracle_fp8_value(format, (uint8_t)code);
    const double above = oracle_fp8_value(format, (uint8_t)(code + 1)) - fabs((double)x);
    if (above < below || (above == below && code % 2 == 1))
      code++;
  }
  return (uint8_t)(signbit(x) ? code + 128 : code);
}

double oracle_fp8_half_ulp(moe_ref_dtype_t format, double x) {
  const int code = code_below(format, x);
  const int next = code < max_code(format) ? code + 1 : code;
  return (oracle_fp8_value(format, (uint8_t)next) - oracle_fp8_value(format, (uint8_t)(next - 1))) /
         2;
}

/* ---- bf16 ---- */

uint16_t oracle_bf16_from_f32(float x) {
  if (isnan(x))
    return 0x7FFF;
  const uint32_t kept = bits_of(x) / 65536, discarded = bits_of(x) % 65536;
  const int up = discarded > 32768 || (discarded == 32768 && kept % 2 == 1);
  return (uint16_t)(kept + (up ? 1 : 0));
}

/* ---- f16 ---- */

double oracle_f16_value(uint16_t bits) {
  const int code = bits % 32768, exponent = code / 1024;
  const double fraction = ldexp(code % 1024, -10);
  double value = exponent == 0 ? ldexp(fraction, -14) : ldexp(1 + fraction, exponent - 15);
  if (exponent == 31)
    value = code % 1024 == 0 ? INFINITY : NAN;
  return bits < 32768 ? value : -value;
}

uint16_t oracle_f16_from_f32(float x) {
  if (isnan(x))
    return 0x7FFF;
  int low = 0, high = 0x7BFF;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (oracle_f16_value((uint16_t)middle) <= fabs((double)x))
      low = middle;
    else
      high = middle - 1;
  }
  /* The neighbor above the largest number would be 65536; it is Inf. */
  const double next = low == 0x7BFF ? 65536 : oracle_f16_value((uint16_t)(low + 1));
  const double below = fabs((double)x) - oracle_f16_value((uint16_t)low);
  const double above = next - fabs((double)x);
  if (above < below || (above == below && low % 2 == 1))
    low++;
  return (uint16_t)(signbit(x) ? low + 32768 : low);
}

/* ---- Scales ---- */

/* A value >= 0 rounded to fp32, nearest even, by counting ulps. Inf past the largest finite value.
 */
static long double rounded_to_f32(long double value) {
  if (value == 0)
    return 0;
  const int exponent = ilogbl(value);
  const int ulp = exponent - 23 > -149 ? exponent - 23 : -149;
  long double count = floorl(ldexpl(value, -ulp));
  const long double rest = ldexpl(value, -ulp) - count;
  if (rest > 0.5L || (rest == 0.5L && fmodl(count, 2) == 1))
    count++;
  const long double result = ldexpl(count, ulp);
  return result < ldexpl(1, 128) ? result : INFINITY;
}

static uint8_t e8m0_at_most(long double d) {
  int byte = 0;
  for (long double next = 0x1p-126L; byte < 255 && next <= d; next *= 2)
    byte++;
  return (uint8_t)byte;
}

static uint8_t e8m0_at_least(long double d) {
  int byte = 0;
  for (long double power = 0x1p-127L; byte < 255 && power < d; power *= 2)
    byte++;
  return (uint8_t)byte;
}

uint8_t oracle_mx_scale(float amax, moe_ref_mx_mode_t mode, moe_ref_dtype_t element) {
  if (!isfinite(amax))
    return 255;
  const int mantissa_bits = element == MOE_REF_E4M3 ? 3 : 2;
  const int max_exponent = element == MOE_REF_E4M3 ? 8 : 15;
  const long double exact = amax;
  switch (mode) {
  case MOE_REF_FLOOR:
    return e8m0_at_most(rounded_to_f32(ldexpl(exact, -max_exponent)));
  case MOE_REF_RCEIL:
    /* The reciprocal in fp32: 1/7 is 0.001001...b, so its 24 bits round up to 0x924925. */
    return e8m0_at_least(rounded_to_f32(exact * ldexpl(0x924925, -23 - max_exponent - 1)));
  case MOE_REF_CEIL: {
    /* The least power of two that is at least amax. Below 2^-126 any of them ends at byte 0. */
    int exponent = -126;
    long double power = 0x1p-126L;
    while (power < exact) {
      power *= 2;
      exponent++;
    }
    const int byte = exponent - max_exponent + 127;
    return (uint8_t)(byte > 0 ? byte : 0);
  }
  case MOE_REF_EVEN: {
    /* Ties go up: only whether the mantissa carries into the exponent matters, and there up is
     * even. */
    if (exact < ldexpl(1, -126))
      return 0;
    const int ulp = ilogbl(exact) - mantissa_bits;
    const long double rounded = ldexpl(floorl(ldexpl(exact, -ulp) + 0.5L), ulp);
    const int exponent = ilogbl(rounded);
    if (exponent == 128)
      return 255;
    return e8m0_at_most(ldexpl(1, exponent - max_exponent));
  }
  }
  return 255;
}

uint64_t random_next(uint64_t *state) {
  uint64_t z = *state += 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}
