/* moe/reference.h - the numerics contract of moe-opt in plain C.
 *
 * Why it exists: every kernel, on a GPU or in an emulator, is compared with these functions bit for
 * bit; a matrix product, whose kernels sum in an order of their own, within a bound that is given
 * here too. They are written to be read; where speed and clarity disagree, clarity wins.
 * docs/numerics.md is the contract they implement.
 *
 * All functions are pure and thread-safe. Arithmetic is fp32, round to nearest even, subnormals
 * kept; the floating-point environment of the caller must be the default one. Pointers must not be
 * NULL, except where a comment says that they may be, and the data of a tensor without elements.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_REFERENCE_H
#define MOE_REFERENCE_H

#include "moe/export.h"
#include "moe/limits.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Element types: MOE_REF_F32, ... */
typedef enum moe_ref_dtype_t {
#define MOE_DTYPE(symbol, name, bits, dlpack, safetensors) MOE_REF_##symbol,
#include "moe/dtypes.def"
} moe_ref_dtype_t;

/* How an MX block's scale follows from its absolute maximum: MOE_REF_FLOOR, ... */
typedef enum moe_ref_mx_mode_t {
#define MOE_MX_MODE(symbol, name) MOE_REF_##symbol,
#include "moe/mx_modes.def"
} moe_ref_mx_mode_t;

/* Which elements of a tensor share an fp32 scale: MOE_REF_ROW, ... */
typedef enum moe_ref_fp8_granularity_t {
#define MOE_GRANULARITY(symbol, name) MOE_REF_##symbol,
#include "moe/fp8_granularities.def"
} moe_ref_fp8_granularity_t;

/* How a kernel sums the products of a matrix product: MOE_REF_FAST, MOE_REF_PROMOTED. */
typedef enum moe_ref_accumulation_t {
#define MOE_ACCUMULATION(symbol, name) MOE_REF_##symbol,
#include "moe/accumulations.def"
} moe_ref_accumulation_t;

/* What the bits of a weight stand for: MOE_REF_WEIGHT_I4, ... */
typedef enum moe_ref_weight_format_t {
#define MOE_WEIGHT_FORMAT(symbol, name) MOE_REF_WEIGHT_##symbol,
#include "moe/weight_formats.def"
} moe_ref_weight_format_t;

typedef enum moe_ref_status_t {
  MOE_REF_OK = 0,
  MOE_REF_INVALID_ARGUMENT, /* a dtype, shape, axis or block size it does not take */
  MOE_REF_OUT_OF_MEMORY,
} moe_ref_status_t;

#define MOE_REF_MAX_RANK 5

/* A borrowed view of a tensor in host memory. Strides are in elements and need not be compact. */
typedef struct moe_ref_tensor_t {
  void *data;
  moe_ref_dtype_t dtype;
  int rank;
  int64_t shape[MOE_REF_MAX_RANK];
  int64_t strides[MOE_REF_MAX_RANK];
} moe_ref_tensor_t;

/* ---- Number formats (OCP 8-bit floating point v1.0, OCP MX v1.0) ---- */

/* fp32 -> E4M3/E5M2, round to nearest even; finite values and Inf saturate to the largest finite
 * value with x's sign (PTX cvt.rn.satfinite); NaN gives 0x7F. */
MOE_API uint8_t moe_ref_e4m3_from_f32(float x);
MOE_API uint8_t moe_ref_e5m2_from_f32(float x);

/* E4M3/E5M2 -> fp32, exact. NaN patterns give a quiet NaN; E5M2 0x7C/0xFC give +-Inf. */
MOE_API float moe_ref_f32_from_e4m3(uint8_t byte);
MOE_API float moe_ref_f32_from_e5m2(uint8_t byte);

/* E8M0 -> fp32, exact: 2^(byte-127); byte 0 is the subnormal 2^-127, byte 255 is NaN. */
MOE_API float moe_ref_f32_from_e8m0(uint8_t byte);

/* bf16 bits -> fp32, exact. */
MOE_API float moe_ref_f32_from_bf16(uint16_t bits);

/* fp32 -> bf16 bits, round to nearest even; NaN gives 0x7FFF. */
MOE_API uint16_t moe_ref_bf16_from_f32(float x);

/* f16 (IEEE 754 binary16) bits -> fp32, exact. */
MOE_API float moe_ref_f32_from_f16(uint16_t bits);

