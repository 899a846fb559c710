/* JudgeTest.c - which results of a product pass, and which do not.
 *
 * Why it exists: a bound that a right kernel exceeds is as useless as one that a wrong kernel
 * keeps.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "test/Reference/GemmOracle.h"
#include "test/Reference/Oracle.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const int32_t ragged[] = {0, 1, 16, 47, 47, 180, 309};
enum { GROUPS = sizeof ragged / sizeof *ragged, TOKENS = 320, N = 24, K = 171 };

static const char *const way_names[BLOCK_WAYS] = {
    [EXACT] = "exact",
    [TENSOR_CORE_FAST] = "fast",
    [TENSOR_CORE_PROMOTED] = "promoted",
    [SCALES_IGNORED] = "scales ignored",
    [SCALE_A_IGNORED] = "sa ignored",
    [SCALE_B_IGNORED] = "sb ignored",
    [BIAS_IGNORED] = "bias ignored",
    [BIAS_SCALED] = "bias scaled",
    [EXPERTS_SWAPPED] = "experts swapped",
    [TAIL_DROPPED] = "tail dropped",
    [LAST_GROUP_SKIPPED] = "last group skipped",
    [ROWS_OFF_BY_ONE] = "rows off by one",
    [ALL_ZEROS] = "all zeros",
    [FIRST_BLOCK_OF_K] = "scales of the first block of K",
    [FIRST_BLOCK_OF_N] = "scales of the first block of N",
};

static gemm_spec_t spec_of(int which, moe_ref_dtype_t out) {
  gemm_spec_t spec = {.which = (gemm_case_t)which,
                      .e = GROUPS,
                      .m = TOKENS,
                      .n = N,
                      .k = K,
                      .a = MOE_REF_E4M3,
                      .b = which == BATCHED_CASE ? MOE_REF_E5M2 : MOE_REF_E4M3,
                      .out = out,
                      .offs = ragged,
                      .turn = which,
                      .seed = (uint64_t)(which + 1)};
  if (which == BATCHED_CASE) {
    spec.e = 3;
    spec.m = 70;
    spec.offs = NULL;
  }
  return spec;
}

/* In two parts, as threads would. */
static moe_ref_score_t judge(const gemm_t *gemm, moe_ref_accumulation_t accumulation) {
  moe_ref_score_t total = {0}, part = {0};
  const int64_t rows = moe_ref_scaled_mm_rows(&gemm->mm);
  assert_int_equal(moe_ref_scaled_mm_judge(&gemm->mm, accumulation, 0, rows / 3, &total),
                   MOE_REF_OK);
  assert_int_equal(moe_ref_scaled_mm_judge(&gemm->mm, accumulation, rows / 3, rows, &part),
                   MOE_REF_OK);
  moe_ref_score_add(&total, &part);
  return total;
}

static void tells_right_from_wrong(void **state) {
  (void)state;
  static const moe_ref_dtype_t outs[] = {MOE_REF_BF16, MOE_REF_F32, MOE_REF_F16};
  for (int which = ROWS_CASE; which <= BATCHED_CASE; which++)
    for (int out = 0; out < 3; out++)
      for (int way = 0; way < WAYS && (which == ROWS_CASE || which == out); way++) {
        gemm_spec_t spec = spec_of(which, outs[out]);
        spec.biased = way == BIAS_IGNORED || way == BIAS_SCALED || (way % 2 == 0 && out == 1);
        if (spec.biased && which == DEPTH_CASE)
          continue;
        gemm_t gemm;
        gemm_make(&gemm, &spec, false);
        oracle_gemm(&gemm, (gemm_way_t)way);
        const moe_ref_accumulation_t accumulation =
            way == TENSOR_CORE_PROMOTED ? MOE_REF_PROMOTED : MOE_REF_FAST;
        const moe_ref_score_t score = judge(&gemm, accumulation);
        assert_int_equal(score.elements, which == ROWS_CASE    ? 309 * N
                                         : which == DEPTH_CASE ? GROUPS * N * K
                                                               : 3 * 70 * N);
        const bool right = way <= TENSOR_CORE_PROMOTED;
        if ((score.failures == 0) != right || (score.worst <= 1) != right)
          fail_msg("%s, case %d, out %d: %lld failures, worst %g", way_names[way], which, out,
                   (long long)score.failures, score.worst);
        /* What is left to 8 bits of mantissa is 55 dB. */
        const double sqnr = moe_ref_score_sqnr(&score);
        const double least = !right ? -1000 : outs[out] == MOE_REF_BF16 ? 54 : 60;
        if (sqnr < least || (!right && sqnr > 45))
          fail_msg("%s, case %d, out %d: %g dB", way_names[way], which, out, sqnr);
        gemm_free(&gemm);
      }
}

