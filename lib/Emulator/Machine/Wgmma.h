/* Wgmma.h - the warpgroup-wide matrix product: D(64 x N) (+)= A(64 x K) * B(K x N).
 *
 * Why it exists: wgmma reads its operands from shared memory through 64-bit descriptors, in layouts
 * that are made of 8-row pieces of 16-byte chunks. Which address holds which element, which
 * register of which thread holds which element of D, and what the product is, is all fixed by the
 * instruction; it is here, free of any machine state.
 *
 * How a machine executes one instruction:
 *   shape    moe__emu_wgmma_shape_check, once when the instruction is decoded
 *   operands for each of A and B: moe__emu_wgmma_descriptor, then for every chunk
 * moe__emu_wgmma_chunk_address (where the machine checks and reads 16 bytes) and
 * moe__emu_wgmma_unpack_chunk; or, for A in registers, moe__emu_wgmma_unpack_registers per thread
 *   product  moe__emu_wgmma_multiply
 *   result   moe__emu_wgmma_d_element tells which element of D a register holds
 *
 * Matrices between these steps are plain fp32 arrays: a[64][k] and b[k][n].
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_EMULATOR_MACHINE_WGMMA_H
#define MOE_EMULATOR_MACHINE_WGMMA_H

#include "lib/Emulator/Machine/Swizzle.h"
#include "lib/Emulator/Ptx/Error.h"

#include <stdbool.h>
#include <stdint.h>

enum {
  MOE__EMU_WGMMA_M = 64,
  MOE__EMU_WGMMA_MAX_N = 256,
  MOE__EMU_WGMMA_K_BYTES = 32, /* every instruction takes 32 bytes of K */
  MOE__EMU_WGMMA_MAX_K = 32,
  MOE__EMU_WGMMA_THREADS = 128,
  MOE__EMU_WGMMA_A_REGISTERS = 4, /* 32-bit registers per thread that hold A */
};

/* X(constant, name in PTX, bits) */
#define MOE__EMU_WGMMA_TYPES(X)                                                                    \
  X(MOE__EMU_WGMMA_E4M3, "e4m3", 8)                                                                \
  X(MOE__EMU_WGMMA_E5M2, "e5m2", 8)                                                                \
  X(MOE__EMU_WGMMA_BF16, "bf16", 16)                                                               \
  X(MOE__EMU_WGMMA_F16, "f16", 16)

typedef enum moe__emu_wgmma_type_t {
#define MOE__EMU_WGMMA_TYPE(constant, name, bits) constant,
  MOE__EMU_WGMMA_TYPES(MOE__EMU_WGMMA_TYPE)
#undef MOE__EMU_WGMMA_TYPE
} moe__emu_wgmma_type_t;

/* An instruction's fixed part: wgmma.mma_async.sync.aligned.m64nNkK.f32.<a>.<b>. D is always fp32.
 */
typedef struct moe__emu_wgmma_shape_t {
  moe__emu_wgmma_type_t a, b;
  int n, k;
  bool a_mn_major, b_mn_major; /* the immediates imm-trans-a and imm-trans-b; false is K-major */
} moe__emu_wgmma_shape_t;

/* Checks the combination: n a multiple of 8 in 8..256, k as the types want, types that go together
 * (two 8-bit floats mix, 16-bit ones do not), MN-major for 16-bit types only. */
bool moe__emu_wgmma_shape_check(const moe__emu_wgmma_shape_t *shape, moe__emu_error_t *error);

/* ---- Operands in shared memory ---- */

typedef struct moe__emu_wgmma_operand_t {
  moe__emu_wgmma_type_t type;
  bool mn_major;
  int rows;       /* 64 for A, n for B */
  int k;          /* elements */
  uint32_t start; /* bytes, multiples of 16 as the next two */
  uint32_t leading, stride;
  moe__emu_swizzle_t swizzle;
} moe__emu_wgmma_operand_t;

