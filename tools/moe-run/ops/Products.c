/* Products.c - the ops of the scaled_grouped_mm dialect on the C reference.
 *
 * Why it exists: see Launch.h. A product's kernel sums in its own order, so that its result is
 * judged by a bound, and not by bits.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "tools/moe-run/Launch.h"

#include "tools/moe-run/Report.h"

enum { SLICE_ROWS = 64 };

static bool has_offsets(const moe__run_launch_t *launch) {
  return moe__run_tensor(launch, "offs") != NULL;
}

/* Operands of 16 bits are a and b, and have no scales. */
static bool has_scales(const moe__run_launch_t *launch) {
  return moe__run_tensor(launch, "sa") != NULL;
}

/* Whether the factors are made by the launch: what qa and qb stand for. */
static bool makes_factors(const moe__run_launch_t *launch) {
  return moe__run_makes(launch, "a");
}

static const char *role_of_a(const moe__run_launch_t *launch) {
  return has_scales(launch) ? "qa" : "a";
}

static const char *role_of_b(const moe__run_launch_t *launch) {
  return has_scales(launch) ? "qb" : "b";
}

static moe_ref_scaled_mm_t product(const moe__run_launch_t *launch) {
  const bool made = makes_factors(launch);
  return (moe_ref_scaled_mm_t){.a = moe__run_tensor(launch, made ? "a" : role_of_a(launch)),
                               .b = moe__run_tensor(launch, made ? "b" : role_of_b(launch)),
                               .sa = made ? NULL : moe__run_tensor(launch, "sa"),
                               .sb = made ? NULL : moe__run_tensor(launch, "sb"),
                               .offs = moe__run_tensor(launch, "offs"),
                               .out = moe__run_tensor(launch, "out"),
                               .bias = moe__run_tensor(launch, "bias"),
                               .token_blocks = launch->token_blocks,
                               .aligned = launch->align != 0};
}

static int prepare(moe__run_launch_t *launch, const json_t *attributes) {
  int number = MOE_REF_FAST; /* the sums of products without scales */
  int rc = MOE__RUN_OK;
  if (has_scales(launch) && !makes_factors(launch))
    rc = moe__run_attribute_name(launch, attributes, "accumulate", moe_ref_accumulation_from_name,
                                 &number);
  launch->accumulation = (moe_ref_accumulation_t)number;
  launch->token_blocks = json_object_get(attributes, "granularity") != NULL;
  if (!rc && json_object_get(attributes, "align"))
    rc = moe__run_attribute_integer(launch, attributes, "align", MOE_GROUP_ALIGN, MOE_GROUP_ALIGN,
                                    &launch->align);
  return rc;
}

/* Makes the factors from MX blocks along what is summed over. */
static moe_ref_status_t make_factors(const moe__run_launch_t *launch) {
  static const char *const q[] = {"qa", "qb"}, *const scales[] = {"sa", "sb"},
                           *const x[] = {"a", "b"};
  for (int i = 0; i < 2; i++) {
    const moe_ref_status_t status =
        moe_ref_mx_dequantize(moe__run_tensor(launch, q[i]), moe__run_tensor(launch, scales[i]), 1,
                              MOE_MX_BLOCK, moe__run_tensor(launch, x[i]));
    if (status != MOE_REF_OK)
      return status;
  }
  return MOE_REF_OK;
}

/* Rows of all groups; a launch that is refused has one slice, which refuses it. */
static void cut(moe__run_launch_t *launch, int threads) {
  const moe_ref_scaled_mm_t mm = product(launch);
  launch->cuts[0] = moe__run_cut(0, moe_ref_scaled_mm_rows(&mm), SLICE_ROWS, threads);
  launch->slices = launch->cuts[0].slices;
}

static moe_ref_status_t run(const moe__run_launch_t *launch, int64_t slice) {
  const moe_ref_scaled_mm_t mm = product(launch);
  int64_t begin, end;
  moe__run_slice(launch, slice, &begin, &end);
  return moe_ref_scaled_mm(&mm, begin, end);
}

static moe_ref_status_t judge(const moe__run_launch_t *launch, int64_t slice,
                              moe_ref_score_t *score) {
  const moe_ref_scaled_mm_t mm = product(launch);
  int64_t begin, end;
  moe__run_slice(launch, slice, &begin, &end);
  return moe_ref_scaled_mm_judge(&mm, launch->accumulation, begin, end, score);
}

/* Whether groups are rows of the result. */
static bool has_grouped_rows(const moe__run_launch_t *launch) {
  return has_offsets(launch) && moe__run_tensor(launch, role_of_b(launch))->rank == 3;
}

/* Quantized tokens that are summed over may be more than there were (Fp8.c, Mx.c), and so may the
 * rows of scales of MX blocks; those behind are in no group. */
static moe_ref_status_t compare(const moe__run_launch_t *launch, const moe_ref_tensor_t factors[2],
                                int64_t slice, moe_ref_score_t *score) {
  moe_ref_scaled_mm_t mm = product(launch);
  moe_ref_tensor_t sa, sb;
  moe_ref_tensor_t a = *mm.a, b = *mm.b;
  if (has_offsets(launch) && !has_grouped_rows(launch)) {
    a.shape[1] = factors[0].shape[1];
    b.shape[0] = factors[1].shape[0];
    mm.a = &a;
    mm.b = &b;
    mm.aligned = false; /* those that were quantized are not */
    if (mm.sa != NULL && mm.sa->dtype == MOE_REF_E8M0) {
      sa = *mm.sa;
      sb = *mm.sb;
      const int64_t blocks = moe_ref_padded(a.shape[1], MOE_MX_BLOCK) / MOE_MX_BLOCK;
      sa.shape[0] = sb.shape[0] = blocks + mm.offs->shape[0];
      mm.sa = &sa;
      mm.sb = &sb;
    }
  }
  int64_t begin, end;
  moe__run_slice(launch, slice, &begin, &end);
  return moe_ref_scaled_mm_quality(&mm, &factors[0], &factors[1], begin, end, score);
}

