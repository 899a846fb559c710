/* Expression.c - parses and evaluates the sizes of a manifest.
 *
 * The vocabulary is fixed and small: a launcher in any language can have it in twenty lines.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Runtime/Expression.h"

#include "moe/limits.h"

#include <string.h>

enum { MAX_OPERANDS = 16 };

static moe_rt_status_t parse(const moe__rt_json_t *json, const moe__rt_symbols_t *symbols,
                             moe__rt_arena_t *arena, int depth, moe__rt_expression_t *out);

static moe_rt_status_t parse_name(const moe__rt_json_t *json, const moe__rt_symbols_t *symbols,
                                  moe__rt_expression_t *out) {
  const char *name = json_string_value(json->value);
  if (strcmp(name, "num_sms") == 0) {
    out->kind = MOE__RT_NUM_SMS;
    return MOE_RT_OK;
  }
  if (strcmp(name, "num_clusters") == 0) {
    out->kind = MOE__RT_NUM_CLUSTERS;
    return MOE_RT_OK;
  }
  for (int i = 0; i < symbols->count; i++) {
    if (strcmp(name, symbols->items[i].name) == 0) {
      out->kind = MOE__RT_SYMBOL;
      out->value = i;
      return MOE_RT_OK;
    }
  }
  return moe__rt_json_fail(json, "is '%.64s', which is not a symbol of this function", name);
}

static moe_rt_status_t parse_operation(const moe__rt_json_t *json, const moe__rt_symbols_t *symbols,
                                       moe__rt_arena_t *arena, int depth,
                                       moe__rt_expression_t *out) {
  static const struct {
    const char *name;
    moe__rt_expression_kind_t kind;
    int least, most;
  } operations[] = {
      {"ceildiv", MOE__RT_CEILDIV, 2, 2},
      {"mul", MOE__RT_MUL, 1, MAX_OPERANDS},
      {"add", MOE__RT_ADD, 1, MAX_OPERANDS},
      {"min", MOE__RT_MIN, 1, MAX_OPERANDS},
  };
  static const char *const fields[] = {"ceildiv", "mul", "add", "min", NULL};
  MOE__RT_TRY(moe__rt_json_object(json, fields));
  if (json_object_size(json->value) != 1)
    return moe__rt_json_fail(json, "must have one of the fields ceildiv, mul, add, min");
  if (depth >= MOE_MAX_DEPTH)
    return moe__rt_json_fail(json, "is nested more than %d deep", MOE_MAX_DEPTH);

  for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++) {
    moe__rt_json_t list = moe__rt_json_member(json, operations[i].name);
    if (!list.value)
      continue;
    out->kind = operations[i].kind;
    MOE__RT_TRY(
        moe__rt_json_array(&list, operations[i].least, operations[i].most, &out->operand_count));
    moe__rt_expression_t *operands =
        moe__rt_arena_allocate(arena, (size_t)out->operand_count, sizeof *operands);
    if (!operands)
      return moe__rt_fail_memory();
    out->operands = operands;
    for (int k = 0; k < out->operand_count; k++) {
      moe__rt_json_t element = moe__rt_json_element(&list, k);
      MOE__RT_TRY(parse(&element, symbols, arena, depth + 1, &operands[k]));
    }
    if (out->kind == MOE__RT_CEILDIV && operands[1].kind == MOE__RT_CONSTANT &&
        operands[1].value == 0)
      return moe__rt_json_fail(&list, "divides by zero");
  }
  return MOE_RT_OK;
}

static moe_rt_status_t parse(const moe__rt_json_t *json, const moe__rt_symbols_t *symbols,
                             moe__rt_arena_t *arena, int depth, moe__rt_expression_t *out) {
  *out = (moe__rt_expression_t){.kind = MOE__RT_CONSTANT};
  if (json_is_string(json->value))
    return parse_name(json, symbols, out);
  if (json_is_object(json->value))
    return parse_operation(json, symbols, arena, depth, out);
  return moe__rt_json_integer(json, 0, INT64_MAX, &out->value);
}

moe_rt_status_t moe__rt_expression_parse(const moe__rt_json_t *json,
                                         const moe__rt_symbols_t *symbols, moe__rt_arena_t *arena,
                                         moe__rt_expression_t *out_expression) {
  return parse(json, symbols, arena, 0, out_expression);
}

moe_rt_status_t moe__rt_expression_parse_size(const moe__rt_json_t *json,
                                              const moe__rt_symbols_t *symbols,
                                              moe__rt_arena_t *arena,
                                              moe__rt_expression_t *out_expression) {
  MOE__RT_TRY(moe__rt_expression_parse(json, symbols, arena, out_expression));
  if (moe__rt_expression_uses(out_expression, MOE__RT_NUM_CLUSTERS))
    return moe__rt_json_fail(json,
                             "depends on num_clusters; only the grid of a kernel with clusters "
                             "may");
  return MOE_RT_OK;
}

bool moe__rt_expression_uses(const moe__rt_expression_t *expression,
                             moe__rt_expression_kind_t kind) {
  if (expression->kind == kind)
    return true;
  for (int i = 0; i < expression->operand_count; i++) {
    if (moe__rt_expression_uses(&expression->operands[i], kind))
      return true;
  }
  return false;
}

/* The value of an operation from the values of its operands, folded from the left. */
static moe_rt_status_t combine(moe__rt_expression_kind_t kind, int64_t a, int64_t b, int64_t *out) {
  switch (kind) {
  case MOE__RT_CEILDIV:
    if (b == 0)
      return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "division of %lld by zero", (long long)a);
    *out = a / b + (a % b != 0);
    return MOE_RT_OK;
  case MOE__RT_MUL:
    if (__builtin_mul_overflow(a, b, out)) {
      return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "%lld times %lld does not fit 63 bits",
                          (long long)a, (long long)b);
    }
    return MOE_RT_OK;
  case MOE__RT_ADD:
    if (__builtin_add_overflow(a, b, out)) {
      return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "%lld plus %lld does not fit 63 bits",
                          (long long)a, (long long)b);
    }
    return MOE_RT_OK;
  default:
    *out = a < b ? a : b;
    return MOE_RT_OK;
  }
}

moe_rt_status_t moe__rt_expression_evaluate(const moe__rt_expression_t *expression,
                                            const moe__rt_bindings_t *bindings,
                                            int64_t *out_value) {
  switch (expression->kind) {
  case MOE__RT_CONSTANT:
    *out_value = expression->value;
    return MOE_RT_OK;
  case MOE__RT_SYMBOL:
    *out_value = bindings->symbols[expression->value];
    return MOE_RT_OK;
  case MOE__RT_NUM_SMS:
    if (bindings->num_sms == 0) {
      return moe__rt_fail(MOE_RT_NOT_PREPARED,
                          "depends on num_sms; load the program on a device first");
    }
    *out_value = bindings->num_sms;
    return MOE_RT_OK;
  case MOE__RT_NUM_CLUSTERS:
    *out_value = bindings->num_clusters;
    return MOE_RT_OK;
  default:
    break;
  }
  int64_t result = 0;
  for (int i = 0; i < expression->operand_count; i++) {
    int64_t operand = 0;
    MOE__RT_TRY(moe__rt_expression_evaluate(&expression->operands[i], bindings, &operand));
    if (i == 0)
      result = operand;
    else
      MOE__RT_TRY(combine(expression->kind, result, operand, &result));
  }
  *out_value = result;
  return MOE_RT_OK;
}
