/* Tma.c - tensor maps, and the bytes that a tile copy of the tensor memory accelerator moves.
 *
 * Why it exists: see Tma.h. Source of the rules: the documentation of cuTensorMapEncodeTiled, the
 * PTX ISA on cp.async.bulk.tensor, and what an H200 did (test/Emulator/golden/README.md).
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Emulator/Machine/Tma.h"

#include "moe/limits.h"

#include <string.h>

typedef unsigned long long ull_t;

/* A map as a kernel parameter. The magic word is what tells it from a CUtensorMap, a pointer or
 * zeros. */
typedef struct encoded_t {
  uint64_t magic;
  uint64_t address;
  uint64_t strides[MOE__EMU_TMA_MAX_RANK - 1];
  uint32_t last[MOE__EMU_TMA_MAX_RANK]; /* dims - 1, which fit 32 bits */
  uint16_t box[MOE__EMU_TMA_MAX_RANK];
  uint8_t type, rank, swizzle, fill;
  uint8_t reserved[46];
} encoded_t;
_Static_assert(sizeof(encoded_t) == MOE__EMU_TMA_MAP_BYTES, "a map fills its parameter exactly");

static const uint64_t magic = UINT64_C(0x70616D2D756D6520); /* " emu-map" */

enum {
  MAX_BOX = 256,
  GLOBAL_ALIGNMENT = 16,
};

static const struct {
  const char *name;
  uint32_t bytes;
  uint64_t nan;
} types[] = {
#define MOE__EMU_TMA_TYPE(constant, name, bytes, nan) {name, bytes, UINT64_C(nan)},
    MOE__EMU_TMA_TYPES(MOE__EMU_TMA_TYPE)
#undef MOE__EMU_TMA_TYPE
};

uint32_t moe__emu_tma_type_bytes(moe__emu_tma_type_t type) {
  return types[type].bytes;
}

static uint32_t row_bytes(const moe__emu_tma_map_t *map) {
  return map->box[0] * types[map->type].bytes;
}

/* The distance of two rows in shared memory. */
static uint32_t row_pitch(const moe__emu_tma_map_t *map) {
  return map->swizzle == MOE__EMU_SWIZZLE_NONE ? row_bytes(map)
                                               : moe__emu_swizzle_span(map->swizzle);
}

static uint64_t row_count(const moe__emu_tma_map_t *map) {
  uint64_t rows = 1;
  for (int i = 1; i < map->rank; i++)
    rows *= map->box[i];
  return rows;
}

uint32_t moe__emu_tma_box_bytes(const moe__emu_tma_map_t *map) {
  return (uint32_t)row_count(map) * row_bytes(map);
}

uint32_t moe__emu_tma_shared_bytes(const moe__emu_tma_map_t *map) {
  return (uint32_t)row_count(map) * row_pitch(map);
}

static bool check_box(const moe__emu_tma_map_t *map, moe__emu_error_t *error) {
  for (int i = 0; i < map->rank; i++) {
    if (map->box[i] < 1 || map->box[i] > MAX_BOX)
      return moe__emu_error(error, "box[%d] is %u; it must be 1 to %d", i, map->box[i], MAX_BOX);
  }
  uint32_t inner = row_bytes(map);
  if (inner % MOE__EMU_CHUNK != 0) {
    return moe__emu_error(error, "box[0] is %u bytes; it must be a multiple of %d", inner,
                          MOE__EMU_CHUNK);
  }
  if (map->swizzle != MOE__EMU_SWIZZLE_NONE && inner > moe__emu_swizzle_span(map->swizzle)) {
    return moe__emu_error(error, "box[0] is %u bytes; it must be at most the %u of the swizzle",
                          inner, moe__emu_swizzle_span(map->swizzle));
  }
  uint64_t shared = row_count(map) * row_pitch(map);
  if (shared > MOE_CTA_SHARED_MEMORY) {
    return moe__emu_error(error, "the box takes %llu bytes; a CTA has at most %d", (ull_t)shared,
                          MOE_CTA_SHARED_MEMORY);
  }
  return true;
}

