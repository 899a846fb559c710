/* Multiply.c - the warpgroups that multiply: see MixedMm.h.
 *
 * A piece is a group of columns, or 64 of a longer one. Its weights become a fragment in registers,
 * its products a sum in the tensor core; that, times the scale of the row, is added by one fma. The
 * next piece is turned into numbers while the tensor core multiplies.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/mixed_mm/MixedMm.h"

#include "mlir-c/BuiltinTypes.h"

#include <string.h>

#define STEP_BYTES (2 * MOE__MIXED_STEP) /* of a token */

/* A piece's weights, as wgmma takes them. */
typedef MlirValue piece_t[MOE__MIXED_STEPS * MOE__WGMMA_A_REGISTERS];

/* Which of a row's numbers in the stage those of piece `index` are. */
static moe__mixed_number_t number_of(const moe__mixed_mm_t *s, int index) {
  return (moe__mixed_number_t){.constant =
                                   s->group ? index * moe__mixed_piece_columns(s) / s->group : 0};
}

/* Where piece `index` of a stage is: its chunk of 64 columns, and its first step of 16 there. */
static int chunk_of(const moe__mixed_mm_t *s, int index) {
  return index * moe__mixed_piece_columns(s) / MOE_WEIGHT_COLUMNS;
}

static int first_step(const moe__mixed_mm_t *s, int index) {
  return index * moe__mixed_piece_columns(s) % MOE_WEIGHT_COLUMNS / MOE__MIXED_STEP;
}

static MlirValue load_words(moe__mixed_mm_t *s, const moe__mixed_position_t *self, MlirValue buffer,
                            int chunk) {
  return moe__mixed_load_words(s, self, buffer, (moe__mixed_number_t){.constant = chunk});
}

/* A piece as it lies in a stage. */
typedef struct packed_t {
  MlirValue words;
  int first; /* of these words */
  MlirValue subtrahends[2];
} packed_t;

/* Piece number `index` of the stage in `buffer`. */
static packed_t load_piece(moe__mixed_mm_t *s, const moe__mixed_position_t *self, MlirValue buffer,
                           int index) {
  packed_t out = {.words = load_words(s, self, buffer, chunk_of(s, index)),
                  .first = first_step(s, index)};
  moe__mixed_load_subtrahends(s, self, buffer, number_of(s, index), out.subtrahends);
  return out;
}

static void convert_packed(moe__mixed_mm_t *s, const packed_t *packed, piece_t out) {
  moe__builder_t *b = &s->kernel.builder;
  for (int i = 0; i < moe__mixed_piece_columns(s) / MOE__MIXED_STEP; i++)
    moe__mixed_convert(s, moe__extract(b, packed->words, packed->first + i), packed->subtrahends,
                       out + (ptrdiff_t)i * MOE__WGMMA_A_REGISTERS);
}

/* The weights of that piece. */
static void convert_piece(moe__mixed_mm_t *s, const moe__mixed_position_t *self, MlirValue buffer,
                          int index, piece_t out) {
  packed_t packed = load_piece(s, self, buffer, index);
  convert_packed(s, &packed, out);
}

/* Of a round of the loop. At its end nothing is in flight: ptxas lets every product wait for the
 * one before where they run on into the next round. */
#define MOST_STAGES 4
#define MOST_PARTS 4 /* of a tile's tokens */

/* A piece whose products are in flight. */
typedef struct flight_t {
  moe__accumulator_t products;
  piece_t weights;
  MlirValue scales[2];
} flight_t;

static int piece_words(const moe__mixed_mm_t *s) {
  return moe__mixed_piece_columns(s) / MOE__MIXED_STEP * MOE__WGMMA_A_REGISTERS;
}

/* With tokens in parts: the sums, the products of two parts, and two pieces of weights; `others`:
 * what addresses, scales and so on take: 48 are asked for where there is a choice, 32 do with more
 * than two parts, or where a tile is as wide as it can be. */
static int registers_of_parts(const moe__mixed_schedule_t *schedule, int pieces, int others) {
  return schedule->tile_n / 2 + schedule->tile_n / schedule->token_parts +
         pieces * (MOE__MIXED_STEPS * MOE__WGMMA_A_REGISTERS) + others;
}

