/* Sums.c - sums of products of matrices, exactly, tile by tile.
 *
 * Why it exists: see Sums.h. Within a piece of the sum doubles are added as they are, where the
 * exponents of the operands show that none of them can be rounded; that is, for all E4M3 and nearly
 * all E5M2. Pieces are added with their rounding errors kept.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Reference/Sums.h"

#include "lib/Reference/Tensors.h"

#include <math.h>
#include <stdlib.h>

float moe__ref_vector_at(const moe__ref_vector_t *vector, int64_t i) {
  return vector->data != NULL ? moe__ref_element_load(vector->dtype, vector->data, i * vector->step)
                              : 0;
}

/* ---- Pieces of sums ---- */

/* What every byte of a format is worth. Each value is a multiple of its ulp. Wider types, which are
 * not quantized, have no table. */
typedef struct {
  moe_ref_dtype_t dtype;
  double value[256], ulp[256];
} decoder_t;

static void make_decoder(moe_ref_dtype_t dtype, decoder_t *out) {
  out->dtype = dtype;
  const moe__ref_small_float_t format = dtype == MOE_REF_E4M3 ? moe__ref_e4m3 : moe__ref_e5m2;
  for (int byte = 0; byte < 256; byte++) {
    const int field = (byte & 0x7F) >> format.mantissa_bits;
    const int exponent = (field > 0 ? field : 1) - format.bias;
    out->value[byte] = moe__ref_f32_from_fp8((uint8_t)byte, format);
    out->ulp[byte] = moe__ref_power_of_two(exponent - format.mantissa_bits);
  }
}

/* The largest magnitude among values, and the least ulp of those that are not 0; NaN and Inf apart,
 * for which no rounding error matters. */
typedef struct {
  double largest, least_ulp;
} range_t;

/* One piece of a tile's sums: decoded operands, and what they give. */
typedef struct {
  double a[MOE__REF_TILE_ROWS][MOE__REF_PIECE];
  double b[MOE__REF_PIECE][MOE__REF_TILE_COLUMNS];
  double sum[MOE__REF_TILE_ROWS][MOE__REF_TILE_COLUMNS],
      rest[MOE__REF_TILE_ROWS][MOE__REF_TILE_COLUMNS];
  int depth;
} piece_t;

/* Element number `index` of `data`. That of a wider type may have any ulp. */
static inline double decode(const decoder_t *decoder, const void *data, int64_t index,
                            range_t *range) {
  if (decoder->dtype != MOE_REF_E4M3 && decoder->dtype != MOE_REF_E5M2) {
    range->least_ulp = 0;
    return moe__ref_element_load(decoder->dtype, data, index);
  }
  const uint8_t byte = ((const uint8_t *)data)[index];
  const double value = decoder->value[byte], magnitude = fabs(value);
  if (magnitude > range->largest && magnitude < INFINITY)
    range->largest = magnitude;
  if (magnitude > 0 && decoder->ulp[byte] < range->least_ulp)
    range->least_ulp = decoder->ulp[byte];
  return value;
}

static range_t decode_a(const moe__ref_product_t *product, const moe__ref_sums_t *tile,
                        int64_t first, const decoder_t *decoder, piece_t *piece) {
  range_t range = {0, INFINITY};
  for (int i = 0; i < tile->rows; i++) {
    const int64_t from = (tile->row + i) * product->a.row + first * product->a.column;
    for (int k = 0; k < piece->depth; k++)
      piece->a[i][k] = decode(decoder, product->a.data, from + k * product->a.column, &range);
  }
  return range;
}

/* b is often column-major. A few columns at a time read its memory in order and still write whole
 * cache lines. Columns past the tile's are zeros. */
static range_t decode_b(const moe__ref_product_t *product, const moe__ref_sums_t *tile,
                        int64_t first, const decoder_t *decoder, piece_t *piece) {
  enum { TOGETHER = 8 };
  range_t range = {0, INFINITY};
  for (int j0 = 0; j0 < MOE__REF_TILE_COLUMNS; j0 += TOGETHER)
    for (int k = 0; k < piece->depth; k++) {
      const int64_t from = (first + k) * product->b.row + tile->column * product->b.column;
      for (int j = j0; j < j0 + TOGETHER; j++) {
        piece->b[k][j] = j < tile->columns ? decode(decoder, product->b.data,
                                                    from + j * product->b.column, &range)
                                           : 0;
      }
    }
  return range;
}

