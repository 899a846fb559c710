/* Groups.c - groups of tokens: section 5 of the numerics contract, and groups that are padded.
 *
 * Why it exists: every op with groups cuts its rows in the same way, whatever the offsets hold; and
 * kernels that need groups at multiples of some rows move them there.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Reference/Tensors.h"

#include "moe/limits.h"

/* ---- Ends of groups ---- */

moe_ref_status_t moe_ref_group_ends(const moe_ref_tensor_t *offs, int64_t rows, int64_t *ends) {
  if (!moe__ref_is_offsets(offs) || rows < 0)
    return MOE_REF_INVALID_ARGUMENT;
  for (int64_t g = 0; g < offs->shape[0]; g++)
    ends[g] = moe__ref_group_end(offs, g, g > 0 ? ends[g - 1] : 0, rows);
  return MOE_REF_OK;
}

int64_t moe_ref_grouped_rows(const moe_ref_tensor_t *offs, int64_t rows) {
  if (!moe__ref_is_offsets(offs) || rows < 0)
    return -1;
  int64_t end = 0;
  for (int64_t g = 0; g < offs->shape[0]; g++)
    end = moe__ref_group_end(offs, g, end, rows);
  return end;
}

int64_t moe_ref_padded(int64_t size, int64_t align) {
  return size % align == 0 ? size : size - size % align + align;
}

int64_t moe_ref_aligned_rows(int64_t rows, int64_t groups) {
  return moe_ref_padded(rows, MOE_GROUP_ALIGN) + groups * MOE_GROUP_ALIGN;
}

int64_t moe_ref_aligned_start(int64_t start, int64_t group) {
  return (start / MOE_GROUP_ALIGN + group) * MOE_GROUP_ALIGN;
}

int64_t moe_ref_aligned_end(const moe_ref_tensor_t *offs, int64_t rows) {
  if (!moe__ref_is_offsets(offs) || rows < 0)
    return -1;
  int64_t start = 0, written = 0;
  for (int64_t g = 0; g < offs->shape[0]; g++) {
    const int64_t end = moe__ref_group_end(offs, g, start, rows);
    if (end > start)
      written = moe_ref_aligned_start(start, g) + moe_ref_padded(end - start, MOE_GROUP_ALIGN);
    start = end;
  }
  return written;
}

/* Whether offsets of groups that are padded fit I32, as the largest they may need to be does. */
static bool can_pad(const moe_ref_tensor_t *offs, int64_t rows, int64_t align) {
  int64_t most;
  return moe__ref_is_offsets(offs) && rows >= 0 && align >= 1 &&
         !__builtin_mul_overflow(offs->shape[0], align, &most) &&
         !__builtin_add_overflow(most, rows, &most) && most <= INT32_MAX;
}

static bool has_length(const moe_ref_tensor_t *offs, int64_t length) {
  return moe__ref_is_offsets(offs) && offs->shape[0] == length;
}

moe_ref_status_t moe_ref_pad_offsets(const moe_ref_tensor_t *offs, int64_t rows, int64_t align,
                                     const moe_ref_tensor_t *padded) {
  if (!can_pad(offs, rows, align) || !has_length(padded, offs->shape[0]))
    return MOE_REF_INVALID_ARGUMENT;
  int64_t start = 0, end_padded = 0;
  for (int64_t g = 0; g < offs->shape[0]; g++) {
    const int64_t end = moe__ref_group_end(offs, g, start, rows);
    end_padded += moe_ref_padded(end - start, align);
    ((int32_t *)padded->data)[g * padded->strides[0]] = (int32_t)end_padded;
    start = end;
  }
  return MOE_REF_OK;
}

/* ---- Rows ---- */

/* Copies a row's bits; those of zeros where there is none to copy (from < 0). */
static void copy_row(const moe_ref_tensor_t *source, int64_t from, const moe_ref_tensor_t *target,
                     int64_t to) {
  const size_t size = (size_t)moe_ref_dtype_bits(target->dtype) / 8;
  for (int64_t k = 0; k < target->shape[1]; k++) {
    void *const element =
        moe__ref_element_address(target, to * target->strides[0] + k * target->strides[1]);
    if (from < 0)
      memset(element, 0, size);
    else
      memcpy(element,
             moe__ref_element_address(source, from * source->strides[0] + k * source->strides[1]),
             size);
  }
}

/* Matrices of one dtype and as many columns. */
static bool are_alike(const moe_ref_tensor_t *a, const moe_ref_tensor_t *b) {
  return moe__ref_is_tensor(a) && moe__ref_is_tensor(b) && a->rank == 2 && b->rank == 2 &&
         a->dtype == b->dtype && moe_ref_dtype_bits(a->dtype) > 0 && a->shape[1] == b->shape[1];
}

moe_ref_status_t moe_ref_pad_groups(const moe_ref_tensor_t *x, const moe_ref_tensor_t *offs,
                                    int64_t align, const moe_ref_tensor_t *padded,
                                    const moe_ref_tensor_t *offs_padded) {
  if (!are_alike(x, padded) || !can_pad(offs, x->shape[0], align) ||
      padded->shape[0] != moe_ref_padded(x->shape[0], align) + offs->shape[0] * align)
    return MOE_REF_INVALID_ARGUMENT;
  const moe_ref_status_t status = moe_ref_pad_offsets(offs, x->shape[0], align, offs_padded);
  if (status != MOE_REF_OK)
    return status;
  int64_t start = 0, row = 0; /* of padded */
  for (int64_t g = 0; g < offs->shape[0]; g++) {
    const int64_t end = moe__ref_group_end(offs, g, start, x->shape[0]);
    const int64_t next = row + moe_ref_padded(end - start, align);
    for (int64_t from = start; row < next; row++, from++)
      copy_row(x, from < end ? from : -1, padded, row);
    start = end;
  }
  return MOE_REF_OK;
}

moe_ref_status_t moe_ref_unpad_groups(const moe_ref_tensor_t *padded, const moe_ref_tensor_t *offs,
                                      const moe_ref_tensor_t *offs_padded,
                                      const moe_ref_tensor_t *x) {
  if (!are_alike(padded, x) || padded->shape[0] != x->shape[0] || !moe__ref_is_offsets(offs) ||
      !has_length(offs_padded, offs->shape[0]))
    return MOE_REF_INVALID_ARGUMENT;
  const int64_t rows = x->shape[0];
  int64_t start = 0, start_padded = 0;
  for (int64_t g = 0; g < offs->shape[0]; g++) {
    const int64_t end = moe__ref_group_end(offs, g, start, rows);
    for (int64_t i = 0; i < end - start; i++)
      copy_row(padded, start_padded + i < rows ? start_padded + i : -1, x, start + i);
    start_padded = moe__ref_group_end(offs_padded, g, start_padded, rows);
    start = end;
  }
  return MOE_REF_OK;
}
