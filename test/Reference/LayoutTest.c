/* LayoutTest.c - packed scales, and groups that are padded.
 *
 * Why it exists: where a byte goes is given here by a formula of its index, the other way round
 * than in the library; and bytes that are not to be written are compared too.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "test/Reference/Buffers.h"
#include "test/Reference/Oracle.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_GROUPS = 8 };

static moe_ref_tensor_t offsets(const int32_t *ends, int64_t count) {
  return (moe_ref_tensor_t){(void *)ends, MOE_REF_I32, 1, {count}, {1}};
}

static void fill_bytes(buffer_t *buffer, uint64_t seed) {
  uint64_t random = seed;
  for (size_t i = 0; i < buffer->size; i++)
    buffer->bytes[i] = (uint8_t)(random_next(&random) % 255 + 1); /* none is padding's 0 */
}

/* ---- Ends ---- */

static void clamps_ends(void **state) {
  (void)state;
  static const int32_t given[] = {-3, 40, 10, 70, INT32_MAX, INT32_MIN, 90, 100};
  static const int64_t expected[] = {0, 40, 40, 70, 100, 100, 100, 100};
  int64_t ends[MAX_GROUPS];
  const moe_ref_tensor_t offs = offsets(given, MAX_GROUPS), none = offsets(NULL, 0);
  assert_int_equal(moe_ref_group_ends(&offs, 100, ends), MOE_REF_OK);
  assert_memory_equal(ends, expected, sizeof ends);
  assert_int_equal(moe_ref_grouped_rows(&offs, 100), 100);
  assert_int_equal(moe_ref_grouped_rows(&offs, 60), 60);
  const moe_ref_tensor_t three = offsets(given, 3);
  assert_int_equal(moe_ref_grouped_rows(&three, 100), 40);
  assert_int_equal(moe_ref_grouped_rows(&none, 100), 0);
  assert_int_equal(moe_ref_grouped_rows(NULL, 100), -1);
  assert_int_equal(moe_ref_grouped_rows(&offs, -1), -1);
}

static void pads_ends(void **state) {
  (void)state;
  static const int32_t given[] = {0, 1, 33, 65, 65, 100};
  static const int32_t expected[][6] = {
      {0, 32, 64, 96, 96, 160}, {0, 1, 33, 65, 65, 100}, {0, 7, 42, 77, 77, 112}};
  static const int64_t aligns[] = {32, 1, 7};
  const moe_ref_tensor_t offs = offsets(given, 6);
  for (int i = 0; i < 3; i++) {
    int32_t found[6];
    const moe_ref_tensor_t padded = offsets(found, 6);
    assert_int_equal(moe_ref_pad_offsets(&offs, 100, aligns[i], &padded), MOE_REF_OK);
    assert_memory_equal(found, expected[i], sizeof found);
  }
}

/* ---- Packed scales ---- */

/* What byte `position` of packed is: the other way round than where a scale goes. Groups of rows
 * [starts[g], starts[g+1]) begin with tile row first[g]. */
static uint8_t byte_of(const moe_ref_tensor_t *scales, int64_t columns, int64_t position,
                       const int64_t *starts, int groups) {
  const int64_t tiles = columns / 4, tile = position / 512;
  const int64_t in_tile = position % 512;
  /* 16 bytes hold rows r, r + 32, r + 64 and r + 96, four columns of each. */
  const int64_t r = in_tile / 16 + in_tile % 16 / 4 * 32, c = tile % tiles * 4 + in_tile % 4;
  int64_t tile_row = tile / tiles;
  for (int g = 0; g < groups; g++) {
    const int64_t rows = starts[g + 1] - starts[g], own = (rows + 127) / 128;
    if (tile_row < own) {
      const int64_t row = tile_row * 128 + r;
      if (row >= rows || c >= scales->shape[1])
        return 0;
      return ((const uint8_t *)
                  scales->data)[(starts[g] + row) * scales->strides[0] + c * scales->strides[1]];
    }
    tile_row -= own;
  }
  return 0;
}

