/* Options.c - the command line of moe-opt, by argp.
 *
 * Why the arguments are looked through first: every pass is a flag of its own, MLIR's hundreds
 * included, and argp must know its flags beforehand. What argp does not know is taken for a pass,
 * and checked once there is a compiler to ask.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "tools/moe-opt/Options.h"

#include "tools/moe-opt/LlvmFlags.h"
#include "tools/moe-opt/Output.h"

#include <argp.h>
#include <errno.h>
#include <llvm-c/Core.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  KEY_EMIT = 0x100,
  KEY_PIPELINE,
  KEY_TARGET,
  KEY_PTXAS,
  KEY_LINE_INFO,
  KEY_LLVM,
  KEY_TREE_DIR,
  KEY_ELIDE_ELEMENTS,
  KEY_ELIDE_RESOURCES,
  KEY_VERIFY_EACH,
  KEY_REPRODUCER,
  KEY_SWITCH = 0x200, /* and on: what only turns something on, in the order of `switches` */
};

/* Flags that only turn something on. X(name, field of options_t, group, flags of argp, help) */
#define SWITCHES(X)                                                                                \
  X("split-input-file", split_input, 1, 0, "Treat the parts between '// -----' lines separately")  \
  X("emit-bytecode", emit_bytecode, 2, 0, "Write MLIR bytecode instead of text")                   \
  X("mlir-print-op-generic", compiler.printing.generic, 2, 0,                                      \
    "Print every op in its generic form")                                                          \
  X("mlir-print-debuginfo", compiler.printing.debug_info, 2, OPTION_HIDDEN, "Print locations")     \
  X("mlir-pretty-debuginfo", compiler.printing.pretty_debug_info, 2, OPTION_HIDDEN,                \
    "Print locations in a form for readers")                                                       \
  X("mlir-print-local-scope", compiler.printing.local_scope, 2, OPTION_HIDDEN,                     \
    "Print without aliases")                                                                       \
  X("mlir-print-skip-regions", compiler.printing.skip_regions, 2, OPTION_HIDDEN,                   \
    "Print ops without their regions")                                                             \
  X("mlir-print-assume-verified", compiler.printing.assume_verified, 2, OPTION_HIDDEN,             \
    "Print custom forms without a look whether the op is valid")                                   \
  X("mlir-use-nameloc-as-prefix", compiler.printing.name_prefix, 2, OPTION_HIDDEN,                 \
    "Print values by their name locations")                                                        \
  X("allow-unregistered-dialect", compiler.allow_unregistered_dialects, 3, OPTION_HIDDEN,          \
    "Accept ops of dialects that moe-opt does not have")                                           \
  X("resources", resources, 4, 0,                                                                  \
    "Print what each kernel takes of a multiprocessor, as ptxas and its cubin say")                \
  X("list-passes", list_passes, 4, 0, "List the passes of moe-opt and their options")              \
  X("list-stages", list_stages, 4, 0, "List the stages and the passes between them")               \
  X("show-dialects", show_dialects, 4, 0, "Print the dialects of moe-opt as IRDL")                 \
  X("dump-pass-pipeline", dump_pipeline, 4, 0, "Print the pipeline to stderr before running it")   \
  X("mlir-print-ir-before-all", compiler.print_ir_before_all, 4, 0,                                \
    "Print the IR to stderr before each pass")                                                     \
  X("mlir-print-ir-after-all", compiler.print_ir_after_all, 4, 0,                                  \
    "Print the IR to stderr after each pass")                                                      \
  X("mlir-print-ir-after-change", compiler.print_ir_after_change, 4, 0,                            \
    "Print the IR to stderr after each pass that changed it")                                      \
  X("mlir-print-ir-after-failure", compiler.print_ir_after_failure, 4, OPTION_HIDDEN,              \
    "Print the IR to stderr after a pass that fails")                                              \
  X("mlir-print-ir-module-scope", compiler.print_ir_module_scope, 4, OPTION_HIDDEN,                \
    "Print the whole module, and not what the pass ran on")                                        \
  X("mlir-timing", compiler.timing, 4, 0, "Print the time of each pass and artifact to stderr")    \
  X("mlir-pass-statistics", compiler.pass_statistics, 4, OPTION_HIDDEN,                            \
    "Print the passes' own counts to stderr")                                                      \
  X("verify-diagnostics", verify_diagnostics, 5, 0,                                                \
    "Compare diagnostics with the expected-error {{...}} comments of the source")                  \
  X("verify-roundtrip", verify_roundtrip, 5, OPTION_HIDDEN,                                        \
    "Print what was parsed, parse that, and compare the two")                                      \
  X("run-reproducer", run_reproducer, 5, 0, "Run the input as the reproducer that it is")

