/* CudaTest.c - the runtime on a GPU: loads, checks, launches, threads, graphs, and a kernel that
 * crashes.
 *
 * Everything below the fake device of the other tests is tested here: driver, tensor maps,
 * clusters, shared memory. Uses the public API only.
 *
 * usage: cuda_test INPUTS [CUBIN]     CUBIN is INPUTS/tiny/kernels.ptx, assembled
 * Exit code 77: skipped, for the reason printed.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "moe/runtime.h"
#include "test/Runtime/Support.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SKIPPED = 77, CANARY = 64 };

static moe_rt_device_t *device;
static const char *inputs;
static atomic_int failures;

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, moe_rt_last_message());            \
      failures++;                                                                                  \
    }                                                                                              \
  } while (0)

#define CHECK_OK(expression) CHECK((expression) == MOE_RT_OK)

static void expect(moe_rt_status_t status, moe_rt_status_t expected, const char *message) {
  if (status == expected && strstr(moe_rt_last_message(), message))
    return;
  printf("expected %s, '%s'; got %s, '%s'\n", moe_rt_status_text(expected), message,
         moe_rt_status_text(status), moe_rt_last_message());
  failures++;
}

/* ---- Programs ---- */

/* Loads the tiny bundle with this PTX (NULL: its own) and cubin (NULL: none). */
static moe_rt_status_t load(const char *ptx, const void *cubin, size_t cubin_size,
                            moe_rt_program_t **out_program) {
  char path[512];
  size_t size = 0;
  snprintf(path, sizeof path, "%s/tiny/kernels.ptx", inputs);
  char *own_ptx = read_text(path, &size);
  snprintf(path, sizeof path, "%s/tiny/manifest.json", inputs);
  json_t *manifest = read_json(path);
  json_object_set_new(json_object_get(manifest, "artifacts"), "cubin",
                      json_pack("{s:s,s:s}", "file", "kernels.cubin", "assembler", "ptxas"));
  char *folder = folder_make();
  bundle_write(folder, manifest, ptx ? ptx : own_ptx, cubin, cubin_size);
  moe_rt_status_t status = moe_rt_program_load(device, folder, out_program);
  folder_remove(folder);
  json_decref(manifest);
  free(own_ptx);
  return status;
}

static const moe_rt_function_info_t *find(const moe_rt_program_t *program, const char *name) {
  const moe_rt_function_info_t *function = NULL;
  CHECK_OK(moe_rt_program_find(program, name, &function));
  return function;
}

/* ---- Tensors ---- */

/* A pair of tensors on the device, x and y, with a canary behind y. */
typedef struct pair_t {
  int64_t shape[2];
  size_t bytes;
  DLTensor x, y;
  const DLTensor *tensors[2];
  uint32_t *host;
} pair_t;

static void pair_make(pair_t *pair, DLDataType dtype, int rank, int64_t rows, int64_t columns) {
  *pair = (pair_t){.shape = {rows, columns}};
  pair->bytes = (size_t)(rows * (rank == 2 ? columns : 1)) * sizeof(uint32_t);
  pair->x = (DLTensor){.device = {kDLCUDA, 0}, .ndim = rank, .dtype = dtype, .shape = pair->shape};
  pair->y = pair->x;
  CHECK_OK(moe_rt_memory_allocate(device, pair->bytes + CANARY, &pair->x.data));
  CHECK_OK(moe_rt_memory_allocate(device, pair->bytes + CANARY, &pair->y.data));
  pair->tensors[0] = &pair->x;
  pair->tensors[1] = &pair->y;
  pair->host = calloc(1, pair->bytes + CANARY);
  require(pair->host != NULL, "calloc");
}

static void pair_free(pair_t *pair) {
  moe_rt_memory_free(device, pair->x.data);
  moe_rt_memory_free(device, pair->y.data);
  free(pair->host);
}

/* x[i] = seed + 3 i; y and its canary are all ones. */
static void pair_fill(pair_t *pair, uint32_t seed, void *stream) {
  for (size_t i = 0; i < pair->bytes / 4; i++)
    pair->host[i] = seed + 3 * (uint32_t)i;
  CHECK_OK(moe_rt_memory_to_device(device, pair->x.data, pair->host, pair->bytes));
  CHECK_OK(moe_rt_memory_fill(device, pair->y.data, 0xff, pair->bytes + CANARY, stream));
  CHECK_OK(moe_rt_stream_synchronize(device, stream));
}

