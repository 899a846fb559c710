/* Matrix.h - wgmma: products that four warps start together.
 *
 * Why it exists: the registers of a product belong to it from wgmma.mma_async to the
 * wgmma.wait_group that covers it; this is the record of who started what.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_EMULATOR_INSTRUCTIONS_MATRIX_H
#define MOE_EMULATOR_INSTRUCTIONS_MATRIX_H

#include "lib/Emulator/Machine/State.h"

enum { MOE__EMU_MAX_PRODUCTS = 64 }; /* of a warpgroup, not yet done */

struct moe__emu_matrix_warp_t {
  uint32_t started;   /* products */
  uint32_t committed; /* of them in a group */
  uint32_t groups;    /* committed */
  uint32_t *ends;     /* products committed with each group; index: group number */
  uint32_t capacity;
  uint32_t waited; /* products known to be done */
  uint32_t common; /* instructions of the whole warpgroup that it has executed */
  bool has_left;
};

/* A product that some warps of the warpgroup have started. */
typedef struct moe__emu_product_t {
  const moe__emu_instruction_t *instruction;
  uint32_t warps; /* mask of the four */
  uint64_t a, b;  /* descriptors */
  bool accumulate;
} moe__emu_product_t;

typedef struct moe__emu_warpgroup_t {
  moe__emu_product_t products[MOE__EMU_MAX_PRODUCTS]; /* a ring */
  uint32_t started;                                   /* by the warp that is furthest */
  uint32_t done;
  int agent; /* -1: none yet */
  /* Instructions that all its warps must execute, those of the warp that is furthest: a ring. */
  const moe__emu_instruction_t **common;
  uint32_t common_count, common_capacity;
} moe__emu_warpgroup_t;

struct moe__emu_matrix_t {
  moe__emu_warpgroup_t *groups;
  uint32_t count;
  moe__emu_matrix_warp_t *warps; /* of the CTA */
  float *a, *b, *d;              /* room for one product */
  uint32_t *rows;                /* the kernel's rows of registers that products use */
  uint32_t row_count;
};

/* A CTA's record, and its warps': false when there is no memory. */
bool moe__emu_matrix_create(moe__emu_cta_t *cta);
void moe__emu_matrix_free(moe__emu_cta_t *cta);
void moe__emu_matrix_reset(moe__emu_cta_t *cta);

/* Notes that a warp executes an instruction that all warps of its warpgroup must. False after a
 * fault: another warp has executed another one in its place. */
bool moe__emu_warpgroup_execute(moe__emu_warp_t *warp, const moe__emu_instruction_t *instruction);

/* A warp's products must be waited for before it exits, and it must have executed what the others
 * of its warpgroup have. */
moe__emu_step_t moe__emu_matrix_exit(moe__emu_warp_t *warp,
                                     const moe__emu_instruction_t *instruction);

#endif /* MOE_EMULATOR_INSTRUCTIONS_MATRIX_H */
