/* Dequantize.c - the kernels of mx_quantize.dequantize and mx_quantize.dequantize_fp8: each element
 * times its scale, rounded once.
 *
 * Why both are here: they differ in where the scale of an element is, and in nothing else. There are
 * two bodies, one for each memory order of q.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "passes/mx_quantize/Dequantize.h"

#include "lib/Kernel/Async.h"
#include "lib/Kernel/Warp.h"
#include "passes/Lowering.h"

#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/BuiltinTypes.h"

#include <stdio.h>

#define MX_BLOCK 32
#define FP8_BLOCK 128
#define MULTIPLE 16 /* of K, and of N where q is column-major: 16 bytes of q */

/* The op's tensors, by their number in the kernel's record; the rest are offs, where it is there, and
 * x. */
enum { Q, SCALES, OFFS };

/* ---- Scales ---- */

/* x * y + z in i64, of i32 values. */
static MlirValue mul_add(moe__builder_t *b, MlirValue x, MlirValue y, MlirValue z) {
  return moe__add(b, moe__mul(b, moe__zext(b, x, b->i64), moe__zext(b, y, b->i64)),
                  moe__zext(b, z, b->i64));
}

/* x * y + z in i64, where x is one already. */
static MlirValue mul_add64(moe__builder_t *b, MlirValue x, MlirValue y, MlirValue z) {
  return moe__add(b, moe__mul(b, x, moe__zext(b, y, b->i64)), moe__zext(b, z, b->i64));
}

/* Whether each column has a scale of its own. */
static bool has_column_scales(const moe__dequantize_t *s) {
  return s->column_major && (s->mx || s->granularity == MOE__ROW);
}

/* Number of the scale in memory, i64; of the first column's where each has one. */
static MlirValue scale_index(moe__dequantize_t *s, const moe__place_t *at) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue n = s->n.value, k = s->k.value;
  if (s->mx && s->column_major) {
    MlirValue blocks = moe__udiv(b, n, moe__i32(b, MX_BLOCK));
    return mul_add64(b, mul_add(b, at->expert, blocks, moe__lshr(b, at->row, 5)), k, at->column);
  }
  if (s->mx)
    return mul_add64(b, mul_add(b, at->expert, n, at->row), moe__udiv(b, k, moe__i32(b, MX_BLOCK)),
                     moe__lshr(b, at->column, 5));
  switch (s->granularity) {
  case MOE__ROW:
    if (s->column_major)
      return mul_add(b, s->grouped ? at->group : at->expert, k, at->column);
    return mul_add(b, at->expert, n, at->row);
  case MOE__TENSOR:
    return moe__i64(b, 0);
  case MOE__EXPERT:
    return moe__zext(b, at->expert, b->i64);
  case MOE__GROUP:
    return moe__zext(b, at->group, b->i64);
  case MOE__1X128:
    return mul_add(b, at->row, moe__ceil_div(b, k, FP8_BLOCK), moe__lshr(b, at->column, 7));
  case MOE__128X128:
    return mul_add64(
        b, mul_add(b, at->expert, moe__ceil_div(b, n, FP8_BLOCK), moe__lshr(b, at->row, 7)),
        moe__ceil_div(b, k, FP8_BLOCK), moe__lshr(b, at->column, 7));
  }
  __builtin_unreachable();
}

/* The scales of consecutive columns: of E8M0 in one load, of f32 in loads of 16 bytes. */
static void load_column_scales(moe__dequantize_t *s, MlirValue address,
                               MlirValue out[MOE__MAX_COLUMNS]) {
  moe__builder_t *b = &s->kernel.builder;
  if (s->mx) {
    MlirValue bytes =
        moe__load_aligned(b, address, moe__vector_type(b, s->columns, b->i8), s->columns);
    for (int i = 0; i < s->columns; i++)
      out[i] = moe__e8m0_value(b, moe__zext(b, moe__extract(b, bytes, i), b->i32));
    return;
  }
  for (int i = 0; i < s->columns; i++) {
    if (i % 4 == 0)
      out[i] = moe__load_aligned(b, moe__offset_by(b, address, 4 * i),
                                 moe__vector_type(b, 4, b->f32), 16);
    else
      out[i] = out[i - i % 4];
  }
  for (int i = s->columns - 1; i >= 0; i--)
    out[i] = moe__extract(b, out[i], i % 4);
}

