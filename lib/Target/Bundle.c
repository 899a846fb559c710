/* Bundle.c - writes the folder that a launcher loads: manifest.json, kernels.ptx, kernels.cubin.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Target/Target.h"

#include "lib/Builder/Inspect.h"
#include "lib/Files/Bundle.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool moe__target_stage_bundle(MlirOperation module, const char *directory, moe__bytes_t ptx,
                              moe__bytes_t cubin, moe__bytes_t source, moe__bytes_t manifest,
                              moe__staged_bundle_t *out_bundle) {
  /* The manifest comes last: where the files must be renamed one after another, its hashes do not
   * fit until then. */
  moe__file_t *files = out_bundle->files;
  size_t count = 0;
  files[count++] = (moe__file_t){MOE__BUNDLE_PTX, ptx.data, ptx.length};
  files[count++] = (moe__file_t){MOE__BUNDLE_CUBIN, cubin.data, cubin.length};
  if (source.data)
    files[count++] = (moe__file_t){MOE__BUNDLE_SOURCE, source.data, source.length};
  files[count++] = (moe__file_t){MOE_BUNDLE_MANIFEST, manifest.data, manifest.length};
  return moe__folder_stage(directory, files, count, &out_bundle->folder) ||
         moe__error(module, "cannot write the bundle '%s': %s", directory, strerror(errno));
}

bool moe__target_commit_bundle(MlirOperation module, const char *directory,
                               moe__staged_bundle_t *bundle) {
  return moe__folder_commit(&bundle->folder) ||
         moe__error(module, "cannot write the bundle '%s': %s", directory, strerror(errno));
}

void moe__target_discard_bundle(moe__staged_bundle_t *bundle) {
  moe__folder_discard(&bundle->folder);
}

/* directory/name; owned by the caller. */
static char *join(const char *directory, const char *name) {
  char *path = NULL;
  if (asprintf(&path, "%s/%s", directory, name) < 0)
    abort();
  return path;
}

static bool is_file_of_candidate(const char *directory, const char *name) {
  char *path = join(directory, name);
  struct stat status;
  bool is_file = !lstat(path, &status) && S_ISREG(status.st_mode);
  free(path);
  return is_file && moe__candidate_has_file(name);
}

static bool has_own_manifest(const char *directory) {
  char *path = join(directory, MOE_BUNDLE_MANIFEST);
  json_t *manifest = json_load_file(path, 0, NULL);
  const char *format = json_string_value(json_object_get(manifest, "format"));
  bool own = format && !strcmp(format, MOE_BUNDLE_FORMAT);
  json_decref(manifest);
  free(path);
  return own;
}

bool moe__target_check_candidate(MlirOperation module, const char *directory) {
  struct stat status;
  DIR *list = lstat(directory, &status) || !S_ISDIR(status.st_mode) ? NULL : opendir(directory);
  bool ok =
      list && has_own_manifest(directory) && is_file_of_candidate(directory, MOE__BUNDLE_SOURCE);
  if (!ok)
    moe__error(module,
               "'%s' has the name of a candidate and is none; remove it, or name another "
               "folder",
               directory);
  for (struct dirent *entry; ok && (entry = readdir(list));)
    if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
        !is_file_of_candidate(directory, entry->d_name))
      ok = moe__error(module,
                      "'%s' is to be removed, but moe-opt has not written '%s' in it; remove it, "
                      "or name another folder",
                      directory, entry->d_name);
  if (list)
    closedir(list);
  return ok;
}

moe_status_t moe__target_remove_candidate(MlirOperation module, const char *directory) {
  bool ok = true; /* the manifest goes first: without it there is no bundle */
  for (int i = 0; ok && i < MOE__CANDIDATE_FILES; i++) {
    char *path = join(directory, moe__bundle_files[i]);
    ok = unlink(path) == 0 || errno == ENOENT;
    free(path);
  }
  if (ok && rmdir(directory) == 0)
    return MOE_OK;
  moe__error(module, "cannot remove the bundle '%s': %s", directory, strerror(errno));
  return MOE_IO_ERROR;
}
