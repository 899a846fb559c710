/* ExpandRecipes.c - turns scaled_grouped_mm.grouped_mm, the product of bf16 tensors that people
 * write, into quantizers of its operands and the product of what they make.
 *
 *   out = grouped_mm a, b, offs {recipe}      qa, sa = a quantizer of a
 *                                        ->   qb, sb = a quantizer of b
 *                                             out    = scaled_mm qa, qb, sa, sb, offs
 *
 * The quantizers are those of lib/Dialect/MxQuantize.def: to FP8, or to MX where scales belong to
 * MX blocks.
 *
 * A recipe says which elements of an operand share a scale. Along which axis, and in which order
 * in memory, follows from the product: it sums over elements that lie side by side, in both
 * operands. Quantizers read their tensor row-major and write either order. So an operand whose
 * last two dimensions are swapped in memory is quantized as the row-major tensor that its memory
 * also is, and what comes out is seen with the operand's dimensions again: views
 * (lib/Builder/Views.h), which move nothing. What no quantizer reads is refused; a copy that
 * nobody wrote would hide what it costs.
 *
 * The numbers of MX blocks are exact in bf16, whose products take less time than those of FP8 that
 * are scaled block by block. So with scales of MX blocks both operands are rounded to such numbers
 * and stay bf16, unless a product reads weights for few tokens, which is what takes the time then:
 *
 *   a' = mx_quantize.round a;  b' = mx_quantize.round b;  out = mm a', b', offs
 *
 * A tensor that is quantized for one product is not quantized again in the same way for another
 * one.
 *
 * Products of operands that are in MX blocks already may become products of bf16 tensors too
 * (ExpandMx.c).
 *
 * Likewise the products of four-bit weights get theirs packed, where they are plain:
 *
 *   out = mixed_mm w, scales, x {layout = "plain"}
 *     ->  packed = pack_weights w;  out = mixed_mm packed, scales, x {layout = "16x64"}
 *
 * and, of integers with scales of bf16, with many tokens, f16 for these: there the tensor core
 * takes weights times scales, which bf16 has no bits for.
 *
 *   out = mixed_mm w, scales, x
 *     ->  q, scales_x = quantize_f16 x;  out = mixed_mm_scaled w, scales, q, scales_x
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "passes/ExpandRecipes.h"
#include "lib/Builder/Views.h"
#include "lib/Dialect/Dialect.h"
#include "lib/Dialect/Shapes.h"
#include "lib/Kernels/Requirements.h"
#include "lib/Kernels/mixed_mm/F16.h"
#include "passes/ExpandMx.h"
#include "passes/Passes.h"
#include "passes/Share.h"

#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/BuiltinTypes.h"

#include <stdlib.h>

/* The factors of the product. */
enum { A, B };

/* Sizes of products of FP8, and of bf16 tensors that are rounded. */
#define FP8_MULTIPLE 16
#define ROUNDED_MULTIPLE 8

/* What a recipe gives a scale to, for a and b of each product. */
typedef struct recipe_t {
  const char *name;
  moe__granularity_t granularities[MOE__NO_CASE][2];
  bool pow2, sanitize;
  bool promoted; /* sums are, since scales change along them */
  bool mx;       /* scales are those of MX blocks, and have no granularity, pow2 or sanitize */
  bool aligned;  /* groups of tokens that are summed begin at a multiple of MOE_GROUP_ALIGN */
} recipe_t;

static const recipe_t RECIPES[] = {
    {"fp8_rowwise",
     {[MOE__FORWARD] = {MOE__ROW, MOE__ROW},
      [MOE__GRADIENT] = {MOE__ROW, MOE__ROW},
      [MOE__BATCHED] = {MOE__ROW, MOE__ROW}},
     .pow2 = true},
    {"fp8_tensorwise",
     {[MOE__FORWARD] = {MOE__TENSOR, MOE__EXPERT},
      [MOE__GRADIENT] = {MOE__GROUP, MOE__GROUP},
      [MOE__BATCHED] = {MOE__EXPERT, MOE__EXPERT}},
     .pow2 = true,
     .sanitize = true},
    {"fp8_blockwise",
     {[MOE__FORWARD] = {MOE__1X128, MOE__128X128},
      [MOE__GRADIENT] = {MOE__1X128, MOE__1X128},
      [MOE__BATCHED] = {MOE__1X128, MOE__128X128}},
     .promoted = true,
     .aligned = true},
    {"mxfp8", .promoted = true, .mx = true},
};

