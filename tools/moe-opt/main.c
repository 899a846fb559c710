/* main.c - moe-opt: MLIR in; MLIR, PTX, a cubin, a manifest or a bundle out.
 *
 *   moe-opt x.mlir --emit=ptx -o x.ptx
 *   moe-opt x.mlir --moe-verify --canonicalize
 *   moe-opt x.mlir --emit=bundle -o x/
 *   moe-opt x.mlir --emit=candidates -o x/
 *
 * Why it exists: it is the whole compiler on the command line, one stage or pass at a time where
 * wanted.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Files/Files.h"
#include "tools/moe-opt/Options.h"
#include "tools/moe-opt/Output.h"
#include "tools/moe-opt/Reproducer.h"
#include "tools/moe-opt/Source.h"
#include "tools/moe-opt/VerifyDiagnostics.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One run of moe-opt. */
typedef struct session_t {
  options_t options;
  moe_compiler_t *compiler;
  verifier_t *verifier;   /* while a piece is at work under --verify-diagnostics */
  bool is_parsing;        /* MLIR's parser is at work */
  moe__text_t last_error; /* for the reproducer */
  moe__text_t pipeline;   /* of the pass flags */
  moe__text_t result;     /* what is written at the end */
} session_t;

static int exit_code(moe_status_t status) {
  switch (status) {
  case MOE_OK:
    return EXIT_FINE;
  case MOE_USAGE:
    return EXIT_USAGE;
  case MOE_INTERNAL:
    return EXIT_BUG;
  case MOE_INVALID_INPUT:
  case MOE_IO_ERROR:
    break;
  }
  return EXIT_INPUT;
}

static void on_diagnostic(const moe_diagnostic_t *diagnostic, void *user) {
  session_t *session = user;
  if (diagnostic->severity == MOE_ERROR) {
    moe__text_clear(&session->last_error);
    moe__text_put(&session->last_error, diagnostic->message);
    if (session->is_parsing)
      reproducer_excuse_parser(true);
  }
  if (session->verifier)
    verifier_take(session->verifier, diagnostic);
  else
    fprintf(stderr, "%s%s", diagnostic->file ? "" : "moe-opt: ", diagnostic->rendered);
}

static void list_passes(void) {
  size_t num_passes, num_options;
  const moe_pass_info_t *passes = moe_compiler_passes(&num_passes);
  const moe_pass_option_info_t *options = moe_compiler_pass_options(&num_options);
  int width = 0;
  for (size_t i = 0; i < num_passes; i++)
    if ((int)strlen(passes[i].argument) > width)
      width = (int)strlen(passes[i].argument);
  for (size_t i = 0; i < num_passes; i++) {
    printf("%-*s %s\n", width, passes[i].argument, passes[i].summary);
    for (size_t j = 0; j < num_options; j++) {
      int rest = width - (int)strlen("  =") - (int)strlen(options[j].name);
      if (options[j].pass == i)
        printf("  %s=%-*s %s\n", options[j].name, rest > 0 ? rest : 0, options[j].default_value,
               options[j].description);
    }
  }
  printf("Passes of MLIR can be used as well: mlir-opt --help lists them.\n");
}

static void list_stages(void) {
  size_t count;
  const moe_stage_info_t *stages = moe_compiler_stages(&count);
  for (size_t i = 0; i < count; i++) {
    printf("%-10s %s\n", stages[i].name, stages[i].summary);
    if (stages[i].passes && *stages[i].passes)
      printf("           %s\n", stages[i].passes);
  }
}

static void show_dialects(void) {
  size_t count;
  const moe_dialect_info_t *dialects = moe_compiler_dialects(&count);
  for (size_t i = 0; i < count; i++)
    printf("%s%s", i ? "\n" : "", dialects[i].text);
}

/* Does what needs no input. False: there was no such wish. */
static bool answer_questions(const options_t *options) {
  if (options->list_passes)
    list_passes();
  if (options->list_stages)
    list_stages();
  if (options->show_dialects)
    show_dialects();
  return options->list_passes || options->list_stages || options->show_dialects;
}

/* Turns the pass flags into a pipeline. */
static moe_status_t take_pass_flags(session_t *session) {
  options_t *options = &session->options;
  for (size_t i = 0; i < options->num_pass_flags; i++) {
    if (!moe_compiler_has_pass(session->compiler, options->pass_flags[i].name)) {
      moe__text_t flag = {0};
      moe__text_printf(&flag, "--%s", options->pass_flags[i].name);
      options_report_unknown_flag(flag.data);
      moe__text_free(&flag);
      return MOE_USAGE;
    }
    moe__text_printf(&session->pipeline, "%s%s", i ? "," : "builtin.module(",
                     options->pass_flags[i].element);
  }
  if (options->num_pass_flags) {
    moe__text_put(&session->pipeline, ")");
    options->pipeline = session->pipeline.data;
  }
  return MOE_OK;
}

