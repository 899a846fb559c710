/* DequantizeColumns.c - the kernel of both dequantizers where q is column-major: a
 * tile is transposed through shared memory.
 *
 * Threads load 16 rows of a column each, eight of them 128 consecutive bytes of q, and put them
 * into shared memory as they are, as rows of 128 bytes for a column. Then a warp takes 16 rows
 * and 128 bytes of x a row, and a lane 4 rows and 16 bytes: it reads one word, 4 rows, of each
 * of its columns, converts, and stores; eight lanes write 128 consecutive bytes of a row of x.
 *
 * Neither side has bank conflicts. The 16-byte chunks of a column are swapped around by the
 * number of the column's vector, modulo 8: the 8 lanes of a store have the 8 chunks of one
 * column, and the 32 lanes of a load have 8 vectors, hence 8 different chunks, and the 4 words
 * of each.
 *
 * Groups may start at any row, while q is loaded 16 rows at a time: tiles do not follow the
 * groups, and the group of each row is looked up.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/mx_quantize/Dequantize.h"

#include "lib/Builder/Inspect.h"
#include "lib/Device/Async.h"
#include "lib/Device/Warp.h"

#define CHUNK 16       /* rows, which are bytes of q, that a thread loads at once */
#define PANEL 128      /* rows, which are bytes of a column in shared memory */
#define WORD_ROWS 4    /* rows in a word of q */
#define ITEM_VECTORS 8 /* of MOE__VECTOR_BYTES in a row of an item */

/* Threads bring in vectors of CHUNK rows; warps take items of CHUNK rows x 128 bytes. */
bool moe__dequantize_columns_layout(MlirOperation op, const moe__dequantize_schedule_t *schedule,
                                    int columns, moe__dequantize_layout_t *out) {
  int item_k = ITEM_VECTORS * columns;
  if (schedule->tile_n % PANEL)
    return moe__error(op, "'schedule.tile_n' is %d; it must be a multiple of %d", schedule->tile_n,
                      PANEL);
  if (schedule->tile_k % item_k)
    return moe__error(op, "'schedule.tile_k' is %d; it must be a multiple of %d", schedule->tile_k,
                      item_k);
  int items = schedule->tile_n / CHUNK * (schedule->tile_k / item_k);
  if (items % schedule->warps || schedule->tile_k % (4 * schedule->warps))
    return moe__error(op,
                      "'schedule.warps' is %d; it must divide the tile's %d items of 16 rows and "
                      "128 bytes, and a quarter of its columns",
                      schedule->warps, items);
  int bytes = schedule->tile_n * schedule->tile_k;
  int vectors = bytes / MOE__VECTOR_BYTES / (MOE__WARP * schedule->warps);
  /* A lane of an item has 4 rows of 16 bytes of x, in f32 twice that, besides what they are made
   * of. */
  int registers = moe__vector_registers(vectors);
  out->cta.registers = registers > 64 ? registers : 64;
  out->buffer = moe__layout_shared(&out->cta, bytes, 128);
  if (out->groups.max_groups)
    out->rows = moe__layout_shared(&out->cta, 4 * schedule->tile_n, 16);
  return moe__vectors_fit(op, vectors);
}

typedef struct columns_t {
  moe__dequantize_t *s;
  MlirValue warp, lane;          /* i32 */
  MlirValue expert, row, column; /* i32: of the tile */
} columns_t;

/* Brings the tile's bytes into shared memory, all loads before the first store. Outside of q the
 * last bytes inside are loaded instead. */