/* y[i] = seed + 3 i + addend, and the canary is alive. */
static void pair_expect(pair_t *pair, uint32_t seed, uint32_t addend, void *stream,
                        const char *what) {
  CHECK_OK(moe_rt_stream_synchronize(device, stream));
  CHECK_OK(moe_rt_memory_from_device(device, pair->host, pair->y.data, pair->bytes + CANARY));
  size_t count = pair->bytes / 4;
  for (size_t i = 0; i < count + CANARY / 4; i++) {
    uint32_t expected = i < count ? seed + 3 * (uint32_t)i + addend : UINT32_MAX;
    if (pair->host[i] != expected) {
      printf("%s: element %zu is %u; expected %u\n", what, i, pair->host[i], expected);
      failures++;
      return;
    }
  }
}

static const DLDataType i32 = {kDLInt, 32, 1};
static const DLDataType f32 = {kDLFloat, 32, 1};

/* ---- The tests ---- */

/* add_n runs in clusters of two, and so adds 7 twice. */
static void test_results(const moe_rt_program_t *program, void *stream) {
  pair_t pair;
  moe_rt_call_t *call = NULL;
  pair_make(&pair, i32, 1, 100003, 0);
  CHECK_OK(moe_rt_call_prepare(program, find(program, "add"), pair.tensors, 2, &call));
  for (uint32_t seed = 0; seed < 3; seed++) {
    pair_fill(&pair, seed, stream);
    CHECK_OK(moe_rt_call_launch(call, stream));
    pair_expect(&pair, seed, 14, stream, "add");
  }
  moe_rt_call_destroy(call);
  pair_free(&pair);

  pair_make(&pair, f32, 2, 37, 100);
  CHECK_OK(moe_rt_call_prepare(program, find(program, "copy"), pair.tensors, 2, &call));
  pair_fill(&pair, 5, stream);
  CHECK_OK(moe_rt_call_launch(call, stream));
  pair_expect(&pair, 5, 0, stream, "copy");
  moe_rt_call_destroy(call);
  pair_free(&pair);
}

/* The second launch of "copy" may start early, and must still see what the first one wrote. */
static void test_programmatic(const moe_rt_program_t *program, void *stream) {
  pair_t pair;
  moe_rt_call_t *call = NULL;
  pair_make(&pair, f32, 2, 3001, 1000);
  CHECK_OK(moe_rt_call_prepare(program, find(program, "copy"), pair.tensors, 2, &call));
  for (uint32_t seed = 1; seed < 30; seed++) {
    pair_fill(&pair, seed, stream);
    CHECK_OK(moe_rt_call_launch(call, stream));
    pair_expect(&pair, seed, 0, stream, "programmatic copy");
  }
  moe_rt_call_destroy(call);
  pair_free(&pair);
}

/* y[0] is what the status word was before the kernel set the bits of x.0 = 6. */
static void test_status(const moe_rt_program_t *program, void *stream) {
  static const uint32_t expected[] = {0, 6, 0};
  int64_t sizes[] = {6, 1};
  uint32_t bits = 1, before = 1;
  DLTensor x = {.device = {kDLCUDA, 0}, .ndim = 1, .dtype = i32, .shape = &sizes[0]};
  DLTensor y = x;
  y.shape = &sizes[1];
  const DLTensor *tensors[] = {&x, &y};
  moe_rt_call_t *call = NULL;
  CHECK_OK(moe_rt_memory_allocate(device, 24, &x.data));
  CHECK_OK(moe_rt_memory_allocate(device, 4, &y.data));
  CHECK_OK(moe_rt_call_prepare(program, find(program, "report"), tensors, 2, &call));
  CHECK_OK(moe_rt_call_status(call, stream, &bits));
  CHECK(bits == 0);
  for (int i = 0; i < 3; i++) {
    CHECK_OK(moe_rt_call_launch(call, stream));
    CHECK_OK(moe_rt_stream_synchronize(device, stream));
    CHECK_OK(moe_rt_memory_from_device(device, &before, y.data, sizeof before));
    CHECK(before == expected[i]);
    if (i == 1) {
      CHECK_OK(moe_rt_call_status(call, stream, &bits));
      CHECK(bits == 6);
    }
  }
  moe_rt_call_destroy(call);
  moe_rt_memory_free(device, x.data);
  moe_rt_memory_free(device, y.data);
}

