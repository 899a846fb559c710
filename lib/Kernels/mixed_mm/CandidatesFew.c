/* CandidatesFew.c - schedules of few experts, whose tiles of 256 rows would leave multiprocessors
 * idle: those that take the least time by a model, whose numbers were fitted to measurements of
 * many sizes (docs/performance/mixed_python.md, "Experts by time"). It is that of expert_terms in
 * python/moe_opt/_mixed.py.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/mixed_mm/Candidates.h"
#include "lib/Kernels/mixed_mm/F16.h"
#include "lib/Kernels/mixed_mm/MixedMm.h"

#include <limits.h>
#include <math.h>

#define FEW_TILES 480 /* of 128 rows, of all experts, up to which the model was fitted to most */

/* ---- Forms of tiles ----
 *
 * Tiles of fewer rows, or whose columns CTAs divide; for so many tokens of each expert. */

typedef struct form_t {
  int each;
  moe__mixed_schedule_t schedules[2]; /* the second one is another worth measuring */
} form_t;

/* Tiles of k widths, whose results go through shared memory. */
#define WIDTHS(n, w, s, k)                                                                         \
  { MOE__TILE(n, w, 128, s), MOE__LONG_SUMS, .staged = 1, .widths = (k) }
/* The sums of CTAs that divide columns meet where the stages were. */
#define MEETING(n, s, ctas) MOE__TILE(n, 2, 128, s), .split = (ctas), .reuse = 1, .staged = 1
#define LONG_MEETING(n, s, ctas)                                                                   \
  { MEETING(n, s, ctas), MOE__LONG_SUMS }

/* Weights that are multiplied by their scales. */
static const form_t SCALED[] = {
    {16, {LONG_MEETING(32, 6, 4), LONG_MEETING(32, 6, 2)}},
    {40, {LONG_MEETING(64, 6, 4), LONG_MEETING(64, 6, 2)}},
    {90, {LONG_MEETING(128, 4, 4), LONG_MEETING(128, 4, 2)}},
    {16, {LONG_MEETING(32, 6, 2), WIDTHS(32, 2, 7, 4)}},
    {40, {LONG_MEETING(64, 6, 2), WIDTHS(64, 2, 6, 4)}},
    {64, {LONG_MEETING(96, 5, 2), WIDTHS(96, 2, 5, 6)}},
    {90, {LONG_MEETING(128, 4, 2), WIDTHS(112, 2, 5, 7)}},
    {16, {WIDTHS(32, 2, 7, 4), WIDTHS(64, 2, 6, 4)}},
    {36, {WIDTHS(64, 2, 6, 4), WIDTHS(96, 2, 5, 6)}},
    {76, {WIDTHS(112, 2, 5, 7), WIDTHS(96, 2, 5, 6)}},
    {120, {WIDTHS(160, 2, 4, 5), WIDTHS(112, 2, 5, 7)}},
    {16, {WIDTHS(32, 3, 6, 4), WIDTHS(64, 3, 5, 4)}},
    {60, {WIDTHS(96, 3, 4, 6), WIDTHS(112, 3, 4, 7)}},
    {120, {WIDTHS(160, 3, 3, 5), WIDTHS(112, 3, 4, 7)}},
};

/* The same of FP8 weights, which take twice the room. */
static const form_t FP8[] = {
    {16, {LONG_MEETING(32, 5, 2), WIDTHS(64, 2, 5, 4)}},
    {40, {LONG_MEETING(64, 4, 2), WIDTHS(64, 2, 5, 4)}},
    {64, {LONG_MEETING(96, 4, 2), WIDTHS(128, 2, 3, 4)}},
    {36, {WIDTHS(64, 2, 5, 4), WIDTHS(128, 2, 3, 4)}},
    {76, {WIDTHS(128, 2, 3, 4), WIDTHS(64, 2, 5, 4)}},
    {36, {WIDTHS(64, 3, 4, 4), WIDTHS(128, 3, 3, 4)}},
    {76, {WIDTHS(128, 3, 3, 4), WIDTHS(64, 3, 4, 4)}},
};

/* Sums of groups that are multiplied by scales. The argument says whether weights take fewer
 * shifts. */
