/* QuantizeF16.c - the kernel of mx_quantize.quantize_f16: rows of bf16 become rows of f16, each
 * over a power of two.
 *
 * A CTA has a row: it reads it for the greatest magnitude and once more, from cache, for the
 * elements. The rows in flight are few enough for that. bf16 has 8 significant bits of f16's 11, so
 * that only the range matters: what is 2^-29 of the row's greatest, or more, stays as it is.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Builder/Inspect.h"
#include "lib/Device/Async.h"
#include "lib/Device/Vectors.h"
#include "lib/Device/Warp.h"
#include "lib/Dialect/Dialect.h"
#include "lib/Dialect/Shapes.h"
#include "lib/Kernels/Kernels.h"
#include "lib/Kernels/Requirements.h"
#include "lib/Kernels/mx_quantize/Schedule.h"

#define ELEMENTS (2 * MOE__VECTOR_WORDS) /* of a vector */

/* Up to so many columns CTAs of four warps are faster: half of one of eight warps, which has four
 * vectors for each lane, would be idle. */
#define SHORT_ROW 4096
#define F16_EXPONENT 15 /* that the greatest magnitude of a row is brought to */
/* Exponents of it, with their bias: of the least the scale is the least normal number; Inf and NaN
 * have the greatest. */
#define LEAST_EXPONENT (F16_EXPONENT + 1)
#define GREATEST_EXPONENT 254

MOE__SCHEDULE_KIND(moe__quantize_f16_schedule, moe__quantize_f16_schedule_t,
                   MOE__QUANTIZE_F16_SCHEDULE, "quantize_f16", "quantize_f16");

static moe__candidates_t candidates(MlirOperation op) {
  static const moe__quantize_f16_schedule_t LONG[] = {{.vectors = 4, .warps = 8, .ctas_per_sm = 5},
                                                      {.vectors = 2, .warps = 8, .ctas_per_sm = 6}};
  static const moe__quantize_f16_schedule_t SHORT[] = {
      {.vectors = 4, .warps = 4, .ctas_per_sm = 8}, {.vectors = 2, .warps = 4, .ctas_per_sm = 10}};
  int64_t columns = moe__static_dimension(moe__tensor_type(op, MOE__X), 1);
  return columns >= 0 && columns <= SHORT_ROW ? MOE__CANDIDATES(SHORT) : MOE__CANDIDATES(LONG);
}

typedef struct layout_t {
  moe__layout_t cta;
  int32_t greatest; /* where each warp puts the greatest magnitudes that it has found */
} layout_t;

static bool lay_out(MlirOperation op, const void *schedule, void *out) {
  const moe__quantize_f16_schedule_t *s = schedule;
  layout_t *l = out;
  if (!moe__vectors_fit(op, s->vectors))
    return false;
  l->cta.threads = s->warps * MOE__WARP;
  l->cta.ctas_per_sm = s->ctas_per_sm;
  l->cta.registers = moe__vector_registers(s->vectors);
  l->greatest = moe__layout_shared(&l->cta, s->warps * 4, 16);
  return true;
}

static bool has_kernel(MlirOperation op) {
  return ((moe__is_row_major(moe__tensor_type(op, MOE__X)) &&
           moe__is_row_major(moe__tensor_type(op, MOE__Q))) ||
          moe__error(op, "the kernel takes x and writes q row-major; remove their encoding")) &&
         moe__needs_multiple_of_16(op, MOE__X, 1);
}

/* ---- The kernel under construction ---- */

typedef struct halve_t {
  moe__kernel_t kernel;
  moe__extent_t rows, columns;
  moe__quantize_f16_schedule_t schedule;
  layout_t layout;
  MlirValue x, q, scales; /* !llvm.ptr<1> */
} halve_t;

/* Columns that the CTA has with so many vectors of each lane. */
static int columns_of(const halve_t *s, int vectors) {
  return s->schedule.warps * MOE__WARP * ELEMENTS * vectors;
}

/* Byte of the lane's vector `i` of those from `column` (i32) on, in a row that begins at `row`. */
static MlirValue vector_at(halve_t *s, MlirValue tensor, MlirValue row, MlirValue column) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue element = moe__add(b, row, moe__zext(b, column, b->i64));
  return moe__offset(b, tensor, moe__shl(b, element, 1));
}

/* The greatest magnitudes of all warps of the CTA, in all of their lanes. */
static MlirValue greatest_of_cta(halve_t *s, MlirValue own) {
  moe__builder_t *b = &s->kernel.builder;
  for (int mask = 1; mask < MOE__WARP; mask *= 2)
    own = moe__word_max(b, &moe__bf16_elements, own, moe__shuffle_xor(b, own, mask));
  MlirValue place = moe__offset_by(b, s->kernel.shared, s->layout.greatest);
  MOE__IF (b, moe__eq(b, moe__and(b, s->kernel.thread, MOE__WARP - 1), 0)) {
    moe__store(b, own, moe__offset(b, place, moe__shl(b, moe__lshr(b, s->kernel.thread, 5), 2)));
  }
  moe__cta_barrier(b);
  for (int warp = 0; warp < s->schedule.warps; warp++)
    own = moe__word_max(b, &moe__bf16_elements, own,
                        moe__load(b, moe__offset_by(b, place, 4 * warp), b->i32));
  moe__cta_barrier(b); /* the next row's are written behind it */
  return own;
}