/* sum = a b in doubles, as they round. */
static void multiply(int rows, piece_t *piece) {
  for (int i = 0; i < rows; i++) {
    double *const sum = piece->sum[i];
    memset(sum, 0, sizeof piece->sum[i]);
    memset(piece->rest[i], 0, sizeof piece->rest[i]);
    for (int k = 0; k < piece->depth; k++) {
      const double a = piece->a[i][k];
      for (int j = 0; j < MOE__REF_TILE_COLUMNS; j++)
        sum[j] += a * piece->b[k][j];
    }
  }
}

/* *sum + *rest += term, without error as long as the rests add up without one (Knuth's TwoSum). */
static inline void add_exactly(double term, double *sum, double *rest) {
  const double old = *sum, total = old + term;
  const double part = total - old;
  *rest += (old - (total - part)) + (term - part);
  *sum = total;
}

/* sum + rest = a b, for operands whose exponents are far apart. */
static void multiply_exactly(int rows, piece_t *piece) {
  for (int i = 0; i < rows; i++) {
    memset(piece->sum[i], 0, sizeof piece->sum[i]);
    memset(piece->rest[i], 0, sizeof piece->rest[i]);
    for (int k = 0; k < piece->depth; k++)
      for (int j = 0; j < MOE__REF_TILE_COLUMNS; j++)
        add_exactly(piece->a[i][k] * piece->b[k][j], &piece->sum[i][j], &piece->rest[i][j]);
  }
}

/* Sums of multiples of one quantum that stay below 2^53 of it are exact in any order. */
static bool is_narrow(range_t a, range_t b) {
  return a.least_ulp * b.least_ulp > 0 &&
         MOE__REF_PIECE * (a.largest * b.largest) <= 0x1p53 * (a.least_ulp * b.least_ulp);
}

/* The scales of element (i, j) of a tile in the block whose first product is number `first`. */
static void scales_at(const moe__ref_product_t *product, const moe__ref_sums_t *sums, int i, int j,
                      int64_t first, float *sa, float *sb) {
  const moe__ref_matrix_t *const a = &product->block_sa, *const b = &product->block_sb;
  const int64_t block = first / product->piece, row = sums->row + i, column = sums->column + j;
  const int64_t across = column / product->block_columns;
  *sa = moe__ref_element_load(a->dtype, a->data, row * a->row + block * a->column);
  *sb = moe__ref_element_load(b->dtype, b->data, block * b->row + across * b->column);
}

/* Their product: exact in double; in fp32 sa * sb is rounded. 1 where they are not of blocks. */
static double block_scale(const moe__ref_product_t *product, const moe__ref_sums_t *sums, int i,
                          int j, int64_t first, float *rounded) {
  float sa, sb;
  *rounded = 1;
  if (!product->in_blocks)
    return 1;
  scales_at(product, sums, i, j, first, &sa, &sb);
  *rounded = sa * sb;
  return (double)sa * sb;
}

/* Adds the sum of the MX block whose first product is number `first` to element (i, j). */
static void add_mx_block(const moe__ref_product_t *product, int64_t first, float dot,
                         moe__ref_sums_t *sums, int i, int j) {
  float sa, sb;
  scales_at(product, sums, i, j, first, &sa, &sb);
  sums->rounded[i][j] = fmaf(sb * dot, sa, first == 0 ? 0 : sums->rounded[i][j]);
}

static void add_magnitudes(const moe__ref_product_t *product, int64_t first, piece_t *piece,
                           moe__ref_sums_t *sums) {
  const double least_a = moe__ref_least_normal(product->a.dtype);
  const double least_b = moe__ref_least_normal(product->b.dtype);
  for (int i = 0; i < sums->rows; i++)
    for (int k = 0; k < piece->depth; k++)
      piece->a[i][k] = moe__ref_operand_magnitude(piece->a[i][k], least_a);
  for (int k = 0; k < piece->depth; k++)
    for (int j = 0; j < MOE__REF_TILE_COLUMNS; j++)
      piece->b[k][j] = moe__ref_operand_magnitude(piece->b[k][j], least_b);
  multiply(sums->rows, piece);
  for (int i = 0; i < sums->rows; i++)
    for (int j = 0; j < sums->columns; j++) {
      float ignored;
      const double scaled =
          fabs(block_scale(product, sums, i, j, first, &ignored)) * piece->sum[i][j];
      sums->magnitude[i][j] += scaled;
      sums->squares[i][j] += scaled * scaled;
      sums->unscaled[i][j] += piece->sum[i][j];
    }
}

/* ---- Tiles ---- */

