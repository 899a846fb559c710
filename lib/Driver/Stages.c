/* Stages.c - the table of stages, and how a module is taken down it.
 *
 * Why one table: the whole compiler can be read off it, every row can be printed with --emit, and
 * what is printed can be fed back in.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Driver/Driver.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static moe_status_t make_ptx(moe_module_t *module) {
  return moe__target_emit_ptx(mlirModuleGetOperation(module->ir), &module->compiler->target,
                              &module->ptx);
}

static moe_status_t make_cubin(moe_module_t *module) {
  return moe__target_assemble(mlirModuleGetOperation(module->ir), &module->compiler->target,
                              module->ptx, &module->cubin, &module->assembler, &module->log);
}

static moe_status_t make_manifest(moe_module_t *module) {
  return moe__target_manifest(mlirModuleGetOperation(module->ir), &module->compiler->target,
                              module->ptx, module->cubin, module->assembler, &module->manifest);
}

/* moe_module_write_bundle writes what is there by then, the lines too. */
static moe_status_t make_nothing_more(moe_module_t *module) {
  (void)module;
  return MOE_OK;
}

/* X(name, summary, passes that lead here, or NULL and what makes the artifact) */
#define STAGES(X)                                                                                  \
  X("source", "func.func over tensors, as written", "", NULL)                                      \
  X("fused", "one op per kernel launch",                                                           \
    "moe-verify,moe-expand-recipes,moe-fuse-quantize,moe-expand-quantize", NULL)                   \
  X("scheduled", "each op carries its schedule", "moe-select-schedule", NULL)                      \
  X("outlined", "a launch plan and a gpu.module of kernels", "moe-outline-kernels", NULL)          \
  X("nvvm", "kernel bodies in scf, arith, nvvm, llvm",                                             \
    "convert-mx-quantize-to-nvvm,convert-scaled-grouped-mm-to-nvvm", NULL)                         \
  X("llvm", "kernel bodies in the LLVM dialect",                                                   \
    "gpu.module(canonicalize,cse,convert-scf-to-cf,convert-nvvm-to-llvm,convert-arith-to-llvm),"   \
    "convert-cf-to-llvm,reconcile-unrealized-casts,gpu.module(canonicalize,cse)",                  \
    NULL)                                                                                          \
  X("ptx", "PTX text", NULL, make_ptx)                                                             \
  X("cubin", "machine code, by ptxas", NULL, make_cubin)                                           \
  X("manifest", "JSON that says how to launch", NULL, make_manifest)                               \
  X("bundle", "a folder with manifest, PTX and cubin", NULL, make_nothing_more)

#define STAGE_INFO(name, summary, passes, make) {name, summary, passes},
const moe_stage_info_t moe__stages[] = {STAGES(STAGE_INFO)};
const size_t moe__num_stages = sizeof moe__stages / sizeof moe__stages[0];

#define STAGE_MAKER(name, summary, passes, make) make,
static moe_status_t (*const makers[])(moe_module_t *) = {STAGES(STAGE_MAKER)};

size_t moe__stage_find(moe_compiler_t *compiler, const char *name) {
  moe__nearest_t nearest = {.word = name};
  moe__text_t list = {0};
  size_t stage = 0;
  for (; stage < moe__num_stages && strcmp(moe__stages[stage].name, name) != 0; stage++) {
    moe__nearest_offer(&nearest, moe__stages[stage].name);
    moe__text_printf(&list, "%s%s", stage ? ", " : "", moe__stages[stage].name);
  }
  if (stage == moe__num_stages) {
    if (nearest.best)
      moe__report(compiler, MOE_ERROR, NULL, 0, 0, "'%s' is not a stage; did you mean '%s'?", name,
                  nearest.best);
    else
      moe__report(compiler, MOE_ERROR, NULL, 0, 0, "'%s' is not a stage; the stages are %s", name,
                  list.data);
  }
  moe__text_free(&list);
  return stage;
}

/* The stage whose IR gets lines. */
static const char STAGE_OF_LINES[] = "nvvm";

