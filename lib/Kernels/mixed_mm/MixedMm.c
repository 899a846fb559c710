/* MixedMm.c - the kernel of scaled_grouped_mm.mixed_mm: four-bit weights times tokens of 16 bits.
 * Candidates.c chooses its schedule.
 *
 * Rows of weights are the rows of the tensor core's tiles, tokens their columns, so that few tokens
 * waste little. The weights are its first operand and come from registers, where four bits become
 * 16; the tokens are its second one and come from shared memory.
 *
 * - One thread loads weights, their scales and zero points, and tokens by TMA (Load.c).
 * - Each warpgroup multiplies 64 rows of weights with all tokens of the tile (Multiply.c); or each
 *   warp 16 rows, and maybe a part of their columns (Panels.c).
 * - Where there are fewer tiles than multiprocessors, the CTAs of a cluster divide the columns of
 *   the weights (Store.c).
 * - With experts a table of their tokens is made from the offsets, in shared memory, by one warp.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/mixed_mm/MixedMm.h"

#include "lib/Device/Tiles.h"
#include "lib/Kernels/Kernels.h"

/* ---- The warps that multiply ---- */

static moe__mixed_position_t position_of(moe__mixed_mm_t *s, MlirValue thread) {
  moe__builder_t *b = &s->kernel.builder;
  moe__mixed_position_t self = {.panel = moe__lshr(b, thread, 5),
                                .lane = moe__and(b, thread, MOE__WARP - 1)};
  if (s->schedule.slices > 1) {
    self.slice = moe__udiv(b, self.panel, s->schedule.panels);
    self.panel = moe__urem(b, self.panel, s->schedule.panels);
  }
  return self;
}

/* The sums over some k-tiles; tile: with direct, whose weights the warp loads. */
static void multiply(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                     const moe__mixed_reduction_t *reduction, const moe__mixed_tile_t *tile,
                     moe__cursor_t cursor, moe__mixed_fragment_t sums) {
  if (s->schedule.panels)
    moe__mixed_multiply_panel(s, self, reduction, tile, cursor, sums);
  else
    moe__mixed_multiply(s, self, reduction, cursor, sums);
  moe__mixed_end_sums(s, sums);
  /* Launches before this one may use the results; they have ended, as the tokens are here, but the
   * stages do not say so. */
  if (s->ahead)
    moe__grid_wait(&s->kernel.builder);
}

/* The products and the results of tile `index`, over the k-tiles of the warp's; of s->n tokens. */
static void multiply_tile(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                          const moe__mixed_reduction_t *own, MlirValue index,
                          moe__cursor_t cursor) {
  moe__builder_t *b = &s->kernel.builder;
  moe__mixed_fragment_t sums;
  moe__mixed_tile_t of_weights;
  if (s->schedule.direct)
    of_weights = moe__mixed_tile_at(s, index);
  multiply(s, self, own, s->schedule.direct ? &of_weights : NULL, cursor, sums);
  if (s->schedule.common) {
    MlirValue rest = moe__sub(b, moe__mixed_k_tiles(s), own->count);
    moe__mixed_pass(s, self, rest, moe__cursor_advance(b, &s->layout.ring, cursor, own->count));
  }
  /* Asked for here, where it is needed: so it takes no registers before. */
  moe__mixed_tile_t tile = moe__mixed_tile_at(s, moe__fresh(b, index));
  moe__mixed_position_t same = *self;
  if (moe__mixed_is_tight(&s->schedule))
    same = position_of(s, moe__fresh(b, s->kernel.thread));
  moe__mixed_store(s, &same, &tile, sums);
}

/* The same of a tile of so many tokens (i32), as narrow as they allow: of `width` of its parts, or
 * more. */
static void multiply_by_width(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                              const moe__mixed_reduction_t *own, MlirValue index,
                              moe__cursor_t cursor, MlirValue tokens, int width) {
  moe__builder_t *b = &s->kernel.builder;
  int part = s->schedule.tile_n / s->schedule.widths;
  if (width == s->schedule.widths) {
    multiply_tile(s, self, own, index, cursor);
    return;
  }
  MOE__IF (b, moe__ult(b, tokens, width * part + 1)) {
    s->n = width * part;
    multiply_tile(s, self, own, index, cursor);
    s->n = s->schedule.tile_n;
  }
  MOE__ELSE (b) {
    multiply_by_width(s, self, own, index, cursor, tokens, width + 1);
  }
}

