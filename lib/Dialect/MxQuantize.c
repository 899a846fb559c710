/* MxQuantize.c - what the letters of MxQuantize.def cannot say: what follows from attributes,
 * and room for groups.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Dialect/RowFunctions.h"
#include "lib/Dialect/Verify.h"

#include "mlir-c/BuiltinTypes.h"

/* ---- Groups that begin at a multiple of tokens ---- */

/* Whether `align` is right, if it is there: the op writes tokens in groups, which are summed
 * over. */
bool moe__check_aligned(MlirOperation op) {
  if (!moe__group_align(op))
    return true;
  int64_t align = moe__op_integer(op, "align");
  if (align != MOE_GROUP_ALIGN)
    return moe__error(op, "attribute 'align' is %lld; it must be %d", (long long)align,
                      MOE_GROUP_ALIGN);
  bool has_axis = !mlirAttributeIsNull(moe__op_attribute(op, "axis"));
  return (!mlirValueIsNull(moe__operand(op, MOE__OFFS)) &&
          (!has_axis || moe__op_integer(op, "axis") == 0)) ||
         moe__error(op, "attribute 'align' must not be there: no result has groups along the axis "
                        "that is summed over");
}

/* ---- MX ---- */

static bool check_mx_block(MlirOperation op) {
  int64_t block = moe__op_integer(op, "block");
  return block == MOE_MX_BLOCK ||
         moe__error(op, "attribute 'block' is %lld; it must be %d", (long long)block, MOE_MX_BLOCK);
}

static bool check_rank(MlirOperation op, const char *kind, const char *name, MlirType type,
                       int rank) {
  int found = (int)mlirShapedTypeGetRank(type);
  return found == rank || moe__error(op, "%s '%s' has rank %d; it must be %d, as the other tensors",
                                     kind, name, found, rank);
}

/* x, q and scales along `axis`; the kinds say which of them are operands. */
static bool check_mx_shapes(MlirOperation op, MlirType x, const char *kind, MlirType q,
                            MlirType scales) {
  int rank = (int)mlirShapedTypeGetRank(x);
  int64_t axis = moe__op_integer(op, "axis");
  if (axis < 0 || axis >= rank)
    return moe__error(op, "attribute 'axis' is %lld; it must be 0 to %d", (long long)axis,
                      rank - 1);
  if (!check_mx_block(op) || !check_rank(op, kind, "q", q, rank) ||
      !check_rank(op, kind, "scales", scales, rank))
    return false;
  for (int i = 0; i < rank; i++) {
    int64_t size = moe__static_dimension(x, i);
    if (!moe__verify_dimension(op, kind, "q", q, i, size))
      return false;
    if (i == axis && size >= 0) {
      if (size % MOE_MX_BLOCK)
        return moe__error(op, "dimension %d, the axis, has size %lld; it must be a multiple of %d",
                          i, (long long)size, MOE_MX_BLOCK);
      size /= MOE_MX_BLOCK;
    }
    if (!moe__verify_dimension(op, kind, "scales", scales, i, size))
      return false;
  }
  return true;
}

static bool refuse_groups(MlirOperation op) {
  return moe__error(op,
                    "operand 'offs' must not be there: 'x' has rank %d and is cut along axis %lld; "
                    "groups cut a matrix along axis 0",
                    (int)mlirShapedTypeGetRank(moe__tensor_type(op, MOE__X)),
                    (long long)moe__op_integer(op, "axis"));
}

/* Blocks of tokens in groups: the last one of a group may be short. kind: of q and scales. */
static bool check_mx_groups(MlirOperation op, const char *kind) {
  int rank = (int)mlirShapedTypeGetRank(moe__tensor_type(op, MOE__X));
  if (rank != 2 || moe__op_integer(op, "axis") != 0)
    return refuse_groups(op);
  return check_mx_block(op) && check_rank(op, kind, "q", moe__tensor_type(op, MOE__Q), rank) &&
         check_rank(op, kind, "scales", moe__tensor_type(op, MOE__SCALES), rank);
}

bool moe__check_mx_quantize(MlirOperation op) {
  if (!moe__check_aligned(op))
    return false;
  if (!mlirValueIsNull(moe__operand(op, MOE__OFFS)))
    return check_mx_groups(op, "result");
  return check_mx_shapes(op, moe__tensor_type(op, MOE__X), "result", moe__tensor_type(op, MOE__Q),
                         moe__tensor_type(op, MOE__SCALES));
}

