/* Residence.h - when a CTA's shared memory may be reached by the others of its cluster.
 *
 * Why it exists: a CTA may reach the shared memory of the others only from when they have begun
 * until they end, and nothing but the kernel sees to that.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_EMULATOR_MACHINE_RESIDENCE_H
#define MOE_EMULATOR_MACHINE_RESIDENCE_H

#include "lib/Emulator/Machine/State.h"

/* Checks that a lane may reach the shared memory of a CTA: that the CTA is known to have begun,
 * and has not ended. False after a fault. */
bool moe__emu_cluster_reach(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                            int lane, const moe__emu_cta_t *cta);
/* Notes an access to a CTA's shared memory, by the agent of an event, on behalf of `by`. */
void moe__emu_cluster_touch(moe__emu_cta_t *cta, const moe__emu_cta_t *by, moe__emu_event_t event);

#endif /* MOE_EMULATOR_MACHINE_RESIDENCE_H */
