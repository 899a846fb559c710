/* CudaBackendTest.c - the CUDA backend on a driver that is not there.
 *
 * Runs with FakeCuda.c as libcuda.so.1: what reaches the driver, in which context, and what its
 * errors become.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "test/Runtime/FakeCuda.h"
#include "test/Runtime/Support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *inputs;
static fake_cuda_t *fake;
static moe__rt_cu_result_t (*set_context)(moe__rt_cu_context_t context);
static moe__rt_cu_result_t (*get_context)(moe__rt_cu_context_t *context);
static moe_rt_device_t *device;
static int shared_devices;

static int set_up(void **state) {
  (void)state;
  memset(fake, 0, sizeof *fake);
  fake->clusters = 66;
  set_context(NULL);
  if (moe_rt_device_open("cuda:1", &device) != MOE_RT_OK)
    fail_msg("%s", moe_rt_last_message());
  return 0;
}

/* Whatever a test did: every call found the primary context, and the thread's own is current again.
 */
static int tear_down(void **state) {
  (void)state;
  moe__rt_cu_context_t context = (moe__rt_cu_context_t)&context;
  moe_rt_device_close(device);
  /* The process's own devices are never closed, and opened but once. */
  shared_devices += fake->retained - fake->released;
  require(shared_devices <= 2, "a context was not released");
  require(fake->loaded == fake->unloaded, "code was not unloaded");
  require(fake->calls_without_context == 0, "a call was made outside of the context");
  get_context(&context);
  require(context == NULL, "a context was left behind");
  return 0;
}

/* The tiny bundle without the function and kernel that the fake driver does not have. */
static moe_rt_status_t load(const void *cubin, size_t cubin_size, bool complete,
                            moe_rt_program_t **out_program) {
  static const char ptx[] = ".version 8.0\n.target sm_90a\n";
  char path[512];
  snprintf(path, sizeof path, "%s/tiny/manifest.json", inputs);
  json_t *manifest = read_json(path);
  json_object_set_new(json_object_get(manifest, "artifacts"), "cubin",
                      json_pack("{s:s,s:s}", "file", "kernels.cubin", "assembler", "ptxas"));
  if (!complete) {
    json_array_remove(json_object_get(manifest, "kernels"), 3);
    json_array_remove(json_object_get(manifest, "functions"), 3);
  }
  char *folder = folder_make();
  bundle_write(folder, manifest, ptx, cubin, cubin_size);
  moe_rt_status_t status = device ? moe_rt_program_load(device, folder, out_program)
                                  : moe_rt_program_read(folder, out_program);
  folder_remove(folder);
  json_decref(manifest);
  return status;
}

static void test_info(void **state) {
  (void)state;
  moe_rt_device_info_t info;
  assert_int_equal(moe_rt_device_info(device, &info), MOE_RT_OK);
  assert_string_equal(info.name, "Fake 101");
  assert_int_equal(info.ordinal, 1);
  assert_int_equal(info.compute_major, 9);
  assert_int_equal(info.compute_minor, 0);
  assert_int_equal(info.num_sms, 132);
  assert_int_equal(info.l2_bytes, 50 << 20);
  assert_int_equal(info.shared_memory_per_block, 232448);
  assert_int_equal(info.total_memory, INT64_C(101) << 30);
  assert_int_equal(info.driver_version, 12000);
  moe_rt_device_t *none = NULL;
  assert_int_equal(moe_rt_device_open("cuda:2", &none), MOE_RT_NO_DEVICE);
  assert_string_equal(moe_rt_last_message(), "cuda:2: this machine has 2");
}

