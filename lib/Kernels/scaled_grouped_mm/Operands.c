/* Operands.c - what an op of the kernel of scaled_mm says of its operands: whether the kernel takes
 * them, how many scales they have, and which of their rows are in a tile.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/scaled_grouped_mm/ScaledMm.h"

#include "lib/Builder/Inspect.h"
#include "lib/Kernels/Requirements.h"
#include "lib/Kernels/scaled_grouped_mm/Blocks.h"
#include "lib/Kernels/scaled_grouped_mm/Mx.h"

#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/BuiltinTypes.h"

moe__role_t moe__mm_scale_role(int operand) {
  return operand == MOE__MM_QA ? MOE__SA : MOE__SB;
}

moe__role_t moe__mm_given_role(MlirOperation op, int operand) {
  if (moe__is_dequantize_mm(op))
    return operand == MOE__MM_QA ? MOE__QA : MOE__QB;
  return moe__factor_role(op, operand);
}

int moe__mm_line_multiple(MlirOperation op) {
  return moe__is_scaled_mm(op) ? 16 : 8;
}

bool moe__mm_is_promoted(MlirOperation op) {
  return moe__is_scaled_mm(op) && mlirStringRefEqual(moe__op_string(op, "accumulate"),
                                                     mlirStringRefCreateFromCString("promoted"));
}

moe__mm_scales_t moe__mm_scales(MlirOperation op, int operand) {
  if (!moe__is_scaled_mm(op))
    return MOE__NO_SCALE;
  MlirType type = moe__tensor_type(op, moe__mm_scale_role(operand));
  bool is_forward = moe__mm_case(op) == MOE__FORWARD, is_qa = operand == MOE__MM_QA;
  if (moe__has_block_scales(op))
    return MOE__SCALE_OF_BLOCK;
  if (moe__has_mx_scales(op))
    return MOE__SCALE_OF_MX_BLOCK;
  if (is_qa && is_forward && mlirShapedTypeGetDimSize(type, 0) == 1)
    return MOE__SCALE_OF_ALL;
  bool of_experts = mlirShapedTypeGetRank(type) == 1 && !(is_qa && is_forward);
  return of_experts ? MOE__SCALE_OF_EXPERT : MOE__SCALE_OF_ROW;
}

/* ---- What the kernel takes ---- */

/* With blocks of any kind. */
static bool takes_order_of_sb(MlirOperation op) {
  MlirType sb = moe__tensor_type(op, MOE__SB);
  return moe__is_row_major(sb) || moe__is_column_major(sb) ||
         moe__error(op, "the kernel takes sb row-major or column-major per expert; remove its "
                        "encoding, or give it affine_map<(e, k, n) -> (e, n, k)>");
}

/* The memory orders of scales of blocks. */
static bool takes_block_scales(MlirOperation op) {
  MlirType sa = moe__tensor_type(op, MOE__SA);
  if (!moe__is_column_major(sa))
    return moe__error(op,
                      "the kernel takes scales of 1x128 blocks with the tokens side by side; give "
                      "sa the encoding affine_map<%s>",
                      moe__mm_case(op) == MOE__FORWARD ? "(m, k) -> (k, m)"
                                                       : "(e, m, k) -> (e, k, m)");
  return takes_order_of_sb(op);
}

/* Whether a product has a kernel as far as its scales are those of MX blocks. */
static bool takes_mx_scales(MlirOperation op) {
  if (!moe__mm_is_promoted(op))
    return moe__error(op, "the kernel adds sums of MX blocks in fp32; give 'accumulate' the value "
                          "\"promoted\"");
  return moe__mm_case(op) == MOE__GRADIENT || takes_order_of_sb(op);
}

/* Of 16 bits an operand's rows may lie side by side in memory too; but tokens that are added up and
 * lie side by side begin at multiples of 16 bytes. */
