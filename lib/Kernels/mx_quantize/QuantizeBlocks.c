/* QuantizeBlocks.c - the kernel of mx_quantize.quantize_fp8 in FP8 blocks of 128 x 128: one
 * read.
 *
 * A thread loads one vector, 16 bytes of x, of each of several rows, all of them before it uses
 * the first; they stay in its registers while the largest magnitude of their FP8 block is
 * found. Neighboring threads have neighboring vectors. A tile is one FP8 block: the warps of a CTA
 * put what they found into shared memory.
 *
 * Past the end of rows and columns the last vector inside counts once more: it is in the same FP8
 * block, and a maximum does not change.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Device/Async.h"
#include "lib/Device/Tiles.h"
#include "lib/Device/Vectors.h"
#include "lib/Device/Warp.h"
#include "lib/Dialect/Dialect.h"
#include "lib/Kernels/Kernels.h"
#include "lib/Kernels/Requirements.h"
#include "lib/Kernels/mx_quantize/CastKernel.h"
#include "lib/Kernels/mx_quantize/Schedule.h"

#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/BuiltinTypes.h"

#include <stdio.h>

#define K_MULTIPLE 16

/* ---- The schedule ---- */

MOE__SCHEDULE_KIND(moe__blocks_schedule, moe__blocks_schedule_t, MOE__BLOCKS_SCHEDULE, "blocks",
                   "quantize_fp8 with 128x128");

/* 128 bytes of x in flight for each of 1024 threads, or 256 for 512. */
static const moe__blocks_schedule_t BLOCKS_BF16[] = {
    {.warps = 8, .ctas_per_sm = 4},  {.warps = 8, .ctas_per_sm = 4, .band = 8},
    {.warps = 8, .ctas_per_sm = 3},  {.warps = 4, .ctas_per_sm = 4},
    {.warps = 16, .ctas_per_sm = 2},
};
static const moe__blocks_schedule_t BLOCKS_F32[] = {
    {.warps = 16, .ctas_per_sm = 2},
    {.warps = 16, .ctas_per_sm = 2, .band = 8},
    {.warps = 8, .ctas_per_sm = 2},
    {.warps = 32, .ctas_per_sm = 1},
};

static moe__candidates_t candidates(MlirOperation op) {
  return moe__tensor_element_bytes(op, MOE__X) == 2 ? MOE__CANDIDATES(BLOCKS_BF16)
                                                    : MOE__CANDIDATES(BLOCKS_F32);
}

typedef struct blocks_layout_t {
  moe__layout_t cta;
  int32_t warp_amax; /* offset of two sets of what each warp found */
} blocks_layout_t;

static bool lay_out(MlirOperation op, const void *schedule, void *out) {
  const moe__blocks_schedule_t *s = schedule;
  blocks_layout_t *l = out;
  int vectors = MOE_FP8_BLOCK * MOE_FP8_BLOCK * moe__tensor_element_bytes(op, MOE__X) /
                MOE__VECTOR_BYTES / MOE__WARP;
  if (vectors % s->warps)
    return moe__error(op,
                      "'schedule.warps' is %d; it must divide the %d vectors of the lanes of a "
                      "block of 128 x 128",
                      s->warps, vectors);
  l->cta.threads = s->warps * MOE__WARP;
  l->cta.ctas_per_sm = s->ctas_per_sm;
  l->cta.registers = moe__vector_registers(vectors / s->warps);
  l->warp_amax = moe__layout_shared(&l->cta, 2 * 4 * s->warps, 16);
  return moe__vectors_fit(op, vectors / s->warps);
}

/* ---- The kernel under construction ---- */

typedef struct blocks_t {
  moe__kernel_t kernel;
  moe__blocks_schedule_t schedule;
  blocks_layout_t layout;
  moe__elements_t elements;
  moe__fp8_t element;
  bool pow2;
  int columns; /* of a vector */
  int lanes;   /* vectors of a row of a tile */
  int step;    /* rows of a tile that the threads have at once */
  int count;   /* vectors of a thread */
  moe__extent_t e, n, k;
  MlirValue x, q, scales;
} blocks_t;

/* What a thread has of a tile. */
typedef struct part_t {
  MlirValue expert, row, column; /* i32: of its first vector */
  MlirValue start;               /* i64: number of the first element inside that it loads */
  MlirValue vectors[MOE__MAX_VECTORS];
} part_t;