static void use_memory(void) {
  char host[] = "abcd";
  char other[5] = "";
  char third[5] = "";
  void *stream = NULL;
  void *event = NULL;
  float milliseconds = 0;
  assert_int_equal(moe_rt_stream_create(device, &stream), MOE_RT_OK);
  assert_int_equal(moe_rt_memory_to_device(device, other, host, 5), MOE_RT_OK);
  assert_int_equal(moe_rt_memory_fill(device, other + 1, 'x', 2, stream), MOE_RT_OK);
  assert_int_equal(moe_rt_memory_copy(device, third, other, 5, stream), MOE_RT_OK);
  assert_int_equal(moe_rt_memory_from_device(device, host, third, 5), MOE_RT_OK);
  assert_string_equal(host, "axxd");
  assert_int_equal(moe_rt_event_create(device, &event), MOE_RT_OK);
  assert_int_equal(moe_rt_event_record(device, event, stream), MOE_RT_OK);
  assert_int_equal(moe_rt_event_elapsed(device, event, event, &milliseconds), MOE_RT_OK);
  assert_true(milliseconds == 1.5F);
  assert_int_equal(moe_rt_stream_synchronize(device, stream), MOE_RT_OK);
  moe_rt_event_destroy(device, event);
  moe_rt_stream_destroy(device, stream);
}

static void test_context(void **state) {
  (void)state;
  moe__rt_cu_context_t found = NULL;
  moe__rt_cu_context_t foreign = (moe__rt_cu_context_t)&found;
  use_memory();
  get_context(&found);
  assert_null(found);
  set_context(foreign);
  use_memory();
  fake->next_result = 1;
  assert_int_equal(moe_rt_stream_synchronize(device, NULL), MOE_RT_DEVICE_ERROR);
  get_context(&found);
  assert_ptr_equal(found, foreign);
  set_context(NULL);
}

static void test_errors(void **state) {
  (void)state;
  void *pointer = NULL;
  fake->next_result = 2;
  assert_int_equal(moe_rt_memory_allocate(device, 12345, &pointer), MOE_RT_OUT_OF_MEMORY);
  assert_null(pointer);
  assert_string_equal(moe_rt_last_message(),
                      "cuda:1: cuMemAlloc of 12345 bytes: ERROR_2 (2): no description");
  static const int harmless[] = {1, 699, 701, 709, 720};
  for (size_t i = 0; i < sizeof harmless / sizeof harmless[0]; i++) {
    fake->next_result = harmless[i];
    assert_int_equal(moe_rt_stream_synchronize(device, NULL), MOE_RT_DEVICE_ERROR);
    assert_int_equal(moe_rt_stream_synchronize(device, NULL), MOE_RT_OK);
  }
  static const int poison[] = {700, 710, 715, 719};
  for (size_t i = 0; i < sizeof poison / sizeof poison[0]; i++) {
    char message[128];
    snprintf(message, sizeof message,
             "cuda:1: lost: cuStreamSynchronize: ERROR_%d (%d): no description", poison[i],
             poison[i]);
    fake->next_result = poison[i];
    assert_int_equal(moe_rt_stream_synchronize(device, NULL), MOE_RT_DEVICE_LOST);
    assert_string_equal(moe_rt_last_message(), message);
    assert_int_equal(moe_rt_memory_allocate(device, 1, &pointer), MOE_RT_DEVICE_LOST);
    assert_string_equal(moe_rt_last_message(), message);
    moe_rt_device_close(device);
    assert_int_equal(moe_rt_device_open("cuda:1", &device), MOE_RT_OK);
  }
}

static void test_code(void **state) {
  (void)state;
  size_t size = 0;
  const void *cubin = empty_cubin(&size);
  moe_rt_program_t *program = NULL;
  assert_int_equal(load(cubin, size, false, &program), MOE_RT_OK);
  assert_string_equal(moe_rt_program_code(program), "cubin");
  assert_int_equal(fake->kernels_loaded, 3);
  assert_int_equal(fake->shared_memory, 65536);
  moe_rt_program_destroy(program);

  static const int refusals[] = {200, 209, 218, 221, 222, 223};
  for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
    fake->cubin_result = refusals[i];
    fake->ptx_result = 0;
    assert_int_equal(load(cubin, size, false, &program), MOE_RT_OK);
    assert_string_equal(moe_rt_program_code(program), "ptx");
    moe_rt_program_destroy(program);
    fake->ptx_result = refusals[i];
    assert_int_equal(load(cubin, size, false, &program), MOE_RT_UNSUPPORTED);
    char message[256];
    snprintf(message, sizeof message,
             "kernels.cubin: cuLibraryLoadData: ERROR_%d (%d): no description; kernels.ptx: "
             "cuLibraryLoadData: ERROR_%d (%d): no description: line 3: unknown word",
             refusals[i], refusals[i], refusals[i], refusals[i]);
    assert_string_equal(strstr(moe_rt_last_message(), "kernels.cubin"), message);
  }
  fake->cubin_result = 2;
  fake->ptx_result = 0;
  assert_int_equal(load(cubin, size, false, &program), MOE_RT_OUT_OF_MEMORY);
  fake->cubin_result = 0;
  assert_int_equal(load(cubin, size, true, &program), MOE_RT_INVALID_BUNDLE);
  assert_non_null(
      strstr(moe_rt_last_message(), "kernel 'store_at': the code has no such entry point"));
}

