/* CastColumns.c - the direction MOE__COLUMNS of the pipeline of CastTiles.h: what is cast along the
 * dimension before the last and written column-major.
 *
 * Loads and stores have no bank conflicts. A warp reads a row of a box at a time. A lane holds 32
 * results of a column, 32 consecutive bytes of the transposed tile, and writes them 16 at a time;
 * the 8 lanes of one memory phase must hit 8 different 16-byte columns of the 128-byte swizzle.
 * With one column a lane (fp32) they do. With two (bf16) lanes 4..7 would collide with lanes 0..3,
 * so they take the two halves of the strip in the other order, from the load on: it costs nothing.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/mx_quantize/CastParts.h"

#include "moe/limits.h"

#define HALF_STRIP (MOE__CAST_STRIP_ROWS / 2)

/* ---- A unit ---- */

void moe__cast_find_halves(moe__cast_tiles_t *tiles) {
  moe__builder_t *b = &tiles->kernel->builder;
  tiles->swap =
      tiles->elements.per_word == 2 ? moe__and(b, moe__lshr(b, tiles->lane, 2), 1) : moe__i32(b, 0);
  tiles->lane_word = moe__add(b, moe__mul(b, tiles->swap, HALF_STRIP * MOE__CAST_ROW_BYTES),
                              moe__shl(b, tiles->lane, 2));
}

void moe__cast_place_strip(moe__cast_tiles_t *tiles, moe__cast_unit_t *unit) {
  moe__builder_t *b = &tiles->kernel->builder;
  MlirValue number = moe__cast_unit_number(tiles, unit->index);
  /* Strips run down the rows first. */
  MlirValue strips_n = moe__i32(b, tiles->schedule.tile_n / MOE__CAST_STRIP_ROWS);
  unit->tile_row = moe__mul(b, moe__urem(b, number, strips_n), MOE__CAST_STRIP_ROWS);
  unit->tile_column =
      moe__add(b, moe__mul(b, moe__udiv(b, number, strips_n), moe__cast_box_k(tiles)),
               moe__mul(b, tiles->lane, tiles->elements.per_word));
}

void moe__cast_load_columns(moe__cast_tiles_t *tiles, const moe__cast_unit_t *unit, MlirValue input,
                            MlirValue words[MOE__CAST_WORDS]) {
  moe__builder_t *b = &tiles->kernel->builder;
  MlirValue number = moe__cast_unit_number(tiles, unit->index);
  MlirValue strip = moe__add(b, input, moe__mul(b, number, MOE__CAST_UNIT_BYTES));
  MlirValue start = moe__add(b, strip, tiles->lane_word);
  for (int half = 0; half < 2; half++) {
    for (int i = 0; i < 8; i++) {
      MlirValue address = moe__cast_chunk_address(tiles, start, i);
      for (int j = i; j < HALF_STRIP; j += 8)
        words[half * HALF_STRIP + j] =
            moe__load(b, moe__offset_by(b, address, j * MOE__CAST_ROW_BYTES), b->i32);
    }
    start = moe__xor(b, start, HALF_STRIP * MOE__CAST_ROW_BYTES);
  }
}

