/* Load.c - the loading warpgroup of scaled_mm: see ScaledMm.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/scaled_grouped_mm/ScaledMm.h"

#include "lib/Device/Warp.h"
#include "lib/Kernels/scaled_grouped_mm/Blocks.h"
#include "lib/Kernels/scaled_grouped_mm/Mx.h"

MlirValue moe__mm_in_stage(moe__scaled_mm_t *s, moe__cursor_t cursor, int32_t offset) {
  moe__builder_t *b = &s->kernel.builder;
  return moe__offset_by(b, moe__ring_buffer(&s->kernel, &s->layout.ring, cursor), offset);
}

MlirValue moe__mm_behind_tiles(moe__scaled_mm_t *s, moe__cursor_t cursor) {
  return moe__mm_in_stage(s, cursor,
                          (moe__mm_tile_rows(&s->schedule) + s->schedule.tile_n) * MOE__MM_TILE_K);
}

MlirValue moe__mm_first_row(moe__scaled_mm_t *s, const moe__mm_operand_t *operand,
                            const moe__group_tile_t *tile) {
  moe__builder_t *b = &s->kernel.builder;
  if (operand == &s->operands[MOE__MM_QB])
    return moe__mul(b, tile->column, operand->tile);
  if (s->which == MOE__FORWARD)
    return tile->row;
  return moe__sub(b, tile->row, moe__mul(b, tile->group, s->rows.value));
}

/* Loads a box; of an operand that the CTAs of a cluster share, into all of them. */
static void load_box(moe__scaled_mm_t *s, const moe__mm_operand_t *operand, MlirValue buffer,
                     MlirValue landed, const MlirValue *coordinates) {
  moe__builder_t *b = &s->kernel.builder;
  if (!moe__mm_is_shared(s, operand)) {
    /* Weights make room for each other in L2, and not in place of tokens and of what is stored. */
    bool once = s->schedule.swap_operands && operand == s->side[0];
    (once ? moe__tma_load_once : moe__tma_load)(b, operand->map, buffer, landed, operand->map_rank,
                                                coordinates);
    return;
  }
  MlirValue all = moe__trunc(b, moe__i32(b, (1 << s->schedule.cluster) - 1), b->i16);
  moe__tma_load_multicast(b, operand->map, buffer, landed, operand->map_rank, coordinates, all);
}

/* Loads what a tile takes of an MN-major operand: a box for each 64 of its rows. Of what the CTAs
 * of a cluster share, each loads a part of the reduction. */
static void load_blocks(moe__scaled_mm_t *s, const moe__mm_operand_t *operand,
                        const moe__group_tile_t *tile, MlirValue at, MlirValue row,
                        MlirValue buffer, MlirValue landed) {
  moe__builder_t *b = &s->kernel.builder;
  if (moe__mm_is_shared(s, operand)) {
    MlirValue part = moe__mul(b, s->kernel.cluster_rank, moe__mm_box_depth(s, operand));
    buffer = moe__offset(b, buffer, moe__mul(b, part, MOE__MM_TILE_K));
    at = moe__add(b, at, part);
  }
  for (int i = 0; i < operand->tile / MOE__MM_BLOCK_ROWS; i++)
    load_box(s, operand, moe__offset_by(b, buffer, i * MOE__MM_BLOCK_BYTES), landed,
             (MlirValue[]){moe__add(b, row, i * MOE__MM_BLOCK_ROWS), at, tile->group});
}

/* Loads what a tile takes of an operand, from `at` of the reduction on, to `buffer`. Of
 * what the CTAs of a cluster share, each of them loads a part, for all. */
