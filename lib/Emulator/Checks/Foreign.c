/* Foreign.c - lists of snapshots.
 *
 * Why it exists: see Foreign.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Emulator/Checks/Foreign.h"

#include <stdlib.h>
#include <string.h>

/* ---- The arena ---- */

enum { CHUNK = 1 << 18, ALIGNMENT = 16 };

typedef struct moe__emu_arena_chunk_t {
  struct moe__emu_arena_chunk_t *next;
  size_t used, size;
  _Alignas(ALIGNMENT) unsigned char bytes[];
} chunk_t;

void *moe__emu_arena_allocate(moe__emu_arena_t *arena, size_t bytes) {
  chunk_t *chunk = arena->chunks;
  bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  if (!chunk || chunk->size - chunk->used < bytes) {
    size_t left = arena->limit - arena->total, size = left < CHUNK ? left : CHUNK;
    size = size < bytes ? bytes : size;
    chunk = size <= left ? calloc(1, sizeof *chunk + size) : NULL;
    if (!chunk) {
      arena->is_exhausted = true;
      arena->is_full = size > left;
      return NULL;
    }
    chunk->next = arena->chunks;
    chunk->size = size;
    arena->chunks = chunk;
    arena->total += size;
  }
  void *found = chunk->bytes + chunk->used;
  chunk->used += bytes;
  return found;
}

void moe__emu_arena_free(moe__emu_arena_t *arena) {
  while (arena->chunks) {
    chunk_t *next = arena->chunks->next;
    free(arena->chunks);
    arena->chunks = next;
  }
  *arena = (moe__emu_arena_t){0};
}

/* ---- Snapshots ---- */

static uint32_t done_of(const moe__emu_snapshot_t *snapshot, uint32_t agent) {
  return agent < snapshot->agent_count ? snapshot->done[agent] : 0;
}

bool moe__emu_snapshot_knows(const moe__emu_snapshot_t *snapshot, uint32_t agent, uint32_t lane,
                             uint32_t clock) {
  if (done_of(snapshot, agent) >= clock)
    return true;
  for (uint32_t i = 0; i < snapshot->extra_count; i++) {
    if (snapshot->extras[i].agent == agent && snapshot->extras[i].lane == lane &&
        snapshot->extras[i].done >= clock)
      return true;
  }
  return false;
}

/* Whether `a` knows all that `b` does. */
static bool covers(const moe__emu_snapshot_t *a, const moe__emu_snapshot_t *b) {
  for (uint32_t i = 0; i < b->agent_count; i++) {
    if (done_of(a, i) < b->done[i])
      return false;
  }
  for (uint32_t i = 0; i < b->extra_count; i++) {
    if (!moe__emu_snapshot_knows(a, b->extras[i].agent, b->extras[i].lane, b->extras[i].done))
      return false;
  }
  return true;
}

static const moe__emu_snapshot_t *join(moe__emu_arena_t *arena, const moe__emu_snapshot_t *a,
                                       const moe__emu_snapshot_t *b) {
  if (a == b || covers(a, b))
    return a;
  if (covers(b, a))
    return b;
  uint32_t agents = a->agent_count > b->agent_count ? a->agent_count : b->agent_count;
  moe__emu_snapshot_t *both = moe__emu_arena_allocate(arena, sizeof *both);
  uint32_t *done = moe__emu_arena_allocate(arena, agents * sizeof *done);
  size_t extras = (a->extra_count + b->extra_count) * sizeof *both->extras;
  void *list = extras ? moe__emu_arena_allocate(arena, extras) : NULL;
  if (!both || !done || (extras && !list))
    return a;
  *both = (moe__emu_snapshot_t){.agent_count = agents, .done = done, .extras = list};
  for (uint32_t i = 0; i < agents; i++)
    done[i] = done_of(a, i) > done_of(b, i) ? done_of(a, i) : done_of(b, i);
  for (uint32_t i = 0; list && i < a->extra_count; i++)
    both->extras[both->extra_count++] = a->extras[i];
  for (uint32_t i = 0; list && i < b->extra_count; i++)
    both->extras[both->extra_count++] = b->extras[i];
  return both;
}

/* ---- Lists ---- */

static moe__emu_foreign_t *new_list(moe__emu_arena_t *arena, uint32_t count) {
  moe__emu_foreign_t *list;
  return moe__emu_arena_allocate(arena, sizeof *list + count * sizeof list->entries[0]);
}

