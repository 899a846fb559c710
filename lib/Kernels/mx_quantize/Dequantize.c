/* Dequantize.c - the kernels of mx_quantize.dequantize and mx_quantize.dequantize_fp8: each
 * element times its scale, rounded once.
 *
 * Why both are here: they differ in where the scale of an element is, and in nothing else. There
 * are two bodies, one for each memory order of q.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/mx_quantize/Dequantize.h"

#include "lib/Device/Async.h"
#include "lib/Device/Warp.h"
#include "lib/Dialect/Shapes.h"
#include "lib/Kernels/Requirements.h"

#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/BuiltinTypes.h"

#include <stdio.h>

#define MULTIPLE 16 /* of K, and of N where q is column-major: 16 bytes of q */

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
  if (s->mx && s->column_major && s->grouped)
    return mul_add(b, at->group, k, at->column);
  if (s->mx && s->column_major) {
    MlirValue mx_blocks = moe__udiv(b, n, MOE_MX_BLOCK);
    return mul_add64(b, mul_add(b, at->expert, mx_blocks, moe__lshr(b, at->row, 5)), k, at->column);
  }
  if (s->side_by_side)
    return mul_add(b, moe__lshr(b, at->column, 5), n, at->row);
  if (s->mx)
    return mul_add64(b, mul_add(b, at->expert, n, at->row), moe__udiv(b, k, MOE_MX_BLOCK),
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
    if (s->e.size == 1)
      return mul_add(b, at->row, moe__ceil_div(b, k, MOE_FP8_BLOCK), moe__lshr(b, at->column, 7));
    return mul_add64(b, mul_add(b, at->expert, n, at->row), moe__ceil_div(b, k, MOE_FP8_BLOCK),
                     moe__lshr(b, at->column, 7));
  case MOE__128X128:
    return mul_add64(
        b, mul_add(b, at->expert, moe__ceil_div(b, n, MOE_FP8_BLOCK), moe__lshr(b, at->row, 7)),
        moe__ceil_div(b, k, MOE_FP8_BLOCK), moe__lshr(b, at->column, 7));
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
                           const MlirValue scales[MOE__MAX_COLUMNS], MlirValue offset,
                           const MlirValue kept[MOE__MAX_COLUMNS]) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue words[MOE__VECTOR_BYTES / 4];
  for (int i = 0; i < MOE__VECTOR_BYTES / 4; i++) {
    MlirValue products[2];
    for (int j = 0; j < s->elements.per_word; j++) {
      int column = i * s->elements.per_word + j;
      products[j] = moe__fmul(b, values[column], scales[column]);
      if (kept)
        products[j] = moe__select(b, kept[column], products[j], moe__f32(b, 0));
    }
    words[i] = moe__word_of(b, &s->elements, products);
  }
  MlirValue bytes = moe__mul(b, offset, s->elements.bytes);
  moe__store(b, moe__vector(b, MOE__VECTOR_BYTES / 4, words), moe__offset(b, s->x, bytes));
}

void moe__dequantize_groups(moe__dequantize_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue rows = s->side_by_side ? s->k.value : s->n.value;
  if (s->aligned) /* but for the room between groups */
    rows = moe__smax(b, moe__sub(b, rows, moe__mul(b, s->groups.count, MOE_GROUP_ALIGN)),
                     moe__i32(b, 0));
  moe__groups_initialize_by_cta(&s->groups, s->offs, rows, s->status);
}

moe__aligned_place_t moe__dequantize_aligned_place(moe__dequantize_t *s, MlirValue row) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue group = moe__groups_find_aligned(&s->groups, row), start, end;
  moe__aligned_place_t place = {.is_none = moe__ule(b, s->groups.count, group)};
  moe__groups_range(&s->groups, moe__select(b, place.is_none, 0, group), &start, &end);
  place.in_group = moe__sub(b, row, moe__groups_aligned_row(b, start, group));
  place.size = moe__sub(b, end, start);
  return place;
}

MlirValue moe__dequantize_is_written(moe__dequantize_t *s, const moe__aligned_place_t *place) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue in_block = moe__ult(b, moe__and(b, place->in_group, -MOE_GROUP_ALIGN), place->size);
  return moe__and(b, in_block, moe__eq(b, moe__zext(b, place->is_none, b->i32), 0));
}

/* ---- The kernel ---- */

/* Whether tokens of MX blocks lie side by side in x as they do in q. */
static bool is_side_by_side(MlirOperation op) {
  MlirType x = moe__tensor_type(op, MOE__X);
  return moe__is(op, MOE__OP_DEQUANTIZE) && moe__op_integer(op, "axis") == 0 &&
         mlirShapedTypeGetRank(x) == 2 && moe__is_column_major(x);
}

