/* QuantizeTiles.c - the kernel of mx_quantize.quantize along N of (E,N,K), stored
 * column-major.
 *
 * Why a kernel of its own: people transpose, copy, quantize along the last axis and transpose back.
 * Here every byte moves once: a tile comes in through one tensor map, is quantized in registers,
 * transposed through shared memory, and leaves through another.
 *
 * - One warp loads. For each tile it waits until a stage is free and fetches the tile's boxes by
 *   TMA.
 * - The others quantize. For each tile, strip by strip (32 rows x 128 bytes, one block of 32 per
 *   column), they load, find amax and scale, cast, and store transposed; then one thread sends the
 *   tile off by TMA.
 *
 * Shared memory has no bank conflicts on either side. Coming in, a warp reads a row of 128 swizzled
 * bytes at a time. Going out, a lane holds 32 results of a column, 32 consecutive bytes of the
 * transposed tile, and writes them 16 at a time; the 8 lanes of one memory phase must hit 8
 * different 16-byte columns of the 128-byte swizzle. With one column a lane (fp32) they do. With
 * two (bf16) lanes 4..7 would collide with lanes 0..3, so they take the two halves of the block in
 * the other order, from the load on: it costs nothing.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Builder/Inspect.h"
#include "lib/Kernel/Async.h"
#include "lib/Kernel/Fp8.h"
#include "lib/Kernel/Tiles.h"
#include "passes/Lowering.h"
#include "passes/Schedule.h"

#include "mlir-c/BuiltinTypes.h"

#define BLOCK 32      /* elements that share a scale */
#define ROW_BYTES 128 /* of a swizzled row in shared memory */
#define CHUNK 16      /* bytes that a swizzle moves together */
#define HALF (BLOCK / 2)
#define WARP 32
#define K_MULTIPLE 16
#define CONSUMER_BARRIER 1
#define CONSUMER_BARRIER_2 2

/* The op's tensors, by their number in the kernel's record. */
enum { X, Q, SCALES };
/* The dimensions of x. */
enum { E, N, K };

typedef struct quantize_t {
  moe__kernel_t kernel;
  moe__quantize_schedule_t schedule;
  moe__fp8_t element;
  moe__mx_mode_t mode;
  int x_bytes;      /* of an element of x */
  int lane_columns; /* columns of x in 4 bytes: 2 for bf16, 1 for fp32 */
  int box_k;        /* columns in 128 bytes of x */
  moe__extent_t extents[3];
  MlirValue x_map, q_map, scales;
  moe__tiles_t tiles;
  moe__ring_t ring;
  int32_t output; /* offset of the output tiles in shared memory */
} quantize_t;

/* ---- Parameters ---- */

static void add_parameters(quantize_t *s, MlirType x_type) {
  moe__kernel_t *kernel = &s->kernel;
  /* Extents come first: the tensor maps are written in terms of them. Their parameters do too. */
  for (int i = 0; i < 3; i++)
    s->extents[i] = moe__kernel_extent(kernel, X, i, x_type);
  const char *e = s->extents[E].expression, *n = s->extents[N].expression,
             *k = s->extents[K].expression;
  char x_row[MOE__EXPRESSION_SIZE], x_expert[MOE__EXPRESSION_SIZE], q_expert[MOE__EXPRESSION_SIZE];
  const char *bytes = s->x_bytes == 2 ? "2" : "4";
  moe__expression_mul(x_row, 2, (const char *[]){k, bytes});
  moe__expression_mul(x_expert, 3, (const char *[]){n, k, bytes});
  moe__expression_mul(q_expert, 2, (const char *[]){n, k});
  s->x_map = moe__kernel_tensor_map(kernel, &(moe__tensor_map_t){
                                                .tensor = X,
                                                .element = s->x_bytes == 2 ? "bf16" : "f32",
                                                .rank = 3,
                                                .dims = {k, n, e},
                                                .strides = {x_row, x_expert},
                                                .box = {s->box_k, s->schedule.tile_n, 1},
                                                .swizzle = "128B",
                                            });
  s->q_map = moe__kernel_tensor_map(kernel, &(moe__tensor_map_t){
                                                .tensor = Q,
                                                .element = "u8",
                                                .rank = 3,
                                                .dims = {n, k, e},
                                                .strides = {n, q_expert},
                                                .box = {ROW_BYTES, s->schedule.tile_k, 1},
                                                .swizzle = "128B",
                                            });
  s->scales = moe__kernel_pointer(kernel, SCALES);
  moe__kernel_require(kernel, X, N, "multiple_of", BLOCK);
  moe__kernel_require(kernel, X, K, "multiple_of",
                      K_MULTIPLE); /* strides of tensor maps are multiples of 16 bytes */
}

