/* Clear.c - what lies outside a group in the stages of a gradient: see ScaledMm.h.
 *
 * A gradient sums over the tokens of a group, and groups begin and end anywhere, while stages of
 * FP8 begin at multiples of 32 or 128 tokens and are multiplied in steps of 32. Those of 16 bits
 * begin where their group does, and are multiplied in steps of 16. What lies outside, in steps that
 * are multiplied, is cleared in shared memory, in both operands: it must contribute nothing, not
 * even a NaN. Those warps of the loading warpgroup do so that do not load: those that multiply find
 * every stage as it should be, and never wait for each other.
 *
 * Only the first and the last stage of a tile need it, of 16 bits the last; where stages are blocks
 * of tokens, those of a group that starts beside a multiple of 32 need it all. The copies of such a
 * stage complete on a barrier beside those of the ring, and a request says which stage it is. It
 * has a barrier of its own, so that what to clear is known when the copies land. Then the lanes
 * that clear make the arrivals that the ring's barrier waits for. There are as many requests as
 * stages: when the loader comes round, the stage of the old one has been cleared, read and
 * released.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/scaled_grouped_mm/ScaledMm.h"

#include "lib/Device/Warp.h"
#include "lib/Kernels/scaled_grouped_mm/Blocks.h"
#include "lib/Kernels/scaled_grouped_mm/Mx.h"

#define PIECE 16 /* tokens that a lane clears at once in a row */
#define PIECE_BITS 4
/* The stage; the tokens [begin, end) of it that are the group's and its last step that is
 * multiplied, or of the reduction those of the block and whether that is an edge of the group. */
#define REQUEST_BYTES 16

bool moe__mm_clears(const moe__scaled_mm_t *s) {
  return s->which == MOE__GRADIENT && !s->aligned && !moe__mm_has_mx_tokens(s);
}

void moe__mm_clear_reserve(moe__mm_layout_t *layout, const moe__mm_schedule_t *schedule) {
  layout->requests = moe__layout_shared(&layout->cta, schedule->stages * REQUEST_BYTES, 16);
  layout->requested = moe__layout_shared(&layout->cta, schedule->stages * 8, 8);
  layout->landed = moe__layout_shared(&layout->cta, schedule->stages * 8, 8);
}

static MlirValue barrier_at(moe__scaled_mm_t *s, int32_t barriers, MlirValue request) {
  moe__builder_t *b = &s->kernel.builder;
  return moe__offset_by(b, moe__offset(b, s->kernel.shared, moe__shl(b, request, 3)), barriers);
}

void moe__mm_clear_initialize(moe__scaled_mm_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  for (int i = 0; i < s->schedule.stages; i++) {
    moe__mbarrier_initialize(b, moe__offset_by(b, s->kernel.shared, s->layout.requested + 8 * i),
                             1);
    moe__mbarrier_initialize(b, moe__offset_by(b, s->kernel.shared, s->layout.landed + 8 * i),
                             MOE__MM_CLEARERS);
  }
  moe__fence_mbarriers(b);
}

static MlirValue request_at(moe__scaled_mm_t *s, MlirValue request) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue offset = moe__mul(b, request, REQUEST_BYTES);
  return moe__offset_by(b, moe__offset(b, s->kernel.shared, offset), s->layout.requests);
}

/* Makes a request of these words where it is needed (i1); gives the barrier of the stage's
 * copies. */
static MlirValue make_request(moe__scaled_mm_t *s, moe__cursor_t cursor, MlirValue needed,
                              const MlirValue words[4], MlirValue *next) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue request = *next;
  MOE__IF (b, moe__and(b, needed, s->loads)) {
    moe__store_aligned(b, moe__vector(b, 4, words), request_at(s, request), REQUEST_BYTES);
    moe__mbarrier_arrive(b, barrier_at(s, s->layout.requested, request));
  }
  MlirValue behind = moe__add(b, request, 1);
  MlirValue wraps = moe__eq(b, behind, s->schedule.stages);
  *next = moe__select(b, needed, moe__select(b, wraps, 0, behind), request);
  return moe__select(b, needed, barrier_at(s, s->layout.landed, request),
                     moe__ring_full(&s->kernel, &s->layout.ring, cursor));
}

