/* Shapes.h - the shape of each tensor of our ops, from those of the operands.
 *
 * Why it exists: the verifier compares types with it, a launcher checks what a kernel requires
 * by it, and the manifest writes sizes that are known only when a program is called; all must
 * mean the same.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_DIALECT_SHAPES_H
#define MOE_DIALECT_SHAPES_H

#include "lib/Dialect/Dialect.h"

/* The size of a dimension:
 *
 *   multiple * (ceil(size / divisor) + groups)
 *   multiple * ceil(size / divisor) + groups        if groups_apart
 *
 * where `size` is dimension `dimension` of operand number `operand`, or 1 where `operand` is -1,
 * and `groups` is dimension 0 of operand number `groups_operand`, or 0 where that is -1. */
typedef struct moe__size_t {
  int operand, dimension;
  int groups_operand;
  bool groups_apart;
  int64_t divisor, multiple;
} moe__size_t;

typedef struct moe__shape_t {
  int rank;
  moe__size_t sizes[MOE__MAX_RANK];
} moe__shape_t;

/* The shape that the operand or result of this role must have, of an op whose row has cases and
 * that is one of them. A dimension that defines its own letter is a copy of itself. */
void moe__tensor_shape(MlirOperation op, moe__role_t role, moe__shape_t *out);

/* The element type and the rank that the tensor has say which of several shapes it must have.
 * These are the same as above, for result number `result`. */
void moe__result_shape(MlirOperation op, int result, moe__shape_t *out);

/* What a size is where the operands' types say it; -1 where they do not. */
int64_t moe__static_size(MlirOperation op, const moe__size_t *size);

/* Dimension i of `type`, -1 when dynamic. */
int64_t moe__static_dimension(MlirType type, int i);

/* ---- For the functions of rows ---- */

/* Append a dimension: that of an operand, a constant, one for each `divisor` of it, rounded up, and
 * the dimension up to a multiple with room for one more in each group of operand number
 * `groups_operand` (-1: no groups). */
void moe__append_copy(moe__shape_t *shape, int operand, int dimension);
void moe__append_constant(moe__shape_t *shape, int64_t value);
void moe__append_divided(moe__shape_t *shape, int operand, int dimension, int64_t divisor);
void moe__append_padded(moe__shape_t *shape, int operand, int dimension, int64_t multiple,
                        int groups_operand);

/* ---- Letters, for the verifier ---- */

/* How the case of an op names a tensor. */
typedef enum moe__presence_t { MOE__ABSENT, MOE__MAYBE, MOE__PRESENT } moe__presence_t;
moe__presence_t moe__presence(const char *letters, moe__role_t role);

/* The rank of the first alternative of a tensor; -1 for a star and for what a function says. */
int moe__letters_rank(const char *letters, moe__role_t role);

/* The role and dimension that define a letter in the case of an op; MOE__NO_ROLE where none
 * does. */
moe__role_t moe__letter_owner(MlirOperation op, char letter, int *out_dimension);

#endif /* MOE_DIALECT_SHAPES_H */
