/* Groups.c - see Groups.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernel/Groups.h"

#include "lib/Kernel/Tiles.h"
#include "lib/Kernel/Warp.h"

static int32_t table_bytes(int32_t max_groups) {
  return (max_groups + MOE__WARP - 1) / MOE__WARP * MOE__WARP * 4;
}

moe__groups_t moe__groups_create(moe__kernel_t *kernel, int32_t max_groups, MlirValue count,
                                 int32_t tile_m, MlirValue columns, int32_t band) {
  return (moe__groups_t){
      .kernel = kernel,
      .max_groups = max_groups,
      .count = count,
      .ends = moe__kernel_shared(kernel, table_bytes(max_groups), 16),
      .tile_ends = moe__kernel_shared(kernel, table_bytes(max_groups), 16),
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
  MlirValue decreases =
      moe__select(b, moe__slt(b, offset, before), moe__i32(b, MOE__OFFSETS_DECREASE), zero);
  MlirValue is_beyond =
      moe__select(b, moe__slt(b, rows, offset), moe__i32(b, MOE__OFFSETS_BEYOND), zero);
  return moe__or(b, decreases, is_beyond);
}

/* One atomic of the warp, and none where all is well. */
static void report_faults(moe__builder_t *b, MlirValue faults, MlirValue lane, MlirValue status) {
  MlirValue zero = moe__i32(b, 0);
  MlirValue all = moe__warp_or(b, faults);
  moe__if_t report =
      moe__if_begin(b, moe__and(b, moe__ne(b, all, zero), moe__eq(b, lane, zero)), false);
  moe__atomic_or(b, status, all, MOE__RELAXED);
  moe__if_end(b, &report);
}

void moe__groups_initialize(moe__groups_t *groups, MlirValue offs, MlirValue rows, MlirValue lane,
                            MlirValue status) {
  moe__builder_t *b = &groups->kernel->builder;
  MlirValue zero = moe__i32(b, 0), last_lane = moe__i32(b, MOE__WARP - 1);
  MlirValue is_first = moe__eq(b, lane, zero);
  /* Carried from one 32 groups to the next: where the last one ended, how many tiles there were, the
   * last offset as it was given, and what this lane found wrong. */
  enum { END, TILES, OFFSET, FAULTS, CARRIED };
  moe__for_t loop = moe__for_begin(b, zero, groups->count, moe__i32(b, MOE__WARP), CARRIED,
                                   (MlirValue[]){zero, zero, zero, zero});
  MlirValue group = moe__add(b, loop.index, lane);
  MlirValue index = moe__umin(b, group, moe__sub(b, groups->count, moe__i32(b, 1)));
  MlirValue offset =
      moe__load(b, moe__offset(b, offs, moe__shl(b, moe__zext(b, index, b->i64), 2)), b->i32);
  MlirValue before = moe__select(b, is_first, loop.carried[OFFSET], moe__shuffle_up(b, offset, 1));
  MlirValue faults = moe__or(b, loop.carried[FAULTS], find_faults(b, offset, before, rows));
  MlirValue end = moe__smin(b, moe__smax(b, offset, loop.carried[END]), rows);
  end = moe__warp_scan(b, end, lane, moe__smax);
  MlirValue start = moe__shuffle_up(b, end, 1);
  start = moe__select(b, is_first, loop.carried[END], start);
  MlirValue tiles = moe__ceil_div(b, moe__sub(b, end, start), groups->tile_m);
  /* Lanes beyond the last group repeat its end, and so have no tiles. */
  MlirValue tile_end = moe__add(b, moe__warp_scan(b, tiles, lane, moe__add), loop.carried[TILES]);
  moe__store(b, end, entry(groups, groups->ends, group));
  moe__store(b, tile_end, entry(groups, groups->tile_ends, group));
  moe__for_end(b, &loop,
               (MlirValue[]){moe__shuffle(b, end, last_lane), moe__shuffle(b, tile_end, last_lane),
                             moe__shuffle(b, offset, last_lane), faults});
  report_faults(b, loop.carried[FAULTS], lane, status);
}

#define MAX_SORTED 256

/* How many rows a group has. */
static MlirValue size_of(moe__groups_t *groups, MlirValue group) {
  MlirValue start, end;
  moe__groups_range(groups, group, &start, &end);
  return moe__sub(&groups->kernel->builder, end, start);
}

void moe__groups_sort(moe__groups_t *groups) {
  moe__kernel_t *kernel = groups->kernel;
  moe__builder_t *b = &kernel->builder;
  MlirValue zero = moe__i32(b, 0), one = moe__i32(b, 1);
  groups->order = moe__kernel_shared(kernel, table_bytes(groups->max_groups), 16);
  MlirValue is_sorted = moe__ule(b, groups->count, moe__i32(b, MAX_SORTED));
  MlirValue others = moe__select(b, is_sorted, groups->count, zero);
  /* All threads go through all iterations: where threads have gone apart, ptxas keeps nothing in
   * uniform registers from then on. */
  moe__for_t each = moe__for_begin(b, zero, groups->count, moe__i32(b, kernel->threads), 0, NULL);
  MlirValue number = moe__add(b, each.index, kernel->thread);
  MlirValue group = moe__umin(b, number, moe__sub(b, groups->count, one));
  MlirValue own = size_of(groups, group);
  /* Its place is the number of those that come before it. */
  moe__for_t other = moe__for_begin(b, zero, others, one, 1, &zero);
  MlirValue size = size_of(groups, other.index);
  MlirValue is_before =
      moe__or(b, moe__ult(b, own, size),
              moe__and(b, moe__eq(b, own, size), moe__ult(b, other.index, group)));
  MlirValue count = moe__add(b, other.carried[0], moe__zext(b, is_before, b->i32));
  moe__for_end(b, &other, &count);
  MlirValue place = moe__select(b, is_sorted, other.carried[0], group);
  moe__if_t has_group = moe__if_begin(b, moe__ult(b, number, groups->count), false);
  moe__store(b, group, entry(groups, groups->order, place));
  moe__if_end(b, &has_group);
  moe__for_end(b, &each, NULL);
}

