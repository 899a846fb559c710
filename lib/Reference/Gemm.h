/* Gemm.h - the sums of the products that a scaled_mm is, group by group.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_LIB_REFERENCE_GEMM_H
#define MOE_LIB_REFERENCE_GEMM_H

#include "lib/Reference/Sums.h"

/* Calls visit(context, ...) for tiles that cover rows [begin, end) of all groups, group by
 * group. */
moe_ref_status_t moe__ref_gemm_tiles(const moe_ref_scaled_mm_t *mm, int64_t begin, int64_t end,
                                     bool magnitudes, moe__ref_visit_t visit, void *context);

/* The same for the product of a and b, of the shapes of mm's operands and of any type of
 * numbers. */
moe_ref_status_t moe__ref_gemm_tiles_of(const moe_ref_scaled_mm_t *mm, const moe_ref_tensor_t *a,
                                        const moe_ref_tensor_t *b, int64_t begin, int64_t end,
                                        bool magnitudes, moe__ref_visit_t visit, void *context);

#endif /* MOE_LIB_REFERENCE_GEMM_H */
