/* Convert.c - cvt: between integers, and between number formats.
 *
 * Why it exists: see Integer.c. The casts to 8 and 16 bits are libmoe_ref's, which has tests of its
 * own.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Emulator/Instructions/Lanes.h"
#include "lib/Emulator/Instructions/Numbers.h"
#include "lib/Emulator/Machine/Registers.h"
#include "lib/Emulator/Machine/Report.h"
#include "lib/Emulator/Ptx/Opcodes.h"

#include <string.h>

/* ---- Integers ---- */

/* Takes the low bits of a source and extends them by its sign, then keeps the result's bits. */
static inline uint64_t resize(uint64_t value, int from, bool from_signed, int to, bool to_signed,
                              int width) {
  uint64_t extended = value;
  if (from < 64) {
    uint64_t sign = from_signed ? value >> (from - 1) & 1 : 0;
    extended = (value & ((UINT64_C(1) << from) - 1)) | (sign ? UINT64_MAX << from : 0);
  }
  if (to < width && to < 64) {
    uint64_t sign = to_signed ? extended >> (to - 1) & 1 : 0;
    extended = (extended & ((UINT64_C(1) << to) - 1)) | (sign ? UINT64_MAX << to : 0);
  }
  return extended;
}

/* Clamps a value of a signed or unsigned type to another. */
static inline uint64_t clamp(uint64_t value, bool from_signed, int to, bool to_signed) {
  uint64_t most = to_signed ? (UINT64_C(1) << (to - 1)) - 1 : UINT64_MAX >> (64 - to);
  if (from_signed && (int64_t)value < 0) {
    if (!to_signed)
      return 0;
    int64_t least = -(int64_t)most - 1;
    return (int64_t)value < least ? (uint64_t)least : value;
  }
  return value > most ? most : value;
}

/* cvt.{u|s}N.{u|s}M; registers may be wider than the types. */
static moe__emu_step_t convert_integers(moe__emu_warp_t *warp,
                                        const moe__emu_instruction_t *instruction, uint32_t active,
                                        bool is_saturating) {
  static const uint8_t bits[] = {8, 16, 32, 64, 8, 16, 32, 64};
  const moe__emu_operand_t *operands = moe__emu_operand(warp->kernel, instruction, 0);
  if (moe__emu_check_operands(warp, instruction, active) == MOE__EMU_FAILED)
    return MOE__EMU_FAILED;
  int to = instruction->choice[0], from = instruction->choice[1];
  int width = operands[0].bytes * 8;
  uint64_t mask = width >= 64 ? UINT64_MAX : (UINT64_C(1) << width) - 1;
  MOE__EMU_FOR_LANES(lane, active) {
    uint64_t value = moe__emu_lane_value(warp, &operands[1], (int)lane);
    if (is_saturating)
      value =
          clamp(resize(value, bits[from], from >= 4, 64, false, 64), from >= 4, bits[to], to >= 4);
    else
      value = resize(value, bits[from], from >= 4, bits[to], to >= 4, width);
    moe__emu_set_lane(warp, operands, (int)lane, value & mask);
  }
  return MOE__EMU_ADVANCE;
}

static moe__emu_step_t resize_all(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                                  uint32_t active) {
  return convert_integers(warp, instruction, active, false);
}

static moe__emu_step_t saturate_all(moe__emu_warp_t *warp,
                                    const moe__emu_instruction_t *instruction, uint32_t active) {
  return convert_integers(warp, instruction, active, true);
}

/* ---- Integers and fp32 ---- */

MOE__EMU_LANES1(f32_from_u8, uint32_t, uint32_t, moe__emu_result((float)(uint8_t)x))
MOE__EMU_LANES1(f32_from_s8, uint32_t, uint32_t, moe__emu_result((float)(int8_t)x))
MOE__EMU_LANES1(f32_from_u16, uint32_t, uint32_t, moe__emu_result((float)(uint16_t)x))
MOE__EMU_LANES1(f32_from_s16, uint32_t, uint32_t, moe__emu_result((float)(int16_t)x))
MOE__EMU_LANES1(f32_from_u32, uint32_t, uint32_t, moe__emu_result((float)x))
MOE__EMU_LANES1(f32_from_s32, uint32_t, int32_t, moe__emu_result((float)x))
MOE__EMU_LANES1(f32_from_u64, uint32_t, uint64_t, moe__emu_result((float)x))
MOE__EMU_LANES1(f32_from_s64, uint32_t, int64_t, moe__emu_result((float)x))

MOE__EMU_LANES1(f32_from_u32_rz, uint32_t, uint32_t, moe__emu_result(moe__emu_float_zero(x)))
MOE__EMU_LANES1(f32_from_s32_rz, uint32_t, int32_t, moe__emu_result(moe__emu_float_zero(x)))