MlirValue moe__mm_request(moe__scaled_mm_t *s, const moe__mm_reduction_t *reduction, MlirValue at,
                          moe__cursor_t cursor, MlirValue *next) {
  moe__builder_t *b = &s->kernel.builder;
  int step = moe__mm_depth(s, MOE__MM_STEP);
  MlirValue zero = moe__i32(b, 0), one = moe__i32(b, 1),
            all = moe__i32(b, moe__mm_depth(s, MOE__MM_TILE_K));
  MlirValue begin = moe__smax(b, zero, moe__sub(b, reduction->start, at));
  MlirValue end = moe__smin(b, moe__sub(b, reduction->end, at), all);
  /* Of an empty group there is one step. */
  MlirValue steps = moe__ceil_div(b, moe__smax(b, end, one), step);
  MlirValue is_whole = moe__eq(b, moe__mul(b, steps, step), end);
  MlirValue needed =
      moe__or(b, moe__slt(b, zero, begin), moe__eq(b, moe__zext(b, is_whole, b->i32), 0));
  MlirValue words[] = {cursor.stage, begin, end, moe__sub(b, steps, one)};
  return make_request(s, cursor, needed, words, next);
}

MlirValue moe__mm_low_bytes(moe__builder_t *b, MlirValue bytes) {
  MlirValue clamped = moe__smin(b, moe__smax(b, bytes, 0), 4);
  MlirValue bits = moe__zext(b, moe__shl(b, clamped, 3), b->i64);
  MlirValue bit = moe__op1(b, "arith.shli", b->i64, MOE__VALUES(moe__i64(b, 1), bits), NULL);
  return moe__trunc(b, moe__sub(b, bit, 1), b->i32);
}

/* The tokens of a word that stay: those not in [begin, end). word: its first token. */
static MlirValue mask_of(moe__builder_t *b, MlirValue begin, MlirValue end, MlirValue word) {
  MlirValue before_end = moe__mm_low_bytes(b, moe__sub(b, end, word));
  MlirValue before_begin = moe__mm_low_bytes(b, moe__sub(b, begin, word));
  return moe__or(b, before_begin, moe__xor(b, before_end, -1));
}

/* The number of a thread among those that clear. */
static MlirValue clearer(moe__scaled_mm_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  return moe__sub(b, s->kernel.thread, moe__i32(b, moe__mm_threads(&s->schedule) + MOE__WARP));
}

/* Rows in shared memory, one behind the other: of both tiles of a stage, of one, or of a tail. */
typedef struct area_t {
  MlirValue buffer;
  int rows, row_bytes; /* 128 or 32, in the swizzle of as many bytes */
} area_t;

static area_t both_tiles(const moe__scaled_mm_t *s, MlirValue buffer) {
  return (area_t){buffer, moe__mm_tile_rows(&s->schedule) + s->schedule.tile_n, MOE__MM_TILE_K};
}

/* Where in a row of the area a piece is, for rows of this number mod 8 (i32). */
static MlirValue place_of(moe__builder_t *b, const area_t *area, MlirValue row, MlirValue piece) {
  MlirValue turn = area->row_bytes == MOE__MM_TILE_K ? moe__and(b, row, 7)
                                                     : moe__and(b, moe__lshr(b, row, 2), 1);
  return moe__shl(b, moe__xor(b, piece, turn), PIECE_BITS);
}

/* Keeps these bits of a piece. */
static void keep(moe__builder_t *b, MlirValue address, MlirValue mask) {
  MlirValue found = moe__load_aligned(b, address, mlirValueGetType(mask), PIECE);
  moe__store_aligned(b, moe__and(b, found, mask), address, PIECE);
}

/* In a piece of all rows, keeps the bits of the words, or stores the words. A thread takes a
 * row. */
static void clear_piece(moe__scaled_mm_t *s, const area_t *area, MlirValue piece,
                        const MlirValue words[4], bool keeps) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue mask = keeps ? moe__vector(b, 4, words) : (MlirValue){NULL};
  MlirValue lane = clearer(s), own = place_of(b, area, lane, piece);
  MOE__FOR (b, row, lane, area->rows, MOE__MM_CLEARERS) {
    MlirValue address =
        moe__offset(b, moe__offset(b, area->buffer, own), moe__mul(b, row, area->row_bytes));
    if (keeps) {
      keep(b, address, mask);
    } else {
      moe__store_aligned(b, moe__vector(b, 4, words), address, PIECE);
    }
  }
}

