/* Contents.h - says what is in a bundle.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_RUN_CONTENTS_H
#define MOE_RUN_CONTENTS_H

#include "tools/moe-run/Options.h"

/* Prints the functions of the bundle, or the one asked for, with arguments, results and
 * launches, and the kernels with what they take of a multiprocessor; as JSON where that is asked
 * for. Needs no device. */
int moe__run_contents(const moe__run_options_t *options);

#endif /* MOE_RUN_CONTENTS_H */
