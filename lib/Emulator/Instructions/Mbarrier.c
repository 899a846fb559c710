/* Mbarrier.c - mbarriers: phases, arrivals and bytes.
 *
 * Why it exists: most of what goes wrong in a pipelined kernel goes wrong here: a parity, a count,
 * a number of bytes. Each has a message.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Emulator/Instructions/Mbarrier.h"

#include "lib/Emulator/Instructions/Lanes.h"
#include "lib/Emulator/Machine/Address.h"
#include "lib/Emulator/Machine/Random.h"
#include "lib/Emulator/Machine/Registers.h"
#include "lib/Emulator/Machine/Report.h"
#include "lib/Emulator/Machine/Residence.h"
#include "lib/Emulator/Ptx/Opcodes.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 8, MAX_COUNT = (1 << 20) - 1 };

/* ---- State ---- */

bool moe__emu_mbarriers_create(moe__emu_cta_t *cta) {
  cta->mbarriers = calloc(1, sizeof *cta->mbarriers);
  return cta->mbarriers != NULL;
}

void moe__emu_mbarriers_free(moe__emu_cta_t *cta) {
  if (cta->mbarriers)
    free(cta->mbarriers->list);
  free(cta->mbarriers);
  cta->mbarriers = NULL;
}

void moe__emu_mbarriers_reset(moe__emu_cta_t *cta) {
  cta->mbarriers->count = 0;
}

bool moe__emu_mbarriers_end(moe__emu_cta_t *cta) {
  for (uint32_t i = 0; i < cta->mbarriers->count; i++) {
    const moe__emu_mbarrier_t *mbarrier = &cta->mbarriers->list[i];
    if (mbarrier->address && mbarrier->bytes) {
      moe__emu_fault_cta(cta, MOE_EMU_FAULT,
                         "the CTA ends while the mbarrier at shared address 0x%x has announced "
                         "%d bytes that have not landed",
                         mbarrier->address, mbarrier->bytes);
      return false;
    }
  }
  return true;
}

moe__emu_step_t moe__emu_mbarriers_exit(moe__emu_warp_t *warp,
                                        const moe__emu_instruction_t *instruction) {
  const moe__emu_mbarriers_t *barriers = warp->cta->mbarriers;
  for (uint32_t i = 0; i < barriers->count; i++) {
    const moe__emu_mbarrier_t *mbarrier = &barriers->list[i];
    if (mbarrier->loaded > mbarrier->heard)
      return moe__emu_fault(warp, instruction, -1,
                            "the CTA exits while bulk loads may still write its shared memory: "
                            "nobody has waited for phase %u of the mbarrier at shared address "
                            "0x%x, which those of line %u complete on",
                            mbarrier->loaded - 1, mbarrier->address, mbarrier->loaded_line);
  }
  return MOE__EMU_ADVANCE;
}

moe__emu_mbarrier_t *moe__emu_mbarrier_at(moe__emu_cta_t *cta, uint64_t address) {
  moe__emu_mbarriers_t *barriers = cta->mbarriers;
  for (uint32_t i = 0; i < barriers->count; i++) {
    if (barriers->list[i].address == address && address)
      return &barriers->list[i];
  }
  return NULL;
}

/* ---- Parities ----
 *
 * A parity tells a phase from the ones next to it alone. So a wait is for the phase that comes
 * after those that the thread knows to be complete, or for the last of them; and the phase after
 * that one may be complete only when the wait is known to have come back. */

static uint32_t known_phases(const moe__emu_warp_t *warp, const moe__emu_mbarrier_t *mbarrier,
                             uint32_t lane) {
  return moe__emu_order_view(warp->cta->order, warp->agent, lane)->done[mbarrier->agent];
}

/* How many phases are complete when the wait of a lane is meant to come back. */
static uint32_t awaited_phases(const moe__emu_warp_t *warp, const moe__emu_mbarrier_t *mbarrier,
                               uint32_t lane, uint32_t parity) {
  uint32_t known = known_phases(warp, mbarrier, lane);
  return known + ((known & 1) == parity);
}

