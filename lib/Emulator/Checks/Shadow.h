/* Shadow.h - accesses to shared memory, checked byte by byte.
 *
 * Why it exists: what a view knows (Order.h) is compared with what each byte remembers.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_EMULATOR_CHECKS_SHADOW_H
#define MOE_EMULATOR_CHECKS_SHADOW_H

#include "lib/Emulator/Checks/Order.h"

/* What a check found. */
typedef enum moe__emu_conflict_t {
  MOE__EMU_ORDERED,
  MOE__EMU_UNINITIALIZED,
  MOE__EMU_OBJECT,       /* the byte belongs to an mbarrier */
  MOE__EMU_AFTER_WRITE,  /* not ordered after `other`, which wrote */
  MOE__EMU_AFTER_READ,   /* not ordered after `other`, which read */
  MOE__EMU_NOT_FENCED,   /* ordered after the write `other`, but no proxy fence between */
  MOE__EMU_LATE_READ,    /* the same after a read, which may be late */
  MOE__EMU_ORDER_MEMORY, /* no memory */
} moe__emu_conflict_t;

typedef struct moe__emu_finding_t {
  moe__emu_conflict_t conflict;
  uint32_t address;
  moe__emu_event_t other;
} moe__emu_finding_t;

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
  const moe__emu_party_t *party; /* of the lanes being checked */
  uint32_t warp, lanes;
  moe__emu_access_kind_t kind;
  bool is_collective;  /* all lanes of the warp do it together: what any of them did comes before */
  moe__emu_event_t as; /* of an asynchronous one; else without its lane */
  const uint8_t *value, *memory; /* of a write: what it writes, and what is there; NULL: unknown */
  /* What was found for the byte before: neighbors mostly have the same history. */
  bool has_last;
  moe__emu_event_t writer;
  uint32_t readers, new_readers;
  moe__emu_finding_t finding;
} moe__emu_access_t;

/* Begins an access by lanes of a warp; `as` is the event of an asynchronous one. */
moe__emu_access_t moe__emu_access_begin(moe__emu_order_t *order, uint32_t warp, uint32_t active,
                                        moe__emu_access_kind_t kind, moe__emu_event_t as);
/* Adds bytes [address, address + bytes), which must lie inside of shared memory, as touched by
 * `lanes`: one lane, or lanes that read the same bytes. A read of bytes that nobody has written
 * adds them to *out_missing, bit by bit from the first one, or is a conflict where that is NULL.
 * False, with the conflict in access->finding, when one is not ordered. */
bool moe__emu_access_bytes(moe__emu_access_t *access, uint32_t lanes, uint32_t address,
                           uint32_t bytes, uint32_t *out_missing);

/* The 8 bytes become an mbarrier's, or stop being. */
void moe__emu_order_object(moe__emu_order_t *order, uint32_t address, bool is_object);

#endif /* MOE_EMULATOR_CHECKS_SHADOW_H */
