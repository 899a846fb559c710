/* Panels.c - warps that multiply a panel of 16 rows each: see MixedMm.h.
 *
 * With few tokens a product takes as long as turning four bits into numbers, and a warpgroup does
 * one after the other. A warp that multiplies alone, by mma.sync, needs no other one: there may be
 * as many as the rows want, so that tiles fit the multiprocessors, and while one waits for its sum
 * others turn their weights into numbers. The warps of a panel divide the columns of a stage
 * (`slices`), and Store.c adds what they have.
 *
 * With `direct` a lane loads its weights from memory into registers itself: those of the next stage
 * while it multiplies those of this one, so that what is in flight does not wait for other warps.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/mixed_mm/MixedMm.h"

#define TOKENS 8                               /* of one mma */
#define SUMS 4                                 /* of a lane, of them */
#define MAX_BLOCKS (MOE__WGMMA_MAX_N / TOKENS) /* of tokens, of a tile */
#define HALVES 2                               /* of a chunk; an ldmatrix takes one of 8 tokens */
#define MATRIX_WORDS 4                         /* of a lane */

/* Chunks that a warp has of a stage. */
static int warp_chunks(const moe__mixed_schedule_t *schedule) {
  return schedule->depth / MOE_WEIGHT_COLUMNS / schedule->slices;
}

/* What a lane has of a chunk's tokens: for each 8 of them, two words for each step. */
typedef MlirValue tokens_t[MAX_BLOCKS][HALVES * MATRIX_WORDS];

int moe__mixed_panel_registers(const moe__mixed_schedule_t *schedule) {
  int direct = schedule->direct ? warp_chunks(schedule) * MOE__MIXED_STEPS : 0;
  /* Sums, a piece's, a chunk's tokens; and weights, numbers and what addresses take. */
  return schedule->tile_n / TOKENS * 2 * SUMS + schedule->tile_n / 2 + 40 + direct;
}

/* Where the 16 bytes are that the lane names of the first 8 tokens of a chunk, for both of its
 * halves. Rows have 128 bytes in the 128-byte swizzle. */
typedef struct place_t {
  MlirValue half[HALVES];
} place_t;

/* Loads the tokens of chunk `index` of the warp's part of the stage, which begins with chunk
 * `first` (null: 0). */
static void load_tokens(moe__mixed_mm_t *s, const place_t *place, MlirValue first, int index,
                        tokens_t out) {
  moe__builder_t *b = &s->kernel.builder;
  int chunk_bytes = s->schedule.tile_n * MOE__MIXED_CHUNK_BYTES, more = index * chunk_bytes;
  for (int h = 0; h < HALVES; h++) {
    MlirValue from = place->half[h];
    if (!mlirValueIsNull(first))
      from = moe__offset(b, from, moe__mul(b, first, chunk_bytes));
    for (int t = 0; t < s->schedule.tile_n / TOKENS; t++)
      moe__load_matrix(b, moe__offset_by(b, from, more + t * TOKENS * MOE__MIXED_CHUNK_BYTES),
                       out[t] + (ptrdiff_t)h * MATRIX_WORDS);
  }
}

/* A piece's products, from step `first` of the chunk on, added to the sums. */
static void multiply_piece(moe__mixed_mm_t *s, MlirValue words, int first, tokens_t tokens,
                           const MlirValue subtrahends[2], const MlirValue scales[2],
                           moe__mixed_fragment_t sums) {
  moe__builder_t *b = &s->kernel.builder;
  int blocks = s->schedule.tile_n / TOKENS;
  MlirValue products[MAX_BLOCKS][SUMS] = {{{NULL}}};
  for (int i = 0; i < moe__mixed_piece_columns(s) / MOE__MIXED_STEP; i++) {
    MlirValue weights[MOE__WGMMA_A_REGISTERS];
    moe__mixed_convert(s, moe__extract(b, words, first + i), subtrahends, weights);
    for (int t = 0; t < blocks; t++)
      moe__mma_k16(b, s->x_type, weights, tokens[t] + (ptrdiff_t)2 * (first + i),
                   i ? products[t] : NULL, products[t]);
  }
  for (int t = 0; t < blocks; t++)
    for (int i = 0; i < SUMS; i++)
      sums[SUMS * t + i] = moe__fma(b, products[t][i], scales[i / 2], sums[SUMS * t + i]);
}

