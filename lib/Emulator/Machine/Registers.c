/* Registers.c - checks of operands and results.
 *
 * Why it exists: see Registers.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Emulator/Machine/Registers.h"

#include "lib/Emulator/Machine/Report.h"

moe__emu_step_t moe__emu_fault_operand(moe__emu_warp_t *warp,
                                       const moe__emu_instruction_t *instruction,
                                       const moe__emu_operand_t *operand, uint32_t active) {
  const moe__emu_shadow_t *shadow = &warp->shadows[operand->shadow];
  const char *name = warp->kernel->rows[operand->shadow].name;
  if (shadow->in_flight)
    return moe__emu_fault(warp, instruction, moe__emu_first_lane(active),
                          "register %s belongs to a wgmma that no wgmma.wait_group has waited for",
                          name);
  uint32_t missing = active & ~shadow->initialized;
  if (missing & shadow->poisoned)
    return moe__emu_fault(warp, instruction, moe__emu_first_lane(missing & shadow->poisoned),
                          "uses %s, which depends on uninitialized shared memory: 0x%x, loaded at "
                          "line %u",
                          name, warp->poison_address, warp->poison_line);
  return moe__emu_fault(warp, instruction, moe__emu_first_lane(missing),
                        "register %s is read before it is written", name);
}

moe__emu_step_t moe__emu_check_operands(moe__emu_warp_t *warp,
                                        const moe__emu_instruction_t *instruction,
                                        uint32_t active) {
  const moe__emu_operand_t *operands = moe__emu_operand(warp->kernel, instruction, 0);
  for (int i = 0; i < instruction->result_count; i++) {
    if (warp->shadows[operands[i].shadow].in_flight)
      return moe__emu_fault_operand(warp, instruction, &operands[i], active);
  }
  for (int i = instruction->result_count; i < instruction->operand_count; i++) {
    if (!moe__emu_is_ready(warp, &operands[i], active) ||
        warp->shadows[operands[i].shadow].in_flight == MOE__EMU_WRITTEN)
      return moe__emu_fault_operand(warp, instruction, &operands[i], active);
  }
  return MOE__EMU_ADVANCE;
}

void moe__emu_written(moe__emu_warp_t *warp, const moe__emu_operand_t *result, uint32_t active) {
  moe__emu_shadow_t *shadow = &warp->shadows[result->shadow];
  shadow->initialized |= active;
  shadow->poisoned &= ~active;
  shadow->is_dirty = 1;
}

void moe__emu_set_lane(moe__emu_warp_t *warp, const moe__emu_operand_t *result, int lane,
                       uint64_t value) {
  void *row = moe__emu_row(warp, result);
  if (result->bytes >= 8)
    ((uint64_t *)row)[lane] = value;
  else
    ((uint32_t *)row)[lane] = (uint32_t)value;
  moe__emu_written(warp, result, 1U << lane);
}

void moe__emu_set_predicate(moe__emu_warp_t *warp, const moe__emu_operand_t *result,
                            uint32_t active, uint32_t value) {
  uint32_t *row = moe__emu_row(warp, result);
  *row = (*row & ~active) | (value & active);
  moe__emu_written(warp, result, active);
}
