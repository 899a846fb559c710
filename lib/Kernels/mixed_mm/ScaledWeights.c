/* ScaledWeights.c - the warpgroups that multiply weights times their scales: see Multiply.h.
 *
 * What a weight is multiplied by is an E8M0 scale, with f16 tokens one of bf16, or the highest four
 * bits of another one. The tensor core sums over the columns of a stage, or of a tile.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/mixed_mm/Multiply.h"

#include <string.h>

/* ---- E8M0 scales ---- */

/* A chunk of 64 columns as it lies in a stage, of weights that are multiplied by their scales. */
typedef struct packed_chunk_t {
  MlirValue words;                         /* a vector */
  MlirValue of_rows[2 * MOE__MIXED_STEPS]; /* of FP8 weights */
} packed_chunk_t;

/* With the first chunk of a stage what its scales are as factors, too. */
static packed_chunk_t load_chunk(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                                 MlirValue buffer, int index) {
  packed_chunk_t out = {{NULL}, {{NULL}}};
  if (index == 0)
    moe__mixed_load_own_factors(s, self, buffer, (MlirValue){NULL});
  if (s->format == MOE__WEIGHT_E4M3)
    moe__mixed_load_fp8(s, self, buffer, index, out.of_rows);
  else
    out.words = moe__mixed_piece_chunk(s, self, buffer, index);
  return out;
}

/* The weights of chunk `index` of the stage in `buffer`, times their scales. */
static void convert_chunk(moe__mixed_mm_t *s, const moe__mixed_position_t *self, MlirValue buffer,
                          int index, const packed_chunk_t *packed, moe__mixed_piece_t out) {
  moe__builder_t *b = &s->kernel.builder;
  int steps = s->group ? s->group / MOE__MIXED_STEP : INT32_MAX; /* that share a scale */
  MlirValue factors[2] = {{NULL}, {NULL}};
  for (int i = 0; i < MOE__MIXED_STEPS; i++) {
    if (i == 0 || i % steps == 0)
      moe__mixed_load_factors(s, self, buffer, (index * MOE__MIXED_STEPS + i) / steps, factors);
    MlirValue *to = out + (ptrdiff_t)i * MOE__WGMMA_A_REGISTERS;
    if (s->format == MOE__WEIGHT_E4M3)
      moe__mixed_convert_fp8(s, packed->of_rows + (ptrdiff_t)2 * i, factors, to);
    else
      moe__mixed_convert_scaled(s, moe__extract(b, packed->words, i), factors, to);
  }
}

void moe__mixed_scaled_piece(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                             MlirValue buffer, int index, moe__mixed_piece_t out) {
  packed_chunk_t packed = load_chunk(s, self, buffer, index);
  convert_chunk(s, self, buffer, index, &packed, out);
}

void moe__mixed_sum_scaled(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                           moe__cursor_t cursor, moe__mixed_piece_t first, bool has_next,
                           moe__mixed_fragment_t sums) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  int chunks = s->schedule.depth / MOE_WEIGHT_COLUMNS;
  bool goes_on = s->schedule.long_sums;
  MlirValue buffer = moe__ring_buffer(kernel, &s->layout.ring, cursor);
  MlirValue tokens = moe__wgmma_descriptor(b, buffer);
  moe__accumulator_t products =
      goes_on ? moe__accumulator_pack(b, s->n, sums) : moe__wgmma_zero(b, s->n);
  moe__mixed_piece_t weights[2];
  memcpy(weights[0], first, sizeof weights[0]);
  for (int c = 0; c < chunks; c++) {
    MlirValue *now = weights[c % 2], *other = weights[(c + 1) % 2];
    moe__wgmma_fence_through(b, 1, &products, moe__mixed_piece_words(s), now);
    moe__mixed_issue_products(s, tokens, c, 0, now, !goes_on && c == 0, &products);
    if (c > 0)
      moe__wgmma_wait_through(b, 1, 0, NULL, moe__mixed_piece_words(s), other);
    if (c + 1 < chunks)
      moe__mixed_scaled_piece(s, self, buffer, c + 1, other);
    else if (has_next)
      moe__mixed_begin_stage(s, self, moe__cursor_next(b, &s->layout.ring, cursor), first, NULL,
                             NULL);
  }
  moe__wgmma_wait_through(b, 0, 1, &products, moe__mixed_piece_words(s), weights[(chunks - 1) % 2]);
  if (goes_on) {
    moe__accumulator_unpack(b, products, sums);
  } else {
    moe__mixed_fragment_t part;
    moe__accumulator_unpack(b, products, part);
    MlirValue factor = moe__f32(b, moe__mixed_has_row_powers(s) ? 1.0F : MOE__MIXED_DIVISOR);
    for (int i = 0; i < s->n / 2; i++)
      sums[i] = moe__fma(b, part[i], factor, sums[i]);
    moe__mixed_keep_here(s, sums);
  }
  if (has_next)
    moe__mixed_follow_powers(s, sums);
  moe__mixed_release(s, self, cursor);
}