/* Whether q, along whose innermost dimension blocks lie, is transposed on the way. */
static bool is_transposed(MlirOperation op) {
  MlirType q = moe__tensor_type(op, MOE__Q);
  return moe__op_integer(op, "axis") != mlirShapedTypeGetRank(q) - 1 && !is_side_by_side(op);
}

static bool has_kernel(MlirOperation op) {
  MlirType q = moe__tensor_type(op, MOE__Q);
  MlirType scales = moe__tensor_type(op, MOE__SCALES);
  MlirType x = moe__tensor_type(op, MOE__X);
  int rank = (int)mlirShapedTypeGetRank(q), axis = (int)moe__op_integer(op, "axis");
  if (rank < 2 || rank > 3 || axis < rank - 2)
    return moe__error(op,
                      "no kernel dequantizes a tensor of rank %d along axis %d; there are some for "
                      "rank 2 and 3 along the last two dimensions",
                      rank, axis);
  bool side_by_side = is_side_by_side(op);
  if (!moe__is_row_major(scales) || !(moe__is_row_major(x) || side_by_side))
    return moe__error(op, "the kernel takes scales and writes x row-major; remove their encoding");
  if (side_by_side && moe__is_grouped(op) && !moe__group_align(op))
    return moe__error(op, "the kernel writes x row-major where groups begin anywhere; remove its "
                          "encoding, or give 'align'");
  bool last = axis == rank - 1;
  if (!last && moe__is(op, MOE__OP_DEQUANTIZE_FP8) && moe__op_granularity(op) == MOE__1X128)
    return moe__error(op,
                      "no kernel dequantizes FP8 blocks of 1x128 along axis %d yet; there is one "
                      "along the last dimension",
                      axis);
  if (last && !moe__is_row_major(q))
    return moe__error(op, "the kernel takes q row-major along axis %d; remove its encoding", axis);
  if (!last && !moe__is_column_major(q))
    return moe__error(
        op, "the kernel takes q column-major along axis %d; give it the encoding %s", axis,
        rank == 2 ? "affine_map<(m, k) -> (k, m)>" : "affine_map<(e, n, k) -> (e, k, n)>");
  return (side_by_side || moe__needs_multiple_of_16(op, MOE__Q, rank - 1)) &&
         (last || moe__needs_multiple_of_16(op, MOE__Q, rank - 2));
}

/* What a launcher has to check: the sizes of the scales, and whole vectors. */
static void add_requirements(moe__dequantize_t *s, MlirOperation op, int rank) {
  moe__kernel_t *kernel = &s->kernel;
  moe__require_shapes(kernel, op);
  int along = s->mx ? MOE_MX_BLOCK : MULTIPLE, q = moe__tensor_number(op, MOE__Q),
      offs = moe__tensor_number(op, MOE__OFFS);
  bool tokens_last = !s->column_major && !s->side_by_side;
  if (!s->side_by_side)
    moe__kernel_require(kernel, q, rank - 1, MOE__MULTIPLE_OF, tokens_last ? along : MULTIPLE);
  if (s->grouped && s->mx) /* whose last block may be short */
    along = s->aligned ? MOE_GROUP_ALIGN : MULTIPLE;
  if (!tokens_last)
    moe__kernel_require(kernel, q, rank - 2, MOE__MULTIPLE_OF, along);
  if (s->grouped) {
    moe__require_groups(kernel, offs);
  }
}

static void add_parameters(moe__dequantize_t *s, MlirOperation op) {
  moe__kernel_t *kernel = &s->kernel;
  MlirType q = moe__tensor_type(op, MOE__Q);
  int number = moe__tensor_number(op, MOE__Q);
  int rank = (int)mlirShapedTypeGetRank(q);
  moe__kernel_matrices(kernel, number, q, &s->e, s->side_by_side ? &s->k : &s->n,
                       s->side_by_side ? &s->n : &s->k);
  s->q = moe__kernel_pointer(kernel, number);
  s->scales = moe__kernel_pointer(kernel, moe__tensor_number(op, MOE__SCALES));
  if (s->grouped) {
    MlirType offs = moe__tensor_type(op, MOE__OFFS);
    s->groups.count = moe__kernel_extent(kernel, moe__tensor_number(op, MOE__OFFS), 0, offs).value;
    s->offs = moe__kernel_pointer(kernel, moe__tensor_number(op, MOE__OFFS));
    s->status = moe__kernel_status(kernel);
  }
  s->x = moe__kernel_pointer(kernel, moe__tensor_number(op, MOE__X));
  add_requirements(s, op, rank);
}

