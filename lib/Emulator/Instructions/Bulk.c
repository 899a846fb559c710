/* Bulk.c - cp.async.bulk and cp.async.bulk.tensor: bytes and tiles between global and shared
 * memory.
 *
 * Why it exists: what a copy needs is checked when it is issued; its bytes move later. What lies
 * where is Tma.h's.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Emulator/Instructions/Bulk.h"

#include "lib/Emulator/Instructions/Lanes.h"
#include "lib/Emulator/Instructions/Mbarrier.h"
#include "lib/Emulator/Machine/Address.h"
#include "lib/Emulator/Machine/Async.h"
#include "lib/Emulator/Machine/Registers.h"
#include "lib/Emulator/Machine/Report.h"
#include "lib/Emulator/Machine/Residence.h"
#include "lib/Emulator/Ptx/Opcodes.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- Maps ---- */

/* The 128 bytes that a lane's address stands for: a parameter, or a constant of the module. */
static bool read_map(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction, int lane,
                     uint64_t address, moe__emu_tma_map_t *out_map) {
  moe__emu_machine_t *machine = warp->cta->machine;
  const uint8_t *bytes = NULL;
  const moe__emu_region_t *region;
  uint64_t offset = address - MOE__EMU_PARAM_WINDOW;
  uint64_t end = machine->kernel->parameter_bytes;
  if (offset <= end && end - offset >= MOE__EMU_TMA_MAP_BYTES) {
    bytes = machine->parameters + offset;
  } else if ((region = moe__emu_global_find(&machine->global, &warp->cache, address,
                                            MOE__EMU_TMA_MAP_BYTES))) {
    if (!moe__emu_may_touch(warp, instruction, lane, region))
      return false;
    bytes = (const uint8_t *)(uintptr_t)address;
  }
  moe__emu_error_t why;
  if (!bytes || address % 64) {
    moe__emu_fault(warp, instruction, lane,
                   "address 0x%" PRIx64 " is not that of a tensor map: 128 bytes, 64-byte aligned, "
                   "of the parameters or of global memory",
                   address);
    return false;
  }
  if (!moe__emu_tma_decode(bytes, out_map, &why)) {
    moe__emu_fault(warp, instruction, lane, "%s", why.text);
    return false;
  }
  return true;
}

/* The whole tensor of a map must lie in one buffer: then every box does. */
static const moe__emu_region_t *tensor_region(moe__emu_warp_t *warp,
                                              const moe__emu_instruction_t *instruction, int lane,
                                              const moe__emu_tma_map_t *map, bool is_store) {
  const moe__emu_global_t *global = &warp->cta->machine->global;
  uint64_t bytes = map->dims[0] * moe__emu_tma_type_bytes(map->type);
  for (int i = 1; i < map->rank; i++) {
    uint64_t step;
    if (__builtin_mul_overflow(map->dims[i] - 1, map->strides[i - 1], &step) ||
        __builtin_add_overflow(bytes, step, &bytes))
      bytes = UINT64_MAX / 2; /* more than any buffer has */
  }
  const moe__emu_region_t *region = moe__emu_global_find(global, &warp->cache, map->address, bytes);
  if (!region) {
    moe__emu_error_t why;
    moe__emu_global_explain(global, map->address, bytes, &why);
    moe__emu_fault(warp, instruction, lane,
                   "the map's tensor, %" PRIu64 " bytes at 0x%" PRIx64 ", %s", bytes, map->address,
                   why.text);
  } else if (is_store && !region->writable) {
    moe__emu_fault(warp, instruction, lane, "the map's tensor is '%s', which is read only",
                   region->name ? region->name : "a buffer");
    region = NULL;
  } else if (!moe__emu_may_touch(warp, instruction, lane, region)) {
    region = NULL;
  }
  return region;
}

