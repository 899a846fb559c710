/* Program.h - a loaded bundle.
 *
 * Program.c makes it, Shapes.c computes with it, Call.c launches from it.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_RUNTIME_PROGRAM_H
#define MOE_RUNTIME_PROGRAM_H

#include "lib/Runtime/Backend.h"

struct moe_rt_program_t {
  moe__arena_t arena;
  moe__manifest_t manifest;
  moe_rt_device_t *device; /* borrowed; NULL after moe_rt_program_read */
  void *code;
  const char *code_name; /* "cubin", "ptx", "none" */
  void **kernels;        /* parallel to manifest.kernels */
  int64_t *clusters;     /* the same: how many the device holds at once; of one block: 0 */
};

/* The function behind a pointer from the public API; NULL when it is not of this program. */
const moe__function_t *moe__program_function(const moe_rt_program_t *program,
                                             const moe_rt_function_info_t *info);

/* Checks the shapes of all arguments against symbols and static sizes, and gives the values of the
 * symbols. */
moe_rt_status_t moe__shapes_bind(const moe__function_t *function,
                                 const int64_t *const *argument_shapes,
                                 int64_t out_symbols[MOE__MAX_SYMBOLS]);

/* The shape of any tensor of the function. */
moe_rt_status_t moe__shapes_compute(const moe__function_t *function, int tensor,
                                    const moe__bindings_t *bindings,
                                    int64_t out_shape[MOE_RT_MAX_RANK]);

/* The bytes that a tensor takes; MOE_RT_INVALID_ARGUMENT when they do not fit 63 bits. */
moe_rt_status_t moe__shapes_bytes(const moe_rt_tensor_info_t *tensor, const int64_t *shape,
                                  int64_t *out_bytes);

/* "argument", "result" or "temporary" */
const char *moe__tensor_role(const moe__function_t *function, int tensor);

#endif /* MOE_RUNTIME_PROGRAM_H */
