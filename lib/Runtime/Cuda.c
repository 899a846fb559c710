/* Cuda.c - the CUDA backend: the device functions of Backend.h on the driver API.
 *
 * It works in the device's primary context, which frameworks use too, and leaves the calling
 * thread's context as it was.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Runtime/CudaDriver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JIT_LOG_BYTES = 1024 };

typedef struct cuda_device_t {
  moe_rt_device_t base;
  const moe__rt_cuda_driver_t *driver;
  moe__rt_cu_device_t device;
  moe__rt_cu_context_t context;
} cuda_device_t;

static const cuda_device_t *as_cuda(const moe_rt_device_t *device) {
  return (const cuda_device_t *)device;
}

/* ---- Errors ---- */

/* These leave the context unusable for the rest of the process. */
static bool is_poison(moe__rt_cu_result_t result) {
  return result == MOE__RT_CU_ILLEGAL_ADDRESS ||
         (result >= MOE__RT_CU_ASSERT && result <= MOE__RT_CU_LAUNCH_FAILED);
}

/* The status for `result` of the driver function `what`, with its message. */
static moe_rt_status_t check(moe_rt_device_t *device, const char *what,
                             moe__rt_cu_result_t result) {
  if (result == MOE__RT_CU_SUCCESS)
    return MOE_RT_OK;
  moe_rt_status_t status =
      result == MOE__RT_CU_OUT_OF_MEMORY ? MOE_RT_OUT_OF_MEMORY : MOE_RT_DEVICE_ERROR;
  moe__rt_cuda_fail(as_cuda(device)->driver, status, what, result);
  return is_poison(result) ? moe__rt_device_lose(device) : status;
}

/* ---- The context ---- */

/* Makes the device's context current and gives the one that was. */
static moe_rt_status_t enter(moe_rt_device_t *device, moe__rt_cu_context_t *out_previous) {
  const cuda_device_t *cuda = as_cuda(device);
  *out_previous = NULL;
  MOE__RT_TRY(check(device, "cuCtxGetCurrent", cuda->driver->cuCtxGetCurrent(out_previous)));
  if (*out_previous == cuda->context)
    return MOE_RT_OK;
  return check(device, "cuCtxSetCurrent", cuda->driver->cuCtxSetCurrent(cuda->context));
}

static void leave(const moe_rt_device_t *device, moe__rt_cu_context_t previous) {
  const cuda_device_t *cuda = as_cuda(device);
  if (previous != cuda->context)
    cuda->driver->cuCtxSetCurrent(previous);
}

/* Calls a function of the driver in the device's context and returns its status from the calling
 * function. */
