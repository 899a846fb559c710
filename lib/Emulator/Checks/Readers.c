/* Readers.c - sets of accesses.
 *
 * Why it exists: see Readers.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Emulator/Checks/Readers.h"

#include <stdlib.h>
#include <string.h>

bool moe__emu_readers_create(moe__emu_reader_sets_t *sets) {
  enum { SETS = 256, READERS = 1024, TABLE = 1024 };
  *sets = (moe__emu_reader_sets_t){
      .sets = malloc(SETS * sizeof *sets->sets),
      .capacity = SETS,
      .readers = malloc(READERS * sizeof *sets->readers),
      .reader_capacity = READERS,
      .table = calloc(TABLE, sizeof *sets->table),
      .table_capacity = TABLE,
  };
  if (!sets->sets || !sets->readers || !sets->table)
    return false;
  moe__emu_readers_reset(sets);
  return true;
}

void moe__emu_readers_free(moe__emu_reader_sets_t *sets) {
  free(sets->sets);
  free(sets->readers);
  free(sets->table);
  *sets = (moe__emu_reader_sets_t){0};
}

void moe__emu_readers_reset(moe__emu_reader_sets_t *sets) {
  memset(sets->table, 0, sets->table_capacity * sizeof *sets->table);
  sets->reader_count = 0;
  sets->sets[0] = (moe__emu_readers_t){0};
  sets->count = 1;
}

static uint32_t hash(const moe__emu_reader_t *readers, uint32_t count) {
  uint64_t value = count;
  for (uint32_t i = 0; i < count; i++) {
    value = (value ^ readers[i].event) * UINT64_C(0x9E3779B97F4A7C15);
    value =
        (value ^ readers[i].lanes ^ (uint64_t)readers[i].how << 32) * UINT64_C(0xD1342543DE82EF95);
    value ^= value >> 29;
  }
  return (uint32_t)(value >> 32);
}

static bool is_same(const moe__emu_reader_sets_t *sets, uint32_t set,
                    const moe__emu_reader_t *readers, uint32_t count) {
  const moe__emu_reader_t *there = &sets->readers[sets->sets[set].first];
  return sets->sets[set].count == count && !memcmp(there, readers, count * sizeof *readers);
}

static uint32_t *slot_of(const moe__emu_reader_sets_t *sets, const moe__emu_reader_t *readers,
                         uint32_t count) {
  uint32_t mask = sets->table_capacity - 1;
  for (uint32_t i = hash(readers, count) & mask;; i = (i + 1) & mask) {
    uint32_t set = sets->table[i];
    if (set == 0 || is_same(sets, set, readers, count))
      return &sets->table[i];
  }
}

static bool grow(void **list, uint32_t *capacity, uint32_t wanted, size_t size) {
  if (wanted <= *capacity)
    return true;
  uint32_t larger = *capacity * 2 > wanted ? *capacity * 2 : wanted;
  void *grown = realloc(*list, larger * size);
  if (!grown)
    return false;
  *list = grown;
  *capacity = larger;
  return true;
}

static bool rehash(moe__emu_reader_sets_t *sets) {
  uint32_t capacity = sets->table_capacity;
  while (capacity < sets->count * 4)
    capacity *= 2;
  uint32_t *table = calloc(capacity, sizeof *table);
  if (!table)
    return false;
  free(sets->table);
  sets->table = table;
  sets->table_capacity = capacity;
  for (uint32_t s = 1; s < sets->count; s++)
    *slot_of(sets, &sets->readers[sets->sets[s].first], sets->sets[s].count) = s;
  return true;
}

/* Adds a set; 0 when there is no memory. */
static uint32_t add(moe__emu_reader_sets_t *sets, const moe__emu_reader_t *readers,
                    uint32_t count) {
  if (!grow((void **)&sets->sets, &sets->capacity, sets->count + 1, sizeof *sets->sets) ||
      !grow((void **)&sets->readers, &sets->reader_capacity, sets->reader_count + count,
            sizeof *sets->readers))
    return 0;
  sets->sets[sets->count] = (moe__emu_readers_t){sets->reader_count, count};
  memcpy(&sets->readers[sets->reader_count], readers, count * sizeof *readers);
  sets->reader_count += count;
  return sets->count++;
}

uint32_t moe__emu_readers_change(moe__emu_reader_sets_t *sets, uint32_t set,
                                 const moe__emu_reader_t *readers, uint32_t count) {
  if (is_same(sets, set, readers, count))
    return set;
  return count ? add(sets, readers, count) : 0;
}

uint32_t moe__emu_readers_number(moe__emu_reader_sets_t *sets, uint32_t likely,
                                 const moe__emu_reader_t *readers, uint32_t count) {
  if (count == 0)
    return 0;
  if (is_same(sets, likely, readers, count))
    return likely;
  uint32_t *slot = slot_of(sets, readers, count);
  if (*slot)
    return *slot;
  uint32_t number = *slot = add(sets, readers, count);
  if (sets->count * 4 > sets->table_capacity && !rehash(sets))
    return 0;
  return number;
}

bool moe__emu_readers_sweep(moe__emu_reader_sets_t *sets, uint32_t *numbers, uint32_t count) {
  uint32_t *renumber = calloc(sets->count, sizeof *renumber);
  if (!renumber)
    return false;
  for (uint32_t i = 0; i < count; i++)
    renumber[numbers[i]] = 1;
  uint32_t kept = 1, end = 0;
  for (uint32_t s = 1; s < sets->count; s++) {
    if (!renumber[s])
      continue;
    moe__emu_readers_t set = sets->sets[s];
    memmove(&sets->readers[end], &sets->readers[set.first], set.count * sizeof *sets->readers);
    sets->sets[kept] = (moe__emu_readers_t){end, set.count};
    end += set.count;
    renumber[s] = kept++;
  }
  renumber[0] = 0;
  for (uint32_t i = 0; i < count; i++)
    numbers[i] = renumber[numbers[i]];
  free(renumber);
  sets->count = kept;
  sets->reader_count = end;
  return rehash(sets);
}
