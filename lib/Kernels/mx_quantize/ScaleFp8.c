/* ScaleFp8.c - the kernel of mx_quantize.scale_fp8, scale_fp8_dual and scale_fp8_pair, the first
 * of two passes: it reads x, and finds the scales of slices that no CTA sees whole.
 *
 * A tile is some rows of one expert or group, a vector of 16 bytes wide for each lane of a warp.
 * A CTA finds the largest magnitudes of its columns, of its rows, or of the whole tile,
 * whatever there are scales for, and raises the maxima in `state` by atomics on their bits. Then
 * it counts itself there; the CTA that finds that it is the last one of a slice turns the
 * maxima into scales and leaves zeros, so that no launch has to clear anything.
 *
 * Two tensors with the same rows are one list of tiles: those of the second one lie behind those
 * of the first in each row of tiles, and a tile takes pointers and sizes of its tensor.
 *
 * Integer maxima have no order, so that the result is the same in every run.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/mx_quantize/ScaleFp8.h"

#include "lib/Builder/Inspect.h"
#include "lib/Device/Async.h"
#include "lib/Device/Warp.h"
#include "lib/Kernels/Kernels.h"
#include "lib/Kernels/Requirements.h"

#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/BuiltinTypes.h"

/* ---- The schedule ---- */

MOE__SCHEDULE_KIND(moe__scale_schedule, moe__scale_schedule_t, MOE__SCALE_SCHEDULE, "scales",
                   "scale_fp8, scale_fp8_dual, scale_fp8_pair");

/* 128 KB in flight per multiprocessor; tiles of 256 rows, so that there are few maxima to raise. */
static const moe__scale_schedule_t SCALE[] = {
    {.rows_per_warp = 16, .warps = 16, .ctas_per_sm = 1},
    {.rows_per_warp = 16, .warps = 16, .ctas_per_sm = 1, .band = 8},
    {.rows_per_warp = 16, .warps = 8, .ctas_per_sm = 2},
    {.rows_per_warp = 8, .warps = 16, .ctas_per_sm = 2},
    {.rows_per_warp = 8, .warps = 8, .ctas_per_sm = 4},
    {.rows_per_warp = 16, .warps = 4, .ctas_per_sm = 4},
};
/* Where rows are scaled too, a CTA has more to do with a tile, and two take turns. */
static const moe__scale_schedule_t SCALE_DUAL[] = {
    {.rows_per_warp = 16, .warps = 8, .ctas_per_sm = 2},
    {.rows_per_warp = 16, .warps = 8, .ctas_per_sm = 2, .band = 8},
    {.rows_per_warp = 16, .warps = 16, .ctas_per_sm = 1},
    {.rows_per_warp = 8, .warps = 16, .ctas_per_sm = 2},
    {.rows_per_warp = 8, .warps = 8, .ctas_per_sm = 4},
    {.rows_per_warp = 8, .warps = 8, .ctas_per_sm = 3},
};

static bool is_dual(MlirOperation op) {
  return moe__is(op, MOE__OP_SCALE_FP8_DUAL);
}

static bool is_pair(MlirOperation op) {
  return moe__is(op, MOE__OP_SCALE_FP8_PAIR);
}

static moe__candidates_t candidates(MlirOperation op) {
  return is_dual(op) ? MOE__CANDIDATES(SCALE_DUAL) : MOE__CANDIDATES(SCALE);
}

static bool lay_out(MlirOperation op, const void *schedule, void *out) {
  const moe__scale_schedule_t *s = schedule;
  moe__scale_layout_t *l = out;
  if (s->rows_per_warp & (s->rows_per_warp - 1))
    return moe__error(op, "'schedule.rows_per_warp' is %d; it must be a power of two",
                      s->rows_per_warp);
  l->cta.threads = s->warps * MOE__WARP;
  l->cta.ctas_per_sm = s->ctas_per_sm;
  l->cta.registers = moe__vector_registers(s->rows_per_warp); /* a vector of each row */
  l->partials = moe__layout_shared(&l->cta, s->warps * MOE__SCALE_ROW_BYTES, 16);
  l->flags = moe__layout_shared(&l->cta, is_dual(op) ? 8 : 4, 4);
  l->groups =
      moe__groups_reserve(&l->cta, moe__is_grouped(op) ? MOE_MAX_GROUPS : 0, MOE__GROUPS_IN_TURN);
  return true;
}

/* ---- What there is a kernel for ---- */

static bool reads(MlirOperation op, moe__role_t role) {
  MlirType x = moe__tensor_type(op, role);
  if (!moe__is_row_major(x))
    return moe__error(op, "the kernel takes %s row-major; remove its encoding",
                      moe__role_name(role));
  return moe__needs_multiple(op, role, (int)mlirShapedTypeGetRank(x) - 1,
                             MOE__VECTOR_BYTES / moe__elements_of(x, false).bytes);
}

