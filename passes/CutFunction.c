/* CutFunction.c - see CutFunction.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "passes/CutFunction.h"

#include "lib/Builder/Views.h"
#include "lib/Dialect/Dialect.h"
#include "passes/Values.h"

#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/BuiltinTypes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME MOE__NAME

static void *grown(void *list, size_t count, size_t size) {
  list = realloc(list, (count + 1) * size);
  if (!list)
    abort();
  return list;
}

/* ---- Names ---- */

void moe__cut_name_argument(moe__cut_t *cut, char *name) {
  cut->argument_names = grown(cut->argument_names, cut->argument_count, sizeof name);
  cut->argument_names[cut->argument_count++] = name;
}

void moe__cut_name_result(moe__cut_t *cut, char *name) {
  cut->result_names = grown(cut->result_names, cut->result_count, sizeof name);
  cut->result_names[cut->result_count++] = name;
}

void moe__cut_free(moe__cut_t *cut) {
  for (size_t i = 0; i < cut->argument_count; i++)
    free(cut->argument_names[i]);
  for (size_t i = 0; i < cut->result_count; i++)
    free(cut->result_names[i]);
  free(cut->argument_names);
  free(cut->result_names);
}

static MlirAttribute dictionary_of(MlirOperation function, const char *list, intptr_t i) {
  MlirAttribute all = moe__op_attribute(function, list);
  return mlirAttributeIsNull(all) || i >= mlirArrayAttrGetNumElements(all)
             ? mlirDictionaryAttrGet(mlirOperationGetContext(function), 0, NULL)
             : mlirArrayAttrGetElement(all, i);
}

char *moe__cut_name_of(MlirOperation function, const char *list, intptr_t i) {
  MlirAttribute name = moe__port_attribute(function, list, i, NAME);
  char *text = NULL;
  if (!mlirAttributeIsNull(name) && mlirAttributeIsAString(name)) {
    MlirStringRef given = mlirStringAttrGetValue(name);
    text = strndup(given.data, given.length);
  } else if (asprintf(&text, "%s%d", *list == 'a' ? "arg" : "result", (int)i) < 0) {
    text = NULL;
  }
  if (!text)
    abort();
  return text;
}

/* "NAME_forward", "NAME_backward"; owned. */
static char *part_name(MlirOperation function, const char *part) {
  MlirStringRef name = moe__symbol(function);
  char *text = NULL;
  if (asprintf(&text, "%.*s_%s", (int)name.length, name.data, part) < 0)
    abort();
  return text;
}

bool moe__cut_is_possible(MlirOperation function) {
  MlirBlock module = mlirOperationGetBlock(function);
  static const char *const parts[] = {"forward", "backward"};
  bool ok = true;
  for (int i = 0; ok && i < 2; i++) {
    char *name = part_name(function, parts[i]);
    for (MlirOperation op = mlirBlockGetFirstOperation(module); ok && !mlirOperationIsNull(op);
         op = mlirOperationGetNextInBlock(op))
      ok = mlirAttributeIsNull(moe__op_attribute(op, "sym_name")) ||
           !mlirStringRefEqual(moe__symbol(op), mlirStringRefCreateFromCString(name)) ||
           moe__error(function, "there is a '%s' already; one is made of this function", name);
    free(name);
  }
  return ok;
}

/* ---- Parts ---- */

/* An argument or a result of a part. */
typedef struct port_t {
  MlirValue value;          /* in the function that is cut */
  MlirAttribute attributes; /* its dictionary */
  char *name;               /* owned */
} port_t;

typedef struct ports_t {
  port_t *at; /* owned */
  size_t count;
} ports_t;

typedef struct part_t {
  MlirOperation function; /* that is cut */
  ports_t arguments, results;
  moe__values_t needed;   /* for the results */
  moe__values_t from, to; /* values of the function, and what they are here */
  moe__builder_t b;
} part_t;

static void free_ports(ports_t *ports) {
  for (size_t i = 0; i < ports->count; i++)
    free(ports->at[i].name);
  free(ports->at);
}

