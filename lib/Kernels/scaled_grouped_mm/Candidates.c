/* Candidates.c - which schedules a product has: the default, and others worth measuring. Why the
 * numbers are what they are: docs/performance/grouped_product.md.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/Requirements.h"
#include "lib/Kernels/scaled_grouped_mm/ScaledMm.h"
#include "lib/Kernels/scaled_grouped_mm/Schedule.h"

#include "lib/Dialect/Dialect.h"
#include "lib/Dialect/Shapes.h"

#define SWAPPED .swap_operands = 1

/* Fast sums: a tile of 128 x 128 for each warpgroup, of which one stores while the other
 * multiplies. Where both warpgroups multiply one tile, 128 x 256 is as much as they can accumulate;
 * with promoted sums a second accumulator takes a part of it. The TMA stores what is whole. */
#define PINGPONG .pingpong = 1, .tile_n = 128, .stages = 6, .tma_store = 1
#define FAST_OTHERS                                                                                \
  {PINGPONG, .cluster = 2}, {PINGPONG, .band = 16, .cluster = 2, .beside = 1}, {.tile_n = 256},    \
      {.tile_n = 256, .band = 16}, {                                                               \
    .tile_n = 128, .stages = 6                                                                     \
  }
#define FAST {PINGPONG, .band = 16}, {PINGPONG}, FAST_OTHERS
static const moe__mm_schedule_t ALIGNED_FAST[] = {FAST};
/* In groups of few tokens tiles are wide, unless that leaves more of the last wave idle. */
#define WIDE .wide_stages = 5
static const moe__mm_schedule_t GRADIENT_FAST[] = {
    {PINGPONG, .band = 16, WIDE},
    FAST,
};
/* Promoted: a third warpgroup multiplies while two add. */
static const moe__mm_schedule_t GRADIENT_PROMOTED[] = {
    {.warpgroups = 3, .tile_n = 128, .tma_store = 2, .rotate = 1},
    {.tile_n = 192, .stages = 5, .tma_store = 1},
    {.tile_n = 192, .stages = 5, .tma_store = 1, .band = 16},
    {.tile_n = 192, .tma_store = 3},
    {.tile_n = 192},
    {.tile_n = 128, .stages = 6},
};
/* Operands of 16 bits: as fast sums, in stages of half the depth. Out of step, CTAs read more than
 * L2 answers (h100.md, "In step"). Narrow tiles of gradients take long, and come out of it
 * sooner. */
#define IN_STEP PINGPONG, .in_step = 4
#define GRADIENT_IN_STEP PINGPONG, .in_step = 2
#define BOTH_ON_ONE .tile_n = 256, .stages = 3, .tma_store = 4, .band = 16
static const moe__mm_schedule_t HALVES[] = {
    {IN_STEP},     {IN_STEP, .band = 16}, {IN_STEP, .band = 4},
    {BOTH_ON_ONE}, {.tile_n = 256},       {.tile_n = 128, .stages = 6},
};
static const moe__mm_schedule_t GRADIENT_HALVES[] = {
    {GRADIENT_IN_STEP, WIDE},      {GRADIENT_IN_STEP}, {GRADIENT_IN_STEP, .band = 16},
    {GRADIENT_IN_STEP, .band = 4}, {BOTH_ON_ONE},      {.tile_n = 256},
};
/* With scales of blocks of tokens a stage has a tail of each tile besides. */
static const moe__mm_schedule_t GRADIENT_BLOCKS[] = {
    {.tile_n = 192, .stages = 3},
    {.tile_n = 192, .stages = 3, .band = 16},
    {.tile_n = 128, .stages = 4},
    {.tile_n = 128, .stages = 4, .band = 16},
};
/* With scales of MX blocks too. */
static const moe__mm_schedule_t GRADIENT_MX[] = {
    {.tile_n = 160, .stages = 3},
    {.tile_n = 160, .stages = 3, .band = 16},
    {.tile_n = 128, .stages = 4},
    {.tile_n = 128, .stages = 3},
};
/* Where groups begin at multiples of 128 tokens no warp clears. */
static const moe__mm_schedule_t ALIGNED_PROMOTED[] = {
    {.warpgroups = 3, .tile_n = 128, .tma_store = 2},
    {.tile_n = 192, .stages = 5, .tma_store = 1},
    {.tile_n = 192, .stages = 5, .tma_store = 1, .band = 16},
    {.tile_n = 192, .tma_store = 3},
    {.tile_n = 128, .stages = 6},
};
/* There are no tails, and tiles of MX blocks need not be wide for what is moved in a stage. */
static const moe__mm_schedule_t ALIGNED_BLOCKS[] = {
    {.warpgroups = 3, .tile_n = 128, .tma_store = 2},
    {.tile_n = 192, .tma_store = 3},
    {.tile_n = 192, .tma_store = 3, .band = 16},
    {.tile_n = 192},
    {.tile_n = 128, .stages = 6},
};
static const moe__mm_schedule_t ALIGNED_MX[] = {
    {.tile_n = 128, .stages = 5},
    {.tile_n = 128, .stages = 5, .band = 16},
    {.tile_n = 160},
};
/* Where groups are rows, operands may be swapped, whatever the sums are. */
#define SWAPPED_ROWS                                                                               \
  {SWAPPED, .tile_n = 64, .pieces = 4, .stages = 8},                                               \
      {SWAPPED, .tile_n = 64, .pieces = 2, .stages = 7}, {                                         \
    SWAPPED, .tile_n = 96, .pieces = 3, .stages = 6                                                \
  }
