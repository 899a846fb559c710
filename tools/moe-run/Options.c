/* Options.c - the command line of moe-run.
 *
 * Usage: moe-run BUNDLE
 *        moe-run BUNDLE [--function NAME] --in ARG=FILE[:TENSOR] ... --out FILE
 *        moe-run BUNDLE --check --random SEED --shape ARG=ExNxK
 *        moe-run BUNDLE --bench --shape ARG=ExNxK,ExNxK,...
 *        moe-run FOLDER --tune --shape ARG=ExNxK,ExNxK,... --out tuned.mlir
 *
 * Why it exists: see Options.h. argp prints the help and the usage errors.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "tools/moe-run/Options.h"

#include "moe/limits.h"
#include "tools/moe-run/Report.h"

#include <argp.h>
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
  MAX_THREADS = MOE_MAX_EMULATOR_THREADS,
  MIN_REPEAT = 1,
  MAX_REPEAT = 100000,
  DEFAULT_REPEAT = 50,
  DEFAULT_RUNS = 2,
  MAX_STEP_LIMIT = INT32_MAX
};

enum {
  OPTION_FUNCTION = 0x100,
  OPTION_IN,
  OPTION_RANDOM,
  OPTION_EDGE_BLOCKS,
  OPTION_EXACT,
  OPTION_ONE_HOT,
  OPTION_NORMAL,
  OPTION_NAN_GROUPS,
  OPTION_GROUPS,
  OPTION_SHAPE,
  OPTION_OUT,
  OPTION_DEVICE,
  OPTION_SCHEDULE,
  OPTION_STEP_LIMIT,
  OPTION_THREADS,
  OPTION_CHECK,
  OPTION_BENCH,
  OPTION_TUNE,
  OPTION_REPEAT,
  OPTION_RUNS,
  OPTION_JSON,
};

static const struct argp_option argp_options[] = {
    {0, 0, 0, 0, "What to run:", 1},
    {"function", OPTION_FUNCTION, "NAME", 0, "Function of the bundle (default: the only one)", 0},
    {"device", OPTION_DEVICE, "DEVICE", 0,
     "auto, cuda, cuda:N, emu or reference (default: auto, which is cuda where it can be opened, "
     "else emu)",
     0},
    {"schedule", OPTION_SCHEDULE, "SEED", 0,
     "Order of warps and of asynchronous work on emu (default: 0, warps in turn)", 0},
    {"step-limit", OPTION_STEP_LIMIT, "N", 0,
     "Instructions that all warps of a CTA, or of a cluster, together may execute on emu, each "
     "counted once for a warp (default: none)",
     0},
    {0, 0, 0, 0, "Inputs:", 2},
    {"in", OPTION_IN, "ARG=FILE[:TENSOR]", 0,
     "Take an argument from a safetensors file: its only tensor, else the one named like the "
     "argument",
     0},
    {"random", OPTION_RANDOM, "SEED", 0,
     "Seed of the random data that arguments without --in get (default: 0)", 0},
    {"edge-blocks", OPTION_EDGE_BLOCKS, 0, 0,
     "Plant scale blocks of zeros, NaN, Inf, subnormals and extremes in random data", 0},
    {"exact", OPTION_EXACT, 0, 0,
     "Make random data that any order of summation gives one sum of; --check then compares the "
     "bits "
     "of products too",
     0},
    {"one-hot", OPTION_ONE_HOT, 0, 0,
     "As --exact, with one 1 in each row of a product's first operand: each element of the result "
     "is one of the second operand, times its scales",
     0},
    {"normal", OPTION_NORMAL, 0, 0, "Make random data of one magnitude, nearly normal", 0},
    {"nan-groups", OPTION_NAN_GROUPS, 0, 0,
     "Make NaN of what a product must not read, and of the tokens of every third group", 0},
    {"groups", OPTION_GROUPS, "SIZES", 0,
     "Random group offsets: equal, ragged, edge, which are 0, 1, 15, 16, 31, 63 ... 129 in turn, "
     "one, which has all tokens in one group, or none; or wrong ones, which --check expects to be "
     "reported: decreasing or beyond (default: equal)",
     0},
    {"shape", OPTION_SHAPE, "ARG=SHAPE[,SHAPE...]", 0,
     "Shape of an argument, such as 8x8192x5120; --check, --bench and --tune take "
     "several, one call each",
     0},
    {0, 0, 0, 0, "Results:", 3},
    {"out", OPTION_OUT, "FILE", 0,
     "Write the results to a safetensors file; with --tune, the best candidate's IR", 0},
    {"check", OPTION_CHECK, 0, 0,
     "Compare every bit of the results with the C reference; products with a bound", 0},
    {"bench", OPTION_BENCH, 0, 0, "Time the call beside a device copy of as many bytes", 0},
    {"tune", OPTION_TUNE, 0, 0,
     "Time the candidates in the folder BUNDLE that moe-opt --emit=candidates wrote, in turns, and "
     "name the best",
     0},
    {"repeat", OPTION_REPEAT, "N", 0, "Timed calls per shape (default: 50)", 0},
    {"runs", OPTION_RUNS, "N", 0, "Runs that --check compares with each other (default: 2)", 0},
    {"json", OPTION_JSON, 0, 0, "Print what was done as one JSON object", 0},
    {"threads", OPTION_THREADS, "N", 0,
     "Threads of emu and of the C reference (default: all processors)", 0},
    {0, 0, 0, 0, "About:", -1},
    {0},
};

static const char documentation[] =
    "Runs a function of a bundle that moe-opt wrote, on tensors from safetensors files."
    "\vExit codes: 0 fine; 1 the input is wrong, or --check found a difference; 2 usage; 70 a bug "
    "of "
    "moe-run or of the bundle's kernels.";

static bool parse_integer(const char *text, uint64_t least, uint64_t most, uint64_t *out) {
  char *end;
  errno = 0;
  unsigned long long value = strtoull(text, &end, 0);
  if (!isdigit((unsigned char)*text) || *end || errno || value < least || value > most)
    return false;
  *out = value;
  return true;
}

static void *grow(struct argp_state *state, void *list, int count, size_t size) {
  void *more = realloc(list, (size_t)(count + 1) * size);
  if (!more)
    argp_failure(state, MOE__RUN_INPUT, 0, "out of memory");
  return more;
}

/* The text before '=', owned by the caller; *out_rest is what follows. */
static char *split(struct argp_state *state, const char *option, const char *text,
                   const char **out_rest) {
  const char *equals = strchr(text, '=');
  if (!equals || equals == text || !equals[1])
    argp_error(state, "%s '%s': not of the form ARG=...", option, text);
  *out_rest = equals + 1;
  char *name = strndup(text, (size_t)(equals - text));
  if (!name)
    argp_failure(state, MOE__RUN_INPUT, 0, "out of memory");
  return name;
}

