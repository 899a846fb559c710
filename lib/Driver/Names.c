/* Names.c - gives arguments and results of functions a `moe.name`, from the source text.
 *
 * Why: `%w` and `return %q, %s` are what the user calls the tensors, and MLIR forgets these names
 * as it parses. The launch plan and the manifest need them, so they are kept as an attribute, which
 * survives printing. Names must be free, and a `moe.` attribute that nobody reads is a typo.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Dialect/Dialect.h"
#include "lib/Driver/Driver.h"

#include <ctype.h>
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char NAME_ATTRIBUTE[] = MOE__NAME;

/* Safetensors files have something else under this key. */
static const char RESERVED_NAME[] = "__metadata__";

/* The names of one function: arguments, then results. NULL: not named yet. */
typedef struct names_t {
  char **names;
  size_t count;
  struct hsearch_data taken; /* those of `names` */
} names_t;

static bool is_operation(MlirOperation op, const char *name) {
  return mlirStringRefEqual(mlirIdentifierStr(mlirOperationGetName(op)), moe__ref(name));
}

static bool is_taken(names_t *names, const char *name) {
  ENTRY *found;
  return hsearch_r((ENTRY){.key = (char *)name}, FIND, &found, &names->taken);
}

/* Gives a name that is free; owned by *names from now on. */
static void give(names_t *names, size_t index, char *name) {
  ENTRY *entered;
  names->names[index] = name;
  if (!hsearch_r((ENTRY){.key = name}, ENTER, &entered, &names->taken))
    abort();
}

/* The identifier of `%name` at the text, or NULL where it is a number or has characters that are
 * not for everyone: names become keys of the manifest and words of command lines. */
static char *value_name(const char *text) {
  if (!text || *text != '%' || !(isalpha((unsigned char)text[1]) || text[1] == '_'))
    return NULL;
  size_t length = 1;
  while (isalnum((unsigned char)text[length]) || text[length] == '_')
    length++;
  if (text[length] && strchr("$.-#", text[length]))
    return NULL;
  bool is_reserved = length - 1 == strlen(RESERVED_NAME) &&
                     !memcmp(text + 1, RESERVED_NAME, strlen(RESERVED_NAME));
  return is_reserved ? NULL : moe__copy(text + 1, length - 1);
}

/* Takes a name if it is free; else frees it. */
static void take(names_t *names, size_t index, char *name) {
  if (name && !names->names[index] && !is_taken(names, name))
    give(names, index, name);
  else
    free(name);
}

static void take_numbered(names_t *names, size_t index, const char *prefix, size_t number) {
  if (names->names[index])
    return;
  moe__text_t name = {0};
  moe__text_printf(&name, "%s%zu", prefix, number);
  while (is_taken(names, name.data))
    moe__text_put(&name, "_");
  give(names, index, name.data);
}

/* The dictionary of argument or result `index`, or a null attribute. */
static MlirAttribute dictionary_of(MlirOperation function, const char *list, size_t index) {
  MlirAttribute all = mlirOperationGetAttributeByName(function, moe__ref(list));
  if (mlirAttributeIsNull(all) || !mlirAttributeIsAArray(all) ||
      (size_t)mlirArrayAttrGetNumElements(all) <= index)
    return (MlirAttribute){NULL};
  return mlirArrayAttrGetElement(all, (intptr_t)index);
}

/* ---- Attributes ---- */

/* Those of ours that a function, an argument or a result may have. */
static const char *const of_functions[] = {MOE__FORWARD_FUNCTION, MOE__BACKWARD_FUNCTION, NULL};
static const char *const of_arguments[] = {MOE__NAME, MOE__CONSTANT, MOE__DIFFERENTIABLE, NULL};
static const char *const of_results[] = {MOE__NAME, NULL};

