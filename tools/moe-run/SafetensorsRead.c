/* SafetensorsRead.c - reads safetensors files.
 *
 * Why it exists: see Safetensors.h. Data is read, not mapped: a file that shrinks meanwhile is an
 * error line, not a SIGBUS, and the copy is aligned whatever the length of the header.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "tools/moe-run/Safetensors.h"

#include "tools/moe-run/Report.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A header is some hundred bytes per tensor; the format's own limit. */
enum { MAX_HEADER = 100 * 1000 * 1000, READ_CHUNK = 64 << 20 };

struct moe__run_safetensors_t {
  char *path;
  int fd;
  uint64_t data_at, data_bytes; /* where the data stands in the file */
  json_t *header;
  const json_t *metadata; /* NULL: none */
  size_t count;
  moe__run_stored_t *tensors; /* in the order of their data */
};

/* Every dtype of the format, so that a file may hold tensors that no function takes. */
static const struct {
  const char *name;
  unsigned bits;
} file_dtypes[] = {{"BOOL", 8},    {"U8", 8},          {"I8", 8},          {"F4", 4},
                   {"F6_E2M3", 6}, {"F6_E3M2", 6},     {"F8_E5M2", 8},     {"F8_E4M3", 8},
                   {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},
                   {"U16", 16},    {"F16", 16},        {"BF16", 16},       {"I32", 32},
                   {"U32", 32},    {"F32", 32},        {"I64", 64},        {"U64", 64},
                   {"F64", 64},    {"C64", 64}};

static unsigned dtype_bits(const char *name) {
  for (size_t i = 0; i < sizeof file_dtypes / sizeof *file_dtypes; i++)
    if (!strcmp(file_dtypes[i].name, name))
      return file_dtypes[i].bits;
  return 0;
}

static int read_at(const moe__run_safetensors_t *file, uint64_t offset, void *to, uint64_t bytes) {
  for (uint64_t done = 0; done < bytes;) {
    uint64_t rest = bytes - done;
    ssize_t got = pread(file->fd, (char *)to + done, rest < READ_CHUNK ? rest : READ_CHUNK,
                        (off_t)(offset + done));
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return moe__run_input_error("%s: cannot read: %s", file->path, strerror(errno));
    if (got == 0)
      return moe__run_input_error("%s: the file ended at byte %" PRIu64 " while it was read",
                                  file->path, offset + done);
    done += (uint64_t)got;
    moe__run_progress_update((double)done / (double)bytes);
  }
  return MOE__RUN_OK;
}

/* A JSON integer >= 0. */
static bool get_size(const json_t *value, uint64_t *out) {
  if (!json_is_integer(value) || json_integer_value(value) < 0)
    return false;
  *out = (uint64_t)json_integer_value(value);
  return true;
}

static int parse_tensor(const moe__run_safetensors_t *file, const char *name, const json_t *entry,
                        moe__run_stored_t *out) {
  const char *path = file->path;
  if (!json_is_object(entry))
    return moe__run_input_error("%s: tensor '%s' is not an object", path, name);
  const json_t *dtype = json_object_get(entry, "dtype");
  const json_t *shape = json_object_get(entry, "shape");
  const json_t *offsets = json_object_get(entry, "data_offsets");
  if (!json_is_string(dtype))
    return moe__run_input_error("%s: tensor '%s' has no string 'dtype'", path, name);
  if (!json_is_array(shape))
    return moe__run_input_error("%s: tensor '%s' has no list 'shape'", path, name);
  if (!json_is_array(offsets) || json_array_size(offsets) != 2 ||
      !get_size(json_array_get(offsets, 0), &out->begin) ||
      !get_size(json_array_get(offsets, 1), &out->end))
    return moe__run_input_error("%s: tensor '%s': 'data_offsets' is not a list of two sizes", path,
                                name);
  out->name = name;
  out->dtype = json_string_value(dtype);
  out->rank = (int)json_array_size(shape);
  unsigned bits = dtype_bits(out->dtype);
  if (!bits)
    return moe__run_input_error("%s: tensor '%s': dtype '%s' is not one of the format's", path,
                                name, out->dtype);
  out->shape = calloc((size_t)out->rank + 1, sizeof *out->shape);
  if (!out->shape)
    return moe__run_input_error("%s: out of memory", path);
  uint64_t total_bits = bits;
  for (int i = 0; i < out->rank; i++) {
    uint64_t size;
    if (!get_size(json_array_get(shape, (size_t)i), &size))
      return moe__run_input_error("%s: tensor '%s': shape[%d] is not a size", path, name, i);
    if (__builtin_mul_overflow(total_bits, size, &total_bits))
      return moe__run_input_error("%s: tensor '%s': its size does not fit 64 bits", path, name);
    out->shape[i] = (int64_t)size;
  }
  if (total_bits % 8)
    return moe__run_input_error("%s: tensor '%s': its size is no whole number of bytes", path,
                                name);
  if (out->begin > out->end || out->end > file->data_bytes)
    return moe__run_input_error("%s: tensor '%s': data_offsets [%" PRIu64 ", %" PRIu64
                                "] are not within the %" PRIu64 " bytes of data",
                                path, name, out->begin, out->end, file->data_bytes);
  if (out->end - out->begin != total_bits / 8)
    return moe__run_input_error("%s: tensor '%s': data_offsets span %" PRIu64
                                " bytes, its dtype and shape need %" PRIu64,
                                path, name, out->end - out->begin, total_bits / 8);
  return MOE__RUN_OK;
}

