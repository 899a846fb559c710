/* Tensor.c - host tensors in the memory order of a function's signature.
 *
 * Why it exists: see Tensor.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "tools/moe-run/Tensor.h"

#include "tools/moe-run/Report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HOST_ALIGNMENT = 64 };

static const moe__run_dtype_t dtypes[] = {
#define MOE_DTYPE(symbol, name, bits, dlpack, safetensors) {name, safetensors, dlpack, bits},
#include "moe/dtypes.def"
};

static const moe__run_dtype_t *find_dtype(const char *name) {
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
    if (!strcmp(dtypes[i].name, name))
      return &dtypes[i];
  return NULL;
}

const char *moe__run_dtype_file_name(const char *name) {
  const moe__run_dtype_t *dtype = find_dtype(name);
  return dtype ? dtype->file_name : NULL;
}

static int layout(const moe_rt_tensor_info_t *info, const int64_t *shape, moe__run_tensor_t *out) {
  *out = (moe__run_tensor_t){.info = info, .dtype = find_dtype(info->dtype), .elements = 1};
  if (!out->dtype)
    return moe__run_input_error("tensor '%s': moe-run knows no dtype %s", info->name, info->dtype);
  /* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): counts are not negative */
  memcpy(out->shape, shape, (size_t)info->rank * sizeof *shape);
  for (int i = info->rank - 1; i >= 0; i--) {
    int dimension = info->order[i];
    out->strides[dimension] = out->elements;
    if (__builtin_mul_overflow(out->elements, shape[dimension], &out->elements))
      return moe__run_input_error("tensor '%s': its number of elements does not fit 63 bits",
                                  info->name);
  }
  int64_t bytes;
  if (__builtin_mul_overflow(out->elements, out->dtype->bits / 8, &bytes))
    return moe__run_input_error("tensor '%s': its size in bytes does not fit 63 bits", info->name);
  out->bytes = (size_t)bytes;
  return MOE__RUN_OK;
}

static int layout_all(const moe_rt_tensor_info_t *infos, int count, const int64_t *const *shapes,
                      moe__run_tensor_t **out_tensors) {
  *out_tensors = calloc((size_t)count + 1, sizeof **out_tensors);
  if (!*out_tensors)
    return moe__run_input_error("out of memory");
  for (int i = 0; i < count; i++) {
    int rc = layout(&infos[i], shapes[i], &(*out_tensors)[i]);
    if (rc)
      return rc;
  }
  return MOE__RUN_OK;
}

int moe__run_call_layout(const moe_rt_program_t *program, const moe_rt_function_info_t *function,
                         const int64_t *const *argument_shapes, moe__run_call_t *out_call) {
  *out_call = (moe__run_call_t){.function = function};
  int results = function->result_count, temporaries = function->temporary_count;
  int64_t(*shapes)[MOE_RT_MAX_RANK] = calloc((size_t)(results + temporaries) + 1, sizeof *shapes);
  const int64_t **rows = calloc((size_t)(results + temporaries) + 1, sizeof *rows);
  int rc = MOE__RUN_OK;
  if (!shapes || !rows) {
    rc = moe__run_input_error("out of memory");
    goto done;
  }
  moe_rt_status_t status =
      moe_rt_function_shapes(program, function, argument_shapes, shapes, shapes + results);
  if (status) {
    rc = moe__run_runtime_error(status);
    goto done;
  }
  for (int i = 0; i < results + temporaries; i++)
    rows[i] = shapes[i];
  rc = layout_all(function->arguments, function->argument_count, argument_shapes,
                  &out_call->arguments);
  if (!rc)
    rc = layout_all(function->results, results, rows, &out_call->results);
  if (!rc)
    rc = layout_all(function->temporaries, temporaries, rows + results, &out_call->temporaries);
done:
  free(rows);
  free(shapes);
  return rc;
}

void moe__run_call_free(moe__run_call_t *call) {
  if (!call->function)
    return;
  moe__run_tensors_free(call->arguments, call->function->argument_count);
  moe__run_tensors_free(call->results, call->function->result_count);
  moe__run_tensors_free(call->temporaries, call->function->temporary_count);
  *call = (moe__run_call_t){0};
}

moe__run_tensor_t *moe__run_tensors_like(const moe__run_tensor_t *tensors, int count) {
  moe__run_tensor_t *copies = calloc((size_t)count + 1, sizeof *copies);
  if (!copies) {
    moe__run_input_error("out of memory");
    return NULL;
  }
  for (int i = 0; i < count; i++) {
    copies[i] = tensors[i];
    copies[i].data = NULL;
  }
  for (int i = 0; i < count; i++)
    if (moe__run_tensor_allocate(&copies[i])) {
      moe__run_tensors_free(copies, count);
      return NULL;
    }
  return copies;
}

void moe__run_tensors_free(moe__run_tensor_t *tensors, int count) {
  for (int i = 0; tensors && i < count; i++)
    free(tensors[i].data);
  free(tensors);
}

int moe__run_tensor_allocate(moe__run_tensor_t *tensor) {
  size_t bytes = (tensor->bytes / HOST_ALIGNMENT + 1) * HOST_ALIGNMENT;
  tensor->data = aligned_alloc(HOST_ALIGNMENT, bytes);
  if (!tensor->data)
    return moe__run_input_error("tensor '%s': no memory for its %zu bytes", tensor->info->name,
                                tensor->bytes);
  return MOE__RUN_OK;
}

void moe__run_tensor_memory_shape(const moe__run_tensor_t *tensor, int64_t *out_shape) {
  for (int i = 0; i < tensor->info->rank; i++)
    out_shape[i] = tensor->shape[tensor->info->order[i]];
}

bool moe__run_tensor_is_permuted(const moe_rt_tensor_info_t *info) {
  for (int i = 0; i < info->rank; i++)
    if (info->order[i] != i)
      return true;
  return false;
}

void moe__run_tensor_index(const moe__run_tensor_t *tensor, int64_t position, int64_t *out_index) {
  for (int i = tensor->info->rank - 1; i >= 0; i--) {
    int dimension = tensor->info->order[i];
    out_index[dimension] = position % tensor->shape[dimension];
    position /= tensor->shape[dimension];
  }
}

moe_ref_tensor_t moe__run_tensor_view(const moe__run_tensor_t *tensor) {
  moe_ref_tensor_t view = {.data = tensor->data,
                           .dtype = (moe_ref_dtype_t)moe_ref_dtype_from_name(tensor->dtype->name),
                           .rank = tensor->info->rank};
  memcpy(view.shape, tensor->shape, sizeof view.shape);
  memcpy(view.strides, tensor->strides, sizeof view.strides);
  return view;
}

char *moe__run_list_text(int rank, const int64_t *values, const char *separator,
                         char text[MOE__RUN_LIST_TEXT]) {
  size_t used = 0;
  text[0] = '\0';
  for (int i = 0; i < rank && used + 32 < MOE__RUN_LIST_TEXT; i++)
    used += (size_t)snprintf(text + used, MOE__RUN_LIST_TEXT - used, "%s%" PRId64,
                             i ? separator : "", values[i]);
  return text;
}
