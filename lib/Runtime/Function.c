/* Function.c - a function of a manifest: its symbols and tensors.
 *
 * Shapes are where a caller's tensors and the compiler's assumptions meet; what is ambiguous here
 * would be a wrong launch.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Runtime/Manifest.h"

#include <string.h>

typedef enum tensor_role_t { ARGUMENT, RESULT, TEMPORARY } tensor_role_t;

static moe_rt_status_t parse_symbol(const moe__rt_json_t *json, moe__rt_arena_t *arena,
                                    moe__rt_symbol_t *out) {
  static const char *const fields[] = {"name", "multiple_of", "min", "max", NULL};
  MOE__RT_TRY(moe__rt_json_object(json, fields));
  moe__rt_json_t name = moe__rt_json_member(json, "name");
  moe__rt_json_t multiple_of = moe__rt_json_member(json, "multiple_of");
  moe__rt_json_t min = moe__rt_json_member(json, "min");
  moe__rt_json_t max = moe__rt_json_member(json, "max");
  MOE__RT_TRY(moe__rt_json_name(&name, arena, &out->name));
  if (strcmp(out->name, "num_sms") == 0)
    return moe__rt_json_fail(&name, "is 'num_sms', which stands for the device's multiprocessors");
  if (strcmp(out->name, "num_clusters") == 0)
    return moe__rt_json_fail(&name, "is 'num_clusters', which stands for a kernel's clusters");
  MOE__RT_TRY(moe__rt_json_integer(&multiple_of, 1, INT64_MAX, &out->multiple_of));
  MOE__RT_TRY(moe__rt_json_integer(&min, 0, INT64_MAX, &out->min));
  return moe__rt_json_integer(&max, out->min, INT64_MAX, &out->max);
}

static moe_rt_status_t parse_symbols(const moe__rt_json_t *json, moe__rt_arena_t *arena,
                                     moe__rt_symbols_t *out) {
  int count = 0;
  MOE__RT_TRY(moe__rt_json_array(json, 0, MOE__RT_MAX_SYMBOLS, &count));
  out->items = moe__rt_arena_allocate(arena, (size_t)count, sizeof *out->items);
  if (!out->items)
    return moe__rt_fail_memory();
  for (; out->count < count; out->count++) {
    moe__rt_json_t element = moe__rt_json_element(json, out->count);
    moe__rt_symbol_t *symbol = &out->items[out->count];
    MOE__RT_TRY(parse_symbol(&element, arena, symbol));
    for (int i = 0; i < out->count; i++) {
      if (strcmp(out->items[i].name, symbol->name) == 0)
        return moe__rt_json_fail(&element, "has the name of symbols[%d], '%s'", i, symbol->name);
    }
  }
  return MOE_RT_OK;
}

static moe_rt_status_t parse_dtype(const moe__rt_json_t *json, moe__rt_tensor_t *out,
                                   moe_rt_tensor_info_t *info) {
#define MOE_DTYPE(symbol, name, bits, dlpack, safetensors) name,
  static const char *const names[] = {
#include "moe/dtypes.def"
  };
#define MOE_DTYPE(symbol, name, bits, dlpack, safetensors) bits,
  static const uint8_t bits[] = {
#include "moe/dtypes.def"
  };
#define MOE_DTYPE(symbol, name, bits, dlpack, safetensors) dlpack,
  static const uint8_t codes[] = {
#include "moe/dtypes.def"
  };
  int index = 0;
  MOE__RT_TRY(moe__rt_json_word(json, names, sizeof names / sizeof names[0], &index));
  info->dtype = names[index];
  info->dtype_bits = bits[index];
  out->dlpack_code = codes[index];
  return MOE_RT_OK;
}

static moe_rt_status_t parse_dimension(const moe__rt_json_t *json, const moe__rt_symbols_t *symbols,
                                       bool is_argument, moe__rt_arena_t *arena,
                                       moe__rt_expression_t *out, moe_rt_dimension_t *info) {
  MOE__RT_TRY(moe__rt_expression_parse_size(json, symbols, arena, out));
  if (is_argument && moe__rt_expression_uses(out, MOE__RT_NUM_SMS))
    return moe__rt_json_fail(json, "depends on num_sms; an argument's dimension must not");
  info->size = -1;
  if (out->kind == MOE__RT_SYMBOL)
    info->symbol = symbols->items[out->value].name;
  if (moe__rt_expression_uses(out, MOE__RT_SYMBOL) || moe__rt_expression_uses(out, MOE__RT_NUM_SMS))
    return MOE_RT_OK;
  moe__rt_bindings_t nothing = {0};
  if (moe__rt_expression_evaluate(out, &nothing, &info->size) != MOE_RT_OK)
    return moe__rt_json_fail(json, "cannot be computed: %s", moe_rt_last_message());
  return MOE_RT_OK;
}

moe_rt_status_t moe__rt_permutation_parse(const moe__rt_json_t *json, int rank,
                                          int out[MOE_RT_MAX_RANK]) {
  int count = 0;
  MOE__RT_TRY(moe__rt_json_array(json, rank, rank, &count));
  unsigned seen = 0;
  for (int i = 0; i < count; i++) {
    moe__rt_json_t element = moe__rt_json_element(json, i);
    int64_t dimension = 0;
    MOE__RT_TRY(moe__rt_json_integer(&element, 0, rank - 1, &dimension));
    if (seen & 1u << dimension)
      return moe__rt_json_fail(json, "is not a permutation: %d is there twice", (int)dimension);
    seen |= 1u << dimension;
    out[i] = (int)dimension;
  }
  return MOE_RT_OK;
}

/* "none" or "zero": what a temporary holds before the first launch. */
static moe_rt_status_t parse_initial(const moe__rt_json_t *json, moe__rt_tensor_t *out) {
  static const char *const words[] = {"none", "zero"};
  moe__rt_json_t initial = moe__rt_json_member(json, "initial");
  int index = 0;
  MOE__RT_TRY(moe__rt_json_word(&initial, words, 2, &index));
  out->is_zeroed = index == 1;
  return MOE_RT_OK;
}