static void load_operand(moe__scaled_mm_t *s, const moe__mm_operand_t *operand,
                         const moe__group_tile_t *tile, MlirValue at, MlirValue buffer,
                         MlirValue landed) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue row = moe__mm_first_row(s, operand, tile);
  if (operand->mn_major) {
    load_blocks(s, operand, tile, at, row, buffer, landed);
    return;
  }
  if (moe__mm_is_direct(s) && operand == s->side[1]) {
    MlirValue zero = moe__i32(b, 0);
    moe__tma_load(b, operand->map, buffer, landed, operand->map_rank,
                  (MlirValue[]){at, zero, moe__lshr(b, row, 3), zero, tile->group});
    return;
  }
  if (moe__mm_is_shared(s, operand)) {
    MlirValue part = moe__mul(b, s->kernel.cluster_rank, operand->box);
    buffer = moe__offset(b, buffer, moe__mul(b, part, MOE__MM_TILE_K));
    row = moe__add(b, row, part);
  }
  load_box(s, operand, buffer, landed, (MlirValue[]){at, row, tile->group});
}

/* Loads those pieces of the columns' operand that have tokens. */
static void load_pieces(moe__scaled_mm_t *s, const moe__group_tile_t *tile, MlirValue pieces,
                        MlirValue at, MlirValue buffer, MlirValue landed) {
  moe__builder_t *b = &s->kernel.builder;
  int32_t box = s->side[1]->box;
  moe__group_tile_t from = *tile;
  MOE__FOR (b, piece, 0, pieces, 1) {
    MlirValue before = moe__mul(b, piece, box);
    from.row = moe__add(b, tile->row, before);
    load_operand(s, s->side[1], &from, at,
                 moe__offset(b, buffer, moe__mul(b, before, MOE__MM_TILE_K)), landed);
  }
}

/* Where the loader stands: the stage it fills next, and of a gradient what is to be cleared. */
typedef struct loader_t {
  moe__cursor_t cursor;
  MlirValue request;            /* the number of the next one (i32) */
  MlirValue pieces;             /* of the tile's columns (i32); null where there is one */
  moe__mm_block_loads_t scales; /* of the tile; with scales of blocks */
  /* Where the loader looks ahead: the next tile, which is looked for while the last k-tiles of this
   * one are loaded; the group it is looked for from (i32); and, where operands are made, what is
   * known of them. */
  moe__group_tile_t tile;
  MlirValue group;
  moe__mm_asked_t asked;
} loader_t;

/* Loads both tiles of the stage at the cursor, the second behind the first. */
static void load_operands(moe__scaled_mm_t *s, const moe__group_tile_t *tile, MlirValue at,
                          const loader_t *loader, MlirValue landed) {
  MlirValue buffer = moe__ring_buffer(&s->kernel, &s->layout.ring, loader->cursor);
  load_operand(s, s->side[0], tile, at, buffer, landed);
  buffer =
      moe__offset_by(&s->kernel.builder, buffer, moe__mm_tile_rows(&s->schedule) * MOE__MM_TILE_K);
  if (loader->pieces.ptr)
    load_pieces(s, tile, loader->pieces, at, buffer, landed);
  else
    load_operand(s, s->side[1], tile, at, buffer, landed);
}

/* It among the variables that a loop carries over tiles, and over the k-tiles of one. */
#define CARRY_LOADER(loader) MOE__CARRY_CURSOR((loader).cursor), &(loader).request

/* Whether k-tiles of which nothing is cleared have a loop of their own. */
#define CUT_K_TILES 2
static bool splits(const moe__scaled_mm_t *s) {
  return moe__mm_clears(s) && mlirTypeIsNull(s->half);
}

