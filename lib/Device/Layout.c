/* Layout.c - see Layout.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Device/Layout.h"

#include "lib/Builder/Inspect.h"
#include "moe/limits.h"

#define REGISTER_PORTION 8 /* of a thread */
#define WARP 32

int32_t moe__layout_shared(moe__layout_t *layout, int32_t bytes, int32_t alignment) {
  int32_t offset = (layout->shared_bytes + alignment - 1) / alignment * alignment;
  layout->shared_bytes = offset + bytes;
  return offset;
}

int32_t moe__layout_registers(int32_t threads) {
  int32_t warps_of_quarter = (threads / WARP + MOE_SM_QUARTERS - 1) / MOE_SM_QUARTERS;
  return MOE_SM_REGISTERS / MOE_SM_QUARTERS / (WARP * warps_of_quarter) / REGISTER_PORTION *
         REGISTER_PORTION;
}

bool moe__layout_fits(MlirOperation op, const moe__layout_t *layout) {
  int32_t threads = layout->threads * layout->ctas_per_sm;
  if (layout->ctas_per_sm * (layout->shared_bytes + MOE_SM_SHARED_RESERVED) > MOE_SM_SHARED_MEMORY)
    return moe__error(op,
                      "'schedule' needs %d bytes of shared memory in each of %d CTAs; a "
                      "multiprocessor has %d, and reserves %d for each CTA",
                      layout->shared_bytes, layout->ctas_per_sm, MOE_SM_SHARED_MEMORY,
                      MOE_SM_SHARED_RESERVED);
  if (threads > MOE_SM_THREADS)
    return moe__error(op, "'schedule' has %d threads in %d CTAs; a multiprocessor has %d", threads,
                      layout->ctas_per_sm, MOE_SM_THREADS);
  return moe__layout_registers(threads) >= layout->registers ||
         moe__error(op, "'schedule' leaves %d registers to each of %d threads; the kernel needs %d",
                    moe__layout_registers(threads), threads, layout->registers);
}
