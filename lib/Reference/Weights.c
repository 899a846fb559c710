/* Weights.c - weights of four or eight bits: the order in which a kernel reads them, and their
 * products with tokens.
 *
 * Why it exists: every kernel of mixed_mm and pack_weights is compared with it. docs/numerics.md
 * has the formula and the picture of a tile.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Reference/Judged.h"
#include "lib/Reference/Tensors.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
  TILE_ROWS = MOE_WEIGHT_ROWS,
  TILE_COLUMNS = MOE_WEIGHT_COLUMNS,
  TILE_BYTES = MOE_WEIGHT_BYTES,
  LONGEST_DOT = 128, /* of a sum that the tensor core has alone */
};

/* ---- Layouts ---- */

#define WEIGHT_BITS 4
#define WORD_BITS 32
#define WORD_BYTES 4

/* Where an element of a tile is: the first byte of a little-endian word, and in it each of its
 * bits, the lowest first. */
typedef struct place_t {
  int byte, bits[WEIGHT_BITS];
} place_t;

/* A lane has 16 bytes, a word of them for 16 columns, which has two elements for each of the lane's
 * registers: the bits of the second one are 16 places further than those of the first. */
static place_t place_of(moe_ref_weight_layout_t layout, int row, int column) {
  static const int floats[][WEIGHT_BITS] = {
      {6, 7, 8, 15}, {2, 3, 4, 11}, {28, 29, 30, 5}, {0, 1, 10, 9}};
  const int lane = row % 8 * 4 + column % 8 / 2, word = column / 16;
  const int register_ = row / 8 + column % 16 / 8 * 2;
  place_t place = {.byte = lane * 16 + word * WORD_BYTES};
  for (int i = 0; i < WEIGHT_BITS; i++) {
    const int first =
        layout == MOE_REF_LAYOUT_16X64_E2M1 ? floats[register_][i] : WEIGHT_BITS * register_ + i;
    place.bits[i] = (first + column % 2 * 16) % WORD_BITS;
  }
  return place;
}

/* The element offset of a matrix of `tensor`, whose first dimension counts them if it has more
 * than `rank`. */
static int64_t matrix_at(const moe_ref_tensor_t *tensor, int rank, int64_t number) {
  return tensor->rank > rank ? number * tensor->strides[0] : 0;
}

/* The four bits in row n and column k of matrix number e. */
static int plain_at(const moe_ref_tensor_t *w, int64_t e, int64_t n, int64_t k) {
  const int64_t index =
      matrix_at(w, 2, e) + n * w->strides[w->rank - 2] + k / 2 * w->strides[w->rank - 1];
  return *(const uint8_t *)moe__ref_element_address(w, index) >> (k % 2 * 4) & 0xF;
}

/* Byte `index` of the word that has element (n, k) of matrix number e. */
static uint8_t *byte_at(const moe_ref_tensor_t *packed, int64_t e, int64_t n, int64_t k,
                        const place_t *place, int index) {
  const int64_t *const strides = packed->strides + packed->rank - 3;
  const int64_t tile =
      matrix_at(packed, 3, e) + n / TILE_ROWS * strides[0] + k / TILE_COLUMNS * strides[1];
  return moe__ref_element_address(packed, tile + (place->byte + index) * strides[2]);
}

static int packed_at(const moe_ref_tensor_t *packed, moe_ref_weight_layout_t layout, int64_t e,
                     int64_t n, int64_t k) {
  const place_t place = place_of(layout, (int)(n % TILE_ROWS), (int)(k % TILE_COLUMNS));
  int bits = 0;
  for (int i = 0; i < WEIGHT_BITS; i++)
    bits |= (*byte_at(packed, e, n, k, &place, place.bits[i] / 8) >> place.bits[i] % 8 & 1) << i;
  return bits;
}

