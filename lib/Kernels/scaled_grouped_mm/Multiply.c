/* Multiply.c - the products of a tile of scaled_mm: see ScaledMm.h.
 *
 * For each k-tile a warpgroup waits for the stage, issues wgmma, and releases the stage before.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/scaled_grouped_mm/ScaledMm.h"

#include "lib/Device/Warp.h"
#include "lib/Kernels/scaled_grouped_mm/Blocks.h"
#include "lib/Kernels/scaled_grouped_mm/Mx.h"

bool moe__mm_scales_sums(const moe__scaled_mm_t *s) {
  moe__mm_scales_t scales = s->operands[MOE__MM_QA].granularity;
  return scales == MOE__SCALE_OF_BLOCK || scales == MOE__SCALE_OF_MX_BLOCK ||
         scales == MOE__NO_SCALE;
}

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

/* Where the parts of a stage are: the rows of each fragment, and, as the result, the columns. */
static MlirValue parts_of_stage(moe__scaled_mm_t *s, const moe__mm_position_t *self,
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

/* Waits for stage number `index` (i32) of a tile, and gives where its parts are. */
static MlirValue wait_for_stage(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                                const moe__mm_reduction_t *reduction,
                                const moe__mm_beside_t *beside, MlirValue index, moe__cursor_t now,
                                int count, MlirValue rows[MOE__MM_MAX_FRAGMENTS]) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  moe__ring_wait(kernel, &s->layout.ring, now);
  if (beside->landed)
    beside->landed(beside->user, moe__eq(b, moe__add(b, index, 1), reduction->k_tiles));
  return parts_of_stage(s, self, now, count, rows);
}

/* Some of the steps of a stage (i32), or all where `end` is null. */
typedef struct steps_t {
  MlirValue begin, end;
} steps_t;

static const steps_t ALL_STEPS;

/* The descriptor of an operand's rows in a stage. */
static MlirValue descriptor_of(moe__scaled_mm_t *s, const moe__mm_operand_t *operand,
                               MlirValue at) {
  moe__builder_t *b = &s->kernel.builder;
  return operand->mn_major ? moe__wgmma_descriptor_mn(b, at, MOE__MM_BLOCK_BYTES)
                           : moe__wgmma_descriptor(b, at);
}

/* The products of a stage of 16-bit tiles, whose descriptors are given. */
static void issue_halves(moe__scaled_mm_t *s, int count, moe__accumulator_t *accumulators,
                         bool fresh, const MlirValue *rows, MlirValue columns, steps_t steps) {
  moe__builder_t *b = &s->kernel.builder;
  moe__wgmma_halves_t halves = {s->half, s->side[0]->mn_major, s->side[1]->mn_major};
  if (!steps.end.ptr)
    moe__wgmma_k64_below(b, count, accumulators, fresh, rows, columns, &halves);
  for (int i = 0; steps.end.ptr && i < count; i++)
    accumulators[i] = moe__wgmma_half_steps(b, accumulators[i], fresh, rows[i], columns, &halves,
                                            steps.begin, steps.end);
}

