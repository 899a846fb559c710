/* Record.h - the record of a kernel, as the manifest reads it.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_TARGET_RECORD_H
#define MOE_TARGET_RECORD_H

#include "mlir-c/IR.h"

#include <stdbool.h>

/* Whether the manifest of `launch` can be written from the record of its kernel; emits an error
 * where it cannot. */
bool moe__record_check(MlirOperation launch, MlirAttribute record);

#endif /* MOE_TARGET_RECORD_H */
