/* Vectors.c - see Vectors.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Device/Vectors.h"

#include "lib/Builder/Inspect.h"

#define FP8_PER_WORD 4 /* in an i32 */

bool moe__vectors_fit(MlirOperation op, int vectors) {
  return vectors <= MOE__MAX_VECTORS ||
         moe__error(op, "'schedule' gives each thread %d vectors; it may have at most %d", vectors,
                    MOE__MAX_VECTORS);
}

int moe__vector_registers(int vectors) {
  return MOE__VECTOR_WORDS * vectors + 32;
}

MlirValue moe__vector_load(moe__builder_t *b, MlirValue address) {
  return moe__load_aligned(b, address, moe__vector_type(b, MOE__VECTOR_WORDS, b->i32),
                           MOE__VECTOR_BYTES);
}

MlirValue moe__vector_magnitudes(moe__builder_t *b, const moe__elements_t *elements,
                                 MlirValue vector) {
  MlirValue level[MOE__VECTOR_WORDS];
  for (int i = 0; i < MOE__VECTOR_WORDS; i++)
    level[i] = moe__extract(b, vector, i);
  if (!elements->sanitize)
    return moe__words_amax(b, elements, level, MOE__VECTOR_WORDS);
  for (int i = 0; i < MOE__VECTOR_WORDS; i++)
    level[i] = moe__word_magnitudes(b, elements, level[i]);
  for (int count = MOE__VECTOR_WORDS / 2; count >= 1; count /= 2)
    for (int i = 0; i < count; i++)
      level[i] = moe__word_max(b, elements, level[i], level[i + count]);
  return level[0];
}

void moe__vector_words(moe__builder_t *b, const moe__elements_t *elements, MlirValue vector,
                       MlirValue out[MOE__VECTOR_WORDS]) {
  /* As if just loaded, where magnitudes are made element by element: the compiler would keep
   * what it has found of each for the cast, in more registers than there are. */
  for (int i = 0; i < MOE__VECTOR_WORDS; i++) {
    MlirValue word = moe__extract(b, vector, i);
    out[i] = elements->sanitize ? moe__fresh(b, word) : word;
  }
}

void moe__vector_store_fp8(moe__builder_t *b, const moe__elements_t *elements,
                           const MlirValue words[MOE__VECTOR_WORDS], MlirValue factor,
                           moe__fp8_t element, MlirValue address) {
  int bytes = MOE__VECTOR_WORDS * elements->per_word;
  MlirValue packed[2];
  for (int i = 0; i < bytes / FP8_PER_WORD; i++) {
    MlirValue scaled[FP8_PER_WORD];
    for (int j = 0; j < FP8_PER_WORD; j++) {
      int number = FP8_PER_WORD * i + j;
      MlirValue word = words[number / elements->per_word];
      scaled[j] =
          moe__fmul(b, moe__word_element(b, elements, word, number % elements->per_word), factor);
    }
    packed[i] = moe__fp8_pack4(b, scaled, element);
  }
  moe__store_aligned(b, moe__vector(b, bytes / FP8_PER_WORD, packed), address, bytes);
}

moe__mx_vector_t moe__mx_vector_load(moe__builder_t *b, const moe__elements_t *elements,
                                     MlirValue q, MlirValue scale) {
  int bytes = MOE__VECTOR_BYTES / elements->bytes;
  return (moe__mx_vector_t){
      .q = moe__load_aligned(b, q, moe__vector_type(b, bytes / FP8_PER_WORD, b->i32), bytes),
      .scale = moe__load(b, scale, b->i8)};
}

void moe__mx_vector_store(moe__builder_t *b, const moe__elements_t *elements,
                          const moe__mx_vector_t *vector, moe__fp8_t element, MlirValue address) {
  MlirValue factor = moe__e8m0_value(b, moe__zext(b, vector->scale, b->i32));
  MlirValue words[MOE__VECTOR_WORDS], numbers[FP8_PER_WORD];
  for (int i = 0; i < MOE__VECTOR_WORDS; i++) {
    int first = i * elements->per_word; /* of the word's elements */
    if (first % FP8_PER_WORD == 0) {
      moe__fp8_unpack4(b, moe__extract(b, vector->q, first / FP8_PER_WORD), element, numbers);
      for (int j = 0; j < FP8_PER_WORD; j++)
        numbers[j] = moe__fmul(b, numbers[j], factor);
    }
    words[i] = moe__word_of(b, elements, numbers + first % FP8_PER_WORD);
  }
  moe__store(b, moe__vector(b, MOE__VECTOR_WORDS, words), address);
}
