/* Reference.c - computes a function's launches with libmoe_ref.
 *
 * Why it exists: see Reference.h. To support a new op, add a function and a line to the table
 * `ops`.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "tools/moe-run/Reference.h"

#include "tools/moe-run/Parallel.h"
#include "tools/moe-run/Report.h"

#include <jansson.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_OPERANDS = 3, DEFAULT_BLOCK = 32, SLICES_PER_THREAD = 16, CACHE_LINE_ELEMENTS = 64 };

typedef struct launch_t launch_t;
typedef moe_ref_status_t (*op_run_t)(const launch_t *launch, const moe_ref_tensor_t *tensors);

/* An op of the manifest. Its tensors are its operands, then its results; `tensors[0]` is the one
 * that is cut in slices, and the others have its rank and, but for the axis, its shape. */
typedef struct op_t {
  const char *name;
  int operand_count, result_count;
  bool has_mode;
  op_run_t run;
} op_t;

struct launch_t {
  const op_t *op;
  const char *name;
  int axis;
  int64_t block;
  moe_ref_mx_mode_t mode;
  moe_ref_tensor_t tensors[MAX_OPERANDS];
  int slice_dimension;
  int64_t slices;
  int64_t slice_unit; /* slices begin at multiples of it */
  atomic_int failed;
};

static moe_ref_status_t run_quantize(const launch_t *launch, const moe_ref_tensor_t *tensors) {
  return moe_ref_mx_quantize(&tensors[0], launch->axis, launch->block, launch->mode, &tensors[1],
                             &tensors[2]);
}

static moe_ref_status_t run_dequantize(const launch_t *launch, const moe_ref_tensor_t *tensors) {
  return moe_ref_mx_dequantize(&tensors[0], &tensors[1], launch->axis, launch->block, &tensors[2]);
}

static const op_t ops[] = {
    {"mx_quantize.quantize", 1, 2, true, run_quantize},
    {"mx_quantize.dequantize", 2, 1, false, run_dequantize},
};

static const moe__tensor_t *find(const moe__tensor_t *tensors, int count, const char *name) {
  for (int i = 0; i < count; i++)
    if (!strcmp(tensors[i].info->name, name))
      return &tensors[i];
  return NULL;
}

static int parse_attributes(launch_t *launch, const char *text, int rank) {
  json_t *root = json_loads(text, 0, NULL);
  const json_t *axis = json_object_get(root, "axis"), *block = json_object_get(root, "block");
  const char *mode = json_string_value(json_object_get(root, "mode"));
  int mode_number = mode ? moe_ref_mx_mode_from_name(mode) : -1;
  int rc = MOE__OK;
  if (!json_is_integer(axis) || json_integer_value(axis) < 0 || json_integer_value(axis) >= rank)
    rc = moe__input_error("%s: attribute 'axis' is not an integer from 0 to %d", launch->name,
                          rank - 1);
  else if (block && (!json_is_integer(block) || json_integer_value(block) < 1))
    rc = moe__input_error("%s: attribute 'block' is not an integer above 0", launch->name);
  else if (launch->op->has_mode && mode_number < 0)
    rc = moe__input_error("%s: attribute 'mode' is %s%s%s, which the C reference does not know",
                          launch->name, mode ? "'" : "", mode ? mode : "missing", mode ? "'" : "");
  launch->axis = (int)json_integer_value(axis);
  launch->block = block ? json_integer_value(block) : DEFAULT_BLOCK;
  launch->mode = (moe_ref_mx_mode_t)mode_number;
  json_decref(root);
  return rc;
}

/* Cuts along the longest dimension that is not the axis. */
static void choose_slices(launch_t *launch, int threads) {
  const moe_ref_tensor_t *x = &launch->tensors[0];
  int best = -1;
  for (int d = 0; d < x->rank; d++)
    if (d != launch->axis && (best < 0 || x->shape[d] > x->shape[best]))
      best = d;
  launch->slice_dimension = best < 0 ? launch->axis : best;
  launch->slice_unit = best < 0 ? x->shape[launch->axis] : 1;
  launch->slices = 1;
  if (best < 0 || threads == 1)
    return;
  /* Threads that write into one cache line wait for each other. */
  if (x->shape[best] >= (int64_t)threads * CACHE_LINE_ELEMENTS)
    launch->slice_unit = CACHE_LINE_ELEMENTS;
  int64_t units = (x->shape[best] + launch->slice_unit - 1) / launch->slice_unit;
  int64_t wanted = (int64_t)threads * SLICES_PER_THREAD;
  launch->slices = units < wanted ? units : wanted;
}

