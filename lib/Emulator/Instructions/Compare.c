/* Compare.c - setp: comparisons into predicates.
 *
 * Why it exists: see Integer.c. A comparison is a test of 32 lanes; what .and, .or and .xor do with
 * its mask, and the second predicate, are the same for all.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Emulator/Instructions/Lanes.h"
#include "lib/Emulator/Instructions/Numbers.h"
#include "lib/Emulator/Machine/Registers.h"
#include "lib/Emulator/Machine/Report.h"
#include "lib/Emulator/Ptx/Opcodes.h"

#include <string.h>

enum { NO_COMBINATION, AND, OR, XOR };

static moe__emu_step_t setp(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                            uint32_t active) {
  const moe__emu_operand_t *operands = moe__emu_operand(warp->kernel, instruction, 0);
  if (moe__emu_check_operands(warp, instruction, active) == MOE__EMU_FAILED)
    return MOE__EMU_FAILED;
  uint32_t mask = 0, other = 0;
  instruction->compute(&mask, moe__emu_row(warp, &operands[2]), moe__emu_row(warp, &operands[3]),
                       NULL);
  uint32_t inverse = ~mask;
  if (instruction->operand_count > 4) {
    other = *(const uint32_t *)moe__emu_row(warp, &operands[4]);
    other = operands[4].addend ? ~other : other;
  }
  switch (instruction->choice[0]) {
  case AND:
    mask &= other, inverse &= other;
    break;
  case OR:
    mask |= other, inverse |= other;
    break;
  case XOR:
    mask ^= other, inverse ^= other;
    break;
  default:
    break;
  }
  moe__emu_set_predicate(warp, &operands[0], active, mask);
  moe__emu_set_predicate(warp, &operands[1], active, inverse);
  return MOE__EMU_ADVANCE;
}

/* A combination needs the predicate to combine with. */
static bool verify(const moe__emu_kernel_t *kernel, const moe__emu_instruction_t *instruction,
                   moe__emu_error_t *error) {
  (void)kernel;
  if ((instruction->choice[0] != NO_COMBINATION) == (instruction->operand_count > 4))
    return true;
  return moe__emu_error(error, "a predicate to combine with comes with .and, .or or .xor");
}

MOE__EMU_LANES_TEST(eq_u32, uint32_t, x == y)
MOE__EMU_LANES_TEST(ne_u32, uint32_t, x != y)
MOE__EMU_LANES_TEST(eq_u64, uint64_t, x == y)
MOE__EMU_LANES_TEST(ne_u64, uint64_t, x != y)

