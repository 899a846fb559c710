/* Parameters.c - which ops the kernel of mixed_mm takes, and its parameters: tensor maps, pointers,
 * sizes, and what a launcher checks; see MixedMm.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/mixed_mm/MixedMm.h"

#include "lib/Builder/Inspect.h"
#include "lib/Dialect/Shapes.h"
#include "lib/Kernels/Requirements.h"

#include "mlir-c/BuiltinTypes.h"

/* ---- What the kernel takes ---- */

/* The numbers of a group, if there are some. */
static bool is_side_by_side(MlirOperation op, moe__role_t role) {
  MlirValue value = moe__operand(op, role);
  if (mlirValueIsNull(value) || moe__is_column_major(mlirValueGetType(value)))
    return true;
  return moe__error(op,
                    "the kernel takes the %s of a group side by side; give '%s' the encoding "
                    "affine_map<%s>",
                    moe__role_name(role), moe__role_name(role),
                    mlirShapedTypeGetRank(mlirValueGetType(value)) == 2 ? "(n, j) -> (j, n)"
                                                                        : "(e, n, j) -> (e, j, n)");
}

bool moe__mixed_has_kernel(MlirOperation op) {
  if (moe__has_fp8_weights(op) && moe__has_plain_weights(op))
    return moe__error(op, "the kernel takes weights of f8E4M3FN in layout \"1x16\": the columns of "
                          "each 16 in the order 0, 8, 1, 9 ... 7, 15; or tokens in layout "
                          "\"evens_first\"");
  if (moe__has_plain_weights(op))
    return moe__error(op, "the kernel takes packed weights: let moe-expand-recipes pack them, or "
                          "pack them by scaled_grouped_mm.pack_weights and give its 'layout'");
  if (moe__mixed_has_scales_of_rows(op)) {
    MlirType scales = moe__tensor_type(op, MOE__SCALES);
    if (!moe__needs_multiple_of_16(op, MOE__SCALES, (int)mlirShapedTypeGetRank(scales) - 1))
      return false;
  } else if (!is_side_by_side(op, MOE__SCALES) || !is_side_by_side(op, MOE__ZEROS)) {
    return false;
  }
  MlirValue bias = moe__operand(op, MOE__BIAS);
  return (moe__is_row_major(moe__tensor_type(op, MOE__W)) &&
          moe__is_row_major(moe__tensor_type(op, MOE__X)) &&
          (mlirValueIsNull(bias) || moe__is_row_major(mlirValueGetType(bias))) &&
          moe__is_row_major(moe__tensor_type(op, MOE__OUT))) ||
         moe__error(
             op,
             "the kernel takes all tensors but scales and zeros row-major; remove their encoding");
}

/* ---- What a launcher gives and checks ---- */

static const moe__expression_t *product_of(moe__mixed_mm_t *s, const moe__expression_t *x,
                                           int64_t y) {
  moe__record_t *record = &s->kernel.record;
  return moe__expression_mul(record, MOE__EXPRESSIONS(x, moe__expression_constant(record, y)));
}

/* Adds the dimension of experts, where there are some, behind matrices of so many bytes. */
static void add_experts(moe__mixed_mm_t *s, moe__tensor_map_t *map,
                        const moe__expression_t *matrix_bytes) {
  if (mlirValueIsNull(s->offs))
    return;
  map->dims[map->rank] = s->experts.expression;
  map->strides[map->rank - 1] = matrix_bytes;
  map->box[map->rank++] = moe__expression_constant(&s->kernel.record, 1);
}

/* Rows of bytes, of which a box has 128 each. */
static MlirValue add_rows(moe__mixed_mm_t *s, MlirOperation op) {
  moe__record_t *record = &s->kernel.record;
  moe__tensor_map_t map = {
      .tensor = moe__tensor_number(op, MOE__W),
      .element = MOE__MAP_U8,
      .rank = 2,
      .dims = {s->depth.expression, s->rows.expression},
      .strides = {s->depth.expression},
      .box = {moe__expression_constant(record, MOE__MIXED_LINE),
              moe__expression_constant(record, moe__mixed_box_rows(&s->schedule))},
      .swizzle = MOE__SWIZZLE_128B};
  if (s->schedule.once)
    map.l2_promotion = MOE__L2_PROMOTION_128B;
  add_experts(
      s, &map,
      moe__expression_mul(record, MOE__EXPRESSIONS(s->rows.expression, s->depth.expression)));
  return moe__kernel_tensor_map(&s->kernel, &map);
}

