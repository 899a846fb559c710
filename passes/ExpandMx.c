/* ExpandMx.c - chooses how a product of operands in MX blocks is computed, and builds that.
 *
 * Hopper has no instruction that scales MX blocks. There are three ways:
 *
 * - by blocks: one kernel multiplies in FP8 and scales each sum of 32 in registers. It reads a byte
 *   for an element and needs no room; its additions take more time than its products.
 * - as bf16: the operands' numbers are made, which bf16 has, and multiplied. Forward one kernel
 *   does both at the same time; else numbers are made first.
 *
 *   out = scaled_mm qa, qb, sa, sb {accumulate = "fast"}      a   = dequantize qa, sa
 *                                                        ->   b   = dequantize qb, sb
 *                                                             out = mm a, b
 *
 *                                                        ->   out = dequantize_mm qa, qb, sa, sb
 *
 * - mixed: only the tokens' numbers are made first; the weights become bf16 in the kernel that
 *   multiplies them, which reads a byte for each. Up to some tokens for each expert both become
 *   f16, which takes fewer instructions.
 *
 *                                                             a   = dequantize qa, sa {order}
 *                                                        ->   out = mixed_mm qb, sb, a
 *
 *                                                          a, sx  = dequantize_f16 qa, sa {order}
 *                                                        ->   out = mixed_mm_scaled qb, sb, a, sx
 *
 * `accumulate = "promoted"` asks for the first. "fast" leaves the choice to this file, and to
 * nothing else: mixed up to so many tokens for each expert that the weights' bytes are little
 * beside them, and bf16 with more; blocks, of which the sums are promoted then, with few tokens
 * where mixed is not known to be faster. A tensor that is dequantized by a launch of its own for
 * one product is not dequantized again for another.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "passes/ExpandMx.h"

#include "lib/Builder/Views.h"
#include "lib/Dialect/Dialect.h"
#include "lib/Dialect/Shapes.h"
#include "lib/Kernels/Requirements.h"
#include "lib/Kernels/mixed_mm/F16.h"
#include "passes/Share.h"

#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/BuiltinTypes.h"

/* The factors of the product. */
enum { A, B };

static const moe__role_t QUANTIZED[] = {[A] = MOE__QA, [B] = MOE__QB};
static const moe__role_t SCALES[] = {[A] = MOE__SA, [B] = MOE__SB};

/* ---- The choice ---- */

typedef enum way_t {
  BY_BLOCKS,
  AS_BF16,
  MIXED,
} way_t;

static bool is_fast(MlirOperation op) {
  return mlirStringRefEqual(moe__op_string(op, "accumulate"),
                            mlirStringRefCreateFromCString("fast"));
}

/* Whether both operands lie in memory as the product by blocks takes them, which are the orders
 * that the dequantizers know. */
static bool has_known_orders(MlirOperation op) {
  MlirType sa = moe__tensor_type(op, MOE__SA), sb = moe__tensor_type(op, MOE__SB);
  bool is_gradient = moe__mm_case(op) == MOE__GRADIENT;
  return moe__is_row_major(moe__tensor_type(op, MOE__QA)) &&
         moe__is_column_major(moe__tensor_type(op, MOE__QB)) && moe__is_row_major(sa) &&
         (moe__is_row_major(sb) || (!is_gradient && moe__is_column_major(sb)));
}

static bool is_whole(int64_t size, int64_t of) {
  return size < 0 || size % of == 0;
}

/* Whether the sizes that are known are those that a dequantizer and a product of bf16 take. */
static bool has_known_sizes(MlirOperation op) {
  enum { VECTOR = 16 };
  MlirType qa = moe__tensor_type(op, MOE__QA), qb = moe__tensor_type(op, MOE__QB);
  if (moe__mm_case(op) != MOE__GRADIENT) /* K is whole MX blocks, and N whole vectors */
    return is_whole(moe__static_dimension(qb, 2), VECTOR);
  return is_whole(moe__static_dimension(qa, 0), VECTOR) &&
         is_whole(moe__static_dimension(qa, 1), VECTOR) &&
         is_whole(moe__static_dimension(qb, 1), VECTOR);
}

/* Of each expert, on average, where weights of bf16 would cost more than sums that are scaled. */
#define MOST_TOKENS_BY_BLOCKS 256

/* Whether mixed_mm takes the weights as they are: E4M3, and scales of which those of a column are
 * read 16 at once where they lie side by side. Results of 32 bits would show what long sums
 * lose. */
