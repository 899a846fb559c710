/* Run.h - runs of a function, and what they remember: the plans of the shapes they saw.
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

/* How a function is run: see moe_rt_call_run. */
typedef struct moe__rt_run_t {
  const moe_rt_workspace_t *workspace; /* NULL: from the device's own pool */
  void *stream;
  bool in_order; /* as moe_rt_call_run_in_order */
} moe__rt_run_t;

moe_rt_status_t moe__rt_run(const moe_rt_program_t *program, const moe_rt_function_info_t *function,
                            const DLTensor *const *tensors, int tensor_count,
                            const moe__rt_run_t *run);

#endif /* MOE_RUNTIME_RUN_H */