/* Passes for line information. The first makes the printed IR the place of its ops, the second puts
 * functions around these places, which LLVM wants. lines: the file that gets the IR; NULL: without
 * the first pass. */
static void append_line_info(const moe_compiler_t *compiler, const char *stage, const char *lines,
                             moe__text_t *out_text) {
  if (lines && !strcmp(stage, STAGE_OF_LINES))
    moe__text_printf(out_text, ",snapshot-op-locations{filename=\"%s\"}", lines);
  if (compiler->options.line_info && !strcmp(stage, "llvm"))
    moe__text_put(out_text,
                  ",ensure-debug-info-scope-on-llvm-func{emission-kind=DebugDirectivesOnly}");
}

static void append_pipeline(const moe_compiler_t *compiler, size_t first, size_t last,
                            const char *lines, moe__text_t *out_text) {
  moe__text_put(out_text, "builtin.module(");
  const char *separator = "";
  for (size_t i = first; i <= last; i++) {
    if (!moe__stages[i].passes || !*moe__stages[i].passes)
      continue;
    moe__text_printf(out_text, "%s%s", separator, moe__stages[i].passes);
    separator = ",";
    append_line_info(compiler, moe__stages[i].name, lines, out_text);
  }
  moe__text_put(out_text, ")");
}

void moe__stage_pipeline(const moe_compiler_t *compiler, size_t stage, moe__text_t *out_text) {
  append_pipeline(compiler, 0, stage, compiler->options.line_info, out_text);
}

static bool prints_after(const moe_compiler_options_t *options) {
  return options->print_ir_after_all || options->print_ir_after_change ||
         options->print_ir_after_failure;
}

/* Makes the folder for the IR of passes. MLIR makes it too, but goes on where that fails. */
static bool make_tree_dir(moe_compiler_t *compiler) {
  const moe_compiler_options_t *options = &compiler->options;
  const char *folder = options->print_ir_tree_dir;
  if (!folder || !(options->print_ir_before_all || prints_after(options)) ||
      ((!mkdir(folder, 0777) || errno == EEXIST) && !access(folder, W_OK | X_OK)))
    return true;
  moe__report(compiler, MOE_ERROR, NULL, 0, 0, "cannot write '%s': %s", folder, strerror(errno));
  return false;
}

static void configure(const moe_compiler_t *compiler, MlirPassManager manager, bool verify) {
  const moe_compiler_options_t *options = &compiler->options;
  mlirPassManagerEnableVerifier(manager, verify);
  bool after = prints_after(options);
  if (options->print_ir_before_all || after) {
    const char *folder = options->print_ir_tree_dir;
    MlirOpPrintingFlags flags = moe__printing_flags(&options->printing);
    mlirPassManagerEnableIRPrinting(manager, options->print_ir_before_all, after,
                                    options->print_ir_module_scope, options->print_ir_after_change,
                                    options->print_ir_after_failure, flags,
                                    folder ? moe__ref(folder) : mlirStringRefCreate(NULL, 0));
    mlirOpPrintingFlagsDestroy(flags);
  }
  if (options->pass_statistics)
    mlirPassManagerEnableStatistics(manager, MLIR_PASS_DISPLAY_MODE_PIPELINE);
  if (options->timing)
    mlirPassManagerEnableTiming(manager);
}

moe_status_t moe__run_pipeline(moe_module_t *module, const char *pipeline, bool verify) {
  moe_compiler_t *compiler = module->compiler;
  if (!make_tree_dir(compiler))
    return MOE_IO_ERROR;
  MlirPassManager manager = moe__pipeline_parse(compiler, pipeline);
  if (mlirPassManagerIsNull(manager))
    return MOE_USAGE;
  configure(compiler, manager, verify);
  compiler->rejected = compiler->internal = false;
  bool ok = mlirLogicalResultIsSuccess(
      mlirPassManagerRunOnOp(manager, mlirModuleGetOperation(module->ir)));
  mlirPassManagerDestroy(manager); /* prints the timing */
  if (ok)
    return MOE_OK;
  return compiler->internal ? MOE_INTERNAL : MOE_INVALID_INPUT;
}

