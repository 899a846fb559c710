/* Weights.c - the ops of weights of four or eight bits on the C reference.
 *
 * Why it exists: see Launch.h. A product's kernel sums in its own order, so that its result is
 * judged by a bound, and not by bits.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "tools/moe-run/Launch.h"

#include "tools/moe-run/Report.h"

enum { SLICE_ROWS = 16 };

/* ---- pack_weights ---- */

static bool has_layout(const json_t *attributes, const char *layout) {
  const char *found = json_string_value(json_object_get(attributes, "layout"));
  return found && moe__run_is(found, layout);
}

static int prepare_pack(moe__run_launch_t *launch, const json_t *attributes) {
  bool floats = has_layout(attributes, "16x64_e2m1");
  if (!floats && !has_layout(attributes, "16x64"))
    return moe__run_input_error("%s: attribute 'layout' is not '16x64' or '16x64_e2m1'",
                                launch->name);
  launch->weights.layout = floats ? MOE_REF_LAYOUT_16X64_E2M1 : MOE_REF_LAYOUT_16X64;
  return MOE__RUN_OK;
}

static void cut_pack(moe__run_launch_t *launch, int threads) {
  (void)threads;
  launch->slices = 1;
}

static moe_ref_status_t run_pack(const moe__run_launch_t *launch, int64_t slice) {
  (void)slice;
  return moe_ref_pack_weights(moe__run_tensor(launch, "w"), moe__run_tensor(launch, "packed"),
                              launch->weights.layout);
}

static void use_pack(const moe__run_launch_t *launch, const char *role, moe__run_use_t *out_use) {
  (void)launch;
  (void)role;
  out_use->role = MOE__RUN_BYTES;
}

/* ---- mixed_mm ---- */

static moe_ref_mixed_mm_t product(const moe__run_launch_t *launch) {
  return (moe_ref_mixed_mm_t){.w = moe__run_tensor(launch, "w"),
                              .scales = moe__run_tensor(launch, "scales"),
                              .x = moe__run_tensor(launch, "x"),
                              .offs = moe__run_tensor(launch, "offs"),
                              .out = moe__run_tensor(launch, "out"),
                              .zeros = moe__run_tensor(launch, "zeros"),
                              .bias = moe__run_tensor(launch, "bias"),
                              .scales_x = moe__run_tensor(launch, "scales_x"),
                              .format = launch->weights.format,
                              .group_size = launch->weights.group_size,
                              .is_1x16 = launch->weights.is_1x16};
}

/* The reference knows the layout by the rank of w and the format, but for FP8. */
static int prepare(moe__run_launch_t *launch, const json_t *attributes) {
  int format = -1;
  int rc = moe__run_attribute_name(launch, attributes, "format", moe_ref_weight_format_from_name,
                                   &format);
  launch->weights.format = (moe_ref_weight_format_t)format;
  const char *packed = format == MOE_REF_WEIGHT_E2M1   ? "16x64_e2m1"
                       : format == MOE_REF_WEIGHT_E4M3 ? "1x16"
                                                       : "16x64";
  /* A product with tokens in the order "evens_first" is that with weights in the other order. */
  const bool evens_first = has_layout(attributes, "evens_first");
  launch->weights.is_1x16 = has_layout(attributes, "1x16") || evens_first;
  if (!rc && !has_layout(attributes, packed) && !has_layout(attributes, "plain") && !evens_first)
    return moe__run_input_error("%s: attribute 'layout' is not '%s' or 'plain'", launch->name,
                                packed);
  return rc ? rc
            : moe__run_attribute_integer(launch, attributes, "group_size", -1, 128,
                                         &launch->weights.group_size);
}

static void cut(moe__run_launch_t *launch, int threads) {
  const moe_ref_tensor_t *out = moe__run_tensor(launch, "out");
  launch->cuts[0] = moe__run_cut(0, out->rank > 0 ? out->shape[0] : 0, SLICE_ROWS, threads);
  launch->slices = launch->cuts[0].slices;
}

static moe_ref_status_t run(const moe__run_launch_t *launch, int64_t slice) {
  const moe_ref_mixed_mm_t mm = product(launch);
  int64_t begin, end;
  moe__run_slice(launch, slice, &begin, &end);
  return moe_ref_mixed_mm(&mm, begin, end);
}

static moe_ref_status_t judge(const moe__run_launch_t *launch, int64_t slice,
                              moe_ref_score_t *score) {
  const moe_ref_mixed_mm_t mm = product(launch);
  int64_t begin, end;
  moe__run_slice(launch, slice, &begin, &end);
  return moe_ref_mixed_mm_judge(&mm, begin, end, score);
}

/* What may be NaN and must not matter: tokens of no group and their scales, scales and bias of
 * experts without tokens. */
static void use(const moe__run_launch_t *launch, const char *role, moe__run_use_t *out_use) {
  const moe_ref_tensor_t *offs = moe__run_tensor(launch, "offs");
  const bool is_fp8 = launch->weights.format == MOE_REF_WEIGHT_E4M3;
  out_use->role = moe__run_is(role, "w") && is_fp8                       ? MOE__RUN_OPERAND
                  : moe__run_is(role, "w") || moe__run_is(role, "zeros") ? MOE__RUN_BYTES
                  : moe__run_is(role, "scales")                          ? MOE__RUN_GROUP_SCALES
                  : moe__run_is(role, "scales_x")                        ? MOE__RUN_SCALES
                  : moe__run_is(role, "bias")                            ? MOE__RUN_OPERAND
                  : moe__run_is(role, "x")                               ? MOE__RUN_SELECTOR
                                                                         : MOE__RUN_OFFSETS;
  out_use->tokens = moe__run_tensor(launch, "x")->shape[0];
  if (!offs)
    return;
  out_use->offs = *offs;
  out_use->nan = moe__run_is(role, "x") || moe__run_is(role, "scales_x") ? MOE__RUN_NAN_TOKENS
                 : moe__run_is(role, "scales") || moe__run_is(role, "bias")
                     ? MOE__RUN_NAN_EMPTY_GROUPS
                     : MOE__RUN_NAN_NONE;
}

static double flops(const moe__run_launch_t *launch) {
  const moe_ref_mixed_mm_t mm = product(launch);
  return moe_ref_mixed_mm_flops(&mm);
}

static int64_t written_rows(const moe__run_launch_t *launch, const char *role) {
  (void)role;
  const moe_ref_mixed_mm_t mm = product(launch);
  return moe_ref_mixed_mm_tokens(&mm);
}

#define PRODUCT(op_name, roles)                                                                    \
  {                                                                                                \
    .name = "scaled_grouped_mm." op_name, .tensors = (roles), .prepare = prepare, .cut = cut,      \
    .run = run, .use = use, .judge = judge, .flops = flops, .written_rows = written_rows           \
  }

const moe__run_op_t moe__run_weight_ops[] = {
    {.name = "scaled_grouped_mm.pack_weights",
     .tensors = "w -> packed",
     .prepare = prepare_pack,
     .cut = cut_pack,
     .run = run_pack,
     .use = use_pack},
    PRODUCT("mixed_mm", "w scales x [offs] -> out"),
    PRODUCT("mixed_mm_scaled", "w scales x scales_x [offs] -> out"),
    PRODUCT("mixed_mm_zeros", "w scales zeros x [offs] -> out"),
    PRODUCT("mixed_mm_bias", "w scales x [offs] bias -> out"),
    PRODUCT("mixed_mm_zeros_bias", "w scales zeros x [offs] bias -> out"),
    {0},
};
