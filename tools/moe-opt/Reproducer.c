/* Reproducer.c - what moe-opt does when it fails through a fault of its own.
 *
 * Why it is written with open and write alone: it runs in a signal handler, after memory may have
 * been damaged. Everything is put together before.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "tools/moe-opt/Reproducer.h"

#include "lib/Files/Files.h"
#include "tools/moe-opt/SafePasses.h"

#include <errno.h>
#include <fcntl.h>
#include <llvm-c/ErrorHandling.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char FIRST_LINE[] = "// moe-opt reproducer\n";
static const char ARGUMENT[] = "// argument: ";
static const char WITH[] = "// with: ";
static const char LAST_LINE[] = "// end\n";

/* Flags that change what is compiled or verified, and nothing else. */
static const char VERIFY_EACH[] = "--verify-each=";
static const char UNREGISTERED[] = "--allow-unregistered-dialect";
static const char ROUNDTRIP[] = "--verify-roundtrip";

/* What a handler needs. There is one process and one source at a time. */
static struct {
  const options_t *options;
  const char *text; /* NULL: no source at work */
  size_t length;    /* of the text, which may be bytecode */
  bool has_kernels; /* the source has: then it is to blame */
  bool is_refused;  /* the source, by the parser that is at work */
  moe__text_t header;
  moe__text_t with; /* flags that are no part of a reproducer, as a shell reads them */
} state;

static void write_text(int file, const char *text) {
  moe__file_write_bytes(file, text, strlen(text));
}

/* Writes one line of a comment: what failed may have several. */
static void write_failure(int file, const char *what) {
  char line[200];
  size_t length = strcspn(what, "\n");
  length = length < sizeof line - 1 ? length : sizeof line - 1;
  memcpy(line, what, length);
  line[length] = '\0';
  write_text(file, "// failure: ");
  write_text(file, line);
  write_text(file, "\n");
}

_Noreturn void reproducer_fail(const char *what) {
  static char fresh[] = "moe-opt-reproducer-XXXXXX.mlir";
  if (!state.text || state.options->run_reproducer)
    _exit(EXIT_BUG);
  const char *path = state.options->reproducer;
  int file = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)
                  : mkostemps(fresh, (int)strlen(".mlir"), O_CLOEXEC);
  path = path ? path : fresh;
  if (file < 0) {
    write_text(STDERR_FILENO,
               "moe-opt: this is a bug of moe-opt; no reproducer could be written to '");
    write_text(STDERR_FILENO, path);
    write_text(STDERR_FILENO, "'\n");
    _exit(EXIT_BUG);
  }
  write_text(file, state.header.data);
  write_failure(file, what);
  write_text(file, LAST_LINE);
  moe__file_write_bytes(file, state.text, state.length);
  close(file);
  write_text(STDERR_FILENO,
             "moe-opt: this is a bug of moe-opt; to see it again: moe-opt --run-reproducer ");
  write_text(STDERR_FILENO, path);
  write_text(STDERR_FILENO, state.with.length ? state.with.data : "");
  write_text(STDERR_FILENO, "\n");
  _exit(EXIT_BUG);
}

static void on_fatal_error(const char *message) {
  write_text(STDERR_FILENO,
             state.has_kernels ? "moe-opt: error: LLVM: " : "moe-opt: internal error: LLVM: ");
  write_text(STDERR_FILENO, message);
  write_text(STDERR_FILENO, "\n");
  if (state.has_kernels)
    _exit(EXIT_INPUT);
  reproducer_fail(message);
}

/* X(signal, text) */
#define CRASHES(X)                                                                                 \
  X(SIGSEGV, "invalid memory access, or the stack is exhausted")                                   \
  X(SIGBUS, "invalid memory access")                                                               \
  X(SIGILL, "invalid instruction")                                                                 \
  X(SIGFPE, "arithmetic fault")                                                                    \
  X(SIGABRT, "aborted")

