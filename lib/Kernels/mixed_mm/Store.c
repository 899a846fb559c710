/* Store.c - the sums of a tile become results: see MixedMm.h.
 *
 * Where the CTAs of a cluster have divided the columns of the weights, each panel's rows belong to
 * one of them; where warps have, to the first one of the panel. All write their sums into the
 * shared memory of the rows' CTA; behind a barrier the rows' warp adds them in the order of the
 * CTAs and of their warps, so that each run gives the same bits.
 *
 * A lane's sums are of two rows, which lie far apart, and a result's rows lie side by side. Staged,
 * a warp brings those of its panel into order in shared memory, 32 tokens at once.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/mixed_mm/MixedMm.h"

#include "lib/Device/Elements.h"

#include "mlir-c/BuiltinTypes.h"

#include <string.h>

#define VECTOR 4 /* sums that are moved at once */

#define SLICES_BARRIER 1

/* ---- A warp's sums in memory ---- */

int moe__mixed_sums_bytes(const moe__mixed_schedule_t *schedule) {
  return schedule->tile_n / 2 * MOE__WARP * 4;
}

/* Sums `i` to `i + VECTOR - 1` of those at `at`. */
static MlirValue load_sums(moe__mixed_mm_t *s, MlirValue at, int i) {
  moe__builder_t *b = &s->kernel.builder;
  return moe__load_aligned(b, moe__offset_by(b, at, i * MOE__WARP * 4),
                           moe__vector_type(b, VECTOR, b->f32), 16);
}

void moe__mixed_put_sums(moe__mixed_mm_t *s, const moe__mixed_fragment_t sums, MlirValue at) {
  moe__builder_t *b = &s->kernel.builder;
  for (int i = 0; i < s->n / 2; i += VECTOR)
    moe__store_aligned(b, moe__vector(b, VECTOR, sums + i),
                       moe__offset_by(b, at, i * MOE__WARP * 4), 16);
}

void moe__mixed_add_sums(moe__mixed_mm_t *s, MlirValue at, moe__mixed_fragment_t sums) {
  moe__builder_t *b = &s->kernel.builder;
  for (int i = 0; i < s->n / 2; i += VECTOR) {
    MlirValue others = load_sums(s, at, i);
    for (int j = 0; j < VECTOR; j++)
      sums[i + j] = moe__fadd(b, sums[i + j], moe__extract(b, others, j));
  }
}

/* ---- The sums of all parts ---- */

/* The tokens of a tile, and the panels of its rows, whose sums one CTA adds. */
static int tokens_of_cta(const moe__mixed_schedule_t *schedule) {
  return schedule->tile_n / (moe__mixed_divides_tokens(schedule) ? schedule->split : 1);
}

static int panels_of_cta(const moe__mixed_schedule_t *schedule) {
  int panels = moe__mixed_panels(schedule);
  return moe__mixed_divides_tokens(schedule) ? panels : panels / schedule->split;
}

/* The parts that each has. */
static int parts_of_panel(const moe__mixed_schedule_t *schedule) {
  return schedule->split * schedule->slices;
}

static int part_bytes(const moe__mixed_schedule_t *schedule) {
  return moe__mixed_sums_bytes(schedule) / schedule->tile_n * tokens_of_cta(schedule);
}

#define STAGED_TOKENS 32 /* of a warp, at once */
#define BLOCK_TOKENS 16  /* of them, four 8 x 8 matrices */
#define TOKEN_BYTES (2 * MOE_WEIGHT_ROWS)
#define STAGING_BYTES (STAGED_TOKENS * TOKEN_BYTES)

/* Of all parts that a CTA adds. */
static int parts_bytes(const moe__mixed_schedule_t *schedule) {
  return panels_of_cta(schedule) * parts_of_panel(schedule) * part_bytes(schedule);
}

int moe__mixed_meeting_bytes(const moe__mixed_schedule_t *schedule) {
  int staging =
      moe__mixed_stages_results(schedule) ? moe__mixed_warps(schedule) * STAGING_BYTES : 0;
  return parts_bytes(schedule) + staging;
}

