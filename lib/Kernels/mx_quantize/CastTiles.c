/* CastTiles.c - the pipeline of CastTiles.h: the warp that loads tiles, and the warps that cast
 * them.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/mx_quantize/CastParts.h"

int moe__cast_warp_units(const moe__cast_tiles_t *tiles) {
  return moe__cast_units(&tiles->schedule, tiles->elements.bytes);
}

MlirValue moe__cast_unit_number(moe__cast_tiles_t *tiles, int index) {
  moe__builder_t *b = &tiles->kernel->builder;
  return moe__add(b, moe__mul(b, tiles->warp, moe__cast_warp_units(tiles)), index);
}

/* Of a run that a cluster shares, the first column of the CTA's tile. */
static MlirValue own_column(moe__cast_tiles_t *tiles) {
  moe__kernel_t *kernel = tiles->kernel;
  return moe__mul(&kernel->builder, kernel->cluster_rank, tiles->schedule.tile_k);
}

/* ---- The loading warp ---- */

static moe__cursor_t load_tile(moe__cast_tiles_t *tiles, const moe__cast_place_t *place,
                               moe__cursor_t cursor) {
  moe__kernel_t *kernel = tiles->kernel;
  moe__builder_t *b = &kernel->builder;
  int32_t box_bytes = tiles->schedule.tile_n * MOE__CAST_ROW_BYTES;
  MlirValue landed = moe__ring_acquire(kernel, &tiles->layout.ring, cursor,
                                       moe__i32(b, moe__cast_boxes(tiles) * box_bytes));
  MlirValue buffer = moe__ring_buffer(kernel, &tiles->layout.ring, cursor);
  MlirValue map = moe__cast_of_tensor(
      tiles, place->is_first, (MlirValue[]){tiles->tensors[0].x_map, tiles->tensors[1].x_map});
  for (int i = 0; i < moe__cast_boxes(tiles); i++)
    moe__tma_load(b, map, moe__offset_by(b, buffer, i * box_bytes), landed, tiles->rank,
                  (MlirValue[]){moe__add(b, place->column, i * moe__cast_box_k(tiles)), place->row,
                                place->batch});
  return moe__cursor_next(b, &tiles->layout.ring, cursor);
}

static void load_segments(moe__cast_tiles_t *tiles) {
  moe__builder_t *b = &tiles->kernel->builder;
  moe__cursor_t cursor = moe__cursor_start(b);
  moe__cast_segments_t segments = moe__cast_find_segments(tiles);
  MOE__FOR (b, number, tiles->kernel->cta, segments.count, tiles->kernel->cta_count,
            MOE__CARRY_CURSOR(cursor)) {
    MlirValue start, end;
    moe__cast_segment_range(tiles, &segments, number, &start, &end);
    MOE__FOR (b, index, start, end, 1, MOE__CARRY_CURSOR(cursor)) {
      moe__cast_place_t place = moe__cast_place_in_segment(tiles, &segments, index, end);
      cursor = load_tile(tiles, &place, cursor);
    }
  }
}

/* Tile `index`, the tiles of its run, or the CTA's own of these. */
static void load_run(moe__cast_tiles_t *tiles, MlirValue index, moe__cursor_t *cursor) {
  moe__builder_t *b = &tiles->kernel->builder;
  moe__cast_place_t run = moe__cast_place_of(tiles, index);
  if (moe__cast_run(tiles) == 1) {
    *cursor = load_tile(tiles, &run, *cursor);
  } else if (tiles->schedule.cluster > 1) {
    moe__cast_place_t place = moe__cast_place_in_run(tiles, &run, own_column(tiles));
    *cursor = load_tile(tiles, &place, *cursor);
  } else {
    MOE__FOR (b, column, 0, moe__cast_run_end(tiles, &run), tiles->schedule.tile_k,
              MOE__CARRY_CURSOR(*cursor)) {
      moe__cast_place_t place = moe__cast_place_in_run(tiles, &run, column);
      *cursor = load_tile(tiles, &place, *cursor);
    }
  }
}

