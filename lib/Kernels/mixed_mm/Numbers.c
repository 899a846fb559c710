/* Numbers.c - what a lane reads of a stage: its weights, scales and zero points; see MixedMm.h.
 *
 * A stage has, for each group of its columns, the numbers of all rows side by side, and for each
 * panel its chunks of 64 columns, of which a lane has 16 bytes.
 *
 * FP8 weights are lines of 128 columns of all rows, in the 128-byte swizzle. An ldmatrix gives a
 * lane four bytes side by side of each row and 16 columns, where a fragment has two and two: that
 * is why the layout "1x16" has another order.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Device/Elements.h"
#include "lib/Kernels/mixed_mm/MixedMm.h"

#include "mlir-c/BuiltinTypes.h"

static bool has_integers(const moe__mixed_mm_t *s) {
  return s->format != MOE__WEIGHT_E2M1 && s->format != MOE__WEIGHT_E4M3;
}

bool moe__mixed_rescales(const moe__mixed_mm_t *s) {
  return s->schedule.long_sums && has_integers(s) && mlirTypeIsABF16(s->x_type);
}

int moe__mixed_piece_columns(const moe__mixed_mm_t *s) {
  bool has_scales = s->schedule.scaled_weights && !s->schedule.panels && !moe__mixed_rescales(s);
  return s->group && s->group < MOE_WEIGHT_COLUMNS && !has_scales ? s->group : MOE_WEIGHT_COLUMNS;
}

/* What an E8M0 byte (i32) stands for, as f32, with fewer instructions than moe__e8m0_value: there
 * is one for each row and group. The maximum makes 2^-127 of byte 0. Byte 255 gives Inf, of which
 * the fma, x * 0 + x, makes NaN; it leaves all others as they are. */
static MlirValue e8m0_value(moe__builder_t *b, MlirValue byte) {
  MlirValue bits = moe__umax(b, moe__shl(b, byte, 23), 0x00400000);
  MlirValue value = moe__bitcast(b, bits, b->f32);
  return moe__fma(b, value, moe__bitcast(b, moe__i32(b, 0), b->f32), value);
}

/* A scale in shared memory, as f32. */
static MlirValue load_scale(moe__mixed_mm_t *s, MlirValue from) {
  moe__builder_t *b = &s->kernel.builder;
  if (mlirTypeIsAF32(s->scale_type))
    return moe__load(b, from, b->f32);
  if (mlirTypeIsABF16(s->scale_type))
    return moe__bitcast(b, moe__shl(b, moe__zext(b, moe__load(b, from, b->i16), b->i32), 16),
                        b->f32);
  if (mlirTypeIsAF16(s->scale_type))
    return moe__op1(b, "llvm.fpext", b->f32, MOE__VALUES(moe__load(b, from, s->scale_type)), NULL);
  return e8m0_value(b, moe__zext(b, moe__load(b, from, b->i8), b->i32));
}

/* Where the number of the lane's first row is, of numbers of so many bytes that begin at `from` in
 * the stage; that of the second row is 8 numbers further. */
static MlirValue of_row(moe__mixed_mm_t *s, const moe__mixed_position_t *self, MlirValue buffer,
                        int from, int bytes, moe__mixed_number_t number) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue row =
      moe__add(b, moe__mul(b, self->panel, MOE_WEIGHT_ROWS), moe__lshr(b, self->lane, 2));
  int unit = moe__mixed_box_rows(&s->schedule) * bytes;
  MlirValue own = moe__offset(b, buffer, moe__mul(b, row, bytes));
  if (s->schedule.common) { /* the numbers of each warpgroup lie by themselves */
    int others = moe__mixed_scales_of_stage(s->group, s->schedule.depth) - 1;
    own = moe__offset(b, own, moe__mul(b, moe__lshr(b, self->panel, 2), others * unit));
  }
  if (!mlirValueIsNull(number.first))
    own = moe__offset(b, own, moe__mul(b, number.first, unit));
  return moe__offset_by(b, own, from + number.constant * unit);
}

