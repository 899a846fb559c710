/* Atomic.c - atom and red.
 *
 * Why it exists: CTAs run on several threads, so an atomic of global memory is one of the host.
 * Lanes take turns, lowest first.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Emulator/Instructions/Lanes.h"
#include "lib/Emulator/Instructions/Numbers.h"
#include "lib/Emulator/Machine/Address.h"
#include "lib/Emulator/Machine/Random.h"
#include "lib/Emulator/Machine/Registers.h"
#include "lib/Emulator/Ptx/Opcodes.h"

enum { RELAXED = 1, ACQUIRE, RELEASE, ACQUIRE_RELEASE }; /* choice 0 */
enum { CHOICE_SPACE = 2, CHOICE_OP = 3, CHOICE_TYPE = 4 };

typedef enum op_t { ADD, MIN, MAX, AND, OR, XOR, EXCHANGE, COMPARE, INCREMENT, DECREMENT } op_t;
typedef enum type_t { U32, S32, U64, S64, B32, B64, F32 } type_t;

static bool is_wide(type_t type) {
  return type == U64 || type == S64 || type == B64;
}

/* What becomes of `old`. */
static uint64_t combine(op_t op, type_t type, uint64_t old, uint64_t x, uint64_t y) {
  uint32_t old32 = (uint32_t)old, x32 = (uint32_t)x;
  switch (op) {
  case ADD:
    return type == F32 ? moe__emu_result(moe__emu_float(old32) + moe__emu_float(x32)) : old + x;
  case MIN:
    if (type == S32)
      return (int32_t)old32 < (int32_t)x32 ? old : x;
    return type == S64 ? ((int64_t)old < (int64_t)x ? old : x) : (old < x ? old : x);
  case MAX:
    if (type == S32)
      return (int32_t)old32 > (int32_t)x32 ? old : x;
    return type == S64 ? ((int64_t)old > (int64_t)x ? old : x) : (old > x ? old : x);
  case AND:
    return old & x;
  case OR:
    return old | x;
  case XOR:
    return old ^ x;
  case EXCHANGE:
    return x;
  case COMPARE:
    return old == x ? y : old;
  case INCREMENT:
    return old32 >= x32 ? 0 : old32 + 1;
  default:
    return old32 == 0 || old32 > x32 ? x32 : old32 - 1;
  }
}

