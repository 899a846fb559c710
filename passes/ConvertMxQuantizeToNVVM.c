/* ConvertMxQuantizeToNVVM.c - writes the kernels of the mx_quantize dialect; each has a file in
 * mx_quantize/.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/Kernels.h"
#include "passes/Passes.h"

bool moe__pass_convert_mx_quantize_to_nvvm(MlirOperation module, const moe__pass_t *pass) {
  return moe__pass_verify(module, pass) && /* the rest relies on it */
         moe__lower_kernels(module, "mx_quantize");
}