static bool has_mixed_weights(MlirOperation op) {
  MlirType qb = moe__tensor_type(op, MOE__QB), sb = moe__tensor_type(op, MOE__SB);
  int64_t k = moe__static_dimension(qb, 1);
  if (moe__mm_case(op) != MOE__FORWARD ||
      !mlirTypeIsAFloat8E4M3FN(mlirShapedTypeGetElementType(qb)) ||
      mlirTypeIsAF32(moe__element_type(op, MOE__OUT)))
    return false;
  return moe__is_row_major(sb) || (k >= 0 && k % (16 * (int64_t)MOE_MX_BLOCK) == 0);
}

/* Of each expert, on average, up to which making the weights takes longer than multiplying them
 * (docs/performance/grouped_mx_blocks.md). */
#define MOST_TOKENS_MIXED 1152

/* Whether the tokens of a mixed product become f16: those of E5M2 have too wide a range, and no
 * product with scales of tokens has a bias. */
static bool is_in_f16(MlirOperation op) {
  int64_t tokens = moe__static_dimension(moe__tensor_type(op, MOE__QA), 0);
  int64_t experts = moe__static_dimension(moe__tensor_type(op, MOE__QB), 0);
  return mlirTypeIsAFloat8E4M3FN(moe__element_type(op, MOE__QA)) &&
         mlirValueIsNull(moe__operand(op, MOE__BIAS)) && tokens <= MOE__MX_MOST_IN_F16 * experts;
}

/* Of few tokens, whose weights are read once. */
static bool is_faster_mixed_with_few(MlirOperation op, int64_t tokens, int64_t experts) {
  MlirType qb = moe__tensor_type(op, MOE__QB);
  int64_t rows = moe__static_dimension(qb, 2), columns = moe__static_dimension(qb, 1);
  return tokens > 0 && rows > 0 && columns > 0 &&
         moe__mixed_is_faster_than_blocks(tokens, experts, rows, columns,
                                          !moe__is_row_major(moe__tensor_type(op, MOE__SB)),
                                          is_in_f16(op));
}

static way_t way_of(MlirOperation op) {
  if (!is_fast(op) || !has_known_orders(op) || !has_known_sizes(op))
    return BY_BLOCKS;
  bool is_few = moe__has_few_tokens(op);
  int64_t tokens = moe__static_dimension(moe__tensor_type(op, MOE__QA), 0);
  int64_t experts = moe__static_dimension(moe__tensor_type(op, MOE__QB), 0);
  if (moe__mm_case(op) != MOE__FORWARD || tokens < 0 || experts < 0)
    return is_few ? BY_BLOCKS : AS_BF16;
  if (has_mixed_weights(op) && tokens <= MOST_TOKENS_MIXED * experts &&
      (!is_few || is_faster_mixed_with_few(op, tokens, experts)))
    return MIXED;
  return tokens <= MOST_TOKENS_BY_BLOCKS * experts ? BY_BLOCKS : AS_BF16;
}

/* ---- Building ---- */

/* Writes the dimensions of a tensor type; returns their number. */
static int shape_of(MlirType type, int64_t shape[MOE__MAX_RANK]) {
  int rank = (int)mlirShapedTypeGetRank(type);
  for (int d = 0; d < rank; d++)
    shape[d] = mlirShapedTypeGetDimSize(type, d);
  return rank;
}

/* q's type with elements of bf16: row-major, or in q's order in memory. */
static MlirType bf16_like(MlirType q, bool same_order) {
  int64_t shape[MOE__MAX_RANK];
  int rank = shape_of(q, shape);
  return mlirRankedTensorTypeGet(rank, shape, mlirBF16TypeGet(mlirTypeGetContext(q)),
                                 same_order ? mlirRankedTensorTypeGetEncoding(q)
                                            : mlirAttributeGetNull());
}

static void set_string(moe__builder_t *b, MlirOperation op, const char *name, const char *value) {
  moe__op_set_attribute(op, name,
                        mlirStringAttrGet(b->context, mlirStringRefCreateFromCString(value)));
}

/* Dequantizes a tensor along `axis`, in groups where offs is not null. The result is row-major; but
 * tokens of aligned groups, which a product takes in either order, lie as in q, so that nothing is
 * transposed. order: of the columns; NULL: as they are. */
