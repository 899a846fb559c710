/* GroupSums.c - the warpgroups that multiply weights without their scales: see Multiply.h.
 *
 * The products of a piece become a sum in the tensor core; that, times the scale of the row, is
 * added by one fma.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/mixed_mm/Multiply.h"

#include <string.h>

/* A piece as it lies in a stage. */
typedef struct packed_t {
  MlirValue words;
  int first; /* of these words */
  MlirValue subtrahends[2];
} packed_t;

/* Piece number `index` of the stage in `buffer`. */
static packed_t load_piece(moe__mixed_mm_t *s, const moe__mixed_position_t *self, MlirValue buffer,
                           int index) {
  packed_t out = {.words = moe__mixed_piece_chunk(s, self, buffer, index),
                  .first = moe__mixed_first_word(s, index)};
  moe__mixed_load_subtrahends(s, self, buffer, moe__mixed_number_of(s, index), out.subtrahends);
  return out;
}

static void convert_packed(moe__mixed_mm_t *s, const packed_t *packed, moe__mixed_piece_t out) {
  moe__builder_t *b = &s->kernel.builder;
  for (int i = 0; i < moe__mixed_piece_columns(s) / MOE__MIXED_STEP; i++)
    moe__mixed_convert(s, moe__extract(b, packed->words, packed->first + i), packed->subtrahends,
                       out + (ptrdiff_t)i * MOE__WGMMA_A_REGISTERS);
}

void moe__mixed_group_piece(moe__mixed_mm_t *s, const moe__mixed_position_t *self, MlirValue buffer,
                            int index, moe__mixed_piece_t out) {
  packed_t packed = load_piece(s, self, buffer, index);
  convert_packed(s, &packed, out);
}

/* ---- All tokens of a tile at once ---- */

/* A piece whose products are in flight. */
typedef struct flight_t {
  moe__accumulator_t products;
  moe__mixed_piece_t weights;
  MlirValue scales[2];
} flight_t;

/* Issues the products of a piece, whose weights the flight has. */
static void issue_piece(moe__mixed_mm_t *s, MlirValue tokens, int index, flight_t *flight) {
  moe__builder_t *b = &s->kernel.builder;
  flight->products = moe__wgmma_zero(b, s->n);
  moe__wgmma_fence_through(b, 1, &flight->products, moe__mixed_piece_words(s), flight->weights);
  moe__mixed_issue_products(s, tokens, index, 0, flight->weights, true, &flight->products);
}

/* Waits until no more than `pending` pieces are in flight, and adds this one's. */
static void finish_piece(moe__mixed_mm_t *s, flight_t *flight, int pending,
                         moe__mixed_fragment_t sums) {
  moe__builder_t *b = &s->kernel.builder;
  moe__wgmma_wait_through(b, pending, 1, &flight->products, moe__mixed_piece_words(s),
                          flight->weights);
  moe__mixed_fragment_t part;
  moe__accumulator_unpack(b, flight->products, part);
  for (int i = 0; i < s->n / 2; i++)
    sums[i] = moe__fma(b, part[i], flight->scales[i % 4 / 2], sums[i]);
}

/* Finishes piece `p` of a stage, and turns the next one into numbers then: in its place, or, that
 * of the next stage, in `first`. */
static void multiply_behind(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                            moe__cursor_t cursor, int p, flight_t *now, moe__mixed_piece_t first,
                            bool has_next, moe__mixed_fragment_t sums) {
  moe__kernel_t *kernel = &s->kernel;
  bool is_last = p + 1 == s->schedule.depth / moe__mixed_piece_columns(s);
  packed_t packed;
  if (is_last && has_next) {
    moe__cursor_t next = moe__cursor_next(&kernel->builder, &s->layout.ring, cursor);
    moe__ring_wait(kernel, &s->layout.ring, next);
    packed = load_piece(s, self, moe__ring_buffer(kernel, &s->layout.ring, next), 0);
  } else if (!is_last) {
    packed = load_piece(s, self, moe__ring_buffer(kernel, &s->layout.ring, cursor), p + 1);
  }
  finish_piece(s, now, 0, sums);
  if (!is_last || has_next)
    convert_packed(s, &packed, is_last ? first : now->weights);
}

