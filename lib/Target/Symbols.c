/* Symbols.c - see Symbols.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Target/Symbols.h"

#include <string.h>

static int64_t least_common_multiple(int64_t x, int64_t y) {
  int64_t a = x, b = y;
  while (b) {
    int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return x / a * y;
}

/* The position of the symbol of this name. */
static size_t find_symbol(const moe__plan_t *plan, const char *name) {
  size_t index = 0;
  json_t *symbol = NULL;
  json_array_foreach(plan->symbols, index, symbol) {
    if (strcmp(json_string_value(json_object_get(symbol, "name")), name) == 0)
      break;
  }
  return index;
}

/* Puts `expression` in the place of a symbol, wherever it is inside `json`. Uses of a symbol are
 * several JSON strings. */
static void replace_symbol(json_t *json, const json_t *symbol, json_t *expression) {
  size_t index = 0;
  const char *key = NULL;
  json_t *value = NULL;
  json_array_foreach(json, index, value) {
    if (json_equal(value, symbol))
      json_array_set(json, index, expression);
    else if (value != expression)
      replace_symbol(value, symbol, expression);
  }
  json_object_foreach(json, key, value) {
    replace_symbol(value, symbol, expression); /* the operands of an expression: a list */
  }
}

/* What is known of a symbol: a multiple of `multiple`, `least` to `most`. */
typedef struct range_t {
  int64_t multiple, least, most;
} range_t;

/* A size that is rounded up: multiple * (ceil(symbol / divisor) + groups). The symbol is null where
 * its size is static. */
typedef struct rounded_t {
  json_t *symbol, *groups; /* borrowed; groups: null where there is no room for them */
  int64_t divisor, multiple;
} rounded_t;

static bool read_rounded(const json_t *size, rounded_t *out) {
  json_t *sum = NULL, *quotient = NULL;
  json_int_t divisor = 0, multiple = 0;
  *out = (rounded_t){0};
  if (json_unpack((json_t *)size, "{s[oI!]!}", "mul", &sum, &multiple))
    return false;
  out->multiple = multiple;
  if (json_unpack(sum, "{s[oo!]!}", "add", &quotient, &out->groups)) {
    quotient = sum;
    out->groups = NULL;
  }
  if (out->groups && json_is_integer(quotient))
    return true;
  if (json_unpack(quotient, "{s[oI!]!}", "ceildiv", &out->symbol, &divisor) ||
      !json_is_string(out->symbol))
    return false;
  out->divisor = divisor;
  return true;
}

static void restrict_symbol(moe__plan_t *plan, const char *name, const range_t *range) {
  json_t *symbol = json_array_get(plan->symbols, find_symbol(plan, name));
  json_t *multiple = json_object_get(symbol, "multiple_of"),
         *least = json_object_get(symbol, "min"), *most = json_object_get(symbol, "max");
  json_integer_set(multiple, least_common_multiple(json_integer_value(multiple), range->multiple));
  if (range->least > json_integer_value(least))
    json_integer_set(least, range->least);
  if (range->most < json_integer_value(most))
    json_integer_set(most, range->most);
}

static range_t range_of(const json_t *symbol) {
  json_int_t multiple = 1, least = 0, most = MOE__MAX_DIMENSION;
  json_unpack((json_t *)symbol, "{s:I, s:I, s:I}", "multiple_of", &multiple, "min", &least, "max",
              &most);
  return (range_t){multiple, least, most};
}

/* What is required of a size is required of its symbol. Static sizes were checked by passes. Of
 * one that is rounded up kernels require what its multiple has, and that it is at least that:
 * the symbol is not zero then. With room for groups it always is. */
static void restrict_size(moe__plan_t *plan, const json_t *size, const range_t *range) {
  rounded_t rounded;
  if (json_is_string(size))
    restrict_symbol(plan, json_string_value(size), range);
  else if (read_rounded(size, &rounded) && !rounded.groups && range->least > 0)
    restrict_symbol(
        plan, json_string_value(rounded.symbol),
        &(range_t){1, range->least > rounded.multiple ? range->least - rounded.multiple + 1 : 1,
                   MOE__MAX_DIMENSION});
}

/* Takes a symbol out of the function's: wherever it is there is `expression` from now on. */
static void replace_everywhere(moe__plan_t *plan, json_t *symbol, json_t *expression) {
  size_t index = find_symbol(plan, json_string_value(symbol));
  range_t range = range_of(json_array_get(plan->symbols, index));
  json_incref(symbol);
  json_array_remove(plan->symbols, index);
  for (size_t i = 0; i < plan->tensor_count; i++)
    replace_symbol(plan->tensors[i].shape, symbol, expression);
  json_decref(symbol);
  restrict_size(plan, expression, &range);
}

/* Gives a symbol inside `json` another name. */
static void rename_symbol(json_t *json, const char *from, const char *to) {
  size_t index = 0;
  const char *key = NULL;
  json_t *value = NULL;
  if (json_is_string(json) && strcmp(json_string_value(json), from) == 0)
    json_string_set(json, to);
  json_array_foreach(json, index, value) {
    rename_symbol(value, from, to);
  }
  json_object_foreach(json, key, value) {
    rename_symbol(value, from, to);
  }
}

