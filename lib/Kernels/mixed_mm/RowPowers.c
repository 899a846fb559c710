/* RowPowers.c - powers of two that bring the scales of rows into the range of f16: see MixedMm.h.
 *
 * An integer from -8 to 8 has 3 significant bits but for powers of two, a scale of bf16 has 8, f16
 * has 11: their product is a number of f16, if its exponent is in range. So the scales of a row are
 * multiplied by a power of two, of which the sums of the row are multiples until they end.
 *
 * The power follows from the first scales of a tile's row, of which it leaves the greatest
 * 2^HEADROOM below what fits. Where a greater one does not fit, the power becomes less, and the
 * sums so far are multiplied by what it has lost. To look for the greatest of all before the tile
 * took longer: memory answers late.
 *
 * Tokens in f16 are in range alike: each has a scale (mx_quantize.quantize_f16).
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/mixed_mm/MixedMm.h"

#include "lib/Device/Elements.h"
#include "lib/Device/Warp.h"

#include "mlir-c/BuiltinTypes.h"

#define QUAD 4     /* lanes that have the same two rows */
#define HEADROOM 3 /* exponents above the greatest scale so far */
#define MAGNITUDE 0x7FFFFFFF

/* Exponents of a row's greatest scale, with their bias. Inf and NaN count as the greatest: nothing
 * of such a row is finite. */
#define GREATEST_EXPONENT 254

bool moe__mixed_has_row_powers(const moe__mixed_mm_t *s) {
  return s->schedule.scaled_weights && s->format != MOE__WEIGHT_E2M1 && mlirTypeIsAF16(s->x_type);
}

/* Factors are less than 2 to this power: the greatest magnitude of a weight times that is 2^16. */
static int end_of_range(void) {
  return 13;
}

static MlirValue bits_of(moe__builder_t *b, MlirValue value) {
  return moe__bitcast(b, value, b->i32);
}

/* The power (f32) that leaves a row's greatest scale, of which these are the bits, HEADROOM below
 * the end. */
static MlirValue power_of(moe__builder_t *b, MlirValue greatest) {
  int target = end_of_range() - 1 - HEADROOM;
  MlirValue exponent = moe__lshr(b, greatest, MOE__F32_MANTISSA_BITS);
  exponent = moe__umin(b, moe__umax(b, exponent, target + 1), GREATEST_EXPONENT);
  MlirValue power = moe__sub(b, moe__i32(b, 2 * MOE__F32_BIAS + target), exponent);
  return moe__bitcast(b, moe__shl(b, power, MOE__F32_MANTISSA_BITS), b->f32);
}

/* 1 / power, of a power of two. */
static MlirValue inverse_of(moe__builder_t *b, MlirValue power) {
  int32_t twice = (int32_t)((uint32_t)(2 * MOE__F32_BIAS) << MOE__F32_MANTISSA_BITS);
  return moe__bitcast(b, moe__sub(b, moe__i32(b, twice), bits_of(b, power)), b->f32);
}

/* The bits of the least scale that does not fit with this power. */
static MlirValue limit_of(moe__builder_t *b, MlirValue power) {
  uint32_t end = (uint32_t)(2 * MOE__F32_BIAS + end_of_range()) << MOE__F32_MANTISSA_BITS;
  return moe__sub(b, moe__i32(b, (int32_t)end), bits_of(b, power));
}

void moe__mixed_follow_scales(moe__mixed_mm_t *s, const MlirValue scales[][2], int count) {
  moe__builder_t *b = &s->kernel.builder;
  bool is_first = mlirValueIsNull(s->row_power[0]);
  MlirValue greatest[2];
  for (int h = 0; h < 2; h++)
    for (int i = 0; i < count; i++) {
      MlirValue magnitude = moe__and(b, bits_of(b, scales[i][h]), MAGNITUDE);
      greatest[h] = i ? moe__umax(b, greatest[h], magnitude) : magnitude;
    }
  if (is_first) {
    for (int h = 0; h < 2; h++) {
      for (int mask = 1; mask < QUAD; mask *= 2)
        greatest[h] = moe__umax(b, greatest[h], moe__shuffle_xor(b, greatest[h], mask));
      s->row_power[h] = power_of(b, greatest[h]);
    }
    s->power_changes = (MlirValue){NULL};
    return;
  }
  MlirValue exceeds[2], *power = s->row_power, *change = s->power_change;
  for (int h = 0; h < 2; h++) {
    exceeds[h] = moe__ult(b, greatest[h], limit_of(b, power[h]));
    change[h] = moe__f32(b, 1.0F);
  }
  MlirValue fits = moe__and(b, exceeds[0], exceeds[1]);
  MlirValue one = moe__i32(b, 1);
  s->power_changes = moe__warp_or(b, moe__select(b, fits, moe__i32(b, 0), one));
  MOE__FOR (b, once, 0, s->power_changes, 1, &power[0], &power[1], &change[0], &change[1]) {
    for (int h = 0; h < 2; h++) {
      MlirValue of_row = greatest[h];
      for (int mask = 1; mask < QUAD; mask *= 2)
        of_row = moe__umax(b, of_row, moe__shuffle_xor(b, of_row, mask));
      MlirValue stays = moe__ult(b, of_row, limit_of(b, power[h]));
      MlirValue now = moe__select(b, stays, power[h], power_of(b, of_row));
      change[h] = moe__fmul(b, now, inverse_of(b, power[h]));
      power[h] = now;
    }
  }
}

void moe__mixed_follow_power(moe__mixed_mm_t *s, moe__mixed_fragment_t sums) {
  moe__builder_t *b = &s->kernel.builder;
  if (!moe__mixed_has_row_powers(s) || mlirValueIsNull(s->power_changes))
    return;
  moe__accumulator_t sum = moe__accumulator_pack(b, s->n, sums);
  MOE__FOR (b, once, 0, s->power_changes, 1, &sum.value) {
    moe__mixed_fragment_t values;
    moe__accumulator_unpack(b, sum, values);
    for (int i = 0; i < s->n / 2; i++)
      values[i] = moe__fmul(b, values[i], s->power_change[i % 4 / 2]);
    sum = moe__accumulator_pack(b, s->n, values);
  }
  moe__accumulator_unpack(b, sum, sums);
}

void moe__mixed_inverse_powers(moe__mixed_mm_t *s, MlirValue out[2]) {
  for (int h = 0; h < 2; h++)
    out[h] = inverse_of(&s->kernel.builder, s->row_power[h]);
}
