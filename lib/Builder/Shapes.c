/* Shapes.c - see Shapes.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Builder/Shapes.h"

#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/BuiltinTypes.h"

#include <stddef.h>

#define MX_BLOCK 32
#define FP8_BLOCK 128
#define PACKED_ROWS 128
#define PACKED_COLUMNS 4

MlirValue moe__op_operand(MlirOperation op, int index) {
  return index >= 0 && index < mlirOperationGetNumOperands(op) ? mlirOperationGetOperand(op, index)
                                                               : (MlirValue){NULL};
}

static int rank_of_operand(MlirOperation op, int operand) {
  return (int)mlirShapedTypeGetRank(mlirValueGetType(mlirOperationGetOperand(op, operand)));
}

moe__granularity_t moe__op_granularity(MlirOperation op) {
  MlirStringRef name = moe__op_string(op, "granularity");
#define MOE__GRANULARITY(constant, text)                                                           \
  if (mlirStringRefEqual(name, mlirStringRefCreateFromCString(text)))                              \
    return constant;
  MOE__GRANULARITIES(MOE__GRANULARITY)
#undef MOE__GRANULARITY
  return MOE__ROW;
}

const char *moe__granularity_name(moe__granularity_t granularity) {
#define MOE__GRANULARITY(constant, text)                                                           \
  if (granularity == constant)                                                                     \
    return text;
  MOE__GRANULARITIES(MOE__GRANULARITY)
#undef MOE__GRANULARITY
  return NULL;
}

moe__mm_case_t moe__mm_case(MlirOperation op) {
  switch (10 * rank_of_operand(op, 0) + rank_of_operand(op, 1)) {
  case 23:
    return MOE__FORWARD;
  case 22:
    return MOE__GRADIENT;
  case 33:
    return MOE__BATCHED;
  default:
    return MOE__NO_CASE;
  }
}

/* ---- Sizes ---- */

static moe__size_t copy(int operand, int dimension) {
  return (moe__size_t){.operand = operand,
                       .dimension = dimension,
                       .groups_operand = -1,
                       .divisor = 1,
                       .multiple = 1};
}

static moe__size_t constant(int64_t value) {
  return (moe__size_t){.operand = -1, .groups_operand = -1, .divisor = 1, .multiple = value};
}

static moe__size_t blocks(int operand, int dimension, int64_t block) {
  moe__size_t size = copy(operand, dimension);
  size.divisor = block;
  return size;
}

/* Up to a multiple, with room for one more in each group. */
static moe__size_t padded(int operand, int dimension, int64_t multiple, int groups_operand) {
  moe__size_t size = blocks(operand, dimension, multiple);
  size.multiple = multiple;
  size.groups_operand = groups_operand;
  return size;
}

static void append(moe__shape_t *shape, moe__size_t size) {
  shape->sizes[shape->rank++] = size;
}

static void append_all(moe__shape_t *shape, MlirOperation op, int operand) {
  for (int d = 0; d < rank_of_operand(op, operand); d++)
    append(shape, copy(operand, d));
}

/* ---- Scales ---- */

static void mx_scales(MlirOperation op, int axis, moe__shape_t *shape) {
  for (int d = 0; d < rank_of_operand(op, 0); d++)
    append(shape, d == axis ? blocks(0, d, MX_BLOCK) : copy(0, d));
}

/* One scale for each slice of operand number `tensor` along `axis`. Groups cut dimension 0. */
static void row_scales(MlirOperation op, int tensor, int axis, int offs, moe__shape_t *shape) {
  if (axis == 0 && offs >= 0)
    append(shape, copy(offs, 0));
  for (int d = 0; d < rank_of_operand(op, tensor); d++)
    if (d != axis)
      append(shape, copy(tensor, d));
}

static void fp8_scales(MlirOperation op, int offs, moe__shape_t *shape) {
  int rank = rank_of_operand(op, 0), axis = (int)moe__op_integer(op, "axis");
  switch (moe__op_granularity(op)) {
  case MOE__ROW:
    row_scales(op, 0, axis, offs, shape);
    return;
  case MOE__TENSOR:
    append(shape, constant(1));
    return;
  case MOE__EXPERT:
    append(shape, copy(0, 0));
    return;
  case MOE__GROUP:
    append(shape, copy(offs, 0));
    return;
  case MOE__1X128:
  case MOE__128X128:
    for (int d = 0; d < rank; d++) {
      bool square = moe__op_granularity(op) == MOE__128X128 && d == rank - 2;
      append(shape, d == rank - 1 || square ? blocks(0, d, FP8_BLOCK) : copy(0, d));
    }
    return;
  }
}

/* The state of a first pass: a maximum and a counter for each scale. */
static void with_state(moe__shape_t *shape) {
  for (int d = shape->rank; d > 0; d--)
    shape->sizes[d] = shape->sizes[d - 1];
  shape->sizes[0] = constant(2);
  shape->rank++;
}

/* ---- Ops ---- */

/* The last operand where it is optional and there: `least` operands are always there. */
static int optional_operand(MlirOperation op, int least) {
  return mlirOperationGetNumOperands(op) > least ? least : -1;
}

static void scaled_mm(MlirOperation op, moe__shape_t *shape) {
  int last = rank_of_operand(op, 1) - 1;
  if (last == 1) /* (N,M) times (M,K) gives (E,N,K); (M,K) times (E,K,N) gives (M,N) */
    append(shape, copy(4, 0));
  append(shape, copy(0, 0));
  if (rank_of_operand(op, 0) == 3)
    append(shape, copy(0, 1));
  append(shape, copy(1, last));
}

bool moe__is_scaled_mm(MlirOperation op) {
  return moe__op_is(op, "scaled_grouped_mm.scaled_mm") ||
         moe__op_is(op, "scaled_grouped_mm.scaled_mm_bias");
}