void moe__mixed_sum_scaled_behind(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                                  moe__cursor_t cursor, moe__mixed_piece_t first, bool has_next,
                                  moe__mixed_fragment_t sums) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  int chunks = s->schedule.depth / MOE_WEIGHT_COLUMNS;
  MlirValue buffer = moe__ring_buffer(kernel, &s->layout.ring, cursor), next = buffer;
  MlirValue tokens = moe__wgmma_descriptor(b, buffer);
  moe__accumulator_t products = moe__accumulator_pack(b, s->n, sums);
  for (int c = 0; c < chunks; c++) {
    moe__wgmma_fence_through(b, 1, &products, moe__mixed_piece_words(s), first);
    moe__mixed_issue_products(s, tokens, c, 0, first, false, &products);
    bool is_last = c + 1 == chunks, follows = !is_last || has_next;
    if (is_last && has_next) {
      moe__cursor_t behind = moe__cursor_next(b, &s->layout.ring, cursor);
      moe__ring_wait(kernel, &s->layout.ring, behind);
      next = moe__ring_buffer(kernel, &s->layout.ring, behind);
    }
    packed_chunk_t packed;
    int index = is_last ? 0 : c + 1;
    if (is_last && has_next)
      moe__mixed_next_row_scale(s);
    if (follows)
      packed = load_chunk(s, self, next, index);
    moe__wgmma_wait_through(b, 0, 1, &products, moe__mixed_piece_words(s), first);
    if (is_last)
      moe__mixed_release(s, self, cursor);
    if (is_last && has_next && moe__mixed_has_row_powers(s)) {
      moe__accumulator_unpack(b, products, sums);
      moe__mixed_follow_powers(s, sums);
      products = moe__accumulator_pack(b, s->n, sums);
    }
    if (follows)
      convert_chunk(s, self, next, index, &packed, first);
  }
  moe__accumulator_unpack(b, products, sums);
}

/* ---- Sums that are multiplied, or whose tokens are in parts ---- */

#define MOST_PARTS 4 /* of a tile's tokens */

void moe__mixed_unit_piece(moe__mixed_mm_t *s, const moe__mixed_position_t *self, MlirValue buffer,
                           int index, const moe__mixed_units_t *units, moe__mixed_piece_t out,
                           MlirValue ratios[2]) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue words = moe__mixed_piece_chunk(s, self, buffer, index);
  MlirValue factors[2], subtrahends[2];
  moe__mixed_share_unit(s, units, moe__mixed_number_of(s, index).constant, factors, ratios);
  moe__mixed_load_subtrahends(s, self, buffer, moe__mixed_number_of(s, index), subtrahends);
  moe__mixed_scale_subtrahends(s, factors, subtrahends);
  for (int i = 0; i < moe__mixed_piece_columns(s) / MOE__MIXED_STEP; i++)
    moe__mixed_convert_unit(s, moe__extract(b, words, moe__mixed_first_word(s, index) + i), factors,
                            subtrahends, out + (ptrdiff_t)i * MOE__WGMMA_A_REGISTERS);
}

/* Issues the products of piece `index` of a stage with one part of the tokens, which are added to
 * the sums of that part; `other`: sums that are complete and pass the fence, too, or NULL. */