/* The same of scale `number` where the scales of a row lie side by side. */
static MlirValue scales_of_row(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                               MlirValue buffer, moe__mixed_number_t number) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue row =
      moe__add(b, moe__mul(b, self->panel, MOE_WEIGHT_ROWS), moe__lshr(b, self->lane, 2));
  MlirValue own =
      moe__offset(b, buffer, moe__add(b, moe__mul(b, row, MOE__MIXED_ROW_SCALES), s->row_scale));
  if (!mlirValueIsNull(number.first))
    own = moe__offset(b, own, number.first);
  return moe__offset_by(b, own, s->layout.scales + number.constant);
}

/* Where scale `number` of the lane's row `h` is. */
static MlirValue place_of(moe__mixed_mm_t *s, const moe__mixed_position_t *self, MlirValue buffer,
                          moe__mixed_number_t number, int h) {
  int bytes = moe__mixed_scale_bytes(s->scale_type);
  int row = s->layout.scales_of_rows ? MOE__MIXED_ROW_SCALES : bytes;
  MlirValue own = s->layout.scales_of_rows
                      ? scales_of_row(s, self, buffer, number)
                      : of_row(s, self, buffer, s->layout.scales, bytes, number);
  return moe__offset_by(&s->kernel.builder, own, 8 * h * row);
}

void moe__mixed_load_scales(moe__mixed_mm_t *s, const moe__mixed_position_t *self, MlirValue buffer,
                            moe__mixed_number_t number, MlirValue out[2]) {
  for (int h = 0; h < 2; h++)
    out[h] = load_scale(s, place_of(s, self, buffer, number, h));
}

bool moe__mixed_divides_scales(const moe__mixed_mm_t *s, int count) {
  return !mlirValueIsNull(s->offs) && mlirTypeIsAFloat8E8M0FNU(s->scale_type) &&
         count % MOE__MIXED_QUAD == 0 && s->schedule.tile_n <= 16 && s->schedule.token_parts == 1 &&
         !s->schedule.direct;
}

/* Of the numbers from `first` (i32; null: 0) on, the first that is the lane's own: each of the four
 * lanes that have the same two rows has every fourth one. */
static MlirValue first_own(moe__mixed_mm_t *s, const moe__mixed_position_t *self, MlirValue first) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue own = moe__and(b, self->lane, MOE__MIXED_QUAD - 1);
  return mlirValueIsNull(first) ? own : moe__add(b, own, first);
}

/* Number `number` of both rows, from the lane whose own it is. */
static void share_own(moe__mixed_mm_t *s, const MlirValue own[][2], int number, MlirValue out[2]) {
  for (int h = 0; h < 2; h++)
    out[h] = moe__shuffle_among(&s->kernel.builder, own[number / MOE__MIXED_QUAD][h],
                                number % MOE__MIXED_QUAD, MOE__MIXED_QUAD);
}

void moe__mixed_load_own_scales(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                                MlirValue buffer, MlirValue first, int count,
                                moe__mixed_own_scales_t *out) {
  MlirValue own = first_own(s, self, first);
  for (int i = 0; i < count / MOE__MIXED_QUAD; i++)
    moe__mixed_load_scales(s, self, buffer, (moe__mixed_number_t){own, MOE__MIXED_QUAD * i},
                           out->scales[i]);
}

void moe__mixed_share_scales(moe__mixed_mm_t *s, const moe__mixed_own_scales_t *own, int number,
                             MlirValue out[2]) {
  share_own(s, own->scales, number, out);
}

/* What the exponent of a bf16 has more than that of a weight. */
static int bias_of(const moe__mixed_mm_t *s) {
  return s->format == MOE__WEIGHT_E4M3 ? 120 : 126;
}

