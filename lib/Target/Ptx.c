/* Ptx.c - LLVM dialect to PTX: MLIR's translation to LLVM IR, LLVM's optimizer, the NVPTX backend.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Target/Target.h"

#include "lib/Builder/Inspect.h"

#include "mlir-c/Target/LLVMIR.h"

#include "llvm-c/Analysis.h"
#include "llvm-c/BitReader.h"
#include "llvm-c/BitWriter.h"
#include "llvm-c/Core.h"
#include "llvm-c/Error.h"
#include "llvm-c/Linker.h"
#include "llvm-c/Target.h"
#include "llvm-c/TargetMachine.h"
#include "llvm-c/Transforms/PassBuilder.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
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
  char *text; /* of the first error; owned */
  int errors;
} diagnostics_t;

static void note_error(diagnostics_t *diagnostics, const char *what, const char *text) {
  if (diagnostics->errors++ == 0 && asprintf(&diagnostics->text, "%s: %s", what, text) < 0)
    abort();
}

static void on_diagnostic(LLVMDiagnosticInfoRef info, void *user) {
  diagnostics_t *diagnostics = user;
  if (LLVMGetDiagInfoSeverity(info) != LLVMDSError)
    return;
  char *text = LLVMGetDiagInfoDescription(info);
  note_error(diagnostics, "LLVM", text);
  LLVMDisposeMessage(text);
}