static int by_data(const void *a, const void *b) {
  const moe__run_stored_t *x = a, *y = b;
  if (x->begin != y->begin)
    return x->begin < y->begin ? -1 : 1;
  return x->end < y->end ? -1 : x->end > y->end;
}

/* Every byte of data belongs to exactly one tensor. */
static int check_coverage(moe__run_safetensors_t *file) {
  uint64_t at = 0;
  if (file->count)
    qsort(file->tensors, file->count, sizeof *file->tensors, by_data);
  for (size_t i = 0; i < file->count; i++) {
    const moe__run_stored_t *tensor = &file->tensors[i];
    if (tensor->begin < at)
      return moe__run_input_error("%s: tensor '%s' overlaps tensor '%s'", file->path, tensor->name,
                                  file->tensors[i - 1].name);
    if (tensor->begin > at)
      return moe__run_input_error("%s: bytes %" PRIu64 " to %" PRIu64
                                  " of the data, before tensor '%s', "
                                  "belong to no tensor",
                                  file->path, at, tensor->begin, tensor->name);
    at = tensor->end;
  }
  if (at != file->data_bytes)
    return moe__run_input_error("%s: the file has %" PRIu64
                                " bytes of data, its tensors have %" PRIu64,
                                file->path, file->data_bytes, at);
  return MOE__RUN_OK;
}

static int parse_header(moe__run_safetensors_t *file) {
  const char *name;
  json_t *entry;
  file->tensors = calloc(json_object_size(file->header) + 1, sizeof *file->tensors);
  if (!file->tensors)
    return moe__run_input_error("%s: out of memory", file->path);
  json_object_foreach(file->header, name, entry) {
    if (!strcmp(name, "__metadata__")) {
      const char *key;
      json_t *value;
      if (!json_is_object(entry))
        return moe__run_input_error("%s: __metadata__ is not an object", file->path);
      json_object_foreach(entry, key, value) {
        if (!json_is_string(value))
          return moe__run_input_error("%s: __metadata__: '%s' is not a string", file->path, key);
      }
      file->metadata = entry;
      continue;
    }
    int rc = parse_tensor(file, name, entry, &file->tensors[file->count]);
    /* Counted in any case, so that closing the file frees the shape. */
    file->count++;
    if (rc)
      return rc;
  }
  return check_coverage(file);
}

