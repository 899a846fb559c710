/* DequantizeRows.c - the kernel of both dequantizers where q lies in memory as x does.
 *
 * A stream: a thread loads one vector of each of several rows, all of them before it uses the
 * first, converts, and stores 16 bytes of x for each. Neighboring threads have neighboring
 * vectors, in q and in x. A tile has rows of one group, so that a scale of the group is one of the
 * tile. MX blocks along rows need no rows: a tile may be a piece of the stream. Where tokens lie
 * side by side, groups cut the rows of a tile.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/mx_quantize/Dequantize.h"

#include "lib/Builder/Inspect.h"
#include "lib/Device/Async.h"
#include "lib/Device/Warp.h"

/* A thread takes one column of vectors of the tile. */
bool moe__dequantize_rows_layout(MlirOperation op, const moe__dequantize_schedule_t *schedule,
                                 int columns, moe__dequantize_layout_t *out) {
  if (schedule->tile_k % columns)
    return moe__error(op, "'schedule.tile_k' is %d; it must be a multiple of %d", schedule->tile_k,
                      columns);
  int lanes = schedule->tile_k / columns, threads = schedule->warps * MOE__WARP;
  if (threads % lanes)
    return moe__error(op, "'schedule.tile_k' is %d; its %d vectors must divide the %d threads",
                      schedule->tile_k, lanes, threads);
  int step = threads / lanes;
  if (schedule->tile_n % step)
    return moe__error(op,
                      "'schedule.tile_n' is %d; it must be a multiple of %d, the rows that the "
                      "threads take at once",
                      schedule->tile_n, step);
  out->cta.registers = moe__vector_registers(schedule->tile_n / step);
  return moe__vectors_fit(op, schedule->tile_n / step);
}

/* What a tile is: rows [row, row_end) that may be more than its tile_n, and columns from
 * `column` on. */
typedef struct tile_t {
  MlirValue expert, group, row, row_end, column; /* i32 */
} tile_t;

static moe__tiles_t plain_tiles(moe__dequantize_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  return moe__tiles_create(b, s->e.value, moe__ceil_div(b, s->n.value, s->schedule.tile_n),
                           moe__ceil_div(b, s->k.value, s->schedule.tile_k), s->schedule.band);
}

static tile_t tile_at(moe__dequantize_t *s, const moe__tiles_t *tiles, MlirValue index) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue tile_k = moe__i32(b, s->schedule.tile_k);
  if (s->grouped && !s->side_by_side) {
    moe__group_tile_t at = moe__groups_tile(&s->groups, index);
    return (tile_t){.expert = moe__i32(b, 0),
                    .group = at.group,
                    .row = at.row,
                    .row_end = at.row_end,
                    .column = moe__mul(b, at.column, tile_k)};
  }
  moe__tile_t at = moe__tile_at(b, tiles, index);
  return (tile_t){.expert = at.batch,
                  .row = moe__mul(b, at.row, s->schedule.tile_n),
                  .row_end = s->n.value,
                  .column = moe__mul(b, at.column, tile_k)};
}

/* The values of the vector at `address`, as f32. */
static void unpack(moe__dequantize_t *s, MlirValue vector, MlirValue out[MOE__MAX_COLUMNS]) {
  moe__builder_t *b = &s->kernel.builder;
  for (int i = 0; i < s->columns / 4; i++)
    moe__fp8_unpack4(b, moe__extract(b, vector, i), s->element, out + (ptrdiff_t)4 * i);
}

/* The thread's part of a tile: the vector at `column` of every step-th row from `row` on. kept: as
 * for moe__dequantize_store. */
static void dequantize_vectors(moe__dequantize_t *s, const tile_t *tile, MlirValue row,
                               MlirValue column, int step, const MlirValue *kept) {
  moe__builder_t *b = &s->kernel.builder;
  int count = s->schedule.tile_n / step;
  MlirValue last = moe__sub(b, tile->row_end, 1);
  MlirValue first = moe__umin(b, row, last), down = moe__sub(b, last, first);
  MlirValue start = moe__dequantize_offset(s, tile->expert, first, column);
  MlirValue vectors[MOE__MAX_VECTORS], scales[MOE__MAX_VECTORS][MOE__MAX_COLUMNS];
  for (int i = 0; i < count; i++) {
    /* Past the end the last row is loaded once more: no load depends on a branch. */
    MlirValue below = moe__umin(b, i * step, down);
    MlirValue offset = moe__add(b, moe__wide_mul(b, below, s->k.value), start);
    vectors[i] = moe__load_aligned(b, moe__offset(b, s->q, offset),
                                   moe__vector_type(b, s->columns / 4, b->i32), s->columns);
    moe__place_t at = {tile->expert, tile->group, moe__add(b, first, below), column};
    moe__dequantize_scales(s, &at, scales[i]);
  }
  for (int i = 0; i < count; i++) {
    MlirValue below = moe__i32(b, i * step);
    MOE__IF (b, moe__ult(b, moe__add(b, row, below), tile->row_end)) {
      MlirValue values[MOE__MAX_COLUMNS];
      unpack(s, vectors[i], values);
      moe__dequantize_store(s, values, scales[i],
                            moe__add(b, moe__wide_mul(b, below, s->k.value), start), kept);
    }
  }
}

