/* MxMultiply.c - the products of scaled_mm with scales of MX blocks: see ScaledMm.h.
 *
 * One wgmma is 32 deep, which is one MX block. Its sum is multiplied by the scale of qb and added
 * by one fma with that of qa: two instructions for each element and MX block, which is as much as
 * a multiprocessor issues while its tensor cores multiply two. All else is kept from the issue
 * slots: each warpgroup has all 128 rows and one half of the columns, as two fragments, so that a
 * factor that has been read serves four elements; and while the sums of one fragment are added,
 * the tensor cores make those of the other.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/scaled_grouped_mm/ScaledMm.h"

#include "lib/Device/Warp.h"
#include "lib/Kernels/scaled_grouped_mm/Epilogue.h"
#include "lib/Kernels/scaled_grouped_mm/Mx.h"

#define BLOCKS (MOE__MM_TILE_K / MOE__MM_STEP)
#define FRAGMENTS MOE__MM_MAX_FRAGMENTS

/* A tile in the making. */
typedef struct making_t {
  moe__scaled_mm_t *s;
  const moe__mm_position_t *self;     /* of each fragment */
  MlirValue rows[FRAGMENTS], columns; /* descriptors of the stage whose products come next */
  moe__accumulator_t dots[FRAGMENTS], sums[FRAGMENTS];
} making_t;

/* Finds the stage whose products come next. */
static void find_stage(making_t *m, moe__cursor_t cursor) {
  moe__scaled_mm_t *s = m->s;
  moe__builder_t *b = &s->kernel.builder;
  MlirValue buffer = moe__ring_buffer(&s->kernel, &s->layout.ring, cursor);
  for (int i = 0; i < FRAGMENTS; i++)
    m->rows[i] =
        moe__wgmma_descriptor(b, moe__offset_by(b, buffer, i * MOE__WGMMA_M * MOE__MM_TILE_K));
  MlirValue half = moe__mul(b, m->self->warpgroup, s->fragment_n * MOE__MM_TILE_K);
  m->columns = moe__wgmma_descriptor(
      b, moe__offset_by(b, moe__offset(b, buffer, half), MOE__MM_TILE_ROWS * MOE__MM_TILE_K));
}

/* Starts the product of MX block `block` of the stage for one fragment. What has been added is
 * added in front of it: LLVM would put that off, and keep copies of the products. */
static void start(making_t *m, int fragment, int block) {
  moe__scaled_mm_t *s = m->s;
  moe__builder_t *b = &s->kernel.builder;
  moe__accumulator_t *dots = &m->dots[fragment];
  moe__accumulator_t through[] = {*dots, m->sums[fragment]};
  moe__wgmma_fence_through(b, 2, through, 0, NULL);
  *dots = through[0];
  m->sums[fragment] = through[1];
  *dots =
      moe__wgmma_k32(b, *dots, true, moe__wgmma_advance(b, m->rows[fragment], block * MOE__MM_STEP),
                     moe__wgmma_advance(b, m->columns, block * MOE__MM_STEP), s->side[0]->element,
                     s->side[1]->element);
  moe__wgmma_commit(b);
}

/* Waits for the product of a fragment. */
static void finish(making_t *m, int fragment) {
  moe__wgmma_wait_through(&m->s->kernel.builder, 0, 1, &m->dots[fragment], 0, NULL);
}

/* Adds the product of a fragment. */
static void add(making_t *m, int fragment, const moe__mm_mx_factors_t *factors) {
  moe__scaled_mm_t *s = m->s;
  moe__builder_t *b = &s->kernel.builder;
  bool swapped = s->schedule.swap_operands;
  moe__mm_fragment_t dots, sums;
  moe__accumulator_unpack(b, m->dots[fragment], dots);
  moe__accumulator_unpack(b, m->sums[fragment], sums);
  for (int i = 0; i < s->fragment_n / 2; i++) {
    MlirValue row = factors->rows[2 * fragment + i % 4 / 2];
    MlirValue column = factors->columns[i / 4 * 2 + i % 2];
    MlirValue sa = swapped ? column : row, sb = swapped ? row : column;
    sums[i] = moe__fma(b, moe__fmul(b, dots[i], sb), sa, sums[i]);
  }
  m->sums[fragment] = moe__accumulator_pack(b, s->fragment_n, sums);
}

/* Adds the products of the stage at `cursor`, of which that of the first fragment and MX block has
 * been started, and starts that of the stage at `next`. One product at a time is in flight: ptxas
 * does not follow more of them from one round of a loop to the next. The stage before, at
 * `before`, is released, if there is one (i1). */
static void add_stage(making_t *m, moe__cursor_t cursor, moe__cursor_t next, moe__cursor_t before,
                      MlirValue has_before) {
  moe__scaled_mm_t *s = m->s;
  moe__builder_t *b = &s->kernel.builder;
  find_stage(m, cursor);
  for (int block = 0; block < BLOCKS; block++) {
    moe__mm_mx_factors_t factors;
    moe__mm_mx_read_factors(s, m->self, cursor, block, &factors);
    finish(m, 0);
    if (block == 0) {
      MOE__IF (b, has_before) {
        moe__mm_mx_release(s, m->self, before);
      }
    }
    start(m, 1, block);
    add(m, 0, &factors);
    finish(m, 1);
    if (block == BLOCKS - 1) {
      moe__ring_wait(&s->kernel, &s->layout.ring, next);
      find_stage(m, next);
    }
    start(m, 0, (block + 1) % BLOCKS);
    add(m, 1, &factors);
  }
}

