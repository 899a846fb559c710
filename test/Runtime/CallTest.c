/* CallTest.c - what a call checks, and what it would launch.
 *
 * The fake device takes notes, so every number that a GPU would be given is compared here, without
 * one.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "test/Runtime/Fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *inputs;

/* What a program of quantize.json allocates: the status words of runs. */
enum { STATUSES = 1 };

static int set_up(void **state) {
  *state = fixture_create(inputs);
  return 0;
}

static int tear_down(void **state) {
  fixture_destroy(*state);
  return 0;
}

static moe_rt_status_t prepare(fixture_t *fixture, moe_rt_call_t **out_call) {
  return moe_rt_call_prepare(fixture->program, fixture->function, fixture->pointers, 3, out_call);
}

static void expect_failure(fixture_t *fixture, moe_rt_status_t expected, const char *message) {
  moe_rt_call_t *call = (moe_rt_call_t *)&call;
  moe_rt_status_t status = prepare(fixture, &call);
  if (status != expected || !strstr(moe_rt_last_message(), message)) {
    fail_msg("expected '%s', got status %d, '%s'", message, status,
             status == MOE_RT_OK ? "" : moe_rt_last_message());
  }
  assert_null(call);
  assert_int_equal(fixture->fake.live_allocations, STATUSES);
}

/* Prepares, launches once on a stream, and destroys the call. */
static void expect_launches(fixture_t *fixture, int count) {
  moe_rt_call_t *call = NULL;
  if (prepare(fixture, &call) != MOE_RT_OK)
    fail_msg("%s", moe_rt_last_message());
  assert_int_equal(fixture->fake.launch_count, 0);
  assert_int_equal(moe_rt_call_launch(call, (void *)0x5151), MOE_RT_OK);
  assert_int_equal(fixture->fake.launch_count, count);
  moe_rt_call_destroy(call);
}

/* ---- What is launched ---- */

static void test_launches(void **state) {
  fixture_t *fixture = *state;
  fake_device_t *fake = &fixture->fake;
  expect_launches(fixture, 2);

  /* Temporaries: 3 x 64 floats = 768; then what starts as zero, 396 x i32 = 1584 bytes, padded to
   * 1792; then the status word, padded to 256. */
  assert_int_equal(fake->allocated, 768 + 1792 + 256);
  uint64_t workspace = (uint64_t)(uintptr_t)fake->workspace;

  assert_string_equal(fake->launches[0].kernel, "clear");
  assert_int_equal(fake->launches[0].grid[0], 2);
  assert_int_equal(fake->launches[0].block[0], 128);
  assert_int_equal(fake->launches[0].shared_memory, 0);
  assert_int_equal(fake->launches[0].parameter_count, 3);
  assert_int_equal(fake->launches[0].parameters[0], workspace + 768);
  assert_int_equal(fake->launches[0].parameters[1], workspace);
  assert_int_equal(fake->launches[0].parameters[2], 396);
  assert_ptr_equal(fake->launches[0].stream, (void *)0x5151);
  assert_false(fake->launches[0].programmatic);

  /* 3 * ceil(96 / 128) * ceil(416 / 64) = 21 tiles, two blocks each. */
  assert_string_equal(fake->launches[1].kernel, "quantize");
  assert_int_equal(fake->launches[1].grid[0], 42);
  assert_int_equal(fake->launches[1].grid[1], 1);
  assert_int_equal(fake->launches[1].grid[2], 1);
  assert_int_equal(fake->launches[1].block[0], 160);
  assert_int_equal(fake->launches[1].cluster[0], 2);
  assert_int_equal(fake->launches[1].shared_memory, 98304);
  assert_int_equal(fake->launches[1].parameter_count, 7);
  assert_int_equal(fake->launches[1].parameters[0], UINT64_C(0xA0A0A0A0A0A0A0A0));
  assert_int_equal(fake->launches[1].parameters[1], UINT64_C(0xA1A1A1A1A1A1A1A1));
  assert_int_equal((uintptr_t)fake->launches[1].addresses[0] % 64, 0);
  assert_int_equal((uintptr_t)fake->launches[1].addresses[1] % 64, 0);
  assert_int_equal(fake->launches[1].parameters[2], (uintptr_t)fixture->tensors[2].data);
  assert_int_equal(fake->launches[1].parameters[3], 3 * 96 * 416);
  assert_int_equal(fake->launches[1].parameters[4], 3);
  assert_int_equal(fake->launches[1].parameters[5], 3 + 1 + 5);
  assert_int_equal(fake->launches[1].parameters[6], workspace + 1792 + 768);
  assert_true(fake->launches[1].programmatic);
}