static bool has_kernel_of_halves(MlirOperation op) {
  MlirType a = moe__factor_type(op, MOE__MM_QA), b = moe__factor_type(op, MOE__MM_QB);
  bool is_gradient = moe__mm_case(op) == MOE__GRADIENT;
  bool is_forward = moe__mm_case(op) == MOE__FORWARD;
  int last = (int)mlirShapedTypeGetRank(b) - 1, line = moe__mm_line_multiple(op);
  if (!moe__is_row_major(moe__tensor_type(op, MOE__OUT)) ||
      !(moe__is_row_major(b) || moe__is_column_major(b)) ||
      !(moe__is_row_major(a) || (!is_forward && moe__is_column_major(a))))
    return moe__error(op, "the kernel takes a and out row-major, and b row-major or column-major; "
                          "unless it is forward a may be column-major too");
  MlirValue bias = moe__operand(op, MOE__BIAS);
  if (!mlirValueIsNull(bias) && !moe__is_row_major(mlirValueGetType(bias)))
    return moe__error(op, "the kernel takes bias row-major; remove its encoding");
  if (is_gradient && !moe__group_align(op) && (moe__is_row_major(a) || moe__is_column_major(b)))
    return moe__error(op, "the kernel takes tokens that lie side by side only with 'align'; give a "
                          "the encoding affine_map<(n, m) -> (m, n)>, and b none");
  int a_last = (int)mlirShapedTypeGetRank(a) - 1;
  moe__role_t of_a = moe__mm_given_role(op, MOE__MM_QA), of_b = moe__mm_given_role(op, MOE__MM_QB);
  if (!moe__needs_multiple(op, of_a, moe__is_row_major(a) ? a_last : a_last - 1, line))
    return false;
  return (moe__is_row_major(b) || moe__needs_multiple(op, of_b, last - 1, line)) &&
         moe__needs_multiple(op, of_b, last, line);
}

/* Operands that are made: in the order in which they are multiplied, from MX blocks in the same
 * order. */
static bool has_kernel_of_made(MlirOperation op) {
  if (!moe__is_row_major(moe__tensor_type(op, MOE__QA)) ||
      !moe__is_row_major(moe__tensor_type(op, MOE__SA)) ||
      !moe__is_row_major(moe__tensor_type(op, MOE__A)))
    return moe__error(op, "the kernel takes qa and sa row-major, and makes a so; remove their "
                          "encoding");
  if (!moe__is_column_major(moe__tensor_type(op, MOE__QB)) ||
      !moe__is_column_major(moe__tensor_type(op, MOE__B)))
    return moe__error(op, "the kernel takes qb column-major per expert, and makes b so; give both "
                          "the encoding affine_map<(e, k, n) -> (e, n, k)>");
  return takes_order_of_sb(op) && has_kernel_of_halves(op);
}

bool moe__mm_has_kernel(MlirOperation op) {
  if (moe__is_dequantize_mm(op))
    return has_kernel_of_made(op);
  if (!moe__is_scaled_mm(op))
    return has_kernel_of_halves(op);
  static const char *const qb_orders[] = {
      [MOE__FORWARD] = "column-major per expert; give it the encoding "
                       "affine_map<(e, k, n) -> (e, n, k)>",
      [MOE__GRADIENT] = "column-major; give it the encoding affine_map<(m, k) -> (k, m)>",
      [MOE__BATCHED] = "column-major per expert; give it the encoding "
                       "affine_map<(e, k, n) -> (e, n, k)>"};
  MlirType qa = moe__tensor_type(op, MOE__QA);
  MlirType qb = moe__tensor_type(op, MOE__QB);
  bool mx = moe__has_mx_scales(op), is_gradient = moe__mm_case(op) == MOE__GRADIENT;
  bool blocks = moe__has_block_scales(op) && !is_gradient;
  if (blocks && !takes_block_scales(op))
    return false;
  if (mx && !takes_mx_scales(op))
    return false;
  bool row_major = moe__is_row_major(moe__tensor_type(op, MOE__OUT));
  for (int i = 0; i < mlirOperationGetNumOperands(op); i++) {
    moe__role_t role = moe__operand_role(op, i);
    bool other = role == MOE__QB || (blocks && (role == MOE__SA || role == MOE__SB)) ||
                 (mx && !is_gradient && role == MOE__SB);
    row_major &= other || moe__is_row_major(mlirValueGetType(mlirOperationGetOperand(op, i)));
  }
  if (!row_major)
    return moe__error(op, "the kernel takes all tensors but qb row-major; remove their encoding");
  if (!moe__is_column_major(qb))
    return moe__error(op, "the kernel takes qb %s", qb_orders[moe__mm_case(op)]);
  if (is_gradient && (mx || moe__has_block_scales(op)) && !moe__needs_multiple(op, MOE__QA, 0, 4))
    return false;
  return moe__needs_multiple_of_16(op, MOE__QA, (int)mlirShapedTypeGetRank(qa) - 1) &&
         moe__needs_multiple_of_16(op, MOE__QB, (int)mlirShapedTypeGetRank(qb) - 1);
}

/* ---- What a kernel under construction knows of them ---- */

bool moe__mm_is_direct(const moe__scaled_mm_t *s) {
  return s->schedule.direct && !s->schedule.swap_operands;
}

