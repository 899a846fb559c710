/* RowPowers.c - powers of two that bring the scales of rows into the range of f16: see MixedMm.h.
 *
 * An integer from -8 to 8 has 3 significant bits but for powers of two, a scale of bf16 has 8, f16
 * has 11: their product is a number of f16, if its exponent is in range. So the scales of a row are
 * multiplied by a power of two, of which the sums of the row are multiples until they end. An E4M3
 * weight has 4 significant bits, is 448 at most and a multiple of 2^-9.
 *
 * The power follows from the first scales of a tile's row, of which it leaves the greatest
 * 2^HEADROOM below what fits. Where a greater one does not fit, the power becomes less, and the
 * sums so far are multiplied by what it has lost. To look for the greatest of all before the tile
 * took longer: memory answers late.
 *
 * Tokens in f16 are in range alike: each has a scale (mx_quantize.quantize_f16,
 * dequantize_f16).
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/mixed_mm/MixedMm.h"

#include "lib/Device/Elements.h"
#include "lib/Device/Warp.h"

#include "mlir-c/BuiltinTypes.h"

#define HEADROOM 3 /* exponents above the greatest scale so far */
#define MAGNITUDE 0x7FFFFFFF

/* Exponents of a row's greatest scale, with their bias. Inf and NaN count as the greatest: nothing
 * of such a row is finite. */
#define GREATEST_EXPONENT 254

bool moe__mixed_has_row_powers(const moe__mixed_mm_t *s) {
  return s->schedule.scaled_weights && s->format != MOE__WEIGHT_E2M1 && mlirTypeIsAF16(s->x_type);
}

/* Factors are less than 2 to this power: the greatest magnitude of a weight, 8 or 448, times the
 * greatest of them is less than 2^16. */
static int end_of_range(const moe__mixed_mm_t *s) {
  return s->format == MOE__WEIGHT_E4M3 ? 8 : 13;
}

/* ---- Powers of two ---- */

static MlirValue bits_of(moe__builder_t *b, MlirValue value) {
  return moe__bitcast(b, value, b->i32);
}

/* The bits of the power that leaves a row's greatest scale, of which these are the bits, HEADROOM
 * below the end. */
static MlirValue power_of(moe__mixed_mm_t *s, MlirValue greatest) {
  moe__builder_t *b = &s->kernel.builder;
  int target = end_of_range(s) - 1 - HEADROOM;
  MlirValue exponent = moe__lshr(b, greatest, MOE__F32_MANTISSA_BITS);
  exponent = moe__umin(b, moe__umax(b, exponent, target + 1), GREATEST_EXPONENT);
  MlirValue power = moe__sub(b, moe__i32(b, 2 * MOE__F32_BIAS + target), exponent);
  return moe__shl(b, power, MOE__F32_MANTISSA_BITS);
}

/* 1 / power, of the bits of a power of two. */
static MlirValue inverse_of(moe__builder_t *b, MlirValue power) {
  int32_t twice = (int32_t)((uint32_t)(2 * MOE__F32_BIAS) << MOE__F32_MANTISSA_BITS);
  return moe__bitcast(b, moe__sub(b, moe__i32(b, twice), power), b->f32);
}

/* The bits of the least scale that does not fit with this power. */
static MlirValue limit_of(moe__mixed_mm_t *s, MlirValue power) {
  moe__builder_t *b = &s->kernel.builder;
  uint32_t end = (uint32_t)(2 * MOE__F32_BIAS + end_of_range(s)) << MOE__F32_MANTISSA_BITS;
  return moe__sub(b, moe__i32(b, (int32_t)end), power);
}

/* The powers of both rows are numbers of bf16 in one word. */
static MlirValue pack_powers(moe__builder_t *b, const MlirValue bits[2]) {
  return moe__or(b, moe__lshr(b, bits[0], 16), bits[1]);
}

