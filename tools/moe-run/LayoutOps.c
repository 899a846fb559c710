/* LayoutOps.c - the ops of the mx_quantize dialect that only move data, on the C reference.
 *
 * Why it exists: see Launch.h. They are quick: each is one slice.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "tools/moe-run/Launch.h"

#include "tools/moe-run/Report.h"

#include <string.h>

static void cut_not(moe__launch_t *launch, int threads) {
  (void)threads;
  launch->slices = 1;
}

static int has_rank(const moe__launch_t *launch, int tensor, int rank) {
  if (launch->tensors[tensor].rank == rank)
    return MOE__OK;
  return moe__input_error("%s: tensor number %d has %d dimensions instead of %d", launch->name,
                          tensor, launch->tensors[tensor].rank, rank);
}

/* ---- pack_scales: scales [, offs] -> packed ---- */

static const moe_ref_tensor_t *pack_offs(const moe__launch_t *launch) {
  return launch->operand_count > 1 ? &launch->tensors[1] : NULL;
}

static int prepare_pack(moe__launch_t *launch, const json_t *attributes) {
  const char *layout = json_string_value(json_object_get(attributes, "layout"));
  if (!layout || strcmp(layout, "128x4"))
    return moe__input_error("%s: attribute 'layout' is not '128x4'", launch->name);
  return has_rank(launch, 0, 2);
}

static moe_ref_status_t run_pack(const moe__launch_t *launch, int64_t slice) {
  (void)slice;
  return moe_ref_pack_scales(&launch->tensors[0], pack_offs(launch),
                             &launch->tensors[launch->operand_count]);
}

static void use_pack(const moe__launch_t *launch, int operand, moe__use_t *out_use) {
  out_use->role = operand == 0 ? MOE__BYTES : MOE__OFFSETS;
  out_use->tokens = launch->tensors[0].shape[0];
}

const moe__op_t moe__op_pack_scales = {.name = "mx_quantize.pack_scales",
                                       .least_operands = 1,
                                       .most_operands = 2,
                                       .result_count = 1,
                                       .prepare = prepare_pack,
                                       .cut = cut_not,
                                       .run = run_pack,
                                       .use = use_pack};

/* ---- pad_groups: x, offs -> x', offs' ---- */

enum { PAD_X, PAD_OFFS, PAD_PADDED, PAD_OFFS_PADDED };

static int prepare_groups(moe__launch_t *launch, const json_t *attributes) {
  int rc = moe__attribute_integer(launch, attributes, "align", 1, INT32_MAX, &launch->align);
  return rc ? rc : has_rank(launch, 0, 2);
}

static moe_ref_status_t run_pad(const moe__launch_t *launch, int64_t slice) {
  (void)slice;
  const moe_ref_tensor_t *tensors = launch->tensors;
  return moe_ref_pad_groups(&tensors[PAD_X], &tensors[PAD_OFFS], launch->align,
                            &tensors[PAD_PADDED], &tensors[PAD_OFFS_PADDED]);
}

static void use_pad(const moe__launch_t *launch, int operand, moe__use_t *out_use) {
  out_use->role = operand == PAD_X ? MOE__BLOCKS : MOE__OFFSETS;
  out_use->tokens = launch->tensors[PAD_X].shape[0];
}

static int64_t pad_written_rows(const moe__launch_t *launch, int result) {
  const moe_ref_tensor_t *tensors = launch->tensors;
  if (result > 0)
    return -1;
  return moe_ref_grouped_rows(&tensors[PAD_OFFS_PADDED], tensors[PAD_PADDED].shape[0]);
}

const moe__op_t moe__op_pad_groups = {.name = "mx_quantize.pad_groups",
                                      .least_operands = 2,
                                      .most_operands = 2,
                                      .result_count = 2,
                                      .prepare = prepare_groups,
                                      .cut = cut_not,
                                      .run = run_pad,
                                      .use = use_pad,
                                      .written_rows = pad_written_rows};

/* ---- unpad_groups: x', offs, offs' -> x ---- */

enum { UNPAD_PADDED, UNPAD_OFFS, UNPAD_OFFS_PADDED, UNPAD_X };

static moe_ref_status_t run_unpad(const moe__launch_t *launch, int64_t slice) {
  (void)slice;
  const moe_ref_tensor_t *tensors = launch->tensors;
  return moe_ref_unpad_groups(&tensors[UNPAD_PADDED], &tensors[UNPAD_OFFS],
                              &tensors[UNPAD_OFFS_PADDED], &tensors[UNPAD_X]);
}

/* As many tokens as fit padded, however they are grouped; and offsets that belong together. */
static void use_unpad(const moe__launch_t *launch, int operand, moe__use_t *out_use) {
  static const moe__role_t roles[] = {MOE__BLOCKS, MOE__OFFSETS, MOE__PADDED_OFFSETS};
  const moe_ref_tensor_t *offs = &launch->tensors[UNPAD_OFFS];
  const int64_t rows = launch->tensors[UNPAD_PADDED].shape[0];
  const int64_t tokens = rows - launch->align * offs->shape[0];
  out_use->role = roles[operand];
  out_use->tokens = tokens > 0 ? tokens : 0;
  out_use->offs = *offs;
  out_use->align = launch->align;
}

static int64_t unpad_written_rows(const moe__launch_t *launch, int result) {
  (void)result;
  return moe_ref_grouped_rows(&launch->tensors[UNPAD_OFFS], launch->tensors[UNPAD_X].shape[0]);
}

const moe__op_t moe__op_unpad_groups = {.name = "mx_quantize.unpad_groups",
                                        .least_operands = 3,
                                        .most_operands = 3,
                                        .result_count = 1,
                                        .prepare = prepare_groups,
                                        .cut = cut_not,
                                        .run = run_unpad,
                                        .use = use_unpad,
                                        .written_rows = unpad_written_rows};
