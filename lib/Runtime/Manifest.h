/* Manifest.h - a validated manifest in C structs.
 *
 * Whoever holds one of these need not doubt it: every index is in range, every name is known, every
 * static rule holds.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_RUNTIME_MANIFEST_H
#define MOE_RUNTIME_MANIFEST_H

#include "lib/Runtime/Expression.h"
#include "lib/Runtime/TensorMap.h"

/* X(name in the manifest, bits, DLPack type code) */
#define MOE__DTYPES(X)                                                                             \
  X("bf16", 16, kDLBfloat)                                                                         \
  X("f16", 16, kDLFloat)                                                                           \
  X("f32", 32, kDLFloat)                                                                           \
  X("f8E4M3FN", 8, kDLFloat8_e4m3fn)                                                               \
  X("f8E5M2", 8, kDLFloat8_e5m2)                                                                   \
  X("f8E8M0FNU", 8, kDLFloat8_e8m0fnu)                                                             \
  X("i32", 32, kDLInt)

enum {
  MOE__MAX_SYMBOLS = 64,
  MOE__MAX_TENSORS = 256,         /* of a function */
  MOE__MAX_PARAMETER_BYTES = 4096 /* of a kernel; what every driver allows */
};

/* The largest grid in x, y and z. */
extern const int64_t moe__grid_limits[3];

/* A file of the bundle as the manifest describes it. */
typedef struct moe__artifact_t {
  const char *file; /* NULL: not in the bundle */
  int64_t bytes;
  const char *hash; /* XXH3-128, 32 hex digits */
} moe__artifact_t;

typedef struct moe__kernel_t {
  const char *name;
  uint32_t block[3], cluster[3];
  uint32_t shared_memory;
} moe__kernel_t;

/* Blocks of a cluster. */
static inline uint32_t moe__kernel_cluster_blocks(const moe__kernel_t *kernel) {
  return kernel->cluster[0] * kernel->cluster[1] * kernel->cluster[2];
}

typedef struct moe__tensor_t {
  const moe_rt_tensor_info_t *info;
  uint8_t dlpack_code;
  bool is_zeroed; /* a temporary that is zero before the first launch */
  moe__expression_t shape[MOE_RT_MAX_RANK];
} moe__tensor_t;

typedef enum moe__parameter_kind_t {
  MOE__POINTER,
  MOE__SCALAR,
  MOE__TENSOR_MAP,
} moe__parameter_kind_t;

typedef struct moe__parameter_t {
  moe__parameter_kind_t kind;
  uint32_t bytes;          /* 4, 8 or 128; also its alignment, but 64 for a tensor map */
  int tensor;              /* pointer, tensor map: index in the function's tensors */
  moe__expression_t value; /* scalar */
  moe__map_box_t box;      /* tensor map */
  moe__expression_t dims[MOE_RT_MAX_RANK];
  moe__expression_t strides[MOE_RT_MAX_RANK - 1];
} moe__parameter_t;

typedef struct moe__launch_t {
  int kernel;
  moe__expression_t grid[3];
  moe__parameter_t *parameters;
  int parameter_count;
  bool programmatic; /* may start before the launch before it has ended */
} moe__launch_t;

typedef struct moe__function_t {
  moe_rt_function_info_t info;
  moe__symbols_t symbols;
  moe__tensor_t *tensors; /* arguments, results, temporaries */
  int tensor_count;
  int status;              /* index of the tensor that kernels report in; -1: none */
  moe__launch_t *launches; /* info.launch_count */
} moe__function_t;

typedef struct moe__manifest_t {
  moe__artifact_t ptx, cubin;
  const char *ptx_isa;
  const char *target;
  moe__kernel_t *kernels;
  int kernel_count;
  moe__function_t *functions;
  int function_count;
} moe__manifest_t;

/* Parses and validates `text`. `file` is the name used in messages. Everything lives in the arena,
 * also after a failure. */
moe_rt_status_t moe__manifest_parse(const char *text, size_t bytes, const char *file,
                                    moe__arena_t *arena, moe__manifest_t *out_manifest);

/* Parses one element of "functions"; `manifest` has its kernels. */
moe_rt_status_t moe__function_parse(const moe__json_t *json, const moe__manifest_t *manifest,
                                    moe__arena_t *arena, moe__function_t *out_function);

/* Parses a list of `rank` dimensions that has each of them once. */
moe_rt_status_t moe__permutation_parse(const moe__json_t *json, int rank, int out[MOE_RT_MAX_RANK]);

/* Parses the launches of a function whose tensors are known. */
moe_rt_status_t moe__launches_parse(const moe__json_t *json, const moe__manifest_t *manifest,
                                    moe__arena_t *arena, moe__function_t *function);

#endif /* MOE_RUNTIME_MANIFEST_H */
