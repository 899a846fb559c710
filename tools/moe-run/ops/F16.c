/* F16.c - rows of f16 over powers of two, on the C reference.
 *
 * Why it exists: see Launch.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "tools/moe-run/Launch.h"

#include "tools/moe-run/Report.h"

enum { SLICE_ROWS = 16 };

static int prepare(moe__run_launch_t *launch, const json_t *attributes) {
  launch->mx.evens_first = json_object_get(attributes, "order") != NULL;
  const int rank = moe__run_tensor(launch, "x")->rank;
  return rank == 2
             ? MOE__RUN_OK
             : moe__run_input_error("%s: x has %d dimensions instead of 2", launch->name, rank);
}

static void cut(moe__run_launch_t *launch, int threads) {
  launch->cuts[0] = moe__run_cut(0, moe__run_tensor(launch, "x")->shape[0], SLICE_ROWS, threads);
  launch->slices = launch->cuts[0].slices;
}

static moe_ref_status_t run(const moe__run_launch_t *launch, int64_t slice) {
  static const char *const roles[] = {"x", "q", "scales"};
  int64_t begin, end;
  moe__run_slice(launch, slice, &begin, &end);
  moe_ref_tensor_t rows[3];
  for (int i = 0; i < 3; i++)
    rows[i] = moe__run_part(moe__run_tensor(launch, roles[i]), 0, begin, end);
  return moe_ref_quantize_f16(&rows[0], &rows[1], &rows[2]);
}

static moe_ref_status_t run_dequantize(const moe__run_launch_t *launch, int64_t slice) {
  static const char *const roles[] = {"q", "scales", "x", "scales_x"};
  int64_t begin, end;
  moe__run_slice(launch, slice, &begin, &end);
  moe_ref_tensor_t rows[4];
  for (int i = 0; i < 4; i++)
    rows[i] = moe__run_part(moe__run_tensor(launch, roles[i]), 0, begin, end);
  const moe_ref_status_t status = moe_ref_dequantize_f16(&rows[0], &rows[1], &rows[2], &rows[3]);
  if (status == MOE_REF_OK && launch->mx.evens_first)
    moe__run_put_evens_first(&rows[2]);
  return status;
}

/* A row is a cell. */
static void use(const moe__run_launch_t *launch, const char *role, moe__run_use_t *out_use) {
  (void)role;
  out_use->tokens = moe__run_tensor(launch, "x")->shape[0];
  out_use->cell[0] = 1;
  out_use->cell[1] = moe__run_tensor(launch, "x")->shape[1];
}

const moe__run_op_t moe__run_f16_ops[] = {
    {.name = "mx_quantize.quantize_f16",
     .tensors = "x -> q scales",
     .prepare = prepare,
     .cut = cut,
     .run = run,
     .use = use,
     .passed_on = "q"},
    {.name = "mx_quantize.dequantize_f16",
     .tensors = "q scales -> x scales_x",
     .prepare = prepare,
     .cut = cut,
     .run = run_dequantize,
     .use = use,
     .passed_on = "x"},
    {0},
};
