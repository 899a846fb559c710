/* Address.h - where an address leads.
 *
 * Why it exists: loads, stores and atomics resolve and check addresses alike.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_EMULATOR_MACHINE_ADDRESS_H
#define MOE_EMULATOR_MACHINE_ADDRESS_H

#include "lib/Emulator/Checks/Global.h"
#include "lib/Emulator/Checks/Shadow.h"
#include "lib/Emulator/Machine/State.h"

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
  uint32_t alignment;       /* of the address */
  moe__emu_scope_t scope;   /* of an access to global memory; weak unless set */
  bool is_ordered;          /* it acquires or releases */
  bool is_constant;         /* ld.global.nc: nothing writes the bytes while the kernel runs */
  uint32_t operation;       /* of an atomic: Global.h */
  const uint8_t *value;     /* of a store: the bytes that the lane stores */
  moe__emu_access_t access; /* to shared memory; its kind holds for global memory too */
  /* Of the lane resolved last. */
  bool is_contested; /* its bytes may be those of another thread: moe__emu_races_read and others
                          * give and take the values */
  uint32_t missing;  /* bytes of shared memory that nobody has written, bit by bit */
} moe__emu_reach_t;

moe__emu_reach_t moe__emu_reach(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                                moe__emu_space_t space, uint32_t bytes, moe__emu_access_kind_t kind,
                                uint32_t active);

/* Who touches global memory: a lane of the warp, by this instruction. */
moe__emu_toucher_t moe__emu_toucher(const moe__emu_warp_t *warp,
                                    const moe__emu_instruction_t *instruction, int lane,
                                    moe__emu_scope_t scope);

/* Checks an access to bytes of a region against those of other threads. False after a fault. */
bool moe__emu_touch_global(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                           const moe__emu_toucher_t *toucher, const moe__emu_region_t *region,
                           moe__emu_global_kind_t kind, uint64_t address, uint64_t bytes);

/* Checks that the lane knows the launches before this one to be done where they use the region.
 * False after a fault. */
bool moe__emu_may_touch(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction, int lane,
                        const moe__emu_region_t *region);

/* The memory of this process that an address stands for, checked; NULL after a fault. `lanes` are a
 * lane, or several that read the same bytes. */
uint8_t *moe__emu_resolve(moe__emu_reach_t *reach, uint32_t lanes, uint64_t address);

/* The address in the CTA's shared memory that an instruction's address is, without the rank and
 * checked: `bytes` from there, aligned. False after a fault. */
bool moe__emu_shared_offset(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction,
                            int lane, uint64_t address, uint32_t bytes, uint32_t alignment,
                            uint32_t *out_address);

/* The same of an address that may be another CTA's memory: that CTA, which may be reached, and the
 * address there. NULL after a fault. */
moe__emu_cta_t *moe__emu_shared_find(moe__emu_warp_t *warp,
                                     const moe__emu_instruction_t *instruction, int lane,
                                     uint64_t address, uint32_t bytes, uint32_t alignment,
                                     uint32_t *out_address);

/* The address in the cluster of an address in the shared memory of the CTA of a rank. */
static inline uint32_t moe__emu_cluster_address(uint32_t rank, uint32_t address) {
  return (rank << MOE__EMU_RANK_SHIFT) + address;
}

/* The address of a CTA's shared memory in the cluster's order. */
static inline uint32_t moe__emu_order_address(const moe__emu_cta_t *cta, uint32_t address) {
  return cta->rank * cta->shared_bytes + address;
}

#endif /* MOE_EMULATOR_MACHINE_ADDRESS_H */
