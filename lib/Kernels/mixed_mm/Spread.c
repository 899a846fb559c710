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
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/mixed_mm/MixedMm.h"

void moe__mixed_spread_parameters(moe__mixed_mm_t *s) {
  s->partials = moe__kernel_partials(&s->kernel);
  s->arrivals = moe__kernel_arrivals(&s->kernel);
}

/* ---- Shares ---- */

/* All i32. */
typedef struct division_t {
  MlirValue k_tiles; /* of a tile */
  MlirValue rounds;  /* whole tiles that each CTA has before its run */
  MlirValue tiles;   /* of all CTAs in these */
  MlirValue divided; /* k-tiles of the others */
  MlirValue runs;    /* in which they are divided, one for each of the last CTAs */
} division_t;

static division_t divide(moe__mixed_mm_t *s, MlirValue tiles) {
  moe__builder_t *b = &s->kernel.builder;
  division_t of = {.k_tiles = moe__mixed_k_tiles(s)};
  of.rounds = moe__sub(b, moe__umax(b, moe__udiv(b, tiles, s->kernel.cta_count), 1), 1);
  of.tiles = moe__mul(b, of.rounds, s->kernel.cta_count);
  of.divided = moe__mul(b, moe__sub(b, tiles, of.tiles), of.k_tiles);
  of.runs = s->kernel.cta_count;
  if (!mlirValueIsNull(s->offs)) /* there may be fewer k-tiles than CTAs, or none */
    of.runs = moe__umin(b, of.runs, moe__umax(b, of.divided, 1));
  return of;
}

/* The first k-tile of run `number`. */
static MlirValue run_at(moe__mixed_mm_t *s, const division_t *of, MlirValue number) {
  moe__builder_t *b = &s->kernel.builder;
  return moe__udiv(b, moe__mul(b, of->divided, number), of->runs);
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
  MlirValue has_run = moe__and(b, moe__ult(b, run, of.runs), moe__ult(b, begin, end));
  return moe__select(b, has_run, count, of.rounds);
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

/* Where the sums of a warp of run `number` are, and the word that says so. */
static MlirValue partial_at(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                            MlirValue number) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue slot = moe__add(b, moe__mul(b, number, MOE__PARTIAL_SUMS / s->schedule.ctas_per_sm * 4),
                            moe__mul(b, self->panel, moe__mixed_sums_bytes(&s->schedule)));
  return moe__offset(b, s->partials, moe__add(b, slot, moe__shl(b, self->lane, 4)));
}

static MlirValue arrival_at(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                            MlirValue number) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue word =
      moe__add(b, moe__mul(b, number, MOE__ARRIVALS / s->schedule.ctas_per_sm), self->panel);
  return moe__offset(b, s->arrivals, moe__shl(b, word, 2));
}

static void hand_on(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                    const moe__mixed_fragment_t sums) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue run = own_run(s);
  moe__mixed_put_sums(s, sums, partial_at(s, self, run));
  moe__warp_barrier(b);
  MOE__IF (b, moe__eq(b, self->lane, 0)) {
    moe__atomic_exchange(b, arrival_at(s, self, run), moe__i32(b, 1), MOE__ACQUIRE_RELEASE);
  }
}

/* Waits for the sums of a warp of run `number`, and clears their word for the next launch. */
static void await(moe__mixed_mm_t *s, const moe__mixed_position_t *self, MlirValue number) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue at = arrival_at(s, self, number), found = moe__i32(b, 0);
  MOE__WHILE (b, moe__eq(b, found, 0), &found) {
    MOE__FOR (b, once, moe__umin(b, self->lane, 1), 1, 1, &found) {
      found = moe__atomic_exchange(b, at, moe__i32(b, 0), MOE__ACQUIRE_RELEASE);
    }
    found = moe__warp_uniform(b, found);
  }
  moe__warp_barrier(b);
}

MlirValue moe__mixed_meet(moe__mixed_mm_t *s, const moe__mixed_position_t *self, MlirValue tiles,
                          const moe__mixed_share_t *share, moe__mixed_fragment_t sums) {
  moe__builder_t *b = &s->kernel.builder;
  division_t of = divide(s, tiles);
  const moe__mixed_reduction_t *reduction = &share->reduction;
  MlirValue owns = moe__eq(b, reduction->first, 0);
  MOE__IF (b, moe__ne(b, reduction->first, 0)) {
    hand_on(s, self, sums);
  }
  /* A share that is handed on has nobody to wait for. */
  MlirValue end = moe__select(b, owns, reduction->count, of.k_tiles), run = own_run(s);
  MlirValue from = moe__mul(b, moe__sub(b, share->tile, of.tiles), of.k_tiles);
  moe__accumulator_t sum = moe__accumulator_pack(b, s->schedule.tile_n, sums);
  MOE__WHILE (b, moe__ult(b, end, of.k_tiles), &end, &run, &sum.value) {
    moe__accumulator_unpack(b, sum, sums);
    run = moe__add(b, run, 1);
    MlirValue next = moe__sub(b, run_at(s, &of, moe__add(b, run, 1)), from);
    await(s, self, run);
    moe__mixed_add_sums(s, partial_at(s, self, run), sums);
    end = moe__umin(b, next, of.k_tiles);
    sum = moe__accumulator_pack(b, s->schedule.tile_n, sums);
  }
  moe__accumulator_unpack(b, sum, sums);
  return owns;
}