static const recipe_t *find_recipe(MlirOperation op) {
  MlirStringRef name = moe__op_string(op, "recipe");
  for (size_t i = 0; i < sizeof RECIPES / sizeof *RECIPES; i++)
    if (mlirStringRefEqual(name, mlirStringRefCreateFromCString(RECIPES[i].name)))
      return &RECIPES[i];
  abort(); /* moe-verify knows no other */
}

static int summed_multiple(const recipe_t *recipe) {
  return recipe->mx ? MOE_MX_BLOCK : FP8_MULTIPLE;
}

int moe__recipe_summed_multiple(MlirOperation op) {
  return summed_multiple(find_recipe(op));
}

/* An operand and how it is quantized: x is the operand, or the row-major tensor that it is a view
 * of. */
typedef struct quantized_t {
  MlirValue operand, offs; /* offs: null where no scale belongs to a group */
  bool swapped;            /* the last two dimensions of x are those of the operand, swapped */
  int64_t axis;            /* of x, that the product sums over */
  moe__granularity_t granularity;
  bool mx, aligned;
  bool rounded; /* q has the numbers of MX blocks, and there are no scales */
  MlirValue x, q, scales;
} quantized_t;

/* ---- What can be quantized ---- */

static const moe__role_t ROLES[] = {[A] = MOE__A, [B] = MOE__B};

/* Whether a batched `a` is column-major, as it is in the weights' gradient. */
static bool is_turned(MlirOperation op) {
  return moe__mm_case(op) == MOE__BATCHED && !moe__is_row_major(moe__tensor_type(op, MOE__A));
}

/* Whether the product becomes one of bf16 tensors that are rounded, which have no scales. That of a
 * turned `a` always does: no other reads it. */
static bool is_rounded(MlirOperation op, const recipe_t *recipe) {
  bool reads_weights = moe__mm_case(op) != MOE__GRADIENT && !is_turned(op);
  return recipe->mx && !(reads_weights && moe__has_few_tokens(op));
}

/* Refuses a size that no kernel of what this becomes takes, while it has the source's name. */
static bool check_size(MlirOperation op, const recipe_t *recipe, int operand, int dimension,
                       int multiple) {
  int64_t size = moe__static_dimension(moe__tensor_type(op, ROLES[operand]), dimension);
  return size < 0 || size % multiple == 0 ||
         moe__error(op,
                    "operand '%s' has dimension %d of size %lld; with recipe '%s' it must be a "
                    "multiple of %d",
                    moe__role_name(ROLES[operand]), dimension, (long long)size, recipe->name,
                    multiple);
}

static bool check_sizes(MlirOperation op, const recipe_t *recipe, moe__mm_case_t product) {
  MlirType a = moe__tensor_type(op, MOE__A), b = moe__tensor_type(op, MOE__B);
  int last_of_a = (int)mlirShapedTypeGetRank(a) - 1, last_of_b = (int)mlirShapedTypeGetRank(b) - 1;
  int multiple = is_rounded(op, recipe) ? ROUNDED_MULTIPLE : FP8_MULTIPLE;
  if (!check_size(op, recipe, B, last_of_b, multiple))
    return false;
  if (product == MOE__GRADIENT) /* whose tokens, which are summed, may be any */
    return check_size(op, recipe, A, 0, multiple);
  return check_size(op, recipe, A, last_of_a, summed_multiple(recipe)) &&
         (!is_turned(op) || check_size(op, recipe, A, last_of_a - 1, multiple));
}

