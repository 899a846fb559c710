/* Device.c - where a call runs, and its tensors there.
 *
 * Why it exists: see Device.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "tools/moe-run/Device.h"

#include "tools/moe-run/Reference.h"
#include "tools/moe-run/Report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How fast the emulator is on one thread: elements and multiplications a second, as measured in
 * docs/performance/emulator.md, and what is worth a warning. */
static const double EMULATED_ELEMENTS = 17e6, EMULATED_FLOPS = 480e6, LONG_SECONDS = 5;

/* A page: more than a misplaced vector store reaches, and it keeps the tensor's alignment. */
enum { GUARD = 4096 };

static int use_reference(const moe__run_options_t *options, moe__run_target_t *target) {
  snprintf(target->name, sizeof target->name, "reference");
  snprintf(target->words, sizeof target->words, "the C reference");
  moe_rt_status_t status = moe_rt_program_read(options->bundle, &target->program);
  return status ? moe__run_runtime_error(status) : MOE__RUN_OK;
}

/* Opens the emulator or, by its name, a CUDA device. */
static moe_rt_status_t open_device(const moe__run_options_t *options, const char *name,
                                   moe_rt_device_t **out_device) {
  if (strcmp(name, "emu"))
    return moe_rt_device_open(name, out_device);
  moe_rt_emulator_options_t emulator = {.schedule = options->schedule,
                                        .threads = options->threads,
                                        .step_limit = options->step_limit};
  return moe_rt_device_open_emulator(&emulator, out_device);
}

/* Opens a device and loads the bundle there. *out_refused: this device cannot, another may. */
static int load(const moe__run_options_t *options, const char *name, moe__run_target_t *target,
                bool *out_refused) {
  *out_refused = false;
  moe_rt_status_t status = open_device(options, name, &target->device);
  if (status) {
    *out_refused = true;
    return MOE__RUN_OK;
  }
  status = moe_rt_device_info(target->device, &target->info);
  if (!status)
    status = moe_rt_program_load(target->device, options->bundle, &target->program);
  if (status == MOE_RT_UNSUPPORTED) {
    moe_rt_device_close(target->device);
    target->device = NULL;
    *out_refused = true;
    return MOE__RUN_OK;
  }
  if (status)
    return moe__run_runtime_error(status);
  target->is_emulator = !strcmp(name, "emu");
  target->threads = options->threads;
  if (target->is_emulator)
    snprintf(target->name, sizeof target->name, "emu");
  else
    snprintf(target->name, sizeof target->name, "cuda:%d", target->info.ordinal);
  snprintf(target->words, sizeof target->words, "%s (%s, %s)", target->name, target->info.name,
           moe_rt_program_code(target->program));
  return MOE__RUN_OK;
}

int moe__run_target_open(const moe__run_options_t *options, moe__run_target_t *out_target) {
  *out_target = (moe__run_target_t){0};
  if (!strcmp(options->device, "reference"))
    return use_reference(options, out_target);
  bool is_auto = !strcmp(options->device, "auto"), refused;
  int rc = load(options, is_auto ? "cuda" : options->device, out_target, &refused);
  if (!refused)
    return rc;
  if (options->mode == MOE__RUN_BENCH || options->mode == MOE__RUN_TUNE)
    return moe__run_input_error("--%s needs a CUDA device: %s",
                                options->mode == MOE__RUN_BENCH ? "bench" : "tune",
                                moe_rt_last_message());
  if (!is_auto)
    return moe__run_input_error("%s", moe_rt_last_message());
  moe__run_note("no CUDA device (%s); running the emulator", moe_rt_last_message());
  rc = load(options, "emu", out_target, &refused);
  out_target->is_fallback = true;
  return refused ? moe__run_input_error("%s", moe_rt_last_message()) : rc;
}

