/* Round.c - the kernel of mx_quantize.round and round_dual: the numbers that x has once it is
 * quantized in MX blocks, as bf16.
 *
 * A CTA takes 32 rows of its columns: whole MX blocks in both directions. A lane has vectors of 8
 * columns, one below the other, all loaded before the first is used. The largest magnitudes of a
 * row's MX block are found by four lanes. Those of a column's are found by the lane, for its own
 * vectors, and by the lanes above and below; where warps lie below one another, they meet in shared
 * memory.
 *
 * Which lanes have a row decides how fast this is: a warp stores pieces of rows, 512 bytes where
 * all lanes have one row. CTAs end with their tile, so that others load while one stores.
 *
 * Tokens in groups are cut into MX blocks from the start of each group, so that tiles are those of
 * groups; rows in none are not written.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Builder/Inspect.h"
#include "lib/Device/Async.h"
#include "lib/Device/Groups.h"
#include "lib/Device/Tiles.h"
#include "lib/Device/Vectors.h"
#include "lib/Device/Warp.h"
#include "lib/Dialect/Dialect.h"
#include "lib/Kernels/Kernels.h"
#include "lib/Kernels/Requirements.h"
#include "lib/Kernels/mx_quantize/Schedule.h"

#include "mlir-c/BuiltinTypes.h"

#define COLUMNS 8                            /* of a vector of bf16 */
#define BLOCK_LANES (MOE_MX_BLOCK / COLUMNS) /* that share a row's MX block */
#define MOST_VECTORS 8                       /* of a lane */

/* ---- The schedule ---- */

MOE__SCHEDULE_KIND(moe__round_schedule, moe__round_schedule_t, MOE__ROUND_SCHEDULE, "round",
                   "round, round_dual");

/* Across rows, or both ways: a lane finds the scales of its columns, and uses them for as many rows
 * as it can hold. */
static const moe__round_schedule_t ACROSS_ROWS[] = {
    {.lanes = 16, .vectors = 4},
    {.lanes = 8, .vectors = 8, .warps = 8, .ctas_per_sm = 2},
    {.lanes = 32, .vectors = 8, .ctas_per_sm = 5},
    {.lanes = 32, .vectors = 4, .warps = 8, .ctas_per_sm = 4},
    {.lanes = 8, .vectors = 8, .warps = 8, .ctas_per_sm = 2, .persistent = 1},
};

static const moe__round_schedule_t ALONG_ROWS[] = {
    {.lanes = 32, .vectors = 4, .warps = 8, .ctas_per_sm = 4},
    {.lanes = 16, .vectors = 4},
    {.lanes = 8, .vectors = 8, .warps = 8, .ctas_per_sm = 2, .persistent = 1},
};

/* Columns that a warp has, and warps that have MX blocks of columns in common. */
static int warp_columns(const moe__round_schedule_t *s) {
  return s->lanes * COLUMNS;
}

static int warps_below(const moe__round_schedule_t *s) {
  return s->lanes / s->vectors;
}

/* Columns of a CTA's tile. */
static int tile_columns(const moe__round_schedule_t *s) {
  return s->warps / warps_below(s) * warp_columns(s);
}

/* Of round: whether MX blocks lie along the last dimension. */
static bool is_along_rows(MlirOperation op) {
  return moe__op_integer(op, "axis") == mlirShapedTypeGetRank(moe__tensor_type(op, MOE__X)) - 1;
}

static moe__candidates_t candidates(MlirOperation op) {
  return moe__is(op, MOE__OP_ROUND_DUAL) || !is_along_rows(op) ? MOE__CANDIDATES(ACROSS_ROWS)
                                                               : MOE__CANDIDATES(ALONG_ROWS);
}

typedef struct round_layout_t {
  moe__layout_t cta;
  int32_t maxima; /* with warps below one another: a vector of each thread */
  moe__groups_layout_t groups;
} round_layout_t;

static bool is_power_of_two(int number) {
  return (number & (number - 1)) == 0;
}

static bool lay_out(MlirOperation op, const void *schedule, void *out) {
  const moe__round_schedule_t *s = schedule;
  round_layout_t *l = out;
  if (!is_power_of_two(s->lanes) || !is_power_of_two(s->vectors))
    return moe__error(
        op, "'schedule.lanes' is %d and 'schedule.vectors' is %d; they must be powers of two",
        s->lanes, s->vectors);
  if (s->warps % warps_below(s))
    return moe__error(op,
                      "'schedule.warps' is %d; it must be a multiple of %d, the warps that have 32 "
                      "rows with these lanes and vectors",
                      s->warps, warps_below(s));
  l->cta.threads = s->warps * MOE__WARP;
  l->cta.ctas_per_sm = s->ctas_per_sm;
  l->cta.registers = moe__vector_registers(s->vectors);
  if (warps_below(s) > 1)
    l->maxima = moe__layout_shared(&l->cta, l->cta.threads * MOE__VECTOR_BYTES, 128);
  l->groups = moe__groups_reserve(&l->cta, moe__max_groups(op), MOE__GROUPS_IN_TURN);
  return true;
}

