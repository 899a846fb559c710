/* Readers.h - sets of accesses that a byte remembers.
 *
 * Why it exists: the bytes of a tile are read by the same lanes, so that few different sets serve
 * many bytes: each has a number.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_EMULATOR_CHECKS_READERS_H
#define MOE_EMULATOR_CHECKS_READERS_H

#include "lib/Emulator/Checks/Foreign.h"

/* Some lanes' access to a byte. */
typedef struct moe__emu_reader_t {
  moe__emu_event_t event; /* its lane is 0 */
  uint32_t lanes;
  uint32_t how; /* of global memory: the line, and Global.h's kind */
} moe__emu_reader_t;

/* A set of readers of a byte. */
typedef struct moe__emu_readers_t {
  uint32_t first, count; /* in the list of readers */
} moe__emu_readers_t;

typedef struct moe__emu_reader_sets_t {
  moe__emu_readers_t *sets; /* 0 is the empty one */
  uint32_t count, capacity;
  moe__emu_reader_t *readers;
  uint32_t reader_count, reader_capacity;
  uint32_t *table; /* hash table of sets */
  uint32_t table_capacity;
} moe__emu_reader_sets_t;

/* The empty set alone; false when there is no memory. */
bool moe__emu_readers_create(moe__emu_reader_sets_t *sets);
void moe__emu_readers_free(moe__emu_reader_sets_t *sets);
void moe__emu_readers_reset(moe__emu_reader_sets_t *sets);

/* The number of a set, which is likely to be `likely`; 0 for one that is not empty when there is no
 * memory. */
uint32_t moe__emu_readers_number(moe__emu_reader_sets_t *sets, uint32_t likely,
                                 const moe__emu_reader_t *readers, uint32_t count);
/* The number of a set that takes the place of `set`, for sets that few bytes have in common: equal
 * ones may have several numbers. */
uint32_t moe__emu_readers_change(moe__emu_reader_sets_t *sets, uint32_t set,
                                 const moe__emu_reader_t *readers, uint32_t count);
/* Drops the sets that numbers[0..count) do not name, and changes those to the new numbers. False
 * when there is no memory. */
bool moe__emu_readers_sweep(moe__emu_reader_sets_t *sets, uint32_t *numbers, uint32_t count);

#endif /* MOE_EMULATOR_CHECKS_READERS_H */
