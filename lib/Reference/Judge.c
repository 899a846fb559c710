/* Judge.c - how far a kernel's product may lie from the exact one, and whether it does.
 *
 * Why it exists: a tensor core sums in an order and a precision of its own, so that on arbitrary
 * data there are no bits to compare. docs/numerics.md derives the bound.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Reference/Gemm.h"
#include "lib/Reference/Judged.h"
#include "lib/Reference/Tensors.h"

#include <math.h>

/* What a tensor core may lose, as a part of the magnitudes that it sums. */
static const double tensor_core_error = 0x1p-10;
/* The same of operands of 16 bits, and at each addition of a product 16 deep to the sum. */
static const double tensor_core_error_halves = 0x1p-19, tensor_core_rounding = 0x1p-23;
#define HALVES_DEPTH 16
/* Two fp32 products, each rounded, with room for what they do to each other; and the sum with a
 * bias. */
static const double epilogue_error = 0x1p-22;

/* What the cast to a type of result does. */
typedef struct {
  double unit_roundoff, half_least_subnormal;
  double largest; /* finite */
} cast_t;

static cast_t cast_of(moe_ref_dtype_t dtype) {
  switch (dtype) {
  case MOE_REF_BF16:
    return (cast_t){0x1p-8, 0x1p-134, 0x1.FEp127};
  case MOE_REF_F16:
    return (cast_t){0x1p-11, 0x1p-25, 65504};
  default:
    return (cast_t){0x1p-24, 0x1p-150, 0x1.FFFFFEp127};
  }
}

/* ---- The exact result and its bound ---- */

double moe__ref_cast_error(moe_ref_dtype_t out, double exact, double error) {
  const cast_t cast = cast_of(out);
  return (fabs(exact) + error) * (cast.unit_roundoff + epilogue_error) + cast.half_least_subnormal;
}

static moe__ref_judged_t judge_element(const moe__ref_product_t *product,
                                       const moe__ref_sums_t *sums,
                                       moe_ref_accumulation_t accumulation, int i, int j) {
  const float value = moe__ref_sum_value(product, sums, i, j);
  const double magnitude = sums->magnitude[i][j];
  const double dot = sums->sum[i][j] + sums->rest[i][j];
  const bool may_overflow = product->in_halves && isfinite(magnitude);
  const bool may_be_inf = may_overflow && (magnitude + dot) / 2 > MOE__REF_FP32_RANGE;
  const bool may_be_minus_inf = may_overflow && (magnitude - dot) / 2 > MOE__REF_FP32_RANGE;
  if (product->depth == 0 || (!isfinite(value) && !may_be_inf && !may_be_minus_inf))
    return (moe__ref_judged_t){.exact = value};
  const bool in_blocks = product->in_blocks; /* then scales are in the sums already */
  const double sa = in_blocks ? 1 : moe__ref_vector_at(&product->sa, sums->row + i);
  const double sb = in_blocks ? 1 : moe__ref_vector_at(&product->sb, sums->column + j);
  const double bias = moe__ref_vector_at(&product->bias, sums->column + j);
  const double scaled = sb * (sa * dot);
  const double exact = scaled + bias;
  const double pieces = ceil((double)product->depth / product->piece);
  /* fp32 additions; with scales of blocks also one rounding of each product of two scales. */
  const double roundings = pieces + in_blocks;
  const double underflow = in_blocks ? pieces + sums->unscaled[i][j] : 1 + fabs(sb);
  double sum_error = tensor_core_error * magnitude;
  if (product->in_halves)
    sum_error = (tensor_core_error_halves +
                 tensor_core_rounding * ceil((double)product->depth / HALVES_DEPTH)) *
                magnitude;
  else if (accumulation == MOE_REF_PROMOTED)
    sum_error = tensor_core_error * sqrt(sums->squares[i][j]) + roundings * 0x1p-24 * magnitude;
  const double before_cast = fabs(sb * sa) * sum_error;
  const double before_bias = product->bias.data != NULL ? epilogue_error * fabs(scaled) : 0;
  const double bound = before_cast + before_bias +
                       moe__ref_cast_error(product->out.dtype, exact, before_cast) +
                       0x1p-149 * underflow;
  return (moe__ref_judged_t){exact, bound, may_be_inf, may_be_minus_inf};
}

typedef struct {
  moe_ref_accumulation_t accumulation;
  int64_t begin, columns;
  double *exact, *bound;
} exact_t;

static void exact_tile(void *context, const moe__ref_product_t *product,
                       const moe__ref_sums_t *sums) {
  const exact_t *const to = context;
  for (int i = 0; i < sums->rows; i++)
    for (int j = 0; j < sums->columns; j++) {
      const int64_t row = product->first_row + sums->row + i - to->begin;
      const int64_t at = row * to->columns + sums->column + j;
      const moe__ref_judged_t judged = judge_element(product, sums, to->accumulation, i, j);
      to->exact[at] = judged.exact;
      to->bound[at] = judged.bound;
    }
}

