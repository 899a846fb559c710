/* Groups.c - see Groups.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Device/Groups.h"

#include "lib/Device/Async.h"
#include "lib/Device/Tiles.h"
#include "lib/Device/Warp.h"

#include "moe/limits.h"

/* So many groups of a lane are loaded at once. */
#define MOST_OF_LANE 16

/* Groups that each lane of a warp has, of so many, and of how many of them offsets are loaded at
 * once: as many, or the same part of them each time. */
static int groups_of_lane(int32_t max_groups) {
  return (max_groups + MOE__WARP - 1) / MOE__WARP;
}
static int groups_at_once(int32_t max_groups) {
  int all = groups_of_lane(max_groups), times = (all + MOST_OF_LANE - 1) / MOST_OF_LANE;
  return (all + times - 1) / times;
}

static int32_t table_bytes(int32_t max_groups) {
  int each = groups_at_once(max_groups);
  return (groups_of_lane(max_groups) + each - 1) / each * each * MOE__WARP * 4;
}

moe__groups_layout_t moe__groups_reserve(moe__layout_t *layout, int32_t max_groups,
                                         moe__groups_order_t tiles) {
  moe__groups_layout_t groups = {.max_groups = max_groups};
  if (max_groups == 0)
    return groups;
  groups.tiles = tiles;
  groups.ends = moe__layout_shared(layout, table_bytes(max_groups), 16);
  if (tiles != MOE__GROUPS_WITHOUT_TILES)
    groups.tile_ends = moe__layout_shared(layout, table_bytes(max_groups), 16);
  if (tiles != MOE__GROUPS_IN_TURN)
    groups.order = moe__layout_shared(layout, table_bytes(max_groups), 16);
  return groups;
}

moe__groups_t moe__groups_create(moe__kernel_t *kernel, const moe__groups_layout_t *layout,
                                 MlirValue count, int32_t tile_m, MlirValue columns, int32_t band) {
  return (moe__groups_t){
      .kernel = kernel,
      .layout = *layout,
      .count = count,
      .tile_m = tile_m,
      .band = band,
      .columns = columns,
  };
}

static MlirValue entry(moe__groups_t *groups, int32_t table, MlirValue index) {
  moe__builder_t *b = &groups->kernel->builder;
  return moe__offset_by(b, moe__offset(b, groups->kernel->shared, moe__shl(b, index, 2)), table);
}

/* The bits for an offset and the one before it. */
static MlirValue find_faults(moe__builder_t *b, MlirValue offset, MlirValue before,
                             MlirValue rows) {
  MlirValue zero = moe__i32(b, 0);
  MlirValue decreases = moe__select(b, moe__slt(b, offset, before), MOE__OFFSETS_DECREASE, zero);
  MlirValue is_beyond = moe__select(b, moe__slt(b, rows, offset), MOE__OFFSETS_BEYOND, zero);
  return moe__or(b, decreases, is_beyond);
}

/* One atomic of the warp, and none where all is well. */
static void report_faults(moe__builder_t *b, MlirValue faults, MlirValue lane, MlirValue status) {
  MlirValue zero = moe__i32(b, 0);
  MlirValue all = moe__warp_or(b, faults);
  MOE__IF (b, moe__and(b, moe__ne(b, all, zero), moe__eq(b, lane, zero))) {
    moe__atomic_or(b, status, all, MOE__RELAXED);
  }
}

/* How many rows a group has. */
static MlirValue size_of(moe__groups_t *groups, MlirValue group) {
  MlirValue start, end;
  moe__groups_range(groups, group, &start, &end);
  return moe__sub(&groups->kernel->builder, end, start);
}

/* Of a group: the larger, the sooner its tiles come; of equal ones the first. No two groups have
 * the same key, so that each has a place of its own. Sizes beyond what fits count as equal. Behind
 * the last group 0, which is above nobody's. */
#define GROUP_BITS 6
_Static_assert(MOE__MAX_GROUPS_LARGEST_FIRST <= 1 << GROUP_BITS, "a key has the number of a group");

