/* QuantizeStream.c - the kernels of mx_quantize.quantize along the last dimension, and of
 * mx_quantize.quantize_fp8 in FP8 blocks of 1 x 128.
 *
 * A scale block is what shares a scale: an MX block or an FP8 block.
 *
 * x, q and scales are row-major. Where rows are whole scale blocks, the tensor is one row, in which
 * element i has scale i / 32, or i / 128, whatever its shape is. So this is a copy that casts. A
 * warp takes chunks of 1024 elements; a lane loads vectors of 16 bytes of them, 512 bytes apart,
 * all before the first is used. Loads and stores of a warp are consecutive bytes. Where an
 * FP8 block ends with its row before it is full, so does the chunk.
 *
 * In a vector of all lanes, neighboring lanes share a scale block: in MX as many of them, 4 (bf16)
 * or 8 (f32), as a lane has vectors of a chunk, in FP8 four times as many. The shuffles that find
 * the largest magnitudes leave each lane with that of one scale block. The lane makes the scale and
 * gives the others what they multiply by; the scales of a chunk are 32 bytes, a
 * sector.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Builder/Inspect.h"
#include "lib/Device/Async.h"
#include "lib/Device/Vectors.h"
#include "lib/Device/Warp.h"
#include "lib/Dialect/Dialect.h"
#include "lib/Kernels/Kernels.h"
#include "lib/Kernels/Requirements.h"
#include "lib/Kernels/mx_quantize/CastKernel.h"
#include "lib/Kernels/mx_quantize/Schedule.h"

#include "mlir-c/BuiltinTypes.h"

#define CHUNK (MOE_MX_BLOCK * MOE__WARP)
#define FP8_MULTIPLE 16 /* of K: rows are whole vectors */

/* ---- The schedule ---- */

MOE__SCHEDULE_KIND(moe__stream_schedule, moe__stream_schedule_t, MOE__STREAM_SCHEDULE, "stream",
                   "quantize along the last dimension, quantize_fp8 with 1x128");

/* 64 KB of x in flight per multiprocessor, or more. The default is not persistent: CTAs that
 * take their chunks once are dealt out until the end, whether or not they divide among
 * multiprocessors. */
static const moe__stream_schedule_t STREAM_BF16[] = {
    {.chunks = 1, .warps = 8, .ctas_per_sm = 6},
    {.chunks = 2, .warps = 8, .ctas_per_sm = 4},
    {.chunks = 1, .warps = 4, .ctas_per_sm = 12},
    {.chunks = 2, .warps = 4, .ctas_per_sm = 8},
    {.chunks = 1, .warps = 16, .ctas_per_sm = 3},
    {.chunks = 4, .warps = 8, .ctas_per_sm = 2},
    {.chunks = 1, .warps = 8, .ctas_per_sm = 6, .persistent = 1},
    {.chunks = 2, .warps = 8, .ctas_per_sm = 4, .persistent = 1},
};
static const moe__stream_schedule_t STREAM_F32[] = {
    {.chunks = 1, .warps = 8, .ctas_per_sm = 4},
    {.chunks = 2, .warps = 8, .ctas_per_sm = 2},
    {.chunks = 1, .warps = 4, .ctas_per_sm = 8},
    {.chunks = 2, .warps = 4, .ctas_per_sm = 5},
    {.chunks = 1, .warps = 16, .ctas_per_sm = 2},
    {.chunks = 1, .warps = 8, .ctas_per_sm = 4, .persistent = 1},
    {.chunks = 2, .warps = 8, .ctas_per_sm = 2, .persistent = 1},
};

static moe__candidates_t candidates(MlirOperation op) {
  return moe__tensor_element_bytes(op, MOE__X) == 2 ? MOE__CANDIDATES(STREAM_BF16)
                                                    : MOE__CANDIDATES(STREAM_F32);
}

/* It has no shared memory. A lane holds 32 elements of each chunk; all addresses follow from one
 * number. */
typedef struct stream_layout_t {
  moe__layout_t cta;
  int vectors; /* of a lane */
} stream_layout_t;

