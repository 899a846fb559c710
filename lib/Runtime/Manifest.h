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
#include "moe/limits.h"

enum {
  MOE__RT_MAX_SYMBOLS = MOE_MAX_SYMBOLS,
  MOE__RT_MAX_TENSORS = MOE_MAX_TENSORS,
  MOE__RT_MAX_PARAMETER_BYTES = 4096,   /* of a kernel; what every driver allows */
  MOE__RT_MAX_ARTIFACT_BYTES = 1 << 28, /* of PTX or a cubin */
  MOE__RT_ALIGNMENT = 256, /* what an allocation has for certain, and a tensor may want at most */
};

/* The largest grid in x, y and z. */
extern const int64_t moe__rt_grid_limits[3];

/* A file of the bundle as the manifest describes it. */
typedef struct moe__rt_artifact_t {
  const char *file; /* NULL: not in the bundle */
  int64_t bytes;
  const char *hash; /* XXH3-128, 32 hex digits */
} moe__rt_artifact_t;

typedef struct moe__rt_kernel_t {
  const char *name;
  uint32_t block[3], cluster[3];
  uint32_t shared_memory;
  int min_assembler; /* as the CUDA driver counts versions: 13030 is 13.3; 0: any */
} moe__rt_kernel_t;

/* Blocks of a cluster. */
static inline uint32_t moe__rt_kernel_cluster_blocks(const moe__rt_kernel_t *kernel) {
  return kernel->cluster[0] * kernel->cluster[1] * kernel->cluster[2];
}

typedef struct moe__rt_tensor_t {
  const moe_rt_tensor_info_t *info;
  uint8_t dlpack_code;
  bool is_zeroed; /* a temporary that is zero before the first launch */
  moe__rt_expression_t shape[MOE_RT_MAX_RANK];
} moe__rt_tensor_t;

typedef enum moe__rt_parameter_kind_t {
  MOE__RT_POINTER,
  MOE__RT_SCALAR,
  MOE__RT_TENSOR_MAP,
} moe__rt_parameter_kind_t;

typedef struct moe__rt_parameter_t {
  moe__rt_parameter_kind_t kind;
  uint32_t bytes;             /* 4, 8 or 128; also its alignment, but 64 for a tensor map */
  int tensor;                 /* pointer, tensor map: index in the function's tensors */
  moe__rt_expression_t value; /* scalar */
  moe__rt_map_box_t box;      /* tensor map; sizes that depend on shapes are 1 */
  moe__rt_expression_t sizes[MOE_RT_MAX_RANK]; /* of a box */
  moe__rt_expression_t dims[MOE_RT_MAX_RANK];
  moe__rt_expression_t strides[MOE_RT_MAX_RANK - 1];
} moe__rt_parameter_t;

typedef struct moe__rt_launch_t {
  int kernel;
  moe__rt_expression_t grid[3];
  moe__rt_parameter_t *parameters;
  int parameter_count;
  bool programmatic; /* may start before the launch before it has ended */
} moe__rt_launch_t;

typedef struct moe__rt_function_t {
  moe_rt_function_info_t info;
  moe__rt_symbols_t symbols;
  moe__rt_tensor_t *tensors; /* arguments, results, temporaries */
  int tensor_count;
  int status;                 /* index of the tensor that kernels report in; -1: none */
  moe__rt_launch_t *launches; /* info.launch_count */
} moe__rt_function_t;

typedef struct moe__rt_manifest_t {
  moe__rt_artifact_t ptx, cubin;
  const char *ptx_isa;
  int assembler; /* of the cubin, as the CUDA driver counts versions; 0: not known */
  const char *target;
  moe__rt_kernel_t *kernels;
  int kernel_count;
  moe__rt_function_t *functions;
  int function_count;
} moe__rt_manifest_t;

/* Parses and validates `text`. `file` is the name used in messages. Everything lives in the arena,
 * also after a failure. */
moe_rt_status_t moe__rt_manifest_parse(const char *text, size_t bytes, const char *file,
                                       moe__rt_arena_t *arena, moe__rt_manifest_t *out_manifest);

/* Parses one element of "functions"; `manifest` has its kernels. */
moe_rt_status_t moe__rt_function_parse(const moe__rt_json_t *json,
                                       const moe__rt_manifest_t *manifest, moe__rt_arena_t *arena,
                                       moe__rt_function_t *out_function);

/* Parses a list of `rank` dimensions that has each of them once. */
moe_rt_status_t moe__rt_permutation_parse(const moe__rt_json_t *json, int rank,
                                          int out[MOE_RT_MAX_RANK]);

/* Parses the launches of a function whose tensors are known. */
moe_rt_status_t moe__rt_launches_parse(const moe__rt_json_t *json,
                                       const moe__rt_manifest_t *manifest, moe__rt_arena_t *arena,
                                       moe__rt_function_t *function);

#endif /* MOE_RUNTIME_MANIFEST_H */