/* Checks a pipeline, which is copied, and shows it where that is asked for. */
static moe_status_t check_pipeline(session_t *session, const char *pipeline) {
  moe__text_t copy = {0}; /* the compiler's next call ends the life of its answer */
  const char *shown = NULL;
  moe__text_put(&copy, pipeline);
  moe_status_t status = moe_compiler_check_pipeline(session->compiler, copy.data, &shown);
  if (status == MOE_OK && session->options.dump_pipeline)
    fprintf(stderr, "%s\n", shown);
  moe__text_free(&copy);
  return status;
}

/* Looks at pipeline and stage before the input is read: a typo there is a matter of usage. */
static moe_status_t check_plan(session_t *session) {
  const options_t *options = &session->options;
  moe_status_t status = take_pass_flags(session);
  const char *stage = options_emits_candidates(options) ? "bundle" : options->emit, *pipeline;
  if (status == MOE_OK && options->pipeline)
    status = check_pipeline(session, options->pipeline);
  if (status == MOE_OK && stage)
    status = moe_compiler_stage_pipeline(session->compiler, stage, &pipeline);
  if (status == MOE_OK && stage)
    status = check_pipeline(session, pipeline);
  if (status == MOE_OK && !stage && !options->pipeline && options->dump_pipeline)
    fputs("builtin.module()\n", stderr);
  return status;
}

/* A table of what the kernels take. */
static moe_status_t append_resources(session_t *session, moe_module_t *module) {
  const moe_kernel_resources_t *kernels;
  size_t count, width = strlen("kernel");
  moe_status_t status = moe_module_resources(module, &kernels, &count);
  for (size_t i = 0; i < count; i++)
    width = strlen(kernels[i].kernel) > width ? strlen(kernels[i].kernel) : width;
  if (status == MOE_OK)
    moe__text_printf(&session->result, "%-*s %7s %9s %6s %6s %13s %12s %7s\n", (int)width, "kernel",
                     "threads", "registers", "spills", "stack", "shared memory", "instructions",
                     "CTAs/SM");
  for (size_t i = 0; i < count; i++)
    moe__text_printf(
        &session->result, "%-*s %7d %9d %6d %6d %13lld %12d %7d\n", (int)width, kernels[i].kernel,
        kernels[i].threads, kernels[i].registers, kernels[i].spill_bytes, kernels[i].stack_bytes,
        (long long)kernels[i].shared_memory, kernels[i].instructions, kernels[i].ctas_per_sm);
  return status;
}

/* What the compiler hands out, appended to the result. */
static moe_status_t append_output(session_t *session, moe_module_t *module) {
  const options_t *options = &session->options;
  const char *data;
  size_t length;
  moe_status_t status;
  if (options->resources)
    return append_resources(session, module);
  if (options_emits_artifact(options))
    status = moe_module_artifact(module, options->emit, &data, &length);
  else if (options->emit_bytecode)
    status = moe_module_bytecode(module, &data, &length);
  else
    status = moe_module_print(module, false, &data, &length);
  if (status == MOE_OK)
    moe__text_append(&session->result, data, length);
  return status;
}

/* Runs the passes and stages over a module and appends what is asked for to the result. */
static moe_status_t compile(session_t *session, moe_module_t *module) {
  const options_t *options = &session->options;
  moe_status_t status = MOE_OK;
  if (options->pipeline)
    status = moe_module_run(module, options->pipeline);
  if (status != MOE_OK)
    return status;
  if (options_emits_candidates(options))
    return moe_module_write_candidates(module, options->output);
  if (options->emit)
    status = moe_module_lower(module, options->emit);
  if (status != MOE_OK)
    return status;
  return options_emits_folder(options) ? moe_module_write_bundle(module, options->output)
                                       : append_output(session, module);
}

/* Prints the module, parses that, and prints it again: the same must come of it. */
static moe_status_t check_roundtrip(session_t *session, const char *name, moe_module_t *module) {
  const char *data;
  size_t length;
  moe__text_t first = {0};
  moe_module_t *again = NULL;
  moe_status_t status = moe_module_print(module, true, &data, &length);
  if (status == MOE_OK) {
    moe__text_append(&first, data, length);
    status = moe_module_parse(session->compiler, name, first.data, first.length, &again);
  }
  if (status == MOE_OK)
    status = moe_module_print(again, true, &data, &length);
  if (status == MOE_OK && (length != first.length || memcmp(data, first.data, length) != 0)) {
    fprintf(stderr, "moe-opt: error: '%s' is not the same after it was printed and parsed again\n",
            name);
    status = MOE_INVALID_INPUT;
  }
  moe_module_destroy(again);
  moe__text_free(&first);
  return status;
}

