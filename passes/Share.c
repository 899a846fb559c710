/* Share.c - see Share.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "passes/Share.h"

#include "lib/Builder/Inspect.h"

static bool has_attributes_of(MlirOperation op, MlirOperation other) {
  intptr_t count = mlirOperationGetNumAttributes(op);
  if (count != mlirOperationGetNumAttributes(other))
    return false;
  for (intptr_t i = 0; i < count; i++) {
    MlirNamedAttribute attribute = mlirOperationGetAttribute(op, i);
    if (!mlirAttributeEqual(attribute.attribute, mlirOperationGetAttributeByName(
                                                     other, mlirIdentifierStr(attribute.name))))
      return false;
  }
  return true;
}

static bool has_operands_of(MlirOperation op, MlirOperation other) {
  intptr_t count = mlirOperationGetNumOperands(op);
  bool same = count == mlirOperationGetNumOperands(other);
  for (intptr_t i = 0; same && i < count; i++)
    same = mlirValueEqual(mlirOperationGetOperand(op, i), mlirOperationGetOperand(other, i));
  return same;
}

static bool has_results_of(MlirOperation op, MlirOperation other) {
  intptr_t count = mlirOperationGetNumResults(op);
  bool same = count == mlirOperationGetNumResults(other);
  for (intptr_t i = 0; same && i < count; i++)
    same = mlirTypeEqual(mlirValueGetType(mlirOperationGetResult(op, i)),
                         mlirValueGetType(mlirOperationGetResult(other, i)));
  return same;
}

MlirOperation moe__share(MlirOperation op) {
  for (MlirOpOperand use = mlirValueGetFirstUse(mlirOperationGetOperand(op, 0));
       !mlirOpOperandIsNull(use); use = mlirOpOperandGetNextUse(use)) {
    MlirOperation other = mlirOpOperandGetOwner(use);
    if (!mlirStringRefEqual(moe__op_name(op), moe__op_name(other)) ||
        !moe__op_is_before(other, op) || !has_operands_of(op, other) ||
        !has_results_of(op, other) || !has_attributes_of(op, other))
      continue;
    mlirOperationDestroy(op);
    return other;
  }
  return op;
}
