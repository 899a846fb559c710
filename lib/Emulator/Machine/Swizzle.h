/* Swizzle.h - where a swizzled byte of shared memory lies.
 *
 * Why it exists: the TMA writes tiles, and wgmma reads them, with 16-byte chunks permuted inside a
 * row so that a column of a tile touches every memory bank. Both must permute alike, so they share
 * this function.
 *
 * The pattern is one of address bits, not of offsets into a tile: bits 4.. of the address (which
 * chunk) are XORed with bits 7.. (which 128-byte line). A tile whose address is not a multiple of
 * the pattern's period therefore starts in the middle of the pattern.
 *
 *   mode   chunk bits   XORed with   period
 *   32B    4            7            256 bytes
 *   64B    4-5          7-8          512 bytes
 *   128B   4-6          7-9          1024 bytes
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_EMULATOR_MACHINE_SWIZZLE_H
#define MOE_EMULATOR_MACHINE_SWIZZLE_H

#include <stdint.h>

enum { MOE__EMU_CHUNK = 16 }; /* bytes that a swizzle keeps together */

/* In the order, and with the numbers, of tensor maps. Matrix descriptors number them otherwise. */
typedef enum moe__emu_swizzle_t {
  MOE__EMU_SWIZZLE_NONE,
  MOE__EMU_SWIZZLE_32B,
  MOE__EMU_SWIZZLE_64B,
  MOE__EMU_SWIZZLE_128B,
} moe__emu_swizzle_t;

/* Bytes of the row that the chunks are permuted in: 32, 64 or 128; 16 without a swizzle. */
static inline uint32_t moe__emu_swizzle_span(moe__emu_swizzle_t swizzle) {
  return 16U << swizzle;
}

/* The address at which the byte lies that would be at `address` without the swizzle. Its own
 * inverse. */
static inline uint32_t moe__emu_swizzle(moe__emu_swizzle_t swizzle, uint32_t address) {
  return address ^ ((address >> 3) & (moe__emu_swizzle_span(swizzle) - 16));
}

#endif /* MOE_EMULATOR_MACHINE_SWIZZLE_H */
