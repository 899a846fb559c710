/* Launch.c - what the files in ops/ share: attributes, and slices of work.
 *
 * Why it exists: see Launch.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "tools/moe-run/Launch.h"

#include "tools/moe-run/Report.h"

#include <inttypes.h>
#include <string.h>

enum { CACHE_LINE_ELEMENTS = 64 };

/* ---- Attributes ---- */

int moe__run_attribute_integer(const moe__run_launch_t *launch, const json_t *attributes,
                               const char *name, int64_t least, int64_t most, int64_t *out_value) {
  const json_t *value = json_object_get(attributes, name);
  *out_value = json_integer_value(value);
  if (json_is_integer(value) && *out_value >= least && *out_value <= most)
    return MOE__RUN_OK;
  if (most == INT64_MAX)
    return moe__run_input_error("%s: attribute '%s' is not an integer above %" PRId64, launch->name,
                                name, least - 1);
  return moe__run_input_error("%s: attribute '%s' is not an integer from %" PRId64 " to %" PRId64,
                              launch->name, name, least, most);
}

int moe__run_attribute_flag(const moe__run_launch_t *launch, const json_t *attributes,
                            const char *name, bool *out_value) {
  const json_t *value = json_object_get(attributes, name);
  const json_int_t number = json_integer_value(value);
  *out_value = json_is_true(value) || number == 1;
  if (json_is_boolean(value) || (json_is_integer(value) && (number == 0 || number == 1)))
    return MOE__RUN_OK;
  return moe__run_input_error("%s: attribute '%s' is not a boolean", launch->name, name);
}

int moe__run_attribute_name(const moe__run_launch_t *launch, const json_t *attributes,
                            const char *name, int (*from_name)(const char *name), int *out_value) {
  const char *text = json_string_value(json_object_get(attributes, name));
  *out_value = from_name(text);
  if (*out_value >= 0)
    return MOE__RUN_OK;
  return moe__run_input_error("%s: attribute '%s' is %s%s%s, which the C reference does not know",
                              launch->name, name, text ? "'" : "", text ? text : "missing",
                              text ? "'" : "");
}

/* ---- Tensors ---- */

bool moe__run_is(const char *name, const char *other) {
  return !strcmp(name, other);
}

const moe_ref_tensor_t *moe__run_tensor(const moe__run_launch_t *launch, const char *role) {
  for (int i = 0; i < launch->tensor_count; i++)
    if (moe__run_is(launch->roles[i], role))
      return &launch->tensors[i];
  return NULL;
}

bool moe__run_makes(const moe__run_launch_t *launch, const char *role) {
  const moe_ref_tensor_t *tensor = moe__run_tensor(launch, role);
  return tensor && tensor - launch->tensors >= launch->operand_count;
}

const moe_ref_tensor_t *moe__run_first_operand(const moe__run_launch_t *launch) {
  return &launch->tensors[0];
}

/* Which tensor of the launch, operand or result as is_result says, has a role; -1 if none has. */
static int find_role(const moe__run_launch_t *launch, const char *role, size_t length,
                     bool is_result) {
  const int begin = is_result ? launch->operand_count : 0;
  const int end = is_result ? launch->tensor_count : launch->operand_count;
  for (int i = begin; i < end; i++)
    if (strlen(launch->roles[i]) == length && !memcmp(launch->roles[i], role, length))
      return i;
  return -1;
}

int moe__run_check_roles(const moe__run_launch_t *launch) {
  int found = 0;
  bool is_result = false, ok = true;
  for (const char *word = launch->op->tensors; *word && ok;) {
    const bool is_optional = *word == '[';
    word += is_optional;
    const size_t length = strcspn(word, " ]");
    if (!strncmp(word, "->", 2))
      is_result = true;
    else if (find_role(launch, word, length, is_result) >= 0)
      found++;
    else
      ok = is_optional;
    word += length;
    word += strspn(word, "] ");
  }
  if (ok && found == launch->tensor_count)
    return MOE__RUN_OK;
  return moe__run_input_error("%s: its operands and results are not %s", launch->name,
                              launch->op->tensors);
}

/* ---- Slices ---- */

moe__run_cut_t moe__run_cut(int dimension, int64_t size, int64_t unit, int threads) {
  moe__run_cut_t cut = {.dimension = dimension, .size = size, .unit = unit, .slices = 1};
  if (dimension < 0 || threads == 1)
    return cut;
  /* Threads that write into one cache line wait for each other. */
  if (unit < CACHE_LINE_ELEMENTS && size >= (int64_t)threads * CACHE_LINE_ELEMENTS)
    cut.unit = moe_ref_padded(CACHE_LINE_ELEMENTS, unit);
  const int64_t units = moe_ref_padded(size, cut.unit) / cut.unit;
  const int64_t wanted = (int64_t)threads * MOE__RUN_SLICES_PER_THREAD;
  cut.slices = units < wanted ? units : wanted;
  cut.slices = cut.slices > 0 ? cut.slices : 1;
  return cut;
}

int moe__run_slice(const moe__run_launch_t *launch, int64_t slice, int64_t *out_begin,
                   int64_t *out_end) {
  const int number = slice < launch->cuts[0].slices ? 0 : 1;
  const moe__run_cut_t *cut = &launch->cuts[number];
  const int64_t i = number == 0 ? slice : slice - launch->cuts[0].slices;
  const int64_t units = moe_ref_padded(cut->size, cut->unit) / cut->unit;
  *out_begin = units * i / cut->slices * cut->unit;
  *out_end = units * (i + 1) / cut->slices * cut->unit;
  *out_end = *out_end < cut->size ? *out_end : cut->size;
  return number;
}

moe_ref_tensor_t moe__run_part(const moe_ref_tensor_t *tensor, int dimension, int64_t begin,
                               int64_t end) {
  moe_ref_tensor_t part = *tensor;
  if (dimension < 0)
    return part;
  part.shape[dimension] = end - begin;
  part.data =
      (uint8_t *)part.data + begin * part.strides[dimension] * (moe_ref_dtype_bits(part.dtype) / 8);
  return part;
}

void moe__run_put_evens_first(const moe_ref_tensor_t *x) {
  enum { ORDERED = 16 };
  const int last = x->rank - 1;
  const int64_t step = x->strides[last];
  int64_t rows = 1;
  for (int d = 0; d < last; d++)
    rows *= x->shape[d];
  for (int64_t m = 0; m < rows; m++) {
    uint16_t before[ORDERED], *row = x->data;
    for (int64_t d = last - 1, left = m; d >= 0; left /= x->shape[d--])
      row += left % x->shape[d] * x->strides[d];
    for (int64_t first = 0; first < x->shape[last]; first += ORDERED) {
      uint16_t *at = row + first * step;
      for (int64_t i = 0; i < ORDERED; i++)
        before[i] = at[i * step];
      for (int64_t i = 0; i < ORDERED; i++)
        at[i * step] = before[2 * i % ORDERED + 2 * i / ORDERED];
    }
  }
}
