/* Describe.h - a call in words and in JSON.
 *
 * Why it exists: check, benchmark and plain run name shapes in the same way.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_RUN_DESCRIBE_H
#define MOE_RUN_DESCRIBE_H

#include "tools/moe-run/Device.h"

#include <jansson.h>

/* A JSON list of the numbers. */
json_t *moe__run_describe_list(int count, const int64_t *values);

/* {"w": [8, 8192, 5120]}: the logical shapes of the arguments. */
json_t *moe__run_describe_shapes(const moe__run_call_t *call);

/* "w=8x8192x5120 offs=8", owned by the caller; NULL when out of memory. */
char *moe__run_describe_arguments(const moe__run_call_t *call);

/* What --json says whatever the mode is: mode, bundle, function, device, ok. */
json_t *moe__run_describe_outcome(const moe__run_options_t *options,
                                  const moe__run_target_t *target,
                                  const moe_rt_function_info_t *function, bool ok);

/* Prints the object on stdout, and frees it. */
void moe__run_describe_print(json_t *root);

#endif /* MOE_RUN_DESCRIBE_H */