#define TILE(n, w, d, s)                                                                           \
  { MOE__TILE(n, w, d, s) }
#define OF_SUMS(...)                                                                               \
  {                                                                                                \
    {16, {{MEETING(32, 6, 2), __VA_ARGS__}, TILE(32, 2, 128, 8)}},                                 \
        {40, {{MEETING(64, 5, 2), __VA_ARGS__}, TILE(64, 2, 128, 6)}},                             \
        {64,                                                                                       \
         {{MEETING(96, 5, 2), .token_parts = 2, .unroll = 4, __VA_ARGS__}, TILE(64, 2, 128, 6)}},  \
        {8, {{MOE__TILE(16, 2, 256, 6), __VA_ARGS__}, TILE(16, 2, 128, 9)}},                       \
        {16, {{MOE__TILE(32, 2, 128, 8), __VA_ARGS__}, TILE(32, 2, 128, 7)}},                      \
        {36,                                                                                       \
         {{MOE__TILE(64, 2, 128, 6), .widths = 4, .staged = 1, __VA_ARGS__},                       \
          TILE(64, 2, 128, 6)}},                                                                   \
  }
static const form_t SHIFTED_SUMS[] = OF_SUMS(.subnormal = 1);
static const form_t SUMS[] = OF_SUMS(.subnormal = 0);

/* ---- Times ---- */

/* Products that take as long as one another. MX: of FP8 weights in f16, with scales by groups or by
 * rows; and BY_BLOCKS, which are not of this kernel, for tokens that are MX blocks. */
typedef enum family_t {
  GROUP_SUMS_OF_32,
  GROUP_SUMS,
  IN_F16_OF_32,
  IN_F16,
  MXFP4,
  MXFP8,
  MX,
  MX_OF_ROWS,
  BY_BLOCKS,
  BY_BLOCKS_OF_ROWS
} family_t;

/* What a tile takes, ns: a begin, a round of tiles, 1000 columns of a round, what more of these a
 * full round takes, and those for each 100 tokens that tiles have. */
enum { OF_BEGIN, OF_ROUND, OF_COLUMNS, OF_TAKEN, OF_TOKENS, NUMBERS };
typedef struct timed_t {
  family_t family;
  int each; /* as in a form, or for so many tokens of each where experts are many */
  int tokens, rows, ctas;
  int ns[NUMBERS];
} timed_t;

static const timed_t TIMED[] = {
#define MOE__TIMED(family, each, tokens, rows, ctas, ...)                                          \
  {family, each, tokens, rows, ctas, {__VA_ARGS__}},
#include "lib/Kernels/mixed_mm/ExpertTimes.def"
#undef MOE__TIMED
};
#define TIMED_END (TIMED + sizeof TIMED / sizeof *TIMED)

/* quantize_f16 or dequantize_f16, a launch before: also for the elements of the tokens. */
#define OF_QUANTIZER 3000
#define ELEMENTS_OF_NS 700

/* Groups of tokens differ by so much of the mean, as experts are not alike, beside what drawing
 * tokens makes. */
#define SKEW 0.15
#define LEAST_DEVIATION 1e-3
#define IMPROBABLE 1e-3
/* Beyond which a tile or a round more is not counted for itself. */
#define MANY_TILES 64
#define MANY_ROUNDS 8
#define PI 3.14159265358979

/* How probable it is that a normal number is above a limit. */
static double above(double limit, double mean, double deviation) {
  return 0.5 * erfc((limit - mean) / (deviation * sqrt(2)));
}

/* Tiles of so many tokens that a group has, of which one is the least, and their variance: means,
 * where the size of a group is normal. */
static double tiles_of(double mean, double deviation, int tokens, double *variance) {
  if (mean > MANY_TILES * tokens) { /* the integrals of what is added below */
    *variance = deviation / tokens / sqrt(PI);
    return mean / tokens + 0.5;
  }
  double tiles = 1, more;
  *variance = 0;
  for (double limit = tokens + 0.5; (more = above(limit, mean, deviation)) > IMPROBABLE;
       limit += tokens) {
    tiles += more;
    *variance += more * (1 - more);
  }
  return tiles;
}