/* Of aligned groups q has whole multiples of tokens. */
static bool check_aligned_rows(MlirOperation op) {
  int64_t rows = moe__static_dimension(moe__tensor_type(op, MOE__Q), 0);
  return !moe__group_align(op) || rows < 0 || rows % MOE_GROUP_ALIGN == 0 ||
         moe__error(op,
                    "operand 'q' has dimension 0 of size %lld; with 'align' it must be a multiple "
                    "of %d",
                    (long long)rows, MOE_GROUP_ALIGN);
}

/* x in another order is for products that read it so: whoever does not would take columns for
 * others. A block's end hands it on. */
bool moe__check_order(MlirOperation op) {
  if (!moe__has_evens_first(op))
    return true;
  MlirValue result = moe__result(op, MOE__X);
  for (MlirOpOperand use = mlirValueGetFirstUse(result); !mlirOpOperandIsNull(use);
       use = mlirOpOperandGetNextUse(use)) {
    MlirOperation user = mlirOpOperandGetOwner(use);
    if (moe__op_id(user) != MOE__NO_OP && !moe__has_evens_first(user))
      return moe__error(user,
                        "result 'x' of dequantize has its columns in the order \"evens_first\", in "
                        "which only mixed_mm with layout \"evens_first\" reads them");
  }
  return true;
}

/* Whether x may have its columns in the order that the op asks for. */
static bool may_have_order(MlirOperation op) {
  MlirType x = moe__tensor_type(op, MOE__X);
  return !moe__has_evens_first(op) ||
         (mlirTypeIsABF16(mlirShapedTypeGetElementType(x)) &&
          moe__op_integer(op, "axis") == mlirShapedTypeGetRank(x) - 1) ||
         moe__error(op, "attribute 'order' must not be there: only an 'x' of bf16 whose axis is "
                        "the last dimension has columns in another order");
}

bool moe__check_mx_dequantize(MlirOperation op) {
  if (!moe__check_aligned(op) || !may_have_order(op) || !moe__check_order(op))
    return false;
  if (!mlirValueIsNull(moe__operand(op, MOE__OFFS)))
    return check_mx_groups(op, "operand") && check_aligned_rows(op);
  return check_mx_shapes(op, moe__tensor_type(op, MOE__X), "operand", moe__tensor_type(op, MOE__Q),
                         moe__tensor_type(op, MOE__SCALES));
}

bool moe__check_mx_quantize_dual(MlirOperation op) {
  MlirType x = moe__tensor_type(op, MOE__X);
  if (!check_mx_block(op))
    return false;
  int rank = (int)mlirShapedTypeGetRank(x);
  for (int i = rank - 2; i < rank; i++)
    if (moe__static_dimension(x, i) > 0 && moe__static_dimension(x, i) % MOE_MX_BLOCK)
      return moe__error(op,
                        "dimension %d has size %lld; both axes must have a multiple of %d, the "
                        "size of an MX block",
                        i, (long long)moe__static_dimension(x, i), MOE_MX_BLOCK);
  return true;
}

/* A dimension along which there are MX blocks. */
static bool check_rounded(MlirOperation op, int dimension) {
  int64_t size = moe__static_dimension(moe__tensor_type(op, MOE__X), dimension);
  bool in_groups = dimension == 0 && !mlirValueIsNull(moe__operand(op, MOE__OFFS));
  return size < 0 || in_groups || size % MOE_MX_BLOCK == 0 ||
         moe__error(op, "dimension %d, the axis, has size %lld; it must be a multiple of %d",
                    dimension, (long long)size, MOE_MX_BLOCK);
}

bool moe__check_round(MlirOperation op) {
  int rank = (int)mlirShapedTypeGetRank(moe__tensor_type(op, MOE__X));
  if (!check_mx_block(op))
    return false;
  if (moe__is(op, MOE__OP_ROUND_DUAL))
    return check_rounded(op, rank - 2) && check_rounded(op, rank - 1);
  int64_t axis = moe__op_integer(op, "axis");
  if (axis < 0 || axis >= rank)
    return moe__error(op, "attribute 'axis' is %lld; it must be 0 to %d", (long long)axis,
                      rank - 1);
  if (!mlirValueIsNull(moe__operand(op, MOE__OFFS)) && (rank != 2 || axis != 0))
    return refuse_groups(op);
  return check_rounded(op, (int)axis);
}

/* The tensor that is scaled is operand 0 of every op: x, or of a dequantize q. */
static int scaled_rank(MlirOperation op) {
  return (int)mlirShapedTypeGetRank(mlirValueGetType(mlirOperationGetOperand(op, 0)));
}

/* Of tokens in groups, along which q is quantized, there is room for a multiple; where groups begin
 * at multiples, for one more in each group. */
