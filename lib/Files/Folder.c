/* Folder.c - writes a folder whole or not at all.
 *
 * Why not file by file: the files of a bundle belong together. A kill or a full disk between two of
 * them would leave neither the old bundle nor the new one.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Files/Files.h"
#include "lib/Files/Temporary.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Joins folder and name; false where that is too long. */
static bool join(const char *folder, const char *name, char out[PATH_MAX]) {
  if (snprintf(out, PATH_MAX, "%s/%s", folder, name) < PATH_MAX)
    return true;
  errno = ENAMETOOLONG;
  return false;
}

/* The length of the folder above a path without trailing slashes; 0: the current one. */
static size_t parent_length(const char *path) {
  const char *slash = strrchr(path, '/');
  while (slash && slash > path && slash[-1] == '/')
    slash--;
  return slash == path ? 1 : slash ? (size_t)(slash - path) : 0;
}

/* Makes the folders above the folder, and notes the first one that was missing. */
static bool make_parents(moe__folder_t *folder) {
  char part[PATH_MAX];
  snprintf(part, sizeof part, "%s", folder->path);
  for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    bool made = !mkdir(part, 0777);
    if (!made && errno != EEXIST)
      return false;
    if (made && !folder->made)
      folder->made = strlen(part);
    *slash = '/';
  }
  return true;
}

/* Removes those that are empty: all, where the folder did not come into its place. */
static void remove_parents(const moe__folder_t *folder) {
  char part[PATH_MAX];
  snprintf(part, sizeof part, "%s", folder->path);
  for (size_t length = parent_length(part); length >= folder->made; length = parent_length(part)) {
    part[length] = '\0';
    if (rmdir(part))
      return;
  }
}

static void remove_staged(const moe__folder_t *folder) {
  char path[PATH_MAX];
  for (size_t i = 0; i < folder->count; i++)
    if (join(folder->staged, folder->files[i].name, path))
      unlink(path);
  rmdir(folder->staged);
}

static bool write_staged(const moe__folder_t *folder) {
  char path[PATH_MAX], model[PATH_MAX];
  for (size_t i = 0; i < folder->count; i++) {
    const moe__file_t *content = &folder->files[i];
    if (!content->data)
      continue;
    if (!join(folder->staged, content->name, path) || !join(folder->path, content->name, model))
      return false;
    int file = moe__file_create(path, model);
    if (file < 0)
      return false;
    bool ok = moe__file_write_bytes(file, content->data, content->length);
    int error = errno;
    if (close(file) && ok)
      return false;
    errno = error;
    if (!ok)
      return false;
  }
  return true;
}

/* Makes the folder folder->staged, in `place` of `length` bytes, and the files in it. */
static bool stage_in(moe__folder_t *folder, const char *place, size_t length) {
  char path[PATH_MAX];
  int made = -1;
  do {
    if (!moe__file_temporary_name(place, length, path, sizeof path))
      return false;
    made = mkdir(path, 0777);
  } while (made && errno == EEXIST);
  if (made)
    return false;
  folder->staged = strdup(path);
  if (!folder->staged) {
    rmdir(path);
    return false;
  }
  return write_staged(folder);
}

/* Whether the folder holds nothing but regular files of ours. */
static bool is_ours(const moe__folder_t *folder) {
  DIR *list = opendir(folder->path);
  bool ours = list != NULL;
  for (struct dirent *entry; ours && (entry = readdir(list));) {
    if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
      continue;
    bool known = false;
    for (size_t i = 0; i < folder->count; i++)
      known |= !strcmp(entry->d_name, folder->files[i].name);
    struct stat status;
    char path[PATH_MAX];
    ours = known && join(folder->path, entry->d_name, path) && !lstat(path, &status) &&
           S_ISREG(status.st_mode);
  }
  if (list)
    closedir(list);
  return ours;
}

/* Whether a folder that is there can make room for another one. */
static bool can_be_replaced(const moe__folder_t *folder) {
  char parent[PATH_MAX];
  size_t length = parent_length(folder->path);
  snprintf(parent, sizeof parent, "%.*s", length ? (int)length : 1, length ? folder->path : ".");
  struct stat own, above;
  return is_ours(folder) && !moe__file_is_same(folder->path, ".") && !access(parent, W_OK | X_OK) &&
         !stat(folder->path, &own) && !stat(parent, &above) && own.st_dev == above.st_dev;
}