static moe_status_t run_piece(session_t *session, const char *name, const moe__text_t *piece) {
  verifier_t verifier;
  if (session->options.verify_diagnostics) {
    verifier_begin(&verifier, name, piece->data);
    session->verifier = &verifier;
  }
  reproducer_watch(name, piece, session->options.pipeline, session->options.emit);
  moe_module_t *module;
  session->is_parsing = true;
  moe_status_t status =
      moe_module_parse(session->compiler, name, piece->data, piece->length, &module);
  session->is_parsing = false;
  reproducer_excuse_parser(false);
  reproducer_blame_kernels(status == MOE_OK && moe_module_has_kernels(module));
  if (status == MOE_OK && session->options.verify_roundtrip)
    status = check_roundtrip(session, name, module);
  if (status == MOE_OK)
    status = compile(session, module);
  if (status == MOE_INTERNAL) {
    session->verifier = NULL;
    reproducer_fail(session->last_error.data);
  }
  moe_module_destroy(module);
  reproducer_watch(NULL, NULL, NULL, NULL);
  if (session->verifier) {
    session->verifier = NULL;
    bool as_expected = verifier_end(&verifier);
    if (status == MOE_OK || status == MOE_INVALID_INPUT)
      status = as_expected ? MOE_OK : MOE_INVALID_INPUT;
  }
  return status;
}

static moe_status_t run_pieces(session_t *session, const char *name, const moe__text_t *text) {
  if (!session->options.split_input)
    return run_piece(session, name, text);
  moe_status_t worst = MOE_OK;
  moe__text_t piece = {0};
  for (size_t at = 0, number = 0; source_next_piece(text, &at, &piece); number++) {
    if (number)
      moe__text_put(&session->result, "// -----\n");
    moe_status_t status = run_piece(session, name, &piece);
    worst = status > worst ? status : worst;
  }
  moe__text_free(&piece);
  return worst;
}

static moe_status_t write_result(const session_t *session) {
  const options_t *options = &session->options;
  if (options_emits_folder(options))
    return MOE_OK;
  bool is_cubin = options->emit && !strcmp(options->emit, "cubin") && !options->resources;
  if ((is_cubin || options->emit_bytecode) && !options->output && isatty(STDOUT_FILENO))
    options_fail("%s is not for a terminal; name a file with -o",
                 is_cubin ? "a cubin" : "bytecode");
  return output_write(options->output, &session->result) ? MOE_OK : MOE_IO_ERROR;
}

static moe_status_t run(session_t *session) {
  options_t *options = &session->options;
  moe__text_t text = {0}, storage = {0};
  const char *name = strcmp(options->input, "-") != 0 ? options->input : "<stdin>";
  options->compiler.on_diagnostic = on_diagnostic;
  options->compiler.user = session;

  moe_status_t status = MOE_OK;
  if (options->run_reproducer &&
      !(source_read(options->input, &text) && reproducer_read(name, &text, options, &storage)))
    status = MOE_INVALID_INPUT;
  /* A folder that a reproducer would make has no place, unless one is named. */
  if (options->run_reproducer && options_emits_folder(options) && !options->output)
    options->output = "/dev/null";
  if (status == MOE_OK)
    status = moe_compiler_create(&options->compiler, &session->compiler);
  if (status == MOE_OK)
    status = check_plan(session);
  if (status == MOE_OK && !options->run_reproducer && !source_read(options->input, &text))
    status = MOE_IO_ERROR;
  /* The compiler writes the lines before the output is written here. */
  if (status == MOE_OK && options->compiler.line_info && !options_emits_folder(options) &&
      !output_may_write(options->output))
    status = MOE_IO_ERROR;
  if (status == MOE_OK)
    status = run_pieces(session, name, &text);
  if (status == MOE_OK)
    status = write_result(session);

  moe_compiler_destroy(session->compiler);
  moe__text_free(&text);
  moe__text_free(&storage);
  return status;
}

/* --help and the lists that could not be written are a failure too. */
static void close_stdout(void) {
  if (!moe__file_close_stdout()) {
    fprintf(stderr, "moe-opt: error: cannot write '<stdout>': %s\n", strerror(errno));
    _exit(EXIT_INPUT);
  }
}

int main(int argc, char **argv) {
  session_t session = {0};
  atexit(close_stdout);
  signal(SIGXFSZ, SIG_IGN); /* a limit of file sizes is an error of write, as a full disk is */
  options_parse(argc, argv, &session.options);
  moe_status_t status = MOE_OK;
  if (!answer_questions(&session.options)) {
    reproducer_install(&session.options);
    status = run(&session);
  }
  options_free(&session.options);
  moe__text_free(&session.last_error);
  moe__text_free(&session.pipeline);
  moe__text_free(&session.result);
  return exit_code(status);
}
