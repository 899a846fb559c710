/* Round.c - the kernel of mx_quantize.round and round_dual: the numbers that x has once it is
 * quantized in MX blocks, as bf16.
 *
 * A warp takes 32 rows of 64 columns at a time: whole MX blocks in both directions, and lines of
 * 128 bytes. Eight lanes have a row, 8 columns each, of every fourth row, so that a lane has 8
 * vectors, all loaded before the first is used. The largest magnitudes of a row's MX block are
 * found by four lanes, those of a column's by the lane, for its 8 rows, and three others. Nothing
 * goes through shared memory. Warps of a CTA stand side by side.
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

#define COLUMNS 8                             /* of a vector of bf16 */
#define LANES 8                               /* that have a row */
#define WARP_COLUMNS (LANES * COLUMNS)        /* of a warp's part */
#define ROWS_AT_ONCE (MOE__WARP / LANES)      /* of a load */
#define VECTORS (MOE_MX_BLOCK / ROWS_AT_ONCE) /* of a lane */
#define BLOCK_LANES (MOE_MX_BLOCK / COLUMNS)  /* that share a row's MX block */

/* ---- The schedule ---- */

MOE__SCHEDULE_KIND(moe__round_schedule, moe__round_schedule_t, MOE__ROUND_SCHEDULE, "round",
                   "round, round_dual");

static const moe__round_schedule_t CANDIDATES[] = {
    {.warps = 8, .ctas_per_sm = 2},
    {.warps = 4, .ctas_per_sm = 5},
    {.warps = 4, .ctas_per_sm = 4},
    {.warps = 16, .ctas_per_sm = 1},
    {.warps = 8, .ctas_per_sm = 2, .band = 8},
};

static moe__candidates_t candidates(MlirOperation op) {
  (void)op;
  return MOE__CANDIDATES(CANDIDATES);
}

typedef struct round_layout_t {
  moe__layout_t cta;
  moe__groups_layout_t groups;
} round_layout_t;

static bool lay_out(MlirOperation op, const void *schedule, void *out) {
  const moe__round_schedule_t *s = schedule;
  round_layout_t *l = out;
  l->cta.threads = s->warps * MOE__WARP;
  l->cta.ctas_per_sm = s->ctas_per_sm;
  l->cta.registers = moe__vector_registers(VECTORS);
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
  moe__elements_t elements;
  moe__fp8_t element;
  moe__mx_mode_t mode;
  bool grouped;
  moe__extent_t e, n, k;
  MlirValue x, out[NUM_DIRECTIONS]; /* null where there is none */
  MlirValue offs, status, lane;
  moe__groups_t groups;
} rounding_t;

/* A warp's part of a tile: rows [row, row_end) of which it has 32 at most, and where the lane's
 * column is. */
typedef struct part_t {
  MlirValue expert, row, row_end, column;
  MlirValue vectors[VECTORS];
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
  return moe__add(b, part->row, moe__add(b, moe__udiv(b, s->lane, LANES), i * ROWS_AT_ONCE));
}

/* Past the end the last row and the last column are loaded once more: no load depends on a branch,
 * and neither changes the largest magnitude of a block that is stored. */
