/* Verify.c - checks what the ops of the project's dialects mean; IRDL has checked how they are
 * built. How the shapes of products belong together is in VerifyProducts.c.
 *
 * Every message names the operand, result or attribute, the value found and the values allowed.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "passes/Verify.h"
#include "lib/Builder/Shapes.h"
#include "passes/Passes.h"

#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/BuiltinTypes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_RANK 5               /* of the tensor memory accelerator */
#define MAX_DIMENSION 2147483647 /* its coordinates are signed 32-bit integers */

/* ---- Element types ---- */

typedef struct element_t {
  const char *name;
  bool (*is)(MlirType type);
} element_t;

static bool is_integer(MlirType type, unsigned width) {
  return mlirTypeIsAInteger(type) && mlirIntegerTypeIsSignless(type) &&
         mlirIntegerTypeGetWidth(type) == width;
}
static bool is_i4(MlirType type) {
  return is_integer(type, 4);
}
static bool is_i32(MlirType type) {
  return is_integer(type, 32);
}

#define BF16                                                                                       \
  { "bf16", mlirTypeIsABF16 }
#define F16                                                                                        \
  { "f16", mlirTypeIsAF16 }
#define F32                                                                                        \
  { "f32", mlirTypeIsAF32 }
#define E4M3                                                                                       \
  { "f8E4M3FN", mlirTypeIsAFloat8E4M3FN }
#define E5M2                                                                                       \
  { "f8E5M2", mlirTypeIsAFloat8E5M2 }
#define E8M0                                                                                       \
  { "f8E8M0FNU", mlirTypeIsAFloat8E8M0FNU }
#define I4                                                                                         \
  { "i4", is_i4 }
#define I32                                                                                        \
  { "i32", is_i32 }

#define MAX_ALTERNATIVES 6

/* "a", "a or b", "a, b or c" into out. */
static void join(char *out, size_t size, const char *const *words, int count) {
  out[0] = '\0';
  for (int i = 0; i < count; i++) {
    const char *separator = i == 0 ? "" : i == count - 1 ? " or " : ", ";
    size_t used = strlen(out);
    snprintf(out + used, size - used, "%s%s", separator, words[i]);
  }
}

/* ---- What each op has ---- */

typedef struct tensor_rule_t {
  const char *name;
  element_t elements[MAX_ALTERNATIVES];
} tensor_rule_t;

typedef struct string_rule_t {
  const char *name;
  const char *values[MAX_ALTERNATIVES];
  bool optional;
} string_rule_t;

#define MAX_OPERANDS 6
#define MAX_STRINGS 2
#define MAX_INTEGERS 2
#define MAX_BOOLS 2

typedef struct op_rule_t {
  const char *name;
  tensor_rule_t operands[MAX_OPERANDS], results[6];
  string_rule_t strings[MAX_STRINGS]; /* name NULL: no more */
  const char *integers[MAX_INTEGERS];
  const char *bools[MAX_BOOLS];
  bool (*meaning)(MlirOperation op); /* NULL: nothing beyond the above */
} op_rule_t;

static bool verify_quantize(MlirOperation op);
static bool verify_quantize_dual(MlirOperation op);
static bool verify_dequantize(MlirOperation op);
static bool verify_fp8(MlirOperation op);
static bool verify_fp8_dual(MlirOperation op);
static bool verify_fp8_pair(MlirOperation op);
static bool verify_pack_scales(MlirOperation op);
static bool verify_move_groups(MlirOperation op);

#define HIGH_PRECISION                                                                             \
  { BF16, F32 }
#define FP8                                                                                        \
  { E4M3, E5M2 }

#define SCALED_OPERANDS                                                                            \
  {"qa", FP8}, {"qb", FP8}, {"sa", {F32, E8M0}}, {                                                 \
    "sb", {                                                                                        \
      F32, E8M0                                                                                    \
    }                                                                                              \
  }

#define MX_MODES                                                                                   \
  {                                                                                                \
    "mode", {                                                                                      \
      "floor", "rceil", "ceil", "even"                                                             \
    }                                                                                              \
  }