void moe__cast_load_turned(moe__cast_tiles_t *tiles, const moe__cast_unit_t *unit, MlirValue input,
                           MlirValue words[MOE__CAST_WORDS]) {
  moe__builder_t *b = &tiles->kernel->builder;
  int32_t box_bytes = tiles->schedule.tile_n * MOE__CAST_ROW_BYTES;
  MlirValue start = moe__sub(b, unit->tile_row, unit->line->turn);
  MlirValue box = moe__mul(b, moe__udiv(b, unit->tile_column, moe__cast_box_k(tiles)), box_bytes);
  MlirValue base = moe__offset_by(b, moe__offset(b, tiles->kernel->shared, moe__add(b, input, box)),
                                  tiles->layout.ring.buffers);
  MlirValue first =
      moe__add(b, moe__mul(b, start, MOE__CAST_ROW_BYTES), moe__shl(b, tiles->lane, 2));
  for (int i = 0; i < 8; i++) {
    /* The swizzle of rows that are a multiple of 8 apart is the same. */
    MlirValue row = moe__add(b, first, i * MOE__CAST_ROW_BYTES);
    MlirValue swizzle = moe__and(b, moe__lshr(b, row, 3), 7 << MOE__CAST_CHUNK_BITS);
    MlirValue offset = moe__add(b, moe__xor(b, row, swizzle),
                                moe__mul(b, tiles->swap, HALF_STRIP * MOE__CAST_ROW_BYTES));
    for (int half = 0; half < 2; half++) {
      for (int j = i; j < HALF_STRIP; j += 8) {
        MlirValue at = moe__add(b, offset, (j - i) * MOE__CAST_ROW_BYTES);
        words[half * HALF_STRIP + j] =
            moe__load(b, moe__offset(b, base, moe__and(b, at, box_bytes - 1)), b->i32);
      }
      offset = moe__sub(b, moe__add(b, offset, HALF_STRIP * MOE__CAST_ROW_BYTES),
                        moe__mul(b, tiles->swap, 2 * HALF_STRIP * MOE__CAST_ROW_BYTES));
    }
  }
}

/* Where the lane's first and second 16 results of its column number `part` go. */
static void column_chunks(moe__cast_tiles_t *tiles, const moe__cast_unit_t *unit, int part,
                          MlirValue out[2]) {
  moe__builder_t *b = &tiles->kernel->builder;
  /* Rows of the transposed tile are 128 bytes long; a tile of 256 rows of x is two such halves. */
  MlirValue half = moe__offset(b, unit->output,
                               moe__mul(b, moe__udiv(b, unit->tile_row, MOE__CAST_ROW_BYTES),
                                        MOE__CAST_ROW_BYTES * tiles->schedule.tile_k));
  MlirValue first_chunk =
      moe__lshr(b, moe__and(b, unit->tile_row, MOE__CAST_ROW_BYTES - 1), MOE__CAST_CHUNK_BITS);
  MlirValue row = moe__add(b, unit->tile_column, part);
  /* A strip starts at an even chunk, so its halves differ in the lowest bit, before and after the
   * swizzle. */
  MlirValue chunk = moe__xor(b, moe__or(b, first_chunk, tiles->swap), moe__and(b, row, 7));
  MlirValue offset = moe__add(b, moe__shl(b, row, 7), moe__shl(b, chunk, MOE__CAST_CHUNK_BITS));
  out[0] = moe__offset(b, half, offset);
  out[1] = moe__offset(b, half, moe__xor(b, offset, MOE__CAST_CHUNK));
}

static void store_chunks(moe__builder_t *b, const MlirValue *packed, const MlirValue chunks[2]) {
  for (int i = 0; i < 2; i++)
    moe__store(b, moe__vector(b, 4, packed + (ptrdiff_t)4 * i), chunks[i]);
}

/* The lane's words of lines that are begun, of its column number `part`. */
static MlirValue *held_of(moe__cast_tiles_t *tiles, const moe__cast_unit_t *unit, int part) {
  return tiles->held +
         (ptrdiff_t)MOE__CAST_STRIP_ROWS / 4 * (unit->index * tiles->elements.per_word + part);
}

/* `behind`, but for its bytes in front of byte `count` (i32, any), which are those of `before`. */
static MlirValue joined(moe__builder_t *b, MlirValue before, MlirValue behind, MlirValue count) {
  MlirValue bytes = moe__smin(b, moe__smax(b, count, 0), 4);
  MlirValue bits = moe__zext(b, moe__shl(b, bytes, 3), b->i64);
  MlirValue one = moe__op1(b, "arith.shli", b->i64, MOE__VALUES(moe__i64(b, 1), bits), NULL);
  MlirValue mask = moe__trunc(b, moe__sub(b, one, 1), b->i32);
  return moe__xor(b, behind, moe__and(b, moe__xor(b, behind, before), mask));
}

/* Completes the lane's bytes of a line with those of the tile above, and holds what is of the next
 * one; or all, where the tile does not reach the end of the line. */
