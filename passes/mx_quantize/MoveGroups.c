/* MoveGroups.c - the kernels of mx_quantize.pad_groups and mx_quantize.unpad_groups: the rows of groups
 * are moved so that each starts at a multiple of `align`, and back.
 *
 * Why one file: both copy rows from where one table of the groups says to where the other does. Rows
 * are cut into pieces; a warp takes a piece at a time, loads all of it and stores it. Which group its
 * row is in, and hence where it comes from, it finds by a binary search, while other warps' pieces
 * are under way. Everything is known on the device only.
 *
 * Tiles of `align` rows (Groups.h) are what makes the padded offsets: a group of t tiles has t * align
 * padded rows.
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

#define VECTOR_BYTES 16
#define VECTOR_WORDS 4

/* The ops' tensors, by their number in the kernel's record. */
enum { FROM, OFFS, PADDED, PADDED_OFFS };     /* of pad_groups */
enum { UNPAD_PADDED_OFFS = 2, UNPAD_TO = 3 }; /* of unpad_groups, after FROM and OFFS */

typedef struct move_t {
  moe__kernel_t kernel;
  moe__move_schedule_t schedule;
  bool unpad;
  int align, max_groups;
  int element_bytes;
  moe__extent_t rows, columns, padded_rows, group_count;
  MlirValue from, offs, padded_offs, to, status;
  moe__groups_t groups;          /* of x, in tiles of `align` rows */
  moe__groups_t padded_groups;   /* of unpad_groups: by padded_offs */
  MlirValue row_vectors, pieces; /* i32: of VECTOR_BYTES in a row; pieces of a row */
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
  return (source_t){moe__add(b, start, moe__select(b, exists, in_group, moe__i32(b, 0))), exists};
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
  return (source_t){moe__select(b, exists, from, moe__i32(b, 0)), exists};
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
  MlirType type = moe__vector_type(b, VECTOR_WORDS, b->i32);
  MlirValue zero = moe__i32(b, 0);
  MlirValue zeros = moe__vector(b, VECTOR_WORDS, (MlirValue[]){zero, zero, zero, zero});
  MlirValue last = moe__sub(b, s->row_vectors, moe__i32(b, 1));
  MlirValue loaded[16], index[16];
  for (int i = 0; i < s->schedule.vectors; i++) {
    index[i] = moe__add(b, first, moe__i32(b, i * MOE__WARP));
    /* Past the end the last vector is loaded once more: no load depends on a branch. */
    loaded[i] =
        moe__load_aligned(b, vector_address(s, s->from, source->row, moe__umin(b, index[i], last)),
                          type, VECTOR_BYTES);
  }
  for (int i = 0; i < s->schedule.vectors; i++) {
    moe__if_t inside = moe__if_begin(b, moe__ult(b, index[i], s->row_vectors), false);
    moe__store_aligned(b, moe__select(b, source->exists, loaded[i], zeros),
                       vector_address(s, s->to, row, index[i]), VECTOR_BYTES);
    moe__if_end(b, &inside);
  }
}

/* Rows of `to` that are written. */
static MlirValue written_rows(move_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  if (s->unpad)
    return moe__groups_end(&s->groups);
  /* One column of tiles. */
  return moe__mul(b, moe__groups_total(&s->groups), moe__i32(b, s->align));
}

static void move_rows(move_t *s) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  MlirValue warp = moe__add(b, moe__mul(b, kernel->block, moe__i32(b, s->schedule.warps)),
                            moe__lshr(b, kernel->thread, 5));
  MlirValue warps = moe__mul(b, kernel->block_count, moe__i32(b, s->schedule.warps));
  MlirValue lane = moe__and(b, kernel->thread, moe__i32(b, MOE__WARP - 1));
  /* There may be more pieces than an i32 counts. */
  MlirValue pieces = moe__zext(b, s->pieces, b->i64);
  MlirValue total = moe__mul(b, moe__zext(b, written_rows(s), b->i64), pieces);
  moe__for_t loop =
      moe__for_begin(b, moe__zext(b, warp, b->i64), total, moe__zext(b, warps, b->i64), 0, NULL);
  MlirValue row = moe__trunc(b, moe__udiv(b, loop.index, pieces), b->i32);
  MlirValue piece = moe__trunc(b, moe__urem(b, loop.index, pieces), b->i32);
  source_t source = (s->unpad ? source_of_unpadded : source_of_padded)(s, row);
  MlirValue first =
      moe__add(b, moe__mul(b, piece, moe__i32(b, s->schedule.vectors * MOE__WARP)), lane);
  move_piece(s, row, &source, first);
  moe__for_end(b, &loop, NULL);
}

