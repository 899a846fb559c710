/* Clear.c - what lies outside a group in the stages of a gradient: see ScaledMm.h.
 *
 * A gradient sums over the tokens of a group, and groups begin and end anywhere, while stages
 * begin at multiples of 32 tokens and are multiplied in steps of 32. What lies outside is
 * cleared in shared memory, in both operands: it must contribute nothing, not even a NaN. The
 * warp that loads does so: those that multiply find every stage as it should be, and never wait
 * for each other.
 *
 * Only the first and the last stage of a tile need it. Their copies complete on barriers beside
 * those of the ring, and a request says which stage it is. When the copies of the stage behind
 * it are under way, the warp waits for those of the first, clears, and makes the arrival that
 * the ring's barrier waits for. With two stages, and behind the last tile, it does not wait for
 * a next one. There are as many requests as stages: when the loader comes round, the stage of
 * the old one has been cleared, read and released.
 *
 * Where stages are blocks of tokens, those of a group that starts beside a multiple of 32 need it
 * all. Then the other warps of the loading warpgroup clear, and the one that loads goes on.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/scaled_grouped_mm/ScaledMm.h"

#include "lib/Device/Warp.h"

#define PIECE 16 /* tokens that a lane clears at once in a row */
#define PIECE_BITS 4
#define REQUEST_BYTES 16 /* stage, its first token, start and end of the group: i32 each */

/* With ping-pong a warpgroup clears the first stages of its own tiles, which are those that need
 * it, while the other one multiplies: with tiles of half the work, clearing would take the
 * loader too long. Copies of these stages complete on barriers of a ring of their own. A
 * warpgroup may wait for two of them before they are under way: with two barriers more than
 * stages, the copies before on the same barrier have landed then. */
#define OWN_STAGES 2

static int barriers(const moe__mm_schedule_t *schedule) {
  return schedule->stages + (schedule->pingpong ? OWN_STAGES : 0);
}

void moe__mm_clear_reserve(moe__mm_layout_t *layout, const moe__mm_schedule_t *schedule) {
  layout->requests = moe__layout_shared(&layout->cta, schedule->stages * REQUEST_BYTES, 16);
  layout->landed = moe__layout_shared(&layout->cta, barriers(schedule) * 8, 8);
}

void moe__mm_clear_initialize(moe__scaled_mm_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  for (int i = 0; i < barriers(&s->schedule); i++)
    moe__mbarrier_initialize(b, moe__offset_by(b, s->kernel.shared, s->layout.landed + 8 * i),
                             moe__mm_has_token_blocks(s) ? MOE__MM_CLEARERS : 1);
  moe__fence_mbarriers(b);
}

static MlirValue landed_at(moe__scaled_mm_t *s, MlirValue request) {
  moe__builder_t *b = &s->kernel.builder;
  return moe__offset_by(b, moe__offset(b, s->kernel.shared, moe__shl(b, request, 3)),
                        s->layout.landed);
}

static MlirValue request_at(moe__scaled_mm_t *s, MlirValue request) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue offset = moe__mul(b, request, REQUEST_BYTES);
  return moe__offset_by(b, moe__offset(b, s->kernel.shared, offset), s->layout.requests);
}

/* A stage's part of a group, i32: its first token; the start and the end of the group, which is
 * at most that of the stage; the first token of the last step that is multiplied. ends, i1:
 * whether that has tokens behind the group. */
typedef struct part_t {
  MlirValue at, start, end, last, ends;
} part_t;

static part_t part_of(moe__builder_t *b, MlirValue at, MlirValue start, MlirValue end) {
  part_t part = {.at = at, .start = start};
  part.end = moe__smin(b, end, moe__add(b, at, MOE__MM_TILE_K));
  /* Of an empty group the first step is the last one. */
  MlirValue one = moe__i32(b, 1), count = moe__smax(b, moe__sub(b, part.end, at), one);
  MlirValue before = moe__and(b, moe__sub(b, count, one), -MOE__MM_STEP);
  part.last = moe__add(b, at, before);
  part.ends = moe__slt(b, part.end, moe__add(b, part.last, MOE__MM_STEP));
  return part;
}

moe__mm_requests_t moe__mm_requests_start(moe__builder_t *b) {
  return (moe__mm_requests_t){.next = moe__i32(b, 0), .oldest = moe__cursor_start(b)};
}

/* Makes a request of these words where it is needed (i1); gives the barrier of the stage's
 * copies. */
