/* CastPlaces.c - where the tiles of the pipeline of CastTiles.h lie, and in which order CTAs take
 * them: in the order of Tiles.h, or down the rows through all groups.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/mx_quantize/CastParts.h"

/* ---- Tiles ---- */

static moe__tile_t tile_at(moe__cast_tiles_t *tiles, MlirValue index) {
  moe__builder_t *b = &tiles->kernel->builder;
  if (tiles->rank == 3)
    return moe__tile_at(b, &tiles->tiles, index);
  moe__tile_t tile = moe__tile_in_batch(b, &tiles->tiles, index);
  tile.batch = moe__i32(b, 0);
  return tile;
}

MlirValue moe__cast_of_tensor(moe__cast_tiles_t *tiles, MlirValue is_first,
                              const MlirValue values[MOE__CAST_MAX_TENSORS]) {
  return mlirValueIsNull(is_first)
             ? values[0]
             : moe__select(&tiles->kernel->builder, is_first, values[0], values[1]);
}

MlirValue moe__cast_columns(moe__cast_tiles_t *tiles, MlirValue is_first) {
  return moe__cast_of_tensor(tiles, is_first,
                             (MlirValue[]){tiles->tensors[0].k.value, tiles->tensors[1].k.value});
}

MlirValue moe__cast_result(moe__cast_tiles_t *tiles, const moe__cast_place_t *place,
                           moe__direction_t direction) {
  return moe__cast_of_tensor(
      tiles, place->is_first,
      (MlirValue[]){tiles->tensors[0].pointers[direction], tiles->tensors[1].pointers[direction]});
}

MlirValue moe__cast_row_end(const moe__cast_tiles_t *tiles, const moe__cast_place_t *place) {
  return tiles->by_group ? place->row_end : tiles->row_end;
}

bool moe__cast_turns(const moe__cast_tiles_t *tiles) {
  return tiles->by_group && !tiles->aligned && tiles->writes[MOE__ROWS] &&
         tiles->writes[MOE__COLUMNS];
}

bool moe__cast_has_lines(const moe__cast_tiles_t *tiles) {
  return tiles->by_group && !tiles->aligned;
}

static MlirValue ceil_div(moe__builder_t *b, MlirValue x, MlirValue divisor) {
  return moe__udiv(b, moe__add(b, x, moe__sub(b, divisor, 1)), divisor);
}

/* Into how many segments a column of tiles is cut. CTAs take these in turns; of about as many turns
 * as give segments of the length of the schedule those are chosen whose longest CTA has the fewest
 * tiles. */
#define TURNS_TRIED 4

static MlirValue find_parts(moe__cast_tiles_t *tiles, const moe__cast_segments_t *segments,
                            MlirValue turns) {
  moe__builder_t *b = &tiles->kernel->builder;
  MlirValue ctas = tiles->kernel->cta_count, parts = moe__i32(b, 1), least = moe__i32(b, -1);
  for (int i = 0; i < TURNS_TRIED; i++) {
    MlirValue taken = moe__mul(b, moe__add(b, turns, i), ctas);
    MlirValue tried = moe__umax(b, moe__udiv(b, taken, segments->columns), 1);
    MlirValue longest = moe__mul(b, ceil_div(b, moe__mul(b, tried, segments->columns), ctas),
                                 ceil_div(b, segments->rows, tried));
    MlirValue is_better = moe__ult(b, longest, least);
    parts = moe__select(b, is_better, tried, parts);
    least = moe__select(b, is_better, longest, least);
  }
  return parts;
}

moe__cast_segments_t moe__cast_find_segments(moe__cast_tiles_t *tiles) {
  moe__builder_t *b = &tiles->kernel->builder;
  MlirValue total = moe__groups_total(&tiles->table), columns = tiles->table.columns;
  moe__cast_segments_t segments = {.columns = columns, .rows = moe__udiv(b, total, columns)};
  MlirValue ctas = tiles->kernel->cta_count;
  MlirValue turns = ceil_div(b, total, moe__mul(b, ctas, tiles->schedule.segment));
  bool of_columns = moe__cast_turns(tiles);
  MlirValue parts =
      of_columns ? find_parts(tiles, &segments, turns) : moe__umax(b, moe__mul(b, turns, ctas), 1);
  MlirValue cut = of_columns ? segments.rows : total;
  segments.count = of_columns ? moe__mul(b, parts, columns) : parts;
  segments.size = moe__udiv(b, cut, parts);
  segments.larger = moe__urem(b, cut, parts);
  return segments;
}

/* The first tile of part `number` of what is cut, which is where the one before it ends. */
static MlirValue part_start(moe__builder_t *b, const moe__cast_segments_t *segments,
                            MlirValue number) {
  return moe__add(b, moe__mul(b, number, segments->size), moe__umin(b, number, segments->larger));
}