static MlirValue key_of(moe__groups_t *groups, MlirValue group) {
  moe__builder_t *b = &groups->kernel->builder;
  MlirValue last = moe__sub(b, groups->count, 1);
  MlirValue size = size_of(groups, moe__umin(b, group, last));
  MlirValue most = moe__i32(b, (1 << (31 - GROUP_BITS)) - 1);
  MlirValue key = moe__add(b, moe__shl(b, moe__umin(b, size, most), GROUP_BITS),
                           moe__sub(b, moe__i32(b, (1 << GROUP_BITS) - 1), group));
  return moe__select(b, moe__ult(b, group, groups->count), key, 0);
}

/* Writes the order of the groups: a lane compares its own with all of them. */
static void write_order(moe__groups_t *groups, MlirValue lane) {
  moe__builder_t *b = &groups->kernel->builder;
  MlirValue key = key_of(groups, lane), place = moe__i32(b, 0);
  MOE__FOR (b, other, 0, groups->count, 1, &place) {
    MlirValue is_before = moe__ult(b, key, moe__shuffle(b, key, other));
    place = moe__add(b, place, moe__zext(b, is_before, b->i32));
  }
  MOE__IF (b, moe__ult(b, lane, groups->count)) {
    moe__store(b, lane, entry(groups, groups->layout.order, place));
  }
}

/* Counts the tiles of the groups up to each place of the order. */
static void count_in_order(moe__groups_t *groups, MlirValue lane) {
  moe__builder_t *b = &groups->kernel->builder;
  MlirValue last = moe__sub(b, groups->count, 1);
  MlirValue group = moe__groups_by_size(groups, moe__umin(b, lane, last));
  MlirValue tiles = moe__ceil_div(b, size_of(groups, group), groups->tile_m);
  tiles = moe__select(b, moe__ult(b, lane, groups->count), tiles, 0);
  moe__store(b, moe__warp_scan(b, tiles, lane, moe__add),
             entry(groups, groups->layout.tile_ends, lane));
}

static MlirValue clamp_end(moe__builder_t *b, MlirValue offset, MlirValue last_end,
                           MlirValue rows) {
  return moe__smin(b, moe__smax(b, offset, last_end), rows);
}

#define OFFSETS_OF_VECTOR 4

/* The lane's `each` offsets, from group `first` on; behind group `last` its own again. Vectors of
 * four where no lane has one behind the last group. */
static void load_offsets(moe__groups_t *groups, MlirValue offs, MlirValue first, MlirValue last,
                         int each, MlirValue out[MOST_OF_LANE]) {
  moe__builder_t *b = &groups->kernel->builder;
  if (groups->is_full && groups->layout.max_groups % (MOE__WARP * each) == 0 &&
      each % OFFSETS_OF_VECTOR == 0) {
    MlirValue from = moe__offset(b, offs, moe__shl(b, moe__zext(b, first, b->i64), 2));
    for (int i = 0; i < each; i++) {
      if (i % OFFSETS_OF_VECTOR == 0)
        out[i] = moe__load_aligned(b, moe__offset_by(b, from, 4 * i),
                                   moe__vector_type(b, OFFSETS_OF_VECTOR, b->i32), 16);
      else
        out[i] = out[i - i % OFFSETS_OF_VECTOR];
    }
    for (int i = 0; i < each; i++)
      out[i] = moe__extract(b, out[i], i % OFFSETS_OF_VECTOR);
    return;
  }
  for (int i = 0; i < each; i++) {
    MlirValue index = moe__umin(b, moe__add(b, first, i), last);
    out[i] =
        moe__load(b, moe__offset(b, offs, moe__shl(b, moe__zext(b, index, b->i64), 2)), b->i32);
  }
}

/* The greatest of the lanes' ends up to each. Offsets without faults do not decrease: they are not
 * scanned. */
static MlirValue scan_ends(moe__builder_t *b, MlirValue end, MlirValue faults, MlirValue lane) {
  MlirValue zero = moe__i32(b, 0), distance = moe__i32(b, 1);
  MlirValue any = moe__ne(b, moe__warp_or(b, faults), zero);
  MlirValue limit = moe__select(b, any, moe__i32(b, MOE__WARP), zero);
  MOE__WHILE (b, moe__ult(b, distance, limit), &distance, &end) {
    MlirValue other = moe__shuffle(b, end, moe__smax(b, moe__sub(b, lane, distance), zero));
    end = moe__smax(b, end, other);
    distance = moe__add(b, distance, distance);
  }
  return end;
}

/* What the groups before some have: where the last one ends, the tiles of all of them (i32), and
 * its offset as it was given. */