/* Temporaries that start as zero are zeroed, and no others, and that is done before prepare
 * returns; launches write nothing. The status words of runs are zeroed when the program is
 * loaded. */
static void test_zeroed(void **state) {
  fixture_t *fixture = *state;
  expect_launches(fixture, 2);
  assert_string_equal(fixture->fake.events, "fill 0+512 with 0 on (nil); wait for (nil); "
                                            "fill 768+2048 with 0 on (nil); wait for (nil); "
                                            "clear on 0x5151; quantize on 0x5151; ");
  fixture->fake.launch_count = 0;
  fixture->fake.fill_status = MOE_RT_DEVICE_ERROR;
  expect_failure(fixture, MOE_RT_DEVICE_ERROR, "workspace: fake fill");
}

/* Reading the status word waits for the stream first, and clears the word only where it is set. */
static void test_status(void **state) {
  fixture_t *fixture = *state;
  fake_device_t *fake = &fixture->fake;
  moe_rt_call_t *call = NULL;
  uint32_t bits = 7;
  assert_int_equal(prepare(fixture, &call), MOE_RT_OK);
  fake->events[0] = '\0';
  assert_int_equal(moe_rt_call_status(call, (void *)0x5151, &bits), MOE_RT_OK);
  assert_int_equal(bits, 0);
  assert_string_equal(fake->events, "wait for 0x5151; read 2560; ");
  fake->events[0] = '\0';
  fake->word = MOE_RT_OFFSETS_DECREASE | MOE_RT_OFFSETS_BEYOND;
  assert_int_equal(moe_rt_call_status(call, (void *)0x5151, &bits), MOE_RT_OK);
  assert_int_equal(bits, 3);
  assert_int_equal(fake->word, 0);
  assert_string_equal(fake->events, "wait for 0x5151; read 2560; write 2560; ");

  assert_int_equal(moe_rt_call_status(call, NULL, NULL), MOE_RT_INVALID_ARGUMENT);
  bits = 7;
  assert_int_equal(moe_rt_call_status(NULL, NULL, &bits), MOE_RT_NOT_PREPARED);
  assert_int_equal(bits, 0);
  moe__rt_fail(MOE_RT_IO_ERROR, "a reason");
  moe__rt_device_lose(&fake->base);
  assert_int_equal(moe_rt_call_status(call, NULL, &bits), MOE_RT_DEVICE_LOST);
  moe_rt_call_destroy(call);
}

/* Loads the fixture's manifest with a value at a place of it; both are given away. */
static void load_damaged(fixture_t *fixture, json_t *at, json_t *value) {
  json_t *manifest = fixture_manifest(inputs);
  json_damage(manifest, at, value);
  moe_rt_program_destroy(fixture->program);
  fixture_load(fixture, manifest);
  json_decref(value);
  json_decref(at);
  json_decref(manifest);
}

/* What launches before a programmatic one use is pending there: but for arguments, and the status
 * word. */
static void test_pending(void **state) {
  fixture_t *fixture = *state;
  static const char *const names[] = {"w", "report", "amax", "s"};
  json_t *parameters = json_array();
  for (int i = 0; i < 4; i++)
    json_array_append_new(parameters,
                          json_pack("{s:s,s:s}", "kind", "pointer", "tensor", names[i]));
  load_damaged(fixture, json_pack("[s,i,s,i,s]", "functions", 0, "launches", 0, "parameters"),
               parameters);
  expect_launches(fixture, 2);
  assert_string_equal(fixture->fake.launches[0].pending, "");
  assert_string_equal(fixture->fake.launches[1].pending, "s");
}

/* A launch is ordinary where all before it are left out: what it would overlap is the caller's. */
static void test_programmatic_without_predecessor(void **state) {
  fixture_t *fixture = *state;
  load_damaged(fixture, json_pack("[s,i,s,i,s,i]", "functions", 0, "launches", 0, "grid", 0),
               json_integer(0));
  expect_launches(fixture, 1);
  assert_string_equal(fixture->fake.launches[0].kernel, "quantize");
  assert_false(fixture->fake.launches[0].programmatic);
}

