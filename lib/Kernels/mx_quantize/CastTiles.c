/* CastTiles.c - see CastTiles.h.
 *
 * Shared memory has no bank conflicts on any side. Coming in, a tile lies in boxes of 128 bytes
 * a row, in the 128-byte swizzle. A warp that writes columns reads a row of a box at a time; one
 * that writes rows reads 16 bytes of each of its rows, and the swizzle puts those of 8
 * consecutive rows, which is what one memory phase takes, side by side.
 *
 * Going out by rows, the same holds for stores of 16 bytes: an output tile is as wide as one of
 * the swizzles, and each of them spreads 8 consecutive rows. Going out by columns, a lane holds
 * 32 results of a column, 32 consecutive bytes of the transposed tile, and writes them 16 at a
 * time; the 8 lanes of one memory phase must hit 8 different 16-byte columns of the 128-byte
 * swizzle. With one column a lane (fp32) they do. With two (bf16) lanes 4..7 would collide with
 * lanes 0..3, so they take the two halves of the strip in the other order, from the load on: it
 * costs nothing.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/mx_quantize/CastTiles.h"

#include "moe/limits.h"

#include "lib/Builder/Inspect.h"
#include "lib/Device/Warp.h"

#include "mlir-c/BuiltinTypes.h"

#define ROW_BYTES 128 /* of a swizzled row in shared memory */
#define CHUNK 16      /* bytes that a swizzle moves together */
#define CHUNK_BITS 4
#define UNIT_ROWS 32 /* of a unit in columns */
#define HALF (UNIT_ROWS / 2)
#define UNIT_BYTES (UNIT_ROWS * ROW_BYTES)
#define CONSUMER_BARRIER 1
#define CONSUMER_BARRIER_2 2

/* Columns of x in 128 bytes. */
static int box_k(const moe__cast_tiles_t *tiles) {
  return ROW_BYTES / tiles->elements.bytes;
}

/* Boxes side by side in a tile. */
static int boxes(const moe__cast_tiles_t *tiles) {
  return tiles->schedule.tile_k / box_k(tiles);
}

static int32_t tile_elements(const moe__cast_tiles_t *tiles) {
  return tiles->schedule.tile_n * tiles->schedule.tile_k;
}

int moe__cast_units(const moe__cast_schedule_t *schedule, int element_bytes) {
  return schedule->tile_n * schedule->tile_k * element_bytes / UNIT_BYTES / schedule->warps;
}

static int units(const moe__cast_tiles_t *tiles) {
  return moe__cast_units(&tiles->schedule, tiles->elements.bytes);
}

int moe__cast_pieces(const moe__cast_tiles_t *tiles) {
  /* As many as together have 128 elements: their scales are the 4 bytes of a word. */
  int pieces = tiles->elements.bytes;
  while (boxes(tiles) % pieces)
    pieces /= 2;
  return pieces;
}

/* An output tile in rows is made of panels that are as wide as a swizzle: 32, 64 or 128 bytes. */
static int panel(const moe__cast_tiles_t *tiles) {
  int width = ROW_BYTES;
  while (tiles->schedule.tile_k % width)
    width /= 2;
  return width;
}

/* ---- The schedule ---- */

MOE__SCHEDULE_KIND(moe__cast_schedule, moe__cast_schedule_t, MOE__CAST_SCHEDULE, "tiles",
                   "quantize along the dimension before the last, quantize_dual, cast_fp8, "
                   "cast_fp8_dual, cast_fp8_pair");

#define MAX_BOX 256 /* rows and columns of a box of a tensor map */

/* Whether the tile can be cut into strips that the warps share. */
static bool check_schedule(MlirOperation op, const moe__cast_schedule_t *schedule,
                           const bool writes[2], int element_bytes) {
  int width = ROW_BYTES / element_bytes, height = writes[MOE__COLUMNS] ? ROW_BYTES : UNIT_ROWS;
  if (schedule->tile_n % height)
    return moe__error(op, "'schedule.tile_n' is %d; it must be a multiple of %d", schedule->tile_n,
                      height);
  if (writes[MOE__COLUMNS] && schedule->tile_k > MAX_BOX)
    return moe__error(op,
                      "'schedule.tile_k' is %d; with a column-major result it must be at most %d",
                      schedule->tile_k, MAX_BOX);
  if (schedule->tile_k % width)
    return moe__error(op, "'schedule.tile_k' is %d; it must be a multiple of %d", schedule->tile_k,
                      width);
  int strips = schedule->tile_n / UNIT_ROWS * (schedule->tile_k / width);
  if (strips % schedule->warps)
    return moe__error(
        op, "'schedule.warps' is %d; it must divide the tile's %d strips of 32 rows and 128 bytes",
        schedule->warps, strips);
  if (writes[MOE__ROWS] && writes[MOE__COLUMNS] && schedule->output_stages != 1)
    return moe__error(op,
                      "'schedule.output_stages' is %d; it must be 1 where both results are "
                      "written, which take turns",
                      schedule->output_stages);
  return strips / schedule->warps <= MOE__MAX_UNITS ||
         moe__error(op,
                    "'schedule.warps' is %d; a warp may have at most %d of the tile's %d strips",
                    schedule->warps, MOE__MAX_UNITS, strips);
}

bool moe__cast_layout(MlirOperation op, const moe__cast_schedule_t *schedule, const bool writes[2],
                      int element_bytes, int max_groups, moe__cast_layout_t *out) {
  if (!check_schedule(op, schedule, writes, element_bytes))
    return false;
  int32_t elements = schedule->tile_n * schedule->tile_k;
  out->cta.threads = (schedule->warps + 1) * MOE__WARP;
  out->cta.ctas_per_sm = schedule->ctas_per_sm;
  for (int direction = 0; direction < 2; direction++)
    if (writes[direction])
      out->outputs[direction] =
          moe__layout_shared(&out->cta, schedule->output_stages * elements, 1024);
  out->ring = moe__ring_reserve(&out->cta, schedule->stages, elements * element_bytes);
  out->groups = moe__groups_reserve(&out->cta, max_groups, false);
  return true;
}

