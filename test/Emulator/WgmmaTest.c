/* WgmmaTest.c - the matrix product's layouts against tiles written out by hand, its arithmetic
 * against integers.
 *
 * Why it exists: a wrong layout gives plausible numbers. Here every element has a value of its own,
 * and the tile that holds it is filled by the formula a kernel author would use, not by the code
 * under test.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Emulator/Machine/Wgmma.h"
#include "lib/Emulator/Machine/Half.h"
#include "lib/Emulator/Machine/Tma.h"
#include "moe/reference.h"
#include "test/Emulator/Random.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SHARED_BYTES = 1 << 17 };

static uint8_t shared[SHARED_BYTES];
static float matrix[MOE__EMU_WGMMA_MAX_N * MOE__EMU_WGMMA_MAX_K];

static moe__emu_wgmma_shape_t shape_of(moe__emu_wgmma_type_t type, int n, bool mn_major) {
  const bool wide = type == MOE__EMU_WGMMA_BF16 || type == MOE__EMU_WGMMA_F16;
  return (moe__emu_wgmma_shape_t){.a = type,
                                  .b = type,
                                  .n = n,
                                  .k = wide ? 16 : 32,
                                  .a_mn_major = mn_major,
                                  .b_mn_major = mn_major};
}

/* ---- Shapes and descriptors ---- */

static void check_shape(moe__emu_wgmma_shape_t shape, const char *text) {
  moe__emu_error_t error = {""};
  assert_int_equal(moe__emu_wgmma_shape_check(&shape, &error), text[0] == '\0');
  assert_string_equal(error.text, text);
}

static void test_shapes(void **state) {
  (void)state;
  for (int n = 8; n <= 256; n += 8)
    check_shape(shape_of(MOE__EMU_WGMMA_E4M3, n, false), "");
  check_shape(shape_of(MOE__EMU_WGMMA_F16, 64, true), "");
  check_shape(
      (moe__emu_wgmma_shape_t){MOE__EMU_WGMMA_E4M3, MOE__EMU_WGMMA_E5M2, 8, 32, false, false}, "");
  check_shape(shape_of(MOE__EMU_WGMMA_E4M3, 0, false),
              "n is 0; it must be a multiple of 8 from 8 to 256");
  check_shape(shape_of(MOE__EMU_WGMMA_E4M3, 12, false),
              "n is 12; it must be a multiple of 8 from 8 to 256");
  check_shape(shape_of(MOE__EMU_WGMMA_E4M3, 264, false),
              "n is 264; it must be a multiple of 8 from 8 to 256");
  check_shape(shape_of(MOE__EMU_WGMMA_E5M2, 64, true),
              "e5m2 is transposed; 8-bit operands must be K-major");
  check_shape(
      (moe__emu_wgmma_shape_t){MOE__EMU_WGMMA_BF16, MOE__EMU_WGMMA_F16, 8, 16, false, false},
      "bf16 and f16 do not go together");
  check_shape(
      (moe__emu_wgmma_shape_t){MOE__EMU_WGMMA_BF16, MOE__EMU_WGMMA_BF16, 8, 32, false, false},
      "k is 32; it must be 16 for bf16");
}

static uint64_t descriptor_of(uint32_t start, uint32_t leading, uint32_t stride,
                              moe__emu_swizzle_t swizzle) {
  static const uint64_t modes[] = {0, 3, 2, 1};
  return (uint64_t)(start / 16) | (uint64_t)(leading / 16) << 16 | (uint64_t)(stride / 16) << 32 |
         modes[swizzle] << 62;
}

