/* Call.c - prepares a call from tensors and launches it.
 *
 * All that a launch needs is computed and checked once; launching again is a loop over ready
 * structs.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Runtime/Call.h"

#include <stdlib.h>
#include <string.h>

struct moe_rt_call_t {
  moe__arena_t arena;
  moe_rt_device_t *device; /* borrowed */
  void *workspace;         /* NULL where there are no temporaries */
  uint64_t status;         /* address of the status word; 0: there is none */
  moe__encoded_map_t *maps;
  moe__ready_launch_t *launches;
  int launch_count;
};

/* What prepare knows while it works. */
typedef struct preparation_t {
  const moe_rt_program_t *program;
  const moe__function_t *function;
  moe__bindings_t bindings;
  moe__placement_t *placements; /* of each tensor of the function */
  moe_rt_call_t *call;
  int map_count;                  /* of call->maps, so far */
  bool is_used[MOE__MAX_TENSORS]; /* by a launch so far */
} preparation_t;

/* ---- Workspace ---- */

/* Places the temporaries in one allocation. */
static moe_rt_status_t place_temporaries(preparation_t *preparation) {
  enum { ALIGNMENT = 256 };
  const moe__function_t *function = preparation->function;
  int first = function->info.argument_count + function->info.result_count;
  int64_t total = 0;
  for (int t = first; t < function->tensor_count; t++) {
    moe__placement_t *placement = &preparation->placements[t];
    int64_t padded = 0;
    placement->address = (uint64_t)total;
    if (__builtin_add_overflow(placement->bytes, ALIGNMENT - 1, &padded) ||
        __builtin_add_overflow(total, padded / ALIGNMENT * ALIGNMENT, &total))
      return moe__fail(MOE_RT_INVALID_ARGUMENT, "the workspace does not fit 63 bits");
  }
  if (total == 0)
    return MOE_RT_OK;
  moe_rt_device_t *device = preparation->call->device;
  moe_rt_status_t status =
      device->backend->allocate(device, (size_t)total, &preparation->call->workspace);
  if (status != MOE_RT_OK)
    return moe__fail_in(status, "workspace");
  for (int t = first; t < function->tensor_count; t++)
    preparation->placements[t].address += (uint64_t)(uintptr_t)preparation->call->workspace;
  if (function->status >= 0)
    preparation->call->status = preparation->placements[function->status].address;
  return MOE_RT_OK;
}

/* Done when it returns: a launch may be on any stream. */
static moe_rt_status_t zero_temporaries(preparation_t *preparation) {
  moe_rt_device_t *device = preparation->call->device;
  const moe__function_t *function = preparation->function;
  bool is_any = false;
  for (int t = 0; t < function->tensor_count; t++) {
    const moe__placement_t *placement = &preparation->placements[t];
    if (!function->tensors[t].is_zeroed || placement->bytes == 0)
      continue;
    is_any = true;
    moe_rt_status_t status = device->backend->fill(device, (void *)(uintptr_t)placement->address, 0,
                                                   (size_t)placement->bytes, NULL);
    if (status != MOE_RT_OK)
      return moe__fail_in(status, "temporary '%s'", function->tensors[t].info->name);
  }
  if (!is_any)
    return MOE_RT_OK;
  moe_rt_status_t status = device->backend->stream_synchronize(device, NULL);
  return status == MOE_RT_OK ? status : moe__fail_in(status, "workspace");
}

/* ---- Launches ---- */

/* Computes the grid; *out_empty when a dimension is 0. */
static moe_rt_status_t compute_grid(const moe__launch_t *launch, const moe__kernel_t *kernel,
                                    const moe__bindings_t *bindings, uint32_t out_grid[3],
                                    bool *out_empty) {
  *out_empty = false;
  for (int i = 0; i < 3; i++) {
    int64_t blocks = 0;
    moe_rt_status_t status = moe__expression_evaluate(&launch->grid[i], bindings, &blocks);
    if (status != MOE_RT_OK)
      return moe__fail_in(status, "grid[%d]", i);
    if (blocks > moe__grid_limits[i]) {
      return moe__fail(MOE_RT_INVALID_ARGUMENT, "grid[%d] is %lld; the limit is %lld", i,
                       (long long)blocks, (long long)moe__grid_limits[i]);
    }
    if (blocks % kernel->cluster[i] != 0) {
      return moe__fail(MOE_RT_INVALID_ARGUMENT,
                       "grid[%d] is %lld; it must be a multiple of the cluster's %u", i,
                       (long long)blocks, kernel->cluster[i]);
    }
    out_grid[i] = (uint32_t)blocks;
    *out_empty |= blocks == 0;
  }
  return MOE_RT_OK;
}