/* The same with scales of blocks, whose sums are always promoted. */
static void tells_right_from_wrong_blocks(void **state) {
  (void)state;
  static const moe_ref_dtype_t outs[] = {MOE_REF_BF16, MOE_REF_F32, MOE_REF_F16};
  for (int turn = 0; turn < 3 * BLOCK_WAYS; turn++) {
    const int way = turn / 3, kind = turn % 3; /* fp32 or MX, or fp32 blocks of tokens */
    const bool depth = kind == 2;
    gemm_spec_t spec = spec_of(depth     ? DEPTH_CASE
                               : way % 2 ? BATCHED_CASE
                                         : ROWS_CASE,
                               outs[way % 3]);
    if (way == TENSOR_CORE_FAST || way == BIAS_SCALED) /* of one scale */
      continue;
    if (depth && (way == BIAS_IGNORED || way == FIRST_BLOCK_OF_N)) /* it has neither */
      continue;
    spec.in_blocks = true;
    spec.in_mx = kind == 1;
    if (spec.in_mx && way == TAIL_DROPPED) /* there is none */
      continue;
    spec.k = spec.in_mx ? 288 : spec.k;
    spec.n = 132;
    spec.biased = way == BIAS_IGNORED;
    gemm_t gemm;
    gemm_make(&gemm, &spec, false);
    oracle_gemm(&gemm, (gemm_way_t)way);
    const moe_ref_score_t score = judge(&gemm, MOE_REF_PROMOTED);
    const bool right = way == EXACT || way == TENSOR_CORE_PROMOTED;
    if ((score.failures == 0) != right || (score.worst <= 1) != right)
      fail_msg("%s: %lld failures, worst %g", way_names[way], (long long)score.failures,
               score.worst);
    gemm_free(&gemm);
  }
}

/* The formula of the header for scales of blocks. */
static void gives_bounds_of_blocks(void **state) {
  (void)state;
  gemm_spec_t spec = spec_of(BATCHED_CASE, MOE_REF_F32);
  spec.in_blocks = true;
  spec.n = 150;
  spec.k = 300;
  gemm_t gemm;
  gemm_make(&gemm, &spec, false);
  enum { ROWS = 70, COLUMNS = 150, PIECES = 3 };
  static double exact[ROWS * COLUMNS], bound[ROWS * COLUMNS];
  assert_int_equal(
      moe_ref_scaled_mm_exact(&gemm.mm, MOE_REF_PROMOTED, ROWS, 2 * ROWS, exact, bound),
      MOE_REF_OK);
  for (int64_t i = 0; i < ROWS; i++)
    for (int64_t j = 0; j < COLUMNS; j++) {
      double r = 0, all = 0, squares = 0, unscaled = 0;
      for (int64_t block = 0; block < PIECES; block++) {
        double sum, magnitude, scale;
        oracle_block_sums(&gemm, 1, i, j, block, &sum, &magnitude, &scale);
        r += scale * sum;
        all += scale * magnitude;
        squares += scale * magnitude * scale * magnitude;
        unscaled += magnitude;
      }
      const double d = 0x1p-10 * sqrt(squares) + (PIECES + 1) * 0x1p-24 * all;
      const double expected =
          d + (fabs(r) + d) * (0x1p-24 + 0x1p-22) + 0x1p-150 + 0x1p-149 * (PIECES + unscaled);
      assert_true(fabs(exact[i * COLUMNS + j] - r) <= 0x1p-48 * all);
      assert_true(fabs(bound[i * COLUMNS + j] / expected - 1) < 1e-12);
    }
  gemm_free(&gemm);
}

