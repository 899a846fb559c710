/* Manifest.c - writes the manifest (docs/manifest.md) of a compiled module.
 *
 * What it joins: the launch plan, which is the functions with one op per launch; the record
 * `moe.kernel` that each kernel carries (lib/Device/Kernel.h); and the artifacts. Shapes are
 * followed from the arguments through the ops, so that every size in the manifest is a number or an
 * expression over the shape symbols of its function.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Target/Target.h"

#include "lib/Builder/Views.h"
#include "lib/Dialect/Shapes.h"
#include "lib/Target/Record.h"

#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/BuiltinTypes.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#define MAX_DIMENSION 2147483647
/* Tensor maps need 16; kernels that load vectors through pointers need no more. */
#define ALIGNMENT 16
#define COUNTERS 2 /* of a launch; as in lib/Device/Kernel.h */

/* A tensor of the function: an argument, a result, or a temporary: between two launches, state of
 * kernels, or the status word. */
typedef struct tensor_t {
  MlirValue value; /* null: the status word, or the counters */
  MlirType type;
  char *name;
  json_t *shape; /* list of expressions */
  bool zeroed;   /* the launcher zeroes it once */
} tensor_t;

typedef struct function_t {
  MlirOperation op;
  MlirOperation returns;
  json_t *symbols; /* list of {name, multiple_of, min, max} */
  tensor_t *tensors;
  size_t tensor_count;
  /* Names of what all launches share, NULL where no kernel has it: the status word, and the
   * counters by which the CTAs of a launch share their work. */
  char *status, *counters;
} function_t;

/* ---- Strings and attributes ---- */

static json_t *json_text(MlirStringRef text) {
  return json_stringn(text.data, text.length);
}

/* What the schema takes for the name of a function or tensor. */
#define MAX_NAME 255
#define NAME_RULE "must be 1 to 255 bytes of UTF-8, without quotes and control characters"
static bool is_name(MlirStringRef text) {
  bool ok = text.length > 0 && text.length <= MAX_NAME;
  for (size_t i = 0; ok && i < text.length; i++)
    ok = (unsigned char)text.data[i] >= ' ' && !strchr("\177'\"", text.data[i]);
  json_t *value = ok ? json_text(text) : NULL; /* NULL unless it is UTF-8 */
  json_decref(value);
  return value != NULL;
}

static MlirAttribute element(MlirAttribute dictionary, const char *key) {
  return mlirDictionaryAttrGetElementByName(dictionary, mlirStringRefCreateFromCString(key));
}

/* A bool, an integer, a string, or a list or dictionary of such; other attributes by their text. */
static json_t *json_from_attribute(MlirAttribute attribute) {
  if (mlirAttributeIsABool(attribute))
    return json_boolean(mlirBoolAttrGetValue(attribute));
  if (mlirAttributeIsAInteger(attribute))
    return json_integer(mlirIntegerAttrGetValueInt(attribute));
  if (mlirAttributeIsAString(attribute))
    return json_text(mlirStringAttrGetValue(attribute));
  if (mlirAttributeIsAArray(attribute)) {
    json_t *list = json_array();
    for (intptr_t i = 0; i < mlirArrayAttrGetNumElements(attribute); i++)
      json_array_append_new(list, json_from_attribute(mlirArrayAttrGetElement(attribute, i)));
    return list;
  }
  char *text = moe__attribute_text(attribute);
  json_t *value = json_string(text);
  free(text);
  return value;
}

/* ---- Tensors ---- */

static tensor_t *find_tensor(function_t *function, MlirValue value) {
  for (size_t i = 0; i < function->tensor_count; i++)
    if (mlirValueEqual(function->tensors[i].value, value))
      return &function->tensors[i];
  return NULL;
}

static bool name_is_taken(const function_t *function, const char *name) {
  for (size_t i = 0; i < function->tensor_count; i++)
    if (strcmp(function->tensors[i].name, name) == 0)
      return true;
  return false;
}

/* Adds a tensor. The name is `prefix` followed by the first free number where `name` is empty or
 * taken. */