/* ---- The kernel under construction ---- */

/* The directions in which MX blocks lie: along the last dimension, along the one before. */
enum { ROWS, CROSS, NUM_DIRECTIONS };

/* Tensors are seen as (E,N,K), those of rank 2 with E = 1. */
typedef struct rounding_t {
  moe__kernel_t kernel;
  moe__round_schedule_t schedule;
  int32_t maxima; /* of round_layout_t */
  moe__elements_t elements;
  moe__fp8_t element;
  moe__mx_mode_t mode;
  bool grouped;
  moe__extent_t e, n, k;
  MlirValue x, out[NUM_DIRECTIONS]; /* null where there is none */
  MlirValue offs, status, lane;
  moe__groups_t groups;
} rounding_t;

/* A warp's part of a tile: rows from `row` on, its first, those below row_end; and where the lane's
 * column is. */
typedef struct part_t {
  MlirValue expert, row, row_end, column;
  MlirValue vectors[MOST_VECTORS];
} part_t;

/* Number of the element of x, i64. */
static MlirValue offset_of(rounding_t *s, const part_t *part, MlirValue row, MlirValue column) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue above =
      moe__add(b, moe__wide_mul(b, part->expert, s->n.value), moe__zext(b, row, b->i64));
  return moe__add(b, moe__mul(b, above, moe__zext(b, s->k.value, b->i64)),
                  moe__zext(b, column, b->i64));
}

static MlirValue row_of(rounding_t *s, const part_t *part, int i) {
  moe__builder_t *b = &s->kernel.builder;
  int at_once = MOE__WARP / s->schedule.lanes;
  return moe__add(b, part->row, moe__add(b, moe__udiv(b, s->lane, s->schedule.lanes), i * at_once));
}

/* Past the end the last row and the last column are loaded once more: no load depends on a branch,
 * and neither changes the largest magnitude of a block that is stored. */
static void load(rounding_t *s, part_t *part) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue last = moe__sub(b, part->row_end, 1);
  MlirValue column = moe__umin(b, part->column, moe__sub(b, s->k.value, COLUMNS));
  for (int i = 0; i < s->schedule.vectors; i++) {
    MlirValue row = moe__umin(b, row_of(s, part, i), last);
    MlirValue offset = offset_of(s, part, row, column);
    part->vectors[i] = moe__vector_load(b, moe__offset(b, s->x, moe__shl(b, offset, 1)));
  }
}

/* What elements of an MX block are multiplied by, and then their FP8. */
typedef struct factors_t {
  MlirValue to, from; /* f32 */
} factors_t;

static factors_t factors_of(rounding_t *s, MlirValue scale) {
  moe__builder_t *b = &s->kernel.builder;
  return (factors_t){moe__mx_reciprocal(b, scale), moe__e8m0_value(b, scale)};
}

static MlirValue scale_of(rounding_t *s, MlirValue amax_bits) {
  moe__builder_t *b = &s->kernel.builder;
  return moe__mx_scale(b, moe__bitcast(b, amax_bits, b->f32), s->mode, s->element);
}

/* Rounds and stores vector number i, whose columns have these factors. */
static void store(rounding_t *s, const part_t *part, int i, const factors_t factors[COLUMNS],
                  MlirValue out) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue words[MOE__VECTOR_WORDS], stored[MOE__VECTOR_WORDS], values[COLUMNS];
  /* As if just loaded: what one direction makes of each element would be kept for the other, in
   * more registers than there are. */
  for (int w = 0; w < MOE__VECTOR_WORDS; w++)
    words[w] = moe__fresh(b, moe__extract(b, part->vectors[i], w));
  for (int j = 0; j < COLUMNS; j += 4) {
    MlirValue scaled[4];
    for (int c = 0; c < 4; c++) {
      MlirValue word = words[(j + c) / s->elements.per_word];
      MlirValue x = moe__word_element(b, &s->elements, word, (j + c) % s->elements.per_word);
      scaled[c] = moe__fmul(b, x, factors[j + c].to);
    }
    moe__fp8_unpack4(b, moe__fp8_pack4(b, scaled, s->element), s->element, values + j);
    for (int c = 0; c < 4; c++)
      values[j + c] = moe__fmul(b, values[j + c], factors[j + c].from);
  }
  for (int w = 0; w < MOE__VECTOR_WORDS; w++)
    stored[w] = moe__word_of(b, &s->elements, values + (ptrdiff_t)w * s->elements.per_word);
  MlirValue row = row_of(s, part, i);
  MlirValue inside =
      moe__and(b, moe__ult(b, row, part->row_end), moe__ult(b, part->column, s->k.value));
  MOE__IF (b, inside) {
    MlirValue offset = offset_of(s, part, row, part->column);
    moe__store_aligned(b, moe__vector(b, MOE__VECTOR_WORDS, stored),
                       moe__offset(b, out, moe__shl(b, offset, 1)), MOE__VECTOR_BYTES);
  }
}

