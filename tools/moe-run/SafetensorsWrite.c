/* SafetensorsWrite.c - writes safetensors files.
 *
 * Why it exists: see Safetensors.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "tools/moe-run/Safetensors.h"

#include "lib/Files/Files.h"
#include "tools/moe-run/Report.h"

#include <errno.h>
#include <jansson.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_BITS = 64, WRITE_CHUNK = 16 << 20 };

static const char METADATA[] = "__metadata__"; /* the key of what is no tensor */

/* The metadata of a permuted tensor: what its shape in the file does not say. */
static int add_metadata(json_t *metadata, const moe__run_tensor_t *tensor) {
  char list[MOE__RUN_LIST_TEXT], *shape_key = NULL, *order_key = NULL;
  int64_t order[MOE_RT_MAX_RANK];
  int rank = tensor->info->rank;
  if (!moe__run_tensor_is_permuted(tensor->info))
    return 0;
  for (int i = 0; i < rank; i++)
    order[i] = tensor->info->order[i];
  int failed = asprintf(&shape_key, "%s.logical_shape", tensor->info->name) < 0 ||
               asprintf(&order_key, "%s.order", tensor->info->name) < 0;
  if (!failed)
    failed = json_object_set_new(
        metadata, shape_key,
        json_sprintf("[%s]", moe__run_list_text(rank, tensor->shape, ",", list)));
  if (!failed)
    failed = json_object_set_new(metadata, order_key,
                                 json_sprintf("[%s]", moe__run_list_text(rank, order, ",", list)));
  free(shape_key);
  free(order_key);
  return failed;
}

static json_t *describe(const moe__run_tensor_t *tensor, json_int_t offset) {
  int64_t shape[MOE_RT_MAX_RANK];
  json_t *list = json_array();
  moe__run_tensor_memory_shape(tensor, shape);
  for (int i = 0; i < tensor->info->rank; i++)
    json_array_append_new(list, json_integer(shape[i]));
  return json_pack("{s:s, s:o, s:[I, I]}", "dtype", tensor->dtype->file_name, "shape", list,
                   "data_offsets", offset, offset + (json_int_t)tensor->bytes);
}

/* The whole header with its length and padding; NULL when out of memory. `ordered` are the tensors
 * as their data follows. */
static char *make_header(const moe__run_tensor_t *const *ordered, int count, size_t *out_size) {
  json_t *root = json_object(), *metadata = json_object();
  json_int_t offset = 0;
  int failed = json_object_set_new(metadata, "producer", json_string("moe-run " MOE_VERSION));
  failed |= json_object_set(root, METADATA, metadata);
  for (int i = 0; i < count; i++) {
    failed |= add_metadata(metadata, ordered[i]);
    failed |= json_object_set_new(root, ordered[i]->info->name, describe(ordered[i], offset));
    offset += (json_int_t)ordered[i]->bytes;
  }
  char *json = failed ? NULL : json_dumps(root, JSON_COMPACT);
  json_decref(metadata);
  json_decref(root);
  if (!json)
    return NULL;
  size_t length = strlen(json), padded = (length + 7) / 8 * 8;
  char *header = malloc(8 + padded);
  if (header) {
    for (int i = 0; i < 8; i++)
      header[i] = (char)((uint64_t)padded >> (8 * i));
    memcpy(header + 8, json, length);
    memset(header + 8 + length, ' ', padded - length);
    *out_size = 8 + padded;
  }
  free(json);
  return header;
}

/* The tensors as their data follows. */
typedef struct content_t {
  const moe__run_tensor_t **ordered;
  int count;
} content_t;

static bool write_tensor(int file, const moe__run_tensor_t *tensor) {
  bool ok = true;
  moe__run_progress_begin(tensor->info->name);
  for (size_t done = 0; ok && done < tensor->bytes;) {
    size_t rest = tensor->bytes - done, count = rest < WRITE_CHUNK ? rest : WRITE_CHUNK;
    ok = moe__file_write_bytes(file, (const char *)tensor->data + done, count);
    done += count;
    moe__run_progress_update((double)done / (double)tensor->bytes);
  }
  int error = errno;
  moe__run_progress_end();
  errno = error;
  return ok;
}

static bool write_content(int file, const void *user) {
  const content_t *content = user;
  size_t size = 0;
  char *header = make_header(content->ordered, content->count, &size);
  bool ok = header && moe__file_write_bytes(file, header, size);
  free(header);
  for (int i = 0; i < content->count && ok; i++)
    ok = write_tensor(file, content->ordered[i]);
  return ok;
}

int moe__run_safetensors_may_write(const char *path, const char *const *inputs, int count) {
  struct stat target, input;
  if (stat(path, &target)) {
    char *copy = strdup(path);
    const char *folder = copy ? dirname(copy) : ".";
    int rc = access(folder, W_OK | X_OK) ? moe__run_input_error("%s: cannot write to '%s': %s",
                                                                path, folder, strerror(errno))
                                         : MOE__RUN_OK;
    free(copy);
    return rc;
  }
  if (S_ISDIR(target.st_mode))
    return moe__run_input_error("%s: is a directory", path);
  for (int i = 0; i < count; i++)
    if (!stat(inputs[i], &input) && input.st_dev == target.st_dev && input.st_ino == target.st_ino)
      return moe__run_input_error("%s: is also an input, '%s'", path, inputs[i]);
  return MOE__RUN_OK;
}

int moe__run_safetensors_may_hold(const char *path, const moe_rt_function_info_t *function) {
  for (int i = 0; i < function->result_count; i++)
    if (!strcmp(function->results[i].name, METADATA))
      return moe__run_input_error("%s: cannot hold result '%s' of function '%s': safetensors files "
                                  "have something else under this name",
                                  path, METADATA, function->name);
  return MOE__RUN_OK;
}

int moe__run_safetensors_write(const char *path, const moe__run_tensor_t *tensors, int count) {
  content_t content = {.ordered = calloc((size_t)count + 1, sizeof(moe__run_tensor_t *))};
  if (!content.ordered)
    return moe__run_input_error("%s: out of memory", path);
  /* Wide elements first: then each tensor's data is aligned to its element. */
  for (int bits = MAX_BITS; bits >= 8; bits /= 2)
    for (int i = 0; i < count; i++)
      if (tensors[i].dtype->bits == bits)
        content.ordered[content.count++] = &tensors[i];
  int rc = moe__file_replace(path, write_content, &content)
               ? MOE__RUN_OK
               : moe__run_input_error("%s: cannot write: %s", path, strerror(errno));
  free(content.ordered);
  return rc;
}
