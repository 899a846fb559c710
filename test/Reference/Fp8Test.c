/* Fp8Test.c - FP8 with fp32 scales: factors worked out by hand, and every granularity over shapes,
 * orders and groups.
 *
 * Why it exists: the library walks sheets, cells and tiles. Here the slice of an element is found
 * by index arithmetic alone, and whole buffers are compared, so that a byte written beside the
 * tensor, or in a row of no group, is found too.
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

/* ---- Factors ---- */

/* clang-format off */
static const struct {
  moe_ref_dtype_t element;
  bool pow2;
  uint32_t amax, factor; /* fp32 bits */
} factors[] = {
    /* Slices of zeros, and of next to nothing, are scaled as if their amax were 1e-12. */
    {MOE_REF_E4M3, true,  0x00000000, 0x57800000}, /* 2^48 */
    {MOE_REF_E4M3, true,  0x00000001, 0x57800000},
    {MOE_REF_E4M3, true,  0x00800000, 0x57800000},
    {MOE_REF_E4M3, false, 0x00000000, 0x57CBBA10}, /* 4.48e14 */
    {MOE_REF_E5M2, true,  0x00000000, 0x5B000000}, /* 2^55 */
    {MOE_REF_E5M2, false, 0x00000000, 0x5B4BBA10}, /* 5.7344e16 */
    /* The fp32 numbers on either side of it. */
    {MOE_REF_E4M3, false, 0x2B8CBCCC, 0x57CBBA10},
    {MOE_REF_E4M3, false, 0x2B8CBCCD, 0x57CBBA0F},

    {MOE_REF_E4M3, false, 0x43E00000, 0x3F800000}, /* 448: 1 */
    {MOE_REF_E4M3, true,  0x43E00000, 0x3F800000},
    {MOE_REF_E4M3, true,  0x43E00001, 0x3F000000}, /* an ulp more: 0.5 */
    {MOE_REF_E4M3, true,  0x43DFFFFF, 0x3F800000},
    {MOE_REF_E4M3, false, 0x3F800000, 0x43E00000}, /* 1: 448 */
    {MOE_REF_E4M3, true,  0x3F800000, 0x43800000}, /* 256 */
    {MOE_REF_E4M3, false, 0x40400000, 0x43155555}, /* 3: 149.33 */
    {MOE_REF_E5M2, false, 0x47600000, 0x3F800000}, /* 57344: 1 */
    {MOE_REF_E5M2, true,  0x47600001, 0x3F000000},
    {MOE_REF_E5M2, true,  0x3F800000, 0x47000000}, /* 32768 */

    {MOE_REF_E4M3, false, 0x7F800000, 0x00000000}, /* Inf: 0 */
    {MOE_REF_E4M3, true,  0x7F800000, 0x00000000},
    {MOE_REF_E5M2, true,  0x7F800000, 0x00000000},
    {MOE_REF_E4M3, false, 0x7FC00000, 0x7FC00000}, /* NaN: NaN, not Inf */
    {MOE_REF_E4M3, true,  0x7FC00000, 0x7FC00000},
};
/* clang-format on */

static void gives_factors(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) {
    const float found =
        moe_ref_fp8_factor(f32_of(factors[i].amax), factors[i].pow2, factors[i].element);
    if (!same_f32(found, f32_of(factors[i].factor)))
      fail_msg("row %zu: found 0x%08X", i, bits_of(found));
  }
}

/* Whether x is the fp32 number nearest to numerator / denominator: products of two fp32 numbers are
 * exact in long double. */
static bool is_quotient(float x, long double numerator, long double denominator) {
  const long double error = fabsl(x * denominator - numerator);
  return error <= fabsl(nextafterf(x, 0) * denominator - numerator) &&
         error <= fabsl(nextafterf(x, INFINITY) * denominator - numerator);
}

/* The largest power of two that is at most x > 0. */
static float power_below(float x) {
  int exponent;
  frexpf(x, &exponent);
  return ldexpf(1, exponent - 1);
}

static void check_factor(float amax) {
  for (int e = 0; e < 2; e++) {
    const moe_ref_dtype_t element = e == 0 ? MOE_REF_E4M3 : MOE_REF_E5M2;
    const float factor = moe_ref_fp8_factor(amax, false, element);
    if (!is_quotient(factor, oracle_fp8_max(element), amax))
      fail_msg("amax %a: %a is not the nearest factor", amax, factor);
    if (moe_ref_fp8_factor(amax, true, element) != power_below(factor))
      fail_msg("amax %a: %a is not the power of two", amax,
               moe_ref_fp8_factor(amax, true, element));
  }
}

