/* Layout.h - what a kernel takes of a multiprocessor: threads, registers, and the map of its shared
 * memory.
 *
 * Why it exists: a kernel's layout is computed once, from its schedule, before any of its code is
 * built. The check of schedules asks whether it fits; the kernel finds its buffers in it.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_DEVICE_LAYOUT_H
#define MOE_DEVICE_LAYOUT_H

#include "mlir-c/IR.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct moe__layout_t {
  int32_t threads;      /* of a CTA */
  int32_t ctas_per_sm;  /* that are resident at once */
  int32_t registers;    /* of a thread, below which ptxas spills; 0 where that is not known */
  int32_t shared_bytes; /* of a CTA, reserved so far */
} moe__layout_t;

/* Reserves shared memory and gives its offset. alignment: a power of two up to 1024. */
int32_t moe__layout_shared(moe__layout_t *layout, int32_t bytes, int32_t alignment);

/* Registers that are left to each thread where so many threads share a multiprocessor. */
int32_t moe__layout_registers(int32_t threads);

/* Whether a multiprocessor has room for the CTAs; an error at `op` says what its schedule needs and
 * what there is. */
bool moe__layout_fits(MlirOperation op, const moe__layout_t *layout);

#endif /* MOE_DEVICE_LAYOUT_H */
