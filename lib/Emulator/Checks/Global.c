/* Global.c - races in global memory. Values.c has the values that reads may return.
 *
 * Why it exists: see Global.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Emulator/Checks/GlobalParts.h"

#include <stdlib.h>

static const size_t PAGE_BYTES = (size_t)1 << 30; /* memory for pages */

enum { PAGE = 1024, WORD = MOE__EMU_RACE_WORD, MAX_READERS = 2048 };

/* What a byte remembers: the last weak write, and the set of strong writes and of reads since. */
typedef struct byte_t {
  moe__emu_event_t writer;
  uint32_t line;
  uint32_t others;
} byte_t;

struct moe__emu_race_page_t {
  uint64_t number;
  byte_t bytes[PAGE];
  moe__emu_written_t *words[PAGE / WORD]; /* the newest write to each; NULL: none */
};

typedef struct moe__emu_race_page_t page_t;

/* ---- Creation ---- */

bool moe__emu_races_create(moe__emu_races_t *races, uint64_t ctas, uint64_t clusters,
                           bool keeps_values, size_t order_bytes) {
  *races = (moe__emu_races_t){.cta_count = ctas,
                              .keeps_values = keeps_values,
                              .arena.limit = order_bytes,
                              .of_pages.limit = PAGE_BYTES};
  races->cta_fences = calloc(ctas + clusters, sizeof *races->cta_fences);
  return races->cta_fences && moe__emu_readers_create(&races->sets);
}

void moe__emu_races_free(moe__emu_races_t *races) {
  moe__emu_readers_free(&races->sets);
  moe__emu_arena_free(&races->arena);
  moe__emu_arena_free(&races->of_pages);
  free(races->pages);
  free((void *)races->cta_fences);
  *races = (moe__emu_races_t){0};
}

/* ---- Pages by address ---- */

static uint32_t hash(uint64_t key) {
  return (uint32_t)(key * UINT64_C(0x9E3779B97F4A7C15) >> 32);
}

static page_t *find_page(moe__emu_races_t *races, uint64_t number) {
  if (races->last_page && races->last_page->number == number)
    return races->last_page;
  if (races->page_count * 2 >= races->page_capacity) {
    uint32_t capacity = races->page_capacity ? races->page_capacity * 2 : 256;
    page_t **grown = calloc(capacity, sizeof *grown);
    if (!grown)
      return NULL;
    for (uint32_t i = 0; i < races->page_capacity; i++) {
      if (!races->pages[i])
        continue;
      uint32_t at = hash(races->pages[i]->number) & (capacity - 1);
      while (grown[at])
        at = (at + 1) & (capacity - 1);
      grown[at] = races->pages[i];
    }
    free(races->pages);
    races->pages = grown;
    races->page_capacity = capacity;
  }
  uint32_t at = hash(number) & (races->page_capacity - 1);
  while (races->pages[at] && races->pages[at]->number != number)
    at = (at + 1) & (races->page_capacity - 1);
  if (!races->pages[at]) {
    page_t *page = moe__emu_arena_allocate(&races->of_pages, sizeof *page);
    if (!page)
      return NULL;
    page->number = number;
    races->pages[at] = page;
    races->page_count++;
  }
  return races->last_page = races->pages[at];
}

moe__emu_written_t **moe__emu_races_word(moe__emu_races_t *races, uint64_t address) {
  page_t *page = find_page(races, address / PAGE);
  return page ? &page->words[address % PAGE / WORD] : NULL;
}

/* ---- Races ---- */

/* What a set says of an access: scope, whether it writes, operation of an atomic, line. */
enum { SCOPE_BITS = 3, IS_WRITE = 4, OPERATION_SHIFT = 3, LINE_SHIFT = 8 };

static bool race(moe__emu_race_t *out, moe__emu_event_t event, uint32_t line, bool is_write,
                 uint64_t address) {
  *out = (moe__emu_race_t){.event = event, .line = line, .is_write = is_write, .address = address};
  return false;
}

/* The event of the first of an access's lanes. */
static moe__emu_event_t first_event(const moe__emu_reader_t *access) {
  uint64_t lane = access->lanes ? (uint64_t)__builtin_ctz(access->lanes) : MOE__EMU_NO_LANE;
  return (access->event & ~(UINT64_C(63) << MOE__EMU_CLOCK_BITS)) | lane << MOE__EMU_CLOCK_BITS;
}

/* Whether a bulk copy comes after a write that the async proxy need not see. */
static bool is_unfenced(const moe__emu_toucher_t *toucher, const moe__emu_party_t *party,
                        moe__emu_event_t writer, uint32_t lanes) {
  return toucher->as && !toucher->skips_races &&
         !moe__emu_toucher_is_handed(toucher, party, writer, lanes);
}

/* How many of a set's accesses come before an atomic that the thread knows, and whose result is
 * used. Atomics among them are in order with it without more: atomics of a place have one order,
 * which that result has shown, and a set keeps it. */
