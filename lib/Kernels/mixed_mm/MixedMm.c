/* MixedMm.c - the kernel of scaled_grouped_mm.mixed_mm: four-bit weights times tokens of 16 bits.
 *
 * Rows of weights are the rows of the tensor core's tiles, tokens their columns, so that few tokens
 * waste little. The weights are its first operand and come from registers, where four bits become
 * 16; the tokens are its second one and come from shared memory.
 *
 * - One thread loads. For each k-tile it waits until a stage is free, and fetches by TMA the
 *   weights, their scales and zero points, and the tokens.
 * - Each warpgroup multiplies 64 rows of weights with all tokens of the tile (Multiply.c); or each
 *   warp 16 rows, and maybe a part of their columns (Panels.c).
 * - Where there are fewer tiles than multiprocessors, the CTAs of a cluster divide the columns of
 *   the weights (Store.c).
 * - With experts a table of their tokens is made from the offsets, in shared memory, by one warp.
 *
 * A tile that reaches past the end of its expert's tokens multiplies those of the next one and
 * drops them: a token depends on nothing but itself.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/mixed_mm/MixedMm.h"

#include "lib/Builder/Inspect.h"
#include "lib/Device/Tiles.h"
#include "lib/Dialect/Shapes.h"
#include "lib/Kernels/Kernels.h"
#include "lib/Kernels/Requirements.h"

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

int moe__mixed_warps(const moe__mixed_schedule_t *schedule) {
  return moe__mixed_panels(schedule) * schedule->slices;
}

int moe__mixed_scale_bytes(MlirType scale) {
  return mlirTypeIsAF32(scale) ? 4 : mlirTypeIsAFloat8E8M0FNU(scale) ? 1 : 2;
}

/* Columns that share a scale; 0: all. */
static int group_of(MlirOperation op) {
  int64_t group = moe__op_integer(op, "group_size");
  return group < 0 ? 0 : (int)group;
}

/* The scales that a row has in a stage. */
static int scales_of_stage(int group, int depth) {
  return group ? depth / group : 1;
}

static MlirType element_of(MlirOperation op, moe__role_t role) {
  return mlirShapedTypeGetElementType(moe__tensor_type(op, role));
}

static moe__weight_format_t format_of(MlirOperation op) {
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
  int group = group_of(op), bytes = moe__mixed_scale_bytes(element_of(op, MOE__SCALES));
  if (!mlirValueIsNull(moe__operand(op, MOE__ZEROS)))
    bytes++;
  return group && group < MOE_WEIGHT_COLUMNS ? MOE_WEIGHT_COLUMNS / group * bytes : bytes;
}

/* ---- Schedules ---- */

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
    {.tile_n = 8, .panels = 4, .slices = 4, .direct = 1, .depth = 1024, .stages = 12},
    PANELS(8, 4, 2, 512, 1, 0),
    MANY_ROWS(8, 256, 4)};
static const moe__mixed_schedule_t DIRECT_14[] = {
    {.tile_n = 8, .panels = 14, .slices = 2, .direct = 1, .depth = 256, .stages = 16},
    PANELS(8, 14, 1, 512, 1, 0),
    MANY_ROWS(8, 256, 4)};

