/* MoveGroups.c - the kernels of mx_quantize.pad_groups and mx_quantize.unpad_groups: the rows of
 * groups are moved so that each starts at a multiple of `align`, and back.
 *
 * Why one file: both copy rows from where one table of the groups says to where the other does.
 * Rows are cut into pieces; a warp takes a piece at a time, loads all of it and stores it. Which
 * group its row is in, and hence where it comes from, it finds by a binary search, while other
 * warps' pieces are under way. Everything is known on the device only.
 *
 * Tiles of `align` rows (Groups.h) are what makes the padded offsets: a group of t tiles has t *
 * align padded rows.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
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

/* ---- The schedule ---- */

MOE__SCHEDULE_KIND(moe__move_schedule, moe__move_schedule_t, MOE__MOVE_SCHEDULE, "move",
                   "pad_groups, unpad_groups");

/* Pieces of 1 KB: of most rows none is left over. CTAs end with a piece for each warp, so that
 * others load while one stores. */
static const moe__move_schedule_t MOVE[] = {
    {.vectors = 2, .ctas_per_sm = 6},
    {.vectors = 4, .ctas_per_sm = 5},
    {.vectors = 8, .ctas_per_sm = 4},
    {.vectors = 4, .ctas_per_sm = 5, .persistent = 1},
    {.vectors = 8, .ctas_per_sm = 4, .persistent = 1},
    {.vectors = 2, .ctas_per_sm = 5, .persistent = 1},
};

static moe__candidates_t candidates(MlirOperation op) {
  (void)op;
  return MOE__CANDIDATES(MOVE);
}

static bool is_unpad(MlirOperation op) {
  return moe__is(op, MOE__OP_UNPAD_GROUPS);
}

/* The tensor whose rows are moved, and the one that they go to. */
static moe__role_t from_role(MlirOperation op) {
  return is_unpad(op) ? MOE__PADDED : MOE__X;
}

static moe__role_t to_role(MlirOperation op) {
  return is_unpad(op) ? MOE__X : MOE__PADDED;
}

typedef struct move_layout_t {
  moe__layout_t cta;
  moe__groups_layout_t groups, padded_groups; /* the latter of unpad_groups */
} move_layout_t;

static bool lay_out(MlirOperation op, const void *schedule, void *out) {
  const moe__move_schedule_t *s = schedule;
  move_layout_t *l = out;
  l->cta.threads = s->warps * MOE__WARP;
  l->cta.ctas_per_sm = s->ctas_per_sm;
  l->cta.registers = moe__vector_registers(s->vectors);
  l->groups = moe__groups_reserve(&l->cta, moe__max_groups(op), MOE__GROUPS_IN_TURN);
  if (is_unpad(op))
    l->padded_groups = moe__groups_reserve(&l->cta, moe__max_groups(op), MOE__GROUPS_IN_TURN);
  return true;
}

/* ---- The kernel under construction ---- */

typedef struct move_t {
  moe__kernel_t kernel;
  moe__move_schedule_t schedule;
  move_layout_t layout;
  bool unpad;
  int align;
  int element_bytes;
  moe__extent_t rows, columns, padded_rows, group_count;
  MlirValue from, offs, padded_offs, to, status;
  moe__groups_t groups;          /* of x, in tiles of `align` rows */
  moe__groups_t padded_groups;   /* of unpad_groups: by padded_offs */
  MlirValue row_vectors, pieces; /* i32: of MOE__VECTOR_BYTES in a row; pieces of a row */
  MlirValue lane;
} move_t;

/* Where a row comes from; where `exists` is not set, it is zero. */
typedef struct source_t {
  MlirValue row, exists; /* i32, i1 */
} source_t;

/* Row `row` of the padded tensor: a row of its group, or one that was added behind it. */
static source_t source_of_padded(move_t *s, MlirValue row) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue align = moe__i32(b, s->align);
  MlirValue group = moe__groups_find_tile(&s->groups, moe__udiv(b, row, align));
  MlirValue first_tile = {NULL}, tile_end = {NULL}, start = {NULL}, end = {NULL};
  moe__groups_tile_range(&s->groups, group, &first_tile, &tile_end);
  moe__groups_range(&s->groups, group, &start, &end);
  MlirValue in_group = moe__sub(b, row, moe__mul(b, first_tile, align));
  MlirValue exists = moe__ult(b, in_group, moe__sub(b, end, start));
  return (source_t){moe__add(b, start, moe__select(b, exists, in_group, 0)), exists};
}