static bool lay_out(MlirOperation op, const void *schedule, void *out) {
  const moe__stream_schedule_t *s = schedule;
  stream_layout_t *l = out;
  l->vectors =
      s->chunks * CHUNK / MOE__WARP * moe__tensor_element_bytes(op, MOE__X) / MOE__VECTOR_BYTES;
  l->cta.threads = s->warps * MOE__WARP;
  l->cta.ctas_per_sm = s->ctas_per_sm;
  l->cta.registers = MOE__VECTOR_WORDS * l->vectors + 24;
  return moe__vectors_fit(op, l->vectors);
}

/* ---- The kernel under construction ---- */

typedef struct stream_t {
  moe__kernel_t kernel;
  moe__stream_schedule_t schedule;
  moe__elements_t elements;
  moe__fp8_t element;
  bool mx; /* else FP8 with f32 scales */
  moe__mx_mode_t mode;
  bool pow2;
  int columns;     /* of a vector */
  int vectors;     /* of a lane in a chunk */
  int scale_block; /* elements that share a scale */
  int lanes;       /* that share a scale block */
  const moe__expression_t *spans;
  MlirValue x, q, scales;
  /* Where scales lie with the rows side by side: rows of x, or of an expert of it, and the scales
   * of a row, i32; else null. */
  MlirValue side_rows, side_scales;
  bool has_experts;
  /* Of a row, or of the whole tensor where that is one: elements and scales, i64; spans, i32,
   * null where it is known to be one. */
  MlirValue length, row_scales, row_spans;
  MlirValue count; /* i32: of all spans */
  MlirValue lane;
} stream_t;

/* What a warp takes at once: `left` elements (i32) from `first` (i64) on, null where it is all
 * that the schedule says. scale: number of the first scale, i64. */
typedef struct span_t {
  MlirValue first, left, scale;
  MlirValue vectors[MOE__MAX_VECTORS];
} span_t;

static int span_elements(const stream_t *s) {
  return s->schedule.chunks * CHUNK;
}

/* ---- A span comes in ---- */

/* Number of the lane's first element of vector `i`, i32, in the span. */
static MlirValue element_of(stream_t *s, int i) {
  moe__builder_t *b = &s->kernel.builder;
  return moe__add(b, moe__mul(b, s->lane, s->columns), i * MOE__WARP * s->columns);
}

static void load_span(stream_t *s, span_t *span) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue x = moe__offset(b, s->x, moe__mul(b, span->first, s->elements.bytes));
  for (int i = 0; i < s->schedule.chunks * s->vectors; i++) {
    MlirValue element = element_of(s, i);
    /* Past the end the last vector is loaded once more: no load depends on a branch, and the
     * largest of the scale block that it is in does not change. */
    if (span->left.ptr)
      element = moe__umin(b, element, moe__sub(b, span->left, s->columns));
    span->vectors[i] =
        moe__vector_load(b, moe__offset(b, x, moe__mul(b, element, s->elements.bytes)));
  }
}

/* ---- And goes out ---- */

/* Whether `element` (i32) of the span is inside; null where all are. */
static MlirValue is_inside(stream_t *s, const span_t *span, MlirValue element) {
  return span->left.ptr ? moe__ult(&s->kernel.builder, element, span->left) : (MlirValue){NULL};
}

/* Lanes that have the same scale block after the shuffles. */
static int sharing(const stream_t *s) {
  return s->lanes / s->vectors;
}

/* The bits of the largest magnitude of the lane's scale block of a chunk, from the lane's vectors
 * of the chunk. The scale block is in vector `lane % lanes / sharing`, and is number
 * `lane / lanes` there. */
static MlirValue chunk_amax(stream_t *s, const MlirValue *vectors) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue words[MOE__MAX_VECTORS];
  for (int i = 0; i < s->vectors; i++)
    words[i] = moe__vector_magnitudes(b, &s->elements, vectors[i]);
  MlirValue word = moe__warp_reduce_many(b, s->vectors, words, s->lanes, s->lane, moe__larger_words,
                                         &s->elements);
  return moe__word_amax(b, &s->elements, word);
}

/* The place in memory of scale number `index` (i64), counted row by row. With the rows side by side
 * scales fill their sectors together with those of the next rows, which other warps have; L2 joins
 * them. There are fewer than 2^32 scales: so many have 2^39 elements. */