/* Clears the tokens [begin, end) in all rows. */
static void clear_tokens(moe__scaled_mm_t *s, const area_t *area, MlirValue begin, MlirValue end) {
  moe__builder_t *b = &s->kernel.builder;
  MOE__FOR (b, piece, moe__lshr(b, begin, PIECE_BITS), moe__ceil_div(b, end, PIECE), 1) {
    MlirValue token = moe__shl(b, piece, PIECE_BITS), words[4];
    MlirValue is_whole =
        moe__and(b, moe__ule(b, begin, token), moe__ule(b, moe__add(b, token, PIECE), end));
    MOE__IF (b, is_whole) {
      for (int i = 0; i < 4; i++)
        words[i] = moe__i32(b, 0);
      clear_piece(s, area, piece, words, false);
    }
    MOE__ELSE (b) {
      for (int i = 0; i < 4; i++)
        words[i] = mask_of(b, begin, end, moe__add(b, token, 4 * i));
      clear_piece(s, area, piece, words, true);
    }
  }
}

/* ---- The first and the last stage of a tile ---- */

/* An end of a group in a step of 32 tokens, for a thread: of one piece of 16 tokens some bits stay,
 * and the piece beside it may be cleared whole. */
typedef struct end_t {
  MlirValue is_cut;      /* i1: whether anything is to be cleared */
  MlirValue own, mask;   /* i32: where the first piece is in the area; what stays of it */
  MlirValue is_adjacent; /* i1: whether the other one is cleared, which lies in the same 32 bytes */
} end_t;

/* Of step `step` what lies behind token `border` of the stage stays, or what lies in front. */
static end_t cut_step(moe__scaled_mm_t *s, const area_t *area, MlirValue step, MlirValue border,
                      bool behind) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue zero = moe__i32(b, 0), all = moe__i32(b, MOE__MM_STEP), words[4], lane = clearer(s);
  MlirValue inside = moe__sub(b, border, moe__mul(b, step, MOE__MM_STEP));
  MlirValue is_second = moe__slt(b, moe__i32(b, PIECE - 1), inside);
  MlirValue piece = moe__zext(b, is_second, b->i32);
  MlirValue inside_piece = moe__sub(b, inside, moe__shl(b, piece, PIECE_BITS));
  for (int i = 0; i < 4; i++) {
    words[i] = moe__mm_low_bytes(b, moe__sub(b, inside_piece, moe__i32(b, 4 * i)));
    if (behind)
      words[i] = moe__xor(b, words[i], -1);
  }
  piece = moe__add(b, piece, moe__mul(b, step, MOE__MM_STEP / PIECE));
  return (end_t){
      .is_cut = behind ? moe__slt(b, zero, inside) : moe__slt(b, inside, all),
      .own = moe__add(b, moe__mul(b, lane, area->row_bytes), place_of(b, area, lane, piece)),
      .mask = moe__vector(b, 4, words),
      .is_adjacent = moe__eq(b, moe__zext(b, is_second, b->i32), behind ? 1 : 0)};
}

/* The most rows of an area for a thread. */
#define MAX_ROWS ((256 + 128 + MOE__MM_CLEARERS - 1) / MOE__MM_CLEARERS)

/* All reads come before all writes. A thread that has a row less than others takes its first one
 * twice, and writes the same to it. */
static void clear_end(moe__scaled_mm_t *s, const area_t *area, const end_t *end) {
  moe__builder_t *b = &s->kernel.builder;
  int count = (area->rows + MOE__MM_CLEARERS - 1) / MOE__MM_CLEARERS;
  MlirValue found[MAX_ROWS], row[MAX_ROWS], zeros[4];
  for (int i = 0; i < count; i++) {
    row[i] = moe__i32(b, i * MOE__MM_CLEARERS * area->row_bytes);
    if ((i + 1) * MOE__MM_CLEARERS > area->rows)
      row[i] = moe__select(b, moe__ult(b, clearer(s), moe__i32(b, area->rows % MOE__MM_CLEARERS)),
                           row[i], moe__i32(b, 0));
    row[i] = moe__offset(b, area->buffer, moe__add(b, row[i], end->own));
    found[i] = moe__load_aligned(b, row[i], mlirValueGetType(end->mask), PIECE);
  }
  for (int i = 0; i < 4; i++)
    zeros[i] = moe__i32(b, 0);
  MOE__IF (b, end->is_adjacent) {
    MlirValue other = moe__sub(b, moe__xor(b, end->own, PIECE), end->own);
    for (int i = 0; i < count; i++)
      moe__store_aligned(b, moe__vector(b, 4, zeros), moe__offset(b, row[i], other), PIECE);
  }
  for (int i = 0; i < count; i++)
    moe__store_aligned(b, moe__and(b, found[i], end->mask), row[i], PIECE);
}

