/* ScaledGroupedMm.c - what the letters of ScaledGroupedMm.def cannot say.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Dialect/RowFunctions.h"
#include "lib/Dialect/Verify.h"

#include "moe/limits.h"

#include "mlir-c/BuiltinTypes.h"

static MlirType element_of(MlirType type) {
  return mlirShapedTypeGetElementType(type);
}

/* Whether sb has one fp32 scale for each block. */
static bool has_blocks(MlirOperation op) {
  MlirType sb = moe__tensor_type(op, MOE__SB);
  if (moe__mm_case(op) == MOE__GRADIENT)
    return moe__has_block_scales(op);
  return mlirTypeIsAF32(element_of(sb)) && mlirShapedTypeGetRank(sb) == 3;
}

/* The attribute stands where ranks do not tell, and with fp32 scales. */
static bool check_granularity(MlirOperation op) {
  if (mlirAttributeIsNull(moe__op_attribute(op, "granularity")))
    return true;
  if (moe__mm_case(op) != MOE__GRADIENT)
    return moe__error(op,
                      "attribute 'granularity' must not be there: but for a gradient of weights "
                      "the shapes of the scales say what they are");
  return mlirTypeIsAF32(moe__element_type(op, MOE__SA)) ||
         moe__error(op, "attribute 'granularity' is \"1x128\"; 'sa' and 'sb' must be f32 then");
}

/* `align` is for the tokens that a gradient sums over; then there is room for those that each group
 * may be short of. */
static bool check_align(MlirOperation op) {
  if (!moe__group_align(op))
    return true;
  int64_t align = moe__op_integer(op, "align"), all = MOE_GROUP_ALIGN;
  const char *name = moe__role_name(moe__factor_role(op, 0));
  if (moe__mm_case(op) != MOE__GRADIENT)
    return moe__error(op, "attribute 'align' must not be there: only the groups of a gradient of "
                          "weights are padded");
  if (align != all)
    return moe__error(op, "attribute 'align' is %lld; it must be %lld", (long long)align,
                      (long long)all);
  int64_t tokens = moe__static_dimension(moe__factor_type(op, 0), 1);
  int64_t groups = moe__static_dimension(moe__tensor_type(op, MOE__OFFS), 0);
  if (tokens >= 0 && tokens % all)
    return moe__error(op,
                      "operand '%s' has dimension 1 of size %lld; with 'align' it must be a "
                      "multiple of %lld",
                      name, (long long)tokens, (long long)all);
  return tokens < 0 || groups < 0 || tokens > groups * all ||
         moe__error(op,
                    "operand '%s' has dimension 1 of size %lld; with 'align' it must be more "
                    "than %lld for each of %lld groups",
                    name, (long long)tokens, (long long)all, (long long)groups);
}

/* Of a bias, if there is one. */
static bool has_bias_of_out(MlirOperation op) {
  MlirValue bias = moe__operand(op, MOE__BIAS);
  return mlirValueIsNull(bias) ||
         mlirTypeEqual(element_of(mlirValueGetType(bias)), moe__element_type(op, MOE__OUT)) ||
         moe__error(op, "operand 'bias' must have the element type of 'out'");
}

bool moe__check_scaled_mm(MlirOperation op) {
  MlirType sa = moe__element_type(op, MOE__SA), sb = moe__element_type(op, MOE__SB);
  if (!mlirTypeEqual(sa, sb))
    return moe__error(op, "operands 'sa' and 'sb' must both be f32 or both f8E8M0FNU");
  if (!check_granularity(op) || !check_align(op))
    return false;
  bool blocks = moe__has_block_scales(op);
  MlirStringRef promoted = mlirStringRefCreateFromCString("promoted");
  if (blocks != has_blocks(op))
    return moe__error(op,
                      "operand '%s' has scales of blocks and operand '%s' has none; both must have "
                      "them, or neither",
                      blocks ? "sa" : "sb", blocks ? "sb" : "sa");
  if (blocks && !mlirStringRefEqual(moe__op_string(op, "accumulate"), promoted))
    return moe__error(op, "attribute 'accumulate' is \"fast\"; it must be promoted with scales of "
                          "blocks");
  return has_bias_of_out(op);
}

