/* Compiler.c - the compiler and the module of moe/compiler.h: made, asked, destroyed.
 *
 * Why dialects load lazily: loading all of MLIR's takes longer than compiling a kernel.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Driver/Dialects.h"
#include "lib/Driver/Driver.h"
#include "moe/bundle.h"

#include <mlir-c/Dialect/IRDL.h>
#include <mlir-c/RegisterEverything.h>
#include <stdlib.h>
#include <string.h>

static const char *const targets[] = {MOE_BUNDLE_TARGET};
static const size_t num_targets = sizeof targets / sizeof targets[0];

const moe_pass_info_t *moe_compiler_passes(size_t *out_count) {
  if (out_count)
    *out_count = moe__num_passes;
  return moe__passes;
}

const moe_pass_option_info_t *moe_compiler_pass_options(size_t *out_count) {
  if (out_count)
    *out_count = moe__num_pass_options;
  return moe__pass_options;
}

const moe_stage_info_t *moe_compiler_stages(size_t *out_count) {
  if (out_count)
    *out_count = moe__num_stages;
  return moe__stages;
}

const moe_dialect_info_t *moe_compiler_dialects(size_t *out_count) {
  if (out_count)
    *out_count = moe__num_dialects;
  return moe__dialects;
}

moe_compiler_options_t moe_compiler_options_default(void) {
  return (moe_compiler_options_t){.target = targets[0], .opt_level = 3};
}

static bool check_target(moe_compiler_t *compiler) {
  moe__text_t list = {0};
  for (size_t i = 0; i < num_targets; i++) {
    if (!strcmp(compiler->options.target, targets[i])) {
      moe__text_free(&list);
      return true;
    }
    moe__text_printf(&list, "%s%s", i ? ", " : "", targets[i]);
  }
  moe__report(compiler, MOE_ERROR, NULL, 0, 0, "target '%s' is not supported; supported: %s",
              compiler->options.target, list.data);
  moe__text_free(&list);
  return false;
}

static bool check_options(moe_compiler_t *compiler) {
  int level = compiler->options.opt_level;
  if (level < 0 || level > 3) {
    moe__report(compiler, MOE_ERROR, NULL, 0, 0, "optimization level %d is not in 0..3", level);
    return false;
  }
  int verify = (int)compiler->options.verify;
  if (verify < MOE_VERIFY_STAGES || verify > MOE_VERIFY_OWN) {
    moe__report(compiler, MOE_ERROR, NULL, 0, 0, "verify is %d; it must be %d to %d", verify,
                MOE_VERIFY_STAGES, MOE_VERIFY_OWN);
    return false;
  }
  const char *file = compiler->options.line_info;
  if (file && (!*file || strpbrk(file, "'\"{}"))) {
    moe__report(compiler, MOE_ERROR, NULL, 0, 0,
                "'%s' cannot hold the lines of line information: its name is empty, or has quotes "
                "or braces",
                file);
    return false;
  }
  return check_target(compiler);
}

static bool load_dialects(moe_compiler_t *compiler) {
  for (size_t i = 0; i < moe__num_dialects; i++) {
    compiler->source = (moe__source_t){moe__dialects[i].name, moe__dialects[i].text};
    MlirModule definition =
        mlirModuleCreateParse(compiler->context, moe__ref(moe__dialects[i].text));
    bool ok = !mlirModuleIsNull(definition) &&
              mlirLogicalResultIsSuccess(mlirLoadIRDLDialects(definition));
    if (!mlirModuleIsNull(definition))
      mlirModuleDestroy(definition);
    if (!ok) {
      moe__report(compiler, MOE_ERROR, NULL, 0, 0, "internal error: dialect %s cannot be loaded",
                  moe__dialects[i].name);
      return false;
    }
  }
  compiler->source = (moe__source_t){0};
  return true;
}

static moe_status_t initialize(moe_compiler_t *compiler) {
  if (!check_options(compiler))
    return MOE_USAGE;
  MlirDialectRegistry registry = mlirDialectRegistryCreate();
  mlirRegisterAllDialects(registry);
  /* One thread: a kernel is too small to be worth a pool, and our passes share the compiler. */
  compiler->context = mlirContextCreateWithRegistry(registry, false);
  mlirDialectRegistryDestroy(registry);
  mlirContextSetAllowUnregisteredDialects(compiler->context,
                                          compiler->options.allow_unregistered_dialects);
  mlirRegisterAllLLVMTranslations(compiler->context);
  mlirContextAttachDiagnosticHandler(compiler->context, moe__handle_diagnostic, compiler, NULL);
  return load_dialects(compiler) ? MOE_OK : MOE_INTERNAL;
}

