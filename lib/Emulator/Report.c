/* Report.c - says what went wrong, and where.
 *
 * Why it exists: a report that names kernel, line, block, warp, lane and address is found in
 * minutes; "launch failed" is not. The first fault of a block is kept.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Emulator/Machine.h"

#include <stdarg.h>
#include <stdio.h>

/* Adds text to the block's report. */
static void append(moe__emu_block_t *block, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void append_list(moe__emu_block_t *block, const char *format, va_list arguments) {
  moe_emu_report_t *report = &block->cluster->report;
  char *text = report->text;
  size_t used = strlen(text);
  vsnprintf(text + used, sizeof report->text - used, format, arguments);
}

static void append(moe__emu_block_t *block, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  append_list(block, format, arguments);
  va_end(arguments);
}

/* Begins the report unless there is one. */
static bool begin(moe__emu_block_t *block, moe_emu_status_t status) {
  if (block->cluster->status != MOE_EMU_OK)
    return false;
  block->cluster->status = status;
  append(block, "kernel '%s', ", block->machine->kernel->name);
  return true;
}

static void append_block(moe__emu_block_t *block) {
  append(block, "block (%u,%u,%u)", block->index[0], block->index[1], block->index[2]);
}

moe__emu_step_t moe__emu_fault(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                               int lane, const char *format, ...) {
  moe__emu_block_t *block = warp->block;
  va_list arguments;
  if (!begin(block, MOE_EMU_FAULT))
    return MOE__EMU_FAILED;
  append(block, "line %u (%s), ", instruction->line, instruction->name);
  append_block(block);
  append(block, ", warp %u", warp->number);
  if (lane >= 0)
    append(block, ", lane %d", lane);
  append(block, ": ");
  va_start(arguments, format);
  append_list(block, format, arguments);
  va_end(arguments);
  return MOE__EMU_FAILED;
}

void moe__emu_fault_block(moe__emu_block_t *block, moe_emu_status_t status, const char *format,
                          ...) {
  va_list arguments;
  if (!begin(block, status))
    return;
  append_block(block);
  append(block, ": ");
  va_start(arguments, format);
  append_list(block, format, arguments);
  va_end(arguments);
}

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
  return moe__emu_fault(warp, instruction, moe__emu_first_lane(missing),
                        "register %s is read before it is written", name);
}

/* ---- Order ---- */

const char *moe__emu_describe_address(const moe__emu_warp_t *warp, const moe__emu_block_t *block,
                                      uint32_t address, char *text, size_t size) {
  const uint32_t *index = block->index;
  if (block == warp->block)
    snprintf(text, size, "0x%x", address);
  else
    snprintf(text, size, "0x%x of block (%u,%u,%u)", address, index[0], index[1], index[2]);
  return text;
}

void moe__emu_describe_event(const moe__emu_block_t *block, moe__emu_event_t event, char *text,
                             size_t size) {
  const moe__emu_order_t *order = block->order;
  uint32_t agent = MOE__EMU_EVENT_AGENT(event), owner = order->owners[agent];
  const uint32_t *index = block->cluster->blocks[order->ranks[agent]].index;
  if (order->ranks[agent] != block->rank) {
    int used = snprintf(text, size, "block (%u,%u,%u), ", index[0], index[1], index[2]);
    text += used, size -= (size_t)used;
  }
  switch (order->kinds[agent]) {
  case MOE__EMU_AGENT_WARP:
    snprintf(text, size, "warp %u", owner);
    break;
  case MOE__EMU_AGENT_MBARRIER:
    snprintf(text, size,
             "a bulk load of phase %u of the mbarrier at 0x%x, which has not been waited for",
             MOE__EMU_EVENT_CLOCK(event) - 1, owner);
    break;
  case MOE__EMU_AGENT_BULK:
    snprintf(text, size,
             "bulk group %u of warp %u, lane %u, whose wait_group has not been seen by this warp",
             MOE__EMU_EVENT_CLOCK(event) - 1, owner / MOE__EMU_LANES, owner % MOE__EMU_LANES);
    break;
  case MOE__EMU_AGENT_MATRIX:
    snprintf(text, size, "a wgmma of warpgroup %u that has not been waited for", owner);
    break;
  }
}

