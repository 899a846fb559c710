/* GemmTest.c - grouped products, bit for bit.
 *
 * Why it exists: every kernel of a product is compared with this one.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "test/Reference/GemmOracle.h"
#include "test/Reference/Oracle.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* Tiles of 64 and pieces of 128 end within all of these. The last 11 tokens are in no group. */
static const int32_t ragged[] = {0, 1, 16, 47, 47, 180, 309};
enum { GROUPS = sizeof ragged / sizeof *ragged, TOKENS = 320 };

static gemm_spec_t spec_of(gemm_case_t which, const int32_t *offs, int variant) {
  static const moe_ref_dtype_t fp8[] = {MOE_REF_E4M3, MOE_REF_E5M2};
  static const moe_ref_dtype_t outs[] = {MOE_REF_BF16, MOE_REF_F32, MOE_REF_F16};
  gemm_spec_t spec = {.which = which,
                      .e = GROUPS,
                      .m = TOKENS,
                      .n = 37,
                      .k = 139,
                      .a = fp8[variant % 2],
                      .b = fp8[variant / 2 % 2],
                      .out = outs[variant % 3],
                      .offs = offs,
                      .turn = variant,
                      .seed = (uint64_t)(100 * which + variant)};
  if (which == BATCHED_CASE) {
    spec.e = 3;
    spec.m = 70;
    spec.offs = NULL;
  }
  return spec;
}

/* Computes all rows, in slices of `step` (0: one), and compares every byte with the oracle's. */
static void check(const gemm_spec_t *spec, bool wide, int64_t step) {
  gemm_t found, expected;
  gemm_make(&found, spec, wide);
  gemm_make(&expected, spec, wide);
  oracle_gemm(&expected, EXACT);
  const int64_t rows = moe_ref_scaled_mm_rows(&found.mm);
  assert_int_equal(rows, spec->which == ROWS_CASE    ? spec->m
                         : spec->which == DEPTH_CASE ? spec->e * spec->n
                                                     : spec->e * spec->m);
  if (step == 0)
    step = rows > 0 ? rows : 1;
  for (int64_t begin = 0; begin < rows; begin += step)
    assert_int_equal(moe_ref_scaled_mm(&found.mm, begin, begin + step < rows ? begin + step : rows),
                     MOE_REF_OK);
  assert_same_bytes(&found.out, &expected.out, "out");
  gemm_free(&found);
  gemm_free(&expected);
}

static void computes_every_case_type_and_order(void **state) {
  (void)state;
  for (int which = ROWS_CASE; which <= BATCHED_CASE; which++)
    for (int variant = 0; variant < 12; variant++) {
      const gemm_spec_t spec = spec_of((gemm_case_t)which, ragged, variant);
      check(&spec, variant / 4 % 2 == 1, 0);
    }
}

static void computes_in_slices(void **state) {
  (void)state;
  static const int64_t steps[] = {1, 7, 64, 100};
  for (int which = ROWS_CASE; which <= BATCHED_CASE; which++)
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
      const gemm_spec_t spec = spec_of((gemm_case_t)which, ragged, 0);
      check(&spec, false, steps[i]);
    }
}

static void takes_scales_of_any_shape(void **state) {
  (void)state;
  for (int which = ROWS_CASE; which <= BATCHED_CASE; which++)
    for (int scaling = 0; scaling < SCALINGS; scaling++)
      for (int variant = 0; variant < 3; variant++) {
        gemm_spec_t spec = spec_of((gemm_case_t)which, ragged, variant);
        spec.scaling = (gemm_scaling_t)scaling;
        check(&spec, variant == 1, variant == 2 ? 50 : 0);
        /* One token: its scale may be either. */
        spec.m = 1;
        check(&spec, false, 0);
      }
}

/* Blocks end within tiles; the last ones of K and N are short, or there is only one. */
static void takes_scales_of_blocks(void **state) {
  (void)state;
  static const int64_t sizes[][2] = {{37, 139}, {130, 272}, {16, 384}, {128, 16}};
  for (int which = ROWS_CASE; which <= BATCHED_CASE; which += BATCHED_CASE - ROWS_CASE)
    for (int variant = 0; variant < 6; variant++) {
      gemm_spec_t spec = spec_of((gemm_case_t)which, ragged, variant);
      spec.in_blocks = true;
      spec.biased = variant % 5 == 4;
      spec.n = sizes[variant % 4][0];
      spec.k = sizes[variant % 4][1];
      check(&spec, variant % 2 == 1, variant % 3 == 2 ? 50 : 0);
      spec.k = 0;
      check(&spec, false, 0);
    }
}