/* How many tiles there are: of a stream, which has no rows, by its elements. */
static const moe__expression_t *count_tiles(moe__dequantize_t *s, MlirOperation op) {
  moe__record_t *record = &s->kernel.record;
  int tile_n = s->schedule.tile_n, tile_k = s->schedule.tile_k;
  if (moe__dequantize_is_stream(s))
    return moe__expression_ceildiv(
        record,
        moe__expression_mul(record,
                            MOE__EXPRESSIONS(s->e.expression, s->n.expression, s->k.expression)),
        tile_n * tile_k);
  moe__tile_counts_t tiles = {&s->e, &s->n, &s->k, tile_n, tile_k, NULL};
  if (s->grouped && !s->column_major && !s->side_by_side)
    tiles.groups = moe__expression_dim(record, moe__tensor_number(op, MOE__OFFS), 0);
  return moe__tiles_count(record, &tiles);
}

static const moe__expression_t *grid_expression(moe__dequantize_t *s, MlirOperation op) {
  return moe__expression_ctas(&s->kernel.record, count_tiles(s, op), s->schedule.persistent,
                              s->schedule.ctas_per_sm);
}

/* ---- The schedule ---- */

MOE__SCHEDULE_KIND(moe__dequantize_schedule, moe__dequantize_schedule_t, MOE__DEQUANTIZE_SCHEDULE,
                   "dequantize", "dequantize, dequantize_fp8");

/* Each CTA has 16 KB of x, in runs of 2 KB (bf16) and 1 KB, and ends, so that others load while it
 * stores. */
static const moe__dequantize_schedule_t ROWS_BF16[] = {
    {.tile_n = 8, .tile_k = 1024, .ctas_per_sm = 5},
    {.tile_n = 4, .tile_k = 1024, .ctas_per_sm = 6},
    {.tile_n = 4, .tile_k = 2048, .ctas_per_sm = 5},
    {.tile_n = 4, .tile_k = 1024, .warps = 4, .ctas_per_sm = 8},
    {.tile_n = 16, .tile_k = 1024},
    {.tile_n = 16, .tile_k = 1024, .persistent = 1},
};
static const moe__dequantize_schedule_t ROWS_F32[] = {
    {.tile_n = 8, .tile_k = 256, .ctas_per_sm = 6}, {.tile_n = 4, .tile_k = 512, .ctas_per_sm = 6},
    {.tile_n = 8, .tile_k = 512, .ctas_per_sm = 5}, {.tile_n = 16, .tile_k = 512},
    {.tile_n = 16, .tile_k = 512, .persistent = 1},
};
/* MX blocks along rows are a stream, in which each CTA has 8 KB of x, side by side, and ends, so
 * that others load while it stores. */
static const moe__dequantize_schedule_t STREAM_BF16[] = {
    {.tile_n = 4, .tile_k = 1024, .ctas_per_sm = 6},
    {.tile_n = 4, .tile_k = 1024, .warps = 4, .ctas_per_sm = 8},
    {.tile_n = 8, .tile_k = 1024, .ctas_per_sm = 5},
    {.tile_n = 16, .tile_k = 1024},
    {.tile_n = 16, .tile_k = 1024, .persistent = 1},
};
static const moe__dequantize_schedule_t STREAM_F32[] = {
    {.tile_n = 4, .tile_k = 512, .ctas_per_sm = 6},
    {.tile_n = 8, .tile_k = 512, .ctas_per_sm = 5},
    {.tile_n = 16, .tile_k = 512, .persistent = 1},
};
/* Tokens side by side: a CTA looks up the groups once. */
static const moe__dequantize_schedule_t SIDE_BF16[] = {
    {.tile_n = 16, .tile_k = 1024},
    {.tile_n = 8, .tile_k = 1024, .ctas_per_sm = 5},
    {.tile_n = 32, .tile_k = 512},
    {.tile_n = 16, .tile_k = 1024, .persistent = 1},
};
static const moe__dequantize_schedule_t SIDE_F32[] = {
    {.tile_n = 16, .tile_k = 512, .persistent = 1},
    {.tile_n = 16, .tile_k = 512},
};
/* Through shared memory a tile is 16 KB of q, in runs of 128 bytes of q and 256 of x (bf16). */
static const moe__dequantize_schedule_t COLUMNS[] = {
    {.tile_n = 128, .tile_k = 128},
    {.tile_n = 128, .tile_k = 128, .band = 8},
    {.tile_n = 256, .tile_k = 128, .band = 8},
    {.tile_n = 256, .tile_k = 128, .band = 8, .persistent = 1},
    {.tile_n = 256, .tile_k = 128, .persistent = 1},
    {.tile_n = 128, .tile_k = 128, .band = 8, .persistent = 1},
    {.tile_n = 128, .tile_k = 256, .band = 8, .persistent = 1},
    {.tile_n = 256, .tile_k = 256, .warps = 16, .ctas_per_sm = 2, .band = 8, .persistent = 1},
};

