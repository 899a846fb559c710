/* SelectSchedule.c - gives each op its schedule, one of the candidates of its kernel.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Builder/Inspect.h"
#include "lib/Kernels/Kernels.h"
#include "passes/Passes.h"

#include <stdlib.h>
#include <string.h>

static bool schedule_op(MlirOperation op, void *user) {
  const int *candidate = user;
  const moe__kernel_definition_t *kernel = moe__kernel_of(op);
  if (kernel) {
    if (!kernel->has_kernel(op))
      return false;
    moe__kernel_select_schedule(op, *candidate);
    return moe__kernel_complete_schedule(op);
  }
  moe__op_id_t id = moe__op_id(op);
  return !id || moe__error(op, "'%s' has no kernel; --emit=fused makes ops of it that have",
                           moe__op_id_name(id));
}

bool moe__pass_select_schedule(MlirOperation module, const moe__pass_t *pass) {
  const char *text = moe__pass_option(pass, "candidate");
  size_t digits = strspn(text, "0123456789");
  if (!digits || digits > 3 || text[digits])
    return moe__error(module, "moe-select-schedule: candidate '%s' is not a number from 0 to 999",
                      text);
  if (!moe__pass_verify(module, pass)) /* the rest relies on it */
    return false;
  int candidate = atoi(text), count = moe__kernels_count_candidates(module);
  if (!moe__walk(module, schedule_op, &candidate))
    return false;
  return candidate < count ||
         moe__error(module, "there is no candidate %d; the ops have %d, from 0 on", candidate,
                    count);
}