/* The first block writes the padded ends. */
static void store_padded_offs(move_t *s) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  moe__if_t first = moe__if_begin(b, moe__eq(b, kernel->block, moe__i32(b, 0)), false);
  moe__for_t loop =
      moe__for_begin(b, kernel->thread, s->groups.count, moe__i32(b, kernel->threads), 0, NULL);
  MlirValue first_tile = {NULL}, tile_end = {NULL};
  moe__groups_tile_range(&s->groups, loop.index, &first_tile, &tile_end);
  MlirValue offset = moe__shl(b, moe__zext(b, loop.index, b->i64), 2);
  moe__store(b, moe__mul(b, tile_end, moe__i32(b, s->align)),
             moe__offset(b, s->padded_offs, offset));
  moe__for_end(b, &loop, NULL);
  moe__if_end(b, &first);
}

/* ---- The kernel ---- */

static int element_bytes(MlirType tensor) {
  MlirType element = mlirShapedTypeGetElementType(tensor);
  return mlirTypeIsAF32(element) ? 4 : mlirTypeIsABF16(element) ? 2 : 1;
}

static bool has_kernel(MlirOperation op) {
  MlirType from = mlirValueGetType(mlirOperationGetOperand(op, FROM));
  bool unpad = mlirOperationGetNumResults(op) == 1;
  if (!moe__is_row_major(from) ||
      !moe__is_row_major(mlirValueGetType(mlirOperationGetResult(op, 0))))
    return moe__error(op, "the kernel takes x and padded row-major; remove their encoding");
  return moe__needs_multiple(op, unpad ? "padded" : "x", from, 1,
                             VECTOR_BYTES / element_bytes(from));
}

bool moe__pad_groups_has_kernel(MlirOperation op) {
  return has_kernel(op);
}

bool moe__unpad_groups_has_kernel(MlirOperation op) {
  return has_kernel(op);
}

static void add_parameters(move_t *s, MlirOperation op) {
  moe__kernel_t *kernel = &s->kernel;
  MlirType from = mlirValueGetType(mlirOperationGetOperand(op, FROM));
  MlirType offs = mlirValueGetType(mlirOperationGetOperand(op, OFFS));
  s->columns = moe__kernel_extent(kernel, FROM, 1, from);
  s->group_count = moe__kernel_extent(kernel, OFFS, 0, offs);
  s->rows = moe__kernel_extent(kernel, FROM, 0, from);
  /* x of unpad_groups has as many rows as padded. Those of a result of pad_groups are a parameter so
   * that a launcher sees whether they can be counted. */
  s->padded_rows = s->unpad ? s->rows
                            : moe__kernel_extent(kernel, PADDED, 0,
                                                 mlirValueGetType(mlirOperationGetResult(op, 0)));
  s->from = moe__kernel_pointer(kernel, FROM);
  s->offs = moe__kernel_pointer(kernel, OFFS);
  s->padded_offs = moe__kernel_pointer(kernel, s->unpad ? UNPAD_PADDED_OFFS : PADDED_OFFS);
  s->to = moe__kernel_pointer(kernel, s->unpad ? UNPAD_TO : PADDED);
  s->status = moe__kernel_status(kernel);
  moe__kernel_require(kernel, FROM, 1, "multiple_of", VECTOR_BYTES / s->element_bytes);
  moe__kernel_require(kernel, OFFS, 0, "at_least", 1);
  moe__kernel_require(kernel, OFFS, 0, "at_most", MOE__MAX_GROUPS);
  if (s->unpad)
    moe__kernel_require_same(kernel, OFFS, 0, UNPAD_PADDED_OFFS, 0);
}

