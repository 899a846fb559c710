/* Record.c - checks the record that a kernel carries (`moe.kernel`, lib/Device/Kernel.h) before the
 * manifest is written from it.
 *
 * Why: a stage may have been edited by hand. What the record says of sizes and parameters is the
 * schema's business; here it is made sure that the record can be read at all, and that the tensors
 * and dimensions it names are there.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Target/Record.h"

#include "lib/Builder/Inspect.h"

#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/BuiltinTypes.h"

static bool is_array(MlirAttribute attribute, intptr_t length) {
  return !mlirAttributeIsNull(attribute) && mlirAttributeIsAArray(attribute) &&
         (length < 0 || mlirArrayAttrGetNumElements(attribute) == length);
}

static bool is_integer(MlirAttribute attribute, int64_t least, int64_t most) {
  return moe__attribute_is_integer(attribute) && mlirIntegerAttrGetValueInt(attribute) >= least &&
         mlirIntegerAttrGetValueInt(attribute) <= most;
}

static bool is_bool(MlirAttribute attribute) {
  return !mlirAttributeIsNull(attribute) && mlirAttributeIsABool(attribute);
}

static MlirAttribute element(MlirAttribute dictionary, const char *key) {
  return mlirDictionaryAttrGetElementByName(dictionary, mlirStringRefCreateFromCString(key));
}

/* The type of tensor number n: operands of the launch, then results; null where there is none. */
static MlirType tensor_type(MlirOperation launch, MlirAttribute n) {
  intptr_t operands = mlirOperationGetNumOperands(launch),
           results = mlirOperationGetNumResults(launch);
  if (!is_integer(n, 0, operands + results - 1))
    return (MlirType){NULL};
  intptr_t i = mlirIntegerAttrGetValueInt(n);
  return mlirValueGetType(i < operands ? mlirOperationGetOperand(launch, i)
                                       : mlirOperationGetResult(launch, i - operands));
}

/* [tensor, dimension] */
static bool is_dim(MlirOperation launch, MlirAttribute dim) {
  if (mlirAttributeIsNull(dim) || !is_array(dim, 2))
    return false;
  MlirType type = tensor_type(launch, mlirArrayAttrGetElement(dim, 0));
  return !mlirTypeIsNull(type) &&
         is_integer(mlirArrayAttrGetElement(dim, 1), 0, mlirShapedTypeGetRank(type) - 1);
}

/* An integer, a string, an array of expressions, or {dim = [...]} or {<operator> = [...]}. */
static bool is_expression(MlirOperation launch, MlirAttribute expression) {
  if (moe__attribute_is_integer(expression) || mlirAttributeIsAString(expression))
    return true;
  if (mlirAttributeIsADictionary(expression)) {
    if (mlirDictionaryAttrGetNumElements(expression) != 1)
      return false;
    MlirNamedAttribute entry = mlirDictionaryAttrGetElement(expression, 0);
    if (mlirStringRefEqual(mlirIdentifierStr(entry.name), mlirStringRefCreateFromCString("dim")))
      return is_dim(launch, entry.attribute);
    return is_array(entry.attribute, -1) && is_expression(launch, entry.attribute);
  }
  if (!mlirAttributeIsAArray(expression))
    return false;
  for (intptr_t i = 0; i < mlirArrayAttrGetNumElements(expression); i++)
    if (!is_expression(launch, mlirArrayAttrGetElement(expression, i)))
      return false;
  return true;
}

/* The number of a result of the launch. */
static bool is_result(MlirOperation launch, MlirAttribute n) {
  intptr_t operands = mlirOperationGetNumOperands(launch),
           results = mlirOperationGetNumResults(launch);
  return is_integer(n, operands, operands + results - 1);
}

static bool is_parameter(MlirOperation launch, MlirAttribute parameter) {
  if (!mlirAttributeIsADictionary(parameter))
    return false;
  for (intptr_t i = 0; i < mlirDictionaryAttrGetNumElements(parameter); i++) {
    MlirNamedAttribute entry = mlirDictionaryAttrGetElement(parameter, i);
    bool is_tensor =
        mlirStringRefEqual(mlirIdentifierStr(entry.name), mlirStringRefCreateFromCString("tensor"));
    if (is_tensor ? mlirTypeIsNull(tensor_type(launch, entry.attribute))
                  : !is_expression(launch, entry.attribute))
      return false;
  }
  return true;
}

/* {dim = [...]} and one of multiple_of, at_least, at_most, same_as, and quotient_of with
 * divisor. */
static bool is_requirement(MlirOperation launch, MlirAttribute requirement) {
  return mlirAttributeIsADictionary(requirement) && is_dim(launch, element(requirement, "dim")) &&
         (is_integer(element(requirement, "multiple_of"), 1, INT32_MAX) ||
          is_integer(element(requirement, "at_least"), 0, INT32_MAX) ||
          is_integer(element(requirement, "at_most"), 0, INT32_MAX) ||
          is_dim(launch, element(requirement, "same_as")) ||
          (is_dim(launch, element(requirement, "quotient_of")) &&
           is_integer(element(requirement, "divisor"), 1, INT32_MAX)));
}

static bool all(MlirOperation launch, MlirAttribute list,
                bool (*is_one)(MlirOperation launch, MlirAttribute attribute)) {
  if (!is_array(list, -1))
    return false;
  for (intptr_t i = 0; i < mlirArrayAttrGetNumElements(list); i++)
    if (!is_one(launch, mlirArrayAttrGetElement(list, i)))
      return false;
  return true;
}

/* Three expressions. */
static bool is_triple(MlirOperation launch, MlirAttribute list) {
  return is_array(list, 3) && is_expression(launch, list);
}

bool moe__record_check(MlirOperation launch, MlirAttribute record) {
  if (!mlirAttributeIsADictionary(record))
    return moe__error(launch, "the kernel's 'moe.kernel' must be a dictionary");
  const char *wrong = NULL;
  if (!is_triple(launch, element(record, "block")))
    wrong = "block";
  else if (!is_triple(launch, element(record, "cluster")))
    wrong = "cluster";
  else if (!is_triple(launch, element(record, "grid")))
    wrong = "grid";
  else if (!is_integer(element(record, "shared_memory"), 0, INT32_MAX))
    wrong = "shared_memory";
  else if (!all(launch, element(record, "parameters"), is_parameter))
    wrong = "parameters";
  else if (!all(launch, element(record, "requires"), is_requirement))
    wrong = "requires";
  else if (!all(launch, element(record, "zeroed"), is_result))
    wrong = "zeroed";
  else if (!is_bool(element(record, "programmatic")))
    wrong = "programmatic";
  return !wrong ||
         moe__error(launch, "'%s' of the kernel's 'moe.kernel' is missing or malformed", wrong);
}
