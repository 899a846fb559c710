/* Manifest.c - writes the manifest (docs/manifest.md) of a compiled module.
 *
 * What it joins: the launch plan of each function (Plan.h), the record that each kernel carries
 * (lib/Device/Record.h), and the artifacts.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Target/Symbols.h"
#include "lib/Target/Target.h"

#include "lib/Dialect/Dialect.h"
#include "lib/Files/Bundle.h"
#include "moe/limits.h"

#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/BuiltinTypes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

/* Tensor maps need 16; kernels that load vectors through pointers need no more. */
#define ALIGNMENT 16

static json_t *json_text(MlirStringRef text) {
  return json_stringn(text.data, text.length);
}

/* ---- Tensors ---- */

static json_t *describe_tensor(const moe__plan_tensor_t *tensor) {
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

static json_t *describe_argument(const moe__plan_tensor_t *tensor) {
  json_t *description = describe_tensor(tensor);
  if (tensor->constant)
    json_object_set_new(description, "constant", json_true());
  return description;
}

static json_t *describe_temporary(const moe__plan_tensor_t *tensor) {
  json_t *description = describe_tensor(tensor);
  json_object_set_new(description, "initial", json_string(tensor->zeroed ? "zero" : "none"));
  return description;
}

/* ---- Launches ---- */

static json_t *describe_expressions(moe__plan_t *plan, MlirOperation launch, int count,
                                    const moe__expression_t *const *expressions);
static json_t *describe_expression(moe__plan_t *plan, MlirOperation launch,
                                   const moe__expression_t *expression) {
  if (expression->kind == MOE__EXPRESSION_CONSTANT)
    return json_integer(expression->constant);
  if (expression->kind == MOE__EXPRESSION_DIM)
    return json_incref(moe__plan_size(plan, launch, &expression->dim));
  const char *name = moe__expression_names[expression->kind];
  return expression->count == 0 ? json_string(name)
                                : json_pack("{so}", name,
                                            describe_expressions(plan, launch, expression->count,
                                                                 expression->operands));
}

static json_t *describe_expressions(moe__plan_t *plan, MlirOperation launch, int count,
                                    const moe__expression_t *const *expressions) {
  json_t *list = json_array();
  for (int i = 0; i < count; i++)
    json_array_append_new(list, describe_expression(plan, launch, expressions[i]));
  return list;
}

static json_t *describe_integers(int count, const int32_t *integers) {
  json_t *list = json_array();
  for (int i = 0; i < count; i++)
    json_array_append_new(list, json_integer(integers[i]));
  return list;
}

static json_t *describe_map(moe__plan_t *plan, MlirOperation launch, const moe__tensor_map_t *map) {
  return json_pack("{so so ss ss ss ss so ss ss}", "box",
                   describe_expressions(plan, launch, map->rank, map->box), "dims",
                   describe_expressions(plan, launch, map->rank, map->dims), "element",
                   moe__map_element_names[map->element], "fill", moe__map_fill_names[map->fill],
                   "kind", moe__parameter_names[MOE__PARAMETER_TENSOR_MAP], "l2_promotion",
                   moe__l2_promotion_names[map->l2_promotion], "strides",
                   describe_expressions(plan, launch, map->rank - 1, map->strides), "swizzle",
                   moe__swizzle_names[map->swizzle], "tensor",
                   moe__plan_launch_tensor(plan, launch, map->tensor)->name);
}

static json_t *describe_parameter(moe__plan_t *plan, MlirOperation launch,
                                  const moe__parameter_t *parameter) {
  const char *tensor = NULL;
  switch (parameter->kind) {
  case MOE__PARAMETER_TENSOR_MAP:
    return describe_map(plan, launch, &parameter->map);
  case MOE__PARAMETER_SCALAR:
    return json_pack("{ss ss so}", "kind", moe__parameter_names[parameter->kind], "type", "i32",
                     "value", describe_expression(plan, launch, parameter->value));
  case MOE__PARAMETER_POINTER:
    tensor = moe__plan_launch_tensor(plan, launch, parameter->tensor)->name;
    break;
  case MOE__PARAMETER_STATUS:
    tensor = moe__plan_status(plan);
    break;
  case MOE__PARAMETER_COUNTERS:
    tensor = moe__plan_counters(plan);
    break;
  case MOE__PARAMETER_PARTIALS:
    tensor = moe__plan_partials(plan);
    break;
  case MOE__PARAMETER_ARRIVALS:
    tensor = moe__plan_arrivals(plan);
    break;
  }
  return json_pack("{ss ss}", "kind", moe__parameter_names[MOE__PARAMETER_POINTER], "tensor",
                   tensor);
}

/* A name, or an object where the dimensions are permuted. */
static json_t *describe_operand(moe__plan_t *plan, MlirOperation op, int i) {
  moe__permutation_t p;
  json_t *name = json_string(moe__plan_viewed_tensor(plan, op, i, &p)->name), *list = json_array();
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

/* Of a bool, an integer or a string. */
static json_t *describe_attribute(MlirAttribute attribute) {
  if (mlirAttributeIsABool(attribute))
    return json_boolean(mlirBoolAttrGetValue(attribute));
  return mlirAttributeIsAString(attribute) ? json_text(mlirStringAttrGetValue(attribute))
                                           : json_integer(mlirIntegerAttrGetValueInt(attribute));
}

/* What the op is, without what only the compiler needs. */
static json_t *describe_op(moe__plan_t *plan, MlirOperation op) {
  json_t *attributes = json_object(), *operands = json_array(), *results = json_array(),
         *roles = json_array();
  for (intptr_t i = 0; i < mlirOperationGetNumAttributes(op); i++) {
    MlirNamedAttribute entry = mlirOperationGetAttribute(op, i);
    MlirStringRef name = mlirIdentifierStr(entry.name);
    if (mlirAttributeIsAInteger(entry.attribute) || mlirAttributeIsAString(entry.attribute))
      json_object_setn_new(attributes, name.data, name.length, describe_attribute(entry.attribute));
  }
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    json_array_append_new(operands, describe_operand(plan, op, (int)i));
    json_array_append_new(roles, json_string(moe__role_name(moe__operand_role(op, (int)i))));
  }
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++) {
    json_array_append_new(
        results,
        json_string(
            moe__plan_launch_tensor(plan, op, (int)(mlirOperationGetNumOperands(op) + i))->name));
    json_array_append_new(roles, json_string(moe__role_name(moe__result_role(op, (int)i))));
  }
  return json_pack("{so so so so so}", "name", json_text(moe__op_name(op)), "attributes",
                   attributes, "operands", operands, "results", results, "roles", roles);
}

