/* Probe.c - runs the probe kernels on a device and writes or compares what they say.
 *
 * Why it exists: run once on an H200 it makes the golden words; run on the emulator it checks the
 * emulator.
 *
 * Some probes ask what the device refuses, and a kernel that faults makes a GPU useless for its
 * process. So the probes run in child processes: one child runs them until one faults, the next
 * child goes on behind it.
 *
 * usage: emu_probe BUNDLE --device NAME [--golden FILE] [--full FILE] [--compare FILE] [--only
 * TEXT]
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "moe/runtime.h"
#include "test/Emulator/golden/Codes.h"
#include "test/Emulator/golden/Words.h"

#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct options_t {
  const char *bundle, *device, *golden, *full, *compare, *only, *skip;
} options_t;

static const struct argp_option option_table[] = {
    {"device", 'd', "NAME", 0, "where to run: cuda, cuda:N or another device of the runtime", 0},
    {"golden", 'g', "FILE", 0, "write golden words, long outputs folded", 0},
    {"full", 'f', "FILE", 0, "write every word", 0},
    {"compare", 'c', "FILE", 0, "compare with golden words; the exit code is 1 if any differ", 0},
    {"only", 'o', "TEXT", 0, "run the probes whose name contains TEXT", 0},
    {"skip", 's', "TEXT", 0, "run the probes whose name does not contain TEXT", 0},
    {0},
};

static error_t parse_option(int key, char *argument, struct argp_state *state) {
  options_t *options = state->input;
  switch (key) {
  case 'd':
    options->device = argument;
    return 0;
  case 'g':
    options->golden = argument;
    return 0;
  case 'f':
    options->full = argument;
    return 0;
  case 'c':
    options->compare = argument;
    return 0;
  case 'o':
    options->only = argument;
    return 0;
  case 's':
    options->skip = argument;
    return 0;
  case ARGP_KEY_ARG:
    if (options->bundle)
      argp_usage(state);
    options->bundle = argument;
    return 0;
  case ARGP_KEY_END:
    if (!options->bundle || !options->device)
      argp_usage(state);
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

/* ---- One probe ---- */

/* A flat tensor of words on the device. */
typedef struct buffer_t {
  size_t words;
  int64_t shape[1];
  uint32_t *host;
  DLTensor tensor;
} buffer_t;

#define TRY(call)                                                                                  \
  do {                                                                                             \
    moe_rt_status_t try_status = (call);                                                           \
    if (try_status != MOE_RT_OK)                                                                   \
      return try_status;                                                                           \
  } while (0)

static moe_rt_status_t buffer_create(moe_rt_device_t *device, const char *device_name,
                                     const moe_rt_tensor_info_t *info, buffer_t *out) {
  moe_rt_device_info_t device_info;
  TRY(moe_rt_device_info(device, &device_info));
  out->shape[0] = info->shape[0].size;
  out->words = (size_t)out->shape[0];
  out->host = malloc(out->words * sizeof *out->host);
  if (!out->host)
    return MOE_RT_OUT_OF_MEMORY;
  out->tensor = (DLTensor){
      .device = {strncmp(device_name, "cuda", 4) == 0 ? kDLCUDA : kDLCPU, device_info.ordinal},
      .ndim = 1,
      .dtype = {kDLInt, 32, 1},
      .shape = out->shape,
  };
  return moe_rt_memory_allocate(device, out->words * 4, &out->tensor.data);
}

static void buffer_destroy(moe_rt_device_t *device, buffer_t *buffer) {
  if (buffer->tensor.data)
    moe_rt_memory_free(device, buffer->tensor.data);
  free(buffer->host);
}

static moe_rt_status_t launch_and_wait(moe_rt_device_t *device, const moe_rt_call_t *call) {
  TRY(moe_rt_call_launch(call, NULL));
  return moe_rt_stream_synchronize(device, NULL);
}

