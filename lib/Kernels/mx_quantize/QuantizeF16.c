/* QuantizeF16.c - the kernel of mx_quantize.quantize_f16 and dequantize_f16: rows of bf16, or of MX
 * blocks, become rows of f16, each over a power of two.
 *
 * A CTA has a row: it reads it for the greatest magnitude and once more, from cache, for the
 * elements. The rows in flight are few enough for that. bf16 has 8 significant bits of f16's 11, so
 * that only the range matters: what is 2^-29 of the row's greatest, or more, stays as it is. Of MX
 * blocks it looks at the scales alone.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Builder/Inspect.h"
#include "lib/Device/Async.h"
#include "lib/Device/Fp8.h"
#include "lib/Device/Vectors.h"
#include "lib/Device/Warp.h"
#include "lib/Dialect/Dialect.h"
#include "lib/Dialect/Shapes.h"
#include "lib/Kernels/Kernels.h"
#include "lib/Kernels/Requirements.h"
#include "lib/Kernels/mx_quantize/Dequantize.h"
#include "lib/Kernels/mx_quantize/Schedule.h"

#define ELEMENTS (2 * MOE__VECTOR_WORDS) /* of a vector */

/* Up to so many columns CTAs of four warps are faster: half of one of eight warps, which has four
 * vectors for each lane, would be idle. */
#define SHORT_ROW 4096
#define E8M0_NAN 255
#define GREATEST_EXPONENT 254 /* of a row's greatest, with its bias; Inf and NaN have it */

MOE__SCHEDULE_KIND(moe__quantize_f16_schedule, moe__quantize_f16_schedule_t,
                   MOE__QUANTIZE_F16_SCHEDULE, "quantize_f16", "quantize_f16 and dequantize_f16");

static moe__candidates_t candidates(MlirOperation op) {
  static const moe__quantize_f16_schedule_t LONG[] = {{.vectors = 4, .warps = 8, .ctas_per_sm = 5},
                                                      {.vectors = 2, .warps = 8, .ctas_per_sm = 6}};
  static const moe__quantize_f16_schedule_t SHORT[] = {
      {.vectors = 4, .warps = 4, .ctas_per_sm = 8}, {.vectors = 2, .warps = 4, .ctas_per_sm = 10}};
  /* Rows of MX blocks have half the bytes: what counts is how many of them are in flight, also
   * where their size is not known. */
  static const moe__quantize_f16_schedule_t BLOCKS[] = {
      {.vectors = 4, .warps = 4, .ctas_per_sm = 10}, {.vectors = 2, .warps = 4, .ctas_per_sm = 12}};
  int64_t columns = moe__static_dimension(moe__tensor_type(op, MOE__X), 1);
  if (moe__is(op, MOE__OP_DEQUANTIZE_F16) && columns <= SHORT_ROW)
    return MOE__CANDIDATES(BLOCKS);
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
          moe__error(op, "the kernel takes x and q row-major; remove their encoding")) &&
         moe__needs_multiple_of_16(op, MOE__X, 1);
}

/* ---- The kernel under construction ---- */

typedef struct halve_t {
  moe__kernel_t kernel;
  moe__extent_t rows, columns;
  moe__quantize_f16_schedule_t schedule;
  layout_t layout;
  bool mx;                    /* rows are of MX blocks */
  bool evens_first;           /* of each 16 columns those with an even number come first */
  MlirValue from, to, scales; /* !llvm.ptr<1>: the rows, those of f16, and their scales */
  MlirValue blocks;           /* !llvm.ptr<1>: scales of MX blocks */
} halve_t;

/* The exponent that the greatest magnitude of a row, or the greatest scale, is brought to: 448
 * times 2^7 is in range. */
static int target_of(const halve_t *s) {
  return s->mx ? 7 : 15;
}

/* Columns that the CTA has with so many vectors of each lane. */
static int columns_of(const halve_t *s, int vectors) {
  return s->schedule.warps * MOE__WARP * ELEMENTS * vectors;
}

/* ---- The exponent of a row ---- */

static MlirValue larger_of_bf16(moe__builder_t *b, MlirValue x, MlirValue y) {
  return moe__word_max(b, &moe__bf16_elements, x, y);
}

/* The greatest of all lanes of the CTA, in all of them. */
static MlirValue greatest_of_cta(halve_t *s, MlirValue own,
                                 MlirValue (*larger)(moe__builder_t *, MlirValue, MlirValue)) {
  moe__builder_t *b = &s->kernel.builder;
  own = moe__warp_reduce(b, own, larger);
  MlirValue place = moe__offset_by(b, s->kernel.shared, s->layout.greatest);
  MOE__IF (b, moe__eq(b, moe__and(b, s->kernel.thread, MOE__WARP - 1), 0)) {
    moe__store(b, own, moe__offset(b, place, moe__shl(b, moe__lshr(b, s->kernel.thread, 5), 2)));
  }
  moe__cta_barrier(b);
  for (int warp = 0; warp < s->schedule.warps; warp++)
    own = larger(b, own, moe__load(b, moe__offset_by(b, place, 4 * warp), b->i32));
  moe__cta_barrier(b); /* the next row's are written behind it */
  return own;
}

