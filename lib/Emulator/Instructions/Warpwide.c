/* Warpwide.c - instructions in which the lanes of a warp exchange values.
 *
 * Why it exists: their lanes are named by a mask, and an instruction that some of those do not
 * execute is undefined; here it is an error.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Emulator/Instructions/Lanes.h"
#include "lib/Emulator/Machine/Poison.h"
#include "lib/Emulator/Machine/Registers.h"
#include "lib/Emulator/Machine/Report.h"
#include "lib/Emulator/Ptx/Opcodes.h"

/* The lanes that the mask operand names must be those that execute. */
static bool check_mask(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                       const moe__emu_operand_t *mask, uint32_t active) {
  MOE__EMU_FOR_LANES(lane, active) {
    uint32_t named = (uint32_t)moe__emu_lane_value(warp, mask, (int)lane);
    /* Lanes that never were, or have exited, need not come. */
    if ((named & warp->alive) == active)
      continue;
    moe__emu_fault(warp, instruction, (int)lane,
                   "the mask names lanes 0x%08x, lanes 0x%08x execute it", named & warp->alive,
                   active);
    return false;
  }
  return true;
}

/* Checks the operands and, which of them it is, the mask. */
static bool begin(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction, int mask,
                  uint32_t active) {
  return moe__emu_check_operands(warp, instruction, active) != MOE__EMU_FAILED &&
         check_mask(warp, instruction, moe__emu_operand(warp->kernel, instruction, mask), active);
}

enum { SHFL_UP, SHFL_DOWN, SHFL_BFLY, SHFL_IDX };

/* shfl.sync.mode.b32 d|p, a, b, c, mask: c holds the segments' mask and the clamp. */
static moe__emu_step_t shuffle(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                               uint32_t active) {
  const moe__emu_operand_t *operands = moe__emu_operand(warp->kernel, instruction, 0);
  /* Undefined bits move with the values. */
  moe__emu_shadow_t *source = &warp->shadows[operands[2].shadow];
  uint32_t poisoned = source->poisoned;
  uint64_t bits[MOE__EMU_LANES];
  for (uint32_t lane = 0; lane < MOE__EMU_LANES; lane++)
    bits[lane] = moe__emu_poison_of(warp, &operands[2], lane);
  source->initialized |= poisoned;
  bool is_legal = begin(warp, instruction, 5, active);
  source->initialized &= ~poisoned;
  if (!is_legal)
    return MOE__EMU_FAILED;
  uint32_t values[MOE__EMU_LANES] = {0}, sources[MOE__EMU_LANES], found = 0;
  MOE__EMU_FOR_LANES(lane, active) {
    uint32_t b = (uint32_t)moe__emu_lane_value(warp, &operands[3], (int)lane) & 31;
    uint32_t c = (uint32_t)moe__emu_lane_value(warp, &operands[4], (int)lane);
    uint32_t segment = c >> 8 & 31, clamp = c & 31;
    uint32_t last = (lane & segment) | (clamp & ~segment), first = lane & segment;
    uint32_t from;
    bool is_inside = false;
    switch (instruction->choice[0]) {
    case SHFL_UP:
      from = lane - b;
      is_inside = (int32_t)from >= (int32_t)last;
      break;
    case SHFL_DOWN:
      from = lane + b;
      is_inside = from <= last;
      break;
    case SHFL_BFLY:
      from = lane ^ b;
      is_inside = from <= last;
      break;
    default:
      from = first | (b & ~segment);
      is_inside = from <= last;
      break;
    }
    if (!is_inside)
      from = lane;
    found |= (uint32_t)is_inside << lane;
    if (!(active >> from & 1))
      return moe__emu_fault(warp, instruction, (int)lane,
                            "takes the value of lane %u, which does not execute it", from);
    values[lane] = (uint32_t)moe__emu_lane_value(warp, &operands[2], (int)from);
    sources[lane] = from;
  }
  MOE__EMU_FOR_LANES(lane, active) {
    moe__emu_set_lane(warp, &operands[0], (int)lane, values[lane]);
    if (!moe__emu_poison(warp, &operands[0], lane, bits[sources[lane]]))
      return MOE__EMU_FAILED;
  }
  moe__emu_set_predicate(warp, &operands[1], active, found);
  return MOE__EMU_ADVANCE;
}