#define CALL_IN_CONTEXT(device, function, ...)                                                     \
  do {                                                                                             \
    moe__rt_cu_context_t previous;                                                                 \
    MOE__RT_TRY(enter(device, &previous));                                                         \
    moe__rt_cu_result_t result = as_cuda(device)->driver->function(__VA_ARGS__);                   \
    leave(device, previous);                                                                       \
    return check(device, #function, result);                                                       \
  } while (0)

static moe__rt_cu_pointer_t to_driver(const void *pointer) {
  return (moe__rt_cu_pointer_t)(uintptr_t)pointer;
}

/* ---- Memory ---- */

static bool cuda_owns(const moe_rt_device_t *device, DLDevice place) {
  /* Managed memory belongs to every device. */
  return place.device_type == kDLCUDAManaged ||
         (place.device_type == kDLCUDA && place.device_id == device->info.ordinal);
}

static moe__rt_cu_result_t allocate_pointer(const moe__rt_cuda_driver_t *driver, size_t bytes,
                                            void **out_pointer) {
  moe__rt_cu_pointer_t pointer = 0;
  moe__rt_cu_result_t result = driver->cuMemAlloc(&pointer, bytes);
  if (result == MOE__RT_CU_SUCCESS)
    *out_pointer = (void *)(uintptr_t)pointer;
  return result;
}

static moe_rt_status_t cuda_allocate(moe_rt_device_t *device, size_t bytes, void **out_pointer) {
  moe__rt_cu_context_t previous;
  MOE__RT_TRY(enter(device, &previous));
  moe__rt_cu_result_t result = allocate_pointer(as_cuda(device)->driver, bytes, out_pointer);
  leave(device, previous);
  char what[64];
  snprintf(what, sizeof what, "cuMemAlloc of %zu bytes", bytes);
  return check(device, what, result);
}

static moe_rt_status_t free_pointer(moe_rt_device_t *device, void *pointer) {
  CALL_IN_CONTEXT(device, cuMemFree, to_driver(pointer));
}

static void cuda_free(moe_rt_device_t *device, void *pointer) {
  MOE__RT_QUIETLY(free_pointer(device, pointer));
}

static moe__rt_cu_result_t allocate_pointer_on(const moe__rt_cuda_driver_t *driver, size_t bytes,
                                               void *stream, void **out_pointer) {
  moe__rt_cu_pointer_t pointer = 0;
  moe__rt_cu_result_t result = driver->cuMemAllocAsync(&pointer, bytes, stream);
  if (result == MOE__RT_CU_SUCCESS)
    *out_pointer = (void *)(uintptr_t)pointer;
  return result;
}

static moe_rt_status_t cuda_allocate_on(moe_rt_device_t *device, size_t bytes, void *stream,
                                        void **out_pointer) {
  moe__rt_cu_context_t previous;
  MOE__RT_TRY(enter(device, &previous));
  moe__rt_cu_result_t result =
      allocate_pointer_on(as_cuda(device)->driver, bytes, stream, out_pointer);
  leave(device, previous);
  char what[64];
  snprintf(what, sizeof what, "cuMemAllocAsync of %zu bytes", bytes);
  return check(device, what, result);
}

static moe_rt_status_t cuda_free_on(moe_rt_device_t *device, void *pointer, void *stream) {
  CALL_IN_CONTEXT(device, cuMemFreeAsync, to_driver(pointer), stream);
}

static moe_rt_status_t copy_to_device(moe_rt_device_t *device, void *to, const void *from,
                                      size_t bytes) {
  CALL_IN_CONTEXT(device, cuMemcpyHtoD, to_driver(to), from, bytes);
}

/* From pageable memory the driver returns once the data is staged; its end is still under way on
 * the default stream, and other streams do not wait for that one. */
static moe_rt_status_t cuda_to_device(moe_rt_device_t *device, void *to, const void *from,
                                      size_t bytes) {
  MOE__RT_TRY(copy_to_device(device, to, from, bytes));
  CALL_IN_CONTEXT(device, cuStreamSynchronize, NULL);
}

static moe_rt_status_t cuda_from_device(moe_rt_device_t *device, void *to, const void *from,
                                        size_t bytes) {
  CALL_IN_CONTEXT(device, cuMemcpyDtoH, to, to_driver(from), bytes);
}

static moe_rt_status_t cuda_fill(moe_rt_device_t *device, void *to, uint8_t byte, size_t bytes,
                                 void *stream) {
  CALL_IN_CONTEXT(device, cuMemsetD8Async, to_driver(to), byte, bytes, stream);
}

static moe_rt_status_t cuda_copy(moe_rt_device_t *device, void *to, const void *from, size_t bytes,
                                 void *stream) {
  CALL_IN_CONTEXT(device, cuMemcpyDtoDAsync, to_driver(to), to_driver(from), bytes, stream);
}

/* ---- Streams and events ---- */

static moe_rt_status_t cuda_stream_create(moe_rt_device_t *device, void **out_stream) {
  CALL_IN_CONTEXT(device, cuStreamCreate, (moe__rt_cu_stream_t *)out_stream,
                  MOE__RT_CU_STREAM_NON_BLOCKING);
}

static moe_rt_status_t destroy_stream(moe_rt_device_t *device, void *stream) {
  CALL_IN_CONTEXT(device, cuStreamDestroy, stream);
}

static void cuda_stream_destroy(moe_rt_device_t *device, void *stream) {
  MOE__RT_QUIETLY(destroy_stream(device, stream));
}

static moe_rt_status_t cuda_stream_synchronize(moe_rt_device_t *device, void *stream) {
  CALL_IN_CONTEXT(device, cuStreamSynchronize, stream);
}

static moe_rt_status_t query_capture(moe_rt_device_t *device, void *stream,
                                     moe__rt_cu_capture_status_t *out_status) {
  CALL_IN_CONTEXT(device, cuStreamIsCapturing, stream, out_status);
}

static moe_rt_status_t cuda_stream_is_capturing(moe_rt_device_t *device, void *stream,
                                                bool *out_capturing) {
  moe__rt_cu_capture_status_t status = 0;
  MOE__RT_TRY(query_capture(device, stream, &status));
  *out_capturing = status != 0;
  return MOE_RT_OK;
}

static moe_rt_status_t cuda_event_create(moe_rt_device_t *device, void **out_event) {
  CALL_IN_CONTEXT(device, cuEventCreate, (moe__rt_cu_event_t *)out_event, 0);
}

static moe_rt_status_t destroy_event(moe_rt_device_t *device, void *event) {
  CALL_IN_CONTEXT(device, cuEventDestroy, event);
}

static void cuda_event_destroy(moe_rt_device_t *device, void *event) {
  MOE__RT_QUIETLY(destroy_event(device, event));
}

static moe_rt_status_t cuda_event_record(moe_rt_device_t *device, void *event, void *stream) {
  CALL_IN_CONTEXT(device, cuEventRecord, event, stream);
}

static moe_rt_status_t synchronize_event(moe_rt_device_t *device, void *event) {
  CALL_IN_CONTEXT(device, cuEventSynchronize, event);
}

static moe_rt_status_t cuda_event_elapsed(moe_rt_device_t *device, void *begin, void *end,
                                          float *out_milliseconds) {
  MOE__RT_TRY(synchronize_event(device, end));
  CALL_IN_CONTEXT(device, cuEventElapsedTime, out_milliseconds, begin, end);
}

/* ---- Code ---- */

/* Loaded code. The driver loads lazily: its compiler may write the log as late as when the first
 * kernel is asked for. */
typedef struct code_t {
  moe__rt_cu_library_t library;
  char log[JIT_LOG_BYTES];
} code_t;

/* The status of a driver function that may find out only now that it cannot take the code: then
 * other code may still load, whatever the error is called. */
static moe_rt_status_t check_code(moe_rt_device_t *device, const code_t *code, const char *what,
                                  moe__rt_cu_result_t result) {
  if (result == MOE__RT_CU_SUCCESS || result == MOE__RT_CU_OUT_OF_MEMORY || is_poison(result))
    return check(device, what, result);
  moe__rt_cuda_fail(as_cuda(device)->driver, MOE_RT_UNSUPPORTED, what, result);
  size_t length = strlen(code->log);
  while (length > 0 && code->log[length - 1] == '\n')
    length--;
  if (length > 0)
    moe__rt_fail(MOE_RT_UNSUPPORTED, "%s: %.*s", moe_rt_last_message(), (int)length, code->log);
  return MOE_RT_UNSUPPORTED;
}

static moe_rt_status_t cuda_load_code(moe_rt_device_t *device, moe__rt_code_kind_t kind,
                                      const moe__rt_bytes_t *bytes, void **out_code) {
  code_t *code = calloc(1, sizeof *code);
  if (!code)
    return moe__rt_fail_memory();
  int options[] = {MOE__RT_CU_JIT_ERROR_LOG_BUFFER, MOE__RT_CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {code->log, (void *)(uintptr_t)(sizeof code->log - 1)};
  unsigned option_count = kind == MOE__RT_PTX ? 2 : 0;
  moe__rt_cu_context_t previous;
  moe_rt_status_t status = enter(device, &previous);
  if (status == MOE_RT_OK) {
    moe__rt_cu_result_t result = as_cuda(device)->driver->cuLibraryLoadData(
        &code->library, bytes->data, options, values, option_count, NULL, NULL, 0);
    leave(device, previous);
    status = check_code(device, code, "cuLibraryLoadData", result);
  }
  if (status != MOE_RT_OK) {
    free(code);
    return status;
  }
  *out_code = code;
  return MOE_RT_OK;
}

static moe_rt_status_t unload_library(moe_rt_device_t *device, const code_t *code) {
  CALL_IN_CONTEXT(device, cuLibraryUnload, code->library);
}

static void cuda_unload_code(moe_rt_device_t *device, void *loaded) {
  MOE__RT_QUIETLY(unload_library(device, loaded));
  free(loaded);
}

static moe_rt_status_t load_kernel(moe_rt_device_t *device, const code_t *code,
                                   const moe__rt_kernel_t *kernel, void **out_kernel) {
  const cuda_device_t *cuda = as_cuda(device);
  const moe__rt_cuda_driver_t *driver = cuda->driver;
  moe__rt_cu_kernel_t handle = NULL;
  moe__rt_cu_result_t result = driver->cuLibraryGetKernel(&handle, code->library, kernel->name);
  if (result == MOE__RT_CU_NOT_FOUND)
    return moe__rt_fail(MOE_RT_INVALID_BUNDLE, "the code has no such entry point");
  MOE__RT_TRY(check_code(device, code, "cuLibraryGetKernel", result));
  MOE__RT_TRY(
      check(device, "cuKernelSetAttribute",
            driver->cuKernelSetAttribute(MOE__RT_CU_FUNCTION_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                         (int)kernel->shared_memory, handle, cuda->device)));
  moe__rt_cu_function_t function = NULL;
  result = driver->cuKernelGetFunction(&function, handle);
  MOE__RT_TRY(check_code(device, code, "cuKernelGetFunction", result));
  /* Otherwise the driver may load the code at the first launch, which a graph capture forbids. */
  if (driver->cuFuncLoad)
    MOE__RT_TRY(check_code(device, code, "cuFuncLoad", driver->cuFuncLoad(function)));
  *out_kernel = function;
  return MOE_RT_OK;
}

static moe_rt_status_t cuda_load_kernel(moe_rt_device_t *device, void *code,
                                        const moe__rt_kernel_t *kernel, void **out_kernel) {
  moe__rt_cu_context_t previous;
  MOE__RT_TRY(enter(device, &previous));
  moe_rt_status_t status = load_kernel(device, code, kernel, out_kernel);
  leave(device, previous);
  return status;
}

/* ---- Calls ---- */

static moe_rt_status_t cuda_encode_map(moe_rt_device_t *device, const moe__rt_tensor_map_t *map,
                                       moe__rt_encoded_map_t *out_encoded) {
  static const int elements[] = {
#define MOE__RT_MAP_ELEMENT(constant, name, bytes, driver) driver,
      MOE__RT_MAP_ELEMENTS(MOE__RT_MAP_ELEMENT)
#undef MOE__RT_MAP_ELEMENT
  };
  static const uint32_t element_strides[MOE_RT_MAX_RANK] = {1, 1, 1, 1, 1};
  uint32_t box[MOE_RT_MAX_RANK];
  for (int i = 0; i < map->box.rank; i++)
    box[i] = (uint32_t)map->box.box[i]; /* at most 256 */
  CALL_IN_CONTEXT(device, cuTensorMapEncodeTiled, out_encoded, elements[map->box.element],
                  (uint32_t)map->box.rank, (void *)(uintptr_t)map->address, map->dims, map->strides,
                  box, element_strides, MOE__RT_CU_INTERLEAVE_NONE, (int)map->box.swizzle,
                  (int)map->box.promotion, (int)map->box.fill);
}

static moe__rt_cu_launch_attribute_t cluster_attribute(const uint32_t cluster[3]) {
  moe__rt_cu_launch_attribute_t attribute = {.id = MOE__RT_CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION};
  attribute.value.cluster.x = cluster[0];
  attribute.value.cluster.y = cluster[1];
  attribute.value.cluster.z = cluster[2];
  return attribute;
}

static moe_rt_status_t query_clusters(moe_rt_device_t *device, const moe__rt_kernel_t *kernel,
                                      void *loaded, int *out_count) {
  moe__rt_cu_launch_attribute_t attribute = cluster_attribute(kernel->cluster);
  moe__rt_cu_launch_config_t config = {
      .grid = {kernel->cluster[0], kernel->cluster[1], kernel->cluster[2]},
      .block = {kernel->block[0], kernel->block[1], kernel->block[2]},
      .shared_memory = kernel->shared_memory,
      .attributes = &attribute,
      .attribute_count = 1,
  };
  CALL_IN_CONTEXT(device, cuOccupancyMaxActiveClusters, out_count, loaded, &config);
}

static moe_rt_status_t cuda_count_clusters(moe_rt_device_t *device, const moe__rt_kernel_t *kernel,
                                           void *loaded, int64_t *out_count) {
  int count = 0;
  MOE__RT_TRY(query_clusters(device, kernel, loaded, &count));
  if (count < 1)
    return moe__rt_fail(MOE_RT_UNSUPPORTED, "%s holds no cluster of %u blocks", device->name,
                        moe__rt_kernel_cluster_blocks(kernel));
  *out_count = count;
  return MOE_RT_OK;
}

static moe_rt_status_t cuda_launch(moe_rt_device_t *device, const moe__rt_ready_launch_t *launch,
                                   void *stream) {
  moe__rt_cu_launch_attribute_t attributes[2] = {0};
  uint32_t count = 0;
  if (launch->cluster[0] * launch->cluster[1] * launch->cluster[2] > 1)
    attributes[count++] = cluster_attribute(launch->cluster);
  if (launch->programmatic) {
    attributes[count].id = MOE__RT_CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attributes[count++].value.programmatic = 1;
  }
  moe__rt_cu_launch_config_t config = {
      .grid = {launch->grid[0], launch->grid[1], launch->grid[2]},
      .block = {launch->block[0], launch->block[1], launch->block[2]},
      .shared_memory = launch->shared_memory,
      .stream = stream,
      .attributes = attributes,
      .attribute_count = count,
  };
  CALL_IN_CONTEXT(device, cuLaunchKernelEx, &config, launch->kernel, launch->parameters, NULL);
}

/* ---- Opening and closing ---- */

static void cuda_close(moe_rt_device_t *device) {
  const cuda_device_t *cuda = as_cuda(device);
  cuda->driver->cuDevicePrimaryCtxRelease(cuda->device);
  moe__rt_device_fini(device);
  free(device);
}

static const moe__rt_backend_t cuda_backend = {
    .close = cuda_close,
    .owns = cuda_owns,
    .allocate = cuda_allocate,
    .free = cuda_free,
    .to_device = cuda_to_device,
    .from_device = cuda_from_device,
    .fill = cuda_fill,
    .copy = cuda_copy,
    .allocate_on = cuda_allocate_on,
    .free_on = cuda_free_on,
    .stream_create = cuda_stream_create,
    .stream_destroy = cuda_stream_destroy,
    .stream_synchronize = cuda_stream_synchronize,
    .stream_is_capturing = cuda_stream_is_capturing,
    .event_create = cuda_event_create,
    .event_destroy = cuda_event_destroy,
    .event_record = cuda_event_record,
    .event_elapsed = cuda_event_elapsed,
    .load_code = cuda_load_code,
    .unload_code = cuda_unload_code,
    .load_kernel = cuda_load_kernel,
    .count_clusters = cuda_count_clusters,
    .encode_map = cuda_encode_map,
    .launch = cuda_launch,
};

static moe_rt_status_t read_info(cuda_device_t *cuda) {
  const moe__rt_cuda_driver_t *driver = cuda->driver;
  moe_rt_device_info_t *info = &cuda->base.info;
  int l2_bytes = 0;
  int shared_memory = 0;
  size_t total_memory = 0;
  struct {
    int attribute;
    int *value;
  } attributes[] = {
      {MOE__RT_CU_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &info->compute_major},
      {MOE__RT_CU_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &info->compute_minor},
      {MOE__RT_CU_ATTRIBUTE_MULTIPROCESSOR_COUNT, &info->num_sms},
      {MOE__RT_CU_ATTRIBUTE_L2_CACHE_SIZE, &l2_bytes},
      {MOE__RT_CU_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &shared_memory},
  };
  for (size_t i = 0; i < sizeof attributes / sizeof attributes[0]; i++) {
    MOE__RT_TRY(check(
        &cuda->base, "cuDeviceGetAttribute",
        driver->cuDeviceGetAttribute(attributes[i].value, attributes[i].attribute, cuda->device)));
  }
  MOE__RT_TRY(check(&cuda->base, "cuDeviceGetName",
                    driver->cuDeviceGetName(info->name, (int)sizeof info->name, cuda->device)));
  MOE__RT_TRY(check(&cuda->base, "cuDeviceTotalMem",
                    driver->cuDeviceTotalMem(&total_memory, cuda->device)));
  info->l2_bytes = l2_bytes;
  info->shared_memory_per_block = shared_memory;
  info->total_memory = (int64_t)total_memory;
  return check(&cuda->base, "cuDriverGetVersion",
               driver->cuDriverGetVersion(&info->driver_version));
}

static moe_rt_status_t set_up(cuda_device_t *cuda, int ordinal) {
  const moe__rt_cuda_driver_t *driver = cuda->driver;
  int count = 0;
  MOE__RT_TRY(check(&cuda->base, "cuDeviceGetCount", driver->cuDeviceGetCount(&count)));
  if (ordinal >= count)
    return moe__rt_fail(MOE_RT_NO_DEVICE, "this machine has %d", count);
  MOE__RT_TRY(check(&cuda->base, "cuDeviceGet", driver->cuDeviceGet(&cuda->device, ordinal)));
  MOE__RT_TRY(read_info(cuda));
  return check(&cuda->base, "cuDevicePrimaryCtxRetain",
               driver->cuDevicePrimaryCtxRetain(&cuda->context, cuda->device));
}

moe_rt_status_t moe__rt_cuda_open(int ordinal, moe_rt_device_t **out_device) {
  const moe__rt_cuda_driver_t *driver = NULL;
  MOE__RT_TRY(moe__rt_cuda_driver_open(&driver));
  cuda_device_t *cuda = calloc(1, sizeof *cuda);
  if (!cuda)
    return moe__rt_fail_memory();
  moe__rt_device_init(&cuda->base, &cuda_backend, "cuda", ordinal);
  cuda->driver = driver;
  moe_rt_status_t status = set_up(cuda, ordinal);
  if (status != MOE_RT_OK) {
    status = moe__rt_fail_in(status, "%s", cuda->base.name);
    moe__rt_device_fini(&cuda->base);
    free(cuda);
    return status;
  }
  *out_device = &cuda->base;
  return MOE_RT_OK;
}
