/* Async.c - the queue of asynchronous work.
 *
 * Why it exists: see Async.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Emulator/Machine/Async.h"

#include "lib/Emulator/Machine/Random.h"
#include "lib/Emulator/Machine/Report.h"

#include <stdlib.h>
#include <string.h>

enum { SHORT_DELAY = 32, LONG_DELAY = 512, LONG_EVERY = 8 };

bool moe__emu_async_create(moe__emu_cta_t *cta) {
  cta->async = calloc(1, sizeof *cta->async);
  return cta->async != NULL;
}

void moe__emu_async_free(moe__emu_cta_t *cta) {
  moe__emu_async_t *async = cta->async;
  for (uint32_t i = 0; async && i < async->thread_capacity; i++)
    free(async->threads[i].left);
  if (async) {
    free(async->threads);
    free(async->tasks);
  }
  free(async);
  cta->async = NULL;
}

void moe__emu_async_reset(moe__emu_cta_t *cta) {
  cta->async->count = 0;
  cta->async->thread_count = 0;
}

bool moe__emu_async_add(moe__emu_cta_t *cta, const moe__emu_task_t *task) {
  moe__emu_async_t *async = cta->async;
  if (async->count == async->capacity) {
    uint32_t capacity = async->capacity ? async->capacity * 2 : 16;
    moe__emu_task_t *grown = realloc(async->tasks, capacity * sizeof *grown);
    if (!grown) {
      moe__emu_fault_cta(cta, MOE_EMU_OUT_OF_MEMORY, "out of memory");
      return false;
    }
    async->tasks = grown;
    async->capacity = capacity;
  }
  uint32_t delay = moe__emu_random(cta, LONG_EVERY) == 1 ? LONG_DELAY : SHORT_DELAY;
  moe__emu_task_t *added = &async->tasks[async->count++];
  *added = *task;
  added->due = cta->cluster->now + 1 + moe__emu_random(cta, delay);
  return true;
}

bool moe__emu_async_run(moe__emu_cta_t *cta) {
  moe__emu_async_t *async = cta->async;
  for (uint32_t i = 0; i < async->count;) {
    moe__emu_task_t task = async->tasks[i];
    if (task.due > cta->cluster->now) {
      i++;
      continue;
    }
    /* What is due leaves the queue; the rest keeps its order. */
    memmove(&async->tasks[i], &async->tasks[i + 1], (async->count - i - 1) * sizeof task);
    async->count--;
    cta->cluster->events++;
    if (!task.run(cta, &task))
      return false;
  }
  return true;
}

uint64_t moe__emu_async_next(const moe__emu_async_t *async) {
  uint64_t next = 0;
  for (uint32_t i = 0; i < async->count; i++) {
    if (next == 0 || async->tasks[i].due < next)
      next = async->tasks[i].due;
  }
  return next;
}
