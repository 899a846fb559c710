/* MxTokens.c - MX blocks of tokens in the kernel of scaled_mm, for the gradient of weights: see
 * ScaledMm.h.
 *
 *   out[e, n, k] = cast(sum over blocks j of group e of sa[j, n] * (sb[j, k] * dot_j))
 *
 * A k-tile is four MX blocks, counted from the start of the group, and groups start anywhere. The
 * TMA takes boxes from multiples of 32 tokens. Where a group starts `head` tokens behind one, the
 * 128 tokens of a k-tile lie across 160: a stage has 128 of them in its tiles, and the 32 behind in
 * two tails, as with blocks of 128 tokens (TokenBlocks.c). But a product of 32 tokens would reach
 * across two MX blocks. So the warps that write factors move the tokens, before the stage is full:
 * a row of a tile to its start. What lies behind the end of the group becomes zeros then. Products
 * need not know of any of this. Groups that start at a multiple of 32 have no tails, and their
 * tokens stay.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/scaled_grouped_mm/ScaledMm.h"

#include "lib/Device/Warp.h"
#include "lib/Kernels/scaled_grouped_mm/Blocks.h"
#include "lib/Kernels/scaled_grouped_mm/Mx.h"

#define TAIL MOE__MM_STEP /* tokens behind the tiles of a stage */
#define CHUNK 16          /* bytes of a row that a thread moves at once */
#define CHUNKS (MOE__MM_TILE_K / CHUNK)
#define TAIL_CHUNKS (TAIL / CHUNK)
#define WORDS (CHUNK / 4)
#define TOGETHER 4 /* chunks of a row that are read before they are written; it divides CHUNKS */

/* ---- What there is ---- */

bool moe__mm_has_mx_tokens(const moe__scaled_mm_t *s) {
  return s->which == MOE__GRADIENT && moe__mm_has_mx_scales(s);
}

static int rows_of(const moe__mm_schedule_t *schedule) {
  return MOE__MM_TILE_ROWS + schedule->tile_n;
}

/* Where the tails are in a stage. */
static int32_t tails_at(const moe__mm_schedule_t *schedule) {
  return rows_of(schedule) * MOE__MM_TILE_K + moe__mm_mx_factor_bytes(schedule);
}

int32_t moe__mm_mx_tokens_reserve(moe__mm_layout_t *layout, const moe__mm_schedule_t *schedule,
                                  bool aligned) {
  layout->landed = moe__layout_shared(&layout->cta, schedule->stages * 8, 8);
  return aligned ? 0 : rows_of(schedule) * TAIL;
}

void moe__mm_mx_tokens_initialize(moe__scaled_mm_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  for (int i = 0; i < s->schedule.stages; i++)
    moe__mbarrier_initialize(b, moe__offset_by(b, s->kernel.shared, s->layout.landed + 8 * i), 1);
  moe__fence_mbarriers(b);
}

/* The barrier of the stage's copies. */
static MlirValue landed_at(moe__scaled_mm_t *s, moe__cursor_t cursor) {
  moe__builder_t *b = &s->kernel.builder;
  return moe__offset_by(b, moe__offset(b, s->kernel.shared, moe__shl(b, cursor.stage, 3)),
                        s->layout.landed);
}

void moe__mm_mx_tokens_end(moe__scaled_mm_t *s, moe__cursor_t cursor) {
  moe__mbarrier_arrive(&s->kernel.builder, landed_at(s, cursor));
}

MlirValue moe__mm_mx_tokens_has_tile(moe__scaled_mm_t *s, moe__cursor_t cursor, MlirValue slot) {
  moe__builder_t *b = &s->kernel.builder;
  moe__mbarrier_wait(b, landed_at(s, cursor), cursor.phase);
  return moe__ne(b, moe__mm_read_group(s, slot), MOE__MM_NO_GROUP);
}

/* ---- The loader ---- */

MlirValue moe__mm_mx_tokens_expect(moe__scaled_mm_t *s, MlirValue has_tail, moe__cursor_t cursor) {
  moe__builder_t *b = &s->kernel.builder;
  int rows = rows_of(&s->schedule);
  MlirValue landed = landed_at(s, cursor);
  if (s->aligned) { /* nothing is done to the tokens: it only says that a tile may have begun */
    moe__mbarrier_arrive(b, landed);
    landed = moe__ring_full(&s->kernel, &s->layout.ring, cursor);
    moe__mbarrier_arrive_expect(b, landed, moe__i32(b, rows * MOE__MM_TILE_K));
    return landed;
  }
  MlirValue bytes = moe__select(b, has_tail, rows * (MOE__MM_TILE_K + TAIL), rows * MOE__MM_TILE_K);
  moe__mbarrier_arrive_expect(b, landed, bytes);
  return landed;
}

void moe__mm_mx_tokens_load_tails(moe__scaled_mm_t *s, const moe__mm_work_t *work, MlirValue at,
                                  moe__cursor_t cursor, MlirValue landed) {
  MlirValue first[2];
  for (int i = 0; i < 2; i++)
    first[i] = moe__mm_first_row(s, &s->operands[i], &work->tile);
  moe__mm_load_tails(s, first, moe__add(&s->kernel.builder, at, MOE__MM_TILE_K), cursor,
                     tails_at(&s->schedule), landed);
}

/* ---- The warps that write factors ---- */

/* A row of a tile and of its tail; the same rows in columns. */
typedef struct line_t {
  MlirValue tile, tail;           /* !llvm.ptr<3> */
  MlirValue tile_turn, tail_turn; /* i32: by which chunks are swizzled */
} line_t;

