/* Quality.c - how far a product of quantized matrices is from that of the matrices themselves.
 *
 * Why it exists: a product may be right to the bit and of no use. What a recipe promises is a
 * ratio of signal to noise, and it is measured from where the model starts.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Reference/Gemm.h"
#include "lib/Reference/Tensors.h"

#include <math.h>

static void compare_tile(void *context, const moe__ref_product_t *product,
                         const moe__ref_sums_t *sums) {
  moe_ref_score_t *const score = context;
  const moe__ref_matrix_t *const out = &product->out;
  for (int i = 0; i < sums->rows; i++)
    for (int j = 0; j < sums->columns; j++) {
      const int64_t row = sums->row + i, column = sums->column + j;
      const double exact =
          sums->sum[i][j] + sums->rest[i][j] + moe__ref_vector_at(&product->bias, column);
      const double found =
          moe__ref_element_load(out->dtype, out->data, row * out->row + column * out->column);
      score->elements++;
      if (!isfinite(exact) || !isfinite(found))
        continue;
      score->signal += exact * exact;
      score->noise += (found - exact) * (found - exact);
    }
}

static bool is_unquantized(const moe_ref_tensor_t *tensor, const moe_ref_tensor_t *quantized) {
  return moe__ref_is_tensor(tensor) &&
         (tensor->dtype == MOE_REF_F32 || tensor->dtype == MOE_REF_BF16) &&
         tensor->rank == quantized->rank &&
         memcmp(tensor->shape, quantized->shape, (size_t)tensor->rank * sizeof *tensor->shape) == 0;
}

moe_ref_status_t moe_ref_scaled_mm_quality(const moe_ref_scaled_mm_t *mm, const moe_ref_tensor_t *a,
                                           const moe_ref_tensor_t *b, int64_t begin, int64_t end,
                                           moe_ref_score_t *score) {
  if (moe_ref_scaled_mm_rows(mm) < 0 || !is_unquantized(a, mm->a) || !is_unquantized(b, mm->b))
    return MOE_REF_INVALID_ARGUMENT;
  return moe__ref_gemm_tiles_of(mm, a, b, begin, end, false, compare_tile, score);
}
