/* Flow.h - where the lanes that a branch separates meet again.
 *
 * Why it exists: PTX does not say it; the immediate postdominator is what ptxas takes.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_EMULATOR_PTX_FLOW_H
#define MOE_EMULATOR_PTX_FLOW_H

#include "lib/Emulator/Ptx/Program.h"

/* Sets where the branches of a kernel reconverge: at the immediate postdominator. False when there
 * is no memory. */
bool moe__emu_flow(moe__emu_kernel_t *kernel);

/* Sets which atomics give something that the kernel uses. */
void moe__emu_find_uses(moe__emu_kernel_t *kernel);

#endif /* MOE_EMULATOR_PTX_FLOW_H */
