/* Verify.c - see Verify.h: tensors, attributes, then how the shapes belong together.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Dialect/Verify.h"

#include "lib/Dialect/Row.h"

#include "moe/limits.h"

#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/BuiltinTypes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_RANK 5 /* of the tensor memory accelerator */

/* What every op of ours may carry besides: written by passes, or by whoever tunes a kernel. */
static const char *const COMMON_ATTRIBUTES[] = {"schedule", "kernel", "operandSegmentSizes"};

static MlirStringRef ref(const char *text) {
  return mlirStringRefCreateFromCString(text);
}

/* "a", "a or b", "a, b or c" into out. */
static void join(char *out, size_t size, const char *const *words, int count) {
  out[0] = '\0';
  for (int i = 0; i < count; i++) {
    const char *separator = i == 0 ? "" : i == count - 1 ? " or " : ", ";
    size_t used = strlen(out);
    snprintf(out + used, size - used, "%s%s", separator, words[i]);
  }
}

/* ---- Tensors ---- */

/* An element type is called as MLIR prints it. */
static bool verify_element(MlirOperation op, const char *kind, const moe__tensor_row_t *row,
                           MlirType type) {
  char *found = moe__type_text(mlirShapedTypeGetElementType(type));
  const char *names[MOE__MAX_ALTERNATIVES];
  int count = 0;
  bool ok = false;
  for (; count < MOE__MAX_ALTERNATIVES && row->elements[count]; count++) {
    names[count] = moe__dtype_name(row->elements[count]);
    ok |= strcmp(found, names[count]) == 0;
  }
  char allowed[128];
  join(allowed, sizeof allowed, names, count);
  if (!ok)
    moe__error(op, "%s '%s' has element type %s; it must be %s", kind, moe__role_name(row->role),
               found, allowed);
  free(found);
  return ok;
}

static bool verify_encoding(MlirOperation op, const char *kind, const char *name, MlirType type) {
  int order[MOE__MAX_RANK];
  if (moe__memory_order(type, order))
    return true;
  char *found = moe__attribute_text(mlirRankedTensorTypeGetEncoding(type));
  moe__error(op, "%s '%s' has encoding %s; it must be a permutation of its %d dimensions", kind,
             name, found, (int)mlirShapedTypeGetRank(type));
  free(found);
  return false;
}

static bool verify_tensor(MlirOperation op, const char *kind, const moe__tensor_row_t *row,
                          MlirType type) {
  const char *name = moe__role_name(row->role);
  int rank = (int)mlirShapedTypeGetRank(type);
  if (rank < 1 || rank > MAX_RANK)
    return moe__error(op, "%s '%s' has rank %d; it must be 1 to %d", kind, name, rank, MAX_RANK);
  for (int i = 0; i < rank; i++) {
    if (mlirShapedTypeIsDynamicDim(type, i))
      continue;
    int64_t size = mlirShapedTypeGetDimSize(type, i);
    if (size < 1 || size > MOE_MAX_DIMENSION)
      return moe__error(op, "%s '%s' has dimension %d of size %lld; a static size must be 1 to %d",
                        kind, name, i, (long long)size, MOE_MAX_DIMENSION);
  }
  return verify_element(op, kind, row, type) && verify_encoding(op, kind, name, type);
}

static bool verify_tensors(MlirOperation op, const moe__op_row_t *row) {
  for (const moe__tensor_row_t *tensor = row->operands; tensor->role; tensor++) {
    MlirValue value = moe__operand(op, tensor->role);
    if (!mlirValueIsNull(value) && !verify_tensor(op, "operand", tensor, mlirValueGetType(value)))
      return false;
  }
  for (const moe__tensor_row_t *tensor = row->results; tensor->role; tensor++)
    if (!verify_tensor(op, "result", tensor, moe__tensor_type(op, tensor->role)))
      return false;
  return true;
}

/* ---- Attributes ---- */

