/* QuantizeStream.c - the kernel of mx_quantize.quantize along the last dimension.
 *
 * x, q and scales are row-major, and rows are whole blocks: the tensor is one row, in which element i has
 * scale i / 32, whatever its shape is. So this is a copy that casts. A warp takes chunks of 1024
 * elements; a lane loads vectors of 16 bytes of them, 512 bytes apart, all before the first is used.
 * Loads and stores of a warp are consecutive bytes.
 *
 * A chunk has a block for each lane. In each vector of the warp's, a block is in 4 (bf16) or 8 (f32)
 * neighboring lanes, and so many vectors has a lane of a chunk: the shuffles that find the largest
 * magnitudes leave each lane with that of one block. It makes the block's scale, stores it, one of 32
 * bytes of a sector, and gives the others what they multiply by.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Builder/Inspect.h"
#include "lib/Kernel/Async.h"
#include "lib/Kernel/Vectors.h"
#include "lib/Kernel/Warp.h"
#include "passes/Lowering.h"
#include "passes/Schedule.h"

#include "mlir-c/BuiltinTypes.h"

#define BLOCK 32 /* elements that share a scale */
#define BLOCK_BITS 5
#define CHUNK (BLOCK * MOE__WARP)

/* The op's tensors, by their number in the kernel's record. */
enum { X, Q, SCALES };

typedef struct stream_t {
  moe__kernel_t kernel;
  moe__stream_schedule_t schedule;
  moe__elements_t elements;
  moe__fp8_t element;
  moe__mx_mode_t mode;
  int columns; /* of a vector */
  int lanes;   /* that share a block: as many as a lane has vectors of a chunk */
  char count[MOE__EXPRESSION_SIZE]; /* of elements */
  MlirValue total;                  /* the same, i64 */
  MlirValue x, q, scales;
  MlirValue lane;
} stream_t;

/* What a warp takes at once: `left` elements (i32) from `first` (i64) on; null where it is all that the
 * schedule says. */
typedef struct span_t {
  MlirValue first, left;
  MlirValue vectors[MOE__MAX_VECTORS];
} span_t;

static int span_elements(const stream_t *s) {
  return s->schedule.chunks * CHUNK;
}

/* ---- A span comes in ---- */

/* Number of the lane's first element of vector `i`, i32, in the span. */
static MlirValue element_of(stream_t *s, int i) {
  moe__builder_t *b = &s->kernel.builder;
  return moe__add(b, moe__mul(b, s->lane, moe__i32(b, s->columns)),
                  moe__i32(b, i * MOE__WARP * s->columns));
}

static void load_span(stream_t *s, span_t *span) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue x = moe__offset(b, s->x, moe__mul(b, span->first, moe__i64(b, s->elements.bytes)));
  for (int i = 0; i < s->schedule.chunks * s->lanes; i++) {
    MlirValue element = element_of(s, i);
    /* Past the end the last vector is loaded once more: no load depends on a branch. */
    if (span->left.ptr)
      element = moe__umin(b, element, moe__sub(b, span->left, moe__i32(b, s->columns)));
    span->vectors[i] = moe__vector_load(
        b, moe__offset(b, x, moe__mul(b, element, moe__i32(b, s->elements.bytes))));
  }
}

/* ---- And goes out ---- */

/* Begins what is done only where `element` (i32) of the span is inside; blocks are all in or all out. */
static moe__if_t inside_begin(stream_t *s, const span_t *span, MlirValue element) {
  moe__builder_t *b = &s->kernel.builder;
  return span->left.ptr ? moe__if_begin(b, moe__ult(b, element, span->left), false)
                        : (moe__if_t){{NULL}, {NULL}};
}

static void inside_end(stream_t *s, const span_t *span, moe__if_t *inside) {
  if (span->left.ptr)
    moe__if_end(&s->kernel.builder, inside);
}

/* The scale (i32) of the lane's block of a chunk, from the lane's vectors of it. The block is in vector
 * `lane % lanes`, where it is number `lane / lanes`. */
static MlirValue chunk_scale(stream_t *s, const MlirValue *vectors) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue words[MOE__MAX_VECTORS];
  for (int i = 0; i < s->lanes; i++)
    words[i] = moe__vector_magnitudes(b, &s->elements, vectors[i]);
  MlirValue word =
      moe__warp_reduce_many(b, s->lanes, words, s->lanes, s->lane, moe__larger_words, &s->elements);
  MlirValue amax = moe__bitcast(b, moe__word_amax(b, &s->elements, word), b->f32);
  return moe__mx_scale(b, amax, s->mode, s->element);
}

static void store_scale(stream_t *s, const span_t *span, int chunk, MlirValue scale) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue lanes = moe__i32(b, s->lanes);
  MlirValue block =
      moe__add(b, moe__mul(b, moe__urem(b, s->lane, lanes), moe__i32(b, MOE__WARP / s->lanes)),
               moe__add(b, moe__udiv(b, s->lane, lanes), moe__i32(b, chunk * MOE__WARP)));
  moe__if_t inside = inside_begin(s, span, moe__mul(b, block, moe__i32(b, BLOCK)));
  MlirValue scales = moe__offset(b, s->scales, moe__lshr(b, span->first, BLOCK_BITS));
  moe__store(b, moe__trunc(b, scale, b->i8), moe__offset(b, scales, block));
  inside_end(s, span, &inside);
}