static void test_descriptor_fields(void **state) {
  (void)state;
  const moe__emu_wgmma_shape_t shape = shape_of(MOE__EMU_WGMMA_E4M3, 128, false);
  moe__emu_error_t error = {""};
  moe__emu_wgmma_operand_t operand;
  /* The descriptor of a K-major tile with 128-byte swizzle, 32 KiB into shared memory. */
  assert_true(moe__emu_wgmma_descriptor(&shape, true, UINT64_C(0x4000004000010000) | 0x8000 >> 4,
                                        &operand, &error));
  assert_int_equal(operand.start, 0x8000);
  assert_int_equal(operand.leading, 16);
  assert_int_equal(operand.stride, 1024);
  assert_int_equal(operand.swizzle, MOE__EMU_SWIZZLE_128B);
  assert_int_equal(operand.rows, 128);
  assert_int_equal(operand.k, 32);
  assert_int_equal(moe__emu_wgmma_chunk_count(&operand), 256);
  assert_true(
      moe__emu_wgmma_descriptor(&shape, false, UINT64_C(0x8000000000000000), &operand, &error));
  assert_int_equal(operand.swizzle, MOE__EMU_SWIZZLE_64B);
  assert_int_equal(operand.rows, 64);
  assert_true(
      moe__emu_wgmma_descriptor(&shape, false, UINT64_C(0xC000000000000000), &operand, &error));
  assert_int_equal(operand.swizzle, MOE__EMU_SWIZZLE_32B);

  for (int bit = 0; bit < 64; bit++) {
    const bool used = bit < 14 || (bit >= 16 && bit < 30) || (bit >= 32 && bit < 46) || bit >= 62;
    assert_int_equal(moe__emu_wgmma_descriptor(&shape, false, UINT64_C(1) << bit, &operand, &error),
                     used);
  }
  assert_false(moe__emu_wgmma_descriptor(&shape, true, UINT64_C(1) << 52 | 5, &operand, &error));
  assert_string_equal(error.text, "descriptor of B is 0x0010000000000005; the bits "
                                  "0x10000000000000 must be zero");
  assert_false(moe__emu_wgmma_descriptor(&shape, false, UINT64_C(3) << 49, &operand, &error));
  assert_string_equal(error.text,
                      "descriptor of A is 0x0006000000000000; base offset 3 is not modeled");
}

/* ---- Layouts ---- */

/* Element (row, k) is this 16-bit pattern, or this byte: no two of an 8-bit type's chunk row are
 * alike, and every 16-bit element differs from all others. */
static uint32_t pattern(int bits, int row, int k) {
  return bits == 16 ? (uint32_t)(row * 16 + k) : (uint32_t)(row * 13 + k * 7) & 0x7F;
}

static void put(int bits, uint32_t offset, int row, int k) {
  const uint32_t value = pattern(bits, row, k);
  shared[offset] = (uint8_t)value;
  if (bits == 16)
    shared[offset + 1] = (uint8_t)(value >> 8);
}

/* Decodes, reads every chunk and compares every element with its pattern. */
static void check_operand(moe__emu_wgmma_type_t type, bool mn_major, bool is_b, int n,
                          uint64_t descriptor) {
  const moe__emu_wgmma_shape_t shape = shape_of(type, n, mn_major);
  const int bits = shape.k == 16 ? 16 : 8;
  moe__emu_error_t error = {""};
  moe__emu_wgmma_operand_t operand;
  assert_true(moe__emu_wgmma_descriptor(&shape, is_b, descriptor, &operand, &error));
  for (int i = 0; i < operand.rows * operand.k; i++)
    matrix[i] = -1.0F;
  for (int chunk = 0; chunk < moe__emu_wgmma_chunk_count(&operand); chunk++) {
    const uint32_t address = moe__emu_wgmma_chunk_address(&operand, chunk);
    assert_int_equal(address % 16, 0);
    assert_true(address < SHARED_BYTES);
    moe__emu_wgmma_unpack_chunk(&operand, is_b, chunk, shared + address, matrix);
  }
  for (int row = 0; row < operand.rows; row++) {
    for (int k = 0; k < operand.k; k++) {
      const uint32_t value = pattern(bits, row, k);
      const float wanted = bits == 16 ? moe_ref_f32_from_bf16((uint16_t)value)
                                      : moe_ref_f32_from_e5m2((uint8_t)value);
      const float found = matrix[is_b ? k * operand.rows + row : row * operand.k + k];
      if (memcmp(&found, &wanted, sizeof found) != 0)
        fail_msg("element (%d, %d) is %g instead of %g", row, k, found, wanted);
    }
  }
}

