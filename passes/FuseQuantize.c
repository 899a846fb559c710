/* FuseQuantize.c - turns transpose, quantize, transpose back into one quantize along another axis.
 *
 * Why: that is how people write it today, because their kernels quantize along the last axis only.
 * Each transpose is a copy of the whole tensor.
 *
 *   t      = linalg.transpose x, permutation p          q, s = mx_quantize.quantize x, axis = p[a]
 *   q', s' = mx_quantize.quantize t, axis = a      ->
 *   q      = linalg.transpose q', permutation p^-1
 *   s      = linalg.transpose s', permutation p^-1
 *
 * It is enough that one of q', s' is transposed back; the other is then made from the fused result
 * by a transpose of its own. Where a result is used both ways nothing is fused: one of the two
 * copies would be needed anyway. Other uses of t keep t.
 *
 * Ops whose results nobody uses are removed afterwards: MLIR does not do it for ops defined in
 * IRDL.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Builder/Builder.h"
#include "lib/Builder/Inspect.h"
#include "passes/Passes.h"

#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/BuiltinTypes.h"
#include "mlir-c/Dialect/Linalg.h"

#include <stdlib.h>

typedef struct permutation_t {
  int rank;
  int64_t at[MOE__MAX_RANK];
} permutation_t;

static bool permutation_of(MlirOperation transpose, permutation_t *out) {
  MlirAttribute attribute = moe__op_attribute(transpose, "permutation");
  out->rank = (int)mlirDenseArrayGetNumElements(attribute);
  if (out->rank > MOE__MAX_RANK)
    return false;
  for (int i = 0; i < out->rank; i++)
    out->at[i] = mlirDenseI64ArrayGetElement(attribute, i);
  return true;
}

/* The tensor transpose that defines `value`, null if there is none. */
static MlirOperation defining_transpose(MlirValue value) {
  if (!mlirValueIsAOpResult(value))
    return (MlirOperation){NULL};
  MlirOperation op = mlirOpResultGetOwner(value);
  return moe__op_is(op, "linalg.transpose") ? op : (MlirOperation){NULL};
}

/* How a result of the quantize op is used. */
typedef enum use_t { UNUSED, AS_IT_IS, TRANSPOSED_BACK, MIXED } use_t;

static bool undoes(MlirOperation user, const permutation_t *p) {
  permutation_t back;
  if (!moe__op_is(user, "linalg.transpose") || !permutation_of(user, &back) || back.rank != p->rank)
    return false;
  for (int i = 0; i < p->rank; i++)
    if (p->at[back.at[i]] != i)
      return false;
  return true;
}

