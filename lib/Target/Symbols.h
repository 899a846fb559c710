/* Symbols.h - what the shape symbols of a function may be, from what its kernels require.
 *
 * A launcher checks each symbol once, instead of each requirement of each kernel. Two dimensions
 * that must be the same become one symbol; one that must be the quotient of another becomes an
 * expression.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_TARGET_SYMBOLS_H
#define MOE_TARGET_SYMBOLS_H

#include "lib/Target/Plan.h"

/* Applies what the kernels of all launches require to the symbols and the shapes of the plan. Sizes
 * that are constants are compared. Emits an error at the launch and returns false where symbols
 * cannot say what its kernel requires: no requirement is dropped. */
bool moe__symbols_restrict(moe__plan_t *plan);

#endif /* MOE_TARGET_SYMBOLS_H */
