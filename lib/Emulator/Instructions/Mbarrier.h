/* Mbarrier.h - the mbarriers of a CTA.
 *
 * Why it exists: an mbarrier counts arrivals and the bytes of loads, and hands on what the arriving
 * ones knew.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_EMULATOR_INSTRUCTIONS_MBARRIER_H
#define MOE_EMULATOR_INSTRUCTIONS_MBARRIER_H

#include "lib/Emulator/Machine/Async.h"

typedef struct moe__emu_mbarrier_t {
  moe__emu_cta_t *cta;
  uint32_t address; /* 0: not in use */
  uint32_t count;   /* arrivals of a phase */
  uint32_t pending; /* arrivals that are still to come */
  int32_t bytes;    /* announced and not yet landed; negative: landed and not yet announced */
  uint32_t phase;   /* phases completed */
  uint32_t agent;
  moe__emu_event_t initialized; /* by which warp, when */
  bool is_fenced;               /* a fence has handed the initialization on */
  bool is_announced;    /* and then its warp has come to the cluster's barrier, relaxed or not */
  uint32_t loaded;      /* phases up to the last one that bulk loads complete on */
  uint32_t loaded_line; /* of the last load */
  uint32_t heard;       /* phases that a thread knows to be complete */
  moe__emu_view_t gathered, completed;
} moe__emu_mbarrier_t;

struct moe__emu_mbarriers_t {
  moe__emu_mbarrier_t *list;
  uint32_t count, capacity;
};

/* A CTA's mbarriers: none; false when there is no memory. */
bool moe__emu_mbarriers_create(moe__emu_cta_t *cta);
void moe__emu_mbarriers_free(moe__emu_cta_t *cta);
void moe__emu_mbarriers_reset(moe__emu_cta_t *cta);

/* The mbarrier at an address of the CTA's, NULL where there is none. */
moe__emu_mbarrier_t *moe__emu_mbarrier_at(moe__emu_cta_t *cta, uint64_t address);

/* Bytes of a load land, which it announced in phase `phase`. False, with the error, where the phase
 * is over. */
bool moe__emu_mbarrier_land(moe__emu_mbarrier_t *mbarrier, uint32_t phase, uint32_t bytes,
                            moe__emu_error_t *error);

/* The mbarrier that an instruction of a lane names, checked; NULL after a fault. is_cluster: by an
 * address of the window shared::cluster. */
moe__emu_mbarrier_t *moe__emu_mbarrier_use(moe__emu_warp_t *warp,
                                           const moe__emu_instruction_t *instruction, int lane,
                                           uint64_t address, bool is_cluster);

/* Says that what a task writes into the shared memory of task->target completes on the mbarrier at
 * an address of the window shared::cluster, in the phase that it is in; *out_as is the event of the
 * writes. False after a fault. */
bool moe__emu_mbarrier_complete_on(moe__emu_task_t *task, uint64_t address,
                                   moe__emu_event_t *out_as);

/* fence.mbarrier_init or fence.proxy.async by a warp: what it has initialized, loads may use. */
void moe__emu_mbarriers_fence(moe__emu_cta_t *cta, uint32_t warp);

/* The warp arrives at the cluster's barrier: who waits there may use what it has initialized and
 * fenced, whatever the arrival's semantics. */
void moe__emu_mbarriers_announce(moe__emu_cta_t *cta, uint32_t warp);

/* The last thread of the CTA exits: what bulk loads write there must have been waited for. */
moe__emu_step_t moe__emu_mbarriers_exit(moe__emu_warp_t *warp,
                                        const moe__emu_instruction_t *instruction);

/* The CTA ends: no mbarrier may wait for bytes. False after a fault. */
bool moe__emu_mbarriers_end(moe__emu_cta_t *cta);

#endif /* MOE_EMULATOR_INSTRUCTIONS_MBARRIER_H */