moe_status_t moe_compiler_create(const moe_compiler_options_t *options,
                                 moe_compiler_t **out_compiler) {
  if (!out_compiler)
    return MOE_USAGE;
  *out_compiler = NULL;
  moe_compiler_t *compiler = moe__allocate(sizeof *compiler);
  *compiler = (moe_compiler_t){.options = options ? *options : moe_compiler_options_default()};
  const char *target = compiler->options.target ? compiler->options.target : targets[0];
  compiler->options.target = moe__copy_string(target);
  compiler->options.ptxas = moe__copy_string(compiler->options.ptxas);
  compiler->options.print_ir_tree_dir = moe__copy_string(compiler->options.print_ir_tree_dir);
  compiler->options.line_info = moe__copy_string(compiler->options.line_info);
  compiler->target = (moe__target_options_t){.chip = compiler->options.target,
                                             .opt_level = compiler->options.opt_level,
                                             .ptxas = compiler->options.ptxas,
                                             .line_info = compiler->options.line_info};
  moe_status_t status = initialize(compiler);
  if (status == MOE_OK)
    *out_compiler = compiler;
  else
    moe_compiler_destroy(compiler);
  return status;
}

void moe_compiler_destroy(moe_compiler_t *compiler) {
  if (!compiler)
    return;
  if (!mlirContextIsNull(compiler->context))
    mlirContextDestroy(compiler->context);
  free((char *)compiler->options.target);
  free((char *)compiler->options.ptxas);
  free((char *)compiler->options.print_ir_tree_dir);
  free((char *)compiler->options.line_info);
  moe__text_free(&compiler->answer);
  free(compiler);
}

const char *moe_compiler_ptxas(const moe_compiler_options_t *options) {
  return moe__target_find_ptxas(options ? options->ptxas : NULL);
}

bool moe_compiler_has_pass(moe_compiler_t *compiler, const char *argument) {
  if (!compiler || !argument)
    return false;
  for (size_t i = 0; i < moe__num_passes; i++) {
    if (!strcmp(moe__passes[i].argument, argument))
      return true;
  }
  /* MLIR has no question for this, but what it says about an unknown pass differs from what it says
   * about a pass in the wrong place. A name with punctuation would be read as a pipeline. */
  if (!*argument || strpbrk(argument, ",(){} \t\r\n"))
    return false;
  moe__register_upstream_passes();
  MlirPassManager manager = mlirPassManagerCreate(compiler->context);
  MlirOpPassManager any =
      mlirOpPassManagerGetNestedUnder(mlirPassManagerGetAsOpPassManager(manager), moe__ref("any"));
  moe__text_t message = {0};
  bool known = mlirLogicalResultIsSuccess(mlirOpPassManagerAddPipeline(
                   any, moe__ref(argument), moe__append_ref, &message)) ||
               !strstr(message.data, "does not refer to a registered pass");
  mlirPassManagerDestroy(manager);
  moe__text_free(&message);
  return known;
}

moe_status_t moe_compiler_check_pipeline(moe_compiler_t *compiler, const char *pipeline,
                                         const char **out_canonical) {
  if (out_canonical)
    *out_canonical = NULL;
  if (!compiler || !pipeline)
    return MOE_USAGE;
  MlirPassManager manager = moe__pipeline_parse(compiler, pipeline);
  if (mlirPassManagerIsNull(manager))
    return MOE_USAGE;
  if (out_canonical) {
    moe__text_clear(&compiler->answer);
    mlirPrintPassPipeline(mlirPassManagerGetAsOpPassManager(manager), moe__append_ref,
                          &compiler->answer);
    *out_canonical = compiler->answer.data;
  }
  mlirPassManagerDestroy(manager);
  return MOE_OK;
}

moe_status_t moe_compiler_stage_pipeline(moe_compiler_t *compiler, const char *stage,
                                         const char **out_pipeline) {
  if (!out_pipeline)
    return MOE_USAGE;
  *out_pipeline = NULL;
  if (!compiler || !stage)
    return MOE_USAGE;
  size_t index = moe__stage_find(compiler, stage);
  if (index == moe__num_stages)
    return MOE_USAGE;
  moe__text_clear(&compiler->answer);
  moe__stage_pipeline(compiler, index, &compiler->answer);
  *out_pipeline = compiler->answer.data;
  return MOE_OK;
}

/* ---- Modules ---- */

MlirOperation moe__find_kernels(const moe_module_t *module) {
  MlirOperation op = mlirBlockGetFirstOperation(mlirModuleGetBody(module->ir));
  while (!mlirOperationIsNull(op) &&
         !mlirStringRefEqual(mlirIdentifierStr(mlirOperationGetName(op)), moe__ref("gpu.module")))
    op = mlirOperationGetNextInBlock(op);
  return op;
}

