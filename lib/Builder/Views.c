/* Views.c - see Views.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Builder/Views.h"

#include "mlir-c/AffineMap.h"
#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/BuiltinTypes.h"
#include "mlir-c/Dialect/Linalg.h"

static moe__permutation_t identity(int rank) {
  moe__permutation_t p = {.rank = rank};
  for (int i = 0; i < rank; i++)
    p.at[i] = i;
  return p;
}

moe__permutation_t moe__swap_last_two(int rank) {
  moe__permutation_t p = identity(rank);
  p.at[rank - 2] = rank - 1;
  p.at[rank - 1] = rank - 2;
  return p;
}

moe__permutation_t moe__inverse(const moe__permutation_t *p) {
  moe__permutation_t inverse = {.rank = p->rank};
  for (int i = 0; i < p->rank; i++)
    inverse.at[p->at[i]] = i;
  return inverse;
}

bool moe__permutations_equal(const moe__permutation_t *p, const moe__permutation_t *q) {
  bool equal = p->rank == q->rank;
  for (int i = 0; equal && i < p->rank; i++)
    equal = p->at[i] == q->at[i];
  return equal;
}

bool moe__permutation_of(MlirOperation transpose, moe__permutation_t *out) {
  MlirAttribute attribute = moe__op_attribute(transpose, "permutation");
  out->rank = (int)mlirDenseArrayGetNumElements(attribute);
  if (out->rank > MOE__MAX_RANK)
    return false;
  for (int i = 0; i < out->rank; i++)
    out->at[i] = mlirDenseI64ArrayGetElement(attribute, i);
  return true;
}

MlirType moe__transposed(MlirType type, const moe__permutation_t *p, bool same_memory) {
  moe__permutation_t inverse = moe__inverse(p);
  int order[MOE__MAX_RANK];
  int64_t shape[MOE__MAX_RANK];
  unsigned permutation[MOE__MAX_RANK];
  moe__memory_order(type, order);
  bool row_major = true;
  for (int i = 0; i < p->rank; i++) {
    shape[i] = mlirShapedTypeGetDimSize(type, p->at[i]);
    permutation[i] = (unsigned)inverse.at[order[i]];
    row_major &= permutation[i] == (unsigned)i;
  }
  MlirContext context = mlirTypeGetContext(type);
  MlirAttribute encoding =
      row_major || !same_memory
          ? mlirAttributeGetNull()
          : mlirAffineMapAttrGet(mlirAffineMapPermutationGet(context, p->rank, permutation));
  return mlirRankedTensorTypeGet(p->rank, shape, mlirShapedTypeGetElementType(type), encoding);
}

MlirValue moe__transpose(moe__builder_t *b, MlirValue value, MlirType type,
                         const moe__permutation_t *p) {
  MlirValue sizes[MOE__MAX_RANK];
  intptr_t dynamic = 0;
  MlirType index = mlirIndexTypeGet(b->context);
  for (int i = 0; i < p->rank; i++) {
    if (!mlirShapedTypeIsDynamicDim(type, i))
      continue;
    MlirValue dimension = moe__index(b, p->at[i]);
    sizes[dynamic++] = moe__op1(b, "tensor.dim", index, MOE__VALUES(value, dimension), NULL);
  }
  MlirValue destination = moe__op1(b, "tensor.empty", type, dynamic, sizes, NULL);
  MlirRegion region = mlirRegionCreate();
  MlirOperation op =
      moe__op(b, "linalg.transpose", 1, &type, MOE__VALUES(value, destination), NULL, 1, &region);
  moe__op_set_attribute(op, "permutation", mlirDenseI64ArrayGet(b->context, p->rank, p->at));
  mlirLinalgFillBuiltinNamedOpRegion(op);
  return mlirOperationGetResult(op, 0);
}

bool moe__makes_destination(MlirOperation op) {
  return moe__op_is(op, "tensor.empty") || moe__op_is(op, "tensor.dim") ||
         moe__op_in_dialect(op, "arith");
}

static bool has_order(MlirType type, int order[MOE__MAX_RANK]) {
  return mlirTypeIsARankedTensor(type) && moe__memory_order(type, order);
}

bool moe__is_view(MlirOperation op) {
  moe__permutation_t p;
  int from[MOE__MAX_RANK], to[MOE__MAX_RANK];
  if (!moe__op_is(op, "linalg.transpose") || mlirOperationGetNumResults(op) != 1 ||
      !moe__permutation_of(op, &p) ||
      !has_order(mlirValueGetType(mlirOperationGetOperand(op, 0)), from) ||
      !has_order(mlirValueGetType(mlirOperationGetResult(op, 0)), to))
    return false;
  for (int i = 0; i < p.rank; i++)
    if (p.at[to[i]] != from[i])
      return false;
  return true;
}

/* Whether the op is a view by p that gives `type`. */
static bool is_view_by(MlirOperation op, const moe__permutation_t *p, MlirType type) {
  moe__permutation_t found;
  return moe__is_view(op) && moe__permutation_of(op, &found) &&
         moe__permutations_equal(&found, p) &&
         mlirTypeEqual(mlirValueGetType(mlirOperationGetResult(op, 0)), type);
}

MlirValue moe__swapped_view(moe__builder_t *b, MlirValue value) {
  MlirType type = mlirValueGetType(value);
  moe__permutation_t swap = moe__swap_last_two((int)mlirShapedTypeGetRank(type));
  if (mlirValueIsAOpResult(value) && is_view_by(mlirOpResultGetOwner(value), &swap, type))
    return mlirOperationGetOperand(mlirOpResultGetOwner(value), 0);
  MlirType view = moe__transposed(type, &swap, true);
  for (MlirOpOperand use = mlirValueGetFirstUse(value); !mlirOpOperandIsNull(use);
       use = mlirOpOperandGetNextUse(use)) {
    MlirOperation user = mlirOpOperandGetOwner(use);
    if (mlirOpOperandGetOperandNumber(use) == 0 && is_view_by(user, &swap, view) &&
        moe__op_is_before(user, b->before))
      return mlirOperationGetResult(user, 0);
  }
  return moe__transpose(b, value, view, &swap);
}

MlirValue moe__view_source(MlirValue value, moe__permutation_t *out) {
  int64_t rank = mlirShapedTypeGetRank(mlirValueGetType(value));
  *out = identity(rank <= MOE__MAX_RANK ? (int)rank : 0); /* what has more is no view */
  while (mlirValueIsAOpResult(value) && moe__is_view(mlirOpResultGetOwner(value))) {
    moe__permutation_t p;
    moe__permutation_of(mlirOpResultGetOwner(value), &p);
    for (int i = 0; i < out->rank; i++)
      out->at[i] = p.at[out->at[i]];
    value = mlirOperationGetOperand(mlirOpResultGetOwner(value), 0);
  }
  return value;
}
