/* CastKernel.h - what the lowerings to the pipeline of CastTiles.h share: from the op's
 * schedule to the pipeline, and the end of the kernel.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_KERNELS_MX_QUANTIZE_CAST_KERNEL_H
#define MOE_KERNELS_MX_QUANTIZE_CAST_KERNEL_H

#include "lib/Dialect/Dialect.h"
#include "lib/Kernels/Kernels.h"
#include "lib/Kernels/mx_quantize/CastTiles.h"

/* Whether the tensor of this role lies as the kernels have it; an error says how to get there. */
bool moe__needs_row_major(MlirOperation op, moe__role_t role);
bool moe__needs_column_major(MlirOperation op, moe__role_t role);

/* Whether results 'q' and `other` have one element type; an error where they do not, which names
 * `instead`, the op for one of them. */
bool moe__needs_one_fp8(MlirOperation op, moe__role_t other, moe__op_id_t instead);

/* Whether x is of two bytes an element: bf16, and not fp32. */
bool moe__cast_reads_bf16(MlirOperation op);

/* Of the two lists of this name, the one for the op's element type. */
#define MOE__CAST_CANDIDATES(op, name)                                                             \
  (moe__cast_reads_bf16(op) ? MOE__CANDIDATES(name##_BF16) : MOE__CANDIDATES(name##_F32))

/* Whether a kernel covers this quantize, a stream or tiles. */
bool moe__quantize_has_kernel(MlirOperation op);

/* Whether a kernel covers this FP8 quantizer that is not row by row: with 1x128 a stream, with
 * 128x128 tiles that are FP8 blocks. */
bool moe__quantize_blocks_has_kernel(MlirOperation op);

/* Starts the kernel, and sets what of `tiles` follows from its schedule and its layout. */
void moe__cast_kernel_begin(moe__kernel_t *kernel, moe__cast_tiles_t *tiles,
                            const moe__lowering_t *lowering, const bool writes[2]);

/* Adds the extents, tensor maps and groups of an op, whose tensors are set. by_group: with groups,
 * tiles begin with them. */
void moe__cast_kernel_parameters(moe__cast_tiles_t *tiles, MlirOperation op, bool by_group);

/* The same for a quantizer, whose tensor is set here: x, of results q along the last dimension, and
 * along the one before it q_t where both are written, else q. Adds the pointers to the scales
 * besides, by direction. */
void moe__cast_kernel_quantizer(moe__cast_tiles_t *tiles, MlirOperation op, MlirValue scales[2]);

/* The number, i64, of the scale in row `row` and column `column` (i32) of a matrix of `rows` x
 * `columns`, one for each batch. */
MlirValue moe__cast_scale_number(moe__cast_tiles_t *tiles, const moe__cast_unit_t *unit,
                                 MlirValue rows, MlirValue columns, MlirValue row,
                                 MlirValue column);

/* Builds the body, and appends the kernel under the function's name. */
void moe__cast_kernel_end(moe__cast_tiles_t *tiles, const moe__cast_t *cast,
                          const moe__lowering_t *lowering);

#endif /* MOE_KERNELS_MX_QUANTIZE_CAST_KERNEL_H */