static MlirValue make_request(moe__scaled_mm_t *s, moe__cursor_t cursor, MlirValue needed,
                              const MlirValue words[4], moe__mm_requests_t *requests) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue request = requests->next;
  MOE__IF (b, moe__and(b, needed, s->loads)) {
    moe__store_aligned(b, moe__vector(b, 4, words), request_at(s, request), REQUEST_BYTES);
  }
  MlirValue next = moe__add(b, request, 1);
  MlirValue wraps = moe__eq(b, next, s->schedule.stages);
  requests->next = moe__select(b, needed, moe__select(b, wraps, 0, next), request);
  return moe__select(b, needed, landed_at(s, request),
                     moe__ring_full(&s->kernel, &s->layout.ring, cursor));
}

MlirValue moe__mm_request(moe__scaled_mm_t *s, const moe__mm_reduction_t *reduction, MlirValue at,
                          moe__cursor_t cursor, moe__mm_requests_t *requests) {
  moe__builder_t *b = &s->kernel.builder;
  part_t part = part_of(b, at, reduction->start, reduction->end);
  MlirValue needed = moe__or(b, moe__slt(b, at, part.start), part.ends);
  MlirValue words[] = {cursor.stage, at, part.start, part.end};
  return make_request(s, cursor, needed, words, requests);
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

/* How many threads clear a stage together: a multiple of 8. */
static int clearers(const moe__scaled_mm_t *s) {
  if (moe__mm_has_token_blocks(s))
    return MOE__MM_CLEARERS;
  return s->schedule.pingpong ? MOE__MM_WARPGROUP : MOE__WARP;
}

/* The number of a thread among them. */
static MlirValue clearer(moe__scaled_mm_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  if (moe__mm_has_token_blocks(s))
    return moe__sub(b, s->kernel.thread, moe__i32(b, MOE__MM_THREADS + MOE__WARP));
  return moe__and(b, s->kernel.thread, clearers(s) - 1);
}

/* Rows in shared memory, one behind the other: of both tiles of a stage, of one, or of a tail. */
typedef struct area_t {
  MlirValue buffer;
  int rows, row_bytes; /* 128 or 32, in the swizzle of as many bytes */
} area_t;

static area_t both_tiles(const moe__scaled_mm_t *s, MlirValue buffer) {
  return (area_t){buffer, MOE__MM_TILE_ROWS + s->schedule.tile_n, MOE__MM_TILE_K};
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
  MlirValue lane = clearer(s);
  MlirValue own = place_of(b, area, lane, piece), first = moe__i32(b, 0);
  if (clearers(s) > MOE__WARP) /* more threads than rows, maybe */
    first = lane;
  else
    own = moe__add(b, moe__mul(b, lane, area->row_bytes), own);
  MOE__FOR (b, row, first, area->rows, clearers(s)) {
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

/* Clears what lies outside the group in the stage in `buffer`. */
static void clear_part(moe__scaled_mm_t *s, const part_t *part, MlirValue buffer) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue zero = moe__i32(b, 0), step = moe__i32(b, MOE__MM_STEP);
  area_t area = both_tiles(s, buffer);
  clear_tokens(s, &area, zero, moe__smax(b, zero, moe__sub(b, part->start, part->at)));
  MOE__IF (b, part->ends) {
    clear_tokens(s, &area, moe__sub(b, part->end, part->at),
                 moe__sub(b, moe__add(b, part->last, step), part->at));
  }
  moe__fence_shared_to_async(b);
}

/* ---- Blocks of tokens ---- */

MlirValue moe__mm_request_block(moe__scaled_mm_t *s, const moe__mm_reduction_t *reduction,
                                MlirValue index, moe__cursor_t cursor,
                                moe__mm_requests_t *requests) {
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
  return make_request(s, cursor, needed, words, requests);
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

/* Clears the stage of a request, when it has landed, and says that it is full. */
static void clear_stage(moe__scaled_mm_t *s, moe__cursor_t request) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  moe__warp_barrier(b); /* one lane has written the request */
  MlirValue words = read_request(s, request.stage);
  moe__cursor_t cursor = {.stage = moe__extract(b, words, 0)};
  part_t part =
      part_of(b, moe__extract(b, words, 1), moe__extract(b, words, 2), moe__extract(b, words, 3));
  MlirValue buffer = moe__ring_buffer(kernel, &s->layout.ring, cursor);
  moe__mbarrier_wait(b, landed_at(s, request.stage), request.phase);
  clear_part(s, &part, buffer);
  moe__warp_barrier(b);
  MOE__IF (b, s->loads) {
    moe__mbarrier_arrive(b, moe__ring_full(kernel, &s->layout.ring, cursor));
  }
}

void moe__mm_clear(moe__scaled_mm_t *s, MlirValue end, moe__mm_requests_t *requests) {
  moe__builder_t *b = &s->kernel.builder;
  moe__cursor_t oldest = requests->oldest, next = moe__cursor_next(b, &s->layout.ring, oldest);
  MlirValue is_open = moe__ne(b, oldest.stage, end);
  MOE__IF (b, is_open) {
    clear_stage(s, oldest);
  }
  requests->oldest = (moe__cursor_t){moe__select(b, is_open, next.stage, oldest.stage),
                                     moe__select(b, is_open, next.phase, oldest.phase)};
}

/* A request of this stage ends a CTA's. */
#define NO_STAGE (-1)

void moe__mm_end_requests(moe__scaled_mm_t *s, const moe__mm_requests_t *requests) {
  moe__builder_t *b = &s->kernel.builder;
  moe__store(b, moe__i32(b, NO_STAGE), request_at(s, requests->next));
  moe__mm_expect_block(s, landed_at(s, requests->next), moe__i32(b, 0));
}

void moe__mm_expect_block(moe__scaled_mm_t *s, MlirValue barrier, MlirValue bytes) {
  moe__builder_t *b = &s->kernel.builder;
  moe__mbarrier_arrive_early(b, barrier, MOE__MM_CLEARERS - 1);
  moe__mbarrier_arrive_expect(b, barrier, bytes);
}

/* The arrival of the loading thread at a request's barrier comes behind the request. */
void moe__mm_clear_blocks(moe__scaled_mm_t *s) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  moe__cursor_t request = moe__cursor_start(b);
  MlirValue last = moe__i32(b, NO_STAGE), goes_on = moe__i32(b, 1);
  MOE__WHILE (b, moe__ne(b, goes_on, 0), MOE__CARRY_CURSOR(request), &goes_on) {
    moe__mbarrier_wait(b, landed_at(s, request.stage), request.phase);
    MlirValue words = read_request(s, request.stage);
    moe__cursor_t cursor = {.stage = moe__extract(b, words, 0)};
    MlirValue is_stage = moe__ne(b, cursor.stage, last);
    MOE__IF (b, is_stage) {
      clear_block(s, cursor, moe__extract(b, words, 1), moe__extract(b, words, 2),
                  moe__extract(b, words, 3));
      moe__mbarrier_arrive(b, moe__ring_full(kernel, &s->layout.ring, cursor));
    }
    goes_on = moe__zext(b, is_stage, b->i32);
    request = moe__cursor_next(b, &s->layout.ring, request);
  }
}

/* ---- Ping-pong ---- */

static moe__cursor_t next_barrier(moe__scaled_mm_t *s, moe__cursor_t barrier) {
  return moe__cursor_next(&s->kernel.builder, &(moe__ring_t){.stages = barriers(&s->schedule)},
                          barrier);
}

MlirValue moe__mm_landed(moe__scaled_mm_t *s, MlirValue index, moe__cursor_t cursor,
                         moe__cursor_t *barrier) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue is_own = moe__ult(b, index, OWN_STAGES);
  moe__cursor_t now = *barrier, next = next_barrier(s, now);
  *barrier = (moe__cursor_t){moe__select(b, is_own, next.stage, now.stage),
                             moe__select(b, is_own, next.phase, now.phase)};
  return moe__select(b, is_own, landed_at(s, now.stage),
                     moe__ring_full(&s->kernel, &s->layout.ring, cursor));
}