/* Whether who has one tile alone gives no stage back, and executes no fence. */
static bool has_all_stages(const moe__mixed_mm_t *s) {
  int64_t columns = s->depth.size;
  return s->schedule.whole && columns >= 0 &&
         columns <= (int64_t)s->schedule.stages * s->schedule.depth;
}

static void multiply_tiles(moe__mixed_mm_t *s) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  moe__mixed_position_t self = position_of(s, kernel->thread);
  moe__mixed_reduction_t reduction = moe__mixed_reduction_of(s);
  moe__cursor_t cursor = moe__cursor_start(b);
  MlirValue total = moe__warp_uniform(b, moe__mixed_tile_count(s));
  reduction.count = moe__warp_uniform(b, reduction.count);
  moe__mixed_reduction_t own = reduction;
  if (s->schedule.common) {
    MlirValue is_common = moe__mixed_is_common(s, &self);
    own.count = moe__warp_uniform(
        b, moe__select(b, is_common, moe__mixed_common_count(s), reduction.count));
  }
  MOE__FOR (b, index, moe__tiles_first(kernel), total, moe__tiles_step(kernel),
            MOE__CARRY_CURSOR(cursor)) {
    if (s->schedule.widths > 1) {
      moe__mixed_tile_t tile = moe__mixed_tile_at(s, index);
      MlirValue tokens = moe__warp_uniform(b, moe__sub(b, tile.token_end, tile.token));
      multiply_by_width(s, &self, &own, index, cursor, tokens, 1);
    } else {
      if (has_all_stages(s))
        s->goes_on = moe__ult(b, moe__add(b, index, moe__tiles_step(kernel)), total);
      multiply_tile(s, &self, &own, index, cursor);
    }
    cursor = moe__cursor_advance(b, &s->layout.ring, cursor, reduction.count);
    moe__mixed_end_tile(s, index, total, true);
  }
}

#define PIECE_BYTES 16 /* that a thread stores at once */

/* The warps that multiply clear the places of tokens that a tile has room for and that never come,
 * in all stages, while the first stage is on its way; a warp has every so many chunks. */
static void clear_tokens(moe__mixed_mm_t *s) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  const moe__ring_t *ring = &s->layout.ring;
  int of_stage = s->schedule.depth / MOE_WEIGHT_COLUMNS; /* chunks */
  int chunk_bytes = s->schedule.tile_n * MOE__MIXED_CHUNK_BYTES;
  if (!s->layout.fits)
    return;
  MlirValue loaded = moe__mixed_loaded_tokens(s), zero = moe__i32(b, 0);
  MlirValue zeros = moe__vector(b, 4, (MlirValue[]){zero, zero, zero, zero});
  MlirValue first = moe__add(b, moe__mul(b, loaded, MOE__MIXED_CHUNK_BYTES),
                             moe__mul(b, moe__and(b, kernel->thread, MOE__WARP - 1), PIECE_BYTES));
  MOE__IF (b, moe__ult(b, loaded, s->schedule.tile_n)) {
    MOE__FOR (b, chunk, moe__lshr(b, kernel->thread, 5), ring->stages * of_stage,
              moe__mixed_warps(&s->schedule)) {
      MlirValue at = moe__add(b, moe__mul(b, moe__udiv(b, chunk, of_stage), ring->stage_bytes),
                              moe__mul(b, moe__urem(b, chunk, of_stage), chunk_bytes));
      MlirValue to = moe__offset_by(b, moe__offset(b, kernel->shared, at), ring->buffers);
      MOE__FOR (b, byte, first, chunk_bytes, MOE__WARP * PIECE_BYTES) {
        moe__store_aligned(b, zeros, moe__offset(b, to, byte), PIECE_BYTES);
      }
    }
    moe__mixed_slices_barrier(s);
  }
}

