/* OutlineKernels.c - makes a kernel of each op: the function becomes the launch plan, a
 * gpu.module holds the kernels.
 *
 * The plan is the function itself: its ops, in order, are the launches, and each names its
 * kernel in the attribute `kernel`. Values are buffers: arguments and returned values are the
 * caller's, all others lie in the workspace. Besides launches the plan holds views
 * (lib/Builder/Views.h), which are other names for buffers. A kernel is a func.func that holds a
 * copy of the op, until a conversion writes its body.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Builder/Views.h"
#include "lib/Dialect/Dialect.h"
#include "passes/Passes.h"

#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/BuiltinTypes.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

static bool is_ours(MlirOperation op) {
  return moe__op_id(op) != MOE__NO_OP;
}

/* ---- What a function may hold ---- */

static bool has_no_kernel(MlirOperation op) {
  MlirStringRef name = moe__op_name(op);
  return moe__error(op, "'%.*s' has no kernel and could not be fused into one", (int)name.length,
                    name.data);
}

/* What is read must have been made by a kernel, or be an argument. */
static bool check_operands(MlirOperation op) {
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    moe__permutation_t ignored;
    MlirValue value = mlirOperationGetOperand(op, i);
    if (!mlirTypeIsARankedTensor(mlirValueGetType(value)))
      continue; /* moe-verify refuses it as an operand, and no kernel makes it as a result */
    value = moe__view_source(value, &ignored);
    if (mlirValueIsAOpResult(value) && !is_ours(mlirOpResultGetOwner(value)))
      return has_no_kernel(mlirOpResultGetOwner(value));
  }
  return true;
}

static bool check_return(MlirOperation op) {
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    MlirValue value = mlirOperationGetOperand(op, i);
    if (mlirValueIsAOpResult(value) && moe__is_view(mlirOpResultGetOwner(value)))
      return moe__error(op,
                        "result %d is a view; return what the kernel makes, and let the caller see "
                        "it with other dimensions",
                        (int)i);
    if (mlirValueIsABlockArgument(value))
      return moe__error(op, "result %d is an argument; every result must be made by a kernel",
                        (int)i);
    for (intptr_t j = 0; j < i; j++)
      if (mlirValueEqual(value, mlirOperationGetOperand(op, j)))
        return moe__error(
            op, "results %d and %d are the same value; each result has a buffer of its own", (int)j,
            (int)i);
  }
  return check_operands(op);
}

/* The way out is a type that makes a view of it. */
static bool check_transpose(MlirOperation op) {
  if (moe__is_view(op))
    return true;
  moe__permutation_t p;
  int order[MOE__MAX_RANK];
  MlirType type = mlirValueGetType(mlirOperationGetOperand(op, 0));
  if (!mlirTypeIsARankedTensor(type) || !moe__permutation_of(op, &p) ||
      !moe__memory_order(type, order))
    return has_no_kernel(op);
  MlirAttribute encoding = mlirRankedTensorTypeGetEncoding(moe__transposed(type, &p, true));
  char *text = mlirAttributeIsNull(encoding) ? NULL : moe__attribute_text(encoding);
  moe__error(op,
             "'linalg.transpose' moves its tensor, and no kernel does that alone; it moves nothing "
             "where its result has %s%s",
             text ? "the encoding " : "no encoding", text ? text : "");
  free(text);
  return false;
}

static bool is_read_by_kernel(MlirValue value) {
  for (MlirOpOperand use = mlirValueGetFirstUse(value); !mlirOpOperandIsNull(use);
       use = mlirOpOperandGetNextUse(use)) {
    MlirOperation user = mlirOpOperandGetOwner(use);
    if (is_ours(user) || (moe__is_view(user) && mlirOpOperandGetOperandNumber(use) == 0 &&
                          is_read_by_kernel(mlirOperationGetResult(user, 0))))
      return true;
  }
  return false;
}

static MlirAttribute constant_of(MlirOperation function, intptr_t argument) {
  return moe__port_attribute(function, "arg_attrs", argument, MOE__CONSTANT);
}

/* An argument that is read is read by an op of ours: moe-verify has then checked its type. */
static bool check_arguments(MlirOperation function) {
  MlirBlock body = moe__body(function);
  for (intptr_t i = 0; i < mlirBlockGetNumArguments(body); i++) {
    if (!is_read_by_kernel(mlirBlockGetArgument(body, i)))
      return moe__error(function,
                        "argument %d is not used; every argument must be read by a kernel", (int)i);
    MlirAttribute constant = constant_of(function, i);
    if (!mlirAttributeIsNull(constant) && !mlirAttributeIsAUnit(constant))
      return moe__error(function,
                        "argument %d: " MOE__CONSTANT " must stand alone, without a value", (int)i);
  }
  return true;
}

