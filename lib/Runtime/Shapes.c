/* Shapes.c - binds shape symbols to the shapes of arguments and computes everybody's shape from
 * them.
 *
 * A shape is the one thing that caller and kernel agree on at run time, so it is decided in one
 * place.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Runtime/Program.h"

#include <string.h>

const char *moe__rt_tensor_role(const moe__rt_function_t *function, int tensor) {
  if (tensor < function->info.argument_count)
    return "argument";
  return tensor < function->info.argument_count + function->info.result_count ? "result"
                                                                              : "temporary";
}

/* Checks `size` against the limits of a symbol. */
static moe_rt_status_t check_symbol(const moe__rt_symbol_t *symbol, int64_t size) {
  if (size < symbol->min || size > symbol->max) {
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "is %lld; it must be %lld to %lld",
                        (long long)size, (long long)symbol->min, (long long)symbol->max);
  }
  if (size % symbol->multiple_of != 0) {
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "is %lld; it must be a multiple of %lld",
                        (long long)size, (long long)symbol->multiple_of);
  }
  return MOE_RT_OK;
}

/* Binds one dimension, or compares it with a constant. A symbol that has no value yet has -1. */
static moe_rt_status_t bind_dimension(const moe__rt_function_t *function,
                                      const moe__rt_expression_t *expression, int64_t size,
                                      int64_t *symbols) {
  if (size < 0)
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "is %lld; it must be at least 0", (long long)size);
  if (expression->kind == MOE__RT_CONSTANT) {
    if (size == expression->value)
      return MOE_RT_OK;
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "is %lld; it must be %lld", (long long)size,
                        (long long)expression->value);
  }
  if (expression->kind != MOE__RT_SYMBOL) /* compared when all symbols have values */
    return MOE_RT_OK;
  const moe__rt_symbol_t *symbol = &function->symbols.items[expression->value];
  int64_t *value = &symbols[expression->value];
  if (*value >= 0 && *value != size) {
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "is %lld; it must be %lld, the value of '%s'",
                        (long long)size, (long long)*value, symbol->name);
  }
  *value = size;
  return check_symbol(symbol, size);
}

/* Compares a dimension that is an expression with its value. */
static moe_rt_status_t compare_dimension(const moe__rt_expression_t *expression, int64_t size,
                                         const int64_t *symbols) {
  if (expression->kind == MOE__RT_CONSTANT || expression->kind == MOE__RT_SYMBOL)
    return MOE_RT_OK;
  moe__rt_bindings_t bindings = {.symbols = symbols};
  int64_t expected = 0;
  MOE__RT_TRY(moe__rt_expression_evaluate(expression, &bindings, &expected));
  if (size == expected)
    return MOE_RT_OK;
  return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "is %lld; it must be %lld", (long long)size,
                      (long long)expected);
}

typedef enum step_t { BIND, COMPARE } step_t;

static moe_rt_status_t each_dimension(const moe__rt_function_t *function, step_t step,
                                      const int64_t *const *argument_shapes, int64_t *symbols) {
  for (int t = 0; t < function->info.argument_count; t++) {
    const moe__rt_tensor_t *tensor = &function->tensors[t];
    for (int i = 0; i < tensor->info->rank; i++) {
      int64_t size = argument_shapes[t][i];
      moe_rt_status_t status = step == BIND
                                   ? bind_dimension(function, &tensor->shape[i], size, symbols)
                                   : compare_dimension(&tensor->shape[i], size, symbols);
      if (status != MOE_RT_OK) {
        return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "argument '%s': dimension %d %s",
                            tensor->info->name, i, moe_rt_last_message());
      }
    }
  }
  return MOE_RT_OK;
}

moe_rt_status_t moe__rt_shapes_bind(const moe__rt_function_t *function,
                                    const int64_t *const *argument_shapes,
                                    int64_t out_symbols[MOE__RT_MAX_SYMBOLS]) {
  for (int i = 0; i < function->symbols.count; i++)
    out_symbols[i] = -1;
  MOE__RT_TRY(each_dimension(function, BIND, argument_shapes, out_symbols));
  return each_dimension(function, COMPARE, argument_shapes, out_symbols);
}