/* Where the shared side of a copy lies: that of a load may be another CTA's. */
static bool find_target(moe__emu_task_t *task, uint64_t address, uint32_t bytes, uint32_t alignment,
                        bool is_store) {
  task->target = task->warp->cta;
  if (is_store)
    return moe__emu_shared_offset(task->warp, task->instruction, task->lane, address, bytes,
                                  alignment, &task->shared);
  task->target = moe__emu_shared_find(task->warp, task->instruction, task->lane, address, bytes,
                                      alignment, &task->shared);
  return task->target != NULL;
}

/* What a copy is, from the operands: the map's is number `map`, the shared address `shared`. */
static bool read_copy(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction, int lane,
                      int map, int shared, moe__emu_task_t *out_task) {
  bool is_store = map == 0; /* of a store the map is the first operand */
  const moe__emu_operand_t *operands = moe__emu_operand(warp->kernel, instruction, 0);
  moe__emu_error_t why;
  int rank = instruction->choice[0] + 1;
  *out_task = (moe__emu_task_t){.warp = warp, .instruction = instruction, .lane = lane};
  uint64_t address = moe__emu_lane_address(warp, &operands[shared], lane);
  if (!read_map(warp, instruction, lane, moe__emu_lane_address(warp, &operands[map], lane),
                &out_task->map))
    return false;
  if (!find_target(out_task, address, moe__emu_tma_shared_bytes(&out_task->map), 1, is_store))
    return false;
  if (!moe__emu_tma_check(&out_task->map, rank, out_task->shared, &why)) {
    moe__emu_fault(warp, instruction, lane, "%s", why.text);
    return false;
  }
  for (int i = 0; i < rank; i++)
    out_task->coordinates[i] = (int32_t)moe__emu_lane_value(warp, &operands[map + 1 + i], lane);
  if (!moe__emu_tma_check_coordinates(&out_task->map, out_task->coordinates, is_store, &why)) {
    moe__emu_fault(warp, instruction, lane, "%s", why.text);
    return false;
  }
  return true;
}

/* The same of a copy without a map. Its bytes are a tensor of one row, and the box is all of it. */
static bool read_plain(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction, int lane,
                       bool is_store, moe__emu_task_t *out_task) {
  const moe__emu_operand_t *operands = moe__emu_operand(warp->kernel, instruction, 0);
  const moe__emu_global_t *global = &warp->cta->machine->global;
  uint64_t at = moe__emu_lane_address(warp, &operands[is_store ? 0 : 1], lane);
  uint64_t shared = moe__emu_lane_address(warp, &operands[is_store ? 1 : 0], lane);
  uint32_t bytes = (uint32_t)moe__emu_lane_value(warp, &operands[2], lane);
  *out_task = (moe__emu_task_t){
      .warp = warp,
      .instruction = instruction,
      .lane = lane,
      .map = {.type = MOE__EMU_TMA_U8, .rank = 1, .address = at, .dims = {bytes}, .box = {bytes}},
  };
  if (bytes == 0 || bytes % MOE__EMU_CHUNK != 0 || at % MOE__EMU_CHUNK != 0) {
    moe__emu_fault(warp, instruction, lane,
                   "%u bytes at global address 0x%" PRIx64
                   ": both must be multiples of 16, and the bytes not 0",
                   bytes, at);
    return false;
  }
  if (!find_target(out_task, shared, bytes, MOE__EMU_CHUNK, is_store))
    return false;
  const moe__emu_region_t *region = moe__emu_global_find(global, &warp->cache, at, bytes);
  moe__emu_error_t why;
  if (!region) {
    moe__emu_global_explain(global, at, bytes, &why);
    moe__emu_fault(warp, instruction, lane, "%u bytes at global address 0x%" PRIx64 ": %s", bytes,
                   at, why.text);
    return false;
  }
  if (!moe__emu_may_touch(warp, instruction, lane, region))
    return false;
  if (is_store && !region->writable) {
    moe__emu_fault(warp, instruction, lane,
                   "global address 0x%" PRIx64 " is in '%s', which is read only", at,
                   region->name ? region->name : "a buffer");
    return false;
  }
  return true;
}

/* ---- Walking a box ---- */

