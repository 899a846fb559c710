/* Schedule.c - see Schedule.h. Why the numbers are what they are:
 * docs/performance/mixed_product.md.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/mixed_mm/Schedule.h"

#include "lib/Builder/Inspect.h"
#include "lib/Dialect/Dialect.h"
#include "lib/Dialect/Shapes.h"
#include "lib/Kernels/Requirements.h"
#include "lib/Kernels/mixed_mm/MixedMm.h"

#include "mlir-c/BuiltinTypes.h"

MOE__SCHEDULE_KIND(moe__mixed_schedule, moe__mixed_schedule_t, MOE__MIXED_SCHEDULE, "mixed",
                   "mixed_mm, mixed_mm_zeros, mixed_mm_bias, mixed_mm_zeros_bias");

/* ---- Sizes ---- */

int moe__mixed_panels(const moe__mixed_schedule_t *schedule) {
  return schedule->panels ? schedule->panels : MOE__MIXED_WARPS * schedule->warpgroups;
}

int moe__mixed_rows(const moe__mixed_schedule_t *schedule) {
  return MOE_WEIGHT_ROWS * moe__mixed_panels(schedule);
}

int moe__mixed_box_rows(const moe__mixed_schedule_t *schedule) {
  return schedule->common ? MOE__WGMMA_M : moe__mixed_rows(schedule);
}

/* Of two CTAs that have the rows of a warpgroup in common, those once. */
int moe__mixed_tile_rows(const moe__mixed_schedule_t *schedule) {
  int rows = moe__mixed_rows(schedule);
  return schedule->common ? 2 * rows - MOE__WGMMA_M : rows * schedule->share;
}

bool moe__mixed_meets(const moe__mixed_schedule_t *schedule) {
  return schedule->split > 1 || schedule->common;
}

int moe__mixed_warps(const moe__mixed_schedule_t *schedule) {
  return moe__mixed_panels(schedule) * schedule->slices;
}

int moe__mixed_scale_bytes(MlirType scale) {
  return mlirTypeIsAF32(scale) ? 4 : mlirTypeIsAFloat8E8M0FNU(scale) ? 1 : 2;
}

bool moe__mixed_has_scales_of_rows(MlirOperation op) {
  MlirType scales = moe__tensor_type(op, MOE__SCALES);
  return moe__has_fp8_weights(op) && moe__is_row_major(scales) && !moe__is_column_major(scales);
}

int moe__mixed_group(MlirOperation op) {
  int64_t group = moe__op_integer(op, "group_size");
  return group < 0 ? 0 : (int)group;
}

int moe__mixed_scales_of_stage(int group, int depth) {
  return group > depth ? 1 : group ? depth / group : 1;
}

moe__weight_format_t moe__mixed_format(MlirOperation op) {
  static const char *const NAMES[] = {
#define MOE_WEIGHT_FORMAT(symbol, name) [MOE__WEIGHT_##symbol] = (name),
#include "moe/weight_formats.def"
  };
  MlirStringRef name = moe__op_string(op, "format");
  int i = (int)(sizeof NAMES / sizeof *NAMES) - 1;
  while (i > 0 && !mlirStringRefEqual(name, mlirStringRefCreateFromCString(NAMES[i])))
    i--;
  return (moe__weight_format_t)i;
}

/* Bytes of scales and zero points of a row for 64 columns. */
static int number_bytes(MlirOperation op) {
  int group = moe__mixed_group(op),
      bytes = moe__mixed_scale_bytes(moe__element_type(op, MOE__SCALES));
  if (!mlirValueIsNull(moe__operand(op, MOE__ZEROS)))
    bytes++;
  return group && group < MOE_WEIGHT_COLUMNS ? MOE_WEIGHT_COLUMNS / group * bytes : bytes;
}

/* ---- Candidates ---- */

/* Of an H100 or H200. */
#define MULTIPROCESSORS 132

/* Few tokens: all is reading the weights. Tiles are as narrow as the tokens, and their columns are
 * divided until there are about as many CTAs as multiprocessors: by the rows of the weights. */
#define FEW_ROWS(n, d, s)                                                                          \
  { .tile_n = (n), .depth = (d), .stages = (s), .warpgroups = 2, .split = 4 }
#define SOME_ROWS(n, d, s)                                                                         \
  { .tile_n = (n), .depth = (d), .stages = (s), .warpgroups = 2, .split = 2 }
#define MANY_ROWS(n, d, s)                                                                         \
  { .tile_n = (n), .depth = (d), .stages = (s), .warpgroups = 4 }
#define CLASSES(n, d2, s2, d4, s4)                                                                 \
  {                                                                                                \
    {FEW_ROWS(n, d2, s2), SOME_ROWS(n, d2, s2), MANY_ROWS(n, d4, s4)},                             \
        {SOME_ROWS(n, d2, s2), FEW_ROWS(n, d2, s2), MANY_ROWS(n, d4, s4)}, {                       \
      MANY_ROWS(n, d4, s4), SOME_ROWS(n, d2, s2), FEW_ROWS(n, d2, s2)                              \
    }                                                                                              \
  }
static const moe__mixed_schedule_t TOKENS_8[][3] = CLASSES(8, 256, 8, 256, 4);
static const moe__mixed_schedule_t TOKENS_16[][3] = CLASSES(16, 256, 7, 128, 9);
/* Longer stages, but where there are so few rows that they were not timed. */
#define MORE_ROWS                                                                                  \
  { .tile_n = 32, .depth = 256, .stages = 5, .warpgroups = 2, .split = 2 }
static const moe__mixed_schedule_t TOKENS_32[][3] = {
    {FEW_ROWS(32, 128, 10), MORE_ROWS, MANY_ROWS(32, 256, 4)},
    {MORE_ROWS, FEW_ROWS(32, 128, 10), MANY_ROWS(32, 256, 4)},
    {MANY_ROWS(32, 256, 4), MORE_ROWS, FEW_ROWS(32, 128, 10)}};
/* Of many rows, where ptxas has no registers for four warpgroups. */
static const moe__mixed_schedule_t TWO_32[] = {
    {.tile_n = 32, .depth = 256, .stages = 5, .warpgroups = 2}, FEW_ROWS(32, 128, 10)};
/* Where scales and zero points leave no room for those, and with experts. */
static const moe__mixed_schedule_t NUMBERS_32[][3] = CLASSES(32, 128, 10, 128, 7);
/* Warps that multiply panels, as many as make one tile, or a few, for each multiprocessor. Stages
 * fill shared memory: units of 512 bytes, of which a chunk of a panel is one; `numbers` is a class
 * of bytes of scales and zero points of a row for 64 columns. */
#define ROOM 452
#define MOST_NUMBERS(numbers) ((numbers) == 0 ? 3 : (numbers) == 1 ? 4 : 6)
#define STAGE(n, p, chunks, numbers)                                                               \
  (2 * (((chunks) * (8 * (n) + (32 + MOST_NUMBERS(numbers)) * (p)) + 63) / 64))
#define STAGES(n, p, slices, d, numbers)                                                           \
  ((ROOM - ((slices) > 1 ? (n) / 8 * (p) * (slices) : 0)) / STAGE(n, p, (d) / 64, numbers))
#define PANELS(n, p, s, d, split_count, numbers)                                                   \
  {                                                                                                \
    .tile_n = (n), .panels = (p), .slices = (s), .depth = (d), .split = (split_count),             \
    .stages = STAGES(n, p, s, d, numbers)                                                          \
  }
#define DIVIDED(n, numbers)                                                                        \
  { PANELS(n, 4, 4, 512, 2, numbers), FEW_ROWS(n, 256, (n) == 8 ? 8 : 7) }