static void load_tile(columns_t *c) {
  moe__dequantize_t *s = c->s;
  moe__builder_t *b = &s->kernel.builder;
  int threads = s->kernel.layout.threads, tile_k = s->schedule.tile_k;
  int chunks = PANEL / CHUNK, step = threads / chunks; /* columns at once */
  int count = s->schedule.tile_n / PANEL * tile_k / step;
  MlirValue n64 = moe__zext(b, s->n.value, b->i64);
  MlirValue chunk = moe__and(b, s->kernel.thread, chunks - 1);
  MlirValue thread_column = moe__udiv(b, s->kernel.thread, chunks);
  MlirValue first = moe__mul(b, moe__zext(b, c->expert, b->i64), moe__zext(b, s->k.value, b->i64));
  MlirValue last_column = moe__sub(b, s->k.value, 1);
  MlirValue last_row = moe__sub(b, s->n.value, CHUNK);
  MlirValue vectors[MOE__MAX_VECTORS], addresses[MOE__MAX_VECTORS];
  for (int i = 0; i < count; i++) {
    int panel = i * step / tile_k, at = i * step % tile_k;
    MlirValue in_tile = moe__add(b, thread_column, at);
    MlirValue column = moe__umin(b, moe__add(b, c->column, in_tile), last_column);
    MlirValue row = moe__add(b, moe__add(b, c->row, panel * PANEL), moe__shl(b, chunk, 4));
    row = moe__umin(b, row, last_row);
    MlirValue index =
        moe__add(b, moe__mul(b, moe__add(b, first, moe__zext(b, column, b->i64)), n64),
                 moe__zext(b, row, b->i64));
    vectors[i] =
        moe__load_aligned(b, moe__offset(b, s->q, index), moe__vector_type(b, 4, b->i32), CHUNK);
    MlirValue vector = moe__udiv(b, in_tile, s->columns);
    MlirValue swapped = moe__xor(b, chunk, moe__and(b, vector, chunks - 1));
    MlirValue offset = moe__add(b, moe__mul(b, in_tile, PANEL), moe__shl(b, swapped, 4));
    addresses[i] = moe__offset_by(b, moe__offset(b, s->kernel.shared, offset),
                                  s->layout.buffer + panel * PANEL * tile_k);
  }
  for (int i = 0; i < count; i++)
    moe__store_aligned(b, vectors[i], addresses[i], CHUNK);
}

/* What a row is where scales are of MX blocks, which are counted from the start of each group. */
static MlirValue row_of_scales(moe__dequantize_t *s, MlirValue row) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue none = moe__i32(b, MOE__ROW_OF_NONE), start, end;
  if (s->aligned) {
    moe__aligned_place_t place = moe__dequantize_aligned_place(s, row);
    MlirValue at = moe__select(b, moe__ult(b, place.in_group, place.size), moe__lshr(b, row, 5),
                               moe__i32(b, MOE__ROW_OF_ZEROS));
    return moe__select(b, moe__dequantize_is_written(s, &place), at, none);
  }
  MlirValue group = moe__groups_find(&s->groups, row);
  MlirValue is_none = moe__ule(b, s->groups.count, group);
  moe__groups_range(&s->groups, moe__select(b, is_none, 0, group), &start, &end);
  MlirValue in_group = moe__lshr(b, moe__sub(b, row, start), 5);
  MlirValue at = moe__add(b, moe__add(b, moe__lshr(b, start, 5), group), in_group);
  return moe__select(b, is_none, none, at);
}

/* Looks up what the tile's rows are. */
static void find_rows(columns_t *c) {
  moe__dequantize_t *s = c->s;
  moe__builder_t *b = &s->kernel.builder;
  MOE__FOR (b, index, s->kernel.thread, s->schedule.tile_n, s->kernel.layout.threads) {
    MlirValue row = moe__add(b, c->row, index);
    MlirValue found = s->mx ? row_of_scales(s, row) : moe__groups_find(&s->groups, row);
    MlirValue address = moe__offset(b, s->kernel.shared, moe__shl(b, index, 2));
    moe__store(b, found, moe__offset_by(b, address, c->s->layout.rows));
  }
}

/* What the lane's WORD_ROWS rows are; `in_tile` is the first. */
static void load_rows(columns_t *c, MlirValue in_tile, MlirValue out[WORD_ROWS]) {
  moe__builder_t *b = &c->s->kernel.builder;
  MlirValue address = moe__offset(b, c->s->kernel.shared, moe__shl(b, in_tile, 2));
  MlirValue rows = moe__load_aligned(b, moe__offset_by(b, address, c->s->layout.rows),
                                     moe__vector_type(b, WORD_ROWS, b->i32), 16);
  for (int j = 0; j < WORD_ROWS; j++)
    out[j] = moe__extract(b, rows, j);
}

/* The lane's columns of an item, WORD_ROWS rows of each: values[j] is a vector of row j. */
static void load_values(columns_t *c, MlirValue address,
                        MlirValue values[WORD_ROWS][MOE__MAX_COLUMNS]) {
  moe__dequantize_t *s = c->s;
  moe__builder_t *b = &s->kernel.builder;
  for (int i = 0; i < s->columns; i++) {
    MlirValue word = moe__load(b, moe__offset_by(b, address, i * PANEL), b->i32);
    MlirValue rows[WORD_ROWS];
    moe__fp8_unpack4(b, word, s->element, rows);
    for (int j = 0; j < WORD_ROWS; j++)
      values[j][i] = rows[j];
  }
}

