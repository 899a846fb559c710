/* Order.c - views and parties: who knows what to be done.
 *
 * Why it exists: see Order.h. The bytes' side is Shadow.c and Global.c.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Emulator/Checks/Order.h"

#include <stdlib.h>
#include <string.h>

enum { HAS_BEGUN = 1 /* clock of a warp that has done nothing */, LANES = 32 };

static uint32_t larger(uint32_t a, uint32_t b) {
  return a > b ? a : b;
}

/* ---- Views ---- */

/* What is not yet an agent's is 0 in every view. */
static void copy_view(moe__emu_view_t *into, const moe__emu_view_t *from, uint32_t agents) {
  memcpy(into->done, from->done, agents * sizeof *into->done);
  memcpy(into->fenced, from->fenced, agents * sizeof *into->fenced);
  memcpy(into->extras, from->extras, from->extra_count * sizeof *from->extras);
  into->extra_count = from->extra_count;
  into->foreign = from->foreign;
  into->has_waited = from->has_waited;
}

void moe__emu_view_move(const moe__emu_order_t *order, moe__emu_view_t *into,
                        moe__emu_view_t *from) {
  uint32_t agents = order->agent_count;
  copy_view(into, from, agents);
  memset(from->done, 0, agents * sizeof *from->done);
  memset(from->fenced, 0, agents * sizeof *from->fenced);
  from->extra_count = 0;
  from->foreign = NULL;
  from->has_waited = false;
}

/* Notes how far a lane is. Where there is no room, its warp is taken to be as far: what that
 * hides is not reported. */
static void add_extra(moe__emu_view_t *view, const moe__emu_extra_t *extra) {
  uint32_t kept = 0, agent = extra->agent;
  moe__emu_extra_t added = *extra;
  for (uint32_t i = 0; i < view->extra_count; i++) {
    moe__emu_extra_t *old = &view->extras[i];
    if (old->agent == agent && old->lane == extra->lane) {
      added.done = larger(added.done, old->done);
      added.fenced = larger(added.fenced, old->fenced);
    } else if (old->done > view->done[old->agent] || old->fenced > view->fenced[old->agent]) {
      view->extras[kept++] = *old;
    }
  }
  view->extra_count = kept;
  if (added.done <= view->done[agent] && added.fenced <= view->fenced[agent])
    return;
  if (kept == MOE__EMU_MAX_EXTRAS) {
    view->done[agent] = larger(view->done[agent], added.done);
    view->fenced[agent] = larger(view->fenced[agent], added.fenced);
    return;
  }
  view->extras[view->extra_count++] = added;
}

void moe__emu_view_join(const moe__emu_order_t *order, moe__emu_view_t *into,
                        const moe__emu_view_t *from) {
  uint32_t agents = order->agent_count;
  for (uint32_t i = 0; i < agents; i++)
    into->done[i] = larger(into->done[i], from->done[i]);
  for (uint32_t i = 0; i < agents; i++)
    into->fenced[i] = larger(into->fenced[i], from->fenced[i]);
  for (uint32_t i = 0; i < from->extra_count; i++)
    add_extra(into, &from->extras[i]);
  if (from->foreign)
    into->foreign = moe__emu_foreign_join(order->arena, into->foreign, from->foreign);
  into->has_waited |= from->has_waited;
}

void moe__emu_view_learn_foreign(const moe__emu_order_t *order, moe__emu_view_t *into,
                                 const moe__emu_foreign_t *foreign) {
  if (!foreign)
    return;
  into->foreign = moe__emu_foreign_join(order->arena, into->foreign, foreign);
  const moe__emu_snapshot_t *own = moe__emu_foreign_find(foreign, order->cluster);
  if (!own)
    return;
  for (uint32_t i = 0; i < own->agent_count; i++)
    into->done[i] = larger(into->done[i], own->done[i]);
  for (uint32_t i = 0; i < own->extra_count; i++)
    add_extra(into, &(moe__emu_extra_t){(uint16_t)own->extras[i].agent,
                                        (uint16_t)own->extras[i].lane, own->extras[i].done, 0});
}

static uint32_t extra_done(const moe__emu_view_t *view, uint32_t agent, uint32_t lane) {
  for (uint32_t i = 0; i < view->extra_count; i++) {
    if (view->extras[i].agent == agent && view->extras[i].lane == lane)
      return view->extras[i].done;
  }
  return 0;
}

/* ---- Creation ---- */

/* One more than needed: there may be no shared memory. */
static size_t history_count(uint32_t bytes) {
  return bytes / MOE__EMU_HISTORY_BYTES + 1;
}

