/* TmaTest.c - tensor maps there and back, and the walk over a box against a loop over its
 * elements.
 *
 * Why it exists: the walk moves runs of bytes and clips them; the loop here asks the definition for
 * one element at a time.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Emulator/Machine/Tma.h"
#include "test/Emulator/Random.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static moe__emu_tma_map_t sample(void) {
  return (moe__emu_tma_map_t){.type = MOE__EMU_TMA_BF16,
                              .rank = 3,
                              .address = 0x7F0000001230,
                              .dims = {100, UINT64_C(1) << 32, 3},
                              .strides = {208, 20800},
                              .box = {64, 8, 2},
                              .swizzle = MOE__EMU_SWIZZLE_128B,
                              .fill = MOE__EMU_TMA_FILL_NAN};
}

static void test_round_trip(void **state) {
  (void)state;
  const moe__emu_tma_map_t map = sample();
  uint8_t bytes[MOE__EMU_TMA_MAP_BYTES];
  moe__emu_error_t error = {""};
  moe__emu_tma_map_t back;
  assert_true(moe__emu_tma_encode(&map, bytes, &error));
  assert_true(moe__emu_tma_decode(bytes, &back, &error));
  assert_int_equal(back.type, map.type);
  assert_int_equal(back.rank, map.rank);
  assert_int_equal(back.address, map.address);
  assert_memory_equal(back.dims, map.dims, sizeof map.dims);
  assert_memory_equal(back.strides, map.strides, sizeof map.strides);
  assert_memory_equal(back.box, map.box, sizeof map.box);
  assert_int_equal(back.swizzle, map.swizzle);
  assert_int_equal(back.fill, map.fill);
  assert_int_equal(back.type, map.type);
  assert_int_equal(moe__emu_tma_box_bytes(&back), 64 * 8 * 2 * 2);
}

/* Every damaged byte is noticed, or gives another map: none is ignored. */
static void test_damage(void **state) {
  (void)state;
  const moe__emu_tma_map_t map = sample();
  uint8_t bytes[MOE__EMU_TMA_MAP_BYTES];
  moe__emu_error_t error = {""};
  moe__emu_tma_map_t back;
  assert_true(moe__emu_tma_encode(&map, bytes, &error));
  for (int bit = 0; bit < MOE__EMU_TMA_MAP_BYTES * 8; bit++) {
    uint8_t damaged[MOE__EMU_TMA_MAP_BYTES];
    uint8_t again[MOE__EMU_TMA_MAP_BYTES];
    memcpy(damaged, bytes, sizeof damaged);
    damaged[bit / 8] ^= (uint8_t)(1 << bit % 8);
    if (!moe__emu_tma_decode(damaged, &back, &error))
      continue;
    assert_true(moe__emu_tma_encode(&back, again, &error));
    assert_memory_not_equal(again, bytes, sizeof bytes);
  }

  memset(bytes, 0, sizeof bytes);
  assert_false(moe__emu_tma_decode(bytes, &back, &error));
  assert_string_equal(error.text, "no tensor map: its first 8 bytes are 0x0000000000000000");
  assert_true(moe__emu_tma_encode(&map, bytes, &error));
  bytes[127] = 7;
  assert_false(moe__emu_tma_decode(bytes, &back, &error));
  assert_string_equal(error.text, "damaged tensor map: byte 127 is 0x07; it must be 0x00");
}

static void check_refused(moe__emu_tma_map_t map, const char *text) {
  uint8_t bytes[MOE__EMU_TMA_MAP_BYTES];
  uint8_t untouched[MOE__EMU_TMA_MAP_BYTES];
  moe__emu_error_t error = {""};
  memset(bytes, 0xA5, sizeof bytes);
  memcpy(untouched, bytes, sizeof bytes);
  assert_false(moe__emu_tma_encode(&map, bytes, &error));
  assert_string_equal(error.text, text);
  assert_memory_equal(bytes, untouched, sizeof bytes);
}

