/* Layouts.c - the ops of the mx_quantize dialect that only move data, on the C reference.
 *
 * Why it exists: see Launch.h. They are quick: each is one slice.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "tools/moe-run/Launch.h"

#include "tools/moe-run/Report.h"

#include <string.h>

static void cut_not(moe__run_launch_t *launch, int threads) {
  (void)threads;
  launch->slices = 1;
}

static int has_rank(const moe__run_launch_t *launch, const char *role, int rank) {
  const moe_ref_tensor_t *tensor = moe__run_tensor(launch, role);
  if (tensor->rank == rank)
    return MOE__RUN_OK;
  return moe__run_input_error("%s: %s has %d dimensions instead of %d", launch->name, role,
                              tensor->rank, rank);
}

/* ---- pack_scales ---- */

static int prepare_pack(moe__run_launch_t *launch, const json_t *attributes) {
  const char *layout = json_string_value(json_object_get(attributes, "layout"));
  if (!layout || (!moe__run_is(layout, "128x4") && !moe__run_is(layout, "rows_innermost")))
    return moe__run_input_error("%s: attribute 'layout' is not '128x4' or 'rows_innermost'",
                                launch->name);
  return has_rank(launch, "scales", 2);
}

static moe_ref_status_t run_pack(const moe__run_launch_t *launch, int64_t slice) {
  (void)slice;
  if (moe__run_tensor(launch, "scales")->dtype == MOE_REF_F32)
    return moe_ref_swap_scales(moe__run_tensor(launch, "scales"),
                               moe__run_tensor(launch, "packed"));
  return moe_ref_pack_scales(moe__run_tensor(launch, "scales"), moe__run_tensor(launch, "offs"),
                             moe__run_tensor(launch, "packed"));
}

static void use_pack(const moe__run_launch_t *launch, const char *role, moe__run_use_t *out_use) {
  out_use->role = moe__run_is(role, "scales") ? MOE__RUN_BYTES : MOE__RUN_OFFSETS;
  out_use->tokens = moe__run_tensor(launch, "scales")->shape[0];
}

/* ---- pad_groups ---- */

static int prepare_groups(moe__run_launch_t *launch, const json_t *attributes) {
  int rc = moe__run_attribute_integer(launch, attributes, "align", 1, INT32_MAX, &launch->align);
  return rc ? rc : has_rank(launch, launch->roles[0], 2);
}

static moe_ref_status_t run_pad(const moe__run_launch_t *launch, int64_t slice) {
  (void)slice;
  return moe_ref_pad_groups(moe__run_tensor(launch, "x"), moe__run_tensor(launch, "offs"),
                            launch->align, moe__run_tensor(launch, "padded"),
                            moe__run_tensor(launch, "padded_offs"));
}

static void use_pad(const moe__run_launch_t *launch, const char *role, moe__run_use_t *out_use) {
  out_use->role = moe__run_is(role, "x") ? MOE__RUN_CELLS : MOE__RUN_OFFSETS;
  out_use->tokens = moe__run_tensor(launch, "x")->shape[0];
}

static int64_t pad_written_rows(const moe__run_launch_t *launch, const char *role) {
  if (!moe__run_is(role, "padded"))
    return -1;
  return moe_ref_grouped_rows(moe__run_tensor(launch, "padded_offs"),
                              moe__run_tensor(launch, "padded")->shape[0]);
}

/* ---- unpad_groups ---- */

static moe_ref_status_t run_unpad(const moe__run_launch_t *launch, int64_t slice) {
  (void)slice;
  return moe_ref_unpad_groups(moe__run_tensor(launch, "padded"), moe__run_tensor(launch, "offs"),
                              moe__run_tensor(launch, "padded_offs"), moe__run_tensor(launch, "x"));
}

/* As many tokens as fit padded, however they are grouped; and offsets that belong together. */
static void use_unpad(const moe__run_launch_t *launch, const char *role, moe__run_use_t *out_use) {
  const moe_ref_tensor_t *offs = moe__run_tensor(launch, "offs");
  const int64_t rows = moe__run_tensor(launch, "padded")->shape[0];
  const int64_t tokens = rows - launch->align * offs->shape[0];
  out_use->role = moe__run_is(role, "padded") ? MOE__RUN_CELLS
                  : moe__run_is(role, "offs") ? MOE__RUN_OFFSETS
                                              : MOE__RUN_PADDED_OFFSETS;
  out_use->tokens = tokens > 0 ? tokens : 0;
  out_use->offs = *offs;
  out_use->align = launch->align;
}

static int64_t unpad_written_rows(const moe__run_launch_t *launch, const char *role) {
  (void)role;
  return moe_ref_grouped_rows(moe__run_tensor(launch, "offs"),
                              moe__run_tensor(launch, "x")->shape[0]);
}

/* ---- The table ---- */

const moe__run_op_t moe__run_layout_ops[] = {
    {.name = "mx_quantize.pack_scales",
     .tensors = "scales [offs] -> packed",
     .prepare = prepare_pack,
     .cut = cut_not,
     .run = run_pack,
     .use = use_pack},
    {.name = "mx_quantize.pad_groups",
     .tensors = "x offs -> padded padded_offs",
     .prepare = prepare_groups,
     .cut = cut_not,
     .run = run_pad,
     .use = use_pad,
     .written_rows = pad_written_rows},
    {.name = "mx_quantize.unpad_groups",
     .tensors = "padded offs padded_offs -> x",
     .prepare = prepare_groups,
     .cut = cut_not,
     .run = run_unpad,
     .use = use_unpad,
     .written_rows = unpad_written_rows},
    {0},
};