static MlirValue place_of_scale(stream_t *s, MlirValue index) {
  moe__builder_t *b = &s->kernel.builder;
  if (!s->side_rows.ptr)
    return index;
  MlirValue number = moe__trunc(b, index, b->i32);
  MlirValue row = moe__udiv(b, number, s->side_scales);
  MlirValue line = moe__urem(b, number, s->side_scales);
  if (s->has_experts) {
    MlirValue expert = moe__udiv(b, row, s->side_rows);
    row = moe__urem(b, row, s->side_rows);
    line = moe__add(b, moe__mul(b, expert, s->side_scales), line);
  }
  return moe__add(b, moe__wide_mul(b, line, s->side_rows), moe__zext(b, row, b->i64));
}

/* Stores the scale of the lane's scale block of chunk number `chunk`. */
static void store_scale(stream_t *s, const span_t *span, int chunk, MlirValue scale) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue in_group = moe__urem(b, s->lane, s->lanes);
  MlirValue vector = moe__udiv(b, in_group, sharing(s));
  MlirValue scale_block =
      moe__add(b, moe__mul(b, vector, MOE__WARP / s->lanes),
               moe__add(b, moe__udiv(b, s->lane, s->lanes), chunk * (CHUNK / s->scale_block)));
  MlirValue is_first = {NULL}; /* of the lanes that have the scale */
  if (sharing(s) > 1)
    is_first = moe__eq(b, moe__urem(b, s->lane, sharing(s)), 0);
  MOE__IF (b, is_first) {
    MOE__IF (b, is_inside(s, span, moe__mul(b, scale_block, s->scale_block))) {
      MlirValue index =
          place_of_scale(s, moe__add(b, span->scale, moe__zext(b, scale_block, b->i64)));
      moe__store(b, scale, moe__offset(b, s->scales, s->mx ? index : moe__shl(b, index, 2)));
    }
  }
}

/* Stores the scale that follows from a scale block's largest magnitude, and gives what its
 * elements are multiplied by. */
static MlirValue scale_chunk(stream_t *s, const span_t *span, int chunk, MlirValue amax) {
  moe__builder_t *b = &s->kernel.builder;
  if (!s->mx) {
    MlirValue factor = moe__fp8_factor(b, amax, s->element, s->pow2);
    store_scale(s, span, chunk, moe__fp8_inverse(b, factor));
    return factor;
  }
  MlirValue scale = moe__mx_scale(b, moe__bitcast(b, amax, b->f32), s->mode, s->element);
  store_scale(s, span, chunk, moe__trunc(b, scale, b->i8));
  return moe__mx_reciprocal(b, scale);
}

static void store_vector(stream_t *s, const span_t *span, int i, MlirValue factor) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue element = element_of(s, i), words[MOE__VECTOR_WORDS];
  moe__vector_words(b, &s->elements, span->vectors[i], words);
  MOE__IF (b, is_inside(s, span, element)) {
    MlirValue q = moe__offset(b, moe__offset(b, s->q, span->first), element);
    moe__vector_store_fp8(b, &s->elements, words, factor, s->element, q);
  }
}

static void quantize_vectors(stream_t *s, span_t span) {
  moe__builder_t *b = &s->kernel.builder;
  load_span(s, &span);
  for (int chunk = 0; chunk < s->schedule.chunks; chunk++) {
    int first = chunk * s->vectors;
    MlirValue factor = scale_chunk(s, &span, chunk, chunk_amax(s, span.vectors + first));
    for (int i = 0; i < s->vectors; i++)
      store_vector(s, &span, first + i, moe__shuffle_among(b, factor, i * sharing(s), s->lanes));
  }
}