/* Chunk `index` of the warp's part of the stage, which begins with chunk `first` (null: 0), of the
 * weights `words`. */
static void multiply_chunk(moe__mixed_mm_t *s, const moe__mixed_position_t *self, MlirValue buffer,
                           const place_t *place, MlirValue first, int index, MlirValue words,
                           const moe__mixed_own_scales_t *own, moe__mixed_fragment_t sums) {
  moe__builder_t *b = &s->kernel.builder;
  int piece = moe__mixed_piece_columns(s), pieces = MOE_WEIGHT_COLUMNS / piece;
  bool is_divided = !mlirValueIsNull(first);
  tokens_t tokens;
  load_tokens(s, place, first, index, tokens);
  for (int p = 0; p < pieces; p++) {
    moe__mixed_number_t number = {{NULL}, 0};
    if (s->group && s->group <= MOE_WEIGHT_COLUMNS && is_divided)
      number.first = moe__mul(b, first, pieces);
    if (s->group && s->group <= MOE_WEIGHT_COLUMNS)
      number.constant = index * pieces + p;
    else if (s->group && is_divided)
      number.first =
          moe__udiv(b, moe__mul(b, moe__add(b, first, index), MOE_WEIGHT_COLUMNS), s->group);
    else if (s->group)
      number.constant = index * MOE_WEIGHT_COLUMNS / s->group;
    MlirValue scales[2], subtrahends[2];
    if (own)
      moe__mixed_share_scales(s, own, number.constant, scales);
    else
      moe__mixed_load_scales(s, self, buffer, number, scales);
    moe__mixed_load_subtrahends(s, self, buffer, number, subtrahends);
    multiply_piece(s, words, p * piece / MOE__MIXED_STEP, tokens, subtrahends, scales, sums);
  }
}

/* The same of weights that are multiplied by their scales, whose products are added to the sums
 * themselves. */
static void multiply_scaled_chunk(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                                  MlirValue buffer, const place_t *place, MlirValue first,
                                  int index, MlirValue words, moe__mixed_fragment_t sums) {
  moe__builder_t *b = &s->kernel.builder;
  int steps = s->group / MOE__MIXED_STEP; /* that share a scale */
  tokens_t tokens;
  MlirValue factors[2] = {{NULL}, {NULL}};
  load_tokens(s, place, first, index, tokens);
  for (int i = 0; i < MOE__MIXED_STEPS; i++) {
    MlirValue weights[MOE__WGMMA_A_REGISTERS];
    if (i % steps == 0)
      moe__mixed_load_factors(s, self, buffer, (index * MOE__MIXED_STEPS + i) / steps, factors);
    moe__mixed_convert_scaled(s, moe__extract(b, words, i), factors, weights);
    for (int t = 0; t < s->schedule.tile_n / TOKENS; t++) {
      MlirValue *sum = sums + (ptrdiff_t)SUMS * t;
      moe__mma_k16(b, s->x_type, weights, tokens[t] + (ptrdiff_t)2 * i, sum, sum);
    }
  }
}

/* ---- Weights that a lane loads itself ---- */

/* Vectors of words: the warp's chunks of a stage. */
typedef MlirValue ahead_t[MOE__MIXED_MOST_AHEAD];

/* Where a lane's weights are. */
typedef struct direct_t {
  MlirValue panel;        /* !llvm.ptr<1>: the lane's part of its panel's first chunk */
  MlirValue chunks;       /* of a panel, i32 */
  MlirValue first, slice; /* the first k-tile of the CTA, the warp's first chunk in each; i32 */
} direct_t;

