/* Multiply.c - the warpgroups that multiply: see Multiply.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/mixed_mm/Multiply.h"

#include <string.h>

/* ---- Registers ---- */

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

/* ---- Pieces of a stage ---- */

#define STEP_BYTES (2 * MOE__MIXED_STEP) /* of a token */

moe__mixed_number_t moe__mixed_number_of(const moe__mixed_mm_t *s, int index) {
  return (moe__mixed_number_t){.constant =
                                   s->group ? index * moe__mixed_piece_columns(s) / s->group : 0};
}

static int chunk_of(const moe__mixed_mm_t *s, int index) {
  return index * moe__mixed_piece_columns(s) / MOE_WEIGHT_COLUMNS;
}

int moe__mixed_first_word(const moe__mixed_mm_t *s, int index) {
  return index * moe__mixed_piece_columns(s) % MOE_WEIGHT_COLUMNS / MOE__MIXED_STEP;
}

MlirValue moe__mixed_piece_chunk(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                                 MlirValue buffer, int index) {
  return moe__mixed_load_words(s, self, buffer,
                               (moe__mixed_number_t){.constant = chunk_of(s, index)});
}

int moe__mixed_piece_words(const moe__mixed_mm_t *s) {
  return moe__mixed_piece_columns(s) / MOE__MIXED_STEP * MOE__WGMMA_A_REGISTERS;
}

int moe__mixed_part_tokens(const moe__mixed_mm_t *s) {
  return s->n / s->schedule.token_parts;
}

void moe__mixed_issue_products(moe__mixed_mm_t *s, MlirValue tokens, int index, int part,
                               const moe__mixed_piece_t weights, bool fresh,
                               moe__accumulator_t *sums) {
  moe__builder_t *b = &s->kernel.builder;
  int row = chunk_of(s, index) * s->schedule.tile_n + part * moe__mixed_part_tokens(s);
  int start = row * MOE__MIXED_CHUNK_BYTES + moe__mixed_first_word(s, index) * STEP_BYTES;
  for (int i = 0; i < moe__mixed_piece_columns(s) / MOE__MIXED_STEP; i++)
    *sums = moe__wgmma_k16_fragment(
        b, *sums, fresh && i == 0, weights + (ptrdiff_t)i * MOE__WGMMA_A_REGISTERS,
        moe__wgmma_advance(b, tokens, start + i * STEP_BYTES), s->x_type, false);
  moe__wgmma_commit(b);
}

void moe__mixed_keep_here(moe__mixed_mm_t *s, moe__mixed_fragment_t sums) {
  moe__builder_t *b = &s->kernel.builder;
  moe__accumulator_t sum = moe__accumulator_pack(b, s->n, sums);
  moe__wgmma_finish(b, sum, sums);
}

/* ---- Stages ---- */

/* Whether the sums of parts go on from piece to piece. */
static bool goes_on_in_parts(const moe__mixed_mm_t *s) {
  return moe__mixed_rescales(s) || (s->schedule.long_sums && s->schedule.token_parts > 1);
}

/* The first of a row's scales in a stage that is so many k-tiles behind another one. */
static MlirValue row_scale_after(moe__mixed_mm_t *s, MlirValue row_scale, MlirValue k_tiles) {
  moe__builder_t *b = &s->kernel.builder;
  int step = moe__mixed_scales_of_stage(s->group, s->schedule.depth);
  return moe__and(b, moe__add(b, row_scale, moe__mul(b, k_tiles, step)), MOE__MIXED_ROW_SCALES - 1);
}

void moe__mixed_next_row_scale(moe__mixed_mm_t *s) {
  if (s->layout.scales_of_rows)
    s->row_scale = row_scale_after(s, s->row_scale, moe__i32(&s->kernel.builder, 1));
}

void moe__mixed_begin_stage(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                            moe__cursor_t cursor, moe__mixed_piece_t first,
                            moe__mixed_units_t *units, MlirValue ratios[2]) {
  moe__ring_wait(&s->kernel, &s->layout.ring, cursor);
  MlirValue buffer = moe__ring_buffer(&s->kernel, &s->layout.ring, cursor);
  moe__mixed_next_row_scale(s);
  if (moe__mixed_rescales(s)) {
    moe__mixed_load_units(s, self, buffer, units);
    moe__mixed_unit_piece(s, self, buffer, 0, units, first, ratios);
  } else if (s->schedule.scaled_weights)
    moe__mixed_scaled_piece(s, self, buffer, 0, first);
  else
    moe__mixed_group_piece(s, self, buffer, 0, first);
}

