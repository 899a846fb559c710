/* ConvertScaledGroupedMmToNVVM.c - writes the kernels of scaled_grouped_mm.scaled_mm: products of
 * FP8 matrices over ragged groups of tokens.
 *
 * Two cases share one kernel. Forward: the tokens (M,K) of group e times the weights (K,N) of
 * expert e; a group is a range of rows. Weight gradient: for each e, (N,M) times (M,K) over the
 * tokens of group e; a group is a range of the reduction, and every expert has the same tiles.
 *
 * - A table of the groups is made from the offsets, in shared memory, by one warp.
 * - One warpgroup loads. For each tile, for each 128 of the reduction, it waits until a stage is
 * free and fetches two boxes by TMA.
 * - Two warpgroups multiply, 64 rows of each tile. For each 128 they wait for the stage, issue
 * wgmma, and release the stage before; then they scale, round and store.
 *
 * Forward, a tile that reaches past the end of its group multiplies rows of the next one and drops
 * them: a row depends on nothing but itself, so that even a NaN there does no harm. In the weight
 * gradient what lies outside the group must contribute nothing: it is cleared in shared memory, in
 * both operands, before the product. The first block starts at a multiple of 32 tokens: the TMA
 * takes multiples of 16 only, and at those of 32 it fetches no sector twice.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Builder/Inspect.h"
#include "lib/Kernel/Async.h"
#include "lib/Kernel/Elements.h"
#include "lib/Kernel/Groups.h"
#include "lib/Kernel/Tiles.h"
#include "lib/Kernel/Warp.h"
#include "lib/Kernel/Wgmma.h"
#include "passes/Lowering.h"
#include "passes/Passes.h"
#include "passes/Schedule.h"

#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/BuiltinTypes.h"

#include <stdio.h>

#define TILE_M 128
#define MULTIPLIERS 2 /* warpgroups, of 64 rows each */
#define WARP_ROWS 16
#define STAGED_COLUMNS 64 /* of bf16: 128 bytes */
#define STAGING_BYTES (WARP_ROWS * STAGED_COLUMNS * 2)
#define DEPTH 128 /* of the reduction in a stage: FP8 elements in a row of shared memory */
#define TOKEN_ALIGNMENT                                                                            \
  32 /* of a block's first token: a sector of L2; the TMA takes multiples of 16 */
#define CLEARED_BARRIER 1
#define WARPGROUP 128
#define LOADER_REGISTERS 40
#define MULTIPLIER_REGISTERS 232
#define MAX_GROUPS 1024 /* of a dynamic number of experts */

/* The op's tensors, by their number in the kernel's record. */
enum { QA, QB, SA, SB, OFFS, OUT };

typedef struct grouped_t {
  moe__kernel_t kernel;
  moe__grouped_schedule_t schedule;
  bool promoted;
  moe__fp8_t a_type, b_type;
  bool gradient;
  moe__extent_t tokens, rows, columns, depth,
      experts; /* rows: of an expert's gradient; depth: K of forward */
  MlirValue a_map, b_map, sa, sb, offs, out, status;
  moe__groups_t groups;
  moe__ring_t ring;
  int32_t sb_offset, staging_offset; /* of the warps' parts of shared memory */
} grouped_t;

static void add_parameters(grouped_t *s, MlirType qa, MlirType qb, MlirType offs) {
  moe__kernel_t *kernel = &s->kernel;
  char expert[MOE__EXPRESSION_SIZE];
  moe__tensor_map_t a = {
      .tensor = QA, .element = "u8", .rank = 2, .box = {DEPTH, TILE_M}, .swizzle = "128B"};
  moe__tensor_map_t b = {.tensor = QB, .element = "u8", .swizzle = "128B"};
  if (s->gradient) { /* qa (N,M), qb (M,K) column-major */
    s->rows = moe__kernel_extent(kernel, QA, 0, qa);
    s->tokens = moe__kernel_extent(kernel, QA, 1, qa);
    s->columns = moe__kernel_extent(kernel, QB, 1, qb);
    s->experts = moe__kernel_extent(kernel, OFFS, 0, offs);
    a.dims[0] = b.dims[0] = a.strides[0] = b.strides[0] = s->tokens.expression;
    a.dims[1] = s->rows.expression;
    b.dims[1] = s->columns.expression;
    b.rank = 2;
  } else { /* qa (M,K), qb (E,K,N) column-major */
    s->tokens = moe__kernel_extent(kernel, QA, 0, qa);
    s->depth = moe__kernel_extent(kernel, QA, 1, qa);
    s->experts = moe__kernel_extent(kernel, QB, 0, qb);
    s->columns = moe__kernel_extent(kernel, QB, 2, qb);
    moe__expression_mul(expert, 2, (const char *[]){s->columns.expression, s->depth.expression});
    a.dims[0] = b.dims[0] = a.strides[0] = b.strides[0] = s->depth.expression;
    a.dims[1] = s->tokens.expression;
    b.dims[1] = s->columns.expression;
    b.dims[2] = s->experts.expression;
    b.strides[1] = expert;
    b.rank = 3;
    b.box[2] = 1;
  }
  b.box[0] = DEPTH;
  b.box[1] = s->schedule.tile_n;
  s->a_map = moe__kernel_tensor_map(kernel, &a);
  s->b_map = moe__kernel_tensor_map(kernel, &b);
  s->sa = moe__kernel_pointer(kernel, SA);
  s->sb = moe__kernel_pointer(kernel, SB);
  s->offs = moe__kernel_pointer(kernel, OFFS);
  s->out = moe__kernel_pointer(kernel, OUT);
  s->status = moe__kernel_status(kernel);
}

