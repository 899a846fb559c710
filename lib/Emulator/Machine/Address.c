/* Address.c - where an address leads, and whether it may be used.
 *
 * Why it exists: see Address.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Emulator/Machine/Address.h"

#include "lib/Emulator/Machine/Report.h"
#include "lib/Emulator/Machine/Residence.h"

#include <inttypes.h>
#include <stdio.h>

moe__emu_reach_t moe__emu_reach(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                                moe__emu_space_t space, uint32_t bytes, moe__emu_access_kind_t kind,
                                uint32_t active) {
  return (moe__emu_reach_t){
      .warp = warp,
      .instruction = instruction,
      .space = space,
      .bytes = bytes,
      .alignment = bytes,
      .access = moe__emu_access_begin(warp->cta->order, warp->agent, active, kind, 0),
  };
}

static bool is_read(const moe__emu_reach_t *reach) {
  return reach->access.kind == MOE__EMU_READ;
}

/* The same of an address of this CTA. */
static bool offset_in(const moe__emu_cta_t *cta, moe__emu_warp_t *warp,
                      const moe__emu_instruction_t *instruction, int lane, uint64_t address,
                      uint32_t bytes, uint32_t alignment, uint32_t *out_address) {
  uint64_t begin = moe__emu_cluster_address(cta->rank, MOE__EMU_SHARED_BASE);
  uint64_t end = begin + cta->shared_bytes;
  *out_address = (uint32_t)(address - moe__emu_cluster_address(cta->rank, 0));
  if (address < begin || address > end || bytes > end - address) {
    moe__emu_fault(warp, instruction, lane,
                   "%u bytes at shared address 0x%" PRIx64 " are outside of the CTA's [0x%" PRIx64
                   ", 0x%" PRIx64 ")",
                   bytes, address, begin, end);
    return false;
  }
  if (address % alignment) {
    moe__emu_fault(warp, instruction, lane, "shared address 0x%" PRIx64 " is not a multiple of %u",
                   address, alignment);
    return false;
  }
  return true;
}

bool moe__emu_shared_offset(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                            int lane, uint64_t address, uint32_t bytes, uint32_t alignment,
                            uint32_t *out_address) {
  return offset_in(warp->cta, warp, instruction, lane, address, bytes, alignment, out_address);
}

moe__emu_cta_t *moe__emu_shared_find(moe__emu_warp_t *warp,
                                     const moe__emu_instruction_t *instruction, int lane,
                                     uint64_t address, uint32_t bytes, uint32_t alignment,
                                     uint32_t *out_address) {
  moe__emu_cta_t *cta = warp->cta;
  uint64_t rank = address >> MOE__EMU_RANK_SHIFT;
  if (rank < cta->machine->cluster_size)
    cta = &cta->cluster->ctas[rank];
  return offset_in(cta, warp, instruction, lane, address, bytes, alignment, out_address) &&
                 moe__emu_cluster_reach(warp, instruction, lane, cta)
             ? cta
             : NULL;
}

static uint8_t *resolve_shared(moe__emu_reach_t *reach, uint32_t lanes, uint64_t address,
                               bool is_cluster) {
  moe__emu_warp_t *warp = reach->warp;
  int lane = moe__emu_first_lane(lanes);
  moe__emu_cta_t *cta = warp->cta;
  uint32_t at, bytes = reach->bytes;
  if (reach->is_ordered) {
    moe__emu_fault(warp, reach->instruction, lane,
                   "acquires or releases by an access to shared memory, which is not modeled: "
                   "mbarriers and barriers order accesses there");
    return NULL;
  }
  if (is_cluster)
    cta = moe__emu_shared_find(warp, reach->instruction, lane, address, bytes, bytes, &at);
  else if (!moe__emu_shared_offset(warp, reach->instruction, lane, address, bytes, bytes, &at))
    cta = NULL;
  if (!cta)
    return NULL;
  moe__emu_cluster_touch(cta, warp->cta, reach->access.as);
  reach->missing = 0;
  reach->access.value = reach->value;
  reach->access.memory = cta->shared + (at - MOE__EMU_SHARED_BASE);
  if (!moe__emu_access_bytes(&reach->access, lanes, moe__emu_order_address(cta, at), bytes,
                             &reach->missing)) {
    uint32_t others = lanes & ~(1U << (MOE__EMU_EVENT_LANE(reach->access.finding.other) & 31));
    lane = others ? moe__emu_first_lane(others) : lane;
    moe__emu_fault_order(reach->warp, reach->instruction, lane,
                         is_read(reach) ? "the load" : "the store", &reach->access.finding);
    return NULL;
  }
  return cta->shared + (at - MOE__EMU_SHARED_BASE);
}