#define GRANULARITY_NAME(constant, name) name,
#define GRANULARITY                                                                                \
  {                                                                                                \
    "granularity", {                                                                               \
      MOE__GRANULARITIES(GRANULARITY_NAME)                                                         \
    }                                                                                              \
  }
#define ELEMENT                                                                                    \
  {                                                                                                \
    "element", {                                                                                   \
      "f8E4M3FN", "f8E5M2"                                                                         \
    }                                                                                              \
  }
#define ANY_ROWS                                                                                   \
  { BF16, F32, E4M3, E5M2 }

static const op_rule_t RULES[] = {
    {.name = "mx_quantize.quantize",
     .operands = {{"x", HIGH_PRECISION}},
     .results = {{"q", FP8}, {"scales", {E8M0}}},
     .strings = {MX_MODES},
     .integers = {"axis", "block"},
     .meaning = verify_quantize},
    {.name = "mx_quantize.quantize_dual",
     .operands = {{"x", HIGH_PRECISION}},
     .results = {{"q", FP8}, {"scales", {E8M0}}, {"q_t", FP8}, {"scales_t", {E8M0}}},
     .strings = {MX_MODES},
     .integers = {"block"},
     .meaning = verify_quantize_dual},
    {.name = "mx_quantize.dequantize",
     .operands = {{"q", FP8}, {"scales", {E8M0}}},
     .results = {{"x", HIGH_PRECISION}},
     .integers = {"axis", "block"},
     .meaning = verify_dequantize},
    {.name = "mx_quantize.quantize_fp8",
     .operands = {{"x", HIGH_PRECISION}, {"offs", {I32}}},
     .results = {{"q", FP8}, {"scales", {F32}}},
     .strings = {GRANULARITY},
     .integers = {"axis"},
     .bools = {"pow2", "sanitize"},
     .meaning = verify_fp8},
    {.name = "mx_quantize.quantize_fp8_dual",
     .operands = {{"x", HIGH_PRECISION}, {"offs", {I32}}},
     .results = {{"q", FP8}, {"scales", {F32}}, {"q_t", FP8}, {"scales_t", {F32}}},
     .bools = {"pow2", "sanitize"},
     .meaning = verify_fp8_dual},
    {.name = "mx_quantize.quantize_fp8_pair",
     .operands = {{"x", HIGH_PRECISION}, {"y", HIGH_PRECISION}, {"offs", {I32}}},
     .results = {{"q", FP8}, {"scales", {F32}}, {"q_y", FP8}, {"scales_y", {F32}}},
     .bools = {"pow2", "sanitize"},
     .meaning = verify_fp8_pair},
    {.name = "mx_quantize.scale_fp8",
     .operands = {{"x", HIGH_PRECISION}, {"offs", {I32}}},
     .results = {{"scales", {F32}}, {"factors", {F32}}, {"state", {I32}}},
     .strings = {GRANULARITY, ELEMENT},
     .integers = {"axis"},
     .bools = {"pow2", "sanitize"},
     .meaning = verify_fp8},
    {.name = "mx_quantize.cast_fp8",
     .operands = {{"x", HIGH_PRECISION}, {"factors", {F32}}, {"offs", {I32}}},
     .results = {{"q", FP8}},
     .strings = {GRANULARITY},
     .integers = {"axis"},
     .bools = {"sanitize"},
     .meaning = verify_fp8},
    {.name = "mx_quantize.scale_fp8_dual",
     .operands = {{"x", HIGH_PRECISION}, {"offs", {I32}}},
     .results = {{"scales", {F32}},
                 {"factors", {F32}},
                 {"state", {I32}},
                 {"scales_t", {F32}},
                 {"factors_t", {F32}},
                 {"state_t", {I32}}},
     .strings = {ELEMENT},
     .bools = {"pow2", "sanitize"},
     .meaning = verify_fp8_dual},
    {.name = "mx_quantize.cast_fp8_dual",
     .operands = {{"x", HIGH_PRECISION}, {"factors", {F32}}, {"factors_t", {F32}}, {"offs", {I32}}},
     .results = {{"q", FP8}, {"q_t", FP8}},
     .bools = {"sanitize"},
     .meaning = verify_fp8_dual},
    {.name = "mx_quantize.scale_fp8_pair",
     .operands = {{"x", HIGH_PRECISION}, {"y", HIGH_PRECISION}, {"offs", {I32}}},
     .results = {{"scales", {F32}},
                 {"factors", {F32}},
                 {"state", {I32}},
                 {"scales_y", {F32}},
                 {"factors_y", {F32}},
                 {"state_y", {I32}}},
     .strings = {ELEMENT},
     .bools = {"pow2", "sanitize"},
     .meaning = verify_fp8_pair},
    {.name = "mx_quantize.cast_fp8_pair",
     .operands = {{"x", HIGH_PRECISION},
                  {"y", HIGH_PRECISION},
                  {"factors", {F32}},
                  {"factors_y", {F32}},
                  {"offs", {I32}}},
     .results = {{"q", FP8}, {"q_y", FP8}},
     .bools = {"sanitize"},
     .meaning = verify_fp8_pair},
    {.name = "mx_quantize.dequantize_fp8",
     .operands = {{"q", FP8}, {"scales", {F32}}, {"offs", {I32}}},
     .results = {{"x", HIGH_PRECISION}},
     .strings = {GRANULARITY},
     .integers = {"axis"},
     .meaning = verify_fp8},
    {.name = "mx_quantize.pack_scales",
     .operands = {{"scales", {E8M0}}, {"offs", {I32}}},
     .results = {{"packed", {E8M0}}},
     .strings = {{"layout", {"128x4"}}},
     .meaning = verify_pack_scales},
    {.name = "mx_quantize.pad_groups",
     .operands = {{"x", ANY_ROWS}, {"offs", {I32}}},
     .results = {{"padded", ANY_ROWS}, {"padded_offs", {I32}}},
     .integers = {"align"},
     .meaning = verify_move_groups},
    {.name = "mx_quantize.unpad_groups",
     .operands = {{"padded", ANY_ROWS}, {"offs", {I32}}, {"padded_offs", {I32}}},
     .results = {{"x", ANY_ROWS}},
     .integers = {"align"},
     .meaning = verify_move_groups},
    {.name = "scaled_grouped_mm.grouped_mm",
     .operands = {{"a", {BF16}}, {"b", {BF16}}, {"offs", {I32}}},
     .results = {{"out", {BF16, F16, F32}}},
     .strings = {{"recipe", {"fp8_rowwise", "fp8_tensorwise", "mxfp8"}},
                 {"accumulate", {"fast", "promoted"}, .optional = true}},
     .meaning = moe__verify_grouped_mm},
    {.name = "scaled_grouped_mm.scaled_mm",
     .operands = {SCALED_OPERANDS, {"offs", {I32}}},
     .results = {{"out", {BF16, F16, F32}}},
     .strings = {{"accumulate", {"fast", "promoted"}}},
     .meaning = moe__verify_scaled_mm},
    {.name = "scaled_grouped_mm.scaled_mm_bias",
     .operands = {SCALED_OPERANDS, {"offs", {I32}}, {"bias", {BF16, F16, F32}}},
     .results = {{"out", {BF16, F16, F32}}},
     .strings = {{"accumulate", {"fast", "promoted"}}},
     .meaning = moe__verify_scaled_mm},
    {.name = "scaled_grouped_mm.mixed_mm",
     .operands = {{"w", {I4}}, {"scales", {BF16, F16}}, {"x", {BF16, F16}}, {"offs", {I32}}},
     .results = {{"out", {BF16, F16}}},
     .integers = {"group_size"}},
};

