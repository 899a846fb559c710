/* FakeCuda.h - a libcuda.so.1 for tests, and what it was asked to do.
 *
 * The CUDA backend is tested against it without a GPU: errors that no healthy GPU gives, and the
 * thread's context after each call.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_TEST_RUNTIME_FAKE_CUDA_H
#define MOE_TEST_RUNTIME_FAKE_CUDA_H

#include "lib/Runtime/CudaDriver.h"

typedef struct fake_cuda_t {
  /* What it shall do. */
  atomic_int next_result;                /* of the next call that needs a context; then 0 again */
  moe__rt_cu_result_t cubin_result;      /* of loading a cubin */
  moe__rt_cu_result_t ptx_result;        /* of loading PTX; not 0: it writes a log */
  int clusters;                          /* how many the device holds at once */
  moe__rt_cu_capture_status_t capturing; /* of any stream */
  /* Called at each launch: parameters may be gone after it. */
  void (*on_launch)(const moe__rt_cu_launch_config_t *config, void **parameters);
  /* What it was asked to do, also by several threads at once. */
  atomic_int launches, maps_encoded, memsets, waits, pool_taken, pool_given;
  _Atomic(moe__rt_cu_stream_t) pool_stream, memset_stream;
  atomic_int retained, released, loaded, unloaded, allocated, freed, kernels_loaded;
  atomic_int calls_without_context; /* calls that need a primary context and found another */
  int shared_memory;                /* the largest limit that was set */
  moe__rt_cu_launch_config_t occupancy, launch; /* of the last question, of the last launch */
  moe__rt_cu_launch_attribute_t attributes[2];
  moe__rt_cu_function_t launched;
  void **parameters;
  struct {
    int element, interleave, swizzle, promotion, fill;
    uint32_t rank, box[5], element_strides[5];
    uint64_t address, dims[5], strides[4];
  } map;
} fake_cuda_t;

MOE_API fake_cuda_t *fake_cuda_state(void);

#endif /* MOE_TEST_RUNTIME_FAKE_CUDA_H */