static tensor_t *add_tensor(function_t *function, MlirValue value, MlirType type,
                            MlirStringRef name, const char *prefix) {
  char *text = strndup(name.data ? name.data : "", name.length);
  for (int n = 0; text && (!*text || name_is_taken(function, text)); n++) {
    free(text);
    if (asprintf(&text, "%s%d", prefix, n) < 0)
      abort();
  }
  function->tensors =
      realloc(function->tensors, (function->tensor_count + 1) * sizeof *function->tensors);
  if (!text || !function->tensors)
    abort();
  tensor_t *tensor = &function->tensors[function->tensor_count++];
  *tensor = (tensor_t){.value = value, .type = type, .name = text, .shape = json_array()};
  return tensor;
}

/* The `moe.name` of argument or result number i. */
static MlirStringRef given_name(MlirOperation function, const char *attributes, intptr_t i) {
  MlirAttribute list = moe__op_attribute(function, attributes);
  if (mlirAttributeIsNull(list) || i >= mlirArrayAttrGetNumElements(list))
    return mlirStringRefCreate(NULL, 0);
  MlirAttribute name = element(mlirArrayAttrGetElement(list, i), "moe.name");
  if (mlirAttributeIsNull(name) || !mlirAttributeIsAString(name))
    return mlirStringRefCreate(NULL, 0);
  return mlirStringAttrGetValue(name);
}

static void add_arguments(function_t *function) {
  MlirBlock body = moe__body(function->op);
  for (intptr_t i = 0; i < mlirBlockGetNumArguments(body); i++) {
    MlirValue value = mlirBlockGetArgument(body, i);
    MlirType type = mlirValueGetType(value);
    tensor_t *tensor =
        add_tensor(function, value, type, given_name(function->op, "arg_attrs", i), "arg");
    for (int d = 0; d < mlirShapedTypeGetRank(type); d++) {
      if (!mlirShapedTypeIsDynamicDim(type, d)) {
        json_array_append_new(tensor->shape, json_integer(mlirShapedTypeGetDimSize(type, d)));
        continue;
      }
      json_t *symbol = json_sprintf("%s.%d", tensor->name, d);
      json_array_append(tensor->shape, symbol);
      json_array_append_new(function->symbols,
                            json_pack("{so si si sI}", "name", symbol, "multiple_of", 1, "min", 0,
                                      "max", (json_int_t)MAX_DIMENSION));
    }
  }
}

/* Tensor number n of a launch: its operands, then its results. An operand may be a view:
 * dimension i of it is dimension out->at[i] of the tensor. */
static tensor_t *viewed_tensor(function_t *function, MlirOperation launch, intptr_t n,
                               moe__permutation_t *out) {
  intptr_t operands = mlirOperationGetNumOperands(launch);
  MlirValue value = n < operands ? mlirOperationGetOperand(launch, n)
                                 : mlirOperationGetResult(launch, n - operands);
  return find_tensor(function, moe__view_source(value, out));
}

/* The same where the order of its dimensions does not matter. */
static tensor_t *launch_tensor(function_t *function, MlirOperation launch, intptr_t n) {
  moe__permutation_t ignored;
  return viewed_tensor(function, launch, n, &ignored);
}

/* The size of dimension number `dimension` of tensor number n, borrowed. */
static json_t *launch_dimension(function_t *function, MlirOperation launch, intptr_t n,
                                int64_t dimension) {
  moe__permutation_t p;
  const tensor_t *tensor = viewed_tensor(function, launch, n, &p);
  return json_array_get(tensor->shape, (size_t)p.at[dimension]);
}

/* multiple * (ceil(size / divisor) + groups): see lib/Dialect/Shapes.h. */
static json_t *size_expression(function_t *function, MlirOperation op, const moe__size_t *size) {
  json_t *value = size->operand < 0
                      ? json_integer(1)
                      : json_incref(launch_dimension(function, op, size->operand, size->dimension));
  if (json_is_integer(value) && size->divisor > 1) {
    json_int_t quotient = (json_integer_value(value) + size->divisor - 1) / size->divisor;
    json_decref(value);
    value = json_integer(quotient);
  } else if (size->divisor > 1) {
    value = json_pack("{s[oI]}", "ceildiv", value, (json_int_t)size->divisor);
  }
  if (size->groups_operand >= 0) {
    json_t *groups = launch_dimension(function, op, size->groups_operand, 0);
    value = json_is_integer(value) && json_is_integer(groups)
                ? json_integer(json_integer_value(value) + json_integer_value(groups))
                : json_pack("{s[oO]}", "add", value, groups);
  }
  if (size->multiple == 1)
    return value;
  if (json_is_integer(value))
    return json_integer(json_integer_value(value) * size->multiple);
  return json_pack("{s[oI]}", "mul", value, (json_int_t)size->multiple);
}

