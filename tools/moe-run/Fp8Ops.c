/* Fp8Ops.c - the ops of the mx_quantize dialect with fp32 scales, on the C reference.
 *
 * Why it exists: see Launch.h. Slices are plain calls of libmoe_ref on parts of the tensors:
 * between scales where amaxes are found, anywhere where elements are only multiplied. A dual op is
 * two plain ones: row by row, and along the dimension before the last. A pair is two along dimension 0,
 * of two tensors. What is said of directions here holds for these two as well.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "tools/moe-run/Launch.h"

#include "tools/moe-run/Report.h"

#include <string.h>

/* Rows of a block of random data where the op's slices are groups, which may be of any size. */
enum { GROUP_BLOCK = 64 };

/* ---- What the ops have in common ---- */

enum { SCALE_RESULTS = 3 }; /* of a first pass, for each direction: scales, factors, state */

static bool is_quantize(const moe__launch_t *launch) {
  return launch->op == &moe__op_quantize_fp8 || launch->op == &moe__op_quantize_fp8_dual ||
         launch->op == &moe__op_quantize_fp8_pair;
}

static bool is_scale(const moe__launch_t *launch) {
  return launch->op == &moe__op_scale_fp8 || launch->op == &moe__op_scale_fp8_dual ||
         launch->op == &moe__op_scale_fp8_pair;
}

static bool is_cast(const moe__launch_t *launch) {
  return launch->op == &moe__op_cast_fp8 || launch->op == &moe__op_cast_fp8_dual ||
         launch->op == &moe__op_cast_fp8_pair;
}

static bool is_dual(const moe__launch_t *launch) {
  return launch->op == &moe__op_quantize_fp8_dual || launch->op == &moe__op_scale_fp8_dual ||
         launch->op == &moe__op_cast_fp8_dual;
}

static bool is_pair(const moe__launch_t *launch) {
  return launch->op == &moe__op_quantize_fp8_pair || launch->op == &moe__op_scale_fp8_pair ||
         launch->op == &moe__op_cast_fp8_pair;
}

static int direction_count(const moe__launch_t *launch) {
  return is_dual(launch) || is_pair(launch) ? 2 : 1;
}

/* The first operands are x, and in a pair y. */
static int input_count(const moe__launch_t *launch) {
  return is_pair(launch) ? 2 : 1;
}

/* The offsets are the last operand, if there are any. */
static const moe_ref_tensor_t *offs_of(const moe__launch_t *launch) {
  return launch->operand_count > launch->op->least_operands
             ? &launch->tensors[launch->operand_count - 1]
             : NULL;
}

/* The tensors that are scaled along one axis. What the op does not have is x again, which is of no
 * use to it. */
typedef struct direction_t {
  moe_ref_fp8_scaling_t scaling;
  moe_ref_tensor_t x, q, scales, factors;
} direction_t;

static void bind_tensors(const moe__launch_t *launch, int number, direction_t *out) {
  const moe_ref_tensor_t *tensors = launch->tensors;
  const moe_ref_tensor_t *results = tensors + launch->operand_count;
  out->x = out->q = out->scales = out->factors = tensors[is_pair(launch) ? number : 0];
  if (is_quantize(launch)) {
    out->q = results[(ptrdiff_t)2 * number];
    out->scales = results[(ptrdiff_t)2 * number + 1];
  } else if (is_scale(launch)) {
    out->scales = results[(ptrdiff_t)SCALE_RESULTS * number];
    out->factors = results[(ptrdiff_t)SCALE_RESULTS * number + 1];
  } else if (is_cast(launch)) {
    out->factors = tensors[input_count(launch) + number];
    out->q = results[number];
  } else {
    out->scales = tensors[1];
    out->x = results[0];
  }
}

/* Of a dual op number 0 is along the last dimension, whose rows are scaled one by one, so that
 * groups are nothing to it; number 1 is along the one before. */