/* Loads k-tile number `index` of a tile; cut: it may be one of which something is cleared. */
static void load_k_tile(moe__scaled_mm_t *s, const moe__mm_work_t *work,
                        const moe__mm_reduction_t *reduction, MlirValue index, bool cut,
                        loader_t *loader) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  int32_t row_bytes = moe__mm_tile_rows(&s->schedule) * MOE__MM_TILE_K;
  int32_t column_bytes = s->schedule.tile_n * MOE__MM_TILE_K;
  MlirValue at = moe__mm_k_tile_at(s, reduction, index);
  moe__ring_wait_empty(kernel, &s->layout.ring, loader->cursor);
  MlirValue landed = cut ? moe__mm_request(s, reduction, at, loader->cursor, &loader->request)
                         : moe__ring_full(kernel, &s->layout.ring, loader->cursor);
  bool scales = moe__mm_has_block_scales(s);
  int32_t scale_bytes = scales ? moe__mm_block_scales_bytes(s) : 0;
  MOE__IF (b, s->loads) {
    MlirValue bytes = moe__i32(b, row_bytes + column_bytes + scale_bytes);
    if (loader->pieces.ptr)
      bytes = moe__add(b, moe__mul(b, loader->pieces, column_bytes / s->schedule.pieces),
                       row_bytes + scale_bytes);
    if (cut && !splits(s))
      moe__mm_expect(s, landed, bytes);
    else
      moe__mbarrier_arrive_expect(b, landed, bytes);
    load_operands(s, &work->tile, at, loader, landed);
    if (scales)
      moe__mm_block_load(s, &loader->scales, index, loader->cursor, landed);
    if (splits(s))
      moe__mm_arrive_for_clearers(s, landed);
  }
  loader->cursor = moe__cursor_next(b, &s->layout.ring, loader->cursor);
}

/* Loads block `index` of a gradient's tile, which begins with token `at`, where groups are
 * aligned. */
static void load_aligned_block(moe__scaled_mm_t *s, const moe__mm_work_t *work, MlirValue index,
                               MlirValue at, loader_t *loader) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  MlirValue no_tail = {NULL};
  moe__ring_wait_empty(kernel, &s->layout.ring, loader->cursor);
  MOE__IF (b, s->loads) {
    MlirValue landed = moe__ring_full(kernel, &s->layout.ring, loader->cursor);
    moe__mbarrier_arrive_expect(b, landed, moe__mm_token_block_bytes(s, no_tail));
    load_operands(s, &work->tile, at, loader, landed);
    moe__mm_token_block_load(s, work, index, at, no_tail, loader->cursor, landed);
  }
  loader->cursor = moe__cursor_next(b, &s->layout.ring, loader->cursor);
}

/* Loads block `index` of a gradient's tile; nothing where the group has no tokens. */
static void load_token_block(moe__scaled_mm_t *s, const moe__mm_work_t *work,
                             const moe__mm_reduction_t *reduction, MlirValue index,
                             loader_t *loader) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  MlirValue at = moe__mm_k_tile_at(s, reduction, index);
  if (s->aligned) {
    load_aligned_block(s, work, index, at, loader);
    return;
  }
  MlirValue has_tail = moe__ne(b, moe__mm_token_head(s, reduction), 0);
  MlirValue has_tokens = moe__ne(b, reduction->start, reduction->end);
  moe__ring_wait_empty(kernel, &s->layout.ring, loader->cursor);
  MlirValue landed = moe__mm_request_block(s, reduction, index, loader->cursor, &loader->request);
  MOE__IF (b, s->loads) {
    MlirValue bytes = moe__select(b, has_tokens, moe__mm_token_block_bytes(s, has_tail), 0);
    moe__mm_expect(s, landed, bytes);
    MOE__IF (b, has_tokens) {
      load_operands(s, &work->tile, at, loader, landed);
      moe__mm_token_block_load(s, work, index, at, has_tail, loader->cursor, landed);
    }
  }
  loader->cursor = moe__cursor_next(b, &s->layout.ring, loader->cursor);
}

