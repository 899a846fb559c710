/* Dialect.c - see Dialect.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Dialect/Dialect.h"

#include "lib/Dialect/Row.h"

#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/BuiltinTypes.h"

#include <string.h>

static MlirStringRef ref(const char *text) {
  return mlirStringRefCreateFromCString(text);
}

/* ---- Ops ---- */

moe__op_id_t moe__op_id(MlirOperation op) {
  MlirStringRef name = moe__op_name(op);
  for (int id = MOE__NO_OP + 1; id < MOE__NUM_OPS; id++)
    if (mlirStringRefEqual(name, ref(moe__op_rows[id].name)))
      return (moe__op_id_t)id;
  return MOE__NO_OP;
}

bool moe__is(MlirOperation op, moe__op_id_t id) {
  return moe__op_id(op) == id;
}

bool moe__is_launch(MlirOperation op) {
  return moe__op_id(op) != MOE__NO_OP && !mlirAttributeIsNull(moe__op_attribute(op, "kernel"));
}

const char *moe__op_id_name(moe__op_id_t id) {
  return moe__op_rows[id].name;
}

const char *moe__op_id_short_name(moe__op_id_t id) {
  return strchr(moe__op_id_name(id), '.') + 1;
}

/* ---- Operands and results ---- */

/* How many tensors a list has. */
static int count_of(const moe__tensor_row_t *list) {
  int count = 0;
  while (list[count].role)
    count++;
  return count;
}

/* Where `role` stands in a list; -1 where it does not. */
static int find(const moe__tensor_row_t *list, moe__role_t role) {
  for (int i = 0; list[i].role; i++)
    if (list[i].role == role)
      return i;
  return -1;
}

/* The position of the optional operand that an op does not have; past the end where all are
 * there. */
static int missing_position(MlirOperation op, const moe__tensor_row_t *operands) {
  int count = count_of(operands), i = 0;
  if (mlirOperationGetNumOperands(op) == count)
    return count;
  while (i < count && !operands[i].optional)
    i++;
  return i;
}

int moe__operand_number(MlirOperation op, moe__role_t role) {
  const moe__tensor_row_t *operands = moe__op_rows[moe__op_id(op)].operands;
  int position = find(operands, role), missing = missing_position(op, operands);
  return position < 0 || position == missing ? -1 : position - (position > missing);
}

/* Its number among the results; -1 where it is not there. */
static int result_number(MlirOperation op, moe__role_t role) {
  return find(moe__op_rows[moe__op_id(op)].results, role);
}

int moe__tensor_number(MlirOperation op, moe__role_t role) {
  int operand = moe__operand_number(op, role), result = result_number(op, role);
  if (operand >= 0)
    return operand;
  return result < 0 ? -1 : (int)mlirOperationGetNumOperands(op) + result;
}

bool moe__is_constant(MlirOperation op, moe__role_t role) {
  MlirValue value = moe__operand(op, role);
  return mlirValueIsNull(value) || !mlirAttributeIsNull(moe__port_attribute(
                                       mlirOperationGetParentOperation(op), "arg_attrs",
                                       mlirBlockArgumentGetArgNumber(value), MOE__CONSTANT));
}

moe__role_t moe__operand_role(MlirOperation op, int number) {
  const moe__tensor_row_t *operands = moe__op_rows[moe__op_id(op)].operands;
  return operands[number + (number >= missing_position(op, operands))].role;
}

moe__role_t moe__result_role(MlirOperation op, int number) {
  return moe__op_rows[moe__op_id(op)].results[number].role;
}

MlirValue moe__operand(MlirOperation op, moe__role_t role) {
  int number = moe__operand_number(op, role);
  return number < 0 ? (MlirValue){NULL} : mlirOperationGetOperand(op, number);
}

MlirValue moe__result(MlirOperation op, moe__role_t role) {
  int number = result_number(op, role);
  return number < 0 ? (MlirValue){NULL} : mlirOperationGetResult(op, number);
}

MlirType moe__tensor_type(MlirOperation op, moe__role_t role) {
  MlirValue operand = moe__operand(op, role);
  return mlirValueGetType(mlirValueIsNull(operand) ? moe__result(op, role) : operand);
}

MlirType moe__element_type(MlirOperation op, moe__role_t role) {
  return mlirShapedTypeGetElementType(moe__tensor_type(op, role));
}

/* ---- Cases ---- */

/* Whether the ranks of the operands that select a case are those of this one. */
static bool has_ranks_of(MlirOperation op, const moe__op_row_t *row, const char *letters) {
  for (int i = 0; i < (row->selectors ? row->selectors : 1); i++) {
    int rank = moe__letters_rank(letters, row->operands[i].role);
    if (rank >= 0 &&
        rank != mlirShapedTypeGetRank(mlirValueGetType(mlirOperationGetOperand(op, i))))
      return false;
  }
  return true;
}