static void set_packed(const moe_ref_tensor_t *packed, moe_ref_weight_layout_t layout, int64_t e,
                       int64_t n, int64_t k, int bits) {
  const place_t place = place_of(layout, (int)(n % TILE_ROWS), (int)(k % TILE_COLUMNS));
  for (int i = 0; i < WEIGHT_BITS; i++) {
    uint8_t *const byte = byte_at(packed, e, n, k, &place, place.bits[i] / 8);
    const int at = place.bits[i] % 8;
    *byte = (uint8_t)((*byte & ~(1 << at)) | (bits >> i & 1) << at);
  }
}

moe_ref_status_t moe_ref_pack_weights(const moe_ref_tensor_t *w, const moe_ref_tensor_t *packed,
                                      moe_ref_weight_layout_t layout) {
  if (!moe__ref_is_tensor(w) || !moe__ref_is_tensor(packed) || w->dtype != MOE_REF_U8 ||
      packed->dtype != MOE_REF_U8 || w->rank < 2 || w->rank > 3 || packed->rank != w->rank + 1)
    return MOE_REF_INVALID_ARGUMENT;
  const int64_t experts = w->rank == 3 ? w->shape[0] : 1;
  const int64_t rows = w->shape[w->rank - 2], columns = 2 * w->shape[w->rank - 1];
  const int64_t padded = moe_ref_padded(columns, TILE_COLUMNS);
  const int64_t *const shape = packed->shape + packed->rank - 3;
  if ((w->rank == 3 && packed->shape[0] != experts) || rows % TILE_ROWS ||
      shape[0] != rows / TILE_ROWS || shape[1] != padded / TILE_COLUMNS || shape[2] != TILE_BYTES)
    return MOE_REF_INVALID_ARGUMENT;
  for (int64_t e = 0; e < experts; e++)
    for (int64_t n = 0; n < rows; n++)
      for (int64_t k = 0; k < padded; k++)
        set_packed(packed, layout, e, n, k, k < columns ? plain_at(w, e, n, k) : 0);
  return MOE_REF_OK;
}

/* ---- Formats ---- */

int moe_ref_weight_format_from_name(const char *name) {
  if (name == NULL)
    return -1;
#define MOE_WEIGHT_FORMAT(symbol, text)                                                            \
  if (strcmp(name, text) == 0)                                                                     \
    return MOE_REF_WEIGHT_##symbol;
#include "moe/weight_formats.def"
  return -1;
}

double moe_ref_weight_value(moe_ref_weight_format_t format, int bits) {
  static const double magnitudes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  switch (format) {
  case MOE_REF_WEIGHT_I4:
    return (bits ^ 8) - 8;
  case MOE_REF_WEIGHT_UINT4B8:
    return bits - 8;
  case MOE_REF_WEIGHT_UI4:
    return bits;
  case MOE_REF_WEIGHT_E4M3:
    return moe__ref_f32_from_fp8((uint8_t)bits, moe__ref_e4m3);
  case MOE_REF_WEIGHT_E2M1:
    break;
  }
  return bits & 8 ? -magnitudes[bits & 7] : magnitudes[bits & 7];
}

/* ---- Products ---- */

/* The sizes of a product; experts: 1 where it has none. */
typedef struct sizes_t {
  int64_t experts, tokens, rows, depth, group, groups;
  bool packed;
} sizes_t;

static bool has_types(const moe_ref_mixed_mm_t *mm) {
  const moe_ref_dtype_t scales = mm->scales->dtype, x = mm->x->dtype, out = mm->out->dtype;
  return mm->w->dtype == (mm->format == MOE_REF_WEIGHT_E4M3 ? MOE_REF_E4M3 : MOE_REF_U8) &&
         (scales == MOE_REF_BF16 || scales == MOE_REF_F16 || scales == MOE_REF_F32 ||
          scales == MOE_REF_E8M0) &&
         (x == MOE_REF_BF16 || x == MOE_REF_F16) &&
         (out == MOE_REF_BF16 || out == MOE_REF_F16 || out == MOE_REF_F32);
}