static void join_line(moe__cast_tiles_t *tiles, const moe__cast_unit_t *unit, int part,
                      const MlirValue *packed, MlirValue out[MOE__CAST_STRIP_ROWS / 4]) {
  moe__builder_t *b = &tiles->kernel->builder;
  MlirValue *held = held_of(tiles, unit, part);
  MlirValue is_complete = moe__ule(b, MOE__CAST_LINE, unit->line->end);
  for (int half = 0; half < 2; half++) {
    MlirValue first =
        moe__add(b, unit->tile_row, moe__mul(b, moe__xor(b, tiles->swap, half), HALF_STRIP));
    for (int i = 4 * half; i < 4 * half + 4; i++) {
      MlirValue above = moe__sub(b, unit->line->turn, moe__add(b, first, 4 * (i % 4)));
      out[i] = joined(b, held[i], packed[i], above);
      held[i] = moe__select(b, is_complete, packed[i], out[i]);
    }
  }
}

void moe__cast_store_column(moe__cast_tiles_t *tiles, const moe__cast_unit_t *unit, int part,
                            const MlirValue *packed) {
  moe__builder_t *b = &tiles->kernel->builder;
  MlirValue chunks[2], out[MOE__CAST_STRIP_ROWS / 4];
  column_chunks(tiles, unit, part, chunks);
  if (unit->line) {
    join_line(tiles, unit, part, packed, out);
    packed = out;
  }
  store_chunks(b, packed, chunks);
}

void moe__cast_store_held(moe__cast_tiles_t *tiles, const moe__cast_unit_t *unit) {
  for (int part = 0; part < tiles->elements.per_word; part++) {
    MlirValue chunks[2];
    column_chunks(tiles, unit, part, chunks);
    store_chunks(&tiles->kernel->builder, held_of(tiles, unit, part), chunks);
  }
}

void moe__cast_words_of_group(moe__cast_tiles_t *tiles, const moe__cast_unit_t *unit,
                              const MlirValue words[MOE__CAST_WORDS],
                              MlirValue own[MOE__CAST_WORDS]) {
  moe__builder_t *b = &tiles->kernel->builder;
  MlirValue rows = moe__sub(b, unit->row_end, moe__umin(b, unit->row_end, unit->row));
  for (int half = 0; half < 2; half++) {
    /* The first of the lane's words may be those of the second half. */
    MlirValue before = moe__shl(b, half == 0 ? tiles->swap : moe__xor(b, tiles->swap, 1), 4);
    MlirValue count = moe__sub(b, rows, moe__umin(b, rows, before));
    for (int i = 0; i < HALF_STRIP; i++) {
      int word = half * HALF_STRIP + i;
      own[word] = moe__select(b, moe__ult(b, moe__i32(b, i), count), words[word], 0);
    }
  }
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
    MlirValue bits = moe__select(b, is_second, moe__lshr(b, rows, HALF_STRIP), rows);
    for (int i = 0; i < 4; i++) {
      MlirValue mask = spread(b, moe__lshr(b, bits, 4 * i)), kept = moe__extract(b, old, i);
      MlirValue change = moe__and(b, moe__xor(b, kept, packed[4 * half + i]), mask);
      words[i] = moe__xor(b, kept, change);
    }
    moe__store(b, moe__vector(b, 4, words), chunks[half]);
  }
}

void moe__cast_clear_rows(moe__cast_tiles_t *tiles, const moe__cast_unit_t *unit) {
  moe__builder_t *b = &tiles->kernel->builder;
  MlirValue rows = moe__sub(b, unit->row_end, moe__umin(b, unit->row_end, unit->row));
  MOE__IF (b, moe__ult(b, rows, MOE__CAST_STRIP_ROWS)) {
    MlirValue behind = moe__op1(b, "arith.shli", b->i32, MOE__VALUES(moe__i32(b, -1), rows), NULL);
    MlirValue zeros[MOE__CAST_STRIP_ROWS / 4];
    for (int i = 0; i < MOE__CAST_STRIP_ROWS / 4; i++)
      zeros[i] = moe__i32(b, 0);
    for (int part = 0; part < tiles->elements.per_word; part++)
      moe__cast_store_some(tiles, unit, part, zeros, behind);
  }
}