/* A tile of `columns` bytes of K per row, read `advance` bytes into K. */
static void k_major_swizzled(moe__emu_swizzle_t swizzle, moe__emu_wgmma_type_t type, int n) {
  const int bits = type == MOE__EMU_WGMMA_BF16 ? 16 : 8;
  const uint32_t span = 16U << swizzle;
  const uint32_t lines_of_128 = 128 / span;
  const uint32_t base = 0x2000;
  for (uint32_t advance = 0; advance < span; advance += 32) {
    memset(shared, 0xEE, sizeof shared);
    for (int row = 0; row < 256; row++) {
      for (int k = 0; k < 256 / bits; k++) {
        const uint32_t byte = advance + (uint32_t)(k * bits / 8);
        const uint32_t turn = (uint32_t)row / lines_of_128 % (span / 16);
        put(bits, base + (uint32_t)row * span + (byte / 16 ^ turn) * 16 + byte % 16, row, k);
      }
    }
    const uint64_t descriptor = descriptor_of(base + advance, 16, 8 * span, swizzle);
    check_operand(type, false, false, 8, descriptor);
    check_operand(type, false, true, n, descriptor);
  }
}

static void test_k_major_swizzled(void **state) {
  (void)state;
  for (int swizzle = MOE__EMU_SWIZZLE_32B; swizzle <= MOE__EMU_SWIZZLE_128B; swizzle++) {
    k_major_swizzled((moe__emu_swizzle_t)swizzle, MOE__EMU_WGMMA_E5M2, 256);
    k_major_swizzled((moe__emu_swizzle_t)swizzle, MOE__EMU_WGMMA_BF16, 40);
  }
}

/* Core matrices of 8 x 16 bytes, at distances that are no accident. */
static void test_k_major_plain(void **state) {
  (void)state;
  const uint32_t leading = 0x8010;
  const uint32_t stride = 0x90;
  memset(shared, 0xEE, sizeof shared);
  for (int row = 0; row < 256; row++) {
    for (int k = 0; k < 16; k++) {
      put(16,
          0x100 + (uint32_t)(row / 8) * stride + (uint32_t)(k / 8) * leading +
              (uint32_t)(row % 8) * 16 + (uint32_t)(k % 8) * 2,
          row, k);
    }
  }
  const uint64_t descriptor = descriptor_of(0x100, leading, stride, MOE__EMU_SWIZZLE_NONE);
  check_operand(MOE__EMU_WGMMA_BF16, false, false, 8, descriptor);
  check_operand(MOE__EMU_WGMMA_BF16, false, true, 256, descriptor);

  for (int row = 0; row < 256; row++) {
    for (int k = 0; k < 32; k++) {
      put(8,
          0x100 + (uint32_t)(row / 8) * stride + (uint32_t)(k / 16) * leading +
              (uint32_t)(row % 8) * 16 + (uint32_t)(k % 16),
          row, k);
    }
  }
  check_operand(MOE__EMU_WGMMA_E5M2, false, true, 256, descriptor);
}

/* Atoms of span / 2 rows by 8 of K: `leading` apart along the rows, `stride` apart along K. */
static void test_mn_major_swizzled(void **state) {
  (void)state;
  for (int swizzle = MOE__EMU_SWIZZLE_32B; swizzle <= MOE__EMU_SWIZZLE_128B; swizzle++) {
    const uint32_t span = 16U << swizzle;
    const uint32_t wide = span / 2;
    const uint32_t stride = span * 8;
    const uint32_t leading = span * 24;
    memset(shared, 0xEE, sizeof shared);
    for (uint32_t row = 0; row < 256; row++) {
      for (uint32_t k = 0; k < 16; k++) {
        const uint32_t turn = k % 8 / (128 / span) % (span / 16);
        put(16,
            0x400 + row / wide * leading + k / 8 * stride + k % 8 * span +
                (row % wide / 8 ^ turn) * 16 + row % 8 * 2,
            (int)row, (int)k);
      }
    }
    const uint64_t descriptor = descriptor_of(0x400, leading, stride, (moe__emu_swizzle_t)swizzle);
    check_operand(MOE__EMU_WGMMA_BF16, true, false, 8, descriptor);
    check_operand(MOE__EMU_WGMMA_BF16, true, true, 256, descriptor);
    check_operand(MOE__EMU_WGMMA_BF16, true, true, 8, descriptor);
  }
}

static void test_mn_major_plain(void **state) {
  (void)state;
  const uint32_t leading = 0x4010;
  const uint32_t stride = 0x90;
  memset(shared, 0xEE, sizeof shared);
  for (uint32_t row = 0; row < 256; row++) {
    for (uint32_t k = 0; k < 16; k++) {
      put(16, 0x10 + row / 8 * stride + k / 8 * leading + k % 8 * 16 + row % 8 * 2, (int)row,
          (int)k);
    }
  }
  const uint64_t descriptor = descriptor_of(0x10, leading, stride, MOE__EMU_SWIZZLE_NONE);
  check_operand(MOE__EMU_WGMMA_BF16, true, false, 8, descriptor);
  check_operand(MOE__EMU_WGMMA_BF16, true, true, 248, descriptor);
}

