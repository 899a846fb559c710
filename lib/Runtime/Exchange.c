/* Exchange.c - runs a function on the tensors of a Python framework, given as Python objects.
 *
 * Why it exists: a training step calls small functions often, and Python takes longer to
 * describe five tensors than the driver takes to launch a kernel. DLPack's exchange table has
 * the framework's own C functions for that. None of them needs Python's headers: a PyObject is
 * an address here.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Runtime/ManagedPool.h"

/* An exchange table of a major version that this file knows. */
static const DLPackExchangeAPI *known_version(const DLPackExchangeAPI *framework) {
  const DLPackExchangeAPIHeader *header = framework ? &framework->header : NULL;
  while (header && header->version.major != DLPACK_MAJOR_VERSION)
    header = header->prev_api;
  return (const DLPackExchangeAPI *)header;
}

moe_rt_status_t moe_rt_call_run_objects(const moe_rt_object_call_t *call) {
  if (!call || !call->program || !call->function)
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "program or function is NULL");
  const DLPackExchangeAPI *table = known_version(call->framework);
  if (!table || !table->dltensor_from_py_object_no_sync || !table->managed_tensor_allocator ||
      !table->current_work_stream) {
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT,
                        "the framework has no exchange table of DLPack %d with views of tensors",
                        DLPACK_MAJOR_VERSION);
  }
  int count = call->function->argument_count + call->function->result_count;
  if (count < 1 || count > MOE_RT_MAX_OBJECTS) {
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT,
                        "function '%s': has %d arguments and results; it must be 1 to %d",
                        call->function->name, count, MOE_RT_MAX_OBJECTS);
  }
  DLTensor tensors[MOE_RT_MAX_OBJECTS];
  const DLTensor *pointers[MOE_RT_MAX_OBJECTS];
  for (int i = 0; i < count; i++) {
    pointers[i] = &tensors[i];
    if (table->dltensor_from_py_object_no_sync(call->objects[i], &tensors[i]) != 0) {
      return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "function '%s': tensor %d has no view in DLPack",
                          call->function->name, i);
    }
  }
  DLDevice device = tensors[0].device;
  void *stream = NULL;
  if (device.device_type != kDLCPU &&
      table->current_work_stream(device.device_type, device.device_id, &stream) != 0)
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "the framework has no stream for the tensors");

  moe__rt_managed_pool_t pool = {.allocator = table->managed_tensor_allocator, .device = device};
  return moe__rt_managed_pool_run(&pool, call->program, call->function, pointers, count, stream);
}