int moe__run_find_function(const moe__run_options_t *options, const moe_rt_program_t *program,
                           const char *path, const moe_rt_function_info_t **out) {
  moe_rt_status_t status = moe_rt_program_find(program, options->function, out);
  if (status == MOE_RT_NOT_FOUND)
    return moe__run_input_error("%s%s%s%s", path ? path : "", path ? ": " : "",
                                moe_rt_last_message(),
                                options->function ? "" : " (--function=NAME)");
  return status ? moe__run_runtime_error(status) : MOE__RUN_OK;
}

void moe__run_target_close(moe__run_target_t *target) {
  moe_rt_program_destroy(target->program);
  moe_rt_device_close(target->device);
}

static const moe__run_tensor_t *tensor_of(const moe__run_call_t *host, int index) {
  int arguments = host->function->argument_count;
  return index < arguments ? &host->arguments[index] : &host->results[index - arguments];
}

static int tensor_count(const moe__run_call_t *host) {
  return host->function->argument_count + host->function->result_count;
}

moe_rt_status_t moe__run_device_call_prepare(const moe__run_device_call_t *call,
                                             const moe_rt_program_t *program,
                                             const moe_rt_function_info_t *function,
                                             moe_rt_call_t **out_prepared) {
  *out_prepared = NULL;
  int count = tensor_count(call->host);
  DLTensor *tensors = calloc((size_t)count + 1, sizeof *tensors);
  const DLTensor **pointers = calloc((size_t)count + 1, sizeof *pointers);
  moe_rt_status_t status = MOE_RT_OUT_OF_MEMORY;
  for (int i = 0; tensors && pointers && i < count; i++) {
    const moe__run_tensor_t *tensor = tensor_of(call->host, i);
    tensors[i] = (DLTensor){
        .data = moe__run_device_call_data(call, i),
        .device = {call->target->is_emulator ? kDLCPU : kDLCUDA, call->target->info.ordinal},
        .ndim = tensor->info->rank,
        .dtype = {tensor->dtype->dlpack_code, (uint8_t)tensor->dtype->bits, 1},
        .shape = (int64_t *)tensor->shape,
        .strides = (int64_t *)tensor->strides,
    };
    pointers[i] = &tensors[i];
  }
  if (tensors && pointers)
    status = moe_rt_call_prepare(program, function, pointers, count, out_prepared);
  free(pointers);
  free(tensors);
  return status;
}

/* How long the emulator will take, in seconds, roughly. */
static double estimate(const moe__run_call_t *host, int threads) {
  double seconds = 0, flops = 0;
  bool has_flops = false;
  for (int i = 0; i < tensor_count(host); i++)
    seconds += (double)tensor_of(host, i)->elements / 2 / EMULATED_ELEMENTS;
  if (!moe__run_reference_flops(host, &has_flops, &flops) && has_flops)
    seconds += flops / EMULATED_FLOPS;
  return seconds / threads;
}

int moe__run_device_call_make(const moe__run_target_t *target, const moe__run_call_t *host,
                              moe__run_device_call_t *out_call) {
  int count = tensor_count(host), arguments = host->function->argument_count;
  *out_call = (moe__run_device_call_t){.target = target, .host = host};
  if (target->is_emulator)
    out_call->expected = estimate(host, target->threads);
  if (target->is_fallback && out_call->expected > LONG_SECONDS)
    moe__run_note("the emulator will take about %.0f s for each run", out_call->expected);
  out_call->bases = calloc((size_t)count + 1, sizeof *out_call->bases);
  if (!out_call->bases)
    return moe__run_input_error("out of memory");
  moe_rt_status_t status = moe_rt_stream_create(target->device, &out_call->stream);
  for (int i = 0; i < count && !status; i++) {
    const moe__run_tensor_t *tensor = tensor_of(host, i);
    status = moe_rt_memory_allocate(target->device, tensor->bytes + (size_t)2 * GUARD,
                                    &out_call->bases[i]);
    if (!status && i < arguments && tensor->bytes)
      status = moe_rt_memory_to_device(target->device, moe__run_device_call_data(out_call, i),
                                       tensor->data, tensor->bytes);
  }
  if (!status)
    status = moe__run_device_call_prepare(out_call, target->program, host->function,
                                          &out_call->prepared);
  return status ? moe__run_runtime_error(status) : MOE__RUN_OK;
}

