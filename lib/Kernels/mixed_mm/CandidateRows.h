/* CandidateRows.h - tables of schedules of products of four-bit or FP8 weights: how a row is
 * written and found.
 *
 * Only the files of these tables include it: its macros have short names, so that a row is a line.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_KERNELS_MIXED_MM_CANDIDATE_ROWS_H
#define MOE_KERNELS_MIXED_MM_CANDIDATE_ROWS_H

#include "lib/Kernels/mixed_mm/Candidates.h"

/* Each table has a row for a class of products. A product has the schedules of the first row that
 * has room for its tokens and asks for nothing that the product is not; the last row takes all. */

/* Schedules of warpgroups: tiles of n tokens and w warpgroups, s stages of d columns. Of those that
 * are split two warpgroups of `ctas` CTAs divide the columns of the weights; results go through
 * shared memory where these CTAs have some tokens each in the end. */
#define TILE(n, w, d, s)                                                                           \
  { MOE__TILE(n, w, d, s) }
#define DIVIDED(n, d, s, ctas)                                                                     \
  MOE__TILE(n, 2, d, s), .split = (ctas), .staged = (ctas) > 1 && (n) % (8 * (ctas)) == 0
#define SPLIT(n, d, s, ctas)                                                                       \
  { DIVIDED(n, d, s, ctas) }
#define LONG(n, w, d, s)                                                                           \
  { MOE__TILE(n, w, d, s), MOE__LONG_SUMS }
#define LONG_SPLIT(n, d, s, ctas)                                                                  \
  { DIVIDED(n, d, s, ctas), MOE__LONG_SUMS }
/* Weights become numbers in the registers of those before, and two CTAs may have rows in common. */
#define LONG_BEHIND(n, s, is_common)                                                               \
  { MOE__TILE(n, 4, 128, s), MOE__LONG_SUMS, .behind = 1, .common = (is_common) }

#define MOST_CANDIDATES 3
#define ALL INT64_MAX
#define ANY 0

/* Weights are multiplied by their scales, in tiles of k widths, and the results go through shared
 * memory; by three warpgroups not behind the piece before. */
#define BEHIND_WIDTHS(n, w, s, k)                                                                  \
  MOE__TILE(n, w, 128, s), MOE__LONG_SUMS, .behind = 1, .staged = 1, .widths = (k)
#define LONG_WIDTHS(n, w, s, k)                                                                    \
  { BEHIND_WIDTHS(n, w, s, k) }

typedef struct moe__mixed_row_t {
  int64_t tokens; /* up to so many */
  unsigned asks;  /* what the product must be: bits, for each table its own */
  moe__mixed_schedule_t schedules[MOST_CANDIDATES]; /* the default first; no tile_n: none */
} moe__mixed_row_t;

/* Of the first row that has room for so many tokens and asks for no bit that `is` has not. */
moe__candidates_t moe__mixed_row_candidates(const moe__mixed_row_t *row, int64_t tokens,
                                            unsigned is);

static inline unsigned moe__mixed_bit_if(bool condition, unsigned bit) {
  return condition ? bit : 0;
}

/* Rows of weights, over which tiles of a few tokens are spread: how many CTAs may divide the
 * columns of tiles of 128 rows, at most, so that all run at once. */
enum {
  EIGHT = 1 << 0,
  FOUR = 1 << 1,
  TWO = 1 << 2, /* or the rows are not known */
  ONE = 1 << 3,
  MANY = 1 << 4, /* more tiles than multiprocessors */
  KNOWN = 1 << 5,
  /* Tiles of 256 rows leave multiprocessors idle that those of two CTAs with rows in common do not.
   */
  COMMON = 1 << 6,
};

/* Rows of a table, one for each of these numbers of CTAs; the second candidate has another one. */
#define BY_SPLIT(tokens, asks, SCHEDULE)                                                           \
  {(tokens), (asks) | EIGHT, {SCHEDULE(8), SCHEDULE(4)}},                                          \
      {(tokens), (asks) | FOUR, {SCHEDULE(4), SCHEDULE(2)}},                                       \
      {(tokens), (asks) | TWO, {SCHEDULE(2), SCHEDULE(4)}}, {                                      \
    (tokens), (asks) | ONE, {                                                                      \
      SCHEDULE(1), SCHEDULE(2)                                                                     \
    }                                                                                              \
  }

/* Which of these bits the rows of the product's weights have. */
unsigned moe__mixed_class_of_rows(const moe__mixed_product_t *p);

#endif /* MOE_KERNELS_MIXED_MM_CANDIDATE_ROWS_H */
