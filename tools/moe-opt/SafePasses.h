/* SafePasses.h - the passes that a reproducer may run.
 *
 * Why it exists: some passes of MLIR write files or start programs that their options name. A
 * reproducer from elsewhere must do neither.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_OPT_SAFE_PASSES_H
#define MOE_OPT_SAFE_PASSES_H

#include "lib/Driver/Text.h"

#include <stdbool.h>

/* Whether all passes of a pipeline touch nothing but the IR. Where one does not, or nobody knows,
 * *out_name is its name, which the caller frees. A pipeline whose form is wrong is for the
 * compiler to refuse. */
bool safe_passes_are_all(const char *pipeline, moe__text_t *out_name);

#endif /* MOE_OPT_SAFE_PASSES_H */