/* Whether the weights have the shape of `s`; plain or packed by their rank, but for FP8. */
static bool has_weights(const moe_ref_mixed_mm_t *mm, bool experts, sizes_t *s) {
  const moe_ref_tensor_t *const w = mm->w;
  const int64_t *const shape = w->shape + experts;
  if (experts && w->shape[0] != s->experts)
    return false;
  if (mm->format == MOE_REF_WEIGHT_E4M3) {
    s->packed = mm->is_1x16;
    return w->rank == 2 + experts && shape[0] == s->rows && shape[1] == s->depth;
  }
  s->packed = w->rank == 3 + experts;
  if (s->packed)
    return shape[0] == s->rows / TILE_ROWS &&
           shape[1] == moe_ref_padded(s->depth, TILE_COLUMNS) / TILE_COLUMNS &&
           shape[2] == TILE_BYTES;
  return w->rank == 2 + experts && shape[0] == s->rows && shape[1] == s->depth / 2;
}

static bool find_sizes(const moe_ref_mixed_mm_t *mm, sizes_t *out) {
  if (mm == NULL || !moe__ref_has_shape(mm->w) || !moe__ref_has_shape(mm->scales) ||
      !moe__ref_has_shape(mm->x) || !moe__ref_has_shape(mm->out) || !has_types(mm) ||
      (mm->offs != NULL && !moe__ref_is_offsets(mm->offs)))
    return false;
  const bool experts = mm->offs != NULL;
  if (mm->scales->rank != 2 + experts || mm->x->rank != 2 || mm->out->rank != 2)
    return false;
  *out = (sizes_t){.experts = experts ? mm->scales->shape[0] : 1,
                   .tokens = mm->x->shape[0],
                   .rows = mm->scales->shape[experts],
                   .depth = mm->x->shape[1]};
  out->group = mm->group_size < 0 ? out->depth : mm->group_size;
  out->groups = mm->scales->shape[1 + experts];
  if (mm->zeros != NULL && (!moe__ref_has_shape(mm->zeros) || mm->zeros->dtype != MOE_REF_U8 ||
                            mm->zeros->rank != mm->scales->rank ||
                            memcmp(mm->zeros->shape, mm->scales->shape,
                                   (size_t)mm->scales->rank * sizeof *mm->scales->shape) != 0))
    return false;
  if (out->group < 1 || out->depth % out->group || out->depth / out->group != out->groups ||
      out->rows % TILE_ROWS || out->depth % MOE_MX_BLOCK)
    return false;
  if (mm->scales_x != NULL &&
      (!moe__ref_has_shape(mm->scales_x) || mm->scales_x->dtype != MOE_REF_F32 ||
       mm->scales_x->rank != 1 || mm->scales_x->shape[0] != out->tokens))
    return false;
  if (mm->bias != NULL && (!moe__ref_has_shape(mm->bias) || mm->bias->dtype != mm->out->dtype ||
                           mm->bias->rank != 1 + experts || mm->bias->shape[experts] != out->rows ||
                           (experts && mm->bias->shape[0] != out->experts)))
    return false;
  return (!experts || mm->offs->shape[0] == out->experts) && mm->out->shape[0] == out->tokens &&
         mm->out->shape[1] == out->rows && has_weights(mm, experts, out);
}

static bool has_data(const moe_ref_mixed_mm_t *mm) {
  return moe__ref_is_tensor(mm->w) && moe__ref_is_tensor(mm->scales) && moe__ref_is_tensor(mm->x) &&
         moe__ref_is_tensor(mm->out) && (mm->zeros == NULL || moe__ref_is_tensor(mm->zeros)) &&
         (mm->bias == NULL || moe__ref_is_tensor(mm->bias)) &&
         (mm->scales_x == NULL || moe__ref_is_tensor(mm->scales_x));
}

