/* Warp.c - the lanes of a warp: where they go apart, where they meet, and what they run.
 *
 * Why it exists: see Warp.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Emulator/Machine/Warp.h"

#include "lib/Emulator/Machine/Address.h"
#include "lib/Emulator/Machine/Poison.h"
#include "lib/Emulator/Machine/Random.h"
#include "lib/Emulator/Machine/Registers.h"

#include <string.h>

enum { NO_MEETING = -1 };

/* ---- The start ---- */

static uint32_t special_value(const moe__emu_cta_t *cta, uint32_t special, uint32_t thread) {
  const moe_emu_launch_t *launch = cta->machine->launch;
  uint32_t lane = thread % MOE__EMU_LANES;
  uint32_t x = launch->block[0], y = launch->block[1];
  switch ((moe__emu_special_t)special) {
  case MOE__EMU_TID_X:
    return thread % x;
  case MOE__EMU_TID_Y:
    return thread / x % y;
  case MOE__EMU_TID_Z:
    return thread / (x * y);
  case MOE__EMU_NTID_X:
  case MOE__EMU_NTID_Y:
  case MOE__EMU_NTID_Z:
    return launch->block[special - MOE__EMU_NTID_X];
  case MOE__EMU_CTAID_X:
  case MOE__EMU_CTAID_Y:
  case MOE__EMU_CTAID_Z:
    return cta->index[special - MOE__EMU_CTAID_X];
  case MOE__EMU_NCTAID_X:
  case MOE__EMU_NCTAID_Y:
  case MOE__EMU_NCTAID_Z:
    return launch->grid[special - MOE__EMU_NCTAID_X];
  case MOE__EMU_CLUSTERID_X:
    return cta->index[0] / cta->machine->cluster_size;
  case MOE__EMU_CLUSTERID_Y:
  case MOE__EMU_CLUSTERID_Z:
    return cta->index[special - MOE__EMU_CLUSTERID_X];
  case MOE__EMU_NCLUSTERID_X:
    return launch->grid[0] / cta->machine->cluster_size;
  case MOE__EMU_NCLUSTERID_Y:
  case MOE__EMU_NCLUSTERID_Z:
    return launch->grid[special - MOE__EMU_NCLUSTERID_X];
  case MOE__EMU_CLUSTER_CTAID_X:
  case MOE__EMU_CLUSTER_CTARANK:
    return cta->rank;
  case MOE__EMU_CLUSTER_NCTAID_X:
  case MOE__EMU_CLUSTER_NCTARANK:
    return cta->machine->cluster_size;
  case MOE__EMU_CLUSTER_NCTAID_Y:
  case MOE__EMU_CLUSTER_NCTAID_Z:
  case MOE__EMU_NSMID:
    return 1;
  case MOE__EMU_LANEID:
    return lane;
  case MOE__EMU_WARPID:
    return thread / MOE__EMU_LANES;
  case MOE__EMU_NWARPID:
    return cta->machine->warp_count;
  case MOE__EMU_LANEMASK_EQ:
    return 1U << lane;
  case MOE__EMU_LANEMASK_LT:
    return (1U << lane) - 1;
  case MOE__EMU_LANEMASK_LE:
    return (2U << lane) - 1;
  case MOE__EMU_LANEMASK_GT:
    return ~((2U << lane) - 1);
  case MOE__EMU_LANEMASK_GE:
    return ~((1U << lane) - 1);
  case MOE__EMU_DYNAMIC_SMEM_SIZE:
    return launch->dynamic_shared;
  case MOE__EMU_TOTAL_SMEM_SIZE:
    return cta->shared_bytes - cta->machine->kernel->dynamic_padding;
  default: /* the place in the cluster along y and z, the SM */
    return 0;
  }
}

static void fill_row(moe__emu_warp_t *warp, const moe__emu_row_t *row) {
  for (uint32_t lane = 0; lane < MOE__EMU_LANES; lane++) {
    uint64_t value = row->value;
    if (row->kind == MOE__EMU_ROW_SPECIAL)
      value = special_value(warp->cta, (uint32_t)value, warp->number * MOE__EMU_LANES + lane);
    else if (row->kind == MOE__EMU_ROW_SHARED)
      value = moe__emu_cluster_address(warp->cta->rank, (uint32_t)value);
    uint8_t *at = warp->file + row->offset + (size_t)lane * (row->bytes >= 8 ? 8 : 4);
    memcpy(at, &value, row->bytes >= 8 ? 8 : 4);
    if (row->bytes == 16)
      memset(at + (size_t)8 * MOE__EMU_LANES, 0, 8);
  }
}

