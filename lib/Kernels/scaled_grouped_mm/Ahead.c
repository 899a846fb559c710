/* Ahead.c - operands that the kernel of scaled_mm makes of MX blocks: see ScaledMm.h.
 *
 * The product multiplies numbers of bf16, which the loading thread copies from global memory. Here
 * they get there: three warps of the loading warpgroup, which have nothing to do forward, read the
 * MX blocks and write what these stand for, ahead of the product. So nothing waits for numbers but
 * the first tiles, and most of them never leave L2.
 *
 * Both operands are cut into pieces, and all pieces stand in the order in which tiles take them: of
 * each group the tokens of its first band of tiles, the weights of its expert, the other tokens.
 * Whoever has time takes the next piece by a counter. Pieces of 256 rows are a panel, which counts
 * those that have been made; the thread that loads waits for the panels of a tile.
 *
 * No CTA waits for one that has not begun: who waits has warps that take what nobody has taken.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Device/Vectors.h"
#include "lib/Device/Warp.h"
#include "lib/Kernels/scaled_grouped_mm/ScaledMm.h"

#include "moe/limits.h"

/* The elements of a piece: a panel has one for each block of a row. */
#define PIECE (MOE_PANEL_ROWS * MOE_MX_BLOCK)
#define ELEMENTS 8 /* of a vector */
#define VECTORS 8  /* that a lane loads before it uses the first */
#define STEP (MOE__WARP * ELEMENTS)

/* Warps of the loading warpgroup that make operands. */
#define MAKERS (MOE__MM_WARPGROUP / MOE__WARP - 1)

/* What the thread that loads counts for at the end, where each maker counts for 1: so the count
 * says whether all of these are done. */
#define LOADER_SHARE 0x10000

/* With so many tokens for each expert, on average, makers are as fast as products. With fewer, all
 * warps first make so much that the makers are done with the rest when it is needed. */
#define TOKENS_THAT_HIDE 1280

/* ---- The order of pieces ---- */

/* The pieces that make rows up to `row` (i32) of qa, i32. */
static MlirValue pieces_until(moe__scaled_mm_t *s, MlirValue row) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue pieces = moe__ceil_div(b, moe__wide_mul(b, row, s->depth.value), PIECE);
  return moe__trunc(b, pieces, b->i32);
}

/* Where a thread is in the order: in a part of a group. All i32. */
typedef struct place_t {
  MlirValue group, part;
  MlirValue before; /* pieces of all parts before this one */
  MlirValue first;  /* number, in its operand, of the part's first piece; and how many there are */
  MlirValue count;
} place_t;

enum { FIRST_TOKENS, WEIGHTS, OTHER_TOKENS, PARTS };

#define CARRY_PLACE(place)                                                                         \
  &(place).group, &(place).part, &(place).before, &(place).first, &(place).count

/* Finds the pieces of the place's part; of an expert without tokens there are none. */
static void find_pieces(moe__scaled_mm_t *s, place_t *place) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue last = moe__sub(b, s->experts.value, 1), start, end;
  moe__groups_range(&s->groups, moe__umin(b, place->group, last), &start, &end);
  int band = s->schedule.band * s->operands[MOE__MM_QA].rows;
  MlirValue until[] = {pieces_until(s, start),
                       pieces_until(s, moe__umin(b, moe__add(b, start, band), end)),
                       pieces_until(s, end)};
  MlirValue is_first = moe__eq(b, place->part, FIRST_TOKENS);
  MlirValue is_weights = moe__eq(b, place->part, WEIGHTS);
  MlirValue weights =
      moe__select(b, moe__ult(b, start, end), pieces_until(s, s->columns.value), moe__i32(b, 0));
  place->first = moe__select(b, is_first, until[0], until[1]);
  MlirValue behind = moe__select(b, is_first, until[1], until[2]);
  place->count = moe__select(b, is_weights, weights, moe__sub(b, behind, place->first));
  place->first = moe__select(b, is_weights, 0, place->first);
}

static place_t first_place(moe__scaled_mm_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue zero = moe__i32(b, 0);
  place_t place = {.group = zero, .part = zero, .before = zero};
  find_pieces(s, &place);
  return place;
}

/* Goes on to the part that has piece `number` of all; behind all groups there is none. */
static void go_to(moe__scaled_mm_t *s, place_t *place, MlirValue number) {
  moe__builder_t *b = &s->kernel.builder;
  MOE__WHILE (b,
              moe__and(b, moe__ule(b, moe__add(b, place->before, place->count), number),
                       moe__ult(b, place->group, s->experts.value)),
              CARRY_PLACE(*place)) {
    MlirValue is_last = moe__eq(b, place->part, PARTS - 1);
    place->before = moe__add(b, place->before, place->count);
    place->group = moe__add(b, place->group, moe__zext(b, is_last, b->i32));
    place->part = moe__select(b, is_last, 0, moe__add(b, place->part, 1));
    find_pieces(s, place);
  }
}

