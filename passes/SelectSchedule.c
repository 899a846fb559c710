/* SelectSchedule.c - gives each op its schedule, from one table per kernel.
 *
 * Why the numbers are what they are: docs/performance/.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Builder/Inspect.h"
#include "passes/Passes.h"
#include "passes/Schedule.h"

#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/BuiltinTypes.h"

/* Two persistent blocks per multiprocessor, so that one quantizes while the other waits; 96 or 64
 * KB each in flight. Tiles are ordered down the columns of q in bands of 64: a wave of blocks then
 * writes long runs of q, and each DRAM page it opens is filled. */
static const moe__quantize_schedule_t QUANTIZE_BF16 = {.tile_n = 128,
                                                       .tile_k = 128,
                                                       .stages = 3,
                                                       .output_stages = 1,
                                                       .warps = 8,
                                                       .blocks_per_sm = 2,
                                                       .band = 64};
static const moe__quantize_schedule_t QUANTIZE_F32 = {.tile_n = 128,
                                                      .tile_k = 64,
                                                      .stages = 2,
                                                      .output_stages = 2,
                                                      .warps = 8,
                                                      .blocks_per_sm = 2,
                                                      .band = 64};

static bool is_column_major(MlirType type) {
  int order[MOE__MAX_RANK];
  return moe__memory_order(type, order) && order[0] == 0 && order[1] == 2 && order[2] == 1;
}

static bool is_row_major(MlirType type) {
  int order[MOE__MAX_RANK];
  return moe__memory_order(type, order) && order[0] == 0 && order[1] == 1 && order[2] == 2;
}

/* There is one kernel so far; what it does not cover is an error here, with the way out. */
static bool has_kernel(MlirOperation op) {
  MlirType x = mlirValueGetType(mlirOperationGetOperand(op, 0));
  MlirType q = mlirValueGetType(mlirOperationGetResult(op, 0));
  MlirType scales = mlirValueGetType(mlirOperationGetResult(op, 1));
  if (mlirShapedTypeGetRank(x) != 3 || moe__op_integer(op, "axis") != 1)
    return moe__error(
        op,
        "no kernel quantizes a tensor of rank %d along axis %d yet; there is one for rank 3 "
        "along axis 1",
        (int)mlirShapedTypeGetRank(x), (int)moe__op_integer(op, "axis"));
  int64_t k = mlirShapedTypeIsDynamicDim(x, 2) ? 0 : mlirShapedTypeGetDimSize(x, 2);
  if (k % 16)
    return moe__error(op,
                      "operand 'x' has dimension 2 of size %lld; the kernel needs a multiple of 16",
                      (long long)k);
  if (!is_row_major(x) || !is_row_major(scales))
    return moe__error(op, "the kernel takes x and scales row-major; remove their encoding");
  if (!is_column_major(q))
    return moe__error(op, "the kernel writes q column-major per expert; give q the encoding "
                          "affine_map<(e, n, k) -> (e, k, n)>");
  return true;
}

static bool schedule_op(MlirOperation op, void *user) {
  (void)user;
  if (moe__op_is(op, "mx_quantize.dequantize") || moe__op_in_dialect(op, "scaled_grouped_mm")) {
    MlirStringRef name = moe__op_name(op);
    return moe__error(op, "'%.*s' has no kernel yet", (int)name.length, name.data);
  }
  if (!moe__op_is(op, "mx_quantize.quantize"))
    return true;
  if (!has_kernel(op))
    return false;
  bool bf16 = mlirTypeIsABF16(
      mlirShapedTypeGetElementType(mlirValueGetType(mlirOperationGetOperand(op, 0))));
  if (mlirAttributeIsNull(moe__op_attribute(op, "schedule")))
    moe__quantize_schedule_write(op, bf16 ? &QUANTIZE_BF16 : &QUANTIZE_F32);
  moe__quantize_schedule_t schedule;
  return moe__quantize_schedule_read(op, bf16 ? 2 : 4, &schedule);
}

bool moe__run_select_schedule(MlirOperation module, const moe__pass_t *pass) {
  if (!moe__run_verify(module, pass)) /* the rest relies on it */
    return false;
  return moe__walk(module, schedule_op, NULL);
}
