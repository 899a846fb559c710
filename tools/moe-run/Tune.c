/* Tune.c - chooses among the candidates that moe-opt --emit=candidates wrote.
 *
 * Why it exists: see Tune.h. All candidates work on the same tensors and take turns, so that
 * clocks and temperature, which drift, are the same for each.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "tools/moe-run/Tune.h"

#include "lib/Files/Bundle.h"
#include "lib/Files/Files.h"
#include "tools/moe-run/Bench.h"
#include "tools/moe-run/Check.h"
#include "tools/moe-run/Describe.h"
#include "tools/moe-run/Inputs.h"
#include "tools/moe-run/Report.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* More are no list of candidates. */
enum { MAX_CANDIDATES = 1000 };

typedef struct candidate_t {
  char *path; /* FOLDER/N; owned, like the source */
  char *source;
  size_t source_bytes;
  moe_rt_program_t *program; /* of number 0: the target's */
  const moe_rt_function_info_t *function;
  bool wrong;
  double logarithms; /* of the fractions, summed over the shapes */
} candidate_t;

typedef struct tune_t {
  const moe__run_options_t *options;
  moe__run_target_t target;
  candidate_t *candidates;
  int count;
} tune_t;

/* ---- The folder ---- */

static int count_candidates(const char *folder, int *out_count) {
  DIR *stream = opendir(folder);
  if (!stream)
    return moe__run_input_error("%s: cannot open: %s", folder, strerror(errno));
  *out_count = 0;
  for (const struct dirent *entry = readdir(stream); entry; entry = readdir(stream)) {
    int number = moe__candidate_number(entry->d_name);
    if (number >= *out_count)
      *out_count = number + 1;
  }
  closedir(stream);
  if (*out_count == 0)
    return moe__run_input_error("%s: has no candidates; moe-opt --emit=candidates writes them",
                                folder);
  if (*out_count > MAX_CANDIDATES)
    return moe__run_input_error("%s: has a candidate %d; there may be %d", folder, *out_count - 1,
                                MAX_CANDIDATES);
  return MOE__RUN_OK;
}

static int read_source(candidate_t *candidate) {
  char *path = NULL;
  if (asprintf(&path, "%s/" MOE__BUNDLE_SOURCE, candidate->path) < 0)
    return moe__run_input_error("out of memory");
  int rc = MOE__RUN_OK;
  if (!moe__file_read(path, &candidate->source, &candidate->source_bytes))
    rc = moe__run_input_error("%s: cannot read: %s", path, strerror(errno));
  else if (!candidate->source_bytes)
    rc = moe__run_input_error("%s: is empty", path);
  free(path);
  return rc;
}

static bool is_same_text(const char *a, const char *b) {
  return a && b ? !strcmp(a, b) : a == b;
}

static bool is_same_tensor(const moe_rt_tensor_info_t *a, const moe_rt_tensor_info_t *b) {
  bool same = is_same_text(a->name, b->name) && is_same_text(a->dtype, b->dtype) &&
              a->rank == b->rank && a->alignment == b->alignment;
  for (int i = 0; same && i < a->rank; i++)
    same = a->order[i] == b->order[i] && a->shape[i].size == b->shape[i].size &&
           is_same_text(a->shape[i].symbol, b->shape[i].symbol);
  return same;
}

/* Whether both compute the same of the same. */
static bool is_same_function(const moe_rt_function_info_t *a, const moe_rt_function_info_t *b) {
  bool same = is_same_text(a->name, b->name) && a->argument_count == b->argument_count &&
              a->result_count == b->result_count && a->launch_count == b->launch_count;
  for (int i = 0; same && i < a->argument_count; i++)
    same = is_same_tensor(&a->arguments[i], &b->arguments[i]);
  for (int i = 0; same && i < a->result_count; i++)
    same = is_same_tensor(&a->results[i], &b->results[i]);
  for (int i = 0; same && i < a->launch_count; i++)
    same = is_same_text(a->launches[i].op, b->launches[i].op) &&
           is_same_text(a->launches[i].attributes_json, b->launches[i].attributes_json);
  return same;
}

/* Gives a candidate its path. */
static int locate(tune_t *tune, int number) {
  candidate_t *candidate = &tune->candidates[number];
  if (asprintf(&candidate->path, "%s/%d", tune->options->bundle, number) < 0)
    return candidate->path = NULL, moe__run_input_error("out of memory");
  return moe__run_inputs_spare(tune->options, candidate->path);
}

/* Loads a candidate on the device; number 0 opens it. */
static int load(tune_t *tune, int number) {
  candidate_t *candidate = &tune->candidates[number];
  int rc = MOE__RUN_OK;
  if (number == 0) {
    moe__run_options_t options = *tune->options;
    options.bundle = candidate->path;
    rc = moe__run_target_open(&options, &tune->target);
    candidate->program = tune->target.program;
  } else {
    moe_rt_status_t status =
        moe_rt_program_load(tune->target.device, candidate->path, &candidate->program);
    rc = status ? moe__run_runtime_error(status) : MOE__RUN_OK;
  }
  if (!rc)
    rc = moe__run_find_function(tune->options, candidate->program, candidate->path,
                                &candidate->function);
  if (rc)
    return rc;
  if (!is_same_function(candidate->function, tune->candidates[0].function))
    return moe__run_input_error("%s: is no candidate of what %s is one of: their functions differ",
                                candidate->path, tune->candidates[0].path);
  return read_source(candidate);
}

