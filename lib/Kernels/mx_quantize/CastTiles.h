/* CastTiles.h - the pipeline of the kernels that read a tensor tile by tile and write it as FP8:
 * in rows, in columns, or in both from one read.
 *
 * x is (batches,N,K), or (N,K), row-major. Every byte of it moves once: a tile comes in through
 * one tensor map, is cast in registers, and leaves through a map for each result, row-major or
 * with the last two dimensions swapped.
 *
 * Two tensors with the same rows may share the launch: the tiles of the second one lie behind
 * those of the first in each row of tiles, and a tile takes maps, sizes and pointers of its
 * tensor.
 *
 * - One warp loads. For each tile it waits until a stage is free and fetches the tile's boxes by
 *   TMA. A CTA that ends has one tile, which a thread of its first casting warp fetches.
 * - The others cast. A tile is cut into units of 4 KB, and each warp takes some: to write rows, 32
 *   pieces of a row, 128 bytes each, one a lane; to write columns, a strip of 32 rows x 128 bytes,
 *   of which a lane has 4 bytes of each row. A kernel that is built on this says what becomes of a
 *   unit (moe__cast_t). At the end one thread sends the tile off by TMA.
 * - The CTAs of a cluster, which end, have tiles side by side. Those behind the last column of x
 *   end at once.
 *
 * Where rows are in groups, those behind the last group are not written: tiles of only such rows
 * are left out, and a tile that holds some is written with ordinary stores. Tiles may also begin
 * with their group; then columns that begin off a sector of memory are written with ordinary
 * stores, in lines that tiles below one another share. Or groups are aligned: in columns each tile
 * has a whole box of the result, which TMA writes, with zeros behind the last row of a group.
 *
 * Where rows are written too, there is no room for two tiles, and columns are turned: byte i of a
 * column of an output tile is of row i - turn of the tile, modulo the rows of a tile, where turn is
 * the number of bytes of the first line that are of rows above the tile. So a lane has the same
 * bytes of a line in all tiles, keeps those of the next line in registers, and TMA writes whole
 * lines.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_KERNELS_MX_QUANTIZE_CAST_TILES_H
#define MOE_KERNELS_MX_QUANTIZE_CAST_TILES_H

#include "lib/Device/Async.h"
#include "lib/Device/Elements.h"
#include "lib/Device/Fp8.h"
#include "lib/Device/Groups.h"
#include "lib/Device/Tiles.h"
#include "lib/Kernels/mx_quantize/Schedule.h"

#define MOE__CAST_WORDS 32 /* that a lane has of a unit, 4 bytes each */
#define MOE__MAX_UNITS 16  /* of a warp in a tile: code is written for each */
#define MOE__CAST_HELD 32  /* words that a lane keeps of turned columns, at most */

/* The two ways to write a tensor: q along the last dimension, row-major; along the one before it,
 * column-major. */
typedef enum moe__direction_t { MOE__ROWS, MOE__COLUMNS } moe__direction_t;

/* ---- The schedule ---- */

extern const moe__schedule_kind_t moe__cast_schedule;

/* What a CTA has in shared memory: offsets. */
typedef struct moe__cast_layout_t {
  moe__layout_t cta;
  int32_t staging;    /* row scales of a run (QuantizeTiles.c); maxima (QuantizeColumns.c) */
  int32_t landed;     /* the mbarrier of those of a run that a cluster shares */
  int32_t outputs[2]; /* output tiles, by direction */
  int run; /* tiles of a row of tiles that a CTA takes one after the other, or a cluster; 0: 1 */
  bool is_table_in_output; /* the table of groups lies where results are put later */
  moe__ring_t ring;
  moe__groups_layout_t groups;
} moe__cast_layout_t;

/* Lays out a kernel that writes in these directions, behind what is reserved already. max_groups: 0
 * where rows are in no groups. by_group: tiles begin with their group. False after an error: the
 * pipeline has no such schedule. */
bool moe__cast_layout(MlirOperation op, const moe__cast_schedule_t *schedule, const bool writes[2],
                      int element_bytes, int max_groups, bool by_group, moe__cast_layout_t *out);