typedef struct before_t {
  MlirValue end, tiles, offset;
} before_t;

/* The table of tiles in turn for 32 times `each` groups from group `base` on (i32), of which each
 * lane has as many, one behind the other: it waits for memory once, and for one scan. `before`
 * becomes that of the groups behind them, where there may be some. */
static void initialize_some(moe__groups_t *groups, MlirValue offs, MlirValue rows, MlirValue lane,
                            MlirValue base, int each, before_t *before, MlirValue *faults) {
  moe__builder_t *b = &groups->kernel->builder;
  MlirValue zero = moe__i32(b, 0), is_first = moe__eq(b, lane, zero);
  MlirValue first = moe__add(b, base, moe__mul(b, lane, each));
  MlirValue last = moe__sub(b, groups->count, 1);
  MlirValue offsets[MOST_OF_LANE], ends[MOST_OF_LANE], tile_ends[MOST_OF_LANE];
  load_offsets(groups, offs, first, last, each, offsets);
  MlirValue offset = moe__shuffle_up(b, offsets[each - 1], 1);
  offset = moe__select(b, is_first, before->offset, offset);
  for (int i = 0; i < each; i++) {
    *faults = moe__or(b, *faults, find_faults(b, offsets[i], i ? offsets[i - 1] : offset, rows));
    ends[i] = i ? moe__smax(b, ends[i - 1], offsets[i]) : offsets[i];
  }
  MlirValue greatest = scan_ends(b, ends[each - 1], *faults, lane);
  MlirValue start = moe__shuffle_up(b, greatest, 1);
  start = moe__select(b, is_first, before->end, clamp_end(b, start, before->end, rows));
  MlirValue tiles = zero, end = start;
  for (int i = 0; i < each; i++) {
    /* Beyond the last group its end is repeated: there are no tiles. */
    MlirValue next = clamp_end(b, ends[i], start, rows);
    moe__store(b, next, entry(groups, groups->layout.ends, moe__add(b, first, i)));
    tiles = moe__add(b, tiles, moe__ceil_div(b, moe__sub(b, next, end), groups->tile_m));
    tile_ends[i] = tiles;
    end = next;
  }
  MlirValue scanned = moe__add(b, moe__warp_scan(b, tiles, lane, moe__add), before->tiles);
  MlirValue counted = moe__sub(b, scanned, tiles);
  for (int i = 0; i < each; i++)
    moe__store(b, moe__add(b, tile_ends[i], counted),
               entry(groups, groups->layout.tile_ends, moe__add(b, first, i)));
  if (each == groups_of_lane(groups->layout.max_groups))
    return;
  MlirValue last_lane = moe__i32(b, MOE__WARP - 1);
  *before = (before_t){moe__shuffle(b, end, last_lane), moe__shuffle(b, scanned, last_lane),
                       moe__shuffle(b, offsets[each - 1], last_lane)};
}

/* The whole table of tiles in turn. */
static void initialize_at_once(moe__groups_t *groups, MlirValue offs, MlirValue rows,
                               MlirValue lane, MlirValue status) {
  moe__builder_t *b = &groups->kernel->builder;
  MlirValue zero = moe__i32(b, 0), faults = zero;
  before_t before = {zero, zero, zero};
  int each = groups_at_once(groups->layout.max_groups);
  MOE__FOR (b, base, zero, groups->count, MOE__WARP * each, &before.end, &before.tiles,
            &before.offset, &faults) {
    initialize_some(groups, offs, rows, lane, base, each, &before, &faults);
  }
  report_faults(b, faults, lane, status);
}