/* fp32 -> f16 bits, round to nearest even; from 65520 on Inf; NaN gives 0x7FFF. */
MOE_API uint16_t moe_ref_f16_from_f32(float x);

/* ---- MX block scaling (OCP MX v1.0 section 6.3; RCEIL as in PyTorch's MoE training) ---- */

/* The E8M0 scale of an MX block whose largest magnitude is amax (>= 0, Inf or NaN). element is
 * MOE_REF_E4M3 or MOE_REF_E5M2. A NaN or Inf amax gives 255; so does another mode or element. */
MOE_API uint8_t moe_ref_mx_scale(float amax, moe_ref_mx_mode_t mode, moe_ref_dtype_t element);

/* The fp32 factor that elements are multiplied by: the value of E8M0 byte 254-scale; NaN for scale
 * 255. */
MOE_API float moe_ref_mx_reciprocal(uint8_t scale);

/* Quantizes x along axis in MX blocks of `block` consecutive elements.
 *   x      any rank 1..5; F32 or BF16
 *   q      the shape of x; E4M3 or E5M2; any strides
 *   scales the shape of x with dimension `axis` divided by block; E8M0; any strides
 * x.shape[axis] must be a multiple of block. Nothing is written when the status is not MOE_REF_OK.
 */
MOE_API moe_ref_status_t moe_ref_mx_quantize(const moe_ref_tensor_t *x, int axis, int64_t block,
                                             moe_ref_mx_mode_t mode, const moe_ref_tensor_t *q,
                                             const moe_ref_tensor_t *scales);

/* The inverse: x = q * 2^(scale-127), rounded once to x's type (F32 or BF16). Scale 255 gives NaN;
 * a product of 2^128 or more gives Inf. Shapes as for moe_ref_mx_quantize. */
MOE_API moe_ref_status_t moe_ref_mx_dequantize(const moe_ref_tensor_t *q,
                                               const moe_ref_tensor_t *scales, int axis,
                                               int64_t block, const moe_ref_tensor_t *x);

/* rounded = what dequantizing the quantized x gives, both BF16, of the same shape. element is
 * MOE_REF_E4M3 or MOE_REF_E5M2. With offs, I32 (E), blocks are of rows and counted from the start
 * of each group, as below; rows in no group are not written. Else offs is NULL. */
MOE_API moe_ref_status_t moe_ref_mx_round(const moe_ref_tensor_t *x, const moe_ref_tensor_t *offs,
                                          int axis, int64_t block, moe_ref_mx_mode_t mode,
                                          moe_ref_dtype_t element, const moe_ref_tensor_t *rounded);

/* Quantizes the columns of x (M,K) in MX blocks of `block` tokens, counted from the start of each
 * group, of which the last one of a group may be short. offs is I32 (E), see below.
 *   q      (m,K) with m at least M: rows behind the last group are not written
 *   scales (ceil(m / block) + E, K): those of group g stand from row ends[g-1] / block + g on, and
 *          rows in between are not written */
MOE_API moe_ref_status_t moe_ref_mx_quantize_groups(const moe_ref_tensor_t *x,
                                                    const moe_ref_tensor_t *offs, int64_t block,
                                                    moe_ref_mx_mode_t mode,
                                                    const moe_ref_tensor_t *q,
                                                    const moe_ref_tensor_t *scales);

/* The same where groups of q are aligned, see below. `block` divides MOE_GROUP_ALIGN.
 *   q      (m,K), m as by moe_ref_aligned_rows
 *   scales (m / block, K): those of the MX blocks of q; 0 for those of padding */
MOE_API moe_ref_status_t moe_ref_mx_quantize_aligned(const moe_ref_tensor_t *x,
                                                     const moe_ref_tensor_t *offs, int64_t block,
                                                     moe_ref_mx_mode_t mode,
                                                     const moe_ref_tensor_t *q,
                                                     const moe_ref_tensor_t *scales);

/* The inverse of moe_ref_mx_quantize_groups: x has the shape of q, F32 or BF16; rows in no group
 * are not written. */
MOE_API moe_ref_status_t moe_ref_mx_dequantize_groups(const moe_ref_tensor_t *q,
                                                      const moe_ref_tensor_t *scales,
                                                      const moe_ref_tensor_t *offs, int64_t block,
                                                      const moe_ref_tensor_t *x);

/* The inverse of moe_ref_mx_quantize_aligned: x has the shape of q, F32 or BF16, and its groups are
 * where they are in q; padding is +0, whatever q and scales are there. */
