/* CompilerTest.c - tests moe/compiler.h as a program that embeds the compiler uses it.
 *
 * Why beside the lit tests: ownership, statuses, callbacks and threads cannot be seen through
 * moe-opt.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "moe/compiler.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char KERNEL[] =
    "#col = affine_map<(e, n, k) -> (e, k, n)>\n"
    "func.func @quantize(%w: tensor<2x64x128xbf16>)\n"
    "    -> (tensor<2x64x128xf8E4M3FN, #col>, tensor<2x2x128xf8E8M0FNU>) {\n"
    "  %q, %s = \"mx_quantize.quantize\"(%w) {axis = 1, block = 32, mode = \"rceil\"}\n"
    "      : (tensor<2x64x128xbf16>) -> (tensor<2x64x128xf8E4M3FN, #col>, "
    "tensor<2x2x128xf8E8M0FNU>)\n"
    "  return %q, %s : tensor<2x64x128xf8E4M3FN, #col>, tensor<2x2x128xf8E8M0FNU>\n"
    "}\n";

/* What the callback saw last. */
typedef struct seen_t {
  int errors, notes;
  int line, column;
  char file[64], message[256], rendered[512];
} seen_t;

static void on_diagnostic(const moe_diagnostic_t *diagnostic, void *user) {
  seen_t *seen = user;
  seen->errors += diagnostic->severity == MOE_ERROR;
  seen->notes += diagnostic->severity == MOE_NOTE;
  seen->line = diagnostic->line;
  seen->column = diagnostic->column;
  snprintf(seen->file, sizeof seen->file, "%s", diagnostic->file ? diagnostic->file : "");
  snprintf(seen->message, sizeof seen->message, "%s", diagnostic->message);
  snprintf(seen->rendered, sizeof seen->rendered, "%s", diagnostic->rendered);
}

static moe_compiler_t *create(seen_t *seen) {
  memset(seen, 0, sizeof *seen);
  moe_compiler_options_t options = moe_compiler_options_default();
  options.on_diagnostic = on_diagnostic;
  options.user = seen;
  moe_compiler_t *compiler;
  assert_int_equal(moe_compiler_create(&options, &compiler), MOE_OK);
  assert_non_null(compiler);
  return compiler;
}

static moe_module_t *parse(moe_compiler_t *compiler, const char *text) {
  moe_module_t *module;
  assert_int_equal(moe_module_parse(compiler, "x.mlir", text, strlen(text), &module), MOE_OK);
  assert_non_null(module);
  return module;
}

static void options_are_checked(void **state) {
  (void)state;
  seen_t seen = {0};
  moe_compiler_options_t options = moe_compiler_options_default();
  options.on_diagnostic = on_diagnostic;
  options.user = &seen;
  moe_compiler_t *compiler = (moe_compiler_t *)&seen;
  options.target = "sm_100a";
  assert_int_equal(moe_compiler_create(&options, &compiler), MOE_USAGE);
  assert_null(compiler);
  assert_string_equal(seen.message, "target 'sm_100a' is not supported; supported: sm_90a");
  assert_string_equal(seen.file, "");
  assert_int_equal(seen.line, 0);

  options.target = "sm_90a";
  options.opt_level = 4;
  assert_int_equal(moe_compiler_create(&options, &compiler), MOE_USAGE);
  assert_string_equal(seen.rendered, "error: optimization level 4 is not in 0..3\n");

  options.opt_level = 3;
  options.verify = (moe_verify_t)3;
  assert_int_equal(moe_compiler_create(&options, &compiler), MOE_USAGE);
  assert_string_equal(seen.message, "verify is 3; it must be 0 to 2");
  moe_compiler_destroy(NULL);
}