/* The same of the shares of this CTA, with spread. */
static void multiply_shares(moe__mixed_mm_t *s) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  moe__mixed_position_t self = position_of(s, kernel->thread);
  moe__cursor_t cursor = moe__cursor_start(b);
  MlirValue tiles = moe__mixed_tile_count(s);
  MlirValue count = moe__warp_uniform(b, moe__mixed_share_count(s, tiles));
  MOE__FOR (b, index, 0, count, 1, MOE__CARRY_CURSOR(cursor)) {
    moe__mixed_reduction_t reduction = moe__mixed_share(s, tiles, index).reduction;
    reduction.count = moe__warp_uniform(b, reduction.count);
    moe__mixed_fragment_t sums;
    multiply(s, &self, &reduction, NULL, cursor, sums);
    /* Asked for here, where it is needed: so it takes no registers before. */
    moe__mixed_share_t share = moe__mixed_share(s, tiles, moe__fresh(b, index));
    cursor = moe__cursor_advance(b, &s->layout.ring, cursor, reduction.count);
    MlirValue owns = moe__mixed_meet(s, &self, tiles, &share, cursor, sums);
    MOE__IF (b, owns) {
      moe__mixed_tile_t tile = moe__mixed_tile_at(s, share.tile);
      moe__mixed_store(s, &self, &tile, sums);
    }
  }
}

/* ---- The kernel ---- */

/* No more CTAs than tiles, where each token may be a tile of its own with experts. */
static const moe__expression_t *grid_expression(moe__mixed_mm_t *s) {
  moe__record_t *record = &s->kernel.record;
  const moe__expression_t *rows =
      moe__expression_ceildiv(record, s->rows.expression, moe__mixed_tile_rows(&s->schedule));
  const moe__expression_t *tokens = s->tokens.expression;
  if (mlirValueIsNull(s->offs))
    tokens = moe__expression_ceildiv(record, tokens, s->schedule.tile_n);
  const moe__expression_t *tiles = moe__expression_mul(record, MOE__EXPRESSIONS(tokens, rows));
  if (s->schedule.spread)
    tiles = moe__expression_mul(
        record, MOE__EXPRESSIONS(tiles, moe__expression_ceildiv(record, s->depth.expression,
                                                                s->schedule.depth)));
  return s->kernel.cluster_size > 1
             ? moe__expression_persistent_clusters(record, tiles, s->kernel.cluster_size)
             : moe__expression_persistent(record, tiles, s->schedule.ctas_per_sm);
}

/* Whether to find tiles takes a part of the time that is worth saving. */
static bool has_few_tokens(const moe__mixed_mm_t *s) {
  return s->format != MOE__WEIGHT_E4M3 && s->schedule.tile_n <= 16;
}

static void initialize(moe__mixed_mm_t *s, MlirValue loads) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  MOE__IF (b, loads) {
    if (!s->schedule.direct)
      moe__tma_prefetch_map(b, s->w_map);
    moe__tma_prefetch_map(b, s->scale_map);
    moe__tma_prefetch_map(b, s->x_map);
    if (!mlirValueIsNull(s->zero_map))
      moe__tma_prefetch_map(b, s->zero_map);
    if (s->schedule.spread)
      moe__mixed_spread_initialize(s);
    moe__ring_initialize(kernel, &s->layout.ring,
                         moe__mixed_warps(&s->schedule) * s->schedule.share);
  }
  if (!s->ahead)
    moe__grid_pass_on(b);
  if (!mlirValueIsNull(s->offs)) {
    s->groups = moe__groups_create(kernel, &s->layout.groups, s->experts.value, s->schedule.tile_n,
                                   moe__mixed_row_tiles(s), s->schedule.band);
    s->groups.at_once = true; /* with few tokens the start counts */
    if (has_few_tokens(s)) {
      s->groups.is_full = s->experts.size >= 0;
      s->groups.lane = moe__and(b, kernel->thread, MOE__WARP - 1);
    }
    MOE__IF (b, moe__ult(b, kernel->thread, MOE__WARP)) {
      moe__groups_initialize(&s->groups, s->offs, s->tokens.value, kernel->thread, s->status);
    }
  }
  moe__warp_barrier(b);
  if (kernel->cluster_size == 1) {
    moe__cta_barrier(b);
    return;
  }
  /* Behind it every CTA of the cluster has begun, so that the others may reach it. */
  moe__cluster_arrive(b);
  if (moe__mixed_loads_early(s)) {
    MOE__IF (b, loads) {
      moe__mixed_load_early(s);
    }
    moe__warp_barrier(b);
  }
  moe__cluster_wait(b);
}