/* The bias of row n; 0 where there is none. */
static float bias_at(const moe_ref_tensor_t *bias, int64_t e, int64_t n) {
  if (bias == NULL)
    return 0;
  const int64_t index =
      (bias->rank == 2 ? e * bias->strides[0] : 0) + n * bias->strides[bias->rank - 1];
  return moe__ref_element_load(bias->dtype, bias->data, index);
}

/* The zero point of group j of row n. */
static int zero_at(const moe_ref_tensor_t *zeros, int64_t e, int64_t n, int64_t j) {
  const int64_t *const strides = zeros->strides + zeros->rank - 2;
  const int64_t index = matrix_at(zeros, 2, e) + n * strides[0] + j * strides[1];
  return *(const uint8_t *)moe__ref_element_address(zeros, index) & 0xF;
}

/* A row of one expert's weights, decoded, and the scales of its groups. */
typedef struct row_t {
  double *weights;
  float *scales;
} row_t;

/* The byte of an FP8 weight; in the layout "1x16" that of column k is where this says. */
static int fp8_at(const moe_ref_tensor_t *w, bool packed, int64_t e, int64_t n, int64_t k) {
  const int64_t within = k % 16, at = k - within + within % 8 * 2 + within / 8;
  const int64_t index = matrix_at(w, 2, e) + n * w->strides[w->rank - 2] +
                        (packed ? at : k) * w->strides[w->rank - 1];
  return *(const uint8_t *)moe__ref_element_address(w, index);
}

static const float greatest_fp8_scale = 0x1p37f;

static void decode_row(const moe_ref_mixed_mm_t *mm, const sizes_t *s, int64_t e, int64_t n,
                       const row_t *row) {
  const moe_ref_weight_layout_t layout =
      mm->format == MOE_REF_WEIGHT_E2M1 ? MOE_REF_LAYOUT_16X64_E2M1 : MOE_REF_LAYOUT_16X64;
  for (int64_t k = 0; k < s->depth; k++) {
    const int bits = mm->format == MOE_REF_WEIGHT_E4M3 ? fp8_at(mm->w, s->packed, e, n, k)
                     : s->packed                       ? packed_at(mm->w, layout, e, n, k)
                                                       : plain_at(mm->w, e, n, k);
    const int zero = mm->zeros != NULL ? zero_at(mm->zeros, e, n, k / s->group) : 0;
    row->weights[k] = moe_ref_weight_value(mm->format, bits) - zero;
  }
  const moe_ref_tensor_t *const scales = mm->scales;
  const int64_t *const strides = scales->strides + scales->rank - 2;
  const int64_t first = matrix_at(scales, 2, e) + n * strides[0];
  for (int64_t j = 0; j < s->groups; j++) {
    row->scales[j] = moe__ref_element_load(scales->dtype, scales->data, first + j * strides[1]);
    if (mm->format == MOE_REF_WEIGHT_E4M3 && mm->x->dtype != MOE_REF_F16 &&
        row->scales[j] > greatest_fp8_scale)
      row->scales[j] = NAN;
  }
}

/* Whether a kernel may multiply E2M1 weights by their scales, as it does those of FP8: over 2^30,
 * in bf16, where scales beyond the greatest one are NaN. */
static bool may_scale_weights(const moe_ref_mixed_mm_t *mm) {
  return mm->format == MOE_REF_WEIGHT_E2M1 && mm->scales->dtype == MOE_REF_E8M0 &&
         mm->x->dtype == MOE_REF_BF16;
}
static const float greatest_e2m1_scale = 0x1p31f;

/* Weights times their scales in f16: those of a row are over a power of two, by which the greatest
 * scale lies up to three exponents below what fits. What is left, as parts of that one: weights
 * times scales from `normal` on are normal; below it they may be subnormal, which a tensor core
 * takes for the least normal number when it cuts sums; weights lose at most `lost` where their
 * scales are below `exact`. */
