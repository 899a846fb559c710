/* Plan.c - see Plan.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Target/Plan.h"

#include "lib/Dialect/Shapes.h"

#include "moe/limits.h"

#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/BuiltinTypes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNTERS 3 /* i32 of a launch, whose address moe__kernel_counters gives a kernel */

/* ---- Tensors ---- */

moe__plan_tensor_t *moe__plan_tensor(moe__plan_t *plan, MlirValue value) {
  for (size_t i = 0; i < plan->tensor_count; i++)
    if (mlirValueEqual(plan->tensors[i].value, value))
      return &plan->tensors[i];
  return NULL;
}

static bool name_is_taken(const moe__plan_t *plan, const char *name) {
  for (size_t i = 0; i < plan->tensor_count; i++)
    if (strcmp(plan->tensors[i].name, name) == 0)
      return true;
  return false;
}

/* Adds a tensor. The name is `prefix` followed by the first free number where `name` is empty or
 * taken. */
static moe__plan_tensor_t *add_tensor(moe__plan_t *plan, MlirValue value, MlirType type,
                                      MlirStringRef name, const char *prefix) {
  char *text = strndup(name.data ? name.data : "", name.length);
  for (int n = 0; text && (!*text || name_is_taken(plan, text)); n++) {
    free(text);
    if (asprintf(&text, "%s%d", prefix, n) < 0)
      abort();
  }
  plan->tensors = realloc(plan->tensors, (plan->tensor_count + 1) * sizeof *plan->tensors);
  if (!text || !plan->tensors)
    abort();
  moe__plan_tensor_t *tensor = &plan->tensors[plan->tensor_count++];
  *tensor = (moe__plan_tensor_t){.value = value, .type = type, .name = text, .shape = json_array()};
  return tensor;
}

/* The `moe.name` of argument or result number i. */
static MlirStringRef given_name(MlirOperation plan, const char *attributes, intptr_t i) {
  MlirAttribute name = moe__port_attribute(plan, attributes, i, MOE__NAME);
  if (mlirAttributeIsNull(name) || !mlirAttributeIsAString(name))
    return mlirStringRefCreate(NULL, 0);
  return mlirStringAttrGetValue(name);
}

static void add_arguments(moe__plan_t *plan) {
  MlirBlock body = moe__body(plan->function);
  for (intptr_t i = 0; i < mlirBlockGetNumArguments(body); i++) {
    MlirValue value = mlirBlockGetArgument(body, i);
    MlirType type = mlirValueGetType(value);
    moe__plan_tensor_t *tensor =
        add_tensor(plan, value, type, given_name(plan->function, "arg_attrs", i), "arg");
    tensor->constant =
        !mlirAttributeIsNull(moe__port_attribute(plan->function, "arg_attrs", i, MOE__CONSTANT));
    for (int d = 0; d < mlirShapedTypeGetRank(type); d++) {
      if (!mlirShapedTypeIsDynamicDim(type, d)) {
        json_array_append_new(tensor->shape, json_integer(mlirShapedTypeGetDimSize(type, d)));
        continue;
      }
      json_t *symbol = json_sprintf("%s.%d", tensor->name, d);
      json_array_append(tensor->shape, symbol);
      json_array_append_new(plan->symbols,
                            json_pack("{so si si sI}", "name", symbol, "multiple_of", 1, "min", 0,
                                      "max", (json_int_t)MOE_MAX_DIMENSION));
    }
  }
}

moe__plan_tensor_t *moe__plan_viewed_tensor(moe__plan_t *plan, MlirOperation launch, int n,
                                            moe__permutation_t *out) {
  intptr_t operands = mlirOperationGetNumOperands(launch);
  MlirValue value = n < operands ? mlirOperationGetOperand(launch, n)
                                 : mlirOperationGetResult(launch, n - operands);
  return moe__plan_tensor(plan, moe__view_source(value, out));
}

moe__plan_tensor_t *moe__plan_launch_tensor(moe__plan_t *plan, MlirOperation launch, int n) {
  moe__permutation_t ignored;
  return moe__plan_viewed_tensor(plan, launch, n, &ignored);
}

json_t *moe__plan_size(moe__plan_t *plan, MlirOperation launch, const moe__dim_t *dim) {
  moe__permutation_t p;
  const moe__plan_tensor_t *tensor = moe__plan_viewed_tensor(plan, launch, dim->tensor, &p);
  return json_array_get(tensor->shape, (size_t)p.at[dim->dimension]);
}

