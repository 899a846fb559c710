/* Tma.h - tensor maps, and the bytes that a tile copy of the tensor memory accelerator moves.
 *
 * Why it exists: a kernel sees a tensor map as 128 opaque bytes. The emulator has an encoding of
 * its own, so that it can read back what it was given and tell a map from anything else. What the
 * bytes mean for a copy (which element of the box comes from where, which is outside of the tensor,
 * where the swizzle puts it) is here, free of any machine state.
 *
 * Tiled maps only: no interleave, no im2col, element strides of 1. Dimensions are innermost first
 * everywhere.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_EMULATOR_MACHINE_TMA_H
#define MOE_EMULATOR_MACHINE_TMA_H

#include "lib/Emulator/Machine/Swizzle.h"
#include "lib/Emulator/Ptx/Error.h"

#include <stdbool.h>
#include <stdint.h>

enum {
  MOE__EMU_TMA_MAX_RANK = 5,
  MOE__EMU_TMA_MAP_BYTES = 128,
  MOE__EMU_TMA_SHARED_ALIGNMENT = 128,
};

/* X(constant, name, bytes, what an element outside of the tensor reads as with fill nan; 0: no such
 * fill). The hardware fills with 0x7FF7 in every 16 bits: measured for bf16 and f32, assumed for
 * f16 and f64. The order is that of CUtensorMapDataType. */
#define MOE__EMU_TMA_TYPES(X)                                                                      \
  X(MOE__EMU_TMA_U8, "u8", 1, 0)                                                                   \
  X(MOE__EMU_TMA_U16, "u16", 2, 0)                                                                 \
  X(MOE__EMU_TMA_U32, "u32", 4, 0)                                                                 \
  X(MOE__EMU_TMA_S32, "s32", 4, 0)                                                                 \
  X(MOE__EMU_TMA_U64, "u64", 8, 0)                                                                 \
  X(MOE__EMU_TMA_S64, "s64", 8, 0)                                                                 \
  X(MOE__EMU_TMA_F16, "f16", 2, 0x7FF7)                                                            \
  X(MOE__EMU_TMA_F32, "f32", 4, 0x7FF77FF7)                                                        \
  X(MOE__EMU_TMA_F64, "f64", 8, 0x7FF77FF77FF77FF7)                                                \
  X(MOE__EMU_TMA_BF16, "bf16", 2, 0x7FF7)

typedef enum moe__emu_tma_type_t {
#define MOE__EMU_TMA_TYPE(constant, name, bytes, nan) constant,
  MOE__EMU_TMA_TYPES(MOE__EMU_TMA_TYPE)
#undef MOE__EMU_TMA_TYPE
} moe__emu_tma_type_t;

typedef enum moe__emu_tma_fill_t {
  MOE__EMU_TMA_FILL_ZERO,
  MOE__EMU_TMA_FILL_NAN,
} moe__emu_tma_fill_t;

typedef struct moe__emu_tma_map_t {
  moe__emu_tma_type_t type;
  int rank;
  uint64_t address;                            /* of the tensor's first byte, global memory */
  uint64_t dims[MOE__EMU_TMA_MAX_RANK];        /* elements, 1..2^32 */
  uint64_t strides[MOE__EMU_TMA_MAX_RANK - 1]; /* bytes, of dims 1.. */
  uint32_t box[MOE__EMU_TMA_MAX_RANK];         /* elements, 1..256 */
  moe__emu_swizzle_t swizzle;
  moe__emu_tma_fill_t fill;
} moe__emu_tma_map_t;

/* Bytes of one element. */
uint32_t moe__emu_tma_type_bytes(moe__emu_tma_type_t type);

/* Checks the rules that cuTensorMapEncodeTiled checks and writes the map's 128 bytes. The error
 * names the field and the rule; nothing is written then. */
bool moe__emu_tma_encode(const moe__emu_tma_map_t *map, uint8_t out_bytes[MOE__EMU_TMA_MAP_BYTES],
                         moe__emu_error_t *error);

/* Reads a map back. The error says that the bytes are no tensor map, or which rule a damaged one
 * breaks. */
bool moe__emu_tma_decode(const uint8_t bytes[MOE__EMU_TMA_MAP_BYTES], moe__emu_tma_map_t *out_map,
                         moe__emu_error_t *error);

/* The bytes that a load of the box announces to its mbarrier: the whole box, what lies outside of
 * the tensor included. */
uint32_t moe__emu_tma_box_bytes(const moe__emu_tma_map_t *map);

/* The bytes of shared memory from the box's first to its last: more than moe__emu_tma_box_bytes
 * where rows are shorter than the swizzle's span, because every row starts a span of its own. */
uint32_t moe__emu_tma_shared_bytes(const moe__emu_tma_map_t *map);

/* Checks what an instruction adds to its map: the number of coordinates, which its text gives, and
 * the alignment of the shared-memory address. */
bool moe__emu_tma_check(const moe__emu_tma_map_t *map, int coordinates, uint32_t shared_address,
                        moe__emu_error_t *error);

/* Checks what the hardware demands of the coordinates (rank of them) of a load or a store: the box
 * begins at a chunk of 16 bytes, so the innermost coordinate, in bytes, is a multiple of 16; and a
 * store has no negative coordinate at all. Where it is not so, an H200 ends the kernel with an
 * illegal instruction. */
bool moe__emu_tma_check_coordinates(const moe__emu_tma_map_t *map, const int32_t *coordinates,
                                    bool store, moe__emu_error_t *error);

/* A piece of a box that is contiguous on both sides and all inside, all tail or all of neither.
 *
 * The tail: the hardware stores whole chunks of 16 bytes. Where the rows of a tensor end inside of
 * a chunk, a store writes the rest of that chunk too, if the box covers it: bytes of the gap before
 * the next row or, behind the last row, of whatever follows the tensor. A load fills these bytes
 * like any others outside. */
typedef struct moe__emu_tma_run_t {
  bool inside;
  bool tail;       /* outside, but a store writes it */
  uint64_t global; /* address of the first byte of a run that is inside or tail, else 0 */
  uint32_t shared; /* address of the first byte, swizzled */
  uint32_t bytes;  /* at most 16 with a swizzle; at most one row of the box without */
} moe__emu_tma_run_t;

/* Returns false to end the walk. */
typedef bool (*moe__emu_tma_visit_t)(void *context, const moe__emu_tma_run_t *run);

/* Walks the box at `coordinates` (rank of them, in elements; negative and past the end are legal)
 * that lies at `shared_address`: every byte of the box belongs to exactly one run. A load copies
 * the runs inside and fills all others; a store copies the runs inside and the tails, and skips the
 * others. False when a visit returned false. */
bool moe__emu_tma_walk(const moe__emu_tma_map_t *map, const int32_t *coordinates,
                       uint32_t shared_address, moe__emu_tma_visit_t visit, void *context);

/* Writes what a load puts into a run outside of the tensor: `bytes` bytes, a multiple of the
 * element's. */
void moe__emu_tma_fill(const moe__emu_tma_map_t *map, uint8_t *out, uint32_t bytes);

#endif /* MOE_EMULATOR_MACHINE_TMA_H */
