/* Safetensors.h - reads and writes safetensors files.
 *
 * Why it exists: tensors come and go in the format that people already keep weights in. A file is
 * untrusted input: its header is checked whole before any tensor of it is used.
 *
 * Layout: header length (8 bytes, little-endian), JSON header padded with spaces, data. The header
 * maps a tensor's name to {"dtype", "shape", "data_offsets": [begin, end]}, offsets counted from
 * the start of the data; "__metadata__" maps strings to strings.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_RUN_SAFETENSORS_H
#define MOE_RUN_SAFETENSORS_H

#include "tools/moe-run/Tensor.h"

typedef struct moe__run_stored_t {
  const char *name;  /* borrowed from the file, like the rest */
  const char *dtype; /* "BF16" */
  int rank;
  int64_t *shape;
  uint64_t begin, end; /* bytes from the start of the data */
} moe__run_stored_t;

typedef struct moe__run_safetensors_t moe__run_safetensors_t;

/* Opens the file and checks its header. *out_file is owned by the caller. */
int moe__run_safetensors_open(const char *path, moe__run_safetensors_t **out_file);
void moe__run_safetensors_close(moe__run_safetensors_t *file); /* NULL is allowed */

/* The tensor of this name, NULL if there is none. */
const moe__run_stored_t *moe__run_safetensors_find(const moe__run_safetensors_t *file,
                                                   const char *name);

/* The tensor, where the file has exactly one; else NULL. */
const moe__run_stored_t *moe__run_safetensors_only(const moe__run_safetensors_t *file);

/* Writes the names of the file's tensors, as many as fit, to `text`, which it returns. */
const char *moe__run_safetensors_names(const moe__run_safetensors_t *file, char *text, size_t size);

/* The value of "<tensor>.<key>" in the metadata, NULL if there is none. */
const char *moe__run_safetensors_metadata(const moe__run_safetensors_t *file,
                                          const moe__run_stored_t *tensor, const char *key);

/* Reads the tensor's bytes to `to`. */
int moe__run_safetensors_read(const moe__run_safetensors_t *file, const moe__run_stored_t *tensor,
                              void *to);

/* Fails where `path` could not be written by moe__run_safetensors_write or is the same file as
 * one of `inputs` (`count` paths; those that do not exist are passed over). */
int moe__run_safetensors_may_write(const char *path, const char *const *inputs, int count);

/* Fails where a result of the function has a name that safetensors files use themselves. */
int moe__run_safetensors_may_hold(const char *path, const moe_rt_function_info_t *function);

/* Writes the tensors to `path`, in memory order; for a permuted one the metadata has
 * "<name>.logical_shape" and "<name>.order". A regular file appears under its name only once it is
 * complete. */
int moe__run_safetensors_write(const char *path, const moe__run_tensor_t *tensors, int count);

#endif /* MOE_RUN_SAFETENSORS_H */