/* Items lie side by side: number 0 has the first 16 rows and the first columns. */
static void dequantize_item(columns_t *c, MlirValue item) {
  moe__dequantize_t *s = c->s;
  moe__builder_t *b = &s->kernel.builder;
  int tile_k = s->schedule.tile_k, across = tile_k / (ITEM_VECTORS * s->columns);
  MlirValue vector_of_lane = moe__and(b, c->lane, ITEM_VECTORS - 1);
  MlirValue word_of_lane = moe__udiv(b, c->lane, ITEM_VECTORS);
  MlirValue chunk = moe__udiv(b, item, across); /* of 16 rows */
  MlirValue vector =
      moe__add(b, moe__mul(b, moe__urem(b, item, across), ITEM_VECTORS), vector_of_lane);
  MlirValue in_tile = moe__mul(b, vector, s->columns);
  MlirValue row_in_tile = moe__add(b, moe__shl(b, chunk, 4), moe__shl(b, word_of_lane, 2));
  MlirValue column = moe__add(b, c->column, in_tile);
  MlirValue row = moe__add(b, c->row, row_in_tile);

  MlirValue panel = moe__mul(b, moe__lshr(b, chunk, 3), PANEL * tile_k);
  MlirValue swapped = moe__xor(b, moe__and(b, chunk, PANEL / CHUNK - 1), vector_of_lane);
  MlirValue offset = moe__add(b, moe__add(b, panel, moe__mul(b, in_tile, PANEL)),
                              moe__add(b, moe__shl(b, swapped, 4), moe__shl(b, word_of_lane, 2)));
  MlirValue values[WORD_ROWS][MOE__MAX_COLUMNS], scales[MOE__MAX_COLUMNS],
      rows[WORD_ROWS] = {{NULL}};
  load_values(c, moe__offset_by(b, moe__offset(b, s->kernel.shared, offset), s->layout.buffer),
              values);
  if (s->grouped)
    load_rows(c, row_in_tile, rows);

  /* N is a multiple of 16: the rows of an item are all inside or all outside. */
  MlirValue is_inside = moe__and(b, moe__ult(b, row, s->n.value), moe__ult(b, column, s->k.value));
  MOE__IF (b, is_inside) {
    for (int j = 0; j < WORD_ROWS; j++) {
      MlirValue row_j = moe__add(b, row, j);
      moe__place_t at = {.expert = c->expert, .row = row_j, .column = column};
      MlirValue is_written = {NULL}, kept[MOE__MAX_COLUMNS];
      if (s->grouped && s->mx) {
        is_written = moe__ne(b, rows[j], MOE__ROW_OF_NONE);
        at.group = rows[j];
        if (s->aligned) {
          MlirValue is_kept = moe__ne(b, rows[j], MOE__ROW_OF_ZEROS);
          at.group = moe__select(b, is_kept, rows[j], 0);
          for (int i = 0; i < s->columns; i++)
            kept[i] = is_kept;
        }
      } else if (s->grouped) {
        at.group = rows[j];
        is_written = moe__ult(b, rows[j], s->groups.count);
      }
      MOE__IF (b, is_written) {
        if (s->grouped ||
            j == 0) /* an item's rows have the same scales where there are no groups */
          moe__dequantize_scales(s, &at, scales);
        moe__dequantize_store(s, values[j], scales,
                              moe__dequantize_offset(s, c->expert, row_j, column),
                              s->aligned ? kept : NULL);
      }
    }
  }
}

void moe__dequantize_columns(moe__dequantize_t *s) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  const moe__dequantize_schedule_t *schedule = &s->schedule;
  columns_t c = {.s = s};
  if (s->grouped)
    moe__dequantize_groups(s);
  c.warp = moe__udiv(b, kernel->thread, MOE__WARP);
  c.lane = moe__and(b, kernel->thread, MOE__WARP - 1);
  moe__tiles_t tiles =
      moe__tiles_create(b, s->e.value, moe__ceil_div(b, s->n.value, schedule->tile_n),
                        moe__ceil_div(b, s->k.value, schedule->tile_k), schedule->band);
  MOE__FOR_TILES (kernel, &tiles, index) {
    moe__tile_t at = moe__tile_at(b, &tiles, index);
    c.expert = at.batch;
    c.row = moe__mul(b, at.row, schedule->tile_n);
    c.column = moe__mul(b, at.column, schedule->tile_k);
    load_tile(&c);
    if (s->grouped)
      find_rows(&c);
    moe__cta_barrier(b);
    int items = schedule->tile_n / CHUNK * (schedule->tile_k / (ITEM_VECTORS * s->columns));
    for (int i = 0; i < items / schedule->warps; i++)
      dequantize_item(&c, moe__add(b, c.warp, i * schedule->warps));
    moe__cta_barrier(b); /* before the tile is written over */
  }
}
