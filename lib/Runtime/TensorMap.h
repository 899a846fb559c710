/* TensorMap.h - what a tensor map says, and the rules it must keep.
 *
 * A driver rejects a bad map with "invalid value" and not one word more; here each rule has a name
 * and a number.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_RUNTIME_TENSOR_MAP_H
#define MOE_RUNTIME_TENSOR_MAP_H

#include "lib/Runtime/Status.h"

/* X(constant, name in the manifest, bytes, CUtensorMapDataType) */
#define MOE__RT_MAP_ELEMENTS(X)                                                                    \
  X(MOE__RT_MAP_U8, "u8", 1, 0)                                                                    \
  X(MOE__RT_MAP_BF16, "bf16", 2, 9)                                                                \
  X(MOE__RT_MAP_F32, "f32", 4, 7)

typedef enum moe__rt_map_element_t {
#define MOE__RT_MAP_ELEMENT(constant, name, bytes, driver) constant,
  MOE__RT_MAP_ELEMENTS(MOE__RT_MAP_ELEMENT)
#undef MOE__RT_MAP_ELEMENT
} moe__rt_map_element_t;

/* The three enumerations below have the driver's numbers. */
typedef enum moe__rt_map_swizzle_t {
  MOE__RT_SWIZZLE_NONE = 0,
  MOE__RT_SWIZZLE_32B = 1,
  MOE__RT_SWIZZLE_64B = 2,
  MOE__RT_SWIZZLE_128B = 3,
} moe__rt_map_swizzle_t;

typedef enum moe__rt_map_promotion_t {
  MOE__RT_PROMOTION_NONE = 0,
  MOE__RT_PROMOTION_64B = 1,
  MOE__RT_PROMOTION_128B = 2,
  MOE__RT_PROMOTION_256B = 3,
} moe__rt_map_promotion_t;

typedef enum moe__rt_map_fill_t {
  MOE__RT_FILL_ZERO = 0,
  MOE__RT_FILL_NAN = 1,
} moe__rt_map_fill_t;

/* What a map says of its boxes. Innermost dimension first. */
typedef struct moe__rt_map_box_t {
  moe__rt_map_element_t element;
  int rank;
  uint64_t box[MOE_RT_MAX_RANK]; /* elements */
  moe__rt_map_swizzle_t swizzle;
  moe__rt_map_promotion_t promotion;
  moe__rt_map_fill_t fill;
} moe__rt_map_box_t;

/* A whole map. */
typedef struct moe__rt_tensor_map_t {
  moe__rt_map_box_t box;
  uint64_t address;
  uint64_t dims[MOE_RT_MAX_RANK];        /* elements */
  uint64_t strides[MOE_RT_MAX_RANK - 1]; /* bytes, of dims 1.. */
} moe__rt_tensor_map_t;

/* Checks boxes. The message names the field: "box[0] ...". */
moe_rt_status_t moe__rt_map_box_check(const moe__rt_map_box_t *box);

/* Checks the address alone. */
moe_rt_status_t moe__rt_map_address_check(uint64_t address);

/* Checks address, dims and strides, and that the map stays inside the `bytes` of its tensor. */
moe_rt_status_t moe__rt_tensor_map_check(const moe__rt_tensor_map_t *map, int64_t bytes);

#endif /* MOE_RUNTIME_TENSOR_MAP_H */