/* sum + rest, rounded to fp32 once. */
static float f32_of_sum(double sum, double rest) {
  if (!isfinite(sum))
    return (float)sum;
  double total = sum, left = 0;
  add_exactly(rest, &total, &left);
  /* Rounding to double first would round twice. Of the two doubles around the exact value the odd
   * one rounds to fp32 as the exact value does. */
  int64_t bits;
  memcpy(&bits, &total, sizeof bits);
  if (left != 0 && (bits & 1) == 0)
    bits += (left > 0) == (total > 0) ? 1 : -1;
  memcpy(&total, &bits, sizeof total);
  return (float)total;
}

struct moe__ref_summing_t {
  decoder_t a, b;
  piece_t piece;
  moe__ref_sums_t sums;
  bool magnitudes;
};

static void add_piece(const moe__ref_product_t *product, int64_t first, const piece_t *piece,
                      moe__ref_sums_t *sums) {
  for (int i = 0; i < sums->rows; i++)
    for (int j = 0; j < sums->columns; j++) {
      float rounded;
      const double scale = block_scale(product, sums, i, j, first, &rounded);
      add_exactly(scale * piece->sum[i][j], &sums->sum[i][j], &sums->rest[i][j]);
      sums->rest[i][j] += scale * piece->rest[i][j];
      if (!product->in_blocks)
        continue;
      const float dot = f32_of_sum(piece->sum[i][j], piece->rest[i][j]);
      if (product->in_mx_blocks)
        add_mx_block(product, first, dot, sums, i, j);
      else
        sums->rounded[i][j] = first == 0 ? rounded * dot : fmaf(rounded, dot, sums->rounded[i][j]);
    }
}

static void sum_tile(moe__ref_summing_t *work, const moe__ref_product_t *product) {
  moe__ref_sums_t *const sums = &work->sums;
  piece_t *const piece = &work->piece;
  memset(sums->sum, 0, sizeof sums->sum);
  memset(sums->rest, 0, sizeof sums->rest);
  memset(sums->magnitude, 0, sizeof sums->magnitude);
  memset(sums->squares, 0, sizeof sums->squares);
  memset(sums->unscaled, 0, sizeof sums->unscaled);
  for (int64_t first = 0; first < product->depth; first += product->piece) {
    const int64_t left = product->depth - first;
    piece->depth = (int)(left < product->piece ? left : product->piece);
    const range_t a = decode_a(product, sums, first, &work->a, piece);
    const range_t b = decode_b(product, sums, first, &work->b, piece);
    if (is_narrow(a, b))
      multiply(sums->rows, piece);
    else
      multiply_exactly(sums->rows, piece);
    add_piece(product, first, piece, sums);
    if (work->magnitudes)
      add_magnitudes(product, first, piece, sums);
  }
}

void moe__ref_sum_rows(moe__ref_summing_t *work, const moe__ref_product_t *product, int64_t begin,
                       int64_t end, moe__ref_visit_t visit, void *context) {
  moe__ref_sums_t *const sums = &work->sums;
  for (sums->row = begin; sums->row < end; sums->row += MOE__REF_TILE_ROWS)
    for (sums->column = 0; sums->column < product->columns; sums->column += MOE__REF_TILE_COLUMNS) {
      const int64_t rows = end - sums->row, columns = product->columns - sums->column;
      sums->rows = (int)(rows < MOE__REF_TILE_ROWS ? rows : MOE__REF_TILE_ROWS);
      sums->columns = (int)(columns < MOE__REF_TILE_COLUMNS ? columns : MOE__REF_TILE_COLUMNS);
      sum_tile(work, product);
      visit(context, product, sums);
    }
}

moe__ref_summing_t *moe__ref_summing_create(moe_ref_dtype_t a, moe_ref_dtype_t b, bool magnitudes) {
  moe__ref_summing_t *const work = malloc(sizeof *work);
  if (work == NULL)
    return NULL;
  make_decoder(a, &work->a);
  make_decoder(b, &work->b);
  work->magnitudes = magnitudes;
  return work;
}

/* ---- The result ---- */

float moe__ref_sum_value(const moe__ref_product_t *product, const moe__ref_sums_t *sums, int i,
                         int j) {
  float value = 0;
  if (product->depth > 0 && product->in_blocks) {
    value = sums->rounded[i][j];
  } else if (product->depth > 0) {
    const float sa = moe__ref_vector_at(&product->sa, sums->row + i);
    const float sb = moe__ref_vector_at(&product->sb, sums->column + j);
    value = sb * (sa * f32_of_sum(sums->sum[i][j], sums->rest[i][j]));
  }
  return product->bias.data != NULL ? value + moe__ref_vector_at(&product->bias, sums->column + j)
                                    : value;
}