#define PANELS_8(p, numbers)                                                                       \
  { PANELS(8, p, (p) < 8 ? 2 : 1, 512, 1, numbers), MANY_ROWS(8, 256, 4) }
#define PANELS_16(p, numbers)                                                                      \
  { PANELS(16, p, (p) < 8 ? 2 : 1, (p) < 8 ? 512 : 256, 1, numbers), MANY_ROWS(16, 128, 9) }
#define FEW 5120 /* rows, whose columns CTAs divide */
#define LEAST_PANELS 3
#define MOST_PANELS 14
#define FOR_PANELS(panels_of, x)                                                                   \
  {                                                                                                \
    panels_of(3, x), panels_of(4, x), panels_of(5, x), panels_of(6, x), panels_of(7, x),           \
        panels_of(8, x), panels_of(9, x), panels_of(10, x), panels_of(11, x), panels_of(12, x),    \
        panels_of(13, x), panels_of(14, x)                                                         \
  }
#define NUMBERS_CLASSES 3
static const moe__mixed_schedule_t PANELS_OF_FEW_ROWS[][2][2] = {{DIVIDED(8, 0), DIVIDED(16, 0)},
                                                                 {DIVIDED(8, 1), DIVIDED(16, 1)},
                                                                 {DIVIDED(8, 2), DIVIDED(16, 2)}};
static const moe__mixed_schedule_t PANELS_OF_ROWS[][2][MOST_PANELS - LEAST_PANELS + 1][2] = {
    {FOR_PANELS(PANELS_8, 0), FOR_PANELS(PANELS_16, 0)},
    {FOR_PANELS(PANELS_8, 1), FOR_PANELS(PANELS_16, 1)},
    {FOR_PANELS(PANELS_8, 2), FOR_PANELS(PANELS_16, 2)}};

/* The same with weights that warps load, where that was faster, by the number of panels. */
static const moe__mixed_schedule_t DIRECT_4[] = {
    {.tile_n = 8, .panels = 4, .slices = 4, .direct = 1, .depth = 1024, .stages = 10},
    PANELS(8, 4, 2, 512, 1, 0),
    MANY_ROWS(8, 256, 4)};
static const moe__mixed_schedule_t DIRECT_14[] = {
    {.tile_n = 8, .panels = 14, .slices = 2, .direct = 1, .depth = 256, .stages = 16},
    PANELS(8, 14, 1, 512, 1, 0),
    MANY_ROWS(8, 256, 4)};

/* With twice the scales there are registers for fewer weights. */
static const moe__mixed_schedule_t DIRECT_4_NUMBERS[] = {
    {.tile_n = 8, .panels = 4, .slices = 4, .direct = 1, .depth = 512, .stages = 16},
    PANELS(8, 4, 2, 512, 1, 1),
    MANY_ROWS(8, 256, 4)};
/* Two panels where that makes one tile for each multiprocessor: no CTAs divide the columns. With
 * up to four tokens nothing is gained. */
static const moe__mixed_schedule_t PANELS_2[] = {
    {.tile_n = 8, .panels = 2, .slices = 4, .depth = 1024, .stages = 6},
    PANELS(8, 4, 4, 512, 2, 1),
    FEW_ROWS(8, 256, 8)};

/* The types with which schedules of a few cases have run on a GPU: tokens and results in bf16, no
 * bias, and i4 weights with scales in bf16 for 64 columns or for 32, or ui4 ones with zero points
 * for 64. */
static bool has_bf16(MlirOperation op) {
  return mlirTypeIsABF16(moe__element_type(op, MOE__X)) &&
         mlirTypeIsABF16(moe__element_type(op, MOE__OUT)) &&
         mlirValueIsNull(moe__operand(op, MOE__BIAS));
}

static bool is_usual(MlirOperation op) {
  if (!has_bf16(op) || !mlirTypeIsABF16(moe__element_type(op, MOE__SCALES)))
    return false;
  int group = moe__mixed_group(op);
  if (!mlirValueIsNull(moe__operand(op, MOE__ZEROS)))
    return moe__mixed_format(op) == MOE__WEIGHT_UI4 && group == 64;
  return moe__mixed_format(op) == MOE__WEIGHT_I4 && (group == 64 || group == 32);
}

/* The class of so many bytes of scales and zero points; NUMBERS_CLASSES: there are too many. */
static int class_of_numbers(int bytes) {
  int class = 0;
  while (class < NUMBERS_CLASSES && bytes > MOST_NUMBERS(class))
    class ++;
  return class;
}

/* Of no more than 16 tokens. */
static moe__candidates_t panel_candidates(MlirOperation op, int64_t rows, int64_t tokens,
                                          int numbers) {
  if (tokens > 4 && tokens <= 8 && is_usual(op) && rows > MULTIPROCESSORS * MOE_WEIGHT_ROWS &&
      rows <= MULTIPROCESSORS * moe__mixed_rows(PANELS_2))
    return MOE__CANDIDATES(PANELS_2);
  if (rows <= FEW)
    return MOE__CANDIDATES(PANELS_OF_FEW_ROWS[numbers][tokens > 8]);
  int64_t all = (rows + MOE_WEIGHT_ROWS - 1) / MOE_WEIGHT_ROWS;
  int64_t rounds = (all + MULTIPROCESSORS * MOST_PANELS - 1) / (MULTIPROCESSORS * MOST_PANELS);
  int64_t panels = (all + MULTIPROCESSORS * rounds - 1) / (MULTIPROCESSORS * rounds);
  if (tokens <= 8 && panels == 4 && is_usual(op))
    return number_bytes(op) > 3 ? MOE__CANDIDATES(DIRECT_4_NUMBERS) : MOE__CANDIDATES(DIRECT_4);
  if (tokens <= 8 && panels == 14 && rounds == 1 && is_usual(op))
    return MOE__CANDIDATES(DIRECT_14);
  return MOE__CANDIDATES(PANELS_OF_ROWS[numbers][tokens > 8][panels - LEAST_PANELS]);
}

/* More tokens: the sums of a tile and those in flight are most of a thread's registers. */
#define TILE_64(s, n)                                                                              \
  { .tile_n = 64, .in_flight = 2, .split = (s), .stages = (n) }
static const moe__mixed_schedule_t TOKENS_64[][3] = {
    {TILE_64(4, 6), TILE_64(2, 6), TILE_64(1, 8)},
    {TILE_64(2, 6), TILE_64(4, 6), TILE_64(1, 8)},
    {TILE_64(1, 8), TILE_64(2, 6), {.tile_n = 32, .stages = 10}},
};

/* Of more rows, whose tiles leave multiprocessors without one in the last round. */
static const moe__mixed_schedule_t SPREAD_32[] = {
    {.tile_n = 32, .depth = 256, .stages = 4, .warpgroups = 4, .spread = 1}, MANY_ROWS(32, 256, 4)};
static const moe__mixed_schedule_t SPREAD_64[] = {
    {.tile_n = 64, .in_flight = 2, .spread = 1, .stages = 8}, TILE_64(1, 8)};

/* Of 5121 to 16384 rows, and types that is_usual() names, but with groups of 32, for which there
 * are not the registers. */
static const moe__mixed_schedule_t SOME_ROWS_64[] = {
    {.tile_n = 64, .in_flight = 2, .depth = 256, .split = 2, .stages = 3}, TILE_64(2, 6)};

/* Weights that become numbers in the registers of those before; two CTAs have rows in common. Of up
 * to 40 and 48 tokens. */
#define COMMON_ROWS(n)                                                                             \
  { .tile_n = (n), .warpgroups = 4, .behind = 1, .common = 1, .depth = 64, .stages = 9 }
static const moe__mixed_schedule_t COMMON_48[][2] = {{COMMON_ROWS(40), TILE_64(1, 8)},
                                                     {COMMON_ROWS(48), TILE_64(1, 8)}};