/* ---- The loading warp ---- */

static void load_tiles(quantize_t *s) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  int32_t box_bytes = s->schedule.tile_n * ROW_BYTES;
  int boxes = s->schedule.tile_k / s->box_k;
  moe__cursor_t start = moe__cursor_start(b);
  moe__for_t loop = moe__tiles_begin(kernel, &s->tiles, 2, (MlirValue[]){start.stage, start.phase});
  moe__cursor_t cursor = {loop.carried[0], loop.carried[1]};
  moe__tile_t tile = moe__tile_at(b, &s->tiles, loop.index);
  MlirValue row = moe__mul(b, tile.row, moe__i32(b, s->schedule.tile_n));
  MlirValue column = moe__mul(b, tile.column, moe__i32(b, s->schedule.tile_k));
  MlirValue landed = moe__ring_acquire(kernel, &s->ring, cursor, moe__i32(b, boxes * box_bytes));
  MlirValue buffer = moe__ring_buffer(kernel, &s->ring, cursor);
  for (int i = 0; i < boxes; i++)
    moe__tma_load(b, s->x_map, moe__offset_by(b, buffer, i * box_bytes), landed, 3,
                  (MlirValue[]){moe__add(b, column, moe__i32(b, i * s->box_k)), row, tile.batch});
  cursor = moe__cursor_next(b, &s->ring, cursor);
  moe__for_end(b, &loop, (MlirValue[]){cursor.stage, cursor.phase});
}

/* ---- The quantizing warps ---- */

/* What a lane knows of itself; the same for every strip. */
typedef struct lane_t {
  MlirValue warp, lane;  /* i32; warp counts from 0 */
  MlirValue swap;        /* 1 where the lane takes the second half of a block first, else 0 */
  MlirValue read[8];     /* byte offset of its 4 bytes in row r of a swizzled tile, by r % 8 */
  MlirValue first_half;  /* byte offset of the row that its first 16 loads start from, */
  MlirValue second_half; /* and of its last 16 */
} lane_t;

static lane_t lane_of(quantize_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  lane_t self = {.warp = moe__lshr(b, s->kernel.thread, 5),
                 .lane = moe__and(b, s->kernel.thread, moe__i32(b, WARP - 1))};
  self.swap = s->lane_columns == 2 ? moe__and(b, moe__lshr(b, self.lane, 2), moe__i32(b, 1))
                                   : moe__i32(b, 0);
  MlirValue chunk = moe__lshr(b, self.lane, 2);
  MlirValue in_chunk = moe__shl(b, moe__and(b, self.lane, moe__i32(b, 3)), 2);
  for (int i = 0; i < 8; i++)
    self.read[i] = moe__add(b, moe__shl(b, moe__xor(b, chunk, moe__i32(b, i)), 4), in_chunk);
  self.first_half = moe__mul(b, self.swap, moe__i32(b, HALF * ROW_BYTES));
  self.second_half = moe__xor(b, self.first_half, moe__i32(b, HALF * ROW_BYTES));
  return self;
}