/* The same where blocks are MX: the warps that write factors make the stage full. */
static void load_mx_tokens(moe__scaled_mm_t *s, const moe__mm_work_t *work,
                           const moe__mm_reduction_t *reduction, MlirValue index,
                           loader_t *loader) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  MlirValue at = moe__mm_k_tile_at(s, reduction, index), has_tail = {NULL};
  if (!s->aligned)
    has_tail = moe__ne(b, moe__mm_token_head(s, reduction), 0);
  moe__ring_wait_empty(kernel, &s->layout.ring, loader->cursor);
  MOE__IF (b, s->loads) {
    MlirValue landed = moe__mm_mx_tokens_expect(s, has_tail, loader->cursor);
    load_operands(s, &work->tile, at, loader, landed);
    if (!s->aligned) {
      MOE__IF (b, has_tail) {
        moe__mm_mx_tokens_load_tails(s, work, at, loader->cursor, landed);
      }
      moe__mbarrier_arrive(b, moe__ring_full(kernel, &s->layout.ring, loader->cursor));
    }
  }
  loader->cursor = moe__cursor_next(b, &s->layout.ring, loader->cursor);
}

/* Loads k-tiles number `from` to `to` of a tile; cut: as of load_k_tile. */
static void load_k_tiles(moe__scaled_mm_t *s, const moe__mm_work_t *work,
                         const moe__mm_reduction_t *reduction, MlirValue from, MlirValue to,
                         bool cut, loader_t *loader) {
  moe__builder_t *b = &s->kernel.builder;
  if (moe__mm_has_block_scales(s)) {
    MOE__FOR (b, k_tile, from, to, 1, MOE__CARRY_CURSOR(loader->cursor)) {
      load_k_tile(s, work, reduction, k_tile, cut, loader);
    }
    return;
  }
  MOE__FOR (b, k_tile, from, to, 1, CARRY_LOADER(*loader)) {
    load_k_tile(s, work, reduction, k_tile, cut, loader);
  }
}

/* So many k-tiles before its last one a CTA asks for its next tile, where it does so late: what
 * they take is about what the answer takes. */
#define LAST_K_TILES 2
/* And so many before it the loader looks for the next tile. Where operands are made: looks for it,
 * asks for its operands, and has waited for them. Each for itself takes less than what has been
 * loaded lasts. */
#define LOOKING_K_TILES 5
#define ASKING_K_TILES 8
#define AWAITING_K_TILES 4

/* So many k-tiles less `count`, but not less than none. */
static MlirValue before_last(moe__builder_t *b, MlirValue k_tiles, int count) {
  return moe__sub(b, k_tiles, moe__umin(b, k_tiles, moe__i32(b, count)));
}

/* Whether it looks for the next tile then: where that and a new tile's begin would take longer than
 * what has been loaded lasts. */
static bool looks_ahead(const moe__scaled_mm_t *s) {
  return moe__mm_looks_from(s) || s->makes_operands;
}

/* What it knows of the next tile among the variables that the loop over tiles carries. */
#define AHEAD(s, variable) (looks_ahead(s) ? (variable) : NULL)
#define OF_MADE(s, variable) ((s)->makes_operands ? (variable) : NULL)
#define CARRY_AHEAD(s, loader)                                                                     \
  AHEAD(s, &(loader).tile.group), AHEAD(s, &(loader).tile.row), AHEAD(s, &(loader).tile.row_end),  \
      AHEAD(s, &(loader).tile.column), AHEAD(s, &(loader).group),                                  \
      OF_MADE(s, &(loader).asked.found[0]), OF_MADE(s, &(loader).asked.found[1]),                  \
      OF_MADE(s, &(loader).asked.found[2]), OF_MADE(s, &(loader).asked.found[3]),                  \
      OF_MADE(s, &(loader).asked.done), OF_MADE(s, &(loader).asked.is_all)

/* Finds tile number `index`, the last one if there are no more, and asks whether its operands have
 * been made, where they are. */
static void look_ahead(moe__scaled_mm_t *s, MlirValue index, loader_t *loader) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue last = moe__sub(b, moe__mm_tile_count(s), 1);
  moe__mm_work_t next = moe__mm_work_at(s, moe__umin(b, index, last), &loader->group);
  loader->tile = next.tile;
  if (s->makes_operands)
    moe__mm_ask_for_made(s, &next, &loader->asked);
}