/* Span number `number` (i32). All but the last one of a row are whole, and need no comparisons. */
static void quantize_span(stream_t *s, MlirValue number) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue row = moe__i64(b, 0), in_row = number;
  if (s->row_spans.ptr) {
    row = moe__zext(b, moe__udiv(b, number, s->row_spans), b->i64);
    in_row = moe__urem(b, number, s->row_spans);
  }
  MlirValue column = moe__wide_mul(b, in_row, moe__i32(b, span_elements(s)));
  MlirValue scale_block = moe__udiv(b, column, s->scale_block);
  span_t span = {.first = moe__add(b, moe__mul(b, row, s->length), column),
                 .scale = moe__add(b, moe__mul(b, row, s->row_scales), scale_block)};
  MlirValue left = moe__sub(b, s->length, column), whole = moe__i64(b, span_elements(s));
  MOE__IF (b, moe__ule(b, whole, left)) {
    quantize_vectors(s, span);
  }
  MOE__ELSE (b) {
    span.left = moe__trunc(b, left, b->i32);
    /* What follows from the lane is made anew: kept for here, it would take registers of whole
     * spans. */
    MlirValue lane = s->lane;
    s->lane = moe__fresh(b, lane);
    quantize_vectors(s, span);
    s->lane = lane;
  }
}

static void quantize_spans(stream_t *s) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  MlirValue warps = moe__i32(b, s->schedule.warps);
  MlirValue warp = moe__add(b, moe__mul(b, kernel->cta, warps), moe__lshr(b, kernel->thread, 5));
  s->lane = moe__and(b, kernel->thread, MOE__WARP - 1);
  MlirValue step = moe__mul(b, kernel->cta_count, warps);
  MOE__FOR_OR_ONCE (b, s->schedule.persistent, index, warp, s->count, step) {
    quantize_span(s, index);
  }
}

/* ---- The kernels ---- */

/* ceil(x / divisor), i64. */
static MlirValue ceil_div64(moe__builder_t *b, MlirValue x, int divisor) {
  return moe__udiv(b, moe__add(b, x, divisor - 1), divisor);
}

/* Scales and spans of the length. There are fewer than 2^31 spans: so many have 2^41 elements. */
static MlirValue set_length(stream_t *s, MlirValue length) {
  moe__builder_t *b = &s->kernel.builder;
  s->length = length;
  s->row_scales = ceil_div64(b, length, s->scale_block);
  return moe__trunc(b, ceil_div64(b, length, span_elements(s)), b->i32);
}

/* All of `rank` dimensions is one row. */
static void set_flat(stream_t *s, int rank, const moe__extent_t *extents) {
  moe__builder_t *b = &s->kernel.builder;
  moe__record_t *record = &s->kernel.record;
  const moe__expression_t *sizes[MOE__MAX_RANK];
  MlirValue length = moe__i64(b, 1);
  for (int i = 0; i < rank; i++) {
    sizes[i] = extents[i].expression;
    length = moe__mul(b, length, moe__zext(b, extents[i].value, b->i64));
  }
  s->count = set_length(s, length);
  s->spans =
      moe__expression_ceildiv(record, moe__expression_mul(record, rank, sizes), span_elements(s));
}

/* It is one row where at run time rows are whole scale blocks; the grid has room for both. */
static void set_rows(stream_t *s, const moe__extent_t *rows, const moe__extent_t *columns) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue rest = moe__urem(b, columns->value, s->scale_block);
  MlirValue is_flat = moe__eq(b, rest, 0);
  MlirValue all = moe__wide_mul(b, rows->value, columns->value);
  s->row_spans = set_length(s, moe__select(b, is_flat, all, moe__zext(b, columns->value, b->i64)));
  s->count = moe__mul(b, s->row_spans, moe__select(b, is_flat, 1, rows->value));
  moe__record_t *record = &s->kernel.record;
  const moe__expression_t *row_spans =
      moe__expression_ceildiv(record, columns->expression, span_elements(s));
  s->spans = moe__expression_mul(record, MOE__EXPRESSIONS(rows->expression, row_spans));
}

/* As many as both have together. */
static moe__extent_t product(stream_t *s, const moe__extent_t *x, const moe__extent_t *y) {
  return (moe__extent_t){
      .size = x->size < 0 || y->size < 0 ? -1 : x->size * y->size,
      .value = moe__mul(&s->kernel.builder, x->value, y->value),
      .expression =
          moe__expression_mul(&s->kernel.record, MOE__EXPRESSIONS(x->expression, y->expression)),
  };
}

