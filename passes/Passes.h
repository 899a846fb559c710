/* Passes.h - what a pass of moe-opt is.
 *
 * A pass is one function, declared here from Passes.def, in a file of its own; only the passes that
 * lower ops to kernels share one. lib/Driver wraps it for MLIR's pass manager, parses its options,
 * verifies the module after it, and turns its failures into statuses.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_PASSES_PASSES_H
#define MOE_PASSES_PASSES_H

#include "lib/Pass/Pass.h"

#define MOE_PASS(symbol, argument, summary)                                                        \
  bool moe__pass_##symbol(MlirOperation module, const moe__pass_t *pass);
#define MOE_PASS_OPTION(symbol, name, default_value, description)
#include "passes/Passes.def"
#undef MOE_PASS
#undef MOE_PASS_OPTION

#endif /* MOE_PASSES_PASSES_H */