/* What the TMA writes with a swizzle, wgmma reads with the same one. */
static uint8_t global[256 * 128];

static bool load(void *context, const moe__emu_tma_run_t *run) {
  (void)context;
  assert_true(run->inside);
  memcpy(shared + run->shared, global + (run->global - 0x10000), run->bytes);
  return true;
}

static void test_tma_writes_what_wgmma_reads(void **state) {
  (void)state;
  for (int swizzle = MOE__EMU_SWIZZLE_32B; swizzle <= MOE__EMU_SWIZZLE_128B; swizzle++) {
    const uint32_t span = 16U << swizzle;
    const moe__emu_tma_map_t map = {.type = MOE__EMU_TMA_BF16,
                                    .rank = 2,
                                    .address = 0x10000,
                                    .dims = {64, 256},
                                    .strides = {128},
                                    .box = {span / 2, 256},
                                    .swizzle = (moe__emu_swizzle_t)swizzle};
    for (int row = 0; row < 256; row++) {
      for (int k = 0; k < 64; k++) {
        const uint16_t value = (uint16_t)pattern(16, row, k % 16);
        memcpy(global + row * 128 + k * 2, &value, sizeof value);
      }
    }
    assert_true(moe__emu_tma_walk(&map, (const int32_t[]){0, 0}, 4096, load, NULL));
    for (uint32_t advance = 0; advance < span; advance += 32) {
      check_operand(MOE__EMU_WGMMA_BF16, false, true, 256,
                    descriptor_of(4096 + advance, 16, 8 * span, (moe__emu_swizzle_t)swizzle));
    }
  }
}

/* ---- Fragments ---- */

static void test_d_is_a_bijection(void **state) {
  (void)state;
  for (int n = 8; n <= 256; n += 8) {
    static bool seen[MOE__EMU_WGMMA_M][MOE__EMU_WGMMA_MAX_N];
    memset(seen, 0, sizeof seen);
    for (int thread = 0; thread < MOE__EMU_WGMMA_THREADS; thread++) {
      for (int index = 0; index < n / 2; index++) {
        int row = -1;
        int column = -1;
        moe__emu_wgmma_d_element(thread, index, &row, &column);
        assert_in_range(row, 0, MOE__EMU_WGMMA_M - 1);
        assert_in_range(column, 0, n - 1);
        assert_false(seen[row][column]);
        seen[row][column] = true;
      }
    }
  }
}

static void check_d(int thread, int index, int row, int column) {
  int found_row = -1;
  int found_column = -1;
  moe__emu_wgmma_d_element(thread, index, &found_row, &found_column);
  assert_int_equal(found_row, row);
  assert_int_equal(found_column, column);
}

/* Entries read off the figure of the PTX ISA. */
static void test_d_landmarks(void **state) {
  (void)state;
  check_d(0, 0, 0, 0);
  check_d(0, 1, 0, 1);
  check_d(0, 2, 8, 0);
  check_d(0, 4, 0, 8);
  check_d(3, 3, 8, 7);
  check_d(4, 0, 1, 0);
  check_d(31, 3, 15, 7);
  check_d(32, 0, 16, 0);
  check_d(127, 127, 63, 255);
}

static void check_a(moe__emu_wgmma_type_t type, int thread, int index, int part, int row, int k) {
  int found_row = -1;
  int found_k = -1;
  moe__emu_wgmma_a_element(type, thread, index, part, &found_row, &found_k);
  assert_int_equal(found_row, row);
  assert_int_equal(found_k, k);
}