static void load(rounding_t *s, part_t *part) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue last = moe__sub(b, part->row_end, 1);
  MlirValue column = moe__umin(b, part->column, moe__sub(b, s->k.value, COLUMNS));
  for (int i = 0; i < VECTORS; i++) {
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

/* MX blocks of rows: of four vectors at a time each of four lanes gets the largest of one. */
static void round_rows(rounding_t *s, const part_t *part) {
  moe__builder_t *b = &s->kernel.builder;
  for (int first = 0; first < VECTORS; first += BLOCK_LANES) {
    MlirValue words[BLOCK_LANES];
    for (int i = 0; i < BLOCK_LANES; i++)
      words[i] = moe__vector_magnitudes(b, &s->elements, part->vectors[first + i]);
    MlirValue word = moe__warp_reduce_many(b, BLOCK_LANES, words, BLOCK_LANES, s->lane,
                                           moe__larger_words, &s->elements);
    MlirValue scale = scale_of(s, moe__word_amax(b, &s->elements, word));
    for (int i = 0; i < BLOCK_LANES; i++) {
      factors_t factors[COLUMNS];
      factors[0] = factors_of(s, moe__shuffle_among(b, scale, i, BLOCK_LANES));
      for (int c = 1; c < COLUMNS; c++)
        factors[c] = factors[0];
      store(s, part, first + i, factors, s->out[ROWS]);
    }
  }
}

/* MX blocks of columns: a lane's own rows, and those of the lanes below and above. */
static void round_columns(rounding_t *s, const part_t *part) {
  moe__builder_t *b = &s->kernel.builder;
  factors_t factors[COLUMNS];
  for (int w = 0; w < MOE__VECTOR_WORDS; w++) {
    MlirValue largest = {NULL};
    for (int i = 0; i < VECTORS; i++) {
      MlirValue word = moe__word_magnitudes(b, &s->elements, moe__extract(b, part->vectors[i], w));
      largest = i == 0 ? word : moe__word_max(b, &s->elements, largest, word);
    }
    for (int mask = LANES; mask < MOE__WARP; mask *= 2)
      largest = moe__word_max(b, &s->elements, largest, moe__shuffle_xor(b, largest, mask));
    for (int c = 0; c < s->elements.per_word; c++)
      factors[w * s->elements.per_word + c] =
          factors_of(s, scale_of(s, moe__word_magnitude(b, &s->elements, largest, c)));
  }
  for (int i = 0; i < VECTORS; i++)
    store(s, part, i, factors, s->out[CROSS]);
}

static moe__tiles_t plain_tiles(rounding_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  return moe__tiles_create(b, s->e.value, moe__ceil_div(b, s->n.value, MOE_MX_BLOCK),
                           moe__ceil_div(b, s->k.value, s->schedule.warps * WARP_COLUMNS),
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
  MlirValue vector = moe__and(b, s->kernel.thread, LANES - 1),
            warp = moe__lshr(b, s->kernel.thread, 5);
  part.column =
      moe__add(b, moe__mul(b, column, s->schedule.warps * WARP_COLUMNS),
               moe__add(b, moe__mul(b, warp, WARP_COLUMNS), moe__mul(b, vector, COLUMNS)));
  return part;
}

static void round_tiles(rounding_t *s) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  moe__tiles_t tiles = plain_tiles(s);
  s->lane = moe__and(b, kernel->thread, MOE__WARP - 1);
  if (s->grouped) {
    MOE__IF (b, moe__ult(b, kernel->thread, MOE__WARP)) {
      moe__groups_initialize(&s->groups, s->offs, s->n.value, kernel->thread, s->status);
    }
    moe__cta_barrier(b);
    tiles.total = moe__groups_total(&s->groups);
  }
  MOE__FOR_TILES (kernel, &tiles, index) {
    part_t part = part_of(s, &tiles, index);
    MlirValue vector = moe__and(b, kernel->thread, LANES - 1);
    MlirValue first = moe__sub(b, part.column, moe__mul(b, vector, COLUMNS));
    MOE__IF (b, moe__ult(b, first, s->k.value)) { /* one for the warp */
      load(s, &part);
      if (s->out[ROWS].ptr)
        round_rows(s, &part);
      if (s->out[CROSS].ptr)
        round_columns(s, &part);
    }
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
  bool rows = dual || moe__op_integer(op, "axis") == rank - 1;
  moe__kernel_matrices(kernel, number, x, &s->e, &s->n, &s->k);
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
  moe__tile_counts_t tiles = {&s->e, &s->n, &s->k, MOE_MX_BLOCK, s->schedule.warps * WARP_COLUMNS,
                              NULL};
  if (s->grouped)
    tiles.groups = moe__expression_dim(record, moe__tensor_number(op, MOE__OFFS), 0);
  return moe__tiles_grid(record, &tiles, s->schedule.ctas_per_sm);
}

static bool lower(const moe__lowering_t *lowering) {
  MlirOperation op = lowering->op;
  const moe__round_schedule_t *schedule = lowering->schedule;
  const round_layout_t *layout = lowering->layout;
  rounding_t s = {.schedule = *schedule,
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
        moe__ceil_div(&kernel->builder, s.k.value, s.schedule.warps * WARP_COLUMNS),
        s.schedule.band);
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