int moe__mm_column_of_pair(const moe__scaled_mm_t *s, int j) {
  int parts = s->fragment_n / MOE__MM_DIRECT;
  return moe__mm_is_direct(s) ? MOE__MM_DIRECT * (j % parts) + 2 * (j / parts) : 8 * j;
}

bool moe__mm_scales_sums(const moe__scaled_mm_t *s) {
  moe__mm_scales_t scales = s->operands[MOE__MM_QA].granularity;
  return scales == MOE__SCALE_OF_BLOCK || scales == MOE__SCALE_OF_MX_BLOCK ||
         scales == MOE__NO_SCALE;
}

bool moe__mm_stores_behind(const moe__scaled_mm_t *s) {
  /* In a cluster a gradient has no registers left for it, nor have two warpgroups beside scales of
   * blocks of tokens. */
  bool has_room = s->which != MOE__GRADIENT || s->schedule.cluster == 1;
  if (moe__mm_has_token_blocks(s))
    has_room = moe__mm_warpgroups(&s->schedule) > MOE__MM_WARPGROUPS;
  return s->promoted && has_room && !s->schedule.swap_operands && !moe__mm_has_mx_scales(s);
}

int moe__mm_depth(const moe__scaled_mm_t *s, int bytes) {
  return mlirTypeIsNull(s->half) ? bytes : bytes / 2;
}

bool moe__mm_is_shared(const moe__scaled_mm_t *s, const moe__mm_operand_t *operand) {
  return s->schedule.cluster > 1 && operand == s->side[s->schedule.beside ? 0 : 1];
}

int moe__mm_box_depth(const moe__scaled_mm_t *s, const moe__mm_operand_t *operand) {
  int parts = moe__mm_is_shared(s, operand) ? s->schedule.cluster : 1;
  return moe__mm_depth(s, MOE__MM_TILE_K) / parts;
}

bool moe__mm_has_groups(const moe__scaled_mm_t *s) {
  return s->which != MOE__BATCHED;
}

void moe__mm_read_op(moe__scaled_mm_t *s, MlirOperation op) {
  s->which = moe__mm_case(op);
  s->promoted = moe__mm_is_promoted(op);
  s->aligned = moe__group_align(op) != 0;
  s->makes_operands = moe__is_dequantize_mm(op);
  s->has_bias = !mlirValueIsNull(moe__operand(op, MOE__BIAS));
  s->out_type = mlirShapedTypeGetElementType(moe__tensor_type(op, MOE__OUT));
  if (s->has_bias)
    s->bias_type = mlirShapedTypeGetElementType(moe__tensor_type(op, MOE__BIAS));
  for (int i = 0; i < 2; i++) {
    s->operands[i].granularity = moe__mm_scales(op, i);
    if (moe__is_scaled_mm(op))
      s->operands[i].element = moe__fp8_of(moe__factor_type(op, i));
  }
  if (!moe__is_scaled_mm(op)) {
    s->half = mlirShapedTypeGetElementType(moe__factor_type(op, 0));
    for (int i = 0; i < 2 && s->makes_operands; i++)
      s->made[i].element = moe__fp8_of(moe__tensor_type(op, moe__mm_given_role(op, i)));
    s->operands[MOE__MM_QA].mn_major = !moe__is_row_major(moe__factor_type(op, MOE__MM_QA));
    s->operands[MOE__MM_QB].mn_major = moe__is_row_major(moe__factor_type(op, MOE__MM_QB));
  }
  s->side[0] = &s->operands[s->schedule.swap_operands ? MOE__MM_QB : MOE__MM_QA];
  s->side[1] = &s->operands[s->schedule.swap_operands ? MOE__MM_QA : MOE__MM_QB];
  s->side[0]->tile = moe__mm_tile_rows(&s->schedule);
  s->side[1]->tile = s->schedule.tile_n;
  s->column_n = s->schedule.tile_n / (moe__mm_has_mx_scales(s) ? MOE__MM_WARPGROUPS : 1);
  s->fragment_n = s->column_n;
  for (int i = 0; i < 2; i++) {
    bool is_shared = moe__mm_is_shared(s, s->side[i]);
    s->side[i]->rows = s->side[i]->tile * (is_shared ? 1 : s->schedule.cluster);
    s->side[i]->box = s->side[i]->tile / (is_shared ? s->schedule.cluster : 1);
  }
  if (s->schedule.swap_operands)
    s->side[1]->box = s->side[1]->tile / s->schedule.pieces;
}