MlirValue moe__groups_by_size(moe__groups_t *groups, MlirValue index) {
  moe__builder_t *b = &groups->kernel->builder;
  return moe__load(b, entry(groups, groups->order, index), b->i32);
}

MlirValue moe__groups_total(moe__groups_t *groups) {
  moe__builder_t *b = &groups->kernel->builder;
  MlirValue last = moe__sub(b, groups->count, moe__i32(b, 1));
  return moe__mul(b, moe__load(b, entry(groups, groups->tile_ends, last), b->i32), groups->columns);
}

/* The value of `table` before `index`: 0 for the first group. */
static MlirValue entry_before(moe__groups_t *groups, int32_t table, MlirValue index) {
  moe__builder_t *b = &groups->kernel->builder;
  MlirValue is_first = moe__eq(b, index, moe__i32(b, 0));
  MlirValue previous = moe__select(b, is_first, index, moe__sub(b, index, moe__i32(b, 1)));
  return moe__select(b, is_first, moe__i32(b, 0),
                     moe__load(b, entry(groups, table, previous), b->i32));
}

/* The first group whose entry in `table`, times `unit`, is above `value`; groups that have nothing
 * are passed over. Their count where there is none. unit: null for 1. */
static MlirValue search(moe__groups_t *groups, int32_t table, MlirValue unit, MlirValue value) {
  moe__builder_t *b = &groups->kernel->builder;
  MlirValue low = moe__i32(b, 0);
  for (int step = 1 << 30; step; step >>= 1) {
    if (step >= 2 * groups->max_groups)
      continue;
    MlirValue probe = moe__add(b, low, moe__i32(b, step - 1));
    MlirValue last = moe__sub(b, groups->count, moe__i32(b, 1));
    MlirValue inside = moe__ult(b, probe, groups->count);
    MlirValue found = moe__load(b, entry(groups, table, moe__umin(b, probe, last)), b->i32);
    MlirValue behind = moe__ule(b, unit.ptr ? moe__mul(b, found, unit) : found, value);
    low = moe__select(b, moe__and(b, inside, behind), moe__add(b, low, moe__i32(b, step)), low);
  }
  return low;
}

MlirValue moe__groups_end(moe__groups_t *groups) {
  moe__builder_t *b = &groups->kernel->builder;
  MlirValue last = moe__sub(b, groups->count, moe__i32(b, 1));
  return moe__load(b, entry(groups, groups->ends, last), b->i32);
}

MlirValue moe__groups_find(moe__groups_t *groups, MlirValue row) {
  return search(groups, groups->ends, (MlirValue){NULL}, row);
}

MlirValue moe__groups_find_tile(moe__groups_t *groups, MlirValue tile) {
  return search(groups, groups->tile_ends, (MlirValue){NULL}, tile);
}

moe__group_tile_t moe__groups_tile(moe__groups_t *groups, MlirValue index) {
  moe__builder_t *b = &groups->kernel->builder;
  MlirValue low = search(groups, groups->tile_ends, groups->columns, index);
  moe__group_tile_t tile = {.group = low};
  MlirValue first_tile = entry_before(groups, groups->tile_ends, low);
  MlirValue tile_end = moe__load(b, entry(groups, groups->tile_ends, low), b->i32);
  moe__tiles_t in_group = moe__tiles_create(b, moe__i32(b, 1), moe__sub(b, tile_end, first_tile),
                                            groups->columns, groups->band);
  moe__tile_t at = moe__tile_in_batch(b, &in_group,
                                      moe__sub(b, index, moe__mul(b, first_tile, groups->columns)));
  tile.row = moe__add(b, entry_before(groups, groups->ends, low),
                      moe__mul(b, at.row, moe__i32(b, groups->tile_m)));
  tile.row_end = moe__load(b, entry(groups, groups->ends, low), b->i32);
  tile.column = at.column;
  return tile;
}

void moe__groups_range(moe__groups_t *groups, MlirValue group, MlirValue *out_start,
                       MlirValue *out_end) {
  *out_start = entry_before(groups, groups->ends, group);
  *out_end = moe__load(&groups->kernel->builder, entry(groups, groups->ends, group),
                       groups->kernel->builder.i32);
}

void moe__groups_tile_range(moe__groups_t *groups, MlirValue group, MlirValue *out_start,
                            MlirValue *out_end) {
  *out_start = entry_before(groups, groups->tile_ends, group);
  *out_end = moe__load(&groups->kernel->builder, entry(groups, groups->tile_ends, group),
                       groups->kernel->builder.i32);
}