/* Runs of "copy" at two places in turn, in a workspace of ours and in one of the driver's pool. */
static void test_run(const moe_rt_program_t *program, void *stream) {
  const moe_rt_function_info_t *copy = find(program, "copy");
  pair_t pairs[2];
  moe_rt_workspace_t workspace = {0};
  for (int i = 0; i < 2; i++)
    pair_make(&pairs[i], f32, 2, 1237, 100);
  CHECK_OK(moe_rt_call_results(program, copy, pairs[0].tensors, 1, NULL, &workspace.bytes));
  CHECK(workspace.bytes >= pairs[0].bytes);
  CHECK_OK(moe_rt_memory_allocate(device, workspace.bytes, &workspace.data));
  for (uint32_t seed = 0; seed < 6; seed++) {
    pair_t *pair = &pairs[seed % 2];
    pair_fill(pair, seed, stream);
    CHECK_OK(
        moe_rt_call_run(program, copy, pair->tensors, 2, seed < 3 ? &workspace : NULL, stream));
    pair_expect(pair, seed, 0, stream, "run");
  }
  moe_rt_memory_free(device, workspace.data);
  for (int i = 0; i < 2; i++)
    pair_free(&pairs[i]);
}

/* Runs report in one word, which outlives them. */
static void test_run_status(const moe_rt_program_t *program, void *stream) {
  static const uint32_t expected[] = {0, 6, 0};
  const moe_rt_function_info_t *report = find(program, "report");
  int64_t sizes[] = {6, 1};
  uint32_t bits = 1, before = 1;
  DLTensor x = {.device = {kDLCUDA, 0}, .ndim = 1, .dtype = i32, .shape = &sizes[0]};
  DLTensor y = x;
  y.shape = &sizes[1];
  const DLTensor *tensors[] = {&x, &y};
  CHECK_OK(moe_rt_memory_allocate(device, 24, &x.data));
  CHECK_OK(moe_rt_memory_allocate(device, 4, &y.data));
  for (int i = 0; i < 3; i++) {
    CHECK_OK(moe_rt_call_run(program, report, tensors, 2, NULL, stream));
    CHECK_OK(moe_rt_stream_synchronize(device, stream));
    CHECK_OK(moe_rt_memory_from_device(device, &before, y.data, sizeof before));
    CHECK(before == expected[i]);
    if (i == 1) {
      CHECK_OK(moe_rt_function_status(program, report, x.device, stream, &bits));
      CHECK(bits == 6);
    }
  }
  moe_rt_memory_free(device, x.data);
  moe_rt_memory_free(device, y.data);
}

static void test_empty(const moe_rt_program_t *program) {
  int64_t shape[] = {0, 4};
  DLTensor x = {.device = {kDLCUDA, 0}, .ndim = 2, .dtype = f32, .shape = shape};
  DLTensor y = x;
  const DLTensor *tensors[] = {&x, &y};
  moe_rt_call_t *call = NULL;
  CHECK_OK(moe_rt_call_prepare(program, find(program, "copy"), tensors, 2, &call));
  CHECK_OK(moe_rt_call_launch(call, NULL));
  CHECK_OK(moe_rt_stream_synchronize(device, NULL));
  moe_rt_call_destroy(call);
}

/* More than 2^31 elements, where 32-bit arithmetic anywhere would show. */
static void test_large(const moe_rt_program_t *program) {
  int64_t count = (INT64_C(1) << 31) + 1001;
  size_t bytes = (size_t)count * 4;
  DLTensor x = {.device = {kDLCUDA, 0}, .ndim = 1, .dtype = i32, .shape = &count};
  DLTensor y = x;
  const DLTensor *tensors[] = {&x, &y};
  moe_rt_call_t *call = NULL;
  if (moe_rt_memory_allocate(device, bytes, &x.data) != MOE_RT_OK ||
      moe_rt_memory_allocate(device, bytes, &y.data) != MOE_RT_OK) {
    printf("skipped: more than 2^31 elements: %s\n", moe_rt_last_message());
  } else {
    uint32_t last[4] = {0};
    CHECK_OK(moe_rt_memory_fill(device, x.data, 1, bytes, NULL));
    CHECK_OK(moe_rt_memory_fill(device, y.data, 0xff, bytes, NULL));
    CHECK_OK(moe_rt_call_prepare(program, find(program, "add"), tensors, 2, &call));
    CHECK_OK(moe_rt_call_launch(call, NULL));
    CHECK_OK(moe_rt_stream_synchronize(device, NULL));
    CHECK_OK(
        moe_rt_memory_from_device(device, last, (char *)y.data + bytes - sizeof last, sizeof last));
    for (int i = 0; i < 4; i++)
      CHECK(last[i] == 0x01010101 + 14);
  }
  moe_rt_call_destroy(call);
  moe_rt_memory_free(device, x.data);
  moe_rt_memory_free(device, y.data);
}

