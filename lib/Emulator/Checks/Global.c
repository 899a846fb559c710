/* Global.c - races in global memory, and the values that reads may return.
 *
 * Why it exists: see Global.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Emulator/Checks/Global.h"

#include <stdlib.h>
#include <string.h>

enum { PAGE = 1024, WORD = 4, MAX_READERS = 2048, MAX_VALUES = 64 };

/* What a byte remembers: the last weak write, and the set of strong writes and of reads since. */
typedef struct byte_t {
  moe__emu_event_t writer;
  uint32_t line;
  uint32_t others;
} byte_t;

/* What a thread knew when it released a value. */
typedef struct message_t {
  const struct message_t *next;
  uint32_t cluster, rank;
  moe__emu_scope_t scope;
  const moe__emu_foreign_t *knowledge;
} message_t;

/* A strong read of a value. */
typedef struct observation_t {
  struct observation_t *next;
  moe__emu_event_t event;
  moe__emu_scope_t scope;
} observation_t;

/* A write to a word. The values of the word are in coherence order. */
typedef struct record_t {
  struct record_t *older;
  moe__emu_event_t event;
  moe__emu_scope_t scope;
  bool is_update;
  uint32_t before; /* the word's value before it */
  const message_t *messages;
  observation_t *observations;
} record_t;

struct moe__emu_race_page_t {
  uint64_t number;
  byte_t bytes[PAGE];
  record_t *words[PAGE / WORD]; /* the newest write to each; NULL: none */
};

typedef struct moe__emu_race_page_t page_t;

/* ---- Creation ---- */

bool moe__emu_races_create(moe__emu_races_t *races, uint64_t ctas, uint64_t clusters,
                           bool keeps_values) {
  *races = (moe__emu_races_t){.cta_count = ctas, .keeps_values = keeps_values};
  races->cta_fences = calloc(ctas + clusters, sizeof *races->cta_fences);
  return races->cta_fences && moe__emu_readers_create(&races->sets);
}

void moe__emu_races_free(moe__emu_races_t *races) {
  moe__emu_readers_free(&races->sets);
  moe__emu_arena_free(&races->arena);
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
    page_t *page = moe__emu_arena_allocate(&races->arena, sizeof *page);
    if (!page)
      return NULL;
    page->number = number;
    races->pages[at] = page;
    races->page_count++;
  }
  return races->last_page = races->pages[at];
}

/* Where the newest write to a word is noted, NULL where there is no memory. */
static record_t **find_word(moe__emu_races_t *races, uint64_t address) {
  page_t *page = find_page(races, address / PAGE);
  return page ? &page->words[address % PAGE / WORD] : NULL;
}

/* ---- Who knows what ---- */

static uint32_t lane_bit(const moe__emu_toucher_t *toucher) {
  return 1U << toucher->lane;
}

static moe__emu_event_t event_of(const moe__emu_toucher_t *toucher) {
  const moe__emu_order_t *order = toucher->order;
  if (toucher->as)
    return toucher->as;
  return MOE__EMU_EVENT_OF(order->cluster, toucher->warp, toucher->lane,
                           order->warps[toucher->warp].clock);
}

/* Whether the thread knows that lanes' work is done. */
static bool knows(const moe__emu_toucher_t *toucher, const moe__emu_party_t *party,
                  const moe__emu_reader_t *other) {
  const moe__emu_order_t *order = toucher->order;
  uint32_t cluster = MOE__EMU_EVENT_CLUSTER(other->event);
  uint32_t agent = MOE__EMU_EVENT_AGENT(other->event);
  uint32_t clock = MOE__EMU_EVENT_CLOCK(other->event);
  if (cluster == order->cluster) {
    if (order->kinds[agent] == MOE__EMU_AGENT_BULK)
      return party->view.fenced[agent] >= clock;
    return moe__emu_order_knows_lanes(order, toucher->warp, party, lane_bit(toucher), other);
  }
  const moe__emu_snapshot_t *snapshot = moe__emu_foreign_find(party->view.foreign, cluster);
  if (!snapshot)
    return false;
  if (!other->lanes)
    return moe__emu_snapshot_knows(snapshot, agent, MOE__EMU_NO_LANE, clock);
  for (uint32_t rest = other->lanes; rest; rest &= rest - 1) {
    if (!moe__emu_snapshot_knows(snapshot, agent, (uint32_t)__builtin_ctz(rest), clock))
      return false;
  }
  return true;
}