static moe_rt_status_t evaluate_into(const moe__expression_t *expression,
                                     const moe__bindings_t *bindings, const char *field, int index,
                                     uint64_t *out_value) {
  int64_t value = 0;
  moe_rt_status_t status = moe__expression_evaluate(expression, bindings, &value);
  if (status != MOE_RT_OK)
    return moe__fail_in(status, "%s[%d]", field, index);
  *out_value = (uint64_t)value;
  return MOE_RT_OK;
}

static moe_rt_status_t make_map(preparation_t *preparation, const moe__parameter_t *parameter,
                                void **out_value) {
  const moe__placement_t *placement = &preparation->placements[parameter->tensor];
  moe__tensor_map_t map = {.box = parameter->box, .address = placement->address};
  for (int i = 0; i < map.box.rank; i++) {
    MOE__TRY(evaluate_into(&parameter->dims[i], &preparation->bindings, "dims", i, &map.dims[i]));
    if (i > 0) {
      MOE__TRY(evaluate_into(&parameter->strides[i - 1], &preparation->bindings, "strides", i - 1,
                             &map.strides[i - 1]));
    }
  }
  MOE__TRY(moe__tensor_map_check(&map, placement->bytes));
  moe_rt_device_t *device = preparation->call->device;
  moe__encoded_map_t *encoded = &preparation->call->maps[preparation->map_count++];
  *out_value = encoded;
  return device->backend->encode_map(device, &map, encoded);
}

static moe_rt_status_t make_scalar(preparation_t *preparation, const moe__parameter_t *parameter,
                                   void **out_value) {
  int64_t value = 0;
  MOE__TRY(moe__expression_evaluate(&parameter->value, &preparation->bindings, &value));
  if (parameter->bytes == 4 && value > INT32_MAX)
    return moe__fail(MOE_RT_INVALID_ARGUMENT, "%lld does not fit i32", (long long)value);
  /* The low bytes come first on every machine that has such a device. */
  *out_value = moe__arena_allocate(&preparation->call->arena, 1, sizeof value);
  if (!*out_value)
    return moe__fail_memory();
  memcpy(*out_value, &value, parameter->bytes);
  return MOE_RT_OK;
}

static moe_rt_status_t make_pointer(preparation_t *preparation, const moe__parameter_t *parameter,
                                    void **out_value) {
  uint64_t *address = moe__arena_allocate(&preparation->call->arena, 1, sizeof *address);
  if (!address)
    return moe__fail_memory();
  *address = preparation->placements[parameter->tensor].address;
  *out_value = address;
  return MOE_RT_OK;
}

/* Lists the tensors behind the launch's pointers and tensor maps. */
static moe_rt_status_t make_buffers(preparation_t *preparation, const moe__launch_t *launch,
                                    moe__ready_launch_t *out) {
  const moe__function_t *function = preparation->function;
  moe__arena_t *arena = &preparation->call->arena;
  size_t count = (size_t)launch->parameter_count;
  moe__ready_buffer_t *buffers = moe__arena_allocate(arena, count, sizeof *buffers);
  uint32_t *bytes = moe__arena_allocate(arena, count, sizeof *bytes);
  if (!buffers || !bytes)
    return moe__fail_memory();
  bool seen[MOE__MAX_TENSORS] = {false};
  for (int i = 0; i < launch->parameter_count; i++) {
    const moe__parameter_t *parameter = &launch->parameters[i];
    bytes[i] = parameter->bytes;
    if (parameter->kind == MOE__SCALAR || seen[parameter->tensor])
      continue;
    seen[parameter->tensor] = true;
    const moe__placement_t *placement = &preparation->placements[parameter->tensor];
    buffers[out->buffer_count++] = (moe__ready_buffer_t){
        .address = placement->address,
        .bytes = (uint64_t)placement->bytes,
        .is_written = parameter->tensor >= function->info.argument_count,
        /* Nobody writes arguments; all add to the status word, and nobody reads it. */
        .is_pending = out->programmatic && preparation->is_used[parameter->tensor] &&
                      parameter->tensor >= function->info.argument_count &&
                      parameter->tensor != function->status,
        .name = function->tensors[parameter->tensor].info->name,
    };
  }
  for (int t = 0; t < function->tensor_count; t++)
    preparation->is_used[t] |= seen[t];
  out->buffers = buffers;
  out->parameter_bytes = bytes;
  return MOE_RT_OK;
}