static bool has_plain_kernel(MlirOperation op) {
  moe__granularity_t granularity = moe__op_granularity(op);
  MlirType x = moe__tensor_type(op, MOE__X);
  bool last = moe__op_integer(op, "axis") == mlirShapedTypeGetRank(x) - 1;
  if (granularity == MOE__1X128 || granularity == MOE__128X128 || (granularity == MOE__ROW && last))
    return moe__error(op, "granularity \"%s\" along axis %d takes one pass; use %s",
                      moe__granularity_name(granularity), (int)moe__op_integer(op, "axis"),
                      moe__op_id_name(MOE__OP_QUANTIZE_FP8));
  return reads(op, MOE__X);
}

static bool has_kernel(MlirOperation op) {
  if (is_pair(op))
    return moe__needs_one_element(op) && reads(op, MOE__X) && reads(op, MOE__Y);
  return is_dual(op) ? reads(op, MOE__X) : has_plain_kernel(op);
}

/* ---- Addresses ---- */

MlirValue moe__scale_pointer(moe__builder_t *b, MlirValue base, MlirValue index, int bytes) {
  return moe__offset(b, base, moe__mul(b, moe__zext(b, index, b->i64), bytes));
}

MlirValue moe__scale_first_cell(moe__scale_t *s, const moe__scale_output_t *output,
                                const moe__scale_part_t *part) {
  moe__builder_t *b = &s->kernel.builder;
  switch (output->slices) {
  case MOE__OF_COLUMNS:
    return moe__add(b, moe__mul(b, part->batch, part->tensor.columns), part->column);
  case MOE__OF_ROWS:
    return moe__add(b, part->first_row, part->row);
  case MOE__OF_WHOLE:
    break;
  }
  return s->granularity == MOE__TENSOR ? moe__i32(b, 0) : part->batch;
}

void moe__scale_for_columns(moe__scale_t *s, const moe__scale_output_t *output,
                            const moe__scale_part_t *part,
                            void (*visit)(moe__scale_t *s, const moe__scale_output_t *output,
                                          MlirValue cell, MlirValue column)) {
  moe__builder_t *b = &s->kernel.builder;
  for (int first = 0; first < s->tile_columns; first += s->kernel.layout.threads) {
    MlirValue column = moe__add(b, s->kernel.thread, first);
    MlirValue left = moe__sub(b, part->tensor.columns, part->column);
    MlirValue inside = moe__ult(b, column, moe__umin(b, left, s->tile_columns));
    MOE__IF (b, inside) {
      visit(s, output, moe__add(b, moe__scale_first_cell(s, output, part), column), column);
    }
  }
}

MlirValue moe__scale_is_thread(moe__scale_t *s, int32_t thread) {
  moe__builder_t *b = &s->kernel.builder;
  return moe__eq(b, s->kernel.thread, thread);
}

/* ---- The parts of a CTA ---- */

/* The tensor that the tile is of; *column, in tiles, then counts from its start. */
static moe__scale_tensor_t tensor_at(moe__scale_t *s, MlirValue *column) {
  moe__builder_t *b = &s->kernel.builder;
  const moe__scale_tensor_t *x = &s->tensors[0], *y = &s->tensors[1];
  if (s->tensor_count == 1)
    return *x;
  MlirValue is_first = moe__ult(b, *column, x->column_tiles);
  *column = moe__sub(b, *column, moe__select(b, is_first, 0, x->column_tiles));
  moe__scale_tensor_t tensor = {.x = moe__select(b, is_first, x->x, y->x),
                                .columns = moe__select(b, is_first, x->columns, y->columns),
                                .column_tiles =
                                    moe__select(b, is_first, x->column_tiles, y->column_tiles)};
  for (int i = 0; i < s->output_count; i++) {
    const moe__scale_output_t *of_x = &x->outputs[i], *of_y = &y->outputs[i];
    tensor.outputs[i] =
        (moe__scale_output_t){.slices = of_x->slices,
                              .scales = moe__select(b, is_first, of_x->scales, of_y->scales),
                              .factors = moe__select(b, is_first, of_x->factors, of_y->factors),
                              .state = moe__select(b, is_first, of_x->state, of_y->state),
                              .cells = moe__select(b, is_first, of_x->cells, of_y->cells),
                              .done = of_x->done};
  }
  return tensor;
}

