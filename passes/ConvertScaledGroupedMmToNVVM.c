/* ConvertScaledGroupedMmToNVVM.c - writes the kernels of the scaled_grouped_mm dialect; they are in
 * scaled_grouped_mm/.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/Kernels.h"
#include "passes/Passes.h"

bool moe__pass_convert_scaled_grouped_mm_to_nvvm(MlirOperation module, const moe__pass_t *pass) {
  return moe__pass_verify(module, pass) && /* the rest relies on it */
         moe__lower_kernels(module, "scaled_grouped_mm");
}
