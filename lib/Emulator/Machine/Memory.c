/* Memory.c - global memory: the buffers of a launch.
 *
 * Why it exists: see Memory.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Emulator/Machine/Memory.h"

#include "lib/Emulator/Ptx/Parser.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Eight bytes of marks per byte: beyond this, a launch goes without. */
enum { MAX_MARKED_BYTES = 1 << 28 };

static int by_address(const void *a, const void *b) {
  const moe__emu_region_t *left = a, *right = b;
  return left->address < right->address ? -1 : left->address > right->address;
}

static const char *name_of(const moe__emu_region_t *region) {
  return region->name ? region->name : "a buffer";
}

static bool has_constants(const moe__emu_kernel_t *kernel) {
  for (uint32_t i = 0; kernel && i < kernel->instruction_count; i++) {
    const char *name = kernel->instructions[i].name;
    if (moe__emu_begins(name, "ld.") && strstr(name, ".nc."))
      return true;
  }
  return false;
}

moe_emu_status_t moe__emu_global_create(moe__emu_global_t *global, const moe__emu_module_t *module,
                                        const moe_emu_launch_t *launch, moe__emu_error_t *error) {
  uint32_t buffers = (uint32_t)launch->buffer_count;
  bool is_watched = has_constants(moe__emu_find_kernel(module, launch->kernel));
  *global = (moe__emu_global_t){0};
  global->regions = calloc(buffers + module->variable_count + 1, sizeof *global->regions);
  if (!global->regions)
    return MOE_EMU_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < buffers; i++) {
    const moe_emu_buffer_t *buffer = &launch->buffers[i];
    if (buffer->bytes)
      global->regions[global->count++] = (moe__emu_region_t){.address = buffer->address,
                                                             .bytes = buffer->bytes,
                                                             .writable = buffer->writable,
                                                             .pending = buffer->pending,
                                                             .name = buffer->name};
  }
  for (uint32_t i = 0; i < buffers; i++)
    global->has_pending |= launch->buffers[i].pending != MOE_EMU_NOT_PENDING;
  for (uint32_t i = 0; i < module->variable_count; i++) {
    const moe__emu_variable_t *variable = &module->variables[i];
    if (variable->bytes)
      global->regions[global->count++] =
          (moe__emu_region_t){.address = (uint64_t)(uintptr_t)variable->data,
                              .bytes = variable->bytes,
                              .writable = !variable->is_constant,
                              .name = variable->name};
  }
  qsort(global->regions, global->count, sizeof *global->regions, by_address);
  for (uint32_t i = 0; i < global->count; i++) {
    moe__emu_region_t *region = &global->regions[i];
    uint64_t end = 0;
    if (region->address == 0) {
      moe__emu_error(error, "buffer '%.64s' has the address 0", name_of(region));
      return MOE_EMU_INVALID_ARGUMENT;
    }
    if (__builtin_add_overflow(region->address, region->bytes, &end) ||
        (i + 1 < global->count && end > region[1].address)) {
      moe__emu_error(error, "buffer '%.64s' at 0x%" PRIx64 " overlaps another, or wraps",
                     name_of(region), region->address);
      return MOE_EMU_INVALID_ARGUMENT;
    }
    if (is_watched && region->writable && region->bytes <= MAX_MARKED_BYTES) {
      region->constants = calloc(region->bytes, sizeof *region->constants);
      if (!region->constants)
        return MOE_EMU_OUT_OF_MEMORY;
    }
    if (region->writable && region->bytes <= MAX_MARKED_BYTES) {
      region->writers = calloc(region->bytes, sizeof *region->writers);
      region->readers = calloc(region->bytes, sizeof *region->readers);
      region->use = calloc(1, sizeof *region->use);
      if (!region->writers || !region->readers || !region->use)
        return MOE_EMU_OUT_OF_MEMORY;
    }
  }
  return MOE_EMU_OK;
}

void moe__emu_global_free(moe__emu_global_t *global) {
  for (uint32_t i = 0; i < global->count; i++) {
    free((void *)global->regions[i].writers);
    free((void *)global->regions[i].readers);
    free((void *)global->regions[i].constants);
    free(global->regions[i].use);
  }
  free(global->regions);
  *global = (moe__emu_global_t){0};
}

static bool holds(const moe__emu_region_t *region, uint64_t address, uint64_t bytes) {
  return address >= region->address && address - region->address < region->bytes &&
         bytes <= region->bytes - (address - region->address);
}

/* The last region that does not begin after the address; NULL where all do. */
static const moe__emu_region_t *region_before(const moe__emu_global_t *global, uint64_t address) {
  uint32_t low = 0, high = global->count;
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    if (global->regions[middle].address <= address)
      low = middle + 1;
    else
      high = middle;
  }
  return low ? &global->regions[low - 1] : NULL;
}

