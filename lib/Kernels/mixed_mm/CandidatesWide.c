/* CandidatesWide.c - schedules of more than 64 tokens without experts: the tiles that take the
 * least time by a model, whose numbers were fitted to measurements of many sizes
 * (docs/performance/mixed_sizes.md).
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/mixed_mm/Candidates.h"

#define USUAL_ROWS 8192 /* where they are not known */
#define USUAL_COLUMNS 8192

/* So many tokens are more than L2 has room for: all weights are worked off with one tile of them
 * before the next, or with four of 128 tokens and less with sums of groups. */
#define MANY_TOKENS 2048

/* ---- Forms of tiles ----
 *
 * Stages have 128 columns, and results go through shared memory. Where two or four CTAs divide the
 * columns of a tile, their sums meet where the stages were. */

/* What a form asks for, beside a product of its family. */
enum {
  ANY = 0,
  WITH_UNITS = 1 << 0,    /* sums in units */
  WITHOUT_UNITS = 1 << 1, /* which take less energy where tokens are many */
  SHORT_COLUMNS = 1 << 2, /* so few that how results are stored counts for more than a stage */
  LONG_COLUMNS = 1 << 3,
  TIMED_SPREAD = 1 << 4, /* types whose last tiles all CTAs have divided in measurements */
  UNITS_SPREAD = 1 << 5, /* the same of sums in units, where ptxas has registers for it */
  THIRDS = 1 << 6,       /* types for which ptxas has registers with tokens in three parts */
  PAIRS = 1 << 7         /* of tiles below one another, without one left over */
};
#define LEAST_LONG_COLUMNS 6144

/* A schedule, and another one worth measuring; what 1024 columns of a tile take, ns. */
typedef struct form_t {
  moe__mixed_schedule_t schedules[2];
  int of_columns;
  unsigned asks;
} form_t;

#define TILE_OF(n, w, s, ctas, bands)                                                              \
  MOE__TILE(n, w, 128, s), .split = (ctas), .reuse = (ctas) > 1, .staged = 1, .band = (bands)
#define ALL_CTAS(n, w, s, bands) MOE__TILE(n, w, 128, s), .spread = 1, .staged = 1, .band = (bands)

/* Scales as factors; with four warpgroups weights become numbers in the registers of those
 * before. */
#define SCALED(n, w, s, ctas, bands)                                                               \
  TILE_OF(n, w, s, ctas, bands), MOE__LONG_SUMS, .behind = (w) == 4
#define SCALED_FORM(n, w, s, ctas, bands, ns)                                                      \
  { {{SCALED(n, w, s, ctas, bands)}, {SCALED((n) == 128 ? 96 : 128, 2, 4, 1, bands)}}, (ns), ANY }
#define SCALED_BY_2(n, w, s, bands, ns)                                                            \
  SCALED_FORM(n, w, s, 1, bands, ns), SCALED_FORM(n, w, s, 2, 0, ns)
#define SCALED_BY_4(n, w, s, bands, ns)                                                            \
  SCALED_BY_2(n, w, s, bands, ns), SCALED_FORM(n, w, s, 4, 0, ns)

/* Tiles of 256 tokens have room for a third stage, or for results. */
#define WIDEST(bands) MOE__TILE(256, 2, 128, 3), MOE__LONG_SUMS, .band = (bands)
#define SCALED_BY_ALL(n, s, bands, ns)                                                             \
  { {{ALL_CTAS(n, 2, s, bands), MOE__LONG_SUMS}, {WIDEST(bands)}}, (ns), ANY }
#define SCALED_BY_2_OR_ALL(n, s, bands, ns)                                                        \
  SCALED_BY_2(n, 2, s, bands, ns), SCALED_BY_ALL(n, s, bands, ns)
#define SCALED_BY_4_OR_ALL(n, s, bands, ns)                                                        \
  SCALED_BY_4(n, 2, s, bands, ns), SCALED_BY_ALL(n, s, bands, ns)