/* Whether CTAs take tiles until there are none; else each takes one and ends. */
bool moe__cast_goes_on(const moe__cast_schedule_t *schedule);

/* How many units of a tile a warp has, in each direction. */
int moe__cast_units(const moe__cast_schedule_t *schedule, int element_bytes);

/* ---- The pipeline ---- */

/* A unit of a tile, as one lane of the warp that casts it sees it. */
typedef struct moe__cast_unit_t {
  moe__direction_t direction;
  int index;             /* among the warp's units of the tile */
  MlirValue is_first;    /* i1: whether x is the first of two tensors; null where there is one */
  MlirValue batch;       /* i32; 0 where x has none */
  MlirValue row;         /* i32, of x: the lane's row; in columns the first of the strip's 32 */
  MlirValue column;      /* i32, of x: the first of the lane's columns */
  MlirValue tile_row;    /* i32: the same, counted from the start of the tile */
  MlirValue tile_column; /* i32 */
  MlirValue run_column;  /* i32: the column, counted from the start of the run */
  MlirValue group;       /* i32: that of the tile, and where it ends; null but with by_group */
  MlirValue row_end;
  MlirValue written_row; /* i32: `row` in results in columns, which may have it elsewhere */
  const struct moe__cast_line_t *line; /* CastParts.h; null but where columns are turned */
  MlirValue output;                    /* !llvm.ptr<3>: the tile of this direction's results */
} moe__cast_unit_t;

/* What is built for each unit; user is moe__cast_t's. */
typedef void (*moe__cast_prepare_t)(void *user, const moe__cast_unit_t *unit);
typedef void (*moe__cast_words_t)(void *user, const moe__cast_unit_t *unit,
                                  const MlirValue words[MOE__CAST_WORDS]);

typedef struct moe__cast_t {
  void *user;
  /* By the thread that loads, before the CTA's first barrier: the place to initialize mbarriers.
   * NULL: nothing. */
  void (*begin)(void *user);
  /* For all units of a tile, before the tile has been waited for: the place to load what casting
   * needs. NULL: nothing. */
  moe__cast_prepare_t prepare;
  /* For all units of a tile in columns, which is written in columns, before any is cast: the place
   * to find what units have in common. All casting threads have been here before any goes on to
   * cast, and have cast before any comes here for the next tile. NULL: nothing. */
  moe__cast_words_t find;
  bool rows_use_find; /* in rows too; else, where rows are cast first, no one waits for it alone */
  /* Casts the words of a unit and stores them by moe__cast_store. In rows they are the lane's 128
   * bytes in their order; in columns, a word for each row of the strip, which is that of the turned
   * tile where columns are turned. */
  moe__cast_words_t cast;
  /* After the last tile of a run, or the CTA's own of a run that its cluster shares: the place to
   * store what came of all its tiles. row, column: the first ones of the run, of x. All casting
   * threads are there, and none has gone on. NULL: nothing. */
  void (*finish)(void *user, MlirValue batch, MlirValue row, MlirValue column);
} moe__cast_t;

#define MOE__CAST_MAX_TENSORS 2

/* A tensor that is read, and what is written of it. */
typedef struct moe__cast_tensor_t {
  /* To be set by the kernel. */
  MlirType type;
  int q[2]; /* numbers of the results as moe__kernel_pointer counts, by direction */

  /* Set by moe__cast_tiles_parameters. */
  moe__extent_t k;
  MlirValue x_map, maps[2];
  MlirValue pointers[2]; /* to the results, where rows are in groups */
} moe__cast_tensor_t;