void moe__mixed_sum_groups(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                           moe__cursor_t cursor, moe__mixed_piece_t first, bool has_next,
                           moe__mixed_fragment_t sums) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  int pieces = s->schedule.depth / moe__mixed_piece_columns(s);
  bool overlaps = s->schedule.in_flight > 1;
  MlirValue buffer = moe__ring_buffer(kernel, &s->layout.ring, cursor);
  MlirValue tokens = moe__wgmma_descriptor(b, buffer);
  int numbers = moe__mixed_scales_of_stage(s->group, s->schedule.depth);
  bool divides = moe__mixed_divides_scales(s, numbers);
  moe__mixed_own_scales_t own;
  flight_t flights[2];
  memcpy(flights[0].weights, first, sizeof flights[0].weights);
  for (int p = 0; p < pieces; p++) {
    flight_t *now = &flights[p % 2], *other = &flights[(p + 1) % 2];
    issue_piece(s, tokens, p, now);
    if (divides && p == 0)
      moe__mixed_load_own_scales(s, self, buffer, (MlirValue){NULL}, numbers, &own);
    if (divides)
      moe__mixed_share_scales(s, &own, moe__mixed_number_of(s, p).constant, now->scales);
    else
      moe__mixed_load_scales(s, self, buffer, moe__mixed_number_of(s, p), now->scales);
    if (s->schedule.behind) {
      multiply_behind(s, self, cursor, p, now, first, has_next, sums);
      if (p + 1 < pieces)
        memcpy(other->weights, now->weights, sizeof now->weights);
      continue;
    }
    if (overlaps && p > 0)
      finish_piece(s, other, 1, sums);
    if (p + 1 < pieces)
      moe__mixed_group_piece(s, self, buffer, p + 1, other->weights);
    else if (has_next)
      moe__mixed_begin_stage(s, self, moe__cursor_next(b, &s->layout.ring, cursor), first, NULL,
                             NULL);
    if (!overlaps || p + 1 == pieces)
      finish_piece(s, now, 0, sums);
  }
  moe__mixed_keep_here(s, sums);
  moe__mixed_release(s, self, cursor);
}

/* ---- Tokens in parts ---- */

/* Issues the products of piece `step / parts` of a stage with part `step % parts` of its tokens;
 * `before` steps of the same round of the loop were issued. What is added before them passes the
 * fence: the sums of the step before the last, and `complete`, products that are added behind it
 * (or NULL). Weights pass the fence with the first part, and the wait with the last one. */
static void issue_part(moe__mixed_mm_t *s, MlirValue tokens, int step, int before,
                       moe__mixed_piece_t weights, moe__accumulator_t *products,
                       moe__accumulator_t *complete, moe__mixed_fragment_t sums) {
  moe__builder_t *b = &s->kernel.builder;
  int parts = s->schedule.token_parts, part = step % parts;
  moe__accumulator_t through[3] = {*products};
  int added = before - 2, count = moe__mixed_part_tokens(s) / 2, passing = 1;
  if (added >= 0)
    through[passing++] =
        moe__accumulator_pack(b, moe__mixed_part_tokens(s), sums + added % parts * count);
  if (complete)
    through[passing++] = *complete;
  moe__wgmma_fence_through(b, passing, through, part == 0 ? moe__mixed_piece_words(s) : 0, weights);
  *products = through[0];
  if (added >= 0)
    moe__accumulator_unpack(b, through[1], sums + added % parts * count);
  if (complete)
    *complete = through[passing - 1];
  moe__mixed_issue_products(s, tokens, step / parts, part, weights, true, products);
}

