/* BlockScales.c - scales of blocks in the kernel of scaled_mm: see ScaledMm.h.
 *
 *   out = cast(sum over j of (sa[m, j] * sb[e, j, n / 128]) * dot_j)
 *
 * A k-tile is one block of the reduction: its sum is added with its factor, sa * sb, by one fma
 * an element.
 *
 * sa has its tokens side by side in memory, and is seen as one vector: what a tile takes of a
 * k-tile is a box of it, which lands with the stage. A box begins at a multiple of 16 bytes and
 * a group anywhere: the box begins up to three tokens early. Of sb, seen as a vector too, a tile
 * takes one scale or two of each k-tile. Each multiplying warp loads those of 16 k-tiles at once,
 * one in a lane, while it multiplies the 16 before. Where operands are swapped the scale of the
 * weights lands with the stage too, in a box of four. The loader does not wait for any of it. Where
 * in the boxes the first token and the scale are, the multiplying warps find by themselves. Who has
 * waited for the stage reads all of it; there are no other barriers.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/scaled_grouped_mm/ScaledMm.h"

#include "lib/Device/Warp.h"
#include "lib/Kernels/Requirements.h"
#include "lib/Kernels/scaled_grouped_mm/Blocks.h"

#define BLOCK MOE__MM_TILE_K
#define PIECE 64     /* columns of a tile: they are in one block */
#define MAX_PIECES 3 /* tile_n is at most 192: sums are promoted */
#define ALIGNMENT 4  /* scales: where a box may begin */
/* Of a stage: the distance of stages is a multiple. In it the boxes of sa and of sb. */
#define STAGE_BYTES 1024
#define SB_AT 768

/* ---- What there is ---- */

bool moe__mm_has_block_scales(const moe__scaled_mm_t *s) {
  return s->operands[MOE__MM_QA].granularity == MOE__SCALE_OF_BLOCK;
}

bool moe__mm_holds_block_scales(const moe__scaled_mm_t *s) {
  return moe__mm_has_block_scales(s) && s->which != MOE__GRADIENT && !s->schedule.swap_operands;
}

int32_t moe__mm_block_scales_reserve(void) {
  return STAGE_BYTES;
}

/* Tokens in a box of sa. */
static int sa_box(const moe__scaled_mm_t *s) {
  return s->operands[MOE__MM_QA].tile + ALIGNMENT;
}

void moe__mm_block_scales_parameters(moe__scaled_mm_t *s, MlirOperation op) {
  moe__record_t *record = &s->kernel.record;
  const moe__expression_t *blocks = moe__expression_ceildiv(record, s->depth.expression, BLOCK);
  const moe__expression_t *all =
      moe__expression_mul(record, MOE__EXPRESSIONS(blocks, s->rows.expression));
  if (s->which == MOE__BATCHED) /* as many for each expert */
    all = moe__expression_mul(record, MOE__EXPRESSIONS(s->experts.expression, all));
  moe__tensor_map_t map = {.tensor = moe__tensor_number(op, MOE__SA),
                           .element = MOE__MAP_F32,
                           .rank = 1,
                           .dims = {all},
                           .box = {moe__expression_constant(record, sa_box(s))},
                           .swizzle = MOE__SWIZZLE_NONE};
  s->sa_map = moe__kernel_tensor_map(&s->kernel, &map);
  if (moe__mm_holds_block_scales(s)) {
    int number = moe__tensor_number(op, MOE__SB);
    s->operands[MOE__MM_QB].scales = moe__kernel_pointer(&s->kernel, number);
    return;
  }
  const moe__expression_t *of_columns =
      moe__expression_ceildiv(record, s->columns.expression, BLOCK);
  map.tensor = moe__tensor_number(op, MOE__SB);
  map.dims[0] =
      moe__expression_mul(record, MOE__EXPRESSIONS(s->experts.expression, blocks, of_columns));
  map.box[0] = moe__expression_constant(record, ALIGNMENT);
  s->sb_map = moe__kernel_tensor_map(&s->kernel, &map);
}

int32_t moe__mm_block_scales_bytes(const moe__scaled_mm_t *s) {
  return (sa_box(s) + (moe__mm_holds_block_scales(s) ? 0 : ALIGNMENT)) * 4;
}

/* ---- Where the scales of a tile are ---- */

