/* LowerKernels.c - the passes that replace ops by their kernels, one for each dialect.
 *
 * No op is named here. A kernel's definition in lib/Kernels names the ops that it computes.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Builder/Inspect.h"
#include "lib/Kernels/Kernels.h"
#include "passes/Passes.h"

#include "mlir-c/BuiltinAttributes.h"

#include <stdlib.h>
#include <string.h>

/* MLIR's verifier refuses the kernels' ops in a gpu.module with a target that is another chip. */
static bool check_targets(MlirOperation op) {
  MlirAttribute targets = moe__op_attribute(op, "targets");
  if (!moe__op_is(op, "gpu.module") || mlirAttributeIsNull(targets))
    return true;
  bool ok = true;
  for (intptr_t i = 0; ok && i < mlirArrayAttrGetNumElements(targets); i++) {
    char *target = moe__attribute_text(mlirArrayAttrGetElement(targets, i));
    ok = strstr(target, "\"sm_90a\"") ||
         moe__error(op, "'gpu.module' has the target %s, but the kernels are for sm_90a", target);
    free(target);
  }
  return ok;
}

static bool lower(MlirOperation module, const moe__pass_t *pass, const char *dialect) {
  return moe__pass_verify(module, pass) && /* the rest relies on it */
         moe__walk_block(moe__body(module), check_targets) && moe__lower_kernels(module, dialect);
}

bool moe__pass_convert_mx_quantize_to_nvvm(MlirOperation module, const moe__pass_t *pass) {
  return lower(module, pass, "mx_quantize");
}

bool moe__pass_convert_scaled_grouped_mm_to_nvvm(MlirOperation module, const moe__pass_t *pass) {
  return lower(module, pass, "scaled_grouped_mm");
}