/* Notes that the wait of a lane comes back. */
static void note_wait(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                      const moe__emu_mbarrier_t *mbarrier, uint32_t phases) {
  uint32_t i = 0;
  while (i < warp->waited_count && warp->waited[i].agent != mbarrier->agent)
    i++;
  if (i == MOE__EMU_MAX_WAITED)
    return;
  if (i == warp->waited_count)
    warp->waited[warp->waited_count++] = (moe__emu_waited_t){.agent = mbarrier->agent};
  if (warp->waited[i].phases <= phases)
    warp->waited[i] = (moe__emu_waited_t){
        mbarrier->agent, phases, warp->cta->order->warps[warp->agent].clock, instruction->line};
}

/* Up to which clock the work of any lane of a warp is known. */
static uint32_t known_clock(const moe__emu_view_t *view, uint32_t agent) {
  uint32_t clock = view->done[agent];
  for (uint32_t i = 0; i < view->extra_count; i++) {
    if (view->extras[i].agent == agent && view->extras[i].done > clock)
      clock = view->extras[i].done;
  }
  return clock;
}

/* Whether all waits for the phase before the one that completes are known to have come back. */
static bool check_waits(const moe__emu_mbarrier_t *mbarrier, moe__emu_error_t *error) {
  const moe__emu_cta_t *cta = mbarrier->cta;
  for (uint32_t w = 0; cta->order->enabled && w < cta->machine->warp_count; w++) {
    const moe__emu_warp_t *warp = &cta->warps[w];
    for (uint32_t i = 0; i < warp->waited_count; i++) {
      const moe__emu_waited_t *waited = &warp->waited[i];
      if (waited->agent != mbarrier->agent || waited->phases != mbarrier->phase ||
          known_clock(&mbarrier->gathered, warp->agent) >= waited->clock)
        continue;
      return moe__emu_error(error,
                            "phase %u of the mbarrier at shared address 0x%x is complete while "
                            "warp %u may still wait for the one before, at line %u: phases two "
                            "apart have the same parity",
                            mbarrier->phase, mbarrier->address, w, waited->line);
    }
  }
  return true;
}

static bool try_complete(moe__emu_mbarrier_t *mbarrier, moe__emu_error_t *error) {
  moe__emu_cluster_t *cluster = mbarrier->cta->cluster;
  if (mbarrier->pending || mbarrier->bytes)
    return true;
  if (!check_waits(mbarrier, error))
    return false;
  mbarrier->phase++;
  mbarrier->pending = mbarrier->count;
  moe__emu_view_move(&cluster->order, &mbarrier->completed, &mbarrier->gathered);
  mbarrier->completed.done[mbarrier->agent] =
      mbarrier->phase < MOE__EMU_MAX_CLOCK ? mbarrier->phase : MOE__EMU_MAX_CLOCK;
  cluster->events++;
  return true;
}

bool moe__emu_mbarrier_land(moe__emu_mbarrier_t *mbarrier, uint32_t phase, uint32_t bytes,
                            moe__emu_error_t *error) {
  if (mbarrier->phase != phase)
    return moe__emu_error(error,
                          "%u bytes land in phase %u of the mbarrier at shared address 0x%x; they "
                          "belong to phase %u, which announced fewer bytes than it got",
                          bytes, mbarrier->phase, mbarrier->address, phase);
  mbarrier->bytes -= (int32_t)bytes;
  if (mbarrier->pending == 0 && mbarrier->bytes < 0)
    return moe__emu_error(error,
                          "%d more bytes land than phase %u of the mbarrier at shared address 0x%x "
                          "has announced",
                          -mbarrier->bytes, phase, mbarrier->address);
  return try_complete(mbarrier, error);
}

void moe__emu_mbarriers_fence(moe__emu_cta_t *cta, uint32_t warp) {
  for (uint32_t i = 0; i < cta->mbarriers->count; i++) {
    moe__emu_mbarrier_t *mbarrier = &cta->mbarriers->list[i];
    mbarrier->is_fenced |= MOE__EMU_EVENT_AGENT(mbarrier->initialized) == warp;
  }
}

