/* Inputs.c - the arguments of a call: their shapes, and data from files or made up.
 *
 * Why it exists: see Inputs.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "tools/moe-run/Inputs.h"

#include "lib/Files/Bundle.h"
#include "tools/moe-run/Random.h"
#include "tools/moe-run/Reference.h"
#include "tools/moe-run/Report.h"
#include "tools/moe-run/Safetensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where the data of an argument comes from. */
typedef struct source_t {
  const moe__run_input_t *input; /* NULL: random */
  moe__run_safetensors_t *file;
  const moe__run_stored_t *stored;
} source_t;

static bool has_argument(const moe_rt_function_info_t *function, const char *name) {
  for (int i = 0; i < function->argument_count; i++)
    if (!strcmp(function->arguments[i].name, name))
      return true;
  return false;
}

static int no_argument(const char *option, const moe_rt_function_info_t *function,
                       const char *name) {
  char names[512] = "";
  size_t used = 0;
  for (int i = 0; i < function->argument_count && used < sizeof names; i++)
    used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "",
                             function->arguments[i].name);
  return moe__run_input_error("%s: function '%s' has no argument '%s': it has %s", option,
                              function->name, name, function->argument_count ? names : "none");
}

int moe__run_inputs_verify(const moe__run_options_t *options,
                           const moe_rt_function_info_t *function) {
  for (int i = 0; i < options->input_count; i++)
    if (!has_argument(function, options->inputs[i].argument))
      return no_argument("--in", function, options->inputs[i].argument);
  for (int i = 0; i < options->shape_count; i++)
    if (!has_argument(function, options->shapes[i].argument))
      return no_argument("--shape", function, options->shapes[i].argument);
  for (int i = 0; i < function->argument_count; i++) {
    const char *name = function->arguments[i].name;
    if (options->mode == MOE__RUN_RUN && !options->seed_given &&
        !moe__run_options_input(options, name))
      moe__run_note("argument '%s' has no --in: it gets random data, of seed 0", name);
  }
  return MOE__RUN_OK;
}

int moe__run_inputs_spare(const moe__run_options_t *options, const char *folder) {
  if (!options->out || !moe__bundle_holds(folder, MOE__CANDIDATE_FILES, options->out))
    return MOE__RUN_OK;
  return moe__run_input_error("%s: is also an input, a file of '%s'", options->out, folder);
}

/* The tensor of the file that stands for the argument. */
static int choose_tensor(const moe__run_input_t *input, source_t *source) {
  char names[512];
  const char *wanted = input->tensor ? input->tensor : input->argument;
  source->stored = moe__run_safetensors_find(source->file, wanted);
  if (!source->stored && !input->tensor)
    source->stored = moe__run_safetensors_only(source->file);
  if (source->stored)
    return MOE__RUN_OK;
  return moe__run_input_error("%s: no tensor '%s': the file has %s", input->file, wanted,
                              moe__run_safetensors_names(source->file, names, sizeof names));
}

/* Dtype and rank of the stored tensor, and its memory order where the file says one: without,
 * its shape is its shape in memory. Its sizes follow as the argument's logical shape. */
static int compare(const source_t *source, const moe_rt_tensor_info_t *info, int64_t *out_shape) {
  char text[MOE__RUN_LIST_TEXT], wanted[MOE__RUN_LIST_TEXT + 2];
  const moe__run_stored_t *stored = source->stored;
  const char *file = source->input->file;
  const char *dtype = moe__run_dtype_file_name(info->dtype);
  if (!dtype)
    return moe__run_input_error("argument '%s': moe-run knows no dtype %s", info->name,
                                info->dtype);
  if (strcmp(stored->dtype, dtype))
    return moe__run_input_error("%s: tensor '%s' is %s, argument '%s' takes %s (%s)", file,
                                stored->name, stored->dtype, info->name, dtype, info->dtype);
  if (stored->rank != info->rank)
    return moe__run_input_error("%s: tensor '%s' has %d dimensions, argument '%s' takes %d", file,
                                stored->name, stored->rank, info->name, info->rank);
  int64_t order[MOE_RT_MAX_RANK];
  for (int i = 0; i < info->rank; i++) {
    order[i] = info->order[i];
    out_shape[info->order[i]] = stored->shape[i];
  }
  const char *found = moe__run_safetensors_metadata(source->file, stored, "order");
  snprintf(wanted, sizeof wanted, "[%s]", moe__run_list_text(info->rank, order, ",", text));
  if (found && strcmp(found, wanted))
    return moe__run_input_error("%s: tensor '%s' is in memory order %s, argument '%s' takes %s",
                                file, stored->name, found, info->name, wanted);
  found = moe__run_safetensors_metadata(source->file, stored, "logical_shape");
  snprintf(wanted, sizeof wanted, "[%s]", moe__run_list_text(info->rank, out_shape, ",", text));
  if (found && strcmp(found, wanted))
    return moe__run_input_error(
        "%s: tensor '%s': its logical shape is given as %s, its shape and order "
        "give %s",
        file, stored->name, found, wanted);
  return MOE__RUN_OK;
}