void moe__run_device_call_free(moe__run_device_call_t *call) {
  if (!call->target)
    return;
  moe_rt_device_t *device = call->target->device;
  moe_rt_call_destroy(call->prepared);
  for (int i = 0; call->bases && i < tensor_count(call->host); i++)
    if (call->bases[i])
      moe_rt_memory_free(device, call->bases[i]);
  if (call->stream)
    moe_rt_stream_destroy(device, call->stream);
  free(call->bases);
  *call = (moe__run_device_call_t){0};
}

int moe__run_device_call_run(moe__run_device_call_t *call, uint8_t byte) {
  moe_rt_device_t *device = call->target->device;
  moe_rt_status_t status = MOE_RT_OK;
  call->guard = byte;
  for (int i = call->host->function->argument_count; i < tensor_count(call->host) && !status; i++)
    status = moe_rt_memory_fill(device, call->bases[i], byte,
                                tensor_of(call->host, i)->bytes + (size_t)2 * GUARD, call->stream);
  if (!status && call->target->is_emulator)
    moe__run_clock_begin("emulating", call->expected);
  if (!status)
    status = moe_rt_call_launch(call->prepared, call->stream);
  moe__run_clock_end();
  uint32_t reports = 0;
  if (!status)
    status = moe_rt_call_status(call->prepared, call->stream, &reports);
  call->reports |= reports;
  return status ? moe__run_runtime_error(status) : MOE__RUN_OK;
}

int moe__run_device_call_check_zeroed(const moe__run_device_call_t *call, int *out_count) {
  const char *name = NULL;
  moe_rt_status_t status = moe_rt_call_check_zeroed(call->prepared, call->stream, &name, out_count);
  if (status)
    return moe__run_runtime_error(status);
  if (!name)
    return MOE__RUN_OK;
  return moe__run_input_error(
      "'%s' starts as zero, and a call must leave it zero: this one does not "
      "(ran on %s)",
      name, call->target->words);
}

/* What is done to a number of an argument: nothing, or its exponent goes up or down by two. */
typedef enum change_t { AS_IT_IS, GREATER, LESS } change_t;

/* The changed number's bits. What is no number, or would be none, stays. */
static uint32_t changed(uint32_t bits, int width, int mantissa_bits, change_t change) {
  const uint32_t sign = 1u << (width - 1), step = 2u << mantissa_bits;
  const uint32_t magnitude = bits & (sign - 1), infinity = sign - (1u << mantissa_bits);
  if (magnitude == 0 || magnitude >= infinity)
    return bits;
  if (change == GREATER)
    return magnitude + step < infinity ? bits + step : bits;
  return magnitude > step ? bits - step : bits;
}

static int mantissa_bits_of(const char *dtype) {
  switch ((moe_ref_dtype_t)moe_ref_dtype_from_name(dtype)) {
  case MOE_REF_F32:
    return 23;
  case MOE_REF_F16:
    return 10;
  case MOE_REF_BF16:
    return 7;
  case MOE_REF_E4M3:
    return 3;
  case MOE_REF_E5M2:
    return 2;
  default:
    return 0;
  }
}