void moe__emu_mbarriers_announce(moe__emu_cta_t *cta, uint32_t warp) {
  for (uint32_t i = 0; i < cta->mbarriers->count; i++) {
    moe__emu_mbarrier_t *mbarrier = &cta->mbarriers->list[i];
    mbarrier->is_announced |=
        mbarrier->is_fenced && MOE__EMU_EVENT_AGENT(mbarrier->initialized) == warp;
  }
}

/* ---- Finding one ---- */

/* The shared address that an operand gives; without a state space it is a generic one. */
static uint64_t address_of(const moe__emu_warp_t *warp, const moe__emu_operand_t *operand, int lane,
                           bool is_generic) {
  return moe__emu_lane_address(warp, operand, lane) - (is_generic ? MOE__EMU_SHARED_WINDOW : 0);
}

moe__emu_mbarrier_t *moe__emu_mbarrier_use(moe__emu_warp_t *warp,
                                           const moe__emu_instruction_t *instruction, int lane,
                                           uint64_t address, bool is_cluster) {
  uint32_t at;
  moe__emu_cta_t *cta = warp->cta;
  if (is_cluster)
    cta = moe__emu_shared_find(warp, instruction, lane, address, BYTES, BYTES, &at);
  else if (!moe__emu_shared_offset(warp, instruction, lane, address, BYTES, BYTES, &at))
    cta = NULL;
  if (!cta)
    return NULL;
  moe__emu_mbarrier_t *mbarrier = moe__emu_mbarrier_at(cta, at);
  if (!mbarrier) {
    char where[48];
    moe__emu_fault(warp, instruction, lane, "no mbarrier has been initialized at shared address %s",
                   moe__emu_describe_address(warp, cta, at, where, sizeof where));
    return NULL;
  }
  const moe__emu_order_t *order = warp->cta->order;
  uint32_t agent = MOE__EMU_EVENT_AGENT(mbarrier->initialized);
  const moe__emu_view_t *view = moe__emu_order_view(order, warp->agent, (uint32_t)lane);
  /* It is enough to have heard of its warp at the barrier of the cluster. */
  bool is_announced = mbarrier->is_announced && view->done[agent] > 0;
  if (agent != warp->agent && order->enabled && !is_announced &&
      view->done[agent] < MOE__EMU_EVENT_CLOCK(mbarrier->initialized)) {
    char where[48];
    moe__emu_fault(warp, instruction, lane,
                   "the mbarrier at shared address %s is used without order after its "
                   "initialization by warp %u",
                   moe__emu_describe_address(warp, cta, at, where, sizeof where),
                   order->owners[agent]);
    return NULL;
  }
  return mbarrier;
}

bool moe__emu_mbarrier_complete_on(moe__emu_task_t *task, uint64_t address,
                                   moe__emu_event_t *out_as) {
  moe__emu_warp_t *warp = task->warp;
  moe__emu_cta_t *cta = task->target;
  moe__emu_mbarrier_t *mbarrier =
      moe__emu_mbarrier_use(warp, task->instruction, task->lane, address, true);
  if (!mbarrier)
    return false;
  if (mbarrier->cta != cta) {
    moe__emu_fault(warp, task->instruction, task->lane,
                   "the destination and the mbarrier are of different CTAs");
    return false;
  }
  if (!mbarrier->is_fenced && cta->order->enabled) {
    moe__emu_fault(warp, task->instruction, task->lane,
                   "the initialization of the mbarrier at shared address 0x%x is not "
                   "visible to the async proxy: fence.mbarrier_init is missing",
                   mbarrier->address);
    return false;
  }
  task->mbarrier = (uint32_t)(mbarrier - cta->mbarriers->list);
  task->phase = mbarrier->phase;
  mbarrier->loaded = mbarrier->phase + 1;
  mbarrier->loaded_line = task->instruction->line;
  *out_as = MOE__EMU_EVENT(mbarrier->agent, mbarrier->phase + 1);
  moe__emu_cluster_touch(cta, warp->cta, *out_as);
  return true;
}

