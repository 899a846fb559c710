/* MergeQuantize.c - see MergeQuantize.h.
 *
 * What is quantized both along the last dimension and along the one before it is read once:
 *
 *   q, s   = mx_quantize.quantize x, axis = last
 *   q', s' = mx_quantize.quantize x, axis = last - 1
 *                         ->   q, s, q', s' = mx_quantize.quantize_dual x
 *
 * where both have the layouts of the kernels. One that has a schedule of its own is left alone.
 * The same with quantize_fp8, row by row or in FP8 blocks, which becomes quantize_fp8_dual, and
 * with round, which becomes round_dual. Then the operands of a weight gradient share their
 * launches:
 *
 *   q, s   = mx_quantize.quantize_fp8 x, offs
 *   q', s' = mx_quantize.quantize_fp8 y, offs
 *                         ->   q, s, q', s' = mx_quantize.quantize_fp8_pair x, y, offs
 *
 * with a scale for each group and column, where x and y are known to have as many rows: the
 * sizes are static, or a product reduces both. The kernels of the pair refuse others, those of
 * the two ops do not.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "passes/MergeQuantize.h"

#include "lib/Builder/Views.h"
#include "lib/Dialect/Dialect.h"
#include "lib/Kernels/Requirements.h"
#include "passes/Values.h"

#include "mlir-c/BuiltinTypes.h"

static bool is_grouped(MlirOperation op) {
  return !mlirValueIsNull(moe__operand(op, MOE__OFFS));
}

/* ---- Two directions of one tensor ---- */

/* What is quantized in one direction, and the op that does both at once. */
typedef struct kind_t {
  moe__op_id_t one, both;
  int multiple; /* of which the last two dimensions are in the kernel */
  int attribute_count;
  const char *attributes[3]; /* that are those of both; besides them there is the axis */
  bool has_granularity, takes_groups;
  int result_count;
  moe__role_t results[2]; /* of one, which the op that does both has twice */
} kind_t;

static const kind_t KINDS[] = {
    {MOE__OP_QUANTIZE,
     MOE__OP_QUANTIZE_DUAL,
     MOE_MX_BLOCK,
     2,
     {"block", "mode"},
     false,
     false,
     2,
     {MOE__Q, MOE__SCALES}},
    {MOE__OP_QUANTIZE_FP8,
     MOE__OP_QUANTIZE_FP8_DUAL,
     16,
     3,
     {"pow2", "sanitize", "granularity"},
     true,
     true,
     2,
     {MOE__Q, MOE__SCALES}},
    {MOE__OP_ROUND,
     MOE__OP_ROUND_DUAL,
     MOE_MX_BLOCK,
     3,
     {"block", "mode", "element"},
     false,
     true,
     1,
     {MOE__ROUNDED}},
};

/* The results of a quantizer of FP8, which a pair has twice. */
static const moe__role_t HALF_ROLES[] = {MOE__Q, MOE__SCALES};

static const kind_t *kind_of(MlirOperation op) {
  for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++)
    if (moe__is(op, KINDS[i].one))
      return &KINDS[i];
  return NULL;
}

/* The same as below of an op that rounds, whose kernel takes any sizes that are whole blocks. */
static int rounding_direction(MlirOperation op) {
  MlirType x = moe__tensor_type(op, MOE__X);
  int rank = (int)mlirShapedTypeGetRank(x);
  int direction = rank - 1 - (int)moe__op_integer(op, "axis");
  bool in_blocks = true;
  for (int d = rank < 2 ? 0 : rank - 2; d < rank; d++) /* tokens in groups may be any number */
    in_blocks &= (rank == 2 && d == 0) || mlirShapedTypeIsDynamicDim(x, d) ||
                 mlirShapedTypeGetDimSize(x, d) % MOE_MX_BLOCK == 0;
  return rank >= 2 && rank <= 3 && direction <= 1 && moe__is_row_major(x) && in_blocks ? direction
                                                                                       : -1;
}

/* Which direction of the op that does both this one is: 0 along the last dimension, 1 along the one
 * before it; -1 where its kernel would not be one of these two. */