static moe_rt_status_t make_parameters(preparation_t *preparation, const moe__launch_t *launch,
                                       moe__ready_launch_t *out) {
  out->parameter_count = launch->parameter_count;
  out->parameters = moe__arena_allocate(&preparation->call->arena, (size_t)launch->parameter_count,
                                        sizeof *out->parameters);
  if (!out->parameters)
    return moe__fail_memory();
  for (int i = 0; i < launch->parameter_count; i++) {
    const moe__parameter_t *parameter = &launch->parameters[i];
    moe_rt_status_t status = MOE_RT_OK;
    if (parameter->kind == MOE__SCALAR) {
      status = make_scalar(preparation, parameter, &out->parameters[i]);
      if (status != MOE_RT_OK)
        return moe__fail_in(status, "parameter %d", i);
      continue;
    }
    status = parameter->kind == MOE__POINTER
                 ? make_pointer(preparation, parameter, &out->parameters[i])
                 : make_map(preparation, parameter, &out->parameters[i]);
    if (status != MOE_RT_OK) {
      return moe__fail_in(status, "parameter %d, %s of '%s'", i,
                          parameter->kind == MOE__POINTER ? "pointer" : "tensor map",
                          preparation->function->tensors[parameter->tensor].info->name);
    }
  }
  return MOE_RT_OK;
}

static moe_rt_status_t make_launch(preparation_t *preparation, const moe__launch_t *launch) {
  const moe__kernel_t *kernel = &preparation->program->manifest.kernels[launch->kernel];
  moe__ready_launch_t ready = {
      .kernel_name = kernel->name,
      .kernel = preparation->program->kernels[launch->kernel],
      .block = {kernel->block[0], kernel->block[1], kernel->block[2]},
      .cluster = {kernel->cluster[0], kernel->cluster[1], kernel->cluster[2]},
      .shared_memory = kernel->shared_memory,
      /* Where the launches before it are left out, what comes before this one is the caller's. */
      .programmatic = launch->programmatic && preparation->call->launch_count > 0,
  };
  bool empty = false;
  moe__bindings_t bindings = preparation->bindings;
  bindings.num_clusters = preparation->program->clusters[launch->kernel];
  MOE__TRY(compute_grid(launch, kernel, &bindings, ready.grid, &empty));
  if (empty)
    return MOE_RT_OK;
  MOE__TRY(make_parameters(preparation, launch, &ready));
  MOE__TRY(make_buffers(preparation, launch, &ready));
  preparation->call->launches[preparation->call->launch_count++] = ready;
  return MOE_RT_OK;
}

static moe_rt_status_t make_launches(preparation_t *preparation) {
  const moe__function_t *function = preparation->function;
  moe_rt_call_t *call = preparation->call;
  size_t map_count = 0;
  for (int l = 0; l < function->info.launch_count; l++) {
    for (int i = 0; i < function->launches[l].parameter_count; i++)
      map_count += function->launches[l].parameters[i].kind == MOE__TENSOR_MAP;
  }
  call->launches = moe__arena_allocate(&call->arena, (size_t)function->info.launch_count,
                                       sizeof *call->launches);
  if (map_count > 0)
    call->maps = aligned_alloc(_Alignof(moe__encoded_map_t), map_count * sizeof *call->maps);
  if (!call->launches || (map_count > 0 && !call->maps))
    return moe__fail_memory();
  for (int l = 0; l < function->info.launch_count; l++) {
    moe_rt_status_t status = make_launch(preparation, &function->launches[l]);
    if (status != MOE_RT_OK) {
      return moe__fail_in(status, "launch %d, kernel '%s'", l, function->info.launches[l].kernel);
    }
  }
  return MOE_RT_OK;
}

/* ---- The public functions ---- */