static moe_rt_status_t run_probe(moe_rt_device_t *device, const char *device_name,
                                 const moe_rt_program_t *program,
                                 const moe_rt_function_info_t *function, buffer_t *x, buffer_t *y,
                                 bool *out_fault) {
  if (function->argument_count > 0)
    TRY(buffer_create(device, device_name, &function->arguments[0], x));
  TRY(buffer_create(device, device_name, &function->results[0], y));
  for (size_t i = 0; i < x->words; i++)
    x->host[i] = golden_position_code((uint32_t)i);
  memset(y->host, GOLDEN_UNTOUCHED, y->words * 4);
  if (x->words > 0)
    TRY(moe_rt_memory_to_device(device, x->tensor.data, x->host, x->words * 4));
  TRY(moe_rt_memory_to_device(device, y->tensor.data, y->host, y->words * 4));
  const DLTensor *tensors[] = {&x->tensor, &y->tensor};
  const int skipped = function->argument_count == 0;
  moe_rt_call_t *call = NULL;
  TRY(moe_rt_call_prepare(program, function, tensors + skipped, 2 - skipped, &call));
  moe_rt_status_t status = launch_and_wait(device, call);
  *out_fault = status == MOE_RT_DEVICE_LOST || status == MOE_RT_DEVICE_ERROR;
  if (status == MOE_RT_OK)
    status = moe_rt_memory_from_device(device, y->host, y->tensor.data, y->words * 4);
  if (status == MOE_RT_OK)
    moe_rt_call_destroy(call);
  return status;
}

/* ---- All of them ---- */

/* Shared by the children. */
typedef struct progress_t {
  int next; /* the first probe that no child has begun */
  int failed, faulted, compared, different;
} progress_t;

typedef struct outputs_t {
  FILE *golden, *full;
  bool compares;
  golden_file_t wanted;
  progress_t *progress;
} outputs_t;

static bool is_informative(const moe_rt_function_info_t *function) {
  return strcmp(function->launches[0].op, "probe.informative") == 0;
}

/* `words` is NULL where the probe faulted. */
static void report(outputs_t *outputs, const moe_rt_function_info_t *function,
                   const uint32_t *words, size_t count) {
  if (outputs->golden)
    golden_write(outputs->golden, function->name, words, count, false);
  if (outputs->full)
    golden_write(outputs->full, function->name, words, count, true);
  if (!outputs->compares || is_informative(function))
    return;
  const golden_entry_t *golden = golden_find(&outputs->wanted, function->name);
  outputs->progress->compared++;
  if (!golden)
    printf("%s: not in the golden file\n", function->name);
  if (!golden || !golden_compare(golden, words, count))
    outputs->progress->different++;
}

/* False where the device is lost. */
static bool run_one(moe_rt_device_t *device, const moe_rt_program_t *program,
                    const options_t *options, const moe_rt_function_info_t *function,
                    outputs_t *outputs) {
  buffer_t x = {0};
  buffer_t y = {0};
  bool fault = false;
  const moe_rt_status_t status =
      run_probe(device, options->device, program, function, &x, &y, &fault);
  if (status != MOE_RT_OK)
    fprintf(stderr, "%s: %s\n", function->name, moe_rt_last_message());
  outputs->progress->faulted += fault;
  outputs->progress->failed += status != MOE_RT_OK && !fault;
  if (status == MOE_RT_OK || fault)
    report(outputs, function, fault ? NULL : y.host, y.words);
  buffer_destroy(device, &x);
  buffer_destroy(device, &y);
  return status != MOE_RT_DEVICE_LOST;
}

static void write_heading(FILE *file, moe_rt_device_t *device, const char *code) {
  moe_rt_device_info_t info;
  if (!file || moe_rt_device_info(device, &info) != MOE_RT_OK)
    return;
  fprintf(file, "# What the probes of make_probes.py wrote. Device: %s; driver %d; code: %s.\n",
          info.name, info.driver_version, code);
  fprintf(file, "# Written by emu_probe; do not edit.\n");
}

