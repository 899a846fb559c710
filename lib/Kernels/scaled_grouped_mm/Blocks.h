/* Blocks.h - what products need whose operands have scales for FP8 blocks: forward and batched, and
 * in a gradient.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_KERNELS_SCALED_GROUPED_MM_BLOCKS_H
#define MOE_KERNELS_SCALED_GROUPED_MM_BLOCKS_H

#include "lib/Kernels/scaled_grouped_mm/Multiply.h"

/* ---- BlockScales.c, where operands have scales for blocks ---- */

bool moe__mm_has_block_scales(const moe__scaled_mm_t *s);

/* The bytes that a stage has besides, behind its tiles. */
int32_t moe__mm_block_scales_reserve(void);

/* Adds the parameters sa and sb. Those of the operands' extents come before. */
void moe__mm_block_scales_parameters(moe__scaled_mm_t *s, MlirOperation op);

/* The bytes of scales that land with a stage. */
int32_t moe__mm_block_scales_bytes(const moe__scaled_mm_t *s);

/* Where a tile's scales are for the first k-tile. i32 */
typedef struct moe__mm_block_loads_t {
  MlirValue weights, step; /* in sb, that of the tile's first column; from one k-tile to the next */
  MlirValue token;         /* in sa, the first token's */
} moe__mm_block_loads_t;

/* Begins a tile. */
moe__mm_block_loads_t moe__mm_block_loads(moe__scaled_mm_t *s, const moe__group_tile_t *tile);

/* Copies the scales of k-tile `index` to its free stage at `cursor`, completing on `landed`. */
void moe__mm_block_load(moe__scaled_mm_t *s, const moe__mm_block_loads_t *loads, MlirValue index,
                        moe__cursor_t cursor, MlirValue landed);

/* Whether the multiplying warps load the scales of weights: unless operands are swapped. A lane has
 * that of one k-tile, of one of two blocks; a warp those of so many k-tiles. */
#define MOE__MM_HELD 16
bool moe__mm_holds_block_scales(const moe__scaled_mm_t *s);

/* The others are null where the warps do not. */
typedef struct moe__mm_block_held_t {
  moe__mm_block_loads_t loads;
  MlirValue straddles; /* i1: the tile's second 64 columns are in the next block */
  /* i32: of the lane, which k-tile of those that the warp has, where in sb the scale of its block
   * for k-tile 0 is, and the scale. */
  MlirValue k_tiles, of_lane, weights, scales;
} moe__mm_block_held_t;

/* Asks for the scales of a tile's first k-tiles; for those from number `first` on. */
moe__mm_block_held_t moe__mm_block_hold(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                                        const moe__group_tile_t *tile, MlirValue k_tiles);
MlirValue moe__mm_block_load_held(moe__scaled_mm_t *s, const moe__mm_block_held_t *held,
                                  MlirValue first);

/* What the sums of k-tile `index`, which has landed in the stage at `cursor`, are to be multiplied
 * by: a factor for each register. */
void moe__mm_block_factors(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                           moe__cursor_t cursor, const moe__mm_block_held_t *held, MlirValue index,
                           moe__mm_fragment_t factors);

/* ---- TokenBlocks.c, for a gradient whose scales are of blocks of tokens ---- */

bool moe__mm_has_token_blocks(const moe__scaled_mm_t *s);

/* The bytes that a stage has besides, behind its tiles; the parameters for them. Those of the
 * operands' extents come before. */
int32_t moe__mm_token_blocks_reserve(const moe__mm_schedule_t *schedule, bool aligned);
void moe__mm_token_blocks_parameters(moe__scaled_mm_t *s, MlirOperation op);

/* Adds the tensor map of the tails of an operand, MOE__MM_QA or MOE__MM_QB: 32 tokens. */
void moe__mm_add_tail_map(moe__scaled_mm_t *s, MlirOperation op, int of);

/* How many tokens of a stage are in front of its block (i32); where there are some, stages have
 * tails. */
MlirValue moe__mm_token_head(moe__scaled_mm_t *s, const moe__mm_reduction_t *reduction);

/* For the loading thread: copies the tails of both operands, from row `first` of each and token
 * `behind` on, to byte `tails` of the stage at `cursor`, one after the other. */
void moe__mm_load_tails(moe__scaled_mm_t *s, const MlirValue first[2], MlirValue behind,
                        moe__cursor_t cursor, int32_t tails, MlirValue landed);

/* For the loading thread: the bytes of a stage; copies the scales of block `index` and the tails of
 * the stage at `cursor`, whose tiles begin with token `at`. */
MlirValue moe__mm_token_block_bytes(moe__scaled_mm_t *s, MlirValue has_tail);
void moe__mm_token_block_load(moe__scaled_mm_t *s, const moe__mm_work_t *work, MlirValue index,
                              MlirValue at, MlirValue has_tail, moe__cursor_t cursor,
                              MlirValue landed);

/* The tail of the stage's rows (0) or columns (1): 32 tokens of each, in the 32-byte swizzle. */
MlirValue moe__mm_token_tail(moe__scaled_mm_t *s, moe__cursor_t cursor, int of);

/* Sums over blocks of tokens, each times its scales. */
void moe__mm_multiply_token_blocks(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                                   const moe__mm_reduction_t *reduction, moe__cursor_t cursor,
                                   const moe__mm_beside_t *beside, moe__mm_fragment_t registers);

/* As moe__mm_promote, where groups are aligned. */
moe__accumulator_t moe__mm_promote_token_blocks(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                                                const moe__mm_reduction_t *reduction,
                                                moe__cursor_t cursor,
                                                const moe__mm_beside_t *beside,
                                                moe__accumulator_t accumulator);

#endif /* MOE_KERNELS_SCALED_GROUPED_MM_BLOCKS_H */
