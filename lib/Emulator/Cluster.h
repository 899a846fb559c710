/* Cluster.h - what blocks of a cluster do together.
 *
 * Why it exists: a block may reach the shared memory of the others only from when they have begun
 * until they end, and nothing but the kernel sees to that: by the cluster's barrier, or by arrivals
 * at each other's mbarriers.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_EMULATOR_CLUSTER_H
#define MOE_EMULATOR_CLUSTER_H

#include "lib/Emulator/Order.h"
#include "lib/Emulator/Program.h"

typedef struct moe__emu_block_t moe__emu_block_t;
typedef struct moe__emu_cluster_t moe__emu_cluster_t;

enum {
  MOE__EMU_MAX_CLUSTER = 8,
  /* In the window shared::cluster the address 0x400 of the block of rank r is 0x400 + (r + 1 <<
   * this). Below lies the block's own shared::cta window. */
  MOE__EMU_RANK_SHIFT = 24,
};

/* barrier.cluster, whose threads are all of the cluster that have not exited. */
typedef struct moe__emu_cluster_barrier_t {
  uint32_t alive;      /* threads of the cluster */
  uint32_t arrived;    /* of them, in the phase that gathers */
  uint32_t generation; /* phases completed */
  moe__emu_view_t gathered, completed;
} moe__emu_cluster_barrier_t;

/* A block's shared memory, as the other blocks use it. */
typedef struct moe__emu_residence_t {
  uint32_t alive;       /* threads of the block */
  moe__emu_view_t left; /* what the threads that have exited knew */
  uint32_t
      touched[MOE__EMU_MAX_AGENTS]; /* the clock of each agent of another block that touched it */
} moe__emu_residence_t;

void moe__emu_cluster_reset(moe__emu_cluster_t *cluster);

/* Checks that a lane may reach the shared memory of a block: that the block is known to have begun,
 * and has not ended. False after a fault. */
bool moe__emu_cluster_reach(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                            int lane, const moe__emu_block_t *block);
/* Notes an access to a block's shared memory, by the agent of an event, on behalf of `by`. */
void moe__emu_cluster_touch(moe__emu_block_t *block, const moe__emu_block_t *by,
                            moe__emu_event_t event);

/* Lanes exit: when they are a block's last ones, no other block may still touch its memory. */
moe__emu_step_t moe__emu_cluster_exit(moe__emu_warp_t *warp,
                                      const moe__emu_instruction_t *instruction, uint32_t lanes);

#endif /* MOE_EMULATOR_CLUSTER_H */
