/* Weights.c - four or eight bits become bf16 or f16: see MixedMm.h.
 *
 * A word has eight weights, of integers nibble i and nibble i + 4 those of register i. Where one
 * stands in the mantissa of a number whose last place is worth 1, it is that number plus the
 * nibble; the number goes away by one fma. Two's complement turns into an excess of 8 by flipping
 * the sign bit, which costs nothing: the instruction that puts the nibble in place flips it.
 *
 * An E2M1 value is moved to the sign, the lowest bits of the exponent and the highest of the
 * mantissa; the exponent is corrected by one multiplication, which is exact also of subnormals. Its
 * bits lie in the word where that is cheap (Layout.h).
 *
 * An E4M3 value is moved likewise, and its scale has the correction in it. Only NaN is no longer
 * one then: it is the greatest of magnitudes, so the greatest one of a row shows it.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Device/Elements.h"
#include "lib/Device/Fp8.h"
#include "lib/Kernels/mixed_mm/Layout.h"
#include "lib/Kernels/mixed_mm/MixedMm.h"

#include "mlir-c/BuiltinTypes.h"

#define EXCESS 8
#define TWICE(half) ((int32_t)((uint32_t)(half)*0x10001u))

/* What differs between bf16 and f16, by the lane's row: registers of the first and of the second
 * one take turns. In f16 nibbles of the second row stand at bits 4 to 7: 1024 + 16 q, times
 * 1/16. */
typedef struct halves_t {
  uint16_t magic;     /* the number whose last place is worth 1 */
  int at[2];          /* the lowest bit of a nibble */
  uint16_t factor[2]; /* 1, or 1/16 */
  uint16_t minus[2];  /* -magic, times that */
  int mantissa;       /* the place of an E2M1 value's mantissa; its exponent is beside it */
  uint16_t power;     /* 2^(difference of the exponents' biases) */
} halves_t;

static const halves_t BF16 = {0x4300, {0, 0}, {0x3F80, 0x3F80}, {0xC300, 0xC300}, 6, 0x7E80};
static const halves_t F16 = {0x6400, {0, 4}, {0x3C00, 0x2C00}, {0xE400, 0xD400}, 9, 0x7400};

/* Subnormal numbers of bf16 and those of the next exponent are the integers up to 255 times 2^-133,
 * so that nibbles of the second row stand at bits 4 to 7. The factors are 2^126 and 2^122: the
 * numbers are 2^-7 of the integers. */
static const halves_t SUBNORMAL = {.magic = 0, .at = {0, 4}, .factor = {0x7E80, 0x7C80}};

static const halves_t *halves_of(const moe__mixed_mm_t *s) {
  if (s->schedule.subnormal)
    return &SUBNORMAL;
  return mlirTypeIsABF16(s->x_type) ? &BF16 : &F16;
}

/* What an integer's bits are more than its value. */
static int excess_of(const moe__mixed_mm_t *s) {
  return s->format == MOE__WEIGHT_UI4 ? 0 : EXCESS;
}

/* x * y + z of the halves of words. */
static MlirValue fma_halves(moe__mixed_mm_t *s, MlirValue x, MlirValue y, MlirValue z) {
  moe__builder_t *b = &s->kernel.builder;
  MlirType type = moe__vector_type(b, 2, s->x_type);
  MlirValue factor = moe__bitcast(b, y, type);
  MlirValue sum = moe__fma(b, moe__bitcast(b, x, type), factor, moe__bitcast(b, z, type));
  return moe__bitcast(b, sum, b->i32);
}

/* x * y: -0 more changes nothing. */
static MlirValue multiply_halves(moe__mixed_mm_t *s, MlirValue x, MlirValue y) {
  return fma_halves(s, x, y, moe__i32(&s->kernel.builder, TWICE(0x8000)));
}

/* What is subtracted of subnormal numbers, the same for both rows: 2^-7 of the excess, or of a zero
 * point. */
