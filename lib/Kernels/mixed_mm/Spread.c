/* Spread.c - the columns of the last tiles, divided evenly among the CTAs: see MixedMm.h.
 *
 * Where the tiles are no multiple of the multiprocessors, some of these would have nothing to do in
 * the last round. So the CTAs take whole tiles in turn only while two rounds or more are left; the
 * k-tiles of what is left, one after another, are divided into as many runs as there are CTAs, of
 * the same length but for one. A run is the end of a tile, maybe a whole tile, and the beginning of
 * one.
 *
 * A CTA works off the end of a tile last. So CTAs begin at the first columns of their tiles, all at
 * the same time, and come to the ends of others at the same time, which was measured to be faster.
 *
 * Whoever has the end of a tile has its results: it adds the sums of the others, the nearest first,
 * so that each run of the kernel gives the same bits. A CTA that has another part of a tile writes
 * its sums to global memory, which it does once: its run has the ends of all its tiles but the last
 * one. The runs are in the order of the CTAs, so that a CTA waits only for those that were started
 * before it.
 *
 * The thread that loads says that sums are written, and waits for those of others; the warps that
 * multiply hear of these by a stage of the ring, in which nothing lands.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/mixed_mm/MixedMm.h"

/* ---- What a CTA has for it ---- */

void moe__mixed_spread_reserve(moe__mixed_layout_t *layout) {
  layout->handed_on = moe__layout_shared(&layout->cta, 8, 8);
}

void moe__mixed_spread_parameters(moe__mixed_mm_t *s) {
  s->partials = moe__kernel_partials(&s->kernel);
  s->arrivals = moe__kernel_arrivals(&s->kernel);
}

/* The mbarrier that all warps arrive at when their sums are written. */
static MlirValue handed_on(moe__mixed_mm_t *s) {
  return moe__offset_by(&s->kernel.builder, s->kernel.shared, s->layout.handed_on);
}

void moe__mixed_spread_initialize(moe__mixed_mm_t *s) {
  moe__mbarrier_initialize(&s->kernel.builder, handed_on(s),
                           moe__mixed_warps(&s->schedule) * MOE__WARP);
}

/* ---- Shares ---- */

/* All i32. */
typedef struct division_t {
  MlirValue k_tiles; /* of a tile */
  MlirValue rounds;  /* whole tiles that each CTA has before its run */
  MlirValue tiles;   /* of all CTAs in these */
  MlirValue length;  /* of a run, one for each of the last CTAs */
  MlirValue longer;  /* so many, the first ones, have one k-tile more */
} division_t;

/* There may be fewer k-tiles than CTAs, and of experts without tokens none. No product is greater
 * than the number of k-tiles. */
static division_t divide(moe__mixed_mm_t *s, MlirValue tiles) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue ctas = s->kernel.cta_count;
  division_t of = {.k_tiles = moe__mixed_k_tiles(s)};
  of.rounds = moe__sub(b, moe__umax(b, moe__udiv(b, tiles, ctas), 1), 1);
  of.tiles = moe__mul(b, of.rounds, ctas);
  MlirValue divided = moe__mul(b, moe__sub(b, tiles, of.tiles), of.k_tiles);
  of.length = moe__udiv(b, divided, ctas);
  of.longer = moe__sub(b, divided, moe__mul(b, of.length, ctas));
  return of;
}

/* The first k-tile of run `number`; of the number behind the last one, that behind all. */
static MlirValue run_at(moe__mixed_mm_t *s, const division_t *of, MlirValue number) {
  moe__builder_t *b = &s->kernel.builder;
  return moe__add(b, moe__mul(b, number, of->length), moe__umin(b, number, of->longer));
}

/* A run, in k-tiles (i32): from `begin` to `end`, of `shares` tiles from number `first` on. */
typedef struct run_t {
  MlirValue begin, end;
  MlirValue first, shares;
} run_t;

static run_t own_run(moe__mixed_mm_t *s, const division_t *of) {
  moe__builder_t *b = &s->kernel.builder;
  run_t run = {.begin = run_at(s, of, s->kernel.cta),
               .end = run_at(s, of, moe__add(b, s->kernel.cta, 1))};
  run.first = moe__udiv(b, run.begin, of->k_tiles);
  MlirValue last = moe__udiv(b, moe__sub(b, run.end, 1), of->k_tiles);
  run.shares = moe__add(b, moe__sub(b, last, run.first), 1);
  return run;
}

