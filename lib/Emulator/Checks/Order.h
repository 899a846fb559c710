/* Order.h - what happened before what: who knows which work to be done.
 *
 * Why it exists: a GPU that gives right numbers says nothing about a missing barrier or fence;
 * the next one may not. Here every access is compared with those it must come after, whatever
 * order the emulator happened to run them in.
 *
 * The model (docs/emulator.md tells it at length):
 *   - Agents of a cluster are its warps, mbarriers (their clock counts phases), threads' bulk
 *   groups
 *     and warpgroups' matrix products (their clocks count groups and products).
 *   - An event is of an agent at a clock; that of a warp also names the lane.
 *   - A view says, for each agent, up to which clock its work is known to be done: `done`; and up
 *   to
 *     which a fence has handed it to the async proxy: `fenced`.
 *   - Where bulk copies and ordinary accesses meet in global memory, each warp is two agents: as
 *     the second one, its clock says what a fence has handed to the async proxy there.
 *   - The lanes of a warp that know the same share a view: they are a party. Lanes know of each
 *   other
 *     only what a barrier has told them.
 *   - What is known of other clusters (Foreign.h) comes through global memory.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_EMULATOR_CHECKS_ORDER_H
#define MOE_EMULATOR_CHECKS_ORDER_H

#include "lib/Emulator/Checks/Foreign.h"
#include "lib/Emulator/Checks/Readers.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum moe__emu_agent_kind_t {
  MOE__EMU_AGENT_WARP,
  MOE__EMU_AGENT_MBARRIER, /* writes of loads that complete on it */
  MOE__EMU_AGENT_BULK,     /* a thread's bulk stores: `done` says that a group has read its bytes,
                            * `fenced` that it has written them, too */
  MOE__EMU_AGENT_MATRIX,   /* reads of a warpgroup's matrix products */
  MOE__EMU_AGENT_PROXY,    /* a warp's accesses to global memory, for the async proxy */
} moe__emu_agent_kind_t;

enum { MOE__EMU_MAX_EXTRAS = 64 };

/* What is known of one lane, where the other lanes of its warp are known to be less far. */
typedef struct moe__emu_extra_t {
  uint16_t agent, lane;
  uint32_t done, fenced;
} moe__emu_extra_t;

typedef struct moe__emu_view_t {
  uint32_t done[MOE__EMU_MAX_AGENTS];
  uint32_t fenced[MOE__EMU_MAX_AGENTS];
  uint32_t extra_count;
  moe__emu_extra_t extras[MOE__EMU_MAX_EXTRAS];
  const moe__emu_foreign_t *foreign; /* NULL: nothing is known of other clusters */
  bool has_waited;                   /* for the launches before this one */
} moe__emu_view_t;

/* Lanes of a warp that know the same of all others. */
typedef struct moe__emu_party_t {
  uint32_t lanes;
  uint32_t known[32]; /* of each lane of the warp: up to which clock these lanes know its work */
  moe__emu_view_t view;
} moe__emu_party_t;

enum { MOE__EMU_DISTANCES = 3 }; /* same CTA, same cluster, anywhere */

/* What fences make of a lane's relaxed accesses to global memory. Index: the least scope that is
 * wide enough. */
typedef struct moe__emu_fences_t {
  const moe__emu_foreign_t *released[MOE__EMU_DISTANCES];   /* by a fence of this scope */
  const moe__emu_foreign_t *unacquired[MOE__EMU_DISTANCES]; /* read, and not yet fenced */
} moe__emu_fences_t;

/* A warp's part. */
typedef struct moe__emu_order_warp_t {
  moe__emu_party_t *parties[32]; /* the first party_count of them; the others are spare, or NULL */
  uint32_t party_count;
  uint32_t touched; /* lanes with accesses since all lanes met */
  uint32_t clock;   /* of the accesses being made */
  /* The sets of one reader each, which most reads make. */
  moe__emu_event_t single_event;
  uint32_t single_sets[33]; /* by lane; 32: all lanes */
  moe__emu_fences_t fences[32];
  /* Whether it has streamed from global memory, by loads that L1 does not keep, since it waited for
   * an mbarrier; and whether it has ever arrived at one so: its reads of shared memory may then
   * still wait behind those loads. */
  bool has_streamed, is_late;
} moe__emu_order_warp_t;

enum { MOE__EMU_HISTORY_BYTES = 16 };

/* What bytes that lie together remember. */
typedef struct moe__emu_history_t {
  moe__emu_event_t writer; /* 0: none */
  uint32_t readers;        /* number of a set */
  bool is_split;           /* each byte has its own */
} moe__emu_history_t;