void moe__mixed_store_reserve(moe__mixed_layout_t *layout, const moe__mixed_schedule_t *schedule) {
  if (moe__mixed_reuses(schedule)) {
    layout->parts = layout->ring.buffers;
    layout->staging = layout->parts + parts_bytes(schedule);
    return;
  }
  if (schedule->common)
    layout->parts =
        moe__layout_shared(&layout->cta, MOE__MIXED_WARPS * moe__mixed_sums_bytes(schedule), 16);
  if (parts_of_panel(schedule) > 1)
    layout->parts = moe__layout_shared(&layout->cta, parts_bytes(schedule), 16);
  if (moe__mixed_stages_results(schedule))
    layout->staging =
        moe__layout_shared(&layout->cta, moe__mixed_warps(schedule) * STAGING_BYTES, 128);
}

/* The lane's place in the sums of number `slot` (i32), of so many bytes, in shared memory. */
static MlirValue slot_at(moe__mixed_mm_t *s, const moe__mixed_position_t *self, MlirValue slot,
                         int slot_bytes) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue bytes = moe__add(b, moe__mul(b, slot, slot_bytes), moe__shl(b, self->lane, 4));
  return moe__offset_by(b, moe__offset(b, s->kernel.shared, bytes), s->layout.parts);
}

/* Where part `index` of the panel's sums is, in the shared memory of who adds them. */
static MlirValue part_at(moe__mixed_mm_t *s, const moe__mixed_position_t *self, MlirValue index) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue number = self->panel;
  if (panels_of_cta(&s->schedule) < moe__mixed_panels(&s->schedule))
    number = moe__urem(b, number, panels_of_cta(&s->schedule));
  return slot_at(s, self, moe__add(b, moe__mul(b, number, parts_of_panel(&s->schedule)), index),
                 part_bytes(&s->schedule));
}

/* Sends sums of the panel, of s->n tokens, to one CTA. */
static void send(moe__mixed_mm_t *s, const moe__mixed_position_t *self, MlirValue owner,
                 const moe__mixed_fragment_t sums) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue index = s->schedule.split > 1 ? s->kernel.cluster_rank : moe__i32(b, 0);
  if (s->schedule.slices > 1)
    index = moe__add(b, moe__mul(b, index, s->schedule.slices), self->slice);
  MlirValue to = part_at(s, self, index);
  if (s->schedule.split > 1)
    to = moe__shared_of_rank(b, to, owner);
  moe__mixed_put_sums(s, sums, to);
}

static void add_parts(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                      moe__mixed_fragment_t sums) {
  moe__builder_t *b = &s->kernel.builder;
  for (int i = 0; i < s->n / 2; i += VECTOR) {
    for (int index = 0; index < parts_of_panel(&s->schedule); index++) {
      MlirValue part = load_sums(s, part_at(s, self, moe__i32(b, index)), i);
      for (int j = 0; j < VECTOR; j++) {
        MlirValue value = moe__extract(b, part, j);
        sums[i + j] = index > 0 ? moe__fadd(b, sums[i + j], value) : value;
      }
    }
    /* LLVM would add where sums are stored, and all parts would be in registers at once. */
    for (int j = 0; s->schedule.behind && j < VECTOR; j++)
      sums[i + j] = moe__bitcast(b, moe__fresh(b, moe__bitcast(b, sums[i + j], b->i32)), b->f32);
  }
}

/* ---- Results ---- */

/* Stores a value for each of the lane's two rows of one token. */
static void store_pair(moe__mixed_mm_t *s, const MlirValue values[2], MlirValue to) {
  moe__builder_t *b = &s->kernel.builder;
  if (mlirTypeIsAF32(s->out_type)) {
    for (int h = 0; h < 2; h++)
      moe__store(b, values[h], moe__offset_by(b, to, 8 * h * 4));
    return;
  }
  MlirValue pair = moe__pack_halves(b, s->out_type, values);
  moe__store(b, moe__trunc(b, pair, b->i16), to);
  moe__store(b, moe__trunc(b, moe__lshr(b, pair, 16), b->i16), moe__offset_by(b, to, 8 * 2));
}

/* The bias of the lane's two rows, of which `row` (i32) is the first one, as f32. A row behind the
 * last has that of the last: nobody asks for it. */
