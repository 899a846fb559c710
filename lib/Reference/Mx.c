/* Mx.c - MX block scaling of the numerics contract, section 2.
 *
 * Why it exists: it says what the quantizer kernels must compute, bit for bit, and checks tensors
 * of hundreds of millions of elements in seconds. To be fast, it walks a tensor in runs of
 * neighboring MX blocks; each run goes through small tiles, in which rows are elements of an MX
 * block and lanes are MX blocks.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Reference/Tiles.h"

#include "moe/limits.h"

#include <stdlib.h>

enum { ROWS = MOE__REF_TILE_HEIGHT, LANES = MOE__REF_TILE_LANES };

/* ---- The scale of one MX block ---- */

/* The E8M0 byte of d >= 0, toward zero: an E8M0 byte has the bias of fp32's exponent, so it is that
 * field. */
static uint8_t e8m0_toward_zero(float d) {
  return (uint8_t)(moe__ref_magnitude(d) >> MOE__REF_F32_MANTISSA_BITS);
}

/* The E8M0 byte of d >= 0, toward +inf. Below 2^-126 fp32 is subnormal, and 2^-127 itself is byte
 * 0. */
static uint8_t e8m0_toward_inf(float d) {
  const int32_t bits = moe__ref_magnitude(d);
  const int32_t mantissa = bits & ((1 << MOE__REF_F32_MANTISSA_BITS) - 1);
  const int32_t exponent = bits >> MOE__REF_F32_MANTISSA_BITS;
  if (exponent == 0)
    return d > moe__ref_f32_from_e8m0(0);
  return (uint8_t)(exponent + (mantissa != 0));
}

static uint8_t scale_floor(float amax, moe__ref_small_float_t format) {
  return e8m0_toward_zero(amax * moe__ref_power_of_two(-format.max_exponent));
}

static uint8_t scale_rceil(float amax, moe__ref_small_float_t format) {
  const float max_finite = moe__ref_f32_from_fp8((uint8_t)format.max_code, format);
  return e8m0_toward_inf(amax * (1.0f / max_finite));
}

static uint8_t scale_ceil(float amax, moe__ref_small_float_t format) {
  const int32_t bits = moe__ref_magnitude(amax);
  const int32_t mantissa = bits & ((1 << MOE__REF_F32_MANTISSA_BITS) - 1);
  const int32_t exponent = (bits >> MOE__REF_F32_MANTISSA_BITS) + (mantissa != 0);
  return (uint8_t)(exponent > format.max_exponent ? exponent - format.max_exponent : 0);
}

static uint8_t scale_even(float amax, moe__ref_small_float_t format) {
  const int32_t half = 1 << (MOE__REF_F32_MANTISSA_BITS - format.mantissa_bits - 1);
  const int32_t rounded = (moe__ref_magnitude(amax) + half) & MOE__REF_F32_INF;
  return scale_floor(moe__ref_f32_from_bits(rounded), format);
}

uint8_t moe_ref_mx_scale(float amax, moe_ref_mx_mode_t mode, moe_ref_dtype_t element) {
  if (moe__ref_magnitude(amax) >= MOE__REF_F32_INF || !moe__ref_is_fp8(element))
    return 255;
  const moe__ref_small_float_t format = element == MOE_REF_E5M2 ? moe__ref_e5m2 : moe__ref_e4m3;
  switch (mode) {
  case MOE_REF_FLOOR:
    return scale_floor(amax, format);
  case MOE_REF_RCEIL:
    return scale_rceil(amax, format);
  case MOE_REF_CEIL:
    return scale_ceil(amax, format);
  case MOE_REF_EVEN:
    return scale_even(amax, format);
  }
  return 255;
}

float moe_ref_mx_reciprocal(uint8_t scale) {
  return moe__ref_f32_from_e8m0(scale == 255 ? 255 : (uint8_t)(254 - scale));
}

static bool is_mode(moe_ref_mx_mode_t mode) {
  switch (mode) {
#define MOE_MX_MODE(symbol, text) case MOE_REF_##symbol:
#include "moe/mx_modes.def"
    return true;
  }
  return false;
}

int moe_ref_mx_mode_from_name(const char *name) {
  if (name == NULL)
    return -1;
#define MOE_MX_MODE(symbol, text)                                                                  \
  if (strcmp(name, text) == 0)                                                                     \
    return MOE_REF_##symbol;
#include "moe/mx_modes.def"
  return -1;
}

