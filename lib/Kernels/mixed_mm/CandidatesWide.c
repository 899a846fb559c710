/* CandidatesWide.c - schedules of more than 64 tokens without experts: the tiles that take the
 * least time. Why the numbers are what they are: docs/performance/mixed_many_tokens.md, and
 * mixed_mxfp8.md.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/mixed_mm/Candidates.h"

#define USUAL_ROWS 8192 /* where they are not known */

/* ---- Schedules ---- */

/* Sums of groups: tokens in parts. Where columns are not divided more and shorter stages, four of
 * them in a round of the loop; and the widest tiles, which have registers for nothing more and are
 * no default. */
#define PARTS(n, d, s) MOE__TILE(n, 2, d, s), .token_parts = 2
#define DIVIDED(ctas) PARTS(128, 128, 3), .split = (ctas), .unroll = 4
#define UNROLLED MOE__TILE(128, 2, 128, 5), .token_parts = 2, .unroll = 4
#define THIRDS MOE__TILE(192, 2, 128, 3), .token_parts = 3, .unroll = 4
#define WIDEST MOE__TILE(256, 2, 128, 3), .token_parts = 4

/* Scales as factors: all tokens of a tile are one part, with sums of a stage or long ones. */
#define SCALED(n, d, s) MOE__TILE(n, 2, d, s), .scaled_weights = 1
#define LONG(n, d, s) MOE__TILE(n, 2, d, s), MOE__LONG_SUMS
#define BEHIND(n, s) MOE__TILE(n, 4, 128, s), MOE__LONG_SUMS, .behind = 1

/* Sums of integers in units. */
#define UNITS MOE__TILE(256, 2, 128, 3), MOE__LONG_SUMS, .token_parts = 2, .unroll = 4

/* By the tiles, of about 96, 128, and 192 tokens or more; and by whether one, two or four CTAs
 * divide the columns. FP8 weights have twice the bytes in a stage. */
#define TILES 3
#define LOG_SPLITS 3
typedef moe__mixed_schedule_t tiles_t[TILES][LOG_SPLITS][2];

static const tiles_t OF_GROUPS = {{{{PARTS(96, 256, 3)}, {UNROLLED}},
                                   {{PARTS(96, 256, 2), .split = 2}, {DIVIDED(2)}},
                                   {{PARTS(96, 256, 2), .split = 4}, {DIVIDED(4)}}},
                                  {{{UNROLLED}, {WIDEST}},
                                   {{DIVIDED(2)}, {PARTS(96, 256, 2), .split = 2}},
                                   {{DIVIDED(4)}, {PARTS(96, 256, 2), .split = 4}}},
                                  {{{THIRDS}, {WIDEST}}}};

static const tiles_t OF_SCALED_WEIGHTS = {
    {{{SCALED(96, 256, 3)}, {LONG(128, 256, 2)}},
     {{SCALED(96, 256, 2), .split = 2}, {SCALED(128, 128, 3), .split = 2}},
     {{SCALED(96, 256, 2), .split = 4}, {SCALED(128, 128, 3), .split = 4}}},
    {{{LONG(128, 256, 2)}, {LONG(256, 128, 3)}},
     {{SCALED(128, 128, 3), .split = 2}, {SCALED(96, 256, 2), .split = 2}},
     {{SCALED(128, 128, 3), .split = 4}, {SCALED(96, 256, 2), .split = 4}}},
    {{{LONG(256, 128, 3)}, {LONG(256, 128, 3), .share = 2}}}};

static const tiles_t OF_FP8_WEIGHTS = {
    {{{LONG(96, 128, 5)}, {LONG(128, 128, 4)}},
     {{LONG(96, 128, 4), .split = 2}, {LONG(128, 128, 3), .split = 2}},
     {{LONG(96, 128, 4), .split = 4}, {LONG(128, 128, 3), .split = 4}}},
    {{{LONG(128, 128, 4)}, {LONG(208, 128, 3)}},
     {{LONG(128, 128, 3), .split = 2}, {LONG(96, 128, 4), .split = 2}},
     {{LONG(128, 128, 3), .split = 4}, {LONG(96, 128, 4), .split = 4}}},
    {{{LONG(208, 128, 3)}, {LONG(208, 128, 3), .share = 2}}}};

/* "MXFP4, four warpgroups"; mixed_mxfp8.md, "Tiles by width, and one warpgroup more" */
static const moe__mixed_schedule_t SCALED_BEHIND[] = {{BEHIND(128, 4)}, {LONG(128, 256, 2)}};
static const moe__mixed_schedule_t FP8_BEHIND[] = {{BEHIND(128, 3)}, {LONG(128, 128, 4)}};