bool moe__mixed_is_tight(const moe__mixed_schedule_t *schedule) {
  return schedule->token_parts > 1 && !schedule->long_sums &&
         registers_of_parts(schedule, 2, 48) > MOE__MIXED_MOST_REGISTERS;
}

/* Tokens whose products are one accumulator. */
static int part_tokens(const moe__mixed_mm_t *s) {
  return s->schedule.tile_n / s->schedule.token_parts;
}

/* Whether the sums of parts go on from piece to piece. */
static bool goes_on_in_parts(const moe__mixed_mm_t *s) {
  return moe__mixed_rescales(s) || (s->schedule.long_sums && s->schedule.token_parts > 1);
}

/* Issues the products of piece `index` of a stage with one part of its tokens, which `tokens`
 * describes: instead of what `sums` has (fresh), or added to it. */
static void issue_products(moe__mixed_mm_t *s, MlirValue tokens, int index, int part,
                           const piece_t weights, bool fresh, moe__accumulator_t *sums) {
  moe__builder_t *b = &s->kernel.builder;
  int row = chunk_of(s, index) * s->schedule.tile_n + part * part_tokens(s);
  int start = row * MOE__MIXED_CHUNK_BYTES + first_step(s, index) * STEP_BYTES;
  for (int i = 0; i < moe__mixed_piece_columns(s) / MOE__MIXED_STEP; i++)
    *sums = moe__wgmma_k16_fragment(
        b, *sums, fresh && i == 0, weights + (ptrdiff_t)i * MOE__WGMMA_A_REGISTERS,
        moe__wgmma_advance(b, tokens, start + i * STEP_BYTES), s->x_type, false);
  moe__wgmma_commit(b);
}

/* Issues the products of a piece, whose weights the flight has. */
static void issue_piece(moe__mixed_mm_t *s, MlirValue tokens, int index, flight_t *flight) {
  moe__builder_t *b = &s->kernel.builder;
  flight->products = moe__wgmma_zero(b, s->n);
  moe__wgmma_fence_through(b, 1, &flight->products, piece_words(s), flight->weights);
  issue_products(s, tokens, index, 0, flight->weights, true, &flight->products);
}

/* Waits until no more than `pending` pieces are in flight, and adds this one's. */
static void finish_piece(moe__mixed_mm_t *s, flight_t *flight, int pending,
                         moe__mixed_fragment_t sums) {
  moe__builder_t *b = &s->kernel.builder;
  moe__wgmma_wait_through(b, pending, 1, &flight->products, piece_words(s), flight->weights);
  moe__mixed_fragment_t part;
  moe__accumulator_unpack(b, flight->products, part);
  for (int i = 0; i < s->n / 2; i++)
    sums[i] = moe__fma(b, part[i], flight->scales[i % 4 / 2], sums[i]);
}

/* The same with tokens in parts: the products of piece `step / parts` of the stage with part
 * `step % parts`; `before` steps of the same round of the loop were issued.
 * Weights pass the fence with the first part, and the wait with the last one. */
static void issue_part(moe__mixed_mm_t *s, MlirValue tokens, int step, int before, piece_t weights,
                       moe__accumulator_t *products, moe__accumulator_t *complete,
                       moe__mixed_fragment_t sums) {
  moe__builder_t *b = &s->kernel.builder;
  int parts = s->schedule.token_parts, part = step % parts;
  moe__accumulator_t through[3] = {*products};
  int added = before - 2, count = part_tokens(s) / 2, passing = 1;
  if (added >= 0)
    through[passing++] = moe__accumulator_pack(b, part_tokens(s), sums + added % parts * count);
  if (complete)
    through[passing++] = *complete;
  moe__wgmma_fence_through(b, passing, through, part == 0 ? piece_words(s) : 0, weights);
  *products = through[0];
  if (added >= 0)
    moe__accumulator_unpack(b, through[1], sums + added % parts * count);
  if (complete)
    *complete = through[passing - 1];
  issue_products(s, tokens, step / parts, part, weights, true, products);
}

/* Waits until no more than `pending` parts are in flight. */
static void wait_part(moe__mixed_mm_t *s, int step, int pending, piece_t weights,
                      moe__accumulator_t *products) {
  int parts = s->schedule.token_parts;
  moe__wgmma_wait_through(&s->kernel.builder, pending, 1, products,
                          step % parts == parts - 1 ? piece_words(s) : 0, weights);
}