typedef struct in_f16_t {
  double normal, exact, lost;
} in_f16_t;

/* Integers times scales of bf16, and E4M3 weights, whose last places are 2^-9. */
static const in_f16_t integers_in_f16 = {0x1p-23, 0x1p-26, 0x1p-34};
static const in_f16_t e4m3_in_f16 = {0x1p-18, 0x1p-19, 0x1p-29};

/* NULL: a kernel may not do so. */
static const in_f16_t *scaled_in_f16(const moe_ref_mixed_mm_t *mm) {
  if (mm->x->dtype != MOE_REF_F16)
    return NULL;
  if (mm->format == MOE_REF_WEIGHT_E4M3)
    return &e4m3_in_f16;
  const bool is_integer = mm->format == MOE_REF_WEIGHT_I4 || mm->format == MOE_REF_WEIGHT_UINT4B8;
  return is_integer && mm->scales->dtype == MOE_REF_BF16 ? &integers_in_f16 : NULL;
}

/* The power of two up to the greatest magnitude of the scales of a row that are finite; 0: none. */
static double power_of_row(const sizes_t *s, const float *scales) {
  double greatest = 0;
  for (int64_t j = 0; j < s->groups; j++)
    if (isfinite(scales[j]) && fabs((double)scales[j]) > greatest)
      greatest = fabs((double)scales[j]);
  return greatest > 0 ? ldexp(1, ilogb(greatest)) : 0;
}

/* What a row of weights and a token give, the bias in it: as fp32 rounds it, group after group;
 * without rounding; the sum of the products' magnitudes, and what weights may lose when they are
 * scaled. `overflows`: finite products reach so far that the order of their sum decides whether
 * it leaves fp32's range, or a scale is Inf: times a sum it is Inf, times weights, of which some
 * are 0, NaN. `is_nan`: no order of sums takes NaN away. Where a scale is Inf an order may: it
 * loses other bits, and products that would cancel do not. `may_be_nan`: a scale may count as
 * NaN. */
typedef struct sum_t {
  float rounded;
  double exact, magnitude, unscaled, lost;
  double scale; /* of the token, which all but the first two are without; 0: it has none, or that */
  bool overflows, is_nan, may_be_nan;
} sum_t;

/* Weights that are less when they are scaled may lose so much: half of bf16's least subnormal,
 * times 2^30. Products may lose as many of fp32's. */
static const double least_exact = 0x1p-100, most_lost = 0x1p-104, product_lost = 0x1p-119;

static sum_t sum_of(const moe_ref_mixed_mm_t *mm, const sizes_t *s, const row_t *row,
                    const double *x) {
  sum_t sum = {0};
  const bool may_scale = may_scale_weights(mm);
  const in_f16_t *in_f16 = scaled_in_f16(mm);
  const bool is_scaled = may_scale || (mm->format == MOE_REF_WEIGHT_E4M3 && in_f16 == NULL);
  const double least_token = moe__ref_least_normal(mm->x->dtype);
  const double power = in_f16 != NULL ? power_of_row(s, row->scales) : 0;
  sum.lost = is_scaled ? product_lost * (double)s->depth : 0;
  double all = 0; /* of finite magnitudes with their scales */
  for (int64_t j = 0; j < s->groups; j++) {
    double dot = 0, magnitude = 0, finite = 0;
    for (int64_t k = j * s->group; k < (j + 1) * s->group; k++) {
      const double product = row->weights[k] * x[k];
      dot += product;
      magnitude += fabs(row->weights[k]) * moe__ref_operand_magnitude(x[k], least_token);
      finite += isfinite(product) ? fabs(product) : 0;
      const double of_weight = fabs(row->weights[k] * row->scales[j]);
      if (in_f16 != NULL && of_weight > 0 && of_weight < in_f16->normal * power)
        sum.magnitude +=
            (in_f16->normal * power - of_weight) * moe__ref_operand_magnitude(x[k], least_token);
      if (in_f16 != NULL && of_weight > 0 && fabs((double)row->scales[j]) < in_f16->exact * power)
        sum.lost += in_f16->lost * power * fmax(1, fabs(row->weights[k])) * fabs(x[k]);
      if (is_scaled && row->weights[k] != 0 && of_weight < least_exact)
        sum.lost += most_lost * fabs(x[k]);
    }
    const double scaled = fabs((double)row->scales[j]) * finite;
    all += isfinite(scaled) ? scaled : 0;
    const bool is_infinite = isinf(row->scales[j]);
    sum.overflows |= finite > MOE__REF_FP32_RANGE || all > MOE__REF_FP32_RANGE || is_infinite;
    sum.may_be_nan |= may_scale && row->scales[j] > greatest_e2m1_scale;
    sum.is_nan |= isnan(row->scales[j]) || isnan(dot) || (is_infinite && magnitude == 0);
    sum.rounded = fmaf(row->scales[j], (float)dot, sum.rounded);
    sum.exact += row->scales[j] * dot;
    sum.magnitude += fabs((double)row->scales[j]) * magnitude;
    sum.unscaled += magnitude;
  }
  return sum;
}

