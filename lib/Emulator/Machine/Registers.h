/* Registers.h - a warp's register file, and what is known of each row.
 *
 * Why it exists: every instruction reads operands and writes results; what must hold of them is
 * checked alike.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_EMULATOR_MACHINE_REGISTERS_H
#define MOE_EMULATOR_MACHINE_REGISTERS_H

#include "lib/Emulator/Machine/State.h"

static inline void *moe__emu_row(const moe__emu_warp_t *warp, const moe__emu_operand_t *operand) {
  return warp->file + operand->row;
}

static inline bool moe__emu_is_ready(const moe__emu_warp_t *warp, const moe__emu_operand_t *operand,
                                     uint32_t active) {
  return !(active & ~warp->shadows[operand->shadow].initialized);
}

static inline uint64_t moe__emu_lane_value(const moe__emu_warp_t *warp,
                                           const moe__emu_operand_t *operand, int lane) {
  const uint8_t *row = warp->file + operand->row;
  return operand->bytes >= 8 ? ((const uint64_t *)(const void *)row)[lane]
                             : ((const uint32_t *)(const void *)row)[lane];
}

/* The address that a lane gives. */
static inline uint64_t moe__emu_lane_address(const moe__emu_warp_t *warp,
                                             const moe__emu_operand_t *operand, int lane) {
  return moe__emu_lane_value(warp, operand, lane) + (uint64_t)(int64_t)operand->addend;
}

/* Checks that sources are initialized, and that results may be written. */
moe__emu_step_t moe__emu_check_operands(moe__emu_warp_t *warp,
                                        const moe__emu_instruction_t *instruction, uint32_t active);
/* Notes that the lanes of a result have been written. */
void moe__emu_written(moe__emu_warp_t *warp, const moe__emu_operand_t *result, uint32_t active);
/* Writes a lane of a result, and notes it. */
void moe__emu_set_lane(moe__emu_warp_t *warp, const moe__emu_operand_t *result, int lane,
                       uint64_t value);
/* Writes the lanes of a predicate, and notes it. */
void moe__emu_set_predicate(moe__emu_warp_t *warp, const moe__emu_operand_t *result,
                            uint32_t active, uint32_t value);
/* Reports an operand whose lanes are not all initialized. */
moe__emu_step_t moe__emu_fault_operand(moe__emu_warp_t *warp,
                                       const moe__emu_instruction_t *instruction,
                                       const moe__emu_operand_t *operand, uint32_t active);

#endif /* MOE_EMULATOR_MACHINE_REGISTERS_H */
