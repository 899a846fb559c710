/* Options.h - the command line of moe-opt.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_OPT_OPTIONS_H
#define MOE_OPT_OPTIONS_H

#include "lib/Driver/Text.h"
#include "moe/compiler.h"

#include <stdbool.h>

/* Exit codes. */
enum { EXIT_FINE = 0, EXIT_INPUT = 1, EXIT_USAGE = 2, EXIT_BUG = 70 };

/* A flag that is not one of moe-opt's, and so names a pass: --canonicalize, --moe-x=option=value.
 * */
typedef struct pass_flag_t {
  char *name;    /* "moe-x" */
  char *element; /* "moe-x{option=value}", an element of a pipeline */
} pass_flag_t;

typedef struct options_t {
  const char *input;    /* a path, or "-" for stdin */
  const char *output;   /* a path, or NULL for stdout */
  const char *emit;     /* a stage, "candidates", or NULL */
  const char *pipeline; /* --pass-pipeline, or NULL */
  pass_flag_t *pass_flags;
  size_t num_pass_flags;
  moe_compiler_options_t compiler;
  bool split_input;
  bool verify_roundtrip;
  bool emit_bytecode;
  bool resources; /* a table of what the kernels take */
  bool verify_diagnostics;
  bool dump_pipeline;
  bool list_passes, list_stages, show_dialects;
  bool run_reproducer;
  const char *llvm;       /* LLVM's flags, or NULL */
  const char *reproducer; /* where to write one, or NULL: a fresh name in the current directory */
} options_t;

/* Reads the command line. Prints help or version and exits where asked; exits with EXIT_USAGE where
 * the line is wrong. Strings point into argv, except those of pass flags. */
void options_parse(int argc, char **argv, options_t *out_options);

/* Frees the pass flags. */
void options_free(options_t *options);

/* Whether a bundle for each candidate is asked for, which is no stage; whether what is asked for
 * is no IR; whether it is a folder. */
bool options_emits_candidates(const options_t *options);
bool options_emits_artifact(const options_t *options);
bool options_emits_folder(const options_t *options);

/* Says that no flag and no pass has this name, and what may have been meant. */
void options_report_unknown_flag(const char *flag);

/* Says what is wrong with the command line, and exits with EXIT_USAGE. */
_Noreturn void options_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Reads "0" to "3". False: it is something else. */
bool options_parse_level(const char *text, int *out_level);

#endif /* MOE_OPT_OPTIONS_H */
