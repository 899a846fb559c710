/* Epilogue.c - the scales and the bias of a tile of scaled_mm, and the values of out that its sums
 * become with them: see Epilogue.h.
 *
 * They are asked for while the first product runs, or before it: those of rows stay in registers,
 * those of columns go on into shared memory, unless one scale does for all of them.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/scaled_grouped_mm/Epilogue.h"

#include "lib/Device/Warp.h"

#include "mlir-c/BuiltinTypes.h"

/* The named barrier of the first multiplying warpgroup; those of the others, one or two, have the
 * next numbers. */
#define WARPGROUP_BARRIER 1

/* ---- The memory ---- */

int moe__mm_staged_bytes(const moe__mm_schedule_t *schedule) {
  return schedule->swap_operands ? MOE__MM_STAGED_LINE : schedule->staged;
}

int moe__mm_piece_bytes(const moe__mm_schedule_t *schedule) {
  return MOE__MM_WARP_ROWS * moe__mm_staged_bytes(schedule);
}

int moe__mm_tma_pieces(const moe__mm_schedule_t *schedule) {
  return schedule->swap_operands || schedule->direct ? 0 : schedule->tma_store;
}

/* A warp's part of staging. */
static int staging_bytes(const moe__mm_schedule_t *schedule) {
  int pieces = moe__mm_tma_pieces(schedule);
  return moe__mm_piece_bytes(schedule) * (pieces ? pieces : 1);
}

void moe__mm_epilogue_reserve(moe__mm_layout_t *layout, const moe__mm_schedule_t *schedule,
                              MlirOperation op) {
  int32_t columns = moe__mm_warpgroups(schedule) * schedule->tile_n * 4;
  int of_columns = schedule->swap_operands ? MOE__MM_QA : MOE__MM_QB;
  if (!schedule->direct || schedule->swap_operands)
    layout->staging = moe__layout_shared(
        &layout->cta, moe__mm_threads(schedule) / MOE__WARP * staging_bytes(schedule), 1024);
  if (moe__mm_scales(op, of_columns) == MOE__SCALE_OF_ROW)
    layout->column_scales = moe__layout_shared(&layout->cta, columns, 16);
  if (moe__operand_number(op, MOE__BIAS) >= 0 && !schedule->swap_operands)
    layout->column_bias = moe__layout_shared(&layout->cta, columns, 16);
}

/* ---- Scales and bias ---- */

/* The place of row `position` of an operand's part of a tile among all its rows: for qa a row of
 * out, for qb a column of all experts (i64). Where it lies behind the last that is stored, that
 * of the last. */
static MlirValue place(moe__scaled_mm_t *s, const moe__mm_operand_t *operand,
                       const moe__group_tile_t *tile, MlirValue position) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue one = moe__i32(b, 1);
  if (operand == &s->operands[MOE__MM_QA]) {
    MlirValue row = moe__umin(b, moe__add(b, tile->row, position), moe__sub(b, tile->row_end, one));
    return moe__zext(b, row, b->i64);
  }
  MlirValue first = moe__mul(b, tile->column, operand == s->side[1] ? s->column_n : operand->tile);
  MlirValue column = moe__umin(b, moe__add(b, first, position), moe__sub(b, s->columns.value, one));
  return moe__add(b, moe__wide_mul(b, tile->group, s->columns.value), moe__zext(b, column, b->i64));
}

static MlirValue load_scale(moe__scaled_mm_t *s, const moe__mm_epilogue_t *e,
                            const moe__mm_operand_t *operand, MlirValue position) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue at = operand->scales;
  if (operand->granularity == MOE__SCALE_OF_EXPERT)
    at = moe__offset(b, at, moe__shl(b, moe__zext(b, e->tile->group, b->i64), 2));
  else if (operand->granularity == MOE__SCALE_OF_ROW)
    at = moe__offset(b, at, moe__shl(b, place(s, operand, e->tile, position), 2));
  MlirValue scale = moe__load(b, at, b->f32);
  return e->is_empty.ptr ? moe__select(b, e->is_empty, moe__f32(b, 0), scale) : scale;
}