bool moe__check_mm(MlirOperation op) {
  if (!mlirTypeEqual(element_of(moe__factor_type(op, 0)), element_of(moe__factor_type(op, 1))))
    return moe__error(op, "operands 'a' and 'b' must both be bf16 or both f16");
  return check_align(op) && has_bias_of_out(op);
}

bool moe__check_dequantize_mm(MlirOperation op) {
  return has_bias_of_out(op);
}

void moe__dequantize_mm_shape(MlirOperation op, moe__role_t role, moe__shape_t *out) {
  int qa = moe__operand_number(op, MOE__QA), qb = moe__operand_number(op, MOE__QB);
  if (role == MOE__STATE_A) {
    moe__append_divided(out, qa, 0, MOE_PANEL_ROWS);
    return;
  }
  moe__append_copy(out, qb, 0);
  moe__append_divided(out, qb, 2, MOE_PANEL_ROWS);
}

/* ---- Four-bit weights ---- */

/* The static size of a dimension must be a multiple; a dynamic one is left to the launcher. */
static bool is_multiple(MlirOperation op, moe__role_t role, int dimension, int64_t of) {
  int64_t size = moe__static_dimension(moe__tensor_type(op, role), dimension);
  return size < 0 || size % of == 0 ||
         moe__error(op, "operand '%s' has dimension %d of size %lld; it must be a multiple of %lld",
                    moe__role_name(role), dimension, (long long)size, (long long)of);
}

bool moe__check_pack_weights(MlirOperation op) {
  int rank = (int)mlirShapedTypeGetRank(moe__tensor_type(op, MOE__W));
  return is_multiple(op, MOE__W, rank - 2, MOE_WEIGHT_ROWS) &&
         is_multiple(op, MOE__W, rank - 1, MOE_MX_BLOCK / 2);
}

/* Of scales whose weights' depth has a scale for each `group` of it. */
static bool has_groups_of(MlirOperation op, int64_t group) {
  MlirType scales = moe__tensor_type(op, MOE__SCALES), x = moe__tensor_type(op, MOE__X);
  int last = (int)mlirShapedTypeGetRank(scales) - 1;
  int64_t depth = moe__static_dimension(x, 1);
  int64_t expected = group < 0 ? 1 : depth < 0 ? -1 : depth / group;
  return moe__verify_dimension(op, "operand", "scales", scales, last, expected);
}

static bool has_layout_of_format(MlirOperation op) {
  MlirStringRef layout = moe__op_string(op, "layout");
  const char *packed = moe__packed_layout(op);
  bool is_fp8 = moe__has_fp8_weights(op);
  return moe__has_plain_weights(op) || (is_fp8 && moe__has_evens_first(op)) ||
         mlirStringRefEqual(layout, mlirStringRefCreateFromCString(packed)) ||
         moe__error(op,
                    "attribute 'layout' is \"%.*s\"; it must be %s%s, or plain, with this format",
                    (int)layout.length, layout.data, packed, is_fp8 ? ", evens_first" : "");
}

/* Tokens whose columns are in the order that the layout asks for: where an op here makes them. */
static bool has_tokens_in_order(MlirOperation op) {
  MlirValue x = moe__operand(op, MOE__X);
  if (!moe__has_evens_first(op) || !mlirValueIsAOpResult(x))
    return true;
  MlirOperation source = mlirOpResultGetOwner(x);
  return moe__op_id(source) == MOE__NO_OP || moe__has_evens_first(source) ||
         moe__error(op, "operand 'x' must have its columns in the order \"evens_first\" with this "
                        "layout, which dequantize and dequantize_f16 with that 'order' give "
                        "them");
}