/* The first launch may start early, too: then all is pending but what is constant and the status
 * word. */
static void test_first_overlaps(void **state) {
  fixture_t *fixture = *state;
  json_t *manifest = fixture_manifest(inputs);
  json_t *at = json_pack("[s,i,s,i,s]", "functions", 0, "launches", 0, "parameters");
  static const char *const names[] = {"w", "report", "amax", "s"};
  json_t *parameters = json_array(), *yes = json_true();
  for (int i = 0; i < 4; i++)
    json_array_append_new(parameters,
                          json_pack("{s:s,s:s}", "kind", "pointer", "tensor", names[i]));
  json_damage(manifest, at, parameters);
  json_array_set_new(at, 4, json_string("programmatic"));
  json_damage(manifest, at, yes);
  moe_rt_program_destroy(fixture->program);
  fixture_load(fixture, manifest);
  expect_launches(fixture, 2);
  assert_true(fixture->fake.launches[0].programmatic);
  assert_string_equal(fixture->fake.launches[0].pending, "wamaxs");

  json_t *constant = json_pack("[s,i,s,i,s]", "functions", 0, "arguments", 0, "constant");
  json_damage(manifest, constant, yes);
  moe_rt_program_destroy(fixture->program);
  fixture_load(fixture, manifest);
  assert_true(fixture->function->arguments[0].is_constant);
  fixture->fake.launch_count = 0;
  memset(fixture->fake.launches, 0, sizeof fixture->fake.launches);
  expect_launches(fixture, 2);
  assert_string_equal(fixture->fake.launches[0].pending, "amaxs");
  json_decref(constant);
  json_decref(parameters);
  json_decref(yes);
  json_decref(at);
  json_decref(manifest);
}

static void test_maps(void **state) {
  fixture_t *fixture = *state;
  expect_launches(fixture, 2);
  assert_int_equal(fixture->fake.map_count, 2);
  const moe__rt_tensor_map_t *w = &fixture->fake.maps[0];
  assert_int_equal(w->address, (uintptr_t)fixture->tensors[0].data);
  assert_int_equal(w->box.element, MOE__RT_MAP_BF16);
  assert_int_equal(w->box.rank, 3);
  assert_int_equal(w->dims[0], 416);
  assert_int_equal(w->dims[1], 96);
  assert_int_equal(w->dims[2], 3);
  assert_int_equal(w->strides[0], 832);
  assert_int_equal(w->strides[1], 96 * 832);
  assert_int_equal(w->box.box[0], 64);
  assert_int_equal(w->box.box[1], 128);
  assert_int_equal(w->box.box[2], 1);
  assert_int_equal(w->box.swizzle, MOE__RT_SWIZZLE_128B);
  assert_int_equal(w->box.promotion, MOE__RT_PROMOTION_256B);
  assert_int_equal(w->box.fill, MOE__RT_FILL_NAN);
  const moe__rt_tensor_map_t *q = &fixture->fake.maps[1];
  assert_int_equal(q->address, (uintptr_t)fixture->tensors[1].data);
  assert_int_equal(q->box.element, MOE__RT_MAP_U8);
  assert_int_equal(q->dims[0], 96);
  assert_int_equal(q->strides[0], 96);
  assert_int_equal(q->box.promotion, MOE__RT_PROMOTION_NONE);
  assert_int_equal(q->box.fill, MOE__RT_FILL_ZERO);
}

/* Puts a size of the box of w's map, which is 96 x 416, in the manifest. */
static void set_box(fixture_t *fixture, json_t *size) {
  load_damaged(
      fixture,
      json_pack("[s,i,s,i,s,i,s,i]", "functions", 0, "launches", 1, "parameters", 0, "box", 1),
      size);
}

static void test_box_of_shape(void **state) {
  fixture_t *fixture = *state;
  set_box(fixture, json_pack("{s:[i,s]}", "min", 128, "w.1"));
  expect_launches(fixture, 2);
  assert_int_equal(fixture->fake.maps[0].box.box[0], 64);
  assert_int_equal(fixture->fake.maps[0].box.box[1], 96);
  set_box(fixture, json_string("w.2"));
  expect_failure(fixture, MOE_RT_INVALID_BUNDLE,
                 "parameter 0, tensor map of 'w': box[1] is 416; it must be 1 to 256");
  set_box(fixture, json_pack("{s:[s,I]}", "mul", "w.1", INT64_C(1) << 32));
  expect_failure(fixture, MOE_RT_INVALID_BUNDLE, "box[1] is 412316860416; it must be 1 to 256");
}

