/* moe/limits.h - the sizes that the ops are defined with, for the compiler, the runtime, the
 * reference and the tools.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_LIMITS_H
#define MOE_LIMITS_H

/* Elements of an MX block: they share one E8M0 scale. */
#define MOE_MX_BLOCK 32

/* Elements of a side of an FP8 block: granularities 1x128 and 128x128. */
#define MOE_FP8_BLOCK 128

/* Rows and columns of a tile of scales in the layout "128x4": its bytes are consecutive. */
#define MOE_PACKED_ROWS 128
#define MOE_PACKED_COLUMNS 4

/* Rows and columns of a tile of four-bit weights in the layout "16x64", and its bytes, which are
 * consecutive. */
#define MOE_WEIGHT_ROWS 16
#define MOE_WEIGHT_COLUMNS 64
#define MOE_WEIGHT_BYTES 512

/* Rows of an operand that a product which makes its operands from MX blocks takes together. */
#define MOE_PANEL_ROWS 256

/* The size of a dimension, of a tensor or of what the TMA takes it for: kernels give places as
 * signed 32-bit integers. */
#define MOE_MAX_DIMENSION 2147483647

/* Groups, or experts, of an op. Kernels keep a table of them in shared memory. */
#define MOE_MAX_GROUPS 1024

/* Rows that groups may be padded to a multiple of. */
#define MOE_MAX_ALIGN 4096

/* Of tokens that were quantized along their dimension, a tensor in groups, there is room for a
 * multiple of this: its rows in memory, of a byte for each token, are whole lines of L2. */
#define MOE_TOKEN_MULTIPLE 128

/* Tokens that groups begin at a multiple of, in tensors of ops whose attribute `align` says so. */
#define MOE_GROUP_ALIGN 128

/* What a manifest holds at most: kernels and functions; of a function sizes that are not static,
 * and tensors, temporaries among them; operations inside each other, of an expression. */
#define MOE_MAX_KERNELS 1024
#define MOE_MAX_FUNCTIONS 1024
#define MOE_MAX_SYMBOLS 64
#define MOE_MAX_TENSORS 256
#define MOE_MAX_DEPTH 8

/* Threads that the emulator may be given. */
#define MOE_MAX_EMULATOR_THREADS 1024

/* A multiprocessor of sm_90: bytes of shared memory (228 KiB), those of them that it reserves for
 * each CTA, and what is left where one CTA has all; registers; threads. Its warps are dealt out to
 * quarters, each with a fourth of the registers. */
#define MOE_SM_SHARED_MEMORY 233472
#define MOE_SM_SHARED_RESERVED 1024
#define MOE_CTA_SHARED_MEMORY (MOE_SM_SHARED_MEMORY - MOE_SM_SHARED_RESERVED)
#define MOE_SM_REGISTERS 65536
#define MOE_SM_THREADS 2048
#define MOE_SM_QUARTERS 4

#endif /* MOE_LIMITS_H */