/* The way out of an order that no quantizer reads. */
static bool refuse_order(MlirOperation op, int operand, bool row_major, bool column_major) {
  MlirType type = moe__tensor_type(op, ROLES[operand]);
  moe__permutation_t swap = moe__swap_last_two((int)mlirShapedTypeGetRank(type));
  MlirType plain =
      mlirRankedTensorTypeGet(swap.rank, (int64_t[MOE__MAX_RANK]){1, 1, 1},
                              mlirShapedTypeGetElementType(type), mlirAttributeGetNull());
  char *encoding =
      moe__attribute_text(mlirRankedTensorTypeGetEncoding(moe__transposed(plain, &swap, true)));
  moe__error(op,
             "operand '%s' lies in memory in an order that no quantizer of this product reads, and "
             "would have to be copied; it must have %s%s%s%s",
             moe__role_name(ROLES[operand]), row_major ? "no encoding" : "",
             row_major && column_major ? " or " : "", column_major ? "the encoding " : "",
             column_major ? encoding : "");
  free(encoding);
  return false;
}

/* Decides how an operand is quantized. Of experts x can be quantized along either of the last two
 * dimensions; of a matrix along the last, or with groups, which are its rows, along the first. */
static bool plan(MlirOperation op, const recipe_t *recipe, moe__mm_case_t product, int operand,
                 quantized_t *out) {
  MlirValue value = moe__operand(op, ROLES[operand]);
  MlirType type = mlirValueGetType(value);
  int64_t rank = mlirShapedTypeGetRank(type), summed = operand == A ? rank - 1 : rank - 2;
  int64_t other = 2 * rank - 3 - summed;
  int64_t matrix_axis = product == MOE__GRADIENT ? 0 : 1;
  bool row_major = rank == 3 || summed == matrix_axis, column_major = rank == 3 || !row_major;
  bool rounded = is_rounded(op, recipe);
  /* Scales of MX blocks have one order; and so have tokens of a product of 16 bits forward. */
  if (recipe->mx && operand == A && product != MOE__GRADIENT)
    column_major = rounded && product == MOE__BATCHED;
  *out = (quantized_t){.operand = value,
                       .mx = recipe->mx,
                       .rounded = rounded,
                       .swapped = !moe__is_row_major(type),
                       .granularity = recipe->granularities[product][operand]};
  if (!(row_major && !out->swapped) && !(column_major && moe__is_column_major(type)))
    return refuse_order(op, operand, row_major, column_major);
  out->axis = out->swapped ? other : summed;
  if (product == MOE__GRADIENT) {
    out->offs = moe__operand(op, MOE__OFFS);
    out->aligned = recipe->aligned && !rounded;
  }
  return true;
}

/* ---- Building ---- */

static bool has_blocks(const quantized_t *s) {
  return s->granularity == MOE__1X128 || s->granularity == MOE__128X128;
}

/* As many tokens as q has along them: rounded up, and with room for each group where these are
 * aligned. */
static int64_t count_tokens(const quantized_t *s) {
  int64_t size = mlirShapedTypeGetDimSize(mlirValueGetType(s->x), 0),
          unknown = mlirShapedTypeGetDynamicSize();
  int64_t groups = mlirShapedTypeGetDimSize(mlirValueGetType(s->offs), 0);
  if (size == unknown || (s->aligned && groups == unknown))
    return unknown;
  size += -size & (MOE_TOKEN_MULTIPLE - 1);
  return s->aligned ? size + groups * MOE_GROUP_ALIGN : size;
}

/* Scales of blocks along dimension d of x; tokens in groups have room for one more each, which is
 * that of q where groups are aligned. */
static int64_t count_blocks(const quantized_t *s, int d) {
  MlirType x = mlirValueGetType(s->x);
  int rank = (int)mlirShapedTypeGetRank(x);
  bool is_cut = d == s->axis || (!s->mx && s->granularity == MOE__128X128 && d >= rank - 2);
  int block = s->mx ? MOE_MX_BLOCK : MOE_FP8_BLOCK;
  int64_t size = mlirShapedTypeGetDimSize(x, d), unknown = mlirShapedTypeGetDynamicSize(), more = 0;
  if (d == 0 && !mlirValueIsNull(s->offs))
    more = mlirShapedTypeGetDimSize(mlirValueGetType(s->offs), 0);
  if (size == unknown || more == unknown)
    return unknown;
  if (d == 0 && s->aligned)
    return count_tokens(s) / block;
  return is_cut ? (size + block - 1) / block + more : size;
}

