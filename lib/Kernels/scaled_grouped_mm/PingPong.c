/* PingPong.c - the multiplying warpgroups of scaled_mm where each has tiles of its own: see
 * ScaledMm.h.
 *
 * The loader loads the stages of one tile behind those of the other, in one ring. Tiles go to
 * the two warpgroups in turn, 128 rows of each to one warpgroup: while one scales and stores,
 * the stages that land are those of the other, so that the tensor cores do not wait for the end
 * of a tile. Nothing else orders the two: a warpgroup cannot be ahead by more than the ring
 * holds.
 *
 * A stage is read, and released, by one warpgroup. It does not see how many stages the other
 * one's tiles have: the slot of a tile says where its stages begin, and has a barrier of its
 * own.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/scaled_grouped_mm/ScaledMm.h"

#include "lib/Device/Warp.h"
#include "lib/Kernels/scaled_grouped_mm/Epilogue.h"
#include "lib/Kernels/scaled_grouped_mm/Multiply.h"

/* ---- Turns ---- */

/* A warpgroup's barrier: each warp of the other one arrives when it has waited for all stages of
 * a tile. */
void moe__mm_turns_reserve(moe__mm_layout_t *layout) {
  layout->turns = moe__layout_shared(&layout->cta, MOE__MM_WARPGROUPS * 8, 8);
}

static MlirValue turn_of(moe__scaled_mm_t *s, MlirValue warpgroup) {
  moe__builder_t *b = &s->kernel.builder;
  return moe__offset_by(b, moe__offset(b, s->kernel.shared, moe__shl(b, warpgroup, 3)),
                        s->layout.turns);
}

void moe__mm_turns_initialize(moe__scaled_mm_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  for (int i = 0; i < MOE__MM_WARPGROUPS; i++)
    moe__mbarrier_initialize(b, turn_of(s, moe__i32(b, i)), MOE__MM_WARPGROUP / MOE__WARP);
  moe__fence_mbarriers(b);
}

/* Waits until the other warpgroup has waited for the tile before. phase: of this warpgroup's
 * tiles, 0, 1, 0, and so on. Before the first tile of the first one there is none: a fresh
 * barrier counts as having completed phase 1. */
static void take_turn(moe__scaled_mm_t *s, const moe__mm_position_t *self, MlirValue phase) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue is_first = moe__xor(b, self->warpgroup, 1);
  moe__mbarrier_wait(b, turn_of(s, self->warpgroup), moe__xor(b, phase, is_first));
}

/* now, i1: whether to; the same in all lanes. */
static void pass_turn(moe__scaled_mm_t *s, const moe__mm_position_t *self, MlirValue now) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue other = moe__xor(b, self->warpgroup, 1);
  MlirValue is_first = moe__eq(b, self->lane, 0);
  MOE__IF (b, moe__and(b, is_first, now)) {
    moe__mbarrier_arrive(b, turn_of(s, other));
  }
}

/* ---- Tiles ---- */

/* A tile in the making. */
typedef struct making_t {
  moe__scaled_mm_t *s;
  const moe__mm_position_t *self; /* of each fragment */
  const moe__group_tile_t *tile;
  const moe__mm_reduction_t *reduction;
  moe__cursor_t cursor; /* where its stages begin */
  MlirValue turn;       /* its phase */
  MlirValue is_empty;   /* i1: the gradient is that of no tokens; null but for the gradient */
  const moe__mm_epilogue_t *epilogue; /* of the first fragment, while it is multiplied */
} making_t;

static void landed(void *user, MlirValue is_last) {
  making_t *making = user;
  pass_turn(making->s, making->self, is_last);
}

static void settle(void *user) {
  making_t *making = user;
  moe__mm_epilogue_settle(making->s, making->epilogue);
}

/* What the epilogue takes is asked for before the turn, and comes while the tile is multiplied. */
static void multiply_and_store(making_t *m) {
  int count = MOE__MM_MAX_FRAGMENTS;
  moe__mm_fragment_t fragments[MOE__MM_MAX_FRAGMENTS];
  moe__mm_epilogue_t epilogue[MOE__MM_MAX_FRAGMENTS];
  epilogue[0] = moe__mm_epilogue_prepare(m->s, &m->self[0], m->tile, m->is_empty);
  for (int i = 1; i < count; i++)
    epilogue[i] = moe__mm_epilogue_below(m->s, &epilogue[0], &m->self[i]);
  take_turn(m->s, m->self, m->turn);
  m->epilogue = &epilogue[0];
  moe__mm_beside_t beside = {.user = m, .landed = landed, .settle = settle};
  moe__mm_multiply_fast(m->s, m->self, m->reduction, m->cursor, &beside, count, fragments);
  m->epilogue = NULL;
  for (int i = 0; i < count; i++)
    moe__mm_store(m->s, &epilogue[i], fragments[i]);
}

bool moe__mm_fits_columns(const moe__scaled_mm_t *s) {
  return s->schedule.pingpong && s->column_n > MOE__MM_WIDE;
}

