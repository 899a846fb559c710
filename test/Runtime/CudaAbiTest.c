/* CudaAbiTest.c - compares the runtime's own declarations of the CUDA driver with cuda.h.
 *
 * The runtime builds without a CUDA toolkit; where there is one, every number, struct and prototype
 * that it declares is held against the original. Most of it happens while this file compiles.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Runtime/CudaDriver.h"

#include <cuda.h>
#include <cudaTypedefs.h>

#include <stdio.h>

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #ours)

SAME(MOE__RT_CU_SUCCESS, CUDA_SUCCESS);
SAME(MOE__RT_CU_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
SAME(MOE__RT_CU_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
SAME(MOE__RT_CU_NOT_FOUND, CUDA_ERROR_NOT_FOUND);
SAME(MOE__RT_CU_ILLEGAL_ADDRESS, CUDA_ERROR_ILLEGAL_ADDRESS);
SAME(MOE__RT_CU_ASSERT, CUDA_ERROR_ASSERT);
SAME(MOE__RT_CU_LAUNCH_FAILED, CUDA_ERROR_LAUNCH_FAILED);
SAME(MOE__RT_CU_ATTRIBUTE_MULTIPROCESSOR_COUNT, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME(MOE__RT_CU_ATTRIBUTE_L2_CACHE_SIZE, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
SAME(MOE__RT_CU_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME(MOE__RT_CU_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME(MOE__RT_CU_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
     CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
SAME(MOE__RT_CU_FUNCTION_MAX_DYNAMIC_SHARED_SIZE_BYTES,
     CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME(MOE__RT_CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
SAME(MOE__RT_CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
     CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
SAME(MOE__RT_CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER);
SAME(MOE__RT_CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
SAME(MOE__RT_CU_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
SAME(MOE__RT_CU_GET_PROC_ADDRESS_LEGACY_STREAM, CU_GET_PROC_ADDRESS_LEGACY_STREAM);
SAME(MOE__RT_CU_INTERLEAVE_NONE, CU_TENSOR_MAP_INTERLEAVE_NONE);

SAME(MOE__RT_SWIZZLE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE);
SAME(MOE__RT_SWIZZLE_32B, CU_TENSOR_MAP_SWIZZLE_32B);
SAME(MOE__RT_SWIZZLE_64B, CU_TENSOR_MAP_SWIZZLE_64B);
SAME(MOE__RT_SWIZZLE_128B, CU_TENSOR_MAP_SWIZZLE_128B);
SAME(MOE__RT_PROMOTION_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE);
SAME(MOE__RT_PROMOTION_64B, CU_TENSOR_MAP_L2_PROMOTION_L2_64B);
SAME(MOE__RT_PROMOTION_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B);
SAME(MOE__RT_PROMOTION_256B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
SAME(MOE__RT_FILL_ZERO, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
SAME(MOE__RT_FILL_NAN, CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA);
enum {
#define MOE__RT_MAP_ELEMENT(constant, name, bytes, driver) DRIVER_##constant = driver,
  MOE__RT_MAP_ELEMENTS(MOE__RT_MAP_ELEMENT)
#undef MOE__RT_MAP_ELEMENT
};
SAME(DRIVER_MOE__RT_MAP_U8, CU_TENSOR_MAP_DATA_TYPE_UINT8);
SAME(DRIVER_MOE__RT_MAP_BF16, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
SAME(DRIVER_MOE__RT_MAP_F32, CU_TENSOR_MAP_DATA_TYPE_FLOAT32);

/* Structs: size, alignment, and the place of every field. */
SAME(sizeof(moe__rt_encoded_map_t), sizeof(CUtensorMap));
_Static_assert(_Alignof(moe__rt_encoded_map_t) >= _Alignof(CUtensorMap), "alignment of a map");
SAME(sizeof(moe__rt_cu_launch_attribute_t), sizeof(CUlaunchAttribute));
SAME(_Alignof(moe__rt_cu_launch_attribute_t), _Alignof(CUlaunchAttribute));
SAME(sizeof(moe__rt_cu_launch_config_t), sizeof(CUlaunchConfig));
#define SAME_FIELD(ours, our_field, theirs, their_field)                                           \
  SAME(offsetof(ours, our_field), offsetof(theirs, their_field));                                  \
  SAME(sizeof(((ours *)0)->our_field), sizeof(((theirs *)0)->their_field))
