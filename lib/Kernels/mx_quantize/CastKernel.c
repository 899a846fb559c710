/* CastKernel.c - see CastKernel.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/mx_quantize/CastKernel.h"

#include "lib/Builder/Inspect.h"
#include "lib/Device/Warp.h"
#include "lib/Kernels/Requirements.h"

#include "mlir-c/BuiltinTypes.h"

bool moe__needs_row_major(MlirOperation op, moe__role_t role) {
  return moe__is_row_major(moe__tensor_type(op, role)) ||
         moe__error(op, "the kernel has '%s' row-major; remove its encoding", moe__role_name(role));
}

bool moe__needs_column_major(MlirOperation op, moe__role_t role) {
  MlirType type = moe__tensor_type(op, role);
  return moe__is_column_major(type) ||
         moe__error(op, "the kernel writes '%s' column-major; give it the encoding affine_map<%s>",
                    moe__role_name(role),
                    mlirShapedTypeGetRank(type) == 2 ? "(m, k) -> (k, m)"
                                                     : "(e, n, k) -> (e, k, n)");
}

bool moe__cast_reads_bf16(MlirOperation op) {
  return moe__elements_of(moe__tensor_type(op, MOE__X), false).bytes == 2;
}

void moe__cast_kernel_begin(moe__kernel_t *kernel, moe__cast_tiles_t *tiles,
                            const moe__lowering_t *lowering, const bool writes[2]) {
  const moe__cast_layout_t *layout = lowering->layout;
  const moe__cast_schedule_t *schedule = lowering->schedule;
  moe__lowering_begin(lowering, kernel);
  *tiles = (moe__cast_tiles_t){
      .kernel = kernel,
      .writes = {writes[MOE__ROWS], writes[MOE__COLUMNS]},
      .schedule = *schedule,
      .layout = *layout,
  };
}

void moe__cast_kernel_parameters(moe__cast_tiles_t *tiles, MlirOperation op, bool by_group) {
  bool is_grouped = !mlirValueIsNull(moe__operand(op, MOE__OFFS));
  tiles->pads_rows = is_grouped;
  tiles->by_group = is_grouped && by_group;
  if (moe__group_align(op))
    moe__cast_tiles_aligned(tiles, moe__tensor_number(op, MOE__OFFS),
                            moe__tensor_type(op, MOE__OFFS));
  moe__cast_tiles_parameters(tiles, moe__tensor_type(op, MOE__Q));
  if (is_grouped)
    moe__cast_tiles_groups(tiles, moe__tensor_number(op, MOE__OFFS),
                           moe__tensor_type(op, MOE__OFFS));
}

void moe__cast_kernel_end(moe__cast_tiles_t *tiles, const moe__cast_t *cast,
                          const moe__lowering_t *lowering) {
  moe__kernel_prologue(tiles->kernel);
  moe__kernel_programmatic(tiles->kernel);
  moe__cast_tiles_run(tiles, cast);
  moe__lowering_end(lowering, tiles->kernel, moe__cast_tiles_grid(tiles));
}