static void takes_scales_of_mx_blocks(void **state) {
  (void)state;
  static const int64_t sizes[][2] = {{37, 160}, {130, 256}, {16, 32}};
  for (int which = ROWS_CASE; which <= BATCHED_CASE; which += BATCHED_CASE - ROWS_CASE)
    for (int variant = 0; variant < 6; variant++) {
      gemm_spec_t spec = spec_of((gemm_case_t)which, ragged, variant);
      spec.in_blocks = spec.in_mx = true;
      spec.biased = variant % 5 == 4;
      spec.n = sizes[variant % 3][0];
      spec.k = sizes[variant % 3][1];
      check(&spec, variant % 2 == 1, variant % 3 == 2 ? 50 : 0);
      spec.k = 0;
      check(&spec, false, 0);
    }
}

/* Scale 255 makes NaN of all that it reaches, zeros too; the extremes do not spoil what is between
 * them: sb is multiplied by the sum first, and sa by that. */
static void multiplies_extreme_mx_scales(void **state) {
  (void)state;
  uint8_t a[2 * 64] = {0}, b[64 * 3] = {0}, sa[2 * 2] = {127, 127, 254, 127},
                sb[2 * 3] = {127, 255, 0, 127, 127, 127};
  float out[2 * 3];
  const int32_t end = 2;
  for (int i = 0; i < 2; i++)
    a[64 * i] = 0x38; /* 1 */
  for (int j = 0; j < 3; j++)
    b[j] = j == 1 ? 0 : 0x38;
  const moe_ref_tensor_t ta = {a, MOE_REF_E4M3, 2, {2, 64}, {64, 1}},
                         tb = {b, MOE_REF_E4M3, 3, {1, 64, 3}, {192, 3, 1}},
                         tsa = {sa, MOE_REF_E8M0, 2, {2, 2}, {2, 1}},
                         tsb = {sb, MOE_REF_E8M0, 3, {1, 2, 3}, {6, 3, 1}},
                         toffs = {(void *)&end, MOE_REF_I32, 1, {1}, {1}},
                         tout = {out, MOE_REF_F32, 2, {2, 3}, {3, 1}};
  const moe_ref_scaled_mm_t mm = {&ta, &tb, &tsa, &tsb, &toffs, &tout, NULL, false, false};
  assert_int_equal(moe_ref_scaled_mm(&mm, 0, 2), MOE_REF_OK);
  const float expected[2][3] = {{1, NAN, 0x1p-127f}, {0x1p127f, NAN, 1}};
  for (int i = 0; i < 2; i++)
    for (int j = 0; j < 3; j++)
      assert_true(j == 1 ? isnan(out[3 * i + j]) : out[3 * i + j] == expected[i][j]);
}

/* Groups of none, of a part of a block, of one and of several, which begin anywhere. */
static void takes_scales_of_blocks_of_tokens(void **state) {
  (void)state;
  static const int32_t ends[][GROUPS] = {{0, 130, 131, 131, 387, 520, 520},
                                         {128, 256, 256, 640, 640, 640, 641},
                                         {1, 2, 3, 4, 5, 6, 600}};
  for (int variant = 0; variant < 6; variant++) {
    gemm_spec_t spec = spec_of(DEPTH_CASE, ends[variant % 3], variant);
    spec.in_blocks = true;
    spec.m = 641 + 60 * variant;
    check(&spec, variant % 2 == 1, variant % 3 == 2 ? 50 : 0);
  }
}

/* What stands between groups is not read. */
static void takes_aligned_groups(void **state) {
  (void)state;
  static const int32_t ends[][GROUPS] = {{0, 130, 131, 131, 387, 520, 520},
                                         {128, 256, 256, 640, 640, 640, 641},
                                         {1, 2, 3, 4, 5, 6, 600},
                                         {5, 3, 700, 6, 800, 900, -1}};
  for (int variant = 0; variant < 8; variant++) {
    gemm_spec_t spec = spec_of(DEPTH_CASE, ends[variant / 2], variant);
    spec.aligned = true;
    spec.in_blocks = variant % 2 == 0;
    spec.m = 768;
    check(&spec, variant % 2 == 1, variant % 3 == 2 ? 50 : 0);
  }
}

