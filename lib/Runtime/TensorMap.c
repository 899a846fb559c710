/* TensorMap.c - the rules of tiled tensor maps, checked before a driver sees one.
 *
 * Source of the rules: the documentation of cuTensorMapEncodeTiled, for maps without interleave.
 * The last rule is ours: a manifest is untrusted, and a map that reaches past its tensor reads or
 * writes memory of someone else.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Runtime/TensorMap.h"

#include "moe/limits.h"

static int bytes_of(moe__rt_map_element_t element) {
  static const int sizes[] = {
#define MOE__RT_MAP_ELEMENT(constant, name, bytes, driver) bytes,
      MOE__RT_MAP_ELEMENTS(MOE__RT_MAP_ELEMENT)
#undef MOE__RT_MAP_ELEMENT
  };
  return sizes[element];
}

moe_rt_status_t moe__rt_map_box_check(const moe__rt_map_box_t *box) {
  static const int spans[] = {0, 32, 64, 128};
  if (box->rank < 1 || box->rank > MOE_RT_MAX_RANK) {
    return moe__rt_fail(MOE_RT_INVALID_BUNDLE, "rank is %d; it must be 1 to %d", box->rank,
                        MOE_RT_MAX_RANK);
  }
  for (int i = 0; i < box->rank; i++) {
    if (box->box[i] < 1 || box->box[i] > 256) {
      return moe__rt_fail(MOE_RT_INVALID_BUNDLE, "box[%d] is %llu; it must be 1 to 256", i,
                          (unsigned long long)box->box[i]);
    }
  }
  int inner = (int)box->box[0] * bytes_of(box->element);
  if (inner % 16 != 0) {
    return moe__rt_fail(MOE_RT_INVALID_BUNDLE, "box[0] is %d bytes; it must be a multiple of 16",
                        inner);
  }
  if (box->swizzle != MOE__RT_SWIZZLE_NONE && inner > spans[box->swizzle]) {
    return moe__rt_fail(MOE_RT_INVALID_BUNDLE,
                        "box[0] is %d bytes; it must be at most the %d of the swizzle", inner,
                        spans[box->swizzle]);
  }
  if (box->fill == MOE__RT_FILL_NAN && box->element == MOE__RT_MAP_U8)
    return moe__rt_fail(MOE_RT_INVALID_BUNDLE, "fill is nan; the element u8 has none");
  return MOE_RT_OK;
}

/* The bytes from the first to the last element of the map; false when they do not fit 64 bits. */
static bool map_extent(const moe__rt_tensor_map_t *map, uint64_t *out_bytes) {
  uint64_t extent = 0;
  if (__builtin_mul_overflow(map->dims[0], (uint64_t)bytes_of(map->box.element), &extent))
    return false;
  for (int i = 1; i < map->box.rank; i++) {
    uint64_t reach = 0;
    if (__builtin_mul_overflow(map->dims[i] - 1, map->strides[i - 1], &reach) ||
        __builtin_add_overflow(extent, reach, &extent))
      return false;
  }
  *out_bytes = extent;
  return true;
}

moe_rt_status_t moe__rt_map_address_check(uint64_t address) {
  if (address % 16 == 0)
    return MOE_RT_OK;
  return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "address is 0x%llx; it must be a multiple of 16",
                      (unsigned long long)address);
}

moe_rt_status_t moe__rt_tensor_map_check(const moe__rt_tensor_map_t *map, int64_t bytes) {
  MOE__RT_TRY(moe__rt_map_box_check(&map->box));
  MOE__RT_TRY(moe__rt_map_address_check(map->address));
  for (int i = 0; i < map->box.rank; i++) {
    if (map->dims[i] < 1 || map->dims[i] > MOE_MAX_DIMENSION) { /* the driver takes 2^32 */
      return moe__rt_fail(MOE_RT_INVALID_ARGUMENT, "dims[%d] is %llu; it must be 1 to %d", i,
                          (unsigned long long)map->dims[i], MOE_MAX_DIMENSION);
    }
  }
  for (int i = 0; i < map->box.rank - 1; i++) {
    unsigned long long stride = map->strides[i];
    if (stride % 16 != 0) {
      return moe__rt_fail(MOE_RT_INVALID_ARGUMENT,
                          "strides[%d] is %llu bytes; it must be a multiple of 16", i, stride);
    }
    if (stride >= UINT64_C(1) << 40) {
      return moe__rt_fail(MOE_RT_INVALID_ARGUMENT,
                          "strides[%d] is %llu bytes; it must be below 2^40", i, stride);
    }
  }
  uint64_t extent = 0;
  if (!map_extent(map, &extent) || extent > (uint64_t)bytes) {
    return moe__rt_fail(MOE_RT_INVALID_BUNDLE,
                        "dims and strides reach past the %lld bytes of the tensor",
                        (long long)bytes);
  }
  return MOE_RT_OK;
}
