/* Memory.h - global memory: the buffers of a launch.
 *
 * Why it exists: a kernel's addresses are addresses of this process. Each is checked against the
 * buffers that the launch named before it is used.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_EMULATOR_MEMORY_H
#define MOE_EMULATOR_MEMORY_H

#include "lib/Emulator/Program.h"
#include "moe/emulator.h"

#include <stdatomic.h>

typedef struct moe__emu_region_t {
  uint64_t address, bytes;
  bool writable, pending;
  const char *name;          /* NULL: none */
  _Atomic uint16_t *writers; /* of each byte: the block that wrote it, as a tag; NULL: not kept */
} moe__emu_region_t;

typedef struct moe__emu_global_t {
  moe__emu_region_t *regions; /* by address, no overlap */
  uint32_t count;
} moe__emu_global_t;

/* The region that an address was in last. */
typedef struct moe__emu_global_cache_t {
  const moe__emu_region_t *region;
} moe__emu_global_cache_t;

/* The launch's buffers and the module's variables. */
moe_emu_status_t moe__emu_global_create(moe__emu_global_t *global, const moe__emu_module_t *module,
                                        const moe_emu_launch_t *launch, moe__emu_error_t *error);
void moe__emu_global_free(moe__emu_global_t *global);

/* The region that holds all bytes, NULL where none does. */
const moe__emu_region_t *moe__emu_global_find(const moe__emu_global_t *global,
                                              moe__emu_global_cache_t *cache, uint64_t address,
                                              uint64_t bytes);

/* Says why no region holds the bytes. */
void moe__emu_global_explain(const moe__emu_global_t *global, uint64_t address, uint64_t bytes,
                             moe__emu_error_t *error);

/* Marks bytes as written by a block; false where another block has written one of them in this
 * launch. */
bool moe__emu_global_mark(const moe__emu_region_t *region, uint64_t address, uint64_t bytes,
                          uint64_t block);

#endif /* MOE_EMULATOR_MEMORY_H */
