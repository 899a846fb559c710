/* Run.c - calls whose tensors change at every step.
 *
 * A step of training repeats shapes and brings new addresses. Plans are remembered by everything
 * that tensors say of themselves but their address, so that equal keys have equal plans and no
 * check of shapes is left out.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Runtime/Run.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <stdlib.h>
#include <string.h>

enum {
  MAX_PLANS = 64,                         /* of a function */
  TENSOR_WORDS = 2 + 2 * MOE_RT_MAX_RANK, /* of a key */
  FRAME_ON_STACK = 8192,                  /* bytes; a larger frame is allocated */
};

/* A plan and its key. The table is one of its users. */
typedef struct kept_t {
  atomic_int users;
  moe__rt_plan_t *plan;
  size_t words;
  uint64_t key[];
} kept_t;

struct moe__rt_runs_t {
  pthread_mutex_t mutex;
  uint64_t clock;
  int count;
  uint64_t hashes[MAX_PLANS];
  uint64_t used[MAX_PLANS]; /* when, by the clock */
  kept_t *kept[MAX_PLANS];
};

/* ---- What is remembered ---- */

moe__rt_runs_t *moe__rt_runs_make(int function_count) {
  moe__rt_runs_t *runs = calloc((size_t)function_count + 1, sizeof *runs);
  for (int i = 0; runs && i < function_count; i++)
    pthread_mutex_init(&runs[i].mutex, NULL);
  return runs;
}

static void release(kept_t *kept) {
  if (atomic_fetch_sub_explicit(&kept->users, 1, memory_order_acq_rel) > 1)
    return;
  moe__rt_plan_destroy(kept->plan);
  free(kept);
}

void moe__rt_runs_destroy(moe__rt_runs_t *runs, int function_count) {
  for (int i = 0; i < function_count; i++) {
    for (int k = 0; k < runs[i].count; k++)
      release(runs[i].kept[k]);
    pthread_mutex_destroy(&runs[i].mutex);
  }
  free(runs);
}

/* Writes all that the tensors say but their addresses; 0 where they are not fit to be asked. */
static size_t make_key(const DLTensor *const *tensors, int count, uint64_t *out_key) {
  size_t words = 0;
  for (int t = 0; t < count; t++) {
    const DLTensor *tensor = tensors[t];
    if (!tensor || !tensor->shape || tensor->ndim < 0 || tensor->ndim > MOE_RT_MAX_RANK)
      return 0;
    size_t rank = (size_t)tensor->ndim;
    out_key[words++] = (uint64_t)tensor->dtype.code | (uint64_t)tensor->dtype.bits << 8 |
                       (uint64_t)tensor->dtype.lanes << 16 | (uint64_t)rank << 32 |
                       (uint64_t)(tensor->strides != NULL) << 40;
    out_key[words++] =
        (uint64_t)tensor->device.device_type << 32 | (uint32_t)tensor->device.device_id;
    memcpy(&out_key[words], tensor->shape, rank * sizeof *tensor->shape);
    words += rank;
    if (tensor->strides)
      memcpy(&out_key[words], tensor->strides, rank * sizeof *tensor->strides);
    words += tensor->strides ? rank : 0;
  }
  return words;
}

static kept_t *find(moe__rt_runs_t *runs, uint64_t hash, const uint64_t *key, size_t words) {
  for (int i = 0; i < runs->count; i++) {
    kept_t *kept = runs->kept[i];
    if (runs->hashes[i] != hash || kept->words != words ||
        memcmp(kept->key, key, words * sizeof *key) != 0)
      continue;
    runs->used[i] = ++runs->clock;
    atomic_fetch_add_explicit(&kept->users, 1, memory_order_relaxed);
    return kept;
  }
  return NULL;
}

