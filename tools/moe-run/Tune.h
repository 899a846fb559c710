/* Tune.h - chooses among the candidates that moe-opt --emit=candidates wrote.
 *
 * Why it exists: which schedule is best depends on the shapes, and only a measurement tells.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_RUN_TUNE_H
#define MOE_RUN_TUNE_H

#include "tools/moe-run/Options.h"

/* Checks the candidates in the folder options->bundle on the smallest of the shapes, and times
 * those that are right on all shapes, in turns. The best one has the greatest geometric mean of
 * its fractions of a copy; its source.mlir goes to options->out. MOE__RUN_INPUT also where a
 * candidate is wrong; it is left out. */
int moe__run_tune(const moe__run_options_t *options);

#endif /* MOE_RUN_TUNE_H */
