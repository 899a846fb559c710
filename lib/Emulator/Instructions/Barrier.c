/* Barrier.c - named barriers, and fences of the async proxy.
 *
 * Why it exists: see Barrier.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Emulator/Instructions/Barrier.h"

#include "lib/Emulator/Instructions/Lanes.h"
#include "lib/Emulator/Instructions/Mbarrier.h"
#include "lib/Emulator/Machine/Registers.h"
#include "lib/Emulator/Machine/Report.h"
#include "lib/Emulator/Ptx/Opcodes.h"

#include <stdlib.h>
#include <string.h>

bool moe__emu_barriers_create(moe__emu_cta_t *cta) {
  cta->barriers = calloc(MOE__EMU_NAMED_BARRIERS, sizeof *cta->barriers);
  return cta->barriers != NULL;
}

void moe__emu_barriers_free(moe__emu_cta_t *cta) {
  free(cta->barriers);
  cta->barriers = NULL;
}

void moe__emu_barriers_reset(moe__emu_cta_t *cta) {
  memset(cta->barriers, 0, MOE__EMU_NAMED_BARRIERS * sizeof *cta->barriers);
}

bool moe__emu_barriers_end(moe__emu_cta_t *cta) {
  for (uint32_t i = 0; i < MOE__EMU_NAMED_BARRIERS; i++) {
    const moe__emu_named_barrier_t *barrier = &cta->barriers[i];
    if (barrier->expected) {
      moe__emu_fault_cta(cta, MOE_EMU_FAULT,
                         "the CTA ends while barrier %u has %u of %u threads (line %u)", i,
                         barrier->arrived, barrier->expected, barrier->line);
      return false;
    }
  }
  return true;
}

/* ---- Instructions ---- */

/* A value that must be the same in all lanes. */
static bool uniform(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                    const moe__emu_operand_t *operand, uint32_t active, uint32_t *out_value) {
  int first = moe__emu_first_lane(active);
  *out_value = (uint32_t)moe__emu_lane_value(warp, operand, first);
  MOE__EMU_FOR_LANES(lane, active) {
    if ((uint32_t)moe__emu_lane_value(warp, operand, (int)lane) == *out_value)
      continue;
    moe__emu_fault(warp, instruction, (int)lane, "lanes name different barriers or counts");
    return false;
  }
  return true;
}

/* Reads and checks barrier and count; NULL after a fault. */
static moe__emu_named_barrier_t *choose(moe__emu_warp_t *warp,
                                        const moe__emu_instruction_t *instruction, uint32_t active,
                                        uint32_t *out_threads) {
  const moe__emu_operand_t *operands = moe__emu_operand(warp->kernel, instruction, 0);
  uint32_t id;
  *out_threads = warp->cta->machine->warp_count * MOE__EMU_LANES;
  if (moe__emu_check_operands(warp, instruction, active) == MOE__EMU_FAILED ||
      !uniform(warp, instruction, &operands[0], active, &id) ||
      (instruction->operand_count > 1 &&
       !uniform(warp, instruction, &operands[1], active, out_threads)))
    return NULL;
  if (active != warp->alive) {
    moe__emu_fault(warp, instruction, moe__emu_first_lane(active),
                   "executed by lanes 0x%08x of the warp's 0x%08x: all must come together", active,
                   warp->alive);
    return NULL;
  }
  if (id >= MOE__EMU_NAMED_BARRIERS || *out_threads == 0 || *out_threads % MOE__EMU_LANES ||
      *out_threads > warp->cta->machine->warp_count * MOE__EMU_LANES) {
    moe__emu_fault(warp, instruction, -1,
                   "barrier %u of %u threads: there are %d barriers, for whole warps of the CTA's "
                   "%u threads",
                   id, *out_threads, MOE__EMU_NAMED_BARRIERS,
                   warp->cta->machine->warp_count * MOE__EMU_LANES);
    return NULL;
  }
  return &warp->cta->barriers[id];
}