static void test_a_landmarks(void **state) {
  (void)state;
  check_a(MOE__EMU_WGMMA_BF16, 0, 0, 1, 0, 1);
  check_a(MOE__EMU_WGMMA_BF16, 0, 1, 0, 8, 0);
  check_a(MOE__EMU_WGMMA_BF16, 0, 2, 0, 0, 8);
  check_a(MOE__EMU_WGMMA_F16, 127, 3, 1, 63, 15);
  check_a(MOE__EMU_WGMMA_E4M3, 0, 0, 3, 0, 3);
  check_a(MOE__EMU_WGMMA_E4M3, 1, 0, 0, 0, 4);
  check_a(MOE__EMU_WGMMA_E4M3, 0, 2, 0, 0, 16);
  check_a(MOE__EMU_WGMMA_E5M2, 38, 3, 2, 25, 26);
}

/* Registers filled by position give the matrix of positions: each element once. */
static void test_a_registers(void **state) {
  (void)state;
  for (int row = 0; row < MOE__EMU_WGMMA_M * MOE__EMU_WGMMA_MAX_K; row++)
    matrix[row] = -1.0F;
  for (int thread = 0; thread < MOE__EMU_WGMMA_THREADS; thread++) {
    uint32_t registers[MOE__EMU_WGMMA_A_REGISTERS] = {0};
    for (int index = 0; index < MOE__EMU_WGMMA_A_REGISTERS; index++) {
      for (int part = 0; part < 2; part++) {
        int row = 0;
        int k = 0;
        moe__emu_wgmma_a_element(MOE__EMU_WGMMA_F16, thread, index, part, &row, &k);
        registers[index] |= (uint32_t)(row * 16 + k) << 16 * part;
      }
    }
    moe__emu_wgmma_unpack_registers(MOE__EMU_WGMMA_F16, thread, registers, matrix);
  }
  for (int i = 0; i < MOE__EMU_WGMMA_M * 16; i++)
    assert_true(matrix[i] == moe__emu_f32_from_f16((uint16_t)i));

  const uint32_t ones[MOE__EMU_WGMMA_A_REGISTERS] = {0x38404448, 0, 0, 0}; /* 4, 3, 2, 1 in E4M3 */
  moe__emu_wgmma_unpack_registers(MOE__EMU_WGMMA_E4M3, 5, ones, matrix);
  assert_true(matrix[32 + 4] == 4.0F && matrix[32 + 5] == 3.0F && matrix[32 + 6] == 2.0F &&
              matrix[32 + 7] == 1.0F);
}

/* ---- Arithmetic ---- */

static void test_half(void **state) {
  (void)state;
  assert_true(moe__emu_f32_from_f16(0x3C00) == 1.0F);
  assert_true(moe__emu_f32_from_f16(0xC248) == -3.140625F);
  assert_true(moe__emu_f32_from_f16(0x7BFF) == 65504.0F);
  assert_true(moe__emu_f32_from_f16(0x0001) == 0x1p-24F);
  assert_true(moe__emu_f32_from_f16(0x83FF) == -0x1.FF8p-15F);
  assert_true(signbit(moe__emu_f32_from_f16(0x8000)));
  assert_true(moe__emu_f32_from_f16(0xFC00) == -INFINITY);
  assert_true(isnan(moe__emu_f32_from_f16(0x7C01)));
}

static void test_integers(void **state) {
  (void)state;
  static float a[64 * 32];
  static float b[32 * 256];
  static float d[64 * 256];
  static float start[64 * 256];
  uint64_t seed = 7;
  for (int round = 0; round < 12; round++) {
    const moe__emu_wgmma_shape_t shape =
        shape_of(round % 2 ? MOE__EMU_WGMMA_F16 : MOE__EMU_WGMMA_E4M3,
                 (int)random_between(&seed, 1, 32) * 8, false);
    const bool accumulate = round % 3 != 0;
    const int scale_a = round % 4 < 2 ? 1 : -1;
    const int scale_b = round % 8 < 4 ? 1 : -1;
    for (int i = 0; i < 64 * shape.k; i++)
      a[i] = (float)random_between(&seed, -9, 9);
    for (int i = 0; i < shape.k * shape.n; i++)
      b[i] = (float)random_between(&seed, -9, 9);
    for (int i = 0; i < 64 * shape.n; i++)
      d[i] = start[i] = (float)random_between(&seed, -1000, 1000);
    moe__emu_wgmma_multiply(&shape, MOE__EMU_WGMMA_M, a, b, accumulate, scale_a, scale_b, d);
    for (int row = 0; row < 64; row++) {
      for (int column = 0; column < shape.n; column++) {
        int sum = 0;
        for (int k = 0; k < shape.k; k++)
          sum += (int)a[row * shape.k + k] * (int)b[k * shape.n + column];
        sum = sum * scale_a * scale_b + (accumulate ? (int)start[row * shape.n + column] : 0);
        assert_true(d[row * shape.n + column] == (float)sum);
      }
    }
  }
}

