/* Plan.c - makes plans from shapes, and frames from plans and addresses.
 *
 * All that can be wrong with shapes is found once, here; filling a frame is a walk over flat
 * arrays.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Runtime/Plan.h"

#include <stdlib.h>
#include <string.h>

typedef struct moe__rt_plan_parameter_t {
  moe__rt_parameter_kind_t kind;
  int tensor;    /* pointer, tensor map */
  int map;       /* tensor map: index in the plan's maps */
  int64_t value; /* scalar; the low bytes come first on every machine that has such a device */
} moe__rt_plan_parameter_t;

/* What making a plan knows besides. */
typedef struct making_t {
  const moe_rt_program_t *program;
  moe__rt_bindings_t bindings;
  moe__rt_plan_t *plan;
  uint64_t used_by[MOE__RT_MAX_TENSORS]; /* launches so far, bit by bit */
} making_t;

/* ---- Workspace ---- */

typedef enum part_t { PLAIN, ZEROED, STATUS } part_t;

static part_t part_of(const moe__rt_function_t *function, int tensor) {
  if (tensor == function->status)
    return STATUS;
  return function->tensors[tensor].is_zeroed ? ZEROED : PLAIN;
}

/* Places the temporaries of one part behind *total. */
static moe_rt_status_t place_part(const moe__rt_function_t *function, part_t part,
                                  const int64_t *bytes, int64_t *out_offsets, int64_t *total) {
  for (int t = moe__rt_given_count(function); t < function->tensor_count; t++) {
    if (part_of(function, t) != part)
      continue;
    int64_t padded = 0;
    out_offsets[t] = *total;
    if (__builtin_add_overflow(bytes[t], MOE__RT_ALIGNMENT - 1, &padded) ||
        __builtin_add_overflow(*total, padded / MOE__RT_ALIGNMENT * MOE__RT_ALIGNMENT, total))
      return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "the workspace does not fit 63 bits");
  }
  return MOE_RT_OK;
}

moe_rt_status_t moe__rt_workspace_lay_out(const moe__rt_function_t *function, const int64_t *bytes,
                                          int64_t *out_offsets, moe__rt_workspace_layout_t *out) {
  int64_t total = 0;
  MOE__RT_TRY(place_part(function, PLAIN, bytes, out_offsets, &total));
  out->zero_begin = total;
  MOE__RT_TRY(place_part(function, ZEROED, bytes, out_offsets, &total));
  out->status_offset = total;
  MOE__RT_TRY(place_part(function, STATUS, bytes, out_offsets, &total));
  out->bytes = total;
  return MOE_RT_OK;
}

/* ---- Launches ---- */

/* Computes the grid; *out_empty when a dimension is 0. */
static moe_rt_status_t compute_grid(const moe__rt_launch_t *launch, const moe__rt_kernel_t *kernel,
                                    const moe__rt_bindings_t *bindings, uint32_t out_grid[3],
                                    bool *out_empty) {
  *out_empty = false;
  for (int i = 0; i < 3; i++) {
    int64_t blocks = 0;
    moe_rt_status_t status = moe__rt_expression_evaluate(&launch->grid[i], bindings, &blocks);
    if (status != MOE_RT_OK)
      return moe__rt_fail_in(status, "grid[%d]", i);
    if (blocks > moe__rt_grid_limits[i]) {
      return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "grid[%d] is %lld; the limit is %lld", i,
                          (long long)blocks, (long long)moe__rt_grid_limits[i]);
    }
    if (blocks % kernel->cluster[i] != 0) {
      return moe__rt_fail(MOE_RT_INVALID_ARGUMENT,
                          "grid[%d] is %lld; it must be a multiple of the cluster's %u", i,
                          (long long)blocks, kernel->cluster[i]);
    }
    out_grid[i] = (uint32_t)blocks;
    *out_empty |= blocks == 0;
  }
  return MOE_RT_OK;
}

static moe_rt_status_t evaluate_into(const moe__rt_expression_t *expression,
                                     const moe__rt_bindings_t *bindings, const char *field,
                                     int index, uint64_t *out_value) {
  int64_t value = 0;
  moe_rt_status_t status = moe__rt_expression_evaluate(expression, bindings, &value);
  if (status != MOE_RT_OK)
    return moe__rt_fail_in(status, "%s[%d]", field, index);
  *out_value = (uint64_t)value;
  return MOE_RT_OK;
}

