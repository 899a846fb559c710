/* QuantizeFp8.c - which kernel an mx_quantize.quantize_fp8 has; those that take two passes have been
 * split by moe-expand-quantize.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Builder/Shapes.h"
#include "passes/Lowering.h"

#include "mlir-c/BuiltinTypes.h"

bool moe__quantize_fp8_has_kernel(MlirOperation op) {
  MlirType x = mlirValueGetType(mlirOperationGetOperand(op, 0));
  moe__granularity_t granularity = moe__op_granularity(op);
  if (granularity == MOE__ROW && moe__op_integer(op, "axis") == mlirShapedTypeGetRank(x) - 1)
    return moe__quantize_rows_has_kernel(op);
  if (granularity == MOE__1X128 || granularity == MOE__128X128)
    return moe__quantize_blocks_has_kernel(op);
  return moe__error(op,
                    "granularity \"%s\" along axis %d takes two passes; run moe-expand-quantize",
                    moe__granularity_name(granularity), (int)moe__op_integer(op, "axis"));
}

bool moe__lower_quantize_fp8(MlirOperation function, MlirOperation op, MlirBlock gpu_module_body) {
  if (!moe__quantize_fp8_has_kernel(op)) /* its schedule may have been written by hand */
    return false;
  switch (moe__op_granularity(op)) {
  case MOE__ROW:
    return moe__lower_quantize_rows(function, op, gpu_module_body);
  case MOE__1X128:
    return moe__lower_quantize_stream(function, op, gpu_module_body);
  default:
    return moe__lower_quantize_blocks(function, op, gpu_module_body);
  }
}