static void rounds_factors_once(void **state) {
  (void)state;
  uint64_t random = 11;
  for (uint32_t upper = 0x2B8D; upper < 0x7F80; upper++) { /* every bf16 from 1e-12 on */
    check_factor(f32_of(upper << 16));
    for (int i = 0; i < 16; i++)
      check_factor(f32_of(upper << 16 | (uint32_t)(random_next(&random) & 0xFFFF)));
  }
}

/* ---- Every granularity ---- */

typedef struct {
  moe_ref_fp8_granularity_t granularity;
  int rank, axis;
  bool grouped;
} way_t;

static const way_t ways[] = {
    {MOE_REF_ROW, 2, 1, false},     {MOE_REF_ROW, 2, 0, true},      {MOE_REF_ROW, 3, 2, false},
    {MOE_REF_ROW, 3, 1, false},     {MOE_REF_TENSOR, 2, 0, false},  {MOE_REF_TENSOR, 2, 1, false},
    {MOE_REF_TENSOR, 3, 1, false},  {MOE_REF_EXPERT, 3, 1, false},  {MOE_REF_EXPERT, 3, 2, false},
    {MOE_REF_GROUP, 2, 0, true},    {MOE_REF_GROUP, 2, 1, true},    {MOE_REF_1X128, 2, 1, false},
    {MOE_REF_128X128, 2, 1, false}, {MOE_REF_128X128, 3, 2, false}, {MOE_REF_1X128, 2, 0, true},
    {MOE_REF_1X128, 3, 2, false},   {MOE_REF_1X128, 3, 1, false},   {MOE_REF_128X128, 2, 0, false},
    {MOE_REF_128X128, 3, 1, false},
};

enum { WAYS = sizeof ways / sizeof *ways, GROUPS = 6, MAX_SCALES = 4096 };

static int64_t blocks_of(int64_t size) {
  return size / 128 + (size % 128 != 0);
}

/* The shape of scales, from the table in moe/reference.h. */
static int scale_shape(const way_t *way, const int64_t *x, int64_t *shape) {
  switch (way->granularity) {
  case MOE_REF_TENSOR:
    shape[0] = 1;
    return 1;
  case MOE_REF_EXPERT:
    shape[0] = x[0];
    return 1;
  case MOE_REF_GROUP:
    shape[0] = GROUPS;
    return 1;
  case MOE_REF_1X128:
    for (int d = 0; d < way->rank; d++)
      shape[d] = d == way->axis ? blocks_of(x[d]) : x[d];
    shape[0] += way->grouped ? GROUPS : 0;
    return way->rank;
  case MOE_REF_128X128:
    shape[0] = way->rank == 3 ? x[0] : blocks_of(x[0]);
    shape[1] = blocks_of(x[1]);
    shape[2] = way->rank == 3 ? blocks_of(x[2]) : 0;
    return way->rank;
  case MOE_REF_ROW:
    break;
  }
  if (way->rank == 2 && way->axis == 1) {
    shape[0] = x[0];
    return 1;
  }
  shape[0] = way->grouped ? GROUPS : x[0];
  shape[1] = way->rank == 2 || way->axis == 2 ? x[1] : x[2];
  return 2;
}

/* Of an element's scale. Group is that of its row; ends of groups. */
static void scale_index(const way_t *way, const int32_t *ends, const int64_t *at, int64_t group,
                        int64_t *index) {
  const int64_t start = way->grouped && group > 0 ? ends[group - 1] : 0;
  memset(index, 0, sizeof(int64_t[MOE_REF_MAX_RANK]));
  switch (way->granularity) {
  case MOE_REF_TENSOR:
    return;
  case MOE_REF_EXPERT:
    index[0] = at[0];
    return;
  case MOE_REF_GROUP:
    index[0] = group;
    return;
  case MOE_REF_1X128:
    for (int d = 0; d < way->rank; d++)
      index[d] = d == way->axis ? at[d] / 128 : at[d];
    if (way->grouped)
      index[0] = start / 128 + group + (at[0] - start) / 128;
    return;
  case MOE_REF_128X128:
    for (int d = 0; d < way->rank; d++)
      index[d] = d < way->rank - 2 ? at[d] : at[d] / 128;
    return;
  case MOE_REF_ROW:
    break;
  }
  index[0] = way->grouped ? group : at[0];
  if (way->rank == 2)
    index[1] = way->grouped ? at[1] : 0;
  else
    index[1] = way->axis == 2 ? at[1] : at[2];
}

