/* Foreign.h - what a cluster knows of others.
 *
 * Why it exists: clusters meet in global memory alone, and seldom, so that what is known of
 * others is kept as a list of snapshots that many views share.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_EMULATOR_CHECKS_FOREIGN_H
#define MOE_EMULATOR_CHECKS_FOREIGN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  MOE__EMU_CLOCK_BITS = 28,
  MOE__EMU_LANE_BITS = 6,
  MOE__EMU_AGENT_BITS = 9,
  MOE__EMU_CLUSTER_BITS = 20, /* of the number of a cluster */
  MOE__EMU_MAX_CLOCK = (1 << MOE__EMU_CLOCK_BITS) - 1,
  MOE__EMU_MAX_AGENTS = (1 << MOE__EMU_AGENT_BITS) - 1,
  MOE__EMU_NO_LANE = 32, /* the lane of an agent that is no warp */
};

/* Cluster, agent, lane and clock in one word; 0 is no event. Clocks begin at 1; that of a warp says
 * that its CTA has begun, and its accesses come later. */
typedef uint64_t moe__emu_event_t;

#define MOE__EMU_EVENT_OF(cluster, agent, lane, clock)                                             \
  ((((uint64_t)(cluster) << MOE__EMU_AGENT_BITS | (uint64_t)(agent)) << MOE__EMU_LANE_BITS |       \
    (uint64_t)(lane))                                                                              \
       << MOE__EMU_CLOCK_BITS |                                                                    \
   (uint64_t)(clock))
/* Of shared memory, where the cluster is known; by an agent that is no warp. */
#define MOE__EMU_EVENT(agent, clock) MOE__EMU_EVENT_OF(0, agent, MOE__EMU_NO_LANE, clock)
#define MOE__EMU_EVENT_CLOCK(event) ((uint32_t)((event)&MOE__EMU_MAX_CLOCK))
#define MOE__EMU_EVENT_LANE(event)                                                                 \
  ((uint32_t)((event) >> MOE__EMU_CLOCK_BITS & ((1 << MOE__EMU_LANE_BITS) - 1)))
#define MOE__EMU_EVENT_AGENT(event)                                                                \
  ((uint32_t)((event) >> (MOE__EMU_CLOCK_BITS + MOE__EMU_LANE_BITS) & MOE__EMU_MAX_AGENTS))
#define MOE__EMU_EVENT_CLUSTER(event)                                                              \
  ((uint32_t)((event) >> (MOE__EMU_CLOCK_BITS + MOE__EMU_LANE_BITS + MOE__EMU_AGENT_BITS)))
/* The bytes belong to an mbarrier. */
#define MOE__EMU_EVENT_OBJECT UINT64_MAX

/* Memory that lives as long as a launch. Only launches whose clusters take turns on one thread have
 * one. */
typedef struct moe__emu_arena_t {
  struct moe__emu_arena_chunk_t *chunks;
  size_t total, limit; /* bytes */
  bool is_exhausted;   /* an allocation has failed */
  bool is_full;        /* for want of limit */
} moe__emu_arena_t;

/* Zeroed; NULL when there is no memory. */
void *moe__emu_arena_allocate(moe__emu_arena_t *arena, size_t bytes);
void moe__emu_arena_free(moe__emu_arena_t *arena);

/* What is known of one cluster: up to which clock each of its agents is done. */
typedef struct moe__emu_snapshot_t {
  uint32_t agent_count, extra_count;
  uint32_t *done;
  struct {
    uint32_t agent, lane, done;
  } * extras; /* of lanes that are further than the rest of their warp */
} moe__emu_snapshot_t;

/* What is known of several, by number. Never changed once made. */
typedef struct moe__emu_foreign_t {
  uint32_t count;
  struct {
    uint32_t cluster;
    const moe__emu_snapshot_t *snapshot;
  } entries[];
} moe__emu_foreign_t;

/* The knowledge of one cluster. NULL when there is no memory. */
const moe__emu_foreign_t *moe__emu_foreign_make(moe__emu_arena_t *arena, uint32_t cluster,
                                                const moe__emu_snapshot_t *snapshot);
/* All that either knows. NULL is nothing. */
const moe__emu_foreign_t *moe__emu_foreign_join(moe__emu_arena_t *arena,
                                                const moe__emu_foreign_t *a,
                                                const moe__emu_foreign_t *b);
/* The same, where of each cluster agent `count` + i knows what agent i < count does. */
const moe__emu_foreign_t *
moe__emu_foreign_repeat(moe__emu_arena_t *arena, const moe__emu_foreign_t *foreign, uint32_t count);
/* What it says of a cluster; NULL: nothing. */
const moe__emu_snapshot_t *moe__emu_foreign_find(const moe__emu_foreign_t *foreign,
                                                 uint32_t cluster);
/* Whether it says that work of a lane of an agent is done up to a clock. */
bool moe__emu_snapshot_knows(const moe__emu_snapshot_t *snapshot, uint32_t agent, uint32_t lane,
                             uint32_t clock);

#endif /* MOE_EMULATOR_CHECKS_FOREIGN_H */