static void add_part(moe__mixed_mm_t *s, int step, const MlirValue scales[2],
                     moe__accumulator_t products, moe__mixed_fragment_t sums) {
  moe__builder_t *b = &s->kernel.builder;
  moe__mixed_fragment_t values;
  moe__accumulator_unpack(b, products, values);
  int count = part_tokens(s) / 2;
  for (int i = 0; i < count; i++) {
    MlirValue *sum = &sums[step % s->schedule.token_parts * count + i];
    *sum = moe__fma(b, values[i], scales[i % 4 / 2], *sum);
  }
}

/* A chunk of 64 columns as it lies in a stage, of weights that are multiplied by their scales. */
typedef struct packed_chunk_t {
  MlirValue words;                         /* a vector */
  MlirValue of_rows[2 * MOE__MIXED_STEPS]; /* of FP8 weights */
} packed_chunk_t;

static packed_chunk_t load_chunk(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                                 MlirValue buffer, int index) {
  packed_chunk_t out = {{NULL}, {{NULL}}};
  if (s->format == MOE__WEIGHT_E4M3)
    moe__mixed_load_fp8(s, self, buffer, index, out.of_rows);
  else
    out.words = load_words(s, self, buffer, index);
  return out;
}

/* The weights of chunk `index` of the stage in `buffer`, times their scales. */
static void convert_chunk(moe__mixed_mm_t *s, const moe__mixed_position_t *self, MlirValue buffer,
                          int index, const packed_chunk_t *packed, piece_t out) {
  moe__builder_t *b = &s->kernel.builder;
  int steps = s->group / MOE__MIXED_STEP; /* that share a scale */
  MlirValue factors[2] = {{NULL}, {NULL}};
  for (int i = 0; i < MOE__MIXED_STEPS; i++) {
    if (i % steps == 0)
      moe__mixed_load_factors(
          s, self, buffer,
          (moe__mixed_number_t){.constant = (index * MOE__MIXED_STEPS + i) / steps}, factors);
    MlirValue *to = out + (ptrdiff_t)i * MOE__WGMMA_A_REGISTERS;
    if (s->format == MOE__WEIGHT_E4M3)
      moe__mixed_convert_fp8(s, packed->of_rows + (ptrdiff_t)2 * i, factors, to);
    else
      moe__mixed_convert_scaled(s, moe__extract(b, packed->words, i), factors, to);
  }
}

static void convert_scaled(moe__mixed_mm_t *s, const moe__mixed_position_t *self, MlirValue buffer,
                           int index, piece_t out) {
  packed_chunk_t packed = load_chunk(s, self, buffer, index);
  convert_chunk(s, self, buffer, index, &packed, out);
}

/* The weights of piece number `index` times the highest bits of their scales; and what sums of the
 * group before are to be multiplied by. */
static void convert_unit_piece(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                               MlirValue buffer, int index, const moe__mixed_units_t *units,
                               piece_t out, MlirValue ratios[2]) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue words = load_words(s, self, buffer, chunk_of(s, index));
  MlirValue factors[2], subtrahends[2];
  moe__mixed_share_unit(s, units, number_of(s, index).constant, factors, ratios);
  moe__mixed_load_subtrahends(s, self, buffer, number_of(s, index), subtrahends);
  moe__mixed_scale_subtrahends(s, factors, subtrahends);
  for (int i = 0; i < moe__mixed_piece_columns(s) / MOE__MIXED_STEP; i++)
    moe__mixed_convert_unit(s, moe__extract(b, words, first_step(s, index) + i), factors,
                            subtrahends, out + (ptrdiff_t)i * MOE__WGMMA_A_REGISTERS);
}

/* The first of a row's scales in a stage that is so many k-tiles behind another one. */
static MlirValue row_scale_after(moe__mixed_mm_t *s, MlirValue row_scale, MlirValue k_tiles) {
  moe__builder_t *b = &s->kernel.builder;
  int step = moe__mixed_scales_of_stage(s->group, s->schedule.depth);
  return moe__and(b, moe__add(b, row_scale, moe__mul(b, k_tiles, step)), MOE__MIXED_ROW_SCALES - 1);
}