MOE_API moe_ref_status_t moe_ref_mx_dequantize_aligned(const moe_ref_tensor_t *q,
                                                       const moe_ref_tensor_t *scales,
                                                       const moe_ref_tensor_t *offs, int64_t block,
                                                       const moe_ref_tensor_t *x);

/* ---- Groups of tokens ---- */

/* offs (rank 1, I32; one for each of G groups) says where groups of the rows of a tensor end. Group
 * g is rows [ends[g-1], ends[g]), and ends follow from offs as kernels read it:
 *
 *   ends[g] = min(max(offs[g], ends[g-1]), rows)        ends[-1] = 0
 *
 * Rows from ends[G-1] on are in no group: they are not read, and those of a result are not written.
 */

/* The ends of all groups of `rows` rows into ends (as many as offs has). */
MOE_API moe_ref_status_t moe_ref_group_ends(const moe_ref_tensor_t *offs, int64_t rows,
                                            int64_t *ends);

/* Rows that are in groups: ends[G-1], 0 without groups; -1 where offs is not as above. */
MOE_API int64_t moe_ref_grouped_rows(const moe_ref_tensor_t *offs, int64_t rows);

/* The least multiple of `align` that is at least `size`; for sizes from 0 and aligns from 1 on,
 * where it fits 63 bits. */
MOE_API int64_t moe_ref_padded(int64_t size, int64_t align);

/* Groups of a tensor may be aligned to MOE_GROUP_ALIGN rows. Such a tensor has room for that many
 * more in each group, and group g, which begins with row `start` of all, begins there with row
 *
 *   MOE_GROUP_ALIGN * (start / MOE_GROUP_ALIGN + g)
 *
 * Behind its last row there is padding up to a multiple of MOE_GROUP_ALIGN: rows of zeros. Rows
 * behind that are no one's. */
MOE_API int64_t moe_ref_aligned_rows(int64_t rows, int64_t groups);
MOE_API int64_t moe_ref_aligned_start(int64_t start, int64_t group);

/* Rows of it that are written, for `rows` rows: those before the end of the last group that has any
 * and of its padding. -1 where offs is not as above. */
MOE_API int64_t moe_ref_aligned_end(const moe_ref_tensor_t *offs, int64_t rows);

/* Where groups end after each was padded to a multiple of `align` >= 1 rows, into padded (rank 1,
 * I32, as many as offs). MOE_REF_INVALID_ARGUMENT too where rows + G * align does not fit I32. */
MOE_API moe_ref_status_t moe_ref_pad_offsets(const moe_ref_tensor_t *offs, int64_t rows,
                                             int64_t align, const moe_ref_tensor_t *padded);

/* Moves each group of x's rows to a multiple of `align` rows.
 *   x         (M,K), any dtype; any strides
 *   padded    align * (ceil(M / align) + G) rows of K; x's dtype. Bits are copied as they are; the
 *             rows that end a group are zeros; rows from the last end of a group on are not written
 *   offs_padded  the ends of groups in it, as by moe_ref_pad_offsets */
MOE_API moe_ref_status_t moe_ref_pad_groups(const moe_ref_tensor_t *x, const moe_ref_tensor_t *offs,
                                            int64_t align, const moe_ref_tensor_t *padded,
                                            const moe_ref_tensor_t *offs_padded);

/* The inverse: row ends[g-1] + i of x is row ends_padded[g-1] + i of padded, for all rows of group
 * g. x has the shape of padded; both ends are of as many rows. A row that would come from behind
 * padded, for offsets that do not belong together, is zeros. */
MOE_API moe_ref_status_t moe_ref_unpad_groups(const moe_ref_tensor_t *padded,
                                              const moe_ref_tensor_t *offs,
                                              const moe_ref_tensor_t *offs_padded,
                                              const moe_ref_tensor_t *x);

/* ---- FP8 with fp32 scales ---- */