static moe__scale_part_t part_at(moe__scale_t *s, MlirValue index) {
  moe__builder_t *b = &s->kernel.builder;
  if (s->grouped) {
    moe__group_tile_t tile = moe__groups_tile(&s->groups, index);
    MlirValue start, end;
    moe__groups_range(&s->groups, tile.group, &start, &end);
    moe__scale_tensor_t tensor = tensor_at(s, &tile.column);
    return (moe__scale_part_t){.tensor = tensor,
                               .batch = tile.group,
                               .first_row = moe__i32(b, 0),
                               .row = tile.row,
                               .row_end = tile.row_end,
                               .column = moe__mul(b, tile.column, s->tile_columns),
                               .siblings = moe__ceil_div(b, moe__sub(b, end, start), s->tile_rows)};
  }
  moe__tile_t tile = moe__tile_at(b, &s->tiles, index);
  moe__scale_tensor_t tensor = tensor_at(s, &tile.column);
  return (moe__scale_part_t){.tensor = tensor,
                             .batch = tile.batch,
                             .first_row = moe__mul(b, tile.batch, s->rows),
                             .row = moe__mul(b, tile.row, s->tile_rows),
                             .row_end = s->rows,
                             .column = moe__mul(b, tile.column, s->tile_columns),
                             .siblings = s->row_tiles};
}

static void scale_parts(moe__scale_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue warp = moe__lshr(b, s->kernel.thread, 5);
  MlirValue lane = moe__and(b, s->kernel.thread, MOE__WARP - 1);
  MlirValue total = s->grouped ? moe__groups_total(&s->groups) : s->tiles.total;
  MOE__FOR (b, index, s->kernel.cta, total, s->kernel.cta_count) {
    moe__scale_part_t part = part_at(s, index);
    moe__scale_amax(s, &part, warp, lane);
    moe__scale_count(s, &part);
    moe__scale_finish(s, &part);
  }
}

/* ---- The kernel ---- */

/* The results of a direction of a dual op, or of a tensor of a pair. */
typedef struct output_roles_t {
  moe__role_t scales, factors, state;
} output_roles_t;

static void add_output(moe__scale_t *s, MlirOperation op, moe__scale_output_t *output,
                       const output_roles_t *roles) {
  int state = moe__tensor_number(op, roles->state);
  output->scales = moe__kernel_pointer(&s->kernel, moe__tensor_number(op, roles->scales));
  output->factors = moe__kernel_pointer(&s->kernel, moe__tensor_number(op, roles->factors));
  output->state = moe__kernel_pointer(&s->kernel, state);
  moe__kernel_zeroed(&s->kernel, state);
}

static void add_outputs(moe__scale_t *s, MlirOperation op) {
  static const output_roles_t FIRST = {MOE__SCALES, MOE__FACTORS, MOE__STATE},
                              COLUMNS = {MOE__SCALES_T, MOE__FACTORS_T, MOE__STATE_T},
                              OF_Y = {MOE__SCALES_Y, MOE__FACTORS_Y, MOE__STATE_Y};
  for (int i = 0; i < s->tensor_count; i++)
    for (int j = 0; j < s->output_count; j++)
      add_output(s, op, &s->tensors[i].outputs[j], i ? &OF_Y : j ? &COLUMNS : &FIRST);
}

static void add_groups(moe__scale_t *s, MlirOperation op) {
  moe__kernel_t *kernel = &s->kernel;
  int offs = moe__tensor_number(op, MOE__OFFS);
  s->offs = moe__kernel_pointer(kernel, offs);
  s->status = moe__kernel_status(kernel);
  s->group_count = moe__kernel_extent(kernel, offs, 0, moe__tensor_type(op, MOE__OFFS));
  moe__require_groups(kernel, offs);
}

static void add_parameters(moe__scale_t *s, MlirOperation op) {
  static const moe__role_t XS[] = {MOE__X, MOE__Y};
  moe__kernel_t *kernel = &s->kernel;
  MlirType x_type = moe__tensor_type(op, MOE__X);
  int last = s->rank - 1, x = moe__tensor_number(op, MOE__X);
  for (int i = 0; i < s->tensor_count && i < MOE__SCALE_MAX_TENSORS; i++)
    s->tensors[i].x = moe__kernel_pointer(kernel, moe__tensor_number(op, XS[i]));
  if (s->grouped)
    add_groups(s, op);
  add_outputs(s, op);
  s->batches =
      s->rank == 3 ? moe__kernel_extent(kernel, x, 0, x_type).value : moe__i32(&kernel->builder, 1);
  s->rows = moe__kernel_extent(kernel, x, last - 1, x_type).value;
  for (int i = 0; i < s->tensor_count && i < MOE__SCALE_MAX_TENSORS; i++) {
    int number = moe__tensor_number(op, XS[i]);
    MlirType type = moe__tensor_type(op, XS[i]);
    s->tensors[i].columns = moe__kernel_extent(kernel, number, last, type).value;
    moe__kernel_require(kernel, number, last, MOE__MULTIPLE_OF,
                        MOE__VECTOR_BYTES / s->elements.bytes);
    moe__kernel_require(kernel, number, last, MOE__AT_LEAST, 1);
  }
  moe__require_shapes(kernel, op);
}