const moe__emu_foreign_t *moe__emu_foreign_make(moe__emu_arena_t *arena, uint32_t cluster,
                                                const moe__emu_snapshot_t *snapshot) {
  moe__emu_foreign_t *list = new_list(arena, 1);
  if (!list)
    return NULL;
  list->count = 1;
  list->entries[0].cluster = cluster;
  list->entries[0].snapshot = snapshot;
  return list;
}

/* Whether the join of two lists is the first of them. */
static bool is_within(const moe__emu_foreign_t *a, const moe__emu_foreign_t *b) {
  uint32_t i = 0;
  for (uint32_t j = 0; j < b->count; j++) {
    while (i < a->count && a->entries[i].cluster < b->entries[j].cluster)
      i++;
    if (i == a->count || a->entries[i].cluster != b->entries[j].cluster ||
        (a->entries[i].snapshot != b->entries[j].snapshot &&
         !covers(a->entries[i].snapshot, b->entries[j].snapshot)))
      return false;
  }
  return true;
}

const moe__emu_foreign_t *moe__emu_foreign_join(moe__emu_arena_t *arena,
                                                const moe__emu_foreign_t *a,
                                                const moe__emu_foreign_t *b) {
  if (!b || a == b)
    return a;
  if (!a)
    return b;
  if (is_within(a, b))
    return a;
  if (is_within(b, a))
    return b;
  moe__emu_foreign_t *both = new_list(arena, a->count + b->count);
  if (!both)
    return a;
  for (uint32_t i = 0, j = 0; i < a->count || j < b->count;) {
    uint32_t left = i < a->count ? a->entries[i].cluster : UINT32_MAX;
    uint32_t right = j < b->count ? b->entries[j].cluster : UINT32_MAX;
    if (left == right) {
      both->entries[both->count].cluster = left;
      both->entries[both->count++].snapshot =
          join(arena, a->entries[i++].snapshot, b->entries[j++].snapshot);
    } else {
      both->entries[both->count++] = left < right ? a->entries[i++] : b->entries[j++];
    }
  }
  return both;
}

static const moe__emu_snapshot_t *repeat(moe__emu_arena_t *arena, const moe__emu_snapshot_t *of,
                                         uint32_t count) {
  uint32_t agents = of->agent_count > 2 * count ? of->agent_count : 2 * count;
  moe__emu_snapshot_t *more = moe__emu_arena_allocate(arena, sizeof *more);
  uint32_t *done = moe__emu_arena_allocate(arena, agents * sizeof *done);
  size_t extras = 2 * (size_t)of->extra_count * sizeof *more->extras;
  void *list = extras ? moe__emu_arena_allocate(arena, extras) : NULL;
  if (!more || !done || (extras && !list))
    return of;
  *more = (moe__emu_snapshot_t){.agent_count = agents, .done = done, .extras = list};
  for (uint32_t i = 0; i < agents; i++)
    done[i] = done_of(of, i >= count && i < 2 * count ? i - count : i);
  for (uint32_t i = 0; list && i < of->extra_count; i++) {
    more->extras[more->extra_count++] = of->extras[i];
    more->extras[more->extra_count] = of->extras[i];
    if (of->extras[i].agent < count)
      more->extras[more->extra_count++].agent += count;
  }
  return covers(of, more) ? of : more;
}

const moe__emu_foreign_t *moe__emu_foreign_repeat(moe__emu_arena_t *arena,
                                                  const moe__emu_foreign_t *foreign,
                                                  uint32_t count) {
  moe__emu_foreign_t *more = foreign ? new_list(arena, foreign->count) : NULL;
  if (!more)
    return foreign;
  more->count = foreign->count;
  for (uint32_t i = 0; i < foreign->count; i++) {
    more->entries[i].cluster = foreign->entries[i].cluster;
    more->entries[i].snapshot = repeat(arena, foreign->entries[i].snapshot, count);
  }
  return more;
}

const moe__emu_snapshot_t *moe__emu_foreign_find(const moe__emu_foreign_t *foreign,
                                                 uint32_t cluster) {
  uint32_t low = 0, high = foreign ? foreign->count : 0;
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    if (foreign->entries[middle].cluster < cluster)
      low = middle + 1;
    else
      high = middle;
  }
  bool is_there = foreign && low < foreign->count && foreign->entries[low].cluster == cluster;
  return is_there ? foreign->entries[low].snapshot : NULL;
}