static void check_pack(int64_t rows, int64_t columns, const int32_t *ends, int groups) {
  const int64_t packed_rows = (rows + 127) / 128 * 128 + (ends != NULL ? 128 * groups : 0);
  const int64_t shape[] = {rows, columns}, packed_shape[] = {packed_rows, (columns + 3) / 4 * 4};
  int64_t starts[MAX_GROUPS + 1] = {0, rows};
  const moe_ref_tensor_t offs = offsets(ends, groups);
  for (int g = 0; ends != NULL && g < groups; g++)
    starts[g + 1] = ends[g];
  for (int turn = 0; turn < 3; turn++) {
    buffer_t scales = buffer_make(MOE_REF_E8M0, 2, shape, turn, turn);
    buffer_t found = buffer_make(MOE_REF_E8M0, 2, packed_shape, turn, 2 * turn);
    buffer_t expected = buffer_make(MOE_REF_E8M0, 2, packed_shape, turn, 2 * turn);
    fill_bytes(&scales, (uint64_t)(rows * 31 + columns));
    assert_int_equal(
        moe_ref_pack_scales(&scales.tensor, ends != NULL ? &offs : NULL, &found.tensor),
        MOE_REF_OK);
    for (int64_t i = 0; i < element_count(&expected.tensor); i++)
      ((uint8_t *)expected.tensor.data)[offset_of(&expected.tensor, i, NULL)] =
          byte_of(&scales.tensor, packed_shape[1], i, starts, ends != NULL ? groups : 1);
    assert_same_bytes(&found, &expected, "packed");
    buffer_free(&scales);
    buffer_free(&found);
    buffer_free(&expected);
  }
}

