/* TensorMapTest.c - each rule of a tensor map, on both sides of its limit.
 *
 * A driver says "invalid value" to all of these; the runtime must say which.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Runtime/TensorMap.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* 4096 x 64 x 8 bf16, in boxes of 64 x 32 x 1. */
static moe__rt_tensor_map_t valid_map(void) {
  return (moe__rt_tensor_map_t){
      .box = {.element = MOE__RT_MAP_BF16,
              .rank = 3,
              .box = {64, 32, 1},
              .swizzle = MOE__RT_SWIZZLE_128B,
              .fill = MOE__RT_FILL_NAN},
      .address = 0x1000,
      .dims = {4096, 64, 8},
      .strides = {8192, 524288},
  };
}

static const int64_t valid_bytes = INT64_C(4096) * 64 * 8 * 2;

static void expect_ok(const moe__rt_tensor_map_t *map, int64_t bytes) {
  if (moe__rt_tensor_map_check(map, bytes) != MOE_RT_OK)
    fail_msg("%s", moe_rt_last_message());
}

static void expect_failure(const moe__rt_tensor_map_t *map, int64_t bytes, const char *message) {
  assert_int_not_equal(moe__rt_tensor_map_check(map, bytes), MOE_RT_OK);
  if (!strstr(moe_rt_last_message(), message))
    fail_msg("expected '%s', got '%s'", message, moe_rt_last_message());
}

static void test_box(void **state) {
  (void)state;
  moe__rt_tensor_map_t map = valid_map();
  expect_ok(&map, valid_bytes);
  map.box.rank = 0;
  expect_failure(&map, valid_bytes, "rank is 0; it must be 1 to 5");
  map.box.rank = 6;
  expect_failure(&map, valid_bytes, "rank is 6");
  map = valid_map();
  map.box.box[1] = 256;
  expect_ok(&map, valid_bytes);
  map.box.box[1] = 257;
  expect_failure(&map, valid_bytes, "box[1] is 257; it must be 1 to 256");
  map.box.box[1] = 0;
  expect_failure(&map, valid_bytes, "box[1] is 0");
  map = valid_map();
  map.box.box[0] = 4;
  expect_failure(&map, valid_bytes, "box[0] is 8 bytes; it must be a multiple of 16");
  map.box.box[0] = 8;
  expect_ok(&map, valid_bytes);
}

static void test_swizzle(void **state) {
  (void)state;
  static const struct {
    moe__rt_map_swizzle_t swizzle;
    uint32_t most;
  } cases[] = {{MOE__RT_SWIZZLE_32B, 16}, {MOE__RT_SWIZZLE_64B, 32}, {MOE__RT_SWIZZLE_128B, 64}};
  for (int i = 0; i < 3; i++) {
    moe__rt_tensor_map_t map = valid_map();
    map.box.swizzle = cases[i].swizzle;
    map.box.box[0] = cases[i].most;
    expect_ok(&map, valid_bytes);
    map.box.box[0] = cases[i].most + 8;
    expect_failure(&map, valid_bytes, "of the swizzle");
    map.box.swizzle = MOE__RT_SWIZZLE_NONE;
    expect_ok(&map, valid_bytes);
  }
}

static void test_fill(void **state) {
  (void)state;
  moe__rt_tensor_map_t map = valid_map();
  map.box.element = MOE__RT_MAP_U8;
  expect_failure(&map, valid_bytes, "fill is nan; the element u8 has none");
  map.box.fill = MOE__RT_FILL_ZERO;
  expect_ok(&map, valid_bytes);
}

static void test_memory(void **state) {
  (void)state;
  moe__rt_tensor_map_t map = valid_map();
  map.address = 0x1008;
  expect_failure(&map, valid_bytes, "address is 0x1008; it must be a multiple of 16");
  map = valid_map();
  map.dims[2] = 0;
  expect_failure(&map, valid_bytes, "dims[2] is 0; it must be 1 to 2147483647");
  map.dims[2] = UINT64_C(1) << 31; /* no place there fits an i32 */
  expect_failure(&map, INT64_MAX, "dims[2] is 2147483648");
  map.dims[2] = INT32_MAX;
  expect_ok(&map, INT64_MAX);
  map = valid_map();
  map.strides[1] = 8200;
  expect_failure(&map, valid_bytes, "strides[1] is 8200 bytes; it must be a multiple of 16");
  map.strides[1] = UINT64_C(1) << 40;
  expect_failure(&map, INT64_MAX, "strides[1] is 1099511627776 bytes; it must be below 2^40");
  map.strides[1] = (UINT64_C(1) << 40) - 16;
  expect_ok(&map, INT64_MAX);
}

static void test_extent(void **state) {
  (void)state;
  moe__rt_tensor_map_t map = valid_map();
  expect_failure(&map, valid_bytes - 1, "dims and strides reach past the 4194303 bytes");
  map.dims[1] = 65;
  expect_failure(&map, valid_bytes, "dims and strides reach past");
  map = valid_map();
  map.strides[0] = 16384;
  expect_failure(&map, valid_bytes, "dims and strides reach past");
  /* Overlapping rows are the kernel's business. */
  map.strides[0] = 16;
  expect_ok(&map, valid_bytes);
  /* 2^31 * 2^40 twice does not fit 64 bits: refused, not wrapped. */
  map = valid_map();
  map.dims[1] = map.dims[2] = INT32_MAX;
  map.strides[0] = map.strides[1] = (UINT64_C(1) << 40) - 16;
  expect_failure(&map, INT64_MAX, "dims and strides reach past");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_box),    cmocka_unit_test(test_swizzle), cmocka_unit_test(test_fill),
      cmocka_unit_test(test_memory), cmocka_unit_test(test_extent),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
