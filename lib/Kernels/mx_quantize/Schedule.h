/* Schedule.h - the fields of the schedules of mx_quantize's kernels: range, default and what each
 * is.
 *
 * lib/Kernels/Schedule.h says how a table is written. The candidates, which are schedules worth
 * measuring, stand in the kernels' files; the first one is the default.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_KERNELS_MX_QUANTIZE_SCHEDULE_H
#define MOE_KERNELS_MX_QUANTIZE_SCHEDULE_H

#include "lib/Kernels/Schedule.h"

/* Of QuantizeStream.c. */
#define MOE__STREAM_SCHEDULE(X, T)                                                                 \
  X(T, chunks, 1, 4, 1, "chunks of 1024 elements that a warp has in flight")                       \
  X(T, warps, 1, 32, 8, "warps of a CTA")                                                          \
  X(T, ctas_per_sm, 1, 32, 6, "CTAs that share a multiprocessor")                                  \
  X(T, persistent, 0, 1, 0,                                                                        \
    "1: as many CTAs as are resident stride through all chunks; 0: each takes chunks * warps of "  \
    "them, once")

typedef struct moe__stream_schedule_t {
  MOE__STREAM_SCHEDULE(MOE__SCHEDULE_MEMBER, )
} moe__stream_schedule_t;

/* Of Round.c. */
#define MOE__ROUND_SCHEDULE(X, T)                                                                  \
  X(T, lanes, 8, 32, 16, "lanes that have a row of 64 to 256 columns: 8, 16 or 32")                \
  X(T, vectors, 2, 8, 4, "vectors of 8 columns that a lane has, a power of two")                   \
  X(T, warps, 1, 32, 4, "warps of a CTA: a multiple of lanes / vectors, which have 32 rows")       \
  X(T, ctas_per_sm, 1, 16, 8, "CTAs that share a multiprocessor")                                  \
  X(T, band, 1, 4096, 1, "rows of such tiles that are worked off together")                        \
  X(T, persistent, 0, 1, 0, "1: CTAs take tiles until there are none; 0: each takes one")

typedef struct moe__round_schedule_t {
  MOE__ROUND_SCHEDULE(MOE__SCHEDULE_MEMBER, )
} moe__round_schedule_t;

/* Of QuantizeF16.c. */
#define MOE__QUANTIZE_F16_SCHEDULE(X, T)                                                           \
  X(T, vectors, 1, 16, 4, "vectors of 8 columns that a lane loads at once")                        \
  X(T, warps, 1, 32, 8, "warps of a CTA, which has a row")                                         \
  X(T, ctas_per_sm, 1, 16, 5, "CTAs that share a multiprocessor")

typedef struct moe__quantize_f16_schedule_t {
  MOE__QUANTIZE_F16_SCHEDULE(MOE__SCHEDULE_MEMBER, )
} moe__quantize_f16_schedule_t;

/* Of CastTiles.h. */
#define MOE__CAST_SCHEDULE(X, T)                                                                   \
  X(T, tile_n, 32, 256, 128,                                                                       \
    "rows of a tile, a multiple of 32; of 128 where a result is column-major")                     \
  X(T, tile_k, 32, 1024, 128,                                                                      \
    "columns of a tile, a multiple of 64 (bf16) or 32 (f32); at most 256 where a result is "       \
    "column-major")                                                                                \
  X(T, stages, 1, 8, 2,                                                                            \
    "tiles in flight into shared memory; 1: a CTA takes one tile, which its first warp loads, "    \
    "and ends; else CTAs take tiles until there are none")                                         \
  X(T, output_stages, 1, 2, 1,                                                                     \
    "tiles in flight out of it; 1 where there are two results of one x, which take turns")         \
  X(T, warps, 1, 16, 8,                                                                            \
    "warps that quantize, and one more loads where stages are several; divides the tile's strips " \
    "of 32 rows and 128 bytes")                                                                    \
  X(T, ctas_per_sm, 1, 8, 2, "CTAs that share a multiprocessor")                                   \
  X(T, band, 1, 4096, 1, "rows of tiles that are worked off together; unused where segments are")  \
  X(T, segment, 1, 64, 1,                                                                          \
    "tiles below one another, about, that a CTA takes one after the other, where blocks of "       \
    "tokens are counted from the start of a group; else 1, and where groups are aligned")          \
  X(T, cluster, 1, 8, 1,                                                                           \
    "CTAs of a cluster, a power of two: they have tiles side by side, and put the scales of a "    \
    "row together, tile_k a multiple of 128; 1 where stages is not, and in other ops than "        \
    "quantize_dual")

typedef struct moe__cast_schedule_t {
  MOE__CAST_SCHEDULE(MOE__SCHEDULE_MEMBER, )
} moe__cast_schedule_t;