/* What every op of ours may carry besides: written by passes, or by whoever tunes a kernel. */
static const char *const COMMON_ATTRIBUTES[] = {"schedule", "kernel", "operandSegmentSizes"};

/* ---- Tensors ---- */

static bool verify_element(MlirOperation op, const char *kind, const tensor_rule_t *rule,
                           MlirType type) {
  MlirType element = mlirShapedTypeGetElementType(type);
  const char *names[MAX_ALTERNATIVES];
  int count = 0;
  while (count < MAX_ALTERNATIVES && rule->elements[count].name) {
    if (rule->elements[count].is(element))
      return true;
    names[count] = rule->elements[count].name;
    count++;
  }
  char allowed[128];
  join(allowed, sizeof allowed, names, count);
  char *found = moe__type_text(element);
  moe__error(op, "%s '%s' has element type %s; it must be %s", kind, rule->name, found, allowed);
  free(found);
  return false;
}

static bool verify_encoding(MlirOperation op, const char *kind, const tensor_rule_t *rule,
                            MlirType type) {
  int order[MOE__MAX_RANK];
  if (moe__memory_order(type, order))
    return true;
  char *found = moe__attribute_text(mlirRankedTensorTypeGetEncoding(type));
  moe__error(op, "%s '%s' has encoding %s; it must be a permutation of its %d dimensions", kind,
             rule->name, found, (int)mlirShapedTypeGetRank(type));
  free(found);
  return false;
}

