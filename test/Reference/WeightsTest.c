/* WeightsTest.c - weights of the reference: the layouts "16x64" and "1x16", the formats, and
 * products against sums that are written out here.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "moe/reference.h"

// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
// clang-format on

#include <math.h>
#include <string.h>

enum { N = 32, K = 96, CHUNKS = 2, TOKENS = 3, EXPERTS = 2 };

static moe_ref_tensor_t tensor_of(void *data, moe_ref_dtype_t dtype, int rank,
                                  const int64_t *shape) {
  moe_ref_tensor_t tensor = {.data = data, .dtype = dtype, .rank = rank};
  int64_t stride = 1;
  for (int d = rank - 1; d >= 0; d--) {
    tensor.shape[d] = shape[d];
    tensor.strides[d] = stride;
    stride *= shape[d];
  }
  return tensor;
}

#define TENSOR(data, dtype, ...)                                                                   \
  tensor_of((data), (dtype), (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),            \
            (int64_t[]){__VA_ARGS__})

static uint8_t w[EXPERTS][N][K / 2], packed[EXPERTS][N / 16][CHUNKS][512];
static float scales[EXPERTS][N][K / 32];
static uint16_t x[TOKENS][K];
static float out[TOKENS][N], bias[EXPERTS][N];

static int bits_at(int e, int n, int k) {
  return w[e][n][k / 2] >> (k % 2 * 4) & 15;
}

static int fill(void **state) {
  (void)state;
  uint32_t seed = 1;
  for (size_t i = 0; i < sizeof w; i++) {
    seed = seed * 1664525 + 1013904223;
    ((uint8_t *)w)[i] = (uint8_t)(seed >> 24);
  }
  for (int i = 0; i < EXPERTS * N * (K / 32); i++)
    ((float *)scales)[i] = (float)(i % 7 + 1) * 0.25f;
  for (int i = 0; i < EXPERTS * N; i++)
    ((float *)bias)[i] = (float)(i % 5 + 1) * 0.5f;
  for (int i = 0; i < TOKENS * K; i++)
    ((uint16_t *)x)[i] = moe_ref_bf16_from_f32((float)(i * 5 % 9 - 4));
  memset(packed, 0x77, sizeof packed);
  memset(out, 0x77, sizeof out);
  return 0;
}

/* The picture in docs/numerics.md: lane 5 has rows 1 and 9, columns 2 and 3 of each 8. */
static void test_layout(void **state) {
  (void)state;
  const moe_ref_tensor_t from = TENSOR(w, MOE_REF_U8, EXPERTS, N, K / 2),
                         to = TENSOR(packed, MOE_REF_U8, EXPERTS, N / 16, CHUNKS, 512);
  assert_int_equal(moe_ref_pack_weights(&from, &to, MOE_REF_LAYOUT_16X64), MOE_REF_OK);
  static const int rows[] = {1, 9, 1, 9}, columns[] = {2, 2, 10, 10};
  for (int word = 0; word < 4; word++) {
    const uint8_t *bytes = &packed[1][1][0][5 * 16 + word * 4];
    const uint32_t value =
        bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
    for (int i = 0; i < 8; i++)
      assert_int_equal(value >> (4 * i) & 15,
                       bits_at(1, 16 + rows[i % 4], 16 * word + columns[i % 4] + i / 4));
  }
  /* In the layout of E2M1 the same bits, elsewhere in a word. */
  static const int at[][4] = {{6, 7, 8, 15}, {2, 3, 4, 11}, {28, 29, 30, 5}, {0, 1, 10, 9}};
  memset(packed, 0x77, sizeof packed);
  assert_int_equal(moe_ref_pack_weights(&from, &to, MOE_REF_LAYOUT_16X64_E2M1), MOE_REF_OK);
  for (int word = 0; word < 4; word++)
    for (int i = 0; i < 8; i++) {
      const uint8_t *bytes = &packed[1][1][0][5 * 16 + word * 4];
      int value = 0;
      for (int bit = 0; bit < 4; bit++) {
        const int place = (at[i % 4][bit] + i / 4 * 16) % 32;
        value |= (bytes[place / 8] >> place % 8 & 1) << bit;
      }
      assert_int_equal(value, bits_at(1, 16 + rows[i % 4], 16 * word + columns[i % 4] + i / 4));
    }
  /* Columns from K on: words 2 and 3 of the second tile. */
  for (int lane = 0; lane < 32; lane++)
    for (int i = 8; i < 16; i++)
      assert_int_equal(packed[0][1][1][lane * 16 + i], 0);
}

