/* Launch.c - the launches of a function in a manifest: kernel, grid and parameters.
 *
 * A launch is where a wrong manifest would corrupt memory, so the parameters are typed, and their
 * layout is computed here and not read.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Runtime/Manifest.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_LAUNCHES = 4096, MAX_PARAMETERS = 512, TENSOR_MAP_BYTES = 128 };

const int64_t moe__rt_grid_limits[3] = {INT32_MAX, 65535, 65535};

static moe_rt_status_t find_tensor(const moe__rt_json_t *json, const moe__rt_function_t *function,
                                   int *out_index) {
  const char *name = NULL;
  MOE__RT_TRY(moe__rt_json_string(json, &name));
  for (int i = 0; i < function->tensor_count; i++) {
    if (strcmp(function->tensors[i].info->name, name) == 0) {
      *out_index = i;
      return MOE_RT_OK;
    }
  }
  return moe__rt_json_fail(json, "is '%.64s', which is not a tensor of this function", name);
}

static void view_as_it_is(const moe_rt_tensor_info_t *info, moe_rt_operand_t *out) {
  *out = (moe_rt_operand_t){.tensor = info->name, .rank = info->rank};
  for (int i = 0; i < info->rank; i++)
    out->permutation[i] = i;
}

/* A name, or {"tensor": name, "permutation": [...]}. */
static moe_rt_status_t parse_operand(const moe__rt_json_t *json, const moe__rt_function_t *function,
                                     moe_rt_operand_t *out) {
  static const char *const fields[] = {"tensor", "permutation", NULL};
  int index = 0;
  if (json_is_object(json->value)) {
    MOE__RT_TRY(moe__rt_json_object(json, fields));
    moe__rt_json_t tensor = moe__rt_json_member(json, "tensor");
    moe__rt_json_t permutation = moe__rt_json_member(json, "permutation");
    MOE__RT_TRY(find_tensor(&tensor, function, &index));
    view_as_it_is(function->tensors[index].info, out);
    return moe__rt_permutation_parse(&permutation, out->rank, out->permutation);
  }
  MOE__RT_TRY(find_tensor(json, function, &index));
  view_as_it_is(function->tensors[index].info, out);
  return MOE_RT_OK;
}

static moe_rt_status_t parse_operands(const moe__rt_json_t *json,
                                      const moe__rt_function_t *function, moe__rt_arena_t *arena,
                                      moe_rt_launch_info_t *info) {
  MOE__RT_TRY(moe__rt_json_array(json, 0, MOE__RT_MAX_TENSORS, &info->operand_count));
  moe_rt_operand_t *operands =
      moe__rt_arena_allocate(arena, (size_t)info->operand_count, sizeof *operands);
  if (!operands)
    return moe__rt_fail_memory();
  for (int i = 0; i < info->operand_count; i++) {
    moe__rt_json_t element = moe__rt_json_element(json, i);
    MOE__RT_TRY(parse_operand(&element, function, &operands[i]));
  }
  info->operands = operands;
  return MOE_RT_OK;
}

static moe_rt_status_t parse_results(const moe__rt_json_t *json, const moe__rt_function_t *function,
                                     moe__rt_arena_t *arena, moe_rt_launch_info_t *info) {
  MOE__RT_TRY(moe__rt_json_array(json, 0, MOE__RT_MAX_TENSORS, &info->result_count));
  const char **names = moe__rt_arena_allocate(arena, (size_t)info->result_count, sizeof *names);
  if (!names)
    return moe__rt_fail_memory();
  for (int i = 0; i < info->result_count; i++) {
    moe__rt_json_t element = moe__rt_json_element(json, i);
    int tensor = 0;
    MOE__RT_TRY(find_tensor(&element, function, &tensor));
    names[i] = function->tensors[tensor].info->name;
    if (tensor < function->info.argument_count)
      return moe__rt_json_fail(&element, "is '%s', an argument; arguments are not written",
                               names[i]);
  }
  info->results = names;
  return MOE_RT_OK;
}

/* One for each operand and result; a manifest may leave them out. */
static moe_rt_status_t parse_roles(const moe__rt_json_t *json, moe__rt_arena_t *arena,
                                   moe_rt_launch_info_t *info) {
  int count = info->operand_count + info->result_count;
  if (!json->value)
    return MOE_RT_OK;
  MOE__RT_TRY(moe__rt_json_array(json, count, count, &count));
  const char **roles = moe__rt_arena_allocate(arena, (size_t)count, sizeof *roles);
  if (!roles)
    return moe__rt_fail_memory();
  for (int i = 0; i < count; i++) {
    moe__rt_json_t element = moe__rt_json_element(json, i);
    MOE__RT_TRY(moe__rt_json_name(&element, arena, &roles[i]));
  }
  info->roles = roles;
  return MOE_RT_OK;
}