static MlirValue add_weights(moe__mixed_mm_t *s, MlirOperation op) {
  if (s->format == MOE__WEIGHT_E4M3)
    return add_rows(s, op);
  moe__record_t *record = &s->kernel.record;
  const moe__expression_t *chunks =
      moe__expression_ceildiv(record, s->depth.expression, MOE_WEIGHT_COLUMNS);
  const moe__expression_t *panels =
      moe__expression_ceildiv(record, s->rows.expression, MOE_WEIGHT_ROWS);
  const moe__expression_t *panel = product_of(s, chunks, MOE_WEIGHT_BYTES);
  moe__tensor_map_t map = {
      .tensor = moe__tensor_number(op, MOE__W),
      .element = MOE__MAP_F32,
      .rank = 3,
      .dims = {moe__expression_constant(record, MOE_WEIGHT_BYTES / 4), chunks, panels},
      .strides = {moe__expression_constant(record, MOE_WEIGHT_BYTES), panel},
      .box = {
          moe__expression_constant(record, MOE_WEIGHT_BYTES / 4),
          moe__expression_constant(record, s->schedule.depth / MOE_WEIGHT_COLUMNS),
          moe__expression_constant(record, moe__mixed_box_rows(&s->schedule) / MOE_WEIGHT_ROWS)}};
  add_experts(s, &map, moe__expression_mul(record, MOE__EXPRESSIONS(panels, panel)));
  return moe__kernel_tensor_map(&s->kernel, &map);
}

/* A number for each row and group, side by side for a group: scales, or zero points. */
static MlirValue add_numbers(moe__mixed_mm_t *s, MlirOperation op, moe__role_t role, int bytes) {
  moe__record_t *record = &s->kernel.record;
  const moe__expression_t *groups =
      s->group ? moe__expression_ceildiv(record, s->depth.expression, s->group)
               : moe__expression_constant(record, 1);
  const moe__expression_t *row = product_of(s, s->rows.expression, bytes);
  moe__tensor_map_t map = {
      .tensor = moe__tensor_number(op, role),
      .element = bytes == 4   ? MOE__MAP_F32
                 : bytes == 2 ? MOE__MAP_BF16
                              : MOE__MAP_U8,
      .rank = 2,
      .dims = {s->rows.expression, groups},
      .strides = {row},
      .box = {moe__expression_constant(record, moe__mixed_box_rows(&s->schedule)),
              moe__expression_constant(record,
                                       moe__mixed_scales_of_stage(s->group, s->schedule.depth))}};
  add_experts(s, &map, moe__expression_mul(record, MOE__EXPRESSIONS(groups, row)));
  return moe__kernel_tensor_map(&s->kernel, &map);
}

/* Scales of E8M0 of a row side by side: a box has 16 of each row, those of a k-tile among them. */
static MlirValue add_scales_of_rows(moe__mixed_mm_t *s, MlirOperation op) {
  moe__record_t *record = &s->kernel.record;
  int number = moe__tensor_number(op, MOE__SCALES);
  const moe__expression_t *groups = moe__expression_ceildiv(record, s->depth.expression, s->group);
  moe__tensor_map_t map = {
      .tensor = number,
      .element = MOE__MAP_U8,
      .rank = 2,
      .dims = {groups, s->rows.expression},
      .strides = {groups},
      .box = {moe__expression_constant(record, MOE__MIXED_ROW_SCALES),
              moe__expression_constant(record, moe__mixed_rows(&s->schedule))}};
  add_experts(s, &map, moe__expression_mul(record, MOE__EXPRESSIONS(s->rows.expression, groups)));
  moe__kernel_require(&s->kernel, number,
                      (int)mlirShapedTypeGetRank(moe__tensor_type(op, MOE__SCALES)) - 1,
                      MOE__MULTIPLE_OF, MOE__MIXED_ROW_SCALES);
  return moe__kernel_tensor_map(&s->kernel, &map);
}

