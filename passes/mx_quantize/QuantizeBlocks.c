/* QuantizeBlocks.c - the kernel of mx_quantize.quantize_fp8 in blocks of 1 x 128 and of 128 x 128: one
 * read.
 *
 * A thread loads one vector, 16 bytes of x, of each of several rows, all of them before it uses the
 * first; they stay in its registers while the largest magnitude of their block is found. Neighboring
 * threads have neighboring vectors, so that a block of 1 x 128 is in 16 (bf16) or 32 (f32) lanes of one
 * warp, which shuffle. A block of 128 x 128 is all of what a thread block has: its warps put what they
 * found into shared memory.
 *
 * Past the end of rows and columns the last vector inside counts once more: it is in the same block, and
 * a maximum does not change.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Builder/Shapes.h"
#include "lib/Kernel/Async.h"
#include "lib/Kernel/Tiles.h"
#include "lib/Kernel/Vectors.h"
#include "lib/Kernel/Warp.h"
#include "passes/Lowering.h"
#include "passes/Schedule.h"

#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/BuiltinTypes.h"

#include <stdio.h>

#define BLOCK 128
#define K_MULTIPLE 16

/* The op's tensors, by their number in the kernel's record. */
enum { X, Q, SCALES };

typedef struct blocks_t {
  moe__kernel_t kernel;
  moe__blocks_schedule_t schedule;
  moe__elements_t elements;
  moe__fp8_t element;
  bool pow2, square; /* square: blocks of 128 x 128 */
  int columns;       /* of a vector */
  int lanes;         /* vectors of a row of a tile */
  int step;          /* rows of a tile that the threads have at once */
  int count;         /* vectors of a thread */
  moe__extent_t e, n, k;
  MlirValue x, q, scales;
  int32_t warp_amax; /* offset in shared memory: two sets of what each warp found */
} blocks_t;

/* What a thread has of a tile. */
typedef struct part_t {
  MlirValue expert, row, column; /* i32: of its first vector */
  MlirValue start;               /* i64: number of the first element inside that it loads */
  MlirValue vectors[MOE__MAX_VECTORS];
} part_t;

bool moe__quantize_blocks_has_kernel(MlirOperation op) {
  MlirType x = mlirValueGetType(mlirOperationGetOperand(op, X));
  if (!moe__is_row_major(x) || !moe__is_row_major(mlirValueGetType(mlirOperationGetResult(op, 0))))
    return moe__error(op, "the kernel takes x and writes q row-major; remove their encoding");
  if (!moe__is_row_major(mlirValueGetType(mlirOperationGetResult(op, 1))))
    return moe__error(op, "the kernel writes scales row-major; remove their encoding");
  return moe__needs_multiple_of_16(op, "x", x, (int)mlirShapedTypeGetRank(x) - 1);
}

/* ---- A tile comes in ---- */

/* Number of x's vectors below the first one that the thread has: i * step rows. */
static MlirValue below(blocks_t *s, int i) {
  return moe__i32(&s->kernel.builder, i * s->step);
}

static void load_part(blocks_t *s, part_t *part) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue last_row = moe__sub(b, s->n.value, moe__i32(b, 1));
  MlirValue last_column = moe__sub(b, s->k.value, moe__i32(b, s->columns));
  MlirValue row = moe__umin(b, part->row, last_row), down = moe__sub(b, last_row, row);
  MlirValue column = moe__umin(b, part->column, last_column);
  MlirValue rows =
      moe__add(b, moe__wide_mul(b, part->expert, s->n.value), moe__zext(b, row, b->i64));
  part->start = moe__add(b, moe__mul(b, rows, moe__zext(b, s->k.value, b->i64)),
                         moe__zext(b, column, b->i64));
  for (int i = 0; i < s->count; i++) {
    MlirValue at =
        moe__add(b, moe__wide_mul(b, moe__umin(b, below(s, i), down), s->k.value), part->start);
    MlirValue address = moe__offset(b, s->x, moe__mul(b, at, moe__i64(b, s->elements.bytes)));
    part->vectors[i] = moe__vector_load(b, address);
  }
}

/* ---- Its largest magnitudes ---- */

/* The bits of the largest magnitude of the lanes that have a row of a block. */
static MlirValue row_amax(blocks_t *s, MlirValue vector) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue amax = moe__word_amax(b, &s->elements, moe__vector_magnitudes(b, &s->elements, vector));
  for (int distance = 1; distance < BLOCK / s->columns; distance *= 2)
    amax = moe__umax(b, amax, moe__shuffle_xor(b, amax, distance));
  return amax;
}

