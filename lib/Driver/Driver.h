/* Driver.h - what the files of lib/Driver share: the compiler, the module, and who does what.
 *
 *   Compiler.c     the two structs, and moe/compiler.h except for what the others implement
 *   Diagnostics.c  MLIR's diagnostics, and ours, rendered with their place
 *   CustomForm.c   explains parse errors about our dialects that MLIR leaves unexplained
 *   Nesting.c      refuses text that would exhaust the stack
 *   Names.c        `moe.name` of arguments and results, from the source text
 *   Places.c       the name of the source, in the locations of IR that is printed
 *   Pass.c         a pass of ours as a pass of MLIR
 *   Pipeline.c     pipeline text to pass manager
 *   Stages.c       the table of stages, and how a module is taken down it
 *   LineInfo.c     the IR of stage "nvvm" as a source that PTX and cubin name
 *   Candidates.c   a bundle for each schedule worth measuring
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_DRIVER_DRIVER_H
#define MOE_DRIVER_DRIVER_H

#include "lib/Driver/Text.h"
#include "lib/Pass/Pass.h"
#include "lib/Target/Target.h"
#include "moe/compiler.h"

#include <mlir-c/Diagnostics.h>
#include <mlir-c/IR.h>
#include <mlir-c/Pass.h>

/* A text that diagnostics point into. Borrowed. */
typedef struct moe__source_t {
  const char *name;
  const char *text; /* NUL-terminated */
} moe__source_t;

/* Where a line begins. Questions about a text that go from top to bottom start at the last answer
 * instead of at the top. */
typedef struct moe__line_t {
  int number; /* from 1; 0: nothing found yet */
  const char *start;
  size_t length;
} moe__line_t;

struct moe_compiler_t {
  MlirContext context;
  moe_compiler_options_t options; /* its strings are owned */
  moe__target_options_t target;   /* borrows the strings of options */
  moe__source_t source;           /* of the module at work; name NULL when there is none */
  bool parsing;
  size_t num_errors;  /* reported so far */
  bool rejected;      /* a pass of ours found the module wrong */
  bool internal;      /* a bug of ours came to light */
  moe__text_t answer; /* what the last call handed out */
};

struct moe_module_t {
  moe_compiler_t *compiler;
  char *name;
  char *text;
  MlirModule ir;
  bool has_kernels; /* came with the text */
  moe__text_t printed;
  moe__bytes_t ptx, cubin, manifest;
  moe__bytes_t lines; /* what options.line_info is to hold */
  char *assembler;    /* what made the cubin, or NULL */
  char *log;          /* what that said */
  moe_kernel_resources_t *resources;
  size_t num_resources;
  size_t num_stages; /* how many rows of the table of stages it has gone through; 0 after other
                        passes */
};

static inline MlirStringRef moe__ref(const char *string) {
  return mlirStringRefCreateFromCString(string);
}

/* MlirStringCallback that appends to a moe__text_t. */
void moe__append_ref(MlirStringRef string, void *text);

/* ---- Compiler.c ---- */

/* The flags of MLIR's printer; the caller destroys them. */
MlirOpPrintingFlags moe__printing_flags(const moe_printing_t *printing);

/* The first gpu.module; null where there is none. */
MlirOperation moe__find_kernels(const moe_module_t *module);

/* Prints the IR into module->printed. */
void moe__module_print_as(moe_module_t *module, const moe_printing_t *printing);

/* ---- Diagnostics.c ---- */

/* MlirDiagnosticHandler; user is the compiler. */
MlirLogicalResult moe__handle_diagnostic(MlirDiagnostic diagnostic, void *user);

/* Reports at a place of a source. Line 0: no place; source NULL: no file either. */
void moe__report(moe_compiler_t *compiler, moe_severity_t severity, const moe__source_t *source,
                 int line, int column, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

/* Reports at an offset of a source. */
void moe__report_at(moe_compiler_t *compiler, moe_severity_t severity, const moe__source_t *source,
                    size_t offset, const char *format, ...) __attribute__((format(printf, 5, 6)));

/* The text at a location, if the location lies in `source`; else NULL. *line is where the last
 * question ended. */
const char *moe__text_at(const moe__source_t *source, MlirLocation location, moe__line_t *line);

/* MLIR calls the text that was parsed by this name, whatever it is called. */
extern const char moe__text_name[];

/* Whether the location lies in the file of this name. */
bool moe__is_in_file(MlirLocation location, const char *file);

/* ---- Places.c ---- */

/* Gives the file `from` the name `to` in all locations of the module. */
void moe__rename_places(const moe_module_t *module, const char *from, const char *to);

/* ---- CustomForm.c ---- */

/* Reports why MLIR's parser gave up without a diagnostic. */
void moe__explain_silent_failure(moe_compiler_t *compiler);

/* Adds a note to an error about an unknown op of one of our dialects. */
void moe__explain_unknown_op(moe_compiler_t *compiler, const char *message, int line, int column);

/* Adds a note to an error about an attribute that is not there, where one of nearly its name is. */
void moe__explain_missing_attribute(moe_compiler_t *compiler, const char *message, int line,
                                    int column);

/* ---- Nesting.c ---- */

/* Whether the source at work is nested so deeply only that MLIR has stack enough; reports where
 * it is not. */
bool moe__check_nesting(moe_compiler_t *compiler);

/* ---- Names.c ---- */

/* Gives every argument and result of every function a `moe.name`. False: names given in the text
 * clash, or an attribute `moe.` is not known, which has been reported. */
bool moe__name_values(moe_module_t *module);

/* ---- Pass.c ---- */

/* Makes an instance of moe__passes[index]. values[i] is the value of moe__pass_options[i] or NULL;
 * copied. */
MlirPass moe__pass_create(moe_compiler_t *compiler, size_t index, const char *const *values);

/* ---- Pipeline.c ---- */

/* Makes a pass manager for builtin.module, which the caller destroys, from pipeline text. A null
 * one where the text is wrong, which has been reported. */
MlirPassManager moe__pipeline_parse(moe_compiler_t *compiler, const char *pipeline);

/* Registers MLIR's passes, once per process. */
void moe__register_upstream_passes(void);

/* ---- Stages.c ---- */

extern const moe_stage_info_t moe__stages[];
extern const size_t moe__num_stages;

/* Index of a stage, or moe__num_stages after reporting that there is none of that name. */
size_t moe__stage_find(moe_compiler_t *compiler, const char *name);

/* Frees the artifacts: the module changes. */
void moe__module_drop_artifacts(moe_module_t *module);

/* Appends the pipeline that leads to a stage: "builtin.module(...)". */
void moe__stage_pipeline(const moe_compiler_t *compiler, size_t stage, moe__text_t *out_text);

/* Runs a pipeline over the module, and the verifier after each of its passes. */
moe_status_t moe__run_pipeline(moe_module_t *module, const char *pipeline, bool verify);

/* ---- LineInfo.c ---- */

/* Keeps the IR in module->lines, and makes its lines the places of the ops: those of the file
 * options.line_info, which is not written yet. */
moe_status_t moe__take_lines(moe_module_t *module);

/* Writes that file, where there are lines. MOE_IO_ERROR has been reported. */
moe_status_t moe__write_lines(const moe_module_t *module);

#endif /* MOE_DRIVER_DRIVER_H */