/* ---- Tiles ---- */

/* Raises amax[l] to the largest magnitude of lane l. In the order of integers NaN is above Inf, so
 * NaN propagates. */
static void tile_amax(const moe__ref_tile_t *tile, int32_t amax[LANES]) {
  for (int r = 0; r < tile->rows; r++)
    for (int l = 0; l < tile->lanes; l++) {
      const int32_t magnitude = moe__ref_magnitude(tile->values[r][l]);
      amax[l] = magnitude > amax[l] ? magnitude : amax[l];
    }
}

static void tile_multiply(moe__ref_tile_t *tile, const float factors[LANES]) {
  for (int r = 0; r < tile->rows; r++)
    for (int l = 0; l < tile->lanes; l++)
      tile->values[r][l] *= factors[l];
}

/* ---- Runs of MX blocks ---- */

/* The tensors as a grid of MX blocks, which has the shape of the scales, and a position in it: a
 * run of up to LANES of them that are neighbors along lane_dim. */
typedef struct {
  const moe_ref_tensor_t *scales;
  int axis;
  int64_t block;
  int lane_dim;
  int64_t index[MOE_REF_MAX_RANK]; /* of the first MX block of the run */
  int lanes;
} run_t;

/* The step of `tensor` (one with elements) from an MX block to the next along grid dimension d.
 */
static int64_t block_stride(const run_t *run, const moe_ref_tensor_t *tensor, int d) {
  return tensor->strides[d] * (d == run->axis ? run->block : 1);
}

static int lanes_left(const run_t *run) {
  const int64_t left = run->scales->shape[run->lane_dim] - run->index[run->lane_dim];
  return (int)(left < LANES ? left : LANES);
}

/* The first run. Its lanes are neighbors in the memory of `source`, as far as MX blocks can be. */
static run_t run_first(const moe_ref_tensor_t *source, const moe_ref_tensor_t *scales, int axis,
                       int64_t block) {
  run_t run = {.scales = scales, .axis = axis, .block = block, .lane_dim = axis};
  for (int d = 0; d < scales->rank; d++) {
    const bool nearer = moe__ref_distance(block_stride(&run, source, d)) <
                        moe__ref_distance(block_stride(&run, source, run.lane_dim));
    if (scales->shape[d] > 1 && (nearer || scales->shape[run.lane_dim] == 1))
      run.lane_dim = d;
  }
  run.lanes = lanes_left(&run);
  return run;
}

/* Moves on to the next run, in row-major order of the grid. False after the last one. */
static bool run_next(run_t *run) {
  for (int d = run->scales->rank - 1; d >= 0; d--) {
    run->index[d] += d == run->lane_dim ? run->lanes : 1;
    if (run->index[d] < run->scales->shape[d]) {
      run->lanes = lanes_left(run);
      return true;
    }
    run->index[d] = 0;
  }
  return false;
}

/* Where the tile that begins with element `first` of the run's MX blocks lies in `tensor`. */
static moe__ref_place_t tile_place(const run_t *run, const moe_ref_tensor_t *tensor,
                                   int64_t first) {
  int64_t index = first * tensor->strides[run->axis];
  for (int d = 0; d < tensor->rank; d++)
    index += run->index[d] * block_stride(run, tensor, d);
  return (moe__ref_place_t){.dtype = tensor->dtype,
                            .data = moe__ref_element_address(tensor, index),
                            .row = tensor->strides[run->axis],
                            .lane = block_stride(run, tensor, run->lane_dim)};
}

/* The scale of the run's MX block 0; that of MX block l lies l * scales->strides[lane_dim] bytes
 * on. */
static uint8_t *run_scales(const run_t *run) {
  int64_t index = 0;
  for (int d = 0; d < run->scales->rank; d++)
    index += run->index[d] * run->scales->strides[d];
  return moe__ref_element_address(run->scales, index);
}

static int tile_rows(const run_t *run, int64_t first) {
  return (int)(run->block - first < ROWS ? run->block - first : ROWS);
}

