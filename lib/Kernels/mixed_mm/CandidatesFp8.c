/* CandidatesFp8.c - which schedules a product of FP8 weights has, up to 64 tokens without experts
 * and with experts: see Candidates.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/Requirements.h"
#include "lib/Kernels/mixed_mm/CandidateRows.h"

/* They have twice the bytes in a stage. With experts tiles have room for the tokens of most of
 * them, since weights of the next tile would be turned into numbers again. */

enum {
  BY_ROWS = 1 << 7, /* scales lie by rows, and take more of a stage */
  SIZED = 1 << 8,   /* tokens and experts are known, and where scales lie by rows experts are few */
  ODD = 1 << 9,     /* an odd number of tiles of 128 rows, and few */
  IN_F16 = 1 << 10, /* tokens are of f16 */
  SHORT = 1 << 11   /* rows of few columns; from 2048 to 7168 nothing was timed */
};

#define FEW_COLUMNS 3072

#define MOST_FEW_GROUPS 512

/* Nobody reads the weights again. */
#define ONCE_IN_EIGHTHS(n)                                                                         \
  { BEHIND_WIDTHS(n, 4, 3, 8), .once = 1 }
#define ONCE_IN_QUARTERS(n, s)                                                                     \
  { BEHIND_WIDTHS(n, 4, s, 4), .once = 1 }
/* Results go through shared memory, and CTAs share tokens. */
#define STAGED(n, w, ctas)                                                                         \
  { MOE__TILE(n, w, 128, 3), MOE__LONG_SUMS, .staged = 1, .share = (ctas) }

#define FP8_8(ctas) LONG_SPLIT(8, 256, 5, ctas)
#define FP8_16(ctas) LONG_SPLIT(16, 256, 4, ctas)
#define FP8_32(ctas) LONG_SPLIT(32, 128, 7, ctas)
#define FP8_64(ctas) LONG_SPLIT(64, 128, 5, ctas)

/* Without experts; mixed_mxfp8.md, "The kernel and its defaults". */
static const moe__mixed_row_t FP8_DENSE[] = {
    {8, MANY, {LONG(8, 4, 128, 5), FP8_8(2)}},
    BY_SPLIT(8, ANY, FP8_8),
    {16, MANY, {LONG(16, 4, 128, 5), FP8_16(2)}},
    BY_SPLIT(16, ANY, FP8_16),
    {32, MANY, {LONG(32, 4, 128, 5), FP8_32(2)}},
    BY_SPLIT(32, ANY, FP8_32),
    /* mixed_few_tokens.md, "28672 rows, 33 to 64 tokens" */
    {64, COMMON, {LONG_BEHIND(64, 4, 1), LONG_BEHIND(64, 4, 0)}},
    {64, MANY, {LONG(64, 4, 128, 4), FP8_64(2)}},
    BY_SPLIT(64, ANY, FP8_64),
};

/* With experts; the same page. */
static const moe__mixed_row_t FP8_EXPERTS[] = {
    {4, BY_ROWS, {LONG(8, 4, 128, 5), LONG(16, 4, 128, 4)}},
    {4, ANY, {LONG(8, 4, 128, 6), LONG(16, 4, 128, 5)}},
    {10, BY_ROWS, {LONG(16, 4, 128, 4), LONG(32, 4, 128, 4)}},
    {10, ANY, {LONG(16, 4, 128, 5), LONG(32, 4, 128, 5)}},
    /* mixed_mxfp8.md, "More widths" */
    {36, SIZED | BY_ROWS, {LONG_WIDTHS(64, 4, 3, 4), LONG(64, 4, 128, 4)}},
    /* grouped_mx_blocks.md, "Both operands in f16" */
    {36, SIZED | IN_F16 | SHORT, {ONCE_IN_QUARTERS(64, 4), LONG_WIDTHS(64, 4, 4, 4)}},
    {36, SIZED, {LONG_WIDTHS(64, 4, 4, 4), LONG(64, 4, 128, 4)}},
    {64, SIZED | IN_F16 | SHORT, {ONCE_IN_QUARTERS(128, 3), LONG_WIDTHS(128, 4, 3, 4)}},
    {64, SIZED | IN_F16, {LONG_WIDTHS(128, 4, 3, 4), STAGED(128, 3, 1)}},
    {64, SIZED, {ONCE_IN_EIGHTHS(128), LONG_WIDTHS(128, 4, 3, 4)}},
    {384, SIZED, {LONG_WIDTHS(128, 4, 3, 4), STAGED(128, 3, 1)}},
    /* mixed_mxfp8.md, "The kernel and its defaults" */
    {20, BY_ROWS, {LONG(32, 4, 128, 4), LONG(64, 4, 128, 4)}},
    {64, ANY, {LONG(64, 4, 128, 4), LONG(112, 3, 128, 3)}},
    /* grouped_mx_blocks.md, "Weights that become bf16 in the product" */
    {384, ANY, {STAGED(128, 3, 1), STAGED(208, 2, 2)}},
    {ALL, ODD, {STAGED(208, 2, 1), STAGED(128, 3, 1)}},
    {ALL, ANY, {STAGED(208, 2, 2), STAGED(128, 3, 1)}},
};

/* Results of 32 bits would show what the tensor core cuts off long sums. Not timed. */
static const moe__mixed_row_t FP8_F32[] = {
    {16, ANY, {{MOE__TILE(16, 2, 128, 8), .scaled_weights = 1}}},
    {64, ANY, {{MOE__TILE(64, 2, 128, 6), .scaled_weights = 1}}},
    {ALL, ANY, {{MOE__TILE(128, 2, 128, 4), .scaled_weights = 1}}},
};

static int64_t fp8_tokens(const moe__mixed_product_t *p) {
  return p->tokens < 0 ? MOE__FEW_TOKENS : p->tokens;
}

static moe__candidates_t usual_fp8_expert_candidates(const moe__mixed_product_t *p) {
  int64_t row_tiles = p->rows < 0 ? 0 : moe__mixed_tiles_of_rows(p->rows, 2);
  return moe__mixed_row_candidates(
      FP8_EXPERTS, fp8_tokens(p),
      moe__mixed_bit_if(p->has_scales_of_rows, BY_ROWS) |
          moe__mixed_bit_if(
              p->tokens >= 0 && (!p->has_scales_of_rows || p->experts <= MOST_FEW_GROUPS), SIZED) |
          moe__mixed_bit_if(row_tiles % 2 && row_tiles < 16, ODD) |
          moe__mixed_bit_if(p->has_row_powers, IN_F16) |
          moe__mixed_bit_if(p->columns >= 0 && p->columns <= FEW_COLUMNS, SHORT));
}

moe__candidates_t moe__mixed_fp8_candidates(const moe__mixed_product_t *p) {
  int64_t tokens = fp8_tokens(p);
  if (p->has_f32_results)
    return moe__mixed_row_candidates(FP8_F32, tokens, ANY);
  if (!p->has_experts)
    return tokens <= MOE__FEW_TOKENS
               ? moe__mixed_row_candidates(FP8_DENSE, tokens, moe__mixed_class_of_rows(p))
               : moe__mixed_wide_candidates(p);
  return moe__mixed_are_few_experts(p) ? moe__mixed_few_candidates(p, usual_fp8_expert_candidates)
                                       : usual_fp8_expert_candidates(p);
}
