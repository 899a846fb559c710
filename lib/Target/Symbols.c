/* Symbols.c - see Symbols.h.
 *
 * A requirement that two sizes are one is worked off in steps. Each step puts an expression in the
 * place of a symbol, or says more of one, until both sizes read alike. A step may demand more than
 * the requirement: two quotients are the same if what they are quotients of is. It never demands
 * less. Where there is no such step, the requirement is an error: a launcher could not check it.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Target/Symbols.h"

#include "lib/Dialect/Dialect.h"

#include "moe/limits.h"

#include <stdlib.h>
#include <string.h>

/* ---- Numbers ---- */

/* Larger products are this: beyond every size, and small enough to add to. */
#define LARGEST (INT64_MAX / 4)

static int64_t product(int64_t x, int64_t y) {
  int64_t value = 0;
  return __builtin_mul_overflow(x, y, &value) || value > LARGEST ? LARGEST : value;
}

static int64_t common_divisor(int64_t x, int64_t y) {
  while (y) {
    int64_t rest = x % y;
    x = y;
    y = rest;
  }
  return x;
}

static int64_t quotient(int64_t x, int64_t divisor) {
  return x / divisor + (x % divisor != 0);
}

/* ---- Symbols ---- */

/* What is known of a size: a multiple of `multiple`, `least` to `most`. */
typedef struct range_t {
  int64_t multiple, least, most;
} range_t;

static const range_t anything = {1, 0, MOE_MAX_DIMENSION};

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

static range_t range_of(const moe__plan_t *plan, const char *name) {
  json_t *symbol = json_array_get(plan->symbols, find_symbol(plan, name));
  json_int_t multiple = 1, least = 0, most = MOE_MAX_DIMENSION;
  json_unpack(symbol, "{s:I, s:I, s:I}", "multiple_of", &multiple, "min", &least, "max", &most);
  return (range_t){multiple, least, most};
}

/* False where no size is left. */
static bool restrict_symbol(moe__plan_t *plan, const char *name, const range_t *range) {
  json_t *symbol = json_array_get(plan->symbols, find_symbol(plan, name));
  range_t to = range_of(plan, name);
  to.multiple =
      product(to.multiple / common_divisor(to.multiple, range->multiple), range->multiple);
  if (range->least > to.least)
    to.least = range->least;
  if (range->most < to.most)
    to.most = range->most;
  json_integer_set(json_object_get(symbol, "multiple_of"), to.multiple);
  json_integer_set(json_object_get(symbol, "min"), to.least);
  json_integer_set(json_object_get(symbol, "max"), to.most);
  return to.most - to.most % to.multiple >= to.least;
}

/* ---- Expressions ---- */

/* Reads an expression of two operands: a ceildiv or a mul, whose second one is an integer, or an
 * add. */
static bool read_binary(const json_t *size, const char *name, json_t **out_x, json_t **out_y) {
  return json_unpack((json_t *)size, "{s[oo!]!}", name, out_x, out_y) == 0;
}

static bool read_scaled(const json_t *size, const char *name, json_t **out_x, int64_t *out_by) {
  json_t *by = NULL;
  if (!read_binary(size, name, out_x, &by) || !json_is_integer(by))
    return false;
  *out_by = json_integer_value(by);
  return true;
}

static bool contains(const json_t *size, const char *name) {
  size_t index = 0;
  const char *key = NULL;
  json_t *value = NULL;
  bool found = json_is_string(size) && strcmp(json_string_value(size), name) == 0;
  json_array_foreach(size, index, value) {
    found = found || contains(value, name);
  }
  json_object_foreach((json_t *)size, key, value) {
    found = found || contains(value, name);
  }
  return found;
}

/* The simplest form of x * by; x is given away. What is rounded up to a multiple that it has is
 * itself. */
static json_t *times(const moe__plan_t *plan, json_t *x, int64_t by) {
  json_t *of = NULL, *result = NULL;
  int64_t factor = 1, divisor = 1;
  if (by == 1)
    return x;
  if (json_is_integer(x))
    result = json_integer(product(json_integer_value(x), by));
  else if (read_scaled(x, "mul", &of, &factor))
    result = times(plan, json_incref(of), product(factor, by));
  else if (read_scaled(x, "ceildiv", &of, &divisor) && json_is_string(of) && by % divisor == 0 &&
           range_of(plan, json_string_value(of)).multiple % divisor == 0)
    result = times(plan, json_incref(of), by / divisor);
  else
    return json_pack("{s[oI]}", "mul", x, (json_int_t)by);
  json_decref(x);
  return result;
}

