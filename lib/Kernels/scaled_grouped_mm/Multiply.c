/* Multiply.c - the products of a tile of scaled_mm, added in the tensor core's own accumulator: see
 * Multiply.h.
 *
 * For each k-tile a warpgroup waits for the stage, issues wgmma, and releases the stage before.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/scaled_grouped_mm/Multiply.h"

#include "lib/Device/Warp.h"

void moe__mm_release(moe__scaled_mm_t *s, const moe__mm_position_t *self, moe__cursor_t cursor) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue ctas = moe__i32(b, s->schedule.cluster);
  MOE__IF (b, moe__ult(b, self->lane, ctas)) {
    if (s->schedule.cluster > 1)
      moe__ring_release_remote(&s->kernel, &s->layout.ring, cursor, self->lane);
    else
      moe__ring_release(&s->kernel, &s->layout.ring, cursor);
  }
}

void moe__mm_pass_over(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                       const moe__mm_reduction_t *reduction, moe__cursor_t cursor) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  MOE__FOR (b, k_tile, 0, reduction->k_tiles, 1, MOE__CARRY_CURSOR(cursor)) {
    moe__ring_wait(kernel, &s->layout.ring, cursor);
    moe__warp_barrier(b);
    moe__mm_release(s, self, cursor);
    cursor = moe__cursor_next(b, &s->layout.ring, cursor);
  }
}

/* ---- A stage ---- */

MlirValue moe__mm_parts_of_stage(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                                 moe__cursor_t now, int count,
                                 MlirValue rows[MOE__MM_MAX_FRAGMENTS]) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  MlirValue buffer = moe__ring_buffer(kernel, &s->layout.ring, now);
  if (s->schedule.pingpong)
    for (int i = 0; i < count; i++)
      rows[i] = moe__offset_by(b, buffer, i * MOE__WGMMA_M * MOE__MM_TILE_K);
  else
    rows[0] = moe__offset(b, buffer, moe__mul(b, self->warpgroup, MOE__WGMMA_M * MOE__MM_TILE_K));
  return moe__offset_by(b, buffer, moe__mm_tile_rows(&s->schedule) * MOE__MM_TILE_K);
}

MlirValue moe__mm_wait_for_stage(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                                 const moe__mm_reduction_t *reduction,
                                 const moe__mm_beside_t *beside, MlirValue index, moe__cursor_t now,
                                 int count, MlirValue rows[MOE__MM_MAX_FRAGMENTS]) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  moe__ring_wait(kernel, &s->layout.ring, now);
  if (beside->landed)
    beside->landed(beside->user, moe__eq(b, moe__add(b, index, 1), reduction->k_tiles));
  return moe__mm_parts_of_stage(s, self, now, count, rows);
}

/* The descriptor of an operand's rows in a stage. */
static MlirValue descriptor_of(moe__scaled_mm_t *s, const moe__mm_operand_t *operand,
                               MlirValue at) {
  moe__builder_t *b = &s->kernel.builder;
  return operand->mn_major
             ? moe__wgmma_descriptor_mn(b, at, MOE__MM_BLOCK_BYTES, s->schedule.cluster > 1)
             : moe__wgmma_descriptor(b, at);
}

/* The products of a stage of 16-bit tiles, whose descriptors are given. */
static void issue_halves(moe__scaled_mm_t *s, int count, moe__accumulator_t *accumulators,
                         bool fresh, const MlirValue *rows, MlirValue columns,
                         moe__mm_steps_t steps) {
  moe__builder_t *b = &s->kernel.builder;
  moe__wgmma_halves_t halves = {s->half, s->side[0]->mn_major, s->side[1]->mn_major};
  if (!steps.end.ptr)
    moe__wgmma_k64_below(b, count, accumulators, fresh, rows, columns, &halves);
  for (int i = 0; steps.end.ptr && i < count; i++)
    accumulators[i] = moe__wgmma_half_steps(b, accumulators[i], fresh, rows[i], columns, &halves,
                                            steps.begin, steps.end);
}

void moe__mm_multiply_stage(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                            const moe__mm_reduction_t *reduction, const moe__mm_beside_t *beside,
                            MlirValue index, moe__cursor_t now, int count,
                            moe__accumulator_t *accumulators, bool fresh, moe__mm_steps_t steps) {
  moe__builder_t *b = &s->kernel.builder;
  moe__fp8_t row_type = s->side[0]->element, column_type = s->side[1]->element;
  MlirValue rows[MOE__MM_MAX_FRAGMENTS];
  MlirValue columns = moe__mm_wait_for_stage(s, self, reduction, beside, index, now, count, rows);
  if (!fresh)
    moe__wgmma_fence(b);
  for (int i = 0; i < count; i++) {
    if (fresh)
      accumulators[i] = moe__wgmma_fence_fresh(b, accumulators[i]);
    rows[i] = descriptor_of(s, s->side[0], rows[i]);
  }
  columns = descriptor_of(s, s->side[1], columns);
  if (!mlirTypeIsNull(s->half))
    issue_halves(s, count, accumulators, fresh, rows, columns, steps);
  else if (!steps.end.ptr)
    moe__wgmma_k128_below(b, count, accumulators, fresh, rows, columns, row_type, column_type);
  for (int i = 0; mlirTypeIsNull(s->half) && steps.end.ptr && i < count; i++)
    accumulators[i] = moe__wgmma_steps(b, accumulators[i], fresh, rows[i], columns, row_type,
                                       column_type, steps.begin, steps.end);
  moe__wgmma_commit(b);
}

