/* Share.h - an op that is there already takes the place of one that was just made.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_PASSES_SHARE_H
#define MOE_PASSES_SHARE_H

#include "mlir-c/IR.h"

/* An op before `op`, which was just made, that is the same; `op` is destroyed then. Else `op`. */
MlirOperation moe__share(MlirOperation op);

#endif /* MOE_PASSES_SHARE_H */
