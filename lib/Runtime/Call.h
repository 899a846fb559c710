/* Call.h - where the caller's tensors are, checked.
 *
 * The border between Tensors.c, which doubts the caller, and Call.c, which no longer does.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_RUNTIME_CALL_H
#define MOE_RUNTIME_CALL_H

#include "lib/Runtime/Program.h"

/* Where a tensor of a function is in this call. */
typedef struct moe__placement_t {
  uint64_t address;
  int64_t bytes;
} moe__placement_t;

/* Checks the caller's tensors (arguments, then results) against the function and places them, gives
 * the values of the symbols, and computes the sizes of the temporaries, whose addresses stay 0. */
moe_rt_status_t moe__tensors_place(const moe_rt_device_t *device, const moe__function_t *function,
                                   const DLTensor *const *tensors, int tensor_count,
                                   int64_t out_symbols[MOE__MAX_SYMBOLS],
                                   moe__placement_t *out_placements);

#endif /* MOE_RUNTIME_CALL_H */