/* Those of 1x128 along rows lie with the rows side by side, as a product reads them. */
static MlirType block_scales_type(const quantized_t *s) {
  MlirType x = mlirValueGetType(s->x), f32 = mlirF32TypeGet(mlirTypeGetContext(x));
  int rank = (int)mlirShapedTypeGetRank(x);
  bool is_side = s->granularity == MOE__1X128 && s->axis == rank - 1;
  moe__permutation_t swap = moe__swap_last_two(rank);
  int64_t shape[MOE__MAX_RANK];
  for (int d = 0; d < rank; d++)
    shape[d] = count_blocks(s, is_side ? swap.at[d] : d);
  MlirType in_memory = mlirRankedTensorTypeGet(rank, shape, f32, mlirAttributeGetNull());
  return is_side ? moe__transposed(in_memory, &swap, true) : in_memory;
}

static MlirType mx_scales_type(const quantized_t *s) {
  MlirType x = mlirValueGetType(s->x), e8m0 = mlirFloat8E8M0FNUTypeGet(mlirTypeGetContext(x));
  int rank = (int)mlirShapedTypeGetRank(x);
  int64_t shape[MOE__MAX_RANK];
  for (int d = 0; d < rank; d++)
    shape[d] = count_blocks(s, d);
  return mlirRankedTensorTypeGet(rank, shape, e8m0, mlirAttributeGetNull());
}

static MlirType scales_type(const quantized_t *s) {
  MlirType x = mlirValueGetType(s->x);
  int64_t shape[MOE__MAX_RANK], rank = 0;
  if (s->mx)
    return mx_scales_type(s);
  if (has_blocks(s))
    return block_scales_type(s);
  if (!mlirValueIsNull(s->offs))
    shape[rank++] = mlirShapedTypeGetDimSize(mlirValueGetType(s->offs), 0);
  if (s->granularity == MOE__TENSOR)
    shape[rank++] = 1;
  if (s->granularity == MOE__EXPERT)
    shape[rank++] = mlirShapedTypeGetDimSize(x, 0);
  for (int64_t d = 0; s->granularity == MOE__ROW && d < mlirShapedTypeGetRank(x); d++)
    if (d != s->axis)
      shape[rank++] = mlirShapedTypeGetDimSize(x, d);
  return mlirRankedTensorTypeGet(rank, shape, mlirF32TypeGet(mlirTypeGetContext(x)),
                                 mlirAttributeGetNull());
}

/* In memory the axis is innermost; tokens in groups are rounded up along it
 * (lib/Dialect/MxQuantize.def). */
static MlirType q_type(const quantized_t *s) {
  MlirType x = mlirValueGetType(s->x), e4m3 = mlirFloat8E4M3FNTypeGet(mlirTypeGetContext(x));
  moe__permutation_t swap = moe__swap_last_two((int)mlirShapedTypeGetRank(x));
  bool column_major = s->axis != swap.rank - 1;
  int64_t shape[MOE__MAX_RANK];
  for (int d = 0; d < swap.rank; d++)
    shape[d] = mlirShapedTypeGetDimSize(x, column_major ? swap.at[d] : d);
  if (!mlirValueIsNull(s->offs) && s->axis == 0)
    shape[swap.rank - 1] = count_tokens(s);
  MlirType row_major = mlirRankedTensorTypeGet(swap.rank, shape, e4m3, mlirAttributeGetNull());
  return column_major ? moe__transposed(row_major, &swap, true) : row_major;
}

static void set_align(moe__builder_t *b, MlirOperation op, bool aligned) {
  if (aligned)
    moe__op_set_attribute(op, "align", mlirIntegerAttrGet(b->i64, MOE_GROUP_ALIGN));
}

/* An op on x that works in MX blocks, `mx_quantize.quantize` or `round`. */
static MlirOperation in_mx_blocks(moe__builder_t *b, const quantized_t *s, moe__op_id_t id,
                                  int num_results, const MlirType *types) {
  MlirOperation op =
      moe__op(b, moe__op_id_name(id), num_results, types, mlirValueIsNull(s->offs) ? 1 : 2,
              (MlirValue[]){s->x, s->offs}, NULL, 0, NULL);
  moe__op_set_attribute(op, "axis", mlirIntegerAttrGet(b->i64, s->axis));
  moe__op_set_attribute(op, "block", mlirIntegerAttrGet(b->i64, MOE_MX_BLOCK));
  moe__op_set_attribute(op, "mode",
                        mlirStringAttrGet(b->context, mlirStringRefCreateFromCString("rceil")));
  return op;
}