/* The stage behind the one before. */
static void next_row_scale(moe__mixed_mm_t *s) {
  if (s->layout.scales_of_rows)
    s->row_scale = row_scale_after(s, s->row_scale, moe__i32(&s->kernel.builder, 1));
}

/* Waits for a stage and turns its first piece into numbers; of sums that are rescaled, `units` were
 * those of the stage before. */
static void begin_stage(moe__mixed_mm_t *s, const moe__mixed_position_t *self, moe__cursor_t cursor,
                        piece_t first, moe__mixed_units_t *units, MlirValue ratios[2]) {
  moe__ring_wait(&s->kernel, &s->layout.ring, cursor);
  MlirValue buffer = moe__ring_buffer(&s->kernel, &s->layout.ring, cursor);
  next_row_scale(s);
  if (moe__mixed_rescales(s)) {
    moe__mixed_load_units(s, self, buffer, units);
    convert_unit_piece(s, self, buffer, 0, units, first, ratios);
  } else if (s->schedule.scaled_weights)
    convert_scaled(s, self, buffer, 0, first);
  else
    convert_piece(s, self, buffer, 0, first);
}

/* Sums are added before this: LLVM would move the additions of several pieces down to where the
 * sums are stored, and all their products would stay in registers. Nothing is in flight. */
static void keep_here(moe__mixed_mm_t *s, moe__mixed_fragment_t sums) {
  moe__builder_t *b = &s->kernel.builder;
  moe__accumulator_t sum = moe__accumulator_pack(b, s->n, sums);
  moe__wgmma_finish(b, sum, sums);
}

/* Where `stages` stages from the one at cursors[0] on are, and the descriptors of their tokens;
 * cursors[stages] is the stage behind them. */
static void walk_stages(moe__mixed_mm_t *s, int stages, moe__cursor_t *cursors, MlirValue *buffers,
                        MlirValue *tokens) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  for (int i = 0; i < stages; i++) {
    buffers[i] = moe__ring_buffer(kernel, &s->layout.ring, cursors[i]);
    tokens[i] = moe__wgmma_descriptor(b, buffers[i]);
    cursors[i + 1] = moe__cursor_next(b, &s->layout.ring, cursors[i]);
  }
}

/* The same with tokens in parts, of `stages` stages from the one at `cursor` on. The products of
 * two are in flight; a piece is turned into numbers while the first two of the piece before run. */
static void multiply_stages_in_parts(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                                     moe__cursor_t cursor, int stages, piece_t first, bool has_next,
                                     moe__mixed_fragment_t sums) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  int parts = s->schedule.token_parts, pieces = s->schedule.depth / moe__mixed_piece_columns(s);
  int steps = pieces * parts, all = stages * steps;
  moe__cursor_t cursors[MOST_STAGES + 1] = {cursor};
  MlirValue buffers[MOST_STAGES], tokens[MOST_STAGES];
  walk_stages(s, stages, cursors, buffers, tokens);
  moe__accumulator_t products[2] = {moe__wgmma_zero(b, part_tokens(s)),
                                    moe__wgmma_zero(b, part_tokens(s))};
  piece_t weights[2];
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
      moe__mixed_load_scales(s, self, buffers[stage], number_of(s, p % pieces), scales[p % 2]);
    if (tight && !alone) {
      wait_part(s, step, next < all, weights[p % 2], now);
      add_part(s, step, scales[p % 2], *now, sums);
    }
    if (step % parts == (tight ? parts - 2 : 0)) {
      if ((p + 1) % pieces)
        convert_piece(s, self, buffers[stage], (p + 1) % pieces, weights[(p + 1) % 2]);
      else if (stage + 1 < stages)
        begin_stage(s, self, cursors[stage + 1], weights[(p + 1) % 2], NULL, NULL);
      else if (has_next)
        begin_stage(s, self, cursors[stages], first, NULL, NULL);
    }
    if (!tight)
      wait_part(s, step, next < all, weights[p % 2], now);
    if (!tight || alone)
      add_part(s, step, scales[p % 2], *now, sums);
    if (next % steps == 0 && next < all)
      moe__mixed_release(s, self, cursors[stage]);
  }
  keep_here(s, sums);
  moe__mixed_release(s, self, cursors[stages - 1]);
}

