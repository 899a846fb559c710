/* Shadow.c - what each byte of shared memory remembers, and the checks of accesses against it.
 *
 * Why it exists: see Shadow.h. A byte remembers the event of the last write, and the set of reads
 * since; bytes that lie together and have the same history remember it once.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Emulator/Checks/Shadow.h"

enum { SETS_BEFORE_SWEEP = 1 << 15, MAX_READERS = 1024, ALL = 32, OBJECT_BYTES = 8 };

/* ---- Sets of readers ---- */

/* Where the number of the set of these lanes alone is kept; NULL: nowhere. */
static uint32_t *single_of(const moe__emu_access_t *access) {
  moe__emu_order_warp_t *state = &access->order->warps[access->warp];
  uint32_t lanes = access->lanes;
  if (access->kind != MOE__EMU_READ || (lanes & (lanes - 1) && lanes != UINT32_MAX))
    return NULL;
  if (state->single_event != access->as) {
    state->single_event = access->as;
    for (int i = 0; i <= ALL; i++)
      state->single_sets[i] = 0;
  }
  return &state->single_sets[lanes == UINT32_MAX ? ALL : (uint32_t)__builtin_ctz(lanes)];
}

/* Whether lanes that read now are the ones that read before. */
static bool is_own(const moe__emu_access_t *access, const moe__emu_reader_t *old) {
  return access->kind == MOE__EMU_READ && MOE__EMU_EVENT_AGENT(old->event) == access->warp &&
         !(old->lanes & ~access->lanes);
}

/* The number of the set `set` and this access, less those that are known to be done: whoever comes
 * after this access comes after those. 0 when there is no memory. */
