/* Compute.c - instructions that compute a register from registers, all lanes at once.
 *
 * Why it exists: their checks and the masking of inactive lanes are the same; what each computes is
 * a function over rows of 32 lanes that the compiler vectorizes.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Emulator/Instructions/Compute.h"

#include "lib/Emulator/Machine/Registers.h"

#include <string.h>

static void blend32(uint32_t *restrict to, const uint32_t *restrict from, uint32_t active) {
  for (uint32_t i = 0; i < MOE__EMU_LANES; i++)
    to[i] = active >> i & 1 ? from[i] : to[i];
}

static void blend64(uint64_t *restrict to, const uint64_t *restrict from, uint32_t active) {
  for (uint32_t i = 0; i < MOE__EMU_LANES; i++)
    to[i] = active >> i & 1 ? from[i] : to[i];
}

moe__emu_step_t moe__emu_execute_compute(moe__emu_warp_t *warp,
                                         const moe__emu_instruction_t *instruction,
                                         uint32_t active) {
  const moe__emu_operand_t *operands = moe__emu_operand(warp->kernel, instruction, 0);
  if (moe__emu_check_operands(warp, instruction, active) == MOE__EMU_FAILED)
    return MOE__EMU_FAILED;
  const void *sources[3] = {NULL, NULL, NULL};
  for (int i = 1; i < instruction->operand_count && i < 4; i++)
    sources[i - 1] = moe__emu_row(warp, &operands[i]);
  _Alignas(64) uint64_t result[MOE__EMU_LANES];
  instruction->compute(result, sources[0], sources[1], sources[2]);

  /* The instruction knows the width of what it computes; a wider register's rest is zero. */
  void *row = moe__emu_row(warp, operands);
  if (operands->bytes == 1) {
    uint32_t mask;
    memcpy(&mask, result, sizeof mask);
    moe__emu_set_predicate(warp, operands, active, mask);
    return MOE__EMU_ADVANCE;
  }
  size_t bytes = operands->bytes >= 8 ? sizeof result : sizeof result / 2;
  if (active == UINT32_MAX)
    memcpy(row, result, bytes);
  else if (operands->bytes >= 8)
    blend64(row, result, active);
  else
    blend32(row, (const uint32_t *)(const void *)result, active);
  moe__emu_written(warp, operands, active);
  return MOE__EMU_ADVANCE;
}