/* Where element number `row` (i64) + `column` (i32) of the tensor is. */
static MlirValue element_at(halve_t *s, MlirValue tensor, int bytes, MlirValue row,
                            MlirValue column) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue element = moe__add(b, row, moe__zext(b, column, b->i64));
  return moe__offset(b, tensor, bytes == 1 ? element : moe__shl(b, element, 1));
}

/* Of rows of bf16, with its bias. */
static MlirValue exponent_of_numbers(halve_t *s, MlirValue row, MlirValue own) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue greatest = moe__i32(b, 0), last = moe__sub(b, s->columns.value, ELEMENTS);
  int count = s->schedule.vectors;
  MOE__FOR (b, first, 0, s->columns.value, columns_of(s, count), &greatest) {
    MlirValue vectors[MOE__MAX_VECTORS];
    for (int i = 0; i < count; i++) { /* what is behind the end is the end again */
      MlirValue column = moe__add(b, moe__add(b, first, own), columns_of(s, i));
      vectors[i] = moe__vector_load(b, element_at(s, s->from, 2, row, moe__umin(b, column, last)));
    }
    for (int i = 0; i < count; i++)
      greatest = moe__word_max(b, &moe__bf16_elements, greatest,
                               moe__vector_magnitudes(b, &moe__bf16_elements, vectors[i]));
  }
  greatest = greatest_of_cta(s, greatest, larger_of_bf16);
  return moe__lshr(b, moe__word_amax(b, &moe__bf16_elements, greatest), MOE__F32_MANTISSA_BITS);
}

/* The greatest scale of row number `index`, but for NaN. */
static MlirValue exponent_of_blocks(halve_t *s, MlirValue index) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue greatest = moe__i32(b, 0), count = moe__udiv(b, s->columns.value, MOE_MX_BLOCK);
  MlirValue row = moe__wide_mul(b, index, count), last = moe__sub(b, count, 1);
  MOE__FOR (b, first, 0, count, s->kernel.layout.threads, &greatest) {
    MlirValue own = moe__umin(b, moe__add(b, first, s->kernel.thread), last);
    MlirValue byte = moe__load(b, element_at(s, s->blocks, 1, row, own), b->i8);
    byte = moe__zext(b, byte, b->i32);
    byte = moe__select(b, moe__eq(b, byte, E8M0_NAN), moe__i32(b, 0), byte);
    greatest = moe__umax(b, greatest, byte);
  }
  return greatest_of_cta(s, greatest, moe__umax);
}

/* ---- The elements of a row ---- */

/* 8 columns: of bf16, or of an MX block with its scale. */
typedef struct vector_t {
  MlirValue numbers;
  moe__mx_vector_t block;
} vector_t;

static vector_t load_vector(halve_t *s, MlirValue row, MlirValue column) {
  moe__builder_t *b = &s->kernel.builder;
  if (!s->mx)
    return (vector_t){.numbers = moe__vector_load(b, element_at(s, s->from, 2, row, column))};
  MlirValue at = moe__add(b, row, moe__zext(b, column, b->i64));
  return (vector_t){.block =
                        moe__mx_vector_load(b, &moe__bf16_elements, moe__offset(b, s->from, at),
                                            moe__offset(b, s->blocks, moe__lshr(b, at, 5)))};
}

/* Its elements, times `factor` (f32). */
static void store_vector(halve_t *s, const vector_t *vector, MlirValue factor, MlirValue to) {
  moe__builder_t *b = &s->kernel.builder;
  MlirType f16 = moe__type(b, "f16");
  MlirValue words[MOE__VECTOR_WORDS], numbers[ELEMENTS];
  if (s->mx) {
    MlirValue scale = moe__e8m0_value(b, moe__zext(b, vector->block.scale, b->i32));
    factor = moe__fmul(b, scale, factor);
    for (int i = 0; i < 2; i++)
      moe__fp8_unpack4(b, moe__extract(b, vector->block.q, i), MOE__E4M3,
                       numbers + (ptrdiff_t)4 * i);
  } else {
    moe__vector_words(b, &moe__bf16_elements, vector->numbers, words);
    for (int i = 0; i < ELEMENTS; i++)
      numbers[i] = moe__word_element(b, &moe__bf16_elements, words[i / 2], i % 2);
  }
  for (int i = 0; i < ELEMENTS; i++)
    numbers[i] = moe__fmul(b, numbers[i], factor);
  for (int i = 0; i < MOE__VECTOR_WORDS; i++)
    words[i] = moe__pack_halves(b, f16, numbers + (ptrdiff_t)2 * i);
  moe__store_aligned(b, moe__vector(b, MOE__VECTOR_WORDS, words), to, MOE__VECTOR_BYTES);
}

static void load_vectors(halve_t *s, MlirValue row, MlirValue first, vector_t *out) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue last = moe__sub(b, s->columns.value, ELEMENTS);
  for (int i = 0; i < s->schedule.vectors; i++) {
    MlirValue column = moe__add(b, first, columns_of(s, i));
    out[i] = load_vector(s, row, moe__umin(b, column, last));
  }
  for (int i = 0; i < s->schedule.vectors && s->evens_first; i++)
    out[i].block.q = moe__fp8_evens_first(b, s->kernel.thread, out[i].block.q);
}