/* Every function but the tables' must be given what it needs. */
static void null_is_wrong_usage(void **state) {
  (void)state;
  moe_compiler_t *compiler = NULL;
  moe_module_t *module = NULL, *other = NULL;
  const moe_kernel_resources_t *kernels = NULL;
  const char *text = NULL;
  size_t size = 0;
  assert_int_equal(moe_compiler_create(NULL, &compiler), MOE_OK);
  assert_int_equal(moe_module_parse(compiler, "m", "module {}", 9, &module), MOE_OK);
  const moe_status_t statuses[] = {
      moe_compiler_create(NULL, NULL),
      moe_compiler_check_pipeline(NULL, "builtin.module()", &text),
      moe_compiler_check_pipeline(compiler, NULL, &text),
      moe_compiler_stage_pipeline(NULL, "fused", &text),
      moe_compiler_stage_pipeline(compiler, NULL, &text),
      moe_compiler_stage_pipeline(compiler, "fused", NULL),
      moe_module_parse(NULL, "m", "", 0, &other),
      moe_module_parse(compiler, "m", NULL, 0, &other),
      moe_module_parse(compiler, "m", "", 0, NULL),
      moe_module_run(NULL, "builtin.module()"),
      moe_module_run(module, NULL),
      moe_module_lower(NULL, "fused"),
      moe_module_lower(module, NULL),
      moe_module_print(NULL, false, &text, &size),
      moe_module_print(module, false, NULL, &size),
      moe_module_print(module, false, &text, NULL),
      moe_module_bytecode(NULL, &text, &size),
      moe_module_bytecode(module, NULL, &size),
      moe_module_bytecode(module, &text, NULL),
      moe_module_artifact(NULL, "ptx", &text, &size),
      moe_module_artifact(module, NULL, &text, &size),
      moe_module_artifact(module, "ptx", NULL, &size),
      moe_module_artifact(module, "ptx", &text, NULL),
      moe_module_resources(NULL, &kernels, &size),
      moe_module_resources(module, NULL, &size),
      moe_module_resources(module, &kernels, NULL),
      moe_module_write_bundle(NULL, "bundle"),
      moe_module_write_bundle(module, NULL),
      moe_module_write_candidates(NULL, "bundle"),
      moe_module_write_candidates(module, NULL),
  };
  for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++)
    assert_int_equal(statuses[i], MOE_USAGE);
  assert_false(moe_compiler_has_pass(NULL, "moe-verify"));
  assert_false(moe_compiler_has_pass(compiler, NULL));
  assert_false(moe_module_has_kernels(NULL));
  assert_non_null(moe_compiler_passes(NULL));
  assert_non_null(moe_compiler_pass_options(NULL));
  assert_non_null(moe_compiler_stages(NULL));
  assert_non_null(moe_compiler_dialects(NULL));
  moe_module_destroy(module);
  moe_compiler_destroy(compiler);
}

static void diagnostics_carry_their_place(void **state) {
  (void)state;
  seen_t seen;
  moe_compiler_t *compiler = create(&seen);
  const char *text = "func.func @f() {\n  arith.nothing\n}\n";
  moe_module_t *module = (moe_module_t *)&seen;
  assert_int_equal(moe_module_parse(compiler, "x.mlir", text, strlen(text), &module),
                   MOE_INVALID_INPUT);
  assert_null(module);
  assert_int_equal(seen.errors, 1);
  assert_string_equal(seen.file, "x.mlir");
  assert_int_equal(seen.line, 2);
  assert_int_equal(seen.column, 3);
  assert_string_equal(seen.rendered, "x.mlir:2:3: error: custom op 'arith.nothing' is unknown\n"
                                     "  arith.nothing\n"
                                     "  ^\n");
  moe_compiler_destroy(compiler);
}

static void only_the_given_bytes_are_read(void **state) {
  (void)state;
  seen_t seen;
  moe_compiler_t *compiler = create(&seen);
  const char *text = "func.func private @f()\nthis is not MLIR";
  moe_module_t *module;
  assert_int_equal(moe_module_parse(compiler, "x.mlir", text, 23, &module), MOE_OK);
  moe_module_destroy(module);
  assert_int_equal(moe_module_parse(compiler, "x.mlir", "module {}\0 ", 11, &module),
                   MOE_INVALID_INPUT);
  assert_string_equal(seen.message, "byte 9 is 0: this is not MLIR text");

  /* A text that is cut ends where it is cut, also within a word. */
  text = "func.func @f(%x: tensor<?x64xbf16>) {return}\n";
  seen.errors = 0;
  assert_int_equal(moe_module_parse(compiler, "x.mlir", text, 20, &module), MOE_INVALID_INPUT);
  assert_int_equal(seen.errors, 1);
  assert_string_equal(seen.message, "expected non-function type");
  assert_int_equal(seen.column, 17);
  moe_compiler_destroy(compiler);
}