/* What a launcher has to check: sizes that belong together, strides of tensor maps and rows of out
 * in multiples of 16 bytes. */
static void add_requirements(grouped_t *s) {
  moe__kernel_t *kernel = &s->kernel;
  if (s->gradient) {
    moe__kernel_require_same(kernel, QA, 1, QB, 0);
    moe__kernel_require_same(kernel, OFFS, 0, SA, 0);
    moe__kernel_require_same(kernel, QA, 0, SA, 1);
    moe__kernel_require_same(kernel, OFFS, 0, SB, 0);
    moe__kernel_require_same(kernel, QB, 1, SB, 1);
    moe__kernel_require(kernel, QB, 1, "multiple_of", 16);
  } else {
    moe__kernel_require_same(kernel, QA, 0, SA, 0);
    moe__kernel_require_same(kernel, QA, 1, QB, 1);
    moe__kernel_require_same(kernel, QB, 0, SB, 0);
    moe__kernel_require_same(kernel, QB, 2, SB, 1);
    moe__kernel_require_same(kernel, QB, 0, OFFS, 0);
    moe__kernel_require(kernel, QB, 2, "multiple_of", 16);
  }
  moe__kernel_require(kernel, QA, 1, "at_least", 16);
  moe__kernel_require(kernel, QA, 1, "multiple_of", 16);
  moe__kernel_require(kernel, OFFS, 0, "at_least", 1);
  moe__kernel_require(kernel, OFFS, 0, "at_most", MAX_GROUPS);
}

/* ---- Tiles ---- */

/* Which tiles there are: those of the groups' rows, or the same for each expert. */
static moe__tiles_t gradient_tiles(grouped_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  return moe__tiles_create(b, s->experts.value, moe__ceil_div(b, s->rows.value, TILE_M),
                           s->groups.columns, s->schedule.band);
}

static moe__for_t tiles_begin(grouped_t *s, intptr_t carried_count, const MlirValue *carried) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue total = s->gradient ? gradient_tiles(s).total : moe__groups_total(&s->groups);
  return moe__for_begin(b, s->kernel.block, total, s->kernel.block_count, carried_count, carried);
}

/* A tile of the gradient is one of a group of `rows` rows of out, seen as (E*N, K). */
static moe__group_tile_t tile_at(grouped_t *s, MlirValue index) {
  moe__builder_t *b = &s->kernel.builder;
  if (!s->gradient)
    return moe__groups_tile(&s->groups, index);
  moe__tiles_t tiles = gradient_tiles(s);
  moe__tile_t at = moe__tile_at(b, &tiles, index);
  MlirValue first = moe__mul(b, at.batch, s->rows.value);
  return (moe__group_tile_t){.group = at.batch,
                             .row = moe__add(b, first, moe__mul(b, at.row, moe__i32(b, TILE_M))),
                             .row_end = moe__add(b, first, s->rows.value),
                             .column = at.column};
}

/* What a tile sums over: blocks of 128 from `first`, of which [start, end) counts. */
typedef struct reduction_t {
  MlirValue first, blocks, start, end; /* i32 */
} reduction_t;

