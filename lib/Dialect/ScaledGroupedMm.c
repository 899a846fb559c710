/* ScaledGroupedMm.c - what the letters of ScaledGroupedMm.def cannot say.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Dialect/RowFunctions.h"

#include "mlir-c/BuiltinTypes.h"

static MlirType element_of(MlirType type) {
  return mlirShapedTypeGetElementType(type);
}

/* Whether sb has one fp32 scale for each 128 x 128. */
static bool has_square_blocks(MlirOperation op) {
  MlirType sb = moe__tensor_type(op, MOE__SB);
  return moe__mm_case(op) != MOE__GRADIENT && mlirTypeIsAF32(element_of(sb)) &&
         mlirShapedTypeGetRank(sb) == 3;
}

bool moe__check_scaled_mm(MlirOperation op) {
  MlirType sa = element_of(moe__tensor_type(op, MOE__SA)),
           sb = element_of(moe__tensor_type(op, MOE__SB)),
           out = element_of(moe__tensor_type(op, MOE__OUT));
  MlirValue bias = moe__operand(op, MOE__BIAS);
  if (!mlirTypeEqual(sa, sb))
    return moe__error(op, "operands 'sa' and 'sb' must both be f32 or both f8E8M0FNU");
  bool blocks = moe__has_block_scales(op);
  MlirStringRef promoted = mlirStringRefCreateFromCString("promoted");
  if (blocks != has_square_blocks(op))
    return moe__error(op,
                      "operand '%s' has scales of blocks and operand '%s' has none; both must have "
                      "them, or neither",
                      blocks ? "sa" : "sb", blocks ? "sb" : "sa");
  if (blocks && !mlirStringRefEqual(moe__op_string(op, "accumulate"), promoted))
    return moe__error(op, "attribute 'accumulate' is \"fast\"; it must be promoted with scales of "
                          "blocks");
  return mlirValueIsNull(bias) || mlirTypeEqual(element_of(mlirValueGetType(bias)), out) ||
         moe__error(op, "operand 'bias' must have the element type of 'out'");
}
