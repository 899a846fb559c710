/* Ptx.c - LLVM dialect to PTX: MLIR's translation to LLVM IR, LLVM's optimizer, the NVPTX backend.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Target/Target.h"

#include "lib/Builder/Inspect.h"

#include "mlir-c/Target/LLVMIR.h"

#include "llvm-c/Analysis.h"
#include "llvm-c/Core.h"
#include "llvm-c/Error.h"
#include "llvm-c/Linker.h"
#include "llvm-c/Target.h"
#include "llvm-c/TargetMachine.h"
#include "llvm-c/Transforms/PassBuilder.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define TRIPLE "nvptx64-nvidia-cuda"
/* The oldest PTX that has everything the kernels use (TMA, mbarrier, wgmma), so that older drivers
 * can load it. */
#define PTX_FEATURE "+ptx80"

static void initialize_backend(void) {
  LLVMInitializeNVPTXTargetInfo();
  LLVMInitializeNVPTXTarget();
  LLVMInitializeNVPTXTargetMC();
  LLVMInitializeNVPTXAsmPrinter();
}

/* LLVM reports some errors as diagnostics and goes on; without a handler it would end the process.
 */
typedef struct diagnostics_t {
  MlirOperation module;
  int errors;
} diagnostics_t;

static void on_diagnostic(LLVMDiagnosticInfoRef info, void *user) {
  diagnostics_t *diagnostics = user;
  if (LLVMGetDiagInfoSeverity(info) != LLVMDSError)
    return;
  diagnostics->errors++;
  char *text = LLVMGetDiagInfoDescription(info);
  moe__error(diagnostics->module, "LLVM: %s", text);
  LLVMDisposeMessage(text);
}

static LLVMTargetMachineRef create_machine(MlirOperation module,
                                           const moe__target_options_t *options) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, initialize_backend);
  LLVMTargetRef target = NULL;
  char *message = NULL;
  if (LLVMGetTargetFromTriple(TRIPLE, &target, &message)) {
    moe__error(module, "LLVM has no NVPTX backend: %s", message);
    LLVMDisposeMessage(message);
    return NULL;
  }
  static const LLVMCodeGenOptLevel levels[] = {LLVMCodeGenLevelNone, LLVMCodeGenLevelLess,
                                               LLVMCodeGenLevelDefault, LLVMCodeGenLevelAggressive};
  return LLVMCreateTargetMachine(target, TRIPLE, options->chip, PTX_FEATURE,
                                 levels[options->opt_level], LLVMRelocDefault,
                                 LLVMCodeModelDefault);
}

/* Whether the passes have left nothing but the LLVM dialect in the gpu.modules. What they leave
 * alone they do not know: it came with the input. */
static bool is_lowered(MlirOperation module) {
  for (MlirOperation gpu_module = mlirBlockGetFirstOperation(moe__body(module));
       !mlirOperationIsNull(gpu_module); gpu_module = mlirOperationGetNextInBlock(gpu_module)) {
    if (!moe__op_is(gpu_module, "gpu.module"))
      continue;
    for (MlirOperation op = mlirBlockGetFirstOperation(moe__body(gpu_module));
         !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op))
      if (!moe__op_in_dialect(op, "llvm")) {
        MlirStringRef name = moe__op_name(op);
        return moe__error(op, "no pass turns this '%.*s' into a kernel", (int)name.length,
                          name.data);
      }
  }
  return true;
}

/* One LLVM module out of all gpu.modules; NULL after an error. */
static LLVMModuleRef translate(MlirOperation module, LLVMContextRef context) {
  LLVMModuleRef all = LLVMModuleCreateWithNameInContext("kernels", context);
  for (MlirOperation op = mlirBlockGetFirstOperation(moe__body(module)); !mlirOperationIsNull(op);
       op = mlirOperationGetNextInBlock(op)) {
    if (!moe__op_is(op, "gpu.module"))
      continue;
    LLVMModuleRef part = mlirTranslateModuleToLLVMIR(op, context);
    if (!part || LLVMLinkModules2(all, part)) { /* linking consumes part */
      moe__error(op, "cannot be translated to LLVM IR");
      LLVMDisposeModule(all);
      return NULL;
    }
  }
  return all;
}

static bool optimize_and_emit(MlirOperation module, LLVMModuleRef llvm_module,
                              LLVMTargetMachineRef machine, int opt_level,
                              const diagnostics_t *diagnostics, moe__bytes_t *out_ptx) {
  LLVMSetTarget(llvm_module, TRIPLE);
  LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(machine);
  LLVMSetModuleDataLayout(llvm_module, layout);
  LLVMDisposeTargetData(layout);
  char *message = NULL;
  if (LLVMVerifyModule(llvm_module, LLVMReturnStatusAction, &message)) {
    moe__error(module, "invalid LLVM IR: %s", message);
    LLVMDisposeMessage(message);
    return false;
  }
  LLVMDisposeMessage(message);

  char pipeline[] = "default<O3>";
  pipeline[strlen("default<O")] = (char)('0' + opt_level);
  LLVMPassBuilderOptionsRef pass_options = LLVMCreatePassBuilderOptions();
  LLVMErrorRef error = LLVMRunPasses(llvm_module, pipeline, machine, pass_options);
  LLVMDisposePassBuilderOptions(pass_options);
  if (error) {
    char *text = LLVMGetErrorMessage(error);
    moe__error(module, "LLVM: %s", text);
    LLVMDisposeErrorMessage(text);
    return false;
  }

  LLVMMemoryBufferRef buffer = NULL;
  if (LLVMTargetMachineEmitToMemoryBuffer(machine, llvm_module, LLVMAssemblyFile, &message,
                                          &buffer)) {
    moe__error(module, "LLVM: %s", message);
    LLVMDisposeMessage(message);
    return false;
  }
  /* Emission can look successful after an error. */
  bool ok = diagnostics->errors == 0;
  if (ok) {
    out_ptx->length = LLVMGetBufferSize(buffer);
    out_ptx->data = malloc(out_ptx->length + 1);
    ok = out_ptx->data != NULL;
    if (ok) {
      memcpy(out_ptx->data, LLVMGetBufferStart(buffer), out_ptx->length);
      out_ptx->data[out_ptx->length] = '\0';
    }
  }
  LLVMDisposeMemoryBuffer(buffer);
  return ok;
}

moe_status_t moe__target_emit_ptx(MlirOperation module, const moe__target_options_t *options,
                                  moe__bytes_t *out_ptx) {
  *out_ptx = (moe__bytes_t){0};
  if (!is_lowered(module))
    return MOE_INVALID_INPUT;
  bool ok = false;
  LLVMContextRef context = LLVMContextCreate();
  diagnostics_t diagnostics = {.module = module};
  LLVMContextSetDiagnosticHandler(context, on_diagnostic, &diagnostics);
  LLVMTargetMachineRef machine = create_machine(module, options);
  LLVMModuleRef llvm_module = machine ? translate(module, context) : NULL;
  if (llvm_module) {
    ok = optimize_and_emit(module, llvm_module, machine, options->opt_level, &diagnostics, out_ptx);
    LLVMDisposeModule(llvm_module);
  }
  if (machine)
    LLVMDisposeTargetMachine(machine);
  LLVMContextDispose(context);
  return ok ? MOE_OK : MOE_INTERNAL;
}
