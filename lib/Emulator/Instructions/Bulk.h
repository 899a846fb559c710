/* Bulk.h - bulk copies.
 *
 * Why it exists: a thread's bulk groups must be waited for before it exits.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_EMULATOR_INSTRUCTIONS_BULK_H
#define MOE_EMULATOR_INSTRUCTIONS_BULK_H

#include "lib/Emulator/Ptx/Program.h"

/* A lane exits: its bulk groups must have been waited for. */
moe__emu_step_t moe__emu_bulk_exit(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                                   uint32_t lanes);

#endif /* MOE_EMULATOR_INSTRUCTIONS_BULK_H */