/* Refuses an attribute `moe.` that is not known. where: what has it, "argument 2" say. */
static bool is_known(MlirOperation function, const char *where, MlirStringRef name,
                     const char *const *known) {
  static const char prefix[] = "moe.";
  if (name.length < strlen(prefix) || memcmp(name.data, prefix, strlen(prefix)) != 0)
    return true;
  moe__text_t problem = {0};
  moe__text_printf(&problem, "%s: unknown attribute '%.*s'; it may have ", where, (int)name.length,
                   name.data);
  bool found = false;
  for (size_t i = 0; known[i]; i++) {
    found |= mlirStringRefEqual(name, moe__ref(known[i]));
    moe__text_printf(&problem, "%s%s", i == 0 ? "" : known[i + 1] ? ", " : " or ", known[i]);
  }
  if (!found)
    mlirEmitError(mlirOperationGetLocation(function), problem.data);
  moe__text_free(&problem);
  return found;
}

static bool check_ports(MlirOperation function, const char *list, const char *what, size_t count,
                        const char *const *known) {
  bool ok = true;
  for (size_t i = 0; ok && i < count; i++) {
    MlirAttribute dictionary = dictionary_of(function, list, i);
    intptr_t size =
        mlirAttributeIsNull(dictionary) ? 0 : mlirDictionaryAttrGetNumElements(dictionary);
    char where[32];
    snprintf(where, sizeof where, "%s %zu", what, i);
    for (intptr_t j = 0; ok && j < size; j++)
      ok = is_known(function, where,
                    mlirIdentifierStr(mlirDictionaryAttrGetElement(dictionary, j).name), known);
  }
  return ok;
}

static bool check_attributes(MlirOperation function, size_t num_arguments, size_t num_results) {
  bool ok = true;
  for (intptr_t i = 0; ok && i < mlirOperationGetNumDiscardableAttributes(function); i++)
    ok = is_known(function, "the function",
                  mlirIdentifierStr(mlirOperationGetDiscardableAttribute(function, i).name),
                  of_functions);
  return ok && check_ports(function, "arg_attrs", "argument", num_arguments, of_arguments) &&
         check_ports(function, "res_attrs", "result", num_results, of_results);
}

/* ---- Names ---- */

/* Reads the names that stand in the text as attributes. */
static bool take_given(MlirOperation function, const char *list, const char *what, names_t *names,
                       size_t first, size_t count) {
  for (size_t i = 0; i < count; i++) {
    MlirAttribute dictionary = dictionary_of(function, list, i);
    if (mlirAttributeIsNull(dictionary))
      continue;
    MlirAttribute given = mlirDictionaryAttrGetElementByName(dictionary, moe__ref(NAME_ATTRIBUTE));
    if (mlirAttributeIsNull(given))
      continue;
    moe__text_t problem = {0};
    if (!mlirAttributeIsAString(given)) {
      moe__text_printf(&problem, "%s %zu: %s is not a string", what, i, NAME_ATTRIBUTE);
    } else {
      MlirStringRef value = mlirStringAttrGetValue(given);
      char *name = moe__copy(value.data, value.length);
      if (!*name)
        moe__text_printf(&problem, "%s %zu: %s is empty", what, i, NAME_ATTRIBUTE);
      else if (!strcmp(name, RESERVED_NAME))
        moe__text_printf(&problem, "%s %zu: %s \"%s\" is taken in safetensors files", what, i,
                         NAME_ATTRIBUTE, name);
      else if (is_taken(names, name))
        moe__text_printf(&problem, "%s %zu: %s \"%s\" is used twice in this function", what, i,
                         NAME_ATTRIBUTE, name);
      take(names, first + i, name);
    }
    if (problem.length) {
      mlirEmitError(mlirOperationGetLocation(function), problem.data);
      moe__text_free(&problem);
      return false;
    }
  }
  return true;
}

/* Names the results after the operands of `return %q, %s : ...`, in either form. */
static void take_returned(names_t *names, size_t first, size_t count, const char *text) {
  if (!text)
    return;
  text += *text == '"';
  text += strspn(text, "abcdefghijklmnopqrstuvwxyz.");
  text += *text == '"';
  text += strspn(text, " \t(");
  for (size_t i = 0; i < count && *text == '%'; i++) {
    take(names, first + i, value_name(text));
    text += strcspn(text, ",:)\n");
    text += strspn(text, ", \t\n");
  }
}