SAME_FIELD(moe__rt_cu_launch_attribute_t, id, CUlaunchAttribute, id);
SAME_FIELD(moe__rt_cu_launch_attribute_t, value.cluster, CUlaunchAttribute, value.clusterDim);
SAME_FIELD(moe__rt_cu_launch_attribute_t, value.cluster.y, CUlaunchAttribute, value.clusterDim.y);
SAME_FIELD(moe__rt_cu_launch_attribute_t, value.programmatic, CUlaunchAttribute,
           value.programmaticStreamSerializationAllowed);
SAME_FIELD(moe__rt_cu_launch_config_t, grid[0], CUlaunchConfig, gridDimX);
SAME_FIELD(moe__rt_cu_launch_config_t, grid[1], CUlaunchConfig, gridDimY);
SAME_FIELD(moe__rt_cu_launch_config_t, grid[2], CUlaunchConfig, gridDimZ);
SAME_FIELD(moe__rt_cu_launch_config_t, block[0], CUlaunchConfig, blockDimX);
SAME_FIELD(moe__rt_cu_launch_config_t, block[2], CUlaunchConfig, blockDimZ);
SAME_FIELD(moe__rt_cu_launch_config_t, shared_memory, CUlaunchConfig, sharedMemBytes);
SAME_FIELD(moe__rt_cu_launch_config_t, stream, CUlaunchConfig, hStream);
SAME_FIELD(moe__rt_cu_launch_config_t, attributes, CUlaunchConfig, attrs);
SAME_FIELD(moe__rt_cu_launch_config_t, attribute_count, CUlaunchConfig, numAttrs);
SAME(sizeof(moe__rt_cu_result_t), sizeof(CUresult));
SAME(sizeof(moe__rt_cu_jit_option_t), sizeof(CUjit_option));
SAME(sizeof(moe__rt_cu_capture_status_t), sizeof(CUstreamCaptureStatus));
SAME(sizeof(moe__rt_cu_device_attribute_t), sizeof(CUdevice_attribute));

/* Prototypes: Cuda.def once more, with the driver's types in the place of ours, against the
 * driver's own typedef of that very version. */
#define moe__rt_cu_result_t CUresult
#define moe__rt_cu_device_t CUdevice
#define moe__rt_cu_pointer_t CUdeviceptr
#define moe__rt_cu_context_t CUcontext
#define moe__rt_cu_stream_t CUstream
#define moe__rt_cu_event_t CUevent
#define moe__rt_cu_library_t CUlibrary
#define moe__rt_cu_kernel_t CUkernel
#define moe__rt_cu_function_t CUfunction
#define moe__rt_cu_capture_status_t CUstreamCaptureStatus
#define moe__rt_cu_device_attribute_t CUdevice_attribute
#define moe__rt_cu_function_attribute_t CUfunction_attribute
#define moe__rt_cu_jit_option_t CUjit_option
#define moe__rt_cu_library_option_t CUlibraryOption
#define moe__rt_cu_map_element_t CUtensorMapDataType
#define moe__rt_cu_map_interleave_t CUtensorMapInterleave
#define moe__rt_cu_map_swizzle_t CUtensorMapSwizzle
#define moe__rt_cu_map_promotion_t CUtensorMapL2promotion
#define moe__rt_cu_map_fill_t CUtensorMapFloatOOBfill
#define moe__rt_encoded_map_t CUtensorMap
#define moe__rt_cu_launch_config_t CUlaunchConfig
#define MOE__RT_CUDA(name, version, symbol, parameters)                                            \
  _Static_assert(__builtin_types_compatible_p(CUresult(*) parameters, PFN_##name##_v##version),    \
                 "prototype of " #name);
#define MOE__RT_CUDA_OPTIONAL MOE__RT_CUDA
#include "lib/Runtime/Cuda.def"
#undef MOE__RT_CUDA_OPTIONAL
#undef MOE__RT_CUDA
_Static_assert(sizeof(CUdeviceptr) == sizeof(uint64_t), "device pointers");

int main(void) {
  printf("the declarations agree with cuda.h of CUDA %d.%d\n", CUDA_VERSION / 1000,
         CUDA_VERSION % 1000 / 10);
  return 0;
}