/* What is scaled together, and how.
 *
 *   granularity  x                 axis          offs  shape of scales
 *   row          (M,K)             1             no    (M)
 *   row          (M,K)             0             yes   (G,K)
 *   row          (E,N,K)           2             no    (E,N)
 *   row          (E,N,K)           1             no    (E,K)
 *   tensor       (M,K), (E,N,K)    last, or the  no    (1)
 *   expert       (E,N,K)           one before    no    (E)
 *   group        (M,K)                           yes   (G)
 *   1x128        (M,K)             1             no    (M, ceil(K/128))
 *   1x128        (M,K)             0             yes   (ceil(M/128) + G, K)
 *   1x128        (E,N,K)           2             no    (E, N, ceil(K/128))
 *   1x128        (E,N,K)           1             no    (E, ceil(N/128), K)
 *   128x128      (M,K)             last, or the  no    (ceil(M/128), ceil(K/128))
 *   128x128      (E,N,K)           one before    no    (E, ceil(N/128), ceil(K/128))
 *
 * The axis is the one that a product sums over; only for granularities row and 1x128 do scales
 * depend on it. Blocks of 1x128 along tokens are counted from the start of each group. Those of
 * group g, which begins at token t, have the rows of scales from t / 128 + g on; rows in between
 * are not written. */
typedef struct moe_ref_fp8_scaling_t {
  moe_ref_fp8_granularity_t granularity;
  int axis;
  const moe_ref_tensor_t *offs; /* groups of dimension 0, or NULL */
  bool pow2;                    /* factors are rounded down to a power of two */
  bool sanitize; /* x is read with 0 for NaN and +-(its type's largest finite number) for +-Inf */
  bool aligned;  /* groups of q are aligned, see above; with offs, along axis 0 */
} moe_ref_fp8_scaling_t;

/* Elements along `dimension` of x, which has this rank, that share a scale: 0 means all there are,
 * or all in a group, and the scales have no such dimension. */
MOE_API int64_t moe_ref_fp8_cell(moe_ref_fp8_granularity_t granularity, int axis, int rank,
                                 int dimension);

/* The shape of the scales of x, as in the table, into shape (of x's rank at least); returns their
 * rank, -1 where x is not scaled in this way. No tensor needs data. */
MOE_API int moe_ref_fp8_scale_shape(const moe_ref_tensor_t *x, const moe_ref_fp8_scaling_t *scaling,
                                    int64_t *shape);

/* What the elements of a slice are multiplied by. amax is the slice's largest magnitude (>= 0, Inf
 * or NaN; 0 for an empty slice), and MAX the largest finite number of `element` (MOE_REF_E4M3: 448,
 * MOE_REF_E5M2: 57344):
 *
 *   fp32(MAX / double(amax < 1e-12 ? 1e-12 : amax))      pow2: its mantissa cleared
 *
 * NaN gives NaN, Inf gives 0. */
MOE_API float moe_ref_fp8_factor(float amax, bool pow2, moe_ref_dtype_t element);

/* The first pass: the factor of each slice of x, and its reciprocal in fp32, the scale.
 *   x        F32 or BF16; any strides
 *   scales   F32, of the shape above; any strides
 *   factors  the same
 * Nothing is written when the status is not MOE_REF_OK. */
MOE_API moe_ref_status_t moe_ref_fp8_scale(const moe_ref_tensor_t *x,
                                           const moe_ref_fp8_scaling_t *scaling,
                                           moe_ref_dtype_t element, const moe_ref_tensor_t *scales,
                                           const moe_ref_tensor_t *factors);

/* The second pass: q = cast(x * factor), one fp32 multiplication and a cast that saturates.
 *   factors  F32, of the shape of scales; scaling->pow2 does not matter
 *   q        the shape of x, where groups are aligned of moe_ref_aligned_rows; E4M3 or E5M2; any
 *            strides */
MOE_API moe_ref_status_t moe_ref_fp8_cast(const moe_ref_tensor_t *x,
                                          const moe_ref_tensor_t *factors,
                                          const moe_ref_fp8_scaling_t *scaling,
                                          const moe_ref_tensor_t *q);

/* Both passes. */
MOE_API moe_ref_status_t moe_ref_fp8_quantize(const moe_ref_tensor_t *x,
                                              const moe_ref_fp8_scaling_t *scaling,
                                              const moe_ref_tensor_t *q,
                                              const moe_ref_tensor_t *scales);

/* The inverse: x = cast(q * scale), one fp32 multiplication. Of the scaling only granularity, axis
 * and offs matter; groups are not aligned. */
MOE_API moe_ref_status_t moe_ref_fp8_dequantize(const moe_ref_tensor_t *q,
                                                const moe_ref_tensor_t *scales,
                                                const moe_ref_fp8_scaling_t *scaling,
                                                const moe_ref_tensor_t *x);

