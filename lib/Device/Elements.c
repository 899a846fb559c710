/* Elements.c - see Elements.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Device/Elements.h"

#include "mlir-c/BuiltinTypes.h"

#define F32_MAGNITUDE 0x7FFFFFFF
#define F32_INFINITY 0x7F800000
#define UPPER_HALF ((int32_t)0xFFFF0000)
#define MAX_WORDS 32

const moe__elements_t moe__bf16_elements = {.bytes = 2, .per_word = 2};

moe__elements_t moe__elements_of(MlirType tensor, bool sanitize) {
  bool bf16 = mlirTypeIsABF16(mlirShapedTypeGetElementType(tensor));
  return (moe__elements_t){.bytes = bf16 ? 2 : 4, .per_word = bf16 ? 2 : 1, .sanitize = sanitize};
}

/* The largest finite value, as the bits of an f32. */
static int32_t max_finite(const moe__elements_t *elements) {
  return elements->bytes == 2 ? 0x7F7F0000 : 0x7F7FFFFF;
}

/* The bits of an f32 whose element is number `index` of the word. */
static MlirValue element_bits(moe__builder_t *b, const moe__elements_t *elements, MlirValue word,
                              int index) {
  if (elements->bytes == 4)
    return word;
  return index == 0 ? moe__shl(b, word, 16) : moe__and(b, word, UPPER_HALF);
}

/* NaN -> 0, Inf -> the largest finite magnitude. */
static MlirValue sanitized(moe__builder_t *b, const moe__elements_t *elements,
                           MlirValue magnitude) {
  MlirValue is_number = moe__ule(b, magnitude, F32_INFINITY);
  MlirValue finite = moe__umin(b, magnitude, max_finite(elements));
  return moe__select(b, is_number, finite, 0);
}

static MlirValue clear_sign(moe__builder_t *b, MlirValue bits) {
  return moe__and(b, bits, F32_MAGNITUDE);
}

MlirValue moe__word_magnitudes(moe__builder_t *b, const moe__elements_t *elements, MlirValue word) {
  MlirValue magnitudes =
      moe__and(b, word, elements->bytes == 2 ? (int32_t)0x7FFF7FFF : F32_MAGNITUDE);
  if (!elements->sanitize)
    return magnitudes;
  MlirValue clean = sanitized(b, elements, element_bits(b, elements, magnitudes, 0));
  if (elements->bytes == 4)
    return clean;
  MlirValue upper = sanitized(b, elements, element_bits(b, elements, magnitudes, 1));
  return moe__or(b, moe__lshr(b, clean, 16), upper);
}

MlirValue moe__word_max(moe__builder_t *b, const moe__elements_t *elements, MlirValue x,
                        MlirValue y) {
  if (elements->bytes == 4)
    return moe__umax(b, x, y);
  MlirType pair = moe__type(b, "vector<2xbf16>");
  MlirValue larger =
      moe__op1(b, "llvm.intr.maximum", pair,
               MOE__VALUES(moe__bitcast(b, x, pair), moe__bitcast(b, y, pair)), NULL);
  return moe__bitcast(b, larger, b->i32);
}

MlirValue moe__larger_words(moe__builder_t *b, const void *elements, MlirValue x, MlirValue y) {
  return moe__word_max(b, elements, x, y);
}

MlirValue moe__words_amax(moe__builder_t *b, const moe__elements_t *elements,
                          const MlirValue *words, int count) {
  /* Floating point instructions take magnitudes for free. */
  MlirType type = elements->bytes == 2 ? moe__type(b, "vector<2xbf16>") : b->f32;
  MlirValue level[MAX_WORDS] = {{NULL}};
  for (int i = 0; i < count; i++)
    level[i] =
        moe__op1(b, "llvm.intr.fabs", type, MOE__VALUES(moe__bitcast(b, words[i], type)), NULL);
  while ((count /= 2) >= 1)
    for (int i = 0; i < count; i++)
      level[i] =
          moe__op1(b, "llvm.intr.maximum", type, MOE__VALUES(level[i], level[i + count]), NULL);
  return moe__bitcast(b, level[0], b->i32);
}

MlirValue moe__word_magnitude(moe__builder_t *b, const moe__elements_t *elements, MlirValue word,
                              int index) {
  return element_bits(b, elements, word, index);
}

MlirValue moe__word_amax(moe__builder_t *b, const moe__elements_t *elements, MlirValue word) {
  if (elements->bytes == 4)
    return word;
  return moe__umax(b, element_bits(b, elements, word, 0), element_bits(b, elements, word, 1));
}

MlirValue moe__word_element(moe__builder_t *b, const moe__elements_t *elements, MlirValue word,
                            int index) {
  MlirValue bits = element_bits(b, elements, word, index);
  if (elements->sanitize) {
    MlirValue sign = moe__and(b, bits, INT32_MIN);
    MlirValue magnitude = clear_sign(b, bits);
    /* NaN becomes +0, whatever its sign is. */
    MlirValue is_number = moe__ule(b, magnitude, F32_INFINITY);
    MlirValue finite = moe__umin(b, magnitude, max_finite(elements));
    bits = moe__select(b, is_number, moe__or(b, sign, finite), 0);
  }
  return moe__bitcast(b, bits, b->f32);
}

MlirValue moe__pack_halves(moe__builder_t *b, MlirType element, const MlirValue pair[2]) {
  MlirType type = moe__vector_type(b, 2, element);
  MlirValue vector = moe__vector(b, 2, pair);
  return moe__bitcast(b, moe__op1(b, "llvm.fptrunc", type, MOE__VALUES(vector), NULL), b->i32);
}

MlirValue moe__pick_bytes(moe__builder_t *b, MlirValue low, MlirValue high, int selector) {
  return moe__op1(b, "llvm.inline_asm", b->i32, MOE__VALUES(low, high, moe__i32(b, selector)),
                  "asm_dialect = 0 : i64, asm_string = \"prmt.b32 $0, $1, $2, $3;\", "
                  "constraints = \"=r,r,r,r\"");
}

MlirValue moe__word_of(moe__builder_t *b, const moe__elements_t *elements,
                       const MlirValue *values) {
  if (elements->per_word == 1)
    return moe__bitcast(b, values[0], b->i32);
  return moe__pack_halves(b, moe__type(b, "bf16"), values);
}