static void refuses_other_aligned_groups(void **state) {
  (void)state;
  for (int which = ROWS_CASE; which <= BATCHED_CASE; which++) {
    gemm_spec_t spec = spec_of((gemm_case_t)which, ragged, 0);
    gemm_t gemm;
    gemm_make(&gemm, &spec, false); /* tokens are no multiple of 128, or groups not summed over */
    assert_int_not_equal(moe_ref_scaled_mm_rows(&gemm.mm), -1);
    gemm.mm.aligned = true;
    assert_int_equal(moe_ref_scaled_mm_rows(&gemm.mm), -1);
    assert_int_equal(moe_ref_scaled_mm(&gemm.mm, 0, 1), MOE_REF_INVALID_ARGUMENT);
    gemm_free(&gemm);
  }
}

static void adds_a_bias(void **state) {
  (void)state;
  for (int which = ROWS_CASE; which <= BATCHED_CASE; which += BATCHED_CASE - ROWS_CASE)
    for (int variant = 0; variant < 12; variant++) {
      gemm_spec_t spec = spec_of((gemm_case_t)which, ragged, variant);
      spec.biased = true;
      spec.scaling = (gemm_scaling_t)(variant % SCALINGS);
      check(&spec, variant / 4 % 2 == 1, variant % 5 == 4 ? 50 : 0);
      spec.k = 0; /* nothing else */
      check(&spec, false, 0);
    }
}

static void takes_groups_of_any_size(void **state) {
  (void)state;
  static const int32_t offs[][GROUPS] = {
      {0, 0, 0, 0, 0, 0, 0}, /* all empty */
      {TOKENS, TOKENS, TOKENS, TOKENS, TOKENS, TOKENS, TOKENS},
      {0, 0, 0, TOKENS, TOKENS, TOKENS, TOKENS},
      {0, 0, 0, 0, 0, 0, TOKENS},
      {15, 31, 62, 125, 189, 254, 318},
      {5, 5, 5, 133, 133, 262, 262},
  };
  for (int which = ROWS_CASE; which <= DEPTH_CASE; which++)
    for (size_t i = 0; i < sizeof offs / sizeof *offs; i++) {
      const gemm_spec_t spec = spec_of((gemm_case_t)which, offs[i], (int)i);
      check(&spec, false, 0);
    }
}

/* What kernels do with offsets that nobody should pass: no token outside of the tensor is touched.
 */
static void clamps_offsets(void **state) {
  (void)state;
  static const int32_t offs[][GROUPS] = {
      {-5, 40, 20, 100, 10, 400, 300},
      {INT32_MIN, -1, INT32_MAX, 0, 3, 2, 1},
      {400, 400, 400, 400, 400, 400, 400},
  };
  static const int64_t ends[][GROUPS] = {
      {0, 40, 40, 100, 100, 320, 320},
      {0, 0, 320, 320, 320, 320, 320},
      {320, 320, 320, 320, 320, 320, 320},
  };
  for (size_t i = 0; i < sizeof offs / sizeof *offs; i++) {
    int64_t found[GROUPS];
    const moe_ref_tensor_t tensor = {(void *)offs[i], MOE_REF_I32, 1, {GROUPS}, {1}};
    assert_int_equal(moe_ref_group_ends(&tensor, TOKENS, found), MOE_REF_OK);
    assert_memory_equal(found, ends[i], sizeof found);
    for (int which = ROWS_CASE; which <= DEPTH_CASE; which++) {
      const gemm_spec_t spec = spec_of((gemm_case_t)which, offs[i], (int)i);
      check(&spec, false, 0);
    }
  }
  /* Offsets have strides too. */
  int64_t every_other[2];
  const moe_ref_tensor_t strided = {(void *)(offs[0] + 1), MOE_REF_I32, 1, {2}, {2}};
  assert_int_equal(moe_ref_group_ends(&strided, TOKENS, every_other), MOE_REF_OK);
  assert_int_equal(every_other[0], 40);
  assert_int_equal(every_other[1], 100);
}

