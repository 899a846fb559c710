/* Tiles.c - which tiles the kernel of scaled_mm has, what each sums over, and how warps tell
 * each other: see ScaledMm.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/scaled_grouped_mm/ScaledMm.h"

#include "lib/Device/Warp.h"
#include "lib/Kernels/scaled_grouped_mm/Blocks.h"
#include "lib/Kernels/scaled_grouped_mm/Mx.h"

/* The first token of a group is rounded down to a 32-byte sector of L2, so that the TMA fetches no
 * sector twice. The TMA itself would take multiples of 16. */
#define TOKEN_ALIGNMENT 32
/* Or to a line of L2, where steps in front of the group are skipped: the TMA takes about twice as
 * long for rows that cut two lines. */
#define LINE_ALIGNMENT 128

/* Forward, tiles that do not all take the same time: with promoted sums a warpgroup passes over one
 * of whose rows it has none, and where operands are swapped one takes as long as its group is
 * large. Not with scales of MX blocks, where the warps that write factors look for tiles
 * themselves. */
static bool tiles_differ(const moe__scaled_mm_t *s) {
  return s->which == MOE__FORWARD && (s->promoted || s->schedule.swap_operands) &&
         !moe__mm_has_mx_scales(s);
}

/* Of operands of 16 bits a gradient's tiles are taken in turn: CTAs that share operands stay in
 * step, so that L2 reads once for several. Groups are sorted, and no CTA works longer than another
 * by more than a tile. Wide tiles read less, and gain more by the counter. */
bool moe__mm_counts_tiles(const moe__scaled_mm_t *s) {
  bool is_gradient =
      s->which == MOE__GRADIENT && (mlirTypeIsNull(s->half) || moe__mm_fits_columns(s));
  return s->schedule.cluster == 1 && (is_gradient || tiles_differ(s));
}

bool moe__mm_counts_late(const moe__scaled_mm_t *s) {
  return moe__mm_counts_tiles(s) && s->which == MOE__FORWARD;
}

bool moe__mm_is_in_step(const moe__scaled_mm_t *s) {
  return s->schedule.in_step && s->schedule.pingpong && s->schedule.cluster == 1 &&
         !moe__mm_counts_tiles(s);
}

bool moe__mm_has_counters(const moe__scaled_mm_t *s) {
  return moe__mm_counts_tiles(s) || moe__mm_is_in_step(s) || s->makes_operands;
}

/* With tiles of half the work a search in the whole table would take the loader longer than what
 * has been loaded lasts. */
bool moe__mm_looks_from(const moe__scaled_mm_t *s) {
  return s->which == MOE__FORWARD && s->schedule.pingpong;
}

/* Those that each expert has, where they do not depend on the groups. */
static moe__tiles_t equal_tiles(moe__scaled_mm_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  return moe__tiles_create(
      b, s->experts.value, moe__ceil_div(b, s->rows.value, s->operands[MOE__MM_QA].rows),
      moe__ceil_div(b, s->columns.value, s->operands[MOE__MM_QB].rows), s->schedule.band);
}

MlirValue moe__mm_tile_count(moe__scaled_mm_t *s) {
  return s->which == MOE__FORWARD ? moe__groups_total(&s->groups) : equal_tiles(s).total;
}

/* Tiles are taken in turn; but those of the FP8 gradient, which are as long as their group, by a
 * counter: whoever is done takes the next one. The longest come first, so that all end at about
 * the same time. So are those forward that differ. Only the thread that loads gets the number: the
 * counter takes its time, and no other one waits here. */
MlirValue moe__mm_next_tile(moe__scaled_mm_t *s, MlirValue index) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue step = moe__tiles_step(&s->kernel), zero = moe__i32(b, 0), one = moe__i32(b, 1);
  if (!moe__mm_counts_tiles(s))
    return moe__add(b, index, step);
  MlirValue count = zero;
  MOE__FOR (b, once, moe__select(b, s->loads, zero, one), 1, 1, &count) {
    count = moe__atomic_add(b, s->counters, one, MOE__RELAXED);
  }
  return moe__add(b, count, step);
}