/* The types with which these schedules have run on a GPU. */
static bool loads_directly(MlirOperation op) {
  return format_of(op) == MOE__WEIGHT_I4 && group_of(op) == 64 &&
         mlirTypeIsABF16(element_of(op, MOE__SCALES)) && mlirTypeIsABF16(element_of(op, MOE__X)) &&
         mlirTypeIsABF16(element_of(op, MOE__OUT)) &&
         mlirValueIsNull(moe__operand(op, MOE__ZEROS)) &&
         mlirValueIsNull(moe__operand(op, MOE__BIAS));
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
  if (rows <= FEW)
    return MOE__CANDIDATES(PANELS_OF_FEW_ROWS[numbers][tokens > 8]);
  int64_t all = (rows + MOE_WEIGHT_ROWS - 1) / MOE_WEIGHT_ROWS;
  int64_t rounds = (all + MULTIPROCESSORS * MOST_PANELS - 1) / (MULTIPROCESSORS * MOST_PANELS);
  int64_t panels = (all + MULTIPROCESSORS * rounds - 1) / (MULTIPROCESSORS * rounds);
  if (tokens <= 8 && panels == 4 && loads_directly(op))
    return MOE__CANDIDATES(DIRECT_4);
  if (tokens <= 8 && panels == 14 && rounds == 1 && loads_directly(op))
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
static const moe__mixed_schedule_t SCALED_SHARED[] = {LONG_SHARED, LONG(256, 128, 3)};

/* Turning the weights of a tile into numbers takes as long as the products of so many tokens;
 * multiplying them by their scales takes as long again. */
#define TOKENS_OF_WEIGHTS 32
#define TOKENS_OF_SCALED_WEIGHTS 64

/* Which schedule takes the least time, if that is these and the tokens of a tile, times the tiles
 * that a multiprocessor works off one after another; a part of a tile where CTAs divide it, which
 * they do only where there are multiprocessors for all: adding their sums takes time. */
static moe__candidates_t wide_candidates(bool scaled, int64_t rows, int64_t tokens) {
  const moe__mixed_schedule_t(*wide)[LOG_SPLITS][2] = scaled ? SCALED_WIDE : WIDE;
  int64_t of_weights = scaled ? TOKENS_OF_SCALED_WEIGHTS : TOKENS_OF_WEIGHTS;
  int64_t least = INT64_MAX, least_rounds = 0, row_tiles = (rows + 127) / 128;
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
  /* In several rounds of the widest tiles two CTAs share what they read of the tokens. */
  if (scaled && tile == TILES - 1 && least_rounds > 1 && row_tiles % 2 == 0)
    return MOE__CANDIDATES(SCALED_SHARED);
  if (!scaled && tile == 1 && log_split == 0 && tokens >= MANY_TOKENS)
    return MOE__CANDIDATES(WIDE_BANDS);
  return scaled ? MOE__CANDIDATES(SCALED_WIDE[tile][log_split])
                : MOE__CANDIDATES(WIDE[tile][log_split]);
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
static const moe__mixed_schedule_t SCALED_128[] = {SCALED_ROWS(128, 3, 128, 4),
                                                   SCALED_ROWS(96, 3, 256, 2)};

static moe__candidates_t scaled_candidates(int64_t tokens) {
  if (tokens <= 24)
    return MOE__CANDIDATES(SCALED_32);
  if (tokens <= 36)
    return MOE__CANDIDATES(SCALED_48);
  if (tokens <= 56)
    return MOE__CANDIDATES(SCALED_64);
  return tokens <= 96 ? MOE__CANDIDATES(SCALED_96) : MOE__CANDIDATES(SCALED_128);
}

/* Few tokens: panels where E2M1 weights, which are more work to turn into numbers, or few tiles
 * gain by them; smaller tiles then, of which a multiprocessor has two. */
static const moe__mixed_schedule_t EXPERT_PANELS[] = {
    {.tile_n = 8, .panels = 16, .depth = 256, .stages = 5}, MANY_ROWS(8, 256, 4)};
static const moe__mixed_schedule_t SMALL_EXPERT_PANELS[] = {
    {.tile_n = 8, .panels = 8, .depth = 256, .stages = 4, .ctas_per_sm = 2}, MANY_ROWS(8, 256, 4)};

/* Up to 6 tokens of an expert, on average. */
static moe__candidates_t few_of_expert_candidates(MlirOperation op, int64_t rows, int64_t tokens,
                                                  int64_t experts) {
  int64_t touched = tokens < experts ? tokens : experts;
  if (number_bytes(op) > 4)
    return MOE__CANDIDATES(TOKENS_8[2]);
  if (rows >= 0 && touched * rows < MULTIPROCESSORS * moe__mixed_rows(EXPERT_PANELS))
    return MOE__CANDIDATES(SMALL_EXPERT_PANELS);
  return format_of(op) == MOE__WEIGHT_E2M1 ? MOE__CANDIDATES(EXPERT_PANELS)
                                           : MOE__CANDIDATES(TOKENS_8[2]);
}

/* Whether the product of a weight and its scale is a number of the tokens' type. */
static bool takes_scaled_weights(MlirOperation op) {
  return mlirTypeIsAFloat8E8M0FNU(element_of(op, MOE__SCALES)) &&
         mlirTypeIsABF16(element_of(op, MOE__X)) && format_of(op) == MOE__WEIGHT_E2M1;
}

/* By default only where the result has 16 bits: they hide what a tensor core cuts off long sums. */
static bool wants_scaled_weights(MlirOperation op) {
  return takes_scaled_weights(op) && !mlirTypeIsAF32(element_of(op, MOE__OUT));
}

/* With more scales and zero points there is room for fewer stages beside a table of many groups. */
static const moe__mixed_schedule_t EXPERTS_OF_NUMBERS[] = {MANY_ROWS(16, 128, 8),
                                                           MANY_ROWS(8, 256, 4)};

/* Of more. */
static moe__candidates_t expert_candidates(MlirOperation op, int64_t tokens) {
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

static moe__candidates_t candidates(MlirOperation op) {
  MlirType scales = moe__tensor_type(op, MOE__SCALES);
  int rank = (int)mlirShapedTypeGetRank(scales);
  int64_t tokens = moe__static_dimension(moe__tensor_type(op, MOE__X), 0);
  int64_t rows = moe__static_dimension(scales, rank - 2);
  int64_t experts = rank == 3 ? moe__static_dimension(scales, 0) : 1;
  if (tokens < 0 || experts < 0)
    return MOE__CANDIDATES(TOKENS_64[2]);
  if (rank == 3 && tokens / experts <= 6)
    return few_of_expert_candidates(op, rows, tokens, experts);
  if (rank == 3)
    return expert_candidates(op, tokens / experts);
  int class = class_of_rows(rows), numbers = class_of_numbers(number_bytes(op));
  if (tokens <= 16 && rows >= 0 && numbers < NUMBERS_CLASSES)
    return panel_candidates(op, rows, tokens, numbers);
  if (tokens <= 8)
    return MOE__CANDIDATES(TOKENS_8[class]);
  if (tokens <= 16)
    return MOE__CANDIDATES(TOKENS_16[class]);
  if (tokens <= 32)
    return numbers < NUMBERS_CLASSES ? MOE__CANDIDATES(TOKENS_32[class])
                                     : MOE__CANDIDATES(NUMBERS_32[class]);
  if (tokens <= 64)
    return MOE__CANDIDATES(TOKENS_64[class]);
  return wide_candidates(wants_scaled_weights(op), rows < 0 ? 8192 : rows, tokens);
}

#define MOST_WARPS 31 /* of a CTA's 32, of which one loads */

static bool check(MlirOperation op, const moe__mixed_schedule_t *s) {
  if (s->tile_n % 8)
    return moe__error(op, "'schedule.tile_n' is %d; it must be a multiple of 8", s->tile_n);
  if (s->depth % 128)
    return moe__error(op, "'schedule.depth' is %d; it must be a multiple of 128", s->depth);
  if (s->tile_n % (8 * s->token_parts))
    return moe__error(op, "'schedule.token_parts' is %d; each must be a multiple of 8 of %d tokens",
                      s->token_parts, s->tile_n);
  if (s->token_parts > 1 && s->in_flight > 1)
    return moe__error(op, "'schedule.token_parts' is %d; it must be 1 with in_flight",
                      s->token_parts);
  if (s->unroll > 1 && s->token_parts == 1)
    return moe__error(op, "'schedule.unroll' is %d; it must be 1 without token_parts", s->unroll);
  if (s->scaled_weights && !takes_scaled_weights(op))
    return moe__error(op, "'schedule.scaled_weights' is 1; it must be 0 but for f4E2M1FN weights "
                          "with scales of f8E8M0FNU, and bf16 tokens");
  if (s->scaled_weights && (s->token_parts > 1 || s->in_flight > 1))
    return moe__error(op,
                      "'schedule.scaled_weights' is 1; token_parts and in_flight must be 1 then");
  if (s->long_sums && !s->scaled_weights)
    return moe__error(op, "'schedule.long_sums' is 1; it must be 0 without scaled_weights");
  if (s->share > 1 && s->split > 1)
    return moe__error(op, "'schedule.share' is %d; it must be 1 with split", s->share);
  if (s->tile_n % (8 * s->share))
    return moe__error(op, "'schedule.share' is %d; each must load a multiple of 8 of %d tokens",
                      s->share, s->tile_n);
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
      l->loader_registers = FEWEST_LOADER_REGISTERS;
    int left = (all - l->loader_registers) / s->warpgroups / 8 * 8;
    l->registers = left < MOE__MIXED_MOST_REGISTERS ? left : MOE__MIXED_MOST_REGISTERS;
  }
  return l->registers >= needed ||
         moe__error(op,
                    "'schedule' leaves %d registers to each thread that multiplies; the kernel "
                    "needs %d",
                    l->registers, needed);
}

static bool lay_out(MlirOperation op, const void *schedule, void *out) {
  const moe__mixed_schedule_t *s = schedule;
  moe__mixed_layout_t *l = out;
  if (!check(op, s))
    return false;
  l->cta.ctas_per_sm = s->ctas_per_sm;
  if (!divide_registers(op, s, l))
    return false;
  int chunks = s->depth / MOE_WEIGHT_COLUMNS, rows = moe__mixed_rows(s);
  l->weights = chunks * s->tile_n * MOE__MIXED_CHUNK_BYTES;
  l->scales = l->weights + (s->direct ? 0 : moe__mixed_panels(s) * chunks * MOE_WEIGHT_BYTES);
  int numbers = scales_of_stage(group_of(op), s->depth) * rows;
  int zeros = mlirValueIsNull(moe__operand(op, MOE__ZEROS)) ? 0 : numbers;
  l->landing = l->scales + numbers * moe__mixed_scale_bytes(element_of(op, MOE__SCALES));
  l->zeros = (l->landing + BOX_ALIGNMENT - 1) / BOX_ALIGNMENT * BOX_ALIGNMENT;
  l->ring = moe__ring_reserve(&l->cta, s->stages, l->zeros + zeros);
  l->landing += zeros;
  moe__mixed_store_reserve(l, s);
  l->groups = moe__groups_reserve(&l->cta, moe__max_groups(op), MOE__GROUPS_IN_TURN);
  return true;
}

/* The numbers of a group, if there are some. */
static bool is_side_by_side(MlirOperation op, moe__role_t role) {
  MlirValue value = moe__operand(op, role);
  if (mlirValueIsNull(value) || moe__is_column_major(mlirValueGetType(value)))
    return true;
  return moe__error(op,
                    "the kernel takes the %s of a group side by side; give '%s' the encoding "
                    "affine_map<%s>",
                    moe__role_name(role), moe__role_name(role),
                    mlirShapedTypeGetRank(mlirValueGetType(value)) == 2 ? "(n, j) -> (j, n)"
                                                                        : "(e, n, j) -> (e, j, n)");
}

static bool has_kernel(MlirOperation op) {
  if (moe__has_plain_weights(op))
    return moe__error(op, "the kernel takes packed weights; moe-expand-recipes packs them, or "
                          "scaled_grouped_mm.pack_weights, whose value 'layout' has then");
  if (!is_side_by_side(op, MOE__SCALES) || !is_side_by_side(op, MOE__ZEROS))
    return false;
  MlirValue bias = moe__operand(op, MOE__BIAS);
  return (moe__is_row_major(moe__tensor_type(op, MOE__W)) &&
          moe__is_row_major(moe__tensor_type(op, MOE__X)) &&
          (mlirValueIsNull(bias) || moe__is_row_major(mlirValueGetType(bias))) &&
          moe__is_row_major(moe__tensor_type(op, MOE__OUT))) ||
         moe__error(
             op,
             "the kernel takes all tensors but scales and zeros row-major; remove their encoding");
}

/* ---- Parameters ---- */

static const moe__expression_t *product_of(moe__mixed_mm_t *s, const moe__expression_t *x,
                                           int64_t y) {
  moe__record_t *record = &s->kernel.record;
  return moe__expression_mul(record, MOE__EXPRESSIONS(x, moe__expression_constant(record, y)));
}

/* Adds the dimension of experts, where there are some, behind matrices of so many bytes. */
static void add_experts(moe__mixed_mm_t *s, moe__tensor_map_t *map,
                        const moe__expression_t *matrix_bytes) {
  if (s->experts.size == 1 && mlirValueIsNull(s->offs))
    return;
  map->dims[map->rank] = s->experts.expression;
  map->strides[map->rank - 1] = matrix_bytes;
  map->box[map->rank++] = 1;
}

static MlirValue add_weights(moe__mixed_mm_t *s, MlirOperation op) {
  moe__record_t *record = &s->kernel.record;
  const moe__expression_t *chunks =
      moe__expression_ceildiv(record, s->depth.expression, MOE_WEIGHT_COLUMNS);
  const moe__expression_t *panels =
      moe__expression_ceildiv(record, s->rows.expression, MOE_WEIGHT_ROWS);
  const moe__expression_t *panel = product_of(s, chunks, MOE_WEIGHT_BYTES);
  moe__tensor_map_t map = {
      .tensor = moe__tensor_number(op, MOE__W),
      .element = MOE__MAP_F32,
      .rank = 3,
      .dims = {moe__expression_constant(record, MOE_WEIGHT_BYTES / 4), chunks, panels},
      .strides = {moe__expression_constant(record, MOE_WEIGHT_BYTES), panel},
      .box = {MOE_WEIGHT_BYTES / 4, s->schedule.depth / MOE_WEIGHT_COLUMNS,
              moe__mixed_panels(&s->schedule)}};
  add_experts(s, &map, moe__expression_mul(record, MOE__EXPRESSIONS(panels, panel)));
  return moe__kernel_tensor_map(&s->kernel, &map);
}

/* A number for each row and group, side by side for a group: scales, or zero points. */
static MlirValue add_numbers(moe__mixed_mm_t *s, MlirOperation op, moe__role_t role, int bytes) {
  moe__record_t *record = &s->kernel.record;
  const moe__expression_t *groups =
      s->group ? moe__expression_ceildiv(record, s->depth.expression, s->group)
               : moe__expression_constant(record, 1);
  const moe__expression_t *row = product_of(s, s->rows.expression, bytes);
  moe__tensor_map_t map = {
      .tensor = moe__tensor_number(op, role),
      .element = bytes == 4   ? MOE__MAP_F32
                 : bytes == 2 ? MOE__MAP_BF16
                              : MOE__MAP_U8,
      .rank = 2,
      .dims = {s->rows.expression, groups},
      .strides = {row},
      .box = {moe__mixed_rows(&s->schedule), scales_of_stage(s->group, s->schedule.depth)}};
  add_experts(s, &map, moe__expression_mul(record, MOE__EXPRESSIONS(groups, row)));
  return moe__kernel_tensor_map(&s->kernel, &map);
}

static MlirValue add_tokens(moe__mixed_mm_t *s, MlirOperation op) {
  moe__tensor_map_t map = {.tensor = moe__tensor_number(op, MOE__X),
                           .element = MOE__MAP_BF16,
                           .rank = 2,
                           .dims = {s->depth.expression, s->tokens.expression},
                           .strides = {product_of(s, s->depth.expression, 2)},
                           .box = {MOE_WEIGHT_COLUMNS, s->schedule.tile_n / s->schedule.share},
                           .swizzle = MOE__SWIZZLE_128B};
  return moe__kernel_tensor_map(&s->kernel, &map);
}

static void add_parameters(moe__mixed_mm_t *s, MlirOperation op) {
  moe__kernel_t *kernel = &s->kernel;
  MlirType scales = moe__tensor_type(op, MOE__SCALES), x = moe__tensor_type(op, MOE__X);
  int scales_number = moe__tensor_number(op, MOE__SCALES),
      x_number = moe__tensor_number(op, MOE__X);
  int rank = (int)mlirShapedTypeGetRank(scales), offs = moe__tensor_number(op, MOE__OFFS);
  s->experts = rank == 3 ? moe__kernel_extent(kernel, scales_number, 0, scales)
                         : moe__kernel_constant_extent(kernel, 1);
  s->rows = moe__kernel_extent(kernel, scales_number, rank - 2, scales);
  s->tokens = moe__kernel_extent(kernel, x_number, 0, x);
  s->depth = moe__kernel_extent(kernel, x_number, 1, x);
  if (rank == 3) {
    s->offs = moe__kernel_pointer(kernel, offs);
    s->status = moe__kernel_status(kernel);
    moe__require_groups(kernel, offs);
  }
  if (s->schedule.direct)
    s->w = moe__kernel_pointer(kernel, moe__tensor_number(op, MOE__W));
  else
    s->w_map = add_weights(s, op);
  s->scale_map = add_numbers(s, op, MOE__SCALES, moe__mixed_scale_bytes(s->scale_type));
  if (!mlirValueIsNull(moe__operand(op, MOE__ZEROS)))
    s->zero_map = add_numbers(s, op, MOE__ZEROS, 1);
  s->x_map = add_tokens(s, op);
  if (!mlirValueIsNull(moe__operand(op, MOE__BIAS)))
    s->bias = moe__kernel_pointer(kernel, moe__tensor_number(op, MOE__BIAS));
  s->out = moe__kernel_pointer(kernel, moe__tensor_number(op, MOE__OUT));
  moe__require_shapes(kernel, op);
  moe__kernel_require(kernel, scales_number, rank - 2, MOE__MULTIPLE_OF, MOE_WEIGHT_ROWS);
  moe__kernel_require(kernel, x_number, 1, MOE__AT_LEAST, MOE_MX_BLOCK);
  moe__kernel_require(kernel, x_number, 1, MOE__MULTIPLE_OF, s->group ? s->group : MOE_MX_BLOCK);
  if (s->group)
    moe__kernel_require_quotient(kernel, scales_number, rank - 1, x_number, 1, s->group, -1);
}

/* ---- Tiles ---- */

/* The rows of a tile, of all CTAs that share its tokens. */
static int tile_rows(const moe__mixed_mm_t *s) {
  return moe__mixed_rows(&s->schedule) * s->schedule.share;
}

static MlirValue row_tiles(moe__mixed_mm_t *s) {
  return moe__ceil_div(&s->kernel.builder, s->rows.value, tile_rows(s));
}

static MlirValue tile_count(moe__mixed_mm_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  if (!mlirValueIsNull(s->offs))
    return moe__groups_total(&s->groups);
  return moe__mul(b, moe__ceil_div(b, s->tokens.value, s->schedule.tile_n), row_tiles(s));
}

/* The first row of this CTA in row tile `index`. */
static MlirValue first_row(moe__mixed_mm_t *s, MlirValue index) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue row = moe__mul(b, index, tile_rows(s));
  if (s->schedule.share == 1)
    return row;
  return moe__add(b, row, moe__mul(b, s->kernel.cluster_rank, moe__mixed_rows(&s->schedule)));
}

#define ALL_TOKENS 4096 /* a band that has all */

/* Tiles of the same weights come one after another. */
static moe__mixed_tile_t tile_at(moe__mixed_mm_t *s, MlirValue index) {
  moe__builder_t *b = &s->kernel.builder;
  if (!mlirValueIsNull(s->offs)) {
    moe__group_tile_t tile = moe__groups_tile(&s->groups, index);
    return (moe__mixed_tile_t){.expert = tile.group,
                               .row = first_row(s, tile.column),
                               .token = tile.row,
                               .token_end = tile.row_end};
  }
  MlirValue across = moe__ceil_div(b, s->tokens.value, s->schedule.tile_n);
  if (s->schedule.band < ALL_TOKENS) {
    MlirValue of_band = moe__mul(b, row_tiles(s), s->schedule.band);
    MlirValue band = moe__udiv(b, index, of_band), within = moe__urem(b, index, of_band);
    MlirValue before = moe__mul(b, band, s->schedule.band);
    MlirValue width = moe__umin(b, moe__sub(b, across, before), s->schedule.band);
    MlirValue token = moe__add(b, before, moe__urem(b, within, width));
    return (moe__mixed_tile_t){.expert = moe__i32(b, 0),
                               .row = first_row(s, moe__udiv(b, within, width)),
                               .token = moe__mul(b, token, s->schedule.tile_n),
                               .token_end = s->tokens.value};
  }
  return (moe__mixed_tile_t){.expert = moe__i32(b, 0),
                             .row = first_row(s, moe__udiv(b, index, across)),
                             .token = moe__mul(b, moe__urem(b, index, across), s->schedule.tile_n),
                             .token_end = s->tokens.value};
}

static moe__mixed_reduction_t reduction_of(moe__mixed_mm_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue all = moe__ceil_div(b, s->depth.value, s->schedule.depth);
  if (s->schedule.split == 1)
    return (moe__mixed_reduction_t){moe__i32(b, 0), all};
  MlirValue rank = s->kernel.cluster_rank;
  MlirValue first = moe__udiv(b, moe__mul(b, all, rank), s->schedule.split);
  MlirValue end = moe__udiv(b, moe__mul(b, all, moe__add(b, rank, 1)), s->schedule.split);
  /* Who has none takes one behind the last, which is all zeros: warps need not ask. */
  MlirValue has_none = moe__eq(b, first, end);
  return (moe__mixed_reduction_t){moe__select(b, has_none, all, first),
                                  moe__umax(b, moe__sub(b, end, first), 1)};
}

/* Between two tiles: the sums of the one before have been read. */
static void end_tile(moe__mixed_mm_t *s, MlirValue index, MlirValue total, bool multiplies) {
  moe__builder_t *b = &s->kernel.builder;
  if (s->schedule.split == 1 && (s->schedule.slices == 1 || !multiplies))
    return;
  MOE__IF (b, moe__ult(b, moe__add(b, index, moe__tiles_step(&s->kernel)), total)) {
    if (s->schedule.split > 1)
      moe__cluster_barrier(b);
    else
      moe__mixed_slices_barrier(s);
  }
}

/* ---- The warp, or warpgroup, that loads: one thread does ---- */

/* Loads a tile's tokens, from `column` on, to `to`; of those that the CTAs of a cluster share, each
 * loads a part, for all. */
static void load_tokens(moe__mixed_mm_t *s, MlirValue token, MlirValue column, MlirValue to,
                        MlirValue landed) {
  moe__builder_t *b = &s->kernel.builder;
  if (s->schedule.share == 1) {
    moe__tma_load(b, s->x_map, to, landed, 2, (MlirValue[]){column, token});
    return;
  }
  MlirValue part = moe__mul(b, s->kernel.cluster_rank, s->schedule.tile_n / s->schedule.share);
  MlirValue all = moe__trunc(b, moe__i32(b, (1 << s->schedule.share) - 1), b->i16);
  moe__tma_load_multicast(b, s->x_map,
                          moe__offset(b, to, moe__mul(b, part, MOE__MIXED_CHUNK_BYTES)), landed, 2,
                          (MlirValue[]){column, moe__add(b, token, part)}, all);
}

static void load_k_tile(moe__mixed_mm_t *s, const moe__mixed_tile_t *tile, MlirValue index,
                        moe__cursor_t cursor) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  const moe__mixed_schedule_t *schedule = &s->schedule;
  const moe__mixed_layout_t *l = &s->layout;
  int chunks = schedule->depth / MOE_WEIGHT_COLUMNS;
  int scales = scales_of_stage(s->group, schedule->depth);
  MlirValue landed = moe__ring_acquire(kernel, &l->ring, cursor, moe__i32(b, l->landing));
  MlirValue buffer = moe__ring_buffer(kernel, &l->ring, cursor);
  bool experts = !mlirValueIsNull(s->offs);
  if (!schedule->direct)
    moe__tma_load(b, s->w_map, moe__offset_by(b, buffer, l->weights), landed, experts ? 4 : 3,
                  (MlirValue[]){moe__i32(b, 0), moe__mul(b, index, chunks),
                                moe__lshr(b, tile->row, 4), tile->expert});
  MlirValue numbers[] = {tile->row, s->group ? moe__mul(b, index, scales) : moe__i32(b, 0),
                         tile->expert};
  moe__tma_load(b, s->scale_map, moe__offset_by(b, buffer, l->scales), landed, experts ? 3 : 2,
                numbers);
  if (!mlirValueIsNull(s->zero_map))
    moe__tma_load(b, s->zero_map, moe__offset_by(b, buffer, l->zeros), landed, experts ? 3 : 2,
                  numbers);
  MlirValue column = moe__mul(b, index, schedule->depth);
  for (int i = 0; i < chunks; i++)
    load_tokens(s, tile->token, moe__add(b, column, i * MOE_WEIGHT_COLUMNS),
                moe__offset_by(b, buffer, i * schedule->tile_n * MOE__MIXED_CHUNK_BYTES), landed);
}

