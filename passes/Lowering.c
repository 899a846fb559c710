/* Lowering.c - see Lowering.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "passes/Lowering.h"

#include "lib/Builder/Shapes.h"

#include "mlir-c/BuiltinTypes.h"

#include <ctype.h>

/* moe-outline-kernels names kernels so; other names may have been written by hand. */
static bool is_identifier(MlirStringRef name) {
  bool ok = name.length > 0 && isalpha((unsigned char)name.data[0]);
  for (size_t i = 0; i < name.length; i++)
    ok &= isalnum((unsigned char)name.data[i]) || name.data[i] == '_';
  return ok;
}

typedef bool (*lower_t)(MlirOperation function, MlirOperation op, MlirBlock gpu_module_body);

static lower_t find_kernel(MlirOperation op) {
#define MOE_KERNEL(op_name, symbol)                                                                \
  if (moe__op_is(op, op_name))                                                                     \
    return moe__lower_##symbol;
#include "passes/Kernels.def"
#undef MOE_KERNEL
  return NULL;
}

static bool lower_gpu_module(MlirOperation gpu_module, const char *dialect) {
  MlirBlock body = moe__body(gpu_module);
  for (MlirOperation next, function = mlirBlockGetFirstOperation(body);
       !mlirOperationIsNull(function); function = next) {
    next = mlirOperationGetNextInBlock(function);
    if (!moe__op_is(function, "func.func") || mlirBlockIsNull(moe__body(function)))
      continue;
    MlirOperation op = mlirBlockGetFirstOperation(moe__body(function));
    lower_t lower = moe__op_in_dialect(op, dialect) ? find_kernel(op) : NULL;
    if (!lower)
      continue;
    if (!is_identifier(moe__symbol(function)))
      return moe__error(function, "a kernel's name must be a letter, then letters, digits and _");
    if (!lower(function, op, body))
      return false;
    mlirOperationDestroy(function);
  }
  return true;
}

bool moe__lower_kernels(MlirOperation module, const char *dialect) {
  for (MlirOperation op = mlirBlockGetFirstOperation(moe__body(module)); !mlirOperationIsNull(op);
       op = mlirOperationGetNextInBlock(op))
    if (moe__op_is(op, "gpu.module") && !lower_gpu_module(op, dialect))
      return false;
  return true;
}

/* ---- Checks ---- */

bool moe__is_order(MlirType type, int count, const int *expected) {
  int order[MOE__MAX_RANK];
  int rank = (int)mlirShapedTypeGetRank(type);
  bool ok = rank <= count && moe__memory_order(type, order);
  for (int i = 0; ok && i < rank && i < count; i++)
    ok = order[i] == expected[i];
  return ok;
}

bool moe__is_row_major(MlirType type) {
  return moe__is_order(type, MOE__MAX_RANK, (int[]){0, 1, 2, 3, 4, 5, 6, 7});
}

bool moe__is_column_major(MlirType type) {
  bool matrix = mlirShapedTypeGetRank(type) == 2;
  return moe__is_order(type, 3, matrix ? (int[]){1, 0, 0} : (int[]){0, 2, 1});
}

int moe__max_groups(MlirOperation op, int operand) {
  MlirValue offs = moe__op_operand(op, operand);
  if (mlirValueIsNull(offs))
    return 0;
  MlirType type = mlirValueGetType(offs);
  /* moe-verify allows as many when the number is static. */
  return mlirShapedTypeIsDynamicDim(type, 0) ? MOE__MAX_GROUPS
                                             : (int)mlirShapedTypeGetDimSize(type, 0);
}

void moe__require_scales(moe__kernel_t *kernel, MlirOperation op, int operand) {
  moe__shape_t shape;
  moe__scales_shape(op, operand, &shape);
  for (int d = 0; d < shape.rank; d++) {
    const moe__size_t *size = &shape.sizes[d];
    if (size->operand < 0) /* a constant: moe-verify has compared it */
      continue;
    if (size->divisor == 1) {
      moe__kernel_require_same(kernel, size->operand, size->dimension, operand, d);
    } else {
      moe__kernel_require_quotient(kernel, operand, d, size->operand, size->dimension,
                                   size->divisor);
    }
  }
}

bool moe__needs_multiple(MlirOperation op, const char *name, MlirType type, int dimension,
                         int64_t divisor) {
  int64_t size =
      mlirShapedTypeIsDynamicDim(type, dimension) ? 0 : mlirShapedTypeGetDimSize(type, dimension);
  return size % divisor == 0 ||
         moe__error(op,
                    "operand '%s' has dimension %d of size %lld; the kernel needs a multiple of %d",
                    name, dimension, (long long)size, (int)divisor);
}

bool moe__needs_multiple_of_16(MlirOperation op, const char *name, MlirType type, int dimension) {
  return moe__needs_multiple(op, name, type, dimension, 16);
}

bool moe__needs_one_element(MlirOperation op) {
  MlirType x = mlirValueGetType(mlirOperationGetOperand(op, 0)),
           y = mlirValueGetType(mlirOperationGetOperand(op, 1));
  return mlirTypeEqual(mlirShapedTypeGetElementType(x), mlirShapedTypeGetElementType(y)) ||
         moe__error(op,
                    "the kernel reads 'x' and 'y' with one element type; give both the same, or "
                    "use a quantize_fp8 for each");
}
