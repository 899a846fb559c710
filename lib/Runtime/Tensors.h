/* Tensors.h - the caller's tensors, checked.
 *
 * Tensors.c doubts the caller; whoever comes after it does not. Shapes and addresses are checked
 * apart: with the shapes of the step before, only addresses are new.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_RUNTIME_TENSORS_H
#define MOE_RUNTIME_TENSORS_H

#include "lib/Runtime/Program.h"

/* How many tensors a caller gives: arguments, then results. */
static inline int moe__rt_given_count(const moe__rt_function_t *function) {
  return function->info.argument_count + function->info.result_count;
}

/* Checks that there are `expected` tensors, none of them NULL, with element type, device and
 * rank of the function's tensors. */
moe_rt_status_t moe__rt_tensors_check_kinds(const moe_rt_device_t *device,
                                            const moe__rt_function_t *function,
                                            const DLTensor *const *tensors, int tensor_count,
                                            int expected);

/* Checks shapes and strides of the first `count` tensors, which have passed
 * moe__rt_tensors_check_kinds: all arguments at least. Gives the values of the symbols, and the
 * bytes of all tensors of the function. */
moe_rt_status_t moe__rt_tensors_check_shapes(const moe_rt_device_t *device,
                                             const moe__rt_function_t *function,
                                             const DLTensor *const *tensors, int count,
                                             int64_t out_symbols[MOE__RT_MAX_SYMBOLS],
                                             int64_t *out_bytes);

/* Checks where the tensors are, of which `bytes` are known, and gives their addresses; 0 of a
 * tensor without elements. */
moe_rt_status_t moe__rt_tensors_check_addresses(const moe__rt_function_t *function,
                                                const DLTensor *const *tensors,
                                                const int64_t *bytes, uint64_t *out_addresses);

#endif /* MOE_RUNTIME_TENSORS_H */