/* Many tokens, in parts. Tiles of 96 or 128 tokens, whose columns one, two or four CTAs divide. */
#define PARTS(n, d, s, stage_count)                                                                \
  { .tile_n = (n), .token_parts = 2, .depth = (d), .split = (s), .stages = (stage_count) }
/* Where columns are not divided: more and shorter stages, four of them in a round of the loop; and
 * the widest tiles, which have registers for nothing more and are no default. */
#define UNROLLED                                                                                   \
  { .tile_n = 128, .token_parts = 2, .unroll = 4, .stages = 5 }
#define THIRDS                                                                                     \
  { .tile_n = 192, .token_parts = 3, .unroll = 4, .stages = 3 }
#define WIDEST                                                                                     \
  { .tile_n = 256, .token_parts = 4, .stages = 3 }
#define LOG_SPLITS 3
#define TILES 3 /* 96, 128, and 192 tokens or 256 */
static const moe__mixed_schedule_t WIDE[TILES][LOG_SPLITS][2] = {
    {{PARTS(96, 256, 1, 3), UNROLLED},
     {PARTS(96, 256, 2, 2), PARTS(128, 128, 2, 3)},
     {PARTS(96, 256, 4, 2), PARTS(128, 128, 4, 3)}},
    {{UNROLLED, WIDEST},
     {PARTS(128, 128, 2, 3), PARTS(96, 256, 2, 2)},
     {PARTS(128, 128, 4, 3), PARTS(96, 256, 4, 2)}},
    {{THIRDS, WIDEST}}};
/* So many tokens are more than L2 has room for: all weights are worked off with four tiles of them
 * before the next. */
#define MANY_TOKENS 2048
static const moe__mixed_schedule_t WIDE_BANDS[] = {
    {.tile_n = 128, .token_parts = 2, .unroll = 4, .stages = 5, .band = 4}, WIDEST};

static const moe__mixed_schedule_t WIDE_SPREAD[] = {
    {.tile_n = 128, .token_parts = 2, .unroll = 4, .stages = 5, .spread = 1}, UNROLLED};

/* Of weights that are multiplied by their scales all tokens of a tile are one part. */
#define SCALED(n, d, s, stage_count)                                                               \
  { .tile_n = (n), .scaled_weights = 1, .depth = (d), .split = (s), .stages = (stage_count) }
#define LONG(n, d, stage_count)                                                                    \
  { .tile_n = (n), .scaled_weights = 1, .long_sums = 1, .depth = (d), .stages = (stage_count) }
#define LONG_SHARED                                                                                \
  { .tile_n = 256, .scaled_weights = 1, .long_sums = 1, .stages = 3, .share = 2 }
static const moe__mixed_schedule_t SCALED_WIDE[TILES][LOG_SPLITS][2] = {
    {{SCALED(96, 256, 1, 3), LONG(128, 256, 2)},
     {SCALED(96, 256, 2, 2), SCALED(128, 128, 2, 3)},
     {SCALED(96, 256, 4, 2), SCALED(128, 128, 4, 3)}},
    {{LONG(128, 256, 2), LONG(256, 128, 3)},
     {SCALED(128, 128, 2, 3), SCALED(96, 256, 2, 2)},
     {SCALED(128, 128, 4, 3), SCALED(96, 256, 4, 2)}},
    {{LONG(256, 128, 3), LONG_SHARED}}};
/* The same of weights that are multiplied by their scales. */
#define BEHIND(n, w, stage_count)                                                                  \
  {                                                                                                \
    .tile_n = (n), .warpgroups = (w), .behind = 1, .scaled_weights = 1, .long_sums = 1,            \
    .stages = (stage_count)                                                                        \
  }
#define BEHIND_COMMON(n, stage_count)                                                              \
  {                                                                                                \
    .tile_n = (n), .warpgroups = 4, .behind = 1, .common = 1, .scaled_weights = 1, .long_sums = 1, \
    .stages = (stage_count)                                                                        \
  }
static const moe__mixed_schedule_t SCALED_COMMON[][2] = {{BEHIND_COMMON(32, 6), BEHIND(32, 4, 6)},
                                                         {BEHIND_COMMON(64, 6), BEHIND(64, 4, 6)}};
static const moe__mixed_schedule_t SCALED_ROWS_64[][2] = {{BEHIND(32, 4, 6), TILE_64(1, 8)},
                                                          {BEHIND(64, 4, 6), TILE_64(1, 8)}};
/* The same of fewer rows, whose columns CTAs divide; of up to 32, 48 and 64 tokens. */
#define LONG_SPLIT(n, s)                                                                           \
  { .tile_n = (n), .scaled_weights = 1, .long_sums = 1, .split = (s), .stages = 6 }
#define LONG_SPLITS(s)                                                                             \
  {                                                                                                \
    {LONG_SPLIT(32, s), TILE_64(s, 6)}, {LONG_SPLIT(48, s), TILE_64(s, 6)}, {                      \
      LONG_SPLIT(64, s), TILE_64(s, 6)                                                             \
    }                                                                                              \
  }
static const moe__mixed_schedule_t SCALED_DIVIDED[][3][2] = {LONG_SPLITS(4), LONG_SPLITS(2)};
static const moe__mixed_schedule_t SCALED_BEHIND[] = {BEHIND(128, 4, 4), LONG(128, 256, 2)};
static const moe__mixed_schedule_t SCALED_SHARED[] = {LONG_SHARED, LONG(256, 128, 3)};

/* Of integers whose sums are in units. */
#define UNITS(count, spreads)                                                                      \
  {                                                                                                \
    .tile_n = 256, .token_parts = 2, .unroll = 4, .scaled_weights = 1, .long_sums = 1,             \
    .stages = 3, .share = (count), .spread = (spreads)                                             \
  }
static const moe__mixed_schedule_t UNITS_WIDE[] = {UNITS(1, 0), UNITS(2, 0), THIRDS};

/* The same tiles whose last ones are divided among all CTAs. */
static const moe__mixed_schedule_t UNITS_SPREAD[] = {UNITS(1, 1), UNITS(1, 0)};
static const moe__mixed_schedule_t SCALED_SPREAD[] = {
    {.tile_n = 256, .scaled_weights = 1, .long_sums = 1, .stages = 3, .spread = 1}, LONG_SHARED};

/* FP8 weights have twice the bytes in a stage. */
#define FP8_SPLIT(n, d, s, stage_count)                                                            \
  {                                                                                                \
    .tile_n = (n), .scaled_weights = 1, .long_sums = 1, .depth = (d), .split = (s),                \
    .stages = (stage_count)                                                                        \
  }
#define FP8_SHARED                                                                                 \
  { .tile_n = 208, .scaled_weights = 1, .long_sums = 1, .stages = 3, .share = 2 }
static const moe__mixed_schedule_t FP8_WIDE[TILES][LOG_SPLITS][2] = {
    {{LONG(96, 128, 5), LONG(128, 128, 4)},
     {FP8_SPLIT(96, 128, 2, 4), FP8_SPLIT(128, 128, 2, 3)},
     {FP8_SPLIT(96, 128, 4, 4), FP8_SPLIT(128, 128, 4, 3)}},
    {{LONG(128, 128, 4), LONG(208, 128, 3)},
     {FP8_SPLIT(128, 128, 2, 3), FP8_SPLIT(96, 128, 2, 4)},
     {FP8_SPLIT(128, 128, 4, 3), FP8_SPLIT(96, 128, 4, 4)}},
    {{LONG(208, 128, 3), FP8_SHARED}}};
