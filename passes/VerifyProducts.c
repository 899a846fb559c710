/* VerifyProducts.c - checks how the shapes of the tensors of scaled_grouped_mm ops belong together.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Builder/Shapes.h"
#include "passes/Verify.h"

#include "mlir-c/BuiltinTypes.h"

/* The tensors of scaled_mm, in the order of its rule; operands first. */
enum { QA, QB, SA, SB, OFFS, BIAS, OUT, MM_TENSORS };
static const char *const MM_NAMES[] = {"qa", "qb", "sa", "sb", "offs", "bias", "out"};

/* The shape of each tensor of one case, a letter a dimension; one letter, one size. '/' follows a
 * dimension in blocks of 32. NULL: the tensor is not there. */
typedef struct mm_case_t {
  const char *fp32[MM_TENSORS], *mx[MM_TENSORS];
} mm_case_t;

static const mm_case_t MM_CASES[] = {
    {{"MK", "EKN", "M", "EN", "E", "EN", "MN"}, {"MK", "EKN", "MK/", "EK/N", "E", "EN", "MN"}},
    {{"NM", "MK", "EN", "EK", "E", NULL, "ENK"}, {"NM", "MK", "NM/", "M/K", "E", NULL, "ENK"}},
    {{"EMK", "EKN", "EM", "EN", NULL, "EN", "EMN"},
     {"EMK", "EKN", "EMK/", "EK/N", NULL, "EN", "EMN"}},
};

#define UNKNOWN_SIZE INT64_MIN

/* Checks the dimensions of `type` against `letters`; sizes: what each letter is so far. */
static bool verify_letters(MlirOperation op, const char *kind, const char *name, MlirType type,
                           const char *letters, int64_t sizes[26]) {
  int rank = 0;
  for (const char *c = letters; *c; c++)
    rank += *c != '/';
  if (mlirShapedTypeGetRank(type) != rank)
    return moe__error(op, "%s '%s' has rank %d; it must be %d", kind, name,
                      (int)mlirShapedTypeGetRank(type), rank);
  int i = 0;
  for (const char *c = letters; *c; c++, i++) {
    int64_t *size = &sizes[*c - 'A'];
    bool blocks = c[1] == '/';
    if (*size == UNKNOWN_SIZE && !blocks)
      *size = moe__static_dimension(type, i);
    if (blocks && *size > 0 && *size % MOE__MX_BLOCK)
      return moe__error(op,
                        "the dimension of size %lld that '%s' has a scale for each 32 of must be a "
                        "multiple of 32",
                        (long long)*size, name);
    if (!moe__verify_dimension(op, kind, name, type, i,
                               blocks && *size > 0 ? *size / MOE__MX_BLOCK : *size))
      return false;
    c += blocks;
  }
  return true;
}

/* What f32 scales of rank 1 are: one for each expert, or for all tokens of a forward product one (an
 * empty string), unless there is one for each of these. */
static const char *few_scales(moe__mm_case_t which, int tensor, MlirType type) {
  if (which != MOE__FORWARD || tensor == SB)
    return "E";
  return moe__static_dimension(type, 0) == 1 ? "" : "M";
}

/* MOE__NO_CASE after an error. */
static moe__mm_case_t verify_case(MlirOperation op, const char *a_name, const char *b_name) {
  moe__mm_case_t which = moe__mm_case(op);
  if (which == MOE__NO_CASE)
    moe__error(
        op,
        "operands '%s' and '%s' have ranks %d and %d; they must be 2 and 3, 2 and 2, or 3 and "
        "3",
        a_name, b_name,
        (int)mlirShapedTypeGetRank(mlirValueGetType(mlirOperationGetOperand(op, 0))),
        (int)mlirShapedTypeGetRank(mlirValueGetType(mlirOperationGetOperand(op, 1))));
  return which;
}

static void forget_sizes(int64_t sizes[26]) {
  for (int i = 0; i < 26; i++)
    sizes[i] = UNKNOWN_SIZE;
}

static bool verify_experts(MlirOperation op, const int64_t sizes[26]) {
  int64_t experts = sizes['E' - 'A'];
  return experts <= MOE__MAX_EXPERTS ||
         moe__error(op, "there are %lld experts; there may be at most %d", (long long)experts,
                    MOE__MAX_EXPERTS);
}