/* Neighboring threads of a stream exchange columns; other bodies do not. */
static const moe__dequantize_schedule_t STREAM_EXCHANGED[] = {
    {.tile_n = 4, .tile_k = 1024, .ctas_per_sm = 6},
    {.tile_n = 4, .tile_k = 1024, .warps = 4, .ctas_per_sm = 8},
    {.tile_n = 8, .tile_k = 1024, .ctas_per_sm = 5},
};

static moe__candidates_t candidates(MlirOperation op) {
  if (is_transposed(op))
    return MOE__CANDIDATES(COLUMNS);
  if (moe__has_evens_first(op))
    return MOE__CANDIDATES(STREAM_EXCHANGED);
  bool is_half = moe__tensor_element_bytes(op, MOE__X) == 2;
  if (is_side_by_side(op))
    return is_half ? MOE__CANDIDATES(SIDE_BF16) : MOE__CANDIDATES(SIDE_F32);
  if (moe__is(op, MOE__OP_DEQUANTIZE))
    return is_half ? MOE__CANDIDATES(STREAM_BF16) : MOE__CANDIDATES(STREAM_F32);
  return is_half ? MOE__CANDIDATES(ROWS_BF16) : MOE__CANDIDATES(ROWS_F32);
}

static bool lay_out(MlirOperation op, const void *schedule, void *out) {
  const moe__dequantize_schedule_t *s = schedule;
  moe__dequantize_layout_t *l = out;
  if (s->persistent && moe__has_evens_first(op))
    return moe__error(op, "'schedule.persistent' is 1; it must be 0 with 'order'");
  l->cta.threads = s->warps * MOE__WARP;
  l->cta.ctas_per_sm = s->ctas_per_sm;
  l->groups = moe__groups_reserve(&l->cta, moe__max_groups(op), MOE__GROUPS_IN_TURN);
  return (is_transposed(op) ? moe__dequantize_columns_layout : moe__dequantize_rows_layout)(
      op, s, MOE__VECTOR_BYTES / moe__tensor_element_bytes(op, MOE__X), l);
}

/* ---- The kernel ---- */

#define FEW_ELEMENTS (1 << 25) /* with more it was not timed by itself */

bool moe__dequantize_has_few_tokens(MlirOperation op) {
  MlirType x = moe__tensor_type(op, MOE__X);
  int64_t tokens = moe__static_dimension(x, 0), columns = moe__static_dimension(x, 1);
  return moe__has_evens_first(op) && mlirShapedTypeGetRank(x) == 2 && tokens >= 0 && columns > 0 &&
         tokens <= FEW_ELEMENTS / columns;
}

static bool lower(const moe__lowering_t *lowering) {
  MlirOperation op = lowering->op;
  const moe__dequantize_layout_t *layout = lowering->layout;
  const moe__dequantize_schedule_t *schedule = lowering->schedule;
  MlirType q = moe__tensor_type(op, MOE__Q);
  moe__dequantize_t s = {
      .schedule = *schedule,
      .layout = *layout,
      .element = moe__fp8_of(q),
      .elements = moe__elements_of(moe__tensor_type(op, MOE__X), false),
      .mx = moe__is(op, MOE__OP_DEQUANTIZE),
      .column_major = is_transposed(op),
      .side_by_side = is_side_by_side(op),
      .grouped = layout->groups.max_groups > 0,
      .evens_first = moe__has_evens_first(op),
      .aligned = moe__group_align(op) != 0,
  };
  s.columns = MOE__VECTOR_BYTES / s.elements.bytes;
  if (!s.mx)
    s.granularity = moe__op_granularity(op);
  moe__kernel_t *kernel = &s.kernel;
  moe__lowering_begin(lowering, kernel);
  add_parameters(&s, op);
  moe__kernel_prologue(kernel);
  moe__kernel_await_launches(kernel);
  if (moe__dequantize_has_few_tokens(op))
    moe__grid_launch_dependents(&kernel->builder);
  if (s.grouped)
    s.groups = moe__groups_create(kernel, &layout->groups, s.groups.count, s.schedule.tile_n,
                                  moe__ceil_div(&kernel->builder, s.k.value, s.schedule.tile_k),
                                  s.schedule.band);
  (s.column_major ? moe__dequantize_columns : moe__dequantize_rows)(&s);
  moe__lowering_end(lowering, kernel, grid_expression(&s, op));
  return true;
}

const moe__kernel_definition_t moe__dequantize_kernel = {
    .ops = {MOE__OP_DEQUANTIZE, MOE__OP_DEQUANTIZE_FP8},
    .has_kernel = has_kernel,
    .schedule = &moe__dequantize_schedule,
    .candidates = candidates,
    .layout_size = sizeof(moe__dequantize_layout_t),
    .layout = lay_out,
    .lower = lower,
};