static line_t line_at(moe__scaled_mm_t *s, moe__cursor_t cursor, MlirValue row) {
  moe__builder_t *b = &s->kernel.builder;
  return (line_t){
      .tile = moe__offset(b, moe__mm_in_stage(s, cursor, 0), moe__mul(b, row, MOE__MM_TILE_K)),
      .tail = moe__offset(b, moe__mm_in_stage(s, cursor, tails_at(&s->schedule)),
                          moe__mul(b, row, TAIL)),
      .tile_turn = moe__and(b, row, CHUNKS - 1),
      .tail_turn = moe__and(b, moe__lshr(b, row, 2), TAIL_CHUNKS - 1),
  };
}

/* Where chunk `i` of a line is; behind those of the tile come those of the tail. */
static MlirValue chunk_at(moe__builder_t *b, const line_t *line, int i) {
  bool is_tail = i >= CHUNKS;
  MlirValue turn = is_tail ? line->tail_turn : line->tile_turn;
  MlirValue swizzled = moe__xor(b, turn, is_tail ? i - CHUNKS : i);
  return moe__offset(b, is_tail ? line->tail : line->tile, moe__shl(b, swizzled, 4));
}

static void load_chunk(moe__builder_t *b, const line_t *line, int i, MlirValue words[WORDS]) {
  MlirValue chunk =
      moe__load_aligned(b, chunk_at(b, line, i), moe__vector_type(b, WORDS, b->i32), CHUNK);
  for (int w = 0; w < WORDS; w++)
    words[w] = moe__extract(b, chunk, w);
}

/* Moves a line `words` words and `bits` (i64) to its start. As many chunks are read together as
 * there are registers for: one that is read behind a store waits for it. */
static void move_line(moe__builder_t *b, const line_t *line, int words, MlirValue bits) {
  MlirValue found[WORDS], parts[(CHUNKS + 1) * WORDS];
  int skipped = words / WORDS, word = words % WORDS, loaded = 0;
  for (int i = 0; i < CHUNKS; i++) {
    MlirValue moved[WORDS];
    for (int end = i + TOGETHER + 1; i % TOGETHER == 0 && loaded < end; loaded++) {
      load_chunk(b, line, skipped + loaded, found);
      for (int w = 0; w < WORDS; w++)
        parts[loaded * WORDS + w] = moe__zext(b, found[w], b->i64);
    }
    for (int w = 0; w < WORDS; w++) {
      int at = i * WORDS + word + w;
      MlirValue both = moe__or(b, parts[at], moe__shl(b, parts[at + 1], 32));
      moved[w] =
          moe__trunc(b, moe__op1(b, "arith.shrui", b->i64, MOE__VALUES(both, bits), NULL), b->i32);
    }
    moe__store_aligned(b, moe__vector(b, WORDS, moved), chunk_at(b, line, i), CHUNK);
  }
}

/* Clears a line's tokens from number `count` (i32, 0 to 127) on. */
static void clear_line(moe__builder_t *b, const line_t *line, MlirValue count) {
  MOE__FOR (b, i, moe__lshr(b, count, 4), CHUNKS, 1) {
    MlirValue at = moe__offset(b, line->tile, moe__shl(b, moe__xor(b, line->tile_turn, i), 4));
    MlirValue left = moe__sub(b, count, moe__shl(b, i, 4)), masks[WORDS];
    for (int w = 0; w < WORDS; w++)
      masks[w] = moe__mm_low_bytes(b, moe__sub(b, left, 4 * w));
    MlirValue mask = moe__vector(b, WORDS, masks);
    MlirValue found = moe__load_aligned(b, at, mlirValueGetType(mask), CHUNK);
    moe__store_aligned(b, moe__and(b, found, mask), at, CHUNK);
  }
}

void moe__mm_mx_place_tokens(moe__scaled_mm_t *s, MlirValue thread,
                             const moe__mm_reduction_t *reduction, MlirValue index,
                             moe__cursor_t cursor) {
  moe__builder_t *b = &s->kernel.builder;
  int threads = MOE__MM_MX_WRITERS, rows = rows_of(&s->schedule);
  if (s->aligned) { /* they are where they belong; whoever waits by parity sees every phase */
    moe__mbarrier_wait(b, landed_at(s, cursor), cursor.phase);
    return;
  }
  MlirValue head = moe__mm_token_head(s, reduction), whole = moe__lshr(b, head, 2);
  MlirValue bits = moe__zext(b, moe__shl(b, moe__and(b, head, 3), 3), b->i64);
  MlirValue begin = moe__add(b, reduction->start, moe__mul(b, index, MOE__MM_TILE_K));
  MlirValue count = moe__sub(b, reduction->end, begin);
  moe__mbarrier_wait(b, landed_at(s, cursor), cursor.phase);
  MOE__IF (b, moe__ne(b, head, 0)) {
    for (int words = 0; words < TAIL / 4; words++) {
      /* A fresh copy: LLVM would make a jump table of them. */
      MOE__IF (b, moe__eq(b, moe__fresh(b, whole), words)) {
        MOE__FOR (b, row, thread, rows, threads) {
          line_t line = line_at(s, cursor, row);
          move_line(b, &line, words, bits);
        }
      }
    }
    moe__fence_shared_to_async(b);
  }
  MOE__IF (b, moe__slt(b, count, moe__i32(b, MOE__MM_TILE_K))) {
    MOE__FOR (b, row, thread, rows, threads) { /* each thread the rows that it has moved */
      line_t line = line_at(s, cursor, row);
      clear_line(b, &line, count);
    }
    moe__fence_shared_to_async(b);
  }
}