/* ---- Panels ---- */

/* Pieces of a whole panel, i32. */
static MlirValue pieces_of_panel(moe__scaled_mm_t *s) {
  return moe__udiv(&s->kernel.builder, s->depth.value, MOE_MX_BLOCK);
}

/* The count of a panel; of qb, of those of expert `group`. */
static MlirValue panel_at(moe__scaled_mm_t *s, int which, MlirValue group, MlirValue panel) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue number = panel;
  if (which == MOE__MM_QB) {
    MlirValue panels = moe__ceil_div(b, s->columns.value, MOE_PANEL_ROWS);
    number = moe__add(b, moe__mul(b, group, panels), panel);
  }
  return moe__offset(b, s->made[which].panels,
                     moe__mul(b, moe__zext(b, number, b->i64), moe__i64(b, 4)));
}

/* ---- Making a piece ---- */

/* Where the pieces of an operand, or of one expert's weights, lie; all i64. */
typedef struct span_t {
  MlirValue base, total; /* elements before it, elements of it */
} span_t;

static span_t span_of(moe__scaled_mm_t *s, int which, MlirValue group) {
  moe__builder_t *b = &s->kernel.builder;
  if (which == MOE__MM_QA)
    return (span_t){moe__i64(b, 0), moe__wide_mul(b, s->rows.value, s->depth.value)};
  MlirValue total = moe__wide_mul(b, s->columns.value, s->depth.value);
  return (span_t){moe__mul(b, total, moe__zext(b, group, b->i64)), total};
}

/* The scale of the block that has element number `at` (i64) of an operand's span. */
static MlirValue scale_at(moe__scaled_mm_t *s, int which, const span_t *span, MlirValue at) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue scales = s->made[which].scales;
  if (which == MOE__MM_QA || !s->sb_is_row_major)
    return moe__offset(b, scales, moe__lshr(b, moe__add(b, span->base, at), 5));
  MlirValue depth = moe__zext(b, s->depth.value, b->i64);
  MlirValue row = moe__udiv(b, at, depth);
  MlirValue block = moe__lshr(b, moe__sub(b, at, moe__mul(b, row, depth)), 5);
  MlirValue below = moe__mul(b, block, moe__zext(b, s->columns.value, b->i64));
  return moe__offset(b, scales, moe__add(b, moe__lshr(b, span->base, 5), moe__add(b, below, row)));
}

/* Makes `count` vectors of a lane, STEP elements apart, of which the first begins with element
 * number `first` (i64) of the span: all loads before the first store. */
static void make_vectors(moe__scaled_mm_t *s, int which, const span_t *span, MlirValue first,
                         int count) {
  moe__builder_t *b = &s->kernel.builder;
  const moe__mm_made_t *made = &s->made[which];
  moe__mx_vector_t vectors[VECTORS];
  MlirValue start = moe__add(b, span->base, first);
  MlirValue q = moe__offset(b, made->q, start), scale = scale_at(s, which, span, first);
  MlirValue numbers = moe__offset(b, made->numbers, moe__mul(b, start, moe__bf16_elements.bytes));
  for (int i = 0; i < count; i++) {
    if (which == MOE__MM_QB && s->sb_is_row_major)
      scale = scale_at(s, which, span, moe__add(b, first, (int64_t)i * STEP));
    else if (i > 0)
      scale = moe__offset_by(b, scale, STEP / MOE_MX_BLOCK);
    vectors[i] = moe__mx_vector_load(b, &moe__bf16_elements, moe__offset_by(b, q, i * STEP), scale);
  }
  for (int i = 0; i < count; i++)
    moe__mx_vector_store(b, &moe__bf16_elements, &vectors[i], made->element,
                         moe__offset_by(b, numbers, i * STEP * moe__bf16_elements.bytes));
}

/* A warp makes piece number `piece` of an operand, and says so. */
static void make_piece(moe__scaled_mm_t *s, int which, MlirValue group, MlirValue piece) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue lane = moe__and(b, s->kernel.thread, MOE__WARP - 1);
  span_t span = span_of(s, which, group);
  MlirValue first = moe__mul(b, moe__zext(b, piece, b->i64), PIECE);
  MlirValue own = moe__add(b, first, moe__zext(b, moe__mul(b, lane, ELEMENTS), b->i64));
  MOE__IF (b, moe__ule(b, moe__add(b, first, PIECE), span.total)) {
    MOE__FOR (b, in_piece, 0, PIECE, STEP * VECTORS) {
      make_vectors(s, which, &span, moe__add(b, own, moe__zext(b, in_piece, b->i64)), VECTORS);
    }
  }
  MOE__ELSE (b) { /* the last one is short */
    MlirValue left = moe__trunc(b, moe__sub(b, span.total, first), b->i32);
    MOE__FOR (b, in_piece, moe__mul(b, lane, ELEMENTS), left, STEP) {
      make_vectors(s, which, &span, moe__add(b, first, moe__zext(b, in_piece, b->i64)), 1);
    }
  }
  moe__fence_global_to_async(b);
  moe__warp_barrier(b);
  MOE__IF (b, moe__eq(b, lane, 0)) {
    MlirValue panel = moe__udiv(b, piece, pieces_of_panel(s));
    moe__release_add(b, panel_at(s, which, group, panel), moe__i32(b, 1));
  }
}