static void takes_sizes_of_zero(void **state) {
  (void)state;
  static const int32_t none[GROUPS] = {0};
  for (int which = ROWS_CASE; which <= BATCHED_CASE; which++)
    for (int d = 0; d < 4; d++) {
      gemm_spec_t spec = spec_of((gemm_case_t)which, d == 1 ? none : ragged, d);
      *(int64_t *[]){&spec.e, &spec.m, &spec.n, &spec.k}[d] = 0;
      check(&spec, false, 0);
    }
}

/* ---- One product of 1 x K by K x 1, from values ---- */

typedef struct {
  uint8_t a[8], b[8];
  float sa, sb;
  union {
    float f32;
    uint16_t half;
  } out;
  moe_ref_tensor_t views[5];
  moe_ref_scaled_mm_t mm;
} dot_t;

static const moe_ref_scaled_mm_t *make_dot(dot_t *dot, moe_ref_dtype_t dtype, const double *a,
                                           const double *b, int count, moe_ref_dtype_t out) {
  dot->sa = dot->sb = 1;
  for (int i = 0; i < count; i++) {
    dot->a[i] = oracle_fp8_from_f32(dtype, (float)a[i]);
    dot->b[i] = oracle_fp8_from_f32(dtype, (float)b[i]);
  }
  dot->views[0] = (moe_ref_tensor_t){dot->a, dtype, 3, {1, 1, count}, {8, 8, 1}};
  dot->views[1] = (moe_ref_tensor_t){dot->b, dtype, 3, {1, count, 1}, {8, 1, 8}};
  dot->views[2] = (moe_ref_tensor_t){&dot->sa, MOE_REF_F32, 2, {1, 1}, {1, 1}};
  dot->views[3] = (moe_ref_tensor_t){&dot->sb, MOE_REF_F32, 2, {1, 1}, {1, 1}};
  dot->views[4] = (moe_ref_tensor_t){&dot->out, out, 3, {1, 1, 1}, {1, 1, 1}};
  dot->mm =
      (moe_ref_scaled_mm_t){&dot->views[0], &dot->views[1], &dot->views[2], &dot->views[3], NULL,
                            &dot->views[4], NULL,           false,          false};
  return &dot->mm;
}

static float dot_of(moe_ref_dtype_t dtype, const double *a, const double *b, int count) {
  dot_t dot;
  assert_int_equal(moe_ref_scaled_mm(make_dot(&dot, dtype, a, b, count, MOE_REF_F32), 0, 1),
                   MOE_REF_OK);
  return dot.out.f32;
}

/* Sums that neither fp32 nor double can hold on the way. */
static void sums_exactly(void **state) {
  (void)state;
  const double least = 0x1p-16;
  assert_true(dot_of(MOE_REF_E5M2, (double[]){57344, least, -57344},
                     (double[]){57344, least, 57344}, 3) == 0x1p-32f);
  /* 2^24 + 1 is halfway between two fp32 numbers; the least product decides. */
  assert_true(dot_of(MOE_REF_E5M2, (double[]){4096, 1}, (double[]){4096, 1}, 2) == 0x1p24f);
  assert_true(dot_of(MOE_REF_E5M2, (double[]){4096, 1, least}, (double[]){4096, 1, least}, 3) ==
              0x1p24f + 2);
  assert_true(dot_of(MOE_REF_E5M2, (double[]){4096, 1, 2, least}, (double[]){4096, 1, 1, -least},
                     4) == 0x1p24f + 2);
  assert_true(dot_of(MOE_REF_E5M2, (double[]){-4096, -1, -2, least}, (double[]){4096, 1, 1, least},
                     4) == -0x1p24f - 2);
  /* In E4M3 448 * 448 and 2^-18 are the extremes. */
  assert_true(dot_of(MOE_REF_E4M3, (double[]){448, 0x1p-9, 448}, (double[]){448, 0x1p-9, -448},
                     3) == 0x1p-18f);
}

