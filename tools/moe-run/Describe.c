/* Describe.c - a call in words and in JSON.
 *
 * Why it exists: see Describe.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "tools/moe-run/Describe.h"

#include <stdio.h>
#include <stdlib.h>

json_t *moe__describe_list(int count, const int64_t *values) {
  json_t *list = json_array();
  for (int i = 0; i < count; i++)
    json_array_append_new(list, json_integer(values[i]));
  return list;
}

json_t *moe__describe_shapes(const moe__call_t *call) {
  json_t *shapes = json_object();
  for (int i = 0; i < call->function->argument_count; i++) {
    const moe__tensor_t *argument = &call->arguments[i];
    json_object_set_new(shapes, argument->info->name,
                        moe__describe_list(argument->info->rank, argument->shape));
  }
  return shapes;
}

char *moe__describe_arguments(const moe__call_t *call) {
  char *text = NULL, list[MOE__LIST_TEXT];
  size_t size;
  FILE *stream = open_memstream(&text, &size);
  if (!stream)
    return NULL;
  for (int i = 0; i < call->function->argument_count; i++) {
    const moe__tensor_t *argument = &call->arguments[i];
    fprintf(stream, "%s%s=%s", i ? " " : "", argument->info->name,
            moe__list_text(argument->info->rank, argument->shape, "x", list));
  }
  fclose(stream);
  return text;
}