/* Counts what is done; the last thread leaves all counters zero. */
void moe__mm_finish_counting(moe__scaled_mm_t *s, int share) {
  moe__builder_t *b = &s->kernel.builder;
  if (!moe__mm_has_counters(s))
    return;
  MlirValue zero = moe__i32(b, 0), own = moe__i32(b, share);
  MlirValue done = moe__offset_by(b, s->counters, 4);
  MlirValue before = moe__atomic_add(b, done, own, MOE__ACQUIRE_RELEASE);
  MlirValue all = moe__mul(b, s->kernel.cta_count, moe__mm_shares(s));
  MlirValue is_last = moe__eq(b, moe__add(b, before, own), all);
  MOE__IF (b, is_last) {
    moe__atomic_exchange(b, s->counters, zero, MOE__RELAXED);
    moe__atomic_exchange(b, done, zero, MOE__RELAXED);
    if (s->makes_operands)
      moe__mm_forget_made(s);
  }
}

/* So often a CTA asks how many others have begun: about 0.2 ms. Where they are not all resident it
 * asks no more behind that. */
#define PATIENCE 256

MlirValue moe__mm_patience(moe__scaled_mm_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  return moe__select(b, s->loads, moe__i32(b, PATIENCE), 0);
}

/* How many tiles must be begun before that of this number is loaded: none, or all of its turn. */
static MlirValue begun_before(moe__scaled_mm_t *s, MlirValue index, MlirValue total) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue step = moe__tiles_step(&s->kernel);
  MlirValue before = moe__sub(b, index, moe__tiles_first(&s->kernel));
  MlirValue all = moe__umin(b, moe__add(b, before, step), total);
  MlirValue turn = moe__udiv(b, before, step);
  MlirValue waits = moe__eq(b, moe__urem(b, turn, s->schedule.in_step), 0);
  return moe__select(b, waits, all, 0);
}

/* The counter has the tiles that are begun, of all turns. It is read by adding a 0 that LLVM does
 * not know: of one that it knows it makes another operation, and atomics of two operations need an
 * order. */
void moe__mm_begin_in_step(moe__scaled_mm_t *s, MlirValue index, MlirValue total,
                           MlirValue *patience) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue zero = moe__i32(b, 0), one = moe__i32(b, 1), left = *patience;
  MlirValue all = begun_before(s, index, total);
  MlirValue begun = all, nothing = moe__fresh(b, zero);
  MOE__FOR (b, once, moe__select(b, s->loads, zero, one), 1, 1, &begun) {
    begun = moe__add(b, moe__atomic_add(b, s->counters, one, MOE__RELAXED), one);
  }
  MOE__WHILE (b, moe__and(b, moe__ult(b, begun, all), moe__ne(b, left, 0)), &begun, &left) {
    begun = moe__atomic_add(b, s->counters, nothing, MOE__RELAXED);
    left = moe__sub(b, left, one);
  }
  *patience = moe__select(b, moe__eq(b, left, 0), zero, *patience);
}

/* Where each expert has the same tiles, one is that of a group of `rows` rows of out, seen as a
 * matrix. */
static moe__group_tile_t tile_at(moe__scaled_mm_t *s, MlirValue index, MlirValue *group_from) {
  moe__builder_t *b = &s->kernel.builder;
  if (moe__mm_looks_from(s))
    return moe__groups_tile_from(&s->groups, index, group_from);
  if (s->which == MOE__FORWARD)
    return moe__groups_tile(&s->groups, index);
  moe__tiles_t tiles = equal_tiles(s);
  moe__tile_t at = moe__tile_at(b, &tiles, index);
  MlirValue group =
      s->which == MOE__GRADIENT ? moe__groups_by_size(&s->groups, at.batch) : at.batch;
  MlirValue first = moe__mul(b, group, s->rows.value);
  MlirValue row = moe__mul(b, at.row, s->operands[MOE__MM_QA].rows);
  return (moe__group_tile_t){.group = group,
                             .row = moe__add(b, first, row),
                             .row_end = moe__add(b, first, s->rows.value),
                             .column = at.column};
}

/* Where the operands have an aligned group: one more block of 128 tokens for each group before it,
 * so that no two of them share one. */
static void place_group(moe__scaled_mm_t *s, moe__mm_work_t *work) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue tokens = moe__sub(b, work->end, work->start);
  work->start = moe__groups_aligned_row(b, work->start, work->tile.group);
  work->end = moe__add(b, work->start, tokens);
}