static void keeps_nan_and_inf(void **state) {
  (void)state;
  dot_t dot;
  const moe_ref_scaled_mm_t *mm =
      make_dot(&dot, MOE_REF_E5M2, (double[]){1, 1}, (double[]){1, 0}, 2, MOE_REF_F32);
  dot.a[0] = 0x7C;
  assert_int_equal(moe_ref_scaled_mm(mm, 0, 1), MOE_REF_OK);
  assert_true(dot.out.f32 == INFINITY);
  dot.a[1] = 0xFC; /* Inf times 0 */
  assert_int_equal(moe_ref_scaled_mm(mm, 0, 1), MOE_REF_OK);
  assert_true(isnan(dot.out.f32));
  mm = make_dot(&dot, MOE_REF_E4M3, (double[]){1, 1}, (double[]){1, 0}, 2, MOE_REF_BF16);
  dot.b[1] = 0xFF;
  assert_int_equal(moe_ref_scaled_mm(mm, 0, 1), MOE_REF_OK);
  assert_int_equal(dot.out.half, 0x7FFF);
}

/* A NaN in a row or a column spoils that and nothing else, in its tile too. */
static void confines_nan(void **state) {
  (void)state;
  const gemm_spec_t spec = spec_of(ROWS_CASE, ragged, 1);
  gemm_t found, expected;
  gemm_make(&found, &spec, false);
  gemm_make(&expected, &spec, false);
  oracle_gemm(&expected, EXACT);
  enum { ROW = 100, GROUP = 5, COLUMN = 36 };
  ((uint8_t *)found.a.tensor.data)[offset_at(&found.a.tensor, (int64_t[]){ROW, 138})] = 0x7F;
  ((uint8_t *)found.b.tensor.data)[offset_at(&found.b.tensor, (int64_t[]){GROUP, 0, COLUMN})] =
      0xFF;
  for (int64_t i = ragged[GROUP - 1]; i < ragged[GROUP]; i++)
    element_set(&expected.out.tensor, offset_at(&expected.out.tensor, (int64_t[]){i, COLUMN}),
                f32_of(0x7FC00000));
  for (int64_t j = 0; j < spec.n; j++)
    element_set(&expected.out.tensor, offset_at(&expected.out.tensor, (int64_t[]){ROW, j}),
                f32_of(0x7FC00000));
  assert_int_equal(moe_ref_scaled_mm(&found.mm, 0, spec.m), MOE_REF_OK);
  for (int64_t i = 0; i < element_count(&found.out.tensor); i++) {
    const int64_t at = offset_of(&found.out.tensor, i, NULL);
    if (!same_f32(element_get(&found.out.tensor, at), element_get(&expected.out.tensor, at)))
      fail_msg("element %lld: %a, found %a", (long long)i, element_get(&expected.out.tensor, at),
               element_get(&found.out.tensor, at));
  }
  gemm_free(&found);
  gemm_free(&expected);
}

/* sa first, then sb, each product rounded in fp32: where they overflow, and where they underflow.
 */
static void scales_in_order(void **state) {
  (void)state;
  dot_t dot;
  const moe_ref_scaled_mm_t *mm =
      make_dot(&dot, MOE_REF_E4M3, (double[]){4}, (double[]){1}, 1, MOE_REF_F32);
  dot.sa = 0x1p127f;
  dot.sb = 0x1p-127f;
  assert_int_equal(moe_ref_scaled_mm(mm, 0, 1), MOE_REF_OK);
  assert_true(dot.out.f32 == INFINITY);
  dot.sa = 0x1p-127f;
  dot.sb = 0x1p127f;
  assert_int_equal(moe_ref_scaled_mm(mm, 0, 1), MOE_REF_OK);
  assert_true(dot.out.f32 == 4);
  dot.sa = 0x1.8p-149f; /* 2^-148 */
  assert_int_equal(moe_ref_scaled_mm(mm, 0, 1), MOE_REF_OK);
  assert_true(dot.out.f32 == 0x1p-146f * 0x1p127f);
  /* f16 ends at 65504, and bf16 does not. */
  mm = make_dot(&dot, MOE_REF_E4M3, (double[]){256}, (double[]){256}, 1, MOE_REF_F16);
  assert_int_equal(moe_ref_scaled_mm(mm, 0, 1), MOE_REF_OK);
  assert_int_equal(dot.out.half, 0x7C00);
  mm = make_dot(&dot, MOE_REF_E4M3, (double[]){256}, (double[]){256}, 1, MOE_REF_BF16);
  assert_int_equal(moe_ref_scaled_mm(mm, 0, 1), MOE_REF_OK);
  assert_int_equal(dot.out.half, 0x4780);
}