/* Loads all of tile number `index`; gives the number of the next one, unless it has been asked for:
 * null. */
static MlirValue load_tile(moe__scaled_mm_t *s, MlirValue index, const moe__mm_work_t *work,
                           loader_t *loader) {
  moe__builder_t *b = &s->kernel.builder;
  moe__mm_reduction_t reduction = moe__mm_reduction_of(s, work);
  if (moe__mm_has_token_blocks(s)) {
    MOE__FOR (b, block, 0, reduction.k_tiles, 1, CARRY_LOADER(*loader)) {
      load_token_block(s, work, &reduction, block, loader);
    }
    return (MlirValue){NULL};
  }
  if (moe__mm_has_mx_tokens(s)) {
    MOE__FOR (b, k_tile, 0, reduction.k_tiles, 1, MOE__CARRY_CURSOR(loader->cursor)) {
      load_mx_tokens(s, work, &reduction, k_tile, loader);
    }
    return (MlirValue){NULL};
  }
  if (s->schedule.pieces > 1)
    loader->pieces = moe__mm_pieces(s, &work->tile);
  if (moe__mm_has_block_scales(s))
    loader->scales = moe__mm_block_loads(s, &work->tile);
  MlirValue zero = moe__i32(b, 0), next = {NULL}, late = zero;
  if (splits(s)) {
    late = moe__umin(b, reduction.k_tiles, moe__i32(b, CUT_K_TILES));
    load_k_tiles(s, work, &reduction, zero, late, true, loader);
  } else if (moe__mm_counts_late(s)) {
    late = before_last(b, reduction.k_tiles, LAST_K_TILES);
    load_k_tiles(s, work, &reduction, zero, late, false, loader);
    next = moe__mm_next_tile(s, index);
  } else if (s->makes_operands) {
    MlirValue asks = before_last(b, reduction.k_tiles, ASKING_K_TILES);
    load_k_tiles(s, work, &reduction, zero, asks, false, loader);
    look_ahead(s, moe__mm_next_tile(s, index), loader);
    late = before_last(b, reduction.k_tiles, AWAITING_K_TILES);
    load_k_tiles(s, work, &reduction, asks, late, false, loader);
    moe__mm_await_made(s, &(moe__mm_work_t){.tile = loader->tile}, &loader->asked);
  } else if (looks_ahead(s)) {
    late = before_last(b, reduction.k_tiles, LOOKING_K_TILES);
    load_k_tiles(s, work, &reduction, zero, late, false, loader);
    look_ahead(s, moe__mm_next_tile(s, index), loader);
  }
  bool cut = moe__mm_clears(s) && !splits(s);
  load_k_tiles(s, work, &reduction, late, reduction.k_tiles, cut, loader);
  return next;
}

/* Announces slots that the thread which loads has written: `count` of them from `slot` on. */
static void announce(moe__scaled_mm_t *s, moe__cursor_t slot, int count) {
  moe__builder_t *b = &s->kernel.builder;
  if (s->which == MOE__GRADIENT)
    moe__warp_barrier(b); /* all lanes go on together: they wait for phases by parity */
  if (!s->schedule.pingpong)
    return;
  MOE__IF (b, s->loads) {
    for (int i = 0; i < count; i++, slot = moe__mm_slot_behind(s, slot))
      moe__mm_announce_slot(s, slot);
  }
}

/* Says that there are no more tiles: to each warpgroup, or to both by one more stage with
 * nothing in it. */
