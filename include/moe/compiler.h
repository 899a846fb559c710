/* moe/compiler.h - compiles MLIR over the dialects mx_quantize and scaled_grouped_mm to PTX and a
 * manifest.
 *
 * Why it exists: a framework that generates kernels at run time wants the compiler as a library,
 * with its diagnostics in a callback and its artifacts in memory. moe-opt is a thin command line
 * over this header.
 *
 * The five calls that matter:
 *   moe_compiler_create    once per thread: an MLIR context with all dialects, ours included
 *   moe_module_parse       text in
 *   moe_module_lower       run everything up to a stage, "ptx" say
 *   moe_module_artifact    bytes out
 *   moe_module_destroy
 *
 * Errors: every function that can fail returns a moe_status_t and has reported the reason as a
 * diagnostic. Output pointers are set to NULL (or zero) first. A pointer that must not be NULL and
 * is, is MOE_USAGE, without a diagnostic; a question about NULL is answered with no, and a count
 * that nobody wants may be NULL. Running out of memory ends the process, as it does inside LLVM.
 *
 * Threads: a compiler and its modules belong to one thread at a time. Several threads use several
 * compilers.
 *
 * Process-wide state: creating the first compiler registers MLIR's passes once. No signal handler,
 * no LLVM option and no fatal error handler is installed: LLVM ends the process on a fatal error
 * unless the program has installed a handler (LLVMInstallFatalErrorHandler).
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_COMPILER_H
#define MOE_COMPILER_H

#include "moe/export.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(constant, number, text). The numbers are part of the ABI. */
#define MOE_STATUSES(X)                                                                            \
  X(MOE_OK, 0, "ok")                                                                               \
  X(MOE_INVALID_INPUT, 1, "the input is wrong")                                                    \
  X(MOE_USAGE, 2, "wrong usage")                                                                   \
  X(MOE_INTERNAL, 3, "internal error of the compiler")                                             \
  X(MOE_IO_ERROR, 4, "input/output error")

typedef enum moe_status_t {
#define MOE_STATUS(constant, number, text) constant = number,
  MOE_STATUSES(MOE_STATUS)
#undef MOE_STATUS
} moe_status_t;

/* The fixed text of a status. Static storage. */
MOE_API const char *moe_status_text(moe_status_t status);

/* "0.1.0". Static storage. */
MOE_API const char *moe_compiler_version(void);

/* ---- Diagnostics ---- */

/* X(constant, number, word). */
#define MOE_SEVERITIES(X)                                                                          \
  X(MOE_ERROR, 0, "error")                                                                         \
  X(MOE_WARNING, 1, "warning")                                                                     \
  X(MOE_NOTE, 2, "note")                                                                           \
  X(MOE_REMARK, 3, "remark")

typedef enum moe_severity_t {
#define MOE_SEVERITY(constant, number, word) constant = number,
  MOE_SEVERITIES(MOE_SEVERITY)
#undef MOE_SEVERITY
} moe_severity_t;

/* "error", "warning", "note" or "remark". Static storage. */
MOE_API const char *moe_severity_text(moe_severity_t severity);

/* One diagnostic. A note belongs to the last diagnostic before it that is not a note. All strings
 * are borrowed for the duration of the callback. */
typedef struct moe_diagnostic_t {
  moe_severity_t severity;
  const char *file;     /* name given to moe_module_parse, "<pipeline>", or NULL: no place known */
  int line, column;     /* from 1; 0 without a place */
  const char *message;  /* without a trailing newline */
  const char *rendered; /* "file:line:col: error: message\n", then the source line and a caret where
                           the text is known */
} moe_diagnostic_t;

typedef void (*moe_diagnostic_callback_t)(const moe_diagnostic_t *diagnostic, void *user);

/* ---- The compiler ---- */

typedef struct moe_compiler_t moe_compiler_t;

