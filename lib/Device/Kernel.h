/* Kernel.h - a kernel under construction: its parameters, its shared memory, its launch bounds.
 *
 * Why it exists: everything a launcher must know of a kernel is recorded where the kernel uses it,
 * so that the manifest can never disagree with the code. moe__kernel_end writes the record
 * (Record.h) to the kernel as the attribute `moe.kernel`.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_DEVICE_KERNEL_H
#define MOE_DEVICE_KERNEL_H

#include "lib/Builder/Builder.h"
#include "lib/Device/Layout.h"
#include "lib/Device/Record.h"

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
  moe__record_t record;
} moe__kernel_t;

/* A dimension inside a kernel: a constant where the type says so, else a scalar parameter. */
typedef struct moe__extent_t {
  int64_t size;                        /* -1 when dynamic */
  MlirValue value;                     /* i32 */
  const moe__expression_t *expression; /* for grids and tensor maps */
} moe__extent_t;

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

/* Adds the address of three i32 by which the CTAs of a launch share their work; at most once.
 * They are zero before the launch, and it leaves them zero, for the next one. !llvm.ptr<1>. */
MlirValue moe__kernel_counters(moe__kernel_t *kernel);

/* Adds the addresses of room for sums that a CTA of a launch hands on to another, and of words that
 * say which ones are there; at most once each. For each multiprocessor there are
 * MOE__PARTIAL_SUMS f32 and MOE__ARRIVALS i32, which are zero before the launch, and it leaves them
 * zero. !llvm.ptr<1>. */
MlirValue moe__kernel_partials(moe__kernel_t *kernel);
MlirValue moe__kernel_arrivals(moe__kernel_t *kernel);

/* The extent of dimension `dimension` of tensor number `tensor` of this ranked type: a parameter
 * only when dynamic. */
moe__extent_t moe__kernel_extent(moe__kernel_t *kernel, int tensor, int dimension, MlirType type);

/* The same, a parameter also when static: the kernel is that of a dynamic size. */
moe__extent_t moe__kernel_hidden_extent(moe__kernel_t *kernel, int tensor, int dimension,
                                        MlirType type);

/* An extent that is a constant. */
moe__extent_t moe__kernel_constant_extent(moe__kernel_t *kernel, int64_t size);

/* Those of a tensor of rank 2, whose count is 1, or 3: a number of matrices of rows x columns. */
void moe__kernel_matrices(moe__kernel_t *kernel, int tensor, MlirType type, moe__extent_t *count,
                          moe__extent_t *rows, moe__extent_t *columns);

/* States what the kernel needs of a dimension; a launcher refuses other sizes. kind:
 * MOE__MULTIPLE_OF, MOE__AT_LEAST, MOE__AT_MOST. */
void moe__kernel_require(moe__kernel_t *kernel, int tensor, int dimension,
                         moe__requirement_kind_t kind, int64_t value);

/* States that two dimensions must have one size. */
void moe__kernel_require_same(moe__kernel_t *kernel, int tensor, int dimension, int other_tensor,
                              int other_dimension);

/* States that a dimension must be another one, divided and rounded up; and one more for each of
 * dimension 0 of tensor `groups`, unless that is -1. */
void moe__kernel_require_quotient(moe__kernel_t *kernel, int tensor, int dimension,
                                  int other_tensor, int other_dimension, int64_t divisor,
                                  int groups);

/* States that `tensor`, a result of the op, is state of the kernel: zero before its first launch,
 * and left zero by every launch. Nothing else may read it. */
void moe__kernel_zeroed(moe__kernel_t *kernel, int tensor);

/* States that the kernel may start before the launch before it has ended. Its body calls
 * moe__grid_wait (Async.h) before it touches memory that an earlier launch reads or writes. */
void moe__kernel_programmatic(moe__kernel_t *kernel);

/* States that it may also start before whatever is before it on the stream has ended, where its
 * launch is the first one of a function. Its body touches nothing before moe__grid_wait but
 * constants (moe__is_constant). */
void moe__kernel_overlaps(moe__kernel_t *kernel);

/* States that `ctas` CTAs side by side along x, 1 to 8, are a cluster: they run at the same
 * time, and reach each other's shared memory (Async.h). Grids are multiples of it. Before the
 * prologue. */
void moe__kernel_cluster(moe__kernel_t *kernel, int32_t ctas);

/* Reads the special registers and the base of shared memory; call once, after the parameters. */
void moe__kernel_prologue(moe__kernel_t *kernel);

/* Ends the body and appends the function `name` to gpu_module_body. grid: the CTAs of a launch,
 * along x. The kernel's expressions are gone then. */
void moe__kernel_end(moe__kernel_t *kernel, MlirBlock gpu_module_body, MlirStringRef name,
                     const moe__expression_t *grid);

#endif /* MOE_DEVICE_KERNEL_H */