static bool verify_tensor(MlirOperation op, const char *kind, const tensor_rule_t *rule,
                          MlirType type) {
  int rank = (int)mlirShapedTypeGetRank(type);
  if (rank < 1 || rank > MAX_RANK)
    return moe__error(op, "%s '%s' has rank %d; it must be 1 to %d", kind, rule->name, rank,
                      MAX_RANK);
  for (int i = 0; i < rank; i++) {
    if (mlirShapedTypeIsDynamicDim(type, i))
      continue;
    int64_t size = mlirShapedTypeGetDimSize(type, i);
    if (size < 1 || size > MAX_DIMENSION)
      return moe__error(op, "%s '%s' has dimension %d of size %lld; a static size must be 1 to %d",
                        kind, rule->name, i, (long long)size, MAX_DIMENSION);
  }
  return verify_element(op, kind, rule, type) && verify_encoding(op, kind, rule, type);
}

/* ---- Attributes ---- */

static bool is_common_attribute(MlirStringRef name) {
  /* A dotted name is a discardable attribute of some dialect, which MLIR lets stand on any op. */
  if (memchr(name.data, '.', name.length))
    return true;
  for (size_t i = 0; i < sizeof COMMON_ATTRIBUTES / sizeof *COMMON_ATTRIBUTES; i++)
    if (mlirStringRefEqual(name, mlirStringRefCreateFromCString(COMMON_ATTRIBUTES[i])))
      return true;
  return false;
}

static bool verify_attribute_names(MlirOperation op, const op_rule_t *rule) {
  const char *known[MAX_INTEGERS + MAX_STRINGS + MAX_BOOLS + 1];
  int count = 0;
  for (int i = 0; i < MAX_INTEGERS && rule->integers[i]; i++)
    known[count++] = rule->integers[i];
  for (int i = 0; i < MAX_STRINGS && rule->strings[i].name; i++)
    known[count++] = rule->strings[i].name;
  for (int i = 0; i < MAX_BOOLS && rule->bools[i]; i++)
    known[count++] = rule->bools[i];
  known[count++] = "schedule";
  for (intptr_t i = 0; i < mlirOperationGetNumAttributes(op); i++) {
    MlirStringRef name = mlirIdentifierStr(mlirOperationGetAttribute(op, i).name);
    bool found = is_common_attribute(name);
    for (int j = 0; j < count; j++)
      found |= mlirStringRefEqual(name, mlirStringRefCreateFromCString(known[j]));
    if (!found) {
      char allowed[128];
      join(allowed, sizeof allowed, known, count);
      return moe__error(op, "unknown attribute '%.*s'; the op has %s", (int)name.length, name.data,
                        allowed);
    }
  }
  return true;
}

static bool verify_kernel(MlirOperation op) {
  MlirAttribute kernel = moe__op_attribute(op, "kernel");
  if (mlirAttributeIsNull(kernel) || mlirAttributeIsASymbolRef(kernel))
    return true;
  char *found = moe__attribute_text(kernel);
  moe__error(op, "attribute 'kernel' is %s; it must be the symbol of a kernel", found);
  free(found);
  return false;
}

