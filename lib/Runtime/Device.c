/* Device.c - devices by name, and the device functions of the public API.
 *
 * The public functions check their arguments and the device's state here, once for every kind of
 * device.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Runtime/MapCache.h"
#include "moe/limits.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The common part of a device ---- */

void moe__rt_device_init(moe_rt_device_t *device, const moe__rt_backend_t *backend,
                         const char *kind, int ordinal) {
  device->backend = backend;
  device->info.ordinal = ordinal;
  snprintf(device->name, sizeof device->name, "%s:%d", kind, ordinal);
  atomic_init(&device->lost, false);
  pthread_mutex_init(&device->lost_mutex, NULL);
  device->maps = moe__rt_map_cache_make();
}

void moe__rt_device_fini(moe_rt_device_t *device) {
  moe__rt_map_cache_destroy(device->maps);
  pthread_mutex_destroy(&device->lost_mutex);
}

moe_rt_status_t moe__rt_device_lose(moe_rt_device_t *device) {
  pthread_mutex_lock(&device->lost_mutex);
  if (!atomic_load_explicit(&device->lost, memory_order_relaxed)) {
    snprintf(device->lost_message, sizeof device->lost_message, "%s", moe_rt_last_message());
    atomic_store_explicit(&device->lost, true, memory_order_release);
  }
  pthread_mutex_unlock(&device->lost_mutex);
  return moe__rt_device_check(device);
}

moe_rt_status_t moe__rt_device_check(moe_rt_device_t *device) {
  if (!atomic_load_explicit(&device->lost, memory_order_acquire))
    return MOE_RT_OK;
  return moe__rt_fail(MOE_RT_DEVICE_LOST, "%s: lost: %s", device->name, device->lost_message);
}

static moe_rt_status_t take_status(moe_rt_device_t *device, void *word, void *stream,
                                   uint32_t *out_bits) {
  static const uint32_t zero;
  MOE__RT_TRY(device->backend->stream_synchronize(device, stream));
  if (!word)
    return MOE_RT_OK;
  uint32_t bits = 0;
  MOE__RT_TRY(device->backend->from_device(device, &bits, word, sizeof bits));
  if (bits)
    MOE__RT_TRY(device->backend->to_device(device, word, &zero, sizeof zero));
  *out_bits = bits;
  return MOE_RT_OK;
}

moe_rt_status_t moe__rt_device_take_status(moe_rt_device_t *device, void *word, void *stream,
                                           uint32_t *out_bits) {
  MOE__RT_TRY(moe__rt_device_check(device));
  moe_rt_status_t status = take_status(device, word, stream, out_bits);
  if (status == MOE_RT_OK || status == MOE_RT_DEVICE_LOST)
    return status;
  return moe__rt_fail_in(status, "%s", device->name);
}

static moe_rt_status_t check_not_null(const void *pointer, const char *function, const char *name) {
  if (!pointer)
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "%s: %s is NULL", function, name);
  return MOE_RT_OK;
}

/* ---- Opening ---- */

/* emu:N is the emulator with schedule N. */
static moe_rt_status_t open_emulator(int ordinal, moe_rt_device_t **out_device) {
  moe_rt_emulator_options_t options = {.schedule = (uint64_t)ordinal};
  return moe__rt_emulator_open(&options, out_device);
}

static const struct {
  const char *kind;
  moe_rt_status_t (*open)(int ordinal, moe_rt_device_t **out_device);
} device_kinds[] = {
    {"cuda", moe__rt_cuda_open},
    {"emu", open_emulator},
};

/* Whether `text` is nothing or ":N". */
static bool parse_ordinal(const char *text, int *out_ordinal) {
  *out_ordinal = 0;
  if (*text == '\0')
    return true;
  const char *digits = text + 1;
  size_t count = strspn(digits, "0123456789");
  if (*text != ':' || count < 1 || count > 9 || digits[count] != '\0')
    return false;
  *out_ordinal = atoi(digits);
  return true;
}

moe_rt_status_t moe_rt_device_open(const char *name, moe_rt_device_t **out_device) {
  if (!out_device)
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "moe_rt_device_open: out_device is NULL");
  *out_device = NULL;
  if (!name)
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "moe_rt_device_open: name is NULL");
  for (size_t i = 0; i < sizeof device_kinds / sizeof device_kinds[0]; i++) {
    size_t length = strlen(device_kinds[i].kind);
    int ordinal = 0;
    if (strncmp(name, device_kinds[i].kind, length) == 0 && parse_ordinal(name + length, &ordinal))
      return device_kinds[i].open(ordinal, out_device);
  }
  return moe__rt_fail(MOE_RT_INVALID_ARGUMENT,
                      "device '%.64s' is not known; there are: cuda, cuda:N, emu, emu:N", name);
}