static uint64_t update32(uint32_t *at, op_t op, type_t type, uint64_t x, uint64_t y) {
  uint32_t old = __atomic_load_n(at, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(at, &old, (uint32_t)combine(op, type, old, x, y), false,
                                      __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
    continue;
  return old;
}

static uint64_t update64(uint64_t *at, op_t op, type_t type, uint64_t x, uint64_t y) {
  uint64_t old = __atomic_load_n(at, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(at, &old, combine(op, type, old, x, y), false,
                                      __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
    continue;
  return old;
}

/* An atomic's operation and sources. */
typedef struct change_t {
  op_t op;
  type_t type;
  uint64_t x, y;
} change_t;

static uint64_t change(const void *context, uint64_t old) {
  const change_t *change = context;
  uint64_t value = combine(change->op, change->type, old, change->x, change->y);
  return is_wide(change->type) ? value : (uint32_t)value;
}

static uint32_t choose(void *context, uint32_t limit) {
  return moe__emu_random(context, limit);
}

/* Without a word it is .gpu. */
static moe__emu_scope_t scope_of(const moe__emu_instruction_t *instruction) {
  static const moe__emu_scope_t scopes[] = {MOE__EMU_GPU, MOE__EMU_CTA, MOE__EMU_CLUSTER,
                                            MOE__EMU_GPU, MOE__EMU_GPU};
  return scopes[instruction->choice[1]];
}

/* Atomics of one operation give the same in any order, but for exchanges. Two compare-and-swaps are
 * taken to expect each other. */
static uint32_t operation_of(const moe__emu_instruction_t *instruction) {
  return (uint32_t)(1 + instruction->choice[CHOICE_OP]) |
         (instruction->is_result_used ? MOE__EMU_ATOMIC_USED : 0);
}

/* Of global memory whose order is looked at. */
static uint64_t update_contested(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                                 uint32_t lane, uint64_t address, const change_t *what) {
  int semantics = instruction->choice[0];
  moe__emu_toucher_t toucher =
      moe__emu_toucher(warp, instruction, (int)lane, scope_of(instruction));
  return moe__emu_races_update(
      warp->cta->machine->races, &toucher, semantics == ACQUIRE || semantics == ACQUIRE_RELEASE,
      semantics >= RELEASE, address, is_wide(what->type) ? 8 : 4, change, what, choose, warp->cta);
}

static moe__emu_step_t atomic(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                              uint32_t active) {
  const moe__emu_operand_t *operands = moe__emu_operand(warp->kernel, instruction, 0);
  const moe__emu_operand_t *where = &operands[instruction->result_count];
  op_t op = (op_t)instruction->choice[CHOICE_OP];
  type_t type = (type_t)instruction->choice[CHOICE_TYPE];
  bool has_second = instruction->operand_count > instruction->result_count + 2;
  if (moe__emu_check_operands(warp, instruction, active) == MOE__EMU_FAILED)
    return MOE__EMU_FAILED;
  moe__emu_reach_t reach =
      moe__emu_reach(warp, instruction, (moe__emu_space_t)instruction->choice[CHOICE_SPACE],
                     is_wide(type) ? 8 : 4, MOE__EMU_ATOMIC, active);
  reach.scope = scope_of(instruction);
  reach.operation = operation_of(instruction);
  reach.is_ordered = instruction->choice[0] >= ACQUIRE;
  MOE__EMU_FOR_LANES(lane, active) {
    uint64_t address = moe__emu_lane_address(warp, where, (int)lane);
    void *at = moe__emu_resolve(&reach, 1U << lane, address);
    if (!at)
      return MOE__EMU_FAILED;
    uint64_t x = moe__emu_lane_value(warp, &where[1], (int)lane);
    uint64_t y = has_second ? moe__emu_lane_value(warp, &where[2], (int)lane) : 0;
    uint64_t old = reach.is_contested ? update_contested(warp, instruction, lane, address,
                                                         &(change_t){op, type, x, y})
                   : is_wide(type)    ? update64(at, op, type, x, y)
                                      : update32(at, op, type, x, y);
    if (instruction->result_count)
      moe__emu_set_lane(warp, operands, (int)lane, old);
  }
  warp->cta->cluster->events++;
  return MOE__EMU_ADVANCE;
}

/* Which operations take which types. */
static bool verify(const moe__emu_kernel_t *kernel, const moe__emu_instruction_t *instruction,
                   moe__emu_error_t *error) {
  static const uint8_t types[] = {
      [ADD] = 1 << U32 | 1 << S32 | 1 << U64 | 1 << F32,
      [MIN] = 1 << U32 | 1 << S32 | 1 << U64 | 1 << S64,
      [MAX] = 1 << U32 | 1 << S32 | 1 << U64 | 1 << S64,
      [AND] = 1 << B32 | 1 << B64,
      [OR] = 1 << B32 | 1 << B64,
      [XOR] = 1 << B32 | 1 << B64,
      [EXCHANGE] = 1 << B32 | 1 << B64,
      [COMPARE] = 1 << B32 | 1 << B64,
      [INCREMENT] = 1 << U32,
      [DECREMENT] = 1 << U32,
  };
  (void)kernel;
  int op = instruction->choice[CHOICE_OP];
  int sources = instruction->operand_count - instruction->result_count - 1;
  if (!(types[op] >> instruction->choice[CHOICE_TYPE] & 1))
    return moe__emu_error(error, "no such operation of this type");
  if (sources != (op == COMPARE ? 2 : 1))
    return moe__emu_error(error, "%d sources; %d are taken", sources, op == COMPARE ? 2 : 1);
  return true;
}

#define BEGIN "[.relaxed|.acquire|.release|.acq_rel][.cta|.cluster|.gpu|.sys]" MOE__EMU_SPACES
#define TYPES "{.u32|.s32|.u64|.s64|.b32|.b64|.f32}"

const moe__emu_opcode_t moe__emu_atomic_opcodes[] = {
    MOE__EMU_VERIFIED("atom" BEGIN "{.add|.min|.max|.and|.or|.xor|.exch|.cas|.inc|.dec}" TYPES,
                      "E4ae4?e4", atomic, verify),
    MOE__EMU_VERIFIED("red" BEGIN "{.add|.min|.max|.and|.or|.xor}" TYPES, "ae4", atomic, verify),
    MOE__EMU_END_OF_TABLE,
};