static void issue_long(moe__mixed_mm_t *s, MlirValue tokens, int index, int part,
                       moe__mixed_piece_t weights, moe__accumulator_t *sum,
                       moe__accumulator_t *other) {
  moe__builder_t *b = &s->kernel.builder;
  moe__accumulator_t through[2] = {*sum};
  if (other)
    through[1] = *other;
  moe__wgmma_fence_through(b, other ? 2 : 1, through, part == 0 ? moe__mixed_piece_words(s) : 0,
                           weights);
  *sum = through[0];
  if (other)
    *other = through[1];
  moe__mixed_issue_products(s, tokens, index, part, weights, false, sum);
}

static void rescale_part(moe__mixed_mm_t *s, const MlirValue ratios[2], moe__accumulator_t *sum) {
  moe__builder_t *b = &s->kernel.builder;
  moe__mixed_fragment_t values;
  moe__accumulator_unpack(b, *sum, values);
  for (int i = 0; i < moe__mixed_part_tokens(s) / 2; i++)
    values[i] = moe__fmul(b, values[i], ratios[i % 4 / 2]);
  *sum = moe__accumulator_pack(b, moe__mixed_part_tokens(s), values);
}

void moe__mixed_sum_long(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                         moe__cursor_t cursor, int stages, moe__mixed_piece_t first,
                         moe__mixed_units_t *units, bool has_next, moe__mixed_fragment_t sums) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  int parts = s->schedule.token_parts, pieces = s->schedule.depth / moe__mixed_piece_columns(s);
  int all = stages * pieces * parts, count = moe__mixed_part_tokens(s) / 2;
  int pieces_of_group = s->group / moe__mixed_piece_columns(s); /* 0: a group is all, or less */
  moe__cursor_t cursors[MOE__MIXED_MOST_STAGES + 1] = {cursor};
  MlirValue buffers[MOE__MIXED_MOST_STAGES], tokens[MOE__MIXED_MOST_STAGES];
  moe__mixed_walk_stages(s, stages, cursors, buffers, tokens);
  moe__accumulator_t parts_sums[MOST_PARTS];
  for (int i = 0; i < parts; i++)
    parts_sums[i] =
        moe__accumulator_pack(b, moe__mixed_part_tokens(s), sums + (ptrdiff_t)i * count);
  moe__mixed_piece_t weights[2];
  MlirValue ratios[2] = {{NULL}, {NULL}};
  memcpy(weights[0], first, sizeof weights[0]);
  for (int step = 0; step < all; step++) {
    int p = step / parts, part = step % parts, next = step + 1, stage = p / pieces;
    bool ahead = parts > 1 && next < all;
    if (step == 0 || parts == 1)
      issue_long(s, tokens[stage], p % pieces, part, weights[p % 2], &parts_sums[part], NULL);
    if (ahead)
      issue_long(s, tokens[next / parts / pieces], next / parts % pieces, next % parts,
                 weights[next / parts % 2], &parts_sums[next % parts],
                 step > 0 && parts > 2 ? &parts_sums[(step - 1) % parts] : NULL);
    bool follows = p + 1 < stages * pieces || has_next;
    bool rescale =
        follows && moe__mixed_rescales(s) && pieces_of_group && (p + 1) % pieces_of_group == 0;
    if (part == 0 && follows) {
      MlirValue *to = p + 1 < stages * pieces ? weights[(p + 1) % 2] : first;
      if ((p + 1) % pieces == 0)
        moe__mixed_begin_stage(s, self, cursors[stage + 1], to, units, ratios);
      else if (moe__mixed_rescales(s))
        moe__mixed_unit_piece(s, self, buffers[stage], (p + 1) % pieces, units, to, ratios);
      else
        moe__mixed_scaled_piece(s, self, buffers[stage], (p + 1) % pieces, to);
    }
    moe__wgmma_wait_through(b, ahead, 1, &parts_sums[part],
                            part == parts - 1 ? moe__mixed_piece_words(s) : 0, weights[p % 2]);
    if (rescale)
      rescale_part(s, ratios, &parts_sums[part]);
    if (next % (pieces * parts) == 0)
      moe__mixed_release(s, self, cursors[stage]);
  }
  for (int i = 0; i < parts; i++)
    moe__accumulator_unpack(b, parts_sums[i], sums + (ptrdiff_t)i * count);
}