void moe__groups_initialize(moe__groups_t *groups, MlirValue offs, MlirValue rows, MlirValue lane,
                            MlirValue status) {
  moe__builder_t *b = &groups->kernel->builder;
  if (groups->at_once && groups->layout.tiles == MOE__GROUPS_IN_TURN) {
    initialize_at_once(groups, offs, rows, lane, status);
    return;
  }
  MlirValue zero = moe__i32(b, 0), last_lane = moe__i32(b, MOE__WARP - 1);
  MlirValue is_first = moe__eq(b, lane, zero);
  /* Carried from one 32 groups to the next: where the last one ended, how many tiles there were,
   * the last offset as it was given, and what this lane found wrong. */
  MlirValue last_end = zero, last_tile_end = zero, last_offset = zero, faults = zero;
  bool by_size = groups->layout.tiles == MOE__GROUPS_LARGEST_FIRST;
  MOE__FOR (b, base, zero, groups->count, MOE__WARP, &last_end, &last_tile_end, &last_offset,
            &faults) {
    MlirValue group = moe__add(b, base, lane);
    MlirValue index = moe__umin(b, group, moe__sub(b, groups->count, 1));
    MlirValue offset =
        moe__load(b, moe__offset(b, offs, moe__shl(b, moe__zext(b, index, b->i64), 2)), b->i32);
    MlirValue before = moe__select(b, is_first, last_offset, moe__shuffle_up(b, offset, 1));
    faults = moe__or(b, faults, find_faults(b, offset, before, rows));
    MlirValue end = moe__warp_scan(b, clamp_end(b, offset, last_end, rows), lane, moe__smax);
    MlirValue start = moe__select(b, is_first, last_end, moe__shuffle_up(b, end, 1));
    MlirValue tile_end = last_tile_end;
    if (!by_size) {
      /* Lanes beyond the last group repeat its end, and so have no tiles. */
      MlirValue tiles = moe__ceil_div(b, moe__sub(b, end, start), groups->tile_m);
      tile_end = moe__add(b, moe__warp_scan(b, tiles, lane, moe__add), last_tile_end);
    }
    moe__store(b, end, entry(groups, groups->layout.ends, group));
    if (groups->layout.tiles == MOE__GROUPS_IN_TURN)
      moe__store(b, tile_end, entry(groups, groups->layout.tile_ends, group));
    last_end = moe__shuffle(b, end, last_lane);
    if (!by_size)
      last_tile_end = moe__shuffle(b, tile_end, last_lane);
    last_offset = moe__shuffle(b, offset, last_lane);
  }
  if (by_size) {
    moe__warp_barrier(b);
    write_order(groups, lane);
    moe__warp_barrier(b);
    count_in_order(groups, lane);
  }
  report_faults(b, faults, lane, status);
}

void moe__groups_initialize_by_cta(moe__groups_t *groups, MlirValue offs, MlirValue rows,
                                   MlirValue status) {
  moe__kernel_t *kernel = groups->kernel;
  moe__builder_t *b = &kernel->builder;
  MOE__IF (b, moe__ult(b, kernel->thread, MOE__WARP)) {
    moe__groups_initialize(groups, offs, rows, kernel->thread, status);
  }
  moe__cta_barrier(b);
}

#define MAX_SORTED 256

void moe__groups_sort(moe__groups_t *groups) {
  moe__kernel_t *kernel = groups->kernel;
  moe__builder_t *b = &kernel->builder;
  MlirValue zero = moe__i32(b, 0), one = moe__i32(b, 1);
  MlirValue is_sorted = moe__ule(b, groups->count, MAX_SORTED);
  MlirValue others = moe__select(b, is_sorted, groups->count, zero);
  /* All threads go through all iterations: where threads have gone apart, ptxas keeps nothing in
   * uniform registers from then on. */
  MOE__FOR (b, base, zero, groups->count, kernel->layout.threads) {
    MlirValue number = moe__add(b, base, kernel->thread);
    MlirValue group = moe__umin(b, number, moe__sub(b, groups->count, one));
    MlirValue own = size_of(groups, group);
    /* Its place is the number of those that come before it. */
    MlirValue before = zero;
    MOE__FOR (b, other, 0, others, 1, &before) {
      MlirValue size = size_of(groups, other);
      MlirValue is_before = moe__or(b, moe__ult(b, own, size),
                                    moe__and(b, moe__eq(b, own, size), moe__ult(b, other, group)));
      before = moe__add(b, before, moe__zext(b, is_before, b->i32));
    }
    MlirValue place = moe__select(b, is_sorted, before, group);
    MOE__IF (b, moe__ult(b, number, groups->count)) {
      moe__store(b, group, entry(groups, groups->layout.order, place));
    }
  }
}

MlirValue moe__groups_by_size(moe__groups_t *groups, MlirValue index) {
  moe__builder_t *b = &groups->kernel->builder;
  return moe__load(b, entry(groups, groups->layout.order, index), b->i32);
}