typedef struct walk_t {
  moe__emu_cta_t *cta;
  const moe__emu_task_t *task;
  moe__emu_access_t access;
  bool inside_only;
  const moe__emu_region_t *region;
  moe__emu_toucher_t toucher;
  moe__emu_global_kind_t kind;
} walk_t;

static bool check_run(void *context, const moe__emu_tma_run_t *run) {
  walk_t *walk = context;
  if (walk->inside_only && !run->inside && !run->tail)
    return true;
  return moe__emu_access_bytes(&walk->access, 1U << walk->task->lane,
                               moe__emu_order_address(walk->task->target, run->shared), run->bytes,
                               NULL);
}

/* Checks and marks the bytes of shared memory that the copy will touch. */
static bool check_box(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                      const moe__emu_task_t *task, moe__emu_access_kind_t kind,
                      moe__emu_event_t as) {
  walk_t walk = {
      .access = moe__emu_access_begin(warp->cta->order, warp->agent, 1U << task->lane, kind, as),
      .task = task,
      .inside_only = kind == MOE__EMU_ASYNC_READ,
  };
  if (moe__emu_tma_walk(&task->map, task->coordinates, task->shared, check_run, &walk))
    return true;
  moe__emu_fault_order(warp, instruction, task->lane,
                       kind == MOE__EMU_ASYNC_READ ? "the bulk store" : "the bulk load",
                       &walk.access.finding);
  return false;
}

static uint8_t *shared_byte(const moe__emu_cta_t *cta, uint32_t address) {
  return cta->shared + (address - MOE__EMU_SHARED_BASE);
}

/* Checks the bytes of global memory that a copy touches, as its thread knows them when it starts
 * it. */
static bool touch_run(void *context, const moe__emu_tma_run_t *run) {
  walk_t *walk = context;
  const moe__emu_task_t *task = walk->task;
  bool is_write = walk->kind == MOE__EMU_GLOBAL_WRITE;
  if (!run->inside && !(is_write && run->tail))
    return true;
  /* A tail past the buffer is reported when it is written. */
  if (run->global + run->bytes > walk->region->address + walk->region->bytes)
    return true;
  return moe__emu_touch_global(task->warp, task->instruction, &walk->toucher, walk->region,
                               walk->kind, run->global, run->bytes);
}

static bool touch_box(moe__emu_task_t *task, moe__emu_global_kind_t kind, uint32_t agent,
                      uint32_t clock) {
  const moe__emu_cta_t *cta = task->warp->cta;
  walk_t walk = {.task = task, .kind = kind};
  walk.region =
      moe__emu_global_find(&cta->machine->global, &task->warp->cache, task->map.address, 1);
  if (!walk.region->writable)
    return true;
  /* Bulk reads of what no CTA has written yet are many. They are looked at in a second run, if any
   * CTA does write it. */
  moe__emu_use_t *use = walk.region->use;
  if (kind == MOE__EMU_GLOBAL_READ && !cta->machine->is_second_run &&
      !(use && atomic_load_explicit(&use->is_written, memory_order_relaxed))) {
    if (use)
      atomic_store_explicit(&use->is_bulk_read, true, memory_order_relaxed);
    return true;
  }
  walk.toucher = moe__emu_toucher(task->warp, task->instruction, task->lane, MOE__EMU_WEAK);
  walk.toucher.as = MOE__EMU_EVENT_OF(cta->order->cluster, agent, MOE__EMU_NO_LANE, clock);
  return moe__emu_tma_walk(&task->map, task->coordinates, task->shared, touch_run, &walk);
}

/* ---- Loads ---- */

static bool load_run(void *context, const moe__emu_tma_run_t *run) {
  const walk_t *walk = context;
  uint8_t *to = shared_byte(walk->cta, run->shared);
  if (run->inside)
    memcpy(to, (const void *)(uintptr_t)run->global, run->bytes);
  else
    moe__emu_tma_fill(&walk->task->map, to, run->bytes);
  return true;
}

