/* GemmOracle.h - grouped products a second time: one element after the other, in integers.
 *
 * Why it exists: the reference decodes in tiles and sums in doubles; this oracle does neither. It
 * can also be wrong on purpose, in the ways in which kernels are wrong, and can sum like a tensor
 * core.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_TEST_REFERENCE_GEMM_ORACLE_H
#define MOE_TEST_REFERENCE_GEMM_ORACLE_H

#include "test/Reference/Buffers.h"

typedef enum { ROWS_CASE, DEPTH_CASE, BATCHED_CASE } gemm_case_t;

/* Which scales there are: one for each row and column, or one for all, of a or of both. */
typedef enum { SCALES_EACH, SCALE_A_SHARED, SCALES_SHARED, SCALINGS } gemm_scaling_t;

/* The sizes are those of the header's table; tokens is M in all cases, and batched has none
 * in common. */
typedef struct {
  gemm_case_t which;
  int64_t e, m, n, k;
  moe_ref_dtype_t a, b, out;
  const int32_t *offs; /* e of them; NULL: batched */
  int turn;            /* picks memory orders */
  gemm_scaling_t scaling;
  bool in_blocks; /* instead: scales of 1x128 and 128x128, of DEPTH_CASE 1x128 */
  bool in_mx;     /* besides: those of MX blocks; K is a multiple of 32 */
  bool aligned;   /* of DEPTH_CASE: groups begin at multiples of 128 tokens; M is a multiple */
  bool biased;
  uint64_t seed;
} gemm_spec_t;

/* A product: its tensors in buffers, in which everything that must not be read is NaN. */
typedef struct {
  gemm_spec_t spec;
  buffer_t a, b, sa, sb, offs, out, bias;
  moe_ref_scaled_mm_t mm;
  int64_t units_a[256], units_b[256]; /* what bytes of a and b are worth, in 2^-16 */
} gemm_t;

/* Allocates and fills in place, for mm points into it. Operands are finite, of all exponents where
 * `wide`, else nearly normal; scales are positive. */
void gemm_make(gemm_t *x, const gemm_spec_t *spec, bool wide);
void gemm_free(gemm_t *x);

/* Ways to compute. The first is right. */
typedef enum {
  EXACT,
  TENSOR_CORE_FAST,     /* a model of Hopper's: 13 bits below the leading one, cut */
  TENSOR_CORE_PROMOTED, /* the same over 128 of the sum, fp32 beyond */
  SCALES_IGNORED,
  SCALE_A_IGNORED,
  SCALE_B_IGNORED,
  BIAS_IGNORED,
  BIAS_SCALED, /* added before the scales */
  EXPERTS_SWAPPED,
  TAIL_DROPPED, /* the last few products of each sum */
  LAST_GROUP_SKIPPED,
  ROWS_OFF_BY_ONE,
  ALL_ZEROS,
  WAYS,
  /* With scales of blocks. */
  FIRST_BLOCK_OF_K = WAYS, /* its scales for all of them */
  FIRST_BLOCK_OF_N,
  BLOCK_WAYS,
} gemm_way_t;

/* Writes x->out, the rows of groups only. */
void oracle_gemm(gemm_t *x, gemm_way_t way);

/* The end of group g, from the definition in the header. */
int64_t oracle_group_end(const gemm_spec_t *spec, int64_t g);

/* The exact sum of |a b| of one element, and the sum itself; over one block of 128, and the product
 * of its scales. */
void oracle_sums(const gemm_t *x, int64_t g, int64_t i, int64_t j, double *sum, double *magnitude);
void oracle_block_sums(const gemm_t *x, int64_t g, int64_t i, int64_t j, int64_t block, double *sum,
                       double *magnitude, double *scale);

#endif /* MOE_TEST_REFERENCE_GEMM_ORACLE_H */