static bool is_common_attribute(MlirStringRef name) {
  /* A dotted name is a discardable attribute of some dialect, which MLIR lets stand on any op. */
  if (memchr(name.data, '.', name.length))
    return true;
  for (size_t i = 0; i < sizeof COMMON_ATTRIBUTES / sizeof *COMMON_ATTRIBUTES; i++)
    if (mlirStringRefEqual(name, ref(COMMON_ATTRIBUTES[i])))
      return true;
  return false;
}

static bool verify_attribute_names(MlirOperation op, const moe__op_row_t *row) {
  const char *known[MOE__MAX_ROW_ATTRIBUTES + 1];
  int count = 0;
  for (int kind = MOE__INTEGER; kind <= MOE__BOOL; kind++)
    for (const moe__attribute_row_t *attribute = row->attributes; attribute->name; attribute++)
      if ((int)attribute->kind == kind)
        known[count++] = attribute->name;
  known[count++] = "schedule";
  for (intptr_t i = 0; i < mlirOperationGetNumAttributes(op); i++) {
    MlirStringRef name = mlirIdentifierStr(mlirOperationGetAttribute(op, i).name);
    bool found = is_common_attribute(name);
    for (int j = 0; j < count; j++)
      found |= mlirStringRefEqual(name, ref(known[j]));
    if (!found) {
      char allowed[128];
      join(allowed, sizeof allowed, known, count);
      return moe__error(op, "unknown attribute '%.*s'; the op has %s", (int)name.length, name.data,
                        allowed);
    }
  }
  return true;
}

static bool verify_kernel(MlirOperation op) {
  MlirAttribute kernel = moe__op_attribute(op, "kernel");
  if (mlirAttributeIsNull(kernel) || mlirAttributeIsASymbolRef(kernel))
    return true;
  char *found = moe__attribute_text(kernel);
  moe__error(op, "attribute 'kernel' is %s; it must be the symbol of a kernel", found);
  free(found);
  return false;
}

static bool verify_number(MlirOperation op, const moe__attribute_row_t *row) {
  MlirAttribute value = moe__op_attribute(op, row->name);
  MlirType type = mlirAttributeGetType(value);
  bool is_bool = row->kind == MOE__BOOL, is_number = !mlirTypeIsANone(type);
  if (mlirTypeIsAInteger(type) && mlirIntegerTypeIsSignless(type) &&
      mlirIntegerTypeGetWidth(type) == (is_bool ? 1 : 64))
    return true;
  char *found = is_number ? moe__type_text(type) : moe__attribute_text(value);
  moe__error(op, "attribute '%s' %s %s; it must be %s", row->name, is_number ? "has type" : "is",
             found, is_bool ? "a bool, true or false" : "i64");
  free(found);
  return false;
}

static bool verify_string(MlirOperation op, const moe__attribute_row_t *row) {
  MlirAttribute attribute = moe__op_attribute(op, row->name);
  if (!mlirAttributeIsAString(attribute)) {
    char *found = moe__attribute_text(attribute);
    moe__error(op, "attribute '%s' is %s; it must be a string", row->name, found);
    free(found);
    return false;
  }
  MlirStringRef value = mlirStringAttrGetValue(attribute);
  int count = 0;
  for (; row->values[count]; count++)
    if (mlirStringRefEqual(value, ref(row->values[count])))
      return true;
  char allowed[128];
  join(allowed, sizeof allowed, row->values, count);
  return moe__error(op, "attribute '%s' is \"%.*s\"; it must be %s", row->name, (int)value.length,
                    value.data, allowed);
}

static bool verify_attributes(MlirOperation op, const moe__op_row_t *row) {
  if (!verify_attribute_names(op, row) || !verify_kernel(op))
    return false;
  for (const moe__attribute_row_t *attribute = row->attributes; attribute->name; attribute++) {
    /* IRDL has checked those that must be there. */
    if (attribute->optional && mlirAttributeIsNull(moe__op_attribute(op, attribute->name)))
      continue;
    if (!(attribute->kind == MOE__STRING ? verify_string : verify_number)(op, attribute))
      return false;
  }
  return true;
}