MlirValue moe__groups_total(moe__groups_t *groups) {
  moe__builder_t *b = &groups->kernel->builder;
  MlirValue last = moe__sub(b, groups->count, 1);
  return moe__mul(b, moe__load(b, entry(groups, groups->layout.tile_ends, last), b->i32),
                  groups->columns);
}

/* The value of `table` before `index`: 0 for the first group. */
static MlirValue entry_before(moe__groups_t *groups, int32_t table, MlirValue index) {
  moe__builder_t *b = &groups->kernel->builder;
  MlirValue is_first = moe__eq(b, index, 0);
  MlirValue previous = moe__select(b, is_first, index, moe__sub(b, index, 1));
  return moe__select(b, is_first, 0, moe__load(b, entry(groups, table, previous), b->i32));
}

/* What a group is found by: a value that does not decrease from group to group. entry: that of the
 * group in the table. */
typedef MlirValue (*key_t)(moe__builder_t *b, MlirValue entry, MlirValue group, MlirValue unit);

/* The first group whose key is above `value`; groups that have nothing are passed over. Their count
 * where there is none. */
static MlirValue search(moe__groups_t *groups, int32_t table, key_t key, MlirValue unit,
                        MlirValue value) {
  moe__builder_t *b = &groups->kernel->builder;
  MlirValue low = moe__i32(b, 0);
  for (int step = 1 << 30; step; step >>= 1) {
    if (step >= 2 * groups->layout.max_groups)
      continue;
    MlirValue probe = moe__add(b, low, step - 1);
    MlirValue last = moe__sub(b, groups->count, 1);
    MlirValue inside = moe__ult(b, probe, groups->count);
    MlirValue found = moe__load(b, entry(groups, table, moe__umin(b, probe, last)), b->i32);
    MlirValue behind = moe__ule(b, key(b, found, probe, unit), value);
    low = moe__select(b, moe__and(b, inside, behind), moe__add(b, low, step), low);
  }
  return low;
}

/* The same by a warp, whose lanes have as many groups each, of a value below the key of the last
 * one: two loads, one behind the other. */
static MlirValue search_by_warp(moe__groups_t *groups, int32_t table, MlirValue unit,
                                MlirValue value) {
  moe__builder_t *b = &groups->kernel->builder;
  int each = groups_of_lane(groups->layout.max_groups);
  MlirValue last = moe__sub(b, groups->count, 1), low = moe__i32(b, 0);
  for (int step = each; step; step = step > 1 ? 1 : 0) {
    MlirValue probe = moe__add(b, low, moe__add(b, moe__mul(b, groups->lane, step), step - 1));
    MlirValue found = moe__load(b, entry(groups, table, moe__umin(b, probe, last)), b->i32);
    MlirValue behind = moe__ule(b, moe__mul(b, found, unit), value);
    if (step < each)
      behind = moe__and(b, behind, moe__ult(b, groups->lane, each));
    low = moe__add(b, low, moe__mul(b, moe__warp_count(b, behind), step));
  }
  return low;
}

static MlirValue plain_key(moe__builder_t *b, MlirValue entry, MlirValue group, MlirValue unit) {
  (void)group;
  return unit.ptr ? moe__mul(b, entry, unit) : entry;
}

/* Where the next group would begin, in multiples of MOE_GROUP_ALIGN. */
static MlirValue aligned_key(moe__builder_t *b, MlirValue entry, MlirValue group, MlirValue unit) {
  (void)unit;
  return moe__add(b, moe__add(b, moe__udiv(b, entry, MOE_GROUP_ALIGN), group), 1);
}

MlirValue moe__groups_find_aligned(moe__groups_t *groups, MlirValue row) {
  moe__builder_t *b = &groups->kernel->builder;
  return search(groups, groups->layout.ends, aligned_key, (MlirValue){NULL},
                moe__udiv(b, row, MOE_GROUP_ALIGN));
}

MlirValue moe__groups_aligned_row(moe__builder_t *b, MlirValue row, MlirValue group) {
  /* The group begins at MOE_GROUP_ALIGN * (start / MOE_GROUP_ALIGN + group). */
  return moe__add(b, moe__and(b, row, -MOE_GROUP_ALIGN), moe__mul(b, group, MOE_GROUP_ALIGN));
}

