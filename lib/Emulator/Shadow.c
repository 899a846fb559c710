/* Shadow.c - what each byte of shared memory remembers, and the checks of accesses against it.
 *
 * Why it exists: see Order.h. Two words a byte: the event of the last write, and the set of events
 * that have read it since. Sets are shared: the bytes of a tile are read by the same warps, so a
 * block has few different ones.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Emulator/Order.h"

#include <stdlib.h>
#include <string.h>

enum { SETS_BEFORE_SWEEP = 1 << 15 };

/* ---- Sets of readers ---- */

static uint32_t hash_events(const moe__emu_event_t *events, uint32_t count) {
  uint32_t value = 2166136261U;
  for (uint32_t i = 0; i < count; i++)
    value = (value ^ events[i]) * 16777619U;
  return value ^ value >> 15;
}

static uint32_t *slot_of(const moe__emu_order_t *order, const moe__emu_event_t *events,
                         uint32_t count) {
  uint32_t mask = order->table_capacity - 1;
  for (uint32_t i = hash_events(events, count) & mask;; i = (i + 1) & mask) {
    uint32_t set = order->table[i];
    if (set == 0 ||
        (order->sets[set].count == count &&
         memcmp(&order->events[order->sets[set].first], events, count * sizeof *events) == 0))
      return &order->table[i];
  }
}

static bool grow(void **list, uint32_t *capacity, uint32_t wanted, size_t size) {
  if (wanted <= *capacity)
    return true;
  uint32_t larger = *capacity * 2 > wanted ? *capacity * 2 : wanted;
  void *grown = realloc(*list, larger * size);
  if (!grown)
    return false;
  *list = grown;
  *capacity = larger;
  return true;
}

static bool rehash(moe__emu_order_t *order) {
  uint32_t capacity = order->table_capacity;
  while (capacity < order->set_count * 4)
    capacity *= 2;
  uint32_t *table = calloc(capacity, sizeof *table);
  if (!table)
    return false;
  free(order->table);
  order->table = table;
  order->table_capacity = capacity;
  for (uint32_t s = 1; s < order->set_count; s++)
    *slot_of(order, &order->events[order->sets[s].first], order->sets[s].count) = s;
  return true;
}

/* Drops the sets that no byte has any more. */
static bool sweep(moe__emu_order_t *order) {
  uint32_t *renumber = calloc(order->set_count, sizeof *renumber);
  if (!renumber)
    return false;
  for (uint32_t b = 0; b < order->bytes; b++)
    renumber[order->readers[b]] = 1;
  uint32_t count = 1, end = 0;
  for (uint32_t s = 1; s < order->set_count; s++) {
    if (!renumber[s])
      continue;
    moe__emu_readers_t set = order->sets[s];
    memmove(&order->events[end], &order->events[set.first], set.count * sizeof *order->events);
    order->sets[count] = (moe__emu_readers_t){end, set.count};
    end += set.count;
    renumber[s] = count++;
  }
  renumber[0] = 0;
  for (uint32_t b = 0; b < order->bytes; b++)
    order->readers[b] = renumber[order->readers[b]];
  free(renumber);
  order->set_count = count;
  order->event_count = end;
  return rehash(order);
}

/* The number of the set `set` and `event`, less the events that `view` knows to be done: whoever
 * comes after the new event comes after those. 0 when there is no memory: no set with an event has
 * that number. */
static uint32_t add_reader(moe__emu_order_t *order, uint32_t set, moe__emu_event_t event,
                           const moe__emu_view_t *view) {
  moe__emu_event_t events[MOE__EMU_MAX_AGENTS + 1];
  uint32_t count = 0;
  for (uint32_t i = 0; i < order->sets[set].count; i++) {
    moe__emu_event_t old = order->events[order->sets[set].first + i];
    uint32_t agent = MOE__EMU_EVENT_AGENT(old);
    if (agent != MOE__EMU_EVENT_AGENT(event) && view->done[agent] < MOE__EMU_EVENT_CLOCK(old))
      events[count++] = old;
  }
  events[count++] = event;
  uint32_t *slot = slot_of(order, events, count);
  if (*slot)
    return *slot;
  if (!grow((void **)&order->sets, &order->set_capacity, order->set_count + 1,
            sizeof *order->sets) ||
      !grow((void **)&order->events, &order->event_capacity, order->event_count + count,
            sizeof *order->events))
    return 0;
  order->sets[order->set_count] = (moe__emu_readers_t){order->event_count, count};
  memcpy(&order->events[order->event_count], events, count * sizeof *events);
  order->event_count += count;
  *slot = order->set_count++;
  uint32_t number = *slot;
  if (order->set_count * 4 > order->table_capacity && !rehash(order))
    return 0;
  return number;
}

/* ---- Checks ---- */

static bool is_async(const moe__emu_access_t *access) {
  return access->kind == MOE__EMU_ASYNC_READ || access->kind == MOE__EMU_ASYNC_WRITE;
}

static bool conflict(moe__emu_access_t *access, moe__emu_conflict_t conflict, uint32_t index,
                     moe__emu_event_t other) {
  access->finding = (moe__emu_finding_t){conflict, access->order->base + index, other};
  return false;
}

