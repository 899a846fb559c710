/* Integer.c - integer arithmetic.
 *
 * Why it exists: one row of the table for each instruction, one expression for each row. 16-bit
 * registers lie in 32 bits whose upper half is zero.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Emulator/Instructions/Lanes.h"
#include "lib/Emulator/Ptx/Opcodes.h"

typedef __int128 s128;
typedef unsigned __int128 u128;

/* Division by zero gives all ones, as the hardware does; the remainder is the dividend. */
static inline uint64_t divide_unsigned(uint64_t x, uint64_t y, int bits) {
  return y ? x / y : UINT64_MAX >> (64 - bits);
}

static inline int64_t divide_signed(int64_t x, int64_t y) {
  if (y == 0)
    return -1;
  return y == -1 ? (int64_t) - (uint64_t)x : x / y;
}

static inline int64_t remainder_signed(int64_t x, int64_t y) {
  if (y == 0)
    return x;
  return y == -1 ? 0 : x % y;
}

#define LOWER(x) ((x)&0xFFFFu)
#define UPPER(x) ((x)&0xFFFF0000u)
#define S16(value) ((int32_t)(int16_t)(value))

MOE__EMU_LANES2(add16, uint32_t, uint32_t, uint32_t, (uint16_t)(x + y))
MOE__EMU_LANES2(add32, uint32_t, uint32_t, uint32_t, x + y)
MOE__EMU_LANES2(add64, uint64_t, uint64_t, uint64_t, x + y)
MOE__EMU_LANES2(sub16, uint32_t, uint32_t, uint32_t, (uint16_t)(x - y))
MOE__EMU_LANES2(sub32, uint32_t, uint32_t, uint32_t, x - y)
MOE__EMU_LANES2(sub64, uint64_t, uint64_t, uint64_t, x - y)

MOE__EMU_LANES2(mul_lo16, uint32_t, uint32_t, uint32_t, (uint16_t)(x *y))
MOE__EMU_LANES2(mul_lo32, uint32_t, uint32_t, uint32_t, x *y)
MOE__EMU_LANES2(mul_lo64, uint64_t, uint64_t, uint64_t, x *y)
MOE__EMU_LANES2(mul_hi_u16, uint32_t, uint32_t, uint32_t, (uint16_t)(x *y >> 16))
MOE__EMU_LANES2(mul_hi_s16, uint32_t, uint32_t, uint32_t, (uint16_t)((S16(x) * S16(y)) >> 16))
MOE__EMU_LANES2(mul_hi_u32, uint32_t, uint32_t, uint32_t, (uint64_t)x *y >> 32)
MOE__EMU_LANES2(mul_hi_s32, uint32_t, int32_t, int32_t, ((int64_t)x * y) >> 32)
MOE__EMU_LANES2(mul_hi_u64, uint64_t, uint64_t, uint64_t, (u128)x *y >> 64)
MOE__EMU_LANES2(mul_hi_s64, uint64_t, int64_t, int64_t, ((s128)x * y) >> 64)
MOE__EMU_LANES2(mul_wide_u16, uint32_t, uint32_t, uint32_t, x *y)
MOE__EMU_LANES2(mul_wide_s16, uint32_t, uint32_t, uint32_t, S16(x) * S16(y))
MOE__EMU_LANES2(mul_wide_u32, uint64_t, uint32_t, uint32_t, (uint64_t)x *y)
MOE__EMU_LANES2(mul_wide_s32, uint64_t, int32_t, int32_t, (int64_t)x *y)

MOE__EMU_LANES3(mad_lo16, uint32_t, uint32_t, uint32_t, uint32_t, (uint16_t)(x *y + z))
MOE__EMU_LANES3(mad_lo32, uint32_t, uint32_t, uint32_t, uint32_t, x *y + z)
MOE__EMU_LANES3(mad_lo64, uint64_t, uint64_t, uint64_t, uint64_t, x *y + z)
MOE__EMU_LANES3(mad_hi_u32, uint32_t, uint32_t, uint32_t, uint32_t, ((uint64_t)x * y >> 32) + z)
MOE__EMU_LANES3(mad_hi_s32, uint32_t, int32_t, int32_t, uint32_t,
                (uint32_t)(((int64_t)x * y) >> 32) + z)
MOE__EMU_LANES3(mad_wide_u16, uint32_t, uint32_t, uint32_t, uint32_t, x *y + z)
MOE__EMU_LANES3(mad_wide_s16, uint32_t, uint32_t, uint32_t, uint32_t,
                (uint32_t)(S16(x) * S16(y)) + z)
MOE__EMU_LANES3(mad_wide_u32, uint64_t, uint32_t, uint32_t, uint64_t, (uint64_t)x *y + z)
MOE__EMU_LANES3(mad_wide_s32, uint64_t, int32_t, int32_t, uint64_t, (uint64_t)((int64_t)x *y) + z)

