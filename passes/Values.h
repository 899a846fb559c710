/* Values.h - lists of values, and whether anything uses them.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_PASSES_VALUES_H
#define MOE_PASSES_VALUES_H

#include "mlir-c/IR.h"

#include <stdbool.h>
#include <stddef.h>

/* Zero is the empty list. */
typedef struct moe__values_t {
  MlirValue *at; /* owned */
  size_t count;
} moe__values_t;

/* Appends a value. */
void moe__values_push(moe__values_t *values, MlirValue value);

/* The place of a value; values->count where it is not there. */
size_t moe__values_find(const moe__values_t *values, MlirValue value);
bool moe__values_contain(const moe__values_t *values, MlirValue value);

/* Makes it the empty list. */
void moe__values_clear(moe__values_t *values);

/* Whether anything uses a result of the op. */
bool moe__has_uses(MlirOperation op);

#endif /* MOE_PASSES_VALUES_H */
