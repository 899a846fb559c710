/* Mx.h - what products need whose operands have scales for MX blocks.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_KERNELS_SCALED_GROUPED_MM_MX_H
#define MOE_KERNELS_SCALED_GROUPED_MM_MX_H

#include "lib/Kernels/scaled_grouped_mm/ScaledMm.h"

/* ---- MxScales.c, where operands have scales for MX blocks ---- */

bool moe__mm_has_mx_scales(const moe__scaled_mm_t *s);

/* Bytes that a stage has besides, behind its tiles, for factors: the scales as fp32. */
int32_t moe__mm_mx_factor_bytes(const moe__mm_schedule_t *schedule);

/* Threads that write factors, of the loading warpgroup: those of all warps but the one that loads.
 * Each arrives at each stage. They call the function. */
#define MOE__MM_MX_WRITERS 96
void moe__mm_mx_write_factors(moe__scaled_mm_t *s);

/* The factors of MX block `index`, 0 to 3, of the k-tile in the stage at `cursor`, that belong to
 * the elements of a lane's fragments: of its columns, fragment_n / 4, and of its rows, two of each
 * fragment. f32. */
typedef struct moe__mm_mx_factors_t {
  MlirValue columns[MOE__WGMMA_MAX_N / 4], rows[2 * MOE__MM_MAX_FRAGMENTS];
} moe__mm_mx_factors_t;
void moe__mm_mx_read_factors(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                             moe__cursor_t cursor, int index, moe__mm_mx_factors_t *out);

/* Where what a multiplying warp has read of the stage may be written again: of its own CTA each
 * lane arrives, since it has read factors; of another one of the cluster, one. How many arrivals a
 * stage gets. */
void moe__mm_mx_release(moe__scaled_mm_t *s, const moe__mm_position_t *self, moe__cursor_t cursor);
int32_t moe__mm_mx_readers(const moe__mm_schedule_t *schedule);

/* ---- MxMultiply.c ---- */

/* Multiplies and stores all tiles of the CTA, each warpgroup one half of their columns. */
void moe__mm_multiply_mx(moe__scaled_mm_t *s);

/* ---- MxTokens.c, for a gradient whose scales are of MX blocks of tokens ---- */

bool moe__mm_has_mx_tokens(const moe__scaled_mm_t *s);

/* Reserves shared memory; gives the bytes that a stage has besides, behind its factors. One thread
 * initializes the barriers, and a barrier of the CTA follows. */
int32_t moe__mm_mx_tokens_reserve(moe__mm_layout_t *layout, const moe__mm_schedule_t *schedule,
                                  bool aligned);
void moe__mm_mx_tokens_initialize(moe__scaled_mm_t *s);

/* For the loading thread: gives the barrier on which the copies to the free stage at `cursor` are
 * to complete, which expects their bytes; copies the tails, whose tiles begin with token `at`. */
MlirValue moe__mm_mx_tokens_expect(moe__scaled_mm_t *s, MlirValue has_tail, moe__cursor_t cursor);
void moe__mm_mx_tokens_load_tails(moe__scaled_mm_t *s, const moe__mm_work_t *work, MlirValue at,
                                  moe__cursor_t cursor, MlirValue landed);

/* Behind the last tile the loading thread says so in the stage at `cursor`. For the warps that
 * write factors: waits for the first stage of a tile; gives whether there is one. */
void moe__mm_mx_tokens_end(moe__scaled_mm_t *s, moe__cursor_t cursor);
MlirValue moe__mm_mx_tokens_has_tile(moe__scaled_mm_t *s, moe__cursor_t cursor, MlirValue slot);

/* For the warps that write factors, `thread` among them: waits for the copies of k-tile `index` to
 * the stage at `cursor`, moves its tokens to the start of its rows, and clears what lies behind the
 * group. */
void moe__mm_mx_place_tokens(moe__scaled_mm_t *s, MlirValue thread,
                             const moe__mm_reduction_t *reduction, MlirValue index,
                             moe__cursor_t cursor);

#endif /* MOE_KERNELS_SCALED_GROUPED_MM_MX_H */
