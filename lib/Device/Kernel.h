/* Kernel.h - a kernel under construction: its parameters, its shared memory, its launch bounds.
 *
 * Why it exists: everything a launcher must know of a kernel is recorded where the kernel uses it,
 * so that the manifest can never disagree with the code. moe__kernel_end writes the record to the
 * kernel as the attribute `moe.kernel`:
 *
 *   moe.kernel = {block = [288, 1, 1], cluster = [1, 1, 1], shared_memory = 98432,
 *                 grid = [<expression>, <expression>, <expression>],
 *                 parameters = [{kind = "tensor_map", tensor = 0, ...}, ...],
 *                 requires = [{dim = [0, 1], multiple_of = 32}, {dim = [1, 0], at_most = 1024},
 *                             {dim = [0, 0], same_as = [2, 0]},
 *                             {dim = [1, 1], quotient_of = [0, 1], divisor = 32}, ...],
 *                 zeroed = [5], programmatic = false}
 *
 * `tensor` counts the operands of the op, then its results. An expression is an integer, "num_sms",
 * "num_clusters" (in grids),
 * {dim = [tensor, dimension]}, or {ceildiv | mul | add | min = [<expression>, ...]}:
 * docs/manifest.md, with `dim` in place of symbols. The parameter {kind = "status"} is the
 * function's status word, {kind = "counters"} its counters.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_DEVICE_KERNEL_H
#define MOE_DEVICE_KERNEL_H

#include "lib/Builder/Builder.h"
#include "lib/Device/Layout.h"

#include <stddef.h>
#include <stdio.h>

#define MOE__MAX_PARAMETERS 16
#define MOE__MAX_ZEROED 4
#define MOE__EXPRESSION_SIZE 512

typedef struct moe__kernel_t {
  moe__builder_t builder;
  MlirBlock entry;
  MlirValue shared; /* !llvm.ptr<3>: start of dynamic shared memory, aligned to 1024 */
  MlirValue thread, cta, cta_count; /* i32: %tid.x, %ctaid.x, %nctaid.x */
  int32_t cluster_size;             /* CTAs, along x; 1: no clusters */
  /* i32, of kernels with clusters: the CTA's number in its cluster, %clusterid.x,
   * %nclusterid.x. */
  MlirValue cluster_rank, cluster, cluster_count;
  moe__layout_t layout;
  int parameter_count;
  MlirType parameter_types[MOE__MAX_PARAMETERS];
  bool by_value[MOE__MAX_PARAMETERS]; /* a tensor map */
  int zeroed_count;
  int zeroed[MOE__MAX_ZEROED];     /* numbers of the tensors that are state */
  bool programmatic;               /* may start before the launch before it has ended */
  FILE *parameters, *requirements; /* text of the record, in memory */
  char *parameters_text, *requirements_text;
  size_t parameters_length, requirements_length;
} moe__kernel_t;

/* A dimension inside a kernel: a constant where the type says so, else a scalar parameter. */
typedef struct moe__extent_t {
  int64_t size;                          /* -1 when dynamic */
  MlirValue value;                       /* i32 */
  char expression[MOE__EXPRESSION_SIZE]; /* for grids and tensor maps */
} moe__extent_t;

/* How memory is cut for the tensor memory accelerator. dims and strides are expressions, innermost
 * first. */
typedef struct moe__tensor_map_t {
  int tensor;
  const char *element; /* "u8", "bf16", "f32" */
  int rank;
  const char *dims[5];
  const char *strides[5]; /* bytes; strides[i] belongs to dims[i + 1] */
  int box[5];
  const char *swizzle; /* "none", "32B", "64B", "128B" */
} moe__tensor_map_t;

/* Starts a kernel of this layout, with CTAs of threads x 1 x 1. Parameters are added before the
 * body is built. */
void moe__kernel_begin(moe__kernel_t *kernel, MlirContext context, MlirLocation location,
                       const moe__layout_t *layout);

/* Adds a parameter, in the order of the calls. The value is what the body uses. */
MlirValue moe__kernel_pointer(moe__kernel_t *kernel, int tensor); /* !llvm.ptr<1> */
MlirValue moe__kernel_tensor_map(moe__kernel_t *kernel,
                                 const moe__tensor_map_t *map); /* !llvm.ptr */

/* Adds the address of the function's status word, an i32 that kernels OR error bits into
 * (Groups.h); at most once. !llvm.ptr<1>. */
MlirValue moe__kernel_status(moe__kernel_t *kernel);

/* Adds the address of two i32 by which the CTAs of a launch share their work; at most once.
 * They are zero before the launch, and it leaves them zero, for the next one. !llvm.ptr<1>. */
MlirValue moe__kernel_counters(moe__kernel_t *kernel);

/* The extent of dimension `dimension` of tensor number `tensor` of this ranked type: a parameter
 * only when dynamic. */
moe__extent_t moe__kernel_extent(moe__kernel_t *kernel, int tensor, int dimension, MlirType type);

/* States what the kernel needs of a dimension; a launcher refuses other sizes. what: "multiple_of",
 * "at_least", "at_most". */
void moe__kernel_require(moe__kernel_t *kernel, int tensor, int dimension, const char *what,
                         int64_t value);

/* States that two dimensions must have one size. */
void moe__kernel_require_same(moe__kernel_t *kernel, int tensor, int dimension, int other_tensor,
                              int other_dimension);

/* States that a dimension must be another one, divided and rounded up. */
void moe__kernel_require_quotient(moe__kernel_t *kernel, int tensor, int dimension,
                                  int other_tensor, int other_dimension, int64_t divisor);

/* States that `tensor`, a result of the op, is state of the kernel: zero before its first launch,
 * and left zero by every launch. Nothing else may read it. */
void moe__kernel_zeroed(moe__kernel_t *kernel, int tensor);

/* States that the kernel may start before the launch before it has ended. Its body calls
 * moe__grid_wait (Async.h) before it touches memory that an earlier launch reads or writes. */
void moe__kernel_programmatic(moe__kernel_t *kernel);

/* States that `ctas` CTAs side by side along x, 1 to 8, are a cluster: they run at the same
 * time, and reach each other's shared memory (Async.h). Grids are multiples of it. Before the
 * prologue. */
void moe__kernel_cluster(moe__kernel_t *kernel, int32_t ctas);

/* Reads the special registers and the base of shared memory; call once, after the parameters. */
void moe__kernel_prologue(moe__kernel_t *kernel);

/* Ends the body and appends the function `name` to gpu_module_body. grid: three expressions. */
void moe__kernel_end(moe__kernel_t *kernel, MlirBlock gpu_module_body, MlirStringRef name,
                     const char *const grid[3]);

/* Expressions, written to `out` (MOE__EXPRESSION_SIZE). */
void moe__expression_ceildiv(char *out, const char *value, int64_t divisor);
void moe__expression_mul(char *out, int count, const char *const *factors);
void moe__expression_add(char *out, int count, const char *const *terms);
void moe__expression_min(char *out, const char *x, const char *y);

/* The CTAs that are resident at once, and as many of them as there is work for: grids of
 * persistent kernels. */
void moe__expression_resident(char *out, int ctas_per_sm);
void moe__expression_persistent(char *out, const char *work, int ctas_per_sm);
/* The same where `work` is for clusters of so many CTAs: as many as the device holds at once. */
void moe__expression_persistent_clusters(char *out, const char *work, int32_t cluster_size);

#endif /* MOE_DEVICE_KERNEL_H */
