/* Promote.c - promoted sums of scaled_mm: sums over at most 128 of the reduction come from the
 * tensor core, and are added up in fp32 while another warpgroup multiplies. See Multiply.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/scaled_grouped_mm/Multiply.h"

#include "lib/Device/Warp.h"
#include "lib/Kernels/scaled_grouped_mm/Blocks.h"

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

/* Where the next product finds its stage's parts, the warpgroup's rows and the columns: their
 * descriptors; with scales of blocks as of moe__wgmma_place. */
typedef struct stage_t {
  MlirValue rows, columns;
} stage_t;

static stage_t describe(moe__scaled_mm_t *s, const moe__mm_position_t *self, moe__cursor_t cursor) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue rows[MOE__MM_MAX_FRAGMENTS];
  MlirValue columns = moe__mm_parts_of_stage(s, self, cursor, 1, rows);
  if (moe__mm_holds_block_scales(s))
    return (stage_t){moe__wgmma_place(b, rows[0]), moe__wgmma_place(b, columns)};
  return (stage_t){moe__wgmma_descriptor(b, rows[0]), moe__wgmma_descriptor(b, columns)};
}

/* Issues the product of a stage, as one that starts from nothing. */
static moe__accumulator_t multiply_landed(moe__scaled_mm_t *s, const stage_t *stage,
                                          moe__mm_steps_t steps) {
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
  moe__mm_call(beside, beside->settle);
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
                        MlirValue end, moe__mm_steps_t steps, const moe__mm_block_held_t *held,
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
    moe__mm_steps_t steps;
    MlirValue rest = moe__mm_rest(s, reduction, &steps);
    if (moe__mm_skips_steps(s))
      add_k_tiles(s, self, moe__i32(b, 1), rest, steps, NULL, &a);
    add_k_tiles(s, self, rest, reduction->k_tiles, MOE__MM_ALL_STEPS, NULL, &a);
    return a.sum;
  }
  MOE__FOR (b, from, 0, reduction->k_tiles, MOE__MM_HELD, MOE__CARRY_CURSOR(a.cursor), &a.sum.value,
            &a.stage.rows, &a.stage.columns, &held->scales) {
    MlirValue behind = moe__add(b, from, MOE__MM_HELD);
    MlirValue end = moe__umin(b, behind, reduction->k_tiles);
    MlirValue next = moe__mm_block_load_held(s, held, behind);
    add_k_tiles(s, self, moe__umax(b, from, moe__i32(b, 1)), end, MOE__MM_ALL_STEPS, held, &a);
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
                         const moe__mm_block_held_t *held, MlirValue index, int count,
                         moe__cursor_t *cursor, moe__accumulator_t *sum) {
  moe__builder_t *b = &s->kernel.builder;
  moe__accumulator_t accumulators[MAX_AT_ONCE];
  moe__cursor_t at[MAX_AT_ONCE];
  MlirValue number[MAX_AT_ONCE];
  moe__mm_fragment_t registers;
  part_t part;
  for (int i = 0; i < count; i++) {
    at[i] = i == 0 ? *cursor : moe__cursor_next(b, &s->layout.ring, at[i - 1]);
    number[i] = i == 0 ? index : moe__add(b, index, i);
    accumulators[i] = moe__wgmma_zero(b, s->fragment_n);
    moe__mm_multiply_stage(s, self, reduction, beside, number[i], at[i], 1, &accumulators[i], true,
                           MOE__MM_ALL_STEPS);
  }
  for (int i = 0; i < count; i++) {
    finish_part(s, self, at[i], accumulators[i], count - 1 - i, held, number[i], &part);
    if (i == 0)
      moe__accumulator_unpack(b, *sum, registers);
    add_part(s, &part, registers);
  }
  *sum = moe__accumulator_pack(b, s->fragment_n, registers);
  *cursor = moe__cursor_next(b, &s->layout.ring, at[count - 1]);
}

void moe__mm_multiply_promoted(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                               const moe__group_tile_t *tile, const moe__mm_reduction_t *reduction,
                               moe__cursor_t cursor, const moe__mm_beside_t *beside,
                               moe__mm_fragment_t registers) {
  moe__builder_t *b = &s->kernel.builder;
  moe__mm_block_held_t held = {0};
  if (moe__mm_has_block_scales(s))
    held.loads = moe__mm_block_loads(s, tile);
  moe__accumulator_t accumulator;
  moe__mm_multiply_first(s, self, reduction, beside, cursor, 1, &accumulator);
  moe__mm_call(beside, beside->first);
  moe__accumulator_t sum =
      first_part(s, self, cursor, beside, accumulator, (MlirValue){NULL}, &held);
  cursor = moe__cursor_next(b, &s->layout.ring, cursor);
  MlirValue rest = moe__i32(b, 1);
  if (at_once(s) > 1) {
    MlirValue all = moe__sub(b, reduction->k_tiles, 1);
    rest = moe__sub(b, reduction->k_tiles, moe__urem(b, all, at_once(s)));
    MOE__FOR (b, k_tile, 1, rest, at_once(s), MOE__CARRY_CURSOR(cursor), &sum.value) {
      add_products(s, self, reduction, beside, &held, k_tile, at_once(s), &cursor, &sum);
    }
  }
  MOE__FOR (b, k_tile, rest, reduction->k_tiles, 1, MOE__CARRY_CURSOR(cursor), &sum.value) {
    add_products(s, self, reduction, beside, &held, k_tile, 1, &cursor, &sum);
  }
  moe__accumulator_unpack(b, sum, registers);
}