/* "Tiles of 256 tokens" */
static const moe__mixed_schedule_t SCALED_SHARED[] = {{LONG(256, 128, 3), .share = 2},
                                                      {LONG(256, 128, 3)}};
static const moe__mixed_schedule_t FP8_SHARED[] = {{LONG(208, 128, 3), .share = 2},
                                                   {LONG(208, 128, 3)}};
static const moe__mixed_schedule_t GROUPS_BANDS[] = {{UNROLLED, .band = 4}, {WIDEST}};

/* "Sums in units" */
static const moe__mixed_schedule_t UNITS_WIDE[] = {{UNITS}, {UNITS, .share = 2}, {THIRDS}};

/* "The last tiles, divided" among all CTAs */
static const moe__mixed_schedule_t UNITS_SPREAD[] = {{UNITS, .spread = 1}, {UNITS}};
static const moe__mixed_schedule_t UNITS_SPREAD_BANDS[] = {{UNITS, .spread = 1, .band = 1},
                                                           {UNITS, .spread = 1}};
static const moe__mixed_schedule_t SCALED_SPREAD[] = {{LONG(256, 128, 3), .spread = 1},
                                                      {LONG(256, 128, 3), .share = 2}};
static const moe__mixed_schedule_t GROUPS_SPREAD[] = {{UNROLLED, .spread = 1, .staged = 1},
                                                      {UNROLLED}};

/* "Loops that are longer, results in lines": four CTAs divide the columns, or none do. */
static const moe__mixed_schedule_t GROUPS_SHIFTS[] = {
    {DIVIDED(4), .subnormal = 1}, {DIVIDED(4)}, {PARTS(96, 256, 2), .split = 4}};
static const moe__mixed_schedule_t GROUPS_STAGED[] = {
    {UNROLLED, .staged = 1}, {UNROLLED}, {WIDEST}};

/* ---- Times ----
 *
 * The time of a tile is that of the products of its tokens and of turning its weights into numbers:
 * a quarter of that of one token's products is 1. A tile has two warpgroups, and counts twice with
 * four. A multiprocessor works its tiles off one after another, in rounds. */

#define QUARTERS(tokens) ((tokens) << 2)

/* Turning the weights of a tile into numbers takes as long as the products of so many tokens;
 * multiplying them by their scales takes as long again, and sums in units half as long. */
#define TOKENS_OF_WEIGHTS 32
#define TOKENS_OF_SCALED_WEIGHTS 64
#define TOKENS_OF_UNITS 48
#define TOKENS_OF_BEHIND 50

/* The same of handing on the sums of the last tiles, and of reading tokens and weights for CTAs
 * that are at other columns of them; sums in units, from so many tokens on, where all CTAs have a
 * whole tile besides. */
#define TOKENS_OF_SPREAD 80
#define TOKENS_OF_SPREAD_UNITS 30
#define UNITS_FROM 1024
/* Between these numbers of tokens scaled weights gain nothing, and units up to UNITS_FROM. */
#define SPREAD_UP_TO 512
#define SPREAD_FROM 4096

/* So many tokens are more than L2 has room for: all weights are worked off with one tile of them,
 * or four, before the next. */
#define MANY_TOKENS 2048

/* What a product of more than 64 tokens is timed by; rows are as if they were known. */
typedef struct sizes_t {
  int64_t rows, tokens;
} sizes_t;

static int64_t tiles_of(sizes_t sizes, const moe__mixed_schedule_t *s) {
  return moe__mixed_tiles_of_rows(sizes.rows, s->warpgroups) *
         moe__mixed_quotient_up(sizes.tokens, s->tile_n);
}

static int64_t rounds_of(int64_t tiles) {
  return moe__mixed_quotient_up(tiles, MOE__MULTIPROCESSORS);
}

/* Of tiles that no CTAs divide. */
static int64_t time_of(sizes_t sizes, const moe__mixed_schedule_t *s, int64_t of_weights) {
  return QUARTERS(rounds_of(tiles_of(sizes, s)) * (s->warpgroups / 2) * (s->tile_n + of_weights));
}

/* Of those whose last ones are divided among all CTAs. */
static int64_t spread_time(sizes_t sizes, const moe__mixed_schedule_t *s, int64_t of_weights,
                           int64_t of_spread) {
  int64_t tiles = tiles_of(sizes, s);
  return QUARTERS(tiles * (s->tile_n + of_weights) / MOE__MULTIPROCESSORS + of_spread);
}