bool moe__emu_order_create(moe__emu_order_t *order, uint32_t ctas, uint32_t warps, uint32_t base,
                           uint32_t bytes) {
  *order = (moe__emu_order_t){
      .base = base,
      .bytes = ctas * bytes,
      .histories = calloc(history_count(ctas * bytes), sizeof *order->histories),
      .writers =
          malloc(history_count(ctas * bytes) * MOE__EMU_HISTORY_BYTES * sizeof *order->writers),
      .readers =
          malloc(history_count(ctas * bytes) * MOE__EMU_HISTORY_BYTES * sizeof *order->readers),
      .warps = calloc((size_t)ctas * warps, sizeof *order->warps),
      .warp_count = ctas * warps,
      .warps_per_cta = warps,
      .enabled = true,
  };
  bool is_ok = moe__emu_readers_create(&order->sets) && order->histories && order->writers &&
               order->readers && order->warps;
  for (uint32_t w = 0; is_ok && w < order->warp_count; w++) {
    order->warps[w].parties[0] = calloc(1, sizeof *order->warps[w].parties[0]);
    is_ok = order->warps[w].parties[0] != NULL;
  }
  return is_ok;
}

void moe__emu_order_free(moe__emu_order_t *order) {
  for (uint32_t w = 0; order->warps && w < order->warp_count; w++) {
    for (uint32_t p = 0; p < LANES; p++)
      free(order->warps[w].parties[p]);
  }
  free(order->histories);
  free(order->writers);
  free(order->readers);
  moe__emu_readers_free(&order->sets);
  free(order->warps);
  *order = (moe__emu_order_t){0};
}

void moe__emu_order_reset(moe__emu_order_t *order, uint32_t cluster) {
  memset(order->histories, 0, history_count(order->bytes) * sizeof *order->histories);
  moe__emu_readers_reset(&order->sets);
  order->cluster = cluster;
  order->agent_count = 0;
  for (uint32_t w = 0; w < order->warp_count; w++) {
    moe__emu_order_warp_t *warp = &order->warps[w];
    moe__emu_order_agent(order, MOE__EMU_AGENT_WARP, w / order->warps_per_cta,
                         w % order->warps_per_cta);
    memset(warp->parties[0], 0, sizeof *warp->parties[0]);
    warp->parties[0]->lanes = UINT32_MAX;
    for (uint32_t i = 0; i < LANES; i++)
      warp->parties[0]->known[i] = HAS_BEGUN;
    warp->party_count = 1;
    warp->touched = 0;
    warp->clock = HAS_BEGUN + 1;
    warp->single_event = 0;
    memset(warp->fences, 0, sizeof warp->fences);
    warp->has_streamed = warp->is_late = false;
  }
  for (uint32_t w = 0; order->has_proxies && w < order->warp_count; w++)
    moe__emu_order_agent(order, MOE__EMU_AGENT_PROXY, order->ranks[w], w);
}

int moe__emu_order_agent(moe__emu_order_t *order, moe__emu_agent_kind_t kind, uint32_t rank,
                         uint32_t owner) {
  if (order->agent_count == MOE__EMU_MAX_AGENTS)
    return -1;
  order->kinds[order->agent_count] = kind;
  order->ranks[order->agent_count] = rank;
  order->owners[order->agent_count] = owner;
  return (int)order->agent_count++;
}

/* ---- Parties ---- */

/* A clock that has reached its end stands still: later conflicts may then go unseen. */
static void tick(moe__emu_order_warp_t *state) {
  state->clock += state->clock < MOE__EMU_MAX_CLOCK;
}

void moe__emu_order_tick(moe__emu_order_t *order, uint32_t warp) {
  tick(&order->warps[warp]);
}

moe__emu_party_t *moe__emu_order_party(const moe__emu_order_t *order, uint32_t warp,
                                       uint32_t lane) {
  const moe__emu_order_warp_t *state = &order->warps[warp];
  uint32_t p = 0;
  while (p + 1 < state->party_count && !(state->parties[p]->lanes >> lane & 1))
    p++;
  return state->parties[p];
}

const moe__emu_view_t *moe__emu_order_view(const moe__emu_order_t *order, uint32_t warp,
                                           uint32_t lane) {
  return &moe__emu_order_party(order, warp, lane)->view;
}

