/* Multiply.h - the products of a tile of scaled_mm, and the ways to add them: in the tensor core's
 * own accumulator (Multiply.c), or in registers (Promote.c). Sums over blocks of tokens are in
 * TokenBlocks.c, those over MX blocks in MxMultiply.c.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_KERNELS_SCALED_GROUPED_MM_MULTIPLY_H
#define MOE_KERNELS_SCALED_GROUPED_MM_MULTIPLY_H

#include "lib/Kernels/scaled_grouped_mm/ScaledMm.h"

/* ---- Multiply.c ---- */

/* What is done beside a tile's products, where it is not NULL. */
typedef struct moe__mm_beside_t {
  void *user;
  void (*first)(void *user);  /* while the first of them runs */
  void (*settle)(void *user); /* behind that one, if sums are promoted, else behind the last one */
  /* When another stage has landed; is_last, i1: whether it is the last one. */
  void (*landed)(void *user, MlirValue is_last);
} moe__mm_beside_t;

/* Calls one of the first two. */
void moe__mm_call(const moe__mm_beside_t *beside, void (*function)(void *user));

/* Some of the steps of a stage (i32), or all where `end` is null. */
typedef struct moe__mm_steps_t {
  MlirValue begin, end;
} moe__mm_steps_t;

#define MOE__MM_ALL_STEPS ((moe__mm_steps_t){{NULL}, {NULL}})

/* Where the parts of a stage are: the rows of each of `count` fragments, and, as the result, the
 * columns. The latter waits for stage number `index` (i32) of a tile first. */
MlirValue moe__mm_parts_of_stage(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                                 moe__cursor_t now, int count,
                                 MlirValue rows[MOE__MM_MAX_FRAGMENTS]);
MlirValue moe__mm_wait_for_stage(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                                 const moe__mm_reduction_t *reduction,
                                 const moe__mm_beside_t *beside, MlirValue index, moe__cursor_t now,
                                 int count, MlirValue rows[MOE__MM_MAX_FRAGMENTS]);

/* Waits for stage number `index` of a tile, at `now`, and issues its products; fresh: as those that
 * sums start with. */
void moe__mm_multiply_stage(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                            const moe__mm_reduction_t *reduction, const moe__mm_beside_t *beside,
                            MlirValue index, moe__cursor_t now, int count,
                            moe__accumulator_t *accumulators, bool fresh, moe__mm_steps_t steps);

/* The same for the first stage of a tile, at `cursor`. */
void moe__mm_multiply_first(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                            const moe__mm_reduction_t *reduction, const moe__mm_beside_t *beside,
                            moe__cursor_t cursor, int count, moe__accumulator_t *accumulators);

/* The k-tile from which on all steps are multiplied (i32); of k-tiles 1 to before it only `steps`,
 * where moe__mm_skips_steps. */
MlirValue moe__mm_rest(moe__scaled_mm_t *s, const moe__mm_reduction_t *reduction,
                       moe__mm_steps_t *steps);

/* A warp's arrival, at all CTAs whose copies fill the stage. */
void moe__mm_release(moe__scaled_mm_t *s, const moe__mm_position_t *self, moe__cursor_t cursor);

/* Multiplies `count` fragments of a tile, over all of the reduction in the tensor core's own
 * accumulator. */
void moe__mm_multiply_fast(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                           const moe__mm_reduction_t *reduction, moe__cursor_t cursor,
                           const moe__mm_beside_t *beside, int count,
                           moe__mm_fragment_t *fragments);

/* For a warpgroup none of whose rows are stored, but not of a gradient: it only keeps up with the
 * others. */
void moe__mm_pass_over(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                       const moe__mm_reduction_t *reduction, moe__cursor_t cursor);

/* ---- Promote.c ---- */

/* Multiplies a tile, in sums of 128 that are added in registers. */
void moe__mm_multiply_promoted(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                               const moe__group_tile_t *tile, const moe__mm_reduction_t *reduction,
                               moe__cursor_t cursor, const moe__mm_beside_t *beside,
                               moe__mm_fragment_t registers);

/* Where a tile is stored while the first product of the next one runs (moe__mm_stores_behind):
 * multiplies the rest of a tile that moe__mm_multiply_first has begun, whose accumulator that is,
 * and gives the sums. settle is called behind the first product; the others are not. held: the
 * scales of weights, or NULL where the warps hold none. */
struct moe__mm_block_held_t;
moe__accumulator_t moe__mm_promote(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                                   const moe__mm_reduction_t *reduction, moe__cursor_t cursor,
                                   const moe__mm_beside_t *beside, moe__accumulator_t accumulator,
                                   struct moe__mm_block_held_t *held);

#endif /* MOE_KERNELS_SCALED_GROUPED_MM_MULTIPLY_H */