static moe_rt_status_t make_map(making_t *making, const moe__rt_parameter_t *parameter,
                                moe__rt_plan_parameter_t *out) {
  moe__rt_plan_t *plan = making->plan;
  moe__rt_tensor_map_t map = {.box = parameter->box};
  for (int i = 0; i < map.box.rank; i++) {
    MOE__RT_TRY(evaluate_into(&parameter->dims[i], &making->bindings, "dims", i, &map.dims[i]));
    MOE__RT_TRY(evaluate_into(&parameter->sizes[i], &making->bindings, "box", i, &map.box.box[i]));
    if (i > 0) {
      MOE__RT_TRY(evaluate_into(&parameter->strides[i - 1], &making->bindings, "strides", i - 1,
                                &map.strides[i - 1]));
    }
  }
  MOE__RT_TRY(moe__rt_tensor_map_check(&map, plan->bytes[parameter->tensor]));
  out->map = plan->map_count;
  plan->maps[plan->map_count++] = map;
  return MOE_RT_OK;
}

static moe_rt_status_t make_scalar(const making_t *making, const moe__rt_parameter_t *parameter,
                                   moe__rt_plan_parameter_t *out) {
  MOE__RT_TRY(moe__rt_expression_evaluate(&parameter->value, &making->bindings, &out->value));
  if (parameter->bytes == 4 && out->value > INT32_MAX)
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "%lld does not fit i32", (long long)out->value);
  return MOE_RT_OK;
}

/* Puts where in the list of parameters a failure was before its message. */
static moe_rt_status_t in_parameter(moe_rt_status_t status, const moe__rt_function_t *function,
                                    const moe__rt_parameter_t *parameter, int index) {
  if (status == MOE_RT_OK)
    return MOE_RT_OK;
  if (parameter->kind == MOE__RT_SCALAR)
    return moe__rt_fail_in(status, "parameter %d", index);
  return moe__rt_fail_in(status, "parameter %d, %s of '%s'", index,
                         parameter->kind == MOE__RT_POINTER ? "pointer" : "tensor map",
                         function->tensors[parameter->tensor].info->name);
}

static moe_rt_status_t in_launch(moe_rt_status_t status, const moe__rt_function_t *function,
                                 int launch) {
  if (status == MOE_RT_OK)
    return MOE_RT_OK;
  return moe__rt_fail_in(status, "launch %d, kernel '%s'", launch,
                         function->info.launches[launch].kernel);
}

static moe_rt_status_t make_parameters(making_t *making, const moe__rt_launch_t *launch) {
  moe__rt_plan_t *plan = making->plan;
  for (int i = 0; i < launch->parameter_count; i++) {
    const moe__rt_parameter_t *parameter = &launch->parameters[i];
    moe__rt_plan_parameter_t *out = &plan->parameters[plan->parameter_count];
    out->kind = parameter->kind;
    out->tensor = parameter->tensor;
    moe_rt_status_t status = MOE_RT_OK;
    if (parameter->kind == MOE__RT_SCALAR)
      status = make_scalar(making, parameter, out);
    else if (parameter->kind == MOE__RT_TENSOR_MAP)
      status = make_map(making, parameter, out);
    MOE__RT_TRY(in_parameter(status, plan->function, parameter, i));
    plan->parameter_bytes[plan->parameter_count++] = parameter->bytes;
  }
  return MOE_RT_OK;
}

/* Lists the tensors behind the launch's pointers and tensor maps. */
static void make_buffers(making_t *making, const moe__rt_launch_t *launch,
                         moe__rt_ready_launch_t *ready) {
  moe__rt_plan_t *plan = making->plan;
  const moe__rt_function_t *function = plan->function;
  bool seen[MOE__RT_MAX_TENSORS] = {false};
  for (int i = 0; i < launch->parameter_count; i++) {
    const moe__rt_parameter_t *parameter = &launch->parameters[i];
    if (parameter->kind == MOE__RT_SCALAR || seen[parameter->tensor])
      continue;
    seen[parameter->tensor] = true;
    plan->buffer_tensors[plan->buffer_count] = parameter->tensor;
    plan->buffers[plan->buffer_count++] = (moe__rt_ready_buffer_t){
        .bytes = (uint64_t)plan->bytes[parameter->tensor],
        .is_written = parameter->tensor >= function->info.argument_count,
        /* Nobody writes arguments; all add to the status word, and nobody reads it. */
        .used_by = parameter->tensor >= function->info.argument_count &&
                           parameter->tensor != function->status
                       ? making->used_by[parameter->tensor]
                       : 0,
        .is_settled = parameter->tensor == function->status ||
                      function->tensors[parameter->tensor].info->is_constant,
        .name = function->tensors[parameter->tensor].info->name,
    };
    ready->buffer_count++;
  }
  for (int t = 0; t < function->tensor_count; t++)
    making->used_by[t] |= seen[t] ? UINT64_C(1) << (ready->number < 63 ? ready->number : 63) : 0;
}

