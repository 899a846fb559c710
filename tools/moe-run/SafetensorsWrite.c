/* SafetensorsWrite.c - writes safetensors files.
 *
 * Why it exists: see Safetensors.h. A file is written beside its target and renamed, so that a
 * failure or an interrupt leaves what was there before.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "tools/moe-run/Safetensors.h"

#include "tools/moe-run/Report.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WRITE_CHUNK = 16 << 20, MAX_BITS = 64 };

/* The unfinished file, for the signal handler, which is set only while there is one. */
static char temporary[PATH_MAX];
static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
enum { SIGNAL_COUNT = sizeof signals / sizeof *signals };

static void remove_and_die(int signal_number) {
  unlink(temporary);
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

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

static int write_bytes(int fd, const void *from, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    size_t rest = bytes - done;
    ssize_t put = write(fd, (const char *)from + done, rest < WRITE_CHUNK ? rest : WRITE_CHUNK);
    if (put < 0 && errno == EINTR)
      continue;
    if (put < 0)
      return -1;
    done += (size_t)put;
    moe__progress_update((double)done / (double)bytes);
  }
  return 0;
}

/* Returns 0, or -1 with errno. Closes fd. */
static int write_file(int fd, const moe__tensor_t *const *ordered, int count) {
  size_t size = 0;
  char *header = make_header(ordered, count, &size);
  int failed = header ? write_bytes(fd, header, size) : -1;
  free(header);
  for (int i = 0; i < count && !failed; i++) {
    moe__progress_begin(ordered[i]->info->name);
    failed = write_bytes(fd, ordered[i]->data, ordered[i]->bytes);
    int error = errno;
    moe__progress_end();
    errno = error;
  }
  int error = errno;
  if (close(fd) && !failed)
    return -1;
  errno = error;
  return failed;
}

/* Writes beside `target`, then renames. Returns 0, or -1 with errno. */
static int replace_file(const char *target, const moe__tensor_t *const *ordered, int count) {
  if ((size_t)snprintf(temporary, sizeof temporary, "%s.XXXXXX", target) >= sizeof temporary) {
    errno = ENAMETOOLONG;
    return -1;
  }
  /* mkostemp makes files private; this one is to be like any other. */
  mode_t mask = umask(0);
  umask(mask);
  struct sigaction action = {.sa_handler = remove_and_die}, before[SIGNAL_COUNT];
  for (int i = 0; i < SIGNAL_COUNT; i++) {
    sigaction(signals[i], NULL, &before[i]);
    if (before[i].sa_handler != SIG_IGN)
      sigaction(signals[i], &action, NULL);
  }
  int fd = mkostemp(temporary, O_CLOEXEC);
  int failed = fd < 0 ? -1 : write_file(fd, ordered, count);
  if (!failed)
    failed = chmod(temporary, 0666 & ~mask) || rename(temporary, target) ? -1 : 0;
  int error = errno;
  if (failed && fd >= 0)
    unlink(temporary);
  for (int i = 0; i < SIGNAL_COUNT; i++)
    sigaction(signals[i], &before[i], NULL);
  errno = error;
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
  const moe__tensor_t **ordered = calloc((size_t)count + 1, sizeof *ordered);
  if (!ordered)
    return moe__input_error("%s: out of memory", path);
  /* Wide elements first: then each tensor's data is aligned to its element. */
  int used = 0;
  for (int bits = MAX_BITS; bits >= 8; bits /= 2)
    for (int i = 0; i < count; i++)
      if (tensors[i].dtype->bits == bits)
        ordered[used++] = &tensors[i];

  struct stat status;
  int failed;
  if (!stat(path, &status) && !S_ISREG(status.st_mode)) {
    /* A device or a pipe cannot be replaced, only written to. */
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    failed = fd < 0 ? -1 : write_file(fd, ordered, used);
  } else {
    char *resolved = realpath(path, NULL);
    failed = replace_file(resolved ? resolved : path, ordered, used);
    int error = errno;
    free(resolved);
    errno = error;
  }
  int rc = failed ? moe__input_error("%s: cannot write: %s", path, strerror(errno)) : MOE__OK;
  free(ordered);
  return rc;
}