static void test_events(void) {
  void *begin = NULL;
  void *end = NULL;
  void *from = NULL;
  void *to = NULL;
  size_t bytes = 1 << 28;
  float milliseconds = -1;
  uint8_t last = 0;
  CHECK_OK(moe_rt_event_create(device, &begin));
  CHECK_OK(moe_rt_event_create(device, &end));
  CHECK_OK(moe_rt_memory_allocate(device, bytes, &from));
  CHECK_OK(moe_rt_memory_allocate(device, bytes, &to));
  CHECK_OK(moe_rt_memory_fill(device, from, 0x5a, bytes, NULL));
  CHECK_OK(moe_rt_event_record(device, begin, NULL));
  CHECK_OK(moe_rt_memory_copy(device, to, from, bytes, NULL));
  CHECK_OK(moe_rt_event_record(device, end, NULL));
  CHECK_OK(moe_rt_event_elapsed(device, begin, end, &milliseconds));
  CHECK(milliseconds > 0.01F && milliseconds < 1000);
  CHECK_OK(moe_rt_memory_from_device(device, &last, (char *)to + bytes - 1, 1));
  CHECK(last == 0x5a);
  moe_rt_memory_free(device, from);
  moe_rt_memory_free(device, to);
  moe_rt_event_destroy(device, begin);
  moe_rt_event_destroy(device, end);
}

static void test_bad_input(const moe_rt_program_t *program) {
  pair_t pair;
  moe_rt_call_t *call = NULL;
  const moe_rt_function_info_t *copy = find(program, "copy");
  pair_make(&pair, f32, 2, 8, 30);
  expect(moe_rt_call_prepare(program, copy, pair.tensors, 2, &call), MOE_RT_INVALID_ARGUMENT,
         "function 'copy': argument 'x': dimension 1 is 30; it must be a multiple of 4");
  pair.shape[1] = 28;
  pair.x.byte_offset = 8;
  expect(moe_rt_call_prepare(program, copy, pair.tensors, 2, &call), MOE_RT_INVALID_ARGUMENT,
         "it must be aligned to 16 bytes");
  pair.x.byte_offset = 0;
  pair.x.device.device_id = 1;
  expect(moe_rt_call_prepare(program, copy, pair.tensors, 2, &call), MOE_RT_INVALID_ARGUMENT,
         "argument 'x': is on DLPack device (2, 1), which is not memory of cuda:0");
  pair_free(&pair);

  moe_rt_device_t *none = NULL;
  expect(moe_rt_device_open("cuda:4096", &none), MOE_RT_NO_DEVICE, "cuda:4096: this machine has ");
  void *pointer = NULL;
  expect(moe_rt_memory_allocate(device, (size_t)1 << 50, &pointer), MOE_RT_OUT_OF_MEMORY,
         "cuda:0: cuMemAlloc of 1125899906842624 bytes");
}

static void test_bad_code(void) {
  size_t size = 0;
  const void *cubin = empty_cubin(&size);
  moe_rt_program_t *program = NULL;
  CHECK_OK(load(NULL, cubin, size, &program));
  CHECK(strcmp(moe_rt_program_code(program), "ptx") == 0);
  moe_rt_program_destroy(program);

  static const char garbage[] = ".version 8.0\n.target sm_90a\n.address_size 64\nnonsense;\n";
  expect(load(garbage, cubin, size, &program), MOE_RT_UNSUPPORTED, "; kernels.ptx: ");
  printf("what the JIT says: %s\n", moe_rt_last_message());
  CHECK(strstr(moe_rt_last_message(), "kernels.cubin: ") != NULL);
  static const char empty[] = ".version 8.0\n.target sm_90a\n.address_size 64\n";
  expect(load(empty, NULL, 0, &program), MOE_RT_INVALID_BUNDLE,
         "kernel 'add_n': the code has no such entry point");
}