static reduction_t reduction_of(grouped_t *s, const moe__group_tile_t *tile) {
  moe__builder_t *b = &s->kernel.builder;
  reduction_t r = {.first = moe__i32(b, 0)};
  if (!s->gradient) {
    r.blocks = moe__ceil_div(b, s->depth.value, DEPTH);
    return r;
  }
  moe__groups_range(&s->groups, tile->group, &r.start, &r.end);
  r.first = moe__and(b, r.start, moe__i32(b, -TOKEN_ALIGNMENT));
  /* An empty group has one block, all of it cleared: its gradient is zero. */
  r.blocks = moe__smax(b, moe__ceil_div(b, moe__sub(b, r.end, r.first), DEPTH), moe__i32(b, 1));
  return r;
}

static reduction_t reduction_at(grouped_t *s, MlirValue index) {
  moe__group_tile_t tile = {0};
  if (s->gradient)
    tile = tile_at(s, index);
  return reduction_of(s, &tile);
}

/* ---- The loading warpgroup ---- */

static void load_tiles(grouped_t *s) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  int32_t a_bytes = TILE_M * DEPTH, b_bytes = s->schedule.tile_n * DEPTH;
  MlirValue zero = moe__i32(b, 0), one = moe__i32(b, 1);
  moe__cursor_t start = moe__cursor_start(b);
  moe__for_t tiles = tiles_begin(s, 2, (MlirValue[]){start.stage, start.phase});
  moe__group_tile_t tile = tile_at(s, tiles.index);
  reduction_t reduction = reduction_of(s, &tile);
  MlirValue column = moe__mul(b, tile.column, moe__i32(b, s->schedule.tile_n));
  MlirValue row =
      s->gradient ? moe__sub(b, tile.row, moe__mul(b, tile.group, s->rows.value)) : tile.row;
  moe__for_t blocks = moe__for_begin(b, zero, reduction.blocks, one, 2, tiles.carried);
  {
    moe__cursor_t cursor = {blocks.carried[0], blocks.carried[1]};
    MlirValue at = moe__add(b, reduction.first, moe__mul(b, blocks.index, moe__i32(b, DEPTH)));
    MlirValue landed = moe__ring_acquire(kernel, &s->ring, cursor, moe__i32(b, a_bytes + b_bytes));
    MlirValue buffer = moe__ring_buffer(kernel, &s->ring, cursor);
    moe__tma_load(b, s->a_map, buffer, landed, 2, (MlirValue[]){at, row});
    moe__tma_load(b, s->b_map, moe__offset_by(b, buffer, a_bytes), landed, s->gradient ? 2 : 3,
                  (MlirValue[]){at, column, tile.group});
    cursor = moe__cursor_next(b, &s->ring, cursor);
    moe__for_end(b, &blocks, (MlirValue[]){cursor.stage, cursor.phase});
  }
  moe__for_end(b, &tiles, blocks.carried);
}

/* ---- The multiplying warpgroups ---- */

typedef struct position_t {
  MlirValue warpgroup, lane;
  MlirValue warp_row; /* in the tile: the first of the warp's 16 rows */
  MlirValue row;      /* and of the lane's fragment */
} position_t;

static void release_by_lane_0(grouped_t *s, const position_t *self, moe__cursor_t cursor) {
  moe__builder_t *b = &s->kernel.builder;
  moe__if_t first = moe__if_begin(b, moe__eq(b, self->lane, moe__i32(b, 0)), false);
  moe__ring_release(&s->kernel, &s->ring, cursor);
  moe__if_end(b, &first);
}

/* What a warp fetches for its epilogue while the first product runs: the scales of its rows in
 * registers, those of the tile's columns in its own part of shared memory. */
typedef struct epilogue_t {
  moe__group_tile_t tile;
  MlirValue sa[2];   /* of the lane's two rows */
  MlirValue sb;      /* shared memory of the warp: tile_n floats */
  MlirValue staging; /* the same: 16 rows of 64 columns of out */
} epilogue_t;

