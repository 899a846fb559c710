/* TokenBlocks.c - scales of 1x128 blocks of tokens in the kernel of scaled_mm, for the gradient of
 * weights: see ScaledMm.h.
 *
 *   out[e, n, k] = cast(sum over blocks j of group e of (sa[j, n] * sb[j, k]) * dot_j)
 *
 * Blocks are counted from the start of each group, and groups start anywhere: a k-tile is one
 * block. The TMA takes boxes from multiples of 16 tokens only, and multiples of 32 are faster.
 * Where a group starts `head` tokens behind one of 32, its blocks lie across 160 tokens from such a
 * multiple on: a stage has 128 of them in its tiles, and the 32 behind in two tails. The tail is
 * one more step of 32, which groups with head = 0 do without. What belongs to the blocks before and
 * behind is cleared in the stage, as the ends of groups are (Clear.c): in all blocks of a group
 * with a head, but only in one operand, since zeros times what is finite are zeros. At both ends of
 * a group the neighbors are those of other groups, and may be NaN; and E5M2 has Inf: then it is
 * cleared in both.
 *
 * The scales of a block, 128 of sa and tile_n of sb, land with its stage. A thread multiplies those
 * of its rows and columns as it needs them.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/scaled_grouped_mm/ScaledMm.h"

#include "lib/Kernels/Requirements.h"
#include "lib/Kernels/scaled_grouped_mm/Blocks.h"

#define BLOCK MOE__MM_TILE_K
#define TAIL MOE__MM_STEP /* tokens behind the tiles of a stage */

/* ---- What there is ---- */

bool moe__mm_has_token_blocks(const moe__scaled_mm_t *s) {
  return s->which == MOE__GRADIENT && moe__mm_has_block_scales(s);
}

/* Where they are in a stage: the tails of rows and columns, the scales of rows and columns; the
 * end. */
typedef struct places_t {
  int32_t tails[2], scales[2], end;
} places_t;

static places_t places_of(const moe__mm_schedule_t *schedule, bool aligned) {
  places_t p = {.end = 0};
  int32_t tile[2] = {moe__mm_tile_rows(schedule), schedule->tile_n};
  p.end = (tile[0] + tile[1]) * MOE__MM_TILE_K;
  for (int i = 0; i < 2 && !aligned; i++) {
    p.tails[i] = p.end;
    p.end += tile[i] * TAIL;
  }
  for (int i = 0; i < 2; i++) {
    p.scales[i] = p.end;
    p.end += tile[i] * 4;
  }
  return p;
}

int32_t moe__mm_token_blocks_reserve(const moe__mm_schedule_t *schedule, bool aligned) {
  int32_t tiles = (moe__mm_tile_rows(schedule) + schedule->tile_n) * MOE__MM_TILE_K;
  return (places_of(schedule, aligned).end - tiles + 1023) / 1024 * 1024;
}

void moe__mm_add_tail_map(moe__scaled_mm_t *s, MlirOperation op, int of) {
  moe__mm_operand_t *operand = &s->operands[of];
  const moe__expression_t *extents[] = {s->rows.expression, s->columns.expression};
  moe__tensor_map_t tail = {.tensor = moe__tensor_number(op, moe__factor_role(op, of)),
                            .element = MOE__MAP_U8,
                            .rank = 2,
                            .dims = {s->depth.expression, extents[of]},
                            .strides = {s->depth.expression},
                            .box = {TAIL, operand->tile},
                            .swizzle = MOE__SWIZZLE_32B};
  operand->tail_map = moe__kernel_tensor_map(&s->kernel, &tail);
}

void moe__mm_token_blocks_parameters(moe__scaled_mm_t *s, MlirOperation op) {
  moe__record_t *record = &s->kernel.record;
  const moe__expression_t *extents[] = {s->rows.expression, s->columns.expression};
  const moe__expression_t *blocks = moe__expression_ceildiv(record, s->depth.expression, BLOCK);
  if (!s->aligned) /* else the tokens have that room */
    blocks = moe__expression_add(record, MOE__EXPRESSIONS(blocks, s->experts.expression));
  for (int i = 0; i < 2; i++) {
    moe__mm_operand_t *operand = &s->operands[i];
    if (!s->aligned)
      moe__mm_add_tail_map(s, op, i);
    const moe__expression_t *four = moe__expression_constant(record, 4);
    moe__tensor_map_t map = {
        .tensor = moe__tensor_number(op, moe__mm_scale_role(i)),
        .element = MOE__MAP_F32,
        .rank = 2,
        .dims = {extents[i], blocks},
        .strides = {moe__expression_mul(record, MOE__EXPRESSIONS(extents[i], four))},
        .box = {operand->tile, 1},
        .swizzle = MOE__SWIZZLE_NONE};
    operand->scale_map = moe__kernel_tensor_map(&s->kernel, &map);
  }
  moe__kernel_require(&s->kernel, moe__tensor_number(op, MOE__QA), 0, MOE__MULTIPLE_OF, 4);
}

