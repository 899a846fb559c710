/* Schedule.h - the fields of the schedules of four-bit weights: range, default and what each is.
 * lib/Kernels/Schedule.h says how a table is written.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_KERNELS_MIXED_MM_SCHEDULE_H
#define MOE_KERNELS_MIXED_MM_SCHEDULE_H

#include "lib/Kernels/Schedule.h"

/* Of MixedMm.h. */
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
  X(T, depth, 128, 1024, 128, "columns of weights in a stage, a multiple of 128")                  \
  X(T, stages, 2, 32, 8, "stages in flight")                                                       \
  X(T, split, 1, 8, 1,                                                                             \
    "CTAs of a cluster that divide the columns of weights; it must divide the panels of rows")     \
  X(T, share, 1, 4, 1,                                                                             \
    "CTAs of a cluster that have other rows of the same tokens, which each loads a part of for "   \
    "all; 1 with split")                                                                           \
  X(T, in_flight, 1, 2, 1,                                                                         \
    "pieces of weights of a warpgroup whose products run at once; unused with panels")             \
  X(T, token_parts, 1, 4, 1,                                                                       \
    "parts of a tile's tokens whose products take turns: those of one run while another's are "    \
    "added; unused with panels")                                                                   \
  X(T, unroll, 1, 4, 1,                                                                            \
    "stages that a round of the loop works off with tokens in parts, of which products are in "    \
    "flight across stages; 1 without")                                                             \
  X(T, scaled_weights, 0, 1, 0,                                                                    \
    "whether weights are multiplied by their scales, which must be f8E8M0FNU, and not their "      \
    "sums; "                                                                                       \
    "for f4E2M1FN and bf16 tokens, unused with panels")                                            \
  X(T, long_sums, 0, 1, 0,                                                                         \
    "with scaled_weights: 1: the tensor core sums over all columns of a tile; 0: over those of a " \
    "stage, whose sums are added in fp32; 0 without")                                              \
  X(T, ctas_per_sm, 1, 4, 1, "CTAs that share a multiprocessor")                                   \
  X(T, band, 1, 4096, 4096,                                                                        \
    "tiles of tokens, of an expert if there are some, that are worked off together")

typedef struct moe__mixed_schedule_t {
  MOE__MIXED_SCHEDULE(MOE__SCHEDULE_MEMBER, )
} moe__mixed_schedule_t;

/* Of PackWeights.c. */
#define MOE__PACK_WEIGHTS_SCHEDULE(X, T)                                                           \
  X(T, warps, 1, 32, 8, "warps of a CTA")                                                          \
  X(T, ctas_per_sm, 1, 16, 8, "CTAs that share a multiprocessor")

typedef struct moe__pack_weights_schedule_t {
  MOE__PACK_WEIGHTS_SCHEDULE(MOE__SCHEDULE_MEMBER, )
} moe__pack_weights_schedule_t;

#endif /* MOE_KERNELS_MIXED_MM_SCHEDULE_H */