/* Takes the next piece, if `takes` (i32) is 1: the first lane gets its number, which takes a while
 * to come. */
static MlirValue take_piece(moe__scaled_mm_t *s, MlirValue takes) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue one = moe__i32(b, 1), number = moe__i32(b, 0);
  MlirValue lane = moe__and(b, s->kernel.thread, MOE__WARP - 1);
  MOE__FOR (b, once, lane, takes, 1, &number) {
    number = moe__atomic_add(b, moe__offset_by(b, s->counters, 8), one, MOE__RELAXED);
  }
  return number;
}

/* A warp makes pieces until it has made one of number `until` or more, or there are no more. While
 * it makes one it takes the next. */
static void make_until(moe__scaled_mm_t *s, MlirValue until) {
  moe__builder_t *b = &s->kernel.builder;
  place_t place = first_place(s);
  MlirValue zero = moe__i32(b, 0), goes_on = moe__ne(b, until, 0);
  goes_on = moe__zext(b, goes_on, b->i32);
  MlirValue taken = take_piece(s, goes_on);
  MOE__WHILE (b, moe__ne(b, goes_on, 0), CARRY_PLACE(place), &taken, &goes_on) {
    MlirValue number = moe__shuffle(b, taken, zero);
    go_to(s, &place, number);
    MlirValue is_there = moe__ult(b, place.group, s->experts.value);
    goes_on = moe__zext(b, moe__and(b, is_there, moe__ult(b, number, until)), b->i32);
    taken = take_piece(s, goes_on);
    MlirValue piece = moe__add(b, place.first, moe__sub(b, number, place.before));
    MlirValue is_weights = moe__eq(b, place.part, WEIGHTS);
    MOE__IF (b, is_there) {
      MOE__IF (b, is_weights) {
        make_piece(s, MOE__MM_QB, place.group, piece);
      }
      MOE__ELSE (b) {
        make_piece(s, MOE__MM_QA, place.group, piece);
      }
    }
  }
}

/* Of all pieces, those that makers could not make in time. */
static MlirValue pieces_to_begin_with(moe__scaled_mm_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue of_weights = moe__mul(b, s->experts.value, pieces_until(s, s->columns.value));
  MlirValue all = moe__add(b, pieces_until(s, s->rows.value), of_weights);
  MlirValue experts = moe__umax(b, s->experts.value, 1);
  MlirValue hidden = moe__umin(b, moe__udiv(b, s->rows.value, experts), TOKENS_THAT_HIDE);
  return moe__mul(b, moe__ceil_div(b, all, TOKENS_THAT_HIDE),
                  moe__sub(b, moe__i32(b, TOKENS_THAT_HIDE), hidden));
}

/* The first tiles of all CTAs are a band of rows, and so many columns. */
void moe__mm_make_first(moe__scaled_mm_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue columns = moe__add(b, moe__udiv(b, s->kernel.cta_count, s->schedule.band), 1);
  MlirValue rows = moe__add(b, moe__mul(b, columns, s->operands[MOE__MM_QB].rows),
                            s->schedule.band * s->operands[MOE__MM_QA].rows);
  make_until(s, moe__umax(b, pieces_until(s, rows), pieces_to_begin_with(s)));
  moe__cta_barrier(b); /* when the makers are done, so is what others made */
}

void moe__mm_make_rest(moe__scaled_mm_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  make_until(s, moe__i32(b, INT32_MAX));
  MlirValue lane = moe__and(b, s->kernel.thread, MOE__WARP - 1);
  MOE__IF (b, moe__eq(b, lane, 0)) {
    moe__mm_finish_counting(s, 1);
  }
}

/* ---- The thread that loads ---- */

/* Of the rows of an operand from `first` (i32) on the panels that a tile has, no more than two; and
 * how many pieces they must have, of rows that are made up to `end`. */
typedef struct awaited_t {
  MlirValue panels[2], wanted[2];
} awaited_t;