static void infer_shape(function_t *function, MlirOperation op, int result, json_t *shape) {
  moe__shape_t sizes;
  moe__result_shape(op, result, &sizes);
  for (int d = 0; d < sizes.rank; d++)
    json_array_append_new(shape, size_expression(function, op, &sizes.sizes[d]));
}

static bool is_launch(MlirOperation op) {
  return !mlirAttributeIsNull(moe__op_attribute(op, "kernel"));
}

static intptr_t returned_at(const function_t *function, MlirValue value) {
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(function->returns); i++)
    if (mlirValueEqual(mlirOperationGetOperand(function->returns, i), value))
      return i;
  return -1;
}

/* Results and temporaries, in the order in which launches make them. */
static void add_made_tensors(function_t *function) {
  for (MlirOperation op = mlirBlockGetFirstOperation(moe__body(function->op));
       !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op)) {
    if (!is_launch(op))
      continue;
    for (int i = 0; i < mlirOperationGetNumResults(op); i++) {
      MlirValue value = mlirOperationGetResult(op, i);
      MlirType type = mlirValueGetType(value);
      intptr_t position = returned_at(function, value);
      tensor_t *tensor =
          position < 0
              ? add_tensor(function, value, type, mlirStringRefCreate(NULL, 0), "temporary")
              : add_tensor(function, value, type, given_name(function->op, "res_attrs", position),
                           "result");
      infer_shape(function, op, i, tensor->shape);
    }
  }
}

/* The name of a tensor of `count` i32 that all launches share, which is added where it is first
 * asked for. */
static const char *shared_name(function_t *function, char **name, const char *wanted, int count) {
  if (!*name) {
    MlirContext context = mlirOperationGetContext(function->op);
    char type_text[32];
    snprintf(type_text, sizeof type_text, "tensor<%dxi32>", count);
    MlirType type = mlirTypeParseGet(context, mlirStringRefCreateFromCString(type_text));
    tensor_t *tensor = add_tensor(function, (MlirValue){NULL}, type,
                                  mlirStringRefCreateFromCString(wanted), wanted);
    json_array_append_new(tensor->shape, json_integer(count));
    tensor->zeroed = true;
    *name = strdup(tensor->name);
  }
  return *name;
}

static json_t *describe_tensor(const tensor_t *tensor) {
  MlirType type = tensor->type;
  int order[MOE__MAX_RANK];
  moe__memory_order(type, order);
  json_t *order_list = json_array();
  for (int i = 0; i < mlirShapedTypeGetRank(type); i++)
    json_array_append_new(order_list, json_integer(order[i]));
  char *dtype = moe__type_text(mlirShapedTypeGetElementType(type));
  json_t *description = json_pack("{ss ss sO so si}", "name", tensor->name, "dtype", dtype, "shape",
                                  tensor->shape, "order", order_list, "alignment", ALIGNMENT);
  free(dtype);
  return description;
}

static json_t *describe_temporary(const tensor_t *tensor) {
  json_t *description = describe_tensor(tensor);
  json_object_set_new(description, "initial", json_string(tensor->zeroed ? "zero" : "none"));
  return description;
}

/* ---- Launches ---- */

/* The expression of the manifest for one of a kernel's record. */
static json_t *resolve(function_t *function, MlirOperation launch, MlirAttribute expression) {
  if (mlirAttributeIsAArray(expression)) {
    json_t *list = json_array();
    for (intptr_t i = 0; i < mlirArrayAttrGetNumElements(expression); i++)
      json_array_append_new(list,
                            resolve(function, launch, mlirArrayAttrGetElement(expression, i)));
    return list;
  }
  if (!mlirAttributeIsADictionary(expression))
    return json_from_attribute(expression);
  MlirNamedAttribute entry = mlirDictionaryAttrGetElement(expression, 0);
  MlirStringRef name = mlirIdentifierStr(entry.name);
  if (mlirStringRefEqual(name, mlirStringRefCreateFromCString("dim"))) {
    intptr_t tensor = mlirIntegerAttrGetValueInt(mlirArrayAttrGetElement(entry.attribute, 0));
    int64_t dimension = mlirIntegerAttrGetValueInt(mlirArrayAttrGetElement(entry.attribute, 1));
    return json_incref(launch_dimension(function, launch, tensor, dimension));
  }
  json_t *object = json_object();
  json_object_setn_new(object, name.data, name.length, resolve(function, launch, entry.attribute));
  return object;
}

