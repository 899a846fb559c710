/* Clear.c - what lies outside a group in the stages of a gradient: see ScaledMm.h.
 *
 * A gradient sums over the tokens of a group, and groups begin and end anywhere, while stages begin at
 * multiples of 32 tokens and are multiplied in steps of 32. What lies outside is cleared in shared memory,
 * in both operands: it must contribute nothing, not even a NaN. The warp that loads does so: those that
 * multiply find every stage as it should be, and never wait for each other.
 *
 * Only the first and the last stage of a tile need it. Their copies complete on barriers beside those of
 * the ring, and a request says which stage it is. When the copies of the stage behind it are under way, the
 * warp waits for those of the first, clears, and makes the arrival that the ring's barrier waits for. With
 * two stages, and behind the last tile, it does not wait for a next one. There are as many requests as
 * stages: when the loader comes round, the stage of the old one has been cleared, read and released.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "passes/scaled_grouped_mm/ScaledMm.h"

#include "lib/Kernel/Warp.h"

#define PIECE 16 /* tokens that a lane clears at once in a row */
#define PIECE_BITS 4
#define REQUEST_BYTES 16 /* stage, its first token, start and end of the group: i32 each */

void moe__mm_clear_reserve(moe__scaled_mm_t *s) {
  s->requests = moe__kernel_shared(&s->kernel, s->schedule.stages * REQUEST_BYTES, 16);
  s->landed = moe__kernel_shared(&s->kernel, s->schedule.stages * 8, 8);
}

void moe__mm_clear_initialize(moe__scaled_mm_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  for (int i = 0; i < s->schedule.stages; i++)
    moe__mbarrier_initialize(b, moe__offset_by(b, s->kernel.shared, s->landed + 8 * i), 1);
  moe__fence_mbarriers(b);
}

static MlirValue landed_at(moe__scaled_mm_t *s, MlirValue request) {
  moe__builder_t *b = &s->kernel.builder;
  return moe__offset_by(b, moe__offset(b, s->kernel.shared, moe__shl(b, request, 3)), s->landed);
}

static MlirValue request_at(moe__scaled_mm_t *s, MlirValue request) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue offset = moe__mul(b, request, moe__i32(b, REQUEST_BYTES));
  return moe__offset_by(b, moe__offset(b, s->kernel.shared, offset), s->requests);
}

/* A stage's part of a group, i32: its first token; the start and the end of the group, which is at most
 * that of the stage; the first token of the last step that is multiplied. ends, i1: whether that has tokens
 * behind the group. */
typedef struct part_t {
  MlirValue at, start, end, last, ends;
} part_t;

static part_t part_of(moe__builder_t *b, MlirValue at, MlirValue start, MlirValue end) {
  part_t part = {.at = at, .start = start};
  part.end = moe__smin(b, end, moe__add(b, at, moe__i32(b, MOE__MM_DEPTH)));
  /* Of an empty group the first step is the last one. */
  MlirValue one = moe__i32(b, 1), count = moe__smax(b, moe__sub(b, part.end, at), one);
  MlirValue before = moe__and(b, moe__sub(b, count, one), moe__i32(b, -MOE__MM_STEP));
  part.last = moe__add(b, at, before);
  part.ends = moe__slt(b, part.end, moe__add(b, part.last, moe__i32(b, MOE__MM_STEP)));
  return part;
}

moe__mm_requests_t moe__mm_requests_start(moe__builder_t *b) {
  return (moe__mm_requests_t){.next = moe__i32(b, 0), .oldest = moe__cursor_start(b)};
}

MlirValue moe__mm_request(moe__scaled_mm_t *s, const moe__mm_reduction_t *reduction, MlirValue at,
                          moe__cursor_t cursor, moe__mm_requests_t *requests) {
  moe__builder_t *b = &s->kernel.builder;
  part_t part = part_of(b, at, reduction->start, reduction->end);
  MlirValue needed = moe__or(b, moe__slt(b, at, part.start), part.ends), request = requests->next;
  moe__if_t write = moe__if_begin(b, moe__and(b, needed, s->loads), false);
  MlirValue words[] = {cursor.stage, at, part.start, part.end};
  moe__store_aligned(b, moe__vector(b, 4, words), request_at(s, request), REQUEST_BYTES);
  moe__if_end(b, &write);
  MlirValue next = moe__add(b, request, moe__i32(b, 1));
  MlirValue wraps = moe__eq(b, next, moe__i32(b, s->schedule.stages));
  requests->next = moe__select(b, needed, moe__select(b, wraps, moe__i32(b, 0), next), request);
  return moe__select(b, needed, landed_at(s, request),
                     moe__ring_full(&s->kernel, &s->ring, cursor));
}

/* The word whose lowest `bytes` bytes are set; bytes is clamped to 0..4. */
static MlirValue low_bytes(moe__builder_t *b, MlirValue bytes) {
  MlirValue clamped = moe__smin(b, moe__smax(b, bytes, moe__i32(b, 0)), moe__i32(b, 4));
  MlirValue bits = moe__zext(b, moe__shl(b, clamped, 3), b->i64);
  MlirValue bit = moe__op1(b, "arith.shli", b->i64, MOE__VALUES(moe__i64(b, 1), bits), NULL);
  return moe__trunc(b, moe__sub(b, bit, moe__i64(b, 1)), b->i32);
}