static void on_crash(int signal_number) {
  if (state.is_refused) {
    write_text(STDERR_FILENO, "moe-opt: MLIR's parser crashed after this error; what follows was "
                              "not read\n");
    _exit(EXIT_INPUT);
  }
  const char *what = "crash";
  switch (signal_number) {
#define CRASH_TEXT(number, text)                                                                   \
  case number:                                                                                     \
    what = text;                                                                                   \
    break;
    CRASHES(CRASH_TEXT)
#undef CRASH_TEXT
  }
  write_text(STDERR_FILENO, "moe-opt: internal error: ");
  write_text(STDERR_FILENO, what);
  write_text(STDERR_FILENO, "\n");
  reproducer_fail(what);
}

/* Appends " --flag='value'". */
static void append_word(moe__text_t *out, const char *flag, const char *value) {
  moe__text_printf(out, " --%s='", flag);
  for (; *value; value++)
    moe__text_printf(out, *value == '\'' ? "'\\''" : "%c", *value == '\n' ? ' ' : *value);
  moe__text_put(out, "'");
}

void reproducer_install(const options_t *options) {
  state.options = options;
  moe__text_put(&state.with, "");
  if (options->compiler.ptxas)
    append_word(&state.with, "ptxas", options->compiler.ptxas);
  if (options->compiler.line_info)
    append_word(&state.with, "lineinfo", options->compiler.line_info);
  if (options->llvm)
    append_word(&state.with, "llvm", options->llvm);
  LLVMInstallFatalErrorHandler(on_fatal_error);
  /* A stack of its own, so that running out of stack can be reported. */
  static char stack[1 << 16];
  sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, NULL);
  struct sigaction action = {.sa_handler = on_crash, .sa_flags = (int)(SA_ONSTACK | SA_RESETHAND)};
#define CRASH_ACTION(number, text) sigaction(number, &action, NULL);
  CRASHES(CRASH_ACTION)
#undef CRASH_ACTION
}

/* Appends text to one line of a comment. */
static void append_one_line(moe__text_t *out, const char *text) {
  size_t start = out->length;
  moe__text_put(out, text);
  for (char *c = out->data + start; *c; c++)
    *c = *c == '\n' || *c == '\r' ? ' ' : *c;
}

static void append_argument(moe__text_t *out, const char *flag, const char *value) {
  moe__text_printf(out, "%s%s", ARGUMENT, flag);
  append_one_line(out, value);
  moe__text_put(out, "\n");
}

void reproducer_blame_kernels(bool has_kernels) {
  state.has_kernels = has_kernels;
}

void reproducer_excuse_parser(bool has_error) {
  state.is_refused = has_error;
}

static void append_switches(moe__text_t *out) {
  const moe_compiler_options_t *options = &state.options->compiler;
  if (options->verify != MOE_VERIFY_STAGES)
    append_argument(out, VERIFY_EACH, options->verify == MOE_VERIFY_EACH ? "true" : "false");
  if (options->allow_unregistered_dialects)
    append_argument(out, UNREGISTERED, "");
  if (state.options->verify_roundtrip)
    append_argument(out, ROUNDTRIP, "");
}

void reproducer_watch(const char *name, const moe__text_t *text, const char *pipeline,
                      const char *emit) {
  state.text = NULL; /* the handler must not see half of it */
  state.has_kernels = false;
  moe__text_t *header = &state.header;
  moe__text_clear(header);
  if (!name)
    return;
  moe__text_printf(header, "%s// version: %s\n// source: ", FIRST_LINE, moe_compiler_version());
  append_one_line(header, name);
  moe__text_put(header, "\n");
  if (pipeline)
    append_argument(header, "--pass-pipeline=", pipeline);
  if (emit)
    append_argument(header, "--emit=", emit);
  append_argument(header, "--target=", state.options->compiler.target);
  moe__text_printf(header, "%s-O%d\n", ARGUMENT, state.options->compiler.opt_level);
  append_switches(header);
  if (state.with.length)
    moe__text_printf(header, "%s%s\n", WITH, state.with.data + 1);
  size_t skipped = strspn(text->data, "\n"); /* the lines of earlier pieces */
  state.length = text->length - skipped;
  state.text = text->data + skipped;
}