static void load_bias(moe__mixed_mm_t *s, MlirValue expert, MlirValue row, MlirValue out[2]) {
  moe__builder_t *b = &s->kernel.builder;
  bool wide = mlirTypeIsAF32(s->out_type);
  MlirValue of_expert = moe__wide_mul(b, expert, s->rows.value);
  for (int h = 0; h < 2; h++) {
    MlirValue own = moe__umin(b, moe__add(b, row, 8 * h), moe__sub(b, s->rows.value, 1));
    MlirValue at = moe__add(b, of_expert, moe__zext(b, own, b->i64));
    out[h] = moe__load(b, moe__offset(b, s->bias, moe__shl(b, at, wide ? 2 : 1)), s->out_type);
    if (!wide)
      out[h] = moe__op1(b, "llvm.fpext", b->f32, MOE__VALUES(out[h]), NULL);
  }
}

/* The scale of a token (i32); behind the last that of the last. */
static MlirValue scale_of_token(moe__mixed_mm_t *s, MlirValue token) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue at = moe__umin(b, token, moe__sub(b, s->tokens.value, 1));
  return moe__load(b, moe__offset(b, s->scales_x, moe__shl(b, moe__zext(b, at, b->i64), 2)),
                   b->f32);
}

/* Multiplies the sums of up to 32 tokens, from number `start` on, by their scales, where they have
 * some. Each lane loads one of these, and the others get it by shuffles: all lanes of a warp must
 * call it, where the sums are needed; so few registers are. */
static void scale_tokens(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                         const moe__mixed_tile_t *tile, int start, moe__mixed_fragment_t sums) {
  moe__builder_t *b = &s->kernel.builder;
  if (mlirValueIsNull(s->scales_x))
    return;
  MlirValue own = moe__add(b, moe__fresh(b, moe__add(b, tile->token, self->lane)), start);
  MlirValue scales = scale_of_token(s, own);
  MlirValue column = moe__shl(b, moe__and(b, self->lane, 3), 1);
  for (int token = start; token < start + MOE__WARP && token < s->n; token++) {
    if (token % 8 > 1) /* the lane has two of each 8 */
      continue;
    MlirValue from = moe__add(b, moe__fresh(b, column), token - start);
    MlirValue scale = moe__shuffle(b, scales, from);
    for (int h = 0; h < 2; h++) {
      MlirValue *sum = &sums[token / 8 * 4 + 2 * h + token % 8];
      *sum = moe__fmul(b, *sum, scale);
    }
  }
}

/* Where 8 rows (i32: the first or the second ones) of a token are staged: 16 bytes. Of neighboring
 * tokens they lie in other banks. */
static MlirValue staged_at(moe__mixed_mm_t *s, MlirValue staging, MlirValue token, MlirValue half) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue turned = moe__xor(b, half, moe__and(b, moe__lshr(b, token, 2), 1));
  return moe__offset(b, staging,
                     moe__add(b, moe__mul(b, token, TOKEN_BYTES), moe__shl(b, turned, 4)));
}

