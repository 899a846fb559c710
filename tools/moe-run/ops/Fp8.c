/* Fp8.c - the ops of the mx_quantize dialect with fp32 scales, on the C reference.
 *
 * Why it exists: see Launch.h. Slices are plain calls of libmoe_ref on parts of the tensors:
 * between scales where amaxes are found, anywhere where elements are only multiplied. A dual op
 * is two plain ones: row by row, and along the dimension before the last. A pair is two along
 * dimension 0, of two tensors. What is said of directions here holds for these two as well.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "tools/moe-run/Launch.h"

#include "tools/moe-run/Report.h"

#include <stdio.h>
#include <string.h>

/* Rows of a cell of random data where the op's slices are groups, which may be of any size. */
enum { GROUP_CELL = 64 };

/* ---- What the ops have in common ---- */

static bool has(const moe__run_launch_t *launch, const char *role) {
  return moe__run_tensor(launch, role) != NULL;
}

/* Finds scales and casts; the two passes of it find scales, or cast. */
static bool is_quantize(const moe__run_launch_t *launch) {
  return moe__run_makes(launch, "q") && moe__run_makes(launch, "scales");
}

static bool is_scale(const moe__run_launch_t *launch) {
  return has(launch, "state");
}

static bool is_cast(const moe__run_launch_t *launch) {
  return moe__run_makes(launch, "q") && !has(launch, "scales");
}

static bool is_dual(const moe__run_launch_t *launch) {
  return has(launch, "q_t") || has(launch, "scales_t");
}

static bool is_pair(const moe__run_launch_t *launch) {
  return has(launch, "y");
}

static int direction_count(const moe__run_launch_t *launch) {
  return is_dual(launch) || is_pair(launch) ? 2 : 1;
}

static const moe_ref_tensor_t *offs_of(const moe__run_launch_t *launch) {
  return moe__run_tensor(launch, "offs");
}

static int64_t row_count(const moe__run_launch_t *launch) {
  return moe__run_first_operand(launch)->shape[0];
}

/* The tensor of this role of direction number `number`: "q", "q_t" or "q_y"; NULL if there is
 * none. */
static const moe_ref_tensor_t *tensor_of(const moe__run_launch_t *launch, const char *role,
                                         int number) {
  char name[16];
  snprintf(name, sizeof name, "%s%s", role, number == 0 ? "" : is_dual(launch) ? "_t" : "_y");
  return moe__run_tensor(launch, name);
}

/* The tensors that are scaled along one axis. What the op does not have is x again, which is of no
 * use to it. */
typedef struct direction_t {
  moe_ref_fp8_scaling_t scaling;
  moe_ref_tensor_t x, q, scales, factors;
} direction_t;

static void bind_tensors(const moe__run_launch_t *launch, int number, direction_t *out) {
  const moe_ref_tensor_t *x = moe__run_tensor(launch, is_pair(launch) && number ? "y" : "x");
  const moe_ref_tensor_t *q = tensor_of(launch, "q", number);
  const moe_ref_tensor_t *scales = tensor_of(launch, "scales", number);
  const moe_ref_tensor_t *factors = tensor_of(launch, "factors", number);
  out->x = *x;
  out->q = q ? *q : *x;
  out->scales = scales ? *scales : *x;
  out->factors = factors ? *factors : *x;
}

/* Whether the direction writes tokens in groups, which are summed over. It may have room for
 * more than x has; those are in no group. */
static bool is_along_tokens(const moe__run_launch_t *launch, const direction_t *direction) {
  return (is_quantize(launch) || is_cast(launch)) && direction->scaling.offs &&
         direction->scaling.axis == 0;
}

/* Of a dual op number 0 is along the last dimension, whose rows are scaled one by one, so that
 * groups are nothing to it; number 1 is along the one before. */
static direction_t direction_of(const moe__run_launch_t *launch, int number) {
  direction_t direction = {.scaling = launch->fp8.scaling};
  direction.scaling.offs = offs_of(launch);
  direction.scaling.aligned &= !is_dual(launch) || number == 1;
  if (is_dual(launch)) {
    direction.scaling.axis = moe__run_first_operand(launch)->rank - 1 - number;
    direction.scaling.offs = number == 0 ? NULL : offs_of(launch);
  } else if (is_pair(launch)) {
    direction.scaling.granularity = MOE_REF_ROW;
    direction.scaling.axis = 0;
  }
  bind_tensors(launch, number, &direction);
  if (is_along_tokens(launch, &direction) && !direction.scaling.aligned &&
      direction.q.shape[0] > direction.x.shape[0])
    direction.q.shape[0] = direction.x.shape[0];
  return direction;
}

/* ---- Attributes and shapes ---- */

