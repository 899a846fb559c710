/* Candidates.c - which schedules a product of four-bit or FP8 weights has: the default, and others
 * worth measuring. Why the numbers are what they are: docs/performance/mixed_product.md and its
 * pages, of which the tables name the headings.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/mixed_mm/CandidateRows.h"

#include "lib/Builder/Inspect.h"
#include "lib/Dialect/Dialect.h"
#include "lib/Dialect/Shapes.h"
#include "lib/Kernels/Requirements.h"
#include "lib/Kernels/mixed_mm/F16.h"
#include "lib/Kernels/mixed_mm/MixedMm.h"

#include "mlir-c/BuiltinTypes.h"

#include <math.h>

/* ---- Rows of weights ---- */

moe__candidates_t moe__mixed_row_candidates(const moe__mixed_row_t *row, int64_t tokens,
                                            unsigned is) {
  while (tokens > row->tokens || (row->asks & is) != row->asks)
    row++;
  int count = 0;
  while (count < MOST_CANDIDATES && row->schedules[count].tile_n)
    count++;
  return (moe__candidates_t){row->schedules, count};
}

/* mixed_sizes.md, "Clusters that run at once": a cluster is of multiprocessors that belong
 * together, of which an H100 or H200 has eight groups of different sizes. */
int64_t moe__mixed_clusters_at_once(int ctas) {
  return ctas == 1   ? MOE__MULTIPROCESSORS
         : ctas == 2 ? MOE__MULTIPROCESSORS / 2
         : ctas == 4 ? 30
                     : 15;
}

int64_t moe__mixed_quotient_up(int64_t x, int64_t y) {
  return (x + y - 1) / y;
}

int64_t moe__mixed_tiles_of_rows(int64_t rows, int warpgroups) {
  return moe__mixed_quotient_up(rows, (int64_t)warpgroups * MOE__WGMMA_M);
}

bool moe__mixed_leaves_some_idle(int64_t tiles) {
  int64_t rounds = moe__mixed_quotient_up(tiles, MOE__MULTIPROCESSORS);
  return 10 * tiles < 9 * rounds * MOE__MULTIPROCESSORS;
}

/* A round of two CTAs with rows in common takes 7/8 of the time of one of tiles of 256 rows. The
 * second CTA begins in the middle of at least two k-tiles of 128 columns. Scales that lie by rows
 * it cannot have. */
static bool wants_common_rows(const moe__mixed_product_t *p) {
  return moe__mixed_tiles_of_rows(p->rows, 2) > MOE__MULTIPROCESSORS &&
         p->rows <= 448 * (MOE__MULTIPROCESSORS / 2) && p->columns >= 256 && !p->has_bias &&
         !p->has_scales_of_rows;
}

/* So that each CTA has some columns. */
#define COLUMNS_OF_CTA 256

bool moe__mixed_may_split(double tiles, int64_t columns, int ctas) {
  return tiles <= (double)moe__mixed_clusters_at_once(ctas) &&
         (columns < 0 || columns >= (int64_t)ctas * COLUMNS_OF_CTA);
}

unsigned moe__mixed_class_of_rows(const moe__mixed_product_t *p) {
  if (p->rows < 0)
    return TWO;
  int64_t tiles = moe__mixed_tiles_of_rows(p->rows, 2);
  unsigned class = MANY;
  if (tiles <= MOE__MULTIPROCESSORS)
    class = ONE;
  for (int ctas = 2; ctas <= 8; ctas *= 2)
    if (moe__mixed_may_split((double)tiles, p->columns, ctas))
      class = ctas == 2 ? TWO : ctas == 4 ? FOUR : EIGHT;
  return class | KNOWN | moe__mixed_bit_if(wants_common_rows(p), COMMON);
}

/* ---- Four bits, up to 64 tokens without experts ----
 *
 * All is reading the weights. Tiles are as narrow as the tokens, and CTAs divide their columns
 * until there are about as many as multiprocessors. */

enum {
  USUAL_64 = 1 << 7,
  I4_64 = 1 << 8,         /* that without zero points */
  SCALED = 1 << 9,        /* wants scaled weights */
  IDLE_256 = 1 << 10,     /* tiles of 256 rows leave some multiprocessors idle */
  IDLE_128 = 1 << 11,     /* the same of 128 rows */
  TIGHT = 1 << 12,        /* ptxas has no registers for tiles of 32 tokens by four warpgroups */
  MANY_NUMBERS = 1 << 13, /* scales and zero points leave no room for long stages */
  BIASED = 1 << 14        /* and scales of 32: both take registers, so stages have fewer columns */
};

