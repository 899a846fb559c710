/* Parameters.c - the parameters of the kernel of scaled_mm, and what its launcher has to check.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/scaled_grouped_mm/ScaledMm.h"

#include "lib/Builder/Inspect.h"
#include "lib/Dialect/Shapes.h"
#include "lib/Kernels/Requirements.h"
#include "lib/Kernels/scaled_grouped_mm/Blocks.h"
#include "lib/Kernels/scaled_grouped_mm/Epilogue.h"
#include "lib/Kernels/scaled_grouped_mm/Mx.h"

#include "mlir-c/BuiltinTypes.h"

/* An extent in bytes. */
static const moe__expression_t *bytes_of(moe__scaled_mm_t *s, const moe__extent_t *extent) {
  moe__record_t *record = &s->kernel.record;
  if (mlirTypeIsNull(s->half))
    return extent->expression;
  return moe__expression_mul(
      record, MOE__EXPRESSIONS(extent->expression, moe__expression_constant(record, 2)));
}

/* Makes the map of a matrix of 128-byte rows one of rows in the order of `direct`: of two side by
 * side, of tile_n / 8 that are 8 apart, of four pairs in those 8. */
static void reorder(moe__scaled_mm_t *s, moe__tensor_map_t *map) {
  moe__record_t *record = &s->kernel.record;
  const moe__expression_t *row = map->strides[0];
  map->rank = 4;
  map->dims[2] = moe__expression_ceildiv(record, map->dims[1], 8);
  map->dims[1] = moe__expression_constant(record, 2);
  map->dims[3] = moe__expression_constant(record, 4);
  map->strides[1] =
      moe__expression_mul(record, MOE__EXPRESSIONS(row, moe__expression_constant(record, 8)));
  map->strides[2] =
      moe__expression_mul(record, MOE__EXPRESSIONS(row, moe__expression_constant(record, 2)));
  map->box[1] = map->dims[1];
  map->box[2] = moe__expression_constant(record, s->side[1]->tile / 8);
  map->box[3] = map->dims[3];
}

/* How an operand lies in memory: its rows, the dimension along them, and where its matrices are
 * many, these. MN-major, rows and the dimension along them change places. */
static void add_map(moe__scaled_mm_t *s, MlirOperation op, int of, const moe__extent_t *inner,
                    const moe__extent_t *rows, const moe__extent_t *matrices) {
  moe__record_t *record = &s->kernel.record;
  moe__mm_operand_t *operand = &s->operands[of];
  moe__tensor_map_t map = {.tensor = moe__tensor_number(op, moe__factor_role(op, of)),
                           .element = mlirTypeIsNull(s->half) ? MOE__MAP_U8 : MOE__MAP_BF16,
                           .rank = 2,
                           .swizzle = MOE__SWIZZLE_128B};
  if (s->schedule.swap_operands) /* all waits for DRAM: no more is read than what is asked for */
    map.l2_promotion = MOE__L2_PROMOTION_128B;
  const moe__extent_t *line = operand->mn_major ? rows : inner;
  map.dims[0] = line->expression;
  map.strides[0] = bytes_of(s, line);
  map.dims[1] = (operand->mn_major ? inner : rows)->expression;
  map.box[0] = moe__expression_constant(record, moe__mm_depth(s, MOE__MM_TILE_K));
  map.box[1] = moe__expression_constant(record, operand->mn_major ? moe__mm_box_depth(s, operand)
                                                                  : operand->box);
  const moe__expression_t *lines = map.dims[1];
  if (moe__mm_is_direct(s) && operand == s->side[1])
    reorder(s, &map);
  if (matrices) {
    int last = map.rank++;
    map.dims[last] = matrices->expression;
    map.strides[last - 1] = moe__expression_mul(record, MOE__EXPRESSIONS(lines, map.strides[0]));
    map.box[last] = moe__expression_constant(record, 1);
  }
  operand->map_rank = map.rank;
  operand->map = moe__kernel_tensor_map(&s->kernel, &map);
}

/* Whether ptxas has no registers where LLVM knows the sizes, as it computes more ahead then: with
 * promoted sums and results of 32 bits forward with a bias or few columns, of gradients where the
 * columns are no multiple of 64 or one tile; of gradients with scales of blocks of tokens where
 * groups are aligned, at numbers of groups and columns that nothing tells from others. So it may be
 * of gradients of 16 bits of one group that may have wide tiles, and results of 32 bits. */
