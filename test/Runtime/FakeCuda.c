/* FakeCuda.c - a libcuda.so.1 for tests.
 *
 * It has the entry points of Cuda.def and no others, behind cuGetProcAddress_v2, as a driver of
 * CUDA 12.0 has: what is newer, it does not know.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "test/Runtime/FakeCuda.h"

#include <stdio.h>
#include <string.h>

enum { DRIVER_VERSION = 12000, NOT_FOUND = 500, INVALID_CONTEXT = 201 };

static fake_cuda_t state;
static _Thread_local moe__cu_context_t current;
static char primary; /* its address is the primary context */

/* Most entry points: the result that was ordered, and a look at the context. */
static moe__cu_result_t in_context(void) {
  if (current != (moe__cu_context_t)&primary) {
    state.calls_without_context++;
    return INVALID_CONTEXT;
  }
  moe__cu_result_t result = state.next_result;
  state.next_result = 0;
  return result;
}

static moe__cu_result_t fake_cuInit(unsigned flags) {
  return (moe__cu_result_t)flags;
}

static moe__cu_result_t fake_cuDriverGetVersion(int *version) {
  *version = DRIVER_VERSION;
  return 0;
}

static moe__cu_result_t fake_cuGetErrorName(moe__cu_result_t error, const char **text) {
  static _Thread_local char name[32];
  snprintf(name, sizeof name, "ERROR_%d", error);
  *text = name;
  return 0;
}

static moe__cu_result_t fake_cuGetErrorString(moe__cu_result_t error, const char **text) {
  *text = NULL;
  return error > 0 ? 1 : 0;
}

static moe__cu_result_t fake_cuDeviceGetCount(int *count) {
  *count = 2;
  return 0;
}

static moe__cu_result_t fake_cuDeviceGet(moe__cu_device_t *device, int ordinal) {
  *device = 100 + ordinal;
  return 0;
}

static moe__cu_result_t fake_cuDeviceGetName(char *name, int size, moe__cu_device_t device) {
  snprintf(name, (size_t)size, "Fake %d", device);
  return 0;
}

static moe__cu_result_t fake_cuDeviceTotalMem(size_t *bytes, moe__cu_device_t device) {
  *bytes = (size_t)device << 30;
  return 0;
}

static moe__cu_result_t fake_cuDeviceGetAttribute(int *value, moe__cu_device_attribute_t attribute,
                                                  moe__cu_device_t device) {
  static const struct {
    int attribute, value;
  } values[] = {
      {MOE__CU_ATTRIBUTE_MULTIPROCESSOR_COUNT, 132},
      {MOE__CU_ATTRIBUTE_L2_CACHE_SIZE, 50 << 20},
      {MOE__CU_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9},
      {MOE__CU_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0},
      {MOE__CU_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 232448},
  };
  for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
    if (values[i].attribute == attribute) {
      *value = values[i].value;
      return device < 100;
    }
  }
  return 1;
}

static moe__cu_result_t fake_cuDevicePrimaryCtxRetain(moe__cu_context_t *context,
                                                      moe__cu_device_t device) {
  state.retained++;
  *context = (moe__cu_context_t)&primary;
  return device < 100;
}

static moe__cu_result_t fake_cuDevicePrimaryCtxRelease(moe__cu_device_t device) {
  state.released++;
  return device < 100;
}

static moe__cu_result_t fake_cuCtxGetCurrent(moe__cu_context_t *context) {
  *context = current;
  return 0;
}

static moe__cu_result_t fake_cuCtxSetCurrent(moe__cu_context_t context) {
  current = context;
  return 0;
}

static moe__cu_result_t fake_cuMemAlloc(moe__cu_pointer_t *pointer, size_t bytes) {
  static _Alignas(256) char memory[1 << 20];
  *pointer = (uintptr_t)memset(memory, 0xA5, sizeof memory);
  state.allocated += bytes > 0;
  return bytes <= sizeof memory ? in_context() : MOE__CU_OUT_OF_MEMORY;
}

static moe__cu_result_t fake_cuMemFree(moe__cu_pointer_t pointer) {
  state.freed += pointer != 0;
  return in_context();
}

static moe__cu_result_t fake_cuMemcpyHtoD(moe__cu_pointer_t to, const void *from, size_t bytes) {
  memcpy((void *)(uintptr_t)to, from, bytes);
  return in_context();
}

static moe__cu_result_t fake_cuMemcpyDtoH(void *to, moe__cu_pointer_t from, size_t bytes) {
  memcpy(to, (void *)(uintptr_t)from, bytes);
  return in_context();
}

static moe__cu_result_t fake_cuMemcpyDtoDAsync(moe__cu_pointer_t to, moe__cu_pointer_t from,
                                               size_t bytes, moe__cu_stream_t stream) {
  memcpy((void *)(uintptr_t)to, (void *)(uintptr_t)from, bytes);
  return stream ? in_context() : 1;
}

static moe__cu_result_t fake_cuMemsetD8Async(moe__cu_pointer_t to, unsigned char byte, size_t bytes,
                                             moe__cu_stream_t stream) {
  (void)stream;
  memset((void *)(uintptr_t)to, byte, bytes);
  return in_context();
}

static moe__cu_result_t fake_cuStreamCreate(moe__cu_stream_t *stream, unsigned flags) {
  *stream = (moe__cu_stream_t)&state;
  return flags == MOE__CU_STREAM_NON_BLOCKING ? in_context() : 1;
}

static moe__cu_result_t fake_cuStreamDestroy(moe__cu_stream_t stream) {
  return stream ? in_context() : 1;
}

