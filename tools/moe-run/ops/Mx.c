/* Mx.c - the ops of the mx_quantize dialect with MX scales, on the C reference.
 *
 * Why it exists: see Launch.h. MX blocks are computed apart from each other, so that slices are
 * plain calls of libmoe_ref on parts of the tensors. A dual op is two plain ones. Tokens in groups
 * are cut into MX blocks from the start of each group.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "tools/moe-run/Launch.h"

#include "tools/moe-run/Report.h"

/* The tensors that are scaled along one axis. */
typedef struct direction_t {
  int axis;
  moe_ref_tensor_t x, q, scales;
} direction_t;

/* Whether the numbers of q are made, and no scales. */
static bool rounds(const moe__run_launch_t *launch) {
  return moe__run_tensor(launch, "rounded") != NULL;
}

static bool is_dual(const moe__run_launch_t *launch) {
  return moe__run_tensor(launch, rounds(launch) ? "rounded_t" : "q_t") != NULL;
}

/* Of a dual op number 0 is along the last dimension, number 1 along the one before. */
static direction_t direction_of(const moe__run_launch_t *launch, int number) {
  const moe_ref_tensor_t *x = moe__run_tensor(launch, "x");
  if (rounds(launch)) {
    const moe_ref_tensor_t *rounded = moe__run_tensor(launch, number ? "rounded_t" : "rounded");
    return (direction_t){is_dual(launch) ? x->rank - 1 - number : launch->mx.axis, *x, *rounded,
                         *rounded};
  }
  return (direction_t){is_dual(launch) ? x->rank - 1 - number : launch->mx.axis, *x,
                       *moe__run_tensor(launch, number ? "q_t" : "q"),
                       *moe__run_tensor(launch, number ? "scales_t" : "scales")};
}

static int direction_count(const moe__run_launch_t *launch) {
  return is_dual(launch) ? 2 : 1;
}

static const moe_ref_tensor_t *offs_of(const moe__run_launch_t *launch) {
  return moe__run_tensor(launch, "offs");
}

/* All tensors have the rank of x and, but for the axis, its shape. */
static int check_shapes(const moe__run_launch_t *launch) {
  for (int number = 0; number < direction_count(launch); number++) {
    const direction_t direction = direction_of(launch, number);
    const moe_ref_tensor_t *x = &direction.x, *others[] = {&direction.q, &direction.scales};
    for (int i = 0; i < 2; i++)
      for (int d = 0; d < x->rank; d++)
        if (others[i]->rank != x->rank ||
            (d != direction.axis && others[i]->shape[d] != x->shape[d]))
          return moe__run_input_error("%s: the shapes of its tensors do not agree in dimension %d",
                                      launch->name, d);
  }
  return MOE__RUN_OK;
}

static int prepare_mx_block(moe__run_launch_t *launch, const json_t *attributes) {
  launch->mx.block_size = MOE_MX_BLOCK;
  if (!json_object_get(attributes, "block"))
    return MOE__RUN_OK;
  return moe__run_attribute_integer(launch, attributes, "block", 1, INT64_MAX,
                                    &launch->mx.block_size);
}

static int prepare_axis(moe__run_launch_t *launch, const json_t *attributes) {
  int64_t axis = 0;
  int rc = moe__run_attribute_integer(launch, attributes, "axis", 0,
                                      moe__run_first_operand(launch)->rank - 1, &axis);
  launch->mx.axis = (int)axis;
  return rc;
}

static int prepare_mode(moe__run_launch_t *launch, const json_t *attributes) {
  int number = -1;
  int rc = moe__run_attribute_name(launch, attributes, "mode", moe_ref_mx_mode_from_name, &number);
  launch->mx.mode = (moe_ref_mx_mode_t)number;
  return rc;
}

static int prepare_element(moe__run_launch_t *launch, const json_t *attributes) {
  int number = -1;
  int rc = moe__run_attribute_name(launch, attributes, "element", moe_ref_dtype_from_name, &number);
  launch->mx.element = (moe_ref_dtype_t)number;
  return rc;
}

static int prepare(moe__run_launch_t *launch, const json_t *attributes) {
  int rc = MOE__RUN_OK;
  if (is_dual(launch) && moe__run_first_operand(launch)->rank < 2)
    rc = moe__run_input_error("%s: x has one dimension", launch->name);
  launch->mx.aligned = json_object_get(attributes, "align") != NULL;
  launch->mx.evens_first = json_object_get(attributes, "order") != NULL;
  if (!rc && !is_dual(launch))
    rc = prepare_axis(launch, attributes);
  if (!rc)
    rc = prepare_mx_block(launch, attributes);
  if (!rc && (moe__run_makes(launch, "scales") || rounds(launch)))
    rc = prepare_mode(launch, attributes);
  if (!rc && rounds(launch))
    rc = prepare_element(launch, attributes);
  return rc ? rc : check_shapes(launch);
}

/* Cuts each direction along the longest dimension that is not its axis. */
static void cut(moe__run_launch_t *launch, int threads) {
  launch->slices = 0;
  for (int number = 0; number < direction_count(launch); number++) {
    const direction_t direction = direction_of(launch, number);
    const moe_ref_tensor_t *x = &direction.x;
    int best = -1;
    for (int d = 0; d < x->rank; d++)
      if (d != direction.axis && !(d == 0 && rounds(launch) && offs_of(launch)) &&
          (best < 0 || x->shape[d] > x->shape[best]))
        best = d;
    launch->cuts[number] = moe__run_cut(best, best < 0 ? 1 : x->shape[best], 1, threads);
    launch->slices += launch->cuts[number].slices;
  }
}

