/* CastParts.h - what the parts of the pipeline of CastTiles.h share.
 *
 * CastTiles.c has the pipeline, CastSend.c its end, CastPlaces.c where tiles lie and in which order
 * they are taken, CastParameters.c the pipeline's schedule, its shared memory and what a launch
 * must know. CastRows.c and CastColumns.c have the two directions: which part of a tile a unit is,
 * how its words come in, and how its results go out.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_KERNELS_MX_QUANTIZE_CAST_PARTS_H
#define MOE_KERNELS_MX_QUANTIZE_CAST_PARTS_H

#include "lib/Device/Warp.h"
#include "lib/Kernels/mx_quantize/CastTiles.h"

/* In shared memory a tile of x lies in boxes, whose rows have 128 bytes, in the 128-byte swizzle.
 * A swizzle moves chunks of 16 bytes. */
#define MOE__CAST_ROW_BYTES 128
#define MOE__CAST_CHUNK 16
#define MOE__CAST_CHUNK_BITS 4
#define MOE__CAST_STRIP_ROWS 32 /* of a unit in columns */
#define MOE__CAST_UNIT_BYTES (MOE__CAST_STRIP_ROWS * MOE__CAST_ROW_BYTES)

#define MOE__CAST_LINE                                                                             \
  128 /* bytes of a line of memory; the rows of a tile that begins with its group */

/* Of a tile whose columns are turned: bytes of a column, counted from the start of the line in
 * which it begins. */
typedef struct moe__cast_line_t {
  MlirValue turn;    /* i32: those of rows above the tile */
  MlirValue foreign; /* i32: of these, those that no tile of the segment has: they are the first */
  MlirValue end; /* i32: those up to the tile's last row; with a line or more, one is complete */
} moe__cast_line_t;

/* The place of a tile, in elements of its tensor. */
typedef struct moe__cast_place_t {
  MlirValue is_first;           /* i1: whether that is the first of two; null where there is one */
  MlirValue batch, row, column; /* i32 */
  MlirValue run_column;         /* i32: the column, counted from the start of the run */
  /* Null but with by_group. */
  MlirValue group, row_end; /* i32: that of the tile, where it ends */
  MlirValue written_row;    /* i32: where groups are aligned, `row` in results in columns */
  MlirValue is_last;        /* i1: whether no tile of the segment lies below it */
  MlirValue rows_above; /* i32: rows of the tile above it, where their last ones are left to it */
  moe__cast_line_t line;
} moe__cast_place_t;

/* ---- CastPlaces.c ---- */

/* Whether columns are turned. */
bool moe__cast_turns(const moe__cast_tiles_t *tiles);

/* Whether a tile is written in lines that it shares with the one above. */
bool moe__cast_has_lines(const moe__cast_tiles_t *tiles);

/* Where the rows end that are written, i32. */
MlirValue moe__cast_row_end(const moe__cast_tiles_t *tiles, const moe__cast_place_t *place);

/* The result of this direction, where a kernel writes it with ordinary stores: !llvm.ptr<1>. */
MlirValue moe__cast_result(moe__cast_tiles_t *tiles, const moe__cast_place_t *place,
                           moe__direction_t direction);

/* Tile `index` of tiles->tiles; with runs, the first one of its run. */
moe__cast_place_t moe__cast_place_of(moe__cast_tiles_t *tiles, MlirValue index);

/* Where the columns of the run that starts at `place` end, counted from its start; and the place of
 * the tile at a column of the run. */
MlirValue moe__cast_run_end(moe__cast_tiles_t *tiles, const moe__cast_place_t *place);
moe__cast_place_t moe__cast_place_in_run(moe__cast_tiles_t *tiles, const moe__cast_place_t *run,
                                         MlirValue column);

/* Where tiles share lines, the list of tiles goes down the rows first, through all groups, and
 * CTAs take segments of it in turn: what one tile leaves of a line in memory is written with the
 * next one's. Where rows are written too, a segment is of one column of tiles, and the next one
 * lies beside it: CTAs then read and write whole rows together. */
