/* Poison.c - follows undefined bits.
 *
 * Why it exists: see Poison.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Emulator/Machine/Poison.h"

#include "lib/Emulator/Machine/Registers.h"
#include "lib/Emulator/Machine/Report.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_OPERANDS = 20, ROW_BYTES = 2 * 8 * MOE__EMU_LANES };

/* Bytes of an operand's row. */
static size_t row_bytes(const moe__emu_operand_t *operand) {
  if (operand->bytes == 1)
    return sizeof(uint32_t);
  return (size_t)MOE__EMU_LANES * (operand->bytes == 16 ? 16 : operand->bytes == 8 ? 8 : 4);
}

static uint8_t *poison_row(const moe__emu_warp_t *warp, const moe__emu_operand_t *operand) {
  return warp->poison + operand->row;
}

static bool need_poison(moe__emu_warp_t *warp) {
  if (!warp->poison)
    warp->poison = calloc(1, warp->kernel->file_bytes);
  if (!warp->poison)
    moe__emu_fault_cta(warp->cta, MOE_EMU_OUT_OF_MEMORY, "out of memory");
  return warp->poison != NULL;
}

static void set_bits(moe__emu_warp_t *warp, const moe__emu_operand_t *operand, uint32_t lane,
                     uint64_t bits) {
  uint8_t *row = poison_row(warp, operand);
  if (operand->bytes == 1) {
    uint32_t mask;
    memcpy(&mask, row, sizeof mask);
    mask = (mask & ~(1U << lane)) | (uint32_t)(bits & 1) << lane;
    memcpy(row, &mask, sizeof mask);
  } else {
    size_t width = operand->bytes >= 8 ? 8 : 4;
    memcpy(row + lane * width, &bits, width);
  }
}

bool moe__emu_poison(moe__emu_warp_t *warp, const moe__emu_operand_t *result, uint32_t lane,
                     uint64_t bits) {
  moe__emu_shadow_t *shadow = &warp->shadows[result->shadow];
  if (!bits)
    return true;
  if (!need_poison(warp))
    return false;
  set_bits(warp, result, lane, bits);
  shadow->initialized &= ~(1U << lane);
  shadow->poisoned |= 1U << lane;
  warp->has_poison = true;
  return true;
}

/* A lane's value in a row of registers: a bit of the mask where the operand is a predicate. */
static uint64_t value_in(const uint8_t *row, const moe__emu_operand_t *operand, uint32_t lane) {
  uint64_t value = 0;
  if (operand->bytes == 1) {
    uint32_t mask;
    memcpy(&mask, row, sizeof mask);
    return mask >> lane & 1;
  }
  size_t width = operand->bytes >= 8 ? 8 : 4;
  memcpy(&value, row + lane * width, width);
  return value;
}

uint64_t moe__emu_poison_of(const moe__emu_warp_t *warp, const moe__emu_operand_t *operand,
                            uint32_t lane) {
  if (!(warp->shadows[operand->shadow].poisoned >> lane & 1))
    return 0;
  return value_in(poison_row(warp, operand), operand, lane);
}

bool moe__emu_has_poison(const moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                         uint32_t active) {
  const moe__emu_operand_t *operands = moe__emu_operand(warp->kernel, instruction, 0);
  for (int i = instruction->result_count; i < instruction->operand_count; i++) {
    if (warp->shadows[operands[i].shadow].poisoned & active)
      return true;
  }
  return false;
}

/* ---- Running with other bits ---- */

/* What is put in the place of undefined bits. */
static const uint64_t patterns[] = {0,
                                    UINT64_MAX,
                                    UINT64_C(0x5555555555555555),
                                    UINT64_C(0xAAAAAAAAAAAAAAAA),
                                    UINT64_C(0x0123456789ABCDEF),
                                    UINT64_C(0x7F7F3FF0807FC000)};
enum { PATTERNS = sizeof patterns / sizeof patterns[0] };