/* Waits until no more than `pending` parts are in flight. */
static void wait_part(moe__mixed_mm_t *s, int step, int pending, moe__mixed_piece_t weights,
                      moe__accumulator_t *products) {
  int parts = s->schedule.token_parts;
  moe__wgmma_wait_through(&s->kernel.builder, pending, 1, products,
                          step % parts == parts - 1 ? moe__mixed_piece_words(s) : 0, weights);
}

static void add_part(moe__mixed_mm_t *s, int step, const MlirValue scales[2],
                     moe__accumulator_t products, moe__mixed_fragment_t sums) {
  moe__builder_t *b = &s->kernel.builder;
  moe__mixed_fragment_t values;
  moe__accumulator_unpack(b, products, values);
  int count = moe__mixed_part_tokens(s) / 2;
  for (int i = 0; i < count; i++) {
    MlirValue *sum = &sums[step % s->schedule.token_parts * count + i];
    *sum = moe__fma(b, values[i], scales[i % 4 / 2], *sum);
  }
}

void moe__mixed_sum_groups_in_parts(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                                    moe__cursor_t cursor, int stages, moe__mixed_piece_t first,
                                    bool has_next, moe__mixed_fragment_t sums) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  int parts = s->schedule.token_parts, pieces = s->schedule.depth / moe__mixed_piece_columns(s);
  int steps = pieces * parts, all = stages * steps;
  moe__cursor_t cursors[MOE__MIXED_MOST_STAGES + 1] = {cursor};
  MlirValue buffers[MOE__MIXED_MOST_STAGES], tokens[MOE__MIXED_MOST_STAGES];
  moe__mixed_walk_stages(s, stages, cursors, buffers, tokens);
  moe__accumulator_t products[2] = {moe__wgmma_zero(b, moe__mixed_part_tokens(s)),
                                    moe__wgmma_zero(b, moe__mixed_part_tokens(s))};
  moe__mixed_piece_t weights[2];
  MlirValue scales[2][2];
  bool tight = moe__mixed_is_tight(&s->schedule);
  memcpy(weights[0], first, sizeof weights[0]);
  issue_part(s, tokens[0], 0, 0, weights[0], &products[0], NULL, sums);
  for (int step = 0; step < all; step++) {
    int p = step / parts, next = step + 1, stage = step / steps;
    bool alone = tight && next % parts == 0;
    moe__accumulator_t *now = &products[step % 2];
    if (alone)
      wait_part(s, step, 0, weights[p % 2], now);
    if (next < all)
      issue_part(s, tokens[next / steps], next % steps, next, weights[next / parts % 2],
                 &products[next % 2], alone ? now : NULL, sums);
    if (step % parts == 0)
      moe__mixed_load_scales(s, self, buffers[stage], moe__mixed_number_of(s, p % pieces),
                             scales[p % 2]);
    if (tight && !alone) {
      wait_part(s, step, next < all, weights[p % 2], now);
      add_part(s, step, scales[p % 2], *now, sums);
    }
    if (step % parts == (tight ? parts - 2 : 0)) {
      if ((p + 1) % pieces)
        moe__mixed_group_piece(s, self, buffers[stage], (p + 1) % pieces, weights[(p + 1) % 2]);
      else if (stage + 1 < stages)
        moe__mixed_begin_stage(s, self, cursors[stage + 1], weights[(p + 1) % 2], NULL, NULL);
      else if (has_next)
        moe__mixed_begin_stage(s, self, cursors[stages], first, NULL, NULL);
    }
    if (!tight)
      wait_part(s, step, next < all, weights[p % 2], now);
    if (!tight || alone)
      add_part(s, step, scales[p % 2], *now, sums);
    if (next % steps == 0 && next < all)
      moe__mixed_release(s, self, cursors[stage]);
  }
  moe__mixed_keep_here(s, sums);
  moe__mixed_release(s, self, cursors[stages - 1]);
}
