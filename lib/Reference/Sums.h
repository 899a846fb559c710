/* Sums.h - sums of products, exactly: what computing and judging a scaled product have in common.
 *
 * Why it exists: a result is judged against the same sums that the reference rounds, and their
 * magnitudes are summed by the same loops.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_LIB_REFERENCE_SUMS_H
#define MOE_LIB_REFERENCE_SUMS_H

#include "moe/reference.h"

#include <stdbool.h>

enum {
  MOE__REF_TILE_ROWS = 64,
  MOE__REF_TILE_COLUMNS = 64,
  MOE__REF_PIECE = 128, /* of the sum; what a promoted kernel leaves to the tensor core */
};

/* (i, j) is at data[i * row + j * column]. */
typedef struct moe__ref_matrix_t {
  moe_ref_dtype_t dtype;
  void *data;
  int64_t row, column;
} moe__ref_matrix_t;

/* Element i is data[i * step]. */
typedef struct moe__ref_vector_t {
  moe_ref_dtype_t dtype;
  const void *data; /* NULL: all zeros */
  int64_t step;     /* 0: one element for all */
} moe__ref_vector_t;

/* out = cast(sb * (sa * (a b)) + bias) for one group: a is (rows, depth), b is (depth, columns). */
typedef struct moe__ref_product_t {
  moe__ref_matrix_t a, b, out;
  moe__ref_vector_t sa, sb, bias; /* scales: of rows, columns or all */
  /* Else of blocks: (rows, depth / 128), (depth / 128, columns / block_columns), rounded up; or of
   * MX blocks, in_blocks too: (rows, depth / 32), (depth / 32, columns). */
  bool in_blocks, in_mx_blocks;
  bool in_halves;    /* a and b have 16 bits; scales are 1 */
  int piece;         /* of the sum: MOE__REF_PIECE, or an MX block */
  int block_columns; /* 128; of blocks of tokens and MX blocks 1 */
  moe__ref_matrix_t block_sa, block_sb;
  int64_t rows, columns, depth;
  int64_t first_row; /* its row 0, among those of all groups */
} moe__ref_product_t;

/* The sums of a tile of a product. With scales of blocks a piece is a block, whose scales are in
 * all of them: sa sb, exact, in the doubles. */
typedef struct moe__ref_sums_t {
  int64_t row, column; /* where the tile begins in the product */
  int rows, columns;
  /* sum + rest is the exact sum. */
  double sum[MOE__REF_TILE_ROWS][MOE__REF_TILE_COLUMNS];
  double rest[MOE__REF_TILE_ROWS][MOE__REF_TILE_COLUMNS];
  /* Where asked for: sum |p|, and the sum over pieces of (sum |p|)^2. |p| is the product of operand
   * magnitudes. */
  double magnitude[MOE__REF_TILE_ROWS][MOE__REF_TILE_COLUMNS];
  double squares[MOE__REF_TILE_ROWS][MOE__REF_TILE_COLUMNS];
  /* With scales of blocks: the sum as fp32 rounds it, block after block; where asked for, sum |p|
   * without the scales. */
  float rounded[MOE__REF_TILE_ROWS][MOE__REF_TILE_COLUMNS];
  double unscaled[MOE__REF_TILE_ROWS][MOE__REF_TILE_COLUMNS];
} moe__ref_sums_t;

float moe__ref_vector_at(const moe__ref_vector_t *vector, int64_t i);

typedef void (*moe__ref_visit_t)(void *context, const moe__ref_product_t *product,
                                 const moe__ref_sums_t *sums);

/* What tiles are summed with, of products with elements of these types; the caller frees it. NULL
 * where there is no memory. magnitudes: whether these are asked for. */
typedef struct moe__ref_summing_t moe__ref_summing_t;
moe__ref_summing_t *moe__ref_summing_create(moe_ref_dtype_t a, moe_ref_dtype_t b, bool magnitudes);

/* Calls visit(context, ...) for tiles that cover rows [begin, end) of the product. */
void moe__ref_sum_rows(moe__ref_summing_t *work, const moe__ref_product_t *product, int64_t begin,
                       int64_t end, moe__ref_visit_t visit, void *context);

/* The fp32 value of element (i, j) of the tile, before the cast: sb * (sa * acc) + bias; with
 * scales of blocks, the rounded sum + bias. */
float moe__ref_sum_value(const moe__ref_product_t *product, const moe__ref_sums_t *sums, int i,
                         int j);

#endif /* MOE_LIB_REFERENCE_SUMS_H */
