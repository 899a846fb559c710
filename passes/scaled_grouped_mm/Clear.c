/* Clear.c - what lies outside a group in the stages of a gradient: see ScaledMm.h.
 *
 * A gradient sums over the tokens of a group, and groups begin and end anywhere, while stages hold whole
 * multiples of 32 tokens. What lies outside is cleared in shared memory, in both operands: it must
 * contribute nothing, not even a NaN. The warp that loads does so, so that those that multiply find every
 * stage as it should be, and never wait for each other.
 *
 * Only the first and the last stage of a tile need it. Their copies complete on barriers beside those of
 * the ring, and a request says which stage it is. When the copies of the stage behind it are under way, the
 * warp waits for those of the first, clears, and makes the arrival that the ring's barrier waits for. There
 * are as many requests as stages: when the loader comes round, the stage of the old one has been cleared,
 * read and released.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "passes/scaled_grouped_mm/ScaledMm.h"

#include "lib/Kernel/Warp.h"

#define PIECE 16 /* bytes that a lane clears in, of a row's step */
#define ROWS_AT_ONCE (MOE__WARP / (MOE__MM_STEP / PIECE))
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

/* A stage's part of a group. */
typedef struct part_t {
  MlirValue at;         /* i32: the stage's first token */
  MlirValue start, end; /* i32: of the group; end at most that of the stage */
  MlirValue last;       /* i32: the first token of the last step that has tokens of the group */
  MlirValue starts,
      ends; /* i1: whether the first step has tokens before the group, the last one behind it */
} part_t;

static part_t part_of(moe__builder_t *b, MlirValue at, MlirValue start, MlirValue end) {
  part_t part = {.at = at, .start = start};
  part.end = moe__smin(b, end, moe__add(b, at, moe__i32(b, MOE__MM_DEPTH)));
  /* Of an empty group the first step is the last one. */
  MlirValue one = moe__i32(b, 1), count = moe__smax(b, moe__sub(b, part.end, at), one);
  MlirValue before = moe__and(b, moe__sub(b, count, one), moe__i32(b, -MOE__MM_STEP));
  part.last = moe__add(b, at, before);
  part.starts = moe__slt(b, at, start);
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
  MlirValue needed = moe__or(b, part.starts, part.ends), request = requests->next;
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

/* Clears what lies outside the group in the step of 32 tokens that starts at `step`, in all rows of both
 * tiles. Each lane has one piece of the swizzled rows, in every ROWS_AT_ONCE-th of them. */
static void clear_step(moe__scaled_mm_t *s, const part_t *part, MlirValue buffer, MlirValue step) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue lane = moe__and(b, s->kernel.thread, moe__i32(b, MOE__WARP - 1));
  MlirValue row = moe__lshr(b, lane, 1);
  MlirValue token = moe__add(b, step, moe__shl(b, moe__and(b, lane, moe__i32(b, 1)), 4));
  MlirValue masks[4];
  for (int i = 0; i < 4; i++) {
    MlirValue word = moe__add(b, token, moe__i32(b, 4 * i));
    MlirValue before_end = low_bytes(b, moe__sub(b, part->end, word));
    MlirValue before_start = low_bytes(b, moe__sub(b, part->start, word));
    masks[i] = moe__and(b, before_end, moe__xor(b, before_start, moe__i32(b, -1)));
  }
  MlirValue mask = moe__vector(b, 4, masks);
  MlirValue chunk = moe__lshr(b, moe__sub(b, token, part->at), 4);
  MlirValue swizzled = moe__xor(b, chunk, moe__and(b, row, moe__i32(b, 7)));
  MlirValue column = moe__offset(b, buffer, moe__shl(b, swizzled, 4));
  MlirValue rows = moe__i32(b, MOE__MM_TILE_ROWS + s->schedule.tile_n);
  moe__for_t loop = moe__for_begin(b, row, rows, moe__i32(b, ROWS_AT_ONCE), 0, NULL);
  MlirValue address = moe__offset(b, column, moe__mul(b, loop.index, moe__i32(b, MOE__MM_DEPTH)));
  MlirValue words = moe__load_aligned(b, address, mlirValueGetType(mask), PIECE);
  moe__store_aligned(b, moe__and(b, words, mask), address, PIECE);
  moe__for_end(b, &loop, NULL);
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
  moe__if_t start = moe__if_begin(b, part.starts, false);
  clear_step(s, &part, buffer, part.at);
  moe__if_end(b, &start);
  moe__if_t end = moe__if_begin(b, part.ends, false);
  clear_step(s, &part, buffer, part.last);
  moe__if_end(b, &end);
  moe__fence_shared_to_async(b);
  moe__warp_barrier(b);
  moe__if_t one = moe__if_begin(b, s->loads, false);
  moe__mbarrier_arrive(b, moe__ring_full(kernel, &s->ring, cursor));
  moe__if_end(b, &one);
}

void moe__mm_clear(moe__scaled_mm_t *s, MlirValue end, moe__mm_requests_t *requests) {
  moe__builder_t *b = &s->kernel.builder;
  const moe__ring_t ring = {.stages = s->schedule.stages};
  moe__cursor_t oldest = requests->oldest, next = moe__cursor_next(b, &ring, oldest);
  MlirValue is_open = moe__ne(b, oldest.stage, end);
  moe__if_t open = moe__if_begin(b, is_open, false);
  clear_stage(s, oldest);
  moe__if_end(b, &open);
  requests->oldest = (moe__cursor_t){moe__select(b, is_open, next.stage, oldest.stage),
                                     moe__select(b, is_open, next.phase, oldest.phase)};
}