static MlirValue subnormal_subtrahend(moe__mixed_mm_t *s, const MlirValue *zero) {
  moe__builder_t *b = &s->kernel.builder;
  if (!zero)
    return moe__i32(b, TWICE(excess_of(s) ? 0xBD80 : 0x8000));
  MlirValue bits = moe__or(b, moe__mul(b, *zero, 0x10001), TWICE(0x8000));
  return multiply_halves(s, bits, moe__i32(b, TWICE(SUBNORMAL.factor[0])));
}

void moe__mixed_subtrahends(moe__mixed_mm_t *s, const MlirValue *zeros, MlirValue out[2]) {
  moe__builder_t *b = &s->kernel.builder;
  const halves_t *halves = halves_of(s);
  for (int row = 0; row < 2; row++) {
    if (s->schedule.subnormal) {
      out[row] = subnormal_subtrahend(s, zeros ? &zeros[row] : NULL);
      continue;
    }
    int at = halves->at[row];
    out[row] = moe__i32(b, TWICE(halves->minus[row] | excess_of(s) << at));
    if (zeros)
      out[row] = moe__or(b, out[row], moe__mul(b, zeros[row], 0x10001 << at));
  }
}

static MlirValue shift_right(moe__builder_t *b, MlirValue x, int bits) {
  return bits ? moe__lshr(b, x, bits) : x;
}

/* (x & y) ^ z of a constant y, as one instruction. ptxas makes one of two as well, but then y
 * goes to a register anew for each. */
static MlirValue and_xor(moe__builder_t *b, MlirValue x, int32_t y, MlirValue z) {
  return moe__op1(b, "llvm.inline_asm", b->i32, MOE__VALUES(x, moe__i32(b, y), z),
                  "asm_dialect = 0 : i64, asm_string = \"lop3.b32 $0, $1, $2, $3, 0x6A;\", "
                  "constraints = \"=r,r,r,r\"");
}

/* Nibble i of both halves of the word, from bit `at` on. */
static MlirValue place_integer(moe__mixed_mm_t *s, const halves_t *halves, MlirValue word, int at) {
  moe__builder_t *b = &s->kernel.builder;
  int flipped = s->format == MOE__WEIGHT_I4 ? EXCESS << at : 0;
  return and_xor(b, word, TWICE(0xF << at), moe__i32(b, TWICE(halves->magic | flipped)));
}

static void convert_integers(moe__mixed_mm_t *s, MlirValue word, const MlirValue factors[2],
                             const MlirValue subtrahends[2],
                             MlirValue out[MOE__WGMMA_A_REGISTERS]) {
  moe__builder_t *b = &s->kernel.builder;
  const halves_t *halves = halves_of(s);
  for (int i = 0; i < MOE__WGMMA_A_REGISTERS; i++) {
    int row = i % 2, at = halves->at[row];
    MlirValue placed = place_integer(s, halves, shift_right(b, word, 4 * i - at), at);
    out[i] = fma_halves(s, placed, factors[row], subtrahends[row]);
  }
}

/* 136 times a factor of four bits is a bf16; 128 and a zero point, times that, is none: there
 * weights are multiplied when they are numbers. */
static bool scales_subtrahends(const moe__mixed_mm_t *s) {
  return mlirValueIsNull(s->zero_map);
}

void moe__mixed_scale_subtrahends(moe__mixed_mm_t *s, const MlirValue factors[2],
                                  MlirValue subtrahends[2]) {
  if (!scales_subtrahends(s))
    return;
  for (int h = 0; h < 2; h++)
    subtrahends[h] = multiply_halves(s, subtrahends[h], factors[h]);
}

void moe__mixed_convert_unit(moe__mixed_mm_t *s, MlirValue word, const MlirValue factors[2],
                             const MlirValue subtrahends[2],
                             MlirValue out[MOE__WGMMA_A_REGISTERS]) {
  if (scales_subtrahends(s)) {
    convert_integers(s, word, factors, subtrahends, out);
    return;
  }
  moe__mixed_convert(s, word, subtrahends, out);
  for (int i = 0; i < MOE__WGMMA_A_REGISTERS; i++)
    out[i] = multiply_halves(s, out[i], factors[i % 2]);
}