static moe_rt_status_t make_launch(making_t *making, const moe__rt_launch_t *launch) {
  moe__rt_plan_t *plan = making->plan;
  const moe_rt_program_t *program = making->program;
  const moe__rt_kernel_t *kernel = &program->manifest->kernels[launch->kernel];
  moe__rt_ready_launch_t ready = {
      .kernel_name = kernel->name,
      .kernel = program->kernels[launch->kernel],
      .block = {kernel->block[0], kernel->block[1], kernel->block[2]},
      .cluster = {kernel->cluster[0], kernel->cluster[1], kernel->cluster[2]},
      .shared_memory = kernel->shared_memory,
      .number = plan->launch_count,
      /* Where the launches before it are left out, what comes before this one is the caller's,
       * which only the function's first one knows to wait for. */
      .programmatic =
          launch->programmatic && (plan->launch_count > 0 || launch == plan->function->launches),
      .parameter_count = launch->parameter_count,
      .parameter_bytes = plan->parameter_bytes + plan->parameter_count,
  };
  bool empty = false;
  moe__rt_bindings_t bindings = making->bindings;
  bindings.num_clusters = program->clusters[launch->kernel];
  MOE__RT_TRY(compute_grid(launch, kernel, &bindings, ready.grid, &empty));
  if (empty)
    return MOE_RT_OK;
  MOE__RT_TRY(make_parameters(making, launch));
  make_buffers(making, launch, &ready);
  plan->launches[plan->launch_count++] = ready;
  return MOE_RT_OK;
}

static moe_rt_status_t make_launches(making_t *making) {
  moe__rt_plan_t *plan = making->plan;
  const moe__rt_function_t *function = plan->function;
  size_t launches = (size_t)function->info.launch_count;
  size_t parameters = 0;
  for (size_t l = 0; l < launches; l++)
    parameters += (size_t)function->launches[l].parameter_count;
  moe__rt_arena_t *arena = &plan->arena;
  plan->launches = moe__rt_arena_allocate(arena, launches, sizeof *plan->launches);
  plan->parameters = moe__rt_arena_allocate(arena, parameters, sizeof *plan->parameters);
  plan->parameter_bytes = moe__rt_arena_allocate(arena, parameters, sizeof *plan->parameter_bytes);
  plan->maps = moe__rt_arena_allocate(arena, parameters, sizeof *plan->maps);
  plan->buffers = moe__rt_arena_allocate(arena, parameters, sizeof *plan->buffers);
  plan->buffer_tensors = moe__rt_arena_allocate(arena, parameters, sizeof *plan->buffer_tensors);
  if (!plan->launches || !plan->parameters || !plan->parameter_bytes || !plan->maps ||
      !plan->buffers || !plan->buffer_tensors)
    return moe__rt_fail_memory();
  for (int l = 0; l < function->info.launch_count; l++)
    MOE__RT_TRY(in_launch(make_launch(making, &function->launches[l]), function, l));
  return MOE_RT_OK;
}

/* ---- Plans ---- */

