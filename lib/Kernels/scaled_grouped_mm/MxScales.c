/* MxScales.c - scales of MX blocks in the kernel of scaled_mm: see ScaledMm.h.
 *
 *   out = cast(sum over j of sa[m, j] * (sb[e, j, n] * dot_j))        powers of two
 *
 * A k-tile has four MX blocks. Three warps of the loading warpgroup read what a tile takes of sa
 * and sb, as bytes, and write beside the stage what the multiplying warps need of it: fp32
 * factors, in the order in which the lanes of a fragment read them. They look for the tiles by
 * themselves, or where the loader takes them by a counter read which it is; they wait for free
 * stages as the loader does, and make a stage full together with it.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/scaled_grouped_mm/ScaledMm.h"

#include "lib/Device/Warp.h"
#include "lib/Kernels/scaled_grouped_mm/Mx.h"

#define BLOCKS 4 /* MX blocks of a k-tile */
#define WRITERS MOE__MM_MX_WRITERS
#define MAX_ROUNDS 2 /* in which they take 192 rows or columns */
#define E8M0_ONE 127
#define E8M0_NAN 255
#define F32_POWER_MINUS_127 0x00400000
#define F32_NAN 0x7FC00000

/* ---- What there is ---- */

bool moe__mm_has_mx_scales(const moe__scaled_mm_t *s) {
  return s->operands[MOE__MM_QA].granularity == MOE__SCALE_OF_MX_BLOCK;
}

int32_t moe__mm_mx_factor_bytes(const moe__mm_schedule_t *schedule) {
  return BLOCKS * (MOE__MM_TILE_ROWS + schedule->tile_n) * 4;
}

/* ---- Where factors stand ----
 *
 * For each MX block those of the rows, then those of the columns. A lane reads four at once: of
 * rows l, l + 8, l + 64, l + 72; of columns 2q, 2q + 1, 2q + 8, 2q + 9 of each 16. */

/* The place of row or column `i` (i32) among those of an MX block, in factors. */
static MlirValue row_place(moe__builder_t *b, MlirValue i) {
  MlirValue warp = moe__shl(b, moe__and(b, moe__lshr(b, i, 4), 3), 5);
  MlirValue lane = moe__shl(b, moe__and(b, i, 7), 2);
  MlirValue half = moe__and(b, moe__lshr(b, i, 3), 1);
  MlirValue fragment = moe__shl(b, moe__lshr(b, i, 6), 1);
  return moe__or(b, moe__or(b, warp, lane), moe__or(b, half, fragment));
}

static MlirValue column_place(moe__builder_t *b, MlirValue i) {
  MlirValue quad = moe__shl(b, moe__and(b, moe__lshr(b, i, 1), 3), 2);
  MlirValue half = moe__shl(b, moe__and(b, moe__lshr(b, i, 3), 1), 1);
  MlirValue rest = moe__or(b, moe__and(b, i, -16), moe__and(b, i, 1));
  return moe__or(b, moe__or(b, rest, quad), half);
}

static int32_t first_column_factor(void) {
  return BLOCKS * MOE__MM_TILE_ROWS * 4;
}

/* ---- The warps that write them ---- */

/* The rows or the columns of a tile: what the thread reads of their scales. A word is four scales:
 * the k-tile's of a row, or where the scales of an MX block lie side by side, four rows' of one MX
 * block. */
typedef struct part_t {
  const moe__mm_operand_t *operand;
  int lines, rounds;
  MlirValue extent; /* i32: lines of the operand, where scales of an MX block lie side by side */
  bool side_by_side;
  MlirValue item[MAX_ROUNDS];  /* i32: the word's number; some are past the end */
  MlirValue from[MAX_ROUNDS];  /* !llvm.ptr<1>: the word of the first k-tile */
  MlirValue block[MAX_ROUNDS]; /* i32: its MX block in a k-tile, if they lie side by side */
  MlirValue words[MAX_ROUNDS];
} part_t;

typedef struct writer_t {
  moe__scaled_mm_t *s;
  MlirValue thread;       /* i32: among the writers */
  MlirValue blocks, last; /* i32: MX blocks that a tile sums over; the last k-tile */
  part_t parts[2];        /* rows, columns */
} writer_t;

static MlirValue last_of(moe__builder_t *b, MlirValue count) {
  return moe__sub(b, count, 1);
}

/* The row of the operand, among those of all experts, that line `line` of the tile is (i64); the
 * last one in place of those behind it. */