/* The same of weights that have their scales in them: up to two chunks of 64 columns are in flight,
 * and all products of a stage are one sum. With long sums that is the sum of the tile, with which
 * the tensor core goes on. */
static void multiply_scaled_stage(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                                  moe__cursor_t cursor, piece_t first, bool has_next,
                                  moe__mixed_fragment_t sums) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  int chunks = s->schedule.depth / MOE_WEIGHT_COLUMNS;
  bool goes_on = s->schedule.long_sums;
  MlirValue buffer = moe__ring_buffer(kernel, &s->layout.ring, cursor);
  MlirValue tokens = moe__wgmma_descriptor(b, buffer);
  moe__accumulator_t products =
      goes_on ? moe__accumulator_pack(b, s->n, sums) : moe__wgmma_zero(b, s->n);
  piece_t weights[2];
  memcpy(weights[0], first, sizeof weights[0]);
  for (int c = 0; c < chunks; c++) {
    MlirValue *now = weights[c % 2], *other = weights[(c + 1) % 2];
    moe__wgmma_fence_through(b, 1, &products, piece_words(s), now);
    issue_products(s, tokens, c, 0, now, !goes_on && c == 0, &products);
    if (c > 0)
      moe__wgmma_wait_through(b, 1, 0, NULL, piece_words(s), other);
    if (c + 1 < chunks)
      convert_scaled(s, self, buffer, c + 1, other);
    else if (has_next)
      begin_stage(s, self, moe__cursor_next(b, &s->layout.ring, cursor), first, NULL, NULL);
  }
  moe__wgmma_wait_through(b, 0, 1, &products, piece_words(s), weights[(chunks - 1) % 2]);
  if (goes_on) {
    moe__accumulator_unpack(b, products, sums);
  } else {
    moe__mixed_fragment_t part;
    moe__accumulator_unpack(b, products, part);
    MlirValue factor = moe__f32(b, moe__mixed_divisor(s));
    for (int i = 0; i < s->n / 2; i++)
      sums[i] = moe__fma(b, part[i], factor, sums[i]);
    keep_here(s, sums);
  }
  moe__mixed_release(s, self, cursor);
}

/* The same, where a chunk becomes numbers behind the products of the one before, in its registers;
 * long sums. */
static void multiply_scaled_behind(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                                   moe__cursor_t cursor, piece_t first, bool has_next,
                                   moe__mixed_fragment_t sums) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  int chunks = s->schedule.depth / MOE_WEIGHT_COLUMNS;
  MlirValue buffer = moe__ring_buffer(kernel, &s->layout.ring, cursor), next = buffer;
  MlirValue tokens = moe__wgmma_descriptor(b, buffer);
  moe__accumulator_t products = moe__accumulator_pack(b, s->n, sums);
  for (int c = 0; c < chunks; c++) {
    moe__wgmma_fence_through(b, 1, &products, piece_words(s), first);
    issue_products(s, tokens, c, 0, first, false, &products);
    bool is_last = c + 1 == chunks, follows = !is_last || has_next;
    if (is_last && has_next) {
      moe__cursor_t behind = moe__cursor_next(b, &s->layout.ring, cursor);
      moe__ring_wait(kernel, &s->layout.ring, behind);
      next = moe__ring_buffer(kernel, &s->layout.ring, behind);
    }
    packed_chunk_t packed;
    int index = is_last ? 0 : c + 1;
    if (follows)
      packed = load_chunk(s, self, next, index);
    moe__wgmma_wait_through(b, 0, 1, &products, piece_words(s), first);
    if (is_last)
      moe__mixed_release(s, self, cursor);
    if (is_last && has_next)
      next_row_scale(s);
    if (follows)
      convert_chunk(s, self, next, index, &packed, first);
  }
  moe__accumulator_unpack(b, products, sums);
}

/* Issues the products of piece `index` of a stage with one part of the tokens, which are added to
 * the sums of that part. */
