/* Residence.c - see Residence.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Emulator/Machine/Residence.h"

#include "lib/Emulator/Machine/Report.h"

/* Whether lanes of a warp know that a block has begun: they have heard of any of its warps. */
static bool knows(const moe__emu_warp_t *warp, int lane, const moe__emu_block_t *block) {
  const moe__emu_view_t *view = moe__emu_order_view(block->order, warp->agent, (uint32_t)lane);
  for (uint32_t w = 0; w < block->machine->warp_count; w++) {
    if (view->done[block->warps[w].agent])
      return true;
  }
  return false;
}

bool moe__emu_cluster_reach(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                            int lane, const moe__emu_block_t *block) {
  if (block == warp->block)
    return true;
  const uint32_t *index = block->index;
  if (block->residence.alive == 0) {
    moe__emu_fault(warp, instruction, lane,
                   "reaches for the shared memory of block (%u,%u,%u), which has exited", index[0],
                   index[1], index[2]);
    return false;
  }
  if (block->order->enabled && !knows(warp, lane, block)) {
    moe__emu_fault(warp, instruction, lane,
                   "reaches for the shared memory of block (%u,%u,%u), which may not have begun: "
                   "no barrier.cluster is in between",
                   index[0], index[1], index[2]);
    return false;
  }
  return true;
}

void moe__emu_cluster_touch(moe__emu_block_t *block, const moe__emu_block_t *by,
                            moe__emu_event_t event) {
  uint32_t *last = &block->residence.touched[MOE__EMU_EVENT_AGENT(event)];
  if (block != by && *last < MOE__EMU_EVENT_CLOCK(event))
    *last = MOE__EMU_EVENT_CLOCK(event);
}