/* The attribute `name` must be an integer of `width` bits, which is called `type_name`. */
static bool verify_integer(MlirOperation op, const char *name, unsigned width,
                           const char *type_name) {
  MlirType type = mlirAttributeGetType(moe__op_attribute(op, name));
  if (is_integer(type, width))
    return true;
  char *found = moe__type_text(type);
  moe__error(op, "attribute '%s' has type %s; it must be %s", name, found, type_name);
  free(found);
  return false;
}

static bool verify_integers(MlirOperation op, const op_rule_t *rule) {
  for (int i = 0; i < MAX_INTEGERS && rule->integers[i]; i++)
    if (!verify_integer(op, rule->integers[i], 64, "i64"))
      return false;
  for (int i = 0; i < MAX_BOOLS && rule->bools[i]; i++)
    if (!verify_integer(op, rule->bools[i], 1, "a bool, true or false"))
      return false;
  return true;
}

static bool verify_string(MlirOperation op, const string_rule_t *rule) {
  /* IRDL has checked those that must be there. */
  MlirAttribute attribute = moe__op_attribute(op, rule->name);
  if (rule->optional && mlirAttributeIsNull(attribute))
    return true;
  if (!mlirAttributeIsAString(attribute)) {
    char *found = moe__attribute_text(attribute);
    moe__error(op, "attribute '%s' is %s; it must be a string", rule->name, found);
    free(found);
    return false;
  }
  MlirStringRef value = mlirStringAttrGetValue(attribute);
  const char *quoted[MAX_ALTERNATIVES];
  int count = 0;
  while (count < MAX_ALTERNATIVES && rule->values[count]) {
    if (mlirStringRefEqual(value, mlirStringRefCreateFromCString(rule->values[count])))
      return true;
    quoted[count] = rule->values[count];
    count++;
  }
  char allowed[128];
  join(allowed, sizeof allowed, quoted, count);
  return moe__error(op, "attribute '%s' is \"%.*s\"; it must be %s", rule->name, (int)value.length,
                    value.data, allowed);
}

static bool verify_strings(MlirOperation op, const op_rule_t *rule) {
  for (int i = 0; i < MAX_STRINGS && rule->strings[i].name; i++)
    if (!verify_string(op, &rule->strings[i]))
      return false;
  return true;
}

/* ---- Shapes ---- */

int64_t moe__static_dimension(MlirType type, int i) {
  return mlirShapedTypeIsDynamicDim(type, i) ? -1 : mlirShapedTypeGetDimSize(type, i);
}

static const char *size_text(int64_t size, char out[24]) {
  if (size < 0)
    return "?";
  snprintf(out, 24, "%lld", (long long)size);
  return out;
}

bool moe__verify_dimension(MlirOperation op, const char *kind, const char *name, MlirType type,
                           int i, int64_t expected) {
  char found_text[24], expected_text[24];
  int64_t found = moe__static_dimension(type, i);
  return found == expected ||
         moe__error(op, "%s '%s' has dimension %d of size %s; it must be %s", kind, name, i,
                    size_text(found, found_text), size_text(expected, expected_text));
}

static bool verify_rank(MlirOperation op, const char *kind, const char *name, MlirType type,
                        int rank) {
  int found = (int)mlirShapedTypeGetRank(type);
  return found == rank || moe__error(op, "%s '%s' has rank %d; it must be %d, as the other tensors",
                                     kind, name, found, rank);
}

/* ---- mx_quantize ---- */

