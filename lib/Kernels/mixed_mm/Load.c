/* Load.c - the warp, or warpgroup, that loads: see MixedMm.h.
 *
 * One thread does. For each k-tile it waits until a stage is free, and fetches by TMA the weights,
 * their scales and zero points, and the tokens. The first constant weights come ahead, while
 * launches before this one still run; in a cluster that divides columns the first loads are issued
 * while its CTAs come together.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/mixed_mm/MixedMm.h"

#include "lib/Device/Tiles.h"

#include "mlir-c/BuiltinTypes.h"

/* Loads a tile's tokens, from `column` on, to `to`; of those that the CTAs of a cluster share, each
 * loads a part, for all. */
static void load_tokens(moe__mixed_mm_t *s, MlirValue token, MlirValue column, MlirValue to,
                        MlirValue landed) {
  moe__builder_t *b = &s->kernel.builder;
  if (s->schedule.share == 1) {
    moe__tma_load(b, s->x_map, to, landed, 2, (MlirValue[]){column, token});
    return;
  }
  MlirValue part = moe__mul(b, s->kernel.cluster_rank, s->schedule.tile_n / s->schedule.share);
  MlirValue all = moe__trunc(b, moe__i32(b, (1 << s->schedule.share) - 1), b->i16);
  moe__tma_load_multicast(b, s->x_map,
                          moe__offset(b, to, moe__mul(b, part, MOE__MIXED_CHUNK_BYTES)), landed, 2,
                          (MlirValue[]){column, moe__add(b, token, part)}, all);
}

/* Loads a box of weights. */
static void load_box(moe__mixed_mm_t *s, int rank, const MlirValue *coordinates, MlirValue to,
                     MlirValue landed) {
  moe__builder_t *b = &s->kernel.builder;
  if (s->schedule.once)
    moe__tma_load_once(b, s->w_map, to, landed, rank, coordinates);
  else
    moe__tma_load(b, s->w_map, to, landed, rank, coordinates);
}

/* Loads the weights of a k-tile to `to`. */
static void load_weights(moe__mixed_mm_t *s, const moe__mixed_tile_t *tile, MlirValue index,
                         MlirValue to, MlirValue landed) {
  moe__builder_t *b = &s->kernel.builder;
  bool experts = !mlirValueIsNull(s->offs);
  if (s->format != MOE__WEIGHT_E4M3) {
    load_box(s, experts ? 4 : 3,
             (MlirValue[]){moe__i32(b, 0),
                           moe__mul(b, index, s->schedule.depth / MOE_WEIGHT_COLUMNS),
                           moe__lshr(b, tile->row, 4), tile->expert},
             to, landed);
    return;
  }
  MlirValue column = moe__mul(b, index, s->schedule.depth);
  for (int i = 0; i < s->schedule.depth; i += MOE__MIXED_LINE)
    load_box(s, experts ? 3 : 2, (MlirValue[]){moe__add(b, column, i), tile->row, tile->expert},
             moe__offset_by(b, to, i * moe__mixed_rows(&s->schedule)), landed);
}

/* Which numbers of a row the first ones of a stage are. */
static MlirValue number_at(moe__mixed_mm_t *s, MlirValue index) {
  moe__builder_t *b = &s->kernel.builder;
  if (!s->group)
    return moe__i32(b, 0);
  if (s->group > s->schedule.depth)
    return moe__udiv(b, index, s->group / s->schedule.depth);
  return moe__mul(b, index, s->schedule.depth / s->group);
}

/* From the weights of one warpgroup to those of the next, in a stage or in a line of it. */
static int weight_bytes(const moe__mixed_mm_t *s) {
  int chunks = s->schedule.depth / MOE_WEIGHT_COLUMNS;
  return s->format == MOE__WEIGHT_E4M3 ? MOE__WGMMA_M * MOE__MIXED_LINE
                                       : chunks * MOE__MIXED_WARPS * MOE_WEIGHT_BYTES;
}

/* The weights and scales of a stage where two CTAs have rows in common: of each warpgroup by
 * itself, of those rows if `common`. */