static const moe__mixed_schedule_t FP8_SHARED_TOKENS[] = {FP8_SHARED, LONG(208, 128, 3)};
static const moe__mixed_schedule_t FP8_BEHIND[] = {BEHIND(128, 4, 3), LONG(128, 128, 4)};
static const moe__mixed_schedule_t FP8_COMMON[] = {BEHIND_COMMON(64, 4), BEHIND(64, 4, 4)};

/* Whether the product of a weight and its scale is a number of the tokens' type. */
static bool takes_scaled_weights(MlirOperation op) {
  return mlirTypeIsAFloat8E8M0FNU(moe__element_type(op, MOE__SCALES)) &&
         mlirTypeIsABF16(moe__element_type(op, MOE__X)) &&
         (moe__mixed_format(op) == MOE__WEIGHT_E2M1 || moe__has_fp8_weights(op));
}

/* Whether that of a weight and the highest bits of its scale is one. */
static bool takes_units(MlirOperation op) {
  MlirType scale = moe__element_type(op, MOE__SCALES);
  return (mlirTypeIsABF16(scale) || mlirTypeIsAF16(scale)) &&
         mlirTypeIsABF16(moe__element_type(op, MOE__X)) &&
         moe__mixed_format(op) != MOE__WEIGHT_E2M1 && !moe__has_fp8_weights(op);
}

/* By default only where the result has 16 bits: they hide what a tensor core cuts off long sums. */
static bool wants_scaled_weights(MlirOperation op) {
  return takes_scaled_weights(op) && !mlirTypeIsAF32(moe__element_type(op, MOE__OUT));
}

/* The same of sums in units. */
static bool wants_units(MlirOperation op) {
  return takes_units(op) && !mlirTypeIsAF32(moe__element_type(op, MOE__OUT));
}

/* Turning the weights of a tile into numbers takes as long as the products of so many tokens;
 * multiplying them by their scales takes as long again, and sums in units half as long. */
#define TOKENS_OF_WEIGHTS 32
#define TOKENS_OF_SCALED_WEIGHTS 64
#define TOKENS_OF_UNITS 48
/* The same of handing on the sums of the last tiles, and of reading tokens and weights for CTAs
 * that are at other columns of them. */
#define TOKENS_OF_SPREAD 80
#define SPREAD_TOKENS 256 /* of a tile whose last ones are divided */
/* Between these numbers of tokens it gains nothing. */
#define SPREAD_UP_TO 512
#define SPREAD_FROM 4096
#define TOKENS_OF_BEHIND 50

/* Of tiles of 256 tokens whose last ones are divided among all CTAs: their time, as below. */
static int64_t spread_time(int64_t tiles, int64_t of_weights) {
  return (tiles * (SPREAD_TOKENS + of_weights) / MULTIPROCESSORS + TOKENS_OF_SPREAD) << 2;
}

/* Whether a tenth of the multiprocessors, on average, has nothing to do for so many tiles. */
static bool leaves_some_idle(int64_t tiles) {
  int64_t rounds = (tiles + MULTIPROCESSORS - 1) / MULTIPROCESSORS;
  return 10 * tiles < 9 * rounds * MULTIPROCESSORS;
}

/* Of as many rows as `warpgroups` have. */
static int64_t tiles_of_rows(int64_t rows, int warpgroups) {
  int tile = warpgroups * MOE__WGMMA_M;
  return (rows + tile - 1) / tile;
}

/* Whether ptxas has registers for sums in units whose last tiles are divided: of groups of 128 only
 * with zero points, or columns that are not known. */
static bool may_spread_units(MlirOperation op) {
  return moe__mixed_group(op) != 128 || !mlirValueIsNull(moe__operand(op, MOE__ZEROS)) ||
         moe__static_dimension(moe__tensor_type(op, MOE__X), 1) < 0;
}

/* Which schedule takes the least time, if that is these and the tokens of a tile, times the tiles
 * that a multiprocessor works off one after another; a part of a tile where CTAs divide it, which
 * they do only where there are multiprocessors for all: adding their sums takes time. */
static moe__candidates_t wide_candidates(MlirOperation op, int64_t rows, int64_t tokens) {
  bool is_fp8 = moe__has_fp8_weights(op), scaled = wants_scaled_weights(op);
  const moe__mixed_schedule_t(*wide)[LOG_SPLITS][2] = is_fp8   ? FP8_WIDE
                                                      : scaled ? SCALED_WIDE
                                                               : WIDE;
  int64_t of_weights = scaled ? TOKENS_OF_SCALED_WEIGHTS : TOKENS_OF_WEIGHTS;
  int64_t least = INT64_MAX, least_rounds = 0, row_tiles = tiles_of_rows(rows, 2);
  int tile = 1, log_split = 0;
  for (int t = TILES - 1; t >= 0; t--)
    for (int l = 0; l < LOG_SPLITS && wide[t][l][0].tile_n; l++) {
      int64_t n = wide[t][l][0].tile_n, tiles = row_tiles * ((tokens + n - 1) / n);
      if (l > 0 && tiles << l > MULTIPROCESSORS)
        continue;
      int64_t rounds = ((tiles << l) + MULTIPROCESSORS - 1) / MULTIPROCESSORS;
      int64_t time = (rounds * (n + of_weights) << 2) >> l;
      if (time < least) {
        least = time;
        least_rounds = rounds;
        tile = t;
        log_split = l;
      }
    }
  int64_t behind_tiles =
      (rows + 255) / 256 * ((tokens + SCALED_BEHIND->tile_n - 1) / SCALED_BEHIND->tile_n);
  int64_t behind_rounds = (behind_tiles + MULTIPROCESSORS - 1) / MULTIPROCESSORS;
  if (scaled && behind_rounds * 2 * (SCALED_BEHIND->tile_n + TOKENS_OF_BEHIND) << 2 < least)
    return is_fp8 ? MOE__CANDIDATES(FP8_BEHIND) : MOE__CANDIDATES(SCALED_BEHIND);
  int64_t tiles = row_tiles * ((tokens + UNITS_WIDE->tile_n - 1) / UNITS_WIDE->tile_n);
  int64_t rounds = (tiles + MULTIPROCESSORS - 1) / MULTIPROCESSORS;
  int64_t of_units = rounds * (UNITS_WIDE->tile_n + TOKENS_OF_UNITS) << 2;
  bool may_spread = tokens <= SPREAD_UP_TO || tokens >= SPREAD_FROM;
  if (may_spread && wants_units(op) && may_spread_units(op) &&
      spread_time(tiles, TOKENS_OF_UNITS) < (of_units < least ? of_units : least))
    return MOE__CANDIDATES(UNITS_SPREAD);
  if (wants_units(op) && of_units <= least)
    return MOE__CANDIDATES(UNITS_WIDE);
  if (may_spread && scaled && !is_fp8 && spread_time(tiles, TOKENS_OF_SCALED_WEIGHTS) < least)
    return MOE__CANDIDATES(SCALED_SPREAD);
  if (tokens <= WIDE_SPREAD->tile_n && row_tiles > MULTIPROCESSORS && leaves_some_idle(row_tiles) &&
      is_usual(op) && moe__mixed_group(op) == 64)
    return MOE__CANDIDATES(WIDE_SPREAD);
  /* In several rounds of the widest tiles two CTAs share what they read of the tokens. */
  if (scaled && tile == TILES - 1 && least_rounds > 1 && row_tiles % 2 == 0)
    return is_fp8 ? MOE__CANDIDATES(FP8_SHARED_TOKENS) : MOE__CANDIDATES(SCALED_SHARED);
  if (!scaled && tile == 1 && log_split == 0 && tokens >= MANY_TOKENS)
    return MOE__CANDIDATES(WIDE_BANDS);
  return MOE__CANDIDATES(wide[tile][log_split]);
}

/* With experts, by the tokens that each has on average: a tile has room for most of what they have,
 * up to tiles of which an expert fills several. */