/* Waits for the stage at `now` and issues the products of its tiles. */
static void multiply_stage(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                           const moe__mm_reduction_t *reduction, const moe__mm_beside_t *beside,
                           MlirValue index, moe__cursor_t now, int count,
                           moe__accumulator_t *accumulators, bool fresh, steps_t steps) {
  moe__builder_t *b = &s->kernel.builder;
  moe__fp8_t row_type = s->side[0]->element, column_type = s->side[1]->element;
  MlirValue rows[MOE__MM_MAX_FRAGMENTS];
  MlirValue columns = wait_for_stage(s, self, reduction, beside, index, now, count, rows);
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

/* The products of the first stage of a tile. */
static void multiply_first(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                           const moe__mm_reduction_t *reduction, const moe__mm_beside_t *beside,
                           moe__cursor_t cursor, int count, moe__accumulator_t *accumulators) {
  moe__builder_t *b = &s->kernel.builder;
  for (int i = 0; i < count; i++)
    accumulators[i] = moe__wgmma_zero(b, s->fragment_n);
  steps_t steps = ALL_STEPS;
  if (reduction->last_steps.ptr) {
    MlirValue is_only = moe__eq(b, reduction->k_tiles, 1);
    steps.begin = moe__select(b, is_only, reduction->skipped, moe__i32(b, 0));
    steps.end = reduction->last_steps;
  }
  multiply_stage(s, self, reduction, beside, moe__i32(b, 0), cursor, count, accumulators, true,
                 steps);
}

static void call(const moe__mm_beside_t *beside, void (*function)(void *user)) {
  if (function)
    function(beside->user);
}

/* The products of stage number `index` of a tile, behind the one at the cursor, which is released
 * when its products are done. */
static void multiply_next(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                          const moe__mm_reduction_t *reduction, const moe__mm_beside_t *beside,
                          MlirValue index, int count, steps_t steps, moe__cursor_t *cursor,
                          moe__accumulator_t *sums) {
  moe__builder_t *b = &s->kernel.builder;
  moe__cursor_t before = *cursor;
  *cursor = moe__cursor_next(b, &s->layout.ring, before);
  multiply_stage(s, self, reduction, beside, index, *cursor, count, sums, false, steps);
  moe__wgmma_wait(b, 1);
  moe__mm_release(s, self, before);
}

/* One product is in flight while the next is issued. The first stands before the loop, since an
 * accumulator that other instructions clear would make ptxas wait for each product. */
static void multiply_fast(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                          const moe__mm_reduction_t *reduction, moe__cursor_t cursor,
                          const moe__mm_beside_t *beside, int count,
                          moe__mm_fragment_t *fragments) {
  moe__builder_t *b = &s->kernel.builder;
  moe__accumulator_t sums[MOE__MM_MAX_FRAGMENTS];
  multiply_first(s, self, reduction, beside, cursor, count, sums);
  call(beside, beside->first);
  MlirValue rest = moe__i32(b, 1);
  if (moe__mm_skips_steps(s)) {
    MlirValue skips = moe__zext(b, moe__ne(b, reduction->skipped, 0), b->i32);
    rest = moe__warp_uniform(b, moe__umin(b, moe__add(b, rest, skips), reduction->k_tiles));
    steps_t steps = {reduction->skipped, moe__i32(b, MOE__MM_K_TILE_STEPS)};
    MOE__FOR (b, k_tile, 1, rest, 1, MOE__CARRY_CURSOR(cursor), &sums[0].value,
              count > 1 ? &sums[1].value : NULL) {
      multiply_next(s, self, reduction, beside, k_tile, count, steps, &cursor, sums);
    }
  }
  MOE__FOR (b, k_tile, rest, reduction->k_tiles, 1, MOE__CARRY_CURSOR(cursor), &sums[0].value,
            count > 1 ? &sums[1].value : NULL) {
    multiply_next(s, self, reduction, beside, k_tile, count, ALL_STEPS, &cursor, sums);
  }
  for (int i = 0; i < count; i++)
    moe__wgmma_finish(b, sums[i], fragments[i]);
  moe__mm_release(s, self, cursor);
  call(beside, beside->settle);
}

/* ---- Promoted sums ---- */

/* What a promoted sum is made of: the sums over at most 128 of the reduction, from the tensor core,
 * and with scales of blocks the factor of each. */
typedef struct part_t {
  moe__mm_fragment_t sums, factors;
} part_t;

/* Waits for the product of the stage at `cursor`, but not for `pending` ones that were started
 * after it, and releases the stage. */
static void finish_part(moe__scaled_mm_t *s, const moe__mm_position_t *self, moe__cursor_t cursor,
                        moe__accumulator_t accumulator, int pending,
                        const moe__mm_block_held_t *held, MlirValue index, part_t *part) {
  moe__builder_t *b = &s->kernel.builder;
  if (moe__mm_has_block_scales(s)) /* while it runs */
    moe__mm_block_factors(s, self, cursor, held, index, part->factors);
  moe__wgmma_wait_through(b, pending, 1, &accumulator, 0, NULL);
  moe__accumulator_unpack(b, accumulator, part->sums);
  moe__mm_release(s, self, cursor);
}

/* Adds a part to the sums in `registers`. */
static void add_part(moe__scaled_mm_t *s, const part_t *part, moe__mm_fragment_t registers) {
  moe__builder_t *b = &s->kernel.builder;
  for (int i = 0; i < s->fragment_n / 2; i++)
    registers[i] = moe__mm_has_block_scales(s)
                       ? moe__fma(b, part->sums[i], part->factors[i], registers[i])
                       : moe__fadd(b, registers[i], part->sums[i]);
}

bool moe__mm_stores_behind(const moe__scaled_mm_t *s) {
  /* In a cluster a gradient has no registers left for it. */
  bool has_room = s->which != MOE__GRADIENT || s->schedule.cluster == 1;
  return s->promoted && has_room && !s->schedule.swap_operands && !moe__mm_has_mx_scales(s) &&
         !moe__mm_has_token_blocks(s);
}

moe__accumulator_t moe__mm_multiply_first(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                                          const moe__mm_reduction_t *reduction,
                                          moe__cursor_t cursor) {
  moe__mm_beside_t beside = {0};
  moe__accumulator_t accumulator;
  multiply_first(s, self, reduction, &beside, cursor, 1, &accumulator);
  return accumulator;
}

/* Where the next product finds its stage's parts, the warpgroup's rows and the columns: their
 * descriptors; with scales of blocks as of moe__wgmma_place. */
typedef struct stage_t {
  MlirValue rows, columns;
} stage_t;

static stage_t describe(moe__scaled_mm_t *s, const moe__mm_position_t *self, moe__cursor_t cursor) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue rows[MOE__MM_MAX_FRAGMENTS];
  MlirValue columns = parts_of_stage(s, self, cursor, 1, rows);
  if (moe__mm_holds_block_scales(s))
    return (stage_t){moe__wgmma_place(b, rows[0]), moe__wgmma_place(b, columns)};
  return (stage_t){moe__wgmma_descriptor(b, rows[0]), moe__wgmma_descriptor(b, columns)};
}