/* Multiplies the sum by the scale of its token, which rounds once. */
static void scale_sum(float scale, sum_t *sum) {
  sum->rounded *= scale;
  sum->exact *= scale;
  sum->is_nan |= isnan(scale);
  sum->scale = fabs((double)scale);
}

/* What is done with each sum: it is stored, or judged. */
typedef void (*visit_t)(const moe_ref_mixed_mm_t *mm, const sizes_t *s, int64_t token, int64_t n,
                        const sum_t *sum, moe_ref_score_t *score);

/* The products of tokens [begin, end), all of expert e. */
static void products(const moe_ref_mixed_mm_t *mm, const sizes_t *s, int64_t e, int64_t begin,
                     int64_t end, const row_t *row, double *x, visit_t visit,
                     moe_ref_score_t *score) {
  for (int64_t m = begin; m < end; m++)
    for (int64_t k = 0; k < s->depth; k++)
      x[(m - begin) * s->depth + k] = moe__ref_element_load(
          mm->x->dtype, mm->x->data, m * mm->x->strides[0] + k * mm->x->strides[1]);
  for (int64_t n = 0; n < s->rows && begin < end; n++) {
    decode_row(mm, s, e, n, row);
    const float bias = bias_at(mm->bias, e, n);
    for (int64_t m = begin; m < end; m++) {
      sum_t sum = sum_of(mm, s, row, x + (m - begin) * s->depth);
      if (mm->scales_x != NULL)
        scale_sum(
            moe__ref_element_load(MOE_REF_F32, mm->scales_x->data, m * mm->scales_x->strides[0]),
            &sum);
      if (mm->bias != NULL) {
        sum.rounded += bias;
        sum.exact += bias;
        sum.is_nan |= isnan(bias);
      }
      visit(mm, s, m, n, &sum, score);
    }
  }
}

static moe_ref_status_t visit_products(const moe_ref_mixed_mm_t *mm, int64_t begin, int64_t end,
                                       visit_t visit, moe_ref_score_t *score) {
  sizes_t s;
  if (!find_sizes(mm, &s) || !has_data(mm) || begin < 0 || end < begin || end > s.tokens)
    return MOE_REF_INVALID_ARGUMENT;
  if (begin == end || moe__ref_is_empty(mm->out))
    return MOE_REF_OK;
  const row_t row = {calloc((size_t)s.depth, sizeof *row.weights),
                     calloc((size_t)s.groups, sizeof *row.scales)};
  double *const x = calloc((size_t)(end - begin) * (size_t)s.depth, sizeof *x);
  const bool ok = row.weights != NULL && row.scales != NULL && x != NULL;
  int64_t start = 0;
  for (int64_t e = 0; e < s.experts && ok; e++) {
    const int64_t stop =
        mm->offs != NULL ? moe__ref_group_end(mm->offs, e, start, s.tokens) : s.tokens;
    products(mm, &s, e, start > begin ? start : begin, stop < end ? stop : end, &row, x, visit,
             score);
    start = stop;
  }
  free(row.weights);
  free(row.scales);
  free(x);
  return ok ? MOE_REF_OK : MOE_REF_OUT_OF_MEMORY;
}

