/* File.c - writes a file whole or not at all; closes stdout.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Files/Files.h"
#include "lib/Files/Temporary.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_LINKS = 40, MODE_BITS = 07777 };

/* The unfinished file, for the signal handler, which is set only while there is one. */
static char unfinished[PATH_MAX];
static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
enum { SIGNAL_COUNT = sizeof signals / sizeof *signals };

static void remove_and_die(int signal_number) {
  unlink(unfinished);
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

bool moe__file_write_bytes(int file, const void *data, size_t length) {
  for (size_t done = 0; done < length;) {
    ssize_t count = write(file, (const char *)data + done, length - done);
    if (count < 0 && errno != EINTR)
      return false;
    done += count > 0 ? (size_t)count : 0;
  }
  return true;
}

bool moe__file_is_same(const char *path, const char *other) {
  struct stat a, b;
  return !stat(path, &a) && !stat(other, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

bool moe__file_temporary_name(const char *folder, size_t length, char *out, size_t size) {
  static atomic_uint next;
  unsigned number = (unsigned)getpid() * 1000 + atomic_fetch_add(&next, 1);
  int written = snprintf(out, size, "%.*s%s.moe-%06u", (int)length, folder, length ? "/" : "",
                         number % 1000000);
  if (written > 0 && (size_t)written < size)
    return true;
  errno = ENAMETOOLONG;
  return false;
}

int moe__file_create(const char *path, const char *model) {
  struct stat status;
  bool replaces = !stat(model, &status);
  /* Nobody else may read it before it has its mode. Without a model the umask decides, which a
   * library cannot ask for without changing it for other threads. */
  int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, replaces ? 0600 : 0666);
  if (file < 0 || !replaces)
    return file;
  bool is_own = status.st_uid == geteuid() && status.st_gid == getegid();
  if (!is_own && fchown(file, status.st_uid, status.st_gid))
    errno = 0; /* only root may; the mode counts all the same */
  if (!fchmod(file, status.st_mode & MODE_BITS))
    return file;
  int error = errno;
  close(file);
  unlink(path);
  errno = error;
  return -1;
}

bool moe__file_hold_signals(sigset_t *out_before) {
  sigset_t held;
  sigemptyset(&held);
  for (int i = 0; i < SIGNAL_COUNT; i++)
    sigaddset(&held, signals[i]);
  return !pthread_sigmask(SIG_BLOCK, &held, out_before);
}

bool moe__file_read_bytes(int file, char **out_data, size_t *out_length) {
  struct stat status;
  *out_data = NULL;
  *out_length = 0;
  if (fstat(file, &status))
    return false;
  size_t length = (size_t)status.st_size;
  if (!length)
    return true;
  char *data = malloc(length);
  if (!data)
    return false;
  for (size_t done = 0; done < length;) {
    ssize_t count = pread(file, data + done, length - done, (off_t)done);
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0) {
      errno = count ? errno : EIO; /* it has become shorter */
      free(data);
      return false;
    }
    done += (size_t)count;
  }
  *out_data = data;
  *out_length = length;
  return true;
}

bool moe__file_read(const char *path, char **out_data, size_t *out_length) {
  *out_data = NULL;
  *out_length = 0;
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return false;
  bool ok = moe__file_read_bytes(file, out_data, out_length);
  int error = errno;
  close(file);
  errno = error;
  return ok;
}

/* Where the bytes go that are written to `path`: behind all symbolic links. */
static bool follow_links(const char *path, char out[PATH_MAX]) {
  if (snprintf(out, PATH_MAX, "%s", path) >= PATH_MAX) {
    errno = ENAMETOOLONG;
    return false;
  }
  for (int i = 0; i < MAX_LINKS; i++) {
    char link[PATH_MAX];
    ssize_t length = readlink(out, link, sizeof link - 1);
    if (length < 0)
      return true; /* no link, or nothing there */
    link[length] = '\0';
    char *slash = strrchr(out, '/');
    size_t folder = link[0] == '/' || !slash ? 0 : (size_t)(slash - out) + 1;
    if (folder + (size_t)length >= PATH_MAX) {
      errno = ENAMETOOLONG;
      return false;
    }
    memcpy(out + folder, link, (size_t)length + 1);
  }
  errno = ELOOP;
  return false;
}

/* Calls `write` and closes the file. */
static bool write_and_close(int file, moe__file_write_t write, const void *user) {
  bool ok = write(file, user);
  int error = errno;
  if (close(file) && ok)
    return false;
  errno = error;
  return ok;
}

/* The length of the folder's name in a path; 0: the current one. */
static size_t folder_length(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash == path ? 1 : slash ? (size_t)(slash - path) : 0;
}

/* temporary: PATH_MAX bytes that get the name of the unfinished file. */
static bool write_and_rename(const char *target, char *temporary, moe__file_write_t write,
                             const void *user) {
  size_t folder = folder_length(target);
  int file = -1;
  do {
    if (!moe__file_temporary_name(target, folder, temporary, PATH_MAX))
      return false;
    file = moe__file_create(temporary, target);
  } while (file < 0 && errno == EEXIST);
  if (file < 0)
    return false;
  bool ok = write_and_close(file, write, user) && !rename(temporary, target);
  if (!ok) {
    int error = errno;
    unlink(temporary);
    errno = error;
  }
  return ok;
}

static bool replace(const char *path, moe__file_write_t write, const void *user) {
  char target[PATH_MAX];
  if (!follow_links(path, target))
    return false;
  unfinished[0] = '\0';
  struct sigaction action = {.sa_handler = remove_and_die}, before[SIGNAL_COUNT];
  for (int i = 0; i < SIGNAL_COUNT; i++) {
    sigaction(signals[i], NULL, &before[i]);
    if (before[i].sa_handler != SIG_IGN)
      sigaction(signals[i], &action, NULL);
  }
  bool ok = write_and_rename(target, unfinished, write, user);
  int error = errno;
  for (int i = 0; i < SIGNAL_COUNT; i++)
    sigaction(signals[i], &before[i], NULL);
  errno = error;
  return ok;
}

/* Whether `path` is written by a rename: a regular file, or one that is not there yet. */
static bool is_renamed(const char *path) {
  struct stat status;
  return stat(path, &status) || S_ISREG(status.st_mode);
}

static bool write_directly(const char *path, moe__file_write_t write, const void *user) {
  int file = open(path, O_WRONLY | O_CLOEXEC);
  return file >= 0 && write_and_close(file, write, user);
}

bool moe__file_replace(const char *path, moe__file_write_t write, const void *user) {
  return is_renamed(path) ? replace(path, write, user) : write_directly(path, write, user);
}

bool moe__file_replace_held(const char *path, moe__file_write_t write, const void *user) {
  char target[PATH_MAX], temporary[PATH_MAX];
  sigset_t before;
  if (!is_renamed(path))
    return write_directly(path, write, user);
  if (!follow_links(path, target))
    return false;
  bool held = moe__file_hold_signals(&before);
  bool ok = write_and_rename(target, temporary, write, user);
  if (held)
    pthread_sigmask(SIG_SETMASK, &before, NULL); /* leaves errno alone */
  return ok;
}

bool moe__file_may_replace(const char *path) {
  struct stat status;
  char target[PATH_MAX];
  if (!is_renamed(path)) {
    bool is_folder = !stat(path, &status) && S_ISDIR(status.st_mode);
    errno = EISDIR;
    return !is_folder && !access(path, W_OK);
  }
  if (!follow_links(path, target))
    return false;
  size_t folder = folder_length(target);
  target[folder] = '\0';
  return !access(folder ? target : ".", W_OK | X_OK);
}

bool moe__file_close_stdout(void) {
  bool has_output = __fpending(stdout) > 0, failed = ferror(stdout);
  errno = 0;
  failed |= fclose(stdout) && (has_output || errno != EBADF);
  if (failed && !errno)
    errno = EIO;
  return !failed;
}
