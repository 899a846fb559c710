/* Order.h - what happened before what, in the shared memory of a cluster's blocks.
 *
 * Why it exists: a GPU that gives right numbers says nothing about a missing barrier or fence; the
 * next one may not. Here every access to shared memory is compared with those it must come after,
 * whatever order the emulator happened to run them in.
 *
 * The model (docs/emulator.md tells it at length):
 *   - Agents are warps, mbarriers (their clock counts phases), threads' bulk groups and warpgroups'
 *     matrix groups (their clocks count groups).
 *   - A view says, for each agent, up to which clock its work is known to be done: `done`; and up
 * to which it has been passed to the async proxy by a fence: `fenced`.
 *   - An event of agent a at clock c is ordered before everything whose view has done[a] >= c.
 *   - Each byte knows the event that wrote it last and the events that have read it since.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_EMULATOR_ORDER_H
#define MOE_EMULATOR_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  MOE__EMU_CLOCK_BITS = 23,
  MOE__EMU_MAX_CLOCK = (1 << MOE__EMU_CLOCK_BITS) - 1,
  MOE__EMU_MAX_AGENTS = 511, /* the rest of an event's word, but for MOE__EMU_EVENT_OBJECT */
};

typedef enum moe__emu_agent_kind_t {
  MOE__EMU_AGENT_WARP,
  MOE__EMU_AGENT_MBARRIER, /* writes of loads that complete on it */
  MOE__EMU_AGENT_BULK,     /* reads of a thread's bulk stores */
  MOE__EMU_AGENT_MATRIX,   /* reads of a warpgroup's matrix products */
} moe__emu_agent_kind_t;

typedef struct moe__emu_view_t {
  uint32_t done[MOE__EMU_MAX_AGENTS];
  uint32_t fenced[MOE__EMU_MAX_AGENTS];
} moe__emu_view_t;

/* Agent and clock in one word; 0 is no event. Clocks begin at 1; that of a warp says that its block
 * has begun, and its accesses come later. */
typedef uint32_t moe__emu_event_t;

#define MOE__EMU_EVENT(agent, clock) ((uint32_t)(agent) << MOE__EMU_CLOCK_BITS | (uint32_t)(clock))
#define MOE__EMU_EVENT_AGENT(event) ((event) >> MOE__EMU_CLOCK_BITS)
#define MOE__EMU_EVENT_CLOCK(event) ((event)&MOE__EMU_MAX_CLOCK)
/* The bytes belong to an mbarrier. */
#define MOE__EMU_EVENT_OBJECT UINT32_MAX

/* A warp's part. Its lanes are taken as one, but for what only some of them have waited for, or
 * have not yet handed on: a warp barrier makes them one again. */
typedef struct moe__emu_order_warp_t {
  moe__emu_view_t all;
  moe__emu_view_t some; /* of some_lanes; all of `all` and more */
  uint32_t some_lanes;  /* 0: `some` is not in use */
  uint32_t
      touched; /* lanes with accesses to shared memory that a release by other lanes does not hand on */
  uint32_t clock;        /* of the accesses being made */
  uint32_t synced_clock; /* all accesses up to it are those of every lane */
} moe__emu_order_warp_t;

/* A set of events that have read a byte: at most one of each agent. */
typedef struct moe__emu_readers_t {
  uint32_t first, count; /* in the list of events */
} moe__emu_readers_t;

typedef struct moe__emu_order_t {
  uint32_t base, bytes;      /* of shared memory: that of the blocks, one after the other */
  moe__emu_event_t *writers; /* of each byte */
  uint32_t *readers;         /* of each byte: number of a set; 0 is the empty one */
  moe__emu_readers_t *sets;
  uint32_t set_count, set_capacity;
  moe__emu_event_t *events;
  uint32_t event_count, event_capacity;
  uint32_t *table; /* hash table of sets */
  uint32_t table_capacity;

  moe__emu_agent_kind_t kinds[MOE__EMU_MAX_AGENTS];
  uint32_t owners[MOE__EMU_MAX_AGENTS]; /* a warp's number, an mbarrier's address, ... */
  uint32_t ranks[MOE__EMU_MAX_AGENTS];  /* of the block that it belongs to */
  uint32_t agent_count;
  moe__emu_order_warp_t *warps; /* the agents of the same numbers */
  uint32_t warp_count;
  uint32_t warps_per_block;
  bool enabled;
} moe__emu_order_t;