MOE__EMU_LANES2(div_u16, uint32_t, uint32_t, uint32_t, divide_unsigned(x, y, 16))
MOE__EMU_LANES2(div_u32, uint32_t, uint32_t, uint32_t, divide_unsigned(x, y, 32))
MOE__EMU_LANES2(div_u64, uint64_t, uint64_t, uint64_t, divide_unsigned(x, y, 64))
MOE__EMU_LANES2(div_s16, uint32_t, uint32_t, uint32_t, (uint16_t)divide_signed(S16(x), S16(y)))
MOE__EMU_LANES2(div_s32, uint32_t, int32_t, int32_t, divide_signed(x, y))
MOE__EMU_LANES2(div_s64, uint64_t, int64_t, int64_t, divide_signed(x, y))
MOE__EMU_LANES2(rem_u32, uint32_t, uint32_t, uint32_t, y ? x % y : x)
MOE__EMU_LANES2(rem_u64, uint64_t, uint64_t, uint64_t, y ? x % y : x)
MOE__EMU_LANES2(rem_s16, uint32_t, uint32_t, uint32_t, (uint16_t)remainder_signed(S16(x), S16(y)))
MOE__EMU_LANES2(rem_s32, uint32_t, int32_t, int32_t, remainder_signed(x, y))
MOE__EMU_LANES2(rem_s64, uint64_t, int64_t, int64_t, remainder_signed(x, y))

MOE__EMU_LANES2(min_u32, uint32_t, uint32_t, uint32_t, x < y ? x : y)
MOE__EMU_LANES2(min_u64, uint64_t, uint64_t, uint64_t, x < y ? x : y)
MOE__EMU_LANES2(min_s16, uint32_t, uint32_t, uint32_t, S16(x) < S16(y) ? x : y)
MOE__EMU_LANES2(min_s32, uint32_t, int32_t, int32_t, x < y ? x : y)
MOE__EMU_LANES2(min_s64, uint64_t, int64_t, int64_t, x < y ? x : y)
MOE__EMU_LANES2(max_u32, uint32_t, uint32_t, uint32_t, x > y ? x : y)
MOE__EMU_LANES2(max_u64, uint64_t, uint64_t, uint64_t, x > y ? x : y)
MOE__EMU_LANES2(min_u16x2, uint32_t, uint32_t, uint32_t,
                LOWER((LOWER(x) < LOWER(y) ? x : y)) | UPPER((UPPER(x) < UPPER(y) ? x : y)))
MOE__EMU_LANES2(max_u16x2, uint32_t, uint32_t, uint32_t,
                LOWER((LOWER(x) > LOWER(y) ? x : y)) | UPPER((UPPER(x) > UPPER(y) ? x : y)))
MOE__EMU_LANES2(max_s16, uint32_t, uint32_t, uint32_t, S16(x) > S16(y) ? x : y)
MOE__EMU_LANES2(max_s32, uint32_t, int32_t, int32_t, x > y ? x : y)
MOE__EMU_LANES2(max_s64, uint64_t, int64_t, int64_t, x > y ? x : y)
/* With .relu what is negative becomes 0. */
MOE__EMU_LANES2(min_relu_s32, uint32_t, int32_t, int32_t, x < 0 || y < 0 ? 0 : x < y ? x : y)
MOE__EMU_LANES2(max_relu_s32, uint32_t, int32_t, int32_t, x < 0 && y < 0 ? 0 : x > y ? x : y)

MOE__EMU_LANES1(abs_s16, uint32_t, uint32_t, (uint16_t)(S16(x) < 0 ? 0 - x : x))
MOE__EMU_LANES1(abs_s32, uint32_t, uint32_t, x >> 31 ? 0 - x : x)
MOE__EMU_LANES1(abs_s64, uint64_t, uint64_t, x >> 63 ? 0 - x : x)
MOE__EMU_LANES1(neg16, uint32_t, uint32_t, (uint16_t)(0 - x))
MOE__EMU_LANES1(neg32, uint32_t, uint32_t, 0 - x)
MOE__EMU_LANES1(neg64, uint64_t, uint64_t, 0 - x)

