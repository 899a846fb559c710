/* Formats.c - the number formats of the numerics contract, section 1.
 *
 * Why it exists: it exports the conversions of Formats.h, and the names by which files and options
 * call the dtypes.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Reference/Formats.h"

#include "moe/reference.h"

#include <stddef.h>

uint8_t moe_ref_e4m3_from_f32(float x) {
  return moe__ref_fp8_from_f32(x, moe__ref_e4m3);
}

uint8_t moe_ref_e5m2_from_f32(float x) {
  return moe__ref_fp8_from_f32(x, moe__ref_e5m2);
}

float moe_ref_f32_from_e4m3(uint8_t byte) {
  return moe__ref_f32_from_fp8(byte, moe__ref_e4m3);
}

float moe_ref_f32_from_e5m2(uint8_t byte) {
  return moe__ref_f32_from_fp8(byte, moe__ref_e5m2);
}

float moe_ref_f32_from_e8m0(uint8_t byte) {
  return moe__ref_f32_from_e8m0(byte);
}

float moe_ref_f32_from_bf16(uint16_t bits) {
  return moe__ref_f32_from_bf16(bits);
}

uint16_t moe_ref_bf16_from_f32(float x) {
  return moe__ref_bf16_from_f32(x);
}

float moe_ref_f32_from_f16(uint16_t bits) {
  return moe__ref_f32_from_f16(bits);
}

uint16_t moe_ref_f16_from_f32(float x) {
  return moe__ref_f16_from_f32(x);
}

int moe_ref_dtype_from_name(const char *name) {
  if (name == NULL)
    return -1;
#define MOE_DTYPE(symbol, text, bits, dlpack, safetensors)                                         \
  if (strcmp(name, text) == 0)                                                                     \
    return MOE_REF_##symbol;
#include "moe/dtypes.def"
  return -1;
}

int moe_ref_dtype_bits(moe_ref_dtype_t dtype) {
  switch (dtype) {
#define MOE_DTYPE(symbol, text, bits, dlpack, safetensors)                                         \
  case MOE_REF_##symbol:                                                                           \
    return bits;
#include "moe/dtypes.def"
  }
  return 0;
}
