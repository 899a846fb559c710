/* Buffers.c - tensors in buffers of their own, for tests.
 *
 * Why it exists: see Buffers.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "test/Reference/Buffers.h"

#include "test/Reference/Oracle.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

buffer_t buffer_make(moe_ref_dtype_t dtype, int rank, const int64_t *shape, int turn, int64_t gap) {
  buffer_t buffer = {.tensor = {.dtype = dtype, .rank = rank}};
  int order[MOE_REF_MAX_RANK]; /* innermost first */
  int count = 0;
  if (turn > 0)
    order[count++] = turn - 1;
  for (int d = rank - 1; d >= 0; d--)
    if (d != turn - 1)
      order[count++] = d;

  int64_t stride = 1;
  for (int i = 0; i < rank; i++) {
    buffer.tensor.shape[order[i]] = shape[order[i]];
    buffer.tensor.strides[order[i]] = stride;
    stride *= shape[order[i]];
    if (i == 0)
      stride += gap;
  }
  const size_t element = (size_t)moe_ref_dtype_bits(dtype) / 8, margin = 16 * element;
  buffer.size = (size_t)stride * element + 2 * margin;
  buffer.bytes = malloc(buffer.size);
  assert_non_null(buffer.bytes);
  memset(buffer.bytes, CANARY, buffer.size);
  buffer.tensor.data = buffer.bytes + margin;
  return buffer;
}

void buffer_free(buffer_t *buffer) {
  free(buffer->bytes);
}

int64_t element_count(const moe_ref_tensor_t *tensor) {
  int64_t count = 1;
  for (int d = 0; d < tensor->rank; d++)
    count *= tensor->shape[d];
  return count;
}

int64_t offset_of(const moe_ref_tensor_t *tensor, int64_t linear, int64_t *coordinates) {
  int64_t offset = 0;
  for (int d = tensor->rank - 1; d >= 0; d--) {
    const int64_t i = linear % tensor->shape[d];
    linear /= tensor->shape[d];
    offset += i * tensor->strides[d];
    if (coordinates != NULL)
      coordinates[d] = i;
  }
  return offset;
}

int64_t offset_at(const moe_ref_tensor_t *tensor, const int64_t *coordinates) {
  int64_t offset = 0;
  for (int d = 0; d < tensor->rank; d++)
    offset += coordinates[d] * tensor->strides[d];
  return offset;
}

float element_get(const moe_ref_tensor_t *tensor, int64_t offset) {
  if (tensor->dtype == MOE_REF_F32)
    return ((const float *)tensor->data)[offset];
  if (tensor->dtype == MOE_REF_BF16)
    return f32_of((uint32_t)((const uint16_t *)tensor->data)[offset] << 16);
  if (tensor->dtype == MOE_REF_F16)
    return (float)oracle_f16_value(((const uint16_t *)tensor->data)[offset]);
  if (tensor->dtype == MOE_REF_E8M0) {
    const uint8_t byte = ((const uint8_t *)tensor->data)[offset];
    return byte == 255 ? NAN : ldexpf(1, byte - 127);
  }
  return (float)oracle_fp8_value(tensor->dtype, ((const uint8_t *)tensor->data)[offset]);
}

void element_set(const moe_ref_tensor_t *tensor, int64_t offset, float value) {
  if (tensor->dtype == MOE_REF_F32)
    ((float *)tensor->data)[offset] = value;
  else if (tensor->dtype == MOE_REF_F16)
    ((uint16_t *)tensor->data)[offset] = oracle_f16_from_f32(value);
  else if (tensor->dtype == MOE_REF_E8M0) /* of a power of two */
    ((uint8_t *)tensor->data)[offset] = (uint8_t)(ilogbf(value) + 127);
  else
    ((uint16_t *)tensor->data)[offset] = oracle_bf16_from_f32(value);
}

float random_value(uint64_t *random, uint32_t exponent, bool finite) {
  const uint64_t r = random_next(random);
  const uint32_t sign = (uint32_t)(r & 1) << 31, mantissa = (uint32_t)(r >> 41);
  const uint32_t near = exponent + (uint32_t)(r >> 1 & 15), kind = (uint32_t)(r >> 5 & 0x3FF);
  if (kind < 2)
    return f32_of(sign | (finite ? 0 : kind == 0 ? 0x7F800000 : 0x7FC00000));
  if (kind < 6)
    return f32_of(sign);
  if (kind < 10)
    return f32_of(sign | mantissa);
  return f32_of(sign | (near < 254 ? near : 254) << 23 | mantissa);
}

void tensor_fill(const moe_ref_tensor_t *x, uint64_t seed, uint32_t exponent, bool finite) {
  uint64_t random = seed;
  const int64_t count = element_count(x);
  for (int64_t i = 0; i < count; i++)
    element_set(x, offset_of(x, i, NULL), random_value(&random, exponent, finite));
}

void shape_of_scales(const int64_t *shape, int rank, int axis, int64_t block,
                     int64_t *scale_shape) {
  for (int d = 0; d < rank; d++)
    scale_shape[d] = d == axis ? shape[d] / block : shape[d];
}

void assert_same_bytes(const buffer_t *found, const buffer_t *expected, const char *what) {
  for (size_t i = 0; i < expected->size; i++)
    if (found->bytes[i] != expected->bytes[i])
      fail_msg("%s: byte %zu of %zu is 0x%02X, found 0x%02X", what, i, expected->size,
               expected->bytes[i], found->bytes[i]);
}
