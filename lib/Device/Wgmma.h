/* Wgmma.h - the warpgroup matrix product of Hopper, on FP8 and on bf16 or f16.
 *
 * Operands in shared memory are tiles of 128-byte rows in the 128-byte swizzle, as the TMA leaves
 * them. Those of FP8 are K-major. Of 16 bits they may be MN-major too, and a may be a fragment.
 *
 * An accumulator is a fragment: thread t of the warpgroup holds, of the 64 x n result, rows
 * 16*(t/32) + (t%32)/4 and that + 8; register 4*j + i holds column 8*j + 2*(t%4) + i%2 of the first
 * row (i < 2) or the second. A fragment of a, 64 x 16, is four i32 of two elements, the lower k in
 * the lower half: register i holds k = 8*(i/2) + 2*(t%4) and the next of the first row (i even) or
 * the second.
 *
 * Kernels with a fragment of a need ptxas 13.3 (docs/toolchain.md); their manifests say so.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_DEVICE_WGMMA_H
#define MOE_DEVICE_WGMMA_H

#include "lib/Device/Fp8.h"
#include "lib/Device/Kernel.h"

#define MOE__WGMMA_M 64
#define MOE__WGMMA_MAX_N 256
#define MOE__WGMMA_A_REGISTERS 4

typedef struct moe__accumulator_t {
  int n;           /* columns; n / 2 registers a thread */
  MlirValue value; /* !llvm.struct of n / 2 f32 */
} moe__accumulator_t;

moe__accumulator_t moe__wgmma_zero(moe__builder_t *b, int n);

/* The descriptor of the tile that starts at `shared` (aligned to 1024). */
MlirValue moe__wgmma_descriptor(moe__builder_t *b, MlirValue shared);

/* The same in two steps: where the tile is (i32), and the descriptor of that. Of a whole descriptor
 * that a loop carries LLVM adds what is the same in all of them in each round of the loop. */
MlirValue moe__wgmma_place(moe__builder_t *b, MlirValue shared);
MlirValue moe__wgmma_descriptor_at(moe__builder_t *b, MlirValue place);

/* The same of an MN-major tile: a row holds 64 elements of one k, and `leading` bytes lie between
 * such blocks of rows, where n is more than 64. in_cluster: the kernel has clusters. */
MlirValue moe__wgmma_descriptor_mn(moe__builder_t *b, MlirValue shared, int leading,
                                   bool in_cluster);

/* The descriptor of what begins `bytes` later, a multiple of 16. The next 16 elements of 16 bits
 * along K are 32 bytes further in a K-major tile, 2048 in an MN-major one. */
MlirValue moe__wgmma_advance(moe__builder_t *b, MlirValue descriptor, int bytes);

/* Of `count` tiles of a, below one another, with one tile of b: accumulators[i] += a[i] * b^T over
 * the 128 bytes of K of a tile, in turn at each 32 bytes; fresh: accumulators[i] = a[i] * b^T.
 * Issued, not complete: between wgmma_fence and wgmma_commit. */
void moe__wgmma_k128_below(moe__builder_t *b, int count, moe__accumulator_t *accumulators,
                           bool fresh, const MlirValue *a_descriptors, MlirValue b_descriptor,
                           moe__fp8_t a_type, moe__fp8_t b_type);

/* The same of one tile of a, over 32 bytes of K: one instruction. */
moe__accumulator_t moe__wgmma_k32(moe__builder_t *b, moe__accumulator_t accumulator, bool fresh,
                                  MlirValue a_descriptor, MlirValue b_descriptor, moe__fp8_t a_type,
                                  moe__fp8_t b_type);

/* The same over some of the four times 32 bytes, at least one: those from number `begin` up to
 * `end` (i32; moe__warp_uniform). */
moe__accumulator_t moe__wgmma_steps(moe__builder_t *b, moe__accumulator_t accumulator, bool fresh,
                                    MlirValue a_descriptor, MlirValue b_descriptor,
                                    moe__fp8_t a_type, moe__fp8_t b_type, MlirValue begin,
                                    MlirValue end);