/* MX blocks of rows: of four vectors at a time each of four lanes gets the largest of one; of two
 * vectors two lanes. */
static void round_rows(rounding_t *s, const part_t *part) {
  moe__builder_t *b = &s->kernel.builder;
  int count = s->schedule.vectors < BLOCK_LANES ? s->schedule.vectors : BLOCK_LANES;
  for (int first = 0; first < s->schedule.vectors; first += count) {
    MlirValue words[BLOCK_LANES];
    for (int i = 0; i < count; i++)
      words[i] = moe__vector_magnitudes(b, &s->elements, part->vectors[first + i]);
    MlirValue word = moe__warp_reduce_many(b, count, words, BLOCK_LANES, s->lane, moe__larger_words,
                                           &s->elements);
    MlirValue scale = scale_of(s, moe__word_amax(b, &s->elements, word));
    for (int i = 0; i < count; i++) {
      factors_t factors[COLUMNS];
      factors[0] =
          factors_of(s, moe__shuffle_among(b, scale, i * (BLOCK_LANES / count), BLOCK_LANES));
      for (int c = 1; c < COLUMNS; c++)
        factors[c] = factors[0];
      store(s, part, first + i, factors, s->out[ROWS]);
    }
  }
}

/* MX blocks of columns: of pair w of the lane's columns the largest magnitudes of its own rows, and
 * those of the lanes below and above. */
static MlirValue find_columns(rounding_t *s, const part_t *part, int w) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue largest = {NULL};
  for (int i = 0; i < s->schedule.vectors; i++) {
    MlirValue word = moe__word_magnitudes(b, &s->elements, moe__extract(b, part->vectors[i], w));
    largest = i == 0 ? word : moe__word_max(b, &s->elements, largest, word);
  }
  for (int mask = s->schedule.lanes; mask < MOE__WARP; mask *= 2)
    largest = moe__word_max(b, &s->elements, largest, moe__shuffle_xor(b, largest, mask));
  return largest;
}

/* Where thread `thread` keeps what it has found, for the warps that have the same columns. */
static MlirValue maxima_of(rounding_t *s, MlirValue thread) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue offset = moe__mul(b, thread, MOE__VECTOR_BYTES);
  return moe__offset_by(b, moe__offset(b, s->kernel.shared, offset), s->maxima);
}

/* The largest of what all these warps have found, after a barrier. */
static void join_columns(rounding_t *s, MlirValue out[MOE__VECTOR_WORDS]) {
  moe__builder_t *b = &s->kernel.builder;
  int side_by_side = s->schedule.warps / warps_below(&s->schedule) * MOE__WARP; /* threads */
  MlirValue first = moe__urem(b, s->kernel.thread, side_by_side);
  for (int i = 0; i < warps_below(&s->schedule); i++) {
    MlirValue vector = moe__vector_load(b, maxima_of(s, moe__add(b, first, i * side_by_side)));
    for (int w = 0; w < MOE__VECTOR_WORDS; w++) {
      MlirValue word = moe__extract(b, vector, w);
      out[w] = i == 0 ? word : moe__word_max(b, &s->elements, out[w], word);
    }
  }
}

/* found: what join_columns has found, else NULL. */
static void round_columns(rounding_t *s, const part_t *part, const MlirValue *found) {
  moe__builder_t *b = &s->kernel.builder;
  factors_t factors[COLUMNS];
  for (int w = 0; w < MOE__VECTOR_WORDS; w++) {
    MlirValue largest = found ? found[w] : find_columns(s, part, w);
    for (int c = 0; c < s->elements.per_word; c++)
      factors[w * s->elements.per_word + c] =
          factors_of(s, scale_of(s, moe__word_magnitude(b, &s->elements, largest, c)));
  }
  for (int i = 0; i < s->schedule.vectors; i++)
    store(s, part, i, factors, s->out[CROSS]);
}

