/* Elements.h - elements of high-precision tensors in 32-bit words: two bf16, or one f32.
 *
 * Magnitudes are kept as bits: as unsigned integers they are in the order of their values, with NaN
 * above Inf, so that a maximum propagates NaN.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_DEVICE_ELEMENTS_H
#define MOE_DEVICE_ELEMENTS_H

#include "lib/Builder/Builder.h"

typedef struct moe__elements_t {
  int bytes;     /* of one: 2 for bf16, 4 for f32 */
  int per_word;  /* 2 or 1 */
  bool sanitize; /* read NaN as 0 and Inf as the largest finite value of its sign */
} moe__elements_t;

#define MOE__F32_MANTISSA_BITS 23
#define MOE__F32_BIAS 127 /* of an exponent */

extern const moe__elements_t moe__bf16_elements; /* as they are */

/* The elements of a tensor of bf16 or f32. */
moe__elements_t moe__elements_of(MlirType tensor, bool sanitize);

/* The magnitudes of a word's elements, and the larger ones of two words of magnitudes. */
MlirValue moe__word_magnitudes(moe__builder_t *b, const moe__elements_t *elements, MlirValue word);
MlirValue moe__word_max(moe__builder_t *b, const moe__elements_t *elements, MlirValue x,
                        MlirValue y);

/* moe__word_max as moe__warp_reduce_many takes it; the context is the elements. */
MlirValue moe__larger_words(moe__builder_t *b, const void *elements, MlirValue x, MlirValue y);

/* The larger magnitudes of `count` words, 1 to 32, a power of two; as they are, whatever `sanitize`
 * says. */
MlirValue moe__words_amax(moe__builder_t *b, const moe__elements_t *elements,
                          const MlirValue *words, int count);

/* Magnitude number `index` of a word of magnitudes, as the bits of an f32. */
MlirValue moe__word_magnitude(moe__builder_t *b, const moe__elements_t *elements, MlirValue word,
                              int index);

/* The larger of all magnitudes of a word, as the bits of an f32. */
MlirValue moe__word_amax(moe__builder_t *b, const moe__elements_t *elements, MlirValue word);

/* Element number `index` of a word, as f32. */
MlirValue moe__word_element(moe__builder_t *b, const moe__elements_t *elements, MlirValue word,
                            int index);

/* Two f32, rounded to nearest even to elements of 16 bits (bf16 or f16), in an i32; pair[0]
 * lowest. */
MlirValue moe__pack_halves(moe__builder_t *b, MlirType element, const MlirValue pair[2]);

/* Bytes of two words: those that a selector of prmt names. */
MlirValue moe__pick_bytes(moe__builder_t *b, MlirValue low, MlirValue high, int selector);

/* A word of per_word f32 values, the first lowest; bf16 is rounded to nearest even. */
MlirValue moe__word_of(moe__builder_t *b, const moe__elements_t *elements, const MlirValue *values);

#endif /* MOE_DEVICE_ELEMENTS_H */
