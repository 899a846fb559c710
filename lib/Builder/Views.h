/* Views.h - tensors whose dimensions are in another order: linalg.transpose, and those that move
 * nothing.
 *
 * Why it exists: a tensor's encoding is its order in memory, so that a transpose may leave every
 * byte where it is. Such a transpose is a view: passes make them, the launch plan holds them,
 * and the manifest says of an operand which tensor it is and how its dimensions are permuted.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_BUILDER_VIEWS_H
#define MOE_BUILDER_VIEWS_H

#include "lib/Builder/Builder.h"
#include "lib/Builder/Inspect.h"

/* As linalg.transpose has it: dimension i of the result is dimension at[i] of the operand. */
typedef struct moe__permutation_t {
  int rank;
  int64_t at[MOE__MAX_RANK];
} moe__permutation_t;

/* The permutation that swaps the last two of `rank` dimensions. */
moe__permutation_t moe__swap_last_two(int rank);

/* The permutation that undoes p. */
moe__permutation_t moe__inverse(const moe__permutation_t *p);

bool moe__permutations_equal(const moe__permutation_t *p, const moe__permutation_t *q);

/* That of a linalg.transpose; false where it has more than MOE__MAX_RANK dimensions. */
bool moe__permutation_of(MlirOperation transpose, moe__permutation_t *out);

/* The type of a tensor of type `type`, transposed by p: with same_memory one that lies in memory
 * as it does, else row-major. The encoding of `type` is a memory order. */
MlirType moe__transposed(MlirType type, const moe__permutation_t *p, bool same_memory);

/* value, transposed by p to `type`, at the builder's place. */
MlirValue moe__transpose(moe__builder_t *b, MlirValue value, MlirType type,
                         const moe__permutation_t *p);

/* value with its last two dimensions swapped, in the same memory: what it is such a view of, a
 * view that is there already, or one more at the builder's place, which is before an op. */
MlirValue moe__swapped_view(moe__builder_t *b, MlirValue value);

/* Whether the op makes what a transpose has as its destination, of which only the type matters: a
 * tensor.empty, and what computes its sizes. */
bool moe__makes_destination(MlirOperation op);

/* Whether the op is a linalg.transpose of tensors that moves nothing. */
bool moe__is_view(MlirOperation op);

/* The tensor that `value` is a view of, through all views; `value` itself where it is none.
 * Dimension i of `value` is dimension out->at[i] of that tensor. */
MlirValue moe__view_source(MlirValue value, moe__permutation_t *out);

#endif /* MOE_BUILDER_VIEWS_H */