/* ---- A tile goes out ---- */

void moe__cast_send_columns(moe__cast_tiles_t *tiles, const moe__cast_place_t *place, MlirValue map,
                            MlirValue output) {
  moe__builder_t *b = &tiles->kernel->builder;
  for (int i = 0; i < tiles->schedule.tile_n; i += MOE__CAST_ROW_BYTES)
    moe__tma_store(b, map, moe__offset_by(b, output, i * tiles->schedule.tile_k), tiles->rank,
                   (MlirValue[]){moe__add(b, place->row, i), place->column, place->batch});
}

void moe__cast_copy_columns(moe__cast_tiles_t *tiles, const moe__cast_place_t *place,
                            MlirValue output) {
  moe__builder_t *b = &tiles->kernel->builder;
  MlirValue columns = moe__cast_columns(tiles, place->is_first);
  MlirValue q = moe__cast_result(tiles, place, MOE__COLUMNS);
  MlirValue across = moe__i32(b, MOE__CAST_ROW_BYTES / MOE__CAST_CHUNK);
  MOE__CAST_FOR_CHUNKS (tiles, index) {
    /* Counts the columns of the first 128 rows, then those of the next. */
    MlirValue line = moe__udiv(b, index, across), chunk = moe__urem(b, index, across);
    MlirValue tile_column = moe__urem(b, line, tiles->schedule.tile_k);
    MlirValue half = moe__udiv(b, line, tiles->schedule.tile_k);
    MlirValue column = moe__add(b, place->column, tile_column);
    MlirValue row = moe__add(
        b, place->row, moe__add(b, moe__shl(b, half, 7), moe__shl(b, chunk, MOE__CAST_CHUNK_BITS)));
    MlirValue swizzled = moe__xor(b, chunk, moe__and(b, tile_column, 7));
    MlirValue from = moe__offset(
        b, output, moe__add(b, moe__shl(b, line, 7), moe__shl(b, swizzled, MOE__CAST_CHUNK_BITS)));
    MlirValue to = moe__cast_byte_address(b, q, column, tiles->written_n.value, row);
    MOE__IF (b, moe__and(b, moe__ult(b, row, tiles->row_end), moe__ult(b, column, columns))) {
      MlirValue rows = moe__sub(b, tiles->row_end, row);
      MOE__IF (b, moe__ule(b, MOE__CAST_CHUNK, rows)) {
        moe__cast_copy_chunk(b, from, to);
      }
      MOE__ELSE (b) {
        MOE__FOR (b, byte, 0, rows, 1) {
          moe__store(b, moe__load(b, moe__offset(b, from, byte), b->i8), moe__offset(b, to, byte));
        }
      }
    }
  }
}

/* Rows that results have room for are a multiple of a line. */
#define LINE MOE_TOKEN_MULTIPLE
#define SECTOR 32
#define AHEAD 4 /* columns whose words are loaded before any is stored */

MlirValue moe__cast_begins_sector(moe__builder_t *b, MlirValue row) {
  return moe__eq(b, moe__and(b, row, SECTOR - 1), 0);
}

static MlirValue rows_of(moe__cast_tiles_t *tiles, const moe__cast_place_t *place) {
  moe__builder_t *b = &tiles->kernel->builder;
  return moe__umin(b, moe__sub(b, place->row_end, place->row), tiles->schedule.tile_n);
}

MlirValue moe__cast_rows_left(moe__cast_tiles_t *tiles, const moe__cast_place_t *place) {
  moe__builder_t *b = &tiles->kernel->builder;
  MlirValue rows = rows_of(tiles, place), end = moe__add(b, place->row, rows);
  /* Whole sectors are not left, nor what lies in a line that begins above the tile. */
  MlirValue is_kept = moe__or(b, place->is_last, moe__cast_begins_sector(b, end));
  is_kept = moe__or(b, is_kept, moe__ult(b, rows, moe__and(b, end, LINE - 1)));
  return moe__select(b, is_kept, 0, rows);
}