static void store_vectors(halve_t *s, MlirValue row, MlirValue first, MlirValue factor,
                          const vector_t *vectors) {
  moe__builder_t *b = &s->kernel.builder;
  for (int i = 0; i < s->schedule.vectors; i++) {
    MlirValue column = moe__add(b, first, columns_of(s, i));
    MOE__IF (b, moe__ult(b, column, s->columns.value)) {
      store_vector(s, &vectors[i], factor, element_at(s, s->to, 2, row, column));
    }
  }
}

static void quantize_row(halve_t *s, MlirValue index) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue row = moe__wide_mul(b, index, s->columns.value);
  MlirValue own = moe__mul(b, s->kernel.thread, ELEMENTS);
  int at_once = columns_of(s, s->schedule.vectors), target = target_of(s);
  /* Of MX blocks the first elements come while the scales are looked at. */
  vector_t vectors[MOE__MAX_VECTORS] = {{{NULL}, {{NULL}, {NULL}}}};
  if (s->mx)
    load_vectors(s, row, own, vectors);
  MlirValue exponent = s->mx ? exponent_of_blocks(s, index) : exponent_of_numbers(s, row, own);
  /* Of the least the scale is the least normal number. */
  exponent = moe__umin(b, moe__umax(b, exponent, target + 1), GREATEST_EXPONENT);
  /* 2^(exponent - target), without biases, and the inverse of it. */
  MlirValue scale = moe__shl(b, moe__sub(b, exponent, target), MOE__F32_MANTISSA_BITS);
  MlirValue inverse = moe__shl(b, moe__sub(b, moe__i32(b, 2 * MOE__F32_BIAS + target), exponent),
                               MOE__F32_MANTISSA_BITS);
  MlirValue factor = moe__bitcast(b, inverse, b->f32);
  if (s->mx)
    store_vectors(s, row, own, factor, vectors);
  MOE__FOR (b, first, s->mx ? at_once : 0, s->columns.value, at_once) {
    MlirValue column = moe__add(b, first, own);
    load_vectors(s, row, column, vectors);
    store_vectors(s, row, column, factor, vectors);
  }
  MOE__IF (b, moe__eq(b, s->kernel.thread, 0)) {
    moe__store(b, moe__bitcast(b, scale, b->f32),
               moe__offset(b, s->scales, moe__shl(b, moe__zext(b, index, b->i64), 2)));
  }
}

static bool lower(const moe__lowering_t *lowering) {
  const moe__quantize_f16_schedule_t *schedule = lowering->schedule;
  const layout_t *layout = lowering->layout;
  MlirOperation op = lowering->op;
  halve_t s = {.schedule = *schedule,
               .layout = *layout,
               .mx = moe__is(op, MOE__OP_DEQUANTIZE_F16),
               .evens_first = moe__has_evens_first(op)};
  moe__kernel_t *kernel = &s.kernel;
  moe__builder_t *b = &kernel->builder;
  moe__lowering_begin(lowering, kernel);
  int number = moe__tensor_number(op, MOE__X);
  MlirType x = moe__tensor_type(op, MOE__X);
  s.rows = moe__kernel_extent(kernel, number, 0, x);
  s.columns = moe__kernel_extent(kernel, number, 1, x);
  s.from = moe__kernel_pointer(kernel, moe__tensor_number(op, s.mx ? MOE__Q : MOE__X));
  if (s.mx)
    s.blocks = moe__kernel_pointer(kernel, moe__tensor_number(op, MOE__SCALES));
  s.to = moe__kernel_pointer(kernel, moe__tensor_number(op, s.mx ? MOE__X : MOE__Q));
  s.scales =
      moe__kernel_pointer(kernel, moe__tensor_number(op, s.mx ? MOE__SCALES_X : MOE__SCALES));
  moe__require_shapes(kernel, op);
  moe__kernel_require(kernel, number, 1, MOE__MULTIPLE_OF, s.mx ? MOE_MX_BLOCK : 16);
  moe__kernel_prologue(kernel);
  moe__kernel_await_launches(kernel);
  if (moe__dequantize_has_few_tokens(op))
    moe__grid_launch_dependents(b);
  MOE__FOR (b, index, kernel->cta, s.rows.value, kernel->cta_count) {
    quantize_row(&s, index);
  }
  moe__lowering_end(
      lowering, kernel,
      moe__expression_persistent(&kernel->record, s.rows.expression, schedule->ctas_per_sm));
  return true;
}

const moe__kernel_definition_t moe__quantize_f16_kernel = {
    .ops = {MOE__OP_QUANTIZE_F16, MOE__OP_DEQUANTIZE_F16},
    .has_kernel = has_kernel,
    .schedule = &moe__quantize_f16_schedule,
    .candidates = candidates,
    .layout_size = sizeof(layout_t),
    .layout = lay_out,
    .lower = lower,
};