/* What may be NaN and must not matter: tokens, and where they are what is summed, scales of groups
 * that have none, or of no block; experts, where these are all there is. */
static void use_nan(const moe__run_launch_t *launch, const char *role, moe__run_use_t *out_use) {
  const bool is_gradient = has_offsets(launch) && !has_grouped_rows(launch);
  const bool is_a = moe__run_is(role, role_of_a(launch));
  out_use->nan_dimension = is_gradient && is_a;
  if (has_offsets(launch))
    out_use->offs = *moe__run_tensor(launch, "offs");
  if (is_a)
    out_use->nan = has_offsets(launch) ? MOE__RUN_NAN_TOKENS : MOE__RUN_NAN_GROUPS;
  if (is_gradient && moe__run_is(role, role_of_b(launch)))
    out_use->nan = MOE__RUN_NAN_TOKENS;
  out_use->align = launch->align;
  if (!has_scales(launch))
    return;
  const bool is_mx = moe__run_tensor(launch, "sa")->dtype == MOE_REF_E8M0;
  out_use->token_block = is_mx ? MOE_MX_BLOCK : MOE_FP8_BLOCK;
  if (is_gradient && (moe__run_is(role, "sa") || moe__run_is(role, "sb")))
    out_use->nan =
        launch->token_blocks || is_mx ? MOE__RUN_NAN_NO_BLOCK : MOE__RUN_NAN_EMPTY_GROUPS;
  /* With scales of blocks, those of experts that have no tokens. */
  if (has_grouped_rows(launch) && moe__run_is(role, "sb") &&
      moe__run_tensor(launch, "sb")->rank == 3)
    out_use->nan = MOE__RUN_NAN_EMPTY_GROUPS;
  /* One scale is that of all tokens. */
  if (has_grouped_rows(launch) && moe__run_is(role, "sa") &&
      moe__run_tensor(launch, "sa")->shape[0] == out_use->tokens)
    out_use->nan = MOE__RUN_NAN_TOKENS;
}

static void use(const moe__run_launch_t *launch, const char *role, moe__run_use_t *out_use) {
  const char *a = role_of_a(launch);
  const moe_ref_tensor_t *qa = moe__run_tensor(launch, a);
  out_use->role = moe__run_is(role, a) ? MOE__RUN_SELECTOR : MOE__RUN_OPERAND;
  if (moe__run_is(role, "sa") || moe__run_is(role, "sb"))
    out_use->role = MOE__RUN_SCALES;
  if (moe__run_is(role, "offs"))
    out_use->role = MOE__RUN_OFFSETS;
  out_use->tokens = qa->shape[has_grouped_rows(launch) || qa->rank == 1 ? 0 : 1];
  if (launch->align)
    out_use->tokens -= launch->align * moe__run_tensor(launch, "offs")->shape[0];
  if (out_use->tokens < 0)
    out_use->tokens = 0;
  use_nan(launch, role, out_use);
}

static double flops(const moe__run_launch_t *launch) {
  const moe_ref_scaled_mm_t mm = product(launch);
  return moe_ref_scaled_mm_flops(&mm);
}

static int64_t written_rows(const moe__run_launch_t *launch, const char *role) {
  const moe_ref_scaled_mm_t mm = product(launch);
  const bool has_rows = moe__run_is(role, "out") || moe__run_is(role, "a");
  return has_rows && has_grouped_rows(launch) ? moe_ref_scaled_mm_tokens(&mm) : -1;
}

#define OP(op_name, roles)                                                                         \
  .name = "scaled_grouped_mm." op_name, .tensors = (roles), .prepare = prepare, .cut = cut,        \
  .run = run, .use = use, .judge = judge, .compare = compare, .flops = flops,                      \
  .written_rows = written_rows
#define PRODUCT(op_name, roles, ...)                                                               \
  {                                                                                                \
    OP(op_name, roles), .factors = { __VA_ARGS__ }                                                 \
  }
#define PRODUCT_OF_MADE(op_name, roles)                                                            \
  {                                                                                                \
    OP(op_name, roles), .begin = make_factors, .factors = { "qa", "qb" }                           \
  }

const moe__run_op_t moe__run_product_ops[] = {
    PRODUCT("scaled_mm", "qa qb sa sb [offs] -> out", "qa", "qb"),
    PRODUCT("scaled_mm_bias", "qa qb sa sb [offs] bias -> out", "qa", "qb"),
    PRODUCT_OF_MADE("dequantize_mm", "qa qb sa sb offs -> out a b state_a state_b"),
    PRODUCT_OF_MADE("dequantize_mm_bias", "qa qb sa sb offs bias -> out a b state_a state_b"),
    PRODUCT("mm", "a b [offs] -> out", "a", "b"),
    PRODUCT("mm_bias", "a b [offs] bias -> out", "a", "b"),
    {0},
};
