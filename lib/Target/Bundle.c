/* Bundle.c - writes the folder that a launcher loads: manifest.json, kernels.ptx, kernels.cubin.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Target/Target.h"

#include "lib/Builder/Inspect.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* mkdir -p */
static bool create_directory(const char *path) {
  char part[PATH_MAX];
  if (!*path) {
    errno = ENOENT;
    return false;
  }
  if (snprintf(part, sizeof part, "%s", path) >= (int)sizeof part) {
    errno = ENAMETOOLONG;
    return false;
  }
  for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    if (mkdir(part, 0777) && errno != EEXIST)
      return false;
    *slash = '/';
  }
  struct stat status;
  if (mkdir(part, 0777) && errno != EEXIST)
    return false;
  if (stat(part, &status) || !S_ISDIR(status.st_mode)) {
    errno = ENOTDIR;
    return false;
  }
  return true;
}

/* Creates a file of a name that is free, in place of the trailing XXXXXX. Not mkstemp: its mode is
 * for secrets, and a library cannot read the umask without changing it for other threads. */
static int create_file(char *path) {
  static atomic_uint next;
  char *number = path + strlen(path) - 6;
  int file = -1;
  do {
    unsigned value = (unsigned)getpid() * 1000 + atomic_fetch_add(&next, 1);
    snprintf(number, 7, "%06u", value % 1000000);
    file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (file < 0 && errno == EEXIST);
  return file;
}

/* Writes directory/name through a temporary file beside it. */
static bool write_file(const char *directory, const char *name, moe__bytes_t bytes) {
  char temporary[PATH_MAX], final[PATH_MAX];
  if (snprintf(final, sizeof final, "%s/%s", directory, name) >= (int)sizeof final ||
      snprintf(temporary, sizeof temporary, "%s/.%s.XXXXXX", directory, name) >=
          (int)sizeof temporary) {
    errno = ENAMETOOLONG;
    return false;
  }
  int descriptor = create_file(temporary);
  if (descriptor < 0)
    return false;
  FILE *file = fdopen(descriptor, "wb");
  bool ok = file && fwrite(bytes.data, 1, bytes.length, file) == bytes.length;
  if (file)
    ok = fclose(file) == 0 && ok;
  else
    close(descriptor);
  ok = ok && rename(temporary, final) == 0;
  if (!ok) {
    int error = errno;
    unlink(temporary);
    errno = error;
  }
  return ok;
}

moe_status_t moe__target_write_bundle(MlirOperation module, const char *directory, moe__bytes_t ptx,
                                      moe__bytes_t cubin, moe__bytes_t source,
                                      moe__bytes_t manifest) {
  if (!create_directory(directory)) {
    moe__error(module, "cannot create the folder '%s': %s", directory, strerror(errno));
    return MOE_IO_ERROR;
  }
  /* The manifest comes last: until then the hashes of the old one do not fit the new files. */
  bool ok = write_file(directory, "kernels.ptx", ptx);
  if (cubin.data) {
    ok = ok && write_file(directory, "kernels.cubin", cubin);
  } else {
    char stale[PATH_MAX];
    snprintf(stale, sizeof stale, "%s/kernels.cubin", directory);
    ok = ok && (unlink(stale) == 0 || errno == ENOENT);
  }
  if (source.data)
    ok = ok && write_file(directory, "source.mlir", source);
  ok = ok && write_file(directory, "manifest.json", manifest);
  if (!ok) {
    moe__error(module, "cannot write the bundle '%s': %s", directory, strerror(errno));
    return MOE_IO_ERROR;
  }
  return MOE_OK;
}

/* Whether directory/name is gone. */
static bool remove_file(const char *directory, const char *name) {
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  return unlink(path) == 0 || errno == ENOENT || errno == ENOTDIR;
}

moe_status_t moe__target_remove_bundle(MlirOperation module, const char *directory) {
  /* The manifest goes first: without it there is no bundle. */
  static const char *const files[] = {"manifest.json", "source.mlir", "kernels.cubin",
                                      "kernels.ptx"};
  bool ok = true;
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
    ok = ok && remove_file(directory, files[i]);
  if (ok && (rmdir(directory) == 0 || errno == ENOENT))
    return MOE_OK;
  moe__error(module, "cannot remove the bundle '%s': %s", directory, strerror(errno));
  return MOE_IO_ERROR;
}