/* Loads the k-tiles of a tile from number `from` to `to` of this CTA's. */
static void load_k_tiles(moe__mixed_mm_t *s, const moe__mixed_tile_t *tile,
                         const moe__mixed_reduction_t *reduction, MlirValue from, MlirValue to,
                         moe__cursor_t cursor) {
  moe__builder_t *b = &s->kernel.builder;
  /* LLVM unrolls a loop whose count it knows, which takes registers that are not left here. */
  if (moe__mixed_is_tight(&s->schedule))
    to = moe__fresh(b, to);
  MOE__FOR (b, k_tile, from, to, 1, MOE__CARRY_CURSOR(cursor)) {
    load_k_tile(s, tile, moe__add(b, reduction->first, k_tile), cursor);
    cursor = moe__cursor_next(b, &s->layout.ring, cursor);
  }
}

/* In a cluster that divides columns the first loads are issued while its CTAs come together; but
 * experts' tiles are known behind that. */
static bool loads_early(const moe__mixed_mm_t *s) {
  return mlirValueIsNull(s->offs) && s->schedule.split > 1;
}

/* How many k-tiles of the first tile are on their way then. */
static MlirValue early_count(moe__mixed_mm_t *s, const moe__mixed_reduction_t *reduction) {
  moe__builder_t *b = &s->kernel.builder;
  if (!loads_early(s))
    return moe__i32(b, 0);
  return moe__umin(b, reduction->count, s->schedule.stages);
}

