/* Schedule.c - see Schedule.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/scaled_grouped_mm/Schedule.h"

#include "lib/Builder/Inspect.h"
#include "lib/Dialect/Dialect.h"
#include "lib/Kernels/Requirements.h"
#include "lib/Kernels/scaled_grouped_mm/Blocks.h"
#include "lib/Kernels/scaled_grouped_mm/Epilogue.h"
#include "lib/Kernels/scaled_grouped_mm/Mx.h"
#include "lib/Kernels/scaled_grouped_mm/ScaledMm.h"

#include "mlir-c/BuiltinTypes.h"

MOE__SCHEDULE_KIND(moe__mm_schedule, moe__mm_schedule_t, MOE__MM_SCHEDULE, "products",
                   "scaled_mm, scaled_mm_bias, mm, mm_bias, dequantize_mm, dequantize_mm_bias");

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
  if (schedule->wide_stages == 1)
    return moe__error(op, "'schedule.wide_stages' is 1; it must be 0, or 2 and more");
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
  if (schedule->cluster > 1 && moe__is_dequantize_mm(op))
    return moe__error(
        op, "'schedule.cluster' is %d; it must be 1 where operands are made in the kernel",
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

/* Whether the op has groups, and so few that each lane of a warp can have one. */
static bool has_few_groups(MlirOperation op) {
  int groups = moe__max_groups(op);
  return groups > 0 && groups <= MOE__MAX_GROUPS_LARGEST_FIRST;
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

static bool lay_out(MlirOperation op, const moe__mm_schedule_t *s, moe__mm_layout_t *l) {
  if (!check(op, s) || !check_warpgroups(op, s) || !check_direct(op, s))
    return false;
  bool is_gradient = moe__mm_case(op) == MOE__GRADIENT, aligned = moe__group_align(op) != 0;
  /* Registers are not checked: setmaxnreg divides them among the warpgroups (ScaledMm.c). */
  l->cta.threads = moe__mm_threads(s) + MOE__MM_WARPGROUP;
  l->cta.ctas_per_sm = 1;
  int32_t stage_bytes = (moe__mm_tile_rows(s) + s->tile_n) * MOE__MM_TILE_K;
  if (moe__mm_scales(op, MOE__MM_QA) == MOE__SCALE_OF_BLOCK)
    stage_bytes +=
        is_gradient ? moe__mm_token_blocks_reserve(s, aligned) : moe__mm_block_scales_reserve();
  bool mx = moe__has_mx_scales(op);
  if (mx)
    stage_bytes += moe__mm_mx_factor_bytes(s);
  if (mx && is_gradient)
    stage_bytes += moe__mm_mx_tokens_reserve(l, s, aligned);
  l->ring = moe__ring_reserve(&l->cta, s->stages, stage_bytes);
  moe__mm_slots_reserve(l, s, op);
  if (s->pingpong)
    moe__mm_turns_reserve(l);
  if (is_gradient && !mx && !aligned)
    moe__mm_clear_reserve(l, s);
  moe__mm_epilogue_reserve(l, s, op);
  l->groups = moe__groups_reserve(&l->cta, moe__max_groups(op), order_of_tiles(op, s));
  return true;
}

bool moe__mm_lay_out(MlirOperation op, const void *schedule, void *out) {
  moe__mm_layout_t *layout = out, wide = {0};
  if (!lay_out(op, schedule, layout))
    return false;
  if (!moe__mm_may_be_wide(op, schedule))
    return true;
  moe__mm_schedule_t wide_schedule = moe__mm_wide_schedule(schedule);
  if (!lay_out(op, &wide_schedule, &wide))
    return false;
  if (layout->cta.shared_bytes < wide.cta.shared_bytes)
    layout->cta.shared_bytes = wide.cta.shared_bytes;
  return true;
}
