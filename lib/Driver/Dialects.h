/* Dialects.h - the dialects of the project as text, embedded at build time from dialects/.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_DRIVER_DIALECTS_H
#define MOE_DRIVER_DIALECTS_H

#include "moe/compiler.h"

extern const moe_dialect_info_t moe__dialects[];
extern const size_t moe__num_dialects;

#endif /* MOE_DRIVER_DIALECTS_H */