static void append_quantized(MlirOperation op, int axis, int offs, moe__shape_t *out) {
  for (int d = 0; d < scaled_rank(op); d++)
    if (d == 0 && offs >= 0 && axis == 0)
      moe__append_padded(out, 0, d, MOE_TOKEN_MULTIPLE, moe__group_align(op) ? offs : -1);
    else
      moe__append_copy(out, 0, d);
}

/* Tokens in groups, along which q is quantized, have room for a multiple; their scales for the
 * blocks of that, and one more in each group. Where groups begin at multiples, the scales are those
 * of all blocks of q. */
void moe__mx_shape(MlirOperation op, moe__role_t role, moe__shape_t *out) {
  int offs = moe__operand_number(op, MOE__OFFS), axis = (int)moe__op_integer(op, "axis");
  if (role == MOE__Q) {
    append_quantized(op, axis, offs, out);
    return;
  }
  for (int d = 0; d < scaled_rank(op); d++)
    moe__append_divided(out, 0, d, d == axis ? MOE_MX_BLOCK : 1);
  if (offs < 0)
    return;
  if (moe__is(op, MOE__OP_DEQUANTIZE)) { /* whose q has that room already */
    out->sizes[0].groups_operand = moe__group_align(op) ? -1 : offs;
    return;
  }
  out->sizes[0].divisor = MOE_TOKEN_MULTIPLE;
  out->sizes[0].multiple = MOE_TOKEN_MULTIPLE / MOE_MX_BLOCK;
  out->sizes[0].groups_operand = offs;
  out->sizes[0].groups_apart = !moe__group_align(op);
}

/* ---- FP8 with f32 scales ---- */

/* What the ranks, the axis and the groups of each granularity are. */
bool moe__check_granularity(MlirOperation op) {
  moe__granularity_t granularity = moe__op_granularity(op);
  const char *name = moe__granularity_name(granularity);
  int rank = scaled_rank(op);
  int64_t axis = moe__op_integer(op, "axis");
  bool grouped = !mlirValueIsNull(moe__operand(op, MOE__OFFS));
  if (axis < rank - 2 || axis >= rank)
    return moe__error(op, "attribute 'axis' is %lld; it must be %d or %d, one of the last two",
                      (long long)axis, rank - 2, rank - 1);
  if (granularity == MOE__EXPERT && rank != 3)
    return moe__error(op, "the tensor has rank %d; with granularity \"expert\" it must be 3", rank);
  if (granularity == MOE__GROUP && rank != 2)
    return moe__error(op, "the tensor has rank %d; with granularity \"group\" it must be 2", rank);
  bool along_axis = granularity == MOE__ROW || granularity == MOE__1X128;
  bool needs_groups = granularity == MOE__GROUP || (along_axis && axis == 0);
  if (needs_groups && !grouped)
    return moe__error(op,
                      "operand 'offs' is missing; with granularity \"%s\" and axis %lld there is "
                      "a scale for each group",
                      name, (long long)axis);
  if (grouped && !needs_groups)
    return moe__error(op,
                      "operand 'offs' must not be there: with granularity \"%s\" and axis %lld no "
                      "scale belongs to a group",
                      name, (long long)axis);
  return moe__check_aligned(op);
}

/* One scale for each slice along the axis. Groups cut dimension 0. */
static void append_rows(MlirOperation op, int axis, int offs, moe__shape_t *out) {
  if (axis == 0 && offs >= 0)
    moe__append_copy(out, offs, 0);
  for (int d = 0; d < scaled_rank(op); d++)
    if (d != axis)
      moe__append_copy(out, 0, d);
}

/* One scale for each FP8 block, of 1x128 along the axis. Those of tokens in groups begin with their
 * group: each group has room for one more. */
static void append_blocks(MlirOperation op, moe__granularity_t granularity, int axis, int offs,
                          moe__shape_t *out) {
  int rank = scaled_rank(op);
  for (int d = 0; d < rank; d++) {
    bool is_cut = d == axis || (granularity == MOE__128X128 && d >= rank - 2);
    moe__append_divided(out, 0, d, is_cut ? MOE_FP8_BLOCK : 1);
    if (d == 0 && axis == 0 && offs >= 0)
      out->sizes[out->rank - 1].groups_operand = offs;
  }
}

/* The scales along this axis. offs: number of the operand, -1 where no groups cut it. */
static void append_scales(MlirOperation op, moe__granularity_t granularity, int axis, int offs,
                          moe__shape_t *out) {
  switch (granularity) {
  case MOE__ROW:
    append_rows(op, axis, offs, out);
    return;
  case MOE__TENSOR:
    moe__append_constant(out, 1);
    return;
  case MOE__EXPERT:
    moe__append_copy(out, 0, 0);
    return;
  case MOE__GROUP:
    moe__append_copy(out, offs, 0);
    return;
  case MOE__1X128:
  case MOE__128X128:
    append_blocks(op, granularity, axis, offs, out);
    return;
  }
}