static epilogue_t prepare_epilogue(grouped_t *s, const position_t *self, MlirValue index) {
  moe__builder_t *b = &s->kernel.builder;
  epilogue_t e = {.tile = tile_at(s, index)};
  MlirValue warp = moe__lshr(b, s->kernel.thread, 5);
  e.sb = moe__offset_by(
      b, moe__offset(b, s->kernel.shared, moe__mul(b, warp, moe__i32(b, s->schedule.tile_n * 4))),
      s->sb_offset);
  e.staging = moe__offset_by(
      b, moe__offset(b, s->kernel.shared, moe__mul(b, warp, moe__i32(b, STAGING_BYTES))),
      s->staging_offset);
  MlirValue last_row = moe__sub(b, e.tile.row_end, moe__i32(b, 1));
  for (int h = 0; h < 2; h++) {
    MlirValue row =
        moe__umin(b, moe__add(b, moe__add(b, e.tile.row, self->row), moe__i32(b, 8 * h)), last_row);
    e.sa[h] =
        moe__load(b, moe__offset(b, s->sa, moe__shl(b, moe__zext(b, row, b->i64), 2)), b->f32);
  }
  /* Columns past N take the scale of the last: they are not stored. */
  MlirValue n64 = moe__zext(b, s->columns.value, b->i64);
  MlirValue sb =
      moe__offset(b, s->sb, moe__shl(b, moe__mul(b, moe__zext(b, e.tile.group, b->i64), n64), 2));
  MlirValue first_column = moe__mul(b, e.tile.column, moe__i32(b, s->schedule.tile_n));
  MlirType f32x2 = moe__vector_type(b, 2, b->f32);
  for (int i = 0; i < s->schedule.tile_n; i += 2 * MOE__WARP) {
    MlirValue in_tile = moe__add(b, moe__shl(b, self->lane, 1), moe__i32(b, i));
    MlirValue column = moe__umin(b, moe__add(b, first_column, in_tile),
                                 moe__sub(b, s->columns.value, moe__i32(b, 2)));
    MlirValue pair =
        moe__load(b, moe__offset(b, sb, moe__shl(b, moe__zext(b, column, b->i64), 2)), f32x2);
    moe__store(b, pair, moe__offset(b, e.sb, moe__shl(b, in_tile, 2)));
  }
  moe__warp_barrier(b);
  return e;
}

/* The word whose lowest `bytes` bytes are set; bytes is clamped to 0..4. */
static MlirValue low_bytes(moe__builder_t *b, MlirValue bytes) {
  MlirValue clamped = moe__smin(b, moe__smax(b, bytes, moe__i32(b, 0)), moe__i32(b, 4));
  MlirValue bits = moe__zext(b, moe__shl(b, clamped, 3), b->i64);
  MlirValue bit = moe__op1(b, "arith.shli", b->i64, MOE__VALUES(moe__i64(b, 1), bits), NULL);
  return moe__trunc(b, moe__sub(b, bit, moe__i64(b, 1)), b->i32);
}

/* Clears what lies outside the group in both tiles of a stage whose first token is `at`. All
 * multiplying warps take part: each thread has one 16-byte column of the swizzled rows, in every
 * 32nd row. */
static void clear_outside(grouped_t *s, const reduction_t *reduction, MlirValue buffer,
                          MlirValue at) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  int rows = TILE_M + s->schedule.tile_n, rows_at_once = MULTIPLIERS * WARPGROUP / 8;
  MlirValue partial = moe__or(b, moe__slt(b, at, reduction->start),
                              moe__slt(b, reduction->end, moe__add(b, at, moe__i32(b, DEPTH))));
  moe__if_t clear = moe__if_begin(b, partial, false);
  {
    MlirValue chunk = moe__and(b, kernel->thread, moe__i32(b, 7));
    MlirValue row = moe__lshr(b, kernel->thread, 3);
    MlirValue token = moe__add(b, at, moe__shl(b, chunk, 4));
    MlirValue masks[4];
    for (int i = 0; i < 4; i++) {
      MlirValue word = moe__add(b, token, moe__i32(b, 4 * i));
      MlirValue before_end = low_bytes(b, moe__sub(b, reduction->end, word));
      MlirValue before_start = low_bytes(b, moe__sub(b, reduction->start, word));
      masks[i] = moe__and(b, before_end, moe__xor(b, before_start, moe__i32(b, -1)));
    }
    MlirValue mask = moe__vector(b, 4, masks);
    MlirValue swizzled = moe__xor(b, chunk, moe__and(b, row, moe__i32(b, 7)));
    MlirValue own =
        moe__offset(b, buffer, moe__add(b, moe__shl(b, row, 7), moe__shl(b, swizzled, 4)));
    for (int i = 0; i < rows; i += rows_at_once) {
      MlirValue address = moe__offset_by(b, own, i * DEPTH);
      MlirValue words = moe__load_aligned(b, address, mlirValueGetType(mask), 16);
      moe__store_aligned(b, moe__and(b, words, mask), address, 16);
    }
    moe__fence_shared_to_async(b);
    moe__named_barrier(b, CLEARED_BARRIER, MULTIPLIERS * WARPGROUP);
  }
  moe__if_end(b, &clear);
}

