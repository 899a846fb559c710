/* Dialect.h - the ops of the project's dialects, and their tensors by name.
 *
 * Why it exists: passes and kernels name an op, an operand or a result, and never count. What an
 * op is stands in its row (Row.h).
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_DIALECT_DIALECT_H
#define MOE_DIALECT_DIALECT_H

#include "lib/Builder/Inspect.h"
#include "moe/limits.h"

/* The roles of operands and results: their names in the IRDL text and in the manifest. One role
 * means the same in every op. EACH(constant, name) */
#define MOE__ROLES(EACH)                                                                           \
  EACH(X, "x")                                                                                     \
  EACH(Y, "y")       /* a second tensor with the same rows */                                      \
  EACH(OFFS, "offs") /* the ends of the groups, i32 */                                             \
  EACH(Q, "q")                                                                                     \
  EACH(SCALES, "scales")                                                                           \
  EACH(FACTORS, "factors") /* what elements are multiplied by: the inverse of scales */            \
  EACH(STATE, "state")     /* belongs to the kernel; zero before and after each call */            \
  EACH(Q_T, "q_t")         /* _t: along the dimension before the last */                           \
  EACH(SCALES_T, "scales_t")                                                                       \
  EACH(FACTORS_T, "factors_t")                                                                     \
  EACH(STATE_T, "state_t")                                                                         \
  EACH(Q_Y, "q_y") /* _y: of y */                                                                  \
  EACH(SCALES_Y, "scales_y")                                                                       \
  EACH(SCALES_X, "scales_x") /* of x, where other scales are of w */                               \
  EACH(FACTORS_Y, "factors_y")                                                                     \
  EACH(STATE_Y, "state_y")                                                                         \
  EACH(STATE_A, "state_a") /* of a, of b */                                                        \
  EACH(STATE_B, "state_b")                                                                         \
  EACH(PACKED, "packed")                                                                           \
  EACH(ROUNDED, "rounded")                                                                         \
  EACH(ROUNDED_T, "rounded_t")                                                                     \
  EACH(PADDED, "padded")                                                                           \
  EACH(PADDED_OFFS, "padded_offs")                                                                 \
  EACH(A, "a")                                                                                     \
  EACH(B, "b")                                                                                     \
  EACH(QA, "qa")                                                                                   \
  EACH(QB, "qb")                                                                                   \
  EACH(SA, "sa") /* the scales of qa */                                                            \
  EACH(SB, "sb") /* the scales of qb */                                                            \
  EACH(BIAS, "bias")                                                                               \
  EACH(W, "w")                                                                                     \
  EACH(ZEROS, "zeros") /* what is subtracted from weights */                                       \
  EACH(OUT, "out")

typedef enum moe__role_t {
  MOE__NO_ROLE,
#define MOE__ROLE(symbol, name) MOE__##symbol,
  MOE__ROLES(MOE__ROLE)
#undef MOE__ROLE
} moe__role_t;

/* "offs"; NULL for MOE__NO_ROLE. */
const char *moe__role_name(moe__role_t role);

/* The ops: MOE__OP_QUANTIZE, ... */
typedef enum moe__op_id_t {
  MOE__NO_OP,
#define MOE_DIALECT(...)
#define MOE_OP(symbol, ...) MOE__OP_##symbol,
#include "lib/Dialect/Dialects.def"
  MOE__NUM_OPS
} moe__op_id_t;

/* Which op of ours it is; MOE__NO_OP for an op of another dialect. */
moe__op_id_t moe__op_id(MlirOperation op);
bool moe__is(MlirOperation op, moe__op_id_t id);

/* Whether the op launches a kernel that is outlined: it names one. */
bool moe__is_launch(MlirOperation op);

/* "mx_quantize.quantize"; and "quantize", for messages. */
const char *moe__op_id_name(moe__op_id_t id);
const char *moe__op_id_short_name(moe__op_id_t id);

/* The operand or result of this role; null where the op has none of it, or where an optional one is
 * missing. */
MlirValue moe__operand(MlirOperation op, moe__role_t role);
MlirValue moe__result(MlirOperation op, moe__role_t role);

/* The type of the operand or result of this role, which must be there. No op has one role twice. */
MlirType moe__tensor_type(MlirOperation op, moe__role_t role);
MlirType moe__element_type(MlirOperation op, moe__role_t role); /* that of its elements */