/* The state of a first pass has a maximum and a counter for each scale. */
void moe__fp8_shape(MlirOperation op, moe__role_t role, moe__shape_t *out) {
  int offs = moe__operand_number(op, MOE__OFFS), axis = (int)moe__op_integer(op, "axis");
  if (role == MOE__Q) {
    append_quantized(op, axis, offs, out);
    return;
  }
  if (role == MOE__STATE)
    moe__append_constant(out, 2);
  append_scales(op, moe__op_granularity(op), axis, offs, out);
}

/* Along the last dimension (scales), and along the one before it (_t), which groups cut. */
void moe__fp8_dual_shape(MlirOperation op, moe__role_t role, moe__shape_t *out) {
  int last = scaled_rank(op) - 1, offs = moe__operand_number(op, MOE__OFFS);
  bool is_scale = role == MOE__SCALES || role == MOE__SCALES_T;
  bool is_last = role == MOE__SCALES || role == MOE__Q;
  int axis = is_last ? last : last - 1, groups = is_last ? -1 : offs;
  if (is_scale)
    append_scales(op, moe__op_granularity(op), axis, groups, out);
  else
    append_quantized(op, axis, groups, out);
}

bool moe__check_fp8_dual(MlirOperation op) {
  moe__granularity_t granularity = moe__op_granularity(op);
  if (granularity != MOE__ROW && granularity != MOE__1X128 && granularity != MOE__128X128)
    return moe__error(op,
                      "granularity \"%s\" has the same scales along both axes; quantize once for "
                      "each",
                      moe__granularity_name(granularity));
  if (granularity == MOE__128X128 && scaled_rank(op) != 3)
    return moe__error(op, "the tensor has rank 2; with granularity \"128x128\" it must be 3");
  return moe__check_aligned(op);
}

/* ---- Layouts ---- */

bool moe__check_groups_moved(MlirOperation op) {
  int64_t align = moe__op_integer(op, "align");
  if (align < 1 || align > MOE_MAX_ALIGN)
    return moe__error(op, "attribute 'align' is %lld; it must be 1 to %d", (long long)align,
                      MOE_MAX_ALIGN);
  MlirType from = mlirValueGetType(mlirOperationGetOperand(op, 0)),
           to = mlirValueGetType(mlirOperationGetResult(op, 0));
  return mlirTypeEqual(mlirShapedTypeGetElementType(from), mlirShapedTypeGetElementType(to)) ||
         moe__error(op, "the rows that come out must have the element type of those that go in");
}

static bool is_packed_in_tiles(MlirOperation op) {
  return mlirStringRefEqual(moe__op_string(op, "layout"), mlirStringRefCreateFromCString("128x4"));
}

/* Tiles are of E8M0 scales; rows side by side of f32 scales, which no groups cut. */
bool moe__check_pack_scales(MlirOperation op) {
  bool in_tiles = is_packed_in_tiles(op);
  MlirType types[] = {moe__tensor_type(op, MOE__SCALES), moe__tensor_type(op, MOE__PACKED)};
  for (int i = 0; i < 2; i++)
    if (in_tiles == mlirTypeIsAF32(mlirShapedTypeGetElementType(types[i])))
      return moe__error(op, "layout \"%s\" is of %s scales", in_tiles ? "128x4" : "rows_innermost",
                        in_tiles ? "f8E8M0FNU" : "f32");
  return in_tiles || mlirValueIsNull(moe__operand(op, MOE__OFFS)) ||
         moe__error(op,
                    "operand 'offs' must not be there: layout \"rows_innermost\" has no groups");
}

void moe__packed_shape(MlirOperation op, moe__role_t role, moe__shape_t *out) {
  (void)role;
  if (!is_packed_in_tiles(op)) {
    moe__append_copy(out, 0, 0);
    moe__append_copy(out, 0, 1);
    return;
  }
  moe__append_padded(out, 0, 0, MOE_PACKED_ROWS, moe__operand_number(op, MOE__OFFS));
  moe__append_padded(out, 0, 1, MOE_PACKED_COLUMNS, -1);
}

void moe__padded_shape(MlirOperation op, moe__role_t role, moe__shape_t *out) {
  (void)role;
  moe__append_padded(out, 0, 0, moe__op_integer(op, "align"), moe__operand_number(op, MOE__OFFS));
  moe__append_copy(out, 0, 1);
}