void moe__emu_warp_begin(moe__emu_warp_t *warp, moe__emu_cta_t *cta, uint32_t number) {
  const moe__emu_kernel_t *kernel = warp->kernel;
  uint32_t threads = cta->machine->thread_count - number * MOE__EMU_LANES;
  warp->cta = cta;
  warp->number = number;
  warp->alive = threads >= MOE__EMU_LANES ? UINT32_MAX : (1U << threads) - 1;
  warp->first_lanes = warp->alive;
  warp->splits[0] = (moe__emu_split_t){
      .lanes = warp->alive, .meeting = NO_MEETING, .failed_pc = MOE__EMU_NOWHERE};
  warp->split_count = 1;
  warp->next_split = 0;
  warp->registers = cta->machine->first_registers;
  warp->has_poison = false;
  warp->deferred_count = 0;
  warp->waited_count = 0;
  memset(warp->came, 0, sizeof warp->came);
  memset(warp->meetings, 0, sizeof warp->meetings);
  for (uint32_t r = 0; r < kernel->row_count; r++) {
    const moe__emu_row_t *row = &kernel->rows[r];
    warp->shadows[r] = (moe__emu_shadow_t){0};
    if (row->kind == MOE__EMU_ROW_REGISTER)
      continue;
    fill_row(warp, row);
    warp->shadows[r].initialized = UINT32_MAX;
  }
}

/* ---- Meeting ---- */

static moe__emu_split_t *add_split(moe__emu_warp_t *warp, uint32_t lanes, uint32_t pc,
                                   int meeting) {
  moe__emu_split_t *split = &warp->splits[warp->split_count++];
  *split = (moe__emu_split_t){
      .lanes = lanes, .pc = pc, .meeting = meeting, .failed_pc = MOE__EMU_NOWHERE};
  return split;
}

static void remove_split(moe__emu_warp_t *warp, moe__emu_split_t *split) {
  *split = warp->splits[--warp->split_count];
}

/* Lets the lanes of a meeting go on if all have come. */
static void close_meeting(moe__emu_warp_t *warp, int number) {
  moe__emu_meeting_t *meeting = &warp->meetings[number];
  if (meeting->arrived != meeting->expected)
    return;
  meeting->is_used = false;
  if (meeting->expected)
    add_split(warp, meeting->expected, meeting->pc, meeting->outer);
}

/* Whether the running split is where it meets others; then it is one no longer. */
static bool arrive(moe__emu_warp_t *warp) {
  moe__emu_split_t *split = warp->split;
  if (split->meeting == NO_MEETING || warp->meetings[split->meeting].pc != split->pc)
    return false;
  int number = split->meeting;
  warp->meetings[number].arrived |= split->lanes;
  remove_split(warp, split);
  close_meeting(warp, number);
  return true;
}

moe__emu_step_t moe__emu_warp_branch(moe__emu_warp_t *warp, const moe__emu_instruction_t *branch,
                                     uint32_t taken) {
  moe__emu_split_t *split = warp->split;
  uint32_t others = split->lanes & ~taken, next = split->pc + 1;
  if (!taken || !others) {
    split->pc = taken ? branch->target : next;
    return MOE__EMU_JUMPED;
  }
  int meeting = split->meeting;
  bool is_same = meeting != NO_MEETING && warp->meetings[meeting].pc == branch->reconverge;
  if (branch->reconverge != MOE__EMU_NOWHERE && !is_same) {
    /* Each meeting in use separates at least two lanes, so that there are never more of them than
     * lanes. */
    int free = 0;
    while (warp->meetings[free].is_used)
      free++;
    warp->meetings[free] = (moe__emu_meeting_t){true, branch->reconverge, split->lanes, 0, meeting};
    meeting = free;
  }
  split->lanes = taken;
  split->pc = branch->target;
  split->meeting = meeting;
  add_split(warp, others, next, meeting);
  return MOE__EMU_REGROUPED;
}

moe__emu_step_t moe__emu_warp_exit(moe__emu_warp_t *warp, uint32_t lanes) {
  moe__emu_split_t *split = warp->split;
  int meeting = split->meeting;
  warp->alive &= ~lanes;
  split->lanes &= ~lanes;
  split->pc++;
  warp->cta->cluster->events++;
  if (split->lanes == 0)
    remove_split(warp, split);
  for (int outer; meeting != NO_MEETING; meeting = outer) {
    outer = warp->meetings[meeting].outer;
    warp->meetings[meeting].expected &= ~lanes;
    close_meeting(warp, meeting);
  }
  return MOE__EMU_REGROUPED;
}

/* ---- Running ---- */

/* The lanes for which the instruction's guard holds; false after a fault. */
static bool read_guard(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                       uint32_t *out_active) {
  uint32_t active = warp->split->lanes;
  if (instruction->guard >= 0) {
    const moe__emu_operand_t *guard = &warp->kernel->operands[instruction->guard];
    if (!moe__emu_is_ready(warp, guard, active)) {
      moe__emu_fault_operand(warp, instruction, guard, active);
      return false;
    }
    uint32_t mask = *(const uint32_t *)moe__emu_row(warp, guard);
    active &= instruction->guard_inverted ? ~mask : mask;
  }
  *out_active = active;
  return true;
}