MlirValue moe__mixed_share_count(moe__mixed_mm_t *s, MlirValue tiles) {
  moe__builder_t *b = &s->kernel.builder;
  division_t of = divide(s, tiles);
  run_t run = own_run(s, &of);
  MlirValue count = moe__add(b, of.rounds, run.shares);
  if (mlirValueIsNull(s->offs))
    return count;
  return moe__select(b, moe__ult(b, run.begin, run.end), count, of.rounds);
}

moe__mixed_share_t moe__mixed_share(moe__mixed_mm_t *s, MlirValue tiles, MlirValue index) {
  moe__builder_t *b = &s->kernel.builder;
  division_t of = divide(s, tiles);
  run_t run = own_run(s, &of);
  MlirValue whole = moe__ult(b, index, of.rounds);
  /* The first share of the run comes last. */
  MlirValue next = moe__add(b, moe__sub(b, index, of.rounds), 1);
  MlirValue in_run = moe__select(b, moe__eq(b, next, run.shares), 0, next);
  MlirValue tile = moe__add(b, run.first, in_run), from = moe__mul(b, tile, of.k_tiles);
  MlirValue first = moe__sub(b, moe__umax(b, run.begin, from), from);
  MlirValue end = moe__umin(b, moe__sub(b, run.end, from), of.k_tiles);
  MlirValue in_turn = moe__add(b, moe__mul(b, index, s->kernel.cta_count), s->kernel.cta);
  return (moe__mixed_share_t){
      .tile = moe__select(b, whole, in_turn, moe__add(b, of.tiles, tile)),
      .reduction = {moe__select(b, whole, 0, first),
                    moe__select(b, whole, of.k_tiles, moe__sub(b, end, first))}};
}

/* ---- Sums ---- */

#define SUMS_AT_ONCE 4 /* that a lane stores */

/* Where the sums of run `number` are; and the word that says so. */
static MlirValue partials_of(moe__mixed_mm_t *s, MlirValue number) {
  moe__builder_t *b = &s->kernel.builder;
  int of_run = MOE__PARTIAL_SUMS / s->schedule.ctas_per_sm;
  int bytes = of_run / SUMS_AT_ONCE * SUMS_AT_ONCE * 4;
  return moe__offset(b, s->partials, moe__mul(b, number, bytes));
}

static MlirValue arrival_of(moe__mixed_mm_t *s, MlirValue number) {
  moe__builder_t *b = &s->kernel.builder;
  return moe__offset(b, s->arrivals,
                     moe__mul(b, number, MOE__ARRIVALS / s->schedule.ctas_per_sm * 4));
}

/* The lane's part of them. */
static MlirValue partial_at(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                            MlirValue number) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue bytes = moe__add(b, moe__mul(b, self->panel, moe__mixed_sums_bytes(&s->schedule)),
                             moe__shl(b, self->lane, 4));
  return moe__offset(b, partials_of(s, number), bytes);
}

static void hand_on(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                    const moe__mixed_fragment_t sums) {
  moe__builder_t *b = &s->kernel.builder;
  moe__mixed_put_sums(s, sums, partial_at(s, self, s->kernel.cta));
  moe__mbarrier_arrive(b, handed_on(s));
}

static MlirValue end_of(moe__mixed_mm_t *s, const moe__mixed_share_t *share) {
  return moe__add(&s->kernel.builder, share->reduction.first, share->reduction.count);
}

/* Whether sums of a share are handed on: it does not have the end of the tile. */
static MlirValue hands_on(moe__mixed_mm_t *s, const division_t *of,
                          const moe__mixed_share_t *share) {
  return moe__ult(&s->kernel.builder, end_of(s, share), of->k_tiles);
}

/* Of the runs that have a tile, from its end on, the last one that is known: its number, and the
 * begin of its part of the tile. */
typedef struct others_t {
  MlirValue run, begin;
} others_t;

