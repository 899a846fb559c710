/* Bench.c - times a call on a device.
 *
 * Why it exists: see Bench.h. Before every timed launch and copy the L2 cache is filled with clean
 * lines of a buffer that neither uses: both then start from memory, and neither pays for writing
 * back what another left behind.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "tools/moe-run/Bench.h"

#include "tools/moe-run/Describe.h"
#include "tools/moe-run/Reference.h"
#include "tools/moe-run/Report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Reading four times the cache's size replaces what it held. All reads end in one small sink, the
 * only lines left dirty. The fills before them keep the device busy until the host has queued
 * everything: a timed launch never waits for the host. */
enum { FLUSH_L2_FACTOR = 4, SINK_BYTES = 2 << 20, FILLS = 4, WARM_UP = 10 };

typedef struct bench_t {
  const moe__target_t *target;
  moe__device_call_t call;
  double flops;    /* of its products */
  bool has_flops;  /* it has products */
  size_t bytes;    /* each argument read once, each result written once */
  void *from, *to; /* of the copy, bytes / 2 each: read and write together are as many */
  void *flush, *sink;
  size_t flush_bytes;
  void *begin, *end;    /* events */
  float *kernel, *copy; /* milliseconds of each run */
} bench_t;

static moe_rt_status_t flush_cache(bench_t *bench) {
  moe_rt_status_t status = MOE_RT_OK;
  for (int i = 0; i < FILLS && !status; i++)
    status = moe_rt_memory_fill(bench->target->device, bench->flush, 0x5A, bench->flush_bytes,
                                bench->call.stream);
  for (size_t at = 0; at < bench->flush_bytes && !status; at += SINK_BYTES)
    status = moe_rt_memory_copy(bench->target->device, bench->sink, (char *)bench->flush + at,
                                SINK_BYTES, bench->call.stream);
  return status;
}

/* Times the call's launch, or the copy. */
static moe_rt_status_t time_once(bench_t *bench, bool kernel, float *out_milliseconds) {
  moe_rt_device_t *device = bench->target->device;
  void *stream = bench->call.stream;
  moe_rt_status_t status = flush_cache(bench);
  if (!status)
    status = moe_rt_event_record(device, bench->begin, stream);
  if (!status)
    status = kernel ? moe_rt_call_launch(bench->call.prepared, stream)
                    : moe_rt_memory_copy(device, bench->to, bench->from, bench->bytes / 2, stream);
  if (!status)
    status = moe_rt_event_record(device, bench->end, stream);
  if (!status)
    status = moe_rt_event_elapsed(device, bench->begin, bench->end, out_milliseconds);
  return status;
}

/* The copy's source gets the largest argument's data, over and over: constant data would cost less
 * energy to move. */
static moe_rt_status_t fill_source(bench_t *bench) {
  const moe__call_t *host = bench->call.host;
  int largest = 0;
  for (int i = 1; i < host->function->argument_count; i++)
    if (host->arguments[i].bytes > host->arguments[largest].bytes)
      largest = i;
  size_t period = host->arguments[largest].bytes, size = bench->bytes / 2;
  moe_rt_status_t status = MOE_RT_OK;
  for (size_t at = 0; at < size && !status; at += period)
    status = moe_rt_memory_copy(bench->target->device, (char *)bench->from + at,
                                moe__device_call_data(&bench->call, largest),
                                size - at < period ? size - at : period, bench->call.stream);
  return status;
}

static moe_rt_status_t set_up(bench_t *bench) {
  moe_rt_device_t *device = bench->target->device;
  size_t wanted = (size_t)bench->target->info.l2_bytes * FLUSH_L2_FACTOR;
  bench->flush_bytes = (wanted / SINK_BYTES + 1) * SINK_BYTES;
  moe_rt_status_t status = moe_rt_memory_allocate(device, bench->flush_bytes, &bench->flush);
  if (!status)
    status = moe_rt_memory_allocate(device, SINK_BYTES, &bench->sink);
  if (!status)
    status = moe_rt_memory_allocate(device, bench->bytes / 2, &bench->from);
  if (!status)
    status = moe_rt_memory_allocate(device, bench->bytes / 2, &bench->to);
  if (!status)
    status = moe_rt_event_create(device, &bench->begin);
  if (!status)
    status = moe_rt_event_create(device, &bench->end);
  if (!status)
    status = fill_source(bench);
  return status;
}

