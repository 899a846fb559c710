/* RunTest.c - calls whose tensors change at every step: what is checked anew, what is remembered.
 *
 * The fake device takes notes, so that what would reach a stream is compared in its order.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Runtime/MapCache.h"
#include "test/Runtime/Fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *inputs;

enum {
  PLAIN = 768,   /* bytes of the workspace that may hold anything: 3 x 64 floats */
  ZEROED = 1792, /* bytes behind them that start as zero: 396 x i32, padded */
  WORKSPACE = PLAIN + ZEROED,
};

static int set_up(void **state) {
  fixture_t *fixture = fixture_create(inputs);
  fixture->workspace = (moe_rt_workspace_t){.data = (void *)0x6000000000, .bytes = WORKSPACE};
  fixture->fake.events[0] = '\0';
  *state = fixture;
  return 0;
}

static int tear_down(void **state) {
  fixture_destroy(*state);
  return 0;
}

static moe_rt_status_t run_with(fixture_t *fixture, const moe_rt_workspace_t *workspace) {
  return moe_rt_call_run(fixture->program, fixture->function, fixture->pointers, 3, workspace,
                         (void *)0x5151);
}

static void expect_run(fixture_t *fixture) {
  if (run_with(fixture, &fixture->workspace) != MOE_RT_OK)
    fail_msg("%s", moe_rt_last_message());
}

static void expect_failure(fixture_t *fixture, moe_rt_status_t expected, const char *message) {
  int launches = fixture->fake.launch_count;
  moe_rt_status_t status = run_with(fixture, &fixture->workspace);
  if (status != expected || !strstr(moe_rt_last_message(), message)) {
    fail_msg("expected '%s', got status %d, '%s'", message, status,
             status == MOE_RT_OK ? "" : moe_rt_last_message());
  }
  assert_int_equal(fixture->fake.launch_count, launches);
}

/* One memset of what starts as zero, in the stream's order; no wait, no allocation. Kernels get the
 * program's status word, which is not in the workspace. */
static void test_stream(void **state) {
  fixture_t *fixture = *state;
  fake_device_t *fake = &fixture->fake;
  uint64_t status_word = (uint64_t)(uintptr_t)fake->workspace;
  int allocations = (int)fake->allocations;
  fake->workspace = fixture->workspace.data;
  expect_run(fixture);
  assert_string_equal(fake->events,
                      "fill 768+1792 with 0 on 0x5151; clear on 0x5151; quantize on 0x5151; ");
  assert_int_equal(fake->allocations, allocations);
  assert_int_equal(fake->launches[0].parameters[0], 0x6000000000 + PLAIN);
  assert_int_equal(fake->launches[0].parameters[1], 0x6000000000);
  assert_int_equal(fake->launches[0].parameters[2], 396);
  assert_int_equal(fake->launches[1].parameters[2], (uintptr_t)fixture->tensors[2].data);
  assert_int_equal(fake->launches[1].parameters[3], 3 * 96 * 416);
  assert_int_equal(fake->launches[1].parameters[6], status_word);
  assert_int_equal(fake->launches[1].grid[0], 42);
  assert_true(fake->launches[1].programmatic);
}

/* The same call prepared launches the same: but for where temporaries are. */
static void test_like_prepared(void **state) {
  fixture_t *fixture = *state;
  fake_device_t *fake = &fixture->fake;
  moe_rt_call_t *call = NULL;
  assert_int_equal(
      moe_rt_call_prepare(fixture->program, fixture->function, fixture->pointers, 3, &call),
      MOE_RT_OK);
  assert_int_equal(moe_rt_call_launch(call, (void *)0x5151), MOE_RT_OK);
  moe_rt_call_destroy(call);
  expect_run(fixture);
  for (int i = 0; i < 2; i++) {
    assert_string_equal(fake->launches[i].kernel, fake->launches[2 + i].kernel);
    assert_memory_equal(fake->launches[i].grid, fake->launches[2 + i].grid,
                        sizeof fake->launches[i].grid);
    assert_int_equal(fake->launches[i].programmatic, fake->launches[2 + i].programmatic);
    assert_string_equal(fake->launches[i].pending, fake->launches[2 + i].pending);
    assert_int_equal(fake->launches[i].parameter_count, fake->launches[2 + i].parameter_count);
  }
  assert_memory_equal(&fake->maps[0], &fake->maps[2], 2 * sizeof fake->maps[0]);
}