#define REFUSED(change, text)                                                                      \
  do {                                                                                             \
    moe__emu_tma_map_t map = sample();                                                             \
    map.change;                                                                                    \
    check_refused(map, text);                                                                      \
  } while (0)

static void test_rules(void **state) {
  (void)state;
  REFUSED(type = (moe__emu_tma_type_t)10, "element type is 10; there is none");
  REFUSED(rank = 0, "rank is 0; it must be 1 to 5");
  REFUSED(rank = 6, "rank is 6; it must be 1 to 5");
  REFUSED(swizzle = (moe__emu_swizzle_t)4, "swizzle is 4; it must be 0 to 3");
  REFUSED(fill = (moe__emu_tma_fill_t)2, "fill is 2; it must be 0 or 1");
  REFUSED(type = MOE__EMU_TMA_U16, "fill is nan; the element u16 has none");
  REFUSED(address += 8, "address is 0x7f0000001238; it must be a multiple of 16");
  REFUSED(dims[0] = 0, "dims[0] is 0; it must be 1 to 2^32");
  REFUSED(dims[2] = (UINT64_C(1) << 32) + 1, "dims[2] is 4294967297; it must be 1 to 2^32");
  REFUSED(strides[0] = 200, "strides[0] is 200; it must be a multiple of 16 below 2^40");
  REFUSED(strides[1] = UINT64_C(1) << 40,
          "strides[1] is 1099511627776; it must be a multiple of 16 below 2^40");
  REFUSED(box[1] = 0, "box[1] is 0; it must be 1 to 256");
  REFUSED(box[2] = 257, "box[2] is 257; it must be 1 to 256");
  REFUSED(box[0] = 12, "box[0] is 24 bytes; it must be a multiple of 16");
  REFUSED(box[0] = 72, "box[0] is 144 bytes; it must be at most the 128 of the swizzle");
  REFUSED(swizzle = MOE__EMU_SWIZZLE_64B,
          "box[0] is 128 bytes; it must be at most the 64 of the swizzle");

  moe__emu_tma_map_t map = sample();
  map.box[1] = 256;
  map.box[2] = 8;
  check_refused(map, "the box takes 262144 bytes; a CTA has at most 232448");
}

static void test_instruction_rules(void **state) {
  (void)state;
  const moe__emu_tma_map_t map = sample();
  moe__emu_error_t error = {""};
  assert_true(moe__emu_tma_check(&map, 3, 1024, &error));
  assert_true(moe__emu_tma_check(&map, 3, 128, &error));
  assert_false(moe__emu_tma_check(&map, 2, 1024, &error));
  assert_string_equal(error.text, "the instruction has 2 coordinates; the tensor map's rank is 3");
  assert_false(moe__emu_tma_check(&map, 3, 1024 + 64, &error));
  assert_string_equal(error.text, "shared address is 0x440; it must be a multiple of 128");
}

