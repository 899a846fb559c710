/* Cluster.c - the cluster's barrier, and access to the shared memory of other CTAs: addresses, and
 * stores that complete on an mbarrier.
 *
 * Why it exists: see Cluster.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Emulator/Instructions/Cluster.h"

#include "lib/Emulator/Instructions/Lanes.h"
#include "lib/Emulator/Instructions/Mbarrier.h"
#include "lib/Emulator/Machine/Address.h"
#include "lib/Emulator/Machine/Registers.h"
#include "lib/Emulator/Machine/Report.h"
#include "lib/Emulator/Machine/Residence.h"
#include "lib/Emulator/Ptx/Opcodes.h"

#include <inttypes.h>
#include <string.h>

void moe__emu_cluster_reset(moe__emu_cluster_t *cluster) {
  uint32_t ctas = cluster->machine->cluster_size, threads = cluster->machine->thread_count;
  cluster->barrier = (moe__emu_cluster_barrier_t){.alive = ctas * threads};
  for (uint32_t r = 0; r < ctas; r++) {
    /* A CTA alone is reached by no other. */
    if (ctas > 1)
      memset(&cluster->ctas[r].residence, 0, sizeof cluster->ctas[r].residence);
    cluster->ctas[r].residence.alive = threads;
  }
}

/* ---- The barrier ---- */

static void try_complete(moe__emu_cluster_t *cluster) {
  moe__emu_cluster_barrier_t *barrier = &cluster->barrier;
  if (barrier->arrived == 0 || barrier->arrived != barrier->alive)
    return;
  moe__emu_view_move(&cluster->order, &barrier->completed, &barrier->gathered);
  barrier->generation++;
  barrier->arrived = 0;
  cluster->events++;
}

static bool check_aligned(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                          uint32_t active) {
  if (instruction->choice[1] == 0 || active == warp->alive)
    return true;
  moe__emu_fault(warp, instruction, moe__emu_first_lane(active),
                 "executed by lanes 0x%08x of the warp's 0x%08x: all must come together", active,
                 warp->alive);
  return false;
}

enum { ARRIVE_RELAXED = 2 };

static moe__emu_step_t arrive(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                              uint32_t active) {
  moe__emu_cta_t *cta = warp->cta;
  moe__emu_cluster_barrier_t *barrier = &cta->cluster->barrier;
  uint32_t again = active & (warp->came[0] | warp->came[1]);
  if (!check_aligned(warp, instruction, active))
    return MOE__EMU_FAILED;
  if (again)
    return moe__emu_fault(warp, instruction, moe__emu_first_lane(again),
                          "comes to the cluster's barrier a second time without a wait");
  if (instruction->choice[0] == ARRIVE_RELAXED) {
    /* Says that the CTA has begun, and no more. */
    uint32_t *done = &barrier->gathered.done[warp->agent];
    *done = *done ? *done : 1;
  } else {
    moe__emu_order_sync(cta->order, warp->agent, active, warp->alive);
    moe__emu_order_release(cta->order, warp->agent, active, warp->alive, &barrier->gathered);
  }
  moe__emu_mbarriers_announce(cta, warp->agent);
  warp->came[barrier->generation & 1] |= active;
  barrier->arrived += (uint32_t)__builtin_popcount(active);
  try_complete(cta->cluster);
  return MOE__EMU_ADVANCE;
}

static moe__emu_step_t wait(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                            uint32_t active) {
  moe__emu_cta_t *cta = warp->cta;
  const moe__emu_cluster_barrier_t *barrier = &cta->cluster->barrier;
  uint32_t missing = active & ~(warp->came[0] | warp->came[1]);
  if (!check_aligned(warp, instruction, active))
    return MOE__EMU_FAILED;
  if (missing)
    return moe__emu_fault(warp, instruction, moe__emu_first_lane(missing),
                          "waits at the cluster's barrier without having arrived");
  if (active & warp->came[barrier->generation & 1])
    return MOE__EMU_BLOCKED;
  warp->came[~barrier->generation & 1] &= ~active;
  moe__emu_order_acquire(cta->order, warp->agent, active, warp->alive, &barrier->completed);
  return MOE__EMU_ADVANCE;
}

