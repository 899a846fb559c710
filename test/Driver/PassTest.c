/* PassTest.c - tests what lib/Driver makes of a pass: its options, and the verdict over a run.
 *
 * Why with a table of passes of its own: the real passes are not wrong on purpose. The files of
 * lib/Driver are compiled into this program with test/Driver/Inputs/passes/Passes.def.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/Kernels.h"
#include "lib/Target/Target.h"
#include "passes/Passes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/Diagnostics.h>
#include <stdio.h>
#include <string.h>

static MlirStringRef ref(const char *string) {
  return mlirStringRefCreateFromCString(string);
}

/* ---- The passes ---- */

bool moe__pass_echo(MlirOperation module, const moe__pass_t *pass) {
  static const char *const names[] = {"tile", "mode"};
  for (size_t i = 0; i < 2; i++) {
    char attribute[32];
    snprintf(attribute, sizeof attribute, "moe.%s", names[i]);
    MlirAttribute value =
        mlirStringAttrGet(mlirOperationGetContext(module), ref(moe__pass_option(pass, names[i])));
    mlirOperationSetAttributeByName(module, ref(attribute), value);
  }
  return true;
}

bool moe__pass_reject(MlirOperation module, const moe__pass_t *pass) {
  (void)pass;
  mlirEmitError(mlirOperationGetLocation(module), "not this one");
  return false;
}

bool moe__pass_damage(MlirOperation module, const moe__pass_t *pass) {
  (void)pass;
  MlirOperation function =
      mlirBlockGetFirstOperation(mlirRegionGetFirstBlock(mlirOperationGetRegion(module, 0)));
  mlirOperationRemoveAttributeByName(function, ref("sym_name"));
  return true;
}

bool moe__pass_give_up(MlirOperation module, const moe__pass_t *pass) {
  (void)module;
  (void)pass;
  return false;
}

bool moe__pass_contradict(MlirOperation module, const moe__pass_t *pass) {
  moe__pass_reject(module, pass);
  return true;
}

/* ---- lib/Target and schedules, of which these tests want nothing ---- */

const char *moe__target_find_ptxas(const char *path) {
  return path;
}

moe_status_t moe__target_emit_ptx(MlirOperation module, const moe__target_options_t *options,
                                  moe__bytes_t *out_ptx) {
  (void)module;
  (void)options;
  (void)out_ptx;
  return MOE_INTERNAL;
}

moe_status_t moe__target_assemble(MlirOperation module, const moe__target_options_t *options,
                                  moe__bytes_t ptx, moe__bytes_t *out_cubin, char **out_assembler,
                                  char **out_log) {
  (void)ptx;
  (void)out_log;
  (void)out_assembler;
  return moe__target_emit_ptx(module, options, out_cubin);
}

bool moe__target_resources(MlirOperation module, moe__bytes_t cubin, const char *log,
                           moe_kernel_resources_t **out_kernels, size_t *out_count) {
  (void)module;
  (void)cubin;
  (void)log;
  *out_kernels = NULL;
  *out_count = 0;
  return true;
}

moe_status_t moe__target_manifest(MlirOperation module, const moe__target_options_t *options,
                                  moe__bytes_t ptx, moe__bytes_t cubin, const char *assembler,
                                  moe__bytes_t *out_json) {
  (void)ptx;
  (void)cubin;
  (void)assembler;
  return moe__target_emit_ptx(module, options, out_json);
}

bool moe__target_stage_bundle(MlirOperation module, const char *directory, moe__bytes_t ptx,
                              moe__bytes_t cubin, moe__bytes_t source, moe__bytes_t manifest,
                              moe__staged_bundle_t *out_bundle) {
  (void)ptx;
  (void)cubin;
  (void)source;
  (void)manifest;
  return moe__target_commit_bundle(module, directory, out_bundle);
}

bool moe__target_commit_bundle(MlirOperation module, const char *directory,
                               moe__staged_bundle_t *bundle) {
  (void)module;
  (void)directory;
  (void)bundle;
  return false;
}

void moe__target_discard_bundle(moe__staged_bundle_t *bundle) {
  (void)bundle;
}

bool moe__target_check_candidate(MlirOperation module, const char *directory) {
  (void)module;
  (void)directory;
  return false;
}

moe_status_t moe__target_remove_candidate(MlirOperation module, const char *directory) {
  (void)directory;
  return moe__target_emit_ptx(module, NULL, NULL);
}

int moe__kernels_count_candidates(MlirOperation module) {
  (void)module;
  return 1;
}

bool moe__kernels_are_outlined(MlirOperation module) {
  (void)module;
  return false;
}

/* ---- The tests ---- */

typedef struct fixture_t {
  moe_compiler_t *compiler;
  char message[256]; /* of the last error */
  int column;
} fixture_t;

static void on_diagnostic(const moe_diagnostic_t *diagnostic, void *user) {
  fixture_t *fixture = user;
  if (diagnostic->severity != MOE_ERROR)
    return;
  snprintf(fixture->message, sizeof fixture->message, "%s", diagnostic->message);
  fixture->column = diagnostic->column;
}

static int set_up(void **state) {
  static fixture_t fixture;
  fixture = (fixture_t){0};
  moe_compiler_options_t options = moe_compiler_options_default();
  options.on_diagnostic = on_diagnostic;
  options.user = &fixture;
  *state = &fixture;
  return moe_compiler_create(&options, &fixture.compiler);
}

