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

/* ---- The product ---- */

enum {
  NO_EXPONENT = -4096, /* of zero: neither it nor the sum of it and another is the largest */
  BELOW = 25,          /* bits of an addend that are kept below the largest exponent */
  SIGNIFICANT = 24,    /* bits of the sum */
};

static inline __attribute__((always_inline)) uint32_t bits_of(float x) {
  uint32_t bits = 0;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static inline __attribute__((always_inline)) bool is_finite(float x) {
  return (bits_of(x) & 0x7F800000) != 0x7F800000;
}

/* The exponent as the hardware takes it: a subnormal number has the least normal one. */
static inline __attribute__((always_inline)) int16_t exponent_of(float x, int least) {
  const int exponent = (int)(bits_of(x) >> 23 & 0xFF) - 127;
  if (x == 0.0F)
    return NO_EXPONENT;
  return (int16_t)(exponent > least ? exponent : least);
}

/* The numbers of an operand, with 0 in place of what is not finite, and their exponents. False
 * where there is such a number. */
static bool read_operand(moe__emu_wgmma_type_t type, const float *x, int count, float *out_numbers,
                         int16_t *out_exponents) {
  static const int least[] = {[MOE__EMU_WGMMA_E4M3] = -6,
                              [MOE__EMU_WGMMA_E5M2] = -14,
                              [MOE__EMU_WGMMA_BF16] = -126,
                              [MOE__EMU_WGMMA_F16] = -14};
  bool finite = true;
  for (int i = 0; i < count; i++) {
    out_numbers[i] = is_finite(x[i]) ? x[i] : 0.0F;
    out_exponents[i] = exponent_of(out_numbers[i], least[type]);
    finite = finite && is_finite(x[i]);
  }
  return finite;
}

static inline __attribute__((always_inline)) double power_of_two(int exponent) {
  const uint64_t bits = (uint64_t)(exponent + 1023) << 52;
  double result = 0.0;
  memcpy(&result, &bits, sizeof result);
  return result;
}

/* x cut toward zero to fp32; Inf from 2^128 on. */
static inline __attribute__((always_inline)) void cut(int n, const double *x, float *out) {
  uint64_t subnormals = 0;
  for (int j = 0; j < n; j++) {
    uint64_t bits = 0;
    double left = 0.0;
    memcpy(&bits, &x[j], sizeof bits);
    bits &= ~UINT64_C(0) << (53 - SIGNIFICANT);
    memcpy(&left, &bits, sizeof left);
    const uint64_t exponent = bits >> 52 & 0x7FF;
    subnormals |= exponent < 1023 - 126 ? exponent : 0;
    out[j] = (float)left;
  }
  for (int j = 0; subnormals && j < n; j++)
    if (x[j] < 0x1p-126 && x[j] > -0x1p-126)
      out[j] = (float)((double)(int64_t)(x[j] * 0x1p149) * 0x1p-149);
}

/* What the sums of a row are made of. */
typedef struct row_t {
  const moe__emu_wgmma_shape_t *shape;
  const float *a, *b; /* a[k] and b[k][n], all finite */
  const int16_t *a_exponents, *b_exponents;
} row_t;

/* The largest exponents of the addends, d among them. */
static inline __attribute__((always_inline)) void find_largest(const row_t *row, const float *d,
                                                               int16_t *largest) {
  const int n = row->shape->n;
  for (int j = 0; j < n; j++)
    largest[j] = exponent_of(d[j], -126);
  for (int k = 0; k < row->shape->k; k++) {
    const int16_t mine = row->a_exponents[k], *others = row->b_exponents + (size_t)k * n;
    for (int j = 0; j < n; j++) {
      const int16_t exponent = (int16_t)(mine + others[j]);
      largest[j] = exponent > largest[j] ? exponent : largest[j];
    }
  }
}

/* d = d + the sum over k of a[k] * b[k][.]: see moe__emu_wgmma_multiply. An addend, in units of the
 * last bit that is kept, is below 2^27, and a conversion to an integer cuts it. */
static inline __attribute__((always_inline)) void sum_wide(const row_t *row, float *d) {
  const int n = row->shape->n;
  int16_t largest[MOE__EMU_WGMMA_MAX_N];
  double scale[MOE__EMU_WGMMA_MAX_N], sums[MOE__EMU_WGMMA_MAX_N];
  find_largest(row, d, largest);
  for (int j = 0; j < n; j++) {
    largest[j] = largest[j] <= NO_EXPONENT / 2 ? 0 : largest[j];
    scale[j] = power_of_two(BELOW - largest[j]);
    sums[j] = (double)(int32_t)(d[j] * scale[j]);
  }
  for (int k = 0; k < row->shape->k; k++) {
    const double x = row->a[k];
    const float *b = row->b + (size_t)k * n;
    for (int j = 0; x != 0.0 && j < n; j++)
      sums[j] += (double)(int32_t)(x * scale[j] * (double)b[j]);
  }
  for (int j = 0; j < n; j++)
    sums[j] *= power_of_two(largest[j] - BELOW);
  cut(n, sums, d);
}

/* The same for 8-bit operands: exact, then rounded once. */
static inline __attribute__((always_inline)) void sum_narrow(const row_t *row, float *d) {
  const int n = row->shape->n;
  double sums[MOE__EMU_WGMMA_MAX_N] = {0};
  for (int k = 0; k < row->shape->k; k++) {
    const double x = row->a[k];
    const float *b = row->b + (size_t)k * n;
    for (int j = 0; j < n; j++)
      sums[j] += x * (double)b[j];
  }
  for (int j = 0; j < n; j++)
    d[j] = (float)(d[j] + sums[j]);
}

/* Stores d + the sum over k of a[k] * b[k] where that is NaN or Inf, because one of them is. */
static void sum_specials(const moe__emu_wgmma_shape_t *shape, double sign, const float *a,
                         const float *b, float d, float *out) {
  static const uint32_t canonical = 0x7FFFFFFF;
  double sum = d;
  for (int k = 0; k < shape->k; k++)
    sum += sign * a[k] * b[(size_t)k * shape->n];
  if (sum != sum)
    memcpy(out, &canonical, sizeof *out);
  else if (sum - sum != 0.0)
    *out = (float)sum;
}

/* The operands of a product, all finite, and their exponents. */
typedef struct operands_t {
  float a[MOE__EMU_WGMMA_M * MOE__EMU_WGMMA_MAX_K];
  float b[MOE__EMU_WGMMA_MAX_K * MOE__EMU_WGMMA_MAX_N];
  int16_t a_exponents[MOE__EMU_WGMMA_M * MOE__EMU_WGMMA_MAX_K];
  int16_t b_exponents[MOE__EMU_WGMMA_MAX_K * MOE__EMU_WGMMA_MAX_N];
} operands_t;

static inline __attribute__((always_inline)) void
sum_row(const moe__emu_wgmma_shape_t *shape, const operands_t *operands, int i, float *d) {
  const size_t first = (size_t)i * shape->k;
  const row_t row = {shape, operands->a + first, operands->b, operands->a_exponents + first,
                     operands->b_exponents};
  if (types[shape->a].bits == 8)
    sum_narrow(&row, d);
  else
    sum_wide(&row, d);
}

/* The same with wider vectors, which change no rounding. */
#ifdef __x86_64__
#define MOE__EMU_SUM_FOR(name, features)                                                           \
  static __attribute__((target(features))) void name(                                              \
      const moe__emu_wgmma_shape_t *shape, const operands_t *operands, int i, float *d) {          \
    sum_row(shape, operands, i, d);                                                                \
  }
MOE__EMU_SUM_FOR(sum_row_avx2, "avx2")
MOE__EMU_SUM_FOR(sum_row_avx512, "avx512f")
#undef MOE__EMU_SUM_FOR
#endif

static void sum_row_fast(const moe__emu_wgmma_shape_t *shape, const operands_t *operands, int i,
                         float *d) {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f")) {
    sum_row_avx512(shape, operands, i, d);
    return;
  }
  if (__builtin_cpu_supports("avx2")) {
    sum_row_avx2(shape, operands, i, d);
    return;
  }
#endif
  sum_row(shape, operands, i, d);
}