enum { VOTE_ALL, VOTE_ANY, VOTE_UNI };

static uint32_t votes(const moe__emu_warp_t *warp, const moe__emu_operand_t *operand) {
  uint32_t mask = *(const uint32_t *)moe__emu_row(warp, operand);
  return operand->addend ? ~mask : mask;
}

static moe__emu_step_t vote(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                            uint32_t active) {
  const moe__emu_operand_t *operands = moe__emu_operand(warp->kernel, instruction, 0);
  if (!begin(warp, instruction, 2, active))
    return MOE__EMU_FAILED;
  uint32_t yes = votes(warp, &operands[1]) & active;
  bool is_all = yes == active, result = is_all;
  if (instruction->choice[0] == VOTE_ANY)
    result = yes != 0;
  else if (instruction->choice[0] == VOTE_UNI)
    result = is_all || yes == 0;
  moe__emu_set_predicate(warp, &operands[0], active, result ? UINT32_MAX : 0);
  return MOE__EMU_ADVANCE;
}

static moe__emu_step_t ballot(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                              uint32_t active) {
  const moe__emu_operand_t *operands = moe__emu_operand(warp->kernel, instruction, 0);
  if (!begin(warp, instruction, 2, active))
    return MOE__EMU_FAILED;
  uint32_t yes = votes(warp, &operands[1]) & active;
  MOE__EMU_FOR_LANES(lane, active)
  moe__emu_set_lane(warp, &operands[0], (int)lane, yes);
  return MOE__EMU_ADVANCE;
}

enum {
  REDUX_ADD,
  REDUX_MIN_U,
  REDUX_MAX_U,
  REDUX_MIN_S,
  REDUX_MAX_S,
  REDUX_AND,
  REDUX_OR,
  REDUX_XOR
};

static uint32_t reduce(int op, uint32_t a, uint32_t b) {
  switch (op) {
  case REDUX_ADD:
    return a + b;
  case REDUX_MIN_U:
    return a < b ? a : b;
  case REDUX_MAX_U:
    return a > b ? a : b;
  case REDUX_MIN_S:
    return (int32_t)a < (int32_t)b ? a : b;
  case REDUX_MAX_S:
    return (int32_t)a > (int32_t)b ? a : b;
  case REDUX_AND:
    return a & b;
  case REDUX_OR:
    return a | b;
  default:
    return a ^ b;
  }
}

static moe__emu_step_t redux(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                             uint32_t active, int op) {
  const moe__emu_operand_t *operands = moe__emu_operand(warp->kernel, instruction, 0);
  if (!begin(warp, instruction, 2, active))
    return MOE__EMU_FAILED;
  uint32_t first = (uint32_t)moe__emu_first_lane(active);
  uint32_t result = (uint32_t)moe__emu_lane_value(warp, &operands[1], (int)first);
  MOE__EMU_FOR_LANES(lane, active & (active - 1))
  result = reduce(op, result, (uint32_t)moe__emu_lane_value(warp, &operands[1], (int)lane));
  MOE__EMU_FOR_LANES(lane, active)
  moe__emu_set_lane(warp, &operands[0], (int)lane, result);
  return MOE__EMU_ADVANCE;
}

static moe__emu_step_t redux_unsigned(moe__emu_warp_t *warp,
                                      const moe__emu_instruction_t *instruction, uint32_t active) {
  return redux(warp, instruction, active, REDUX_ADD + instruction->choice[0]);
}

