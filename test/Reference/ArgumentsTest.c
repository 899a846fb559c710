/* ArgumentsTest.c - arguments that quantizers and layouts must refuse.
 *
 * Why it exists: a reference that reads past a tensor proves nothing; a refused call must leave
 * every byte alone.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "test/Reference/Buffers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

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

/* ---- FP8 with fp32 scales ---- */

enum { M = 4, K = 64, G = 2 };

typedef struct {
  moe_ref_tensor_t x, q, scales, factors, offs;
  moe_ref_fp8_scaling_t scaling;
} fp8_arguments_t;

/* What cases spoil of a valid call; false after the last one. */
static bool spoil_fp8(fp8_arguments_t *a, int how) {
  moe_ref_tensor_t *const tensors[] = {&a->x, &a->q, &a->scales, &a->factors, &a->offs};
  switch (how) {
  case 0:
    a->scaling.axis = -1;
    return true;
  case 1: /* the scales would be (M) */
    a->scaling.axis = 1;
    return true;
  case 2:
    a->scaling.axis = 2;
    return true;
  case 3:
    a->scaling.offs = NULL;
    return true;
  case 4:
    a->scaling.granularity = MOE_REF_TENSOR;
    return true;
  case 5:
    a->scaling.granularity = MOE_REF_EXPERT;
    return true;
  case 6: /* of the scales only the group is right */
    a->scaling.granularity = MOE_REF_GROUP;
    return true;
  case 7:
    a->scaling.granularity = MOE_REF_1X128;
    return true;
  case 8:
    a->scaling.granularity = MOE_REF_128X128;
    return true;
  case 9:
    a->scaling.granularity = (moe_ref_fp8_granularity_t)6;
    return true;
  case 10:
    a->x.dtype = MOE_REF_F16;
    return true;
  case 11:
    a->q.dtype = MOE_REF_E8M0;
    return true;
  case 12:
    a->scales.dtype = a->factors.dtype = MOE_REF_I32;
    return true;
  case 13:
    a->offs.dtype = MOE_REF_F32;
    return true;
  case 14:
    a->scales.shape[0] = a->factors.shape[0] = G + 1;
    return true;
  case 15:
    a->scales.shape[1] = a->factors.shape[1] = K - 1;
    return true;
  case 16:
    a->offs.shape[0] = G - 1;
    return true;
  case 17:
    a->x.shape[0] = -1;
    return true;
  case 18: /* an x of which q, the scales and the factors are none */
    a->x.shape[1]++;
    return true;
  case 19:
    a->q.shape[1]--;
    a->x.dtype = MOE_REF_I32; /* a call without q must fail too */
    return true;
  default: /* 20..29: each tensor without data, of rank 0 */
    if (how >= 30)
      return false;
    if (how % 2 == 0)
      tensors[how / 2 - 10]->data = NULL;
    else
      tensors[how / 2 - 10]->rank = 0;
    return true;
  }
}

static void rejects_bad_scalings(void **state) {
  (void)state;
  static float x[M * (K + 1)], scales[(G + 1) * K], factors[(G + 1) * K];
  static uint8_t q[M * K], canary[sizeof x];
  int32_t ends[] = {1, 3};
  memset(canary, CANARY, sizeof canary);
  memset(scales, CANARY, sizeof scales);
  memset(factors, CANARY, sizeof factors);
  memset(q, CANARY, sizeof q);
  fp8_arguments_t a;
  for (int how = 0;; how++) {
    a = (fp8_arguments_t){.x = {x, MOE_REF_F32, 2, {M, K}, {K, 1}},
                          .q = {q, MOE_REF_E4M3, 2, {M, K}, {1, M}},
                          .scales = {scales, MOE_REF_F32, 2, {G, K}, {K, 1}},
                          .factors = {factors, MOE_REF_F32, 2, {G, K}, {K, 1}},
                          .offs = {ends, MOE_REF_I32, 1, {G}, {1}},
                          .scaling = {MOE_REF_ROW, 0, &a.offs, true, true}};
    if (!spoil_fp8(&a, how))
      break;
    const bool no_q = how == 22 || how == 23 || how == 11;
    const bool no_scales = how == 24 || how == 25, no_factors = how == 26 || how == 27;
    const moe_ref_status_t found[] = {
        moe_ref_fp8_quantize(&a.x, &a.scaling, &a.q, &a.scales),
        moe_ref_fp8_dequantize(&a.q, &a.scales, &a.scaling, &a.x),
        moe_ref_fp8_scale(&a.x, &a.scaling, MOE_REF_E4M3, &a.scales, &a.factors),
        moe_ref_fp8_cast(&a.x, &a.factors, &a.scaling, &a.q),
    };
    /* What a function does not take it cannot refuse. */
    const bool indifferent[] = {no_factors, no_factors, no_q, no_scales};
    for (int i = 0; i < 4; i++)
      if (found[i] != MOE_REF_INVALID_ARGUMENT && !indifferent[i])
        fail_msg("function %d takes case %d", i, how);
    if (no_q || no_scales || no_factors) { /* the others wrote */
      memset(scales, CANARY, sizeof scales);
      memset(factors, CANARY, sizeof factors);
      memset(q, CANARY, sizeof q);
      memset(x, 0, sizeof x);
    }
    assert_memory_equal(scales, canary, sizeof scales);
    assert_memory_equal(factors, canary, sizeof factors);
    assert_memory_equal(q, canary, sizeof q);
  }
  assert_int_equal(moe_ref_fp8_scale(&a.x, &a.scaling, MOE_REF_BF16, &a.scales, &a.factors),
                   MOE_REF_INVALID_ARGUMENT);
  assert_int_equal(moe_ref_fp8_quantize(&a.x, NULL, &a.q, &a.scales), MOE_REF_INVALID_ARGUMENT);
  assert_int_equal(moe_ref_fp8_quantize(NULL, &a.scaling, &a.q, &a.scales),
                   MOE_REF_INVALID_ARGUMENT);
  assert_int_equal(moe_ref_fp8_quantize(&a.x, &a.scaling, &a.q, &a.scales), MOE_REF_OK);
}

