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

/* Whether the tensor has this memory order. */
static bool is_order(MlirType type, const int *expected) {
  int order[MOE__MAX_RANK];
  bool ok = moe__memory_order(type, order);
  for (int i = 0; ok && i < mlirShapedTypeGetRank(type); i++)
    ok = order[i] == expected[i];
  return ok;
}

/* ---- mx_quantize.quantize ---- */

/* There is one kernel so far; what it does not cover is an error here, with the way out. */
static bool quantize_has_kernel(MlirOperation op) {
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
  if (!is_order(x, (int[]){0, 1, 2}) || !is_order(scales, (int[]){0, 1, 2}))
    return moe__error(op, "the kernel takes x and scales row-major; remove their encoding");
  if (!is_order(q, (int[]){0, 2, 1}))
    return moe__error(op, "the kernel writes q column-major per expert; give q the encoding "
                          "affine_map<(e, n, k) -> (e, k, n)>");
  return true;
}

static bool schedule_quantize(MlirOperation op) {
  if (!quantize_has_kernel(op))
    return false;
  bool bf16 = mlirTypeIsABF16(
      mlirShapedTypeGetElementType(mlirValueGetType(mlirOperationGetOperand(op, 0))));
  if (mlirAttributeIsNull(moe__op_attribute(op, "schedule")))
    moe__quantize_schedule_write(op, bf16 ? &QUANTIZE_BF16 : &QUANTIZE_F32);
  moe__quantize_schedule_t schedule;
  return moe__quantize_schedule_read(op, bf16 ? 2 : 4, &schedule);
}

/* ---- scaled_grouped_mm.scaled_mm ---- */

/* 128 x 256 is as much as two warpgroups can accumulate; with promoted sums a second accumulator
 * takes a part of it. Bands of 8 tile rows keep what concurrent blocks read in L2. */
static const moe__grouped_schedule_t GROUPED_FAST = {.tile_n = 256, .stages = 4, .band = 8};
static const moe__grouped_schedule_t GROUPED_PROMOTED = {.tile_n = 192, .stages = 4, .band = 8};

static bool schedule_scaled_mm(MlirOperation op) {
  MlirType qa = mlirValueGetType(mlirOperationGetOperand(op, 0));
  MlirType qb = mlirValueGetType(mlirOperationGetOperand(op, 1));
  MlirType out = mlirValueGetType(mlirOperationGetResult(op, 0));
  if (mlirShapedTypeGetRank(qa) != 2 || mlirShapedTypeGetRank(qb) != 3)
    return moe__error(
        op, "no kernel multiplies tensors of rank %d and %d yet; there is one for rank 2 and 3",
        (int)mlirShapedTypeGetRank(qa), (int)mlirShapedTypeGetRank(qb));
  if (!mlirTypeIsABF16(mlirShapedTypeGetElementType(out)) ||
      !mlirTypeIsAF32(
          mlirShapedTypeGetElementType(mlirValueGetType(mlirOperationGetOperand(op, 2)))))
    return moe__error(op, "the kernel takes f32 scales and gives bf16");
  if (!is_order(qa, (int[]){0, 1}) || !is_order(out, (int[]){0, 1}))
    return moe__error(op, "the kernel takes qa and out row-major; remove their encoding");
  if (!is_order(qb, (int[]){0, 2, 1}))
    return moe__error(op, "the kernel takes qb column-major per expert; give it the encoding "
                          "affine_map<(e, k, n) -> (e, n, k)>");
  static const struct {
    const char *name;
    int tensor, dimension;
  } needs_16[] = {{"qa", 0, 1}, {"qb", 1, 2}};
  for (int i = 0; i < 2; i++) {
    MlirType type = needs_16[i].tensor ? qb : qa;
    int d = needs_16[i].dimension;
    if (!mlirShapedTypeIsDynamicDim(type, d) && mlirShapedTypeGetDimSize(type, d) % 16)
      return moe__error(
          op, "operand '%s' has dimension %d of size %lld; the kernel needs a multiple of 16",
          needs_16[i].name, d, (long long)mlirShapedTypeGetDimSize(type, d));
  }
  bool promoted = mlirStringRefEqual(moe__op_string(op, "accumulate"),
                                     mlirStringRefCreateFromCString("promoted"));
  if (mlirAttributeIsNull(moe__op_attribute(op, "schedule")))
    moe__grouped_schedule_write(op, promoted ? &GROUPED_PROMOTED : &GROUPED_FAST);
  moe__grouped_schedule_t schedule;
  return moe__grouped_schedule_read(op, 1024, promoted, &schedule);
}

/* ---- The pass ---- */

static bool schedule_op(MlirOperation op, void *user) {
  (void)user;
  if (moe__op_is(op, "mx_quantize.quantize"))
    return schedule_quantize(op);
  if (moe__op_is(op, "scaled_grouped_mm.scaled_mm"))
    return schedule_scaled_mm(op);
  MlirStringRef name = moe__op_name(op);
  if (moe__op_in_dialect(op, "mx_quantize") || moe__op_in_dialect(op, "scaled_grouped_mm"))
    return moe__error(op, "'%.*s' has no kernel yet", (int)name.length, name.data);
  return true;
}

bool moe__run_select_schedule(MlirOperation module, const moe__pass_t *pass) {
  if (!moe__run_verify(module, pass)) /* the rest relies on it */
    return false;
  return moe__walk(module, schedule_op, NULL);
}