static void test_coordinate_rules(void **state) {
  (void)state;
  moe__emu_tma_map_t map = sample();
  moe__emu_error_t error = {""};
  /* Eight elements of bf16 are a chunk. The outer coordinates are free. */
  for (int first = -24; first <= 24; first++) {
    const bool legal = first % 8 == 0;
    assert_int_equal(
        moe__emu_tma_check_coordinates(&map, (const int32_t[]){first, -3, 5}, false, &error),
        legal);
  }
  assert_false(moe__emu_tma_check_coordinates(&map, (const int32_t[]){68, 0, 0}, false, &error));
  assert_string_equal(error.text, "the innermost coordinate is 68, 136 bytes; it must be a "
                                  "multiple of 16 bytes");
  assert_false(
      moe__emu_tma_check_coordinates(&map, (const int32_t[]){INT_MAX, 0, 0}, false, &error));
  assert_string_equal(error.text, "the innermost coordinate is 2147483647, 4294967294 bytes; it "
                                  "must be a multiple of 16 bytes");
  /* Before the tensor: loads may begin there, stores may not, in any dimension. */
  assert_true(moe__emu_tma_check_coordinates(&map, (const int32_t[]){-64, 0, 0}, false, &error));
  assert_false(moe__emu_tma_check_coordinates(&map, (const int32_t[]){-64, 0, 0}, true, &error));
  assert_true(moe__emu_tma_check_coordinates(&map, (const int32_t[]){0, 0, -1}, false, &error));
  assert_false(moe__emu_tma_check_coordinates(&map, (const int32_t[]){0, 0, -1}, true, &error));
  assert_string_equal(error.text, "coordinate 2 of a store is -1; it must not be negative");
  assert_true(moe__emu_tma_check_coordinates(&map, (const int32_t[]){0, 7, 1}, true, &error));
  assert_false(moe__emu_tma_check_coordinates(&map, (const int32_t[]){-3, 0, 0}, false, &error));
  assert_string_equal(error.text, "the innermost coordinate is -3, -6 bytes; it must be a multiple "
                                  "of 16 bytes");
  assert_true(
      moe__emu_tma_check_coordinates(&map, (const int32_t[]){INT_MIN, 0, 0}, false, &error));
  map.type = MOE__EMU_TMA_U8;
  assert_false(moe__emu_tma_check_coordinates(&map, (const int32_t[]){8, 0, 0}, false, &error));
  map.type = MOE__EMU_TMA_F64;
  assert_true(moe__emu_tma_check_coordinates(&map, (const int32_t[]){-2, 0, 0}, false, &error));
}

/* ---- The walk ---- */

enum { SHARED_BYTES = 1 << 18 };
static const uint64_t untouched = UINT64_MAX;
static const uint64_t outside = UINT64_MAX - 1;
static const uint64_t tail = UINT64_C(1) << 63; /* with the address that a store writes */

typedef struct image_t {
  uint64_t source[SHARED_BYTES]; /* the global address that each byte of shared memory belongs to */
  bool swizzled;
  uint32_t row_bytes;
} image_t;

static bool record(void *context, const moe__emu_tma_run_t *run) {
  image_t *image = context;
  assert_in_range(run->bytes, 1, image->swizzled ? 16 : image->row_bytes);
  assert_true(run->shared + run->bytes <= SHARED_BYTES);
  assert_false(run->inside && run->tail);
  if (!run->inside && !run->tail)
    assert_int_equal(run->global, 0);
  for (uint32_t i = 0; i < run->bytes; i++) {
    assert_int_equal(image->source[run->shared + i], untouched);
    image->source[run->shared + i] = run->inside ? run->global + i
                                     : run->tail ? (run->global + i) | tail
                                                 : outside;
  }
  return true;
}

/* Byte `column` of row `row` of a box, by the table of chunks instead of address bits. */
static uint32_t place(const moe__emu_tma_map_t *map, uint32_t base, uint32_t row, uint32_t column) {
  static const uint32_t spans[] = {0, 32, 64, 128};
  if (map->swizzle == MOE__EMU_SWIZZLE_NONE)
    return base + row * map->box[0] * moe__emu_tma_type_bytes(map->type) + column;
  uint32_t span = spans[map->swizzle];
  uint32_t line = (base + row * span) / 128;
  uint32_t chunk = (base + row * span + column) / 16 % (span / 16) ^ line % (span / 16);
  return base + row * span + chunk * 16 + column % 16;
}