static void load_early(moe__mixed_mm_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue first = moe__tiles_first(&s->kernel);
  moe__mixed_reduction_t reduction = reduction_of(s);
  MOE__IF (b, moe__ult(b, first, tile_count(s))) {
    moe__mixed_tile_t tile = tile_at(s, first);
    load_k_tiles(s, &tile, &reduction, moe__i32(b, 0), early_count(s, &reduction),
                 moe__cursor_start(b));
  }
}

static void load_tiles(moe__mixed_mm_t *s, MlirValue loads) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  moe__mixed_reduction_t reduction = reduction_of(s);
  moe__cursor_t cursor = moe__cursor_start(b);
  MlirValue total = tile_count(s), done = early_count(s, &reduction);
  MOE__FOR (b, index, moe__tiles_first(kernel), total, moe__tiles_step(kernel),
            MOE__CARRY_CURSOR(cursor), &done) {
    moe__mixed_tile_t tile = tile_at(s, index);
    MOE__IF (b, loads) {
      load_k_tiles(s, &tile, &reduction, done, reduction.count,
                   moe__cursor_advance(b, &s->layout.ring, cursor, done));
    }
    done = moe__i32(b, 0);
    cursor = moe__cursor_advance(b, &s->layout.ring, cursor, reduction.count);
    if (s->schedule.split > 1) {
      moe__warp_barrier(b);
      moe__cluster_barrier(b); /* that of moe__mixed_store */
    }
    end_tile(s, index, total, false);
  }
}