/* Of a value that is given away. */
static json_t *times(json_t *value, int64_t multiple) {
  if (multiple == 1)
    return value;
  if (!json_is_integer(value))
    return json_pack("{s[oI]}", "mul", value, (json_int_t)multiple);
  json_integer_set(value, json_integer_value(value) * multiple);
  return value;
}

/* Sizes as lib/Dialect/Shapes.h says. A number as far as the sizes are. */
static json_t *size_expression(moe__plan_t *plan, MlirOperation op, const moe__size_t *size) {
  json_t *of = size->operand < 0
                   ? NULL
                   : moe__plan_size(plan, op, &(moe__dim_t){size->operand, size->dimension});
  json_t *value = NULL;
  if (!of || json_is_integer(of))
    value = json_integer(((of ? json_integer_value(of) : 1) + size->divisor - 1) / size->divisor);
  else
    value = size->divisor == 1 ? json_incref(of)
                               : json_pack("{s[OI]}", "ceildiv", of, (json_int_t)size->divisor);
  if (size->groups_apart)
    value = times(value, size->multiple);
  if (size->groups_operand >= 0) {
    json_t *groups = moe__plan_size(plan, op, &(moe__dim_t){size->groups_operand, 0});
    if (json_is_integer(value) && json_is_integer(groups))
      json_integer_set(value, json_integer_value(value) + json_integer_value(groups));
    else
      value = json_pack("{s[oO]}", "add", value, groups);
  }
  return size->groups_apart ? value : times(value, size->multiple);
}

static void infer_shape(moe__plan_t *plan, MlirOperation op, int result, json_t *shape) {
  moe__shape_t sizes;
  moe__result_shape(op, result, &sizes);
  for (int d = 0; d < sizes.rank; d++)
    json_array_append_new(shape, size_expression(plan, op, &sizes.sizes[d]));
}

static intptr_t returned_at(const moe__plan_t *plan, MlirValue value) {
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(plan->returns); i++)
    if (mlirValueEqual(mlirOperationGetOperand(plan->returns, i), value))
      return i;
  return -1;
}

/* Results and temporaries, in the order in which launches make them. */
static void add_made_tensors(moe__plan_t *plan) {
  for (MlirOperation op = mlirBlockGetFirstOperation(moe__body(plan->function));
       !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op)) {
    if (!moe__is_launch(op))
      continue;
    for (int i = 0; i < mlirOperationGetNumResults(op); i++) {
      MlirValue value = mlirOperationGetResult(op, i);
      MlirType type = mlirValueGetType(value);
      intptr_t position = returned_at(plan, value);
      moe__plan_tensor_t *tensor =
          position < 0 ? add_tensor(plan, value, type, mlirStringRefCreate(NULL, 0), "temporary")
                       : add_tensor(plan, value, type,
                                    given_name(plan->function, "res_attrs", position), "result");
      infer_shape(plan, op, i, tensor->shape);
    }
  }
}

bool moe__plan_returns(const moe__plan_t *plan, MlirValue value) {
  return returned_at(plan, value) >= 0;
}

/* The name of a tensor that all launches share: `count` elements, or so many for each
 * multiprocessor. */
static const char *shared_name(moe__plan_t *plan, const char **name, const char *wanted,
                               bool is_f32, bool of_each, int count) {
  if (*name)
    return *name;
  MlirContext context = mlirOperationGetContext(plan->function);
  MlirType element = is_f32 ? mlirF32TypeGet(context) : mlirIntegerTypeGet(context, 32);
  int64_t shape[] = {count, count};
  if (of_each)
    shape[0] = mlirShapedTypeGetDynamicSize();
  MlirType type = mlirRankedTensorTypeGet(of_each ? 2 : 1, shape, element, mlirAttributeGetNull());
  moe__plan_tensor_t *tensor =
      add_tensor(plan, (MlirValue){NULL}, type, mlirStringRefCreateFromCString(wanted), wanted);
  if (of_each)
    json_array_append_new(tensor->shape,
                          json_string(moe__expression_names[MOE__EXPRESSION_NUM_SMS]));
  json_array_append_new(tensor->shape, json_integer(count));
  tensor->zeroed = !is_f32;
  return *name = tensor->name;
}

const char *moe__plan_status(moe__plan_t *plan) {
  return shared_name(plan, &plan->status, "status", false, false, 1);
}