static void pipelines_are_checked_and_run(void **state) {
  (void)state;
  seen_t seen;
  moe_compiler_t *compiler = create(&seen);
  const char *canonical;
  assert_int_equal(
      moe_compiler_check_pipeline(compiler, " builtin.module( cse , moe-verify ) ", &canonical),
      MOE_OK);
  assert_string_equal(canonical, "builtin.module(cse,moe-verify)");
  assert_int_equal(moe_compiler_check_pipeline(compiler, "builtin.module(nope)", &canonical),
                   MOE_USAGE);
  assert_null(canonical);
  assert_string_equal(seen.file, "<pipeline>");
  assert_int_equal(seen.column, 16);

  assert_true(moe_compiler_has_pass(compiler, "moe-verify"));
  assert_true(moe_compiler_has_pass(compiler, "cse"));
  assert_true(moe_compiler_has_pass(compiler, "convert-cf-to-llvm")); /* for builtin.module only */
  assert_false(moe_compiler_has_pass(compiler, "nope"));
  assert_false(moe_compiler_has_pass(compiler, "cse,cse"));
  assert_false(moe_compiler_has_pass(compiler, "func.func(cse)"));
  assert_false(moe_compiler_has_pass(compiler, ""));

  moe_module_t *module = parse(compiler, "func.func private @unused()");
  const char *text;
  size_t length;
  assert_int_equal(moe_module_print(module, false, &text, &length), MOE_OK);
  assert_non_null(strstr(text, "@unused"));
  assert_int_equal(strlen(text), length);
  assert_int_equal(moe_module_run(module, "builtin.module(symbol-dce)"), MOE_OK);
  assert_int_equal(moe_module_print(module, false, &text, &length), MOE_OK);
  assert_string_equal(text, "module {\n}\n");
  moe_module_destroy(module);
  moe_compiler_destroy(compiler);
}

static void artifacts_are_made_stage_by_stage(void **state) {
  (void)state;
  seen_t seen;
  moe_compiler_t *compiler = create(&seen);
  moe_module_t *module = parse(compiler, KERNEL);
  const char *data = KERNEL;
  size_t length = 1;
  assert_int_equal(moe_module_artifact(module, "ptx", &data, &length), MOE_USAGE);
  assert_null(data);
  assert_int_equal(length, 0);
  assert_string_equal(seen.message, "the artifact 'ptx' has not been made yet");
  assert_int_equal(moe_module_artifact(module, "fused", &data, &length), MOE_USAGE);
  assert_string_equal(seen.message, "'fused' is not an artifact");
  assert_int_equal(moe_module_write_bundle(module, "nowhere"), MOE_USAGE);
  assert_int_equal(moe_module_lower(module, "nothing"), MOE_USAGE);

  seen.errors = 0;
  assert_int_equal(moe_module_lower(module, "fused"), MOE_OK);
  assert_int_equal(moe_module_lower(module, "ptx"), MOE_OK);
  assert_int_equal(moe_module_artifact(module, "ptx", &data, &length), MOE_OK);
  assert_true(length > 0);
  assert_non_null(strstr(data, ".target sm_90a"));
  assert_int_equal(seen.errors, 0);

  /* Other passes change the module: its artifacts are no longer of it. */
  assert_int_equal(moe_module_run(module, "builtin.module()"), MOE_OK);
  assert_int_equal(moe_module_artifact(module, "ptx", &data, &length), MOE_USAGE);
  moe_module_destroy(module);
  moe_compiler_destroy(compiler);
}

static bool exists(const char *directory, const char *name) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  return access(path, F_OK) == 0;
}

