/* Replace.h - writes a file whole or not at all.
 *
 * Why it exists: a failure or an interrupt leaves what was there before.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_RUN_REPLACE_H
#define MOE_RUN_REPLACE_H

#include <stddef.h>

/* Writes a file's content. Returns 0, or -1 with errno. */
typedef int (*moe__write_t)(int fd, const void *user);

/* Writes a file by `write` beside `path` and renames it when it is complete; a device or a pipe is
 * written directly. MOE__INPUT after an error, which is reported. */
int moe__replace(const char *path, moe__write_t write, const void *user);

/* Writes all bytes, with progress. Returns 0, or -1 with errno. */
int moe__write_bytes(int fd, const void *from, size_t bytes);

#endif /* MOE_RUN_REPLACE_H */