static LLVMTargetMachineRef create_machine(const moe__target_options_t *options,
                                           diagnostics_t *diagnostics) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, initialize_backend);
  LLVMTargetRef target = NULL;
  char *message = NULL;
  if (LLVMGetTargetFromTriple(TRIPLE, &target, &message)) {
    note_error(diagnostics, "LLVM has no NVPTX backend", message);
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

static void prepare(LLVMModuleRef llvm_module, LLVMTargetMachineRef machine) {
  LLVMSetTarget(llvm_module, TRIPLE);
  LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(machine);
  LLVMSetModuleDataLayout(llvm_module, layout);
  LLVMDisposeTargetData(layout);
}

/* Errors go to `diagnostics`: this may be a thread of its own, and MLIR has one. */
static bool optimize_and_emit(LLVMModuleRef llvm_module, LLVMTargetMachineRef machine,
                              int opt_level, diagnostics_t *diagnostics, moe__bytes_t *out_ptx) {
  char *message = NULL;
  if (LLVMVerifyModule(llvm_module, LLVMReturnStatusAction, &message)) {
    note_error(diagnostics, "invalid LLVM IR", message);
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
    note_error(diagnostics, "LLVM", text);
    LLVMDisposeErrorMessage(text);
    return false;
  }

  LLVMMemoryBufferRef buffer = NULL;
  if (LLVMTargetMachineEmitToMemoryBuffer(machine, llvm_module, LLVMAssemblyFile, &message,
                                          &buffer)) {
    note_error(diagnostics, "LLVM", message);
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

/* ---- Kernels side by side ---- */

/* A thread compiles so many times on average: each time it reads the bitcode of all kernels. */
enum { JOBS_OF_A_THREAD = 4 };

/* Kernels of the module, compiled in a context of their own. */
typedef struct job_t {
  LLVMMemoryBufferRef bitcode; /* of all kernels; borrowed */
  const moe__target_options_t *options;
  size_t first, end; /* their numbers among the functions with a body, without `end` */
  diagnostics_t diagnostics;
  moe__bytes_t ptx;
  bool ok;
} job_t;

static void keep(LLVMModuleRef module, size_t first, size_t end) {
  size_t number = 0;
  for (LLVMValueRef next, function = LLVMGetFirstFunction(module); function; function = next) {
    next = LLVMGetNextFunction(function);
    if (LLVMIsDeclaration(function))
      continue;
    if (number < first || number >= end)
      LLVMDeleteFunction(function);
    number++;
  }
}

/* The jobs that several threads work off, each taking the next one. */
typedef struct jobs_t {
  job_t *jobs;
  size_t count;
  atomic_size_t next;
} jobs_t;

static void run_job(job_t *job) {
  LLVMContextRef context = LLVMContextCreate();
  LLVMContextSetDiagnosticHandler(context, on_diagnostic, &job->diagnostics);
  LLVMTargetMachineRef machine = create_machine(job->options, &job->diagnostics);
  LLVMModuleRef module = NULL;
  if (machine && !LLVMParseBitcodeInContext2(context, job->bitcode, &module)) {
    keep(module, job->first, job->end);
    job->ok =
        optimize_and_emit(module, machine, job->options->opt_level, &job->diagnostics, &job->ptx);
    LLVMDisposeModule(module);
  }
  if (machine)
    LLVMDisposeTargetMachine(machine);
  LLVMContextDispose(context);
}

static void *work(void *user) {
  jobs_t *jobs = user;
  for (size_t i; (i = atomic_fetch_add(&jobs->next, 1)) < jobs->count;) {
    run_job(&jobs->jobs[i]);
    if (!jobs->jobs[i].ok) /* the others are for nothing */
      atomic_store(&jobs->next, jobs->count);
  }
  return NULL;
}

/* Runs all jobs, in this thread and in up to num_threads - 1 others. */
static void run_jobs(job_t *jobs, size_t count, size_t num_threads) {
  jobs_t all = {.jobs = jobs, .count = count};
  pthread_t *threads = calloc(num_threads, sizeof *threads);
  if (!threads)
    abort();
  size_t started = 0;
  while (started + 1 < num_threads && !pthread_create(&threads[started], NULL, work, &all))
    started++;
  work(&all);
  for (size_t i = 0; i < started; i++)
    pthread_join(threads[i], NULL);
  free(threads);
}

/* The end of the line after the first one that begins with `start`; NULL where there is none. */
static const char *behind_line(const char *text, const char *start) {
  const char *line = strstr(text, start);
  const char *end = line ? strchr(line, '\n') : NULL;
  return end ? end + 1 : NULL;
}

static const char SHARED[] = ".extern .shared", ENTRY[] = ".visible .entry";

/* Writes the first job's PTX, with the declaration of shared memory that is in `other`, where it
 * has none itself; other: NULL where no job has one. */
static void write_first(FILE *out, const char *ptx, const char *other) {
  const char *declared = other ? strstr(other, SHARED) : NULL, *entry = strstr(ptx, ENTRY);
  if (declared && entry && !strstr(ptx, SHARED)) {
    fwrite(ptx, 1, (size_t)(entry - ptx) - 1, out); /* in place of an empty line */
    fwrite(declared, 1, strcspn(declared, "\n"), out);
    fputs("\n\n", out);
    ptx = entry;
  }
  fputs(ptx, out);
}

/* Appends a job's PTX as LLVM writes it behind that of `number` kernels: without the head, without
 * the declaration of shared memory, which the first has made, and with labels that go on. False: it
 * has another form. */
static bool append_job(FILE *out, const char *ptx, size_t number, const char *other) {
  static const char head[] = ".address_size 64\n", label[] = "$L__BB";
  const char *begin = behind_line(ptx, head);
  if (!begin || (number && strstr(begin, "__local_depot")))
    return false;
  if (number == 0) {
    write_first(out, ptx, other);
    return true;
  }
  begin += *begin == '\n';
  const char *declared = strstr(begin, SHARED), *entry = strstr(begin, ENTRY);
  if (!entry || (declared && declared > entry))
    return false;
  /* Where declarations go there is the line of one and an empty line, or the latter alone. */
  const char *end = declared ? strchr(declared, '\n') : entry - 2;
  if (!end || end < begin || end[0] != '\n' || end[1] != '\n' || end + 2 != entry)
    return false;
  fwrite(begin, 1, (size_t)((declared ? declared : end + 1) - begin), out);
  begin = entry;
  for (const char *next; (next = strstr(begin, label));) {
    next += strlen(label);
    fwrite(begin, 1, (size_t)(next - begin), out);
    char *behind = NULL;
    fprintf(out, "%zu", number + (size_t)strtoul(next, &behind, 10));
    begin = behind;
  }
  fputs(begin, out);
  return true;
}

static size_t count_kernels(LLVMModuleRef module) {
  size_t count = 0;
  for (LLVMValueRef function = LLVMGetFirstFunction(module); function;
       function = LLVMGetNextFunction(function))
    count += !LLVMIsDeclaration(function);
  return count;
}

/* Whether all that the kernels share is declared in each of them. */
static bool can_be_split(LLVMModuleRef module) {
  for (LLVMValueRef global = LLVMGetFirstGlobal(module); global; global = LLVMGetNextGlobal(global))
    if (!LLVMIsDeclaration(global))
      return false;
  for (LLVMValueRef function = LLVMGetFirstFunction(module); function;
       function = LLVMGetNextFunction(function))
    if (!LLVMIsDeclaration(function) && LLVMGetFirstUse(function))
      return false;
  return true;
}

/* Those that this process may use. */
static long count_processors(void) {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
}

/* The PTX of all kernels, byte for byte what one module gives, by as many threads as there are
 * kernels and processors. False: nothing has been made, and one module must. */
static bool emit_side_by_side(LLVMModuleRef module, const moe__target_options_t *options,
                              moe__bytes_t *out_ptx) {
  size_t count = count_kernels(module);
  long processors = count_processors();
  if (count < 2 || processors < 2 || options->line_info || !can_be_split(module))
    return false;
  LLVMMemoryBufferRef bitcode = LLVMWriteBitcodeToMemoryBuffer(module);
  size_t num_threads = count < (size_t)processors ? count : (size_t)processors;
  size_t num_jobs = count < JOBS_OF_A_THREAD * num_threads ? count : JOBS_OF_A_THREAD * num_threads;
  job_t *jobs = calloc(num_jobs, sizeof *jobs);
  if (!jobs)
    abort();
  for (size_t i = 0; i < num_jobs; i++)
    jobs[i] = (job_t){.bitcode = bitcode,
                      .options = options,
                      .first = i * count / num_jobs,
                      .end = (i + 1) * count / num_jobs};
  run_jobs(jobs, num_jobs, num_threads);
  bool ok = true;
  for (size_t i = 0; i < num_jobs; i++)
    ok = ok && jobs[i].ok;
  FILE *out = ok ? open_memstream(&out_ptx->data, &out_ptx->length) : NULL;
  ok = out != NULL;
  const char *with_shared = NULL;
  for (size_t i = 0; i < num_jobs && ok && !with_shared; i++)
    with_shared = strstr(jobs[i].ptx.data, SHARED);
  for (size_t i = 0; i < num_jobs && ok; i++)
    ok = append_job(out, jobs[i].ptx.data, jobs[i].first, with_shared);
  if (out && fclose(out))
    ok = false;
  if (!ok) {
    free(out_ptx->data);
    *out_ptx = (moe__bytes_t){0};
  }
  for (size_t i = 0; i < num_jobs; i++) {
    free(jobs[i].ptx.data);
    free(jobs[i].diagnostics.text);
  }
  free(jobs);
  LLVMDisposeMemoryBuffer(bitcode);
  return ok;
}

/* ---- The version ---- */

/* What inline assembly may have that PTX_FEATURE has not. */
static const struct { const char *instruction, *version; } newer[] = {{"st.async.", "8.1"}};

/* LLVM states the version that its own instructions need. States a newer one where inline assembly
 * needs it, and nowhere else. */
static void state_version(moe__bytes_t ptx) {
  static const char directive[] = ".version ";
  char *version = strstr(ptx.data, directive);
  for (size_t i = 0; version && i < sizeof newer / sizeof *newer; i++)
    if (strstr(ptx.data, newer[i].instruction))
      memcpy(version + strlen(directive), newer[i].version, strlen(newer[i].version));
}

moe_status_t moe__target_emit_ptx(MlirOperation module, const moe__target_options_t *options,
                                  moe__bytes_t *out_ptx) {
  *out_ptx = (moe__bytes_t){0};
  if (!is_lowered(module))
    return MOE_INVALID_INPUT;
  bool ok = false;
  LLVMContextRef context = LLVMContextCreate();
  diagnostics_t diagnostics = {0};
  LLVMContextSetDiagnosticHandler(context, on_diagnostic, &diagnostics);
  LLVMTargetMachineRef machine = create_machine(options, &diagnostics);
  LLVMModuleRef llvm_module = machine ? translate(module, context) : NULL;
  if (llvm_module) {
    prepare(llvm_module, machine);
    ok = emit_side_by_side(llvm_module, options, out_ptx) ||
         optimize_and_emit(llvm_module, machine, options->opt_level, &diagnostics, out_ptx);
    LLVMDisposeModule(llvm_module);
  }
  if (ok)
    state_version(*out_ptx);
  if (diagnostics.text)
    moe__error(module, "%s", diagnostics.text);
  free(diagnostics.text);
  if (machine)
    LLVMDisposeTargetMachine(machine);
  LLVMContextDispose(context);
  return ok ? MOE_OK : MOE_INTERNAL;
}