static bool finish_load(moe__emu_cta_t *cta, moe__emu_task_t *task) {
  walk_t walk = {.cta = cta, .task = task};
  moe__emu_error_t why;
  moe__emu_tma_walk(&task->map, task->coordinates, task->shared, load_run, &walk);
  moe__emu_mbarrier_t *mbarrier = &cta->mbarriers->list[task->mbarrier];
  if (moe__emu_mbarrier_land(mbarrier, task->phase, moe__emu_tma_box_bytes(&task->map), &why))
    return true;
  moe__emu_fault(task->warp, task->instruction, task->lane, "%s", why.text);
  return false;
}

/* Starts a load into task->target that completes on the mbarrier at `address`. */
static bool load_into(moe__emu_task_t *task, uint64_t address) {
  moe__emu_warp_t *warp = task->warp;
  task->run = finish_load;
  moe__emu_event_t as;
  if (!moe__emu_mbarrier_complete_on(task, address, &as))
    return false;
  return check_box(warp, task->instruction, task, MOE__EMU_ASYNC_WRITE, as) &&
         touch_box(task, MOE__EMU_GLOBAL_READ, MOE__EMU_EVENT_AGENT(as),
                   MOE__EMU_EVENT_CLOCK(as)) &&
         moe__emu_async_add(task->target, task);
}

/* Starts a load that completes on the mbarrier which operand number `barrier` names. */
static bool start_load(moe__emu_task_t *task, int barrier) {
  const moe__emu_operand_t *operand =
      moe__emu_operand(task->warp->kernel, task->instruction, barrier);
  return load_into(task, moe__emu_lane_address(task->warp, operand, task->lane));
}

/* The same into all CTAs that the mask after the mbarrier names: at the same place of each, with
 * the mbarrier at the same place. */
static bool start_multicast(moe__emu_task_t *task, int barrier) {
  moe__emu_warp_t *warp = task->warp;
  const moe__emu_operand_t *operands = moe__emu_operand(warp->kernel, task->instruction, barrier);
  uint64_t address = moe__emu_lane_address(warp, &operands[0], task->lane);
  uint32_t mask = (uint16_t)moe__emu_lane_value(warp, &operands[1], task->lane);
  uint32_t ctas = warp->cta->machine->cluster_size;
  if (mask == 0 || mask >> ctas) {
    moe__emu_fault(warp, task->instruction, task->lane, "the mask 0x%x of CTAs; the cluster has %u",
                   mask, ctas);
    return false;
  }
  address &= (UINT64_C(1) << MOE__EMU_RANK_SHIFT) - 1;
  for (uint32_t rank = 0; rank < ctas; rank++) {
    moe__emu_task_t part = *task;
    part.target = &warp->cta->cluster->ctas[rank];
    if (mask >> rank & 1 &&
        (!moe__emu_cluster_reach(warp, task->instruction, task->lane, part.target) ||
         !load_into(&part, moe__emu_cluster_address(rank, (uint32_t)address))))
      return false;
  }
  return true;
}

static moe__emu_step_t load_tiles(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                                  uint32_t active, bool (*start)(moe__emu_task_t *, int)) {
  if (moe__emu_check_operands(warp, instruction, active) == MOE__EMU_FAILED)
    return MOE__EMU_FAILED;
  int barrier = 2 + instruction->choice[0] + 1;
  MOE__EMU_FOR_LANES(lane, active) {
    moe__emu_task_t task;
    if (!read_copy(warp, instruction, (int)lane, 1, 0, &task) ||
        !tensor_region(warp, instruction, (int)lane, &task.map, false) || !start(&task, barrier))
      return MOE__EMU_FAILED;
  }
  return MOE__EMU_ADVANCE;
}

static moe__emu_step_t load(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                            uint32_t active) {
  return load_tiles(warp, instruction, active, start_load);
}

static moe__emu_step_t load_multicast(moe__emu_warp_t *warp,
                                      const moe__emu_instruction_t *instruction, uint32_t active) {
  return load_tiles(warp, instruction, active, start_multicast);
}

