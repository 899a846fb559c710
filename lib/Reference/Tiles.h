/* Tiles.h - small pieces of tensors in fp32.
 *
 * Why it exists: quantizers read a tensor in one memory order and write another in another. A tile
 * fits the cache in both, and its loops are vectorized.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_LIB_REFERENCE_TILES_H
#define MOE_LIB_REFERENCE_TILES_H

#include "lib/Reference/Tensors.h"

enum { MOE__REF_TILE_HEIGHT = 32, MOE__REF_TILE_LANES = 64 };

/* Element (r, l), for r below rows and l below lanes, is values[r][l]. */
typedef struct moe__ref_tile_t {
  float values[MOE__REF_TILE_HEIGHT][MOE__REF_TILE_LANES];
  int rows, lanes;
} moe__ref_tile_t;

/* Where a tile lies in a tensor: (r, l) is at data[r * row + l * lane]. */
typedef struct moe__ref_place_t {
  moe_ref_dtype_t dtype;
  void *data;
  int64_t row, lane;
} moe__ref_place_t;

/* Both go through the tensor in the order of its memory. */
void moe__ref_tile_read(const moe__ref_place_t *from, moe__ref_tile_t *tile);
void moe__ref_tile_write(const moe__ref_place_t *to, const moe__ref_tile_t *tile);

/* |stride|, for every stride. */
static inline uint64_t moe__ref_distance(int64_t stride) {
  return stride < 0 ? 0 - (uint64_t)stride : (uint64_t)stride;
}

#endif /* MOE_LIB_REFERENCE_TILES_H */