/* ---- init and inval ---- */

static bool initialize(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction, int lane,
                       uint64_t address, uint32_t count) {
  moe__emu_cta_t *cta = warp->cta;
  moe__emu_mbarriers_t *barriers = cta->mbarriers;
  uint32_t at;
  if (!moe__emu_shared_offset(warp, instruction, lane, address, BYTES, BYTES, &at))
    return false;
  if (moe__emu_mbarrier_at(cta, address)) {
    moe__emu_fault(warp, instruction, lane,
                   "shared address 0x%x holds an mbarrier already; mbarrier.inval ends it", at);
    return false;
  }
  if (count == 0 || count > MAX_COUNT) {
    moe__emu_fault(warp, instruction, lane, "a count of %u; 1 to %d are legal", count, MAX_COUNT);
    return false;
  }
  moe__emu_access_t access =
      moe__emu_access_begin(cta->order, warp->agent, 1U << lane, MOE__EMU_WRITE, 0);
  if (!moe__emu_access_bytes(&access, 1U << lane, moe__emu_order_address(cta, at), BYTES, NULL)) {
    moe__emu_fault_order(warp, instruction, lane, "the initialization", &access.finding);
    return false;
  }
  if (barriers->count == barriers->capacity) {
    uint32_t capacity = barriers->capacity ? barriers->capacity * 2 : 16;
    moe__emu_mbarrier_t *grown = realloc(barriers->list, capacity * sizeof *grown);
    if (!grown) {
      moe__emu_fault_cta(cta, MOE_EMU_OUT_OF_MEMORY, "out of memory");
      return false;
    }
    barriers->list = grown;
    barriers->capacity = capacity;
  }
  int agent = moe__emu_order_agent(cta->order, MOE__EMU_AGENT_MBARRIER, cta->rank, at);
  if (agent < 0) {
    moe__emu_fault(warp, instruction, lane,
                   "a cluster may have at most %d warps, mbarriers and threads with bulk groups",
                   MOE__EMU_MAX_AGENTS);
    return false;
  }
  moe__emu_mbarrier_t *mbarrier = &barriers->list[barriers->count++];
  memset(mbarrier, 0, sizeof *mbarrier);
  mbarrier->cta = cta;
  mbarrier->address = at;
  mbarrier->count = mbarrier->pending = count;
  mbarrier->agent = (uint32_t)agent;
  mbarrier->initialized = access.as;
  moe__emu_order_object(cta->order, moe__emu_order_address(cta, at), true);
  return true;
}

static moe__emu_step_t init(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                            uint32_t active) {
  const moe__emu_operand_t *operands = moe__emu_operand(warp->kernel, instruction, 0);
  if (moe__emu_check_operands(warp, instruction, active) == MOE__EMU_FAILED)
    return MOE__EMU_FAILED;
  MOE__EMU_FOR_LANES(lane, active) {
    uint64_t address = address_of(warp, &operands[0], (int)lane, !instruction->choice[0]);
    uint32_t count = (uint32_t)moe__emu_lane_value(warp, &operands[1], (int)lane);
    if (!initialize(warp, instruction, (int)lane, address, count))
      return MOE__EMU_FAILED;
  }
  return MOE__EMU_ADVANCE;
}

static moe__emu_step_t inval(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                             uint32_t active) {
  const moe__emu_operand_t *operands = moe__emu_operand(warp->kernel, instruction, 0);
  if (moe__emu_check_operands(warp, instruction, active) == MOE__EMU_FAILED)
    return MOE__EMU_FAILED;
  MOE__EMU_FOR_LANES(lane, active) {
    uint64_t address = address_of(warp, &operands[0], (int)lane, !instruction->choice[0]);
    moe__emu_mbarrier_t *mbarrier =
        moe__emu_mbarrier_use(warp, instruction, (int)lane, address, false);
    if (!mbarrier)
      return MOE__EMU_FAILED;
    if (mbarrier->bytes)
      return moe__emu_fault(warp, instruction, (int)lane,
                            "the mbarrier at shared address 0x%x still waits for %d bytes",
                            mbarrier->address, mbarrier->bytes);
    moe__emu_order_object(warp->cta->order, moe__emu_order_address(warp->cta, mbarrier->address),
                          false);
    mbarrier->address = 0;
  }
  return MOE__EMU_ADVANCE;
}