bool moe__quantize_blocks_has_kernel(MlirOperation op) {
  moe__granularity_t granularity = moe__op_granularity(op);
  if (granularity != MOE__1X128 && granularity != MOE__128X128)
    return moe__error(op,
                      "granularity \"%s\" along axis %d takes two passes; run moe-expand-quantize",
                      moe__granularity_name(granularity), (int)moe__op_integer(op, "axis"));
  MlirType x = moe__tensor_type(op, MOE__X);
  if (!moe__is_row_major(x) || !moe__is_row_major(moe__tensor_type(op, MOE__Q)))
    return moe__error(op, "the kernel takes x and writes q row-major; remove their encoding");
  MlirType scales = moe__tensor_type(op, MOE__SCALES);
  if (granularity == MOE__128X128 && !moe__is_row_major(scales))
    return moe__error(op, "the kernel writes scales row-major; remove their encoding");
  if (!moe__is_row_major(scales) && !moe__is_column_major(scales))
    return moe__error(op,
                      "the kernel writes scales row-major, or with the rows side by side; remove "
                      "their encoding, or give them affine_map<%s>",
                      mlirShapedTypeGetRank(x) == 2 ? "(m, k) -> (k, m)"
                                                    : "(e, m, k) -> (e, k, m)");
  return moe__needs_multiple_of_16(op, MOE__X, (int)mlirShapedTypeGetRank(x) - 1);
}

/* ---- A tile comes in ---- */

/* Number of x's vectors below the first one that the thread has: i * step rows. */
static MlirValue below(blocks_t *s, int i) {
  return moe__i32(&s->kernel.builder, i * s->step);
}

static void load_part(blocks_t *s, part_t *part) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue last_row = moe__sub(b, s->n.value, 1);
  MlirValue last_column = moe__sub(b, s->k.value, s->columns);
  MlirValue row = moe__umin(b, part->row, last_row), down = moe__sub(b, last_row, row);
  MlirValue column = moe__umin(b, part->column, last_column);
  MlirValue rows =
      moe__add(b, moe__wide_mul(b, part->expert, s->n.value), moe__zext(b, row, b->i64));
  part->start = moe__add(b, moe__mul(b, rows, moe__zext(b, s->k.value, b->i64)),
                         moe__zext(b, column, b->i64));
  for (int i = 0; i < s->count; i++) {
    MlirValue at =
        moe__add(b, moe__wide_mul(b, moe__umin(b, below(s, i), down), s->k.value), part->start);
    MlirValue address = moe__offset(b, s->x, moe__mul(b, at, s->elements.bytes));
    part->vectors[i] = moe__vector_load(b, address);
  }
}

/* ---- Its largest magnitudes ---- */

/* The bits of the largest magnitude that the CTA has. slot: 0 or 1, alternating: who is
 * a tile ahead writes to the other set, and nobody is two ahead, for the barrier in between. */
static MlirValue cta_amax(blocks_t *s, const part_t *part, MlirValue slot) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue thread = s->kernel.thread;
  MlirValue words = moe__vector_magnitudes(b, &s->elements, part->vectors[0]);
  for (int i = 1; i < s->count; i++)
    words = moe__word_max(b, &s->elements, words,
                          moe__vector_magnitudes(b, &s->elements, part->vectors[i]));
  MlirValue amax = moe__warp_reduce(b, moe__word_amax(b, &s->elements, words), moe__umax);
  MlirValue set =
      moe__offset_by(b, moe__offset(b, s->kernel.shared, moe__mul(b, slot, 4 * s->schedule.warps)),
                     s->layout.warp_amax);
  MlirValue is_first = moe__eq(b, moe__and(b, thread, MOE__WARP - 1), 0);
  MOE__IF (b, is_first) {
    moe__store(b, amax, moe__offset(b, set, moe__shl(b, moe__lshr(b, thread, 5), 2)));
  }
  moe__cta_barrier(b);
  amax = moe__load(b, set, b->i32);
  for (int i = 1; i < s->schedule.warps; i++)
    amax = moe__umax(b, amax, moe__load(b, moe__offset_by(b, set, 4 * i), b->i32));
  return amax;
}

/* ---- And goes out ---- */

/* Casts the thread's vector number i and stores it, where it is inside. */
static void store_vector(blocks_t *s, const part_t *part, int i, MlirValue factor) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue row = moe__add(b, part->row, below(s, i));
  MlirValue is_inside =
      moe__and(b, moe__ult(b, row, s->n.value), moe__ult(b, part->column, s->k.value));
  MOE__IF (b, is_inside) {
    MlirValue words[MOE__VECTOR_WORDS];
    moe__vector_words(b, &s->elements, part->vectors[i], words);
    MlirValue at = moe__add(b, moe__wide_mul(b, below(s, i), s->k.value), part->start);
    moe__vector_store_fp8(b, &s->elements, words, factor, s->element, moe__offset(b, s->q, at));
  }
}

/* The first thread stores the scale of the tile, which is an FP8 block and lies at least in part
 * inside. */