/* ---- Threads ---- */

static const moe_rt_program_t *shared_program;

static void *cuda_symbol(const char *name) {
  static void *library;
  if (!library)
    library = dlopen("libcuda.so.1", RTLD_NOW);
  void *symbol = library ? dlsym(library, name) : NULL;
  require(symbol != NULL, name);
  return symbol;
}

/* A thread that has no CUDA context works, and has none afterwards. */
static void *use_from_thread(void *argument) {
  uint32_t seed = (uint32_t)(uintptr_t)argument;
  void *stream = NULL;
  void *context = &stream;
  pair_t pair;
  moe_rt_call_t *call = NULL;
  CHECK_OK(moe_rt_stream_create(device, &stream));
  pair_make(&pair, i32, 1, 50000 + (int64_t)seed, 0);
  CHECK_OK(
      moe_rt_call_prepare(shared_program, find(shared_program, "add"), pair.tensors, 2, &call));
  for (uint32_t round = 0; round < 20; round++) {
    pair_fill(&pair, seed + round, stream);
    for (int i = 0; i < 50; i++)
      CHECK_OK(moe_rt_call_launch(call, stream));
    pair_expect(&pair, seed + round, 14, stream, "threads");
  }
  moe_rt_call_destroy(call);
  pair_free(&pair);
  moe_rt_stream_destroy(device, stream);
  int (*get_current)(void **) = (int (*)(void **))cuda_symbol("cuCtxGetCurrent");
  CHECK(get_current(&context) == 0 && context == NULL);
  return NULL;
}

static void test_threads(const moe_rt_program_t *program) {
  pthread_t threads[2];
  shared_program = program;
  for (uintptr_t i = 0; i < 2; i++)
    CHECK(pthread_create(&threads[i], NULL, use_from_thread, (void *)(1000 * (i + 1))) == 0);
  for (int i = 0; i < 2; i++)
    pthread_join(threads[i], NULL);
}

/* ---- Graphs ---- */

/* Captures the first launch ever of a program, then replays it on new data. The functions of graphs
 * work in the current context, which the runtime leaves as it was: none. */
static void test_graph(void) {
  int (*retain)(void **, int) = (int (*)(void **, int))cuda_symbol("cuDevicePrimaryCtxRetain");
  int (*release)(int) = (int (*)(int))cuda_symbol("cuDevicePrimaryCtxRelease_v2");
  int (*set_current)(void *) = (int (*)(void *))cuda_symbol("cuCtxSetCurrent");
  void *context = NULL;
  CHECK(retain(&context, 0) == 0 && set_current(context) == 0);
  int (*begin)(void *, int) = (int (*)(void *, int))cuda_symbol("cuStreamBeginCapture_v2");
  int (*end)(void *, void **) = (int (*)(void *, void **))cuda_symbol("cuStreamEndCapture");
  int (*instantiate)(void **, void *, unsigned long long) =
      (int (*)(void **, void *, unsigned long long))cuda_symbol("cuGraphInstantiateWithFlags");
  int (*launch)(void *, void *) = (int (*)(void *, void *))cuda_symbol("cuGraphLaunch");
  int (*destroy_exec)(void *) = (int (*)(void *))cuda_symbol("cuGraphExecDestroy");
  int (*destroy)(void *) = (int (*)(void *))cuda_symbol("cuGraphDestroy");

  moe_rt_program_t *program = NULL;
  moe_rt_call_t *add = NULL;
  moe_rt_call_t *copy = NULL;
  void *stream = NULL;
  void *graph = NULL;
  void *executable = NULL;
  pair_t numbers;
  pair_t boxes;
  pair_t runs;
  CHECK_OK(load(NULL, NULL, 0, &program));
  CHECK_OK(moe_rt_stream_create(device, &stream));
  pair_make(&numbers, i32, 1, 4099, 0);
  pair_make(&boxes, f32, 2, 65, 36);
  pair_make(&runs, f32, 2, 131, 40);
  CHECK_OK(moe_rt_call_prepare(program, find(program, "add"), numbers.tensors, 2, &add));
  CHECK_OK(moe_rt_call_prepare(program, find(program, "copy"), boxes.tensors, 2, &copy));

  enum { GLOBAL = 0 };
  CHECK(begin(stream, GLOBAL) == 0);
  CHECK_OK(moe_rt_call_launch(add, stream));
  CHECK_OK(moe_rt_call_launch(copy, stream));
  /* The first run ever: its maps are new, its workspace is of the pool. */
  CHECK_OK(moe_rt_call_run(program, find(program, "copy"), runs.tensors, 2, NULL, stream));
  CHECK(end(stream, &graph) == 0);
  CHECK(instantiate(&executable, graph, 0) == 0);
  for (uint32_t seed = 10; seed < 14; seed++) {
    pair_fill(&numbers, seed, stream);
    pair_fill(&boxes, seed, stream);
    pair_fill(&runs, seed + 1, stream);
    CHECK(launch(executable, stream) == 0);
    pair_expect(&numbers, seed, 14, stream, "graph, add");
    pair_expect(&boxes, seed, 0, stream, "graph, copy");
    pair_expect(&runs, seed + 1, 0, stream, "graph, run");
  }
  CHECK(destroy_exec(executable) == 0);
  CHECK(destroy(graph) == 0);
  moe_rt_call_destroy(add);
  moe_rt_call_destroy(copy);
  pair_free(&numbers);
  pair_free(&boxes);
  pair_free(&runs);
  moe_rt_stream_destroy(device, stream);
  moe_rt_program_destroy(program);
  CHECK(set_current(NULL) == 0 && release(0) == 0);
}