static moe_rt_status_t parse_tensor(const moe__rt_json_t *json, const moe__rt_symbols_t *symbols,
                                    tensor_role_t role, moe__rt_arena_t *arena,
                                    moe__rt_tensor_t *out, moe_rt_tensor_info_t *info) {
  /* The last one is of one role only. */
  const char *fields[] = {"name", "dtype", "shape", "order", "alignment", NULL, NULL};
  if (role != RESULT)
    fields[5] = role == TEMPORARY ? "initial" : "constant";
  MOE__RT_TRY(moe__rt_json_object(json, fields));
  if (role == TEMPORARY)
    MOE__RT_TRY(parse_initial(json, out));
  moe__rt_json_t constant = moe__rt_json_member(json, "constant");
  if (constant.value)
    MOE__RT_TRY(moe__rt_json_bool(&constant, &info->is_constant));
  moe__rt_json_t name = moe__rt_json_member(json, "name");
  moe__rt_json_t dtype = moe__rt_json_member(json, "dtype");
  moe__rt_json_t shape = moe__rt_json_member(json, "shape");
  moe__rt_json_t order = moe__rt_json_member(json, "order");
  moe__rt_json_t alignment = moe__rt_json_member(json, "alignment");
  MOE__RT_TRY(moe__rt_json_name(&name, arena, &info->name));
  MOE__RT_TRY(parse_dtype(&dtype, out, info));
  MOE__RT_TRY(moe__rt_json_array(&shape, 1, MOE_RT_MAX_RANK, &info->rank));
  for (int i = 0; i < info->rank; i++) {
    moe__rt_json_t element = moe__rt_json_element(&shape, i);
    MOE__RT_TRY(parse_dimension(&element, symbols, role == ARGUMENT, arena, &out->shape[i],
                                &info->shape[i]));
  }
  MOE__RT_TRY(moe__rt_permutation_parse(&order, info->rank, info->order));
  MOE__RT_TRY(moe__rt_json_integer(&alignment, 1, MOE__RT_ALIGNMENT, &info->alignment));
  if (info->alignment & (info->alignment - 1)) {
    return moe__rt_json_fail(&alignment, "is %lld; it must be a power of two",
                             (long long)info->alignment);
  }
  out->info = info;
  return MOE_RT_OK;
}

/* Parses one of the three lists of tensors and appends it to the function's. */
static moe_rt_status_t parse_tensors(const moe__rt_json_t *json, tensor_role_t role,
                                     moe__rt_arena_t *arena, moe__rt_function_t *function,
                                     const moe_rt_tensor_info_t **out_infos, int *out_count) {
  int count = 0;
  MOE__RT_TRY(moe__rt_json_array(json, 0, MOE__RT_MAX_TENSORS - function->tensor_count, &count));
  moe_rt_tensor_info_t *infos = moe__rt_arena_allocate(arena, (size_t)count, sizeof *infos);
  if (!infos)
    return moe__rt_fail_memory();
  for (int i = 0; i < count; i++) {
    moe__rt_json_t element = moe__rt_json_element(json, i);
    moe__rt_tensor_t *tensor = &function->tensors[function->tensor_count];
    MOE__RT_TRY(parse_tensor(&element, &function->symbols, role, arena, tensor, &infos[i]));
    for (int k = 0; k < function->tensor_count; k++) {
      if (strcmp(function->tensors[k].info->name, infos[i].name) == 0)
        return moe__rt_json_fail(&element, "has the name of another tensor, '%s'", infos[i].name);
    }
    function->tensor_count++;
  }
  *out_infos = infos;
  *out_count = count;
  return MOE_RT_OK;
}

