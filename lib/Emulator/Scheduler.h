/* Scheduler.h - runs the clusters of a launch, one after the other.
 *
 * Why it exists: which warp goes on, and when asynchronous work is done, is the schedule's choice.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_EMULATOR_SCHEDULER_H
#define MOE_EMULATOR_SCHEDULER_H

#include "lib/Emulator/Machine/State.h"

/* Allocates what a cluster needs; it can run many clusters one after the other. */
bool moe__emu_cluster_create(moe__emu_cluster_t *cluster, moe__emu_machine_t *machine);
void moe__emu_cluster_free(moe__emu_cluster_t *cluster);
/* Runs cluster `number` to its end. Its status and report say how it ended. */
void moe__emu_cluster_run(moe__emu_cluster_t *cluster, uint64_t number);

enum { MOE__EMU_MAX_RUNNING = 8 }; /* clusters that take turns */

/* Runs all clusters of a launch, `total` of them, `count` at once. They take turns. The one that
 * failed, NULL: none. */
moe__emu_cluster_t *moe__emu_clusters_run(moe__emu_cluster_t *clusters, uint32_t count,
                                          uint64_t total);

#endif /* MOE_EMULATOR_SCHEDULER_H */