/* Waits for the stage at `now`, which holds block number `block` of the reduction, and issues the
 * product of its tiles. */
static moe__accumulator_t multiply_stage(grouped_t *s, const position_t *self,
                                         const reduction_t *reduction, MlirValue block,
                                         moe__cursor_t now, moe__accumulator_t accumulator,
                                         bool fresh) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  moe__ring_wait(kernel, &s->ring, now);
  MlirValue buffer = moe__ring_buffer(kernel, &s->ring, now);
  if (s->gradient)
    clear_outside(s, reduction, buffer,
                  moe__add(b, reduction->first, moe__mul(b, block, moe__i32(b, DEPTH))));
  MlirValue rows =
      moe__offset(b, buffer, moe__mul(b, self->warpgroup, moe__i32(b, MOE__WGMMA_M * DEPTH)));
  MlirValue columns = moe__offset_by(b, buffer, TILE_M * DEPTH);
  if (fresh)
    accumulator = moe__wgmma_fence_fresh(b, accumulator);
  else
    moe__wgmma_fence(b);
  accumulator = moe__wgmma_k128(b, accumulator, fresh, moe__wgmma_descriptor(b, rows),
                                moe__wgmma_descriptor(b, columns), s->a_type, s->b_type);
  moe__wgmma_commit(b);
  return accumulator;
}

/* Multiplies over all of K in the tensor core's own accumulator: one product is in flight while the
 * next is issued. The first stands before the loop, since an accumulator that other instructions
 * clear would make ptxas wait for each product. */
static void multiply_fast(grouped_t *s, const position_t *self, MlirValue tile,
                          moe__cursor_t *cursor, epilogue_t *out_epilogue,
                          MlirValue registers[MOE__WGMMA_MAX_N / 2]) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue one = moe__i32(b, 1);
  reduction_t reduction = reduction_at(s, tile);
  moe__accumulator_t accumulator = multiply_stage(s, self, &reduction, moe__i32(b, 0), *cursor,
                                                  moe__wgmma_zero(b, s->schedule.tile_n), true);
  *out_epilogue = prepare_epilogue(s, self, tile);
  moe__for_t blocks =
      moe__for_begin(b, one, reduction.blocks, one, 3,
                     (MlirValue[]){cursor->stage, cursor->phase, accumulator.value});
  {
    moe__cursor_t before = {blocks.carried[0], blocks.carried[1]};
    moe__cursor_t now = moe__cursor_next(b, &s->ring, before);
    accumulator.value = blocks.carried[2];
    accumulator = multiply_stage(s, self, &reduction, blocks.index, now, accumulator, false);
    moe__wgmma_wait(b, 1); /* the product before this one is done, and its stage free */
    release_by_lane_0(s, self, before);
    moe__for_end(b, &blocks, (MlirValue[]){now.stage, now.phase, accumulator.value});
  }
  moe__cursor_t last = {blocks.carried[0], blocks.carried[1]};
  accumulator.value = blocks.carried[2];
  moe__wgmma_finish(b, accumulator, registers);
  release_by_lane_0(s, self, last);
  *cursor = moe__cursor_next(b, &s->ring, last);
}

/* The same with sums over at most 128 of K from the tensor core, added up in fp32 while the other
 * warpgroup multiplies. */
static void multiply_promoted(grouped_t *s, const position_t *self, MlirValue tile,
                              moe__cursor_t *cursor, epilogue_t *out_epilogue,
                              MlirValue registers[MOE__WGMMA_MAX_N / 2]) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue zero = moe__i32(b, 0), one = moe__i32(b, 1);
  reduction_t reduction = reduction_at(s, tile);
  *out_epilogue = prepare_epilogue(s, self, tile);
  moe__accumulator_t sum = moe__wgmma_zero(b, s->schedule.tile_n);
  moe__for_t blocks = moe__for_begin(b, zero, reduction.blocks, one, 3,
                                     (MlirValue[]){cursor->stage, cursor->phase, sum.value});
  {
    moe__cursor_t now = {blocks.carried[0], blocks.carried[1]};
    MlirValue parts[MOE__WGMMA_MAX_N / 2];
    sum.value = blocks.carried[2];
    moe__accumulator_t part = multiply_stage(s, self, &reduction, blocks.index, now,
                                             moe__wgmma_zero(b, s->schedule.tile_n), true);
    moe__wgmma_finish(b, part, parts);
    release_by_lane_0(s, self, now);
    moe__accumulator_unpack(b, sum, registers);
    for (int i = 0; i < s->schedule.tile_n / 2; i++)
      registers[i] = moe__fadd(b, registers[i], parts[i]);
    sum = moe__accumulator_pack(b, s->schedule.tile_n, registers);
    moe__cursor_t next = moe__cursor_next(b, &s->ring, now);
    moe__for_end(b, &blocks, (MlirValue[]){next.stage, next.phase, sum.value});
  }
  sum.value = blocks.carried[2];
  moe__accumulator_unpack(b, sum, registers);
  *cursor = (moe__cursor_t){blocks.carried[0], blocks.carried[1]};
}