static bool has_shape(const moe_ref_tensor_t *tensor, int rank, const int64_t *shape) {
  return tensor->rank == rank && !memcmp(tensor->shape, shape, (size_t)rank * sizeof *shape);
}

static int check_shapes(const moe__run_launch_t *launch) {
  const moe_ref_tensor_t *y = moe__run_tensor(launch, "y");
  if (y && row_count(launch) != y->shape[0])
    return moe__run_input_error("%s: its two tensors have %lld and %lld rows", launch->name,
                                (long long)row_count(launch), (long long)y->shape[0]);
  for (int number = 0; number < direction_count(launch); number++) {
    const direction_t direction = direction_of(launch, number);
    const moe_ref_tensor_t *x = &direction.x;
    const bool has_q = !is_scale(launch), has_scales = !is_cast(launch);
    const bool has_factors = is_scale(launch) || is_cast(launch);
    int64_t shape[MOE_REF_MAX_RANK], q_shape[MOE_REF_MAX_RANK];
    const int rank = moe_ref_fp8_scale_shape(x, &direction.scaling, shape);
    if (rank < 0)
      return moe__run_input_error(
          "%s: the C reference has no such granularity of %d dimensions along axis %d %s offsets",
          launch->name, x->rank, direction.scaling.axis,
          direction.scaling.offs ? "with" : "without");
    memcpy(q_shape, x->shape, sizeof q_shape);
    if (direction.scaling.aligned)
      q_shape[0] = moe_ref_aligned_rows(x->shape[0], direction.scaling.offs->shape[0]);
    if ((has_q && !has_shape(&direction.q, x->rank, q_shape)) ||
        (has_scales && !has_shape(&direction.scales, rank, shape)) ||
        (has_factors && !has_shape(&direction.factors, rank, shape)))
      return moe__run_input_error("%s: the shapes of its tensors do not agree", launch->name);
  }
  return MOE__RUN_OK;
}

/* A dual op and a pair are row by row where they do not say, and have no axis. */
static int prepare_granularity(moe__run_launch_t *launch, const json_t *attributes) {
  const bool has_axis = direction_count(launch) == 1;
  int granularity = MOE_REF_ROW, rc = MOE__RUN_OK;
  int64_t axis = 0;
  if (has_axis || json_object_get(attributes, "granularity"))
    rc = moe__run_attribute_name(launch, attributes, "granularity",
                                 moe_ref_fp8_granularity_from_name, &granularity);
  if (!rc && has_axis)
    rc = moe__run_attribute_integer(launch, attributes, "axis", 0,
                                    moe__run_first_operand(launch)->rank - 1, &axis);
  launch->fp8.scaling.granularity = (moe_ref_fp8_granularity_t)granularity;
  launch->fp8.scaling.axis = (int)axis;
  return rc;
}

static int prepare(moe__run_launch_t *launch, const json_t *attributes) {
  moe_ref_fp8_scaling_t *scaling = &launch->fp8.scaling;
  int rc = prepare_granularity(launch, attributes), element = 0;
  scaling->aligned = json_object_get(attributes, "align") != NULL;
  if (!rc && (is_quantize(launch) || is_scale(launch)))
    rc = moe__run_attribute_flag(launch, attributes, "pow2", &scaling->pow2);
  if (!rc && !moe__run_makes(launch, "x"))
    rc = moe__run_attribute_flag(launch, attributes, "sanitize", &scaling->sanitize);
  if (!rc && is_scale(launch))
    rc = moe__run_attribute_name(launch, attributes, "element", moe_ref_dtype_from_name, &element);
  launch->fp8.element = (moe_ref_dtype_t)element;
  return rc ? rc : check_shapes(launch);
}

/* ---- Slices ---- */

static int64_t cell_along(const direction_t *direction, int dimension) {
  return moe_ref_fp8_cell(direction->scaling.granularity, direction->scaling.axis,
                          direction->x.rank, dimension);
}

/* Whether tokens are cut into blocks of 128 from the start of each group: scales of groups then
 * have no dimension of their own, and there are rows of nobody between them. */
static bool has_token_blocks(const direction_t *direction) {
  return direction->scaling.offs && direction->scaling.granularity == MOE_REF_1X128;
}

/* What direction 0 of a dual op sees of a tensor with rows: those that are in groups. */
static moe_ref_tensor_t rows_in_groups(const moe_ref_tensor_t *offs,
                                       const moe_ref_tensor_t *tensor) {
  return moe__run_part(tensor, 0, 0, moe_ref_grouped_rows(offs, tensor->shape[0]));
}