static bool check_map(const moe__emu_tma_map_t *map, moe__emu_error_t *error) {
  if ((unsigned)map->type >= sizeof types / sizeof types[0])
    return moe__emu_error(error, "element type is %d; there is none", (int)map->type);
  if (map->rank < 1 || map->rank > MOE__EMU_TMA_MAX_RANK) {
    return moe__emu_error(error, "rank is %d; it must be 1 to %d", map->rank,
                          MOE__EMU_TMA_MAX_RANK);
  }
  if ((unsigned)map->swizzle > MOE__EMU_SWIZZLE_128B)
    return moe__emu_error(error, "swizzle is %d; it must be 0 to 3", (int)map->swizzle);
  if ((unsigned)map->fill > MOE__EMU_TMA_FILL_NAN)
    return moe__emu_error(error, "fill is %d; it must be 0 or 1", (int)map->fill);
  if (map->fill == MOE__EMU_TMA_FILL_NAN && types[map->type].nan == 0)
    return moe__emu_error(error, "fill is nan; the element %s has none", types[map->type].name);
  if (map->address % GLOBAL_ALIGNMENT != 0) {
    return moe__emu_error(error, "address is 0x%llx; it must be a multiple of %d",
                          (ull_t)map->address, GLOBAL_ALIGNMENT);
  }
  for (int i = 0; i < map->rank; i++) {
    if (map->dims[i] < 1 || map->dims[i] > UINT64_C(1) << 32) {
      return moe__emu_error(error, "dims[%d] is %llu; it must be 1 to 2^32", i,
                            (ull_t)map->dims[i]);
    }
  }
  for (int i = 0; i < map->rank - 1; i++) {
    if (map->strides[i] % GLOBAL_ALIGNMENT != 0 || map->strides[i] >= UINT64_C(1) << 40) {
      return moe__emu_error(error, "strides[%d] is %llu; it must be a multiple of %d below 2^40", i,
                            (ull_t)map->strides[i], GLOBAL_ALIGNMENT);
    }
  }
  return check_box(map, error);
}

bool moe__emu_tma_encode(const moe__emu_tma_map_t *map, uint8_t out_bytes[MOE__EMU_TMA_MAP_BYTES],
                         moe__emu_error_t *error) {
  if (!check_map(map, error))
    return false;
  encoded_t encoded = {.magic = magic,
                       .address = map->address,
                       .type = (uint8_t)map->type,
                       .rank = (uint8_t)map->rank,
                       .swizzle = (uint8_t)map->swizzle,
                       .fill = (uint8_t)map->fill};
  for (int i = 0; i < map->rank; i++) {
    encoded.last[i] = (uint32_t)(map->dims[i] - 1);
    encoded.box[i] = (uint16_t)map->box[i];
    if (i > 0)
      encoded.strides[i - 1] = map->strides[i - 1];
  }
  memcpy(out_bytes, &encoded, sizeof encoded);
  return true;
}

bool moe__emu_tma_decode(const uint8_t bytes[MOE__EMU_TMA_MAP_BYTES], moe__emu_tma_map_t *out_map,
                         moe__emu_error_t *error) {
  encoded_t encoded;
  memcpy(&encoded, bytes, sizeof encoded);
  if (encoded.magic != magic) {
    return moe__emu_error(error, "no tensor map: its first 8 bytes are 0x%016llx",
                          (ull_t)encoded.magic);
  }
  *out_map = (moe__emu_tma_map_t){.type = (moe__emu_tma_type_t)encoded.type,
                                  .rank = encoded.rank,
                                  .address = encoded.address,
                                  .swizzle = (moe__emu_swizzle_t)encoded.swizzle,
                                  .fill = (moe__emu_tma_fill_t)encoded.fill};
  for (int i = 0; i < MOE__EMU_TMA_MAX_RANK; i++) {
    out_map->dims[i] = i < encoded.rank ? (uint64_t)encoded.last[i] + 1 : 0;
    out_map->box[i] = encoded.box[i];
    if (i > 0)
      out_map->strides[i - 1] = encoded.strides[i - 1];
  }
  moe__emu_error_t rule;
  uint8_t again[MOE__EMU_TMA_MAP_BYTES];
  if (!moe__emu_tma_encode(out_map, again, &rule))
    return moe__emu_error(error, "damaged tensor map: %.200s", rule.text);
  for (int i = 0; i < MOE__EMU_TMA_MAP_BYTES; i++) {
    if (bytes[i] != again[i]) {
      return moe__emu_error(error, "damaged tensor map: byte %d is 0x%02x; it must be 0x%02x", i,
                            bytes[i], again[i]);
    }
  }
  return true;
}

bool moe__emu_tma_check(const moe__emu_tma_map_t *map, int coordinates, uint32_t shared_address,
                        moe__emu_error_t *error) {
  if (coordinates != map->rank) {
    return moe__emu_error(error, "the instruction has %d coordinates; the tensor map's rank is %d",
                          coordinates, map->rank);
  }
  if (shared_address % MOE__EMU_TMA_SHARED_ALIGNMENT != 0) {
    return moe__emu_error(error, "shared address is 0x%x; it must be a multiple of %d",
                          shared_address, MOE__EMU_TMA_SHARED_ALIGNMENT);
  }
  return true;
}