static void add_input(struct argp_state *state, moe__run_options_t *options, const char *text) {
  const char *file;
  options->inputs = grow(state, options->inputs, options->input_count, sizeof *options->inputs);
  moe__run_input_t *input = &options->inputs[options->input_count];
  char *argument = split(state, "--in", text, &file);
  if (moe__run_options_input(options, argument))
    argp_error(state, "--in '%s': argument '%s' already has an input", text, argument);
  *input = (moe__run_input_t){argument, strdup(file), NULL};
  options->input_count++;
  if (!input->file)
    argp_failure(state, MOE__RUN_INPUT, 0, "out of memory");
  /* A colon may be part of the file's name. */
  /* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): argp_failure does not return */
  char *colon = strrchr(input->file, ':');
  if (!colon || access(input->file, F_OK) == 0)
    return;
  *colon = '\0';
  input->tensor = colon + 1;
  if (!*input->file || !*input->tensor)
    argp_error(state, "--in '%s': not of the form ARG=FILE[:TENSOR]", text);
}

static const char *parse_shape(const char *text, moe__run_shape_t *out) {
  *out = (moe__run_shape_t){0};
  for (;;) {
    char *end;
    errno = 0;
    long long size = strtoll(text, &end, 10);
    if (!isdigit((unsigned char)*text) || errno || out->rank == MOE_RT_MAX_RANK)
      return NULL;
    out->sizes[out->rank++] = size;
    if (*end != 'x')
      return end;
    text = end + 1;
  }
}

static void add_shapes(struct argp_state *state, moe__run_options_t *options, const char *text) {
  const char *rest;
  char *argument = split(state, "--shape", text, &rest);
  options->shapes = grow(state, options->shapes, options->shape_count, sizeof *options->shapes);
  moe__run_shape_list_t *list = &options->shapes[options->shape_count];
  if (moe__run_options_shape(options, argument, 0))
    argp_error(state, "--shape '%s': argument '%s' already has a shape", text, argument);
  *list = (moe__run_shape_list_t){.argument = argument};
  options->shape_count++;
  for (;; rest++) {
    list->shapes = grow(state, list->shapes, list->count, sizeof *list->shapes);
    rest = parse_shape(rest, &list->shapes[list->count]);
    if (!rest || (*rest && *rest != ','))
      argp_error(state, "--shape '%s': not sizes such as 8x8192x5120 (1 to %d of them)", text,
                 MOE_RT_MAX_RANK);
    list->count++;
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): argp_error does not return */
    if (!*rest)
      return;
  }
}

