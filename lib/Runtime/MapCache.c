/* MapCache.c - a table of four ways.
 *
 * Its size is fixed: a process that trains for weeks holds as many maps as one that ran a step.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Runtime/MapCache.h"

#include <stdlib.h>
#include <string.h>

enum { SETS = 1024, WAYS = 4 };

typedef struct entry_t {
  uint64_t key; /* 0: empty */
  uint64_t address;
  uint64_t used; /* when, by the cache's clock */
  unsigned char bytes[sizeof(moe__rt_encoded_map_t)];
} entry_t;

struct moe__rt_map_cache_t {
  pthread_mutex_t mutex;
  uint64_t clock;
  entry_t entries[SETS][WAYS];
};

moe__rt_map_cache_t *moe__rt_map_cache_make(void) {
  moe__rt_map_cache_t *cache = calloc(1, sizeof *cache);
  if (cache)
    pthread_mutex_init(&cache->mutex, NULL);
  return cache;
}

void moe__rt_map_cache_destroy(moe__rt_map_cache_t *cache) {
  if (!cache)
    return;
  pthread_mutex_destroy(&cache->mutex);
  free(cache);
}

void moe__rt_map_cache_lock(moe__rt_map_cache_t *cache) {
  pthread_mutex_lock(&cache->mutex);
}

void moe__rt_map_cache_unlock(moe__rt_map_cache_t *cache) {
  pthread_mutex_unlock(&cache->mutex);
}

/* Addresses are multiples of 512 more often than not: the upper half of a product has all bits. */
static entry_t *find_set(moe__rt_map_cache_t *cache, uint64_t key, uint64_t address) {
  uint64_t mixed = (key * UINT64_C(0x9E3779B97F4A7C15) ^ address) * UINT64_C(0xD6E8FEB86659FD93);
  return cache->entries[(mixed >> 32) % SETS];
}

const unsigned char *moe__rt_map_cache_find(moe__rt_map_cache_t *cache, uint64_t key,
                                            uint64_t address) {
  entry_t *set = find_set(cache, key, address);
  for (int i = 0; i < WAYS; i++) {
    if (set[i].key == key && set[i].address == address) {
      set[i].used = ++cache->clock;
      return set[i].bytes;
    }
  }
  return NULL;
}

void moe__rt_map_cache_put(moe__rt_map_cache_t *cache, uint64_t key, uint64_t address,
                           const moe__rt_encoded_map_t *map) {
  entry_t *set = find_set(cache, key, address);
  entry_t *oldest = set;
  for (int i = 1; i < WAYS; i++) {
    if (set[i].used < oldest->used)
      oldest = &set[i];
  }
  *oldest = (entry_t){.key = key, .address = address, .used = ++cache->clock};
  memcpy(oldest->bytes, map->bytes, sizeof oldest->bytes);
}
