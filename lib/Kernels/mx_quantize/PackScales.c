/* PackScales.c - the kernel of mx_quantize.pack_scales: scales of MX blocks in the layout
 * that block-scaled products read, tiles of 128 rows x 4 columns, zero-filled.
 *
 * A CTA brings 128 rows of tile_columns scales into shared memory, in vectors of 16 bytes
 * where rows are a multiple of that long, else byte by byte, neighboring threads neighboring
 * bytes. Then a warp takes a tile of 128 x 4: a lane has rows lane, lane + 32, lane + 64 and
 * lane + 96, 4 bytes of each, which are 16 consecutive bytes of the packed tile. A row of shared
 * memory is an odd number of words long, so that the 32 rows of a lane's load are in 32 banks.
 *
 * With groups the rows of each start a tile of their own; behind the last group all is zero.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Builder/Inspect.h"
#include "lib/Device/Async.h"
#include "lib/Device/Groups.h"
#include "lib/Device/Vectors.h"
#include "lib/Device/Warp.h"
#include "lib/Dialect/Dialect.h"
#include "lib/Kernels/Kernels.h"
#include "lib/Kernels/Requirements.h"
#include "lib/Kernels/mx_quantize/Schedule.h"

#include "mlir-c/BuiltinTypes.h"

#include <stdio.h>

#define TILE_BYTES ((int64_t)(MOE_PACKED_ROWS * MOE_PACKED_COLUMNS))

/* ---- The schedule ---- */

MOE__SCHEDULE_KIND(moe__pack_schedule, moe__pack_schedule_t, MOE__PACK_SCHEDULE, "pack",
                   "pack_scales");

#define CANDIDATES(...)                                                                            \
  {                                                                                                \
    {__VA_ARGS__}, {.tile_columns = 128, .ctas_per_sm = 4}, {.tile_columns = 32},                  \
        {.tile_columns = 64, .warps = 16, .ctas_per_sm = 2},                                       \
        {.tile_columns = 64, .warps = 4, .ctas_per_sm = 8},                                        \
  }
static const moe__pack_schedule_t PACK[] = CANDIDATES(.tile_columns = 64);
/* By the length of a row, of more than 64 scales and at most 320: a CTA takes whole rows, as
 * parts of them would leave threads idle. */
#define ROW_STEP 32
static const moe__pack_schedule_t PACK_ROWS[][sizeof PACK / sizeof PACK[0]] = {
    CANDIDATES(.tile_columns = 96, .ctas_per_sm = 4),
    CANDIDATES(.tile_columns = 128, .ctas_per_sm = 4),
    CANDIDATES(.tile_columns = 160, .ctas_per_sm = 4),
    CANDIDATES(.tile_columns = 192, .ctas_per_sm = 4),
    CANDIDATES(.tile_columns = 224, .ctas_per_sm = 4),
    CANDIDATES(.tile_columns = 256, .ctas_per_sm = 4),
    CANDIDATES(.tile_columns = 288, .ctas_per_sm = 4),
    CANDIDATES(.tile_columns = 320, .ctas_per_sm = 4),
};

static moe__candidates_t candidates(MlirOperation op) {
  MlirType scales = moe__tensor_type(op, MOE__SCALES);
  int64_t columns = mlirShapedTypeIsDynamicDim(scales, 1) ? 0 : mlirShapedTypeGetDimSize(scales, 1);
  int64_t row = (columns + ROW_STEP - 1) / ROW_STEP - 64 / ROW_STEP - 1;
  if (row < 0 || row >= (int64_t)(sizeof PACK_ROWS / sizeof PACK_ROWS[0]))
    return MOE__CANDIDATES(PACK);
  return MOE__CANDIDATES(PACK_ROWS[row]);
}

typedef struct pack_layout_t {
  moe__layout_t cta;
  int32_t buffer; /* offset of MOE_PACKED_ROWS rows of row_bytes */
  int row_bytes;
  moe__groups_layout_t groups;
} pack_layout_t;