static void load_rows(moe__mixed_mm_t *s, const moe__mixed_tile_t *tile, MlirValue index,
                      MlirValue common, MlirValue buffer, MlirValue landed) {
  moe__builder_t *b = &s->kernel.builder;
  int last = s->schedule.warpgroups - 1;
  int bytes = moe__mixed_scale_bytes(s->scale_type) *
              moe__mixed_scales_of_stage(s->group, s->schedule.depth);
  MlirValue other = moe__mul(b, s->kernel.cluster_rank, moe__mixed_own_rows(s));
  for (int w = 0; w <= last; w++) {
    MlirValue row = moe__add(b, tile->row, w * MOE__WGMMA_M);
    if (w == last)
      row = moe__sub(b, moe__add(b, row, moe__mixed_own_rows(s)), other);
    MlirValue numbers = moe__offset_by(b, buffer, s->layout.scales + w * MOE__WGMMA_M * bytes);
    moe__mixed_tile_t rows = {.expert = tile->expert, .row = row};
    MlirValue from[] = {row, number_at(s, index)};
    MlirValue to = moe__offset_by(b, buffer, s->layout.weights + w * weight_bytes(s));
    MOE__IF (b, w < last ? (MlirValue){NULL} : common) {
      load_weights(s, &rows, index, to, landed);
      moe__tma_load(b, s->scale_map, numbers, landed, 2, from);
    }
  }
}

/* What a stage has of a tile. */
typedef struct k_tile_t {
  MlirValue index;  /* i32 */
  MlirValue common; /* i1: also rows that two CTAs have in common; null: there are none */
  MlirValue boxes;  /* of tokens, i32; null: one */
} k_tile_t;

/* The tokens of 64 columns, from `column` on. */
static void load_chunk(moe__mixed_mm_t *s, const moe__mixed_tile_t *tile, MlirValue boxes,
                       MlirValue column, MlirValue to, MlirValue landed) {
  moe__builder_t *b = &s->kernel.builder;
  load_tokens(s, tile->token, column, to, landed);
  for (int i = 1; i < s->schedule.widths; i++)
    MOE__IF (b, moe__ult(b, moe__i32(b, i), boxes)) {
      int more = i * moe__mixed_box_tokens(s);
      load_tokens(s, moe__add(b, tile->token, more), column,
                  moe__offset_by(b, to, more * MOE__MIXED_CHUNK_BYTES), landed);
    }
}

/* How many bytes land in a stage (i32). */
static MlirValue landing_bytes(moe__mixed_mm_t *s, k_tile_t k_tile) {
  moe__builder_t *b = &s->kernel.builder;
  const moe__mixed_schedule_t *schedule = &s->schedule;
  const moe__mixed_layout_t *l = &s->layout;
  MlirValue bytes = moe__i32(b, l->landing);
  int of_token = schedule->depth / MOE_WEIGHT_COLUMNS * MOE__MIXED_CHUNK_BYTES;
  int of_tokens = of_token * schedule->tile_n;
  if (schedule->common) {
    int of_rows = (l->landing - of_tokens) / schedule->warpgroups;
    bytes = moe__select(b, k_tile.common, bytes, moe__i32(b, l->landing - of_rows));
  }
  if (schedule->widths > 1)
    bytes = moe__add(b, moe__mul(b, k_tile.boxes, of_tokens / schedule->widths),
                     l->landing - of_tokens);
  if (l->fits)
    bytes = moe__add(b, moe__mul(b, moe__mixed_loaded_tokens(s), of_token), l->landing - of_tokens);
  return bytes;
}

/* The weights of a stage, their scales and zero points. */
static void load_weights_and_numbers(moe__mixed_mm_t *s, const moe__mixed_tile_t *tile,
                                     k_tile_t k_tile, MlirValue buffer, MlirValue landed) {
  moe__builder_t *b = &s->kernel.builder;
  const moe__mixed_layout_t *l = &s->layout;
  MlirValue index = k_tile.index;
  bool experts = !mlirValueIsNull(s->offs);
  if (s->schedule.common) {
    load_rows(s, tile, index, k_tile.common, buffer, landed);
    return;
  }
  if (!s->schedule.direct)
    load_weights(s, tile, index, moe__offset_by(b, buffer, l->weights), landed);
  MlirValue numbers[] = {tile->row, number_at(s, index), tile->expert};
  MlirValue of_rows[] = {moe__and(b, numbers[1], -MOE__MIXED_ROW_SCALES), tile->row, tile->expert};
  moe__tma_load(b, s->scale_map, moe__offset_by(b, buffer, l->scales), landed, experts ? 3 : 2,
                l->scales_of_rows ? of_rows : numbers);
  if (!mlirValueIsNull(s->zero_map))
    moe__tma_load(b, s->zero_map, moe__offset_by(b, buffer, l->zeros), landed, experts ? 3 : 2,
                  numbers);
}

/* What of a stage is loaded. */
typedef enum part_t { ALL, WEIGHTS, TOKENS } part_t;

