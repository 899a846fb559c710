/* FuseQuantize.c - turns transpose, quantize, transpose back into one quantize along another axis,
 * and two quantizers into one.
 *
 * Why: that is how people write it today, because their kernels quantize along the last axis
 * only. Each transpose is a copy of the whole tensor. One that moves nothing
 * (lib/Builder/Views.h) stays where it makes x row-major, as the kernels read it.
 *
 *   t      = linalg.transpose x, permutation p          q, s = mx_quantize.quantize x, axis = p[a]
 *   q', s' = mx_quantize.quantize t, axis = a      ->
 *   q      = linalg.transpose q', permutation p^-1
 *   s      = linalg.transpose s', permutation p^-1
 *
 * It is enough that one of q', s' is transposed back; the other is then made from the fused
 * result by a transpose of its own. Where a result is used both ways nothing is fused: one of
 * the two copies would be needed anyway. Other uses of t keep t.
 *
 * Then two quantizers become one where one op does what both do (MergeQuantize.h).
 *
 * Ops whose results nobody uses are removed afterwards: MLIR does not do it for ops defined in
 * IRDL.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Builder/Views.h"
#include "lib/Dialect/Dialect.h"
#include "lib/Kernels/Requirements.h"
#include "passes/MergeQuantize.h"
#include "passes/Passes.h"
#include "passes/Values.h"

#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/BuiltinTypes.h"

/* The tensor transpose that defines `value`, null if there is none. */
static MlirOperation defining_transpose(MlirValue value) {
  if (!mlirValueIsAOpResult(value))
    return (MlirOperation){NULL};
  MlirOperation op = mlirOpResultGetOwner(value);
  return moe__op_is(op, "linalg.transpose") ? op : (MlirOperation){NULL};
}

/* How a result of the quantize op is used. */
typedef enum use_t { UNUSED, AS_IT_IS, TRANSPOSED_BACK, MIXED } use_t;

static bool undoes(MlirOperation user, const moe__permutation_t *p) {
  moe__permutation_t back, inverse = moe__inverse(p);
  return moe__op_is(user, "linalg.transpose") && moe__permutation_of(user, &back) &&
         moe__permutations_equal(&back, &inverse);
}

static use_t classify(MlirValue value, const moe__permutation_t *p) {
  use_t use = UNUSED;
  for (MlirOpOperand operand = mlirValueGetFirstUse(value); !mlirOpOperandIsNull(operand);
       operand = mlirOpOperandGetNextUse(operand)) {
    /* As the destination of a transpose (operand 1) only the type matters, but nothing is undone.
     */
    bool back =
        mlirOpOperandGetOperandNumber(operand) == 0 && undoes(mlirOpOperandGetOwner(operand), p);
    use_t this_use = back ? TRANSPOSED_BACK : AS_IT_IS;
    if (use != UNUSED && use != this_use)
      return MIXED;
    use = this_use;
  }
  return use;
}

static MlirOperation user_of(MlirValue value) {
  return mlirOpOperandGetOwner(mlirValueGetFirstUse(value));
}

/* All transposes back must agree on the type, encoding included; it becomes the type of the fused
 * result. */
static bool users_agree(MlirValue value, MlirType *out_type) {
  *out_type = mlirValueGetType(mlirOperationGetResult(user_of(value), 0));
  for (MlirOpOperand operand = mlirValueGetFirstUse(value); !mlirOpOperandIsNull(operand);
       operand = mlirOpOperandGetNextUse(operand))
    if (!mlirTypeEqual(*out_type,
                       mlirValueGetType(mlirOperationGetResult(mlirOpOperandGetOwner(operand), 0))))
      return false;
  return true;
}

static void replace_uses_of_users(MlirValue value, MlirValue with) {
  for (MlirOpOperand operand = mlirValueGetFirstUse(value); !mlirOpOperandIsNull(operand);
       operand = mlirOpOperandGetNextUse(operand))
    mlirValueReplaceAllUsesOfWith(mlirOperationGetResult(mlirOpOperandGetOwner(operand), 0), with);
}