static direction_t direction_of(const moe__launch_t *launch, int number) {
  direction_t direction = {.scaling = launch->fp8.scaling};
  direction.scaling.offs = offs_of(launch);
  if (is_dual(launch)) {
    direction.scaling.granularity = MOE_REF_ROW;
    direction.scaling.axis = launch->tensors[0].rank - 1 - number;
    direction.scaling.offs = number == 0 ? NULL : offs_of(launch);
  } else if (is_pair(launch)) {
    direction.scaling.granularity = MOE_REF_ROW;
    direction.scaling.axis = 0;
  }
  bind_tensors(launch, number, &direction);
  return direction;
}

/* ---- Attributes and shapes ---- */

static bool has_shape(const moe_ref_tensor_t *tensor, int rank, const int64_t *shape) {
  return tensor->rank == rank && !memcmp(tensor->shape, shape, (size_t)rank * sizeof *shape);
}

static int check_shapes(const moe__launch_t *launch) {
  if (is_pair(launch) && launch->tensors[0].shape[0] != launch->tensors[1].shape[0])
    return moe__input_error("%s: its two tensors have %lld and %lld rows", launch->name,
                            (long long)launch->tensors[0].shape[0],
                            (long long)launch->tensors[1].shape[0]);
  for (int number = 0; number < direction_count(launch); number++) {
    const direction_t direction = direction_of(launch, number);
    const moe_ref_tensor_t *x = &direction.x;
    const bool has_q = !is_scale(launch), has_scales = !is_cast(launch);
    const bool has_factors = is_scale(launch) || is_cast(launch);
    int64_t shape[MOE_REF_MAX_RANK];
    const int rank = moe_ref_fp8_scale_shape(x, &direction.scaling, shape);
    if (rank < 0)
      return moe__input_error(
          "%s: the C reference has no such granularity of %d dimensions along axis %d %s offsets",
          launch->name, x->rank, direction.scaling.axis,
          direction.scaling.offs ? "with" : "without");
    if ((has_q && !has_shape(&direction.q, x->rank, x->shape)) ||
        (has_scales && !has_shape(&direction.scales, rank, shape)) ||
        (has_factors && !has_shape(&direction.factors, rank, shape)))
      return moe__input_error("%s: the shapes of its tensors do not agree", launch->name);
  }
  return MOE__OK;
}

static int prepare_granularity(moe__launch_t *launch, const json_t *attributes) {
  int granularity = 0;
  int64_t axis = 0;
  int rc = moe__attribute_name(launch, attributes, "granularity", moe_ref_fp8_granularity_from_name,
                               &granularity);
  if (!rc)
    rc = moe__attribute_integer(launch, attributes, "axis", 0, launch->tensors[0].rank - 1, &axis);
  launch->fp8.scaling.granularity = (moe_ref_fp8_granularity_t)granularity;
  launch->fp8.scaling.axis = (int)axis;
  return rc;
}

static int prepare(moe__launch_t *launch, const json_t *attributes) {
  moe_ref_fp8_scaling_t *scaling = &launch->fp8.scaling;
  int rc = direction_count(launch) == 2 ? MOE__OK : prepare_granularity(launch, attributes);
  int element = 0;
  if (!rc && (is_quantize(launch) || is_scale(launch)))
    rc = moe__attribute_flag(launch, attributes, "pow2", &scaling->pow2);
  if (!rc && launch->op != &moe__op_dequantize_fp8)
    rc = moe__attribute_flag(launch, attributes, "sanitize", &scaling->sanitize);
  if (!rc && is_scale(launch))
    rc = moe__attribute_name(launch, attributes, "element", moe_ref_dtype_from_name, &element);
  launch->fp8.element = (moe_ref_dtype_t)element;
  return rc ? rc : check_shapes(launch);
}

/* ---- Slices ---- */

