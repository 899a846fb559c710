/* ManagedPool.h - a workspace from the allocator of a framework, as DLPack hands it out.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_RUNTIME_MANAGED_POOL_H
#define MOE_RUNTIME_MANAGED_POOL_H

#include "lib/Runtime/Status.h"

/* For one call. The allocator knows the framework's current stream, which has to be the one that
 * is run on. Where it is NULL, the workspace comes from the device's own pool. */
typedef struct moe__rt_managed_pool_t {
  DLPackManagedTensorAllocator allocator;
  DLDevice device;
  DLManagedTensorVersioned *memory;
  bool in_order;     /* as moe_rt_call_run_in_order */
  char message[256]; /* why the allocator refused */
} moe__rt_managed_pool_t;

/* moe_rt_call_run, or moe_rt_call_run_in_order, with a workspace of the pool. The framework has the
 * memory back when it returns, and hands it on in the stream's order. */
moe_rt_status_t moe__rt_managed_pool_run(moe__rt_managed_pool_t *pool,
                                         const moe_rt_program_t *program,
                                         const moe_rt_function_info_t *function,
                                         const DLTensor *const *tensors, int tensor_count,
                                         void *stream);

#endif /* MOE_RUNTIME_MANAGED_POOL_H */