static void test_formats(void **state) {
  (void)state;
  static const double e2m1[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  for (int bits = 0; bits < 16; bits++) {
    assert_true(moe_ref_weight_value(MOE_REF_WEIGHT_I4, bits) == (bits < 8 ? bits : bits - 16));
    assert_true(moe_ref_weight_value(MOE_REF_WEIGHT_UINT4B8, bits) == bits - 8);
    const double value = moe_ref_weight_value(MOE_REF_WEIGHT_E2M1, bits);
    assert_true(value == (bits < 8 ? e2m1[bits] : -e2m1[bits - 8]));
  }
  assert_int_equal(moe_ref_weight_format_from_name("f4E2M1FN"), MOE_REF_WEIGHT_E2M1);
  assert_int_equal(moe_ref_weight_format_from_name("i8"), -1);
  assert_int_equal(moe_ref_weight_format_from_name(NULL), -1);
}

static double sum_of(int e, int token, int n, moe_ref_weight_format_t format) {
  double sum = 0;
  for (int k = 0; k < K; k++)
    sum += (double)scales[e][n][k / 32] * moe_ref_weight_value(format, bits_at(e, n, k)) *
           moe_ref_f32_from_bf16(x[token][k]);
  return sum;
}

/* Token 0 belongs to expert 0, token 1 to expert 1, token 2 to none. */
static void test_experts(void **state) {
  (void)state;
  int32_t ends[] = {1, 2};
  const moe_ref_tensor_t plain = TENSOR(w, MOE_REF_U8, EXPERTS, N, K / 2),
                         tiles = TENSOR(packed, MOE_REF_U8, EXPERTS, N / 16, CHUNKS, 512),
                         s = TENSOR(scales, MOE_REF_F32, EXPERTS, N, K / 32),
                         tokens = TENSOR(x, MOE_REF_BF16, TOKENS, K),
                         offs = TENSOR(ends, MOE_REF_I32, EXPERTS),
                         result = TENSOR(out, MOE_REF_F32, TOKENS, N),
                         addends = TENSOR(bias, MOE_REF_F32, EXPERTS, N);
  for (int format = MOE_REF_WEIGHT_I4; format <= MOE_REF_WEIGHT_E2M1; format++)
    for (int is_packed = 0; is_packed < 2; is_packed++) {
      assert_int_equal(moe_ref_pack_weights(&plain, &tiles,
                                            format == MOE_REF_WEIGHT_E2M1
                                                ? MOE_REF_LAYOUT_16X64_E2M1
                                                : MOE_REF_LAYOUT_16X64),
                       MOE_REF_OK);
      const moe_ref_mixed_mm_t mm = {.w = is_packed ? &tiles : &plain,
                                     .scales = &s,
                                     .x = &tokens,
                                     .offs = &offs,
                                     .out = &result,
                                     .format = (moe_ref_weight_format_t)format,
                                     .group_size = 32};
      float untouched;
      memset(&untouched, 0x77, sizeof untouched);
      memset(out, 0x77, sizeof out);
      assert_int_equal(moe_ref_mixed_mm(&mm, 0, TOKENS), MOE_REF_OK);
      for (int token = 0; token < TOKENS; token++)
        for (int n = 0; n < N; n++)
          assert_true(out[token][n] ==
                      (token < 2 ? (float)sum_of(token, token, n, mm.format) : untouched));
      moe_ref_score_t score = {0};
      assert_int_equal(moe_ref_mixed_mm_judge(&mm, 0, TOKENS, &score), MOE_REF_OK);
      assert_int_equal(score.elements, 2 * N);
      assert_int_equal(score.failures, 0);
      out[1][7] += 0.01f * fabsf(out[1][7]) + 0.01f;
      score = (moe_ref_score_t){0};
      assert_int_equal(moe_ref_mixed_mm_judge(&mm, 0, TOKENS, &score), MOE_REF_OK);
      assert_int_equal(score.failures, 1);
      assert_int_equal(score.row, 1);
      assert_int_equal(score.column, 7);
      assert_int_equal(moe_ref_mixed_mm_tokens(&mm), 2);
      /* A bias counts once, in the sum and in what is exact. */
      moe_ref_mixed_mm_t biased = mm;
      biased.bias = &addends;
      assert_int_equal(moe_ref_mixed_mm(&biased, 0, TOKENS), MOE_REF_OK);
      for (int token = 0; token < 2; token++)
        for (int n = 0; n < N; n++)
          assert_true(out[token][n] == (float)sum_of(token, token, n, mm.format) + bias[token][n]);
      score = (moe_ref_score_t){0};
      assert_int_equal(moe_ref_mixed_mm_judge(&biased, 0, TOKENS, &score), MOE_REF_OK);
      assert_int_equal(score.failures, 0);
      score = (moe_ref_score_t){0};
      assert_int_equal(moe_ref_mixed_mm_judge(&mm, 0, TOKENS, &score), MOE_REF_OK);
      assert_int_equal(score.failures, 2 * N);
      assert_true(moe_ref_mixed_mm_flops(&mm) == 2.0 * 2 * N * K);
    }
}

/* Sums are multiplied by the scale of their token, and rounded then; so are the bounds. */
static void test_scaled_tokens(void **state) {
  (void)state;
  float of_tokens[TOKENS] = {0x1p-20f, 3, -0x1p100f};
  const moe_ref_tensor_t plain = TENSOR(w[0], MOE_REF_U8, N, K / 2),
                         s = TENSOR(scales[0], MOE_REF_F32, N, K / 32),
                         tokens = TENSOR(x, MOE_REF_BF16, TOKENS, K),
                         scales_x = TENSOR(of_tokens, MOE_REF_F32, TOKENS),
                         result = TENSOR(out, MOE_REF_F32, TOKENS, N);
  moe_ref_mixed_mm_t mm = {.w = &plain,
                           .scales = &s,
                           .x = &tokens,
                           .scales_x = &scales_x,
                           .out = &result,
                           .group_size = 32};
  assert_int_equal(moe_ref_mixed_mm(&mm, 0, TOKENS), MOE_REF_OK);
  for (int token = 0; token < TOKENS; token++)
    for (int n = 0; n < N; n++)
      assert_true(out[token][n] == (float)sum_of(0, token, n, mm.format) * of_tokens[token]);
  moe_ref_score_t score = {0};
  assert_int_equal(moe_ref_mixed_mm_judge(&mm, 0, TOKENS, &score), MOE_REF_OK);
  assert_int_equal(score.failures, 0);
  out[0][7] += 0.01f * fabsf(out[0][7]) + 0x1p-24f;
  score = (moe_ref_score_t){0};
  assert_int_equal(moe_ref_mixed_mm_judge(&mm, 0, TOKENS, &score), MOE_REF_OK);
  assert_int_equal(score.failures, 1);
  const moe_ref_tensor_t fewer = TENSOR(of_tokens, MOE_REF_F32, TOKENS - 1);
  mm.scales_x = &fewer;
  assert_int_equal(moe_ref_mixed_mm(&mm, 0, TOKENS), MOE_REF_INVALID_ARGUMENT);
}

/* Integers times scales of bf16 may be numbers of f16: scales that are 2^-29 of the greatest of
 * their row are exact, those below may lose something. */
static void test_scales_of_rows(void **state) {
  (void)state;
  static uint8_t row[16][K / 2];
  static uint16_t of_groups[16][K / 32], token[1][K];
  static float first[1][16];
  memset(row, 0x11, sizeof row); /* all weights are 1 */
  for (int n = 0; n < 16; n++)
    for (int j = 0; j < K / 32; j++)
      of_groups[n][j] = moe_ref_bf16_from_f32(j ? n < 8 ? 0x1p-27f : 0x1p-26f : 1);
  for (int k = 0; k < K; k++)
    token[0][k] = k < 32 ? 0 : 0x3C00; /* 1 of f16, where scales are small */
  const moe_ref_tensor_t plain = TENSOR(row, MOE_REF_U8, 16, K / 2),
                         s = TENSOR(of_groups, MOE_REF_BF16, 16, K / 32),
                         tokens = TENSOR(token, MOE_REF_F16, 1, K),
                         result = TENSOR(first, MOE_REF_F32, 1, 16);
  const moe_ref_mixed_mm_t mm = {
      .w = &plain, .scales = &s, .x = &tokens, .out = &result, .group_size = 32};
  assert_int_equal(moe_ref_mixed_mm(&mm, 0, 1), MOE_REF_OK);
  for (int n = 0; n < 16; n++)
    first[0][n] *= 1.005f; /* an error of 2^-34.6, and of 2^-33.6 */
  moe_ref_score_t score = {0};
  assert_int_equal(moe_ref_mixed_mm_judge(&mm, 0, 1, &score), MOE_REF_OK);
  assert_int_equal(score.failures, 8);
  assert_int_equal(score.column, 8);
}

static void test_quantize_f16(void **state) {
  (void)state;
  enum { ROWS = 5, COLUMNS = 4 };
  static const float given[ROWS][COLUMNS] = {{1, -3, 0x1p-28f, 0},
                                             {0x1.fep127f, 0x1p99f, 0x1p80f, -1},
                                             {0x1p-133f, 0, 0, 0},
                                             {0, 0, 0, 0},
                                             {INFINITY, 1, 0, 0}};
  static const float expected[ROWS][COLUMNS] = {{0x1p14f, -0x1.8p15f, 0x1p-14f, 0},
                                                {0x1.fep15f, 0x1p-13f, 0, 0},
                                                {0x1p-7f, 0, 0, 0},
                                                {0, 0, 0, 0},
                                                {INFINITY, 0, 0, 0}};
  static const float of_rows[ROWS] = {0x1p-14f, 0x1p112f, 0x1p-126f, 0x1p-126f, 0x1p112f};
  uint16_t from[ROWS][COLUMNS], q[ROWS][COLUMNS];
  float found[ROWS];
  for (int m = 0; m < ROWS; m++)
    for (int k = 0; k < COLUMNS; k++)
      from[m][k] = moe_ref_bf16_from_f32(given[m][k]);
  const moe_ref_tensor_t rows = TENSOR(from, MOE_REF_BF16, ROWS, COLUMNS),
                         halves = TENSOR(q, MOE_REF_F16, ROWS, COLUMNS),
                         exponents = TENSOR(found, MOE_REF_F32, ROWS),
                         fewer = TENSOR(found, MOE_REF_F32, ROWS - 1);
  assert_int_equal(moe_ref_quantize_f16(&rows, &halves, &exponents), MOE_REF_OK);
  for (int m = 0; m < ROWS; m++) {
    assert_true(found[m] == of_rows[m]);
    for (int k = 0; k < COLUMNS; k++)
      assert_true(moe_ref_f32_from_f16(q[m][k]) == expected[m][k]);
  }
  assert_int_equal(moe_ref_quantize_f16(&rows, &halves, &fewer), MOE_REF_INVALID_ARGUMENT);
  assert_int_equal(moe_ref_quantize_f16(&halves, &rows, &exponents), MOE_REF_INVALID_ARGUMENT);
}

static void test_dequantize_f16(void **state) {
  (void)state;
  enum { ROWS = 4, COLUMNS = 96, BLOCKS = COLUMNS / 32 };
  static const uint8_t scales[ROWS][BLOCKS] = {
      {127, 105, 96}, {254, 255, 240}, {0, 1, 0}, {255, 255, 255}};
  /* 448, the least number, and NaN at the begin of each block; zeros behind them. */
  static const float expected[ROWS][BLOCKS][2] = {
      {{57344, 0x1p-2f}, {0x1.cp-7f, 0x1p-24f}, {0x1.cp-16f, 0}},
      {{57344, 0x1p-2f}, {NAN, NAN}, {0x1.cp1f, 0x1p-16f}},
      {{0x1.cp7f, 0x1p-10f}, {0x1.cp8f, 0x1p-9f}, {0x1.cp7f, 0x1p-10f}},
      {{NAN, NAN}, {NAN, NAN}, {NAN, NAN}}};
  static const float of_rows[ROWS] = {0x1p-7f, 0x1p120f, 0x1p-126f, 0x1p-126f};
  uint8_t q[ROWS][COLUMNS] = {{0}};
  uint16_t x[ROWS][COLUMNS];
  float found[ROWS];
  for (int m = 0; m < ROWS; m++)
    for (int j = 0; j < BLOCKS; j++) {
      q[m][32 * j] = 0x7E;
      q[m][32 * j + 1] = 0x01;
      q[m][32 * j + 2] = 0xFF;
    }
  const moe_ref_tensor_t blocks = TENSOR(q, MOE_REF_E4M3, ROWS, COLUMNS),
                         bytes = TENSOR((void *)scales, MOE_REF_E8M0, ROWS, BLOCKS),
                         fewer = TENSOR((void *)scales, MOE_REF_E8M0, ROWS, BLOCKS - 1),
                         halves = TENSOR(x, MOE_REF_F16, ROWS, COLUMNS),
                         exponents = TENSOR(found, MOE_REF_F32, ROWS);
  assert_int_equal(moe_ref_dequantize_f16(&blocks, &bytes, &halves, &exponents), MOE_REF_OK);
  for (int m = 0; m < ROWS; m++) {
    assert_true(found[m] == of_rows[m]);
    for (int j = 0; j < BLOCKS; j++) {
      for (int i = 0; i < 2; i++) {
        const float number = moe_ref_f32_from_f16(x[m][32 * j + i]), right = expected[m][j][i];
        assert_true(number == right || (isnan(number) && isnan(right)));
      }
      assert_true(isnan(moe_ref_f32_from_f16(x[m][32 * j + 2])));
      assert_true(isnan(expected[m][j][0]) || x[m][32 * j + 3] == 0);
    }
  }
  assert_int_equal(moe_ref_dequantize_f16(&blocks, &fewer, &halves, &exponents),
                   MOE_REF_INVALID_ARGUMENT);
  assert_int_equal(moe_ref_dequantize_f16(&halves, &bytes, &halves, &exponents),
                   MOE_REF_INVALID_ARGUMENT);
}

enum { FOUND = 6 };

/* Judges each number as all results of the first token, and compares whether it is right. */
static void judge_first(const moe_ref_mixed_mm_t *mm, const float found[FOUND],
                        const bool right[FOUND]) {
  for (int i = 0; i < FOUND; i++) {
    moe_ref_score_t score = {0};
    for (int n = 0; n < 16; n++)
      ((float *)mm->out->data)[n] = found[i];
    assert_int_equal(moe_ref_mixed_mm_judge(mm, 0, 1, &score), MOE_REF_OK);
    assert_int_equal(score.failures, right[i] ? 0 : 16);
  }
}

/* Where the order of a sum decides whether it leaves fp32's range, Inf and NaN are right; a number
 * only where it is near the exact one, and neither where no order leaves the range. */
static void test_range(void **state) {
  (void)state;
  static uint8_t row[16][K / 2];
  static float ones[16][K / 32], first[TOKENS][16];
  static uint16_t tokens_data[TOKENS][K];
  memset(row, 0x11, sizeof row);
  for (int i = 0; i < 16 * (K / 32); i++)
    ((float *)ones)[i] = 1;
  const moe_ref_tensor_t plain = TENSOR(row, MOE_REF_U8, 16, K / 2),
                         s = TENSOR(ones, MOE_REF_F32, 16, K / 32),
                         tokens = TENSOR(tokens_data, MOE_REF_BF16, TOKENS, K),
                         result = TENSOR(first, MOE_REF_F32, TOKENS, 16);
  const moe_ref_mixed_mm_t mm = {
      .w = &plain, .scales = &s, .x = &tokens, .out = &result, .group_size = 32};
  const float greatest = 3e38f;
  /* Two that cancel, and one that stays. */
  tokens_data[0][0] = tokens_data[0][2] = moe_ref_bf16_from_f32(greatest);
  tokens_data[0][1] = moe_ref_bf16_from_f32(-greatest);
  const float kept = moe_ref_f32_from_bf16(tokens_data[0][0]);
  const float found[FOUND] = {kept, INFINITY, -INFINITY, NAN, 0.5f * kept, 0};
  judge_first(&mm, found, (bool[]){true, true, true, true, false, false});
  /* One alone is in the range. */
  tokens_data[0][1] = tokens_data[0][2] = 0;
  judge_first(&mm, found, (bool[]){true, false, false, false, false, false});
  /* A NaN stays one. */
  tokens_data[0][1] = moe_ref_bf16_from_f32(-greatest);
  tokens_data[0][2] = 0x7FC0;
  judge_first(&mm, found, (bool[]){false, false, false, true, false, false});
  /* So does one beside a scale that is Inf. */
  for (int n = 0; n < 16; n++)
    ones[n][0] = INFINITY;
  judge_first(&mm, found, (bool[]){false, false, false, true, false, false});
  /* Inf times products that cancel: whether they do depends on what sums of them lose. */
  tokens_data[0][2] = 0;
  judge_first(&mm, found, (bool[]){false, true, true, true, false, false});
  /* Inf times zeros. */
  tokens_data[0][0] = tokens_data[0][1] = 0;
  judge_first(&mm, found, (bool[]){false, false, false, true, false, false});
}

/* FP8 weights, in both orders: a token picks the weights of one column. Scales end at 2^37, and a
 * NaN is seen. */
static void test_fp8(void **state) {
  (void)state;
  static const int order[16] = {0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15};
  static uint8_t plain[16][32], ordered[16][32], powers[16];
  static float picked[1][16];
  for (int n = 0; n < 16; n++) {
    powers[n] = (uint8_t)(127 + n % 3);
    for (int k = 0; k < 32; k++)
      plain[n][k] = (uint8_t)((32 * n + k) * 37 % 256 & 0xFE);
    for (int k = 0; k < 32; k++)
      ordered[n][k] = plain[n][k - k % 16 + order[k % 16]];
  }
  powers[14] = 127 + 37;
  powers[15] = 127 + 38;
  plain[13][5] = ordered[13][10] = 0xFF;
  const moe_ref_tensor_t in_order = TENSOR(ordered, MOE_REF_E4M3, 16, 32),
                         as_they_are = TENSOR(plain, MOE_REF_E4M3, 16, 32),
                         s = TENSOR(powers, MOE_REF_E8M0, 16, 1),
                         token = TENSOR(x, MOE_REF_BF16, 1, 32),
                         result = TENSOR(picked, MOE_REF_F32, 1, 16);
  for (int is_1x16 = 0; is_1x16 < 2; is_1x16++)
    for (int k = 0; k < 32; k++) {
      for (int i = 0; i < 32; i++)
        x[0][i] = moe_ref_bf16_from_f32(i == k ? 1 : 0);
      const moe_ref_mixed_mm_t mm = {.w = is_1x16 ? &in_order : &as_they_are,
                                     .scales = &s,
                                     .x = &token,
                                     .out = &result,
                                     .format = MOE_REF_WEIGHT_E4M3,
                                     .group_size = 32,
                                     .is_1x16 = is_1x16};
      assert_int_equal(moe_ref_mixed_mm(&mm, 0, 1), MOE_REF_OK);
      for (int n = 0; n < 16; n++) {
        const double weight = moe_ref_weight_value(MOE_REF_WEIGHT_E4M3, plain[n][k]);
        if (n == 13 || n == 15)
          assert_true(isnan(picked[0][n]));
        else
          assert_true(picked[0][n] == weight * ldexp(1, powers[n] - 127));
      }
    }
  assert_true(moe_ref_weight_value(MOE_REF_WEIGHT_E4M3, 0x7E) == 448);
  assert_true(moe_ref_weight_value(MOE_REF_WEIGHT_E4M3, 0x81) == -0x1p-9);
}

/* What does not belong together is refused: one thing at a time. */
static void test_refused(void **state) {
  (void)state;
  const moe_ref_tensor_t plain = TENSOR(w[0], MOE_REF_U8, N, K / 2),
                         s = TENSOR(scales[0], MOE_REF_F32, N, K / 32),
                         tokens = TENSOR(x, MOE_REF_BF16, TOKENS, K),
                         result = TENSOR(out, MOE_REF_F32, TOKENS, N);
  const moe_ref_mixed_mm_t right = {
      .w = &plain, .scales = &s, .x = &tokens, .out = &result, .group_size = 32};
  assert_int_equal(moe_ref_mixed_mm(&right, 0, TOKENS), MOE_REF_OK);
  moe_ref_mixed_mm_t mm = right;
  mm.group_size = 64;
  assert_int_equal(moe_ref_mixed_mm(&mm, 0, TOKENS), MOE_REF_INVALID_ARGUMENT);
  mm = right;
  mm.group_size = -1; /* the scales are those of groups */
  assert_int_equal(moe_ref_mixed_mm(&mm, 0, TOKENS), MOE_REF_INVALID_ARGUMENT);
  moe_ref_tensor_t other = plain;
  other.shape[0] = N - 16;
  mm = right;
  mm.w = &other;
  assert_int_equal(moe_ref_mixed_mm(&mm, 0, TOKENS), MOE_REF_INVALID_ARGUMENT);
  other = tokens;
  other.dtype = MOE_REF_F32;
  mm = right;
  mm.x = &other;
  assert_int_equal(moe_ref_mixed_mm(&mm, 0, TOKENS), MOE_REF_INVALID_ARGUMENT);
  assert_int_equal(moe_ref_mixed_mm(&right, 0, TOKENS + 1), MOE_REF_INVALID_ARGUMENT);
  const moe_ref_tensor_t addends = TENSOR(bias, MOE_REF_F32, 1, N);
  mm = right;
  mm.bias = &addends;
  assert_int_equal(moe_ref_mixed_mm(&mm, 0, TOKENS), MOE_REF_INVALID_ARGUMENT);
  const moe_ref_tensor_t tiles = TENSOR(packed, MOE_REF_U8, N / 16, 1, 512);
  assert_int_equal(moe_ref_pack_weights(&plain, &tiles, MOE_REF_LAYOUT_16X64),
                   MOE_REF_INVALID_ARGUMENT);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(test_layout, fill),
      cmocka_unit_test_setup(test_formats, fill),
      cmocka_unit_test_setup(test_experts, fill),
      cmocka_unit_test_setup(test_range, fill),
      cmocka_unit_test_setup(test_fp8, fill),
      cmocka_unit_test_setup(test_refused, fill),
      cmocka_unit_test_setup(test_scaled_tokens, fill),
      cmocka_unit_test(test_scales_of_rows),
      cmocka_unit_test(test_quantize_f16),
      cmocka_unit_test(test_dequantize_f16),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
