/* Groups.h - the tiles of ragged groups: a work list made on the device, from offsets that only the
 * device knows.
 *
 * Group g is rows [offs[g-1], offs[g]) of the tokens. Its rows are cut into tiles of tile_m of its
 * own; no tile holds rows of two groups, and no group is padded. At the start of the kernel one
 * warp turns the offsets into a table in shared memory; afterwards every role finds its next tile
 * by a binary search there.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_DEVICE_GROUPS_H
#define MOE_DEVICE_GROUPS_H

#include "lib/Device/Kernel.h"

/* How tiles of groups are numbered. */
typedef enum moe__groups_order_t {
  MOE__GROUPS_IN_TURN,       /* by groups as they are */
  MOE__GROUPS_LARGEST_FIRST, /* by groups in the order of their sizes */
  MOE__GROUPS_WITHOUT_TILES, /* not; but moe__groups_sort orders the groups */
} moe__groups_order_t;

/* So many groups can have their tiles numbered by size: a lane has one. */
#define MOE__MAX_GROUPS_LARGEST_FIRST 32

/* Where the table is: offsets in shared memory. */
typedef struct moe__groups_layout_t {
  int32_t max_groups;        /* its capacity; 0: there is no table */
  int32_t ends;              /* the row where each group ends */
  moe__groups_order_t tiles; /* which of the other two there are: tile_ends, order or both */
  int32_t tile_ends; /* the tiles of all groups up to each; of those up to a place in the order */
  int32_t order;     /* the groups, the largest first */
} moe__groups_layout_t;

typedef struct moe__groups_t {
  moe__kernel_t *kernel;
  moe__groups_layout_t layout;
  MlirValue count; /* i32: groups */
  int32_t tile_m, band;
  MlirValue columns; /* i32: tiles along N */
  /* Set before moe__groups_initialize: where tiles are numbered in turn, offsets are loaded 512 at
   * once, or fewer; else 32 after 32. */
  bool at_once;
  /* The same, where there are as many groups as the table has room for, and their offsets are
   * aligned to 16 bytes: four are one load, where each lane has a multiple of four. */
  bool is_full;
  /* Set before tiles are asked for: all lanes of a warp ask for the same one together, and lane
   * `lane` (i32) of them is this thread. Null: a thread asks by itself. */
  MlirValue lane;
} moe__groups_t;

/* A tile of a group. */
typedef struct moe__group_tile_t {
  MlirValue group;   /* i32 */
  MlirValue row;     /* i32: its first row */
  MlirValue row_end; /* i32: where the group ends; row_end - row may exceed tile_m */
  MlirValue column;  /* i32, in tiles */
} moe__group_tile_t;

/* Reserves the table for so many groups; with 0 groups nothing. */
moe__groups_layout_t moe__groups_reserve(moe__layout_t *layout, int32_t max_groups,
                                         moe__groups_order_t tiles);

/* columns: tiles along N. band: see Tiles.h. */
moe__groups_t moe__groups_create(moe__kernel_t *kernel, const moe__groups_layout_t *layout,
                                 MlirValue count, int32_t tile_m, MlirValue columns, int32_t band);

/* Bits of the function's status word (docs/manifest.md). */
enum {
  MOE__OFFSETS_DECREASE = 1, /* one is below the one before it; the first: negative */
  MOE__OFFSETS_BEYOND = 2,   /* one is beyond the rows */
};

/* Fills the table; the 32 lanes of one warp call it, and a CTA barrier follows. offs: i32 ends in
 * global memory; they are clamped to non-decreasing values of at most `rows`, so that bad ones
 * cannot lead outside, and what is wrong with them is set in the i32 at `status`. */
void moe__groups_initialize(moe__groups_t *groups, MlirValue offs, MlirValue rows, MlirValue lane,
                            MlirValue status);

/* The same by the whole CTA, barrier included: all of its threads call it. */
void moe__groups_initialize_by_cta(moe__groups_t *groups, MlirValue offs, MlirValue rows,
                                   MlirValue status);

/* Orders the groups by size, where tiles have no numbers. All threads of the CTA call it, after the
 * barrier; another one follows. */
void moe__groups_sort(moe__groups_t *groups);

/* The group with exactly `index` (i32) larger ones, where of equal groups an earlier one counts as
 * larger; of a table without tiles, after the barrier behind moe__groups_sort. With more than 256
 * groups it is number `index`: to order them would take longer than what an order gains. */
MlirValue moe__groups_by_size(moe__groups_t *groups, MlirValue index);

/* Number of tiles of all groups, after the barrier. */
MlirValue moe__groups_total(moe__groups_t *groups);

/* Tile number `index`, below the total. */
moe__group_tile_t moe__groups_tile(moe__groups_t *groups, MlirValue index);

/* The same where tiles are asked for in ascending order, and numbered in turn: looks from group
 * *group (i32) on, which is 0 at first and becomes the tile's, and so takes less time than the
 * search in the whole table. */
moe__group_tile_t moe__groups_tile_from(moe__groups_t *groups, MlirValue index, MlirValue *group);

/* What follows is of groups in turn, as far as it concerns tiles. */

/* Tile number `index` among those of one column, which is column 0. */
moe__group_tile_t moe__groups_row_tile(moe__groups_t *groups, MlirValue index);

/* The group of number `tile` among the tiles of one column; the number of groups behind the
 * last. */
MlirValue moe__groups_find_tile(moe__groups_t *groups, MlirValue tile);

/* How many tiles, of one column, the groups before this one have, and those up to it. */
void moe__groups_tile_range(moe__groups_t *groups, MlirValue group, MlirValue *out_start,
                            MlirValue *out_end);

/* Where a group starts and ends, after the barrier. */
void moe__groups_range(moe__groups_t *groups, MlirValue group, MlirValue *out_start,
                       MlirValue *out_end);

/* Where groups begin at multiples of MOE_GROUP_ALIGN: the row (i32) that takes the place of row
 * `row`, which is a multiple of that behind the start of group `group`. */
MlirValue moe__groups_aligned_row(moe__builder_t *b, MlirValue row, MlirValue group);

/* The group in whose room (i32) row `row` is there, after the barrier: that which begins last at or
 * before it; their count for a row behind the room of all. */
MlirValue moe__groups_find_aligned(moe__groups_t *groups, MlirValue row);

/* Where the last group ends, after the barrier: rows from there on are in no group. */
MlirValue moe__groups_end(moe__groups_t *groups);

/* The group that a row is in (i32), after the barrier; their count for a row in none. */
MlirValue moe__groups_find(moe__groups_t *groups, MlirValue row);

#endif /* MOE_DEVICE_GROUPS_H */