/* Writes the names back: `list` gets one dictionary per argument or result. */
static void set_names(MlirOperation function, const char *list, const names_t *names, size_t first,
                      size_t count) {
  if (!count)
    return;
  MlirContext context = mlirOperationGetContext(function);
  MlirAttribute *dictionaries = moe__allocate(count * sizeof *dictionaries);
  for (size_t i = 0; i < count; i++) {
    MlirAttribute old = dictionary_of(function, list, i);
    size_t old_count = mlirAttributeIsNull(old) ? 0 : (size_t)mlirDictionaryAttrGetNumElements(old);
    MlirNamedAttribute *entries = moe__allocate((old_count + 1) * sizeof *entries);
    size_t used = 0;
    MlirIdentifier key = mlirIdentifierGet(context, moe__ref(NAME_ATTRIBUTE));
    for (size_t j = 0; j < old_count; j++) {
      MlirNamedAttribute entry = mlirDictionaryAttrGetElement(old, (intptr_t)j);
      if (!mlirIdentifierEqual(entry.name, key))
        entries[used++] = entry;
    }
    MlirAttribute value = mlirStringAttrGet(context, moe__ref(names->names[first + i]));
    entries[used++] = mlirNamedAttributeGet(key, value);
    dictionaries[i] = mlirDictionaryAttrGet(context, (intptr_t)used, entries);
    free(entries);
  }
  mlirOperationSetAttributeByName(function, moe__ref(list),
                                  mlirArrayAttrGet(context, (intptr_t)count, dictionaries));
  free(dictionaries);
}

static bool name_function(const moe__source_t *source, MlirOperation function, moe__line_t *line) {
  MlirAttribute type_attribute =
      mlirOperationGetAttributeByName(function, moe__ref("function_type"));
  MlirType type = mlirTypeAttrGetValue(type_attribute);
  size_t num_arguments = (size_t)mlirFunctionTypeGetNumInputs(type);
  size_t num_results = (size_t)mlirFunctionTypeGetNumResults(type);
  names_t names = {.count = num_arguments + num_results};
  names.names = calloc(names.count + 1, sizeof *names.names);
  if (!names.names || !hcreate_r(2 * names.count + 1, &names.taken))
    abort();

  bool ok = check_attributes(function, num_arguments, num_results) &&
            take_given(function, "arg_attrs", "argument", &names, 0, num_arguments) &&
            take_given(function, "res_attrs", "result", &names, num_arguments, num_results);
  MlirBlock entry = mlirRegionGetFirstBlock(mlirOperationGetRegion(function, 0));
  if (ok && !mlirBlockIsNull(entry)) {
    for (size_t i = 0; i < num_arguments; i++) {
      MlirValue argument = mlirBlockGetArgument(entry, (intptr_t)i);
      take(&names, i, value_name(moe__text_at(source, mlirValueGetLocation(argument), line)));
    }
    MlirOperation terminator = mlirBlockGetTerminator(entry);
    if (!mlirOperationIsNull(terminator) && is_operation(terminator, "func.return"))
      take_returned(&names, num_arguments, num_results,
                    moe__text_at(source, mlirOperationGetLocation(terminator), line));
  }
  if (ok) {
    for (size_t i = 0; i < num_arguments; i++)
      take_numbered(&names, i, "arg", i);
    for (size_t i = 0; i < num_results; i++)
      take_numbered(&names, num_arguments + i, "result", i);
    set_names(function, "arg_attrs", &names, 0, num_arguments);
    set_names(function, "res_attrs", &names, num_arguments, num_results);
  }
  for (size_t i = 0; i < names.count; i++)
    free(names.names[i]);
  free(names.names);
  hdestroy_r(&names.taken);
  return ok;
}

bool moe__name_values(moe_module_t *module) {
  moe__line_t line = {0};
  MlirOperation op = mlirBlockGetFirstOperation(mlirModuleGetBody(module->ir));
  for (; !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op)) {
    if (is_operation(op, "func.func") && !name_function(&module->compiler->source, op, &line))
      return false;
  }
  return true;
}
