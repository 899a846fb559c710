/* DequantizeTest.c - dequantize, and the way there and back.
 *
 * Why it exists: every byte under every scale has one right value, and what quantize loses is
 * bounded.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "test/Reference/Buffers.h"
#include "test/Reference/Oracle.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

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
    tensor_fill(&x.tensor, (uint64_t)kind, exponent, true);
    assert_int_equal(moe_ref_mx_quantize(&x.tensor, 1, 32, mode, &q.tensor, &scales.tensor),
                     MOE_REF_OK);
    assert_int_equal(moe_ref_mx_dequantize(&q.tensor, &scales.tensor, 1, 32, &back.tensor),
                     MOE_REF_OK);

    int64_t saturated = 0;
    for (int64_t i = 0; i < E * N * K; i++) {
      int64_t at[MOE_REF_MAX_RANK];
      const double value = element_get(&x.tensor, offset_of(&x.tensor, i, at));
      const double found = element_get(&back.tensor, offset_at(&back.tensor, at));
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
          const float element = element_get(&q.tensor, offset_of(&q.tensor, i, at));
          const int64_t target = offset_at(&expected.tensor, at);
          at[axis] /= block;
          const uint8_t scale =
              ((const uint8_t *)scales.tensor.data)[offset_at(&scales.tensor, at)];
          element_set(&expected.tensor, target,
                      isnan(element) ? f32_of(0x7FC00000) : ldexpf(element, scale - 127));
        }
        for (int64_t i = 0; i < element_count(&q.tensor); i++) {
          const int64_t at = offset_of(&found.tensor, i, NULL);
          assert_true(same_f32(element_get(&found.tensor, at), element_get(&expected.tensor, at)));
          element_set(&found.tensor, at, 0);
          element_set(&expected.tensor, at, 0);
        }
        assert_same_bytes(&found, &expected, "around x");
        buffer_free(&q);
        buffer_free(&scales);
        buffer_free(&found);
        buffer_free(&expected);
      }
}

/* Tokens in groups of each kind, along which blocks begin anew: by a walk over all tokens. */
static void check_groups(bool aligned) {
  enum { GROUPS = 6, K = 3, ROWS = 1152, MAX_SCALES = ROWS / 32 + GROUPS };
  static const int32_t ends[GROUPS] = {33, 33, 160, 161, 225, 300};
  static uint8_t bytes[ROWS * K], scale_bytes[MAX_SCALES * K];
  static float found[ROWS * K];
  const int64_t rows = aligned ? ROWS : 384, blocks = aligned ? ROWS / 32 : rows / 32 + GROUPS;
  const float untouched = -1.5F;
  for (int i = 0; i < ROWS * K; i++) {
    bytes[i] = (uint8_t)(i * 7 % 126);
    found[i] = untouched;
  }
  for (int i = 0; i < MAX_SCALES * K; i++)
    scale_bytes[i] = (uint8_t)(100 + i % 40);
  int32_t offsets[GROUPS];
  memcpy(offsets, ends, sizeof ends);
  const moe_ref_tensor_t q = {bytes, MOE_REF_E4M3, 2, {rows, K}, {1, rows}},
                         scales = {scale_bytes, MOE_REF_E8M0, 2, {blocks, K}, {K, 1}},
                         offs = {offsets, MOE_REF_I32, 1, {GROUPS}, {1}},
                         x = {found, MOE_REF_F32, 2, {rows, K}, {K, 1}};
  assert_int_equal((aligned ? moe_ref_mx_dequantize_aligned
                            : moe_ref_mx_dequantize_groups)(&q, &scales, &offs, 32, &x),
                   MOE_REF_OK);
  static float expected[ROWS * K];
  for (int i = 0; i < ROWS * K; i++)
    expected[i] = untouched;
  for (int g = 0, start = 0; g < GROUPS; start = ends[g++]) {
    const int size = ends[g] - start, room = aligned ? (size + 127) / 128 * 128 : size;
    for (int i = 0; i < room; i++)
      for (int k = 0; k < K; k++) {
        const int row = aligned ? (start / 128 + g) * 128 + i : start + i;
        const int block = aligned ? row / 32 : start / 32 + g + i / 32;
        const double value = oracle_fp8_value(MOE_REF_E4M3, bytes[k * rows + row]);
        expected[row * K + k] =
            i < size ? (float)ldexp(value, scale_bytes[block * K + k] - 127) : 0.0F;
      }
  }
  for (int i = 0; i < ROWS * K; i++)
    if (!same_f32(found[i], expected[i]))
      fail_msg("row %d, column %d: %a, found %a", i / K, i % K, expected[i], found[i]);
}

static void dequantizes_groups(void **state) {
  (void)state;
  check_groups(false);
}

static void dequantizes_aligned_groups(void **state) {
  (void)state;
  check_groups(true);
}

static void refuses_other_rows_of_scales(void **state) {
  (void)state;
  uint8_t bytes[512] = {0};
  float out[512] = {0};
  int32_t end = 40;
  moe_ref_tensor_t q = {bytes, MOE_REF_E4M3, 2, {256, 1}, {1, 256}},
                   scales = {bytes, MOE_REF_E8M0, 2, {9, 1}, {1, 1}},
                   offs = {&end, MOE_REF_I32, 1, {1}, {1}},
                   x = {out, MOE_REF_F32, 2, {256, 1}, {1, 1}};
  assert_int_equal(moe_ref_mx_dequantize_groups(&q, &scales, &offs, 32, &x), MOE_REF_OK);
  assert_int_equal(moe_ref_mx_dequantize_aligned(&q, &scales, &offs, 32, &x),
                   MOE_REF_INVALID_ARGUMENT);
  scales.shape[0] = 8;
  assert_int_equal(moe_ref_mx_dequantize_groups(&q, &scales, &offs, 32, &x),
                   MOE_REF_INVALID_ARGUMENT);
  assert_int_equal(moe_ref_mx_dequantize_aligned(&q, &scales, &offs, 32, &x), MOE_REF_OK);
  q.shape[0] = x.shape[0] = 128; /* no room for the group */
  scales.shape[0] = 4;
  assert_int_equal(moe_ref_mx_dequantize_aligned(&q, &scales, &offs, 32, &x), MOE_REF_OK);
  q.shape[0] = 64;
  assert_int_equal(moe_ref_mx_dequantize_aligned(&q, &scales, &offs, 32, &x),
                   MOE_REF_INVALID_ARGUMENT);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(dequantizes_every_byte),
      cmocka_unit_test(round_trips_within_half_an_ulp),
      cmocka_unit_test(dequantizes_every_axis_and_order),
      cmocka_unit_test(dequantizes_groups),
      cmocka_unit_test(dequantizes_aligned_groups),
      cmocka_unit_test(refuses_other_rows_of_scales),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