/* Element (0, 0) of D for one row of A, one column of B and a start, all as bits. */
static uint32_t sum_of(moe__emu_wgmma_type_t type, const uint16_t *row, const uint16_t *column,
                       uint32_t start) {
  static float a[64 * 32], b[32 * 8], d[64 * 8];
  const moe__emu_wgmma_shape_t shape = shape_of(type, 8, false);
  moe__emu_error_t error = {""};
  moe__emu_wgmma_operand_t operands[2];
  for (int is_b = 0; is_b < 2; is_b++) {
    uint8_t bytes[32];
    assert_true(moe__emu_wgmma_descriptor(&shape, is_b, 0, &operands[is_b], &error));
    for (int k = 0; k < shape.k; k++) {
      const uint16_t element = is_b ? column[k] : row[k];
      bytes[k * 32 / shape.k] = (uint8_t)element;
      if (shape.k == 16)
        bytes[2 * k + 1] = (uint8_t)(element >> 8);
    }
    for (int chunk = 0; chunk < 2; chunk++)
      moe__emu_wgmma_unpack_chunk(&operands[is_b], is_b, chunk, bytes + (size_t)16 * chunk,
                                  is_b ? b : a);
  }
  memcpy(d, &start, sizeof start);
  moe__emu_wgmma_multiply(&shape, MOE__EMU_WGMMA_M, a, b, true, 1, 1, d);
  uint32_t bits = 0;
  memcpy(&bits, d, sizeof bits);
  return bits;
}

