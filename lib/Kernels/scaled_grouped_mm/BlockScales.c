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
 * takes one scale or two, each in a box of four. The loader does not wait for any of it; beside the
 * stage it writes where in the boxes the first token is, and the scale of each piece of 64 columns.
 * Who has waited for the stage reads all of it; there are no other barriers.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/scaled_grouped_mm/ScaledMm.h"

#include "lib/Kernels/Requirements.h"

#define BLOCK MOE__MM_TILE_K
#define PIECE 64      /* columns of a tile: they are in one block */
#define MAX_PIECES 3  /* tile_n is at most 192: sums are promoted */
#define ALIGNMENT 4   /* scales: where a box may begin */
#define SLOT_BYTES 16 /* of a stage: places in bytes, of each piece's scale and the first token's */
/* Of a stage: the distance of stages is a multiple. In it the boxes of sa and of sb. */
#define STAGE_BYTES 1024
#define SB_AT 768
#define SB_DISTANCE 128

/* ---- What there is ---- */

bool moe__mm_has_block_scales(const moe__scaled_mm_t *s) {
  return s->operands[MOE__MM_QA].granularity == MOE__SCALE_OF_BLOCK;
}

int32_t moe__mm_block_scales_reserve(moe__mm_layout_t *layout, const moe__mm_schedule_t *schedule) {
  layout->block_scales = moe__layout_shared(&layout->cta, schedule->stages * SLOT_BYTES, 16);
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
                           .box = {sa_box(s)},
                           .swizzle = MOE__SWIZZLE_NONE};
  s->sa_map = moe__kernel_tensor_map(&s->kernel, &map);
  const moe__expression_t *of_columns =
      moe__expression_ceildiv(record, s->columns.expression, BLOCK);
  map.tensor = moe__tensor_number(op, MOE__SB);
  map.dims[0] =
      moe__expression_mul(record, MOE__EXPRESSIONS(s->experts.expression, blocks, of_columns));
  map.box[0] = ALIGNMENT;
  s->sb_map = moe__kernel_tensor_map(&s->kernel, &map);
}

/* Whether a tile may have columns of two blocks. */
static bool has_two(const moe__scaled_mm_t *s) {
  return s->operands[MOE__MM_QB].tile > BLOCK;
}

int32_t moe__mm_block_scales_bytes(const moe__scaled_mm_t *s) {
  return (sa_box(s) + ALIGNMENT * (1 + has_two(s))) * 4;
}

/* ---- The loader ---- */

moe__mm_block_loads_t moe__mm_block_loads(moe__scaled_mm_t *s, const moe__group_tile_t *tile) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue one = moe__i32(b, 1), blocks = moe__ceil_div(b, s->depth.value, BLOCK);
  MlirValue of_columns = moe__ceil_div(b, s->columns.value, BLOCK);
  MlirValue column = moe__mul(b, tile->column, s->operands[MOE__MM_QB].tile);
  MlirValue first = moe__lshr(b, column, 7);
  moe__mm_block_loads_t loads = {.step = s->sb_is_row_major ? of_columns : one};
  loads.straddles = moe__ne(b, moe__and(b, column, PIECE), 0);
  /* Where the matrix of the expert begins in sb, and where the tile's columns do in it. */
  MlirValue matrix = moe__mul(b, moe__mul(b, tile->group, blocks), of_columns);
  for (int i = 0; i <= has_two(s); i++) {
    /* Behind the last block, where anything may stand, there are no columns of out. */
    MlirValue of = moe__add(b, first, i);
    MlirValue at = s->sb_is_row_major ? of : moe__mul(b, of, blocks);
    loads.weights[i] = moe__add(b, matrix, at);
  }
  /* sa: the first token of the first block, among all. */
  loads.token = tile->row;
  if (s->which == MOE__BATCHED) {
    MlirValue before = moe__mul(b, tile->group, s->rows.value);
    loads.token = moe__add(b, moe__mul(b, before, blocks), moe__sub(b, tile->row, before));
  }
  return loads;
}

static MlirValue slot_at(moe__scaled_mm_t *s, moe__cursor_t cursor) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue offset = moe__mul(b, cursor.stage, SLOT_BYTES);
  return moe__offset_by(b, moe__offset(b, s->kernel.shared, offset), s->layout.block_scales);
}

/* The place of the k-tile's scale number i in sb, and of its first token's in sa. No sa has 2^31
 * elements: qa would have 2^38; and no sb. */