static bool lay_out(MlirOperation op, const void *schedule, void *out) {
  const moe__pack_schedule_t *s = schedule;
  pack_layout_t *l = out;
  if (s->tile_columns % 16)
    return moe__error(op, "'schedule.tile_columns' is %d; it must be a multiple of 16",
                      s->tile_columns);
  if (s->tile_columns / MOE_PACKED_COLUMNS % s->warps)
    return moe__error(op, "'schedule.warps' is %d; it must divide the %d tiles of 128 x 4",
                      s->warps, s->tile_columns / MOE_PACKED_COLUMNS);
  l->cta.threads = s->warps * MOE__WARP;
  l->cta.ctas_per_sm = s->ctas_per_sm;
  l->cta.registers = 48;
  l->row_bytes = s->tile_columns + 4; /* an odd number of words */
  l->buffer = moe__layout_shared(&l->cta, MOE_PACKED_ROWS * l->row_bytes, 16);
  l->groups = moe__groups_reserve(&l->cta, moe__max_groups(op), MOE__GROUPS_IN_TURN);
  return true;
}

/* ---- The kernel under construction ---- */

typedef struct pack_t {
  moe__kernel_t kernel;
  moe__pack_schedule_t schedule;
  pack_layout_t layout;
  moe__extent_t rows, columns, group_count;
  MlirValue scales, offs, status, packed;
  moe__groups_t groups;
} pack_t;

/* What a CTA does at once: scales [row, row_end) and the tile_columns from `column` on, which go
 * to tile row `tile_row`. */
typedef struct patch_t {
  MlirValue row, row_end, column, tile_row; /* i32 */
} patch_t;

static bool has_kernel(MlirOperation op) {
  return (moe__is_row_major(moe__tensor_type(op, MOE__SCALES)) &&
          moe__is_row_major(moe__tensor_type(op, MOE__PACKED))) ||
         moe__error(op, "the kernel takes scales and writes packed row-major; remove their "
                        "encoding");
}

/* ---- A patch comes in ---- */

static MlirValue shared_address(pack_t *s, MlirValue row, MlirValue column) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue offset = moe__add(b, moe__mul(b, row, s->layout.row_bytes), column);
  return moe__offset_by(b, moe__offset(b, s->kernel.shared, offset), s->layout.buffer);
}

static MlirValue global_address(pack_t *s, MlirValue row, MlirValue column) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue start = moe__mul(b, moe__zext(b, row, b->i64), moe__zext(b, s->columns.value, b->i64));
  return moe__offset(b, s->scales, moe__add(b, start, moe__zext(b, column, b->i64)));
}

#define UNROLL 4 /* loads of a thread before the first is stored */

/* Writes `bytes` bytes, a value of load_patch, into shared memory; rows there are whole words
 * only. */
static void store_shared(pack_t *s, MlirValue value, MlirValue to, int bytes) {
  moe__builder_t *b = &s->kernel.builder;
  if (bytes == 1)
    moe__store(b, value, to);
  for (int i = 0; i < bytes / 4; i++)
    moe__store(b, moe__extract(b, value, i), moe__offset_by(b, to, 4 * i));
}

/* Brings the patch in, which has rows, `bytes` at a time: MOE__VECTOR_BYTES, where all of these are
 * inside or all outside, or 1. Zeros where there are no scales: there the last ones inside are
 * loaded. */
static void load_patch(pack_t *s, const patch_t *patch, int bytes) {
  moe__builder_t *b = &s->kernel.builder;
  int across = s->schedule.tile_columns / bytes, threads = s->kernel.layout.threads;
  MlirType type = bytes == 1 ? b->i8 : moe__vector_type(b, MOE__VECTOR_WORDS, b->i32);
  MlirValue zero = moe__i32(b, 0), nothing = moe__trunc(b, zero, b->i8);
  if (bytes > 1)
    nothing = moe__vector(b, MOE__VECTOR_WORDS, (MlirValue[]){zero, zero, zero, zero});
  MlirValue total = moe__i32(b, MOE_PACKED_ROWS * across);
  MlirValue last_row = moe__sub(b, patch->row_end, 1);
  MlirValue last_column = moe__sub(b, s->columns.value, bytes);
  MOE__FOR (b, number, s->kernel.thread, total, UNROLL * threads) {
    MlirValue index[UNROLL], to[UNROLL], values[UNROLL];
    for (int i = 0; i < UNROLL; i++) {
      index[i] = moe__add(b, number, i * threads);
      MlirValue in_patch = moe__udiv(b, index[i], across);
      MlirValue at = moe__mul(b, moe__urem(b, index[i], across), bytes);
      MlirValue row = moe__add(b, patch->row, in_patch), column = moe__add(b, patch->column, at);
      to[i] = shared_address(s, in_patch, at);
      MlirValue from =
          global_address(s, moe__umin(b, row, last_row), moe__umin(b, column, last_column));
      MlirValue is_inside =
          moe__and(b, moe__ult(b, row, patch->row_end), moe__ult(b, column, s->columns.value));
      values[i] = moe__select(b, is_inside, moe__load_aligned(b, from, type, bytes), nothing);
    }
    for (int i = 0; i < UNROLL; i++) {
      MOE__IF (b, moe__ult(b, index[i], total)) {
        store_shared(s, values[i], to[i], bytes);
      }
    }
  }
}

