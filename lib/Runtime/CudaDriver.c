/* CudaDriver.c - opens libcuda and finds its entry points.
 *
 * Nothing is linked: a program that uses the runtime starts on a machine without a driver too, and
 * is told so in words.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Runtime/CudaDriver.h"

#include <dlfcn.h>
#include <stdio.h>

typedef moe__rt_cu_result_t (*get_proc_address_t)(const char *name, void **out_address, int version,
                                                  uint64_t flags, int *out_status);

/* The outcome of the only attempt; every later open repeats it. */
static struct {
  moe__rt_cuda_driver_t driver;
  moe_rt_status_t status;
  char message[512];
} opened;

/* One entry point; NULL when the driver does not have it. */
static void *find_entry(void *library, get_proc_address_t get_proc_address, const char *name,
                        int version, const char *symbol) {
  void *address = NULL;
  int found = 0;
  if (get_proc_address &&
      get_proc_address(name, &address, version, MOE__RT_CU_GET_PROC_ADDRESS_LEGACY_STREAM,
                       &found) == MOE__RT_CU_SUCCESS &&
      address)
    return address;
  return dlsym(library, symbol);
}

static moe_rt_status_t find_entries(void *library, moe__rt_cuda_driver_t *driver) {
  get_proc_address_t get_proc_address = (get_proc_address_t)dlsym(library, "cuGetProcAddress_v2");
  const char *missing = NULL;
#define MOE__RT_CUDA_OPTIONAL(name, version, symbol, parameters)                                   \
  driver->name = (moe__rt_cu_result_t(*) parameters)find_entry(library, get_proc_address, #name,   \
                                                               version, symbol);
#define MOE__RT_CUDA(name, version, symbol, parameters)                                            \
  MOE__RT_CUDA_OPTIONAL(name, version, symbol, parameters)                                         \
  if (!driver->name && !missing)                                                                   \
    missing = #name;
#include "lib/Runtime/Cuda.def"
#undef MOE__RT_CUDA
#undef MOE__RT_CUDA_OPTIONAL
  if (missing) {
    return moe__rt_fail(MOE_RT_NO_DRIVER,
                        "libcuda.so.1 has no %s; the driver must be of CUDA 12.0 or newer",
                        missing);
  }
  return MOE_RT_OK;
}

static moe_rt_status_t open_driver(moe__rt_cuda_driver_t *driver) {
  /* Never closed: the driver has threads and exit handlers of its own. */
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return moe__rt_fail(MOE_RT_NO_DRIVER, "no CUDA driver: %s", dlerror());
  MOE__RT_TRY(find_entries(library, driver));
  moe__rt_cu_result_t result = driver->cuInit(0);
  if (result == MOE__RT_CU_SUCCESS)
    return MOE_RT_OK;
  return moe__rt_cuda_fail(driver,
                           result == MOE__RT_CU_NO_DEVICE ? MOE_RT_NO_DEVICE : MOE_RT_NO_DRIVER,
                           "cuInit", result);
}

static void open_once(void) {
  opened.status = open_driver(&opened.driver);
  snprintf(opened.message, sizeof opened.message, "%s", moe_rt_last_message());
}

moe_rt_status_t moe__rt_cuda_driver_open(const moe__rt_cuda_driver_t **out_driver) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, open_once);
  if (opened.status != MOE_RT_OK)
    return moe__rt_fail(opened.status, "%s", opened.message);
  *out_driver = &opened.driver;
  return MOE_RT_OK;
}

moe_rt_status_t moe__rt_cuda_fail(const moe__rt_cuda_driver_t *driver, moe_rt_status_t status,
                                  const char *what, moe__rt_cu_result_t result) {
  const char *name = NULL;
  const char *text = NULL;
  if (driver->cuGetErrorName(result, &name) != MOE__RT_CU_SUCCESS || !name)
    name = "unknown error";
  if (driver->cuGetErrorString(result, &text) != MOE__RT_CU_SUCCESS || !text)
    text = "no description";
  return moe__rt_fail(status, "%s: %s (%d): %s", what, name, result, text);
}
