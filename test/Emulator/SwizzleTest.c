/* SwizzleTest.c - the swizzle against its definition by rows and chunks.
 *
 * Why it exists: the code works on address bits; a kernel author thinks of tiles.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Emulator/Machine/Swizzle.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>

static void test_spans(void **state) {
  (void)state;
  assert_int_equal(moe__emu_swizzle_span(MOE__EMU_SWIZZLE_NONE), 16);
  assert_int_equal(moe__emu_swizzle_span(MOE__EMU_SWIZZLE_32B), 32);
  assert_int_equal(moe__emu_swizzle_span(MOE__EMU_SWIZZLE_64B), 64);
  assert_int_equal(moe__emu_swizzle_span(MOE__EMU_SWIZZLE_128B), 128);
}

/* Row r of a tile whose rows are one span wide: its chunk c lies at chunk c ^ f(r). */
static void test_chunks_of_rows(void **state) {
  (void)state;
  for (uint32_t row = 0; row < 64; row++) {
    for (uint32_t byte = 0; byte < 128; byte++) {
      uint32_t chunk = byte / 16;
      uint32_t in = byte % 16;
      assert_int_equal(moe__emu_swizzle(MOE__EMU_SWIZZLE_NONE, row * 128 + byte), row * 128 + byte);
      assert_int_equal(moe__emu_swizzle(MOE__EMU_SWIZZLE_128B, row * 128 + byte),
                       row * 128 + (chunk ^ row % 8) * 16 + in);
      if (byte < 64) {
        assert_int_equal(moe__emu_swizzle(MOE__EMU_SWIZZLE_64B, row * 64 + byte),
                         row * 64 + (chunk ^ row / 2 % 4) * 16 + in);
      }
      if (byte < 32) {
        assert_int_equal(moe__emu_swizzle(MOE__EMU_SWIZZLE_32B, row * 32 + byte),
                         row * 32 + (chunk ^ row / 4 % 2) * 16 + in);
      }
    }
  }
}

static void test_involution(void **state) {
  (void)state;
  for (int swizzle = MOE__EMU_SWIZZLE_NONE; swizzle <= MOE__EMU_SWIZZLE_128B; swizzle++) {
    for (uint32_t address = 0; address < 1 << 18; address++) {
      uint32_t there = moe__emu_swizzle((moe__emu_swizzle_t)swizzle, address);
      assert_int_equal(moe__emu_swizzle((moe__emu_swizzle_t)swizzle, there), address);
      assert_int_equal(there / 128, address / 128);
    }
  }
}

/* The reason for swizzles: one chunk of each of eight rows lies in eight different sets of banks.
 */
static void test_columns_are_free_of_conflicts(void **state) {
  (void)state;
  for (int swizzle = MOE__EMU_SWIZZLE_32B; swizzle <= MOE__EMU_SWIZZLE_128B; swizzle++) {
    uint32_t span = moe__emu_swizzle_span((moe__emu_swizzle_t)swizzle);
    for (uint32_t chunk = 0; chunk < span / 16; chunk++) {
      uint32_t seen = 0;
      for (uint32_t row = 0; row < 8; row++)
        seen |=
            1U << moe__emu_swizzle((moe__emu_swizzle_t)swizzle, row * span + chunk * 16) % 128 / 16;
      assert_int_equal(seen, 0xFF);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_spans),
      cmocka_unit_test(test_chunks_of_rows),
      cmocka_unit_test(test_involution),
      cmocka_unit_test(test_columns_are_free_of_conflicts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