#define OF_SCALED_WEIGHTS(bands)                                                                   \
  {                                                                                                \
    SCALED_BY_4(64, 2, 6, bands, 3770), SCALED_BY_2(80, 2, 6, bands, 4130),                        \
        SCALED_BY_4(96, 2, 6, bands, 4430), SCALED_BY_2_OR_ALL(112, 5, bands, 4890),               \
        SCALED_BY_4_OR_ALL(128, 5, bands, 5350), SCALED_BY_2_OR_ALL(144, 4, bands, 5850),          \
        SCALED_BY_4_OR_ALL(160, 4, bands, 6230), SCALED_BY_2_OR_ALL(176, 3, bands, 6780),          \
        SCALED_BY_4_OR_ALL(192, 3, bands, 7510), SCALED_BY_2_OR_ALL(208, 3, bands, 8150),          \
        SCALED_BY_2_OR_ALL(224, 3, bands, 8670), SCALED_BY_2_OR_ALL(240, 3, bands, 9200),          \
        SCALED_FORM(256, 2, 3, 2, 0, 10330), SCALED_FORM(256, 2, 3, 4, 0, 10330),                  \
        SCALED_BY_ALL(256, 2, bands, 10330), SCALED_BY_2(96, 4, 5, bands, 8020),                   \
        SCALED_BY_2(112, 4, 4, bands, 8740), SCALED_BY_2(128, 4, 4, bands, 9980),                  \
        {{{SCALED(256, 2, 2, 1, bands)}, {WIDEST(bands)}}, 10330, SHORT_COLUMNS},                  \
        {{{WIDEST(bands)}, {SCALED(256, 2, 2, 1, bands)}}, 10330, LONG_COLUMNS},                   \
  }
static const form_t SCALED_FORMS[] = OF_SCALED_WEIGHTS(0);
static const form_t SCALED_FORMS_OF_MANY[] = OF_SCALED_WEIGHTS(1);

/* FP8 weights take twice the room. */
static const form_t FP8_FORMS[] = {
    SCALED_BY_4(64, 2, 5, 0, 4010),
    SCALED_BY_2(80, 2, 5, 0, 4750),
    SCALED_BY_4(96, 2, 4, 0, 5080),
    SCALED_BY_2(112, 2, 4, 0, 5600),
    SCALED_BY_4(128, 2, 4, 0, 6090),
    SCALED_BY_2(144, 2, 3, 0, 6550),
    SCALED_BY_4(160, 2, 3, 0, 7000),
    SCALED_BY_2(176, 2, 3, 0, 7530),
    SCALED_BY_2(192, 2, 3, 0, 8060),
    SCALED_FORM(208, 2, 3, 1, 0, 8730),
    SCALED_BY_2(96, 4, 3, 0, 9420),
    SCALED_BY_2(128, 4, 3, 0, 11250),
    {{{SCALED(208, 2, 3, 1, 0), .share = 2}, {SCALED(208, 2, 3, 1, 0)}}, 8000, PAIRS}};

/* Sums of groups, with tokens in parts; and sums in units. `shifts`: integers of bf16, which become
 * numbers with fewer. */
#define GROUPS(n, s, ctas, parts, bands, shifts)                                                   \
  TILE_OF(n, 2, s, ctas, bands), .token_parts = (parts), .unroll = 4, .subnormal = (shifts)
#define GROUPS_FORM(n, s, ctas, parts, bands, shifts, ns, asks)                                    \
  {                                                                                                \
    {{GROUPS(n, s, ctas, parts, bands, shifts)},                                                   \
     {GROUPS((n) == 128 ? 96 : 128, 4, 1, 2, bands, shifts)}},                                     \
        (ns), (asks)                                                                               \
  }
#define GROUPS_BY_2(n, s, bands, shifts, ns)                                                       \
  GROUPS_FORM(n, s, 1, 2, bands, shifts, ns, ANY), GROUPS_FORM(n, s, 2, 2, 0, shifts, ns, ANY)
#define GROUPS_BY_4(n, s, bands, shifts, ns)                                                       \
  GROUPS_BY_2(n, s, bands, shifts, ns), GROUPS_FORM(n, s, 4, 2, 0, shifts, ns, ANY)

/* A candidate and no default: no form begins with it. */
#define WIDEST_GROUPS MOE__TILE(256, 2, 128, 3), .token_parts = 4

#define IN_UNITS MOE__LONG_SUMS, .token_parts = 2, .unroll = 4
#define UNITS(n, s, ctas, bands) TILE_OF(n, 2, s, ctas, bands), IN_UNITS
#define UNITS_FORM(n, s, ctas, bands, ns)                                                          \
  { {{UNITS(n, s, ctas, bands)}, {UNITS(192, 3, 1, bands)}}, (ns), WITH_UNITS }
#define UNITS_BY_2(n, s, bands, ns) UNITS_FORM(n, s, 1, bands, ns), UNITS_FORM(n, s, 2, 0, ns)
#define WIDEST_UNITS(bands) MOE__TILE(256, 2, 128, 3), IN_UNITS, .band = (bands)

