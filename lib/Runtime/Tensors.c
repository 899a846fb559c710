/* Tensors.c - checks the caller's DLPack tensors against a function.
 *
 * A kernel reads addresses and believes its shapes; a tensor that is not what the manifest says
 * must not reach it.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Runtime/Tensors.h"

#include <stdio.h>
#include <string.h>

/* ---- One tensor by itself ---- */

/* "uint8", "bfloat16", "float8_e4m3fn": the words of DLPack's users. */
static void describe_dtype(DLDataType dtype, char *text, size_t size) {
  static const char *const names[] = {"int",    "uint",    "float", "handle",
                                      "bfloat", "complex", "bool"};
  static const char *const float8[] = {"e3m4",     "e4m3", "e4m3b11fnuz", "e4m3fn",
                                       "e4m3fnuz", "e5m2", "e5m2fnuz",    "e8m0fnu"};
  if (dtype.code <= kDLBool)
    snprintf(text, size, "%s%d", names[dtype.code], dtype.bits);
  else if (dtype.code >= kDLFloat8_e3m4 && dtype.code <= kDLFloat8_e8m0fnu)
    snprintf(text, size, "float8_%s", float8[dtype.code - kDLFloat8_e3m4]);
  else
    snprintf(text, size, "code %d of %d bits", dtype.code, dtype.bits);
  size_t length = strlen(text);
  if (dtype.lanes != 1)
    snprintf(text + length, size - length, " with %d lanes", dtype.lanes);
}

static moe_rt_status_t check_dtype(const moe__rt_tensor_t *expected, DLDataType dtype) {
  bool is_same = dtype.code == expected->dlpack_code;
  /* Frameworks without 8-bit floats carry them as bytes. */
  bool is_bytes = dtype.code == kDLUInt && expected->info->dtype_bits == 8;
  if ((is_same || is_bytes) && dtype.bits == expected->info->dtype_bits && dtype.lanes == 1)
    return MOE_RT_OK;
  char found[64];
  describe_dtype(dtype, found, sizeof found);
  return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "has elements of %s; they must be %s%s", found,
                      expected->info->dtype, expected->info->dtype_bits == 8 ? " or uint8" : "");
}

static moe_rt_status_t check_kind(const moe_rt_device_t *device, const moe__rt_tensor_t *expected,
                                  const DLTensor *tensor) {
  if (!tensor)
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "is NULL");
  MOE__RT_TRY(check_dtype(expected, tensor->dtype));
  if (!device->backend->owns(device, tensor->device)) {
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT,
                        "is on DLPack device (%d, %d), which is not memory of %s",
                        (int)tensor->device.device_type, tensor->device.device_id, device->name);
  }
  if (tensor->ndim != expected->info->rank) {
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "has rank %d; it must be %d", tensor->ndim,
                        expected->info->rank);
  }
  if (!tensor->shape)
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "has no shape");
  return MOE_RT_OK;
}

/* Compact in the manifest's order. The sizes are known to multiply without overflow. */
static moe_rt_status_t check_strides(const moe_rt_tensor_info_t *info, const DLTensor *tensor) {
  int64_t row_major[MOE_RT_MAX_RANK];
  int64_t step = 1;
  for (int i = info->rank - 1; i >= 0; i--) {
    row_major[i] = step;
    step *= tensor->shape[i];
  }
  const int64_t *strides = tensor->strides ? tensor->strides : row_major;
  int64_t expected = 1;
  for (int i = info->rank - 1; i >= 0; i--) {
    int dimension = info->order[i];
    if (tensor->shape[dimension] != 1 && strides[dimension] != expected) {
      return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "dimension %d has stride %lld; it must be %lld",
                          dimension, (long long)strides[dimension], (long long)expected);
    }
    expected *= tensor->shape[dimension];
  }
  return MOE_RT_OK;
}

/* Address and alignment of a tensor with elements. */
static moe_rt_status_t check_address(const moe_rt_tensor_info_t *info, const DLTensor *tensor,
                                     int64_t bytes, uint64_t *out_address) {
  if (!tensor->data)
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "has no data");
  uint64_t end = 0;
  if (__builtin_add_overflow((uint64_t)(uintptr_t)tensor->data, tensor->byte_offset, out_address) ||
      __builtin_add_overflow(*out_address, (uint64_t)bytes, &end))
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "reaches past the end of the address space");
  if (*out_address % (uint64_t)info->alignment != 0) {
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "is at 0x%llx; it must be aligned to %lld bytes",
                        (unsigned long long)*out_address, (long long)info->alignment);
  }
  return MOE_RT_OK;
}

