/* Global.h - order in global memory: races between threads of any CTAs, and what a read may
 * return.
 *
 * Why it exists: the memory consistency model of PTX allows a read to return what was there
 * before a write that it is not ordered after, and hardware does so when nobody looks. Launches
 * whose CTAs may communicate run on one thread, and each access is compared with those of all
 * CTAs.
 *
 * An access is weak, or strong with a scope. Two accesses of different threads to a byte, of
 * which one writes, race unless one is known to be done when the other comes, or both are strong
 * and the scope of each has the other's thread.
 *
 * Atomics do not race with each other, but where their order makes a difference and nothing
 * fixes it, the result is not determined: that is reported, too.
 *
 * Knowledge travels with values: a release, or a fence before a strong write, attaches what the
 * thread knows to the value; an acquire, or a fence after a strong read, takes it. Atomics pass
 * it on.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_EMULATOR_CHECKS_GLOBAL_H
#define MOE_EMULATOR_CHECKS_GLOBAL_H

#include "lib/Emulator/Checks/Order.h"

/* How an access or a fence is meant: weak, or strong with this scope. */
typedef enum moe__emu_scope_t {
  MOE__EMU_WEAK,
  MOE__EMU_CTA,
  MOE__EMU_CLUSTER,
  MOE__EMU_GPU, /* and .sys */
} moe__emu_scope_t;

typedef enum moe__emu_global_kind_t {
  MOE__EMU_GLOBAL_READ,
  MOE__EMU_GLOBAL_WRITE,
  MOE__EMU_GLOBAL_UPDATE, /* an atomic: both */
} moe__emu_global_kind_t;

/* Chooses a number below `limit`. */
typedef uint32_t (*moe__emu_choose_t)(void *context, uint32_t limit);

typedef struct moe__emu_races_t {
  moe__emu_arena_t arena;    /* what is known and written: without it there would be false races */
  moe__emu_arena_t of_pages; /* bytes beyond it go unchecked */
  moe__emu_reader_sets_t sets;
  struct moe__emu_race_page_t **pages; /* a hash table, by address */
  uint32_t page_count, page_capacity;
  struct moe__emu_race_page_t *last_page;
  const moe__emu_foreign_t *fences;      /* of fence.sc of the widest scope */
  const moe__emu_foreign_t **cta_fences; /* of each CTA; then of each cluster */
  uint64_t cta_count;
  bool keeps_values; /* reads may return old values */
  bool has_records;  /* of writes */
} moe__emu_races_t;

/* Atomics that give the same result in any order have the same number. That of one whose result is
 * used has this bit, too: the thread learns which atomics came before it. */
enum { MOE__EMU_ATOMIC_USED = 16, MOE__EMU_MAX_ATOMIC = 31 };

/* A thread that touches global memory, and how. */
typedef struct moe__emu_toucher_t {
  moe__emu_order_t *order; /* of its cluster */
  uint32_t warp, lane, alive;
  uint32_t rank; /* of its CTA in the cluster */
  uint64_t cta;  /* its CTA's number */
  uint32_t line; /* of the instruction */
  moe__emu_scope_t scope;
  uint32_t operation;  /* of an atomic: its number */
  moe__emu_event_t as; /* of asynchronous work; 0: the lane's own */
  bool skips_races;    /* values only */
} moe__emu_toucher_t;

/* The other access of a race. */
typedef struct moe__emu_race_t {
  moe__emu_event_t event;
  uint32_t line;
  bool is_write;
  bool is_atomic;   /* both are atomics, and their order makes a difference */
  bool is_unfenced; /* ordered, but a fence.proxy.async is missing */
  uint64_t address; /* of the byte */
} moe__emu_race_t;

/* order_bytes: the limit of `arena`. */
bool moe__emu_races_create(moe__emu_races_t *races, uint64_t ctas, uint64_t clusters,
                           bool keeps_values, size_t order_bytes);
void moe__emu_races_free(moe__emu_races_t *races);

/* Notes an access to bytes, and checks it. False after a race, which *out_race tells. */
bool moe__emu_races_touch(moe__emu_races_t *races, const moe__emu_toucher_t *toucher,
                          moe__emu_global_kind_t kind, uint64_t address, uint32_t bytes,
                          moe__emu_race_t *out_race);

/* Reads `bytes` bytes, which may be old. is_acquire: takes what is attached to them. */
void moe__emu_races_read(moe__emu_races_t *races, const moe__emu_toucher_t *toucher,
                         bool is_acquire, uint64_t address, uint32_t bytes, uint8_t *out_value,
                         moe__emu_choose_t choose, void *context);
/* Writes bytes. is_release: what the thread knows is attached to them. */
void moe__emu_races_write(moe__emu_races_t *races, const moe__emu_toucher_t *toucher,
                          bool is_release, uint64_t address, uint32_t bytes, const uint8_t *value,
                          moe__emu_choose_t choose, void *context);

/* Computes the new value of an atomic from the old one. */
typedef uint64_t (*moe__emu_update_t)(const void *context, uint64_t old);
/* An atomic of 4 or 8 bytes; returns the old value. */
uint64_t moe__emu_races_update(moe__emu_races_t *races, const moe__emu_toucher_t *toucher,
                               bool is_acquire, bool is_release, uint64_t address, uint32_t bytes,
                               moe__emu_update_t update, const void *update_context,
                               moe__emu_choose_t choose, void *context);

/* A fence by lanes of toucher's warp; toucher->scope is the fence's. */
void moe__emu_races_fence(moe__emu_races_t *races, const moe__emu_toucher_t *toucher,
                          uint32_t lanes, bool is_sc);

#endif /* MOE_EMULATOR_CHECKS_GLOBAL_H */