static void candidates_are_written(void **state) {
  (void)state;
  seen_t seen;
  moe_compiler_t *compiler = create(&seen);
  moe_module_t *module = parse(compiler, KERNEL);
  char directory[] = "candidates-XXXXXX";
  assert_non_null(mkdtemp(directory));
  assert_int_equal(moe_module_write_candidates(module, directory), MOE_OK);
  assert_true(exists(directory, "0/manifest.json") && exists(directory, "0/source.mlir"));
  assert_true(exists(directory, "1/manifest.json") && exists(directory, "1/source.mlir"));

  /* The module itself got none of the schedules, and goes on as it was. */
  const char *text;
  size_t length;
  assert_int_equal(moe_module_print(module, false, &text, &length), MOE_OK);
  assert_null(strstr(text, "schedule"));
  assert_int_equal(moe_module_lower(module, "scheduled"), MOE_OK);
  assert_int_equal(moe_module_write_candidates(module, directory), MOE_OK);
  assert_false(exists(directory, "1"));

  assert_int_equal(moe_module_write_candidates(module, "/dev/null"), MOE_IO_ERROR);
  assert_string_equal(seen.message, "cannot write the bundle '/dev/null/0': Not a directory");
  moe_module_destroy(module);

  module = parse(compiler, KERNEL);
  assert_int_equal(moe_module_lower(module, "ptx"), MOE_OK);
  const char *ptx;
  assert_int_equal(moe_module_artifact(module, "ptx", &ptx, &length), MOE_OK);
  assert_int_equal(moe_module_write_candidates(module, directory), MOE_USAGE);
  assert_int_equal(moe_module_artifact(module, "ptx", &text, &length), MOE_OK);
  assert_ptr_equal(text, ptx);
  moe_module_destroy(module);

  module = parse(compiler, "module {}");
  assert_int_equal(moe_module_write_candidates(module, directory), MOE_INVALID_INPUT);
  moe_module_destroy(module);
  moe_compiler_destroy(compiler);
  static const char *const files[] = {"0/manifest.json", "0/source.mlir", "0/kernels.ptx",
                                      "0/kernels.cubin", "0"};
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", directory, files[i]);
    remove(path);
  }
  assert_int_equal(rmdir(directory), 0);
}

/* The file of line information is written last, and an error of its own. */
static void lines_are_written(void **state) {
  (void)state;
  seen_t seen = {0};
  moe_compiler_options_t options = moe_compiler_options_default();
  options.on_diagnostic = on_diagnostic;
  options.user = &seen;
  options.line_info = "no/such/folder/lines";
  moe_compiler_t *compiler;
  assert_int_equal(moe_compiler_create(&options, &compiler), MOE_OK);
  moe_module_t *module = parse(compiler, KERNEL);
  assert_int_equal(moe_module_lower(module, "scheduled"), MOE_OK); /* has no lines */
  assert_int_equal(moe_module_lower(module, "ptx"), MOE_IO_ERROR);
  assert_int_equal(seen.errors, 1);
  assert_string_equal(seen.message,
                      "cannot write 'no/such/folder/lines': No such file or directory");
  moe_module_destroy(module);

  module = parse(compiler, KERNEL);
  char directory[] = "lines-XXXXXX";
  assert_non_null(mkdtemp(directory));
  assert_int_equal(moe_module_lower(module, "bundle"), MOE_OK);
  assert_int_equal(moe_module_write_bundle(module, directory), MOE_IO_ERROR);
  moe_module_destroy(module);
  moe_compiler_destroy(compiler);
  assert_int_equal(rmdir(directory), 0);
}

static void tables_are_complete(void **state) {
  (void)state;
  size_t num_passes, num_options, num_stages, num_dialects;
  const moe_pass_info_t *passes = moe_compiler_passes(&num_passes);
  const moe_pass_option_info_t *options = moe_compiler_pass_options(&num_options);
  const moe_stage_info_t *stages = moe_compiler_stages(&num_stages);
  const moe_dialect_info_t *dialects = moe_compiler_dialects(&num_dialects);
  assert_string_equal(passes[0].argument, "moe-verify");
  for (size_t i = 0; i < num_options; i++)
    assert_true(options[i].pass < num_passes && options[i].default_value);
  assert_string_equal(stages[0].name, "source");
  assert_string_equal(stages[num_stages - 1].name, "bundle");
  assert_int_equal(num_dialects, 2);
  assert_string_equal(dialects[0].name, "mx_quantize");

  /* Each of our passes runs in exactly one stage, but for the one that a user asks for. */
  seen_t seen;
  moe_compiler_t *compiler = create(&seen);
  const char *pipeline;
  assert_int_equal(moe_compiler_stage_pipeline(compiler, "llvm", &pipeline), MOE_OK);
  for (size_t i = 0; i < num_passes; i++) {
    const char *found = strstr(pipeline, passes[i].argument);
    if (!strcmp(passes[i].argument, "moe-differentiate")) {
      assert_null(found);
      continue;
    }
    assert_non_null(found);
    assert_null(strstr(found + 1, passes[i].argument));
  }
  moe_compiler_destroy(compiler);
}