static moe__tiles_t plain_tiles(rounding_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  return moe__tiles_create(b, s->e.value, moe__ceil_div(b, s->n.value, MOE_MX_BLOCK),
                           moe__ceil_div(b, s->k.value, tile_columns(&s->schedule)),
                           s->schedule.band);
}

static part_t part_of(rounding_t *s, const moe__tiles_t *tiles, MlirValue index) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue column;
  part_t part;
  if (s->grouped) {
    moe__group_tile_t at = moe__groups_tile(&s->groups, index);
    part = (part_t){.expert = moe__i32(b, 0), .row = at.row, .row_end = at.row_end};
    column = at.column;
  } else {
    moe__tile_t at = moe__tile_at(b, tiles, index);
    part = (part_t){
        .expert = at.batch, .row = moe__mul(b, at.row, MOE_MX_BLOCK), .row_end = s->n.value};
    column = at.column;
  }
  int side_by_side = s->schedule.warps / warps_below(&s->schedule);
  MlirValue vector = moe__and(b, s->kernel.thread, s->schedule.lanes - 1),
            warp = moe__lshr(b, s->kernel.thread, 5);
  if (warps_below(&s->schedule) > 1) {
    int rows = MOE_MX_BLOCK / warps_below(&s->schedule);
    part.row = moe__add(b, part.row, moe__mul(b, moe__udiv(b, warp, side_by_side), rows));
    warp = moe__urem(b, warp, side_by_side);
  }
  part.column = moe__add(
      b, moe__mul(b, column, tile_columns(&s->schedule)),
      moe__add(b, moe__mul(b, warp, warp_columns(&s->schedule)), moe__mul(b, vector, COLUMNS)));
  return part;
}

/* A warp has whole MX blocks of columns, and nothing to do with others. */
static void round_by_warp(rounding_t *s, part_t *part) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue vector = moe__and(b, s->kernel.thread, s->schedule.lanes - 1);
  MlirValue first = moe__sub(b, part->column, moe__mul(b, vector, COLUMNS));
  MOE__IF (b, moe__ult(b, first, s->k.value)) { /* one for the warp */
    load(s, part);
    if (s->out[ROWS].ptr)
      round_rows(s, part);
    if (s->out[CROSS].ptr)
      round_columns(s, part, NULL);
  }
}

/* Warps below one another have MX blocks of columns in common. */
static void round_by_cta(rounding_t *s, part_t *part) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue largest[MOE__VECTOR_WORDS] = {{NULL}};
  load(s, part);
  if (s->out[CROSS].ptr) {
    for (int w = 0; w < MOE__VECTOR_WORDS; w++)
      largest[w] = find_columns(s, part, w);
    moe__store_aligned(b, moe__vector(b, MOE__VECTOR_WORDS, largest),
                       maxima_of(s, s->kernel.thread), MOE__VECTOR_BYTES);
  }
  if (s->out[ROWS].ptr)
    round_rows(s, part);
  if (s->out[CROSS].ptr) {
    moe__cta_barrier(b);
    join_columns(s, largest);
    round_columns(s, part, largest);
    if (s->schedule.persistent)
      moe__cta_barrier(b); /* before the next tile's are written over them */
  }
}

static void round_tiles(rounding_t *s) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  moe__tiles_t tiles = plain_tiles(s);
  s->lane = moe__and(b, kernel->thread, MOE__WARP - 1);
  if (s->grouped) {
    moe__groups_initialize_by_cta(&s->groups, s->offs, s->n.value, s->status);
    tiles.total = moe__groups_total(&s->groups);
  }
  MOE__FOR_OR_ONCE (b, s->schedule.persistent, index, kernel->cta, tiles.total, kernel->cta_count) {
    part_t part = part_of(s, &tiles, index);
    (warps_below(&s->schedule) > 1 ? round_by_cta : round_by_warp)(s, &part);
  }
}

/* ---- The kernel ---- */

static bool has_kernel(MlirOperation op) {
  MlirType x = moe__tensor_type(op, MOE__X);
  int rank = (int)mlirShapedTypeGetRank(x);
  bool dual = moe__is(op, MOE__OP_ROUND_DUAL);
  int axis = dual ? rank - 1 : (int)moe__op_integer(op, "axis");
  if (rank < 2 || rank > 3 || axis < rank - 2)
    return moe__error(op,
                      "no kernel rounds a tensor of rank %d along axis %d; there are some for rank "
                      "2 and 3 along the last two dimensions",
                      rank, axis);
  if (!moe__is_row_major(x) || !moe__is_row_major(moe__tensor_type(op, MOE__ROUNDED)) ||
      (dual && !moe__is_row_major(moe__tensor_type(op, MOE__ROUNDED_T))))
    return moe__error(op, "the kernel takes and writes row-major tensors; remove their encoding");
  return moe__needs_multiple(op, MOE__X, rank - 1, axis == rank - 1 ? MOE_MX_BLOCK : COLUMNS);
}

