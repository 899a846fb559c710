/* CandidatesPanels.c - schedules of up to 16 tokens without experts: warps that multiply panels.
 * Why the numbers are what they are: docs/performance/mixed_few_tokens.md.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/mixed_mm/Candidates.h"

#include "moe/limits.h"

/* As many panels as make one tile, or a few, for each multiprocessor. Stages fill shared memory:
 * units of 512 bytes, of which a chunk of a panel is one; `numbers` is the class of bytes of scales
 * and zero points. */
#define ROOM 452
#define STAGE(n, p, chunks, numbers)                                                               \
  (2 * (((chunks) * (8 * (n) + (32 + MOE__MOST_NUMBERS(numbers)) * (p)) + 63) / 64))
#define STAGES(n, p, slices, d, numbers)                                                           \
  ((ROOM - ((slices) > 1 ? (n) / 8 * (p) * (slices) : 0)) / STAGE(n, p, (d) / 64, numbers))
#define PANELS(n, p, s, d, numbers)                                                                \
  .tile_n = (n), .panels = (p), .slices = (s), .depth = (d), .stages = STAGES(n, p, s, d, numbers)
#define DIRECT(p, s, d, stage_count)                                                               \
  .tile_n = 8, .panels = (p), .slices = (s), .direct = 1, .depth = (d), .stages = (stage_count)

/* Second candidates: warpgroups, of which four CTAs divide the columns, or none does. */
#define DIVIDED_8 MOE__TILE(8, 2, 256, 8), .split = 4
#define DIVIDED_16 MOE__TILE(16, 2, 256, 7), .split = 4
#define WARPGROUPS_8 MOE__TILE(8, 4, 256, 4)
#define WARPGROUPS_16 MOE__TILE(16, 4, 128, 9)

/* Few rows, whose columns two CTAs divide: by class of numbers, up to 8 tokens and 16. */
#define OF_FEW_ROWS(numbers)                                                                       \
  {                                                                                                \
    {{PANELS(8, 4, 4, 512, numbers), .split = 2}, {DIVIDED_8}}, {                                  \
      {PANELS(16, 4, 4, 512, numbers), .split = 2}, {                                              \
        DIVIDED_16                                                                                 \
      }                                                                                            \
    }                                                                                              \
  }
static const moe__mixed_schedule_t PANELS_OF_FEW_ROWS[MOE__NUMBERS_CLASSES][2][2] = {
    OF_FEW_ROWS(0), OF_FEW_ROWS(1), OF_FEW_ROWS(2)};

/* More: the same, and by the number of panels, from LEAST_PANELS on. */
#define LEAST_PANELS 3
#define MOST_PANELS 14
#define PANELS_8(p, numbers)                                                                       \
  {                                                                                                \
    {PANELS(8, p, (p) < 8 ? 2 : 1, 512, numbers)}, {                                               \
      WARPGROUPS_8                                                                                 \
    }                                                                                              \
  }
#define PANELS_16(p, numbers)                                                                      \
  {                                                                                                \
    {PANELS(16, p, (p) < 8 ? 2 : 1, (p) < 8 ? 512 : 256, numbers)}, {                              \
      WARPGROUPS_16                                                                                \
    }                                                                                              \
  }
#define FOR_PANELS(panels_of, x)                                                                   \
  {                                                                                                \
    panels_of(3, x), panels_of(4, x), panels_of(5, x), panels_of(6, x), panels_of(7, x),           \
        panels_of(8, x), panels_of(9, x), panels_of(10, x), panels_of(11, x), panels_of(12, x),    \
        panels_of(13, x), panels_of(14, x)                                                         \
  }
static const moe__mixed_schedule_t
    PANELS_OF_ROWS[MOE__NUMBERS_CLASSES][2][MOST_PANELS - LEAST_PANELS + 1][2] = {
        {FOR_PANELS(PANELS_8, 0), FOR_PANELS(PANELS_16, 0)},
        {FOR_PANELS(PANELS_8, 1), FOR_PANELS(PANELS_16, 1)},
        {FOR_PANELS(PANELS_8, 2), FOR_PANELS(PANELS_16, 2)}};

