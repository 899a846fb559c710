/* Schedule.h - the fields of the schedule of products (scaled_mm): range, default and what each is;
 * and the layout of shared memory that follows from them. lib/Kernels/Schedule.h says how the table
 * is written.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_KERNELS_SCALED_GROUPED_MM_SCHEDULE_H
#define MOE_KERNELS_SCALED_GROUPED_MM_SCHEDULE_H

#include "lib/Device/Async.h"
#include "lib/Device/Groups.h"
#include "lib/Kernels/Schedule.h"

#define MOE__MM_SCHEDULE(X, T)                                                                     \
  X(T, swap_operands, 0, 1, 0,                                                                     \
    "1: the rows of a tile are columns of qb, its columns rows of qa: for few tokens; 0 in the "   \
    "weight gradient, and with operands of 16 bits")                                               \
  X(T, tile_n, 16, 256, 256,                                                                       \
    "columns of a tile of 128 rows, or 192 with three warpgroups; a multiple of 64; if swapped, "  \
    "of 16; with scales of MX blocks, of 32; at most 192 with promoted sums, 160 with scales of "  \
    "MX blocks, 192 with pingpong, 128 if swapped with scales of blocks")                          \
  X(T, pieces, 1, 8, 1,                                                                            \
    "if swapped: equal pieces of a tile's columns, of which as many are loaded and multiplied "    \
    "as the group has tokens for")                                                                 \
  X(T, stages, 2, 12, 4, "pairs of tiles in flight, 128 bytes of the reduction deep")              \
  X(T, band, 1, 4096, 8, "rows of tiles, of clusters, that are worked off together")               \
  X(T, cluster, 1, 2, 1,                                                                           \
    "CTAs with tiles below one another, which share what they read of qb; 1 if swapped, and in "   \
    "the weight gradient with scales of blocks")                                                   \
  X(T, pingpong, 0, 1, 0,                                                                          \
    "1: each warpgroup multiplies tiles of its own, while the other stores; 0 with promoted "      \
    "sums, and if swapped")                                                                        \
  X(T, warpgroups, 2, 3, 2,                                                                        \
    "that multiply, 64 rows of a tile each; unused if swapped; 3 only with promoted sums, tile_n " \
    "up to 128 and no cluster, not with scales of MX blocks, nor with those of blocks of tokens "  \
    "that begin anywhere")                                                                         \
  X(T, staged, 64, 128, 128,                                                                       \
    "bytes of each of its 16 rows that a warp brings in order at once; 64 or 128, unused if "      \
    "swapped")                                                                                     \
  X(T, direct, 0, 1, 0,                                                                            \
    "1: the columns' operand is brought in an order in which each lane has 8 columns of out side " \
    "by side, and stores them by itself; unused if swapped; 1 only with promoted sums and no "     \
    "cluster, not with scales of MX blocks, nor in a weight gradient")                             \
  X(T, beside, 0, 1, 0,                                                                            \
    "1: the tiles of a cluster lie side by side, and share what is read of qa")                    \
  X(T, tma_store, 0, 8, 0,                                                                         \
    "how many pieces of `staged` bytes of its 16 rows of a tile a warp gives to the TMA at once, " \
    "where the group has all of these rows; 0, or if swapped: it stores them itself; 0 with "      \
    "scales of MX blocks")                                                                         \
  X(T, rotate, 0, 1, 0,                                                                            \
    "1: these pieces go to the TMA one by one, each from where the one `tma_store` before it "     \
    "was; unused where the TMA does not store, 0 with pingpong")                                   \
  X(T, wide_stages, 0, 12, 0,                                                                      \
    "in a weight gradient with pingpong, tile_n up to 128 and no cluster: pairs of tiles in "      \
    "flight, 2 and more, where tiles have 192 columns in place of tile_n, which they have where "  \
    "groups are short; 0: they never have; unused elsewhere")                                      \
  X(T, in_step, 0, 64, 0,                                                                          \
    "with pingpong, and where CTAs take tiles in turn: of how many they begin one at the same "    \
    "time, so that L2 reads for several at once; 0: none; unused elsewhere")

typedef struct moe__mm_schedule_t {
  MOE__MM_SCHEDULE(MOE__SCHEDULE_MEMBER, )
} moe__mm_schedule_t;

extern const moe__schedule_kind_t moe__mm_schedule;

/* Whether tiles may be wide; and the schedule of the kernel where they are (Wide.c). */
bool moe__mm_may_be_wide(MlirOperation op, const moe__mm_schedule_t *schedule);
moe__mm_schedule_t moe__mm_wide_schedule(const moe__mm_schedule_t *schedule);

/* Warpgroups that multiply, their threads, and the rows of a tile. */
int moe__mm_warpgroups(const moe__mm_schedule_t *schedule);
int moe__mm_tile_rows(const moe__mm_schedule_t *schedule);
int moe__mm_threads(const moe__mm_schedule_t *schedule);

/* What a CTA has in shared memory: offsets. */
typedef struct moe__mm_layout_t {
  moe__layout_t cta;
  moe__ring_t ring;
  int32_t slots;                         /* where the loader says which tiles it loads */
  bool one_lane_reads, all_lanes_arrive; /* of slots; then each has a barrier */
  int32_t slots_read;
  int32_t slots_full, turns; /* with pingpong: barriers of each slot, of each warpgroup */
  /* Of the gradient, where the loader notes what to clear; barriers, one for each. */
  int32_t requests, requested, landed;
  /* For each warp a part to bring results in order, for each warpgroup the scales and the bias
   * of its columns. */
  int32_t staging, column_scales, column_bias;
  moe__groups_layout_t groups; /* not of batched products */
} moe__mm_layout_t;

/* The functions of the kernel's definition (lib/Kernels/Kernels.h). */
moe__candidates_t moe__mm_candidates(MlirOperation op);
bool moe__mm_lay_out(MlirOperation op, const void *schedule, void *out);

#endif /* MOE_KERNELS_SCALED_GROUPED_MM_SCHEDULE_H */