/* ---- Deferred loads ---- */

/* Whether an instruction can come before a load that is deferred. */
static bool may_overtake(const moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                         const moe__emu_deferred_t *deferred) {
  const moe__emu_operand_t *operands = moe__emu_operand(warp->kernel, instruction, 0);
  const moe__emu_operand_t *loaded = moe__emu_operand(warp->kernel, deferred->instruction, 0);
  for (int i = 0; i < instruction->operand_count; i++) {
    if (operands[i].shadow == loaded->shadow)
      return false;
  }
  if (instruction->is_pure || instruction->is_branch)
    return true;
  bool is_load = moe__emu_begins(instruction->name, "ld.global.") ||
                 moe__emu_begins(instruction->name, "ld.relaxed.") ||
                 moe__emu_begins(instruction->name, "ld.param");
  bool is_store = moe__emu_begins(instruction->name, "st.global.") ||
                  moe__emu_begins(instruction->name, "st.relaxed.");
  if (!is_load && !is_store)
    return false;
  const moe__emu_operand_t *address = &operands[instruction->result_count];
  MOE__EMU_FOR_LANES(lane, warp->split->lanes) {
    uint64_t at = moe__emu_lane_address(warp, address, (int)lane) & ~UINT64_C(15);
    MOE__EMU_FOR_LANES(other, deferred->active) {
      if (at == (deferred->addresses[other] & ~UINT64_C(15)))
        return false;
    }
  }
  return true;
}

/* Finishes the loads that the instruction must not come before, and all after them. */
static bool settle(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction) {
  for (uint32_t i = 0; i < warp->deferred_count; i++) {
    if (may_overtake(warp, instruction, &warp->deferred[i]))
      continue;
    for (uint32_t d = 0; d < warp->deferred_count; d++) {
      if (!warp->deferred[d].finish(warp, &warp->deferred[d]))
        return false;
    }
    warp->deferred_count = 0;
    return true;
  }
  return true;
}

/* Runs one instruction of the running split. */
static moe__emu_step_t step(moe__emu_warp_t *warp) {
  const moe__emu_instruction_t *instruction = &warp->kernel->instructions[warp->split->pc];
  uint32_t active;
  if (warp->deferred_count && !settle(warp, instruction))
    return MOE__EMU_FAILED;
  if (!read_guard(warp, instruction, &active))
    return MOE__EMU_FAILED;
  if (instruction->is_branch) {
    warp->cta->cluster->steps++;
    return instruction->execute(warp, instruction, active);
  }
  if (!active) {
    warp->split->pc++;
    return MOE__EMU_JUMPED;
  }
  warp->cta->cluster->steps++;
  bool is_poisoned =
      warp->has_poison && instruction->is_pure && moe__emu_has_poison(warp, instruction, active);
  moe__emu_step_t done = is_poisoned ? moe__emu_execute_poisoned(warp, instruction, active)
                                     : instruction->execute(warp, instruction, active);
  if (done == MOE__EMU_ADVANCE || done == MOE__EMU_YIELD)
    warp->split->pc++;
  return done;
}

/* The next split that may go on; NULL where all wait for something that has not happened. */
static moe__emu_split_t *choose_split(moe__emu_warp_t *warp) {
  uint32_t first = warp->next_split++ + moe__emu_random(warp->cta, warp->split_count);
  for (uint32_t i = 0; i < warp->split_count; i++) {
    moe__emu_split_t *split = &warp->splits[(first + i) % warp->split_count];
    if (!split->is_blocked || split->blocked_at != warp->cta->cluster->events)
      return split;
  }
  return NULL;
}

bool moe__emu_warp_run(moe__emu_warp_t *warp, uint32_t limit) {
  if (warp->split_count == 0)
    return false;
  warp->split = choose_split(warp);
  if (!warp->split)
    return false;
  bool is_done = false;
  for (uint32_t i = 0; i < limit; i++) {
    if (arrive(warp))
      return true;
    switch (step(warp)) {
    case MOE__EMU_ADVANCE:
    case MOE__EMU_JUMPED:
      is_done = true;
      warp->split->is_blocked = false;
      break;
    case MOE__EMU_YIELD:
      warp->split->is_blocked = false;
      return true;
    case MOE__EMU_BLOCKED:
      warp->split->is_blocked = true;
      warp->split->blocked_at = warp->cta->cluster->events;
      return is_done;
    case MOE__EMU_REGROUPED:
    case MOE__EMU_FAILED:
      return true;
    }
  }
  return true;
}