moe__mm_work_t moe__mm_work_at(moe__scaled_mm_t *s, MlirValue index, MlirValue *group_from) {
  moe__builder_t *b = &s->kernel.builder;
  moe__mm_work_t work = {.tile = tile_at(s, index, group_from)};
  if (s->which == MOE__GRADIENT)
    moe__groups_range(&s->groups, work.tile.group, &work.start, &work.end);
  if (s->aligned)
    place_group(s, &work);
  if (s->schedule.beside) {
    MlirValue first = moe__mul(b, work.tile.column, s->schedule.cluster);
    work.tile.column = moe__add(b, first, s->kernel.cluster_rank);
  } else if (s->schedule.cluster > 1) {
    MlirValue above = moe__mul(b, s->kernel.cluster_rank, MOE__MM_TILE_ROWS);
    work.tile.row = moe__add(b, work.tile.row, above);
  }
  return work;
}

static bool has_blocks_of_tokens(const moe__scaled_mm_t *s) {
  return moe__mm_has_token_blocks(s) || moe__mm_has_mx_tokens(s);
}

MlirValue moe__mm_pieces(moe__scaled_mm_t *s, const moe__group_tile_t *tile) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue tokens = moe__sub(b, tile->row_end, tile->row);
  MlirValue most = moe__i32(b, s->schedule.pieces);
  return moe__umin(b, moe__ceil_div(b, tokens, s->side[1]->box), most);
}

/* The same as moe__mm_fit for tiles that have `pieces` pieces, at least `least` of them. */
static void fit(moe__scaled_mm_t *s, MlirValue pieces, int least, void (*body)(void *user),
                void *user) {
  moe__builder_t *b = &s->kernel.builder;
  int all = s->fragment_n, most = s->schedule.pieces;
  if (least == most) {
    body(user);
    return;
  }
  MOE__IF (b, moe__ule(b, pieces, least)) {
    s->fragment_n = all / most * least;
    body(user);
    s->fragment_n = all;
  }
  MOE__ELSE (b) {
    fit(s, pieces, least + 1, body, user);
  }
}

void moe__mm_fit(moe__scaled_mm_t *s, const moe__group_tile_t *tile, void (*body)(void *user),
                 void *user) {
  MlirValue pieces = {NULL};
  if (s->schedule.pieces > 1)
    pieces = moe__warp_uniform(&s->kernel.builder, moe__mm_pieces(s, tile));
  fit(s, pieces, 1, body, user);
}

bool moe__mm_skips_steps(const moe__scaled_mm_t *s) {
  return s->which == MOE__GRADIENT && !s->aligned && mlirTypeIsNull(s->half) &&
         (s->schedule.pingpong || moe__mm_stores_behind(s));
}

/* The steps of so many tokens. An empty group has one, whose tokens are zero: its gradient is
 * too. */
static MlirValue steps_of(moe__scaled_mm_t *s, MlirValue tokens) {
  moe__builder_t *b = &s->kernel.builder;
  return moe__smax(b, moe__ceil_div(b, tokens, moe__mm_depth(s, MOE__MM_STEP)), moe__i32(b, 1));
}

/* Of so many in `k_tiles` k-tiles, those that are left for the last one. */
static MlirValue last_steps(moe__builder_t *b, MlirValue steps, MlirValue k_tiles) {
  MlirValue before = moe__mul(b, moe__sub(b, k_tiles, moe__i32(b, 1)), MOE__MM_K_TILE_STEPS);
  return moe__sub(b, steps, before);
}