/* Adds a plan, in the place of the one that was not used for longest. */
static void keep(moe__rt_runs_t *runs, uint64_t hash, kept_t *kept) {
  int at = runs->count;
  if (runs->count < MAX_PLANS) {
    runs->count++;
  } else {
    at = 0;
    for (int i = 1; i < MAX_PLANS; i++)
      at = runs->used[i] < runs->used[at] ? i : at;
    release(runs->kept[at]);
  }
  runs->hashes[at] = hash;
  runs->used[at] = ++runs->clock;
  runs->kept[at] = kept;
}

/* Makes what is to be kept, with the table and the caller as its users. */
static moe_rt_status_t make_kept(const moe_rt_program_t *program,
                                 const moe__rt_function_t *function, const DLTensor *const *tensors,
                                 const uint64_t *key, size_t words, kept_t **out_kept) {
  kept_t *kept = calloc(1, sizeof *kept + words * sizeof *key);
  if (!kept)
    return moe__rt_fail_memory();
  moe_rt_status_t status = moe__rt_plan_make(program, function, tensors, &kept->plan);
  if (status != MOE_RT_OK) {
    free(kept);
    return status;
  }
  atomic_init(&kept->users, 2);
  kept->words = words;
  memcpy(kept->key, key, words * sizeof *key);
  *out_kept = kept;
  return MOE_RT_OK;
}

/* The plan for these tensors; release() it. */
static moe_rt_status_t get_plan(const moe_rt_program_t *program, const moe__rt_function_t *function,
                                const DLTensor *const *tensors, int tensor_count,
                                kept_t **out_kept) {
  uint64_t key[MOE__RT_MAX_TENSORS * TENSOR_WORDS];
  int count = moe__rt_given_count(function);
  size_t words = tensors && tensor_count == count ? make_key(tensors, count, key) : 0;
  moe__rt_runs_t *runs = &program->runs[function - program->manifest->functions];
  uint64_t hash = XXH3_64bits(key, words * sizeof *key);
  if (words > 0) {
    pthread_mutex_lock(&runs->mutex);
    *out_kept = find(runs, hash, key, words);
    pthread_mutex_unlock(&runs->mutex);
    if (*out_kept)
      return MOE_RT_OK;
  }
  MOE__RT_TRY(moe__rt_tensors_check_kinds(program->device, function, tensors, tensor_count, count));
  MOE__RT_TRY(make_kept(program, function, tensors, key, words, out_kept));
  /* Two threads may come to keep equal plans; the older one goes out of use. */
  pthread_mutex_lock(&runs->mutex);
  keep(runs, hash, *out_kept);
  pthread_mutex_unlock(&runs->mutex);
  return MOE_RT_OK;
}

/* ---- Workspace ---- */

/* Memory of a run. */
typedef struct room_t {
  void *data;
  bool is_own; /* from the device's pool */
} room_t;

static moe_rt_status_t take_given(const moe_rt_workspace_t *workspace, size_t bytes, void *stream,
                                  void **out_data) {
  *out_data = workspace->data;
  if (workspace->data && workspace->bytes < bytes) {
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "workspace: has %zu bytes; it must have %zu",
                        workspace->bytes, bytes);
  }
  if (!workspace->data) {
    if (!workspace->allocate) {
      return moe__rt_fail(MOE_RT_INVALID_ARGUMENT,
                          "workspace: has neither data nor allocate; it must have %zu bytes",
                          bytes);
    }
    *out_data = workspace->allocate(workspace->context, bytes, stream);
  }
  if (!*out_data)
    return moe__rt_fail(MOE_RT_OUT_OF_MEMORY, "workspace: the allocator has no %zu bytes", bytes);
  if ((uintptr_t)*out_data % MOE__RT_ALIGNMENT != 0) {
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT,
                        "workspace: is at %p; it must be aligned to %d bytes", *out_data,
                        MOE__RT_ALIGNMENT);
  }
  return MOE_RT_OK;
}

