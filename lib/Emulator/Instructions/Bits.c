/* Bits.c - bitwise instructions, shifts, fields and permutations; moves.
 *
 * Why it exists: see Integer.c.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Emulator/Instructions/Lanes.h"
#include "lib/Emulator/Machine/Registers.h"
#include "lib/Emulator/Machine/Report.h"
#include "lib/Emulator/Ptx/Opcodes.h"

#include <string.h>

MOE__EMU_LANES2(and32, uint32_t, uint32_t, uint32_t, x &y)
MOE__EMU_LANES2(and64, uint64_t, uint64_t, uint64_t, x &y)
MOE__EMU_LANES2(or32, uint32_t, uint32_t, uint32_t, x | y)
MOE__EMU_LANES2(or64, uint64_t, uint64_t, uint64_t, x | y)
MOE__EMU_LANES2(xor32, uint32_t, uint32_t, uint32_t, x ^ y)
MOE__EMU_LANES2(xor64, uint64_t, uint64_t, uint64_t, x ^ y)
MOE__EMU_LANES1(not16, uint32_t, uint32_t, (uint16_t)~x)
MOE__EMU_LANES1(not32, uint32_t, uint32_t, ~x)
MOE__EMU_LANES1(not64, uint64_t, uint64_t, ~x)

/* A predicate's row is one mask. */
#define PREDICATES(name, expression)                                                               \
  static void name(void *restrict result, const void *a, const void *b, const void *c) {           \
    const uint32_t x = *(const uint32_t *)a, y = b ? *(const uint32_t *)b : 0;                     \
    (void)y, (void)c;                                                                              \
    *(uint32_t *)result = (expression);                                                            \
  }
PREDICATES(and_pred, x &y)
PREDICATES(or_pred, x | y)
PREDICATES(xor_pred, x ^ y)
PREDICATES(not_pred, ~x)
PREDICATES(move_pred, x)

/* Shifts by the width or more give zero, or the sign. */
MOE__EMU_LANES2(shl16, uint32_t, uint32_t, uint32_t, y < 16 ? (uint16_t)(x << y) : 0)
MOE__EMU_LANES2(shl32, uint32_t, uint32_t, uint32_t, y < 32 ? x << y : 0)
MOE__EMU_LANES2(shl64, uint64_t, uint64_t, uint32_t, y < 64 ? x << y : 0)
MOE__EMU_LANES2(shr_u16, uint32_t, uint32_t, uint32_t, y < 16 ? x >> y : 0)
MOE__EMU_LANES2(shr_u32, uint32_t, uint32_t, uint32_t, y < 32 ? x >> y : 0)
MOE__EMU_LANES2(shr_u64, uint64_t, uint64_t, uint32_t, y < 64 ? x >> y : 0)
MOE__EMU_LANES2(shr_s16, uint32_t, uint32_t, uint32_t,
                (uint16_t)((int32_t)(int16_t)x >> (y < 15 ? y : 15)))
MOE__EMU_LANES2(shr_s32, uint32_t, int32_t, uint32_t, x >> (y < 31 ? y : 31))
MOE__EMU_LANES2(shr_s64, uint64_t, int64_t, uint32_t, x >> (y < 63 ? y : 63))

static inline uint32_t funnel_left(uint32_t low, uint32_t high, uint32_t count) {
  return (uint32_t)((((uint64_t)high << 32 | low) << count) >> 32);
}

static inline uint32_t funnel_right(uint32_t low, uint32_t high, uint32_t count) {
  return (uint32_t)(((uint64_t)high << 32 | low) >> count);
}

MOE__EMU_LANES3(shf_l_wrap, uint32_t, uint32_t, uint32_t, uint32_t, funnel_left(x, y, z & 31))
MOE__EMU_LANES3(shf_l_clamp, uint32_t, uint32_t, uint32_t, uint32_t,
                funnel_left(x, y, z < 32 ? z : 32))
MOE__EMU_LANES3(shf_r_wrap, uint32_t, uint32_t, uint32_t, uint32_t, funnel_right(x, y, z & 31))
MOE__EMU_LANES3(shf_r_clamp, uint32_t, uint32_t, uint32_t, uint32_t,
                funnel_right(x, y, z < 32 ? z : 32))

