/* Schedule.h - the fields of the schedules of four-bit weights: range, default and what each is;
 * and the layout of shared memory that follows from them. lib/Kernels/Schedule.h says how a table
 * is written.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_KERNELS_MIXED_MM_SCHEDULE_H
#define MOE_KERNELS_MIXED_MM_SCHEDULE_H

#include "lib/Device/Async.h"
#include "lib/Device/Groups.h"
#include "lib/Kernels/Schedule.h"

/* A band that has all tiles of tokens. */
#define MOE__MIXED_ALL_TOKENS 4096

/* Of the products. */
#define MOE__MIXED_SCHEDULE(X, T)                                                                  \
  X(T, tile_n, 8, 256, 16, "tokens of a tile, a multiple of 8")                                    \
  X(T, warpgroups, 1, 4, 2,                                                                        \
    "warpgroups that multiply, 64 rows of weights each; unused with panels")                       \
  X(T, panels, 0, 16, 0,                                                                           \
    "panels of 16 rows of weights that warps multiply, each by itself; 0: warpgroups do")          \
  X(T, slices, 1, 8, 1, "warps of a panel, which divide the columns of a stage; 1 without panels") \
  X(T, direct, 0, 1, 0,                                                                            \
    "1: warps of panels load their weights into registers, a stage ahead; 0: they come to shared " \
    "memory by the TMA")                                                                           \
  X(T, subnormal, 0, 1, 0,                                                                         \
    "1: integers become bf16 from subnormal numbers, which takes fewer shifts, and sums are "      \
    "multiplied by 128 at the end; 0: from numbers from 128 on, or f16; 1 only with bf16 tokens, " \
    "results of 16 bits and without scaled_weights")                                               \
  X(T, depth, 64, 1024, 128,                                                                       \
    "columns of weights in a stage, a multiple of 128; with behind, but for f8E4M3FN, of 64")      \
  X(T, stages, 2, 32, 8, "stages in flight")                                                       \
  X(T, whole, 0, 1, 0,                                                                             \
    "1: where the stages have all columns of a tile they are given back for another tile alone; "  \
    "0 without direct, with split and with experts")                                               \
  X(T, split, 1, 8, 1,                                                                             \
    "CTAs of a cluster that divide the columns of weights; it must divide the panels of rows")     \
  X(T, reuse, 0, 1, 0,                                                                             \
    "1: the sums of these CTAs meet where the stages were, behind one more barrier; 0: in memory " \
    "of their own; unused with panels, without split, and where tile_n is no multiple of 8 for "   \
    "each of them")                                                                                \
  X(T, share, 1, 4, 1,                                                                             \
    "CTAs of a cluster that have other rows of the same tokens, which each loads a part of for "   \
    "all; 1 with split")                                                                           \
  X(T, common, 0, 1, 0,                                                                            \
    "1: clusters of two CTAs, whose last warpgroups have the same rows of weights and half of "    \
    "the "                                                                                         \
    "columns each; 0: each CTA has rows of its own")                                               \
  X(T, spread, 0, 1, 0,                                                                            \
    "1: the columns of the last tiles are divided evenly among all CTAs, whose sums meet in "      \
    "global memory; 0 with split, share, common, widths, slices and direct")                       \
  X(T, in_flight, 1, 2, 1,                                                                         \
    "pieces of weights of a warpgroup whose products run at once; unused with panels")             \
  X(T, behind, 0, 1, 0,                                                                            \
    "1: a piece of weights becomes numbers behind the sums of the one before, in its registers; "  \
    "0: "                                                                                          \
    "while its products run")                                                                      \
  X(T, widths, 1, 8, 1,                                                                            \
    "equal parts of a tile's tokens, of which as many are loaded and multiplied as have tokens; "  \
    "1 with panels, split, share and common")                                                      \
  X(T, once, 0, 1, 0,                                                                              \
    "1: weights are the first to leave L2, and of those of f8E4M3FN no more is fetched than a "    \
    "stage takes, as suits weights that are read once; unused with direct")                        \
  X(T, token_parts, 1, 4, 1,                                                                       \
    "parts of a tile's tokens whose products take turns: those of one run while another's are "    \
    "added; unused with panels")                                                                   \
  X(T, unroll, 1, 4, 1,                                                                            \
    "stages that a round of the loop works off with tokens in parts, of which products are in "    \
    "flight across stages; 1 without")                                                             \
  X(T, scaled_weights, 0, 1, 0,                                                                    \
    "whether weights are multiplied by their scales, and not their sums: f8E4M3FN weights by "     \
    "those of f8E8M0FNU, f4E2M1FN for bf16 tokens; i4 and uint4b8 by those of bf16, for f16 "      \
    "tokens; with long_sums integers by the highest four bits of scales of 16 bits, for bf16 "     \
    "tokens; with panels f4E2M1FN with long_sums alone; 1 for f8E4M3FN")                           \
  X(T, long_sums, 0, 1, 0,                                                                         \
    "with scaled_weights: 1: the tensor core sums over all columns of a tile; 0: over those of a " \
    "stage, whose sums are added in fp32; 0 without. Of integers with bf16 tokens the sums are "   \
    "multiplied between two groups by the ratio of what is left of their scales")                  \
  X(T, staged, 0, 1, 0,                                                                            \
    "1: results of 16 bits go through shared memory, so that a lane stores 16 bytes of a token; "  \
    "0: each lane stores its own; unused with results of 32 bits, slices and common, and with "    \
    "split where tile_n is no multiple of 8 for each CTA")                                         \
  X(T, ctas_per_sm, 1, 4, 1, "CTAs that share a multiprocessor")                                   \
  X(T, band, 1, MOE__MIXED_ALL_TOKENS, MOE__MIXED_ALL_TOKENS,                                      \
    "tiles of tokens, of an expert if there are some, that are worked off together")