/* Fills the patch with zeros. */
static void clear_patch(pack_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  MOE__FOR (b, index, s->kernel.thread, MOE_PACKED_ROWS * s->layout.row_bytes / 4,
            s->kernel.layout.threads) {
    moe__store(b, moe__i32(b, 0), shared_address(s, moe__i32(b, 0), moe__shl(b, index, 2)));
  }
}

/* ---- And goes out ---- */

/* Writes one of the patch's tiles: `index` counts them from the left. */
static void store_tile(pack_t *s, const patch_t *patch, MlirValue index, MlirValue lane) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue tiles_across = moe__ceil_div(b, s->columns.value, MOE_PACKED_COLUMNS);
  MlirValue first = moe__lshr(b, patch->column, 2);
  MlirValue tile = moe__add(b, first, index);
  MOE__IF (b, moe__ult(b, tile, tiles_across)) {
    MlirValue words[MOE_PACKED_ROWS / MOE__WARP];
    MlirValue from = shared_address(s, lane, moe__shl(b, index, 2));
    for (int i = 0; i < MOE_PACKED_ROWS / MOE__WARP; i++)
      words[i] = moe__load(b, moe__offset_by(b, from, i * MOE__WARP * s->layout.row_bytes), b->i32);
    MlirValue number = moe__add(
        b, moe__mul(b, moe__zext(b, patch->tile_row, b->i64), moe__zext(b, tiles_across, b->i64)),
        moe__zext(b, tile, b->i64));
    MlirValue offset =
        moe__add(b, moe__mul(b, number, TILE_BYTES), moe__zext(b, moe__shl(b, lane, 4), b->i64));
    moe__store(b, moe__vector(b, MOE_PACKED_ROWS / MOE__WARP, words),
               moe__offset(b, s->packed, offset));
  }
}

/* ---- Patches ---- */

/* The rows that go to a tile row: 128 of them, or those of one group. */
static patch_t rows_of(pack_t *s, MlirValue tile_row) {
  moe__builder_t *b = &s->kernel.builder;
  if (!s->layout.groups.max_groups)
    return (patch_t){.row = moe__mul(b, tile_row, MOE_PACKED_ROWS),
                     .row_end = s->rows.value,
                     .tile_row = tile_row};
  /* Tile rows behind the last group count as its own: they lie behind its last row, and are
   * zero. */
  MlirValue group =
      moe__umin(b, moe__groups_find_tile(&s->groups, tile_row), moe__sub(b, s->groups.count, 1));
  MlirValue first_tile = {NULL}, tile_end = {NULL}, start = {NULL}, end = {NULL};
  moe__groups_tile_range(&s->groups, group, &first_tile, &tile_end);
  moe__groups_range(&s->groups, group, &start, &end);
  MlirValue before = moe__mul(b, moe__sub(b, tile_row, first_tile), MOE_PACKED_ROWS);
  return (patch_t){.row = moe__add(b, start, before), .row_end = end, .tile_row = tile_row};
}

