/* Gemm.c - products of FP8 matrices with fp32 scales, in groups of tokens: sections 5 and 6 of the
 * numerics contract.
 *
 * Why it exists: which matrices, scales and rows of out belong to a group, in each of the three
 * cases. Sums.c adds.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Reference/Gemm.h"

#include "lib/Reference/Tensors.h"

#include <stdlib.h>

/* ---- The three cases ---- */

typedef enum { GROUPED_ROWS, GROUPED_DEPTH, BATCHED, NO_CASE } case_t;

static case_t case_of(const moe_ref_scaled_mm_t *mm) {
  const int ranks = 10 * mm->a->rank + mm->b->rank;
  if (mm->offs == NULL)
    return ranks == 33 ? BATCHED : NO_CASE;
  return ranks == 23 ? GROUPED_ROWS : ranks == 22 ? GROUPED_DEPTH : NO_CASE;
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
  return moe__ref_is_fp8(mm->a->dtype) && moe__ref_is_fp8(mm->b->dtype) &&
         mm->sa->dtype == mm->sb->dtype && (mm->sa->dtype == MOE_REF_F32 || in_mx_blocks(mm));
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
  if (in_blocks(mm) && moe__ref_is_fp8(mm->a->dtype) && case_of(mm) == GROUPED_DEPTH) {
    add_token_block_scales(mm, g, start, &product);
  } else if (in_blocks(mm) && moe__ref_is_fp8(mm->a->dtype)) {
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

/* ---- The sums ---- */

moe_ref_status_t moe__ref_gemm_tiles_of(const moe_ref_scaled_mm_t *mm, const moe_ref_tensor_t *a,
                                        const moe_ref_tensor_t *b, int64_t begin, int64_t end,
                                        bool magnitudes, moe__ref_visit_t visit, void *context) {
  const int64_t groups = count_groups(mm);
  if (groups < 0 || !have_data(mm) || begin < 0 || end < begin || end > moe_ref_scaled_mm_rows(mm))
    return MOE_REF_INVALID_ARGUMENT;
  if (begin == end || moe__ref_is_empty(mm->out))
    return MOE_REF_OK;
  moe__ref_summing_t *const work = moe__ref_summing_create(a->dtype, b->dtype, magnitudes);
  if (work == NULL)
    return MOE_REF_OUT_OF_MEMORY;
  moe_ref_scaled_mm_t of = *mm;
  of.a = a;
  of.b = b;
  int64_t group_start = 0;
  for (int64_t g = 0; g < groups; g++) {
    const int64_t stop =
        mm->offs != NULL ? moe__ref_group_end(mm->offs, g, group_start, token_count(mm)) : 0;
    const moe__ref_product_t product = product_of(&of, g, group_start, stop);
    const int64_t first = begin - product.first_row, last = end - product.first_row;
    moe__ref_sum_rows(work, &product, first > 0 ? first : 0,
                      last < product.rows ? last : product.rows, visit, context);
    group_start = stop;
  }
  free(work);
  return MOE_REF_OK;
}

moe_ref_status_t moe__ref_gemm_tiles(const moe_ref_scaled_mm_t *mm, int64_t begin, int64_t end,
                                     bool magnitudes, moe__ref_visit_t visit, void *context) {
  return mm == NULL
             ? MOE_REF_INVALID_ARGUMENT
             : moe__ref_gemm_tiles_of(mm, mm->a, mm->b, begin, end, magnitudes, visit, context);
}

/* ---- Public functions ---- */

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
                             moe__ref_sum_value(product, sums, i, j));
}

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
