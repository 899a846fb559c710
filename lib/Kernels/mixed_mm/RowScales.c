/* RowScales.c - scales of bf16 as factors of integers in f16, and what sums of such weights are
 * multiplied by: see MixedMm.h.
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

/* A lane reads the scales of 8 rows of a panel for one group, so that a warp has 16 groups. */
#define VECTOR_ROWS (2 * MOE__VECTOR_WORDS)
#define LANES_OF_GROUP (MOE_WEIGHT_ROWS / VECTOR_ROWS)
#define GROUPS_AT_ONCE (MOE__WARP / LANES_OF_GROUP)
#define VECTORS 4 /* of a lane, loaded at once */
#define F32_MANTISSA 23
#define BF16_MANTISSA 7

static const moe__elements_t BF16 = {.bytes = 2, .per_word = 2};

/* Exponents of the greatest scale, with their bias: those for which the factors are normal numbers.
 * Inf and NaN count as the greatest: nothing of such a row is finite. */
#define LEAST_EXPONENT 13
#define GREATEST_EXPONENT 254
/* The exponent that the greatest scale is brought to, with its bias. */
#define TARGET (127 + 12)

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
        words[w] = moe__word_max(b, &BF16, words[w],
                                 moe__word_magnitudes(b, &BF16, moe__extract(b, loaded[i], w)));
    }
    greatest = moe__vector(b, MOE__VECTOR_WORDS, words);
  }
  for (int w = 0; w < MOE__VECTOR_WORDS; w++) {
    out[w] = moe__extract(b, greatest, w);
    for (int mask = LANES_OF_GROUP; mask < MOE__WARP; mask *= 2)
      out[w] = moe__word_max(b, &BF16, out[w], moe__shuffle_xor(b, out[w], mask));
  }
}

/* The inverse of to_row. It is made from it where it is needed: so it takes no register before. */
static MlirValue from_row(moe__builder_t *b, MlirValue to_row) {
  MlirValue bits = moe__fresh(b, moe__bitcast(b, to_row, b->i32));
  MlirValue exponent = moe__sub(b, moe__i32(b, 2 * 127), moe__lshr(b, bits, F32_MANTISSA));
  return moe__bitcast(b, moe__shl(b, exponent, F32_MANTISSA), b->f32);
}

void moe__mixed_load_row_scales(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
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
    MlirValue to_row = moe__sub(b, moe__i32(b, TARGET + 127), exponent);
    s->to_row[h] = moe__bitcast(b, moe__shl(b, to_row, F32_MANTISSA), b->f32);
  }
}

bool moe__mixed_scales_sums(const moe__mixed_mm_t *s) {
  return moe__mixed_has_row_scales(s) || !mlirValueIsNull(s->scales_x);
}

/* The scale of a token (i32); behind the last that of the last. */
static MlirValue scale_of_token(moe__mixed_mm_t *s, MlirValue token) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue at = moe__umin(b, token, moe__sub(b, s->tokens.value, 1));
  return moe__load(b, moe__offset(b, s->scales_x, moe__shl(b, moe__zext(b, at, b->i64), 2)),
                   b->f32);
}

void moe__mixed_scale_sums(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                           const moe__mixed_tile_t *tile, moe__mixed_fragment_t sums) {
  moe__builder_t *b = &s->kernel.builder;
  if (!moe__mixed_scales_sums(s))
    return;
  bool has_rows = moe__mixed_has_row_scales(s), has_tokens = !mlirValueIsNull(s->scales_x);
  MlirValue first = moe__add(b, tile->token, moe__shl(b, moe__and(b, self->lane, 3), 1));
  MlirValue factors[2] = {{NULL}, {NULL}};
  for (int h = 0; h < 2 && has_rows; h++)
    factors[h] = from_row(b, s->to_row[h]);
  for (int j = 0; j < s->n / 8; j++)
    for (int c = 0; c < 2; c++) {
      MlirValue of_token = {NULL};
      if (has_tokens)
        of_token = scale_of_token(s, moe__add(b, moe__fresh(b, first), 8 * j + c));
      for (int h = 0; h < 2; h++) {
        MlirValue *sum = &sums[4 * j + 2 * h + c];
        if (has_rows)
          *sum = moe__fmul(b, *sum, factors[h]);
        if (has_tokens)
          *sum = moe__fmul(b, *sum, of_token);
        /* LLVM would multiply where sums are stored, and all scales would be in registers at once. */
        *sum = moe__bitcast(b, moe__fresh(b, moe__bitcast(b, *sum, b->i32)), b->f32);
      }
    }
}
