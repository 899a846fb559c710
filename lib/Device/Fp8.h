/* Fp8.h - 8-bit floating point in registers: the scale of an MX block, the factor of a slice with
 * an f32 scale, and the cast.
 *
 * The formulas are those of docs/numerics.md; sm_90a has no conversion to E8M0, so the scale is
 * made with integers.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_DEVICE_FP8_H
#define MOE_DEVICE_FP8_H

#include "lib/Builder/Builder.h"

typedef enum moe__fp8_t { MOE__E4M3, MOE__E5M2 } moe__fp8_t;

/* MOE__FLOOR, ... */
typedef enum moe__mx_mode_t {
#define MOE_MX_MODE(symbol, name) MOE__##symbol,
#include "moe/mx_modes.def"
} moe__mx_mode_t;

/* The element type of an FP8 tensor. */
moe__fp8_t moe__fp8_of(MlirType tensor);

/* The FP8 type of this name in MLIR; false if there is none. */
bool moe__fp8_from_name(MlirStringRef name, moe__fp8_t *out);

/* The mode of this name; false if there is none. */
bool moe__mx_mode_from_name(MlirStringRef name, moe__mx_mode_t *out);

/* amax (f32, >= 0, NaN or Inf) -> E8M0 byte (i32, 0..255). */
MlirValue moe__mx_scale(moe__builder_t *b, MlirValue amax, moe__mx_mode_t mode, moe__fp8_t element);

/* E8M0 byte of moe__mx_scale (i32) -> the f32 that elements are multiplied by; NaN for 255. */
MlirValue moe__mx_reciprocal(moe__builder_t *b, MlirValue scale);

/* The factor that the elements of a slice are multiplied by, from the bits (i32) of its largest
 * magnitude: MAX / max(amax, 1e-12), MAX the largest value of the element type; with pow2 rounded
 * down to a power of two. NaN for NaN, 0 for Inf. */
MlirValue moe__fp8_factor(moe__builder_t *b, MlirValue amax_bits, moe__fp8_t element, bool pow2);

/* 1 / factor: what q is multiplied by to get x back. */
MlirValue moe__fp8_inverse(moe__builder_t *b, MlirValue factor);

/* E8M0 byte (i32, 0..255) -> the f32 that it stands for; NaN for 255. */
MlirValue moe__e8m0_value(moe__builder_t *b, MlirValue byte);

/* 8 FP8 numbers of a thread, a vector of two words, and 8 of the thread beside it, which has the
 * next number: 16 columns, of which those with an even number come to the first of the two. All
 * threads of a warp must call it. */
MlirValue moe__fp8_evens_first(moe__builder_t *b, MlirValue thread, MlirValue vector);

/* The four numbers of a word as f16, which has all of them: two vectors of two. */
void moe__fp8_widen4(moe__builder_t *b, MlirValue word, moe__fp8_t element, MlirValue out[2]);

/* Four FP8 in an i32 -> four f32, the lowest first; exact. */
void moe__fp8_unpack4(moe__builder_t *b, MlirValue word, moe__fp8_t element, MlirValue out[4]);

/* Four f32 -> four FP8 in an i32, x[0] lowest; round to nearest even, finite values saturate. */
MlirValue moe__fp8_pack4(moe__builder_t *b, const MlirValue x[4], moe__fp8_t element);

#endif /* MOE_DEVICE_FP8_H */