static void issue_long(moe__mixed_mm_t *s, MlirValue tokens, int index, int part, piece_t weights,
                       moe__accumulator_t *sum, moe__accumulator_t *other) {
  moe__builder_t *b = &s->kernel.builder;
  moe__accumulator_t through[2] = {*sum};
  if (other)
    through[1] = *other;
  moe__wgmma_fence_through(b, other ? 2 : 1, through, part == 0 ? piece_words(s) : 0, weights);
  *sum = through[0];
  if (other)
    *other = through[1];
  issue_products(s, tokens, index, part, weights, false, sum);
}

static void rescale_part(moe__mixed_mm_t *s, const MlirValue ratios[2], moe__accumulator_t *sum) {
  moe__builder_t *b = &s->kernel.builder;
  moe__mixed_fragment_t values;
  moe__accumulator_unpack(b, *sum, values);
  for (int i = 0; i < part_tokens(s) / 2; i++)
    values[i] = moe__fmul(b, values[i], ratios[i % 4 / 2]);
  *sum = moe__accumulator_pack(b, part_tokens(s), values);
}

/* Long sums of `stages` stages from the one at `cursor` on, in units of their own: before the
 * products of another group are added to them they are multiplied by the ratio of the two units.
 * With tokens in parts the products of two are in flight. */
static void multiply_long_stages(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                                 moe__cursor_t cursor, int stages, piece_t first,
                                 moe__mixed_units_t *units, bool has_next,
                                 moe__mixed_fragment_t sums) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  int parts = s->schedule.token_parts, pieces = s->schedule.depth / moe__mixed_piece_columns(s);
  int all = stages * pieces * parts, count = part_tokens(s) / 2;
  int pieces_of_group =
      s->group ? (s->group + moe__mixed_piece_columns(s) - 1) / moe__mixed_piece_columns(s) : 0;
  moe__cursor_t cursors[MOST_STAGES + 1] = {cursor};
  MlirValue buffers[MOST_STAGES], tokens[MOST_STAGES];
  walk_stages(s, stages, cursors, buffers, tokens);
  moe__accumulator_t parts_sums[MOST_PARTS];
  for (int i = 0; i < parts; i++)
    parts_sums[i] = moe__accumulator_pack(b, part_tokens(s), sums + (ptrdiff_t)i * count);
  piece_t weights[2];
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
        begin_stage(s, self, cursors[stage + 1], to, units, ratios);
      else if (moe__mixed_rescales(s))
        convert_unit_piece(s, self, buffers[stage], (p + 1) % pieces, units, to, ratios);
      else
        convert_scaled(s, self, buffers[stage], (p + 1) % pieces, to);
    }
    moe__wgmma_wait_through(b, ahead, 1, &parts_sums[part], part == parts - 1 ? piece_words(s) : 0,
                            weights[p % 2]);
    if (rescale)
      rescale_part(s, ratios, &parts_sums[part]);
    if (next % (pieces * parts) == 0)
      moe__mixed_release(s, self, cursors[stage]);
  }
  for (int i = 0; i < parts; i++)
    moe__accumulator_unpack(b, parts_sums[i], sums + (ptrdiff_t)i * count);
}

/* Finishes piece `p` of a stage, and turns the next one into numbers then: in its place, or, that
 * of the next stage, in `first`. */