static void load_k_tile(moe__mixed_mm_t *s, const moe__mixed_tile_t *tile, k_tile_t k_tile,
                        part_t part, moe__cursor_t cursor) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  const moe__ring_t *ring = &s->layout.ring;
  MlirValue landed = part == TOKENS
                         ? moe__ring_full(kernel, ring, cursor)
                         : moe__ring_acquire(kernel, ring, cursor, landing_bytes(s, k_tile));
  MlirValue buffer = moe__ring_buffer(kernel, ring, cursor);
  if (part != TOKENS)
    load_weights_and_numbers(s, tile, k_tile, buffer, landed);
  if (part == WEIGHTS)
    return;
  MlirValue column = moe__mul(b, k_tile.index, s->schedule.depth);
  for (int i = 0; i < s->schedule.depth / MOE_WEIGHT_COLUMNS; i++)
    load_chunk(s, tile, k_tile.boxes, moe__add(b, column, i * MOE_WEIGHT_COLUMNS),
               moe__offset_by(b, buffer, i * s->schedule.tile_n * MOE__MIXED_CHUNK_BYTES), landed);
}

/* Boxes of tokens of a tile: as many as its width has (i32). */
static MlirValue boxes_of(moe__mixed_mm_t *s, const moe__mixed_tile_t *tile) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue count = moe__sub(b, tile->token_end, tile->token), boxes = moe__i32(b, 1);
  for (int w = 1; w < s->schedule.widths; w++)
    boxes = moe__select(b, moe__ult(b, moe__i32(b, w * moe__mixed_box_tokens(s)), count),
                        moe__i32(b, w + 1), boxes);
  return boxes;
}

/* Whether threads that load may have no registers for a loop that LLVM unrolls, because it knows
 * the count. Some schedules have none for eight to ten k-tiles of 128 columns, and those with fewer
 * shifts or f16 tokens for five to ten of 256; FP8 weights with f16 tokens from two of 128 on:
 * fewer take less, and more are not unrolled. */
static bool unrolls_too_much(const moe__mixed_mm_t *s) {
  int64_t depth = s->schedule.depth, columns = s->depth.size;
  bool has_f16 = mlirTypeIsAF16(s->x_type);
  bool is_long = depth == 256 && (s->schedule.subnormal || has_f16);
  int64_t fits = has_f16 && s->format == MOE__WEIGHT_E4M3 ? 1 : is_long ? 4 : 7;
  return s->layout.divides && (depth == 128 || is_long) && columns > fits * depth &&
         columns <= 10 * depth;
}

/* Whether the count of k-tiles is not known. LLVM would join the condition of the loop over them
 * with that of the thread that loads, which moe__fresh between them prevents. ptxas takes a
 * comparison of the thread's number with a constant as a sign that one thread is there; without it
 * each load is a loop over the lanes of the warp, and takes about three times as long. */
static bool has_unknown_count(const moe__mixed_mm_t *s) {
  return s->depth.size < 0;
}

/* Loads a part of the k-tiles of a tile, from number `from` to `to` of this CTA's. */
static void load_k_tiles(moe__mixed_mm_t *s, const moe__mixed_tile_t *tile,
                         const moe__mixed_reduction_t *reduction, MlirValue from, MlirValue to,
                         part_t part, moe__cursor_t cursor) {
  moe__builder_t *b = &s->kernel.builder;
  if (moe__mixed_is_tight(&s->schedule) || unrolls_too_much(s) || has_unknown_count(s))
    to = moe__fresh(b, to);
  MlirValue boxes = {NULL};
  if (s->schedule.widths > 1)
    boxes = boxes_of(s, tile);
  MOE__FOR (b, k_tile, from, to, 1, MOE__CARRY_CURSOR(cursor)) {
    k_tile_t loaded = {moe__add(b, reduction->first, k_tile), {NULL}, boxes};
    if (s->schedule.common) { /* the second CTA begins in the middle */
      MlirValue half = moe__lshr(b, reduction->count, 1);
      MlirValue at = moe__add(b, k_tile, moe__mul(b, s->kernel.cluster_rank, half));
      loaded.index =
          moe__select(b, moe__ult(b, at, reduction->count), at, moe__sub(b, at, reduction->count));
      loaded.common = moe__ult(b, k_tile, moe__mixed_common_count(s));
    }
    load_k_tile(s, tile, loaded, part, cursor);
    cursor = moe__cursor_next(b, &s->layout.ring, cursor);
  }
}

bool moe__mixed_loads_early(const moe__mixed_mm_t *s) {
  return mlirValueIsNull(s->offs) && (s->ahead || moe__mixed_meets(&s->schedule));
}

#define MANY_PANELS 8
#define AHEAD_BYTES (28 << 10)

/* Stages whose weights are asked for ahead of their tokens, one or two. Tokens come behind them, so
 * that with two the first products begin later: that counts where a tile takes little time, and
 * where a stage has many bytes (docs/performance/mixed_chain.md). */
static int stages_ahead(const moe__mixed_mm_t *s) {
  int bytes = moe__mixed_rows(&s->schedule) * s->schedule.depth;
  if (s->format != MOE__WEIGHT_E4M3)
    bytes /= 2;
  bool has_two = s->schedule.panels ? s->schedule.panels >= MANY_PANELS : bytes <= AHEAD_BYTES;
  return has_two && s->schedule.stages > 1 ? 2 : 1;
}