typedef struct moe__cast_segments_t {
  MlirValue rows, columns; /* i32: tiles of a column of tiles, and of a row */
  MlirValue count;         /* i32: segments */
  MlirValue size;          /* i32: tiles of a segment */
  MlirValue larger;        /* i32: how many segments, of all or of a column, have one more */
} moe__cast_segments_t;

moe__cast_segments_t moe__cast_find_segments(moe__cast_tiles_t *tiles);

/* The tiles of segment `number`: from *start to *end of the list. */
void moe__cast_segment_range(moe__cast_tiles_t *tiles, const moe__cast_segments_t *segments,
                             MlirValue number, MlirValue *start, MlirValue *end);

/* The place of tile `index` of a segment that ends with tile `end`, without its line; and its line.
 * foreign: of the line in which the tile above ends, the bytes that no tile of the segment has. */
moe__cast_place_t moe__cast_place_in_segment(moe__cast_tiles_t *tiles,
                                             const moe__cast_segments_t *segments, MlirValue index,
                                             MlirValue end);
moe__cast_line_t moe__cast_line_of(moe__cast_tiles_t *tiles, const moe__cast_place_t *place,
                                   MlirValue foreign);

/* ---- CastTiles.c ---- */

/* Named barriers of the casting threads, which take turns. */
#define MOE__CAST_BARRIER 1
#define MOE__CAST_BARRIER_2 2

/* Units of a tile that a warp has, in each direction. */
int moe__cast_warp_units(const moe__cast_tiles_t *tiles);

/* Unit number `index` of the warp, without its output. */
moe__cast_unit_t moe__cast_unit_of(moe__cast_tiles_t *tiles, const moe__cast_place_t *place,
                                   moe__direction_t direction, int index);

/* The number (i32) of the warp's unit `index` in the tile. */
MlirValue moe__cast_unit_number(moe__cast_tiles_t *tiles, int index);

/* The address in shared memory of chunk `chunk` of 8 of a swizzled row, whose first chunk lies at
 * `first` (i32) from the ring's buffers. It is made anew for each unit: kept, it would take
 * registers. */
MlirValue moe__cast_chunk_address(moe__cast_tiles_t *tiles, MlirValue first, int chunk);

/* For each chunk of an output tile, with ordinary stores: all casting threads. */
#define MOE__CAST_FOR_CHUNKS(tiles, index)                                                         \
  MOE__FOR (&(tiles)->kernel->builder, index, (tiles)->kernel->thread,                             \
            moe__cast_tile_elements(tiles) / MOE__CAST_CHUNK, (tiles)->schedule.warps * MOE__WARP)

/* ---- CastSend.c: all casting threads ---- */

/* Sends the results of a tile off, which lie at `output` in shared memory. is_sender: i1, set for
 * the one thread that TMA works for. */
void moe__cast_send(moe__cast_tiles_t *tiles, const moe__cast_place_t *place, MlirValue is_sender,
                    moe__direction_t direction, MlirValue output);

/* The same of the columns of a tile that begins with its group. above: where the results of the
 * tile above it are. */
void moe__cast_send_in_group(moe__cast_tiles_t *tiles, const moe__cast_place_t *place,
                             MlirValue is_sender, MlirValue output, MlirValue above);

/* Until TMA has read what was sent. */
void moe__cast_wait_until_sent(moe__builder_t *b, MlirValue is_sender);

/* Copies a chunk; the address of element (row, column) of a matrix of bytes. */
void moe__cast_copy_chunk(moe__builder_t *b, MlirValue from, MlirValue to);
MlirValue moe__cast_byte_address(moe__builder_t *b, MlirValue matrix, MlirValue row,
                                 MlirValue columns, MlirValue column);

/* ---- CastParameters.c ---- */

/* Columns of x in a box, boxes side by side in a tile, elements of a tile. */
int moe__cast_box_k(const moe__cast_tiles_t *tiles);
int moe__cast_boxes(const moe__cast_tiles_t *tiles);
int32_t moe__cast_tile_elements(const moe__cast_tiles_t *tiles);

/* Words of the next lines that a lane keeps. */
int moe__cast_held(const moe__cast_schedule_t *schedule, int element_bytes);

/* ---- CastRows.c: a unit is 32 pieces of rows, 128 bytes each ---- */

