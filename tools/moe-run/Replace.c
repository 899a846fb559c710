/* Replace.c - writes a file whole or not at all.
 *
 * Why it exists: see Replace.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "tools/moe-run/Replace.h"

#include "tools/moe-run/Report.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WRITE_CHUNK = 16 << 20 };

/* The unfinished file, for the signal handler, which is set only while there is one. */
static char temporary[PATH_MAX];
static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
enum { SIGNAL_COUNT = sizeof signals / sizeof *signals };

static void remove_and_die(int signal_number) {
  unlink(temporary);
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

int moe__write_bytes(int fd, const void *from, size_t bytes) {
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

/* Calls `write` and closes fd. Returns 0, or -1 with errno. */
static int write_and_close(int fd, moe__write_t write, const void *user) {
  int failed = write(fd, user);
  int error = errno;
  if (close(fd) && !failed)
    return -1;
  errno = error;
  return failed;
}

/* Writes beside `target`, then renames. Returns 0, or -1 with errno. */
static int replace_file(const char *target, moe__write_t write, const void *user) {
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
  int failed = fd < 0 ? -1 : write_and_close(fd, write, user);
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

int moe__replace(const char *path, moe__write_t write, const void *user) {
  struct stat status;
  int failed;
  if (!stat(path, &status) && !S_ISREG(status.st_mode)) {
    /* A device or a pipe cannot be replaced, only written to. */
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    failed = fd < 0 ? -1 : write_and_close(fd, write, user);
  } else {
    char *resolved = realpath(path, NULL);
    failed = replace_file(resolved ? resolved : path, write, user);
    int error = errno;
    free(resolved);
    errno = error;
  }
  return failed ? moe__input_error("%s: cannot write: %s", path, strerror(errno)) : MOE__OK;
}