/* Clears, when the copies of a request have landed, what lies outside of tokens [begin, end) of the
 * stage in `buffer`: in the first of the steps that are multiplied, and in the last one. What that
 * is has been found before. */
static void clear_part(moe__scaled_mm_t *s, moe__cursor_t request, MlirValue buffer,
                       MlirValue begin, MlirValue end, MlirValue last) {
  moe__builder_t *b = &s->kernel.builder;
  area_t area = both_tiles(s, buffer);
  MlirValue first = moe__umin(b, moe__udiv(b, begin, MOE__MM_STEP), last);
  end_t ends[] = {cut_step(s, &area, first, begin, true), cut_step(s, &area, last, end, false)};
  moe__mbarrier_wait(b, barrier_at(s, s->layout.landed, request.stage), request.phase);
  for (int i = 0; i < 2; i++) {
    MOE__IF (b, ends[i].is_cut) {
      clear_end(s, &area, &ends[i]);
    }
  }
  moe__fence_shared_to_async(b);
}

/* The same of tiles of 16 bits, where a row of a stage is a token of 64 rows of an operand: the
 * rows behind the group in the last step. A group begins where its first stage does. */
static void clear_behind(moe__scaled_mm_t *s, moe__cursor_t request, MlirValue buffer,
                         MlirValue end, MlirValue last) {
  moe__builder_t *b = &s->kernel.builder;
  int step = moe__mm_depth(s, MOE__MM_STEP), pieces = MOE__MM_TILE_K / PIECE;
  int blocks = (MOE__MM_TILE_ROWS + s->schedule.tile_n) / MOE__MM_BLOCK_ROWS;
  MlirValue zeros[4];
  for (int i = 0; i < 4; i++)
    zeros[i] = moe__i32(b, 0);
  MlirValue zero = moe__vector(b, 4, zeros);
  MlirValue first = moe__mul(b, last, step);
  moe__mbarrier_wait(b, barrier_at(s, s->layout.landed, request.stage), request.phase);
  MlirValue at = moe__offset(b, buffer, moe__mul(b, first, MOE__MM_TILE_K));
  MOE__FOR (b, piece, clearer(s), step * pieces, MOE__MM_CLEARERS) {
    MlirValue token = moe__add(b, first, moe__udiv(b, piece, pieces));
    MOE__IF (b, moe__slt(b, moe__sub(b, end, 1), token)) {
      MlirValue own = moe__offset(b, at, moe__shl(b, piece, PIECE_BITS));
      for (int i = 0; i < blocks; i++)
        moe__store_aligned(b, zero, moe__offset_by(b, own, i * MOE__MM_BLOCK_BYTES), PIECE);
    }
  }
  moe__fence_shared_to_async(b);
}

/* ---- Blocks of tokens ---- */

MlirValue moe__mm_request_block(moe__scaled_mm_t *s, const moe__mm_reduction_t *reduction,
                                MlirValue index, moe__cursor_t cursor, MlirValue *next) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue begin = moe__add(b, reduction->start, moe__mul(b, index, MOE__MM_TILE_K));
  MlirValue end = moe__smin(b, reduction->end, moe__add(b, begin, MOE__MM_TILE_K));
  MlirValue is_short = moe__slt(b, end, moe__add(b, begin, MOE__MM_TILE_K));
  MlirValue has_head = moe__ne(b, moe__mm_token_head(s, reduction), 0);
  MlirValue has_tokens = moe__ne(b, reduction->start, reduction->end);
  MlirValue needed = moe__and(b, has_tokens, moe__or(b, has_head, is_short));
  /* In front of the first block, and behind the last one, are tokens of other groups. The tail of
   * the block before that may reach them too. */
  MlirValue behind = moe__add(b, begin, MOE__MM_TILE_K + MOE__MM_STEP);
  MlirValue is_edge = moe__or(b, moe__eq(b, index, 0), moe__slt(b, reduction->end, behind));
  MlirValue words[] = {cursor.stage, begin, end, moe__zext(b, is_edge, b->i32)};
  return make_request(s, cursor, needed, words, next);
}