MlirValue moe__mm_token_head(moe__scaled_mm_t *s, const moe__mm_reduction_t *reduction) {
  return moe__sub(&s->kernel.builder, reduction->start, reduction->first);
}

/* ---- The loader ---- */

void moe__mm_load_tails(moe__scaled_mm_t *s, const MlirValue first[2], MlirValue behind,
                        moe__cursor_t cursor, int32_t tails, MlirValue landed) {
  for (int i = 0; i < 2; i++)
    moe__tma_load(&s->kernel.builder, s->operands[i].tail_map,
                  moe__mm_in_stage(s, cursor, tails + i * s->side[0]->tile * TAIL), landed, 2,
                  (MlirValue[]){behind, first[i]});
}

MlirValue moe__mm_token_block_bytes(moe__scaled_mm_t *s, MlirValue has_tail) {
  moe__builder_t *b = &s->kernel.builder;
  int rows = s->side[0]->tile + s->schedule.tile_n;
  if (s->aligned)
    return moe__i32(b, rows * (MOE__MM_TILE_K + 4));
  return moe__select(b, has_tail, rows * (MOE__MM_TILE_K + TAIL + 4), rows * (MOE__MM_TILE_K + 4));
}

void moe__mm_token_block_load(moe__scaled_mm_t *s, const moe__mm_work_t *work, MlirValue index,
                              MlirValue at, MlirValue has_tail, moe__cursor_t cursor,
                              MlirValue landed) {
  moe__builder_t *b = &s->kernel.builder;
  places_t places = places_of(&s->schedule, s->aligned);
  MlirValue first[2];
  for (int i = 0; i < 2; i++)
    first[i] = moe__mm_first_row(s, &s->operands[i], &work->tile);
  MlirValue block = moe__lshr(b, s->aligned ? at : work->start, 7);
  if (!s->aligned)
    block = moe__add(b, moe__add(b, block, work->tile.group), index);
  for (int i = 0; i < 2; i++)
    moe__tma_load(b, s->operands[i].scale_map, moe__mm_in_stage(s, cursor, places.scales[i]),
                  landed, 2, (MlirValue[]){first[i], block});
  if (s->aligned)
    return;
  MlirValue behind = moe__add(b, at, BLOCK);
  MOE__IF (b, has_tail) {
    moe__mm_load_tails(s, first, behind, cursor, places.tails[0], landed);
  }
}

MlirValue moe__mm_token_tail(moe__scaled_mm_t *s, moe__cursor_t cursor, int of) {
  return moe__mm_in_stage(s, cursor, places_of(&s->schedule, s->aligned).tails[of]);
}

/* ---- The multiplying warpgroups ---- */

moe__accumulator_t moe__mm_multiply_tail(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                                         moe__cursor_t cursor, moe__accumulator_t accumulator,
                                         MlirValue times) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue rows = moe__offset(b, moe__mm_token_tail(s, cursor, 0),
                               moe__mul(b, self->warpgroup, MOE__WGMMA_M * TAIL));
  return moe__wgmma_k32_times(b, accumulator, moe__wgmma_descriptor_k32(b, rows),
                              moe__wgmma_descriptor_k32(b, moe__mm_token_tail(s, cursor, 1)),
                              s->side[0]->element, s->side[1]->element, times);
}

moe__mm_token_scales_t moe__mm_token_scales(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                                            moe__cursor_t cursor) {
  moe__builder_t *b = &s->kernel.builder;
  places_t places = places_of(&s->schedule, s->aligned);
  moe__mm_token_scales_t scales;
  MlirValue own =
      moe__offset(b, moe__mm_in_stage(s, cursor, places.scales[0]), moe__shl(b, self->row, 2));
  for (int h = 0; h < 2; h++)
    scales.of_rows[h] = moe__load(b, moe__offset_by(b, own, 4 * 8 * h), b->f32);
  scales.columns = moe__offset(b, moe__mm_in_stage(s, cursor, places.scales[1]),
                               moe__shl(b, moe__and(b, self->lane, 3), 3));
  return scales;
}

MlirValue moe__mm_token_column_scales(moe__scaled_mm_t *s, const moe__mm_token_scales_t *scales,
                                      int j) {
  moe__builder_t *b = &s->kernel.builder;
  return moe__load_aligned(b, moe__offset_by(b, scales->columns, 32 * j),
                           moe__vector_type(b, 2, b->f32), 8);
}