/* Issues the product of a stage, as one that starts from nothing. */
static moe__accumulator_t multiply_landed(moe__scaled_mm_t *s, const stage_t *stage,
                                          steps_t steps) {
  moe__builder_t *b = &s->kernel.builder;
  moe__accumulator_t accumulator = moe__wgmma_fence_fresh(b, moe__wgmma_zero(b, s->fragment_n));
  MlirValue rows = stage->rows, columns = stage->columns;
  if (moe__mm_holds_block_scales(s)) {
    rows = moe__wgmma_descriptor_at(b, rows);
    columns = moe__wgmma_descriptor_at(b, columns);
  }
  if (steps.end.ptr)
    accumulator = moe__wgmma_steps(b, accumulator, true, rows, columns, s->side[0]->element,
                                   s->side[1]->element, steps.begin, steps.end);
  else
    moe__wgmma_k128_below(b, 1, &accumulator, true, &rows, columns, s->side[0]->element,
                          s->side[1]->element);
  moe__wgmma_commit(b);
  return accumulator;
}

/* The sum of a tile when its first product is done. nothing: -0, which that is added to, so that
 * ptxas has the sums in other registers than the product; or null. */
static moe__accumulator_t first_part(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                                     moe__cursor_t cursor, const moe__mm_beside_t *beside,
                                     moe__accumulator_t accumulator, MlirValue nothing,
                                     const moe__mm_block_held_t *held) {
  moe__builder_t *b = &s->kernel.builder;
  part_t part;
  finish_part(s, self, cursor, accumulator, 0, held, moe__i32(b, 0), &part);
  call(beside, beside->settle);
  for (int i = 0; i < s->fragment_n / 2; i++) {
    if (moe__mm_has_block_scales(s))
      part.sums[i] = moe__fmul(b, part.sums[i], part.factors[i]);
    else if (nothing.ptr)
      part.sums[i] = moe__fadd(b, part.sums[i], nothing);
  }
  return moe__accumulator_pack(b, s->fragment_n, part.sums);
}

/* -0, added to which a number stays as it is; LLVM does not know what it is. */
static MlirValue nothing(moe__scaled_mm_t *s, const moe__mm_reduction_t *reduction) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue never = moe__eq(b, reduction->k_tiles, 0);
  return moe__select(b, never, moe__f32(b, 0.0f), moe__f32(b, -0.0f));
}

/* A tile whose k-tiles are added: where the next one is, and the sum. */
typedef struct adding_t {
  moe__cursor_t cursor;
  stage_t stage;
  moe__accumulator_t sum;
} adding_t;