#define OF_GROUPS(bands, shifts)                                                                   \
  {                                                                                                \
    GROUPS_BY_2(80, 5, 4 * (bands), shifts, 4520), GROUPS_BY_4(96, 5, 4 * (bands), shifts, 4990),  \
        GROUPS_BY_2(112, 5, 4 * (bands), shifts, 5560),                                            \
        {{{GROUPS(128, 4, 1, 2, 4 * (bands), shifts)}, {WIDEST_GROUPS}}, 5960, ANY},               \
        GROUPS_FORM(128, 4, 2, 2, 0, shifts, 5960, ANY),                                           \
        GROUPS_FORM(128, 4, 4, 2, 0, shifts, 5960, ANY),                                           \
        GROUPS_FORM(192, 3, 1, 3, 0, shifts, 8290, THIRDS | ((bands) ? WITHOUT_UNITS : ANY)),      \
        UNITS_BY_2(160, 4, bands, 7640), UNITS_BY_2(192, 3, bands, 8830),                          \
        UNITS_FORM(256, 3, 2, 0, 11780),                                                           \
        {{{WIDEST_UNITS(bands)}, {UNITS(192, 3, 1, bands)}}, 11780, WITH_UNITS},                   \
        {{{WIDEST_UNITS(bands), .spread = 1}, {WIDEST_UNITS(bands)}}, 11780, UNITS_SPREAD},        \
        {{{ALL_CTAS(128, 2, 4, bands), .token_parts = 2, .unroll = 4, .subnormal = (shifts)},      \
          {GROUPS(128, 4, 1, 2, bands, shifts)}},                                                  \
         5960,                                                                                     \
         TIMED_SPREAD},                                                                            \
  }
static const form_t GROUP_FORMS[] = OF_GROUPS(0, 0);
static const form_t GROUP_FORMS_OF_MANY[] = OF_GROUPS(1, 0);
static const form_t SHIFTED_GROUP_FORMS[] = OF_GROUPS(0, 1);
static const form_t SHIFTED_GROUP_FORMS_OF_MANY[] = OF_GROUPS(1, 1);

/* ---- Times, ns ---- */

#define OF_COLUMNS 1024 /* that `of_columns` is the time of */
#define OF_LAUNCH 4150

/* Of the begin and the end of a tile: scales as factors, of FP8 weights, sums of groups; and with
 * f16 more. */
#define OF_SCALED_TILE 2230
#define OF_FP8_TILE 3520
#define OF_GROUPS_TILE 2340
#define OF_F16_TILE 2170

/* For each token of a tile of 128 rows: until the sums of two and of four CTAs have met, and those
 * of the last tiles that all divide. */
#define OF_TWO 14
#define OF_FOUR 22
#define OF_ALL 45

/* quantize_f16, a launch before: also 1 ps for each element of the tokens. */
#define OF_QUANTIZER 310
#define ELEMENTS_OF_NS 1000

/* Columns in groups of 32 take so much of the time of those in longer ones, where sums of groups
 * are multiplied. */
#define TENTHS_OF_32 12

/* What a product of more than 64 tokens is timed by; rows and columns are as if they were known. */
typedef struct sizes_t {
  int64_t rows, columns, tokens;
} sizes_t;

static sizes_t sizes_of(const moe__mixed_product_t *p) {
  return (sizes_t){p->rows < 0 ? USUAL_ROWS : p->rows, p->columns < 0 ? USUAL_COLUMNS : p->columns,
                   p->tokens};
}

static int64_t tiles_of(sizes_t sizes, const moe__mixed_schedule_t *s) {
  return moe__mixed_tiles_of_rows(sizes.rows, s->warpgroups) *
         moe__mixed_quotient_up(sizes.tokens, s->tile_n);
}

typedef struct forms_t {
  const form_t *forms;
  size_t count;
} forms_t;

/* A family of forms: what its products are, as forms ask for it; what a tile takes, and tenths of
 * what columns take. */
typedef struct family_t {
  forms_t all;
  unsigned is;
  int64_t of_tile, tenths;
} family_t;

#define FORMS(array)                                                                               \
  { (array), sizeof(array) / sizeof(array)[0] }

static int64_t time_of(sizes_t sizes, const form_t *form, const family_t *family) {
  const moe__mixed_schedule_t *s = form->schedules;
  int64_t ctas = s->split ? s->split : 1, tiles = tiles_of(sizes, s);
  int64_t of_columns = form->of_columns * family->tenths / 10;
  int64_t each = sizes.columns * of_columns / (OF_COLUMNS * ctas) + family->of_tile;
  int64_t tokens = (int64_t)s->tile_n * s->warpgroups / 2;
  if (s->spread)
    return OF_LAUNCH + tiles * each / MOE__MULTIPROCESSORS + OF_ALL * tokens;
  int64_t rounds = moe__mixed_quotient_up(tiles, moe__mixed_clusters_at_once((int)ctas));
  return OF_LAUNCH + rounds * each + (ctas == 4 ? OF_FOUR : ctas == 2 ? OF_TWO : 0) * tokens;
}

/* ---- The choice ---- */