static moe__emu_step_t redux_signed(moe__emu_warp_t *warp,
                                    const moe__emu_instruction_t *instruction, uint32_t active) {
  static const int ops[] = {REDUX_ADD, REDUX_MIN_S, REDUX_MAX_S};
  return redux(warp, instruction, active, ops[instruction->choice[0]]);
}

static moe__emu_step_t redux_bits(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                                  uint32_t active) {
  return redux(warp, instruction, active, REDUX_AND + instruction->choice[0]);
}

/* The lowest lane is elected. */
static moe__emu_step_t elect(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                             uint32_t active) {
  const moe__emu_operand_t *operands = moe__emu_operand(warp->kernel, instruction, 0);
  if (!begin(warp, instruction, 2, active))
    return MOE__EMU_FAILED;
  uint32_t leader = (uint32_t)moe__emu_first_lane(active);
  MOE__EMU_FOR_LANES(lane, active)
  moe__emu_set_lane(warp, &operands[0], (int)lane, leader);
  moe__emu_set_predicate(warp, &operands[1], active, 1U << leader);
  return MOE__EMU_ADVANCE;
}

static moe__emu_step_t active_mask(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                                   uint32_t active) {
  const moe__emu_operand_t *operands = moe__emu_operand(warp->kernel, instruction, 0);
  MOE__EMU_FOR_LANES(lane, active)
  moe__emu_set_lane(warp, &operands[0], (int)lane, active);
  return MOE__EMU_ADVANCE;
}

static moe__emu_step_t match_any(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                                 uint32_t active) {
  const moe__emu_operand_t *operands = moe__emu_operand(warp->kernel, instruction, 0);
  if (!begin(warp, instruction, 2, active))
    return MOE__EMU_FAILED;
  uint32_t masks[MOE__EMU_LANES] = {0};
  MOE__EMU_FOR_LANES(lane, active) {
    uint64_t value = moe__emu_lane_value(warp, &operands[1], (int)lane);
    MOE__EMU_FOR_LANES(other, active)
    masks[lane] |= (uint32_t)(moe__emu_lane_value(warp, &operands[1], (int)other) == value)
                   << other;
  }
  MOE__EMU_FOR_LANES(lane, active)
  moe__emu_set_lane(warp, &operands[0], (int)lane, masks[lane]);
  return MOE__EMU_ADVANCE;
}

/* A barrier of the mask's lanes. */
static moe__emu_step_t warp_barrier(moe__emu_warp_t *warp,
                                    const moe__emu_instruction_t *instruction, uint32_t active) {
  if (!begin(warp, instruction, 0, active))
    return MOE__EMU_FAILED;
  moe__emu_order_sync(warp->cta->order, warp->agent, active, warp->alive);
  return MOE__EMU_ADVANCE;
}

const moe__emu_opcode_t moe__emu_warp_opcodes[] = {
    MOE__EMU_EXECUTE("shfl.sync{.up|.down|.bfly|.idx}.b32", "Srrrr", shuffle),
    MOE__EMU_EXECUTE("vote.sync{.all|.any|.uni}.pred", "Pcr", vote),
    MOE__EMU_EXECUTE("vote.sync.ballot.b32", "Rcr", ballot),
    MOE__EMU_EXECUTE("redux.sync{.add|.min|.max}.u32", "Rrr", redux_unsigned),
    MOE__EMU_EXECUTE("redux.sync{.add|.min|.max}.s32", "Rrr", redux_signed),
    MOE__EMU_EXECUTE("redux.sync{.and|.or|.xor}.b32", "Rrr", redux_bits),
    MOE__EMU_EXECUTE("elect.sync", "Sr", elect),
    MOE__EMU_EXECUTE("activemask.b32", "R", active_mask),
    MOE__EMU_EXECUTE("match.any.sync.b32", "Rrr", match_any),
    MOE__EMU_EXECUTE("match.any.sync.b64", "Rlr", match_any),
    MOE__EMU_EXECUTE("bar.warp.sync", "r", warp_barrier),
    MOE__EMU_END_OF_TABLE,
};