/* Adds k-tiles from number `first` to before `end`. While a product runs the warpgroup makes the
 * descriptors of the next stage, so that its product can be issued right behind the additions. With
 * scales of blocks one of two warpgroups waits for that stage at the end of a round, where ptxas
 * looks among the additions whether it has landed; behind the last k-tile that is the next tile's
 * first stage, or the one that says that there is none. Of three one has the time to wait later. */
static void add_k_tiles(moe__scaled_mm_t *s, const moe__mm_position_t *self, MlirValue first,
                        MlirValue end, steps_t steps, const moe__mm_block_held_t *held,
                        adding_t *a) {
  moe__builder_t *b = &s->kernel.builder;
  bool early = held && moe__mm_warpgroups(&s->schedule) == MOE__MM_WARPGROUPS;
  if (early)
    moe__ring_wait(&s->kernel, &s->layout.ring, a->cursor);
  MOE__FOR (b, k_tile, first, end, 1, MOE__CARRY_CURSOR(a->cursor), &a->sum.value, &a->stage.rows,
            &a->stage.columns) {
    if (!early)
      moe__ring_wait(&s->kernel, &s->layout.ring, a->cursor);
    moe__accumulator_t accumulator = multiply_landed(s, &a->stage, steps);
    moe__cursor_t next = moe__cursor_next(b, &s->layout.ring, a->cursor);
    a->stage = describe(s, self, next);
    part_t part;
    finish_part(s, self, a->cursor, accumulator, 0, held, k_tile, &part);
    moe__mm_fragment_t registers;
    moe__accumulator_unpack(b, a->sum, registers);
    add_part(s, &part, registers);
    a->sum = moe__accumulator_pack(b, s->fragment_n, registers);
    a->cursor = next;
    if (early)
      moe__ring_wait(&s->kernel, &s->layout.ring, a->cursor);
  }
}

moe__accumulator_t moe__mm_promote(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                                   const moe__mm_reduction_t *reduction, moe__cursor_t cursor,
                                   const moe__mm_beside_t *beside, moe__accumulator_t accumulator,
                                   moe__mm_block_held_t *held) {
  moe__builder_t *b = &s->kernel.builder;
  adding_t a = {.cursor = moe__cursor_next(b, &s->layout.ring, cursor)};
  a.stage = describe(s, self, a.cursor);
  a.sum = first_part(s, self, cursor, beside, accumulator, nothing(s, reduction), held);
  if (!held) {
    MlirValue rest = moe__i32(b, 1);
    if (moe__mm_skips_steps(s)) {
      MlirValue skips = moe__zext(b, moe__ne(b, reduction->skipped, 0), b->i32);
      rest = moe__warp_uniform(b, moe__umin(b, moe__add(b, rest, skips), reduction->k_tiles));
      steps_t steps = {reduction->skipped, moe__i32(b, MOE__MM_K_TILE_STEPS)};
      add_k_tiles(s, self, moe__i32(b, 1), rest, steps, NULL, &a);
    }
    add_k_tiles(s, self, rest, reduction->k_tiles, ALL_STEPS, NULL, &a);
    return a.sum;
  }
  MOE__FOR (b, from, 0, reduction->k_tiles, MOE__MM_HELD, MOE__CARRY_CURSOR(a.cursor), &a.sum.value,
            &a.stage.rows, &a.stage.columns, &held->scales) {
    MlirValue behind = moe__add(b, from, MOE__MM_HELD);
    MlirValue end = moe__umin(b, behind, reduction->k_tiles);
    MlirValue next = moe__mm_block_load_held(s, held, behind);
    add_k_tiles(s, self, moe__umax(b, from, moe__i32(b, 1)), end, ALL_STEPS, held, &a);
    held->scales = next;
  }
  return a.sum;
}

#define MAX_AT_ONCE 3

/* How many products of a warpgroup run while the first of them is waited for. Where operands are
 * swapped a product is short, and waiting for each takes longer than it. Their accumulators are in
 * registers, beside the sum and the factors; and all but one of the stages may be held. */
static int at_once(const moe__scaled_mm_t *s) {
  int most = s->schedule.swap_operands ? 240 / s->fragment_n : 1;
  most = most < MAX_AT_ONCE ? most : MAX_AT_ONCE;
  most = most < s->schedule.stages ? most : s->schedule.stages - 1;
  return most > 1 ? most : 1;
}

