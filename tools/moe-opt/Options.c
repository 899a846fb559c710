/* Options.c - the command line of moe-opt, by argp.
 *
 * Why the arguments are looked through first: every pass is a flag of its own, MLIR's hundreds
 * included, and argp must know its flags beforehand. What argp does not know is taken for a pass,
 * and checked once there is a compiler to ask.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "tools/moe-opt/Options.h"

#include "tools/moe-opt/LlvmFlags.h"

#include <argp.h>
#include <llvm-c/Core.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  KEY_EMIT = 0x100,
  KEY_PIPELINE,
  KEY_GENERIC,
  KEY_SPLIT,
  KEY_TARGET,
  KEY_PTXAS,
  KEY_LLVM,
  KEY_LIST_PASSES,
  KEY_LIST_STAGES,
  KEY_SHOW_DIALECTS,
  KEY_DUMP_PIPELINE,
  KEY_BEFORE_ALL,
  KEY_AFTER_ALL,
  KEY_TIMING,
  KEY_VERIFY,
  KEY_REPRODUCER,
  KEY_RUN_REPRODUCER,
};

static const struct argp_option flags[] = {
    {.doc = "What to do:", .group = 1},
    {"emit", KEY_EMIT, "STAGE", 0,
     "Run everything up to STAGE and print it; candidates: a bundle for each schedule that "
     "moe-run --tune is to choose from",
     1},
    {"pass-pipeline", KEY_PIPELINE, "TEXT", 0,
     "Run 'builtin.module(pass,pass{option=value},op(pass))'; passes of MLIR may be mixed in", 1},
    {"--PASS[=OPTIONS]", 0, NULL, OPTION_DOC,
     "Run this pass, of moe-opt or MLIR; several run in the order given", 1},
    {"split-input-file", KEY_SPLIT, NULL, 0, "Treat the parts between '// -----' lines separately",
     1},

    {.doc = "Output:", .group = 2},
    {"output", 'o', "FILE", 0,
     "Write to FILE, for bundle and candidates a folder, instead of stdout", 2},
    {"mlir-print-op-generic", KEY_GENERIC, NULL, 0, "Print every op in its generic form", 2},

    {.doc = "Code generation:", .group = 3},
    {"target", KEY_TARGET, "CHIP", 0, "GPU to compile for (sm_90a)", 3},
    {NULL, 'O', "LEVEL", 0, "Optimization level of LLVM, 0 to 3 (3)", 3},
    {"ptxas", KEY_PTXAS, "PATH", 0, "Assembler to use instead of the one found", 3},
    {"llvm", KEY_LLVM, "FLAGS", 0, "Flags for LLVM itself, separated by spaces", 3},

    {.doc = "Look inside:", .group = 4},
    {"list-passes", KEY_LIST_PASSES, NULL, 0, "List the passes of moe-opt and their options", 4},
    {"list-stages", KEY_LIST_STAGES, NULL, 0, "List the stages and the passes between them", 4},
    {"show-dialects", KEY_SHOW_DIALECTS, NULL, 0, "Print the dialects of moe-opt as IRDL", 4},
    {"dump-pass-pipeline", KEY_DUMP_PIPELINE, NULL, 0,
     "Print the pipeline to stderr before running it", 4},
    {"mlir-print-ir-before-all", KEY_BEFORE_ALL, NULL, 0, "Print the IR to stderr before each pass",
     4},
    {"mlir-print-ir-after-all", KEY_AFTER_ALL, NULL, 0, "Print the IR to stderr after each pass",
     4},
    {"mlir-timing", KEY_TIMING, NULL, 0, "Print the time of each pass and artifact to stderr", 4},

    {.doc = "Tests and bug reports:", .group = 5},
    {"verify-diagnostics", KEY_VERIFY, NULL, 0,
     "Compare diagnostics with the expected-error {{...}} comments of the source", 5},
    {"reproducer", KEY_REPRODUCER, "FILE", 0, "Where to write a reproducer after an internal error",
     5},
    {"run-reproducer", KEY_RUN_REPRODUCER, NULL, 0, "Run the input as the reproducer that it is",
     5},
    {0},
};

_Noreturn void options_fail(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fputs("moe-opt: error: ", stderr);
  vfprintf(stderr, format, arguments);
  fputs("\nmoe-opt --help lists the flags.\n", stderr);
  va_end(arguments);
  exit(EXIT_USAGE);
}

bool options_parse_level(const char *text, int *out_level) {
  if (text[0] < '0' || text[0] > '3' || text[1])
    return false;
  *out_level = text[0] - '0';
  return true;
}

static error_t on_flag(int key, char *value, struct argp_state *state) {
  options_t *options = state->input;
  switch (key) {
  case KEY_EMIT:
    options->emit = value;
    break;
  case KEY_PIPELINE:
    options->pipeline = value;
    break;
  case KEY_GENERIC:
    options->print_generic = true;
    break;
  case KEY_SPLIT:
    options->split_input = true;
    break;
  case 'o':
    options->output = value;
    break;
  case KEY_TARGET:
    options->compiler.target = value;
    break;
  case 'O':
    if (!options_parse_level(value, &options->compiler.opt_level))
      options_fail("-O%s: the level is 0, 1, 2 or 3", value);
    break;
  case KEY_PTXAS:
    options->compiler.ptxas = value;
    break;
  case KEY_LLVM:
    llvm_flags_parse(value);
    break;
  case KEY_LIST_PASSES:
    options->list_passes = true;
    break;
  case KEY_LIST_STAGES:
    options->list_stages = true;
    break;
  case KEY_SHOW_DIALECTS:
    options->show_dialects = true;
    break;
  case KEY_DUMP_PIPELINE:
    options->dump_pipeline = true;
    break;
  case KEY_BEFORE_ALL:
    options->compiler.print_ir_before_all = true;
    break;
  case KEY_AFTER_ALL:
    options->compiler.print_ir_after_all = true;
    break;
  case KEY_TIMING:
    options->compiler.timing = true;
    break;
  case KEY_VERIFY:
    options->verify_diagnostics = true;
    break;
  case KEY_REPRODUCER:
    options->reproducer = value;
    break;
  case KEY_RUN_REPRODUCER:
    options->run_reproducer = true;
    break;
  case ARGP_KEY_ARG:
    if (options->input)
      options_fail("one input at a time: '%s' and '%s'", options->input, value);
    options->input = value;
    break;
  default:
    return ARGP_ERR_UNKNOWN;
  }
  return 0;
}

static const char *const argp_own_flags[] = {"help", "usage", "version"};
static const size_t num_argp_own_flags = sizeof argp_own_flags / sizeof argp_own_flags[0];

/* The flag of a name that is `length` long, or NULL. */
static const struct argp_option *find_flag(const char *name, size_t length) {
  static const struct argp_option plain = {.name = "plain"};
  for (const struct argp_option *flag = flags; flag->name || flag->doc || flag->key; flag++) {
    bool is_flag = flag->name && !(flag->flags & OPTION_DOC);
    if (is_flag && strlen(flag->name) == length && !memcmp(flag->name, name, length))
      return flag;
  }
  for (size_t i = 0; i < num_argp_own_flags; i++) {
    if (strlen(argp_own_flags[i]) == length && !memcmp(argp_own_flags[i], name, length))
      return &plain;
  }
  return NULL;
}