/* ---- Parameters ---- */

/* A map of tensor number `number`, of the shape of `tensor`, over rows x columns of each batch,
 * in the order of memory. */
static MlirValue add_map(moe__cast_tiles_t *tiles, const moe__cast_tensor_t *tensor, int number,
                         const char *element, int bytes, const moe__extent_t *rows,
                         const moe__extent_t *columns, int box_rows, int box_columns) {
  static const char *const swizzles[] = {"32B", "64B", "128B"};
  char row[MOE__EXPRESSION_SIZE], batch[MOE__EXPRESSION_SIZE], size[8];
  snprintf(size, sizeof size, "%d", bytes);
  const char *n = tiles->n.expression, *k = tensor->k.expression;
  if (bytes == 1)
    snprintf(row, sizeof row, "%s", columns->expression);
  else
    moe__expression_mul(row, 2, (const char *[]){columns->expression, size});
  moe__expression_mul(batch, bytes == 1 ? 2 : 3, (const char *[]){n, k, size});
  return moe__kernel_tensor_map(
      tiles->kernel, &(moe__tensor_map_t){
                         .tensor = number,
                         .element = element,
                         .rank = tiles->rank,
                         .dims = {columns->expression, rows->expression, tiles->batches.expression},
                         .strides = {row, batch},
                         .box = {box_columns, box_rows, 1},
                         .swizzle = swizzles[box_columns * bytes / 64],
                     });
}

static void add_maps(moe__cast_tiles_t *tiles, moe__cast_tensor_t *tensor, int number) {
  const moe__extent_t *n = &tiles->n, *k = &tensor->k;
  int bytes = tiles->elements.bytes, tile_n = tiles->schedule.tile_n;
  tensor->x_map = add_map(tiles, tensor, number, bytes == 2 ? "bf16" : "f32", bytes, n, k, tile_n,
                          box_k(tiles));
  if (tiles->writes[MOE__ROWS])
    tensor->maps[MOE__ROWS] =
        add_map(tiles, tensor, tensor->q[MOE__ROWS], "u8", 1, n, k, tile_n, panel(tiles));
  if (tiles->writes[MOE__COLUMNS])
    tensor->maps[MOE__COLUMNS] = add_map(tiles, tensor, tensor->q[MOE__COLUMNS], "u8", 1, k,
                                         &tiles->written_n, tiles->schedule.tile_k, ROW_BYTES);
}

/* n, rounded up as results along tokens are. */
static moe__extent_t rounded_up(moe__builder_t *b, const moe__extent_t *n) {
  char multiples[MOE__EXPRESSION_SIZE], multiple[16];
  moe__extent_t up = *n;
  if (n->size >= 0) {
    up.size = (n->size + MOE_TOKEN_MULTIPLE - 1) / MOE_TOKEN_MULTIPLE * MOE_TOKEN_MULTIPLE;
    up.value = moe__i32(b, (int32_t)up.size);
    snprintf(up.expression, sizeof up.expression, "%lld", (long long)up.size);
    return up;
  }
  up.value = moe__mul(b, moe__ceil_div(b, n->value, MOE_TOKEN_MULTIPLE), MOE_TOKEN_MULTIPLE);
  moe__expression_ceildiv(multiples, n->expression, MOE_TOKEN_MULTIPLE);
  snprintf(multiple, sizeof multiple, "%d", MOE_TOKEN_MULTIPLE);
  moe__expression_mul(up.expression, 2, (const char *[]){multiples, multiple});
  return up;
}

void moe__cast_tiles_parameters(moe__cast_tiles_t *tiles, MlirType q_type) {
  moe__kernel_t *kernel = tiles->kernel;
  MlirType x_type = tiles->tensors[0].type;
  tiles->elements = moe__elements_of(x_type, tiles->elements.sanitize);
  tiles->element = moe__fp8_of(q_type);
  tiles->rank = (int)mlirShapedTypeGetRank(x_type);
  /* Extents come first: the tensor maps are written in terms of them. Their parameters do too. */
  int last = tiles->rank - 1;
  if (tiles->rank == 3)
    tiles->batches = moe__kernel_extent(kernel, 0, 0, x_type);
  else
    tiles->batches =
        (moe__extent_t){.size = 1, .value = moe__i32(&kernel->builder, 1), .expression = "1"};
  tiles->n = moe__kernel_extent(kernel, 0, last - 1, x_type);
  tiles->written_n = tiles->pads_rows ? rounded_up(&kernel->builder, &tiles->n) : tiles->n;
  for (int i = 0; i < tiles->tensor_count; i++)
    tiles->tensors[i].k = moe__kernel_extent(kernel, i, last, tiles->tensors[i].type);
  for (int i = 0; i < tiles->tensor_count; i++)
    add_maps(tiles, &tiles->tensors[i], i);
}

void moe__cast_tiles_groups(moe__cast_tiles_t *tiles, int offs, MlirType offs_type) {
  moe__kernel_t *kernel = tiles->kernel;
  tiles->grouped = true;
  tiles->groups = moe__kernel_extent(kernel, offs, 0, offs_type);
  moe__kernel_require(kernel, offs, 0, "at_least", 1);
  moe__kernel_require(kernel, offs, 0, "at_most", MOE_MAX_GROUPS);
  tiles->offs = moe__kernel_pointer(kernel, offs);
  tiles->status = moe__kernel_status(kernel);
  for (int i = 0; i < tiles->tensor_count; i++) {
    moe__cast_tensor_t *tensor = &tiles->tensors[i];
    for (int direction = 0; direction < 2; direction++)
      if (tiles->writes[direction])
        tensor->pointers[direction] = moe__kernel_pointer(kernel, tensor->q[direction]);
  }
}