/* The rows of an instruction's operands. */
typedef uint8_t rows_t[MAX_OPERANDS][ROW_BYTES];

static void save(const moe__emu_warp_t *warp, const moe__emu_operand_t *operands, int count,
                 rows_t rows) {
  for (int i = 0; i < count; i++)
    memcpy(rows[i], moe__emu_row(warp, &operands[i]), row_bytes(&operands[i]));
}

/* Gives a source other bits where they are undefined. */
static void replace(moe__emu_warp_t *warp, const moe__emu_operand_t *operand, const uint8_t *saved,
                    uint64_t pattern) {
  uint8_t *row = moe__emu_row(warp, operand);
  memcpy(row, saved, row_bytes(operand));
  if (!warp->shadows[operand->shadow].poisoned)
    return;
  size_t width = operand->bytes >= 8 ? 8 : 4;
  for (uint32_t lane = 0; lane < MOE__EMU_LANES; lane++) {
    uint64_t bits = moe__emu_poison_of(warp, operand, lane), value = 0;
    if (!bits)
      continue;
    if (operand->bytes == 1) {
      uint32_t mask;
      memcpy(&mask, row, sizeof mask);
      mask = (mask & ~(1U << lane)) | (uint32_t)(pattern & 1) << lane;
      memcpy(row, &mask, sizeof mask);
    } else {
      memcpy(&value, row + lane * width, width);
      value = (value & ~bits) | (pattern & bits);
      memcpy(row + lane * width, &value, width);
    }
  }
}

moe__emu_step_t moe__emu_execute_poisoned(moe__emu_warp_t *warp,
                                          const moe__emu_instruction_t *instruction,
                                          uint32_t active) {
  const moe__emu_operand_t *operands = moe__emu_operand(warp->kernel, instruction, 0);
  int results = instruction->result_count, count = instruction->operand_count;
  if (count > MAX_OPERANDS)
    return instruction->execute(warp, instruction, active);
  rows_t before, after;
  moe__emu_shadow_t shadows[MAX_OPERANDS];
  uint64_t undefined[MAX_OPERANDS][MOE__EMU_LANES];
  memset(undefined, 0, sizeof undefined);
  save(warp, operands, count, before);
  for (int i = 0; i < count; i++)
    shadows[i] = warp->shadows[operands[i].shadow];
  for (int p = 0; p <= PATTERNS; p++) {
    /* The last time with the bits that are there. */
    for (int i = 0; i < count; i++) {
      warp->shadows[operands[i].shadow] = shadows[i];
      replace(warp, &operands[i], before[i], 0);
      if (p < PATTERNS)
        replace(warp, &operands[i], before[i], patterns[p]);
      else
        memcpy(moe__emu_row(warp, &operands[i]), before[i], row_bytes(&operands[i]));
    }
    for (int i = results; i < count; i++)
      warp->shadows[operands[i].shadow].initialized |= shadows[i].poisoned;
    if (instruction->execute(warp, instruction, active) != MOE__EMU_ADVANCE)
      return MOE__EMU_FAILED;
    for (int i = 0; i < results; i++) {
      const uint8_t *row = moe__emu_row(warp, &operands[i]);
      MOE__EMU_FOR_LANES(lane, p ? active : 0)
      undefined[i][lane] |=
          value_in(row, &operands[i], lane) ^ value_in(after[i], &operands[i], lane);
    }
    save(warp, operands, results, after);
  }
  for (int i = results; i < count; i++) {
    warp->shadows[operands[i].shadow].initialized = shadows[i].initialized;
    warp->shadows[operands[i].shadow].poisoned = shadows[i].poisoned;
  }
  for (int i = 0; i < results; i++) {
    moe__emu_written(warp, &operands[i], active);
    MOE__EMU_FOR_LANES(lane, active) {
      if (!moe__emu_poison(warp, &operands[i], lane, undefined[i][lane]))
        return MOE__EMU_FAILED;
    }
  }
  return MOE__EMU_ADVANCE;
}
