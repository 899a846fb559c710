/* Tiles.c - small pieces of tensors in fp32.
 *
 * Why it exists: see Tiles.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Reference/Tiles.h"

/* Calls function(dtype, ...) with a constant dtype, so that its inlined loops are compiled for that
 * type alone. */
#define WITH_CONSTANT_DTYPE(dtype, function, ...)                                                  \
  switch (dtype) {                                                                                 \
  case MOE_REF_F32:                                                                                \
    function(MOE_REF_F32, __VA_ARGS__);                                                            \
    break;                                                                                         \
  case MOE_REF_BF16:                                                                               \
    function(MOE_REF_BF16, __VA_ARGS__);                                                           \
    break;                                                                                         \
  case MOE_REF_E4M3:                                                                               \
    function(MOE_REF_E4M3, __VA_ARGS__);                                                           \
    break;                                                                                         \
  case MOE_REF_E5M2:                                                                               \
    function(MOE_REF_E5M2, __VA_ARGS__);                                                           \
    break;                                                                                         \
  case MOE_REF_F16:                                                                                \
  case MOE_REF_E8M0:                                                                               \
  case MOE_REF_I32:                                                                                \
  case MOE_REF_U8:                                                                                 \
    break;                                                                                         \
  }

static inline void read_as(moe_ref_dtype_t dtype, const moe__ref_place_t *from,
                           moe__ref_tile_t *tile) {
  const void *const data = from->data;
  const int64_t row = from->row, lane = from->lane;
  const int rows = tile->rows, lanes = tile->lanes;
  if (moe__ref_distance(lane) < moe__ref_distance(row)) {
    for (int r = 0; r < rows; r++)
      for (int l = 0; l < lanes; l++)
        tile->values[r][l] = moe__ref_element_load(dtype, data, r * row + l * lane);
  } else {
    for (int l = 0; l < lanes; l++)
      for (int r = 0; r < rows; r++)
        tile->values[r][l] = moe__ref_element_load(dtype, data, r * row + l * lane);
  }
}

static inline void write_as(moe_ref_dtype_t dtype, const moe__ref_place_t *to,
                            const moe__ref_tile_t *tile) {
  void *const data = to->data;
  const int64_t row = to->row, lane = to->lane;
  const int rows = tile->rows, lanes = tile->lanes;
  if (moe__ref_distance(lane) < moe__ref_distance(row)) {
    for (int r = 0; r < rows; r++)
      for (int l = 0; l < lanes; l++)
        moe__ref_element_store(dtype, data, r * row + l * lane, tile->values[r][l]);
  } else {
    for (int l = 0; l < lanes; l++)
      for (int r = 0; r < rows; r++)
        moe__ref_element_store(dtype, data, r * row + l * lane, tile->values[r][l]);
  }
}

void moe__ref_tile_read(const moe__ref_place_t *from, moe__ref_tile_t *tile) {
  WITH_CONSTANT_DTYPE(from->dtype, read_as, from, tile)
}

void moe__ref_tile_write(const moe__ref_place_t *to, const moe__ref_tile_t *tile) {
  WITH_CONSTANT_DTYPE(to->dtype, write_as, to, tile)
}