/* One fma a block, in order: what is added first is rounded first. */
static void adds_blocks_in_order(void **state) {
  (void)state;
  enum { K = 384 };
  uint8_t a[K] = {0}, b[K] = {0};
  float sa[3] = {1, 1, 1}, sb[3] = {1, 1, 1}, out;
  const moe_ref_tensor_t views[] = {{a, MOE_REF_E4M3, 3, {1, 1, K}, {K, K, 1}},
                                    {b, MOE_REF_E4M3, 3, {1, K, 1}, {K, 1, K}},
                                    {sa, MOE_REF_F32, 3, {1, 1, 3}, {3, 3, 1}},
                                    {sb, MOE_REF_F32, 3, {1, 3, 1}, {3, 1, 1}},
                                    {&out, MOE_REF_F32, 3, {1, 1, 1}, {1, 1, 1}}};
  const moe_ref_scaled_mm_t mm = {&views[0], &views[1], &views[2], &views[3], NULL,
                                  &views[4], NULL,      false,     false};
  a[0] = a[128] = a[256] = oracle_fp8_from_f32(MOE_REF_E4M3, 1);
  b[0] = b[128] = b[256] = a[0];
  /* 2^24 + 1 - 2^24 is 0, and 2^24 - 2^24 + 1 is 1. */
  sa[0] = 0x1p24f;
  sa[2] = -0x1p24f;
  assert_int_equal(moe_ref_scaled_mm(&mm, 0, 1), MOE_REF_OK);
  assert_true(out == 0);
  sa[1] = -0x1p24f;
  sa[2] = 1;
  assert_int_equal(moe_ref_scaled_mm(&mm, 0, 1), MOE_REF_OK);
  assert_true(out == 1);
  /* sa * sb is rounded: (1 + 2^-12)^2 - 1 has no 2^-24. What it is multiplied by is not. */
  sa[0] = sb[0] = 1 + 0x1p-12f;
  sa[1] = -1;
  sa[2] = 0;
  assert_int_equal(moe_ref_scaled_mm(&mm, 0, 1), MOE_REF_OK);
  assert_true(out == 0x1p-11f);
  sb[0] = 1;
  a[0] = b[0] = oracle_fp8_from_f32(MOE_REF_E4M3, 1.125f);
  sa[0] = -1.265625f;   /* 1.125^2 */
  sa[1] = 1 + 0x1p-23f; /* the second block: (1 + 2^-23) 1.265625 - 1.265625^2 */
  a[128] = b[128] = a[0];
  assert_int_equal(moe_ref_scaled_mm(&mm, 0, 1), MOE_REF_OK);
  assert_true(out == (float)((1 + 0x1p-23) * 1.265625 - (double)(1.265625f * 1.265625f)));
  /* Inf where the product of the scales overflows, NaN where a scale is one. */
  sa[0] = sb[0] = 0x1p100f;
  assert_int_equal(moe_ref_scaled_mm(&mm, 0, 1), MOE_REF_OK);
  assert_true(out == INFINITY);
  sa[2] = NAN;
  assert_int_equal(moe_ref_scaled_mm(&mm, 0, 1), MOE_REF_OK);
  assert_true(isnan(out));
}

/* The bias comes last: after the scales, in fp32, before the cast. */
static void adds_the_bias_in_fp32(void **state) {
  (void)state;
  dot_t dot;
  make_dot(&dot, MOE_REF_E4M3, (double[]){256}, (double[]){256}, 1, MOE_REF_BF16);
  uint16_t bias = moe_ref_bf16_from_f32(-65536);
  const moe_ref_tensor_t view = {&bias, MOE_REF_BF16, 2, {1, 1}, {1, 1}};
  dot.mm.bias = &view;
  dot.sa = 1 + 0x1p-20f; /* 65536 + 0.0625: bf16 would lose it before the sum */
  assert_int_equal(moe_ref_scaled_mm(&dot.mm, 0, 1), MOE_REF_OK);
  assert_true(moe_ref_f32_from_bf16(dot.out.half) == 0.0625f);
  dot.sa = 2;
  assert_int_equal(moe_ref_scaled_mm(&dot.mm, 0, 1), MOE_REF_OK);
  assert_true(moe_ref_f32_from_bf16(dot.out.half) == 65536);
  /* fp32 loses what is too small beside the product. */
  dot.sa = 0x1p20f;
  bias = moe_ref_bf16_from_f32(1);
  assert_int_equal(moe_ref_scaled_mm(&dot.mm, 0, 1), MOE_REF_OK);
  assert_true(moe_ref_f32_from_bf16(dot.out.half) == 0x1p36f);
}

