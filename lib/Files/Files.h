/* Files.h - writes files and folders whole or not at all, and closes stdout.
 *
 * Why it exists: moe-opt, moe-run and libmoe_compiler write what others build on. A full disk, an
 * error or an interrupt leaves what was there before.
 *
 * Functions that return false have set errno.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_FILES_FILES_H
#define MOE_FILES_FILES_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

/* Writes all bytes to an open file. */
bool moe__file_write_bytes(int file, const void *data, size_t length);

/* Writes the content of an open file. Returns false with errno. */
typedef bool (*moe__file_write_t)(int file, const void *user);

/* Writes a file by `write` beside `path` and renames it when it is complete. A file that is
 * there keeps its mode, and a symbolic link stays one: what it points to is written, though it
 * may not be there yet. A device or a pipe is written directly. While it is at work, SIGINT,
 * SIGTERM and SIGHUP remove the unfinished file before they end the process: for tools, not for
 * libraries. */
bool moe__file_replace(const char *path, moe__file_write_t write, const void *user);

/* The same for libraries: SIGINT, SIGTERM and SIGHUP wait until a regular file is in its place, as
 * far as this thread is asked. */
bool moe__file_replace_held(const char *path, moe__file_write_t write, const void *user);

/* Whether these would come as far as writing: a missing folder and a missing permission are found
 * beforehand, a full disk is not. */
bool moe__file_may_replace(const char *path);

/* Reads an open regular file whole. The caller owns *out_data, which is NULL for an empty file. */
bool moe__file_read_bytes(int file, char **out_data, size_t *out_length);

/* The same of the file with this name. */
bool moe__file_read(const char *path, char **out_data, size_t *out_length);

/* Whether both paths name one file that exists. */
bool moe__file_is_same(const char *path, const char *other);

/* Closes stdout. False where what was printed did not get there; who starts a program without a
 * stdout, and prints nothing, has lost nothing. For what atexit calls. */
bool moe__file_close_stdout(void);

/* A file of a folder. */
typedef struct moe__file_t {
  const char *name;
  const char *data; /* NULL: the folder is to have no such file */
  size_t length;
} moe__file_t;

/* A folder that is complete, but not yet in its place. */
typedef struct moe__folder_t {
  char *path;               /* where it is to be */
  char *staged;             /* where it is; NULL: it is in its place */
  const moe__file_t *files; /* borrowed */
  size_t count;
  size_t made; /* length of the path of the first folder above it that was made; 0: none */
  bool holds_signals;
  sigset_t signals; /* those that were blocked before */
} moe__folder_t;

/* Writes the files into a new folder beside `path`, and makes the folders above `path` where they
 * are missing. `files` is borrowed until the folder is committed or discarded. Until it is
 * discarded SIGINT, SIGTERM and SIGHUP wait, as far as this thread is asked: an interrupt leaves
 * no staged folder behind. Of several folders the last one staged is discarded first. */
bool moe__folder_stage(const char *path, const moe__file_t *files, size_t count,
                       moe__folder_t *out_folder);

/* Puts the staged folder into its place by one rename, which takes away the folder that was
 * there. A folder that must stay what it is keeps its place, and its files are renamed one after
 * another: a folder that holds other files too, a mount point, the current folder, one in a
 * folder that may not be written to. Files and folder keep the modes of those that they replace. */
bool moe__folder_commit(moe__folder_t *folder);

/* Removes a staged folder that has not been committed, with the folders that were made above it
 * where they are empty, and frees the struct's strings. After moe__folder_commit too. errno stays
 * as it is. */
void moe__folder_discard(moe__folder_t *folder);

#endif /* MOE_FILES_FILES_H */