static uint8_t *resolve_parameter(moe__emu_reach_t *reach, int lane, uint64_t address) {
  moe__emu_machine_t *machine = reach->warp->cta->machine;
  uint32_t end = machine->kernel->parameter_bytes;
  if (!is_read(reach) || address > end || reach->bytes > end - address) {
    moe__emu_fault(reach->warp, reach->instruction, lane,
                   "%u bytes at 0x%" PRIx64 " of the parameters, which have %u and are read only",
                   reach->bytes, address, end);
    return NULL;
  }
  return machine->parameters + address;
}

bool moe__emu_may_touch(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction, int lane,
                        const moe__emu_region_t *region) {
  if (!region->pending)
    return true;
  const char *name = region->name ? region->name : "a buffer";
  if (!moe__emu_order_view(warp->cta->order, warp->agent, (uint32_t)(lane < 0 ? 0 : lane))
           ->has_waited) {
    bool has_waited = atomic_load(&warp->cta->machine->has_waited);
    moe__emu_fault(warp, instruction, lane, "touches '%s', which a launch before this one uses, %s",
                   name,
                   has_waited ? "before it knows that a thread of its CTA has come back from "
                                "griddepcontrol.wait"
                              : "without a griddepcontrol.wait");
    return false;
  }
  if (region->pending == MOE_EMU_PENDING_BEYOND) {
    moe__emu_fault(
        warp, instruction, lane,
        "touches '%s', which a launch uses that may go on: griddepcontrol.wait waits for "
        "the launch before this one, which ends without a griddepcontrol.wait",
        name);
    return false;
  }
  return true;
}

/* ---- Races in global memory ---- */

moe__emu_toucher_t moe__emu_toucher(const moe__emu_warp_t *warp,
                                    const moe__emu_instruction_t *instruction, int lane,
                                    moe__emu_scope_t scope) {
  return (moe__emu_toucher_t){
      .order = warp->cta->order,
      .warp = warp->agent,
      .lane = (uint32_t)(lane < 0 ? 0 : lane),
      .alive = warp->alive,
      .rank = warp->cta->rank,
      .cta = warp->cta->number,
      .line = instruction->line,
      .scope = scope,
      .skips_races = !warp->cta->order->enabled,
  };
}

static const char *name_at(const moe__emu_kernel_t *kernel, uint32_t line) {
  for (uint32_t i = 0; i < kernel->instruction_count; i++) {
    if (kernel->instructions[i].line == line)
      return kernel->instructions[i].name;
  }
  return "?";
}

/* "CTA (1,0,0), warp 3, lane 0, at line 57 (st.global.b32)" */
static void describe_other(const moe__emu_warp_t *warp, const moe__emu_race_t *race, char *text,
                           size_t size) {
  const moe__emu_machine_t *machine = warp->cta->machine;
  uint32_t agent = MOE__EMU_EVENT_AGENT(race->event), lane = MOE__EMU_EVENT_LANE(race->event);
  uint32_t cluster = MOE__EMU_EVENT_CLUSTER(race->event);
  bool is_warp = agent < machine->cluster_size * machine->warp_count;
  const moe__emu_order_t *order = warp->cta->order;
  uint32_t rank = is_warp                     ? agent / machine->warp_count
                  : cluster == order->cluster ? order->ranks[agent]
                                              : 0;
  uint64_t number = (uint64_t)cluster * machine->cluster_size + rank;
  const uint32_t *grid = machine->launch->grid;
  int used = snprintf(text, size, "CTA (%u,%u,%u), ", (unsigned)(number % grid[0]),
                      (unsigned)(number / grid[0] % grid[1]),
                      (unsigned)(number / ((uint64_t)grid[0] * grid[1])));
  text += used, size -= (size_t)used;
  if (is_warp)
    used = snprintf(text, size, "warp %u, lane %u", agent % machine->warp_count, lane);
  else
    used = snprintf(text, size, "a bulk copy");
  snprintf(text + used, size - (size_t)used, ", at line %u (%s)", race->line,
           name_at(warp->kernel, race->line));
}

