/* Schedule.h - the schedule of an op: every constant of its kernel that is a choice and not a
 * consequence.
 *
 * moe-select-schedule writes it as the attribute `schedule`, a conversion reads it. Whoever wants
 * another one writes it into the source: the pass leaves it alone.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_PASSES_SCHEDULE_H
#define MOE_PASSES_SCHEDULE_H

#include "mlir-c/IR.h"

#include <stdbool.h>

/* Scales of a row that a block stores at once where MX is written in both directions: half of the least that
 * memory moves. They are kept in shared memory until then. */
#define MOE__RUN_SCALES 16

/* The kernels that write FP8 tile by tile (lib/Kernel/CastTiles.h). Shared memory per block:
 * tile_n * tile_k * (stages * sizeof(x) + output_stages * results) bytes.
 * X(field, least, most); the field is the attribute's name too. */
#define MOE__QUANTIZE_SCHEDULE(X)                                                                  \
  X(tile_n, 32, 256)     /* rows of a tile, a multiple of 32; of 128 where columns are written */  \
  X(tile_k, 32, 1024)    /* columns of a tile, a multiple of 128 bytes of x; 256 with columns */   \
  X(stages, 1, 8)        /* tiles in flight into shared memory */                                  \
  X(output_stages, 1, 2) /* tiles in flight out of it, of each result */                           \
  X(warps, 1, 16)        /* that quantize; one more loads */                                       \
  X(blocks_per_sm, 1, 4)                                                                           \
  X(band, 1, 4096) /* tile rows per band of the tile order */

/* Quantization row by row. Shared memory per block: buffer_kb KB of whole rows. */
#define MOE__ROWS_SCHEDULE(X)                                                                      \
  X(buffer_kb, 1, 224) /* for rows in flight and at work */                                        \
  X(stages, 2, 128)    /* such rows, at most */                                                    \
  X(warps, 1, 31)      /* that quantize; one more loads */                                         \
  X(blocks_per_sm, 1, 4)

/* The first pass of a quantization that takes two. */
#define MOE__SCALE_SCHEDULE(X)                                                                     \
  X(rows_per_warp, 1, 32) /* of a tile of warps * rows_per_warp rows of 512 bytes */               \
  X(warps, 1, 32)                                                                                  \
  X(blocks_per_sm, 1, 8)                                                                           \
  X(band, 1, 4096) /* tile rows per band of the tile order */

/* Quantization in blocks of 128 x 128, a thread block each: a thread takes one vector of 16 bytes of x of
 * each of several rows. */
#define MOE__BLOCKS_SCHEDULE(X)                                                                    \
  X(warps, 1, 32)                                                                                  \
  X(blocks_per_sm, 1, 16)                                                                          \
  X(band, 1, 4096) /* tile rows per band of the tile order */

/* MX quantization along the last dimension, FP8 in blocks of 1 x 128: a stream of chunks of 1024 elements, of which a warp takes
 * several at once. */
#define MOE__STREAM_SCHEDULE(X)                                                                    \
  X(chunks, 1, 4) /* that a warp has in flight */                                                  \
  X(warps, 1, 32)                                                                                  \
  X(blocks_per_sm, 1, 32)                                                                          \
  X(persistent, 0, 1) /* 1: resident blocks stride through all chunks; 0: each takes some once */

/* Dequantization, in tiles of the rows and the columns of x. With q row-major a thread takes one vector
 * of each of several rows; with q column-major a tile goes through tile_n * tile_k bytes of shared
 * memory. */
#define MOE__DEQUANTIZE_SCHEDULE(X)                                                                \
  X(tile_n, 1, 512)   /* rows of a tile */                                                         \
  X(tile_k, 32, 4096) /* columns of a tile */                                                      \
  X(warps, 1, 32)                                                                                  \
  X(blocks_per_sm, 1, 16)                                                                          \
  X(band, 1, 4096) /* tile rows per band of the tile order */

/* Scales brought into tiles of 128 x 4. Shared memory per block: 128 * (tile_columns + 4) bytes. */
#define MOE__PACK_SCHEDULE(X)                                                                      \
  X(tile_columns, 16,                                                                              \
    512) /* columns of scales that a block brings in at once, a multiple of 16 */                  \
  X(warps, 1, 32)                                                                                  \
  X(blocks_per_sm, 1, 16)

/* Rows moved from one place to another, in pieces: a warp moves 512 * vectors bytes of a row. */
#define MOE__MOVE_SCHEDULE(X)                                                                      \
  X(vectors, 1, 16) /* of 16 bytes that a lane moves at once */                                    \
  X(warps, 1, 32)                                                                                  \
  X(blocks_per_sm, 1, 16)

/* The product of ragged groups. Shared memory per block: stages * (128 + tile_n) * 128 bytes, 16 KB
 * and up to 16 * tile_n for the epilogue, and a table of the groups. */