static moe__emu_step_t load_plain(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                                  uint32_t active) {
  if (moe__emu_check_operands(warp, instruction, active) == MOE__EMU_FAILED)
    return MOE__EMU_FAILED;
  MOE__EMU_FOR_LANES(lane, active) {
    moe__emu_task_t task;
    if (!read_plain(warp, instruction, (int)lane, false, &task) || !start_load(&task, 3))
      return MOE__EMU_FAILED;
  }
  return MOE__EMU_ADVANCE;
}

/* ---- Bulk groups ---- */

static moe__emu_bulk_thread_t *find_thread(const moe__emu_async_t *async, uint32_t thread) {
  for (uint32_t i = 0; i < async->thread_count; i++) {
    if (async->threads[i].thread == thread)
      return &async->threads[i];
  }
  return NULL;
}

/* The thread's record, made where there is none; NULL after a fault. */
static moe__emu_bulk_thread_t *need_thread(moe__emu_warp_t *warp,
                                           const moe__emu_instruction_t *instruction, int lane) {
  moe__emu_async_t *async = warp->cta->async;
  uint32_t thread = warp->number * MOE__EMU_LANES + (uint32_t)lane;
  moe__emu_bulk_thread_t *found = find_thread(async, thread);
  if (found)
    return found;
  if (async->thread_count == async->thread_capacity) {
    uint32_t capacity = async->thread_capacity + 4;
    moe__emu_bulk_thread_t *grown = realloc(async->threads, capacity * sizeof *grown);
    if (!grown) {
      moe__emu_fault_cta(warp->cta, MOE_EMU_OUT_OF_MEMORY, "out of memory");
      return NULL;
    }
    memset(grown + async->thread_capacity, 0, 4 * sizeof *grown);
    async->threads = grown;
    async->thread_capacity = capacity;
  }
  int agent = moe__emu_order_agent(warp->cta->order, MOE__EMU_AGENT_BULK, warp->cta->rank, thread);
  if (agent < 0) {
    moe__emu_fault(warp, instruction, lane,
                   "a cluster may have at most %d warps, mbarriers and threads with bulk groups",
                   MOE__EMU_MAX_AGENTS);
    return NULL;
  }
  found = &async->threads[async->thread_count++];
  *found = (moe__emu_bulk_thread_t){
      .thread = thread, .agent = (uint32_t)agent, .left = found->left, .capacity = found->capacity};
  return found;
}

/* One more copy in the group that is open. */
static bool count_copy(moe__emu_cta_t *cta, moe__emu_bulk_thread_t *thread) {
  if (thread->committed >= thread->capacity) {
    uint32_t capacity = thread->committed * 2 + 16;
    uint32_t *grown = realloc(thread->left, capacity * sizeof *grown);
    if (!grown) {
      moe__emu_fault_cta(cta, MOE_EMU_OUT_OF_MEMORY, "out of memory");
      return false;
    }
    thread->left = grown;
    thread->capacity = capacity;
  }
  if (thread->open++ == 0)
    thread->left[thread->committed] = 0;
  thread->left[thread->committed]++;
  return true;
}

static void advance(moe__emu_bulk_thread_t *thread) {
  while (thread->completed < thread->committed && thread->left[thread->completed] == 0)
    thread->completed++;
}

static moe__emu_step_t commit(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                              uint32_t active) {
  MOE__EMU_FOR_LANES(lane, active) {
    moe__emu_bulk_thread_t *thread = need_thread(warp, instruction, (int)lane);
    if (!thread)
      return MOE__EMU_FAILED;
    /* An empty group is a group too. */
    if (thread->open == 0) {
      if (!count_copy(warp->cta, thread))
        return MOE__EMU_FAILED;
      thread->left[thread->committed] = 0;
    }
    thread->open = 0;
    thread->committed++;
    advance(thread);
  }
  return MOE__EMU_ADVANCE;
}

enum { WAIT_READ = 1 };

