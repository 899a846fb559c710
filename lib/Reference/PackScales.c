/* PackScales.c - scales in the order in which products read them.
 *
 * Why it exists: a product of MX tensors on later tensor cores reads 128 rows and 4 columns of
 * scales as 512 consecutive bytes; docs/numerics.md shows the tile. One with fp32 scales of 1x128
 * blocks reads those with the rows side by side.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Reference/Tensors.h"

#include <string.h>

enum {
  ROWS = MOE_REF_PACKED_ROWS,
  COLUMNS = MOE_REF_PACKED_COLUMNS,
  TILE_BYTES = ROWS * COLUMNS,
};

/* Rows [first, end) of a tile's rows are those of scales; the rest is padding. */
typedef struct {
  int64_t first, end;
} rows_t;

/* The byte of scales[row, column], 0 where there is none. */
static uint8_t scale_at(const moe_ref_tensor_t *scales, rows_t rows, int64_t row, int64_t column) {
  if (row >= rows.end || column >= scales->shape[1])
    return 0;
  return *(const uint8_t *)moe__ref_element_address(scales, row * scales->strides[0] +
                                                                column * scales->strides[1]);
}

/* Byte number `position` of packed, counted row-major. */
static uint8_t *byte_at(const moe_ref_tensor_t *packed, int64_t position) {
  const int64_t row = position / packed->shape[1], column = position % packed->shape[1];
  return moe__ref_element_address(packed, row * packed->strides[0] + column * packed->strides[1]);
}

/* Packs up to 128 rows of scales as row number `tile_row` of tiles. */
static void pack_rows(const moe_ref_tensor_t *scales, rows_t rows, int64_t tile_row,
                      const moe_ref_tensor_t *packed) {
  const int64_t tiles = packed->shape[1] / COLUMNS;
  for (int64_t tile = 0; tile < tiles; tile++)
    for (int r = 0; r < ROWS; r++)
      for (int c = 0; c < COLUMNS; c++)
        *byte_at(packed, (tile_row * tiles + tile) * TILE_BYTES + (int64_t)(r % 32) * 16 +
                             (int64_t)(r / 32) * 4 + c) =
            scale_at(scales, rows, rows.first + r, tile * COLUMNS + c);
}

static bool is_matrix(const moe_ref_tensor_t *tensor) {
  return moe__ref_is_tensor(tensor) && tensor->rank == 2 && tensor->dtype == MOE_REF_E8M0;
}

moe_ref_status_t moe_ref_swap_scales(const moe_ref_tensor_t *scales,
                                     const moe_ref_tensor_t *packed) {
  const moe_ref_tensor_t *const tensors[] = {scales, packed};
  for (int i = 0; i < 2; i++)
    if (!moe__ref_is_tensor(tensors[i]) || tensors[i]->rank != 2 ||
        tensors[i]->dtype != MOE_REF_F32 || tensors[i]->shape[0] != scales->shape[0] ||
        tensors[i]->shape[1] != scales->shape[1])
      return MOE_REF_INVALID_ARGUMENT;
  for (int64_t row = 0; row < scales->shape[0]; row++)
    for (int64_t column = 0; column < scales->shape[1]; column++)
      memcpy(
          moe__ref_element_address(packed, row * packed->strides[0] + column * packed->strides[1]),
          moe__ref_element_address(scales, row * scales->strides[0] + column * scales->strides[1]),
          sizeof(float));
  return MOE_REF_OK;
}

moe_ref_status_t moe_ref_pack_scales(const moe_ref_tensor_t *scales, const moe_ref_tensor_t *offs,
                                     const moe_ref_tensor_t *packed) {
  if (!is_matrix(scales) || !is_matrix(packed) || (offs != NULL && !moe__ref_is_offsets(offs)))
    return MOE_REF_INVALID_ARGUMENT;
  const int64_t rows = scales->shape[0], groups = offs != NULL ? offs->shape[0] : 1;
  const int64_t more_tiles = offs != NULL ? groups : 0;
  if (packed->shape[0] != moe_ref_padded(rows, ROWS) + more_tiles * ROWS ||
      packed->shape[1] != moe_ref_padded(scales->shape[1], COLUMNS))
    return MOE_REF_INVALID_ARGUMENT;

  int64_t start = 0, tile_row = 0;
  for (int64_t g = 0; g < groups; g++) {
    const int64_t end = offs != NULL ? moe__ref_group_end(offs, g, start, rows) : rows;
    for (; start < end; start += ROWS)
      pack_rows(scales, (rows_t){start, end}, tile_row++, packed);
    start = end;
  }
  for (; tile_row < packed->shape[0] / ROWS; tile_row++)
    pack_rows(scales, (rows_t){rows, rows}, tile_row, packed);
  return MOE_REF_OK;
}