static void pack(pack_t *s) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  MlirValue patches = moe__ceil_div(b, s->columns.value, s->schedule.tile_columns);
  MlirValue tile_rows = moe__ceil_div(b, s->rows.value, MOE_PACKED_ROWS);
  if (s->layout.groups.max_groups)
    tile_rows = moe__add(b, tile_rows, s->groups.count);
  MlirValue total = moe__mul(b, tile_rows, patches);
  MlirValue is_aligned = moe__eq(b, moe__and(b, s->columns.value, MOE__VECTOR_BYTES - 1), 0);
  MlirValue warp = moe__lshr(b, kernel->thread, 5);
  MlirValue lane = moe__and(b, kernel->thread, MOE__WARP - 1);
  MOE__FOR (b, index, kernel->cta, total, kernel->cta_count) {
    patch_t patch = rows_of(s, moe__udiv(b, index, patches));
    patch.column = moe__mul(b, moe__urem(b, index, patches), s->schedule.tile_columns);
    MOE__IF (b, moe__ult(b, patch.row, patch.row_end)) {
      MOE__IF (b, is_aligned) {
        load_patch(s, &patch, MOE__VECTOR_BYTES);
      }
      MOE__ELSE (b) {
        load_patch(s, &patch, 1);
      }
    }
    MOE__ELSE (b) {
      clear_patch(s);
    }
    moe__cta_barrier(b);
    for (int i = 0; i < s->schedule.tile_columns / MOE_PACKED_COLUMNS; i += s->schedule.warps)
      store_tile(s, &patch, moe__add(b, warp, i), lane);
    moe__cta_barrier(b); /* before the patch is written over */
  }
}

/* ---- The kernel ---- */

static void add_parameters(pack_t *s, MlirOperation op) {
  moe__kernel_t *kernel = &s->kernel;
  int scales_number = moe__tensor_number(op, MOE__SCALES),
      offs_number = moe__tensor_number(op, MOE__OFFS);
  MlirType scales = moe__tensor_type(op, MOE__SCALES);
  s->rows = moe__kernel_extent(kernel, scales_number, 0, scales);
  s->columns = moe__kernel_extent(kernel, scales_number, 1, scales);
  s->scales = moe__kernel_pointer(kernel, scales_number);
  if (s->layout.groups.max_groups) {
    s->group_count = moe__kernel_extent(kernel, offs_number, 0, moe__tensor_type(op, MOE__OFFS));
    s->offs = moe__kernel_pointer(kernel, offs_number);
    s->status = moe__kernel_status(kernel);
    moe__require_groups(kernel, offs_number);
  }
  s->packed = moe__kernel_pointer(kernel, moe__tensor_number(op, MOE__PACKED));
}

static const moe__expression_t *grid_expression(pack_t *s) {
  moe__record_t *record = &s->kernel.record;
  const moe__expression_t *rows =
      moe__expression_ceildiv(record, s->rows.expression, MOE_PACKED_ROWS);
  if (s->layout.groups.max_groups)
    rows = moe__expression_add(record, MOE__EXPRESSIONS(rows, s->group_count.expression));
  const moe__expression_t *columns =
      moe__expression_ceildiv(record, s->columns.expression, s->schedule.tile_columns);
  return moe__expression_persistent(record,
                                    moe__expression_mul(record, MOE__EXPRESSIONS(rows, columns)),
                                    s->schedule.ctas_per_sm);
}

static bool lower(const moe__lowering_t *lowering) {
  MlirOperation op = lowering->op;
  const pack_layout_t *layout = lowering->layout;
  const moe__pack_schedule_t *schedule = lowering->schedule;
  pack_t s = {.schedule = *schedule, .layout = *layout};
  moe__kernel_t *kernel = &s.kernel;
  moe__builder_t *b = &kernel->builder;
  moe__lowering_begin(lowering, kernel);
  add_parameters(&s, op);
  moe__kernel_prologue(kernel);
  moe__kernel_await_launches(kernel);
  if (layout->groups.max_groups) {
    s.groups = moe__groups_create(kernel, &layout->groups, s.group_count.value, MOE_PACKED_ROWS,
                                  moe__i32(b, 1), 1);
    moe__groups_initialize_by_cta(&s.groups, s.offs, s.rows.value, s.status);
  }
  pack(&s);
  moe__lowering_end(lowering, kernel, grid_expression(&s));
  return true;
}

const moe__kernel_definition_t moe__pack_scales_kernel = {
    .ops = {MOE__OP_PACK_SCALES},
    .has_kernel = has_kernel,
    .schedule = &moe__pack_schedule,
    .candidates = candidates,
    .layout_size = sizeof(pack_layout_t),
    .layout = lay_out,
    .lower = lower,
};