moe__mm_block_loads_t moe__mm_block_loads(moe__scaled_mm_t *s, const moe__group_tile_t *tile) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue one = moe__i32(b, 1), blocks = moe__ceil_div(b, s->depth.value, BLOCK);
  MlirValue of_columns = moe__ceil_div(b, s->columns.value, BLOCK);
  MlirValue column = moe__mul(b, tile->column, s->operands[MOE__MM_QB].tile);
  MlirValue first = moe__lshr(b, column, 7);
  if (s->schedule.beside) /* a tile may lie behind all columns */
    first = moe__umin(b, first, moe__sub(b, of_columns, one));
  moe__mm_block_loads_t loads = {.step = s->sb_is_row_major ? of_columns : one};
  /* Where the matrix of the expert begins in sb, and where the tile's columns do in it. */
  MlirValue matrix = moe__mul(b, moe__mul(b, tile->group, blocks), of_columns);
  loads.weights = moe__add(b, matrix, s->sb_is_row_major ? first : moe__mul(b, first, blocks));
  /* sa: the first token of the first block, among all. */
  loads.token = tile->row;
  if (s->which == MOE__BATCHED) {
    MlirValue before = moe__mul(b, tile->group, s->rows.value);
    loads.token = moe__add(b, moe__mul(b, before, blocks), moe__sub(b, tile->row, before));
  }
  return loads;
}

/* The place of the k-tile's scale in sb, and of its first token's in sa. No sa has 2^31 elements:
 * qa would have 2^38; and no sb. */
static MlirValue weights_at(moe__scaled_mm_t *s, const moe__mm_block_loads_t *loads,
                            MlirValue index) {
  moe__builder_t *b = &s->kernel.builder;
  return moe__add(b, loads->weights, moe__mul(b, index, loads->step));
}

static MlirValue token_at(moe__scaled_mm_t *s, const moe__mm_block_loads_t *loads,
                          MlirValue index) {
  moe__builder_t *b = &s->kernel.builder;
  return moe__add(b, loads->token, moe__mul(b, index, s->rows.value));
}

/* How far from the start of their boxes the first token and the weights' scale are, in bytes. */
static MlirValue token_distance(moe__scaled_mm_t *s, const moe__mm_block_loads_t *loads,
                                MlirValue index) {
  moe__builder_t *b = &s->kernel.builder;
  return moe__shl(b, moe__and(b, token_at(s, loads, index), ALIGNMENT - 1), 2);
}

static MlirValue weights_distance(moe__scaled_mm_t *s, const moe__mm_block_loads_t *loads,
                                  MlirValue index) {
  moe__builder_t *b = &s->kernel.builder;
  return moe__shl(b, moe__and(b, weights_at(s, loads, index), ALIGNMENT - 1), 2);
}

/* ---- The loader ---- */

void moe__mm_block_load(moe__scaled_mm_t *s, const moe__mm_block_loads_t *loads, MlirValue index,
                        moe__cursor_t cursor, MlirValue landed) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue first = moe__and(b, token_at(s, loads, index), -ALIGNMENT);
  MlirValue boxes = moe__mm_behind_tiles(s, cursor);
  moe__tma_load(b, s->sa_map, boxes, landed, 1, &first);
  if (moe__mm_holds_block_scales(s))
    return;
  first = moe__and(b, weights_at(s, loads, index), -ALIGNMENT);
  moe__tma_load(b, s->sb_map, moe__offset_by(b, boxes, SB_AT), landed, 1, &first);
}

/* ---- The multiplying warpgroups ---- */

MlirValue moe__mm_block_load_held(moe__scaled_mm_t *s, const moe__mm_block_held_t *held,
                                  MlirValue first) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue last = moe__sub(b, held->k_tiles, 1);
  MlirValue index = moe__umin(b, moe__add(b, first, held->of_lane), last);
  MlirValue at = moe__add(b, held->weights, moe__mul(b, index, held->loads.step));
  at = moe__shl(b, moe__zext(b, at, b->i64), 2);
  return moe__load(b, moe__offset(b, s->operands[MOE__MM_QB].scales, at), b->i32);
}

/* The first half of a warp has the block of the tile's first column, the other one the next block,
 * or the same where that is the last one. */
