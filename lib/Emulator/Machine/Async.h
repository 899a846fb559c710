/* Async.h - work that goes on beside the warps: bulk copies, asynchronous stores and matrix
 * products.
 *
 * Why it exists: an instruction starts it, and it is done later, at a time that the schedule
 * chooses.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_EMULATOR_MACHINE_ASYNC_H
#define MOE_EMULATOR_MACHINE_ASYNC_H

#include "lib/Emulator/Machine/State.h"
#include "lib/Emulator/Machine/Tma.h"

typedef struct moe__emu_task_t moe__emu_task_t;

/* Does the work; false after a fault. */
typedef bool (*moe__emu_task_run_t)(moe__emu_cta_t *cta, moe__emu_task_t *task);

struct moe__emu_task_t {
  moe__emu_task_run_t run;
  uint64_t due;          /* the turn at which it is done */
  moe__emu_warp_t *warp; /* that started it */
  const moe__emu_instruction_t *instruction;
  int lane;
  /* A copy. */
  moe__emu_tma_map_t map; /* of a plain copy: a row of bytes, which is the box */
  int32_t coordinates[MOE__EMU_TMA_MAX_RANK];
  moe__emu_cta_t *target; /* whose shared memory it is */
  uint32_t shared;        /* address there */
  uint32_t mbarrier; /* that a load or an asynchronous store completes on: its number in the CTA */
  uint32_t phase;    /* of the mbarrier when the work was started */
  uint32_t thread, group; /* of a bulk store: whose bulk group, and which */
  /* An asynchronous store. */
  uint64_t value[2];
  uint32_t bytes;
  /* A product. */
  uint32_t warpgroup, product;
};

/* A thread's bulk groups. */
typedef struct moe__emu_bulk_thread_t {
  uint32_t thread; /* number in the CTA */
  uint32_t agent;
  uint32_t committed; /* groups */
  uint32_t open;      /* copies that are in no group yet */
  uint32_t waited;    /* groups that are known to have read all of theirs */
  uint32_t *left;     /* copies of each group that are not done; index: group number */
  uint32_t capacity;
  uint32_t completed; /* groups done, in order */
} moe__emu_bulk_thread_t;

struct moe__emu_async_t {
  moe__emu_task_t *tasks; /* not done, in no order */
  uint32_t count, capacity;
  moe__emu_bulk_thread_t *threads;
  uint32_t thread_count, thread_capacity;
};

/* A CTA's queue: made empty; false when there is no memory. */
bool moe__emu_async_create(moe__emu_cta_t *cta);
void moe__emu_async_free(moe__emu_cta_t *cta);
void moe__emu_async_reset(moe__emu_cta_t *cta);

/* Adds a task, due at a time of the schedule's choice; false when there is no memory. */
bool moe__emu_async_add(moe__emu_cta_t *cta, const moe__emu_task_t *task);
/* Does what is due. False after a fault. */
bool moe__emu_async_run(moe__emu_cta_t *cta);
/* When the next task is due; 0 when there is none. */
uint64_t moe__emu_async_next(const moe__emu_async_t *async);

#endif /* MOE_EMULATOR_MACHINE_ASYNC_H */