static int direction_of(MlirOperation op, const kind_t *kind) {
  if (kind->one == MOE__OP_ROUND)
    return rounding_direction(op);
  MlirType x = moe__tensor_type(op, MOE__X), q = moe__tensor_type(op, MOE__Q);
  int64_t rank = mlirShapedTypeGetRank(x), direction = rank - 1 - moe__op_integer(op, "axis");
  MlirType scales = moe__tensor_type(op, MOE__SCALES);
  moe__granularity_t granularity = kind->has_granularity ? moe__op_granularity(op) : MOE__ROW;
  bool side_by_side = granularity == MOE__1X128 && direction == 0; /* rows of the scales */
  if (rank < 2 || rank > 3 || direction > 1 || !moe__is_row_major(x) ||
      (is_grouped(op) && !kind->takes_groups) || /* no dual op of MX takes groups */
      !(side_by_side ? moe__is_column_major(scales) : moe__is_row_major(scales)) ||
      !(direction == 0 ? moe__is_row_major(q) : moe__is_column_major(q)))
    return -1;
  if (granularity != MOE__ROW && granularity != MOE__1X128 &&
      !(granularity == MOE__128X128 && rank == 3))
    return -1;
  /* Tokens in groups may be as many as they like. */
  for (int64_t d = rank - 2 + (kind->has_granularity && rank == 2); d < rank; d++)
    if (!mlirShapedTypeIsDynamicDim(x, d) && mlirShapedTypeGetDimSize(x, d) % kind->multiple)
      return -1;
  return (int)direction;
}

static bool have_same_element(MlirValue a, MlirValue b) {
  return mlirTypeEqual(mlirShapedTypeGetElementType(mlirValueGetType(a)),
                       mlirShapedTypeGetElementType(mlirValueGetType(b)));
}

/* Attributes of the op, but for `align`. */
static int count_but_align(MlirOperation op) {
  return (int)mlirOperationGetNumAttributes(op) - (moe__group_align(op) != 0);
}

/* Whether two ops have the same attributes of these names, and `others` besides, apart from
 * `align`: one that has a schedule or an attribute of somebody else is left alone. */
static bool have_same_attributes(MlirOperation a, MlirOperation b, int count,
                                 const char *const *names, int others) {
  if (count_but_align(a) != count + others || count_but_align(b) != count + others)
    return false;
  for (int i = 0; i < count; i++)
    if (!mlirAttributeEqual(moe__op_attribute(a, names[i]), moe__op_attribute(b, names[i])))
      return false;
  return true;
}

/* Whether two ops of one kind say the same but for their axis. */
static bool differ_in_axis_only(MlirOperation a, MlirOperation b, const kind_t *kind) {
  return have_same_attributes(a, b, kind->attribute_count, kind->attributes, 1) &&
         mlirValueEqual(moe__operand(a, MOE__X), moe__operand(b, MOE__X)) &&
         have_same_element(moe__result(a, kind->results[0]), moe__result(b, kind->results[0]));
}

static bool is_there_before(MlirValue value, MlirOperation op) {
  return mlirValueIsABlockArgument(value) || moe__op_is_before(mlirOpResultGetOwner(value), op);
}

static bool is_operand(MlirOpOperand use, moe__role_t role) {
  return (int)mlirOpOperandGetOperandNumber(use) ==
         moe__operand_number(mlirOpOperandGetOwner(use), role);
}

/* Whether the op is a product that has an operand of this role. */
static bool is_product_of(MlirOperation op, moe__role_t role) {
  return role == MOE__A ? moe__is_mm(op) : moe__is_scaled_mm(op);
}

/* Whether nobody reads more of `value` than the rows in the groups of offs: in all its uses it
 * is the operand of this role of a product of such groups of rows. */
static bool is_read_in_groups_only(MlirValue value, moe__role_t role, MlirValue offs) {
  for (MlirOpOperand use = mlirValueGetFirstUse(value); !mlirOpOperandIsNull(use);
       use = mlirOpOperandGetNextUse(use)) {
    MlirOperation user = mlirOpOperandGetOwner(use);
    if (!is_product_of(user, role) || !is_operand(use, role) ||
        moe__mm_case(user) != MOE__FORWARD || !mlirValueEqual(moe__operand(user, MOE__OFFS), offs))
      return false;
  }
  return true;
}

/* With groups the op that does both leaves alone what is in no group, also along the last
 * dimension, where it takes no groups to quantize alone. */
static bool may_take_groups(MlirOperation first, const MlirOperation by_direction[2],
                            const kind_t *kind, MlirValue offs) {
  if (mlirValueIsNull(offs))
    return true;
  bool ok = is_there_before(offs, first);
  for (int i = 0; i < kind->result_count; i++) {
    moe__role_t role = kind->results[i] == MOE__ROUNDED  ? MOE__A
                       : kind->results[i] == MOE__SCALES ? MOE__SA
                                                         : MOE__QA;
    ok = ok && is_read_in_groups_only(moe__result(by_direction[0], kind->results[i]), role, offs);
  }
  return ok;
}