/* What weights are multiplied by where the byte (i32) is that of their E8M0 scale. The minimum
 * makes Inf of what is too great, and the fma, x * 0 + x, NaN of that. */
static MlirValue factor_of(moe__mixed_mm_t *s, MlirValue byte) {
  moe__builder_t *b = &s->kernel.builder;
  MlirType pair = moe__vector_type(b, 2, b->i16), type = moe__vector_type(b, 2, s->x_type);
  int more = bias_of(s) - MOE__MIXED_DIVISOR_EXPONENT;
  MlirValue bits = moe__add(b, moe__mul(b, byte, 0x00800080), more * 0x00800080);
  MlirValue infinite = moe__bitcast(b, moe__i32(b, 0x7F807F80), pair);
  MlirValue value = moe__bitcast(b, moe__umin(b, moe__bitcast(b, bits, pair), infinite), type);
  MlirValue zero = moe__bitcast(b, moe__i32(b, 0), type);
  return moe__bitcast(b, moe__fma(b, value, zero, value), b->i32);
}

static void load_factors(moe__mixed_mm_t *s, const moe__mixed_position_t *self, MlirValue buffer,
                         moe__mixed_number_t number, MlirValue out[2]) {
  moe__builder_t *b = &s->kernel.builder;
  for (int h = 0; h < 2; h++) {
    MlirValue byte = moe__load(b, place_of(s, self, buffer, number, h), b->i8);
    out[h] = factor_of(s, moe__zext(b, byte, b->i32));
  }
}

int moe__mixed_own_factors(const moe__mixed_mm_t *s) {
  bool is_timed = s->schedule.behind || s->schedule.panels ||
                  (s->format != MOE__WEIGHT_E4M3 && !mlirValueIsNull(s->offs));
  bool divides = s->schedule.scaled_weights && is_timed && !moe__mixed_rescales(s);
  int count = moe__mixed_scales_of_stage(s->group, s->schedule.depth) / s->schedule.slices;
  if (moe__mixed_has_row_powers(s))
    return (count + MOE__MIXED_QUAD - 1) / MOE__MIXED_QUAD;
  return divides && count % MOE__MIXED_QUAD == 0 ? count / MOE__MIXED_QUAD : 0;
}

int moe__mixed_factor_words(const moe__mixed_mm_t *s) {
  return moe__mixed_has_row_powers(s) ? 1 : 2;
}

/* The same of scales that are in range of f16 with the powers of their rows. Lanes that have no
 * scale of their own have the last one. */
static void load_in_range(moe__mixed_mm_t *s, const moe__mixed_position_t *self, MlirValue buffer) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue scales[MOE__MIXED_MOST_OWN_FACTORS][2];
  int count = moe__mixed_own_factors(s);
  int last = moe__mixed_scales_of_stage(s->group, s->schedule.depth) - 1;
  for (int i = 0; i < count; i++) {
    MlirValue own = moe__add(b, first_own(s, self, (MlirValue){NULL}), MOE__MIXED_QUAD * i);
    moe__mixed_load_scales(s, self, buffer, (moe__mixed_number_t){moe__umin(b, own, last), 0},
                           scales[i]);
  }
  moe__mixed_follow_scales(s, scales, count);
  for (int i = 0; i < count; i++)
    s->own_factors[i][0] = moe__pack_halves(b, s->x_type, scales[i]);
}

/* Twice half `h` of a word: an operand of a multiplication, which takes it so. */
static MlirValue both_halves(moe__mixed_mm_t *s, MlirValue word, int h) {
  moe__builder_t *b = &s->kernel.builder;
  MlirType pair = moe__vector_type(b, 2, s->x_type);
  MlirValue half = moe__extract(b, moe__bitcast(b, word, pair), h);
  return moe__bitcast(b, moe__vector(b, 2, (MlirValue[]){half, half}), b->i32);
}