/* x, q and scales along `axis`; the kinds say which of them are operands. */
static bool verify_blocks(MlirOperation op, MlirType x, const char *q_kind, const char *q_name,
                          MlirType q, const char *scales_kind, MlirType scales) {
  int rank = (int)mlirShapedTypeGetRank(x);
  int64_t axis = moe__op_integer(op, "axis"), block = moe__op_integer(op, "block");
  if (axis < 0 || axis >= rank)
    return moe__error(op, "attribute 'axis' is %lld; it must be 0 to %d", (long long)axis,
                      rank - 1);
  if (block != MOE__MX_BLOCK)
    return moe__error(op, "attribute 'block' is %lld; it must be %d", (long long)block,
                      MOE__MX_BLOCK);
  if (!verify_rank(op, q_kind, q_name, q, rank) ||
      !verify_rank(op, scales_kind, "scales", scales, rank))
    return false;
  for (int i = 0; i < rank; i++) {
    int64_t size = moe__static_dimension(x, i);
    if (!moe__verify_dimension(op, q_kind, q_name, q, i, size))
      return false;
    if (i == axis && size >= 0) {
      if (size % MOE__MX_BLOCK)
        return moe__error(op, "dimension %d, the axis, has size %lld; it must be a multiple of %d",
                          i, (long long)size, MOE__MX_BLOCK);
      size /= MOE__MX_BLOCK;
    }
    if (!moe__verify_dimension(op, scales_kind, "scales", scales, i, size))
      return false;
  }
  return true;
}

/* What a size is where the operands' types say it; -1 where they do not. */
static int64_t static_size(MlirOperation op, const moe__size_t *size) {
  int64_t value = 1, groups = 0;
  if (size->operand >= 0)
    value = moe__static_dimension(mlirValueGetType(mlirOperationGetOperand(op, size->operand)),
                                  size->dimension);
  if (size->groups_operand >= 0)
    groups = moe__static_dimension(
        mlirValueGetType(mlirOperationGetOperand(op, size->groups_operand)), 0);
  if (value < 0 || groups < 0)
    return -1;
  return size->multiple * ((value + size->divisor - 1) / size->divisor + groups);
}

static bool verify_shape(MlirOperation op, const char *kind, const char *name, MlirType type,
                         const moe__shape_t *shape) {
  int rank = (int)mlirShapedTypeGetRank(type);
  if (rank != shape->rank)
    return moe__error(op, "%s '%s' has rank %d; it must be %d", kind, name, rank, shape->rank);
  for (int i = 0; i < rank; i++)
    if (!moe__verify_dimension(op, kind, name, type, i, static_size(op, &shape->sizes[i])))
      return false;
  return true;
}

static const op_rule_t *find_rule(MlirOperation op);

/* All results have the shapes that follow from the operands. */
static bool verify_results(MlirOperation op) {
  const op_rule_t *rule = find_rule(op);
  for (int i = 0; i < mlirOperationGetNumResults(op); i++) {
    moe__shape_t shape;
    if (!moe__result_shape(op, i, &shape) ||
        !verify_shape(op, "result", rule->results[i].name,
                      mlirValueGetType(mlirOperationGetResult(op, i)), &shape))
      return false;
  }
  return true;
}

static bool verify_rank_of(MlirOperation op, int operand, int least, int most) {
  int rank = (int)mlirShapedTypeGetRank(mlirValueGetType(mlirOperationGetOperand(op, operand)));
  if (rank >= least && rank <= most)
    return true;
  const char *name = find_rule(op)->operands[operand].name;
  if (least == most)
    return moe__error(op, "operand '%s' has rank %d; it must be %d", name, rank, least);
  return moe__error(op, "operand '%s' has rank %d; it must be %d to %d", name, rank, least, most);
}

/* offs, operand number `operand` if there is one. */
static bool verify_offs(MlirOperation op, int operand) {
  MlirValue offs = moe__op_operand(op, operand);
  if (mlirValueIsNull(offs))
    return true;
  if (!verify_rank_of(op, operand, 1, 1))
    return false;
  int64_t groups = moe__static_dimension(mlirValueGetType(offs), 0);
  return groups <= MOE__MAX_EXPERTS ||
         moe__error(op, "there are %lld groups; there may be at most %d", (long long)groups,
                    MOE__MAX_EXPERTS);
}