/* Sums of a tile and those in flight are most of a thread's registers. */
#define IN_FLIGHT(s, ctas)                                                                         \
  { DIVIDED(64, 128, s, ctas), .in_flight = 2 }
#define COMMON_ROWS(n)                                                                             \
  { MOE__TILE(n, 4, 64, 9), .behind = 1, .common = 1 }

#define TOKENS_8(ctas) SPLIT(8, 256, 8, ctas)
#define TOKENS_16(ctas) SPLIT(16, 256, 7, ctas)
#define TOKENS_24(ctas) SPLIT(24, 128, 10, ctas)
#define TOKENS_32(ctas) SPLIT(32, 128, 10, ctas)
#define TOKENS_32_LONG(ctas) SPLIT(32, 256, 5, ctas)
#define TOKENS_48(ctas)                                                                            \
  { DIVIDED(48, 128, 8, ctas), .in_flight = 2 }
#define TOKENS_64(ctas) IN_FLIGHT(6, ctas)
#define TOKENS_64_LONG(ctas)                                                                       \
  { DIVIDED(64, 256, 3, ctas), .in_flight = 2 }
#define SCALED_24(ctas) LONG_SPLIT(24, 128, 6, ctas)
#define SCALED_32(ctas) LONG_SPLIT(32, 128, 6, ctas)
#define SCALED_48(ctas) LONG_SPLIT(48, 128, 6, ctas)
#define SCALED_64(ctas) LONG_SPLIT(64, 128, 6, ctas)

/* By how many CTAs columns are divided: mixed_sizes.md, "Clusters that run at once". */
static const moe__mixed_row_t DENSE[] = {
    /* mixed_few_tokens.md, "Up to 16 tokens, in panels", is before these: CandidatesPanels.c */
    /* mixed_steps.md, "Schedules of warpgroups, timed earlier" */
    {8, MANY, {TILE(8, 4, 256, 4), SPLIT(8, 256, 8, 2), SPLIT(8, 256, 8, 4)}},
    BY_SPLIT(8, ANY, TOKENS_8),
    {16, MANY, {TILE(16, 4, 128, 9), SPLIT(16, 256, 7, 2), SPLIT(16, 256, 7, 4)}},
    BY_SPLIT(16, ANY, TOKENS_16),
    BY_SPLIT(24, SCALED | KNOWN, SCALED_24),
    BY_SPLIT(32, SCALED | KNOWN, SCALED_32),
    /* mixed_few_tokens.md, "28672 rows, 33 to 64 tokens" */
    {32, SCALED | COMMON, {LONG_BEHIND(32, 6, 1), LONG_BEHIND(32, 6, 0)}},
    {32, SCALED | MANY, {LONG_BEHIND(32, 6, 0), IN_FLIGHT(8, 1)}},
    /* mixed_many_tokens.md, "The last tiles, divided" */
    {32,
     MANY | USUAL_64 | IDLE_256,
     {{MOE__TILE(32, 4, 256, 4), .spread = 1}, TILE(32, 4, 256, 4)}},
    /* not timed */
    {32, MANY_NUMBERS | MANY, {TILE(32, 4, 128, 7), SPLIT(32, 128, 10, 2), SPLIT(32, 128, 10, 4)}},
    /* 1.03 to 1.09 times as fast as the next row with 24 tokens of 20480 and 28672 rows */
    {32, MANY | TIGHT | BIASED, {TILE(32, 4, 128, 7), SPLIT(32, 128, 10, 4)}},
    {32, MANY | TIGHT, {TILE(32, 2, 256, 5), SPLIT(32, 128, 10, 4)}},
    {32, MANY, {TILE(32, 4, 256, 4), SPLIT(32, 256, 5, 2), SPLIT(32, 128, 10, 4)}},
    BY_SPLIT(24, ANY, TOKENS_24),
    BY_SPLIT(32, MANY_NUMBERS, TOKENS_32),
    {32, EIGHT, {TOKENS_32(8), TOKENS_32(4)}},
    {32, FOUR, {TOKENS_32(4), TOKENS_32_LONG(2)}},
    {32, TWO | TIGHT | BIASED, {TOKENS_32(2), TOKENS_32(4)}},
    {32, ONE | TIGHT | BIASED, {TOKENS_32(1), TOKENS_32(2)}},
    {32, TWO, {TOKENS_32_LONG(2), TOKENS_32(4)}},
    {32, ONE, {TOKENS_32_LONG(1), TOKENS_32(2)}},
    BY_SPLIT(48, SCALED | KNOWN, SCALED_48),
    BY_SPLIT(64, SCALED | KNOWN, SCALED_64),
    /* mixed_few_tokens.md, "28672 rows, 33 to 64 tokens" */
    {64, SCALED | COMMON, {LONG_BEHIND(64, 6, 1), LONG_BEHIND(64, 6, 0)}},
    {64, SCALED | MANY, {LONG_BEHIND(64, 6, 0), IN_FLIGHT(8, 1)}},
    {40, I4_64 | COMMON, {COMMON_ROWS(40), IN_FLIGHT(8, 1)}},
    {48, I4_64 | COMMON, {COMMON_ROWS(48), IN_FLIGHT(8, 1)}},
    /* mixed_many_tokens.md, "The last tiles, divided" */
    {64,
     MANY | USUAL_64 | IDLE_128,
     {{MOE__TILE(64, 2, 256, 3), .in_flight = 2, .spread = 1, .staged = 1}, IN_FLIGHT(8, 1)}},
    {64, MANY, {IN_FLIGHT(8, 1), IN_FLIGHT(6, 2), TILE(32, 2, 128, 10)}},
    BY_SPLIT(48, KNOWN, TOKENS_48),
    /* mixed_few_tokens.md, "Later candidates": 64 tokens; groups of 32 have not the registers */
    {64, TWO | KNOWN | USUAL_64, {TOKENS_64_LONG(2), TOKENS_64(2)}},
    {64, ONE | KNOWN | USUAL_64, {TOKENS_64_LONG(1), TOKENS_64(1)}},
    BY_SPLIT(64, ANY, TOKENS_64),
};

