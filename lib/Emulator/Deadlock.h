/* Deadlock.h - reports that no warp of a cluster can go on.
 *
 * Why it exists: a hang says nothing; which warp waits for what says nearly all.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_EMULATOR_DEADLOCK_H
#define MOE_EMULATOR_DEADLOCK_H

#include "lib/Emulator/Machine/State.h"

/* Reports that no warp of the cluster can go on, and what each waits for. */
void moe__emu_fault_deadlock(moe__emu_cluster_t *cluster);

#endif /* MOE_EMULATOR_DEADLOCK_H */