void moe__mm_multiply_first(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                            const moe__mm_reduction_t *reduction, const moe__mm_beside_t *beside,
                            moe__cursor_t cursor, int count, moe__accumulator_t *accumulators) {
  moe__builder_t *b = &s->kernel.builder;
  for (int i = 0; i < count; i++)
    accumulators[i] = moe__wgmma_zero(b, s->fragment_n);
  moe__mm_steps_t steps = MOE__MM_ALL_STEPS;
  if (reduction->last_steps.ptr) {
    MlirValue is_only = moe__eq(b, reduction->k_tiles, 1);
    steps.begin = moe__select(b, is_only, reduction->skipped, moe__i32(b, 0));
    steps.end = reduction->last_steps;
  }
  moe__mm_multiply_stage(s, self, reduction, beside, moe__i32(b, 0), cursor, count, accumulators,
                         true, steps);
}

MlirValue moe__mm_rest(moe__scaled_mm_t *s, const moe__mm_reduction_t *reduction,
                       moe__mm_steps_t *steps) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue one = moe__i32(b, 1);
  if (!moe__mm_skips_steps(s))
    return one;
  MlirValue skips = moe__zext(b, moe__ne(b, reduction->skipped, 0), b->i32);
  MlirValue rest = moe__warp_uniform(b, moe__umin(b, moe__add(b, one, skips), reduction->k_tiles));
  *steps = (moe__mm_steps_t){reduction->skipped, moe__i32(b, MOE__MM_K_TILE_STEPS)};
  return rest;
}

void moe__mm_call(const moe__mm_beside_t *beside, void (*function)(void *user)) {
  if (function)
    function(beside->user);
}

/* ---- Fast sums ---- */

/* The products of stage number `index` of a tile, behind the one at the cursor, which is released
 * when its products are done. */
static void multiply_next(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                          const moe__mm_reduction_t *reduction, const moe__mm_beside_t *beside,
                          MlirValue index, int count, moe__mm_steps_t steps, moe__cursor_t *cursor,
                          moe__accumulator_t *sums) {
  moe__builder_t *b = &s->kernel.builder;
  moe__cursor_t before = *cursor;
  *cursor = moe__cursor_next(b, &s->layout.ring, before);
  moe__mm_multiply_stage(s, self, reduction, beside, index, *cursor, count, sums, false, steps);
  moe__wgmma_wait(b, 1);
  moe__mm_release(s, self, before);
}

/* One product is in flight while the next is issued. The first stands before the loop, since an
 * accumulator that other instructions clear would make ptxas wait for each product. */
void moe__mm_multiply_fast(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                           const moe__mm_reduction_t *reduction, moe__cursor_t cursor,
                           const moe__mm_beside_t *beside, int count,
                           moe__mm_fragment_t *fragments) {
  moe__builder_t *b = &s->kernel.builder;
  moe__accumulator_t sums[MOE__MM_MAX_FRAGMENTS];
  moe__mm_multiply_first(s, self, reduction, beside, cursor, count, sums);
  moe__mm_call(beside, beside->first);
  moe__mm_steps_t steps;
  MlirValue rest = moe__mm_rest(s, reduction, &steps);
  if (moe__mm_skips_steps(s)) {
    MOE__FOR (b, k_tile, 1, rest, 1, MOE__CARRY_CURSOR(cursor), &sums[0].value,
              count > 1 ? &sums[1].value : NULL) {
      multiply_next(s, self, reduction, beside, k_tile, count, steps, &cursor, sums);
    }
  }
  MOE__FOR (b, k_tile, rest, reduction->k_tiles, 1, MOE__CARRY_CURSOR(cursor), &sums[0].value,
            count > 1 ? &sums[1].value : NULL) {
    multiply_next(s, self, reduction, beside, k_tile, count, MOE__MM_ALL_STEPS, &cursor, sums);
  }
  for (int i = 0; i < count; i++)
    moe__wgmma_finish(b, sums[i], fragments[i]);
  moe__mm_release(s, self, cursor);
  moe__mm_call(beside, beside->settle);
}
