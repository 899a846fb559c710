/* ExhaustiveTest.c - every fp32 value cast to an 8-bit float, against the CUDA toolkit's
 * cuda_fp8.h.
 *
 * Why it exists: NVIDIA's header defines what the hardware's casts do, and 2^32 values are few
 * enough to try them all. Built once per format: MOE_TEST_E4M3 or MOE_TEST_E5M2. Without the header
 * (MOE_TEST_CUDA_FP8 not defined) it skips.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "test/Reference/Oracle.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#ifdef MOE_TEST_CUDA_FP8

#include <cuda_fp8.h>

#ifdef MOE_TEST_E4M3
#define FORMAT __NV_E4M3
#define FIRST_NAN 0x7F
#define CAST moe_ref_e4m3_from_f32
#else
#define FORMAT __NV_E5M2
#define FIRST_NAN 0x7D
#define CAST moe_ref_e5m2_from_f32
#endif

/* Sanitizers make this loop many times slower; a prime stride still meets every exponent and
 * rounding case. */
#ifdef MOE_TEST_SANITIZE
enum { STRIDE = 31 };
#else
enum { STRIDE = 1 };
#endif

static int is_nan(uint8_t byte) {
  return (byte & 0x7F) >= FIRST_NAN;
}

static void casts_every_f32(void **state) {
  (void)state;
  uint64_t tried = 0;
  for (uint64_t bits = 0; bits <= UINT32_MAX; bits += STRIDE, tried++) {
    const float x = f32_of((uint32_t)bits);
    const uint8_t expected = __nv_cvt_float_to_fp8(x, __NV_SATFINITE, FORMAT);
    const uint8_t found = CAST(x);
    if (found != expected && !(is_nan(found) && is_nan(expected)))
      fail_msg("%a (0x%08X) is 0x%02X, found 0x%02X", x, (uint32_t)bits, expected, found);
  }
  print_message("%llu of 4294967296 values tried (every %d)\n", (unsigned long long)tried, STRIDE);
}

#else

static void casts_every_f32(void **state) {
  (void)state;
  print_message("cuda_fp8.h was not found; set MOE_CUDA_INCLUDE_DIR to the folder it is in\n");
  skip();
}

#endif

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(casts_every_f32)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