static MlirValue place(moe__scaled_mm_t *s, const moe__mm_operand_t *operand,
                       const moe__group_tile_t *tile, MlirValue line) {
  moe__builder_t *b = &s->kernel.builder;
  if (operand == &s->operands[MOE__MM_QA]) {
    MlirValue all =
        s->which == MOE__BATCHED ? moe__mul(b, s->experts.value, s->rows.value) : s->rows.value;
    return moe__zext(b, moe__umin(b, moe__add(b, tile->row, line), last_of(b, all)), b->i64);
  }
  MlirValue column = moe__add(b, moe__mul(b, tile->column, operand->tile), line);
  column = moe__umin(b, column, last_of(b, s->columns.value));
  return moe__add(b, moe__wide_mul(b, tile->group, s->columns.value), moe__zext(b, column, b->i64));
}

static MlirValue wide_product(moe__builder_t *b, MlirValue x, MlirValue y) {
  return moe__op1(b, "arith.muli", b->i64, MOE__VALUES(x, moe__zext(b, y, b->i64)), NULL);
}

/* Of scales that lie side by side: the first line of the tile, and where those of its first MX
 * block begin (i64). */
static MlirValue first_line(writer_t *w, const moe__group_tile_t *tile, const part_t *part) {
  moe__scaled_mm_t *s = w->s;
  moe__builder_t *b = &s->kernel.builder;
  if (part->operand == &s->operands[MOE__MM_QB])
    return moe__mul(b, tile->column, part->operand->tile);
  return moe__sub(b, tile->row, moe__mul(b, tile->group, s->rows.value));
}

static MlirValue first_block(writer_t *w, const moe__mm_work_t *work, const part_t *part) {
  moe__scaled_mm_t *s = w->s;
  moe__builder_t *b = &s->kernel.builder;
  if (!moe__mm_has_mx_tokens(s))
    return wide_product(b, moe__wide_mul(b, work->tile.group, w->blocks), part->extent);
  MlirValue row = moe__lshr(b, work->start, 5);
  if (!s->aligned)
    row = moe__add(b, row, work->tile.group);
  return moe__wide_mul(b, row, part->extent);
}

/* Begins a tile. */
static void find_part(writer_t *w, const moe__mm_work_t *work, part_t *part) {
  moe__scaled_mm_t *s = w->s;
  moe__builder_t *b = &s->kernel.builder;
  const moe__group_tile_t *tile = &work->tile;
  for (int i = 0; i < part->rounds; i++) {
    MlirValue offset;
    part->item[i] = moe__add(b, w->thread, i * WRITERS);
    if (part->side_by_side) {
      int words = part->lines / BLOCKS; /* of an MX block */
      MlirValue block = moe__udiv(b, part->item[i], words);
      part->block[i] = moe__umin(b, block, BLOCKS - 1);
      MlirValue line = moe__shl(b, moe__urem(b, part->item[i], words), 2);
      line = moe__add(b, first_line(w, tile, part), line);
      line = moe__umin(b, line, moe__sub(b, part->extent, BLOCKS));
      offset = moe__add(b, first_block(w, work, part), moe__zext(b, line, b->i64));
    } else {
      offset = wide_product(b, place(s, part->operand, tile, part->item[i]), w->blocks);
    }
    part->from[i] = moe__offset(b, part->operand->scales, offset);
  }
}

/* The four scales of a line from block `first` on, one by one: the line does not begin at a
 * multiple of four bytes. Behind the last one there are ones. */
static MlirValue read_bytes(writer_t *w, MlirValue line, MlirValue first) {
  moe__builder_t *b = &w->s->kernel.builder;
  MlirValue word = moe__i32(b, 0);
  for (int i = 0; i < BLOCKS; i++) {
    MlirValue block = moe__add(b, first, i);
    MlirValue inside = moe__ult(b, block, w->blocks);
    MlirValue at = moe__umin(b, block, last_of(b, w->blocks));
    MlirValue byte = moe__zext(b, moe__load(b, moe__offset(b, line, at), b->i8), b->i32);
    word = moe__or(b, word, moe__shl(b, moe__select(b, inside, byte, E8M0_ONE), 8 * i));
  }
  return word;
}