static bool check_writer(moe__emu_access_t *access, uint32_t index, moe__emu_event_t writer) {
  uint32_t agent = MOE__EMU_EVENT_AGENT(writer), clock = MOE__EMU_EVENT_CLOCK(writer);
  if (writer == MOE__EMU_EVENT_OBJECT)
    return conflict(access, MOE__EMU_OBJECT, index, writer);
  if (writer == access->as && !is_async(access))
    return true;
  bool is_own = agent == access->warp;
  if (!is_own && access->view->done[agent] < clock)
    return conflict(access, MOE__EMU_AFTER_WRITE, index, writer);
  if (is_async(access) && access->order->kinds[agent] == MOE__EMU_AGENT_WARP &&
      access->view->fenced[agent] < clock)
    return conflict(access, MOE__EMU_NOT_FENCED, index, writer);
  return true;
}

static bool check_readers(moe__emu_access_t *access, uint32_t index, uint32_t set) {
  const moe__emu_order_t *order = access->order;
  for (uint32_t i = 0; i < order->sets[set].count; i++) {
    moe__emu_event_t reader = order->events[order->sets[set].first + i];
    uint32_t agent = MOE__EMU_EVENT_AGENT(reader);
    if (agent != access->warp && access->view->done[agent] < MOE__EMU_EVENT_CLOCK(reader))
      return conflict(access, MOE__EMU_AFTER_READ, index, reader);
  }
  return true;
}

static bool read_bytes(moe__emu_access_t *access, uint32_t address, uint32_t bytes) {
  moe__emu_order_t *order = access->order;
  uint32_t first = address - order->base;
  for (uint32_t i = first; i < first + bytes; i++) {
    moe__emu_event_t writer = order->writers[i];
    uint32_t readers = order->readers[i];
    if (!access->has_last || writer != access->writer) {
      if (writer == 0)
        return conflict(access, MOE__EMU_UNINITIALIZED, i, 0);
      if (!order->enabled)
        continue;
      if (!check_writer(access, i, writer))
        return false;
      access->writer = writer;
    }
    if (!access->has_last || readers != access->readers) {
      access->readers = readers;
      access->new_readers = add_reader(order, readers, access->as, access->view);
      if (access->new_readers == 0)
        return conflict(access, MOE__EMU_ORDER_MEMORY, i, 0);
    }
    access->has_last = true;
    order->readers[i] = access->new_readers;
  }
  return true;
}

static bool write_bytes(moe__emu_access_t *access, uint32_t address, uint32_t bytes) {
  moe__emu_order_t *order = access->order;
  uint32_t first = address - order->base;
  for (uint32_t i = first; i < first + bytes; i++) {
    moe__emu_event_t writer = order->writers[i];
    uint32_t readers = order->readers[i];
    bool is_new = !access->has_last || writer != access->writer || readers != access->readers;
    if (is_new && (order->enabled || writer == MOE__EMU_EVENT_OBJECT)) {
      if (writer && !check_writer(access, i, writer))
        return false;
      if (!check_readers(access, i, readers))
        return false;
      access->writer = writer;
      access->readers = readers;
      access->has_last = true;
    }
    order->writers[i] = access->as;
    order->readers[i] = 0;
  }
  return true;
}

static bool touch_atomically(moe__emu_access_t *access, uint32_t address, uint32_t bytes) {
  moe__emu_order_t *order = access->order;
  uint32_t first = address - order->base;
  for (uint32_t i = first; i < first + bytes; i++) {
    if (order->writers[i] == 0 || order->writers[i] == MOE__EMU_EVENT_OBJECT)
      return conflict(access, order->writers[i] ? MOE__EMU_OBJECT : MOE__EMU_UNINITIALIZED, i,
                      order->writers[i]);
    order->writers[i] = access->as;
    order->readers[i] = 0;
  }
  return true;
}

moe__emu_access_t moe__emu_access_begin(moe__emu_order_t *order, uint32_t warp, uint32_t active,
                                        moe__emu_access_kind_t kind, moe__emu_event_t as) {
  moe__emu_access_t access = {
      .order = order,
      .view = moe__emu_order_view(order, warp, active),
      .warp = warp,
      .active = active,
      .kind = kind,
      .as = as,
  };
  if (!is_async(&access))
    access.as = MOE__EMU_EVENT(warp, order->warps[warp].clock);
  return access;
}

bool moe__emu_access_bytes(moe__emu_access_t *access, uint32_t address, uint32_t bytes) {
  if (!is_async(access))
    access->order->warps[access->warp].touched |= access->active;
  /* A sweep renumbers the sets, also those of the byte before. */
  if (access->order->set_count > SETS_BEFORE_SWEEP) {
    access->has_last = false;
    if (!sweep(access->order))
      return conflict(access, MOE__EMU_ORDER_MEMORY, 0, 0);
  }
  switch (access->kind) {
  case MOE__EMU_READ:
  case MOE__EMU_ASYNC_READ:
    return read_bytes(access, address, bytes);
  case MOE__EMU_ATOMIC:
    return touch_atomically(access, address, bytes);
  default:
    return write_bytes(access, address, bytes);
  }
}

void moe__emu_order_object(moe__emu_order_t *order, uint32_t address, bool is_object) {
  for (uint32_t i = 0; i < 8; i++) {
    order->writers[address - order->base + i] = is_object ? MOE__EMU_EVENT_OBJECT : 0;
    order->readers[address - order->base + i] = 0;
  }
}