/* How many k-tiles of the first tile are on their way then. */
static MlirValue early_count(moe__mixed_mm_t *s, const moe__mixed_reduction_t *reduction) {
  moe__builder_t *b = &s->kernel.builder;
  if (!moe__mixed_loads_early(s))
    return moe__i32(b, 0);
  return moe__umin(b, reduction->count, s->ahead ? stages_ahead(s) : s->schedule.stages);
}

/* Loads a part of the first k-tiles of the CTA's first tile, or share of one. */
static void load_first(moe__mixed_mm_t *s, part_t part) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue tiles = moe__mixed_tile_count(s), zero = moe__i32(b, 0);
  moe__mixed_share_t share = {moe__tiles_first(&s->kernel), {{NULL}, {NULL}}};
  MlirValue has_one = moe__ult(b, share.tile, tiles);
  if (s->schedule.spread) {
    has_one = moe__ult(b, zero, moe__mixed_share_count(s, tiles));
    share = moe__mixed_share(s, tiles, zero);
  } else {
    share.reduction = moe__mixed_reduction_of(s);
  }
  MOE__IF (b, has_one) {
    moe__mixed_tile_t tile = moe__mixed_tile_at(s, share.tile);
    load_k_tiles(s, &tile, &share.reduction, zero, early_count(s, &share.reduction), part,
                 moe__cursor_start(b));
  }
}

void moe__mixed_load_early(moe__mixed_mm_t *s) {
  if (!s->ahead) {
    load_first(s, ALL);
    return;
  }
  load_first(s, WEIGHTS);
  moe__grid_pass_on(&s->kernel.builder);
  load_first(s, TOKENS);
}

/* The k-tiles of the shares of this CTA, with spread. */
static void load_shares(moe__mixed_mm_t *s, MlirValue loads) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  moe__cursor_t cursor = moe__cursor_start(b);
  MlirValue tiles = moe__mixed_tile_count(s);
  MOE__FOR (b, index, 0, moe__mixed_share_count(s, tiles), 1, MOE__CARRY_CURSOR(cursor)) {
    moe__mixed_share_t share = moe__mixed_share(s, tiles, index);
    moe__mixed_tile_t tile = moe__mixed_tile_at(s, share.tile);
    moe__cursor_t next = moe__cursor_advance(b, &s->layout.ring, cursor, share.reduction.count);
    MlirValue done = early_count(s, &share.reduction);
    if (moe__mixed_loads_early(s))
      done = moe__select(b, moe__eq(b, index, 0), done, 0);
    MOE__IF (b, loads) {
      load_k_tiles(s, &tile, &share.reduction, done, share.reduction.count, ALL,
                   moe__cursor_advance(b, &s->layout.ring, cursor, done));
      moe__mixed_announce_sums(s, tiles, index);
      moe__mixed_await_sums(s, tiles, &share, next);
    }
    cursor = next;
  }
}

/* Those of its tiles. */
static void load_tiles(moe__mixed_mm_t *s, MlirValue loads) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  moe__mixed_reduction_t reduction = moe__mixed_reduction_of(s);
  moe__cursor_t cursor = moe__cursor_start(b);
  MlirValue total = moe__mixed_tile_count(s), done = early_count(s, &reduction);
  MOE__FOR (b, index, moe__tiles_first(kernel), total, moe__tiles_step(kernel),
            MOE__CARRY_CURSOR(cursor), &done) {
    moe__mixed_tile_t tile = moe__mixed_tile_at(s, index);
    MOE__IF (b, loads) {
      load_k_tiles(s, &tile, &reduction, done, reduction.count, ALL,
                   moe__cursor_advance(b, &s->layout.ring, cursor, done));
    }
    done = moe__i32(b, 0);
    cursor = moe__cursor_advance(b, &s->layout.ring, cursor, reduction.count);
    if (moe__mixed_meets(&s->schedule)) { /* the barriers of moe__mixed_store */
      moe__warp_barrier(b);
      for (int i = 0; i <= moe__mixed_reuses(&s->schedule); i++)
        moe__cluster_barrier(b);
    }
    moe__mixed_end_tile(s, index, total, false);
  }
}

void moe__mixed_load(moe__mixed_mm_t *s, MlirValue loads) {
  if (moe__mixed_loads_early(s) && s->kernel.cluster_size == 1) {
    MOE__IF (&s->kernel.builder, loads) {
      moe__mixed_load_early(s);
    }
  }
  if (s->schedule.spread)
    load_shares(s, loads);
  else
    load_tiles(s, loads);
}
