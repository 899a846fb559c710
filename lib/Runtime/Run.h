/* Run.h - what runs of a function remember: the plans of the shapes they saw.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_RUNTIME_RUN_H
#define MOE_RUNTIME_RUN_H

#include "lib/Runtime/Plan.h"

typedef struct moe__rt_runs_t moe__rt_runs_t;

/* One for each function of a program on a device; NULL when memory is out. */
moe__rt_runs_t *moe__rt_runs_make(int function_count);

/* No run may be under way. */
void moe__rt_runs_destroy(moe__rt_runs_t *runs, int function_count);

#endif /* MOE_RUNTIME_RUN_H */