moe_status_t moe_module_run(moe_module_t *module, const char *pipeline) {
  if (!module || !pipeline)
    return MOE_USAGE;
  module->compiler->source = (moe__source_t){module->name, module->text};
  moe__module_drop_artifacts(module);
  size_t errors_before = module->compiler->num_errors;
  moe_status_t status =
      moe__run_pipeline(module, pipeline, module->compiler->options.verify != MOE_VERIFY_OWN);
  if (status == MOE_INVALID_INPUT && module->compiler->num_errors == errors_before)
    moe__report(module->compiler, MOE_ERROR, &module->compiler->source, 0, 0,
                "a pass of %s failed without saying why", pipeline);
  return status;
}

/* Runs the passes of these stages, without that which writes lines. */
static moe_status_t run_stages(moe_module_t *module, size_t first, size_t last) {
  moe_compiler_t *compiler = module->compiler;
  moe__text_t pipeline = {0};
  append_pipeline(compiler, first, last, NULL, &pipeline);
  moe_verify_t verify = compiler->options.verify;
  moe_status_t status = moe__run_pipeline(module, pipeline.data, verify == MOE_VERIFY_EACH);
  /* Behind each pass of MLIR it would take as long as the passes themselves. */
  if (status == MOE_OK && verify == MOE_VERIFY_STAGES &&
      !mlirOperationVerify(mlirModuleGetOperation(module->ir)))
    status = MOE_INVALID_INPUT;
  /* The module was valid and our passes had nothing against it: then the stages must not fail. */
  bool is_expected = status == MOE_OK || status == MOE_INTERNAL || status == MOE_IO_ERROR;
  if (!is_expected && !compiler->rejected && !module->has_kernels) {
    moe__report(compiler, MOE_ERROR, NULL, 0, 0, "internal error: one of the passes %s failed",
                pipeline.data);
    status = MOE_INTERNAL;
  }
  moe__text_free(&pipeline);
  return status;
}

/* Runs the passes of all stages up to this one. */
static moe_status_t run_passes(moe_module_t *module, size_t stage) {
  size_t with_lines = moe__stage_find(module->compiler, STAGE_OF_LINES);
  if (!module->compiler->options.line_info || stage < with_lines)
    return run_stages(module, 0, stage);
  moe_status_t status = run_stages(module, 0, with_lines);
  if (status == MOE_OK)
    status = moe__take_lines(module);
  return status == MOE_OK ? run_stages(module, with_lines + 1, stage) : status;
}

static double milliseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static moe_status_t make_artifact(moe_module_t *module, size_t stage) {
  moe_compiler_t *compiler = module->compiler;
  const char *name = moe__stages[stage].name;
  size_t errors_before = compiler->num_errors;
  double start = milliseconds();
  moe_status_t status = makers[stage](module);
  if (status == MOE_INTERNAL && module->has_kernels)
    status = MOE_INVALID_INPUT;
  if (compiler->options.timing)
    fprintf(stderr, "  %8.4f s  %s\n", (milliseconds() - start) / 1e3, name);
  if (status == MOE_INTERNAL)
    moe__report(compiler, MOE_ERROR, NULL, 0, 0, "internal error: %s could not be made", name);
  else if (status != MOE_OK && compiler->num_errors == errors_before)
    moe__report(compiler, MOE_ERROR, NULL, 0, 0, "%s: %s", name, moe_status_text(status));
  return status;
}

void moe__module_drop_artifacts(moe_module_t *module) {
  free(module->ptx.data);
  free(module->cubin.data);
  free(module->manifest.data);
  free(module->lines.data);
  free(module->assembler);
  free(module->log);
  for (size_t i = 0; i < module->num_resources; i++)
    free((char *)module->resources[i].kernel);
  free(module->resources);
  module->ptx = module->cubin = module->manifest = module->lines = (moe__bytes_t){0};
  module->assembler = module->log = NULL;
  module->resources = NULL;
  module->num_resources = 0;
  module->num_stages = 0;
}