/* ---- arrive and expect_tx ---- */

static bool expect(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction, int lane,
                   moe__emu_mbarrier_t *mbarrier, uint32_t bytes) {
  int64_t total = (int64_t)mbarrier->bytes + bytes;
  if (total > MAX_COUNT) {
    moe__emu_fault(warp, instruction, lane, "%lld bytes announced in one phase; the limit is %d",
                   (long long)total, MAX_COUNT);
    return false;
  }
  mbarrier->bytes = (int32_t)total;
  return true;
}

static bool arrive(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction, int lane,
                   moe__emu_mbarrier_t *mbarrier, uint32_t count) {
  if (count == 0 || count > mbarrier->pending) {
    moe__emu_fault(
        warp, instruction, lane,
        "%u arrivals in phase %u of the mbarrier at shared address 0x%x, which waits for "
        "%u of its %u",
        count, mbarrier->phase, mbarrier->address, mbarrier->pending, mbarrier->count);
    return false;
  }
  mbarrier->pending -= count;
  if (mbarrier->pending == 0 && mbarrier->bytes < 0) {
    moe__emu_fault(warp, instruction, lane,
                   "%d more bytes have landed than phase %u of the mbarrier at shared address 0x%x "
                   "has announced",
                   -mbarrier->bytes, mbarrier->phase, mbarrier->address);
    return false;
  }
  moe__emu_error_t why;
  if (try_complete(mbarrier, &why))
    return true;
  moe__emu_fault(warp, instruction, lane, "%s", why.text);
  return false;
}

/* The lanes of `rest` that name the same mbarrier as the lowest of them. */
static uint32_t same_address(const moe__emu_warp_t *warp, const moe__emu_operand_t *operand,
                             uint32_t rest) {
  uint64_t address = moe__emu_lane_address(warp, operand, moe__emu_first_lane(rest));
  uint32_t same = 0;
  MOE__EMU_FOR_LANES(lane, rest)
  same |= (uint32_t)(moe__emu_lane_address(warp, operand, (int)lane) == address) << lane;
  return same;
}

/* The state that an arrival gives: the phase, and how many arrivals were to come before it. */
static uint64_t state_of(const moe__emu_mbarrier_t *mbarrier) {
  return mbarrier->phase | (uint64_t)mbarrier->pending << 32;
}

/* What an instruction of this family does. */
enum { ARRIVE = 1, EXPECT = 2, DROP = 4, NO_COMPLETE = 8 };

enum { SCOPE_CTA = 1 };     /* choice 1 */
enum { SPACE_CLUSTER = 3 }; /* choice 2 */