/* A first launch that may start early does, but in order; those behind it do all the same. */
static void test_in_order(void **state) {
  fixture_t *fixture = *state;
  const fake_device_t *fake = &fixture->fake;
  json_t *manifest = fixture_manifest(inputs);
  json_t *at = json_pack("[s,i,s,i,s]", "functions", 0, "launches", 0, "programmatic");
  json_t *yes = json_true();
  json_damage(manifest, at, yes);
  moe_rt_program_destroy(fixture->program);
  fixture_load(fixture, manifest);
  expect_run(fixture);
  assert_true(fake->launches[0].programmatic);
  assert_int_equal(moe_rt_call_run_in_order(fixture->program, fixture->function, fixture->pointers,
                                            3, &fixture->workspace, (void *)0x5151),
                   MOE_RT_OK);
  assert_false(fake->launches[2].programmatic);
  assert_true(fake->launches[3].programmatic);
  expect_run(fixture);
  assert_true(fake->launches[4].programmatic);
  json_decref(yes);
  json_decref(at);
  json_decref(manifest);
}

/* Maps are encoded once for shapes and address, also when other addresses came between. */
static void test_maps_remembered(void **state) {
  fixture_t *fixture = *state;
  fake_device_t *fake = &fixture->fake;
  expect_run(fixture);
  assert_int_equal(fake->map_count, 2);
  expect_run(fixture);
  assert_int_equal(fake->map_count, 2);
  assert_int_equal(fake->launches[3].parameters[0], UINT64_C(0xA0A0A0A0A0A0A0A0));
  assert_int_equal(fake->launches[3].parameters[1], UINT64_C(0xA1A1A1A1A1A1A1A1));

  fixture_set_tensors(fixture, 2 * FIXTURE_BASE, 3, 96, 416);
  expect_run(fixture);
  assert_int_equal(fake->map_count, 4);
  assert_int_equal(fake->maps[2].address, 2 * FIXTURE_BASE);
  assert_int_equal(fake->launches[5].parameters[0], UINT64_C(0xA2A2A2A2A2A2A2A2));
  assert_int_equal(fake->launches[5].parameters[2], (uintptr_t)fixture->tensors[2].data);

  fixture_set_tensors(fixture, FIXTURE_BASE, 3, 96, 416);
  expect_run(fixture);
  assert_int_equal(fake->map_count, 4);
  assert_int_equal(fake->launches[7].parameters[0], UINT64_C(0xA0A0A0A0A0A0A0A0));

  /* Another shape at the same address is another map. */
  fixture_set_tensors(fixture, FIXTURE_BASE, 3, 96, 432);
  expect_run(fixture);
  assert_int_equal(fake->map_count, 6);
  assert_int_equal(fake->maps[4].dims[0], 432);
  /* So are bytes in the place of 8-bit floats only by their key. */
  fixture->tensors[1].dtype = (DLDataType){kDLUInt, 8, 1};
  expect_run(fixture);
  assert_int_equal(fake->maps[6].dims[0], 432);
}

/* More shapes than are remembered: the first is made anew, and right. */
static void test_many_shapes(void **state) {
  fixture_t *fixture = *state;
  fake_device_t *fake = &fixture->fake;
  for (int i = 0; i < 200; i++) {
    fixture_set_tensors(fixture, FIXTURE_BASE, 1, 32, 16 * (i + 1));
    expect_run(fixture);
  }
  assert_int_equal(fake->map_count, 400);
  fixture_set_tensors(fixture, FIXTURE_BASE, 1, 32, 16 * 200);
  expect_run(fixture);
  assert_int_equal(fake->map_count, 400);
  fake->launch_count = 0;
  fixture_set_tensors(fixture, FIXTURE_BASE, 1, 32, 16);
  expect_run(fixture);
  assert_int_equal(fake->map_count, 402);
  assert_int_equal(fake->launches[1].parameters[3], 32 * 16);
}

