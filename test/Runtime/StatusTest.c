/* StatusTest.c - statuses, messages, expressions, and the public functions that need no device.
 *
 * The small parts everything else stands on.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Runtime/Expression.h"
#include "test/Runtime/Support.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- Statuses and messages ---- */

static void test_status_texts(void **state) {
  (void)state;
  assert_int_equal(MOE_RT_OK, 0);
  assert_int_equal(MOE_RT_IO_ERROR, 11);
  assert_string_equal(moe_rt_status_text(MOE_RT_OK), "ok");
  assert_string_equal(moe_rt_status_text(MOE_RT_DEVICE_LOST), "device lost to an earlier error");
  assert_string_equal(moe_rt_status_text((moe_rt_status_t)99), "unknown status");
  static const int numbers[] = {
#define MOE_RT_STATUS(constant, number, text) number,
      MOE_RT_STATUSES(MOE_RT_STATUS)
#undef MOE_RT_STATUS
  };
  for (int i = 0; i < (int)(sizeof numbers / sizeof numbers[0]); i++) {
    assert_int_equal(numbers[i], i);
    for (int k = 0; k < i; k++)
      assert_string_not_equal(moe_rt_status_text(i), moe_rt_status_text(k));
  }
  assert_string_equal(moe_rt_version(), MOE_VERSION);
}

static void test_message_is_one_line(void **state) {
  (void)state;
  assert_int_equal(moe__rt_fail(MOE_RT_IO_ERROR, "%s", "a\nb\x7f\tc"), MOE_RT_IO_ERROR);
  assert_string_equal(moe_rt_last_message(), "a?b??c");
  moe__rt_fail_in(MOE_RT_IO_ERROR, "file '%s'", "x");
  assert_string_equal(moe_rt_last_message(), "file 'x': a?b??c");
  moe__rt_fail(MOE_RT_IO_ERROR, "again: %s", moe_rt_last_message());
  assert_string_equal(moe_rt_last_message(), "again: file 'x': a?b??c");
}

static void test_message_is_bounded(void **state) {
  (void)state;
  moe__rt_fail(MOE_RT_IO_ERROR, "end");
  for (int i = 0; i < 2000; i++)
    moe__rt_fail_in(MOE_RT_IO_ERROR, "context %d", i);
  assert_true(strlen(moe_rt_last_message()) < 4096);
  assert_ptr_equal(strstr(moe_rt_last_message(), "context 1999: context 1998"),
                   moe_rt_last_message());
}

static void *fail_elsewhere(void *unused) {
  moe__rt_fail(MOE_RT_IO_ERROR, "the other thread's");
  return unused;
}

static void test_message_is_of_the_thread(void **state) {
  (void)state;
  moe__rt_fail(MOE_RT_IO_ERROR, "mine");
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, NULL), 0);
  pthread_join(thread, NULL);
  assert_string_equal(moe_rt_last_message(), "mine");
}

/* ---- Expressions ---- */

static const moe__rt_symbols_t symbols = {
    .items = (moe__rt_symbol_t[]){{.name = "w.0"}, {.name = "w.1"}}, .count = 2};

/* Parses and evaluates with w.0 = 7, w.1 = 2^40. */
static moe_rt_status_t evaluate(const char *text, int64_t num_sms, int64_t *out_value) {
  moe__rt_arena_t arena = {0};
  json_t *json = json_loads(text, JSON_DECODE_ANY, NULL);
  require(json != NULL, text);
  moe__rt_json_t root = {.value = json, .key = "test"};
  moe__rt_expression_t expression;
  moe_rt_status_t status = moe__rt_expression_parse(&root, &symbols, &arena, &expression);
  int64_t values[] = {7, INT64_C(1) << 40};
  moe__rt_bindings_t bindings = {.symbols = values, .num_sms = num_sms};
  if (status == MOE_RT_OK)
    status = moe__rt_expression_evaluate(&expression, &bindings, out_value);
  json_decref(json);
  moe__rt_arena_free(&arena);
  return status;
}