/* Copies an argument to the device: as it is, or its elements changed and in reverse order. */
static moe_rt_status_t upload(const moe__run_device_call_t *call, int index, change_t change) {
  const moe__run_tensor_t *tensor = tensor_of(call->host, index);
  size_t element = (size_t)tensor->dtype->bits / 8;
  moe_rt_device_t *device = call->target->device;
  void *to = moe__run_device_call_data(call, index);
  /* What says where groups end is not data. */
  if (tensor->bytes == 0 || element == 0 || !strncmp(tensor->info->dtype, "i", 1))
    return MOE_RT_OK;
  if (change == AS_IT_IS)
    return moe_rt_memory_to_device(device, to, tensor->data, tensor->bytes);
  uint8_t *copy = malloc(tensor->bytes);
  if (!copy)
    return MOE_RT_OUT_OF_MEMORY;
  const int mantissa_bits = mantissa_bits_of(tensor->info->dtype);
  for (size_t at = 0; at < tensor->bytes; at += element) {
    uint32_t bits = 0;
    memcpy(&bits, tensor->data + (tensor->bytes - element - at), element);
    bits = changed(bits, tensor->dtype->bits, mantissa_bits, change);
    memcpy(copy + at, &bits, element);
  }
  moe_rt_status_t status = moe_rt_memory_to_device(device, to, copy, tensor->bytes);
  free(copy);
  return status;
}

int moe__run_device_call_disturb(moe__run_device_call_t *call) {
  static const change_t changes[] = {GREATER, LESS, AS_IT_IS};
  int arguments = call->host->function->argument_count, rc = MOE__RUN_OK;
  moe_rt_status_t status = MOE_RT_OK;
  for (size_t turn = 0; turn < sizeof changes / sizeof *changes && !rc; turn++) {
    for (int i = 0; i < arguments && !status; i++)
      status = upload(call, i, changes[turn]);
    if (status)
      return moe__run_runtime_error(status);
    if (changes[turn] != AS_IT_IS)
      rc = moe__run_device_call_run(call, call->guard);
  }
  return rc;
}

int moe__run_device_call_verify(const moe__run_device_call_t *call, uint32_t expected) {
  static const struct {
    uint32_t bit;
    const char *text;
  } reports[] = {
#define MOE__RUN_REPORT(constant, number, text) {number, text},
      MOE_RT_REPORTS(MOE__RUN_REPORT)
#undef MOE__RUN_REPORT
  };
  uint32_t unknown = call->reports;
  int rc = MOE__RUN_OK;
  for (size_t i = 0; i < sizeof reports / sizeof reports[0]; i++) {
    const bool is_found = call->reports & reports[i].bit, is_expected = expected & reports[i].bit;
    if (is_found && !is_expected)
      rc = moe__run_input_error("function '%s': %s (found on %s)", call->host->function->name,
                                reports[i].text, call->target->words);
    if (is_expected && !is_found)
      rc = moe__run_input_error("function '%s' does not report that %s (ran on %s)",
                                call->host->function->name, reports[i].text, call->target->words);
    unknown &= ~reports[i].bit;
  }
  if (unknown)
    rc = moe__run_bug_error("function '%s': the kernels report 0x%" PRIx32
                            ", which means nothing (ran on %s)",
                            call->host->function->name, unknown, call->target->words);
  return rc;
}

void *moe__run_device_call_data(const moe__run_device_call_t *call, int index) {
  return (uint8_t *)call->bases[index] + GUARD;
}

int moe__run_device_call_fetch(const moe__run_device_call_t *call, int index, void *to,
                               bool *out_guards_intact) {
  int number = call->host->function->argument_count + index;
  size_t bytes = tensor_of(call->host, number)->bytes;
  moe_rt_device_t *device = call->target->device;
  uint8_t guards[2 * GUARD];
  moe_rt_status_t status = moe_rt_memory_from_device(device, guards, call->bases[number], GUARD);
  if (!status)
    status = moe_rt_memory_from_device(
        device, guards + GUARD, (uint8_t *)moe__run_device_call_data(call, number) + bytes, GUARD);
  if (!status && bytes)
    status = moe_rt_memory_from_device(device, to, moe__run_device_call_data(call, number), bytes);
  if (status)
    return moe__run_runtime_error(status);
  *out_guards_intact = true;
  for (size_t i = 0; i < sizeof guards; i++)
    *out_guards_intact = *out_guards_intact && guards[i] == call->guard;
  return MOE__RUN_OK;
}