/* Stores the sums of a panel's rows, and a bias, in pieces of 8 rows of a token. */
static void store_staged(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                         const moe__mixed_tile_t *tile, const moe__mixed_fragment_t given) {
  moe__builder_t *b = &s->kernel.builder;
  moe__mixed_fragment_t sums;
  memcpy(sums, given, (size_t)s->n / 2 * sizeof *sums);
  MlirValue panel = moe__add(b, tile->row, moe__mul(b, self->panel, MOE_WEIGHT_ROWS));
  MlirValue bias[2] = {{NULL}}, lane = self->lane;
  if (!mlirValueIsNull(s->bias))
    load_bias(s, tile->expert, moe__add(b, panel, moe__lshr(b, lane, 2)), bias);
  MlirValue staging = moe__offset(b, moe__offset_by(b, s->kernel.shared, s->layout.staging),
                                  moe__mul(b, self->panel, STAGING_BYTES));
  /* A lane's row of the four matrices, and its piece of the results. */
  MlirValue to = staged_at(s, staging,
                           moe__add(b, moe__and(b, lane, 7), moe__shl(b, moe__lshr(b, lane, 4), 3)),
                           moe__and(b, moe__lshr(b, lane, 3), 1));
  MlirValue token = moe__lshr(b, lane, 1), half = moe__and(b, lane, 1);
  MlirValue from = staged_at(s, staging, token, half);
  MlirValue row = moe__zext(b, moe__add(b, panel, moe__shl(b, half, 3)), b->i64);
  MlirValue first = moe__add(b, tile->token, token);
  MlirValue has_rows = moe__ult(b, panel, s->rows.value);
  MlirType vector = moe__vector_type(b, 4, b->i32);
  for (int start = 0; start < s->n; start += STAGED_TOKENS) {
    int left = s->n - start;
    scale_tokens(s, self, tile, start, sums);
    for (int t = 0; t < STAGED_TOKENS && t < left; t += BLOCK_TOKENS) {
      MlirValue words[4];
      for (int i = 0; i < 4; i++) {
        int j = (start + t) / 8 + i / 2, h = i % 2;
        MlirValue pair[2];
        for (int c = 0; c < 2; c++) {
          bool there = 8 * j < s->n;
          pair[c] = there ? sums[4 * j + 2 * h + c] : moe__f32(b, 0);
          if (there && !mlirValueIsNull(s->bias))
            pair[c] = moe__fadd(b, pair[c], bias[h]);
        }
        words[i] = moe__pack_halves(b, s->out_type, pair);
      }
      moe__store_matrix(b, moe__offset_by(b, to, t * TOKEN_BYTES), words, true);
    }
    moe__warp_barrier(b);
    for (int t = 0; t < STAGED_TOKENS && t < left; t += BLOCK_TOKENS) {
      MlirValue at = moe__add(b, moe__fresh(b, first), start + t);
      MlirValue inside = moe__and(b, has_rows, moe__ult(b, at, tile->token_end));
      if (left - t < BLOCK_TOKENS) /* 8 of them */
        inside = moe__and(b, inside, moe__ult(b, token, 8));
      MOE__IF (b, inside) {
        MlirValue values =
            moe__load_aligned(b, moe__offset_by(b, from, t * TOKEN_BYTES), vector, 16);
        MlirValue index = moe__add(b, moe__wide_mul(b, at, s->rows.value), row);
        moe__store_aligned(b, values, moe__offset(b, s->out, moe__shl(b, index, 1)), 16);
      }
    }
    moe__warp_barrier(b);
  }
}

static void store_rows(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                       const moe__mixed_tile_t *tile, const moe__mixed_fragment_t given) {
  moe__builder_t *b = &s->kernel.builder;
  moe__mixed_fragment_t sums;
  memcpy(sums, given, (size_t)s->n / 2 * sizeof *sums);
  int bytes = mlirTypeIsAF32(s->out_type) ? 4 : 2;
  MlirValue panel = moe__add(b, tile->row, moe__mul(b, self->panel, MOE_WEIGHT_ROWS));
  MlirValue own = moe__add(b, panel, moe__lshr(b, self->lane, 2));
  MlirValue row = moe__zext(b, own, b->i64), bias[2] = {{NULL}};
  if (!mlirValueIsNull(s->bias))
    load_bias(s, tile->expert, own, bias);
  MlirValue first = moe__add(b, tile->token, moe__shl(b, moe__and(b, self->lane, 3), 1));
  MlirValue has_rows = moe__ult(b, panel, s->rows.value); /* N is a multiple of a panel's rows */
  for (int j = 0; j < s->n / 8; j++) {
    if (8 * j % MOE__WARP == 0)
      scale_tokens(s, self, tile, 8 * j, sums);
    for (int c = 0; c < 2; c++) {
      MlirValue token = moe__add(b, moe__fresh(b, first), 8 * j + c);
      MOE__IF (b, moe__and(b, has_rows, moe__ult(b, token, tile->token_end))) {
        MlirValue at = moe__add(b, moe__wide_mul(b, token, s->rows.value), row);
        MlirValue values[] = {sums[4 * j + c], sums[4 * j + 2 + c]};
        for (int h = 0; h < 2 && !mlirValueIsNull(s->bias); h++)
          values[h] = moe__fadd(b, values[h], bias[h]);
        store_pair(s, values, moe__offset(b, s->out, moe__mul(b, at, bytes)));
      }
    }
  }
}