/* The argument's shape from its file, from --shape, or static. */
static int find_shape(const moe__run_options_t *options, const moe_rt_tensor_info_t *info,
                      int index, source_t *source, int64_t *out_shape) {
  char a[MOE__RUN_LIST_TEXT], b[MOE__RUN_LIST_TEXT];
  const moe__run_shape_t *given = moe__run_options_shape(options, info->name, index);
  source->input = moe__run_options_input(options, info->name);
  if (given && given->rank != info->rank)
    return moe__run_input_error("--shape %s=%s: the argument has %d dimensions", info->name,
                                moe__run_list_text(given->rank, given->sizes, "x", a), info->rank);
  if (!source->input) {
    for (int i = 0; i < info->rank; i++) {
      if (!given && info->shape[i].size < 0)
        return moe__run_input_error(
            "argument '%s': dimension %d is dynamic: give --shape %s=SIZExSIZE...", info->name, i,
            info->name);
      out_shape[i] = given ? given->sizes[i] : info->shape[i].size;
    }
    return MOE__RUN_OK;
  }
  int rc = moe__run_safetensors_open(source->input->file, &source->file);
  if (!rc)
    rc = choose_tensor(source->input, source);
  if (!rc)
    rc = compare(source, info, out_shape);
  if (!rc && given && memcmp(given->sizes, out_shape, (size_t)info->rank * sizeof *out_shape))
    rc = moe__run_input_error("%s: tensor '%s' is %s, --shape says %s", source->input->file,
                              source->stored->name,
                              moe__run_list_text(info->rank, out_shape, "x", a),
                              moe__run_list_text(given->rank, given->sizes, "x", b));
  return rc;
}

static uint32_t mistakes_of(moe__run_groups_t groups) {
  if (groups == MOE__RUN_GROUPS_DECREASING)
    return MOE_RT_OFFSETS_DECREASE;
  return groups == MOE__RUN_GROUPS_BEYOND ? MOE_RT_OFFSETS_BEYOND : 0;
}

/* Makes the data of an argument that no file gives, in this turn or in the other. */
static int make_random(const moe__run_options_t *options, moe__run_call_t *call, int argument,
                       int turn) {
  const moe__run_tensor_t *tensor = &call->arguments[argument];
  moe__run_random_t random = {.seed = options->seed,
                              .argument = argument,
                              .groups = options->groups,
                              .edge_blocks = options->edge_blocks,
                              .exact = options->exact,
                              .one_hot = options->one_hot,
                              .normal = options->normal,
                              .nan_groups = options->nan_groups,
                              .threads = options->threads};
  int rc = moe__run_reference_use(call, tensor->info, &random.use);
  if (!rc && moe__run_random_follows(&random) == (turn == 1))
    rc = moe__run_random_fill(&random, tensor);
  if (random.use.role == MOE__RUN_OFFSETS && tensor->elements > 0)
    call->mistakes |= mistakes_of(options->groups);
  return rc;
}

/* Gives all arguments their data, those last that follow from others. */
static int fill(const moe__run_options_t *options, moe__run_call_t *call, const source_t *sources) {
  const int count = call->function->argument_count;
  int rc = MOE__RUN_OK;
  for (int i = 0; i < count && !rc; i++)
    rc = moe__run_tensor_allocate(&call->arguments[i]);
  for (int turn = 0; turn < 2; turn++)
    for (int i = 0; i < count && !rc; i++) {
      if (!sources[i].input)
        rc = make_random(options, call, i, turn);
      else if (turn == 0)
        rc = moe__run_safetensors_read(sources[i].file, sources[i].stored, call->arguments[i].data);
    }
  return rc;
}

/* --groups needs an argument with the ends of groups that comes from no file, --nan-groups one that
 * may have NaN. */
static int verify_groups(const moe__run_options_t *options, const moe__run_call_t *call,
                         const source_t *sources) {
  if (!options->groups_given && !options->nan_groups)
    return MOE__RUN_OK;
  const char *const function = call->function->name;
  const char *given = NULL; /* the name of ends that come from a file */
  bool has_groups = false, may_have_nan = false;
  for (int i = 0; i < call->function->argument_count; i++) {
    moe__run_use_t use;
    int rc = moe__run_reference_use(call, call->arguments[i].info, &use);
    if (rc)
      return rc;
    has_groups |= use.role == MOE__RUN_OFFSETS;
    if (use.role == MOE__RUN_OFFSETS && sources[i].input)
      given = call->arguments[i].info->name;
    may_have_nan |= use.nan != MOE__RUN_NAN_NONE;
  }
  if (options->groups_given && !has_groups)
    return moe__run_input_error("--groups: function '%s' has no groups", function);
  if (options->groups_given && given)
    return moe__run_input_error("--groups: '%s' comes from a file", given);
  if (options->nan_groups && !has_groups && !may_have_nan)
    return moe__run_input_error("--nan-groups: function '%s' has no product over groups", function);
  return MOE__RUN_OK;
}

int moe__run_inputs_make(const moe__run_options_t *options, const moe_rt_program_t *program,
                         const moe_rt_function_info_t *function, int index,
                         moe__run_call_t *out_call) {
  size_t count = (size_t)function->argument_count;
  *out_call = (moe__run_call_t){0};
  source_t *sources = calloc(count + 1, sizeof *sources);
  int64_t(*shapes)[MOE_RT_MAX_RANK] = calloc(count + 1, sizeof *shapes);
  const int64_t **rows = calloc(count + 1, sizeof *rows);
  int rc = sources && shapes && rows ? MOE__RUN_OK : MOE__RUN_INPUT;
  if (rc)
    moe__run_input_error("out of memory");
  for (size_t i = 0; i < count && !rc; i++) {
    rows[i] = shapes[i];
    rc = find_shape(options, &function->arguments[i], index, &sources[i], shapes[i]);
  }
  if (!rc)
    rc = moe__run_call_layout(program, function, rows, out_call);
  if (!rc)
    rc = verify_groups(options, out_call, sources);
  if (!rc)
    rc = fill(options, out_call, sources);
  for (size_t i = 0; sources && i < count; i++)
    moe__run_safetensors_close(sources[i].file);
  free(rows);
  free(shapes);
  free(sources);
  return rc;
}