const char *moe__plan_counters(moe__plan_t *plan) {
  return shared_name(plan, &plan->counters, "counters", false, false, COUNTERS);
}

const char *moe__plan_partials(moe__plan_t *plan) {
  return shared_name(plan, &plan->partials, "partials", true, true, MOE__PARTIAL_SUMS);
}

const char *moe__plan_arrivals(moe__plan_t *plan) {
  return shared_name(plan, &plan->arrivals, "arrivals", false, true, MOE__ARRIVALS);
}

/* ---- Names ---- */

/* What the schema takes for the name of a function or tensor. */
#define MAX_NAME 255
#define NAME_RULE "must be 1 to 255 bytes of UTF-8, without quotes and control characters"
static bool is_name(MlirStringRef text) {
  bool ok = text.length > 0 && text.length <= MAX_NAME;
  for (size_t i = 0; ok && i < text.length; i++)
    ok = (unsigned char)text.data[i] >= ' ' && !strchr("\177'\"", text.data[i]);
  json_t *value = ok ? json_stringn(text.data, text.length) : NULL; /* NULL unless it is UTF-8 */
  json_decref(value);
  return value != NULL;
}

static bool check_names(const moe__plan_t *plan) {
  if (!is_name(moe__symbol(plan->function)))
    return moe__error(plan->function, "the name of the function " NAME_RULE);
  for (size_t i = 0; i < plan->tensor_count; i++)
    if (!is_name(mlirStringRefCreateFromCString(plan->tensors[i].name)))
      return moe__error(plan->function, "the name of a tensor " NAME_RULE);
  return true;
}

/* ---- Launches ---- */

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

/* Marks the results of the launch that are state of its kernel. Such a result holds nothing that a
 * caller or another kernel could use. */
static bool mark_zeroed(moe__plan_t *plan, const moe__plan_launch_t *launch) {
  for (int i = 0; i < launch->record.zeroed_count; i++) {
    int n = launch->record.zeroed[i];
    moe__plan_tensor_t *tensor = moe__plan_launch_tensor(plan, launch->op, n);
    if (!mlirOpOperandIsNull(mlirValueGetFirstUse(tensor->value)))
      return moe__error(launch->op,
                        "result %d is state of the kernel: it can neither be returned nor be an "
                        "operand of another op",
                        n - (int)mlirOperationGetNumOperands(launch->op));
    tensor->zeroed = true;
  }
  return true;
}

static bool add_launch(MlirOperation module, moe__plan_t *plan, MlirOperation op) {
  plan->launches = realloc(plan->launches, (plan->launch_count + 1) * sizeof *plan->launches);
  if (!plan->launches)
    abort();
  moe__plan_launch_t *launch = &plan->launches[plan->launch_count++];
  *launch = (moe__plan_launch_t){
      .op = op, .kernel = mlirSymbolRefAttrGetLeafReference(moe__op_attribute(op, "kernel"))};
  MlirAttribute record = find_record(module, launch->kernel);
  if (mlirAttributeIsNull(record))
    return moe__error(op, "kernel '%.*s' has not been compiled", (int)launch->kernel.length,
                      launch->kernel.data);
  return moe__record_read(op, record, &launch->record) && moe__record_check(op, &launch->record) &&
         mark_zeroed(plan, launch);
}

static bool add_launches(MlirOperation module, moe__plan_t *plan) {
  for (MlirOperation op = mlirBlockGetFirstOperation(moe__body(plan->function));
       !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op))
    if (moe__is_launch(op) && !add_launch(module, plan, op))
      return false;
  return plan->launch_count || moe__error(plan->function, "the function launches no kernel");
}

bool moe__plan_read(MlirOperation module, MlirOperation function, moe__plan_t *out) {
  *out = (moe__plan_t){.function = function,
                       .returns = mlirBlockGetTerminator(moe__body(function)),
                       .symbols = json_array()};
  add_arguments(out);
  out->argument_count = out->tensor_count;
  add_made_tensors(out);
  return check_names(out) && add_launches(module, out);
}

void moe__plan_destroy(moe__plan_t *plan) {
  for (size_t i = 0; i < plan->tensor_count; i++) {
    free(plan->tensors[i].name);
    json_decref(plan->tensors[i].shape);
  }
  for (size_t i = 0; i < plan->launch_count; i++)
    moe__record_destroy(&plan->launches[i].record);
  free(plan->tensors);
  free(plan->launches);
  json_decref(plan->symbols);
}
