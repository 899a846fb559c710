/* Wgmma.c - the warpgroup-wide matrix product.
 *
 * Why it exists: see Wgmma.h. Source of the layouts: the PTX ISA, asynchronous warpgroup-level
 * matrix instructions.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Emulator/Machine/Wgmma.h"

#include "lib/Emulator/Machine/Half.h"
#include "moe/reference.h"

#include <pthread.h>
#include <stddef.h>
#include <string.h>

typedef unsigned long long ull_t;

enum {
  CORE_ROWS = 8,   /* 8 chunks make a core matrix, the unit the byte offsets count between */
  CHUNKS_OF_K = 2, /* the 32 bytes of K in chunks */
  MAX_CHUNK_ELEMENTS = 16,
};

static const struct {
  const char *name;
  int bits;
} types[] = {
#define MOE__EMU_WGMMA_TYPE(constant, name, bits) {name, bits},
    MOE__EMU_WGMMA_TYPES(MOE__EMU_WGMMA_TYPE)
#undef MOE__EMU_WGMMA_TYPE
};

int moe__emu_wgmma_type_from_name(const char *name) {
  for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
    if (strcmp(name, types[i].name) == 0)
      return (int)i;
  }
  return -1;
}

bool moe__emu_wgmma_shape_check(const moe__emu_wgmma_shape_t *shape, moe__emu_error_t *error) {
  if (shape->n < 8 || shape->n > MOE__EMU_WGMMA_MAX_N || shape->n % 8 != 0)
    return moe__emu_error(error, "n is %d; it must be a multiple of 8 from 8 to 256", shape->n);
  if (shape->a != shape->b && (types[shape->a].bits != 8 || types[shape->b].bits != 8)) {
    return moe__emu_error(error, "%s and %s do not go together", types[shape->a].name,
                          types[shape->b].name);
  }
  const int bits = types[shape->a].bits;
  if (shape->k != MOE__EMU_WGMMA_K_BYTES * 8 / bits) {
    return moe__emu_error(error, "k is %d; it must be %d for %s", shape->k,
                          MOE__EMU_WGMMA_K_BYTES * 8 / bits, types[shape->a].name);
  }
  if (bits == 8 && (shape->a_mn_major || shape->b_mn_major)) {
    return moe__emu_error(error, "%s is transposed; 8-bit operands must be K-major",
                          types[shape->a_mn_major ? shape->a : shape->b].name);
  }
  return true;
}

/* ---- Operands in shared memory ---- */

bool moe__emu_wgmma_descriptor(const moe__emu_wgmma_shape_t *shape, bool is_b, uint64_t descriptor,
                               moe__emu_wgmma_operand_t *out_operand, moe__emu_error_t *error) {
  static const moe__emu_swizzle_t swizzles[] = {MOE__EMU_SWIZZLE_NONE, MOE__EMU_SWIZZLE_128B,
                                                MOE__EMU_SWIZZLE_64B, MOE__EMU_SWIZZLE_32B};
  static const uint64_t reserved = UINT64_C(0x3FF1C000C000C000);
  const char *name = is_b ? "B" : "A";
  if (descriptor & reserved) {
    return moe__emu_error(error, "descriptor of %s is 0x%016llx; the bits 0x%llx must be zero",
                          name, (ull_t)descriptor, (ull_t)(descriptor & reserved));
  }
  if (descriptor >> 49 & 7) {
    return moe__emu_error(error, "descriptor of %s is 0x%016llx; base offset %d is not modeled",
                          name, (ull_t)descriptor, (int)(descriptor >> 49 & 7));
  }
  *out_operand = (moe__emu_wgmma_operand_t){
      .type = is_b ? shape->b : shape->a,
      .mn_major = is_b ? shape->b_mn_major : shape->a_mn_major,
      .rows = is_b ? shape->n : MOE__EMU_WGMMA_M,
      .k = shape->k,
      .start = (uint32_t)(descriptor & 0x3FFF) << 4,
      .leading = (uint32_t)(descriptor >> 16 & 0x3FFF) << 4,
      .stride = (uint32_t)(descriptor >> 32 & 0x3FFF) << 4,
      .swizzle = swizzles[descriptor >> 62],
  };
  return true;
}

int moe__emu_wgmma_chunk_count(const moe__emu_wgmma_operand_t *operand) {
  return operand->rows * CHUNKS_OF_K;
}

