/* ExpandQuantize.c - splits quantizations that take two passes over their input into these.
 *
 * A scale of more elements than one CTA can hold on chip is known only when all of the input has
 * been read. Then quantize_fp8 becomes
 *
 *   scales, factors, state = mx_quantize.scale_fp8 x     reads x, finds the scales
 *   q                      = mx_quantize.cast_fp8 x, factors
 *
 * and quantize_fp8_dual the same with both directions in each pass, quantize_fp8_pair with both
 * tensors. Along the last dimension, row by row or in FP8 blocks, one kernel does both, and
 * the op stays.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Builder/Builder.h"
#include "lib/Dialect/Row.h"
#include "passes/Passes.h"

#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/BuiltinTypes.h"

#include <stdlib.h>

/* The ops that may take two passes, and these. */
typedef struct expansion_t {
  moe__op_id_t whole, scale, cast;
} expansion_t;

static const expansion_t EXPANSIONS[] = {
    {MOE__OP_QUANTIZE_FP8, MOE__OP_SCALE_FP8, MOE__OP_CAST_FP8},
    {MOE__OP_QUANTIZE_FP8_DUAL, MOE__OP_SCALE_FP8_DUAL, MOE__OP_CAST_FP8_DUAL},
    {MOE__OP_QUANTIZE_FP8_PAIR, MOE__OP_SCALE_FP8_PAIR, MOE__OP_CAST_FP8_PAIR},
};

/* NULL for an op that never takes two. */
static const expansion_t *find_expansion(MlirOperation op) {
  for (size_t i = 0; i < sizeof EXPANSIONS / sizeof *EXPANSIONS; i++)
    if (moe__is(op, EXPANSIONS[i].whole))
      return &EXPANSIONS[i];
  return NULL;
}

static bool takes_two_passes(MlirOperation op) {
  moe__granularity_t granularity = moe__op_granularity(op);
  if (!moe__is(op, MOE__OP_QUANTIZE_FP8))
    return granularity == MOE__ROW; /* in both directions, or of two tensors */
  bool last =
      moe__op_integer(op, "axis") == mlirShapedTypeGetRank(moe__tensor_type(op, MOE__X)) - 1;
  return granularity == MOE__TENSOR || granularity == MOE__EXPERT || granularity == MOE__GROUP ||
         (granularity == MOE__ROW && !last);
}

/* A maximum and a counter for each scale: tensor<2x...xi32>. */
static MlirType state_type(MlirType scales) {
  int64_t shape[MOE__MAX_RANK] = {2};
  intptr_t rank = mlirShapedTypeGetRank(scales);
  for (intptr_t d = 0; d < rank; d++)
    shape[d + 1] = mlirShapedTypeGetDimSize(scales, d);
  MlirContext context = mlirTypeGetContext(scales);
  return mlirRankedTensorTypeGet(rank + 1, shape, mlirIntegerTypeGet(context, 32),
                                 mlirAttributeGetNull());
}

/* The attributes that the row of `to` has, as far as `from` has them. */
static void copy_attributes(MlirOperation from, MlirOperation to) {
  for (const moe__attribute_row_t *row = moe__op_rows[moe__op_id(to)].attributes; row->name; row++)
    if (!mlirAttributeIsNull(moe__op_attribute(from, row->name)))
      moe__op_set_attribute(to, row->name, moe__op_attribute(from, row->name));
}

/* One schedule cannot be that of two kernels. */
static bool has_no_schedule(MlirOperation op, const expansion_t *expansion) {
  return mlirAttributeIsNull(moe__op_attribute(op, "schedule")) ||
         moe__error(op,
                    "'schedule' is that of one kernel, and this takes two passes; write %s and %s, "
                    "with a schedule each",
                    moe__op_id_name(expansion->scale), moe__op_id_short_name(expansion->cast));
}

/* The type of a result of the first pass. For each scales of the op there are scales, factors
 * and state, in this order. */
static MlirType type_in_first_pass(MlirOperation op, const moe__tensor_row_t *row) {
  switch (row->role) {
  case MOE__FACTORS:
  case MOE__FACTORS_T:
  case MOE__FACTORS_Y:
    return moe__tensor_type(op, row[-1].role);
  case MOE__STATE:
  case MOE__STATE_T:
  case MOE__STATE_Y:
    return state_type(moe__tensor_type(op, row[-2].role));
  default:
    return moe__tensor_type(op, row->role);
  }
}

static MlirOperation create_scale(moe__builder_t *b, MlirOperation op, moe__op_id_t id) {
  const moe__op_row_t *row = &moe__op_rows[id];
  MlirType types[MOE__MAX_ROW_TENSORS];
  MlirValue operands[MOE__MAX_ROW_TENSORS];
  intptr_t type_count = 0, count = mlirOperationGetNumOperands(op);
  for (intptr_t i = 0; i < count; i++)
    operands[i] = mlirOperationGetOperand(op, i);
  for (; row->results[type_count].role; type_count++)
    types[type_count] = type_in_first_pass(op, &row->results[type_count]);
  MlirOperation scale = moe__op(b, row->name, type_count, types, count, operands, NULL, 0, NULL);
  copy_attributes(op, scale);
  char *element = moe__type_text(moe__element_type(op, MOE__Q));
  moe__op_set_attribute(scale, "element", moe__attribute(b->context, "\"%s\"", element));
  free(element);
  return scale;
}

/* The second pass reads what the op reads, and the factors. */
static MlirOperation create_cast(moe__builder_t *b, MlirOperation op, MlirOperation scale,
                                 moe__op_id_t id) {
  const moe__op_row_t *row = &moe__op_rows[id];
  MlirType types[MOE__MAX_ROW_TENSORS];
  MlirValue operands[MOE__MAX_ROW_TENSORS];
  intptr_t type_count = 0, count = 0;
  for (const moe__tensor_row_t *operand = row->operands; operand->role; operand++) {
    MlirValue made = moe__result(scale, operand->role), given = moe__operand(op, operand->role);
    if (!mlirValueIsNull(made) || !mlirValueIsNull(given))
      operands[count++] = mlirValueIsNull(made) ? given : made;
  }
  for (; row->results[type_count].role; type_count++)
    types[type_count] = moe__tensor_type(op, row->results[type_count].role);
  MlirOperation cast = moe__op(b, row->name, type_count, types, count, operands, NULL, 0, NULL);
  copy_attributes(op, cast);
  return cast;
}

static void expand(MlirOperation op, const expansion_t *expansion) {
  moe__builder_t b = moe__builder_before(op);
  MlirOperation scale = create_scale(&b, op, expansion->scale);
  MlirOperation cast = create_cast(&b, op, scale, expansion->cast);
  for (int i = 0; i < mlirOperationGetNumResults(op); i++) {
    moe__role_t role = moe__result_role(op, i);
    MlirValue q = moe__result(cast, role);
    mlirValueReplaceAllUsesOfWith(mlirOperationGetResult(op, i),
                                  mlirValueIsNull(q) ? moe__result(scale, role) : q);
  }
  mlirOperationDestroy(op);
}

static bool expand_if_two_passes(MlirOperation op) {
  const expansion_t *expansion = find_expansion(op);
  if (!expansion || !takes_two_passes(op))
    return true;
  if (!has_no_schedule(op, expansion))
    return false;
  expand(op, expansion);
  return true;
}

static bool expand_body(MlirBlock body) {
  return moe__walk_block(body, expand_if_two_passes);
}

bool moe__pass_expand_quantize(MlirOperation module, const moe__pass_t *pass) {
  return moe__pass_verify(module, pass) && /* the rest relies on it */
         moe__walk_functions(module, expand_body);
}