static void set_flag(atomic_bool *flag) {
  if (!atomic_load_explicit(flag, memory_order_relaxed))
    atomic_store_explicit(flag, true, memory_order_relaxed);
}

/* Notes what is done with a region; where that asks for more than this run looks at, a second run
 * will look at all. */
static void note_use(moe__emu_machine_t *machine, const moe__emu_region_t *region,
                     moe__emu_global_kind_t kind) {
  moe__emu_use_t *use = region->use;
  if (!use)
    return;
  if (kind != MOE__EMU_GLOBAL_READ) {
    set_flag(&use->is_written);
    if (atomic_load_explicit(&use->is_bulk_read, memory_order_relaxed))
      set_flag(&machine->wants_again);
  }
  /* Marks know nothing of atomics. */
  bool is_update = kind == MOE__EMU_GLOBAL_UPDATE;
  set_flag(is_update ? &use->is_updated : &use->is_accessed);
  if (!machine->races &&
      atomic_load_explicit(is_update ? &use->is_accessed : &use->is_updated, memory_order_relaxed))
    set_flag(&machine->wants_again);
}

/* Checks that nothing writes what .nc reads. False after a fault. */
static bool mark_constant(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                          int lane, const moe__emu_region_t *region, uint64_t address,
                          uint64_t bytes, bool is_write) {
  const char *name = region->name ? region->name : "a buffer";
  uint32_t line;
  if (!warp->cta->order->enabled)
    return true;
  if (!is_write && region->pending) {
    moe__emu_fault(warp, instruction, lane,
                   "reads '%s', which a launch before this one uses, by .nc: that is only for what "
                   "nothing writes while the kernel runs, and it may have begun before that launch "
                   "ended",
                   name);
    return false;
  }
  if (moe__emu_global_mark_constant(region, address, bytes, instruction->line, is_write, &line))
    return true;
  moe__emu_fault(warp, instruction, lane,
                 "%s global address 0x%" PRIx64
                 " in '%s'%s, which line %u (%s) %s: .nc is only for "
                 "what nothing writes while the kernel runs",
                 is_write ? "writes" : "reads", address, name, is_write ? "" : " by .nc", line,
                 name_at(warp->kernel, line), is_write ? "reads by .nc" : "writes");
  return false;
}

bool moe__emu_touch_global(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                           const moe__emu_toucher_t *toucher, const moe__emu_region_t *region,
                           moe__emu_global_kind_t kind, uint64_t address, uint64_t bytes) {
  moe__emu_machine_t *machine = warp->cta->machine;
  moe__emu_race_t race;
  char other[192];
  if (!region->writable)
    return true;
  if (kind != MOE__EMU_GLOBAL_READ && region->constants &&
      !mark_constant(warp, instruction, (int)toucher->lane, region, address, bytes, true))
    return false;
  note_use(machine, region, kind);
  const char *name = region->name ? region->name : "a buffer";
  const char *what = kind == MOE__EMU_GLOBAL_READ    ? "a read"
                     : kind == MOE__EMU_GLOBAL_WRITE ? "a write"
                                                     : "an atomic";
  if (machine->races) {
    if (moe__emu_races_touch(machine->races, toucher, kind, address, (uint32_t)bytes, &race))
      return true;
    describe_other(warp, &race, other, sizeof other);
    if (race.is_unfenced) {
      moe__emu_fault(warp, instruction, (int)toucher->lane,
                     "%s by the async proxy at global address 0x%" PRIx64
                     " in '%s' comes after an ordinary write by %s without a fence.proxy.async "
                     "for global memory in between",
                     what, race.address, name, other);
      return false;
    }
    if (race.is_atomic) {
      moe__emu_fault(warp, instruction, (int)toucher->lane,
                     "nothing orders this atomic at global address 0x%" PRIx64
                     " in '%s' and the one by %s: the result depends on which comes first",
                     race.address, name, other);
      return false;
    }
    moe__emu_fault(warp, instruction, (int)toucher->lane,
                   "%s at global address 0x%" PRIx64
                   " in '%s' races with a %s by %s: nothing orders "
                   "the two",
                   what, race.address, name, race.is_write ? "write" : "read", other);
    return false;
  }
  if (kind == MOE__EMU_GLOBAL_UPDATE || toucher->skips_races)
    return true;
  moe__emu_mark_t mark;
  const moe__emu_marking_t marking = {warp->cta->number,
                                      (uint32_t)(instruction - warp->kernel->instructions),
                                      kind == MOE__EMU_GLOBAL_WRITE};
  bool is_again = false;
  bool is_alone = moe__emu_global_mark(region, address, bytes, &marking, &is_again, &mark);
  if (is_again)
    set_flag(&machine->wants_again);
  if (is_alone)
    return true;
  const uint32_t *grid = machine->launch->grid;
  const moe__emu_instruction_t *there = &warp->kernel->instructions[mark.instruction];
  snprintf(other, sizeof other, "at line %u (%s)", there->line, there->name);
  moe__emu_fault(warp, instruction, (int)toucher->lane,
                 "%s at global address 0x%" PRIx64 " in '%s' races with a %s by another CTA, "
                 "(%u,%u,%u), %s: CTAs of this kernel do not wait for each other",
                 what, mark.address, name, mark.is_write ? "write" : "read",
                 (unsigned)(mark.cta % grid[0]), (unsigned)(mark.cta / grid[0] % grid[1]),
                 (unsigned)(mark.cta / ((uint64_t)grid[0] * grid[1])), other);
  return false;
}

