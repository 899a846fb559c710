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

void moe__cast_store_column(moe__cast_tiles_t *tiles, const moe__cast_unit_t *unit, int part,
                            const MlirValue *packed) {
  moe__builder_t *b = &tiles->kernel->builder;
  MlirValue chunks[2];
  column_chunks(tiles, unit, part, chunks);
  moe__store(b, moe__vector(b, 4, packed), chunks[0]);
  moe__store(b, moe__vector(b, 4, packed + 4), chunks[1]);
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

void moe__cast_copy_group_columns(moe__cast_tiles_t *tiles, const moe__cast_place_t *place,
                                  MlirValue output) {
  moe__builder_t *b = &tiles->kernel->builder;
  MlirValue thread = moe__fresh(b, tiles->kernel->thread);
  MlirValue warp = moe__lshr(b, thread, 5), lane = moe__and(b, thread, MOE__WARP - 1);
  MlirValue columns = moe__cast_columns(tiles, place->is_first);
  MlirValue q = moe__cast_result(tiles, place, MOE__COLUMNS);
  /* Rows before the first whole word in memory, words, and rows behind the last. */
  MlirValue rows = moe__umin(b, moe__sub(b, place->row_end, place->row), tiles->schedule.tile_n);
  MlirValue head = moe__umin(b, moe__and(b, moe__sub(b, moe__i32(b, 0), place->row), 3), rows);
  MlirValue words = moe__lshr(b, moe__sub(b, rows, head), 2);
  MlirValue behind = moe__add(b, head, moe__shl(b, words, 2)), tail = moe__sub(b, rows, behind);
  /* A lane has a word, and of the first ones each has one of the other rows. */
  MlirValue next = moe__umin(b, moe__add(b, lane, 1), MOE__CAST_ROW_BYTES / 4 - 1);
  MlirValue shift = moe__zext(b, moe__shl(b, head, 3), b->i64);
  MlirValue of_tail = moe__sub(b, lane, 4);
  MlirValue has_byte = moe__or(b, moe__ult(b, lane, head), moe__ult(b, of_tail, tail));
  MlirValue byte = moe__select(b, moe__ult(b, lane, 4), lane, moe__add(b, behind, of_tail));
  MOE__FOR (b, index, warp, tiles->schedule.tile_k, tiles->schedule.warps) {
    MlirValue column = moe__add(b, place->column, index);
    MlirValue line = moe__offset(b, output, moe__shl(b, index, 7));
    MlirValue swizzle = moe__shl(b, moe__and(b, index, 7), MOE__CAST_CHUNK_BITS);
    MlirValue to = moe__cast_byte_address(b, q, column, tiles->written_n.value, place->row);
    MlirValue is_inside = moe__ult(b, column, columns);
    MOE__IF (b, moe__and(b, is_inside, moe__ult(b, lane, words))) {
      MlirValue parts[2] = {lane, next};
      for (int i = 0; i < 2; i++)
        parts[i] = moe__zext(
            b,
            moe__load(b, moe__offset(b, line, moe__xor(b, moe__shl(b, parts[i], 2), swizzle)),
                      b->i32),
            b->i64);
      MlirValue both = moe__or(b, parts[0], moe__shl(b, parts[1], 32));
      MlirValue shifted = moe__op1(b, "arith.shrui", b->i64, MOE__VALUES(both, shift), NULL);
      moe__store(b, moe__trunc(b, shifted, b->i32),
                 moe__offset(b, to, moe__add(b, head, moe__shl(b, lane, 2))));
    }
    MOE__IF (b, moe__and(b, is_inside, has_byte)) {
      moe__store(b, moe__load(b, moe__offset(b, line, moe__xor(b, byte, swizzle)), b->i8),
                 moe__offset(b, to, byte));
    }
  }
}