static void expect(const moe__emu_tma_map_t *map, const int32_t *coordinates, uint32_t base,
                   image_t *image) {
  const uint32_t size = moe__emu_tma_type_bytes(map->type);
  uint32_t elements = 1;
  for (int i = 0; i < map->rank; i++)
    elements *= map->box[i];
  for (uint32_t element = 0; element < elements; element++) {
    const int64_t first = (int64_t)coordinates[0] + element % map->box[0];
    bool exists = first >= 0; /* the row, and not before its begin */
    uint64_t global = map->address + (uint64_t)first * size;
    uint32_t rest = element / map->box[0];
    for (int i = 1; i < map->rank; i++) {
      const int64_t at = (int64_t)coordinates[i] + rest % map->box[i];
      rest /= map->box[i];
      exists = exists && at >= 0 && at < (int64_t)map->dims[i];
      global += (uint64_t)at * map->strides[i - 1];
    }
    const bool inside = exists && first < (int64_t)map->dims[0];
    /* The last element of the row is in the same 16 bytes, which begin where the row does. */
    const bool in_tail =
        exists && !inside && first * size / 16 == ((int64_t)map->dims[0] * size - 1) / 16;
    for (uint32_t byte = 0; byte < size; byte++) {
      uint32_t column = element % map->box[0] * size + byte;
      image->source[place(map, base, element / map->box[0], column)] = inside ? global + byte
                                                                       : in_tail
                                                                           ? (global + byte) | tail
                                                                           : outside;
    }
  }
}

static void compare(const moe__emu_tma_map_t *map, const int32_t *coordinates, uint32_t base) {
  static image_t found;
  static image_t wanted;
  memset(found.source, 0xFF, sizeof found.source);
  memset(wanted.source, 0xFF, sizeof wanted.source);
  found.swizzled = map->swizzle != MOE__EMU_SWIZZLE_NONE;
  found.row_bytes = map->box[0] * moe__emu_tma_type_bytes(map->type);
  assert_true(moe__emu_tma_walk(map, coordinates, base, record, &found));
  expect(map, coordinates, base, &wanted);
  assert_memory_equal(found.source, wanted.source, sizeof found.source);

  uint32_t bytes = 0;
  uint32_t last = 0;
  for (uint32_t i = 0; i < SHARED_BYTES; i++) {
    bytes += found.source[i] != untouched;
    last = found.source[i] != untouched ? i : last;
  }
  assert_int_equal(bytes, moe__emu_tma_box_bytes(map));
  assert_true(last < base + moe__emu_tma_shared_bytes(map));
}

static moe__emu_tma_map_t random_map(uint64_t *seed) {
  moe__emu_tma_map_t map = {.type = (moe__emu_tma_type_t)random_between(seed, 0, 9),
                            .rank = (int)random_between(seed, 1, 5),
                            .address = (uint64_t)random_between(seed, 1, 1 << 20) * 16,
                            .swizzle = (moe__emu_swizzle_t)random_between(seed, 0, 3)};
  const uint32_t size = moe__emu_tma_type_bytes(map.type);
  const int most = map.swizzle == MOE__EMU_SWIZZLE_NONE ? 256 / 16 : 1 << map.swizzle;
  map.box[0] = (uint32_t)random_between(seed, 1, most) * 16 / size;
  map.dims[0] = (uint64_t)random_between(seed, 1, 2 * (int64_t)map.box[0]);
  uint64_t extent = map.dims[0] * size;
  for (int i = 1; i < map.rank; i++) {
    map.box[i] = (uint32_t)random_between(seed, 1, i == 1 ? 9 : 4);
    map.dims[i] = (uint64_t)random_between(seed, 1, 2 * (int64_t)map.box[i]);
    map.strides[i - 1] = (extent + 15) / 16 * 16 + (uint64_t)random_between(seed, 0, 2) * 16;
    extent = map.strides[i - 1] * map.dims[i];
  }
  return map;
}