/* Scales, rounds and stages 64 columns of the warp's 16 rows. Rows of 128 bytes in the 128-byte
 * swizzle: no bank conflicts. */
static void stage_columns(grouped_t *s, const position_t *self, const epilogue_t *e, int first,
                          const MlirValue registers[MOE__WGMMA_MAX_N / 2]) {
  moe__builder_t *b = &s->kernel.builder;
  MlirType f32x2 = moe__vector_type(b, 2, b->f32);
  MlirValue pair_of_lane = moe__shl(b, moe__and(b, self->lane, moe__i32(b, 3)), 3);
  /* Of the four 8 x 8 matrices of a store, lane l addresses row l % 8 of matrix l / 8: rows first,
   * then columns. */
  MlirValue row = moe__and(b, self->lane, moe__i32(b, 15));
  MlirValue right = moe__lshr(b, self->lane, 4);
  for (int j = first / 8; j < (first + STAGED_COLUMNS) / 8; j += 2) {
    MlirValue words[4];
    for (int i = 0; i < 2; i++) {
      MlirValue sb =
          moe__load(b, moe__offset_by(b, moe__offset(b, e->sb, pair_of_lane), 32 * (j + i)), f32x2);
      for (int h = 0; h < 2; h++) {
        MlirValue scaled[2];
        for (int c = 0; c < 2; c++) {
          MlirValue sb_c = moe__extract(b, sb, c);
          scaled[c] =
              moe__fmul(b, sb_c, moe__fmul(b, e->sa[h], registers[4 * (j + i) + 2 * h + c]));
        }
        words[2 * i + h] = moe__pack_bf16(b, scaled);
      }
    }
    MlirValue chunk = moe__add(b, right, moe__i32(b, j - first / 8));
    MlirValue swizzled = moe__xor(b, chunk, moe__and(b, row, moe__i32(b, 7)));
    MlirValue address =
        moe__offset(b, e->staging, moe__add(b, moe__shl(b, row, 7), moe__shl(b, swizzled, 4)));
    moe__store_matrix(b, address, words);
  }
}

/* Writes the staged columns, whole rows of 128 bytes, as far as they belong to the group and to N.
 */
static void store_columns(grouped_t *s, const position_t *self, const epilogue_t *e, int first) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue chunk = moe__and(b, self->lane, moe__i32(b, 7));
  MlirValue column = moe__add(b, moe__mul(b, e->tile.column, moe__i32(b, s->schedule.tile_n)),
                              moe__add(b, moe__shl(b, chunk, 3), moe__i32(b, first)));
  MlirValue column_inside = moe__ult(b, column, s->columns.value);
  MlirValue n64 = moe__zext(b, s->columns.value, b->i64);
  for (int i = 0; i < WARP_ROWS; i += 4) {
    MlirValue in_warp = moe__add(b, moe__lshr(b, self->lane, 3), moe__i32(b, i));
    MlirValue row = moe__add(b, moe__add(b, e->tile.row, self->warp_row), in_warp);
    MlirValue swizzled = moe__xor(b, chunk, moe__and(b, in_warp, moe__i32(b, 7)));
    MlirValue from =
        moe__offset(b, e->staging, moe__add(b, moe__shl(b, in_warp, 7), moe__shl(b, swizzled, 4)));
    moe__if_t write =
        moe__if_begin(b, moe__and(b, moe__ult(b, row, e->tile.row_end), column_inside), false);
    MlirValue index =
        moe__add(b, moe__mul(b, moe__zext(b, row, b->i64), n64), moe__zext(b, column, b->i64));
    moe__store_aligned(b, moe__load_aligned(b, from, moe__vector_type(b, 4, b->i32), 16),
                       moe__offset(b, s->out, moe__shl(b, index, 1)), 16);
    moe__if_end(b, &write);
  }
}