/* Where memory is slower, bands of 16 rows bring CTAs out of step (h100.md, "FP8: bands of 8
 * rows"). */
static const moe__mm_schedule_t ROWS_FAST[] = {
    {PINGPONG},
    {PINGPONG, .band = 16},
    FAST_OTHERS,
    SWAPPED_ROWS,
};
/* Promoted sums: a third warpgroup multiplies while two add. A band is as high as makes what 132
 * CTAs work on at a time about square: that is the least to read from L2, and from memory. */
#define THREE .warpgroups = 3, .tile_n = 128, .tma_store = 1
static const moe__mm_schedule_t ROWS_PROMOTED[] = {
    {.tile_n = 192, .stages = 5, .tma_store = 1, .band = 12},
    {.tile_n = 192, .tma_store = 3},
    {.tile_n = 192, .tma_store = 3, .band = 16},
    {.tile_n = 128, .stages = 6},
    SWAPPED_ROWS,
    {THREE, .stages = 5, .staged = 64},
};
/* With scales of blocks there is room for five stages where each lane stores what it has, also with
 * a bias; two warpgroups that are stored in lines have none, nor have three with a bias. */
#define DIRECT .warpgroups = 3, .tile_n = 128, .stages = 5, .direct = 1, .band = 11
#define ROWS_PROMOTED_4                                                                            \
  {.tile_n = 192, .tma_store = 3}, {.tile_n = 192}, {.tile_n = 192, .tma_store = 3, .band = 16},   \
      {.tile_n = 128, .stages = 6}, SWAPPED_ROWS
static const moe__mm_schedule_t ROWS_BLOCKS[] = {
    {DIRECT},
    ROWS_PROMOTED_4,
};
/* Where groups have so few tokens that tiles of 192 rows may have many rows more than they. */
#define TOKENS_OF_THREE 512
static const moe__mm_schedule_t ROWS_BLOCKS_MEDIUM[] = {
    ROWS_PROMOTED_4,
    {DIRECT},
};
static const moe__mm_schedule_t ROWS_PROMOTED_BIAS[] = {
    ROWS_PROMOTED_4,
    {THREE},
};
/* With scales of MX blocks the instructions that add products take the time. */
static const moe__mm_schedule_t ROWS_MX[] = {
    {.tile_n = 128, .stages = 5},
    {.tile_n = 128, .stages = 5, .cluster = 2},
    {.tile_n = 160, .cluster = 2},
    {.tile_n = 160},
    {SWAPPED, .tile_n = 64, .pieces = 2, .stages = 6},
    {SWAPPED, .tile_n = 96, .pieces = 3, .stages = 5},
};
static const moe__mm_schedule_t TOKENS_64_MX[] = {
    {SWAPPED, .tile_n = 96, .pieces = 3, .stages = 5},
    {SWAPPED, .tile_n = 64, .pieces = 2, .stages = 6},
};
#define FEWEST_TOKENS 16
/* Few tokens for each expert: all is reading the weights. A group that is larger than a tile would
 * read its weights once more, so tiles are wider than most groups, and in pieces, of which a group
 * takes as many as it has tokens for. */
