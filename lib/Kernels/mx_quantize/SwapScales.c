/* SwapScales.c - the kernel of mx_quantize.pack_scales with layout "rows_innermost": f32 scales.
 *
 * Most libraries have scales row by row; a product reads those of 1x128 blocks with the rows side
 * by side.
 *
 * Scales are few: 4 bytes for 128 elements. A lane takes a row, column by column, so that a warp
 * stores 128 bytes in a row. What it loads are parts of sectors, of which it takes the rest with
 * the next columns, from L1.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Builder/Inspect.h"
#include "lib/Device/Async.h"
#include "lib/Device/Warp.h"
#include "lib/Dialect/Dialect.h"
#include "lib/Kernels/Kernels.h"
#include "lib/Kernels/Requirements.h"
#include "lib/Kernels/mx_quantize/Schedule.h"

#include "mlir-c/BuiltinTypes.h"

#define UNROLL 8 /* columns: a sector of a row */

/* ---- The schedule ---- */

MOE__SCHEDULE_KIND(moe__swap_schedule, moe__swap_schedule_t, MOE__SWAP_SCHEDULE, "swap",
                   "pack_scales with layout rows_innermost");

static const moe__swap_schedule_t SWAP[] = {{.warps = 4}, {.warps = 2}, {.warps = 8}};

static moe__candidates_t candidates(MlirOperation op) {
  (void)op;
  return MOE__CANDIDATES(SWAP);
}

typedef struct swap_layout_t {
  moe__layout_t cta;
} swap_layout_t;

static bool lay_out(MlirOperation op, const void *schedule, void *out) {
  const moe__swap_schedule_t *s = schedule;
  swap_layout_t *l = out;
  (void)op;
  l->cta.threads = s->warps * MOE__WARP;
  l->cta.ctas_per_sm = 1;
  l->cta.registers = 48;
  return true;
}

/* ---- The kernel ---- */

static bool takes(MlirOperation op) {
  return mlirTypeIsAF32(moe__element_type(op, MOE__SCALES));
}

static bool has_kernel(MlirOperation op) {
  return (moe__is_row_major(moe__tensor_type(op, MOE__SCALES)) &&
          moe__is_column_major(moe__tensor_type(op, MOE__PACKED))) ||
         moe__error(op, "the kernel takes scales row-major and writes packed with the rows side by "
                        "side; give it the encoding affine_map<(m, k) -> (k, m)>");
}

/* Address of an element of a matrix whose lines have `length` elements (i32). */
static MlirValue address(moe__builder_t *b, MlirValue matrix, MlirValue line, MlirValue length,
                         MlirValue element) {
  MlirValue index = moe__add(b, moe__wide_mul(b, line, length), moe__zext(b, element, b->i64));
  return moe__offset(b, matrix, moe__shl(b, index, 2));
}

static bool lower(const moe__lowering_t *lowering) {
  MlirOperation op = lowering->op;
  const moe__swap_schedule_t *schedule = lowering->schedule;
  MlirType type = moe__tensor_type(op, MOE__SCALES);
  int number = moe__tensor_number(op, MOE__SCALES);
  moe__kernel_t kernel;
  moe__lowering_begin(lowering, &kernel);
  moe__builder_t *b = &kernel.builder;
  moe__extent_t rows = moe__kernel_extent(&kernel, number, 0, type),
                columns = moe__kernel_extent(&kernel, number, 1, type);
  MlirValue scales = moe__kernel_pointer(&kernel, number);
  MlirValue packed = moe__kernel_pointer(&kernel, moe__tensor_number(op, MOE__PACKED));
  moe__kernel_prologue(&kernel);
  moe__kernel_await_launches(&kernel);
  int32_t threads = schedule->warps * MOE__WARP;
  MlirValue row = moe__add(b, moe__mul(b, kernel.cta, threads), kernel.thread);
  MOE__IF (b, moe__ult(b, row, rows.value)) {
    MlirValue last = moe__sub(b, columns.value, 1);
    MOE__FOR (b, first, 0, columns.value, UNROLL) {
      MlirValue values[UNROLL];
      for (int i = 0; i < UNROLL; i++) {
        MlirValue column = moe__umin(b, moe__add(b, first, i), last);
        values[i] = moe__load(b, address(b, scales, row, columns.value, column), b->i32);
      }
      for (int i = 0; i < UNROLL; i++) {
        MlirValue column = moe__add(b, first, i);
        MOE__IF (b, moe__ult(b, column, columns.value)) {
          moe__store(b, values[i], address(b, packed, column, rows.value, row));
        }
      }
    }
  }
  moe__lowering_end(lowering, &kernel,
                    moe__expression_ceildiv(&kernel.record, rows.expression, threads));
  return true;
}

const moe__kernel_definition_t moe__swap_scales_kernel = {
    .ops = {MOE__OP_PACK_SCALES},
    .takes = takes,
    .has_kernel = has_kernel,
    .schedule = &moe__swap_schedule,
    .candidates = candidates,
    .layout_size = sizeof(swap_layout_t),
    .layout = lay_out,
    .lower = lower,
};
