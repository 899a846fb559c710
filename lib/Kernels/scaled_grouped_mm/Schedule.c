/* Schedule.c - see Schedule.h. Why the numbers are what they are:
 * docs/performance/grouped_product.md.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/scaled_grouped_mm/Schedule.h"

#include "lib/Builder/Inspect.h"
#include "lib/Dialect/Dialect.h"
#include "lib/Kernels/Requirements.h"
#include "lib/Kernels/scaled_grouped_mm/Blocks.h"
#include "lib/Kernels/scaled_grouped_mm/Mx.h"
#include "lib/Kernels/scaled_grouped_mm/ScaledMm.h"

#include "mlir-c/BuiltinTypes.h"

MOE__SCHEDULE_KIND(moe__mm_schedule, moe__mm_schedule_t, MOE__MM_SCHEDULE, "products",
                   "scaled_mm, scaled_mm_bias, mm, mm_bias");

/* ---- Candidates ---- */

#define SWAPPED .swap_operands = 1

/* Fast sums: a tile of 128 x 128 for each warpgroup, of which one stores while the other
 * multiplies. In bands of 16 rows of tiles, which keep what concurrent CTAs read in L2. Where
 * both warpgroups multiply one tile, 128 x 256 is as much as they can accumulate; with promoted
 * sums a second accumulator takes a part of it. The TMA stores what is whole. */