static moe_rt_status_t make_plan(const moe_rt_program_t *program, const DLTensor *const *tensors,
                                 moe__rt_plan_t *plan) {
  const moe__rt_function_t *function = plan->function;
  size_t count = (size_t)function->tensor_count;
  plan->bytes = moe__rt_arena_allocate(&plan->arena, count, sizeof *plan->bytes);
  plan->offsets = moe__rt_arena_allocate(&plan->arena, count, sizeof *plan->offsets);
  if (!plan->bytes || !plan->offsets)
    return moe__rt_fail_memory();
  int64_t symbols[MOE__RT_MAX_SYMBOLS];
  MOE__RT_TRY(moe__rt_tensors_check_shapes(program->device, function, tensors,
                                           moe__rt_given_count(function), symbols, plan->bytes));
  moe__rt_workspace_layout_t layout;
  MOE__RT_TRY(moe__rt_workspace_lay_out(function, plan->bytes, plan->offsets, &layout));
  plan->zero_begin = layout.zero_begin;
  plan->status_offset = layout.status_offset;
  plan->workspace_bytes = layout.bytes;
  making_t making = {
      .program = program,
      .bindings = {.symbols = symbols, .num_sms = program->device->info.num_sms},
      .plan = plan,
  };
  return make_launches(&making);
}

moe_rt_status_t moe__rt_plan_make(const moe_rt_program_t *program,
                                  const moe__rt_function_t *function,
                                  const DLTensor *const *tensors, moe__rt_plan_t **out_plan) {
  *out_plan = NULL;
  moe__rt_plan_t *plan = calloc(1, sizeof *plan);
  if (!plan)
    return moe__rt_fail_memory();
  plan->function = function;
  moe_rt_status_t status = make_plan(program, tensors, plan);
  if (status != MOE_RT_OK) {
    moe__rt_plan_destroy(plan);
    return status;
  }
  static atomic_uint_least64_t keys = 1;
  plan->first_key = atomic_fetch_add(&keys, (uint64_t)plan->map_count);
  *out_plan = plan;
  return MOE_RT_OK;
}

void moe__rt_plan_destroy(moe__rt_plan_t *plan) {
  if (!plan)
    return;
  moe__rt_arena_free(&plan->arena);
  free(plan);
}

/* ---- Frames ---- */

/* The parts of a frame's memory, largest alignment first. */
typedef struct frame_t {
  moe__rt_encoded_map_t *maps;
  moe__rt_ready_launch_t *launches;
  moe__rt_ready_buffer_t *buffers;
  void **parameters;
  uint64_t *addresses; /* of pointer parameters */
} frame_t;

static frame_t divide(const moe__rt_plan_t *plan, void *memory) {
  frame_t frame = {.maps = memory};
  frame.launches = (moe__rt_ready_launch_t *)(frame.maps + plan->map_count);
  frame.buffers = (moe__rt_ready_buffer_t *)(frame.launches + plan->launch_count);
  frame.parameters = (void **)(frame.buffers + plan->buffer_count);
  frame.addresses = (uint64_t *)(frame.parameters + plan->parameter_count);
  return frame;
}

size_t moe__rt_frame_bytes(const moe__rt_plan_t *plan) {
  size_t bytes = (size_t)plan->map_count * sizeof(moe__rt_encoded_map_t) +
                 (size_t)plan->launch_count * sizeof(moe__rt_ready_launch_t) +
                 (size_t)plan->buffer_count * sizeof(moe__rt_ready_buffer_t) +
                 (size_t)plan->parameter_count * (sizeof(void *) + sizeof(uint64_t));
  size_t alignment = sizeof(moe__rt_encoded_map_t);
  return (bytes / alignment + 1) * alignment;
}

static moe_rt_status_t encode(moe_rt_device_t *device, const moe__rt_plan_t *plan, int index,
                              uint64_t address, moe__rt_map_cache_t *cache,
                              moe__rt_encoded_map_t *out) {
  MOE__RT_TRY(moe__rt_map_address_check(address));
  uint64_t key = plan->first_key + (uint64_t)index;
  const unsigned char *found = cache ? moe__rt_map_cache_find(cache, key, address) : NULL;
  if (found) {
    memcpy(out->bytes, found, sizeof out->bytes);
    return MOE_RT_OK;
  }
  moe__rt_tensor_map_t map = plan->maps[index];
  map.address = address;
  MOE__RT_TRY(device->backend->encode_map(device, &map, out));
  if (cache)
    moe__rt_map_cache_put(cache, key, address, out);
  return MOE_RT_OK;
}

static moe_rt_status_t encode_all(moe_rt_device_t *device, const moe__rt_plan_t *plan,
                                  const moe__rt_places_t *places, moe__rt_map_cache_t *cache,
                                  moe__rt_encoded_map_t *out_maps, int *out_failed) {
  for (int i = 0; i < plan->parameter_count; i++) {
    const moe__rt_plan_parameter_t *parameter = &plan->parameters[i];
    if (parameter->kind != MOE__RT_TENSOR_MAP)
      continue;
    moe_rt_status_t status =
        encode(device, plan, parameter->map, places->addresses[parameter->tensor], cache,
               &out_maps[parameter->map]);
    if (status != MOE_RT_OK) {
      *out_failed = i;
      return status;
    }
  }
  return MOE_RT_OK;
}