static void free_part(part_t *part) {
  free_ports(&part->arguments);
  free_ports(&part->results);
  moe__values_clear(&part->needed);
  moe__values_clear(&part->from);
  moe__values_clear(&part->to);
}

static const port_t *find_port(const ports_t *ports, MlirValue value) {
  for (size_t i = 0; i < ports->count; i++)
    if (mlirValueEqual(ports->at[i].value, value))
      return &ports->at[i];
  return NULL;
}

static bool has_name(const ports_t *ports, const char *name) {
  for (size_t i = 0; i < ports->count; i++)
    if (!strcmp(ports->at[i].name, name))
      return true;
  return false;
}

/* Adds a port of this name, with a number behind it where the part has another one of that name. */
static void add_port(part_t *part, ports_t *ports, MlirValue value, MlirAttribute attributes,
                     const char *name) {
  char *text = strdup(name);
  for (int n = 1; text && (has_name(&part->arguments, text) || has_name(&part->results, text));
       n++) {
    free(text);
    if (asprintf(&text, "%s_%d", name, n) < 0)
      abort();
  }
  if (!text)
    abort();
  ports->at = grown(ports->at, ports->count, sizeof *ports->at);
  ports->at[ports->count++] = (port_t){value, attributes, text};
}

/* An argument or a result of the function becomes one of the part, with its attributes. */
static void add_own(part_t *part, ports_t *ports, MlirValue value, const char *list, intptr_t i) {
  char *name = moe__cut_name_of(part->function, list, i);
  add_port(part, ports, value, dictionary_of(part->function, list, i), name);
  free(name);
}

/* ---- What belongs where ---- */

/* What a transpose is of, through all transposes: parts make these again, with their
 * destinations. */
static MlirValue base_of(MlirValue value) {
  while (mlirValueIsAOpResult(value) && moe__op_is(mlirOpResultGetOwner(value), "linalg.transpose"))
    value = mlirOperationGetOperand(mlirOpResultGetOwner(value), 0);
  return value;
}

static bool has_result_in(const moe__values_t *values, MlirOperation op) {
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++)
    if (moe__values_contain(values, mlirOperationGetResult(op, i)))
      return true;
  return false;
}

static bool has_operand_in(const moe__values_t *values, MlirOperation op) {
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++)
    if (moe__values_contain(values, mlirOperationGetOperand(op, i)))
      return true;
  return false;
}

/* The values that depend on the last `count` arguments. */
static void find_later(MlirBlock body, size_t count, moe__values_t *out) {
  intptr_t arguments = mlirBlockGetNumArguments(body);
  for (intptr_t i = arguments - (intptr_t)count; i < arguments; i++)
    moe__values_push(out, mlirBlockGetArgument(body, i));
  for (MlirOperation op = mlirBlockGetFirstOperation(body); !mlirOperationIsNull(op);
       op = mlirOperationGetNextInBlock(op))
    for (intptr_t i = 0; has_operand_in(out, op) && i < mlirOperationGetNumResults(op); i++)
      moe__values_push(out, mlirOperationGetResult(op, i));
}

/* Whether the op is one of the part's: makes what it needs, and is among `only`, unless that is
 * NULL. */
static bool is_of(const part_t *part, MlirOperation op, const moe__values_t *only) {
  return !moe__op_is(op, "linalg.transpose") && has_result_in(&part->needed, op) &&
         (!only || has_result_in(only, op));
}

/* From the results of the part to all that they need. */
static void find_needed(part_t *part, const moe__values_t *only) {
  for (size_t i = 0; i < part->results.count; i++)
    moe__values_push(&part->needed, base_of(part->results.at[i].value));
  MlirBlock body = moe__body(part->function);
  moe__values_t results = {0}; /* of each op one, from the first on */
  for (MlirOperation op = mlirBlockGetFirstOperation(body); !mlirOperationIsNull(op);
       op = mlirOperationGetNextInBlock(op))
    if (mlirOperationGetNumResults(op) > 0)
      moe__values_push(&results, mlirOperationGetResult(op, 0));
  for (size_t i = results.count; i-- > 0;) {
    MlirOperation op = mlirOpResultGetOwner(results.at[i]);
    for (intptr_t j = 0; is_of(part, op, only) && j < mlirOperationGetNumOperands(op); j++)
      moe__values_push(&part->needed, base_of(mlirOperationGetOperand(op, j)));
  }
  moe__values_clear(&results);
}

