/* Cluster.h - what CTAs of a cluster do together.
 *
 * Why it exists: a CTA may reach the shared memory of the others only from when they have begun
 * until they end, and nothing but the kernel sees to that: by the cluster's barrier, or by arrivals
 * at each other's mbarriers.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_EMULATOR_INSTRUCTIONS_CLUSTER_H
#define MOE_EMULATOR_INSTRUCTIONS_CLUSTER_H

#include "lib/Emulator/Machine/State.h"

/* Back to the start of a cluster. */
void moe__emu_cluster_reset(moe__emu_cluster_t *cluster);

/* Lanes exit: when they are a CTA's last ones, no other CTA may still touch its memory. */
moe__emu_step_t moe__emu_cluster_exit(moe__emu_warp_t *warp,
                                      const moe__emu_instruction_t *instruction, uint32_t lanes);

#endif /* MOE_EMULATOR_INSTRUCTIONS_CLUSTER_H */
