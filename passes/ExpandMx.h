/* ExpandMx.h - what a product of operands in MX blocks becomes.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_PASSES_EXPAND_MX_H
#define MOE_PASSES_EXPAND_MX_H

#include "mlir-c/IR.h"

#include <stdbool.h>

/* Turns a verified product with scales of MX blocks into the ops that compute it, in place. False
 * after an error. */
bool moe__expand_mx_product(MlirOperation op);

#endif /* MOE_PASSES_EXPAND_MX_H */
