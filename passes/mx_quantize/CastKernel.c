/* CastKernel.c - see CastKernel.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "passes/mx_quantize/CastKernel.h"

#include "lib/Builder/Inspect.h"
#include "lib/Kernel/Warp.h"
#include "passes/Lowering.h"

#include "mlir-c/BuiltinTypes.h"

MlirType moe__operand_type(MlirOperation op, int operand) {
  return mlirValueGetType(mlirOperationGetOperand(op, operand));
}

MlirType moe__result_type(MlirOperation op, int result) {
  return mlirValueGetType(mlirOperationGetResult(op, result));
}

bool moe__needs_row_major(MlirOperation op, const char *name, MlirType type) {
  return moe__is_row_major(type) ||
         moe__error(op, "the kernel has '%s' row-major; remove its encoding", name);
}

bool moe__needs_column_major(MlirOperation op, const char *name, MlirType type) {
  return moe__is_column_major(type) ||
         moe__error(
             op, "the kernel writes '%s' column-major; give it the encoding affine_map<%s>", name,
             mlirShapedTypeGetRank(type) == 2 ? "(m, k) -> (k, m)" : "(e, n, k) -> (e, k, n)");
}

int moe__cast_max_groups(MlirType offs) {
  return mlirShapedTypeIsDynamicDim(offs, 0) ? MOE__CAST_MAX_GROUPS
                                             : (int)mlirShapedTypeGetDimSize(offs, 0);
}

bool moe__cast_kernel_begin(moe__kernel_t *kernel, moe__cast_tiles_t *tiles, MlirOperation op,
                            moe__directions_t directions, int max_groups) {
  moe__quantize_schedule_t schedule;
  if (!moe__quantize_schedule_read(op, directions, max_groups, &schedule))
    return false;
  moe__kernel_begin(kernel, mlirOperationGetContext(op), mlirOperationGetLocation(op),
                    (schedule.warps + 1) * MOE__WARP, schedule.blocks_per_sm);
  *tiles = (moe__cast_tiles_t){
      .kernel = kernel,
      .writes = {[MOE__ROWS] = directions.rows, [MOE__COLUMNS] = directions.columns},
      .tile_n = schedule.tile_n,
      .tile_k = schedule.tile_k,
      .stages = schedule.stages,
      .output_stages = schedule.output_stages,
      .warps = schedule.warps,
      .blocks_per_sm = schedule.blocks_per_sm,
      .band = schedule.band,
  };
  return true;
}

void moe__cast_kernel_end(moe__cast_tiles_t *tiles, const moe__cast_t *cast, MlirOperation function,
                          MlirBlock gpu_module_body) {
  moe__kernel_prologue(tiles->kernel);
  moe__kernel_programmatic(tiles->kernel);
  moe__cast_tiles_run(tiles, cast);
  char grid[MOE__EXPRESSION_SIZE];
  moe__cast_tiles_grid(tiles, grid);
  moe__kernel_end(tiles->kernel, gpu_module_body, moe__symbol(function),
                  (const char *const[]){grid, "1", "1"});
}
