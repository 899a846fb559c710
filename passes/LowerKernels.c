/* LowerKernels.c - the passes that replace ops by their kernels, one for each dialect.
 *
 * No op is named here. A kernel's definition in lib/Kernels names the ops that it computes.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/Kernels.h"
#include "passes/Passes.h"

static bool lower(MlirOperation module, const moe__pass_t *pass, const char *dialect) {
  return moe__pass_verify(module, pass) && /* the rest relies on it */
         moe__lower_kernels(module, dialect);
}

bool moe__pass_convert_mx_quantize_to_nvvm(MlirOperation module, const moe__pass_t *pass) {
  return lower(module, pass, "mx_quantize");
}

bool moe__pass_convert_scaled_grouped_mm_to_nvvm(MlirOperation module, const moe__pass_t *pass) {
  return lower(module, pass, "scaled_grouped_mm");
}