static const moe__mixed_schedule_t EXPERTS_48[] = {{.tile_n = 48, .warpgroups = 3, .stages = 7},
                                                   {.tile_n = 32, .stages = 10}};
static const moe__mixed_schedule_t EXPERTS_56[] = {{.tile_n = 56, .in_flight = 2},
                                                   {.tile_n = 48, .warpgroups = 3, .stages = 7}};
static const moe__mixed_schedule_t EXPERTS_80[] = {PARTS(80, 256, 1, 3), PARTS(64, 256, 1, 3)};
static const moe__mixed_schedule_t EXPERTS_96[] = {PARTS(96, 256, 1, 2), PARTS(80, 256, 1, 3)};
static const moe__mixed_schedule_t EXPERTS_MANY[] = {PARTS(128, 256, 1, 2), PARTS(80, 256, 1, 3)};

/* With scales as factors of weights. */
#define SCALED_ROWS(n, w, d, s)                                                                    \
  {                                                                                                \
    .tile_n = (n), .scaled_weights = 1, .long_sums = 1, .warpgroups = (w), .depth = (d),           \
    .stages = (s)                                                                                  \
  }
static const moe__mixed_schedule_t SCALED_32[] = {SCALED_ROWS(32, 4, 256, 4),
                                                  SCALED_ROWS(48, 4, 256, 3)};
static const moe__mixed_schedule_t SCALED_48[] = {SCALED_ROWS(48, 4, 256, 3),
                                                  SCALED_ROWS(64, 4, 256, 3)};
static const moe__mixed_schedule_t SCALED_64[] = {SCALED_ROWS(64, 4, 256, 3),
                                                  SCALED_ROWS(96, 3, 256, 2)};
static const moe__mixed_schedule_t SCALED_96[] = {SCALED_ROWS(96, 3, 256, 2),
                                                  SCALED_ROWS(64, 4, 256, 3)};
static const moe__mixed_schedule_t SCALED_128[] = {BEHIND(128, 4, 4), SCALED_ROWS(128, 3, 128, 4)};

static moe__candidates_t scaled_candidates(int64_t tokens) {
  if (tokens <= 24)
    return MOE__CANDIDATES(SCALED_32);
  if (tokens <= 36)
    return MOE__CANDIDATES(SCALED_48);
  if (tokens <= 64)
    return MOE__CANDIDATES(SCALED_64);
  return tokens <= 96 ? MOE__CANDIDATES(SCALED_96) : MOE__CANDIDATES(SCALED_128);
}

/* Few tokens: panels where E2M1 weights, which are more work to turn into numbers, or few tiles
 * gain by them; smaller tiles then, of which a multiprocessor has two. */
static const moe__mixed_schedule_t EXPERT_PANELS[] = {
    {.tile_n = 8, .panels = 16, .depth = 256, .stages = 5}, MANY_ROWS(8, 256, 4)};
static const moe__mixed_schedule_t SMALL_EXPERT_PANELS[] = {
    {.tile_n = 8, .panels = 8, .depth = 256, .stages = 4, .ctas_per_sm = 2}, MANY_ROWS(8, 256, 4)};
/* Where each of these CTAs has one tile. */
static const moe__mixed_schedule_t DIRECT_EXPERT_PANELS[] = {
    {.tile_n = 8, .panels = 8, .direct = 1, .depth = 256, .stages = 6, .ctas_per_sm = 2},
    {.tile_n = 8, .panels = 8, .depth = 256, .stages = 4, .ctas_per_sm = 2}};

/* Where tiles take long and are few rounds: who has none in the last one would wait for long. */
static const moe__mixed_schedule_t SPREAD_EXPERT_PANELS[] = {
    {.tile_n = 8, .panels = 16, .depth = 256, .stages = 5, .spread = 1},
    {.tile_n = 8, .panels = 16, .depth = 256, .stages = 5}};
static const moe__mixed_schedule_t SMALL_SPREAD_EXPERT_PANELS[] = {
    {.tile_n = 8, .panels = 8, .depth = 256, .stages = 4, .ctas_per_sm = 2, .spread = 1},
    {.tile_n = 8, .panels = 8, .depth = 256, .stages = 4, .ctas_per_sm = 2}};
#define SPREAD_COLUMNS 7168 /* with 4096 it costs more than it gains */
#define SPREAD_ROUNDS 16

/* i4 weights with scales in bf16 for 32 columns, or MXFP4, as in is_usual(). */
static bool is_usual_of_experts(MlirOperation op) {
  MlirType scales = moe__element_type(op, MOE__SCALES);
  if (!has_bf16(op) || !mlirValueIsNull(moe__operand(op, MOE__ZEROS)) || moe__mixed_group(op) != 32)
    return false;
  return moe__mixed_format(op) == MOE__WEIGHT_E2M1
             ? mlirTypeIsAFloat8E8M0FNU(scales)
             : moe__mixed_format(op) == MOE__WEIGHT_I4 && mlirTypeIsABF16(scales);
}

/* Up to 6 tokens of an expert, on average. */
static moe__candidates_t few_of_expert_candidates(MlirOperation op, int64_t rows, int64_t tokens,
                                                  int64_t experts) {
  int64_t touched = tokens < experts ? tokens : experts;
  if (number_bytes(op) > 4)
    return MOE__CANDIDATES(TOKENS_8[2]);
  int64_t tiles = rows < 0 ? INT64_MAX : touched * rows / moe__mixed_rows(SMALL_EXPERT_PANELS);
  bool is_e2m1 = moe__mixed_format(op) == MOE__WEIGHT_E2M1, usual = is_usual_of_experts(op);
  if (tiles > MULTIPROCESSORS && tiles <= 2 * MULTIPROCESSORS && usual && !is_e2m1)
    return MOE__CANDIDATES(DIRECT_EXPERT_PANELS);
  if (tiles <= 2 * MULTIPROCESSORS)
    return MOE__CANDIDATES(SMALL_EXPERT_PANELS);
  if (usual && tiles <= 2 * SPREAD_ROUNDS * MULTIPROCESSORS &&
      moe__static_dimension(moe__tensor_type(op, MOE__X), 1) >= SPREAD_COLUMNS)
    return is_e2m1 ? MOE__CANDIDATES(SPREAD_EXPERT_PANELS)
                   : MOE__CANDIDATES(SMALL_SPREAD_EXPERT_PANELS);
  if (is_e2m1)
    return MOE__CANDIDATES(EXPERT_PANELS);
  return usual ? MOE__CANDIDATES(SMALL_EXPERT_PANELS) : MOE__CANDIDATES(TOKENS_8[2]);
}

/* With more scales and zero points there is room for fewer stages beside a table of many groups. */
static const moe__mixed_schedule_t EXPERTS_OF_NUMBERS[] = {MANY_ROWS(16, 128, 8),
                                                           MANY_ROWS(8, 256, 4)};

/* Longer stages, with a table of no more than so many groups beside them. */
#define GROUPS_16 512
static const moe__mixed_schedule_t EXPERTS_16[] = {MANY_ROWS(16, 256, 5), MANY_ROWS(16, 128, 8)};

/* Of more. */
static moe__candidates_t expert_candidates(MlirOperation op, int64_t tokens, int64_t experts) {
  if (tokens <= 12 && experts <= GROUPS_16 && is_usual_of_experts(op))
    return MOE__CANDIDATES(EXPERTS_16);
  if (tokens <= 12)
    return class_of_numbers(number_bytes(op)) == NUMBERS_CLASSES
               ? MOE__CANDIDATES(EXPERTS_OF_NUMBERS)
               : MOE__CANDIDATES(TOKENS_16[2]);
  if (wants_scaled_weights(op))
    return scaled_candidates(tokens);
  if (tokens <= 24)
    return MOE__CANDIDATES(NUMBERS_32[2]);
  if (tokens <= 36)
    return MOE__CANDIDATES(EXPERTS_48);
  if (tokens <= 48)
    return MOE__CANDIDATES(EXPERTS_56);
  if (tokens <= 72)
    return MOE__CANDIDATES(EXPERTS_80);
  return tokens <= 112 ? MOE__CANDIDATES(EXPERTS_96) : MOE__CANDIDATES(EXPERTS_MANY);
}

