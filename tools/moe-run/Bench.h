/* Bench.h - times a call on a device.
 *
 * Why it exists: a quantizer is as fast as memory lets it be, so its time means something only
 * beside that of a copy of as many bytes, measured in the same minute under the same conditions.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_RUN_BENCH_H
#define MOE_RUN_BENCH_H

#include "tools/moe-run/Device.h"

#include <jansson.h>

/* A function that is timed, and in microseconds how long it took. */
typedef struct moe__run_timed_t {
  const moe_rt_program_t *program; /* borrowed, on the device */
  const moe_rt_function_info_t *function;
  double median, least;
} moe__run_timed_t;

/* What they are compared with, and what they have in common. */
typedef struct moe__run_timing_t {
  size_t bytes; /* each argument read once, each result written once */
  double flops; /* of the call's products */
  bool has_flops;
  double copy_median, copy_least; /* of a device copy that moves as many bytes */
} moe__run_timing_t;

/* Times `repeat` launches of each function on the arguments of `call`, which have data, and as many
 * device copies, all in turns. The functions have the arguments and results of the call's. */
int moe__run_bench_time(const moe__run_target_t *target, const moe__run_call_t *call, int repeat,
                        moe__run_timed_t *timed, int count, moe__run_timing_t *out_timing);

/* Times the call itself. Appends an object to `cases`, and prints a table row unless `json`; before
 * the first case a head. */
int moe__run_bench(const moe__run_target_t *target, const moe__run_call_t *call, int repeat,
                   bool json, json_t *cases);

#endif /* MOE_RUN_BENCH_H */