static int64_t out_at(const moe_ref_mixed_mm_t *mm, int64_t token, int64_t n) {
  return token * mm->out->strides[0] + n * mm->out->strides[1];
}

static void store(const moe_ref_mixed_mm_t *mm, const sizes_t *s, int64_t token, int64_t n,
                  const sum_t *sum, moe_ref_score_t *score) {
  (void)s;
  (void)score;
  moe__ref_element_store(mm->out->dtype, mm->out->data, out_at(mm, token, n), sum->rounded);
}

/* What a tensor core may lose of 16-bit operands, as a part of the magnitudes of at most 128
 * products. */
static const double tensor_core_error = 0x1p-19;

static void judge(const moe_ref_mixed_mm_t *mm, const sizes_t *s, int64_t token, int64_t n,
                  const sum_t *sum, moe_ref_score_t *score) {
  moe__ref_judged_t judged = {.exact = sum->rounded};
  const double found = moe__ref_element_load(mm->out->dtype, mm->out->data, out_at(mm, token, n));
  /* Inf and NaN are right then, and where Inf meets what may have become 0. */
  const bool is_open = sum->overflows || isinf(sum->lost);
  if ((is_open && !isfinite(found) && !(sum->is_nan && isinf(found))) ||
      (sum->may_be_nan && isnan(found))) {
    judged.exact = found;
  } else if (isfinite(sum->exact) && (sum->overflows || isfinite(sum->rounded))) {
    const int64_t longest = s->group < LONGEST_DOT ? s->group : LONGEST_DOT;
    const int64_t terms = s->depth / longest + 1;
    const double pieces = (double)terms;
    double error = (tensor_core_error + pieces * 0x1p-24) * sum->magnitude +
                   0x1p-149 * (pieces + sum->unscaled) + sum->lost;
    if (mm->scales_x != NULL)
      error = (sum->scale > 0 ? error * sum->scale : 0) + 0x1p-23 * fabs(sum->exact) + 0x1p-149;
    judged.exact = sum->exact;
    judged.bound = error + moe__ref_cast_error(mm->out->dtype, sum->exact, error);
  }
  moe__ref_score_element(found, &judged, mm->out->dtype, token, n, score);
}

/* ---- Public functions ---- */

moe_ref_status_t moe_ref_mixed_mm(const moe_ref_mixed_mm_t *mm, int64_t begin, int64_t end) {
  return visit_products(mm, begin, end, store, NULL);
}

moe_ref_status_t moe_ref_mixed_mm_judge(const moe_ref_mixed_mm_t *mm, int64_t begin, int64_t end,
                                        moe_ref_score_t *score) {
  return visit_products(mm, begin, end, judge, score);
}

int64_t moe_ref_mixed_mm_tokens(const moe_ref_mixed_mm_t *mm) {
  sizes_t s;
  if (!find_sizes(mm, &s))
    return -1;
  int64_t end = mm->offs == NULL ? s.tokens : 0;
  for (int64_t g = 0; mm->offs != NULL && g < s.experts; g++)
    end = moe__ref_group_end(mm->offs, g, end, s.tokens);
  return end;
}

double moe_ref_mixed_mm_flops(const moe_ref_mixed_mm_t *mm) {
  sizes_t s;
  const int64_t tokens = moe_ref_mixed_mm_tokens(mm);
  return tokens < 0 || !find_sizes(mm, &s) ? -1
                                           : 2 * (double)tokens * (double)s.rows * (double)s.depth;
}
