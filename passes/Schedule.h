/* Schedule.h - the schedule of an op: every constant of its kernel that is a choice and not a
 * consequence.
 *
 * moe-select-schedule writes it as the attribute `schedule`, a conversion reads it. Whoever wants
 * another one writes it into the source: the pass leaves it alone.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_PASSES_SCHEDULE_H
#define MOE_PASSES_SCHEDULE_H

#include "mlir-c/IR.h"

#include <stdbool.h>

/* Quantization along N of (E,N,K), with a transposed store. Shared memory per block:
 * stages * tile_n * tile_k * sizeof(x) + output_stages * tile_n * tile_k bytes.
 * X(field, attribute, least, most). */
#define MOE__QUANTIZE_SCHEDULE(X)                                                                  \
  X(tile_n, "tile_n", 128, 256)           /* rows of a tile, a multiple of 128 */                  \
  X(tile_k, "tile_k", 32, 256)            /* columns of a tile, a multiple of 128 bytes of x */    \
  X(stages, "stages", 1, 8)               /* tiles in flight into shared memory */                 \
  X(output_stages, "output_stages", 1, 2) /* tiles in flight out of it */                          \
  X(warps, "warps", 1, 16)                /* that quantize; one more loads */                      \
  X(blocks_per_sm, "blocks_per_sm", 1, 4)                                                          \
  X(band, "band", 1, 4096) /* tile rows per band of the tile order */

typedef struct moe__quantize_schedule_t {
#define MOE__FIELD(field, attribute, least, most) int field;
  MOE__QUANTIZE_SCHEDULE(MOE__FIELD)
#undef MOE__FIELD
} moe__quantize_schedule_t;

/* Whether there is a kernel for this quantize op, which moe-verify has passed. There is one so far;
 * for what it does not cover an error is emitted that says the way out. */
bool moe__quantize_has_kernel(MlirOperation op);

/* Reads and checks the attribute `schedule` of a quantize op of element_bytes-wide x; emits an
 * error where it is wrong. */
bool moe__quantize_schedule_read(MlirOperation op, int element_bytes,
                                 moe__quantize_schedule_t *out);

/* Writes the attribute. */
void moe__quantize_schedule_write(MlirOperation op, const moe__quantize_schedule_t *schedule);

#endif /* MOE_PASSES_SCHEDULE_H */
