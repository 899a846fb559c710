/* Wide.c - where tiles of scaled_mm have more columns than the schedule's: see ScaledMm.h.
 *
 * In a gradient of weights a tile of 128 x 192 reads 5/6 as much for each product as one of
 * 128 x 128. That counts where groups are short, and begin and end inside of k-tiles, which are
 * loaded whole. But there are fewer of these tiles, and where the last wave of them has room for
 * many more they lose that again. Sizes are known when the kernel is launched: so it has the code
 * for both, and each CTA finds which one it runs. That of wide tiles stands behind the other: what
 * stands behind takes a few microseconds more of a launch, and they have gained that.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/scaled_grouped_mm/ScaledMm.h"

#include "lib/Dialect/Shapes.h"

#define WIDE 192
/* Groups have so many tokens on average, or fewer: with FP8, where longer ones gain nothing, and
 * with 16 bits, where such groups have been measured. */
#define SHORT_GROUP 4096
#define SHORT_GROUP_OF_HALVES 12288
/* How many percent longer the waves of wide tiles may take than those of others; and where a group
 * of FP8 has so few tokens that storing counts. */
#define PERCENT_LONGER 4
#define FEW_TOKENS 512
#define PERCENT_LONGER_WITH_FEW 2

bool moe__mm_may_be_wide(MlirOperation op, const moe__mm_schedule_t *schedule) {
  if (schedule->wide_stages == 0 || !schedule->pingpong || schedule->cluster > 1 ||
      schedule->tile_n > MOE__MM_WIDE || moe__mm_case(op) != MOE__GRADIENT)
    return false;
  int64_t columns = moe__static_dimension(moe__factor_type(op, MOE__MM_QB), 1);
  return columns < 0 ||
         columns > schedule->tile_n; /* else there are as many tiles of either kind */
}

moe__mm_schedule_t moe__mm_wide_schedule(const moe__mm_schedule_t *schedule) {
  moe__mm_schedule_t wide = *schedule;
  wide.tile_n = WIDE;
  wide.stages = schedule->wide_stages;
  wide.wide_stages = 0;
  return wide;
}

/* How long all tiles of `columns` columns take: waves, in which each CTA has one, times the 64
 * columns of each (i32). */
static MlirValue time_of(moe__scaled_mm_t *s, int columns) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue rows = moe__ceil_div(b, s->rows.value, s->operands[MOE__MM_QA].rows);
  MlirValue tiles = moe__mul(b, rows, moe__ceil_div(b, s->columns.value, columns));
  tiles = moe__mul(b, tiles, s->experts.value);
  MlirValue ctas = s->kernel.cta_count;
  MlirValue waves = moe__udiv(b, moe__sub(b, moe__add(b, tiles, ctas), 1), ctas);
  return moe__mul(b, waves, columns / 64);
}

MlirValue moe__mm_is_narrow(moe__scaled_mm_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  bool halves = !mlirTypeIsNull(s->half);
  MlirValue most = moe__mul(b, s->experts.value, halves ? SHORT_GROUP_OF_HALVES : SHORT_GROUP);
  MlirValue percent = moe__i32(b, 100 + PERCENT_LONGER);
  if (!halves) {
    MlirValue few = moe__ult(b, s->depth.value, moe__mul(b, s->experts.value, FEW_TOKENS));
    percent = moe__select(b, few, 100 + PERCENT_LONGER_WITH_FEW, percent);
  }
  MlirValue narrow = time_of(s, s->schedule.tile_n), wide = time_of(s, WIDE);
  MlirValue is_longer = moe__ult(b, moe__mul(b, narrow, percent), moe__mul(b, wide, 100));
  return moe__or(b, moe__ult(b, most, s->depth.value), is_longer);
}

void moe__mm_widen(moe__scaled_mm_t *s, MlirOperation op) {
  moe__mm_layout_t layout;
  moe__mm_schedule_t wide = moe__mm_wide_schedule(&s->schedule);
  moe__mm_lay_out(op, &wide, &layout);
  s->schedule = wide;
  s->layout = layout;
  moe__mm_operand_t *columns = s->side[1];
  columns->tile = columns->rows = columns->box = s->column_n = s->fragment_n = WIDE;
  columns->map = s->wide_map;
}
