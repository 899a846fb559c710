/* Program.h - a loaded bundle.
 *
 * Program.c makes it, Shapes.c computes with it, Call.c and Run.c launch from it.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_RUNTIME_PROGRAM_H
#define MOE_RUNTIME_PROGRAM_H

#include "lib/Runtime/Backend.h"

/* The files of a bundle besides its manifest. */
typedef struct moe__rt_bundle_code_t {
  moe__rt_bytes_t cubin; /* empty where the bundle has none */
  moe__rt_bytes_t ptx;
} moe__rt_bundle_code_t;

/* What a program without a device has loaded so far, on which devices. */
typedef struct moe__rt_loaded_t {
  pthread_mutex_t mutex; /* held to add one */
  _Atomic(moe_rt_program_t *) first;
} moe__rt_loaded_t;

struct moe_rt_program_t {
  moe__rt_arena_t arena;
  const char *name; /* its path, for messages */
  const moe__rt_manifest_t *manifest;

  /* A program without a device. */
  moe__rt_bundle_code_t source;
  moe__rt_loaded_t *loaded;

  /* A program on a device. */
  moe_rt_device_t *device; /* borrowed; NULL: it has none */
  moe_rt_program_t *next;  /* that the same program has loaded */
  void *code;
  const char *code_name;       /* "cubin", "ptx", "none" */
  void **kernels;              /* parallel to manifest->kernels */
  int64_t *clusters;           /* the same: how many the device holds at once; of one block: 0 */
  void *statuses;              /* device memory: the status words of runs; NULL where none report */
  struct moe__rt_runs_t *runs; /* what runs remember, parallel to manifest->functions */
};

/* The program as it is loaded for tensors of this place; NULL where it is not. */
const moe_rt_program_t *moe__rt_program_loaded(const moe_rt_program_t *program, DLDevice place);

/* Where runs of a function report; 0 where it reports nothing. */
uint64_t moe__rt_program_status_word(const moe_rt_program_t *program,
                                     const moe__rt_function_t *function);

/* The function behind a pointer from the public API; NULL when it is not of this program. */
const moe__rt_function_t *moe__rt_program_function(const moe_rt_program_t *program,
                                                   const moe_rt_function_info_t *info);

/* Checks the shapes of all arguments against symbols and static sizes, and gives the values of the
 * symbols. */
moe_rt_status_t moe__rt_shapes_bind(const moe__rt_function_t *function,
                                    const int64_t *const *argument_shapes,
                                    int64_t out_symbols[MOE__RT_MAX_SYMBOLS]);

/* The shape of any tensor of the function. */
moe_rt_status_t moe__rt_shapes_compute(const moe__rt_function_t *function, int tensor,
                                       const moe__rt_bindings_t *bindings,
                                       int64_t out_shape[MOE_RT_MAX_RANK]);

/* The bytes that a tensor takes; MOE_RT_INVALID_ARGUMENT when they do not fit 63 bits. */
moe_rt_status_t moe__rt_shapes_bytes(const moe_rt_tensor_info_t *tensor, const int64_t *shape,
                                     int64_t *out_bytes);

/* "argument", "result" or "temporary" */
const char *moe__rt_tensor_role(const moe__rt_function_t *function, int tensor);

#endif /* MOE_RUNTIME_PROGRAM_H */