/* number: of the launch in its function. The first one may start early only where its kernel waits
 * for what is before the function, too. */
static json_t *describe_launch(moe__plan_t *plan, size_t number) {
  const moe__plan_launch_t *launch = &plan->launches[number];
  const moe__record_t *record = &launch->record;
  json_t *parameters = json_array();
  for (int i = 0; i < record->parameter_count; i++)
    json_array_append_new(parameters, describe_parameter(plan, launch->op, &record->parameters[i]));
  return json_pack(
      "{so so so so sb}", "kernel", json_text(launch->kernel), "op", describe_op(plan, launch->op),
      "grid", describe_expressions(plan, launch->op, 3, record->grid), "parameters", parameters,
      "programmatic", number > 0 ? record->programmatic : record->overlaps);
}

/* ---- Functions and kernels ---- */

static json_t *describe_function(moe__plan_t *plan) {
  json_t *launches = json_array(), *arguments = json_array(), *results = json_array(),
         *temporaries = json_array();
  for (size_t i = 0; i < plan->launch_count; i++)
    json_array_append_new(launches, describe_launch(plan, i));
  for (size_t i = 0; i < plan->argument_count; i++)
    json_array_append_new(arguments, describe_argument(&plan->tensors[i]));
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(plan->returns); i++)
    json_array_append_new(results, describe_tensor(moe__plan_tensor(
                                       plan, mlirOperationGetOperand(plan->returns, i))));
  for (size_t i = plan->argument_count; i < plan->tensor_count; i++)
    if (!moe__plan_returns(plan, plan->tensors[i].value))
      json_array_append_new(temporaries, describe_temporary(&plan->tensors[i]));
  return json_pack("{so sO so so so ss? so}", "name", json_text(moe__symbol(plan->function)),
                   "symbols", plan->symbols, "arguments", arguments, "results", results,
                   "temporaries", temporaries, "status", plan->status, "launches", launches);
}

/* Whether a launcher takes as much. */
static bool fits(MlirOperation op, size_t count, size_t most, const char *what) {
  return count <= most ||
         moe__error(op, "there are %zu %s; a manifest holds at most %zu", count, what, most);
}