static moe_rt_status_t parse_attributes(const moe__rt_json_t *json, moe__rt_arena_t *arena,
                                        const char **out_text) {
  if (!json_is_object(json->value))
    return moe__rt_json_fail(json, json->value ? "must be an object" : "is missing");
  char *text = json_dumps(json->value, JSON_COMPACT | JSON_SORT_KEYS);
  *out_text = text ? moe__rt_arena_string(arena, text) : NULL;
  free(text);
  return *out_text ? MOE_RT_OK : moe__rt_fail_memory();
}

static moe_rt_status_t parse_op(const moe__rt_json_t *json, const moe__rt_function_t *function,
                                moe__rt_arena_t *arena, moe_rt_launch_info_t *info) {
  static const char *const fields[] = {"name", "attributes", "operands", "results", "roles", NULL};
  MOE__RT_TRY(moe__rt_json_object(json, fields));
  moe__rt_json_t name = moe__rt_json_member(json, "name");
  moe__rt_json_t attributes = moe__rt_json_member(json, "attributes");
  moe__rt_json_t operands = moe__rt_json_member(json, "operands");
  moe__rt_json_t results = moe__rt_json_member(json, "results");
  moe__rt_json_t roles = moe__rt_json_member(json, "roles");
  MOE__RT_TRY(moe__rt_json_name(&name, arena, &info->op));
  MOE__RT_TRY(parse_attributes(&attributes, arena, &info->attributes_json));
  MOE__RT_TRY(parse_operands(&operands, function, arena, info));
  MOE__RT_TRY(parse_results(&results, function, arena, info));
  return parse_roles(&roles, arena, info);
}

static moe_rt_status_t parse_expressions(const moe__rt_json_t *json, int count,
                                         const moe__rt_symbols_t *symbols, moe__rt_arena_t *arena,
                                         moe__rt_expression_t *out) {
  MOE__RT_TRY(moe__rt_json_array(json, count, count, &count));
  for (int i = 0; i < count; i++) {
    moe__rt_json_t element = moe__rt_json_element(json, i);
    MOE__RT_TRY(moe__rt_expression_parse_size(&element, symbols, arena, &out[i]));
  }
  return MOE_RT_OK;
}

static moe_rt_status_t parse_pointer(const moe__rt_json_t *json, const moe__rt_function_t *function,
                                     moe__rt_parameter_t *out) {
  static const char *const fields[] = {"kind", "tensor", NULL};
  MOE__RT_TRY(moe__rt_json_object(json, fields));
  moe__rt_json_t tensor = moe__rt_json_member(json, "tensor");
  out->bytes = sizeof(uint64_t);
  return find_tensor(&tensor, function, &out->tensor);
}

static moe_rt_status_t parse_scalar(const moe__rt_json_t *json, const moe__rt_function_t *function,
                                    moe__rt_arena_t *arena, moe__rt_parameter_t *out) {
  static const char *const fields[] = {"kind", "type", "value", NULL};
  static const char *const types[] = {"i32", "i64"};
  MOE__RT_TRY(moe__rt_json_object(json, fields));
  moe__rt_json_t type = moe__rt_json_member(json, "type");
  moe__rt_json_t value = moe__rt_json_member(json, "value");
  int index = 0;
  MOE__RT_TRY(moe__rt_json_word(&type, types, 2, &index));
  out->bytes = index == 0 ? sizeof(uint32_t) : sizeof(uint64_t);
  MOE__RT_TRY(moe__rt_expression_parse_size(&value, &function->symbols, arena, &out->value));
  if (out->bytes == 4 && out->value.kind == MOE__RT_CONSTANT && out->value.value > INT32_MAX) {
    return moe__rt_json_fail(&value, "is %lld; the type is i32", (long long)out->value.value);
  }
  return MOE_RT_OK;
}

/* The sizes of a box: integers, and but for the innermost one maybe expressions. */
static moe_rt_status_t parse_box_sizes(const moe__rt_json_t *json,
                                       const moe__rt_function_t *function, moe__rt_arena_t *arena,
                                       moe__rt_parameter_t *out) {
  MOE__RT_TRY(moe__rt_json_array(json, 1, MOE_RT_MAX_RANK, &out->box.rank));
  for (int i = 0; i < out->box.rank; i++) {
    moe__rt_json_t size = moe__rt_json_element(json, i);
    out->box.box[i] = 1;
    if (i > 0 && !json_is_integer(size.value)) {
      MOE__RT_TRY(moe__rt_expression_parse_size(&size, &function->symbols, arena, &out->sizes[i]));
      continue;
    }
    int64_t value = 0;
    MOE__RT_TRY(moe__rt_json_integer(&size, 1, 256, &value));
    out->box.box[i] = (uint64_t)value;
    out->sizes[i] = (moe__rt_expression_t){.kind = MOE__RT_CONSTANT, .value = value};
  }
  return MOE_RT_OK;
}