static bool hides_sizes(const moe__scaled_mm_t *s, MlirOperation op, int64_t columns) {
  if (!mlirTypeIsNull(s->half) && moe__mm_may_be_wide(op, &s->schedule))
    return mlirTypeIsAF32(s->out_type) && s->layout.groups.max_groups == 1;
  bool few_left = s->schedule.tile_n > 128 || s->schedule.warpgroups > MOE__MM_WARPGROUPS;
  if (s->schedule.swap_operands || !few_left || !moe__mm_is_promoted(op) ||
      moe__mm_has_mx_scales(s))
    return false;
  bool is_f32 = mlirTypeIsAF32(s->out_type), is_gradient = s->which == MOE__GRADIENT;
  if (moe__mm_has_block_scales(s))
    return is_gradient && s->aligned;
  if (!is_f32 || columns < 0)
    return false;
  if (is_gradient)
    return columns % 64 > 0 || columns <= 128;
  return columns <= 64 || (s->has_bias && s->which == MOE__FORWARD);
}

/* Whether ptxas has no registers even then: of one group, which is searched in one step, with a
 * bias and scales of all rows. As of two groups it has them. */
static bool searches_two_groups(const moe__scaled_mm_t *s) {
  return s->which == MOE__FORWARD && s->has_bias && s->layout.groups.max_groups == 1 &&
         s->operands[MOE__MM_QA].granularity == MOE__SCALE_OF_ROW &&
         s->operands[MOE__MM_QB].granularity == MOE__SCALE_OF_ROW;
}

static void add_extents(moe__scaled_mm_t *s, MlirOperation op) {
  moe__kernel_t *kernel = &s->kernel;
  MlirType qa = moe__factor_type(op, MOE__MM_QA), qb = moe__factor_type(op, MOE__MM_QB);
  int qa_rank = (int)mlirShapedTypeGetRank(qa), qb_rank = (int)mlirShapedTypeGetRank(qb);
  int qa_number = moe__tensor_number(op, moe__mm_given_role(op, MOE__MM_QA)),
      qb_number = moe__tensor_number(op, moe__mm_given_role(op, MOE__MM_QB));
  bool is_gradient = s->which == MOE__GRADIENT;
  MlirType of_experts = is_gradient ? moe__tensor_type(op, MOE__OFFS) : qb;
  bool hides = hides_sizes(s, op, moe__static_dimension(qb, qb_rank - 1));
  moe__extent_t (*extent)(moe__kernel_t *, int, int, MlirType) =
      hides ? moe__kernel_hidden_extent : moe__kernel_extent;
  s->rows = extent(kernel, qa_number, qa_rank - 2, qa);
  s->depth = extent(kernel, qa_number, qa_rank - 1, qa);
  s->experts =
      extent(kernel, is_gradient ? moe__tensor_number(op, MOE__OFFS) : qb_number, 0, of_experts);
  s->columns = extent(kernel, qb_number, qb_rank - 1, qb);
  if (hides && searches_two_groups(s))
    s->layout.groups.max_groups = 2;
}

/* That of the columns' operand where tiles are wide; MN-major, a box is the same. */
static void add_wide_map(moe__scaled_mm_t *s, MlirOperation op) {
  if (!moe__mm_may_be_wide(op, &s->schedule))
    return;
  moe__mm_operand_t *operand = &s->operands[MOE__MM_QB], narrow = *operand;
  if (!operand->mn_major) {
    operand->box = moe__mm_wide_schedule(&s->schedule).tile_n;
    add_map(s, op, MOE__MM_QB, &s->depth, &s->columns, NULL);
  }
  s->wide_map = operand->map;
  *operand = narrow;
}

static void add_made(moe__scaled_mm_t *s, MlirOperation op) {
  static const moe__role_t states[] = {MOE__STATE_A, MOE__STATE_B};
  moe__kernel_t *kernel = &s->kernel;
  for (int i = 0; i < 2; i++) {
    moe__mm_made_t *made = &s->made[i];
    int state = moe__tensor_number(op, states[i]);
    made->q = moe__kernel_pointer(kernel, moe__tensor_number(op, moe__mm_given_role(op, i)));
    made->scales = moe__kernel_pointer(kernel, moe__tensor_number(op, moe__mm_scale_role(i)));
    made->numbers = moe__kernel_pointer(kernel, moe__tensor_number(op, moe__factor_role(op, i)));
    made->panels = moe__kernel_pointer(kernel, state);
    moe__kernel_zeroed(kernel, state);
  }
  s->sb_is_row_major = moe__is_row_major(moe__tensor_type(op, MOE__SB));
}