/* A value that is already whole, clamped to the integer's range; NaN gives 0, of 64 bits 2^63. */
static inline uint32_t u32_from(float value) {
  if (!(value > 0))
    return 0;
  return value >= 0x1p32F ? UINT32_MAX : (uint32_t)value;
}

static inline uint32_t s32_from(float value) {
  if (value != value)
    return 0;
  if (value >= 0x1p31F)
    return INT32_MAX;
  return value < -0x1p31F ? 0x80000000 : (uint32_t)(int32_t)value;
}

static inline uint64_t u64_from(float value) {
  if (value != value)
    return UINT64_C(1) << 63;
  if (!(value > 0))
    return 0;
  return value >= 0x1p64F ? UINT64_MAX : (uint64_t)value;
}

static inline uint64_t s64_from(float value) {
  if (value != value || value < -0x1p63F)
    return UINT64_C(1) << 63;
  return value >= 0x1p63F ? INT64_MAX : (uint64_t)(int64_t)value;
}

#define ROUNDINGS(mode, function)                                                                  \
  MOE__EMU_LANES1(u32_##mode, uint32_t, uint32_t, u32_from(function(moe__emu_float(x))))           \
  MOE__EMU_LANES1(s32_##mode, uint32_t, uint32_t, s32_from(function(moe__emu_float(x))))           \
  MOE__EMU_LANES1(u64_##mode, uint64_t, uint32_t, u64_from(function(moe__emu_float(x))))           \
  MOE__EMU_LANES1(s64_##mode, uint64_t, uint32_t, s64_from(function(moe__emu_float(x))))           \
  MOE__EMU_LANES1(f32_##mode, uint32_t, uint32_t, moe__emu_result(function(moe__emu_float(x))))

ROUNDINGS(rzi, truncf)
ROUNDINGS(rni, rintf)
ROUNDINGS(rmi, floorf)
ROUNDINGS(rpi, ceilf)

#define ROUNDING_ROWS(mode)                                                                        \
  MOE__EMU_COMPUTE("cvt." #mode ".u32.f32", "Rr", u32_##mode),                                     \
      MOE__EMU_COMPUTE("cvt." #mode ".s32.f32", "Rr", s32_##mode),                                 \
      MOE__EMU_COMPUTE("cvt." #mode ".u64.f32", "Lr", u64_##mode),                                 \
      MOE__EMU_COMPUTE("cvt." #mode ".s64.f32", "Lr", s64_##mode),                                 \
      MOE__EMU_COMPUTE("cvt." #mode ".f32.f32", "Rr", f32_##mode)

/* ---- Number formats ---- */

MOE__EMU_LANES1(f32_from_bf16, uint32_t, uint32_t,
                moe__emu_result(moe__ref_f32_from_bf16((uint16_t)x)))
MOE__EMU_LANES1(f32_from_f16, uint32_t, uint32_t,
                moe__emu_result(moe__emu_f32_from_f16((uint16_t)x)))
MOE__EMU_LANES1(bf16_from_f32, uint32_t, uint32_t, moe__ref_bf16_from_f32(moe__emu_float(x)))
MOE__EMU_LANES1(f16_from_f32, uint32_t, uint32_t, moe__ref_f16_from_f32(moe__emu_float(x)))
MOE__EMU_LANES1(f64_from_f32, uint64_t, uint32_t, moe__emu_result64((double)moe__emu_float(x)))
MOE__EMU_LANES1(f32_from_f64, uint32_t, uint64_t, moe__emu_result((float)moe__emu_double(x)))

/* Two in a register: the first source is the upper half. */
MOE__EMU_LANES2(bf16x2_from_f32, uint32_t, uint32_t, uint32_t,
                (uint32_t)moe__ref_bf16_from_f32(moe__emu_float(x)) << 16 |
                    moe__ref_bf16_from_f32(moe__emu_float(y)))
MOE__EMU_LANES2(f16x2_from_f32, uint32_t, uint32_t, uint32_t,
                (uint32_t)moe__ref_f16_from_f32(moe__emu_float(x)) << 16 |
                    moe__ref_f16_from_f32(moe__emu_float(y)))
MOE__EMU_LANES2(e4m3x2_from_f32, uint32_t, uint32_t, uint32_t,
                (uint32_t)moe__ref_fp8_from_f32(moe__emu_float(x), moe__ref_e4m3) << 8 |
                    moe__ref_fp8_from_f32(moe__emu_float(y), moe__ref_e4m3))
MOE__EMU_LANES2(e5m2x2_from_f32, uint32_t, uint32_t, uint32_t,
                (uint32_t)moe__ref_fp8_from_f32(moe__emu_float(x), moe__ref_e5m2) << 8 |
                    moe__ref_fp8_from_f32(moe__emu_float(y), moe__ref_e5m2))

static inline uint32_t e4m3_from_f16(uint32_t x) {
  return moe__ref_fp8_from_f32(moe__emu_f32_from_f16((uint16_t)x), moe__ref_e4m3);
}

static inline uint32_t e5m2_from_f16(uint32_t x) {
  return moe__ref_fp8_from_f32(moe__emu_f32_from_f16((uint16_t)x), moe__ref_e5m2);
}

static inline uint32_t f16_from_e4m3(uint32_t x) {
  return moe__ref_f16_from_f32(moe__ref_f32_from_fp8((uint8_t)x, moe__ref_e4m3));
}

static inline uint32_t f16_from_e5m2(uint32_t x) {
  return moe__ref_f16_from_f32(moe__ref_f32_from_fp8((uint8_t)x, moe__ref_e5m2));
}

MOE__EMU_LANES1(e4m3x2_from_f16x2, uint32_t, uint32_t,
                e4m3_from_f16(x >> 16) << 8 | e4m3_from_f16(x))
MOE__EMU_LANES1(e5m2x2_from_f16x2, uint32_t, uint32_t,
                e5m2_from_f16(x >> 16) << 8 | e5m2_from_f16(x))
MOE__EMU_LANES1(f16x2_from_e4m3x2, uint32_t, uint32_t,
                f16_from_e4m3(x >> 8) << 16 | f16_from_e4m3(x))
MOE__EMU_LANES1(f16x2_from_e5m2x2, uint32_t, uint32_t,
                f16_from_e5m2(x >> 8) << 16 | f16_from_e5m2(x))

#define INTEGERS ".u8|.u16|.u32|.u64|.s8|.s16|.s32|.s64"

const moe__emu_opcode_t moe__emu_convert_opcodes[] = {
    MOE__EMU_COMPUTE("cvt.rn.satfinite.e4m3x2.f32", "Hrr", e4m3x2_from_f32),
    MOE__EMU_COMPUTE("cvt.rn.satfinite.e5m2x2.f32", "Hrr", e5m2x2_from_f32),
    MOE__EMU_COMPUTE("cvt.rn.satfinite.e4m3x2.f16x2", "Hr", e4m3x2_from_f16x2),
    MOE__EMU_COMPUTE("cvt.rn.satfinite.e5m2x2.f16x2", "Hr", e5m2x2_from_f16x2),
    MOE__EMU_COMPUTE("cvt.rn.f16x2.e4m3x2", "Rh", f16x2_from_e4m3x2),
    MOE__EMU_COMPUTE("cvt.rn.f16x2.e5m2x2", "Rh", f16x2_from_e5m2x2),
    MOE__EMU_COMPUTE("cvt.rn.bf16x2.f32", "Rrr", bf16x2_from_f32),
    MOE__EMU_COMPUTE("cvt.rn.f16x2.f32", "Rrr", f16x2_from_f32),
    MOE__EMU_COMPUTE("cvt.rn.bf16.f32", "Hr", bf16_from_f32),
    MOE__EMU_COMPUTE("cvt.rn.f16.f32", "Hr", f16_from_f32),
    MOE__EMU_COMPUTE("cvt.f32.bf16", "Rh", f32_from_bf16),
    MOE__EMU_COMPUTE("cvt.f32.f16", "Rh", f32_from_f16),
    MOE__EMU_COMPUTE("cvt.f64.f32", "Lr", f64_from_f32),
    MOE__EMU_COMPUTE("cvt.rn.f32.f64", "Rl", f32_from_f64),
    MOE__EMU_COMPUTE("cvt.rn.f32{.u8}", "Rt0", f32_from_u8),
    MOE__EMU_COMPUTE("cvt.rn.f32{.s8}", "Rt0", f32_from_s8),
    MOE__EMU_COMPUTE("cvt.rn.f32{.u16}", "Re0", f32_from_u16),
    MOE__EMU_COMPUTE("cvt.rn.f32{.s16}", "Re0", f32_from_s16),
    MOE__EMU_COMPUTE("cvt.rn.f32.u32", "Rr", f32_from_u32),
    MOE__EMU_COMPUTE("cvt.rn.f32.s32", "Rr", f32_from_s32),
    MOE__EMU_COMPUTE("cvt.rz.f32.u32", "Rr", f32_from_u32_rz),
    MOE__EMU_COMPUTE("cvt.rz.f32.s32", "Rr", f32_from_s32_rz),
    MOE__EMU_COMPUTE("cvt.rn.f32.u64", "Rl", f32_from_u64),
    MOE__EMU_COMPUTE("cvt.rn.f32.s64", "Rl", f32_from_s64),
    ROUNDING_ROWS(rzi),
    ROUNDING_ROWS(rni),
    ROUNDING_ROWS(rmi),
    ROUNDING_ROWS(rpi),
    MOE__EMU_PURELY("cvt.sat{" INTEGERS "}{" INTEGERS "}", "T0t1", saturate_all),
    MOE__EMU_PURELY("cvt{" INTEGERS "}{" INTEGERS "}", "T0t1", resize_all),
    MOE__EMU_END_OF_TABLE,
};