static void add_parameters(stream_t *s, MlirOperation op) {
  MlirType x = moe__tensor_type(op, MOE__X);
  int number = moe__tensor_number(op, MOE__X);
  moe__kernel_t *kernel = &s->kernel;
  moe__extent_t extents[MOE__MAX_RANK] = {0};
  int rank = (int)mlirShapedTypeGetRank(x);
  for (int i = 0; i < rank; i++)
    extents[i] = moe__kernel_extent(kernel, number, i, x);
  s->x = moe__kernel_pointer(kernel, number);
  s->q = moe__kernel_pointer(kernel, moe__tensor_number(op, MOE__Q));
  s->scales = moe__kernel_pointer(kernel, moe__tensor_number(op, MOE__SCALES));
  moe__kernel_require(kernel, number, rank - 1, MOE__MULTIPLE_OF,
                      s->mx ? MOE_MX_BLOCK : FP8_MULTIPLE);
  int64_t columns = extents[rank - 1].size;
  if (s->mx || (columns >= 0 && columns % s->scale_block == 0)) {
    set_flat(s, rank, extents);
  } else {
    moe__extent_t rows = rank == 3 ? product(s, &extents[0], &extents[1]) : extents[0];
    set_rows(s, &rows, &extents[rank - 1]);
  }
  if (!moe__is_row_major(moe__tensor_type(op, MOE__SCALES))) {
    s->side_rows = extents[rank - 2].value;
    s->side_scales = moe__ceil_div(&kernel->builder, extents[rank - 1].value, s->scale_block);
    s->has_experts = rank == 3;
  }
}

static const moe__expression_t *grid_expression(stream_t *s) {
  moe__record_t *record = &s->kernel.record;
  const moe__expression_t *ctas = moe__expression_ceildiv(record, s->spans, s->schedule.warps);
  return moe__expression_ctas(record, ctas, s->schedule.persistent, s->schedule.ctas_per_sm);
}

static bool is_mx(MlirOperation op) {
  return moe__is(op, MOE__OP_QUANTIZE);
}

static bool takes(MlirOperation op) {
  MlirType x = moe__tensor_type(op, MOE__X);
  return is_mx(op) ? moe__op_integer(op, "axis") == mlirShapedTypeGetRank(x) - 1
                   : moe__op_granularity(op) == MOE__1X128 &&
                         moe__op_integer(op, "axis") == mlirShapedTypeGetRank(x) - 1;
}

static bool has_kernel(MlirOperation op) {
  return is_mx(op) ? moe__quantize_has_kernel(op) : moe__quantize_blocks_has_kernel(op);
}

static bool lower(const moe__lowering_t *lowering) {
  MlirOperation op = lowering->op;
  const moe__stream_schedule_t *schedule = lowering->schedule;
  MlirType x = moe__tensor_type(op, MOE__X);
  stream_t s = {
      .schedule = *schedule, .element = moe__fp8_of(moe__tensor_type(op, MOE__Q)), .mx = is_mx(op)};
  s.elements = moe__elements_of(x, !s.mx && moe__op_bool(op, "sanitize"));
  if (s.mx && !moe__mx_mode_from_name(moe__op_string(op, "mode"), &s.mode))
    return false;
  s.pow2 = !s.mx && moe__op_bool(op, "pow2");
  moe__kernel_t *kernel = &s.kernel;
  moe__lowering_begin(lowering, kernel);
  s.columns = MOE__VECTOR_BYTES / s.elements.bytes;
  s.vectors = CHUNK / MOE__WARP / s.columns;
  s.scale_block = s.mx ? MOE_MX_BLOCK : MOE_FP8_BLOCK;
  s.lanes = s.scale_block / s.columns;
  add_parameters(&s, op);
  moe__kernel_prologue(kernel);
  moe__kernel_await_launches(kernel);
  quantize_spans(&s);
  moe__lowering_end(lowering, kernel, grid_expression(&s));
  return true;
}

const moe__kernel_definition_t moe__quantize_stream_kernel = {
    .ops = {MOE__OP_QUANTIZE, MOE__OP_QUANTIZE_FP8},
    .takes = takes,
    .has_kernel = has_kernel,
    .schedule = &moe__stream_schedule,
    .candidates = candidates,
    .layout_size = sizeof(stream_layout_t),
    .layout = lay_out,
    .lower = lower,
};