static int load_all(tune_t *tune) {
  int rc = count_candidates(tune->options->bundle, &tune->count); /* one at least */
  if (rc)
    return rc;
  tune->candidates = calloc((size_t)tune->count + 1, sizeof *tune->candidates);
  if (!tune->candidates)
    return moe__run_input_error("out of memory");
  for (int i = 0; i < tune->count && !rc; i++)
    rc = locate(tune, i);
  if (!rc)
    rc = load(tune, 0);
  for (int i = 1; i < tune->count && !rc; i++)
    rc = load(tune, i);
  return rc ? rc : moe__run_inputs_verify(tune->options, tune->candidates[0].function);
}

static void unload(tune_t *tune) {
  for (int i = 0; tune->candidates && i < tune->count; i++) {
    if (i > 0)
      moe_rt_program_destroy(tune->candidates[i].program);
    free(tune->candidates[i].path);
    free(tune->candidates[i].source);
  }
  free(tune->candidates);
  moe__run_target_close(&tune->target);
}

/* ---- Check ---- */

/* The call with the least data: the reference takes its time. */
static int smallest_case(const moe__run_options_t *options) {
  int smallest = 0;
  double least = INFINITY;
  for (int i = 0; i < options->case_count; i++) {
    double elements = 0;
    for (int a = 0; a < options->shape_count; a++) {
      const moe__run_shape_t *shape =
          moe__run_options_shape(options, options->shapes[a].argument, i);
      double product = 1;
      for (int d = 0; d < shape->rank; d++)
        product *= (double)shape->sizes[d];
      elements += product;
    }
    if (elements < least) {
      least = elements;
      smallest = i;
    }
  }
  return smallest;
}

/* Compares the candidate with the C reference, or with one before it that was right. One that is
 * wrong is marked, and no error. */
static int check(const tune_t *tune, candidate_t *candidate, moe__run_known_t *known) {
  moe__run_options_t options = *tune->options;
  options.json = true; /* nothing is said of what is right */
  moe__run_target_t target = tune->target;
  target.program = candidate->program;
  moe__run_call_t call = {0};
  json_t *cases = json_array();
  int rc = moe__run_inputs_make(&options, target.program, candidate->function,
                                smallest_case(&options), &call);
  for (int i = 0; i < candidate->function->result_count && !rc; i++)
    rc = moe__run_tensor_allocate(&call.results[i]);
  if (!rc)
    rc = moe__run_check(&target, &call, &options, cases, known);
  candidate->wrong = rc == MOE__RUN_INPUT && json_array_size(cases) > 0;
  if (candidate->wrong)
    rc = MOE__RUN_OK,
    moe__run_input_error("%s: the candidate is wrong; it is left out", candidate->path);
  json_decref(cases);
  moe__run_call_free(&call);
  return rc;
}

static int check_all(const tune_t *tune, int *out_right) {
  moe__run_known_t known = {0};
  int rc = MOE__RUN_OK;
  *out_right = 0;
  for (int i = 0; i < tune->count && !rc; i++) {
    rc = check(tune, &tune->candidates[i], &known);
    *out_right += !tune->candidates[i].wrong;
  }
  moe__run_known_free(&known);
  if (!rc && !*out_right)
    rc = moe__run_input_error("%s: no candidate is right", tune->options->bundle);
  return rc;
}

/* ---- Timing ---- */

static json_t *describe_case(const tune_t *tune, const moe__run_call_t *call,
                             const moe__run_timing_t *timing, const moe__run_timed_t *timed) {
  json_t *list = json_array();
  for (int i = 0; i < tune->count; i++) {
    if (tune->candidates[i].wrong)
      continue;
    json_array_append_new(list, json_pack("{s:i, s:f, s:f, s:f}", "candidate", i, "median_us",
                                          timed->median, "least_us", timed->least, "fraction",
                                          timing->copy_median / timed->median));
    timed++;
  }
  return json_pack("{s:o, s:I, s:i, s:f, s:f, s:o}", "arguments", moe__run_describe_shapes(call),
                   "bytes", (json_int_t)timing->bytes, "calls", tune->options->repeat,
                   "copy_median_us", timing->copy_median, "copy_least_us", timing->copy_least,
                   "candidates", list);
}