/* Rows of weights, over which tiles of a few tokens are spread. */
static int class_of_rows(int64_t rows) {
  return rows < 0 ? 1 : rows <= FEW ? 0 : rows <= 16384 ? 1 : 2;
}

/* Whether four warpgroups have registers for tiles of 32 tokens: in groups of 64 with usual types;
 * in others of `i4` and bf16 where columns are many and tokens a multiple of 8. */
static bool has_registers_of_four(MlirOperation op, int64_t tokens) {
  int group = moe__mixed_group(op);
  if (group == 64)
    return is_usual(op);
  int64_t columns = moe__static_dimension(moe__tensor_type(op, MOE__X), 1);
  return (columns < 0 || columns > 2048) && tokens % 8 == 0 && (group == 32 || group == 128) &&
         has_bf16(op) && mlirTypeIsABF16(moe__element_type(op, MOE__SCALES)) &&
         moe__mixed_format(op) == MOE__WEIGHT_I4 && mlirValueIsNull(moe__operand(op, MOE__ZEROS));
}

/* Whether tiles of 256 rows leave multiprocessors idle that those of two CTAs with rows in common
 * do not: a round of the latter takes 7/8 of the time. The second CTA begins in the middle of at
 * least two k-tiles of 128 columns. */
static bool wants_common_rows(MlirOperation op, int64_t rows) {
  int64_t columns = moe__static_dimension(moe__tensor_type(op, MOE__X), 1);
  return rows > 16384 && rows <= 448 * (MULTIPROCESSORS / 2) && columns >= 256 &&
         mlirValueIsNull(moe__operand(op, MOE__BIAS));
}

/* FP8 weights with experts: tiles that have room for the tokens of most of them, since those of the
 * next tile would be turned into numbers again. */
static const moe__mixed_schedule_t FP8_8[] = {SCALED_ROWS(8, 4, 128, 6),
                                              SCALED_ROWS(16, 4, 128, 5)};
/* Scales by rows take more of a stage. */
static const moe__mixed_schedule_t FP8_8_ROWS[] = {SCALED_ROWS(8, 4, 128, 5),
                                                   SCALED_ROWS(16, 4, 128, 4)};
static const moe__mixed_schedule_t FP8_16_ROWS[] = {SCALED_ROWS(16, 4, 128, 4),
                                                    SCALED_ROWS(32, 4, 128, 4)};
static const moe__mixed_schedule_t FP8_32_ROWS[] = {SCALED_ROWS(32, 4, 128, 4),
                                                    SCALED_ROWS(64, 4, 128, 4)};
static const moe__mixed_schedule_t FP8_16[] = {SCALED_ROWS(16, 4, 128, 5),
                                               SCALED_ROWS(32, 4, 128, 5)};
static const moe__mixed_schedule_t FP8_32[] = {SCALED_ROWS(32, 4, 128, 5),
                                               SCALED_ROWS(64, 4, 128, 4)};
/* Tiles of half as many tokens where these suffice. */
#define HALVES(n, w, stage_count)                                                                  \
  {                                                                                                \
    .tile_n = (n), .warpgroups = (w), .behind = 1, .widths = 2, .scaled_weights = 1,               \
    .long_sums = 1, .stages = (stage_count)                                                        \
  }
static const moe__mixed_schedule_t FP8_64[] = {HALVES(64, 4, 4), SCALED_ROWS(64, 4, 128, 4)};
static const moe__mixed_schedule_t FP8_128[] = {HALVES(128, 4, 3), SCALED_ROWS(112, 3, 128, 4)};
static const moe__mixed_schedule_t FP8_64_ROWS[] = {SCALED_ROWS(64, 4, 128, 4),
                                                    SCALED_ROWS(112, 3, 128, 3)};
/* More: results go through shared memory. */
#define FP8_TILES(n, w, count)                                                                     \
  {                                                                                                \
    .tile_n = (n), .scaled_weights = 1, .long_sums = 1, .warpgroups = (w), .stages = 3,            \
    .share = (count), .staged = 1                                                                  \
  }
static const moe__mixed_schedule_t FP8_SOME[] = {FP8_TILES(128, 3, 1), FP8_TILES(208, 2, 2)};
static const moe__mixed_schedule_t FP8_MANY[] = {FP8_TILES(208, 2, 2), FP8_TILES(128, 3, 1)};
/* Of rows that are an odd number of tiles, and few. */
static const moe__mixed_schedule_t FP8_ALONE[] = {FP8_TILES(208, 2, 1), FP8_TILES(128, 3, 1)};
/* Without, up to 64 tokens, whose columns CTAs divide where there are not many rows. */
#define FP8_DIVIDED(n, d, stage_count)                                                             \
  {                                                                                                \
    {FP8_SPLIT(n, d, 4, stage_count), FP8_SPLIT(n, d, 2, stage_count)},                            \
        {FP8_SPLIT(n, d, 2, stage_count), FP8_SPLIT(n, d, 4, stage_count)}, {                      \
      SCALED_ROWS(n, 4, 128, (n) < 64 ? 5 : 4), FP8_SPLIT(n, d, 2, stage_count)                    \
    }                                                                                              \
  }
static const moe__mixed_schedule_t FP8_FEW[][3][2] = {
    FP8_DIVIDED(8, 256, 5), FP8_DIVIDED(16, 256, 4), FP8_DIVIDED(32, 128, 8),
    FP8_DIVIDED(64, 128, 5)};
/* Results of 32 bits would show what the tensor core cuts off long sums. */
static const moe__mixed_schedule_t FP8_F32[][1] = {
    {SCALED(16, 128, 1, 8)}, {SCALED(64, 128, 1, 6)}, {SCALED(128, 128, 1, 4)}};

/* By the tokens that each expert has on average, or all; is_static: whether they are known. */
static moe__candidates_t fp8_candidates(MlirOperation op, int64_t tokens, int64_t rows,
                                        bool experts, bool is_static) {
  if (mlirTypeIsAF32(moe__element_type(op, MOE__OUT)))
    return MOE__CANDIDATES(FP8_F32[tokens <= 16 ? 0 : tokens <= 64 ? 1 : 2]);
  if (!experts && tokens > 64)
    return wide_candidates(op, rows < 0 ? 8192 : rows, tokens);
  int class = tokens <= 8 ? 0 : tokens <= 16 ? 1 : tokens <= 32 ? 2 : 3;
  if (!experts && class == 3 && wants_common_rows(op, rows))
    return MOE__CANDIDATES(FP8_COMMON);
  if (!experts)
    return MOE__CANDIDATES(FP8_FEW[class][class_of_rows(rows)]);
  bool by_rows = moe__mixed_has_scales_of_rows(op);
  if (tokens <= 4)
    return by_rows ? MOE__CANDIDATES(FP8_8_ROWS) : MOE__CANDIDATES(FP8_8);
  if (tokens <= 10)
    return by_rows ? MOE__CANDIDATES(FP8_16_ROWS) : MOE__CANDIDATES(FP8_16);
  if (tokens <= 20)
    return by_rows ? MOE__CANDIDATES(FP8_32_ROWS) : MOE__CANDIDATES(FP8_32);
  if (!by_rows && is_static && tokens <= 256)
    return tokens <= 36 ? MOE__CANDIDATES(FP8_64) : MOE__CANDIDATES(FP8_128);
  if (tokens <= 64)
    return MOE__CANDIDATES(FP8_64_ROWS);
  if (tokens <= 384)
    return MOE__CANDIDATES(FP8_SOME);
  int64_t row_tiles = (rows + 127) / 128;
  if (rows >= 0 && row_tiles % 2 && row_tiles < 16)
    return MOE__CANDIDATES(FP8_ALONE);
  return MOE__CANDIDATES(FP8_MANY);
}