/* What a remembered plan stands for is checked all the same. */
static void test_checks_after_success(void **state) {
  fixture_t *fixture = *state;
  expect_run(fixture);
  fixture->tensors[0].data = NULL;
  expect_failure(fixture, MOE_RT_INVALID_ARGUMENT,
                 "function 'quantize_expert_weights': argument 'w': has no data");
  fixture_set_tensors(fixture, FIXTURE_BASE + 8, 3, 96, 416);
  expect_failure(fixture, MOE_RT_INVALID_ARGUMENT, "it must be aligned to 16 bytes");
  fixture_set_tensors(fixture, FIXTURE_BASE, 3, 96, 416);
  fixture->tensors[1].data = fixture->tensors[0].data;
  expect_failure(fixture, MOE_RT_INVALID_ARGUMENT, "result 'q' overlaps argument 'w'");
  fixture_set_tensors(fixture, FIXTURE_BASE, 3, 96, 416);
  fixture->strides[0][1] = 417;
  expect_failure(fixture, MOE_RT_INVALID_ARGUMENT, "dimension 1 has stride 417; it must be 416");
  fixture_set_tensors(fixture, FIXTURE_BASE, 3, 96, 416);
  fixture->tensors[0].strides = NULL; /* row-major: the same */
  expect_run(fixture);
  fixture->tensors[1].strides = NULL; /* which the result is not */
  expect_failure(fixture, MOE_RT_INVALID_ARGUMENT, "result 'q': dimension 1 has stride");
  fixture_set_tensors(fixture, FIXTURE_BASE, 3, 96, 416);
  fixture->tensors[2].device = (DLDevice){kDLCUDA, 1};
  expect_failure(fixture, MOE_RT_INVALID_ARGUMENT,
                 "result 's': is on DLPack device (2, 1), which is not memory of fake:0");
  fixture_set_tensors(fixture, FIXTURE_BASE, 3, 96, 416);
  fixture->tensors[0].dtype.code = kDLFloat;
  expect_failure(fixture, MOE_RT_INVALID_ARGUMENT, "has elements of float16; they must be bf16");
  fixture_set_tensors(fixture, FIXTURE_BASE, 3, 96, 416);
  fixture->tensors[0].ndim = 2;
  expect_failure(fixture, MOE_RT_INVALID_ARGUMENT, "has rank 2; it must be 3");
  fixture->tensors[0].ndim = 1 << 30;
  expect_failure(fixture, MOE_RT_INVALID_ARGUMENT, "has rank 1073741824; it must be 3");
  fixture->tensors[0].ndim = -1;
  expect_failure(fixture, MOE_RT_INVALID_ARGUMENT, "has rank -1; it must be 3");
  fixture_set_tensors(fixture, FIXTURE_BASE, 3, 96, 416);
  fixture->pointers[1] = NULL;
  expect_failure(fixture, MOE_RT_INVALID_ARGUMENT, "result 'q': is NULL");
  fixture_set_tensors(fixture, FIXTURE_BASE, 3, 96, 416);
  expect_run(fixture);
  assert_int_equal(moe_rt_call_run(fixture->program, fixture->function, fixture->pointers, 2,
                                   &fixture->workspace, NULL),
                   MOE_RT_INVALID_ARGUMENT);
  assert_int_equal(
      moe_rt_call_run(fixture->program, fixture->function, NULL, 3, &fixture->workspace, NULL),
      MOE_RT_INVALID_ARGUMENT);
  assert_int_equal(
      moe_rt_call_run(fixture->program, NULL, fixture->pointers, 3, &fixture->workspace, NULL),
      MOE_RT_INVALID_ARGUMENT);
  assert_int_equal(
      moe_rt_call_run(NULL, fixture->function, fixture->pointers, 3, &fixture->workspace, NULL),
      MOE_RT_INVALID_ARGUMENT);
}