/* A copy of a party, of which lanes go their own way. The old one where there is no memory. */
static moe__emu_party_t *split(moe__emu_order_t *order, moe__emu_order_warp_t *state,
                               moe__emu_party_t *party, uint32_t lanes) {
  uint32_t number = state->party_count;
  if (!state->parties[number])
    state->parties[number] = calloc(1, sizeof *state->parties[number]);
  moe__emu_party_t *added = state->parties[number];
  if (!added)
    return party;
  copy_view(&added->view, &party->view, order->agent_count);
  /* Agents that are new since the party was in use last. */
  memset(added->view.done + order->agent_count, 0,
         (MOE__EMU_MAX_AGENTS - order->agent_count) * sizeof *added->view.done);
  memset(added->view.fenced + order->agent_count, 0,
         (MOE__EMU_MAX_AGENTS - order->agent_count) * sizeof *added->view.fenced);
  memcpy(added->known, party->known, sizeof added->known);
  added->lanes = lanes;
  party->lanes &= ~lanes;
  state->party_count++;
  return added;
}

/* The first party that has a lane of `lanes`, made one of those lanes alone. */
static moe__emu_party_t *take(moe__emu_order_t *order, moe__emu_order_warp_t *state, uint32_t lanes,
                              uint32_t alive) {
  for (uint32_t p = 0; p < state->party_count; p++) {
    moe__emu_party_t *party = state->parties[p];
    uint32_t common = party->lanes & lanes;
    if (common)
      return party->lanes & alive & ~lanes ? split(order, state, party, common) : party;
  }
  return state->parties[0];
}

/* The same of the lanes that are left of some; takes them from those. */
static moe__emu_party_t *next(moe__emu_order_t *order, moe__emu_order_warp_t *state, uint32_t *rest,
                              uint32_t alive) {
  moe__emu_party_t *party = take(order, state, *rest, alive);
  *rest = party->lanes & *rest ? *rest & ~party->lanes : 0;
  return party;
}

moe__emu_party_t *moe__emu_order_separate(moe__emu_order_t *order, uint32_t warp, uint32_t lanes,
                                          uint32_t alive) {
  return take(order, &order->warps[warp], lanes, alive);
}

bool moe__emu_order_knows(const moe__emu_order_t *order, uint32_t warp,
                          const moe__emu_party_t *party, uint32_t lanes, moe__emu_event_t event) {
  uint32_t agent = MOE__EMU_EVENT_AGENT(event), lane = MOE__EMU_EVENT_LANE(event);
  uint32_t clock = MOE__EMU_EVENT_CLOCK(event);
  (void)order;
  if (agent == warp && lane < LANES && (party->known[lane] >= clock || lanes == 1U << lane))
    return true;
  if (party->view.done[agent] >= clock)
    return true;
  return party->view.extra_count && extra_done(&party->view, agent, lane) >= clock;
}

bool moe__emu_order_knows_lanes(const moe__emu_order_t *order, uint32_t warp,
                                const moe__emu_party_t *party, uint32_t lanes,
                                const moe__emu_reader_t *reader) {
  uint32_t agent = MOE__EMU_EVENT_AGENT(reader->event);
  uint32_t clock = MOE__EMU_EVENT_CLOCK(reader->event);
  if (order->kinds[agent] != MOE__EMU_AGENT_WARP || (agent != warp && !party->view.extra_count))
    return party->view.done[agent] >= clock;
  if (party->view.done[agent] >= clock)
    return true;
  for (uint32_t rest = reader->lanes; rest; rest &= rest - 1) {
    uint32_t lane = (uint32_t)__builtin_ctz(rest);
    bool is_own = agent == warp && (party->known[lane] >= clock || lanes == 1U << lane);
    if (!is_own && extra_done(&party->view, agent, lane) < clock)
      return false;
  }
  return true;
}

/* ---- Handing on ---- */

/* Up to which clock a lane's work may be handed on by the party: by lanes of `active`. */
static uint32_t clock_of(const moe__emu_order_warp_t *state, const moe__emu_party_t *party,
                         uint32_t active, uint32_t lane) {
  bool is_own = active >> lane & 1, is_at_rest = !(state->touched >> lane & 1);
  return is_own || is_at_rest ? state->clock : party->known[lane];
}

/* Up to which clock the work of all living lanes may be. */
static uint32_t common_clock(const moe__emu_order_warp_t *state, const moe__emu_party_t *party,
                             uint32_t active, uint32_t alive) {
  uint32_t clock = state->clock;
  for (uint32_t rest = state->touched & alive & ~active; rest; rest &= rest - 1) {
    uint32_t known = party->known[__builtin_ctz(rest)];
    clock = known < clock ? known : clock;
  }
  return clock;
}