/* One scale for all rows is a stride of 0, too. */
static void broadcasts_scales(void **state) {
  (void)state;
  const gemm_spec_t spec = spec_of(ROWS_CASE, ragged, 0);
  gemm_t found, expected;
  float scale = 0.75f;
  gemm_make(&found, &spec, false);
  gemm_make(&expected, &spec, false);
  for (int64_t i = 0; i < spec.m; i++)
    element_set(&expected.sa.tensor, offset_at(&expected.sa.tensor, &i), scale);
  oracle_gemm(&expected, EXACT);
  const moe_ref_tensor_t one = {&scale, MOE_REF_F32, 1, {TOKENS}, {0}};
  found.mm.sa = &one;
  assert_int_equal(moe_ref_scaled_mm(&found.mm, 0, spec.m), MOE_REF_OK);
  assert_same_bytes(&found.out, &expected.out, "out");
  gemm_free(&found);
  gemm_free(&expected);
}

/* An empty group gives zeros, though its scales be NaN: they stand for no data. */
static void empty_groups_give_zeros(void **state) {
  (void)state;
  const gemm_spec_t spec = spec_of(DEPTH_CASE, ragged, 1);
  gemm_t gemm;
  gemm_make(&gemm, &spec, false);
  for (int64_t i = 0; i < spec.n; i++)
    element_set(&gemm.sa.tensor, offset_at(&gemm.sa.tensor, (int64_t[]){0, i}), f32_of(0x7FC00000));
  assert_int_equal(moe_ref_scaled_mm(&gemm.mm, 0, GROUPS * spec.n), MOE_REF_OK);
  for (int64_t i = 0; i < spec.n * spec.k; i++)
    assert_int_equal(bits_of(element_get(&gemm.out.tensor, offset_of(&gemm.out.tensor, i, NULL))),
                     0);
  gemm_free(&gemm);
}

static void counts_flops(void **state) {
  (void)state;
  static const double expected[] = {2. * 309 * 37 * 139, 2. * 309 * 37 * 139,
                                    2. * 3 * 70 * 37 * 139};
  static const int64_t tokens[] = {309, 309, 3 * 70};
  for (int which = ROWS_CASE; which <= BATCHED_CASE; which++) {
    const gemm_spec_t spec = spec_of((gemm_case_t)which, ragged, 0);
    gemm_t gemm;
    gemm_make(&gemm, &spec, false);
    gemm.a.tensor.data = gemm.out.tensor.data = NULL;
    assert_true(moe_ref_scaled_mm_flops(&gemm.mm) == expected[which]);
    assert_int_equal(moe_ref_scaled_mm_tokens(&gemm.mm), tokens[which]);
    gemm_free(&gemm);
  }
}

/* ---- What must be refused ---- */

/* Spoils tensor number `tensor` in way `how`; false where there is no such way. */
static bool spoil(moe_ref_tensor_t *tensor, int how) {
  switch (how) {
  case 0:
    tensor->dtype = MOE_REF_E8M0;
    return true;
  case 1:
    tensor->data = NULL;
    return true;
  case 2:
    tensor->rank = 1 + tensor->rank % MOE_REF_MAX_RANK;
    tensor->shape[tensor->rank - 1] = 1;
    return true;
  case 3:
    tensor->rank = 0;
    return true;
  default:
    if (how - 4 >= tensor->rank)
      return false;
    tensor->shape[how - 4]++;
    return true;
  }
}

/* No gradient has a bias. */
static void refuses_the_bias_of_a_gradient(void **state) {
  (void)state;
  const gemm_spec_t spec = spec_of(DEPTH_CASE, ragged, 0);
  gemm_t gemm;
  gemm_make(&gemm, &spec, false);
  buffer_t bias = buffer_make(spec.out, 2, (int64_t[]){spec.e, spec.k}, 0, 0);
  gemm.mm.bias = &bias.tensor;
  assert_int_equal(moe_ref_scaled_mm_rows(&gemm.mm), -1);
  assert_int_equal(moe_ref_scaled_mm(&gemm.mm, 0, 1), MOE_REF_INVALID_ARGUMENT);
  buffer_free(&bias);
  gemm_free(&gemm);
}