enum {
  NUM_SWITCHES = 0
#define SWITCH_COUNT(name, field, group, flags, help) +1
  SWITCHES(SWITCH_COUNT)
};

static const size_t switches[] = {
#define SWITCH_FIELD(name, field, group, flags, help) offsetof(options_t, field),
    SWITCHES(SWITCH_FIELD)};

static const struct argp_option values[] = {
    {.doc = "What to do:", .group = 1},
    {"emit", KEY_EMIT, "STAGE", 0,
     "Run everything up to STAGE and print it; candidates: a bundle for each schedule that "
     "moe-run --tune is to choose from",
     1},
    {"pass-pipeline", KEY_PIPELINE, "TEXT", 0,
     "Run 'builtin.module(pass,pass{option=value},op(pass))'; passes of MLIR may be mixed in", 1},
    {"--PASS[=OPTIONS]", 0, NULL, OPTION_DOC,
     "Run this pass, of moe-opt or MLIR; several run in the order given, before those of --emit",
     1},

    {.doc = "Output:", .group = 2},
    {"output", 'o', "FILE", 0,
     "Write to FILE, for bundle and candidates a folder, instead of stdout", 2},
    {"mlir-elide-elementsattrs-if-larger", KEY_ELIDE_ELEMENTS, "N", OPTION_HIDDEN,
     "Print a placeholder for elements attributes of more than N elements", 2},
    {"mlir-elide-resource-strings-if-larger", KEY_ELIDE_RESOURCES, "N", OPTION_HIDDEN,
     "Leave out resources of more than N characters", 2},

    {.doc = "Code generation:", .group = 3},
    {"target", KEY_TARGET, "CHIP", 0, "GPU to compile for (sm_90a)", 3},
    {NULL, 'O', "LEVEL", 0, "Optimization level of LLVM, 0 to 3 (3)", 3},
    {"ptxas", KEY_PTXAS, "PATH", 0,
     "Assembler to use instead of the one found; none: a bundle has PTX alone", 3},
    {"lineinfo", KEY_LINE_INFO, "FILE", 0,
     "Write the IR of stage nvvm to FILE, and its lines into PTX and cubin for profilers", 3},
    {"llvm", KEY_LLVM, "FLAGS", 0, "Flags for LLVM itself, separated by spaces", 3},
    {"verify-each", KEY_VERIFY_EACH, "BOOL", OPTION_ARG_OPTIONAL | OPTION_HIDDEN,
     "Verify the IR after each pass of MLIR, in the stages too", 3},

    {.doc = "Look inside:", .group = 4},
    {"mlir-print-ir-tree-dir", KEY_TREE_DIR, "FOLDER", OPTION_HIDDEN,
     "Print IR into files of FOLDER instead of stderr", 4},

    {.doc = "Tests and bug reports:", .group = 5},
    {"reproducer", KEY_REPRODUCER, "FILE", 0, "Where to write a reproducer after an internal error",
     5},
};
enum { NUM_VALUES = sizeof values / sizeof values[0] };

/* What mlir-opt has and MLIR's C API does not offer, and what comes near. */
static const struct {
  const char *flag, *instead;
} elsewhere[] = {
    {"mlir-print-ir-before", "--mlir-print-ir-before-all"},
    {"mlir-print-ir-after", "--mlir-print-ir-after-all or --mlir-print-ir-after-change"},
    {"mlir-pass-pipeline-crash-reproducer", "--reproducer=FILE"},
    {"mlir-generate-reproducer", "--reproducer=FILE"},
    {"mlir-pass-pipeline-local-reproducer", "--reproducer=FILE"},
    {"mlir-timing-display", "--mlir-timing"},
    {"mlir-output-format", "--mlir-timing"},
    {"mlir-pass-statistics-display", "--mlir-pass-statistics"},
    {"mlir-disable-threading", "nothing: passes run in one thread"},
    {"mlir-print-op-on-diagnostic", "nothing: a diagnostic shows its line of the source"},
    {"mlir-print-stacktrace-on-diagnostic", "nothing: a diagnostic shows its line of the source"},
    {"mlir-print-value-users", "--mlir-print-op-generic"},
    {"mlir-print-unique-ssa-ids", "--mlir-print-local-scope"},
    {"mlir-print-elementsattrs-with-hex-if-larger", "--mlir-elide-elementsattrs-if-larger=N"},
    {"emit-bytecode-version", "--emit-bytecode"},
    {"no-implicit-module", "nothing: passes run on a module"},
    {"irdl-file", "mlir-opt --irdl-file; the dialects of moe-opt are there without it"},
    {"load-dialect-plugin", "mlir-opt"},
    {"load-pass-plugin", "mlir-opt"},
    {"debug", "--mlir-print-ir-after-all, or --llvm=--debug with an LLVM that has it"},
    {"debug-only",
     "--mlir-print-ir-after-all, or --llvm=--debug-only=TYPE with an LLVM that has it"},
    {"print-after-all", "--llvm=--print-after-all"},
    {"print-before-all", "--llvm=--print-before-all"},
    {"help-list", "--help"},
    {"help-hidden", "--help, and docs/moe-opt.md for the printing flags of mlir-opt"},
    {"verbose", "--mlir-print-ir-after-all or --mlir-timing"},
};

