/* ExchangeTest.c - tensors that are objects of a framework: its table is asked for all there is
 * to know.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "test/Runtime/FakeDevice.h"
#include "test/Runtime/Support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char ptx_text[] = ".version 8.0\n.target sm_90a\n";
static const char *inputs;

/* ---- A framework whose objects are DLTensors ---- */

enum { UNALIGNED = 16 };

static int allocations, releases, asked_bytes;
static bool is_out_of_memory;
static DLDevice asked_device;

static int view(void *object, DLTensor *out) {
  if (!object)
    return -1;
  *out = *(DLTensor *)object;
  return 0;
}

static void release(DLManagedTensorVersioned *self) {
  (void)self;
  releases++;
}

static int allocate(DLTensor *prototype, DLManagedTensorVersioned **out, void *context,
                    void (*set_error)(void *, const char *, const char *)) {
  static DLManagedTensorVersioned memory;
  allocations++;
  asked_bytes = (int)prototype->shape[0];
  asked_device = prototype->device;
  if (is_out_of_memory) {
    set_error(context, "MemoryError", "all is taken");
    return -1;
  }
  memory = (DLManagedTensorVersioned){
      .deleter = release, .dl_tensor = {.data = (void *)(uintptr_t)(0x6000000000 + UNALIGNED)}};
  *out = &memory;
  return 0;
}

static int current_stream(DLDeviceType type, int32_t id, void **out) {
  assert_int_equal(type, kDLCUDA);
  *out = (void *)(uintptr_t)(0x5151 + id);
  return 0;
}

static const DLPackExchangeAPI framework = {
    .header = {.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION}},
    .managed_tensor_allocator = allocate,
    .dltensor_from_py_object_no_sync = view,
    .current_work_stream = current_stream,
};

/* ---- quantize.json on a fake device ---- */

static fake_device_t fake;
static char *folder;
static moe_rt_program_t *program;
static const moe_rt_function_info_t *function;

static int set_up(void **state) {
  (void)state;
  fake_device_init(&fake);
  char path[512];
  snprintf(path, sizeof path, "%s/quantize.json", inputs);
  json_t *manifest = read_json(path), *yes = json_true();
  json_t *at = json_pack("[s,i,s,i,s]", "functions", 0, "launches", 0, "programmatic");
  json_damage(manifest, at, yes);
  json_decref(at);
  json_decref(yes);
  folder = folder_make();
  bundle_write(folder, manifest, ptx_text, NULL, 0);
  json_decref(manifest);
  require(moe_rt_program_load(&fake.base, folder, &program) == MOE_RT_OK, moe_rt_last_message());
  function = moe_rt_program_function(program, 0);
  allocations = releases = 0;
  is_out_of_memory = false;
  fake.events[0] = '\0';
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  moe_rt_program_destroy(program);
  moe_rt_device_close(&fake.base);
  folder_remove(folder);
  return 0;
}

enum { E = 3, N = 96, K = 416 };

static DLTensor tensors[3];
static moe_rt_object_call_t call;
static void *objects[MOE_RT_MAX_OBJECTS];

static moe_rt_status_t run(void) {
  return moe_rt_call_run_objects(&call, objects, 3);
}

static void set_tensors(void) {
  call = (moe_rt_object_call_t){.program = program, .function = function, .framework = &framework};
  static int64_t shapes[3][3] = {{E, N, K}, {E, N, K}, {E, N / 32, K}};
  static int64_t strides[3][3] = {{N * K, K, 1}, {N * K, 1, N}, {N / 32 * K, K, 1}};
  static const DLDataType dtypes[3] = {
      {kDLBfloat, 16, 1}, {kDLFloat8_e4m3fn, 8, 1}, {kDLFloat8_e8m0fnu, 8, 1}};
  for (int i = 0; i < 3; i++) {
    tensors[i] = (DLTensor){.data = (void *)(uintptr_t)(0x100000000 + i * 0x1000000),
                            .device = {kDLCUDA, 0},
                            .ndim = 3,
                            .dtype = dtypes[i],
                            .shape = shapes[i],
                            .strides = strides[i]};
    objects[i] = &tensors[i];
  }
}

static void expect_failure(moe_rt_status_t status, moe_rt_status_t expected, const char *message) {
  if (status != expected || !strstr(moe_rt_last_message(), message))
    fail_msg("expected '%s', got status %d, '%s'", message, status, moe_rt_last_message());
  assert_int_equal(fake.launch_count, 0);
}

/* The framework's stream, and its memory, aligned and given back. */
static void test_run(void **state) {
  (void)state;
  set_tensors();
  fake.workspace = (void *)0x6000000100;
  if (run() != MOE_RT_OK)
    fail_msg("%s", moe_rt_last_message());
  assert_string_equal(fake.events,
                      "fill 768+1792 with 0 on 0x5151; clear on 0x5151; quantize on 0x5151; ");
  assert_int_equal(allocations, 1);
  assert_int_equal(releases, 1);
  assert_true(asked_bytes >= 768 + 1792 + 256 - UNALIGNED);
  assert_int_equal(asked_device.device_type, kDLCUDA);
  assert_true(fake.launches[0].programmatic);
  call.in_order = true;
  assert_int_equal(run(), MOE_RT_OK);
  assert_false(fake.launches[2].programmatic);
}

static void test_errors(void **state) {
  (void)state;
  set_tensors();
  DLPackExchangeAPI other = framework;
  other.header.version.major = DLPACK_MAJOR_VERSION + 1;
  call.framework = &other;
  expect_failure(run(), MOE_RT_INVALID_ARGUMENT, "no exchange table of DLPack 1");
  call.framework = NULL;
  expect_failure(run(), MOE_RT_INVALID_ARGUMENT, "no exchange table");
  set_tensors();
  call.function = NULL;
  expect_failure(run(), MOE_RT_INVALID_ARGUMENT, "function is NULL");
  set_tensors();
  expect_failure(moe_rt_call_run_objects(&call, objects, 2), MOE_RT_INVALID_ARGUMENT,
                 "got 2 tensors; it takes 1 arguments and 2 results");
  expect_failure(moe_rt_call_run_objects(&call, objects, MOE_RT_MAX_OBJECTS + 1),
                 MOE_RT_INVALID_ARGUMENT, "got 33 tensors; it must be 1 to 32");
  expect_failure(moe_rt_call_run_objects(&call, NULL, 3), MOE_RT_INVALID_ARGUMENT, "got 0 tensors");
  objects[1] = NULL;
  expect_failure(run(), MOE_RT_INVALID_ARGUMENT, "tensor 1 has no view");
  set_tensors();
  is_out_of_memory = true;
  expect_failure(run(), MOE_RT_OUT_OF_MEMORY, "MemoryError: all is taken");
  assert_int_equal(releases, 0);
}

/* A newer table points to the older one that we know. */
static void test_older_table(void **state) {
  (void)state;
  set_tensors();
  DLPackExchangeAPI newer = {.header = {.version = {DLPACK_MAJOR_VERSION + 1, 0},
                                        .prev_api = (DLPackExchangeAPIHeader *)&framework.header}};
  call.framework = &newer;
  assert_int_equal(run(), MOE_RT_OK);
  assert_int_equal(fake.launch_count, 2);
}

int main(int argc, char **argv) {
  require(argc == 2, "usage: runtime_exchange INPUTS");
  inputs = argv[1];
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_run, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_errors, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_older_table, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