/* The simplest form of x / by, rounded up; x is given away. */
static json_t *divided(const moe__plan_t *plan, json_t *x, int64_t by) {
  json_t *of = NULL, *result = NULL;
  int64_t number = 1;
  if (by == 1)
    return x;
  if (json_is_integer(x)) {
    result = json_integer(quotient(json_integer_value(x), by));
  } else if (read_scaled(x, "ceildiv", &of, &number)) {
    result = divided(plan, json_incref(of), product(number, by));
  } else if (read_scaled(x, "mul", &of, &number) && common_divisor(number, by) > 1) {
    int64_t common = common_divisor(number, by);
    result = divided(plan, times(plan, json_incref(of), number / common), by / common);
  } else if (json_is_string(x)) {
    range_t range = range_of(plan, json_string_value(x));
    if (quotient(range.least, by) == quotient(range.most, by))
      result = json_integer(quotient(range.least, by));
  }
  if (!result)
    return json_pack("{s[oI]}", "ceildiv", x, (json_int_t)by);
  json_decref(x);
  return result;
}

/* x + y in its simplest form; both are given away. */
static json_t *plus(json_t *x, json_t *y) {
  if (!json_is_integer(x) || !json_is_integer(y))
    return json_pack("{s[oo]}", "add", x, y);
  json_t *sum = json_integer(json_integer_value(x) + json_integer_value(y));
  json_decref(x);
  json_decref(y);
  return sum;
}

/* The size in its simplest form, with `expression` in the place of a symbol (null: of none). */
static json_t *substituted(const moe__plan_t *plan, json_t *size, const json_t *symbol,
                           json_t *expression) {
  json_t *x = NULL, *y = NULL;
  int64_t by = 1;
  if (read_scaled(size, "ceildiv", &x, &by))
    return divided(plan, substituted(plan, x, symbol, expression), by);
  if (read_scaled(size, "mul", &x, &by))
    return times(plan, substituted(plan, x, symbol, expression), by);
  if (read_binary(size, "add", &x, &y))
    return plus(substituted(plan, x, symbol, expression), substituted(plan, y, symbol, expression));
  return json_incref(symbol && json_equal(size, symbol) ? expression : size);
}

/* In this form equal sizes are more often alike. */
static json_t *simplify(const moe__plan_t *plan, json_t *size) {
  return substituted(plan, size, NULL, NULL);
}

/* The least value that a size can have. */
static int64_t least_of(const moe__plan_t *plan, const json_t *size) {
  json_t *x = NULL, *y = NULL;
  int64_t by = 1;
  if (json_is_string(size))
    return range_of(plan, json_string_value(size)).least;
  if (read_scaled(size, "ceildiv", &x, &by))
    return quotient(least_of(plan, x), by);
  if (read_scaled(size, "mul", &x, &by))
    return product(least_of(plan, x), by);
  if (read_binary(size, "add", &x, &y))
    return least_of(plan, x) + least_of(plan, y);
  return json_integer_value(size);
}

/* ---- What is required of one size ---- */

static bool restrict_simple(moe__plan_t *plan, json_t *size, const range_t *range);

/* x + groups. There is at least one group where there must be anything; what is rounded up has the
 * rest. A multiple and a limit can be said of a sum only where one of both is known. */
static bool restrict_sum(moe__plan_t *plan, json_t *x, json_t *groups, const range_t *range) {
  bool x_is_known = json_is_integer(x);
  json_t *known = x_is_known ? x : groups, *other = x_is_known ? groups : x;
  range_t rest = anything;
  if (json_is_integer(known)) {
    int64_t value = json_integer_value(known);
    rest.multiple = range->multiple;
    rest.least = range->least > value ? range->least - value : 0;
    rest.most = range->most == MOE_MAX_DIMENSION ? range->most : range->most - value;
    return value % range->multiple == 0 && rest.most >= 0 && restrict_simple(plan, other, &rest);
  }
  if (range->multiple != 1 || range->most < MOE_MAX_DIMENSION)
    return false;
  if (least_of(plan, x) + least_of(plan, groups) >= range->least)
    return true;
  rest.least = 1;
  if (!restrict_simple(plan, groups, &rest))
    return false;
  int64_t of_groups = least_of(plan, groups);
  rest.least = range->least > of_groups ? range->least - of_groups : 0;
  return restrict_simple(plan, x, &rest);
}

