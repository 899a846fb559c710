/* ManagedPool.c - a workspace from the allocator of a framework.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Runtime/ManagedPool.h"

#include "lib/Runtime/Run.h"

#include <stdio.h>

static void keep_error(void *context, const char *kind, const char *message) {
  moe__rt_managed_pool_t *pool = context;
  snprintf(pool->message, sizeof pool->message, "%s: %s", kind ? kind : "error",
           message ? message : "no message");
}

static void *allocate(void *context, size_t bytes, void *stream) {
  (void)stream;
  moe__rt_managed_pool_t *pool = context;
  int64_t size = (int64_t)bytes + MOE__RT_ALIGNMENT;
  DLTensor prototype = {.device = pool->device,
                        .ndim = 1,
                        .dtype = {.code = kDLUInt, .bits = 8, .lanes = 1},
                        .shape = &size};
  if (pool->allocator(&prototype, &pool->memory, pool, keep_error) != 0 || !pool->memory)
    return NULL;
  const DLTensor *tensor = &pool->memory->dl_tensor;
  uintptr_t address = (uintptr_t)tensor->data + tensor->byte_offset;
  uintptr_t unaligned = address % MOE__RT_ALIGNMENT;
  return (void *)(unaligned ? address + MOE__RT_ALIGNMENT - unaligned : address);
}

moe_rt_status_t moe__rt_managed_pool_run(moe__rt_managed_pool_t *pool,
                                         const moe_rt_program_t *program,
                                         const moe_rt_function_info_t *function,
                                         const DLTensor *const *tensors, int tensor_count,
                                         void *stream) {
  moe_rt_workspace_t workspace = {.allocate = allocate, .context = pool};
  const moe__rt_run_t run = {pool->allocator ? &workspace : NULL, stream, pool->in_order};
  moe_rt_status_t status = moe__rt_run(program, function, tensors, tensor_count, &run);
  if (status == MOE_RT_OUT_OF_MEMORY && pool->message[0])
    status = moe__rt_fail_in(status, "%s", pool->message);
  if (pool->memory && pool->memory->deleter)
    pool->memory->deleter(pool->memory);
  return status;
}