const moe__emu_opcode_t moe__emu_integer_opcodes[] = {
    MOE__EMU_COMPUTE("add{.s32|.u32}", "Rrr", add32),
    MOE__EMU_COMPUTE("add{.s64|.u64}", "Lll", add64),
    MOE__EMU_COMPUTE("add{.s16|.u16}", "Hhh", add16),
    MOE__EMU_COMPUTE("sub{.s32|.u32}", "Rrr", sub32),
    MOE__EMU_COMPUTE("sub{.s64|.u64}", "Lll", sub64),
    MOE__EMU_COMPUTE("sub{.s16|.u16}", "Hhh", sub16),
    MOE__EMU_COMPUTE("mul.lo{.s32|.u32}", "Rrr", mul_lo32),
    MOE__EMU_COMPUTE("mul.lo{.s64|.u64}", "Lll", mul_lo64),
    MOE__EMU_COMPUTE("mul.lo{.s16|.u16}", "Hhh", mul_lo16),
    MOE__EMU_COMPUTE("mul.hi.u16", "Hhh", mul_hi_u16),
    MOE__EMU_COMPUTE("mul.hi.s16", "Hhh", mul_hi_s16),
    MOE__EMU_COMPUTE("mul.hi.u32", "Rrr", mul_hi_u32),
    MOE__EMU_COMPUTE("mul.hi.s32", "Rrr", mul_hi_s32),
    MOE__EMU_COMPUTE("mul.hi.u64", "Lll", mul_hi_u64),
    MOE__EMU_COMPUTE("mul.hi.s64", "Lll", mul_hi_s64),
    MOE__EMU_COMPUTE("mul.wide.u16", "Rhh", mul_wide_u16),
    MOE__EMU_COMPUTE("mul.wide.s16", "Rhh", mul_wide_s16),
    MOE__EMU_COMPUTE("mul.wide.u32", "Lrr", mul_wide_u32),
    MOE__EMU_COMPUTE("mul.wide.s32", "Lrr", mul_wide_s32),
    MOE__EMU_COMPUTE("mad.lo{.s32|.u32}", "Rrrr", mad_lo32),
    MOE__EMU_COMPUTE("mad.lo{.s64|.u64}", "Llll", mad_lo64),
    MOE__EMU_COMPUTE("mad.lo{.s16|.u16}", "Hhhh", mad_lo16),
    MOE__EMU_COMPUTE("mad.hi.u32", "Rrrr", mad_hi_u32),
    MOE__EMU_COMPUTE("mad.hi.s32", "Rrrr", mad_hi_s32),
    MOE__EMU_COMPUTE("mad.wide.u16", "Rhhr", mad_wide_u16),
    MOE__EMU_COMPUTE("mad.wide.s16", "Rhhr", mad_wide_s16),
    MOE__EMU_COMPUTE("mad.wide.u32", "Lrrl", mad_wide_u32),
    MOE__EMU_COMPUTE("mad.wide.s32", "Lrrl", mad_wide_s32),
    MOE__EMU_COMPUTE("div.u16", "Hhh", div_u16),
    MOE__EMU_COMPUTE("div.u32", "Rrr", div_u32),
    MOE__EMU_COMPUTE("div.u64", "Lll", div_u64),
    MOE__EMU_COMPUTE("div.s16", "Hhh", div_s16),
    MOE__EMU_COMPUTE("div.s32", "Rrr", div_s32),
    MOE__EMU_COMPUTE("div.s64", "Lll", div_s64),
    MOE__EMU_COMPUTE("rem.u16", "Hhh", rem_u32),
    MOE__EMU_COMPUTE("rem.u32", "Rrr", rem_u32),
    MOE__EMU_COMPUTE("rem.u64", "Lll", rem_u64),
    MOE__EMU_COMPUTE("rem.s16", "Hhh", rem_s16),
    MOE__EMU_COMPUTE("rem.s32", "Rrr", rem_s32),
    MOE__EMU_COMPUTE("rem.s64", "Lll", rem_s64),
    MOE__EMU_COMPUTE("min.u16", "Hhh", min_u32),
    MOE__EMU_COMPUTE("min.u32", "Rrr", min_u32),
    MOE__EMU_COMPUTE("min.u64", "Lll", min_u64),
    MOE__EMU_COMPUTE("min.s16", "Hhh", min_s16),
    MOE__EMU_COMPUTE("min.s32", "Rrr", min_s32),
    MOE__EMU_COMPUTE("min.relu.s32", "Rrr", min_relu_s32),
    MOE__EMU_COMPUTE("min.s64", "Lll", min_s64),
    MOE__EMU_COMPUTE("max.u16", "Hhh", max_u32),
    MOE__EMU_COMPUTE("max.u32", "Rrr", max_u32),
    MOE__EMU_COMPUTE("max.u16x2", "Rrr", max_u16x2),
    MOE__EMU_COMPUTE("min.u16x2", "Rrr", min_u16x2),
    MOE__EMU_COMPUTE("max.u64", "Lll", max_u64),
    MOE__EMU_COMPUTE("max.s16", "Hhh", max_s16),
    MOE__EMU_COMPUTE("max.s32", "Rrr", max_s32),
    MOE__EMU_COMPUTE("max.relu.s32", "Rrr", max_relu_s32),
    MOE__EMU_COMPUTE("max.s64", "Lll", max_s64),
    MOE__EMU_COMPUTE("abs.s16", "Hh", abs_s16),
    MOE__EMU_COMPUTE("abs.s32", "Rr", abs_s32),
    MOE__EMU_COMPUTE("abs.s64", "Ll", abs_s64),
    MOE__EMU_COMPUTE("neg.s16", "Hh", neg16),
    MOE__EMU_COMPUTE("neg.s32", "Rr", neg32),
    MOE__EMU_COMPUTE("neg.s64", "Ll", neg64),
    MOE__EMU_END_OF_TABLE,
};