static moe_rt_status_t check_apart(const moe__rt_plan_t *plan, const moe__rt_places_t *places,
                                   const room_t *room) {
  uint64_t begin = (uint64_t)(uintptr_t)room->data;
  uint64_t end = begin + (uint64_t)plan->status_offset;
  for (int t = 0; t < moe__rt_given_count(plan->function); t++) {
    uint64_t address = places->addresses[t];
    if (address < end && begin < address + (uint64_t)plan->bytes[t]) {
      return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "workspace: overlaps %s '%s'",
                          moe__rt_tensor_role(plan->function, t),
                          plan->function->tensors[t].info->name);
    }
  }
  return MOE_RT_OK;
}

static moe_rt_status_t take_room(moe_rt_device_t *device, const moe__rt_plan_t *plan,
                                 const moe__rt_run_t *run, room_t *out) {
  size_t bytes = (size_t)plan->status_offset;
  if (bytes == 0)
    return MOE_RT_OK;
  if (run->workspace)
    return take_given(run->workspace, bytes, run->stream, &out->data);
  out->is_own = true;
  moe_rt_status_t status = device->backend->allocate_on(device, bytes, run->stream, &out->data);
  return status == MOE_RT_OK || status == MOE_RT_DEVICE_LOST ? status
                                                             : moe__rt_fail_in(status, "workspace");
}

/* ---- Running ---- */

static moe_rt_status_t launch_in(const moe_rt_program_t *program, const moe__rt_plan_t *plan,
                                 moe__rt_places_t *places, void *memory, const moe__rt_run_t *run) {
  moe_rt_device_t *device = program->device;
  moe__rt_ready_launch_t *launches = NULL;
  MOE__RT_TRY(moe__rt_frame_fill(device, plan, places, device->maps, memory, &launches));
  if (run->in_order && plan->launch_count > 0)
    launches[0].programmatic = false;
  int64_t zeroed = plan->status_offset - plan->zero_begin;
  if (zeroed > 0 && plan->launch_count > 0) {
    void *begin = (void *)(uintptr_t)(places->workspace + (uint64_t)plan->zero_begin);
    MOE__RT_TRY(device->backend->fill(device, begin, 0, (size_t)zeroed, run->stream));
  }
  return moe__rt_frame_launch(device, launches, plan->launch_count, run->stream);
}

static moe_rt_status_t launch(const moe_rt_program_t *program, const moe__rt_plan_t *plan,
                              moe__rt_places_t *places, const moe__rt_run_t *run) {
  size_t bytes = moe__rt_frame_bytes(plan);
  if (bytes <= FRAME_ON_STACK) {
    _Alignas(moe__rt_encoded_map_t) unsigned char memory[FRAME_ON_STACK];
    return launch_in(program, plan, places, memory, run);
  }
  void *memory = aligned_alloc(_Alignof(moe__rt_encoded_map_t), bytes);
  if (!memory)
    return moe__rt_fail_memory();
  moe_rt_status_t status = launch_in(program, plan, places, memory, run);
  free(memory);
  return status;
}

static moe_rt_status_t run_plan(const moe_rt_program_t *program, const moe__rt_plan_t *plan,
                                const DLTensor *const *tensors, const moe__rt_run_t *run) {
  moe_rt_device_t *device = program->device;
  moe__rt_places_t places;
  room_t room = {0};
  MOE__RT_TRY(
      moe__rt_tensors_check_addresses(plan->function, tensors, plan->bytes, places.addresses));
  MOE__RT_TRY(take_room(device, plan, run, &room));
  places.workspace = (uint64_t)(uintptr_t)room.data;
  places.status = moe__rt_program_status_word(program, plan->function);
  moe_rt_status_t status = check_apart(plan, &places, &room);
  if (status == MOE_RT_OK)
    status = launch(program, plan, &places, run);
  if (!room.is_own)
    return status;
  if (status != MOE_RT_OK) {
    MOE__RT_QUIETLY(device->backend->free_on(device, room.data, run->stream));
    return status;
  }
  return device->backend->free_on(device, room.data, run->stream);
}

