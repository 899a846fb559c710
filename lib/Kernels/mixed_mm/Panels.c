/* Panels.c - warps that multiply a panel of 16 rows each: see MixedMm.h.
 *
 * With few tokens a product takes as long as turning four bits into numbers, and a warpgroup does
 * one after the other. A warp that multiplies alone, by mma.sync, needs no other one: there may be
 * as many as the rows want, so that tiles fit the multiprocessors, and while one waits for its sum
 * others turn their weights into numbers. The warps of a panel divide the columns of a stage
 * (`slices`), and Store.c adds what they have.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/mixed_mm/MixedMm.h"

#define TOKENS 8                               /* of one mma */
#define SUMS 4                                 /* of a lane, of them */
#define MAX_BLOCKS (MOE__WGMMA_MAX_N / TOKENS) /* of tokens, of a tile */
#define HALVES 2                               /* of a chunk; an ldmatrix takes one of 8 tokens */
#define MATRIX_WORDS 4                         /* of a lane */

/* What a lane has of a chunk's tokens: for each 8 of them, two words for each step. */
typedef MlirValue tokens_t[MAX_BLOCKS][HALVES * MATRIX_WORDS];

int moe__mixed_panel_registers(const moe__mixed_schedule_t *schedule) {
  /* Sums, a piece's, a chunk's tokens; and weights, numbers and what addresses take. */
  return schedule->tile_n / TOKENS * 2 * SUMS + schedule->tile_n / 2 + 40;
}

/* Where the 16 bytes are that the lane names of the first 8 tokens of a chunk, for both of its
 * halves. Rows have 128 bytes in the 128-byte swizzle. */
typedef struct place_t {
  MlirValue half[HALVES];
} place_t;

/* Loads the tokens of the chunk that is so many bytes further. */
static void load_tokens(moe__mixed_mm_t *s, const place_t *place, MlirValue distance, int more,
                        tokens_t out) {
  moe__builder_t *b = &s->kernel.builder;
  for (int h = 0; h < HALVES; h++) {
    MlirValue from = place->half[h];
    if (!mlirValueIsNull(distance))
      from = moe__offset(b, from, distance);
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
  for (int i = 0; i < moe__mixed_piece(s) / MOE__MIXED_STEP; i++) {
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

/* Chunk `index` of the warp's part of the stage, which begins with chunk `first` (null: 0). */
static void multiply_chunk(moe__mixed_mm_t *s, const moe__mixed_position_t *self, MlirValue buffer,
                           const place_t *place, MlirValue first, int index,
                           moe__mixed_fragment_t sums) {
  moe__builder_t *b = &s->kernel.builder;
  int piece = moe__mixed_piece(s), pieces = MOE_WEIGHT_COLUMNS / piece;
  int chunk_bytes = s->schedule.tile_n * MOE__MIXED_CHUNK_BYTES;
  bool is_divided = !mlirValueIsNull(first);
  tokens_t tokens;
  MlirValue words = moe__mixed_load_words(s, self, buffer, (moe__mixed_number_t){first, index});
  MlirValue distance = {NULL};
  if (is_divided)
    distance = moe__mul(b, first, chunk_bytes);
  load_tokens(s, place, distance, index * chunk_bytes, tokens);
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
    moe__mixed_load_scales(s, self, buffer, number, scales);
    moe__mixed_load_subtrahends(s, self, buffer, number, subtrahends);
    multiply_piece(s, words, p * piece / MOE__MIXED_STEP, tokens, subtrahends, scales, sums);
  }
}

void moe__mixed_multiply_panel(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                               const moe__mixed_reduction_t *reduction, moe__cursor_t cursor,
                               moe__mixed_fragment_t sums) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  int chunks = s->schedule.depth / MOE_WEIGHT_COLUMNS / s->schedule.slices;
  MlirValue first = {NULL};
  if (s->schedule.slices > 1)
    first = moe__mul(b, self->slice, chunks);
  /* Matrices 0 to 3 are 8 columns each. Lane l names row l % 8 of matrix l / 8. */
  MlirValue line = moe__and(b, self->lane, 7), matrix = moe__lshr(b, self->lane, 3);
  MlirValue at = moe__add(b, moe__mul(b, line, MOE__MIXED_CHUNK_BYTES),
                          moe__shl(b, moe__xor(b, matrix, line), 4));
  MlirValue other = moe__xor(b, at, MOE__MIXED_CHUNK_BYTES / HALVES);
  moe__accumulator_t sum = moe__wgmma_zero(b, s->schedule.tile_n);
  MOE__FOR (b, k_tile, 0, reduction->count, 1, MOE__CARRY_CURSOR(cursor), &sum.value) {
    (void)k_tile;
    moe__accumulator_unpack(b, sum, sums);
    moe__ring_wait(kernel, &s->layout.ring, cursor);
    MlirValue buffer = moe__ring_buffer(kernel, &s->layout.ring, cursor);
    place_t place = {{moe__offset(b, buffer, at), moe__offset(b, buffer, other)}};
    for (int i = 0; i < chunks; i++)
      multiply_chunk(s, self, buffer, &place, first, i, sums);
    moe__mixed_release(s, self, cursor);
    sum = moe__accumulator_pack(b, s->schedule.tile_n, sums);
    cursor = moe__cursor_next(b, &s->layout.ring, cursor);
  }
  moe__accumulator_unpack(b, sum, sums);
}