void moe__mixed_load_own_factors(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                                 MlirValue buffer, MlirValue first) {
  if (moe__mixed_has_row_powers(s)) {
    load_in_range(s, self, buffer);
    return;
  }
  MlirValue own = first_own(s, self, first);
  for (int i = 0; i < moe__mixed_own_factors(s); i++)
    load_factors(s, self, buffer, (moe__mixed_number_t){own, MOE__MIXED_QUAD * i},
                 s->own_factors[i]);
}

void moe__mixed_load_factors(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                             MlirValue buffer, int number, MlirValue out[2]) {
  if (moe__mixed_has_row_powers(s)) {
    MlirValue of_rows = s->own_factors[number / MOE__MIXED_QUAD][0];
    if (moe__mixed_scales_of_stage(s->group, s->schedule.depth) > 1)
      of_rows = moe__shuffle_among(&s->kernel.builder, of_rows, number % MOE__MIXED_QUAD,
                                   MOE__MIXED_QUAD);
    for (int h = 0; h < 2; h++)
      out[h] = both_halves(s, of_rows, h);
  } else if (moe__mixed_own_factors(s))
    share_own(s, s->own_factors, number, out);
  else
    load_factors(s, self, buffer, (moe__mixed_number_t){.constant = number}, out);
}

/* Scales beyond these, of fp32, are multiplied by others, so that neither their factors nor what is
 * subtracted from weights, times these, leaves the range of bf16. */
#define SMALL_BITS ((MOE__F32_BIAS - 100) << MOE__F32_MANTISSA_BITS)
#define LARGE_BITS ((MOE__F32_BIAS + 120) << MOE__F32_MANTISSA_BITS)
#define SMALL_BY 0x1p32F
#define LARGE_BY 0x1p16F

/* A scale as factor of weights, its highest four bits (i32, twice a bf16), and what is left of it,
 * above / below. */
typedef struct divided_t {
  MlirValue factor, above, below;
} divided_t;

static divided_t divide_scale(moe__mixed_mm_t *s, MlirValue scale) {
  moe__builder_t *b = &s->kernel.builder;
  bool wide = mlirTypeIsABF16(s->scale_type); /* a range as that of fp32 */
  MlirValue one = moe__f32(b, 1.0F), by = one, unit_by = one;
  if (wide) {
    MlirValue magnitude = moe__and(b, moe__bitcast(b, scale, b->i32), 0x7FFFFFFF);
    MlirValue small = moe__ult(b, magnitude, SMALL_BITS);
    MlirValue large = moe__ult(b, moe__i32(b, LARGE_BITS - 1), magnitude);
    scale = moe__select(b, small, moe__fmul(b, scale, moe__f32(b, SMALL_BY)), scale);
    by = moe__select(b, small, moe__f32(b, 1 / SMALL_BY),
                     moe__select(b, large, moe__f32(b, 1 / LARGE_BY), one));
    unit_by = moe__select(b, large, moe__f32(b, LARGE_BY), one);
  }
  MlirValue bits = moe__bitcast(b, scale, b->i32);
  MlirValue mantissa = moe__or(b, moe__and(b, bits, (int32_t)0x807FFFFF), 0x3F800000);
  MlirValue digits = moe__or(b, moe__and(b, bits, 0x00700000), 0x3F800000);
  MlirValue factor = moe__bitcast(b, moe__and(b, bits, 0x7FF00000), b->f32);
  MlirValue half = moe__bitcast(b, wide ? moe__fmul(b, factor, by) : factor, b->i32);
  MlirValue above = moe__bitcast(b, mantissa, b->f32);
  return (divided_t){.factor = moe__or(b, half, moe__lshr(b, half, 16)),
                     .above = wide ? moe__fmul(b, above, unit_by) : above,
                     .below = moe__bitcast(b, digits, b->f32)};
}