/* FP8 weights have their own element type, and scales of MX blocks. */
static bool has_type_of_format(MlirOperation op, bool is_e8m0) {
  bool is_fp8 = moe__has_fp8_weights(op);
  if (is_fp8 == mlirTypeIsAFloat8E4M3FN(moe__element_type(op, MOE__W)))
    return !is_fp8 || is_e8m0 ||
           moe__error(op, "operand 'scales' must be f8E8M0FNU with weights of f8E4M3FN");
  MlirStringRef format = moe__op_string(op, "format");
  return moe__error(op, "operand 'w' must be %s with format \"%.*s\"", is_fp8 ? "f8E4M3FN" : "ui8",
                    (int)format.length, format.data);
}

bool moe__check_mixed_mm(MlirOperation op) {
  MlirType scales = moe__tensor_type(op, MOE__SCALES);
  int64_t group = moe__op_integer(op, "group_size");
  bool is_e8m0 = mlirTypeIsAFloat8E8M0FNU(element_of(scales));
  if (group != -1 && group != 32 && group != 64 && group != 128)
    return moe__error(op,
                      "attribute 'group_size' is %lld; it must be 32, 64, 128, or -1 for the whole "
                      "row",
                      (long long)group);
  if (!mlirValueIsNull(moe__operand(op, MOE__ZEROS)) &&
      !mlirStringRefEqual(moe__op_string(op, "format"), mlirStringRefCreateFromCString("ui4")))
    return moe__error(op, "attribute 'format' must be \"ui4\" with zero points");
  if (is_e8m0 && group != MOE_MX_BLOCK)
    return moe__error(op, "attribute 'group_size' is %lld; it must be %d with scales of f8E8M0FNU",
                      (long long)group, MOE_MX_BLOCK);
  return has_type_of_format(op, is_e8m0) && has_layout_of_format(op) &&
         is_multiple(op, MOE__SCALES, (int)mlirShapedTypeGetRank(scales) - 2, MOE_WEIGHT_ROWS) &&
         is_multiple(op, MOE__X, 1, group < 0 ? MOE_MX_BLOCK : group) && has_groups_of(op, group) &&
         has_tokens_in_order(op) && has_bias_of_out(op);
}

/* [experts,] rows / 16, columns / 64, bytes of a tile: experts and rows from operand rows_of, whose
 * rank is `rank`; columns from a dimension of columns_of, of which `of_tile` are a tile's. */
static void append_tiles(moe__shape_t *out, int rows_of, int columns_of, int columns,
                         int64_t of_tile, int rank) {
  if (rank == 3)
    moe__append_copy(out, rows_of, 0);
  moe__append_divided(out, rows_of, rank - 2, MOE_WEIGHT_ROWS);
  moe__append_divided(out, columns_of, columns, of_tile);
  moe__append_constant(out, MOE_WEIGHT_BYTES);
}

void moe__packed_weights_shape(MlirOperation op, moe__role_t role, moe__shape_t *out) {
  (void)role;
  int rank = (int)mlirShapedTypeGetRank(moe__tensor_type(op, MOE__W));
  append_tiles(out, 0, 0, rank - 1, MOE_WEIGHT_COLUMNS / 2, rank);
}

/* One number for each group of a row. */
static void append_groups(MlirOperation op, moe__shape_t *out, int x) {
  int64_t group = moe__op_integer(op, "group_size");
  if (group < 0)
    moe__append_constant(out, 1);
  else
    moe__append_divided(out, x, 1, group);
}

void moe__mixed_weights_shape(MlirOperation op, moe__role_t role, moe__shape_t *out) {
  int scales = moe__operand_number(op, MOE__SCALES), x = moe__operand_number(op, MOE__X);
  int rank = (int)mlirShapedTypeGetRank(moe__tensor_type(op, MOE__SCALES));
  bool is_fp8 = moe__has_fp8_weights(op);
  if (role == MOE__W && !is_fp8 && !moe__has_plain_weights(op)) {
    append_tiles(out, scales, x, 1, MOE_WEIGHT_COLUMNS, rank);
    return;
  }
  for (int d = 0; d < rank - 1; d++)
    moe__append_copy(out, scales, d);
  if (role == MOE__W && is_fp8)
    moe__append_copy(out, x, 1);
  else if (role == MOE__W)
    moe__append_divided(out, x, 1, 2);
  else
    append_groups(op, out, x);
}