/* ---- Saved tensors ---- */

/* The number of the argument that `value` was quantized from; -1 where there is none. */
static intptr_t quantized_argument(MlirValue value) {
  MlirOperation op = mlirOpResultGetOwner(value);
  if (mlirOperationGetNumOperands(op) == 0)
    return -1;
  MlirValue x = base_of(mlirOperationGetOperand(op, 0));
  return mlirValueIsABlockArgument(x) ? mlirBlockArgumentGetArgNumber(x) : -1;
}

/* What a saved tensor is called: after what a quantizer made of which argument, as q, scales, q_t,
 * scales_t, rounded, rounded_t; else "saved". Owned. */
static char *saved_name(MlirOperation function, MlirValue value) {
  MlirOperation op = mlirOpResultGetOwner(value);
  bool rounds = moe__is(op, MOE__OP_ROUND);
  bool is_quantizer = moe__op_in_dialect(op, "mx_quantize") &&
                      (rounds || mlirOperationGetNumResults(op) == 2) &&
                      !mlirAttributeIsNull(moe__op_attribute(op, "axis"));
  if (!is_quantizer)
    return strdup("saved");
  intptr_t argument = quantized_argument(value);
  int64_t last = mlirShapedTypeGetRank(mlirValueGetType(mlirOperationGetOperand(op, 0))) - 1;
  char *text = NULL,
       *base = argument < 0 ? strdup("hidden") : moe__cut_name_of(function, "arg_attrs", argument);
  const char *made = rounds ? "rounded" : mlirOpResultGetResultNumber(value) == 0 ? "q" : "scales";
  if (!base ||
      asprintf(&text, "%s_%s%s", base, made, moe__op_integer(op, "axis") == last ? "" : "_t") < 0)
    abort();
  free(base);
  return text;
}

/* Adds to forward the result that is saved, and to backward the argument. */
static void save(part_t *forward, part_t *backward, MlirValue value) {
  MlirAttribute none = mlirDictionaryAttrGet(forward->b.context, 0, NULL);
  if (!find_port(&forward->results, value)) {
    char *name = saved_name(forward->function, value);
    add_port(forward, &forward->results, value, none, name);
    free(name);
  }
  add_port(backward, &backward->arguments, value, none, find_port(&forward->results, value)->name);
}

/* Saves what backward needs and does not make that was quantized from argument number
 * `argument`. */
static void save_all(part_t *forward, part_t *backward, const moe__values_t *later,
                     intptr_t argument) {
  for (MlirOperation op = mlirBlockGetFirstOperation(moe__body(forward->function));
       !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op))
    for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++) {
      MlirValue result = mlirOperationGetResult(op, i);
      if (quantized_argument(result) == argument &&
          moe__values_contain(&backward->needed, result) && !moe__values_contain(later, result))
        save(forward, backward, result);
    }
}

/* What backward needs and does not make: arguments of the function, then what was quantized from
 * each of them, then the rest. */
static void share(part_t *forward, part_t *backward, const moe__values_t *later) {
  MlirBlock body = moe__body(forward->function);
  for (intptr_t i = 0; i < mlirBlockGetNumArguments(body); i++) {
    MlirValue argument = mlirBlockGetArgument(body, i);
    if (moe__values_contain(&backward->needed, argument) && !moe__values_contain(later, argument))
      add_own(backward, &backward->arguments, argument, "arg_attrs", i);
  }
  for (intptr_t i = 0; i < mlirBlockGetNumArguments(body); i++)
    save_all(forward, backward, later, i);
  save_all(forward, backward, later, -1);
}

/* ---- Building ---- */