/* ceil(x / by). That it is a multiple of m follows from x being one of m * by. The reverse is true
 * where x is a multiple of `by`: other sizes are refused, though the quotient of some would do. */
static range_t range_of_divided(const range_t *range, int64_t by) {
  return (range_t){.multiple = range->multiple == 1 ? 1 : product(range->multiple, by),
                   .least = range->least > 0 ? product(range->least - 1, by) + 1 : 0,
                   .most = range->most <= MOE_MAX_DIMENSION / by ? range->most * by
                                                                 : MOE_MAX_DIMENSION};
}

static range_t range_of_factor(const range_t *range, int64_t by) {
  return (range_t){.multiple = range->multiple / common_divisor(range->multiple, by),
                   .least = quotient(range->least, by),
                   .most = range->most < MOE_MAX_DIMENSION ? range->most / by : range->most};
}

/* Of a size in its simplest form. False where this can be said of no symbol, and where no size is
 * left. */
static bool restrict_simple(moe__plan_t *plan, json_t *size, const range_t *range) {
  json_t *x = NULL, *y = NULL;
  int64_t by = 1, value = json_integer_value(size);
  range_t inner = *range;
  if (json_is_integer(size))
    return value % range->multiple == 0 && value >= range->least && value <= range->most;
  if (json_is_string(size))
    return restrict_symbol(plan, json_string_value(size), range);
  if (read_binary(size, "add", &x, &y))
    return restrict_sum(plan, x, y, range);
  if (read_scaled(size, "ceildiv", &x, &by))
    inner = range_of_divided(range, by);
  else if (read_scaled(size, "mul", &x, &by))
    inner = range_of_factor(range, by);
  else
    return false;
  return restrict_simple(plan, x, &inner);
}

static bool restrict_size(moe__plan_t *plan, json_t *size, const range_t *range) {
  json_t *simple = simplify(plan, size);
  bool ok = restrict_simple(plan, simple, range);
  json_decref(simple);
  return ok;
}

/* ---- One symbol less ---- */

/* Takes a symbol out of the function's: wherever it is there is `expression` from now on, which
 * does not contain it. What was required of the symbol is required of the expression. Sizes of it
 * become simple, for a launcher does not take operations inside any number of others. */