/* The exponent (i32, with its bias) of the row's greatest magnitude. */
static MlirValue exponent_of_row(halve_t *s, MlirValue row, MlirValue own) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue greatest = moe__i32(b, 0), last = moe__sub(b, s->columns.value, ELEMENTS);
  int count = s->schedule.vectors;
  MOE__FOR (b, first, 0, s->columns.value, columns_of(s, count), &greatest) {
    MlirValue vectors[MOE__MAX_VECTORS];
    for (int i = 0; i < count; i++) { /* what is behind the end is the end again */
      MlirValue column = moe__add(b, moe__add(b, first, own), columns_of(s, i));
      vectors[i] = moe__vector_load(b, vector_at(s, s->x, row, moe__umin(b, column, last)));
    }
    for (int i = 0; i < count; i++)
      greatest = moe__word_max(b, &moe__bf16_elements, greatest,
                               moe__vector_magnitudes(b, &moe__bf16_elements, vectors[i]));
  }
  greatest = greatest_of_cta(s, greatest);
  MlirValue exponent =
      moe__lshr(b, moe__word_amax(b, &moe__bf16_elements, greatest), MOE__F32_MANTISSA_BITS);
  return moe__umin(b, moe__umax(b, exponent, LEAST_EXPONENT), GREATEST_EXPONENT);
}

static void store_vector(halve_t *s, MlirValue vector, MlirValue factor, MlirValue to) {
  moe__builder_t *b = &s->kernel.builder;
  MlirType f16 = moe__type(b, "f16");
  MlirValue words[MOE__VECTOR_WORDS];
  moe__vector_words(b, &moe__bf16_elements, vector, words);
  for (int i = 0; i < MOE__VECTOR_WORDS; i++) {
    MlirValue pair[2];
    for (int h = 0; h < 2; h++)
      pair[h] = moe__fmul(b, moe__word_element(b, &moe__bf16_elements, words[i], h), factor);
    words[i] = moe__pack_halves(b, f16, pair);
  }
  moe__store_aligned(b, moe__vector(b, MOE__VECTOR_WORDS, words), to, MOE__VECTOR_BYTES);
}

/* The row's elements, times `factor` (f32). */
static void store_row(halve_t *s, MlirValue row, MlirValue own, MlirValue factor) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue last = moe__sub(b, s->columns.value, ELEMENTS);
  int count = s->schedule.vectors;
  MOE__FOR (b, first, 0, s->columns.value, columns_of(s, count)) {
    MlirValue vectors[MOE__MAX_VECTORS], columns[MOE__MAX_VECTORS];
    for (int i = 0; i < count; i++) {
      columns[i] = moe__add(b, moe__add(b, first, own), columns_of(s, i));
      vectors[i] = moe__vector_load(b, vector_at(s, s->x, row, moe__umin(b, columns[i], last)));
    }
    for (int i = 0; i < count; i++)
      MOE__IF (b, moe__ult(b, columns[i], s->columns.value)) {
        store_vector(s, vectors[i], factor, vector_at(s, s->q, row, columns[i]));
      }
  }
}

static void quantize_row(halve_t *s, MlirValue index) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue row = moe__wide_mul(b, index, s->columns.value);
  MlirValue own = moe__mul(b, s->kernel.thread, ELEMENTS);
  MlirValue exponent = exponent_of_row(s, row, own);
  /* 2^(exponent - F16_EXPONENT), without biases, and the inverse of it. */
  MlirValue scale = moe__shl(b, moe__sub(b, exponent, F16_EXPONENT), MOE__F32_MANTISSA_BITS);
  MlirValue inverse =
      moe__shl(b, moe__sub(b, moe__i32(b, 2 * MOE__F32_BIAS + F16_EXPONENT), exponent),
               MOE__F32_MANTISSA_BITS);
  store_row(s, row, own, moe__bitcast(b, inverse, b->f32));
  MOE__IF (b, moe__eq(b, s->kernel.thread, 0)) {
    moe__store(b, moe__bitcast(b, scale, b->f32),
               moe__offset(b, s->scales, moe__shl(b, moe__zext(b, index, b->i64), 2)));
  }
}

static bool lower(const moe__lowering_t *lowering) {
  const moe__quantize_f16_schedule_t *schedule = lowering->schedule;
  const layout_t *layout = lowering->layout;
  MlirOperation op = lowering->op;
  halve_t s = {.schedule = *schedule, .layout = *layout};
  moe__kernel_t *kernel = &s.kernel;
  moe__builder_t *b = &kernel->builder;
  moe__lowering_begin(lowering, kernel);
  int number = moe__tensor_number(op, MOE__X);
  MlirType x = moe__tensor_type(op, MOE__X);
  s.rows = moe__kernel_extent(kernel, number, 0, x);
  s.columns = moe__kernel_extent(kernel, number, 1, x);
  s.x = moe__kernel_pointer(kernel, number);
  s.q = moe__kernel_pointer(kernel, moe__tensor_number(op, MOE__Q));
  s.scales = moe__kernel_pointer(kernel, moe__tensor_number(op, MOE__SCALES));
  moe__require_shapes(kernel, op);
  moe__kernel_require(kernel, number, 1, MOE__MULTIPLE_OF, 16);
  moe__kernel_prologue(kernel);
  moe__kernel_await_launches(kernel);
  MOE__FOR (b, index, kernel->cta, s.rows.value, kernel->cta_count) {
    quantize_row(&s, index);
  }
  moe__lowering_end(
      lowering, kernel,
      moe__expression_persistent(&kernel->record, s.rows.expression, schedule->ctas_per_sm));
  return true;
}

const moe__kernel_definition_t moe__quantize_f16_kernel = {
    .ops = {MOE__OP_QUANTIZE_F16},
    .has_kernel = has_kernel,
    .schedule = &moe__quantize_f16_schedule,
    .candidates = candidates,
    .layout_size = sizeof(layout_t),
    .layout = lay_out,
    .lower = lower,
};
