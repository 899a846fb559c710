/* Control.c - branches, the end, and hints.
 *
 * Why it exists: what moves lanes about, and what has no effect that a CPU could show.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Emulator/Checks/Order.h"
#include "lib/Emulator/Instructions/Bulk.h"
#include "lib/Emulator/Instructions/Cluster.h"
#include "lib/Emulator/Instructions/Lanes.h"
#include "lib/Emulator/Instructions/Matrix.h"
#include "lib/Emulator/Instructions/Mbarrier.h"
#include "lib/Emulator/Machine/Address.h"
#include "lib/Emulator/Machine/Registers.h"
#include "lib/Emulator/Machine/Report.h"
#include "lib/Emulator/Machine/Warp.h"
#include "lib/Emulator/Ptx/Opcodes.h"

static moe__emu_step_t branch(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                              uint32_t active) {
  uint32_t lanes = warp->split->lanes;
  if (instruction->is_uniform && active && active != lanes)
    return moe__emu_fault(warp, instruction, moe__emu_first_lane(active),
                          "a uniform branch that lanes 0x%08x take and lanes 0x%08x do not", active,
                          lanes & ~active);
  return moe__emu_warp_branch(warp, instruction, active);
}

static moe__emu_step_t leave(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                             uint32_t active) {
  if (moe__emu_bulk_exit(warp, instruction, active) == MOE__EMU_FAILED)
    return MOE__EMU_FAILED;
  if (!(warp->alive & ~active) && moe__emu_matrix_exit(warp, instruction) == MOE__EMU_FAILED)
    return MOE__EMU_FAILED;
  if (moe__emu_cluster_exit(warp, instruction, active) == MOE__EMU_FAILED)
    return MOE__EMU_FAILED;
  if (!warp->cta->residence.alive && moe__emu_mbarriers_exit(warp, instruction) == MOE__EMU_FAILED)
    return MOE__EMU_FAILED;
  return moe__emu_warp_exit(warp, active);
}

static moe__emu_step_t trap(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                            uint32_t active) {
  return moe__emu_fault(warp, instruction, moe__emu_first_lane(active), "the kernel gave up");
}

static moe__emu_step_t nothing(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                               uint32_t active) {
  return moe__emu_check_operands(warp, instruction, active);
}

/* Launches run one after the other here; whether a thread waits where it must is a check. */
static moe__emu_step_t wait_grid(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                                 uint32_t active) {
  (void)instruction;
  atomic_store(&warp->cta->machine->has_waited, true);
  moe__emu_order_wait_launches(warp->cta->order, warp->agent, active, warp->alive);
  return MOE__EMU_ADVANCE;
}

/* The next launch, which waits for this one, takes what launches before this one use for settled.
 */
static moe__emu_step_t let_next_launch(moe__emu_warp_t *warp,
                                       const moe__emu_instruction_t *instruction, uint32_t active) {
  for (uint32_t lanes = active; warp->cta->machine->global.has_pending && lanes;
       lanes &= lanes - 1) {
    int lane = moe__emu_first_lane(lanes);
    if (!moe__emu_order_view(warp->cta->order, warp->agent, (uint32_t)lane)->has_waited)
      return moe__emu_fault(warp, instruction, lane,
                            "lets the next launch begin before it knows that a thread of its CTA "
                            "has come back from griddepcontrol.wait");
  }
  return MOE__EMU_ADVANCE;
}

static moe__emu_step_t fence_memory(moe__emu_warp_t *warp,
                                    const moe__emu_instruction_t *instruction, uint32_t active,
                                    moe__emu_scope_t scope, bool is_sc) {
  moe__emu_races_t *races = warp->cta->machine->races;
  if (races) {
    moe__emu_toucher_t toucher =
        moe__emu_toucher(warp, instruction, moe__emu_first_lane(active), scope);
    moe__emu_races_fence(races, &toucher, active, is_sc);
  }
  return MOE__EMU_ADVANCE;
}

enum { FENCE_SC = 1 }; /* choice 0 */

static moe__emu_step_t fence(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                             uint32_t active) {
  static const moe__emu_scope_t scopes[] = {MOE__EMU_CTA, MOE__EMU_CLUSTER, MOE__EMU_GPU,
                                            MOE__EMU_GPU};
  return fence_memory(warp, instruction, active, scopes[instruction->choice[1]],
                      instruction->choice[0] == FENCE_SC);
}