#define INTEGER_TESTS(suffix, T)                                                                   \
  MOE__EMU_LANES_TEST(lt_##suffix, T, x < y)                                                       \
  MOE__EMU_LANES_TEST(le_##suffix, T, x <= y)                                                      \
  MOE__EMU_LANES_TEST(gt_##suffix, T, x > y)                                                       \
  MOE__EMU_LANES_TEST(ge_##suffix, T, x >= y)

INTEGER_TESTS(u32, uint32_t)
INTEGER_TESTS(s32, int32_t)
INTEGER_TESTS(u64, uint64_t)
INTEGER_TESTS(s64, int64_t)

#define SIGNED16(value) ((int16_t)(value))
#define SHORT_TESTS(name, op) MOE__EMU_LANES_TEST(name, uint32_t, SIGNED16(x) op SIGNED16(y))
SHORT_TESTS(lt_s16, <)
SHORT_TESTS(le_s16, <=)
SHORT_TESTS(gt_s16, >)
SHORT_TESTS(ge_s16, >=)

/* Ordered tests are false with a NaN, the ...u ones true. */
#define FLOAT_TESTS(suffix, U, f)                                                                  \
  MOE__EMU_LANES_TEST(eq_##suffix, U, f(x) == f(y))                                                \
  MOE__EMU_LANES_TEST(ne_##suffix, U, f(x) < f(y) || f(x) > f(y))                                  \
  MOE__EMU_LANES_TEST(lt_##suffix, U, f(x) < f(y))                                                 \
  MOE__EMU_LANES_TEST(le_##suffix, U, f(x) <= f(y))                                                \
  MOE__EMU_LANES_TEST(gt_##suffix, U, f(x) > f(y))                                                 \
  MOE__EMU_LANES_TEST(ge_##suffix, U, f(x) >= f(y))                                                \
  MOE__EMU_LANES_TEST(equ_##suffix, U, !(f(x) < f(y) || f(x) > f(y)))                              \
  MOE__EMU_LANES_TEST(neu_##suffix, U, f(x) != f(y))                                               \
  MOE__EMU_LANES_TEST(ltu_##suffix, U, !(f(x) >= f(y)))                                            \
  MOE__EMU_LANES_TEST(leu_##suffix, U, !(f(x) > f(y)))                                             \
  MOE__EMU_LANES_TEST(gtu_##suffix, U, !(f(x) <= f(y)))                                            \
  MOE__EMU_LANES_TEST(geu_##suffix, U, !(f(x) < f(y)))                                             \
  MOE__EMU_LANES_TEST(num_##suffix, U, f(x) == f(x) && f(y) == f(y))                               \
  MOE__EMU_LANES_TEST(nan_##suffix, U, f(x) != f(x) || f(y) != f(y))

#define FROM_BF16(bits) moe__ref_f32_from_bf16((uint16_t)(bits))
#define FROM_F16(bits) moe__emu_f32_from_f16((uint16_t)(bits))
FLOAT_TESTS(f32, uint32_t, moe__emu_float)
FLOAT_TESTS(f64, uint64_t, moe__emu_double)
FLOAT_TESTS(bf16, uint32_t, FROM_BF16)
FLOAT_TESTS(f16, uint32_t, FROM_F16)

#define ROW(test, types, operands, function)                                                       \
  { "setp." test "[.and|.or|.xor]" types, operands, setp, function, 0, verify }
#define INTEGER_ROWS(unsigned_types, signed_type, operands, u, s)                                  \
  ROW("eq", unsigned_types "|" signed_type "}", operands, eq_##u),                                 \
      ROW("ne", unsigned_types "|" signed_type "}", operands, ne_##u),                             \
      ROW("lt", "{" signed_type "}", operands, lt_##s),                                            \
      ROW("le", "{" signed_type "}", operands, le_##s),                                            \
      ROW("gt", "{" signed_type "}", operands, gt_##s),                                            \
      ROW("ge", "{" signed_type "}", operands, ge_##s),                                            \
      ROW("lt", unsigned_types "}", operands, lt_##u),                                             \
      ROW("le", unsigned_types "}", operands, le_##u),                                             \
      ROW("gt", unsigned_types "}", operands, gt_##u),                                             \
      ROW("ge", unsigned_types "}", operands, ge_##u),                                             \
      ROW("lo", unsigned_types "}", operands, lt_##u),                                             \
      ROW("ls", unsigned_types "}", operands, le_##u),                                             \
      ROW("hi", unsigned_types "}", operands, gt_##u),                                             \
      ROW("hs", unsigned_types "}", operands, ge_##u)
#define FLOAT_ROWS(type, operands, f)                                                              \
  ROW("eq", "{" type "}", operands, eq_##f), ROW("ne", "{" type "}", operands, ne_##f),            \
      ROW("lt", "{" type "}", operands, lt_##f), ROW("le", "{" type "}", operands, le_##f),        \
      ROW("gt", "{" type "}", operands, gt_##f), ROW("ge", "{" type "}", operands, ge_##f),        \
      ROW("equ", "{" type "}", operands, equ_##f), ROW("neu", "{" type "}", operands, neu_##f),    \
      ROW("ltu", "{" type "}", operands, ltu_##f), ROW("leu", "{" type "}", operands, leu_##f),    \
      ROW("gtu", "{" type "}", operands, gtu_##f), ROW("geu", "{" type "}", operands, geu_##f),    \
      ROW("num", "{" type "}", operands, num_##f), ROW("nan", "{" type "}", operands, nan_##f)

const moe__emu_opcode_t moe__emu_compare_opcodes[] = {
    INTEGER_ROWS("{.b32|.u32", ".s32", "Drr?c", u32, s32),
    INTEGER_ROWS("{.b64|.u64", ".s64", "Dll?c", u64, s64),
    INTEGER_ROWS("{.b16|.u16", ".s16", "Dhh?c", u32, s16),
    FLOAT_ROWS(".f32", "Drr?c", f32),
    FLOAT_ROWS(".f64", "Dll?c", f64),
    FLOAT_ROWS(".bf16", "Dhh?c", bf16),
    FLOAT_ROWS(".f16", "Dhh?c", f16),
    MOE__EMU_END_OF_TABLE,
};
