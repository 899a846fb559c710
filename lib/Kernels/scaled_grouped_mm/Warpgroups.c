/* Warpgroups.c - the multiplying warpgroups of the kernel of scaled_mm, each with 64 rows of each
 * tile: from tile to tile, and what is done beside the products.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/scaled_grouped_mm/ScaledMm.h"

#include "lib/Device/Warp.h"
#include "lib/Kernels/scaled_grouped_mm/Blocks.h"
#include "lib/Kernels/scaled_grouped_mm/Epilogue.h"

/* What is prepared while the first product of a tile runs. */
typedef struct preparation_t {
  moe__scaled_mm_t *s;
  const moe__mm_position_t *self;
  const moe__group_tile_t *tile;
  MlirValue is_empty; /* i1: the gradient is that of no tokens; null but for the gradient */
  moe__mm_epilogue_t epilogue;
} preparation_t;

static void prepare(void *user) {
  preparation_t *p = user;
  p->epilogue = moe__mm_epilogue_prepare(p->s, p->self, p->tile, p->is_empty);
}

/* Whether any of the warpgroup's rows are stored. */
static MlirValue has_rows(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                          const moe__group_tile_t *tile) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue first = moe__mul(b, self->warpgroup, MOE__WGMMA_M);
  if (!s->schedule.swap_operands)
    return moe__ult(b, moe__add(b, tile->row, first), tile->row_end);
  MlirValue column = moe__mul(b, tile->column, MOE__MM_TILE_ROWS);
  return moe__ult(b, moe__add(b, column, first), s->columns.value);
}

/* The same, as i1 that ptxas knows to be one for the warp. */
static MlirValue warp_has_rows(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                               const moe__group_tile_t *tile) {
  moe__builder_t *b = &s->kernel.builder;
  return moe__ne(b, moe__warp_uniform(b, moe__zext(b, has_rows(s, self, tile), b->i32)), 0);
}

static void settle(void *user) {
  preparation_t *p = user;
  moe__mm_epilogue_settle(p->s, &p->epilogue);
}

static void multiply(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                     const moe__group_tile_t *tile, const moe__mm_reduction_t *reduction,
                     moe__cursor_t cursor, const moe__mm_beside_t *beside,
                     moe__mm_fragment_t *registers) {
  if (moe__mm_has_token_blocks(s))
    moe__mm_multiply_token_blocks(s, self, reduction, cursor, beside, *registers);
  else if (s->promoted)
    moe__mm_multiply_promoted(s, self, tile, reduction, cursor, beside, *registers);
  else
    moe__mm_multiply_fast(s, self, reduction, cursor, beside, 1, registers);
}

static void multiply_and_store(moe__scaled_mm_t *s, preparation_t *preparation,
                               const moe__mm_reduction_t *reduction, moe__cursor_t cursor) {
  moe__mm_fragment_t registers;
  moe__mm_beside_t beside = {.user = preparation, .first = prepare, .settle = settle};
  multiply(s, preparation->self, preparation->tile, reduction, cursor, &beside, &registers);
  moe__mm_store(s, &preparation->epilogue, registers);
}

/* A tile that is multiplied and stored. */
typedef struct making_t {
  preparation_t preparation;
  moe__mm_reduction_t reduction;
  moe__cursor_t cursor;
} making_t;

static void make(void *user) {
  making_t *m = user;
  multiply_and_store(m->preparation.s, &m->preparation, &m->reduction, m->cursor);
}

/* What a tile sums over, in values that ptxas knows to be the same in a warp; *is_empty: of a
 * gradient, whether that is nothing. */
static moe__mm_reduction_t reduction_of(moe__scaled_mm_t *s, const moe__mm_work_t *work,
                                        MlirValue *is_empty) {
  moe__builder_t *b = &s->kernel.builder;
  moe__mm_reduction_t reduction = moe__mm_reduction_of(s, work);
  reduction.k_tiles = moe__warp_uniform(b, reduction.k_tiles);
  if (s->which == MOE__GRADIENT)
    *is_empty = moe__eq(b, work->start, work->end);
  if (reduction.last_steps.ptr)
    reduction.last_steps = moe__warp_uniform(b, reduction.last_steps);
  if (reduction.last_steps.ptr && moe__mm_skips_steps(s))
    reduction.skipped = moe__warp_uniform(b, reduction.skipped);
  return reduction;
}

