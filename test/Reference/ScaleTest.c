/* ScaleTest.c - the scale of a block and its reciprocal, for amax of every fp32 exponent.
 *
 * Why it exists: one wrong scale shifts 32 elements. The oracle works with exact products and
 * powers of two; the integer forms at the end are those a kernel would use, and the test shows
 * where they may stand in for the contract.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "test/Reference/Oracle.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define MOE_MX_MODE(symbol, name) name,
static const char *const mode_names[] = {
#include "moe/mx_modes.def"
};
#define MOE_MX_MODE(symbol, name) MOE_REF_##symbol,
static const moe_ref_mx_mode_t modes[] = {
#include "moe/mx_modes.def"
};
enum { MODES = sizeof modes / sizeof *modes };

static const moe_ref_dtype_t elements[] = {MOE_REF_E4M3, MOE_REF_E5M2};

static void check_all_modes(uint32_t bits) {
  for (int m = 0; m < MODES; m++)
    for (int e = 0; e < 2; e++) {
      const uint8_t expected = oracle_mx_scale(f32_of(bits), modes[m], elements[e]);
      const uint8_t found = moe_ref_mx_scale(f32_of(bits), modes[m], elements[e]);
      if (found != expected)
        fail_msg("%s of amax 0x%08X for %s is %d, found %d", mode_names[m], bits,
                 e == 0 ? "E4M3" : "E5M2", expected, found);
    }
}

/* Every setting of the mantissa's upper bits, with the lower ones at both ends: all carries of
 * EVEN, the bounds of CEIL, and of RCEIL the mantissa of 448 are among them. */
static void scales_every_exponent(void **state) {
  (void)state;
  for (uint32_t exponent = 0; exponent < 256; exponent++)
    for (uint32_t upper = 0; upper < 128; upper++)
      for (int32_t lower = -2; lower <= 2; lower++) {
        const uint32_t mantissa = ((upper << 16) + (uint32_t)lower) & 0x7FFFFF;
        check_all_modes(exponent << 23 | mantissa);
      }
}

static void scales_random_amax(void **state) {
  (void)state;
  uint64_t random = 1;
  for (int i = 0; i < 50000; i++)
    check_all_modes((uint32_t)random_next(&random) & 0x7FFFFFFF);
}

static void refuses_nan_and_inf(void **state) {
  (void)state;
  static const uint32_t special[] = {0x7F800000, 0x7F800001, 0x7FC00000, 0x7FFFFFFF,
                                     0xFF800000, 0xFF800001, 0xFFC00000, 0xFFFFFFFF};
  for (size_t i = 0; i < sizeof special / sizeof *special; i++)
    for (int m = 0; m < MODES; m++)
      for (int e = 0; e < 2; e++)
        assert_int_equal(moe_ref_mx_scale(f32_of(special[i]), modes[m], elements[e]), 255);
}

static void reciprocals(void **state) {
  (void)state;
  for (int scale = 0; scale < 255; scale++) {
    const float expected = ldexpf(1, 127 - scale), found = moe_ref_mx_reciprocal((uint8_t)scale);
    if (!same_f32(found, expected))
      fail_msg("reciprocal of scale %d is %a, found %a", scale, expected, found);
  }
  assert_true(isnan(moe_ref_mx_reciprocal(255)));
}

/* exponent field - shift + carry, clamped at 0: what a kernel without a cast to E8M0 computes. */
static int integer_form(uint32_t amax, int shift, uint32_t carry_above) {
  const int scale = (int)(amax >> 23) - shift + ((amax & 0x7FFFFF) > carry_above ? 1 : 0);
  return scale > 0 ? scale : 0;
}

/* Where d is a normal number only the mantissa matters, so one exponent stands for all; below,
 * every amax is tried. The other exponents are sampled. */
static uint32_t stride_at(uint32_t exponent) {
#ifdef MOE_TEST_SANITIZE
  (void)exponent;
  return 1009;
#else
  return exponent < 20 || exponent == 127 ? 1 : 1009;
#endif
}

/* The integer form differs from the contract at `exception` and at no other finite amax. */
static void check_integer_form(moe_ref_mx_mode_t mode, moe_ref_dtype_t element, int shift,
                               uint32_t carry_above, uint32_t exception) {
  assert_int_not_equal(integer_form(exception, shift, carry_above),
                       moe_ref_mx_scale(f32_of(exception), mode, element));
  for (uint32_t amax = 0; amax < 0x7F800000; amax += stride_at(amax >> 23)) {
    const int expected = moe_ref_mx_scale(f32_of(amax), mode, element);
    if (amax != exception && integer_form(amax, shift, carry_above) != expected)
      fail_msg("amax 0x%08X has scale %d", amax, expected);
  }
  print_message("every %uth amax tried, every %uth below 2^-107\n", stride_at(20), stride_at(0));
}

static void integer_form_of_rceil(void **state) {
  (void)state;
  check_integer_form(MOE_REF_RCEIL, MOE_REF_E4M3, 8, 0x600000, 0x04600001);
  check_integer_form(MOE_REF_RCEIL, MOE_REF_E5M2, 15, 0x600000, 0x07E00001);
}

static void integer_form_of_floor(void **state) {
  (void)state;
  check_integer_form(MOE_REF_FLOOR, MOE_REF_E4M3, 8, 0x7FFFFF, 0x047FFFFF);
  check_integer_form(MOE_REF_FLOOR, MOE_REF_E5M2, 15, 0x7FFFFF, 0x07FFFFFF);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(scales_every_exponent), cmocka_unit_test(scales_random_amax),
      cmocka_unit_test(refuses_nan_and_inf),   cmocka_unit_test(reciprocals),
      cmocka_unit_test(integer_form_of_rceil), cmocka_unit_test(integer_form_of_floor),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