/* Row `row` of x, which is in a group: offsets that do not belong together may lead outside. */
static source_t source_of_unpadded(move_t *s, MlirValue row) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue group = moe__groups_find(&s->groups, row);
  MlirValue start = {NULL}, end = {NULL}, padded_start = {NULL}, padded_end = {NULL};
  moe__groups_range(&s->groups, group, &start, &end);
  moe__groups_range(&s->padded_groups, group, &padded_start, &padded_end);
  MlirValue from = moe__add(b, padded_start, moe__sub(b, row, start));
  MlirValue exists = moe__ult(b, from, s->padded_rows.value);
  return (source_t){moe__select(b, exists, from, 0), exists};
}

static MlirValue vector_address(move_t *s, MlirValue base, MlirValue row, MlirValue vector) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue index =
      moe__add(b, moe__mul(b, moe__zext(b, row, b->i64), moe__zext(b, s->row_vectors, b->i64)),
               moe__zext(b, vector, b->i64));
  return moe__offset(b, base, moe__shl(b, index, 4));
}

/* One piece of a row: `first` is this lane's first vector of it. */
static void move_piece(move_t *s, MlirValue row, const source_t *source, MlirValue first) {
  moe__builder_t *b = &s->kernel.builder;
  MlirType type = moe__vector_type(b, MOE__VECTOR_WORDS, b->i32);
  MlirValue zero = moe__i32(b, 0);
  MlirValue zeros = moe__vector(b, MOE__VECTOR_WORDS, (MlirValue[]){zero, zero, zero, zero});
  MlirValue last = moe__sub(b, s->row_vectors, 1);
  MlirValue loaded[MOE__MAX_VECTORS], index[MOE__MAX_VECTORS];
  for (int i = 0; i < s->schedule.vectors; i++) {
    index[i] = moe__add(b, first, i * MOE__WARP);
    /* Past the end the last vector is loaded once more: no load depends on a branch. */
    loaded[i] =
        moe__load_aligned(b, vector_address(s, s->from, source->row, moe__umin(b, index[i], last)),
                          type, MOE__VECTOR_BYTES);
  }
  for (int i = 0; i < s->schedule.vectors; i++) {
    MOE__IF (b, moe__ult(b, index[i], s->row_vectors)) {
      moe__store_aligned(b, moe__select(b, source->exists, loaded[i], zeros),
                         vector_address(s, s->to, row, index[i]), MOE__VECTOR_BYTES);
    }
  }
}

/* Rows of `to` that are written. */
static MlirValue written_rows(move_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  if (s->unpad)
    return moe__groups_end(&s->groups);
  /* One column of tiles. */
  return moe__mul(b, moe__groups_total(&s->groups), s->align);
}

static void move_rows(move_t *s) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  MlirValue warp =
      moe__add(b, moe__mul(b, kernel->cta, s->schedule.warps), moe__lshr(b, kernel->thread, 5));
  MlirValue warps = moe__mul(b, kernel->cta_count, s->schedule.warps);
  s->lane = moe__and(b, kernel->thread, MOE__WARP - 1);
  /* There may be more pieces than an i32 counts. */
  MlirValue pieces = moe__zext(b, s->pieces, b->i64);
  MlirValue total = moe__mul(b, moe__zext(b, written_rows(s), b->i64), pieces);
  MlirValue first = moe__zext(b, warp, b->i64);
  MOE__FOR_OR_ONCE (b, s->schedule.persistent, index, first, total, moe__zext(b, warps, b->i64)) {
    MlirValue row = moe__trunc(b, moe__udiv(b, index, pieces), b->i32);
    MlirValue piece = moe__trunc(b, moe__urem(b, index, pieces), b->i32);
    source_t source = (s->unpad ? source_of_unpadded : source_of_padded)(s, row);
    MlirValue in_row = moe__add(b, moe__mul(b, piece, s->schedule.vectors * MOE__WARP), s->lane);
    move_piece(s, row, &source, in_row);
  }
}

/* The first CTA writes the padded ends. */
static void store_padded_offs(move_t *s) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  MOE__IF (b, moe__eq(b, kernel->cta, 0)) {
    MOE__FOR (b, index, kernel->thread, s->groups.count, kernel->layout.threads) {
      MlirValue first_tile = {NULL}, tile_end = {NULL};
      moe__groups_tile_range(&s->groups, index, &first_tile, &tile_end);
      MlirValue offset = moe__shl(b, moe__zext(b, index, b->i64), 2);
      moe__store(b, moe__mul(b, tile_end, s->align), moe__offset(b, s->padded_offs, offset));
    }
  }
}

/* ---- The kernel ---- */

static bool has_kernel(MlirOperation op) {
  MlirType from = moe__tensor_type(op, from_role(op));
  if (!moe__is_row_major(from) || !moe__is_row_major(moe__tensor_type(op, to_role(op))))
    return moe__error(op, "the kernel takes x and padded row-major; remove their encoding");
  return moe__needs_multiple(op, from_role(op), 1,
                             MOE__VECTOR_BYTES / moe__tensor_element_bytes(op, from_role(op)));
}