static bool is_kind(MlirAttribute parameter, const char *expected) {
  MlirAttribute kind = element(parameter, "kind");
  return !mlirAttributeIsNull(kind) && mlirAttributeIsAString(kind) &&
         mlirStringRefEqual(mlirStringAttrGetValue(kind), mlirStringRefCreateFromCString(expected));
}

static json_t *describe_parameter(function_t *function, MlirOperation launch,
                                  MlirAttribute record) {
  const char *shared = NULL;
  if (is_kind(record, "status"))
    shared = shared_name(function, &function->status, "status", 1);
  if (is_kind(record, "counters"))
    shared = shared_name(function, &function->counters, "counters", COUNTERS);
  if (shared)
    return json_pack("{ss ss}", "kind", "pointer", "tensor", shared);
  json_t *parameter = json_object();
  for (intptr_t i = 0; i < mlirDictionaryAttrGetNumElements(record); i++) {
    MlirNamedAttribute entry = mlirDictionaryAttrGetElement(record, i);
    MlirStringRef key = mlirIdentifierStr(entry.name);
    json_t *value = NULL;
    if (mlirStringRefEqual(key, mlirStringRefCreateFromCString("tensor")))
      value = json_string(
          launch_tensor(function, launch, mlirIntegerAttrGetValueInt(entry.attribute))->name);
    else
      value = resolve(function, launch, entry.attribute);
    json_object_setn_new(parameter, key.data, key.length, value);
  }
  return parameter;
}