/* Names the launch and the parameter that a failed map belongs to. */
static moe_rt_status_t in_plan_parameter(moe_rt_status_t status, const moe__rt_plan_t *plan,
                                         int index) {
  for (int l = 0; l < plan->launch_count; l++) {
    const moe__rt_ready_launch_t *launch = &plan->launches[l];
    int within = index - (int)(launch->parameter_bytes - plan->parameter_bytes);
    if (within < 0 || within >= launch->parameter_count)
      continue;
    const char *name = plan->function->tensors[plan->parameters[index].tensor].info->name;
    return moe__rt_fail_in(status, "kernel '%s': parameter %d, tensor map of '%s'",
                           launch->kernel_name, within, name);
  }
  return status;
}

static void place_temporaries(const moe__rt_plan_t *plan, moe__rt_places_t *places) {
  const moe__rt_function_t *function = plan->function;
  for (int t = moe__rt_given_count(function); t < function->tensor_count; t++) {
    places->addresses[t] =
        t == function->status ? places->status : places->workspace + (uint64_t)plan->offsets[t];
  }
}

static void fill_parameters(const moe__rt_plan_t *plan, const moe__rt_places_t *places,
                            const frame_t *frame) {
  for (int i = 0; i < plan->parameter_count; i++) {
    moe__rt_plan_parameter_t *parameter = &plan->parameters[i];
    if (parameter->kind == MOE__RT_SCALAR) {
      frame->parameters[i] = &parameter->value;
    } else if (parameter->kind == MOE__RT_TENSOR_MAP) {
      frame->parameters[i] = &frame->maps[parameter->map];
    } else {
      frame->addresses[i] = places->addresses[parameter->tensor];
      frame->parameters[i] = &frame->addresses[i];
    }
  }
}

static void fill_launches(const moe__rt_plan_t *plan, const moe__rt_places_t *places,
                          const frame_t *frame) {
  for (int i = 0; i < plan->buffer_count; i++) {
    frame->buffers[i] = plan->buffers[i];
    frame->buffers[i].address = places->addresses[plan->buffer_tensors[i]];
  }
  int parameter = 0;
  int buffer = 0;
  for (int l = 0; l < plan->launch_count; l++) {
    moe__rt_ready_launch_t *launch = &frame->launches[l];
    *launch = plan->launches[l];
    launch->parameters = frame->parameters + parameter;
    launch->buffers = frame->buffers + buffer;
    parameter += launch->parameter_count;
    buffer += launch->buffer_count;
  }
}

moe_rt_status_t moe__rt_frame_fill(moe_rt_device_t *device, const moe__rt_plan_t *plan,
                                   moe__rt_places_t *places, moe__rt_map_cache_t *cache,
                                   void *memory, moe__rt_ready_launch_t **out_launches) {
  frame_t frame = divide(plan, memory);
  place_temporaries(plan, places);
  if (plan->map_count > 0) {
    int failed = 0;
    if (cache)
      moe__rt_map_cache_lock(cache);
    moe_rt_status_t status = encode_all(device, plan, places, cache, frame.maps, &failed);
    if (cache)
      moe__rt_map_cache_unlock(cache);
    if (status != MOE_RT_OK)
      return in_plan_parameter(status, plan, failed);
  }
  fill_parameters(plan, places, &frame);
  fill_launches(plan, places, &frame);
  *out_launches = frame.launches;
  return MOE_RT_OK;
}

moe_rt_status_t moe__rt_frame_launch(moe_rt_device_t *device,
                                     const moe__rt_ready_launch_t *launches, int count,
                                     void *stream) {
  for (int i = 0; i < count; i++) {
    moe_rt_status_t status = device->backend->launch(device, &launches[i], stream);
    if (status == MOE_RT_DEVICE_LOST)
      return status;
    if (status != MOE_RT_OK)
      return moe__rt_fail_in(status, "%s: kernel '%s'", device->name, launches[i].kernel_name);
  }
  return MOE_RT_OK;
}