/* Group of a row; GROUPS for none. Offsets here never decrease. */
static int64_t group_of(const int32_t *ends, int64_t row) {
  int64_t group = 0;
  while (group < GROUPS && row >= ends[group])
    group++;
  return group;
}

typedef struct {
  const way_t *way;
  moe_ref_dtype_t input, element;
  bool pow2, sanitize;
  int32_t ends[GROUPS];
} case_t;

static float sanitized(const case_t *c, float x) {
  const float greatest = c->input == MOE_REF_BF16 ? f32_of(0x7F7F0000) : f32_of(0x7F7FFFFF);
  if (!c->sanitize)
    return x;
  return isnan(x) ? 0 : isinf(x) ? copysignf(greatest, x) : x;
}

/* Whether scale number i is in a row between those of two groups' blocks of tokens. */
static bool is_gap(const case_t *c, const moe_ref_tensor_t *scales, int64_t i) {
  if (!c->way->grouped || c->way->granularity != MOE_REF_1X128)
    return false;
  const int64_t row = i / scales->shape[1];
  for (int64_t g = 0; g < GROUPS; g++) {
    const int64_t start = g > 0 ? c->ends[g - 1] : 0, first = start / 128 + g;
    if (row >= first && row < first + blocks_of(c->ends[g] - start))
      return false;
  }
  return true;
}

static void quantize_naively(const case_t *c, const moe_ref_tensor_t *x, const moe_ref_tensor_t *q,
                             const moe_ref_tensor_t *scales, const moe_ref_tensor_t *factor) {
  int64_t at[MOE_REF_MAX_RANK], index[MOE_REF_MAX_RANK];
  const int64_t count = element_count(x), scale_count = element_count(scales);
  float amax[MAX_SCALES] = {0};
  assert_true(scale_count <= MAX_SCALES);
  for (int turn = 0; turn < 2; turn++) {
    for (int64_t i = 0; i < count; i++) {
      const float value = sanitized(c, element_get(x, offset_of(x, i, at)));
      const int64_t group = c->way->grouped ? group_of(c->ends, at[0]) : 0;
      if (group == GROUPS)
        continue;
      scale_index(c->way, c->ends, at, group, index);
      int64_t number = 0;
      for (int d = 0; d < scales->rank; d++)
        number = number * scales->shape[d] + index[d];
      if (turn == 0 && !isnan(amax[number]) && !(fabsf(value) <= amax[number]))
        amax[number] = fabsf(value);
      if (turn == 1)
        ((uint8_t *)q->data)[offset_at(q, at)] =
            oracle_fp8_from_f32(c->element, value * element_get(factor, offset_at(factor, index)));
    }
    for (int64_t i = 0; turn == 0 && i < scale_count; i++) {
      if (is_gap(c, scales, i))
        continue;
      const float f = moe_ref_fp8_factor(amax[i], c->pow2, c->element);
      ((float *)factor->data)[offset_of(factor, i, NULL)] = f;
      ((float *)scales->data)[offset_of(scales, i, NULL)] = 1 / f;
    }
  }
}

static moe_ref_tensor_t offsets(const case_t *c) {
  return (moe_ref_tensor_t){(void *)c->ends, MOE_REF_I32, 1, {GROUPS}, {1}};
}

/* NaN has many patterns. */
static void assert_same_scales(const buffer_t *found, const buffer_t *expected, const char *what) {
  const moe_ref_tensor_t *tensor = &found->tensor;
  for (int64_t i = 0; i < element_count(tensor); i++) {
    const int64_t at = offset_of(tensor, i, NULL);
    if (isnan(element_get(&expected->tensor, at)) && isnan(element_get(tensor, at)))
      ((float *)tensor->data)[at] = element_get(&expected->tensor, at);
  }
  assert_same_bytes(found, expected, what);
}

