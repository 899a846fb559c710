/* Compute.h - runs instructions that compute a register from registers, all lanes at once.
 *
 * Why it exists: their checks and the masking of inactive lanes are the same.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_EMULATOR_INSTRUCTIONS_COMPUTE_H
#define MOE_EMULATOR_INSTRUCTIONS_COMPUTE_H

#include "lib/Emulator/Ptx/Program.h"

/* Runs an instruction that has a compute function. */
moe__emu_step_t moe__emu_execute_compute(moe__emu_warp_t *warp,
                                         const moe__emu_instruction_t *instruction,
                                         uint32_t active);

#endif /* MOE_EMULATOR_INSTRUCTIONS_COMPUTE_H */