/* The lane's 32 words of a strip, in the order in which it will store them. */
static void load_strip(quantize_t *s, const lane_t *self, MlirValue strip, MlirValue words[BLOCK]) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue starts[2] = {moe__offset(b, strip, self->first_half),
                         moe__offset(b, strip, self->second_half)};
  for (int half = 0; half < 2; half++)
    for (int i = 0; i < 8; i++) {
      MlirValue address = moe__offset(b, starts[half], self->read[i]);
      for (int j = i; j < HALF; j += 8)
        words[half * HALF + j] = moe__load(b, moe__offset_by(b, address, j * ROW_BYTES), b->i32);
    }
}

/* The largest magnitude of each of the lane's columns, as f32. */
static void strip_amax(quantize_t *s, const MlirValue words[BLOCK], MlirValue amax[2]) {
  moe__builder_t *b = &s->kernel.builder;
  MlirType type = s->lane_columns == 2 ? moe__type(b, "vector<2xbf16>") : b->f32;
  MlirValue level[BLOCK];
  for (int i = 0; i < BLOCK; i++)
    level[i] =
        moe__op1(b, "llvm.intr.fabs", type, MOE__VALUES(moe__bitcast(b, words[i], type)), NULL);
  for (int count = BLOCK / 2; count >= 1; count /= 2)
    for (int i = 0; i < count; i++)
      level[i] =
          moe__op1(b, "llvm.intr.maximum", type, MOE__VALUES(level[i], level[i + count]), NULL);
  if (s->lane_columns == 1) {
    amax[0] = level[0];
    return;
  }
  MlirValue bits = moe__bitcast(b, level[0], b->i32);
  amax[0] = moe__bitcast(b, moe__shl(b, bits, 16), b->f32);
  amax[1] = moe__bitcast(b, moe__and(b, bits, moe__i32(b, (int32_t)0xFFFF0000)), b->f32);
}

/* Column `column` of a word, as f32. */
static MlirValue element_of(quantize_t *s, MlirValue word, int column) {
  moe__builder_t *b = &s->kernel.builder;
  if (s->lane_columns == 2)
    word =
        column == 0 ? moe__shl(b, word, 16) : moe__and(b, word, moe__i32(b, (int32_t)0xFFFF0000));
  return moe__bitcast(b, word, b->f32);
}

/* Quantizes the words of one column and stores its 32 bytes into row `row` of the transposed tile.
 * first_chunk: the 16-byte column of the block's first half in that row, before the swizzle. */
static void store_column(quantize_t *s, const lane_t *self, const MlirValue words[BLOCK],
                         int column, MlirValue reciprocal, MlirValue tile, MlirValue row,
                         MlirValue first_chunk) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue packed[BLOCK / 4];
  for (int i = 0; i < BLOCK / 4; i++) {
    MlirValue scaled[4];
    for (int j = 0; j < 4; j++)
      scaled[j] = moe__fmul(b, element_of(s, words[4 * i + j], column), reciprocal);
    packed[i] = moe__fp8_pack4(b, scaled, s->element);
  }
  /* A block starts at an even chunk, so its halves differ in the lowest bit, before and after the
   * swizzle. */
  MlirValue chunk =
      moe__xor(b, moe__or(b, first_chunk, self->swap), moe__and(b, row, moe__i32(b, 7)));
  MlirValue offset = moe__add(b, moe__shl(b, row, 7), moe__shl(b, chunk, 4));
  moe__store(b, moe__vector(b, 4, packed), moe__offset(b, tile, offset));
  moe__store(b, moe__vector(b, 4, packed + 4),
             moe__offset(b, tile, moe__xor(b, offset, moe__i32(b, CHUNK))));
}

/* Writes the scales of the lane's columns, where they lie inside the tensor. block: row of the
 * scales; column: of x. */