static moe__emu_step_t arrive_all(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                                  uint32_t active, int what) {
  const moe__emu_operand_t *operands = moe__emu_operand(warp->kernel, instruction, 0);
  const moe__emu_operand_t *where = &operands[instruction->result_count];
  bool has_number = instruction->operand_count > instruction->result_count + 1;
  if (moe__emu_check_operands(warp, instruction, active) == MOE__EMU_FAILED)
    return MOE__EMU_FAILED;
  for (uint32_t rest = active, same; rest; rest &= ~same) {
    int first = moe__emu_first_lane(rest);
    same = same_address(warp, where, rest);
    uint64_t address = address_of(warp, where, first, !instruction->choice[2]);
    moe__emu_mbarrier_t *mbarrier = moe__emu_mbarrier_use(warp, instruction, first, address,
                                                          instruction->choice[2] == SPACE_CLUSTER);
    if (!mbarrier)
      return MOE__EMU_FAILED;
    moe__emu_cluster_touch(
        mbarrier->cta, warp->cta,
        MOE__EMU_EVENT(warp->agent,
                       moe__emu_order_own_clock(warp->cta->order, warp->agent, same, warp->alive)));
    /* A scope that has no thread of the mbarrier's CTA hands on nothing. */
    bool is_narrow = instruction->choice[1] == SCOPE_CTA && mbarrier->cta != warp->cta;
    moe__emu_order_warp_t *order = &warp->cta->order->warps[warp->agent];
    order->is_late |= what & ARRIVE && order->has_streamed;
    if (what & ARRIVE && !is_narrow)
      moe__emu_order_release(warp->cta->order, warp->agent, same, warp->alive, &mbarrier->gathered);
    MOE__EMU_FOR_LANES(lane, same) {
      uint32_t number = has_number ? (uint32_t)moe__emu_lane_value(warp, &where[1], (int)lane) : 1;
      if (instruction->result_count)
        moe__emu_set_lane(warp, operands, (int)lane, state_of(mbarrier));
      if (what & EXPECT && !expect(warp, instruction, (int)lane, mbarrier, number))
        return MOE__EMU_FAILED;
      uint32_t arrivals = what & EXPECT ? 1 : number;
      if (what & NO_COMPLETE && arrivals >= mbarrier->pending && !mbarrier->bytes)
        return moe__emu_fault(warp, instruction, (int)lane,
                              "%u arrivals would complete the phase, which waits for %u", arrivals,
                              mbarrier->pending);
      /* Later phases wait for fewer. */
      if (what & DROP)
        mbarrier->count -= arrivals < mbarrier->count ? arrivals : mbarrier->count;
      if (what & ARRIVE && !arrive(warp, instruction, (int)lane, mbarrier, arrivals))
        return MOE__EMU_FAILED;
    }
  }
  return MOE__EMU_ADVANCE;
}

static moe__emu_step_t arrive_only(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                                   uint32_t active) {
  return arrive_all(warp, instruction, active, ARRIVE);
}

static moe__emu_step_t arrive_expect(moe__emu_warp_t *warp,
                                     const moe__emu_instruction_t *instruction, uint32_t active) {
  return arrive_all(warp, instruction, active, ARRIVE | EXPECT);
}

static moe__emu_step_t expect_only(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                                   uint32_t active) {
  return arrive_all(warp, instruction, active, EXPECT);
}

static moe__emu_step_t arrive_drop(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                                   uint32_t active) {
  return arrive_all(warp, instruction, active, ARRIVE | DROP);
}

static moe__emu_step_t arrive_early(moe__emu_warp_t *warp,
                                    const moe__emu_instruction_t *instruction, uint32_t active) {
  return arrive_all(warp, instruction, active, ARRIVE | NO_COMPLETE);
}

/* The state of another CTA's mbarrier cannot be had. */
static bool verify_arrive(const moe__emu_kernel_t *kernel,
                          const moe__emu_instruction_t *instruction, moe__emu_error_t *error) {
  return instruction->choice[2] != SPACE_CLUSTER ||
         moe__emu_operand(kernel, instruction, 0)->shadow == MOE__EMU_SINK_ROW ||
         moe__emu_error(error,
                        "an arrival by an address of the cluster gives no state: _ is taken");
}

/* complete_tx: as if bytes of a load had landed. */
static moe__emu_step_t complete(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                                uint32_t active) {
  const moe__emu_operand_t *operands = moe__emu_operand(warp->kernel, instruction, 0);
  if (moe__emu_check_operands(warp, instruction, active) == MOE__EMU_FAILED)
    return MOE__EMU_FAILED;
  MOE__EMU_FOR_LANES(lane, active) {
    uint32_t bytes = (uint32_t)moe__emu_lane_value(warp, &operands[1], (int)lane);
    moe__emu_mbarrier_t *mbarrier = moe__emu_mbarrier_use(
        warp, instruction, (int)lane,
        address_of(warp, &operands[0], (int)lane, !instruction->choice[0]), false);
    moe__emu_error_t why;
    if (!mbarrier)
      return MOE__EMU_FAILED;
    if (bytes > MAX_COUNT || !moe__emu_mbarrier_land(mbarrier, mbarrier->phase, bytes, &why))
      return moe__emu_fault(warp, instruction, (int)lane, "%s",
                            bytes > MAX_COUNT ? "too many bytes" : why.text);
  }
  return MOE__EMU_ADVANCE;
}