uint32_t moe__emu_order_own_clock(const moe__emu_order_t *order, uint32_t warp, uint32_t active,
                                  uint32_t alive) {
  const moe__emu_order_warp_t *state = &order->warps[warp];
  return common_clock(state, moe__emu_order_party(order, warp, (uint32_t)__builtin_ctz(active)),
                      active, alive);
}

/* Adds what the warp itself did to a view. */
static void add_own(const moe__emu_order_warp_t *state, const moe__emu_party_t *party,
                    uint32_t warp, uint32_t active, uint32_t alive, moe__emu_view_t *into) {
  uint32_t common = common_clock(state, party, active, alive);
  into->done[warp] = larger(into->done[warp], common);
  if (common == state->clock)
    return;
  /* Of the lanes that hand on, the first one too, though it may have touched nothing: what it has
   * waited for is done. */
  for (uint32_t rest = (state->touched | (active & -active)) & alive; rest; rest &= rest - 1) {
    uint32_t lane = (uint32_t)__builtin_ctz(rest), clock = clock_of(state, party, active, lane);
    if (clock > common)
      add_extra(into, &(moe__emu_extra_t){(uint16_t)warp, (uint16_t)lane, clock, 0});
  }
}

void moe__emu_order_release(moe__emu_order_t *order, uint32_t warp, uint32_t active, uint32_t alive,
                            moe__emu_view_t *into) {
  moe__emu_order_warp_t *state = &order->warps[warp];
  for (uint32_t p = 0; p < state->party_count; p++) {
    const moe__emu_party_t *party = state->parties[p];
    uint32_t lanes = party->lanes & active;
    if (!lanes)
      continue;
    moe__emu_view_join(order, into, &party->view);
    add_own(state, party, warp, active, alive, into);
  }
  tick(state);
}

const moe__emu_foreign_t *moe__emu_order_publish(moe__emu_order_t *order, uint32_t warp,
                                                 uint32_t active, uint32_t alive) {
  const moe__emu_order_warp_t *state = &order->warps[warp];
  const moe__emu_party_t *party =
      moe__emu_order_party(order, warp, (uint32_t)__builtin_ctz(active));
  moe__emu_view_t *view = malloc(sizeof *view);
  if (!view)
    return NULL;
  copy_view(view, &party->view, order->agent_count);
  add_own(state, party, warp, active, alive, view);
  moe__emu_snapshot_t *snapshot = moe__emu_arena_allocate(order->arena, sizeof *snapshot);
  uint32_t *done = moe__emu_arena_allocate(order->arena, order->agent_count * sizeof *done);
  const moe__emu_foreign_t *foreign = NULL;
  if (snapshot && done) {
    *snapshot = (moe__emu_snapshot_t){.agent_count = order->agent_count, .done = done};
    /* Of bulk stores, others want to know what has been written. */
    for (uint32_t i = 0; i < order->agent_count; i++)
      done[i] = order->kinds[i] == MOE__EMU_AGENT_BULK ? view->fenced[i] : view->done[i];
    if (view->extra_count)
      snapshot->extras =
          moe__emu_arena_allocate(order->arena, view->extra_count * sizeof *snapshot->extras);
    for (uint32_t i = 0; snapshot->extras && i < view->extra_count; i++) {
      snapshot->extras[i].agent = view->extras[i].agent;
      snapshot->extras[i].lane = view->extras[i].lane;
      snapshot->extras[i].done = view->extras[i].done;
      snapshot->extra_count++;
    }
    foreign = moe__emu_foreign_join(order->arena, view->foreign,
                                    moe__emu_foreign_make(order->arena, order->cluster, snapshot));
  }
  free(view);
  return foreign;
}

/* ---- Learning ---- */

void moe__emu_order_acquire(moe__emu_order_t *order, uint32_t warp, uint32_t active, uint32_t alive,
                            const moe__emu_view_t *from) {
  moe__emu_order_warp_t *state = &order->warps[warp];
  for (uint32_t rest = active; rest;) {
    moe__emu_party_t *party = next(order, state, &rest, alive);
    moe__emu_view_join(order, &party->view, from);
  }
}

void moe__emu_order_learn(moe__emu_order_t *order, uint32_t warp, uint32_t active, uint32_t alive,
                          uint32_t agent, uint32_t clock, bool is_written) {
  moe__emu_order_warp_t *state = &order->warps[warp];
  for (uint32_t rest = active; rest;) {
    moe__emu_party_t *party = next(order, state, &rest, alive);
    party->view.done[agent] = larger(party->view.done[agent], clock);
    if (is_written)
      party->view.fenced[agent] = larger(party->view.fenced[agent], clock);
  }
}