static int run_of(const moe__cast_tiles_t *tiles) {
  return tiles->run ? tiles->run : 1;
}

void moe__cast_tiles_grid(const moe__cast_tiles_t *tiles, char *out) {
  char rows[MOE__EXPRESSION_SIZE], total[MOE__EXPRESSION_SIZE];
  char columns[MOE__CAST_MAX_TENSORS][MOE__EXPRESSION_SIZE], all_columns[MOE__EXPRESSION_SIZE];
  moe__expression_ceildiv(rows, tiles->n.expression, tiles->schedule.tile_n);
  for (int i = 0; i < tiles->tensor_count; i++)
    moe__expression_ceildiv(columns[i], tiles->tensors[i].k.expression,
                            (int64_t)run_of(tiles) * tiles->schedule.tile_k);
  if (tiles->tensor_count == 2)
    moe__expression_add(all_columns, 2, (const char *[]){columns[0], columns[1]});
  else
    snprintf(all_columns, sizeof all_columns, "%s", columns[0]);
  moe__expression_mul(total, 3, (const char *[]){tiles->batches.expression, rows, all_columns});
  moe__expression_persistent(out, total, tiles->schedule.ctas_per_sm);
}

/* ---- Tiles ---- */

static moe__tile_t tile_at(moe__cast_tiles_t *tiles, MlirValue index) {
  moe__builder_t *b = &tiles->kernel->builder;
  if (tiles->rank == 3)
    return moe__tile_at(b, &tiles->tiles, index);
  moe__tile_t tile = moe__tile_in_batch(b, &tiles->tiles, index);
  tile.batch = moe__i32(b, 0);
  return tile;
}

/* The place of a tile, in elements of its tensor. */
typedef struct place_t {
  MlirValue is_first;           /* i1: whether that is the first of two; null where there is one */
  MlirValue batch, row, column; /* i32 */
  MlirValue run_column;         /* i32: the column, counted from the start of the run */
} place_t;

/* Of values that each tensor has one of, that of the tensor. */
static MlirValue of_tensor(moe__cast_tiles_t *tiles, MlirValue is_first,
                           const MlirValue values[MOE__CAST_MAX_TENSORS]) {
  return mlirValueIsNull(is_first)
             ? values[0]
             : moe__select(&tiles->kernel->builder, is_first, values[0], values[1]);
}

MlirValue moe__cast_of_tensor(moe__cast_tiles_t *tiles, const moe__cast_unit_t *unit,
                              const MlirValue values[MOE__CAST_MAX_TENSORS]) {
  return of_tensor(tiles, unit->is_first, values);
}

static MlirValue columns_of(moe__cast_tiles_t *tiles, MlirValue is_first) {
  return of_tensor(tiles, is_first,
                   (MlirValue[]){tiles->tensors[0].k.value, tiles->tensors[1].k.value});
}

MlirValue moe__cast_columns(moe__cast_tiles_t *tiles, const moe__cast_unit_t *unit) {
  return columns_of(tiles, unit->is_first);
}

static MlirValue map_of(moe__cast_tiles_t *tiles, const place_t *place,
                        moe__direction_t direction) {
  return of_tensor(
      tiles, place->is_first,
      (MlirValue[]){tiles->tensors[0].maps[direction], tiles->tensors[1].maps[direction]});
}

static MlirValue pointer_of(moe__cast_tiles_t *tiles, const place_t *place,
                            moe__direction_t direction) {
  return of_tensor(
      tiles, place->is_first,
      (MlirValue[]){tiles->tensors[0].pointers[direction], tiles->tensors[1].pointers[direction]});
}

static place_t place_of(moe__cast_tiles_t *tiles, MlirValue index) {
  moe__builder_t *b = &tiles->kernel->builder;
  if (tiles->last_first)
    index = moe__sub(b, moe__sub(b, tiles->tiles.total, 1), index);
  moe__tile_t tile = tile_at(tiles, index);
  MlirValue is_first = {NULL};
  if (tiles->tensor_count == 2) {
    is_first = moe__ult(b, tile.column, tiles->first_columns);
    MlirValue before = moe__select(b, is_first, 0, tiles->first_columns);
    tile.column = moe__sub(b, tile.column, before);
  }
  return (place_t){is_first, tile.batch, moe__mul(b, tile.row, tiles->schedule.tile_n),
                   moe__mul(b, tile.column, run_of(tiles) * tiles->schedule.tile_k),
                   moe__i32(b, 0)};
}

/* Where the columns of the run that starts at `place` end, counted from its start. */
static MlirValue run_end(moe__cast_tiles_t *tiles, const place_t *place) {
  moe__builder_t *b = &tiles->kernel->builder;
  MlirValue left = moe__sub(b, columns_of(tiles, place->is_first), place->column);
  return moe__umin(b, left, run_of(tiles) * tiles->schedule.tile_k);
}

/* The place of the tile at this column of the run. */
static place_t place_in_run(moe__cast_tiles_t *tiles, const place_t *run, MlirValue column) {
  place_t place = *run;
  place.column = moe__add(&tiles->kernel->builder, run->column, column);
  place.run_column = column;
  return place;
}

/* ---- The loading warp ---- */

