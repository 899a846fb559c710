/* Order.c - views: who knows what to be done.
 *
 * Why it exists: see Order.h. The bytes' side is Shadow.c.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Emulator/Order.h"

#include <stdlib.h>
#include <string.h>

enum { HAS_BEGUN = 1 }; /* clock of a warp that has done nothing */

static uint32_t larger(uint32_t a, uint32_t b) {
  return a > b ? a : b;
}

/* What is not yet an agent's is 0 in every view. */
static void copy_view(moe__emu_view_t *into, const moe__emu_view_t *from, uint32_t agents) {
  memcpy(into->done, from->done, agents * sizeof *into->done);
  memcpy(into->fenced, from->fenced, agents * sizeof *into->fenced);
}

void moe__emu_view_move(moe__emu_view_t *into, moe__emu_view_t *from, uint32_t agents) {
  copy_view(into, from, agents);
  memset(from->done, 0, agents * sizeof *from->done);
  memset(from->fenced, 0, agents * sizeof *from->fenced);
}

void moe__emu_view_join(moe__emu_view_t *into, const moe__emu_view_t *from, uint32_t agents) {
  for (uint32_t i = 0; i < agents; i++)
    into->done[i] = larger(into->done[i], from->done[i]);
  for (uint32_t i = 0; i < agents; i++)
    into->fenced[i] = larger(into->fenced[i], from->fenced[i]);
}

bool moe__emu_order_create(moe__emu_order_t *order, uint32_t blocks, uint32_t warps, uint32_t base,
                           uint32_t bytes) {
  enum { SETS = 256, EVENTS = 1024, TABLE = 1024 };
  *order = (moe__emu_order_t){
      .base = base,
      .bytes = blocks * bytes,
      .writers = calloc((size_t)blocks * bytes + 1, sizeof *order->writers),
      .readers = calloc((size_t)blocks * bytes + 1, sizeof *order->readers),
      .sets = malloc(SETS * sizeof *order->sets),
      .set_capacity = SETS,
      .events = malloc(EVENTS * sizeof *order->events),
      .event_capacity = EVENTS,
      .table = calloc(TABLE, sizeof *order->table),
      .table_capacity = TABLE,
      .warps = calloc((size_t)blocks * warps, sizeof *order->warps),
      .warp_count = blocks * warps,
      .warps_per_block = warps,
      .enabled = true,
  };
  return order->writers && order->readers && order->sets && order->events && order->table &&
         order->warps;
}

void moe__emu_order_free(moe__emu_order_t *order) {
  free(order->writers);
  free(order->readers);
  free(order->sets);
  free(order->events);
  free(order->table);
  free(order->warps);
  *order = (moe__emu_order_t){0};
}