static moe_rt_status_t prepare(const moe_rt_program_t *program, const moe__function_t *function,
                               const DLTensor *const *tensors, int tensor_count,
                               moe_rt_call_t *call) {
  MOE__TRY(moe__device_check(call->device));
  int64_t symbols[MOE__MAX_SYMBOLS];
  preparation_t preparation = {
      .program = program,
      .function = function,
      .bindings = {.symbols = symbols, .num_sms = call->device->info.num_sms},
      .call = call,
  };
  preparation.placements = moe__arena_allocate(&call->arena, (size_t)function->tensor_count,
                                               sizeof *preparation.placements);
  if (!preparation.placements)
    return moe__fail_memory();
  MOE__TRY(moe__tensors_place(call->device, function, tensors, tensor_count, symbols,
                              preparation.placements));
  MOE__TRY(place_temporaries(&preparation));
  MOE__TRY(zero_temporaries(&preparation));
  return make_launches(&preparation);
}

moe_rt_status_t moe_rt_call_prepare(const moe_rt_program_t *program,
                                    const moe_rt_function_info_t *function,
                                    const DLTensor *const *tensors, int tensor_count,
                                    moe_rt_call_t **out_call) {
  if (!out_call)
    return moe__fail(MOE_RT_INVALID_ARGUMENT, "%s: out_call is NULL", __func__);
  *out_call = NULL;
  const moe__function_t *found = moe__program_function(program, function);
  if (!found)
    return moe__fail(MOE_RT_INVALID_ARGUMENT, "%s: function is not of this program", __func__);
  if (!program->device) {
    return moe__fail(MOE_RT_NOT_PREPARED,
                     "%s: the program is not on a device; moe_rt_program_load puts it there",
                     __func__);
  }
  moe_rt_call_t *call = calloc(1, sizeof *call);
  if (!call)
    return moe__fail_memory();
  call->device = program->device;
  moe_rt_status_t status = prepare(program, found, tensors, tensor_count, call);
  if (status != MOE_RT_OK) {
    moe_rt_call_destroy(call);
    return status == MOE_RT_DEVICE_LOST ? moe__device_check(program->device)
                                        : moe__fail_in(status, "function '%s'", function->name);
  }
  *out_call = call;
  return MOE_RT_OK;
}

moe_rt_status_t moe_rt_call_launch(const moe_rt_call_t *call, void *stream) {
  if (!call)
    return moe__fail(MOE_RT_NOT_PREPARED, "%s: call is NULL", __func__);
  moe_rt_device_t *device = call->device;
  MOE__TRY(moe__device_check(device));
  for (int i = 0; i < call->launch_count; i++) {
    moe_rt_status_t status = device->backend->launch(device, &call->launches[i], stream);
    if (status == MOE_RT_DEVICE_LOST)
      return status;
    if (status != MOE_RT_OK) {
      return moe__fail_in(status, "%s: kernel '%s'", device->name, call->launches[i].kernel_name);
    }
  }
  return MOE_RT_OK;
}

/* Reads the status word, and zeroes it where it is not. */
static moe_rt_status_t take_status(const moe_rt_call_t *call, void *stream, uint32_t *out_bits) {
  static const uint32_t zero;
  moe_rt_device_t *device = call->device;
  void *word = (void *)(uintptr_t)call->status;
  MOE__TRY(device->backend->stream_synchronize(device, stream));
  if (!word)
    return MOE_RT_OK;
  uint32_t bits = 0;
  MOE__TRY(device->backend->from_device(device, &bits, word, sizeof bits));
  if (bits)
    MOE__TRY(device->backend->to_device(device, word, &zero, sizeof zero));
  *out_bits = bits;
  return MOE_RT_OK;
}

moe_rt_status_t moe_rt_call_status(const moe_rt_call_t *call, void *stream, uint32_t *out_bits) {
  if (!out_bits)
    return moe__fail(MOE_RT_INVALID_ARGUMENT, "%s: out_bits is NULL", __func__);
  *out_bits = 0;
  if (!call)
    return moe__fail(MOE_RT_NOT_PREPARED, "%s: call is NULL", __func__);
  MOE__TRY(moe__device_check(call->device));
  moe_rt_status_t status = take_status(call, stream, out_bits);
  if (status == MOE_RT_OK || status == MOE_RT_DEVICE_LOST)
    return status;
  return moe__fail_in(status, "%s", call->device->name);
}

void moe_rt_call_destroy(moe_rt_call_t *call) {
  if (!call)
    return;
  if (call->workspace)
    call->device->backend->free(call->device, call->workspace);
  free(call->maps);
  moe__arena_free(&call->arena);
  free(call);
}