/* Results of 32 bits are not staged. */
static void store_sums(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                       const moe__mixed_tile_t *tile, const moe__mixed_fragment_t sums) {
  bool stages = moe__mixed_stages_results(&s->schedule) && !mlirTypeIsAF32(s->out_type);
  (stages ? store_staged : store_rows)(s, self, tile, sums);
}

/* Rows that two CTAs have in common: the second one sends its sums to the first. */
static void store_common(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                         const moe__mixed_tile_t *tile, const moe__mixed_fragment_t sums) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue is_common = moe__mixed_is_common(s, self);
  MlirValue is_first = moe__eq(b, s->kernel.cluster_rank, 0);
  MlirValue at = slot_at(s, self, moe__and(b, self->panel, MOE__MIXED_WARPS - 1),
                         moe__mixed_sums_bytes(&s->schedule));
  MOE__IF (b, is_common) {
    MOE__IF (b, moe__eq(b, s->kernel.cluster_rank, 1)) {
      moe__mixed_put_sums(s, sums, moe__shared_of_rank(b, at, moe__i32(b, 0)));
    }
  }
  MOE__ELSE (b) {
    store_rows(s, self, tile, sums);
  }
  moe__warp_barrier(b);
  moe__cluster_barrier(b);
  MOE__IF (b, moe__and(b, is_common, is_first)) {
    moe__mixed_fragment_t all;
    memcpy(all, sums, (size_t)s->schedule.tile_n / 2 * sizeof *all);
    moe__mixed_add_sums(s, at, all);
    moe__mixed_tile_t other = *tile;
    other.row = moe__add(b, tile->row, (s->schedule.warpgroups - 1) * MOE__WGMMA_M);
    store_rows(s, self, &other, all);
  }
}

void moe__mixed_slices_barrier(moe__mixed_mm_t *s) {
  moe__named_barrier(&s->kernel.builder, SLICES_BARRIER,
                     moe__mixed_warps(&s->schedule) * MOE__WARP);
}

/* The CTAs of a cluster add the sums of some tokens each, of all rows. */
static void store_tokens(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                         const moe__mixed_tile_t *tile, const moe__mixed_fragment_t sums) {
  moe__builder_t *b = &s->kernel.builder;
  if (moe__mixed_reuses(&s->schedule))
    moe__cluster_barrier(b); /* all have read their stages */
  s->n = tokens_of_cta(&s->schedule);
  for (int owner = 0; owner < s->schedule.split; owner++)
    send(s, self, moe__i32(b, owner), sums + (ptrdiff_t)owner * s->n / 2);
  moe__cluster_barrier(b);
  moe__mixed_fragment_t all = {{NULL}};
  add_parts(s, self, all);
  moe__mixed_tile_t own = *tile;
  own.token = moe__add(b, tile->token, moe__mul(b, s->kernel.cluster_rank, s->n));
  store_sums(s, self, &own, all);
  if (moe__mixed_reuses(&s->schedule)) /* the TMA may fill the stages again */
    moe__fence_shared_to_async(b);
  s->n = s->schedule.tile_n;
}

void moe__mixed_store(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                      const moe__mixed_tile_t *tile, const moe__mixed_fragment_t sums) {
  moe__builder_t *b = &s->kernel.builder;
  if (s->schedule.common) {
    store_common(s, self, tile, sums);
    return;
  }
  if (moe__mixed_divides_tokens(&s->schedule)) {
    store_tokens(s, self, tile, sums);
    return;
  }
  if (parts_of_panel(&s->schedule) == 1) {
    store_sums(s, self, tile, sums);
    return;
  }
  MlirValue owner = moe__udiv(b, self->panel, panels_of_cta(&s->schedule)), owns = {NULL};
  send(s, self, owner, sums);
  if (s->schedule.split > 1) {
    moe__cluster_barrier(b);
    owns = moe__eq(b, owner, s->kernel.cluster_rank);
  } else {
    moe__mixed_slices_barrier(s);
  }
  if (s->schedule.slices > 1) {
    MlirValue is_first = moe__eq(b, self->slice, 0);
    owns = mlirValueIsNull(owns) ? is_first : moe__and(b, owns, is_first);
  }
  MOE__IF (b, owns) {
    moe__mixed_fragment_t all = {{NULL}};
    add_parts(s, self, all);
    store_rows(s, self, tile, all);
  }
}
