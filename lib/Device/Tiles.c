/* Tiles.c - see Tiles.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Device/Tiles.h"

moe__tiles_t moe__tiles_create(moe__builder_t *b, MlirValue batches, MlirValue rows,
                               MlirValue columns, int32_t band) {
  return (moe__tiles_t){
      .total = moe__mul(b, batches, moe__mul(b, rows, columns)),
      .rows = rows,
      .columns = columns,
      .band = band,
  };
}

moe__tile_t moe__tile_at(moe__builder_t *b, const moe__tiles_t *tiles, MlirValue index) {
  MlirValue batch_tiles = moe__mul(b, tiles->rows, tiles->columns);
  moe__tile_t tile = moe__tile_in_batch(b, tiles, moe__urem(b, index, batch_tiles));
  tile.batch = moe__udiv(b, index, batch_tiles);
  return tile;
}

moe__tile_t moe__tile_in_batch(moe__builder_t *b, const moe__tiles_t *tiles, MlirValue index) {
  moe__tile_t tile = {0};
  if (tiles->band == 1) {
    tile.row = moe__udiv(b, index, tiles->columns);
    tile.column = moe__urem(b, index, tiles->columns);
    return tile;
  }
  MlirValue band = moe__i32(b, tiles->band);
  MlirValue band_tiles = moe__mul(b, band, tiles->columns);
  MlirValue first_row = moe__mul(b, moe__udiv(b, index, band_tiles), band);
  MlirValue in_band = moe__urem(b, index, band_tiles);
  /* The last band may have fewer rows. */
  MlirValue height = moe__umin(b, band, moe__sub(b, tiles->rows, first_row));
  tile.row = moe__add(b, first_row, moe__urem(b, in_band, height));
  tile.column = moe__udiv(b, in_band, height);
  return tile;
}

MlirValue moe__tiles_first(const moe__kernel_t *kernel) {
  return kernel->cluster_size > 1 ? kernel->cluster : kernel->cta;
}

MlirValue moe__tiles_step(const moe__kernel_t *kernel) {
  return kernel->cluster_size > 1 ? kernel->cluster_count : kernel->cta_count;
}

const moe__expression_t *moe__tiles_count(moe__record_t *record, const moe__tile_counts_t *tiles) {
  const moe__expression_t *rows =
      moe__expression_ceildiv(record, tiles->rows->expression, tiles->tile_rows);
  const moe__expression_t *columns =
      moe__expression_ceildiv(record, tiles->columns->expression, tiles->tile_columns);
  if (tiles->groups)
    rows = moe__expression_add(record, MOE__EXPRESSIONS(rows, tiles->groups));
  return moe__expression_mul(record, MOE__EXPRESSIONS(tiles->count->expression, rows, columns));
}

const moe__expression_t *moe__tiles_grid(moe__record_t *record, const moe__tile_counts_t *tiles,
                                         int ctas_per_sm) {
  return moe__expression_persistent(record, moe__tiles_count(record, tiles), ctas_per_sm);
}
