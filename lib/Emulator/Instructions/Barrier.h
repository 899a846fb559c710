/* Barrier.h - the named barriers of a CTA.
 *
 * Why it exists: a barrier lets warps go on when enough have arrived, and hands on what the
 * arriving ones knew.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_EMULATOR_INSTRUCTIONS_BARRIER_H
#define MOE_EMULATOR_INSTRUCTIONS_BARRIER_H

#include "lib/Emulator/Machine/State.h"

enum { MOE__EMU_NAMED_BARRIERS = 16 };

struct moe__emu_named_barrier_t {
  uint32_t expected;                   /* threads, of the phase that has begun; 0: none has */
  uint32_t arrived;                    /* threads */
  uint32_t warps;                      /* that have arrived */
  uint32_t generation;                 /* phases completed */
  uint32_t line;                       /* of the instruction that began the phase */
  moe__emu_view_t gathered, completed; /* of the phase that gathers; of the last completed */
};

/* A CTA's named barriers: false when there is no memory. */
bool moe__emu_barriers_create(moe__emu_cta_t *cta);
void moe__emu_barriers_free(moe__emu_cta_t *cta);
void moe__emu_barriers_reset(moe__emu_cta_t *cta);

/* The CTA ends: no barrier may be half complete. False after a fault. */
bool moe__emu_barriers_end(moe__emu_cta_t *cta);

#endif /* MOE_EMULATOR_INSTRUCTIONS_BARRIER_H */