static void unpack_powers(moe__builder_t *b, MlirValue powers, MlirValue bits[2]) {
  bits[0] = moe__shl(b, powers, 16);
  bits[1] = moe__and(b, powers, (int32_t)0xFFFF0000);
}

/* ---- How they follow the scales ---- */

/* The greatest of the four lanes that have the row. */
static MlirValue greatest_of_row(moe__builder_t *b, MlirValue own) {
  for (int mask = 1; mask < MOE__MIXED_QUAD; mask *= 2)
    own = moe__umax(b, own, moe__shuffle_xor(b, own, mask));
  return own;
}

void moe__mixed_follow_scales(moe__mixed_mm_t *s, MlirValue scales[][2], int count) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue greatest[2] = {{NULL}, {NULL}}, bits[2], fits[2];
  for (int h = 0; h < 2; h++)
    for (int i = 0; i < count; i++) {
      MlirValue magnitude = moe__and(b, bits_of(b, scales[i][h]), MAGNITUDE);
      greatest[h] = i ? moe__umax(b, greatest[h], magnitude) : magnitude;
    }
  s->powers_before = s->row_powers;
  if (mlirValueIsNull(s->row_powers)) {
    for (int h = 0; h < 2; h++)
      bits[h] = power_of(s, greatest_of_row(b, greatest[h]));
    s->row_powers = pack_powers(b, bits);
  } else {
    unpack_powers(b, s->row_powers, bits);
    for (int h = 0; h < 2; h++)
      fits[h] = moe__ult(b, greatest[h], limit_of(s, bits[h]));
    MlirValue changes =
        moe__select(b, moe__and(b, fits[0], fits[1]), moe__i32(b, 0), moe__i32(b, 1));
    /* So that LLVM knows that the loops run once. */
    s->powers_change = moe__and(b, moe__warp_or(b, changes), 1);
    MOE__FOR (b, once, 0, s->powers_change, 1, &s->row_powers) {
      MlirValue now[2];
      unpack_powers(b, s->row_powers, bits);
      for (int h = 0; h < 2; h++) {
        MlirValue of_row = greatest_of_row(b, greatest[h]);
        MlirValue stays = moe__ult(b, of_row, limit_of(s, bits[h]));
        now[h] = moe__select(b, stays, bits[h], power_of(s, of_row));
      }
      s->row_powers = pack_powers(b, now);
    }
  }
  unpack_powers(b, s->row_powers, bits);
  for (int i = 0; i < count; i++)
    for (int h = 0; h < 2; h++)
      scales[i][h] = moe__fmul(b, scales[i][h], moe__bitcast(b, bits[h], b->f32));
}

void moe__mixed_follow_powers(moe__mixed_mm_t *s, moe__mixed_fragment_t sums) {
  moe__builder_t *b = &s->kernel.builder;
  if (!moe__mixed_has_row_powers(s) || mlirValueIsNull(s->powers_before))
    return;
  moe__accumulator_t sum = moe__accumulator_pack(b, s->n, sums);
  MOE__FOR (b, once, 0, s->powers_change, 1, &sum.value) {
    moe__mixed_fragment_t values;
    MlirValue before[2], now[2], change[2];
    unpack_powers(b, s->powers_before, before);
    unpack_powers(b, s->row_powers, now);
    for (int h = 0; h < 2; h++)
      change[h] = moe__fmul(b, moe__bitcast(b, now[h], b->f32), inverse_of(b, before[h]));
    moe__accumulator_unpack(b, sum, values);
    for (int i = 0; i < s->n / 2; i++)
      values[i] = moe__fmul(b, values[i], change[i % 4 / 2]);
    sum = moe__accumulator_pack(b, s->n, values);
  }
  moe__accumulator_unpack(b, sum, sums);
}

void moe__mixed_inverse_powers(moe__mixed_mm_t *s, MlirValue out[2]) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue bits[2];
  unpack_powers(b, s->row_powers, bits);
  for (int h = 0; h < 2; h++)
    out[h] = inverse_of(b, bits[h]);
}