static bool verify_quantize_dual(MlirOperation op) {
  MlirType x = mlirValueGetType(mlirOperationGetOperand(op, 0));
  int64_t block = moe__op_integer(op, "block");
  if (block != MOE__MX_BLOCK)
    return moe__error(op, "attribute 'block' is %lld; it must be %d", (long long)block,
                      MOE__MX_BLOCK);
  if (!verify_rank_of(op, 0, 2, 3))
    return false;
  int rank = (int)mlirShapedTypeGetRank(x);
  for (int i = rank - 2; i < rank; i++)
    if (moe__static_dimension(x, i) > 0 && moe__static_dimension(x, i) % MOE__MX_BLOCK)
      return moe__error(op,
                        "dimension %d has size %lld; both axes must have a multiple of %d, the "
                        "size of a block",
                        i, (long long)moe__static_dimension(x, i), MOE__MX_BLOCK);
  return verify_results(op);
}

/* ---- FP8 with f32 scales ---- */

/* What the ranks, the axis and the groups of each granularity are. */
static bool verify_granularity(MlirOperation op, int offs) {
  moe__granularity_t granularity = moe__op_granularity(op);
  const char *name = moe__granularity_name(granularity);
  int rank = (int)mlirShapedTypeGetRank(mlirValueGetType(mlirOperationGetOperand(op, 0)));
  int64_t axis = moe__op_integer(op, "axis");
  bool grouped = !mlirValueIsNull(moe__op_operand(op, offs));
  if (axis < rank - 2 || axis >= rank)
    return moe__error(op, "attribute 'axis' is %lld; it must be %d or %d, one of the last two",
                      (long long)axis, rank - 2, rank - 1);
  if ((granularity == MOE__1X128 || granularity == MOE__128X128) && axis != rank - 1)
    return moe__error(op,
                      "attribute 'axis' is %lld; with granularity \"%s\" it must be %d, the last",
                      (long long)axis, name, rank - 1);
  if (granularity == MOE__EXPERT && rank != 3)
    return moe__error(op, "the tensor has rank %d; with granularity \"expert\" it must be 3", rank);
  if ((granularity == MOE__GROUP || granularity == MOE__1X128) && rank != 2)
    return moe__error(op, "the tensor has rank %d; with granularity \"%s\" it must be 2", rank,
                      name);
  bool needs_groups = granularity == MOE__GROUP || (granularity == MOE__ROW && axis == 0);
  if (needs_groups && !grouped)
    return moe__error(op,
                      "operand 'offs' is missing; with granularity \"%s\" and axis %lld there is "
                      "a scale for each group",
                      name, (long long)axis);
  return needs_groups || !grouped ||
         moe__error(op,
                    "operand 'offs' must not be there: with granularity \"%s\" and axis %lld no "
                    "scale belongs to a group",
                    name, (long long)axis);
}

/* The operands between the `tensors` first ones and offs are scales or factors. */
static bool verify_scale_operands(MlirOperation op, int tensors, int offs) {
  for (int i = tensors; i < offs; i++) {
    moe__shape_t shape;
    moe__scales_shape(op, i, &shape);
    if (!verify_shape(op, "operand", find_rule(op)->operands[i].name,
                      mlirValueGetType(mlirOperationGetOperand(op, i)), &shape))
      return false;
  }
  return true;
}

static int offs_operand(MlirOperation op) {
  const op_rule_t *rule = find_rule(op);
  int i = 0;
  while (strcmp(rule->operands[i].name, "offs") != 0)
    i++;
  return i;
}

static bool verify_fp8(MlirOperation op) {
  int offs = offs_operand(op);
  return verify_rank_of(op, 0, 2, 3) && verify_offs(op, offs) && verify_granularity(op, offs) &&
         verify_scale_operands(op, 1, offs) && verify_results(op);
}

static bool verify_fp8_dual(MlirOperation op) {
  int offs = offs_operand(op);
  if (!verify_rank_of(op, 0, 2, 3) || !verify_offs(op, offs))
    return false;
  bool grouped = !mlirValueIsNull(moe__op_operand(op, offs));
  if (grouped != (mlirShapedTypeGetRank(mlirValueGetType(mlirOperationGetOperand(op, 0))) == 2))
    return moe__error(op, grouped
                              ? "operand 'offs' must not be there: experts are the groups"
                              : "operand 'offs' is missing; columns have a scale for each group");
  return verify_scale_operands(op, 1, offs) && verify_results(op);
}