/* Adds the products of `count` k-tiles, from number `index` at `cursor` on, to the sum. */
static void add_products(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                         const moe__mm_reduction_t *reduction, const moe__mm_beside_t *beside,
                         MlirValue index, int count, moe__cursor_t *cursor,
                         moe__accumulator_t *sum) {
  moe__builder_t *b = &s->kernel.builder;
  moe__accumulator_t accumulators[MAX_AT_ONCE];
  moe__cursor_t at[MAX_AT_ONCE];
  moe__mm_fragment_t registers;
  part_t part;
  for (int i = 0; i < count; i++) {
    at[i] = i == 0 ? *cursor : moe__cursor_next(b, &s->layout.ring, at[i - 1]);
    accumulators[i] = moe__wgmma_zero(b, s->fragment_n);
    multiply_stage(s, self, reduction, beside, i == 0 ? index : moe__add(b, index, i), at[i], 1,
                   &accumulators[i], true, ALL_STEPS);
  }
  for (int i = 0; i < count; i++) {
    finish_part(s, self, at[i], accumulators[i], count - 1 - i, NULL, index, &part);
    if (i == 0)
      moe__accumulator_unpack(b, *sum, registers);
    add_part(s, &part, registers);
  }
  *sum = moe__accumulator_pack(b, s->fragment_n, registers);
  *cursor = moe__cursor_next(b, &s->layout.ring, at[count - 1]);
}

/* Sums over at most 128 of the reduction from the tensor core, added up in fp32 while the other
 * warpgroup multiplies. */
static void multiply_promoted(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                              const moe__mm_reduction_t *reduction, moe__cursor_t cursor,
                              const moe__mm_beside_t *beside, moe__mm_fragment_t registers) {
  moe__builder_t *b = &s->kernel.builder;
  moe__accumulator_t accumulator;
  multiply_first(s, self, reduction, beside, cursor, 1, &accumulator);
  call(beside, beside->first);
  moe__accumulator_t sum =
      first_part(s, self, cursor, beside, accumulator, (MlirValue){NULL}, NULL);
  cursor = moe__cursor_next(b, &s->layout.ring, cursor);
  MlirValue rest = moe__i32(b, 1);
  if (at_once(s) > 1) {
    MlirValue all = moe__sub(b, reduction->k_tiles, 1);
    rest = moe__sub(b, reduction->k_tiles, moe__urem(b, all, at_once(s)));
    MOE__FOR (b, k_tile, 1, rest, at_once(s), MOE__CARRY_CURSOR(cursor), &sum.value) {
      add_products(s, self, reduction, beside, k_tile, at_once(s), &cursor, &sum);
    }
  }
  MOE__FOR (b, k_tile, rest, reduction->k_tiles, 1, MOE__CARRY_CURSOR(cursor), &sum.value) {
    add_products(s, self, reduction, beside, k_tile, 1, &cursor, &sum);
  }
  moe__accumulator_unpack(b, sum, registers);
}

/* Adds a part of the sums, times the scales of the lane's rows and columns. of_columns: the first
 * `held` of those of columns, two at a time; the others are read now. */
static void add_scaled(moe__scaled_mm_t *s, const moe__mm_token_scales_t *scales,
                       const MlirValue *of_columns, int held, const moe__mm_fragment_t part,
                       moe__mm_fragment_t sums) {
  moe__builder_t *b = &s->kernel.builder;
  for (int j = 0; j < s->schedule.tile_n / 8; j++) {
    MlirValue pair = j < held ? of_columns[j] : moe__mm_token_column_scales(s, scales, j);
    for (int i = 0; i < 4; i++) {
      MlirValue factor = moe__fmul(b, scales->of_rows[i / 2], moe__extract(b, pair, i % 2));
      sums[4 * j + i] = moe__fma(b, factor, part[4 * j + i], sums[4 * j + i]);
    }
  }
}

/* Of these tile widths all scales of columns are in registers while a product runs, and its stage
 * is released when that is done. For others there are too few registers: so many pairs are read
 * ahead, and the others while the first are used. Three warpgroups have fewer registers. */
#define HELD_COLUMNS 128
#define HELD_PAIRS 6
#define HELD_PAIRS_OF_THREE 4