static void run_slice(void *context, int64_t slice) {
  launch_t *launch = context;
  moe_ref_tensor_t tensors[MAX_OPERANDS];
  const int d = launch->slice_dimension;
  int64_t size = launch->tensors[0].shape[d];
  int64_t units = (size + launch->slice_unit - 1) / launch->slice_unit;
  int64_t begin = units * slice / launch->slices * launch->slice_unit;
  int64_t end = units * (slice + 1) / launch->slices * launch->slice_unit;
  end = end < size ? end : size;
  for (int i = 0; i < launch->op->operand_count + launch->op->result_count; i++) {
    tensors[i] = launch->tensors[i];
    if (launch->slices == 1)
      continue;
    tensors[i].shape[d] = end - begin;
    tensors[i].data = (uint8_t *)tensors[i].data +
                      begin * tensors[i].strides[d] * (moe_ref_dtype_bits(tensors[i].dtype) / 8);
  }
  if (launch->op->run(launch, tensors) != MOE_REF_OK)
    atomic_store(&launch->failed, 1);
}

/* Binds the launch's names to tensors and checks what slicing relies on. */
static int bind_tensors(launch_t *launch, const moe_rt_launch_info_t *info, const moe__call_t *call,
                        const moe__tensor_t *results, const moe__tensor_t *temporaries) {
  const moe_rt_function_info_t *function = call->function;
  launch->name = info->op;
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
    if (!strcmp(ops[i].name, info->op))
      launch->op = &ops[i];
  if (!launch->op)
    return moe__input_error("function '%s': the C reference does not know the op '%s'",
                            function->name, info->op);
  const op_t *op = launch->op;
  if (info->operand_count != op->operand_count || info->result_count != op->result_count)
    return moe__input_error("%s: has %d operands and %d results instead of %d and %d", info->op,
                            info->operand_count, info->result_count, op->operand_count,
                            op->result_count);
  for (int i = 0; i < op->operand_count + op->result_count; i++) {
    bool is_operand = i < op->operand_count;
    const char *name = is_operand ? info->operands[i] : info->results[i - op->operand_count];
    const moe__tensor_t *tensor = find(temporaries, function->temporary_count, name);
    if (!tensor)
      tensor = find(results, function->result_count, name);
    if (!tensor && is_operand)
      tensor = find(call->arguments, function->argument_count, name);
    if (!tensor)
      return moe__input_error("%s: there is no tensor '%s' for it to %s", info->op, name,
                              is_operand ? "read" : "write");
    if (moe_ref_dtype_from_name(tensor->info->dtype) < 0)
      return moe__input_error("%s: the C reference does not take %s, the dtype of '%s'", info->op,
                              tensor->info->dtype, name);
    launch->tensors[i] = moe__tensor_view(tensor);
  }
  int rc = parse_attributes(launch, info->attributes_json, launch->tensors[0].rank);
  if (rc)
    return rc;
  const moe_ref_tensor_t *x = &launch->tensors[0];
  for (int i = 1; i < op->operand_count + op->result_count; i++)
    for (int d = 0; d < x->rank; d++)
      if (launch->tensors[i].rank != x->rank ||
          (d != launch->axis && launch->tensors[i].shape[d] != x->shape[d]))
        return moe__input_error("%s: the shapes of its tensors do not agree in dimension %d",
                                info->op, d);
  return MOE__OK;
}

int moe__reference_run(const moe__call_t *call, moe__tensor_t *results, int threads) {
  const moe_rt_function_info_t *function = call->function;
  moe__tensor_t *temporaries = moe__tensors_like(call->temporaries, function->temporary_count);
  if (!temporaries)
    return MOE__INPUT;
  int rc = MOE__OK;
  for (int i = 0; i < function->launch_count && !rc; i++) {
    launch_t launch = {0};
    rc = bind_tensors(&launch, &function->launches[i], call, results, temporaries);
    if (rc)
      break;
    choose_slices(&launch, threads);
    moe__parallel("computing with the C reference", threads, launch.slices, run_slice, &launch);
    if (atomic_load(&launch.failed))
      rc = moe__input_error(
          "%s: the C reference does not take these dtypes, shapes and attributes %s", launch.name,
          function->launches[i].attributes_json);
  }
  moe__tensors_free(temporaries, function->temporary_count);
  return rc;
}

void moe__reference_blocks(const moe_rt_function_info_t *function,
                           const moe_rt_tensor_info_t *argument, int *out_axis,
                           int64_t *out_block) {
  *out_axis = argument->rank - 1;
  *out_block = DEFAULT_BLOCK;
  for (int i = 0; i < function->launch_count; i++) {
    const moe_rt_launch_info_t *launch = &function->launches[i];
    for (int j = 0; j < launch->operand_count; j++) {
      if (strcmp(launch->operands[j], argument->name))
        continue;
      json_t *root = json_loads(launch->attributes_json, 0, NULL);
      const json_t *axis = json_object_get(root, "axis"), *block = json_object_get(root, "block");
      if (json_is_integer(axis) && json_integer_value(axis) >= 0 &&
          json_integer_value(axis) < argument->rank)
        *out_axis = (int)json_integer_value(axis);
      if (json_is_integer(block) && json_integer_value(block) > 0)
        *out_block = json_integer_value(block);
      json_decref(root);
      return;
    }
  }
}