MOE__EMU_LANES1(popc32, uint32_t, uint32_t, __builtin_popcount(x))
MOE__EMU_LANES1(popc64, uint32_t, uint64_t, __builtin_popcountll(x))
MOE__EMU_LANES1(clz32, uint32_t, uint32_t, x ? __builtin_clz(x) : 32)
MOE__EMU_LANES1(clz64, uint32_t, uint64_t, x ? __builtin_clzll(x) : 64)

static inline uint64_t reverse(uint64_t value, int bits) {
  uint64_t reversed = 0;
  for (int i = 0; i < bits; i++)
    reversed |= (value >> i & 1) << (bits - 1 - i);
  return reversed;
}

MOE__EMU_LANES1(brev32, uint32_t, uint32_t, reverse(x, 32))
MOE__EMU_LANES1(brev64, uint64_t, uint64_t, reverse(x, 64))

/* The field of `length` bits at `position`: only 8 bits of both count. What lies beyond the value
 * is zero, or its sign. */
static inline uint64_t extract(uint64_t value, uint32_t position, uint32_t length, int bits,
                               bool is_signed) {
  position &= 0xFF;
  length &= 0xFF;
  uint64_t top =
      position + length - 1 < (uint32_t)bits ? position + length - 1 : (uint32_t)bits - 1;
  uint64_t fill = is_signed && length ? value >> top & 1 : 0;
  uint64_t field = position < (uint32_t)bits ? value >> position : 0;
  uint64_t kept = position < (uint32_t)bits ? (uint32_t)bits - position : 0;
  kept = length < kept ? length : kept;
  uint64_t mask = kept >= 64 ? UINT64_MAX : (UINT64_C(1) << kept) - 1;
  return (field & mask) | (fill ? ~mask : 0);
}

static inline uint64_t insert(uint64_t field, uint64_t into, uint32_t position, uint32_t length,
                              int bits) {
  position &= 0xFF;
  length &= 0xFF;
  if (position >= (uint32_t)bits)
    return into;
  uint64_t mask = length >= 64 ? UINT64_MAX : (UINT64_C(1) << length) - 1;
  return (into & ~(mask << position)) | (field & mask) << position;
}

MOE__EMU_LANES3(bfe_u32, uint32_t, uint32_t, uint32_t, uint32_t, extract(x, y, z, 32, false))
MOE__EMU_LANES3(bfe_s32, uint32_t, uint32_t, uint32_t, uint32_t, extract(x, y, z, 32, true))
MOE__EMU_LANES3(bfe_u64, uint64_t, uint64_t, uint32_t, uint32_t, extract(x, y, z, 64, false))
MOE__EMU_LANES3(bfe_s64, uint64_t, uint64_t, uint32_t, uint32_t, extract(x, y, z, 64, true))

/* Each of the selector's four digits takes one of the eight bytes of b:a, or that byte's sign. */
static inline uint32_t permute(uint32_t a, uint32_t b, uint32_t selector) {
  uint64_t bytes = (uint64_t)b << 32 | a;
  uint32_t result = 0;
  for (int i = 0; i < 4; i++) {
    uint32_t digit = selector >> (4 * i);
    uint32_t byte = bytes >> (8 * (digit & 7)) & 0xFF;
    if (digit & 8)
      byte = byte & 0x80 ? 0xFF : 0;
    result |= byte << (8 * i);
  }
  return result;
}

MOE__EMU_LANES3(prmt, uint32_t, uint32_t, uint32_t, uint32_t, permute(x, y, z))

/* The modes of prmt that need one digit: which byte goes to place i. */
static inline uint32_t permute_by(uint32_t a, uint32_t b, uint32_t d0, uint32_t d1, uint32_t d2,
                                  uint32_t d3) {
  return permute(a, b, (d0 & 7) | (d1 & 7) << 4 | (d2 & 7) << 8 | (d3 & 7) << 12);
}

static inline uint32_t larger(uint32_t a, uint32_t b) {
  return a > b ? a : b;
}

static inline uint32_t smaller(uint32_t a, uint32_t b) {
  return a < b ? a : b;
}

#define PRMT_MODE(name, digit)                                                                     \
  MOE__EMU_LANES3(                                                                                 \
      name, uint32_t, uint32_t, uint32_t, uint32_t,                                                \
      permute_by(x, y, digit(z & 3, 0), digit(z & 3, 1), digit(z & 3, 2), digit(z & 3, 3)))