static void quantize_mx(moe__builder_t *b, quantized_t *s) {
  MlirType types[2] = {q_type(s), scales_type(s)};
  MlirOperation op = in_mx_blocks(b, s, MOE__OP_QUANTIZE, 2, types);
  op = moe__share(op);
  s->q = moe__result(op, MOE__Q);
  s->scales = moe__result(op, MOE__SCALES);
}

static void round_mx(moe__builder_t *b, quantized_t *s) {
  MlirType type = mlirValueGetType(s->x);
  MlirOperation op = in_mx_blocks(b, s, MOE__OP_ROUND, 1, &type);
  moe__op_set_attribute(op, "element",
                        mlirStringAttrGet(b->context, mlirStringRefCreateFromCString("f8E4M3FN")));
  s->q = moe__result(moe__share(op), MOE__ROUNDED);
}

static void quantize(moe__builder_t *b, quantized_t *s, const recipe_t *recipe) {
  if (s->rounded) {
    round_mx(b, s);
    return;
  }
  if (recipe->mx) {
    quantize_mx(b, s);
    return;
  }
  MlirType types[2] = {q_type(s), scales_type(s)};
  MlirOperation op =
      moe__op(b, moe__op_id_name(MOE__OP_QUANTIZE_FP8), 2, types, mlirValueIsNull(s->offs) ? 1 : 2,
              (MlirValue[]){s->x, s->offs}, NULL, 0, NULL);
  moe__op_set_attribute(op, "axis", mlirIntegerAttrGet(b->i64, s->axis));
  moe__op_set_attribute(op, "granularity",
                        mlirStringAttrGet(b->context, mlirStringRefCreateFromCString(
                                                          moe__granularity_name(s->granularity))));
  moe__op_set_attribute(op, "pow2", mlirBoolAttrGet(b->context, recipe->pow2));
  moe__op_set_attribute(op, "sanitize", mlirBoolAttrGet(b->context, recipe->sanitize));
  set_align(b, op, s->aligned);
  op = moe__share(op);
  s->q = moe__result(op, MOE__Q);
  s->scales = moe__result(op, MOE__SCALES);
}

/* By the product of what has no scales, whose sums are those of the tensor core: `accumulate` says
 * nothing here. */
static void replace_by_mm(moe__builder_t *b, MlirOperation op, const quantized_t s[2]) {
  MlirValue operands[3] = {s[A].q, s[B].q, moe__operand(op, MOE__OFFS)};
  MlirType out = moe__tensor_type(op, MOE__OUT);
  MlirOperation product = moe__op(b, moe__op_id_name(MOE__OP_MM), 1, &out,
                                  mlirValueIsNull(operands[2]) ? 2 : 3, operands, NULL, 0, NULL);
  mlirValueReplaceAllUsesOfWith(moe__result(op, MOE__OUT), moe__result(product, MOE__OUT));
  mlirOperationDestroy(op);
}