/* A symbol that no argument has would never get a value; a result whose size depends on the device
 * would have one shape when it is allocated and another when it is written. */
static moe_rt_status_t check_bindings(const moe__rt_json_t *json,
                                      const moe__rt_function_t *function) {
  moe__rt_json_t symbols = moe__rt_json_member(json, "symbols");
  for (int s = 0; s < function->symbols.count; s++) {
    bool bound = false;
    for (int t = 0; t < function->info.argument_count; t++) {
      for (int i = 0; i < function->tensors[t].info->rank; i++) {
        const moe__rt_expression_t *size = &function->tensors[t].shape[i];
        bound |= size->kind == MOE__RT_SYMBOL && size->value == s;
      }
    }
    moe__rt_json_t symbol = moe__rt_json_element(&symbols, s);
    if (!bound)
      return moe__rt_json_fail(&symbol, "is no dimension of an argument");
  }
  moe__rt_json_t results = moe__rt_json_member(json, "results");
  for (int t = 0; t < function->info.result_count; t++) {
    const moe__rt_tensor_t *tensor = &function->tensors[function->info.argument_count + t];
    for (int i = 0; i < tensor->info->rank; i++) {
      moe__rt_json_t result = moe__rt_json_element(&results, t);
      if (moe__rt_expression_uses(&tensor->shape[i], MOE__RT_NUM_SMS))
        return moe__rt_json_fail(&result, "has a shape that depends on num_sms");
    }
  }
  return MOE_RT_OK;
}

/* The status word: null, or the name of a temporary that is one i32 and starts as zero. */
static moe_rt_status_t parse_status(const moe__rt_json_t *json, moe__rt_function_t *function) {
  function->status = -1;
  if (json_is_null(json->value))
    return MOE_RT_OK;
  const char *name = NULL;
  MOE__RT_TRY(moe__rt_json_string(json, &name));
  for (int t = function->info.argument_count + function->info.result_count;
       t < function->tensor_count; t++) {
    const moe__rt_tensor_t *tensor = &function->tensors[t];
    if (strcmp(tensor->info->name, name) != 0)
      continue;
    if (strcmp(tensor->info->dtype, "i32") != 0 || tensor->info->rank != 1 ||
        tensor->info->shape[0].size != 1 || !tensor->is_zeroed)
      return moe__rt_json_fail(json, "is '%s', which is not i32 of shape [1] with initial 'zero'",
                               tensor->info->name);
    function->status = t;
    return MOE_RT_OK;
  }
  return moe__rt_json_fail(json, "is '%.64s', which is not a temporary of this function", name);
}

moe_rt_status_t moe__rt_function_parse(const moe__rt_json_t *json,
                                       const moe__rt_manifest_t *manifest, moe__rt_arena_t *arena,
                                       moe__rt_function_t *out_function) {
  static const char *const fields[] = {"name",        "symbols", "arguments", "results",
                                       "temporaries", "status",  "launches",  NULL};
  MOE__RT_TRY(moe__rt_json_object(json, fields));
  moe__rt_json_t name = moe__rt_json_member(json, "name");
  moe__rt_json_t symbols = moe__rt_json_member(json, "symbols");
  moe__rt_json_t arguments = moe__rt_json_member(json, "arguments");
  moe__rt_json_t results = moe__rt_json_member(json, "results");
  moe__rt_json_t temporaries = moe__rt_json_member(json, "temporaries");
  moe__rt_json_t status = moe__rt_json_member(json, "status");
  moe__rt_json_t launches = moe__rt_json_member(json, "launches");
  moe__rt_function_t *out = out_function;
  moe_rt_function_info_t *info = &out->info;
  MOE__RT_TRY(moe__rt_json_name(&name, arena, &info->name));
  MOE__RT_TRY(parse_symbols(&symbols, arena, &out->symbols));
  out->tensors = moe__rt_arena_allocate(arena, MOE__RT_MAX_TENSORS, sizeof *out->tensors);
  if (!out->tensors)
    return moe__rt_fail_memory();
  MOE__RT_TRY(
      parse_tensors(&arguments, ARGUMENT, arena, out, &info->arguments, &info->argument_count));
  MOE__RT_TRY(parse_tensors(&results, RESULT, arena, out, &info->results, &info->result_count));
  MOE__RT_TRY(parse_tensors(&temporaries, TEMPORARY, arena, out, &info->temporaries,
                            &info->temporary_count));
  MOE__RT_TRY(parse_status(&status, out));
  MOE__RT_TRY(check_bindings(json, out));
  return moe__rt_launches_parse(&launches, manifest, arena, out);
}
