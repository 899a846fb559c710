/* PackScales.c - the kernel of mx_quantize.pack_scales: block scales in the layout that block-scaled
 * products read, tiles of 128 rows x 4 columns, zero-filled.
 *
 * A block brings 128 rows of tile_columns scales into shared memory, in vectors of 16 bytes where rows
 * are a multiple of that long, else byte by byte, neighboring threads neighboring bytes. Then a warp
 * takes a tile of 128 x 4: a lane has rows lane, lane + 32, lane + 64 and lane + 96, 4 bytes of each,
 * which are 16 consecutive bytes of the packed tile. A row of shared memory is an odd number of words
 * long, so that the 32 rows of a lane's load are in 32 banks.
 *
 * With groups the rows of each start a tile of their own; behind the last group all is zero.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Builder/Shapes.h"
#include "lib/Kernel/Async.h"
#include "lib/Kernel/Groups.h"
#include "lib/Kernel/Warp.h"
#include "passes/Lowering.h"
#include "passes/Schedule.h"

#include "mlir-c/BuiltinTypes.h"

#include <stdio.h>

#define TILE_ROWS 128
#define TILE_COLUMNS 4
#define TILE_BYTES ((int64_t)(TILE_ROWS * TILE_COLUMNS))
#define VECTOR 16

/* The op's tensors, by their number in the kernel's record; offs only where there are groups. */
enum { SCALES, OFFS };

typedef struct pack_t {
  moe__kernel_t kernel;
  moe__pack_schedule_t schedule;
  int max_groups;
  moe__extent_t rows, columns, group_count;
  MlirValue scales, offs, status, packed;
  moe__groups_t groups;
  int32_t buffer; /* offset in shared memory: TILE_ROWS rows of row_bytes */
  int row_bytes;
} pack_t;

/* What a block does at once: scales [row, row_end) and the tile_columns from `column` on, which go
 * to tile row `tile_row`. */
typedef struct patch_t {
  MlirValue row, row_end, column, tile_row; /* i32 */
} patch_t;

bool moe__pack_scales_has_kernel(MlirOperation op) {
  return (moe__is_row_major(mlirValueGetType(mlirOperationGetOperand(op, SCALES))) &&
          moe__is_row_major(mlirValueGetType(mlirOperationGetResult(op, 0)))) ||
         moe__error(op, "the kernel takes scales and writes packed row-major; remove their "
                        "encoding");
}

/* ---- A patch comes in ---- */

static MlirValue shared_address(pack_t *s, MlirValue row, MlirValue column) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue offset = moe__add(b, moe__mul(b, row, moe__i32(b, s->row_bytes)), column);
  return moe__offset_by(b, moe__offset(b, s->kernel.shared, offset), s->buffer);
}

static MlirValue global_address(pack_t *s, MlirValue row, MlirValue column) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue start = moe__mul(b, moe__zext(b, row, b->i64), moe__zext(b, s->columns.value, b->i64));
  return moe__offset(b, s->scales, moe__add(b, start, moe__zext(b, column, b->i64)));
}

#define UNROLL 4 /* loads of a thread before the first is stored */

/* Writes `bytes` bytes, a value of load_patch, into shared memory; rows there are whole words only. */
static void store_shared(pack_t *s, MlirValue value, MlirValue to, int bytes) {
  moe__builder_t *b = &s->kernel.builder;
  if (bytes == 1)
    moe__store(b, value, to);
  for (int i = 0; i < bytes / 4; i++)
    moe__store(b, moe__extract(b, value, i), moe__offset_by(b, to, 4 * i));
}

/* Brings the patch in, which has rows, `bytes` at a time: VECTOR, where all of these are inside or all
 * outside, or 1. Zeros where there are no scales: there the last ones inside are loaded. */