static moe__emu_step_t wait(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                            uint32_t active) {
  uint32_t pending = (uint32_t)moe__emu_operand(warp->kernel, instruction, 0)->addend;
  moe__emu_async_t *async = warp->cta->async;
  MOE__EMU_FOR_LANES(lane, active) {
    const moe__emu_bulk_thread_t *thread = find_thread(async, warp->number * MOE__EMU_LANES + lane);
    if (thread && thread->committed > pending && thread->completed < thread->committed - pending)
      return MOE__EMU_BLOCKED;
  }
  MOE__EMU_FOR_LANES(lane, active) {
    moe__emu_bulk_thread_t *thread = find_thread(async, warp->number * MOE__EMU_LANES + lane);
    if (!thread || thread->committed <= pending)
      continue;
    uint32_t done = thread->committed - pending;
    thread->waited = done > thread->waited ? done : thread->waited;
    moe__emu_order_learn(warp->cta->order, warp->agent, 1U << lane, warp->alive, thread->agent,
                         done, instruction->choice[0] != WAIT_READ);
  }
  return MOE__EMU_ADVANCE;
}

moe__emu_step_t moe__emu_bulk_exit(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                                   uint32_t lanes) {
  const moe__emu_async_t *async = warp->cta->async;
  for (uint32_t i = 0; i < async->thread_count; i++) {
    const moe__emu_bulk_thread_t *thread = &async->threads[i];
    uint32_t lane = thread->thread % MOE__EMU_LANES;
    if (thread->thread / MOE__EMU_LANES != warp->number || !(lanes >> lane & 1))
      continue;
    if (thread->open)
      return moe__emu_fault(warp, instruction, (int)lane,
                            "exits with %u bulk stores that no cp.async.bulk.commit_group follows",
                            thread->open);
    if (thread->committed > thread->waited)
      return moe__emu_fault(warp, instruction, (int)lane,
                            "exits while %u bulk groups may still read shared memory: "
                            "cp.async.bulk.wait_group is missing",
                            thread->committed - thread->waited);
  }
  return MOE__EMU_ADVANCE;
}

/* ---- Stores ---- */

/* What a store does to one run of a row. The hardware writes whole chunks of 16 bytes, also where
 * the tensor's rows end inside one: those bytes must exist. */
static bool store_run(void *context, const moe__emu_tma_run_t *run) {
  walk_t *walk = context;
  const moe__emu_region_t *region = walk->region;
  if (!run->inside && !run->tail)
    return true;
  if (run->global + run->bytes > region->address + region->bytes) {
    return false;
  }
  memcpy((void *)(uintptr_t)run->global, shared_byte(walk->cta, run->shared), run->bytes);
  return true;
}

static bool finish_store(moe__emu_cta_t *cta, moe__emu_task_t *task) {
  walk_t walk = {.cta = cta, .task = task};
  walk.region =
      moe__emu_global_find(&cta->machine->global, &task->warp->cache, task->map.address, 1);
  bool is_done = moe__emu_tma_walk(&task->map, task->coordinates, task->shared, store_run, &walk);
  if (!is_done) {
    moe__emu_fault(task->warp, task->instruction, task->lane,
                   "the box at coordinate %d ends inside of 16 bytes that reach past the buffer; a "
                   "store writes all of them",
                   task->coordinates[0]);
    return false;
  }
  moe__emu_bulk_thread_t *thread = find_thread(cta->async, task->thread);
  thread->left[task->group]--;
  advance(thread);
  return true;
}

/* Starts a store, as part of the thread's open group. */
static bool start_store(moe__emu_task_t *task) {
  moe__emu_warp_t *warp = task->warp;
  moe__emu_bulk_thread_t *thread = need_thread(warp, task->instruction, task->lane);
  if (!thread || !count_copy(warp->cta, thread))
    return false;
  task->run = finish_store;
  task->thread = thread->thread;
  task->group = thread->committed;
  return check_box(warp, task->instruction, task, MOE__EMU_ASYNC_READ,
                   MOE__EMU_EVENT(thread->agent, thread->committed + 1)) &&
         touch_box(task, MOE__EMU_GLOBAL_WRITE, thread->agent, thread->committed + 1) &&
         moe__emu_async_add(warp->cta, task);
}

