/* Poison.h - bits of registers that come from memory that nobody has written.
 *
 * Why it exists: a load that is wider than what is needed is right as long as nobody uses the
 * rest. So undefined bits are followed by value: through moves, shifts and arithmetic to their
 * use.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_EMULATOR_MACHINE_POISON_H
#define MOE_EMULATOR_MACHINE_POISON_H

#include "lib/Emulator/Machine/State.h"

/* A lane's register has just been written, with undefined bits among those of `bits`. False when
 * there is no memory. */
bool moe__emu_poison(moe__emu_warp_t *warp, const moe__emu_operand_t *result, uint32_t lane,
                     uint64_t bits);
/* The undefined bits of a lane's register. */
uint64_t moe__emu_poison_of(const moe__emu_warp_t *warp, const moe__emu_operand_t *operand,
                            uint32_t lane);

/* Whether a source of an instruction has undefined bits in a lane that runs it. */
bool moe__emu_has_poison(const moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                         uint32_t active);
/* Runs an instruction that computes registers from registers, some bits of which are undefined:
 * several times, with other bits in their place. Bits of the results that come out different are
 * undefined, too. */
moe__emu_step_t moe__emu_execute_poisoned(moe__emu_warp_t *warp,
                                          const moe__emu_instruction_t *instruction,
                                          uint32_t active);

#endif /* MOE_EMULATOR_MACHINE_POISON_H */