static moe_rt_status_t parse_box(const moe__rt_json_t *json, const moe__rt_function_t *function,
                                 moe__rt_arena_t *arena, moe__rt_parameter_t *parameter) {
  moe__rt_map_box_t *out = &parameter->box;
#define MOE__RT_MAP_ELEMENT(constant, name, bytes, driver) name,
  static const char *const elements[] = {MOE__RT_MAP_ELEMENTS(MOE__RT_MAP_ELEMENT)};
#undef MOE__RT_MAP_ELEMENT
  static const char *const swizzles[] = {"none", "32B", "64B", "128B"};
  static const char *const promotions[] = {"none", "64B", "128B", "256B"};
  static const char *const fills[] = {"zero", "nan"};
  moe__rt_json_t element = moe__rt_json_member(json, "element");
  moe__rt_json_t sizes = moe__rt_json_member(json, "box");
  moe__rt_json_t swizzle = moe__rt_json_member(json, "swizzle");
  moe__rt_json_t promotion = moe__rt_json_member(json, "l2_promotion");
  moe__rt_json_t fill = moe__rt_json_member(json, "fill");
  int index = 0;
  MOE__RT_TRY(moe__rt_json_word(&element, elements, sizeof elements / sizeof elements[0], &index));
  out->element = (moe__rt_map_element_t)index;
  MOE__RT_TRY(parse_box_sizes(&sizes, function, arena, parameter));
  MOE__RT_TRY(moe__rt_json_word(&swizzle, swizzles, 4, &index));
  out->swizzle = (moe__rt_map_swizzle_t)index;
  MOE__RT_TRY(moe__rt_json_word(&promotion, promotions, 4, &index));
  out->promotion = (moe__rt_map_promotion_t)index;
  MOE__RT_TRY(moe__rt_json_word(&fill, fills, 2, &index));
  out->fill = (moe__rt_map_fill_t)index;
  if (moe__rt_map_box_check(out) != MOE_RT_OK)
    return moe__rt_json_fail(json, "%s", moe_rt_last_message());
  return MOE_RT_OK;
}

static moe_rt_status_t parse_tensor_map(const moe__rt_json_t *json,
                                        const moe__rt_function_t *function, moe__rt_arena_t *arena,
                                        moe__rt_parameter_t *out) {
  static const char *const fields[] = {"kind", "tensor",  "element",      "dims", "strides",
                                       "box",  "swizzle", "l2_promotion", "fill", NULL};
  MOE__RT_TRY(moe__rt_json_object(json, fields));
  moe__rt_json_t tensor = moe__rt_json_member(json, "tensor");
  moe__rt_json_t dims = moe__rt_json_member(json, "dims");
  moe__rt_json_t strides = moe__rt_json_member(json, "strides");
  out->bytes = TENSOR_MAP_BYTES;
  MOE__RT_TRY(find_tensor(&tensor, function, &out->tensor));
  MOE__RT_TRY(parse_box(json, function, arena, out));
  MOE__RT_TRY(parse_expressions(&dims, out->box.rank, &function->symbols, arena, out->dims));
  return parse_expressions(&strides, out->box.rank - 1, &function->symbols, arena, out->strides);
}

static moe_rt_status_t parse_parameter(const moe__rt_json_t *json,
                                       const moe__rt_function_t *function, moe__rt_arena_t *arena,
                                       moe__rt_parameter_t *out) {
  static const char *const kinds[] = {"pointer", "scalar", "tensor_map"};
  if (!json_is_object(json->value))
    return moe__rt_json_fail(json, "must be an object");
  moe__rt_json_t kind = moe__rt_json_member(json, "kind");
  int index = 0;
  MOE__RT_TRY(moe__rt_json_word(&kind, kinds, 3, &index));
  out->kind = (moe__rt_parameter_kind_t)index;
  switch (out->kind) {
  case MOE__RT_POINTER:
    return parse_pointer(json, function, out);
  case MOE__RT_SCALAR:
    return parse_scalar(json, function, arena, out);
  default:
    return parse_tensor_map(json, function, arena, out);
  }
}