void moe__emu_order_wait_launches(moe__emu_order_t *order, uint32_t warp, uint32_t active,
                                  uint32_t alive) {
  moe__emu_order_warp_t *state = &order->warps[warp];
  for (uint32_t rest = active; rest;) {
    moe__emu_party_t *party = next(order, state, &rest, alive);
    party->view.has_waited = true;
  }
}

/* Takes the lanes out of the parties, and puts what those know into one of their own. */
void moe__emu_order_sync(moe__emu_order_t *order, uint32_t warp, uint32_t active, uint32_t alive) {
  moe__emu_order_warp_t *state = &order->warps[warp];
  bool is_all = !(alive & ~active);
  moe__emu_party_t *met = take(order, state, active, alive);
  for (uint32_t p = 0; p < state->party_count;) {
    moe__emu_party_t *party = state->parties[p];
    if (party == met || !(party->lanes & (is_all ? UINT32_MAX : active))) {
      p++;
      continue;
    }
    moe__emu_view_join(order, &met->view, &party->view);
    for (uint32_t i = 0; i < LANES; i++)
      met->known[i] = larger(met->known[i], party->known[i]);
    party->lanes &= is_all ? 0 : ~active;
    if (party->lanes & alive) {
      p++;
      continue;
    }
    /* The spare one keeps its place in the list. */
    state->parties[p] = state->parties[--state->party_count];
    state->parties[state->party_count] = party;
  }
  met->lanes = is_all ? UINT32_MAX : active;
  for (uint32_t rest = active; rest; rest &= rest - 1)
    met->known[__builtin_ctz(rest)] = state->clock;
  if (is_all)
    state->touched = 0;
  tick(state);
}

/* Hands what a view knows of accesses to global memory to the async proxy. */
static void fence_global(moe__emu_order_t *order, const moe__emu_order_warp_t *state,
                         const moe__emu_party_t *party, uint32_t warp, uint32_t active,
                         uint32_t alive, moe__emu_view_t *view) {
  uint32_t warps = order->warp_count, count = view->extra_count;
  uint32_t common = common_clock(state, party, active, alive);
  moe__emu_extra_t extras[MOE__EMU_MAX_EXTRAS];
  memcpy(extras, view->extras, count * sizeof *extras);
  for (uint32_t w = 0; w < warps; w++)
    view->done[warps + w] = larger(view->done[warps + w], view->done[w]);
  view->done[warps + warp] = larger(view->done[warps + warp], common);
  for (uint32_t i = 0; i < count; i++) {
    extras[i].agent = (uint16_t)(extras[i].agent + warps);
    if (extras[i].agent < 2 * warps)
      add_extra(view, &extras[i]);
  }
  for (uint32_t lanes = common == state->clock ? 0 : state->touched & alive; lanes;
       lanes &= lanes - 1) {
    uint32_t lane = (uint32_t)__builtin_ctz(lanes), clock = clock_of(state, party, active, lane);
    add_extra(view, &(moe__emu_extra_t){(uint16_t)(warps + warp), (uint16_t)lane, clock, 0});
  }
  view->foreign = moe__emu_foreign_repeat(order->arena, view->foreign, warps);
}

void moe__emu_order_fence(moe__emu_order_t *order, uint32_t warp, uint32_t active, uint32_t alive,
                          bool is_shared, bool is_global) {
  moe__emu_order_warp_t *state = &order->warps[warp];
  for (uint32_t rest = active; rest;) {
    moe__emu_party_t *party = next(order, state, &rest, alive);
    moe__emu_view_t *view = &party->view;
    if (is_global && order->has_proxies)
      fence_global(order, state, party, warp, active, alive, view);
    if (!is_shared)
      continue;
    uint32_t common = common_clock(state, party, active, alive);
    for (uint32_t i = 0; i < order->agent_count; i++) {
      if (order->kinds[i] == MOE__EMU_AGENT_WARP)
        view->fenced[i] = larger(view->fenced[i], view->done[i]);
    }
    for (uint32_t i = 0; i < view->extra_count; i++)
      view->extras[i].fenced = larger(view->extras[i].fenced, view->extras[i].done);
    view->fenced[warp] = larger(view->fenced[warp], common);
    for (uint32_t lanes = common == state->clock ? 0 : state->touched & alive; lanes;
         lanes &= lanes - 1) {
      uint32_t lane = (uint32_t)__builtin_ctz(lanes), clock = clock_of(state, party, active, lane);
      add_extra(view, &(moe__emu_extra_t){(uint16_t)warp, (uint16_t)lane, 0, clock});
    }
  }
  tick(state);
}