static bool knows_event(const moe__emu_toucher_t *toucher, const moe__emu_party_t *party,
                        moe__emu_event_t event) {
  uint32_t lane = MOE__EMU_EVENT_LANE(event);
  uint64_t lanes = UINT64_C(63) << MOE__EMU_CLOCK_BITS;
  moe__emu_reader_t other = {event, lane < 32 ? 1U << lane : 0, 0};
  if (lane < 32)
    other.event &= ~lanes;
  return knows(toucher, party, &other);
}

/* Whether the async proxy sees what lanes of a warp wrote, or one of them: a fence.proxy.async has
 * come since. */
static bool is_handed_on(const moe__emu_toucher_t *toucher, const moe__emu_party_t *party,
                         moe__emu_event_t event, uint32_t lanes) {
  const moe__emu_order_t *order = toucher->order;
  uint32_t cluster = MOE__EMU_EVENT_CLUSTER(event), agent = MOE__EMU_EVENT_AGENT(event);
  uint32_t clock = MOE__EMU_EVENT_CLOCK(event);
  if (!order->has_proxies || agent >= order->warp_count)
    return true;
  agent += order->warp_count;
  const moe__emu_snapshot_t *snapshot =
      cluster == order->cluster ? NULL : moe__emu_foreign_find(party->view.foreign, cluster);
  for (uint32_t rest = lanes; rest; rest &= rest - 1) {
    uint32_t lane = (uint32_t)__builtin_ctz(rest);
    if (cluster == order->cluster
            ? !moe__emu_order_knows(order, toucher->warp, party, lane_bit(toucher),
                                    MOE__EMU_EVENT_OF(cluster, agent, lane, clock))
            : !snapshot || !moe__emu_snapshot_knows(snapshot, agent, lane, clock))
      return false;
  }
  return true;
}

/* The least scope that has both the thread and another one. */
static moe__emu_scope_t needed_scope(const moe__emu_toucher_t *toucher, uint32_t cluster,
                                     uint32_t rank) {
  if (cluster != toucher->order->cluster)
    return MOE__EMU_GPU;
  return rank == toucher->rank ? MOE__EMU_CTA : MOE__EMU_CLUSTER;
}

static moe__emu_scope_t needed_for(const moe__emu_toucher_t *toucher, moe__emu_event_t event) {
  const moe__emu_order_t *order = toucher->order;
  uint32_t cluster = MOE__EMU_EVENT_CLUSTER(event);
  uint32_t rank = cluster == order->cluster ? order->ranks[MOE__EMU_EVENT_AGENT(event)] : 0;
  return needed_scope(toucher, cluster, rank);
}

/* Whether both are strong, and the scope of each has the other's thread. */
static bool are_strong(const moe__emu_toucher_t *toucher, moe__emu_event_t event,
                       moe__emu_scope_t scope) {
  moe__emu_scope_t needed = needed_for(toucher, event);
  return toucher->scope >= needed && scope >= needed;
}

static moe__emu_party_t *party_of(const moe__emu_toucher_t *toucher) {
  return moe__emu_order_party(toucher->order, toucher->warp, toucher->lane);
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
  return toucher->as && !toucher->skips_races && !is_handed_on(toucher, party, writer, lanes);
}

/* How many of a set's accesses come before an atomic that the thread knows, and whose result is
 * used. Atomics among them are in order with it without more: atomics of a place have one order,
 * which that result has shown, and a set keeps it. */