void moe__dequantize_scales(moe__dequantize_t *s, const moe__place_t *at,
                            MlirValue out[MOE__MAX_COLUMNS]) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue index = scale_index(s, at);
  MlirValue address = moe__offset(b, s->scales, s->mx ? index : moe__shl(b, index, 2));
  if (has_column_scales(s)) {
    load_column_scales(s, address, out);
    return;
  }
  out[0] = s->mx ? moe__e8m0_value(b, moe__zext(b, moe__load(b, address, b->i8), b->i32))
                 : moe__load(b, address, b->f32);
  for (int i = 1; i < s->columns; i++)
    out[i] = out[0];
}

/* ---- What the bodies share ---- */

MlirValue moe__dequantize_offset(moe__dequantize_t *s, MlirValue expert, MlirValue row,
                                 MlirValue column) {
  moe__builder_t *b = &s->kernel.builder;
  return mul_add64(b, mul_add(b, expert, s->n.value, row), s->k.value, column);
}

void moe__dequantize_store(moe__dequantize_t *s, const MlirValue values[MOE__MAX_COLUMNS],
                           const MlirValue scales[MOE__MAX_COLUMNS], MlirValue offset) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue words[MOE__VECTOR_BYTES / 4];
  for (int i = 0; i < MOE__VECTOR_BYTES / 4; i++) {
    MlirValue products[2];
    for (int j = 0; j < s->elements.per_word; j++) {
      int column = i * s->elements.per_word + j;
      products[j] = moe__fmul(b, values[column], scales[column]);
    }
    words[i] = moe__word_of(b, &s->elements, products);
  }
  MlirValue bytes = moe__mul(b, offset, moe__i64(b, s->elements.bytes));
  moe__store(b, moe__vector(b, MOE__VECTOR_BYTES / 4, words), moe__offset(b, s->x, bytes));
}

void moe__dequantize_groups(moe__dequantize_t *s) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  moe__if_t scan = moe__if_begin(b, moe__ult(b, kernel->thread, moe__i32(b, MOE__WARP)), false);
  moe__groups_initialize(&s->groups, s->offs, s->n.value, kernel->thread, s->status);
  moe__if_end(b, &scan);
}

/* ---- The kernel ---- */

static bool has_kernel(MlirOperation op) {
  MlirType q = mlirValueGetType(mlirOperationGetOperand(op, Q));
  MlirType scales = mlirValueGetType(mlirOperationGetOperand(op, SCALES));
  MlirType x = mlirValueGetType(mlirOperationGetResult(op, 0));
  int rank = (int)mlirShapedTypeGetRank(q), axis = (int)moe__op_integer(op, "axis");
  if (rank < 2 || rank > 3 || axis < rank - 2)
    return moe__error(op,
                      "no kernel dequantizes a tensor of rank %d along axis %d; there are some for "
                      "rank 2 and 3 along the last two dimensions",
                      rank, axis);
  if (!moe__is_row_major(scales) || !moe__is_row_major(x))
    return moe__error(op, "the kernel takes scales and writes x row-major; remove their encoding");
  bool last = axis == rank - 1;
  if (last && !moe__is_row_major(q))
    return moe__error(op, "the kernel takes q row-major along axis %d; remove its encoding", axis);
  if (!last && !moe__is_column_major(q))
    return moe__error(
        op, "the kernel takes q column-major along axis %d; give it the encoding %s", axis,
        rank == 2 ? "affine_map<(m, k) -> (k, m)>" : "affine_map<(e, n, k) -> (e, k, n)>");
  return moe__needs_multiple_of_16(op, "q", q, rank - 1) &&
         (last || moe__needs_multiple_of_16(op, "q", q, rank - 2));
}

bool moe__dequantize_has_kernel(MlirOperation op) {
  return has_kernel(op);
}

bool moe__dequantize_fp8_has_kernel(MlirOperation op) {
  return has_kernel(op);
}

/* What a launcher has to check: the sizes of the scales, and whole vectors. */
static void add_requirements(moe__dequantize_t *s, MlirOperation op, int rank) {
  moe__kernel_t *kernel = &s->kernel;
  moe__require_scales(kernel, op, SCALES);
  int along = s->mx ? MX_BLOCK : MULTIPLE;
  moe__kernel_require(kernel, Q, rank - 1, "multiple_of", s->column_major ? MULTIPLE : along);
  if (s->column_major)
    moe__kernel_require(kernel, Q, rank - 2, "multiple_of", along);
  if (s->grouped) {
    moe__kernel_require(kernel, OFFS, 0, "at_least", 1);
    moe__kernel_require(kernel, OFFS, 0, "at_most", MOE__MAX_GROUPS);
  }
}