moe__emu_step_t moe__emu_fault_order(moe__emu_warp_t *warp,
                                     const moe__emu_instruction_t *instruction, int lane,
                                     const char *what, const moe__emu_finding_t *finding) {
  moe__emu_block_t *block = warp->block;
  char who[192] = "", where[48];
  if (finding->conflict >= MOE__EMU_AFTER_WRITE && finding->conflict <= MOE__EMU_NOT_FENCED)
    moe__emu_describe_event(block, finding->other, who, sizeof who);
  uint32_t offset = finding->address - MOE__EMU_SHARED_BASE, bytes = block->shared_bytes;
  moe__emu_describe_address(warp, &block->cluster->blocks[bytes ? offset / bytes : 0],
                            MOE__EMU_SHARED_BASE + (bytes ? offset % bytes : 0), where,
                            sizeof where);
  switch (finding->conflict) {
  case MOE__EMU_UNINITIALIZED:
    return moe__emu_fault(warp, instruction, lane, "%s reads uninitialized shared memory at %s",
                          what, where);
  case MOE__EMU_OBJECT:
    return moe__emu_fault(warp, instruction, lane, "%s touches an mbarrier at shared address %s",
                          what, where);
  case MOE__EMU_AFTER_WRITE:
    return moe__emu_fault(warp, instruction, lane,
                          "%s races at shared address %s with a write by %s", what, where, who);
  case MOE__EMU_AFTER_READ:
    return moe__emu_fault(warp, instruction, lane,
                          "%s races at shared address %s with a read by %s", what, where, who);
  case MOE__EMU_NOT_FENCED:
    return moe__emu_fault(warp, instruction, lane,
                          "%s at shared address %s comes after an ordinary write by %s without a "
                          "fence.proxy.async in between",
                          what, where, who);
  default:
    moe__emu_fault_block(warp->block, MOE_EMU_OUT_OF_MEMORY, "out of memory");
    return MOE__EMU_FAILED;
  }
}

/* ---- Deadlock ---- */

/* What a split that is blocked waits for. */
static void describe_wait(moe__emu_warp_t *warp, const moe__emu_split_t *split, char *text,
                          size_t size) {
  const moe__emu_block_t *block = warp->block;
  const moe__emu_instruction_t *instruction = &warp->kernel->instructions[split->pc];
  int lane = moe__emu_first_lane(split->lanes);
  int used = snprintf(text, size, "line %u (%s)", instruction->line, instruction->name);
  if (used < 0 || (size_t)used >= size)
    return;
  text += used, size -= (size_t)used;
  if (!strncmp(instruction->name, "mbarrier.", strlen("mbarrier."))) {
    const moe__emu_operand_t *operand = moe__emu_operand(warp->kernel, instruction, 1);
    uint64_t address = moe__emu_lane_address(warp, operand, lane);
    uint32_t low = (uint32_t)(address & UINT32_MAX);
    const moe__emu_mbarrier_t *mbarrier = moe__emu_mbarrier_at(warp->block, low);
    if (mbarrier)
      snprintf(text, size,
               " for the mbarrier at 0x%x: phase %u has %u of %u arrivals to come and %d bytes to "
               "land",
               mbarrier->address, mbarrier->phase, mbarrier->pending, mbarrier->count,
               mbarrier->bytes);
  } else if (!strncmp(instruction->name, "barrier.cluster.", strlen("barrier.cluster."))) {
    const moe__emu_cluster_barrier_t *barrier = &block->cluster->barrier;
    snprintf(text, size, " for the cluster's barrier: %u of %u threads have come", barrier->arrived,
             barrier->alive);
  } else if (!strncmp(instruction->name, "bar", strlen("bar"))) {
    const moe__emu_operand_t *operand = moe__emu_operand(warp->kernel, instruction, 0);
    uint64_t id = moe__emu_lane_value(warp, operand, lane);
    if (id < MOE__EMU_NAMED_BARRIERS)
      snprintf(text, size, " for barrier %u: %u of %u threads have come", (unsigned)id,
               block->barriers.named[id].arrived, block->barriers.named[id].expected);
  } else if (!strncmp(instruction->name, "setmaxnreg", strlen("setmaxnreg"))) {
    snprintf(text, size, " for registers: %u of %u are in use",
             block->registers_used * MOE__EMU_LANES,
             block->machine->register_pool * MOE__EMU_LANES);
  } else if (!strncmp(instruction->name, "wgmma", strlen("wgmma"))) {
    snprintf(text, size, " for products that not all four warps have started");
  }
}

static void append_waits(moe__emu_block_t *block) {
  char last[320] = "", wait[320];
  uint32_t last_lanes = 0;
  for (uint32_t w = 0; w < block->machine->warp_count; w++) {
    moe__emu_warp_t *warp = &block->warps[w];
    for (uint32_t s = 0; s < warp->split_count; s++) {
      const moe__emu_split_t *split = &warp->splits[s];
      describe_wait(warp, split, wait, sizeof wait);
      if (!strcmp(wait, last) && split->lanes == last_lanes) {
        append(block, ", warp %u too", w);
        continue;
      }
      append(block, "; warp %u, lanes 0x%08x, waits at %s", w, split->lanes, wait);
      memcpy(last, wait, sizeof last);
      last_lanes = split->lanes;
    }
    if (warp->alive && warp->split_count == 0)
      append(block, "; warp %u: its lanes wait for each other", w);
  }
}

void moe__emu_fault_deadlock(moe__emu_cluster_t *cluster) {
  if (!begin(cluster->blocks, MOE_EMU_FAULT))
    return;
  append_block(cluster->blocks);
  append(cluster->blocks, ": deadlock, no warp can go on");
  append_waits(cluster->blocks);
  for (uint32_t r = 1; r < cluster->machine->cluster_size; r++) {
    append(cluster->blocks, "; ");
    append_block(&cluster->blocks[r]);
    append_waits(&cluster->blocks[r]);
  }
}
