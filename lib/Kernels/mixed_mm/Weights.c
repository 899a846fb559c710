/* Weights.c - four bits become bf16 or f16: see MixedMm.h.
 *
 * A word has eight weights, nibble i and nibble i + 4 those of register i. Where a nibble stands in
 * the mantissa of a number whose last place is worth 1, it is that number plus the nibble; the
 * number goes away by one fma. Two's complement turns into an excess of 8 by flipping the sign bit,
 * which costs nothing: the instruction that puts the nibble in place flips it. An E2M1 value is
 * moved to the sign, the lowest bits of the exponent and the highest of the mantissa; the exponent
 * is corrected by one multiplication, which is exact also of subnormals.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/mixed_mm/MixedMm.h"

#include "mlir-c/BuiltinTypes.h"

#define EXCESS 8
#define TWICE(half) ((int32_t)((uint32_t)(half)*0x10001u))

/* What differs between bf16 and f16. */
typedef struct halves_t {
  uint16_t magic;           /* the number whose last place is worth 1 */
  uint16_t one, minus;      /* 1, and -(that number + the excess) */
  int shift;                /* from the highest nibble's exponent and mantissa to their place */
  uint16_t exponent, power; /* the bits of that place; 2^(difference of the exponents' biases) */
} halves_t;

static const halves_t BF16 = {0x4300, 0x3F80, 0xC308, 6, 0x01C0, 0x7E80};
static const halves_t F16 = {0x6400, 0x3C00, 0xE408, 3, 0x0E00, 0x7400};
/* f16 has room for a nibble at bits 4 to 7 too: 1024 + 16 q, times 1/16, less 64 + 8. */
#define F16_SIXTEENTH 0x2C00
#define F16_MINUS_HIGH 0xD480

/* x * y + z of the halves of words; y and z are constants. */
static MlirValue fma_halves(moe__mixed_mm_t *s, MlirValue x, uint16_t y, uint16_t z) {
  moe__builder_t *b = &s->kernel.builder;
  MlirType type = moe__vector_type(b, 2, s->x_type);
  MlirValue factor = moe__bitcast(b, moe__i32(b, TWICE(y)), type);
  MlirValue sum =
      moe__fma(b, moe__bitcast(b, x, type), factor, moe__bitcast(b, moe__i32(b, TWICE(z)), type));
  return moe__bitcast(b, sum, b->i32);
}

static MlirValue shift_right(moe__builder_t *b, MlirValue x, int bits) {
  return bits ? moe__lshr(b, x, bits) : x;
}

/* Nibble i of both halves of the word, from bit `at` on. */
static MlirValue place_integer(moe__mixed_mm_t *s, const halves_t *halves, MlirValue word, int at) {
  moe__builder_t *b = &s->kernel.builder;
  int flipped = s->format == MOE__WEIGHT_I4 ? EXCESS << at : 0;
  MlirValue nibbles = moe__and(b, word, TWICE(0xF << at));
  return moe__xor(b, nibbles, TWICE(halves->magic | flipped));
}

static void convert_integers(moe__mixed_mm_t *s, MlirValue word,
                             MlirValue out[MOE__WGMMA_A_REGISTERS]) {
  moe__builder_t *b = &s->kernel.builder;
  bool is_bf16 = mlirTypeIsABF16(s->x_type);
  const halves_t *halves = is_bf16 ? &BF16 : &F16;
  for (int i = 0; i < MOE__WGMMA_A_REGISTERS; i++) {
    bool high = !is_bf16 && i % 2;
    MlirValue moved = shift_right(b, word, high ? 4 * (i - 1) : 4 * i);
    MlirValue placed = place_integer(s, halves, moved, high ? 4 : 0);
    out[i] = high ? fma_halves(s, placed, F16_SIXTEENTH, F16_MINUS_HIGH)
                  : fma_halves(s, placed, halves->one, halves->minus);
  }
}

static void convert_floats(moe__mixed_mm_t *s, MlirValue word,
                           MlirValue out[MOE__WGMMA_A_REGISTERS]) {
  moe__builder_t *b = &s->kernel.builder;
  const halves_t *halves = mlirTypeIsABF16(s->x_type) ? &BF16 : &F16;
  for (int i = 0; i < MOE__WGMMA_A_REGISTERS; i++) {
    MlirValue top = i < 3 ? moe__shl(b, word, 12 - 4 * i) : word;
    MlirValue magnitude = moe__and(b, moe__lshr(b, top, halves->shift), TWICE(halves->exponent));
    MlirValue bits = moe__or(b, moe__and(b, top, TWICE(0x8000)), magnitude);
    out[i] = fma_halves(s, bits, halves->power, 0x8000);
  }
}

void moe__mixed_convert(moe__mixed_mm_t *s, MlirValue word, MlirValue out[MOE__WGMMA_A_REGISTERS]) {
  (s->format == MOE__WEIGHT_E2M1 ? convert_floats : convert_integers)(s, word, out);
}
