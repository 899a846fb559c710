/* Tiles.h - the work list of a persistent kernel: which tile a CTA takes next.
 *
 * CTAs stride through one list of tiles: CTA i takes tiles i, i + CTAs, ... Where a kernel
 * has clusters, these do: all CTAs of a cluster get the same. The order of the list decides
 * which DRAM pages and L2 lines are shared by the CTAs that run at the same time.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_DEVICE_TILES_H
#define MOE_DEVICE_TILES_H

#include "lib/Device/Kernel.h"

/* batches x rows x columns tiles, batch by batch. Within a batch, bands of `band` tile rows, and
 * within a band column by column: band = 1 is row-major order; a larger band keeps concurrent
 * CTAs on a squarer patch. */
typedef struct moe__tiles_t {
  MlirValue total;         /* i32: how many tiles there are */
  MlirValue rows, columns; /* i32 */
  int32_t band;
} moe__tiles_t;

typedef struct moe__tile_t {
  MlirValue batch, row, column; /* i32, in tiles */
} moe__tile_t;

moe__tiles_t moe__tiles_create(moe__builder_t *b, MlirValue batches, MlirValue rows,
                               MlirValue columns, int32_t band);

moe__tile_t moe__tile_at(moe__builder_t *b, const moe__tiles_t *tiles, MlirValue index);

/* The same for an index inside a batch; batch is not set. */
moe__tile_t moe__tile_in_batch(moe__builder_t *b, const moe__tiles_t *tiles, MlirValue index);

/* The tile that this CTA takes first, and how many tiles further the next one is; in kernels with
 * clusters those of its cluster. */
MlirValue moe__tiles_first(const moe__kernel_t *kernel);
MlirValue moe__tiles_step(const moe__kernel_t *kernel);

/* A work list on the host: `count` matrices of extents rows x columns, in tiles. */
typedef struct moe__tile_counts_t {
  const moe__extent_t *count, *rows, *columns;
  int tile_rows, tile_columns;
  const moe__expression_t *groups; /* of rows, each of which may end in a tile that is not full */
} moe__tile_counts_t;

/* How many tiles there may be. */
const moe__expression_t *moe__tiles_count(moe__record_t *record, const moe__tile_counts_t *tiles);

/* The grid of a persistent kernel: as many CTAs as are resident, and no more than there may be
 * tiles. */
const moe__expression_t *moe__tiles_grid(moe__record_t *record, const moe__tile_counts_t *tiles,
                                         int ctas_per_sm);

/* for each tile of this CTA, or of its cluster, with the addresses of carried variables: see
 * MOE__FOR. */
#define MOE__FOR_TILES(kernel, tiles, index, ...)                                                  \
  MOE__FOR (&(kernel)->builder, index, moe__tiles_first(kernel), (tiles)->total,                   \
            moe__tiles_step(kernel), __VA_ARGS__)

#endif /* MOE_DEVICE_TILES_H */
