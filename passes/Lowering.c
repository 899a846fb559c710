/* Lowering.c - see Lowering.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "passes/Lowering.h"

#include "lib/Builder/Inspect.h"

#include "mlir-c/BuiltinTypes.h"

#include <ctype.h>

/* moe-outline-kernels names kernels so; other names may have been written by hand. */
static bool is_identifier(MlirStringRef name) {
  bool ok = name.length > 0 && isalpha((unsigned char)name.data[0]);
  for (size_t i = 0; i < name.length; i++)
    ok &= isalnum((unsigned char)name.data[i]) || name.data[i] == '_';
  return ok;
}

static bool lower_gpu_module(MlirOperation gpu_module, const char *op_name, moe__lower_t lower) {
  MlirBlock body = moe__body(gpu_module);
  for (MlirOperation next, function = mlirBlockGetFirstOperation(body);
       !mlirOperationIsNull(function); function = next) {
    next = mlirOperationGetNextInBlock(function);
    if (!moe__op_is(function, "func.func") || mlirBlockIsNull(moe__body(function)))
      continue;
    MlirOperation op = mlirBlockGetFirstOperation(moe__body(function));
    if (!moe__op_is(op, op_name))
      continue;
    if (!is_identifier(moe__symbol(function)))
      return moe__error(function, "a kernel's name must be a letter, then letters, digits and _");
    if (!lower(function, op, body))
      return false;
    mlirOperationDestroy(function);
  }
  return true;
}

bool moe__lower_kernels(MlirOperation module, const char *op_name, moe__lower_t lower) {
  for (MlirOperation op = mlirBlockGetFirstOperation(moe__body(module)); !mlirOperationIsNull(op);
       op = mlirOperationGetNextInBlock(op))
    if (moe__op_is(op, "gpu.module") && !lower_gpu_module(op, op_name, lower))
      return false;
  return true;
}

/* ---- What there are kernels for ---- */

/* Whether the tensor has this memory order, of which `count` positions are given; its rank may be less. */
static bool is_order(MlirType type, int count, const int *expected) {
  int order[MOE__MAX_RANK];
  int rank = (int)mlirShapedTypeGetRank(type);
  bool ok = rank <= count && moe__memory_order(type, order);
  for (int i = 0; ok && i < rank && i < count; i++)
    ok = order[i] == expected[i];
  return ok;
}

static bool needs_multiple_of_16(MlirOperation op, const char *name, MlirType type, int dimension) {
  int64_t size =
      mlirShapedTypeIsDynamicDim(type, dimension) ? 0 : mlirShapedTypeGetDimSize(type, dimension);
  return size % 16 == 0 ||
         moe__error(op,
                    "operand '%s' has dimension %d of size %lld; the kernel needs a multiple of 16",
                    name, dimension, (long long)size);
}

bool moe__quantize_has_kernel(MlirOperation op) {
  MlirType x = mlirValueGetType(mlirOperationGetOperand(op, 0));
  MlirType q = mlirValueGetType(mlirOperationGetResult(op, 0));
  MlirType scales = mlirValueGetType(mlirOperationGetResult(op, 1));
  if (mlirShapedTypeGetRank(x) != 3 || moe__op_integer(op, "axis") != 1)
    return moe__error(
        op,
        "no kernel quantizes a tensor of rank %d along axis %d yet; there is one for rank 3 "
        "along axis 1",
        (int)mlirShapedTypeGetRank(x), (int)moe__op_integer(op, "axis"));
  if (!needs_multiple_of_16(op, "x", x, 2))
    return false;
  if (!is_order(x, 3, (int[]){0, 1, 2}) || !is_order(scales, 3, (int[]){0, 1, 2}))
    return moe__error(op, "the kernel takes x and scales row-major; remove their encoding");
  if (!is_order(q, 3, (int[]){0, 2, 1}))
    return moe__error(op, "the kernel writes q column-major per expert; give q the encoding "
                          "affine_map<(e, n, k) -> (e, k, n)>");
  return true;
}

bool moe__scaled_mm_has_kernel(MlirOperation op) {
  MlirType qa = mlirValueGetType(mlirOperationGetOperand(op, 0));
  MlirType qb = mlirValueGetType(mlirOperationGetOperand(op, 1));
  MlirType sa = mlirValueGetType(mlirOperationGetOperand(op, 2));
  MlirType sb = mlirValueGetType(mlirOperationGetOperand(op, 3));
  MlirType out = mlirValueGetType(mlirOperationGetResult(op, 0));
  int qb_rank = (int)mlirShapedTypeGetRank(qb);
  if (mlirShapedTypeGetRank(qa) != 2)
    return moe__error(op,
                      "no kernel multiplies tensors of rank %d and %d yet; there are some for "
                      "rank 2 and 3 (forward), 2 and 2 (weight gradient)",
                      (int)mlirShapedTypeGetRank(qa), qb_rank);
  if (!mlirTypeIsABF16(mlirShapedTypeGetElementType(out)) ||
      !mlirTypeIsAF32(mlirShapedTypeGetElementType(sa)))
    return moe__error(op, "the kernel takes f32 scales and gives bf16");
  const int row_major[] = {0, 1, 2};
  if (!is_order(qa, 3, row_major) || !is_order(sa, 3, row_major) || !is_order(sb, 3, row_major) ||
      !is_order(out, 3, row_major))
    return moe__error(op, "the kernel takes qa, sa, sb and out row-major; remove their encoding");
  if (qb_rank == 3 && !is_order(qb, 3, (int[]){0, 2, 1}))
    return moe__error(op, "the kernel takes qb column-major per expert; give it the encoding "
                          "affine_map<(e, k, n) -> (e, n, k)>");
  if (qb_rank == 2 && !is_order(qb, 2, (int[]){1, 0}))
    return moe__error(op, "the kernel takes qb column-major; give it the encoding "
                          "affine_map<(m, k) -> (k, m)>");
  return needs_multiple_of_16(op, "qa", qa, 1) && needs_multiple_of_16(op, "qb", qb, qb_rank - 1);
}