/* A line of memory of each of a tile's columns, as a lane sees it, which has 4 bytes of it. */
typedef struct lines_t {
  MlirValue row;                   /* i32: the first row of the line */
  MlirValue lane, byte;            /* i32: number of the lane's first byte among those written */
  MlirValue count;                 /* i32: how many bytes are written */
  MlirValue tiles[2], offsets[2];  /* of the two words that have the lane's bytes */
  MlirValue shift;                 /* i64: by so many bits these are shifted */
  MlirValue own;                   /* the output tile, whose first word has the lane's last bytes */
  MlirValue own_shift, other_bits; /* i64; i32: where those go, and the bits of the others */
  MlirValue ends_above;            /* i1: whether the last word of `above` has the lane's first */
} lines_t;

/* The lines from row `row` on, in which byte `before` is the first row of `output`; before it lie
 * the last ones of the rows_above rows of `above`. They are written from byte `first` to byte
 * `end`. */
static lines_t lines_of(moe__cast_tiles_t *tiles, MlirValue row, MlirValue before, MlirValue output,
                        MlirValue above, MlirValue rows_above, MlirValue first, MlirValue end) {
  moe__builder_t *b = &tiles->kernel->builder;
  lines_t lines = {.row = row, .own = output};
  lines.lane = moe__and(b, moe__fresh(b, tiles->kernel->thread), MOE__WARP - 1);
  MlirValue start = moe__shl(b, lines.lane, 2), from = moe__sub(b, start, before);
  lines.byte = moe__sub(b, start, first);
  lines.count = moe__smax(b, moe__sub(b, end, first), 0);
  MlirValue others = moe__smin(b, moe__smax(b, moe__sub(b, before, start), 0), 4);
  MlirValue is_above = moe__ne(b, others, 0);
  from = moe__add(b, from, moe__select(b, is_above, rows_above, 0));
  for (int i = 0; i < 2; i++) {
    lines.tiles[i] = moe__select(b, is_above, above, output);
    lines.offsets[i] = moe__and(b, moe__add(b, from, 4 * i), LINE - 4);
  }
  lines.shift = moe__zext(b, moe__shl(b, moe__and(b, from, 3), 3), b->i64);
  lines.ends_above = moe__and(b, is_above, moe__ult(b, others, 4));
  /* Where none lie above, the first word is shifted out of the lane's. */
  MlirValue bits = moe__shl(b, moe__select(b, is_above, others, 4), 3);
  lines.own_shift = moe__zext(b, bits, b->i64);
  MlirValue one =
      moe__op1(b, "arith.shli", b->i64, MOE__VALUES(moe__i64(b, 1), lines.own_shift), NULL);
  lines.other_bits = moe__trunc(b, moe__sub(b, one, 1), b->i32);
  return lines;
}

static MlirValue load_word(moe__builder_t *b, MlirValue tile, MlirValue index, MlirValue offset) {
  MlirValue swizzle = moe__shl(b, moe__and(b, index, 7), MOE__CAST_CHUNK_BITS);
  MlirValue line = moe__offset(b, tile, moe__shl(b, index, 7));
  return moe__zext(b, moe__load(b, moe__offset(b, line, moe__xor(b, offset, swizzle)), b->i32),
                   b->i64);
}

/* The lane's 4 bytes of the line of the tile's column `index`. */
static MlirValue bytes_of(moe__builder_t *b, const lines_t *lines, MlirValue index) {
  MlirValue words[2];
  for (int i = 0; i < 2; i++)
    words[i] = load_word(b, lines->tiles[i], index, lines->offsets[i]);
  MlirValue own = load_word(b, lines->own, index, moe__i32(b, 0));
  MlirValue both = moe__or(b, words[0], moe__shl(b, words[1], 32));
  both = moe__op1(b, "arith.shrui", b->i64, MOE__VALUES(both, lines->shift), NULL);
  own = moe__op1(b, "arith.shli", b->i64, MOE__VALUES(own, lines->own_shift), NULL);
  return moe__or(b, moe__and(b, moe__trunc(b, both, b->i32), lines->other_bits),
                 moe__trunc(b, own, b->i32));
}