/* How often, on average, as many tiles as there is room for are worked off: one time at least. */
static double rounds_of(double tiles, double deviation, double room) {
  double mean = tiles / room, spread = fmax(deviation / room, LEAST_DEVIATION);
  if (spread > MANY_ROUNDS)
    return mean + 0.5;
  int64_t first = (int64_t)fmax(1, floor(mean - 3 * spread));
  int64_t last = (int64_t)ceil(mean + 3 * spread);
  double rounds = (double)first;
  for (int64_t limit = first; limit <= last; limit++)
    rounds += above((double)limit + 0.5 / room, mean, spread);
  return rounds;
}

/* ns that a product takes with such tiles. */
static double time_of(const moe__mixed_product_t *p, const timed_t *timed) {
  double experts = (double)p->experts, mean = (double)p->all_tokens / experts;
  double chosen = p->touched / experts; /* how probable it is that an expert has tokens */
  double deviation = p->experts > 1 ? sqrt(mean + SKEW * SKEW * mean * mean) : LEAST_DEVIATION;
  double variance, of_group = tiles_of(mean, deviation, timed->tokens, &variance);
  variance += chosen * (1 - chosen);
  double of_rows = (double)moe__mixed_quotient_up(p->rows, timed->rows);
  double room = (double)moe__mixed_clusters_at_once(timed->ctas);
  double tiles = p->touched * of_group * of_rows, work = (double)p->columns / 1000;
  double rounds = rounds_of(tiles, sqrt(experts * variance) * of_rows, room);
  double of_tile = fmin(timed->tokens, mean / chosen / of_group) / 100;
  const int *ns = timed->ns;
  return ns[OF_BEGIN] + rounds * ns[OF_ROUND] +
         work * (rounds * (ns[OF_COLUMNS] + of_tile * ns[OF_TOKENS]) + tiles / room * ns[OF_TAKEN]);
}

/* The same of the launch before. */
static double time_of_tokens(const moe__mixed_product_t *p) {
  return OF_QUANTIZER + (double)p->all_tokens * (double)p->columns / ELEMENTS_OF_NS;
}

/* ---- The choice ---- */

/* MX was fitted to no more tokens of each expert than become f16. */
bool moe__mixed_are_few_experts(const moe__mixed_product_t *p) {
  if (p->is_fp8 && p->has_row_powers && p->tokens > MOE__MX_MOST_IN_F16)
    return false;
  return p->tokens > 0 && p->rows > 0 && p->columns > 0 &&
         p->experts * moe__mixed_tiles_of_rows(p->rows, 2) <= FEW_TILES &&
         (p->is_fp8 || p->wants_scaled_weights || p->has_same_types);
}

static family_t family_of(const moe__mixed_product_t *p) {
  if (p->is_fp8)
    return !p->has_row_powers ? MXFP8 : p->has_scales_of_rows ? MX_OF_ROWS : MX;
  if (p->wants_scaled_weights && !p->has_row_powers)
    return MXFP4;
  if (p->wants_scaled_weights)
    return p->group == 32 ? IN_F16_OF_32 : IN_F16;
  return p->group == 32 ? GROUP_SUMS_OF_32 : GROUP_SUMS;
}

#define FORMS(array)                                                                               \
  (forms_t) {                                                                                      \
    (array), sizeof(array) / sizeof(array)[0]                                                      \
  }
typedef struct forms_t {
  const form_t *forms;
  size_t count;
} forms_t;

static forms_t forms_of(const moe__mixed_product_t *p) {
  if (p->is_fp8)
    return FORMS(FP8);
  if (p->wants_scaled_weights)
    return FORMS(SCALED);
  return p->is_bf16_integer ? FORMS(SHIFTED_SUMS) : FORMS(SUMS);
}

static bool has_tile(const moe__mixed_schedule_t *s, const timed_t *timed) {
  return s->tile_n == timed->tokens && s->warpgroups * MOE__WGMMA_M == timed->rows &&
         (s->split ? s->split : 1) == timed->ctas && !s->panels;
}

/* The schedules with the tile that was timed: of a form, or the usual ones of as many tokens; none
 * where these have another tile, as those of other types may. */