/* Four warpgroups have registers for tiles of 32 tokens in groups of 64 with usual types; in others
 * of i4 and bf16 where columns are many and tokens a multiple of 8. */
static bool is_tight(const moe__mixed_product_t *p) {
  if (p->group == 64)
    return !p->is_usual_64;
  bool many_columns = p->columns < 0 || p->columns > 2048;
  return !(p->is_bf16_i4 && p->group && many_columns && p->tokens % 8 == 0);
}

static moe__candidates_t dense_candidates(const moe__mixed_product_t *p) {
  bool many = moe__mixed_tiles_of_rows(p->rows, 2) > MOE__MULTIPROCESSORS;
  return moe__mixed_row_candidates(
      DENSE, p->tokens,
      moe__mixed_class_of_rows(p) | moe__mixed_bit_if(p->is_usual_64, USUAL_64) |
          moe__mixed_bit_if(p->is_bf16_i4 && p->group == 64, I4_64) |
          moe__mixed_bit_if(p->wants_scaled_weights && !p->has_row_powers, SCALED) |
          moe__mixed_bit_if(
              many && moe__mixed_leaves_some_idle(moe__mixed_tiles_of_rows(p->rows, 4)), IDLE_256) |
          moe__mixed_bit_if(
              many && moe__mixed_leaves_some_idle(moe__mixed_tiles_of_rows(p->rows, 2)), IDLE_128) |
          moe__mixed_bit_if(is_tight(p), TIGHT) |
          moe__mixed_bit_if(p->has_bias && p->group == 32, BIASED) |
          moe__mixed_bit_if(p->numbers == MOE__NUMBERS_CLASSES, MANY_NUMBERS));
}

/* ---- Four bits, with experts ----
 *
 * By the tokens that each has on average: a tile has room for most of what they have, up to tiles
 * of which an expert fills several. */

