/* Exchange.c - runs a function on the tensors of a Python framework, given as Python objects.
 *
 * Why it exists: a training step calls small functions often, and Python takes longer to
 * describe five tensors than the driver takes to launch a kernel. DLPack's exchange table has
 * the framework's own C functions for that. None of them needs Python's headers: a PyObject is
 * an address here, and the three functions of Python's stable ABI are looked up in the process.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Runtime/ManagedPool.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

/* An exchange table of a major version that this file knows. */
static const DLPackExchangeAPI *known_version(const DLPackExchangeAPI *framework) {
  const DLPackExchangeAPIHeader *header = framework ? &framework->header : NULL;
  while (header && header->version.major != DLPACK_MAJOR_VERSION)
    header = header->prev_api;
  return (const DLPackExchangeAPI *)header;
}

moe_rt_status_t moe_rt_call_run_objects(const moe_rt_object_call_t *call, void *const *objects,
                                        int object_count) {
  if (!call || !call->program || !call->function)
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "program or function is NULL");
  const DLPackExchangeAPI *table = known_version(call->framework);
  if (!table || !table->dltensor_from_py_object_no_sync || !table->managed_tensor_allocator ||
      !table->current_work_stream) {
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT,
                        "the framework has no exchange table of DLPack %d with views of tensors",
                        DLPACK_MAJOR_VERSION);
  }
  if (!objects || object_count < 1 || object_count > MOE_RT_MAX_OBJECTS) {
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT,
                        "function '%s': got %d tensors; it must be 1 to %d", call->function->name,
                        objects ? object_count : 0, MOE_RT_MAX_OBJECTS);
  }
  DLTensor tensors[MOE_RT_MAX_OBJECTS];
  const DLTensor *pointers[MOE_RT_MAX_OBJECTS];
  for (int i = 0; i < object_count; i++) {
    pointers[i] = &tensors[i];
    if (table->dltensor_from_py_object_no_sync(objects[i], &tensors[i]) != 0) {
      return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "function '%s': tensor %d has no view in DLPack",
                          call->function->name, i);
    }
  }
  DLDevice device = tensors[0].device;
  void *stream = NULL;
  if (device.device_type != kDLCPU &&
      table->current_work_stream(device.device_type, device.device_id, &stream) != 0)
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "the framework has no stream for the tensors");

  moe__rt_managed_pool_t pool = {
      .allocator = table->managed_tensor_allocator, .device = device, .in_order = call->in_order};
  return moe__rt_managed_pool_run(&pool, call->program, call->function, pointers, object_count,
                                  stream);
}

/* ---- As a function of Python ---- */

static struct {
  void *(*PyLong_AsVoidPtr)(void *object);
  void *(*PyLong_FromLong)(long value);
  void *(*PyErr_Occurred)(void);
} python;

static void find_python(void) {
  struct {
    const char *name;
    void *to;
  } symbols[] = {
#define SYMBOL(name) {#name, &python.name}
      SYMBOL(PyLong_AsVoidPtr),
      SYMBOL(PyLong_FromLong),
      SYMBOL(PyErr_Occurred),
#undef SYMBOL
  };
  for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
    void *address = dlsym(RTLD_DEFAULT, symbols[i].name);
    memcpy(symbols[i].to, &address, sizeof address);
  }
}

void *moe_rt_python_run(void *self, void *const *objects, intptr_t object_count) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, find_python);
  int count = object_count > MOE_RT_MAX_OBJECTS ? MOE_RT_MAX_OBJECTS + 1 : (int)object_count;
  moe_rt_status_t status = moe_rt_call_run_objects(python.PyLong_AsVoidPtr(self), objects, count);
  return status != MOE_RT_OK && python.PyErr_Occurred() ? NULL : python.PyLong_FromLong(status);
}