moe__mm_reduction_t moe__mm_reduction_of(moe__scaled_mm_t *s, const moe__mm_work_t *work) {
  moe__builder_t *b = &s->kernel.builder;
  moe__mm_reduction_t r = {.first = moe__i32(b, 0), .start = work->start, .end = work->end};
  int tile_k = moe__mm_depth(s, MOE__MM_TILE_K);
  bool halves = !mlirTypeIsNull(s->half);
  if (s->which != MOE__GRADIENT) {
    r.k_tiles = moe__ceil_div(b, s->depth.value, tile_k);
    return r;
  }
  if (s->aligned) { /* one without tokens has a stage of zeros, which the TMA reads past the end */
    MlirValue is_empty = moe__eq(b, r.start, r.end);
    r.first = moe__select(b, is_empty, s->depth.value, r.start);
    r.k_tiles = moe__ceil_div(b, moe__sub(b, r.end, r.start), tile_k);
    r.k_tiles = moe__smax(b, r.k_tiles, moe__i32(b, 1));
    if (has_blocks_of_tokens(s) || halves)
      return r;
    r.last_steps = last_steps(b, steps_of(s, moe__sub(b, r.end, r.start)), r.k_tiles);
    r.skipped = moe__i32(b, 0);
    return r;
  }
  if (has_blocks_of_tokens(s)) { /* a group without tokens has a stage, which is not read */
    r.first = moe__and(b, r.start, -TOKEN_ALIGNMENT);
    MlirValue blocks = moe__ceil_div(b, moe__sub(b, r.end, r.start), MOE__MM_TILE_K);
    r.k_tiles = moe__smax(b, blocks, moe__i32(b, 1));
    return r;
  }
  int alignment = moe__mm_skips_steps(s) ? LINE_ALIGNMENT : TOKEN_ALIGNMENT;
  /* Tokens of 16 bits do not lie side by side: the TMA takes them from any one on. */
  r.first = halves ? r.start : moe__and(b, r.start, -alignment);
  MlirValue steps = steps_of(s, moe__sub(b, r.end, r.first));
  r.k_tiles = moe__ceil_div(b, steps, MOE__MM_K_TILE_STEPS);
  r.last_steps = last_steps(b, steps, r.k_tiles);
  r.skipped = moe__i32(b, 0);
  if (moe__mm_skips_steps(s)) {
    MlirValue in_front = moe__udiv(b, moe__sub(b, r.start, r.first), MOE__MM_STEP);
    r.skipped = moe__umin(b, in_front, moe__sub(b, steps, 1));
  }
  return r;
}

MlirValue moe__mm_k_tile_at(moe__scaled_mm_t *s, const moe__mm_reduction_t *reduction,
                            MlirValue index) {
  moe__builder_t *b = &s->kernel.builder;
  if (reduction->last_steps.ptr) { /* the last one first */
    MlirValue is_first = moe__eq(b, index, 0);
    MlirValue number = moe__select(b, is_first, reduction->k_tiles, index);
    index = moe__sub(b, number, 1);
  }
  return moe__add(b, reduction->first, moe__mul(b, index, moe__mm_depth(s, MOE__MM_TILE_K)));
}

/* ---- What the loader tells the others of a tile ---- */

/* It writes where a tile is into one of a ring of slots, before it announces the tile's first
 * stage: who has waited for that stage can read it, and looks for no tile itself. One
 * slot more than stages: when the loader comes round, that release has been seen. But racecheck of
 * compute-sanitizer does not see an arrival for all lanes behind a barrier of the warp. So:
 * - In gradients one lane of a warp reads, that which releases stages, and hands on what it has
 *   read.
 * - With scales of MX blocks all lanes release stages.
 * - Where three warpgroups beside warps that clear have no registers for that, and forward, where
 *   a tile is looked at more than once and handing on costs 1 %, all lanes arrive at a barrier of
 *   the slot, which the loader waits for before it writes the slot again. */
#define SLOT_BYTES 32
#define PINGPONG_SLOT_BYTES 48

/* Where each warpgroup has tiles of its own there are two ends. */
static int slots(const moe__mm_schedule_t *schedule) {
  return schedule->stages + (schedule->pingpong ? MOE__MM_WARPGROUPS : 1);
}

static int slot_bytes(const moe__mm_schedule_t *schedule) {
  return schedule->pingpong ? PINGPONG_SLOT_BYTES : SLOT_BYTES;
}

void moe__mm_slots_reserve(moe__mm_layout_t *layout, const moe__mm_schedule_t *schedule,
                           MlirOperation op) {
  layout->slots = moe__layout_shared(&layout->cta, slots(schedule) * slot_bytes(schedule), 16);
  if (schedule->pingpong)
    layout->slots_full = moe__layout_shared(&layout->cta, slots(schedule) * 8, 8);
  bool mx = moe__has_mx_scales(op), is_gradient = moe__mm_case(op) == MOE__GRADIENT;
  bool has_room = moe__mm_warpgroups(schedule) == MOE__MM_WARPGROUPS || moe__group_align(op) != 0;
  layout->one_lane_reads = is_gradient && !mx && has_room;
  layout->all_lanes_arrive = !layout->one_lane_reads && !mx;
  if (layout->all_lanes_arrive)
    layout->slots_read = moe__layout_shared(&layout->cta, slots(schedule) * 8, 8);
}

