/* Verify.h - checks what an op of ours means, by its row; IRDL has checked how it is built.
 *
 * Every message names the operand, result or attribute, the value found and the values allowed.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_DIALECT_VERIFY_H
#define MOE_DIALECT_VERIFY_H

#include "mlir-c/IR.h"

#include <stdbool.h>
#include <stdint.h>

/* False after an error; true for an op of another dialect. */
bool moe__verify_op(MlirOperation op);

/* An error where dimension i of `name` is not `expected`, -1 for a dynamic one. kind: "operand" or
 * "result". */
bool moe__verify_dimension(MlirOperation op, const char *kind, const char *name, MlirType type,
                           int i, int64_t expected);

#endif /* MOE_DIALECT_VERIFY_H */