/* ---- A crash ---- */

/* Comes last: it costs the process its device. */
static void test_crash(const moe_rt_program_t *program) {
  moe_rt_call_t *call = NULL;
  void *pointer = NULL;
  CHECK_OK(moe_rt_call_prepare(program, find(program, "crash"), NULL, 0, &call));
  CHECK_OK(moe_rt_call_launch(call, NULL));
  expect(moe_rt_stream_synchronize(device, NULL), MOE_RT_DEVICE_LOST,
         "cuda:0: lost: cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS (700)");
  expect(moe_rt_memory_allocate(device, 1, &pointer), MOE_RT_DEVICE_LOST,
         "lost: cuStreamSynchronize");
  expect(moe_rt_call_launch(call, NULL), MOE_RT_DEVICE_LOST, "lost: cuStreamSynchronize");
  moe_rt_call_destroy(call);
}

int main(int argc, char **argv) {
  require(argc == 2 || argc == 3, "usage: cuda_test INPUTS [CUBIN]");
  inputs = argv[1];
  moe_rt_status_t status = moe_rt_device_open("cuda", &device);
  if (status == MOE_RT_NO_DRIVER || status == MOE_RT_NO_DEVICE) {
    printf("skipped: %s\n", moe_rt_last_message());
    return SKIPPED;
  }
  require(status == MOE_RT_OK, moe_rt_last_message());
  moe_rt_device_info_t info;
  CHECK_OK(moe_rt_device_info(device, &info));
  printf("%s, compute capability %d.%d, %d multiprocessors, L2 %lld, shared memory %lld, memory "
         "%lld, driver %d\n",
         info.name, info.compute_major, info.compute_minor, info.num_sms, (long long)info.l2_bytes,
         (long long)info.shared_memory_per_block, (long long)info.total_memory,
         info.driver_version);
  if (info.compute_major != 9 || info.compute_minor != 0) {
    printf("skipped: the kernels are for compute capability 9.0\n");
    moe_rt_device_close(device);
    return SKIPPED;
  }

  moe_rt_program_t *program = NULL;
  if (argc == 3) {
    size_t size = 0;
    char *cubin = read_text(argv[2], &size);
    CHECK_OK(load(NULL, cubin, size, &program));
    CHECK(strcmp(moe_rt_program_code(program), "cubin") == 0);
    test_results(program, NULL);
    moe_rt_program_destroy(program);
    free(cubin);
  }
  CHECK_OK(load(NULL, NULL, 0, &program));
  CHECK(strcmp(moe_rt_program_code(program), "ptx") == 0);
  test_graph();
  test_results(program, NULL);
  test_programmatic(program, NULL);
  test_status(program, NULL);
  test_run(program, NULL);
  test_run_status(program, NULL);
  test_empty(program);
  test_large(program);
  test_events();
  test_bad_input(program);
  test_bad_code();
  test_threads(program);
  test_crash(program);
  moe_rt_program_destroy(program);
  moe_rt_device_close(device);
  printf("%d failures\n", (int)failures);
  return failures ? 1 : 0;
}