/* The same where tokens lie side by side, of aligned groups: a vector may have tokens of one group
 * and padding behind them, or be of none. */
static void dequantize_tokens(moe__dequantize_t *s, const tile_t *tile, MlirValue row,
                              MlirValue column, int step) {
  moe__builder_t *b = &s->kernel.builder;
  moe__aligned_place_t place = moe__dequantize_aligned_place(s, column);
  MlirValue kept[MOE__MAX_COLUMNS];
  for (int i = 0; i < s->columns; i++)
    kept[i] = moe__ult(b, moe__add(b, place.in_group, i), place.size);
  MOE__IF (b, moe__dequantize_is_written(s, &place)) {
    dequantize_vectors(s, tile, row, column, step, kept);
  }
}

bool moe__dequantize_is_stream(const moe__dequantize_t *s) {
  return s->mx && !s->column_major && !s->side_by_side && !s->schedule.persistent;
}

/* The thread's vectors of a piece of a stream, whose first element is number `first` of `total`,
 * both i64: all loads before the first store. Past the end the last vector is loaded again. */
static void dequantize_piece(moe__dequantize_t *s, MlirValue first, MlirValue total) {
  moe__builder_t *b = &s->kernel.builder;
  int step = s->kernel.layout.threads * s->columns;
  int count = s->schedule.tile_n * s->schedule.tile_k / step;
  MlirValue last = moe__sub(b, total, s->columns);
  moe__mx_vector_t vectors[MOE__MAX_VECTORS];
  for (int i = 0; i < count; i++) {
    MlirValue at = moe__umin(b, moe__add(b, first, (int64_t)i * step), last);
    vectors[i] = moe__mx_vector_load(b, &s->elements, moe__offset(b, s->q, at),
                                     moe__offset(b, s->scales, moe__lshr(b, at, 5)));
  }
  for (int i = 0; i < count && s->evens_first; i++)
    vectors[i].q = moe__fp8_evens_first(b, s->kernel.thread, vectors[i].q);
  for (int i = 0; i < count; i++) {
    MlirValue at = moe__add(b, first, (int64_t)i * step);
    MOE__IF (b, moe__ult(b, at, total)) {
      MlirValue address = moe__offset(b, s->x, moe__mul(b, at, s->elements.bytes));
      moe__mx_vector_store(b, &s->elements, &vectors[i], s->element, address);
    }
  }
}

static void dequantize_stream(moe__dequantize_t *s) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  int piece = s->schedule.tile_n * s->schedule.tile_k;
  MlirValue total =
      moe__mul(b, moe__wide_mul(b, s->e.value, s->n.value), moe__zext(b, s->k.value, b->i64));
  moe__tiles_t tiles = {.total = moe__trunc(b, moe__ceil_div(b, total, piece), b->i32)};
  MlirValue in_piece = moe__zext(b, moe__mul(b, kernel->thread, s->columns), b->i64);
  MOE__FOR_TILES (kernel, &tiles, index) {
    MlirValue start = moe__mul(b, moe__zext(b, index, b->i64), piece);
    dequantize_piece(s, moe__add(b, start, in_piece), total);
  }
}

void moe__dequantize_rows(moe__dequantize_t *s) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  if (moe__dequantize_is_stream(s)) {
    dequantize_stream(s);
    return;
  }
  int lanes = s->schedule.tile_k / s->columns; /* of a row */
  int step = kernel->layout.threads / lanes;
  moe__tiles_t tiles = plain_tiles(s);
  if (s->grouped) {
    moe__dequantize_groups(s);
    if (!s->side_by_side)
      tiles.total = moe__groups_total(&s->groups);
  }
  MlirValue lane_row = moe__udiv(b, kernel->thread, lanes);
  MlirValue lane_column = moe__mul(b, moe__urem(b, kernel->thread, lanes), s->columns);
  MOE__FOR_TILES (kernel, &tiles, index) {
    tile_t tile = tile_at(s, &tiles, index);
    MlirValue column = moe__add(b, tile.column, lane_column);
    MOE__IF (b, moe__ult(b, column, s->k.value)) {
      MlirValue row = moe__add(b, tile.row, lane_row);
      if (s->grouped && s->side_by_side)
        dequantize_tokens(s, &tile, row, column, step);
      else
        dequantize_vectors(s, &tile, row, column, step, NULL);
    }
  }
}