enum {
  E2M1 = 1 << 0,       /* which are more work to turn into numbers */
  SAME_TYPES = 1 << 1, /* integers in groups, or MXFP4; tokens and results of one type */
  USUAL_MXFP4 = 1 << 2,
  SCALED_E2M1 = 1 << 3, /* wants scaled weights */
  NUMBERS_5 = 1 << 4,   /* five bytes of scales and zero points for 64 columns, or more */
  NUMBERS_7 = 1 << 5,   /* seven or more: room for fewer stages beside a table of many groups */
  INTEGERS = 1 << 6,    /* with bf16 for all else */
  /* Rounds of tiles of 128 rows, of which a multiprocessor has two at once. */
  HALF_A_ROUND = 1 << 7,    /* up to 0.5 */
  MOST_OF_A_ROUND = 1 << 8, /* up to 0.75 */
  ONE_ROUND = 1 << 9,       /* up to 1 */
  FEW_ROUNDS = 1 << 10,     /* up to 4 */
  TWO_ROUNDS = 1 << 11,     /* more than 1.5, up to 2 */
  MANY_ROUNDS = 1 << 12,    /* more than 16, or not known */
  ROW_POWERS = 1 << 13,     /* integers that want scaled weights */
  /* With f16 tokens without scales of their own, and groups of 128 or few columns, ptxas has no
   * registers for four warpgroups whose weights become numbers in the registers of those before. */
  TIGHT_POWERS = 1 << 14
};

#define TIGHT_COLUMNS 384

#define FEW_EACH 6 /* tokens of each expert, on average */

/* Tiles of p panels, s stages of d columns; a multiprocessor has so many CTAs. Short ones have
 * stages of 128 columns. */
#define FEW_PANELS(p, d, s, ctas)                                                                  \
  .tile_n = 8, .panels = (p), .depth = (d), .stages = (s), .ctas_per_sm = (ctas)
#define FOUR_PANELS FEW_PANELS(4, 256, 3, 3)
#define FOUR_PANELS_SHORT FEW_PANELS(4, 128, 4, 4)
#define EIGHT_PANELS FEW_PANELS(8, 256, 4, 2)
#define EIGHT_PANELS_SHORT FEW_PANELS(8, 128, 4, 2)
#define LARGE_PANELS(s) FEW_PANELS(16, 256, s, 1)
/* Of few tokens: what the product must be, and then whether weights take fewer shifts. */
/* clang-format off */
#define INTEGER_ROWS(asks, ...)                                                                    \
  {FEW_EACH, (asks) | HALF_A_ROUND, {{FOUR_PANELS, __VA_ARGS__}, {EIGHT_PANELS, __VA_ARGS__}}},    \
  {FEW_EACH, (asks) | MOST_OF_A_ROUND,                                                             \
   {{FOUR_PANELS_SHORT, __VA_ARGS__}, {FOUR_PANELS, __VA_ARGS__}}},                                \
  {FEW_EACH, (asks) | ONE_ROUND,                                                                   \
   {{EIGHT_PANELS_SHORT, __VA_ARGS__}, {FOUR_PANELS_SHORT, __VA_ARGS__}}},                         \
  {FEW_EACH, (asks) | TWO_ROUNDS, {{FOUR_PANELS_SHORT, __VA_ARGS__}, {FOUR_PANELS, __VA_ARGS__}}}, \
  {FEW_EACH, (asks) | MANY_ROUNDS,                                                                 \
   {{LARGE_PANELS(3), .spread = 1, __VA_ARGS__}, {FOUR_PANELS, __VA_ARGS__}}},                     \
  {FEW_EACH, (asks), {{FOUR_PANELS, __VA_ARGS__}, {FOUR_PANELS_SHORT, __VA_ARGS__}}}
/* clang-format on */
#define BY_THREE_WARPGROUPS                                                                        \
  { MOE__TILE(128, 3, 128, 3), MOE__LONG_SUMS, .staged = 1, .widths = 4 }
#define PARTS(n, s)                                                                                \
  { MOE__TILE(n, 2, 256, s), .token_parts = 2 }