/* MLIR's lexer needs the zero that ends the module's own copy; the caller's bytes have none. */
static moe_status_t parse(moe_module_t *module, size_t length) {
  moe_compiler_t *compiler = module->compiler;
  const char *text = module->text;
  compiler->source = (moe__source_t){module->name, module->text};
  static const char bytecode[] = "ML\xefR";
  bool is_bytecode = length >= strlen(bytecode) && !memcmp(text, bytecode, strlen(bytecode));
  size_t text_length = strlen(text);
  if (!is_bytecode && text_length != length) {
    moe__report(compiler, MOE_ERROR, &compiler->source, 0, 0,
                "byte %zu is 0: this is not MLIR text", text_length);
    return MOE_INVALID_INPUT;
  }
  if (!moe__check_nesting(compiler))
    return MOE_INVALID_INPUT;
  size_t errors_before = compiler->num_errors;
  compiler->parsing = true;
  module->ir = mlirModuleCreateParse(compiler->context, mlirStringRefCreate(text, length));
  compiler->parsing = false;
  if (mlirModuleIsNull(module->ir)) {
    if (compiler->num_errors == errors_before)
      moe__explain_silent_failure(compiler);
    return MOE_INVALID_INPUT;
  }
  /* These are the author's to answer for; those of the stages are ours. */
  module->has_kernels = !mlirOperationIsNull(moe__find_kernels(module));
  return moe__name_values(module) ? MOE_OK : MOE_INVALID_INPUT;
}

bool moe_module_has_kernels(const moe_module_t *module) {
  return module && module->has_kernels;
}

moe_status_t moe_module_parse(moe_compiler_t *compiler, const char *name, const char *text,
                              size_t length, moe_module_t **out_module) {
  if (!out_module)
    return MOE_USAGE;
  *out_module = NULL;
  if (!compiler || !text)
    return MOE_USAGE;
  moe_module_t *module = moe__allocate(sizeof *module);
  *module = (moe_module_t){
      .compiler = compiler, .name = moe__copy_string(name), .text = moe__copy(text, length)};
  moe_status_t status = parse(module, length);
  if (status == MOE_OK)
    *out_module = module;
  else
    moe_module_destroy(module);
  return status;
}

void moe_module_destroy(moe_module_t *module) {
  if (!module)
    return;
  if (!mlirModuleIsNull(module->ir))
    mlirModuleDestroy(module->ir);
  moe__module_drop_artifacts(module);
  module->compiler->source = (moe__source_t){0};
  moe__text_free(&module->printed);
  free(module->name);
  free(module->text);
  free(module);
}

MlirOpPrintingFlags moe__printing_flags(const moe_printing_t *printing) {
  MlirOpPrintingFlags flags = mlirOpPrintingFlagsCreate();
  if (printing->generic)
    mlirOpPrintingFlagsPrintGenericOpForm(flags);
  if (printing->debug_info || printing->pretty_debug_info)
    mlirOpPrintingFlagsEnableDebugInfo(flags, true, printing->pretty_debug_info);
  if (printing->local_scope)
    mlirOpPrintingFlagsUseLocalScope(flags);
  if (printing->skip_regions)
    mlirOpPrintingFlagsSkipRegions(flags);
  if (printing->assume_verified)
    mlirOpPrintingFlagsAssumeVerified(flags);
  if (printing->name_prefix)
    mlirOpPrintingFlagsPrintNameLocAsPrefix(flags);
  if (printing->has_elide_elements)
    mlirOpPrintingFlagsElideLargeElementsAttrs(flags, (intptr_t)printing->elide_elements);
  if (printing->has_elide_resources)
    mlirOpPrintingFlagsElideLargeResourceString(flags, (intptr_t)printing->elide_resources);
  return flags;
}

moe_status_t moe_module_bytecode(moe_module_t *module, const char **out_data, size_t *out_length) {
  if (!module || !out_data || !out_length)
    return MOE_USAGE;
  moe__text_clear(&module->printed);
  mlirOperationWriteBytecode(mlirModuleGetOperation(module->ir), moe__append_ref, &module->printed);
  *out_data = module->printed.data;
  *out_length = module->printed.length;
  return MOE_OK;
}

void moe__module_print_as(moe_module_t *module, const moe_printing_t *printing) {
  moe__text_clear(&module->printed);
  if (printing->debug_info || printing->pretty_debug_info)
    moe__rename_places(module, moe__text_name, module->name);
  MlirOpPrintingFlags flags = moe__printing_flags(printing);
  mlirOperationPrintWithFlags(mlirModuleGetOperation(module->ir), flags, moe__append_ref,
                              &module->printed);
  mlirOpPrintingFlagsDestroy(flags);
  if (module->printed.data[module->printed.length - 1] != '\n')
    moe__text_put(&module->printed, "\n");
}

moe_status_t moe_module_print(moe_module_t *module, bool generic, const char **out_text,
                              size_t *out_length) {
  if (!module || !out_text || !out_length)
    return MOE_USAGE;
  moe_printing_t printing = module->compiler->options.printing;
  printing.generic |= generic;
  moe__module_print_as(module, &printing);
  *out_text = module->printed.data;
  *out_length = module->printed.length;
  return MOE_OK;
}