static uint32_t covered_by(const moe__emu_races_t *races, const moe__emu_toucher_t *toucher,
                           const moe__emu_party_t *party, uint32_t set) {
  const moe__emu_reader_sets_t *sets = &races->sets;
  for (uint32_t i = sets->sets[set].count; i > 0; i--) {
    const moe__emu_reader_t *old = &sets->readers[sets->sets[set].first + i - 1];
    if (old->how >> OPERATION_SHIFT & MOE__EMU_ATOMIC_USED && knows(toucher, party, old))
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
  moe__emu_event_t event = event_of(toucher);
  uint64_t lane_bits = UINT64_C(63) << MOE__EMU_CLOCK_BITS;
  moe__emu_reader_t added = {toucher->as ? event : event & ~lane_bits,
                             toucher->as ? 0 : lane_bit(toucher),
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
    bool is_known = knows(toucher, party, old);
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
        is_conflict && !are_strong(toucher, old->event, (moe__emu_scope_t)(old->how & SCOPE_BITS));
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
  const moe__emu_party_t *party = party_of(toucher);
  bool is_plain = kind == MOE__EMU_GLOBAL_WRITE && !toucher->scope;
  moe__emu_event_t event = event_of(toucher), last_writer = UINT64_MAX;
  uint32_t last_set = 0, new_set = 0;
  if (!toucher->as)
    toucher->order->warps[toucher->warp].touched |= lane_bit(toucher);
  for (uint64_t at = address; at < address + bytes; at++) {
    page_t *page = find_page(races, at / PAGE);
    if (!page)
      return true; /* what lies beyond the memory for this goes unchecked */
    byte_t *byte = &page->bytes[at % PAGE];
    if (byte->writer != last_writer || byte->others != last_set) {
      if (byte->writer && !toucher->skips_races && !knows_event(toucher, party, byte->writer))
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

/* ---- Messages ---- */

static const message_t *add_message(moe__emu_races_t *races, const moe__emu_toucher_t *toucher,
                                    moe__emu_scope_t scope, const moe__emu_foreign_t *knowledge,
                                    const message_t *next) {
  message_t *message = knowledge ? moe__emu_arena_allocate(&races->arena, sizeof *message) : NULL;
  if (!message)
    return next;
  *message = (message_t){next, toucher->order->cluster, toucher->rank, scope, knowledge};
  return message;
}

/* What a strong write of the thread carries. */
static const message_t *own_messages(moe__emu_races_t *races, const moe__emu_toucher_t *toucher,
                                     bool is_release, const message_t *next) {
  moe__emu_order_t *order = toucher->order;
  const moe__emu_fences_t *fences = &order->warps[toucher->warp].fences[toucher->lane];
  if (!toucher->scope)
    return next;
  if (is_release) {
    const moe__emu_foreign_t *knowledge =
        moe__emu_order_publish(order, toucher->warp, lane_bit(toucher), toucher->alive);
    next = add_message(races, toucher, toucher->scope, knowledge, next);
  }
  for (int scope = MOE__EMU_CTA; scope <= MOE__EMU_GPU; scope++)
    next = add_message(races, toucher, (moe__emu_scope_t)scope, fences->released[scope - 1], next);
  return next;
}

static void learn(const moe__emu_toucher_t *toucher, uint32_t lanes,
                  const moe__emu_foreign_t *knowledge) {
  if (!knowledge)
    return;
  moe__emu_party_t *party =
      moe__emu_order_separate(toucher->order, toucher->warp, lanes, toucher->alive);
  moe__emu_view_learn_foreign(toucher->order, &party->view, knowledge);
}

/* The thread has read a value to which these are attached. */
static void take_messages(moe__emu_races_t *races, const moe__emu_toucher_t *toucher,
                          bool is_acquire, const record_t *record) {
  moe__emu_fences_t *fences = &toucher->order->warps[toucher->warp].fences[toucher->lane];
  if (!record || !are_strong(toucher, record->event, record->scope))
    return;
  for (const message_t *message = record->messages; message; message = message->next) {
    moe__emu_scope_t needed = needed_scope(toucher, message->cluster, message->rank);
    if (message->scope < needed)
      continue;
    if (is_acquire && toucher->scope >= needed)
      learn(toucher, lane_bit(toucher), message->knowledge);
    else
      fences->unacquired[needed - 1] =
          moe__emu_foreign_join(&races->arena, fences->unacquired[needed - 1], message->knowledge);
  }
}

/* ---- Values ---- */

static uint32_t load_word(uint64_t address) {
  uint32_t value;
  memcpy(&value, (const void *)(uintptr_t)address, sizeof value);
  return value;
}

/* Whether a later access of the thread may not go behind a write: the thread knows it, or has
 * seen it by strong reads that it knows. */
static bool is_floor(const moe__emu_toucher_t *toucher, const moe__emu_party_t *party,
                     const record_t *record) {
  if (knows_event(toucher, party, record->event))
    return true;
  if (!are_strong(toucher, record->event, record->scope))
    return false;
  for (const observation_t *seen = record->observations; seen; seen = seen->next) {
    if (are_strong(toucher, seen->event, seen->scope) && knows_event(toucher, party, seen->event))
      return true;
  }
  return false;
}

static void observe(moe__emu_races_t *races, const moe__emu_toucher_t *toucher, record_t *record) {
  if (!record || !toucher->scope || !races->keeps_values)
    return;
  observation_t *seen = moe__emu_arena_allocate(&races->arena, sizeof *seen);
  if (!seen)
    return;
  *seen = (observation_t){record->observations, event_of(toucher), toucher->scope};
  record->observations = seen;
}

/* One of the values of a word that the thread may read; the write that made it, NULL: none. */
static uint32_t choose_value(moe__emu_races_t *races, const moe__emu_toucher_t *toucher,
                             uint64_t address, record_t **out_record, moe__emu_choose_t choose,
                             void *context) {
  record_t **word = find_word(races, address), *newest = word ? *word : NULL;
  *out_record = newest;
  uint32_t value = load_word(address);
  if (!newest || !races->keeps_values)
    return value;
  const moe__emu_party_t *party = party_of(toucher);
  record_t *records[MAX_VALUES + 1] = {newest};
  uint32_t values[MAX_VALUES + 1] = {value}, count = 1;
  for (record_t *at = newest; at && count <= MAX_VALUES; at = at->older, count++) {
    if (is_floor(toucher, party, at))
      break;
    records[count] = at->older;
    values[count] = at->before;
  }
  uint32_t chosen = count > 1 && choose(context, 2) ? choose(context, count) : 0;
  *out_record = records[chosen];
  return values[chosen];
}

void moe__emu_races_read(moe__emu_races_t *races, const moe__emu_toucher_t *toucher,
                         bool is_acquire, uint64_t address, uint32_t bytes, uint8_t *out_value,
                         moe__emu_choose_t choose, void *context) {
  uint64_t first = address / WORD * WORD;
  for (uint64_t at = first; at < address + bytes; at += WORD) {
    record_t *record;
    uint64_t begin = at < address ? address : at;
    uint64_t end = at + WORD < address + bytes ? at + WORD : address + bytes;
    /* A word that reaches out of the bytes may reach out of their buffer. */
    if (!races->has_records) {
      memcpy(out_value + (begin - address), (const void *)(uintptr_t)begin, end - begin);
      continue;
    }
    uint32_t value = choose_value(races, toucher, at, &record, choose, context);
    memcpy(out_value + (begin - address), (const uint8_t *)&value + (begin - at), end - begin);
    take_messages(races, toucher, is_acquire, record);
    observe(races, toucher, record);
  }
}

/* Room for a write to a word: that of the last one where older values are not kept. */
static record_t *new_record(moe__emu_races_t *races, record_t *newest) {
  races->has_records = true;
  if (newest && !races->keeps_values)
    return newest;
  return moe__emu_arena_allocate(&races->arena, sizeof(record_t));
}

/* Adds a write to a word: on top of the others, or below those that need not come before it. */
static void record_write(moe__emu_races_t *races, const moe__emu_toucher_t *toucher,
                         record_t **word, uint64_t address, const message_t *messages,
                         uint32_t first, uint32_t bytes, const uint8_t *value,
                         moe__emu_choose_t choose, void *context) {
  record_t *record = new_record(races, *word);
  uint32_t depth = 0, below = 0;
  if (record && races->keeps_values && choose(context, 3) == 1) {
    const moe__emu_party_t *party = party_of(toucher);
    for (const record_t *at = *word; at; at = at->older, below++) {
      /* Nothing comes between an atomic and what it has read. */
      if (is_floor(toucher, party, at) ||
          (at->is_update && are_strong(toucher, at->event, at->scope)))
        break;
    }
    depth = below ? choose(context, below + 1) : 0;
  }
  if (!record) {
    memcpy((uint8_t *)(uintptr_t)address + first, value, bytes);
    return;
  }
  *record = (record_t){.event = event_of(toucher), .scope = toucher->scope, .messages = messages};
  record_t *above = *word;
  if (depth == 0 || !above) {
    record->before = load_word(address);
    record->older = races->keeps_values ? *word : NULL;
    *word = record;
    memcpy((uint8_t *)(uintptr_t)address + first, value, bytes);
    return;
  }
  for (; depth > 1 && above->older; depth--)
    above = above->older;
  record->before = above->before;
  record->older = above->older;
  memcpy((uint8_t *)&above->before + first, value, bytes);
  above->older = record;
}

void moe__emu_races_write(moe__emu_races_t *races, const moe__emu_toucher_t *toucher,
                          bool is_release, uint64_t address, uint32_t bytes, const uint8_t *value,
                          moe__emu_choose_t choose, void *context) {
  const message_t *messages = own_messages(races, toucher, is_release, NULL);
  bool is_recorded = races->keeps_values || toucher->scope;
  for (uint64_t at = address / WORD * WORD; at < address + bytes; at += WORD) {
    uint64_t begin = at < address ? address : at;
    uint64_t end = at + WORD < address + bytes ? at + WORD : address + bytes;
    record_t **word = find_word(races, at);
    if (word && (*word || is_recorded))
      record_write(races, toucher, word, at, messages, (uint32_t)(begin - at),
                   (uint32_t)(end - begin), value + (begin - address), choose, context);
    else
      memcpy((void *)(uintptr_t)begin, value + (begin - address), end - begin);
  }
  if (messages)
    moe__emu_order_tick(toucher->order, toucher->warp);
}

uint64_t moe__emu_races_update(moe__emu_races_t *races, const moe__emu_toucher_t *toucher,
                               bool is_acquire, bool is_release, uint64_t address, uint32_t bytes,
                               moe__emu_update_t update, const void *update_context,
                               moe__emu_choose_t choose, void *context) {
  record_t **word = find_word(races, address);
  record_t *last = word ? *word : NULL, *read = last;
  bool is_atomic = !last || are_strong(toucher, last->event, last->scope);
  uint64_t old = 0;
  memcpy(&old, (const void *)(uintptr_t)address, bytes);
  /* Atomics whose scopes do not have each other's thread may lose what the other did. */
  if (!is_atomic && bytes == WORD)
    old = choose_value(races, toucher, address, &read, choose, context);
  take_messages(races, toucher, is_acquire, read);
  observe(races, toucher, read);
  uint64_t value = update(update_context, old);
  if (word && !is_atomic && bytes == WORD) {
    record_write(races, toucher, word, address, own_messages(races, toucher, is_release, NULL), 0,
                 bytes, (const uint8_t *)&value, choose, context);
    if (is_release)
      moe__emu_order_tick(toucher->order, toucher->warp);
    return old;
  }
  record_t *record = word ? new_record(races, *word) : NULL;
  if (record) {
    *record = (record_t){
        .older = races->keeps_values ? last : NULL,
        .event = event_of(toucher),
        .scope = toucher->scope,
        .is_update = is_atomic,
        .before = load_word(address),
        .messages =
            own_messages(races, toucher, is_release, is_atomic && last ? last->messages : NULL),
    };
    *word = record;
  }
  memcpy((void *)(uintptr_t)address, &value, bytes);
  /* What comes later was not handed on. */
  if (is_release)
    moe__emu_order_tick(toucher->order, toucher->warp);
  return old;
}

/* ---- Fences ---- */

/* What fence.sc of a scope share: up to three lists, from narrow to wide. */
static uint32_t shared_lists(moe__emu_races_t *races, const moe__emu_toucher_t *toucher,
                             const moe__emu_foreign_t **out[3]) {
  uint32_t count = 0;
  out[count++] = &races->cta_fences[toucher->cta];
  if (toucher->scope >= MOE__EMU_CLUSTER)
    out[count++] = &races->cta_fences[races->cta_count + toucher->order->cluster];
  if (toucher->scope >= MOE__EMU_GPU)
    out[count++] = &races->fences;
  return count;
}

static void fence_lane(moe__emu_races_t *races, const moe__emu_toucher_t *toucher, bool is_sc) {
  moe__emu_order_t *order = toucher->order;
  moe__emu_fences_t *fences = &order->warps[toucher->warp].fences[toucher->lane];
  const moe__emu_foreign_t **lists[3];
  uint32_t count = is_sc ? shared_lists(races, toucher, lists) : 0;
  for (uint32_t i = 0; i < (uint32_t)toucher->scope; i++) {
    learn(toucher, lane_bit(toucher), fences->unacquired[i]);
    fences->unacquired[i] = NULL;
  }
  for (uint32_t i = 0; i < count; i++)
    learn(toucher, lane_bit(toucher), *lists[i]);
  const moe__emu_foreign_t *knowledge =
      moe__emu_order_publish(order, toucher->warp, lane_bit(toucher), toucher->alive);
  fences->released[toucher->scope - 1] = knowledge;
  for (uint32_t i = 0; i < count; i++)
    *lists[i] = moe__emu_foreign_join(&races->arena, *lists[i], knowledge);
}

void moe__emu_races_fence(moe__emu_races_t *races, const moe__emu_toucher_t *toucher,
                          uint32_t lanes, bool is_sc) {
  for (uint32_t rest = lanes; rest; rest &= rest - 1) {
    moe__emu_toucher_t one = *toucher;
    one.lane = (uint32_t)__builtin_ctz(rest);
    fence_lane(races, &one, is_sc);
  }
  moe__emu_order_tick(toucher->order, toucher->warp);
}