void moe__emu_wgmma_multiply(const moe__emu_wgmma_shape_t *shape, int rows, const float *a,
                             const float *b, bool accumulate, int scale_a, int scale_b, float *d) {
  operands_t operands = {0};
  float start[MOE__EMU_WGMMA_MAX_N];
  const int n = shape->n, a_count = rows * shape->k, sign = scale_a * scale_b;
  const bool a_finite = read_operand(shape->a, a, a_count, operands.a, operands.a_exponents);
  const bool b_finite = read_operand(shape->b, b, shape->k * n, operands.b, operands.b_exponents);
  for (int i = 0; sign < 0 && i < a_count; i++)
    operands.a[i] = -operands.a[i];
  for (int i = 0; i < rows; i++) {
    float *d_row = d + (size_t)i * n;
    bool finite = a_finite && b_finite;
    for (int j = 0; j < n; j++) {
      start[j] = accumulate ? d_row[j] : 0.0F;
      finite = finite && is_finite(start[j]);
      d_row[j] = is_finite(start[j]) ? start[j] : 0.0F;
    }
    sum_row_fast(shape, &operands, i, d_row);
    for (int j = 0; !finite && j < n; j++)
      sum_specials(shape, sign, a + (size_t)i * shape->k, b + j, start[j], &d_row[j]);
  }
}