/* ---- Workspace ---- */

typedef struct asked_t {
  int times;
  size_t bytes;
  void *stream;
  void *answer;
} asked_t;

static void *allocate(void *context, size_t bytes, void *stream) {
  asked_t *asked = context;
  asked->times++;
  asked->bytes = bytes;
  asked->stream = stream;
  return asked->answer;
}

static void test_allocator(void **state) {
  fixture_t *fixture = *state;
  asked_t asked = {.answer = (void *)0x5000000000};
  fixture->workspace = (moe_rt_workspace_t){.allocate = allocate, .context = &asked};
  expect_run(fixture);
  assert_int_equal(asked.times, 1);
  assert_int_equal(asked.bytes, WORKSPACE);
  assert_ptr_equal(asked.stream, (void *)0x5151);
  assert_int_equal(fixture->fake.launches[0].parameters[1], 0x5000000000);
  asked.answer = NULL;
  expect_failure(fixture, MOE_RT_OUT_OF_MEMORY, "workspace: the allocator has no 2560 bytes");
  asked.answer = (void *)0x5000000010;
  expect_failure(fixture, MOE_RT_INVALID_ARGUMENT,
                 "workspace: is at 0x5000000010; it must be aligned to 256 bytes");
  /* A call that takes none asks for none. */
  fixture_without_workspace(fixture);
  asked.times = 0;
  assert_int_equal(moe_rt_call_run(fixture->program, fixture->function, fixture->pointers, 2,
                                   &fixture->workspace, NULL),
                   MOE_RT_OK);
  assert_int_equal(
      moe_rt_call_run(fixture->program, fixture->function, fixture->pointers, 2, NULL, NULL),
      MOE_RT_OK);
  assert_int_equal(asked.times, 0);
}

static void test_given_workspace(void **state) {
  fixture_t *fixture = *state;
  fixture->workspace.bytes = WORKSPACE - 1;
  expect_failure(fixture, MOE_RT_INVALID_ARGUMENT, "workspace: has 2559 bytes; it must have 2560");
  fixture->workspace = (moe_rt_workspace_t){0};
  expect_failure(fixture, MOE_RT_INVALID_ARGUMENT,
                 "workspace: has neither data nor allocate; it must have 2560 bytes");
  fixture->workspace =
      (moe_rt_workspace_t){.data = fixture->tensors[0].data, .bytes = 3 * 96 * 416};
  expect_failure(fixture, MOE_RT_INVALID_ARGUMENT, "workspace: overlaps argument 'w'");
  fixture->workspace.data = (char *)fixture->tensors[0].data - WORKSPACE;
  expect_run(fixture);
}

/* The device's own pool, in the stream's order, also when a launch fails. */
static void test_own_workspace(void **state) {
  fixture_t *fixture = *state;
  fake_device_t *fake = &fixture->fake;
  assert_int_equal(run_with(fixture, NULL), MOE_RT_OK);
  assert_string_equal(fake->events,
                      "take 2560 on 0x5151; fill 768+1792 with 0 on 0x5151; clear on 0x5151; "
                      "quantize on 0x5151; give back on 0x5151; ");
  fake->launch_status = MOE_RT_DEVICE_ERROR;
  fake->events[0] = '\0';
  assert_int_equal(run_with(fixture, NULL), MOE_RT_DEVICE_ERROR);
  assert_string_equal(moe_rt_last_message(),
                      "function 'quantize_expert_weights': fake:0: kernel 'clear': fake fault");
  assert_string_equal(fake->events, "take 2560 on 0x5151; fill 768+1792 with 0 on 0x5151; "
                                    "give back on 0x5151; ");
  fake->launch_status = MOE_RT_OK;
  fake->allocate_status = MOE_RT_OUT_OF_MEMORY;
  assert_int_equal(run_with(fixture, NULL), MOE_RT_OUT_OF_MEMORY);
  assert_non_null(strstr(moe_rt_last_message(), "workspace: fake allocation"));
  fake->launch_status = MOE_RT_DEVICE_LOST;
  assert_int_equal(run_with(fixture, &fixture->workspace), MOE_RT_DEVICE_LOST);
  fake->launch_status = MOE_RT_OK;
  assert_int_equal(run_with(fixture, &fixture->workspace), MOE_RT_DEVICE_LOST);
  assert_string_equal(moe_rt_last_message(), "fake:0: lost: fake fault");
}