/* How IR is printed, by moe_module_print and between passes; as mlir-opt's flags of these names. */
typedef struct moe_printing_t {
  bool generic;             /* every op in its generic form */
  bool debug_info;          /* locations */
  bool pretty_debug_info;   /* locations in a form that cannot be parsed */
  bool local_scope;         /* types and attributes in place, without aliases */
  bool skip_regions;        /* ops without their regions */
  bool assume_verified;     /* custom forms without a look whether the op is valid */
  bool name_prefix;         /* values are called by their name locations */
  bool has_elide_elements;  /* whether the next counts */
  size_t elide_elements;    /* elements attributes of more elements appear as a placeholder */
  bool has_elide_resources; /* whether the next counts */
  size_t elide_resources;   /* resource strings of more characters are left out */
} moe_printing_t;

/* When IR is verified. A pass of moe-opt is always followed by the verifier. */
typedef enum moe_verify_t {
  MOE_VERIFY_STAGES, /* after each pass of a pipeline from outside, and once behind the stages */
  MOE_VERIFY_EACH,   /* after each pass of MLIR in the stages, too */
  MOE_VERIFY_OWN,    /* after no pass of MLIR */
} moe_verify_t;

/* Strings are copied by moe_compiler_create. */
typedef struct moe_compiler_options_t {
  const char *target; /* "sm_90a", the only one; NULL: the same */
  int opt_level;      /* of LLVM, 0 to 3 */
  const char *ptxas;  /* path of the assembler, or "none" for PTX alone (a file of that name is
                        "./none"); NULL: searched for, and PTX alone where none is found */
  moe_diagnostic_callback_t on_diagnostic; /* NULL: the rendered text goes to stderr */
  void *user;                              /* handed to on_diagnostic */
  bool print_ir_before_all;                /* IR to stderr before each pass */
  bool print_ir_after_all;                 /* IR to stderr after each pass */
  bool timing;                             /* time of each pass and artifact to stderr */
  bool print_ir_after_change;              /* IR to stderr after each pass that changed it */
  bool print_ir_after_failure;             /* IR to stderr after a pass that fails */
  bool print_ir_module_scope;              /* the whole module, and not what the pass ran on */
  bool pass_statistics;                    /* the passes' own counts to stderr */
  moe_verify_t verify;                     /* 0: MOE_VERIFY_STAGES */
  bool allow_unregistered_dialects;        /* ops of dialects that nobody has loaded */
  const char *print_ir_tree_dir; /* IR into files of this folder instead of stderr; or NULL */
  const char *line_info; /* a file that gets the IR of stage "nvvm", whose lines the PTX and the
                            cubin name as their source, without quotes and braces in its name; or
                            NULL. moe_module_lower writes it when all else went well; for stage
                            "bundle" moe_module_write_bundle does */
  moe_printing_t printing;
} moe_compiler_options_t;

/* sm_90a, level 3, everything else off. */
MOE_API moe_compiler_options_t moe_compiler_options_default(void);

/* The path of the ptxas that a compiler with these options runs: that which they name, or the first
 * one that is found. NULL where it is not there: no cubin is made then, and it is an error where
 * the options name it. NULL also where they say "none". NULL options are the default ones. Owned by
 * the options or the library; valid until the thread calls the library again. */
MOE_API const char *moe_compiler_ptxas(const moe_compiler_options_t *options);

/* Creates a compiler. NULL options are the default ones. MOE_USAGE where an option has a value that
 * is not allowed. *out_compiler is owned by the caller; destroy it with moe_compiler_destroy. */
MOE_API moe_status_t moe_compiler_create(const moe_compiler_options_t *options,
                                         moe_compiler_t **out_compiler);

/* Destroys the compiler. Its modules must be gone. NULL is allowed. */
MOE_API void moe_compiler_destroy(moe_compiler_t *compiler);

/* Whether `argument` names a pass or a pass pipeline, ours or MLIR's. */
MOE_API bool moe_compiler_has_pass(moe_compiler_t *compiler, const char *argument);

/* Parses a textual pipeline without running it. MOE_USAGE where it is wrong; the diagnostic's file
 * is "<pipeline>" and its column the place in the text. *out_canonical (may be NULL) is the
 * pipeline with all options spelled out, as MLIR prints it; it is owned by the compiler and valid
 * until its next call. */