/* ---- Shapes ---- */

static const char *size_text(int64_t size, char out[24]) {
  if (size < 0)
    return "?";
  snprintf(out, 24, "%lld", (long long)size);
  return out;
}

bool moe__verify_dimension(MlirOperation op, const char *kind, const char *name, MlirType type,
                           int i, int64_t expected) {
  char found_text[24], expected_text[24];
  int64_t found = moe__static_dimension(type, i);
  return found == expected ||
         moe__error(op, "%s '%s' has dimension %d of size %s; it must be %s", kind, name, i,
                    size_text(found, found_text), size_text(expected, expected_text));
}

static int rank_of_operand(MlirOperation op, moe__role_t role) {
  return (int)mlirShapedTypeGetRank(moe__tensor_type(op, role));
}

/* The ranks of the two operands that select a case are those of none. */
static bool refuse_ranks_of_two(MlirOperation op, const moe__op_row_t *row) {
  moe__role_t a = row->operands[0].role, b = row->operands[1].role;
  char pairs[MOE__MAX_CASES][32], allowed[MOE__MAX_CASES * 32] = "";
  int count = 0;
  for (; count < MOE__MAX_CASES && row->cases[count]; count++)
    snprintf(pairs[count], sizeof *pairs, "%d and %d", moe__letters_rank(row->cases[count], a),
             moe__letters_rank(row->cases[count], b));
  for (int i = 0; i < count; i++) {
    size_t used = strlen(allowed);
    snprintf(allowed + used, sizeof allowed - used, "%s%s",
             i == 0           ? ""
             : i == count - 1 ? ", or "
                              : ", ",
             pairs[i]);
  }
  return moe__error(op, "operands '%s' and '%s' have ranks %d and %d; they must be %s",
                    moe__role_name(a), moe__role_name(b), rank_of_operand(op, a),
                    rank_of_operand(op, b), allowed);
}

/* The same for one operand. The cases are in the order of its rank. */
static bool refuse_rank(MlirOperation op, const moe__op_row_t *row, moe__role_t role) {
  int last = 0, found = rank_of_operand(op, role);
  while (last + 1 < MOE__MAX_CASES && row->cases[last + 1])
    last++;
  int least = moe__letters_rank(row->cases[0], role),
      most = moe__letters_rank(row->cases[last], role);
  if (least == most)
    return moe__error(op, "operand '%s' has rank %d; it must be %d", moe__role_name(role), found,
                      least);
  return moe__error(op, "operand '%s' has rank %d; it must be %d to %d", moe__role_name(role),
                    found, least, most);
}

/* Where a function says the first one's shape, the second alone selects. */
static bool refuse_ranks(MlirOperation op, const moe__op_row_t *row) {
  if (row->selectors != 2)
    return refuse_rank(op, row, row->operands[0].role);
  if (moe__letters_rank(row->cases[0], row->operands[0].role) < 0)
    return refuse_rank(op, row, row->operands[1].role);
  return refuse_ranks_of_two(op, row);
}

/* Whether the operands are there that the case has, and no others. */
static bool verify_presence(MlirOperation op, const moe__op_row_t *row, const char *letters) {
  for (const moe__tensor_row_t *tensor = row->operands; tensor->role; tensor++) {
    bool there = moe__operand_number(op, tensor->role) >= 0;
    moe__presence_t presence = moe__presence(letters, tensor->role);
    if (presence == MOE__MAYBE || there == (presence == MOE__PRESENT))
      continue;
    return there ? moe__error(op, "operand '%s' must not be there: %s",
                              moe__role_name(tensor->role), tensor->unwanted)
                 : moe__error(op, "operand '%s' is missing; %s", moe__role_name(tensor->role),
                              tensor->needed);
  }
  return true;
}

