/* Gemm.c - products of FP8 matrices with fp32 scales, in groups of tokens: sections 5 and 6 of the
 * numerics contract.
 *
 * Why it exists: see Gemm.h. Sums are exact. Within a piece of the sum doubles are added as they
 * are, where the exponents of the operands show that none of them can be rounded; that is, for all
 * E4M3 and nearly all E5M2. Pieces are added with their rounding errors kept.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Reference/Gemm.h"

#include "lib/Reference/Tensors.h"

#include <math.h>
#include <stdlib.h>

/* ---- The three cases ---- */

typedef enum { GROUPED_ROWS, GROUPED_DEPTH, BATCHED, NO_CASE } case_t;

static case_t case_of(const moe_ref_scaled_mm_t *mm) {
  const int ranks = 10 * mm->a->rank + mm->b->rank;
  if (mm->offs == NULL)
    return ranks == 33 ? BATCHED : NO_CASE;
  return ranks == 23 ? GROUPED_ROWS : ranks == 22 ? GROUPED_DEPTH : NO_CASE;
}

static bool is_fp8(moe_ref_dtype_t dtype) {
  return dtype == MOE_REF_E4M3 || dtype == MOE_REF_E5M2;
}

static bool is_result(moe_ref_dtype_t dtype) {
  return dtype == MOE_REF_F32 || dtype == MOE_REF_BF16 || dtype == MOE_REF_F16;
}

/* Whether operands have 16 bits and no scales. */
static bool is_unscaled(const moe_ref_scaled_mm_t *mm) {
  return mm->sa == NULL && mm->sb == NULL;
}

static bool has_shape(const moe_ref_tensor_t *tensor, int rank, const int64_t *shape) {
  return tensor->rank == rank && memcmp(tensor->shape, shape, (size_t)rank * sizeof *shape) == 0;
}

static bool have_shapes(const moe_ref_scaled_mm_t *mm) {
  return mm != NULL && moe__ref_has_shape(mm->a) && moe__ref_has_shape(mm->b) &&
         (is_unscaled(mm) || (moe__ref_has_shape(mm->sa) && moe__ref_has_shape(mm->sb))) &&
         moe__ref_has_shape(mm->out) && (mm->bias == NULL || moe__ref_has_shape(mm->bias));
}

static bool have_data(const moe_ref_scaled_mm_t *mm) {
  return moe__ref_is_tensor(mm->a) && moe__ref_is_tensor(mm->b) &&
         (is_unscaled(mm) || (moe__ref_is_tensor(mm->sa) && moe__ref_is_tensor(mm->sb))) &&
         moe__ref_is_tensor(mm->out) && (mm->bias == NULL || moe__ref_is_tensor(mm->bias));
}

/* Whether scales are those of MX blocks, by their type. */
static bool in_mx_blocks(const moe_ref_scaled_mm_t *mm) {
  return !is_unscaled(mm) && mm->sa->dtype == MOE_REF_E8M0;
}

/* Whether scales are those of blocks, MX or not: by their ranks, unless these do not tell. */
static bool in_blocks(const moe_ref_scaled_mm_t *mm) {
  if (is_unscaled(mm))
    return false;
  if (case_of(mm) == GROUPED_DEPTH)
    return mm->token_blocks || in_mx_blocks(mm);
  return mm->sa->rank == mm->a->rank && mm->sb->rank == mm->b->rank;
}

static int64_t blocks_of(int64_t size) {
  return (size + MOE__REF_PIECE - 1) / MOE__REF_PIECE;
}

static bool are_block_scales(const moe_ref_scaled_mm_t *mm) {
  const moe_ref_tensor_t *const a = mm->a, *const b = mm->b;
  int64_t of_a[MOE_REF_MAX_RANK];
  memcpy(of_a, a->shape, sizeof of_a);
  if (in_mx_blocks(mm)) {
    of_a[a->rank - 1] /= MOE_MX_BLOCK;
    return b->shape[1] % MOE_MX_BLOCK == 0 && has_shape(mm->sa, a->rank, of_a) &&
           has_shape(mm->sb, 3, (int64_t[]){b->shape[0], b->shape[1] / MOE_MX_BLOCK, b->shape[2]});
  }
  of_a[a->rank - 1] = blocks_of(of_a[a->rank - 1]);
  return has_shape(mm->sa, a->rank, of_a) &&
         has_shape(mm->sb, 3,
                   (int64_t[]){b->shape[0], blocks_of(b->shape[1]), blocks_of(b->shape[2])});
}

