/* Vectors.h - 16 bytes of a tensor of bf16 or f32, which is what a lane of a streaming kernel
 * loads at once: its largest magnitudes, and its elements as FP8.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_DEVICE_VECTORS_H
#define MOE_DEVICE_VECTORS_H

#include "lib/Device/Elements.h"
#include "lib/Device/Fp8.h"

#define MOE__VECTOR_BYTES 16
#define MOE__VECTOR_WORDS 4
#define MOE__MAX_VECTORS 16 /* that a thread may hold */

/* Whether a thread may hold so many; an error at `op` where not. */
bool moe__vectors_fit(MlirOperation op, int vectors);

/* The registers of a thread that holds so many: the rest is for what is done with them. */
int moe__vector_registers(int vectors);

/* The vector at an address that is a multiple of 16. */
MlirValue moe__vector_load(moe__builder_t *b, MlirValue address);

/* The word of the larger magnitudes of a vector: moe__word_amax of it is the largest. */
MlirValue moe__vector_magnitudes(moe__builder_t *b, const moe__elements_t *elements,
                                 MlirValue vector);

/* The words of a vector whose magnitudes have been taken. */
void moe__vector_words(moe__builder_t *b, const moe__elements_t *elements, MlirValue vector,
                       MlirValue out[MOE__VECTOR_WORDS]);

/* Stores the elements of a vector's words, times `factor` (f32), as FP8: 8 bytes where they are
 * bf16, 4 where they are f32. */
void moe__vector_store_fp8(moe__builder_t *b, const moe__elements_t *elements,
                           const MlirValue words[MOE__VECTOR_WORDS], MlirValue factor,
                           moe__fp8_t element, MlirValue address);

/* The other way: as many elements of an MX tensor as a vector has, 8 for bf16 and 4 for f32, and
 * the scale of their block. */
typedef struct moe__mx_vector_t {
  MlirValue q, scale; /* of i32; i8 */
} moe__mx_vector_t;

moe__mx_vector_t moe__mx_vector_load(moe__builder_t *b, const moe__elements_t *elements,
                                     MlirValue q, MlirValue scale);

/* Stores what they stand for. */
void moe__mx_vector_store(moe__builder_t *b, const moe__elements_t *elements,
                          const moe__mx_vector_t *vector, moe__fp8_t element, MlirValue address);

#endif /* MOE_DEVICE_VECTORS_H */