static void check_quantize(const case_t *c, const int64_t *shape, int turn, uint64_t seed) {
  int64_t of_scales[MOE_REF_MAX_RANK] = {0}, found_shape[MOE_REF_MAX_RANK];
  const way_t *way = c->way;
  const int scale_rank = scale_shape(way, shape, of_scales);
  const moe_ref_tensor_t offs = offsets(c);
  const moe_ref_fp8_scaling_t scaling = {way->granularity, way->axis,   way->grouped ? &offs : NULL,
                                         c->pow2,          c->sanitize, false};
  buffer_t x = buffer_make(c->input, way->rank, shape, turn % (way->rank + 1), turn % 3);
  buffer_t q[3], scales[3], factor[2];
  for (int i = 0; i < 3; i++) {
    q[i] = buffer_make(c->element, way->rank, shape, (turn + 1) % (way->rank + 1), 1);
    scales[i] = buffer_make(MOE_REF_F32, scale_rank, of_scales, turn % (scale_rank + 1), 2);
  }
  for (int i = 0; i < 2; i++)
    factor[i] = buffer_make(MOE_REF_F32, scale_rank, of_scales, 0, i == 0 ? 3 : 0);
  /* Else there is an Inf or NaN in every slice that is large: half of the tests go without. */
  uint64_t random = seed;
  const bool finite = random_next(&random) % 2 == 0;
  tensor_fill(&x.tensor, seed, 60 + (uint32_t)(seed * 37 % 180), finite);

  assert_int_equal(moe_ref_fp8_scale_shape(&x.tensor, &scaling, found_shape), scale_rank);
  assert_memory_equal(found_shape, of_scales, (size_t)scale_rank * sizeof *found_shape);
  quantize_naively(c, &x.tensor, &q[0].tensor, &scales[0].tensor, &factor[1].tensor);
  assert_int_equal(moe_ref_fp8_quantize(&x.tensor, &scaling, &q[1].tensor, &scales[1].tensor),
                   MOE_REF_OK);
  assert_same_scales(&scales[1], &scales[0], "scales");
  assert_same_bytes(&q[1], &q[0], "q");

  assert_int_equal(
      moe_ref_fp8_scale(&x.tensor, &scaling, c->element, &scales[2].tensor, &factor[0].tensor),
      MOE_REF_OK);
  assert_int_equal(moe_ref_fp8_cast(&x.tensor, &factor[0].tensor, &scaling, &q[2].tensor),
                   MOE_REF_OK);
  assert_same_scales(&scales[2], &scales[0], "scales of the first pass");
  assert_same_bytes(&q[2], &q[0], "q of the second pass");

  buffer_free(&x);
  for (int i = 0; i < 3; i++) {
    buffer_free(&q[i]);
    buffer_free(&scales[i]);
  }
  buffer_free(&factor[0]);
  buffer_free(&factor[1]);
}

/* Sizes that fill tiles and blocks, that do not, one more and one less, and nothing. */
static void quantizes_every_granularity(void **state) {
  (void)state;
  static const int64_t shapes2[][2] = {{70, 200}, {129, 128}, {128, 257}, {1, 300},
                                       {300, 1},  {33, 65},   {0, 5},     {5, 0}};
  static const int64_t shapes3[][3] = {{3, 70, 65}, {2, 129, 130}, {1, 128, 33}, {4, 1, 64},
                                       {5, 33, 1},  {2, 64, 128},  {0, 4, 4},    {2, 0, 3}};
  uint64_t seed = 1;
  for (int w = 0; w < WAYS; w++)
    for (int s = 0; s < 8; s++)
      for (int kind = 0; kind < 16; kind++, seed++) {
        const int64_t *shape = ways[w].rank == 2 ? shapes2[s] : shapes3[s];
        case_t c = {.way = &ways[w],
                    .input = kind % 2 == 0 ? MOE_REF_F32 : MOE_REF_BF16,
                    .element = kind / 2 % 2 == 0 ? MOE_REF_E4M3 : MOE_REF_E5M2,
                    .pow2 = kind / 4 % 2 == 0,
                    .sanitize = kind / 8 % 2 == 0};
        uint64_t random = seed;
        for (int g = 0; g < GROUPS;
             g++) { /* now and then an empty group; the last rows may be left */
          const int64_t last = g > 0 ? c.ends[g - 1] : 0;
          const int64_t next = last + (int64_t)(random_next(&random) % 4) * shape[0] / 8;
          c.ends[g] = (int32_t)(next < shape[0] ? next : shape[0]);
        }
        check_quantize(&c, shape, kind + s, seed);
      }
}