static void store_bytes(moe__cast_tiles_t *tiles, const moe__cast_place_t *place,
                        const lines_t *lines, MlirValue index, MlirValue bytes) {
  moe__builder_t *b = &tiles->kernel->builder;
  MlirValue column = moe__add(b, place->column, index);
  MlirValue q = moe__cast_result(tiles, place, MOE__COLUMNS);
  MlirValue line = moe__cast_byte_address(b, q, column, tiles->written_n.value, lines->row);
  MlirValue to = moe__offset(b, line, moe__shl(b, lines->lane, 2));
  /* As unsigned numbers: what lies before the first byte lies far behind the last one. */
  MlirValue is_whole = moe__and(b, moe__ult(b, lines->byte, lines->count),
                                moe__ult(b, moe__add(b, lines->byte, 3), lines->count));
  MOE__IF (b, moe__ult(b, column, moe__cast_columns(tiles, place->is_first))) {
    MOE__IF (b, is_whole) {
      moe__store(b, bytes, to);
    }
    MOE__ELSE (b) {
      for (int i = 0; i < 4; i++)
        MOE__IF (b, moe__ult(b, moe__add(b, lines->byte, i), lines->count)) {
          moe__store(b, moe__trunc(b, moe__lshr(b, bytes, 8 * i), b->i8), moe__offset_by(b, to, i));
        }
    }
  }
}

/* Lines that are written whole, of columns that are all columns of q. The tile above has all of its
 * rows, so that the word behind its last one is the first one of the tile itself. */
static void copy_whole_lines(moe__cast_tiles_t *tiles, const moe__cast_place_t *place,
                             const lines_t *lines) {
  moe__builder_t *b = &tiles->kernel->builder;
  MlirValue warp = moe__lshr(b, moe__fresh(b, tiles->kernel->thread), 5);
  MlirValue second = moe__select(b, lines->ends_above, lines->own, lines->tiles[1]);
  MlirValue own = moe__shl(b, lines->lane, 2);
  int warps = tiles->schedule.warps;
  MOE__FOR (b, first, warp, tiles->schedule.tile_k, AHEAD * warps) {
    MlirValue bytes[AHEAD];
    for (int i = 0; i < AHEAD; i++) {
      MlirValue index = moe__add(b, first, i * warps);
      MlirValue low = load_word(b, lines->tiles[0], index, lines->offsets[0]),
                high = load_word(b, second, index, lines->offsets[1]);
      MlirValue both = moe__or(b, low, moe__shl(b, high, 32));
      both = moe__op1(b, "arith.shrui", b->i64, MOE__VALUES(both, lines->shift), NULL);
      bytes[i] = moe__trunc(b, both, b->i32);
    }
    for (int i = 0; i < AHEAD; i++) {
      MlirValue column = moe__add(b, moe__add(b, place->column, first), i * warps);
      MlirValue q = moe__cast_result(tiles, place, MOE__COLUMNS);
      MlirValue line = moe__cast_byte_address(b, q, column, tiles->written_n.value, lines->row);
      moe__store(b, bytes[i], moe__offset(b, line, own));
    }
  }
}

static void copy_lines(moe__cast_tiles_t *tiles, const moe__cast_place_t *place,
                       const lines_t *lines) {
  moe__builder_t *b = &tiles->kernel->builder;
  MlirValue warp = moe__lshr(b, moe__fresh(b, tiles->kernel->thread), 5);
  int warps = tiles->schedule.warps;
  MOE__FOR (b, first, warp, tiles->schedule.tile_k, AHEAD * warps) {
    MlirValue bytes[AHEAD];
    for (int i = 0; i < AHEAD; i++)
      bytes[i] = bytes_of(b, lines, moe__add(b, first, i * warps));
    for (int i = 0; i < AHEAD; i++)
      store_bytes(tiles, place, lines, moe__add(b, first, i * warps), bytes[i]);
  }
}