/* Those of blocks of tokens: rows of blocks, with room for one more in each group. */
static bool are_token_block_scales(const moe_ref_scaled_mm_t *mm, int64_t groups) {
  const int64_t tokens = mm->a->shape[1];
  const int64_t whole =
      in_mx_blocks(mm) ? (tokens + MOE_MX_BLOCK - 1) / MOE_MX_BLOCK : blocks_of(tokens);
  const int64_t blocks = whole + (mm->aligned ? 0 : groups);
  return has_shape(mm->sa, 2, (int64_t[]){blocks, mm->a->shape[0]}) &&
         has_shape(mm->sb, 2, (int64_t[]){blocks, mm->b->shape[1]});
}

/* A scale for each row or column, or one for them all; or none. */
static bool are_scales(const moe_ref_tensor_t *scales, int rank, const int64_t *each,
                       const int64_t *shared) {
  return scales == NULL || has_shape(scales, rank, each) || has_shape(scales, 1, shared);
}

/* Whether the element types of operands and scales belong together. */
static bool are_types(const moe_ref_scaled_mm_t *mm) {
  if (is_unscaled(mm))
    return mm->a->dtype == mm->b->dtype &&
           (mm->a->dtype == MOE_REF_BF16 || mm->a->dtype == MOE_REF_F16);
  return is_fp8(mm->a->dtype) && is_fp8(mm->b->dtype) && mm->sa->dtype == mm->sb->dtype &&
         (mm->sa->dtype == MOE_REF_F32 || in_mx_blocks(mm));
}

/* The number of groups, 0 or more; -1 where the tensors do not belong together. Needs no data but
 * that of offs. */
static int64_t count_groups(const moe_ref_scaled_mm_t *mm) {
  if (!have_shapes(mm))
    return -1;
  if (mm->offs != NULL && !moe__ref_is_offsets(mm->offs))
    return -1;
  if (!are_types(mm) || !is_result(mm->out->dtype))
    return -1;
  if (in_mx_blocks(mm) && !in_blocks(mm))
    return -1;
  if (mm->aligned && (case_of(mm) != GROUPED_DEPTH || mm->a->shape[1] % MOE_GROUP_ALIGN != 0))
    return -1;

  const int64_t *const a = mm->a->shape, *const b = mm->b->shape;
  const int64_t groups = mm->offs != NULL ? mm->offs->shape[0] : a[0];
  const int64_t one = 1;
  const int64_t of_columns[] = {groups, b[mm->b->rank - 1]};
  if (mm->bias != NULL && (mm->bias->dtype != mm->out->dtype || case_of(mm) == GROUPED_DEPTH ||
                           !has_shape(mm->bias, 2, of_columns)))
    return -1;
  bool fits = false;
  int64_t rows; /* over all groups: must be countable */
  switch (case_of(mm)) {
  case GROUPED_ROWS:
    fits = b[0] == groups && b[1] == a[1] &&
           (in_blocks(mm)
                ? are_block_scales(mm)
                : are_scales(mm->sa, 1, a, &one) && are_scales(mm->sb, 2, of_columns, &groups)) &&
           has_shape(mm->out, 2, (int64_t[]){a[0], b[2]});
    break;
  case GROUPED_DEPTH:
    fits = b[0] == a[1] && !__builtin_mul_overflow(groups, a[0], &rows) &&
           (in_blocks(mm) ? are_token_block_scales(mm, groups)
                          : are_scales(mm->sa, 2, (int64_t[]){groups, a[0]}, &groups) &&
                                are_scales(mm->sb, 2, of_columns, &groups)) &&
           has_shape(mm->out, 3, (int64_t[]){groups, a[0], b[1]});
    break;
  case BATCHED:
    fits = b[0] == groups && b[1] == a[2] && !__builtin_mul_overflow(groups, a[1], &rows) &&
           (in_blocks(mm) ? are_block_scales(mm)
                          : are_scales(mm->sa, 2, a, &groups) &&
                                are_scales(mm->sb, 2, of_columns, &groups)) &&
           has_shape(mm->out, 3, (int64_t[]){groups, a[1], b[2]});
    break;
  case NO_CASE:
    break;
  }
  return fits ? groups : -1;
}

/* Where a and b have the first token of group g, which is number `start` of all groups'. */
static int64_t token_of(const moe_ref_scaled_mm_t *mm, int64_t g, int64_t start) {
  return mm->aligned ? moe_ref_aligned_start(start, g) : start;
}

