/* main.c - moe-run: runs, checks and times the functions of a bundle.
 *
 * Usage: moe-run BUNDLE
 *        moe-run BUNDLE --in w=weights.safetensors --out quantized.safetensors
 * (all of it: Options.c, docs/moe-run.md)
 *
 * Why it exists: a bundle should be tried on real tensors, checked to the bit and timed without
 * writing a program.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Files/Files.h"
#include "tools/moe-run/Bench.h"
#include "tools/moe-run/Check.h"
#include "tools/moe-run/Contents.h"
#include "tools/moe-run/Describe.h"
#include "tools/moe-run/Device.h"
#include "tools/moe-run/Inputs.h"
#include "tools/moe-run/Reference.h"
#include "tools/moe-run/Report.h"
#include "tools/moe-run/Safetensors.h"
#include "tools/moe-run/Tune.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Output that could not be written is a failure even when it was only --help. */
static void close_stdout(void) {
  if (!moe__file_close_stdout()) {
    fprintf(stderr, "moe-run: cannot write standard output: %s\n", strerror(errno));
    _exit(MOE__RUN_INPUT);
  }
}

static int verify_out(const moe__run_options_t *options) {
  const char **files = calloc((size_t)options->input_count + 1, sizeof *files);
  if (!files)
    return moe__run_input_error("out of memory");
  for (int i = 0; i < options->input_count; i++)
    files[i] = options->inputs[i].file;
  int rc = moe__run_safetensors_may_write(options->out, files, options->input_count);
  free(files);
  if (!rc && options->mode != MOE__RUN_TUNE) /* its bundles are in the folder: Tune.c */
    rc = moe__run_inputs_spare(options, options->bundle);
  return rc;
}

/* Runs the call once; its results have memory. */
static int run(const moe__run_options_t *options, const moe__run_target_t *target,
               moe__run_call_t *call, json_t *cases) {
  moe__run_device_call_t device_call = {0};
  int rc;
  if (!target->device) {
    /* As on a device: rows that are in no group are zeros. */
    for (int i = 0; i < call->function->result_count; i++)
      memset(call->results[i].data, 0, call->results[i].bytes);
    rc = moe__run_reference_run(call, call->results, options->threads);
  } else {
    rc = moe__run_device_call_make(target, call, &device_call);
    if (!rc)
      rc = moe__run_device_call_run(&device_call, 0);
    for (int i = 0; i < call->function->result_count && !rc; i++) {
      bool guards_intact;
      rc = moe__run_device_call_fetch(&device_call, i, call->results[i].data, &guards_intact);
      if (!rc && !guards_intact)
        rc = moe__run_bug_error("%s: the call wrote outside of it (ran on %s)",
                                call->results[i].info->name, target->words);
    }
    if (!rc)
      rc = moe__run_device_call_verify(&device_call, 0);
    moe__run_device_call_free(&device_call);
  }
  if (!rc)
    json_array_append_new(cases, json_pack("{s:o}", "arguments", moe__run_describe_shapes(call)));
  return rc;
}

static int run_case(const moe__run_options_t *options, const moe__run_target_t *target,
                    const moe_rt_function_info_t *function, int index, json_t *cases) {
  moe__run_call_t call = {0};
  int rc = moe__run_inputs_make(options, target->program, function, index, &call);
  if (!rc && options->mode == MOE__RUN_BENCH)
    rc = moe__run_bench(target, &call, options->repeat, options->json, cases);
  for (int i = 0; i < function->result_count && !rc && options->mode != MOE__RUN_BENCH; i++)
    rc = moe__run_tensor_allocate(&call.results[i]);
  if (!rc && options->mode == MOE__RUN_CHECK)
    rc = moe__run_check(target, &call, options, cases, NULL);
  if (!rc && options->mode == MOE__RUN_RUN)
    rc = run(options, target, &call, cases);
  if (!rc && options->out)
    rc = moe__run_safetensors_write(options->out, call.results, function->result_count);
  moe__run_call_free(&call);
  return rc;
}

static void print_json(const moe__run_options_t *options, const moe__run_target_t *target,
                       const moe_rt_function_info_t *function, int rc, json_t *cases) {
  json_t *root = moe__run_describe_outcome(options, target, function, rc == MOE__RUN_OK);
  json_object_set(root, "cases", cases);
  moe__run_describe_print(root);
}

int main(int argc, char **argv) {
  moe__run_options_t options;
  moe__run_target_t target = {0};
  const moe_rt_function_info_t *function = NULL;
  json_t *cases = json_array();
  atexit(close_stdout);
  signal(SIGXFSZ, SIG_IGN); /* a limit of file sizes is an error of write, as a full disk is */
  moe__run_options_parse(argc, argv, &options);

  int rc = options.out ? verify_out(&options) : MOE__RUN_OK;
  if (!rc && options.mode == MOE__RUN_CONTENTS) {
    rc = moe__run_contents(&options);
    goto done;
  }
  if (!rc && options.mode == MOE__RUN_TUNE) {
    rc = moe__run_tune(&options);
    goto done;
  }
  if (!rc)
    rc = moe__run_target_open(&options, &target);
  if (!rc)
    rc = moe__run_find_function(&options, target.program, NULL, &function);
  if (!rc)
    rc = moe__run_inputs_verify(&options, function);
  if (!rc && options.out)
    rc = moe__run_safetensors_may_hold(options.out, function);
  bool ready = !rc;
  for (int i = 0; i < options.case_count && !rc; i++)
    rc = run_case(&options, &target, function, i, cases);
  /* A check that found a difference has something to say, other failures do not. */
  if (ready && options.json && (!rc || (options.mode == MOE__RUN_CHECK && json_array_size(cases))))
    print_json(&options, &target, function, rc, cases);
done:
  json_decref(cases);
  moe__run_target_close(&target);
  moe__run_options_free(&options);
  return rc;
}