void moe__cast_copy_group_columns(moe__cast_tiles_t *tiles, const moe__cast_place_t *place,
                                  MlirValue output, MlirValue above) {
  moe__builder_t *b = &tiles->kernel->builder;
  MlirValue before = moe__and(b, place->row, LINE - 1), line = moe__sub(b, place->row, before);
  MlirValue is_left = moe__ne(b, moe__cast_rows_left(tiles, place), 0);
  MlirValue end = moe__add(b, before, rows_of(tiles, place));
  /* The first line; all of it is left where it reaches beyond the tile. */
  MlirValue joins = moe__ne(b, place->rows_above, 0);
  MlirValue is_short = moe__and(b, is_left, moe__ult(b, end, LINE));
  lines_t lines = lines_of(tiles, line, before, output, moe__select(b, joins, above, output),
                           place->rows_above, moe__select(b, joins, 0, before),
                           moe__select(b, is_short, 0, moe__umin(b, end, LINE)));
  /* Most are whole. */
  MlirValue columns = moe__cast_columns(tiles, place->is_first);
  MlirValue is_whole = moe__and(b, moe__eq(b, lines.count, LINE),
                                moe__eq(b, moe__and(b, place->rows_above, LINE - 1), 0));
  MlirValue is_inside = moe__ule(b, moe__add(b, place->column, tiles->schedule.tile_k), columns);
  MOE__IF (b, moe__and(b, is_whole, is_inside)) {
    copy_whole_lines(tiles, place, &lines);
  }
  MOE__ELSE (b) {
    copy_lines(tiles, place, &lines);
  }
  /* The second one, of which the tile has the first bytes. */
  MlirValue rest = moe__select(b, is_left, 0, moe__smax(b, moe__sub(b, end, LINE), 0));
  MOE__IF (b, moe__ne(b, rest, 0)) {
    lines_t next = lines_of(tiles, moe__add(b, line, LINE), before, output, output,
                            moe__i32(b, LINE), moe__i32(b, 0), rest);
    copy_lines(tiles, place, &next);
  }
}

void moe__cast_copy_lines(moe__cast_tiles_t *tiles, const moe__cast_place_t *place,
                          MlirValue output, MlirValue first, MlirValue end) {
  moe__builder_t *b = &tiles->kernel->builder;
  MlirValue thread = moe__fresh(b, tiles->kernel->thread), warp = moe__lshr(b, thread, 5);
  MlirValue lane = moe__and(b, thread, MOE__WARP - 1), byte = moe__shl(b, lane, 2);
  MlirValue columns = moe__cast_columns(tiles, place->is_first);
  MlirValue q = moe__cast_result(tiles, place, MOE__COLUMNS);
  MlirValue is_whole =
      moe__and(b, moe__ule(b, first, byte), moe__ule(b, moe__add(b, byte, 4), end));
  int warps = tiles->schedule.warps;
  MOE__FOR (b, ahead, warp, tiles->schedule.tile_k, AHEAD * warps) {
    MlirValue words[AHEAD];
    for (int i = 0; i < AHEAD; i++) {
      MlirValue line = moe__add(b, ahead, i * warps);
      MlirValue swizzle = moe__shl(b, moe__and(b, line, 7), MOE__CAST_CHUNK_BITS);
      MlirValue at = moe__or(b, moe__shl(b, line, 7), moe__xor(b, byte, swizzle));
      words[i] = moe__load(b, moe__offset(b, output, at), b->i32);
    }
    for (int i = 0; i < AHEAD; i++) {
      MlirValue column = moe__add(b, place->column, moe__add(b, ahead, i * warps));
      MlirValue to = moe__cast_byte_address(b, q, column, tiles->written_n.value,
                                            moe__add(b, place->row, byte));
      MOE__IF (b, moe__ult(b, column, columns)) {
        MOE__IF (b, is_whole) {
          moe__store(b, words[i], to);
        }
        MOE__ELSE (b) {
          for (int j = 0; j < 4; j++) {
            MlirValue at = moe__add(b, byte, j);
            MOE__IF (b, moe__and(b, moe__ule(b, first, at), moe__ult(b, at, end))) {
              moe__store(b, moe__trunc(b, moe__lshr(b, words[i], 8 * j), b->i8),
                         moe__offset_by(b, to, j));
            }
          }
        }
      }
    }
  }
}
