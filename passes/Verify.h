/* Verify.h - what the files of moe-verify share.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_PASSES_VERIFY_H
#define MOE_PASSES_VERIFY_H

#include "mlir-c/IR.h"

#include <stdbool.h>
#include <stdint.h>

#define MOE__MX_BLOCK 32
#define MOE__MAX_EXPERTS 1024
#define MOE__MM_BIAS_RULE 5 /* of scaled_mm_bias: the bias, among the rules of its operands */

/* Dimension i of `type`, -1 when dynamic. */
int64_t moe__static_dimension(MlirType type, int i);

/* An error where dimension i of `name` is not `expected`, -1 for a dynamic one. kind: "operand" or
 * "result". */
bool moe__verify_dimension(MlirOperation op, const char *kind, const char *name, MlirType type,
                           int i, int64_t expected);

/* How the shapes of a product's tensors belong together; its element types and ranks have been checked.
 * (VerifyProducts.c) */
bool moe__verify_scaled_mm(MlirOperation op);
bool moe__verify_grouped_mm(MlirOperation op);

#endif /* MOE_PASSES_VERIFY_H */