/* amax[l] = the largest magnitude of MX block l of the run, as bits. */
static void run_amax(const run_t *run, const moe_ref_tensor_t *x, int32_t amax[LANES]) {
  moe__ref_tile_t tile = {.lanes = run->lanes};
  memset(amax, 0, LANES * sizeof *amax);
  for (int64_t first = 0; first < run->block; first += ROWS) {
    const moe__ref_place_t source = tile_place(run, x, first);
    tile.rows = tile_rows(run, first);
    moe__ref_tile_read(&source, &tile);
    tile_amax(&tile, amax);
  }
}

/* to = from * factors, tile by tile. */
static void rescale_run(const run_t *run, const moe_ref_tensor_t *from, const float factors[LANES],
                        const moe_ref_tensor_t *to) {
  moe__ref_tile_t tile = {.lanes = run->lanes};
  for (int64_t first = 0; first < run->block; first += ROWS) {
    const moe__ref_place_t source = tile_place(run, from, first),
                           target = tile_place(run, to, first);
    tile.rows = tile_rows(run, first);
    moe__ref_tile_read(&source, &tile);
    tile_multiply(&tile, factors);
    moe__ref_tile_write(&target, &tile);
  }
}

/* ---- Checks ---- */

/* Whether high (F32 or BF16), low (E4M3 or E5M2) and their scales belong together. */
static bool is_quantized_pair(const moe_ref_tensor_t *high, const moe_ref_tensor_t *low,
                              const moe_ref_tensor_t *scales, int axis, int64_t block) {
  if (!moe__ref_is_tensor(high) || !moe__ref_is_tensor(low) || !moe__ref_is_tensor(scales))
    return false;
  if (high->dtype != MOE_REF_F32 && high->dtype != MOE_REF_BF16)
    return false;
  if (!moe__ref_is_fp8(low->dtype))
    return false;
  if (scales->dtype != MOE_REF_E8M0)
    return false;
  if (low->rank != high->rank || scales->rank != high->rank)
    return false;
  if (axis < 0 || axis >= high->rank || block < 1 || high->shape[axis] % block != 0)
    return false;
  for (int d = 0; d < high->rank; d++) {
    const int64_t blocks = high->shape[d] / (d == axis ? block : 1);
    if (low->shape[d] != high->shape[d] || scales->shape[d] != blocks)
      return false;
  }
  return true;
}

/* ---- Public functions ---- */

moe_ref_status_t moe_ref_mx_quantize(const moe_ref_tensor_t *x, int axis, int64_t block,
                                     moe_ref_mx_mode_t mode, const moe_ref_tensor_t *q,
                                     const moe_ref_tensor_t *scales) {
  if (!is_quantized_pair(x, q, scales, axis, block) || !is_mode(mode))
    return MOE_REF_INVALID_ARGUMENT;
  if (moe__ref_is_empty(x))
    return MOE_REF_OK;

  run_t run = run_first(x, scales, axis, block);
  do {
    int32_t amax[LANES];
    float reciprocals[LANES] = {0};
    run_amax(&run, x, amax);
    uint8_t *scale = run_scales(&run);
    for (int l = 0; l < run.lanes; l++, scale += scales->strides[run.lane_dim]) {
      *scale = moe_ref_mx_scale(moe__ref_f32_from_bits(amax[l]), mode, q->dtype);
      reciprocals[l] = moe_ref_mx_reciprocal(*scale);
    }
    rescale_run(&run, x, reciprocals, q);
  } while (run_next(&run));
  return MOE_REF_OK;
}

/* Rows [begin, end) of a matrix. */
static moe_ref_tensor_t rows_of(const moe_ref_tensor_t *tensor, int64_t begin, int64_t end) {
  moe_ref_tensor_t part = *tensor;
  part.shape[0] = end - begin;
  if (!moe__ref_is_empty(tensor))
    part.data = moe__ref_element_address(tensor, begin * tensor->strides[0]);
  return part;
}

/* Whether the tensors of a quantization in groups belong together. */
static bool is_grouped_pair(const moe_ref_tensor_t *x, const moe_ref_tensor_t *offs, int64_t block,
                            const moe_ref_tensor_t *q, const moe_ref_tensor_t *scales) {
  if (!moe__ref_is_tensor(x) || !moe__ref_is_tensor(q) || !moe__ref_is_tensor(scales) ||
      offs == NULL || !moe__ref_is_offsets(offs) || block < 1)
    return false;
  if (x->rank != 2 || q->rank != 2 || scales->rank != 2 || q->shape[0] < x->shape[0])
    return false;
  const int64_t rows = moe_ref_padded(q->shape[0], block) / block + offs->shape[0];
  const moe_ref_tensor_t no_x = rows_of(x, 0, 0), no_q = rows_of(q, 0, 0),
                         no_scales = rows_of(scales, 0, 0);
  return scales->shape[0] == rows && is_quantized_pair(&no_x, &no_q, &no_scales, 0, block);
}

