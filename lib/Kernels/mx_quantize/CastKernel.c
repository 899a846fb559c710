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

bool moe__needs_one_fp8(MlirOperation op, moe__role_t other, moe__op_id_t instead) {
  return moe__fp8_of(moe__tensor_type(op, MOE__Q)) == moe__fp8_of(moe__tensor_type(op, other)) ||
         moe__error(op,
                    "the kernel writes 'q' and '%s' with one element type; give both the same, or "
                    "use a %s for each",
                    moe__role_name(other), moe__op_id_short_name(instead));
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
  if (schedule->cluster > 1)
    moe__kernel_cluster(kernel, schedule->cluster);
}

void moe__cast_kernel_parameters(moe__cast_tiles_t *tiles, MlirOperation op, bool by_group) {
  bool is_grouped = moe__is_grouped(op);
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

void moe__cast_kernel_quantizer(moe__cast_tiles_t *tiles, MlirOperation op, MlirValue scales[2]) {
  bool dual = tiles->writes[MOE__ROWS] && tiles->writes[MOE__COLUMNS];
  const moe__role_t of_columns[] = {dual ? MOE__Q_T : MOE__Q, dual ? MOE__SCALES_T : MOE__SCALES};
  tiles->tensor_count = 1;
  tiles->tensors[0] = (moe__cast_tensor_t){
      .type = moe__tensor_type(op, MOE__X),
      .q = {[MOE__ROWS] = moe__tensor_number(op, MOE__Q),
            [MOE__COLUMNS] = moe__tensor_number(op, of_columns[0])},
  };
  moe__cast_kernel_parameters(tiles, op, true);
  if (tiles->writes[MOE__ROWS])
    scales[MOE__ROWS] = moe__kernel_pointer(tiles->kernel, moe__tensor_number(op, MOE__SCALES));
  if (tiles->writes[MOE__COLUMNS])
    scales[MOE__COLUMNS] =
        moe__kernel_pointer(tiles->kernel, moe__tensor_number(op, of_columns[1]));
}

MlirValue moe__cast_scale_number(moe__cast_tiles_t *tiles, const moe__cast_unit_t *unit,
                                 MlirValue rows, MlirValue columns, MlirValue row,
                                 MlirValue column) {
  moe__builder_t *b = &tiles->kernel->builder;
  MlirValue line = moe__zext(b, row, b->i64);
  if (tiles->rank == 3)
    line = moe__add(b, moe__wide_mul(b, unit->batch, rows), line);
  return moe__add(b, moe__mul(b, line, moe__zext(b, columns, b->i64)),
                  moe__zext(b, column, b->i64));
}

void moe__cast_kernel_end(moe__cast_tiles_t *tiles, const moe__cast_t *cast,
                          const moe__lowering_t *lowering) {
  moe__kernel_prologue(tiles->kernel);
  moe__kernel_programmatic(tiles->kernel);
  moe__cast_tiles_run(tiles, cast);
  moe__lowering_end(lowering, tiles->kernel, moe__cast_tiles_grid(tiles));
}