/* Brings rows into the range of f16.
 *   x       (M,K), BF16
 *   q       (M,K), F16: x / scales, rounded once; what is 2^-29 of its row's greatest magnitude or
 *           more is exact
 *   scales  (M), F32: 2^(e - 15), 2^e the greatest power of two up to the greatest magnitude of the
 *           row, at least 2^-111; 2^127 where it has Inf or NaN */
MOE_API moe_ref_status_t moe_ref_quantize_f16(const moe_ref_tensor_t *x, const moe_ref_tensor_t *q,
                                              const moe_ref_tensor_t *scales);

/* Dequantizes rows of MX blocks to the range of f16.
 *   q         (M,K), E4M3
 *   scales    (M,K/32), E8M0
 *   x         (M,K), F16: q * scales / scales_x, rounded once; with scales that are 2^-22 of the
 *             row's greatest or more it is exact; NaN where q or its scale is
 *   scales_x  (M), F32: 2^(e - 7), 2^e the greatest of the row's scales that is no NaN, at least
 *             2^-119 */
MOE_API moe_ref_status_t moe_ref_dequantize_f16(const moe_ref_tensor_t *q,
                                                const moe_ref_tensor_t *scales,
                                                const moe_ref_tensor_t *x,
                                                const moe_ref_tensor_t *scales_x);

/* ---- The layout of scales of MX blocks ---- */

/* Rows and columns of a packed tile. */
enum { MOE_REF_PACKED_ROWS = MOE_PACKED_ROWS, MOE_REF_PACKED_COLUMNS = MOE_PACKED_COLUMNS };

/* Packs the scales of an MX product, E8M0, as tensor cores read them (layout "128x4": PTX ISA,
 * tcgen05.mma with block scaling; cuBLAS, "1D block scaling factors layout").
 *   scales  (R,C); any strides
 *   offs    groups of its rows, each of which begins with a tile of its own, or NULL
 *   packed  (Rp,Cp): Cp = 4 ceil(C/4); Rp = 128 ceil(R/128), with offs 128 (ceil(R/128) + G)
 *
 * Counted row-major, byte ((i * Cp/4) + j) * 512 + (r % 32) * 16 + (r / 32) * 4 + c of packed is
 * the scale in row r and column c of tile (i, j). Bytes of no scale are 0, so are tiles behind
 * the last group. */
MOE_API moe_ref_status_t moe_ref_pack_scales(const moe_ref_tensor_t *scales,
                                             const moe_ref_tensor_t *offs,
                                             const moe_ref_tensor_t *packed);

/* Copies fp32 scales (R,C) into packed, of the same shape and its own strides: layout
 * "rows_innermost". */
MOE_API moe_ref_status_t moe_ref_swap_scales(const moe_ref_tensor_t *scales,
                                             const moe_ref_tensor_t *packed);

/* ---- Products of quantized matrices, in groups of tokens ---- */

/* The operands and the result of a scaled product. a and b are E4M3 or E5M2, each its own; sa
 * and sb are F32, but see below; offs is I32; out is F32, BF16 or F16, and so is bias, which may
 * be NULL. Which of three cases it is follows from the ranks of a and b:
 *
 *   case     a        b        sa           sb           offs   out      bias
 *   rows     (M,K)    (E,K,N)  (M) or (1)   (E,N) or (E) (E)    (M,N)    (E,N)
 *   depth    (N,M)    (M,K)    (E,N) or (E) (E,K) or (E) (E)    (E,N,K)  NULL
 *   batched  (E,M,K)  (E,K,N)  (E,M) or (E) (E,N) or (E) NULL   (E,M,N)  (E,N)
 *
 * Group g is rows of a and of out, or in the depth case a piece of the sum. A scale is that of a
 * row or a column, or the one of all. Strides are any. Groups are of the M tokens; in the rows
 * case rows of out that are in no group are not written.
 *
 * Or scales are of blocks of 128, the last of which may be short, with k = ceil(K / 128) and
 * n = ceil(N / 128): sa (M,k) and sb (E,k,n) of rows, sa (E,M,k) and sb (E,k,n) batched. In depth,
 * if token_blocks says so, blocks are of tokens and counted from the start of each group: sa
 * (ceil(M / 128) + E, N) and sb (ceil(M / 128) + E, K), where those of group g stand from row
 * ends[g-1] / 128 + g on.
 *
 * Or sa and sb are E8M0, scales of MX blocks of 32, with k = K / 32: sa (M,k) and sb (E,k,N) of
 * rows, sa (E,M,k) and sb (E,k,N) batched; in depth as with token_blocks, with blocks of 32.
 *
 * Or a and b are both BF16 or both F16, and sa and sb are NULL: all scales are 1.
 *
 * In depth, if `aligned` says so, groups are aligned in a and b, as above: M is a multiple of 128,
 * and offsets are clamped to M - 128 E, but at least to 0. Block j of scales is that of tokens
 * 128 j, or 32 j, on: there are M / 128, or M / 32, of them. What lies between groups is not
 * read. */
