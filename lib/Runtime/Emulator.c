/* Emulator.c - the emulator as a device: the device functions of Backend.h on libmoe_emu.
 *
 * Device memory is memory of this process, DLPack device kDLCPU. A launch returns when its kernel
 * has ended; a stream has nothing to do.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Runtime/Backend.h"

#include "moe/emulator.h"
#include "moe/limits.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
  FILL = 0xA5, /* what new memory holds */
  NUM_SMS = 4, /* few, so that persistent kernels get several tiles a block on small shapes */
};

typedef struct emulator_t {
  moe_rt_device_t base;
  pthread_mutex_t mutex; /* of the options */
  moe_emu_options_t options;
} emulator_t;

typedef struct event_t {
  struct timespec time;
} event_t;

static emulator_t *as_emulator(moe_rt_device_t *device) {
  return (emulator_t *)device;
}

/* ---- Memory ---- */

static bool emulator_owns(const moe_rt_device_t *device, DLDevice place) {
  (void)device;
  return place.device_type == kDLCPU || place.device_type == kDLCUDAHost;
}

static moe_rt_status_t emulator_allocate(moe_rt_device_t *device, size_t bytes,
                                         void **out_pointer) {
  (void)device;
  if (bytes > SIZE_MAX - MOE__RT_ALIGNMENT)
    return moe__rt_fail(MOE_RT_OUT_OF_MEMORY, "allocation of %zu bytes", bytes);
  size_t size = (bytes + MOE__RT_ALIGNMENT - 1) / MOE__RT_ALIGNMENT * MOE__RT_ALIGNMENT;
  *out_pointer = aligned_alloc(MOE__RT_ALIGNMENT, size);
  if (!*out_pointer)
    return moe__rt_fail(MOE_RT_OUT_OF_MEMORY, "allocation of %zu bytes", bytes);
  memset(*out_pointer, FILL, size);
  return MOE_RT_OK;
}

static void emulator_free(moe_rt_device_t *device, void *pointer) {
  (void)device;
  free(pointer);
}

static moe_rt_status_t emulator_transfer(moe_rt_device_t *device, void *to, const void *from,
                                         size_t bytes) {
  (void)device;
  memmove(to, from, bytes);
  return MOE_RT_OK;
}

static moe_rt_status_t emulator_fill(moe_rt_device_t *device, void *to, uint8_t byte, size_t bytes,
                                     void *stream) {
  (void)device, (void)stream;
  memset(to, byte, bytes);
  return MOE_RT_OK;
}

static moe_rt_status_t emulator_copy(moe_rt_device_t *device, void *to, const void *from,
                                     size_t bytes, void *stream) {
  (void)stream;
  return emulator_transfer(device, to, from, bytes);
}

static moe_rt_status_t emulator_allocate_on(moe_rt_device_t *device, size_t bytes, void *stream,
                                            void **out_pointer) {
  (void)stream;
  return emulator_allocate(device, bytes, out_pointer);
}

static moe_rt_status_t emulator_free_on(moe_rt_device_t *device, void *pointer, void *stream) {
  (void)stream;
  emulator_free(device, pointer);
  return MOE_RT_OK;
}

/* ---- Streams and events ---- */

static moe_rt_status_t emulator_stream_create(moe_rt_device_t *device, void **out_stream) {
  *out_stream = device; /* something that is not NULL */
  return MOE_RT_OK;
}

static void emulator_stream_destroy(moe_rt_device_t *device, void *stream) {
  (void)device, (void)stream;
}

static moe_rt_status_t emulator_stream_synchronize(moe_rt_device_t *device, void *stream) {
  (void)device, (void)stream;
  return MOE_RT_OK;
}

static moe_rt_status_t emulator_stream_is_capturing(moe_rt_device_t *device, void *stream,
                                                    bool *out_capturing) {
  (void)device, (void)stream;
  *out_capturing = false;
  return MOE_RT_OK;
}

static moe_rt_status_t emulator_event_create(moe_rt_device_t *device, void **out_event) {
  (void)device;
  *out_event = calloc(1, sizeof(event_t));
  return *out_event ? MOE_RT_OK : moe__rt_fail_memory();
}

static void emulator_event_destroy(moe_rt_device_t *device, void *event) {
  (void)device;
  free(event);
}

static moe_rt_status_t emulator_event_record(moe_rt_device_t *device, void *event, void *stream) {
  (void)device, (void)stream;
  clock_gettime(CLOCK_MONOTONIC, &((event_t *)event)->time);
  return MOE_RT_OK;
}

static moe_rt_status_t emulator_event_elapsed(moe_rt_device_t *device, void *begin, void *end,
                                              float *out_milliseconds) {
  (void)device;
  const struct timespec *first = &((event_t *)begin)->time, *last = &((event_t *)end)->time;
  *out_milliseconds = (float)((double)(last->tv_sec - first->tv_sec) * 1e3 +
                              (double)(last->tv_nsec - first->tv_nsec) * 1e-6);
  return MOE_RT_OK;
}

/* ---- Code ---- */