static void load_patch(pack_t *s, const patch_t *patch, int bytes) {
  moe__builder_t *b = &s->kernel.builder;
  int across = s->schedule.tile_columns / bytes, threads = s->kernel.threads;
  MlirType type = bytes == 1 ? b->i8 : moe__vector_type(b, VECTOR / 4, b->i32);
  MlirValue zero = moe__i32(b, 0), nothing = moe__trunc(b, zero, b->i8);
  if (bytes > 1)
    nothing = moe__vector(b, VECTOR / 4, (MlirValue[]){zero, zero, zero, zero});
  MlirValue total = moe__i32(b, TILE_ROWS * across);
  MlirValue last_row = moe__sub(b, patch->row_end, moe__i32(b, 1));
  MlirValue last_column = moe__sub(b, s->columns.value, moe__i32(b, bytes));
  moe__for_t loop =
      moe__for_begin(b, s->kernel.thread, total, moe__i32(b, UNROLL * threads), 0, NULL);
  MlirValue index[UNROLL], to[UNROLL], values[UNROLL];
  for (int i = 0; i < UNROLL; i++) {
    index[i] = moe__add(b, loop.index, moe__i32(b, i * threads));
    MlirValue in_patch = moe__udiv(b, index[i], moe__i32(b, across));
    MlirValue at = moe__mul(b, moe__urem(b, index[i], moe__i32(b, across)), moe__i32(b, bytes));
    MlirValue row = moe__add(b, patch->row, in_patch), column = moe__add(b, patch->column, at);
    to[i] = shared_address(s, in_patch, at);
    MlirValue from =
        global_address(s, moe__umin(b, row, last_row), moe__umin(b, column, last_column));
    MlirValue is_inside =
        moe__and(b, moe__ult(b, row, patch->row_end), moe__ult(b, column, s->columns.value));
    values[i] = moe__select(b, is_inside, moe__load_aligned(b, from, type, bytes), nothing);
  }
  for (int i = 0; i < UNROLL; i++) {
    moe__if_t has = moe__if_begin(b, moe__ult(b, index[i], total), false);
    store_shared(s, values[i], to[i], bytes);
    moe__if_end(b, &has);
  }
  moe__for_end(b, &loop, NULL);
}

/* Fills the patch with zeros. */
static void clear_patch(pack_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  moe__for_t loop = moe__for_begin(b, s->kernel.thread, moe__i32(b, TILE_ROWS * s->row_bytes / 4),
                                   moe__i32(b, s->kernel.threads), 0, NULL);
  moe__store(b, moe__i32(b, 0), shared_address(s, moe__i32(b, 0), moe__shl(b, loop.index, 2)));
  moe__for_end(b, &loop, NULL);
}

/* ---- And goes out ---- */

/* Writes one of the patch's tiles: `index` counts them from the left. */
static void store_tile(pack_t *s, const patch_t *patch, MlirValue index, MlirValue lane) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue tiles_across = moe__ceil_div(b, s->columns.value, TILE_COLUMNS);
  MlirValue first = moe__lshr(b, patch->column, 2);
  MlirValue tile = moe__add(b, first, index);
  moe__if_t inside = moe__if_begin(b, moe__ult(b, tile, tiles_across), false);
  MlirValue words[TILE_ROWS / MOE__WARP];
  MlirValue from = shared_address(s, lane, moe__shl(b, index, 2));
  for (int i = 0; i < TILE_ROWS / MOE__WARP; i++)
    words[i] = moe__load(b, moe__offset_by(b, from, i * MOE__WARP * s->row_bytes), b->i32);
  MlirValue number = moe__add(
      b, moe__mul(b, moe__zext(b, patch->tile_row, b->i64), moe__zext(b, tiles_across, b->i64)),
      moe__zext(b, tile, b->i64));
  MlirValue offset = moe__add(b, moe__mul(b, number, moe__i64(b, TILE_BYTES)),
                              moe__zext(b, moe__shl(b, lane, 4), b->i64));
  moe__store(b, moe__vector(b, TILE_ROWS / MOE__WARP, words), moe__offset(b, s->packed, offset));
  moe__if_end(b, &inside);
}

/* ---- Patches ---- */

/* The rows that go to a tile row: 128 of them, or those of one group. */
static patch_t rows_of(pack_t *s, MlirValue tile_row) {
  moe__builder_t *b = &s->kernel.builder;
  if (!s->max_groups)
    return (patch_t){.row = moe__mul(b, tile_row, moe__i32(b, TILE_ROWS)),
                     .row_end = s->rows.value,
                     .tile_row = tile_row};
  /* Tile rows behind the last group count as its own: they lie behind its last row, and are zero. */
  MlirValue group = moe__umin(b, moe__groups_find_tile(&s->groups, tile_row),
                              moe__sub(b, s->groups.count, moe__i32(b, 1)));
  MlirValue first_tile = {NULL}, tile_end = {NULL}, start = {NULL}, end = {NULL};
  moe__groups_tile_range(&s->groups, group, &first_tile, &tile_end);
  moe__groups_range(&s->groups, group, &start, &end);
  MlirValue before = moe__mul(b, moe__sub(b, tile_row, first_tile), moe__i32(b, TILE_ROWS));
  return (patch_t){.row = moe__add(b, start, before), .row_end = end, .tile_row = tile_row};
}