/* The tokens of a word that stay: those not in [begin, end). word: its first token. */
static MlirValue mask_of(moe__builder_t *b, MlirValue begin, MlirValue end, MlirValue word) {
  MlirValue before_end = low_bytes(b, moe__sub(b, end, word));
  MlirValue before_begin = low_bytes(b, moe__sub(b, begin, word));
  return moe__or(b, before_begin, moe__xor(b, before_end, moe__i32(b, -1)));
}

/* Begins a loop over the rows of both tiles, a lane a row; *address: of the piece in the row. */
static moe__for_t rows_begin(moe__scaled_mm_t *s, MlirValue buffer, MlirValue piece,
                             MlirValue *address) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue lane = moe__and(b, s->kernel.thread, moe__i32(b, MOE__WARP - 1));
  MlirValue swizzled = moe__xor(b, piece, moe__and(b, lane, moe__i32(b, 7)));
  MlirValue rows = moe__i32(b, MOE__MM_TILE_ROWS + s->schedule.tile_n);
  MlirValue depth = moe__i32(b, MOE__MM_DEPTH);
  MlirValue own = moe__add(b, moe__mul(b, lane, depth), moe__shl(b, swizzled, PIECE_BITS));
  moe__for_t loop = moe__for_begin(b, moe__i32(b, 0), rows, moe__i32(b, MOE__WARP), 0, NULL);
  *address = moe__offset(b, moe__offset(b, buffer, own), moe__mul(b, loop.index, depth));
  return loop;
}

/* Clears the tokens [begin, end) of a stage in all rows of both tiles. */
static void clear_tokens(moe__scaled_mm_t *s, MlirValue buffer, MlirValue begin, MlirValue end) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue one = moe__i32(b, 1), address;
  moe__for_t pieces = moe__for_begin(b, moe__lshr(b, begin, PIECE_BITS),
                                     moe__ceil_div(b, end, PIECE), one, 0, NULL);
  MlirValue token = moe__shl(b, pieces.index, PIECE_BITS), words[4];
  MlirValue is_whole = moe__and(b, moe__ule(b, begin, token),
                                moe__ule(b, moe__add(b, token, moe__i32(b, PIECE)), end));
  moe__if_t whole = moe__if_begin(b, is_whole, true);
  for (int i = 0; i < 4; i++)
    words[i] = moe__i32(b, 0);
  moe__for_t rows = rows_begin(s, buffer, pieces.index, &address);
  moe__store_aligned(b, moe__vector(b, 4, words), address, PIECE);
  moe__for_end(b, &rows, NULL);
  moe__else(b, &whole);
  for (int i = 0; i < 4; i++)
    words[i] = mask_of(b, begin, end, moe__add(b, token, moe__i32(b, 4 * i)));
  MlirValue mask = moe__vector(b, 4, words);
  rows = rows_begin(s, buffer, pieces.index, &address);
  MlirValue found = moe__load_aligned(b, address, mlirValueGetType(mask), PIECE);
  moe__store_aligned(b, moe__and(b, found, mask), address, PIECE);
  moe__for_end(b, &rows, NULL);
  moe__if_end(b, &whole);
  moe__for_end(b, &pieces, NULL);
}

/* Clears the stage of a request, when it has landed, and says that it is full. */
static void clear_stage(moe__scaled_mm_t *s, moe__cursor_t request) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  moe__warp_barrier(b); /* one lane has written the request */
  MlirValue words = moe__load_aligned(b, request_at(s, request.stage),
                                      moe__vector_type(b, 4, b->i32), REQUEST_BYTES);
  moe__cursor_t cursor = {.stage = moe__extract(b, words, 0)};
  part_t part =
      part_of(b, moe__extract(b, words, 1), moe__extract(b, words, 2), moe__extract(b, words, 3));
  MlirValue buffer = moe__ring_buffer(kernel, &s->ring, cursor);
  moe__mbarrier_wait(b, landed_at(s, request.stage), request.phase);
  MlirValue zero = moe__i32(b, 0), step = moe__i32(b, MOE__MM_STEP);
  clear_tokens(s, buffer, zero, moe__smax(b, zero, moe__sub(b, part.start, part.at)));
  moe__if_t end = moe__if_begin(b, part.ends, false);
  clear_tokens(s, buffer, moe__sub(b, part.end, part.at),
               moe__sub(b, moe__add(b, part.last, step), part.at));
  moe__if_end(b, &end);
  moe__fence_shared_to_async(b);
  moe__warp_barrier(b);
  moe__if_t one = moe__if_begin(b, s->loads, false);
  moe__mbarrier_arrive(b, moe__ring_full(kernel, &s->ring, cursor));
  moe__if_end(b, &one);
}

void moe__mm_clear(moe__scaled_mm_t *s, MlirValue end, moe__mm_requests_t *requests) {
  moe__builder_t *b = &s->kernel.builder;
  moe__cursor_t oldest = requests->oldest, next = moe__cursor_next(b, &s->ring, oldest);
  MlirValue is_open = moe__ne(b, oldest.stage, end);
  moe__if_t open = moe__if_begin(b, is_open, false);
  clear_stage(s, oldest);
  moe__if_end(b, &open);
  requests->oldest = (moe__cursor_t){moe__select(b, is_open, next.stage, oldest.stage),
                                     moe__select(b, is_open, next.phase, oldest.phase)};
}
