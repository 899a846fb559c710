/* Random.c - see Random.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Emulator/Machine/Random.h"

uint32_t moe__emu_random(moe__emu_cta_t *cta, uint32_t limit) {
  moe__emu_cluster_t *cluster = cta->cluster;
  if (cluster->machine->options.schedule == 0 || limit < 2)
    return 0;
  /* splitmix64 */
  uint64_t z = cluster->random += UINT64_C(0x9E3779B97F4A7C15);
  z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
  return (uint32_t)((z ^ z >> 31) >> 32) % limit;
}