/* ---- Sizes ---- */

/* No tokens: what has nothing to launch is left out, and nothing is asked of the memory. */
static void test_empty(void **state) {
  fixture_t *fixture = *state;
  fixture_set_tensors(fixture, FIXTURE_BASE, 0, 96, 416);
  for (int i = 0; i < 3; i++)
    fixture->tensors[i].data = NULL;
  expect_run(fixture);
  expect_run(fixture);
  assert_int_equal(fixture->fake.launch_count, 2);
  assert_string_equal(fixture->fake.launches[1].kernel, "clear");
  assert_int_equal(fixture->fake.map_count, 0);
}

static void test_large(void **state) {
  fixture_t *fixture = *state;
  fixture_set_tensors(fixture, FIXTURE_BASE, 64, 16384, 8192);
  fixture->workspace.bytes = 1 << 20;
  expect_run(fixture);
  assert_int_equal(fixture->fake.launches[1].parameters[3], INT64_C(64) * 16384 * 8192);
  assert_int_equal(fixture->fake.maps[0].strides[1], INT64_C(16384) * 8192 * 2);
  fixture->shapes[0][0] = INT64_C(1) << 20;
  fixture->shapes[0][1] = fixture->shapes[0][2] = INT64_C(1) << 32;
  expect_failure(fixture, MOE_RT_INVALID_ARGUMENT,
                 "argument 'w': the size in bytes does not fit 63 bits");
}

static void test_results(void **state) {
  fixture_t *fixture = *state;
  moe_rt_result_t results[2];
  size_t bytes = 1;
  fixture->tensors[0].data = NULL; /* not needed */
  assert_int_equal(moe_rt_call_results(fixture->program, fixture->function, fixture->pointers, 1,
                                       results, &bytes),
                   MOE_RT_OK);
  assert_int_equal(bytes, WORKSPACE);
  for (int i = 0; i < 2; i++) {
    const DLTensor *result = &results[i].tensor;
    assert_null(result->data);
    assert_int_equal(result->device.device_type, kDLCUDA);
    assert_int_equal(result->ndim, 3);
    assert_ptr_equal(result->shape, results[i].shape);
    assert_ptr_equal(result->strides, results[i].strides);
    assert_memory_equal(&result->dtype, &fixture->tensors[1 + i].dtype, sizeof result->dtype);
    assert_memory_equal(result->shape, fixture->shapes[1 + i], sizeof fixture->shapes[1]);
    assert_memory_equal(result->strides, fixture->strides[1 + i], sizeof fixture->strides[1]);
  }
  assert_int_equal(
      moe_rt_call_results(fixture->program, fixture->function, fixture->pointers, 1, NULL, NULL),
      MOE_RT_OK);
  fixture->shapes[0][1] = 100;
  assert_int_equal(moe_rt_call_results(fixture->program, fixture->function, fixture->pointers, 1,
                                       results, &bytes),
                   MOE_RT_INVALID_ARGUMENT);
  assert_string_equal(moe_rt_last_message(),
                      "function 'quantize_expert_weights': argument 'w': dimension 1 is 100; it "
                      "must be a multiple of 32");
  assert_int_equal(bytes, 0);
  for (int i = 0; i < 2; i++) { /* nothing is left of the results before */
    assert_null(results[i].tensor.shape);
    assert_int_equal(results[i].tensor.ndim, 0);
    assert_int_equal(results[i].shape[0], 0);
  }
  assert_int_equal(moe_rt_call_results(fixture->program, fixture->function, fixture->pointers, 3,
                                       results, &bytes),
                   MOE_RT_INVALID_ARGUMENT);
  assert_non_null(strstr(moe_rt_last_message(), "got 3 tensors; it takes 1 arguments"));
}