/* Two tensors with the same rows. */
static bool verify_fp8_pair(MlirOperation op) {
  int offs = offs_operand(op);
  MlirType x = mlirValueGetType(mlirOperationGetOperand(op, 0)),
           y = mlirValueGetType(mlirOperationGetOperand(op, 1));
  return verify_rank_of(op, 0, 2, 2) && verify_rank_of(op, 1, 2, 2) &&
         moe__verify_dimension(op, "operand", "y", y, 0, moe__static_dimension(x, 0)) &&
         verify_offs(op, offs) && verify_scale_operands(op, 2, offs) && verify_results(op);
}

/* ---- Layouts ---- */

static bool verify_pack_scales(MlirOperation op) {
  return verify_rank_of(op, 0, 2, 2) && verify_offs(op, 1) && verify_results(op);
}

#define MAX_ALIGN 4096

static bool verify_move_groups(MlirOperation op) {
  int64_t align = moe__op_integer(op, "align");
  if (align < 1 || align > MAX_ALIGN)
    return moe__error(op, "attribute 'align' is %lld; it must be 1 to %d", (long long)align,
                      MAX_ALIGN);
  MlirType from = mlirValueGetType(mlirOperationGetOperand(op, 0)),
           to = mlirValueGetType(mlirOperationGetResult(op, 0));
  if (!mlirTypeEqual(mlirShapedTypeGetElementType(from), mlirShapedTypeGetElementType(to)))
    return moe__error(op, "the rows that come out must have the element type of those that go in");
  for (int i = 1; i < mlirOperationGetNumOperands(op); i++) {
    if (!verify_offs(op, i))
      return false;
    if (i == 2 &&
        !moe__verify_dimension(
            op, "operand", "padded_offs", mlirValueGetType(mlirOperationGetOperand(op, 2)), 0,
            moe__static_dimension(mlirValueGetType(mlirOperationGetOperand(op, 1)), 0)))
      return false;
  }
  return verify_rank_of(op, 0, 2, 2) && verify_results(op);
}

static bool verify_quantize(MlirOperation op) {
  return verify_blocks(op, mlirValueGetType(mlirOperationGetOperand(op, 0)), "result", "q",
                       mlirValueGetType(mlirOperationGetResult(op, 0)), "result",
                       mlirValueGetType(mlirOperationGetResult(op, 1)));
}

static bool verify_dequantize(MlirOperation op) {
  return verify_blocks(op, mlirValueGetType(mlirOperationGetResult(op, 0)), "operand", "q",
                       mlirValueGetType(mlirOperationGetOperand(op, 0)), "operand",
                       mlirValueGetType(mlirOperationGetOperand(op, 1)));
}

/* ---- The pass ---- */

static const op_rule_t *find_rule(MlirOperation op) {
  for (size_t i = 0; i < sizeof RULES / sizeof *RULES; i++)
    if (moe__op_is(op, RULES[i].name))
      return &RULES[i];
  return NULL;
}

/* The rule of operand number `operand`; a bias follows offs, which need not be there. */
static const tensor_rule_t *operand_rule(MlirOperation op, const op_rule_t *rule, int operand) {
  return &rule->operands[operand == moe__mm_bias_operand(op) ? MOE__MM_BIAS_RULE : operand];
}

static bool verify_op(MlirOperation op, void *user) {
  (void)user;
  const op_rule_t *rule = find_rule(op);
  if (!rule)
    return true;
  for (int i = 0; i < mlirOperationGetNumOperands(op); i++)
    if (!verify_tensor(op, "operand", operand_rule(op, rule, i),
                       mlirValueGetType(mlirOperationGetOperand(op, i))))
      return false;
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++)
    if (!verify_tensor(op, "result", &rule->results[i],
                       mlirValueGetType(mlirOperationGetResult(op, i))))
      return false;
  return verify_attribute_names(op, rule) && verify_kernel(op) && verify_integers(op, rule) &&
         verify_strings(op, rule) && (!rule->meaning || rule->meaning(op));
}

bool moe__run_verify(MlirOperation module, const moe__pass_t *pass) {
  (void)pass;
  return moe__walk(module, verify_op, NULL);
}