static void add_parameters(moe__dequantize_t *s, MlirOperation op) {
  moe__kernel_t *kernel = &s->kernel;
  MlirType q = mlirValueGetType(mlirOperationGetOperand(op, Q));
  int rank = (int)mlirShapedTypeGetRank(q);
  s->e =
      rank == 3
          ? moe__kernel_extent(kernel, Q, 0, q)
          : (moe__extent_t){.size = 1, .value = moe__i32(&kernel->builder, 1), .expression = "1"};
  s->n = moe__kernel_extent(kernel, Q, rank - 2, q);
  s->k = moe__kernel_extent(kernel, Q, rank - 1, q);
  s->q = moe__kernel_pointer(kernel, Q);
  s->scales = moe__kernel_pointer(kernel, SCALES);
  if (s->grouped) {
    MlirType offs = mlirValueGetType(mlirOperationGetOperand(op, OFFS));
    s->groups.count = moe__kernel_extent(kernel, OFFS, 0, offs).value;
    s->offs = moe__kernel_pointer(kernel, OFFS);
    s->status = moe__kernel_status(kernel);
  }
  s->x = moe__kernel_pointer(kernel, (int)mlirOperationGetNumOperands(op));
  add_requirements(s, op, rank);
}

/* As many blocks as are resident, and no more than there may be tiles: each group may have one that is
 * not full. */
static void grid_expression(const moe__dequantize_t *s, char *out) {
  char rows[MOE__EXPRESSION_SIZE], columns[MOE__EXPRESSION_SIZE], tiles[MOE__EXPRESSION_SIZE],
      with_groups[MOE__EXPRESSION_SIZE];
  moe__expression_ceildiv(rows, s->n.expression, s->schedule.tile_n);
  if (s->grouped && !s->column_major) {
    moe__expression_add(with_groups, 2, (const char *[]){rows, "{dim = [2, 0]}"});
    snprintf(rows, sizeof rows, "%s", with_groups);
  }
  moe__expression_ceildiv(columns, s->k.expression, s->schedule.tile_k);
  moe__expression_mul(tiles, 3, (const char *[]){s->e.expression, rows, columns});
  moe__expression_persistent(out, tiles, s->schedule.blocks_per_sm);
}

static bool lower(MlirOperation function, MlirOperation op, MlirBlock gpu_module_body, bool mx) {
  MlirType q = mlirValueGetType(mlirOperationGetOperand(op, Q));
  moe__dequantize_t s = {
      .element = moe__fp8_of(q),
      .elements = moe__elements_of(mlirValueGetType(mlirOperationGetResult(op, 0)), false),
      .mx = mx,
      .column_major = moe__op_integer(op, "axis") != mlirShapedTypeGetRank(q) - 1,
      .max_groups = moe__max_groups(op, OFFS),
  };
  s.columns = MOE__VECTOR_BYTES / s.elements.bytes;
  s.grouped = s.max_groups > 0;
  if (!mx)
    s.granularity = moe__op_granularity(op);
  if (!has_kernel(op) || /* its schedule may have been written by hand */
      !moe__dequantize_schedule_read(op, s.elements.bytes, s.column_major, s.max_groups,
                                     &s.schedule))
    return false;
  moe__kernel_t *kernel = &s.kernel;
  moe__kernel_begin(kernel, mlirOperationGetContext(op), mlirOperationGetLocation(op),
                    s.schedule.warps * MOE__WARP, s.schedule.blocks_per_sm);
  add_parameters(&s, op);
  moe__kernel_prologue(kernel);
  moe__kernel_await_launches(kernel);
  if (s.grouped)
    s.groups = moe__groups_create(kernel, s.max_groups, s.groups.count, s.schedule.tile_n,
                                  moe__ceil_div(&kernel->builder, s.k.value, s.schedule.tile_k),
                                  s.schedule.band);
  (s.column_major ? moe__dequantize_columns : moe__dequantize_rows)(&s);
  char grid[MOE__EXPRESSION_SIZE];
  grid_expression(&s, grid);
  moe__kernel_end(kernel, gpu_module_body, moe__symbol(function),
                  (const char *const[]){grid, "1", "1"});
  return true;
}

bool moe__lower_dequantize(MlirOperation function, MlirOperation op, MlirBlock gpu_module_body) {
  return lower(function, op, gpu_module_body, true);
}

bool moe__lower_dequantize_fp8(MlirOperation function, MlirOperation op,
                               MlirBlock gpu_module_body) {
  return lower(function, op, gpu_module_body, false);
}