static int64_t least_common_multiple(int64_t x, int64_t y) {
  int64_t a = x, b = y;
  while (b) {
    int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return x / a * y;
}

/* The expression for the dimension that `requirement` names under `key`. */
static json_t *required_dimension(function_t *function, MlirOperation launch,
                                  MlirAttribute requirement, const char *key) {
  MlirAttribute dim = element(requirement, key);
  intptr_t tensor = mlirIntegerAttrGetValueInt(mlirArrayAttrGetElement(dim, 0));
  int64_t dimension = mlirIntegerAttrGetValueInt(mlirArrayAttrGetElement(dim, 1));
  return launch_dimension(function, launch, tensor, dimension);
}

/* The position of the symbol of this name. */
static size_t find_symbol(const function_t *function, const char *name) {
  size_t index = 0;
  json_t *symbol = NULL;
  json_array_foreach(function->symbols, index, symbol) {
    if (strcmp(json_string_value(json_object_get(symbol, "name")), name) == 0)
      break;
  }
  return index;
}

/* Puts `expression` in the place of a symbol, wherever it is inside `json`. */
static void replace_symbol(json_t *json, const json_t *symbol, json_t *expression) {
  size_t index = 0;
  const char *key = NULL;
  json_t *value = NULL;
  json_array_foreach(json, index, value) {
    if (value == symbol)
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

/* A size that is rounded up: multiple * ceil(symbol / divisor). */
typedef struct rounded_t {
  json_t *symbol; /* borrowed */
  int64_t divisor, multiple;
} rounded_t;

static bool read_rounded(const json_t *size, rounded_t *out) {
  json_t *quotient = NULL;
  json_int_t divisor = 0, multiple = 0;
  if (json_unpack((json_t *)size, "{s[oI!]!}", "mul", &quotient, &multiple) ||
      json_unpack(quotient, "{s[oI!]!}", "ceildiv", &out->symbol, &divisor) ||
      !json_is_string(out->symbol))
    return false;
  out->divisor = divisor;
  out->multiple = multiple;
  return true;
}

static void restrict_symbol(function_t *function, const char *name, const range_t *range) {
  json_t *symbol = json_array_get(function->symbols, find_symbol(function, name));
  json_t *multiple = json_object_get(symbol, "multiple_of"),
         *least = json_object_get(symbol, "min"), *most = json_object_get(symbol, "max");
  json_integer_set(multiple, least_common_multiple(json_integer_value(multiple), range->multiple));
  if (range->least > json_integer_value(least))
    json_integer_set(least, range->least);
  if (range->most < json_integer_value(most))
    json_integer_set(most, range->most);
}

/* What is required of a size is required of its symbol. Static sizes were checked by passes. Of
 * one that is rounded up kernels require what its multiple has, and that it is at least that:
 * the symbol is not zero then. */
static void restrict_size(function_t *function, const json_t *size, const range_t *range) {
  rounded_t rounded;
  if (json_is_string(size))
    restrict_symbol(function, json_string_value(size), range);
  else if (read_rounded(size, &rounded) && range->least > 0)
    restrict_symbol(
        function, json_string_value(rounded.symbol),
        &(range_t){1, range->least > rounded.multiple ? range->least - rounded.multiple + 1 : 1,
                   MAX_DIMENSION});
}

/* Takes a symbol out of the function's: wherever it is there is `expression` from now on. */
static void replace_everywhere(function_t *function, json_t *symbol, json_t *expression) {
  size_t index = find_symbol(function, json_string_value(symbol));
  json_int_t multiple = 1, least = 0, most = MAX_DIMENSION;
  json_unpack(json_array_get(function->symbols, index), "{s:I, s:I, s:I}", "multiple_of", &multiple,
              "min", &least, "max", &most);
  json_incref(symbol);
  json_array_remove(function->symbols, index);
  for (size_t i = 0; i < function->tensor_count; i++)
    replace_symbol(function->tensors[i].shape, symbol, expression);
  json_decref(symbol);
  restrict_size(function, expression, &(range_t){multiple, least, most});
}

/* A symbol that must be the quotient of another size is none of its own. */
static void apply_quotient(function_t *function, MlirOperation launch, MlirAttribute requirement,
                           json_t *symbol) {
  json_t *other = required_dimension(function, launch, requirement, "quotient_of");
  if (json_is_integer(other)) /* passes compare static sizes */
    return;
  json_t *expression = json_pack("{s[OI]}", "ceildiv", other,
                                 (json_int_t)moe__dictionary_integer(requirement, "divisor", 1));
  replace_everywhere(function, symbol, expression);
  json_decref(expression);
}

/* One symbol for both. Every use of a symbol is the same JSON string, so that renaming it here
 * renames it everywhere. */
static void unite_symbols(function_t *function, const char *name, json_t *other) {
  if (strcmp(json_string_value(other), name) == 0)
    return;
  size_t index = find_symbol(function, json_string_value(other));
  json_array_remove(function->symbols, index);
  json_string_set(other, name);
}

/* The symbol must be `rounded`, as `expression` has it. */
static void round_symbol(function_t *function, json_t *symbol, json_t *expression,
                         const rounded_t *rounded) {
  if (json_equal(symbol, rounded->symbol))
    restrict_symbol(function, json_string_value(symbol),
                    &(range_t){rounded->multiple, 0, MAX_DIMENSION});
  else
    replace_everywhere(function, symbol, expression);
}

/* Two sizes must be the same. One that is rounded up stands for a symbol that must be as large;
 * two that are rounded up in the same way are so of one symbol. */
static void apply_same(function_t *function, json_t *size, json_t *other) {
  rounded_t a, b;
  if (json_is_string(size) && json_is_string(other))
    unite_symbols(function, json_string_value(size), other);
  else if (json_is_string(size) && read_rounded(other, &b))
    round_symbol(function, size, other, &b);
  else if (json_is_string(other) && read_rounded(size, &a))
    round_symbol(function, other, size, &a);
  else if (read_rounded(size, &a) && read_rounded(other, &b) && a.divisor == b.divisor &&
           a.multiple == b.multiple)
    unite_symbols(function, json_string_value(a.symbol), b.symbol);
}

/* Static dimensions were checked by passes. */
static void apply_requirement(function_t *function, MlirOperation launch,
                              MlirAttribute requirement) {
  json_t *size = required_dimension(function, launch, requirement, "dim");
  if (!mlirAttributeIsNull(element(requirement, "quotient_of"))) {
    if (json_is_string(size))
      apply_quotient(function, launch, requirement, size);
  } else if (!mlirAttributeIsNull(element(requirement, "same_as"))) {
    apply_same(function, size, required_dimension(function, launch, requirement, "same_as"));
  } else {
    restrict_size(function, size,
                  &(range_t){moe__dictionary_integer(requirement, "multiple_of", 1),
                             moe__dictionary_integer(requirement, "at_least", 0),
                             moe__dictionary_integer(requirement, "at_most", MAX_DIMENSION)});
  }
}

/* All launches' come first: they decide what the symbols are. */
static void apply_requirements(function_t *function, MlirOperation launch, MlirAttribute record) {
  MlirAttribute requires = element(record, "requires");
  for (intptr_t i = 0; i < mlirArrayAttrGetNumElements(requires); i++)
    apply_requirement(function, launch, mlirArrayAttrGetElement(requires, i));
}

/* Marks the results of the launch that are state of its kernel. Such a result holds nothing that a
 * caller or another kernel could use. */
static bool apply_zeroed(function_t *function, MlirOperation launch, MlirAttribute record) {
  MlirAttribute list = element(record, "zeroed");
  for (intptr_t i = 0; i < mlirArrayAttrGetNumElements(list); i++) {
    intptr_t n = mlirIntegerAttrGetValueInt(mlirArrayAttrGetElement(list, i));
    tensor_t *tensor = launch_tensor(function, launch, n);
    if (!mlirOpOperandIsNull(mlirValueGetFirstUse(tensor->value)))
      return moe__error(launch,
                        "result %lld is state of the kernel: it can neither be returned nor be an "
                        "operand of another op",
                        (long long)(n - mlirOperationGetNumOperands(launch)));
    tensor->zeroed = true;
  }
  return true;
}

/* What the op is, without what only the compiler needs. */
/* A name, or an object where the dimensions are permuted. */
static json_t *describe_operand(function_t *function, MlirOperation op, intptr_t i) {
  moe__permutation_t p;
  json_t *name = json_string(viewed_tensor(function, op, i, &p)->name), *list = json_array();
  bool permuted = false;
  for (int d = 0; d < p.rank; d++) {
    json_array_append_new(list, json_integer(p.at[d]));
    permuted |= p.at[d] != d;
  }
  if (permuted)
    return json_pack("{so so}", "tensor", name, "permutation", list);
  json_decref(list);
  return name;
}

static json_t *describe_op(function_t *function, MlirOperation op) {
  json_t *attributes = json_object(), *operands = json_array(), *results = json_array(),
         *roles = json_array();
  for (intptr_t i = 0; i < mlirOperationGetNumAttributes(op); i++) {
    MlirNamedAttribute entry = mlirOperationGetAttribute(op, i);
    MlirStringRef name = mlirIdentifierStr(entry.name);
    if (mlirAttributeIsAInteger(entry.attribute) || mlirAttributeIsAString(entry.attribute))
      json_object_setn_new(attributes, name.data, name.length,
                           json_from_attribute(entry.attribute));
  }
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    json_array_append_new(operands, describe_operand(function, op, i));
    json_array_append_new(roles, json_string(moe__role_name(moe__operand_role(op, (int)i))));
  }
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++) {
    json_array_append_new(
        results,
        json_string(launch_tensor(function, op, mlirOperationGetNumOperands(op) + i)->name));
    json_array_append_new(roles, json_string(moe__role_name(moe__result_role(op, (int)i))));
  }
  return json_pack("{so so so so so}", "name", json_text(moe__op_name(op)), "attributes",
                   attributes, "operands", operands, "results", results, "roles", roles);
}

/* first: the function's first launch, which waits for all before it: a programmatic one could start
 * before work of the caller that it does not know has ended. */
static json_t *describe_launch(function_t *function, MlirOperation op, MlirStringRef kernel,
                               MlirAttribute record, bool first) {
  MlirAttribute parameters = element(record, "parameters");
  json_t *list = json_array();
  for (intptr_t i = 0; i < mlirArrayAttrGetNumElements(parameters); i++)
    json_array_append_new(list,
                          describe_parameter(function, op, mlirArrayAttrGetElement(parameters, i)));
  bool programmatic = !first && mlirBoolAttrGetValue(element(record, "programmatic"));
  return json_pack("{so so so so sb}", "kernel", json_text(kernel), "op", describe_op(function, op),
                   "grid", resolve(function, op, element(record, "grid")), "parameters", list,
                   "programmatic", programmatic);
}

/* The record of the kernel that the launch names, null if there is no such kernel. */
static MlirAttribute find_record(MlirOperation module, MlirStringRef kernel) {
  for (MlirOperation gpu_module = mlirBlockGetFirstOperation(moe__body(module));
       !mlirOperationIsNull(gpu_module); gpu_module = mlirOperationGetNextInBlock(gpu_module)) {
    if (!moe__op_is(gpu_module, "gpu.module"))
      continue;
    for (MlirOperation op = mlirBlockGetFirstOperation(moe__body(gpu_module));
         !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op))
      if (moe__op_is(op, "llvm.func") && mlirStringRefEqual(moe__symbol(op), kernel))
        return moe__op_attribute(op, "moe.kernel");
  }
  return mlirAttributeGetNull();
}

