/* Lowering.h - what the conversions share: what there are kernels for, and the walk over outlined
 * kernels.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_PASSES_LOWERING_H
#define MOE_PASSES_LOWERING_H

#include "mlir-c/IR.h"

#include <stdbool.h>

/* Builds the kernel of `op`, which the outlined `function` holds, and appends it under the
 * function's name to the body of the gpu.module. False after an error. */
typedef bool (*moe__lower_t)(MlirOperation function, MlirOperation op, MlirBlock gpu_module_body);

/* Calls lower for each outlined function of the module that holds an op of this name, and removes
 * the function. */
bool moe__lower_kernels(MlirOperation module, const char *op_name, moe__lower_t lower);

/* Whether there is a kernel for this op, which moe-verify has passed; for what the one there is
 * does not cover an error is emitted that says the way out. */
bool moe__quantize_has_kernel(MlirOperation op);
bool moe__scaled_mm_has_kernel(MlirOperation op);

#endif /* MOE_PASSES_LOWERING_H */