static const moe__mixed_row_t EXPERTS[] = {
    /* mixed_experts.md, "Few tokens, small tiles" */
    INTEGER_ROWS(INTEGERS, .subnormal = 1),
    {FEW_EACH, SAME_TYPES | E2M1 | HALF_A_ROUND, {{FOUR_PANELS}, {EIGHT_PANELS}}},
    {FEW_EACH, USUAL_MXFP4 | MOST_OF_A_ROUND, {{FOUR_PANELS_SHORT}, {FOUR_PANELS}}},
    {FEW_EACH,
     USUAL_MXFP4 | ONE_ROUND,
     {{EIGHT_PANELS_SHORT, MOE__LONG_SUMS}, {EIGHT_PANELS_SHORT}}},
    {FEW_EACH,
     USUAL_MXFP4 | FEW_ROUNDS,
     {{FEW_PANELS(8, 256, 3, 2), MOE__LONG_SUMS, .spread = 1}, {EIGHT_PANELS, .spread = 1}}},
    {FEW_EACH,
     USUAL_MXFP4,
     {{LARGE_PANELS(4), MOE__LONG_SUMS, .spread = 1}, {LARGE_PANELS(5), .spread = 1}}},
    {FEW_EACH, SAME_TYPES | E2M1 | MOST_OF_A_ROUND, {{FOUR_PANELS}, {FOUR_PANELS_SHORT}}},
    {FEW_EACH, SAME_TYPES | E2M1 | ONE_ROUND, {{EIGHT_PANELS}, {EIGHT_PANELS_SHORT}}},
    {FEW_EACH, SAME_TYPES | E2M1 | FEW_ROUNDS, {{EIGHT_PANELS, .spread = 1}, {EIGHT_PANELS}}},
    {FEW_EACH, SAME_TYPES | E2M1, {{LARGE_PANELS(5), .spread = 1}, {LARGE_PANELS(3), .spread = 1}}},
    INTEGER_ROWS(SAME_TYPES, .subnormal = 0),
    /* mixed_experts.md, "Warpgroups and panels" */
    {FEW_EACH, NUMBERS_5, {TILE(8, 4, 256, 4), SPLIT(8, 256, 8, 2), SPLIT(8, 256, 8, 4)}},
    /* mixed_experts.md, "Schedules by tokens" */
    {FEW_EACH, ONE_ROUND, {{EIGHT_PANELS}, TILE(8, 4, 256, 4)}},
    {FEW_EACH, E2M1, {{LARGE_PANELS(5)}, TILE(8, 4, 256, 4)}},
    /* mixed_experts.md, "Warpgroups and panels" */
    {FEW_EACH, ANY, {TILE(8, 4, 256, 4), SPLIT(8, 256, 8, 2), SPLIT(8, 256, 8, 4)}},
    /* mixed_experts.md, "Few tokens, small tiles" */
    {12, SCALED_E2M1, {LONG(16, 4, 256, 4), LONG(32, 4, 256, 4)}},
    /* mixed_experts.md, "Tiles by width" */
    {22, SCALED_E2M1, {LONG(32, 4, 256, 4), LONG_WIDTHS(64, 4, 5, 4)}},
    {36, SCALED_E2M1, {LONG_WIDTHS(64, 4, 5, 4), LONG_WIDTHS(112, 4, 4, 7)}},
    {104, SCALED_E2M1, {LONG_WIDTHS(112, 4, 4, 7), BY_THREE_WARPGROUPS}},
    {150, SCALED_E2M1, {LONG_WIDTHS(160, 3, 3, 5), BY_THREE_WARPGROUPS}},
    {ALL, SCALED_E2M1, {LONG_WIDTHS(112, 4, 4, 1), BY_THREE_WARPGROUPS}},
    /* mixed_experts.md, "Schedules by tokens" */
    {12, NUMBERS_7, {TILE(16, 4, 128, 8), TILE(8, 4, 256, 4)}},
    {12, ANY, {TILE(16, 4, 128, 9), SPLIT(16, 256, 7, 2), SPLIT(16, 256, 7, 4)}},
    /* mixed_experts.md, "Tiles by width" */
    {ALL, TIGHT_POWERS, {BY_THREE_WARPGROUPS}},
    {104, ROW_POWERS, {LONG_WIDTHS(112, 4, 4, 7), BY_THREE_WARPGROUPS}},
    {136, ROW_POWERS, {BY_THREE_WARPGROUPS, LONG_WIDTHS(112, 4, 4, 7)}},
    {640, ROW_POWERS, {LONG_WIDTHS(112, 4, 4, 7), BY_THREE_WARPGROUPS}},
    {ALL, ROW_POWERS, {BY_THREE_WARPGROUPS, LONG_WIDTHS(112, 4, 4, 7)}},
    /* mixed_many_tokens.md, "Many tokens, in parts" */
    {24, ANY, {TILE(32, 4, 128, 7), SPLIT(32, 128, 10, 2), SPLIT(32, 128, 10, 4)}},
    {36, ANY, {TILE(48, 3, 128, 7), TILE(32, 2, 128, 10)}},
    {48, ANY, {{MOE__TILE(56, 2, 128, 8), .in_flight = 2}, TILE(48, 3, 128, 7)}},
    {72, ANY, {PARTS(80, 3), PARTS(64, 3)}},
    {112, ANY, {PARTS(96, 2), PARTS(80, 3)}},
    {ALL, ANY, {PARTS(128, 2), PARTS(80, 3)}},
};

