/* Tensors.h - shapes, groups and addresses of tensors, for every operation of the reference.
 *
 * Why it exists: the quantizers and the products read and write the same views. Formats.h has the
 * elements.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_LIB_REFERENCE_TENSORS_H
#define MOE_LIB_REFERENCE_TENSORS_H

#include "lib/Reference/Formats.h"

#include "moe/reference.h"

#include <stdbool.h>
#include <stddef.h>

/* A rank in range, and no negative size. */
static inline bool moe__ref_has_shape(const moe_ref_tensor_t *tensor) {
  if (tensor == NULL || tensor->rank < 1 || tensor->rank > MOE_REF_MAX_RANK)
    return false;
  for (int d = 0; d < tensor->rank; d++)
    if (tensor->shape[d] < 0)
      return false;
  return true;
}

static inline bool moe__ref_is_empty(const moe_ref_tensor_t *tensor) {
  for (int d = 0; d < tensor->rank; d++)
    if (tensor->shape[d] == 0)
      return true;
  return false;
}

/* Whether it can be used at all: a shape, and data where it has elements. */
static inline bool moe__ref_is_tensor(const moe_ref_tensor_t *tensor) {
  return moe__ref_has_shape(tensor) && (moe__ref_is_empty(tensor) || tensor->data != NULL);
}

static inline bool moe__ref_is_offsets(const moe_ref_tensor_t *offs) {
  return moe__ref_is_tensor(offs) && offs->dtype == MOE_REF_I32 && offs->rank == 1;
}

/* Where group g ends, if the one before it ends at `previous`. */
static inline int64_t moe__ref_group_end(const moe_ref_tensor_t *offs, int64_t g, int64_t previous,
                                         int64_t rows) {
  const int64_t end = ((const int32_t *)offs->data)[g * offs->strides[0]];
  const int64_t not_before = end > previous ? end : previous;
  return not_before < rows ? not_before : rows;
}

/* Of the element `index` elements behind the first one. */
static inline void *moe__ref_element_address(const moe_ref_tensor_t *tensor, int64_t index) {
  return (char *)tensor->data + index * (moe_ref_dtype_bits(tensor->dtype) / 8);
}

#endif /* MOE_LIB_REFERENCE_TENSORS_H */