/* Whether the tensors of a quantization in aligned groups belong together. */
static bool is_aligned_pair(const moe_ref_tensor_t *x, const moe_ref_tensor_t *offs, int64_t block,
                            const moe_ref_tensor_t *q, const moe_ref_tensor_t *scales) {
  if (!moe__ref_is_tensor(x) || !moe__ref_is_tensor(q) || !moe__ref_is_tensor(scales) ||
      offs == NULL || !moe__ref_is_offsets(offs) || block < 1 || MOE_GROUP_ALIGN % block)
    return false;
  if (x->rank != 2 || q->rank != 2 || scales->rank != 2)
    return false;
  const moe_ref_tensor_t no_x = rows_of(x, 0, 0), no_q = rows_of(q, 0, 0),
                         no_scales = rows_of(scales, 0, 0);
  return q->shape[0] == moe_ref_aligned_rows(x->shape[0], offs->shape[0]) &&
         scales->shape[0] == q->shape[0] / block &&
         is_quantized_pair(&no_x, &no_q, &no_scales, 0, block);
}

/* Sets rows [begin, end) of a matrix of bytes to 0. */
static void clear_rows(const moe_ref_tensor_t *bytes, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; row++)
    for (int64_t column = 0; column < bytes->shape[1]; column++)
      *(uint8_t *)moe__ref_element_address(bytes, row * bytes->strides[0] +
                                                      column * bytes->strides[1]) = 0;
}

/* MX blocks of rows [start, end) of x: q has them from row `row` on, and their scales lie where
 * `scale_row` is the first. */
static moe_ref_status_t quantize_group(const moe_ref_tensor_t *x, int64_t start, int64_t end,
                                       int64_t block, moe_ref_mx_mode_t mode,
                                       const moe_ref_tensor_t *q, int64_t row,
                                       const moe_ref_tensor_t *scales, int64_t scale_row) {
  for (int64_t first = start; first < end; first += block) {
    const int64_t last = first + block < end ? first + block : end, to_row = row + first - start,
                  to_scale = scale_row + (first - start) / block;
    const moe_ref_tensor_t own = rows_of(x, first, last),
                           to = rows_of(q, to_row, to_row + last - first),
                           scale = rows_of(scales, to_scale, to_scale + 1);
    const moe_ref_status_t status = moe_ref_mx_quantize(&own, 0, last - first, mode, &to, &scale);
    if (status != MOE_REF_OK)
      return status;
  }
  return MOE_REF_OK;
}

moe_ref_status_t moe_ref_mx_quantize_aligned(const moe_ref_tensor_t *x,
                                             const moe_ref_tensor_t *offs, int64_t block,
                                             moe_ref_mx_mode_t mode, const moe_ref_tensor_t *q,
                                             const moe_ref_tensor_t *scales) {
  if (!is_aligned_pair(x, offs, block, q, scales) || !is_mode(mode))
    return MOE_REF_INVALID_ARGUMENT;
  int64_t start = 0;
  for (int64_t g = 0; g < offs->shape[0]; g++) {
    const int64_t end = moe__ref_group_end(offs, g, start, x->shape[0]);
    const int64_t row = moe_ref_aligned_start(start, g), row_end = row + end - start,
                  padding_end = row + moe_ref_padded(end - start, MOE_GROUP_ALIGN);
    const moe_ref_status_t status =
        quantize_group(x, start, end, block, mode, q, row, scales, row / block);
    if (status != MOE_REF_OK)
      return status;
    clear_rows(q, row_end, padding_end);
    clear_rows(scales, moe_ref_padded(row_end, block) / block, padding_end / block);
    start = end;
  }
  return MOE_REF_OK;
}