/* More tokens than in the first rows of EXPERTS: integers in groups and MXFP4 whose sums of groups
 * are multiplied by their scales, with tokens and results of one type. */
enum {
  LONG_GROUPS = 1 << 0, /* of more than 32 columns, which take fewer registers */
  LONG_STAGES = 1 << 1  /* those without zero points have registers for them */
};
#define WIDTHS(n, s, k) MOE__TILE(n, 3, 128, s), .widths = (k)
#define PARTS_OF(n) MOE__TILE(n, 2, 256, 2), .token_parts = 2
#define PART_WIDTHS(n, k) PARTS_OF(n), .staged = 1, .widths = (k)
/* The argument says whether weights take fewer shifts. The first three rows: mixed_experts.md,
 * "Integers with fewer shifts"; the others: "Tiles by width". */
/* clang-format off */
#define GROUP_SUM_ROWS(...)                                                                        \
  {14, ANY, {{MOE__TILE(16, 4, 256, 4), __VA_ARGS__}, TILE(16, 4, 128, 9)}},                       \
  {28, LONG_STAGES, {{MOE__TILE(32, 4, 256, 3), __VA_ARGS__}, TILE(32, 4, 128, 7)}},               \
  {26, ANY, {{MOE__TILE(32, 4, 128, 7), __VA_ARGS__}, {WIDTHS(48, 7, 3), __VA_ARGS__}}},           \
  {56, LONG_GROUPS, {{WIDTHS(64, 6, 4), __VA_ARGS__}, {WIDTHS(48, 7, 3), __VA_ARGS__}}},           \
  {44, ANY, {{WIDTHS(48, 7, 3), __VA_ARGS__}, TILE(48, 3, 128, 7)}},                               \
  {84, ANY, {{PART_WIDTHS(96, 6), __VA_ARGS__}, {PART_WIDTHS(128, 8), __VA_ARGS__}}},              \
  {104, ANY, {{PART_WIDTHS(128, 8), __VA_ARGS__}, {PARTS_OF(112), __VA_ARGS__}}},                  \
  {140, ANY, {{PARTS_OF(128), __VA_ARGS__}, {PARTS_OF(112), __VA_ARGS__}}},                        \
  {240, ANY, {{PARTS_OF(112), __VA_ARGS__}, {PARTS_OF(128), __VA_ARGS__}}},                        \
  {ALL, ANY, {{PARTS_OF(128), __VA_ARGS__}, {PARTS_OF(112), __VA_ARGS__}}},
/* clang-format on */

static const moe__mixed_row_t SHIFTED_GROUP_SUMS[] = {GROUP_SUM_ROWS(.subnormal = 1)};
static const moe__mixed_row_t GROUP_SUMS[] = {GROUP_SUM_ROWS(.subnormal = 0)};

/* By the experts that have tokens, on average: where the rows are not known they are many. */
static unsigned of_rounds(const moe__mixed_product_t *p) {
  if (p->rows < 0)
    return MANY_ROUNDS;
  double tiles = p->touched * (double)moe__mixed_quotient_up(p->rows, 128);
  double rounds = tiles / (2 * MOE__MULTIPROCESSORS);
  return moe__mixed_bit_if(rounds <= 0.5, HALF_A_ROUND) |
         moe__mixed_bit_if(rounds <= 0.75, MOST_OF_A_ROUND) |
         moe__mixed_bit_if(rounds <= 1, ONE_ROUND) |
         moe__mixed_bit_if(rounds > 1.5 && rounds <= 2, TWO_ROUNDS) |
         moe__mixed_bit_if(rounds <= 4, FEW_ROUNDS) | moe__mixed_bit_if(rounds > 16, MANY_ROUNDS);
}

