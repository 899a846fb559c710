/* Toucher.c - what a thread that touches global memory knows of others' work.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Emulator/Checks/GlobalParts.h"

bool moe__emu_toucher_knows(const moe__emu_toucher_t *toucher, const moe__emu_party_t *party,
                            const moe__emu_reader_t *other) {
  const moe__emu_order_t *order = toucher->order;
  uint32_t cluster = MOE__EMU_EVENT_CLUSTER(other->event);
  uint32_t agent = MOE__EMU_EVENT_AGENT(other->event);
  uint32_t clock = MOE__EMU_EVENT_CLOCK(other->event);
  if (cluster == order->cluster) {
    if (order->kinds[agent] == MOE__EMU_AGENT_BULK)
      return party->view.fenced[agent] >= clock;
    return moe__emu_order_knows_lanes(order, toucher->warp, party, moe__emu_toucher_lane(toucher),
                                      other);
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

bool moe__emu_toucher_knows_event(const moe__emu_toucher_t *toucher, const moe__emu_party_t *party,
                                  moe__emu_event_t event) {
  uint32_t lane = MOE__EMU_EVENT_LANE(event);
  uint64_t lanes = UINT64_C(63) << MOE__EMU_CLOCK_BITS;
  moe__emu_reader_t other = {event, lane < 32 ? 1U << lane : 0, 0};
  if (lane < 32)
    other.event &= ~lanes;
  return moe__emu_toucher_knows(toucher, party, &other);
}

bool moe__emu_toucher_is_handed(const moe__emu_toucher_t *toucher, const moe__emu_party_t *party,
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
            ? !moe__emu_order_knows(order, toucher->warp, party, moe__emu_toucher_lane(toucher),
                                    MOE__EMU_EVENT_OF(cluster, agent, lane, clock))
            : !snapshot || !moe__emu_snapshot_knows(snapshot, agent, lane, clock))
      return false;
  }
  return true;
}

moe__emu_scope_t moe__emu_toucher_scope(const moe__emu_toucher_t *toucher, uint32_t cluster,
                                        uint32_t rank) {
  if (cluster != toucher->order->cluster)
    return MOE__EMU_GPU;
  return rank == toucher->rank ? MOE__EMU_CTA : MOE__EMU_CLUSTER;
}

static moe__emu_scope_t needed_for(const moe__emu_toucher_t *toucher, moe__emu_event_t event) {
  const moe__emu_order_t *order = toucher->order;
  uint32_t cluster = MOE__EMU_EVENT_CLUSTER(event);
  uint32_t rank = cluster == order->cluster ? order->ranks[MOE__EMU_EVENT_AGENT(event)] : 0;
  return moe__emu_toucher_scope(toucher, cluster, rank);
}

bool moe__emu_toucher_is_strong(const moe__emu_toucher_t *toucher, moe__emu_event_t event,
                                moe__emu_scope_t scope) {
  moe__emu_scope_t needed = needed_for(toucher, event);
  return toucher->scope >= needed && scope >= needed;
}
