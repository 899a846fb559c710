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
  if (shadow->matrix > MOE__EMU_FENCED)
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

/* Notes that an instruction other than a product accesses a register of products. False where it
 * may not. */
static bool touch_matrix(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                         const moe__emu_operand_t *operand, bool is_write, uint32_t active) {
  moe__emu_shadow_t *shadow = &warp->shadows[operand->shadow];
  if (shadow->matrix > MOE__EMU_FENCED) {
    moe__emu_fault_operand(warp, instruction, operand, active);
    return false;
  }
  shadow->matrix = MOE__EMU_NO_MATRIX;
  shadow->was_written = is_write;
  shadow->line = instruction->line;
  return true;
}

moe__emu_step_t moe__emu_check_operands(moe__emu_warp_t *warp,
                                        const moe__emu_instruction_t *instruction,
                                        uint32_t active) {
  const moe__emu_operand_t *operands = moe__emu_operand(warp->kernel, instruction, 0);
  for (int i = 0; i < instruction->result_count; i++) {
    if (warp->shadows[operands[i].shadow].matrix &&
        !touch_matrix(warp, instruction, &operands[i], true, active))
      return MOE__EMU_FAILED;
  }
  for (int i = instruction->result_count; i < instruction->operand_count; i++) {
    if (warp->shadows[operands[i].shadow].matrix &&
        !touch_matrix(warp, instruction, &operands[i], false, active))
      return MOE__EMU_FAILED;
    if (!moe__emu_is_ready(warp, &operands[i], active))
      return moe__emu_fault_operand(warp, instruction, &operands[i], active);
  }
  return MOE__EMU_ADVANCE;
}

void moe__emu_written(moe__emu_warp_t *warp, const moe__emu_operand_t *result, uint32_t active) {
  moe__emu_shadow_t *shadow = &warp->shadows[result->shadow];
  shadow->initialized |= active;
  shadow->poisoned &= ~active;
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
