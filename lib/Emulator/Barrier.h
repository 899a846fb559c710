/* Barrier.h - named barriers and mbarriers of a block.
 *
 * Why it exists: both let warps go on when enough has arrived, and hand on what the arriving ones
 * knew; an mbarrier also counts the bytes of loads.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_EMULATOR_BARRIER_H
#define MOE_EMULATOR_BARRIER_H

#include "lib/Emulator/Order.h"
#include "lib/Emulator/Program.h"

typedef struct moe__emu_block_t moe__emu_block_t;

enum { MOE__EMU_NAMED_BARRIERS = 16 };

typedef struct moe__emu_named_barrier_t {
  uint32_t expected;                   /* threads, of the phase that has begun; 0: none has */
  uint32_t arrived;                    /* threads */
  uint32_t warps;                      /* that have arrived */
  uint32_t generation;                 /* phases completed */
  uint32_t line;                       /* of the instruction that began the phase */
  moe__emu_view_t gathered, completed; /* of the phase that gathers; of the last completed */
} moe__emu_named_barrier_t;

typedef struct moe__emu_mbarrier_t {
  moe__emu_block_t *block;
  uint32_t address; /* 0: not in use */
  uint32_t count;   /* arrivals of a phase */
  uint32_t pending; /* arrivals that are still to come */
  int32_t bytes;    /* announced and not yet landed; negative: landed and not yet announced */
  uint32_t phase;   /* phases completed */
  uint32_t agent;
  moe__emu_event_t initialized; /* by which warp, when */
  bool is_fenced;               /* a fence has handed the initialization on */
  moe__emu_view_t gathered, completed;
} moe__emu_mbarrier_t;

typedef struct moe__emu_barriers_t {
  moe__emu_named_barrier_t *named;
  moe__emu_mbarrier_t *mbarriers;
  uint32_t count, capacity;
} moe__emu_barriers_t;

bool moe__emu_barriers_create(moe__emu_barriers_t *barriers);
void moe__emu_barriers_free(moe__emu_barriers_t *barriers);
void moe__emu_barriers_reset(moe__emu_barriers_t *barriers);

/* The mbarrier at an address of the block's, NULL where there is none. */
moe__emu_mbarrier_t *moe__emu_mbarrier_at(moe__emu_block_t *block, uint64_t address);

/* Bytes of a load land, which it announced in phase `phase`. False, with the error, where the phase
 * is over. */
bool moe__emu_mbarrier_land(moe__emu_mbarrier_t *mbarrier, uint32_t phase, uint32_t bytes,
                            moe__emu_error_t *error);

/* The mbarrier that an instruction of a lane names, checked; NULL after a fault. is_cluster: by an
 * address of the window shared::cluster. */
moe__emu_mbarrier_t *moe__emu_mbarrier_use(moe__emu_warp_t *warp,
                                           const moe__emu_instruction_t *instruction, int lane,
                                           uint64_t address, bool is_cluster);

/* fence.mbarrier_init or fence.proxy.async by a warp: what it has initialized, loads may use. */
void moe__emu_mbarriers_fence(moe__emu_block_t *block, uint32_t warp);

/* The block ends: nothing may be half done. False after a fault. */
bool moe__emu_barriers_end(moe__emu_block_t *block);

#endif /* MOE_EMULATOR_BARRIER_H */