static moe_rt_status_t measure(bench_t *bench, int repeat) {
  moe_rt_status_t status = MOE_RT_OK;
  moe__progress_begin("timing");
  for (int i = -WARM_UP; i < repeat && !status; i++) {
    int slot = i < 0 ? 0 : i;
    status = time_once(bench, true, &bench->kernel[slot]);
    if (!status)
      status = time_once(bench, false, &bench->copy[slot]);
    moe__progress_update((double)(i + WARM_UP) / (repeat + WARM_UP));
  }
  moe__progress_end();
  return status;
}

static void tear_down(bench_t *bench) {
  moe_rt_device_t *device = bench->target->device;
  void *memory[] = {bench->flush, bench->sink, bench->from, bench->to};
  void *events[] = {bench->begin, bench->end};
  for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
    if (memory[i])
      moe_rt_memory_free(device, memory[i]);
  for (size_t i = 0; i < sizeof events / sizeof *events; i++)
    if (events[i])
      moe_rt_event_destroy(device, events[i]);
  moe__device_call_free(&bench->call);
  free(bench->kernel);
  free(bench->copy);
}

static int by_value(const void *a, const void *b) {
  float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

/* Sorts the times and gives median and least in microseconds. */
static void summarize(float *milliseconds, int count, double *out_median, double *out_least) {
  qsort(milliseconds, (size_t)count, sizeof *milliseconds, by_value);
  double upper = milliseconds[count / 2], lower = milliseconds[(count - 1) / 2];
  *out_median = (upper + lower) / 2 * 1e3;
  *out_least = milliseconds[0] * 1e3;
}

static void report(const bench_t *bench, int repeat, bool json, json_t *cases) {
  double median, least, copy_median, copy_least;
  summarize(bench->kernel, repeat, &median, &least);
  summarize(bench->copy, repeat, &copy_median, &copy_least);
  double gigabytes = (double)bench->bytes / 1e9;
  double rate = gigabytes / (median * 1e-6), copy_rate = gigabytes / (copy_median * 1e-6);
  double teraflops = bench->flops / (median * 1e-6) / 1e12;
  if (!json) {
    char *arguments = moe__describe_arguments(bench->call.host);
    if (json_array_size(cases) == 0)
      printf("%s on %s: median of %d calls; the copy moves as many bytes\n"
             "%-24s %12s %10s %10s %8s %10s %8s %8s%s\n",
             bench->call.host->function->name, bench->target->words, repeat, "arguments", "bytes",
             "median us", "least us", "GB/s", "copy us", "GB/s", "fraction",
             bench->has_flops ? "  TFLOP/s" : "");
    printf("%-24s %12zu %10.2f %10.2f %8.0f %10.2f %8.0f %8.3f", arguments ? arguments : "",
           bench->bytes, median, least, rate, copy_median, copy_rate, copy_median / median);
    if (bench->has_flops)
      printf(" %8.1f", teraflops);
    putchar('\n');
    fflush(stdout);
    free(arguments);
  }
  json_t *object = json_pack(
      "{s:o, s:I, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "arguments",
      moe__describe_shapes(bench->call.host), "bytes", (json_int_t)bench->bytes, "calls", repeat,
      "median_us", median, "least_us", least, "gb_per_s", rate, "copy_median_us", copy_median,
      "copy_least_us", copy_least, "copy_gb_per_s", copy_rate, "fraction", copy_median / median);
  if (bench->has_flops) {
    json_object_set_new(object, "flops", json_integer((json_int_t)bench->flops));
    json_object_set_new(object, "tflops_per_s", json_real(teraflops));
  }
  json_array_append_new(cases, object);
}

int moe__bench(const moe__target_t *target, const moe__call_t *call, int repeat, bool json,
               json_t *cases) {
  bench_t bench = {.target = target};
  for (int i = 0; i < call->function->argument_count; i++)
    bench.bytes += call->arguments[i].bytes;
  for (int i = 0; i < call->function->result_count; i++)
    bench.bytes += call->results[i].bytes;
  if (call->function->argument_count == 0 || bench.bytes < 2)
    return moe__input_error("function '%s': there is nothing to time in a call that moves no bytes",
                            call->function->name);
  bench.kernel = calloc((size_t)repeat, sizeof *bench.kernel);
  bench.copy = calloc((size_t)repeat, sizeof *bench.copy);
  int rc = bench.kernel && bench.copy ? MOE__OK : moe__input_error("out of memory");
  if (!rc)
    rc = moe__reference_flops(call, &bench.has_flops, &bench.flops);
  if (!rc)
    rc = moe__device_call_make(target, call, &bench.call);
  if (!rc) {
    moe_rt_status_t status = set_up(&bench);
    if (!status)
      status = measure(&bench, repeat);
    if (status)
      rc = moe__runtime_error(status);
  }
  if (!rc)
    report(&bench, repeat, json, cases);
  tear_down(&bench);
  return rc;
}