static moe_rt_status_t place_of_first(const DLTensor *const *tensors, int tensor_count,
                                      DLDevice *out_place) {
  if (!tensors || tensor_count < 1 || !tensors[0])
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "there is no first tensor to tell the device");
  *out_place = tensors[0]->device;
  return MOE_RT_OK;
}

/* The program on the device of the first tensor. It is loaded there if need be, but not while the
 * stream is captured. */
static moe_rt_status_t find_loaded(const moe_rt_program_t *program, const DLTensor *const *tensors,
                                   int tensor_count, void *stream,
                                   const moe_rt_program_t **out_loaded) {
  *out_loaded = program;
  if (program->device)
    return MOE_RT_OK;
  DLDevice place = {kDLCPU, 0};
  MOE__RT_TRY(place_of_first(tensors, tensor_count, &place));
  const moe_rt_program_t *loaded = moe__rt_program_loaded(program, place);
  if (loaded) {
    *out_loaded = loaded;
    return MOE_RT_OK;
  }
  moe_rt_device_t *device = NULL;
  MOE__RT_TRY(moe_rt_device_shared(place, &device));
  bool is_capturing = false;
  MOE__RT_TRY(device->backend->stream_is_capturing(device, stream, &is_capturing));
  if (is_capturing) {
    return moe__rt_fail(MOE_RT_NOT_PREPARED,
                        "%s is not loaded on %s, and cannot be while the stream is captured; "
                        "moe_rt_program_on loads it before",
                        program->name, device->name);
  }
  return moe_rt_program_on(program, place, out_loaded);
}

static moe_rt_status_t run_function(const moe_rt_program_t *program,
                                    const moe__rt_function_t *function,
                                    const DLTensor *const *tensors, int tensor_count,
                                    const moe__rt_run_t *run) {
  const moe_rt_program_t *loaded = NULL;
  MOE__RT_TRY(find_loaded(program, tensors, tensor_count, run->stream, &loaded));
  MOE__RT_TRY(moe__rt_device_check(loaded->device));
  kept_t *kept = NULL;
  MOE__RT_TRY(get_plan(loaded, function, tensors, tensor_count, &kept));
  moe_rt_status_t status = run_plan(loaded, kept->plan, tensors, run);
  release(kept);
  return status;
}

moe_rt_status_t moe__rt_run(const moe_rt_program_t *program, const moe_rt_function_info_t *function,
                            const DLTensor *const *tensors, int tensor_count,
                            const moe__rt_run_t *run) {
  const moe__rt_function_t *found = moe__rt_program_function(program, function);
  if (!found)
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "function is not of this program");
  moe_rt_status_t status = run_function(program, found, tensors, tensor_count, run);
  if (status == MOE_RT_OK || status == MOE_RT_DEVICE_LOST)
    return status;
  return moe__rt_fail_in(status, "function '%s'", function->name);
}

moe_rt_status_t moe_rt_call_run(const moe_rt_program_t *program,
                                const moe_rt_function_info_t *function,
                                const DLTensor *const *tensors, int tensor_count,
                                const moe_rt_workspace_t *workspace, void *stream) {
  const moe__rt_run_t run = {.workspace = workspace, .stream = stream};
  return moe__rt_run(program, function, tensors, tensor_count, &run);
}

moe_rt_status_t moe_rt_call_run_in_order(const moe_rt_program_t *program,
                                         const moe_rt_function_info_t *function,
                                         const DLTensor *const *tensors, int tensor_count,
                                         const moe_rt_workspace_t *workspace, void *stream) {
  const moe__rt_run_t run = {.workspace = workspace, .stream = stream, .in_order = true};
  return moe__rt_run(program, function, tensors, tensor_count, &run);
}

/* ---- Before a run, and after ---- */