/* ---- The warps that multiply ---- */

static moe__mixed_position_t position_of(moe__mixed_mm_t *s, MlirValue thread) {
  moe__builder_t *b = &s->kernel.builder;
  moe__mixed_position_t self = {.panel = moe__lshr(b, thread, 5),
                                .lane = moe__and(b, thread, MOE__WARP - 1)};
  if (s->schedule.slices > 1) {
    self.slice = moe__udiv(b, self.panel, s->schedule.panels);
    self.panel = moe__urem(b, self.panel, s->schedule.panels);
  }
  return self;
}

static void multiply_tiles(moe__mixed_mm_t *s) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  moe__mixed_position_t self = position_of(s, kernel->thread);
  moe__mixed_reduction_t reduction = reduction_of(s);
  moe__cursor_t cursor = moe__cursor_start(b);
  MlirValue total = moe__warp_uniform(b, tile_count(s));
  reduction.count = moe__warp_uniform(b, reduction.count);
  MOE__FOR (b, index, moe__tiles_first(kernel), total, moe__tiles_step(kernel),
            MOE__CARRY_CURSOR(cursor)) {
    moe__mixed_fragment_t sums;
    moe__mixed_tile_t of_weights;
    if (s->schedule.direct)
      of_weights = tile_at(s, index);
    if (s->schedule.panels)
      moe__mixed_multiply_panel(s, &self, &reduction, s->schedule.direct ? &of_weights : NULL,
                                cursor, sums);
    else
      moe__mixed_multiply(s, &self, &reduction, cursor, sums);
    /* Asked for here, where it is needed: so it takes no registers before. */
    moe__mixed_tile_t tile = tile_at(s, moe__fresh(b, index));
    moe__mixed_position_t same = self;
    if (moe__mixed_is_tight(&s->schedule))
      same = position_of(s, moe__fresh(b, kernel->thread));
    moe__mixed_store(s, &same, &tile, sums);
    cursor = moe__cursor_advance(b, &s->layout.ring, cursor, reduction.count);
    end_tile(s, index, total, true);
  }
}