static bool spreads_units(sizes_t sizes, int64_t best) {
  bool many = sizes.tokens >= UNITS_FROM;
  if (many ? tiles_of(sizes, UNITS_SPREAD) <= MOE__MULTIPROCESSORS : sizes.tokens > SPREAD_UP_TO)
    return false;
  return spread_time(sizes, UNITS_SPREAD, TOKENS_OF_UNITS,
                     many ? TOKENS_OF_SPREAD_UNITS : TOKENS_OF_SPREAD) < best;
}

/* The tiles that take the least time, of which CTAs divide the columns only where there are
 * multiprocessors for all: adding their sums takes time. */
typedef struct best_t {
  int tile, log_split;
  int64_t time, rounds;
} best_t;

static best_t best_of(const tiles_t tiles, sizes_t sizes, int64_t of_weights) {
  best_t best = {.tile = 1, .time = INT64_MAX};
  for (int t = TILES - 1; t >= 0; t--)
    for (int l = 0; l < LOG_SPLITS && tiles[t][l][0].tile_n; l++) {
      int64_t n = tiles[t][l][0].tile_n, ctas = tiles_of(sizes, tiles[t][l]) << l;
      if (l > 0 && ctas > MOE__MULTIPROCESSORS)
        continue;
      int64_t rounds = rounds_of(ctas), time = QUARTERS(rounds * (n + of_weights)) >> l;
      if (time < best.time)
        best = (best_t){.tile = t, .log_split = l, .time = time, .rounds = rounds};
    }
  return best;
}

/* ---- The choice ---- */

/* Whether ptxas has registers for sums in units whose last tiles are divided: of groups of 128 only
 * with zero points, or columns that are not known. */
static bool may_spread_units(const moe__mixed_product_t *p) {
  return p->group != 128 || p->has_zeros || p->columns < 0;
}

moe__candidates_t moe__mixed_wide_candidates(const moe__mixed_product_t *p) {
  bool is_fp8 = p->is_fp8, scaled = p->wants_scaled_weights;
  sizes_t sizes = {.rows = p->rows < 0 ? USUAL_ROWS : p->rows, .tokens = p->tokens};
  const tiles_t *tiles = is_fp8 ? &OF_FP8_WEIGHTS : scaled ? &OF_SCALED_WEIGHTS : &OF_GROUPS;
  best_t best = best_of(*tiles, sizes, scaled ? TOKENS_OF_SCALED_WEIGHTS : TOKENS_OF_WEIGHTS);
  if (scaled && time_of(sizes, SCALED_BEHIND, TOKENS_OF_BEHIND) < best.time)
    return is_fp8 ? MOE__CANDIDATES(FP8_BEHIND) : MOE__CANDIDATES(SCALED_BEHIND);

  int64_t of_units = time_of(sizes, UNITS_WIDE, TOKENS_OF_UNITS);
  if (p->wants_units && may_spread_units(p) &&
      spreads_units(sizes, of_units < best.time ? of_units : best.time))
    return p->tokens >= MANY_TOKENS ? MOE__CANDIDATES(UNITS_SPREAD_BANDS)
                                    : MOE__CANDIDATES(UNITS_SPREAD);
  if (p->wants_units && of_units <= best.time)
    return MOE__CANDIDATES(UNITS_WIDE);
  bool may_spread = p->tokens <= SPREAD_UP_TO || p->tokens >= SPREAD_FROM;
  if (scaled && !is_fp8 && may_spread &&
      spread_time(sizes, SCALED_SPREAD, TOKENS_OF_SCALED_WEIGHTS, TOKENS_OF_SPREAD) < best.time)
    return MOE__CANDIDATES(SCALED_SPREAD);

  int64_t row_tiles = moe__mixed_tiles_of_rows(sizes.rows, 2);
  if (p->is_usual_64 && p->tokens <= GROUPS_SPREAD->tile_n && row_tiles > MOE__MULTIPROCESSORS &&
      moe__mixed_leaves_some_idle(row_tiles))
    return MOE__CANDIDATES(GROUPS_SPREAD);
  /* In several rounds of the widest tiles two CTAs share what they read of the tokens. */
  if (scaled && best.tile == TILES - 1 && best.rounds > 1 && row_tiles % 2 == 0)
    return is_fp8 ? MOE__CANDIDATES(FP8_SHARED) : MOE__CANDIDATES(SCALED_SHARED);
  if (!scaled && best.tile == 1 && best.log_split == 0 && p->tokens >= MANY_TOKENS)
    return MOE__CANDIDATES(GROUPS_BANDS);
  if (p->is_usual_64 && best.tile == 1 && best.log_split != 1)
    return best.log_split ? MOE__CANDIDATES(GROUPS_SHIFTS) : MOE__CANDIDATES(GROUPS_STAGED);
  return MOE__CANDIDATES((*tiles)[best.tile][best.log_split]);
}