static MlirValue dequantize(moe__builder_t *b, MlirValue q, MlirValue scales, MlirValue offs,
                            int64_t axis, MlirAttribute align, const char *order) {
  MlirType type = bf16_like(mlirValueGetType(q), !mlirAttributeIsNull(align));
  MlirOperation op =
      moe__op(b, moe__op_id_name(MOE__OP_DEQUANTIZE), 1, &type, mlirValueIsNull(offs) ? 2 : 3,
              (MlirValue[]){q, scales, offs}, NULL, 0, NULL);
  moe__op_set_attribute(op, "axis", mlirIntegerAttrGet(b->i64, axis));
  moe__op_set_attribute(op, "block", mlirIntegerAttrGet(b->i64, MOE_MX_BLOCK));
  if (!mlirAttributeIsNull(align))
    moe__op_set_attribute(op, "align", align);
  if (order)
    set_string(b, op, "order", order);
  return moe__result(moe__share(op), MOE__X);
}

/* The numbers of an operand, seen with its dimensions. Dequantizers read and write scales and
 * results row-major, and q along the axis: an operand that lies otherwise is seen as one that lies
 * so. */
static MlirValue numbers_of(moe__builder_t *b, MlirOperation op, int which) {
  MlirValue q = moe__operand(op, QUANTIZED[which]), scales = moe__operand(op, SCALES[which]);
  bool is_gradient = moe__mm_case(op) == MOE__GRADIENT;
  int64_t rank = mlirShapedTypeGetRank(mlirValueGetType(q));
  if (is_gradient) { /* tokens come first */
    MlirValue offs = moe__operand(op, MOE__OFFS);
    MlirAttribute align = moe__op_attribute(op, "align");
    if (which == B)
      return dequantize(b, q, scales, offs, 0, align, NULL);
    return moe__swapped_view(b,
                             dequantize(b, moe__swapped_view(b, q), scales, offs, 0, align, NULL));
  }
  MlirValue none = {NULL};
  if (which == A)
    return dequantize(b, q, scales, none, rank - 1, mlirAttributeGetNull(), NULL);
  if (moe__is_row_major(mlirValueGetType(scales)))
    return dequantize(b, q, scales, none, rank - 2, mlirAttributeGetNull(), NULL);
  return moe__swapped_view(b, dequantize(b, moe__swapped_view(b, q), moe__swapped_view(b, scales),
                                         none, rank - 1, mlirAttributeGetNull(), NULL));
}

static void replace(MlirOperation op, MlirOperation product) {
  mlirValueReplaceAllUsesOfWith(moe__result(op, MOE__OUT), moe__result(product, MOE__OUT));
  mlirOperationDestroy(op);
}

/* dequantize_f16: x and the scales of its rows. */
static MlirOperation dequantize_in_f16(moe__builder_t *b, MlirOperation product) {
  MlirValue operands[] = {moe__operand(product, MOE__QA), moe__operand(product, MOE__SA)};
  int64_t shape[MOE__MAX_RANK];
  int rank = shape_of(mlirValueGetType(operands[0]), shape);
  MlirType types[] = {
      mlirRankedTensorTypeGet(rank, shape, moe__type(b, "f16"), mlirAttributeGetNull()),
      mlirRankedTensorTypeGet(1, shape, b->f32, mlirAttributeGetNull())};
  MlirOperation op =
      moe__op(b, moe__op_id_name(MOE__OP_DEQUANTIZE_F16), 2, types, 2, operands, NULL, 0, NULL);
  set_string(b, op, "order", "evens_first");
  return moe__share(op);
}

/* Weights are seen as rows of columns that are summed over. */
static void multiply_mixed(MlirOperation op) {
  moe__builder_t b = moe__builder_before(op);
  MlirValue none = {NULL}, offs = moe__operand(op, MOE__OFFS), bias = moe__operand(op, MOE__BIAS);
  MlirValue operands[5] = {moe__swapped_view(&b, moe__operand(op, MOE__QB)),
                           moe__swapped_view(&b, moe__operand(op, MOE__SB))};
  moe__op_id_t id = mlirValueIsNull(bias) ? MOE__OP_MIXED_MM : MOE__OP_MIXED_MM_BIAS;
  int count = 2;
  if (is_in_f16(op)) {
    MlirOperation tokens = dequantize_in_f16(&b, op);
    id = MOE__OP_MIXED_MM_SCALED;
    operands[count++] = moe__result(tokens, MOE__X);
    operands[count++] = moe__result(tokens, MOE__SCALES_X);
  } else {
    operands[count++] = dequantize(&b, moe__operand(op, MOE__QA), moe__operand(op, MOE__SA), none,
                                   1, mlirAttributeGetNull(), "evens_first");
  }
  operands[count++] = offs;
  if (!mlirValueIsNull(bias))
    operands[count++] = bias;
  MlirType out = moe__tensor_type(op, MOE__OUT);
  MlirOperation product = moe__op(&b, moe__op_id_name(id), 1, &out, count, operands, NULL, 0, NULL);
  set_string(&b, product, "format", "f8E4M3FN");
  set_string(&b, product, "layout", "evens_first");
  moe__op_set_attribute(product, "group_size", mlirIntegerAttrGet(b.i64, MOE_MX_BLOCK));
  replace(op, product);
}

