/* Spread.c - the columns of the last tiles, divided evenly among the CTAs: see MixedMm.h.
 *
 * Where the tiles are no multiple of the multiprocessors, some of these would have nothing to do in
 * the last round. So the CTAs take whole tiles in turn only while two rounds or more are left; the
 * k-tiles of what is left, one after another, are divided into as many runs as there are CTAs, of
 * the same length but for one. A run is the end of a tile, maybe a whole tile, and the beginning of
 * one.
 *
 * Whoever has the beginning of a tile has its results: it adds the sums of the others in their
 * order, so that each run of the kernel gives the same bits. A CTA that has another part writes its
 * sums to global memory, which it does once, since only its first share can be one. The runs go
 * backwards over the CTAs, so that a CTA waits only for those that were started before it.
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

static MlirValue own_run(moe__mixed_mm_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  return moe__sub(b, moe__sub(b, s->kernel.cta_count, 1), s->kernel.cta);
}

MlirValue moe__mixed_share_count(moe__mixed_mm_t *s, MlirValue tiles) {
  moe__builder_t *b = &s->kernel.builder;
  division_t of = divide(s, tiles);
  MlirValue run = own_run(s), begin = run_at(s, &of, run);
  MlirValue end = run_at(s, &of, moe__add(b, run, 1));
  MlirValue first = moe__udiv(b, begin, of.k_tiles);
  MlirValue last = moe__udiv(b, moe__sub(b, end, 1), of.k_tiles);
  MlirValue count = moe__add(b, of.rounds, moe__add(b, moe__sub(b, last, first), 1));
  if (mlirValueIsNull(s->offs))
    return count;
  return moe__select(b, moe__ult(b, begin, end), count, of.rounds);
}

moe__mixed_share_t moe__mixed_share(moe__mixed_mm_t *s, MlirValue tiles, MlirValue index) {
  moe__builder_t *b = &s->kernel.builder;
  division_t of = divide(s, tiles);
  MlirValue run = own_run(s), begin = run_at(s, &of, run);
  MlirValue whole = moe__ult(b, index, of.rounds);
  MlirValue tile = moe__add(b, moe__udiv(b, begin, of.k_tiles), moe__sub(b, index, of.rounds));
  MlirValue from = moe__mul(b, tile, of.k_tiles);
  MlirValue first = moe__sub(b, moe__umax(b, begin, from), from);
  MlirValue end = moe__umin(b, moe__sub(b, run_at(s, &of, moe__add(b, run, 1)), from), of.k_tiles);
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
  moe__mixed_put_sums(s, sums, partial_at(s, self, own_run(s)));
  moe__mbarrier_arrive(b, handed_on(s));
}

/* Of the runs that follow one another in a tile, the last one that is known: its number, and the
 * end of its part of the tile. */
typedef struct followers_t {
  MlirValue run, end;
} followers_t;

/* Behind a share; one that is handed on has nobody to wait for. */
static followers_t followers_of(moe__mixed_mm_t *s, const division_t *of,
                                const moe__mixed_share_t *share) {
  moe__builder_t *b = &s->kernel.builder;
  const moe__mixed_reduction_t *reduction = &share->reduction;
  MlirValue owns = moe__eq(b, reduction->first, 0);
  return (followers_t){own_run(s), moe__select(b, owns, reduction->count, of->k_tiles)};
}

static MlirValue has_followers(moe__mixed_mm_t *s, const division_t *of,
                               const followers_t *followers) {
  return moe__ult(&s->kernel.builder, followers->end, of->k_tiles);
}

static followers_t next_follower(moe__mixed_mm_t *s, const division_t *of,
                                 const moe__mixed_share_t *share, const followers_t *followers) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue from = moe__mul(b, moe__sub(b, share->tile, of->tiles), of->k_tiles);
  MlirValue run = moe__add(b, followers->run, 1);
  MlirValue end = moe__sub(b, run_at(s, of, moe__add(b, run, 1)), from);
  return (followers_t){run, moe__umin(b, end, of->k_tiles)};
}

MlirValue moe__mixed_meet(moe__mixed_mm_t *s, const moe__mixed_position_t *self, MlirValue tiles,
                          const moe__mixed_share_t *share, moe__cursor_t cursor,
                          moe__mixed_fragment_t sums) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  division_t of = divide(s, tiles);
  MOE__IF (b, moe__ne(b, share->reduction.first, 0)) {
    hand_on(s, self, sums);
  }
  followers_t others = followers_of(s, &of, share);
  moe__accumulator_t sum = moe__accumulator_pack(b, s->schedule.tile_n, sums);
  MOE__WHILE (b, has_followers(s, &of, &others), &others.run, &others.end,
              MOE__CARRY_CURSOR(cursor), &sum.value) {
    moe__accumulator_unpack(b, sum, sums);
    others = next_follower(s, &of, share, &others);
    moe__ring_wait(kernel, &s->layout.ring, cursor);
    moe__mixed_release(s, self, cursor);
    cursor = moe__cursor_next(b, &s->layout.ring, cursor);
    moe__mixed_add_sums(s, partial_at(s, self, others.run), sums);
    sum = moe__accumulator_pack(b, s->schedule.tile_n, sums);
  }
  moe__accumulator_unpack(b, sum, sums);
  return moe__eq(b, share->reduction.first, 0);
}

/* ---- The thread that loads ---- */

/* When the share behind is loaded the sums have long been written, and nobody waits for them yet:
 * the others are needed when this CTA and the one that has the tile come to their ends. */
void moe__mixed_announce_sums(moe__mixed_mm_t *s, MlirValue tiles, MlirValue index) {
  moe__builder_t *b = &s->kernel.builder;
  division_t of = divide(s, tiles);
  MlirValue run = own_run(s), begin = run_at(s, &of, run);
  MlirValue last = moe__sub(b, moe__mixed_share_count(s, tiles), 1);
  MlirValue is_behind = moe__eq(b, index, moe__umin(b, moe__add(b, of.rounds, 1), last));
  MlirValue hands_on = moe__ne(b, moe__urem(b, begin, of.k_tiles), 0);
  MOE__IF (b, moe__and(b, is_behind, hands_on)) {
    moe__mbarrier_wait(b, handed_on(s), moe__i32(b, 0));
    moe__fence_device(b);
    moe__atomic_exchange(b, arrival_of(s, run), moe__i32(b, 1), MOE__RELAXED);
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
  followers_t others = followers_of(s, &of, share);
  MOE__WHILE (b, has_followers(s, &of, &others), &others.run, &others.end,
              MOE__CARRY_CURSOR(cursor)) {
    others = next_follower(s, &of, share, &others);
    await(s, others.run);
    moe__ring_wait_empty(kernel, &s->layout.ring, cursor);
    moe__mbarrier_arrive(b, moe__ring_full(kernel, &s->layout.ring, cursor));
    cursor = moe__cursor_next(b, &s->layout.ring, cursor);
  }
}