/* The matrix in dimensions `row` and `column` of a tensor, from element `index` on; one without
 * elements may have no data. */
static moe__ref_matrix_t matrix_of(const moe_ref_tensor_t *tensor, int row, int column,
                                   int64_t index) {
  return (moe__ref_matrix_t){.dtype = tensor->dtype,
                             .data = tensor->data != NULL ? moe__ref_element_address(tensor, index)
                                                          : NULL,
                             .row = tensor->strides[row],
                             .column = tensor->strides[column]};
}

/* The scales of operands that have none. */
static moe__ref_vector_t ones(void) {
  static const float one = 1;
  return (moe__ref_vector_t){.dtype = MOE_REF_F32, .data = &one};
}

/* Of group g: its row of a matrix, or for all its elements the one that the group has. */
static moe__ref_vector_t vector_of(const moe_ref_tensor_t *tensor, int64_t g) {
  if (tensor == NULL)
    return ones();
  return (moe__ref_vector_t){.dtype = tensor->dtype,
                             .data = tensor->data != NULL
                                         ? moe__ref_element_address(tensor, g * tensor->strides[0])
                                         : NULL,
                             .step = tensor->rank == 2 ? tensor->strides[1] : 0};
}

/* The scales of tokens from `start` on, or the one that all tokens share. */
static moe__ref_vector_t token_scales(const moe_ref_scaled_mm_t *mm, int64_t start) {
  const moe_ref_tensor_t *const sa = mm->sa;
  if (sa == NULL)
    return ones();
  const bool shared = sa->shape[0] == 1;
  return (moe__ref_vector_t){
      .dtype = sa->dtype,
      .data = sa->data != NULL ? moe__ref_element_address(sa, shared ? 0 : start * sa->strides[0])
                               : NULL,
      .step = shared ? 0 : sa->strides[0]};
}

/* The scales of blocks of tokens of group g, whose first token is `start`. */
static void add_token_block_scales(const moe_ref_scaled_mm_t *mm, int64_t g, int64_t start,
                                   moe__ref_product_t *product) {
  product->in_blocks = true;
  product->in_mx_blocks = in_mx_blocks(mm);
  if (product->in_mx_blocks)
    product->piece = MOE_MX_BLOCK;
  const int64_t first = token_of(mm, g, start) / product->piece + (mm->aligned ? 0 : g);
  product->block_columns = 1;
  product->block_sa = matrix_of(mm->sa, 1, 0, first * mm->sa->strides[0]);
  product->block_sb = matrix_of(mm->sb, 0, 1, first * mm->sb->strides[0]);
}

/* The scales of the blocks of group g, whose first row of a has the index `row` in sa. */
static void add_block_scales(const moe_ref_scaled_mm_t *mm, int64_t g, int64_t row,
                             moe__ref_product_t *product) {
  const int last = mm->sa->rank - 1;
  product->in_blocks = true;
  product->in_mx_blocks = in_mx_blocks(mm);
  if (product->in_mx_blocks)
    product->piece = MOE_MX_BLOCK;
  product->block_columns = product->in_mx_blocks ? 1 : MOE__REF_PIECE;
  product->block_sa = matrix_of(mm->sa, last - 1, last, row);
  product->block_sb = matrix_of(mm->sb, 1, 2, g * mm->sb->strides[0]);
}

static moe__ref_vector_t bias_of(const moe_ref_scaled_mm_t *mm, int64_t g) {
  return mm->bias != NULL ? vector_of(mm->bias, g) : (moe__ref_vector_t){.dtype = mm->out->dtype};
}

float moe__ref_vector_at(const moe__ref_vector_t *vector, int64_t i) {
  return vector->data != NULL ? moe__ref_element_load(vector->dtype, vector->data, i * vector->step)
                              : 0;
}

