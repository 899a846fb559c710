/* SafetensorsWrite.c - writes safetensors files.
 *
 * Why it exists: see Safetensors.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "tools/moe-run/Safetensors.h"

#include "tools/moe-run/Replace.h"
#include "tools/moe-run/Report.h"

#include <errno.h>
#include <jansson.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_BITS = 64 };

/* The metadata of a permuted tensor: what its shape in the file does not say. */
static int add_metadata(json_t *metadata, const moe__tensor_t *tensor) {
  char list[MOE__LIST_TEXT], *shape_key = NULL, *order_key = NULL;
  int64_t order[MOE_RT_MAX_RANK];
  int rank = tensor->info->rank;
  if (!moe__tensor_is_permuted(tensor->info))
    return 0;
  for (int i = 0; i < rank; i++)
    order[i] = tensor->info->order[i];
  int failed = asprintf(&shape_key, "%s.logical_shape", tensor->info->name) < 0 ||
               asprintf(&order_key, "%s.order", tensor->info->name) < 0;
  if (!failed)
    failed = json_object_set_new(
        metadata, shape_key, json_sprintf("[%s]", moe__list_text(rank, tensor->shape, ",", list)));
  if (!failed)
    failed = json_object_set_new(metadata, order_key,
                                 json_sprintf("[%s]", moe__list_text(rank, order, ",", list)));
  free(shape_key);
  free(order_key);
  return failed;
}

static json_t *describe(const moe__tensor_t *tensor, json_int_t offset) {
  int64_t shape[MOE_RT_MAX_RANK];
  json_t *list = json_array();
  moe__tensor_memory_shape(tensor, shape);
  for (int i = 0; i < tensor->info->rank; i++)
    json_array_append_new(list, json_integer(shape[i]));
  return json_pack("{s:s, s:o, s:[I, I]}", "dtype", tensor->dtype->file_name, "shape", list,
                   "data_offsets", offset, offset + (json_int_t)tensor->bytes);
}

/* The whole header with its length and padding; NULL when out of memory. `ordered` are the tensors
 * as their data follows. */
static char *make_header(const moe__tensor_t *const *ordered, int count, size_t *out_size) {
  json_t *root = json_object(), *metadata = json_object();
  json_int_t offset = 0;
  int failed = json_object_set_new(metadata, "producer", json_string("moe-run " MOE_VERSION));
  failed |= json_object_set(root, "__metadata__", metadata);
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
  const moe__tensor_t **ordered;
  int count;
} content_t;

static int write_content(int fd, const void *user) {
  const content_t *content = user;
  size_t size = 0;
  char *header = make_header(content->ordered, content->count, &size);
  int failed = header ? moe__write_bytes(fd, header, size) : -1;
  free(header);
  for (int i = 0; i < content->count && !failed; i++) {
    const moe__tensor_t *tensor = content->ordered[i];
    moe__progress_begin(tensor->info->name);
    failed = moe__write_bytes(fd, tensor->data, tensor->bytes);
    int error = errno;
    moe__progress_end();
    errno = error;
  }
  return failed;
}

int moe__safetensors_may_write(const char *path, const char *const *inputs, int count) {
  struct stat target, input;
  if (stat(path, &target)) {
    char *copy = strdup(path);
    const char *folder = copy ? dirname(copy) : ".";
    int rc = access(folder, W_OK | X_OK)
                 ? moe__input_error("%s: cannot write to '%s': %s", path, folder, strerror(errno))
                 : MOE__OK;
    free(copy);
    return rc;
  }
  if (S_ISDIR(target.st_mode))
    return moe__input_error("%s: is a directory", path);
  for (int i = 0; i < count; i++)
    if (!stat(inputs[i], &input) && input.st_dev == target.st_dev && input.st_ino == target.st_ino)
      return moe__input_error("%s: is also an input, '%s'", path, inputs[i]);
  return MOE__OK;
}

int moe__safetensors_write(const char *path, const moe__tensor_t *tensors, int count) {
  content_t content = {.ordered = calloc((size_t)count + 1, sizeof(moe__tensor_t *))};
  if (!content.ordered)
    return moe__input_error("%s: out of memory", path);
  /* Wide elements first: then each tensor's data is aligned to its element. */
  for (int bits = MAX_BITS; bits >= 8; bits /= 2)
    for (int i = 0; i < count; i++)
      if (tensors[i].dtype->bits == bits)
        content.ordered[content.count++] = &tensors[i];
  int rc = moe__replace(path, write_content, &content);
  free(content.ordered);
  return rc;
}