/* The difference between fast and promoted is what promotion is for. */
static void promoted_is_stricter(void **state) {
  (void)state;
  gemm_spec_t spec = spec_of(ROWS_CASE, MOE_REF_F32);
  spec.k = 5000;
  spec.n = 5;
  gemm_t gemm;
  gemm_make(&gemm, &spec, false);
  oracle_gemm(&gemm, TENSOR_CORE_PROMOTED);
  const moe_ref_score_t promoted = judge(&gemm, MOE_REF_PROMOTED);
  assert_int_equal(promoted.failures, 0);
  assert_true(moe_ref_score_sqnr(&promoted) > 70);
  oracle_gemm(&gemm, TENSOR_CORE_FAST);
  const moe_ref_score_t fast = judge(&gemm, MOE_REF_FAST);
  assert_int_equal(fast.failures, 0);
  assert_true(moe_ref_score_sqnr(&fast) < 60);
  assert_true(judge(&gemm, MOE_REF_PROMOTED).failures > 0);
  gemm_free(&gemm);
}

/* The formula of the header, from sums in integers. */
static void gives_exact_results_and_bounds(void **state) {
  (void)state;
  static const moe_ref_dtype_t outs[] = {MOE_REF_BF16, MOE_REF_F32, MOE_REF_F16};
  static const double roundoff[] = {0x1p-8, 0x1p-24, 0x1p-11};
  static const double subnormal[] = {0x1p-134, 0x1p-150, 0x1p-25};
  for (int turn = 0; turn < 6; turn++) {
    const int t = turn % 3;
    gemm_spec_t spec = spec_of(ROWS_CASE, outs[t]);
    spec.biased = turn >= 3;
    gemm_t gemm;
    gemm_make(&gemm, &spec, false);
    enum { BEGIN = 100, ROWS = 220 };
    static double exact[2][ROWS * N], bound[2][ROWS * N];
    for (int i = 0; i < 2 * ROWS * N; i++)
      exact[i / (ROWS * N)][i % (ROWS * N)] = bound[i / (ROWS * N)][i % (ROWS * N)] = -7;
    for (int a = 0; a < 2; a++)
      assert_int_equal(moe_ref_scaled_mm_exact(&gemm.mm, (moe_ref_accumulation_t)a, BEGIN, TOKENS,
                                               exact[a], bound[a]),
                       MOE_REF_OK);
    for (int64_t i = 0; i < ROWS; i++)
      for (int64_t j = 0; j < N; j++) {
        const int64_t row = BEGIN + i, at = i * N + j;
        if (row >= ragged[GROUPS - 1]) {
          assert_true(exact[0][at] == -7 && bound[1][at] == -7);
          continue;
        }
        const int64_t group = row < ragged[5] ? 5 : 6;
        double sum, magnitude;
        oracle_sums(&gemm, group, row - ragged[group - 1], j, &sum, &magnitude);
        const double sa = element_get(&gemm.sa.tensor, offset_at(&gemm.sa.tensor, &row));
        const double sb =
            element_get(&gemm.sb.tensor, offset_at(&gemm.sb.tensor, (int64_t[]){group, j}));
        const double bias = spec.biased
                                ? element_get(&gemm.bias.tensor,
                                              offset_at(&gemm.bias.tensor, (int64_t[]){group, j}))
                                : 0;
        const double d = sb * sa * magnitude * 0x1p-10, r = sb * sa * sum + bias;
        const double expected = d + (fabs(r) + d) * (roundoff[t] + 0x1p-22) + subnormal[t] +
                                0x1p-149 * (1 + sb) +
                                (spec.biased ? 0x1p-22 * fabs(sb * sa * sum) : 0);
        assert_true(fabs(exact[0][at] - r) <= 0x1p-48 * (fabs(sum) + fabs(bias)));
        assert_true(exact[1][at] == exact[0][at]);
        assert_true(fabs(bound[0][at] / expected - 1) < 1e-12);
        assert_true(bound[1][at] < bound[0][at]);
        /* Two pieces: between equal ones and a single one. */
        assert_true(bound[1][at] > 0.7 * d);
      }
    gemm_free(&gemm);
  }
}

static float *element_at(gemm_t *gemm, int64_t row, int64_t column) {
  return (float *)gemm->out.tensor.data + offset_at(&gemm->out.tensor, (int64_t[]){row, column});
}

