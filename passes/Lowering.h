/* Lowering.h - what the conversions share: the kernels of Kernels.def, and the walk over outlined
 * kernels.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_PASSES_LOWERING_H
#define MOE_PASSES_LOWERING_H

#include "lib/Kernel/Kernel.h"

#include "mlir-c/IR.h"

#include <stdbool.h>

/* moe__<symbol>_has_kernel: whether there is a kernel for this op, which moe-verify has passed; for
 * what the one there is does not cover an error is emitted that says the way out.
 *
 * moe__lower_<symbol>: builds the kernel of `op`, which the outlined `function` holds, and appends
 * it under the function's name to the body of the gpu.module. False after an error. */
#define MOE_KERNEL(op_name, symbol)                                                                \
  bool moe__##symbol##_has_kernel(MlirOperation op);                                               \
  bool moe__lower_##symbol(MlirOperation function, MlirOperation op, MlirBlock gpu_module_body);
#include "passes/Kernels.def"
#undef MOE_KERNEL

/* Lowers each outlined function of the module that holds an op of this dialect, and removes the
 * function. */
bool moe__lower_kernels(MlirOperation module, const char *dialect);

/* Whether the tensor has this memory order, of which `count` positions are given; its rank may be
 * less. */
bool moe__is_order(MlirType type, int count, const int *expected);

/* Whether the tensor is row-major. */
bool moe__is_row_major(MlirType type);

/* Whether its last two dimensions are swapped in memory. */
bool moe__is_column_major(MlirType type);

/* The kernels of quantize_fp8, by granularity: row, blocks of 128 x 128; those of 1 x 128 are a stream. */
bool moe__quantize_rows_has_kernel(MlirOperation op);
bool moe__lower_quantize_rows(MlirOperation function, MlirOperation op, MlirBlock gpu_module_body);
bool moe__quantize_blocks_has_kernel(MlirOperation op);
bool moe__lower_quantize_blocks(MlirOperation function, MlirOperation op,
                                MlirBlock gpu_module_body);

/* The kernel of quantize along the last dimension, and of quantize_fp8 in blocks of 1 x 128. */
bool moe__lower_quantize_stream(MlirOperation function, MlirOperation op,
                                MlirBlock gpu_module_body);

/* The most groups that offs, operand number `operand`, may have; 0 where the op has none. */
#define MOE__MAX_GROUPS 1024
int moe__max_groups(MlirOperation op, int operand);

/* States what moe__scales_shape says of an operand: a launcher refuses scales of another shape. */
void moe__require_scales(moe__kernel_t *kernel, MlirOperation op, int operand);

/* An error where the dimension is static and not a multiple of `divisor`, or of 16. */
bool moe__needs_multiple(MlirOperation op, const char *name, MlirType type, int dimension,
                         int64_t divisor);
bool moe__needs_multiple_of_16(MlirOperation op, const char *name, MlirType type, int dimension);

/* Whether operands 'x' and 'y' of a pair have one element type; an error where they do not. */
bool moe__needs_one_element(MlirOperation op);

#endif /* MOE_PASSES_LOWERING_H */