static void multiply_behind(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                            moe__cursor_t cursor, int p, flight_t *now, piece_t first,
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

/* Multiplies the stage at `cursor`, whose first piece has been turned into numbers; what follows a
 * piece is, while its products run: the next piece, or that of the next stage, if there is one. */
static void multiply_stage(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                           moe__cursor_t cursor, piece_t first, moe__mixed_units_t *units,
                           bool has_next, moe__mixed_fragment_t sums) {
  if (goes_on_in_parts(s)) {
    multiply_long_stages(s, self, cursor, 1, first, units, has_next, sums);
    return;
  }
  if (s->schedule.scaled_weights && s->schedule.behind) {
    multiply_scaled_behind(s, self, cursor, first, has_next, sums);
    return;
  }
  if (s->schedule.scaled_weights) {
    multiply_scaled_stage(s, self, cursor, first, has_next, sums);
    return;
  }
  if (s->schedule.token_parts > 1) {
    multiply_stages_in_parts(s, self, cursor, 1, first, has_next, sums);
    return;
  }
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  int pieces = s->schedule.depth / moe__mixed_piece_columns(s);
  bool overlaps = s->schedule.in_flight > 1;
  MlirValue buffer = moe__ring_buffer(kernel, &s->layout.ring, cursor);
  MlirValue tokens = moe__wgmma_descriptor(b, buffer);
  flight_t flights[2];
  memcpy(flights[0].weights, first, sizeof flights[0].weights);
  for (int p = 0; p < pieces; p++) {
    flight_t *now = &flights[p % 2], *other = &flights[(p + 1) % 2];
    issue_piece(s, tokens, p, now);
    moe__mixed_load_scales(s, self, buffer, number_of(s, p), now->scales);
    if (s->schedule.behind) {
      multiply_behind(s, self, cursor, p, now, first, has_next, sums);
      if (p + 1 < pieces)
        memcpy(other->weights, now->weights, sizeof now->weights);
      continue;
    }
    if (overlaps && p > 0)
      finish_piece(s, other, 1, sums);
    if (p + 1 < pieces)
      convert_piece(s, self, buffer, p + 1, other->weights);
    else if (has_next)
      begin_stage(s, self, moe__cursor_next(b, &s->layout.ring, cursor), first, NULL, NULL);
    if (!overlaps || p + 1 == pieces)
      finish_piece(s, now, 0, sums);
  }
  keep_here(s, sums);
  moe__mixed_release(s, self, cursor);
}

/* The words of a piece among the variables that a loop carries; the units of its stage, where there
 * are some, of FP8 weights what they were until then, and where a stage's scales by rows begin. */
static MlirValue pack_piece(moe__mixed_mm_t *s, const piece_t piece,
                            const moe__mixed_units_t *units) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue words[MOE__MIXED_STEPS * MOE__WGMMA_A_REGISTERS + 2 * MOE__MIXED_MOST_UNITS + 3];
  int count = piece_words(s);
  memcpy(words, piece, (size_t)count * sizeof *words);
  for (int h = 0; h < 2 && s->format == MOE__WEIGHT_E4M3; h++)
    words[count++] = s->greatest[h];
  if (s->layout.scales_of_rows)
    words[count++] = s->row_scale;
  if (moe__mixed_rescales(s)) {
    for (int i = 0; i < moe__mixed_own_units(s); i++) {
      words[count++] = units->factors[i];
      words[count++] = moe__bitcast(b, units->ratios[i], b->i32);
    }
    words[count++] = moe__bitcast(b, units->above, b->i32);
    words[count++] = moe__bitcast(b, units->below, b->i32);
  }
  return moe__vector(b, count, words);
}

static void unpack_piece(moe__mixed_mm_t *s, MlirValue packed, piece_t out,
                         moe__mixed_units_t *units) {
  moe__builder_t *b = &s->kernel.builder;
  int count = 0;
  while (count < piece_words(s)) {
    out[count] = moe__extract(b, packed, count);
    count++;
  }
  for (int h = 0; h < 2 && s->format == MOE__WEIGHT_E4M3; h++)
    s->greatest[h] = moe__extract(b, packed, count + h);
  if (s->layout.scales_of_rows)
    s->row_scale = moe__extract(b, packed, count + 2);
  if (!moe__mixed_rescales(s))
    return;
  for (int i = 0; i < moe__mixed_own_units(s); i++) {
    units->factors[i] = moe__extract(b, packed, count++);
    units->ratios[i] = moe__bitcast(b, moe__extract(b, packed, count++), b->f32);
  }
  units->above = moe__bitcast(b, moe__extract(b, packed, count), b->f32);
  units->below = moe__bitcast(b, moe__extract(b, packed, count + 1), b->f32);
}

int moe__mixed_registers(const moe__mixed_schedule_t *schedule) {
  if (schedule->token_parts > 1 && !schedule->long_sums)
    return moe__mixed_is_tight(schedule)
               ? registers_of_parts(schedule, 1, 32)
               : registers_of_parts(schedule, 2, schedule->token_parts > 2 ? 32 : 48);
  if (schedule->long_sums)
    return schedule->tile_n / 2 + (schedule->behind ? 48 : 72);
  if (schedule->behind)
    return schedule->tile_n + 48;
  /* The sums, those in flight, two pieces of weights, and what addresses take. */
  int others = schedule->in_flight > 1 ? 84 : 72;
  /* ptxas loads the numbers of several pieces of a long stage at once, if there are few tokens. */
  if (schedule->depth > 128 && schedule->tile_n == 16)
    others += 12;
  return schedule->tile_n / 2 * (1 + schedule->in_flight) + others;
}

