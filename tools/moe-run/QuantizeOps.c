/* QuantizeOps.c - the ops of the mx_quantize dialect on the C reference.
 *
 * Why it exists: see Launch.h. Blocks are computed apart from each other, so that slices are plain
 * calls of libmoe_ref on parts of the tensors.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "tools/moe-run/Launch.h"

#include "tools/moe-run/Report.h"

enum { CACHE_LINE_ELEMENTS = 64 };

static int tensor_count(const moe__launch_t *launch) {
  return launch->operand_count + launch->op->result_count;
}

/* All tensors have the rank of the first and, but for the axis, its shape. */
static int check_shapes(const moe__launch_t *launch) {
  const moe_ref_tensor_t *x = &launch->tensors[0];
  for (int i = 1; i < tensor_count(launch); i++)
    for (int d = 0; d < x->rank; d++)
      if (launch->tensors[i].rank != x->rank ||
          (d != launch->mx.axis && launch->tensors[i].shape[d] != x->shape[d]))
        return moe__input_error("%s: the shapes of its tensors do not agree in dimension %d",
                                launch->name, d);
  return MOE__OK;
}

static int prepare_blocks(moe__launch_t *launch, const json_t *attributes) {
  const json_t *axis = json_object_get(attributes, "axis");
  const json_t *block = json_object_get(attributes, "block");
  const int rank = launch->tensors[0].rank;
  if (!json_is_integer(axis) || json_integer_value(axis) < 0 || json_integer_value(axis) >= rank)
    return moe__input_error("%s: attribute 'axis' is not an integer from 0 to %d", launch->name,
                            rank - 1);
  if (block && (!json_is_integer(block) || json_integer_value(block) < 1))
    return moe__input_error("%s: attribute 'block' is not an integer above 0", launch->name);
  launch->mx.axis = (int)json_integer_value(axis);
  launch->mx.block = block ? json_integer_value(block) : MOE__DEFAULT_BLOCK;
  return MOE__OK;
}

static int prepare_quantize(moe__launch_t *launch, const json_t *attributes) {
  const char *mode = json_string_value(json_object_get(attributes, "mode"));
  int number = mode ? moe_ref_mx_mode_from_name(mode) : -1;
  int rc = prepare_blocks(launch, attributes);
  if (!rc && number < 0)
    rc = moe__input_error("%s: attribute 'mode' is %s%s%s, which the C reference does not know",
                          launch->name, mode ? "'" : "", mode ? mode : "missing", mode ? "'" : "");
  launch->mx.mode = (moe_ref_mx_mode_t)number;
  return rc ? rc : check_shapes(launch);
}

static int prepare_dequantize(moe__launch_t *launch, const json_t *attributes) {
  int rc = prepare_blocks(launch, attributes);
  return rc ? rc : check_shapes(launch);
}

/* Cuts along the longest dimension that is not the axis. */
static void cut(moe__launch_t *launch, int threads) {
  const moe_ref_tensor_t *x = &launch->tensors[0];
  const int axis = launch->mx.axis;
  int best = -1;
  for (int d = 0; d < x->rank; d++)
    if (d != axis && (best < 0 || x->shape[d] > x->shape[best]))
      best = d;
  launch->mx.slice_dimension = best < 0 ? axis : best;
  launch->mx.slice_unit = best < 0 ? x->shape[axis] : 1;
  launch->slices = 1;
  if (best < 0 || threads == 1)
    return;
  /* Threads that write into one cache line wait for each other. */
  if (x->shape[best] >= (int64_t)threads * CACHE_LINE_ELEMENTS)
    launch->mx.slice_unit = CACHE_LINE_ELEMENTS;
  int64_t units = (x->shape[best] + launch->mx.slice_unit - 1) / launch->mx.slice_unit;
  int64_t wanted = (int64_t)threads * MOE__SLICES_PER_THREAD;
  launch->slices = units < wanted ? units : wanted;
}

/* The parts of the launch's tensors that are slice number `slice`. */
static void slice_tensors(const moe__launch_t *launch, int64_t slice, moe_ref_tensor_t *tensors) {
  const int d = launch->mx.slice_dimension;
  const int64_t unit = launch->mx.slice_unit, size = launch->tensors[0].shape[d];
  int64_t units = (size + unit - 1) / unit;
  int64_t begin = units * slice / launch->slices * unit;
  int64_t end = units * (slice + 1) / launch->slices * unit;
  end = end < size ? end : size;
  for (int i = 0; i < tensor_count(launch); i++) {
    tensors[i] = launch->tensors[i];
    if (launch->slices == 1)
      continue;
    tensors[i].shape[d] = end - begin;
    tensors[i].data = (uint8_t *)tensors[i].data +
                      begin * tensors[i].strides[d] * (moe_ref_dtype_bits(tensors[i].dtype) / 8);
  }
}

static moe_ref_status_t run_quantize(const moe__launch_t *launch, int64_t slice) {
  moe_ref_tensor_t tensors[MOE__MAX_LAUNCH_TENSORS];
  slice_tensors(launch, slice, tensors);
  return moe_ref_mx_quantize(&tensors[0], launch->mx.axis, launch->mx.block, launch->mx.mode,
                             &tensors[1], &tensors[2]);
}

static moe_ref_status_t run_dequantize(const moe__launch_t *launch, int64_t slice) {
  moe_ref_tensor_t tensors[MOE__MAX_LAUNCH_TENSORS];
  slice_tensors(launch, slice, tensors);
  return moe_ref_mx_dequantize(&tensors[0], &tensors[1], launch->mx.axis, launch->mx.block,
                               &tensors[2]);
}

/* All operands are seen in the same blocks, if not of the same length. */
static void use(const moe__launch_t *launch, int operand, moe__use_t *out_use) {
  (void)operand;
  out_use->axis = launch->mx.axis;
  out_use->block = launch->mx.block;
}

const moe__op_t moe__op_quantize = {.name = "mx_quantize.quantize",
                                    .least_operands = 1,
                                    .most_operands = 1,
                                    .result_count = 2,
                                    .prepare = prepare_quantize,
                                    .cut = cut,
                                    .run = run_quantize,
                                    .use = use};

const moe__op_t moe__op_dequantize = {.name = "mx_quantize.dequantize",
                                      .least_operands = 2,
                                      .most_operands = 2,
                                      .result_count = 1,
                                      .prepare = prepare_dequantize,
                                      .cut = cut,
                                      .run = run_dequantize,
                                      .use = use};
