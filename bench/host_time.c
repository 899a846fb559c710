/* host_time.c - how long a call keeps the host, and how much of that is the driver's.
 *
 * Usage: host_time BUNDLE SHAPE... [--device=cuda:0] [--function=NAME] [--rounds=N]
 *
 * SHAPE, such as 128x512, is that of an argument, in order; all are zero, so that offsets make
 * empty groups and kernels are short. Prints JSON, in microseconds of host time for one call of the
 * function:
 *   driver       what the driver is asked for, with ready parameters, and nothing else: a memset
 *                where temporaries start as zero, and cuLaunchKernelEx for each of the kernels
 *   launch       moe_rt_call_launch
 *   run          moe_rt_call_run with shapes and addresses that it remembers
 *   run_moved    moe_rt_call_run with addresses that no call had before: encodes all tensor maps
 *   run_pool     moe_rt_call_run with a workspace of the driver's pool
 *   plan         what a shape that was not seen before costs on top
 *   results      moe_rt_call_results
 *   prepare      moe_rt_call_prepare and moe_rt_call_destroy
 * Each is the median of rounds of 100 calls; the device has nothing left to do before each round.
 *
 * With LD_LIBRARY_PATH=build/test/Runtime/fake_cuda the driver is the tests' own, which returns at
 * once: what is left is the runtime's share.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Runtime/CudaDriver.h"
#include "lib/Runtime/Plan.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CALLS = 100, MAX_TENSORS = 32, STEPS = 1 << 14, STEP = 256 };

typedef struct options_t {
  const char *bundle, *device, *function;
  const char *shapes[MAX_TENSORS];
  int shape_count, rounds;
} options_t;

typedef struct bench_t {
  moe_rt_device_t *device;
  moe_rt_program_t *program;
  const moe_rt_function_info_t *function;
  int argument_count, tensor_count;
  int64_t shapes[MAX_TENSORS][MOE_RT_MAX_RANK];
  DLTensor tensors[MAX_TENSORS];
  const DLTensor *pointers[MAX_TENSORS];
  moe_rt_result_t results[MAX_TENSORS];
  moe_rt_workspace_t workspace;
  moe_rt_call_t *call;
  void *stream;
  const moe__rt_cuda_driver_t *driver;
  moe__rt_plan_t *plan;
  moe__rt_ready_launch_t *launches;
  int step;
} bench_t;

static void require(bool condition, const char *what) {
  if (condition)
    return;
  fprintf(stderr, "host_time: %s\n", what);
  exit(1);
}

static void check(moe_rt_status_t status) {
  require(status == MOE_RT_OK, moe_rt_last_message());
}

/* ---- Setting up ---- */

static DLDataType dlpack_type(const char *name) {
  static const struct {
    const char *name;
    DLDataType type;
  } types[] = {
#define MOE_DTYPE(symbol, name, bits, code, safetensors) {name, {code, bits, 1}},
#include "moe/dtypes.def"
  };
  for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
    if (strcmp(types[i].name, name) == 0)
      return types[i].type;
  }
  require(false, "an element type that is not known");
  return (DLDataType){0};
}

static void parse_shape(const char *text, int rank, int64_t *out) {
  char *end = NULL;
  for (int i = 0; i < rank; i++, text = end + 1) {
    out[i] = strtoll(text, &end, 10);
    require(end != text && *end == (i + 1 < rank ? 'x' : '\0'),
            "a SHAPE that does not fit its argument");
  }
}

/* Memory of a tensor, with room to move it. */
static void place(bench_t *bench, DLTensor *tensor) {
  size_t bytes = (size_t)tensor->dtype.bits / 8;
  for (int i = 0; i < tensor->ndim; i++)
    bytes *= (size_t)tensor->shape[i];
  bytes += (size_t)STEPS * STEP;
  check(moe_rt_memory_allocate(bench->device, bytes, &tensor->data));
  check(moe_rt_memory_fill(bench->device, tensor->data, 0, bytes, NULL));
}

static void make_arguments(bench_t *bench, const options_t *options, DLDevice place_of) {
  require(options->shape_count == bench->argument_count, "give a SHAPE for each argument");
  for (int t = 0; t < bench->argument_count; t++) {
    const moe_rt_tensor_info_t *info = &bench->function->arguments[t];
    static int64_t strides[MAX_TENSORS][MOE_RT_MAX_RANK];
    parse_shape(options->shapes[t], info->rank, bench->shapes[t]);
    bench->tensors[t] = (DLTensor){.device = place_of,
                                   .ndim = info->rank,
                                   .dtype = dlpack_type(info->dtype),
                                   .shape = bench->shapes[t],
                                   .strides = strides[t]};
    int64_t step = 1;
    for (int i = info->rank - 1; i >= 0; i--) {
      strides[t][info->order[i]] = step;
      step *= bench->shapes[t][info->order[i]];
    }
    bench->pointers[t] = &bench->tensors[t];
  }
}