/* What the value is in the part; transposes are made on the way. */
static MlirValue value_in(part_t *part, MlirValue value) {
  size_t i = moe__values_find(&part->from, value);
  if (i < part->from.count)
    return part->to.at[i];
  MlirOperation op = mlirOpResultGetOwner(value);
  moe__permutation_t p;
  if (!moe__permutation_of(op, &p))
    abort(); /* who cuts has refused it */
  MlirValue x = value_in(part, mlirOperationGetOperand(op, 0));
  part->b.location = mlirOperationGetLocation(op);
  MlirValue made = moe__transpose(&part->b, x, mlirValueGetType(value), &p);
  moe__values_push(&part->from, value);
  moe__values_push(&part->to, made);
  return made;
}

static void copy_op(part_t *part, MlirOperation op) {
  MlirOperation copy = mlirOperationClone(op);
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++)
    mlirOperationSetOperand(copy, i, value_in(part, mlirOperationGetOperand(op, i)));
  mlirBlockAppendOwnedOperation(part->b.block, copy);
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++) {
    moe__values_push(&part->from, mlirOperationGetResult(op, i));
    moe__values_push(&part->to, mlirOperationGetResult(copy, i));
  }
}

/* The dictionaries of arguments or results, with their names; without what was said to who cut the
 * function. */
static MlirAttribute dictionaries(MlirContext context, const ports_t *ports) {
  MlirAttribute *list = NULL;
  for (size_t i = 0; i < ports->count; i++) {
    MlirAttribute old = ports->at[i].attributes;
    MlirNamedAttribute *entries = NULL;
    intptr_t count = 0;
    for (intptr_t j = 0; j < mlirDictionaryAttrGetNumElements(old); j++) {
      MlirNamedAttribute entry = mlirDictionaryAttrGetElement(old, j);
      MlirStringRef key = mlirIdentifierStr(entry.name);
      if (mlirStringRefEqual(key, mlirStringRefCreateFromCString(NAME)) ||
          mlirStringRefEqual(key, mlirStringRefCreateFromCString(MOE__DIFFERENTIABLE)))
        continue;
      entries = grown(entries, (size_t)count, sizeof *entries);
      entries[count++] = entry;
    }
    MlirStringRef name = mlirStringRefCreateFromCString(ports->at[i].name);
    entries = grown(entries, (size_t)count, sizeof *entries);
    entries[count++] =
        mlirNamedAttributeGet(mlirIdentifierGet(context, mlirStringRefCreateFromCString(NAME)),
                              mlirStringAttrGet(context, name));
    list = grown(list, i, sizeof *list);
    list[i] = mlirDictionaryAttrGet(context, count, entries);
    free(entries);
  }
  MlirAttribute all = mlirArrayAttrGet(context, (intptr_t)ports->count, list);
  free(list);
  return all;
}

static MlirType *types_of(const moe__values_t *values) {
  MlirType *types = calloc(values->count + 1, sizeof *types);
  if (!types)
    abort();
  for (size_t i = 0; i < values->count; i++)
    types[i] = mlirValueGetType(values->at[i]);
  return types;
}

static void set_symbol(MlirOperation op, const char *attribute, const char *name, bool reference) {
  MlirContext context = mlirOperationGetContext(op);
  MlirStringRef text = mlirStringRefCreateFromCString(name);
  moe__op_set_attribute(op, attribute,
                        reference ? mlirFlatSymbolRefAttrGet(context, text)
                                  : mlirStringAttrGet(context, text));
}

/* Creates the function @name of the part before the one that is cut. `attribute` names its other
 * part. only: as is_of has it. */