MOE_API moe_status_t moe_compiler_check_pipeline(moe_compiler_t *compiler, const char *pipeline,
                                                 const char **out_canonical);

/* The pipeline that moe_module_lower runs for a stage: "builtin.module(moe-verify,...)". Artifacts
 * have that of the stage they are made from. MOE_USAGE: no such stage. *out_pipeline is owned by
 * the compiler and valid until its next call. */
MOE_API moe_status_t moe_compiler_stage_pipeline(moe_compiler_t *compiler, const char *stage,
                                                 const char **out_pipeline);

/* ---- What the compiler has; all in static storage ---- */

typedef struct moe_pass_info_t {
  const char *argument; /* "moe-verify" */
  const char *summary;  /* one line */
} moe_pass_info_t;

typedef struct moe_pass_option_info_t {
  size_t pass; /* index into moe_compiler_passes */
  const char *name;
  const char *default_value;
  const char *description;
} moe_pass_option_info_t;

typedef struct moe_stage_info_t {
  const char *name;    /* "fused" */
  const char *summary; /* one line */
  const char *passes;  /* what leads here from the stage before, as a pipeline has it inside of
                          builtin.module(); "" for none. NULL: an artifact */
} moe_stage_info_t;

typedef struct moe_dialect_info_t {
  const char *name; /* "mx_quantize" */
  const char *text; /* its definition in IRDL, which stock mlir-opt reads with --irdl-file */
} moe_dialect_info_t;

/* Our passes, in the order of passes/Passes.def. MLIR's own are not listed. */
MOE_API const moe_pass_info_t *moe_compiler_passes(size_t *out_count);

/* Options of our passes. */
MOE_API const moe_pass_option_info_t *moe_compiler_pass_options(size_t *out_count);

/* The stages, in order. */
MOE_API const moe_stage_info_t *moe_compiler_stages(size_t *out_count);

/* Our dialects. */
MOE_API const moe_dialect_info_t *moe_compiler_dialects(size_t *out_count);

/* ---- Modules ---- */

typedef struct moe_module_t moe_module_t;

/* Parses and verifies `length` bytes of MLIR, text or bytecode. Bytecode is trusted: MLIR's reader
 * may hang on a damaged one. `name` is the file name of diagnostics. Both are copied. Arguments and
 * results of functions that have no `moe.name` get one from the text: the launch plan and the
 * manifest call them so. MOE_INVALID_INPUT where the text is wrong. *out_module is owned by the
 * caller. */
MOE_API moe_status_t moe_module_parse(moe_compiler_t *compiler, const char *name, const char *text,
                                      size_t length, moe_module_t **out_module);

/* Whether the text has kernels of its own, in a gpu.module: it is then in stage "outlined" or
 * later. What cannot be compiled of these is the input's fault and no bug. */
MOE_API bool moe_module_has_kernels(const moe_module_t *module);

/* NULL is allowed. */
MOE_API void moe_module_destroy(moe_module_t *module);

/* Runs a textual pipeline, "builtin.module(moe-verify,canonicalize)", over the module. Passes of
 * ours and of MLIR may be mixed at any depth. MOE_USAGE: the pipeline is wrong. MOE_INVALID_INPUT:
 * a pass rejected the module. MOE_INTERNAL: a pass of ours left the module invalid. MOE_IO_ERROR:
 * the folder print_ir_tree_dir cannot be written. After a failure the module can only be
 * destroyed. */
MOE_API moe_status_t moe_module_run(moe_module_t *module, const char *pipeline);

/* Runs every stage up to `stage`. The module may already be in any IR stage: the passes before it
 * find nothing to do. MOE_USAGE: no such stage. MOE_INVALID_INPUT: a pass rejected the module; for
 * "cubin" also: no ptxas. MOE_INTERNAL: a stage failed that must not fail; where the module
 * has kernels of its own that is MOE_INVALID_INPUT, too. MOE_IO_ERROR: the file of line_info, or
 * the folder print_ir_tree_dir, cannot be written. The stage "bundle" makes all artifacts;
 * moe_module_write_bundle writes them. After a failure the module can only be destroyed. */