typedef struct moe__cast_tiles_t {
  /* To be set by the kernel. */
  moe__kernel_t *kernel;
  moe__cast_tensor_t tensors[MOE__CAST_MAX_TENSORS]; /* operands 0, 1: unlike in columns only */
  int tensor_count;
  bool writes[2]; /* by direction */
  moe__cast_schedule_t schedule;
  moe__cast_layout_t layout;
  bool pads_rows;  /* what is written in columns has n rounded up to MOE_TOKEN_MULTIPLE; rank 2 */
  bool by_group;   /* tiles begin with their group; of rank 2, of one tensor unless aligned */
  bool aligned;    /* with by_group: results in columns have groups from multiples of a tile on */
  bool last_first; /* walk the tiles backwards: what an earlier launch read last is still in L2 */

  /* Set by moe__cast_tiles_parameters. */
  moe__elements_t elements; /* of x */
  moe__fp8_t element;       /* of the results */
  int rank;
  moe__extent_t batches, n;
  moe__extent_t written_n; /* rows of what is written in columns */
  bool grouped;
  moe__extent_t groups;   /* where rows are in groups */
  MlirValue offs, status; /* where rows are in groups */

  /* Set by moe__cast_tiles_run. */
  moe__groups_t table;
  MlirValue row_end;              /* i32: where the last group ends */
  MlirValue held[MOE__CAST_HELD]; /* i32: the lane's bytes of the next lines, of turned columns */
  MlirValue warp, lane;
  MlirValue swap;      /* 1 where the lane takes the second half of a strip first, else 0 */
  MlirValue lane_word; /* byte offset of the first of its words in a strip */
  moe__tiles_t tiles;
  MlirValue first_columns; /* i32: columns of tiles of the first tensor */
} moe__cast_tiles_t;

/* Adds the extents of the tensors, and the tensor maps of them and of the results, of type
 * q_type. */
void moe__cast_tiles_parameters(moe__cast_tiles_t *tiles, MlirType q_type);

/* Says that groups, whose ends are tensor number `offs` of this type, cut the rows, and adds the
 * parameters that this takes. After moe__cast_tiles_parameters; where groups are aligned,
 * moe__cast_tiles_aligned comes before that. */
void moe__cast_tiles_groups(moe__cast_tiles_t *tiles, int offs, MlirType offs_type);
void moe__cast_tiles_aligned(moe__cast_tiles_t *tiles, int offs, MlirType offs_type);

/* Tiles of a run: 1 where there are none. */
int moe__cast_run(const moe__cast_tiles_t *tiles);

/* Builds the body of the kernel. After moe__kernel_prologue. */
void moe__cast_tiles_run(moe__cast_tiles_t *tiles, const moe__cast_t *cast);

/* The CTAs to launch. */
const moe__expression_t *moe__cast_tiles_grid(moe__cast_tiles_t *tiles);

/* Of values that each tensor has one of, that of the tensor which a unit is of; its columns (i32).
 * is_first: the unit's. */
MlirValue moe__cast_of_tensor(moe__cast_tiles_t *tiles, MlirValue is_first,
                              const MlirValue values[MOE__CAST_MAX_TENSORS]);
MlirValue moe__cast_columns(moe__cast_tiles_t *tiles, MlirValue is_first);

/* How many pieces of a row a unit has side by side in rows: 1, 2 or 4, in lanes that are
 * MOE__WARP / pieces apart. */
int moe__cast_pieces(const moe__cast_tiles_t *tiles);

/* Of the last dimension of what is read and written: strides of tensor maps are multiples of 16
 * bytes. */
#define MOE__CAST_MULTIPLE 16

/* The rows of a tile that begins with its group. */
#define MOE__CAST_GROUP_ROWS 128

/* In columns: the words of those rows of the strip that are of the group, and zeros. */
void moe__cast_words_of_group(moe__cast_tiles_t *tiles, const moe__cast_unit_t *unit,
                              const MlirValue words[MOE__CAST_WORDS],
                              MlirValue own[MOE__CAST_WORDS]);

/* Stores FP8 in shared memory, four to an i32. In rows: what became of the lane's 128 bytes, 16
 * i32 where x is bf16, else 8; part is 0. In columns: the 32 results of the lane's column number
 * `part`, in the order of the words, 8 i32. */
void moe__cast_store(moe__cast_tiles_t *tiles, const moe__cast_unit_t *unit, int part,
                     const MlirValue *packed);

/* The same in columns for some rows of the strip only, bits of the i32 `rows`, where all rows
 * have been stored before. */
void moe__cast_store_some(moe__cast_tiles_t *tiles, const moe__cast_unit_t *unit, int part,
                          const MlirValue *packed, MlirValue rows);

#endif /* MOE_KERNELS_MX_QUANTIZE_CAST_TILES_H */
