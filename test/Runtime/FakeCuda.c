/* FakeCuda.c - a libcuda.so.1 for tests.
 *
 * It has the entry points of Cuda.def and no others, behind cuGetProcAddress_v2, as a driver of
 * CUDA 12.0 has: what is newer, it does not know.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "test/Runtime/FakeCuda.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DRIVER_VERSION = 12000, NOT_FOUND = 500, INVALID_CONTEXT = 201, DEVICES = 2 };

static fake_cuda_t state;
static _Thread_local moe__rt_cu_context_t current;
static char primaries[DEVICES]; /* their addresses are the primary contexts */

/* Most entry points: the result that was ordered, and a look at the context. */
static moe__rt_cu_result_t in_context(void) {
  const char *context = (const char *)current;
  if (context < primaries || context >= primaries + DEVICES) {
    state.calls_without_context++;
    return INVALID_CONTEXT;
  }
  return atomic_exchange(&state.next_result, 0);
}

static moe__rt_cu_result_t fake_cuInit(unsigned flags) {
  return (moe__rt_cu_result_t)flags;
}

static moe__rt_cu_result_t fake_cuDriverGetVersion(int *version) {
  *version = DRIVER_VERSION;
  return 0;
}

static moe__rt_cu_result_t fake_cuGetErrorName(moe__rt_cu_result_t error, const char **text) {
  static _Thread_local char name[32];
  snprintf(name, sizeof name, "ERROR_%d", error);
  *text = name;
  return 0;
}

static moe__rt_cu_result_t fake_cuGetErrorString(moe__rt_cu_result_t error, const char **text) {
  *text = NULL;
  return error > 0 ? 1 : 0;
}

static moe__rt_cu_result_t fake_cuDeviceGetCount(int *count) {
  *count = DEVICES;
  return 0;
}

static moe__rt_cu_result_t fake_cuDeviceGet(moe__rt_cu_device_t *device, int ordinal) {
  *device = 100 + ordinal;
  return 0;
}

static moe__rt_cu_result_t fake_cuDeviceGetName(char *name, int size, moe__rt_cu_device_t device) {
  snprintf(name, (size_t)size, "Fake %d", device);
  return 0;
}

static moe__rt_cu_result_t fake_cuDeviceTotalMem(size_t *bytes, moe__rt_cu_device_t device) {
  *bytes = (size_t)device << 30;
  return 0;
}

static moe__rt_cu_result_t fake_cuDeviceGetAttribute(int *value,
                                                     moe__rt_cu_device_attribute_t attribute,
                                                     moe__rt_cu_device_t device) {
  static const struct {
    int attribute, value;
  } values[] = {
      {MOE__RT_CU_ATTRIBUTE_MULTIPROCESSOR_COUNT, 132},
      {MOE__RT_CU_ATTRIBUTE_L2_CACHE_SIZE, 50 << 20},
      {MOE__RT_CU_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9},
      {MOE__RT_CU_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0},
      {MOE__RT_CU_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 232448},
  };
  for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
    if (values[i].attribute == attribute) {
      *value = values[i].value;
      return device < 100;
    }
  }
  return 1;
}

static moe__rt_cu_result_t fake_cuDevicePrimaryCtxRetain(moe__rt_cu_context_t *context,
                                                         moe__rt_cu_device_t device) {
  state.retained++;
  *context = (moe__rt_cu_context_t)&primaries[(device - 100) % DEVICES];
  return device < 100;
}

static moe__rt_cu_result_t fake_cuDevicePrimaryCtxRelease(moe__rt_cu_device_t device) {
  state.released++;
  return device < 100;
}

static moe__rt_cu_result_t fake_cuCtxGetCurrent(moe__rt_cu_context_t *context) {
  *context = current;
  return 0;
}

static moe__rt_cu_result_t fake_cuCtxSetCurrent(moe__rt_cu_context_t context) {
  current = context;
  return 0;
}

static moe__rt_cu_result_t fake_cuMemAlloc(moe__rt_cu_pointer_t *pointer, size_t bytes) {
  enum { ALIGNMENT = 256, GARBAGE = 0xA5 };
  moe__rt_cu_result_t result = in_context();
  if (result)
    return result;
  size_t size = (bytes / ALIGNMENT + 1) * ALIGNMENT;
  void *memory = aligned_alloc(ALIGNMENT, size);
  if (!memory)
    return MOE__RT_CU_OUT_OF_MEMORY;
  *pointer = (uintptr_t)memset(memory, GARBAGE, size);
  state.allocated++;
  return 0;
}

static moe__rt_cu_result_t fake_cuMemFree(moe__rt_cu_pointer_t pointer) {
  state.freed += pointer != 0;
  free((void *)(uintptr_t)pointer);
  return in_context();
}

