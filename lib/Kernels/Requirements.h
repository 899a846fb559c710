/* Requirements.h - what kernels ask of an op, and require of a launcher.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_KERNELS_REQUIREMENTS_H
#define MOE_KERNELS_REQUIREMENTS_H

#include "lib/Device/Kernel.h"
#include "lib/Dialect/Dialect.h"

#include "mlir-c/IR.h"

#include <stdbool.h>

/* So many tokens of an expert on average, or fewer, take as long as reading its weights. */
#define MOE__FEW_TOKENS 64

/* Of a product over experts: whether these have few tokens on average; not where that is
 * unknown. */
bool moe__has_few_tokens(MlirOperation op);

/* The rank of a tensor of the op, and the bytes of an element of it, of 8, 16 or 32 bits. */
int moe__tensor_rank(MlirOperation op, moe__role_t role);
int moe__tensor_element_bytes(MlirOperation op, moe__role_t role);

/* Whether the tensor is row-major. */
bool moe__is_row_major(MlirType type);

/* Whether its last two dimensions are swapped in memory. */
bool moe__is_column_major(MlirType type);

/* Whether the op has offs, the ends of groups. */
bool moe__is_grouped(MlirOperation op);

/* The most groups that the op may have; 0 where it has no offs. */
int moe__max_groups(MlirOperation op);

/* States what the op's row says of the shapes of its operands: a launcher refuses others. */
void moe__require_shapes(moe__kernel_t *kernel, MlirOperation op);

/* States how many groups there may be; offs: the number of the tensor of their ends. */
void moe__require_groups(moe__kernel_t *kernel, int offs);

/* An error where a dimension of the operand is static and not a multiple of `divisor`, or of 16. */
bool moe__needs_multiple(MlirOperation op, moe__role_t role, int dimension, int64_t divisor);
bool moe__needs_multiple_of_16(MlirOperation op, moe__role_t role, int dimension);

/* Whether operands 'x' and 'y' of a pair have one element type; an error where they do not. */
bool moe__needs_one_element(MlirOperation op);

#endif /* MOE_KERNELS_REQUIREMENTS_H */