/* The word's bits `by` places further, to the right where it is negative. */
static MlirValue shift(moe__builder_t *b, MlirValue word, int by) {
  return by > 0 ? moe__shl(b, word, by) : shift_right(b, word, -by);
}

#define WORD_BITS 32

/* Where a bit of E2M1 values belongs: the lowest first. */
static int place_of_bit(const halves_t *halves, int bit) {
  return bit < MOE__E2M1_BITS - 1 ? halves->mantissa + bit : 15;
}

/* The word, turned to the left so that the bits of `mask` (of a half) are at their places. A shift
 * does where none of them goes past an end: ptxas may leave it to the multipliers. */
static MlirValue turn(moe__builder_t *b, MlirValue word, int by, uint32_t mask) {
  uint32_t bits = (uint32_t)TWICE(mask);
  int right = WORD_BITS - by;
  if (by == 0)
    return word;
  if (bits >> by << by == bits)
    return moe__shl(b, word, by);
  if (bits << right >> right == bits)
    return shift_right(b, word, right);
  return moe__rotate_left(b, word, by);
}

/* The bits of E2M1 values at their places: those that need the same turn by one instruction more
 * than it. */
static void place_floats(moe__mixed_mm_t *s, MlirValue word,
                         MlirValue out[MOE__WGMMA_A_REGISTERS]) {
  moe__builder_t *b = &s->kernel.builder;
  const halves_t *halves = halves_of(s);
  for (int i = 0; i < MOE__WGMMA_A_REGISTERS; i++) {
    out[i] = (MlirValue){NULL};
    uint32_t left = (1 << MOE__E2M1_BITS) - 1; /* bits that are not at their place yet */
    for (int first = 0; first < MOE__E2M1_BITS; first++) {
      if (!(left >> first & 1))
        continue;
      int by = (place_of_bit(halves, first) - moe__e2m1_at[i][first] + WORD_BITS) % WORD_BITS;
      uint32_t mask = 0;
      for (int bit = first; bit < MOE__E2M1_BITS; bit++)
        if ((moe__e2m1_at[i][bit] + by) % WORD_BITS == place_of_bit(halves, bit)) {
          mask |= 1U << place_of_bit(halves, bit);
          left &= ~(1U << bit);
        }
      MlirValue turned = turn(b, word, by, mask);
      out[i] = mlirValueIsNull(out[i]) ? moe__and(b, turned, TWICE(mask))
                                       : and_xor(b, turned, TWICE(mask), out[i]);
    }
  }
}

static void convert_floats(moe__mixed_mm_t *s, MlirValue word,
                           MlirValue out[MOE__WGMMA_A_REGISTERS]) {
  moe__builder_t *b = &s->kernel.builder;
  place_floats(s, word, out);
  for (int i = 0; i < MOE__WGMMA_A_REGISTERS; i++)
    out[i] = multiply_halves(s, out[i], moe__i32(b, TWICE(halves_of(s)->power)));
}

void moe__mixed_convert_scaled(moe__mixed_mm_t *s, MlirValue word, const MlirValue factors[2],
                               MlirValue out[MOE__WGMMA_A_REGISTERS]) {
  if (moe__mixed_has_row_powers(s)) {
    MlirValue subtrahends[2];
    moe__mixed_subtrahends(s, NULL, subtrahends);
    moe__mixed_convert(s, word, subtrahends, out);
  } else {
    place_floats(s, word, out);
  }
  for (int i = 0; i < MOE__WGMMA_A_REGISTERS; i++)
    out[i] = multiply_halves(s, out[i], factors[i % 2]);
}

#define FP8_NAN (0x7F << 4) /* a magnitude at its place */

bool moe__mixed_watches_nan(const moe__mixed_mm_t *s) {
  return s->format == MOE__WEIGHT_E4M3 && !moe__mixed_has_row_powers(s);
}