/* out[row, column] = bf16(sb[column] * (sa[row] * accumulator)), for the rows of the group. */
static void store(grouped_t *s, const position_t *self, const epilogue_t *e,
                  const MlirValue registers[MOE__WGMMA_MAX_N / 2]) {
  moe__builder_t *b = &s->kernel.builder;
  for (int first = 0; first < s->schedule.tile_n; first += STAGED_COLUMNS) {
    stage_columns(s, self, e, first, registers);
    moe__warp_barrier(b);
    store_columns(s, self, e, first);
    moe__warp_barrier(b);
  }
}

static void multiply_tiles(grouped_t *s) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  MlirValue warp = moe__and(b, moe__lshr(b, kernel->thread, 5), moe__i32(b, 3));
  position_t self = {.warpgroup = moe__lshr(b, kernel->thread, 7),
                     .lane = moe__and(b, kernel->thread, moe__i32(b, MOE__WARP - 1))};
  self.warp_row =
      moe__add(b, moe__mul(b, self.warpgroup, moe__i32(b, MOE__WGMMA_M)), moe__shl(b, warp, 4));
  self.row = moe__add(b, self.warp_row, moe__lshr(b, self.lane, 2));
  moe__cursor_t start = moe__cursor_start(b);
  moe__for_t tiles = tiles_begin(s, 2, (MlirValue[]){start.stage, start.phase});
  moe__cursor_t cursor = {tiles.carried[0], tiles.carried[1]};
  MlirValue registers[MOE__WGMMA_MAX_N / 2];
  epilogue_t epilogue;
  (s->promoted ? multiply_promoted : multiply_fast)(s, &self, tiles.index, &cursor, &epilogue,
                                                    registers);
  store(s, &self, &epilogue, registers);
  moe__for_end(b, &tiles, (MlirValue[]){cursor.stage, cursor.phase});
}

/* ---- The kernel ---- */

bool moe__scaled_mm_has_kernel(MlirOperation op) {
  MlirType qa = mlirValueGetType(mlirOperationGetOperand(op, 0));
  MlirType qb = mlirValueGetType(mlirOperationGetOperand(op, 1));
  MlirType sa = mlirValueGetType(mlirOperationGetOperand(op, 2));
  MlirType sb = mlirValueGetType(mlirOperationGetOperand(op, 3));
  MlirType out = mlirValueGetType(mlirOperationGetResult(op, 0));
  int qb_rank = (int)mlirShapedTypeGetRank(qb);
  if (mlirShapedTypeGetRank(qa) != 2)
    return moe__error(op,
                      "no kernel multiplies tensors of rank %d and %d yet; there are some for "
                      "rank 2 and 3 (forward), 2 and 2 (weight gradient)",
                      (int)mlirShapedTypeGetRank(qa), qb_rank);
  if (!mlirTypeIsABF16(mlirShapedTypeGetElementType(out)) ||
      !mlirTypeIsAF32(mlirShapedTypeGetElementType(sa)))
    return moe__error(op, "the kernel takes f32 scales and gives bf16");
  const int row_major[] = {0, 1, 2};
  if (!moe__is_order(qa, 3, row_major) || !moe__is_order(sa, 3, row_major) ||
      !moe__is_order(sb, 3, row_major) || !moe__is_order(out, 3, row_major))
    return moe__error(op, "the kernel takes qa, sa, sb and out row-major; remove their encoding");
  if (qb_rank == 3 && !moe__is_order(qb, 3, (int[]){0, 2, 1}))
    return moe__error(op, "the kernel takes qb column-major per expert; give it the encoding "
                          "affine_map<(e, k, n) -> (e, n, k)>");
  if (qb_rank == 2 && !moe__is_order(qb, 2, (int[]){1, 0}))
    return moe__error(op, "the kernel takes qb column-major; give it the encoding "
                          "affine_map<(m, k) -> (k, m)>");
  return moe__needs_multiple_of_16(op, "qa", qa, 1) &&
         moe__needs_multiple_of_16(op, "qb", qb, qb_rank - 1);
}

static moe__fp8_t fp8_of(MlirType tensor) {
  return mlirTypeIsAFloat8E4M3FN(mlirShapedTypeGetElementType(tensor)) ? MOE__E4M3 : MOE__E5M2;
}