static void store_scale(blocks_t *s, const moe__tile_t *tile, const moe__tiles_t *tiles,
                        MlirValue factor) {
  moe__builder_t *b = &s->kernel.builder;
  MOE__IF (b, moe__eq(b, s->kernel.thread, 0)) {
    MlirValue row =
        moe__add(b, moe__wide_mul(b, tile->batch, tiles->rows), moe__zext(b, tile->row, b->i64));
    MlirValue index = moe__add(b, moe__mul(b, row, moe__zext(b, tiles->columns, b->i64)),
                               moe__zext(b, tile->column, b->i64));
    moe__store(b, moe__fp8_inverse(b, factor), moe__offset(b, s->scales, moe__shl(b, index, 2)));
  }
}

static void quantize_tiles(blocks_t *s) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  MlirValue lanes = moe__i32(b, s->lanes);
  MlirValue thread_row = moe__udiv(b, kernel->thread, lanes);
  MlirValue thread_column = moe__mul(b, moe__urem(b, kernel->thread, lanes), s->columns);
  moe__tiles_t tiles =
      moe__tiles_create(b, s->e.value, moe__ceil_div(b, s->n.value, MOE_FP8_BLOCK),
                        moe__ceil_div(b, s->k.value, MOE_FP8_BLOCK), s->schedule.band);
  MlirValue slot = moe__i32(b, 0);
  MOE__FOR_TILES (kernel, &tiles, index, &slot) {
    moe__tile_t tile = moe__tile_at(b, &tiles, index);
    part_t part = {
        .expert = tile.batch,
        .row = moe__add(b, moe__mul(b, tile.row, MOE_FP8_BLOCK), thread_row),
        .column = moe__add(b, moe__mul(b, tile.column, MOE_FP8_BLOCK), thread_column),
    };
    load_part(s, &part);
    MlirValue factor = moe__fp8_factor(b, cta_amax(s, &part, slot), s->element, s->pow2);
    store_scale(s, &tile, &tiles, factor);
    for (int i = 0; i < s->count; i++)
      store_vector(s, &part, i, factor);
    slot = moe__xor(b, slot, 1);
  }
}

/* ---- The kernel ---- */

static void add_parameters(blocks_t *s, MlirOperation op) {
  MlirType x = moe__tensor_type(op, MOE__X);
  int number = moe__tensor_number(op, MOE__X);
  moe__kernel_t *kernel = &s->kernel;
  int rank = (int)mlirShapedTypeGetRank(x);
  moe__kernel_matrices(kernel, number, x, &s->e, &s->n, &s->k);
  s->x = moe__kernel_pointer(kernel, number);
  s->q = moe__kernel_pointer(kernel, moe__tensor_number(op, MOE__Q));
  s->scales = moe__kernel_pointer(kernel, moe__tensor_number(op, MOE__SCALES));
  moe__kernel_require(kernel, number, rank - 1, MOE__MULTIPLE_OF, K_MULTIPLE);
}

static const moe__expression_t *grid_expression(blocks_t *s) {
  return moe__tiles_grid(
      &s->kernel.record,
      &(moe__tile_counts_t){&s->e, &s->n, &s->k, MOE_FP8_BLOCK, MOE_FP8_BLOCK, NULL},
      s->schedule.ctas_per_sm);
}

static bool lower(const moe__lowering_t *lowering) {
  MlirOperation op = lowering->op;
  const blocks_layout_t *layout = lowering->layout;
  const moe__blocks_schedule_t *schedule = lowering->schedule;
  MlirType x = moe__tensor_type(op, MOE__X);
  blocks_t s = {.schedule = *schedule,
                .layout = *layout,
                .elements = moe__elements_of(x, moe__op_bool(op, "sanitize")),
                .element = moe__fp8_of(moe__tensor_type(op, MOE__Q)),
                .pow2 = moe__op_bool(op, "pow2")};
  moe__kernel_t *kernel = &s.kernel;
  moe__lowering_begin(lowering, kernel);
  s.columns = MOE__VECTOR_BYTES / s.elements.bytes;
  s.lanes = MOE_FP8_BLOCK / s.columns;
  s.step = kernel->layout.threads / s.lanes;
  s.count = MOE_FP8_BLOCK / s.step;
  add_parameters(&s, op);
  moe__kernel_prologue(kernel);
  moe__kernel_await_launches(kernel);
  quantize_tiles(&s);
  moe__lowering_end(lowering, kernel, grid_expression(&s));
  return true;
}

const moe__kernel_definition_t moe__quantize_blocks_kernel = {
    .ops = {MOE__OP_QUANTIZE_FP8},
    .has_kernel = moe__quantize_blocks_has_kernel,
    .schedule = &moe__blocks_schedule,
    .candidates = candidates,
    .layout_size = sizeof(blocks_layout_t),
    .layout = lay_out,
    .lower = lower,
};
