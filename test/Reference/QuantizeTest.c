/* QuantizeTest.c - quantize over shapes, axes, orders and modes.
 *
 * Why it exists: the library walks tensors in tiles. Here a block is found by index arithmetic
 * alone, and whole buffers are compared, so that a byte written beside the tensor is found too.
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
      const float magnitude = fabsf(element_get(x, offset_at(x, at)));
      if (!isnan(amax) && !(magnitude <= amax))
        amax = magnitude;
    }
    at[axis] -= block;
    const uint8_t scale = moe_ref_mx_scale(amax, mode, q->dtype);
    ((uint8_t *)scales->data)[scale_offset] = scale;
    for (int64_t i = 0; i < block; i++, at[axis]++) {
      const float scaled = element_get(x, offset_at(x, at)) * moe_ref_mx_reciprocal(scale);
      ((uint8_t *)q->data)[offset_at(q, at)] = fp8_from_f32(q->dtype, scaled);
    }
  }
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
  tensor_fill(&x.tensor, seed, 1 + (uint32_t)(seed * 37 % 254), false);

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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(quantizes_every_axis_and_order),
      cmocka_unit_test(quantizes_negative_strides),
      cmocka_unit_test(commutes_with_transposition),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