static bool verify_rank(MlirOperation op, const char *kind, moe__role_t role, MlirType type,
                        const moe__shape_t *shape) {
  int rank = (int)mlirShapedTypeGetRank(type);
  return rank == shape->rank || moe__error(op, "%s '%s' has rank %d; it must be %d", kind,
                                           moe__role_name(role), rank, shape->rank);
}

static bool verify_sizes(MlirOperation op, const char *kind, moe__role_t role, MlirType type,
                         const moe__shape_t *shape) {
  bool is_mx = mlirTypeIsAFloat8E8M0FNU(mlirShapedTypeGetElementType(type));
  for (int i = 0; i < shape->rank; i++) {
    moe__size_t whole = shape->sizes[i];
    whole.divisor = 1;
    int64_t size = moe__static_size(op, &whole);
    bool is_whole = is_mx && shape->sizes[i].divisor == MOE_MX_BLOCK &&
                    shape->sizes[i].groups_operand < 0; /* those of groups may be short */
    if (is_whole && size > 0 && size % MOE_MX_BLOCK)
      return moe__error(op,
                        "the dimension of size %lld that '%s' has a scale for each %d of must be a "
                        "multiple of %d",
                        (long long)size, moe__role_name(role), MOE_MX_BLOCK, MOE_MX_BLOCK);
    if (!moe__verify_dimension(op, kind, moe__role_name(role), type, i,
                               moe__static_size(op, &shape->sizes[i])))
      return false;
  }
  return true;
}

/* Ranks come first: the sizes of one tensor follow from the dimensions of others. */
static bool verify_operand_shapes(MlirOperation op) {
  moe__shape_t shape;
  int count = (int)mlirOperationGetNumOperands(op);
  for (int sizes = 0; sizes < 2; sizes++)
    for (int i = 0; i < count; i++) {
      MlirType type = mlirValueGetType(mlirOperationGetOperand(op, i));
      moe__role_t role = moe__operand_role(op, i);
      moe__tensor_shape(op, role, &shape);
      if (!(sizes ? verify_sizes : verify_rank)(op, "operand", role, type, &shape))
        return false;
    }
  return true;
}

static bool verify_result_shapes(MlirOperation op, const moe__op_row_t *row) {
  moe__shape_t shape;
  for (const moe__tensor_row_t *tensor = row->results; tensor->role; tensor++) {
    MlirType type = moe__tensor_type(op, tensor->role);
    moe__tensor_shape(op, tensor->role, &shape);
    if (!verify_rank(op, "result", tensor->role, type, &shape) ||
        !verify_sizes(op, "result", tensor->role, type, &shape))
      return false;
  }
  return true;
}

static bool verify_at_most(MlirOperation op, char letter, const char *what) {
  int dimension;
  moe__role_t owner = moe__letter_owner(op, letter, &dimension);
  int64_t size = owner ? moe__static_dimension(moe__tensor_type(op, owner), dimension) : 0;
  return size <= MOE_MAX_GROUPS || moe__error(op, "there are %lld %s; there may be at most %d",
                                              (long long)size, what, MOE_MAX_GROUPS);
}

static bool verify_case(MlirOperation op, const moe__op_row_t *row) {
  int which = moe__op_case(op);
  if (which < 0)
    return refuse_ranks(op, row);
  return verify_presence(op, row, row->cases[which]) && (!row->check || row->check(op)) &&
         verify_operand_shapes(op) && verify_at_most(op, 'E', "experts") &&
         verify_at_most(op, 'G', "groups") && verify_result_shapes(op, row);
}

bool moe__verify_op(MlirOperation op) {
  moe__op_id_t id = moe__op_id(op);
  const moe__op_row_t *row = &moe__op_rows[id];
  return id == MOE__NO_OP || (verify_tensors(op, row) && verify_attributes(op, row) &&
                              (!row->cases[0] || verify_case(op, row)));
}
