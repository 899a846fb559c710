/* Artifact.h - the files of a bundle, read whole and checked.
 *
 * The driver takes code without its length and trusts what the code says of itself; so the code is
 * checked here first.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_RUNTIME_ARTIFACT_H
#define MOE_RUNTIME_ARTIFACT_H

#include "lib/Runtime/Manifest.h"

/* The contents of a file, with a NUL after the last byte. Freed with free(data). */
typedef struct moe__rt_bytes_t {
  char *data;
  size_t size;
} moe__rt_bytes_t;

/* Reads DIRECTORY/NAME. MOE_RT_IO_ERROR when it cannot be read, MOE_RT_INVALID_BUNDLE when it has
 * more than `limit` bytes. */
moe_rt_status_t moe__rt_file_read(const char *directory, const char *name, int64_t limit,
                                  moe__rt_bytes_t *out_bytes);

/* Compares size and hash of an artifact with the manifest. */
moe_rt_status_t moe__rt_artifact_check(const moe__rt_artifact_t *artifact,
                                       const moe__rt_bytes_t *bytes);

/* Checks that the bytes are a 64-bit ELF of CUDA whose tables and sections lie inside the bytes. */
moe_rt_status_t moe__rt_cubin_check(const moe__rt_bytes_t *bytes);

/* Checks that the bytes are text, and its .version and .target what the manifest says. */
moe_rt_status_t moe__rt_ptx_check(const moe__rt_bytes_t *bytes, const char *isa,
                                  const char *target);

#endif /* MOE_RUNTIME_ARTIFACT_H */