static moe__emu_step_t store(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                             uint32_t active) {
  if (moe__emu_check_operands(warp, instruction, active) == MOE__EMU_FAILED)
    return MOE__EMU_FAILED;
  int source = 1 + instruction->choice[0] + 1;
  MOE__EMU_FOR_LANES(lane, active) {
    moe__emu_task_t task;
    if (!read_copy(warp, instruction, (int)lane, 0, source, &task) ||
        !tensor_region(warp, instruction, (int)lane, &task.map, true) || !start_store(&task))
      return MOE__EMU_FAILED;
  }
  return MOE__EMU_ADVANCE;
}

static moe__emu_step_t store_plain(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                                   uint32_t active) {
  if (moe__emu_check_operands(warp, instruction, active) == MOE__EMU_FAILED)
    return MOE__EMU_FAILED;
  MOE__EMU_FOR_LANES(lane, active) {
    moe__emu_task_t task;
    if (!read_plain(warp, instruction, (int)lane, true, &task) || !start_store(&task))
      return MOE__EMU_FAILED;
  }
  return MOE__EMU_ADVANCE;
}

/* As many coordinates as dimensions, and a hint where it is announced. */
static bool verify(const moe__emu_kernel_t *kernel, const moe__emu_instruction_t *instruction,
                   moe__emu_error_t *error) {
  (void)kernel;
  bool is_load = strstr(instruction->name, ".mbarrier::") != NULL;
  int rank = instruction->choice[0] + 1;
  int expected = rank + (is_load ? 3 : 2) + (strstr(instruction->name, ".L2::") != NULL) +
                 (strstr(instruction->name, ".multicast::") != NULL);
  if (instruction->operand_count == expected)
    return true;
  return moe__emu_error(error, "%d operands and coordinates; %d are taken",
                        instruction->operand_count, expected);
}

/* A hint where it is announced. */
static bool verify_plain(const moe__emu_kernel_t *kernel, const moe__emu_instruction_t *instruction,
                         moe__emu_error_t *error) {
  (void)kernel;
  bool is_load = strstr(instruction->name, ".mbarrier::") != NULL;
  int expected = (is_load ? 4 : 3) + (strstr(instruction->name, ".L2::") != NULL);
  return instruction->operand_count == expected ||
         moe__emu_error(error, "%d operands; %d are taken", instruction->operand_count, expected);
}

#define DIMENSIONS "{.1d|.2d|.3d|.4d|.5d}"

const moe__emu_opcode_t moe__emu_bulk_opcodes[] = {
    MOE__EMU_VERIFIED("cp.async.bulk.tensor" DIMENSIONS "{.shared::cluster|.shared::cta}.global"
                      "[.tile].mbarrier::complete_tx::bytes[.L2::cache_hint]",
                      "ama?l", load, verify),
    MOE__EMU_VERIFIED("cp.async.bulk.tensor" DIMENSIONS
                      ".shared::cluster.global[.tile].mbarrier::complete_tx::bytes"
                      ".multicast::cluster[.L2::cache_hint]",
                      "amah?l", load_multicast, verify),
    MOE__EMU_VERIFIED("cp.async.bulk.tensor" DIMENSIONS
                      ".global.shared::cta[.tile].bulk_group[.L2::cache_hint]",
                      "ma?l", store, verify),
    MOE__EMU_VERIFIED("cp.async.bulk{.shared::cluster|.shared::cta}.global"
                      ".mbarrier::complete_tx::bytes[.L2::cache_hint]",
                      "aara?l", load_plain, verify_plain),
    MOE__EMU_VERIFIED("cp.async.bulk.global.shared::cta.bulk_group[.L2::cache_hint]", "aar?l",
                      store_plain, verify_plain),
    MOE__EMU_EXECUTE("cp.async.bulk.commit_group", "", commit),
    MOE__EMU_EXECUTE("cp.async.bulk.wait_group[.read]", "n", wait),
    MOE__EMU_END_OF_TABLE,
};