void options_report_unknown_flag(const char *flag) {
  moe__text_t passes = {0};
  size_t count;
  const moe_pass_info_t *own = moe_compiler_passes(&count);
  for (size_t i = 0; i < count; i++)
    moe__text_printf(&passes, "%s,", own[i].argument);
  const moe_stage_info_t *stages = moe_compiler_stages(&count);
  for (size_t i = 0; i < count; i++)
    moe__text_printf(&passes, "%s,", stages[i].passes ? stages[i].passes : "");

  moe__nearest_t nearest = {.word = flag + strspn(flag, "-")};
  for (const struct argp_option *row = flags; row->name || row->doc || row->key; row++) {
    if (row->name && !(row->flags & OPTION_DOC))
      moe__nearest_offer(&nearest, row->name);
  }
  for (size_t i = 0; i < num_argp_own_flags; i++)
    moe__nearest_offer(&nearest, argp_own_flags[i]);
  char *rest = NULL;
  for (char *name = strtok_r(passes.data, ",()", &rest); name; name = strtok_r(NULL, ",()", &rest))
    moe__nearest_offer(&nearest, name);

  fprintf(stderr, "moe-opt: error: unknown flag '%s'", flag);
  if (nearest.best)
    fprintf(stderr, "; did you mean '--%s'?", nearest.best);
  fputs("\nmoe-opt --help lists the flags, --list-passes the passes.\n", stderr);
  moe__text_free(&passes);
}