typedef struct moe_ref_scaled_mm_t {
  const moe_ref_tensor_t *a, *b;
  const moe_ref_tensor_t *sa, *sb; /* NULL: of 16 bits */
  const moe_ref_tensor_t *offs;    /* NULL: batched */
  const moe_ref_tensor_t *out;
  const moe_ref_tensor_t *bias; /* added to each row of a group; NULL: none */
  bool token_blocks;            /* in depth: scales are of blocks of 128 tokens */
  bool aligned;                 /* in depth: groups begin at multiples of 128 tokens */
} moe_ref_scaled_mm_t;

/* Rows of out, over all groups: M, E*N or E*M. Callers share the work by them. -1 where the tensors
 * do not belong together, and every function below gives MOE_REF_INVALID_ARGUMENT. */
MOE_API int64_t moe_ref_scaled_mm_rows(const moe_ref_scaled_mm_t *mm);

/* Tokens that are in groups: ends[E-1], or E*M where batched; -1 as above. Looks at no data but
 * that of offs: the others may be NULL. */
MOE_API int64_t moe_ref_scaled_mm_tokens(const moe_ref_scaled_mm_t *mm);

/* Products and additions, two for each pair of elements that meet; -1 as above. No data is needed
 * either. */
MOE_API double moe_ref_scaled_mm_flops(const moe_ref_scaled_mm_t *mm);

/* Computes rows [begin, end) of out, which are in [0, moe_ref_scaled_mm_rows]:
 *
 *   out = cast(sb * (sa * acc) + bias)    fp32, each product and the sum rounded
 *
 * where acc is the exact sum, rounded once, whatever way a kernel accumulates. An empty sum is +0,
 * whatever its scales are. With scales of blocks
 *
 *   out = cast(sum over j of (sa_j * sb_j) * acc_j + bias)
 *
 * acc_j is the exact sum over block j, rounded once; sa_j * sb_j is rounded; the first term is
 * a product, rounded, and each other one is added by one fma, in order of j. With scales of MX
 * blocks
 *
 *   out = cast(sum over j of sa_j * (sb_j * acc_j) + bias)
 *
 * sb_j * acc_j is rounded; the terms are added to +0, each by one fma, in order of j. */
MOE_API moe_ref_status_t moe_ref_scaled_mm(const moe_ref_scaled_mm_t *mm, int64_t begin,
                                           int64_t end);

/* For each element of rows [begin, end), row-major into (end - begin) * N (depth: * K) doubles: the
 * result before the cast, without rounding, and how far from it a kernel's result may lie. Rows
 * that are in no group are not written. With p the products that an element sums, R the exact
 * result and u the unit roundoff of out's type (2^-24, 2^-8 for BF16, 2^-11 for F16):
 *
 *   fast      D = |sb sa| 2^-10 sum |p|
 *   promoted  D = |sb sa| (2^-10 sqrt(sum over pieces of 128 of (sum |p|)^2)
 *                          + pieces 2^-24 sum |p|)
 *   bound     D + (|R| + D) (u + 2^-22) + half of out's least subnormal + 2^-149 (1 + |sb|)
 *             and, with a bias, 2^-22 |R - bias|
 *
 * With operands of 16 bits D = (2^-19 + ceil(K / 16) 2^-23) sum |p|, whatever `accumulation` is.
 * With scales of blocks each product p has its scales in it, |sb sa| is left out, pieces are one
 * more, and (1 + |sb|) is the number of pieces + sum |p| without scales. The pieces are the blocks.
 *
 * docs/numerics.md says where the constants come from. Where the fp32 value that is cast is Inf or
 * NaN, it is the exact result, and the bound is 0. */
MOE_API moe_ref_status_t moe_ref_scaled_mm_exact(const moe_ref_scaled_mm_t *mm,
                                                 moe_ref_accumulation_t accumulation, int64_t begin,
                                                 int64_t end, double *exact, double *bound);