static bool replace_everywhere(moe__plan_t *plan, json_t *symbol, json_t *expression) {
  const char *name = json_string_value(symbol);
  range_t range = range_of(plan, name);
  json_array_remove(plan->symbols, find_symbol(plan, name));
  for (size_t i = 0; i < plan->tensor_count; i++) {
    json_t *shape = plan->tensors[i].shape, *size = NULL;
    size_t d = 0;
    json_array_foreach(shape, d, size) {
      if (json_equal(size, symbol))
        json_array_set(shape, d, expression);
      else if (contains(size, name))
        json_array_set_new(shape, d, substituted(plan, size, symbol, expression));
    }
  }
  return restrict_size(plan, expression, &range);
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
static bool unite_symbols(moe__plan_t *plan, const char *name, json_t *other) {
  json_t *from = json_copy(other);
  range_t range = range_of(plan, json_string_value(from));
  json_array_remove(plan->symbols, find_symbol(plan, json_string_value(from)));
  for (size_t i = 0; i < plan->tensor_count; i++)
    rename_symbol(plan->tensors[i].shape, json_string_value(from), name);
  json_decref(from);
  return restrict_symbol(plan, name, &range);
}

/* ---- Two sizes that must be one ---- */

typedef enum step_t {
  ALIKE,     /* nothing was left to do */
  STEPPED,   /* a symbol is gone or restricted: the sizes must be looked up again */
  IMPOSSIBLE /* no symbols can say so */
} step_t;

static step_t stepped(bool ok) {
  return ok ? STEPPED : IMPOSSIBLE;
}

static step_t step(moe__plan_t *plan, json_t *a, json_t *b);

/* The same for sizes that are given away. */
static step_t step_new(moe__plan_t *plan, json_t *a, json_t *b) {
  step_t result = step(plan, a, b);
  json_decref(a);
  json_decref(b);
  return result;
}

/* A symbol is an expression of itself where that rounds it up to a multiple, and nothing else: with
 * room for groups it would be larger than itself. */
static step_t step_itself(moe__plan_t *plan, json_t *symbol, json_t *expression) {
  json_t *rounded = NULL, *of = NULL;
  int64_t factor = 1, divisor = 1;
  if (!read_scaled(expression, "mul", &rounded, &factor) ||
      !read_scaled(rounded, "ceildiv", &of, &divisor) || factor != divisor ||
      !json_equal(of, symbol))
    return IMPOSSIBLE;
  range_t range = anything;
  range.multiple = factor;
  return stepped(restrict_symbol(plan, json_string_value(symbol), &range));
}

/* A constant and what it must be. */
static step_t step_constant(moe__plan_t *plan, int64_t value, json_t *b) {
  json_t *x = NULL, *y = NULL;
  int64_t by = 1;
  if (read_scaled(b, "mul", &x, &by))
    return value % by ? IMPOSSIBLE : step_new(plan, json_integer(value / by), json_incref(x));
  if (read_scaled(b, "ceildiv", &x, &by) && json_is_string(x))
    return stepped(restrict_simple(plan, b, &(range_t){1, value, value}));
  if (!read_binary(b, "add", &x, &y) || json_is_integer(x) == json_is_integer(y))
    return IMPOSSIBLE;
  json_t *known = json_is_integer(x) ? x : y, *other = known == x ? y : x;
  int64_t rest = value - json_integer_value(known);
  return rest < 0 ? IMPOSSIBLE : step_new(plan, json_integer(rest), json_incref(other));
}

/* ceil(x / by) is what another size is. Quotients are so by the greater divisor of both; any other
 * size is, times `by`, the whole of which it is the quotient. */
static step_t step_divided(moe__plan_t *plan, json_t *x, int64_t by, json_t *b) {
  json_t *y = NULL;
  int64_t divisor = 1;
  if (!read_scaled(b, "ceildiv", &y, &divisor))
    return step_new(plan, json_incref(x), times(plan, json_incref(b), by));
  if (divisor % by == 0)
    return step_new(plan, json_incref(x), divided(plan, json_incref(y), divisor / by));
  return by % divisor ? IMPOSSIBLE
                      : step_new(plan, divided(plan, json_incref(x), by / divisor), json_incref(y));
}

/* Products, without the factor that they have in common. */
static step_t step_factors(moe__plan_t *plan, json_t *x, int64_t of_x, json_t *y, int64_t of_y) {
  int64_t common = common_divisor(of_x, of_y);
  return common == 1 ? IMPOSSIBLE
                     : step_new(plan, times(plan, json_incref(x), of_x / common),
                                times(plan, json_incref(y), of_y / common));
}

/* Two sizes in their simplest form that are no symbols. Sums are of the same rounded size and the
 * same groups. */
static step_t step_expressions(moe__plan_t *plan, json_t *a, json_t *b) {
  json_t *x = NULL, *y = NULL, *of_a = NULL, *of_b = NULL;
  int64_t by = 1, other = 1;
  if (json_is_integer(a))
    return step_constant(plan, json_integer_value(a), b);
  if (json_is_integer(b))
    return step_constant(plan, json_integer_value(b), a);
  if (read_scaled(a, "ceildiv", &x, &by))
    return step_divided(plan, x, by, b);
  if (read_scaled(b, "ceildiv", &y, &by))
    return step_new(plan, times(plan, json_incref(a), by), json_incref(y));
  if (read_scaled(a, "mul", &x, &by) && read_scaled(b, "mul", &y, &other))
    return step_factors(plan, x, by, y, other);
  if (!read_binary(a, "add", &x, &of_a) || !read_binary(b, "add", &y, &of_b))
    return IMPOSSIBLE;
  step_t result = step(plan, x, y);
  return result == ALIKE ? step(plan, of_a, of_b) : result;
}

/* One step towards a and b being one size. Where both are symbols, that of a stays. */
static step_t step(moe__plan_t *plan, json_t *a, json_t *b) {
  const char *a_name = json_string_value(a), *b_name = json_string_value(b);
  if (json_equal(a, b))
    return ALIKE;
  if (a_name && b_name)
    return stepped(unite_symbols(plan, a_name, b));
  if (b_name && !contains(a, b_name))
    return stepped(replace_everywhere(plan, b, a));
  if (a_name && !contains(b, a_name))
    return stepped(replace_everywhere(plan, a, b));
  json_t *simple_a = simplify(plan, a), *simple_b = simplify(plan, b);
  step_t result = ALIKE;
  if (!json_equal(simple_a, simple_b))
    result = a_name   ? step_itself(plan, a, simple_b)
             : b_name ? step_itself(plan, b, simple_a)
                      : step_expressions(plan, simple_a, simple_b);
  json_decref(simple_a);
  json_decref(simple_b);
  return result;
}

/* ---- Requirements ---- */

/* The text of a size in an error; the caller frees it. */
static char *size_text(const json_t *size) {
  char *text = json_dumps(size, JSON_ENCODE_ANY | JSON_COMPACT);
  if (!text)
    abort();
  return text;
}

#define NO_SYMBOLS "that cannot be required of the arguments' sizes"

/* What a size must be according to a requirement; given away. */
static json_t *required_size(moe__plan_t *plan, MlirOperation launch,
                             const moe__requirement_t *requirement) {
  json_t *other = json_incref(moe__plan_size(plan, launch, &requirement->other));
  if (requirement->kind == MOE__SAME_AS)
    return other;
  json_t *size = json_is_integer(other)
                     ? json_integer(quotient(json_integer_value(other), requirement->value))
                     : json_pack("{s[OI]}", "ceildiv", other, (json_int_t)requirement->value);
  json_decref(other);
  return requirement->has_groups
             ? plus(size, json_incref(moe__plan_size(plan, launch, &requirement->groups)))
             : size;
}

/* Each step takes a symbol, or restricts it so that both sizes are alike in the next one: there are
 * no more than that. */
static bool apply_same(moe__plan_t *plan, MlirOperation launch,
                       const moe__requirement_t *requirement) {
  for (;;) {
    json_t *size = json_incref(moe__plan_size(plan, launch, &requirement->dim)),
           *required = required_size(plan, launch, requirement);
    char *of_size = size_text(size), *of_required = size_text(required); /* before they change */
    /* Of two symbols that must be the same that of `dim` stays. */
    bool keeps = requirement->kind == MOE__SAME_AS;
    step_t result = step(plan, keeps ? size : required, keeps ? required : size);
    json_decref(size);
    json_decref(required);
    if (result == IMPOSSIBLE)
      moe__error(launch, "the kernel needs size %s to be the same as %s; " NO_SYMBOLS, of_size,
                 of_required);
    free(of_size);
    free(of_required);
    if (result != STEPPED)
      return result == ALIKE;
  }
}

static bool apply_range(moe__plan_t *plan, MlirOperation launch,
                        const moe__requirement_t *requirement) {
  json_t *size = moe__plan_size(plan, launch, &requirement->dim);
  range_t range = anything;
  const char *what = "a multiple of";
  if (requirement->kind == MOE__MULTIPLE_OF) {
    range.multiple = requirement->value;
  } else if (requirement->kind == MOE__AT_LEAST) {
    range.least = requirement->value;
    what = "at least";
  } else {
    range.most = requirement->value;
    what = "at most";
  }
  if (restrict_size(plan, size, &range))
    return true;
  char *text = size_text(size);
  moe__error(launch, "the kernel needs size %s to be %s %lld; " NO_SYMBOLS, text, what,
             (long long)requirement->value);
  free(text);
  return false;
}

bool moe__symbols_restrict(moe__plan_t *plan) {
  for (size_t i = 0; i < plan->launch_count; i++) {
    const moe__plan_launch_t *launch = &plan->launches[i];
    for (int j = 0; j < launch->record.requirement_count; j++) {
      const moe__requirement_t *requirement = &launch->record.requirements[j];
      bool of_two = requirement->kind == MOE__SAME_AS || requirement->kind == MOE__QUOTIENT_OF;
      if (!(of_two ? apply_same : apply_range)(plan, launch->op, requirement))
        return false;
    }
  }
  return true;
}
