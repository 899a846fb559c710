/* RowPowers.c - powers of two that bring the scales of rows into the range of f16: see MixedMm.h.
 *
 * An integer from -8 to 8 has 3 significant bits but for powers of two, a scale of bf16 has 8, f16
 * has 11: their product is a number of f16, if its exponent is in range. So the scales of a row are
 * multiplied by a power of two that brings the greatest of them to 2^12 and more, and 8 times it
 * below 2^16. Those that are 2^-29 of it or more stay exact.
 *
 * Tokens in f16 are in range alike: each has a scale (mx_quantize.quantize_f16).
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/mixed_mm/MixedMm.h"

#include "lib/Device/Vectors.h"

#include "mlir-c/BuiltinTypes.h"

/* A lane reads the scales of 8 rows of a panel for one group, so that a warp has 16 groups. */
#define VECTOR_ROWS (2 * MOE__VECTOR_WORDS)
#define LANES_OF_GROUP (MOE_WEIGHT_ROWS / VECTOR_ROWS)
#define GROUPS_AT_ONCE (MOE__WARP / LANES_OF_GROUP)
#define VECTORS 4 /* of a lane, loaded at once */
#define BF16_MANTISSA 7

/* Exponents of the greatest scale, with their bias: those for which the factors are normal numbers.
 * Inf and NaN count as the greatest: nothing of such a row is finite. */
#define LEAST_EXPONENT 13
#define GREATEST_EXPONENT 254
/* The exponent that the greatest scale is brought to, with its bias. */
#define TARGET (MOE__F32_BIAS + 12)

bool moe__mixed_has_row_powers(const moe__mixed_mm_t *s) {
  return s->schedule.scaled_weights && s->format != MOE__WEIGHT_E2M1 && mlirTypeIsAF16(s->x_type);
}

/* The greatest magnitudes of the scales of rows: word w has rows 2 w and 2 w + 1 of the lane's
 * half of the panel. */
static void greatest_scales(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                            const moe__mixed_tile_t *tile, MlirValue out[MOE__VECTOR_WORDS]) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue groups = s->group ? moe__udiv(b, s->depth.value, s->group) : moe__i32(b, 1);
  MlirValue last = moe__sub(b, groups, 1);
  /* Rows of a panel behind the last are those of the last: nobody asks for them. */
  MlirValue panel = moe__add(b, tile->row, moe__mul(b, self->panel, MOE_WEIGHT_ROWS));
  panel = moe__umin(b, panel, moe__sub(b, s->rows.value, MOE_WEIGHT_ROWS));
  MlirValue half = moe__and(b, self->lane, LANES_OF_GROUP - 1);
  MlirValue row = moe__add(b, panel, moe__mul(b, half, VECTOR_ROWS));
  MlirValue own = moe__udiv(b, self->lane, LANES_OF_GROUP);
  MlirValue of_expert = moe__wide_mul(b, moe__mul(b, tile->expert, groups), s->rows.value);
  MlirValue zeros[MOE__VECTOR_WORDS];
  for (int w = 0; w < MOE__VECTOR_WORDS; w++)
    zeros[w] = moe__i32(b, 0);
  MlirValue greatest = moe__vector(b, MOE__VECTOR_WORDS, zeros);
  MOE__FOR (b, first, 0, groups, VECTORS * GROUPS_AT_ONCE, &greatest) {
    MlirValue loaded[VECTORS], words[MOE__VECTOR_WORDS];
    for (int i = 0; i < VECTORS; i++) { /* what is behind the last group is that again */
      MlirValue group = moe__add(b, moe__add(b, first, own), i * GROUPS_AT_ONCE);
      MlirValue before = moe__wide_mul(b, moe__umin(b, group, last), s->rows.value);
      MlirValue at = moe__add(b, moe__add(b, of_expert, before), moe__zext(b, row, b->i64));
      loaded[i] = moe__vector_load(b, moe__offset(b, s->scales, moe__shl(b, at, 1)));
    }
    for (int w = 0; w < MOE__VECTOR_WORDS; w++) {
      words[w] = moe__extract(b, greatest, w);
      for (int i = 0; i < VECTORS; i++)
        words[w] = moe__word_max(
            b, &moe__bf16_elements, words[w],
            moe__word_magnitudes(b, &moe__bf16_elements, moe__extract(b, loaded[i], w)));
    }
    greatest = moe__vector(b, MOE__VECTOR_WORDS, words);
  }
  for (int w = 0; w < MOE__VECTOR_WORDS; w++) {
    out[w] = moe__extract(b, greatest, w);
    for (int mask = LANES_OF_GROUP; mask < MOE__WARP; mask *= 2)
      out[w] = moe__word_max(b, &moe__bf16_elements, out[w], moe__shuffle_xor(b, out[w], mask));
  }
}

void moe__mixed_load_row_powers(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                                const moe__mixed_tile_t *tile) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue words[MOE__VECTOR_WORDS];
  greatest_scales(s, self, tile, words);
  /* The lane's rows are lane / 4 of each half; the lane beside it has the other half. */
  MlirValue row = moe__lshr(b, self->lane, 2), word = moe__lshr(b, row, 1), own = words[0];
  for (int w = 1; w < MOE__VECTOR_WORDS; w++)
    own = moe__select(b, moe__eq(b, word, w), words[w], own);
  own = moe__select(b, moe__eq(b, moe__and(b, row, 1), 0), moe__and(b, own, 0xFFFF),
                    moe__lshr(b, own, 16));
  own = moe__umin(b, moe__umax(b, moe__lshr(b, own, BF16_MANTISSA), LEAST_EXPONENT),
                  GREATEST_EXPONENT);
  MlirValue other = moe__shuffle_xor(b, own, 1);
  MlirValue is_first = moe__eq(b, moe__and(b, self->lane, 1), 0);
  for (int h = 0; h < 2; h++) {
    MlirValue exponent =
        h ? moe__select(b, is_first, other, own) : moe__select(b, is_first, own, other);
    MlirValue row_power = moe__sub(b, moe__i32(b, TARGET + MOE__F32_BIAS), exponent);
    s->row_power[h] = moe__bitcast(b, moe__shl(b, row_power, MOE__F32_MANTISSA_BITS), b->f32);
  }
}

/* They are made from the powers where they are needed: so they take no registers before. */
void moe__mixed_inverse_powers(moe__mixed_mm_t *s, MlirValue out[2]) {
  moe__builder_t *b = &s->kernel.builder;
  for (int h = 0; h < 2; h++) {
    MlirValue power = moe__fresh(b, moe__bitcast(b, s->row_power[h], b->i32));
    MlirValue exponent =
        moe__sub(b, moe__i32(b, 2 * MOE__F32_BIAS), moe__lshr(b, power, MOE__F32_MANTISSA_BITS));
    out[h] = moe__bitcast(b, moe__shl(b, exponent, MOE__F32_MANTISSA_BITS), b->f32);
  }
}