static void load_tiles(moe__cast_tiles_t *tiles) {
  moe__kernel_t *kernel = tiles->kernel;
  moe__builder_t *b = &kernel->builder;
  moe__cursor_t cursor = moe__cursor_start(b);
  MOE__FOR_OR_ONCE (b, moe__cast_goes_on(&tiles->schedule), index, moe__tiles_first(kernel),
                    tiles->tiles.total, moe__tiles_step(kernel), MOE__CARRY_CURSOR(cursor)) {
    load_run(tiles, index, &cursor);
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
  moe__cast_find_halves(tiles);
}

moe__cast_unit_t moe__cast_unit_of(moe__cast_tiles_t *tiles, const moe__cast_place_t *place,
                                   moe__direction_t direction, int index) {
  moe__builder_t *b = &tiles->kernel->builder;
  moe__cast_unit_t unit = {.direction = direction,
                           .index = index,
                           .is_first = place->is_first,
                           .batch = place->batch,
                           .group = place->group,
                           .row_end = place->row_end,
                           .line = moe__cast_turns(tiles) ? &place->line : NULL};
  if (tiles->grouped)
    find_lane(tiles);
  if (direction == MOE__COLUMNS)
    moe__cast_place_strip(tiles, &unit);
  else
    moe__cast_place_pieces(tiles, &unit);
  unit.row = moe__add(b, place->row, unit.tile_row);
  if (tiles->aligned)
    unit.written_row = moe__add(b, place->written_row, unit.tile_row);
  unit.column = moe__add(b, place->column, unit.tile_column);
  unit.run_column = moe__add(b, place->run_column, unit.tile_column);
  return unit;
}

MlirValue moe__cast_chunk_address(moe__cast_tiles_t *tiles, MlirValue first, int chunk) {
  moe__builder_t *b = &tiles->kernel->builder;
  MlirValue offset = moe__xor(b, first, chunk * MOE__CAST_CHUNK);
  return moe__offset_by(b, moe__offset(b, tiles->kernel->shared, offset),
                        tiles->layout.ring.buffers);
}

void moe__cast_store(moe__cast_tiles_t *tiles, const moe__cast_unit_t *unit, int part,
                     const MlirValue *packed) {
  if (unit->direction == MOE__COLUMNS)
    moe__cast_store_column(tiles, unit, part, packed);
  else
    moe__cast_store_row(tiles, unit, packed);
}

/* ---- The casting warps ---- */

/* The warp's units in one direction. is_last: after them the tile is not read any more. */
static void cast_units(moe__cast_tiles_t *tiles, const moe__cast_t *cast, moe__cursor_t cursor,
                       const moe__cast_place_t *place, moe__direction_t direction, MlirValue output,
                       bool is_last) {
  moe__kernel_t *kernel = tiles->kernel;
  moe__builder_t *b = &kernel->builder;
  MlirValue input = moe__mul(b, cursor.stage, tiles->layout.ring.stage_bytes);
  for (int i = 0; i < moe__cast_warp_units(tiles); i++) {
    MlirValue words[MOE__CAST_WORDS];
    moe__cast_unit_t unit = moe__cast_unit_of(tiles, place, direction, i);
    unit.output = output;
    if (direction == MOE__ROWS)
      moe__cast_load_row(tiles, &unit, input, words);
    else if (unit.line)
      moe__cast_load_turned(tiles, &unit, input, words);
    else
      moe__cast_load_columns(tiles, &unit, input, words);
    if (is_last && i == moe__cast_warp_units(tiles) - 1) {
      /* All of the warp's reads are done: the stage may be refilled. */
      moe__warp_barrier(b);
      MOE__IF (b, moe__eq(b, tiles->lane, 0)) {
        moe__ring_release(kernel, &tiles->layout.ring, cursor);
      }
    }
    cast->cast(cast->user, &unit, words);
    if (tiles->aligned && direction == MOE__COLUMNS)
      moe__cast_clear_rows(tiles, &unit);
  }
}

/* What the warp's units in columns have to say before any is cast. */
static void find_in_units(moe__cast_tiles_t *tiles, const moe__cast_t *cast, moe__cursor_t cursor,
                          const moe__cast_place_t *place) {
  moe__builder_t *b = &tiles->kernel->builder;
  MlirValue input = moe__mul(b, cursor.stage, tiles->layout.ring.stage_bytes);
  for (int i = 0; i < moe__cast_warp_units(tiles); i++) {
    MlirValue words[MOE__CAST_WORDS];
    moe__cast_unit_t unit = moe__cast_unit_of(tiles, place, MOE__COLUMNS, i);
    moe__cast_load_columns(tiles, &unit, input, words);
    cast->find(cast->user, &unit, words);
  }
  if (!tiles->writes[MOE__ROWS] || cast->rows_use_find)
    moe__named_barrier(b, MOE__CAST_BARRIER_2, tiles->schedule.warps * MOE__WARP);
}

static MlirValue output_of(moe__cast_tiles_t *tiles, moe__direction_t direction, MlirValue slot) {
  moe__kernel_t *kernel = tiles->kernel;
  moe__builder_t *b = &kernel->builder;
  MlirValue offset = moe__mul(b, slot, moe__cast_tile_elements(tiles));
  return moe__offset_by(b, moe__offset(b, kernel->shared, offset),
                        tiles->layout.outputs[direction]);
}

/* A tile that goes out in one direction. slot: where its results are put. */
static void cast_one_way(moe__cast_tiles_t *tiles, const moe__cast_t *cast, moe__cursor_t cursor,
                         const moe__cast_place_t *place, MlirValue is_sender, MlirValue slot) {
  moe__builder_t *b = &tiles->kernel->builder;
  int32_t threads = tiles->schedule.warps * MOE__WARP;
  moe__direction_t direction = tiles->writes[MOE__ROWS] ? MOE__ROWS : MOE__COLUMNS;
  MlirValue output = output_of(tiles, direction, slot);
  if (tiles->schedule.output_stages == 1) {
    /* The only slot must have been read before it is written again. */
    moe__cast_wait_until_sent(b, is_sender);
    if (!cast->find)
      moe__named_barrier(b, MOE__CAST_BARRIER_2, threads);
  }
  moe__ring_wait(tiles->kernel, &tiles->layout.ring, cursor);
  if (cast->find)
    find_in_units(tiles, cast, cursor, place);
  else if (moe__cast_has_lines(tiles))
    /* The other slot may still be read, where this tile's results go: what lay above the last. */
    moe__named_barrier(b, MOE__CAST_BARRIER_2, threads);
  cast_units(tiles, cast, cursor, place, direction, output, true);
  moe__fence_shared_to_async(b);
  if (tiles->schedule.output_stages == 2)
    /* Before anyone passes the barrier and writes the other slot, it must have been read. */
    moe__cast_wait_until_sent(b, is_sender);
  moe__named_barrier(b, MOE__CAST_BARRIER, threads);
  if (moe__cast_has_lines(tiles))
    /* The other slot has the tile above; it is written again behind a barrier of the next tile. */
    moe__cast_send_in_group(tiles, place, is_sender, output,
                            output_of(tiles, direction, moe__xor(b, slot, 1)));
  else
    moe__cast_send(tiles, place, is_sender, direction, output);
}

/* A tile that goes out in both. They take turns: while one is sent, the other is written. */
static void cast_both_ways(moe__cast_tiles_t *tiles, const moe__cast_t *cast, moe__cursor_t cursor,
                           const moe__cast_place_t *place, MlirValue is_sender) {
  moe__builder_t *b = &tiles->kernel->builder;
  moe__ring_wait(tiles->kernel, &tiles->layout.ring, cursor);
  if (cast->find)
    find_in_units(tiles, cast, cursor, place);
  for (moe__direction_t direction = MOE__ROWS; direction <= MOE__COLUMNS; direction++) {
    MlirValue output = output_of(tiles, direction, moe__i32(b, 0));
    if (!moe__cast_goes_on(&tiles->schedule)) { /* both have the same output tile */
      moe__cast_wait_until_sent(b, is_sender);
      moe__named_barrier(b, MOE__CAST_BARRIER, tiles->schedule.warps * MOE__WARP);
    }
    cast_units(tiles, cast, cursor, place, direction, output, direction == MOE__COLUMNS);
    moe__fence_shared_to_async(b);
    /* Before anyone passes the barrier and writes the other direction's, they must have been
     * read. */
    moe__cast_wait_until_sent(b, is_sender);
    moe__named_barrier(b, MOE__CAST_BARRIER, tiles->schedule.warps * MOE__WARP);
    moe__cast_send(tiles, place, is_sender, direction, output);
  }
}

/* Casts the tile that the cursor is at; cursor and slot of results are then the next one's. */
static void cast_tile(moe__cast_tiles_t *tiles, const moe__cast_t *cast, moe__cursor_t *cursor,
                      const moe__cast_place_t *place, MlirValue is_sender, MlirValue *slot) {
  moe__builder_t *b = &tiles->kernel->builder;
  for (int i = 0; cast->prepare && i < moe__cast_warp_units(tiles); i++)
    for (moe__direction_t direction = MOE__ROWS; direction <= MOE__COLUMNS; direction++)
      if (tiles->writes[direction]) {
        moe__cast_unit_t unit = moe__cast_unit_of(tiles, place, direction, i);
        cast->prepare(cast->user, &unit);
      }
  bool both = tiles->writes[MOE__ROWS] && tiles->writes[MOE__COLUMNS];
  if (both)
    cast_both_ways(tiles, cast, *cursor, place, is_sender);
  else
    cast_one_way(tiles, cast, *cursor, place, is_sender, *slot);
  if (tiles->schedule.output_stages == 2)
    *slot = moe__xor(b, *slot, 1);
  *cursor = moe__cursor_next(b, &tiles->layout.ring, *cursor);
}

/* Tile `index`, the tiles of its run, or the CTA's own of these. */
static void cast_run(moe__cast_tiles_t *tiles, const moe__cast_t *cast, MlirValue index,
                     MlirValue is_sender, moe__cursor_t *cursor, MlirValue *slot) {
  moe__builder_t *b = &tiles->kernel->builder;
  int32_t threads = tiles->schedule.warps * MOE__WARP;
  moe__cast_place_t run = moe__cast_place_of(tiles, index);
  if (tiles->layout.is_table_in_output)
    moe__named_barrier(b, MOE__CAST_BARRIER_2, threads); /* all know their place */
  if (moe__cast_run(tiles) == 1) {
    cast_tile(tiles, cast, cursor, &run, is_sender, slot);
  } else if (tiles->schedule.cluster > 1) {
    moe__cast_place_t place = moe__cast_place_in_run(tiles, &run, own_column(tiles));
    moe__cluster_wait(b); /* the others have begun, too */
    cast_tile(tiles, cast, cursor, &place, is_sender, slot);
  } else {
    MOE__FOR (b, column, 0, moe__cast_run_end(tiles, &run), tiles->schedule.tile_k,
              MOE__CARRY_CURSOR(*cursor), slot) {
      moe__cast_place_t place = moe__cast_place_in_run(tiles, &run, column);
      cast_tile(tiles, cast, cursor, &place, is_sender, slot);
    }
  }
  if (cast->finish) {
    cast->finish(cast->user, run.batch, run.row, run.column);
    if (moe__cast_goes_on(&tiles->schedule))
      moe__named_barrier(b, MOE__CAST_BARRIER_2, threads);
  }
}

/* The tiles from `start` to `end` of the list. */
static void cast_segment(moe__cast_tiles_t *tiles, const moe__cast_t *cast, MlirValue start,
                         MlirValue end, const moe__cast_segments_t *segments, MlirValue is_sender,
                         moe__cursor_t *cursor, MlirValue *slot) {
  moe__builder_t *b = &tiles->kernel->builder;
  /* All that lies above the first tile is another CTA's. */
  MlirValue rows_above = moe__i32(b, 0), foreign = moe__i32(b, MOE__CAST_LINE);
  bool turns = moe__cast_turns(tiles);
  MlirValue *carried[5 + MOE__CAST_HELD] = {NULL, MOE__CARRY_CURSOR(*cursor), slot,
                                            turns ? &foreign : &rows_above};
  int count = 4, held = turns ? moe__cast_held(&tiles->schedule, tiles->elements.bytes) : 0;
  for (int i = 0; i < held; i++) {
    tiles->held[i] = moe__i32(b, 0);
    carried[++count] = &tiles->held[i];
  }
  MOE__FOR_SCOPE(index,
                 moe__for_open(b, start, end, moe__i32(b, 1), count, (MlirValue *const *)carried)) {
    moe__cast_place_t place = moe__cast_place_in_segment(tiles, segments, index, end);
    place.rows_above = rows_above;
    place.line = moe__cast_line_of(tiles, &place, foreign);
    cast_tile(tiles, cast, cursor, &place, is_sender, slot);
    if (turns)
      foreign = moe__select(b, moe__ule(b, MOE__CAST_LINE, place.line.end), 0, place.line.foreign);
    else
      rows_above = moe__cast_rows_left(tiles, &place);
  }
}

static void cast_segments(moe__cast_tiles_t *tiles, const moe__cast_t *cast) {
  moe__kernel_t *kernel = tiles->kernel;
  moe__builder_t *b = &kernel->builder;
  find_lane(tiles);
  MlirValue is_sender = moe__eq(b, kernel->thread, 0);
  moe__cursor_t cursor = moe__cursor_start(b);
  MlirValue slot = moe__i32(b, 0);
  moe__cast_segments_t segments = moe__cast_find_segments(tiles);
  MOE__FOR (b, number, kernel->cta, segments.count, kernel->cta_count, MOE__CARRY_CURSOR(cursor),
            &slot) {
    MlirValue start, end;
    moe__cast_segment_range(tiles, &segments, number, &start, &end);
    cast_segment(tiles, cast, start, end, &segments, is_sender, &cursor, &slot);
  }
  /* Shared memory must outlive the copies out of it. */
  moe__cast_wait_until_sent(b, is_sender);
}

static void cast_tiles(moe__cast_tiles_t *tiles, const moe__cast_t *cast) {
  moe__kernel_t *kernel = tiles->kernel;
  moe__builder_t *b = &kernel->builder;
  find_lane(tiles);
  MlirValue is_sender = moe__eq(b, kernel->thread, 0);
  moe__cursor_t cursor = moe__cursor_start(b);
  MlirValue slot = moe__i32(b, 0);
  MOE__FOR_OR_ONCE (b, moe__cast_goes_on(&tiles->schedule), index, moe__tiles_first(kernel),
                    tiles->tiles.total, moe__tiles_step(kernel), MOE__CARRY_CURSOR(cursor), &slot) {
    cast_run(tiles, cast, index, is_sender, &cursor, &slot);
  }
  /* Shared memory must outlive the copies out of it. */
  moe__cast_wait_until_sent(b, is_sender);
}

/* ---- The kernel ---- */

/* The first thread of the warp that loads. */
static int32_t loading_thread(const moe__cast_tiles_t *tiles) {
  return moe__cast_goes_on(&tiles->schedule) ? tiles->schedule.warps * MOE__WARP : 0;
}

/* What must be there before the warps go their ways. is_loader: the one thread that loads. */
static void set_up(moe__cast_tiles_t *tiles, const moe__cast_t *cast, MlirValue is_loader) {
  moe__kernel_t *kernel = tiles->kernel;
  moe__builder_t *b = &kernel->builder;
  MOE__IF (b, is_loader) {
    for (int i = 0; i < tiles->tensor_count; i++) {
      moe__tma_prefetch_map(b, tiles->tensors[i].x_map);
      for (int direction = 0; direction < 2; direction++)
        if (tiles->writes[direction])
          moe__tma_prefetch_map(b, tiles->tensors[i].maps[direction]);
    }
    if (cast->begin)
      cast->begin(cast->user);
    moe__ring_initialize(kernel, &tiles->layout.ring, tiles->schedule.warps);
  }
  if (tiles->schedule.cluster > 1)
    moe__cluster_arrive_relaxed(b);
  moe__grid_wait(b);
  if (tiles->grouped) {
    int32_t loader = loading_thread(tiles);
    MlirValue loads = moe__cast_goes_on(&tiles->schedule) ? moe__ule(b, loader, kernel->thread)
                                                          : moe__ult(b, kernel->thread, MOE__WARP);
    MOE__IF (b, loads) {
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
        moe__ceil_div(b, tiles->tensors[i].k.value, moe__cast_run(tiles) * tiles->schedule.tile_k);
  tiles->first_columns = columns[0];
  MlirValue all = tiles->tensor_count == 2 ? moe__add(b, columns[0], columns[1]) : columns[0];
  MlirValue rows = tiles->aligned ? moe__groups_total(&tiles->table)
                                  : moe__ceil_div(b, tiles->row_end, tiles->schedule.tile_n);
  tiles->tiles = moe__tiles_create(b, tiles->batches.value, rows, all, tiles->schedule.band);
}

/* The CTA's only tile. */
static void load_and_cast(moe__cast_tiles_t *tiles, const moe__cast_t *cast, MlirValue is_loader) {
  moe__builder_t *b = &tiles->kernel->builder;
  MOE__IF (b, is_loader) {
    load_tiles(tiles);
  }
  cast_tiles(tiles, cast);
}

/* Of a cluster whose tiles are more than there are: whether the CTA has one of those. */
static MlirValue has_tile(moe__cast_tiles_t *tiles) {
  moe__builder_t *b = &tiles->kernel->builder;
  moe__cast_place_t run = moe__cast_place_of(tiles, moe__tiles_first(tiles->kernel));
  return moe__ult(b, own_column(tiles), moe__cast_run_end(tiles, &run));
}

void moe__cast_tiles_run(moe__cast_tiles_t *tiles, const moe__cast_t *cast) {
  moe__kernel_t *kernel = tiles->kernel;
  moe__builder_t *b = &kernel->builder;
  bool in_segments = moe__cast_has_lines(tiles);
  if (in_segments)
    tiles->table = moe__groups_create(
        kernel, &tiles->layout.groups, tiles->groups.value, tiles->schedule.tile_n,
        moe__ceil_div(b, tiles->tensors[0].k.value, tiles->schedule.tile_k), tiles->schedule.band);
  else if (tiles->grouped)
    tiles->table = moe__groups_create(kernel, &tiles->layout.groups, tiles->groups.value,
                                      tiles->schedule.tile_n, moe__i32(b, 1), 1);
  int32_t loader = loading_thread(tiles);
  MlirValue is_loader = moe__eq(b, kernel->thread, loader);
  set_up(tiles, cast, is_loader);
  tiles->row_end = tiles->grouped ? moe__groups_end(&tiles->table) : tiles->n.value;
  if (!in_segments)
    create_tiles(tiles);
  if (tiles->schedule.cluster > 1) {
    MOE__IF (b, has_tile(tiles)) {
      load_and_cast(tiles, cast, is_loader);
    }
    return;
  }
  if (!moe__cast_goes_on(&tiles->schedule)) {
    load_and_cast(tiles, cast, is_loader);
    return;
  }
  MOE__IF (b, moe__ult(b, kernel->thread, loader)) {
    (in_segments ? cast_segments : cast_tiles)(tiles, cast);
  }
  MOE__ELSE (b) {
    MOE__IF (b, is_loader) {
      (in_segments ? load_segments : load_tiles)(tiles);
    }
  }
}