/* ---- Functions and kernels ---- */

static bool check_names(const function_t *function) {
  if (!is_name(moe__symbol(function->op)))
    return moe__error(function->op, "the name of the function " NAME_RULE);
  for (size_t i = 0; i < function->tensor_count; i++)
    if (!is_name(mlirStringRefCreateFromCString(function->tensors[i].name)))
      return moe__error(function->op, "the name of a tensor " NAME_RULE);
  return true;
}

/* NULL after an error. */
static json_t *describe_launches(MlirOperation module, function_t *function) {
  json_t *launches = json_array();
  for (MlirOperation op = mlirBlockGetFirstOperation(moe__body(function->op));
       !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op)) {
    if (!is_launch(op))
      continue;
    MlirStringRef kernel = mlirSymbolRefAttrGetLeafReference(moe__op_attribute(op, "kernel"));
    MlirAttribute record = find_record(module, kernel);
    if (mlirAttributeIsNull(record)) {
      moe__error(op, "kernel '%.*s' has not been compiled", (int)kernel.length, kernel.data);
      json_decref(launches);
      return NULL;
    }
    if (!moe__record_check(op, record) || !apply_zeroed(function, op, record)) {
      json_decref(launches);
      return NULL;
    }
    apply_requirements(function, op, record);
  }
  for (MlirOperation op = mlirBlockGetFirstOperation(moe__body(function->op));
       !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op)) {
    if (!is_launch(op))
      continue;
    MlirStringRef kernel = mlirSymbolRefAttrGetLeafReference(moe__op_attribute(op, "kernel"));
    bool first = json_array_size(launches) == 0;
    json_array_append_new(
        launches, describe_launch(function, op, kernel, find_record(module, kernel), first));
  }
  if (json_array_size(launches) == 0) {
    moe__error(function->op, "the function launches no kernel");
    json_decref(launches);
    return NULL;
  }
  return launches;
}

