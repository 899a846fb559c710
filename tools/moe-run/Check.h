/* Check.h - compares what a call computed with the C reference, bit for bit.
 *
 * Why it exists: quantizers are judged by bits, not by tolerances; and products too on data whose
 * sums are exact. On other data products are judged by the bound of libmoe_ref.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_RUN_CHECK_H
#define MOE_RUN_CHECK_H

#include "tools/moe-run/Device.h"

#include <jansson.h>

/* How two tensors differ. */
typedef struct moe__run_difference_t {
  int64_t count;                  /* of elements */
  int64_t first[MOE_RT_MAX_RANK]; /* logical index of the first one in memory */
  uint32_t got, expected;         /* its bits */
} moe__run_difference_t;

/* Runs the call twice on the target and once on the C reference and compares all three, and on a
 * device the guard zones too. Products are judged by their bounds unless the data are --exact; rows
 * of results that are in no group must not be written. call->results get the first run's data.
 * Appends an object to `cases`, and prints a line unless `json`. */
int moe__run_check(const moe__run_target_t *target, moe__run_call_t *call,
                   const moe__run_options_t *options, json_t *cases);

#endif /* MOE_RUN_CHECK_H */