static void set_up(bench_t *bench, const options_t *options) {
  check(moe_rt_device_open(options->device, &bench->device));
  check(moe_rt_program_load(bench->device, options->bundle, &bench->program));
  check(moe_rt_program_find(bench->program, options->function, &bench->function));
  check(moe_rt_stream_create(bench->device, &bench->stream));
  bench->argument_count = bench->function->argument_count;
  bench->tensor_count = bench->argument_count + bench->function->result_count;
  require(bench->tensor_count <= MAX_TENSORS, "too many tensors");
  make_arguments(bench, options, (DLDevice){kDLCUDA, bench->device->info.ordinal});
  check(moe_rt_call_results(bench->program, bench->function, bench->pointers, bench->argument_count,
                            bench->results, &bench->workspace.bytes));
  for (int t = bench->argument_count; t < bench->tensor_count; t++) {
    bench->tensors[t] = bench->results[t - bench->argument_count].tensor;
    bench->pointers[t] = &bench->tensors[t];
  }
  for (int t = 0; t < bench->tensor_count; t++)
    place(bench, &bench->tensors[t]);
  check(moe_rt_memory_allocate(bench->device, bench->workspace.bytes + 1, &bench->workspace.data));
  check(moe_rt_stream_synchronize(bench->device, NULL));
  check(moe_rt_call_prepare(bench->program, bench->function, bench->pointers, bench->tensor_count,
                            &bench->call));
}

/* A frame of our own, for the driver alone. */
static void make_frame(bench_t *bench) {
  const moe__rt_function_t *function = moe__rt_program_function(bench->program, bench->function);
  moe__rt_places_t places = {.workspace = (uint64_t)(uintptr_t)bench->workspace.data,
                             .status = moe__rt_program_status_word(bench->program, function)};
  check(moe__rt_cuda_driver_open(&bench->driver));
  /* Current, as with a framework that uses the CUDA runtime. */
  moe__rt_cu_device_t device = 0;
  moe__rt_cu_context_t context = NULL;
  require(bench->driver->cuDeviceGet(&device, bench->device->info.ordinal) == 0 &&
              bench->driver->cuDevicePrimaryCtxRetain(&context, device) == 0 &&
              bench->driver->cuCtxSetCurrent(context) == 0,
          "no context");
  check(moe__rt_plan_make(bench->program, function, bench->pointers, &bench->plan));
  check(moe__rt_tensors_check_addresses(function, bench->pointers, bench->plan->bytes,
                                        places.addresses));
  void *memory = aligned_alloc(128, moe__rt_frame_bytes(bench->plan));
  require(memory != NULL, "no memory");
  check(moe__rt_frame_fill(bench->device, bench->plan, &places, NULL, memory, &bench->launches));
}

/* ---- What is timed ---- */

static void time_driver(bench_t *bench) {
  int64_t zeroed = bench->plan->status_offset - bench->plan->zero_begin;
  if (zeroed > 0) {
    uintptr_t begin = (uintptr_t)bench->workspace.data + (uintptr_t)bench->plan->zero_begin;
    require(bench->driver->cuMemsetD8Async((moe__rt_cu_pointer_t)begin, 0, (size_t)zeroed,
                                           bench->stream) == 0,
            "cuMemsetD8Async failed");
  }
  for (int l = 0; l < bench->plan->launch_count; l++) {
    const moe__rt_ready_launch_t *launch = &bench->launches[l];
    moe__rt_cu_launch_attribute_t attributes[2] = {0};
    uint32_t count = 0;
    if (launch->cluster[0] * launch->cluster[1] * launch->cluster[2] > 1) {
      attributes[count].id = MOE__RT_CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
      attributes[count].value.cluster.x = launch->cluster[0];
      attributes[count].value.cluster.y = launch->cluster[1];
      attributes[count++].value.cluster.z = launch->cluster[2];
    }
    if (launch->programmatic) {
      attributes[count].id = MOE__RT_CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
      attributes[count++].value.programmatic = 1;
    }
    moe__rt_cu_launch_config_t config = {
        .grid = {launch->grid[0], launch->grid[1], launch->grid[2]},
        .block = {launch->block[0], launch->block[1], launch->block[2]},
        .shared_memory = launch->shared_memory,
        .stream = bench->stream,
        .attributes = attributes,
        .attribute_count = count,
    };
    require(bench->driver->cuLaunchKernelEx(&config, launch->kernel, launch->parameters, NULL) == 0,
            "cuLaunchKernelEx failed");
  }
}