static uint32_t covered_by(const moe__emu_races_t *races, const moe__emu_toucher_t *toucher,
                           const moe__emu_party_t *party, uint32_t set) {
  const moe__emu_reader_sets_t *sets = &races->sets;
  for (uint32_t i = sets->sets[set].count; i > 0; i--) {
    const moe__emu_reader_t *old = &sets->readers[sets->sets[set].first + i - 1];
    if (old->how >> OPERATION_SHIFT & MOE__EMU_ATOMIC_USED &&
        moe__emu_toucher_knows(toucher, party, old))
      return i;
  }
  return 0;
}

/* Checks an access against those of a set, and gives the set with it. */
static bool touch_set(moe__emu_races_t *races, const moe__emu_toucher_t *toucher,
                      const moe__emu_party_t *party, moe__emu_global_kind_t kind, uint32_t set,
                      uint32_t *out_set, moe__emu_race_t *out_race) {
  moe__emu_reader_sets_t *sets = &races->sets;
  moe__emu_reader_t list[MAX_READERS + 1];
  bool is_write = kind != MOE__EMU_GLOBAL_READ, is_plain = is_write && !toucher->scope;
  moe__emu_event_t event = moe__emu_toucher_event(toucher);
  uint64_t lane_bits = UINT64_C(63) << MOE__EMU_CLOCK_BITS;
  moe__emu_reader_t added = {toucher->as ? event : event & ~lane_bits,
                             toucher->as ? 0 : moe__emu_toucher_lane(toucher),
                             toucher->line << LINE_SHIFT | toucher->operation << OPERATION_SHIFT |
                                 (is_write ? IS_WRITE : 0) | (uint32_t)toucher->scope};
  uint32_t count = 0, covered = covered_by(races, toucher, party, set);
  for (uint32_t i = 0; i < sets->sets[set].count; i++) {
    const moe__emu_reader_t *old = &sets->readers[sets->sets[set].first + i];
    bool was_write = old->how & IS_WRITE;
    uint32_t operation = old->how >> OPERATION_SHIFT & MOE__EMU_MAX_ATOMIC;
    if (old->event == added.event && old->how == added.how) {
      added.lanes |= old->lanes;
      continue;
    }
    bool is_known = moe__emu_toucher_knows(toucher, party, old);
    if (is_known && was_write && is_unfenced(toucher, party, old->event, old->lanes)) {
      race(out_race, first_event(old), old->how >> LINE_SHIFT, true, 0);
      out_race->is_unfenced = true;
      return false;
    }
    if (is_known && (is_write || !was_write))
      continue;
    bool is_conflict = !is_known && (is_write || was_write) && !toucher->skips_races;
    is_conflict = is_conflict && !(operation && i < covered);
    bool is_free = is_conflict && toucher->operation && operation &&
                   (toucher->operation ^ operation) & ~(uint32_t)MOE__EMU_ATOMIC_USED;
    is_conflict =
        is_conflict &&
        !moe__emu_toucher_is_strong(toucher, old->event, (moe__emu_scope_t)(old->how & SCOPE_BITS));
    if (is_conflict || is_free) {
      race(out_race, first_event(old), old->how >> LINE_SHIFT, was_write, 0);
      out_race->is_atomic = !is_conflict;
      return false;
    }
    if (count < MAX_READERS)
      list[count++] = *old;
  }
  if (!is_plain)
    list[count++] = added;
  *out_set = is_plain ? 0 : moe__emu_readers_change(sets, set, list, count);
  return true;
}

bool moe__emu_races_touch(moe__emu_races_t *races, const moe__emu_toucher_t *toucher,
                          moe__emu_global_kind_t kind, uint64_t address, uint32_t bytes,
                          moe__emu_race_t *out_race) {
  const moe__emu_party_t *party = moe__emu_toucher_party(toucher);
  bool is_plain = kind == MOE__EMU_GLOBAL_WRITE && !toucher->scope;
  moe__emu_event_t event = moe__emu_toucher_event(toucher), last_writer = UINT64_MAX;
  uint32_t last_set = 0, new_set = 0;
  if (!toucher->as)
    toucher->order->warps[toucher->warp].touched |= moe__emu_toucher_lane(toucher);
  for (uint64_t at = address; at < address + bytes; at++) {
    page_t *page = find_page(races, at / PAGE);
    if (!page)
      return true; /* what lies beyond the memory for this goes unchecked */
    byte_t *byte = &page->bytes[at % PAGE];
    if (byte->writer != last_writer || byte->others != last_set) {
      if (byte->writer && !toucher->skips_races &&
          !moe__emu_toucher_knows_event(toucher, party, byte->writer))
        return race(out_race, byte->writer, byte->line, true, at);
      uint32_t lane = MOE__EMU_EVENT_LANE(byte->writer);
      if (byte->writer && is_unfenced(toucher, party, byte->writer, lane < 32 ? 1U << lane : 0)) {
        race(out_race, byte->writer, byte->line, true, at);
        out_race->is_unfenced = true;
        return false;
      }
      if (!touch_set(races, toucher, party, kind, byte->others, &new_set, out_race)) {
        out_race->address = at;
        return false;
      }
      last_writer = byte->writer;
      last_set = byte->others;
    }
    byte->others = new_set;
    if (is_plain) {
      byte->writer = event;
      byte->line = toucher->line;
    }
  }
  return true;
}
