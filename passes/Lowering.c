/* Lowering.c - see Lowering.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "passes/Lowering.h"

#include "lib/Builder/Inspect.h"

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
