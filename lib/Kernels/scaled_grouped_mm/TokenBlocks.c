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

#include "lib/Device/Warp.h"
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
  moe__record_t *record = &s->kernel.record;
  moe__mm_operand_t *operand = &s->operands[of];
  const moe__expression_t *extents[] = {s->rows.expression, s->columns.expression};
  moe__tensor_map_t tail = {.tensor = moe__tensor_number(op, moe__factor_role(op, of)),
                            .element = MOE__MAP_U8,
                            .rank = 2,
                            .dims = {s->depth.expression, extents[of]},
                            .strides = {s->depth.expression},
                            .box = {moe__expression_constant(record, TAIL),
                                    moe__expression_constant(record, operand->tile)},
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
        .box = {moe__expression_constant(record, operand->tile),
                moe__expression_constant(record, 1)},
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

/* Issues the product of the tails, `times` times, 0 or 1. */
static moe__accumulator_t multiply_tail(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                                        moe__cursor_t cursor, moe__accumulator_t accumulator,
                                        MlirValue times) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue rows = moe__offset(b, moe__mm_token_tail(s, cursor, 0),
                               moe__mul(b, self->warpgroup, MOE__WGMMA_M * TAIL));
  return moe__wgmma_k32_times(b, accumulator, moe__wgmma_descriptor_k32(b, rows),
                              moe__wgmma_descriptor_k32(b, moe__mm_token_tail(s, cursor, 1)),
                              s->side[0]->element, s->side[1]->element, times);
}

/* The scales of the lane's two rows in the stage at `cursor`, and where those of its columns are:
 * columns 8*j + 2*(lane % 4) and the next are vector<2xf32>. */
typedef struct token_scales_t {
  MlirValue of_rows[2], columns;
} token_scales_t;

static token_scales_t token_scales(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                                   moe__cursor_t cursor) {
  moe__builder_t *b = &s->kernel.builder;
  places_t places = places_of(&s->schedule, s->aligned);
  token_scales_t scales;
  MlirValue own =
      moe__offset(b, moe__mm_in_stage(s, cursor, places.scales[0]), moe__shl(b, self->row, 2));
  for (int h = 0; h < 2; h++)
    scales.of_rows[h] = moe__load(b, moe__offset_by(b, own, 4 * 8 * h), b->f32);
  scales.columns = moe__offset(b, moe__mm_in_stage(s, cursor, places.scales[1]),
                               moe__shl(b, moe__and(b, self->lane, 3), 3));
  return scales;
}

static MlirValue token_column_scales(moe__scaled_mm_t *s, const token_scales_t *scales, int j) {
  moe__builder_t *b = &s->kernel.builder;
  return moe__load_aligned(b, moe__offset_by(b, scales->columns, 32 * j),
                           moe__vector_type(b, 2, b->f32), 8);
}

/* Adds a part of the sums, times the scales of the lane's rows and columns, or makes it the sums if
 * it is the first. of_columns: the first `held` of those of columns, two at a time; the others are
 * read now. */
static void add_scaled(moe__scaled_mm_t *s, const token_scales_t *scales,
                       const MlirValue *of_columns, int held, const moe__mm_fragment_t part,
                       bool first, moe__mm_fragment_t sums) {
  moe__builder_t *b = &s->kernel.builder;
  for (int j = 0; j < s->schedule.tile_n / 8; j++) {
    MlirValue pair = j < held ? of_columns[j] : token_column_scales(s, scales, j);
    for (int i = 4 * j; i < 4 * j + 4; i++) {
      MlirValue factor = moe__fmul(b, scales->of_rows[i % 4 / 2], moe__extract(b, pair, i % 2));
      sums[i] = first ? moe__fmul(b, factor, part[i]) : moe__fma(b, factor, part[i], sums[i]);
    }
  }
}

/* Of these tile widths all scales of columns are in registers while a product runs, and its stage
 * is released when that is done. For others there are too few registers: so many pairs are read
 * ahead, and the others while the first are used. Three warpgroups have fewer registers. */
#define HELD_COLUMNS 128
#define HELD_PAIRS 6
#define HELD_PAIRS_OF_THREE 4

/* Waits for the product of the stage at `cursor`, adds it, or makes it the sum if it is the first,
 * and releases the stage. */
