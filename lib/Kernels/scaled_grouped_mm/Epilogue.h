/* Epilogue.h - what follows the products of a tile of scaled_mm, from its sums to out.
 *
 *   out = cast(sb * (sa * sum) + bias)
 *
 * Scales of blocks are in the sum already: out = cast(sum + bias).
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_KERNELS_SCALED_GROUPED_MM_EPILOGUE_H
#define MOE_KERNELS_SCALED_GROUPED_MM_EPILOGUE_H

#include "lib/Kernels/scaled_grouped_mm/ScaledMm.h"

/* ---- Epilogue.c, from sums to values ---- */

/* A warp has so many rows of a tile. It stages them in pieces: `staged` bytes of each row, or where
 * operands are swapped as much as lines of so many bytes. */
#define MOE__MM_WARP_ROWS 16
#define MOE__MM_STAGED_LINE 128

/* Bytes of a row in a piece; of a piece. */
int moe__mm_staged_bytes(const moe__mm_schedule_t *schedule);
int moe__mm_piece_bytes(const moe__mm_schedule_t *schedule);

/* Pieces that the TMA stores at once; 0 where it does not store. */
int moe__mm_tma_pieces(const moe__mm_schedule_t *schedule);

/* What a thread has fetched of a column: its position in the tile (i32), its scale and its bias
 * (f32) or null. */
typedef struct moe__mm_column_t {
  MlirValue position, scale, bias;
} moe__mm_column_t;

/* Columns of a tile for each thread of a warpgroup. */
#define MOE__MM_MAX_COLUMNS (MOE__WGMMA_MAX_N / MOE__MM_WARPGROUP)

typedef struct moe__mm_epilogue_t {
  const moe__mm_position_t *self;
  const moe__group_tile_t *tile;
  MlirValue is_empty;
  /* f32, of the lane's two rows; scales unless they are of blocks, bias only if swapped. */
  MlirValue row_scale[2], row_bias[2];
  MlirValue column_scale;  /* f32, where all columns share it, else null */
  MlirValue column_scales; /* !llvm.ptr<3>, where each has its own: tile_n of them */
  MlirValue column_bias;   /* !llvm.ptr<3>, if there is one and operands are not swapped */
  moe__mm_column_t columns[MOE__MM_MAX_COLUMNS]; /* of the thread, until it is settled */
  MlirValue staging;                             /* !llvm.ptr<3>: the warp's */
} moe__mm_epilogue_t;

/* Reserves shared memory. */
void moe__mm_epilogue_reserve(moe__mm_layout_t *layout, const moe__mm_schedule_t *schedule,
                              MlirOperation op);

/* Where things are that the epilogue of a tile takes: what moe__mm_epilogue_prepare gives but for
 * what that asks for. */
moe__mm_epilogue_t moe__mm_epilogue_of(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                                       const moe__group_tile_t *tile);

/* Asks for the scales and the bias of a tile. is_empty: i1, whether the tile sums over nothing,
 * in which case it is zero whatever the scales are; null where it always sums. */
moe__mm_epilogue_t moe__mm_epilogue_prepare(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                                            const moe__group_tile_t *tile, MlirValue is_empty);

/* Brings what has been asked for of the columns into shared memory, before the first fragment is
 * stored. */
void moe__mm_epilogue_settle(moe__scaled_mm_t *s, const moe__mm_epilogue_t *epilogue);

/* The same as moe__mm_epilogue_prepare for the rows of `self`, in a tile whose first fragment has
 * been prepared. */
moe__mm_epilogue_t moe__mm_epilogue_below(moe__scaled_mm_t *s, const moe__mm_epilogue_t *first,
                                          const moe__mm_position_t *self);

/* Of columns 8*j + 2*(lane % 4) and the next of what is multiplied, two f32: what `columns` has of
 * them, the epilogue's column_scales or column_bias. */
MlirValue moe__mm_load_pair(moe__scaled_mm_t *s, const moe__mm_epilogue_t *epilogue,
                            MlirValue columns, int j);

/* The values of out of these columns in the lane's rows, f32: [row][column]. scales: those of the
 * columns if they have been read, else null. */
void moe__mm_finish_pair(moe__scaled_mm_t *s, const moe__mm_epilogue_t *epilogue, int j,
                         MlirValue scales, const moe__mm_fragment_t registers, MlirValue out[2][2]);

/* ---- Store.c, from values to out ---- */

/* Scales, adds the bias, rounds and stores what belongs to the group and to out. */
void moe__mm_store(moe__scaled_mm_t *s, const moe__mm_epilogue_t *epilogue,
                   const moe__mm_fragment_t registers);

/* What a multiplying warp does behind its last tile. */
void moe__mm_store_end(moe__scaled_mm_t *s, const moe__mm_position_t *self);

/* Where the TMA stores: adds the tensor map of out; brings it into the descriptor cache. */
void moe__mm_store_parameters(moe__scaled_mm_t *s, MlirOperation op);
void moe__mm_store_prefetch_map(moe__scaled_mm_t *s);

#endif /* MOE_KERNELS_SCALED_GROUPED_MM_EPILOGUE_H */
