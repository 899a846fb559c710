/* CastRows.c - the direction MOE__ROWS of the pipeline of CastTiles.h: what is cast along the last
 * dimension and written row-major.
 *
 * Stores to shared memory and loads from it have no bank conflicts: a lane moves 16 bytes of its
 * own row, and the swizzle puts those of 8 consecutive rows, which is what one memory phase takes,
 * side by side. Coming in, a row of a box has 128 bytes. Going out, a tile is made of panels, which
 * are as wide as a swizzle: 32, 64 or 128 bytes.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/mx_quantize/CastParts.h"

int moe__cast_pieces(const moe__cast_tiles_t *tiles) {
  /* As many as together have 128 elements: their scales are the 4 bytes of a word. */
  int pieces = tiles->elements.bytes;
  while (moe__cast_boxes(tiles) % pieces)
    pieces /= 2;
  return pieces;
}

int moe__cast_panel(const moe__cast_tiles_t *tiles) {
  int width = MOE__CAST_ROW_BYTES;
  while (tiles->schedule.tile_k % width)
    width /= 2;
  return width;
}

/* ---- A unit ---- */

void moe__cast_place_pieces(moe__cast_tiles_t *tiles, moe__cast_unit_t *unit) {
  moe__builder_t *b = &tiles->kernel->builder;
  MlirValue number = moe__cast_unit_number(tiles, unit->index);
  int pieces = moe__cast_pieces(tiles), height = MOE__WARP / pieces;
  MlirValue across = moe__i32(b, moe__cast_boxes(tiles) / pieces);
  MlirValue box = moe__add(b, moe__mul(b, moe__urem(b, number, across), pieces),
                           moe__udiv(b, tiles->lane, height));
  unit->tile_row = moe__add(b, moe__mul(b, moe__udiv(b, number, across), height),
                            moe__and(b, tiles->lane, height - 1));
  unit->tile_column = moe__mul(b, box, moe__cast_box_k(tiles));
}

void moe__cast_load_row(moe__cast_tiles_t *tiles, const moe__cast_unit_t *unit, MlirValue input,
                        MlirValue words[MOE__CAST_WORDS]) {
  moe__builder_t *b = &tiles->kernel->builder;
  MlirType vector = moe__vector_type(b, 4, b->i32);
  MlirValue box = moe__udiv(b, unit->tile_column, moe__cast_box_k(tiles));
  MlirValue row = moe__add(b, moe__mul(b, box, tiles->schedule.tile_n * MOE__CAST_ROW_BYTES),
                           moe__mul(b, unit->tile_row, MOE__CAST_ROW_BYTES));
  MlirValue swizzle = moe__shl(b, moe__and(b, unit->tile_row, 7), MOE__CAST_CHUNK_BITS);
  MlirValue first = moe__add(b, input, moe__or(b, row, swizzle));
  for (int i = 0; i < MOE__CAST_ROW_BYTES / MOE__CAST_CHUNK; i++) {
    MlirValue chunk = moe__load(b, moe__cast_chunk_address(tiles, first, i), vector);
    for (int j = 0; j < 4; j++)
      words[4 * i + j] = moe__extract(b, chunk, j);
  }
}

/* Where a chunk of an output tile in rows lies, in bytes: `column` is a multiple of 16. */
static MlirValue row_chunk(moe__cast_tiles_t *tiles, MlirValue row, MlirValue column) {
  moe__builder_t *b = &tiles->kernel->builder;
  int width = moe__cast_panel(tiles);
  MlirValue panel_start = moe__mul(b, moe__udiv(b, column, width), tiles->schedule.tile_n * width);
  MlirValue offset = moe__add(b, moe__mul(b, row, width), moe__and(b, column, width - 1));
  /* The swizzle: the bits from 16 on that address chunks, by those that address 128 bytes. */
  MlirValue line = moe__and(b, moe__lshr(b, offset, 3), width - MOE__CAST_CHUNK);
  return moe__add(b, panel_start, moe__xor(b, offset, line));
}

void moe__cast_store_row(moe__cast_tiles_t *tiles, const moe__cast_unit_t *unit,
                         const MlirValue *packed) {
  moe__builder_t *b = &tiles->kernel->builder;
  /* Pieces start at a multiple of their length, so their chunks differ in the same bits before and
   * after the swizzle. */
  MlirValue first = row_chunk(tiles, unit->tile_row, unit->tile_column);
  for (int i = 0; i < moe__cast_box_k(tiles) / MOE__CAST_CHUNK; i++)
    moe__store(b, moe__vector(b, 4, packed + (ptrdiff_t)4 * i),
               moe__offset(b, unit->output, moe__xor(b, first, i * MOE__CAST_CHUNK)));
}

/* ---- A tile goes out ---- */

void moe__cast_send_rows(moe__cast_tiles_t *tiles, const moe__cast_place_t *place, MlirValue map,
                         MlirValue output) {
  moe__builder_t *b = &tiles->kernel->builder;
  for (int i = 0; i < tiles->schedule.tile_k; i += moe__cast_panel(tiles))
    moe__tma_store(b, map, moe__offset_by(b, output, i * tiles->schedule.tile_n), tiles->rank,
                   (MlirValue[]){moe__add(b, place->column, i), place->row, place->batch});
}

void moe__cast_copy_rows(moe__cast_tiles_t *tiles, const moe__cast_place_t *place,
                         MlirValue output) {
  moe__builder_t *b = &tiles->kernel->builder;
  MlirValue columns = moe__cast_columns(tiles, place->is_first);
  MlirValue q = moe__cast_result(tiles, place, MOE__ROWS);
  MlirValue row_end = moe__cast_row_end(tiles, place);
  MlirValue across = moe__i32(b, tiles->schedule.tile_k / MOE__CAST_CHUNK);
  MOE__CAST_FOR_CHUNKS (tiles, index) {
    MlirValue tile_row = moe__udiv(b, index, across);
    MlirValue tile_column = moe__shl(b, moe__urem(b, index, across), MOE__CAST_CHUNK_BITS);
    MlirValue row = moe__add(b, place->row, tile_row);
    MlirValue column = moe__add(b, place->column, tile_column);
    MOE__IF (b, moe__and(b, moe__ult(b, row, row_end), moe__ult(b, column, columns))) {
      moe__cast_copy_chunk(b, moe__offset(b, output, row_chunk(tiles, tile_row, tile_column)),
                           moe__cast_byte_address(b, q, row, columns, column));
    }
  }
}
