/* Judged.h - an element of a result beside the exact one, for every product that is judged by a
 * bound.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_LIB_REFERENCE_JUDGED_H
#define MOE_LIB_REFERENCE_JUDGED_H

#include "moe/reference.h"

#include <stdbool.h>

/* The exact result before the cast, and how far from it a kernel's may lie. Where the exact one is
 * Inf or NaN, the bound is 0. */
typedef struct moe__ref_judged_t {
  double exact, bound;
  /* Whether some order of the sum leaves fp32's range, above and below: then that Inf is right too,
   * and where both do, NaN. */
  bool may_be_inf, may_be_minus_inf;
} moe__ref_judged_t;

/* What the magnitudes that are summed must not exceed for every order of them to stay in fp32's
 * range: a little less than its greatest number, since partial sums are rounded. */
#define MOE__REF_FP32_RANGE 0x1.ffep127

/* What the cast to the result's type adds to the bound, where the fp32 value that is cast is within
 * `error` of `exact`. */
double moe__ref_cast_error(moe_ref_dtype_t out, double exact, double error);

/* Adds an element that a kernel wrote to the score. */
void moe__ref_score_element(double found, const moe__ref_judged_t *judged, moe_ref_dtype_t out,
                            int64_t row, int64_t column, moe_ref_score_t *score);

#endif /* MOE_LIB_REFERENCE_JUDGED_H */