static moe_rt_status_t fail(moe_emu_status_t status, const moe_emu_report_t *report) {
  static const moe_rt_status_t statuses[] = {
      [MOE_EMU_OK] = MOE_RT_OK,
      [MOE_EMU_INVALID_PTX] = MOE_RT_UNSUPPORTED,
      [MOE_EMU_INVALID_ARGUMENT] = MOE_RT_INVALID_ARGUMENT,
      [MOE_EMU_FAULT] = MOE_RT_DEVICE_ERROR,
      [MOE_EMU_LIMIT] = MOE_RT_LIMIT_REACHED,
      [MOE_EMU_OUT_OF_MEMORY] = MOE_RT_OUT_OF_MEMORY,
  };
  return moe__rt_fail(statuses[status], "%s", report->text);
}

static moe_rt_status_t emulator_load_code(moe_rt_device_t *device, moe__rt_code_kind_t kind,
                                          const moe__rt_bytes_t *bytes, void **out_code) {
  (void)device;
  if (kind != MOE__RT_PTX)
    return moe__rt_fail(MOE_RT_UNSUPPORTED, "the emulator runs PTX only");
  moe_emu_report_t report;
  moe_emu_module_t *module = NULL;
  moe_emu_status_t status =
      moe_emu_module_load((const char *)bytes->data, bytes->size, &module, &report);
  *out_code = module;
  return status == MOE_EMU_OK ? MOE_RT_OK : fail(status, &report);
}

static void emulator_unload_code(moe_rt_device_t *device, void *code) {
  (void)device;
  moe_emu_module_destroy(code);
}

static moe_rt_status_t emulator_load_kernel(moe_rt_device_t *device, void *code,
                                            const moe__rt_kernel_t *kernel, void **out_kernel) {
  (void)device;
  if (!moe_emu_module_has(code, kernel->name))
    return moe__rt_fail(MOE_RT_INVALID_BUNDLE, "the code has no such entry point");
  *out_kernel = code; /* a launch has the name */
  return MOE_RT_OK;
}

/* Clusters run one after the other; a kernel sees several where it has work for them. */
static moe_rt_status_t emulator_count_clusters(moe_rt_device_t *device,
                                               const moe__rt_kernel_t *kernel, void *loaded,
                                               int64_t *out_count) {
  (void)device, (void)loaded;
  int64_t blocks = moe__rt_kernel_cluster_blocks(kernel);
  *out_count = NUM_SMS > blocks ? NUM_SMS / blocks : 1;
  return MOE_RT_OK;
}

/* ---- Calls ---- */

static moe_rt_status_t emulator_encode_map(moe_rt_device_t *device, const moe__rt_tensor_map_t *map,
                                           moe__rt_encoded_map_t *out_encoded) {
  (void)device;
  static const moe_emu_map_type_t types[] = {
#define MOE__RT_MAP_ELEMENT(constant, name, bytes, driver) (moe_emu_map_type_t) driver,
      MOE__RT_MAP_ELEMENTS(MOE__RT_MAP_ELEMENT)
#undef MOE__RT_MAP_ELEMENT
  };
  moe_emu_tensor_map_t encoded = {
      .type = types[map->box.element],
      .rank = map->box.rank,
      .address = map->address,
      .swizzle = (int)map->box.swizzle,
      .fill_nan = map->box.fill == MOE__RT_FILL_NAN,
  };
  memcpy(encoded.dims, map->dims, sizeof encoded.dims);
  memcpy(encoded.strides, map->strides, sizeof encoded.strides);
  for (int i = 0; i < map->box.rank; i++)
    encoded.box[i] = (uint32_t)map->box.box[i]; /* at most 256 */
  moe_emu_report_t report;
  moe_emu_status_t status = moe_emu_tensor_map_encode(&encoded, out_encoded->bytes, &report);
  return status == MOE_EMU_OK ? MOE_RT_OK : fail(status, &report);
}

/* Which launches of the call, bit by bit, have ended when this one comes back from
 * griddepcontrol.wait, and when it ends. A launch that does not wait may end before those before
 * it. */
static _Thread_local uint64_t ended_with_last;

static uint64_t ended_after_wait(const moe__rt_ready_launch_t *launch) {
  uint64_t before = launch->number < 64 ? (UINT64_C(1) << launch->number) - 1 : UINT64_MAX;
  if (!launch->programmatic || launch->number == 0)
    return before;
  return ended_with_last | (before & ~(before >> 1));
}

static moe_emu_pending_t pending_of(const moe__rt_ready_launch_t *launch,
                                    const moe__rt_ready_buffer_t *buffer) {
  if (launch->programmatic && launch->number == 0)
    return buffer->is_settled ? MOE_EMU_NOT_PENDING : MOE_EMU_PENDING;
  if (!launch->programmatic || !buffer->used_by)
    return MOE_EMU_NOT_PENDING;
  return buffer->used_by & ~ended_after_wait(launch) ? MOE_EMU_PENDING_BEYOND : MOE_EMU_PENDING;
}