/* ---- Panels for each multiprocessor ----
 *
 * Where as many panels make one tile for each multiprocessor no CTAs divide the columns ("Two
 * panels"; mixed_sizes.md, "Any number of panels"). It was timed with bf16: integers in groups of
 * 64 and 32, zero points in groups of 64, and MXFP4. By the number of panels, up to 8 tokens and
 * 16; four and 14 have tables of their own. */
#define TIMED(n, p, s, d, stage_count, ...)                                                        \
  {                                                                                                \
    {.tile_n = (n),                                                                                \
     .panels = (p),                                                                                \
     .slices = (s),                                                                                \
     .depth = (d),                                                                                 \
     .stages = (stage_count),                                                                      \
     __VA_ARGS__},                                                                                 \
    {                                                                                              \
      PANELS(n, 4, 4, 512, 1), .split = 2                                                          \
    }                                                                                              \
  }
#define OF_PANELS(n, ...)                                                                          \
  {                                                                                                \
    TIMED(n, 1, 8, 1024, 4, __VA_ARGS__), TIMED(n, 2, 4, 1024, 4, __VA_ARGS__),                    \
        TIMED(n, 3, 4, 512, 4, __VA_ARGS__), TIMED(n, 4, 4, 512, 4, __VA_ARGS__),                  \
        TIMED(n, 5, 4, 512, 4, __VA_ARGS__), TIMED(n, 6, 2, 256, 6, __VA_ARGS__),                  \
        TIMED(n, 7, 2, 256, 6, __VA_ARGS__), TIMED(n, 8, 2, 256, 6, __VA_ARGS__),                  \
        TIMED(n, 9, 2, 256, 6, __VA_ARGS__), TIMED(n, 10, 2, 256, 6, __VA_ARGS__)                  \
  }
#define MOST_TIMED_PANELS 10
static const moe__mixed_schedule_t OF_INTEGERS[2][MOST_TIMED_PANELS][2] = {
    OF_PANELS(8, .subnormal = 1), OF_PANELS(16, .subnormal = 1)};
static const moe__mixed_schedule_t OF_MXFP4[2][MOST_TIMED_PANELS][2] = {
    OF_PANELS(8, MOE__LONG_SUMS), OF_PANELS(16, MOE__LONG_SUMS)};

/* ---- Integers of bf16, in groups of 64 or 32 ----
 *
 * The same with fewer shifts ("Fewer shifts"), in groups of 64 zero points too: four panels, and
 * 14, up to 8 tokens and 16. Some have weights that warps load ("Direct weights, up to
 * 8 tokens"), 32 stages with 8192 columns of 14 panels at once; with twice the scales there are
 * registers for fewer, and with zero points no stages but those of before were timed. */
#define SHIFTS(n, p, s, d, stage_count)                                                            \
  .tile_n = (n), .panels = (p), .slices = (s), .depth = (d), .stages = (stage_count), .subnormal = 1
/* Four panels: no more stages than are needed to wait for memory ("Four panels, fewer stages"). */
static const moe__mixed_schedule_t SHIFTS_4[] = {
    {SHIFTS(8, 4, 4, 512, 4)}, {PANELS(8, 4, 2, 512, 1)}, {WARPGROUPS_8}};
static const moe__mixed_schedule_t SHIFTS_4_16[] = {
    {SHIFTS(16, 4, 4, 512, 4)}, {PANELS(16, 4, 2, 512, 1), .subnormal = 1}, {WARPGROUPS_16}};
static const moe__mixed_schedule_t SHIFTS_4_16_ZEROS[] = {{SHIFTS(16, 4, 2, 512, 4)},
                                                          {WARPGROUPS_16}};

static const moe__mixed_schedule_t SHIFTS_14[] = {
    {DIRECT(14, 2, 256, 32), .subnormal = 1, .whole = 1},
    {PANELS(8, 14, 1, 512, 0)},
    {WARPGROUPS_8}};
static const moe__mixed_schedule_t SHIFTS_14_NUMBERS[] = {
    {DIRECT(14, 2, 256, 16), .subnormal = 1}, {PANELS(8, 14, 1, 512, 0)}, {WARPGROUPS_8}};
/* Where columns are not known ptxas has no registers for that of groups of 32. */
static const moe__mixed_schedule_t DIRECT_14[] = {
    {DIRECT(14, 2, 256, 16)}, {PANELS(8, 14, 1, 512, 0)}, {WARPGROUPS_8}};