/* Reads the words of k-tile `index`, or of the last one. */
static void read_part(writer_t *w, part_t *part, MlirValue index) {
  moe__scaled_mm_t *s = w->s;
  moe__builder_t *b = &s->kernel.builder;
  MlirValue first = moe__shl(b, moe__umin(b, index, w->last), 2);
  MlirValue zero = moe__i32(b, 0), one = moe__i32(b, 1);
  MlirValue aligned = moe__eq(b, moe__and(b, w->blocks, BLOCKS - 1), 0);
  for (int i = 0; i < part->rounds; i++) {
    MlirValue word = moe__i32(b, E8M0_ONE * 0x01010101);
    if (part->side_by_side) {
      MlirValue block = moe__add(b, first, part->block[i]);
      MOE__FOR (b, once, 0, moe__select(b, moe__ult(b, block, w->blocks), one, zero), 1, &word) {
        MlirValue offset = moe__wide_mul(b, block, part->extent);
        word = moe__load(b, moe__offset(b, part->from[i], offset), b->i32);
      }
    } else {
      MOE__FOR (b, once, 0, moe__select(b, aligned, one, zero), 1, &word) {
        word = moe__load(b, moe__offset(b, part->from[i], first), b->i32);
      }
      MOE__FOR (b, once, 0, moe__select(b, aligned, zero, one), 1, &word) {
        word = read_bytes(w, part->from[i], first);
      }
    }
    part->words[i] = word;
  }
}

/* Scale number `i` of a word, as fp32. */
static MlirValue factor(moe__builder_t *b, MlirValue word, int i) {
  MlirValue byte = moe__and(b, moe__lshr(b, word, 8 * i), 0xFF);
  MlirValue bits = moe__umax(b, moe__shl(b, byte, 23), moe__i32(b, F32_POWER_MINUS_127));
  return moe__select(b, moe__eq(b, byte, E8M0_NAN), F32_NAN, bits);
}

static void write_part(writer_t *w, const part_t *part, bool is_rows, MlirValue factors) {
  moe__builder_t *b = &w->s->kernel.builder;
  int32_t block_bytes = part->lines * 4;
  for (int i = 0; i < part->rounds; i++)
    MOE__IF (b, moe__ult(b, part->item[i], part->lines)) {
      MlirValue line = part->item[i];
      if (part->side_by_side)
        line = moe__shl(b, moe__urem(b, line, part->lines / BLOCKS), 2);
      MlirValue place = is_rows ? row_place(b, line) : column_place(b, line);
      MlirValue at = moe__offset(b, factors, moe__shl(b, place, 2));
      if (part->side_by_side)
        at = moe__offset(b, at, moe__mul(b, part->block[i], block_bytes));
      for (int j = 0; j < BLOCKS; j++) {
        /* The places of four neighbors, of which the first is a multiple of four. */
        int32_t neighbor = is_rows ? 4 * j : j + (j & 2);
        int32_t distance = part->side_by_side ? neighbor * 4 : j * block_bytes;
        moe__store(b, factor(b, part->words[i], j), moe__offset_by(b, at, distance));
      }
    }
}

/* Writes the factors of a tile, and places its tokens where it sums over them. */
static void write_tile(writer_t *w, const moe__mm_work_t *work, moe__cursor_t *cursor) {
  moe__scaled_mm_t *s = w->s;
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  moe__mm_reduction_t reduction = moe__mm_reduction_of(s, work);
  part_t *rows = &w->parts[0], *columns = &w->parts[1];
  if (moe__mm_has_mx_tokens(s)) {
    w->blocks = moe__ceil_div(b, moe__sub(b, work->end, work->start), MOE_MX_BLOCK);
    w->last = last_of(b, reduction.k_tiles);
  }
  for (int i = 0; i < 2; i++) {
    find_part(w, work, &w->parts[i]);
    read_part(w, &w->parts[i], moe__i32(b, 0));
  }
  MOE__FOR (b, k_tile, 0, reduction.k_tiles, 1, &cursor->stage, &cursor->phase, &rows->words[0],
            &rows->words[1], &columns->words[0], columns->rounds > 1 ? &columns->words[1] : NULL) {
    part_t now[2] = {*rows, *columns};
    for (int i = 0; i < 2; i++) /* they come while this one waits for its stage */
      read_part(w, &w->parts[i], moe__add(b, k_tile, 1));
    moe__ring_wait_empty(kernel, &s->layout.ring, *cursor);
    MlirValue factors = moe__mm_behind_tiles(s, *cursor);
    write_part(w, &now[0], true, factors);
    write_part(w, &now[1], false, moe__offset_by(b, factors, first_column_factor()));
    if (moe__mm_has_mx_tokens(s))
      moe__mm_mx_place_tokens(s, w->thread, &reduction, k_tile, *cursor);
    moe__mbarrier_arrive(b, moe__ring_full(kernel, &s->layout.ring, *cursor));
    *cursor = moe__cursor_next(b, &s->layout.ring, *cursor);
  }
}