static use_t classify(MlirValue value, const permutation_t *p) {
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

/* The type of `type`, a result of the quantize op, before the transpose p: dimension p[i] of it is
 * dimension i of type. With same_memory it lies in memory as `type` does, so that the transpose
 * between the two moves nothing; else row-major. */
static MlirType untransposed(MlirType type, const permutation_t *p, bool same_memory) {
  int order[MOE__MAX_RANK];
  int64_t shape[MOE__MAX_RANK];
  unsigned permutation[MOE__MAX_RANK];
  moe__memory_order(type, order);
  bool identity = true;
  for (int i = 0; i < p->rank; i++) {
    shape[p->at[i]] = mlirShapedTypeIsDynamicDim(type, i) ? mlirShapedTypeGetDynamicSize()
                                                          : mlirShapedTypeGetDimSize(type, i);
    permutation[i] = (unsigned)p->at[order[i]];
    identity &= permutation[i] == (unsigned)i;
  }
  MlirContext context = mlirTypeGetContext(type);
  MlirAttribute encoding =
      identity || !same_memory
          ? mlirAttributeGetNull()
          : mlirAffineMapAttrGet(mlirAffineMapPermutationGet(context, p->rank, permutation));
  return mlirRankedTensorTypeGet(p->rank, shape, mlirShapedTypeGetElementType(type), encoding);
}

/* value, transposed by p to `type`, at the builder's place. Only for static shapes: a destination
 * of dynamic shape would need tensor.dim. */
static MlirValue transpose(moe__builder_t *b, MlirValue value, MlirType type,
                           const permutation_t *p) {
  MlirValue destination = moe__op1(b, "tensor.empty", type, MOE__NO_VALUES, NULL);
  MlirRegion region = mlirRegionCreate();
  MlirOperation op =
      moe__op(b, "linalg.transpose", 1, &type, MOE__VALUES(value, destination), NULL, 1, &region);
  moe__op_set_attribute(op, "permutation", mlirDenseI64ArrayGet(b->context, p->rank, p->at));
  mlirLinalgFillBuiltinNamedOpRegion(op);
  return mlirOperationGetResult(op, 0);
}

static void replace_uses_of_users(MlirValue value, MlirValue with) {
  for (MlirOpOperand operand = mlirValueGetFirstUse(value); !mlirOpOperandIsNull(operand);
       operand = mlirOpOperandGetNextUse(operand))
    mlirValueReplaceAllUsesOfWith(mlirOperationGetResult(mlirOpOperandGetOwner(operand), 0), with);
}

static void fuse(MlirOperation op) {
  MlirOperation first = defining_transpose(mlirOperationGetOperand(op, 0));
  permutation_t p;
  if (mlirOperationIsNull(first) || !permutation_of(first, &p))
    return;
  use_t uses[2];
  MlirType types[2];
  bool back = false;
  for (int i = 0; i < 2; i++) {
    MlirValue result = mlirOperationGetResult(op, i);
    MlirType type = mlirValueGetType(result);
    uses[i] = classify(result, &p);
    back |= uses[i] == TRANSPOSED_BACK;
    if (uses[i] == MIXED || (uses[i] == AS_IT_IS && !mlirShapedTypeHasStaticShape(type)))
      return;
    if (uses[i] == TRANSPOSED_BACK) {
      if (!users_agree(result, &types[i]))
        return;
    } else {
      /* Nobody reads unused scales: they lie where kernels write them. */
      types[i] = untransposed(type, &p, i == 0 || uses[i] == AS_IT_IS);
    }
  }
  if (!back)
    return;

  moe__builder_t b = moe__builder_create(mlirOperationGetContext(op), mlirOperationGetLocation(op));
  b.block = mlirOperationGetBlock(op);
  b.before = op;
  MlirValue x = mlirOperationGetOperand(first, 0);
  MlirOperation fused =
      moe__op(&b, "mx_quantize.quantize", 2, types, MOE__VALUES(x), NULL, 0, NULL);
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
                                    transpose(&b, fused_result, mlirValueGetType(result), &p));
  }
}

/* tensor.dim and arith make the sizes of transposed tensors where they are dynamic. */
static bool is_removable(MlirOperation op) {
  return moe__op_in_dialect(op, "mx_quantize") || moe__op_in_dialect(op, "scaled_grouped_mm") ||
         moe__op_is(op, "linalg.transpose") || moe__op_is(op, "tensor.empty") ||
         moe__op_is(op, "tensor.dim") || moe__op_in_dialect(op, "arith");
}

static bool is_dead(MlirOperation op) {
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++)
    if (!mlirOpOperandIsNull(mlirValueGetFirstUse(mlirOperationGetResult(op, i))))
      return false;
  return true;
}

/* Again and again, since what only a dead op used is dead then. */
static void remove_dead(MlirBlock block) {
  bool removed = true;
  while (removed) {
    removed = false;
    for (MlirOperation next, op = mlirBlockGetFirstOperation(block); !mlirOperationIsNull(op);
         op = next) {
      next = mlirOperationGetNextInBlock(op);
      if (is_removable(op) && is_dead(op)) {
        mlirOperationDestroy(op);
        removed = true;
      }
    }
  }
}

bool moe__run_fuse_quantize(MlirOperation module, const moe__pass_t *pass) {
  if (!moe__run_verify(module, pass)) /* the rest relies on it */
    return false;
  for (MlirOperation function = mlirBlockGetFirstOperation(moe__body(module));
       !mlirOperationIsNull(function); function = mlirOperationGetNextInBlock(function)) {
    if (!moe__op_is(function, "func.func") || mlirBlockIsNull(moe__body(function)))
      continue;
    MlirBlock body = moe__body(function);
    for (MlirOperation op = mlirBlockGetFirstOperation(body); !mlirOperationIsNull(op);
         op = mlirOperationGetNextInBlock(op))
      if (moe__op_is(op, "mx_quantize.quantize"))
        fuse(op);
    remove_dead(body);
  }
  return true;
}