/* x / y, rounded, of numbers near 1. */
static MlirValue quotient(moe__builder_t *b, MlirValue x, MlirValue y) {
  MlirValue inverse = moe__op1(b, "nvvm.rcp.approx.ftz.f", b->f32, MOE__VALUES(y), NULL);
  MlirValue near = moe__fmul(b, x, inverse);
  MlirValue negative =
      moe__bitcast(b, moe__xor(b, moe__bitcast(b, near, b->i32), INT32_MIN), b->f32);
  return moe__fma(b, moe__fma(b, negative, y, x), inverse, near);
}

int moe__mixed_own_units(const moe__mixed_mm_t *s) {
  int numbers = moe__mixed_scales_of_stage(s->group, s->schedule.depth);
  return numbers > 2 ? numbers / 2 : 1;
}

void moe__mixed_first_units(moe__mixed_mm_t *s, moe__mixed_units_t *units) {
  units->above = units->below = moe__f32(&s->kernel.builder, 1.0F);
}

void moe__mixed_load_units(moe__mixed_mm_t *s, const moe__mixed_position_t *self, MlirValue buffer,
                           moe__mixed_units_t *units) {
  moe__builder_t *b = &s->kernel.builder;
  int bytes = moe__mixed_scale_bytes(s->scale_type);
  bool one_number = moe__mixed_scales_of_stage(s->group, s->schedule.depth) == 1;
  MlirValue lane = moe__and(b, self->lane, MOE__MIXED_QUAD - 1);
  MlirValue own =
      of_row(s, self, buffer, s->layout.scales, bytes, (moe__mixed_number_t){.constant = 0});
  own = moe__offset(b, own, moe__mul(b, moe__and(b, lane, 1), 8 * bytes));
  int number_bytes = moe__mixed_box_rows(&s->schedule) * bytes;
  if (!one_number)
    own = moe__offset(b, own, moe__mul(b, moe__lshr(b, lane, 1), number_bytes));
  MlirValue is_lower = moe__ult(b, lane, 2);
  for (int i = 0; i < moe__mixed_own_units(s); i++) {
    divided_t scale = divide_scale(s, load_scale(s, moe__offset_by(b, own, 2 * i * number_bytes)));
    MlirValue above = units->above, below = units->below;
    if (!one_number) {
      above = moe__shuffle_xor(b, moe__select(b, is_lower, scale.above, above), 2);
      below = moe__shuffle_xor(b, moe__select(b, is_lower, scale.below, below), 2);
    }
    units->factors[i] = scale.factor;
    units->ratios[i] =
        quotient(b, moe__fmul(b, above, scale.below), moe__fmul(b, below, scale.above));
    units->above = scale.above;
    units->below = scale.below;
  }
}

/* The lane of a quad that has the number of the lane's row `half`. */
static int lane_of(moe__mixed_mm_t *s, int number, int half) {
  return moe__mixed_scales_of_stage(s->group, s->schedule.depth) == 1 ? half
                                                                      : number % 2 * 2 + half;
}

void moe__mixed_share_unit(moe__mixed_mm_t *s, const moe__mixed_units_t *units, int number,
                           MlirValue factors[2], MlirValue ratios[2]) {
  moe__builder_t *b = &s->kernel.builder;
  for (int h = 0; h < 2; h++) {
    int lane = lane_of(s, number, h);
    factors[h] = moe__shuffle_among(b, units->factors[number / 2], lane, MOE__MIXED_QUAD);
    ratios[h] = moe__shuffle_among(b, units->ratios[number / 2], lane, MOE__MIXED_QUAD);
  }
}

void moe__mixed_last_units(moe__mixed_mm_t *s, const moe__mixed_units_t *units, MlirValue out[2]) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue own = quotient(b, units->above, units->below);
  int last = moe__mixed_scales_of_stage(s->group, s->schedule.depth) - 1;
  for (int h = 0; h < 2; h++)
    out[h] = moe__shuffle_among(b, own, lane_of(s, last, h), MOE__MIXED_QUAD);
}