/* How a child ends. */
enum { CHILD_DONE, CHILD_BROKEN, CHILD_LOST };

static int run_child(const options_t *options, outputs_t *outputs) {
  moe_rt_device_t *device = NULL;
  moe_rt_program_t *program = NULL;
  if (moe_rt_device_open(options->device, &device) != MOE_RT_OK ||
      moe_rt_program_load(device, options->bundle, &program) != MOE_RT_OK) {
    fprintf(stderr, "emu_probe: %s\n", moe_rt_last_message());
    return CHILD_BROKEN;
  }
  progress_t *progress = outputs->progress;
  if (progress->next == 0) {
    write_heading(outputs->golden, device, moe_rt_program_code(program));
    write_heading(outputs->full, device, moe_rt_program_code(program));
  }
  while (progress->next < moe_rt_program_function_count(program)) {
    const moe_rt_function_info_t *function = moe_rt_program_function(program, progress->next++);
    if ((options->only && !strstr(function->name, options->only)) ||
        (options->skip && strstr(function->name, options->skip)))
      continue;
    const bool usable = run_one(device, program, options, function, outputs);
    if (fflush(NULL) != 0) {
      fprintf(stderr, "emu_probe: an output cannot be written: %s\n", strerror(errno));
      return CHILD_BROKEN;
    }
    if (!usable)
      return CHILD_LOST;
  }
  moe_rt_program_destroy(program);
  moe_rt_device_close(device);
  return CHILD_DONE;
}

/* False where the probes could not all be tried. */
static bool run_all(const options_t *options, outputs_t *outputs) {
  for (;;) {
    const int begin = outputs->progress->next;
    fflush(NULL); /* or the child would write what is buffered here again */
    const pid_t child = fork();
    if (child == 0) {
      const int result = run_child(options, outputs);
      fflush(NULL);
      _exit(result);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) {
      perror("emu_probe");
      return false;
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) != CHILD_LOST)
      return WEXITSTATUS(status) == CHILD_DONE;
    if (WIFSIGNALED(status)) {
      fprintf(stderr, "probe number %d: the process ended with signal %d\n",
              outputs->progress->next - 1, WTERMSIG(status));
      outputs->progress->failed++;
    }
    if (outputs->progress->next == begin)
      return false;
  }
}

static FILE *open_output(const char *path) {
  FILE *file = path ? fopen(path, "w") : NULL;
  if (path && !file) {
    fprintf(stderr, "%s: %s\n", path, strerror(errno));
    exit(1);
  }
  return file;
}

/* False when the file did not take what was written. */
static bool close_output(FILE *file, const char *path) {
  if (!file || fclose(file) == 0)
    return true;
  fprintf(stderr, "%s: cannot be written\n", path);
  return false;
}

int main(int argc, char **argv) {
  static const struct argp argp = {
      option_table, parse_option, "BUNDLE", "Runs the probe kernels on a device.", 0, 0, 0};
  options_t options = {0};
  argp_parse(&argp, argc, argv, 0, NULL, &options);
  outputs_t outputs = {.compares = options.compare != NULL};
  if (outputs.compares && !golden_read(options.compare, &outputs.wanted))
    return 1;
  progress_t *progress =
      mmap(NULL, sizeof *progress, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (progress == MAP_FAILED) {
    perror("emu_probe");
    return 1;
  }
  outputs.progress = progress;
  outputs.golden = open_output(options.golden);
  outputs.full = open_output(options.full);

  bool ok = run_all(&options, &outputs);
  printf("%d probes failed, %d faulted; %d compared, %d differ\n", progress->failed,
         progress->faulted, progress->compared, progress->different);
  ok = ok && progress->failed == 0 && progress->different == 0;
  ok = close_output(outputs.golden, options.golden) && ok;
  ok = close_output(outputs.full, options.full) && ok;
  golden_free(&outputs.wanted);
  munmap(progress, sizeof *progress);
  return ok ? 0 : 1;
}