/* The same direction for running, when offsets have data. */
static direction_t grouped_direction(const moe__run_launch_t *launch, int number) {
  direction_t direction = direction_of(launch, number);
  const moe_ref_tensor_t *offs = offs_of(launch);
  if (!is_dual(launch) || !offs || number == 1)
    return direction;
  direction.x = rows_in_groups(offs, &direction.x);
  direction.q = rows_in_groups(offs, &direction.q);
  direction.scales = rows_in_groups(offs, &direction.scales);
  direction.factors = rows_in_groups(offs, &direction.factors);
  return direction;
}

/* Along the longest dimension that may be cut. */
static moe__run_cut_t cut_direction(const moe__run_launch_t *launch, int number, int threads) {
  const direction_t direction = grouped_direction(launch, number);
  const moe_ref_tensor_t *x = &direction.x;
  const bool finds_amax = is_quantize(launch) || is_scale(launch);
  int best = -1;
  for (int d = 0; d < x->rank; d++) {
    const bool is_whole = cell_along(&direction, d) == 0 && finds_amax;
    const bool is_grouped = direction.scaling.offs && d == 0;
    if (!is_whole && !is_grouped && (best < 0 || x->shape[d] > x->shape[best]))
      best = d;
  }
  if (best < 0)
    return moe__run_cut(-1, 1, 1, threads);
  const int64_t cell = cell_along(&direction, best);
  return moe__run_cut(best, x->shape[best], cell > 0 ? cell : 1, threads);
}

static void cut(moe__run_launch_t *launch, int threads) {
  launch->slices = 0;
  for (int number = 0; number < direction_count(launch); number++) {
    launch->cuts[number] = cut_direction(launch, number, threads);
    launch->slices += launch->cuts[number].slices;
  }
}

/* The part of scales that belongs to elements [begin, end) of `dimension`. */
static moe_ref_tensor_t part_of_scales(const direction_t *direction, const moe_ref_tensor_t *scales,
                                       int dimension, int64_t begin, int64_t end) {
  const int64_t cell = dimension < 0 ? 0 : cell_along(direction, dimension);
  int own = direction->scaling.offs && !has_token_blocks(direction); /* dimension of the scales */
  if (cell == 0)
    return *scales;
  for (int d = 0; d < dimension; d++)
    own += cell_along(direction, d) > 0;
  return moe__run_part(scales, own, begin / cell, moe_ref_padded(end, cell) / cell);
}

/* The direction that the slice is of, cut to it. */
static direction_t slice_direction(const moe__run_launch_t *launch, int64_t slice) {
  int64_t begin, end;
  const int number = moe__run_slice(launch, slice, &begin, &end);
  const int dimension = launch->cuts[number].dimension;
  const direction_t whole = grouped_direction(launch, number);
  direction_t part = whole;
  part.x = moe__run_part(&whole.x, dimension, begin, end);
  if (!is_scale(launch))
    part.q = moe__run_part(&whole.q, dimension, begin, end);
  if (!is_cast(launch))
    part.scales = part_of_scales(&whole, &whole.scales, dimension, begin, end);
  if (is_scale(launch) || is_cast(launch))
    part.factors = part_of_scales(&whole, &whole.factors, dimension, begin, end);
  return part;
}

/* ---- Running ---- */

static moe_ref_status_t run_quantize(const moe__run_launch_t *launch, int64_t slice) {
  const direction_t part = slice_direction(launch, slice);
  return moe_ref_fp8_quantize(&part.x, &part.scaling, &part.q, &part.scales);
}

static moe_ref_status_t run_dequantize(const moe__run_launch_t *launch, int64_t slice) {
  const direction_t part = slice_direction(launch, slice);
  return moe_ref_fp8_dequantize(&part.q, &part.scales, &part.scaling, &part.x);
}

static moe_ref_status_t run_cast(const moe__run_launch_t *launch, int64_t slice) {
  const direction_t part = slice_direction(launch, slice);
  return moe_ref_fp8_cast(&part.x, &part.factors, &part.scaling, &part.q);
}

/* What a kernel keeps between calls: zeros, before and after each. */
static moe_ref_status_t clear_state(const moe__run_launch_t *launch) {
  for (int number = 0; number < direction_count(launch); number++) {
    const moe_ref_tensor_t *state = tensor_of(launch, "state", number);
    int64_t count = 1;
    for (int d = 0; d < state->rank; d++)
      count *= state->shape[d];
    if (state->dtype != MOE_REF_I32)
      return MOE_REF_INVALID_ARGUMENT;
    memset(state->data, 0, (size_t)count * sizeof(int32_t));
  }
  return MOE_REF_OK;
}

static moe_ref_status_t run_scale(const moe__run_launch_t *launch, int64_t slice) {
  const direction_t part = slice_direction(launch, slice);
  const moe_ref_status_t status = slice == 0 ? clear_state(launch) : MOE_REF_OK;
  return status ? status
                : moe_ref_fp8_scale(&part.x, &part.scaling, launch->fp8.element, &part.scales,
                                    &part.factors);
}