static moe_emu_options_t options_of(emulator_t *emulator) {
  pthread_mutex_lock(&emulator->mutex);
  const moe_emu_options_t options = emulator->options;
  pthread_mutex_unlock(&emulator->mutex);
  return options;
}

static moe_rt_status_t emulator_launch(moe_rt_device_t *device,
                                       const moe__rt_ready_launch_t *launch, void *stream) {
  (void)stream;
  moe_emu_buffer_t *buffers = calloc((size_t)launch->buffer_count + 1, sizeof *buffers);
  if (!buffers)
    return moe__rt_fail_memory();
  for (int i = 0; i < launch->buffer_count; i++) {
    const moe__rt_ready_buffer_t *buffer = &launch->buffers[i];
    buffers[i] = (moe_emu_buffer_t){.address = buffer->address,
                                    .bytes = buffer->bytes,
                                    .writable = buffer->is_written,
                                    .name = buffer->name,
                                    .pending = pending_of(launch, buffer)};
  }
  bool has_waited = false;
  moe_emu_launch_t emulated = {
      .out_has_waited = &has_waited,
      .kernel = launch->kernel_name,
      .grid = {launch->grid[0], launch->grid[1], launch->grid[2]},
      .block = {launch->block[0], launch->block[1], launch->block[2]},
      .cluster = {launch->cluster[0], launch->cluster[1], launch->cluster[2]},
      .dynamic_shared = launch->shared_memory,
      .parameters = (const void *const *)launch->parameters,
      .parameter_bytes = launch->parameter_bytes,
      .parameter_count = launch->parameter_count,
      .buffers = buffers,
      .buffer_count = launch->buffer_count,
  };
  const moe_emu_options_t options = options_of(as_emulator(device));
  moe_emu_report_t report;
  moe_emu_status_t status = moe_emu_launch(launch->kernel, &emulated, &options, &report);
  free(buffers);
  ended_with_last = has_waited || !launch->programmatic ? ended_after_wait(launch) : 0;
  if (status == MOE_EMU_OK)
    return MOE_RT_OK;
  /* The caller names the kernel, too. */
  char name[256];
  int length = snprintf(name, sizeof name, "kernel '%.200s'", launch->kernel_name);
  if (strncmp(report.text, name, (size_t)length) == 0)
    memmove(report.text, report.text + length + 2, strlen(report.text + length + 2) + 1);
  return fail(status, &report);
}

/* ---- Opening and closing ---- */

static void emulator_close(moe_rt_device_t *device) {
  moe__rt_device_fini(device);
  pthread_mutex_destroy(&as_emulator(device)->mutex);
  free(device);
}

static const moe__rt_backend_t emulator_backend = {
    .close = emulator_close,
    .owns = emulator_owns,
    .allocate = emulator_allocate,
    .free = emulator_free,
    .to_device = emulator_transfer,
    .from_device = emulator_transfer,
    .fill = emulator_fill,
    .copy = emulator_copy,
    .allocate_on = emulator_allocate_on,
    .free_on = emulator_free_on,
    .stream_create = emulator_stream_create,
    .stream_destroy = emulator_stream_destroy,
    .stream_synchronize = emulator_stream_synchronize,
    .stream_is_capturing = emulator_stream_is_capturing,
    .event_create = emulator_event_create,
    .event_destroy = emulator_event_destroy,
    .event_record = emulator_event_record,
    .event_elapsed = emulator_event_elapsed,
    .load_code = emulator_load_code,
    .unload_code = emulator_unload_code,
    .load_kernel = emulator_load_kernel,
    .count_clusters = emulator_count_clusters,
    .encode_map = emulator_encode_map,
    .launch = emulator_launch,
};

void moe__rt_emulator_configure(moe_rt_device_t *device, const moe_rt_emulator_options_t *options) {
  emulator_t *emulator = as_emulator(device);
  pthread_mutex_lock(&emulator->mutex);
  emulator->options = (moe_emu_options_t){
      .schedule = options->schedule,
      .threads = options->threads,
      .step_limit = options->step_limit,
  };
  pthread_mutex_unlock(&emulator->mutex);
}

moe_rt_status_t moe__rt_emulator_open(const moe_rt_emulator_options_t *options,
                                      moe_rt_device_t **out_device) {
  emulator_t *emulator = calloc(1, sizeof *emulator);
  if (!emulator)
    return moe__rt_fail_memory();
  moe__rt_device_init(&emulator->base, &emulator_backend, "emu", 0);
  pthread_mutex_init(&emulator->mutex, NULL);
  moe__rt_emulator_configure(&emulator->base, options);
  moe_rt_device_info_t *info = &emulator->base.info;
  strcpy(info->name, "moe-opt emulator of sm_90a");
  info->compute_major = 9;
  info->num_sms = NUM_SMS;
  info->l2_bytes = INT64_C(1) << 20;
  info->shared_memory_per_block = MOE_CTA_SHARED_MEMORY;
  info->total_memory = INT64_MAX;
  *out_device = &emulator->base;
  return MOE_RT_OK;
}