static void store_scales(quantize_t *s, MlirValue expert, MlirValue block, MlirValue column,
                         const MlirValue scales[2]) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue blocks = moe__lshr(b, s->extents[N].value, 5);
  /* K is a multiple of 16: the two columns of a lane are both inside or both outside. */
  moe__if_t inside = moe__if_begin(
      b, moe__and(b, moe__ult(b, block, blocks), moe__ult(b, column, s->extents[K].value)), false);
  {
    MlirValue row =
        moe__add(b, moe__mul(b, moe__zext(b, expert, b->i64), moe__zext(b, blocks, b->i64)),
                 moe__zext(b, block, b->i64));
    MlirValue index = moe__add(b, moe__mul(b, row, moe__zext(b, s->extents[K].value, b->i64)),
                               moe__zext(b, column, b->i64));
    MlirValue bytes = scales[0];
    if (s->lane_columns == 2)
      bytes = moe__or(b, bytes, moe__shl(b, scales[1], 8));
    moe__store(b, moe__trunc(b, bytes, s->lane_columns == 2 ? b->i16 : b->i8),
               moe__offset(b, s->scales, index));
  }
  moe__if_end(b, &inside);
}

static void quantize_tiles(quantize_t *s) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  const moe__quantize_schedule_t *schedule = &s->schedule;
  int strips_n = schedule->tile_n / BLOCK;
  int strips = strips_n * (schedule->tile_k / s->box_k), strips_per_warp = strips / schedule->warps;
  int32_t tile_bytes = schedule->tile_n * schedule->tile_k;
  int32_t consumer_threads = schedule->warps * WARP;
  lane_t self = lane_of(s);
  MlirValue is_sender = moe__eq(b, kernel->thread, moe__i32(b, 0));

  moe__cursor_t start = moe__cursor_start(b);
  moe__for_t loop = moe__tiles_begin(kernel, &s->tiles, 3,
                                     (MlirValue[]){start.stage, start.phase, moe__i32(b, 0)});
  moe__cursor_t cursor = {loop.carried[0], loop.carried[1]};
  MlirValue slot = loop.carried[2];
  moe__tile_t tile = moe__tile_at(b, &s->tiles, loop.index);
  MlirValue output = moe__offset_by(
      b, moe__offset(b, kernel->shared, moe__mul(b, slot, moe__i32(b, tile_bytes))), s->output);

  if (schedule->output_stages ==
      1) { /* the only slot must have been read before it is written again */
    moe__if_t sender = moe__if_begin(b, is_sender, false);
    moe__tma_wait_read(b, 0);
    moe__if_end(b, &sender);
    moe__named_barrier(b, CONSUMER_BARRIER_2, consumer_threads);
  }
  moe__ring_wait(kernel, &s->ring, cursor);
  MlirValue input = moe__ring_buffer(kernel, &s->ring, cursor);
  for (int i = 0; i < strips_per_warp; i++) {
    /* Strips run down the rows first: (box, block of rows). */
    MlirValue strip =
        moe__add(b, moe__mul(b, self.warp, moe__i32(b, strips_per_warp)), moe__i32(b, i));
    MlirValue box = moe__udiv(b, strip, moe__i32(b, strips_n));
    MlirValue block = moe__urem(b, strip, moe__i32(b, strips_n));
    MlirValue words[BLOCK], amax[2], scales[2] = {{NULL}};
    load_strip(s, &self, moe__offset(b, input, moe__mul(b, strip, moe__i32(b, BLOCK * ROW_BYTES))),
               words);
    if (i ==
        strips_per_warp - 1) { /* all of the warp's reads are done: the stage may be refilled */
      moe__warp_barrier(b);
      moe__if_t first = moe__if_begin(b, moe__eq(b, self.lane, moe__i32(b, 0)), false);
      moe__ring_release(kernel, &s->ring, cursor);
      moe__if_end(b, &first);
    }
    strip_amax(s, words, amax);
    MlirValue column = moe__add(b, moe__mul(b, box, moe__i32(b, s->box_k)),
                                moe__mul(b, self.lane, moe__i32(b, s->lane_columns)));
    /* Rows of the transposed tile are 128 bytes long; a tile of 256 rows of x is two such halves.
     */
    MlirValue half = moe__offset(
        b, output, moe__mul(b, moe__lshr(b, block, 2), moe__i32(b, ROW_BYTES * schedule->tile_k)));
    MlirValue first_chunk = moe__shl(b, moe__and(b, block, moe__i32(b, 3)), 1);
    for (int c = 0; c < s->lane_columns; c++) {
      scales[c] = moe__mx_scale(b, amax[c], s->mode, s->element);
      store_column(s, &self, words, c, moe__mx_reciprocal(b, scales[c]), half,
                   moe__add(b, column, moe__i32(b, c)), first_chunk);
    }
    store_scales(s, tile.batch, moe__add(b, moe__mul(b, tile.row, moe__i32(b, strips_n)), block),
                 moe__add(b, moe__mul(b, tile.column, moe__i32(b, schedule->tile_k)), column),
                 scales);
  }

  moe__fence_shared_to_async(b);
  if (schedule->output_stages ==
      2) { /* before anyone passes the barrier and writes the other slot, it must have been read */
    moe__if_t sender = moe__if_begin(b, is_sender, false);
    moe__tma_wait_read(b, 0);
    moe__if_end(b, &sender);
  }
  moe__named_barrier(b, CONSUMER_BARRIER, consumer_threads);
  moe__if_t sender = moe__if_begin(b, is_sender, false);
  {
    MlirValue row = moe__mul(b, tile.row, moe__i32(b, schedule->tile_n));
    MlirValue column = moe__mul(b, tile.column, moe__i32(b, schedule->tile_k));
    for (int i = 0; i < schedule->tile_n / ROW_BYTES; i++)
      moe__tma_store(
          b, s->q_map, moe__offset_by(b, output, i * ROW_BYTES * schedule->tile_k), 3,
          (MlirValue[]){moe__add(b, row, moe__i32(b, i * ROW_BYTES)), column, tile.batch});
    moe__tma_commit(b);
  }
  moe__if_end(b, &sender);
  cursor = moe__cursor_next(b, &s->ring, cursor);
  MlirValue next_slot = schedule->output_stages == 2 ? moe__xor(b, slot, moe__i32(b, 1)) : slot;
  moe__for_end(b, &loop, (MlirValue[]){cursor.stage, cursor.phase, next_slot});
  /* Shared memory must outlive the copies out of it. */
  moe__if_t last = moe__if_begin(b, is_sender, false);
  moe__tma_wait_read(b, 0);
  moe__if_end(b, &last);
}