static int tear_down(void **state) {
  moe_compiler_destroy(((fixture_t *)*state)->compiler);
  return 0;
}

/* Runs a pipeline over a small module. *out_text: what it has become. */
static moe_status_t run(fixture_t *fixture, const char *pipeline, char *out_text, size_t size) {
  static const char source[] = "func.func private @f()";
  moe_module_t *module;
  assert_int_equal(moe_module_parse(fixture->compiler, "x.mlir", source, strlen(source), &module),
                   MOE_OK);
  fixture->message[0] = '\0';
  moe_status_t status = moe_module_run(module, pipeline);
  if (status == MOE_OK) {
    const char *text;
    size_t length;
    assert_int_equal(moe_module_print(module, false, &text, &length), MOE_OK);
    snprintf(out_text, size, "%s", text);
  }
  moe_module_destroy(module);
  return status;
}

static void options_reach_the_pass(void **state) {
  char text[256];
  assert_int_equal(run(*state, "builtin.module(test-echo)", text, sizeof text), MOE_OK);
  assert_non_null(strstr(text, "{moe.mode = \"fast\", moe.tile = \"128\"}"));
  assert_int_equal(run(*state, "builtin.module(test-echo{})", text, sizeof text), MOE_OK);
  assert_non_null(strstr(text, "{moe.mode = \"fast\", moe.tile = \"128\"}"));
  assert_int_equal(
      run(*state, "builtin.module(test-echo{ mode=exact\ttile=64 })", text, sizeof text), MOE_OK);
  assert_non_null(strstr(text, "{moe.mode = \"exact\", moe.tile = \"64\"}"));
  /* Two instances keep their options apart. */
  assert_int_equal(
      run(*state, "builtin.module(test-echo{tile=1},test-echo{mode=x})", text, sizeof text),
      MOE_OK);
  assert_non_null(strstr(text, "{moe.mode = \"x\", moe.tile = \"128\"}"));
}

static void options_are_printed(void **state) {
  const fixture_t *fixture = *state;
  const char *canonical;
  assert_int_equal(moe_compiler_check_pipeline(fixture->compiler,
                                               "builtin.module(test-echo{mode=x},test-reject)",
                                               &canonical),
                   MOE_OK);
  assert_string_equal(canonical, "builtin.module(test-echo{tile=128 mode=x},test-reject)");
}

static void wrong_options_name_the_place(void **state) {
  static const struct {
    const char *pipeline;
    int column;
    const char *message;
  } cases[] = {
      {"builtin.module(test-echo{til=1})", 26,
       "test-echo has no option 'til'; did you mean 'tile'?"},
      {"builtin.module(test-echo{tile=1 xyzzy=2})", 33,
       "test-echo has no option 'xyzzy'; it has tile, mode"},
      {"builtin.module(test-echo{tile})", 26, "option 'tile' needs a value: name=value"},
      {"builtin.module(test-echo{tile= mode=x})", 26, "option 'tile' needs a value: name=value"},
      {"builtin.module(test-echo{tile=1 tile=2})", 33, "option 'tile' is given twice"},
      {"builtin.module(test-reject{tile=1})", 28, "test-reject has no options"},
      {"builtin.module(test-eco)", 16, "'test-eco' is not a pass; did you mean 'test-echo'?"},
  };
  fixture_t *fixture = *state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    assert_int_equal(moe_compiler_check_pipeline(fixture->compiler, cases[i].pipeline, NULL),
                     MOE_USAGE);
    assert_string_equal(fixture->message, cases[i].message);
    assert_int_equal(fixture->column, cases[i].column);
  }
}

static void verdicts(void **state) {
  static const struct {
    const char *pass;
    moe_status_t status;
    const char *message;
  } cases[] = {
      {"test-reject", MOE_INVALID_INPUT, "not this one"},
      {"test-damage", MOE_INTERNAL, "internal error: test-damage left the module invalid"},
      {"test-give-up", MOE_INTERNAL, "internal error: test-give-up failed without saying why"},
      {"test-contradict", MOE_INTERNAL,
       "internal error: test-contradict reported an error and did not fail"},
      {"test-echo", MOE_OK, ""},
  };
  fixture_t *fixture = *state;
  char text[256];
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char pipeline[64];
    snprintf(pipeline, sizeof pipeline, "builtin.module(cse,%s,cse)", cases[i].pass);
    assert_int_equal(run(fixture, pipeline, text, sizeof text), cases[i].status);
    assert_string_equal(fixture->message, cases[i].message);
  }
}

static void nothing_runs_after_a_failure(void **state) {
  fixture_t *fixture = *state;
  char text[256];
  assert_int_equal(run(fixture, "builtin.module(test-reject,test-give-up)", text, sizeof text),
                   MOE_INVALID_INPUT);
  assert_string_equal(fixture->message, "not this one");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(options_reach_the_pass, set_up, tear_down),
      cmocka_unit_test_setup_teardown(options_are_printed, set_up, tear_down),
      cmocka_unit_test_setup_teardown(wrong_options_name_the_place, set_up, tear_down),
      cmocka_unit_test_setup_teardown(verdicts, set_up, tear_down),
      cmocka_unit_test_setup_teardown(nothing_runs_after_a_failure, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