MOE_API moe_status_t moe_module_lower(moe_module_t *module, const char *stage);

/* Prints the IR as the compiler's options say. `generic` asks for the generic form of every op.
 * *out_text is NUL-terminated, owned by the module and valid until its next call. */
MOE_API moe_status_t moe_module_print(moe_module_t *module, bool generic, const char **out_text,
                                      size_t *out_length);

/* The IR as MLIR bytecode, which moe_module_parse and mlir-opt read. *out_data is owned by the
 * module and valid until its next call. */
MOE_API moe_status_t moe_module_bytecode(moe_module_t *module, const char **out_data,
                                         size_t *out_length);

/* An artifact, "ptx", "cubin" or "manifest", made by moe_module_lower. *out_data is owned by the
 * module and valid until the next moe_module_run, moe_module_lower, moe_module_write_candidates or
 * moe_module_destroy of it. MOE_USAGE where it has not been made; a cubin that was not made because
 * no ptxas was found, or the options say "none", is MOE_OK with *out_data NULL. */
MOE_API moe_status_t moe_module_artifact(moe_module_t *module, const char *name,
                                         const char **out_data, size_t *out_length);

/* What a kernel takes of a multiprocessor. */
typedef struct moe_kernel_resources_t {
  const char *kernel;
  int threads;           /* of a CTA */
  int registers;         /* of a thread */
  int spill_bytes;       /* stored and loaded, of a thread */
  int stack_bytes;       /* of a thread */
  int64_t shared_memory; /* of a CTA, bytes: the launcher's and the kernel's own */
  int instructions;      /* in its code */
  int ctas_per_sm;       /* that fit a multiprocessor of the target at once */
} moe_kernel_resources_t;

/* The kernels of a module whose cubin has been made, as ptxas and the cubin say. *out_kernels and
 * the names in it are owned by the module and valid as long as its artifacts. MOE_USAGE where there
 * is no cubin, MOE_INVALID_INPUT where what a kernel says of itself is malformed. */
MOE_API moe_status_t moe_module_resources(moe_module_t *module,
                                          const moe_kernel_resources_t **out_kernels,
                                          size_t *out_count);

/* Writes the folder `directory` with manifest.json, kernels.ptx and, where there is one,
 * kernels.cubin, and the folders above it that are missing. It is written beside its place and
 * renamed: after a failure the old bundle is still there. A folder that holds other
 * files too keeps them; its files are then renamed one after another, once all are complete. The
 * module must be in stage "bundle". */
MOE_API moe_status_t moe_module_write_bundle(moe_module_t *module, const char *directory);

/* Compiles the module once for each candidate schedule of its ops, for moe-run --tune to choose
 * from: a bundle each in `directory`/0, `directory`/1, ..., and beside it source.mlir, the
 * module in stage "scheduled". 0 has the default schedules; in candidate N each op has number N
 * of those known for it, or its default where fewer are known. An op that has a schedule keeps
 * it; where all have one, there is one candidate. The module must be in stage "source" to
 * "scheduled", else that is MOE_USAGE, or MOE_INVALID_INPUT where its text has kernels; it is left
 * in stage "fused" without artifacts, and after MOE_USAGE as it was, with them. Nothing is written
 * before all are compiled, and none takes its place before all are written; candidates of an
 * earlier call beyond the last one are removed. Where a folder with such a number is no candidate,
 * or holds other files too, that is MOE_IO_ERROR, and nothing changes. source.mlir is printed by
 * default options. With line_info it is MOE_USAGE: that names one file. Errors are those of
 * moe_module_lower, and MOE_IO_ERROR. */
MOE_API moe_status_t moe_module_write_candidates(moe_module_t *module, const char *directory);

#ifdef __cplusplus
}
#endif

#endif /* MOE_COMPILER_H */