/* Whether ptxas has registers for weights that are asked for ahead: not with spread in a warpgroup
 * that loads, and not beside panels that take all, where there are zero points. */
static bool has_registers_ahead(const moe__mixed_mm_t *s) {
  bool is_full =
      s->schedule.panels && s->layout.registers <= moe__mixed_panel_registers(&s->schedule);
  return !(s->schedule.spread && s->layout.divides) && !(is_full && !mlirValueIsNull(s->zero_map));
}

/* Whether the first weights are asked for while launches before this one still run; not those of
 * experts, which offsets choose. */
static bool loads_ahead(const moe__mixed_mm_t *s, MlirOperation op) {
  return mlirValueIsNull(s->offs) && s->schedule.share == 1 && has_registers_ahead(s) &&
         moe__is_constant(op, MOE__W) && moe__is_constant(op, MOE__SCALES) &&
         moe__is_constant(op, MOE__ZEROS);
}

static bool lower(const moe__lowering_t *lowering) {
  MlirOperation op = lowering->op;
  const moe__mixed_schedule_t *schedule = lowering->schedule;
  const moe__mixed_layout_t *layout = lowering->layout;
  moe__mixed_mm_t s = {.schedule = *schedule,
                       .layout = *layout,
                       .format = moe__mixed_format(op),
                       .n = schedule->tile_n,
                       .group = moe__mixed_group(op),
                       .x_type = moe__element_type(op, MOE__X),
                       .scale_type = moe__element_type(op, MOE__SCALES),
                       .out_type = moe__element_type(op, MOE__OUT)};
  moe__kernel_t *kernel = &s.kernel;
  moe__builder_t *b = &kernel->builder;
  moe__lowering_begin(lowering, kernel);
  moe__mixed_add_parameters(&s, op);
  moe__kernel_cluster(kernel, s.schedule.common ? 2 : s.schedule.split * s.schedule.share);
  moe__kernel_prologue(kernel);
  moe__kernel_overlaps(kernel);
  s.ahead = loads_ahead(&s, op);
  MlirValue loader = moe__i32(b, moe__mixed_warps(&s.schedule) * MOE__WARP);
  MlirValue loads = moe__eq(b, kernel->thread, loader);
  initialize(&s, loads);
  MOE__IF (b, moe__ult(b, kernel->thread, loader)) {
    if (layout->divides)
      moe__registers_increase(b, layout->registers);
    clear_tokens(&s);
    if (s.schedule.spread)
      multiply_shares(&s);
    else
      multiply_tiles(&s);
  }
  MOE__ELSE (b) {
    if (layout->divides)
      moe__registers_decrease(b, layout->loader_registers);
    moe__mixed_load(&s, loads);
  }
  if (s.schedule.share > 1) { /* no CTA ends while another may still reach it */
    moe__warp_barrier(b);
    moe__cluster_barrier(b);
  }
  moe__lowering_end(lowering, kernel, grid_expression(&s));
  return true;
}

const moe__kernel_definition_t moe__mixed_mm_kernel = {
    .ops = {MOE__OP_MIXED_MM, MOE__OP_MIXED_MM_SCALED, MOE__OP_MIXED_MM_ZEROS,
            MOE__OP_MIXED_MM_BIAS, MOE__OP_MIXED_MM_ZEROS_BIAS},
    .has_kernel = moe__mixed_has_kernel,
    .schedule = &moe__mixed_schedule,
    .candidates = moe__mixed_candidates,
    .layout_size = sizeof(moe__mixed_layout_t),
    .layout = moe__mixed_lay_out,
    .lower = lower,
};