typedef struct moe__mixed_schedule_t {
  MOE__MIXED_SCHEDULE(MOE__SCHEDULE_MEMBER, )
} moe__mixed_schedule_t;

extern const moe__schedule_kind_t moe__mixed_schedule;

typedef enum moe__weight_format_t {
#define MOE_WEIGHT_FORMAT(symbol, name) MOE__WEIGHT_##symbol,
#include "moe/weight_formats.def"
} moe__weight_format_t;

/* What an op's weights are, and the columns that share a scale; 0: all. */
moe__weight_format_t moe__mixed_format(MlirOperation op);
int moe__mixed_group(MlirOperation op);

/* Whether the scales of a row lie side by side: of FP8 weights they may, or those of a group. */
bool moe__mixed_has_scales_of_rows(MlirOperation op);

/* Whether the product of a weight and its scale is a number of the tokens' type; and whether that
 * of a weight and the highest bits of its scale is one, so that sums are in units. */
bool moe__mixed_takes_scaled_weights(MlirOperation op);
bool moe__mixed_takes_row_powers(MlirOperation op); /* the former, in f16 */
bool moe__mixed_takes_units(MlirOperation op);

int moe__mixed_scale_bytes(MlirType scale);                      /* of one */
int moe__mixed_scales_of_stage(int group, int depth);            /* of a row */
int moe__mixed_panels(const moe__mixed_schedule_t *schedule);    /* of a tile */
int moe__mixed_rows(const moe__mixed_schedule_t *schedule);      /* of them */
int moe__mixed_box_rows(const moe__mixed_schedule_t *schedule);  /* of them, loaded at once */
int moe__mixed_tile_rows(const moe__mixed_schedule_t *schedule); /* of a cluster */
bool moe__mixed_meets(const moe__mixed_schedule_t *schedule);    /* CTAs add their sums */
int moe__mixed_warps(const moe__mixed_schedule_t *schedule);     /* that multiply */

/* Whether CTAs that divide the columns add the sums of some tokens each; else those of some rows,
 * where tokens are too few. */
bool moe__mixed_divides_tokens(const moe__mixed_schedule_t *schedule);

/* Whether the sums of such CTAs meet where the stages were; and whether results go through shared
 * memory, if they have 16 bits. */
bool moe__mixed_reuses(const moe__mixed_schedule_t *schedule);
bool moe__mixed_stages_results(const moe__mixed_schedule_t *schedule);

/* What a CTA has in shared memory, and the registers of its threads. */
typedef struct moe__mixed_layout_t {
  moe__layout_t cta;
  moe__ring_t ring;
  int32_t weights, scales, zeros; /* offsets in a stage, which begins with the tokens */
  bool scales_of_rows;            /* scales lie by rows, MOE__MIXED_ROW_SCALES of each in a stage */
  int32_t landing;                /* bytes that land in one */
  bool fits;                      /* no more tokens land than there are; the others are 0 */
  int32_t parts;                  /* with split or slices: where all sums arrive */
  int32_t staging;                /* with staged: where a warp's results change their order */
  int32_t handed_on;              /* with spread: the mbarrier of the sums that are handed on */
  int registers;                  /* of a thread that multiplies */
  int loader_registers;           /* of one that loads, where the former get some of them */
  bool divides; /* it gets some of those of the threads that load, a warpgroup then; else a warp */
  moe__groups_layout_t groups;
} moe__mixed_layout_t;

/* The functions of the kernel's definition (lib/Kernels/Kernels.h). */
moe__candidates_t moe__mixed_candidates(MlirOperation op);
bool moe__mixed_lay_out(MlirOperation op, const void *schedule, void *out);

/* Of PackWeights.c. */
#define MOE__PACK_WEIGHTS_SCHEDULE(X, T)                                                           \
  X(T, warps, 1, 32, 8, "warps of a CTA")                                                          \
  X(T, ctas_per_sm, 1, 16, 8, "CTAs that share a multiprocessor")

typedef struct moe__pack_weights_schedule_t {
  MOE__PACK_WEIGHTS_SCHEDULE(MOE__SCHEDULE_MEMBER, )
} moe__pack_weights_schedule_t;

#endif /* MOE_KERNELS_MIXED_MM_SCHEDULE_H */
