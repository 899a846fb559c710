/* ExpandQuantize.c - splits quantizations that take two passes over their input into these.
 *
 * A scale that belongs to more than one block of threads can hold on chip is known only when all of
 * the input has been read. Then quantize_fp8 becomes
 *
 *   scales, factors, state = mx_quantize.scale_fp8 x     reads x, finds the scales
 *   q                      = mx_quantize.cast_fp8 x, factors
 *
 * and quantize_fp8_dual the same with both directions in each pass, quantize_fp8_pair with both
 * tensors. Along the last dimension, row by row or in blocks of 128, one kernel does both, and the op
 * stays.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Builder/Builder.h"
#include "lib/Builder/Shapes.h"
#include "passes/Passes.h"

#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/BuiltinTypes.h"

#include <stdio.h>
#include <stdlib.h>

#define QUANTIZE "mx_quantize.quantize_fp8"

static bool is_pair(MlirOperation op) {
  return moe__op_is(op, QUANTIZE "_pair");
}

static bool takes_two_passes(MlirOperation op) {
  if (moe__op_is(op, QUANTIZE "_dual") || is_pair(op))
    return true;
  if (!moe__op_is(op, QUANTIZE))
    return false;
  moe__granularity_t granularity = moe__op_granularity(op);
  MlirType x = mlirValueGetType(mlirOperationGetOperand(op, 0));
  bool last = moe__op_integer(op, "axis") == mlirShapedTypeGetRank(x) - 1;
  return granularity == MOE__TENSOR || granularity == MOE__EXPERT || granularity == MOE__GROUP ||
         (granularity == MOE__ROW && !last);
}

/* A maximum and a counter for each scale: tensor<2x...xi32>. */
static MlirType state_type(MlirType scales) {
  int64_t shape[MOE__MAX_RANK] = {2};
  intptr_t rank = mlirShapedTypeGetRank(scales);
  for (intptr_t d = 0; d < rank; d++)
    shape[d + 1] = mlirShapedTypeIsDynamicDim(scales, d) ? mlirShapedTypeGetDynamicSize()
                                                         : mlirShapedTypeGetDimSize(scales, d);
  MlirContext context = mlirTypeGetContext(scales);
  return mlirRankedTensorTypeGet(rank + 1, shape, mlirIntegerTypeGet(context, 32),
                                 mlirAttributeGetNull());
}

static void copy_attributes(MlirOperation from, MlirOperation to, int count,
                            const char *const *names) {
  for (int i = 0; i < count; i++)
    if (!mlirAttributeIsNull(moe__op_attribute(from, names[i])))
      moe__op_set_attribute(to, names[i], moe__op_attribute(from, names[i]));
}

/* What stands behind quantize_fp8 in the op's name, and behind the names of its passes: "", "_dual" or
 * "_pair". */
static const char *suffix_of(MlirOperation op) {
  return is_pair(op) ? "_pair" : moe__op_is(op, QUANTIZE "_dual") ? "_dual" : "";
}

/* One schedule cannot be that of two kernels. */
static bool has_no_schedule(MlirOperation op) {
  const char *suffix = suffix_of(op);
  return mlirAttributeIsNull(moe__op_attribute(op, "schedule")) ||
         moe__error(op,
                    "'schedule' is that of one kernel, and this takes two passes; write "
                    "mx_quantize.scale_fp8%s and cast_fp8%s, with a schedule each",
                    suffix, suffix);
}

static MlirOperation create_pass(moe__builder_t *b, const char *name, MlirOperation op,
                                 intptr_t result_count, const MlirType *results,
                                 intptr_t operand_count, const MlirValue *operands) {
  char full_name[64];
  snprintf(full_name, sizeof full_name, "mx_quantize.%s%s", name, suffix_of(op));
  return moe__op(b, full_name, result_count, results, operand_count, operands, NULL, 0, NULL);
}

/* Replaces op, whose results are q, scales of one direction or of two, or of each of two tensors. */
static void expand(MlirOperation op) {
  moe__builder_t b = moe__builder_create(mlirOperationGetContext(op), mlirOperationGetLocation(op));
  b.block = mlirOperationGetBlock(op);
  b.before = op;
  intptr_t directions = mlirOperationGetNumResults(op) / 2; /* or tensors */
  MlirType q_types[2] = {{NULL}}, scale_types[6] = {{NULL}};
  for (intptr_t i = 0; i < directions; i++) {
    q_types[i] = mlirValueGetType(mlirOperationGetResult(op, 2 * i));
    MlirType scales = mlirValueGetType(mlirOperationGetResult(op, 2 * i + 1));
    scale_types[3 * i] = scale_types[3 * i + 1] = scales;
    scale_types[3 * i + 2] = state_type(scales);
  }
  /* x, y in a pair, offs where there are groups. */
  MlirValue operands[5];
  intptr_t count = mlirOperationGetNumOperands(op), tensors = is_pair(op) ? 2 : 1;
  for (intptr_t i = 0; i < count; i++)
    operands[i] = mlirOperationGetOperand(op, i);
  MlirOperation scale =
      create_pass(&b, "scale_fp8", op, 3 * directions, scale_types, count, operands);
  copy_attributes(op, scale, 4, (const char *const[]){"granularity", "axis", "pow2", "sanitize"});
  char *element = moe__type_text(mlirShapedTypeGetElementType(q_types[0]));
  moe__op_set_attribute(scale, "element", moe__attribute(b.context, "\"%s\"", element));
  free(element);

  /* The factors come between the tensors and offs. */
  for (intptr_t i = count; i > tensors; i--)
    operands[i - 1 + directions] = operands[i - 1];
  for (intptr_t i = 0; i < directions; i++)
    operands[tensors + i] = mlirOperationGetResult(scale, 3 * i + 1);
  MlirOperation cast =
      create_pass(&b, "cast_fp8", op, directions, q_types, count + directions, operands);
  copy_attributes(op, cast, 3, (const char *const[]){"granularity", "axis", "sanitize"});
  for (intptr_t i = 0; i < directions; i++) {
    mlirValueReplaceAllUsesOfWith(mlirOperationGetResult(op, 2 * i),
                                  mlirOperationGetResult(cast, i));
    mlirValueReplaceAllUsesOfWith(mlirOperationGetResult(op, 2 * i + 1),
                                  mlirOperationGetResult(scale, 3 * i));
  }
  mlirOperationDestroy(op);
}

static bool expand_if_two_passes(MlirOperation op) {
  if (!takes_two_passes(op))
    return true;
  if (!has_no_schedule(op))
    return false;
  expand(op);
  return true;
}

static bool expand_body(MlirBlock body) {
  return moe__walk_block(body, expand_if_two_passes);
}

bool moe__run_expand_quantize(MlirOperation module, const moe__pass_t *pass) {
  return moe__run_verify(module, pass) && /* the rest relies on it */
         moe__walk_functions(module, expand_body);
}