static void finish_block(moe__scaled_mm_t *s, const moe__mm_position_t *self, moe__cursor_t cursor,
                         moe__accumulator_t accumulator, bool first, moe__accumulator_t *sum) {
  moe__builder_t *b = &s->kernel.builder;
  int n = s->schedule.tile_n;
  bool three = moe__mm_warpgroups(&s->schedule) > MOE__MM_WARPGROUPS;
  bool holds = n <= HELD_COLUMNS && !three;
  int held = holds ? n / 8 : three ? HELD_PAIRS_OF_THREE : HELD_PAIRS;
  MlirValue of_columns[MOE__WGMMA_MAX_N / 8];
  moe__mm_fragment_t part, registers;
  token_scales_t scales = token_scales(s, self, cursor);
  for (int j = 0; j < held; j++)
    of_columns[j] = token_column_scales(s, &scales, j);
  if (holds)
    moe__end_reads_of_stage(b); /* while it runs */
  moe__wgmma_finish(b, accumulator, part);
  if (holds)
    moe__mm_release(s, self, cursor);
  if (!first)
    moe__accumulator_unpack(b, *sum, registers);
  add_scaled(s, &scales, of_columns, held, part, first, registers);
  *sum = moe__accumulator_pack(b, n, registers);
  if (!holds) {
    moe__end_reads_of_stage(b);
    moe__mm_release(s, self, cursor);
  }
}

/* The first term of a sum is added to -0, which leaves every number as it is. */
void moe__mm_multiply_token_blocks(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                                   const moe__mm_reduction_t *reduction, moe__cursor_t cursor,
                                   const moe__mm_beside_t *beside, moe__mm_fragment_t registers) {
  moe__builder_t *b = &s->kernel.builder;
  int n = s->schedule.tile_n;
  MlirValue tail = {NULL}, blocks = reduction->k_tiles, nothing = moe__f32(b, -0.0f);
  if (!s->aligned) {
    MlirValue has_head = moe__ne(b, moe__mm_token_head(s, reduction), 0);
    tail = moe__warp_uniform(b, moe__zext(b, has_head, b->i32));
    MlirValue has_tokens = moe__ne(b, reduction->start, reduction->end);
    MlirValue one = moe__warp_uniform(b, moe__zext(b, has_tokens, b->i32));
    blocks = moe__mul(b, reduction->k_tiles, one);
    nothing = moe__select(b, has_tokens, moe__f32(b, -0.0f), moe__f32(b, 0.0f));
  }
  moe__mm_call(beside, beside->first);
  moe__mm_call(beside, beside->settle);
  for (int i = 0; i < n / 2; i++)
    registers[i] = nothing;
  moe__accumulator_t sum = moe__accumulator_pack(b, n, registers);
  MOE__FOR (b, block, 0, blocks, 1, MOE__CARRY_CURSOR(cursor), &sum.value) {
    moe__accumulator_t accumulator = moe__wgmma_zero(b, n);
    MlirValue rows[MOE__MM_MAX_FRAGMENTS];
    MlirValue columns = moe__mm_wait_for_stage(s, self, reduction, beside, block, cursor, 1, rows);
    accumulator = moe__wgmma_fence_fresh(b, accumulator);
    rows[0] = moe__wgmma_descriptor(b, rows[0]);
    moe__wgmma_k128_below(b, 1, &accumulator, true, rows, moe__wgmma_descriptor(b, columns),
                          s->side[0]->element, s->side[1]->element);
    if (!s->aligned)
      accumulator = multiply_tail(s, self, cursor, accumulator, tail);
    moe__wgmma_commit(b);
    finish_block(s, self, cursor, accumulator, false, &sum);
    cursor = moe__cursor_next(b, &s->layout.ring, cursor);
  }
  if (!s->aligned) {
    MOE__FOR (b, empty, blocks, reduction->k_tiles, 1) {
      moe__ring_wait(&s->kernel, &s->layout.ring, cursor);
      moe__warp_barrier(b);
      moe__mm_release(s, self, cursor);
    }
  }
  moe__accumulator_unpack(b, sum, registers);
}

moe__accumulator_t moe__mm_promote_token_blocks(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                                                const moe__mm_reduction_t *reduction,
                                                moe__cursor_t cursor,
                                                const moe__mm_beside_t *beside,
                                                moe__accumulator_t accumulator) {
  moe__builder_t *b = &s->kernel.builder;
  moe__accumulator_t sum = {0};
  finish_block(s, self, cursor, accumulator, true, &sum);
  moe__mm_call(beside, beside->settle);
  cursor = moe__cursor_next(b, &s->layout.ring, cursor);
  MOE__FOR (b, block, 1, reduction->k_tiles, 1, MOE__CARRY_CURSOR(cursor), &sum.value) {
    accumulator = moe__wgmma_zero(b, s->schedule.tile_n);
    moe__mm_multiply_stage(s, self, reduction, beside, block, cursor, 1, &accumulator, true,
                           MOE__MM_ALL_STEPS);
    finish_block(s, self, cursor, accumulator, false, &sum);
    cursor = moe__cursor_next(b, &s->layout.ring, cursor);
  }
  return sum;
}
