/* Bundle.h - the names in the folder of a bundle, and in that of candidates.
 *
 * Why it exists: libmoe_compiler writes them, moe-opt must not replace its input by them, and
 * moe-run reads them.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_FILES_BUNDLE_H
#define MOE_FILES_BUNDLE_H

#include "moe/bundle.h"

#include <stdbool.h>

#define MOE__BUNDLE_CUBIN "kernels.cubin"
#define MOE__BUNDLE_PTX "kernels.ptx"
#define MOE__BUNDLE_SOURCE "source.mlir" /* of a candidate */

/* The files of a bundle, the manifest first; and behind them that of a candidate besides. */
enum { MOE__BUNDLE_FILES = 3, MOE__CANDIDATE_FILES };
extern const char *const moe__bundle_files[MOE__CANDIDATE_FILES];

/* Whether a candidate has a file of this name. */
bool moe__candidate_has_file(const char *name);

/* Whether `path` is one of the first `count` of these files in `folder`; it exists. */
bool moe__bundle_holds(const char *folder, int count, const char *path);

/* The number of the candidate whose folder has this name, 0 to 9999; -1: none has. */
int moe__candidate_number(const char *name);

#endif /* MOE_FILES_BUNDLE_H */
