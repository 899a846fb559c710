/* Multiply.c - the products of a tile of scaled_mm: see ScaledMm.h.
 *
 * For each 128 of the reduction a warpgroup waits for the stage, issues wgmma, and releases the stage
 * before. In the gradient of the weights what lies outside the group is cleared in shared memory
 * first, in both operands: it must contribute nothing, not even a NaN.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "passes/scaled_grouped_mm/ScaledMm.h"

#include "lib/Kernel/Warp.h"

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

/* The word whose lowest `bytes` bytes are set; bytes is clamped to 0..4. */
static MlirValue low_bytes(moe__builder_t *b, MlirValue bytes) {
  MlirValue clamped = moe__smin(b, moe__smax(b, bytes, moe__i32(b, 0)), moe__i32(b, 4));
  MlirValue bits = moe__zext(b, moe__shl(b, clamped, 3), b->i64);
  MlirValue bit = moe__op1(b, "arith.shli", b->i64, MOE__VALUES(moe__i64(b, 1), bits), NULL);
  return moe__trunc(b, moe__sub(b, bit, moe__i64(b, 1)), b->i32);
}

/* Clears what lies outside the group in the step of 32 tokens that starts at `step` of a stage whose
 * first token is `at`, in both tiles. All multiplying warps take part: each thread has one 16-byte
 * column of the swizzled rows, in every 128th row. */
static void clear_step(moe__scaled_mm_t *s, const moe__mm_reduction_t *reduction, MlirValue buffer,
                       MlirValue at, MlirValue step) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  int rows = MOE__MM_TILE_ROWS + s->schedule.tile_n, rows_at_once = MOE__MM_THREADS / 2;
  MlirValue half = moe__and(b, kernel->thread, moe__i32(b, 1));
  MlirValue row = moe__lshr(b, kernel->thread, 1);
  MlirValue token = moe__add(b, step, moe__shl(b, half, 4));
  MlirValue masks[4];
  for (int i = 0; i < 4; i++) {
    MlirValue word = moe__add(b, token, moe__i32(b, 4 * i));
    MlirValue before_end = low_bytes(b, moe__sub(b, reduction->end, word));
    MlirValue before_start = low_bytes(b, moe__sub(b, reduction->start, word));
    masks[i] = moe__and(b, before_end, moe__xor(b, before_start, moe__i32(b, -1)));
  }
  MlirValue mask = moe__vector(b, 4, masks);
  MlirValue chunk = moe__lshr(b, moe__sub(b, token, at), 4);
  MlirValue swizzled = moe__xor(b, chunk, moe__and(b, row, moe__i32(b, 7)));
  MlirValue own =
      moe__offset(b, buffer, moe__add(b, moe__shl(b, row, 7), moe__shl(b, swizzled, 4)));
  for (int i = 0; i < rows; i += rows_at_once) {
    MlirValue is_row = moe__ult(b, row, moe__i32(b, rows - i));
    moe__if_t inside = moe__if_begin(b, is_row, false);
    MlirValue address = moe__offset_by(b, own, i * MOE__MM_DEPTH);
    MlirValue words = moe__load_aligned(b, address, mlirValueGetType(mask), 16);
    moe__store_aligned(b, moe__and(b, words, mask), address, 16);
    moe__if_end(b, &inside);
  }
}

/* Clears what lies outside the group in a stage whose first token is `at`: the group starts in the first
 * step of the first block, and where it ends in the middle of a step this is the last one that is
 * multiplied, of the last block. `is_last`: whether this may be that block. */
static void clear_outside(moe__scaled_mm_t *s, const moe__mm_reduction_t *reduction,
                          MlirValue buffer, MlirValue at, bool is_last) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue starts = moe__slt(b, at, reduction->start), ends = {NULL}, last = {NULL};
  if (is_last) {
    MlirValue count = moe__smax(b, moe__sub(b, reduction->end, at), moe__i32(b, 1));
    MlirValue before = moe__and(b, moe__sub(b, count, moe__i32(b, 1)), moe__i32(b, -MOE__MM_STEP));
    last = moe__add(b, at, before);
    ends = moe__slt(b, reduction->end, moe__add(b, last, moe__i32(b, MOE__MM_STEP)));
  }
  moe__if_t clear = moe__if_begin(b, is_last ? moe__or(b, starts, ends) : starts, false);
  moe__if_t start = moe__if_begin(b, starts, false);
  clear_step(s, reduction, buffer, at, at);
  moe__if_end(b, &start);
  if (is_last) {
    moe__if_t end = moe__if_begin(b, ends, false);
    clear_step(s, reduction, buffer, at, last);
    moe__if_end(b, &end);
  }
  moe__fence_shared_to_async(b);
  moe__named_barrier(b, MOE__MM_CLEARED_BARRIER, MOE__MM_THREADS);
  moe__if_end(b, &clear);
}

/* Waits for the stage at `now`, which holds block number `block`, and gives its buffer. The first block
 * may be the last one of the reduction. */
static MlirValue wait_for_stage(moe__scaled_mm_t *s, const moe__mm_reduction_t *reduction,
                                MlirValue block, moe__cursor_t now, bool is_first) {
  moe__kernel_t *kernel = &s->kernel;
  moe__ring_wait(kernel, &s->ring, now);
  MlirValue buffer = moe__ring_buffer(kernel, &s->ring, now);
  if (s->which == MOE__GRADIENT)
    clear_outside(s, reduction, buffer, moe__mm_block_at(s, reduction, block), is_first);
  return buffer;
}

/* Waits for the stage at `now`, which holds block number `block`, and issues the product of its tiles;
 * steps: as of the reduction, null for all of them. */
static moe__accumulator_t multiply_stage(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                                         const moe__mm_reduction_t *reduction, MlirValue block,
                                         moe__cursor_t now, moe__accumulator_t accumulator,
                                         bool fresh, MlirValue steps) {
  moe__builder_t *b = &s->kernel.builder;
  moe__fp8_t row_type = s->side[0]->element, column_type = s->side[1]->element;
  MlirValue buffer = wait_for_stage(s, reduction, block, now, steps.ptr != NULL);
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
  moe__builder_t *b = &s->kernel.builder;
  return multiply_stage(s, self, reduction, moe__i32(b, 0), cursor,
                        moe__wgmma_zero(b, s->schedule.tile_n), true, reduction->last_steps);
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
    accumulator = multiply_stage(s, self, reduction, blocks.index, now, accumulator, false,
                                 (MlirValue){NULL});
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
    part = multiply_stage(s, self, reduction, blocks.index, now,
                          moe__wgmma_zero(b, s->schedule.tile_n), true, (MlirValue){NULL});
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
