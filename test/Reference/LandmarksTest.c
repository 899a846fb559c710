/* LandmarksTest.c - blocks whose scale and bytes were worked out by hand from the contract.
 *
 * Why it exists: the table is the contract in examples. docs/numerics.md explains the less obvious
 * rows.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "test/Reference/Oracle.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { BLOCK = 32, ODD_ONE = 17 };

typedef struct {
  moe_ref_dtype_t element;
  moe_ref_mx_mode_t mode;
  uint32_t one, others; /* fp32 bits: element ODD_ONE of the block, and all others */
  uint8_t scale, q_one, q_others;
} landmark_t;

#define E4 MOE_REF_E4M3
#define E5 MOE_REF_E5M2
#define FLOOR MOE_REF_FLOOR
#define RCEIL MOE_REF_RCEIL
#define CEIL MOE_REF_CEIL
#define EVEN MOE_REF_EVEN

/* clang-format off */
static const landmark_t landmarks[] = {
    /* Zero, and its sign. */
    {E4, FLOOR, 0x00000000, 0x00000000,   0, 0x00, 0x00},
    {E4, RCEIL, 0x00000000, 0x00000000,   0, 0x00, 0x00},
    {E4, CEIL,  0x00000000, 0x00000000,   0, 0x00, 0x00},
    {E4, EVEN,  0x00000000, 0x00000000,   0, 0x00, 0x00},
    {E5, RCEIL, 0x00000000, 0x00000000,   0, 0x00, 0x00},
    {E4, RCEIL, 0x80000000, 0x00000000,   0, 0x80, 0x00},
    {E5, RCEIL, 0x80000000, 0x80000000,   0, 0x80, 0x80},
    {E4, RCEIL, 0x80000000, 0x3F800000, 119, 0x80, 0x78},

    /* One: 2^8 after scaling, 2^15 for E5M2. */
    {E4, FLOOR, 0x3F800000, 0x3F800000, 119, 0x78, 0x78},
    {E4, RCEIL, 0x3F800000, 0x3F800000, 119, 0x78, 0x78},
    {E4, CEIL,  0x3F800000, 0x3F800000, 119, 0x78, 0x78},
    {E4, EVEN,  0x3F800000, 0x3F800000, 119, 0x78, 0x78},
    {E5, FLOOR, 0x3F800000, 0xBF800000, 112, 0x78, 0xF8},
    {E5, RCEIL, 0x3F800000, 0xBF800000, 112, 0x78, 0xF8},
    {E5, CEIL,  0x3F800000, 0xBF800000, 112, 0x78, 0xF8},
    {E5, EVEN,  0x3F800000, 0xBF800000, 112, 0x78, 0xF8},

    /* Inf and NaN take the whole block with them. */
    {E4, FLOOR, 0x7F800000, 0x3F800000, 255, 0x7F, 0x7F},
    {E4, RCEIL, 0xFF800000, 0x3F800000, 255, 0x7F, 0x7F},
    {E4, CEIL,  0x7F800000, 0x3F800000, 255, 0x7F, 0x7F},
    {E4, EVEN,  0xFF800000, 0x3F800000, 255, 0x7F, 0x7F},
    {E4, FLOOR, 0x7FC00000, 0x3F800000, 255, 0x7F, 0x7F},
    {E4, RCEIL, 0xFFC00000, 0x00000000, 255, 0x7F, 0x7F},
    {E4, CEIL,  0x7FFFFFFF, 0x3F800000, 255, 0x7F, 0x7F},
    {E4, EVEN,  0xFFFFFFFF, 0x3F800000, 255, 0x7F, 0x7F},
    {E4, RCEIL, 0x7FC00000, 0x7F800000, 255, 0x7F, 0x7F},
    {E5, FLOOR, 0x7F800000, 0x3F800000, 255, 0x7F, 0x7F},
    {E5, RCEIL, 0x7FC00000, 0x3F800000, 255, 0x7F, 0x7F},

    /* 448 is the largest E4M3; one ulp more needs the next scale where the mode rounds up. */
    {E4, FLOOR, 0x43E00000, 0x3F800000, 127, 0x7E, 0x38},
    {E4, RCEIL, 0x43E00000, 0x3F800000, 127, 0x7E, 0x38},
    {E4, RCEIL, 0x43E00001, 0x3F800000, 128, 0x76, 0x30},
    {E4, CEIL,  0x43E00000, 0x3F800000, 128, 0x76, 0x30},
    {E4, EVEN,  0x43E00000, 0x3F800000, 127, 0x7E, 0x38},

    /* 480 saturates where the scale was rounded down. */
    {E4, FLOOR, 0x43F00000, 0x3F800000, 127, 0x7E, 0x38},
    {E4, RCEIL, 0x43F00000, 0x3F800000, 128, 0x77, 0x30},
    {E4, CEIL,  0x43F00000, 0x3F800000, 128, 0x77, 0x30},
    {E4, EVEN,  0x43F00000, 0x3F800000, 127, 0x7E, 0x38},
    {E4, FLOOR, 0xC3F00000, 0x3F800000, 127, 0xFE, 0x38},
    {E4, RCEIL, 0xC3F00000, 0xBF800000, 128, 0xF7, 0xB0},

    /* EVEN: 496 = 1.9375 * 2^8 is the first to carry to 2^9. Then 248 is a tie and goes to 256. */
    {E4, EVEN,  0x43F80000, 0x3F800000, 128, 0x78, 0x30},
    {E4, EVEN,  0x43F7FFFF, 0x3F800000, 127, 0x7E, 0x38},

    /* CEIL: an exact power of two stays, one ulp more does not. */
    {E4, CEIL,  0x43800000, 0x3F800000, 127, 0x78, 0x38},
    {E4, CEIL,  0x43800001, 0x3F800000, 128, 0x70, 0x30},
    {E4, RCEIL, 0x43800001, 0x3F800000, 127, 0x78, 0x38},

    /* The largest fp32. */
    {E4, FLOOR, 0x7F7FFFFF, 0x3F800000, 246, 0x7E, 0x00},
    {E4, RCEIL, 0x7F7FFFFF, 0xBF800000, 247, 0x78, 0x80},
    {E4, CEIL,  0x7F7FFFFF, 0x3F800000, 247, 0x78, 0x00},
    {E4, EVEN,  0x7F7FFFFF, 0x3F800000, 255, 0x7F, 0x7F},
    {E4, EVEN,  0x7F780000, 0x3F800000, 255, 0x7F, 0x7F},
    {E4, EVEN,  0x7F77FFFF, 0x3F800000, 246, 0x7E, 0x00},
    {E5, FLOOR, 0x7F7FFFFF, 0x3F800000, 239, 0x7B, 0x00},
    {E5, RCEIL, 0x7F7FFFFF, 0x3F800000, 240, 0x78, 0x00},
    {E5, EVEN,  0x7F7FFFFF, 0x3F800000, 255, 0x7F, 0x7F},

    /* The least normal fp32, and subnormals: 2^127 lifts them into range, and none is flushed. */
    {E4, FLOOR, 0x00800000, 0x00800000,   0, 0x40, 0x40},
    {E4, RCEIL, 0x00800000, 0x00800000,   0, 0x40, 0x40},
    {E4, CEIL,  0x00800000, 0x00800000,   0, 0x40, 0x40},
    {E4, EVEN,  0x00800000, 0x00800000,   0, 0x40, 0x40},
    {E5, FLOOR, 0x00800000, 0x00800000,   0, 0x40, 0x40},
    {E4, RCEIL, 0x007FFFFF, 0x80400000,   0, 0x40, 0xB8},
    {E4, CEIL,  0x00400000, 0x00200000,   0, 0x38, 0x30},
    {E4, RCEIL, 0x00002000, 0x00001000,   0, 0x01, 0x00},
    {E4, RCEIL, 0x00001001, 0x80001001,   0, 0x01, 0x81},
    {E5, RCEIL, 0x00000040, 0x00000020,   0, 0x01, 0x00},
    {E5, RCEIL, 0x00000021, 0x00000001,   0, 0x01, 0x00},
    {E4, RCEIL, 0x04E00000, 0x00400000,   1, 0x7E, 0x30},

    /* Around the least scale, 2^-127: d is an fp32 subnormal. 0x04600000 is 448 * 2^-127. */
    {E4, RCEIL, 0x04000000, 0x00000000,   0, 0x78, 0x00},
    {E4, RCEIL, 0x04600000, 0x00000000,   0, 0x7E, 0x00},
    {E4, RCEIL, 0x04600001, 0x00000000,   0, 0x7E, 0x00},
    {E4, RCEIL, 0x04600002, 0x00000000,   1, 0x76, 0x00},
    {E4, RCEIL, 0x04700000, 0x00000000,   1, 0x77, 0x00},
    {E4, FLOOR, 0x047FFFFE, 0x00000000,   0, 0x7E, 0x00},
    {E4, FLOOR, 0x047FFFFF, 0x00000000,   1, 0x78, 0x00},
    {E4, FLOOR, 0x04800000, 0x00000000,   1, 0x78, 0x00},
    {E4, CEIL,  0x047FFFFF, 0x00000000,   1, 0x78, 0x00},
    {E4, CEIL,  0x04000000, 0x00000000,   0, 0x78, 0x00},
    {E4, EVEN,  0x047FFFFF, 0x00000000,   1, 0x78, 0x00},
    {E5, RCEIL, 0x07E00001, 0x00000000,   0, 0x7B, 0x00},
    {E5, RCEIL, 0x07E00002, 0x00000000,   1, 0x77, 0x00},
    {E5, FLOOR, 0x07FFFFFE, 0x00000000,   0, 0x7B, 0x00},
    {E5, FLOOR, 0x07FFFFFF, 0x00000000,   1, 0x78, 0x00},

    /* E5M2: 57344 is the largest; 61440 saturates or becomes a tie; CEIL and EVEN as above. */
    {E5, RCEIL, 0x47600000, 0x3F800000, 127, 0x7B, 0x3C},
    {E5, RCEIL, 0x47600001, 0x3F800000, 128, 0x77, 0x38},
    {E5, FLOOR, 0x47700000, 0x3F800000, 127, 0x7B, 0x3C},
    {E5, RCEIL, 0xC7700000, 0x3F800000, 128, 0xF8, 0x38},
    {E5, EVEN,  0x47700000, 0x3F800000, 128, 0x78, 0x38},
    {E5, EVEN,  0x476FFFFF, 0x3F800000, 127, 0x7B, 0x3C},
    {E5, CEIL,  0x47600000, 0x3F800000, 128, 0x77, 0x38},
    {E5, CEIL,  0x47000000, 0x3F800000, 127, 0x78, 0x3C},
    {E5, CEIL,  0x47000001, 0x3F800000, 128, 0x74, 0x38},
};
/* clang-format on */