/* The product of group g, which is tokens [start, end) unless batched; but for scales of blocks. */
static moe__ref_product_t product_but_blocks(const moe_ref_scaled_mm_t *mm, int64_t g,
                                             int64_t start, int64_t end) {
  const moe_ref_tensor_t *a = mm->a, *b = mm->b, *sa = mm->sa, *sb = mm->sb, *out = mm->out;
  switch (case_of(mm)) {
  case GROUPED_ROWS:
    return (moe__ref_product_t){.a = matrix_of(a, 0, 1, start * a->strides[0]),
                                .b = matrix_of(b, 1, 2, g * b->strides[0]),
                                .out = matrix_of(out, 0, 1, start * out->strides[0]),
                                .sa = token_scales(mm, start),
                                .sb = vector_of(sb, g),
                                .bias = bias_of(mm, g),
                                .rows = end - start,
                                .columns = b->shape[2],
                                .depth = b->shape[1],
                                .first_row = start};
  case GROUPED_DEPTH:
    return (moe__ref_product_t){.a = matrix_of(a, 0, 1, token_of(mm, g, start) * a->strides[1]),
                                .b = matrix_of(b, 0, 1, token_of(mm, g, start) * b->strides[0]),
                                .out = matrix_of(out, 1, 2, g * out->strides[0]),
                                .sa = vector_of(sa, g),
                                .sb = vector_of(sb, g),
                                .bias = bias_of(mm, g),
                                .rows = a->shape[0],
                                .columns = b->shape[1],
                                .depth = end - start,
                                .first_row = g * a->shape[0]};
  case BATCHED:
  case NO_CASE:
    break;
  }
  return (moe__ref_product_t){.a = matrix_of(a, 1, 2, g * a->strides[0]),
                              .b = matrix_of(b, 1, 2, g * b->strides[0]),
                              .out = matrix_of(out, 1, 2, g * out->strides[0]),
                              .sa = vector_of(sa, g),
                              .sb = vector_of(sb, g),
                              .bias = bias_of(mm, g),
                              .rows = a->shape[1],
                              .columns = b->shape[2],
                              .depth = a->shape[2],
                              .first_row = g * a->shape[1]};
}

static moe__ref_product_t product_of(const moe_ref_scaled_mm_t *mm, int64_t g, int64_t start,
                                     int64_t end) {
  moe__ref_product_t product = product_but_blocks(mm, g, start, end);
  product.piece = MOE__REF_PIECE;
  product.in_halves = is_unscaled(mm);
  if (in_blocks(mm) && is_fp8(mm->a->dtype) && case_of(mm) == GROUPED_DEPTH) {
    add_token_block_scales(mm, g, start, &product);
  } else if (in_blocks(mm) && is_fp8(mm->a->dtype)) {
    const int64_t row = case_of(mm) == BATCHED ? g : start;
    add_block_scales(mm, g, row * mm->sa->strides[0], &product);
  }
  return product;
}

