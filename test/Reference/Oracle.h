/* Oracle.h - the numerics contract a second time, slowly and from its definitions.
 *
 * Why it exists: a test that repeats the library's own formula repeats its mistakes. These
 * functions use no bit tricks: values come from ldexp, nearest values from a search, and exact
 * products from long double.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_TEST_REFERENCE_ORACLE_H
#define MOE_TEST_REFERENCE_ORACLE_H

#include "moe/reference.h"

#include <stdint.h>

float f32_of(uint32_t bits);
uint32_t bits_of(float x);

/* Equal as bits, or both NaN. */
int same_f32(float a, float b);

/* The value of an E4M3 or E5M2 byte; NaN and Inf included. */
double oracle_fp8_value(moe_ref_dtype_t format, uint8_t byte);

/* The byte of the value nearest to x, ties to the even code, saturating; NaN gives 0x7F. */
uint8_t oracle_fp8_from_f32(moe_ref_dtype_t format, float x);

/* The largest finite value. */
double oracle_fp8_max(moe_ref_dtype_t format);

/* Half the distance between neighbors of the format at magnitude |x|. */
double oracle_fp8_half_ulp(moe_ref_dtype_t format, double x);

/* Round to nearest even, from the discarded half of x; NaN gives 0x7FFF. */
uint16_t oracle_bf16_from_f32(float x);

/* The value of f16 bits, and the bits of the value nearest to x, ties to even; from 65520 on Inf,
 * NaN gives 0x7FFF. */
double oracle_f16_value(uint16_t bits);
uint16_t oracle_f16_from_f32(float x);

/* The scale of a block, amax >= 0, Inf or NaN. */
uint8_t oracle_mx_scale(float amax, moe_ref_mx_mode_t mode, moe_ref_dtype_t element);

/* The next number of a fixed sequence (splitmix64). */
uint64_t random_next(uint64_t *state);

#endif /* MOE_TEST_REFERENCE_ORACLE_H */