static void store_vector(stream_t *s, const span_t *span, int i, MlirValue reciprocal) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue element = element_of(s, i), words[MOE__VECTOR_WORDS];
  for (int j = 0; j < MOE__VECTOR_WORDS; j++)
    words[j] = moe__extract(b, span->vectors[i], j);
  moe__if_t inside = inside_begin(s, span, element);
  MlirValue q = moe__offset(b, moe__offset(b, s->q, span->first), element);
  moe__vector_store_fp8(b, &s->elements, words, reciprocal, s->element, q);
  inside_end(s, span, &inside);
}

static void quantize_vectors(stream_t *s, span_t span) {
  moe__builder_t *b = &s->kernel.builder;
  load_span(s, &span);
  for (int chunk = 0; chunk < s->schedule.chunks; chunk++) {
    int first = chunk * s->lanes;
    MlirValue scale = chunk_scale(s, span.vectors + first);
    store_scale(s, &span, chunk, scale);
    MlirValue reciprocal = moe__mx_reciprocal(b, scale);
    for (int i = 0; i < s->lanes; i++)
      store_vector(s, &span, first + i, moe__shuffle_among(b, reciprocal, i, s->lanes));
  }
}

/* The span that starts with element `first` (i64). All but the last one are whole, and need no
 * comparisons. */
static void quantize_span(stream_t *s, MlirValue first) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue left = moe__sub(b, s->total, first), whole = moe__i64(b, span_elements(s));
  moe__if_t is_whole = moe__if_begin(b, moe__ule(b, whole, left), true);
  quantize_vectors(s, (span_t){.first = first});
  moe__else(b, &is_whole);
  quantize_vectors(s, (span_t){.first = first, .left = moe__trunc(b, left, b->i32)});
  moe__if_end(b, &is_whole);
}

static void quantize_spans(stream_t *s) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  MlirValue warps = moe__i32(b, s->schedule.warps), size = moe__i32(b, span_elements(s));
  MlirValue warp = moe__add(b, moe__mul(b, kernel->block, warps), moe__lshr(b, kernel->thread, 5));
  s->lane = moe__and(b, kernel->thread, moe__i32(b, MOE__WARP - 1));
  MlirValue first = moe__wide_mul(b, warp, size);
  if (!s->schedule.persistent) {
    moe__if_t inside = moe__if_begin(b, moe__ult(b, first, s->total), false);
    quantize_span(s, first);
    moe__if_end(b, &inside);
    return;
  }
  MlirValue step = moe__wide_mul(b, moe__mul(b, kernel->block_count, warps), size);
  moe__for_t loop = moe__for_begin(b, first, s->total, step, 0, NULL);
  quantize_span(s, loop.index);
  moe__for_end(b, &loop, NULL);
}

/* ---- The kernel ---- */

static void add_parameters(stream_t *s, MlirType x) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  int rank = (int)mlirShapedTypeGetRank(x);
  moe__extent_t extents[MOE__MAX_RANK];
  const char *sizes[MOE__MAX_RANK];
  s->total = moe__i64(b, 1);
  for (int i = 0; i < rank; i++) {
    extents[i] = moe__kernel_extent(kernel, X, i, x);
    sizes[i] = extents[i].expression;
    s->total = moe__mul(b, s->total, moe__zext(b, extents[i].value, b->i64));
  }
  moe__expression_mul(s->count, rank, sizes);
  s->x = moe__kernel_pointer(kernel, X);
  s->q = moe__kernel_pointer(kernel, Q);
  s->scales = moe__kernel_pointer(kernel, SCALES);
  moe__kernel_require(kernel, X, rank - 1, "multiple_of", BLOCK);
}

static void grid_expression(const stream_t *s, char *out) {
  char blocks[MOE__EXPRESSION_SIZE];
  moe__expression_ceildiv(blocks, s->count, (int64_t)s->schedule.warps * span_elements(s));
  if (s->schedule.persistent)
    moe__expression_persistent(out, blocks, s->schedule.blocks_per_sm);
  else
    snprintf(out, MOE__EXPRESSION_SIZE, "%s", blocks);
}

bool moe__lower_quantize_stream(MlirOperation function, MlirOperation op,
                                MlirBlock gpu_module_body) {
  MlirType x = mlirValueGetType(mlirOperationGetOperand(op, X));
  stream_t s = {.elements = moe__elements_of(x, false),
                .element = moe__fp8_of(mlirValueGetType(mlirOperationGetResult(op, 0)))};
  if (!moe__mx_mode_from_name(moe__op_string(op, "mode"), &s.mode) ||
      !moe__stream_schedule_read(op, s.elements.bytes, &s.schedule))
    return false;
  moe__kernel_t *kernel = &s.kernel;
  moe__kernel_begin(kernel, mlirOperationGetContext(op), mlirOperationGetLocation(op),
                    s.schedule.warps * MOE__WARP, s.schedule.blocks_per_sm);
  s.columns = MOE__VECTOR_BYTES / s.elements.bytes;
  s.lanes = BLOCK / s.columns;
  add_parameters(&s, x);
  moe__kernel_prologue(kernel);
  moe__kernel_await_launches(kernel);
  quantize_spans(&s);
  char grid[MOE__EXPRESSION_SIZE];
  grid_expression(&s, grid);
  moe__kernel_end(kernel, gpu_module_body, moe__symbol(function),
                  (const char *const[]){grid, "1", "1"});
  return true;
}