#define FORWARD(z, i) ((z) + (i))
#define BACKWARD(z, i) ((z) - (i))
#define REPLICATE8(z, i) ((z) + 0 * (i))
#define REPLICATE16(z, i) (((z)&1) * 2 + ((i)&1))
#define CLAMP_LEFT(z, i) larger(z, i)
#define CLAMP_RIGHT(z, i) smaller(z, i)
PRMT_MODE(prmt_f4e, FORWARD)
PRMT_MODE(prmt_b4e, BACKWARD)
PRMT_MODE(prmt_rc8, REPLICATE8)
PRMT_MODE(prmt_rc16, REPLICATE16)
PRMT_MODE(prmt_ecl, CLAMP_LEFT)
PRMT_MODE(prmt_ecr, CLAMP_RIGHT)

/* The highest bit that is not a sign. */
static inline uint32_t find_bit(uint32_t value) {
  return value ? 31 - (uint32_t)__builtin_clz(value) : UINT32_MAX;
}

MOE__EMU_LANES1(bfind_u32, uint32_t, uint32_t, find_bit(x))
MOE__EMU_LANES1(bfind_s32, uint32_t, uint32_t, find_bit(x >> 31 ? ~x : x))
MOE__EMU_LANES3(slct32, uint32_t, uint32_t, uint32_t, int32_t, z >= 0 ? x : y)

MOE__EMU_LANES1(move32, uint32_t, uint32_t, x)
MOE__EMU_LANES1(move64, uint64_t, uint64_t, x)

/* d = a ? b : c, but the predicate comes last. */
static void select32(void *restrict result, const void *a, const void *b, const void *c) {
  const uint32_t *restrict xs = a, *restrict ys = b;
  const uint32_t mask = *(const uint32_t *)c;
  uint32_t *restrict to = result;
  for (uint32_t i = 0; i < MOE__EMU_LANES; i++)
    to[i] = mask >> i & 1 ? xs[i] : ys[i];
}

static void select64(void *restrict result, const void *a, const void *b, const void *c) {
  const uint64_t *restrict xs = a, *restrict ys = b;
  const uint32_t mask = *(const uint32_t *)c;
  uint64_t *restrict to = result;
  for (uint32_t i = 0; i < MOE__EMU_LANES; i++)
    to[i] = mask >> i & 1 ? xs[i] : ys[i];
}

/* ---- Four sources: more than a compute function has ---- */

/* Any function of three bits: bit i of the table is its value for the inputs' bits i = a:b:c. */
static moe__emu_step_t lop3(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                            uint32_t active) {
  const moe__emu_operand_t *operands = moe__emu_operand(warp->kernel, instruction, 0);
  if (moe__emu_check_operands(warp, instruction, active) == MOE__EMU_FAILED)
    return MOE__EMU_FAILED;
  uint32_t table = (uint32_t)operands[4].addend;
  MOE__EMU_FOR_LANES(lane, active) {
    uint32_t x = (uint32_t)moe__emu_lane_value(warp, &operands[1], (int)lane);
    uint32_t y = (uint32_t)moe__emu_lane_value(warp, &operands[2], (int)lane);
    uint32_t z = (uint32_t)moe__emu_lane_value(warp, &operands[3], (int)lane), result = 0;
    for (int i = 0; i < 8; i++) {
      uint32_t term = (i & 4 ? x : ~x) & (i & 2 ? y : ~y) & (i & 1 ? z : ~z);
      result |= table >> i & 1 ? term : 0;
    }
    moe__emu_set_lane(warp, operands, (int)lane, result);
  }
  return MOE__EMU_ADVANCE;
}

static moe__emu_step_t bfi(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                           uint32_t active) {
  const moe__emu_operand_t *operands = moe__emu_operand(warp->kernel, instruction, 0);
  if (moe__emu_check_operands(warp, instruction, active) == MOE__EMU_FAILED)
    return MOE__EMU_FAILED;
  MOE__EMU_FOR_LANES(lane, active) {
    moe__emu_set_lane(warp, operands, (int)lane,
                      insert(moe__emu_lane_value(warp, &operands[1], (int)lane),
                             moe__emu_lane_value(warp, &operands[2], (int)lane),
                             (uint32_t)moe__emu_lane_value(warp, &operands[3], (int)lane),
                             (uint32_t)moe__emu_lane_value(warp, &operands[4], (int)lane),
                             operands[0].bytes * 8));
  }
  return MOE__EMU_ADVANCE;
}