/* ---- Random data ---- */

static int64_t random_cell_along(const direction_t *direction, int dimension) {
  const int64_t cell = cell_along(direction, dimension);
  const int64_t whole =
      direction->scaling.offs && dimension == 0 ? GROUP_CELL : direction->x.shape[dimension];
  return cell > 0 ? cell : whole;
}

static void use(const moe__run_launch_t *launch, const char *role, moe__run_use_t *out_use) {
  const int rank = moe__run_first_operand(launch)->rank;
  const bool is_y = moe__run_is(role, "y");
  /* The first operand is x, and of a dequantize q. */
  const bool is_input = is_y || moe__run_is(role, launch->roles[0]);
  out_use->tokens = row_count(launch);
  out_use->role = moe__run_is(role, "offs") ? MOE__RUN_OFFSETS
                  : is_input                ? MOE__RUN_CELLS
                                            : MOE__RUN_SCALES;
  if (!is_input)
    return;
  const direction_t direction = direction_of(launch, is_y);
  out_use->is_crossed = is_dual(launch);
  for (int d = 0; d < rank; d++)
    out_use->cell[d] =
        is_dual(launch) ? (d < rank - 2 ? 1 : GROUP_CELL) : random_cell_along(&direction, d);
}

/* ---- Groups ---- */

static bool starts_with(const char *role, const char *start) {
  return !strncmp(role, start, strlen(start));
}

/* Whether the result has a row for each of x, which is not written where that is in no group.
 * Scales and factors of groups have none, those of a dual op's rows do. */
static bool has_rows(const moe__run_launch_t *launch, const char *role) {
  const bool of_rows = is_dual(launch) && !strstr(role, "_t");
  if (starts_with(role, "scales") || starts_with(role, "factors"))
    return of_rows;
  return !starts_with(role, "state");
}

/* Whether groups of the result are aligned: q, in a dual op q_t, in a pair both. */
static bool is_aligned(const moe__run_launch_t *launch, const char *role) {
  return launch->fp8.scaling.aligned && *role == 'q' &&
         (!is_dual(launch) || moe__run_is(role, "q_t"));
}

static int64_t written_rows(const moe__run_launch_t *launch, const char *role) {
  const moe_ref_tensor_t *offs = offs_of(launch);
  if (!offs || !has_rows(launch, role))
    return -1;
  if (is_aligned(launch, role))
    return moe_ref_aligned_end(offs, row_count(launch));
  return moe_ref_grouped_rows(offs, row_count(launch));
}

static bool has_gaps(const moe__run_launch_t *launch, const char *role) {
  const direction_t direction = direction_of(launch, direction_count(launch) - 1);
  return is_aligned(launch, role) || (starts_with(role, "scales") && has_token_blocks(&direction) &&
                                      (!is_dual(launch) || strstr(role, "_t")));
}

static const char *quantized_from(const moe__run_launch_t *launch, const char *role) {
  if (!moe__run_makes(launch, "q") || !starts_with(role, "q"))
    return NULL;
  return moe__run_is(role, "q_y") ? "y" : "x";
}

/* ---- The table ---- */

#define FP8_OP(op_name, roles, runs)                                                               \
  {                                                                                                \
    .name = "mx_quantize." op_name, .tensors = (roles), .prepare = prepare, .cut = cut,            \
    .run = (runs), .use = use, .quantized_from = quantized_from, .written_rows = written_rows,     \
    .has_gaps = has_gaps                                                                           \
  }

const moe__run_op_t moe__run_fp8_ops[] = {
    FP8_OP("quantize_fp8", "x [offs] -> q scales", run_quantize),
    FP8_OP("quantize_fp8_dual", "x [offs] -> q scales q_t scales_t", run_quantize),
    FP8_OP("quantize_fp8_pair", "x y offs -> q scales q_y scales_y", run_quantize),
    FP8_OP("dequantize_fp8", "q scales [offs] -> x", run_dequantize),
    FP8_OP("scale_fp8", "x [offs] -> scales factors state", run_scale),
    FP8_OP("scale_fp8_dual", "x [offs] -> scales factors state scales_t factors_t state_t",
           run_scale),
    FP8_OP("scale_fp8_pair", "x y offs -> scales factors state scales_y factors_y state_y",
           run_scale),
    FP8_OP("cast_fp8", "x factors [offs] -> q", run_cast),
    FP8_OP("cast_fp8_dual", "x factors factors_t [offs] -> q q_t", run_cast),
    FP8_OP("cast_fp8_pair", "x y factors factors_y offs -> q q_y", run_cast),
    {0},
};