void moe__mm_add_parameters(moe__scaled_mm_t *s, MlirOperation op) {
  moe__kernel_t *kernel = &s->kernel;
  add_extents(s, op);
  add_map(s, op, MOE__MM_QA, &s->depth, &s->rows, s->which == MOE__BATCHED ? &s->experts : NULL);
  add_map(s, op, MOE__MM_QB, &s->depth, &s->columns,
          s->which == MOE__GRADIENT ? NULL : &s->experts);
  if (moe__mm_has_token_blocks(s))
    moe__mm_token_blocks_parameters(s, op);
  else if (moe__mm_has_block_scales(s))
    moe__mm_block_scales_parameters(s, op);
  if (moe__mm_has_mx_tokens(s) && !s->aligned)
    for (int i = 0; i < 2; i++)
      moe__mm_add_tail_map(s, op, i);
  bool has_scales = mlirTypeIsNull(s->half);
  s->sb_is_row_major = has_scales && moe__is_row_major(moe__tensor_type(op, MOE__SB));
  for (int i = 0; i < 2 && has_scales && !moe__mm_has_block_scales(s); i++)
    s->operands[i].scales =
        moe__kernel_pointer(kernel, moe__tensor_number(op, moe__mm_scale_role(i)));
  if (s->makes_operands)
    add_made(s, op);
  if (moe__mm_has_groups(s))
    s->offs = moe__kernel_pointer(kernel, moe__tensor_number(op, MOE__OFFS));
  if (s->has_bias)
    s->bias = moe__kernel_pointer(kernel, moe__tensor_number(op, MOE__BIAS));
  s->out = moe__kernel_pointer(kernel, moe__tensor_number(op, MOE__OUT));
  moe__mm_store_parameters(s, op);
  if (moe__mm_has_groups(s))
    s->status = moe__kernel_status(kernel);
  add_wide_map(s, op);
  if (moe__mm_has_counters(s) || s->wide_map.ptr)
    s->counters = moe__kernel_counters(kernel);
}

void moe__mm_add_requirements(moe__scaled_mm_t *s, MlirOperation op) {
  moe__kernel_t *kernel = &s->kernel;
  int qa_last = s->which == MOE__BATCHED ? 2 : 1, qb_last = s->which == MOE__GRADIENT ? 1 : 2;
  int qa = moe__tensor_number(op, moe__mm_given_role(op, MOE__MM_QA)),
      qb = moe__tensor_number(op, moe__mm_given_role(op, MOE__MM_QB)),
      offs = moe__tensor_number(op, MOE__OFFS);
  int line = moe__mm_line_multiple(op);
  moe__require_shapes(kernel, op);
  moe__kernel_require(kernel, qb, qb_last, MOE__MULTIPLE_OF, line);
  bool mx = s->makes_operands || moe__mm_has_mx_scales(s);
  int unit = mx && s->which != MOE__GRADIENT ? MOE_MX_BLOCK : line;
  /* MN-major, an operand's rows are what lies side by side. */
  if (s->operands[MOE__MM_QA].mn_major)
    moe__kernel_require(kernel, qa, qa_last - 1, MOE__MULTIPLE_OF, line);
  if (s->operands[MOE__MM_QA].mn_major && s->operands[MOE__MM_QB].mn_major)
    unit = 1;
  if (s->aligned)
    unit = MOE_GROUP_ALIGN;
  moe__kernel_require(kernel, qa, qa_last, MOE__AT_LEAST, unit);
  moe__kernel_require(kernel, qa, qa_last, MOE__MULTIPLE_OF, unit);
  if (moe__mm_has_groups(s))
    moe__require_groups(kernel, offs);
  if (moe__mm_has_mx_tokens(s)) /* whose scales are read by four */
    moe__kernel_require(kernel, qa, 0, MOE__MULTIPLE_OF, 4);
}