#define PINGPONG .pingpong = 1, .tile_n = 128, .stages = 6, .tma_store = 1
static const moe__mm_schedule_t GRADIENT_FAST[] = {
    {PINGPONG, .band = 16},
    {PINGPONG},
    {PINGPONG, .cluster = 2},
    {PINGPONG, .band = 16, .cluster = 2, .beside = 1},
    {.tile_n = 256},
    {.tile_n = 256, .band = 16},
    {.tile_n = 128, .stages = 6},
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
/* Operands of 16 bits: as fast sums, in stages of half the depth. */
static const moe__mm_schedule_t HALVES[] = {
    {PINGPONG},      {PINGPONG, .band = 16},       {PINGPONG, .band = 4},
    {.tile_n = 256}, {.tile_n = 128, .stages = 6},
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
    {.tile_n = 192, .tma_store = 3},
    {.tile_n = 192, .tma_store = 3, .band = 16},
    {.tile_n = 192},
    {.tile_n = 128, .stages = 6},
    {.warpgroups = 3, .tile_n = 128, .tma_store = 2},
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
static const moe__mm_schedule_t ROWS_FAST[] = {
    {PINGPONG, .band = 16},
    {PINGPONG},
    {PINGPONG, .cluster = 2},
    {PINGPONG, .band = 16, .cluster = 2, .beside = 1},
    {.tile_n = 256},
    {.tile_n = 256, .band = 16},
    {.tile_n = 128, .stages = 6},
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
  int rows = mlirShapedTypeGetRank(qa) == 3 ? 1 : 0;
  if (mlirShapedTypeIsDynamicDim(qa, rows) || mlirShapedTypeIsDynamicDim(qb, 0))
    return INT64_MAX;
  return mlirShapedTypeGetDimSize(qa, rows) / (rows ? 1 : mlirShapedTypeGetDimSize(qb, 0));
}

/* Whether the op has groups, and so few that each lane of a warp can have one. */
static bool has_few_groups(MlirOperation op) {
  int groups = moe__max_groups(op);
  return groups > 0 && groups <= MOE__MAX_GROUPS_LARGEST_FIRST;
}

moe__candidates_t moe__mm_candidates(MlirOperation op) {
  if (!moe__is_scaled_mm(op))
    return MOE__CANDIDATES(HALVES);
  bool promoted = moe__mm_is_promoted(op), aligned = moe__group_align(op) != 0;
  if (aligned && moe__has_mx_scales(op))
    return MOE__CANDIDATES(ALIGNED_MX);
  if (aligned && moe__has_block_scales(op))
    return MOE__CANDIDATES(ALIGNED_BLOCKS);
  if (aligned && promoted)
    return MOE__CANDIDATES(ALIGNED_PROMOTED);
  if (moe__mm_case(op) == MOE__GRADIENT && moe__has_mx_scales(op))
    return MOE__CANDIDATES(GRADIENT_MX);
  if (moe__mm_case(op) == MOE__GRADIENT && moe__has_block_scales(op))
    return MOE__CANDIDATES(GRADIENT_BLOCKS);
  if (moe__mm_case(op) == MOE__GRADIENT)
    return promoted ? MOE__CANDIDATES(GRADIENT_PROMOTED) : MOE__CANDIDATES(GRADIENT_FAST);
  int64_t tokens = tokens_per_expert(op);
  if (moe__has_mx_scales(op))
    return tokens <= MOE__FEW_TOKENS ? MOE__CANDIDATES(TOKENS_64_MX) : MOE__CANDIDATES(ROWS_MX);
  if (tokens <= 16)
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

/* ---- The layout ---- */

#define MAX_COLUMNS_OF_THREE 128

int moe__mm_warpgroups(const moe__mm_schedule_t *schedule) {
  return schedule->swap_operands ? MOE__MM_WARPGROUPS : schedule->warpgroups;
}

int moe__mm_tile_rows(const moe__mm_schedule_t *schedule) {
  return moe__mm_warpgroups(schedule) * MOE__WGMMA_M;
}

int moe__mm_threads(const moe__mm_schedule_t *schedule) {
  return moe__mm_warpgroups(schedule) * MOE__MM_WARPGROUP;
}

/* Where neither three warpgroups multiply nor lanes store what they have; NULL elsewhere. */
static const char *where_usual(MlirOperation op, const moe__mm_schedule_t *schedule) {
  if (!moe__mm_is_promoted(op))
    return "sums are fast";
  if (moe__has_mx_scales(op))
    return "scales are of MX blocks";
  return schedule->cluster > 1 ? "there are clusters" : NULL;
}

/* Three warpgroups: 160 registers a thread are two accumulators of 64 x 128, and addresses. That
 * leaves 32 for a thread that clears, too few for what stands around blocks of tokens. */
static bool check_warpgroups(MlirOperation op, const moe__mm_schedule_t *schedule) {
  if (moe__mm_warpgroups(schedule) == MOE__MM_WARPGROUPS)
    return true;
  const char *where = where_usual(op, schedule);
  if (!where && moe__mm_case(op) == MOE__GRADIENT && moe__has_block_scales(op) &&
      !moe__group_align(op))
    where = "scales are of blocks of tokens that begin anywhere";
  if (!where && schedule->tile_n > MAX_COLUMNS_OF_THREE)
    where = "a tile has more than 128 columns";
  return !where || moe__error(op, "'schedule.warpgroups' is %d; it must be 2 where %s",
                              schedule->warpgroups, where);
}

/* Lanes store what they have forward and batched. */
static bool check_direct(MlirOperation op, const moe__mm_schedule_t *schedule) {
  if (!schedule->direct || schedule->swap_operands)
    return true;
  const char *where = where_usual(op, schedule);
  if (!where && moe__mm_case(op) == MOE__GRADIENT)
    where = "groups are ranges of the reduction";
  return !where || moe__error(op, "'schedule.direct' is 1; it must be 0 where %s", where);
}

static bool check(MlirOperation op, const moe__mm_schedule_t *schedule) {
  bool is_gradient = moe__mm_case(op) == MOE__GRADIENT;
  bool mx = moe__has_mx_scales(op);
  int unit = mx ? 32 : schedule->swap_operands ? 16 : 64;
  if (schedule->tile_n % unit)
    return moe__error(op, "'schedule.tile_n' is %d; it must be a multiple of %d", schedule->tile_n,
                      unit);
  bool halves = !moe__is_scaled_mm(op);
  if (halves && schedule->swap_operands)
    return moe__error(op, "'schedule.swap_operands' is 1; it must be 0 with operands of 16 bits");
  if (halves && schedule->cluster > 1)
    return moe__error(op, "'schedule.cluster' is %d; it must be 1 with operands of 16 bits",
                      schedule->cluster);
  if (halves && moe__mm_warpgroups(schedule) != MOE__MM_WARPGROUPS)
    return moe__error(op, "'schedule.warpgroups' is %d; it must be 2 with operands of 16 bits",
                      schedule->warpgroups);
  if (schedule->swap_operands && is_gradient)
    return moe__error(op, "'schedule.swap_operands' is 1; it must be 0 where groups are ranges of "
                          "the reduction");
  if (schedule->pingpong && (schedule->swap_operands || moe__mm_is_promoted(op)))
    return moe__error(op, "'schedule.pingpong' is 1; it must be 0 where %s",
                      schedule->swap_operands ? "operands are swapped" : "sums are promoted");
  if (schedule->pingpong && schedule->tile_n > 192)
    return moe__error(op, "'schedule.tile_n' is %d; it must be at most 192 with pingpong = 1",
                      schedule->tile_n);
  if (schedule->rotate && schedule->pingpong)
    return moe__error(op, "'schedule.rotate' is 1; it must be 0 with pingpong = 1");
  if (schedule->beside && schedule->cluster == 1)
    return moe__error(op, "'schedule.beside' is 1; it must be 0 where there is no cluster");
  if (schedule->swap_operands && schedule->cluster > 1)
    return moe__error(op, "'schedule.cluster' is %d; it must be 1 where operands are swapped",
                      schedule->cluster);
  if (schedule->cluster > 1 && is_gradient && (mx || moe__has_block_scales(op)))
    return moe__error(op,
                      "'schedule.cluster' is %d; it must be 1 in a gradient of weights with "
                      "scales of blocks",
                      schedule->cluster);
  if (schedule->staged % 64)
    return moe__error(op, "'schedule.staged' is %d; it must be 64 or 128", schedule->staged);
  if (schedule->tma_store && mx)
    return moe__error(op, "'schedule.tma_store' is %d; it must be 0 with scales of MX blocks",
                      schedule->tma_store);
  /* A factor for each two elements of a column besides the two accumulators. */
  if (schedule->swap_operands && schedule->tile_n > 128 && moe__has_block_scales(op))
    return moe__error(op,
                      "'schedule.tile_n' is %d; with scales of blocks it must be at most 128 where "
                      "operands are swapped",
                      schedule->tile_n);
  if (mx && schedule->tile_n > 160)
    return moe__error(op,
                      "'schedule.tile_n' is %d; with scales of MX blocks it must be at most 160",
                      schedule->tile_n);
  /* Two accumulators of 64 x tile_n in 224 registers a thread, with room for addresses. */
  if (moe__mm_is_promoted(op) && schedule->tile_n > 192)
    return moe__error(op, "'schedule.tile_n' is %d; with promoted sums it must be at most 192",
                      schedule->tile_n);
  return !schedule->swap_operands || schedule->tile_n % (schedule->pieces * unit) == 0 ||
         moe__error(op,
                    "'schedule.pieces' is %d; %d columns must divide into pieces of a multiple of "
                    "%d",
                    schedule->pieces, schedule->tile_n, unit);
}

/* Forward, where operands are swapped, the largest of few groups come first, so that all CTAs end
 * at about the same time. Of many groups each CTA has many tiles and they do so anyhow: there
 * large groups, which are bound by computing, are best mixed with small ones, which wait for
 * DRAM. */
static moe__groups_order_t order_of_tiles(MlirOperation op, const moe__mm_schedule_t *schedule) {
  if (moe__mm_case(op) == MOE__GRADIENT)
    return MOE__GROUPS_WITHOUT_TILES;
  return schedule->swap_operands && has_few_groups(op) ? MOE__GROUPS_LARGEST_FIRST
                                                       : MOE__GROUPS_IN_TURN;
}

bool moe__mm_lay_out(MlirOperation op, const void *schedule, void *out) {
  const moe__mm_schedule_t *s = schedule;
  moe__mm_layout_t *l = out;
  if (!check(op, s) || !check_warpgroups(op, s) || !check_direct(op, s))
    return false;
  bool is_gradient = moe__mm_case(op) == MOE__GRADIENT, aligned = moe__group_align(op) != 0;
  /* Registers are not checked: setmaxnreg divides them among the warpgroups (ScaledMm.c). */
  l->cta.threads = moe__mm_threads(s) + MOE__MM_WARPGROUP;
  l->cta.ctas_per_sm = 1;
  int32_t stage_bytes = (moe__mm_tile_rows(s) + s->tile_n) * MOE__MM_TILE_K;
  if (moe__mm_scales(op, MOE__MM_QA) == MOE__SCALE_OF_BLOCK)
    stage_bytes +=
        is_gradient ? moe__mm_token_blocks_reserve(s, aligned) : moe__mm_block_scales_reserve(l, s);
  bool mx = moe__has_mx_scales(op);
  if (mx)
    stage_bytes += moe__mm_mx_factor_bytes(s);
  if (mx && is_gradient)
    stage_bytes += moe__mm_mx_tokens_reserve(l, s, aligned);
  l->ring = moe__ring_reserve(&l->cta, s->stages, stage_bytes);
  moe__mm_slots_reserve(l, s);
  if (s->pingpong)
    moe__mm_turns_reserve(l);
  if (is_gradient && !mx && !aligned)
    moe__mm_clear_reserve(l, s);
  moe__mm_epilogue_reserve(l, s, op);
  l->groups = moe__groups_reserve(&l->cta, moe__max_groups(op), order_of_tiles(op, s));
  return true;
}