static moe__cursor_t load_tile(moe__cast_tiles_t *tiles, const place_t *place,
                               moe__cursor_t cursor) {
  moe__kernel_t *kernel = tiles->kernel;
  moe__builder_t *b = &kernel->builder;
  int32_t box_bytes = tiles->schedule.tile_n * ROW_BYTES;
  MlirValue landed =
      moe__ring_acquire(kernel, &tiles->layout.ring, cursor, moe__i32(b, boxes(tiles) * box_bytes));
  MlirValue buffer = moe__ring_buffer(kernel, &tiles->layout.ring, cursor);
  MlirValue map = of_tensor(tiles, place->is_first,
                            (MlirValue[]){tiles->tensors[0].x_map, tiles->tensors[1].x_map});
  for (int i = 0; i < boxes(tiles); i++)
    moe__tma_load(
        b, map, moe__offset_by(b, buffer, i * box_bytes), landed, tiles->rank,
        (MlirValue[]){moe__add(b, place->column, i * box_k(tiles)), place->row, place->batch});
  return moe__cursor_next(b, &tiles->layout.ring, cursor);
}

static void load_tiles(moe__cast_tiles_t *tiles) {
  moe__kernel_t *kernel = tiles->kernel;
  moe__builder_t *b = &kernel->builder;
  moe__cursor_t cursor = moe__cursor_start(b);
  MOE__FOR_TILES (kernel, &tiles->tiles, index, MOE__CARRY_CURSOR(cursor)) {
    place_t run = place_of(tiles, index);
    if (run_of(tiles) == 1) {
      cursor = load_tile(tiles, &run, cursor);
    } else {
      MOE__FOR (b, column, 0, run_end(tiles, &run), tiles->schedule.tile_k,
                MOE__CARRY_CURSOR(cursor)) {
        place_t place = place_in_run(tiles, &run, column);
        cursor = load_tile(tiles, &place, cursor);
      }
    }
  }
}

/* ---- Units ---- */

/* What a lane knows of itself. It is the same for every unit; but where rows are in groups there is
 * enough else that takes registers, and what follows from it is made anew for each. */
static void find_lane(moe__cast_tiles_t *tiles) {
  moe__builder_t *b = &tiles->kernel->builder;
  MlirValue thread = tiles->kernel->thread;
  if (tiles->grouped)
    thread = moe__fresh(b, thread);
  tiles->warp = moe__lshr(b, thread, 5);
  tiles->lane = moe__and(b, thread, MOE__WARP - 1);
  tiles->swap =
      tiles->elements.per_word == 2 ? moe__and(b, moe__lshr(b, tiles->lane, 2), 1) : moe__i32(b, 0);
  tiles->lane_word =
      moe__add(b, moe__mul(b, tiles->swap, HALF * ROW_BYTES), moe__shl(b, tiles->lane, 2));
}

/* Unit number `index` of the warp, without its output. */
static moe__cast_unit_t unit_of(moe__cast_tiles_t *tiles, const place_t *place,
                                moe__direction_t direction, int index) {
  moe__builder_t *b = &tiles->kernel->builder;
  moe__cast_unit_t unit = {
      .direction = direction, .index = index, .is_first = place->is_first, .batch = place->batch};
  if (tiles->grouped)
    find_lane(tiles);
  MlirValue number = moe__add(b, moe__mul(b, tiles->warp, units(tiles)), index);
  if (direction == MOE__COLUMNS) {
    /* Strips run down the rows first. */
    MlirValue strips_n = moe__i32(b, tiles->schedule.tile_n / UNIT_ROWS);
    unit.tile_row = moe__mul(b, moe__urem(b, number, strips_n), UNIT_ROWS);
    unit.tile_column = moe__add(b, moe__mul(b, moe__udiv(b, number, strips_n), box_k(tiles)),
                                moe__mul(b, tiles->lane, tiles->elements.per_word));
  } else {
    int pieces = moe__cast_pieces(tiles), height = MOE__WARP / pieces;
    MlirValue across = moe__i32(b, boxes(tiles) / pieces);
    MlirValue box = moe__add(b, moe__mul(b, moe__urem(b, number, across), pieces),
                             moe__udiv(b, tiles->lane, height));
    unit.tile_row = moe__add(b, moe__mul(b, moe__udiv(b, number, across), height),
                             moe__and(b, tiles->lane, height - 1));
    unit.tile_column = moe__mul(b, box, box_k(tiles));
  }
  unit.row = moe__add(b, place->row, unit.tile_row);
  unit.column = moe__add(b, place->column, unit.tile_column);
  unit.run_column = moe__add(b, place->run_column, unit.tile_column);
  return unit;
}

/* The address in shared memory of chunk `chunk` of 8 of a swizzled row, whose first chunk lies
 * at `first` (i32) from the ring's buffers. It is made anew for each unit: kept, it would take
 * registers. */
static MlirValue chunk_address(moe__cast_tiles_t *tiles, MlirValue first, int chunk) {
  moe__builder_t *b = &tiles->kernel->builder;
  MlirValue offset = moe__xor(b, first, chunk * CHUNK);
  return moe__offset_by(b, moe__offset(b, tiles->kernel->shared, offset),
                        tiles->layout.ring.buffers);
}

/* The lane's 32 words of a strip, in the order in which it will store them. input: i32, of the
 * stage from the ring's buffers. */