/* The same of all of the thread block. slot: 0 or 1, alternating: who is a tile ahead writes to the
 * other set, and nobody is two ahead, for the barrier in between. */
static MlirValue block_amax(blocks_t *s, const part_t *part, MlirValue slot) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue thread = s->kernel.thread;
  MlirValue words = moe__vector_magnitudes(b, &s->elements, part->vectors[0]);
  for (int i = 1; i < s->count; i++)
    words = moe__word_max(b, &s->elements, words,
                          moe__vector_magnitudes(b, &s->elements, part->vectors[i]));
  MlirValue amax = moe__warp_reduce(b, moe__word_amax(b, &s->elements, words), moe__umax);
  MlirValue set = moe__offset_by(
      b, moe__offset(b, s->kernel.shared, moe__mul(b, slot, moe__i32(b, 4 * s->schedule.warps))),
      s->warp_amax);
  MlirValue is_first = moe__eq(b, moe__and(b, thread, moe__i32(b, MOE__WARP - 1)), moe__i32(b, 0));
  moe__if_t first = moe__if_begin(b, is_first, false);
  moe__store(b, amax, moe__offset(b, set, moe__shl(b, moe__lshr(b, thread, 5), 2)));
  moe__if_end(b, &first);
  moe__block_barrier(b);
  amax = moe__load(b, set, b->i32);
  for (int i = 1; i < s->schedule.warps; i++)
    amax = moe__umax(b, amax, moe__load(b, moe__offset_by(b, set, 4 * i), b->i32));
  return amax;
}

/* ---- And goes out ---- */

/* The words of a vector, as if just loaded: else the compiler would keep for the cast what it has found
 * of each element for the maximum, in more registers than there are. */
static void words_of(blocks_t *s, MlirValue vector, MlirValue out[MOE__VECTOR_WORDS]) {
  moe__builder_t *b = &s->kernel.builder;
  for (int i = 0; i < MOE__VECTOR_WORDS; i++)
    out[i] = moe__fresh(b, moe__extract(b, vector, i));
}

/* Casts the thread's vector number i and stores it, where it is inside. */
static void store_vector(blocks_t *s, const part_t *part, int i, MlirValue factor) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue row = moe__add(b, part->row, below(s, i));
  MlirValue is_inside =
      moe__and(b, moe__ult(b, row, s->n.value), moe__ult(b, part->column, s->k.value));
  moe__if_t inside = moe__if_begin(b, is_inside, false);
  MlirValue words[MOE__VECTOR_WORDS];
  words_of(s, part->vectors[i], words);
  MlirValue at = moe__add(b, moe__wide_mul(b, below(s, i), s->k.value), part->start);
  moe__vector_store_fp8(b, &s->elements, words, factor, s->element, moe__offset(b, s->q, at));
  moe__if_end(b, &inside);
}

/* Stores the scale of the block that has the thread's vector at `row`; one thread of the block does. */
static void store_scale(blocks_t *s, const part_t *part, MlirValue row, MlirValue does,
                        MlirValue factor) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue inside =
      moe__and(b, moe__ult(b, row, s->n.value), moe__ult(b, part->column, s->k.value));
  moe__if_t store = moe__if_begin(b, moe__and(b, does, inside), false);
  MlirValue rows = s->square ? moe__ceil_div(b, s->n.value, BLOCK) : s->n.value;
  MlirValue at = s->square ? moe__udiv(b, row, moe__i32(b, BLOCK)) : row;
  MlirValue index = moe__add(b, moe__wide_mul(b, part->expert, rows), moe__zext(b, at, b->i64));
  MlirValue across = moe__zext(b, moe__ceil_div(b, s->k.value, BLOCK), b->i64);
  MlirValue column = moe__udiv(b, part->column, moe__i32(b, BLOCK));
  index = moe__add(b, moe__mul(b, index, across), moe__zext(b, column, b->i64));
  moe__store(b, moe__fp8_inverse(b, factor), moe__offset(b, s->scales, moe__shl(b, index, 2)));
  moe__if_end(b, &store);
}