/* Sums over blocks of tokens, each times its scales. The first term of a sum is added to -0, which
 * leaves every number as it is. */
static void multiply_token_blocks(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                                  const moe__mm_reduction_t *reduction, moe__cursor_t cursor,
                                  const moe__mm_beside_t *beside, moe__mm_fragment_t registers) {
  moe__builder_t *b = &s->kernel.builder;
  int n = s->schedule.tile_n;
  bool three = moe__mm_warpgroups(&s->schedule) > MOE__MM_WARPGROUPS;
  bool holds = n <= HELD_COLUMNS && !three;
  int held = holds ? n / 8 : three ? HELD_PAIRS_OF_THREE : HELD_PAIRS;
  MlirValue tail = {NULL}, blocks = reduction->k_tiles, nothing = moe__f32(b, -0.0f);
  if (!s->aligned) {
    MlirValue has_head = moe__ne(b, moe__mm_token_head(s, reduction), 0);
    tail = moe__warp_uniform(b, moe__zext(b, has_head, b->i32));
    MlirValue has_tokens = moe__ne(b, reduction->start, reduction->end);
    MlirValue one = moe__warp_uniform(b, moe__zext(b, has_tokens, b->i32));
    blocks = moe__mul(b, reduction->k_tiles, one);
    nothing = moe__select(b, has_tokens, moe__f32(b, -0.0f), moe__f32(b, 0.0f));
  }
  call(beside, beside->first);
  call(beside, beside->settle);
  for (int i = 0; i < n / 2; i++)
    registers[i] = nothing;
  moe__accumulator_t sum = moe__accumulator_pack(b, n, registers);
  MOE__FOR (b, block, 0, blocks, 1, MOE__CARRY_CURSOR(cursor), &sum.value) {
    moe__accumulator_t accumulator = moe__wgmma_zero(b, n);
    MlirValue rows[MOE__MM_MAX_FRAGMENTS], of_columns[MOE__WGMMA_MAX_N / 8];
    MlirValue columns = wait_for_stage(s, self, reduction, beside, block, cursor, 1, rows);
    accumulator = moe__wgmma_fence_fresh(b, accumulator);
    rows[0] = moe__wgmma_descriptor(b, rows[0]);
    moe__wgmma_k128_below(b, 1, &accumulator, true, rows, moe__wgmma_descriptor(b, columns),
                          s->side[0]->element, s->side[1]->element);
    if (!s->aligned)
      accumulator = moe__mm_multiply_tail(s, self, cursor, accumulator, tail);
    moe__wgmma_commit(b);
    moe__mm_token_scales_t scales = moe__mm_token_scales(s, self, cursor);
    for (int j = 0; j < held; j++)
      of_columns[j] = moe__mm_token_column_scales(s, &scales, j);
    moe__mm_fragment_t part;
    if (holds)
      moe__end_reads_of_stage(b); /* while it runs */
    moe__wgmma_finish(b, accumulator, part);
    if (holds)
      moe__mm_release(s, self, cursor);
    moe__accumulator_unpack(b, sum, registers);
    add_scaled(s, &scales, of_columns, held, part, registers);
    sum = moe__accumulator_pack(b, n, registers);
    if (!holds) {
      moe__end_reads_of_stage(b);
      moe__mm_release(s, self, cursor);
    }
    cursor = moe__cursor_next(b, &s->layout.ring, cursor);
  }
  if (!s->aligned) {
    MOE__FOR (b, empty, blocks, reduction->k_tiles, 1) {
      moe__ring_wait(&s->kernel, &s->layout.ring, cursor);
      moe__warp_barrier(b);
      moe__mm_release(s, self, cursor);
    }
  }
  moe__accumulator_unpack(b, sum, registers);
}

void moe__mm_multiply(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                      const moe__mm_reduction_t *reduction, moe__cursor_t cursor,
                      const moe__mm_beside_t *beside, int count, moe__mm_fragment_t *fragments) {
  if (moe__mm_has_token_blocks(s))
    multiply_token_blocks(s, self, reduction, cursor, beside, fragments[0]);
  else if (s->promoted)
    multiply_promoted(s, self, reduction, cursor, beside, fragments[0]);
  else
    multiply_fast(s, self, reduction, cursor, beside, count, fragments);
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