/* ---- The end ---- */

moe__emu_step_t moe__emu_cluster_exit(moe__emu_warp_t *warp,
                                      const moe__emu_instruction_t *instruction, uint32_t lanes) {
  moe__emu_cta_t *cta = warp->cta;
  moe__emu_cluster_barrier_t *barrier = &cta->cluster->barrier;
  moe__emu_residence_t *residence = &cta->residence;
  const moe__emu_order_t *order = cta->order;
  residence->alive -= (uint32_t)__builtin_popcount(lanes);
  barrier->alive -= (uint32_t)__builtin_popcount(lanes);
  barrier->arrived -= (uint32_t)__builtin_popcount(lanes & warp->came[barrier->generation & 1]);
  try_complete(cta->cluster);
  if (cta->machine->cluster_size == 1)
    return MOE__EMU_ADVANCE;
  MOE__EMU_FOR_LANES(lane, lanes)
  moe__emu_view_join(order, &residence->left, moe__emu_order_view(order, warp->agent, lane));
  if (residence->alive || !order->enabled)
    return MOE__EMU_ADVANCE;
  for (uint32_t agent = 0; agent < order->agent_count; agent++) {
    if (residence->touched[agent] <= residence->left.done[agent])
      continue;
    char who[160];
    moe__emu_describe_event(cta, MOE__EMU_EVENT(agent, residence->touched[agent]), who, sizeof who);
    return moe__emu_fault(warp, instruction, -1,
                          "the CTA exits while its shared memory may still be touched by %s", who);
  }
  return MOE__EMU_ADVANCE;
}

/* ---- mapa ---- */

enum { MAPA_GENERIC = 0, MAPA_32 = 0 };

static moe__emu_step_t map_address(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                                   uint32_t active) {
  const moe__emu_operand_t *operands = moe__emu_operand(warp->kernel, instruction, 0);
  uint64_t window = instruction->choice[0] == MAPA_GENERIC ? MOE__EMU_SHARED_WINDOW : 0;
  uint32_t ctas = warp->cta->machine->cluster_size;
  if (moe__emu_check_operands(warp, instruction, active) == MOE__EMU_FAILED)
    return MOE__EMU_FAILED;
  MOE__EMU_FOR_LANES(lane, active) {
    uint64_t address = moe__emu_lane_value(warp, &operands[1], (int)lane) - window;
    uint32_t rank = (uint32_t)moe__emu_lane_value(warp, &operands[2], (int)lane);
    if (rank >= ctas)
      return moe__emu_fault(warp, instruction, (int)lane,
                            "the cluster has no CTA of rank %u; it has %u", rank, ctas);
    if (address >> MOE__EMU_RANK_SHIFT >= ctas)
      return moe__emu_fault(warp, instruction, (int)lane,
                            "0x%" PRIx64 " is no address of shared memory", address);
    address &= (UINT64_C(1) << MOE__EMU_RANK_SHIFT) - 1;
    moe__emu_set_lane(warp, operands, (int)lane,
                      window + moe__emu_cluster_address(rank, (uint32_t)address));
  }
  return MOE__EMU_ADVANCE;
}

static bool verify_map(const moe__emu_kernel_t *kernel, const moe__emu_instruction_t *instruction,
                       moe__emu_error_t *error) {
  (void)kernel;
  return instruction->choice[0] != MAPA_GENERIC || instruction->choice[1] != MAPA_32 ||
         moe__emu_error(error, "generic addresses have 64 bits");
}

/* ---- st.async ---- */

enum { ASYNC_VECTOR = 1, ASYNC_TYPE = 2 };

static uint32_t async_element_bytes(const moe__emu_instruction_t *instruction) {
  return instruction->choice[ASYNC_TYPE] % 2 ? 8 : 4; /* the types take turns */
}