static void fuse(MlirOperation op) {
  MlirOperation first = defining_transpose(moe__operand(op, MOE__X));
  moe__permutation_t p;
  if (mlirOperationIsNull(first) || !mlirValueIsNull(moe__operand(op, MOE__OFFS)) ||
      !moe__permutation_of(first, &p) ||
      (moe__is_view(first) &&
       !moe__is_row_major(mlirValueGetType(mlirOperationGetOperand(first, 0)))))
    return;
  const moe__permutation_t back_to_x = moe__inverse(&p);
  use_t uses[2];
  MlirType types[2];
  bool back = false;
  for (int i = 0; i < 2; i++) {
    MlirValue result = mlirOperationGetResult(op, i);
    MlirType type = mlirValueGetType(result);
    uses[i] = classify(result, &p);
    back |= uses[i] == TRANSPOSED_BACK;
    if (uses[i] == MIXED)
      return;
    if (uses[i] == TRANSPOSED_BACK) {
      if (!users_agree(result, &types[i]))
        return;
    } else {
      /* Nobody reads unused scales: they lie where kernels write them. */
      types[i] = moe__transposed(type, &back_to_x, i == 0 || uses[i] == AS_IT_IS);
    }
  }
  if (!back)
    return;

  moe__builder_t b = moe__builder_before(op);
  MlirValue x = mlirOperationGetOperand(first, 0);
  MlirOperation fused =
      moe__op(&b, moe__op_id_name(MOE__OP_QUANTIZE), 2, types, MOE__VALUES(x), NULL, 0, NULL);
  for (intptr_t i = 0; i < mlirOperationGetNumAttributes(op); i++) {
    MlirNamedAttribute attribute = mlirOperationGetAttribute(op, i);
    mlirOperationSetAttributeByName(fused, mlirIdentifierStr(attribute.name), attribute.attribute);
  }
  MlirType axis_type = mlirAttributeGetType(moe__op_attribute(op, "axis"));
  moe__op_set_attribute(fused, "axis",
                        mlirIntegerAttrGet(axis_type, p.at[moe__op_integer(op, "axis")]));
  for (int i = 0; i < 2; i++) {
    MlirValue result = mlirOperationGetResult(op, i),
              fused_result = mlirOperationGetResult(fused, i);
    if (uses[i] == TRANSPOSED_BACK)
      replace_uses_of_users(result, fused_result);
    else if (uses[i] == AS_IT_IS)
      mlirValueReplaceAllUsesOfWith(result,
                                    moe__transpose(&b, fused_result, mlirValueGetType(result), &p));
  }
}

/* ---- The pass ---- */

static bool is_removable(MlirOperation op) {
  return moe__op_id(op) || moe__op_is(op, "linalg.transpose") || moe__makes_destination(op);
}

/* Again and again, since what only a dead op used is dead then. */
static void remove_dead(MlirBlock block) {
  bool removed = true;
  while (removed) {
    removed = false;
    for (MlirOperation next, op = mlirBlockGetFirstOperation(block); !mlirOperationIsNull(op);
         op = next) {
      next = mlirOperationGetNextInBlock(op);
      if (is_removable(op) && !moe__has_uses(op)) {
        mlirOperationDestroy(op);
        removed = true;
      }
    }
  }
}

/* An op that another takes the place of stays until the end: it is dead then. */
static bool fuse_body(MlirBlock body) {
  for (MlirOperation op = mlirBlockGetFirstOperation(body); !mlirOperationIsNull(op);
       op = mlirOperationGetNextInBlock(op))
    if (moe__is(op, MOE__OP_QUANTIZE))
      fuse(op);
  moe__merge_quantizers(body);
  remove_dead(body);
  return true;
}

bool moe__pass_fuse_quantize(MlirOperation module, const moe__pass_t *pass) {
  return moe__pass_verify(module, pass) && /* the rest relies on it */
         moe__walk_functions(module, fuse_body);
}