/* ---- Status ---- */

static void test_status(void **state) {
  fixture_t *fixture = *state;
  fake_device_t *fake = &fixture->fake;
  uint32_t bits = 7;
  DLDevice place = {kDLCUDA, 0};
  assert_int_equal(
      moe_rt_function_status(fixture->program, fixture->function, place, (void *)0x5151, &bits),
      MOE_RT_OK);
  assert_int_equal(bits, 0);
  fake->word = MOE_RT_OFFSETS_BEYOND;
  fake->events[0] = '\0';
  assert_int_equal(
      moe_rt_function_status(fixture->program, fixture->function, place, (void *)0x5151, &bits),
      MOE_RT_OK);
  assert_int_equal(bits, MOE_RT_OFFSETS_BEYOND);
  assert_int_equal(fake->word, 0);
  assert_string_equal(fake->events, "wait for 0x5151; read 0; write 0; ");
  /* The other function reports nothing. */
  fake->word = 1;
  assert_int_equal(moe_rt_function_status(fixture->program,
                                          moe_rt_program_function(fixture->program, 1), place, NULL,
                                          &bits),
                   MOE_RT_OK);
  assert_int_equal(bits, 0);
}

/* ---- From memory ---- */

static void test_memory_bundle(void **state) {
  fixture_t *fixture = *state;
  char path[512];
  size_t size = 0;
  snprintf(path, sizeof path, "%s/manifest.json", fixture->folder);
  char *manifest = read_text(path, &size);
  moe_rt_bundle_t bundle = {.name = "mine",
                            .manifest = manifest,
                            .manifest_bytes = size,
                            .ptx = fixture_ptx,
                            .ptx_bytes = strlen(fixture_ptx)};
  moe_rt_program_t *program = NULL;
  assert_int_equal(moe_rt_program_read_memory(&bundle, &program), MOE_RT_OK);
  assert_string_equal(moe_rt_program_function(program, 0)->name, "quantize_expert_weights");
  assert_string_equal(moe_rt_program_code(program), "none");
  moe_rt_program_destroy(program);
  assert_int_equal(moe_rt_program_load_memory(&fixture->fake.base, &bundle, &program), MOE_RT_OK);
  assert_string_equal(moe_rt_program_code(program), "ptx");
  assert_int_equal(moe_rt_call_run(program, moe_rt_program_function(program, 0), fixture->pointers,
                                   3, &fixture->workspace, NULL),
                   MOE_RT_OK);
  moe_rt_program_destroy(program);
  bundle.cubin = "x";
  bundle.cubin_bytes = 1;
  assert_int_equal(moe_rt_program_read_memory(&bundle, &program), MOE_RT_INVALID_BUNDLE);
  assert_string_equal(moe_rt_last_message(), "mine: has a cubin; the manifest names none");
  bundle.cubin = NULL;
  bundle.ptx_bytes--;
  assert_int_equal(moe_rt_program_read_memory(&bundle, &program), MOE_RT_INVALID_BUNDLE);
  assert_string_equal(moe_rt_last_message(),
                      "mine/kernels.ptx: has 27 bytes; the manifest says 28");
  bundle.manifest_bytes = 10;
  assert_int_equal(moe_rt_program_read_memory(&bundle, &program), MOE_RT_INVALID_BUNDLE);
  assert_non_null(strstr(moe_rt_last_message(), "mine/manifest.json:2:8: "));
  assert_null(program);
  bundle.ptx = NULL;
  assert_int_equal(moe_rt_program_read_memory(&bundle, &program), MOE_RT_INVALID_ARGUMENT);
  assert_int_equal(moe_rt_program_read_memory(NULL, &program), MOE_RT_INVALID_ARGUMENT);
  assert_int_equal(moe_rt_program_load_memory(NULL, &bundle, &program), MOE_RT_INVALID_ARGUMENT);
  free(manifest);
}

/* ---- Threads ---- */

enum { THREADS = 4, ROUNDS = 3000 };