static moe__candidates_t candidates_of(const moe__mixed_product_t *p, const timed_t *timed,
                                       moe__mixed_usual_fn *usual) {
  forms_t forms = forms_of(p);
  for (size_t i = 0; i < forms.count; i++)
    if (forms.forms[i].each == timed->each && has_tile(forms.forms[i].schedules, timed))
      return MOE__CANDIDATES(forms.forms[i].schedules);
  moe__mixed_product_t other = *p;
  other.tokens = timed->each;
  moe__candidates_t found = usual(&other);
  return has_tile(found.schedules, timed) ? found : (moe__candidates_t){NULL, 0};
}

/* The fewest and the most tokens of each expert that tiles of a family are for. */
typedef struct range_t {
  int fewest, most;
} range_t;

static range_t range_of(family_t family) {
  range_t range = {INT_MAX, 0};
  for (const timed_t *timed = TIMED; timed < TIMED_END; timed++)
    if (timed->family == family) {
      range.fewest = timed->each < range.fewest ? timed->each : range.fewest;
      range.most = timed->each > range.most ? timed->each : range.most;
    }
  return range;
}

/* A tile suits from 0.15 to three times as many tokens of each expert as it is for; those for the
 * fewest and for the most tokens suit any, as do all of MX, which were timed with any. */
static bool suits(const moe__mixed_product_t *p, const timed_t *timed, range_t range) {
  if (timed->ctas > 1 && !moe__mixed_may_split(1, p->columns, timed->ctas))
    return false;
  int64_t all = timed->each * p->experts;
  if (timed->family == MX || timed->family == MX_OF_ROWS)
    return true;
  return (100 * p->all_tokens >= 15 * all || timed->each == range.fewest) &&
         (p->all_tokens <= 3 * all || timed->each == range.most);
}

/* The schedules that take the least time, and how long; infinitely long where nothing was timed. */
static moe__candidates_t best_of(const moe__mixed_product_t *p, moe__mixed_usual_fn *usual,
                                 double *least) {
  moe__candidates_t best = usual(p);
  *least = INFINITY;
  family_t family = family_of(p);
  range_t range = range_of(family);
  for (const timed_t *timed = TIMED; timed < TIMED_END; timed++) {
    if (timed->family != family || !suits(p, timed, range))
      continue;
    moe__candidates_t found = candidates_of(p, timed, usual);
    double time = found.count ? time_of(p, timed) : INFINITY;
    if (time < *least) {
      best = found;
      *least = time;
    }
  }
  return best;
}

moe__candidates_t moe__mixed_few_candidates(const moe__mixed_product_t *p,
                                            moe__mixed_usual_fn *usual) {
  double least;
  return best_of(p, usual, &least);
}

bool moe__mixed_few_in_f16(const moe__mixed_product_t *p, const moe__mixed_product_t *in_f16,
                           moe__mixed_usual_fn *usual) {
  double as_given, f16;
  best_of(p, usual, &as_given);
  best_of(in_f16, usual, &f16);
  return f16 + time_of_tokens(p) < as_given;
}

/* ns of the fastest product of MX blocks of a family. */
static double least_of(const moe__mixed_product_t *p, family_t family) {
  double least = INFINITY;
  range_t range = range_of(family);
  for (const timed_t *timed = TIMED; timed < TIMED_END; timed++)
    if (timed->family == family && suits(p, timed, range))
      least = fmin(least, time_of(p, timed));
  return least;
}

bool moe__mixed_is_faster_than_blocks(int64_t tokens, int64_t experts, int64_t rows,
                                      int64_t columns, bool has_scales_of_rows, bool in_f16) {
  moe__mixed_product_t p = {.all_tokens = tokens,
                            .experts = experts,
                            .rows = rows,
                            .columns = columns,
                            .touched = moe__mixed_touched(tokens, experts)};
  family_t family = !in_f16 ? MXFP8 : has_scales_of_rows ? MX_OF_ROWS : MX;
  return least_of(&p, family) + time_of_tokens(&p) <
         least_of(&p, has_scales_of_rows ? BY_BLOCKS_OF_ROWS : BY_BLOCKS);
}