/* A slot's barrier, of those at this offset. */
static MlirValue slot_barrier(moe__scaled_mm_t *s, int32_t barriers, MlirValue slot) {
  moe__builder_t *b = &s->kernel.builder;
  return moe__offset_by(b, moe__offset(b, s->kernel.shared, moe__shl(b, slot, 3)), barriers);
}

void moe__mm_slots_initialize(moe__scaled_mm_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  bool pingpong = s->schedule.pingpong, arrive = s->layout.all_lanes_arrive;
  if (!pingpong && !arrive)
    return;
  int readers = pingpong ? MOE__MM_WARPGROUP : moe__mm_threads(&s->schedule);
  for (int i = 0; i < slots(&s->schedule); i++) {
    MlirValue slot = moe__i32(b, i);
    if (pingpong)
      moe__mbarrier_initialize(b, slot_barrier(s, s->layout.slots_full, slot), 1);
    if (arrive)
      moe__mbarrier_initialize(b, slot_barrier(s, s->layout.slots_read, slot), readers);
  }
  moe__fence_mbarriers(b);
}

static MlirValue slot_at(moe__scaled_mm_t *s, MlirValue slot) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue offset = moe__mul(b, slot, slot_bytes(&s->schedule));
  return moe__offset_by(b, moe__offset(b, s->kernel.shared, offset), s->layout.slots);
}

MlirValue moe__mm_next_slot(moe__scaled_mm_t *s, MlirValue slot) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue next = moe__add(b, slot, 1);
  return moe__select(b, moe__eq(b, next, slots(&s->schedule)), 0, next);
}

moe__cursor_t moe__mm_slot_behind(moe__scaled_mm_t *s, moe__cursor_t slot) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue next = moe__mm_next_slot(s, slot.stage);
  MlirValue wraps = moe__zext(b, moe__eq(b, next, 0), b->i32);
  return (moe__cursor_t){next, moe__xor(b, slot.phase, wraps)};
}

/* A fresh barrier counts as having completed phase 1. */
static void wait_for_readers(moe__scaled_mm_t *s, moe__cursor_t slot) {
  moe__builder_t *b = &s->kernel.builder;
  if (s->layout.all_lanes_arrive)
    moe__mbarrier_wait(b, slot_barrier(s, s->layout.slots_read, slot.stage),
                       moe__xor(b, slot.phase, 1));
}

void moe__mm_write_slot(moe__scaled_mm_t *s, moe__cursor_t slot, const moe__mm_work_t *work) {
  moe__builder_t *b = &s->kernel.builder;
  const moe__group_tile_t *tile = &work->tile;
  wait_for_readers(s, slot);
  MlirValue address = slot_at(s, slot.stage);
  MlirValue where[] = {tile->group, tile->row, tile->row_end, tile->column};
  moe__store_aligned(b, moe__vector(b, 4, where), address, 16);
  if (!work->start.ptr)
    return;
  MlirValue range = moe__offset_by(b, address, 16), zero = moe__i32(b, 0);
  if (s->schedule.pingpong) /* whole: LLVM reads what lies between two words beside them */
    moe__store_aligned(b, moe__vector(b, 4, (MlirValue[]){work->start, work->end, zero, zero}),
                       range, 16);
  else
    moe__store_aligned(b, moe__vector(b, 2, (MlirValue[]){work->start, work->end}), range, 8);
}

void moe__mm_write_end(moe__scaled_mm_t *s, moe__cursor_t slot) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue none = moe__i32(b, MOE__MM_NO_GROUP);
  moe__mm_write_slot(s, slot, &(moe__mm_work_t){.tile = {none, none, none, none}});
}

static MlirValue reader(moe__scaled_mm_t *s) {
  return s->schedule.cluster > 1 ? s->kernel.cluster_rank : moe__i32(&s->kernel.builder, 0);
}

static void load_vector(moe__builder_t *b, MlirValue address, int count, MlirValue words[4]) {
  MlirType type = count == 1 ? b->i32 : moe__vector_type(b, count, b->i32);
  MlirValue read = moe__load_aligned(b, address, type, 4 * count);
  for (int i = 0; i < count; i++)
    words[i] = count == 1 ? read : moe__extract(b, read, i);
}