static void dequantizes_every_granularity(void **state) {
  (void)state;
  static const int64_t shape2[] = {70, 200}, shape3[] = {3, 70, 65};
  uint64_t random = 5;
  for (int w = 0; w < WAYS; w++)
    for (int kind = 0; kind < 8; kind++) {
      const way_t *way = &ways[w];
      const int64_t *shape = way->rank == 2 ? shape2 : shape3;
      const case_t c = {.way = way, .ends = {3, 3, 30, 41, 41, 64}};
      const moe_ref_tensor_t offs = offsets(&c);
      const moe_ref_fp8_scaling_t scaling = {.granularity = way->granularity,
                                             .axis = way->axis,
                                             .offs = way->grouped ? &offs : NULL,
                                             .sanitize = true};
      const moe_ref_dtype_t dtype = kind % 2 == 0 ? MOE_REF_F32 : MOE_REF_BF16;
      int64_t of_scales[MOE_REF_MAX_RANK];
      const int scale_rank = scale_shape(way, shape, of_scales);
      buffer_t q = buffer_make(kind / 2 % 2 == 0 ? MOE_REF_E4M3 : MOE_REF_E5M2, way->rank, shape,
                               kind % (way->rank + 1), 1);
      buffer_t scales = buffer_make(MOE_REF_F32, scale_rank, of_scales, 0, 1);
      buffer_t found = buffer_make(dtype, way->rank, shape, kind / 4, 2);
      buffer_t expected = buffer_make(dtype, way->rank, shape, kind / 4, 2);
      for (size_t i = 0; i < q.size; i++)
        q.bytes[i] = (uint8_t)random_next(&random);
      tensor_fill(&scales.tensor, random, 110, false);
      assert_int_equal(moe_ref_fp8_dequantize(&q.tensor, &scales.tensor, &scaling, &found.tensor),
                       MOE_REF_OK);
      for (int64_t i = 0; i < element_count(&q.tensor); i++) {
        int64_t at[MOE_REF_MAX_RANK], index[MOE_REF_MAX_RANK];
        const float element = element_get(&q.tensor, offset_of(&q.tensor, i, at));
        const int64_t group = way->grouped ? group_of(c.ends, at[0]) : 0;
        if (group == GROUPS)
          continue;
        scale_index(way, c.ends, at, group, index);
        const float value = element * element_get(&scales.tensor, offset_at(&scales.tensor, index));
        const int64_t target = offset_at(&expected.tensor, at);
        element_set(&expected.tensor, target, value);
        if (isnan(value) && isnan(element_get(&found.tensor, target)))
          element_set(&found.tensor, target, value);
      }
      assert_same_bytes(&found, &expected, "x");
      buffer_free(&q);
      buffer_free(&scales);
      buffer_free(&found);
      buffer_free(&expected);
    }
}

/* ---- Landmarks ---- */

/* Rows of four: zeros, Inf, NaN, values about 448, ties. */
static void quantizes_landmarks(void **state) {
  (void)state;
  enum { ROWS = 6, COLUMNS = 4 };
  float x[ROWS * COLUMNS] = {0,    -0.0f, 0,   0,        /* */
                             1,    -2,    3,   INFINITY, /* */
                             1,    NAN,   3,   4,        /* */
                             448,  -450,  1,   0,        /* */
                             -480, 1,     448, 0x1p-9f,  /* */
                             256,  17,    19,  -21};
  static const uint8_t expected[2][ROWS * COLUMNS] = {
      {0x00, 0x80, 0x00, 0x00, 0x00, 0x80, 0x00, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F,
       0x76, 0xF6, 0x30, 0x00, 0xF7, 0x30, 0x76, 0x00, 0x78, 0x58, 0x5A, 0xDA},
      {0x00, 0x80, 0x00, 0x00, 0x00, 0x80, 0x00, 0x7E, 0x78, 0x00, 0x7C, 0x7E}};
  static const uint32_t scales_expected[ROWS] = {0x27800000, 0x7F800000, 0x7FC00000,
                                                 0x40000000, 0x40000000, 0x3F800000};
  uint8_t q[ROWS * COLUMNS];
  float scales[ROWS];
  const moe_ref_tensor_t x_tensor = {x, MOE_REF_F32, 2, {ROWS, COLUMNS}, {COLUMNS, 1}};
  const moe_ref_tensor_t q_tensor = {q, MOE_REF_E4M3, 2, {ROWS, COLUMNS}, {COLUMNS, 1}};
  const moe_ref_tensor_t s_tensor = {scales, MOE_REF_F32, 1, {ROWS}, {1}};
  moe_ref_fp8_scaling_t scaling = {.granularity = MOE_REF_ROW, .axis = 1, .pow2 = true};
  assert_int_equal(moe_ref_fp8_quantize(&x_tensor, &scaling, &q_tensor, &s_tensor), MOE_REF_OK);
  for (int i = 0; i < ROWS; i++)
    assert_true(same_f32(scales[i], f32_of(scales_expected[i])));
  for (int i = 0; i < ROWS * COLUMNS; i++)
    if (q[i] != expected[0][i])
      fail_msg("q[%d] is 0x%02X, found 0x%02X", i, expected[0][i], q[i]);

  /* Sanitized, NaN is 0, and Inf the largest fp32: beside it all others are 0. */
  scaling.sanitize = true;
  x[3] = 0;
  assert_int_equal(moe_ref_fp8_quantize(&x_tensor, &scaling, &q_tensor, &s_tensor), MOE_REF_OK);
  assert_int_equal(q[7], 0x78); /* 2^128 less an ulp, times 2^-120: 256 */
  assert_int_equal(q[4], 0x00);
  assert_int_equal(q[5], 0x80);
  assert_true(same_f32(scales[1], 0x1p120f));
  assert_int_equal(q[8], 0x68); /* 1, 0, 3, 4 times 64 */
  assert_int_equal(q[9], 0x00);
  assert_int_equal(q[10], 0x74);
  assert_int_equal(q[11], 0x78);
  assert_true(same_f32(scales[2], 0x1p-6f));
}