static void add_parameters(move_t *s, MlirOperation op) {
  moe__kernel_t *kernel = &s->kernel;
  int from_number = moe__tensor_number(op, from_role(op)),
      to_number = moe__tensor_number(op, to_role(op)),
      offs_number = moe__tensor_number(op, MOE__OFFS);
  MlirType from = moe__tensor_type(op, from_role(op));
  MlirType offs = moe__tensor_type(op, MOE__OFFS);
  s->columns = moe__kernel_extent(kernel, from_number, 1, from);
  s->group_count = moe__kernel_extent(kernel, offs_number, 0, offs);
  s->rows = moe__kernel_extent(kernel, from_number, 0, from);
  /* x of unpad_groups has as many rows as padded. Those of a result of pad_groups are a
   * parameter so that a launcher sees whether they can be counted. */
  s->padded_rows =
      s->unpad ? s->rows
               : moe__kernel_extent(kernel, to_number, 0, moe__tensor_type(op, to_role(op)));
  s->from = moe__kernel_pointer(kernel, from_number);
  s->offs = moe__kernel_pointer(kernel, offs_number);
  s->padded_offs = moe__kernel_pointer(kernel, moe__tensor_number(op, MOE__PADDED_OFFS));
  s->to = moe__kernel_pointer(kernel, to_number);
  s->status = moe__kernel_status(kernel);
  moe__kernel_require(kernel, from_number, 1, MOE__MULTIPLE_OF,
                      MOE__VECTOR_BYTES / s->element_bytes);
  moe__require_groups(kernel, offs_number);
  moe__require_shapes(kernel, op);
}

/* CTAs for all pieces, as many as are resident; at least one, which writes the offsets. */
static const moe__expression_t *grid_expression(move_t *s) {
  moe__record_t *record = &s->kernel.record;
  int piece = s->schedule.vectors * MOE__WARP * MOE__VECTOR_BYTES / s->element_bytes;
  const moe__expression_t *pieces = moe__expression_ceildiv(record, s->columns.expression, piece);
  const moe__expression_t *all =
      moe__expression_mul(record, MOE__EXPRESSIONS(s->padded_rows.expression, pieces));
  const moe__expression_t *ctas = moe__expression_ceildiv(record, all, s->schedule.warps);
  if (!s->unpad)
    ctas = moe__expression_add(record, MOE__EXPRESSIONS(ctas, moe__expression_constant(record, 1)));
  return moe__expression_ctas(record, ctas, s->schedule.persistent, s->schedule.ctas_per_sm);
}

/* The tables, by one warp. */
static void initialize_groups(move_t *s) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  MlirValue one = moe__i32(b, 1);
  s->groups = moe__groups_create(kernel, &s->layout.groups, s->group_count.value, s->align, one, 1);
  if (s->unpad)
    s->padded_groups = moe__groups_create(kernel, &s->layout.padded_groups, s->group_count.value,
                                          s->align, one, 1);
  MOE__IF (b, moe__ult(b, kernel->thread, MOE__WARP)) {
    moe__groups_initialize(&s->groups, s->offs, s->rows.value, kernel->thread, s->status);
    if (s->unpad)
      moe__groups_initialize(&s->padded_groups, s->padded_offs, s->rows.value, kernel->thread,
                             s->status);
  }
  moe__cta_barrier(b);
}

static bool lower(const moe__lowering_t *lowering) {
  MlirOperation op = lowering->op;
  const move_layout_t *layout = lowering->layout;
  const moe__move_schedule_t *schedule = lowering->schedule;
  move_t s = {.schedule = *schedule,
              .layout = *layout,
              .unpad = is_unpad(op),
              .align = (int)moe__op_integer(op, "align"),
              .element_bytes = moe__tensor_element_bytes(op, from_role(op))};
  moe__kernel_t *kernel = &s.kernel;
  moe__builder_t *b = &kernel->builder;
  moe__lowering_begin(lowering, kernel);
  add_parameters(&s, op);
  moe__kernel_prologue(kernel);
  moe__kernel_await_launches(kernel);
  initialize_groups(&s);
  s.row_vectors = moe__udiv(b, s.columns.value, MOE__VECTOR_BYTES / s.element_bytes);
  s.pieces = moe__ceil_div(b, s.row_vectors, s.schedule.vectors * MOE__WARP);
  if (!s.unpad)
    store_padded_offs(&s);
  move_rows(&s);
  moe__lowering_end(lowering, kernel, grid_expression(&s));
  return true;
}

const moe__kernel_definition_t moe__move_groups_kernel = {
    .ops = {MOE__OP_PAD_GROUPS, MOE__OP_UNPAD_GROUPS},
    .has_kernel = has_kernel,
    .schedule = &moe__move_schedule,
    .candidates = candidates,
    .layout_size = sizeof(move_layout_t),
    .layout = lay_out,
    .lower = lower,
};