const moe__emu_region_t *moe__emu_global_find(const moe__emu_global_t *global,
                                              moe__emu_global_cache_t *cache, uint64_t address,
                                              uint64_t bytes) {
  if (cache->region && holds(cache->region, address, bytes))
    return cache->region;
  const moe__emu_region_t *region = region_before(global, address);
  if (!region || !holds(region, address, bytes))
    return NULL;
  cache->region = region;
  return region;
}

void moe__emu_global_explain(const moe__emu_global_t *global, uint64_t address, uint64_t bytes,
                             moe__emu_error_t *error) {
  const moe__emu_region_t *before = region_before(global, address);
  const moe__emu_region_t *after = before ? before + 1 : global->regions;
  if (after == global->regions + global->count)
    after = NULL;
  uint64_t past = before ? address - (before->address + before->bytes) : UINT64_MAX;
  uint64_t ahead = after ? after->address - address : UINT64_MAX;
  if (before && address < before->address + before->bytes)
    moe__emu_error(error, "reaches past the end of '%.64s'", name_of(before));
  else if (before && past <= ahead)
    moe__emu_error(error, "lies %" PRIu64 " bytes after the end of '%.64s'", past, name_of(before));
  else if (after)
    moe__emu_error(error, "lies %" PRIu64 " bytes before '%.64s'", ahead, name_of(after));
  else
    moe__emu_error(error, "is %" PRIu64 " bytes of no buffer", bytes);
}

/* A tag is a CTA and an instruction. */
enum { CTA_SHIFT = 16, PLACE = (1 << CTA_SHIFT) - 1, MAX_CTA = 0xFFFD, MANY = 0xFFFF };

static uint32_t tag_of(const moe__emu_marking_t *marking) {
  return (uint32_t)(marking->cta % MAX_CTA + 1) << CTA_SHIFT | (marking->instruction & PLACE);
}

/* Whether a tag is of another CTA. */
static bool is_other(uint32_t tag, uint32_t mine) {
  return tag && tag >> CTA_SHIFT != mine >> CTA_SHIFT;
}

/* Whether it is of this CTA. */
static bool is_own(uint32_t tag, uint32_t mine) {
  return tag >> CTA_SHIFT == mine >> CTA_SHIFT;
}

bool moe__emu_global_mark(const moe__emu_region_t *region, uint64_t address, uint64_t bytes,
                          const moe__emu_marking_t *marking, bool *out_is_again,
                          moe__emu_mark_t *out_other) {
  if (!region->writers)
    return true;
  bool is_write = marking->is_write;
  const uint32_t own = tag_of(marking);
  uint64_t first = address - region->address;
  _Atomic uint32_t *mine = (is_write ? region->writers : region->readers) + first;
  _Atomic uint32_t *others = (is_write ? region->readers : region->writers) + first;
  for (uint64_t i = 0; i < bytes; i++) {
    uint32_t old = atomic_load_explicit(&mine[i], memory_order_relaxed);
    uint32_t other = atomic_load_explicit(&others[i], memory_order_relaxed), tag = own;
    if (!(old | other)) {
      atomic_store_explicit(&mine[i], tag, memory_order_relaxed);
      continue;
    }
    if (is_other(other, tag) || (is_write && is_other(old, tag))) {
      bool was_write = !is_write || is_other(old, tag);
      uint32_t found = is_write && was_write ? old : other;
      *out_other =
          (moe__emu_mark_t){(found >> CTA_SHIFT) - 1, address + i, found & PLACE, was_write};
      return false;
    }
    *out_is_again |= is_own(other, tag) || (is_write && is_own(old, tag));
    /* A byte that several CTAs read keeps a CTA that the writer is not. */
    if (!is_write && is_other(old, tag))
      tag = (uint32_t)MANY << CTA_SHIFT | (tag & ((1U << CTA_SHIFT) - 1));
    if (old != tag)
      atomic_store_explicit(&mine[i], tag, memory_order_relaxed);
  }
  return true;
}

/* A line, and whether it writes. */
static uint32_t constant_tag(uint32_t line, bool is_write) {
  return line << 1 | is_write;
}

bool moe__emu_global_mark_constant(const moe__emu_region_t *region, uint64_t address,
                                   uint64_t bytes, uint32_t line, bool is_write,
                                   uint32_t *out_other) {
  _Atomic uint32_t *tags = region->constants;
  uint64_t first = address - region->address;
  for (uint64_t i = first; tags && i < first + bytes; i++) {
    uint32_t old = atomic_exchange(&tags[i], constant_tag(line, is_write));
    if (old && (old & 1) != is_write) {
      *out_other = old >> 1;
      return false;
    }
  }
  return true;
}