/* Both operands are quantized side by side, so that they can be in one launch. */
static void build(MlirOperation op, const recipe_t *recipe, quantized_t s[2]) {
  moe__builder_t b = moe__builder_before(op);
  for (int i = A; i <= B; i++)
    s[i].x = s[i].swapped ? moe__swapped_view(&b, s[i].operand) : s[i].operand;
  for (int i = A; i <= B; i++)
    quantize(&b, &s[i], recipe);
  bool is_gradient = moe__mm_case(op) == MOE__GRADIENT;
  for (int i = A; i <= B; i++) {
    if (s[i].swapped)
      s[i].q = moe__swapped_view(&b, s[i].q);
    /* Those of blocks have the dimensions of q; in a gradient tokens come first on both sides. */
    if (s[i].swapped && !s[i].rounded && (s[i].mx || has_blocks(&s[i])) && !is_gradient)
      s[i].scales = moe__swapped_view(&b, s[i].scales);
  }
  if (s[A].rounded) {
    replace_by_mm(&b, op, s);
    return;
  }
  MlirValue operands[5] = {s[A].q, s[B].q, s[A].scales, s[B].scales, moe__operand(op, MOE__OFFS)};
  MlirType out = moe__tensor_type(op, MOE__OUT);
  MlirOperation product = moe__op(&b, moe__op_id_name(MOE__OP_SCALED_MM), 1, &out,
                                  mlirValueIsNull(operands[4]) ? 4 : 5, operands, NULL, 0, NULL);
  MlirAttribute accumulate = moe__op_attribute(op, "accumulate");
  moe__op_set_attribute(
      product, "accumulate",
      mlirAttributeIsNull(accumulate) || recipe->mx
          ? mlirStringAttrGet(
                b.context, mlirStringRefCreateFromCString(recipe->promoted ? "promoted" : "fast"))
          : accumulate);
  if (is_gradient && has_blocks(&s[A])) /* which no rank tells */
    moe__op_set_attribute(product, "granularity",
                          mlirStringAttrGet(b.context, mlirStringRefCreateFromCString(
                                                           moe__granularity_name(MOE__1X128))));
  set_align(&b, product, s[A].aligned);
  mlirValueReplaceAllUsesOfWith(moe__result(op, MOE__OUT), moe__result(product, MOE__OUT));
  mlirOperationDestroy(op);
}

static bool expand(MlirOperation op) {
  const recipe_t *recipe = find_recipe(op);
  bool rounded = is_rounded(op, recipe);
  moe__op_id_t quantizer = rounded      ? MOE__OP_ROUND
                           : recipe->mx ? MOE__OP_QUANTIZE
                                        : MOE__OP_QUANTIZE_FP8;
  if (!mlirAttributeIsNull(moe__op_attribute(op, "schedule")))
    return moe__error(op,
                      "'schedule' is that of one kernel, and this becomes several; write "
                      "%s and %s to choose",
                      moe__op_id_name(quantizer),
                      moe__op_id_name(rounded ? MOE__OP_MM : MOE__OP_SCALED_MM));
  moe__mm_case_t product = moe__mm_case(op);
  quantized_t quantized[2];
  MlirAttribute accumulate = moe__op_attribute(op, "accumulate");
  if (recipe->promoted && !recipe->mx && !mlirAttributeIsNull(accumulate) &&
      !mlirStringRefEqual(mlirStringAttrGetValue(accumulate),
                          mlirStringRefCreateFromCString("promoted")))
    return moe__error(op,
                      "recipe \"%s\" has scales that change along the sum; accumulate must be "
                      "\"promoted\"",
                      recipe->name);
  if (!check_sizes(op, recipe, product) || !plan(op, recipe, product, A, &quantized[A]) ||
      !plan(op, recipe, product, B, &quantized[B]))
    return false;
  build(op, recipe, quantized);
  return true;
}

/* ---- Four-bit weights ---- */

static MlirType packed_type(MlirType w) {
  int rank = (int)mlirShapedTypeGetRank(w);
  int64_t shape[MOE__MAX_RANK + 1], unknown = mlirShapedTypeGetDynamicSize();
  int64_t rows = mlirShapedTypeGetDimSize(w, rank - 2),
          bytes = mlirShapedTypeGetDimSize(w, rank - 1);
  int64_t of_tile = MOE_WEIGHT_COLUMNS / 2;
  shape[0] = mlirShapedTypeGetDimSize(w, 0);
  shape[rank - 2] = rows == unknown ? unknown : rows / MOE_WEIGHT_ROWS;
  shape[rank - 1] = bytes == unknown ? unknown : (bytes + of_tile - 1) / of_tile;
  shape[rank] = MOE_WEIGHT_BYTES;
  return mlirRankedTensorTypeGet(rank + 1, shape, mlirShapedTypeGetElementType(w),
                                 mlirAttributeGetNull());
}