static moe__cu_result_t fake_cuStreamSynchronize(moe__cu_stream_t stream) {
  (void)stream;
  return in_context();
}

static moe__cu_result_t fake_cuEventCreate(moe__cu_event_t *event, unsigned flags) {
  *event = (moe__cu_event_t)&state;
  return flags == 0 ? in_context() : 1;
}

static moe__cu_result_t fake_cuEventDestroy(moe__cu_event_t event) {
  return event ? in_context() : 1;
}

static moe__cu_result_t fake_cuEventRecord(moe__cu_event_t event, moe__cu_stream_t stream) {
  return event && stream ? in_context() : 1;
}

static moe__cu_result_t fake_cuEventSynchronize(moe__cu_event_t event) {
  return event ? in_context() : 1;
}

static moe__cu_result_t fake_cuEventElapsedTime(float *milliseconds, moe__cu_event_t begin,
                                                moe__cu_event_t end) {
  *milliseconds = 1.5F;
  return begin && end ? in_context() : 1;
}

static moe__cu_result_t fake_cuLibraryLoadData(moe__cu_library_t *library, const void *code,
                                               moe__cu_jit_option_t *jit_options, void **jit_values,
                                               unsigned jit_count,
                                               moe__cu_library_option_t *library_options,
                                               void **library_values, unsigned library_count) {
  bool is_cubin = memcmp(code,
                         "\x7f"
                         "ELF",
                         4) == 0;
  moe__cu_result_t result = is_cubin ? state.cubin_result : state.ptx_result;
  if (library_options || library_values || library_count)
    return 1;
  for (unsigned i = 0; result && i + 1 < jit_count; i++) {
    if (jit_options[i] == MOE__CU_JIT_ERROR_LOG_BUFFER &&
        jit_options[i + 1] == MOE__CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
      snprintf(jit_values[i], (size_t)(uintptr_t)jit_values[i + 1], "line 3: unknown word\n");
  }
  if (result)
    return result;
  state.loaded++;
  *library = (moe__cu_library_t)&state;
  return in_context();
}

static moe__cu_result_t fake_cuLibraryUnload(moe__cu_library_t library) {
  state.unloaded += library != NULL;
  return in_context();
}

static moe__cu_result_t fake_cuLibraryGetKernel(moe__cu_kernel_t *kernel, moe__cu_library_t library,
                                                const char *name) {
  if (!library || strcmp(name, "store_at") == 0)
    return NOT_FOUND;
  *kernel = (moe__cu_kernel_t)&state;
  return in_context();
}

static moe__cu_result_t fake_cuKernelGetFunction(moe__cu_function_t *function,
                                                 moe__cu_kernel_t kernel) {
  *function = (moe__cu_function_t)kernel;
  state.kernels_loaded++;
  return in_context();
}

static moe__cu_result_t fake_cuKernelSetAttribute(moe__cu_function_attribute_t attribute, int value,
                                                  moe__cu_kernel_t kernel,
                                                  moe__cu_device_t device) {
  if (attribute != MOE__CU_FUNCTION_MAX_DYNAMIC_SHARED_SIZE_BYTES || !kernel || device < 100)
    return 1;
  if (value > state.shared_memory)
    state.shared_memory = value;
  return in_context();
}

/* Newer than this driver: cuGetProcAddress does not give it out. */
static moe__cu_result_t fake_cuFuncLoad(moe__cu_function_t function) {
  return function ? 1 : 2;
}

static moe__cu_result_t
fake_cuTensorMapEncodeTiled(moe__encoded_map_t *map, moe__cu_map_element_t element, uint32_t rank,
                            void *address, const uint64_t *dims, const uint64_t *strides,
                            const uint32_t *box, const uint32_t *element_strides,
                            moe__cu_map_interleave_t interleave, moe__cu_map_swizzle_t swizzle,
                            moe__cu_map_promotion_t promotion, moe__cu_map_fill_t fill) {
  memset(map, 0xCC, sizeof *map);
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

static moe__cu_result_t fake_cuOccupancyMaxActiveClusters(int *count, moe__cu_function_t function,
                                                          const moe__cu_launch_config_t *config) {
  if (!function || config->attribute_count != 1 ||
      config->attributes[0].id != MOE__CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
    return 1;
  state.occupancy = *config;
  *count = state.clusters;
  return in_context();
}

static moe__cu_result_t fake_cuLaunchKernelEx(const moe__cu_launch_config_t *config,
                                              moe__cu_function_t function, void **parameters,
                                              void **extra) {
  state.launch = *config;
  for (uint32_t i = 0; i < config->attribute_count && i < 2; i++)
    state.attributes[i] = config->attributes[i];
  state.launched = function;
  state.parameters = parameters;
  return extra ? 1 : in_context();
}

MOE_API moe__cu_result_t cuGetProcAddress_v2(const char *name, void **out_address, int version,
                                             uint64_t flags, int *out_status);
MOE_API moe__cu_result_t cuGetProcAddress_v2(const char *name, void **out_address, int version,
                                             uint64_t flags, int *out_status) {
  static const struct {
    const char *name;
    int version;
    void *address;
  } entries[] = {
#define MOE__CUDA(name, version, symbol, parameters) {#name, version, (void *)fake_##name},
#define MOE__CUDA_OPTIONAL MOE__CUDA
#include "lib/Runtime/Cuda.def"
#undef MOE__CUDA_OPTIONAL
#undef MOE__CUDA
  };
  *out_address = NULL;
  *out_status = 1;
  for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
    if (strcmp(entries[i].name, name) == 0 && entries[i].version == version &&
        version <= DRIVER_VERSION && flags == MOE__CU_GET_PROC_ADDRESS_LEGACY_STREAM) {
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
