/* Memory.h - global memory: the buffers of a launch.
 *
 * Why it exists: a kernel's addresses are addresses of this process. Each is checked against the
 * buffers that the launch named before it is used.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_EMULATOR_MACHINE_MEMORY_H
#define MOE_EMULATOR_MACHINE_MEMORY_H

#include "lib/Emulator/Ptx/Program.h"
#include "moe/emulator.h"

#include <stdatomic.h>

/* What a launch has done with a region. */
typedef struct moe__emu_use_t {
  atomic_bool is_written;
  atomic_bool is_accessed;  /* but by atomics */
  atomic_bool is_updated;   /* by atomics */
  atomic_bool is_bulk_read; /* when nobody had written it: those reads have not been looked at */
} moe__emu_use_t;

typedef struct moe__emu_region_t {
  uint64_t address, bytes;
  bool writable;
  moe_emu_pending_t pending;
  const char *name; /* NULL: none */
  /* Of each byte: the line that reads it by .nc, or writes it, as a tag; NULL: the kernel has no
   * .nc, or the bytes are too many. */
  _Atomic uint32_t *constants;
  /* Of each byte: who wrote and who read it, as tags; NULL: not kept. */
  _Atomic uint32_t *writers, *readers;
  moe__emu_use_t *use; /* NULL: not kept */
} moe__emu_region_t;

/* An access of a CTA to a byte. */
typedef struct moe__emu_mark_t {
  uint64_t cta, address;
  uint32_t instruction; /* number */
  bool is_write;
} moe__emu_mark_t;

typedef struct moe__emu_global_t {
  moe__emu_region_t *regions; /* by address, no overlap */
  uint32_t count;
  bool has_pending; /* a region that a launch before this one uses */
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

/* An access to mark. */
typedef struct moe__emu_marking_t {
  uint64_t cta;
  uint32_t instruction; /* number */
  bool is_write;
} moe__emu_marking_t;

/* Marks bytes as written or read by a CTA. False where another CTA has accessed one of them in
 * this launch, and one of the two writes: *out_other is one such access. Sets *out_is_again where
 * this CTA has. */
bool moe__emu_global_mark(const moe__emu_region_t *region, uint64_t address, uint64_t bytes,
                          const moe__emu_marking_t *marking, bool *out_is_again,
                          moe__emu_mark_t *out_other);

/* Marks bytes as read by .nc, or as written, at a line. False where the other has been done to one
 * of them in this launch, by line *out_other. */
bool moe__emu_global_mark_constant(const moe__emu_region_t *region, uint64_t address,
                                   uint64_t bytes, uint32_t line, bool is_write,
                                   uint32_t *out_other);

#endif /* MOE_EMULATOR_MACHINE_MEMORY_H */