static int elements_of_chunk(const moe__emu_wgmma_operand_t *operand) {
  return MOE__EMU_CHUNK * 8 / types[operand->type].bits;
}

/* Chunk `chunk` of a K-major operand has row chunk / 2 and the lower or upper half of K. Of an
 * MN-major one it has K index chunk / chunks-per-line, and along the rows chunk % chunks-per-line.
 */
static int chunks_of_line(const moe__emu_wgmma_operand_t *operand) {
  return operand->mn_major ? operand->rows / elements_of_chunk(operand) : CHUNKS_OF_K;
}

uint32_t moe__emu_wgmma_chunk_address(const moe__emu_wgmma_operand_t *operand, int chunk) {
  const uint32_t span = moe__emu_swizzle_span(operand->swizzle);
  const bool swizzled = operand->swizzle != MOE__EMU_SWIZZLE_NONE;
  const uint32_t line = (uint32_t)(chunk / chunks_of_line(operand));
  const uint32_t column = (uint32_t)(chunk % chunks_of_line(operand));

  /* Eight lines, a span apart, make one piece. Which field steps from piece to piece depends on the
   * layout. */
  uint32_t address = operand->start + line % CORE_ROWS * span;
  if (!operand->mn_major) {
    address += line / CORE_ROWS * operand->stride;
    address += column * (swizzled ? MOE__EMU_CHUNK : operand->leading);
  } else if (!swizzled) {
    address += line / CORE_ROWS * operand->leading + column * operand->stride;
  } else {
    const uint32_t wide = span / MOE__EMU_CHUNK;
    address += line / CORE_ROWS * operand->stride + column / wide * operand->leading;
    address += column % wide * MOE__EMU_CHUNK;
  }
  return moe__emu_swizzle(operand->swizzle, address);
}

static uint16_t load16(const uint8_t *bytes) {
  return (uint16_t)(bytes[0] | bytes[1] << 8);
}

/* The values of all bytes, by type. */
static float byte_values[MOE__EMU_WGMMA_E5M2 + 1][UINT8_MAX + 1];

static void fill_byte_values(void) {
  for (int byte = 0; byte <= UINT8_MAX; byte++) {
    byte_values[MOE__EMU_WGMMA_E4M3][byte] = moe_ref_f32_from_e4m3((uint8_t)byte);
    byte_values[MOE__EMU_WGMMA_E5M2][byte] = moe_ref_f32_from_e5m2((uint8_t)byte);
  }
}

/* 16 bytes, or 4, as numbers. */
static void convert(moe__emu_wgmma_type_t type, const uint8_t *bytes, int count, float *out) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  switch (type) {
  case MOE__EMU_WGMMA_E4M3:
  case MOE__EMU_WGMMA_E5M2:
    pthread_once(&once, fill_byte_values);
    for (int i = 0; i < count; i++)
      out[i] = byte_values[type][bytes[i]];
    break;
  case MOE__EMU_WGMMA_BF16:
    for (int i = 0; i < count; i++)
      out[i] = moe_ref_f32_from_bf16(load16(bytes + (size_t)2 * i));
    break;
  case MOE__EMU_WGMMA_F16:
    for (int i = 0; i < count; i++)
      out[i] = moe__emu_f32_from_f16(load16(bytes + (size_t)2 * i));
    break;
  }
}

void moe__emu_wgmma_unpack_chunk(const moe__emu_wgmma_operand_t *operand, bool is_b, int chunk,
                                 const uint8_t bytes[MOE__EMU_CHUNK], float *matrix) {
  const int count = elements_of_chunk(operand);
  const int line = chunk / chunks_of_line(operand);
  const int first = chunk % chunks_of_line(operand) * count;
  float values[MAX_CHUNK_ELEMENTS];
  convert(operand->type, bytes, count, values);
  for (int i = 0; i < count; i++) {
    const int row = operand->mn_major ? first + i : line;
    const int k = operand->mn_major ? line : first + i;
    matrix[is_b ? k * operand->rows + row : row * operand->k + k] = values[i];
  }
}

/* ---- Operands and results in registers ---- */

void moe__emu_wgmma_a_element(moe__emu_wgmma_type_t type, int thread, int index, int part,
                              int *out_row, int *out_k) {
  const int parts = 32 / types[type].bits;
  *out_row = moe__emu_wgmma_first_row(thread) + index % 2 * 8;
  *out_k = index / 2 * 4 * parts + thread % 4 * parts + part;
}