/* Before a share; one that is handed on has nobody to wait for. */
static others_t others_of(moe__mixed_mm_t *s, const division_t *of,
                          const moe__mixed_share_t *share) {
  moe__builder_t *b = &s->kernel.builder;
  return (others_t){s->kernel.cta,
                    moe__select(b, hands_on(s, of, share), 0, share->reduction.first)};
}

static MlirValue has_others(moe__mixed_mm_t *s, const others_t *others) {
  return moe__ne(&s->kernel.builder, others->begin, 0);
}

static others_t next_other(moe__mixed_mm_t *s, const division_t *of,
                           const moe__mixed_share_t *share, const others_t *others) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue from = moe__mul(b, moe__sub(b, share->tile, of->tiles), of->k_tiles);
  MlirValue run = moe__sub(b, others->run, 1);
  return (others_t){run, moe__sub(b, moe__umax(b, run_at(s, of, run), from), from)};
}

MlirValue moe__mixed_meet(moe__mixed_mm_t *s, const moe__mixed_position_t *self, MlirValue tiles,
                          const moe__mixed_share_t *share, moe__cursor_t cursor,
                          moe__mixed_fragment_t sums) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  division_t of = divide(s, tiles);
  MOE__IF (b, hands_on(s, &of, share)) {
    hand_on(s, self, sums);
  }
  others_t others = others_of(s, &of, share);
  moe__accumulator_t sum = moe__accumulator_pack(b, s->schedule.tile_n, sums);
  MOE__WHILE (b, has_others(s, &others), &others.run, &others.begin, MOE__CARRY_CURSOR(cursor),
              &sum.value) {
    moe__accumulator_unpack(b, sum, sums);
    others = next_other(s, &of, share, &others);
    moe__ring_wait(kernel, &s->layout.ring, cursor);
    moe__mixed_release(s, self, cursor);
    cursor = moe__cursor_next(b, &s->layout.ring, cursor);
    moe__mixed_add_sums(s, partial_at(s, self, others.run), sums);
    sum = moe__accumulator_pack(b, s->schedule.tile_n, sums);
  }
  moe__accumulator_unpack(b, sum, sums);
  return moe__eq(b, end_of(s, share), of.k_tiles);
}

/* ---- The thread that loads ---- */

/* When the last share is loaded the sums of the one before have long been written, and nobody waits
 * for them yet: the others are needed when this CTA and the one that has the tile come to their
 * ends. Where a run has one share alone this waits for its sums. */
void moe__mixed_announce_sums(moe__mixed_mm_t *s, MlirValue tiles, MlirValue index) {
  moe__builder_t *b = &s->kernel.builder;
  division_t of = divide(s, tiles);
  run_t run = own_run(s, &of);
  MlirValue last = moe__sub(b, moe__mixed_share_count(s, tiles), 1);
  MlirValue inside = moe__ne(b, moe__urem(b, run.end, of.k_tiles), 0);
  MOE__IF (b, moe__and(b, moe__eq(b, index, last), inside)) {
    moe__mbarrier_wait(b, handed_on(s), moe__i32(b, 0));
    moe__fence_device(b);
    moe__atomic_exchange(b, arrival_of(s, s->kernel.cta), moe__i32(b, 1), MOE__RELAXED);
  }
}

/* Waits for the sums of run `number`, and clears their word for the next launch. */
static void await(moe__mixed_mm_t *s, MlirValue number) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue at = arrival_of(s, number), found = moe__i32(b, 0);
  MOE__WHILE (b, moe__eq(b, found, 0), &found) {
    found = moe__atomic_exchange(b, at, moe__i32(b, 0), MOE__RELAXED);
  }
  moe__fence_device(b);
}

void moe__mixed_await_sums(moe__mixed_mm_t *s, MlirValue tiles, const moe__mixed_share_t *share,
                           moe__cursor_t cursor) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  division_t of = divide(s, tiles);
  others_t others = others_of(s, &of, share);
  MOE__WHILE (b, has_others(s, &others), &others.run, &others.begin, MOE__CARRY_CURSOR(cursor)) {
    others = next_other(s, &of, share, &others);
    await(s, others.run);
    moe__ring_wait_empty(kernel, &s->layout.ring, cursor);
    moe__mbarrier_arrive(b, moe__ring_full(kernel, &s->layout.ring, cursor));
    cursor = moe__cursor_next(b, &s->layout.ring, cursor);
  }
}