static void load_columns(moe__cast_tiles_t *tiles, const moe__cast_unit_t *unit, MlirValue input,
                         MlirValue words[MOE__CAST_WORDS]) {
  moe__builder_t *b = &tiles->kernel->builder;
  MlirValue number = moe__add(b, moe__mul(b, tiles->warp, units(tiles)), unit->index);
  MlirValue strip = moe__add(b, input, moe__mul(b, number, UNIT_BYTES));
  MlirValue start = moe__add(b, strip, tiles->lane_word);
  for (int half = 0; half < 2; half++) {
    for (int i = 0; i < 8; i++) {
      MlirValue address = chunk_address(tiles, start, i);
      for (int j = i; j < HALF; j += 8)
        words[half * HALF + j] = moe__load(b, moe__offset_by(b, address, j * ROW_BYTES), b->i32);
    }
    start = moe__xor(b, start, HALF * ROW_BYTES);
  }
}

/* The lane's 128 bytes of a row, 16 at a time. */
static void load_row(moe__cast_tiles_t *tiles, const moe__cast_unit_t *unit, MlirValue input,
                     MlirValue words[MOE__CAST_WORDS]) {
  moe__builder_t *b = &tiles->kernel->builder;
  MlirType vector = moe__vector_type(b, 4, b->i32);
  MlirValue box = moe__udiv(b, unit->tile_column, box_k(tiles));
  MlirValue row = moe__add(b, moe__mul(b, box, tiles->schedule.tile_n * ROW_BYTES),
                           moe__mul(b, unit->tile_row, ROW_BYTES));
  MlirValue swizzle = moe__shl(b, moe__and(b, unit->tile_row, 7), CHUNK_BITS);
  MlirValue first = moe__add(b, input, moe__or(b, row, swizzle));
  for (int i = 0; i < ROW_BYTES / CHUNK; i++) {
    MlirValue chunk = moe__load(b, chunk_address(tiles, first, i), vector);
    for (int j = 0; j < 4; j++)
      words[4 * i + j] = moe__extract(b, chunk, j);
  }
}

/* Where the lane's first and second 16 results of its column number `part` go. */
static void column_chunks(moe__cast_tiles_t *tiles, const moe__cast_unit_t *unit, int part,
                          MlirValue out[2]) {
  moe__builder_t *b = &tiles->kernel->builder;
  /* Rows of the transposed tile are 128 bytes long; a tile of 256 rows of x is two such halves. */
  MlirValue half = moe__offset(
      b, unit->output,
      moe__mul(b, moe__udiv(b, unit->tile_row, ROW_BYTES), ROW_BYTES * tiles->schedule.tile_k));
  MlirValue first_chunk = moe__lshr(b, moe__and(b, unit->tile_row, ROW_BYTES - 1), CHUNK_BITS);
  MlirValue row = moe__add(b, unit->tile_column, part);
  /* A strip starts at an even chunk, so its halves differ in the lowest bit, before and after the
   * swizzle. */
  MlirValue chunk = moe__xor(b, moe__or(b, first_chunk, tiles->swap), moe__and(b, row, 7));
  MlirValue offset = moe__add(b, moe__shl(b, row, 7), moe__shl(b, chunk, CHUNK_BITS));
  out[0] = moe__offset(b, half, offset);
  out[1] = moe__offset(b, half, moe__xor(b, offset, CHUNK));
}

static void store_column(moe__cast_tiles_t *tiles, const moe__cast_unit_t *unit, int part,
                         const MlirValue *packed) {
  moe__builder_t *b = &tiles->kernel->builder;
  MlirValue chunks[2];
  column_chunks(tiles, unit, part, chunks);
  moe__store(b, moe__vector(b, 4, packed), chunks[0]);
  moe__store(b, moe__vector(b, 4, packed + 4), chunks[1]);
}

/* All bits of each byte whose bit of 0..3 is set. */
static MlirValue spread(moe__builder_t *b, MlirValue bits) {
  MlirValue copies = moe__mul(b, moe__and(b, bits, 15), 0x00204081);
  return moe__mul(b, moe__and(b, copies, 0x01010101), 255);
}

void moe__cast_store_some(moe__cast_tiles_t *tiles, const moe__cast_unit_t *unit, int part,
                          const MlirValue *packed, MlirValue rows) {
  moe__builder_t *b = &tiles->kernel->builder;
  MlirValue chunks[2];
  column_chunks(tiles, unit, part, chunks);
  for (int half = 0; half < 2; half++) {
    MlirValue old = moe__load(b, chunks[half], moe__vector_type(b, 4, b->i32)), words[4];
    /* The bits of this half's rows, from bit 0 on. */
    MlirValue swapped = half == 0 ? tiles->swap : moe__xor(b, tiles->swap, 1);
    MlirValue is_second = moe__ne(b, swapped, 0);
    MlirValue bits = moe__select(b, is_second, moe__lshr(b, rows, HALF), rows);
    for (int i = 0; i < 4; i++) {
      MlirValue mask = spread(b, moe__lshr(b, bits, 4 * i)), kept = moe__extract(b, old, i);
      MlirValue change = moe__and(b, moe__xor(b, kept, packed[4 * half + i]), mask);
      words[i] = moe__xor(b, kept, change);
    }
    moe__store(b, moe__vector(b, 4, words), chunks[half]);
  }
}

/* Where a chunk of an output tile in rows lies, in bytes: `column` is a multiple of 16. */
static MlirValue row_chunk(moe__cast_tiles_t *tiles, MlirValue row, MlirValue column) {
  moe__builder_t *b = &tiles->kernel->builder;
  int width = panel(tiles);
  MlirValue panel_start = moe__mul(b, moe__udiv(b, column, width), tiles->schedule.tile_n * width);
  MlirValue offset = moe__add(b, moe__mul(b, row, width), moe__and(b, column, width - 1));
  /* The swizzle: the bits from 16 on that address chunks, by those that address 128 bytes. */
  MlirValue line = moe__and(b, moe__lshr(b, offset, 3), width - CHUNK);
  return moe__add(b, panel_start, moe__xor(b, offset, line));
}

