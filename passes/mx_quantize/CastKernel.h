/* CastKernel.h - what the lowerings to the pipeline of lib/Kernel/CastTiles.h share: from the op's
 * schedule to the pipeline, and the end of the kernel.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_PASSES_MX_QUANTIZE_CAST_KERNEL_H
#define MOE_PASSES_MX_QUANTIZE_CAST_KERNEL_H

#include "lib/Kernel/CastTiles.h"
#include "passes/Schedule.h"

/* The types of the op's operands and results. */
MlirType moe__operand_type(MlirOperation op, int operand);
MlirType moe__result_type(MlirOperation op, int result);

/* Whether the tensor lies as the kernels have it; an error says how to get there. */
bool moe__needs_row_major(MlirOperation op, const char *name, MlirType type);
bool moe__needs_column_major(MlirOperation op, const char *name, MlirType type);

/* How many groups a kernel has room for, by the type of their ends. */
int moe__cast_max_groups(MlirType offs);

/* Starts the kernel of `op` by its schedule, and sets what of `tiles` follows from that. False after
 * an error. */
bool moe__cast_kernel_begin(moe__kernel_t *kernel, moe__cast_tiles_t *tiles, MlirOperation op,
                            moe__directions_t directions, int max_groups);

/* Builds the body, and appends the kernel under the function's name. */
void moe__cast_kernel_end(moe__cast_tiles_t *tiles, const moe__cast_t *cast, MlirOperation function,
                          MlirBlock gpu_module_body);

#endif /* MOE_PASSES_MX_QUANTIZE_CAST_KERNEL_H */
