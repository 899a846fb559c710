/* GlobalParts.h - what the parts of Global.h share: Global.c, which finds races, Values.c, which
 * chooses what a read returns, and Toucher.c, which says what a thread knows.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_EMULATOR_CHECKS_GLOBAL_PARTS_H
#define MOE_EMULATOR_CHECKS_GLOBAL_PARTS_H

#include "lib/Emulator/Checks/Global.h"

/* ---- Global.c ---- */

enum { MOE__EMU_RACE_WORD = 4 }; /* bytes */

/* Where the newest write to the word that has the byte is noted, NULL where there is no memory. */
typedef struct moe__emu_written_t moe__emu_written_t;
moe__emu_written_t **moe__emu_races_word(moe__emu_races_t *races, uint64_t address);

/* ---- Toucher.c ---- */

/* The bit of the thread's lane; the event of what it does; its party. */
static inline uint32_t moe__emu_toucher_lane(const moe__emu_toucher_t *toucher) {
  return 1U << toucher->lane;
}

static inline moe__emu_event_t moe__emu_toucher_event(const moe__emu_toucher_t *toucher) {
  const moe__emu_order_t *order = toucher->order;
  if (toucher->as)
    return toucher->as;
  return MOE__EMU_EVENT_OF(order->cluster, toucher->warp, toucher->lane,
                           order->warps[toucher->warp].clock);
}

static inline moe__emu_party_t *moe__emu_toucher_party(const moe__emu_toucher_t *toucher) {
  return moe__emu_order_party(toucher->order, toucher->warp, toucher->lane);
}

/* Whether the thread knows that lanes' work is done, or an event. */
bool moe__emu_toucher_knows(const moe__emu_toucher_t *toucher, const moe__emu_party_t *party,
                            const moe__emu_reader_t *other);
bool moe__emu_toucher_knows_event(const moe__emu_toucher_t *toucher, const moe__emu_party_t *party,
                                  moe__emu_event_t event);

/* Whether the async proxy sees what lanes of a warp wrote, or one of them: a fence.proxy.async has
 * come since. */
bool moe__emu_toucher_is_handed(const moe__emu_toucher_t *toucher, const moe__emu_party_t *party,
                                moe__emu_event_t event, uint32_t lanes);

/* The least scope that has both the thread and another one. */
moe__emu_scope_t moe__emu_toucher_scope(const moe__emu_toucher_t *toucher, uint32_t cluster,
                                        uint32_t rank);

/* Whether both are strong, and the scope of each has the other's thread. */
bool moe__emu_toucher_is_strong(const moe__emu_toucher_t *toucher, moe__emu_event_t event,
                                moe__emu_scope_t scope);

#endif /* MOE_EMULATOR_CHECKS_GLOBAL_PARTS_H */