/* Whether CTAs may share tokens, in several rounds of tiles; and divide a tile: its columns; the
 * last tiles, where there are some for half of the multiprocessors. */
static bool may_take(sizes_t sizes, const moe__mixed_schedule_t *s) {
  int64_t tiles = tiles_of(sizes, s);
  if (s->share > 1)
    return tiles > MOE__MULTIPROCESSORS;
  if (s->spread)
    return 2 * tiles >= MOE__MULTIPROCESSORS;
  return s->split <= 1 || moe__mixed_may_split((double)tiles, sizes.columns, s->split);
}

/* The form that takes the least time. */
static const form_t *best_of(const family_t *family, sizes_t sizes) {
  const form_t *best = family->all.forms; /* until another is found */
  int64_t least = INT64_MAX;
  for (size_t i = 0; i < family->all.count; i++) {
    const form_t *form = &family->all.forms[i];
    if ((form->asks & family->is) != form->asks || !may_take(sizes, form->schedules))
      continue;
    int64_t time = time_of(sizes, form, family);
    if (time < least) {
      best = form;
      least = time;
    }
  }
  return best;
}

/* Whether ptxas has registers for sums in units whose last tiles are divided: of groups of 128 only
 * with zero points, or columns that are not known. */
static bool may_spread_units(const moe__mixed_product_t *p) {
  return p->wants_units && (p->group != 128 || p->has_zeros || p->columns < 0);
}

/* Whether ptxas has registers for tokens in three parts: of f4E2M1FN weights whose scales are not
 * of 32 columns only with bf16 tokens and results of 16 bits. */
static bool may_have_thirds(const moe__mixed_product_t *p) {
  return !p->is_e2m1 || p->group == 32 || (!p->has_f16_tokens && !p->has_f32_results);
}

/* The second of each: of many tokens. */
static const forms_t ALL_SCALED[] = {FORMS(SCALED_FORMS), FORMS(SCALED_FORMS_OF_MANY)};
static const forms_t ALL_GROUPS[] = {FORMS(GROUP_FORMS), FORMS(GROUP_FORMS_OF_MANY)};
static const forms_t ALL_SHIFTED_GROUPS[] = {FORMS(SHIFTED_GROUP_FORMS),
                                             FORMS(SHIFTED_GROUP_FORMS_OF_MANY)};

static family_t scaled_family(sizes_t sizes) {
  unsigned is = sizes.columns < LEAST_LONG_COLUMNS ? SHORT_COLUMNS : LONG_COLUMNS;
  return (family_t){ALL_SCALED[sizes.tokens >= MANY_TOKENS], is, OF_SCALED_TILE, 10};
}

/* Sums of groups whose last tiles all CTAs divide: more tokens took longer than the model says. */
#define SPREAD_UP_TO 128

static family_t group_family(const moe__mixed_product_t *p) {
  unsigned is = (p->wants_units ? WITH_UNITS : WITHOUT_UNITS) |
                (may_spread_units(p) ? UNITS_SPREAD : 0) | (may_have_thirds(p) ? THIRDS : 0) |
                (p->is_usual_64 && p->tokens <= SPREAD_UP_TO ? TIMED_SPREAD : 0);
  const forms_t *all = p->is_bf16_integer ? ALL_SHIFTED_GROUPS : ALL_GROUPS;
  return (family_t){all[p->tokens >= MANY_TOKENS], is, OF_GROUPS_TILE,
                    p->group == 32 ? TENTHS_OF_32 : 10};
}

static family_t fp8_family(sizes_t sizes) {
  unsigned is = moe__mixed_tiles_of_rows(sizes.rows, 2) % 2 == 0 ? PAIRS : ANY;
  return (family_t){FORMS(FP8_FORMS), is, OF_FP8_TILE, 10};
}

moe__candidates_t moe__mixed_wide_candidates(const moe__mixed_product_t *p) {
  sizes_t sizes = sizes_of(p);
  family_t family = p->is_fp8                 ? fp8_family(sizes)
                    : p->wants_scaled_weights ? scaled_family(sizes)
                                              : group_family(p);
  const form_t *form = best_of(&family, sizes);
  return MOE__CANDIDATES(form->schedules);
}

bool moe__mixed_wide_in_f16(const moe__mixed_product_t *p) {
  sizes_t sizes = sizes_of(p);
  family_t groups = group_family(p), scaled = scaled_family(sizes);
  scaled.of_tile += OF_F16_TILE;
  int64_t quantizer = OF_QUANTIZER + sizes.tokens * sizes.columns / ELEMENTS_OF_NS;
  return time_of(sizes, best_of(&scaled, sizes), &scaled) + quantizer <
         time_of(sizes, best_of(&groups, sizes), &groups);
}
