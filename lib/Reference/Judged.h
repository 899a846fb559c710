/* Judged.h - an element of a result beside the exact one, for every product that is judged by a
 * bound.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_LIB_REFERENCE_JUDGED_H
#define MOE_LIB_REFERENCE_JUDGED_H

#include "moe/reference.h"

/* The exact result before the cast, and how far from it a kernel's may lie. Where the exact one is
 * Inf or NaN, the bound is 0. */
typedef struct moe__ref_judged_t {
  double exact, bound;
} moe__ref_judged_t;

/* What the cast to the result's type adds to the bound, where the fp32 value that is cast is within
 * `error` of `exact`. */
double moe__ref_cast_error(moe_ref_dtype_t out, double exact, double error);

/* Adds an element that a kernel wrote to the score. */
void moe__ref_score_element(double found, const moe__ref_judged_t *judged, moe_ref_dtype_t out,
                            int64_t row, int64_t column, moe_ref_score_t *score);

#endif /* MOE_LIB_REFERENCE_JUDGED_H */