static void test_expression_values(void **state) {
  (void)state;
  static const struct {
    const char *text;
    int64_t value;
  } cases[] = {
      {"0", 0},
      {"9223372036854775807", INT64_MAX},
      {"\"w.0\"", 7},
      {"\"w.1\"", INT64_C(1) << 40},
      {"\"num_sms\"", 132},
      {"{\"ceildiv\": [0, 3]}", 0},
      {"{\"ceildiv\": [6, 3]}", 2},
      {"{\"ceildiv\": [\"w.0\", 3]}", 3},
      {"{\"ceildiv\": [9223372036854775807, 2]}", INT64_C(1) << 62},
      {"{\"mul\": [\"w.0\"]}", 7},
      {"{\"mul\": [\"w.0\", \"w.1\", 3]}", INT64_C(21) << 40},
      {"{\"mul\": [9223372036854775807, 1]}", INT64_MAX},
      {"{\"min\": [\"w.1\", \"w.0\", 8]}", 7},
      {"{\"min\": [5, {\"mul\": [2, {\"ceildiv\": [\"w.0\", 4]}]}]}", 4},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    int64_t value = -1;
    assert_int_equal(evaluate(cases[i].text, 132, &value), MOE_RT_OK);
    assert_int_equal(value, cases[i].value);
  }
}

