/* CastSend.c - the pipeline of CastTiles.h: how a tile that has been cast leaves shared memory.
 *
 * TMA sends what is whole, by one thread. What holds rows that are not written, or begins off a
 * sector of memory, all casting threads store.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/mx_quantize/CastParts.h"

MlirValue moe__cast_byte_address(moe__builder_t *b, MlirValue matrix, MlirValue row,
                                 MlirValue columns, MlirValue column) {
  MlirValue offset = moe__mul(b, moe__zext(b, row, b->i64), moe__zext(b, columns, b->i64));
  return moe__offset(b, matrix, moe__add(b, offset, moe__zext(b, column, b->i64)));
}

void moe__cast_copy_chunk(moe__builder_t *b, MlirValue from, MlirValue to) {
  moe__store(b, moe__load(b, from, moe__vector_type(b, 4, b->i32)), to);
}

static MlirValue result_map(moe__cast_tiles_t *tiles, const moe__cast_place_t *place,
                            moe__direction_t direction) {
  return moe__cast_of_tensor(
      tiles, place->is_first,
      (MlirValue[]){tiles->tensors[0].maps[direction], tiles->tensors[1].maps[direction]});
}

static void send_by_tma(moe__cast_tiles_t *tiles, const moe__cast_place_t *place,
                        MlirValue is_sender, moe__direction_t direction, MlirValue output) {
  moe__builder_t *b = &tiles->kernel->builder;
  MOE__IF (b, is_sender) {
    MlirValue map = result_map(tiles, place, direction);
    if (direction == MOE__COLUMNS)
      moe__cast_send_columns(tiles, place, map, output);
    else
      moe__cast_send_rows(tiles, place, map, output);
    moe__tma_commit(b);
  }
}

/* Whether TMA writes another tile: rows that were added behind the last one are in no group
 * either. */
static MlirValue is_whole(moe__cast_tiles_t *tiles, const moe__cast_place_t *place,
                          moe__direction_t direction) {
  moe__builder_t *b = &tiles->kernel->builder;
  MlirValue tile_end = moe__add(b, place->row, tiles->schedule.tile_n);
  if (tiles->by_group)
    return moe__ule(b, tile_end, place->row_end);
  MlirValue rows = direction == MOE__COLUMNS ? tiles->written_n.value : tiles->n.value;
  return moe__ule(b, moe__umin(b, tile_end, rows), tiles->row_end);
}

void moe__cast_wait_until_sent(moe__builder_t *b, MlirValue is_sender) {
  MOE__IF (b, is_sender) {
    moe__tma_wait_read(b, 0);
  }
}

/* What the last tile of a segment has of the line behind the one that is complete, which has been
 * sent from `output`. */
static void send_held(moe__cast_tiles_t *tiles, const moe__cast_place_t *place, MlirValue is_sender,
                      MlirValue output) {
  moe__builder_t *b = &tiles->kernel->builder;
  int32_t threads = tiles->schedule.warps * MOE__WARP;
  moe__cast_wait_until_sent(b, is_sender);
  moe__named_barrier(b, MOE__CAST_BARRIER_2, threads);
  for (int i = 0; i < moe__cast_warp_units(tiles); i++) {
    moe__cast_unit_t unit = moe__cast_unit_of(tiles, place, MOE__COLUMNS, i);
    unit.output = output;
    moe__cast_store_held(tiles, &unit);
  }
  moe__named_barrier(b, MOE__CAST_BARRIER_2, threads);
  moe__cast_place_t next = *place;
  next.row = moe__add(b, place->row, moe__sub(b, MOE__CAST_LINE, place->line.turn));
  moe__cast_copy_lines(tiles, &next, output, moe__i32(b, 0),
                       moe__sub(b, place->line.end, MOE__CAST_LINE));
}

/* A tile whose columns are turned: the line that is complete, and what there is of lines where no
 * tile of the segment follows. */
static void send_lines(moe__cast_tiles_t *tiles, const moe__cast_place_t *place,
                       MlirValue is_sender, MlirValue output) {
  moe__builder_t *b = &tiles->kernel->builder;
  const moe__cast_line_t *line = &place->line;
  moe__cast_place_t turned = *place;
  turned.row = moe__sub(b, place->row, line->turn);
  MlirValue is_complete = moe__ule(b, MOE__CAST_LINE, line->end);
  MOE__IF (b, moe__and(b, is_complete, moe__eq(b, line->foreign, 0))) {
    send_by_tma(tiles, &turned, is_sender, MOE__COLUMNS, output);
  }
  MOE__ELSE (b) {
    MOE__IF (b, moe__or(b, is_complete, place->is_last)) {
      moe__cast_copy_lines(tiles, &turned, output, line->foreign, line->end);
    }
  }
  MOE__IF (b, moe__and(b, place->is_last, moe__ult(b, MOE__CAST_LINE, line->end))) {
    send_held(tiles, place, is_sender, output);
  }
}

void moe__cast_send(moe__cast_tiles_t *tiles, const moe__cast_place_t *place, MlirValue is_sender,
                    moe__direction_t direction, MlirValue output) {
  moe__builder_t *b = &tiles->kernel->builder;
  if (!tiles->grouped) {
    send_by_tma(tiles, place, is_sender, direction, output);
    return;
  }
  if (moe__cast_turns(tiles) && direction == MOE__COLUMNS) {
    send_lines(tiles, place, is_sender, output);
    return;
  }
  if (tiles->aligned && direction == MOE__COLUMNS) {
    moe__cast_place_t written = *place;
    written.row = place->written_row;
    send_by_tma(tiles, &written, is_sender, direction, output);
    return;
  }
  MOE__IF (b, is_whole(tiles, place, direction)) {
    send_by_tma(tiles, place, is_sender, direction, output);
  }
  MOE__ELSE (b) {
    (direction == MOE__ROWS ? moe__cast_copy_rows : moe__cast_copy_columns)(tiles, place, output);
  }
}

void moe__cast_send_in_group(moe__cast_tiles_t *tiles, const moe__cast_place_t *place,
                             MlirValue is_sender, MlirValue output, MlirValue above) {
  moe__builder_t *b = &tiles->kernel->builder;
  MlirValue by_tma = is_whole(tiles, place, MOE__COLUMNS);
  by_tma = moe__and(b, by_tma, moe__cast_begins_sector(b, place->row));
  MOE__IF (b, by_tma) {
    send_by_tma(tiles, place, is_sender, MOE__COLUMNS, output);
  }
  MOE__ELSE (b) {
    moe__cast_copy_group_columns(tiles, place, output, above);
  }
}