/* Groups that begin within a tile, an empty one, and rows that are in none. */
static void separates_groups(void **state) {
  (void)state;
  enum { ROWS = 5, COLUMNS = 2, COUNT = 4 };
  float x[ROWS * COLUMNS] = {448, 1, 1, 2, 0x1p-3f, 4, 896, NAN, NAN, INFINITY};
  int32_t ends[COUNT] = {1, 3, 3, 4};
  uint8_t q[ROWS * COLUMNS];
  float scales[COUNT * COLUMNS];
  memset(q, CANARY, sizeof q);
  const moe_ref_tensor_t x_tensor = {x, MOE_REF_F32, 2, {ROWS, COLUMNS}, {COLUMNS, 1}};
  const moe_ref_tensor_t q_tensor = {q, MOE_REF_E4M3, 2, {ROWS, COLUMNS}, {1, ROWS}};
  const moe_ref_tensor_t offs = {ends, MOE_REF_I32, 1, {COUNT}, {1}};
  moe_ref_tensor_t s_tensor = {scales, MOE_REF_F32, 2, {COUNT, COLUMNS}, {COLUMNS, 1}};
  moe_ref_fp8_scaling_t scaling = {MOE_REF_ROW, 0, &offs, true, false, false};
  assert_int_equal(moe_ref_fp8_quantize(&x_tensor, &scaling, &q_tensor, &s_tensor), MOE_REF_OK);
  const float inverse[] = {1, 0x1p-8f, 0x1p-8f, 0x1p-6f, 0x1p-48f, 0x1p-48f, 2, NAN};
  for (int i = 0; i < COUNT * COLUMNS; i++)
    assert_true(same_f32(scales[i], inverse[i]));
  const uint8_t expected[ROWS * COLUMNS] = {0x7E, 0x78, 0x60, 0x7E, CANARY,
                                            0x78, 0x70, 0x78, 0x7F, CANARY};
  assert_memory_equal(q, expected, sizeof q);

  scaling.granularity = MOE_REF_GROUP;
  s_tensor = (moe_ref_tensor_t){scales, MOE_REF_F32, 1, {COUNT}, {1}};
  assert_int_equal(moe_ref_fp8_quantize(&x_tensor, &scaling, &q_tensor, &s_tensor), MOE_REF_OK);
  const float of_groups[] = {1, 0x1p-6f, 0x1p-48f, NAN};
  for (int i = 0; i < COUNT; i++)
    assert_true(same_f32(scales[i], of_groups[i]));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gives_factors),
      cmocka_unit_test(rounds_factors_once),
      cmocka_unit_test(quantizes_every_granularity),
      cmocka_unit_test(dequantizes_every_granularity),
      cmocka_unit_test(quantizes_landmarks),
      cmocka_unit_test(separates_groups),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