/* ---- Moves between one register and several ---- */

/* The 16 bytes of a lane's operand. */
static void read_bytes(const moe__emu_warp_t *warp, const moe__emu_operand_t *operand, int lane,
                       uint8_t *out) {
  const uint8_t *row = moe__emu_row(warp, operand);
  size_t width = operand->bytes >= 8 ? 8 : 4;
  memcpy(out, row + (size_t)lane * width, operand->bytes > 8 ? 8 : operand->bytes);
  if (operand->bytes == 16)
    memcpy(out + 8, row + (size_t)(MOE__EMU_LANES + lane) * 8, 8);
}

static void write_bytes(moe__emu_warp_t *warp, const moe__emu_operand_t *operand, int lane,
                        const uint8_t *bytes) {
  uint64_t value = 0;
  memcpy(&value, bytes, operand->bytes > 8 ? 8 : operand->bytes);
  moe__emu_set_lane(warp, operand, lane, value);
  if (operand->bytes == 16)
    memcpy((uint8_t *)moe__emu_row(warp, operand) + (size_t)(MOE__EMU_LANES + lane) * 8, bytes + 8,
           8);
}

static moe__emu_step_t pack(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                            uint32_t active) {
  const moe__emu_operand_t *operands = moe__emu_operand(warp->kernel, instruction, 0);
  if (instruction->operand_count == 2 && instruction->compute)
    return moe__emu_execute_compute(warp, instruction, active);
  if (moe__emu_check_operands(warp, instruction, active) == MOE__EMU_FAILED)
    return MOE__EMU_FAILED;
  int results = instruction->result_count, count = instruction->operand_count;
  MOE__EMU_FOR_LANES(lane, active) {
    uint8_t bytes[16] = {0};
    int at = 0;
    for (int i = results; i < count; at += operands[i++].bytes)
      read_bytes(warp, &operands[i], (int)lane, bytes + at);
    at = 0;
    for (int i = 0; i < results; at += operands[i++].bytes)
      write_bytes(warp, &operands[i], (int)lane, bytes + at);
  }
  return MOE__EMU_ADVANCE;
}