/* ---- The kernel ---- */

/* No more CTAs than tiles, where each token may be a tile of its own with experts. */
static const moe__expression_t *grid_expression(moe__mixed_mm_t *s) {
  moe__record_t *record = &s->kernel.record;
  const moe__expression_t *rows = moe__expression_ceildiv(record, s->rows.expression, tile_rows(s));
  const moe__expression_t *tokens = s->tokens.expression;
  if (mlirValueIsNull(s->offs))
    tokens = moe__expression_ceildiv(record, tokens, s->schedule.tile_n);
  const moe__expression_t *tiles = moe__expression_mul(record, MOE__EXPRESSIONS(tokens, rows));
  return s->kernel.cluster_size > 1
             ? moe__expression_persistent_clusters(record, tiles, s->kernel.cluster_size)
             : moe__expression_persistent(record, tiles, s->schedule.ctas_per_sm);
}

static void initialize(moe__mixed_mm_t *s, MlirValue loads) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  MOE__IF (b, loads) {
    if (!s->schedule.direct)
      moe__tma_prefetch_map(b, s->w_map);
    moe__tma_prefetch_map(b, s->scale_map);
    moe__tma_prefetch_map(b, s->x_map);
    if (!mlirValueIsNull(s->zero_map))
      moe__tma_prefetch_map(b, s->zero_map);
    moe__ring_initialize(kernel, &s->layout.ring,
                         moe__mixed_warps(&s->schedule) * s->schedule.share);
  }
  if (!mlirValueIsNull(s->offs)) {
    s->groups = moe__groups_create(kernel, &s->layout.groups, s->experts.value, s->schedule.tile_n,
                                   row_tiles(s), s->schedule.band);
    s->groups.scans_apart = s->schedule.panels > 0; /* few tokens: the start counts */
    MOE__IF (b, moe__ult(b, kernel->thread, MOE__WARP)) {
      moe__groups_initialize(&s->groups, s->offs, s->tokens.value, kernel->thread, s->status);
    }
  }
  moe__warp_barrier(b);
  if (kernel->cluster_size == 1) {
    moe__cta_barrier(b);
    return;
  }
  /* Behind it every CTA of the cluster has begun, so that the others may reach it. */
  moe__cluster_arrive(b);
  if (loads_early(s)) {
    MOE__IF (b, loads) {
      load_early(s);
    }
    moe__warp_barrier(b);
  }
  moe__cluster_wait(b);
}