#define MOE__GROUPED_SCHEDULE(X)                                                                   \
  X(swap_operands, 0, 1) /* 1: the rows of a tile are columns of qb, its columns rows of qa */     \
  X(tile_n, 16, 256)     /* columns of a tile of 128 rows, a multiple of 64; if swapped, of 16 */  \
  X(stages, 2, 12)       /* pairs of tiles, 128 of K deep, in flight */                            \
  X(band, 1, 4096)       /* tile rows, of clusters, per band of the tile order */                  \
  X(cluster, 1, 2)       /* blocks with tiles below one another, which share what they read of qb */

#define MOE__FIELD(field, least, most) int field;
typedef struct moe__quantize_schedule_t {
  MOE__QUANTIZE_SCHEDULE(MOE__FIELD)
} moe__quantize_schedule_t;
typedef struct moe__rows_schedule_t {
  MOE__ROWS_SCHEDULE(MOE__FIELD)
} moe__rows_schedule_t;
typedef struct moe__scale_schedule_t {
  MOE__SCALE_SCHEDULE(MOE__FIELD)
} moe__scale_schedule_t;
typedef struct moe__blocks_schedule_t {
  MOE__BLOCKS_SCHEDULE(MOE__FIELD)
} moe__blocks_schedule_t;
typedef struct moe__stream_schedule_t {
  MOE__STREAM_SCHEDULE(MOE__FIELD)
} moe__stream_schedule_t;
typedef struct moe__dequantize_schedule_t {
  MOE__DEQUANTIZE_SCHEDULE(MOE__FIELD)
} moe__dequantize_schedule_t;
typedef struct moe__pack_schedule_t {
  MOE__PACK_SCHEDULE(MOE__FIELD)
} moe__pack_schedule_t;
typedef struct moe__move_schedule_t {
  MOE__MOVE_SCHEDULE(MOE__FIELD)
} moe__move_schedule_t;
typedef struct moe__grouped_schedule_t {
  MOE__GROUPED_SCHEDULE(MOE__FIELD)
} moe__grouped_schedule_t;
#undef MOE__FIELD

/* What such a kernel writes: q along the last dimension, row-major; along the one before it,
 * column-major. */
typedef struct moe__directions_t {
  bool rows, columns;
} moe__directions_t;

/* Read and check the attribute `schedule` of an op; they emit an error where it is wrong.
 * max_groups: as in Groups.h, 0 where rows are in no groups; promoted: whether a second accumulator
 * takes registers; gradient: whether groups are ranges of the reduction; element_bytes: of x;
 * columns: whether q is column-major. */
bool moe__quantize_schedule_read(MlirOperation op, moe__directions_t directions, int max_groups,
                                 moe__quantize_schedule_t *out);
bool moe__rows_schedule_read(MlirOperation op, moe__rows_schedule_t *out);
bool moe__scale_schedule_read(MlirOperation op, moe__scale_schedule_t *out);
bool moe__blocks_schedule_read(MlirOperation op, int element_bytes, moe__blocks_schedule_t *out);
bool moe__stream_schedule_read(MlirOperation op, int element_bytes, moe__stream_schedule_t *out);
bool moe__dequantize_schedule_read(MlirOperation op, int element_bytes, bool columns,
                                   int max_groups, moe__dequantize_schedule_t *out);
bool moe__pack_schedule_read(MlirOperation op, int max_groups, moe__pack_schedule_t *out);
bool moe__move_schedule_read(MlirOperation op, int max_groups, moe__move_schedule_t *out);
bool moe__grouped_schedule_read(MlirOperation op, int max_groups, bool promoted, bool gradient,
                                moe__grouped_schedule_t *out);

/* Write the attribute. */
void moe__quantize_schedule_write(MlirOperation op, const moe__quantize_schedule_t *schedule);
void moe__rows_schedule_write(MlirOperation op, const moe__rows_schedule_t *schedule);
void moe__scale_schedule_write(MlirOperation op, const moe__scale_schedule_t *schedule);
void moe__blocks_schedule_write(MlirOperation op, const moe__blocks_schedule_t *schedule);
void moe__stream_schedule_write(MlirOperation op, const moe__stream_schedule_t *schedule);
void moe__dequantize_schedule_write(MlirOperation op, const moe__dequantize_schedule_t *schedule);
void moe__pack_schedule_write(MlirOperation op, const moe__pack_schedule_t *schedule);
void moe__move_schedule_write(MlirOperation op, const moe__move_schedule_t *schedule);
void moe__grouped_schedule_write(MlirOperation op, const moe__grouped_schedule_t *schedule);

/* Gives each op of the module that has no schedule number `candidate` of its candidates, or the first,
 * the default, where it has fewer. *out_count is how many the op with the most has; 1 where every op
 * has a schedule. False after an error, which is also that there is no such candidate. The module has
 * passed moe-verify. */
bool moe__select_schedules(MlirOperation module, int candidate, int *out_count);

#endif /* MOE_PASSES_SCHEDULE_H */
