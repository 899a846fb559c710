/* FakeDevice.c - a device that only takes notes.
 *
 * It is strict where a real device would be silent: it ends the test on a wrong free, unload or
 * lookup.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "test/Runtime/FakeDevice.h"

#include "test/Runtime/Support.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void fake_close(moe_rt_device_t *device) {
  moe__rt_device_fini(device);
}

static bool fake_owns(const moe_rt_device_t *device, DLDevice place) {
  return place.device_type == kDLCUDA && place.device_id == device->info.ordinal;
}

static moe_rt_status_t fake_allocate(moe_rt_device_t *device, size_t bytes, void **out_pointer) {
  fake_device_t *fake = (fake_device_t *)device;
  if (fake->allocate_status != MOE_RT_OK)
    return moe__rt_fail(fake->allocate_status, "fake allocation");
  fake->allocated = bytes;
  fake->live_allocations++;
  fake->workspace = *out_pointer = (char *)0x7000000000 + (fake->allocations++ << 24);
  return MOE_RT_OK;
}

static void fake_free(moe_rt_device_t *device, void *pointer) {
  fake_device_t *fake = (fake_device_t *)device;
  size_t number = ((size_t)pointer - 0x7000000000) >> 24;
  require(pointer && number < fake->allocations, "freed what was not allocated");
  fake->live_allocations--;
}

__attribute__((format(printf, 2, 3))) static void note(fake_device_t *fake, const char *format,
                                                       ...) {
  if (fake->is_quiet)
    return;
  size_t length = strlen(fake->events);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(fake->events + length, sizeof fake->events - length, format, arguments);
  va_end(arguments);
}

static long long offset(const fake_device_t *fake, const void *pointer) {
  return (const char *)pointer - (const char *)fake->workspace;
}

static moe_rt_status_t fake_fill(moe_rt_device_t *device, void *to, uint8_t byte, size_t bytes,
                                 void *stream) {
  fake_device_t *fake = (fake_device_t *)device;
  note(fake, "fill %lld+%zu with %d on %p; ", offset(fake, to), bytes, byte, stream);
  return fake->fill_status == MOE_RT_OK ? MOE_RT_OK : moe__rt_fail(fake->fill_status, "fake fill");
}

static moe_rt_status_t fake_stream_synchronize(moe_rt_device_t *device, void *stream) {
  note((fake_device_t *)device, "wait for %p; ", stream);
  return MOE_RT_OK;
}

static moe_rt_status_t fake_allocate_on(moe_rt_device_t *device, size_t bytes, void *stream,
                                        void **out_pointer) {
  note((fake_device_t *)device, "take %zu on %p; ", bytes, stream);
  return fake_allocate(device, bytes, out_pointer);
}

static moe_rt_status_t fake_free_on(moe_rt_device_t *device, void *pointer, void *stream) {
  note((fake_device_t *)device, "give back on %p; ", stream);
  fake_free(device, pointer);
  return MOE_RT_OK;
}

static moe_rt_status_t fake_to_device(moe_rt_device_t *device, void *to, const void *from,
                                      size_t bytes) {
  fake_device_t *fake = (fake_device_t *)device;
  require(bytes == sizeof fake->word, "a transfer that is not the status word's");
  memcpy(&fake->word, from, bytes);
  note(fake, "write %lld; ", offset(fake, to));
  return MOE_RT_OK;
}

static moe_rt_status_t fake_from_device(moe_rt_device_t *device, void *to, const void *from,
                                        size_t bytes) {
  fake_device_t *fake = (fake_device_t *)device;
  require(bytes == sizeof fake->word, "a transfer that is not the status word's");
  memcpy(to, &fake->word, bytes);
  note(fake, "read %lld; ", offset(fake, from));
  return MOE_RT_OK;
}

static moe_rt_status_t fake_load_code(moe_rt_device_t *device, moe__rt_code_kind_t kind,
                                      const moe__rt_bytes_t *bytes, void **out_code) {
  fake_device_t *fake = (fake_device_t *)device;
  require(bytes->data[bytes->size] == '\0', "code does not end with NUL");
  moe_rt_status_t status = kind == MOE__RT_CUBIN ? fake->cubin_status : fake->ptx_status;
  if (status != MOE_RT_OK)
    return moe__rt_fail(status, "fake refusal of %s", kind == MOE__RT_CUBIN ? "cubin" : "ptx");
  fake->live_code++;
  *out_code = fake;
  return MOE_RT_OK;
}

static void fake_unload_code(moe_rt_device_t *device, void *code) {
  require(code == device, "unloaded what was not loaded");
  ((fake_device_t *)device)->live_code--;
}

static moe_rt_status_t fake_load_kernel(moe_rt_device_t *device, void *code,
                                        const moe__rt_kernel_t *kernel, void **out_kernel) {
  require(code == device, "kernel of code that was not loaded");
  ((fake_device_t *)device)->kernel_count++;
  *out_kernel = (void *)kernel;
  return MOE_RT_OK;
}

static moe_rt_status_t fake_count_clusters(moe_rt_device_t *device, const moe__rt_kernel_t *kernel,
                                           void *loaded, int64_t *out_count) {
  require(loaded == kernel, "clusters of a kernel that was not loaded");
  *out_count = device->info.num_sms / (int)moe__rt_kernel_cluster_blocks(kernel) - 1;
  return MOE_RT_OK;
}

static moe_rt_status_t fake_encode_map(moe_rt_device_t *device, const moe__rt_tensor_map_t *map,
                                       moe__rt_encoded_map_t *out_encoded) {
  fake_device_t *fake = (fake_device_t *)device;
  if (fake->map_count < FAKE_MAX_MAPS)
    fake->maps[fake->map_count] = *map;
  memset(out_encoded, 0xA0 + fake->map_count, sizeof *out_encoded);
  if (fake->on_launch) { /* which compares them with the rest of the launch */
    memcpy(out_encoded->bytes, &map->address, sizeof map->address);
    memcpy(out_encoded->bytes + sizeof map->address, map->dims, 3 * sizeof *map->dims);
  }
  fake->map_count++;
  return MOE_RT_OK;
}