static bool check_op(MlirOperation op) {
  if (moe__op_is(op, "func.return"))
    return check_return(op);
  if (moe__op_is(op, "linalg.transpose"))
    return check_transpose(op);
  if (is_ours(op))
    return check_operands(op);
  return moe__makes_destination(op) || has_no_kernel(op);
}

static bool check_function(MlirOperation function) {
  if (moe__symbol(function).length == 0)
    return moe__error(function, "a function must have a name");
  if (!mlirBlockIsNull(mlirBlockGetNextInRegion(moe__body(function))))
    return moe__error(function, "a launch plan has no branches: the function must be one block");
  for (MlirOperation op = mlirBlockGetFirstOperation(moe__body(function)); !mlirOperationIsNull(op);
       op = mlirOperationGetNextInBlock(op))
    if (!check_op(op))
      return false;
  return check_arguments(function);
}

/* ---- Kernels ---- */

static bool symbol_exists(MlirBlock block, MlirStringRef name) {
  for (MlirOperation op = mlirBlockGetFirstOperation(block); !mlirOperationIsNull(op);
       op = mlirOperationGetNextInBlock(op))
    if (!mlirAttributeIsNull(moe__op_attribute(op, "sym_name")) &&
        mlirStringRefEqual(moe__symbol(op), name))
      return true;
  return false;
}

static MlirOperation find_gpu_module(MlirOperation module) {
  MlirOperation op = mlirBlockGetFirstOperation(moe__body(module));
  while (!mlirOperationIsNull(op) && !moe__op_is(op, "gpu.module"))
    op = mlirOperationGetNextInBlock(op);
  return op;
}

/* What an op was outlined to earlier must be there. */
static bool check_kernel(MlirOperation gpu_module, MlirOperation op, MlirAttribute kernel) {
  if (!mlirOperationIsNull(gpu_module) && mlirAttributeIsASymbolRef(kernel) &&
      mlirStringRefEqual(mlirSymbolRefAttrGetRootReference(kernel), moe__symbol(gpu_module)) &&
      symbol_exists(moe__body(gpu_module), mlirSymbolRefAttrGetLeafReference(kernel)))
    return true;
  char *name = moe__attribute_text(kernel);
  moe__error(op, "there is no kernel %s", name);
  free(name);
  return false;
}

/* "kernels", or where something else is called so, "kernels_<n>". */
static MlirOperation create_gpu_module(MlirOperation module) {
  moe__builder_t b =
      moe__builder_create(mlirOperationGetContext(module), mlirOperationGetLocation(module));
  b.block = moe__body(module);
  char name[32] = "kernels";
  for (int n = 0; symbol_exists(b.block, mlirStringRefCreateFromCString(name)); n++)
    snprintf(name, sizeof name, "kernels_%d", n);
  char attributes[64];
  snprintf(attributes, sizeof attributes, "sym_name = \"%s\"", name);
  MlirRegion region = mlirRegionCreate();
  mlirRegionAppendOwnedBlock(region, mlirBlockCreate(0, NULL, NULL));
  moe__op_set_attribute(module, "gpu.container_module", mlirUnitAttrGet(b.context));
  return moe__op(&b, "gpu.module", 0, NULL, MOE__NO_VALUES, attributes, 1, &region);
}

/* Leaves room for a prefix and a number in the 255 characters that the manifest allows. */
#define MAX_BASE 240

/* "<function>_<n>", with n the first free number, *next or more, and every character one that PTX
 * allows. Free it. *next: a kernel of the same function has all numbers before it. */
static char *kernel_name(MlirOperation function, MlirBlock kernels, int *next) {
  MlirStringRef base = moe__symbol(function);
  for (;;) {
    char *name = NULL;
    if (asprintf(&name, "%s%.*s_%d", isalpha((unsigned char)base.data[0]) ? "" : "k",
                 (int)(base.length < MAX_BASE ? base.length : MAX_BASE), base.data, (*next)++) < 0)
      abort();
    for (char *c = name; *c; c++)
      if (!isalnum((unsigned char)*c))
        *c = '_';
    if (!symbol_exists(kernels, mlirStringRefCreateFromCString(name)))
      return name;
    free(name);
  }
}

/* The attributes of the kernel's arguments, the operands of the op: those that are views of
 * constant arguments are constant. */