static int64_t cell_along(const direction_t *direction, int dimension) {
  return moe_ref_fp8_cell(direction->scaling.granularity, direction->scaling.axis,
                          direction->x.rank, dimension);
}

/* What direction 0 of a dual op sees of a tensor with rows: those that are in groups. */
static moe_ref_tensor_t rows_in_groups(const moe_ref_tensor_t *offs,
                                       const moe_ref_tensor_t *tensor) {
  return moe__part(tensor, 0, 0, moe_ref_grouped_rows(offs, tensor->shape[0]));
}

/* The same direction for running, when offsets have data. */
static direction_t grouped_direction(const moe__launch_t *launch, int number) {
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
static moe__cut_t cut_direction(const moe__launch_t *launch, int number, int threads) {
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
    return moe__cut(-1, 1, 1, threads);
  const int64_t cell = cell_along(&direction, best);
  return moe__cut(best, x->shape[best], cell > 0 ? cell : 1, threads);
}

static void cut(moe__launch_t *launch, int threads) {
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
  int own = direction->scaling.offs ? 1 : 0; /* the dimension of the scales */
  if (cell == 0)
    return *scales;
  for (int d = 0; d < dimension; d++)
    own += cell_along(direction, d) > 0;
  return moe__part(scales, own, begin / cell, moe_ref_padded(end, cell) / cell);
}

/* The direction that the slice is of, cut to it. */
static direction_t slice_direction(const moe__launch_t *launch, int64_t slice) {
  int64_t begin, end;
  const int number = moe__slice(launch, slice, &begin, &end);
  const int dimension = launch->cuts[number].dimension;
  const direction_t whole = grouped_direction(launch, number);
  direction_t part = whole;
  part.x = moe__part(&whole.x, dimension, begin, end);
  if (!is_scale(launch))
    part.q = moe__part(&whole.q, dimension, begin, end);
  if (!is_cast(launch))
    part.scales = part_of_scales(&whole, &whole.scales, dimension, begin, end);
  if (is_scale(launch) || is_cast(launch))
    part.factors = part_of_scales(&whole, &whole.factors, dimension, begin, end);
  return part;
}

/* ---- Running ---- */

static moe_ref_status_t run_quantize(const moe__launch_t *launch, int64_t slice) {
  const direction_t part = slice_direction(launch, slice);
  return moe_ref_fp8_quantize(&part.x, &part.scaling, &part.q, &part.scales);
}

static moe_ref_status_t run_dequantize(const moe__launch_t *launch, int64_t slice) {
  const direction_t part = slice_direction(launch, slice);
  return moe_ref_fp8_dequantize(&part.q, &part.scales, &part.scaling, &part.x);
}

static moe_ref_status_t run_cast(const moe__launch_t *launch, int64_t slice) {
  const direction_t part = slice_direction(launch, slice);
  return moe_ref_fp8_cast(&part.x, &part.factors, &part.scaling, &part.q);
}

/* The last result of each direction is what a kernel keeps between calls: zeros, before and after
 * each. */
static moe_ref_status_t clear_state(const moe__launch_t *launch) {
  for (int number = 0; number < direction_count(launch); number++) {
    const moe_ref_tensor_t *state =
        &launch->tensors[launch->operand_count + SCALE_RESULTS * number + 2];
    int64_t count = 1;
    for (int d = 0; d < state->rank; d++)
      count *= state->shape[d];
    if (state->dtype != MOE_REF_I32)
      return MOE_REF_INVALID_ARGUMENT;
    memset(state->data, 0, (size_t)count * sizeof(int32_t));
  }
  return MOE_REF_OK;
}

static moe_ref_status_t run_scale(const moe__launch_t *launch, int64_t slice) {
  const direction_t part = slice_direction(launch, slice);
  const moe_ref_status_t status = slice == 0 ? clear_state(launch) : MOE_REF_OK;
  return status ? status
                : moe_ref_fp8_scale(&part.x, &part.scaling, launch->fp8.element, &part.scales,
                                    &part.factors);
}

/* ---- Random data ---- */

static int64_t block_along(const direction_t *direction, int dimension) {
  const int64_t cell = cell_along(direction, dimension);
  const int64_t whole =
      direction->scaling.offs && dimension == 0 ? GROUP_BLOCK : direction->x.shape[dimension];
  return cell > 0 ? cell : whole;
}

static void use(const moe__launch_t *launch, int operand, moe__use_t *out_use) {
  const bool is_offs = operand >= launch->op->least_operands;
  const int rank = launch->tensors[0].rank;
  out_use->tokens = launch->tensors[0].shape[0];
  const bool is_input = operand < input_count(launch);
  out_use->role = is_offs ? MOE__OFFSETS : is_input ? MOE__BLOCKS : MOE__SCALES;
  if (!is_input)
    return;
  const direction_t direction = direction_of(launch, operand);
  for (int d = 0; d < rank; d++)
    out_use->cell[d] =
        is_dual(launch) ? (d < rank - 2 ? 1 : GROUP_BLOCK) : block_along(&direction, d);
}

/* ---- Groups ---- */

/* Whether the result has a row for each of x, which is not written where that is in no group.
 * Scales of groups have none, those of a dual op's rows do. */
static bool has_rows(const moe__launch_t *launch, int result) {
  if (is_scale(launch))
    return is_dual(launch) && result < SCALE_RESULTS - 1;
  const bool holds_scales = is_quantize(launch) && result % 2 == 1;
  return !holds_scales || (is_dual(launch) && result / 2 == 0);
}

static int64_t written_rows(const moe__launch_t *launch, int result) {
  const moe_ref_tensor_t *offs = offs_of(launch);
  if (!offs || !has_rows(launch, result))
    return -1;
  return moe_ref_grouped_rows(offs, launch->tensors[0].shape[0]);
}

/* A cast has one result for each direction, an op that finds scales too has two. */
static int quantized_from(const moe__launch_t *launch, int result) {
  if (!is_cast(launch) && (!is_quantize(launch) || result % 2 == 1))
    return -1;
  return is_pair(launch) ? (is_cast(launch) ? result : result / 2) : 0;
}

#define FP8_OP(title, operands, results, runs)                                                     \
  {                                                                                                \
    .name = "mx_quantize." title, .least_operands = operands, .most_operands = (operands) + 1,     \
    .result_count = results, .prepare = prepare, .cut = cut, .run = runs, .use = use,              \
    .quantized_from = quantized_from, .written_rows = written_rows                                 \
  }

const moe__op_t moe__op_quantize_fp8 = FP8_OP("quantize_fp8", 1, 2, run_quantize);
const moe__op_t moe__op_quantize_fp8_dual = FP8_OP("quantize_fp8_dual", 1, 4, run_quantize);
const moe__op_t moe__op_quantize_fp8_pair = FP8_OP("quantize_fp8_pair", 2, 4, run_quantize);
const moe__op_t moe__op_dequantize_fp8 = FP8_OP("dequantize_fp8", 2, 1, run_dequantize);
const moe__op_t moe__op_scale_fp8 = FP8_OP("scale_fp8", 1, 3, run_scale);
const moe__op_t moe__op_scale_fp8_dual = FP8_OP("scale_fp8_dual", 1, 6, run_scale);
const moe__op_t moe__op_scale_fp8_pair = FP8_OP("scale_fp8_pair", 2, 6, run_scale);
const moe__op_t moe__op_cast_fp8 = FP8_OP("cast_fp8", 2, 1, run_cast);
const moe__op_t moe__op_cast_fp8_dual = FP8_OP("cast_fp8_dual", 3, 2, run_cast);
const moe__op_t moe__op_cast_fp8_pair = FP8_OP("cast_fp8_pair", 4, 2, run_cast);
