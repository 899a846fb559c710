/* Describe.c - a call in words and in JSON.
 *
 * Why it exists: see Describe.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "tools/moe-run/Describe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

json_t *moe__run_describe_list(int count, const int64_t *values) {
  json_t *list = json_array();
  for (int i = 0; i < count; i++)
    json_array_append_new(list, json_integer(values[i]));
  return list;
}

json_t *moe__run_describe_shapes(const moe__run_call_t *call) {
  json_t *shapes = json_object();
  for (int i = 0; i < call->function->argument_count; i++) {
    const moe__run_tensor_t *argument = &call->arguments[i];
    json_object_set_new(shapes, argument->info->name,
                        moe__run_describe_list(argument->info->rank, argument->shape));
  }
  return shapes;
}

char *moe__run_describe_arguments(const moe__run_call_t *call) {
  char *text = NULL, list[MOE__RUN_LIST_TEXT];
  size_t size;
  FILE *stream = open_memstream(&text, &size);
  if (!stream)
    return NULL;
  for (int i = 0; i < call->function->argument_count; i++) {
    const moe__run_tensor_t *argument = &call->arguments[i];
    fprintf(stream, "%s%s=%s", i ? " " : "", argument->info->name,
            moe__run_list_text(argument->info->rank, argument->shape, "x", list));
  }
  fclose(stream);
  return text;
}

/* JSON is UTF-8; the name of a folder need not be. */
static json_t *describe_path(const char *path) {
  json_t *text = json_string(path);
  char *copy = text ? NULL : strdup(path);
  for (char *c = copy; copy && *c; c++)
    if ((unsigned char)*c >= 0x80)
      *c = '?';
  if (copy)
    text = json_string(copy);
  free(copy);
  return text;
}

json_t *moe__run_describe_outcome(const moe__run_options_t *options,
                                  const moe__run_target_t *target,
                                  const moe_rt_function_info_t *function, bool ok) {
  static const char *const modes[] = {[MOE__RUN_RUN] = "run",
                                      [MOE__RUN_CHECK] = "check",
                                      [MOE__RUN_BENCH] = "bench",
                                      [MOE__RUN_TUNE] = "tune",
                                      [MOE__RUN_CONTENTS] = "contents"};
  return json_pack("{s:s, s:o, s:s, s:s, s:s?, s:s, s:b}", "mode", modes[options->mode], "bundle",
                   describe_path(options->bundle), "function", function->name, "device",
                   target->name, "device_name", target->device ? target->info.name : NULL, "code",
                   moe_rt_program_code(target->program), "ok", ok);
}

void moe__run_describe_print(json_t *root) {
  json_dumpf(root, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6));
  putchar('\n');
  json_decref(root);
}