static void store_row(moe__cast_tiles_t *tiles, const moe__cast_unit_t *unit,
                      const MlirValue *packed) {
  moe__builder_t *b = &tiles->kernel->builder;
  /* Pieces start at a multiple of their length, so their chunks differ in the same bits before and
   * after the swizzle. */
  MlirValue first = row_chunk(tiles, unit->tile_row, unit->tile_column);
  for (int i = 0; i < box_k(tiles) / CHUNK; i++)
    moe__store(b, moe__vector(b, 4, packed + (ptrdiff_t)4 * i),
               moe__offset(b, unit->output, moe__xor(b, first, i * CHUNK)));
}

void moe__cast_store(moe__cast_tiles_t *tiles, const moe__cast_unit_t *unit, int part,
                     const MlirValue *packed) {
  if (unit->direction == MOE__COLUMNS)
    store_column(tiles, unit, part, packed);
  else
    store_row(tiles, unit, packed);
}

/* ---- The end of a tile ---- */

static void send_by_tma(moe__cast_tiles_t *tiles, const place_t *place, MlirValue is_sender,
                        moe__direction_t direction, MlirValue output) {
  moe__builder_t *b = &tiles->kernel->builder;
  MOE__IF (b, is_sender) {
    MlirValue map = map_of(tiles, place, direction);
    for (int i = 0; direction == MOE__COLUMNS && i < tiles->schedule.tile_n; i += ROW_BYTES)
      moe__tma_store(b, map, moe__offset_by(b, output, i * tiles->schedule.tile_k), tiles->rank,
                     (MlirValue[]){moe__add(b, place->row, i), place->column, place->batch});
    for (int i = 0; direction == MOE__ROWS && i < tiles->schedule.tile_k; i += panel(tiles))
      moe__tma_store(b, map, moe__offset_by(b, output, i * tiles->schedule.tile_n), tiles->rank,
                     (MlirValue[]){moe__add(b, place->column, i), place->row, place->batch});
    moe__tma_commit(b);
  }
}

/* Address of element (row, column) of a matrix of bytes. */
static MlirValue element_address(moe__builder_t *b, MlirValue matrix, MlirValue row,
                                 MlirValue columns, MlirValue column) {
  MlirValue offset = moe__mul(b, moe__zext(b, row, b->i64), moe__zext(b, columns, b->i64));
  return moe__offset(b, matrix, moe__add(b, offset, moe__zext(b, column, b->i64)));
}

static void copy_chunk(moe__builder_t *b, MlirValue from, MlirValue to) {
  moe__store(b, moe__load(b, from, moe__vector_type(b, 4, b->i32)), to);
}

/* for each chunk of an output tile: all casting threads. */
#define FOR_CHUNKS(tiles, index)                                                                   \
  MOE__FOR (&(tiles)->kernel->builder, index, (tiles)->kernel->thread,                             \
            tile_elements(tiles) / CHUNK, (tiles)->schedule.warps * MOE__WARP)

static void send_rows(moe__cast_tiles_t *tiles, const place_t *place, MlirValue output) {
  moe__builder_t *b = &tiles->kernel->builder;
  MlirValue columns = columns_of(tiles, place->is_first);
  MlirValue q = pointer_of(tiles, place, MOE__ROWS);
  MlirValue across = moe__i32(b, tiles->schedule.tile_k / CHUNK);
  FOR_CHUNKS (tiles, index) {
    MlirValue tile_row = moe__udiv(b, index, across);
    MlirValue tile_column = moe__shl(b, moe__urem(b, index, across), CHUNK_BITS);
    MlirValue row = moe__add(b, place->row, tile_row);
    MlirValue column = moe__add(b, place->column, tile_column);
    MOE__IF (b, moe__and(b, moe__ult(b, row, tiles->row_end), moe__ult(b, column, columns))) {
      copy_chunk(b, moe__offset(b, output, row_chunk(tiles, tile_row, tile_column)),
                 element_address(b, q, row, columns, column));
    }
  }
}

/* Where groups end is no multiple of anything: the last chunk of a column is written byte by
 * byte. */
static void send_columns(moe__cast_tiles_t *tiles, const place_t *place, MlirValue output) {
  moe__builder_t *b = &tiles->kernel->builder;
  MlirValue columns = columns_of(tiles, place->is_first);
  MlirValue q = pointer_of(tiles, place, MOE__COLUMNS);
  MlirValue across = moe__i32(b, ROW_BYTES / CHUNK);
  FOR_CHUNKS (tiles, index) {
    /* Counts the columns of the first 128 rows, then those of the next. */
    MlirValue line = moe__udiv(b, index, across), chunk = moe__urem(b, index, across);
    MlirValue tile_column = moe__urem(b, line, tiles->schedule.tile_k);
    MlirValue half = moe__udiv(b, line, tiles->schedule.tile_k);
    MlirValue column = moe__add(b, place->column, tile_column);
    MlirValue row =
        moe__add(b, place->row, moe__add(b, moe__shl(b, half, 7), moe__shl(b, chunk, CHUNK_BITS)));
    MlirValue swizzled = moe__xor(b, chunk, moe__and(b, tile_column, 7));
    MlirValue from = moe__offset(
        b, output, moe__add(b, moe__shl(b, line, 7), moe__shl(b, swizzled, CHUNK_BITS)));
    MlirValue to = element_address(b, q, column, tiles->written_n.value, row);
    MOE__IF (b, moe__and(b, moe__ult(b, row, tiles->row_end), moe__ult(b, column, columns))) {
      MlirValue rows = moe__sub(b, tiles->row_end, row);
      MOE__IF (b, moe__ule(b, CHUNK, rows)) {
        copy_chunk(b, from, to);
      }
      MOE__ELSE (b) {
        MOE__FOR (b, byte, 0, rows, 1) {
          moe__store(b, moe__load(b, moe__offset(b, from, byte), b->i8), moe__offset(b, to, byte));
        }
      }
    }
  }
}