static void add_parameters(rounding_t *s, MlirOperation op) {
  moe__kernel_t *kernel = &s->kernel;
  MlirType x = moe__tensor_type(op, MOE__X);
  int number = moe__tensor_number(op, MOE__X), rank = (int)mlirShapedTypeGetRank(x);
  bool dual = moe__is(op, MOE__OP_ROUND_DUAL);
  bool rows = dual || is_along_rows(op);
  moe__kernel_matrices(kernel, number, x, &s->e, &s->n, &s->k);
  /* Of rows of 2048 columns LLVM computes so much ahead, where it knows their number too, that
   * ptxas has no registers for it. */
  if (dual && !s->grouped && s->k.size == 2048)
    s->n = moe__kernel_hidden_extent(kernel, number, rank - 2, x);
  s->x = moe__kernel_pointer(kernel, number);
  MlirValue out = moe__kernel_pointer(kernel, moe__tensor_number(op, MOE__ROUNDED));
  s->out[rows ? ROWS : CROSS] = out;
  if (dual)
    s->out[CROSS] = moe__kernel_pointer(kernel, moe__tensor_number(op, MOE__ROUNDED_T));
  moe__require_shapes(kernel, op);
  moe__kernel_require(kernel, number, rank - 1, MOE__MULTIPLE_OF, rows ? MOE_MX_BLOCK : COLUMNS);
  if (s->out[CROSS].ptr && !s->grouped)
    moe__kernel_require(kernel, number, rank - 2, MOE__MULTIPLE_OF, MOE_MX_BLOCK);
  if (!s->grouped)
    return;
  int offs = moe__tensor_number(op, MOE__OFFS);
  s->groups.count = moe__kernel_extent(kernel, offs, 0, moe__tensor_type(op, MOE__OFFS)).value;
  s->offs = moe__kernel_pointer(kernel, offs);
  s->status = moe__kernel_status(kernel);
  moe__require_groups(kernel, offs);
}

static const moe__expression_t *grid_expression(rounding_t *s, MlirOperation op) {
  moe__record_t *record = &s->kernel.record;
  moe__tile_counts_t tiles = {&s->e, &s->n, &s->k, MOE_MX_BLOCK, tile_columns(&s->schedule), NULL};
  if (s->grouped)
    tiles.groups = moe__expression_dim(record, moe__tensor_number(op, MOE__OFFS), 0);
  return moe__expression_ctas(record, moe__tiles_count(record, &tiles), s->schedule.persistent,
                              s->schedule.ctas_per_sm);
}

static bool lower(const moe__lowering_t *lowering) {
  MlirOperation op = lowering->op;
  const moe__round_schedule_t *schedule = lowering->schedule;
  const round_layout_t *layout = lowering->layout;
  rounding_t s = {.schedule = *schedule,
                  .maxima = layout->maxima,
                  .elements = moe__elements_of(moe__tensor_type(op, MOE__X), false),
                  .grouped = layout->groups.max_groups > 0};
  if (!moe__mx_mode_from_name(moe__op_string(op, "mode"), &s.mode) ||
      !moe__fp8_from_name(moe__op_string(op, "element"), &s.element))
    return false;
  moe__kernel_t *kernel = &s.kernel;
  moe__lowering_begin(lowering, kernel);
  add_parameters(&s, op);
  moe__kernel_prologue(kernel);
  moe__kernel_await_launches(kernel);
  if (s.grouped)
    s.groups = moe__groups_create(
        kernel, &layout->groups, s.groups.count, MOE_MX_BLOCK,
        moe__ceil_div(&kernel->builder, s.k.value, tile_columns(&s.schedule)), s.schedule.band);
  round_tiles(&s);
  moe__lowering_end(lowering, kernel, grid_expression(&s, op));
  return true;
}

const moe__kernel_definition_t moe__round_kernel = {
    .ops = {MOE__OP_ROUND, MOE__OP_ROUND_DUAL},
    .has_kernel = has_kernel,
    .schedule = &moe__round_schedule,
    .candidates = candidates,
    .layout_size = sizeof(round_layout_t),
    .layout = lay_out,
    .lower = lower,
};
