/* Bundle.c - see Bundle.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Files/Bundle.h"

#include "lib/Files/Files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const moe__bundle_files[MOE__CANDIDATE_FILES] = {MOE_BUNDLE_MANIFEST, MOE__BUNDLE_CUBIN,
                                                             MOE__BUNDLE_PTX, MOE__BUNDLE_SOURCE};

bool moe__candidate_has_file(const char *name) {
  bool has = false;
  for (int i = 0; i < MOE__CANDIDATE_FILES; i++)
    has = has || !strcmp(moe__bundle_files[i], name);
  return has;
}

bool moe__bundle_holds(const char *folder, int count, const char *path) {
  bool holds = false;
  for (int i = 0; i < count && !holds; i++) {
    char *file = NULL;
    if (asprintf(&file, "%s/%s", folder, moe__bundle_files[i]) < 0)
      abort();
    holds = moe__file_is_same(file, path);
    free(file);
  }
  return holds;
}

int moe__candidate_number(const char *name) {
  size_t digits = strspn(name, "0123456789");
  if (!digits || name[digits] || digits > 4 || (digits > 1 && name[0] == '0'))
    return -1;
  return atoi(name);
}