/* More than 2^32 elements: every product is 64-bit. And more work than the device holds
 * clusters. */
static void test_large(void **state) {
  fixture_t *fixture = *state;
  fixture_set_tensors(fixture, FIXTURE_BASE, 64, 16384, 8192);
  expect_launches(fixture, 2);
  assert_int_equal(fixture->fake.launches[1].grid[0], 2 * 65);
  assert_int_equal(fixture->fake.launches[1].parameters[3], INT64_C(64) * 16384 * 8192);
  assert_int_equal(fixture->fake.maps[0].strides[1], INT64_C(16384) * 8192 * 2);
}

static void test_empty(void **state) {
  fixture_t *fixture = *state;
  fixture_set_tensors(fixture, FIXTURE_BASE, 0, 96, 416);
  for (int i = 0; i < 3; i++)
    fixture->tensors[i].data = NULL;
  expect_launches(fixture, 1);
  assert_string_equal(fixture->fake.launches[0].kernel, "clear");
  assert_int_equal(fixture->fake.map_count, 0);
}

static void test_no_workspace(void **state) {
  fixture_t *fixture = *state;
  fixture_without_workspace(fixture);
  moe_rt_call_t *call = NULL;
  assert_int_equal(
      moe_rt_call_prepare(fixture->program, fixture->function, fixture->pointers, 2, &call),
      MOE_RT_OK);
  assert_int_equal(fixture->fake.live_allocations, STATUSES);
  assert_int_equal(moe_rt_call_launch(call, NULL), MOE_RT_OK);
  assert_int_equal(fixture->fake.launches[0].grid[0], INT32_MAX);
  assert_int_equal(fixture->fake.launches[0].grid[2], 65535);
  moe_rt_call_destroy(call);
}

/* ---- What fits ---- */

static void test_accepted(void **state) {
  fixture_t *fixture = *state;
  moe_rt_call_t *call = NULL;
  /* 8-bit floats as bytes, row-major without strides, managed memory only where the device owns it.
   */
  fixture->tensors[1].dtype = (DLDataType){kDLUInt, 8, 1};
  fixture->tensors[2].dtype = (DLDataType){kDLUInt, 8, 1};
  fixture->tensors[0].strides = NULL;
  fixture->tensors[2].strides = NULL;
  assert_int_equal(prepare(fixture, &call), MOE_RT_OK);
  moe_rt_call_destroy(call);

  fixture->tensors[0].data = (char *)fixture->tensors[0].data - 48;
  fixture->tensors[0].byte_offset = 48;
  expect_launches(fixture, 2);
  assert_int_equal(fixture->fake.maps[2].address, UINT64_C(1) << 32);

  /* A dimension of size 1 may have any stride, and makes orders equal. */
  fixture_set_tensors(fixture, FIXTURE_BASE, 1, 32, 16);
  fixture->strides[0][0] = 7;
  fixture->strides[1][0] = -7;
  fixture->strides[2][1] = 0;
  assert_int_equal(prepare(fixture, &call), MOE_RT_OK);
  moe_rt_call_destroy(call);
}

/* ---- What does not ---- */

static void test_counts(void **state) {
  fixture_t *fixture = *state;
  moe_rt_call_t *call = NULL;
  assert_int_equal(
      moe_rt_call_prepare(fixture->program, fixture->function, fixture->pointers, 2, &call),
      MOE_RT_INVALID_ARGUMENT);
  assert_string_equal(moe_rt_last_message(),
                      "function 'quantize_expert_weights': got 2 tensors; it "
                      "takes 1 arguments and 2 results");
  assert_int_equal(moe_rt_call_prepare(fixture->program, fixture->function, NULL, 3, &call),
                   MOE_RT_INVALID_ARGUMENT);
  fixture->pointers[1] = NULL;
  expect_failure(fixture, MOE_RT_INVALID_ARGUMENT, "result 'q': is NULL");
}