/* ---- The process's own devices ---- */

enum { MAX_ORDINAL = 63 };

/* Never closed: whoever has one may use it until the process ends. */
static struct {
  pthread_mutex_t mutex;
  _Atomic(moe_rt_device_t *) cuda[MAX_ORDINAL + 1];
  _Atomic(moe_rt_device_t *) emulator;
} shared = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* Opens what `slot` is for, if no other thread has done so. */
static moe_rt_status_t open_shared(_Atomic(moe_rt_device_t *) *slot, const char *name) {
  moe_rt_status_t status = MOE_RT_OK;
  pthread_mutex_lock(&shared.mutex);
  if (!atomic_load(slot)) {
    moe_rt_device_t *device = NULL;
    status = moe_rt_device_open(name, &device);
    atomic_store(slot, device);
  }
  pthread_mutex_unlock(&shared.mutex);
  return status;
}

moe_rt_status_t moe_rt_device_shared(DLDevice place, moe_rt_device_t **out_device) {
  MOE__RT_TRY(check_not_null(out_device, __func__, "out_device"));
  *out_device = NULL;
  char name[32] = "emu";
  _Atomic(moe_rt_device_t *) *slot = &shared.emulator;
  if (place.device_type == kDLCUDA || place.device_type == kDLCUDAManaged) {
    if (place.device_id < 0 || place.device_id > MAX_ORDINAL) {
      return moe__rt_fail(MOE_RT_NO_DEVICE, "cuda:%d: the number must be 0 to %d", place.device_id,
                          MAX_ORDINAL);
    }
    slot = &shared.cuda[place.device_id];
    snprintf(name, sizeof name, "cuda:%d", place.device_id);
  } else if (place.device_type != kDLCPU && place.device_type != kDLCUDAHost) {
    return moe__rt_fail(MOE_RT_UNSUPPORTED,
                        "tensors on DLPack device (%d, %d); they must be on CUDA or on the CPU",
                        (int)place.device_type, place.device_id);
  }
  if (!atomic_load(slot))
    MOE__RT_TRY(open_shared(slot, name));
  *out_device = atomic_load(slot);
  return MOE_RT_OK;
}

static moe_rt_status_t check_emulator_options(const moe_rt_emulator_options_t *options,
                                              const char *function) {
  if (!options)
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "%s: options is NULL", function);
  if (options->threads < 0 || options->threads > MOE_MAX_EMULATOR_THREADS)
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "%s: threads is %d; it must be 0 to %d", function,
                        options->threads, MOE_MAX_EMULATOR_THREADS);
  return MOE_RT_OK;
}

moe_rt_status_t moe_rt_device_open_emulator(const moe_rt_emulator_options_t *options,
                                            moe_rt_device_t **out_device) {
  if (!out_device)
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "%s: out_device is NULL", __func__);
  *out_device = NULL;
  MOE__RT_TRY(check_emulator_options(options, __func__));
  return moe__rt_emulator_open(options, out_device);
}

moe_rt_status_t moe_rt_emulator_configure(const moe_rt_emulator_options_t *options) {
  MOE__RT_TRY(check_emulator_options(options, __func__));
  moe_rt_device_t *device;
  MOE__RT_TRY(moe_rt_device_shared((DLDevice){kDLCPU, 0}, &device));
  moe__rt_emulator_configure(device, options);
  return MOE_RT_OK;
}

void moe_rt_device_close(moe_rt_device_t *device) {
  if (device)
    device->backend->close(device);
}

moe_rt_status_t moe_rt_device_info(moe_rt_device_t *device, moe_rt_device_info_t *out_info) {
  if (!out_info)
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "moe_rt_device_info: out_info is NULL");
  *out_info = (moe_rt_device_info_t){0};
  if (!device)
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "moe_rt_device_info: device is NULL");
  *out_info = device->info;
  return MOE_RT_OK;
}

/* ---- Memory, streams, events ---- */

/* The checks that every function below begins with. */
static moe_rt_status_t check_device(moe_rt_device_t *device, const char *function) {
  if (!device)
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "%s: device is NULL", function);
  return moe__rt_device_check(device);
}

/* Puts the device's name before the message of a failed backend function. */
static moe_rt_status_t finish(const moe_rt_device_t *device, moe_rt_status_t status) {
  if (status == MOE_RT_OK || status == MOE_RT_DEVICE_LOST)
    return status;
  return moe__rt_fail_in(status, "%s", device->name);
}