static moe_rt_status_t parse_parameters(const moe__rt_json_t *json,
                                        const moe__rt_function_t *function, moe__rt_arena_t *arena,
                                        moe__rt_launch_t *out) {
  MOE__RT_TRY(moe__rt_json_array(json, 0, MAX_PARAMETERS, &out->parameter_count));
  out->parameters =
      moe__rt_arena_allocate(arena, (size_t)out->parameter_count, sizeof *out->parameters);
  if (!out->parameters)
    return moe__rt_fail_memory();
  uint32_t end = 0;
  for (int i = 0; i < out->parameter_count; i++) {
    moe__rt_json_t element = moe__rt_json_element(json, i);
    moe__rt_parameter_t *parameter = &out->parameters[i];
    MOE__RT_TRY(parse_parameter(&element, function, arena, parameter));
    uint32_t alignment = parameter->kind == MOE__RT_TENSOR_MAP ? 64 : parameter->bytes;
    end = (end + alignment - 1) / alignment * alignment + parameter->bytes;
    if (end > MOE__RT_MAX_PARAMETER_BYTES) {
      return moe__rt_json_fail(&element, "ends at byte %u of the parameters; the limit is %d", end,
                               MOE__RT_MAX_PARAMETER_BYTES);
    }
  }
  return MOE_RT_OK;
}

static moe_rt_status_t parse_grid(const moe__rt_json_t *json, const moe__rt_kernel_t *kernel,
                                  const moe__rt_symbols_t *symbols, moe__rt_arena_t *arena,
                                  moe__rt_expression_t out[3]) {
  bool has_clusters = moe__rt_kernel_cluster_blocks(kernel) > 1;
  int count = 0;
  MOE__RT_TRY(moe__rt_json_array(json, 3, 3, &count));
  for (int i = 0; i < 3; i++) {
    moe__rt_json_t element = moe__rt_json_element(json, i);
    MOE__RT_TRY((has_clusters ? moe__rt_expression_parse
                              : moe__rt_expression_parse_size)(&element, symbols, arena, &out[i]));
    int64_t ignored = 0;
    if (out[i].kind == MOE__RT_CONSTANT)
      MOE__RT_TRY(moe__rt_json_integer(&element, 0, moe__rt_grid_limits[i], &ignored));
  }
  return MOE_RT_OK;
}

static moe_rt_status_t parse_launch(const moe__rt_json_t *json, const moe__rt_manifest_t *manifest,
                                    const moe__rt_function_t *function, moe__rt_arena_t *arena,
                                    moe__rt_launch_t *out, moe_rt_launch_info_t *info) {
  static const char *const fields[] = {"kernel", "op", "grid", "parameters", "programmatic", NULL};
  MOE__RT_TRY(moe__rt_json_object(json, fields));
  moe__rt_json_t kernel = moe__rt_json_member(json, "kernel");
  moe__rt_json_t op = moe__rt_json_member(json, "op");
  moe__rt_json_t grid = moe__rt_json_member(json, "grid");
  moe__rt_json_t parameters = moe__rt_json_member(json, "parameters");
  moe__rt_json_t programmatic = moe__rt_json_member(json, "programmatic");
  const char *name = NULL;
  MOE__RT_TRY(moe__rt_json_string(&kernel, &name));
  while (out->kernel < manifest->kernel_count &&
         strcmp(manifest->kernels[out->kernel].name, name) != 0)
    out->kernel++;
  if (out->kernel == manifest->kernel_count)
    return moe__rt_json_fail(&kernel, "is '%.64s', which is not in kernels", name);
  info->kernel = manifest->kernels[out->kernel].name;
  MOE__RT_TRY(parse_op(&op, function, arena, info));
  MOE__RT_TRY(
      parse_grid(&grid, &manifest->kernels[out->kernel], &function->symbols, arena, out->grid));
  MOE__RT_TRY(parse_parameters(&parameters, function, arena, out));
  return moe__rt_json_bool(&programmatic, &out->programmatic);
}

moe_rt_status_t moe__rt_launches_parse(const moe__rt_json_t *json,
                                       const moe__rt_manifest_t *manifest, moe__rt_arena_t *arena,
                                       moe__rt_function_t *function) {
  int count = 0;
  MOE__RT_TRY(moe__rt_json_array(json, 1, MAX_LAUNCHES, &count));
  moe_rt_launch_info_t *infos = moe__rt_arena_allocate(arena, (size_t)count, sizeof *infos);
  function->launches = moe__rt_arena_allocate(arena, (size_t)count, sizeof *function->launches);
  if (!infos || !function->launches)
    return moe__rt_fail_memory();
  for (int i = 0; i < count; i++) {
    moe__rt_json_t element = moe__rt_json_element(json, i);
    MOE__RT_TRY(
        parse_launch(&element, manifest, function, arena, &function->launches[i], &infos[i]));
  }
  function->info.launch_count = count;
  function->info.launches = infos;
  return MOE_RT_OK;
}
