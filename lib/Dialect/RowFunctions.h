/* RowFunctions.h - what the rows say by a function, since letters cannot. Row.h says when they
 * are called.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_DIALECT_ROW_FUNCTIONS_H
#define MOE_DIALECT_ROW_FUNCTIONS_H

#include "lib/Dialect/Shapes.h"

/* MxQuantize.c: the axis and the block size of MX; which axes and groups a granularity has; what
 * moves groups. */
bool moe__check_aligned(MlirOperation op);
bool moe__check_mx_quantize(MlirOperation op);
bool moe__check_mx_dequantize(MlirOperation op);
bool moe__check_order(MlirOperation op);
bool moe__check_mx_quantize_dual(MlirOperation op);
bool moe__check_round(MlirOperation op);
bool moe__check_granularity(MlirOperation op);
bool moe__check_fp8_dual(MlirOperation op);
bool moe__check_groups_moved(MlirOperation op);
bool moe__check_pack_scales(MlirOperation op);

/* Scales along `axis`; q, scales, factors and state by granularity; packed scales; padded rows. */
void moe__mx_shape(MlirOperation op, moe__role_t role, moe__shape_t *out);
void moe__fp8_shape(MlirOperation op, moe__role_t role, moe__shape_t *out);
void moe__fp8_dual_shape(MlirOperation op, moe__role_t role, moe__shape_t *out);
void moe__packed_shape(MlirOperation op, moe__role_t role, moe__shape_t *out);
void moe__padded_shape(MlirOperation op, moe__role_t role, moe__shape_t *out);

/* ScaledGroupedMm.c: element types that must agree. */
bool moe__check_mm(MlirOperation op);
bool moe__check_scaled_mm(MlirOperation op);
bool moe__check_dequantize_mm(MlirOperation op);

/* The state of a product that makes its operands: an i32 for each panel of them. */
void moe__dequantize_mm_shape(MlirOperation op, moe__role_t role, moe__shape_t *out);

/* The same: four-bit weights, as their layout says, and what is packed of them. */
bool moe__check_pack_weights(MlirOperation op);
bool moe__check_mixed_mm(MlirOperation op);
void moe__packed_weights_shape(MlirOperation op, moe__role_t role, moe__shape_t *out);
void moe__mixed_weights_shape(MlirOperation op, moe__role_t role, moe__shape_t *out);

#endif /* MOE_DIALECT_ROW_FUNCTIONS_H */
