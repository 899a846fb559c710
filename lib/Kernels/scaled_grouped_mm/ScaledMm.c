/* ScaledMm.c - the kernel of scaled_grouped_mm.scaled_mm and of mm: products of FP8 matrices, and
 * of matrices of 16 bits, over ragged groups of tokens, or in batches.
 *
 * One kernel for all cases. Forward: the tokens (M,K) of group e times the weights (K,N) of
 * expert e; a group is a range of rows. Gradient: for each e, (N,M) times (M,K) over the tokens
 * of group e; a group is a range of the reduction, and every expert has the same tiles. Batched:
 * the same tiles, and the whole reduction.
 *
 * - A table of the groups is made from the offsets, in shared memory, by one warp.
 * - One warp loads. For each k-tile of each tile it waits until a stage is free, and one thread
 *   fetches two boxes by TMA.
 * - In a cluster two CTAs have tiles below one another. Each of them loads one half of the columns'
 *   operand, into both. Or the tiles lie side by side, and the rows' operand is shared.
 * - Two warpgroups or three multiply, 64 rows of each tile (Warpgroups.c); then they scale, round
 *   and store (Epilogue.h), with promoted sums while the first product of the next tile runs.
 *   Forward, a warpgroup whose rows all lie behind the end of the group multiplies nothing. Or each
 *   of two has tiles of its own, and stores one while the other multiplies (PingPong.c). With
 *   scales of MX blocks each multiplies all rows and half of the columns (MxMultiply.c).
 * - The other three warps of the loading warpgroup write the factors of MX blocks (MxScales.c), and
 *   in a gradient move their tokens (MxTokens.c); in another gradient they clear what lies outside
 *   the group (Clear.c); or they make the operands (Ahead.c).
 *
 * Forward, a tile that reaches past the end of its group multiplies rows of the next one and
 * drops them: a row depends on nothing but itself, so that even a NaN there does no harm.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/scaled_grouped_mm/ScaledMm.h"

#include "lib/Device/Warp.h"
#include "lib/Kernels/Kernels.h"
#include "lib/Kernels/scaled_grouped_mm/Epilogue.h"
#include "lib/Kernels/scaled_grouped_mm/Mx.h"

/* Registers of a thread of the loading warpgroup, and of one that multiplies: of 504 that three
 * of them have together, or 512 of four. Promoted sums take two accumulators. What the gradient's
 * loader needs to clear is more than the others', whose speed does not depend on it; and so is what
 * tokens of MX blocks take that are moved. */
static int loader_registers(const moe__scaled_mm_t *s) {
  if (moe__mm_warpgroups(&s->schedule) > MOE__MM_WARPGROUPS)
    return 32;
  return moe__mm_fits_columns(s) || (s->promoted && !moe__mm_has_mx_tokens(s)) ? 56 : 72;
}

static int multiplier_registers(const moe__scaled_mm_t *s) {
  int count = moe__mm_warpgroups(&s->schedule);
  return ((count == MOE__MM_WARPGROUPS ? 504 : 512) - loader_registers(s)) / count;
}

/* Makes the table of groups, in the first warp; the gradient's experts are ordered by all
 * threads. */
static void initialize_groups(moe__scaled_mm_t *s) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  MlirValue tokens = s->which == MOE__GRADIENT ? s->depth.value : s->rows.value;
  if (s->aligned) /* but for the room between groups */
    tokens = moe__smax(b, moe__sub(b, tokens, moe__mul(b, s->experts.value, MOE_GROUP_ALIGN)),
                       moe__i32(b, 0));
  MOE__IF (b, moe__ult(b, kernel->thread, MOE__WARP)) {
    moe__groups_initialize(&s->groups, s->offs, tokens, kernel->thread, s->status);
  }
  if (s->which != MOE__GRADIENT)
    return;
  moe__cta_barrier(b);
  moe__groups_sort(&s->groups);
}

/* After it every thread sees what all have prepared, and every CTA of the cluster has begun, so
 * that the others may reach it. */
static void begin_together(moe__scaled_mm_t *s) {
  (s->schedule.cluster > 1 ? moe__cluster_barrier : moe__cta_barrier)(&s->kernel.builder);
}

/* No CTA of a cluster ends while another may still reach it. */
static void end_together(moe__scaled_mm_t *s) {
  if (s->schedule.cluster == 1)
    return;
  moe__warp_barrier(&s->kernel.builder);
  moe__cluster_barrier(&s->kernel.builder);
}

/* No more CTAs than tiles, where forward each token may be a group of its own; none for an empty
 * result. */
static const moe__expression_t *grid_expression(moe__scaled_mm_t *s) {
  moe__record_t *record = &s->kernel.record;
  const moe__expression_t *tiles, *columns = moe__expression_ceildiv(record, s->columns.expression,
                                                                     s->operands[MOE__MM_QB].rows);
  if (s->which == MOE__FORWARD) {
    tiles = moe__expression_mul(record, MOE__EXPRESSIONS(s->rows.expression, columns));
  } else {
    const moe__expression_t *rows =
        moe__expression_ceildiv(record, s->rows.expression, s->operands[MOE__MM_QA].rows);
    tiles = moe__expression_mul(record, MOE__EXPRESSIONS(s->experts.expression, rows, columns));
  }
  return s->schedule.cluster > 1
             ? moe__expression_persistent_clusters(record, tiles, s->schedule.cluster)
             : moe__expression_min(record, tiles, moe__expression_num_sms(record));
}

