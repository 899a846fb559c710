/* Values.c - the values that reads of global memory may return, and the knowledge that travels with
 * them.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Emulator/Checks/GlobalParts.h"

#include <string.h>

enum { WORD = MOE__EMU_RACE_WORD, MAX_VALUES = 64 };

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
struct moe__emu_written_t {
  moe__emu_written_t *older;
  moe__emu_event_t event;
  moe__emu_scope_t scope;
  bool is_update, is_whole; /* is_whole: all bytes of the word */
  uint32_t before;          /* the word's value before it */
  const message_t *messages;
  observation_t *observations;
};

typedef moe__emu_written_t record_t;

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
    const moe__emu_foreign_t *knowledge = moe__emu_order_publish(
        order, toucher->warp, moe__emu_toucher_lane(toucher), toucher->alive);
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
  if (!record || !moe__emu_toucher_is_strong(toucher, record->event, record->scope))
    return;
  for (const message_t *message = record->messages; message; message = message->next) {
    moe__emu_scope_t needed = moe__emu_toucher_scope(toucher, message->cluster, message->rank);
    if (message->scope < needed)
      continue;
    if (is_acquire && toucher->scope >= needed)
      learn(toucher, moe__emu_toucher_lane(toucher), message->knowledge);
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
  if (moe__emu_toucher_knows_event(toucher, party, record->event))
    return true;
  if (!moe__emu_toucher_is_strong(toucher, record->event, record->scope))
    return false;
  for (const observation_t *seen = record->observations; seen; seen = seen->next) {
    if (moe__emu_toucher_is_strong(toucher, seen->event, seen->scope) &&
        moe__emu_toucher_knows_event(toucher, party, seen->event))
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
  *seen = (observation_t){record->observations, moe__emu_toucher_event(toucher), toucher->scope};
  record->observations = seen;
}

/* One of the values of a word that the thread may read; the write that made it, NULL: none. */
static uint32_t choose_value(moe__emu_races_t *races, const moe__emu_toucher_t *toucher,
                             uint64_t address, record_t **out_record, moe__emu_choose_t choose,
                             void *context) {
  record_t **word = moe__emu_races_word(races, address), *newest = word ? *word : NULL;
  *out_record = newest;
  uint32_t value = load_word(address);
  if (!newest || !races->keeps_values)
    return value;
  const moe__emu_party_t *party = moe__emu_toucher_party(toucher);
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
  bool is_whole = bytes == WORD;
  if (record && is_whole && races->keeps_values && choose(context, 3) == 1) {
    const moe__emu_party_t *party = moe__emu_toucher_party(toucher);
    for (const record_t *at = *word; at; at = at->older, below++) {
      /* Nothing comes between an atomic and what it has read. Other bytes stay as they are. */
      if (is_floor(toucher, party, at) || !at->is_whole ||
          (at->is_update && moe__emu_toucher_is_strong(toucher, at->event, at->scope)))
        break;
    }
    depth = below ? choose(context, below + 1) : 0;
  }
  if (!record) {
    memcpy((uint8_t *)(uintptr_t)address + first, value, bytes);
    return;
  }
  *record = (record_t){.event = moe__emu_toucher_event(toucher),
                       .scope = toucher->scope,
                       .is_whole = is_whole,
                       .messages = messages};
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
    record_t **word = moe__emu_races_word(races, at);
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
  record_t **word = moe__emu_races_word(races, address);
  record_t *last = word ? *word : NULL, *read = last;
  bool is_atomic = !last || moe__emu_toucher_is_strong(toucher, last->event, last->scope);
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
        .event = moe__emu_toucher_event(toucher),
        .scope = toucher->scope,
        .is_update = is_atomic,
        .is_whole = true,
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
    learn(toucher, moe__emu_toucher_lane(toucher), fences->unacquired[i]);
    fences->unacquired[i] = NULL;
  }
  for (uint32_t i = 0; i < count; i++)
    learn(toucher, moe__emu_toucher_lane(toucher), *lists[i]);
  const moe__emu_foreign_t *knowledge =
      moe__emu_order_publish(order, toucher->warp, moe__emu_toucher_lane(toucher), toucher->alive);
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