/* What an H200 gave for random numbers of many exponents; none is the exact sum, rounded. */
static void test_sums_of_an_h200(void **state) {
  (void)state;
  static const struct {
    moe__emu_wgmma_type_t type;
    uint16_t row[32], column[32];
    uint32_t start, sum;
  } cases[] = {
      {MOE__EMU_WGMMA_BF16,
       {0x3B3E, 0xBD0A, 0x420D, 0xC2B8, 0x3FBC, 0xBD3D, 0x4281, 0xC00C, 0x446E, 0x436C, 0xC0EA,
        0xC179, 0xBE48, 0xC57E, 0xBCF9, 0x4136},
       {0xBA49, 0x39CB, 0x3EA6, 0xC382, 0x3B1B, 0xC085, 0x41F2, 0x3D01, 0xC03F, 0xC275, 0xC261,
        0xC511, 0x41D3, 0xBAD0, 0xBB6D, 0x3C2B},
       0x388D6C84,
       0x4730304C},
      {MOE__EMU_WGMMA_F16,
       {0xCA8C, 0x507F, 0xD6BE, 0x6390, 0xBEB9, 0xB200, 0xE3F, 0xA48D, 0x950C, 0x56CD, 0x632F,
        0xA4C5, 0x6D21, 0x9F7C, 0x2DB8, 0x4B08},
       {0xAC53, 0xA97F, 0xC51, 0xD0FD, 0xF01, 0x6B25, 0x46D0, 0x9D87, 0xB685, 0xA47A, 0xA295,
        0xC4FD, 0xDC72, 0x12C7, 0x1CDE, 0x3583},
       0x36865EB8,
       0xC9BB3274},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    assert_int_equal(sum_of(cases[i].type, cases[i].row, cases[i].column, cases[i].start),
                     cases[i].sum);
}

/* The rules of moe__emu_wgmma_multiply one by one. */
static void test_cuts(void **state) {
  (void)state;
  const moe__emu_wgmma_type_t bf16 = MOE__EMU_WGMMA_BF16, f16 = MOE__EMU_WGMMA_F16;
  static const uint32_t one = 0x3F800000, canonical = 0x7FFFFFFF;
  /* 1 - 2^-25 is kept until it is cut to 24 bits; 2^-26 is lost before. */
  assert_int_equal(sum_of(bf16, (uint16_t[16]){0xB300}, (uint16_t[16]){0x3F80}, one), 0x3F7FFFFF);
  assert_int_equal(sum_of(bf16, (uint16_t[16]){0xB280}, (uint16_t[16]){0x3F80}, one), one);
  /* What is cut is each addend, toward zero: 16 times 2^-26 are nothing. */
  uint16_t small[16], ones[16];
  for (int k = 0; k < 16; k++) {
    small[k] = 0x3280;
    ones[k] = 0x3F80;
  }
  assert_int_equal(sum_of(bf16, small, ones, one), one);
  /* A product counts with the sum of its exponents: 1.5 * 1.5 = 2.25 has that of 1. */
  assert_int_equal(sum_of(bf16, (uint16_t[16]){0x3FC0, 0xB300}, (uint16_t[16]){0x3FC0, 0x3F80}, 0),
                   0x400FFFFF);
  /* A product of 0 counts with none, whatever the other factor is. */
  assert_int_equal(sum_of(bf16, (uint16_t[16]){0x7F00, 0x3F80}, (uint16_t[16]){0, 0x3F80}, 1), one);
  /* A subnormal number has the exponent of the least normal one: 2^-24 * 2^15 counts as 2. */
  assert_int_equal(sum_of(f16, (uint16_t[16]){0x0001, 0x0200}, (uint16_t[16]){0x7800, 0x0400}, 0),
                   0x3B000000);
  /* NaN has the tensor core's bits; Inf - Inf and 0 * Inf are NaN; 2^128 is Inf. */
  assert_int_equal(sum_of(bf16, (uint16_t[16]){0xFFC1}, (uint16_t[16]){0}, one), canonical);
  assert_int_equal(sum_of(bf16, (uint16_t[16]){0x7F80}, (uint16_t[16]){0}, one), canonical);
  assert_int_equal(sum_of(bf16, (uint16_t[16]){0x7F80}, (uint16_t[16]){0x3F80}, 0xFF800000),
                   canonical);
  assert_int_equal(sum_of(bf16, (uint16_t[16]){0x7F80}, (uint16_t[16]){0xBF80}, one), 0xFF800000);
  assert_int_equal(sum_of(bf16, (uint16_t[16]){0x7F00}, (uint16_t[16]){0x4000}, one), 0x7F800000);
  assert_int_equal(sum_of(bf16, (uint16_t[16]){0x3F80}, (uint16_t[16]){0x3F80}, 0x7FC12345),
                   canonical);
}

/* Of 8-bit types, one rounding: 2^24 + (1 + 2^-28) rounds up, 2^24 + 1 to even. A NaN has the
 * tensor core's bits. */
static void test_rounding(void **state) {
  (void)state;
  static float a[64 * 32];
  static float b[32 * 8];
  static float d[64 * 8];
  const moe__emu_wgmma_shape_t shape = shape_of(MOE__EMU_WGMMA_E5M2, 8, false);
  b[0] = 1.0F;     /* k 0, column 0 */
  b[8] = 0x1p-14F; /* k 1 */
  a[0] = 1.0F;     /* row 0: 1 + 2^-28 */
  a[1] = 0x1p-14F;
  a[32] = 1.0F; /* row 1: 1 */
  a[64] = NAN;  /* row 2 */
  d[0] = d[8] = 0x1p24F;
  moe__emu_wgmma_multiply(&shape, MOE__EMU_WGMMA_M, a, b, true, 1, 1, d);
  assert_true(d[0] == 0x1p24F + 2.0F);
  assert_true(d[8] == 0x1p24F);
  uint32_t bits = 0;
  memcpy(&bits, &d[16], sizeof bits);
  assert_int_equal(bits, 0x7FFFFFFF);
  assert_true(d[24] == 0.0F);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_shapes),
      cmocka_unit_test(test_descriptor_fields),
      cmocka_unit_test(test_k_major_swizzled),
      cmocka_unit_test(test_k_major_plain),
      cmocka_unit_test(test_mn_major_swizzled),
      cmocka_unit_test(test_mn_major_plain),
      cmocka_unit_test(test_tma_writes_what_wgmma_reads),
      cmocka_unit_test(test_d_is_a_bijection),
      cmocka_unit_test(test_d_landmarks),
      cmocka_unit_test(test_a_landmarks),
      cmocka_unit_test(test_a_registers),
      cmocka_unit_test(test_half),
      cmocka_unit_test(test_integers),
      cmocka_unit_test(test_sums_of_an_h200),
      cmocka_unit_test(test_cuts),
      cmocka_unit_test(test_rounding),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