/* The bias of column `position` of out in the tile. */
static MlirValue load_bias(moe__scaled_mm_t *s, const moe__group_tile_t *tile, MlirValue position) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue at = place(s, &s->operands[MOE__MM_QB], tile, position);
  bool wide = mlirTypeIsAF32(s->bias_type);
  MlirValue bias =
      moe__load(b, moe__offset(b, s->bias, moe__shl(b, at, wide ? 2 : 1)), s->bias_type);
  return wide ? bias : moe__op1(b, "llvm.fpext", b->f32, MOE__VALUES(bias), NULL);
}

/* The warpgroup's part of `part`, which has one for each. */
static MlirValue of_warpgroup(moe__scaled_mm_t *s, const moe__mm_position_t *self, int32_t part) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue bytes = moe__mul(b, self->warpgroup, s->schedule.tile_n * 4);
  return moe__offset_by(b, moe__offset(b, s->kernel.shared, bytes), part);
}

static void warpgroup_barrier(moe__scaled_mm_t *s, const moe__mm_position_t *self) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue id = moe__add(b, self->warpgroup, WARPGROUP_BARRIER);
  moe__barrier_of(b, id, moe__i32(b, MOE__MM_WARPGROUP));
}

/* Asks for what belongs to a column of the tile: column `first` for the warpgroup's first thread,
 * and so on. */
static moe__mm_column_t fetch_column(moe__scaled_mm_t *s, const moe__mm_epilogue_t *e, int first) {
  moe__builder_t *b = &s->kernel.builder;
  moe__mm_column_t column = {0};
  MlirValue thread = moe__and(b, s->kernel.thread, MOE__MM_WARPGROUP - 1);
  column.position = moe__add(b, thread, first);
  if (e->column_scales.ptr)
    column.scale = load_scale(s, e, s->side[1], column.position);
  if (e->column_bias.ptr)
    column.bias = load_bias(s, e->tile, column.position);
  return column;
}

static void store_column(moe__scaled_mm_t *s, const moe__mm_epilogue_t *e,
                         const moe__mm_column_t *column) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue at = moe__shl(b, column->position, 2);
  if (column->scale.ptr)
    moe__store(b, column->scale, moe__offset(b, e->column_scales, at));
  if (column->bias.ptr)
    moe__store(b, column->bias, moe__offset(b, e->column_bias, at));
}

static int columns_of_thread(const moe__scaled_mm_t *s) {
  return (s->fragment_n + MOE__MM_WARPGROUP - 1) / MOE__MM_WARPGROUP;
}

static MlirValue is_column(moe__scaled_mm_t *s, MlirValue position) {
  return moe__ult(&s->kernel.builder, position, s->fragment_n);
}

void moe__mm_epilogue_settle(moe__scaled_mm_t *s, const moe__mm_epilogue_t *e) {
  moe__builder_t *b = &s->kernel.builder;
  if (!e->column_scales.ptr && !e->column_bias.ptr)
    return;
  warpgroup_barrier(s, e->self); /* those of the tile before have been read */
  for (int i = 0; i < columns_of_thread(s); i++) {
    MOE__IF (b, is_column(s, e->columns[i].position)) {
      store_column(s, e, &e->columns[i]);
    }
  }
  warpgroup_barrier(s, e->self);
}

/* The scales and the bias of the lane's two rows. */
static void fetch_rows(moe__scaled_mm_t *s, moe__mm_epilogue_t *e) {
  moe__builder_t *b = &s->kernel.builder;
  for (int h = 0; h < 2; h++) {
    MlirValue position = moe__add(b, e->self->row, 8 * h);
    if (!moe__mm_scales_sums(s))
      e->row_scale[h] = load_scale(s, e, s->side[0], position);
    if (s->has_bias && s->schedule.swap_operands)
      e->row_bias[h] = load_bias(s, e->tile, position);
  }
}