moe_status_t moe_module_lower(moe_module_t *module, const char *stage_name) {
  if (!module || !stage_name)
    return MOE_USAGE;
  moe_compiler_t *compiler = module->compiler;
  compiler->source = (moe__source_t){module->name, module->text};
  moe__module_drop_artifacts(module);
  size_t stage = moe__stage_find(compiler, stage_name);
  if (stage == moe__num_stages)
    return MOE_USAGE;

  moe_status_t status = run_passes(module, stage);
  for (size_t i = 0; i <= stage && status == MOE_OK; i++) {
    if (makers[i])
      status = make_artifact(module, i);
  }
  if (status == MOE_OK && makers[stage] == make_cubin && !module->cubin.data) {
    moe__report(compiler, MOE_ERROR, NULL, 0, 0, "%s, and a cubin needs one",
                moe__target_is_no_ptxas(compiler->options.ptxas) ? "--ptxas=none takes no ptxas"
                                                                 : "no ptxas was found");
    return MOE_INVALID_INPUT;
  }
  if (status == MOE_OK && makers[stage] != make_nothing_more) /* else with the bundle */
    status = moe__write_lines(module);
  if (status == MOE_OK)
    module->num_stages = stage + 1;
  return status;
}

/* What the stage made, or NULL where it is no artifact of its own. */
static const moe__bytes_t *artifact_of(const moe_module_t *module, size_t stage) {
  if (makers[stage] == make_ptx)
    return &module->ptx;
  if (makers[stage] == make_cubin)
    return &module->cubin;
  return makers[stage] == make_manifest ? &module->manifest : NULL;
}

moe_status_t moe_module_artifact(moe_module_t *module, const char *name, const char **out_data,
                                 size_t *out_length) {
  if (!out_data || !out_length)
    return MOE_USAGE;
  *out_data = NULL;
  *out_length = 0;
  if (!module || !name)
    return MOE_USAGE;
  moe_compiler_t *compiler = module->compiler;
  size_t stage = moe__stage_find(compiler, name);
  if (stage == moe__num_stages)
    return MOE_USAGE;
  const moe__bytes_t *artifact = artifact_of(module, stage);
  if (!artifact || stage >= module->num_stages) {
    moe__report(compiler, MOE_ERROR, NULL, 0, 0,
                artifact ? "the artifact '%s' has not been made yet" : "'%s' is not an artifact",
                name);
    return MOE_USAGE;
  }
  *out_data = artifact->data;
  *out_length = artifact->length;
  return MOE_OK;
}

moe_status_t moe_module_resources(moe_module_t *module, const moe_kernel_resources_t **out_kernels,
                                  size_t *out_count) {
  if (!out_kernels || !out_count)
    return MOE_USAGE;
  *out_kernels = NULL;
  *out_count = 0;
  if (!module)
    return MOE_USAGE;
  if (!module->cubin.data) {
    moe__report(module->compiler, MOE_ERROR, NULL, 0, 0, "no cubin has been made");
    return MOE_USAGE;
  }
  if (!module->resources && !moe__target_resources(mlirModuleGetOperation(module->ir),
                                                   module->cubin, module->log ? module->log : "",
                                                   &module->resources, &module->num_resources))
    return MOE_INVALID_INPUT;
  *out_kernels = module->resources;
  *out_count = module->num_resources;
  return MOE_OK;
}

moe_status_t moe_module_write_bundle(moe_module_t *module, const char *directory) {
  if (!module || !directory)
    return MOE_USAGE;
  moe_compiler_t *compiler = module->compiler;
  if (module->num_stages != moe__num_stages) {
    moe__report(compiler, MOE_ERROR, NULL, 0, 0, "the module is not in stage 'bundle'");
    return MOE_USAGE;
  }
  compiler->source = (moe__source_t){module->name, module->text};
  MlirOperation ir = mlirModuleGetOperation(module->ir);
  moe__staged_bundle_t bundle;
  bool ok = moe__target_stage_bundle(ir, directory, module->ptx, module->cubin, (moe__bytes_t){0},
                                     module->manifest, &bundle) &&
            moe__write_lines(module) == MOE_OK && moe__target_commit_bundle(ir, directory, &bundle);
  moe__target_discard_bundle(&bundle);
  return ok ? MOE_OK : MOE_IO_ERROR;
}