static void quantize_tiles(blocks_t *s) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  const moe__blocks_schedule_t *schedule = &s->schedule;
  MlirValue lanes = moe__i32(b, s->lanes);
  MlirValue thread_row = moe__udiv(b, kernel->thread, lanes);
  MlirValue thread_column =
      moe__mul(b, moe__urem(b, kernel->thread, lanes), moe__i32(b, s->columns));
  /* The first of the threads that have a block. */
  MlirValue sharing = moe__i32(b, s->square ? kernel->threads : BLOCK / s->columns);
  MlirValue does = moe__eq(b, moe__urem(b, kernel->thread, sharing), moe__i32(b, 0));
  moe__tiles_t tiles =
      moe__tiles_create(b, s->e.value, moe__ceil_div(b, s->n.value, schedule->tile_n),
                        moe__ceil_div(b, s->k.value, schedule->tile_k), schedule->band);
  moe__for_t loop = moe__tiles_begin(kernel, &tiles, 1, (MlirValue[]){moe__i32(b, 0)});
  moe__tile_t tile = moe__tile_at(b, &tiles, loop.index);
  part_t part = {
      .expert = tile.batch,
      .row = moe__add(b, moe__mul(b, tile.row, moe__i32(b, schedule->tile_n)), thread_row),
      .column = moe__add(b, moe__mul(b, tile.column, moe__i32(b, schedule->tile_k)), thread_column),
  };
  load_part(s, &part);
  MlirValue factor = {NULL};
  if (s->square)
    factor = moe__fp8_factor(b, block_amax(s, &part, loop.carried[0]), s->element, s->pow2);
  for (int i = 0; i < s->count; i++) {
    if (!s->square)
      factor = moe__fp8_factor(b, row_amax(s, part.vectors[i]), s->element, s->pow2);
    if (!s->square || i == 0)
      store_scale(s, &part, moe__add(b, part.row, below(s, i)), does, factor);
    store_vector(s, &part, i, factor);
  }
  moe__for_end(b, &loop, (MlirValue[]){moe__xor(b, loop.carried[0], moe__i32(b, 1))});
}

/* ---- The kernel ---- */

static void add_parameters(blocks_t *s, MlirType x) {
  moe__kernel_t *kernel = &s->kernel;
  int rank = (int)mlirShapedTypeGetRank(x);
  s->e =
      rank == 3
          ? moe__kernel_extent(kernel, X, 0, x)
          : (moe__extent_t){.size = 1, .value = moe__i32(&kernel->builder, 1), .expression = "1"};
  s->n = moe__kernel_extent(kernel, X, rank - 2, x);
  s->k = moe__kernel_extent(kernel, X, rank - 1, x);
  s->x = moe__kernel_pointer(kernel, X);
  s->q = moe__kernel_pointer(kernel, Q);
  s->scales = moe__kernel_pointer(kernel, SCALES);
  moe__kernel_require(kernel, X, rank - 1, "multiple_of", K_MULTIPLE);
}

static void grid_expression(const blocks_t *s, char *out) {
  char rows[MOE__EXPRESSION_SIZE], columns[MOE__EXPRESSION_SIZE], tiles[MOE__EXPRESSION_SIZE];
  moe__expression_ceildiv(rows, s->n.expression, s->schedule.tile_n);
  moe__expression_ceildiv(columns, s->k.expression, s->schedule.tile_k);
  moe__expression_mul(tiles, 3, (const char *[]){s->e.expression, rows, columns});
  moe__expression_persistent(out, tiles, s->schedule.blocks_per_sm);
}

bool moe__lower_quantize_blocks(MlirOperation function, MlirOperation op,
                                MlirBlock gpu_module_body) {
  MlirType x = mlirValueGetType(mlirOperationGetOperand(op, X));
  blocks_t s = {.elements = moe__elements_of(x, moe__op_bool(op, "sanitize")),
                .element = moe__fp8_of(mlirValueGetType(mlirOperationGetResult(op, 0))),
                .pow2 = moe__op_bool(op, "pow2"),
                .square = moe__op_granularity(op) == MOE__128X128};
  if (!moe__blocks_schedule_read(op, s.elements.bytes, s.square, &s.schedule))
    return false;
  moe__kernel_t *kernel = &s.kernel;
  moe__kernel_begin(kernel, mlirOperationGetContext(op), mlirOperationGetLocation(op),
                    s.schedule.warps * MOE__WARP, s.schedule.blocks_per_sm);
  s.columns = MOE__VECTOR_BYTES / s.elements.bytes;
  s.lanes = s.schedule.tile_k / s.columns;
  s.step = kernel->threads / s.lanes;
  s.count = s.schedule.tile_n / s.step;
  add_parameters(&s, x);
  moe__kernel_prologue(kernel);
  moe__kernel_await_launches(kernel);
  if (s.square)
    s.warp_amax = moe__kernel_shared(kernel, 2 * 4 * s.schedule.warps, 16);
  quantize_tiles(&s);
  char grid[MOE__EXPRESSION_SIZE];
  grid_expression(&s, grid);
  moe__kernel_end(kernel, gpu_module_body, moe__symbol(function),
                  (const char *const[]){grid, "1", "1"});
  return true;
}