/* membar is fence.sc. */
static moe__emu_step_t membar(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                              uint32_t active) {
  static const moe__emu_scope_t scopes[] = {MOE__EMU_CTA, MOE__EMU_GPU, MOE__EMU_GPU};
  return fence_memory(warp, instruction, active, scopes[instruction->choice[0]], true);
}

static moe__emu_step_t sleep(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                             uint32_t active) {
  return moe__emu_check_operands(warp, instruction, active) == MOE__EMU_FAILED ? MOE__EMU_FAILED
                                                                               : MOE__EMU_YIELD;
}

/* Registers move between the warps of a CTA: what one gives up, another may take. */
static moe__emu_step_t give_registers(moe__emu_warp_t *warp,
                                      const moe__emu_instruction_t *instruction, uint32_t active) {
  moe__emu_cta_t *cta = warp->cta;
  uint32_t wanted = (uint32_t)moe__emu_operand(warp->kernel, instruction, 0)->addend;
  bool is_increase = instruction->choice[0] == 0;
  if (active != warp->alive || warp->alive != warp->first_lanes)
    return moe__emu_fault(warp, instruction, moe__emu_first_lane(active),
                          "executed by a part of the warp's lanes");
  if (cta->machine->register_pool == 0)
    return moe__emu_fault(warp, instruction, -1,
                          "the kernel fixes no number of registers: it needs .maxnreg, or .maxntid "
                          "with .minnctapersm");
  if (is_increase != (wanted >= warp->registers) && wanted != warp->registers)
    return moe__emu_fault(warp, instruction, -1, "the warp has %u registers a thread, not %s %u",
                          warp->registers, is_increase ? "at most" : "at least", wanted);
  if (is_increase && cta->registers_used - warp->registers + wanted > cta->machine->register_pool)
    return MOE__EMU_BLOCKED;
  if (!moe__emu_warpgroup_execute(warp, instruction))
    return MOE__EMU_FAILED;
  cta->registers_used = cta->registers_used - warp->registers + wanted;
  warp->registers = wanted;
  cta->cluster->events++;
  return MOE__EMU_ADVANCE;
}

static bool verify_registers(const moe__emu_kernel_t *kernel,
                             const moe__emu_instruction_t *instruction, moe__emu_error_t *error) {
  int32_t registers = moe__emu_operand(kernel, instruction, 0)->addend;
  if (registers >= 24 && registers <= 256 && registers % 8 == 0)
    return true;
  return moe__emu_error(error, "%d registers; a multiple of 8 from 24 to 256 is taken", registers);
}

const moe__emu_opcode_t moe__emu_control_opcodes[] = {
    {"bra", "b", branch, NULL, MOE__EMU_BRANCH, NULL},
    {"bra.uni", "b", branch, NULL, MOE__EMU_BRANCH | MOE__EMU_UNIFORM, NULL},
    {"ret[.uni]", "", leave, NULL, MOE__EMU_EXIT, NULL},
    {"exit", "", leave, NULL, MOE__EMU_EXIT, NULL},
    MOE__EMU_EXECUTE("trap", "", trap),
    MOE__EMU_EXECUTE("nanosleep.u32", "r", sleep),
    MOE__EMU_EXECUTE("prefetch[.param|.const].tensormap", "a", nothing),
    MOE__EMU_EXECUTE("prefetch.global{.L1|.L2}", "a", nothing),
    MOE__EMU_EXECUTE("griddepcontrol.wait", "", wait_grid),
    MOE__EMU_EXECUTE("griddepcontrol.launch_dependents", "", let_next_launch),
    MOE__EMU_VERIFIED("setmaxnreg{.inc|.dec}.sync.aligned.u32", "n", give_registers,
                      verify_registers),
    MOE__EMU_EXECUTE("membar{.cta|.gl|.sys}", "", membar),
    MOE__EMU_EXECUTE("fence[.sc|.acq_rel]{.cta|.cluster|.gpu|.sys}", "", fence),
    MOE__EMU_END_OF_TABLE,
};