/* Of QuantizeRows.c. */
#define MOE__ROWS_SCHEDULE(X, T)                                                                   \
  X(T, buffer_kb, 1, 224, 208, "KB of shared memory for rows in flight and at work")               \
  X(T, stages, 2, 128, 64, "such rows, at most")                                                   \
  X(T, warps, 1, 31, 16, "warps that quantize; one more loads")                                    \
  X(T, ctas_per_sm, 1, 4, 1, "CTAs that share a multiprocessor")

typedef struct moe__rows_schedule_t {
  MOE__ROWS_SCHEDULE(MOE__SCHEDULE_MEMBER, )
} moe__rows_schedule_t;

/* Of QuantizeBlocks.c. */
#define MOE__BLOCKS_SCHEDULE(X, T)                                                                 \
  X(T, warps, 1, 32, 8, "warps of a CTA; divides the vectors of an FP8 block")                     \
  X(T, ctas_per_sm, 1, 16, 4, "CTAs that share a multiprocessor")                                  \
  X(T, band, 1, 4096, 1, "rows of FP8 blocks that are worked off together")

typedef struct moe__blocks_schedule_t {
  MOE__BLOCKS_SCHEDULE(MOE__SCHEDULE_MEMBER, )
} moe__blocks_schedule_t;

/* Of ScaleFp8.h. */
#define MOE__SCALE_SCHEDULE(X, T)                                                                  \
  X(T, rows_per_warp, 1, 32, 16,                                                                   \
    "rows of a warp in a tile, a power of two; the tile has warps * rows_per_warp rows of 512 "    \
    "bytes")                                                                                       \
  X(T, warps, 1, 32, 16, "warps of a CTA")                                                         \
  X(T, ctas_per_sm, 1, 8, 1, "CTAs that share a multiprocessor")                                   \
  X(T, band, 1, 4096, 1, "rows of tiles that are worked off together")

typedef struct moe__scale_schedule_t {
  MOE__SCALE_SCHEDULE(MOE__SCHEDULE_MEMBER, )
} moe__scale_schedule_t;

/* Of Dequantize.h. */
#define MOE__DEQUANTIZE_SCHEDULE(X, T)                                                             \
  X(T, tile_n, 1, 512, 16, "rows of a tile; a multiple of 128 where q is column-major")            \
  X(T, tile_k, 32, 4096, 1024, "columns of a tile")                                                \
  X(T, warps, 1, 32, 8, "warps of a CTA")                                                          \
  X(T, ctas_per_sm, 1, 16, 4, "CTAs that share a multiprocessor")                                  \
  X(T, band, 1, 4096, 1, "rows of tiles that are worked off together")                             \
  X(T, persistent, 0, 1, 0, "1: CTAs take tiles until there are none; 0: each takes one")

typedef struct moe__dequantize_schedule_t {
  MOE__DEQUANTIZE_SCHEDULE(MOE__SCHEDULE_MEMBER, )
} moe__dequantize_schedule_t;

/* Of PackScales.c. */
#define MOE__PACK_SCHEDULE(X, T)                                                                   \
  X(T, tile_columns, 16, 512, 64,                                                                  \
    "columns of scales that a CTA brings in at once, a multiple of 16")                            \
  X(T, warps, 1, 32, 8, "warps of a CTA; divides its tiles of 128 x 4")                            \
  X(T, ctas_per_sm, 1, 16, 5, "CTAs that share a multiprocessor")

typedef struct moe__pack_schedule_t {
  MOE__PACK_SCHEDULE(MOE__SCHEDULE_MEMBER, )
} moe__pack_schedule_t;

/* Of SwapScales.c. */
#define MOE__SWAP_SCHEDULE(X, T) X(T, warps, 1, 32, 4, "warps of a CTA, of 32 rows each")

typedef struct moe__swap_schedule_t {
  MOE__SWAP_SCHEDULE(MOE__SCHEDULE_MEMBER, )
} moe__swap_schedule_t;

/* Of MoveGroups.c. */
#define MOE__MOVE_SCHEDULE(X, T)                                                                   \
  X(T, vectors, 1, 16, 2, "vectors of 16 bytes that a lane moves at once")                         \
  X(T, warps, 1, 32, 8, "warps of a CTA")                                                          \
  X(T, ctas_per_sm, 1, 16, 6, "CTAs that share a multiprocessor")                                  \
  X(T, persistent, 0, 1, 0, "1: warps take pieces of rows until there are none; 0: each takes one")

typedef struct moe__move_schedule_t {
  MOE__MOVE_SCHEDULE(MOE__SCHEDULE_MEMBER, )
} moe__move_schedule_t;

#endif /* MOE_KERNELS_MX_QUANTIZE_SCHEDULE_H */