static void finds_the_worst(void **state) {
  (void)state;
  const gemm_spec_t spec = spec_of(ROWS_CASE, MOE_REF_F32);
  gemm_t gemm;
  gemm_make(&gemm, &spec, false);
  oracle_gemm(&gemm, EXACT);
  double exact[N], bound[N];
  assert_int_equal(moe_ref_scaled_mm_exact(&gemm.mm, MOE_REF_FAST, 200, 201, exact, bound),
                   MOE_REF_OK);
  *element_at(&gemm, 200, 3) = (float)(exact[3] + 2 * bound[3]);
  *element_at(&gemm, 200, 4) = (float)(exact[4] - 5 * bound[4]);
  *element_at(&gemm, 200, 5) = (float)(exact[5] + 0.9 * bound[5]);
  moe_ref_score_t score = judge(&gemm, MOE_REF_FAST);
  assert_int_equal(score.failures, 2);
  assert_int_equal(score.row, 200);
  assert_int_equal(score.column, 4);
  assert_true(fabs(score.worst - 5) < 1e-4);
  assert_true(score.exact == exact[4] && score.bound == bound[4]);
  assert_true(score.noise > 4 * bound[3] * bound[3] && score.signal > 0);

  /* Rows of no group are nobody's. */
  *element_at(&gemm, 315, 0) = NAN;
  assert_int_equal(judge(&gemm, MOE_REF_FAST).failures, 2);
  *element_at(&gemm, 17, N - 1) = NAN;
  score = judge(&gemm, MOE_REF_FAST);
  assert_int_equal(score.failures, 3);
  assert_true(score.worst == INFINITY && score.row == 17 && score.column == N - 1);
  *element_at(&gemm, 17, N - 1) = INFINITY;
  assert_int_equal(judge(&gemm, MOE_REF_FAST).failures, 3);

  /* NaN where NaN belongs, and nothing else there. */
  oracle_gemm(&gemm, EXACT);
  element_set(&gemm.sa.tensor, offset_at(&gemm.sa.tensor, (int64_t[]){17}), NAN);
  assert_int_equal(judge(&gemm, MOE_REF_FAST).failures, N);
  for (int64_t j = 0; j < N; j++)
    *element_at(&gemm, 17, j) = NAN;
  assert_int_equal(judge(&gemm, MOE_REF_FAST).failures, 0);
  gemm_free(&gemm);
}

