/* QuantizeTest.c - quantize and dequantize over tensors: shapes, axes, strides, modes, and bad
 * arguments.
 *
 * Why it exists: the library walks tensors in tiles. Here a block is found by index arithmetic
 * alone, and whole buffers are compared, so that a byte written beside the tensor is found too.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "test/Reference/Oracle.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { CANARY = 0xA5 };

/* ---- Tensors ---- */

/* A tensor and the buffer around it: some bytes before, between and after its elements do not
 * belong to it. */
typedef struct {
  moe_ref_tensor_t tensor;
  uint8_t *bytes;
  size_t size;
} buffer_t;

/* Row-major when turn is 0; otherwise dimension `turn - 1` is the innermost one. `gap` elements of
 * padding follow every innermost line. */
static buffer_t buffer_make(moe_ref_dtype_t dtype, int rank, const int64_t *shape, int turn,
                            int64_t gap) {
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

static void buffer_free(buffer_t *buffer) {
  free(buffer->bytes);
}

static int64_t element_count(const moe_ref_tensor_t *tensor) {
  int64_t count = 1;
  for (int d = 0; d < tensor->rank; d++)
    count *= tensor->shape[d];
  return count;
}

/* Element number `linear`, counted row-major, as an index into the data; optionally its
 * coordinates. */
static int64_t offset_of(const moe_ref_tensor_t *tensor, int64_t linear, int64_t *coordinates) {
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

static int64_t offset_at(const moe_ref_tensor_t *tensor, const int64_t *coordinates) {
  int64_t offset = 0;
  for (int d = 0; d < tensor->rank; d++)
    offset += coordinates[d] * tensor->strides[d];
  return offset;
}

static float get(const moe_ref_tensor_t *tensor, int64_t offset) {
  if (tensor->dtype == MOE_REF_F32)
    return ((const float *)tensor->data)[offset];
  if (tensor->dtype == MOE_REF_BF16)
    return f32_of((uint32_t)((const uint16_t *)tensor->data)[offset] << 16);
  return (float)oracle_fp8_value(tensor->dtype, ((const uint8_t *)tensor->data)[offset]);
}

static void set(const moe_ref_tensor_t *tensor, int64_t offset, float value) {
  if (tensor->dtype == MOE_REF_F32)
    ((float *)tensor->data)[offset] = value;
  else
    ((uint16_t *)tensor->data)[offset] = oracle_bf16_from_f32(value);
}

/* Magnitudes of sixteen neighboring exponents; now and then zero, subnormal, and, unless finite,
 * Inf or NaN. */
static float random_value(uint64_t *random, uint32_t exponent, bool finite) {
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

static void fill(const moe_ref_tensor_t *x, uint64_t seed, uint32_t exponent, bool finite) {
  uint64_t random = seed;
  const int64_t count = element_count(x);
  for (int64_t i = 0; i < count; i++)
    set(x, offset_of(x, i, NULL), random_value(&random, exponent, finite));
}

static void shape_of_scales(const int64_t *shape, int rank, int axis, int64_t block,
                            int64_t *scale_shape) {
  for (int d = 0; d < rank; d++)
    scale_shape[d] = d == axis ? shape[d] / block : shape[d];
}

/* ---- Quantize ---- */

static uint8_t fp8_from_f32(moe_ref_dtype_t format, float x) {
  return format == MOE_REF_E4M3 ? moe_ref_e4m3_from_f32(x) : moe_ref_e5m2_from_f32(x);
}

static void quantize_naively(const moe_ref_tensor_t *x, int axis, int64_t block,
                             moe_ref_mx_mode_t mode, const moe_ref_tensor_t *q,
                             const moe_ref_tensor_t *scales) {
  const int64_t count = element_count(scales);
  for (int64_t b = 0; b < count; b++) {
    int64_t at[MOE_REF_MAX_RANK];
    const int64_t scale_offset = offset_of(scales, b, at);
    at[axis] *= block;
    float amax = 0;
    for (int64_t i = 0; i < block; i++, at[axis]++) {
      const float magnitude = fabsf(get(x, offset_at(x, at)));
      if (!isnan(amax) && !(magnitude <= amax))
        amax = magnitude;
    }
    at[axis] -= block;
    const uint8_t scale = moe_ref_mx_scale(amax, mode, q->dtype);
    ((uint8_t *)scales->data)[scale_offset] = scale;
    for (int64_t i = 0; i < block; i++, at[axis]++) {
      const float scaled = get(x, offset_at(x, at)) * moe_ref_mx_reciprocal(scale);
      ((uint8_t *)q->data)[offset_at(q, at)] = fp8_from_f32(q->dtype, scaled);
    }
  }
}

static void assert_same_bytes(const buffer_t *found, const buffer_t *expected, const char *what) {
  for (size_t i = 0; i < expected->size; i++)
    if (found->bytes[i] != expected->bytes[i])
      fail_msg("%s: byte %zu of %zu is 0x%02X, found 0x%02X", what, i, expected->size,
               expected->bytes[i], found->bytes[i]);
}

typedef struct {
  moe_ref_dtype_t input, element;
  int rank;
  int64_t shape[MOE_REF_MAX_RANK];
  int axis;
  int64_t block;
  moe_ref_mx_mode_t mode;
  int x_turn, q_turn, scale_turn; /* as in buffer_make */
  int64_t gap;
} case_t;

static void check_quantize(const case_t *c, uint64_t seed) {
  int64_t scale_shape[MOE_REF_MAX_RANK];
  shape_of_scales(c->shape, c->rank, c->axis, c->block, scale_shape);
  buffer_t x = buffer_make(c->input, c->rank, c->shape, c->x_turn, c->gap);
  buffer_t q[2], scales[2];
  for (int i = 0; i < 2; i++) {
    q[i] = buffer_make(c->element, c->rank, c->shape, c->q_turn, c->gap);
    scales[i] = buffer_make(MOE_REF_E8M0, c->rank, scale_shape, c->scale_turn, c->gap);
  }
  fill(&x.tensor, seed, 1 + (uint32_t)(seed * 37 % 254), false);

  assert_int_equal(
      moe_ref_mx_quantize(&x.tensor, c->axis, c->block, c->mode, &q[0].tensor, &scales[0].tensor),
      MOE_REF_OK);
  quantize_naively(&x.tensor, c->axis, c->block, c->mode, &q[1].tensor, &scales[1].tensor);
  assert_same_bytes(&scales[0], &scales[1], "scales");
  assert_same_bytes(&q[0], &q[1], "q");

  buffer_free(&x);
  for (int i = 0; i < 2; i++) {
    buffer_free(&q[i]);
    buffer_free(&scales[i]);
  }
}

/* Shapes that fill tiles, that do not, that need several along either side, and degenerate ones.
 * Each dimension is a multiple of its block when it is the axis. */
static void quantizes_every_axis_and_order(void **state) {
  (void)state;
  static const struct {
    int rank;
    int64_t shape[MOE_REF_MAX_RANK];
    int64_t block;
  } shapes[] = {
      {1, {32}, 32},
      {1, {96 * 70}, 32},
      {1, {7}, 1},
      {2, {64, 160}, 32},
      {2, {32, 32}, 32},
      {2, {1, 192}, 32},
      {2, {3 * 40, 5 * 40}, 40},
      {2, {192, 64}, 64},
      {3, {2, 96, 70}, 1},
      {3, {3 * 2, 64, 130}, 2},
      {3, {32, 64, 96}, 32},
      {3, {1, 32, 1}, 1},
      {4, {4, 2, 8, 66}, 2},
      {5, {2, 4, 2, 6, 10}, 2},
  };
  uint64_t seed = 1;
  int cases = 0;
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
    for (int axis = 0; axis < shapes[s].rank; axis++)
      for (int turn = 0; turn <= shapes[s].rank; turn++) {
        if (shapes[s].shape[axis] % shapes[s].block != 0)
          continue;
        for (int kind = 0; kind < 8; kind++, cases++) {
          case_t c = {.input = kind % 2 == 0 ? MOE_REF_F32 : MOE_REF_BF16,
                      .element = kind / 2 % 2 == 0 ? MOE_REF_E4M3 : MOE_REF_E5M2,
                      .rank = shapes[s].rank,
                      .axis = axis,
                      .block = shapes[s].block,
                      .mode = (moe_ref_mx_mode_t)(cases % 4),
                      .gap = kind / 4 * 3};
          memcpy(c.shape, shapes[s].shape, sizeof c.shape);
          c.x_turn = kind / 4 == 0 ? 0 : turn;
          c.q_turn = kind / 4 == 0 ? turn : 0;
          c.scale_turn = (turn + kind) % (c.rank + 1);
          check_quantize(&c, seed++);
        }
      }
  assert_true(cases > 500);
}

/* Reading a dimension backwards, through a negative stride, gives the same blocks backwards. */
static void quantizes_negative_strides(void **state) {
  (void)state;
  enum { ROWS = 3, COLUMNS = 64 };
  float x[ROWS * COLUMNS], flipped[ROWS * COLUMNS];
  uint8_t q[ROWS * COLUMNS], q_flipped[ROWS * COLUMNS], scales[ROWS * 2], scales_flipped[ROWS * 2];
  uint64_t random = 5;
  for (int i = 0; i < ROWS * COLUMNS; i++)
    x[i] = random_value(&random, 120, false);
  for (int r = 0; r < ROWS; r++)
    for (int c = 0; c < COLUMNS; c++)
      flipped[r * COLUMNS + c] = x[(ROWS - 1 - r) * COLUMNS + COLUMNS - 1 - c];
  const moe_ref_tensor_t backwards = {
      x + ROWS * COLUMNS - 1, MOE_REF_F32, 2, {ROWS, COLUMNS}, {-COLUMNS, -1}};
  const moe_ref_tensor_t forwards = {flipped, MOE_REF_F32, 2, {ROWS, COLUMNS}, {COLUMNS, 1}};
  const moe_ref_tensor_t q1 = {q, MOE_REF_E4M3, 2, {ROWS, COLUMNS}, {COLUMNS, 1}};
  const moe_ref_tensor_t q2 = {q_flipped, MOE_REF_E4M3, 2, {ROWS, COLUMNS}, {COLUMNS, 1}};
  const moe_ref_tensor_t s1 = {scales, MOE_REF_E8M0, 2, {ROWS, 2}, {2, 1}};
  const moe_ref_tensor_t s2 = {scales_flipped, MOE_REF_E8M0, 2, {ROWS, 2}, {2, 1}};
  assert_int_equal(moe_ref_mx_quantize(&backwards, 1, 32, MOE_REF_RCEIL, &q1, &s1), MOE_REF_OK);
  assert_int_equal(moe_ref_mx_quantize(&forwards, 1, 32, MOE_REF_RCEIL, &q2, &s2), MOE_REF_OK);
  assert_memory_equal(q, q_flipped, sizeof q);
  assert_memory_equal(scales, scales_flipped, sizeof scales);
}

/* Expert weights: (E,N,K) along N with q per-expert column-major is (E,K,N), the transpose, along
 * its last axis. */
static void commutes_with_transposition(void **state) {
  (void)state;
  enum { E = 2, N = 96, K = 80 };
  float *x = malloc(sizeof(float[E * N * K])), *xt = malloc(sizeof(float[E * N * K]));
  uint8_t *q = malloc(E * N * K), *qt = malloc(E * N * K);
  uint8_t scales[E * N / 32 * K], scales_t[E * K * N / 32];
  assert_true(x != NULL && xt != NULL && q != NULL && qt != NULL);
  uint64_t random = 9;
  for (int e = 0; e < E; e++)
    for (int n = 0; n < N; n++)
      for (int k = 0; k < K; k++)
        x[(e * N + n) * K + k] = xt[(e * K + k) * N + n] = random_value(&random, 120, false);

  const moe_ref_tensor_t xs = {x, MOE_REF_F32, 3, {E, N, K}, {N * K, K, 1}};
  const moe_ref_tensor_t qs = {q, MOE_REF_E4M3, 3, {E, N, K}, {N * K, 1, N}};
  const moe_ref_tensor_t ss = {scales, MOE_REF_E8M0, 3, {E, N / 32, K}, {N / 32 * K, K, 1}};
  assert_int_equal(moe_ref_mx_quantize(&xs, 1, 32, MOE_REF_RCEIL, &qs, &ss), MOE_REF_OK);
  const moe_ref_tensor_t xts = {xt, MOE_REF_F32, 3, {E, K, N}, {N * K, N, 1}};
  const moe_ref_tensor_t qts = {qt, MOE_REF_E4M3, 3, {E, K, N}, {N * K, N, 1}};
  const moe_ref_tensor_t sts = {scales_t, MOE_REF_E8M0, 3, {E, K, N / 32}, {N / 32 * K, N / 32, 1}};
  assert_int_equal(moe_ref_mx_quantize(&xts, 2, 32, MOE_REF_RCEIL, &qts, &sts), MOE_REF_OK);

  assert_memory_equal(q, qt, E * N * K);
  for (int e = 0; e < E; e++)
    for (int b = 0; b < N / 32; b++)
      for (int k = 0; k < K; k++)
        assert_int_equal(scales[(e * N / 32 + b) * K + k], scales_t[(e * K + k) * (N / 32) + b]);
  free(x);
  free(xt);
  free(q);
  free(qt);
}

/* ---- Dequantize ---- */

/* Every byte under every scale: one row of 256 elements per scale, in blocks of 32. */
static void dequantizes_every_byte(void **state) {
  (void)state;
  static uint8_t bytes[256 * 256], scale_bytes[256 * 8];
  static float wide[256 * 256];
  static uint16_t narrow[256 * 256];
  for (int i = 0; i < 256 * 256; i++) {
    bytes[i] = (uint8_t)i;
    scale_bytes[i / 32] = (uint8_t)(i / 256);
  }
  const moe_ref_tensor_t scales = {scale_bytes, MOE_REF_E8M0, 2, {256, 8}, {8, 1}};
  for (int e = 0; e < 2; e++) {
    const moe_ref_dtype_t format = e == 0 ? MOE_REF_E4M3 : MOE_REF_E5M2;
    const moe_ref_tensor_t q = {bytes, format, 2, {256, 256}, {256, 1}};
    const moe_ref_tensor_t x32 = {wide, MOE_REF_F32, 2, {256, 256}, {256, 1}};
    const moe_ref_tensor_t x16 = {narrow, MOE_REF_BF16, 2, {256, 256}, {256, 1}};
    assert_int_equal(moe_ref_mx_dequantize(&q, &scales, 1, 32, &x32), MOE_REF_OK);
    assert_int_equal(moe_ref_mx_dequantize(&q, &scales, 1, 32, &x16), MOE_REF_OK);
    for (int i = 0; i < 256 * 256; i++) {
      const double value = ldexp(oracle_fp8_value(format, bytes[i]), i / 256 - 127);
      const float expected = i / 256 == 255 ? NAN : (float)value;
      if (!same_f32(wide[i], expected))
        fail_msg("byte 0x%02X, scale %d: %a, found %a", bytes[i], i / 256, expected, wide[i]);
      if (narrow[i] != oracle_bf16_from_f32(expected))
        fail_msg("byte 0x%02X, scale %d: bf16 of %a is 0x%04X, found 0x%04X", bytes[i], i / 256,
                 expected, oracle_bf16_from_f32(expected), narrow[i]);
    }
  }
}

/* What comes back is within half an ulp of the element, scaled; or it is the largest finite value,
 * where x was larger. */
static void round_trips_within_half_an_ulp(void **state) {
  (void)state;
  enum { E = 2, N = 128, K = 150 };
  static const int64_t shape[] = {E, N, K}, scale_shape[] = {E, N / 32, K};
  static const uint32_t exponents[] = {1, 120, 235};
  for (int kind = 0; kind < 24; kind++) {
    const moe_ref_dtype_t format = kind / 4 % 2 == 0 ? MOE_REF_E4M3 : MOE_REF_E5M2;
    const uint32_t exponent = exponents[kind / 8];
    const moe_ref_mx_mode_t mode = (moe_ref_mx_mode_t)(kind % 4);
    buffer_t x = buffer_make(MOE_REF_F32, 3, shape, 0, 0);
    buffer_t back = buffer_make(MOE_REF_F32, 3, shape, 1, 2);
    buffer_t q = buffer_make(format, 3, shape, 2, 0);
    buffer_t scales = buffer_make(MOE_REF_E8M0, 3, scale_shape, 0, 0);
    fill(&x.tensor, (uint64_t)kind, exponent, true);
    assert_int_equal(moe_ref_mx_quantize(&x.tensor, 1, 32, mode, &q.tensor, &scales.tensor),
                     MOE_REF_OK);
    assert_int_equal(moe_ref_mx_dequantize(&q.tensor, &scales.tensor, 1, 32, &back.tensor),
                     MOE_REF_OK);

    int64_t saturated = 0;
    for (int64_t i = 0; i < E * N * K; i++) {
      int64_t at[MOE_REF_MAX_RANK];
      const double value = get(&x.tensor, offset_of(&x.tensor, i, at));
      const double found = get(&back.tensor, offset_at(&back.tensor, at));
      at[1] /= 32;
      const uint8_t scale = ((const uint8_t *)scales.tensor.data)[offset_at(&scales.tensor, at)];
      const double unscaled = ldexp(value, 127 - scale), back_unscaled = ldexp(found, 127 - scale);
      const double bound = oracle_fp8_half_ulp(format, unscaled);
      if (fabs(unscaled) > oracle_fp8_max(format) + bound) {
        saturated++;
        assert_true(back_unscaled == copysign(oracle_fp8_max(format), unscaled));
      } else if (!(fabs(back_unscaled - unscaled) <= bound)) {
        fail_msg("%a at scale %d came back as %a", value, scale, found);
      }
    }
    /* A scale that is rounded up leaves nothing to saturate; one that is rounded down does, but for
     * the least. */
    if (mode == MOE_REF_RCEIL || mode == MOE_REF_CEIL)
      assert_int_equal(saturated, 0);
    if (mode == MOE_REF_FLOOR && exponent > 1)
      assert_true(saturated > 0);
    buffer_free(&x);
    buffer_free(&back);
    buffer_free(&q);
    buffer_free(&scales);
  }
}

static void dequantizes_every_axis_and_order(void **state) {
  (void)state;
  static const int64_t shape[] = {6, 80, 72}, blocks[] = {3, 40, 36};
  uint64_t random = 77;
  for (int axis = 0; axis < 3; axis++)
    for (int turn = 0; turn < 16; turn++)
      for (int output = 0; output < 2; output++) {
        const int64_t block = blocks[axis];
        int64_t scale_shape[3];
        shape_of_scales(shape, 3, axis, block, scale_shape);
        const moe_ref_dtype_t dtype = output == 0 ? MOE_REF_F32 : MOE_REF_BF16;
        buffer_t q = buffer_make(MOE_REF_E4M3, 3, shape, turn % 4, 1);
        buffer_t scales = buffer_make(MOE_REF_E8M0, 3, scale_shape, (turn + 1) % 4, 1);
        buffer_t found = buffer_make(dtype, 3, shape, turn / 4, 2);
        buffer_t expected = buffer_make(dtype, 3, shape, turn / 4, 2);
        for (size_t i = 0; i < q.size; i++)
          q.bytes[i] = (uint8_t)random_next(&random);
        for (size_t i = 0; i < scales.size; i++)
          scales.bytes[i] = (uint8_t)(100 + random_next(&random) % 50);
        assert_int_equal(
            moe_ref_mx_dequantize(&q.tensor, &scales.tensor, axis, block, &found.tensor),
            MOE_REF_OK);
        for (int64_t i = 0; i < element_count(&q.tensor); i++) {
          int64_t at[MOE_REF_MAX_RANK];
          const float element = get(&q.tensor, offset_of(&q.tensor, i, at));
          const int64_t target = offset_at(&expected.tensor, at);
          at[axis] /= block;
          const uint8_t scale =
              ((const uint8_t *)scales.tensor.data)[offset_at(&scales.tensor, at)];
          set(&expected.tensor, target,
              isnan(element) ? f32_of(0x7FC00000) : ldexpf(element, scale - 127));
        }
        for (int64_t i = 0; i < element_count(&q.tensor); i++) {
          const int64_t at = offset_of(&found.tensor, i, NULL);
          assert_true(same_f32(get(&found.tensor, at), get(&expected.tensor, at)));
          set(&found.tensor, at, 0);
          set(&expected.tensor, at, 0);
        }
        assert_same_bytes(&found, &expected, "around x");
        buffer_free(&q);
        buffer_free(&scales);
        buffer_free(&found);
        buffer_free(&expected);
      }
}

/* ---- Arguments ---- */

static void accepts_empty_tensors(void **state) {
  (void)state;
  const moe_ref_tensor_t x = {NULL, MOE_REF_F32, 2, {0, 64}, {64, 1}};
  const moe_ref_tensor_t q = {NULL, MOE_REF_E4M3, 2, {0, 64}, {64, 1}};
  const moe_ref_tensor_t by_columns = {NULL, MOE_REF_E8M0, 2, {0, 2}, {2, 1}};
  const moe_ref_tensor_t by_rows = {NULL, MOE_REF_E8M0, 2, {0, 64}, {64, 1}};
  assert_int_equal(moe_ref_mx_quantize(&x, 1, 32, MOE_REF_RCEIL, &q, &by_columns), MOE_REF_OK);
  assert_int_equal(moe_ref_mx_quantize(&x, 0, INT64_MAX, MOE_REF_RCEIL, &q, &by_rows), MOE_REF_OK);
  assert_int_equal(moe_ref_mx_dequantize(&q, &by_rows, 0, INT64_MAX, &x), MOE_REF_OK);
}

/* A valid call, and what each case below spoils of it. */
typedef struct {
  moe_ref_tensor_t x, q, scales;
  int axis;
  int64_t block;
  int mode;
} arguments_t;

static void spoil(arguments_t *a, int how) {
  moe_ref_tensor_t *const tensors[] = {&a->x, &a->q, &a->scales};
  switch (how) {
  case 0:
    a->axis = -1;
    break;
  case 1:
    a->axis = 2;
    break;
  case 2:
    a->block = 0;
    break;
  case 3:
    a->block = -32;
    break;
  case 4:
    a->block = 48;
    break;
  case 5:
    a->block = 16;
    break; /* the scales are too few */
  case 6:
    a->axis = 0;
    break;
  case 7:
    a->x.dtype = MOE_REF_E4M3;
    break;
  case 8:
    a->x.dtype = MOE_REF_E8M0;
    break;
  case 9:
    a->q.dtype = MOE_REF_BF16;
    break;
  case 10:
    a->q.dtype = MOE_REF_E8M0;
    break;
  case 11:
    a->scales.dtype = MOE_REF_E4M3;
    break;
  case 12:
    a->q.shape[0]++;
    break;
  case 13:
    a->q.shape[1] += 32;
    break;
  case 14:
    a->scales.shape[0]--;
    break;
  case 15:
    a->scales.shape[1]++;
    break;
  case 16:
    a->x.dtype = (moe_ref_dtype_t)77;
    break;
  case 17:
    a->x.shape[0] = a->q.shape[0] = a->scales.shape[0] = -4;
    break;
  case 18: /* one block of 48 in 64 elements */
    a->block = 48;
    a->scales.shape[1] = 1;
    break;
  case 19: /* an axis past the rank, though all shapes agree */
  case 20:
    a->axis = how == 19 ? 2 : -1;
    a->scales.shape[1] = 64;
    break;
  default: /* 21..29: each tensor without data, of rank 0, of rank 6 */
    if (how % 3 == 0)
      tensors[how / 3 - 7]->data = NULL;
    else
      tensors[how / 3 - 7]->rank = how % 3 == 1 ? 0 : MOE_REF_MAX_RANK + 1;
  }
}

static void rejects_bad_arguments(void **state) {
  (void)state;
  enum { CASES = 30, ROWS = 4, COLUMNS = 64 };
  float x[2 * ROWS * COLUMNS];
  uint8_t q[4 * 2 * ROWS * COLUMNS], scales[2 * ROWS * COLUMNS], canary[sizeof x];
  memset(canary, CANARY, sizeof canary);
  memset(x, CANARY, sizeof x);
  memset(q, CANARY, sizeof q);
  memset(scales, CANARY, sizeof scales);
  const arguments_t valid = {.x = {x, MOE_REF_F32, 2, {ROWS, COLUMNS}, {COLUMNS, 1}},
                             .q = {q, MOE_REF_E4M3, 2, {ROWS, COLUMNS}, {COLUMNS, 1}},
                             .scales = {scales, MOE_REF_E8M0, 2, {ROWS, 2}, {2, 1}},
                             .axis = 1,
                             .block = 32,
                             .mode = MOE_REF_RCEIL};
  for (int how = 0; how <= CASES + 1; how++) {
    arguments_t a = valid;
    if (how < CASES)
      spoil(&a, how);
    else
      a.mode = how == CASES ? -1 : 4;
    if (moe_ref_mx_quantize(&a.x, a.axis, a.block, (moe_ref_mx_mode_t)a.mode, &a.q, &a.scales) !=
        MOE_REF_INVALID_ARGUMENT)
      fail_msg("quantize takes case %d", how);
    if (how < CASES &&
        moe_ref_mx_dequantize(&a.q, &a.scales, a.axis, a.block, &a.x) != MOE_REF_INVALID_ARGUMENT)
      fail_msg("dequantize takes case %d", how);
  }
  for (int missing = 0; missing < 3; missing++) {
    const moe_ref_tensor_t *const px = missing == 0 ? NULL : &valid.x;
    const moe_ref_tensor_t *const pq = missing == 1 ? NULL : &valid.q;
    const moe_ref_tensor_t *const ps = missing == 2 ? NULL : &valid.scales;
    assert_int_equal(moe_ref_mx_quantize(px, 1, 32, MOE_REF_RCEIL, pq, ps),
                     MOE_REF_INVALID_ARGUMENT);
    assert_int_equal(moe_ref_mx_dequantize(pq, ps, 1, 32, px), MOE_REF_INVALID_ARGUMENT);
  }
  assert_memory_equal(x, canary, sizeof x);
  assert_memory_equal(q, canary, sizeof q);
  assert_memory_equal(scales, canary, sizeof scales);
  assert_int_equal(moe_ref_mx_quantize(&valid.x, 1, 32, MOE_REF_RCEIL, &valid.q, &valid.scales),
                   MOE_REF_OK);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(quantizes_every_axis_and_order),
      cmocka_unit_test(quantizes_negative_strides),
      cmocka_unit_test(commutes_with_transposition),
      cmocka_unit_test(dequantizes_every_byte),
      cmocka_unit_test(round_trips_within_half_an_ulp),
      cmocka_unit_test(dequantizes_every_axis_and_order),
      cmocka_unit_test(accepts_empty_tensors),
      cmocka_unit_test(rejects_bad_arguments),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
