/* Random.h - the choices of a schedule.
 *
 * Why it exists: the same seed gives the same run.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_EMULATOR_MACHINE_RANDOM_H
#define MOE_EMULATOR_MACHINE_RANDOM_H

#include "lib/Emulator/Machine/State.h"

/* A number below `limit` from the cluster's schedule; 0 in schedule 0. */
uint32_t moe__emu_random(moe__emu_cta_t *cta, uint32_t limit);

#endif /* MOE_EMULATOR_MACHINE_RANDOM_H */