bool moe__lower_scaled_mm(MlirOperation function, MlirOperation op, MlirBlock gpu_module_body) {
  MlirType qa = mlirValueGetType(mlirOperationGetOperand(op, QA));
  MlirType qb = mlirValueGetType(mlirOperationGetOperand(op, QB));
  MlirType offs = mlirValueGetType(mlirOperationGetOperand(op, OFFS));
  grouped_t s = {
      .gradient = mlirShapedTypeGetRank(qb) == 2,
      .promoted = mlirStringRefEqual(moe__op_string(op, "accumulate"),
                                     mlirStringRefCreateFromCString("promoted")),
      .a_type = fp8_of(qa),
      .b_type = fp8_of(qb),
  };
  /* moe-verify allows as many when the number is static. */
  int64_t groups =
      mlirShapedTypeIsDynamicDim(offs, 0) ? MAX_GROUPS : mlirShapedTypeGetDimSize(offs, 0);
  if (!moe__scaled_mm_has_kernel(op) ||
      !moe__grouped_schedule_read(op, (int)groups, s.promoted, &s.schedule))
    return false;
  moe__kernel_t *kernel = &s.kernel;
  moe__builder_t *b = &kernel->builder;
  int32_t multiplier_threads = MULTIPLIERS * WARPGROUP;
  moe__kernel_begin(kernel, mlirOperationGetContext(op), mlirOperationGetLocation(op),
                    multiplier_threads + WARPGROUP, 1);
  add_parameters(&s, qa, qb, offs);
  add_requirements(&s);
  moe__kernel_prologue(kernel);
  moe__kernel_await_launches(kernel);
  s.ring = moe__ring_create(kernel, s.schedule.stages, (TILE_M + s.schedule.tile_n) * DEPTH);
  s.staging_offset =
      moe__kernel_shared(kernel, multiplier_threads / MOE__WARP * STAGING_BYTES, 1024);
  s.sb_offset =
      moe__kernel_shared(kernel, multiplier_threads / MOE__WARP * s.schedule.tile_n * 4, 16);
  s.groups =
      moe__groups_create(kernel, (int32_t)groups, s.experts.value, TILE_M,
                         moe__ceil_div(b, s.columns.value, s.schedule.tile_n), s.schedule.band);

  MlirValue loader = moe__i32(b, multiplier_threads);
  MlirValue is_first_loader = moe__eq(b, kernel->thread, loader);
  moe__if_t setup = moe__if_begin(b, is_first_loader, false);
  moe__tma_prefetch_map(b, s.a_map);
  moe__tma_prefetch_map(b, s.b_map);
  moe__ring_initialize(kernel, &s.ring, multiplier_threads / MOE__WARP);
  moe__if_end(b, &setup);
  moe__if_t scan = moe__if_begin(b, moe__ult(b, kernel->thread, moe__i32(b, MOE__WARP)), false);
  moe__groups_initialize(&s.groups, s.offs, s.tokens.value, kernel->thread, s.status);
  moe__if_end(b, &scan);
  moe__block_barrier(b);

  moe__if_t role = moe__if_begin(b, moe__ult(b, kernel->thread, loader), true);
  moe__registers_increase(b, MULTIPLIER_REGISTERS);
  multiply_tiles(&s);
  moe__else(b, &role);
  moe__registers_decrease(b, LOADER_REGISTERS);
  moe__if_t one_lane = moe__if_begin(b, is_first_loader, false);
  load_tiles(&s);
  moe__if_end(b, &one_lane);
  moe__if_end(b, &role);

  /* No more blocks than tiles, where forward each token may be a group of its own; none for an
   * empty result. */
  char columns[MOE__EXPRESSION_SIZE], rows[MOE__EXPRESSION_SIZE], tiles[MOE__EXPRESSION_SIZE],
      grid[MOE__EXPRESSION_SIZE];
  moe__expression_ceildiv(columns, s.columns.expression, s.schedule.tile_n);
  if (s.gradient) {
    moe__expression_ceildiv(rows, s.rows.expression, TILE_M);
    moe__expression_mul(tiles, 3, (const char *[]){s.experts.expression, rows, columns});
  } else {
    moe__expression_mul(tiles, 2, (const char *[]){s.tokens.expression, columns});
  }
  moe__expression_min(grid, tiles, "\"num_sms\"");
  moe__kernel_end(kernel, gpu_module_body, moe__symbol(function),
                  (const char *const[]){grid, "1", "1"});
  return true;
}

/* ---- The pass ---- */

bool moe__run_convert_scaled_grouped_mm_to_nvvm(MlirOperation module, const moe__pass_t *pass) {
  return moe__run_verify(module, pass) && /* the rest relies on it */
         moe__lower_kernels(module, "scaled_grouped_mm");
}
