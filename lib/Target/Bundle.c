/* Bundle.c - writes the folder that a launcher loads: manifest.json, kernels.ptx, kernels.cubin.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Target/Target.h"

#include "lib/Builder/Inspect.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char MANIFEST[] = "manifest.json", PTX[] = "kernels.ptx", CUBIN[] = "kernels.cubin",
                  SOURCE[] = "source.mlir";

bool moe__target_stage_bundle(MlirOperation module, const char *directory, moe__bytes_t ptx,
                              moe__bytes_t cubin, moe__bytes_t source, moe__bytes_t manifest,
                              moe__staged_bundle_t *out_bundle) {
  /* The manifest comes last: where the files must be renamed one after another, its hashes do not
   * fit until then. */
  moe__file_t *files = out_bundle->files;
  size_t count = 0;
  files[count++] = (moe__file_t){PTX, ptx.data, ptx.length};
  files[count++] = (moe__file_t){CUBIN, cubin.data, cubin.length};
  if (source.data)
    files[count++] = (moe__file_t){SOURCE, source.data, source.length};
  files[count++] = (moe__file_t){MANIFEST, manifest.data, manifest.length};
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

/* Whether directory/name is gone. */
static bool remove_file(const char *directory, const char *name) {
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  return unlink(path) == 0 || errno == ENOENT || errno == ENOTDIR;
}

moe_status_t moe__target_remove_bundle(MlirOperation module, const char *directory) {
  /* The manifest goes first: without it there is no bundle. */
  const char *const files[] = {MANIFEST, SOURCE, CUBIN, PTX};
  bool ok = true;
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
    ok = ok && remove_file(directory, files[i]);
  if (ok && (rmdir(directory) == 0 || errno == ENOENT))
    return MOE_OK;
  moe__error(module, "cannot remove the bundle '%s': %s", directory, strerror(errno));
  return MOE_IO_ERROR;
}