int moe__mixed_box_tokens(const moe__mixed_mm_t *s) {
  return s->schedule.tile_n / s->schedule.widths / s->schedule.share;
}

static MlirValue add_tokens(moe__mixed_mm_t *s, MlirOperation op) {
  moe__record_t *record = &s->kernel.record;
  const moe__expression_t *tokens = moe__expression_constant(record, moe__mixed_box_tokens(s));
  if (s->layout.fits)
    tokens = moe__expression_min(record, tokens, s->tokens.expression);
  moe__tensor_map_t map = {.tensor = moe__tensor_number(op, MOE__X),
                           .element = MOE__MAP_BF16,
                           .rank = 2,
                           .dims = {s->depth.expression, s->tokens.expression},
                           .strides = {product_of(s, s->depth.expression, 2)},
                           .box = {moe__expression_constant(record, MOE_WEIGHT_COLUMNS), tokens},
                           .swizzle = MOE__SWIZZLE_128B};
  return moe__kernel_tensor_map(&s->kernel, &map);
}

void moe__mixed_add_parameters(moe__mixed_mm_t *s, MlirOperation op) {
  moe__kernel_t *kernel = &s->kernel;
  MlirType scales = moe__tensor_type(op, MOE__SCALES), x = moe__tensor_type(op, MOE__X);
  int scales_number = moe__tensor_number(op, MOE__SCALES),
      x_number = moe__tensor_number(op, MOE__X);
  int rank = (int)mlirShapedTypeGetRank(scales), offs = moe__tensor_number(op, MOE__OFFS);
  s->experts = rank == 3 ? moe__kernel_extent(kernel, scales_number, 0, scales)
                         : moe__kernel_constant_extent(kernel, 1);
  s->rows = moe__kernel_extent(kernel, scales_number, rank - 2, scales);
  s->tokens = moe__kernel_extent(kernel, x_number, 0, x);
  s->depth = moe__kernel_extent(kernel, x_number, 1, x);
  if (rank == 3) {
    s->offs = moe__kernel_pointer(kernel, offs);
    s->status = moe__kernel_status(kernel);
    moe__require_groups(kernel, offs);
  }
  if (s->schedule.direct)
    s->w = moe__kernel_pointer(kernel, moe__tensor_number(op, MOE__W));
  else
    s->w_map = add_weights(s, op);
  s->scale_map = s->layout.scales_of_rows
                     ? add_scales_of_rows(s, op)
                     : add_numbers(s, op, MOE__SCALES, moe__mixed_scale_bytes(s->scale_type));
  if (!mlirValueIsNull(moe__operand(op, MOE__ZEROS)))
    s->zero_map = add_numbers(s, op, MOE__ZEROS, 1);
  s->x_map = add_tokens(s, op);
  if (!mlirValueIsNull(moe__operand(op, MOE__SCALES_X)))
    s->scales_x = moe__kernel_pointer(kernel, moe__tensor_number(op, MOE__SCALES_X));
  if (!mlirValueIsNull(moe__operand(op, MOE__BIAS)))
    s->bias = moe__kernel_pointer(kernel, moe__tensor_number(op, MOE__BIAS));
  s->out = moe__kernel_pointer(kernel, moe__tensor_number(op, MOE__OUT));
  if (s->schedule.spread)
    moe__mixed_spread_parameters(s);
  moe__require_shapes(kernel, op);
  moe__kernel_require(kernel, scales_number, rank - 2, MOE__MULTIPLE_OF, MOE_WEIGHT_ROWS);
  moe__kernel_require(kernel, x_number, 1, MOE__AT_LEAST,
                      s->schedule.common ? 2 * s->schedule.depth : MOE_MX_BLOCK);
  moe__kernel_require(kernel, x_number, 1, MOE__MULTIPLE_OF, s->group ? s->group : MOE_MX_BLOCK);
  if (s->group)
    moe__kernel_require_quotient(kernel, scales_number, rank - 1, x_number, 1, s->group, -1);
}