/* Blocks for all pieces, as far as they are resident; at least one, which writes the offsets. */
static void grid_expression(const move_t *s, char *out) {
  char pieces[MOE__EXPRESSION_SIZE], all[MOE__EXPRESSION_SIZE], blocks[MOE__EXPRESSION_SIZE],
      some[MOE__EXPRESSION_SIZE];
  int piece = s->schedule.vectors * MOE__WARP * VECTOR_BYTES / s->element_bytes;
  moe__expression_ceildiv(pieces, s->columns.expression, piece);
  moe__expression_mul(all, 2, (const char *[]){s->padded_rows.expression, pieces});
  moe__expression_ceildiv(blocks, all, s->schedule.warps);
  moe__expression_add(some, 2, (const char *[]){blocks, "1"});
  moe__expression_persistent(out, s->unpad ? blocks : some, s->schedule.blocks_per_sm);
}

/* The tables, by one warp. */
static void initialize_groups(move_t *s) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  MlirValue one = moe__i32(b, 1);
  s->groups = moe__groups_create(kernel, s->max_groups, s->group_count.value, s->align, one, 1);
  if (s->unpad)
    s->padded_groups =
        moe__groups_create(kernel, s->max_groups, s->group_count.value, s->align, one, 1);
  moe__if_t scan = moe__if_begin(b, moe__ult(b, kernel->thread, moe__i32(b, MOE__WARP)), false);
  moe__groups_initialize(&s->groups, s->offs, s->rows.value, kernel->thread, s->status);
  if (s->unpad)
    moe__groups_initialize(&s->padded_groups, s->padded_offs, s->rows.value, kernel->thread,
                           s->status);
  moe__if_end(b, &scan);
  moe__block_barrier(b);
}

static bool lower(MlirOperation function, MlirOperation op, MlirBlock gpu_module_body) {
  move_t s = {.unpad = mlirOperationGetNumResults(op) == 1,
              .align = (int)moe__op_integer(op, "align"),
              .max_groups = moe__max_groups(op, OFFS),
              .element_bytes = element_bytes(mlirValueGetType(mlirOperationGetOperand(op, FROM)))};
  if (!has_kernel(op) || /* its schedule may have been written by hand */
      !moe__move_schedule_read(op, s.max_groups, &s.schedule))
    return false;
  moe__kernel_t *kernel = &s.kernel;
  moe__builder_t *b = &kernel->builder;
  moe__kernel_begin(kernel, mlirOperationGetContext(op), mlirOperationGetLocation(op),
                    s.schedule.warps * MOE__WARP, s.schedule.blocks_per_sm);
  add_parameters(&s, op);
  moe__kernel_prologue(kernel);
  moe__kernel_await_launches(kernel);
  initialize_groups(&s);
  s.row_vectors = moe__udiv(b, s.columns.value, moe__i32(b, VECTOR_BYTES / s.element_bytes));
  s.pieces = moe__ceil_div(b, s.row_vectors, s.schedule.vectors * MOE__WARP);
  if (!s.unpad)
    store_padded_offs(&s);
  move_rows(&s);
  char grid[MOE__EXPRESSION_SIZE];
  grid_expression(&s, grid);
  moe__kernel_end(kernel, gpu_module_body, moe__symbol(function),
                  (const char *const[]){grid, "1", "1"});
  return true;
}

bool moe__lower_pad_groups(MlirOperation function, MlirOperation op, MlirBlock gpu_module_body) {
  return lower(function, op, gpu_module_body);
}

bool moe__lower_unpad_groups(MlirOperation function, MlirOperation op, MlirBlock gpu_module_body) {
  return lower(function, op, gpu_module_body);
}
