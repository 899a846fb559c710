/* Parallel.c - a loop whose iterations run on several threads.
 *
 * Why it exists: see Parallel.h. Iterations are handed out one by one, so that unequal ones still
 * balance.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "tools/moe-run/Parallel.h"

#include "moe/limits.h"
#include "tools/moe-run/Report.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct loop_t {
  moe__run_task_t task;
  void *context;
  int64_t count;
  atomic_int_fast64_t next, done;
} loop_t;

static bool step(loop_t *loop) {
  int64_t index = atomic_fetch_add(&loop->next, 1);
  if (index >= loop->count)
    return false;
  loop->task(loop->context, index);
  atomic_fetch_add(&loop->done, 1);
  return true;
}

static void *worker(void *argument) {
  while (step(argument))
    ;
  return NULL;
}

void moe__run_parallel(const char *what, int threads, int64_t count, moe__run_task_t task,
                       void *context) {
  loop_t loop = {.task = task, .context = context, .count = count};
  pthread_t others[MOE_MAX_EMULATOR_THREADS];
  int started = 0;
  while (started < threads - 1 && started < MOE_MAX_EMULATOR_THREADS && started < count - 1 &&
         pthread_create(&others[started], NULL, worker, &loop) == 0)
    started++;
  moe__run_progress_begin(what);
  while (step(&loop))
    moe__run_progress_update((double)atomic_load(&loop.done) / (double)count);
  for (int i = 0; i < started; i++)
    pthread_join(others[i], NULL);
  moe__run_progress_end();
}