static void packs_scales(void **state) {
  (void)state;
  static const int64_t sizes[][2] = {{128, 4}, {1, 1},   {127, 3}, {129, 5}, {256, 8},
                                     {300, 9}, {32, 16}, {0, 4},   {5, 0}};
  static const int32_t ends[][4] = {
      {0, 0, 0, 0}, {1, 129, 257, 300}, {128, 128, 256, 290}, {0, 200, 200, 300}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    check_pack(sizes[i][0], sizes[i][1], NULL, 1);
  for (int i = 0; i < 4; i++)
    for (int64_t columns = 1; columns < 10; columns += 4)
      check_pack(300, columns, ends[i], 4);
}

/* Four bytes by hand. */
static void packs_landmarks(void **state) {
  (void)state;
  static uint8_t scales[130 * 5], packed[256 * 8];
  const moe_ref_tensor_t from = {scales, MOE_REF_E8M0, 2, {130, 5}, {5, 1}};
  const moe_ref_tensor_t to = {packed, MOE_REF_E8M0, 2, {256, 8}, {8, 1}};
  scales[0 * 5 + 1] = 11;
  scales[33 * 5 + 2] = 12;
  scales[127 * 5 + 4] = 13;
  scales[129 * 5 + 0] = 14;
  assert_int_equal(moe_ref_pack_scales(&from, NULL, &to), MOE_REF_OK);
  assert_int_equal(packed[1], 11);
  assert_int_equal(packed[16 + 4 + 2], 12);
  assert_int_equal(packed[512 + 31 * 16 + 3 * 4], 13);
  assert_int_equal(packed[1024 + 16], 14);
  int others = 0;
  for (size_t i = 0; i < sizeof packed; i++)
    others += packed[i] != 0;
  assert_int_equal(others, 4);
}

/* ---- Padded groups ---- */

static void pads_and_unpads(void **state) {
  (void)state;
  static const moe_ref_dtype_t dtypes[] = {MOE_REF_BF16, MOE_REF_F32, MOE_REF_E4M3, MOE_REF_E5M2};
  enum { M = 100, K = 7, GROUPS = 6 };
  static const int32_t ends[GROUPS] = {0, 1, 33, 65, 65, 97};
  const moe_ref_tensor_t offs = offsets(ends, GROUPS);
  for (int kind = 0; kind < 12; kind++) {
    const int64_t align = kind / 4 == 0 ? 1 : kind / 4 == 1 ? 16 : 33;
    const int64_t rows = (M + align - 1) / align * align + GROUPS * align;
    const int64_t shape[] = {M, K}, padded_shape[] = {rows, K};
    const moe_ref_dtype_t dtype = dtypes[kind % 4];
    const size_t size = (size_t)moe_ref_dtype_bits(dtype) / 8;
    int32_t padded_ends[GROUPS];
    const moe_ref_tensor_t padded_offs = offsets(padded_ends, GROUPS);
    buffer_t x = buffer_make(dtype, 2, shape, kind % 3, 1);
    buffer_t found = buffer_make(dtype, 2, padded_shape, (kind + 1) % 3, 2);
    buffer_t expected = buffer_make(dtype, 2, padded_shape, (kind + 1) % 3, 2);
    buffer_t back = buffer_make(dtype, 2, padded_shape, kind % 3, 3);
    buffer_t back_expected = buffer_make(dtype, 2, padded_shape, kind % 3, 3);
    fill_bytes(&x, (uint64_t)kind);
    assert_int_equal(moe_ref_pad_groups(&x.tensor, &offs, align, &found.tensor, &padded_offs),
                     MOE_REF_OK);
    assert_int_equal(moe_ref_unpad_groups(&found.tensor, &offs, &padded_offs, &back.tensor),
                     MOE_REF_OK);

    int64_t row = 0;
    for (int g = 0; g < GROUPS; g++) {
      const int64_t start = g > 0 ? ends[g - 1] : 0;
      for (int64_t i = 0; i == 0 ? ends[g] > start : i % align != 0 || i < ends[g] - start;
           i++, row++)
        for (int64_t k = 0; k < K; k++) {
          const int64_t from[] = {start + i, k}, to[] = {row, k};
          uint8_t *const target =
              (uint8_t *)expected.tensor.data + (size_t)offset_at(&expected.tensor, to) * size;
          memset(target, 0, size);
          if (i >= ends[g] - start)
            continue;
          const uint8_t *const source =
              (const uint8_t *)x.tensor.data + (size_t)offset_at(&x.tensor, from) * size;
          memcpy(target, source, size);
          memcpy((uint8_t *)back_expected.tensor.data +
                     (size_t)offset_at(&back_expected.tensor, from) * size,
                 source, size);
        }
      assert_int_equal(padded_ends[g], row);
    }
    assert_same_bytes(&found, &expected, "padded");
    assert_same_bytes(&back, &back_expected, "back");
    buffer_free(&x);
    buffer_free(&found);
    buffer_free(&expected);
    buffer_free(&back);
    buffer_free(&back_expected);
  }
}

/* Offsets that do not belong together read nothing from outside. */
static void unpads_foreign_offsets(void **state) {
  (void)state;
  uint8_t padded[4] = {1, 2, 3, 4}, x[4] = {9, 9, 9, 9};
  static const int32_t ends[] = {2, 4}, padded_ends[] = {3, 1};
  static const uint8_t expected[] = {1, 2, 4, 0};
  const moe_ref_tensor_t from = {padded, MOE_REF_E4M3, 2, {4, 1}, {1, 1}};
  const moe_ref_tensor_t to = {x, MOE_REF_E4M3, 2, {4, 1}, {1, 1}};
  const moe_ref_tensor_t offs = offsets(ends, 2), padded_offs = offsets(padded_ends, 2);
  assert_int_equal(moe_ref_unpad_groups(&from, &offs, &padded_offs, &to), MOE_REF_OK);
  assert_memory_equal(x, expected, sizeof x);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(clamps_ends),     cmocka_unit_test(pads_ends),
      cmocka_unit_test(packs_scales),    cmocka_unit_test(packs_landmarks),
      cmocka_unit_test(pads_and_unpads), cmocka_unit_test(unpads_foreign_offsets),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
