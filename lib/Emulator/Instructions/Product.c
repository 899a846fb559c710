/* Product.c - mma.sync: the product of one warp, with all operands in registers.
 *
 * Why it exists: it is done when the next instruction begins, so that it has none of the rules of
 * wgmma (Matrix.c). Its layouts and sums are those of a wgmma of 8 columns, for 16 rows: lane 4 * c
 * + t has, of B's column c, the elements k = 2 * t and the next, and those 8 further.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Emulator/Instructions/Lanes.h"
#include "lib/Emulator/Machine/Registers.h"
#include "lib/Emulator/Machine/Report.h"
#include "lib/Emulator/Machine/Wgmma.h"
#include "lib/Emulator/Ptx/Opcodes.h"

#include <string.h>

enum { ROWS = 16, COLUMNS = 8, DEPTH = 16 };
enum { A_REGISTERS = MOE__EMU_WGMMA_A_REGISTERS, B_REGISTERS = 2, D_REGISTERS = 4 };
/* By number of operand. */
enum { D = 0, A = D_REGISTERS, B = A + A_REGISTERS, C = B + B_REGISTERS, ALL = C + D_REGISTERS };

static bool verify(const moe__emu_kernel_t *kernel, const moe__emu_instruction_t *instruction,
                   moe__emu_error_t *error) {
  (void)kernel;
  if (instruction->choice[0] != instruction->choice[1])
    return moe__emu_error(error, "A and B have different types");
  return (instruction->result_count == D_REGISTERS && instruction->operand_count == ALL) ||
         moe__emu_error(error, "%d registers of D and %d operands; %d and %d are taken",
                        instruction->result_count, instruction->operand_count, D_REGISTERS, ALL);
}

static uint32_t value_of(const moe__emu_warp_t *warp, const moe__emu_operand_t *operand, int lane) {
  return (uint32_t)moe__emu_lane_value(warp, operand, lane);
}

static void gather_a(const moe__emu_warp_t *warp, const moe__emu_operand_t *operands,
                     moe__emu_wgmma_type_t type, float *a) {
  for (int lane = 0; lane < MOE__EMU_LANES; lane++) {
    uint32_t registers[A_REGISTERS];
    for (int i = 0; i < A_REGISTERS; i++)
      registers[i] = value_of(warp, &operands[A + i], lane);
    moe__emu_wgmma_unpack_registers(type, lane, registers, a);
  }
}

/* B^T has the layout of A, of whose rows it has the upper 8. */
static void gather_b(const moe__emu_warp_t *warp, const moe__emu_operand_t *operands,
                     moe__emu_wgmma_type_t type, float *b) {
  float transposed[ROWS * DEPTH];
  for (int lane = 0; lane < MOE__EMU_LANES; lane++) {
    const uint32_t registers[A_REGISTERS] = {value_of(warp, &operands[B], lane), 0,
                                             value_of(warp, &operands[B + 1], lane), 0};
    moe__emu_wgmma_unpack_registers(type, lane, registers, transposed);
  }
  for (int k = 0; k < DEPTH; k++)
    for (int column = 0; column < COLUMNS; column++)
      b[k * COLUMNS + column] = transposed[column * DEPTH + k];
}

static moe__emu_step_t product(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                               uint32_t active) {
  const moe__emu_operand_t *operands = moe__emu_operand(warp->kernel, instruction, 0);
  float a[ROWS * DEPTH], b[DEPTH * COLUMNS], d[ROWS * COLUMNS];
  if (moe__emu_check_operands(warp, instruction, active) == MOE__EMU_FAILED)
    return MOE__EMU_FAILED;
  if (active != UINT32_MAX)
    return moe__emu_fault(warp, instruction, -1,
                          "executed by lanes 0x%08x: all 32 must come together", active);
  const moe__emu_wgmma_type_t type =
      instruction->choice[0] ? MOE__EMU_WGMMA_F16 : MOE__EMU_WGMMA_BF16;
  const moe__emu_wgmma_shape_t shape = {.a = type, .b = type, .n = COLUMNS, .k = DEPTH};
  gather_a(warp, operands, type, a);
  gather_b(warp, operands, type, b);
  for (int lane = 0; lane < MOE__EMU_LANES; lane++) {
    for (int i = 0; i < D_REGISTERS; i++) {
      int row = 0, column = 0;
      uint32_t bits = value_of(warp, &operands[C + i], lane);
      moe__emu_wgmma_d_element(lane, i, &row, &column);
      memcpy(&d[row * COLUMNS + column], &bits, sizeof bits);
    }
  }
  moe__emu_wgmma_multiply(&shape, ROWS, a, b, true, 1, 1, d);
  for (int lane = 0; lane < MOE__EMU_LANES; lane++) {
    for (int i = 0; i < D_REGISTERS; i++) {
      int row = 0, column = 0;
      uint32_t bits = 0;
      moe__emu_wgmma_d_element(lane, i, &row, &column);
      memcpy(&bits, &d[row * COLUMNS + column], sizeof bits);
      moe__emu_set_lane(warp, &operands[D + i], lane, bits);
    }
  }
  return MOE__EMU_ADVANCE;
}

const moe__emu_opcode_t moe__emu_product_opcodes[] = {
    MOE__EMU_VERIFIED("mma.sync.aligned.m16n8k16.row.col.f32{.bf16|.f16}{.bf16|.f16}.f32", "Gggg",
                      product, verify),
    MOE__EMU_END_OF_TABLE,
};