/* Decodes the descriptor of A or B.
 *   bits   0-13  start address / 16         bits  49-51  base offset
 *   bits  16-29  leading byte offset / 16   bits  62-63  0 no swizzle, 1 128B, 2 64B, 3 32B
 *   bits  32-45  stride byte offset / 16    the others are zero
 * The error names the field. A base offset other than 0 (a pattern that does not start at a
 * multiple of its period) is refused: it is not modeled. */
bool moe__emu_wgmma_descriptor(const moe__emu_wgmma_shape_t *shape, bool is_b, uint64_t descriptor,
                               moe__emu_wgmma_operand_t *out_operand, moe__emu_error_t *error);

/* The number of 16-byte chunks in the operand: rows * 2. A chunk is 16 bytes along K (K-major) or
 * along the rows (MN-major). */
int moe__emu_wgmma_chunk_count(const moe__emu_wgmma_operand_t *operand);

/* The shared-memory address of chunk 0 <= chunk < count, swizzled; a multiple of 16. It may lie
 * past the end of shared memory: the machine checks that. */
uint32_t moe__emu_wgmma_chunk_address(const moe__emu_wgmma_operand_t *operand, int chunk);

/* Puts the elements of a chunk into their places: a[row * k + kk] for A, b[kk * n + row] for B. */
void moe__emu_wgmma_unpack_chunk(const moe__emu_wgmma_operand_t *operand, bool is_b, int chunk,
                                 const uint8_t bytes[MOE__EMU_CHUNK], float *matrix);

/* ---- Operands and results in registers ---- */

/* The first row that a thread holds. A warp holds 16 rows; four lanes share a row, and a second
 * register pair holds the row 8 below. */
static inline int moe__emu_wgmma_first_row(int thread) {
  return thread / 32 * 16 + thread % 32 / 4;
}

/* Which element of A the piece `part` (0..3 of 8-bit types, 0..1 of 16-bit types, lowest bits
 * first) of A's register `index` (0..3) of thread `thread` (0..127) holds. */
void moe__emu_wgmma_a_element(moe__emu_wgmma_type_t type, int thread, int index, int part,
                              int *out_row, int *out_k);

/* Puts a thread's four registers of A into a[64][k]. */
void moe__emu_wgmma_unpack_registers(moe__emu_wgmma_type_t type, int thread,
                                     const uint32_t registers[MOE__EMU_WGMMA_A_REGISTERS],
                                     float *a);

/* Which element of D register `index`, 0 to n / 2 - 1, of thread `thread` holds. */
static inline void moe__emu_wgmma_d_element(int thread, int index, int *out_row, int *out_column) {
  *out_row = moe__emu_wgmma_first_row(thread) + index / 2 % 2 * 8;
  *out_column = index / 4 * 8 + thread % 4 * 2 + index % 2;
}

/* ---- The product ---- */

/* d[rows][n] = (accumulate ? d : 0) + scale_a * scale_b * (a * b), with no more than 64 rows; the
 * scales are the instruction's immediates, 1 or -1.
 *
 * With bf16 and f16 the sum is the one that an H200 gives, in every bit (test/Emulator/golden):
 *   - d and the k products are exact; a product's exponent is the sum of its factors' exponents,
 *     that of a subnormal number the least normal one of its type, and zeros have none;
 *   - each is cut toward zero to 25 bits below the largest exponent among them, and what is left is
 *     added up exactly;
 *   - the sum is cut toward zero to fp32, 24 significant bits; it is never -0.
 * With 8-bit types it is exact and rounded once, so that tests see errors of a kernel which the
 * hardware, that keeps 13 and 14 bits, hides. A NaN result is 0x7FFFFFFF. */
void moe__emu_wgmma_multiply(const moe__emu_wgmma_shape_t *shape, int rows, const float *a,
                             const float *b, bool accumulate, int scale_a, int scale_b, float *d);

#endif /* MOE_EMULATOR_MACHINE_WGMMA_H */