static void check(const landmark_t *landmark, moe_ref_dtype_t dtype) {
  float wide[BLOCK];
  uint16_t narrow[BLOCK];
  uint8_t q[BLOCK], scale = 0xA5;
  memset(q, 0xA5, sizeof q);
  for (int i = 0; i < BLOCK; i++) {
    const uint32_t bits = i == ODD_ONE ? landmark->one : landmark->others;
    wide[i] = f32_of(bits);
    narrow[i] = (uint16_t)(bits >> 16);
  }

  const moe_ref_tensor_t x = {dtype == MOE_REF_F32 ? (void *)wide : narrow, dtype, 1, {BLOCK}, {1}};
  const moe_ref_tensor_t q_tensor = {q, landmark->element, 1, {BLOCK}, {1}};
  const moe_ref_tensor_t scales = {&scale, MOE_REF_E8M0, 1, {1}, {1}};
  assert_int_equal(moe_ref_mx_quantize(&x, 0, BLOCK, landmark->mode, &q_tensor, &scales),
                   MOE_REF_OK);

  const long row = landmark - landmarks;
  if (scale != landmark->scale)
    fail_msg("row %ld: scale is %d, found %d", row, landmark->scale, scale);
  for (int i = 0; i < BLOCK; i++) {
    const uint8_t expected = i == ODD_ONE ? landmark->q_one : landmark->q_others;
    if (q[i] != expected)
      fail_msg("row %ld: q[%d] is 0x%02X, found 0x%02X", row, i, expected, q[i]);
  }
}

static void quantizes_landmarks(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof landmarks / sizeof *landmarks; i++) {
    check(&landmarks[i], MOE_REF_F32);
    if ((landmarks[i].one | landmarks[i].others) % 65536 == 0)
      check(&landmarks[i], MOE_REF_BF16);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(quantizes_landmarks)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