static void build(part_t *part, const moe__values_t *only, const char *name, const char *attribute,
                  const char *other) {
  MlirOperation function = part->function;
  moe__builder_t *b = &part->b;
  b->block = mlirBlockCreate(0, NULL, NULL);
  for (size_t i = 0; i < part->arguments.count; i++) {
    MlirValue value = part->arguments.at[i].value;
    moe__values_push(&part->from, value);
    moe__values_push(&part->to, mlirBlockAddArgument(b->block, mlirValueGetType(value),
                                                     mlirOperationGetLocation(function)));
  }
  moe__values_t arguments = {0}, results = {0};
  for (size_t i = 0; i < part->to.count; i++)
    moe__values_push(&arguments, part->to.at[i]);
  for (MlirOperation op = mlirBlockGetFirstOperation(moe__body(function)); !mlirOperationIsNull(op);
       op = mlirOperationGetNextInBlock(op))
    if (is_of(part, op, only))
      copy_op(part, op);
  for (size_t i = 0; i < part->results.count; i++)
    moe__values_push(&results, value_in(part, part->results.at[i].value));
  b->location = mlirOperationGetLocation(mlirBlockGetTerminator(moe__body(function)));
  moe__op0(b, "func.return", (intptr_t)results.count, results.at, NULL);

  MlirRegion region = mlirRegionCreate();
  mlirRegionAppendOwnedBlock(region, b->block);
  b->block = mlirOperationGetBlock(function);
  b->before = function;
  b->location = mlirOperationGetLocation(function);
  MlirOperation made = moe__op(b, "func.func", 0, NULL, MOE__NO_VALUES,
                               "sym_name = \"\", function_type = () -> ()", 1, &region);
  for (intptr_t i = 0; i < mlirOperationGetNumAttributes(function); i++) {
    MlirNamedAttribute entry = mlirOperationGetAttribute(function, i);
    mlirOperationSetAttributeByName(made, mlirIdentifierStr(entry.name), entry.attribute);
  }
  MlirType *inputs = types_of(&arguments), *outputs = types_of(&results);
  set_symbol(made, "sym_name", name, false);
  set_symbol(made, attribute, other, true);
  moe__op_set_attribute(
      made, "function_type",
      mlirTypeAttrGet(mlirFunctionTypeGet(b->context, (intptr_t)arguments.count, inputs,
                                          (intptr_t)results.count, outputs)));
  moe__op_set_attribute(made, "arg_attrs", dictionaries(b->context, &part->arguments));
  moe__op_set_attribute(made, "res_attrs", dictionaries(b->context, &part->results));
  free(inputs);
  free(outputs);
  moe__values_clear(&arguments);
  moe__values_clear(&results);
}

void moe__cut(const moe__cut_t *cut) {
  MlirOperation function = cut->function;
  MlirBlock body = moe__body(function);
  MlirOperation end = mlirBlockGetTerminator(body);
  moe__builder_t b =
      moe__builder_create(mlirOperationGetContext(function), mlirOperationGetLocation(function));
  part_t forward = {.function = function, .b = b}, backward = {.function = function, .b = b};
  MlirAttribute none = mlirDictionaryAttrGet(b.context, 0, NULL);
  moe__values_t later = {0};
  find_later(body, cut->argument_count, &later);

  intptr_t arguments = mlirBlockGetNumArguments(body) - (intptr_t)cut->argument_count;
  intptr_t results = mlirOperationGetNumOperands(end) - (intptr_t)cut->result_count;
  for (intptr_t i = 0; i < arguments; i++)
    add_own(&forward, &forward.arguments, mlirBlockGetArgument(body, i), "arg_attrs", i);
  for (intptr_t i = 0; i < results; i++)
    add_own(&forward, &forward.results, mlirOperationGetOperand(end, i), "res_attrs", i);
  for (size_t i = 0; i < cut->result_count; i++)
    add_port(&backward, &backward.results, mlirOperationGetOperand(end, results + (intptr_t)i),
             none, cut->result_names[i]);
  find_needed(&backward, &later);
  share(&forward, &backward, &later);
  for (size_t i = 0; i < cut->argument_count; i++) {
    MlirValue argument = mlirBlockGetArgument(body, arguments + (intptr_t)i);
    if (moe__values_contain(&backward.needed, argument))
      add_port(&backward, &backward.arguments, argument, none, cut->argument_names[i]);
  }
  find_needed(&forward, NULL);

  char *names[2] = {part_name(function, "forward"), part_name(function, "backward")};
  build(&forward, NULL, names[0], MOE__BACKWARD_FUNCTION, names[1]);
  build(&backward, &later, names[1], MOE__FORWARD_FUNCTION, names[0]);
  mlirOperationDestroy(function);
  free(names[0]);
  free(names[1]);
  moe__values_clear(&later);
  free_part(&forward);
  free_part(&backward);
}