static const moe__mixed_schedule_t SHIFTS_14_16[] = {{PANELS(16, 14, 1, 256, 0), .subnormal = 1},
                                                     {WARPGROUPS_16}};
/* Twice the scales, or zero points ("Four stages of 14 panels"). */
static const moe__mixed_schedule_t SHIFTS_14_16_NUMBERS[] = {
    {SHIFTS(16, 14, 1, 256, 4)}, {PANELS(16, 14, 1, 256, 1), .subnormal = 1}, {WARPGROUPS_16}};

/* ---- MXFP4 of bf16, whose weights are multiplied by their scales ---- */

/* "MXFP4 in panels, multiplied by its scales"; of 14 panels in one round, where instructions are
 * the limit, it gains most. */
#define SCALED(n, p, s, d, stage_count, warpgroups)                                                \
  {                                                                                                \
    {.tile_n = (n),                                                                                \
     .panels = (p),                                                                                \
     .slices = (s),                                                                                \
     .depth = (d),                                                                                 \
     .stages = (stage_count),                                                                      \
     MOE__LONG_SUMS},                                                                              \
        {PANELS(n, p, (p) < 8 ? 2 : 1, (p) < 8 ? 512 : 256, 0)}, {                                 \
      warpgroups                                                                                   \
    }                                                                                              \
  }
static const moe__mixed_schedule_t SCALED_4[2][3] = {SCALED(8, 4, 4, 1024, 3, WARPGROUPS_8),
                                                     SCALED(16, 4, 4, 1024, 3, WARPGROUPS_16)};
static const moe__mixed_schedule_t SCALED_14[2][3] = {SCALED(8, 14, 2, 256, 4, WARPGROUPS_8),
                                                      SCALED(16, 14, 2, 256, 4, WARPGROUPS_16)};

moe__candidates_t moe__mixed_panel_candidates(const moe__mixed_product_t *p) {
  bool up_to_8 = p->tokens <= 8, is_32 = p->is_usual_32, is_mxfp4 = p->is_usual_mxfp4;
  bool shifts = p->is_usual_64 || is_32; /* of i4, or ui4 with zero points */
  int64_t all = moe__mixed_quotient_up(p->rows, MOE_WEIGHT_ROWS);
  int64_t rounds = moe__mixed_quotient_up(all, MOE__MULTIPROCESSORS * MOST_PANELS);
  int64_t panels = moe__mixed_quotient_up(all, MOE__MULTIPROCESSORS * rounds);
  if (shifts && panels == 4 && p->has_zeros && !up_to_8)
    return MOE__CANDIDATES(SHIFTS_4_16_ZEROS);
  if (shifts && panels == 4)
    return up_to_8 ? MOE__CANDIDATES(SHIFTS_4) : MOE__CANDIDATES(SHIFTS_4_16);
  if (is_mxfp4 && panels == 4)
    return MOE__CANDIDATES(SCALED_4[!up_to_8]);
  if ((shifts || is_mxfp4) && panels <= MOST_TIMED_PANELS)
    return shifts ? MOE__CANDIDATES(OF_INTEGERS[!up_to_8][panels - 1])
                  : MOE__CANDIDATES(OF_MXFP4[!up_to_8][panels - 1]);
  if (panels < LEAST_PANELS)
    return MOE__CANDIDATES(PANELS_OF_FEW_ROWS[p->numbers][!up_to_8]);
  bool is_one_round = panels == 14 && rounds == 1, has_more = p->has_zeros || is_32;
  if (is_mxfp4 && is_one_round)
    return MOE__CANDIDATES(SCALED_14[!up_to_8]);
  if (shifts && is_one_round && !up_to_8)
    return has_more ? MOE__CANDIDATES(SHIFTS_14_16_NUMBERS) : MOE__CANDIDATES(SHIFTS_14_16);
  if (shifts && is_one_round && is_32 && p->columns < 0)
    return MOE__CANDIDATES(DIRECT_14);
  if (shifts && is_one_round)
    return has_more ? MOE__CANDIDATES(SHIFTS_14_NUMBERS) : MOE__CANDIDATES(SHIFTS_14);
  return MOE__CANDIDATES(PANELS_OF_ROWS[p->numbers][!up_to_8][panels - LEAST_PANELS]);
}
