/* CudaDriver.h - the CUDA driver's ABI, as far as the runtime uses it.
 *
 * Declaring a few types and numbers lets the library build without a CUDA toolkit;
 * test/Runtime/CudaAbiTest.c compares every one of them with cuda.h where there is one.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_RUNTIME_CUDA_DRIVER_H
#define MOE_RUNTIME_CUDA_DRIVER_H

#include "lib/Runtime/Backend.h"

typedef int moe__rt_cu_result_t;
typedef int moe__rt_cu_device_t;
typedef uint64_t moe__rt_cu_pointer_t;
typedef struct moe__rt_cu_context_t *moe__rt_cu_context_t;
typedef struct moe__rt_cu_stream_t *moe__rt_cu_stream_t;
typedef struct moe__rt_cu_event_t *moe__rt_cu_event_t;
typedef struct moe__rt_cu_library_t *moe__rt_cu_library_t;
typedef struct moe__rt_cu_kernel_t *moe__rt_cu_kernel_t;
typedef struct moe__rt_cu_function_t *moe__rt_cu_function_t;
/* Enumerations of the driver: one name each, so that the test can compare whole prototypes. */
typedef int moe__rt_cu_capture_status_t;
typedef int moe__rt_cu_device_attribute_t;
typedef int moe__rt_cu_function_attribute_t;
typedef int moe__rt_cu_jit_option_t;
typedef int moe__rt_cu_library_option_t;
typedef int moe__rt_cu_map_element_t;
typedef int moe__rt_cu_map_interleave_t;
typedef int moe__rt_cu_map_swizzle_t;
typedef int moe__rt_cu_map_promotion_t;
typedef int moe__rt_cu_map_fill_t;

enum {
  MOE__RT_CU_SUCCESS = 0,
  MOE__RT_CU_OUT_OF_MEMORY = 2,
  MOE__RT_CU_NO_DEVICE = 100,
  MOE__RT_CU_NOT_FOUND = 500,
  MOE__RT_CU_ILLEGAL_ADDRESS = 700,
  MOE__RT_CU_ASSERT = 710,
  MOE__RT_CU_LAUNCH_FAILED = 719,

  MOE__RT_CU_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
  MOE__RT_CU_ATTRIBUTE_L2_CACHE_SIZE = 38,
  MOE__RT_CU_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
  MOE__RT_CU_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
  MOE__RT_CU_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,

  MOE__RT_CU_FUNCTION_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
  MOE__RT_CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION = 4,
  MOE__RT_CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6,
  MOE__RT_CU_JIT_ERROR_LOG_BUFFER = 5,
  MOE__RT_CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6,
  MOE__RT_CU_STREAM_NON_BLOCKING = 1,
  MOE__RT_CU_GET_PROC_ADDRESS_LEGACY_STREAM = 1,
  MOE__RT_CU_INTERLEAVE_NONE = 0,
};

typedef struct moe__rt_cu_launch_attribute_t {
  int id;
  char padding[4];
  union {
    char padding[64];
    struct {
      uint32_t x, y, z;
    } cluster;
    int programmatic;
    uint64_t alignment;
  } value;
} moe__rt_cu_launch_attribute_t;

typedef struct moe__rt_cu_launch_config_t {
  uint32_t grid[3];
  uint32_t block[3];
  uint32_t shared_memory;
  moe__rt_cu_stream_t stream;
  moe__rt_cu_launch_attribute_t *attributes;
  uint32_t attribute_count;
} moe__rt_cu_launch_config_t;

/* The entry points of Cuda.def. */
typedef struct moe__rt_cuda_driver_t {
#define MOE__RT_CUDA(name, version, symbol, parameters) moe__rt_cu_result_t(*name) parameters;
#define MOE__RT_CUDA_OPTIONAL MOE__RT_CUDA
#include "lib/Runtime/Cuda.def"
#undef MOE__RT_CUDA_OPTIONAL
#undef MOE__RT_CUDA
} moe__rt_cuda_driver_t;

/* The driver, opened and initialized once per process. MOE_RT_NO_DRIVER where there is none. */
moe_rt_status_t moe__rt_cuda_driver_open(const moe__rt_cuda_driver_t **out_driver);

/* "CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access was encountered", after "WHAT: ".
 * Sets the message and returns `status`. */
moe_rt_status_t moe__rt_cuda_fail(const moe__rt_cuda_driver_t *driver, moe_rt_status_t status,
                                  const char *what, moe__rt_cu_result_t result);

#endif /* MOE_RUNTIME_CUDA_DRIVER_H */