/* Takes one of the switches over. False: it is none. */
static bool take_switch(const char *argument, options_t *options) {
  size_t length = strlen(VERIFY_EACH);
  if (!strcmp(argument, UNREGISTERED))
    options->compiler.allow_unregistered_dialects = true;
  else if (!strcmp(argument, ROUNDTRIP))
    options->verify_roundtrip = true;
  else if (!strncmp(argument, VERIFY_EACH, length) && !strcmp(argument + length, "true"))
    options->compiler.verify = MOE_VERIFY_EACH;
  else if (!strncmp(argument, VERIFY_EACH, length) && !strcmp(argument + length, "false"))
    options->compiler.verify = MOE_VERIFY_OWN;
  else
    return false;
  return true;
}

/* Takes one argument over. False: a reproducer has no such argument. */
static bool take_argument(char *argument, options_t *options) {
  static const char emit[] = "--emit=", pipeline[] = "--pass-pipeline=", target[] = "--target=";
  if (!strncmp(argument, emit, strlen(emit)))
    options->emit = argument + strlen(emit);
  else if (!strncmp(argument, pipeline, strlen(pipeline)))
    options->pipeline = argument + strlen(pipeline);
  else if (!strncmp(argument, target, strlen(target)))
    options->compiler.target = argument + strlen(target);
  else if (!take_switch(argument, options))
    return !strncmp(argument, "-O", 2) &&
           options_parse_level(argument + 2, &options->compiler.opt_level);
  return true;
}

/* Says which pass of a reproducer is not run. */
static bool check_passes(const char *name, const options_t *options) {
  moe__text_t pass = {0};
  bool ok = !options->pipeline || safe_passes_are_all(options->pipeline, &pass);
  if (!ok)
    fprintf(stderr,
            "moe-opt: error: '%s': a reproducer may not run the pass '%s', which is not known to "
            "leave files and programs alone; where you trust the file, give moe-opt its arguments "
            "yourself\n",
            name, pass.data);
  moe__text_free(&pass);
  return ok;
}

/* Bytecode begins with its magic number and no comment. Text keeps the comments, and so the numbers
 * of its lines. */
static void drop_header_of_bytecode(moe__text_t *text, size_t header) {
  static const char magic[] = "ML\xefR";
  size_t length = text->length - header;
  if (length < strlen(magic) || memcmp(text->data + header, magic, strlen(magic)) != 0)
    return;
  memmove(text->data, text->data + header, length + 1);
  text->length = length;
}

bool reproducer_read(const char *name, moe__text_t *text, options_t *options,
                     moe__text_t *storage) {
  const char *end = strstr(text->data, LAST_LINE);
  if (strncmp(text->data, FIRST_LINE, strlen(FIRST_LINE)) != 0 || !end) {
    fprintf(stderr, "moe-opt: error: '%s' is not a reproducer of moe-opt\n", name);
    return false;
  }
  moe__text_append(storage, text->data, (size_t)(end - text->data));
  drop_header_of_bytecode(text, storage->length + strlen(LAST_LINE));
  char *rest = NULL;
  for (char *line = strtok_r(storage->data, "\n", &rest); line;
       line = strtok_r(NULL, "\n", &rest)) {
    bool missing = !options->compiler.ptxas && !options->llvm && !options->compiler.line_info;
    if (missing && !strncmp(line, WITH, strlen(WITH)))
      fprintf(stderr, "moe-opt: note: '%s' was made with %s; it may need them again\n", name,
              line + strlen(WITH));
    if (strncmp(line, ARGUMENT, strlen(ARGUMENT)) != 0)
      continue;
    if (!take_argument(line + strlen(ARGUMENT), options)) {
      fprintf(stderr, "moe-opt: error: '%s': a reproducer may not set '%s'\n", name,
              line + strlen(ARGUMENT));
      return false;
    }
  }
  return check_passes(name, options);
}
