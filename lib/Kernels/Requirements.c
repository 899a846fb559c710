/* Requirements.c - see Requirements.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/Requirements.h"

#include "lib/Dialect/Shapes.h"

#include "mlir-c/BuiltinTypes.h"

int moe__tensor_rank(MlirOperation op, moe__role_t role) {
  return (int)mlirShapedTypeGetRank(moe__tensor_type(op, role));
}

int moe__tensor_element_bytes(MlirOperation op, moe__role_t role) {
  MlirType element = mlirShapedTypeGetElementType(moe__tensor_type(op, role));
  if (mlirTypeIsAF32(element))
    return 4;
  return mlirTypeIsABF16(element) || mlirTypeIsAF16(element) ? 2 : 1;
}

/* Whether the tensor has this memory order, of which `count` positions are given; its rank may be
 * less. */
static bool is_order(MlirType type, int count, const int *expected) {
  int order[MOE__MAX_RANK];
  int rank = (int)mlirShapedTypeGetRank(type);
  bool ok = rank <= count && moe__memory_order(type, order);
  for (int i = 0; ok && i < rank && i < count; i++)
    ok = order[i] == expected[i];
  return ok;
}

bool moe__is_row_major(MlirType type) {
  return is_order(type, MOE__MAX_RANK, (int[]){0, 1, 2, 3, 4, 5, 6, 7});
}

bool moe__is_column_major(MlirType type) {
  bool matrix = mlirShapedTypeGetRank(type) == 2;
  return is_order(type, 3, matrix ? (int[]){1, 0, 0} : (int[]){0, 2, 1});
}

bool moe__is_grouped(MlirOperation op) {
  return !mlirValueIsNull(moe__operand(op, MOE__OFFS));
}

int moe__max_groups(MlirOperation op) {
  if (!moe__is_grouped(op))
    return 0;
  int64_t groups = moe__static_dimension(moe__tensor_type(op, MOE__OFFS), 0);
  return groups < 0 ? MOE_MAX_GROUPS : (int)groups; /* moe-verify allows as many */
}

bool moe__has_few_tokens(MlirOperation op) {
  bool is_gradient = moe__mm_case(op) == MOE__GRADIENT;
  MlirType a = moe__factor_type(op, 0),
           of_experts = is_gradient ? moe__tensor_type(op, MOE__OFFS) : moe__factor_type(op, 1);
  int64_t tokens = moe__static_dimension(a, moe__mm_case(op) == MOE__FORWARD ? 0 : 1);
  int64_t experts = moe__mm_case(op) == MOE__BATCHED ? 1 : moe__static_dimension(of_experts, 0);
  return tokens >= 0 && experts > 0 && tokens <= MOE__FEW_TOKENS * experts;
}

static void require_shape(moe__kernel_t *kernel, MlirOperation op, int operand) {
  moe__shape_t shape;
  moe__tensor_shape(op, moe__operand_role(op, operand), &shape);
  for (int d = 0; d < shape.rank; d++) {
    const moe__size_t *size = &shape.sizes[d];
    /* Of a constant: moe-verify has compared it. Of itself: it is what others are compared with. */
    if (size->operand < 0 || (size->operand == operand && size->dimension == d))
      continue;
    if (size->divisor == 1 && size->groups_operand < 0) {
      moe__kernel_require_same(kernel, size->operand, size->dimension, operand, d);
    } else {
      moe__kernel_require_quotient(kernel, operand, d, size->operand, size->dimension,
                                   size->divisor, size->groups_operand);
    }
  }
}

void moe__require_shapes(moe__kernel_t *kernel, MlirOperation op) {
  for (int i = 0; i < mlirOperationGetNumOperands(op); i++)
    require_shape(kernel, op, i);
}

void moe__require_groups(moe__kernel_t *kernel, int offs) {
  moe__kernel_require(kernel, offs, 0, MOE__AT_LEAST, 1);
  moe__kernel_require(kernel, offs, 0, MOE__AT_MOST, MOE_MAX_GROUPS);
}

bool moe__needs_multiple(MlirOperation op, moe__role_t role, int dimension, int64_t divisor) {
  int64_t size = moe__static_dimension(moe__tensor_type(op, role), dimension);
  return size < 0 || size % divisor == 0 ||
         moe__error(op,
                    "operand '%s' has dimension %d of size %lld; the kernel needs a multiple of %d",
                    moe__role_name(role), dimension, (long long)size, (int)divisor);
}

bool moe__needs_multiple_of_16(MlirOperation op, moe__role_t role, int dimension) {
  return moe__needs_multiple(op, role, dimension, 16);
}

bool moe__needs_one_element(MlirOperation op) {
  return mlirTypeEqual(moe__element_type(op, MOE__X), moe__element_type(op, MOE__Y)) ||
         moe__error(op,
                    "the kernel reads 'x' and 'y' with one element type; give both the same, or "
                    "use a %s for each",
                    moe__op_id_short_name(MOE__OP_QUANTIZE_FP8));
}