/* All flags, for argp: those with values, then the switches. */
static struct argp_option flags[NUM_VALUES + NUM_SWITCHES + 1];

static void collect_flags(void) {
  static const struct argp_option on[] = {
#define SWITCH_OPTION(name, field, group, flags, help) {name, 0, NULL, flags, help, group},
      SWITCHES(SWITCH_OPTION)};
  memcpy(flags, values, sizeof values);
  memcpy(flags + NUM_VALUES, on, sizeof on);
  for (int i = 0; i < NUM_SWITCHES; i++)
    flags[NUM_VALUES + i].key = KEY_SWITCH + i;
}

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

static size_t parse_count(const char *flag, const char *value) {
  char *end;
  errno = 0;
  unsigned long count = strtoul(value, &end, 10);
  if (*value < '0' || *value > '9' || *end || errno)
    options_fail("--%s=%s: a number is needed", flag, value);
  return count;
}

static bool parse_bool(const char *flag, const char *value) {
  if (!value || !strcmp(value, "true") || !strcmp(value, "1"))
    return true;
  if (strcmp(value, "false") != 0 && strcmp(value, "0") != 0)
    options_fail("--%s=%s: true or false is needed", flag, value);
  return false;
}

/* A flag that says what is written, or where: of two one would not be. *out holds what it was
 * before. */
static void set_once(const char *flag, const char *value, const char **out) {
  if (*out)
    options_fail("%s is given twice: '%s' and '%s'", flag, *out, value);
  *out = value;
}