static bool is_accumulation(moe_ref_accumulation_t accumulation) {
  switch (accumulation) {
#define MOE_ACCUMULATION(symbol, text) case MOE_REF_##symbol:
#include "moe/accumulations.def"
    return true;
  }
  return false;
}

moe_ref_status_t moe_ref_scaled_mm_exact(const moe_ref_scaled_mm_t *mm,
                                         moe_ref_accumulation_t accumulation, int64_t begin,
                                         int64_t end, double *exact, double *bound) {
  if (moe_ref_scaled_mm_rows(mm) < 0 || !is_accumulation(accumulation))
    return MOE_REF_INVALID_ARGUMENT;
  exact_t to = {.accumulation = accumulation,
                .begin = begin,
                .columns = mm->out->shape[mm->out->rank - 1],
                .exact = exact,
                .bound = bound};
  return moe__ref_gemm_tiles(mm, begin, end, true, exact_tile, &to);
}

/* ---- The score of a result ---- */

/* The error of an element in bounds. */
static double error_of(double found, moe__ref_judged_t judged, const cast_t *cast) {
  if (isnan(found) && judged.may_be_inf && judged.may_be_minus_inf)
    return 0;
  if (isinf(found) && (found > 0 ? judged.may_be_inf : judged.may_be_minus_inf))
    return 0;
  if (isnan(judged.exact) || isinf(judged.exact))
    return isnan(judged.exact) ? (isnan(found) ? 0 : INFINITY)
                               : (found == judged.exact ? 0 : INFINITY);
  if (isnan(found))
    return INFINITY;
  if (isinf(found)) {
    const bool may_overflow = fabs(judged.exact) + judged.bound > cast->largest;
    return may_overflow && (found > 0) == (judged.exact > 0) ? 0 : INFINITY;
  }
  const double error = fabs(found - judged.exact);
  return error == 0 ? 0 : error / judged.bound;
}

/* Takes over the part's worst element if it is worse than that of the total. */
static void keep_worst(moe_ref_score_t *total, const moe_ref_score_t *part) {
  if (total->elements > 0 && part->worst <= total->worst)
    return;
  total->worst = part->worst;
  total->row = part->row;
  total->column = part->column;
  total->exact = part->exact;
  total->bound = part->bound;
}

void moe_ref_score_add(moe_ref_score_t *total, const moe_ref_score_t *part) {
  if (part->elements == 0)
    return;
  keep_worst(total, part);
  total->elements += part->elements;
  total->failures += part->failures;
  total->signal += part->signal;
  total->noise += part->noise;
}

typedef struct {
  moe_ref_accumulation_t accumulation;
  moe_ref_score_t *score;
} judge_t;

void moe__ref_score_element(double found, const moe__ref_judged_t *judged, moe_ref_dtype_t out,
                            int64_t row, int64_t column, moe_ref_score_t *score) {
  const cast_t cast = cast_of(out);
  moe_ref_score_t element = {.elements = 1,
                             .worst = error_of(found, *judged, &cast),
                             .row = row,
                             .column = column,
                             .exact = judged->exact,
                             .bound = judged->bound};
  element.failures = element.worst > 1;
  if (isfinite(judged->exact) && isfinite(found)) {
    element.signal = judged->exact * judged->exact;
    element.noise = (found - judged->exact) * (found - judged->exact);
  }
  moe_ref_score_add(score, &element);
}

static void judge_tile(void *context, const moe__ref_product_t *product,
                       const moe__ref_sums_t *sums) {
  const judge_t *const judge = context;
  const moe__ref_matrix_t *const out = &product->out;
  for (int i = 0; i < sums->rows; i++)
    for (int j = 0; j < sums->columns; j++) {
      const int64_t row = sums->row + i, column = sums->column + j;
      const double found =
          moe__ref_element_load(out->dtype, out->data, row * out->row + column * out->column);
      const moe__ref_judged_t judged = judge_element(product, sums, judge->accumulation, i, j);
      moe__ref_score_element(found, &judged, out->dtype, product->first_row + row, column,
                             judge->score);
    }
}

moe_ref_status_t moe_ref_scaled_mm_judge(const moe_ref_scaled_mm_t *mm,
                                         moe_ref_accumulation_t accumulation, int64_t begin,
                                         int64_t end, moe_ref_score_t *score) {
  if (!is_accumulation(accumulation))
    return MOE_REF_INVALID_ARGUMENT;
  judge_t judge = {.accumulation = accumulation, .score = score};
  return moe__ref_gemm_tiles(mm, begin, end, true, judge_tile, &judge);
}

double moe_ref_score_sqnr(const moe_ref_score_t *score) {
  return score->noise == 0 ? INFINITY : 10 * log10(score->signal / score->noise);
}

int moe_ref_accumulation_from_name(const char *name) {
  if (name == NULL)
    return -1;
#define MOE_ACCUMULATION(symbol, text)                                                             \
  if (strcmp(name, text) == 0)                                                                     \
    return MOE_REF_##symbol;
#include "moe/accumulations.def"
  return -1;
}