static void send(moe__cast_tiles_t *tiles, const place_t *place, MlirValue is_sender,
                 moe__direction_t direction, MlirValue output) {
  moe__builder_t *b = &tiles->kernel->builder;
  if (!tiles->grouped) {
    send_by_tma(tiles, place, is_sender, direction, output);
    return;
  }
  /* Rows that were added behind the last one are in no group either. */
  MlirValue rows = direction == MOE__COLUMNS ? tiles->written_n.value : tiles->n.value;
  MlirValue tile_end = moe__umin(b, moe__add(b, place->row, tiles->schedule.tile_n), rows);
  MOE__IF (b, moe__ule(b, tile_end, tiles->row_end)) {
    send_by_tma(tiles, place, is_sender, direction, output);
  }
  MOE__ELSE (b) {
    if (direction == MOE__ROWS)
      send_rows(tiles, place, output);
    else
      send_columns(tiles, place, output);
  }
}

/* ---- The casting warps ---- */

/* The warp's units in one direction. is_last: after them the tile is not read any more. */
static void cast_units(moe__cast_tiles_t *tiles, const moe__cast_t *cast, moe__cursor_t cursor,
                       const place_t *place, moe__direction_t direction, MlirValue output,
                       bool is_last) {
  moe__kernel_t *kernel = tiles->kernel;
  moe__builder_t *b = &kernel->builder;
  MlirValue input = moe__mul(b, cursor.stage, tiles->layout.ring.stage_bytes);
  for (int i = 0; i < units(tiles); i++) {
    MlirValue words[MOE__CAST_WORDS];
    moe__cast_unit_t unit = unit_of(tiles, place, direction, i);
    unit.output = output;
    if (direction == MOE__COLUMNS)
      load_columns(tiles, &unit, input, words);
    else
      load_row(tiles, &unit, input, words);
    if (is_last && i == units(tiles) - 1) {
      /* All of the warp's reads are done: the stage may be refilled. */
      moe__warp_barrier(b);
      MOE__IF (b, moe__eq(b, tiles->lane, 0)) {
        moe__ring_release(kernel, &tiles->layout.ring, cursor);
      }
    }
    cast->cast(cast->user, &unit, words);
  }
}

static void wait_until_sent(moe__builder_t *b, MlirValue is_sender) {
  MOE__IF (b, is_sender) {
    moe__tma_wait_read(b, 0);
  }
}

static MlirValue output_of(moe__cast_tiles_t *tiles, moe__direction_t direction, MlirValue slot) {
  moe__kernel_t *kernel = tiles->kernel;
  moe__builder_t *b = &kernel->builder;
  MlirValue offset = moe__mul(b, slot, tile_elements(tiles));
  return moe__offset_by(b, moe__offset(b, kernel->shared, offset),
                        tiles->layout.outputs[direction]);
}

/* A tile that goes out in one direction. slot: where its results are put. */
static void cast_one_way(moe__cast_tiles_t *tiles, const moe__cast_t *cast, moe__cursor_t cursor,
                         const place_t *place, MlirValue is_sender, MlirValue slot) {
  moe__builder_t *b = &tiles->kernel->builder;
  int32_t threads = tiles->schedule.warps * MOE__WARP;
  moe__direction_t direction = tiles->writes[MOE__ROWS] ? MOE__ROWS : MOE__COLUMNS;
  MlirValue output = output_of(tiles, direction, slot);
  if (tiles->schedule.output_stages == 1) {
    /* The only slot must have been read before it is written again. */
    wait_until_sent(b, is_sender);
    moe__named_barrier(b, CONSUMER_BARRIER_2, threads);
  }
  moe__ring_wait(tiles->kernel, &tiles->layout.ring, cursor);
  cast_units(tiles, cast, cursor, place, direction, output, true);
  moe__fence_shared_to_async(b);
  if (tiles->schedule.output_stages == 2)
    /* Before anyone passes the barrier and writes the other slot, it must have been read. */
    wait_until_sent(b, is_sender);
  moe__named_barrier(b, CONSUMER_BARRIER, threads);
  send(tiles, place, is_sender, direction, output);
}

/* A tile that goes out in both. They take turns: while one is sent, the other is written. */
static void cast_both_ways(moe__cast_tiles_t *tiles, const moe__cast_t *cast, moe__cursor_t cursor,
                           const place_t *place, MlirValue is_sender) {
  moe__builder_t *b = &tiles->kernel->builder;
  moe__ring_wait(tiles->kernel, &tiles->layout.ring, cursor);
  for (moe__direction_t direction = MOE__ROWS; direction <= MOE__COLUMNS; direction++) {
    MlirValue output = output_of(tiles, direction, moe__i32(b, 0));
    cast_units(tiles, cast, cursor, place, direction, output, direction == MOE__COLUMNS);
    moe__fence_shared_to_async(b);
    /* Before anyone passes the barrier and writes the other direction's, they must have been
     * read. */
    wait_until_sent(b, is_sender);
    moe__named_barrier(b, CONSUMER_BARRIER, tiles->schedule.warps * MOE__WARP);
    send(tiles, place, is_sender, direction, output);
  }
}