static uint32_t async_count(const moe__emu_instruction_t *instruction) {
  return moe__emu_vector_length(instruction->choice[ASYNC_VECTOR]);
}

/* The bytes arrive, and the mbarrier hears of them. */
static bool finish_store(moe__emu_cta_t *cta, moe__emu_task_t *task) {
  moe__emu_error_t why;
  memcpy(cta->shared + (task->shared - MOE__EMU_SHARED_BASE), task->value, task->bytes);
  if (moe__emu_mbarrier_land(&cta->mbarriers->list[task->mbarrier], task->phase, task->bytes, &why))
    return true;
  moe__emu_fault(task->warp, task->instruction, task->lane, "%s", why.text);
  return false;
}

static bool start_store(moe__emu_task_t *task, uint64_t address, uint64_t mbarrier) {
  moe__emu_warp_t *warp = task->warp;
  moe__emu_event_t as;
  task->run = finish_store;
  task->target = moe__emu_shared_find(warp, task->instruction, task->lane, address, task->bytes,
                                      task->bytes, &task->shared);
  if (!task->target || !moe__emu_mbarrier_complete_on(task, mbarrier, &as))
    return false;
  moe__emu_access_t access = moe__emu_access_begin(warp->cta->order, warp->agent, 1U << task->lane,
                                                   MOE__EMU_ASYNC_WRITE, as);
  if (moe__emu_access_bytes(&access, 1U << task->lane,
                            moe__emu_order_address(task->target, task->shared), task->bytes, NULL))
    return moe__emu_async_add(task->target, task);
  moe__emu_fault_order(warp, task->instruction, task->lane, "the asynchronous store",
                       &access.finding);
  return false;
}

static moe__emu_step_t store_async(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                                   uint32_t active) {
  const moe__emu_operand_t *operands = moe__emu_operand(warp->kernel, instruction, 0);
  uint32_t count = async_count(instruction), bytes = async_element_bytes(instruction);
  if (moe__emu_check_operands(warp, instruction, active) == MOE__EMU_FAILED)
    return MOE__EMU_FAILED;
  MOE__EMU_FOR_LANES(lane, active) {
    moe__emu_task_t task = {
        .warp = warp, .instruction = instruction, .lane = (int)lane, .bytes = count * bytes};
    for (uint32_t i = 0; i < count; i++) {
      uint64_t value = moe__emu_lane_value(warp, &operands[1 + i], (int)lane);
      memcpy((uint8_t *)task.value + (size_t)i * bytes, &value, bytes);
    }
    if (!start_store(&task, moe__emu_lane_address(warp, &operands[0], (int)lane),
                     moe__emu_lane_address(warp, &operands[1 + count], (int)lane)))
      return MOE__EMU_FAILED;
  }
  return MOE__EMU_ADVANCE;
}

static bool verify_store(const moe__emu_kernel_t *kernel, const moe__emu_instruction_t *instruction,
                         moe__emu_error_t *error) {
  (void)kernel;
  return async_count(instruction) * async_element_bytes(instruction) <= 16 ||
         moe__emu_error(error, "a lane can store 16 bytes at most");
}

const moe__emu_opcode_t moe__emu_cluster_opcodes[] = {
    MOE__EMU_EXECUTE("barrier.cluster.arrive[.release|.relaxed][.aligned]", "", arrive),
    MOE__EMU_EXECUTE("barrier.cluster.wait[.acquire][.aligned]", "", wait),
    MOE__EMU_VERIFIED("mapa[.shared::cluster]{.u32|.u64}", "E1e1r", map_address, verify_map),
    MOE__EMU_VERIFIED("st.async[.weak].shared::cluster.mbarrier::complete_tx::bytes[.v2|.v4]"
                      "{.b32|.b64|.u32|.u64|.s32|.s64|.f32|.f64}",
                      "av2a", store_async, verify_store),
    MOE__EMU_END_OF_TABLE,
};