const moe__emu_opcode_t moe__emu_bit_opcodes[] = {
    MOE__EMU_COMPUTE("and.b16", "Hhh", and32),
    MOE__EMU_COMPUTE("and.b32", "Rrr", and32),
    MOE__EMU_COMPUTE("and.b64", "Lll", and64),
    MOE__EMU_COMPUTE("and.pred", "Ppp", and_pred),
    MOE__EMU_COMPUTE("or.b16", "Hhh", or32),
    MOE__EMU_COMPUTE("or.b32", "Rrr", or32),
    MOE__EMU_COMPUTE("or.b64", "Lll", or64),
    MOE__EMU_COMPUTE("or.pred", "Ppp", or_pred),
    MOE__EMU_COMPUTE("xor.b16", "Hhh", xor32),
    MOE__EMU_COMPUTE("xor.b32", "Rrr", xor32),
    MOE__EMU_COMPUTE("xor.b64", "Lll", xor64),
    MOE__EMU_COMPUTE("xor.pred", "Ppp", xor_pred),
    MOE__EMU_COMPUTE("not.b16", "Hh", not16),
    MOE__EMU_COMPUTE("not.b32", "Rr", not32),
    MOE__EMU_COMPUTE("not.b64", "Ll", not64),
    MOE__EMU_COMPUTE("not.pred", "Pp", not_pred),
    MOE__EMU_COMPUTE("shl.b16", "Hhr", shl16),
    MOE__EMU_COMPUTE("shl.b32", "Rrr", shl32),
    MOE__EMU_COMPUTE("shl.b64", "Llr", shl64),
    MOE__EMU_COMPUTE("shr{.b16|.u16}", "Hhr", shr_u16),
    MOE__EMU_COMPUTE("shr{.b32|.u32}", "Rrr", shr_u32),
    MOE__EMU_COMPUTE("shr{.b64|.u64}", "Llr", shr_u64),
    MOE__EMU_COMPUTE("shr.s16", "Hhr", shr_s16),
    MOE__EMU_COMPUTE("shr.s32", "Rrr", shr_s32),
    MOE__EMU_COMPUTE("shr.s64", "Llr", shr_s64),
    MOE__EMU_COMPUTE("shf.l.wrap.b32", "Rrrr", shf_l_wrap),
    MOE__EMU_COMPUTE("shf.l.clamp.b32", "Rrrr", shf_l_clamp),
    MOE__EMU_COMPUTE("shf.r.wrap.b32", "Rrrr", shf_r_wrap),
    MOE__EMU_COMPUTE("shf.r.clamp.b32", "Rrrr", shf_r_clamp),
    MOE__EMU_COMPUTE("popc.b32", "Rr", popc32),
    MOE__EMU_COMPUTE("popc.b64", "Rl", popc64),
    MOE__EMU_COMPUTE("clz.b32", "Rr", clz32),
    MOE__EMU_COMPUTE("clz.b64", "Rl", clz64),
    MOE__EMU_COMPUTE("brev.b32", "Rr", brev32),
    MOE__EMU_COMPUTE("brev.b64", "Ll", brev64),
    MOE__EMU_COMPUTE("bfe.u32", "Rrrr", bfe_u32),
    MOE__EMU_COMPUTE("bfe.s32", "Rrrr", bfe_s32),
    MOE__EMU_COMPUTE("bfe.u64", "Llrr", bfe_u64),
    MOE__EMU_COMPUTE("bfe.s64", "Llrr", bfe_s64),
    MOE__EMU_COMPUTE("prmt.b32", "Rrrr", prmt),
    MOE__EMU_COMPUTE("prmt.b32.f4e", "Rrrr", prmt_f4e),
    MOE__EMU_COMPUTE("prmt.b32.b4e", "Rrrr", prmt_b4e),
    MOE__EMU_COMPUTE("prmt.b32.rc8", "Rrrr", prmt_rc8),
    MOE__EMU_COMPUTE("prmt.b32.rc16", "Rrrr", prmt_rc16),
    MOE__EMU_COMPUTE("prmt.b32.ecl", "Rrrr", prmt_ecl),
    MOE__EMU_COMPUTE("prmt.b32.ecr", "Rrrr", prmt_ecr),
    MOE__EMU_COMPUTE("bfind.u32", "Rr", bfind_u32),
    MOE__EMU_COMPUTE("bfind.s32", "Rr", bfind_s32),
    MOE__EMU_COMPUTE("slct{.b32|.u32|.s32|.f32}.s32", "Rrrr", slct32),
    MOE__EMU_COMPUTE("selp{.b16|.u16|.s16|.f16|.bf16}", "Hhhp", select32),
    MOE__EMU_COMPUTE("selp{.b32|.u32|.s32|.f32}", "Rrrp", select32),
    MOE__EMU_COMPUTE("selp{.b64|.u64|.s64|.f64}", "Lllp", select64),
    MOE__EMU_PURELY("lop3.b32", "Rrrrn", lop3),
    MOE__EMU_PURELY("bfi.b32", "Rrrrr", bfi),
    MOE__EMU_PURELY("bfi.b64", "Lllrr", bfi),
    MOE__EMU_COMPUTE("mov.pred", "Pp", move_pred),
    MOE__EMU_COMPUTE("mov{.b16|.u16|.s16|.f16|.bf16}", "Hh", move32),
    MOE__EMU_COMPUTE("mov{.u32|.s32|.f32}", "Rr", move32),
    MOE__EMU_COMPUTE("mov{.u64|.s64|.f64}", "Ll", move64),
    {"mov{.b32}", "U0u0", pack, move32, 0, NULL},
    {"mov{.b64}", "U0u0", pack, move64, 0, NULL},
    MOE__EMU_PURELY("mov{.b128}", "U0u0", pack),
    /* The address spaces of global memory and of the host are one. */
    MOE__EMU_COMPUTE("cvta{.to.global|.global|.to.const|.const}.u64", "Ll", move64),
    MOE__EMU_END_OF_TABLE,
};