/* The type of counts of panels, whose shape is [experts,] panels of so many rows; -1: not known. */
static MlirType panels_type(moe__builder_t *b, int rank, int64_t experts, int64_t rows) {
  int64_t panels = rows < 0 ? rows : (rows + MOE_PANEL_ROWS - 1) / MOE_PANEL_ROWS;
  int64_t shape[] = {experts, panels};
  for (int i = 0; i < 2; i++)
    if (shape[i] < 0)
      shape[i] = mlirShapedTypeGetDynamicSize();
  return mlirRankedTensorTypeGet(rank, shape + 2 - rank, b->i32, mlirAttributeGetNull());
}

/* Operands that the kernel makes. */
static void multiply_made(MlirOperation op) {
  moe__builder_t b = moe__builder_before(op);
  MlirType qa = moe__tensor_type(op, MOE__QA), qb = moe__tensor_type(op, MOE__QB);
  MlirValue bias = moe__operand(op, MOE__BIAS);
  MlirValue operands[] = {moe__operand(op, MOE__QA),   moe__operand(op, MOE__QB),
                          moe__operand(op, MOE__SA),   moe__operand(op, MOE__SB),
                          moe__operand(op, MOE__OFFS), bias};
  MlirType results[] = {
      moe__tensor_type(op, MOE__OUT), bf16_like(qa, false), bf16_like(qb, true),
      panels_type(&b, 1, 0, moe__static_dimension(qa, 0)),
      panels_type(&b, 2, moe__static_dimension(qb, 0), moe__static_dimension(qb, 2))};
  bool has_bias = !mlirValueIsNull(bias);
  moe__op_id_t id = has_bias ? MOE__OP_DEQUANTIZE_MM_BIAS : MOE__OP_DEQUANTIZE_MM;
  replace(op,
          moe__op(&b, moe__op_id_name(id), 5, results, has_bias ? 6 : 5, operands, NULL, 0, NULL));
}

static void multiply_as_bf16(MlirOperation op) {
  moe__builder_t b = moe__builder_before(op);
  MlirValue operands[4], bias = moe__operand(op, MOE__BIAS), offs = moe__operand(op, MOE__OFFS);
  int count = 0;
  for (int i = A; i <= B; i++)
    operands[count++] = numbers_of(&b, op, i);
  if (!mlirValueIsNull(offs))
    operands[count++] = offs;
  if (!mlirValueIsNull(bias))
    operands[count++] = bias;
  MlirType out = moe__tensor_type(op, MOE__OUT);
  moe__op_id_t id = mlirValueIsNull(bias) ? MOE__OP_MM : MOE__OP_MM_BIAS;
  MlirOperation product = moe__op(&b, moe__op_id_name(id), 1, &out, count, operands, NULL, 0, NULL);
  MlirAttribute align = moe__op_attribute(op, "align");
  if (!mlirAttributeIsNull(align))
    moe__op_set_attribute(product, "align", align);
  replace(op, product);
}

bool moe__expand_mx_product(MlirOperation op) {
  way_t way = way_of(op);
  if (way != BY_BLOCKS && !mlirAttributeIsNull(moe__op_attribute(op, "schedule")))
    return moe__error(op,
                      "'schedule' is that of the kernel with promoted sums, and this becomes "
                      "another one, or several; write accumulate = \"promoted\", or %s, or %s and "
                      "%s to choose",
                      moe__op_id_name(MOE__OP_DEQUANTIZE_MM), moe__op_id_name(MOE__OP_DEQUANTIZE),
                      moe__op_id_name(MOE__OP_MM));
  if (way == AS_BF16 && moe__mm_case(op) == MOE__FORWARD)
    multiply_made(op);
  else if (way == AS_BF16)
    multiply_as_bf16(op);
  else if (way == MIXED)
    multiply_mixed(op);
  else
    moe__op_set_attribute(
        op, "accumulate",
        mlirStringAttrGet(mlirOperationGetContext(op), mlirStringRefCreateFromCString("promoted")));
  return true;
}