static uint8_t *resolve_global(moe__emu_reach_t *reach, uint32_t lanes, uint64_t address) {
  int lane = moe__emu_first_lane(lanes);
  moe__emu_warp_t *warp = reach->warp;
  const moe__emu_global_t *global = &warp->cta->machine->global;
  const moe__emu_region_t *region =
      moe__emu_global_find(global, &warp->cache, address, reach->bytes);
  moe__emu_error_t why;
  if (!region) {
    moe__emu_global_explain(global, address, reach->bytes, &why);
    moe__emu_fault(warp, reach->instruction, lane, "global address 0x%" PRIx64 " %s", address,
                   why.text);
    return NULL;
  }
  if (!moe__emu_may_touch(warp, reach->instruction, lane, region))
    return NULL;
  if (!is_read(reach) && !region->writable) {
    moe__emu_fault(warp, reach->instruction, lane,
                   "global address 0x%" PRIx64 " is in '%s', which is read only", address,
                   region->name ? region->name : "a buffer");
    return NULL;
  }
  if (reach->is_constant &&
      !mark_constant(warp, reach->instruction, lane, region, address, reach->bytes, false))
    return NULL;
  static const moe__emu_global_kind_t kinds[] = {
      [MOE__EMU_READ] = MOE__EMU_GLOBAL_READ,
      [MOE__EMU_WRITE] = MOE__EMU_GLOBAL_WRITE,
      [MOE__EMU_ATOMIC] = MOE__EMU_GLOBAL_UPDATE,
  };
  reach->is_contested = region->writable && warp->cta->machine->races;
  for (uint32_t rest = region->writable ? lanes : 0; rest; rest &= rest - 1) {
    moe__emu_toucher_t toucher =
        moe__emu_toucher(warp, reach->instruction, moe__emu_first_lane(rest), reach->scope);
    toucher.operation = reach->operation;
    if (!moe__emu_touch_global(warp, reach->instruction, &toucher, region,
                               kinds[reach->access.kind], address, reach->bytes))
      return NULL;
  }
  return (uint8_t *)(uintptr_t)address;
}

uint8_t *moe__emu_resolve(moe__emu_reach_t *reach, uint32_t lanes, uint64_t address) {
  moe__emu_space_t space = reach->space;
  int lane = moe__emu_first_lane(lanes);
  reach->is_contested = false;
  if (space == MOE__EMU_GENERIC) {
    space = MOE__EMU_GLOBAL;
    if (address - MOE__EMU_SHARED_WINDOW < MOE__EMU_WINDOW_BYTES)
      space = MOE__EMU_SHARED_CLUSTER, address -= MOE__EMU_SHARED_WINDOW;
    else if (address - MOE__EMU_PARAM_WINDOW < MOE__EMU_WINDOW_BYTES)
      space = MOE__EMU_PARAM, address -= MOE__EMU_PARAM_WINDOW;
  }
  if (space >= MOE__EMU_SHARED)
    return resolve_shared(reach, lanes, address, space == MOE__EMU_SHARED_CLUSTER);
  if (address % reach->bytes) {
    moe__emu_fault(reach->warp, reach->instruction, lane,
                   "address 0x%" PRIx64 " is not a multiple of %u", address, reach->bytes);
    return NULL;
  }
  return space == MOE__EMU_PARAM ? resolve_parameter(reach, lane, address)
                                 : resolve_global(reach, lanes, address);
}