/* ---- The kernel ---- */

bool moe__quantize_has_kernel(MlirOperation op) {
  MlirType x = mlirValueGetType(mlirOperationGetOperand(op, 0));
  MlirType q = mlirValueGetType(mlirOperationGetResult(op, 0));
  MlirType scales = mlirValueGetType(mlirOperationGetResult(op, 1));
  if (mlirShapedTypeGetRank(x) != 3 || moe__op_integer(op, "axis") != 1)
    return moe__error(
        op,
        "no kernel quantizes a tensor of rank %d along axis %d yet; there is one for rank 3 "
        "along axis 1",
        (int)mlirShapedTypeGetRank(x), (int)moe__op_integer(op, "axis"));
  if (!moe__needs_multiple_of_16(op, "x", x, 2))
    return false;
  if (!moe__is_order(x, 3, (int[]){0, 1, 2}) || !moe__is_order(scales, 3, (int[]){0, 1, 2}))
    return moe__error(op, "the kernel takes x and scales row-major; remove their encoding");
  if (!moe__is_order(q, 3, (int[]){0, 2, 1}))
    return moe__error(op, "the kernel writes q column-major per expert; give q the encoding "
                          "affine_map<(e, n, k) -> (e, k, n)>");
  return true;
}

static void grid_expression(const quantize_t *s, char *out) {
  char rows[MOE__EXPRESSION_SIZE], columns[MOE__EXPRESSION_SIZE], tiles[MOE__EXPRESSION_SIZE],
      resident[MOE__EXPRESSION_SIZE], blocks[16];
  moe__expression_ceildiv(rows, s->extents[N].expression, s->schedule.tile_n);
  moe__expression_ceildiv(columns, s->extents[K].expression, s->schedule.tile_k);
  moe__expression_mul(tiles, 3, (const char *[]){s->extents[E].expression, rows, columns});
  snprintf(blocks, sizeof blocks, "%d", s->schedule.blocks_per_sm);
  moe__expression_mul(resident, 2, (const char *[]){"\"num_sms\"", blocks});
  moe__expression_min(out, tiles, resident);
}