moe__mm_block_held_t moe__mm_block_hold(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                                        const moe__group_tile_t *tile, MlirValue k_tiles) {
  moe__builder_t *b = &s->kernel.builder;
  moe__mm_block_held_t held = {.loads = moe__mm_block_loads(s, tile), .k_tiles = k_tiles};
  MlirValue column = moe__mul(b, tile->column, s->operands[MOE__MM_QB].tile);
  held.straddles = moe__ne(b, moe__and(b, column, PIECE), 0);
  held.of_lane = moe__and(b, self->lane, MOE__MM_HELD - 1);
  MlirValue blocks = moe__ceil_div(b, s->depth.value, BLOCK);
  MlirValue next = s->sb_is_row_major ? moe__i32(b, 1) : blocks;
  MlirValue behind = moe__add(b, moe__lshr(b, column, 7), moe__lshr(b, self->lane, 4));
  MlirValue there = moe__ult(b, behind, moe__ceil_div(b, s->columns.value, BLOCK));
  MlirValue of_half = moe__mul(b, moe__lshr(b, self->lane, 4), next);
  held.weights = moe__add(b, held.loads.weights, moe__select(b, there, of_half, 0));
  held.scales = moe__mm_block_load_held(s, &held, moe__i32(b, 0));
  return held;
}

/* The factors of rows of the tile that are tokens: two of the lane's, times the pieces. */
static void factors_of_rows(moe__scaled_mm_t *s, const moe__mm_position_t *self, MlirValue sa,
                            const MlirValue of_columns[MAX_PIECES], moe__mm_fragment_t factors) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue own = moe__offset(b, sa, moe__shl(b, self->row, 2));
  MlirValue products[2][MAX_PIECES];
  for (int h = 0; h < 2; h++) {
    MlirValue of_row = moe__load(b, moe__offset_by(b, own, 4 * 8 * h), b->f32);
    for (int piece = 0; piece < s->fragment_n / PIECE; piece++)
      products[h][piece] = moe__fmul(b, of_row, of_columns[piece]);
  }
  for (int i = 0; i < s->fragment_n / 2; i++)
    factors[i] = products[i % 4 / 2][moe__mm_column_of_pair(s, i / 4) / PIECE];
}

/* Those of columns that are tokens: the rows of weights are in one block. */
static void factors_of_columns(moe__scaled_mm_t *s, const moe__mm_position_t *self, MlirValue sa,
                               MlirValue of_rows, moe__mm_fragment_t factors) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue own = moe__offset(b, sa, moe__shl(b, moe__and(b, self->lane, 3), 3));
  for (int j = 0; j < s->fragment_n / 8; j++)
    for (int c = 0; c < 2; c++) {
      MlirValue of_token = moe__load(b, moe__offset_by(b, own, 32 * j + 4 * c), b->f32);
      MlirValue product = moe__fmul(b, of_token, of_rows);
      factors[4 * j + c] = factors[4 * j + 2 + c] = product;
    }
}

void moe__mm_block_factors(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                           moe__cursor_t cursor, const moe__mm_block_held_t *held, MlirValue index,
                           moe__mm_fragment_t factors) {
  moe__builder_t *b = &s->kernel.builder;
  moe__warp_barrier(b); /* ptxas would read between the products, and the second wait for it */
  MlirValue boxes = moe__mm_behind_tiles(s, cursor), of_weights[MAX_PIECES];
  if (moe__mm_holds_block_scales(s)) {
    MlirValue lane = moe__and(b, index, MOE__MM_HELD - 1);
    bool one = s->operands[MOE__MM_QB].tile == BLOCK; /* of columns is what a tile lies in */
    for (int i = 0; i < (one ? 1 : 2); i++) {
      MlirValue word = moe__shuffle(b, held->scales, moe__add(b, lane, i * MOE__MM_HELD));
      of_weights[2 * i] = moe__bitcast(b, word, b->f32);
    }
    of_weights[1] =
        one ? of_weights[0] : moe__select(b, held->straddles, of_weights[2], of_weights[0]);
    MlirValue sa = moe__offset(b, boxes, token_distance(s, &held->loads, index));
    factors_of_rows(s, self, sa, of_weights, factors);
  } else {
    MlirValue sb = moe__offset(b, boxes, weights_distance(s, &held->loads, index));
    of_weights[0] = moe__load(b, moe__offset_by(b, sb, SB_AT), b->f32);
    MlirValue sa = moe__offset(b, boxes, token_distance(s, &held->loads, index));
    factors_of_columns(s, self, sa, of_weights[0], factors);
  }
  moe__end_reads_of_stage(b);
}