/* The tile of the stage's rows (0) or columns (1), and its tail. */
static area_t tile_of(moe__scaled_mm_t *s, moe__cursor_t cursor, int of) {
  MlirValue tiles = moe__ring_buffer(&s->kernel, &s->layout.ring, cursor);
  int32_t before = of ? MOE__MM_TILE_ROWS * MOE__MM_TILE_K : 0;
  return (area_t){moe__offset_by(&s->kernel.builder, tiles, before),
                  of ? s->schedule.tile_n : MOE__MM_TILE_ROWS, MOE__MM_TILE_K};
}

static area_t tail_of(moe__scaled_mm_t *s, moe__cursor_t cursor, int of) {
  return (area_t){moe__mm_token_tail(s, cursor, of), of ? s->schedule.tile_n : MOE__MM_TILE_ROWS,
                  MOE__MM_STEP};
}

/* Clears what belongs to the neighbors of block [begin, end) in one operand of its stage. */
static void clear_beside_block(moe__scaled_mm_t *s, moe__cursor_t cursor, int of, MlirValue head,
                               MlirValue end) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue zero = moe__i32(b, 0), all = moe__i32(b, MOE__MM_TILE_K);
  area_t tile = tile_of(s, cursor, of), tail = tail_of(s, cursor, of);
  clear_tokens(s, &tile, zero, head);
  clear_tokens(s, &tile, moe__smin(b, end, all), all);
  MOE__IF (b, moe__ne(b, head, zero)) {
    clear_tokens(s, &tail, moe__smax(b, moe__sub(b, end, all), zero), moe__i32(b, MOE__MM_STEP));
  }
}

/* The same for a whole block whose neighbors are both of its group: the `head` tokens before it in
 * the tile, and in the tail all but as many. That is a part of the same piece in both, and one
 * whole piece in one of them. It is done for most blocks of most groups, by instructions that the
 * multiplying warps' would need: hence not by the loops of the other. */
static void clear_inside_group(moe__scaled_mm_t *s, moe__cursor_t cursor, int of, MlirValue head) {
  moe__builder_t *b = &s->kernel.builder;
  area_t tile = tile_of(s, cursor, of), tail = tail_of(s, cursor, of);
  MlirValue thread = clearer(s), first = moe__i32(b, 0), second = moe__i32(b, 1);
  MlirValue piece = moe__lshr(b, head, PIECE_BITS), token = moe__and(b, head, PIECE - 1);
  MlirValue before[4], behind[4], zeros[4];
  for (int i = 0; i < 4; i++) {
    before[i] = moe__mm_low_bytes(b, moe__sub(b, token, moe__i32(b, 4 * i)));
    behind[i] = moe__xor(b, before[i], -1);
    zeros[i] = first;
  }
  MlirValue kept_in_tile = moe__vector(b, 4, behind), kept_in_tail = moe__vector(b, 4, before);
  MlirValue zero = moe__vector(b, 4, zeros);
  MlirValue tile_row = moe__offset(b, tile.buffer, moe__mul(b, thread, tile.row_bytes));
  MlirValue tail_row = moe__offset(b, tail.buffer, moe__mul(b, thread, tail.row_bytes));
  MlirValue in_tile = moe__offset(b, tile_row, place_of(b, &tile, thread, piece));
  MlirValue in_tail = moe__offset(b, tail_row, place_of(b, &tail, thread, piece));
  MlirValue whole_in_tile = moe__offset(b, tile_row, place_of(b, &tile, thread, first));
  MlirValue whole_in_tail = moe__offset(b, tail_row, place_of(b, &tail, thread, second));
  MlirValue is_second = moe__ne(b, piece, first);
  for (int row = 0; row < tile.rows; row += MOE__MM_CLEARERS) {
    bool all = row + MOE__MM_CLEARERS <= tile.rows;
    int32_t in_tiles = row * tile.row_bytes, in_tails = row * tail.row_bytes;
    MOE__IF (b, all ? (MlirValue){NULL} : moe__ult(b, thread, moe__i32(b, tile.rows - row))) {
      keep(b, moe__offset_by(b, in_tile, in_tiles), kept_in_tile);
      keep(b, moe__offset_by(b, in_tail, in_tails), kept_in_tail);
      MOE__IF (b, is_second) {
        moe__store_aligned(b, zero, moe__offset_by(b, whole_in_tile, in_tiles), PIECE);
      }
      MOE__ELSE (b) {
        moe__store_aligned(b, zero, moe__offset_by(b, whole_in_tail, in_tails), PIECE);
      }
    }
  }
}