static void describe_result(const moe__rt_tensor_t *expected, DLDevice place,
                            const int64_t shape[MOE_RT_MAX_RANK], moe_rt_result_t *out) {
  const moe_rt_tensor_info_t *info = expected->info;
  *out =
      (moe_rt_result_t){.tensor = {.device = place,
                                   .ndim = info->rank,
                                   .dtype = {expected->dlpack_code, (uint8_t)info->dtype_bits, 1},
                                   .shape = out->shape,
                                   .strides = out->strides}};
  int64_t step = 1;
  for (int i = info->rank - 1; i >= 0; i--) {
    int dimension = info->order[i];
    out->shape[dimension] = shape[dimension];
    out->strides[dimension] = step;
    step *= shape[dimension] > 0 ? shape[dimension] : 1;
  }
}

static moe_rt_status_t results(const moe_rt_program_t *program, const moe__rt_function_t *function,
                               const DLTensor *const *arguments, int argument_count,
                               moe_rt_result_t *out_results, size_t *out_workspace_bytes) {
  moe_rt_device_t *device = program->device;
  if (!device) {
    DLDevice place = {kDLCPU, 0};
    MOE__RT_TRY(place_of_first(arguments, argument_count, &place));
    MOE__RT_TRY(moe_rt_device_shared(place, &device));
  }
  int64_t symbols[MOE__RT_MAX_SYMBOLS];
  int64_t bytes[MOE__RT_MAX_TENSORS];
  int64_t offsets[MOE__RT_MAX_TENSORS];
  moe__rt_workspace_layout_t layout;
  int count = function->info.argument_count;
  MOE__RT_TRY(moe__rt_tensors_check_kinds(device, function, arguments, argument_count, count));
  MOE__RT_TRY(moe__rt_tensors_check_shapes(device, function, arguments, count, symbols, bytes));
  MOE__RT_TRY(moe__rt_workspace_lay_out(function, bytes, offsets, &layout));
  moe__rt_bindings_t bindings = {.symbols = symbols, .num_sms = device->info.num_sms};
  for (int i = 0; out_results && i < function->info.result_count; i++) {
    int64_t shape[MOE_RT_MAX_RANK];
    MOE__RT_TRY(moe__rt_shapes_compute(function, count + i, &bindings, shape));
    describe_result(&function->tensors[count + i], arguments[0]->device, shape, &out_results[i]);
  }
  if (out_workspace_bytes)
    *out_workspace_bytes = (size_t)layout.status_offset;
  return MOE_RT_OK;
}

moe_rt_status_t moe_rt_call_results(const moe_rt_program_t *program,
                                    const moe_rt_function_info_t *function,
                                    const DLTensor *const *arguments, int argument_count,
                                    moe_rt_result_t *out_results, size_t *out_workspace_bytes) {
  if (out_workspace_bytes)
    *out_workspace_bytes = 0;
  const moe__rt_function_t *found = moe__rt_program_function(program, function);
  if (!found)
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "%s: function is not of this program", __func__);
  if (out_results)
    memset(out_results, 0, (size_t)function->result_count * sizeof *out_results);
  moe_rt_status_t status =
      results(program, found, arguments, argument_count, out_results, out_workspace_bytes);
  if (status == MOE_RT_OK || status == MOE_RT_DEVICE_LOST)
    return status;
  return moe__rt_fail_in(status, "function '%s'", function->name);
}

moe_rt_status_t moe_rt_function_status(const moe_rt_program_t *program,
                                       const moe_rt_function_info_t *function, DLDevice place,
                                       void *stream, uint32_t *out_bits) {
  if (!out_bits)
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "%s: out_bits is NULL", __func__);
  *out_bits = 0;
  const moe__rt_function_t *found = moe__rt_program_function(program, function);
  if (!found)
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "%s: function is not of this program", __func__);
  const moe_rt_program_t *loaded = moe__rt_program_loaded(program, place);
  if (!loaded)
    return MOE_RT_OK;
  void *word = (void *)(uintptr_t)moe__rt_program_status_word(loaded, found);
  return moe__rt_device_take_status(loaded->device, word, stream, out_bits);
}