/* The greater ones of twice 16 bits. */
static MlirValue max_halves(moe__builder_t *b, MlirValue x, MlirValue y) {
  MlirType pair = moe__vector_type(b, 2, b->i16);
  MlirValue greater = moe__umax(b, moe__bitcast(b, x, pair), moe__bitcast(b, y, pair));
  return moe__bitcast(b, greater, b->i32);
}

/* In f16: the instruction takes bytes side by side. */
static void convert_fp8_in_f16(moe__mixed_mm_t *s, const MlirValue words[2],
                               const MlirValue factors[2], MlirValue out[MOE__WGMMA_A_REGISTERS]) {
  moe__builder_t *b = &s->kernel.builder;
  for (int h = 0; h < 2; h++) {
    MlirValue pairs[2];
    moe__fp8_widen4(b, moe__pick_bytes(b, words[h], words[h], 0x3120), MOE__E4M3, pairs);
    for (int i = 0; i < 2; i++)
      out[h + 2 * i] = multiply_halves(s, moe__bitcast(b, pairs[i], b->i32), factors[h]);
  }
}

/* Registers h and h + 2 are those of row h: the lower and the upper bytes of the halves of its
 * word. */
void moe__mixed_convert_fp8(moe__mixed_mm_t *s, const MlirValue words[2],
                            const MlirValue factors[2], MlirValue out[MOE__WGMMA_A_REGISTERS]) {
  moe__builder_t *b = &s->kernel.builder;
  if (moe__mixed_has_row_powers(s)) {
    convert_fp8_in_f16(s, words, factors, out);
    return;
  }
  for (int h = 0; h < 2; h++)
    for (int upper = 0; upper < 2; upper++) {
      MlirValue bits = moe__and(b, shift(b, words[h], upper ? -4 : 4), TWICE(FP8_NAN));
      MlirValue sign = shift(b, words[h], upper ? 0 : 8);
      MlirValue placed = and_xor(b, sign, TWICE(0x8000), bits);
      out[h + 2 * upper] = multiply_halves(s, placed, factors[h]);
      s->greatest[h] = max_halves(b, s->greatest[h], bits);
    }
}

/* Four lanes have the columns of a row. NaN and a little more reach the bit above. */
void moe__mixed_last_factors(moe__mixed_mm_t *s, float divisor, MlirValue out[2]) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue nan = moe__bitcast(b, moe__i32(b, 0x7FC00000), b->f32);
  for (int h = 0; h < 2; h++) {
    out[h] = moe__f32(b, divisor);
    if (!moe__mixed_watches_nan(s))
      continue;
    MlirValue bits = s->greatest[h];
    for (int mask = 1; mask < 4; mask *= 2)
      bits = max_halves(b, bits, moe__shuffle_xor(b, bits, mask));
    MlirValue reached = moe__and(b, moe__add(b, bits, TWICE(0x10)), TWICE(0x80 << 4));
    out[h] =
        moe__op1(b, "arith.select", b->f32, MOE__VALUES(moe__eq(b, reached, 0), out[h], nan), NULL);
  }
}

void moe__mixed_convert(moe__mixed_mm_t *s, MlirValue word, const MlirValue subtrahends[2],
                        MlirValue out[MOE__WGMMA_A_REGISTERS]) {
  if (s->format == MOE__WEIGHT_E2M1) {
    convert_floats(s, word, out);
    return;
  }
  MlirValue factors[2];
  for (int row = 0; row < 2; row++)
    factors[row] = moe__i32(&s->kernel.builder, TWICE(halves_of(s)->factor[row]));
  convert_integers(s, word, factors, subtrahends, out);
}

void moe__mixed_end_sums(moe__mixed_mm_t *s, moe__mixed_fragment_t sums) {
  moe__builder_t *b = &s->kernel.builder;
  bool is_divided = s->schedule.panels && s->schedule.scaled_weights;
  if (!s->schedule.subnormal && !is_divided)
    return;
  MlirValue unit = moe__f32(b, is_divided ? MOE__MIXED_DIVISOR : 128.0F);
  for (int i = 0; i < s->n / 2; i++)
    sums[i] = moe__fmul(b, sums[i], unit);
}