/* How a kernel's result compares with the exact one. All zeros before the first part of it. */
typedef struct moe_ref_score_t {
  int64_t elements, failures; /* judged; beyond their bounds */
  double worst;               /* the largest error, in bounds; Inf for NaN where none belongs */
  int64_t row, column;        /* of the worst element; rows counted as by moe_ref_scaled_mm_rows */
  double exact, bound;        /* of it */
  double signal, noise;       /* sums of squares of the exact results and of the errors */
} moe_ref_score_t;

/* Judges rows [begin, end) of mm->out, which a kernel wrote, and adds them to the score. An element
 * fails if it is further from the exact result than its bound. Inf and NaN must meet their like;
 * but Inf is right too where the exact result, with its bound, reaches past out's largest number.
 */
MOE_API moe_ref_status_t moe_ref_scaled_mm_judge(const moe_ref_scaled_mm_t *mm,
                                                 moe_ref_accumulation_t accumulation, int64_t begin,
                                                 int64_t end, moe_ref_score_t *score);

/* What quantizing cost: compares rows [begin, end) of mm->out, which a kernel wrote, with the
 * product of a and b, of which mm's operands are quantizations: F32 or BF16, of their shapes,
 * any strides. Sums are exact. Adds elements, signal and noise to the score; there is no bound
 * to fail. */
MOE_API moe_ref_status_t moe_ref_scaled_mm_quality(const moe_ref_scaled_mm_t *mm,
                                                   const moe_ref_tensor_t *a,
                                                   const moe_ref_tensor_t *b, int64_t begin,
                                                   int64_t end, moe_ref_score_t *score);

/* Adds a part of the same result to `total`. The order of parts decides the last bits of the sums
 * of squares, and which of equally bad elements is kept. */
MOE_API void moe_ref_score_add(moe_ref_score_t *total, const moe_ref_score_t *part);

/* The signal-to-quantization-noise ratio, 20 log10(|exact| / |exact - found|), in dB; Inf where
 * nothing differs. */
MOE_API double moe_ref_score_sqnr(const moe_ref_score_t *score);

/* ---- Weights of four or eight bits ---- */

/* What the lowest bits of `bits` stand for, as many as the format has, exact. */
MOE_API double moe_ref_weight_value(moe_ref_weight_format_t format, int bits);

/* The orders of packed weights: "16x64" of integers, "16x64_e2m1" of E2M1 values. */
typedef enum moe_ref_weight_layout_t {
  MOE_REF_LAYOUT_16X64,
  MOE_REF_LAYOUT_16X64_E2M1
} moe_ref_weight_layout_t;

/* Brings four-bit weights into a layout.
 *   w       (N,K/2) or (E,N,K/2), U8: two columns to a byte, the first in its lower half; N a
 *           multiple of 16
 *   packed  (N/16,k,512) or (E,N/16,k,512), U8, k = ceil(K / 64)
 *
 * A tile of 16 rows and 64 columns is 512 bytes: lane l of a warp has 16 of them, byte 16 l on.
 * Word w of these, little-endian, has the lane's columns 16 w + c: nibble i (i < 4) is row
 * l / 4 + 8 (i % 2), c = 2 (l % 4) + 8 (i / 2), and nibble i + 4 is the column behind it. Columns
 * from K on are zero bits. With "16x64_e2m1" the four bits of nibble i stand elsewhere in the word,
 * the lowest first: of i = 0 at 6, 7, 8, 15, of 1 at 2, 3, 4, 11, of 2 at 28, 29, 30, 5, of 3 at 0,
 * 1, 10, 9; those of nibble i + 4 are 16 places further, past 31 from 0 on. */
MOE_API moe_ref_status_t moe_ref_pack_weights(const moe_ref_tensor_t *w,
                                              const moe_ref_tensor_t *packed,
                                              moe_ref_weight_layout_t layout);

/* The operands and the result of a product of tokens with weights of four or eight bits.
 *   w       as moe_ref_pack_weights takes it, or as it writes it in the format's layout. FP8:
 *           (N,K) or (E,N,K), E4M3, K a multiple of 32; in the layout "1x16" the columns of each 16
 *           are in the order 0, 8, 1, 9, 2, 10 ... 7, 15
 *   scales  (N,K/g) or (E,N,K/g), BF16, F16, F32 or E8M0; (N,1) or (E,N,1) where group_size is -1
 *   zeros   as scales, U8, of which the lowest four bits count: zero points; NULL: none
 *   bias    (N) or (E,N), of out's dtype: what is added to each result; NULL: nothing
 *   x       (M,K), BF16 or F16; K a multiple of 32
 *   scales_x  (M), F32: what each token's sums are multiplied by
 *   offs    (E), I32: the ends of the experts' tokens; NULL where there are no experts
 *   out     (M,N), BF16, F16 or F32
 * Strides are any but for offs, whose first one counts. */
