/* FormatsTest.c - the casts, at every value where their result changes.
 *
 * Why it exists: it needs no CUDA header, and it says from the definition of a format which cast is
 * wrong.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "test/Reference/Oracle.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const moe_ref_dtype_t fp8_formats[] = {MOE_REF_E4M3, MOE_REF_E5M2};

static const char *name_of(moe_ref_dtype_t format) {
  return format == MOE_REF_E4M3 ? "E4M3" : "E5M2";
}

static uint8_t fp8_from_f32(moe_ref_dtype_t format, float x) {
  return format == MOE_REF_E4M3 ? moe_ref_e4m3_from_f32(x) : moe_ref_e5m2_from_f32(x);
}

static float f32_from_fp8(moe_ref_dtype_t format, uint8_t byte) {
  return format == MOE_REF_E4M3 ? moe_ref_f32_from_e4m3(byte) : moe_ref_f32_from_e5m2(byte);
}

static void decodes_every_fp8_byte(void **state) {
  (void)state;
  for (int f = 0; f < 2; f++)
    for (int byte = 0; byte < 256; byte++) {
      const float expected = (float)oracle_fp8_value(fp8_formats[f], (uint8_t)byte);
      const float found = f32_from_fp8(fp8_formats[f], (uint8_t)byte);
      if (!same_f32(found, expected))
        fail_msg("%s byte 0x%02X is %a, found %a", name_of(fp8_formats[f]), byte, expected, found);
    }
}

static void decodes_every_e8m0_byte(void **state) {
  (void)state;
  for (int byte = 0; byte < 255; byte++)
    assert_true(same_f32(moe_ref_f32_from_e8m0((uint8_t)byte), ldexpf(1, byte - 127)));
  assert_true(isnan(moe_ref_f32_from_e8m0(255)));
}

static void check_fp8(moe_ref_dtype_t format, float x) {
  const uint8_t expected = oracle_fp8_from_f32(format, x);
  const uint8_t found = fp8_from_f32(format, x);
  if (found != expected)
    fail_msg("%s of %a (0x%08X) is 0x%02X, found 0x%02X", name_of(format), x, bits_of(x), expected,
             found);
}

static void check_fp8_around(moe_ref_dtype_t format, double magnitude) {
  for (int sign = -1; sign <= 1; sign += 2) {
    const float x = (float)(sign * magnitude);
    check_fp8(format, x);
    check_fp8(format, nextafterf(x, INFINITY));
    check_fp8(format, nextafterf(x, -INFINITY));
  }
}

/* A monotonic cast that is right at each value, at each midpoint and beside both is right
 * everywhere. */
static void rounds_to_nearest_even(void **state) {
  (void)state;
  for (int f = 0; f < 2; f++) {
    const moe_ref_dtype_t format = fp8_formats[f];
    const double max = oracle_fp8_max(format);
    double previous = 0;
    for (int code = 0; oracle_fp8_value(format, (uint8_t)code) <= max && code < 0x7F; code++) {
      const double value = oracle_fp8_value(format, (uint8_t)code);
      check_fp8_around(format, value);
      check_fp8_around(format, (previous + value) / 2);
      previous = value;
    }
  }
}

static void saturates_and_keeps_nan(void **state) {
  (void)state;
  static const float large[] = {464, 465, 480, 512, 61440, 65536, 0x1p100f, 0x1.FFFFFEp127f};
  for (size_t i = 0; i < sizeof large / sizeof *large; i++)
    for (int f = 0; f < 2; f++) {
      check_fp8(fp8_formats[f], large[i]);
      check_fp8(fp8_formats[f], -large[i]);
    }
  assert_int_equal(moe_ref_e4m3_from_f32(INFINITY), 0x7E);
  assert_int_equal(moe_ref_e4m3_from_f32(-INFINITY), 0xFE);
  assert_int_equal(moe_ref_e5m2_from_f32(INFINITY), 0x7B);
  assert_int_equal(moe_ref_e5m2_from_f32(-INFINITY), 0xFB);
  static const uint32_t nans[] = {0x7F800001, 0x7FC00000, 0x7FFFFFFF,
                                  0xFF800001, 0xFFC00000, 0xFFFFFFFF};
  for (size_t i = 0; i < sizeof nans / sizeof *nans; i++) {
    assert_int_equal(moe_ref_e4m3_from_f32(f32_of(nans[i])), 0x7F);
    assert_int_equal(moe_ref_e5m2_from_f32(f32_of(nans[i])), 0x7F);
    assert_int_equal(moe_ref_bf16_from_f32(f32_of(nans[i])), 0x7FFF);
  }
}

static void casts_every_bf16(void **state) {
  (void)state;
  for (uint32_t bits = 0; bits < 65536; bits++) {
    const float x = moe_ref_f32_from_bf16((uint16_t)bits);
    if (bits_of(x) != bits << 16)
      fail_msg("bf16 0x%04X is 0x%08X, found 0x%08X", bits, bits << 16, bits_of(x));
    check_fp8(MOE_REF_E4M3, x);
    check_fp8(MOE_REF_E5M2, x);
  }
}

/* The result depends on the discarded half only through its comparison with a half, so six of them
 * are all of them. */