/* Multiplies and stores a tile whose first stage has landed; gives the cursor behind it. Of a
 * gradient, whose rows of out end once for each expert and not once for each group, both
 * warpgroups multiply all tiles: another branch costs promoted sums more than it saves. */
static moe__cursor_t multiply_tile(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                                   const moe__mm_work_t *work, moe__cursor_t cursor) {
  moe__builder_t *b = &s->kernel.builder;
  making_t m = {.preparation = {.s = s, .self = self, .tile = &work->tile}, .cursor = cursor};
  m.reduction = reduction_of(s, work, &m.preparation.is_empty);
  if (s->which == MOE__GRADIENT) {
    make(&m);
  } else {
    MOE__IF (b, warp_has_rows(s, self, &work->tile)) {
      moe__mm_fit(s, &work->tile, make, &m);
    }
    MOE__ELSE (b) {
      moe__mm_pass_over(s, self, &m.reduction, cursor);
    }
  }
  return moe__cursor_advance(b, &s->layout.ring, cursor, m.reduction.k_tiles);
}

/* Whether there is a tile in a slot that has been written. */
static MlirValue is_tile(moe__scaled_mm_t *s, MlirValue slot) {
  moe__builder_t *b = &s->kernel.builder;
  return moe__ne(b, moe__mm_read_group(s, slot), MOE__MM_NO_GROUP);
}

MlirValue moe__mm_has_tile(moe__scaled_mm_t *s, moe__cursor_t cursor, MlirValue slot) {
  moe__ring_wait(&s->kernel, &s->layout.ring, cursor);
  return is_tile(s, slot);
}

static moe__mm_position_t position(moe__scaled_mm_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue thread = s->kernel.thread;
  MlirValue warp = moe__and(b, moe__lshr(b, thread, 5), 3);
  moe__mm_position_t self = {.warpgroup = moe__lshr(b, thread, 7),
                             .lane = moe__and(b, thread, MOE__WARP - 1)};
  self.warp_row = moe__add(b, moe__mul(b, self.warpgroup, MOE__WGMMA_M), moe__shl(b, warp, 4));
  self.row = moe__add(b, self.warp_row, moe__lshr(b, self.lane, 2));
  return self;
}

static void multiply_in_order(moe__scaled_mm_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  moe__mm_position_t self = position(s);
  moe__cursor_t cursor = moe__cursor_start(b);
  MlirValue slot = moe__i32(b, 0);
  MOE__WHILE (b, moe__mm_has_tile(s, cursor, slot), MOE__CARRY_CURSOR(cursor), &slot) {
    moe__mm_work_t work = moe__mm_take_slot(s, slot);
    cursor = multiply_tile(s, &self, &work, cursor);
    slot = moe__mm_next_slot(s, slot);
  }
  moe__mm_store_end(s, &self);
}

/* ---- Where a tile is stored behind the first product of the next ---- */

/* A tile that has been multiplied: its sums, and what its epilogue takes of it. row_end is 0 where
 * there is none yet. */
typedef struct multiplied_t {
  moe__accumulator_t sum;
  moe__group_tile_t tile; /* but for the group */
  MlirValue scales[3];    /* f32, where there are such: of the lane's two rows, of all columns */
} multiplied_t;

static void store_multiplied(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                             const multiplied_t *multiplied) {
  moe__builder_t *b = &s->kernel.builder;
  moe__mm_epilogue_t epilogue = moe__mm_epilogue_of(s, self, &multiplied->tile);
  epilogue.row_scale[0] = multiplied->scales[0];
  epilogue.row_scale[1] = multiplied->scales[1];
  epilogue.column_scale = multiplied->scales[2];
  moe__mm_fragment_t registers;
  moe__accumulator_unpack(b, multiplied->sum, registers);
  MOE__IF (b, moe__ne(b, moe__warp_uniform(b, multiplied->tile.row_end), 0)) {
    moe__mm_store(s, &epilogue, registers);
  }
}