void moe__emu_order_reset(moe__emu_order_t *order) {
  memset(order->writers, 0, order->bytes * sizeof *order->writers);
  memset(order->readers, 0, order->bytes * sizeof *order->readers);
  memset(order->table, 0, order->table_capacity * sizeof *order->table);
  memset(order->warps, 0, order->warp_count * sizeof *order->warps);
  order->event_count = 0;
  order->sets[0] = (moe__emu_readers_t){0};
  order->set_count = 1;
  order->agent_count = 0;
  for (uint32_t w = 0; w < order->warp_count; w++) {
    moe__emu_order_agent(order, MOE__EMU_AGENT_WARP, w / order->warps_per_block,
                         w % order->warps_per_block);
    order->warps[w].clock = HAS_BEGUN + 1;
    order->warps[w].synced_clock = HAS_BEGUN;
  }
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

/* A clock that has reached its end stands still: later conflicts may then go unseen. */
static void tick(moe__emu_order_warp_t *state) {
  state->clock += state->clock < MOE__EMU_MAX_CLOCK;
}

static bool is_some(const moe__emu_order_warp_t *warp, uint32_t active) {
  return warp->some_lanes && !(active & ~warp->some_lanes);
}

const moe__emu_view_t *moe__emu_order_view(const moe__emu_order_t *order, uint32_t warp,
                                           uint32_t active) {
  const moe__emu_order_warp_t *state = &order->warps[warp];
  return is_some(state, active) ? &state->some : &state->all;
}

/* The view that lanes `active` alone may add to. What lanes learn apart is kept apart, but two such
 * groups of one warp share what they learn. */
static moe__emu_view_t *own_view(const moe__emu_order_t *order, moe__emu_order_warp_t *state,
                                 uint32_t active, uint32_t alive) {
  if (!(alive & ~active))
    return &state->all;
  if (state->some_lanes == 0)
    copy_view(&state->some, &state->all, order->agent_count);
  state->some_lanes |= active;
  return &state->some;
}

static uint32_t own_clock(const moe__emu_order_warp_t *state, uint32_t active) {
  return state->touched & ~active ? state->synced_clock : state->clock;
}

uint32_t moe__emu_order_own_clock(const moe__emu_order_t *order, uint32_t warp, uint32_t active) {
  return own_clock(&order->warps[warp], active);
}

void moe__emu_order_release(moe__emu_order_t *order, uint32_t warp, uint32_t active,
                            moe__emu_view_t *into) {
  moe__emu_order_warp_t *state = &order->warps[warp];
  moe__emu_view_join(into, moe__emu_order_view(order, warp, active), order->agent_count);
  into->done[warp] = larger(into->done[warp], own_clock(state, active));
  state->touched &= ~active;
  tick(state);
}

static void merge(moe__emu_order_t *order, moe__emu_order_warp_t *state) {
  if (state->some_lanes)
    moe__emu_view_join(&state->all, &state->some, order->agent_count);
  state->some_lanes = 0;
}

void moe__emu_order_acquire(moe__emu_order_t *order, uint32_t warp, uint32_t active, uint32_t alive,
                            const moe__emu_view_t *from) {
  moe__emu_order_warp_t *state = &order->warps[warp];
  moe__emu_view_t *view = own_view(order, state, active, alive);
  moe__emu_view_join(view, from, order->agent_count);
  if (view == &state->all && state->some_lanes)
    moe__emu_view_join(&state->some, from, order->agent_count);
}

void moe__emu_order_learn(moe__emu_order_t *order, uint32_t warp, uint32_t active, uint32_t alive,
                          uint32_t agent, uint32_t clock) {
  moe__emu_order_warp_t *state = &order->warps[warp];
  moe__emu_view_t *view = own_view(order, state, active, alive);
  view->done[agent] = larger(view->done[agent], clock);
  if (view == &state->all && state->some_lanes)
    state->some.done[agent] = larger(state->some.done[agent], clock);
}

void moe__emu_order_sync(moe__emu_order_t *order, uint32_t warp, uint32_t active, uint32_t alive) {
  moe__emu_order_warp_t *state = &order->warps[warp];
  if (alive & ~active) {
    /* A barrier of some lanes: what one of them knows, they all know. */
    if (state->some_lanes & active)
      state->some_lanes |= active;
    return;
  }
  merge(order, state);
  state->touched = 0;
  state->synced_clock = state->clock;
  tick(state);
}

void moe__emu_order_fence(moe__emu_order_t *order, uint32_t warp, uint32_t active, uint32_t alive) {
  moe__emu_order_warp_t *state = &order->warps[warp];
  moe__emu_view_t *view = own_view(order, state, active, alive);
  uint32_t own = own_clock(state, active);
  for (uint32_t i = 0; i < order->agent_count; i++)
    view->fenced[i] = larger(view->fenced[i], view->done[i]);
  view->fenced[warp] = larger(view->fenced[warp], own);
  if (view == &state->all && state->some_lanes)
    moe__emu_view_join(&state->some, &state->all, order->agent_count);
  tick(state);
}