static MlirAttribute kernel_arguments(MlirOperation function, MlirOperation op) {
  MlirContext context = mlirOperationGetContext(op);
  MlirNamedAttribute constant = mlirNamedAttributeGet(
      mlirIdentifierGet(context, mlirStringRefCreateFromCString(MOE__CONSTANT)),
      mlirUnitAttrGet(context));
  intptr_t count = mlirOperationGetNumOperands(op);
  MlirAttribute *list = calloc((size_t)count + 1, sizeof *list);
  if (!list)
    abort();
  for (intptr_t i = 0; i < count; i++) {
    moe__permutation_t ignored;
    MlirValue value = moe__view_source(mlirOperationGetOperand(op, i), &ignored);
    bool is_constant =
        mlirValueIsABlockArgument(value) &&
        !mlirAttributeIsNull(constant_of(function, mlirBlockArgumentGetArgNumber(value)));
    list[i] = mlirDictionaryAttrGet(context, is_constant, &constant);
  }
  MlirAttribute all = mlirArrayAttrGet(context, count, list);
  free(list);
  return all;
}

static void outline(MlirOperation function, MlirOperation op, MlirOperation gpu_module, int *next) {
  MlirContext context = mlirOperationGetContext(op);
  moe__builder_t b = moe__builder_create(context, mlirOperationGetLocation(op));
  MlirBlock kernels = moe__body(gpu_module);
  char *name = kernel_name(function, kernels, next);

  intptr_t operand_count = mlirOperationGetNumOperands(op),
           result_count = mlirOperationGetNumResults(op);
  MlirType *types = calloc((size_t)(operand_count + result_count), sizeof *types);
  MlirLocation *locations = calloc((size_t)operand_count + 1, sizeof *locations);
  MlirValue *results = calloc((size_t)result_count + 1, sizeof *results);
  if (!types || !locations || !results)
    abort();
  for (intptr_t i = 0; i < operand_count; i++) {
    types[i] = mlirValueGetType(mlirOperationGetOperand(op, i));
    locations[i] = b.location;
  }
  for (intptr_t i = 0; i < result_count; i++)
    types[operand_count + i] = mlirValueGetType(mlirOperationGetResult(op, i));

  MlirBlock body = mlirBlockCreate(operand_count, types, locations);
  MlirOperation copy = mlirOperationClone(op);
  for (intptr_t i = 0; i < operand_count; i++)
    mlirOperationSetOperand(copy, i, mlirBlockGetArgument(body, i));
  mlirBlockAppendOwnedOperation(body, copy);
  for (intptr_t i = 0; i < result_count; i++)
    results[i] = mlirOperationGetResult(copy, i);
  b.block = body;
  moe__op0(&b, "func.return", result_count, results, NULL);

  MlirRegion region = mlirRegionCreate();
  mlirRegionAppendOwnedBlock(region, body);
  b.block = kernels;
  MlirOperation kernel = moe__op(&b, "func.func", 0, NULL, MOE__NO_VALUES,
                                 "sym_name = \"\", function_type = () -> ()", 1, &region);
  moe__op_set_attribute(kernel, "sym_name",
                        mlirStringAttrGet(context, mlirStringRefCreateFromCString(name)));
  moe__op_set_attribute(kernel, "function_type",
                        mlirTypeAttrGet(mlirFunctionTypeGet(context, operand_count, types,
                                                            result_count, types + operand_count)));
  moe__op_set_attribute(kernel, "arg_attrs", kernel_arguments(function, op));
  MlirAttribute leaf = mlirFlatSymbolRefAttrGet(context, mlirStringRefCreateFromCString(name));
  moe__op_set_attribute(op, "kernel",
                        mlirSymbolRefAttrGet(context, moe__symbol(gpu_module), 1, &leaf));
  free(types);
  free(locations);
  free(results);
  free(name);
}

bool moe__pass_outline_kernels(MlirOperation module, const moe__pass_t *pass) {
  (void)pass;
  MlirOperation gpu_module = find_gpu_module(module);
  for (MlirOperation function = mlirBlockGetFirstOperation(moe__body(module));
       !mlirOperationIsNull(function); function = mlirOperationGetNextInBlock(function)) {
    if (moe__op_is(function, "gpu.module"))
      continue;
    if (!moe__op_is(function, "func.func")) {
      MlirStringRef name = moe__op_name(function);
      return moe__error(function, "'%.*s' beside the functions cannot be compiled",
                        (int)name.length, name.data);
    }
    if (mlirBlockIsNull(moe__body(function)))
      continue;
    if (!check_function(function))
      return false;
    int next = 0;
    for (MlirOperation op = mlirBlockGetFirstOperation(moe__body(function));
         !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op)) {
      if (!is_ours(op))
        continue;
      MlirAttribute kernel = moe__op_attribute(op, "kernel");
      if (!mlirAttributeIsNull(kernel)) {
        if (!check_kernel(gpu_module, op, kernel))
          return false;
        continue;
      }
      if (mlirOperationIsNull(gpu_module))
        gpu_module = create_gpu_module(module);
      outline(function, op, gpu_module, &next);
    }
  }
  return true;
}