static bool pack(MlirOperation op) {
  moe__builder_t b = moe__builder_before(op);
  MlirValue w = moe__operand(op, MOE__W);
  MlirType type = packed_type(mlirValueGetType(w));
  MlirAttribute layout =
      mlirStringAttrGet(b.context, mlirStringRefCreateFromCString(moe__packed_layout(op)));
  MlirOperation packed =
      moe__op(&b, moe__op_id_name(MOE__OP_PACK_WEIGHTS), 1, &type, 1, &w, NULL, 0, NULL);
  moe__op_set_attribute(packed, "layout", layout);
  packed = moe__share(packed);
  mlirOperationSetOperand(op, moe__operand_number(op, MOE__W), moe__result(packed, MOE__PACKED));
  moe__op_set_attribute(op, "layout", layout);
  return true;
}

static bool is_string(MlirOperation op, const char *attribute, const char *value) {
  return mlirStringRefEqual(moe__op_string(op, attribute), mlirStringRefCreateFromCString(value));
}

/* Whether integers times their scales are numbers of f16, and results show no more than what
 * tensor cores keep of long sums. */
static bool may_multiply_in_f16(MlirOperation op) {
  return moe__is(op, MOE__OP_MIXED_MM) && mlirAttributeIsNull(moe__op_attribute(op, "schedule")) &&
         (is_string(op, "format", "i4") || is_string(op, "format", "uint4b8")) &&
         mlirTypeIsABF16(moe__element_type(op, MOE__X)) &&
         mlirTypeIsABF16(moe__element_type(op, MOE__SCALES)) &&
         !mlirTypeIsAF32(moe__element_type(op, MOE__OUT));
}

static bool multiply_in_f16(MlirOperation op) {
  moe__builder_t b = moe__builder_before(op);
  MlirValue x = moe__operand(op, MOE__X), offs = moe__operand(op, MOE__OFFS);
  int64_t shape[] = {mlirShapedTypeGetDimSize(mlirValueGetType(x), 0),
                     mlirShapedTypeGetDimSize(mlirValueGetType(x), 1)};
  MlirType types[] = {
      mlirRankedTensorTypeGet(2, shape, moe__type(&b, "f16"), mlirAttributeGetNull()),
      mlirRankedTensorTypeGet(1, shape, b.f32, mlirAttributeGetNull())};
  MlirOperation tokens = moe__share(
      moe__op(&b, moe__op_id_name(MOE__OP_QUANTIZE_F16), 2, types, 1, &x, NULL, 0, NULL));
  MlirValue operands[] = {moe__operand(op, MOE__W), moe__operand(op, MOE__SCALES),
                          moe__result(tokens, MOE__Q), moe__result(tokens, MOE__SCALES), offs};
  MlirType out = moe__tensor_type(op, MOE__OUT);
  MlirOperation product = moe__op(&b, moe__op_id_name(MOE__OP_MIXED_MM_SCALED), 1, &out,
                                  mlirValueIsNull(offs) ? 4 : 5, operands, NULL, 0, NULL);
  static const char *const ATTRIBUTES[] = {"format", "group_size", "layout"};
  for (size_t i = 0; i < sizeof ATTRIBUTES / sizeof *ATTRIBUTES; i++)
    moe__op_set_attribute(product, ATTRIBUTES[i], moe__op_attribute(op, ATTRIBUTES[i]));
  mlirValueReplaceAllUsesOfWith(moe__result(op, MOE__OUT), moe__result(product, MOE__OUT));
  mlirOperationDestroy(op);
  return true;
}

static bool expand_mixed(MlirOperation op) {
  if (moe__has_plain_weights(op) && !moe__has_fp8_weights(op) && !pack(op))
    return false;
  return !may_multiply_in_f16(op) || !moe__mixed_is_faster_in_f16(op) || multiply_in_f16(op);
}

static bool expand_if_product(MlirOperation op) {
  if (moe__is(op, MOE__OP_GROUPED_MM))
    return expand(op);
  return moe__has_mx_scales(op) ? moe__expand_mx_product(op) : expand_mixed(op);
}

static bool expand_body(MlirBlock body) {
  return moe__walk_block(body, expand_if_product);
}

bool moe__pass_expand_recipes(MlirOperation module, const moe__pass_t *pass) {
  return moe__pass_verify(module, pass) && /* the rest relies on it */
         moe__walk_functions(module, expand_body);
}