moe_rt_status_t moe__rt_shapes_compute(const moe__rt_function_t *function, int tensor,
                                       const moe__rt_bindings_t *bindings,
                                       int64_t out_shape[MOE_RT_MAX_RANK]) {
  const moe__rt_tensor_t *computed = &function->tensors[tensor];
  for (int i = 0; i < computed->info->rank; i++) {
    moe_rt_status_t status =
        moe__rt_expression_evaluate(&computed->shape[i], bindings, &out_shape[i]);
    if (status != MOE_RT_OK) {
      return moe__rt_fail_in(status, "%s '%s': dimension %d", moe__rt_tensor_role(function, tensor),
                             computed->info->name, i);
    }
  }
  return MOE_RT_OK;
}

moe_rt_status_t moe__rt_shapes_bytes(const moe_rt_tensor_info_t *tensor, const int64_t *shape,
                                     int64_t *out_bytes) {
  *out_bytes = 0;
  for (int i = 0; i < tensor->rank; i++) {
    if (shape[i] == 0)
      return MOE_RT_OK;
  }
  int64_t bytes = tensor->dtype_bits / 8;
  for (int i = 0; i < tensor->rank; i++) {
    if (__builtin_mul_overflow(bytes, shape[i], &bytes))
      return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "the size in bytes does not fit 63 bits");
  }
  *out_bytes = bytes;
  return MOE_RT_OK;
}

/* Copies the shapes of `count` tensors from `first` on. */
static moe_rt_status_t compute_list(const moe__rt_function_t *function, int first, int count,
                                    const moe__rt_bindings_t *bindings,
                                    int64_t (*out_shapes)[MOE_RT_MAX_RANK]) {
  for (int i = 0; out_shapes && i < count; i++) {
    int64_t bytes = 0;
    int tensor = first + i;
    MOE__RT_TRY(moe__rt_shapes_compute(function, tensor, bindings, out_shapes[i]));
    moe_rt_status_t status =
        moe__rt_shapes_bytes(function->tensors[tensor].info, out_shapes[i], &bytes);
    if (status != MOE_RT_OK) {
      return moe__rt_fail_in(status, "%s '%s'", moe__rt_tensor_role(function, tensor),
                             function->tensors[tensor].info->name);
    }
  }
  return MOE_RT_OK;
}

static moe_rt_status_t function_shapes(const moe_rt_program_t *program,
                                       const moe__rt_function_t *function,
                                       const int64_t *const *argument_shapes,
                                       int64_t (*out_result_shapes)[MOE_RT_MAX_RANK],
                                       int64_t (*out_temporary_shapes)[MOE_RT_MAX_RANK]) {
  int64_t symbols[MOE__RT_MAX_SYMBOLS];
  MOE__RT_TRY(moe__rt_shapes_bind(function, argument_shapes, symbols));
  moe__rt_bindings_t bindings = {.symbols = symbols,
                                 .num_sms = program->device ? program->device->info.num_sms : 0};
  int arguments = function->info.argument_count;
  int results = function->info.result_count;
  MOE__RT_TRY(compute_list(function, arguments, results, &bindings, out_result_shapes));
  return compute_list(function, arguments + results, function->info.temporary_count, &bindings,
                      out_temporary_shapes);
}

moe_rt_status_t moe_rt_function_shapes(const moe_rt_program_t *program,
                                       const moe_rt_function_info_t *function,
                                       const int64_t *const *argument_shapes,
                                       int64_t (*out_result_shapes)[MOE_RT_MAX_RANK],
                                       int64_t (*out_temporary_shapes)[MOE_RT_MAX_RANK]) {
  const moe__rt_function_t *found = moe__rt_program_function(program, function);
  if (!found)
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "%s: function is not of this program", __func__);
  for (int t = 0; t < function->argument_count; t++) {
    if (!argument_shapes || !argument_shapes[t]) {
      return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "function '%s': argument '%s' has no shape",
                          function->name, function->arguments[t].name);
    }
  }
  for (int i = 0; out_result_shapes && i < function->result_count; i++)
    memset(out_result_shapes[i], 0, sizeof out_result_shapes[i]);
  for (int i = 0; out_temporary_shapes && i < function->temporary_count; i++)
    memset(out_temporary_shapes[i], 0, sizeof out_temporary_shapes[i]);
  moe_rt_status_t status =
      function_shapes(program, found, argument_shapes, out_result_shapes, out_temporary_shapes);
  return status == MOE_RT_OK ? status : moe__rt_fail_in(status, "function '%s'", function->name);
}
