/* Check.h - compares what a call computed with the C reference, bit for bit.
 *
 * Why it exists: quantizers are judged by bits, not by tolerances; and products too on data whose
 * sums are exact. On other data products are judged by the bound of libmoe_ref.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_RUN_CHECK_H
#define MOE_RUN_CHECK_H

#include "tools/moe-run/Device.h"
#include "tools/moe-run/Reference.h"

#include <jansson.h>

/* How two tensors differ. */
typedef struct moe__run_difference_t {
  int64_t count;                  /* of elements */
  int64_t first[MOE_RT_MAX_RANK]; /* logical index of the first one in memory */
  uint32_t got, expected;         /* its bits */
} moe__run_difference_t;

/* Results that were right, and how they were judged: the same bits of another program's call on the
 * same arguments need no reference. Zero at first. */
typedef struct moe__run_known_t {
  moe__run_tensor_t *results; /* owned; NULL: none yet */
  moe__run_judgment_t *judgments;
  int count;
} moe__run_known_t;

void moe__run_known_free(moe__run_known_t *known);

/* Runs the call twice on the target and once on the C reference and compares all three, and on a
 * device the guard zones too. Products are judged by their bounds unless the data are --exact; rows
 * of results that are in no group must not be written. call->results get the first run's data.
 * Appends an object to `cases`, and prints a line unless `json`. known: what calls on the same
 * arguments have in common, or NULL; it gets the results of the first one that is right. */
int moe__run_check(const moe__run_target_t *target, moe__run_call_t *call,
                   const moe__run_options_t *options, json_t *cases, moe__run_known_t *known);

#endif /* MOE_RUN_CHECK_H */