/* One symbol for both, of which is required what was of each. */
static void unite_symbols(moe__plan_t *plan, const char *name, json_t *other) {
  if (strcmp(json_string_value(other), name) == 0)
    return;
  json_t *from = json_copy(other);
  size_t index = find_symbol(plan, json_string_value(from));
  range_t range = range_of(json_array_get(plan->symbols, index));
  json_array_remove(plan->symbols, index);
  for (size_t i = 0; i < plan->tensor_count; i++)
    rename_symbol(plan->tensors[i].shape, json_string_value(from), name);
  json_decref(from);
  restrict_symbol(plan, name, &range);
}

/* ceil(symbol / of) must be ceil(other / divisor), where `divisor` is a multiple of `of`: the
 * symbol is the quotient of the other size by that. */
static void apply_quotients(moe__plan_t *plan, json_t *symbol, json_int_t of, json_t *other,
                            int64_t divisor) {
  if (json_is_string(other) && divisor == of) {
    unite_symbols(plan, json_string_value(other), symbol);
  } else if (!json_is_integer(other) && !json_equal(symbol, other)) {
    json_t *expression = json_pack("{s[OI]}", "ceildiv", other, (json_int_t)(divisor / of));
    replace_everywhere(plan, symbol, expression);
    json_decref(expression);
  }
}

/* A symbol that must be the quotient of another size, and one more for each of `groups` (null:
 * none), is none of its own. */
static void apply_quotient(moe__plan_t *plan, json_t *symbol, json_t *other, int64_t divisor,
                           json_t *groups) {
  json_t *expression = NULL, *rounded = NULL;
  json_int_t of = 0;
  if (!groups && !json_unpack(symbol, "{s[oI!]!}", "ceildiv", &rounded, &of) &&
      json_is_string(rounded) && divisor % of == 0) {
    apply_quotients(plan, rounded, of, other, divisor);
    return;
  }
  if (!json_is_string(symbol)) /* passes compare static sizes */
    return;
  if (!json_is_integer(other))
    expression = json_pack("{s[OI]}", "ceildiv", other, (json_int_t)divisor);
  else if (groups && !json_is_integer(groups))
    expression = json_integer((json_integer_value(other) + divisor - 1) / divisor);
  else
    return;
  if (groups)
    expression = json_pack("{s[oO]}", "add", expression, groups);
  replace_everywhere(plan, symbol, expression);
  json_decref(expression);
}

/* The symbol must be `rounded`, as `expression` has it. */
static void round_symbol(moe__plan_t *plan, json_t *symbol, json_t *expression,
                         const rounded_t *rounded) {
  if (rounded->symbol && json_equal(symbol, rounded->symbol))
    restrict_symbol(plan, json_string_value(symbol),
                    &(range_t){rounded->multiple, 0, MOE__MAX_DIMENSION});
  else
    replace_everywhere(plan, symbol, expression);
}

static bool are_rounded_alike(const rounded_t *a, const rounded_t *b) {
  return a->symbol && b->symbol && a->divisor == b->divisor && a->multiple == b->multiple &&
         (a->groups ? json_equal(a->groups, b->groups) : !b->groups);
}

/* Two sizes must be the same. One that is rounded up stands for a symbol that must be as large;
 * two that are rounded up in the same way are so of one symbol. */
static void apply_same(moe__plan_t *plan, json_t *size, json_t *other) {
  rounded_t a, b;
  if (json_is_string(size) && json_is_string(other))
    unite_symbols(plan, json_string_value(size), other);
  else if (json_is_string(size) && read_rounded(other, &b))
    round_symbol(plan, size, other, &b);
  else if (json_is_string(other) && read_rounded(size, &a))
    round_symbol(plan, other, size, &a);
  else if (read_rounded(size, &a) && read_rounded(other, &b) && are_rounded_alike(&a, &b))
    unite_symbols(plan, json_string_value(a.symbol), b.symbol);
}

/* Static dimensions were checked by passes. */
static void apply_requirement(moe__plan_t *plan, MlirOperation launch,
                              const moe__requirement_t *requirement) {
  json_t *size = moe__plan_size(plan, launch, &requirement->dim);
  range_t range = {1, 0, MOE__MAX_DIMENSION};
  switch (requirement->kind) {
  case MOE__MULTIPLE_OF:
    range.multiple = requirement->value;
    break;
  case MOE__AT_LEAST:
    range.least = requirement->value;
    break;
  case MOE__AT_MOST:
    range.most = requirement->value;
    break;
  case MOE__SAME_AS:
    apply_same(plan, size, moe__plan_size(plan, launch, &requirement->other));
    return;
  case MOE__QUOTIENT_OF:
    apply_quotient(
        plan, size, moe__plan_size(plan, launch, &requirement->other), requirement->value,
        requirement->has_groups ? moe__plan_size(plan, launch, &requirement->groups) : NULL);
    return;
  }
  restrict_size(plan, size, &range);
}

void moe__symbols_restrict(moe__plan_t *plan) {
  for (size_t i = 0; i < plan->launch_count; i++) {
    const moe__plan_launch_t *launch = &plan->launches[i];
    for (int j = 0; j < launch->record.requirement_count; j++)
      apply_requirement(plan, launch->op, &launch->record.requirements[j]);
  }
}