/* Of a panel behind the last one: those of the last, nobody asks for its sums. */
static direct_t direct_of(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                          const moe__mixed_reduction_t *reduction, const moe__mixed_tile_t *tile,
                          MlirValue slice) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue panels = moe__lshr(b, s->rows.value, 4);
  MlirValue panel =
      moe__umin(b, moe__add(b, moe__lshr(b, tile->row, 4), self->panel), moe__sub(b, panels, 1));
  if (!mlirValueIsNull(s->offs))
    panel = moe__add(b, panel, moe__mul(b, tile->expert, panels));
  MlirValue chunks = moe__ceil_div(b, s->depth.value, MOE_WEIGHT_COLUMNS);
  MlirValue at = moe__wide_mul(b, panel, moe__mul(b, chunks, MOE_WEIGHT_BYTES));
  MlirValue from = moe__offset(b, moe__offset(b, s->w, at), moe__shl(b, self->lane, 4));
  return (direct_t){from, chunks, reduction->first, slice};
}

/* Asks for chunk `index` of the warp's in k-tile `k_tile` of the CTA's. Behind the last chunk that
 * one again: its tokens are zeros there. */
static MlirValue load_ahead(moe__mixed_mm_t *s, const direct_t *from, MlirValue k_tile, int index) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue chunk =
      moe__mul(b, moe__add(b, from->first, k_tile), s->schedule.depth / MOE_WEIGHT_COLUMNS);
  if (!mlirValueIsNull(from->slice))
    chunk = moe__add(b, chunk, from->slice);
  chunk = moe__umin(b, moe__add(b, chunk, index), moe__sub(b, from->chunks, 1));
  return moe__load_once(b, moe__offset(b, from->panel, moe__mul(b, chunk, MOE_WEIGHT_BYTES)));
}

/* The weights of a stage among the variables that a loop carries. */
static MlirValue pack_ahead(moe__mixed_mm_t *s, const ahead_t ahead) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue words[MOE__MIXED_MOST_AHEAD * MOE__MIXED_STEPS];
  int chunks = warp_chunks(&s->schedule);
  for (int i = 0; i < chunks * MOE__MIXED_STEPS; i++)
    words[i] = moe__extract(b, ahead[i / MOE__MIXED_STEPS], i % MOE__MIXED_STEPS);
  return moe__vector(b, (intptr_t)chunks * MOE__MIXED_STEPS, words);
}

static void unpack_ahead(moe__mixed_mm_t *s, MlirValue packed, ahead_t out) {
  moe__builder_t *b = &s->kernel.builder;
  for (int i = 0; i < warp_chunks(&s->schedule); i++) {
    MlirValue words[MOE__MIXED_STEPS];
    for (int j = 0; j < MOE__MIXED_STEPS; j++)
      words[j] = moe__extract(b, packed, i * MOE__MIXED_STEPS + j);
    out[i] = moe__vector(b, MOE__MIXED_STEPS, words);
  }
}

/* ---- All columns ---- */

/* A lane's addresses of tokens, in a stage. */
typedef struct tokens_at_t {
  MlirValue own, other; /* of both halves, i32 */
} tokens_at_t;

/* The warp's part of a stage, which begins with chunk `first` (null: 0). With `direct` not null its
 * weights are `ahead`, and those of k-tile `next` (null: there is none) replace them. */