void moe__mixed_multiply(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                         const moe__mixed_reduction_t *reduction, moe__cursor_t cursor,
                         moe__mixed_fragment_t sums) {
  moe__builder_t *b = &s->kernel.builder;
  moe__accumulator_t sum = moe__wgmma_zero(b, s->n);
  moe__accumulator_unpack(b, sum, sums);
  MlirValue last = moe__sub(b, reduction->count, 1), done = moe__i32(b, 0);
  piece_t piece;
  s->greatest[0] = s->greatest[1] = moe__i32(b, 0);
  if (s->layout.scales_of_rows)
    s->row_scale = row_scale_after(s, moe__i32(b, 0), moe__sub(b, reduction->first, 1));
  moe__mixed_units_t units = {0};
  MlirValue ratios[2];
  moe__mixed_first_units(s, &units);
  begin_stage(s, self, cursor, piece, &units, ratios);
  MlirValue packed = pack_piece(s, piece, &units);
  int stages = s->schedule.unroll;
  if (stages > 1) {
    MlirValue rounds = moe__udiv(b, last, stages);
    MOE__FOR (b, round, 0, rounds, 1, MOE__CARRY_CURSOR(cursor), &sum.value, &packed) {
      moe__accumulator_unpack(b, sum, sums);
      unpack_piece(s, packed, piece, &units);
      if (goes_on_in_parts(s))
        multiply_long_stages(s, self, cursor, stages, piece, &units, true, sums);
      else
        multiply_stages_in_parts(s, self, cursor, stages, piece, true, sums);
      sum = moe__accumulator_pack(b, s->n, sums);
      packed = pack_piece(s, piece, &units);
      for (int i = 0; i < stages; i++)
        cursor = moe__cursor_next(b, &s->layout.ring, cursor);
    }
    done = moe__mul(b, rounds, stages);
  }
  MOE__FOR (b, k_tile, done, last, 1, MOE__CARRY_CURSOR(cursor), &sum.value, &packed) {
    moe__accumulator_unpack(b, sum, sums);
    unpack_piece(s, packed, piece, &units);
    multiply_stage(s, self, cursor, piece, &units, true, sums);
    sum = moe__accumulator_pack(b, s->n, sums);
    packed = pack_piece(s, piece, &units);
    cursor = moe__cursor_next(b, &s->layout.ring, cursor);
  }
  moe__accumulator_unpack(b, sum, sums);
  unpack_piece(s, packed, piece, &units);
  multiply_stage(s, self, cursor, piece, &units, false, sums);
  bool is_long = s->schedule.long_sums;
  if (!is_long && s->format != MOE__WEIGHT_E4M3)
    return;
  MlirValue factors[2];
  if (moe__mixed_rescales(s))
    moe__mixed_last_units(s, &units, factors);
  else
    moe__mixed_last_factors(s, is_long ? moe__mixed_divisor(s) : 1, factors);
  for (int i = 0; i < s->n / 2; i++)
    sums[i] = moe__fmul(b, sums[i], factors[i % 4 / 2]);
}

MlirValue moe__mixed_is_common(moe__mixed_mm_t *s, const moe__mixed_position_t *self) {
  moe__builder_t *b = &s->kernel.builder;
  return moe__ult(b, moe__i32(b, (s->schedule.warpgroups - 1) * MOE__MIXED_WARPS - 1), self->panel);
}

void moe__mixed_pass(moe__mixed_mm_t *s, const moe__mixed_position_t *self, MlirValue count,
                     moe__cursor_t cursor) {
  moe__builder_t *b = &s->kernel.builder;
  MOE__FOR (b, k_tile, 0, count, 1, MOE__CARRY_CURSOR(cursor)) {
    (void)k_tile;
    moe__ring_wait(&s->kernel, &s->layout.ring, cursor);
    moe__mixed_release(s, self, cursor);
    cursor = moe__cursor_next(b, &s->layout.ring, cursor);
  }
}