moe__candidates_t moe__mixed_candidates(MlirOperation op) {
  MlirType scales = moe__tensor_type(op, MOE__SCALES);
  int rank = (int)mlirShapedTypeGetRank(scales);
  int64_t tokens = moe__static_dimension(moe__tensor_type(op, MOE__X), 0);
  int64_t rows = moe__static_dimension(scales, rank - 2);
  int64_t experts = rank == 3 ? moe__static_dimension(scales, 0) : 1;
  bool is_static = tokens >= 0 && experts >= 0;
  if (moe__has_fp8_weights(op))
    return fp8_candidates(op, is_static ? tokens / experts : 64, rows, rank == 3, is_static);
  if (tokens < 0 || experts < 0)
    return MOE__CANDIDATES(TOKENS_64[2]);
  if (rank == 3 && tokens / experts <= 6)
    return few_of_expert_candidates(op, rows, tokens, experts);
  if (rank == 3)
    return expert_candidates(op, tokens / experts, experts);
  int class = class_of_rows(rows), numbers = class_of_numbers(number_bytes(op));
  if (tokens <= 16 && rows >= 0 && numbers < NUMBERS_CLASSES)
    return panel_candidates(op, rows, tokens, numbers);
  if (tokens > 16 && tokens <= 64 && class < 2 && rows >= 0 && wants_scaled_weights(op))
    return MOE__CANDIDATES(SCALED_DIVIDED[class][tokens <= 32 ? 0 : tokens <= 48 ? 1 : 2]);
  if (tokens > 16 && tokens <= 64 && class == 2 && wants_scaled_weights(op))
    return wants_common_rows(op, rows) ? MOE__CANDIDATES(SCALED_COMMON[tokens > 32])
                                       : MOE__CANDIDATES(SCALED_ROWS_64[tokens > 32]);
  if (tokens > 32 && tokens <= 48 && wants_common_rows(op, rows) && is_usual(op) &&
      mlirValueIsNull(moe__operand(op, MOE__ZEROS)) && moe__mixed_group(op) == 64)
    return MOE__CANDIDATES(COMMON_48[tokens > 40]);
  if (tokens <= 8)
    return MOE__CANDIDATES(TOKENS_8[class]);
  if (tokens <= 16)
    return MOE__CANDIDATES(TOKENS_16[class]);
  bool may_spread = class == 2 && is_usual(op) && moe__mixed_group(op) == 64;
  if (tokens <= 32 && may_spread && leaves_some_idle(tiles_of_rows(rows, 4)))
    return MOE__CANDIDATES(SPREAD_32);
  if (tokens <= 32 && class == 2 && numbers < NUMBERS_CLASSES && !has_registers_of_four(op, tokens))
    return MOE__CANDIDATES(TWO_32);
  if (tokens <= 32)
    return numbers < NUMBERS_CLASSES ? MOE__CANDIDATES(TOKENS_32[class])
                                     : MOE__CANDIDATES(NUMBERS_32[class]);
  if (tokens <= 64 && may_spread && leaves_some_idle(tiles_of_rows(rows, 2)))
    return MOE__CANDIDATES(SPREAD_64);
  if (tokens <= 64)
    return class == 1 && rows >= 0 && is_usual(op) && moe__mixed_group(op) == 64
               ? MOE__CANDIDATES(SOME_ROWS_64)
               : MOE__CANDIDATES(TOKENS_64[class]);
  return wide_candidates(op, rows < 0 ? 8192 : rows, tokens);
}

/* ---- The layout ---- */

#define MOST_WARPS 31 /* of a CTA's 32, of which one loads */

static bool check(MlirOperation op, const moe__mixed_schedule_t *s) {
  if (s->tile_n % 8)
    return moe__error(op, "'schedule.tile_n' is %d; it must be a multiple of 8", s->tile_n);
  int depths = s->behind && !moe__has_fp8_weights(op) ? MOE_WEIGHT_COLUMNS : 128;
  if (s->depth % depths)
    return moe__error(op, "'schedule.depth' is %d; it must be a multiple of %d", s->depth, depths);
  if (s->tile_n % (8 * s->token_parts))
    return moe__error(op, "'schedule.token_parts' is %d; each must be a multiple of 8 of %d tokens",
                      s->token_parts, s->tile_n);
  if (s->token_parts > 1 && s->in_flight > 1)
    return moe__error(op, "'schedule.token_parts' is %d; it must be 1 with in_flight",
                      s->token_parts);
  if (s->behind &&
      (s->panels || s->in_flight > 1 || s->token_parts > 1 || s->scaled_weights != s->long_sums ||
       (s->scaled_weights && !takes_scaled_weights(op))))
    return moe__error(op, "'schedule.behind' is 1; it must be 0 with panels, in_flight, "
                          "token_parts, sums of a stage and sums in units");
  if (s->widths > 1 && (!moe__has_fp8_weights(op) || !s->long_sums || s->token_parts > 1 ||
                        s->split > 1 || s->share > 1 || s->common))
    return moe__error(op,
                      "'schedule.widths' is %d; it must be 1 but for f8E4M3FN weights with "
                      "long_sums, and with token_parts, split, share and common",
                      s->widths);
  if (s->tile_n % (8 << (s->widths - 1)))
    return moe__error(
        op, "'schedule.widths' is %d; the narrowest tile must be a multiple of 8 of %d tokens",
        s->widths, s->tile_n);
  if (s->common && (s->panels || s->warpgroups == 1 || s->split > 1 || s->share > 1 ||
                    !mlirValueIsNull(moe__operand(op, MOE__OFFS)) ||
                    !mlirValueIsNull(moe__operand(op, MOE__ZEROS))))
    return moe__error(op, "'schedule.common' is 1; it must be 0 but with several warpgroups, and "
                          "with split, share, panels, experts and zero points");
  if (s->unroll > 1 && s->token_parts == 1)
    return moe__error(op, "'schedule.unroll' is %d; it must be 1 without token_parts", s->unroll);
  if (s->scaled_weights && !takes_scaled_weights(op) && !(s->long_sums && takes_units(op)))
    return moe__error(op, "'schedule.scaled_weights' is 1; it must be 0 but for bf16 tokens, and "
                          "f4E2M1FN and f8E4M3FN weights with scales of f8E8M0FNU, or with "
                          "long_sums integers with scales of 16 bits");
  if (moe__has_fp8_weights(op) && (!s->scaled_weights || s->panels))
    return moe__error(op, "'schedule' must have scaled_weights and no panels with weights of "
                          "f8E4M3FN");
  if (moe__mixed_has_scales_of_rows(op) && s->common)
    return moe__error(op, "'schedule.common' is 1; it must be 0 with scales that lie by rows");
  if (moe__mixed_has_scales_of_rows(op) && s->depth > MOE__MIXED_ROW_SCALES * MOE_MX_BLOCK)
    return moe__error(op,
                      "'schedule.depth' is %d; with scales that lie by rows it must be at most %d",
                      s->depth, MOE__MIXED_ROW_SCALES * MOE_MX_BLOCK);
  if (s->scaled_weights && ((s->token_parts > 1 && !s->long_sums) || s->in_flight > 1))
    return moe__error(op, "'schedule.scaled_weights' is 1; in_flight must be 1 then, and "
                          "token_parts too without long_sums");
  if (s->long_sums && !s->scaled_weights)
    return moe__error(op, "'schedule.long_sums' is 1; it must be 0 without scaled_weights");
  int scales = moe__mixed_scales_of_stage(moe__mixed_group(op), s->depth);
  if (s->long_sums && scales > 1 && scales % 2)
    return moe__error(op, "'schedule.depth' is %d; with long_sums it must be a multiple of 256",
                      s->depth);
  if (s->share > 1 && s->split > 1)
    return moe__error(op, "'schedule.share' is %d; it must be 1 with split", s->share);
  if (s->tile_n % (8 * s->share))
    return moe__error(op, "'schedule.share' is %d; each must load a multiple of 8 of %d tokens",
                      s->share, s->tile_n);
  if (s->staged && (s->split > 1 || s->slices > 1 || s->common))
    return moe__error(op, "'schedule.staged' is 1; it must be 0 with split, slices and common");
  if (s->staged && mlirTypeIsAF32(moe__element_type(op, MOE__OUT)))
    return moe__error(op, "'schedule.staged' is 1; it must be 0 where results are f32");
  if (s->spread && (s->split > 1 || s->share > 1 || s->common || s->widths > 1 || s->slices > 1 ||
                    s->direct || s->staged))
    return moe__error(op, "'schedule.spread' is 1; it must be 0 with split, share, common, widths, "
                          "slices, direct and staged");
  int sums = moe__mixed_warps(s) * MOE__WARP * s->tile_n / 2;
  if (s->spread && (sums * s->ctas_per_sm > MOE__PARTIAL_SUMS ||
                    moe__mixed_warps(s) * s->ctas_per_sm > MOE__ARRIVALS))
    return moe__error(op,
                      "'schedule.spread' is 1; the %d sums of a CTA's %d warps are handed on, of "
                      "a multiprocessor no more than %d of %d",
                      sums, moe__mixed_warps(s), MOE__PARTIAL_SUMS, MOE__ARRIVALS);
  int chunks = s->depth / MOE_WEIGHT_COLUMNS;
  if (s->direct && !s->panels)
    return moe__error(op, "'schedule.direct' is %d; it must be 0 without panels", s->direct);
  if (s->direct && chunks / s->slices > MOE__MIXED_MOST_AHEAD)
    return moe__error(
        op,
        "'schedule.direct' is %d; a warp has %d chunks of a stage and loads no more than %d ahead",
        s->direct, chunks / s->slices, MOE__MIXED_MOST_AHEAD);
  if (s->slices > 1 && !s->panels)
    return moe__error(op, "'schedule.slices' is %d; it must be 1 without panels", s->slices);
  if (moe__mixed_warps(s) > MOST_WARPS)
    return moe__error(op, "'schedule.slices' is %d; %d warps multiply, and %d can", s->slices,
                      moe__mixed_warps(s), MOST_WARPS);
  if (chunks % s->slices)
    return moe__error(
        op, "'schedule.slices' is %d; it must divide the %d chunks of %d columns of a stage",
        s->slices, chunks, MOE_WEIGHT_COLUMNS);
  return moe__mixed_panels(s) % s->split == 0 ||
         moe__error(op, "'schedule.split' is %d; it must divide the %d panels of rows", s->split,
                    moe__mixed_panels(s));
}