static moe__candidates_t usual_expert_candidates(const moe__mixed_product_t *p) {
  if (p->tokens > FEW_EACH && p->has_same_types && !p->wants_scaled_weights)
    return moe__mixed_row_candidates(
        p->is_bf16_integer ? SHIFTED_GROUP_SUMS : GROUP_SUMS, p->tokens,
        moe__mixed_bit_if(p->group != 32, LONG_GROUPS) |
            moe__mixed_bit_if(p->group != 32 && !p->has_zeros, LONG_STAGES));
  return moe__mixed_row_candidates(
      EXPERTS, p->tokens,
      of_rounds(p) | moe__mixed_bit_if(p->is_e2m1, E2M1) |
          moe__mixed_bit_if(p->has_same_types, SAME_TYPES) |
          moe__mixed_bit_if(p->is_usual_mxfp4, USUAL_MXFP4) |
          moe__mixed_bit_if(p->is_bf16_integer, INTEGERS) |
          moe__mixed_bit_if(p->wants_scaled_weights, p->has_row_powers ? ROW_POWERS : SCALED_E2M1) |
          moe__mixed_bit_if(
              p->has_row_powers && !p->has_token_scales &&
                  (p->group == 128 || (p->columns >= 0 && p->columns <= TIGHT_COLUMNS)),
              TIGHT_POWERS) |
          moe__mixed_bit_if(p->numbers > 1, NUMBERS_5) |
          moe__mixed_bit_if(p->numbers > 2, NUMBERS_7));
}

static moe__candidates_t expert_candidates(const moe__mixed_product_t *p) {
  if (p->tokens > FEW_EACH && moe__mixed_are_few_experts(p))
    return moe__mixed_few_candidates(p, usual_expert_candidates);
  return usual_expert_candidates(p);
}

/* ---- The product ---- */

/* The class of bytes of scales and zero points that a row has for 64 columns. */
static int class_of_numbers(MlirOperation op) {
  int group = moe__mixed_group(op);
  int bytes = moe__mixed_scale_bytes(moe__element_type(op, MOE__SCALES)) +
              (mlirValueIsNull(moe__operand(op, MOE__ZEROS)) ? 0 : 1);
  if (group && group < MOE_WEIGHT_COLUMNS)
    bytes *= MOE_WEIGHT_COLUMNS / group;
  int class = 0;
  while (class < MOE__NUMBERS_CLASSES && bytes > MOE__MOST_NUMBERS(class))
    class ++;
  return class;
}

double moe__mixed_touched(int64_t tokens, int64_t experts) {
  return (double)experts * (1 - pow(1 - 1 / (double)experts, (double)tokens));
}