/* The same, for tiles that have at least `columns` columns less 63. */
static void multiply_and_store_fit(making_t *m, int columns) {
  moe__scaled_mm_t *s = m->s;
  moe__builder_t *b = &s->kernel.builder;
  int all = s->column_n;
  if (columns == all || !moe__mm_fits_columns(s)) {
    multiply_and_store(m);
    return;
  }
  MlirValue left = moe__sub(b, s->columns.value, moe__mul(b, m->tile->column, all));
  MlirValue fits = moe__warp_uniform(b, moe__zext(b, moe__ule(b, left, columns), b->i32));
  MOE__IF (b, moe__ne(b, fits, 0)) {
    s->fragment_n = columns;
    multiply_and_store(m);
    s->fragment_n = all;
  }
  MOE__ELSE (b) {
    multiply_and_store_fit(m, columns + MOE__MM_NARROWEST);
  }
}

/* Whether any of the tile's rows are stored, as i1 that ptxas knows to be one for the warp. */
static MlirValue has_rows(moe__scaled_mm_t *s, const moe__group_tile_t *tile) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue has = moe__zext(b, moe__ult(b, tile->row, tile->row_end), b->i32);
  return moe__ne(b, moe__warp_uniform(b, has), 0);
}

/* Multiplies and stores a tile; forward, a cluster's may have no rows. Both fragments, also where
 * the second has none: a tile that takes less time brings CTAs out of step, which then read the
 * same things at different times. */
static void multiply_tile(making_t *m, const moe__mm_work_t *work) {
  moe__scaled_mm_t *s = m->s;
  moe__builder_t *b = &s->kernel.builder;
  moe__mm_reduction_t reduction = moe__mm_reduction_of(s, work);
  m->reduction = &reduction;
  if (s->which == MOE__GRADIENT) {
    m->is_empty = moe__eq(b, work->start, work->end);
    reduction.k_tiles = moe__warp_uniform(b, reduction.k_tiles);
    if (reduction.last_steps.ptr) {
      reduction.last_steps = moe__warp_uniform(b, reduction.last_steps);
      reduction.skipped = moe__warp_uniform(b, reduction.skipped);
    }
    multiply_and_store_fit(m, MOE__MM_NARROWEST);
    m->reduction = NULL;
    return;
  }
  reduction.k_tiles = moe__warp_uniform(b, reduction.k_tiles);
  bool always = s->schedule.cluster == 1 || s->schedule.beside;
  MOE__IF (b, always ? (MlirValue){NULL} : has_rows(s, &work->tile)) {
    multiply_and_store_fit(m, MOE__MM_NARROWEST);
  }
  if (!always) {
    MOE__ELSE (b) {
      take_turn(s, m->self, m->turn);
      moe__mm_pass_over(s, m->self, &reduction, m->cursor);
      pass_turn(s, m->self, moe__eq(b, m->turn, m->turn));
    }
  }
  m->reduction = NULL;
}

/* Waits until the slot has been written; gives whether there is a tile in it. */
static MlirValue has_tile(moe__scaled_mm_t *s, moe__cursor_t slot) {
  moe__builder_t *b = &s->kernel.builder;
  moe__mm_wait_for_slot(s, slot);
  return moe__ne(b, moe__mm_read_group(s, slot.stage), MOE__MM_NO_GROUP);
}

void moe__mm_positions(moe__scaled_mm_t *s, moe__mm_position_t self[MOE__MM_MAX_FRAGMENTS]) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  MlirValue warp = moe__and(b, moe__lshr(b, kernel->thread, 5), 3);
  for (int i = 0; i < MOE__MM_MAX_FRAGMENTS; i++) {
    self[i].warpgroup = moe__lshr(b, kernel->thread, 7);
    self[i].lane = moe__and(b, kernel->thread, MOE__WARP - 1);
    self[i].warp_row = moe__add(b, moe__shl(b, warp, 4), i * MOE__WGMMA_M);
    self[i].row = moe__add(b, self[i].warp_row, moe__lshr(b, self[i].lane, 2));
  }
}

void moe__mm_multiply_in_turn(moe__scaled_mm_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  moe__mm_position_t self[MOE__MM_MAX_FRAGMENTS];
  moe__mm_positions(s, self);
  moe__cursor_t slot = moe__mm_slots_from(s, moe__warp_uniform(b, self[0].warpgroup));
  MlirValue turn = moe__i32(b, 0);
  MOE__WHILE (b, has_tile(s, slot), MOE__CARRY_CURSOR(slot), &turn) {
    moe__cursor_t first = moe__mm_read_first(s, slot.stage);
    moe__mm_work_t work = moe__mm_take_slot(s, slot.stage);
    making_t making = {.s = s, .self = self, .tile = &work.tile, .turn = turn};
    making.cursor =
        (moe__cursor_t){moe__warp_uniform(b, first.stage), moe__warp_uniform(b, first.phase)};
    multiply_tile(&making, &work);
    slot = moe__mm_slot_after_next(s, slot);
    turn = moe__xor(b, turn, 1);
  }
  moe__mm_store_end(s, &self[0]);
}