static void test_random_boxes(void **state) {
  (void)state;
  uint64_t seed = 1;
  for (int i = 0; i < 300; i++) {
    const moe__emu_tma_map_t map = random_map(&seed);
    uint8_t bytes[MOE__EMU_TMA_MAP_BYTES];
    moe__emu_error_t error = {""};
    assert_true(moe__emu_tma_encode(&map, bytes, &error));
    int32_t coordinates[MOE__EMU_TMA_MAX_RANK] = {0};
    for (int j = 0; j < map.rank; j++) {
      coordinates[j] =
          (int32_t)random_between(&seed, -(int64_t)map.box[j] - 1, (int64_t)map.dims[j] + 1);
    }
    const int chunk = 16 / (int)moe__emu_tma_type_bytes(map.type);
    coordinates[0] = coordinates[0] / chunk * chunk;
    compare(&map, coordinates, (uint32_t)random_between(&seed, 0, 64) * 128);
  }
}

/* A box at the ends of the coordinate range, and one that ends with element 2^32 - 1. */
static void test_extreme_coordinates(void **state) {
  (void)state;
  moe__emu_tma_map_t map = sample();
  compare(&map, (const int32_t[]){INT_MIN, INT_MIN, INT_MIN}, 0);
  compare(&map, (const int32_t[]){INT_MAX - 7, 0, 0}, 0);
  compare(&map, (const int32_t[]){0, INT_MAX, INT_MAX}, 0);
  compare(&map, (const int32_t[]){88, INT_MAX, 2}, 0);
  compare(&map, (const int32_t[]){-56, -7, -1}, 1024);
}

/* Rows that end inside of a chunk, at each element of it: the box ends before, in and behind it. */
static void test_tails(void **state) {
  (void)state;
  for (int swizzle = 0; swizzle <= MOE__EMU_SWIZZLE_128B; swizzle++) {
    for (uint32_t size = 1; size <= 33; size++) {
      const moe__emu_tma_map_t map = {.type = MOE__EMU_TMA_U8,
                                      .rank = 2,
                                      .address = 1 << 20,
                                      .dims = {size, 3},
                                      .strides = {64},
                                      .box = {32, 4},
                                      .swizzle = (moe__emu_swizzle_t)swizzle};
      for (int first = -32; first <= 48; first += 16)
        compare(&map, (const int32_t[]){first, -1}, 128);
      /* Illegal, but the walk stays in the box: here it ends inside of the row's last chunk. */
      if (swizzle == MOE__EMU_SWIZZLE_NONE && size > 32)
        compare(&map, (const int32_t[]){1, -1}, 128);
    }
  }
}

static bool stop_at_third(void *context, const moe__emu_tma_run_t *run) {
  (void)run;
  return ++*(int *)context < 3;
}

static void test_visit_ends_walk(void **state) {
  (void)state;
  const moe__emu_tma_map_t map = sample();
  int visits = 0;
  assert_false(moe__emu_tma_walk(&map, (const int32_t[]){0, 0, 0}, 0, stop_at_third, &visits));
  assert_int_equal(visits, 3);
}

static void test_fill(void **state) {
  (void)state;
  moe__emu_tma_map_t map = sample();
  uint8_t bytes[8];
  moe__emu_tma_fill(&map, bytes, 8);
  assert_memory_equal(bytes, "\xF7\x7F\xF7\x7F\xF7\x7F\xF7\x7F", 8);
  map.type = MOE__EMU_TMA_F32;
  moe__emu_tma_fill(&map, bytes, 8);
  assert_memory_equal(bytes, "\xF7\x7F\xF7\x7F\xF7\x7F\xF7\x7F", 8);
  map.fill = MOE__EMU_TMA_FILL_ZERO;
  moe__emu_tma_fill(&map, bytes, 8);
  assert_memory_equal(bytes, "\0\0\0\0\0\0\0\0", 8);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_round_trip),
      cmocka_unit_test(test_damage),
      cmocka_unit_test(test_rules),
      cmocka_unit_test(test_instruction_rules),
      cmocka_unit_test(test_coordinate_rules),
      cmocka_unit_test(test_random_boxes),
      cmocka_unit_test(test_extreme_coordinates),
      cmocka_unit_test(test_tails),
      cmocka_unit_test(test_visit_ends_walk),
      cmocka_unit_test(test_fill),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