/* Whether the folder may be written to, and nothing stands where its files go. */
static bool has_room(const moe__folder_t *folder) {
  struct stat status;
  char path[PATH_MAX];
  if (stat(folder->path, &status))
    return false;
  if (!S_ISDIR(status.st_mode)) {
    errno = ENOTDIR;
    return false;
  }
  if (access(folder->path, W_OK | X_OK))
    return false;
  for (size_t i = 0; i < folder->count; i++) {
    if (!join(folder->path, folder->files[i].name, path))
      return false;
    if (!stat(path, &status) && S_ISDIR(status.st_mode)) {
      errno = EISDIR;
      return false;
    }
  }
  return true;
}

/* The path without links and trailing slashes, owned by the caller; NULL with errno. */
static char *resolve(const char *path, bool *out_exists) {
  char *resolved = realpath(path, NULL);
  *out_exists = resolved != NULL;
  if (resolved || errno != ENOENT)
    return resolved;
  size_t length = strlen(path);
  if (!length || length >= PATH_MAX) {
    errno = length ? ENAMETOOLONG : ENOENT;
    return NULL;
  }
  while (length > 1 && path[length - 1] == '/')
    length--;
  resolved = strndup(path, length);
  struct stat status;
  if (resolved && !lstat(resolved, &status)) { /* a link to nothing */
    free(resolved);
    errno = ENOENT;
    return NULL;
  }
  return resolved;
}

bool moe__folder_stage(const char *path, const moe__file_t *files, size_t count,
                       moe__folder_t *out_folder) {
  bool exists;
  *out_folder = (moe__folder_t){.files = files, .count = count};
  out_folder->holds_signals = moe__file_hold_signals(&out_folder->signals);
  out_folder->path = resolve(path, &exists);
  bool ok = out_folder->path && (exists ? has_room(out_folder) : make_parents(out_folder));
  if (ok && exists && !can_be_replaced(out_folder))
    ok = stage_in(out_folder, out_folder->path, strlen(out_folder->path));
  else if (ok)
    ok = stage_in(out_folder, out_folder->path, parent_length(out_folder->path));
  if (!ok)
    moe__folder_discard(out_folder);
  return ok;
}

/* Renames the files one after another: all of them are complete. */
static bool move_files(moe__folder_t *folder) {
  char from[PATH_MAX], to[PATH_MAX];
  for (size_t i = 0; i < folder->count; i++) {
    const moe__file_t *file = &folder->files[i];
    if (!join(folder->path, file->name, to) ||
        (file->data && !join(folder->staged, file->name, from)))
      return false;
    if (file->data ? rename(from, to) != 0 : unlink(to) != 0 && errno != ENOENT)
      return false;
  }
  return true;
}

static bool is_inside(const moe__folder_t *folder) {
  size_t length = strlen(folder->path);
  return !strncmp(folder->staged, folder->path, length) && folder->staged[length] == '/';
}

bool moe__folder_commit(moe__folder_t *folder) {
  struct stat status;
  bool exists = !stat(folder->path, &status), ok = false;
  if (!exists) {
    ok = !rename(folder->staged, folder->path);
    if (ok) {
      free(folder->staged);
      folder->staged = NULL;
    }
    return ok;
  }
  if (!is_inside(folder)) {
    /* What was there is then under the staged name, from where moe__folder_discard removes it. */
    ok = !chmod(folder->staged, status.st_mode & 07777) &&
         !renameat2(AT_FDCWD, folder->staged, AT_FDCWD, folder->path, RENAME_EXCHANGE);
    if (ok)
      return true;
    /* A mount of the same file system, or a file system that cannot exchange. */
    remove_staged(folder);
    free(folder->staged);
    folder->staged = NULL;
    if (!stage_in(folder, folder->path, strlen(folder->path)))
      return false;
  }
  return move_files(folder);
}

void moe__folder_discard(moe__folder_t *folder) {
  int error = errno;
  if (folder->staged)
    remove_staged(folder);
  if (folder->made)
    remove_parents(folder);
  free(folder->staged);
  free(folder->path);
  if (folder->holds_signals)
    pthread_sigmask(SIG_SETMASK, &folder->signals, NULL);
  *folder = (moe__folder_t){0};
  errno = error;
}