static void refuses_bad_arguments(void **state) {
  (void)state;
  for (int turn = 0; turn < 2 * (BATCHED_CASE + 1); turn++) {
    const int which = turn / 2;
    gemm_spec_t spec = spec_of((gemm_case_t)which, ragged, 0);
    spec.biased = which != DEPTH_CASE;
    spec.in_blocks = turn % 2 == 1;
    gemm_t gemm;
    gemm_make(&gemm, &spec, false);
    const int64_t rows = moe_ref_scaled_mm_rows(&gemm.mm);
    for (int tensor = 0; tensor < 7; tensor++)
      for (int how = 0; how <= 10; how++) {
        moe_ref_scaled_mm_t mm = gemm.mm;
        const moe_ref_tensor_t **const slot = (const moe_ref_tensor_t **[]){
            &mm.a, &mm.b, &mm.sa, &mm.sb, &mm.offs, &mm.out, &mm.bias}[tensor];
        if (*slot == NULL || (how == 10 && slot == &mm.bias))
          continue;
        moe_ref_tensor_t spoiled = **slot;
        *slot = how == 10 ? NULL : &spoiled;
        if (how < 10 && !spoil(&spoiled, how))
          continue;
        if (moe_ref_scaled_mm_rows(&mm) != -1 ||
            (how != 1 &&
             (moe_ref_scaled_mm_flops(&mm) != -1 || moe_ref_scaled_mm_tokens(&mm) != -1)) ||
            moe_ref_scaled_mm(&mm, 0, 1) != MOE_REF_INVALID_ARGUMENT)
          fail_msg("case %d takes tensor %d spoiled in way %d", which, tensor, how);
      }
    assert_int_equal(moe_ref_scaled_mm(&gemm.mm, -1, 1), MOE_REF_INVALID_ARGUMENT);
    assert_int_equal(moe_ref_scaled_mm(&gemm.mm, 2, 1), MOE_REF_INVALID_ARGUMENT);
    assert_int_equal(moe_ref_scaled_mm(&gemm.mm, 0, rows + 1), MOE_REF_INVALID_ARGUMENT);
    assert_int_equal(moe_ref_scaled_mm(&gemm.mm, rows, rows), MOE_REF_OK);
    for (size_t i = 0; i < gemm.out.size; i++)
      assert_int_equal(gemm.out.bytes[i], CANARY);
    gemm_free(&gemm);
  }
  int64_t end;
  const moe_ref_tensor_t wide = {&end, MOE_REF_F32, 1, {1}, {1}};
  assert_int_equal(moe_ref_scaled_mm_rows(NULL), -1);
  assert_int_equal(moe_ref_group_ends(NULL, 1, &end), MOE_REF_INVALID_ARGUMENT);
  assert_int_equal(moe_ref_group_ends(&wide, 1, &end), MOE_REF_INVALID_ARGUMENT);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(computes_every_case_type_and_order),
      cmocka_unit_test(computes_in_slices),
      cmocka_unit_test(takes_scales_of_any_shape),
      cmocka_unit_test(takes_scales_of_blocks),
      cmocka_unit_test(takes_scales_of_mx_blocks),
      cmocka_unit_test(multiplies_extreme_mx_scales),
      cmocka_unit_test(takes_scales_of_blocks_of_tokens),
      cmocka_unit_test(takes_aligned_groups),
      cmocka_unit_test(refuses_other_aligned_groups),
      cmocka_unit_test(adds_a_bias),
      cmocka_unit_test(takes_groups_of_any_size),
      cmocka_unit_test(clamps_offsets),
      cmocka_unit_test(takes_sizes_of_zero),
      cmocka_unit_test(sums_exactly),
      cmocka_unit_test(keeps_nan_and_inf),
      cmocka_unit_test(confines_nan),
      cmocka_unit_test(scales_in_order),
      cmocka_unit_test(adds_blocks_in_order),
      cmocka_unit_test(adds_the_bias_in_fp32),
      cmocka_unit_test(broadcasts_scales),
      cmocka_unit_test(empty_groups_give_zeros),
      cmocka_unit_test(counts_flops),
      cmocka_unit_test(refuses_the_bias_of_a_gradient),
      cmocka_unit_test(refuses_bad_arguments),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