typedef struct moe_ref_mixed_mm_t {
  const moe_ref_tensor_t *w, *scales, *x;
  const moe_ref_tensor_t *offs; /* NULL: no experts */
  const moe_ref_tensor_t *out;
  const moe_ref_tensor_t *zeros, *bias; /* NULL: none */
  const moe_ref_tensor_t *scales_x;     /* NULL: all are 1 */
  moe_ref_weight_format_t format;
  int64_t group_size; /* g; -1: K */
  bool is_1x16;       /* FP8 weights are in that layout; of the others the rank says it */
} moe_ref_mixed_mm_t;

/* Tokens that are in groups, or all; products and additions, two for each pair of elements that
 * meet. -1 where the tensors do not belong together. No data is needed but that of offs. */
MOE_API int64_t moe_ref_mixed_mm_tokens(const moe_ref_mixed_mm_t *mm);
MOE_API double moe_ref_mixed_mm_flops(const moe_ref_mixed_mm_t *mm);

/* Computes rows [begin, end) of out, of those that are in a group:
 *
 *   out[m,n] = cast(scales_x[m] * sum over j of scales[n,j] * dot_j  + bias[n])     fp32, each term
 *                                                                     of the sum added by one fma
 *
 * where dot_j is the sum over the columns of group j of (w[n,k] - zeros[n,j]) x[m,k], in doubles,
 * rounded to fp32. With BF16 tokens scales of FP8 weights beyond 2^37 count as NaN, and those of
 * E2M1 weights beyond 2^31 may where they are E8M0 and x is bf16: the judge takes NaN for such a
 * result, too. */
MOE_API moe_ref_status_t moe_ref_mixed_mm(const moe_ref_mixed_mm_t *mm, int64_t begin, int64_t end);

/* Judges rows [begin, end) of mm->out, which a kernel wrote, and adds them to the score, as
 * moe_ref_scaled_mm_judge does. With p the products that an element sums, scales in them, R the
 * exact result, u the unit roundoff of out's type and P = 1 + K / min(g, 128):
 *
 *   D      = (2^-19 + P 2^-24) sum |p| + 2^-149 (P + sum |p| without scales) + L
 *   bound    D + (|R| + D) (u + 2^-22) + half of out's least subnormal
 *
 * L is 0 but for FP8 weights and such E2M1 ones with BF16 tokens, which times their scales are
 * numbers of bf16 over 2^30, so that those below 2^-100 are rounded, and products of all are in
 * fp32: 2^-104 sum |x| over the former, and 2^-119 K. With F16 tokens FP8 weights, and I4 and
 * UINT4B8 weights with BF16 scales, may be numbers of f16 times their scales, over a power of two
 * for each row. With 2^e the greatest power of two up to the greatest finite magnitude of the row's
 * scales, nonzero integers times scales count as 2^(e - 23) in D where they are less, FP8 weights
 * as 2^(e - 18). L is 2^(e - 34) sum max(1, |w|) |x| over nonzero integers whose scale is not 0 and
 * below 2^(e - 26), and of FP8 weights 2^(e - 29) times that, over those below 2^(e - 19).
 *
 * With scales_x D is multiplied by |scales_x[m]|, and 2^-23 |R| + 2^-149 are added. */
MOE_API moe_ref_status_t moe_ref_mixed_mm_judge(const moe_ref_mixed_mm_t *mm, int64_t begin,
                                                int64_t end, moe_ref_score_t *score);

/* ---- Names ---- */

/* The dtype, mode, granularity, accumulation or format of this name, -1 if there is none. */
MOE_API int moe_ref_dtype_from_name(const char *name);
MOE_API int moe_ref_mx_mode_from_name(const char *name);
MOE_API int moe_ref_fp8_granularity_from_name(const char *name);
MOE_API int moe_ref_accumulation_from_name(const char *name);
MOE_API int moe_ref_weight_format_from_name(const char *name);

/* Bits of one element of dtype. */
MOE_API int moe_ref_dtype_bits(moe_ref_dtype_t dtype);

#ifdef __cplusplus
}
#endif

#endif /* MOE_REFERENCE_H */
