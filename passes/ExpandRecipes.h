/* ExpandRecipes.h - what the recipes of grouped_mm ask of sizes.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_PASSES_EXPAND_RECIPES_H
#define MOE_PASSES_EXPAND_RECIPES_H

#include "mlir-c/IR.h"

/* What the size that a product of the op's recipe sums over is a multiple of, but in groups of
 * tokens, which have any size. */
int moe__recipe_summed_multiple(MlirOperation op);

#endif /* MOE_PASSES_EXPAND_RECIPES_H */