void moe__mixed_load_subtrahends(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                                 MlirValue buffer, moe__mixed_number_t number, MlirValue out[2]) {
  moe__builder_t *b = &s->kernel.builder;
  if (mlirValueIsNull(s->zero_map)) {
    moe__mixed_subtrahends(s, NULL, out);
    return;
  }
  MlirValue own = of_row(s, self, buffer, s->layout.zeros, 1, number), zeros[2];
  for (int h = 0; h < 2; h++) {
    MlirValue byte = moe__load(b, moe__offset_by(b, own, 8 * h), b->i8);
    zeros[h] = moe__and(b, moe__zext(b, byte, b->i32), 0xF);
  }
  moe__mixed_subtrahends(s, zeros, out);
}

MlirValue moe__mixed_load_words(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                                MlirValue buffer, moe__mixed_number_t chunk) {
  moe__builder_t *b = &s->kernel.builder;
  int chunks = s->schedule.depth / MOE_WEIGHT_COLUMNS;
  MlirValue panel = moe__mul(b, self->panel, chunks * MOE_WEIGHT_BYTES);
  MlirValue own = moe__offset(b, buffer, moe__add(b, panel, moe__shl(b, self->lane, 4)));
  if (!mlirValueIsNull(chunk.first))
    own = moe__offset(b, own, moe__mul(b, chunk.first, MOE_WEIGHT_BYTES));
  return moe__load_aligned(
      b, moe__offset_by(b, own, s->layout.weights + chunk.constant * MOE_WEIGHT_BYTES),
      moe__vector_type(b, MOE__MIXED_STEPS, b->i32), 16);
}

#define MATRIX_BYTES 16 /* of a row */
#define MATRICES 4      /* of an ldmatrix: both halves of the panel's rows, two steps */

/* Lane l names row l % 8 of matrix l / 8. */
void moe__mixed_load_fp8(moe__mixed_mm_t *s, const moe__mixed_position_t *self, MlirValue buffer,
                         int chunk, MlirValue out[2 * MOE__MIXED_STEPS]) {
  moe__builder_t *b = &s->kernel.builder;
  int of_line = MOE__MIXED_LINE / MOE_WEIGHT_COLUMNS;
  MlirValue row = moe__add(b, moe__mul(b, self->panel, MOE_WEIGHT_ROWS),
                           moe__and(b, self->lane, MOE_WEIGHT_ROWS - 1));
  MlirValue vector = moe__xor(b, moe__lshr(b, self->lane, 4), moe__and(b, self->lane, 7));
  MlirValue own = moe__add(b, moe__mul(b, row, MOE__MIXED_LINE), moe__shl(b, vector, 4));
  int line = chunk / of_line * moe__mixed_rows(&s->schedule) * MOE__MIXED_LINE;
  for (int i = 0; i < MOE__MIXED_STEPS; i += 2) {
    int first = chunk % of_line * MOE_WEIGHT_COLUMNS + i * MATRIX_BYTES;
    MlirValue from = moe__offset(b, buffer, moe__xor(b, own, first));
    moe__load_matrix(b, moe__offset_by(b, from, s->layout.weights + line),
                     out + (ptrdiff_t)i * MATRICES / 2);
  }
}

void moe__mixed_release(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                        moe__cursor_t cursor) {
  moe__builder_t *b = &s->kernel.builder;
  if (s->schedule.direct) /* loads of numbers wait behind those of weights from memory */
    moe__end_reads_of_stage(b);
  else
    moe__warp_barrier(b);
  MOE__IF (b, moe__ult(b, self->lane, s->schedule.share)) {
    if (s->schedule.share > 1)
      moe__ring_release_remote(&s->kernel, &s->layout.ring, cursor, self->lane);
    else
      moe__ring_release(&s->kernel, &s->layout.ring, cursor);
  }
}