static moe__rt_cu_result_t fake_cuMemAllocAsync(moe__rt_cu_pointer_t *pointer, size_t bytes,
                                                moe__rt_cu_stream_t stream) {
  static _Alignas(256) char memory[1 << 20];
  *pointer = (uintptr_t)memory;
  state.pool_taken++;
  state.pool_stream = stream;
  return bytes <= sizeof memory ? in_context() : MOE__RT_CU_OUT_OF_MEMORY;
}

static moe__rt_cu_result_t fake_cuMemFreeAsync(moe__rt_cu_pointer_t pointer,
                                               moe__rt_cu_stream_t stream) {
  state.pool_given += pointer != 0 && stream == state.pool_stream;
  return in_context();
}

static moe__rt_cu_result_t fake_cuMemcpyHtoD(moe__rt_cu_pointer_t to, const void *from,
                                             size_t bytes) {
  memcpy((void *)(uintptr_t)to, from, bytes);
  return in_context();
}

static moe__rt_cu_result_t fake_cuMemcpyDtoH(void *to, moe__rt_cu_pointer_t from, size_t bytes) {
  memcpy(to, (void *)(uintptr_t)from, bytes);
  return in_context();
}

static moe__rt_cu_result_t fake_cuMemcpyDtoDAsync(moe__rt_cu_pointer_t to,
                                                  moe__rt_cu_pointer_t from, size_t bytes,
                                                  moe__rt_cu_stream_t stream) {
  memcpy((void *)(uintptr_t)to, (void *)(uintptr_t)from, bytes);
  return stream ? in_context() : 1;
}

static moe__rt_cu_result_t fake_cuMemsetD8Async(moe__rt_cu_pointer_t to, unsigned char byte,
                                                size_t bytes, moe__rt_cu_stream_t stream) {
  state.memsets++;
  state.memset_stream = stream;
  memset((void *)(uintptr_t)to, byte, bytes);
  return in_context();
}

static moe__rt_cu_result_t fake_cuStreamCreate(moe__rt_cu_stream_t *stream, unsigned flags) {
  *stream = (moe__rt_cu_stream_t)&state;
  return flags == MOE__RT_CU_STREAM_NON_BLOCKING ? in_context() : 1;
}

static moe__rt_cu_result_t fake_cuStreamDestroy(moe__rt_cu_stream_t stream) {
  return stream ? in_context() : 1;
}

static moe__rt_cu_result_t fake_cuStreamSynchronize(moe__rt_cu_stream_t stream) {
  (void)stream;
  state.waits++;
  return in_context();
}

static moe__rt_cu_result_t fake_cuStreamIsCapturing(moe__rt_cu_stream_t stream,
                                                    moe__rt_cu_capture_status_t *status) {
  (void)stream;
  *status = state.capturing;
  return in_context();
}

static moe__rt_cu_result_t fake_cuEventCreate(moe__rt_cu_event_t *event, unsigned flags) {
  *event = (moe__rt_cu_event_t)&state;
  return flags == 0 ? in_context() : 1;
}

static moe__rt_cu_result_t fake_cuEventDestroy(moe__rt_cu_event_t event) {
  return event ? in_context() : 1;
}

static moe__rt_cu_result_t fake_cuEventRecord(moe__rt_cu_event_t event,
                                              moe__rt_cu_stream_t stream) {
  return event && stream ? in_context() : 1;
}

static moe__rt_cu_result_t fake_cuEventSynchronize(moe__rt_cu_event_t event) {
  return event ? in_context() : 1;
}

static moe__rt_cu_result_t fake_cuEventElapsedTime(float *milliseconds, moe__rt_cu_event_t begin,
                                                   moe__rt_cu_event_t end) {
  *milliseconds = 1.5F;
  return begin && end ? in_context() : 1;
}