/* Whether there is a tile of whose rows the warpgroup has none. */
static MlirValue passes(moe__scaled_mm_t *s, const moe__mm_position_t *self, moe__cursor_t cursor,
                        MlirValue slot) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue has_tile = moe__mm_has_tile(s, cursor, slot);
  moe__mm_work_t work = moe__mm_read_slot(s, slot);
  MlirValue works = moe__warp_uniform(b, moe__zext(b, has_rows(s, self, &work.tile), b->i32));
  return moe__and(b, has_tile, moe__eq(b, works, 0));
}

/* Goes on to the next tile that the warpgroup has rows of, or to the end; waits for its first
 * stage. */
static void find_tile(moe__scaled_mm_t *s, const moe__mm_position_t *self, moe__cursor_t *cursor,
                      MlirValue *slot) {
  moe__builder_t *b = &s->kernel.builder;
  if (s->which == MOE__GRADIENT) {
    moe__ring_wait(&s->kernel, &s->layout.ring, *cursor);
    return;
  }
  MOE__WHILE (b, passes(s, self, *cursor, *slot), MOE__CARRY_CURSOR(*cursor), slot) {
    moe__mm_work_t work = moe__mm_take_slot(s, *slot);
    moe__mm_reduction_t reduction = moe__mm_reduction_of(s, &work);
    reduction.k_tiles = moe__warp_uniform(b, reduction.k_tiles);
    moe__mm_pass_over(s, self, &reduction, *cursor);
    *cursor = moe__cursor_advance(b, &s->layout.ring, *cursor, reduction.k_tiles);
    *slot = moe__mm_next_slot(s, *slot);
  }
}

static void multiply_ahead(moe__scaled_mm_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  moe__mm_position_t self = position(s);
  moe__cursor_t cursor = moe__cursor_start(b);
  MlirValue slot = moe__i32(b, 0), zero = moe__i32(b, 0);
  multiplied_t before = {.sum = moe__wgmma_zero(b, s->schedule.tile_n),
                         .tile = {.row = zero, .row_end = zero, .column = zero}};
  bool has_scales = !moe__mm_scales_sums(s);
  int scales = !has_scales ? 0 : s->side[1]->granularity == MOE__SCALE_OF_ROW ? 2 : 3;
  for (int i = 0; i < scales; i++)
    before.scales[i] = moe__f32(b, 0);
  find_tile(s, &self, &cursor, &slot);
  MOE__WHILE (b, is_tile(s, slot), MOE__CARRY_CURSOR(cursor), &slot, &before.sum.value,
              &before.tile.row, &before.tile.row_end, &before.tile.column,
              scales > 0 ? &before.scales[0] : NULL, scales > 1 ? &before.scales[1] : NULL,
              scales > 2 ? &before.scales[2] : NULL) {
    moe__mm_work_t work = moe__mm_take_slot(s, slot);
    preparation_t preparation = {.s = s, .self = &self, .tile = &work.tile};
    moe__mm_reduction_t reduction = reduction_of(s, &work, &preparation.is_empty);
    moe__mm_beside_t nothing = {0};
    moe__accumulator_t first;
    moe__mm_multiply_first(s, &self, &reduction, &nothing, cursor, 1, &first);
    moe__mm_block_held_t held;
    bool holds = moe__mm_holds_block_scales(s);
    if (holds)
      held = moe__mm_block_hold(s, &self, &work.tile, reduction.k_tiles);
    prepare(&preparation);
    store_multiplied(s, &self, &before);
    moe__mm_beside_t beside = {.user = &preparation, .settle = settle};
    before.sum =
        moe__mm_has_token_blocks(s)
            ? moe__mm_promote_token_blocks(s, &self, &reduction, cursor, &beside, first)
            : moe__mm_promote(s, &self, &reduction, cursor, &beside, first, holds ? &held : NULL);
    before.tile = work.tile;
    before.scales[0] = preparation.epilogue.row_scale[0];
    before.scales[1] = preparation.epilogue.row_scale[1];
    before.scales[2] = preparation.epilogue.column_scale;
    cursor = moe__cursor_advance(b, &s->layout.ring, cursor, reduction.k_tiles);
    slot = moe__mm_next_slot(s, slot);
    find_tile(s, &self, &cursor, &slot);
  }
  store_multiplied(s, &self, &before);
  moe__mm_store_end(s, &self);
}

void moe__mm_multiply_tiles(moe__scaled_mm_t *s) {
  if (moe__mm_stores_behind(s))
    multiply_ahead(s);
  else
    multiply_in_order(s);
}
