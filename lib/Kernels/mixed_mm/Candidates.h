/* Candidates.h - what the choice of a schedule of four-bit weights depends on, and how schedules
 * are written in its tables.
 *
 * Candidates.c has the tables of four-bit weights up to 64 tokens and with experts, CandidatesFp8.c
 * those of FP8 weights.
 * CandidatesPanels.c has up to 16 tokens, whose panels are computed from the rows.
 * CandidatesWide.c has more than 64 tokens, and CandidatesFew.c few experts: tiles are those that
 * take the least time by a model.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_KERNELS_MIXED_MM_CANDIDATES_H
#define MOE_KERNELS_MIXED_MM_CANDIDATES_H

#include "lib/Kernels/mixed_mm/Schedule.h"

#define MOE__MULTIPROCESSORS 132 /* of an H100 or H200 */

/* Fields of a schedule: tiles of n tokens and w warpgroups, and s stages of d columns. */
#define MOE__TILE(n, w, d, s) .tile_n = (n), .warpgroups = (w), .depth = (d), .stages = (s)

/* Scales are factors of weights, or of their highest bits, and the tensor core sums over all
 * columns of a tile. */
#define MOE__LONG_SUMS .scaled_weights = 1, .long_sums = 1

/* A row of weights has so many bytes of scales and zero points for 64 columns, or fewer; those of
 * class MOE__NUMBERS_CLASSES have more. */
#define MOE__NUMBERS_CLASSES 3
#define MOE__MOST_NUMBERS(class) ((class) == 0 ? 3 : (class) == 1 ? 4 : 6)

/* What a schedule is chosen by. Sizes that are not known are -1. */
typedef struct moe__mixed_product_t {
  int64_t tokens;        /* with experts those of each, on average, rounded up */
  int64_t all_tokens;    /* of all experts */
  int64_t rows, columns; /* of the weights */
  int64_t experts;       /* 1 without */
  double touched;        /* experts that have tokens, on average */
  int group;             /* columns that share a scale; 0: all */
  int numbers;           /* class of bytes of scales and zero points */
  bool has_experts, has_bias, has_zeros, has_f16_tokens, has_f32_results;
  bool has_scales_of_rows; /* they lie by rows */
  bool is_fp8, is_e2m1;    /* weights */
  bool is_bf16_i4;         /* i4 weights without zero points; tokens, results and scales in bf16 */
  bool is_bf16_integer;    /* all integers of such types, in groups */
  bool has_same_types;     /* those, the same of f16, and MXFP4 with tokens and results of either */
  /* The types with which schedules of a few cases have run on a GPU: those, or such ui4 weights
   * with zero points, in groups of 64; those in groups of 32; or such MXFP4. */
  bool is_usual_64, is_usual_32, is_usual_mxfp4;
  /* By default only where results have 16 bits: they hide what a tensor core cuts off long sums. */
  bool wants_scaled_weights, wants_units;
  bool has_row_powers; /* tokens are f16; up to 64 tokens of a layer were not timed */
  bool has_token_scales;
} moe__mixed_product_t;

int64_t moe__mixed_quotient_up(int64_t x, int64_t y);

/* Experts that have tokens, on average, where those of each token are drawn at random. */
double moe__mixed_touched(int64_t tokens, int64_t experts);

/* Tiles of so many rows, which are known, by so many warpgroups. */
int64_t moe__mixed_tiles_of_rows(int64_t rows, int warpgroups);

/* Clusters of 1, 2, 4 or 8 CTAs that have room on the chip at once. */
int64_t moe__mixed_clusters_at_once(int ctas);

/* Whether so many CTAs, 2, 4 or 8, may divide the columns of a tile: the clusters of all tiles run
 * at once, and each CTA has some columns. */
bool moe__mixed_may_split(double tiles, int64_t columns, int ctas);

/* Whether a tenth of the multiprocessors, on average, has nothing to do for so many tiles. */
bool moe__mixed_leaves_some_idle(int64_t tiles);

/* Up to 16 tokens of as many rows as are known, without experts, and numbers of a class. */
moe__candidates_t moe__mixed_panel_candidates(const moe__mixed_product_t *product);

/* FP8 weights. */
moe__candidates_t moe__mixed_fp8_candidates(const moe__mixed_product_t *product);

/* More than 64 tokens, without experts. */
moe__candidates_t moe__mixed_wide_candidates(const moe__mixed_product_t *product);

/* Whether such a product of integers, of known sizes, takes less time in f16, with the launch that
 * makes f16 of its tokens. */
bool moe__mixed_wide_in_f16(const moe__mixed_product_t *product);

/* Whether experts, of known sizes, are so few that their tiles may leave multiprocessors idle, with
 * so many tokens as their tiles were timed with. */
bool moe__mixed_are_few_experts(const moe__mixed_product_t *product);

/* The schedules of a product of experts, few or not, by limits of tokens and rows. */
typedef moe__candidates_t moe__mixed_usual_fn(const moe__mixed_product_t *product);

/* Of few experts the schedules that take the least time: with tiles of few experts, or those that
 * `usual` gives for so many tokens or others. What `usual` gives where no timed tile suits. */
moe__candidates_t moe__mixed_few_candidates(const moe__mixed_product_t *product,
                                            moe__mixed_usual_fn *usual);

/* Whether such a product of integers takes less time in f16, with the launch that makes f16 of its
 * tokens; in_f16 is the same product then. */
bool moe__mixed_few_in_f16(const moe__mixed_product_t *product, const moe__mixed_product_t *in_f16,
                           moe__mixed_usual_fn *usual);

#endif /* MOE_KERNELS_MIXED_MM_CANDIDATES_H */