/* Casts the tile that the cursor is at; gives the slot of the next one's results. */
static MlirValue cast_tile(moe__cast_tiles_t *tiles, const moe__cast_t *cast, moe__cursor_t cursor,
                           const place_t *place, MlirValue is_sender, MlirValue slot) {
  moe__builder_t *b = &tiles->kernel->builder;
  for (int i = 0; cast->prepare && i < units(tiles); i++)
    for (moe__direction_t direction = MOE__ROWS; direction <= MOE__COLUMNS; direction++)
      if (tiles->writes[direction]) {
        moe__cast_unit_t unit = unit_of(tiles, place, direction, i);
        cast->prepare(cast->user, &unit);
      }
  if (tiles->writes[MOE__ROWS] && tiles->writes[MOE__COLUMNS])
    cast_both_ways(tiles, cast, cursor, place, is_sender);
  else
    cast_one_way(tiles, cast, cursor, place, is_sender, slot);
  return tiles->schedule.output_stages == 2 ? moe__xor(b, slot, 1) : slot;
}

/* The tiles of a run. */
static void cast_run(moe__cast_tiles_t *tiles, const moe__cast_t *cast, moe__cursor_t *cursor,
                     const place_t *run, MlirValue is_sender, MlirValue *slot) {
  moe__builder_t *b = &tiles->kernel->builder;
  MOE__FOR (b, column, 0, run_end(tiles, run), tiles->schedule.tile_k, MOE__CARRY_CURSOR(*cursor),
            slot) {
    place_t place = place_in_run(tiles, run, column);
    *slot = cast_tile(tiles, cast, *cursor, &place, is_sender, *slot);
    *cursor = moe__cursor_next(b, &tiles->layout.ring, *cursor);
  }
  if (cast->finish) {
    cast->finish(cast->user, run->batch, run->row, run->column);
    moe__named_barrier(b, CONSUMER_BARRIER_2, tiles->schedule.warps * MOE__WARP);
  }
}

static void cast_tiles(moe__cast_tiles_t *tiles, const moe__cast_t *cast) {
  moe__kernel_t *kernel = tiles->kernel;
  moe__builder_t *b = &kernel->builder;
  find_lane(tiles);
  MlirValue is_sender = moe__eq(b, kernel->thread, 0);
  moe__cursor_t cursor = moe__cursor_start(b);
  MlirValue slot = moe__i32(b, 0);
  MOE__FOR_TILES (kernel, &tiles->tiles, index, MOE__CARRY_CURSOR(cursor), &slot) {
    place_t place = place_of(tiles, index);
    if (run_of(tiles) == 1) {
      slot = cast_tile(tiles, cast, cursor, &place, is_sender, slot);
      cursor = moe__cursor_next(b, &tiles->layout.ring, cursor);
    } else {
      cast_run(tiles, cast, &cursor, &place, is_sender, &slot);
    }
  }
  /* Shared memory must outlive the copies out of it. */
  wait_until_sent(b, is_sender);
}

/* ---- The kernel ---- */

/* What must be there before the warps go their ways. is_loader: the one thread that loads. */
static void set_up(moe__cast_tiles_t *tiles, MlirValue is_loader) {
  moe__kernel_t *kernel = tiles->kernel;
  moe__builder_t *b = &kernel->builder;
  MOE__IF (b, is_loader) {
    for (int i = 0; i < tiles->tensor_count; i++) {
      moe__tma_prefetch_map(b, tiles->tensors[i].x_map);
      for (int direction = 0; direction < 2; direction++)
        if (tiles->writes[direction])
          moe__tma_prefetch_map(b, tiles->tensors[i].maps[direction]);
    }
    moe__ring_initialize(kernel, &tiles->layout.ring, tiles->schedule.warps);
  }
  moe__grid_wait(b);
  if (tiles->grouped) {
    int32_t loader = tiles->schedule.warps * MOE__WARP;
    MOE__IF (b, moe__ule(b, loader, kernel->thread)) {
      moe__groups_initialize(&tiles->table, tiles->offs, tiles->n.value,
                             moe__sub(b, kernel->thread, loader), tiles->status);
    }
  }
  moe__cta_barrier(b);
}

/* The tiles of the tensors lie side by side. */
static void create_tiles(moe__cast_tiles_t *tiles) {
  moe__builder_t *b = &tiles->kernel->builder;
  MlirValue columns[MOE__CAST_MAX_TENSORS] = {{NULL}};
  for (int i = 0; i < tiles->tensor_count; i++)
    columns[i] =
        moe__ceil_div(b, tiles->tensors[i].k.value, run_of(tiles) * tiles->schedule.tile_k);
  tiles->first_columns = columns[0];
  MlirValue all = tiles->tensor_count == 2 ? moe__add(b, columns[0], columns[1]) : columns[0];
  MlirValue rows = moe__ceil_div(b, tiles->row_end, tiles->schedule.tile_n);
  tiles->tiles = moe__tiles_create(b, tiles->batches.value, rows, all, tiles->schedule.band);
}

void moe__cast_tiles_run(moe__cast_tiles_t *tiles, const moe__cast_t *cast) {
  moe__kernel_t *kernel = tiles->kernel;
  moe__builder_t *b = &kernel->builder;
  if (tiles->grouped)
    tiles->table = moe__groups_create(kernel, &tiles->layout.groups, tiles->groups.value,
                                      tiles->schedule.tile_n, moe__i32(b, 1), 1);
  int32_t loader = tiles->schedule.warps * MOE__WARP; /* the first thread of the last warp */
  MlirValue is_loader = moe__eq(b, kernel->thread, loader);
  set_up(tiles, is_loader);
  tiles->row_end = tiles->grouped ? moe__groups_end(&tiles->table) : tiles->n.value;
  create_tiles(tiles);
  MOE__IF (b, moe__ult(b, kernel->thread, loader)) {
    cast_tiles(tiles, cast);
  }
  MOE__ELSE (b) {
    MOE__IF (b, is_loader) {
      load_tiles(tiles);
    }
  }
}