int moe__op_case(MlirOperation op) {
  const moe__op_row_t *row = &moe__op_rows[moe__op_id(op)];
  for (int i = 0; i < MOE__MAX_CASES && row->cases[i]; i++)
    if (has_ranks_of(op, row, row->cases[i]))
      return i;
  return -1;
}

/* ---- What attributes mean ---- */

static const char *const GRANULARITIES[] = {
#define MOE_GRANULARITY(symbol, name) [MOE__##symbol] = (name),
#include "moe/fp8_granularities.def"
};

moe__granularity_t moe__op_granularity(MlirOperation op) {
  if (mlirAttributeIsNull(moe__op_attribute(op, "granularity")))
    return MOE__ROW;
  MlirStringRef name = moe__op_string(op, "granularity");
  int i = (int)(sizeof GRANULARITIES / sizeof *GRANULARITIES) - 1;
  while (i > 0 && !mlirStringRefEqual(name, ref(GRANULARITIES[i])))
    i--;
  return (moe__granularity_t)i;
}

const char *moe__granularity_name(moe__granularity_t granularity) {
  return GRANULARITIES[granularity];
}

moe__mm_case_t moe__mm_case(MlirOperation op) {
  int which = moe__op_case(op);
  return which < 0 ? MOE__NO_CASE : (moe__mm_case_t)which;
}

moe__role_t moe__factor_role(MlirOperation op, int which) {
  static const moe__role_t plain[] = {MOE__A, MOE__B}, quantized[] = {MOE__QA, MOE__QB};
  return (moe__is_scaled_mm(op) ? quantized : plain)[which];
}

MlirType moe__factor_type(MlirOperation op, int which) {
  return moe__tensor_type(op, moe__factor_role(op, which));
}

bool moe__is_scaled_mm(MlirOperation op) {
  return moe__is(op, MOE__OP_SCALED_MM) || moe__is(op, MOE__OP_SCALED_MM_BIAS);
}

bool moe__is_mm(MlirOperation op) {
  return moe__is(op, MOE__OP_MM) || moe__is(op, MOE__OP_MM_BIAS);
}

bool moe__is_dequantize_mm(MlirOperation op) {
  return moe__is(op, MOE__OP_DEQUANTIZE_MM) || moe__is(op, MOE__OP_DEQUANTIZE_MM_BIAS);
}

bool moe__has_block_scales(MlirOperation op) {
  if (!moe__is_scaled_mm(op))
    return false;
  MlirType qa = moe__tensor_type(op, MOE__QA), sa = moe__tensor_type(op, MOE__SA);
  if (moe__mm_case(op) == MOE__GRADIENT) /* for which the rank does not tell */
    return !mlirAttributeIsNull(moe__op_attribute(op, "granularity"));
  return mlirTypeIsAF32(mlirShapedTypeGetElementType(sa)) &&
         mlirShapedTypeGetRank(sa) == mlirShapedTypeGetRank(qa);
}

/* Whether the op is a product of mixed_mm's family, with this layout. */
static bool has_layout(MlirOperation op, const char *layout) {
  static const moe__op_id_t PRODUCTS[] = {MOE__OP_MIXED_MM, MOE__OP_MIXED_MM_SCALED,
                                          MOE__OP_MIXED_MM_ZEROS, MOE__OP_MIXED_MM_BIAS,
                                          MOE__OP_MIXED_MM_ZEROS_BIAS};
  bool is_product = false;
  for (size_t i = 0; i < sizeof PRODUCTS / sizeof *PRODUCTS; i++)
    is_product |= moe__is(op, PRODUCTS[i]);
  return is_product && mlirStringRefEqual(moe__op_string(op, "layout"), ref(layout));
}

bool moe__has_plain_weights(MlirOperation op) {
  return has_layout(op, "plain");
}

bool moe__has_evens_first(MlirOperation op) {
  if (moe__is(op, MOE__OP_DEQUANTIZE) || moe__is(op, MOE__OP_DEQUANTIZE_F16))
    return !mlirAttributeIsNull(moe__op_attribute(op, "order"));
  return has_layout(op, "evens_first");
}

bool moe__has_fp8_weights(MlirOperation op) {
  return mlirStringRefEqual(moe__op_string(op, "format"), ref("f8E4M3FN"));
}

const char *moe__packed_layout(MlirOperation op) {
  if (moe__has_fp8_weights(op))
    return "1x16";
  return mlirStringRefEqual(moe__op_string(op, "format"), ref("f4E2M1FN")) ? "16x64_e2m1" : "16x64";
}

int moe__group_align(MlirOperation op) {
  return mlirAttributeIsNull(moe__op_attribute(op, "align")) ? 0 : MOE_GROUP_ALIGN;
}

bool moe__has_mx_scales(MlirOperation op) {
  return moe__is_scaled_mm(op) && mlirTypeIsAFloat8E8M0FNU(moe__element_type(op, MOE__SA));
}