static moe__rt_cu_result_t fake_cuLibraryLoadData(moe__rt_cu_library_t *library, const void *code,
                                                  moe__rt_cu_jit_option_t *jit_options,
                                                  void **jit_values, unsigned jit_count,
                                                  moe__rt_cu_library_option_t *library_options,
                                                  void **library_values, unsigned library_count) {
  bool is_cubin = memcmp(code,
                         "\x7f"
                         "ELF",
                         4) == 0;
  moe__rt_cu_result_t result = is_cubin ? state.cubin_result : state.ptx_result;
  if (library_options || library_values || library_count)
    return 1;
  for (unsigned i = 0; result && i + 1 < jit_count; i++) {
    if (jit_options[i] == MOE__RT_CU_JIT_ERROR_LOG_BUFFER &&
        jit_options[i + 1] == MOE__RT_CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
      snprintf(jit_values[i], (size_t)(uintptr_t)jit_values[i + 1], "line 3: unknown word\n");
  }
  if (result)
    return result;
  state.loaded++;
  *library = (moe__rt_cu_library_t)&state;
  return in_context();
}

static moe__rt_cu_result_t fake_cuLibraryUnload(moe__rt_cu_library_t library) {
  state.unloaded += library != NULL;
  return in_context();
}

static moe__rt_cu_result_t fake_cuLibraryGetKernel(moe__rt_cu_kernel_t *kernel,
                                                   moe__rt_cu_library_t library, const char *name) {
  if (!library || strcmp(name, "store_at") == 0)
    return NOT_FOUND;
  *kernel = (moe__rt_cu_kernel_t)&state;
  return in_context();
}

static moe__rt_cu_result_t fake_cuKernelGetFunction(moe__rt_cu_function_t *function,
                                                    moe__rt_cu_kernel_t kernel) {
  /* A function belongs to the context it was asked for in. */
  *function = kernel ? (moe__rt_cu_function_t)current : NULL;
  state.kernels_loaded++;
  return in_context();
}

static moe__rt_cu_result_t fake_cuKernelSetAttribute(moe__rt_cu_function_attribute_t attribute,
                                                     int value, moe__rt_cu_kernel_t kernel,
                                                     moe__rt_cu_device_t device) {
  if (attribute != MOE__RT_CU_FUNCTION_MAX_DYNAMIC_SHARED_SIZE_BYTES || !kernel || device < 100)
    return 1;
  if (value > state.shared_memory)
    state.shared_memory = value;
  return in_context();
}

/* Newer than this driver: cuGetProcAddress does not give it out. */
static moe__rt_cu_result_t fake_cuFuncLoad(moe__rt_cu_function_t function) {
  return function ? 1 : 2;
}

static moe__rt_cu_result_t
fake_cuTensorMapEncodeTiled(moe__rt_encoded_map_t *map, moe__rt_cu_map_element_t element,
                            uint32_t rank, void *address, const uint64_t *dims,
                            const uint64_t *strides, const uint32_t *box,
                            const uint32_t *element_strides, moe__rt_cu_map_interleave_t interleave,
                            moe__rt_cu_map_swizzle_t swizzle, moe__rt_cu_map_promotion_t promotion,
                            moe__rt_cu_map_fill_t fill) {
  memset(map, 0xCC, sizeof *map);
  memcpy(map->bytes + 8, &address, sizeof address);
  state.maps_encoded++;
  state.map.element = element;
  state.map.rank = rank;
  state.map.address = (uint64_t)(uintptr_t)address;
  memcpy(state.map.dims, dims, rank * sizeof *dims);
  memcpy(state.map.strides, strides, (rank - 1) * sizeof *strides);
  memcpy(state.map.box, box, rank * sizeof *box);
  memcpy(state.map.element_strides, element_strides, rank * sizeof *element_strides);
  state.map.interleave = interleave;
  state.map.swizzle = swizzle;
  state.map.promotion = promotion;
  state.map.fill = fill;
  return in_context();
}

static moe__rt_cu_result_t
fake_cuOccupancyMaxActiveClusters(int *count, moe__rt_cu_function_t function,
                                  const moe__rt_cu_launch_config_t *config) {
  if (!function || config->attribute_count != 1 ||
      config->attributes[0].id != MOE__RT_CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
    return 1;
  state.occupancy = *config;
  *count = state.clusters;
  return in_context();
}

static moe__rt_cu_result_t fake_cuLaunchKernelEx(const moe__rt_cu_launch_config_t *config,
                                                 moe__rt_cu_function_t function, void **parameters,
                                                 void **extra) {
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&mutex);
  state.launch = *config;
  for (uint32_t i = 0; i < config->attribute_count && i < 2; i++)
    state.attributes[i] = config->attributes[i];
  state.launched = function;
  state.parameters = parameters;
  pthread_mutex_unlock(&mutex);
  state.launches++;
  if (state.on_launch)
    state.on_launch(config, parameters);
  if (function != (moe__rt_cu_function_t)current)
    state.calls_without_context++;
  return extra ? 1 : in_context();
}

MOE_API moe__rt_cu_result_t cuGetProcAddress_v2(const char *name, void **out_address, int version,
                                                uint64_t flags, int *out_status);
MOE_API moe__rt_cu_result_t cuGetProcAddress_v2(const char *name, void **out_address, int version,
                                                uint64_t flags, int *out_status) {
  static const struct {
    const char *name;
    int version;
    void *address;
  } entries[] = {
#define MOE__RT_CUDA(name, version, symbol, parameters) {#name, version, (void *)fake_##name},
#define MOE__RT_CUDA_OPTIONAL MOE__RT_CUDA
#include "lib/Runtime/Cuda.def"
#undef MOE__RT_CUDA_OPTIONAL
#undef MOE__RT_CUDA
  };
  *out_address = NULL;
  *out_status = 1;
  for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
    if (strcmp(entries[i].name, name) == 0 && entries[i].version == version &&
        version <= DRIVER_VERSION && flags == MOE__RT_CU_GET_PROC_ADDRESS_LEGACY_STREAM) {
      *out_address = entries[i].address;
      *out_status = 0;
      return 0;
    }
  }
  return NOT_FOUND;
}

fake_cuda_t *fake_cuda_state(void) {
  return &state;
}