static void multiply_stage(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                           const tokens_at_t *at, MlirValue first, const direct_t *direct,
                           MlirValue next, ahead_t ahead, moe__cursor_t cursor,
                           moe__mixed_fragment_t sums) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  moe__ring_wait(kernel, &s->layout.ring, cursor);
  MlirValue buffer = moe__ring_buffer(kernel, &s->layout.ring, cursor);
  place_t place = {{moe__offset(b, buffer, at->own), moe__offset(b, buffer, at->other)}};
  int chunks = warp_chunks(&s->schedule),
      of_chunk = MOE_WEIGHT_COLUMNS / moe__mixed_piece_columns(s);
  moe__mixed_own_scales_t own;
  bool divides = moe__mixed_divides_scales(s, chunks * of_chunk);
  MlirValue number = first;
  if (!mlirValueIsNull(first))
    number = moe__mul(b, first, of_chunk);
  if (s->schedule.scaled_weights)
    moe__mixed_load_own_factors(s, self, buffer, number);
  else if (divides)
    moe__mixed_load_own_scales(s, self, buffer, number, chunks * of_chunk, &own);
  for (int i = 0; i < chunks; i++) {
    MlirValue words =
        direct ? ahead[i] : moe__mixed_load_words(s, self, buffer, (moe__mixed_number_t){first, i});
    if (s->schedule.scaled_weights)
      multiply_scaled_chunk(s, self, buffer, &place, first, i, words, sums);
    else
      multiply_chunk(s, self, buffer, &place, first, i, words, divides ? &own : NULL, sums);
    if (!mlirValueIsNull(next))
      ahead[i] = load_ahead(s, direct, next, i);
  }
  if (mlirValueIsNull(s->goes_on)) {
    moe__mixed_release(s, self, cursor);
    return;
  }
  MOE__IF (b, s->goes_on) {
    moe__mixed_release(s, self, cursor);
  }
}

void moe__mixed_multiply_panel(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                               const moe__mixed_reduction_t *reduction,
                               const moe__mixed_tile_t *tile, moe__cursor_t cursor,
                               moe__mixed_fragment_t sums) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  MlirValue first = {NULL}, none = {NULL};
  if (s->schedule.slices > 1)
    first = moe__mul(b, self->slice, warp_chunks(&s->schedule));
  ahead_t ahead = {{NULL}};
  direct_t direct = {{NULL}, {NULL}, {NULL}, {NULL}};
  if (s->schedule.direct) {
    direct = direct_of(s, self, reduction, tile, first);
    for (int i = 0; i < warp_chunks(&s->schedule); i++)
      ahead[i] = load_ahead(s, &direct, moe__i32(b, 0), i);
  }
  /* Matrices 0 to 3 are 8 columns each. Lane l names row l % 8 of matrix l / 8. */
  MlirValue line = moe__and(b, self->lane, 7), matrix = moe__lshr(b, self->lane, 3);
  tokens_at_t at;
  at.own = moe__add(b, moe__mul(b, line, MOE__MIXED_CHUNK_BYTES),
                    moe__shl(b, moe__xor(b, matrix, line), 4));
  at.other = moe__xor(b, at.own, MOE__MIXED_CHUNK_BYTES / HALVES);
  moe__accumulator_t sum = moe__wgmma_zero(b, s->schedule.tile_n);
  if (!s->schedule.direct) {
    MOE__FOR (b, k_tile, 0, reduction->count, 1, MOE__CARRY_CURSOR(cursor), &sum.value) {
      moe__accumulator_unpack(b, sum, sums);
      multiply_stage(s, self, &at, first, NULL, none, ahead, cursor, sums);
      sum = moe__accumulator_pack(b, s->schedule.tile_n, sums);
      cursor = moe__cursor_next(b, &s->layout.ring, cursor);
    }
    moe__accumulator_unpack(b, sum, sums);
    return;
  }
  MlirValue packed = pack_ahead(s, ahead);
  MOE__FOR (b, k_tile, 1, reduction->count, 1, MOE__CARRY_CURSOR(cursor), &sum.value, &packed) {
    moe__accumulator_unpack(b, sum, sums);
    unpack_ahead(s, packed, ahead);
    multiply_stage(s, self, &at, first, &direct, k_tile, ahead, cursor, sums);
    sum = moe__accumulator_pack(b, s->schedule.tile_n, sums);
    packed = pack_ahead(s, ahead);
    cursor = moe__cursor_next(b, &s->layout.ring, cursor);
  }
  moe__accumulator_unpack(b, sum, sums);
  unpack_ahead(s, packed, ahead);
  multiply_stage(s, self, &at, first, &direct, none, ahead, cursor, sums);
}
