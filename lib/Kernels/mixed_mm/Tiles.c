/* Tiles.c - the tiles of mixed_mm and the k-tiles of each that a CTA has: see MixedMm.h.
 *
 * A tile that reaches past the end of its expert's tokens multiplies those of the next one and
 * drops them: a token depends on nothing but itself.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/mixed_mm/MixedMm.h"

#include "lib/Device/Tiles.h"

int moe__mixed_own_rows(const moe__mixed_mm_t *s) {
  int rows = moe__mixed_rows(&s->schedule);
  return s->schedule.common ? rows - MOE__WGMMA_M : rows;
}

MlirValue moe__mixed_row_tiles(moe__mixed_mm_t *s) {
  return moe__ceil_div(&s->kernel.builder, s->rows.value, moe__mixed_tile_rows(&s->schedule));
}

MlirValue moe__mixed_tile_count(moe__mixed_mm_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  if (!mlirValueIsNull(s->offs))
    return moe__groups_total(&s->groups);
  return moe__mul(b, moe__ceil_div(b, s->tokens.value, s->schedule.tile_n),
                  moe__mixed_row_tiles(s));
}

/* The first row of this CTA in row tile `index`. */
static MlirValue first_row(moe__mixed_mm_t *s, MlirValue index) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue row = moe__mul(b, index, moe__mixed_tile_rows(&s->schedule));
  if (s->schedule.share == 1 && !s->schedule.common)
    return row;
  return moe__add(b, row, moe__mul(b, s->kernel.cluster_rank, moe__mixed_own_rows(s)));
}

moe__mixed_tile_t moe__mixed_tile_at(moe__mixed_mm_t *s, MlirValue index) {
  moe__builder_t *b = &s->kernel.builder;
  if (!mlirValueIsNull(s->offs)) {
    moe__group_tile_t tile = moe__groups_tile(&s->groups, index);
    return (moe__mixed_tile_t){.expert = tile.group,
                               .row = first_row(s, tile.column),
                               .token = tile.row,
                               .token_end = tile.row_end};
  }
  MlirValue across = moe__ceil_div(b, s->tokens.value, s->schedule.tile_n);
  if (s->schedule.band < MOE__MIXED_ALL_TOKENS) {
    MlirValue of_band = moe__mul(b, moe__mixed_row_tiles(s), s->schedule.band);
    MlirValue band = moe__udiv(b, index, of_band), within = moe__urem(b, index, of_band);
    MlirValue before = moe__mul(b, band, s->schedule.band);
    MlirValue width = moe__umin(b, moe__sub(b, across, before), s->schedule.band);
    MlirValue token = moe__add(b, before, moe__urem(b, within, width));
    return (moe__mixed_tile_t){.expert = moe__i32(b, 0),
                               .row = first_row(s, moe__udiv(b, within, width)),
                               .token = moe__mul(b, token, s->schedule.tile_n),
                               .token_end = s->tokens.value};
  }
  return (moe__mixed_tile_t){.expert = moe__i32(b, 0),
                             .row = first_row(s, moe__udiv(b, index, across)),
                             .token = moe__mul(b, moe__urem(b, index, across), s->schedule.tile_n),
                             .token_end = s->tokens.value};
}

MlirValue moe__mixed_loaded_tokens(moe__mixed_mm_t *s) {
  return moe__umin(&s->kernel.builder, s->tokens.value, s->schedule.tile_n);
}

MlirValue moe__mixed_k_tiles(moe__mixed_mm_t *s) {
  return moe__ceil_div(&s->kernel.builder, s->depth.value, s->schedule.depth);
}

moe__mixed_reduction_t moe__mixed_reduction_of(moe__mixed_mm_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue all = moe__mixed_k_tiles(s);
  if (s->schedule.split == 1)
    return (moe__mixed_reduction_t){moe__i32(b, 0), all};
  MlirValue rank = s->kernel.cluster_rank;
  MlirValue first = moe__udiv(b, moe__mul(b, all, rank), s->schedule.split);
  MlirValue end = moe__udiv(b, moe__mul(b, all, moe__add(b, rank, 1)), s->schedule.split);
  /* Who has none takes one behind the last, which is all zeros: warps need not ask. */
  MlirValue has_none = moe__eq(b, first, end);
  return (moe__mixed_reduction_t){moe__select(b, has_none, all, first),
                                  moe__umax(b, moe__sub(b, end, first), 1)};
}

MlirValue moe__mixed_common_count(moe__mixed_mm_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue all = moe__mixed_k_tiles(s);
  return moe__lshr(b, moe__add(b, all, s->kernel.cluster_rank), 1);
}

void moe__mixed_end_tile(moe__mixed_mm_t *s, MlirValue index, MlirValue total, bool multiplies) {
  moe__builder_t *b = &s->kernel.builder;
  if (!moe__mixed_meets(&s->schedule) && (s->schedule.slices == 1 || !multiplies))
    return;
  MOE__IF (b, moe__ult(b, moe__add(b, index, moe__tiles_step(&s->kernel)), total)) {
    if (moe__mixed_meets(&s->schedule))
      moe__cluster_barrier(b);
    else
      moe__mixed_slices_barrier(s);
  }
}