/* What a check found. */
typedef enum moe__emu_conflict_t {
  MOE__EMU_ORDERED,
  MOE__EMU_UNINITIALIZED,
  MOE__EMU_OBJECT,       /* the byte belongs to an mbarrier */
  MOE__EMU_AFTER_WRITE,  /* not ordered after `other`, which wrote */
  MOE__EMU_AFTER_READ,   /* not ordered after `other`, which read */
  MOE__EMU_NOT_FENCED,   /* ordered after the write `other`, but no proxy fence between */
  MOE__EMU_ORDER_MEMORY, /* no memory */
} moe__emu_conflict_t;

typedef struct moe__emu_finding_t {
  moe__emu_conflict_t conflict;
  uint32_t address;
  moe__emu_event_t other;
} moe__emu_finding_t;

/* warps, bytes: of each of the blocks. */
bool moe__emu_order_create(moe__emu_order_t *order, uint32_t blocks, uint32_t warps, uint32_t base,
                           uint32_t bytes);
void moe__emu_order_free(moe__emu_order_t *order);
/* Back to the start of a cluster. */
void moe__emu_order_reset(moe__emu_order_t *order);

/* A new agent of block `rank`; -1 where there are too many. */
int moe__emu_order_agent(moe__emu_order_t *order, moe__emu_agent_kind_t kind, uint32_t rank,
                         uint32_t owner);

/* What lanes `active` of a warp know. */
const moe__emu_view_t *moe__emu_order_view(const moe__emu_order_t *order, uint32_t warp,
                                           uint32_t active);

/* Up to which clock of its own the lanes of a warp can hand on what it did. */
uint32_t moe__emu_order_own_clock(const moe__emu_order_t *order, uint32_t warp, uint32_t active);

/* Hands on what the lanes know and did. Below, `alive` are the lanes of the warp that have not
 * exited. */
void moe__emu_order_release(moe__emu_order_t *order, uint32_t warp, uint32_t active,
                            moe__emu_view_t *into);
/* The lanes learn what `from` knows. */
void moe__emu_order_acquire(moe__emu_order_t *order, uint32_t warp, uint32_t active, uint32_t alive,
                            const moe__emu_view_t *from);
/* The lanes learn that `agent` is done up to `clock`. */
void moe__emu_order_learn(moe__emu_order_t *order, uint32_t warp, uint32_t active, uint32_t alive,
                          uint32_t agent, uint32_t clock);
/* A barrier of the lanes `active`. */
void moe__emu_order_sync(moe__emu_order_t *order, uint32_t warp, uint32_t active, uint32_t alive);
/* fence.proxy.async by the lanes. */
void moe__emu_order_fence(moe__emu_order_t *order, uint32_t warp, uint32_t active, uint32_t alive);

/* Moves all that `from` knows to `into`, which forgets what it knew. */
void moe__emu_view_move(moe__emu_view_t *into, moe__emu_view_t *from, uint32_t agents);
/* Adds everything that `from` knows to `into`. */
void moe__emu_view_join(moe__emu_view_t *into, const moe__emu_view_t *from, uint32_t agents);

/* An access of one instruction to some bytes of shared memory, checked byte by byte. */
typedef enum moe__emu_access_kind_t {
  MOE__EMU_READ, /* generic proxy, by lanes of a warp */
  MOE__EMU_WRITE,
  MOE__EMU_ATOMIC,     /* atomics are not ordered against each other, nor against anything else */
  MOE__EMU_ASYNC_READ, /* async proxy, issued by lanes of a warp, an event of another agent */
  MOE__EMU_ASYNC_WRITE,
} moe__emu_access_kind_t;

typedef struct moe__emu_access_t {
  moe__emu_order_t *order;
  const moe__emu_view_t *view;
  uint32_t warp, active;
  moe__emu_access_kind_t kind;
  moe__emu_event_t as;
  /* What was found for the byte before: neighbors mostly have the same history. */
  bool has_last;
  moe__emu_event_t writer;
  uint32_t readers, new_readers;
  moe__emu_finding_t finding;
} moe__emu_access_t;

/* Begins an access; `as` is the event of an asynchronous one. */
moe__emu_access_t moe__emu_access_begin(moe__emu_order_t *order, uint32_t warp, uint32_t active,
                                        moe__emu_access_kind_t kind, moe__emu_event_t as);
/* Adds bytes [address, address + bytes), which must lie inside of shared memory. False, with the
 * conflict in access->finding, when one is not ordered. */
bool moe__emu_access_bytes(moe__emu_access_t *access, uint32_t address, uint32_t bytes);

/* The 8 bytes become an mbarrier's, or stop being. */
void moe__emu_order_object(moe__emu_order_t *order, uint32_t address, bool is_object);

#endif /* MOE_EMULATOR_ORDER_H */
