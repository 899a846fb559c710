/* Values.c - see Values.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "passes/Values.h"

#include <stdlib.h>

void moe__values_push(moe__values_t *values, MlirValue value) {
  values->at = realloc(values->at, (values->count + 1) * sizeof *values->at);
  if (!values->at)
    abort();
  values->at[values->count++] = value;
}

size_t moe__values_find(const moe__values_t *values, MlirValue value) {
  size_t i = 0;
  while (i < values->count && !mlirValueEqual(values->at[i], value))
    i++;
  return i;
}

bool moe__values_contain(const moe__values_t *values, MlirValue value) {
  return moe__values_find(values, value) < values->count;
}

void moe__values_clear(moe__values_t *values) {
  free(values->at);
  *values = (moe__values_t){0};
}

bool moe__has_uses(MlirOperation op) {
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++)
    if (!mlirOpOperandIsNull(mlirValueGetFirstUse(mlirOperationGetResult(op, i))))
      return true;
  return false;
}