moe_rt_status_t moe_rt_memory_allocate(moe_rt_device_t *device, size_t bytes, void **out_pointer) {
  MOE__RT_TRY(check_not_null(out_pointer, __func__, "out_pointer"));
  *out_pointer = NULL;
  MOE__RT_TRY(check_device(device, __func__));
  if (bytes == 0)
    return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "%s: bytes is 0", __func__);
  return finish(device, device->backend->allocate(device, bytes, out_pointer));
}

void moe_rt_memory_free(moe_rt_device_t *device, void *pointer) {
  if (device && pointer)
    device->backend->free(device, pointer);
}

/* Checks a transfer; *out_done when there is nothing to transfer. */
static moe_rt_status_t check_transfer(moe_rt_device_t *device, const char *function, const void *to,
                                      const void *from, size_t bytes, bool *out_done) {
  *out_done = bytes == 0;
  MOE__RT_TRY(check_device(device, function));
  if (bytes == 0)
    return MOE_RT_OK;
  MOE__RT_TRY(check_not_null(to, function, "to"));
  return check_not_null(from, function, "from");
}

moe_rt_status_t moe_rt_memory_to_device(moe_rt_device_t *device, void *to, const void *from,
                                        size_t bytes) {
  bool done = false;
  MOE__RT_TRY(check_transfer(device, __func__, to, from, bytes, &done));
  return done ? MOE_RT_OK : finish(device, device->backend->to_device(device, to, from, bytes));
}

moe_rt_status_t moe_rt_memory_from_device(moe_rt_device_t *device, void *to, const void *from,
                                          size_t bytes) {
  bool done = false;
  MOE__RT_TRY(check_transfer(device, __func__, to, from, bytes, &done));
  return done ? MOE_RT_OK : finish(device, device->backend->from_device(device, to, from, bytes));
}

moe_rt_status_t moe_rt_memory_fill(moe_rt_device_t *device, void *to, uint8_t byte, size_t bytes,
                                   void *stream) {
  bool done = false;
  MOE__RT_TRY(check_transfer(device, __func__, to, to, bytes, &done));
  return done ? MOE_RT_OK : finish(device, device->backend->fill(device, to, byte, bytes, stream));
}

moe_rt_status_t moe_rt_memory_copy(moe_rt_device_t *device, void *to, const void *from,
                                   size_t bytes, void *stream) {
  bool done = false;
  MOE__RT_TRY(check_transfer(device, __func__, to, from, bytes, &done));
  return done ? MOE_RT_OK : finish(device, device->backend->copy(device, to, from, bytes, stream));
}

moe_rt_status_t moe_rt_stream_create(moe_rt_device_t *device, void **out_stream) {
  MOE__RT_TRY(check_not_null(out_stream, __func__, "out_stream"));
  *out_stream = NULL;
  MOE__RT_TRY(check_device(device, __func__));
  return finish(device, device->backend->stream_create(device, out_stream));
}

void moe_rt_stream_destroy(moe_rt_device_t *device, void *stream) {
  if (device && stream)
    device->backend->stream_destroy(device, stream);
}

moe_rt_status_t moe_rt_stream_synchronize(moe_rt_device_t *device, void *stream) {
  MOE__RT_TRY(check_device(device, __func__));
  return finish(device, device->backend->stream_synchronize(device, stream));
}

moe_rt_status_t moe_rt_event_create(moe_rt_device_t *device, void **out_event) {
  MOE__RT_TRY(check_not_null(out_event, __func__, "out_event"));
  *out_event = NULL;
  MOE__RT_TRY(check_device(device, __func__));
  return finish(device, device->backend->event_create(device, out_event));
}

void moe_rt_event_destroy(moe_rt_device_t *device, void *event) {
  if (device && event)
    device->backend->event_destroy(device, event);
}

moe_rt_status_t moe_rt_event_record(moe_rt_device_t *device, void *event, void *stream) {
  MOE__RT_TRY(check_device(device, __func__));
  MOE__RT_TRY(check_not_null(event, __func__, "event"));
  return finish(device, device->backend->event_record(device, event, stream));
}

moe_rt_status_t moe_rt_event_elapsed(moe_rt_device_t *device, void *begin, void *end,
                                     float *out_milliseconds) {
  MOE__RT_TRY(check_not_null(out_milliseconds, __func__, "out_milliseconds"));
  *out_milliseconds = 0;
  MOE__RT_TRY(check_device(device, __func__));
  MOE__RT_TRY(check_not_null(begin, __func__, "begin"));
  MOE__RT_TRY(check_not_null(end, __func__, "end"));
  return finish(device, device->backend->event_elapsed(device, begin, end, out_milliseconds));
}
