/* Pass.c - the registry of our passes, and a pass of ours as a pass of MLIR.
 *
 * Why: MLIR's C API knows passes only as a set of callbacks. Here each gets its options, and each
 * run is judged: rejected, done, or done wrongly, which is a bug of ours.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Driver/Driver.h"

#include <stdlib.h>
#include <string.h>

/* What our passes make ops of. MLIR wants dialects loaded before a pass runs. */
static const char *const created_dialects[] = {"arith", "cf",   "func", "gpu",   "linalg",
                                               "llvm",  "nvvm", "scf",  "tensor"};

/* MLIR identifies a pass by the address of an 8-byte aligned object. */
static const struct { _Alignas(8) char c; } type_ids[MOE__MAX_PASSES];

struct moe__pass_t {
  moe_compiler_t *compiler;
  size_t index;  /* in moe__passes */
  char **values; /* as long as moe__pass_options; NULL: the default */
};

const char *moe__pass_option(const moe__pass_t *pass, const char *name) {
  for (size_t i = 0; i < moe__num_pass_options; i++) {
    const moe_pass_option_info_t *option = &moe__pass_options[i];
    if (option->pass == pass->index && !strcmp(option->name, name))
      return pass->values[i] ? pass->values[i] : option->default_value;
  }
  abort(); /* the pass asks for an option that Passes.def does not have */
}

static moe__pass_t *copy_pass(moe_compiler_t *compiler, size_t index, const char *const *values) {
  moe__pass_t *pass = moe__allocate(sizeof *pass);
  *pass = (moe__pass_t){.compiler = compiler, .index = index};
  pass->values = moe__allocate(moe__num_pass_options * sizeof *pass->values);
  for (size_t i = 0; i < moe__num_pass_options; i++)
    pass->values[i] = moe__copy_string(values[i]);
  return pass;
}

static void on_construct(void *user) {
  (void)user;
}

static void on_destruct(void *user) {
  moe__pass_t *pass = user;
  for (size_t i = 0; i < moe__num_pass_options; i++)
    free(pass->values[i]);
  free(pass->values);
  free(pass);
}

static void *on_clone(void *user) {
  const moe__pass_t *pass = user;
  return copy_pass(pass->compiler, pass->index, (const char *const *)pass->values);
}

/* Says what is wrong with the pass itself, or NULL. */
static const char *find_bug(moe_compiler_t *compiler, MlirOperation module, bool ok,
                            size_t errors_before) {
  bool has_reported = compiler->num_errors > errors_before;
  if (!ok)
    return has_reported ? NULL : "failed without saying why";
  if (has_reported)
    return "reported an error and did not fail";
  return mlirOperationVerify(module) ? NULL : "left the module invalid";
}

static void on_run(MlirOperation module, MlirExternalPass external, void *user) {
  const moe__pass_t *pass = user;
  moe_compiler_t *compiler = pass->compiler;
  size_t errors_before = compiler->num_errors;
  bool ok = moe__pass_runs[pass->index](module, pass);
  const char *bug = find_bug(compiler, module, ok, errors_before);
  if (bug) {
    compiler->internal = true;
    moe__report(compiler, MOE_ERROR, NULL, 0, 0, "internal error: %s %s",
                moe__passes[pass->index].argument, bug);
  }
  compiler->rejected |= !ok;
  if (!ok || bug)
    mlirExternalPassSignalFailure(external);
}

MlirPass moe__pass_create(moe_compiler_t *compiler, size_t index, const char *const *values) {
  for (size_t i = 0; i < sizeof created_dialects / sizeof created_dialects[0]; i++)
    mlirContextGetOrLoadDialect(compiler->context, moe__ref(created_dialects[i]));
  const moe_pass_info_t *info = &moe__passes[index];
  moe__pass_t *pass = copy_pass(compiler, index, values);

  /* MLIR prints this text for the pass; with all options in it, what is printed can be parsed
   * again. */
  moe__text_t argument = {0};
  moe__text_put(&argument, info->argument);
  size_t num_printed = 0;
  for (size_t i = 0; i < moe__num_pass_options; i++) {
    if (moe__pass_options[i].pass == index)
      moe__text_printf(&argument, "%s%s=%s", num_printed++ ? " " : "{", moe__pass_options[i].name,
                       moe__pass_option(pass, moe__pass_options[i].name));
  }
  if (num_printed)
    moe__text_put(&argument, "}");

  MlirExternalPassCallbacks callbacks = {
      .construct = on_construct, .destruct = on_destruct, .clone = on_clone, .run = on_run};
  MlirPass external = mlirCreateExternalPass(
      mlirTypeIDCreate(&type_ids[index]), moe__ref(info->argument), moe__ref(argument.data),
      moe__ref(info->summary), moe__ref("builtin.module"), 0, NULL, callbacks, pass);
  moe__text_free(&argument);
  return external;
}