void moe__mixed_walk_stages(moe__mixed_mm_t *s, int stages, moe__cursor_t *cursors,
                            MlirValue *buffers, MlirValue *tokens) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  for (int i = 0; i < stages; i++) {
    buffers[i] = moe__ring_buffer(kernel, &s->layout.ring, cursors[i]);
    tokens[i] = moe__wgmma_descriptor(b, buffers[i]);
    cursors[i + 1] = moe__cursor_next(b, &s->layout.ring, cursors[i]);
  }
}

/* Multiplies `stages` stages from the one at `cursor` on; more than one with tokens in parts. */
static void multiply_stages(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                            moe__cursor_t cursor, int stages, moe__mixed_piece_t first,
                            moe__mixed_units_t *units, bool has_next, moe__mixed_fragment_t sums) {
  if (goes_on_in_parts(s))
    moe__mixed_sum_long(s, self, cursor, stages, first, units, has_next, sums);
  else if (s->schedule.token_parts > 1)
    moe__mixed_sum_groups_in_parts(s, self, cursor, stages, first, has_next, sums);
  else if (s->schedule.scaled_weights && s->schedule.behind)
    moe__mixed_sum_scaled_behind(s, self, cursor, first, has_next, sums);
  else if (s->schedule.scaled_weights)
    moe__mixed_sum_scaled(s, self, cursor, first, has_next, sums);
  else
    moe__mixed_sum_groups(s, self, cursor, first, has_next, sums);
}

/* The words of a piece among the variables that a loop carries; with them the units of its stage,
 * where there are some, of FP8 weights the greatest so far, where the scales by rows of its stage
 * begin, and its own factors. */
static MlirValue pack_piece(moe__mixed_mm_t *s, const moe__mixed_piece_t piece,
                            const moe__mixed_units_t *units) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue words[MOE__MIXED_STEPS * MOE__WGMMA_A_REGISTERS + 2 * MOE__MIXED_MOST_UNITS +
                  2 * MOE__MIXED_MOST_OWN_FACTORS + 4];
  int count = moe__mixed_piece_words(s);
  memcpy(words, piece, (size_t)count * sizeof *words);
  for (int h = 0; h < 2 && moe__mixed_watches_nan(s); h++)
    words[count++] = s->greatest[h];
  if (s->layout.scales_of_rows)
    words[count++] = s->row_scale;
  for (int i = 0; i < moe__mixed_own_factors(s); i++)
    for (int h = 0; h < moe__mixed_factor_words(s); h++)
      words[count++] = s->own_factors[i][h];
  if (moe__mixed_has_row_powers(s))
    words[count++] = s->row_powers;
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

static void unpack_piece(moe__mixed_mm_t *s, MlirValue packed, moe__mixed_piece_t out,
                         moe__mixed_units_t *units) {
  moe__builder_t *b = &s->kernel.builder;
  int count = 0;
  while (count < moe__mixed_piece_words(s)) {
    out[count] = moe__extract(b, packed, count);
    count++;
  }
  for (int h = 0; h < 2 && moe__mixed_watches_nan(s); h++)
    s->greatest[h] = moe__extract(b, packed, count++);
  if (s->layout.scales_of_rows)
    s->row_scale = moe__extract(b, packed, count++);
  for (int i = 0; i < moe__mixed_own_factors(s); i++)
    for (int h = 0; h < moe__mixed_factor_words(s); h++)
      s->own_factors[i][h] = moe__extract(b, packed, count++);
  if (moe__mixed_has_row_powers(s))
    s->row_powers = moe__extract(b, packed, count++);
  if (!moe__mixed_rescales(s))
    return;
  for (int i = 0; i < moe__mixed_own_units(s); i++) {
    units->factors[i] = moe__extract(b, packed, count++);
    units->ratios[i] = moe__bitcast(b, moe__extract(b, packed, count++), b->f32);
  }
  units->above = moe__bitcast(b, moe__extract(b, packed, count), b->f32);
  units->below = moe__bitcast(b, moe__extract(b, packed, count + 1), b->f32);
}