static void set_mode(struct argp_state *state, moe__run_options_t *options, moe__run_mode_t mode) {
  if (options->mode != MOE__RUN_RUN && options->mode != mode)
    argp_error(state, "--check, --bench and --tune exclude each other");
  options->mode = mode;
}

static bool is_device(const char *name) {
  uint64_t number;
  return !strcmp(name, "auto") || !strcmp(name, "reference") || !strcmp(name, "emu") ||
         !strcmp(name, "cuda") ||
         (!strncmp(name, "cuda:", 5) && parse_integer(name + 5, 0, 1023, &number));
}

static bool parse_groups(const char *text, moe__run_groups_t *out) {
  static const char *const names[] = {
      [MOE__RUN_GROUPS_EQUAL] = "equal",  [MOE__RUN_GROUPS_RAGGED] = "ragged",
      [MOE__RUN_GROUPS_EDGE] = "edge",    [MOE__RUN_GROUPS_ONE] = "one",
      [MOE__RUN_GROUPS_NONE] = "none",    [MOE__RUN_GROUPS_DECREASING] = "decreasing",
      [MOE__RUN_GROUPS_BEYOND] = "beyond"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(names[i], text)) {
      *out = (moe__run_groups_t)i;
      return true;
    }
  return false;
}

/* An option that says where a call runs or what it writes: of two one would be without effect.
 * *out holds what it was before. */
static void set_once(struct argp_state *state, const char *option, char *text, const char **out) {
  if (*out)
    argp_error(state, "%s is given twice: '%s' and '%s'", option, *out, text);
  *out = text;
}

/* An option of the emulator where another device is named. */
static void refuse_elsewhere(struct argp_state *state, const char *option, const char *device) {
  if (strcmp(device, "auto") != 0 && strcmp(device, "emu") != 0)
    argp_error(state, "%s is for emu, and has no effect on --device %s", option, device);
}

/* What no single option can tell. */
static void check_whole(struct argp_state *state, moe__run_options_t *options) {
  if (!options->bundle || !*options->bundle)
    argp_error(state, "no bundle given");
  if (options->out && (!*options->out || !strcmp(options->out, "-")))
    argp_error(state, "--out needs the name of a file");
  if (options->schedule)
    refuse_elsewhere(state, "--schedule", options->device);
  if (options->step_limit)
    refuse_elsewhere(state, "--step-limit", options->device);
  if (options->mode == MOE__RUN_RUN && !options->out) {
    if (options->input_count || options->shape_count || options->seed_given)
      argp_error(state, "nothing to do: give --out, --check, --bench or --tune");
    options->mode = MOE__RUN_CONTENTS;
  }
  if (options->mode == MOE__RUN_BENCH && options->out)
    argp_error(state, "--bench writes no --out");
  bool times = options->mode == MOE__RUN_BENCH || options->mode == MOE__RUN_TUNE;
  const char *name = options->mode == MOE__RUN_BENCH ? "bench" : "tune";
  if (times && !strcmp(options->device, "reference"))
    argp_error(state, "--%s times a GPU, not the C reference", name);
  if (times && !strcmp(options->device, "emu"))
    argp_error(state, "--%s times a GPU, not the emulator", name);
  options->case_count = 1;
  for (int i = 0; i < options->shape_count; i++) {
    int count = options->shapes[i].count;
    if (count > 1 && options->case_count > 1 && count != options->case_count)
      argp_error(state, "--shape: one argument has %d shapes, another %d", options->case_count,
                 count);
    options->case_count = count > options->case_count ? count : options->case_count;
  }
  if (options->case_count > 1 && options->out && options->mode != MOE__RUN_TUNE)
    argp_error(state, "--out takes the results of one shape, there are %d", options->case_count);
  if (options->exact && options->edge_blocks)
    argp_error(state, "--exact and --edge-blocks exclude each other");
  if (options->one_hot && (options->exact || options->edge_blocks))
    argp_error(state, "--one-hot excludes --exact and --edge-blocks");
  if (options->normal && (options->exact || options->one_hot))
    argp_error(state, "--normal excludes --exact and --one-hot");
  if (options->runs != DEFAULT_RUNS && options->mode != MOE__RUN_CHECK)
    argp_error(state, "--runs needs --check");
}