/* Waits for stage number `index` of the warpgroup's tile and clears in it what lies outside the
 * group. */
static void clear_own_stage(moe__scaled_mm_t *s, const moe__mm_reduction_t *reduction,
                            MlirValue index, moe__cursor_t barrier, moe__cursor_t cursor) {
  moe__builder_t *b = &s->kernel.builder;
  part_t part =
      part_of(b, moe__mm_k_tile_at(s, reduction, index), reduction->start, reduction->end);
  moe__mbarrier_wait(b, landed_at(s, barrier.stage), barrier.phase);
  clear_part(s, &part, moe__ring_buffer(&s->kernel, &s->layout.ring, cursor));
}

void moe__mm_clear_own(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                       const moe__mm_reduction_t *reduction, moe__cursor_t cursor,
                       moe__cursor_t barrier) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  MlirValue zero = moe__i32(b, 0), one = moe__i32(b, 1);
  moe__cursor_t next = moe__cursor_next(b, &s->layout.ring, cursor);
  MlirValue has_second = moe__ult(b, one, reduction->k_tiles);
  clear_own_stage(s, reduction, zero, barrier, cursor);
  MOE__IF (b, has_second) {
    clear_own_stage(s, reduction, one, next_barrier(s, barrier), next);
  }
  moe__mm_warpgroup_barrier(s, self);
  MlirValue thread = moe__and(b, kernel->thread, MOE__MM_WARPGROUP - 1);
  MOE__IF (b, moe__eq(b, thread, zero)) {
    moe__mbarrier_arrive(b, moe__ring_full(kernel, &s->layout.ring, cursor));
    MOE__IF (b, has_second) {
      moe__mbarrier_arrive(b, moe__ring_full(kernel, &s->layout.ring, next));
    }
  }
}
