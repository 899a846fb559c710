/* Residence.c - see Residence.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Emulator/Machine/Residence.h"

#include "lib/Emulator/Machine/Report.h"

/* Whether lanes of a warp know that a CTA has begun: they have heard of any of its warps. */
static bool knows(const moe__emu_warp_t *warp, int lane, const moe__emu_cta_t *cta) {
  const moe__emu_view_t *view = moe__emu_order_view(cta->order, warp->agent, (uint32_t)lane);
  for (uint32_t w = 0; w < cta->machine->warp_count; w++) {
    if (view->done[cta->warps[w].agent])
      return true;
  }
  return false;
}

bool moe__emu_cluster_reach(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                            int lane, const moe__emu_cta_t *cta) {
  if (cta == warp->cta)
    return true;
  const uint32_t *index = cta->index;
  if (cta->residence.alive == 0) {
    moe__emu_fault(warp, instruction, lane,
                   "reaches for the shared memory of CTA (%u,%u,%u), which has exited", index[0],
                   index[1], index[2]);
    return false;
  }
  if (cta->order->enabled && !knows(warp, lane, cta)) {
    moe__emu_fault(warp, instruction, lane,
                   "reaches for the shared memory of CTA (%u,%u,%u), which may not have begun: "
                   "no barrier.cluster is in between",
                   index[0], index[1], index[2]);
    return false;
  }
  return true;
}

void moe__emu_cluster_touch(moe__emu_cta_t *cta, const moe__emu_cta_t *by, moe__emu_event_t event) {
  uint32_t *last = &cta->residence.touched[MOE__EMU_EVENT_AGENT(event)];
  if (cta != by && *last < MOE__EMU_EVENT_CLOCK(event))
    *last = MOE__EMU_EVENT_CLOCK(event);
}
