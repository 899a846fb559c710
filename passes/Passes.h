/* Passes.h - what a pass of moe-opt is.
 *
 * A pass is one C file with one function, declared here from Passes.def. lib/Driver wraps it for
 * MLIR's pass manager, parses its options, verifies the module after it, and turns its failures
 * into statuses.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_PASSES_PASSES_H
#define MOE_PASSES_PASSES_H

#include <mlir-c/IR.h>
#include <stdbool.h>

/* One instance of a pass in a pipeline, with the values of its options. */
typedef struct moe__pass_t moe__pass_t;

/* The value of an option: as given, or the default of Passes.def. Never NULL. The name must be one
 * of Passes.def's. */
const char *moe__pass_option(const moe__pass_t *pass, const char *name);

/* Runs the pass over a builtin.module. A pass leaves alone what is already lowered, so that the
 * output of every stage can be fed back in. False: the pass has reported why with mlirEmitError,
 * and the input is at fault. True: the module is valid again; an invalid one is a bug of the pass
 * and is reported as such. */
typedef bool (*moe__pass_run_t)(MlirOperation module, const moe__pass_t *pass);

#define MOE_PASS(symbol, argument, summary)                                                        \
  bool moe__run_##symbol(MlirOperation module, const moe__pass_t *pass);
#define MOE_PASS_OPTION(symbol, name, default_value, description)
#include "passes/Passes.def"
#undef MOE_PASS
#undef MOE_PASS_OPTION

#endif /* MOE_PASSES_PASSES_H */
