/* Multiply.c - the products of a tile of scaled_mm: see ScaledMm.h.
 *
 * For each 128 of the reduction a warpgroup waits for the stage, issues wgmma, and releases the stage
 * before.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "passes/scaled_grouped_mm/ScaledMm.h"

/* A warp's arrival, at all blocks whose copies fill the stage. */
static void release(moe__scaled_mm_t *s, const moe__mm_position_t *self, moe__cursor_t cursor) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue blocks = moe__i32(b, s->schedule.cluster);
  moe__if_t arrive = moe__if_begin(b, moe__ult(b, self->lane, blocks), false);
  if (s->schedule.cluster > 1)
    moe__ring_release_remote(&s->kernel, &s->ring, cursor, self->lane);
  else
    moe__ring_release(&s->kernel, &s->ring, cursor);
  moe__if_end(b, &arrive);
}

/* Waits for the stage at `now` and issues the product of its tiles; steps: as of the reduction, null for
 * all of them. */
static moe__accumulator_t multiply_stage(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                                         moe__cursor_t now, moe__accumulator_t accumulator,
                                         bool fresh, MlirValue steps) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  moe__fp8_t row_type = s->side[0]->element, column_type = s->side[1]->element;
  moe__ring_wait(kernel, &s->ring, now);
  MlirValue buffer = moe__ring_buffer(kernel, &s->ring, now);
  MlirValue rows = moe__offset(
      b, buffer, moe__mul(b, self->warpgroup, moe__i32(b, MOE__WGMMA_M * MOE__MM_DEPTH)));
  MlirValue columns = moe__offset_by(b, buffer, MOE__MM_TILE_ROWS * MOE__MM_DEPTH);
  if (fresh)
    accumulator = moe__wgmma_fence_fresh(b, accumulator);
  else
    moe__wgmma_fence(b);
  rows = moe__wgmma_descriptor(b, rows);
  columns = moe__wgmma_descriptor(b, columns);
  accumulator =
      steps.ptr
          ? moe__wgmma_steps(b, accumulator, fresh, rows, columns, row_type, column_type, steps)
          : moe__wgmma_k128(b, accumulator, fresh, rows, columns, row_type, column_type);
  moe__wgmma_commit(b);
  return accumulator;
}

/* The product of the first stage of a tile. */
static moe__accumulator_t multiply_first(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                                         const moe__mm_reduction_t *reduction,
                                         moe__cursor_t cursor) {
  moe__accumulator_t zero = moe__wgmma_zero(&s->kernel.builder, s->schedule.tile_n);
  return multiply_stage(s, self, cursor, zero, true, reduction->last_steps);
}

/* One product is in flight while the next is issued. The first stands before the loop, since an
 * accumulator that other instructions clear would make ptxas wait for each product. */
static void multiply_fast(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                          const moe__mm_reduction_t *reduction, moe__cursor_t cursor,
                          void (*between)(void *user), void *user,
                          MlirValue registers[MOE__WGMMA_MAX_N / 2]) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue one = moe__i32(b, 1);
  moe__accumulator_t accumulator = multiply_first(s, self, reduction, cursor);
  between(user);
  moe__for_t blocks = moe__for_begin(b, one, reduction->blocks, one, 3,
                                     (MlirValue[]){cursor.stage, cursor.phase, accumulator.value});
  {
    moe__cursor_t before = {blocks.carried[0], blocks.carried[1]};
    moe__cursor_t now = moe__cursor_next(b, &s->ring, before);
    accumulator.value = blocks.carried[2];
    accumulator = multiply_stage(s, self, now, accumulator, false, (MlirValue){NULL});
    moe__wgmma_wait(b, 1); /* the product before this one is done, and its stage free */
    release(s, self, before);
    moe__for_end(b, &blocks, (MlirValue[]){now.stage, now.phase, accumulator.value});
  }
  moe__cursor_t last = {blocks.carried[0], blocks.carried[1]};
  accumulator.value = blocks.carried[2];
  moe__wgmma_finish(b, accumulator, registers);
  release(s, self, last);
}

/* Sums over at most 128 of the reduction from the tensor core, added up in fp32 while the other
 * warpgroup multiplies. */
static void multiply_promoted(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                              const moe__mm_reduction_t *reduction, moe__cursor_t cursor,
                              void (*between)(void *user), void *user,
                              MlirValue registers[MOE__WGMMA_MAX_N / 2]) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue one = moe__i32(b, 1);
  moe__accumulator_t part = multiply_first(s, self, reduction, cursor);
  between(user);
  MlirValue parts[MOE__WGMMA_MAX_N / 2];
  moe__wgmma_finish(b, part, parts);
  release(s, self, cursor);
  moe__accumulator_t sum = moe__accumulator_pack(b, s->schedule.tile_n, parts);
  moe__cursor_t second = moe__cursor_next(b, &s->ring, cursor);
  moe__for_t blocks = moe__for_begin(b, one, reduction->blocks, one, 3,
                                     (MlirValue[]){second.stage, second.phase, sum.value});
  {
    moe__cursor_t now = {blocks.carried[0], blocks.carried[1]};
    sum.value = blocks.carried[2];
    part = multiply_stage(s, self, now, moe__wgmma_zero(b, s->schedule.tile_n), true,
                          (MlirValue){NULL});
    moe__wgmma_finish(b, part, parts);
    release(s, self, now);
    moe__accumulator_unpack(b, sum, registers);
    for (int i = 0; i < s->schedule.tile_n / 2; i++)
      registers[i] = moe__fadd(b, registers[i], parts[i]);
    sum = moe__accumulator_pack(b, s->schedule.tile_n, registers);
    moe__cursor_t next = moe__cursor_next(b, &s->ring, now);
    moe__for_end(b, &blocks, (MlirValue[]){next.stage, next.phase, sum.value});
  }
  sum.value = blocks.carried[2];
  moe__accumulator_unpack(b, sum, registers);
}

void moe__mm_multiply(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                      const moe__mm_reduction_t *reduction, moe__cursor_t cursor,
                      void (*between)(void *user), void *user,
                      MlirValue registers[MOE__WGMMA_MAX_N / 2]) {
  (s->promoted ? multiply_promoted : multiply_fast)(s, self, reduction, cursor, between, user,
                                                    registers);
}

void moe__mm_pass_over(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                       const moe__mm_reduction_t *reduction, moe__cursor_t cursor) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  moe__for_t blocks = moe__for_begin(b, moe__i32(b, 0), reduction->blocks, moe__i32(b, 1), 2,
                                     (MlirValue[]){cursor.stage, cursor.phase});
  moe__cursor_t now = {blocks.carried[0], blocks.carried[1]};
  moe__ring_wait(kernel, &s->ring, now);
  moe__warp_barrier(b);
  release(s, self, now);
  moe__cursor_t next = moe__cursor_next(b, &s->ring, now);
  moe__for_end(b, &blocks, (MlirValue[]){next.stage, next.phase});
}