static MlirValue cells_of(moe__scale_t *s, const moe__scale_tensor_t *tensor,
                          moe__slices_t slices) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue batches = s->grouped ? s->group_count.value : s->batches;
  switch (slices) {
  case MOE__OF_COLUMNS:
    return moe__mul(b, batches, tensor->columns);
  case MOE__OF_ROWS:
    return moe__mul(b, s->batches, s->rows);
  case MOE__OF_WHOLE:
    break;
  }
  return s->granularity == MOE__TENSOR ? moe__i32(b, 1) : batches;
}

/* What does not change from tile to tile. */
static void set_up(moe__scale_t *s) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  s->row_tiles = moe__ceil_div(b, s->rows, s->tile_rows);
  for (int i = 0; i < s->tensor_count; i++)
    s->tensors[i].column_tiles = moe__ceil_div(b, s->tensors[i].columns, s->tile_columns);
  MlirValue column_tiles = s->tensors[0].column_tiles;
  if (s->tensor_count == 2)
    column_tiles = moe__add(b, column_tiles, s->tensors[1].column_tiles);
  for (int i = 0; i < s->tensor_count; i++)
    for (int j = 0; j < s->output_count; j++) {
      moe__scale_output_t *output = &s->tensors[i].outputs[j];
      output->cells = cells_of(s, &s->tensors[i], output->slices);
      output->done = moe__offset_by(b, kernel->shared, s->layout.flags + 4 * j);
    }
  if (!s->grouped) {
    s->tiles = moe__tiles_create(b, s->batches, s->row_tiles, column_tiles, s->schedule.band);
    return;
  }
  s->groups = moe__groups_create(kernel, &s->layout.groups, s->group_count.value, s->tile_rows,
                                 column_tiles, s->schedule.band);
  moe__groups_initialize_by_cta(&s->groups, s->offs, s->rows, s->status);
}

/* What is scaled. */
static void set_outputs(moe__scale_t *s, MlirOperation op) {
  s->granularity = is_dual(op) || is_pair(op) ? MOE__ROW : moe__op_granularity(op);
  s->tensor_count = is_pair(op) ? 2 : 1;
  s->output_count = is_dual(op) ? 2 : 1;
  moe__slices_t slices = s->granularity == MOE__ROW ? MOE__OF_COLUMNS : MOE__OF_WHOLE;
  for (int i = 0; i < s->tensor_count; i++)
    s->tensors[i].outputs[s->output_count - 1].slices = slices;
  if (is_dual(op))
    s->tensors[0].outputs[0].slices = MOE__OF_ROWS;
}

static bool lower(const moe__lowering_t *lowering) {
  MlirOperation op = lowering->op;
  const moe__scale_layout_t *layout = lowering->layout;
  const moe__scale_schedule_t *schedule = lowering->schedule;
  moe__scale_t kernel_of_op = {.schedule = *schedule, .layout = *layout}, *s = &kernel_of_op;
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  MlirType x_type = moe__tensor_type(op, MOE__X);
  set_outputs(s, op);
  s->elements = moe__elements_of(x_type, moe__op_bool(op, "sanitize"));
  if (!moe__fp8_from_name(moe__op_string(op, "element"), &s->element))
    return false;
  s->pow2 = moe__op_bool(op, "pow2");
  s->rank = (int)mlirShapedTypeGetRank(x_type);
  s->grouped = moe__is_grouped(op);
  s->tile_rows = s->schedule.warps * s->schedule.rows_per_warp;
  s->tile_columns = MOE__SCALE_ROW_BYTES / s->elements.bytes;
  moe__lowering_begin(lowering, kernel);
  add_parameters(s, op);
  moe__kernel_prologue(kernel);
  moe__kernel_await_launches(kernel);
  set_up(s);
  scale_parts(s);
  moe__grid_launch_dependents(b);
  moe__scale_fill_empty(s);
  moe__lowering_end(lowering, kernel,
                    moe__expression_resident(&kernel->record, s->schedule.ctas_per_sm));
  return true;
}

const moe__kernel_definition_t moe__scale_fp8_kernel = {
    .ops = {MOE__OP_SCALE_FP8, MOE__OP_SCALE_FP8_DUAL, MOE__OP_SCALE_FP8_PAIR},
    .has_kernel = has_kernel,
    .schedule = &moe__scale_schedule,
    .candidates = candidates,
    .layout_size = sizeof(moe__scale_layout_t),
    .layout = lay_out,
    .lower = lower,
};