/* The warp arrives. */
static bool arrive(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                   moe__emu_named_barrier_t *barrier, uint32_t active, uint32_t threads) {
  moe__emu_cta_t *cta = warp->cta;
  if (barrier->expected == 0) {
    barrier->expected = threads;
    barrier->line = instruction->line;
  } else if (barrier->expected != threads) {
    moe__emu_fault(warp, instruction, -1,
                   "comes to the barrier with %u threads; line %u came with %u", threads,
                   barrier->line, barrier->expected);
    return false;
  }
  if (barrier->warps >> warp->number & 1) {
    moe__emu_fault(warp, instruction, -1,
                   "comes to the barrier a second time before it is complete (%u of %u threads)",
                   barrier->arrived, barrier->expected);
    return false;
  }
  moe__emu_order_sync(cta->order, warp->agent, active, warp->alive);
  moe__emu_order_release(cta->order, warp->agent, active, warp->alive, &barrier->gathered);
  barrier->warps |= 1U << warp->number;
  barrier->arrived += MOE__EMU_LANES;
  if (barrier->arrived == barrier->expected) {
    moe__emu_view_move(cta->order, &barrier->completed, &barrier->gathered);
    barrier->generation++;
    barrier->expected = barrier->arrived = barrier->warps = 0;
    cta->cluster->events++;
  }
  return true;
}

static moe__emu_step_t barrier_arrive(moe__emu_warp_t *warp,
                                      const moe__emu_instruction_t *instruction, uint32_t active) {
  uint32_t threads;
  moe__emu_named_barrier_t *barrier = choose(warp, instruction, active, &threads);
  return barrier && arrive(warp, instruction, barrier, active, threads) ? MOE__EMU_ADVANCE
                                                                        : MOE__EMU_FAILED;
}

static moe__emu_step_t barrier_sync(moe__emu_warp_t *warp,
                                    const moe__emu_instruction_t *instruction, uint32_t active) {
  moe__emu_split_t *split = warp->split;
  uint32_t threads;
  moe__emu_named_barrier_t *barrier = choose(warp, instruction, active, &threads);
  if (!barrier)
    return MOE__EMU_FAILED;
  if (!split->has_arrived) {
    split->generation = barrier->generation;
    if (!arrive(warp, instruction, barrier, active, threads))
      return MOE__EMU_FAILED;
    split->has_arrived = true;
  }
  if (barrier->generation == split->generation)
    return MOE__EMU_BLOCKED;
  split->has_arrived = false;
  moe__emu_order_acquire(warp->cta->order, warp->agent, active, warp->alive, &barrier->completed);
  return MOE__EMU_ADVANCE;
}

/* ---- Fences of the async proxy ---- */

enum { FENCE_ALL = 0, FENCE_GLOBAL = 3 };

static moe__emu_step_t fence_async(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                                   uint32_t active) {
  int space = instruction->choice[0];
  moe__emu_order_fence(warp->cta->order, warp->agent, active, warp->alive, space != FENCE_GLOBAL,
                       space == FENCE_ALL || space == FENCE_GLOBAL);
  if (space != FENCE_GLOBAL)
    moe__emu_mbarriers_fence(warp->cta, warp->agent);
  return MOE__EMU_ADVANCE;
}

static moe__emu_step_t fence_mbarrier(moe__emu_warp_t *warp,
                                      const moe__emu_instruction_t *instruction, uint32_t active) {
  (void)instruction, (void)active;
  moe__emu_mbarriers_fence(warp->cta, warp->agent);
  return MOE__EMU_ADVANCE;
}

const moe__emu_opcode_t moe__emu_barrier_opcodes[] = {
    MOE__EMU_EXECUTE("bar[.cta].sync", "r?r", barrier_sync),
    MOE__EMU_EXECUTE("bar[.cta].arrive", "rr", barrier_arrive),
    MOE__EMU_EXECUTE("barrier[.cta].sync[.aligned]", "r?r", barrier_sync),
    MOE__EMU_EXECUTE("barrier[.cta].arrive[.aligned]", "rr", barrier_arrive),
    MOE__EMU_EXECUTE("fence.proxy.async[.shared::cta|.shared::cluster|.global]", "", fence_async),
    MOE__EMU_EXECUTE("fence.mbarrier_init.release.cluster", "", fence_mbarrier),
    MOE__EMU_END_OF_TABLE,
};
