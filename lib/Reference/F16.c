/* F16.c - rows of f16 over powers of two: docs/numerics.md, "f16 over powers of two".
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Reference/Tensors.h"

#include "lib/Reference/Formats.h"

#include <math.h>

/* The exponent of f16's greatest numbers, and the least one of a row's greatest element: of that
 * the scale is the least normal number. */
enum { F16_EXPONENT = 15, LEAST_EXPONENT = -111, GREATEST_EXPONENT = 127 };

/* The exponent that the greatest scale of MX blocks is brought to, the least one of that, and the
 * columns of a block. */
enum { MX_EXPONENT = 7, LEAST_MX_EXPONENT = -119, MX_COLUMNS = 32 };

static bool is_matrix(const moe_ref_tensor_t *tensor, moe_ref_dtype_t dtype) {
  return moe__ref_is_tensor(tensor) && tensor->rank == 2 && tensor->dtype == dtype;
}

static float load(const moe_ref_tensor_t *x, int64_t m, int64_t k) {
  return moe__ref_element_load(x->dtype, x->data, m * x->strides[0] + k * x->strides[1]);
}

/* That of the greatest magnitude of a row; of Inf and NaN the greatest. */
static int exponent_of(const moe_ref_tensor_t *x, int64_t m) {
  int greatest = LEAST_EXPONENT;
  for (int64_t k = 0; k < x->shape[1]; k++) {
    const float element = load(x, m, k);
    const int exponent = !isfinite(element) ? GREATEST_EXPONENT
                         : element == 0     ? LEAST_EXPONENT
                                            : ilogbf(element);
    greatest = exponent > greatest ? exponent : greatest;
  }
  return greatest;
}

moe_ref_status_t moe_ref_quantize_f16(const moe_ref_tensor_t *x, const moe_ref_tensor_t *q,
                                      const moe_ref_tensor_t *scales) {
  if (!is_matrix(x, MOE_REF_BF16) || !is_matrix(q, MOE_REF_F16) || !moe__ref_is_tensor(scales) ||
      scales->rank != 1 || scales->dtype != MOE_REF_F32 || q->shape[0] != x->shape[0] ||
      q->shape[1] != x->shape[1] || scales->shape[0] != x->shape[0])
    return MOE_REF_INVALID_ARGUMENT;
  for (int64_t m = 0; m < x->shape[0]; m++) {
    const int exponent = exponent_of(x, m) - F16_EXPONENT;
    const float inverse = ldexpf(1, -exponent);
    for (int64_t k = 0; k < x->shape[1]; k++)
      moe__ref_element_store(MOE_REF_F16, q->data, m * q->strides[0] + k * q->strides[1],
                             load(x, m, k) * inverse);
    moe__ref_element_store(MOE_REF_F32, scales->data, m * scales->strides[0], ldexpf(1, exponent));
  }
  return MOE_REF_OK;
}

/* That of the greatest scale of a row that is no NaN. */
static int exponent_of_scales(const moe_ref_tensor_t *scales, int64_t m) {
  int greatest = LEAST_MX_EXPONENT;
  for (int64_t j = 0; j < scales->shape[1]; j++) {
    const float scale = load(scales, m, j);
    if (!isnan(scale) && ilogbf(scale) > greatest)
      greatest = ilogbf(scale);
  }
  return greatest;
}

moe_ref_status_t moe_ref_dequantize_f16(const moe_ref_tensor_t *q, const moe_ref_tensor_t *scales,
                                        const moe_ref_tensor_t *x,
                                        const moe_ref_tensor_t *scales_x) {
  if (!is_matrix(q, MOE_REF_E4M3) || !is_matrix(scales, MOE_REF_E8M0) ||
      !is_matrix(x, MOE_REF_F16) || !moe__ref_is_tensor(scales_x) || scales_x->rank != 1 ||
      scales_x->dtype != MOE_REF_F32 || q->shape[0] != x->shape[0] || q->shape[1] != x->shape[1] ||
      scales->shape[0] != x->shape[0] || scales->shape[1] * MX_COLUMNS != x->shape[1] ||
      scales_x->shape[0] != x->shape[0])
    return MOE_REF_INVALID_ARGUMENT;
  for (int64_t m = 0; m < x->shape[0]; m++) {
    const int exponent = exponent_of_scales(scales, m) - MX_EXPONENT;
    for (int64_t k = 0; k < x->shape[1]; k++)
      moe__ref_element_store(MOE_REF_F16, x->data, m * x->strides[0] + k * x->strides[1],
                             load(q, m, k) * ldexpf(load(scales, m, k / MX_COLUMNS), -exponent));
    moe__ref_element_store(MOE_REF_F32, scales_x->data, m * scales_x->strides[0],
                           ldexpf(1, exponent));
  }
  return MOE_REF_OK;
}
