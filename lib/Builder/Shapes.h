/* Shapes.h - the shape of each result of our ops, from those of the operands.
 *
 * Why it exists: the verifier compares types with it, and the manifest writes sizes that are known
 * only when a program is called; both must mean the same.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_BUILDER_SHAPES_H
#define MOE_BUILDER_SHAPES_H

#include "lib/Builder/Inspect.h"

/* The size of a dimension:
 *
 *   multiple * (ceil(size / divisor) + groups)
 *
 * where `size` is dimension `dimension` of operand `operand`, or 1 where `operand` is -1, and
 * `groups` is dimension 0 of operand number `groups_operand`, or 0 where that is -1. */
typedef struct moe__size_t {
  int operand, dimension;
  int groups_operand;
  int64_t divisor, multiple;
} moe__size_t;

typedef struct moe__shape_t {
  int rank;
  moe__size_t sizes[MOE__MAX_RANK];
} moe__shape_t;

/* The shape of result number `result` of an op of the dialects; its operands have the ranks that
 * moe-verify asks for. False for an op that is not known. */
bool moe__result_shape(MlirOperation op, int result, moe__shape_t *out);

/* The shape that operand number `operand` must have: the scales or factors of a cast, of dequantize or
 * of dequantize_fp8; f32 scales or the bias of scaled_mm, by the rank that it has. */
void moe__scales_shape(MlirOperation op, int operand, moe__shape_t *out);

/* What a quantizer of FP8 has one scale for. The names are those of the attribute `granularity`.
 * X(constant, name) */
#define MOE__GRANULARITIES(X)                                                                      \
  X(MOE__ROW, "row") /* a slice along the axis, within its group where there are groups */         \
  X(MOE__TENSOR, "tensor")                                                                         \
  X(MOE__EXPERT, "expert")   /* one of dimension 0 */                                              \
  X(MOE__GROUP, "group")     /* the rows of a group */                                             \
  X(MOE__1X128, "1x128")     /* 128 consecutive elements of the last dimension */                  \
  X(MOE__128X128, "128x128") /* a square of the last two dimensions */

typedef enum moe__granularity_t {
#define MOE__GRANULARITY(constant, name) constant,
  MOE__GRANULARITIES(MOE__GRANULARITY)
#undef MOE__GRANULARITY
} moe__granularity_t;

/* The granularity of an op that has the attribute and is verified, and its name. */
moe__granularity_t moe__op_granularity(MlirOperation op);
const char *moe__granularity_name(moe__granularity_t granularity);

/* Which of its three sums a product of scaled_grouped_mm is: it follows from the ranks of its first two
 * operands. Forward: tokens (M,K) in ragged groups times (E,K,N). Gradient: (N,M) times (M,K), summed
 * over the tokens of each group. Batched: (E,M,K) times (E,K,N). */
typedef enum moe__mm_case_t {
  MOE__FORWARD,
  MOE__GRADIENT,
  MOE__BATCHED,
  MOE__NO_CASE
} moe__mm_case_t;

moe__mm_case_t moe__mm_case(MlirOperation op);

/* Whether the op is scaled_mm or scaled_mm_bias. */
bool moe__is_scaled_mm(MlirOperation op);

/* The numbers of operands of scaled_grouped_mm.scaled_mm and scaled_mm_bias that are not always there;
 * -1 where they are not. */
int moe__mm_offs_operand(MlirOperation op);
int moe__mm_bias_operand(MlirOperation op);

/* The operand number `index`, null where the op has none of this number; offs is the last of those that have it.
 */
MlirValue moe__op_operand(MlirOperation op, int index);

#endif /* MOE_BUILDER_SHAPES_H */