static void add_pass_flag(options_t *options, const char *argument, size_t name_length) {
  moe__text_t element = {0};
  moe__text_append(&element, argument, name_length);
  if (argument[name_length] == '=')
    moe__text_printf(&element, "{%s}", argument + name_length + 1);
  size_t size = (options->num_pass_flags + 1) * sizeof *options->pass_flags;
  pass_flag_t *grown = realloc(options->pass_flags, size);
  if (!grown)
    abort();
  options->pass_flags = grown;
  options->pass_flags[options->num_pass_flags++] = (pass_flag_t){
      .name = moe__copy(argument, name_length),
      .element = element.data,
  };
}

/* Moves the pass flags out of argv; returns how many arguments are left. */
static int take_pass_flags(int argc, char **argv, options_t *options) {
  int kept = 1;
  bool is_value = false, only_inputs = false;
  for (int i = 1; i < argc; i++) {
    const char *argument = argv[i];
    bool is_long = !strncmp(argument, "--", 2) && argument[2];
    bool is_short = argument[0] == '-' && argument[1] && argument[1] != '-';
    if (is_value || only_inputs || !(is_long || is_short)) {
      only_inputs |= !is_value && !strcmp(argument, "--");
      is_value = false;
      argv[kept++] = argv[i];
      continue;
    }
    if (is_short) {
      if (!strchr("oO?V", argument[1])) {
        options_report_unknown_flag(argument);
        exit(EXIT_USAGE);
      }
      is_value = !argument[2] && strchr("oO", argument[1]);
      argv[kept++] = argv[i];
      continue;
    }
    size_t length = strcspn(argument + 2, "=");
    const struct argp_option *flag = find_flag(argument + 2, length);
    if (flag) {
      is_value = flag->arg && !argument[2 + length];
      argv[kept++] = argv[i];
    } else {
      add_pass_flag(options, argument + 2, length);
    }
  }
  return kept;
}

static void print_version(FILE *stream, struct argp_state *state) {
  (void)state;
  unsigned major, minor, patch;
  LLVMGetVersion(&major, &minor, &patch);
  fprintf(stream, "moe-opt %s (LLVM %u.%u.%u)\n", moe_compiler_version(), major, minor, patch);
}

bool options_emits_candidates(const options_t *options) {
  return options->emit && !strcmp(options->emit, "candidates");
}

bool options_emits_folder(const options_t *options) {
  return options_emits_candidates(options) || (options->emit && !strcmp(options->emit, "bundle"));
}

static void check_combinations(const options_t *options) {
  bool is_question = options->list_passes || options->list_stages || options->show_dialects;
  if (is_question && (options->emit || options->pipeline || options->num_pass_flags))
    options_fail("--list-passes, --list-stages and --show-dialects run nothing");
  if (options->emit && (options->pipeline || options->num_pass_flags))
    options_fail(
        "--emit runs its own passes; it cannot be combined with --pass-pipeline or --PASS");
  if (options->pipeline && options->num_pass_flags)
    options_fail("--pass-pipeline and --%s cannot be combined", options->pass_flags[0].name);
  if (options->run_reproducer &&
      (options->emit || options->pipeline || options->num_pass_flags || options->split_input))
    options_fail("a reproducer says itself what to run");
  bool is_folder = options_emits_folder(options);
  if (is_folder && (!options->output || !strcmp(options->output, "-")))
    options_fail("--emit=%s writes a folder; name it with -o", options->emit);
  if (is_folder && options->split_input)
    options_fail("--emit=%s writes one folder; it cannot be combined with --split-input-file",
                 options->emit);
}

void options_parse(int argc, char **argv, options_t *out_options) {
  *out_options = (options_t){.compiler = moe_compiler_options_default()};
  argp_program_version_hook = print_version;
  argp_err_exit_status = EXIT_USAGE;
  static const struct argp parser = {
      .options = flags,
      .parser = on_flag,
      .args_doc = "[FILE]",
      .doc = "Compile low-precision MoE kernels from MLIR to PTX. Without FILE, or with -, the "
             "source is stdin."
             "\vExit codes: 0 fine, 1 the input is wrong, 2 usage, 70 a bug of moe-opt.",
  };
  static char program[] = "moe-opt"; /* how getopt's errors begin */
  argv[0] = program;
  argc = take_pass_flags(argc, argv, out_options);
  argp_parse(&parser, argc, argv, 0, NULL, out_options);
  if (!out_options->input)
    out_options->input = "-";
  check_combinations(out_options);
}

void options_free(options_t *options) {
  for (size_t i = 0; i < options->num_pass_flags; i++) {
    free(options->pass_flags[i].name);
    free(options->pass_flags[i].element);
  }
  free(options->pass_flags);
}