static moe__mixed_product_t product_of(MlirOperation op) {
  MlirType scales = moe__tensor_type(op, MOE__SCALES), x = moe__tensor_type(op, MOE__X);
  MlirType scale = moe__element_type(op, MOE__SCALES), out = moe__element_type(op, MOE__OUT);
  moe__weight_format_t format = moe__mixed_format(op);
  int rank = (int)mlirShapedTypeGetRank(scales), group = moe__mixed_group(op);
  int64_t tokens = moe__static_dimension(x, 0);
  int64_t experts = rank == 3 ? moe__static_dimension(scales, 0) : 1;
  bool has_bias = !mlirValueIsNull(moe__operand(op, MOE__BIAS));
  bool has_zeros = !mlirValueIsNull(moe__operand(op, MOE__ZEROS));
  bool is_f32 = mlirTypeIsAF32(out);
  bool is_bf16 = mlirTypeIsABF16(moe__element_type(op, MOE__X)) && mlirTypeIsABF16(out);
  bool is_bf16_i4 = is_bf16 && mlirTypeIsABF16(scale) && format == MOE__WEIGHT_I4 && !has_zeros;
  bool is_mxfp4 =
      group == 32 && format == MOE__WEIGHT_E2M1 && mlirTypeIsAFloat8E8M0FNU(scale) && !has_zeros;
  bool is_integer = group && format != MOE__WEIGHT_E2M1 && format != MOE__WEIGHT_E4M3 &&
                    mlirTypeEqual(scale, out);
  bool is_ui4_zeros = is_bf16 && mlirTypeIsABF16(scale) && format == MOE__WEIGHT_UI4 && has_zeros;
  return (moe__mixed_product_t){
      .tokens = tokens < 0 || experts < 0 ? -1 : moe__mixed_quotient_up(tokens, experts),
      .all_tokens = tokens,
      .rows = moe__static_dimension(scales, rank - 2),
      .columns = moe__static_dimension(x, 1),
      .experts = experts,
      .touched = moe__mixed_touched(tokens, experts),
      .group = group,
      .numbers = class_of_numbers(op),
      .has_experts = rank == 3,
      .has_bias = has_bias,
      .has_zeros = has_zeros,
      .has_f16_tokens = mlirTypeIsAF16(moe__element_type(op, MOE__X)),
      .has_f32_results = is_f32,
      .has_scales_of_rows = moe__mixed_has_scales_of_rows(op),
      .is_fp8 = moe__has_fp8_weights(op),
      .is_e2m1 = format == MOE__WEIGHT_E2M1,
      .is_bf16_i4 = is_bf16_i4,
      .is_bf16_integer = is_bf16 && is_integer,
      .has_same_types =
          !is_f32 && mlirTypeEqual(moe__element_type(op, MOE__X), out) && (is_mxfp4 || is_integer),
      .is_usual_64 = group == 64 && (is_bf16_i4 || is_ui4_zeros),
      .is_usual_32 = group == 32 && is_bf16_i4,
      .is_usual_mxfp4 = is_bf16 && is_mxfp4,
      .wants_scaled_weights = !is_f32 && moe__mixed_takes_scaled_weights(op),
      .has_row_powers = moe__mixed_takes_row_powers(op),
      .has_token_scales = !mlirValueIsNull(moe__operand(op, MOE__SCALES_X)),
      .wants_units = !is_f32 && moe__mixed_takes_units(op),
  };
}

moe__candidates_t moe__mixed_candidates(MlirOperation op) {
  moe__mixed_product_t p = product_of(op);
  if (p.is_fp8)
    return moe__mixed_fp8_candidates(&p);
  if (p.tokens < 0)
    return moe__mixed_row_candidates(DENSE, MOE__FEW_TOKENS, MANY);
  if (p.has_experts)
    return expert_candidates(&p);
  if (p.tokens <= 16 && p.rows >= 0 && p.numbers < MOE__NUMBERS_CLASSES)
    return moe__mixed_panel_candidates(&p);
  return p.tokens <= MOE__FEW_TOKENS ? dense_candidates(&p) : moe__mixed_wide_candidates(&p);
}

/* ---- In f16 ----
 *
 * Of many experts from so many tokens of each on average, and so many rows and columns, with a
 * scale for `group` columns: sums of groups take the more instructions the smaller these are
 * (docs/performance/mixed_many_tokens.md, "Scales of bf16 in f16", and mixed_experts.md, "Tiles by
 * width"). */
typedef struct f16_rule_t {
  int64_t group, tokens, rows, columns;
} f16_rule_t;

static const f16_rule_t F16_RULES[] = {
    {32, 44, 1024, 1}, {32, 34, 2048, 1536}, {64, 53, 2048, 1536}, {128, 53, 2048, 1536}};

bool moe__mixed_is_faster_in_f16(MlirOperation op) {
  moe__mixed_product_t p = product_of(op);
  if (p.tokens < 0 || p.rows < 0 || p.columns < 0)
    return false;
  if (!p.has_experts)
    return p.group && p.tokens > MOE__FEW_TOKENS && moe__mixed_wide_in_f16(&p);
  if (p.tokens > FEW_EACH && moe__mixed_are_few_experts(&p)) {
    moe__mixed_product_t in_f16 = p;
    in_f16.wants_scaled_weights = in_f16.has_row_powers = in_f16.has_token_scales = true;
    in_f16.is_bf16_integer = false;
    return moe__mixed_few_in_f16(&p, &in_f16, usual_expert_candidates);
  }
  bool is_faster = false;
  for (size_t i = 0; i < sizeof F16_RULES / sizeof *F16_RULES; i++) {
    const f16_rule_t *rule = &F16_RULES[i];
    is_faster |= rule->group == p.group && p.all_tokens >= rule->tokens * p.experts &&
                 p.rows >= rule->rows && p.columns >= rule->columns;
  }
  return is_faster;
}
