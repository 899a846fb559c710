/* ProductOps.c - the ops of the scaled_grouped_mm dialect on the C reference.
 *
 * Why it exists: see Launch.h. A product's kernel sums in its own order, so that its result is
 * judged by a bound, and not by bits.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "tools/moe-run/Launch.h"

#include "tools/moe-run/Report.h"

/* offs follow unless batched, and in scaled_mm_bias the bias. */
enum { QA, QB, SA, SB, REQUIRED, SLICE_ROWS = 64 };

/* Whether there are groups, whose offsets are then the fifth operand. */
static bool has_offsets(const moe__launch_t *launch) {
  return launch->operand_count > REQUIRED && launch->tensors[QA].rank == 2;
}

static bool has_bias(const moe__launch_t *launch) {
  return launch->operand_count > REQUIRED + has_offsets(launch);
}

static moe_ref_scaled_mm_t product(const moe__launch_t *launch) {
  const moe_ref_tensor_t *tensors = launch->tensors;
  return (moe_ref_scaled_mm_t){.a = &tensors[QA],
                               .b = &tensors[QB],
                               .sa = &tensors[SA],
                               .sb = &tensors[SB],
                               .offs = has_offsets(launch) ? &tensors[REQUIRED] : NULL,
                               .out = &tensors[launch->operand_count],
                               .bias =
                                   has_bias(launch) ? &tensors[launch->operand_count - 1] : NULL};
}

static int prepare(moe__launch_t *launch, const json_t *attributes) {
  int number = -1;
  if (launch->operand_count > REQUIRED + has_offsets(launch) + 1)
    return moe__input_error("%s: has %d operands, of which none are offsets", launch->name,
                            launch->operand_count);
  int rc = moe__attribute_name(launch, attributes, "accumulate", moe_ref_accumulation_from_name,
                               &number);
  launch->accumulation = (moe_ref_accumulation_t)number;
  return rc;
}

/* Rows of all groups; a launch that is refused has one slice, which refuses it. */
static int64_t row_count(const moe__launch_t *launch) {
  const moe_ref_scaled_mm_t mm = product(launch);
  return moe_ref_scaled_mm_rows(&mm);
}

static void cut(moe__launch_t *launch, int threads) {
  const int64_t rows = row_count(launch);
  launch->slices = rows <= 0 || threads == 1 ? 1 : (rows + SLICE_ROWS - 1) / SLICE_ROWS;
}

static void slice_rows(const moe__launch_t *launch, int64_t slice, int64_t *begin, int64_t *end) {
  const int64_t rows = row_count(launch);
  *begin = launch->slices == 1 ? 0 : slice * SLICE_ROWS;
  *end = launch->slices == 1 || *begin + SLICE_ROWS > rows ? rows : *begin + SLICE_ROWS;
}

static moe_ref_status_t run(const moe__launch_t *launch, int64_t slice) {
  const moe_ref_scaled_mm_t mm = product(launch);
  int64_t begin, end;
  slice_rows(launch, slice, &begin, &end);
  return moe_ref_scaled_mm(&mm, begin, end);
}

static moe_ref_status_t judge(const moe__launch_t *launch, int64_t slice, moe_ref_score_t *score) {
  const moe_ref_scaled_mm_t mm = product(launch);
  int64_t begin, end;
  slice_rows(launch, slice, &begin, &end);
  return moe_ref_scaled_mm_judge(&mm, launch->accumulation, begin, end, score);
}

static moe_ref_status_t compare(const moe__launch_t *launch, const moe_ref_tensor_t factors[2],
                                int64_t slice, moe_ref_score_t *score) {
  const moe_ref_scaled_mm_t mm = product(launch);
  int64_t begin, end;
  slice_rows(launch, slice, &begin, &end);
  return moe_ref_scaled_mm_quality(&mm, &factors[QA], &factors[QB], begin, end, score);
}

/* Whether groups are rows of the result. */
static bool has_grouped_rows(const moe__launch_t *launch) {
  return has_offsets(launch) && launch->tensors[QB].rank == 3;
}

/* What may be NaN and must not matter: tokens, and where they are what is summed, scales of groups
 * that have none; experts, where these are all there is. */
static void use_nan(const moe__launch_t *launch, int operand, moe__use_t *out_use) {
  const bool is_gradient = has_offsets(launch) && !has_grouped_rows(launch);
  out_use->nan_dimension = is_gradient && operand == QA;
  if (has_offsets(launch))
    out_use->offs = launch->tensors[REQUIRED];
  if (operand == QA)
    out_use->nan = has_offsets(launch) ? MOE__NAN_TOKENS : MOE__NAN_GROUPS;
  if (is_gradient && operand == QB)
    out_use->nan = MOE__NAN_TOKENS;
  if (is_gradient && (operand == SA || operand == SB))
    out_use->nan = MOE__NAN_EMPTY_GROUPS;
  /* One scale is that of all tokens. */
  if (has_grouped_rows(launch) && operand == SA && launch->tensors[SA].shape[0] == out_use->tokens)
    out_use->nan = MOE__NAN_TOKENS;
}

static void use(const moe__launch_t *launch, int operand, moe__use_t *out_use) {
  const moe_ref_tensor_t *qa = &launch->tensors[QA];
  out_use->role = operand == QA ? MOE__SELECTOR : MOE__OPERAND;
  if (operand == SA || operand == SB)
    out_use->role = MOE__SCALES;
  if (operand == REQUIRED && has_offsets(launch))
    out_use->role = MOE__OFFSETS;
  out_use->tokens = qa->shape[has_grouped_rows(launch) || qa->rank == 1 ? 0 : 1];
  use_nan(launch, operand, out_use);
}

static double flops(const moe__launch_t *launch) {
  const moe_ref_scaled_mm_t mm = product(launch);
  return moe_ref_scaled_mm_flops(&mm);
}

static int64_t written_rows(const moe__launch_t *launch, int result) {
  (void)result;
  const moe_ref_scaled_mm_t mm = product(launch);
  return has_grouped_rows(launch) ? moe_ref_scaled_mm_tokens(&mm) : -1;
}

#define PRODUCT(symbol, text, least, most)                                                         \
  const moe__op_t symbol = {.name = (text),                                                        \
                            .least_operands = (least),                                             \
                            .most_operands = (most),                                               \
                            .result_count = 1,                                                     \
                            .prepare = prepare,                                                    \
                            .cut = cut,                                                            \
                            .run = run,                                                            \
                            .use = use,                                                            \
                            .judge = judge,                                                        \
                            .compare = compare,                                                    \
                            .flops = flops,                                                        \
                            .written_rows = written_rows}

PRODUCT(moe__op_scaled_mm, "scaled_grouped_mm.scaled_mm", REQUIRED, REQUIRED + 1);
PRODUCT(moe__op_scaled_mm_bias, "scaled_grouped_mm.scaled_mm_bias", REQUIRED + 1, REQUIRED + 2);