static void copy_align(MlirOperation from, MlirOperation to) {
  if (moe__group_align(from))
    moe__op_set_attribute(to, "align", moe__op_attribute(from, "align"));
}

/* Makes one op of two, at the place of the first. by_direction: the two. */
static void merge(MlirOperation first, const MlirOperation by_direction[2], const kind_t *kind) {
  moe__builder_t b = moe__builder_before(first);
  MlirType types[4];
  intptr_t half = kind->result_count;
  for (intptr_t i = 0; i < 2 * half; i++)
    types[i] = moe__tensor_type(by_direction[i / half], kind->results[i % half]);
  MlirValue offs = moe__operand(by_direction[1], MOE__OFFS);
  MlirValue operands[2] = {moe__operand(first, MOE__X), offs};
  MlirOperation dual = moe__op(&b, moe__op_id_name(kind->both), 2 * half, types,
                               mlirValueIsNull(offs) ? 1 : 2, operands, NULL, 0, NULL);
  bool by_row = kind->has_granularity && moe__op_granularity(first) == MOE__ROW;
  for (int i = 0; i < kind->attribute_count - by_row; i++) /* "row" need not be said */
    moe__op_set_attribute(dual, kind->attributes[i], moe__op_attribute(first, kind->attributes[i]));
  copy_align(by_direction[1], dual);
  for (int i = 0; i < 2 * half; i++)
    mlirValueReplaceAllUsesOfWith(moe__result(by_direction[i / half], kind->results[i % half]),
                                  mlirOperationGetResult(dual, i));
}

/* Looks for the other direction behind `first`. */
static void merge_with_later(MlirOperation first) {
  const kind_t *kind = kind_of(first);
  int direction = kind ? direction_of(first, kind) : -1;
  if (direction < 0 || !moe__has_uses(first))
    return;
  for (MlirOperation op = mlirOperationGetNextInBlock(first); !mlirOperationIsNull(op);
       op = mlirOperationGetNextInBlock(op)) {
    if (kind_of(op) != kind || !moe__has_uses(op) || direction_of(op, kind) != 1 - direction ||
        !differ_in_axis_only(first, op, kind))
      continue;
    MlirOperation by_direction[2];
    by_direction[direction] = first;
    by_direction[1 - direction] = op;
    if (!may_take_groups(first, by_direction, kind, moe__operand(by_direction[1], MOE__OFFS)))
      continue;
    merge(first, by_direction, kind);
    return;
  }
}

/* ---- Two tensors in the same groups ---- */

/* Whether quantize_fp8_pair has a kernel for this op and a like one. */
static bool is_half_of_pair(MlirOperation op) {
  MlirType q = moe__tensor_type(op, MOE__Q);
  return moe__op_granularity(op) == MOE__ROW && moe__op_integer(op, "axis") == 0 &&
         moe__is_row_major(moe__tensor_type(op, MOE__X)) &&
         moe__is_row_major(moe__tensor_type(op, MOE__SCALES)) && moe__is_column_major(q);
}

/* Whether a weight gradient reduces the rows of both: those of `left` as it is transposed. */
static bool are_reduced(MlirValue left, MlirValue right) {
  for (MlirOpOperand use = mlirValueGetFirstUse(left); !mlirOpOperandIsNull(use);
       use = mlirOpOperandGetNextUse(use)) {
    MlirOperation back = mlirOpOperandGetOwner(use);
    moe__permutation_t p;
    if (!moe__op_is(back, "linalg.transpose") || mlirOpOperandGetOperandNumber(use) != 0 ||
        !moe__permutation_of(back, &p) || p.at[0] != 1)
      continue;
    MlirValue result = mlirOperationGetResult(back, 0);
    for (MlirOpOperand of = mlirValueGetFirstUse(result); !mlirOpOperandIsNull(of);
         of = mlirOpOperandGetNextUse(of)) {
      MlirOperation product = mlirOpOperandGetOwner(of);
      if (moe__is(product, MOE__OP_SCALED_MM) && is_operand(of, MOE__QA) &&
          mlirValueEqual(moe__operand(product, MOE__QB), right))
        return true;
    }
  }
  return false;
}