static void test_expression_errors(void **state) {
  (void)state;
  static const struct {
    const char *text;
    moe_rt_status_t status;
    const char *message;
  } cases[] = {
      {"{\"mul\": [\"w.1\", \"w.1\"]}", MOE_RT_INVALID_ARGUMENT,
       "1099511627776 times 1099511627776 does not fit 63 bits"},
      {"{\"mul\": [4611686018427387904, 2]}", MOE_RT_INVALID_ARGUMENT, "does not fit 63 bits"},
      {"{\"ceildiv\": [7, {\"min\": [0, \"w.0\"]}]}", MOE_RT_INVALID_ARGUMENT,
       "division of 7 by zero"},
      {"\"num_sms\"", MOE_RT_NOT_PREPARED, "depends on num_sms"},
      {"-1", MOE_RT_INVALID_BUNDLE, "test: is -1; it must be 0 to"},
      {"1.0", MOE_RT_INVALID_BUNDLE, "test: is a number with a fraction"},
      {"\"w.2\"", MOE_RT_INVALID_BUNDLE, "test: is 'w.2', which is not a symbol"},
      {"{\"max\": [1]}", MOE_RT_INVALID_BUNDLE, "test: has the unknown field 'max'"},
      {"{\"min\": 1}", MOE_RT_INVALID_BUNDLE, "test: min: is an integer; it must be an array"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    int64_t value = 0;
    assert_int_equal(evaluate(cases[i].text, 0, &value), cases[i].status);
    assert_non_null(strstr(moe_rt_last_message(), cases[i].message));
  }
}

/* ---- Devices ---- */

static void test_device_names(void **state) {
  (void)state;
  static const char *const names[] = {
      "",        "gpu",      "cud",  "cudax",  "cuda:",   "cuda:x",    "cuda:-1",
      "cuda:1x", "cuda:1:2", "CUDA", "cuda 0", "cuda: 1", "cuda:0x10", "cuda:12345678901"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    moe_rt_device_t *device = (moe_rt_device_t *)&device;
    assert_int_equal(moe_rt_device_open(names[i], &device), MOE_RT_INVALID_ARGUMENT);
    assert_null(device);
    assert_non_null(strstr(moe_rt_last_message(), "there are: cuda, cuda:N"));
  }
}

static void test_null_arguments(void **state) {
  (void)state;
  moe_rt_device_t *device = NULL;
  moe_rt_device_info_t info = {.ordinal = 5};
  void *pointer = &device;
  float milliseconds = 1;
  moe_rt_program_t *program = NULL;
  moe_rt_call_t *call = NULL;
  const moe_rt_function_info_t *function = NULL;
  assert_int_equal(moe_rt_device_open(NULL, &device), MOE_RT_INVALID_ARGUMENT);
  assert_int_equal(moe_rt_device_open("cuda", NULL), MOE_RT_INVALID_ARGUMENT);
  assert_int_equal(moe_rt_emulator_configure(NULL), MOE_RT_INVALID_ARGUMENT);
  static const int wrong_threads[] = {-1, 1025};
  for (int i = 0; i < 2; i++) {
    const moe_rt_emulator_options_t options = {.threads = wrong_threads[i]};
    assert_int_equal(moe_rt_emulator_configure(&options), MOE_RT_INVALID_ARGUMENT);
    assert_int_equal(moe_rt_device_open_emulator(&options, &device), MOE_RT_INVALID_ARGUMENT);
  }
  assert_non_null(strstr(moe_rt_last_message(), "threads is 1025; it must be 0 to 1024"));
  assert_int_equal(moe_rt_device_info(NULL, &info), MOE_RT_INVALID_ARGUMENT);
  assert_int_equal(info.ordinal, 0);
  assert_int_equal(moe_rt_memory_allocate(NULL, 1, &pointer), MOE_RT_INVALID_ARGUMENT);
  assert_null(pointer);
  assert_int_equal(moe_rt_memory_to_device(NULL, &info, &info, 1), MOE_RT_INVALID_ARGUMENT);
  assert_int_equal(moe_rt_event_elapsed(NULL, NULL, NULL, &milliseconds), MOE_RT_INVALID_ARGUMENT);
  assert_true(milliseconds == 0);
  assert_int_equal(moe_rt_program_read(NULL, &program), MOE_RT_INVALID_ARGUMENT);
  assert_int_equal(moe_rt_program_read("", &program), MOE_RT_INVALID_ARGUMENT);
  assert_int_equal(moe_rt_program_load(NULL, "x", &program), MOE_RT_INVALID_ARGUMENT);
  assert_int_equal(moe_rt_program_find(NULL, NULL, &function), MOE_RT_INVALID_ARGUMENT);
  assert_int_equal(moe_rt_call_prepare(NULL, NULL, NULL, 0, &call), MOE_RT_INVALID_ARGUMENT);
  assert_int_equal(moe_rt_call_launch(NULL, NULL), MOE_RT_NOT_PREPARED);
  assert_int_equal(moe_rt_program_function_count(NULL), 0);
  assert_null(moe_rt_program_function(NULL, 0));
  assert_string_equal(moe_rt_program_code(NULL), "none");
  moe_rt_device_close(NULL);
  moe_rt_program_destroy(NULL);
  moe_rt_call_destroy(NULL);
}

static void test_no_driver(void **state) {
  (void)state;
  moe_rt_device_t *device = NULL;
  for (int i = 0; i < 2; i++) {
    moe_rt_status_t status = moe_rt_device_open("cuda", &device);
    if (status == MOE_RT_OK || status == MOE_RT_NO_DEVICE) {
      print_message("skipped: this machine has a CUDA driver\n");
      moe_rt_device_close(device);
      skip();
    }
    assert_int_equal(status, MOE_RT_NO_DRIVER);
    assert_null(device);
    assert_non_null(strstr(moe_rt_last_message(), "libcuda.so.1"));
    moe__rt_fail(MOE_RT_IO_ERROR, "something else");
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_status_texts),       cmocka_unit_test(test_message_is_one_line),
      cmocka_unit_test(test_message_is_bounded), cmocka_unit_test(test_message_is_of_the_thread),
      cmocka_unit_test(test_expression_values),  cmocka_unit_test(test_expression_errors),
      cmocka_unit_test(test_device_names),       cmocka_unit_test(test_null_arguments),
      cmocka_unit_test(test_no_driver),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