MlirValue moe__groups_end(moe__groups_t *groups) {
  moe__builder_t *b = &groups->kernel->builder;
  MlirValue last = moe__sub(b, groups->count, 1);
  return moe__load(b, entry(groups, groups->layout.ends, last), b->i32);
}

MlirValue moe__groups_find(moe__groups_t *groups, MlirValue row) {
  return search(groups, groups->layout.ends, plain_key, (MlirValue){NULL}, row);
}

MlirValue moe__groups_find_tile(moe__groups_t *groups, MlirValue tile) {
  return search(groups, groups->layout.tile_ends, plain_key, (MlirValue){NULL}, tile);
}

/* Tile number `index` of the group whose place among the tiles is `place`. */
static moe__group_tile_t tile_in(moe__groups_t *groups, MlirValue place, MlirValue index) {
  moe__builder_t *b = &groups->kernel->builder;
  bool by_size = groups->layout.tiles == MOE__GROUPS_LARGEST_FIRST;
  moe__group_tile_t tile = {.group = by_size ? moe__groups_by_size(groups, place) : place};
  MlirValue first_tile = entry_before(groups, groups->layout.tile_ends, place);
  MlirValue tile_end = moe__load(b, entry(groups, groups->layout.tile_ends, place), b->i32);
  moe__tiles_t in_group = moe__tiles_create(b, moe__i32(b, 1), moe__sub(b, tile_end, first_tile),
                                            groups->columns, groups->band);
  moe__tile_t at = moe__tile_in_batch(b, &in_group,
                                      moe__sub(b, index, moe__mul(b, first_tile, groups->columns)));
  tile.row = moe__add(b, entry_before(groups, groups->layout.ends, tile.group),
                      moe__mul(b, at.row, groups->tile_m));
  tile.row_end = moe__load(b, entry(groups, groups->layout.ends, tile.group), b->i32);
  tile.column = at.column;
  return tile;
}

moe__group_tile_t moe__groups_tile(moe__groups_t *groups, MlirValue index) {
  MlirValue place =
      mlirValueIsNull(groups->lane)
          ? search(groups, groups->layout.tile_ends, plain_key, groups->columns, index)
          : search_by_warp(groups, groups->layout.tile_ends, groups->columns, index);
  return tile_in(groups, place, index);
}

moe__group_tile_t moe__groups_row_tile(moe__groups_t *groups, MlirValue index) {
  moe__builder_t *b = &groups->kernel->builder;
  moe__group_tile_t tile = {.group = moe__groups_find_tile(groups, index),
                            .column = moe__i32(b, 0)};
  MlirValue start, first_tile, tile_end;
  moe__groups_range(groups, tile.group, &start, &tile.row_end);
  moe__groups_tile_range(groups, tile.group, &first_tile, &tile_end);
  tile.row = moe__add(b, start, moe__mul(b, moe__sub(b, index, first_tile), groups->tile_m));
  return tile;
}

/* Whether tile number `index` lies behind those of the group and the ones before it. */
static MlirValue is_behind(moe__groups_t *groups, MlirValue index, MlirValue group) {
  moe__builder_t *b = &groups->kernel->builder;
  MlirValue tile_end = moe__load(b, entry(groups, groups->layout.tile_ends, group), b->i32);
  return moe__ule(b, moe__mul(b, tile_end, groups->columns), index);
}

moe__group_tile_t moe__groups_tile_from(moe__groups_t *groups, MlirValue index, MlirValue *group) {
  moe__builder_t *b = &groups->kernel->builder;
  MOE__WHILE (b, is_behind(groups, index, *group), group) {
    *group = moe__add(b, *group, 1);
  }
  return tile_in(groups, *group, index);
}

void moe__groups_range(moe__groups_t *groups, MlirValue group, MlirValue *out_start,
                       MlirValue *out_end) {
  *out_start = entry_before(groups, groups->layout.ends, group);
  *out_end = moe__load(&groups->kernel->builder, entry(groups, groups->layout.ends, group),
                       groups->kernel->builder.i32);
}

void moe__groups_tile_range(moe__groups_t *groups, MlirValue group, MlirValue *out_start,
                            MlirValue *out_end) {
  *out_start = entry_before(groups, groups->layout.tile_ends, group);
  *out_end = moe__load(&groups->kernel->builder, entry(groups, groups->layout.tile_ends, group),
                       groups->kernel->builder.i32);
}
