/* Layout.c - see Layout.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Device/Layout.h"

#include "lib/Builder/Inspect.h"

/* sm_90 has 228 KB of shared memory per multiprocessor. It reserves 1 KB of them for each CTA. */
#define SHARED_PER_SM (228 * 1024)
#define SHARED_RESERVED 1024
#define THREADS_PER_SM 2048

/* Each quarter of a multiprocessor has registers of its own and runs every fourth warp. A thread
 * gets them in portions of 8. */
#define QUARTERS 4
#define REGISTERS_PER_QUARTER 16384
#define REGISTER_PORTION 8
#define WARP 32

int32_t moe__layout_shared(moe__layout_t *layout, int32_t bytes, int32_t alignment) {
  int32_t offset = (layout->shared_bytes + alignment - 1) / alignment * alignment;
  layout->shared_bytes = offset + bytes;
  return offset;
}

/* What is left to each thread where so many threads share a multiprocessor. */
static int32_t registers_left(int32_t threads) {
  int32_t warps_of_quarter = (threads / WARP + QUARTERS - 1) / QUARTERS;
  return REGISTERS_PER_QUARTER / (WARP * warps_of_quarter) / REGISTER_PORTION * REGISTER_PORTION;
}

bool moe__layout_fits(MlirOperation op, const moe__layout_t *layout) {
  int32_t threads = layout->threads * layout->ctas_per_sm;
  if (layout->ctas_per_sm * (layout->shared_bytes + SHARED_RESERVED) > SHARED_PER_SM)
    return moe__error(op,
                      "'schedule' needs %d bytes of shared memory in each of %d CTAs; a "
                      "multiprocessor has %d, and reserves %d for each CTA",
                      layout->shared_bytes, layout->ctas_per_sm, SHARED_PER_SM, SHARED_RESERVED);
  if (threads > THREADS_PER_SM)
    return moe__error(op, "'schedule' has %d threads in %d CTAs; a multiprocessor has %d", threads,
                      layout->ctas_per_sm, THREADS_PER_SM);
  return registers_left(threads) >= layout->registers ||
         moe__error(op, "'schedule' leaves %d registers to each of %d threads; the kernel needs %d",
                    registers_left(threads), threads, layout->registers);
}