static moe_rt_status_t check_shape(const moe_rt_tensor_info_t *info, const DLTensor *tensor,
                                   const int64_t *shape) {
  for (int i = 0; i < info->rank; i++) {
    if (tensor->shape[i] != shape[i]) {
      return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "dimension %d is %lld; it must be %lld", i,
                          (long long)tensor->shape[i], (long long)shape[i]);
    }
  }
  return MOE_RT_OK;
}

/* ---- All of them ---- */

/* Names the tensor in the message of a failed check. */
static moe_rt_status_t in_tensor(moe_rt_status_t status, const moe__rt_function_t *function,
                                 int tensor) {
  if (status == MOE_RT_OK)
    return MOE_RT_OK;
  return moe__rt_fail_in(status, "%s '%s'", moe__rt_tensor_role(function, tensor),
                         function->tensors[tensor].info->name);
}

static bool overlap(uint64_t a, int64_t a_bytes, uint64_t b, int64_t b_bytes) {
  return a_bytes > 0 && b_bytes > 0 && a < b + (uint64_t)b_bytes && b < a + (uint64_t)a_bytes;
}

static moe_rt_status_t check_overlaps(const moe__rt_function_t *function, const int64_t *bytes,
                                      const uint64_t *addresses) {
  int count = moe__rt_given_count(function);
  for (int result = function->info.argument_count; result < count; result++) {
    for (int other = 0; other < result; other++) {
      if (overlap(addresses[result], bytes[result], addresses[other], bytes[other])) {
        return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "result '%s' overlaps %s '%s'",
                            function->tensors[result].info->name,
                            moe__rt_tensor_role(function, other),
                            function->tensors[other].info->name);
      }
    }
  }
  return MOE_RT_OK;
}

moe_rt_status_t moe__rt_tensors_check_kinds(const moe_rt_device_t *device,
                                            const moe__rt_function_t *function,
                                            const DLTensor *const *tensors, int tensor_count,
                                            int expected) {
  if (tensor_count != expected || (expected > 0 && !tensors)) {
    int got = tensors ? tensor_count : 0;
    if (expected == function->info.argument_count)
      return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "got %d tensors; it takes %d arguments", got,
                          expected);
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT,
                        "got %d tensors; it takes %d arguments and %d results", got,
                        function->info.argument_count, function->info.result_count);
  }
  for (int t = 0; t < expected; t++)
    MOE__RT_TRY(in_tensor(check_kind(device, &function->tensors[t], tensors[t]), function, t));
  return MOE_RT_OK;
}

moe_rt_status_t moe__rt_tensors_check_shapes(const moe_rt_device_t *device,
                                             const moe__rt_function_t *function,
                                             const DLTensor *const *tensors, int count,
                                             int64_t out_symbols[MOE__RT_MAX_SYMBOLS],
                                             int64_t *out_bytes) {
  const int64_t *shapes[MOE__RT_MAX_TENSORS];
  for (int t = 0; t < function->info.argument_count; t++)
    shapes[t] = tensors[t]->shape;
  MOE__RT_TRY(moe__rt_shapes_bind(function, shapes, out_symbols));
  moe__rt_bindings_t bindings = {.symbols = out_symbols, .num_sms = device->info.num_sms};
  for (int t = 0; t < function->tensor_count; t++) {
    const moe_rt_tensor_info_t *info = function->tensors[t].info;
    int64_t shape[MOE_RT_MAX_RANK];
    MOE__RT_TRY(moe__rt_shapes_compute(function, t, &bindings, shape));
    if (t < count)
      MOE__RT_TRY(in_tensor(check_shape(info, tensors[t], shape), function, t));
    MOE__RT_TRY(in_tensor(moe__rt_shapes_bytes(info, shape, &out_bytes[t]), function, t));
    if (t < count && out_bytes[t] > 0)
      MOE__RT_TRY(in_tensor(check_strides(info, tensors[t]), function, t));
  }
  return MOE_RT_OK;
}

moe_rt_status_t moe__rt_tensors_check_addresses(const moe__rt_function_t *function,
                                                const DLTensor *const *tensors,
                                                const int64_t *bytes, uint64_t *out_addresses) {
  int count = moe__rt_given_count(function);
  for (int t = 0; t < count; t++) {
    out_addresses[t] = 0;
    if (bytes[t] > 0)
      MOE__RT_TRY(in_tensor(
          check_address(function->tensors[t].info, tensors[t], bytes[t], &out_addresses[t]),
          function, t));
  }
  return check_overlaps(function, bytes, out_addresses);
}