/* ---- Layouts ---- */

static void rejects_bad_layouts(void **state) {
  (void)state;
  static uint8_t bytes[256 * 8];
  int32_t ends[] = {1, 3}, padded_ends[2];
  const moe_ref_tensor_t offs = {ends, MOE_REF_I32, 1, {2}, {1}},
                         floats = {ends, MOE_REF_F32, 1, {2}, {1}};
  const moe_ref_tensor_t scales = {bytes, MOE_REF_E8M0, 2, {4, 3}, {3, 1}};
  const moe_ref_tensor_t fp8 = {bytes, MOE_REF_E4M3, 2, {4, 3}, {3, 1}};
  const moe_ref_tensor_t flat = {bytes, MOE_REF_E8M0, 1, {4}, {1}};
  static const struct {
    int64_t rows, columns;
    bool grouped, fits;
  } packed[] = {{128, 4, false, true},  {128, 8, false, false}, {256, 4, false, false},
                {128, 3, false, false}, {384, 4, true, true},   {128, 4, true, false}};
  static uint8_t target[384 * 8];
  for (size_t i = 0; i < sizeof packed / sizeof *packed; i++) {
    const moe_ref_tensor_t to = {
        target, MOE_REF_E8M0, 2, {packed[i].rows, packed[i].columns}, {packed[i].columns, 1}};
    assert_int_equal(moe_ref_pack_scales(&scales, packed[i].grouped ? &offs : NULL, &to),
                     packed[i].fits ? MOE_REF_OK : MOE_REF_INVALID_ARGUMENT);
    assert_int_equal(moe_ref_pack_scales(&fp8, NULL, &to), MOE_REF_INVALID_ARGUMENT);
    assert_int_equal(moe_ref_pack_scales(&flat, NULL, &to), MOE_REF_INVALID_ARGUMENT);
    assert_int_equal(moe_ref_pack_scales(&scales, &floats, &to), MOE_REF_INVALID_ARGUMENT);
    assert_int_equal(moe_ref_pack_scales(&scales, NULL, NULL), MOE_REF_INVALID_ARGUMENT);
  }

  const moe_ref_tensor_t padded_offs = {padded_ends, MOE_REF_I32, 1, {2}, {1}};
  const moe_ref_tensor_t one = {padded_ends, MOE_REF_I32, 1, {1}, {1}};
  const moe_ref_tensor_t padded = {target, MOE_REF_E4M3, 2, {24, 3}, {3, 1}};
  const moe_ref_tensor_t wide = {target, MOE_REF_E4M3, 2, {24, 4}, {4, 1}};
  const moe_ref_tensor_t other = {target, MOE_REF_E5M2, 2, {24, 3}, {3, 1}};
  const moe_ref_status_t refused = MOE_REF_INVALID_ARGUMENT;
  assert_int_equal(moe_ref_pad_groups(&fp8, &offs, 8, &padded, &padded_offs), MOE_REF_OK);
  assert_int_equal(moe_ref_pad_groups(&fp8, &offs, 7, &padded, &padded_offs), refused);
  assert_int_equal(moe_ref_pad_groups(&fp8, &offs, 0, &padded, &padded_offs), refused);
  assert_int_equal(moe_ref_pad_groups(&fp8, &offs, 8, &wide, &padded_offs), refused);
  assert_int_equal(moe_ref_pad_groups(&fp8, &offs, 8, &other, &padded_offs), refused);
  assert_int_equal(moe_ref_pad_groups(&fp8, &offs, 8, &padded, &one), refused);
  assert_int_equal(moe_ref_pad_groups(&fp8, &floats, 8, &padded, &padded_offs), refused);
  assert_int_equal(moe_ref_pad_offsets(&offs, INT32_MAX, 8, &padded_offs), refused);
  assert_int_equal(moe_ref_pad_offsets(&offs, 4, INT64_MAX, &padded_offs), refused);
  assert_int_equal(moe_ref_unpad_groups(&padded, &offs, &padded_offs, &fp8), refused);
  assert_int_equal(moe_ref_unpad_groups(&padded, &offs, &one, &padded), refused);
  assert_int_equal(moe_ref_unpad_groups(&padded, &offs, &padded_offs, &other), refused);
}

static void knows_names(void **state) {
  (void)state;
  static const char *const names[] = {"row", "tensor", "expert", "group", "1x128", "128x128"};
  for (int i = 0; i < 6; i++)
    assert_int_equal(moe_ref_fp8_granularity_from_name(names[i]), i);
  assert_int_equal(moe_ref_fp8_granularity_from_name("block"), -1);
  assert_int_equal(moe_ref_fp8_granularity_from_name(NULL), -1);
}

static void has_no_scale_of_others(void **state) {
  (void)state;
  assert_int_equal(moe_ref_mx_scale(448, MOE_REF_RCEIL, MOE_REF_E4M3), 127);
  assert_int_equal(moe_ref_mx_scale(448, MOE_REF_RCEIL, MOE_REF_F32), 255);
  assert_int_equal(moe_ref_mx_scale(448, (moe_ref_mx_mode_t)99, MOE_REF_E4M3), 255);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(accepts_empty_tensors), cmocka_unit_test(rejects_bad_arguments),
      cmocka_unit_test(rejects_bad_scalings),  cmocka_unit_test(rejects_bad_layouts),
      cmocka_unit_test(knows_names),           cmocka_unit_test(has_no_scale_of_others),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