static void time_launch(bench_t *bench) {
  check(moe_rt_call_launch(bench->call, bench->stream));
}

static void run(bench_t *bench, const moe_rt_workspace_t *workspace) {
  check(moe_rt_call_run(bench->program, bench->function, bench->pointers, bench->tensor_count,
                        workspace, bench->stream));
}

static void time_run(bench_t *bench) {
  run(bench, &bench->workspace);
}

/* More places than there are maps remembered. */
static void time_run_moved(bench_t *bench) {
  bench->step = (bench->step + 1) % STEPS;
  for (int t = 0; t < bench->tensor_count; t++)
    bench->tensors[t].byte_offset = (uint64_t)bench->step * STEP;
  run(bench, &bench->workspace);
}

static void time_run_pool(bench_t *bench) {
  run(bench, NULL);
}

static void time_plan(bench_t *bench) {
  moe__rt_plan_t *plan = NULL;
  check(moe__rt_plan_make(bench->program, bench->plan->function, bench->pointers, &plan));
  moe__rt_plan_destroy(plan);
}

static void time_results(bench_t *bench) {
  size_t bytes = 0;
  check(moe_rt_call_results(bench->program, bench->function, bench->pointers, bench->argument_count,
                            bench->results, &bytes));
}

static void time_prepare(bench_t *bench) {
  moe_rt_call_t *call = NULL;
  check(moe_rt_call_prepare(bench->program, bench->function, bench->pointers, bench->tensor_count,
                            &call));
  moe_rt_call_destroy(call);
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e6 + (double)time.tv_nsec * 1e-3;
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double measure(bench_t *bench, void (*body)(bench_t *bench), int rounds) {
  double *times = calloc((size_t)rounds, sizeof *times);
  require(times != NULL, "no memory");
  for (int r = -1; r < rounds; r++) { /* the first is not counted */
    check(moe_rt_stream_synchronize(bench->device, bench->stream));
    double begin = now();
    for (int i = 0; i < CALLS; i++)
      body(bench);
    double time = (now() - begin) / CALLS;
    if (r >= 0)
      times[r] = time;
  }
  qsort(times, (size_t)rounds, sizeof *times, compare);
  double median = times[rounds / 2];
  free(times);
  for (int t = 0; t < bench->tensor_count; t++)
    bench->tensors[t].byte_offset = 0;
  return median;
}

/* ---- Command line ---- */

static error_t parse_option(int key, char *argument, struct argp_state *state) {
  options_t *options = state->input;
  switch (key) {
  case 'd':
    options->device = argument;
    return 0;
  case 'f':
    options->function = argument;
    return 0;
  case 'r':
    options->rounds = atoi(argument);
    return 0;
  case ARGP_KEY_ARG:
    if (state->arg_num == 0)
      options->bundle = argument;
    else if (options->shape_count < MAX_TENSORS)
      options->shapes[options->shape_count++] = argument;
    return 0;
  case ARGP_KEY_END:
    if (!options->bundle || options->rounds < 1)
      argp_usage(state);
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

int main(int argc, char **argv) {
  static const struct argp_option known[] = {
      {"device", 'd', "NAME", 0, "cuda:N (default: cuda:0)", 0},
      {"function", 'f', "NAME", 0, "of a bundle that has several", 0},
      {"rounds", 'r', "N", 0, "of 100 calls each (default: 101)", 0},
      {0},
  };
  const struct argp argp = {
      known, parse_option, "BUNDLE SHAPE...", "Host time of a call, as JSON.", NULL, NULL, NULL};
  options_t options = {.device = "cuda:0", .rounds = 101};
  argp_parse(&argp, argc, argv, 0, NULL, &options);
  static const struct {
    const char *name;
    void (*body)(bench_t *bench);
  } bodies[] = {
      {"driver", time_driver},       {"launch", time_launch},     {"run", time_run},
      {"run_moved", time_run_moved}, {"run_pool", time_run_pool}, {"plan", time_plan},
      {"results", time_results},     {"prepare", time_prepare},
  };
  static bench_t bench;
  set_up(&bench, &options);
  make_frame(&bench);
  printf(
      "{\"device\": \"%s\", \"function\": \"%s\", \"kernels\": %d, \"maps\": %d, \"memsets\": %d",
      bench.device->info.name, bench.function->name, bench.plan->launch_count,
      bench.plan->map_count, bench.plan->status_offset > bench.plan->zero_begin);
  for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++)
    printf(", \"%s\": %.3f", bodies[i].name, measure(&bench, bodies[i].body, options.rounds));
  printf("}\n");
  return 0;
}