moe_ref_status_t moe_ref_mx_quantize_groups(const moe_ref_tensor_t *x, const moe_ref_tensor_t *offs,
                                            int64_t block, moe_ref_mx_mode_t mode,
                                            const moe_ref_tensor_t *q,
                                            const moe_ref_tensor_t *scales) {
  if (!is_grouped_pair(x, offs, block, q, scales) || !is_mode(mode))
    return MOE_REF_INVALID_ARGUMENT;
  int64_t start = 0;
  for (int64_t g = 0; g < offs->shape[0]; g++) {
    const int64_t end = moe__ref_group_end(offs, g, start, x->shape[0]);
    const moe_ref_status_t status =
        quantize_group(x, start, end, block, mode, q, start, scales, start / block + g);
    if (status != MOE_REF_OK)
      return status;
    start = end;
  }
  return MOE_REF_OK;
}

moe_ref_status_t moe_ref_mx_dequantize(const moe_ref_tensor_t *q, const moe_ref_tensor_t *scales,
                                       int axis, int64_t block, const moe_ref_tensor_t *x) {
  if (!is_quantized_pair(x, q, scales, axis, block))
    return MOE_REF_INVALID_ARGUMENT;
  if (moe__ref_is_empty(q))
    return MOE_REF_OK;

  run_t run = run_first(q, scales, axis, block);
  do {
    float factors[LANES] = {0};
    const uint8_t *scale = run_scales(&run);
    for (int l = 0; l < run.lanes; l++, scale += scales->strides[run.lane_dim])
      factors[l] = moe__ref_f32_from_e8m0(*scale);
    rescale_run(&run, q, factors, x);
  } while (run_next(&run));
  return MOE_REF_OK;
}

/* Sets rows [begin, end) of a matrix to +0. */
static void zero_rows(const moe_ref_tensor_t *x, int64_t begin, int64_t end) {
  const size_t size = (size_t)moe_ref_dtype_bits(x->dtype) / 8;
  for (int64_t row = begin; row < end; row++)
    for (int64_t column = 0; column < x->shape[1]; column++)
      memset(moe__ref_element_address(x, row * x->strides[0] + column * x->strides[1]), 0, size);
}

/* MX blocks of rows [start, end) of q, whose scales lie where `scale_row` is the first. */
static moe_ref_status_t dequantize_group(const moe_ref_tensor_t *q, int64_t start, int64_t end,
                                         const moe_ref_tensor_t *scales, int64_t scale_row,
                                         int64_t block, const moe_ref_tensor_t *x) {
  for (int64_t first = start; first < end; first += block, scale_row++) {
    const int64_t last = first + block < end ? first + block : end;
    const moe_ref_tensor_t own = rows_of(q, first, last), to = rows_of(x, first, last),
                           scale = rows_of(scales, scale_row, scale_row + 1);
    const moe_ref_status_t status = moe_ref_mx_dequantize(&own, &scale, 0, last - first, &to);
    if (status != MOE_REF_OK)
      return status;
  }
  return MOE_REF_OK;
}

moe_ref_status_t moe_ref_mx_dequantize_groups(const moe_ref_tensor_t *q,
                                              const moe_ref_tensor_t *scales,
                                              const moe_ref_tensor_t *offs, int64_t block,
                                              const moe_ref_tensor_t *x) {
  if (!is_grouped_pair(x, offs, block, q, scales) || x->shape[0] != q->shape[0])
    return MOE_REF_INVALID_ARGUMENT;
  int64_t start = 0;
  for (int64_t g = 0; g < offs->shape[0]; g++) {
    const int64_t end = moe__ref_group_end(offs, g, start, x->shape[0]);
    const moe_ref_status_t status =
        dequantize_group(q, start, end, scales, start / block + g, block, x);
    if (status != MOE_REF_OK)
      return status;
    start = end;
  }
  return MOE_REF_OK;
}