void moe__mm_mx_write_factors(moe__scaled_mm_t *s) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  writer_t w = {.s = s};
  w.thread = moe__sub(b, kernel->thread, MOE__MM_THREADS + MOE__WARP);
  w.blocks = moe__lshr(b, s->depth.value, 5);
  w.last = last_of(b, moe__ceil_div(b, w.blocks, BLOCKS));
  for (int i = 0; i < 2; i++) {
    part_t *part = &w.parts[i];
    part->operand = s->side[i];
    part->lines = i == 0 ? MOE__MM_TILE_ROWS : s->schedule.tile_n;
    part->rounds = (part->lines + WRITERS - 1) / WRITERS;
    bool is_qb = s->side[i] == &s->operands[MOE__MM_QB];
    part->extent = is_qb ? s->columns.value : s->rows.value;
    part->side_by_side = moe__mm_has_mx_tokens(s) || (is_qb && s->sb_is_row_major);
  }
  moe__cursor_t cursor = moe__cursor_start(b);
  if (moe__mm_has_mx_tokens(s)) {
    MlirValue slot = moe__i32(b, 0);
    MOE__WHILE (b, moe__mm_mx_tokens_has_tile(s, cursor, slot), MOE__CARRY_CURSOR(cursor), &slot) {
      moe__mm_work_t work = moe__mm_take_slot(s, slot);
      write_tile(&w, &work, &cursor);
      slot = moe__mm_next_slot(s, slot);
    }
  } else {
    MlirValue total = moe__mm_tile_count(s), index = moe__tiles_first(kernel);
    MOE__WHILE (b, moe__ult(b, index, total), MOE__CARRY_CURSOR(cursor), &index) {
      moe__mm_work_t work = moe__mm_work_at(s, index, NULL);
      write_tile(&w, &work, &cursor);
      index = moe__mm_next_tile(s, index);
    }
  }
  /* The stage that says that there are no more tiles. */
  moe__ring_wait_empty(kernel, &s->layout.ring, cursor);
  moe__mbarrier_arrive(b, moe__ring_full(kernel, &s->layout.ring, cursor));
}

/* ---- The multiplying warpgroups ---- */

int32_t moe__mm_mx_readers(const moe__mm_schedule_t *schedule) {
  int warps = MOE__MM_THREADS / MOE__WARP;
  return MOE__MM_THREADS + warps * (schedule->cluster - 1);
}

void moe__mm_mx_release(moe__scaled_mm_t *s, const moe__mm_position_t *self, moe__cursor_t cursor) {
  moe__builder_t *b = &s->kernel.builder;
  moe__ring_release(&s->kernel, &s->layout.ring, cursor);
  if (s->schedule.cluster == 1)
    return;
  MOE__IF (b, moe__eq(b, self->lane, 0)) {
    moe__ring_release_remote(&s->kernel, &s->layout.ring, cursor,
                             moe__xor(b, s->kernel.cluster_rank, 1));
  }
}

void moe__mm_mx_read_factors(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                             moe__cursor_t cursor, int index, moe__mm_mx_factors_t *out) {
  moe__builder_t *b = &s->kernel.builder;
  MlirType f32x4 = moe__vector_type(b, 4, b->f32);
  MlirValue factors = moe__mm_behind_tiles(s, cursor);
  MlirValue warp_rows = moe__shl(b, self->warp_row, 1 + 2); /* 32 factors for 16 rows, once */
  MlirValue of_rows =
      moe__offset(b, factors, moe__add(b, warp_rows, moe__shl(b, moe__lshr(b, self->lane, 2), 4)));
  MlirValue rows =
      moe__load_aligned(b, moe__offset_by(b, of_rows, index * MOE__MM_TILE_ROWS * 4), f32x4, 16);
  for (int i = 0; i < 4; i++)
    out->rows[i] = moe__extract(b, rows, i);
  MlirValue quad = moe__shl(b, moe__and(b, self->lane, 3), 4);
  MlirValue half = moe__mul(b, self->warpgroup, s->fragment_n * 4);
  MlirValue of_columns = moe__offset_by(b, moe__offset(b, factors, moe__add(b, quad, half)),
                                        first_column_factor() + index * s->schedule.tile_n * 4);
  for (int i = 0; i < s->fragment_n / 4; i += 4) {
    MlirValue columns = moe__load_aligned(b, moe__offset_by(b, of_columns, i * 16), f32x4, 16);
    for (int j = 0; j < 4; j++)
      out->columns[i + j] = moe__extract(b, columns, j);
  }
}