static MlirValue weights_at(moe__scaled_mm_t *s, const moe__mm_block_loads_t *loads,
                            MlirValue index, int i) {
  moe__builder_t *b = &s->kernel.builder;
  return moe__add(b, loads->weights[i], moe__mul(b, index, loads->step));
}

static MlirValue token_at(moe__scaled_mm_t *s, const moe__mm_block_loads_t *loads,
                          MlirValue index) {
  moe__builder_t *b = &s->kernel.builder;
  return moe__add(b, loads->token, moe__mul(b, index, s->rows.value));
}

void moe__mm_block_write(moe__scaled_mm_t *s, const moe__mm_block_loads_t *loads, MlirValue index,
                         moe__cursor_t cursor) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue words[1 + MAX_PIECES], boxes[2];
  for (int i = 0; i <= has_two(s); i++) {
    MlirValue distance = moe__and(b, weights_at(s, loads, index, i), ALIGNMENT - 1);
    boxes[i] = moe__add(b, moe__shl(b, distance, 2), SB_AT + i * SB_DISTANCE);
  }
  for (int i = 0; i < MAX_PIECES; i++)
    words[i] = boxes[0];
  if (has_two(s)) {
    words[1] = moe__select(b, loads->straddles, boxes[1], boxes[0]);
    words[2] = boxes[1];
  }
  words[MAX_PIECES] = moe__shl(b, moe__and(b, token_at(s, loads, index), ALIGNMENT - 1), 2);
  moe__store_aligned(b, moe__vector(b, 1 + MAX_PIECES, words), slot_at(s, cursor), SLOT_BYTES);
}

void moe__mm_block_load(moe__scaled_mm_t *s, const moe__mm_block_loads_t *loads, MlirValue index,
                        moe__cursor_t cursor, MlirValue landed) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue first = moe__and(b, token_at(s, loads, index), -ALIGNMENT);
  MlirValue boxes = moe__mm_behind_tiles(s, cursor);
  moe__tma_load(b, s->sa_map, boxes, landed, 1, &first);
  for (int i = 0; i <= has_two(s); i++) {
    first = moe__and(b, weights_at(s, loads, index, i), -ALIGNMENT);
    moe__tma_load(b, s->sb_map, moe__offset_by(b, boxes, SB_AT + i * SB_DISTANCE), landed, 1,
                  &first);
  }
}

/* ---- The multiplying warpgroups ---- */

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
    factors[i] = products[i % 4 / 2][i / 4 * 8 / PIECE];
}

/* Those of columns that are tokens: the rows of weights are in one block. */
static void factors_of_columns(moe__scaled_mm_t *s, const moe__mm_position_t *self, MlirValue sa,
                               const MlirValue of_rows[MAX_PIECES], moe__mm_fragment_t factors) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue own = moe__offset(b, sa, moe__shl(b, moe__and(b, self->lane, 3), 3));
  for (int j = 0; j < s->fragment_n / 8; j++)
    for (int c = 0; c < 2; c++) {
      MlirValue of_token = moe__load(b, moe__offset_by(b, own, 32 * j + 4 * c), b->f32);
      MlirValue product = moe__fmul(b, of_token, of_rows[0]);
      factors[4 * j + c] = factors[4 * j + 2 + c] = product;
    }
}

void moe__mm_block_factors(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                           moe__cursor_t cursor, moe__mm_fragment_t factors) {
  moe__builder_t *b = &s->kernel.builder;
  moe__warp_barrier(b); /* ptxas would read between the products, and the second wait for it */
  MlirValue slot = moe__load_aligned(b, slot_at(s, cursor),
                                     moe__vector_type(b, 1 + MAX_PIECES, b->i32), SLOT_BYTES);
  MlirValue boxes = moe__mm_behind_tiles(s, cursor), of_weights[MAX_PIECES] = {{NULL}};
  int pieces = s->schedule.swap_operands ? 1 : s->fragment_n / PIECE;
  for (int i = 0; i < pieces; i++)
    of_weights[i] = moe__load(b, moe__offset(b, boxes, moe__extract(b, slot, i)), b->f32);
  MlirValue sa = moe__offset(b, boxes, moe__extract(b, slot, MAX_PIECES));
  (s->schedule.swap_operands ? factors_of_columns : factors_of_rows)(s, self, sa, of_weights,
                                                                     factors);
  moe__warp_barrier(b); /* one lane releases the stage, for all that have read it */
}