static moe__emu_step_t pending_count(moe__emu_warp_t *warp,
                                     const moe__emu_instruction_t *instruction, uint32_t active) {
  const moe__emu_operand_t *operands = moe__emu_operand(warp->kernel, instruction, 0);
  if (moe__emu_check_operands(warp, instruction, active) == MOE__EMU_FAILED)
    return MOE__EMU_FAILED;
  MOE__EMU_FOR_LANES(lane, active)
  moe__emu_set_lane(warp, operands, (int)lane,
                    moe__emu_lane_value(warp, &operands[1], (int)lane) >> 32);
  return MOE__EMU_ADVANCE;
}

/* ---- test_wait and try_wait ---- */

/* Whether the phase that a lane asks for is over: by its parity, or by the state that an arrival
 * gave, which is the number of the phase. */
static bool is_over(const moe__emu_mbarrier_t *mbarrier, bool is_parity, uint64_t asked) {
  return is_parity ? (mbarrier->phase & 1) != (asked & 1) : mbarrier->phase > (uint32_t)asked;
}

/* Whether the phase could as well be not over yet: nothing that the lanes know says that it is, and
 * they have not tried before. A kernel that does not try again is found so, whatever the schedule.
 */
static bool may_come_later(moe__emu_warp_t *warp, const moe__emu_mbarrier_t *mbarrier,
                           uint32_t lanes) {
  const moe__emu_view_t *view =
      moe__emu_order_view(warp->cta->order, warp->agent, (uint32_t)moe__emu_first_lane(lanes));
  return view->done[mbarrier->agent] < mbarrier->completed.done[mbarrier->agent] &&
         warp->split->failed_pc != warp->split->pc && moe__emu_random(warp->cta, 2) == 0;
}

static moe__emu_step_t wait(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                            uint32_t active, bool may_suspend, bool is_parity) {
  const moe__emu_operand_t *operands = moe__emu_operand(warp->kernel, instruction, 0);
  moe__emu_split_t *split = warp->split;
  if (moe__emu_check_operands(warp, instruction, active) == MOE__EMU_FAILED)
    return MOE__EMU_FAILED;
  uint32_t over = 0, unfinished = 0;
  for (uint32_t rest = active, same; rest; rest &= ~same) {
    int first = moe__emu_first_lane(rest);
    same = same_address(warp, &operands[1], rest);
    uint64_t address = address_of(warp, &operands[1], first, !instruction->choice[2]);
    moe__emu_mbarrier_t *mbarrier = moe__emu_mbarrier_use(warp, instruction, first, address, false);
    if (!mbarrier)
      return MOE__EMU_FAILED;
    uint32_t done = 0, phases[MOE__EMU_LANES];
    /* test_wait asks how things are, and either answer may be wanted; try_wait waits. */
    bool is_checked = is_parity && may_suspend && warp->cta->order->enabled &&
                      mbarrier->phase < MOE__EMU_MAX_CLOCK;
    MOE__EMU_FOR_LANES(lane, same) {
      uint64_t asked = moe__emu_lane_value(warp, &operands[2], (int)lane);
      if (is_parity && asked > 1)
        return moe__emu_fault(warp, instruction, (int)lane, "a parity of %" PRIu64, asked);
      done |= (uint32_t)is_over(mbarrier, is_parity, asked) << lane;
      if (!is_checked)
        continue;
      phases[lane] = awaited_phases(warp, mbarrier, lane, (uint32_t)asked);
      if (mbarrier->phase > phases[lane])
        return moe__emu_fault(
            warp, instruction, (int)lane,
            "waits for parity %u at the mbarrier at shared address 0x%x, of which "
            "it knows %u phases to be complete, and %u are: phases two apart have "
            "the same parity",
            (uint32_t)asked, mbarrier->address, known_phases(warp, mbarrier, lane),
            mbarrier->phase);
    }
    if (done && may_suspend && may_come_later(warp, mbarrier, done))
      done = 0;
    if (done) {
      mbarrier->heard = mbarrier->phase;
      moe__emu_order_acquire(warp->cta->order, warp->agent, done, warp->alive,
                             &mbarrier->completed);
      warp->cta->order->warps[warp->agent].has_streamed = false;
      MOE__EMU_FOR_LANES(lane, is_checked ? done : 0)
      note_wait(warp, instruction, mbarrier, phases[lane]);
    }
    if (done != same)
      unfinished = mbarrier->address ^ mbarrier->phase << 18;
    over |= done;
  }
  /* The first time it may fail, as on hardware, so that a kernel that does not try again is found.
   * Then it waits. */
  bool is_again = split->failed_pc == split->pc && split->failed_phase == unfinished;
  if (over != active && may_suspend && is_again)
    return MOE__EMU_BLOCKED;
  moe__emu_set_predicate(warp, operands, active, over);
  split->failed_pc = over == active ? MOE__EMU_NOWHERE : split->pc;
  split->failed_phase = unfinished;
  return over == active ? MOE__EMU_ADVANCE : MOE__EMU_YIELD;
}

