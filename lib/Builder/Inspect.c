/* Inspect.c - see Inspect.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Builder/Inspect.h"

#include "mlir-c/AffineExpr.h"
#include "mlir-c/AffineMap.h"
#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/BuiltinTypes.h"
#include "mlir-c/Diagnostics.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static MlirStringRef string_ref(const char *text) {
  return mlirStringRefCreateFromCString(text);
}

MlirStringRef moe__op_name(MlirOperation op) {
  return mlirIdentifierStr(mlirOperationGetName(op));
}

bool moe__op_is(MlirOperation op, const char *name) {
  return mlirStringRefEqual(moe__op_name(op), string_ref(name));
}

bool moe__op_in_dialect(MlirOperation op, const char *dialect) {
  MlirStringRef name = moe__op_name(op);
  size_t length = strlen(dialect);
  return name.length > length && memcmp(name.data, dialect, length) == 0 &&
         name.data[length] == '.';
}

MlirAttribute moe__op_attribute(MlirOperation op, const char *name) {
  return mlirOperationGetAttributeByName(op, string_ref(name));
}

void moe__op_set_attribute(MlirOperation op, const char *name, MlirAttribute value) {
  mlirOperationSetAttributeByName(op, string_ref(name), value);
}

bool moe__op_is_before(MlirOperation op, MlirOperation other) {
  return mlirBlockEqual(mlirOperationGetBlock(op), mlirOperationGetBlock(other)) &&
         mlirOperationIsBeforeInBlock(op, other);
}

int64_t moe__op_integer(MlirOperation op, const char *name) {
  return mlirIntegerAttrGetValueInt(moe__op_attribute(op, name));
}

bool moe__op_bool(MlirOperation op, const char *name) {
  return moe__op_integer(op, name) != 0;
}

MlirStringRef moe__op_string(MlirOperation op, const char *name) {
  return mlirStringAttrGetValue(moe__op_attribute(op, name));
}

bool moe__attribute_is_integer(MlirAttribute attribute) {
  if (mlirAttributeIsNull(attribute) || !mlirAttributeIsAInteger(attribute))
    return false;
  MlirType type = mlirAttributeGetType(attribute);
  return mlirTypeIsAIndex(type) || mlirIntegerTypeGetWidth(type) <= 64;
}

bool moe__error(MlirOperation op, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  char *message = NULL;
  int length = vasprintf(&message, format, arguments);
  va_end(arguments);
  mlirEmitError(mlirOperationGetLocation(op), length < 0 ? "out of memory" : message);
  if (length >= 0)
    free(message);
  return false;
}

MlirAttribute moe__port_attribute(MlirOperation function, const char *list, intptr_t i,
                                  const char *name) {
  MlirAttribute all = moe__op_attribute(function, list);
  if (mlirAttributeIsNull(all) || i >= mlirArrayAttrGetNumElements(all))
    return mlirAttributeGetNull();
  return mlirDictionaryAttrGetElementByName(mlirArrayAttrGetElement(all, i),
                                            mlirStringRefCreateFromCString(name));
}

MlirStringRef moe__symbol(MlirOperation op) {
  return moe__op_string(op, "sym_name");
}

MlirBlock moe__body(MlirOperation op) {
  if (mlirOperationGetNumRegions(op) != 1)
    return (MlirBlock){NULL};
  return mlirRegionGetFirstBlock(mlirOperationGetRegion(op, 0));
}

typedef struct {
  moe__visit_t visit;
  void *user;
  bool ok;
} walk_t;

static MlirWalkResult walk_step(MlirOperation op, void *user) {
  walk_t *walk = user;
  walk->ok = walk->visit(op, walk->user);
  return walk->ok ? MlirWalkResultAdvance : MlirWalkResultInterrupt;
}

bool moe__walk(MlirOperation op, moe__visit_t visit, void *user) {
  walk_t walk = {visit, user, true};
  mlirOperationWalk(op, walk_step, &walk, MlirWalkPreOrder);
  return walk.ok;
}

bool moe__walk_functions(MlirOperation module, bool (*visit)(MlirBlock body)) {
  for (MlirOperation function = mlirBlockGetFirstOperation(moe__body(module));
       !mlirOperationIsNull(function); function = mlirOperationGetNextInBlock(function))
    if (moe__op_is(function, "func.func") && !mlirBlockIsNull(moe__body(function)) &&
        !visit(moe__body(function)))
      return false;
  return true;
}

bool moe__walk_block(MlirBlock block, bool (*visit)(MlirOperation op)) {
  for (MlirOperation next, op = mlirBlockGetFirstOperation(block); !mlirOperationIsNull(op);
       op = next) {
    next = mlirOperationGetNextInBlock(op);
    if (!visit(op))
      return false;
  }
  return true;
}

static void append(MlirStringRef text, void *user) {
  fwrite(text.data, 1, text.length, user);
}

typedef struct text_t {
  char *data;
  size_t length;
  FILE *out;
} text_t;

static void text_begin(text_t *text) {
  text->out = open_memstream(&text->data, &text->length);
  if (!text->out)
    abort();
}

static char *text_end(text_t *text) {
  fclose(text->out);
  return text->data;
}

char *moe__type_text(MlirType type) {
  text_t text = {0};
  text_begin(&text);
  mlirTypePrint(type, append, text.out);
  return text_end(&text);
}

char *moe__attribute_text(MlirAttribute attribute) {
  text_t text = {0};
  text_begin(&text);
  mlirAttributePrint(attribute, append, text.out);
  return text_end(&text);
}

bool moe__memory_order(MlirType tensor, int order[MOE__MAX_RANK]) {
  int rank = (int)mlirShapedTypeGetRank(tensor);
  if (rank > MOE__MAX_RANK)
    return false;
  for (int i = 0; i < rank; i++)
    order[i] = i;
  MlirAttribute encoding = mlirRankedTensorTypeGetEncoding(tensor);
  if (mlirAttributeIsNull(encoding))
    return true;
  if (!mlirAttributeIsAAffineMap(encoding))
    return false;
  MlirAffineMap map = mlirAffineMapAttrGetValue(encoding);
  if (mlirAffineMapGetNumInputs(map) != rank || !mlirAffineMapIsPermutation(map))
    return false;
  for (int i = 0; i < rank; i++)
    order[i] = (int)mlirAffineDimExprGetPosition(mlirAffineMapGetResult(map, i));
  return true;
}
