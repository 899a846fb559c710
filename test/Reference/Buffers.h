/* Buffers.h - tensors in buffers of their own, for tests.
 *
 * Why it exists: tests of quantize and dequantize need tensors in any memory order, with bytes
 * around and between the elements that must survive, and elements addressed by index arithmetic
 * alone.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_TEST_REFERENCE_BUFFERS_H
#define MOE_TEST_REFERENCE_BUFFERS_H

#include "moe/reference.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What every byte of a new buffer is. */
enum { CANARY = 0xA5 };

/* A tensor and the buffer around it: some bytes before, between and after its elements do not
 * belong to it. */
typedef struct {
  moe_ref_tensor_t tensor;
  uint8_t *bytes;
  size_t size;
} buffer_t;

/* Row-major when turn is 0; otherwise dimension `turn - 1` is the innermost one. `gap` elements of
 * padding follow every innermost line. */
buffer_t buffer_make(moe_ref_dtype_t dtype, int rank, const int64_t *shape, int turn, int64_t gap);
void buffer_free(buffer_t *buffer);

/* Fails the test where a byte differs, canaries included. */
void assert_same_bytes(const buffer_t *found, const buffer_t *expected, const char *what);

int64_t element_count(const moe_ref_tensor_t *tensor);

/* Element number `linear`, counted row-major, as an index into the data; its coordinates too unless
 * NULL. */
int64_t offset_of(const moe_ref_tensor_t *tensor, int64_t linear, int64_t *coordinates);
int64_t offset_at(const moe_ref_tensor_t *tensor, const int64_t *coordinates);

/* The value at an offset (any dtype but E8M0 and I32), and its replacement (F32, BF16 and F16). */
float element_get(const moe_ref_tensor_t *tensor, int64_t offset);
void element_set(const moe_ref_tensor_t *tensor, int64_t offset, float value);

/* A magnitude of sixteen neighboring exponents from `exponent` on, as fp32's field counts them; now
 * and then zero, subnormal, and, unless finite, Inf or NaN. */
float random_value(uint64_t *random, uint32_t exponent, bool finite);

/* Random values in all elements. */
void tensor_fill(const moe_ref_tensor_t *x, uint64_t seed, uint32_t exponent, bool finite);

/* The shape of the scales of a tensor of this shape. */
void shape_of_scales(const int64_t *shape, int rank, int axis, int64_t block, int64_t *scale_shape);

#endif /* MOE_TEST_REFERENCE_BUFFERS_H */