static error_t on_flag(int key, char *value, struct argp_state *state) {
  options_t *options = state->input;
  moe_printing_t *printing = &options->compiler.printing;
  if (key >= KEY_SWITCH && key < KEY_SWITCH + NUM_SWITCHES) {
    *(bool *)((char *)options + switches[key - KEY_SWITCH]) = true;
    return 0;
  }
  switch (key) {
  case KEY_EMIT:
    set_once("--emit", value, &options->emit);
    break;
  case KEY_PIPELINE:
    options->pipeline = value;
    break;
  case 'o':
    set_once("-o", value, &options->output);
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
  case KEY_LINE_INFO:
    options->compiler.line_info = value;
    break;
  case KEY_LLVM:
    llvm_flags_parse(value);
    options->llvm = value;
    break;
  case KEY_TREE_DIR:
    options->compiler.print_ir_tree_dir = value;
    break;
  case KEY_ELIDE_ELEMENTS:
    printing->has_elide_elements = true;
    printing->elide_elements = parse_count("mlir-elide-elementsattrs-if-larger", value);
    break;
  case KEY_ELIDE_RESOURCES:
    printing->has_elide_resources = true;
    printing->elide_resources = parse_count("mlir-elide-resource-strings-if-larger", value);
    break;
  case KEY_VERIFY_EACH:
    options->compiler.verify = parse_bool("verify-each", value) ? MOE_VERIFY_EACH : MOE_VERIFY_OWN;
    break;
  case KEY_REPRODUCER:
    options->reproducer = value;
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

/* What does here what a flag of mlir-opt does there, or NULL. */
static const char *find_elsewhere(const char *flag) {
  const char *name = flag + strspn(flag, "-");
  for (size_t i = 0; i < sizeof elsewhere / sizeof elsewhere[0]; i++) {
    if (!strcmp(elsewhere[i].flag, name))
      return elsewhere[i].instead;
  }
  return NULL;
}

void options_report_unknown_flag(const char *flag) {
  const char *instead = find_elsewhere(flag);
  if (instead) {
    fprintf(stderr,
            "moe-opt: error: there is no '%s' here; what comes near is %s\n"
            "moe-opt --help lists the flags, --list-passes the passes.\n",
            flag, instead);
    return;
  }
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
      bool needs_value = flag->arg && !(flag->flags & OPTION_ARG_OPTIONAL);
      is_value = needs_value && !argument[2 + length];
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

bool options_emits_artifact(const options_t *options) {
  size_t count;
  const moe_stage_info_t *stages = moe_compiler_stages(&count);
  bool is_artifact = options_emits_candidates(options);
  for (size_t i = 0; i < count; i++)
    is_artifact |= options->emit && !stages[i].passes && !strcmp(stages[i].name, options->emit);
  return is_artifact;
}

bool options_emits_folder(const options_t *options) {
  return options_emits_candidates(options) || (options->emit && !strcmp(options->emit, "bundle"));
}

static void check_output(const options_t *options, const char *option, const char *path,
                         output_kind_t kind) {
  if (path && strcmp(options->input, "-") != 0 && output_is_input(path, kind, options->input))
    options_fail("%s %s would overwrite the input, '%s'", option, path, options->input);
}

static void check_apart(const char *option, const char *path, output_kind_t kind,
                        const char *other_option, const char *other) {
  if (path && strcmp(path, "-") != 0 && other && output_is_at(path, kind, other))
    options_fail("%s %s is where %s %s goes", other_option, other, option, path);
}

static void check_outputs(const options_t *options) {
  const char *lines = options->compiler.line_info, *reproducer = options->reproducer;
  output_kind_t kind = options_emits_candidates(options) ? OUTPUT_CANDIDATES
                       : options_emits_folder(options)   ? OUTPUT_BUNDLE
                                                         : OUTPUT_FILE;
  check_output(options, "-o", options->output, kind);
  check_output(options, "--lineinfo", lines, OUTPUT_FILE);
  check_output(options, "--reproducer", reproducer, OUTPUT_FILE);
  check_apart("-o", options->output, kind, "--lineinfo", lines);
  check_apart("-o", options->output, kind, "--reproducer", reproducer);
  check_apart("--lineinfo", lines, OUTPUT_FILE, "--reproducer", reproducer);
}

/* Whether the stages end before nvvm, whose IR --lineinfo writes. What a reproducer runs is not
 * known. */
static bool ends_before_lines(const options_t *options) {
  if (!options->emit)
    return !options->run_reproducer;
  size_t count;
  const moe_stage_info_t *stages = moe_compiler_stages(&count);
  for (size_t i = 0; i < count && strcmp(stages[i].name, "nvvm") != 0; i++)
    if (!strcmp(stages[i].name, options->emit))
      return true;
  return false;
}

/* The compiler knows stages alone; candidates are none. */
static void check_emit(const options_t *options) {
  if (!options->emit || options_emits_candidates(options))
    return;
  size_t count;
  const moe_stage_info_t *stages = moe_compiler_stages(&count);
  moe__nearest_t nearest = {.word = options->emit};
  moe__text_t list = {0};
  bool is_stage = false;
  for (size_t i = 0; i < count; i++) {
    is_stage |= !strcmp(stages[i].name, options->emit);
    moe__nearest_offer(&nearest, stages[i].name);
    moe__text_printf(&list, "%s%s", i ? ", " : "", stages[i].name);
  }
  moe__nearest_offer(&nearest, "candidates");
  if (!is_stage && nearest.best)
    options_fail("'%s' is not a stage; did you mean '%s'?", options->emit, nearest.best);
  if (!is_stage)
    options_fail("'%s' is not a stage; the stages are %s, and --emit takes candidates too",
                 options->emit, list.data);
  moe__text_free(&list);
}

static void check_combinations(const options_t *options) {
  check_emit(options);
  bool is_question = options->list_passes || options->list_stages || options->show_dialects;
  if (is_question && (options->emit || options->pipeline || options->num_pass_flags))
    options_fail("--list-passes, --list-stages and --show-dialects run nothing");
  if (options->resources && options->emit && strcmp(options->emit, "cubin") != 0)
    options_fail("--resources makes the cubin; it cannot be combined with --emit=%s",
                 options->emit);
  if (options->emit_bytecode && options->emit && options_emits_artifact(options))
    options_fail("--emit=%s writes no IR; --emit-bytecode does not go with it", options->emit);
  if (options->pipeline && options->num_pass_flags)
    options_fail("--pass-pipeline and --%s cannot be combined", options->pass_flags[0].name);
  if (options->run_reproducer &&
      (options->emit || options->pipeline || options->num_pass_flags || options->split_input))
    options_fail("a reproducer says itself what to run");
  if (options->compiler.line_info && !is_question && ends_before_lines(options))
    options_fail("--lineinfo writes the IR of stage nvvm; name that or a later one with --emit");
  bool is_folder = options_emits_folder(options);
  if (is_folder && (!options->output || !strcmp(options->output, "-")))
    options_fail("--emit=%s writes a folder; name it with -o", options->emit);
  if (is_folder && options->split_input)
    options_fail("--emit=%s writes one folder; it cannot be combined with --split-input-file",
                 options->emit);
  check_outputs(options);
}

void options_parse(int argc, char **argv, options_t *out_options) {
  collect_flags();
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
  if (out_options->resources && !out_options->emit)
    out_options->emit = "cubin";
  check_combinations(out_options);
}

void options_free(options_t *options) {
  for (size_t i = 0; i < options->num_pass_flags; i++) {
    free(options->pass_flags[i].name);
    free(options->pass_flags[i].element);
  }
  free(options->pass_flags);
}
