/* Parallel.h - a loop whose iterations run on several threads.
 *
 * Why it exists: the C reference and the random generator are single functions of an index; tensors
 * have 10^9 elements.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_RUN_PARALLEL_H
#define MOE_RUN_PARALLEL_H

#include <stdint.h>

typedef void (*moe__run_task_t)(void *context, int64_t index);

/* Calls task(context, i) once for every i in [0, count), on `threads` threads (the caller is one of
 * them), and returns when all are done. Shows progress under the name `what`. Where a thread cannot
 * be started, the others do its work. */
void moe__run_parallel(const char *what, int threads, int64_t count, moe__run_task_t task,
                       void *context);

#endif /* MOE_RUN_PARALLEL_H */