void moe__cast_segment_range(moe__cast_tiles_t *tiles, const moe__cast_segments_t *segments,
                             MlirValue number, MlirValue *start, MlirValue *end) {
  moe__builder_t *b = &tiles->kernel->builder;
  MlirValue part = number, before = moe__i32(b, 0);
  if (moe__cast_turns(tiles)) {
    part = moe__udiv(b, number, segments->columns);
    before = moe__mul(b, moe__urem(b, number, segments->columns), segments->rows);
  }
  *start = moe__add(b, before, part_start(b, segments, part));
  *end = moe__add(b, before, part_start(b, segments, moe__add(b, part, 1)));
}

/* Whether the tile is of the first of two tensors; its column is then counted in its own. Null
 * where there is one. */
static MlirValue find_tensor(moe__cast_tiles_t *tiles, moe__tile_t *tile) {
  moe__builder_t *b = &tiles->kernel->builder;
  if (tiles->tensor_count == 1)
    return (MlirValue){NULL};
  MlirValue is_first = moe__ult(b, tile->column, tiles->first_columns);
  MlirValue before = moe__select(b, is_first, 0, tiles->first_columns);
  tile->column = moe__sub(b, tile->column, before);
  return is_first;
}

moe__cast_place_t moe__cast_place_in_segment(moe__cast_tiles_t *tiles,
                                             const moe__cast_segments_t *segments, MlirValue index,
                                             MlirValue end) {
  moe__builder_t *b = &tiles->kernel->builder;
  MlirValue number = moe__urem(b, index, segments->rows);
  MlirValue column = moe__udiv(b, index, segments->rows);
  moe__group_tile_t tile = moe__groups_row_tile(&tiles->table, number);
  MlirValue ends_column = moe__eq(b, moe__add(b, number, 1), segments->rows);
  return (moe__cast_place_t){
      .batch = moe__i32(b, 0),
      .row = tile.row,
      .column = moe__mul(b, column, tiles->schedule.tile_k),
      .run_column = moe__i32(b, 0),
      .group = tile.group,
      .row_end = tile.row_end,
      .is_last = moe__or(b, ends_column, moe__eq(b, moe__add(b, index, 1), end)),
  };
}

/* Where groups are aligned, and the rows of tiles are those of all groups. Rows of tiles are whole
 * ones of the result. */
static moe__cast_place_t place_in_groups(moe__cast_tiles_t *tiles, moe__tile_t at) {
  moe__builder_t *b = &tiles->kernel->builder;
  moe__group_tile_t tile = moe__groups_row_tile(&tiles->table, at.row);
  MlirValue is_first = find_tensor(tiles, &at);
  return (moe__cast_place_t){
      .is_first = is_first,
      .batch = moe__i32(b, 0),
      .row = tile.row,
      .column = moe__mul(b, at.column, tiles->schedule.tile_k),
      .run_column = moe__i32(b, 0),
      .group = tile.group,
      .row_end = tile.row_end,
      .written_row = moe__groups_aligned_row(b, tile.row, tile.group),
  };
}

moe__cast_place_t moe__cast_place_of(moe__cast_tiles_t *tiles, MlirValue index) {
  moe__builder_t *b = &tiles->kernel->builder;
  if (tiles->last_first)
    index = moe__sub(b, moe__sub(b, tiles->tiles.total, 1), index);
  moe__tile_t tile = tile_at(tiles, index);
  if (tiles->aligned)
    return place_in_groups(tiles, tile);
  MlirValue is_first = find_tensor(tiles, &tile);
  return (moe__cast_place_t){
      .is_first = is_first,
      .batch = tile.batch,
      .row = moe__mul(b, tile.row, tiles->schedule.tile_n),
      .column = moe__mul(b, tile.column, moe__cast_run(tiles) * tiles->schedule.tile_k),
      .run_column = moe__i32(b, 0)};
}

MlirValue moe__cast_run_end(moe__cast_tiles_t *tiles, const moe__cast_place_t *place) {
  moe__builder_t *b = &tiles->kernel->builder;
  MlirValue left = moe__sub(b, moe__cast_columns(tiles, place->is_first), place->column);
  return moe__umin(b, left, moe__cast_run(tiles) * tiles->schedule.tile_k);
}

moe__cast_place_t moe__cast_place_in_run(moe__cast_tiles_t *tiles, const moe__cast_place_t *run,
                                         MlirValue column) {
  moe__cast_place_t place = *run;
  place.column = moe__add(&tiles->kernel->builder, run->column, column);
  place.run_column = column;
  return place;
}

moe__cast_line_t moe__cast_line_of(moe__cast_tiles_t *tiles, const moe__cast_place_t *place,
                                   MlirValue foreign) {
  moe__builder_t *b = &tiles->kernel->builder;
  MlirValue rows = moe__umin(b, moe__sub(b, place->row_end, place->row), tiles->schedule.tile_n);
  MlirValue turn = moe__and(b, place->row, MOE__CAST_LINE - 1);
  return (moe__cast_line_t){
      .turn = turn, .foreign = moe__umin(b, foreign, turn), .end = moe__add(b, turn, rows)};
}