static bool lower(const moe__lowering_t *lowering) {
  MlirOperation op = lowering->op;
  const moe__mixed_schedule_t *schedule = lowering->schedule;
  const moe__mixed_layout_t *layout = lowering->layout;
  moe__mixed_mm_t s = {.schedule = *schedule,
                       .layout = *layout,
                       .format = format_of(op),
                       .group = group_of(op),
                       .x_type = element_of(op, MOE__X),
                       .scale_type = element_of(op, MOE__SCALES),
                       .out_type = element_of(op, MOE__OUT)};
  moe__kernel_t *kernel = &s.kernel;
  moe__builder_t *b = &kernel->builder;
  moe__lowering_begin(lowering, kernel);
  add_parameters(&s, op);
  moe__kernel_cluster(kernel, s.schedule.split * s.schedule.share);
  moe__kernel_prologue(kernel);
  moe__kernel_await_launches(kernel);
  MlirValue loader = moe__i32(b, moe__mixed_warps(&s.schedule) * MOE__WARP);
  MlirValue loads = moe__eq(b, kernel->thread, loader);
  initialize(&s, loads);
  MOE__IF (b, moe__ult(b, kernel->thread, loader)) {
    if (layout->divides)
      moe__registers_increase(b, layout->registers);
    multiply_tiles(&s);
  }
  MOE__ELSE (b) {
    if (layout->divides)
      moe__registers_decrease(b, layout->loader_registers);
    load_tiles(&s, loads);
  }
  if (s.schedule.share > 1) { /* no CTA ends while another may still reach it */
    moe__warp_barrier(b);
    moe__cluster_barrier(b);
  }
  moe__lowering_end(lowering, kernel, grid_expression(&s));
  return true;
}

const moe__kernel_definition_t moe__mixed_mm_kernel = {
    .ops = {MOE__OP_MIXED_MM, MOE__OP_MIXED_MM_ZEROS, MOE__OP_MIXED_MM_BIAS,
            MOE__OP_MIXED_MM_ZEROS_BIAS},
    .has_kernel = has_kernel,
    .schedule = &moe__mixed_schedule,
    .candidates = candidates,
    .layout_size = sizeof(moe__mixed_layout_t),
    .layout = lay_out,
    .lower = lower,
};