bool moe__emu_tma_check_coordinates(const moe__emu_tma_map_t *map, const int32_t *coordinates,
                                    bool store, moe__emu_error_t *error) {
  const int64_t bytes = (int64_t)coordinates[0] * types[map->type].bytes;
  if (bytes % MOE__EMU_CHUNK != 0)
    return moe__emu_error(
        error, "the innermost coordinate is %d, %lld bytes; it must be a multiple of %d bytes",
        coordinates[0], (long long)bytes, MOE__EMU_CHUNK);
  for (int i = 0; store && i < map->rank; i++)
    if (coordinates[i] < 0)
      return moe__emu_error(error, "coordinate %d of a store is %d; it must not be negative", i,
                            coordinates[i]);
  return true;
}

typedef enum place_t { INSIDE, TAIL, OUTSIDE } place_t;

typedef struct walk_t {
  const moe__emu_tma_map_t *map;
  moe__emu_tma_visit_t visit;
  void *context;
} walk_t;

/* Visits the bytes [begin, end) of a row. `global` is the address of the row's byte 0, which need
 * not exist. */
static bool visit_bytes(const walk_t *walk, uint32_t row, uint64_t global, uint32_t begin,
                        uint32_t end, place_t place) {
  moe__emu_swizzle_t swizzle = walk->map->swizzle;
  while (begin < end) {
    uint32_t next = end;
    if (swizzle != MOE__EMU_SWIZZLE_NONE && next > (begin / MOE__EMU_CHUNK + 1) * MOE__EMU_CHUNK)
      next = (begin / MOE__EMU_CHUNK + 1) * MOE__EMU_CHUNK;
    moe__emu_tma_run_t run = {.inside = place == INSIDE,
                              .tail = place == TAIL,
                              .global = place == OUTSIDE ? 0 : global + begin,
                              .shared = moe__emu_swizzle(swizzle, row + begin),
                              .bytes = next - begin};
    if (!walk->visit(walk->context, &run))
      return false;
    begin = next;
  }
  return true;
}

/* n limited to 0..high */
static uint32_t clamp(int64_t n, uint32_t high) {
  if (n < 0)
    return 0;
  return n < (int64_t)high ? (uint32_t)n : high;
}

bool moe__emu_tma_walk(const moe__emu_tma_map_t *map, const int32_t *coordinates,
                       uint32_t shared_address, moe__emu_tma_visit_t visit, void *context) {
  const walk_t walk = {map, visit, context};
  const uint32_t element = types[map->type].bytes;
  const uint32_t row_end = row_bytes(map);
  /* Of every row the elements [first, past) exist, if the row does. */
  const uint32_t first = clamp(-(int64_t)coordinates[0], map->box[0]);
  const uint32_t past = clamp((int64_t)map->dims[0] - coordinates[0], map->box[0]);

  uint32_t index[MOE__EMU_TMA_MAX_RANK] = {0}; /* of the row in the box; index[0] stays 0 */
  const uint64_t rows = row_count(map);
  for (uint64_t row = 0; row < rows; row++) {
    bool exists = first < past;
    uint64_t global = map->address + (uint64_t)(int64_t)coordinates[0] * element;
    for (int i = 1; i < map->rank; i++) {
      /* A negative coordinate is a huge one here. */
      uint64_t coordinate = (uint64_t)((int64_t)coordinates[i] + index[i]);
      exists = exists && coordinate < map->dims[i];
      global += coordinate * map->strides[i - 1];
    }
    uint32_t begin = exists ? first * element : row_end;
    uint32_t end = exists ? past * element : row_end;
    uint32_t tail_end = exists ? clamp(end + (0 - (global + end)) % MOE__EMU_CHUNK, row_end) : end;
    uint32_t shared = shared_address + (uint32_t)row * row_pitch(map);
    if (!visit_bytes(&walk, shared, global, 0, begin, OUTSIDE) ||
        !visit_bytes(&walk, shared, global, begin, end, INSIDE) ||
        !visit_bytes(&walk, shared, global, end, tail_end, TAIL) ||
        !visit_bytes(&walk, shared, global, tail_end, row_end, OUTSIDE))
      return false;
    for (int i = 1; i < map->rank && ++index[i] == map->box[i]; i++)
      index[i] = 0;
  }
  return true;
}

void moe__emu_tma_fill(const moe__emu_tma_map_t *map, uint8_t *out, uint32_t bytes) {
  const uint64_t nan = types[map->type].nan;
  if (map->fill == MOE__EMU_TMA_FILL_ZERO) {
    memset(out, 0, bytes);
    return;
  }
  for (uint32_t i = 0; i < bytes; i++)
    out[i] = (uint8_t)(nan >> i % types[map->type].bytes * 8);
}