void moe__emu_wgmma_unpack_registers(moe__emu_wgmma_type_t type, int thread,
                                     const uint32_t registers[MOE__EMU_WGMMA_A_REGISTERS],
                                     float *a) {
  const int parts = 32 / types[type].bits;
  const int k = MOE__EMU_WGMMA_K_BYTES * 8 / types[type].bits;
  for (int index = 0; index < MOE__EMU_WGMMA_A_REGISTERS; index++) {
    uint8_t bytes[4];
    float values[4];
    for (int i = 0; i < 4; i++)
      bytes[i] = (uint8_t)(registers[index] >> 8 * i);
    convert(type, bytes, parts, values);
    for (int part = 0; part < parts; part++) {
      int row = 0;
      int column = 0;
      moe__emu_wgmma_a_element(type, thread, index, part, &row, &column);
      a[row * k + column] = values[part];
    }
  }
}

int moe__emu_wgmma_d_registers(int n) {
  return n / 2;
}

/* ---- The product ---- */

static float round_to_f32(double x) {
  static const uint32_t canonical = 0x7FFFFFFF;
  float result = (float)x;
  if (x != x)
    memcpy(&result, &canonical, sizeof result);
  return result;
}

enum { BLOCK_ROWS = 4, BLOCK_COLUMNS = 8 };
typedef double sums_t __attribute__((vector_size(BLOCK_COLUMNS * sizeof(double))));
typedef float columns_t __attribute__((vector_size(BLOCK_COLUMNS * sizeof(float))));

/* Four rows by eight columns of D. Each element is the sum of its products in order, however wide
 * the vectors of the processor are. */
static inline __attribute__((always_inline)) void
multiply_block(const moe__emu_wgmma_shape_t *shape, const float *a, const float *b, bool accumulate,
               double sign, float *d) {
  sums_t sums[BLOCK_ROWS] = {{0}};
  for (int k = 0; k < shape->k; k++) {
    columns_t columns;
    memcpy(&columns, b + (size_t)k * shape->n, sizeof columns);
    const sums_t b_row = __builtin_convertvector(columns, sums_t);
    for (int row = 0; row < BLOCK_ROWS; row++)
      sums[row] += sign * a[row * shape->k + k] * b_row;
  }
  for (int row = 0; row < BLOCK_ROWS; row++) {
    float *d_row = d + (size_t)row * shape->n;
    for (int column = 0; column < BLOCK_COLUMNS; column++)
      d_row[column] =
          round_to_f32(accumulate ? d_row[column] + sums[row][column] : sums[row][column]);
  }
}

static inline __attribute__((always_inline)) void
multiply_blocks(const moe__emu_wgmma_shape_t *shape, const float *a, const float *b,
                bool accumulate, double sign, float *d) {
  for (int row = 0; row < MOE__EMU_WGMMA_M; row += BLOCK_ROWS)
    for (int column = 0; column < shape->n; column += BLOCK_COLUMNS)
      multiply_block(shape, a + (size_t)row * shape->k, b + column, accumulate, sign,
                     d + (size_t)row * shape->n + column);
}

#ifdef __x86_64__
#define MOE__EMU_MULTIPLY_FOR(name, features)                                                      \
  static __attribute__((target(features))) void name(const moe__emu_wgmma_shape_t *shape,          \
                                                     const float *a, const float *b,               \
                                                     bool accumulate, double sign, float *d) {     \
    multiply_blocks(shape, a, b, accumulate, sign, d);                                             \
  }
MOE__EMU_MULTIPLY_FOR(multiply_avx2, "avx2")
MOE__EMU_MULTIPLY_FOR(multiply_avx512, "avx512f")
#undef MOE__EMU_MULTIPLY_FOR
#endif

void moe__emu_wgmma_multiply(const moe__emu_wgmma_shape_t *shape, const float *a, const float *b,
                             bool accumulate, int scale_a, int scale_b, float *d) {
  const double sign = scale_a * scale_b;
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f")) {
    multiply_avx512(shape, a, b, accumulate, sign, d);
    return;
  }
  if (__builtin_cpu_supports("avx2")) {
    multiply_avx2(shape, a, b, accumulate, sign, d);
    return;
  }
#endif
  multiply_blocks(shape, a, b, accumulate, sign, d);
}