static uint32_t add_reader(const moe__emu_access_t *access, uint32_t set) {
  moe__emu_order_t *order = access->order;
  moe__emu_reader_sets_t *sets = &order->sets;
  uint32_t *single = single_of(access);
  if (single && *single && (set == 0 || set == *single))
    return *single;
  moe__emu_reader_t readers[MAX_READERS + 1];
  moe__emu_reader_t added = {access->as, access->kind == MOE__EMU_READ ? access->lanes : 0, 0};
  uint32_t count = 0;
  for (uint32_t i = 0; i < sets->sets[set].count && count < MAX_READERS; i++) {
    const moe__emu_reader_t *old = &sets->readers[sets->sets[set].first + i];
    if (old->event == added.event)
      added.lanes |= old->lanes;
    else if (!is_own(access, old) &&
             !moe__emu_order_knows_lanes(order, access->warp, access->party, access->lanes, old))
      readers[count++] = *old;
  }
  readers[count++] = added;
  if (!single || count > 1 || added.lanes != access->lanes)
    return moe__emu_readers_number(sets, set, readers, count);
  /* Of this reader alone. The first one need not be looked for: there is none like it. */
  if (!*single)
    *single = moe__emu_readers_change(sets, 0, readers, count);
  return *single;
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

/* Whether a fence has handed a write to the async proxy. */
static bool is_fenced(const moe__emu_access_t *access, uint32_t agent, moe__emu_event_t writer) {
  const moe__emu_view_t *view = &access->party->view;
  uint32_t clock = MOE__EMU_EVENT_CLOCK(writer);
  if (view->fenced[agent] >= clock)
    return true;
  for (uint32_t i = 0; i < view->extra_count; i++) {
    const moe__emu_extra_t *extra = &view->extras[i];
    if (extra->agent == agent && extra->lane == MOE__EMU_EVENT_LANE(writer) &&
        extra->fenced >= clock)
      return true;
  }
  return false;
}

static bool check_writer(moe__emu_access_t *access, uint32_t index, moe__emu_event_t writer) {
  const moe__emu_order_t *order = access->order;
  uint32_t agent = MOE__EMU_EVENT_AGENT(writer);
  if (writer == MOE__EMU_EVENT_OBJECT)
    return conflict(access, MOE__EMU_OBJECT, index, writer);
  if (!(access->is_collective && agent == access->warp) &&
      !moe__emu_order_knows(order, access->warp, access->party, access->lanes, writer))
    return conflict(access, MOE__EMU_AFTER_WRITE, index, writer);
  if (is_async(access) && order->kinds[agent] == MOE__EMU_AGENT_WARP &&
      !is_fenced(access, agent, writer))
    return conflict(access, MOE__EMU_NOT_FENCED, index, writer);
  return true;
}

/* Reads that may wait behind loads of a stream when their warp arrives: the async proxy waits for
 * them only where a fence has come between. */
static bool check_late(moe__emu_access_t *access, uint32_t index, const moe__emu_reader_t *reader) {
  const moe__emu_order_t *order = access->order;
  uint32_t agent = MOE__EMU_EVENT_AGENT(reader->event);
  if (order->kinds[agent] != MOE__EMU_AGENT_WARP || !order->warps[agent].is_late)
    return true;
  for (uint32_t rest = reader->lanes; rest; rest &= rest - 1) {
    uint64_t lane = (uint64_t)__builtin_ctz(rest);
    moe__emu_event_t event = reader->event | lane << MOE__EMU_CLOCK_BITS;
    if (!is_fenced(access, agent, event))
      return conflict(access, MOE__EMU_LATE_READ, index, event);
  }
  return true;
}

static bool check_readers(moe__emu_access_t *access, uint32_t index, uint32_t set) {
  const moe__emu_reader_sets_t *sets = &access->order->sets;
  for (uint32_t i = 0; i < sets->sets[set].count; i++) {
    const moe__emu_reader_t *reader = &sets->readers[sets->sets[set].first + i];
    if (!moe__emu_order_knows_lanes(access->order, access->warp, access->party, access->lanes,
                                    reader)) {
      uint64_t lane = reader->lanes & ~access->lanes;
      lane = lane ? (uint64_t)__builtin_ctzll(lane) : 0;
      return conflict(access, MOE__EMU_AFTER_READ, index,
                      reader->event | lane << MOE__EMU_CLOCK_BITS);
    }
    if (access->kind == MOE__EMU_ASYNC_WRITE && !check_late(access, index, reader))
      return false;
  }
  return true;
}

/* ---- What bytes remember ---- */

/* Bytes [first, end), which have one history, and lie in one piece of MOE__EMU_HISTORY_BYTES. */
typedef struct run_t {
  uint32_t first, end;
  moe__emu_event_t writer;
  uint32_t readers;
} run_t;

static run_t run_at(const moe__emu_order_t *order, uint32_t first, uint32_t end) {
  const moe__emu_history_t *history = &order->histories[first / MOE__EMU_HISTORY_BYTES];
  uint32_t limit = (first / MOE__EMU_HISTORY_BYTES + 1) * MOE__EMU_HISTORY_BYTES;
  end = end < limit ? end : limit;
  if (!history->is_split)
    return (run_t){first, end, history->writer, history->readers};
  run_t run = {first, first + 1, order->writers[first], order->readers[first]};
  while (run.end < end && order->writers[run.end] == run.writer &&
         order->readers[run.end] == run.readers)
    run.end++;
  return run;
}

/* Gives every byte of a piece its own history. */
static void split(moe__emu_order_t *order, uint32_t piece) {
  moe__emu_history_t *history = &order->histories[piece];
  if (history->is_split)
    return;
  history->is_split = true;
  for (uint32_t i = 0; i < MOE__EMU_HISTORY_BYTES; i++) {
    order->writers[piece * MOE__EMU_HISTORY_BYTES + i] = history->writer;
    order->readers[piece * MOE__EMU_HISTORY_BYTES + i] = history->readers;
  }
}

static void set_run(moe__emu_order_t *order, const run_t *run, moe__emu_event_t writer,
                    uint32_t readers) {
  uint32_t piece = run->first / MOE__EMU_HISTORY_BYTES;
  if (run->end - run->first == MOE__EMU_HISTORY_BYTES) {
    order->histories[piece] = (moe__emu_history_t){writer, readers, false};
    return;
  }
  split(order, piece);
  for (uint32_t i = run->first; i < run->end; i++) {
    order->writers[i] = writer;
    order->readers[i] = readers;
  }
}

/* ---- Accesses ---- */

static bool read_bytes(moe__emu_access_t *access, uint32_t address, uint32_t bytes,
                       uint32_t *out_missing) {
  moe__emu_order_t *order = access->order;
  uint32_t first = address - order->base, end = first + bytes;
  run_t run;
  for (uint32_t i = first; i < end; i = run.end) {
    run = run_at(order, i, end);
    if (!access->has_last || run.writer != access->writer) {
      if (run.writer == 0) {
        if (!out_missing)
          return conflict(access, MOE__EMU_UNINITIALIZED, i, 0);
        for (uint32_t missing = i; missing < run.end; missing++)
          *out_missing |= 1U << (missing - first);
      } else if (order->enabled && !check_writer(access, i, run.writer)) {
        return false;
      } else {
        access->writer = run.writer;
      }
    }
    if (!order->enabled)
      continue;
    if (!access->has_last || run.readers != access->readers) {
      access->readers = run.readers;
      access->new_readers = add_reader(access, run.readers);
      if (access->new_readers == 0)
        return conflict(access, MOE__EMU_ORDER_MEMORY, i, 0);
    }
    access->has_last = run.writer != 0;
    if (run.readers != access->new_readers)
      set_run(order, &run, run.writer, access->new_readers);
  }
  return true;
}

/* Whether lanes of a warp write the same value, between the same two barriers: whichever is the
 * last, that is what is there. */
static bool is_same_again(const moe__emu_access_t *access, uint32_t at, moe__emu_event_t writer) {
  uint64_t lane_bits = UINT64_C(63) << MOE__EMU_CLOCK_BITS;
  return access->kind == MOE__EMU_WRITE && access->value && (writer & ~lane_bits) == access->as &&
         access->value[at] == access->memory[at];
}

static bool write_bytes(moe__emu_access_t *access, uint32_t address, uint32_t bytes) {
  moe__emu_order_t *order = access->order;
  uint32_t first = address - order->base;
  moe__emu_event_t as = access->as;
  if (!is_async(access))
    as |= (uint64_t)__builtin_ctz(access->lanes) << MOE__EMU_CLOCK_BITS;
  run_t run;
  for (uint32_t i = first; i < first + bytes; i = run.end) {
    run = run_at(order, i, first + bytes);
    bool is_new =
        !access->has_last || run.writer != access->writer || run.readers != access->readers;
    if (is_new && (order->enabled || run.writer == MOE__EMU_EVENT_OBJECT)) {
      if (run.writer && !is_same_again(access, i - first, run.writer) &&
          !check_writer(access, i, run.writer))
        return false;
      if (run.readers && !check_readers(access, i, run.readers))
        return false;
      access->writer = run.writer;
      access->readers = run.readers;
      access->has_last = true;
    }
    set_run(order, &run, as, 0);
  }
  return true;
}

static bool touch_atomically(moe__emu_access_t *access, uint32_t address, uint32_t bytes) {
  moe__emu_order_t *order = access->order;
  uint32_t first = address - order->base;
  moe__emu_event_t as = access->as | (uint64_t)__builtin_ctz(access->lanes) << MOE__EMU_CLOCK_BITS;
  run_t run;
  for (uint32_t i = first; i < first + bytes; i = run.end) {
    run = run_at(order, i, first + bytes);
    if (run.writer == 0 || run.writer == MOE__EMU_EVENT_OBJECT)
      return conflict(access, run.writer ? MOE__EMU_OBJECT : MOE__EMU_UNINITIALIZED, i, run.writer);
    set_run(order, &run, as, 0);
  }
  return true;
}

moe__emu_access_t moe__emu_access_begin(moe__emu_order_t *order, uint32_t warp, uint32_t active,
                                        moe__emu_access_kind_t kind, moe__emu_event_t as) {
  uint32_t first = (uint32_t)__builtin_ctz(active);
  moe__emu_access_t access = {
      .order = order,
      .party = moe__emu_order_party(order, warp, first),
      .warp = warp,
      .lanes = 1U << first,
      .kind = kind,
      .as = as,
  };
  if (!is_async(&access)) {
    order->warps[warp].touched |= active;
    access.as = MOE__EMU_EVENT_OF(0, warp, 0, order->warps[warp].clock);
  }
  return access;
}

bool moe__emu_access_bytes(moe__emu_access_t *access, uint32_t lanes, uint32_t address,
                           uint32_t bytes, uint32_t *out_missing) {
  moe__emu_order_t *order = access->order;
  /* A sweep renumbers the sets, also those of the byte before. */
  if (order->sets.count > SETS_BEFORE_SWEEP) {
    access->has_last = false;
    for (uint32_t w = 0; w < order->warp_count; w++)
      order->warps[w].single_event = 0;
    for (uint32_t piece = 0; piece <= order->bytes / MOE__EMU_HISTORY_BYTES; piece++)
      split(order, piece);
    if (!moe__emu_readers_sweep(&order->sets, order->readers, order->bytes))
      return conflict(access, MOE__EMU_ORDER_MEMORY, 0, 0);
  }
  if (lanes != access->lanes) {
    access->lanes = lanes;
    access->has_last = false;
    if (!(access->party->lanes & lanes))
      access->party = moe__emu_order_party(order, access->warp, (uint32_t)__builtin_ctz(lanes));
  }
  switch (access->kind) {
  case MOE__EMU_READ:
  case MOE__EMU_ASYNC_READ:
    return read_bytes(access, address, bytes, out_missing);
  case MOE__EMU_ATOMIC:
    return touch_atomically(access, address, bytes);
  default:
    return write_bytes(access, address, bytes);
  }
}

void moe__emu_order_object(moe__emu_order_t *order, uint32_t address, bool is_object) {
  uint32_t first = address - order->base, end = first + OBJECT_BYTES;
  run_t run;
  for (uint32_t i = first; i < end; i = run.end) {
    run = run_at(order, i, end);
    set_run(order, &run, is_object ? MOE__EMU_EVENT_OBJECT : 0, 0);
  }
}
