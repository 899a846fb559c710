/* LoadStore.h - where an address leads.
 *
 * Why it exists: loads, stores and atomics resolve and check addresses alike.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_EMULATOR_LOAD_STORE_H
#define MOE_EMULATOR_LOAD_STORE_H

#include "lib/Emulator/Machine.h"

typedef enum moe__emu_space_t {
  MOE__EMU_GENERIC,
  MOE__EMU_GLOBAL,
  MOE__EMU_CONST,
  MOE__EMU_PARAM,
  MOE__EMU_SHARED,
  MOE__EMU_SHARED_CTA,
  MOE__EMU_SHARED_CLUSTER,
} moe__emu_space_t;

/* The words of the space's group, in the order of the enumeration. */
#define MOE__EMU_SPACES "[.global|.const|.param|.shared|.shared::cta|.shared::cluster]"

/* An access while its lanes are resolved. */
typedef struct moe__emu_reach_t {
  moe__emu_warp_t *warp;
  const moe__emu_instruction_t *instruction;
  moe__emu_space_t space;
  uint32_t bytes;           /* of a lane */
  moe__emu_access_t access; /* to shared memory; its kind holds for global memory too */
} moe__emu_reach_t;

moe__emu_reach_t moe__emu_reach(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                                moe__emu_space_t space, uint32_t bytes, moe__emu_access_kind_t kind,
                                uint32_t active);

/* Checks that the block has waited for the launches before this one where they use the region.
 * False after a fault. */
bool moe__emu_may_touch(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction, int lane,
                        const moe__emu_region_t *region);

/* The memory of this process that a lane's address stands for, checked; NULL after a fault. */
uint8_t *moe__emu_resolve(moe__emu_reach_t *reach, int lane, uint64_t address);

/* The offset in shared memory of an instruction's address, checked: `bytes` from there, aligned.
 * False after a fault. */
bool moe__emu_shared_offset(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                            int lane, uint64_t address, uint32_t bytes, uint32_t alignment,
                            uint32_t *out_address);

#endif /* MOE_EMULATOR_LOAD_STORE_H */