static bool have_same_rows(MlirOperation a, MlirOperation b) {
  MlirType x = moe__tensor_type(a, MOE__X), y = moe__tensor_type(b, MOE__X);
  bool dynamic = mlirShapedTypeIsDynamicDim(x, 0);
  if (dynamic != mlirShapedTypeIsDynamicDim(y, 0))
    return false;
  if (!dynamic)
    return mlirShapedTypeGetDimSize(x, 0) == mlirShapedTypeGetDimSize(y, 0);
  MlirValue q_a = moe__result(a, MOE__Q), q_b = moe__result(b, MOE__Q);
  return are_reduced(q_a, q_b) || are_reduced(q_b, q_a);
}

/* Whether two such ops say the same of different tensors. */
static bool differ_in_tensor_only(MlirOperation a, MlirOperation b) {
  const char *const names[] = {"granularity", "axis", "pow2", "sanitize"};
  MlirValue x = moe__operand(a, MOE__X), y = moe__operand(b, MOE__X);
  return have_same_attributes(a, b, 4, names, 0) && moe__group_align(a) == moe__group_align(b) &&
         !mlirValueEqual(x, y) &&
         mlirValueEqual(moe__operand(a, MOE__OFFS), moe__operand(b, MOE__OFFS)) &&
         have_same_element(x, y) &&
         have_same_element(moe__result(a, MOE__Q), moe__result(b, MOE__Q)) && have_same_rows(a, b);
}

/* Whether something between `op` and `end`, of the same block, uses a result of `op`. */
static bool is_used_before(MlirOperation op, MlirOperation end) {
  MlirBlock block = mlirOperationGetBlock(op);
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++)
    for (MlirOpOperand use = mlirValueGetFirstUse(mlirOperationGetResult(op, i));
         !mlirOpOperandIsNull(use); use = mlirOpOperandGetNextUse(use)) {
      MlirOperation user = mlirOpOperandGetOwner(use);
      while (!mlirOperationIsNull(user) && !mlirBlockEqual(mlirOperationGetBlock(user), block))
        user = mlirOperationGetParentOperation(user);
      if (!mlirOperationIsNull(user) && mlirOperationIsBeforeInBlock(user, end))
        return true;
    }
  return false;
}

/* Makes one op of two, at the place of one of them where all operands are there and no result
 * has been used yet. False where there is none. */
static bool pair(MlirOperation first, MlirOperation second) {
  MlirValue x = moe__operand(first, MOE__X), y = moe__operand(second, MOE__X);
  MlirOperation place = first;
  if (!is_there_before(y, first)) {
    if (is_used_before(first, second))
      return false;
    place = second;
  }
  moe__builder_t b = moe__builder_before(first);
  b.before = place;
  const MlirOperation halves[2] = {first, second};
  MlirType types[4];
  for (int i = 0; i < 4; i++)
    types[i] = moe__tensor_type(halves[i / 2], HALF_ROLES[i % 2]);
  MlirOperation both = moe__op(&b, moe__op_id_name(MOE__OP_QUANTIZE_FP8_PAIR), 4, types,
                               MOE__VALUES(x, y, moe__operand(first, MOE__OFFS)), NULL, 0, NULL);
  moe__op_set_attribute(both, "pow2", moe__op_attribute(first, "pow2"));
  moe__op_set_attribute(both, "sanitize", moe__op_attribute(first, "sanitize"));
  copy_align(first, both);
  for (int i = 0; i < 4; i++)
    mlirValueReplaceAllUsesOfWith(moe__result(halves[i / 2], HALF_ROLES[i % 2]),
                                  mlirOperationGetResult(both, i));
  return true;
}

/* Looks for another tensor behind `first`. */
static void pair_with_later(MlirOperation first) {
  if (!is_half_of_pair(first) || !moe__has_uses(first))
    return;
  for (MlirOperation op = mlirOperationGetNextInBlock(first); !mlirOperationIsNull(op);
       op = mlirOperationGetNextInBlock(op))
    if (moe__is(op, MOE__OP_QUANTIZE_FP8) && moe__has_uses(op) && is_half_of_pair(op) &&
        differ_in_tensor_only(first, op) && pair(first, op))
      return;
}

/* ---- All of a block ---- */

static void for_each(MlirBlock block, moe__op_id_t id, void (*visit)(MlirOperation)) {
  for (MlirOperation op = mlirBlockGetFirstOperation(block); !mlirOperationIsNull(op);
       op = mlirOperationGetNextInBlock(op))
    if (moe__is(op, id))
      visit(op);
}

void moe__merge_quantizers(MlirBlock block) {
  for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++)
    for_each(block, KINDS[i].one, merge_with_later);
  for_each(block, MOE__OP_QUANTIZE_FP8, pair_with_later);
}