bool moe__lower_quantize(MlirOperation function, MlirOperation op, MlirBlock gpu_module_body) {
  MlirType x_type = mlirValueGetType(mlirOperationGetOperand(op, 0));
  MlirType q_type = mlirValueGetType(mlirOperationGetResult(op, 0));
  quantize_t s = {
      .element =
          mlirTypeIsAFloat8E4M3FN(mlirShapedTypeGetElementType(q_type)) ? MOE__E4M3 : MOE__E5M2,
      .x_bytes = mlirTypeIsABF16(mlirShapedTypeGetElementType(x_type)) ? 2 : 4,
  };
  s.lane_columns = 4 / s.x_bytes;
  s.box_k = ROW_BYTES / s.x_bytes;
  if (!moe__mx_mode_from_name(moe__op_string(op, "mode"), &s.mode) ||
      !moe__quantize_has_kernel(op) || !moe__quantize_schedule_read(op, s.x_bytes, &s.schedule))
    return false;

  moe__kernel_t *kernel = &s.kernel;
  moe__builder_t *b = &kernel->builder;
  int32_t loader = s.schedule.warps; /* the last warp */
  moe__kernel_begin(kernel, mlirOperationGetContext(op), mlirOperationGetLocation(op),
                    (s.schedule.warps + 1) * WARP, s.schedule.blocks_per_sm);
  add_parameters(&s, x_type);
  moe__kernel_prologue(kernel);
  int32_t tile = s.schedule.tile_n * s.schedule.tile_k;
  s.output = moe__kernel_shared(kernel, s.schedule.output_stages * tile, 1024);
  s.ring = moe__ring_create(kernel, s.schedule.stages, tile * s.x_bytes);
  s.tiles = moe__tiles_create(
      b, s.extents[E].value, moe__ceil_div(b, s.extents[N].value, s.schedule.tile_n),
      moe__ceil_div(b, s.extents[K].value, s.schedule.tile_k), s.schedule.band);

  MlirValue is_loader = moe__eq(b, kernel->thread, moe__i32(b, loader * WARP));
  moe__if_t setup = moe__if_begin(b, is_loader, false);
  moe__tma_prefetch_map(b, s.x_map);
  moe__tma_prefetch_map(b, s.q_map);
  moe__ring_initialize(kernel, &s.ring, s.schedule.warps);
  moe__if_end(b, &setup);
  moe__block_barrier(b);

  moe__if_t role = moe__if_begin(b, moe__ult(b, kernel->thread, moe__i32(b, loader * WARP)), true);
  quantize_tiles(&s);
  moe__else(b, &role);
  {
    moe__if_t one_lane = moe__if_begin(b, is_loader, false);
    load_tiles(&s);
    moe__if_end(b, &one_lane);
  }
  moe__if_end(b, &role);

  char grid[MOE__EXPRESSION_SIZE];
  grid_expression(&s, grid);
  MlirStringRef name = moe__symbol(function);
  moe__kernel_end(kernel, gpu_module_body, name, (const char *const[]){grid, "1", "1"});
  return true;
}