static void test_kinds(void **state) {
  fixture_t *fixture = *state;
  static const struct {
    int tensor;
    DLDataType dtype;
    const char *message;
  } cases[] = {
      {0, {kDLFloat, 16, 1}, "argument 'w': has elements of float16; they must be bf16"},
      {0, {kDLUInt, 16, 1}, "argument 'w': has elements of uint16; they must be bf16"},
      {0, {kDLBfloat, 16, 2}, "argument 'w': has elements of bfloat16 with 2 lanes"},
      {1,
       {kDLFloat8_e5m2, 8, 1},
       "result 'q': has elements of float8_e5m2; they must be f8E4M3FN or uint8"},
      {1, {kDLInt, 8, 1}, "result 'q': has elements of int8"},
      {2, {200, 8, 1}, "result 's': has elements of code 200 of 8 bits"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    fixture_set_tensors(fixture, FIXTURE_BASE, 3, 96, 416);
    fixture->tensors[cases[i].tensor].dtype = cases[i].dtype;
    expect_failure(fixture, MOE_RT_INVALID_ARGUMENT, cases[i].message);
  }
  fixture_set_tensors(fixture, FIXTURE_BASE, 3, 96, 416);
  fixture->tensors[0].device = (DLDevice){kDLCPU, 0};
  expect_failure(fixture, MOE_RT_INVALID_ARGUMENT,
                 "argument 'w': is on DLPack device (1, 0), which is not memory of fake:0");
  fixture->tensors[0].device = (DLDevice){kDLCUDA, 1};
  expect_failure(fixture, MOE_RT_INVALID_ARGUMENT, "argument 'w': is on DLPack device (2, 1)");
}

static void test_shapes(void **state) {
  fixture_t *fixture = *state;
  static const struct {
    int tensor, dimension;
    int64_t size;
    const char *message;
  } cases[] = {
      {0, 1, 100, "argument 'w': dimension 1 is 100; it must be a multiple of 32"},
      {0, 2, 8, "argument 'w': dimension 2 is 8; it must be a multiple of 16"},
      {0, 0, -1, "argument 'w': dimension 0 is -1; it must be at least 0"},
      {0, 0, INT64_MAX,
       "argument 'w': dimension 0 is 9223372036854775807; it must be 0 to 1048576"},
      {0, 0, 4, "result 'q': dimension 0 is 3; it must be 4"},
      {1, 2, 400, "result 'q': dimension 2 is 400; it must be 416"},
      {2, 1, 4, "result 's': dimension 1 is 4; it must be 3"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    fixture_set_tensors(fixture, FIXTURE_BASE, 3, 96, 416);
    fixture->shapes[cases[i].tensor][cases[i].dimension] = cases[i].size;
    fixture->tensors[0].strides = cases[i].tensor == 0 ? NULL : fixture->strides[0];
    expect_failure(fixture, MOE_RT_INVALID_ARGUMENT, cases[i].message);
  }
  fixture_set_tensors(fixture, FIXTURE_BASE, 3, 96, 416);
  fixture->tensors[2].ndim = 2;
  expect_failure(fixture, MOE_RT_INVALID_ARGUMENT, "result 's': has rank 2; it must be 3");
  fixture->tensors[2].ndim = 3;
  fixture->tensors[2].shape = NULL;
  expect_failure(fixture, MOE_RT_INVALID_ARGUMENT, "result 's': has no shape");
}

static void test_memory(void **state) {
  fixture_t *fixture = *state;
  fixture->strides[0][1] = 417;
  expect_failure(fixture, MOE_RT_INVALID_ARGUMENT,
                 "argument 'w': dimension 1 has stride 417; it must be 416");
  fixture_set_tensors(fixture, FIXTURE_BASE, 3, 96, 416);
  fixture->tensors[1].strides = NULL;
  expect_failure(fixture, MOE_RT_INVALID_ARGUMENT,
                 "result 'q': dimension 1 has stride 416; it must be 1");
  fixture_set_tensors(fixture, FIXTURE_BASE, 3, 96, 416);
  fixture->tensors[0].data = NULL;
  expect_failure(fixture, MOE_RT_INVALID_ARGUMENT, "argument 'w': has no data");
  fixture_set_tensors(fixture, FIXTURE_BASE, 3, 96, 416);
  fixture->tensors[0].byte_offset = 8;
  expect_failure(fixture, MOE_RT_INVALID_ARGUMENT,
                 "argument 'w': is at 0x100000008; it must be aligned to 16 bytes");
  fixture->tensors[0].byte_offset = UINT64_MAX - 15;
  expect_failure(fixture, MOE_RT_INVALID_ARGUMENT,
                 "argument 'w': reaches past the end of the address space");
  fixture->tensors[0].byte_offset = 0;
  fixture->tensors[0].data = (void *)(UINTPTR_MAX - 4095);
  expect_failure(fixture, MOE_RT_INVALID_ARGUMENT, "reaches past the end of the address space");
}

static void test_overlaps(void **state) {
  fixture_t *fixture = *state;
  char *q = fixture->tensors[1].data;
  fixture->tensors[1].data = q - 16;
  expect_failure(fixture, MOE_RT_INVALID_ARGUMENT, "result 'q' overlaps argument 'w'");
  fixture->tensors[1].data = q + 16;
  expect_failure(fixture, MOE_RT_INVALID_ARGUMENT, "result 's' overlaps result 'q'");
  fixture->tensors[1].data = q;
  moe_rt_call_t *call = NULL;
  assert_int_equal(prepare(fixture, &call), MOE_RT_OK);
  moe_rt_call_destroy(call);
}

static void test_allocation_fails(void **state) {
  fixture_t *fixture = *state;
  fixture->fake.allocate_status = MOE_RT_OUT_OF_MEMORY;
  expect_failure(fixture, MOE_RT_OUT_OF_MEMORY, "workspace: fake allocation");
}

/* Launches whose manifest passes, and whose numbers turn out wrong with these tensors. */
static void test_bad_launches(void **state) {
  fixture_t *fixture = *state;
  static const struct {
    const char *field; /* of launch 1, or of its parameter 0 */
    int index;
    const char *value;
    moe_rt_status_t status;
    const char *message;
  } cases[] = {
      {"grid", 0, "{\"mul\": [\"w.0\", 3]}", MOE_RT_INVALID_ARGUMENT,
       "launch 1, kernel 'quantize': grid[0] is 9; it must be a multiple of the cluster's 2"},
      {"grid", 1, "{\"mul\": [\"w.1\", 1000]}", MOE_RT_INVALID_ARGUMENT,
       "grid[1] is 96000; the limit is 65535"},
      {"grid", 1, "{\"mul\": [\"num_clusters\", 1009]}", MOE_RT_INVALID_ARGUMENT,
       "grid[1] is 65585; the limit is 65535"},
      {"grid", 0, "{\"mul\": [\"w.1\", 1000000000000]}", MOE_RT_INVALID_ARGUMENT,
       "grid[0] is 96000000000000; the limit is 2147483647"},
      {"grid", 0, "{\"mul\": [\"w.1\", 1000000000000000000]}", MOE_RT_INVALID_ARGUMENT,
       "grid[0]: 96 times 1000000000000000000 does not fit 63 bits"},
      {"dims", 1, "{\"ceildiv\": [\"w.1\", {\"min\": [\"w.0\", 0]}]}", MOE_RT_INVALID_ARGUMENT,
       "parameter 0, tensor map of 'w': dims[1]: division of 96 by zero"},
      {"dims", 2, "4", MOE_RT_INVALID_BUNDLE,
       "tensor map of 'w': dims and strides reach past the 239616 bytes of the tensor"},
      {"dims", 0, "0", MOE_RT_INVALID_ARGUMENT, "tensor map of 'w': dims[0] is 0; it must be 1 to"},
      {"strides", 0, "{\"mul\": [\"w.0\", 8]}", MOE_RT_INVALID_ARGUMENT,
       "tensor map of 'w': strides[0] is 24 bytes; it must be a multiple of 16"},
      {"tensor", -1, "\"q\"", MOE_RT_INVALID_BUNDLE, "tensor map of 'q': dims and strides reach"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    json_t *manifest = fixture_manifest(inputs);
    json_t *launch = json_array_get(
        json_object_get(json_array_get(json_object_get(manifest, "functions"), 0), "launches"), 1);
    json_t *owner = json_object_get(launch, cases[i].field)
                        ? launch
                        : json_array_get(json_object_get(launch, "parameters"), 0);
    json_t *value = json_loads(cases[i].value, JSON_DECODE_ANY, NULL);
    if (cases[i].index < 0)
      json_object_set(owner, cases[i].field, value);
    else
      json_array_set(json_object_get(owner, cases[i].field), (size_t)cases[i].index, value);
    json_decref(value);
    moe_rt_program_destroy(fixture->program);
    fixture_load(fixture, manifest);
    json_decref(manifest);
    expect_failure(fixture, cases[i].status, cases[i].message);
  }
}

/* A scalar that fits its type in the manifest and not with these shapes. */
static void test_scalar_overflow(void **state) {
  fixture_t *fixture = *state;
  load_damaged(fixture,
               json_pack("[s,i,s,i,s,i,s]", "functions", 0, "launches", 1, "parameters", 3, "type"),
               json_string("i32"));
  expect_launches(fixture, 2);
  fixture_set_tensors(fixture, FIXTURE_BASE, 64, 16384, 8192);
  expect_failure(fixture, MOE_RT_INVALID_ARGUMENT, "parameter 3: 8589934592 does not fit i32");
}

/* ---- Launching ---- */

static void test_launch_errors(void **state) {
  fixture_t *fixture = *state;
  moe_rt_call_t *call = NULL;
  assert_int_equal(prepare(fixture, &call), MOE_RT_OK);
  fixture->fake.launch_status = MOE_RT_DEVICE_ERROR;
  assert_int_equal(moe_rt_call_launch(call, NULL), MOE_RT_DEVICE_ERROR);
  assert_string_equal(moe_rt_last_message(), "fake:0: kernel 'clear': fake fault");
  fixture->fake.launch_status = MOE_RT_OK;
  assert_int_equal(moe_rt_call_launch(call, NULL), MOE_RT_OK);

  /* The first reason stays, whatever is called after it. */
  fixture->fake.launch_status = MOE_RT_DEVICE_LOST;
  for (int i = 0; i < 2; i++) {
    moe__rt_fail(MOE_RT_IO_ERROR, "something else");
    assert_int_equal(moe_rt_call_launch(call, NULL), MOE_RT_DEVICE_LOST);
    assert_string_equal(moe_rt_last_message(), "fake:0: lost: fake fault");
    fixture->fake.launch_status = MOE_RT_OK;
  }
  moe__rt_fail(MOE_RT_IO_ERROR, "a second reason");
  assert_int_equal(moe__rt_device_lose(&fixture->fake.base), MOE_RT_DEVICE_LOST);
  void *pointer = NULL;
  assert_int_equal(moe_rt_memory_allocate(&fixture->fake.base, 1, &pointer), MOE_RT_DEVICE_LOST);
  assert_string_equal(moe_rt_last_message(), "fake:0: lost: fake fault");
  moe_rt_call_destroy(call);
  expect_failure(fixture, MOE_RT_DEVICE_LOST, "fake:0: lost: fake fault");
}

enum { THREADS = 4, ROUNDS = 2000 };

static void *launch_often(void *argument) {
  const moe_rt_call_t *call = argument;
  for (int i = 0; i < ROUNDS; i++) {
    if (moe_rt_call_launch(call, NULL) != MOE_RT_OK)
      return NULL;
  }
  return argument;
}

static void test_threads(void **state) {
  fixture_t *fixture = *state;
  moe_rt_call_t *call = NULL;
  assert_int_equal(prepare(fixture, &call), MOE_RT_OK);
  fixture->fake.is_quiet = true;
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, launch_often, call), 0);
  for (int i = 0; i < THREADS; i++) {
    void *result = NULL;
    pthread_join(threads[i], &result);
    assert_ptr_equal(result, call);
  }
  assert_int_equal(fixture->fake.launch_count, 2 * THREADS * ROUNDS);
  moe_rt_call_destroy(call);
}

#define CALL_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(int argc, char **argv) {
  require(argc == 2, "usage: call_test INPUTS");
  inputs = argv[1];
  const struct CMUnitTest tests[] = {
      CALL_TEST(test_launches),       CALL_TEST(test_maps),
      CALL_TEST(test_large),          CALL_TEST(test_empty),
      CALL_TEST(test_no_workspace),   CALL_TEST(test_accepted),
      CALL_TEST(test_counts),         CALL_TEST(test_kinds),
      CALL_TEST(test_shapes),         CALL_TEST(test_memory),
      CALL_TEST(test_overlaps),       CALL_TEST(test_allocation_fails),
      CALL_TEST(test_bad_launches),   CALL_TEST(test_scalar_overflow),
      CALL_TEST(test_launch_errors),  CALL_TEST(test_threads),
      CALL_TEST(test_zeroed),         CALL_TEST(test_status),
      CALL_TEST(test_pending),        CALL_TEST(test_programmatic_without_predecessor),
      CALL_TEST(test_first_overlaps), CALL_TEST(test_box_of_shape),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