/* Inf is right where the result is too large for its type, and only with the right sign. */
static void takes_overflow(void **state) {
  (void)state;
  uint8_t a = 0x78, b = 0x78; /* 256 */
  float sa = 1, sb = 1;
  uint16_t out = 0;
  const moe_ref_tensor_t va = {&a, MOE_REF_E4M3, 3, {1, 1, 1}, {1, 1, 1}};
  const moe_ref_tensor_t vb = {&b, MOE_REF_E4M3, 3, {1, 1, 1}, {1, 1, 1}};
  const moe_ref_tensor_t vsa = {&sa, MOE_REF_F32, 2, {1, 1}, {1, 1}};
  const moe_ref_tensor_t vsb = {&sb, MOE_REF_F32, 2, {1, 1}, {1, 1}};
  const moe_ref_tensor_t vout = {&out, MOE_REF_F16, 3, {1, 1, 1}, {1, 1, 1}};
  const moe_ref_scaled_mm_t mm = {&va, &vb, &vsa, &vsb, NULL, &vout, NULL, false, false};
  static const struct {
    float scale;
    uint16_t out;
    bool passes;
  } cases[] = {
      {1, 0x7C00, true},        {1, 0xFC00, false},        {1, 0x7BFF, true},    {4, 0x7C00, true},
      {4, 0x7BFF, false},       {0.5f, 0x7C00, false},     {0.5f, 0x7800, true}, {-4, 0xFC00, true},
      {INFINITY, 0x7C00, true}, {INFINITY, 0x7BFF, false}, {NAN, 0x7E00, true},  {NAN, 0, false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    moe_ref_score_t score = {0};
    sa = cases[i].scale;
    out = cases[i].out;
    assert_int_equal(moe_ref_scaled_mm_judge(&mm, MOE_REF_FAST, 0, 1, &score), MOE_REF_OK);
    if ((score.failures == 0) != cases[i].passes)
      fail_msg("case %zu: worst %g", i, score.worst);
  }
}

/* Of 16-bit operands the order of the sum may decide whether it leaves fp32's range: Inf is right
 * where the terms of its sign do, NaN where both do, and what is a number must be near. Where an
 * operand is no number that is not so. */
static void takes_overflow_of_partial_sums(void **state) {
  (void)state;
  enum { TOP = 0x7F00, TOP_BELOW_0 = 0xFF00, INFINITE = 0x7F80 }; /* bf16: 2^127, -2^127, Inf */
  uint16_t a[4], b[4] = {0x3F80, 0x3F80, 0x3F80, 0x3F80};
  float out;
  const moe_ref_tensor_t va = {a, MOE_REF_BF16, 3, {1, 1, 4}, {4, 4, 1}};
  const moe_ref_tensor_t vb = {b, MOE_REF_BF16, 3, {1, 4, 1}, {4, 1, 1}};
  const moe_ref_tensor_t vout = {&out, MOE_REF_F32, 3, {1, 1, 1}, {1, 1, 1}};
  const moe_ref_scaled_mm_t mm = {&va, &vb, NULL, NULL, NULL, &vout, NULL, false, false};
  static const struct {
    uint16_t a[4];
    float out;
    bool passes;
  } cases[] = {
      {{TOP, TOP, TOP_BELOW_0, TOP_BELOW_0}, 0, true},
      {{TOP, TOP, TOP_BELOW_0, TOP_BELOW_0}, INFINITY, true},
      {{TOP, TOP, TOP_BELOW_0, TOP_BELOW_0}, -INFINITY, true},
      {{TOP, TOP, TOP_BELOW_0, TOP_BELOW_0}, NAN, true},
      {{TOP, TOP, TOP_BELOW_0, TOP_BELOW_0}, 0x1p126F, false},
      {{TOP, TOP, TOP, TOP}, INFINITY, true},
      {{TOP, TOP, TOP, TOP}, 0, false},
      {{TOP, TOP, TOP, TOP}, -INFINITY, false},
      {{TOP, TOP, TOP, TOP}, NAN, false},
      {{TOP, TOP, TOP, TOP_BELOW_0}, INFINITY, true},
      {{TOP, TOP, TOP, TOP_BELOW_0}, -INFINITY, false},
      {{TOP, 0, 0, 0}, INFINITY, false},
      {{TOP, INFINITE, TOP, TOP}, INFINITY, true},
      {{TOP, INFINITE, TOP, TOP}, NAN, false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    moe_ref_score_t score = {0};
    memcpy(a, cases[i].a, sizeof a);
    out = cases[i].out;
    assert_int_equal(moe_ref_scaled_mm_judge(&mm, MOE_REF_FAST, 0, 1, &score), MOE_REF_OK);
    if ((score.failures == 0) != cases[i].passes)
      fail_msg("case %zu: worst %g", i, score.worst);
  }
}

/* Where an operand is subnormal, what is cut off its product goes by the least normal exponent;
 * where it is 0 nothing is cut. */
static void counts_subnormal_operands(void **state) {
  (void)state;
  uint16_t a[2], b[2] = {0x5800, 0x3C00}; /* 2^7, 1 */
  float out;
  const moe_ref_tensor_t va = {a, MOE_REF_F16, 3, {1, 1, 2}, {2, 2, 1}};
  const moe_ref_tensor_t vb = {b, MOE_REF_F16, 3, {1, 2, 1}, {2, 1, 1}};
  const moe_ref_tensor_t vout = {&out, MOE_REF_F32, 3, {1, 1, 1}, {1, 1, 1}};
  const moe_ref_scaled_mm_t mm = {&va, &vb, NULL, NULL, NULL, &vout, NULL, false, false};
  static const struct {
    uint16_t a[2];
    float exact, error;
    bool passes;
  } cases[] = {
      {{0x0001, 0}, 0x1p-17f, 0x1p-27f, true}, /* 2^-24: S is 2^-7 */
      {{0x0001, 0}, 0x1p-17f, 0x1p-25f, false},
      {{0, 0x0001}, 0x1p-24f, 0x1p-34f, true}, /* S is 2^-14 */
      {{0, 0x0001}, 0x1p-24f, 0x1p-32f, false},
      {{0x0400, 0}, 0x1p-7f, 0x1p-27f, true}, /* 2^-14, the least normal number */
      {{0x0400, 0}, 0x1p-7f, 0x1p-25f, false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    moe_ref_score_t score = {0};
    memcpy(a, cases[i].a, sizeof a);
    out = cases[i].exact + cases[i].error;
    assert_int_equal(moe_ref_scaled_mm_judge(&mm, MOE_REF_FAST, 0, 1, &score), MOE_REF_OK);
    if ((score.failures == 0) != cases[i].passes)
      fail_msg("case %zu: worst %g", i, score.worst);
  }
}

/* What an operand stands for: its elements times their scales, in F32 and in another memory order.
 * `token` is the dimension that groups cut, -1 where the first dimension is the expert; scales of
 * rank 2 belong to `kept`, a dimension of the operand, within the group. */
static moe_ref_tensor_t unquantized(const gemm_t *gemm, const moe_ref_tensor_t *operand,
                                    const moe_ref_tensor_t *scales, int token, int kept) {
  moe_ref_tensor_t plain = *operand;
  int64_t count = 1;
  for (int d = 0; d < operand->rank; d++) {
    plain.strides[d] = count;
    count *= operand->shape[d];
  }
  plain.dtype = MOE_REF_F32;
  plain.data = malloc((size_t)count * sizeof(float));
  assert_non_null(plain.data);
  for (int64_t i = 0; i < count; i++) {
    int64_t index[3] = {0}, rest = i, group = 0;
    for (int d = 0; d < operand->rank; d++, rest /= operand->shape[d - 1])
      index[d] = rest % operand->shape[d];
    if (token >= 0)
      while (group < GROUPS - 1 && index[token] >= oracle_group_end(&gemm->spec, group))
        group++;
    else
      group = index[0];
    const bool of_tokens = gemm->spec.which == ROWS_CASE && operand == &gemm->a.tensor;
    const int64_t at[2] = {of_tokens ? index[0] : group, index[kept]};
    ((float *)plain.data)[i] = (float)(element_get(operand, offset_at(operand, index)) *
                                       element_get(scales, offset_at(scales, at)));
  }
  return plain;
}

static moe_ref_score_t quality(const gemm_t *gemm, const moe_ref_tensor_t *a,
                               const moe_ref_tensor_t *b) {
  moe_ref_score_t total = {0};
  const int64_t rows = moe_ref_scaled_mm_rows(&gemm->mm);
  const int64_t cuts[] = {0, rows / 3, rows};
  for (int i = 0; i < 2; i++)
    assert_int_equal(moe_ref_scaled_mm_quality(&gemm->mm, a, b, cuts[i], cuts[i + 1], &total),
                     MOE_REF_OK);
  return total;
}

/* Quantized without a loss, a product has the quality of its type; an operand that is one percent
 * off leaves 40 dB. */
static void tells_quality(void **state) {
  (void)state;
  for (int which = ROWS_CASE; which <= BATCHED_CASE; which++) {
    const gemm_spec_t spec = spec_of(which, MOE_REF_F32);
    gemm_t gemm;
    gemm_make(&gemm, &spec, false);
    oracle_gemm(&gemm, EXACT);
    const bool depth = which == DEPTH_CASE;
    moe_ref_tensor_t a = unquantized(&gemm, &gemm.a.tensor, &gemm.sa.tensor,
                                     which == ROWS_CASE ? 0
                                     : depth            ? 1
                                                        : -1,
                                     depth ? 0 : 1);
    moe_ref_tensor_t b =
        unquantized(&gemm, &gemm.b.tensor, &gemm.sb.tensor, depth ? 0 : -1, depth ? 1 : 2);
    const moe_ref_score_t score = quality(&gemm, &a, &b);
    assert_int_equal(score.elements, which == ROWS_CASE ? 309 * N
                                     : depth            ? GROUPS * N * K
                                                        : 3 * 70 * N);
    assert_int_equal(score.failures, 0);
    assert_true(moe_ref_score_sqnr(&score) > 130);

    int64_t count = 1;
    for (int d = 0; d < b.rank; d++)
      count *= b.shape[d];
    for (int64_t i = 0; i < count; i++)
      ((float *)b.data)[i] *= 1.01f;
    const moe_ref_score_t off = quality(&gemm, &a, &b);
    assert_true(fabs(moe_ref_score_sqnr(&off) - 20 * log10(101)) < 0.01);

    moe_ref_score_t ignored = {0};
    b.shape[0]--;
    assert_int_equal(moe_ref_scaled_mm_quality(&gemm.mm, &a, &b, 0, 1, &ignored),
                     MOE_REF_INVALID_ARGUMENT);
    b.shape[0]++;
    assert_int_equal(moe_ref_scaled_mm_quality(&gemm.mm, &gemm.a.tensor, &b, 0, 1, &ignored),
                     MOE_REF_INVALID_ARGUMENT);
    assert_int_equal(moe_ref_scaled_mm_quality(&gemm.mm, &a, &b, 0, 10000000, &ignored),
                     MOE_REF_INVALID_ARGUMENT);
    assert_int_equal(ignored.elements, 0);
    free(a.data);
    free(b.data);
    gemm_free(&gemm);
  }
}

static void adds_scores(void **state) {
  (void)state;
  moe_ref_score_t total = {0};
  assert_true(moe_ref_score_sqnr(&total) == INFINITY);
  moe_ref_score_add(&total, &(moe_ref_score_t){.elements = 4, .row = 9, .signal = 60});
  moe_ref_score_add(&total, &(moe_ref_score_t){0});
  assert_int_equal(total.row, 9);
  moe_ref_score_add(&total, &(moe_ref_score_t){.elements = 6,
                                               .failures = 2,
                                               .worst = 3,
                                               .row = 1,
                                               .column = 2,
                                               .exact = 4,
                                               .bound = 5,
                                               .signal = 40,
                                               .noise = 1e-4});
  moe_ref_score_add(&total, &(moe_ref_score_t){.elements = 1, .worst = 3, .row = 7});
  assert_int_equal(total.elements, 11);
  assert_int_equal(total.failures, 2);
  assert_true(total.worst == 3 && total.row == 1 && total.column == 2);
  assert_true(total.exact == 4 && total.bound == 5);
  assert_true(fabs(moe_ref_score_sqnr(&total) - 60) < 1e-9);
}

static void refuses_bad_arguments(void **state) {
  (void)state;
  const gemm_spec_t spec = spec_of(ROWS_CASE, MOE_REF_F32);
  gemm_t gemm;
  gemm_make(&gemm, &spec, false);
  moe_ref_score_t score = {0};
  double exact, bound;
  const moe_ref_accumulation_t none = (moe_ref_accumulation_t)2;
  assert_int_equal(moe_ref_scaled_mm_judge(&gemm.mm, none, 0, 1, &score), MOE_REF_INVALID_ARGUMENT);
  assert_int_equal(moe_ref_scaled_mm_exact(&gemm.mm, none, 0, 1, &exact, &bound),
                   MOE_REF_INVALID_ARGUMENT);
  assert_int_equal(moe_ref_scaled_mm_judge(&gemm.mm, MOE_REF_FAST, 0, TOKENS + 1, &score),
                   MOE_REF_INVALID_ARGUMENT);
  gemm.out.tensor.shape[0]++;
  assert_int_equal(moe_ref_scaled_mm_judge(&gemm.mm, MOE_REF_FAST, 0, 1, &score),
                   MOE_REF_INVALID_ARGUMENT);
  assert_int_equal(moe_ref_scaled_mm_exact(&gemm.mm, MOE_REF_FAST, 0, 1, &exact, &bound),
                   MOE_REF_INVALID_ARGUMENT);
  assert_int_equal(score.elements, 0);
  gemm_free(&gemm);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tells_right_from_wrong),
      cmocka_unit_test(tells_right_from_wrong_blocks),
      cmocka_unit_test(gives_bounds_of_blocks),
      cmocka_unit_test(promoted_is_stricter),
      cmocka_unit_test(gives_exact_results_and_bounds),
      cmocka_unit_test(finds_the_worst),
      cmocka_unit_test(takes_overflow),
      cmocka_unit_test(takes_overflow_of_partial_sums),
      cmocka_unit_test(counts_subnormal_operands),
      cmocka_unit_test(tells_quality),
      cmocka_unit_test(adds_scores),
      cmocka_unit_test(refuses_bad_arguments),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