static awaited_t await_rows(moe__scaled_mm_t *s, int which, MlirValue group, MlirValue first,
                            MlirValue end) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue whole = pieces_of_panel(s), all = pieces_until(s, end), last = moe__sub(b, end, 1);
  MlirValue below = moe__add(b, first, s->operands[which].rows - 1);
  MlirValue rows[] = {first, moe__umin(b, below, last)};
  awaited_t awaited;
  for (int i = 0; i < 2; i++) {
    MlirValue panel = moe__udiv(b, rows[i], MOE_PANEL_ROWS);
    awaited.panels[i] = panel_at(s, which, group, panel);
    awaited.wanted[i] = moe__umin(b, whole, moe__sub(b, all, moe__mul(b, panel, whole)));
  }
  return awaited;
}

/* Those of both operands. A tile's box has rows of the next groups too. */
typedef struct awaited_operands_t {
  awaited_t of[2];
} awaited_operands_t;

static awaited_operands_t await_tile(moe__scaled_mm_t *s, const moe__group_tile_t *tile) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue column = moe__mul(b, tile->column, s->operands[MOE__MM_QB].tile);
  return (awaited_operands_t){
      {await_rows(s, MOE__MM_QA, tile->group, tile->row, moe__groups_end(&s->groups)),
       await_rows(s, MOE__MM_QB, tile->group, column, s->columns.value)}};
}

moe__mm_asked_t moe__mm_asked_nothing(moe__scaled_mm_t *s) {
  MlirValue zero = moe__i32(&s->kernel.builder, 0);
  return (moe__mm_asked_t){{zero, zero, zero, zero}, zero, zero};
}

/* Adds a 0 that LLVM does not know to each count (moe__mm_begin_in_step): all at once. */
static void ask(moe__scaled_mm_t *s, const awaited_operands_t *awaited, moe__mm_asked_t *asked) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue nothing = moe__fresh(b, moe__i32(b, 0));
  for (int i = 0; i < 4; i++)
    asked->found[i] = moe__atomic_add(b, awaited->of[i / 2].panels[i % 2], nothing, MOE__RELAXED);
  asked->done = moe__atomic_add(b, moe__offset_by(b, s->counters, 4), nothing, MOE__RELAXED);
}

void moe__mm_ask_for_made(moe__scaled_mm_t *s, const moe__mm_work_t *work, moe__mm_asked_t *asked) {
  moe__builder_t *b = &s->kernel.builder;
  MOE__FOR (b, once, asked->is_all, 1, 1, MOE__MM_CARRY_ASKED(*asked)) {
    awaited_operands_t awaited = await_tile(s, &work->tile);
    ask(s, &awaited, asked);
  }
}

/* Whether a panel has fewer pieces than a tile wants. */
static MlirValue is_missing(moe__scaled_mm_t *s, const awaited_operands_t *awaited,
                            const moe__mm_asked_t *asked) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue missing = moe__ult(b, asked->found[0], awaited->of[0].wanted[0]);
  for (int i = 1; i < 4; i++)
    missing = moe__or(b, missing, moe__ult(b, asked->found[i], awaited->of[i / 2].wanted[i % 2]));
  return missing;
}

void moe__mm_await_made(moe__scaled_mm_t *s, const moe__mm_work_t *work, moe__mm_asked_t *asked) {
  moe__builder_t *b = &s->kernel.builder;
  MOE__FOR (b, once, asked->is_all, 1, 1, MOE__MM_CARRY_ASKED(*asked)) {
    awaited_operands_t awaited = await_tile(s, &work->tile);
    MOE__WHILE (b, is_missing(s, &awaited, asked), MOE__MM_CARRY_ASKED(*asked)) {
      ask(s, &awaited, asked);
    }
    moe__fence_device(b);
    moe__fence_global_to_async(b);
    MlirValue makers = moe__and(b, asked->done, LOADER_SHARE - 1);
    MlirValue all = moe__mul(b, s->kernel.cta_count, MAKERS);
    asked->is_all = moe__zext(b, moe__eq(b, makers, all), b->i32);
  }
}

int moe__mm_loader_share(const moe__scaled_mm_t *s) {
  return s->makes_operands ? LOADER_SHARE : 1;
}

int moe__mm_shares(const moe__scaled_mm_t *s) {
  return moe__mm_loader_share(s) + (s->makes_operands ? MAKERS : 0);
}

void moe__mm_forget_made(moe__scaled_mm_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue zero = moe__i32(b, 0);
  moe__atomic_exchange(b, moe__offset_by(b, s->counters, 8), zero, MOE__RELAXED);
  MlirValue panels = moe__ceil_div(b, s->columns.value, MOE_PANEL_ROWS);
  MlirValue counts[] = {moe__ceil_div(b, s->rows.value, MOE_PANEL_ROWS),
                        moe__mul(b, s->experts.value, panels)};
  for (int i = 0; i < 2; i++) {
    MOE__FOR (b, panel, 0, counts[i], 1) {
      moe__store(b, zero, panel_at(s, i, zero, panel));
    }
  }
}