/* The warps of an SM are divided among its quarters, each with registers of its own. */
#define QUARTERS 4
#define QUARTER_REGISTERS 16384
/* Registers of a thread that loads, where setmaxnreg gives others to those that multiply. */
#define LOADER_REGISTERS 48
#define FEW_LOADER_REGISTERS 32    /* where a piece becomes numbers behind the one before */
#define FEWEST_LOADER_REGISTERS 24 /* where those that multiply need all others */
#define WIDE_TILE 48
#define WIDE_MARGIN 40
#define BOX_ALIGNMENT 128 /* of what the TMA writes */

/* Those that each thread has, where a CTA has so many warps. */
static int registers_of(const moe__mixed_schedule_t *s, int warps) {
  int of_quarter = (warps * s->ctas_per_sm + QUARTERS - 1) / QUARTERS;
  int each = QUARTER_REGISTERS / (MOE__WARP * of_quarter) / 8 * 8;
  return each < MOE__MIXED_MOST_REGISTERS ? each : MOE__MIXED_MOST_REGISTERS;
}

/* Decides how many warps load, and how registers are divided. */
static bool divide_registers(MlirOperation op, const moe__mixed_schedule_t *s,
                             moe__mixed_layout_t *l) {
  int warps = moe__mixed_warps(s);
  int needed = s->panels ? moe__mixed_panel_registers(s) : moe__mixed_registers(s);
  l->registers = registers_of(s, warps + 1);
  /* Wide tiles have more to keep: they get more than they need where there is more. */
  l->divides = !s->panels && l->registers < needed + (s->tile_n >= WIDE_TILE ? WIDE_MARGIN : 0) &&
               l->registers < MOE__MIXED_MOST_REGISTERS;
  l->cta.threads = (warps + (l->divides ? MOE__MIXED_WARPS : 1)) * MOE__WARP;
  if (l->divides) {
    int each = registers_of(s, warps + MOE__MIXED_WARPS);
    int all = each * (s->warpgroups + 1);
    l->loader_registers = LOADER_REGISTERS;
    if ((all - LOADER_REGISTERS) / s->warpgroups / 8 * 8 < needed)
      l->loader_registers = s->behind ? FEW_LOADER_REGISTERS : FEWEST_LOADER_REGISTERS;
    int left = (all - l->loader_registers) / s->warpgroups / 8 * 8;
    l->registers = left < MOE__MIXED_MOST_REGISTERS ? left : MOE__MIXED_MOST_REGISTERS;
  }
  return l->registers >= needed ||
         moe__error(op,
                    "'schedule' leaves %d registers to each thread that multiplies; the kernel "
                    "needs %d",
                    l->registers, needed);
}

bool moe__mixed_lay_out(MlirOperation op, const void *schedule, void *out) {
  const moe__mixed_schedule_t *s = schedule;
  moe__mixed_layout_t *l = out;
  if (!check(op, s))
    return false;
  l->cta.ctas_per_sm = s->ctas_per_sm;
  if (!divide_registers(op, s, l))
    return false;
  int chunks = s->depth / MOE_WEIGHT_COLUMNS, rows = moe__mixed_rows(s);
  l->weights = chunks * s->tile_n * MOE__MIXED_CHUNK_BYTES;
  int of_chunk = moe__has_fp8_weights(op) ? 2 * MOE_WEIGHT_BYTES : MOE_WEIGHT_BYTES;
  l->scales = l->weights + (s->direct ? 0 : moe__mixed_panels(s) * chunks * of_chunk);
  int numbers = moe__mixed_scales_of_stage(moe__mixed_group(op), s->depth) * rows;
  int zeros = mlirValueIsNull(moe__operand(op, MOE__ZEROS)) ? 0 : numbers;
  l->scales_of_rows = moe__mixed_has_scales_of_rows(op);
  l->landing =
      l->scales + (l->scales_of_rows
                       ? rows * MOE__MIXED_ROW_SCALES
                       : numbers * moe__mixed_scale_bytes(moe__element_type(op, MOE__SCALES)));
  l->zeros = (l->landing + BOX_ALIGNMENT - 1) / BOX_ALIGNMENT * BOX_ALIGNMENT;
  l->ring = moe__ring_reserve(&l->cta, s->stages, l->zeros + zeros);
  l->landing += zeros;
  moe__mixed_store_reserve(l, s);
  l->groups = moe__groups_reserve(&l->cta, moe__max_groups(op), MOE__GROUPS_IN_TURN);
  return true;
}