moe_ref_status_t moe_ref_mx_dequantize_aligned(const moe_ref_tensor_t *q,
                                               const moe_ref_tensor_t *scales,
                                               const moe_ref_tensor_t *offs, int64_t block,
                                               const moe_ref_tensor_t *x) {
  const int64_t room = offs != NULL && moe__ref_is_offsets(offs) ? offs->shape[0] : 0;
  moe_ref_tensor_t tokens = *x; /* as many as q may have been made of */
  if (!moe__ref_is_tensor(x) || x->rank != 2 || q->rank != 2 || x->shape[0] != q->shape[0])
    return MOE_REF_INVALID_ARGUMENT;
  tokens.shape[0] -= room * MOE_GROUP_ALIGN;
  if (tokens.shape[0] < 0 || !is_aligned_pair(&tokens, offs, block, q, scales))
    return MOE_REF_INVALID_ARGUMENT;
  int64_t start = 0;
  for (int64_t g = 0; g < offs->shape[0]; g++) {
    const int64_t end = moe__ref_group_end(offs, g, start, tokens.shape[0]);
    const int64_t row = moe_ref_aligned_start(start, g), row_end = row + end - start;
    const moe_ref_status_t status =
        dequantize_group(q, row, row_end, scales, row / block, block, x);
    if (status != MOE_REF_OK)
      return status;
    zero_rows(x, row_end, row + moe_ref_padded(end - start, MOE_GROUP_ALIGN));
    start = end;
  }
  return MOE_REF_OK;
}

/* ---- Numbers that x has once it is quantized ---- */

/* Row-major, with dimension `axis` divided. */
static moe_ref_tensor_t packed_like(const moe_ref_tensor_t *x, moe_ref_dtype_t dtype, int axis,
                                    int64_t divisor) {
  moe_ref_tensor_t like = *x;
  int64_t stride = 1;
  like.dtype = dtype;
  like.data = NULL;
  for (int d = x->rank - 1; d >= 0; d--) {
    like.shape[d] /= d == axis ? divisor : 1;
    like.strides[d] = stride;
    stride *= like.shape[d];
  }
  return like;
}

/* The number of bytes of a row-major tensor of bytes. */
static size_t bytes_of(const moe_ref_tensor_t *tensor) {
  size_t bytes = 1;
  for (int d = 0; d < tensor->rank; d++)
    bytes *= (size_t)tensor->shape[d];
  return bytes;
}

static moe_ref_status_t round_part(const moe_ref_tensor_t *x, int axis, int64_t block,
                                   moe_ref_mx_mode_t mode, moe_ref_dtype_t element,
                                   const moe_ref_tensor_t *rounded) {
  if (!moe__ref_is_tensor(x) || !moe__ref_is_tensor(rounded) || axis < 0 || axis >= x->rank ||
      block < 1 || x->dtype != MOE_REF_BF16 || rounded->dtype != MOE_REF_BF16)
    return MOE_REF_INVALID_ARGUMENT;
  moe_ref_tensor_t q = packed_like(x, element, axis, 1),
                   scales = packed_like(x, MOE_REF_E8M0, axis, block);
  q.data = malloc(bytes_of(&q) + 1);
  scales.data = malloc(bytes_of(&scales) + 1);
  moe_ref_status_t status = MOE_REF_OUT_OF_MEMORY;
  if (q.data != NULL && scales.data != NULL)
    status = moe_ref_mx_quantize(x, axis, block, mode, &q, &scales);
  if (status == MOE_REF_OK)
    status = moe_ref_mx_dequantize(&q, &scales, axis, block, rounded);
  free(q.data);
  free(scales.data);
  return status;
}

moe_ref_status_t moe_ref_mx_round(const moe_ref_tensor_t *x, const moe_ref_tensor_t *offs, int axis,
                                  int64_t block, moe_ref_mx_mode_t mode, moe_ref_dtype_t element,
                                  const moe_ref_tensor_t *rounded) {
  if (offs == NULL)
    return round_part(x, axis, block, mode, element, rounded);
  if (!moe__ref_is_offsets(offs) || !moe__ref_is_tensor(x) || !moe__ref_is_tensor(rounded) ||
      x->rank != 2 || rounded->rank != 2 || rounded->shape[0] != x->shape[0] || block < 1)
    return MOE_REF_INVALID_ARGUMENT;
  int64_t start = 0;
  for (int64_t g = 0; g < offs->shape[0]; g++) {
    const int64_t end = moe__ref_group_end(offs, g, start, x->shape[0]);
    for (int64_t first = start; first < end; first += block) {
      const int64_t last = first + block < end ? first + block : end;
      const moe_ref_tensor_t from = rows_of(x, first, last), to = rows_of(rounded, first, last);
      const moe_ref_status_t status =
          round_part(&from, axis, axis == 0 ? last - first : block, mode, element, &to);
      if (status != MOE_REF_OK)
        return status;
    }
    start = end;
  }
  return MOE_REF_OK;
}