/* Tokens of the case, that offsets are clamped to. */
static int64_t token_count(const moe_ref_scaled_mm_t *mm) {
  const int64_t tokens = mm->a->shape[case_of(mm) == GROUPED_ROWS ? 0 : 1];
  if (!mm->aligned)
    return tokens;
  const int64_t groups = mm->offs->shape[0], most = tokens / MOE_GROUP_ALIGN;
  return groups < most ? tokens - MOE_GROUP_ALIGN * groups : 0;
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
  if (!is_fp8(decoder->dtype)) {
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
  for (int i = 0; i < sums->rows; i++)
    for (int k = 0; k < piece->depth; k++)
      piece->a[i][k] = fabs(piece->a[i][k]);
  for (int k = 0; k < piece->depth; k++)
    for (int j = 0; j < MOE__REF_TILE_COLUMNS; j++)
      piece->b[k][j] = fabs(piece->b[k][j]);
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

/* What all tiles of a call share. */
typedef struct {
  decoder_t a, b;
  piece_t piece;
  moe__ref_sums_t sums;
  bool magnitudes;
} work_t;

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

static void sum_tile(work_t *work, const moe__ref_product_t *product) {
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

/* Rows [begin, end) of the product. */
static void product_tiles(work_t *work, const moe__ref_product_t *product, int64_t begin,
                          int64_t end, moe__ref_tile_t tile, void *context) {
  moe__ref_sums_t *const sums = &work->sums;
  for (sums->row = begin; sums->row < end; sums->row += MOE__REF_TILE_ROWS)
    for (sums->column = 0; sums->column < product->columns; sums->column += MOE__REF_TILE_COLUMNS) {
      const int64_t rows = end - sums->row, columns = product->columns - sums->column;
      sums->rows = (int)(rows < MOE__REF_TILE_ROWS ? rows : MOE__REF_TILE_ROWS);
      sums->columns = (int)(columns < MOE__REF_TILE_COLUMNS ? columns : MOE__REF_TILE_COLUMNS);
      sum_tile(work, product);
      tile(context, product, sums);
    }
}

moe_ref_status_t moe__ref_gemm_tiles_of(const moe_ref_scaled_mm_t *mm, const moe_ref_tensor_t *a,
                                        const moe_ref_tensor_t *b, int64_t begin, int64_t end,
                                        bool magnitudes, moe__ref_tile_t tile, void *context) {
  const int64_t groups = count_groups(mm);
  if (groups < 0 || !have_data(mm) || begin < 0 || end < begin || end > moe_ref_scaled_mm_rows(mm))
    return MOE_REF_INVALID_ARGUMENT;
  if (begin == end || moe__ref_is_empty(mm->out))
    return MOE_REF_OK;
  work_t *const work = malloc(sizeof *work);
  if (work == NULL)
    return MOE_REF_OUT_OF_MEMORY;
  make_decoder(a->dtype, &work->a);
  make_decoder(b->dtype, &work->b);
  work->magnitudes = magnitudes;

  moe_ref_scaled_mm_t of = *mm;
  of.a = a;
  of.b = b;
  int64_t group_start = 0;
  for (int64_t g = 0; g < groups; g++) {
    const int64_t stop =
        mm->offs != NULL ? moe__ref_group_end(mm->offs, g, group_start, token_count(mm)) : 0;
    const moe__ref_product_t product = product_of(&of, g, group_start, stop);
    const int64_t first = begin - product.first_row, last = end - product.first_row;
    product_tiles(work, &product, first > 0 ? first : 0, last < product.rows ? last : product.rows,
                  tile, context);
    group_start = stop;
  }
  free(work);
  return MOE_REF_OK;
}

moe_ref_status_t moe__ref_gemm_tiles(const moe_ref_scaled_mm_t *mm, int64_t begin, int64_t end,
                                     bool magnitudes, moe__ref_tile_t tile, void *context) {
  return mm == NULL
             ? MOE_REF_INVALID_ARGUMENT
             : moe__ref_gemm_tiles_of(mm, mm->a, mm->b, begin, end, magnitudes, tile, context);
}

/* ---- The result ---- */

float moe__ref_gemm_value(const moe__ref_product_t *product, const moe__ref_sums_t *sums, int i,
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

static void store_tile(void *context, const moe__ref_product_t *product,
                       const moe__ref_sums_t *sums) {
  (void)context;
  const moe__ref_matrix_t *const out = &product->out;
  if (out->data == NULL) /* then it has no elements */
    return;
  for (int i = 0; i < sums->rows; i++)
    for (int j = 0; j < sums->columns; j++)
      moe__ref_element_store(out->dtype, out->data,
                             (sums->row + i) * out->row + (sums->column + j) * out->column,
                             moe__ref_gemm_value(product, sums, i, j));
}

/* ---- Public functions ---- */

moe_ref_status_t moe_ref_scaled_mm(const moe_ref_scaled_mm_t *mm, int64_t begin, int64_t end) {
  return moe__ref_gemm_tiles(mm, begin, end, false, store_tile, NULL);
}

int64_t moe_ref_scaled_mm_rows(const moe_ref_scaled_mm_t *mm) {
  const int64_t groups = count_groups(mm);
  if (groups < 0 || !have_data(mm))
    return -1;
  switch (case_of(mm)) {
  case GROUPED_ROWS:
    return mm->a->shape[0];
  case GROUPED_DEPTH:
    return groups * mm->a->shape[0];
  default:
    return groups * mm->a->shape[1];
  }
}

int64_t moe_ref_scaled_mm_tokens(const moe_ref_scaled_mm_t *mm) {
  const int64_t groups = count_groups(mm);
  if (groups < 0 || mm->offs == NULL)
    return groups < 0 ? -1 : groups * mm->a->shape[1];
  int64_t end = 0;
  for (int64_t g = 0; g < groups; g++)
    end = moe__ref_group_end(mm->offs, g, end, token_count(mm));
  return end;
}

double moe_ref_scaled_mm_flops(const moe_ref_scaled_mm_t *mm) {
  const int64_t tokens = moe_ref_scaled_mm_tokens(mm);
  if (tokens < 0)
    return -1;
  /* A token meets every row of the other operand: N rows of a in the depth case, else K of b. */
  const int64_t *const b = mm->b->shape;
  const double rows = (double)(case_of(mm) == GROUPED_DEPTH ? mm->a->shape[0] : b[1]);
  return 2 * (double)tokens * rows * (double)b[mm->b->rank - 1];
}