#define MM_OPERANDS 4 /* without offs and bias */

int moe__mm_bias_operand(MlirOperation op) {
  return moe__op_is(op, "scaled_grouped_mm.scaled_mm_bias")
             ? (int)mlirOperationGetNumOperands(op) - 1
             : -1;
}

int moe__mm_offs_operand(MlirOperation op) {
  bool biased = moe__mm_bias_operand(op) >= 0;
  return mlirOperationGetNumOperands(op) > MM_OPERANDS + biased ? MM_OPERANDS : -1;
}

/* sa (operand 2) belongs to qa, sb (3) to qb, and the bias has a row for each expert too. */
static void mm_scales(MlirOperation op, int operand, moe__shape_t *shape) {
  enum { QA, QB, SA, SB };
  int of = operand == SA ? QA : QB, rank = rank_of_operand(op, of);
  moe__mm_case_t product = moe__mm_case(op);
  MlirType type = mlirValueGetType(mlirOperationGetOperand(op, operand));
  if (operand == SA && product == MOE__FORWARD) {
    bool one = !mlirShapedTypeIsDynamicDim(type, 0) && mlirShapedTypeGetDimSize(type, 0) == 1;
    append(shape, one ? constant(1) : copy(QA, 0));
    return;
  }
  append(shape, product == MOE__GRADIENT ? copy(moe__mm_offs_operand(op), 0) : copy(of, 0));
  if (rank_of_operand(op, operand) == 2) /* the dimension that is not summed over */
    append(shape, copy(of, of == QA ? rank - 2 : rank - 1));
}

static void pack_scales(MlirOperation op, moe__shape_t *shape) {
  append(shape, padded(0, 0, PACKED_ROWS, optional_operand(op, 1)));
  append(shape, padded(0, 1, PACKED_COLUMNS, -1));
}

static void pad_groups(MlirOperation op, int result, moe__shape_t *shape) {
  if (result == 1) {
    append(shape, copy(1, 0));
    return;
  }
  append(shape, padded(0, 0, moe__op_integer(op, "align"), 1));
  append(shape, copy(0, 1));
}

bool moe__result_shape(MlirOperation op, int result, moe__shape_t *out) {
  *out = (moe__shape_t){0};
  int last = rank_of_operand(op, 0) - 1;
  if (moe__is_scaled_mm(op)) {
    scaled_mm(op, out);
  } else if (moe__op_is(op, "mx_quantize.quantize")) {
    if (result == 0)
      append_all(out, op, 0);
    else
      mx_scales(op, (int)moe__op_integer(op, "axis"), out);
  } else if (moe__op_is(op, "mx_quantize.quantize_dual")) {
    if (result % 2 == 0)
      append_all(out, op, 0);
    else
      mx_scales(op, result == 1 ? last : last - 1, out);
  } else if (moe__op_is(op, "mx_quantize.quantize_fp8")) {
    if (result == 0)
      append_all(out, op, 0);
    else
      fp8_scales(op, optional_operand(op, 1), out);
  } else if (moe__op_is(op, "mx_quantize.quantize_fp8_dual")) {
    if (result % 2 == 0)
      append_all(out, op, 0);
    else
      row_scales(op, 0, result == 1 ? last : last - 1, optional_operand(op, 1), out);
  } else if (moe__op_is(op, "mx_quantize.quantize_fp8_pair")) {
    if (result % 2 == 0)
      append_all(out, op, result / 2);
    else
      row_scales(op, result / 2, 0, 2, out);
  } else if (moe__op_is(op, "mx_quantize.scale_fp8")) {
    fp8_scales(op, optional_operand(op, 1), out);
    if (result == 2)
      with_state(out);
  } else if (moe__op_is(op, "mx_quantize.scale_fp8_dual")) {
    row_scales(op, 0, result < 3 ? last : last - 1, optional_operand(op, 1), out);
    if (result % 3 == 2)
      with_state(out);
  } else if (moe__op_is(op, "mx_quantize.scale_fp8_pair")) {
    row_scales(op, result / 3, 0, 2, out);
    if (result % 3 == 2)
      with_state(out);
  } else if (moe__op_is(op, "mx_quantize.cast_fp8_pair")) {
    append_all(out, op, result);
  } else if (moe__op_is(op, "mx_quantize.cast_fp8") ||
             moe__op_is(op, "mx_quantize.cast_fp8_dual") ||
             moe__op_is(op, "mx_quantize.dequantize") ||
             moe__op_is(op, "mx_quantize.dequantize_fp8") ||
             moe__op_is(op, "mx_quantize.unpad_groups")) {
    append_all(out, op, 0);
  } else if (moe__op_is(op, "mx_quantize.pack_scales")) {
    pack_scales(op, out);
  } else if (moe__op_is(op, "mx_quantize.pad_groups")) {
    pad_groups(op, result, out);
  } else {
    return false;
  }
  return true;
}

void moe__scales_shape(MlirOperation op, int operand, moe__shape_t *out) {
  *out = (moe__shape_t){0};
  int last = rank_of_operand(op, 0) - 1;
  if (moe__op_in_dialect(op, "scaled_grouped_mm"))
    mm_scales(op, operand, out);
  else if (moe__op_is(op, "mx_quantize.cast_fp8_dual"))
    row_scales(op, 0, operand == 1 ? last : last - 1, optional_operand(op, 3), out);
  else if (moe__op_is(op, "mx_quantize.cast_fp8_pair"))
    row_scales(op, operand - 2, 0, 4, out);
  else if (moe__op_is(op, "mx_quantize.dequantize"))
    mx_scales(op, (int)moe__op_integer(op, "axis"), out);
  else
    fp8_scales(op, optional_operand(op, 2), out);
}
