/* Output.c - the output of moe-opt, written whole or not at all.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "tools/moe-opt/Output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool write_all(int file, const moe__text_t *text) {
  size_t done = 0;
  while (done < text->length) {
    ssize_t length = write(file, text->data + done, text->length - done);
    if (length < 0 && errno != EINTR)
      return false;
    done += length > 0 ? (size_t)length : 0;
  }
  return true;
}

/* Writes into what is there already and is no regular file: a pipe, /dev/null. */
static bool write_through(const char *path, const moe__text_t *text) {
  int file = open(path, O_WRONLY | O_CLOEXEC);
  if (file < 0)
    return false;
  bool ok = write_all(file, text);
  return close(file) == 0 && ok;
}

/* Writes a file beside the path and gives it the name at the end. */
static bool write_and_rename(const char *path, const moe__text_t *text) {
  moe__text_t name = {0};
  moe__text_printf(&name, "%s.XXXXXX", path);
  int file = mkostemp(name.data, O_CLOEXEC);
  bool ok = file >= 0;
  if (ok) {
    mode_t mask = umask(0);
    umask(mask);
    ok = fchmod(file, 0666 & ~mask) == 0 && write_all(file, text);
    ok = close(file) == 0 && ok;
    ok = ok && rename(name.data, path) == 0;
    int error = errno;
    if (!ok)
      unlink(name.data);
    errno = error;
  }
  moe__text_free(&name);
  return ok;
}

static bool write_file(const char *path, const moe__text_t *text) {
  struct stat status;
  if (stat(path, &status) != 0)
    return write_and_rename(path, text);
  if (!S_ISREG(status.st_mode))
    return write_through(path, text);
  char resolved[PATH_MAX]; /* so that a symbolic link stays one */
  return realpath(path, resolved) && write_and_rename(resolved, text);
}

bool output_write(const char *path, const moe__text_t *text) {
  bool to_stdout = !path || !strcmp(path, "-");
  bool ok = to_stdout ? write_all(STDOUT_FILENO, text) : write_file(path, text);
  if (!ok)
    fprintf(stderr, "moe-opt: error: cannot write '%s': %s\n", to_stdout ? "<stdout>" : path,
            strerror(errno));
  return ok;
}