/* Where the warpgroup's half of a tile begins. */
static moe__group_tile_t half_of(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                                 moe__group_tile_t tile) {
  moe__builder_t *b = &s->kernel.builder;
  if (s->schedule.swap_operands)
    tile.row = moe__add(b, tile.row, moe__mul(b, self->warpgroup, s->fragment_n));
  else
    tile.column = moe__add(b, moe__mul(b, tile.column, 2), self->warpgroup);
  return tile;
}

/* Stores the fragments of a tile. What the epilogue needs is computed here: in front of the loop it
 * would take registers that the products need. */
static void store(moe__scaled_mm_t *s, const moe__group_tile_t *tile,
                  const moe__accumulator_t sums[FRAGMENTS]) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue thread = s->kernel.thread;
  s->kernel.thread = moe__fresh(b, thread);
  moe__mm_position_t self[FRAGMENTS];
  moe__mm_epilogue_t epilogue[FRAGMENTS];
  moe__mm_positions(s, self);
  epilogue[0] = moe__mm_epilogue_prepare(s, &self[0], tile, (MlirValue){NULL});
  moe__mm_epilogue_settle(s, &epilogue[0]);
  for (int i = 1; i < FRAGMENTS; i++)
    epilogue[i] = moe__mm_epilogue_below(s, &epilogue[0], &self[i]);
  for (int i = 0; i < FRAGMENTS; i++) {
    moe__mm_fragment_t registers;
    moe__accumulator_unpack(b, sums[i], registers);
    moe__mm_store(s, &epilogue[i], registers);
  }
  s->kernel.thread = thread;
}

/* A tile whose first stage, at `cursor`, has landed; it is multiplied and stored. `behind` is where
 * that ended. */
typedef struct tile_t {
  moe__scaled_mm_t *s;
  const moe__mm_position_t *self;
  const moe__mm_work_t *work;
  MlirValue k_tiles;
  moe__cursor_t cursor, behind;
} tile_t;

static void multiply_tile(void *user) {
  tile_t *t = user;
  moe__scaled_mm_t *s = t->s;
  const moe__mm_position_t *self = t->self;
  moe__cursor_t cursor = t->cursor;
  moe__builder_t *b = &s->kernel.builder;
  moe__group_tile_t tile = half_of(s, self, t->work->tile);
  making_t m = {.s = s, .self = self};
  find_stage(&m, cursor);
  moe__accumulator_t zeros[2 * FRAGMENTS];
  for (int i = 0; i < 2 * FRAGMENTS; i++)
    zeros[i] = moe__wgmma_zero(b, s->fragment_n);
  moe__wgmma_fence_through(b, 2 * FRAGMENTS, zeros, 0,
                           NULL); /* all in front of the first product */
  for (int i = 0; i < FRAGMENTS; i++) {
    m.dots[i] = zeros[i];
    m.sums[i] = zeros[FRAGMENTS + i];
  }
  start(&m, 0, 0);
  moe__cursor_t before = cursor;
  MlirValue last = moe__sub(b, t->k_tiles, 1);
  MOE__FOR (b, k_tile, 0, t->k_tiles, 1, MOE__CARRY_CURSOR(before), MOE__CARRY_CURSOR(cursor),
            &m.dots[0].value, &m.dots[1].value, &m.sums[0].value, &m.sums[1].value) {
    /* Behind the last stage one more product is started, whose sum nobody reads: a loop that ends
     * in front of it would be twice as long. */
    moe__cursor_t next = moe__cursor_next(b, &s->layout.ring, cursor);
    MlirValue is_last = moe__eq(b, k_tile, last);
    next.stage = moe__select(b, is_last, cursor.stage, next.stage);
    next.phase = moe__select(b, is_last, cursor.phase, next.phase);
    add_stage(&m, cursor, next, before, moe__ne(b, k_tile, 0));
    before = cursor;
    cursor = next;
  }
  finish(&m, 0);
  moe__mm_mx_release(s, self, cursor);
  store(s, &tile, m.sums);
  t->behind = moe__cursor_next(b, &s->layout.ring, cursor);
}

void moe__mm_multiply_mx(moe__scaled_mm_t *s) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  moe__mm_position_t self[FRAGMENTS];
  moe__mm_positions(s, self);
  self[0].warpgroup = moe__warp_uniform(b, self[0].warpgroup);
  moe__cursor_t cursor = moe__cursor_start(b);
  MlirValue slot = moe__i32(b, 0);
  MOE__WHILE (b, moe__mm_has_tile(s, cursor, slot), MOE__CARRY_CURSOR(cursor), &slot) {
    moe__mm_work_t work = moe__mm_take_slot(s, slot);
    MlirValue k_tiles = moe__warp_uniform(b, moe__mm_reduction_of(s, &work).k_tiles);
    tile_t tile = {s, self, &work, k_tiles, cursor, cursor};
    moe__mm_fit(s, &work.tile, multiply_tile, &tile);
    /* Behind branches the cursor of one of them is not known. */
    cursor = s->schedule.pieces == 1 ? tile.behind
                                     : moe__cursor_advance(b, &s->layout.ring, cursor, k_tiles);
    slot = moe__mm_next_slot(s, slot);
  }
}