static void pack(pack_t *s) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  MlirValue patches = moe__ceil_div(b, s->columns.value, s->schedule.tile_columns);
  MlirValue tile_rows = moe__ceil_div(b, s->rows.value, TILE_ROWS);
  if (s->max_groups)
    tile_rows = moe__add(b, tile_rows, s->groups.count);
  MlirValue total = moe__mul(b, tile_rows, patches);
  MlirValue is_aligned =
      moe__eq(b, moe__and(b, s->columns.value, moe__i32(b, VECTOR - 1)), moe__i32(b, 0));
  MlirValue warp = moe__lshr(b, kernel->thread, 5);
  MlirValue lane = moe__and(b, kernel->thread, moe__i32(b, MOE__WARP - 1));
  moe__for_t loop = moe__for_begin(b, kernel->block, total, kernel->block_count, 0, NULL);
  patch_t patch = rows_of(s, moe__udiv(b, loop.index, patches));
  patch.column =
      moe__mul(b, moe__urem(b, loop.index, patches), moe__i32(b, s->schedule.tile_columns));
  moe__if_t has_rows = moe__if_begin(b, moe__ult(b, patch.row, patch.row_end), true);
  {
    moe__if_t aligned = moe__if_begin(b, is_aligned, true);
    load_patch(s, &patch, VECTOR);
    moe__else(b, &aligned);
    load_patch(s, &patch, 1);
    moe__if_end(b, &aligned);
  }
  moe__else(b, &has_rows);
  clear_patch(s);
  moe__if_end(b, &has_rows);
  moe__block_barrier(b);
  for (int i = 0; i < s->schedule.tile_columns / TILE_COLUMNS; i += s->schedule.warps)
    store_tile(s, &patch, moe__add(b, warp, moe__i32(b, i)), lane);
  moe__block_barrier(b); /* before the patch is written over */
  moe__for_end(b, &loop, NULL);
}

/* ---- The kernel ---- */

static void add_parameters(pack_t *s, MlirOperation op) {
  moe__kernel_t *kernel = &s->kernel;
  MlirType scales = mlirValueGetType(mlirOperationGetOperand(op, SCALES));
  s->rows = moe__kernel_extent(kernel, SCALES, 0, scales);
  s->columns = moe__kernel_extent(kernel, SCALES, 1, scales);
  s->scales = moe__kernel_pointer(kernel, SCALES);
  if (s->max_groups) {
    s->group_count =
        moe__kernel_extent(kernel, OFFS, 0, mlirValueGetType(mlirOperationGetOperand(op, OFFS)));
    s->offs = moe__kernel_pointer(kernel, OFFS);
    s->status = moe__kernel_status(kernel);
    moe__kernel_require(kernel, OFFS, 0, "at_least", 1);
    moe__kernel_require(kernel, OFFS, 0, "at_most", MOE__MAX_GROUPS);
  }
  s->packed = moe__kernel_pointer(kernel, (int)mlirOperationGetNumOperands(op));
}

static void grid_expression(const pack_t *s, char *out) {
  char rows[MOE__EXPRESSION_SIZE], tile_rows[MOE__EXPRESSION_SIZE], columns[MOE__EXPRESSION_SIZE],
      patches[MOE__EXPRESSION_SIZE];
  moe__expression_ceildiv(rows, s->rows.expression, TILE_ROWS);
  moe__expression_ceildiv(columns, s->columns.expression, s->schedule.tile_columns);
  if (s->max_groups)
    moe__expression_add(tile_rows, 2, (const char *[]){rows, s->group_count.expression});
  moe__expression_mul(patches, 2, (const char *[]){s->max_groups ? tile_rows : rows, columns});
  moe__expression_persistent(out, patches, s->schedule.blocks_per_sm);
}

bool moe__lower_pack_scales(MlirOperation function, MlirOperation op, MlirBlock gpu_module_body) {
  pack_t s = {.max_groups = moe__max_groups(op, OFFS)};
  if (!moe__pack_scales_has_kernel(op) || /* its schedule may have been written by hand */
      !moe__pack_schedule_read(op, s.max_groups, &s.schedule))
    return false;
  moe__kernel_t *kernel = &s.kernel;
  moe__builder_t *b = &kernel->builder;
  moe__kernel_begin(kernel, mlirOperationGetContext(op), mlirOperationGetLocation(op),
                    s.schedule.warps * MOE__WARP, s.schedule.blocks_per_sm);
  add_parameters(&s, op);
  moe__kernel_prologue(kernel);
  moe__kernel_await_launches(kernel);
  s.row_bytes = s.schedule.tile_columns + 4; /* an odd number of words */
  s.buffer = moe__kernel_shared(kernel, TILE_ROWS * s.row_bytes, 16);
  if (s.max_groups) {
    s.groups =
        moe__groups_create(kernel, s.max_groups, s.group_count.value, TILE_ROWS, moe__i32(b, 1), 1);
    moe__if_t scan = moe__if_begin(b, moe__ult(b, kernel->thread, moe__i32(b, MOE__WARP)), false);
    moe__groups_initialize(&s.groups, s.offs, s.rows.value, kernel->thread, s.status);
    moe__if_end(b, &scan);
    moe__block_barrier(b);
  }
  pack(&s);
  char grid[MOE__EXPRESSION_SIZE];
  grid_expression(&s, grid);
  moe__kernel_end(kernel, gpu_module_body, moe__symbol(function),
                  (const char *const[]){grid, "1", "1"});
  return true;
}