static void print_case(const tune_t *tune, const moe__run_call_t *call,
                       const moe__run_timing_t *timing, const moe__run_timed_t *timed) {
  char *arguments = moe__run_describe_arguments(call);
  for (int i = 0; i < tune->count; i++) {
    if (tune->candidates[i].wrong)
      continue;
    printf("%-24s %9d %10.2f %10.2f %8.3f\n", arguments ? arguments : "", i, timed->median,
           timing->copy_median, timing->copy_median / timed->median);
    timed++;
  }
  fflush(stdout);
  free(arguments);
}

/* Times the candidates that are right on the call with this number. */
static int time_case(const tune_t *tune, int index, int right, json_t *cases) {
  moe__run_call_t call = {0};
  moe__run_timing_t timing;
  moe__run_timed_t *timed = calloc((size_t)right + 1, sizeof *timed);
  if (!timed)
    return moe__run_input_error("out of memory");
  for (int i = 0, next = 0; i < tune->count; i++) {
    const candidate_t *candidate = &tune->candidates[i];
    if (!candidate->wrong)
      timed[next++] = (moe__run_timed_t){candidate->program, candidate->function, 0, 0};
  }
  int rc = moe__run_inputs_make(tune->options, tune->target.program, tune->candidates[0].function,
                                index, &call);
  if (!rc)
    rc = moe__run_bench_time(&tune->target, &call, tune->options->repeat, timed, right, &timing);
  for (int i = 0, next = 0; i < tune->count && !rc; i++)
    if (!tune->candidates[i].wrong)
      tune->candidates[i].logarithms += log(timing.copy_median / timed[next++].median);
  if (!rc && tune->options->json)
    json_array_append_new(cases, describe_case(tune, &call, &timing, timed));
  else if (!rc)
    print_case(tune, &call, &timing, timed);
  moe__run_call_free(&call);
  free(timed);
  return rc;
}

/* ---- The result ---- */

static double mean_of(const tune_t *tune, int number) {
  return exp(tune->candidates[number].logarithms / tune->options->case_count);
}

/* The best of those that are right; of equal ones the first. */
static int find_best(const tune_t *tune) {
  int best = -1;
  for (int i = 0; i < tune->count; i++)
    if (!tune->candidates[i].wrong && (best < 0 || mean_of(tune, i) > mean_of(tune, best)))
      best = i;
  return best;
}

static void print_head(const tune_t *tune) {
  printf("%s on %s: %d candidates, in turns, median of %d calls; the copy moves as many bytes\n"
         "%-24s %9s %10s %10s %8s\n",
         tune->candidates[0].function->name, tune->target.words, tune->count, tune->options->repeat,
         "arguments", "candidate", "median us", "copy us", "fraction");
}

static void print_best(const tune_t *tune, int best) {
  for (int i = 0; i < tune->count; i++) {
    if (tune->candidates[i].wrong)
      printf("%-24s %9d %10s %10s %8s\n", "geometric mean", i, "", "", "wrong");
    else
      printf("%-24s %9d %10s %10s %8.3f\n", "geometric mean", i, "", "", mean_of(tune, i));
  }
  printf("best: candidate %d", best);
  if (best == 0)
    printf(", the default");
  else if (!tune->candidates[0].wrong)
    printf(", %.3f times as fast as the default", mean_of(tune, best) / mean_of(tune, 0));
  putchar('\n');
}

static void print_json(const tune_t *tune, int best, int rc, json_t *cases) {
  json_t *root = moe__run_describe_outcome(tune->options, &tune->target,
                                           tune->candidates[0].function, rc == MOE__RUN_OK);
  json_t *list = json_array();
  for (int i = 0; i < tune->count; i++) {
    bool wrong = tune->candidates[i].wrong;
    json_array_append_new(list, json_pack("{s:b, s:o}", "ok", !wrong, "mean_fraction",
                                          wrong ? json_null() : json_real(mean_of(tune, i))));
  }
  json_object_set(root, "cases", cases);
  json_object_set_new(root, "candidates", list);
  json_object_set_new(root, "best", json_integer(best));
  moe__run_describe_print(root);
}

static bool write_source(int file, const void *user) {
  const candidate_t *candidate = user;
  return moe__file_write_bytes(file, candidate->source, candidate->source_bytes);
}

int moe__run_tune(const moe__run_options_t *options) {
  tune_t tune = {.options = options};
  json_t *cases = json_array();
  int right = 0;
  int rc = load_all(&tune);
  if (!rc)
    rc = check_all(&tune, &right);
  if (!rc && !options->json)
    print_head(&tune);
  for (int i = 0; i < options->case_count && !rc; i++)
    rc = time_case(&tune, i, right, cases);
  int best = rc ? -1 : find_best(&tune);
  if (!rc && options->out && !moe__file_replace(options->out, write_source, &tune.candidates[best]))
    rc = moe__run_input_error("%s: cannot write: %s", options->out, strerror(errno));
  if (!rc) {
    rc = right == tune.count ? MOE__RUN_OK : MOE__RUN_INPUT;
    if (options->json)
      print_json(&tune, best, rc, cases);
    else
      print_best(&tune, best);
  }
  json_decref(cases);
  unload(&tune);
  return rc;
}