static error_t parse_option(int key, char *text, struct argp_state *state) {
  moe__run_options_t *options = state->input;
  uint64_t number = 0;
  switch (key) {
  case OPTION_FUNCTION:
    options->function = text;
    return 0;
  case OPTION_IN:
    add_input(state, options, text);
    return 0;
  case OPTION_RANDOM:
    options->seed_given = true;
    if (!parse_integer(text, 0, UINT64_MAX, &options->seed))
      argp_error(state, "--random '%s': not a number from 0 to 2^64-1", text);
    return 0;
  case OPTION_EDGE_BLOCKS:
    options->edge_blocks = true;
    return 0;
  case OPTION_EXACT:
    options->exact = true;
    return 0;
  case OPTION_ONE_HOT:
    options->one_hot = true;
    return 0;
  case OPTION_NORMAL:
    options->normal = true;
    return 0;
  case OPTION_NAN_GROUPS:
    options->nan_groups = true;
    return 0;
  case OPTION_GROUPS:
    if (!parse_groups(text, &options->groups))
      argp_error(state, "--groups '%s': not equal, ragged, edge, one, none, decreasing or beyond",
                 text);
    options->groups_given = true;
    return 0;
  case OPTION_SHAPE:
    add_shapes(state, options, text);
    return 0;
  case OPTION_OUT:
    set_once(state, "--out", text, &options->out);
    return 0;
  case OPTION_DEVICE:
    set_once(state, "--device", text, &options->device);
    if (!is_device(text))
      argp_error(state, "--device '%s': not auto, cuda, cuda:N, emu or reference", text);
    return 0;
  case OPTION_SCHEDULE:
    if (!parse_integer(text, 0, UINT64_MAX, &options->schedule))
      argp_error(state, "--schedule '%s': not a number from 0 to 2^64-1", text);
    return 0;
  case OPTION_STEP_LIMIT:
    if (!parse_integer(text, 1, MAX_STEP_LIMIT, &number))
      argp_error(state, "--step-limit '%s': not a number from 1 to %d", text, MAX_STEP_LIMIT);
    options->step_limit = number;
    return 0;
  case OPTION_THREADS:
    if (!parse_integer(text, 1, MAX_THREADS, &number))
      argp_error(state, "--threads '%s': not a number from 1 to %d", text, MAX_THREADS);
    options->threads = (int)number;
    return 0;
  case OPTION_CHECK:
    set_mode(state, options, MOE__RUN_CHECK);
    return 0;
  case OPTION_BENCH:
    set_mode(state, options, MOE__RUN_BENCH);
    return 0;
  case OPTION_TUNE:
    set_mode(state, options, MOE__RUN_TUNE);
    return 0;
  case OPTION_REPEAT:
    if (!parse_integer(text, MIN_REPEAT, MAX_REPEAT, &number))
      argp_error(state, "--repeat '%s': not a number from %d to %d", text, MIN_REPEAT, MAX_REPEAT);
    options->repeat = (int)number;
    return 0;
  case OPTION_RUNS:
    if (!parse_integer(text, 1, MAX_REPEAT, &number))
      argp_error(state, "--runs '%s': not a number from 1 to %d", text, MAX_REPEAT);
    options->runs = (int)number;
    return 0;
  case OPTION_JSON:
    options->json = true;
    return 0;
  case ARGP_KEY_ARG:
    if (options->bundle)
      argp_error(state, "one bundle is run at a time, not also '%s'", text);
    options->bundle = text;
    return 0;
  case ARGP_KEY_END:
    if (!options->device)
      options->device = "auto";
    check_whole(state, options);
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

void moe__run_options_parse(int argc, char **argv, moe__run_options_t *out_options) {
  long processors = sysconf(_SC_NPROCESSORS_ONLN);
  *out_options = (moe__run_options_t){.repeat = DEFAULT_REPEAT, .runs = DEFAULT_RUNS};
  out_options->threads = processors < 1             ? 1
                         : processors > MAX_THREADS ? MAX_THREADS
                                                    : (int)processors;
  static const struct argp argp = {
      .options = argp_options, .parser = parse_option, .args_doc = "BUNDLE", .doc = documentation};
  argp_program_version = "moe-run " MOE_VERSION;
  argp_err_exit_status = MOE__RUN_USAGE;
  argp_parse(&argp, argc, argv, 0, NULL, out_options);
}

void moe__run_options_free(moe__run_options_t *options) {
  for (int i = 0; i < options->input_count; i++) {
    free(options->inputs[i].argument);
    free(options->inputs[i].file);
  }
  for (int i = 0; i < options->shape_count; i++) {
    free(options->shapes[i].argument);
    free(options->shapes[i].shapes);
  }
  free(options->inputs);
  free(options->shapes);
}

const moe__run_input_t *moe__run_options_input(const moe__run_options_t *options,
                                               const char *argument) {
  for (int i = 0; i < options->input_count; i++)
    if (!strcmp(options->inputs[i].argument, argument))
      return &options->inputs[i];
  return NULL;
}

const moe__run_shape_t *moe__run_options_shape(const moe__run_options_t *options,
                                               const char *argument, int index) {
  for (int i = 0; i < options->shape_count; i++) {
    const moe__run_shape_list_t *list = &options->shapes[i];
    if (!strcmp(list->argument, argument))
      return &list->shapes[list->count == 1 ? 0 : index];
  }
  return NULL;
}