/* Bytes of a row of the boxes in which a tile goes out: 32, 64 or 128. */
int moe__cast_panel(const moe__cast_tiles_t *tiles);

/* Says where the unit lies in its tile. */
void moe__cast_place_pieces(moe__cast_tiles_t *tiles, moe__cast_unit_t *unit);

/* The lane's 128 bytes of a row. input: i32, the stage from the ring's buffers. */
void moe__cast_load_row(moe__cast_tiles_t *tiles, const moe__cast_unit_t *unit, MlirValue input,
                        MlirValue words[MOE__CAST_WORDS]);
void moe__cast_store_row(moe__cast_tiles_t *tiles, const moe__cast_unit_t *unit,
                         const MlirValue *packed);

/* Sends an output tile off by TMA: one thread. */
void moe__cast_send_rows(moe__cast_tiles_t *tiles, const moe__cast_place_t *place, MlirValue map,
                         MlirValue output);

/* Copies the rows of an output tile that are in groups: all casting threads. */
void moe__cast_copy_rows(moe__cast_tiles_t *tiles, const moe__cast_place_t *place,
                         MlirValue output);

/* ---- CastColumns.c: a unit is a strip of 32 rows x 128 bytes; the same for it ---- */

/* Says which half of a strip the lane takes first. */
void moe__cast_find_halves(moe__cast_tiles_t *tiles);
void moe__cast_place_strip(moe__cast_tiles_t *tiles, moe__cast_unit_t *unit);

/* The lane's 32 words of a strip, in the order in which it will store them; the same of a strip of
 * the turned tile. */
void moe__cast_load_columns(moe__cast_tiles_t *tiles, const moe__cast_unit_t *unit, MlirValue input,
                            MlirValue words[MOE__CAST_WORDS]);
void moe__cast_load_turned(moe__cast_tiles_t *tiles, const moe__cast_unit_t *unit, MlirValue input,
                           MlirValue words[MOE__CAST_WORDS]);
void moe__cast_store_column(moe__cast_tiles_t *tiles, const moe__cast_unit_t *unit, int part,
                            const MlirValue *packed);
void moe__cast_send_columns(moe__cast_tiles_t *tiles, const moe__cast_place_t *place, MlirValue map,
                            MlirValue output);

/* Groups end anywhere: the last chunk of a column is written byte by byte. */
void moe__cast_copy_columns(moe__cast_tiles_t *tiles, const moe__cast_place_t *place,
                            MlirValue output);

/* Whether what begins with this row (i32) begins with a sector of memory: then TMA writes columns
 * as fast as lines. It could write what begins at a multiple of 16 bytes, but parts of sectors are
 * read before they are written. */
MlirValue moe__cast_begins_sector(moe__builder_t *b, MlirValue row);

/* How many rows a tile that begins with its group has, if it leaves its last ones to the tile below
 * it, which writes them in one line with its own; else 0. */
MlirValue moe__cast_rows_left(moe__cast_tiles_t *tiles, const moe__cast_place_t *place);

/* The same for a tile that begins with any row, up to the end of its group, in lines of memory. The
 * first of a column may begin with what `above`, the output of the tile above, has left to it, and
 * the last may be left to the tile below. */
void moe__cast_copy_group_columns(moe__cast_tiles_t *tiles, const moe__cast_place_t *place,
                                  MlirValue output, MlirValue above);

/* Copies bytes `first` to `end` (i32) of the lines of an output tile, which begin with the first
 * row of `place`, a warp a line. */
void moe__cast_copy_lines(moe__cast_tiles_t *tiles, const moe__cast_place_t *place,
                          MlirValue output, MlirValue first, MlirValue end);

/* Where groups are aligned: zeros for the rows of a unit, which has been cast, that lie behind the
 * end of the group. */
void moe__cast_clear_rows(moe__cast_tiles_t *tiles, const moe__cast_unit_t *unit);

/* Of turned columns: stores what the lane keeps of the next lines of a unit. */
void moe__cast_store_held(moe__cast_tiles_t *tiles, const moe__cast_unit_t *unit);

#endif /* MOE_KERNELS_MX_QUANTIZE_CAST_PARTS_H */
