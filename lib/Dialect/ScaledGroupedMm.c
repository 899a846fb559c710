/* ScaledGroupedMm.c - what the letters of ScaledGroupedMm.def cannot say.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Dialect/RowFunctions.h"

#include "mlir-c/BuiltinTypes.h"

static MlirType element_of(MlirType type) {
  return mlirShapedTypeGetElementType(type);
}

bool moe__check_scaled_mm(MlirOperation op) {
  MlirType sa = element_of(moe__tensor_type(op, MOE__SA)),
           sb = element_of(moe__tensor_type(op, MOE__SB)),
           out = element_of(moe__tensor_type(op, MOE__OUT));
  MlirValue bias = moe__operand(op, MOE__BIAS);
  if (!mlirTypeEqual(sa, sb))
    return moe__error(op, "operands 'sa' and 'sb' must both be f32 or both f8E8M0FNU");
  return mlirValueIsNull(bias) || mlirTypeEqual(element_of(mlirValueGetType(bias)), out) ||
         moe__error(op, "operand 'bias' must have the element type of 'out'");
}