static json_t *describe_function(MlirOperation module, function_t *function) {
  add_arguments(function);
  size_t argument_count = function->tensor_count;
  add_made_tensors(function);
  if (!check_names(function))
    return NULL;
  json_t *launches = describe_launches(module, function);
  if (!launches)
    return NULL;
  json_t *arguments = json_array(), *results = json_array(), *temporaries = json_array();
  for (size_t i = 0; i < argument_count; i++)
    json_array_append_new(arguments, describe_tensor(&function->tensors[i]));
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(function->returns); i++)
    json_array_append_new(results, describe_tensor(find_tensor(
                                       function, mlirOperationGetOperand(function->returns, i))));
  for (size_t i = argument_count; i < function->tensor_count; i++)
    if (returned_at(function, function->tensors[i].value) < 0)
      json_array_append_new(temporaries, describe_temporary(&function->tensors[i]));
  return json_pack("{so sO so so so ss? so}", "name", json_text(moe__symbol(function->op)),
                   "symbols", function->symbols, "arguments", arguments, "results", results,
                   "temporaries", temporaries, "status", function->status, "launches", launches);
}

static json_t *list_functions(MlirOperation module) {
  json_t *list = json_array();
  for (MlirOperation op = mlirBlockGetFirstOperation(moe__body(module));
       list && !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op)) {
    if (!moe__op_is(op, "func.func") || mlirBlockIsNull(moe__body(op)))
      continue;
    function_t function = {
        .op = op, .returns = mlirBlockGetTerminator(moe__body(op)), .symbols = json_array()};
    json_t *description = describe_function(module, &function);
    if (description) {
      json_array_append_new(list, description);
    } else {
      json_decref(list);
      list = NULL;
    }
    for (size_t i = 0; i < function.tensor_count; i++) {
      free(function.tensors[i].name);
      json_decref(function.tensors[i].shape);
    }
    free(function.tensors);
    free(function.status);
    free(function.counters);
    json_decref(function.symbols);
  }
  if (list && json_array_size(list) == 0) {
    moe__error(module, "there is no function: nothing can be launched");
    json_decref(list);
    list = NULL;
  }
  return list;
}

