/* Warp.h - the lanes of a warp: where they go apart, where they meet, and what they run.
 *
 * Why it exists: lanes run independently, as on a GPU since Volta.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_EMULATOR_MACHINE_WARP_H
#define MOE_EMULATOR_MACHINE_WARP_H

#include "lib/Emulator/Machine/State.h"

void moe__emu_warp_begin(moe__emu_warp_t *warp, moe__emu_cta_t *cta, uint32_t number);
/* Runs a split of the warp for at most `limit` instructions; whether anything was done. */
bool moe__emu_warp_run(moe__emu_warp_t *warp, uint32_t limit);
/* Separates the lanes of the running split at a branch, or moves them. */
moe__emu_step_t moe__emu_warp_branch(moe__emu_warp_t *warp, const moe__emu_instruction_t *branch,
                                     uint32_t taken);
/* Ends lanes of the running split. */
moe__emu_step_t moe__emu_warp_exit(moe__emu_warp_t *warp, uint32_t lanes);

#endif /* MOE_EMULATOR_MACHINE_WARP_H */