static void rounds_every_bf16(void **state) {
  (void)state;
  static const uint32_t discarded[] = {0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF};
  for (uint32_t kept = 0; kept < 65536; kept++)
    for (size_t i = 0; i < sizeof discarded / sizeof *discarded; i++) {
      const float x = f32_of(kept << 16 | discarded[i]);
      const uint16_t expected = oracle_bf16_from_f32(x), found = moe_ref_bf16_from_f32(x);
      if (found != expected)
        fail_msg("bf16 of 0x%08X is 0x%04X, found 0x%04X", bits_of(x), expected, found);
    }
}

static void check_f16(float x) {
  const uint16_t expected = oracle_f16_from_f32(x), found = moe_ref_f16_from_f32(x);
  if (found != expected)
    fail_msg("f16 of %a (0x%08X) is 0x%04X, found 0x%04X", x, bits_of(x), expected, found);
}

/* As for 8 bits: at each value, at each midpoint and beside both. The last midpoint is where Inf
 * begins. */
static void casts_every_f16(void **state) {
  (void)state;
  for (int code = 0; code < 65536; code++) {
    const float expected = (float)oracle_f16_value((uint16_t)code);
    const float found = moe_ref_f32_from_f16((uint16_t)code);
    if (!same_f32(found, expected))
      fail_msg("f16 0x%04X is %a, found %a", code, expected, found);
    if (code % 32768 > 0x7BFF)
      continue;
    const float next = code % 32768 == 0x7BFF ? copysignf(65536, expected)
                                              : (float)oracle_f16_value((uint16_t)(code + 1));
    const float points[] = {expected, (expected + next) / 2};
    for (int i = 0; i < 2; i++) {
      check_f16(points[i]);
      check_f16(nextafterf(points[i], INFINITY));
      check_f16(nextafterf(points[i], -INFINITY));
    }
  }
  check_f16(65536);
  check_f16(-0x1.FFFFFEp127f);
  check_f16(INFINITY);
  check_f16(-INFINITY);
  assert_int_equal(moe_ref_f16_from_f32(-65520), 0xFC00);
  assert_int_equal(moe_ref_f16_from_f32(f32_of(0xFF800001)), 0x7FFF);
  assert_int_equal(moe_ref_f16_from_f32(f32_of(0x7FFFFFFF)), 0x7FFF);
}

static void finds_names(void **state) {
  (void)state;
  assert_int_equal(moe_ref_dtype_from_name("f32"), MOE_REF_F32);
  assert_int_equal(moe_ref_dtype_from_name("bf16"), MOE_REF_BF16);
  assert_int_equal(moe_ref_dtype_from_name("f8E4M3FN"), MOE_REF_E4M3);
  assert_int_equal(moe_ref_dtype_from_name("f8E5M2"), MOE_REF_E5M2);
  assert_int_equal(moe_ref_dtype_from_name("f8E8M0FNU"), MOE_REF_E8M0);
  assert_int_equal(moe_ref_dtype_from_name("f16"), MOE_REF_F16);
  assert_int_equal(moe_ref_dtype_from_name("i32"), MOE_REF_I32);
  assert_int_equal(moe_ref_dtype_from_name("f8E4M3"), -1);
  assert_int_equal(moe_ref_dtype_from_name(""), -1);
  assert_int_equal(moe_ref_dtype_from_name(NULL), -1);

  assert_int_equal(moe_ref_mx_mode_from_name("floor"), MOE_REF_FLOOR);
  assert_int_equal(moe_ref_mx_mode_from_name("rceil"), MOE_REF_RCEIL);
  assert_int_equal(moe_ref_mx_mode_from_name("ceil"), MOE_REF_CEIL);
  assert_int_equal(moe_ref_mx_mode_from_name("even"), MOE_REF_EVEN);
  assert_int_equal(moe_ref_mx_mode_from_name("RCEIL"), -1);
  assert_int_equal(moe_ref_mx_mode_from_name(NULL), -1);

  assert_int_equal(moe_ref_accumulation_from_name("fast"), MOE_REF_FAST);
  assert_int_equal(moe_ref_accumulation_from_name("promoted"), MOE_REF_PROMOTED);
  assert_int_equal(moe_ref_accumulation_from_name("slow"), -1);
  assert_int_equal(moe_ref_accumulation_from_name(NULL), -1);

  assert_int_equal(moe_ref_dtype_bits(MOE_REF_F16), 16);
  assert_int_equal(moe_ref_dtype_bits(MOE_REF_I32), 32);
  assert_int_equal(moe_ref_dtype_bits(MOE_REF_F32), 32);
  assert_int_equal(moe_ref_dtype_bits(MOE_REF_BF16), 16);
  assert_int_equal(moe_ref_dtype_bits(MOE_REF_E4M3), 8);
  assert_int_equal(moe_ref_dtype_bits(MOE_REF_E5M2), 8);
  assert_int_equal(moe_ref_dtype_bits(MOE_REF_E8M0), 8);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(decodes_every_fp8_byte), cmocka_unit_test(decodes_every_e8m0_byte),
      cmocka_unit_test(rounds_to_nearest_even), cmocka_unit_test(saturates_and_keeps_nan),
      cmocka_unit_test(casts_every_bf16),       cmocka_unit_test(rounds_every_bf16),
      cmocka_unit_test(casts_every_f16),        cmocka_unit_test(finds_names),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