/* Operands of 16 bits: their elements, bf16 or f16, and which are MN-major. */
typedef struct moe__wgmma_halves_t {
  MlirType element;
  bool a_mn_major, b_mn_major;
} moe__wgmma_halves_t;

/* The same as moe__wgmma_k128_below and moe__wgmma_steps with such operands, over 64 of K, in steps
 * of 16. */
void moe__wgmma_k64_below(moe__builder_t *b, int count, moe__accumulator_t *accumulators,
                          bool fresh, const MlirValue *a_descriptors, MlirValue b_descriptor,
                          const moe__wgmma_halves_t *halves);
moe__accumulator_t moe__wgmma_half_steps(moe__builder_t *b, moe__accumulator_t accumulator,
                                         bool fresh, MlirValue a_descriptor, MlirValue b_descriptor,
                                         const moe__wgmma_halves_t *halves, MlirValue begin,
                                         MlirValue end);

/* The same over 16 of K with operands of `element`, bf16 or f16. One instruction. */
moe__accumulator_t moe__wgmma_k16(moe__builder_t *b, moe__accumulator_t accumulator, bool fresh,
                                  MlirValue a_descriptor, MlirValue b_descriptor, MlirType element,
                                  bool b_mn_major);

/* The same with a fragment of a. Until the wait that covers the product, its registers may not be
 * written: moe__wgmma_fence_through before the product keeps what makes them in front of it, and
 * moe__wgmma_wait_through behind it keeps LLVM from using them for something else. */
moe__accumulator_t moe__wgmma_k16_fragment(moe__builder_t *b, moe__accumulator_t accumulator,
                                           bool fresh, const MlirValue a[MOE__WGMMA_A_REGISTERS],
                                           MlirValue b_descriptor, MlirType element,
                                           bool b_mn_major);

/* The descriptor of an FP8 tile of 32-byte rows in the 32-byte swizzle (aligned to 256); and
 * accumulator += a * b^T over the 32 bytes of two of them, `times` times, which is 0 or 1 (i32;
 * moe__warp_uniform). */
MlirValue moe__wgmma_descriptor_k32(moe__builder_t *b, MlirValue shared);
moe__accumulator_t moe__wgmma_k32_times(moe__builder_t *b, moe__accumulator_t accumulator,
                                        MlirValue a_descriptor, MlirValue b_descriptor,
                                        moe__fp8_t a_type, moe__fp8_t b_type, MlirValue times);

void moe__wgmma_fence(moe__builder_t *b);

/* The same before a product into a cleared accumulator: whatever clears it stays in front of the
 * fence. */
moe__accumulator_t moe__wgmma_fence_fresh(moe__builder_t *b, moe__accumulator_t accumulator);
void moe__wgmma_commit(moe__builder_t *b);

/* Waits until at most `pending` groups are in flight. */
void moe__wgmma_wait(moe__builder_t *b, int pending);

/* A fence and a wait through which `count` accumulators pass, and `words` registers (i32) of
 * fragments of a: from there on the values are those that are stored to the arrays. At least two
 * registers. */
void moe__wgmma_fence_through(moe__builder_t *b, int count, moe__accumulator_t *accumulators,
                              int words, MlirValue *fragments);
void moe__wgmma_wait_through(moe__builder_t *b, int pending, int count,
                             moe__accumulator_t *accumulators, int words, MlirValue *fragments);

/* The registers of an accumulator whose product is complete or was never started, and back. */
void moe__accumulator_unpack(moe__builder_t *b, moe__accumulator_t accumulator,
                             MlirValue registers[MOE__WGMMA_MAX_N / 2]);
moe__accumulator_t moe__accumulator_pack(moe__builder_t *b, int n,
                                         const MlirValue registers[MOE__WGMMA_MAX_N / 2]);

/* Waits for all and gives the accumulator's registers, n / 2 values f32: only these may be read. */
void moe__wgmma_finish(moe__builder_t *b, moe__accumulator_t accumulator,
                       MlirValue registers[MOE__WGMMA_MAX_N / 2]);

/* setmaxnreg: moves registers between the warpgroups of a CTA. */
void moe__registers_decrease(moe__builder_t *b, int count);
void moe__registers_increase(moe__builder_t *b, int count);

#endif /* MOE_DEVICE_WGMMA_H */