/* "add" runs in clusters of two, "copy" alone and with tensor maps; its second launch is
 * programmatic. */
static void test_launch(void **state) {
  (void)state;
  moe_rt_program_t *program = NULL;
  fake->clusters = 0;
  assert_int_equal(load(NULL, 0, false, &program), MOE_RT_UNSUPPORTED);
  assert_non_null(
      strstr(moe_rt_last_message(), "kernel 'add_n': cuda:1 holds no cluster of 2 blocks"));
  fake->clusters = 66;
  assert_int_equal(load(NULL, 0, false, &program), MOE_RT_OK);
  assert_int_equal(fake->occupancy.grid[0], 2);
  assert_int_equal(fake->occupancy.block[0], 256);
  assert_int_equal(fake->occupancy.shared_memory, 0);
  int64_t shape[] = {1000, 64};
  DLTensor x = {.data = (void *)0x100000,
                .device = {kDLCUDA, 1},
                .ndim = 1,
                .dtype = {kDLInt, 32, 1},
                .shape = shape};
  DLTensor y = x;
  y.data = (void *)0x200000;
  y.device = (DLDevice){kDLCUDAManaged, 0};
  const DLTensor *tensors[] = {&x, &y};
  moe_rt_call_t *call = NULL;
  const moe_rt_function_info_t *function = moe_rt_program_function(program, 0);
  assert_int_equal(moe_rt_call_prepare(program, function, tensors, 2, &call), MOE_RT_OK);
  assert_int_equal(moe_rt_call_launch(call, (void *)0x77), MOE_RT_OK);
  assert_int_equal(fake->launch.grid[0], 4);
  assert_int_equal(fake->launch.grid[1], 1);
  assert_int_equal(fake->launch.block[0], 256);
  assert_int_equal(fake->launch.shared_memory, 0);
  assert_ptr_equal(fake->launch.stream, (void *)0x77);
  assert_int_equal(fake->launch.attribute_count, 1);
  assert_int_equal(fake->attributes[0].id, MOE__RT_CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
  assert_int_equal(fake->attributes[0].value.cluster.x, 2);
  assert_int_equal(fake->attributes[0].value.cluster.y, 1);
  assert_int_equal(fake->attributes[0].value.cluster.z, 1);
  assert_non_null(fake->launched);
  assert_int_equal(*(uint64_t *)fake->parameters[1], 0x200000);
  assert_int_equal(*(uint64_t *)fake->parameters[2], 1000);
  moe_rt_call_destroy(call);

  x.ndim = y.ndim = 2;
  x.dtype = y.dtype = (DLDataType){kDLFloat, 32, 1};
  function = moe_rt_program_function(program, 1);
  assert_int_equal(moe_rt_call_prepare(program, function, tensors, 2, &call), MOE_RT_OK);
  assert_int_equal(fake->allocated, 2); /* status words, workspace */
  assert_int_equal(moe_rt_call_launch(call, NULL), MOE_RT_OK);
  assert_int_equal(fake->launch.grid[0], 2);
  assert_int_equal(fake->launch.grid[1], 125);
  assert_int_equal(fake->launch.shared_memory, 65536);
  assert_int_equal(fake->launch.attribute_count, 1);
  assert_int_equal(fake->attributes[0].id,
                   MOE__RT_CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
  assert_int_equal(fake->attributes[0].value.programmatic, 1);
  assert_null(fake->launch.stream);
  assert_int_equal(*(unsigned char *)fake->parameters[1], 0xCC);
  assert_int_equal(fake->map.element, 7);
  assert_int_equal(fake->map.rank, 2);
  assert_int_equal(fake->map.address, 0x200000);
  assert_int_equal(fake->map.dims[0], 64);
  assert_int_equal(fake->map.dims[1], 1000);
  assert_int_equal(fake->map.strides[0], 256);
  assert_int_equal(fake->map.box[0], 32);
  assert_int_equal(fake->map.box[1], 8);
  assert_int_equal(fake->map.element_strides[1], 1);
  assert_int_equal(fake->map.interleave, 0);
  assert_int_equal(fake->map.swizzle, 0);
  assert_int_equal(fake->map.promotion, 1);
  assert_int_equal(fake->map.fill, 1);
  moe_rt_call_destroy(call);
  assert_int_equal(fake->freed, 1);
  moe_rt_program_destroy(program);
  assert_int_equal(fake->freed, 2);
}

/* A call of the function that has a status word; the caller destroys it. */
static moe_rt_call_t *prepare_with_status(moe_rt_program_t *program) {
  int64_t sizes[] = {100, 1};
  DLTensor x = {.data = (void *)0x100000,
                .device = {kDLCUDA, 1},
                .ndim = 1,
                .dtype = {kDLInt, 32, 1},
                .shape = &sizes[0]};
  DLTensor y = x;
  y.data = (void *)0x200000;
  y.shape = &sizes[1];
  const DLTensor *tensors[] = {&x, &y};
  moe_rt_call_t *call = NULL;
  const moe_rt_function_info_t *function = moe_rt_program_function(program, 2);
  assert_int_equal(moe_rt_call_prepare(program, function, tensors, 2, &call), MOE_RT_OK);
  return call;
}

/* The status word is zero when the call has been prepared, and after it has been read. */
static void test_status(void **state) {
  (void)state;
  moe_rt_program_t *program = NULL;
  assert_int_equal(load(NULL, 0, false, &program), MOE_RT_OK);
  moe_rt_call_t *call = prepare_with_status(program);
  assert_int_equal(moe_rt_call_launch(call, (void *)0x77), MOE_RT_OK);
  assert_int_equal(fake->launch.attribute_count, 0);
  uint32_t *word = (uint32_t *)(uintptr_t) * (uint64_t *)fake->parameters[0];
  assert_int_equal(*word, 0);
  *word = 2;
  uint32_t bits = 0;
  assert_int_equal(moe_rt_call_status(call, (void *)0x77, &bits), MOE_RT_OK);
  assert_int_equal(bits, 2);
  assert_int_equal(*word, 0);
  fake->next_result = 1;
  assert_int_equal(moe_rt_call_status(call, (void *)0x77, &bits), MOE_RT_DEVICE_ERROR);
  assert_string_equal(moe_rt_last_message(),
                      "cuda:1: cuStreamSynchronize: ERROR_1 (1): no description");
  moe_rt_call_destroy(call);
  moe_rt_program_destroy(program);
}

/* ---- Runs ---- */

static moe__rt_cu_context_t launch_context;
static uint64_t launch_pointer;

static void note_launch(const moe__rt_cu_launch_config_t *config, void **parameters) {
  (void)config;
  get_context(&launch_context);
  launch_pointer = *(uint64_t *)parameters[1];
}

/* "add" of the tiny bundle on tensors of a device. */
static moe_rt_status_t run_add(const moe_rt_program_t *program, int ordinal, void *stream) {
  int64_t shape[] = {1000};
  DLTensor x = {.data = (void *)0x100000,
                .device = {kDLCUDA, ordinal},
                .ndim = 1,
                .dtype = {kDLInt, 32, 1},
                .shape = shape};
  DLTensor y = x;
  y.data = (void *)0x200000;
  const DLTensor *tensors[] = {&x, &y};
  return moe_rt_call_run(program, moe_rt_program_function(program, 0), tensors, 2, NULL, stream);
}

static moe_rt_program_t *read_tiny(void) {
  moe_rt_device_t *own = device;
  moe_rt_program_t *program = NULL;
  device = NULL; /* load() then reads only */
  moe_rt_status_t status = load(NULL, 0, false, &program);
  device = own;
  require(status == MOE_RT_OK, moe_rt_last_message());
  return program;
}

/* One program on two devices: each launch in the context of its tensors' device, loaded there once,
 * and no program can be loaded while the stream is captured. */
static void test_devices(void **state) {
  (void)state;
  moe_rt_program_t *program = read_tiny();
  fake->on_launch = note_launch;
  int loaded_before = fake->loaded;
  fake->capturing = 1;
  int64_t length = 1000;
  DLTensor x = {.device = {kDLCUDA, 0}, .ndim = 1, .dtype = {kDLInt, 32, 1}, .shape = &length};
  const DLTensor *arguments[] = {&x};
  moe_rt_result_t result;
  assert_int_equal(moe_rt_call_results(program, moe_rt_program_function(program, 0), arguments, 1,
                                       &result, NULL),
                   MOE_RT_OK);
  assert_int_equal(result.shape[0], 1000);
  assert_int_equal(run_add(program, 0, (void *)0x77), MOE_RT_NOT_PREPARED);
  assert_non_null(strstr(moe_rt_last_message(), "while the stream is captured"));
  assert_int_equal(fake->loaded, loaded_before);
  const moe_rt_program_t *on[2];
  moe__rt_cu_context_t contexts[2];
  for (int i = 0; i < 2; i++) {
    assert_int_equal(moe_rt_program_on(program, (DLDevice){kDLCUDA, i}, &on[i]), MOE_RT_OK);
    assert_int_equal(fake->loaded, loaded_before + 1 + i);
    int waits = fake->waits;
    moe__rt_cu_context_t foreign = (moe__rt_cu_context_t)&foreign;
    set_context(foreign);
    assert_int_equal(run_add(program, i, (void *)0x77), MOE_RT_OK); /* captured all the same */
    moe__rt_cu_context_t after = NULL;
    get_context(&after);
    assert_ptr_equal(after, foreign);
    set_context(NULL);
    contexts[i] = launch_context;
    assert_int_equal(launch_pointer, 0x200000);
    assert_int_equal(fake->waits, waits);
  }
  assert_ptr_not_equal(contexts[0], contexts[1]);
  const moe_rt_program_t *again = NULL;
  assert_int_equal(moe_rt_program_on(program, (DLDevice){kDLCUDA, 1}, &again), MOE_RT_OK);
  assert_ptr_equal(again, on[1]);
  assert_string_equal(moe_rt_program_code(again), "ptx");
  for (int i = 0; i < 2; i++) { /* any device could read managed memory: its number decides */
    assert_int_equal(moe_rt_program_on(program, (DLDevice){kDLCUDAManaged, i}, &again), MOE_RT_OK);
    assert_ptr_equal(again, on[i]);
  }
  assert_int_equal(run_add(on[1], 1, NULL), MOE_RT_OK);
  assert_int_equal(run_add(on[1], 0, NULL), MOE_RT_INVALID_ARGUMENT);
  assert_non_null(
      strstr(moe_rt_last_message(), "is on DLPack device (2, 0), which is not memory of cuda:1"));
  assert_int_equal(moe_rt_program_on(on[1], (DLDevice){kDLCUDA, 0}, &again),
                   MOE_RT_INVALID_ARGUMENT);
  assert_int_equal(run_add(program, 2, NULL), MOE_RT_NO_DEVICE);
  assert_int_equal(run_add(program, 64, NULL), MOE_RT_NO_DEVICE);
  assert_int_equal(run_add(program, -1, NULL), MOE_RT_NO_DEVICE);
  moe_rt_program_destroy(program);
}

/* Threads that load one program at once load it once. */
static void *run_once(void *program) {
  return run_add(program, 1, NULL) == MOE_RT_OK ? program : NULL;
}

static void test_lazy_load_in_threads(void **state) {
  (void)state;
  moe_rt_program_t *program = read_tiny();
  pthread_t threads[4];
  int loaded_before = fake->loaded;
  for (int i = 0; i < 4; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, run_once, program), 0);
  for (int i = 0; i < 4; i++) {
    void *result = NULL;
    pthread_join(threads[i], &result);
    assert_ptr_equal(result, program);
  }
  assert_int_equal(fake->loaded, loaded_before + 1);
  assert_int_equal(fake->launches, 4);
  moe_rt_program_destroy(program);
}

/* Threads that launch one prepared call, each on a stream of its own. */
enum { LAUNCHES = 500 };

static void *launch_often(void *call) {
  for (int i = 0; i < LAUNCHES; i++) {
    if (moe_rt_call_launch(call, &call) != MOE_RT_OK)
      return NULL;
  }
  return call;
}

static void test_call_in_threads(void **state) {
  (void)state;
  moe_rt_program_t *program = NULL;
  assert_int_equal(load(NULL, 0, false, &program), MOE_RT_OK);
  moe_rt_call_t *call = prepare_with_status(program);
  pthread_t threads[4];
  int launches = fake->launches;
  for (int i = 0; i < 4; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, launch_often, call), 0);
  for (int i = 0; i < 4; i++) {
    void *result = NULL;
    pthread_join(threads[i], &result);
    assert_ptr_equal(result, call);
  }
  assert_int_equal(fake->launches, launches + 4 * LAUNCHES);
  moe_rt_call_destroy(call);
  moe_rt_program_destroy(program);
}