/* How many operations of expressions are inside each other anywhere in `json`. */
static size_t depth_of(const json_t *json) {
  static const moe__expression_kind_t operations[] = {MOE__EXPRESSION_CEILDIV, MOE__EXPRESSION_MUL,
                                                      MOE__EXPRESSION_ADD, MOE__EXPRESSION_MIN};
  size_t most = 0, index = 0;
  const char *key = NULL;
  json_t *value = NULL;
  json_array_foreach(json, index, value) {
    size_t depth = depth_of(value);
    most = depth > most ? depth : most;
  }
  json_object_foreach((json_t *)json, key, value) {
    size_t depth = depth_of(value);
    for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++)
      depth += strcmp(key, moe__expression_names[operations[i]]) == 0;
    most = depth > most ? depth : most;
  }
  return most;
}

static bool fits_manifest(const moe__plan_t *plan, const json_t *description) {
  return fits(plan->function, plan->tensor_count, MOE_MAX_TENSORS,
              "tensors of the function, with those between its kernels") &&
         fits(plan->function, json_array_size(plan->symbols), MOE_MAX_SYMBOLS,
              "sizes of the function that are not static") &&
         fits(plan->function, depth_of(description), MOE_MAX_DEPTH,
              "operations inside each other in sizes of the function");
}

/* Adds the function to the list; false after an error. */
static bool add_function(MlirOperation module, MlirOperation function, json_t *list) {
  moe__plan_t plan;
  bool ok = moe__plan_read(module, function, &plan);
  if (ok && (ok = moe__symbols_restrict(&plan))) {
    /* Launches add the tensors that they share. */
    json_t *description = describe_function(&plan);
    json_array_append_new(list, description);
    ok = fits_manifest(&plan, description);
  }
  moe__plan_destroy(&plan);
  return ok;
}

/* NULL after an error. */
static json_t *list_functions(MlirOperation module) {
  json_t *list = json_array();
  bool ok = true;
  for (MlirOperation op = mlirBlockGetFirstOperation(moe__body(module));
       ok && !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op))
    if (moe__op_is(op, "func.func") && !mlirBlockIsNull(moe__body(op)))
      ok = add_function(module, op, list);
  if (ok && json_array_size(list) == 0)
    ok = moe__error(module, "there is no function: nothing can be launched");
  if (ok && fits(module, json_array_size(list), MOE_MAX_FUNCTIONS, "functions"))
    return list;
  json_decref(list);
  return NULL;
}

typedef struct kernels_t {
  json_t *list;           /* of the manifest */
  json_t *min_assemblers; /* by name, of those that have one */
} kernels_t;

static void add_kernel(MlirOperation function, const moe__record_t *record, void *user) {
  kernels_t *kernels = user;
  MlirStringRef name = moe__symbol(function);
  json_t *kernel = json_pack(
      "{so so so si}", "name", json_text(name), "block", describe_integers(3, record->cta),
      "cluster", describe_integers(3, record->cluster), "shared_memory", record->shared_memory);
  json_t *least = json_object_getn(kernels->min_assemblers, name.data, name.length);
  if (least)
    json_object_set(kernel, "min_assembler", least);
  json_array_append_new(kernels->list, kernel);
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
  kernels_t kernels = {json_array(), moe__target_min_assemblers(ptx)};
  bool ok = moe__walk_records(module, add_kernel, &kernels) &&
            fits(module, json_array_size(kernels.list), MOE_MAX_KERNELS, "kernels");
  json_decref(kernels.min_assemblers);
  if (!ok) {
    json_decref(kernels.list);
    json_decref(functions);
    return MOE_INVALID_INPUT;
  }
  json_t *artifacts = json_object();
  json_t *ptx_artifact = describe_artifact(MOE__BUNDLE_PTX, ptx);
  json_object_set_new(ptx_artifact, "isa", ptx_isa(ptx.data));
  json_object_set_new(artifacts, "ptx", ptx_artifact);
  if (cubin.data) {
    json_t *cubin_artifact = describe_artifact(MOE__BUNDLE_CUBIN, cubin);
    json_object_set_new(cubin_artifact, "assembler", json_string(assembler));
    json_object_set_new(artifacts, "cubin", cubin_artifact);
  }
  json_t *manifest =
      json_pack("{ss si ss ss so so so}", "format", MOE_BUNDLE_FORMAT, "version",
                MOE_BUNDLE_VERSION, "producer", "moe-opt " MOE_VERSION, "target", options->chip,
                "artifacts", artifacts, "kernels", kernels.list, "functions", functions);
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
