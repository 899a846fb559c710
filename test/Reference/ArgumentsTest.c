/* ArgumentsTest.c - arguments that quantize and dequantize must refuse.
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(accepts_empty_tensors),
      cmocka_unit_test(rejects_bad_arguments),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
