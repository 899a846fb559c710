/* Deadlock.c - what each warp waits for when none can go on.
 *
 * Why it exists: see Deadlock.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Emulator/Deadlock.h"

#include "lib/Emulator/Instructions/Barrier.h"
#include "lib/Emulator/Instructions/Mbarrier.h"
#include "lib/Emulator/Machine/Registers.h"
#include "lib/Emulator/Machine/Report.h"

#include <stdio.h>
#include <string.h>

/* What a split that is blocked waits for. */
static void describe_wait(moe__emu_warp_t *warp, const moe__emu_split_t *split, char *text,
                          size_t size) {
  const moe__emu_cta_t *cta = warp->cta;
  const moe__emu_instruction_t *instruction = &warp->kernel->instructions[split->pc];
  int lane = moe__emu_first_lane(split->lanes);
  int used = snprintf(text, size, "line %u (%s)", instruction->line, instruction->name);
  if (used < 0 || (size_t)used >= size)
    return;
  text += used, size -= (size_t)used;
  if (moe__emu_begins(instruction->name, "mbarrier.")) {
    const moe__emu_operand_t *operand = moe__emu_operand(warp->kernel, instruction, 1);
    uint64_t address = moe__emu_lane_address(warp, operand, lane);
    uint32_t low = (uint32_t)(address & UINT32_MAX);
    const moe__emu_mbarrier_t *mbarrier = moe__emu_mbarrier_at(warp->cta, low);
    if (mbarrier)
      snprintf(text, size,
               " for the mbarrier at 0x%x: phase %u has %u of %u arrivals to come and %d bytes to "
               "land",
               mbarrier->address, mbarrier->phase, mbarrier->pending, mbarrier->count,
               mbarrier->bytes);
  } else if (moe__emu_begins(instruction->name, "barrier.cluster.")) {
    const moe__emu_cluster_barrier_t *barrier = &cta->cluster->barrier;
    snprintf(text, size, " for the cluster's barrier: %u of %u threads have come", barrier->arrived,
             barrier->alive);
  } else if (moe__emu_begins(instruction->name, "bar")) {
    const moe__emu_operand_t *operand = moe__emu_operand(warp->kernel, instruction, 0);
    uint64_t id = moe__emu_lane_value(warp, operand, lane);
    if (id < MOE__EMU_NAMED_BARRIERS)
      snprintf(text, size, " for barrier %u: %u of %u threads have come", (unsigned)id,
               cta->barriers[id].arrived, cta->barriers[id].expected);
  } else if (moe__emu_begins(instruction->name, "setmaxnreg")) {
    snprintf(text, size, " for registers: %u of %u are in use",
             cta->registers_used * MOE__EMU_LANES, cta->machine->register_pool * MOE__EMU_LANES);
  } else if (moe__emu_begins(instruction->name, "wgmma")) {
    snprintf(text, size, " for products that not all four warps have started");
  }
}

static void append_waits(moe__emu_cta_t *cta) {
  char last[320] = "", wait[320];
  uint32_t last_lanes = 0;
  for (uint32_t w = 0; w < cta->machine->warp_count; w++) {
    moe__emu_warp_t *warp = &cta->warps[w];
    for (uint32_t s = 0; s < warp->split_count; s++) {
      const moe__emu_split_t *split = &warp->splits[s];
      describe_wait(warp, split, wait, sizeof wait);
      if (!strcmp(wait, last) && split->lanes == last_lanes) {
        moe__emu_report_append(cta, ", warp %u too", w);
        continue;
      }
      moe__emu_report_append(cta, "; warp %u, lanes 0x%08x, waits at %s", w, split->lanes, wait);
      memcpy(last, wait, sizeof last);
      last_lanes = split->lanes;
    }
    if (warp->alive && warp->split_count == 0)
      moe__emu_report_append(cta, "; warp %u: its lanes wait for each other", w);
  }
}

void moe__emu_fault_deadlock(moe__emu_cluster_t *cluster) {
  if (!moe__emu_report_begin(cluster->ctas, MOE_EMU_FAULT))
    return;
  moe__emu_report_cta(cluster->ctas);
  moe__emu_report_append(cluster->ctas, ": deadlock, no warp can go on");
  append_waits(cluster->ctas);
  for (uint32_t r = 1; r < cluster->machine->cluster_size; r++) {
    moe__emu_report_append(cluster->ctas, "; ");
    moe__emu_report_cta(&cluster->ctas[r]);
    append_waits(&cluster->ctas[r]);
  }
}