/* A workspace of the driver's pool is taken and given back on the stream; maps are encoded once. */
static void test_run_maps(void **state) {
  (void)state;
  moe_rt_program_t *program = NULL;
  assert_int_equal(load(NULL, 0, false, &program), MOE_RT_OK);
  int64_t shape[] = {1000, 64};
  DLTensor x = {.data = (void *)0x100000,
                .device = {kDLCUDA, 1},
                .ndim = 2,
                .dtype = {kDLFloat, 32, 1},
                .shape = shape};
  DLTensor y = x;
  y.data = (void *)0x200000;
  const DLTensor *tensors[] = {&x, &y};
  const moe_rt_function_info_t *function = moe_rt_program_function(program, 1);
  for (int i = 1; i <= 3; i++) {
    assert_int_equal(moe_rt_call_run(program, function, tensors, 2, NULL, (void *)0x77), MOE_RT_OK);
    assert_int_equal(fake->pool_taken, i);
    assert_int_equal(fake->pool_given, i);
    assert_ptr_equal(fake->pool_stream, (void *)0x77);
    assert_ptr_equal(fake->launch.stream, (void *)0x77);
  }
  int encoded = fake->maps_encoded;
  x.data = (void *)0x300000;
  assert_int_equal(moe_rt_call_run(program, function, tensors, 2, NULL, NULL), MOE_RT_OK);
  assert_true(fake->maps_encoded > encoded);
  encoded = fake->maps_encoded;
  assert_int_equal(moe_rt_call_run(program, function, tensors, 2, NULL, NULL), MOE_RT_OK);
  assert_int_equal(fake->maps_encoded, encoded);
  moe_rt_program_destroy(program);
}

int main(int argc, char **argv) {
  require(argc == 2, "usage: cuda_backend_test INPUTS");
  inputs = argv[1];
  fake = fake_cuda_state();
  const moe__rt_cuda_driver_t *driver = NULL;
  require(moe__rt_cuda_driver_open(&driver) == MOE_RT_OK, moe_rt_last_message());
  require(driver->cuFuncLoad == NULL, "found an entry point that the driver does not have");
  set_context = driver->cuCtxSetCurrent;
  get_context = driver->cuCtxGetCurrent;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_info, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_context, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_errors, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_code, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_launch, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_status, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_devices, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_lazy_load_in_threads, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_call_in_threads, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_run_maps, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
