/* Warp.h - what the 32 lanes of a warp do together: shuffles and scans.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_DEVICE_WARP_H
#define MOE_DEVICE_WARP_H

#include "lib/Builder/Builder.h"

#define MOE__WARP 32

/* The i32 of lane `lane`; of the lane `distance` below (a lane without one keeps its own); of the
 * lane whose number differs in `mask`. */
MlirValue moe__shuffle(moe__builder_t *b, MlirValue value, MlirValue lane);
MlirValue moe__shuffle_up(moe__builder_t *b, MlirValue value, int distance);
MlirValue moe__shuffle_xor(moe__builder_t *b, MlirValue value, int mask);

/* The i32 or f32 of lane `index` among the `lanes` neighboring lanes, a power of two, to which the
 * asking lane belongs. */
MlirValue moe__shuffle_among(moe__builder_t *b, MlirValue value, int index, int lanes);

/* The bits that are set in the i32 of any lane. */
MlirValue moe__warp_or(moe__builder_t *b, MlirValue value);

/* In how many lanes the i1 is true, i32. */
MlirValue moe__warp_count(moe__builder_t *b, MlirValue condition);

/* The same i32, which is one value in all lanes: now ptxas knows that it is, and keeps what
 * follows from it in uniform registers. Around wgmma it must: in code that may diverge,
 * descriptors and barriers go through each lane's registers. */
MlirValue moe__warp_uniform(moe__builder_t *b, MlirValue value);

/* Inclusive scan over the lanes with an associative function. */
MlirValue moe__warp_scan(moe__builder_t *b, MlirValue value, MlirValue lane,
                         MlirValue (*combine)(moe__builder_t *, MlirValue, MlirValue));

/* All lanes' values combined with an associative and commutative function, in every lane. */
MlirValue moe__warp_reduce(moe__builder_t *b, MlirValue value,
                           MlirValue (*combine)(moe__builder_t *, MlirValue, MlirValue));

/* The same for `count` values at once, 2 to 32 and a power of two, with few more shuffles than
 * for one, and over `lanes` neighboring lanes, a power of two from `count` on: lane l of them
 * gets value number l / (lanes / count) combined over them. `combine` takes a context. */
MlirValue moe__warp_reduce_many(moe__builder_t *b, int count, const MlirValue *values, int lanes,
                                MlirValue lane,
                                MlirValue (*combine)(moe__builder_t *, const void *context,
                                                     MlirValue, MlirValue),
                                const void *context);

/* stmatrix: stores four 8 x 8 matrices of 16-bit elements, of which each lane holds a pair (row
 * lane / 4, columns 2 * (lane % 4) and the next) a matrix. Lane l gives the shared address of row l
 * % 8 of matrix l / 8; transposed: of column l % 8, whose elements are stored side by side. */
void moe__store_matrix(moe__builder_t *b, MlirValue row_address, const MlirValue words[4],
                       bool transposed);

/* ldmatrix: the same four matrices the other way, none transposed. */
void moe__load_matrix(moe__builder_t *b, MlirValue row_address, MlirValue words[4]);

/* 16 bytes of global memory (an address of space 1, aligned to as many) as a vector of four i32,
 * where no other thread of the multiprocessor reads them: L1 does not keep them. Such loads keep
 * their order. */
MlirValue moe__load_once(moe__builder_t *b, MlirValue address);

/* mma.sync: d[16][8] = a[16][16] * b[16][8] + c, a and b of `element`, bf16 or f16, the others f32;
 * c NULL: 0. Registers of a and d are those of one warp of a wgmma (Wgmma.h); register i of b holds
 * k = 8 * i + 2 * (lane % 4) and the next, of column lane / 4: what ldmatrix gives where rows are
 * columns of b. */
void moe__mma_k16(moe__builder_t *b, MlirType element, const MlirValue a_words[4],
                  const MlirValue b_words[2], const MlirValue c[4], MlirValue d[4]);

#endif /* MOE_DEVICE_WARP_H */
