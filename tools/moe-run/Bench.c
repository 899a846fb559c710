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

/* A timed function at work. */
typedef struct lane_t {
  moe_rt_call_t *prepared;
  float *milliseconds; /* of each launch; owned */
} lane_t;

typedef struct bench_t {
  const moe__run_target_t *target;
  moe__run_device_call_t call;
  lane_t *lanes; /* of the functions, and at the end of the copy, which has nothing prepared */
  int lane_count;
  size_t bytes;
  void *from, *to; /* of the copy, bytes / 2 each: read and write together are as many */
  void *flush, *sink;
  size_t flush_bytes;
  void *begin, *end; /* events */
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

/* Times a launch, or the copy. */
static moe_rt_status_t time_once(bench_t *bench, lane_t *lane, int slot) {
  moe_rt_device_t *device = bench->target->device;
  void *stream = bench->call.stream;
  moe_rt_status_t status = flush_cache(bench);
  if (!status)
    status = moe_rt_event_record(device, bench->begin, stream);
  if (!status)
    status = lane->prepared
                 ? moe_rt_call_launch(lane->prepared, stream)
                 : moe_rt_memory_copy(device, bench->to, bench->from, bench->bytes / 2, stream);
  if (!status)
    status = moe_rt_event_record(device, bench->end, stream);
  if (!status)
    status = moe_rt_event_elapsed(device, bench->begin, bench->end, &lane->milliseconds[slot]);
  return status;
}

/* The copy's source gets the largest argument's data, over and over: constant data would cost less
 * energy to move. */
static moe_rt_status_t fill_source(bench_t *bench) {
  const moe__run_call_t *host = bench->call.host;
  int largest = 0;
  for (int i = 1; i < host->function->argument_count; i++)
    if (host->arguments[i].bytes > host->arguments[largest].bytes)
      largest = i;
  size_t period = host->arguments[largest].bytes, size = bench->bytes / 2;
  moe_rt_status_t status = MOE_RT_OK;
  for (size_t at = 0; at < size && !status; at += period)
    status = moe_rt_memory_copy(bench->target->device, (char *)bench->from + at,
                                moe__run_device_call_data(&bench->call, largest),
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
  moe__run_progress_begin("timing");
  for (int i = -WARM_UP; i < repeat && !status; i++) {
    for (int lane = 0; lane < bench->lane_count && !status; lane++)
      status = time_once(bench, &bench->lanes[lane], i < 0 ? 0 : i);
    moe__run_progress_update((double)(i + WARM_UP) / (repeat + WARM_UP));
  }
  moe__run_progress_end();
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
  for (int i = 0; bench->lanes && i < bench->lane_count; i++) {
    if (bench->lanes[i].prepared != bench->call.prepared)
      moe_rt_call_destroy(bench->lanes[i].prepared);
    free(bench->lanes[i].milliseconds);
  }
  free(bench->lanes);
  moe__run_device_call_free(&bench->call);
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

/* Allocates the lanes, and prepares the functions of those that are not the call itself. */
static int make_lanes(bench_t *bench, const moe__run_timed_t *timed, int count, int repeat) {
  bench->lane_count = count + 1;
  bench->lanes = calloc((size_t)bench->lane_count, sizeof *bench->lanes);
  bool enough = bench->lanes != NULL;
  for (int i = 0; enough && i < bench->lane_count; i++) {
    bench->lanes[i].milliseconds = calloc((size_t)repeat, sizeof *bench->lanes[i].milliseconds);
    enough = bench->lanes[i].milliseconds != NULL;
  }
  if (!enough)
    return moe__run_input_error("out of memory");
  moe_rt_status_t status = MOE_RT_OK;
  for (int i = 0; i < count && !status; i++) {
    if (timed[i].program == bench->target->program)
      bench->lanes[i].prepared = bench->call.prepared;
    else
      status = moe__run_device_call_prepare(&bench->call, timed[i].program, timed[i].function,
                                            &bench->lanes[i].prepared);
  }
  return status ? moe__run_runtime_error(status) : MOE__RUN_OK;
}

static int count_bytes(const moe__run_call_t *call, size_t *out_bytes) {
  size_t of_arguments = 0;
  for (int i = 0; i < call->function->argument_count; i++)
    of_arguments += call->arguments[i].bytes;
  *out_bytes = of_arguments;
  for (int i = 0; i < call->function->result_count; i++)
    *out_bytes += call->results[i].bytes;
  if (of_arguments && *out_bytes >= 2)
    return MOE__RUN_OK;
  return moe__run_input_error("function '%s': there is nothing to time in a call that reads no "
                              "bytes",
                              call->function->name);
}

int moe__run_bench_time(const moe__run_target_t *target, const moe__run_call_t *call, int repeat,
                        moe__run_timed_t *timed, int count, moe__run_timing_t *out_timing) {
  *out_timing = (moe__run_timing_t){0};
  bench_t bench = {.target = target};
  int rc = count_bytes(call, &bench.bytes);
  if (!rc)
    rc = moe__run_reference_flops(call, &out_timing->has_flops, &out_timing->flops);
  if (!rc)
    rc = moe__run_device_call_make(target, call, &bench.call);
  if (!rc)
    rc = make_lanes(&bench, timed, count, repeat);
  if (!rc) {
    moe_rt_status_t status = set_up(&bench);
    if (!status)
      status = measure(&bench, repeat);
    if (status)
      rc = moe__run_runtime_error(status);
  }
  out_timing->bytes = bench.bytes;
  for (int i = 0; i < count && !rc; i++)
    summarize(bench.lanes[i].milliseconds, repeat, &timed[i].median, &timed[i].least);
  if (!rc)
    summarize(bench.lanes[count].milliseconds, repeat, &out_timing->copy_median,
              &out_timing->copy_least);
  tear_down(&bench);
  return rc;
}

static void report(const moe__run_target_t *target, const moe__run_call_t *call,
                   const moe__run_timed_t *timed, const moe__run_timing_t *timing, int repeat,
                   bool json, json_t *cases) {
  double gigabytes = (double)timing->bytes / 1e9;
  double rate = gigabytes / (timed->median * 1e-6);
  double copy_rate = gigabytes / (timing->copy_median * 1e-6);
  double fraction = timing->copy_median / timed->median;
  double teraflops = timing->flops / (timed->median * 1e-6) / 1e12;
  if (!json) {
    char *arguments = moe__run_describe_arguments(call);
    if (json_array_size(cases) == 0)
      printf("%s on %s: median of %d calls; the copy moves as many bytes\n"
             "%-24s %12s %10s %10s %8s %10s %8s %8s%s\n",
             call->function->name, target->words, repeat, "arguments", "bytes", "median us",
             "least us", "GB/s", "copy us", "GB/s", "fraction",
             timing->has_flops ? "  TFLOP/s" : "");
    printf("%-24s %12zu %10.2f %10.2f %8.0f %10.2f %8.0f %8.3f", arguments ? arguments : "",
           timing->bytes, timed->median, timed->least, rate, timing->copy_median, copy_rate,
           fraction);
    if (timing->has_flops)
      printf(" %8.1f", teraflops);
    putchar('\n');
    fflush(stdout);
    free(arguments);
  }
  json_t *object =
      json_pack("{s:o, s:I, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "arguments",
                moe__run_describe_shapes(call), "bytes", (json_int_t)timing->bytes, "calls", repeat,
                "median_us", timed->median, "least_us", timed->least, "gb_per_s", rate,
                "copy_median_us", timing->copy_median, "copy_least_us", timing->copy_least,
                "copy_gb_per_s", copy_rate, "fraction", fraction);
  if (timing->has_flops) {
    json_object_set_new(object, "flops", json_integer((json_int_t)timing->flops));
    json_object_set_new(object, "tflops_per_s", json_real(teraflops));
  }
  json_array_append_new(cases, object);
}

int moe__run_bench(const moe__run_target_t *target, const moe__run_call_t *call, int repeat,
                   bool json, json_t *cases) {
  moe__run_timed_t timed = {.program = target->program, .function = call->function};
  moe__run_timing_t timing;
  int rc = moe__run_bench_time(target, call, repeat, &timed, 1, &timing);
  if (!rc)
    report(target, call, &timed, &timing, repeat, json, cases);
  return rc;
}