typedef struct kernels_t {
  json_t *list;         /* of the manifest */
  json_t *requirements; /* of assemblers */
} kernels_t;

static bool add_kernel(MlirOperation op, void *user) {
  kernels_t *kernels = user;
  MlirAttribute record = moe__op_attribute(op, "moe.kernel");
  if (!moe__op_is(op, "llvm.func") || mlirAttributeIsNull(record))
    return true;
  MlirStringRef name = moe__symbol(op);
  json_t *kernel = json_pack("{so so so so}", "name", json_text(name), "block",
                             json_from_attribute(element(record, "block")), "cluster",
                             json_from_attribute(element(record, "cluster")), "shared_memory",
                             json_from_attribute(element(record, "shared_memory")));
  json_t *least = json_object_getn(kernels->requirements, name.data, name.length);
  if (least)
    json_object_set(kernel, "min_assembler", least);
  json_array_append_new(kernels->list, kernel);
  return true;
}

/* ---- Artifacts ---- */

static json_t *describe_artifact(const char *file, moe__bytes_t bytes) {
  XXH128_canonical_t hash;
  XXH128_canonicalFromHash(&hash, XXH3_128bits(bytes.data, bytes.length));
  char hex[2 * sizeof hash.digest + 1];
  for (size_t i = 0; i < sizeof hash.digest; i++)
    snprintf(hex + 2 * i, 3, "%02x", hash.digest[i]);
  return json_pack("{ss sI ss}", "file", file, "bytes", (json_int_t)bytes.length, "xxh3_128", hex);
}

/* "8.0" from the line `.version 8.0`. */
static json_t *ptx_isa(const char *ptx) {
  const char *line = strstr(ptx, ".version ");
  const char *version = line ? line + strlen(".version ") : "";
  return json_stringn(version, strcspn(version, "\n\r "));
}

moe_status_t moe__target_manifest(MlirOperation module, const moe__target_options_t *options,
                                  moe__bytes_t ptx, moe__bytes_t cubin, const char *assembler,
                                  moe__bytes_t *out_json) {
  *out_json = (moe__bytes_t){0};
  json_t *functions = list_functions(module);
  if (!functions)
    return MOE_INVALID_INPUT;
  kernels_t kernels = {json_array(), moe__target_requirements(ptx)};
  json_t *artifacts = json_object();
  moe__walk(module, add_kernel, &kernels);
  json_decref(kernels.requirements);
  json_t *ptx_artifact = describe_artifact("kernels.ptx", ptx);
  json_object_set_new(ptx_artifact, "isa", ptx_isa(ptx.data));
  json_object_set_new(artifacts, "ptx", ptx_artifact);
  if (cubin.data) {
    json_t *cubin_artifact = describe_artifact("kernels.cubin", cubin);
    json_object_set_new(cubin_artifact, "assembler", json_string(assembler));
    json_object_set_new(artifacts, "cubin", cubin_artifact);
  }
  json_t *manifest =
      json_pack("{ss si ss ss so so so}", "format", "moe-opt-bundle", "version", 1, "producer",
                "moe-opt " MOE_VERSION, "target", options->chip, "artifacts", artifacts, "kernels",
                kernels.list, "functions", functions);
  out_json->data = manifest ? json_dumps(manifest, JSON_INDENT(2)) : NULL;
  json_decref(manifest);
  if (!out_json->data)
    return MOE_INTERNAL;
  /* A text file ends with a newline. */
  out_json->length = strlen(out_json->data);
  char *text = realloc(out_json->data, out_json->length + 2);
  if (!text)
    abort();
  text[out_json->length++] = '\n';
  text[out_json->length] = '\0';
  out_json->data = text;
  return MOE_OK;
}