static void *compile_in_thread(void *result) {
  seen_t seen;
  moe_compiler_t *compiler = create(&seen);
  moe_module_t *module = parse(compiler, KERNEL);
  *(moe_status_t *)result = moe_module_lower(module, "ptx");
  moe_module_destroy(module);
  moe_compiler_destroy(compiler);
  return NULL;
}

static void threads_have_a_compiler_each(void **state) {
  (void)state;
  enum { NUM_THREADS = 4 };
  pthread_t threads[NUM_THREADS];
  moe_status_t results[NUM_THREADS];
  for (int i = 0; i < NUM_THREADS; i++) {
    results[i] = MOE_INTERNAL;
    assert_int_equal(pthread_create(&threads[i], NULL, compile_in_thread, &results[i]), 0);
  }
  for (int i = 0; i < NUM_THREADS; i++) {
    pthread_join(threads[i], NULL);
    assert_int_equal(results[i], MOE_OK);
  }
}

static void the_assembler_is_found(void **state) {
  (void)state;
  moe_compiler_options_t options = moe_compiler_options_default();
  const char *found = moe_compiler_ptxas(NULL); /* none may be there */
  assert_true(!found || strlen(found) > strlen("/ptxas"));
  options.ptxas = "/bin/sh";
  assert_string_equal(moe_compiler_ptxas(&options), options.ptxas);
  options.ptxas = "/no/such/ptxas";
  assert_null(moe_compiler_ptxas(&options));
  options.ptxas = "none";
  assert_null(moe_compiler_ptxas(&options));
}

static void a_module_does_without_an_assembler(void **state) {
  (void)state;
  moe_compiler_options_t options = moe_compiler_options_default();
  options.ptxas = "none";
  moe_compiler_t *compiler;
  assert_int_equal(moe_compiler_create(&options, &compiler), MOE_OK);
  moe_module_t *module = parse(compiler, KERNEL);
  assert_int_equal(moe_module_lower(module, "bundle"), MOE_OK);
  const char *data;
  size_t length;
  assert_int_equal(moe_module_artifact(module, "ptx", &data, &length), MOE_OK);
  assert_true(data && length > 0);
  assert_int_equal(moe_module_artifact(module, "cubin", &data, &length), MOE_OK);
  assert_null(data);
  moe_module_destroy(module);
  moe_compiler_destroy(compiler);
}

static void texts_of_enumerations(void **state) {
  (void)state;
  assert_string_equal(moe_status_text(MOE_OK), "ok");
  assert_string_equal(moe_status_text(MOE_IO_ERROR), "input/output error");
  assert_string_equal(moe_status_text((moe_status_t)99), "unknown status");
  assert_string_equal(moe_severity_text(MOE_REMARK), "remark");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(options_are_checked),
      cmocka_unit_test(null_is_wrong_usage),
      cmocka_unit_test(diagnostics_carry_their_place),
      cmocka_unit_test(only_the_given_bytes_are_read),
      cmocka_unit_test(pipelines_are_checked_and_run),
      cmocka_unit_test(artifacts_are_made_stage_by_stage),
      cmocka_unit_test(candidates_are_written),
      cmocka_unit_test(lines_are_written),
      cmocka_unit_test(tables_are_complete),
      cmocka_unit_test(threads_have_a_compiler_each),
      cmocka_unit_test(the_assembler_is_found),
      cmocka_unit_test(a_module_does_without_an_assembler),
      cmocka_unit_test(texts_of_enumerations),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