/* The words of a vector of `count`, 1, 2 or 4, in a slot; zeros in lanes that do not read. */
static void load_words(moe__scaled_mm_t *s, MlirValue address, int count, MlirValue words[4]) {
  moe__builder_t *b = &s->kernel.builder;
  if (!s->layout.one_lane_reads) {
    load_vector(b, address, count, words);
    return;
  }
  MlirValue lane = moe__and(b, s->kernel.thread, MOE__WARP - 1);
  MlirValue reads = moe__zext(b, moe__eq(b, lane, reader(s)), b->i32);
  for (int i = 0; i < count; i++)
    words[i] = moe__i32(b, 0);
  MOE__FOR (b, once, 0, reads, 1, &words[0], count > 1 ? &words[1] : NULL,
            count > 2 ? &words[2] : NULL, count > 2 ? &words[3] : NULL) {
    load_vector(b, address, count, words);
  }
}

/* The same in all lanes. */
static void read_words(moe__scaled_mm_t *s, MlirValue address, int count, MlirValue words[4]) {
  load_words(s, address, count, words);
  for (int i = 0; s->layout.one_lane_reads && i < count; i++)
    words[i] = moe__shuffle(&s->kernel.builder, words[i], reader(s));
}

MlirValue moe__mm_read_group(moe__scaled_mm_t *s, MlirValue slot) {
  MlirValue words[4];
  load_words(s, slot_at(s, slot), 1, words);
  return moe__warp_or(&s->kernel.builder, words[0]);
}

moe__mm_work_t moe__mm_read_slot(moe__scaled_mm_t *s, MlirValue slot) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue address = slot_at(s, slot), words[4];
  read_words(s, address, 4, words);
  moe__mm_work_t work = {
      .tile = {.group = words[0], .row = words[1], .row_end = words[2], .column = words[3]}};
  if (s->which == MOE__GRADIENT) {
    read_words(s, moe__offset_by(b, address, 16), 2, words);
    work.start = words[0];
    work.end = words[1];
  }
  if (!s->layout.one_lane_reads && !s->layout.all_lanes_arrive)
    moe__warp_barrier(b);
  return work;
}

moe__mm_work_t moe__mm_take_slot(moe__scaled_mm_t *s, MlirValue slot) {
  moe__builder_t *b = &s->kernel.builder;
  moe__mm_work_t work = moe__mm_read_slot(s, slot);
  if (s->layout.all_lanes_arrive) {
    moe__mbarrier_arrive(b, slot_barrier(s, s->layout.slots_read, slot));
    moe__warp_barrier(b);
  }
  return work;
}

/* ---- Slots of warpgroups that have tiles of their own ---- */

/* Offset in a slot: stage and phase where the tile's stages begin. */
#define SLOT_FIRST 32

void moe__mm_write_first(moe__scaled_mm_t *s, moe__cursor_t slot, moe__cursor_t first) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue zero = moe__i32(b, 0);
  MlirValue cursor = moe__vector(b, 4, (MlirValue[]){first.stage, first.phase, zero, zero});
  moe__store_aligned(b, cursor, moe__offset_by(b, slot_at(s, slot.stage), SLOT_FIRST), 16);
}

void moe__mm_announce_slot(moe__scaled_mm_t *s, moe__cursor_t slot) {
  moe__mbarrier_arrive(&s->kernel.builder, slot_barrier(s, s->layout.slots_full, slot.stage));
}

moe__cursor_t moe__mm_slots_from(moe__scaled_mm_t *s, MlirValue warpgroup) {
  return (moe__cursor_t){warpgroup, moe__i32(&s->kernel.builder, 0)};
}

moe__cursor_t moe__mm_slot_after_next(moe__scaled_mm_t *s, moe__cursor_t slot) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue next = moe__add(b, slot.stage, MOE__MM_WARPGROUPS);
  MlirValue wraps = moe__ule(b, slots(&s->schedule), next);
  return (moe__cursor_t){
      moe__select(b, wraps, moe__sub(b, next, slots(&s->schedule)), next),
      moe__xor(b, slot.phase, moe__zext(b, wraps, b->i32)),
  };
}

void moe__mm_wait_for_slot(moe__scaled_mm_t *s, moe__cursor_t slot) {
  moe__mbarrier_wait(&s->kernel.builder, slot_barrier(s, s->layout.slots_full, slot.stage),
                     slot.phase);
}

moe__cursor_t moe__mm_read_first(moe__scaled_mm_t *s, MlirValue slot) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue words[4];
  read_words(s, moe__offset_by(b, slot_at(s, slot), SLOT_FIRST), 4, words);
  return (moe__cursor_t){words[0], words[1]};
}
