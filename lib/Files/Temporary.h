/* Temporary.h - what File.c and Folder.c share.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_FILES_TEMPORARY_H
#define MOE_FILES_TEMPORARY_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

/* Writes "FOLDER/.moe-NNNNNN" with another number at each call: short, so that it fits wherever a
 * name fits. `folder` has `length` bytes, or is the current folder for 0. */
bool moe__file_temporary_name(const char *folder, size_t length, char *out, size_t size);

/* Opens a new file for writing. It has the mode and, where this process may give it, the owner of
 * `model`; or the usual ones where there is no such file. -1 with errno. */
int moe__file_create(const char *path, const char *model);

/* Lets SIGINT, SIGTERM and SIGHUP wait in this thread. *out_before: those that waited before.
 * False: nothing has changed. */
bool moe__file_hold_signals(sigset_t *out_before);

#endif /* MOE_FILES_TEMPORARY_H */