static moe_rt_status_t fake_launch(moe_rt_device_t *device, const moe__rt_ready_launch_t *launch,
                                   void *stream) {
  fake_device_t *fake = (fake_device_t *)device;
  if (fake->launch_status != MOE_RT_OK) {
    moe__rt_fail(fake->launch_status, "fake fault");
    return fake->launch_status == MOE_RT_DEVICE_LOST ? moe__rt_device_lose(device)
                                                     : fake->launch_status;
  }
  note(fake, "%s on %p; ", launch->kernel_name, stream);
  if (fake->on_launch)
    fake->on_launch(launch);
  int index = atomic_fetch_add(&fake->launch_count, 1);
  if (index >= FAKE_MAX_LAUNCHES)
    return MOE_RT_OK;
  const moe__rt_kernel_t *kernel = launch->kernel;
  snprintf(fake->launches[index].kernel, sizeof fake->launches[index].kernel, "%s", kernel->name);
  memcpy(fake->launches[index].grid, launch->grid, sizeof launch->grid);
  memcpy(fake->launches[index].block, launch->block, sizeof launch->block);
  memcpy(fake->launches[index].cluster, launch->cluster, sizeof launch->cluster);
  fake->launches[index].shared_memory = launch->shared_memory;
  fake->launches[index].programmatic = launch->programmatic;
  for (int i = 0; i < launch->buffer_count; i++) {
    char *names = fake->launches[index].pending;
    bool is_pending =
        launch->number == 0 ? !launch->buffers[i].is_settled : launch->buffers[i].used_by != 0;
    if (launch->programmatic && is_pending)
      strncat(names, launch->buffers[i].name,
              sizeof fake->launches[index].pending - 1 - strlen(names));
  }
  fake->launches[index].parameter_count = launch->parameter_count;
  fake->launches[index].stream = stream;
  for (int i = 0; i < launch->parameter_count && i < FAKE_MAX_PARAMETERS; i++) {
    memcpy(&fake->launches[index].parameters[i], launch->parameters[i], sizeof(uint64_t));
    fake->launches[index].addresses[i] = launch->parameters[i];
  }
  return MOE_RT_OK;
}

static const moe__rt_backend_t fake_backend = {
    .close = fake_close,
    .owns = fake_owns,
    .allocate = fake_allocate,
    .free = fake_free,
    .to_device = fake_to_device,
    .from_device = fake_from_device,
    .allocate_on = fake_allocate_on,
    .free_on = fake_free_on,
    .fill = fake_fill,
    .stream_synchronize = fake_stream_synchronize,
    .load_code = fake_load_code,
    .unload_code = fake_unload_code,
    .load_kernel = fake_load_kernel,
    .count_clusters = fake_count_clusters,
    .encode_map = fake_encode_map,
    .launch = fake_launch,
};

void fake_device_init(fake_device_t *fake) {
  memset(fake, 0, sizeof *fake);
  moe__rt_device_init(&fake->base, &fake_backend, "fake", 0);
  fake->base.info.compute_major = 9;
  fake->base.info.num_sms = 132;
  fake->base.info.shared_memory_per_block = 232448;
}