/* Clears what lies outside of block [begin, end) in the stage at `cursor`. */
static void clear_block(moe__scaled_mm_t *s, moe__cursor_t cursor, MlirValue begin, MlirValue end,
                        MlirValue is_edge) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue head = moe__and(b, begin, MOE__MM_STEP - 1);
  MlirValue behind = moe__add(b, head, moe__sub(b, end, begin));
  bool has_infinity = s->side[0]->element == MOE__E5M2 || s->side[1]->element == MOE__E5M2;
  MOE__IF (b, moe__ne(b, is_edge, 0)) {
    clear_beside_block(s, cursor, 0, head, behind);
    clear_beside_block(s, cursor, 1, head, behind);
  }
  MOE__ELSE (b) {
    clear_inside_group(s, cursor, 0, head);
    if (has_infinity)
      clear_inside_group(s, cursor, 1, head);
  }
  moe__fence_shared_to_async(b);
}

/* ---- Requests ---- */

static MlirValue read_request(moe__scaled_mm_t *s, MlirValue request) {
  moe__builder_t *b = &s->kernel.builder;
  return moe__load_aligned(b, request_at(s, request), moe__vector_type(b, 4, b->i32),
                           REQUEST_BYTES);
}

/* A request of this stage ends a CTA's. */
#define NO_STAGE (-1)

void moe__mm_end_requests(moe__scaled_mm_t *s, MlirValue next) {
  moe__builder_t *b = &s->kernel.builder;
  moe__store(b, moe__i32(b, NO_STAGE), request_at(s, next));
  moe__mbarrier_arrive(b, barrier_at(s, s->layout.requested, next));
}

void moe__mm_expect(moe__scaled_mm_t *s, MlirValue barrier, MlirValue bytes) {
  moe__builder_t *b = &s->kernel.builder;
  moe__mbarrier_arrive_early(b, barrier, MOE__MM_CLEARERS - 1);
  moe__mbarrier_arrive_expect(b, barrier, bytes);
}

void moe__mm_arrive_for_clearers(moe__scaled_mm_t *s, MlirValue barrier) {
  moe__builder_t *b = &s->kernel.builder;
  moe__mbarrier_arrive_early(b, barrier, MOE__MM_CLEARERS - 2);
  moe__mbarrier_arrive(b, barrier);
}

void moe__mm_clear(moe__scaled_mm_t *s) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  moe__cursor_t request = moe__cursor_start(b);
  MlirValue last = moe__i32(b, NO_STAGE), goes_on = moe__i32(b, 1);
  MOE__WHILE (b, moe__ne(b, goes_on, 0), MOE__CARRY_CURSOR(request), &goes_on) {
    moe__mbarrier_wait(b, barrier_at(s, s->layout.requested, request.stage), request.phase);
    MlirValue words[4], read = read_request(s, request.stage);
    for (int i = 0; i < 4; i++)
      words[i] = moe__extract(b, read, i);
    moe__cursor_t cursor = {.stage = words[0]};
    MlirValue is_stage = moe__ne(b, cursor.stage, last);
    MOE__IF (b, is_stage) {
      if (moe__mm_has_token_blocks(s)) {
        moe__mbarrier_wait(b, barrier_at(s, s->layout.landed, request.stage), request.phase);
        clear_block(s, cursor, words[1], words[2], words[3]);
      } else {
        MlirValue buffer = moe__ring_buffer(kernel, &s->layout.ring, cursor);
        if (mlirTypeIsNull(s->half))
          clear_part(s, request, buffer, words[1], words[2], words[3]);
        else
          clear_behind(s, request, buffer, words[2], words[3]);
      }
      moe__mbarrier_arrive(b, moe__ring_full(kernel, &s->layout.ring, cursor));
    }
    goes_on = moe__zext(b, is_stage, b->i32);
    request = moe__cursor_next(b, &s->layout.ring, request);
  }
}