typedef struct worker_t {
  fixture_t own; /* its tensors */
  fixture_t *shared;
  int number;
  bool failed;
} worker_t;

/* Shapes and addresses that change, more than are remembered. */
static void *run_often(void *argument) {
  worker_t *worker = argument;
  for (int i = 0; i < ROUNDS; i++) {
    fixture_set_tensors(&worker->own, FIXTURE_BASE * (uintptr_t)(1 + (i + worker->number) % 7), 3,
                        96, 16 * (1 + (i * (1 + worker->number)) % 100));
    worker->failed |=
        moe_rt_call_run(worker->shared->program, worker->shared->function, worker->own.pointers, 3,
                        &worker->shared->workspace, NULL) != MOE_RT_OK;
  }
  return NULL;
}

static atomic_int wrong_launches;

/* Compares a launch's maps with its scalars: they are of one call. */
static void check_launch(const moe__rt_ready_launch_t *launch) {
  if (strcmp(launch->kernel_name, "quantize") != 0)
    return;
  uint64_t map[16];
  int64_t elements = 0;
  memcpy(map, launch->parameters[0], sizeof map);
  memcpy(&elements, launch->parameters[3], sizeof elements);
  if (map[0] != launch->buffers[0].address || (int64_t)(map[1] * map[2] * map[3]) != elements)
    atomic_fetch_add(&wrong_launches, 1);
}

static void test_threads(void **state) {
  fixture_t *fixture = *state;
  fixture->fake.is_quiet = true;
  fixture->fake.on_launch = check_launch;
  worker_t *workers = calloc(THREADS, sizeof *workers);
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) {
    workers[i].shared = fixture;
    workers[i].number = i;
    assert_int_equal(pthread_create(&threads[i], NULL, run_often, &workers[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    assert_false(workers[i].failed);
  }
  assert_int_equal(fixture->fake.launch_count, 2 * THREADS * ROUNDS);
  assert_int_equal(wrong_launches, 0);
  free(workers);
}

static uint64_t address_of(uint64_t i) {
  return (i * i * i * 7919 + i) << 9; /* scattered: several fall in one set */
}

/* The table forgets what was not used for long, and never mixes up keys or addresses. */
static void test_map_cache(void **state) {
  (void)state;
  moe__rt_map_cache_t *cache = moe__rt_map_cache_make();
  moe__rt_encoded_map_t map;
  int found = 0;
  for (uint64_t key = 1; key <= 100; key++) {
    for (uint64_t i = 0; i < 100; i++) {
      memset(&map, (int)(key + i), sizeof map);
      assert_null(moe__rt_map_cache_find(cache, key, address_of(i)));
      moe__rt_map_cache_put(cache, key, address_of(i), &map);
    }
  }
  for (uint64_t key = 1; key <= 100; key++) {
    for (uint64_t i = 0; i < 100; i++) {
      const unsigned char *bytes = moe__rt_map_cache_find(cache, key, address_of(i));
      if (!bytes)
        continue;
      found++;
      assert_int_equal(bytes[0], (key + i) & 0xFF);
      assert_int_equal(bytes[127], (key + i) & 0xFF);
    }
  }
  assert_in_range(found, 3500, 4096);
  moe__rt_map_cache_destroy(cache);
}

#define RUN_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(int argc, char **argv) {
  require(argc == 2, "usage: runtime_run INPUTS");
  inputs = argv[1];
  const struct CMUnitTest tests[] = {
      RUN_TEST(test_stream),        RUN_TEST(test_like_prepared),
      RUN_TEST(test_in_order),      RUN_TEST(test_maps_remembered),
      RUN_TEST(test_many_shapes),   RUN_TEST(test_checks_after_success),
      RUN_TEST(test_allocator),     RUN_TEST(test_given_workspace),
      RUN_TEST(test_own_workspace), RUN_TEST(test_empty),
      RUN_TEST(test_large),         RUN_TEST(test_results),
      RUN_TEST(test_status),        RUN_TEST(test_memory_bundle),
      RUN_TEST(test_threads),       cmocka_unit_test(test_map_cache),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
