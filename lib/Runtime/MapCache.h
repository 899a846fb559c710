/* MapCache.h - encoded tensor maps, by plan and address.
 *
 * Encoding takes the driver some tenths of a microsecond a map, and the allocators of frameworks
 * give the same addresses step after step.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_RUNTIME_MAP_CACHE_H
#define MOE_RUNTIME_MAP_CACHE_H

#include "lib/Runtime/Backend.h"

typedef struct moe__rt_map_cache_t moe__rt_map_cache_t;

/* NULL when memory is out. */
moe__rt_map_cache_t *moe__rt_map_cache_make(void);

/* NULL is allowed. */
void moe__rt_map_cache_destroy(moe__rt_map_cache_t *cache);

/* Keeps other threads out from here to moe__rt_map_cache_unlock. */
void moe__rt_map_cache_lock(moe__rt_map_cache_t *cache);
void moe__rt_map_cache_unlock(moe__rt_map_cache_t *cache);

/* The bytes of the map that was put in under this key; NULL where it is not there any more. `key`
 * stands for all of the map but its address; it is not 0. */
const unsigned char *moe__rt_map_cache_find(moe__rt_map_cache_t *cache, uint64_t key,
                                            uint64_t address);

/* Puts a map in, in the place of one that was not used for long. */
void moe__rt_map_cache_put(moe__rt_map_cache_t *cache, uint64_t key, uint64_t address,
                           const moe__rt_encoded_map_t *map);

#endif /* MOE_RUNTIME_MAP_CACHE_H */