/* The direction that the slice is of, cut to it. */
static direction_t slice_direction(const moe__run_launch_t *launch, int64_t slice) {
  int64_t begin, end;
  const int number = moe__run_slice(launch, slice, &begin, &end);
  const int dimension = launch->cuts[number].dimension;
  direction_t direction = direction_of(launch, number);
  direction.x = moe__run_part(&direction.x, dimension, begin, end);
  direction.q = moe__run_part(&direction.q, dimension, begin, end);
  direction.scales = moe__run_part(&direction.scales, dimension, begin, end);
  return direction;
}

static moe_ref_status_t run_quantize(const moe__run_launch_t *launch, int64_t slice) {
  const direction_t direction = slice_direction(launch, slice);
  if (offs_of(launch))
    return (launch->mx.aligned ? moe_ref_mx_quantize_aligned : moe_ref_mx_quantize_groups)(
        &direction.x, offs_of(launch), launch->mx.block_size, launch->mx.mode, &direction.q,
        &direction.scales);
  return moe_ref_mx_quantize(&direction.x, direction.axis, launch->mx.block_size, launch->mx.mode,
                             &direction.q, &direction.scales);
}

static moe_ref_status_t run_round(const moe__run_launch_t *launch, int64_t slice) {
  const direction_t direction = slice_direction(launch, slice);
  return moe_ref_mx_round(&direction.x, offs_of(launch), direction.axis, launch->mx.block_size,
                          launch->mx.mode, launch->mx.element, &direction.q);
}

static moe_ref_status_t run_dequantize(const moe__run_launch_t *launch, int64_t slice) {
  const direction_t direction = slice_direction(launch, slice);
  if (offs_of(launch))
    return (launch->mx.aligned ? moe_ref_mx_dequantize_aligned : moe_ref_mx_dequantize_groups)(
        &direction.q, &direction.scales, offs_of(launch), launch->mx.block_size, &direction.x);
  const moe_ref_status_t status = moe_ref_mx_dequantize(
      &direction.q, &direction.scales, direction.axis, launch->mx.block_size, &direction.x);
  if (status == MOE_REF_OK && launch->mx.evens_first)
    moe__run_put_evens_first(&direction.x);
  return status;
}

/* All operands are seen in the same cells, if not of the same length. */
static void use(const moe__run_launch_t *launch, const char *role, moe__run_use_t *out_use) {
  const int rank = moe__run_first_operand(launch)->rank;
  out_use->tokens = moe__run_first_operand(launch)->shape[0];
  if (moe__run_is(role, "offs"))
    out_use->role = MOE__RUN_OFFSETS;
  for (int d = 0; d < rank; d++)
    out_use->cell[d] = d == launch->mx.axis ? launch->mx.block_size : 1;
  out_use->is_crossed = is_dual(launch);
  if (is_dual(launch)) {
    out_use->cell[0] = 1;
    out_use->cell[rank - 2] = out_use->cell[rank - 1] = launch->mx.block_size;
  }
}

/* Tokens of all groups; where aligned ones are dequantized, without the room between them. */
static int64_t token_count(const moe__run_launch_t *launch) {
  const int64_t rows = moe__run_first_operand(launch)->shape[0];
  if (!launch->mx.aligned || moe__run_makes(launch, "q"))
    return rows;
  const int64_t room = offs_of(launch)->shape[0] * MOE_GROUP_ALIGN;
  return rows > room ? rows - room : 0;
}

/* Dequantizing groups, tokens of none may be NaN, and scales that belong to no block. */
static void use_quantized(const moe__run_launch_t *launch, const char *role,
                          moe__run_use_t *out_use) {
  use(launch, role, out_use);
  out_use->tokens = token_count(launch);
  if (!offs_of(launch) || out_use->role == MOE__RUN_OFFSETS)
    return;
  out_use->offs = *offs_of(launch);
  out_use->nan = moe__run_is(role, "q") ? MOE__RUN_NAN_TOKENS : MOE__RUN_NAN_NO_BLOCK;
  out_use->token_block = launch->mx.block_size;
  out_use->align = launch->mx.aligned ? MOE_GROUP_ALIGN : 0;
}

static const char *quantized_from(const moe__run_launch_t *launch, const char *role) {
  return (moe__run_makes(launch, "q") && *role == 'q') || rounds(launch) ? "x" : NULL;
}

/* Of q, of what is rounded and what is dequantized, rows that are in no group; of scales, rows that
 * belong to no block. */
static int64_t written_rows(const moe__run_launch_t *launch, const char *role) {
  if (!offs_of(launch) || *role == 's')
    return -1;
  return (launch->mx.aligned ? moe_ref_aligned_end : moe_ref_grouped_rows)(offs_of(launch),
                                                                           token_count(launch));
}

static bool has_gaps(const moe__run_launch_t *launch, const char *role) {
  return offs_of(launch) && (*role == 's' || launch->mx.aligned);
}

#define MX_OP(op_name, roles, runs, ...)                                                           \
  {                                                                                                \
    .name = "mx_quantize." op_name, .tensors = (roles), .prepare = prepare, .cut = cut,            \
    .run = (runs), .quantized_from = quantized_from, .written_rows = written_rows,                 \
    .has_gaps = has_gaps, __VA_ARGS__                                                              \
  }

const moe__run_op_t moe__run_quantize_ops[] = {
    MX_OP("quantize", "x [offs] -> q scales", run_quantize, .use = use),
    MX_OP("quantize_dual", "x -> q scales q_t scales_t", run_quantize, .use = use),
    MX_OP("round", "x [offs] -> rounded", run_round, .use = use),
    MX_OP("round_dual", "x [offs] -> rounded rounded_t", run_round, .use = use),
    MX_OP("dequantize", "q scales [offs] -> x", run_dequantize, .use = use_quantized,
          .passed_on = "x"),
    {0},
};
