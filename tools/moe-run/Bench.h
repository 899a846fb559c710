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

/* Times `repeat` launches of the call, whose arguments have data, and as many device copies between
 * them. Appends an object to `cases`, and prints a table row unless `json`; before the first case a
 * head. */
int moe__bench(const moe__target_t *target, const moe__call_t *call, int repeat, bool json,
               json_t *cases);

#endif /* MOE_RUN_BENCH_H */