static void write_ends(moe__scaled_mm_t *s, moe__cursor_t slot, const loader_t *loader) {
  moe__builder_t *b = &s->kernel.builder;
  MOE__IF (b, s->loads) {
    moe__mm_write_end(s, slot);
    moe__ring_t *ring = &s->layout.ring;
    if (s->schedule.pingpong)
      moe__mm_write_end(s, moe__mm_slot_behind(s, slot));
    if (moe__mm_clears(s)) {
      moe__ring_wait_empty(&s->kernel, ring, loader->cursor);
      moe__mm_end_requests(s, loader->request);
      if (!s->schedule.pingpong)
        moe__mm_expect(s, moe__ring_full(&s->kernel, ring, loader->cursor), moe__i32(b, 0));
    } else if (!s->schedule.pingpong) {
      moe__ring_acquire(&s->kernel, ring, loader->cursor, moe__i32(b, 0));
    }
    if (moe__mm_has_mx_tokens(s))
      moe__mm_mx_tokens_end(s, loader->cursor);
    moe__mm_finish_counting(s, moe__mm_loader_share(s));
  }
  if (s->schedule.pingpong)
    announce(s, slot, MOE__MM_WARPGROUPS);
}

/* Finds the first tile, if there is one, and waits for its operands where they are made. */
static void begin_ahead(moe__scaled_mm_t *s, MlirValue index, MlirValue total, loader_t *loader) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue zero = moe__i32(b, 0);
  loader->tile = (moe__group_tile_t){zero, zero, zero, zero};
  loader->group = zero;
  loader->asked = moe__mm_asked_nothing(s);
  MlirValue is_there = moe__zext(b, moe__ult(b, index, total), b->i32);
  MOE__FOR (b, once, 0, is_there, 1, CARRY_AHEAD(s, *loader)) {
    moe__mm_work_t first = moe__mm_work_at(s, index, &loader->group);
    loader->tile = first.tile;
    if (s->makes_operands)
      moe__mm_await_made(s, &first, &loader->asked);
  }
}

static void load_tiles(moe__scaled_mm_t *s) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  MlirValue total = moe__mm_tile_count(s);
  loader_t loader = {.cursor = moe__cursor_start(b), .request = moe__i32(b, 0)};
  moe__cursor_t slot = moe__cursor_start(b);
  MlirValue index = moe__tiles_first(kernel), group = moe__i32(b, 0);
  MlirValue patience = moe__mm_patience(s);
  if (looks_ahead(s))
    begin_ahead(s, index, total, &loader);
  MOE__WHILE (b, moe__ult(b, index, total), CARRY_LOADER(loader), MOE__CARRY_CURSOR(slot), &index,
              moe__mm_is_in_step(s) ? &patience : NULL, CARRY_AHEAD(s, loader)) {
    if (moe__mm_is_in_step(s))
      moe__mm_begin_in_step(s, index, total, &patience);
    MlirValue next = {NULL};
    if (!moe__mm_counts_late(s))
      next = moe__mm_next_tile(s, index); /* early: it takes its time */
    moe__mm_work_t work =
        looks_ahead(s) ? (moe__mm_work_t){.tile = loader.tile} : moe__mm_work_at(s, index, &group);
    MOE__IF (b, s->loads) {
      moe__mm_write_slot(s, slot, &work);
      if (s->schedule.pingpong)
        moe__mm_write_first(s, slot, loader.cursor);
    }
    announce(s, slot, 1);
    MlirValue late = load_tile(s, index, &work, &loader);
    slot = moe__mm_slot_behind(s, slot);
    if (moe__mm_counts_late(s))
      index = late;
    else
      index = moe__mm_counts_tiles(s) ? moe__shuffle(b, next, moe__i32(b, 0)) : next;
  }
  write_ends(s, slot, &loader);
}

/* The loading warpgroup: one thread is here, or of a gradient one warp, of which one thread
 * loads. */
void moe__mm_load(moe__scaled_mm_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue end = moe__i32(b, moe__mm_threads(&s->schedule) + MOE__WARP), is_here = s->loads;
  if (s->which == MOE__GRADIENT)
    is_here = moe__ult(b, s->kernel.thread, end);
  else
    s->loads = moe__op1(b, "arith.constant", b->i1, MOE__NO_VALUES, "value = true");
  MOE__IF (b, is_here) {
    load_tiles(s);
  }
}