/* Builds what all threads of a CTA do, for tiles of the schedule. */
static void build(moe__scaled_mm_t *s) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  if (moe__mm_has_groups(s))
    s->groups = moe__groups_create(
        kernel, &s->layout.groups, s->experts.value, s->operands[MOE__MM_QA].rows,
        moe__ceil_div(b, s->columns.value, s->operands[MOE__MM_QB].rows), s->schedule.band);

  MlirValue loader = moe__i32(b, moe__mm_threads(&s->schedule));
  s->loads = moe__eq(b, kernel->thread, loader);
  MOE__IF (b, s->loads) {
    moe__tma_prefetch_map(b, s->operands[MOE__MM_QA].map);
    moe__tma_prefetch_map(b, s->operands[MOE__MM_QB].map);
    moe__mm_store_prefetch_map(s);
    int readers = s->schedule.pingpong
                      ? 1
                      : moe__mm_warpgroups(&s->schedule); /* warpgroups that read a stage */
    if (moe__mm_has_mx_scales(s))
      moe__ring_initialize_filled(kernel, &s->layout.ring, 1 + MOE__MM_MX_WRITERS,
                                  moe__mm_mx_readers(&s->schedule));
    else
      moe__ring_initialize_filled(kernel, &s->layout.ring, moe__mm_clears(s) ? MOE__MM_CLEARERS : 1,
                                  readers * MOE__MM_WARPGROUP / MOE__WARP * s->schedule.cluster);
    moe__mm_slots_initialize(s);
    if (s->schedule.pingpong)
      moe__mm_turns_initialize(s);
    if (moe__mm_has_mx_tokens(s))
      moe__mm_mx_tokens_initialize(s);
    else if (moe__mm_clears(s))
      moe__mm_clear_initialize(s);
  }
  if (moe__mm_has_groups(s))
    initialize_groups(s);
  begin_together(s);
  if (s->makes_operands)
    moe__mm_make_first(s);

  MOE__IF (b, moe__ult(b, kernel->thread, loader)) {
    moe__registers_increase(b, multiplier_registers(s));
    if (moe__mm_has_mx_scales(s))
      moe__mm_multiply_mx(s);
    else if (s->schedule.pingpong)
      moe__mm_multiply_in_turn(s);
    else
      moe__mm_multiply_tiles(s);
  }
  MOE__ELSE (b) {
    moe__registers_decrease(b, loader_registers(s));
    if (moe__mm_has_mx_scales(s) || moe__mm_clears(s) || s->makes_operands) {
      MlirValue others = moe__i32(b, moe__mm_threads(&s->schedule) + MOE__WARP);
      MOE__IF (b, moe__ule(b, others, kernel->thread)) {
        if (moe__mm_has_mx_scales(s))
          moe__mm_mx_write_factors(s);
        else if (s->makes_operands)
          moe__mm_make_rest(s);
        else
          moe__mm_clear(s);
      }
    }
    moe__mm_load(s);
  }
  end_together(s);
}

static bool lower(const moe__lowering_t *lowering) {
  MlirOperation op = lowering->op;
  const moe__mm_layout_t *layout = lowering->layout;
  const moe__mm_schedule_t *schedule = lowering->schedule;
  moe__scaled_mm_t s = {.schedule = *schedule, .layout = *layout};
  if (!s.schedule.swap_operands)
    s.schedule.pieces = 1;
  moe__mm_read_op(&s, op);
  moe__kernel_t *kernel = &s.kernel;
  moe__builder_t *b = &kernel->builder;
  moe__lowering_begin(lowering, kernel);
  moe__mm_add_parameters(&s, op);
  moe__mm_add_requirements(&s, op);
  moe__kernel_cluster(kernel, s.schedule.cluster);
  moe__kernel_prologue(kernel);
  moe__kernel_await_launches(kernel);
  const moe__expression_t *grid = grid_expression(&s);
  MlirValue is_narrow = {NULL};
  if (s.wide_map.ptr)
    is_narrow = moe__mm_is_narrow(&s);
  MOE__IF (b, is_narrow) {
    build(&s);
  }
  if (s.wide_map.ptr) {
    MOE__ELSE (b) {
      moe__mm_widen(&s, op);
      build(&s);
    }
  }
  moe__lowering_end(lowering, kernel, grid);
  return true;
}

const moe__kernel_definition_t moe__scaled_mm_kernel = {
    .ops = {MOE__OP_SCALED_MM, MOE__OP_SCALED_MM_BIAS, MOE__OP_MM, MOE__OP_MM_BIAS,
            MOE__OP_DEQUANTIZE_MM, MOE__OP_DEQUANTIZE_MM_BIAS},
    .has_kernel = moe__mm_has_kernel,
    .schedule = &moe__mm_schedule,
    .candidates = moe__mm_candidates,
    .layout_size = sizeof(moe__mm_layout_t),
    .layout = moe__mm_lay_out,
    .lower = lower,
};