typedef struct moe__emu_order_t {
  uint32_t base, bytes;          /* of shared memory: that of the CTAs, one after the other */
  moe__emu_history_t *histories; /* of each MOE__EMU_HISTORY_BYTES */
  /* Of each byte, where the history is split; anything elsewhere. */
  moe__emu_event_t *writers;
  uint32_t *readers;
  moe__emu_reader_sets_t sets;

  uint32_t cluster; /* its number */
  moe__emu_agent_kind_t kinds[MOE__EMU_MAX_AGENTS];
  uint32_t owners[MOE__EMU_MAX_AGENTS]; /* a warp's number, an mbarrier's address, ... */
  uint32_t ranks[MOE__EMU_MAX_AGENTS];  /* of the CTA that it belongs to */
  uint32_t agent_count;
  moe__emu_order_warp_t *warps; /* the agents of the same numbers */
  uint32_t warp_count;
  uint32_t warps_per_cta;
  bool has_proxies;        /* each warp has an agent PROXY: that of its number and warp_count */
  moe__emu_arena_t *arena; /* of the launch; NULL: nothing comes from other clusters */
  bool enabled;
} moe__emu_order_t;

/* warps, bytes: of each of the CTAs. False when there is no memory. */
bool moe__emu_order_create(moe__emu_order_t *order, uint32_t ctas, uint32_t warps, uint32_t base,
                           uint32_t bytes);
void moe__emu_order_free(moe__emu_order_t *order);
/* Back to the start of a cluster. */
void moe__emu_order_reset(moe__emu_order_t *order, uint32_t cluster);

/* A new agent of CTA `rank`; -1 where there are too many. */
int moe__emu_order_agent(moe__emu_order_t *order, moe__emu_agent_kind_t kind, uint32_t rank,
                         uint32_t owner);

/* The party of a lane. */
moe__emu_party_t *moe__emu_order_party(const moe__emu_order_t *order, uint32_t warp, uint32_t lane);
/* The party of exactly these lanes, which all belong to one: separated from the rest of it. Below,
 * `alive` are the lanes of the warp that have not exited. */
moe__emu_party_t *moe__emu_order_separate(moe__emu_order_t *order, uint32_t warp, uint32_t lanes,
                                          uint32_t alive);
/* What a lane knows. */
const moe__emu_view_t *moe__emu_order_view(const moe__emu_order_t *order, uint32_t warp,
                                           uint32_t lane);

/* Whether lanes of a warp, all of one party, know an event of their cluster to be done. */
bool moe__emu_order_knows(const moe__emu_order_t *order, uint32_t warp,
                          const moe__emu_party_t *party, uint32_t lanes, moe__emu_event_t event);
/* The same of what several lanes did. */
bool moe__emu_order_knows_lanes(const moe__emu_order_t *order, uint32_t warp,
                                const moe__emu_party_t *party, uint32_t lanes,
                                const moe__emu_reader_t *reader);

/* Up to which clock of its own the lanes of a warp can hand on what all of it did. */
uint32_t moe__emu_order_own_clock(const moe__emu_order_t *order, uint32_t warp, uint32_t active,
                                  uint32_t alive);

/* Hands on what the lanes know and did. */
void moe__emu_order_release(moe__emu_order_t *order, uint32_t warp, uint32_t active, uint32_t alive,
                            moe__emu_view_t *into);
/* The lanes learn what `from` knows. */
void moe__emu_order_acquire(moe__emu_order_t *order, uint32_t warp, uint32_t active, uint32_t alive,
                            const moe__emu_view_t *from);
/* The lanes learn that `agent` is done up to `clock`; is_written: and that what it has written is
 * visible to them. */
void moe__emu_order_learn(moe__emu_order_t *order, uint32_t warp, uint32_t active, uint32_t alive,
                          uint32_t agent, uint32_t clock, bool is_written);
/* The lanes have waited for the launches before this one. */
void moe__emu_order_wait_launches(moe__emu_order_t *order, uint32_t warp, uint32_t active,
                                  uint32_t alive);
/* A barrier of the lanes `active`. */
void moe__emu_order_sync(moe__emu_order_t *order, uint32_t warp, uint32_t active, uint32_t alive);
/* fence.proxy.async by the lanes: for shared memory, for global memory, or both. */
void moe__emu_order_fence(moe__emu_order_t *order, uint32_t warp, uint32_t active, uint32_t alive,
                          bool is_shared, bool is_global);
/* The clock of a warp goes on: what comes later is not part of what was handed on. */
void moe__emu_order_tick(moe__emu_order_t *order, uint32_t warp);

/* Moves all that `from` knows to `into`, which forgets what it knew. */
void moe__emu_view_move(const moe__emu_order_t *order, moe__emu_view_t *into,
                        moe__emu_view_t *from);
/* Adds everything that `from` knows to `into`. */
void moe__emu_view_join(const moe__emu_order_t *order, moe__emu_view_t *into,
                        const moe__emu_view_t *from);
/* Adds what is known of lanes of other clusters, or of this one, to a view. */
void moe__emu_view_learn_foreign(const moe__emu_order_t *order, moe__emu_view_t *into,
                                 const moe__emu_foreign_t *foreign);
/* What lanes of a warp, all of one party, know and did, to hand on to other clusters. NULL when
 * there is no memory. */
const moe__emu_foreign_t *moe__emu_order_publish(moe__emu_order_t *order, uint32_t warp,
                                                 uint32_t active, uint32_t alive);

#endif /* MOE_EMULATOR_CHECKS_ORDER_H */