/* What the loop over a tile's k-tiles carries. */
typedef struct loop_t {
  moe__cursor_t cursor;
  moe__accumulator_t sum;
  MlirValue packed; /* the first piece at the cursor */
} loop_t;

/* Rounds number `from` to `to` of the loop, of `stages` stages each, behind which others follow. */
static void multiply_rounds(moe__mixed_mm_t *s, const moe__mixed_position_t *self, MlirValue from,
                            MlirValue to, int stages, loop_t *loop) {
  moe__builder_t *b = &s->kernel.builder;
  moe__mixed_fragment_t sums;
  moe__mixed_piece_t piece;
  moe__mixed_units_t units = {0};
  MOE__FOR (b, round, from, to, 1, MOE__CARRY_CURSOR(loop->cursor), &loop->sum.value,
            &loop->packed) {
    moe__accumulator_unpack(b, loop->sum, sums);
    unpack_piece(s, loop->packed, piece, &units);
    multiply_stages(s, self, loop->cursor, stages, piece, &units, true, sums);
    loop->sum = moe__accumulator_pack(b, s->n, sums);
    loop->packed = pack_piece(s, piece, &units);
    for (int i = 0; i < stages; i++)
      loop->cursor = moe__cursor_next(b, &s->layout.ring, loop->cursor);
  }
}

void moe__mixed_multiply(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                         const moe__mixed_reduction_t *reduction, moe__cursor_t cursor,
                         moe__mixed_fragment_t sums) {
  moe__builder_t *b = &s->kernel.builder;
  loop_t loop = {.cursor = cursor, .sum = moe__wgmma_zero(b, s->n)};
  MlirValue last = moe__sub(b, reduction->count, 1), done = moe__i32(b, 0);
  s->greatest[0] = s->greatest[1] = moe__i32(b, 0);
  s->row_powers = (MlirValue){NULL};
  if (s->layout.scales_of_rows)
    s->row_scale = row_scale_after(s, moe__i32(b, 0), moe__sub(b, reduction->first, 1));
  moe__mixed_piece_t piece;
  moe__mixed_units_t units = {0};
  MlirValue ratios[2];
  moe__mixed_first_units(s, &units);
  moe__mixed_begin_stage(s, self, cursor, piece, &units, ratios);
  loop.packed = pack_piece(s, piece, &units);
  int stages = s->schedule.unroll;
  if (stages > 1) {
    MlirValue rounds = moe__udiv(b, last, stages);
    multiply_rounds(s, self, done, rounds, stages, &loop);
    done = moe__mul(b, rounds, stages);
  }
  multiply_rounds(s, self, done, last, 1, &loop);
  moe__accumulator_unpack(b, loop.sum, sums);
  unpack_piece(s, loop.packed, piece, &units);
  multiply_stages(s, self, loop.cursor, 1, piece, &units, false, sums);
  bool is_long = s->schedule.long_sums;
  if (!is_long && s->format != MOE__WEIGHT_E4M3 && !moe__mixed_has_row_powers(s))
    return;
  MlirValue factors[2];
  if (moe__mixed_has_row_powers(s))
    moe__mixed_inverse_powers(s, factors);
  else if (moe__mixed_rescales(s))
    moe__mixed_last_units(s, &units, factors);
  else
    moe__mixed_last_factors(s, is_long ? MOE__MIXED_DIVISOR : 1, factors);
  for (int i = 0; i < s->n / 2; i++)
    sums[i] = moe__fmul(b, sums[i], factors[i % 4 / 2]);
}

/* ---- Rows in common ---- */

MlirValue moe__mixed_is_common(moe__mixed_mm_t *s, const moe__mixed_position_t *self) {
  moe__builder_t *b = &s->kernel.builder;
  return moe__ult(b, moe__i32(b, (s->schedule.warpgroups - 1) * MOE__MIXED_WARPS - 1), self->panel);
}

void moe__mixed_pass(moe__mixed_mm_t *s, const moe__mixed_position_t *self, MlirValue count,
                     moe__cursor_t cursor) {
  moe__builder_t *b = &s->kernel.builder;
  MOE__FOR (b, k_tile, 0, count, 1, MOE__CARRY_CURSOR(cursor)) {
    moe__ring_wait(&s->kernel, &s->layout.ring, cursor);
    moe__mixed_release(s, self, cursor);
    cursor = moe__cursor_next(b, &s->layout.ring, cursor);
  }
}