/* Its number among the operands; -1 where it is not there. */
int moe__operand_number(MlirOperation op, moe__role_t role);

/* Its number as kernels' records count: operands, then results; -1 where it is not there. */
int moe__tensor_number(MlirOperation op, moe__role_t role);

/* The attributes that functions, their arguments and results may have. What an argument or a result
 * is called: */
#define MOE__NAME "moe.name"

/* Whether the gradient of an argument is asked for; of no part of a function that has been cut. */
#define MOE__DIFFERENTIABLE "moe.differentiable"

/* Of the two functions that one is cut into, each the symbol of the other: of the backward function
 * that of its forward one, of that the backward one's. */
#define MOE__FORWARD_FUNCTION "moe.forward"
#define MOE__BACKWARD_FUNCTION "moe.backward"

/* What a caller says of an argument of a function, and moe-outline-kernels of those of its kernels:
 * nothing that may still run when the function is launched writes it. So a kernel may read it
 * before what is before it on the stream has ended. */
#define MOE__CONSTANT "moe.constant"

/* Whether the operand of this role is constant in the kernel that the op is outlined to; true where
 * the op has no such operand. */
bool moe__is_constant(MlirOperation op, moe__role_t role);

/* The role of operand, or result, number `number` of an op of ours. */
moe__role_t moe__operand_role(MlirOperation op, int number);
moe__role_t moe__result_role(MlirOperation op, int number);

/* Which case of its row an op is; -1 where the ranks are those of none. */
int moe__op_case(MlirOperation op);

/* ---- What attributes mean ---- */

/* What a quantizer of FP8 has one scale for. */
typedef enum moe__granularity_t {
#define MOE_GRANULARITY(symbol, name) MOE__##symbol,
#include "moe/fp8_granularities.def"
} moe__granularity_t;

/* The granularity of an op that is verified, "row" where it does not say; and its name. */
moe__granularity_t moe__op_granularity(MlirOperation op);
const char *moe__granularity_name(moe__granularity_t granularity);

/* Which of its three sums a product of scaled_grouped_mm is: its case. Forward: tokens (M,K) in
 * ragged groups times (E,K,N). Gradient: (N,M) times (M,K), summed over the tokens of each
 * group. Batched: (E,M,K) times (E,K,N). */
typedef enum moe__mm_case_t {
  MOE__FORWARD,
  MOE__GRADIENT,
  MOE__BATCHED,
  MOE__NO_CASE
} moe__mm_case_t;

moe__mm_case_t moe__mm_case(MlirOperation op);

/* The first (0) or second (1) factor of a product of matrices: qa and qb; or a and b, which have
 * no scales. */
moe__role_t moe__factor_role(MlirOperation op, int which);
MlirType moe__factor_type(MlirOperation op, int which);

/* Whether the op is scaled_mm or scaled_mm_bias. */
bool moe__is_scaled_mm(MlirOperation op);

/* Whether the op is mm or mm_bias, whose operands have 16 bits. */
bool moe__is_mm(MlirOperation op);

/* Whether the op is dequantize_mm or dequantize_mm_bias, whose factors a and b are results: what
 * qa and qb stand for. */
bool moe__is_dequantize_mm(MlirOperation op);

/* Of a product: whether sa has a scale for each 1 x 128 of qa, and sb one for each 128 x 128, or in
 * a gradient also for each 1 x 128. */
bool moe__has_block_scales(MlirOperation op);

/* Whether the op is a product of mixed_mm's family whose weights are not packed; and whether the
 * weights of such a product are FP8. */
bool moe__has_plain_weights(MlirOperation op);
bool moe__has_fp8_weights(MlirOperation op);

/* Whether columns of x are in the order "evens_first": of each 16 first those with an even number;
 * of the result of dequantize, or the operand of such a product. */
bool moe__has_evens_first(MlirOperation op);

/* The layout of the packed weights of such a product: by its format. */
const char *moe__packed_layout(MlirOperation op);

/* Tokens that groups begin at a multiple of: MOE_GROUP_ALIGN, or 0 where the op has no attribute
 * `align` and groups begin anywhere. Not of move_groups, which may have any. */
int moe__group_align(MlirOperation op);

/* Whether a product's scales are those of MX blocks. */
bool moe__has_mx_scales(MlirOperation op);

#endif /* MOE_DIALECT_DIALECT_H */