static int load_header(moe__run_safetensors_t *file) {
  struct stat status;
  uint8_t length_bytes[8];
  if (fstat(file->fd, &status))
    return moe__run_input_error("%s: %s", file->path, strerror(errno));
  if (!S_ISREG(status.st_mode))
    return moe__run_input_error("%s: not a regular file", file->path);
  uint64_t size = (uint64_t)status.st_size, length = 0;
  if (size < sizeof length_bytes)
    return moe__run_input_error("%s: %" PRIu64 " bytes are too few for a safetensors file",
                                file->path, size);
  int rc = read_at(file, 0, length_bytes, sizeof length_bytes);
  if (rc)
    return rc;
  for (int i = 0; i < 8; i++)
    length |= (uint64_t)length_bytes[i] << (8 * i);
  if (length > size - sizeof length_bytes)
    return moe__run_input_error("%s: a header of %" PRIu64
                                " bytes does not fit the file's %" PRIu64,
                                file->path, length, size);
  if (length > MAX_HEADER)
    return moe__run_input_error("%s: a header of %" PRIu64 " bytes is above the limit of %d",
                                file->path, length, (int)MAX_HEADER);
  file->data_at = sizeof length_bytes + length;
  file->data_bytes = size - file->data_at;

  char *text = malloc((size_t)length + 1);
  if (!text)
    return moe__run_input_error("%s: out of memory", file->path);
  rc = read_at(file, sizeof length_bytes, text, length);
  if (!rc) {
    json_error_t error;
    file->header = json_loadb(text, (size_t)length, JSON_REJECT_DUPLICATES, &error);
    if (!file->header)
      rc = moe__run_input_error("%s: header: byte %d: %s", file->path, error.position, error.text);
    else if (!json_is_object(file->header))
      rc = moe__run_input_error("%s: header: not a JSON object", file->path);
  }
  free(text);
  return rc ? rc : parse_header(file);
}

int moe__run_safetensors_open(const char *path, moe__run_safetensors_t **out_file) {
  *out_file = NULL;
  moe__run_safetensors_t *file = calloc(1, sizeof *file);
  if (!file)
    return moe__run_input_error("%s: out of memory", path);
  int rc;
  file->path = strdup(path);
  file->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (!file->path)
    rc = moe__run_input_error("%s: out of memory", path);
  else if (file->fd < 0)
    rc = moe__run_input_error("%s: cannot open: %s", path, strerror(errno));
  else
    rc = load_header(file);
  if (rc)
    moe__run_safetensors_close(file);
  else
    *out_file = file;
  return rc;
}

void moe__run_safetensors_close(moe__run_safetensors_t *file) {
  if (!file)
    return;
  for (size_t i = 0; i < file->count; i++)
    free(file->tensors[i].shape);
  free(file->tensors);
  json_decref(file->header);
  if (file->fd >= 0)
    close(file->fd);
  free(file->path);
  free(file);
}

const moe__run_stored_t *moe__run_safetensors_find(const moe__run_safetensors_t *file,
                                                   const char *name) {
  for (size_t i = 0; i < file->count; i++)
    if (!strcmp(file->tensors[i].name, name))
      return &file->tensors[i];
  return NULL;
}

const moe__run_stored_t *moe__run_safetensors_only(const moe__run_safetensors_t *file) {
  return file->count == 1 ? file->tensors : NULL;
}

const char *moe__run_safetensors_names(const moe__run_safetensors_t *file, char *text,
                                       size_t size) {
  size_t used = 0;
  snprintf(text, size, "none");
  for (size_t i = 0; i < file->count; i++) {
    size_t more = strlen(file->tensors[i].name) + 2;
    if (used + more + sizeof ", ..." > size) {
      snprintf(text + used, size - used, "%s...", used ? ", " : "");
      break;
    }
    used +=
        (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", file->tensors[i].name);
  }
  return text;
}

const char *moe__run_safetensors_metadata(const moe__run_safetensors_t *file,
                                          const moe__run_stored_t *tensor, const char *key) {
  size_t size = strlen(tensor->name) + strlen(key) + 2;
  char *full = malloc(size);
  if (!full)
    return NULL;
  snprintf(full, size, "%s.%s", tensor->name, key);
  const char *value = json_string_value(json_object_get(file->metadata, full));
  free(full);
  return value;
}

int moe__run_safetensors_read(const moe__run_safetensors_t *file, const moe__run_stored_t *tensor,
                              void *to) {
  moe__run_progress_begin(file->path);
  int rc = read_at(file, file->data_at + tensor->begin, to, tensor->end - tensor->begin);
  moe__run_progress_end();
  return rc;
}