/* Where the warp stages rows. */
static MlirValue staging_of_warp(moe__scaled_mm_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue warp = moe__lshr(b, s->kernel.thread, 5);
  MlirValue part = moe__mul(b, warp, staging_bytes(&s->schedule));
  return moe__offset_by(b, moe__offset(b, s->kernel.shared, part), s->layout.staging);
}

/* Where the scales and the bias of columns are, of which each has its own. */
static void find_columns(moe__scaled_mm_t *s, moe__mm_epilogue_t *e) {
  if (s->side[1]->granularity == MOE__SCALE_OF_ROW)
    e->column_scales = of_warpgroup(s, e->self, s->layout.column_scales);
  if (s->has_bias && !s->schedule.swap_operands)
    e->column_bias = of_warpgroup(s, e->self, s->layout.column_bias);
}

moe__mm_epilogue_t moe__mm_epilogue_of(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                                       const moe__group_tile_t *tile) {
  moe__mm_epilogue_t e = {.self = self, .tile = tile, .staging = staging_of_warp(s)};
  find_columns(s, &e);
  return e;
}

moe__mm_epilogue_t moe__mm_epilogue_prepare(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                                            const moe__group_tile_t *tile, MlirValue is_empty) {
  moe__mm_epilogue_t e = {
      .self = self, .tile = tile, .is_empty = is_empty, .staging = staging_of_warp(s)};
  fetch_rows(s, &e);
  find_columns(s, &e);
  if (!e.column_scales.ptr && !moe__mm_scales_sums(s))
    e.column_scale = load_scale(s, &e, s->side[1], (MlirValue){NULL});
  for (int i = 0; i < columns_of_thread(s); i++)
    e.columns[i] = fetch_column(s, &e, i * MOE__MM_WARPGROUP);
  return e;
}

moe__mm_epilogue_t moe__mm_epilogue_below(moe__scaled_mm_t *s, const moe__mm_epilogue_t *first,
                                          const moe__mm_position_t *self) {
  moe__mm_epilogue_t e = *first;
  e.self = self;
  fetch_rows(s, &e);
  return e;
}

/* ---- Values of out ---- */

MlirValue moe__mm_load_pair(moe__scaled_mm_t *s, const moe__mm_epilogue_t *e, MlirValue columns,
                            int j) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue at = moe__shl(b, moe__and(b, e->self->lane, 3), moe__mm_is_direct(s) ? 5 : 3);
  return moe__load(b,
                   moe__offset_by(b, moe__offset(b, columns, at), 4 * moe__mm_column_of_pair(s, j)),
                   moe__vector_type(b, 2, b->f32));
}

void moe__mm_finish_pair(moe__scaled_mm_t *s, const moe__mm_epilogue_t *e, int j, MlirValue scales,
                         const moe__mm_fragment_t registers, MlirValue out[2][2]) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue biases = {NULL};
  if (e->column_scales.ptr && !scales.ptr)
    scales = moe__mm_load_pair(s, e, e->column_scales, j);
  if (e->column_bias.ptr)
    biases = moe__mm_load_pair(s, e, e->column_bias, j);
  for (int h = 0; h < 2; h++)
    for (int c = 0; c < 2; c++) {
      MlirValue of_row = e->row_scale[h];
      MlirValue of_column = scales.ptr ? moe__extract(b, scales, c) : e->column_scale;
      MlirValue sa = s->schedule.swap_operands ? of_column : of_row;
      MlirValue sb = s->schedule.swap_operands ? of_row : of_column;
      MlirValue x = registers[4 * j + 2 * h + c];
      if (!moe__mm_scales_sums(s))
        x = moe__fmul(b, sb, moe__fmul(b, sa, x));
      if (biases.ptr)
        x = moe__fadd(b, x, moe__extract(b, biases, c));
      else if (e->row_bias[h].ptr)
        x = moe__fadd(b, x, e->row_bias[h]);
      out[h][c] = x;
    }
}