/* Whether the tensors are there that the case has, and no others. */
static bool verify_presence(MlirOperation op, const char *const letters[MM_TENSORS],
                            const MlirType types[MM_TENSORS]) {
  if (letters[OFFS] && mlirTypeIsNull(types[OFFS]))
    return moe__error(op, "operand 'offs' is missing; it gives the groups");
  if (!letters[BIAS] && !mlirTypeIsNull(types[BIAS]))
    return moe__error(op, "operand 'bias' must not be there: a gradient of weights has none");
  return letters[OFFS] || mlirTypeIsNull(types[OFFS]) ||
         moe__error(op, "operand 'offs' must not be there: the batches are the groups");
}

bool moe__verify_scaled_mm(MlirOperation op) {
  MlirType types[MM_TENSORS] = {{NULL}};
  int offs = moe__mm_offs_operand(op), bias = moe__mm_bias_operand(op);
  for (int i = 0; i <= SB; i++)
    types[i] = mlirValueGetType(mlirOperationGetOperand(op, i));
  if (offs >= 0)
    types[OFFS] = mlirValueGetType(mlirOperationGetOperand(op, offs));
  if (bias >= 0)
    types[BIAS] = mlirValueGetType(mlirOperationGetOperand(op, bias));
  types[OUT] = mlirValueGetType(mlirOperationGetResult(op, 0));
  moe__mm_case_t which = verify_case(op, MM_NAMES[QA], MM_NAMES[QB]);
  if (which == MOE__NO_CASE)
    return false;
  bool mx = mlirTypeIsAFloat8E8M0FNU(mlirShapedTypeGetElementType(types[SA]));
  if (mx != mlirTypeIsAFloat8E8M0FNU(mlirShapedTypeGetElementType(types[SB])))
    return moe__error(op, "operands 'sa' and 'sb' must both be f32 or both f8E8M0FNU");
  const char *const *letters = mx ? MM_CASES[which].mx : MM_CASES[which].fp32;
  if (!verify_presence(op, letters, types))
    return false;
  int64_t sizes[26];
  forget_sizes(sizes);
  for (int i = 0; i < MM_TENSORS; i++) {
    if (mlirTypeIsNull(types[i]))
      continue;
    bool few = !mx && (i == SA || i == SB) && mlirShapedTypeGetRank(types[i]) == 1;
    const char *shape = few ? few_scales(which, i, types[i]) : letters[i];
    if (*shape &&
        !verify_letters(op, i == OUT ? "result" : "operand", MM_NAMES[i], types[i], shape, sizes))
      return false;
  }
  if (bias >= 0 && !mlirTypeEqual(mlirShapedTypeGetElementType(types[BIAS]),
                                  mlirShapedTypeGetElementType(types[OUT])))
    return moe__error(op, "operand 'bias' must have the element type of 'out'");
  return verify_experts(op, sizes);
}

static const char *const GROUPED_NAMES[] = {"a", "b", "offs", "out"};

/* The shapes of a, b and offs, and of out, as above. */
static const char *const GROUPED_CASES[][4] = {
    [MOE__FORWARD] = {"MK", "EKN", "E", "MN"},
    [MOE__GRADIENT] = {"NM", "MK", "E", "ENK"},
    [MOE__BATCHED] = {"EMK", "EKN", NULL, "EMN"},
};

bool moe__verify_grouped_mm(MlirOperation op) {
  enum { GROUPED_OFFS = 2, GROUPED_OUT = 3 };
  moe__mm_case_t which = verify_case(op, GROUPED_NAMES[0], GROUPED_NAMES[1]);
  if (which == MOE__NO_CASE)
    return false;
  const char *const *letters = GROUPED_CASES[which];
  bool has_offs = mlirOperationGetNumOperands(op) > GROUPED_OFFS;
  if (has_offs != (letters[GROUPED_OFFS] != NULL))
    return moe__error(op, has_offs ? "operand 'offs' must not be there: the batches are the groups"
                                   : "operand 'offs' is missing; it gives the groups");
  int64_t sizes[26];
  forget_sizes(sizes);
  for (int i = 0; i < mlirOperationGetNumOperands(op); i++)
    if (!verify_letters(op, "operand", GROUPED_NAMES[i],
                        mlirValueGetType(mlirOperationGetOperand(op, i)), letters[i], sizes))
      return false;
  return verify_letters(op, "result", GROUPED_NAMES[GROUPED_OUT],
                        mlirValueGetType(mlirOperationGetResult(op, 0)), letters[GROUPED_OUT],
                        sizes) &&
         verify_experts(op, sizes);
}