static const moe__mm_schedule_t TOKENS_16[] = {
    {SWAPPED, .tile_n = 64, .pieces = 4, .stages = 8},
    {SWAPPED, .tile_n = 32, .pieces = 2, .stages = 9},
    {SWAPPED, .tile_n = 16, .stages = 10},
};
static const moe__mm_schedule_t TOKENS_32_FAST[] = {
    {SWAPPED, .tile_n = 96, .pieces = 3, .stages = 7},
    {SWAPPED, .tile_n = 64, .pieces = 2, .stages = 7},
    {SWAPPED, .tile_n = 32, .stages = 9},
};
/* Where groups are ragged: pieces of 16 tokens. */
static const moe__mm_schedule_t TOKENS_64_FAST[] = {
    {SWAPPED, .tile_n = 128, .pieces = 8, .stages = 6},
    {SWAPPED, .tile_n = 128, .pieces = 4, .stages = 5},
    {SWAPPED, .tile_n = 96, .pieces = 6, .stages = 7},
    {PINGPONG, .band = 16},
};
static const moe__mm_schedule_t TOKENS_64_FAST_BATCHED[] = {
    {SWAPPED, .tile_n = 128, .pieces = 4, .stages = 5},
    {SWAPPED, .tile_n = 64, .pieces = 2, .stages = 7},
    {PINGPONG, .band = 16},
};
static const moe__mm_schedule_t TOKENS_32_PROMOTED[] = {
    {SWAPPED, .tile_n = 96, .pieces = 3, .stages = 6},
    {SWAPPED, .tile_n = 64, .pieces = 2, .stages = 7},
    {SWAPPED, .tile_n = 112, .pieces = 7, .stages = 6},
};
static const moe__mm_schedule_t TOKENS_64_PROMOTED[] = {
    {SWAPPED, .tile_n = 128, .pieces = 4, .stages = 6},
    {SWAPPED, .tile_n = 96, .pieces = 3, .stages = 6},
    {SWAPPED, .tile_n = 112, .pieces = 7, .stages = 6},
};

/* The tokens that each expert has on average; INT64_MAX where they are not known. */
static int64_t tokens_per_expert(MlirOperation op) {
  MlirType qa = moe__factor_type(op, MOE__MM_QA);
  MlirType qb = moe__factor_type(op, MOE__MM_QB);
  bool is_batched = moe__mm_case(op) == MOE__BATCHED;
  int64_t tokens = moe__static_dimension(qa, is_batched ? 1 : 0);
  int64_t experts = is_batched ? 1 : moe__static_dimension(qb, 0);
  return tokens < 0 || experts <= 0 ? INT64_MAX : tokens / experts;
}

moe__candidates_t moe__mm_candidates(MlirOperation op) {
  bool promoted = moe__mm_is_promoted(op), aligned = moe__group_align(op) != 0;
  if (!moe__is_scaled_mm(op))
    return moe__mm_case(op) == MOE__GRADIENT && !aligned ? MOE__CANDIDATES(GRADIENT_HALVES)
                                                         : MOE__CANDIDATES(HALVES);
  if (aligned && moe__has_mx_scales(op))
    return MOE__CANDIDATES(ALIGNED_MX);
  if (aligned && moe__has_block_scales(op))
    return MOE__CANDIDATES(ALIGNED_BLOCKS);
  if (aligned)
    return promoted ? MOE__CANDIDATES(ALIGNED_PROMOTED) : MOE__CANDIDATES(ALIGNED_FAST);
  if (moe__mm_case(op) == MOE__GRADIENT && moe__has_mx_scales(op))
    return MOE__CANDIDATES(GRADIENT_MX);
  if (moe__mm_case(op) == MOE__GRADIENT && moe__has_block_scales(op))
    return MOE__CANDIDATES(GRADIENT_BLOCKS);
  if (moe__mm_case(op) == MOE__GRADIENT)
    return promoted ? MOE__CANDIDATES(GRADIENT_PROMOTED) : MOE__CANDIDATES(GRADIENT_FAST);
  int64_t tokens = tokens_per_expert(op);
  if (moe__has_mx_scales(op))
    return tokens <= MOE__FEW_TOKENS ? MOE__CANDIDATES(TOKENS_64_MX) : MOE__CANDIDATES(ROWS_MX);
  if (tokens <= FEWEST_TOKENS)
    return MOE__CANDIDATES(TOKENS_16);
  if (tokens <= MOE__FEW_TOKENS && promoted)
    return tokens <= 32 ? MOE__CANDIDATES(TOKENS_32_PROMOTED) : MOE__CANDIDATES(TOKENS_64_PROMOTED);
  if (tokens <= 32)
    return MOE__CANDIDATES(TOKENS_32_FAST);
  if (tokens <= MOE__FEW_TOKENS)
    return moe__max_groups(op) ? MOE__CANDIDATES(TOKENS_64_FAST)
                               : MOE__CANDIDATES(TOKENS_64_FAST_BATCHED);
  if (moe__has_block_scales(op))
    return tokens < TOKENS_OF_THREE ? MOE__CANDIDATES(ROWS_BLOCKS_MEDIUM)
                                    : MOE__CANDIDATES(ROWS_BLOCKS);
  if (promoted && moe__operand_number(op, MOE__BIAS) >= 0)
    return MOE__CANDIDATES(ROWS_PROMOTED_BIAS);
  return promoted ? MOE__CANDIDATES(ROWS_PROMOTED) : MOE__CANDIDATES(ROWS_FAST);
}