static moe__emu_step_t try_parity(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                                  uint32_t active) {
  return wait(warp, instruction, active, true, true);
}

static moe__emu_step_t try_state(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                                 uint32_t active) {
  return wait(warp, instruction, active, true, false);
}

static moe__emu_step_t test_parity(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                                   uint32_t active) {
  return wait(warp, instruction, active, false, true);
}

static moe__emu_step_t test_state(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                                  uint32_t active) {
  return wait(warp, instruction, active, false, false);
}

#define SHARED "[.shared|.shared::cta]"
#define RELEASE "[.release][.cta|.cluster][.shared|.shared::cta|.shared::cluster]"
#define ACQUIRE "[.acquire][.cta|.cluster][.shared|.shared::cta]"

const moe__emu_opcode_t moe__emu_mbarrier_opcodes[] = {
    MOE__EMU_EXECUTE("mbarrier.init" SHARED ".b64", "ar", init),
    MOE__EMU_EXECUTE("mbarrier.inval" SHARED ".b64", "a", inval),
    MOE__EMU_VERIFIED("mbarrier.arrive" RELEASE ".b64", "La?r", arrive_only, verify_arrive),
    MOE__EMU_VERIFIED("mbarrier.arrive.expect_tx" RELEASE ".b64", "Lar", arrive_expect,
                      verify_arrive),
    MOE__EMU_VERIFIED("mbarrier.arrive_drop" RELEASE ".b64", "La?r", arrive_drop, verify_arrive),
    MOE__EMU_EXECUTE("mbarrier.arrive.noComplete" RELEASE ".b64", "Lar", arrive_early),
    MOE__EMU_EXECUTE("mbarrier.complete_tx" SHARED "[.relaxed][.cta|.cluster].b64", "ar", complete),
    MOE__EMU_EXECUTE("mbarrier.pending_count.b64", "Rl", pending_count),
    MOE__EMU_EXECUTE("mbarrier.expect_tx[.relaxed][.cta|.cluster][.shared|.shared::cta|.shared::"
                     "cluster].b64",
                     "ar", expect_only),
    MOE__EMU_EXECUTE("mbarrier.try_wait.parity" ACQUIRE ".b64", "Par?r", try_parity),
    MOE__EMU_EXECUTE("mbarrier.try_wait" ACQUIRE ".b64", "Pal?r", try_state),
    MOE__EMU_EXECUTE("mbarrier.test_wait.parity" ACQUIRE ".b64", "Par", test_parity),
    MOE__EMU_EXECUTE("mbarrier.test_wait" ACQUIRE ".b64", "Pal", test_state),
    MOE__EMU_END_OF_TABLE,
};
