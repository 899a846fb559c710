/* Async.h - Hopper's asynchronous machinery: the tensor memory accelerator (TMA), mbarriers, and
 * the ring that joins them.
 *
 * The ring is the pipeline every kernel here is built on: `stages` buffers in shared memory, each
 * with a barrier that is full when its bytes have landed and one that is empty when its readers are
 * done. One thread produces, warps consume; both walk the ring with a cursor of their own.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_DEVICE_ASYNC_H
#define MOE_DEVICE_ASYNC_H

#include "lib/Device/Kernel.h"

typedef struct moe__ring_t {
  int stages;
  int32_t stage_bytes;          /* distance of two buffers, a multiple of 1024 */
  int32_t buffers, full, empty; /* offsets in shared memory */
} moe__ring_t;

/* Where a thread stands: the stage, and the parity of the phase it waits for. */
typedef struct moe__cursor_t {
  MlirValue stage, phase; /* i32 */
} moe__cursor_t;

/* A cursor among the variables that a loop carries. */
#define MOE__CARRY_CURSOR(cursor) &(cursor).stage, &(cursor).phase

/* ---- mbarriers ---- */

/* Makes `barrier` (!llvm.ptr<3>) an mbarrier whose phases end after so many arrivals, and makes
 * those that this thread has made visible to the TMA; a barrier of the CTA, or of the cluster,
 * must follow. */
void moe__mbarrier_initialize(moe__builder_t *b, MlirValue barrier, int32_t arrivals);
void moe__fence_mbarriers(moe__builder_t *b);

/* Waits until the phase of this parity (i32) is over. */
void moe__mbarrier_wait(moe__builder_t *b, MlirValue barrier, MlirValue phase);

/* An arrival; one that also announces so many bytes (i32), which loads that complete on it
 * bring. */
void moe__mbarrier_arrive(moe__builder_t *b, MlirValue barrier);
void moe__mbarrier_arrive_expect(moe__builder_t *b, MlirValue barrier, MlirValue bytes);

/* `count` arrivals, which do not end the phase: at least one more must follow. */
void moe__mbarrier_arrive_early(moe__builder_t *b, MlirValue barrier, int32_t count);

/* ---- The ring ---- */

/* Reserves buffers and barriers. */
moe__ring_t moe__ring_reserve(moe__layout_t *layout, int stages, int32_t stage_bytes);

/* Initializes the barriers; consumers: how many arrivals empty a stage. One thread calls it; a
 * CTA barrier must follow. */
void moe__ring_initialize(moe__kernel_t *kernel, const moe__ring_t *ring, int32_t consumers);

/* The same for stages that are full after `fillers` arrivals, of which the bytes come with one. */
void moe__ring_initialize_filled(moe__kernel_t *kernel, const moe__ring_t *ring, int32_t fillers,
                                 int32_t consumers);

moe__cursor_t moe__cursor_start(moe__builder_t *b);
moe__cursor_t moe__cursor_next(moe__builder_t *b, const moe__ring_t *ring, moe__cursor_t cursor);

/* The cursor `count` (i32) stages further. */
moe__cursor_t moe__cursor_advance(moe__builder_t *b, const moe__ring_t *ring, moe__cursor_t cursor,
                                  MlirValue count);

/* The buffer of the cursor's stage. */
MlirValue moe__ring_buffer(moe__kernel_t *kernel, const moe__ring_t *ring, moe__cursor_t cursor);

/* Producer: waits until the stage is free, announces `bytes` (i32), and gives the barrier that
 * loads complete on. */
MlirValue moe__ring_acquire(moe__kernel_t *kernel, const moe__ring_t *ring, moe__cursor_t cursor,
                            MlirValue bytes);

/* Its parts, where loads complete on another barrier, or one lane announces what a warp waits
 * for: the wait, and the barrier whose one arrival says that the stage may be read. */
void moe__ring_wait_empty(moe__kernel_t *kernel, const moe__ring_t *ring, moe__cursor_t cursor);
MlirValue moe__ring_full(moe__kernel_t *kernel, const moe__ring_t *ring, moe__cursor_t cursor);

/* Consumer: waits until the stage has landed; later, one arrival of those that empty it. */
void moe__ring_wait(moe__kernel_t *kernel, const moe__ring_t *ring, moe__cursor_t cursor);
void moe__ring_release(moe__kernel_t *kernel, const moe__ring_t *ring, moe__cursor_t cursor);
/* The same arrival, at the ring of CTA `cluster_rank` (i32) of the cluster. */
void moe__ring_release_remote(moe__kernel_t *kernel, const moe__ring_t *ring, moe__cursor_t cursor,
                              MlirValue cluster_rank);

/* ---- Copies ---- */

/* Copies the box at `coordinates` (i32, innermost first) into shared memory, completing on
 * `barrier`. */
void moe__tma_load(moe__builder_t *b, MlirValue map, MlirValue shared, MlirValue barrier, int rank,
                   const MlirValue *coordinates);

/* The same of what nobody reads again: it is the first to leave L2. */
void moe__tma_load_once(moe__builder_t *b, MlirValue map, MlirValue shared, MlirValue barrier,
                        int rank, const MlirValue *coordinates);

/* The same into all CTAs of the cluster that the bits of `mask` (i16) name: at the offset of
 * `shared` in each one's shared memory, completing on its barrier at the offset of `barrier`. */
void moe__tma_load_multicast(moe__builder_t *b, MlirValue map, MlirValue shared, MlirValue barrier,
                             int rank, const MlirValue *coordinates, MlirValue mask);

/* Copies a box from shared memory; elements outside the tensor are not written. Part of the next
 * commit. */
void moe__tma_store(moe__builder_t *b, MlirValue map, MlirValue shared, int rank,
                    const MlirValue *coordinates);
void moe__tma_commit(moe__builder_t *b);

/* Waits until at most `pending` committed groups of this thread still read shared memory. */
void moe__tma_wait_read(moe__builder_t *b, int pending);

/* Copies `bytes` (i32) of global memory to shared memory, completing on `barrier`. Both
 * addresses and `bytes` are multiples of 16, and `bytes` is not 0; nothing is cut off. */
void moe__bulk_load(moe__builder_t *b, MlirValue shared, MlirValue global, MlirValue bytes,
                    MlirValue barrier);

/* Brings a tensor map into the descriptor cache. */
void moe__tma_prefetch_map(moe__builder_t *b, MlirValue map);

/* Makes this thread's ordinary writes to shared memory visible to the TMA and to wgmma; a
 * barrier must follow. */
void moe__fence_shared_to_async(moe__builder_t *b);

/* The same of ordinary writes to global memory, this thread's and those of others that it knows of:
 * who writes and who copies call it, one before it hands on what it wrote, the other behind what
 * told it. */
void moe__fence_global_to_async(moe__builder_t *b);

/* For a warp of which one lane is to release a stage: behind it all lanes have read what they read
 * there by ordinary loads, and the copies that overwrite it come later. The arrival alone would say
 * so to other threads only: the TMA is another proxy. */
void moe__end_reads_of_stage(moe__builder_t *b);

/* Barriers: of the whole CTA, of `threads` threads on barrier `id` (1..15), of a warp. */
void moe__cta_barrier(moe__builder_t *b);
void moe__named_barrier(moe__builder_t *b, int32_t id, int32_t threads);
void moe__barrier_of(moe__builder_t *b, MlirValue id, MlirValue threads); /* known at run time */
void moe__warp_barrier(moe__builder_t *b);

/* Clusters, of kernels that say moe__kernel_cluster. The address of the same place in CTA
 * `rank` (i32): !llvm.ptr<7>, also of this CTA. A CTA may use it only after a barrier of the
 * cluster, which says that all have begun; and it may exit only when the others are done with
 * its shared memory. */
MlirValue moe__shared_of_rank(moe__builder_t *b, MlirValue shared, MlirValue rank);

/* The barrier of all threads of the cluster, and its two halves: a warp's lanes come together.
 * What was done before the first is visible behind the second. Behind a wait for relaxed arrivals
 * all CTAs have begun, and mbarriers that were fenced before may be used; nothing else is visible,
 * and nothing is waited for before it arrives. */
void moe__cluster_barrier(moe__builder_t *b);
void moe__cluster_arrive(moe__builder_t *b);
void moe__cluster_arrive_relaxed(moe__builder_t *b);
void moe__cluster_wait(moe__builder_t *b);

/* Stores `value` (i32) to `shared` in CTA `rank` (i32) of the cluster, this one or another, some
 * time later; its 4 bytes complete on the mbarrier that is there at the place of `barrier`. */
void moe__store_async(moe__builder_t *b, MlirValue value, MlirValue shared, MlirValue barrier,
                      MlirValue rank);

/* Programmatic dependent launch, of kernels that say moe__kernel_programmatic. moe__grid_wait:
 * until the launches before this one have ended and what they wrote is visible; every thread
 * that needs it calls it. moe__grid_launch_dependents: the next launch may start once each CTA
 * of this one has called it or has ended; it promises nothing of what has been written. */
void moe__grid_wait(moe__builder_t *b);
void moe__grid_launch_dependents(moe__builder_t *b);

/* moe__grid_wait, then moe__grid_launch_dependents, of kernels that say moe__kernel_overlaps. The
 * next launch starts when those before this one have ended: of all that a launch finds under way,
 * only the launch before it may still write. */
void moe__grid_pass_on(moe__builder_t *b);

/* For a kernel that has nothing to prepare: says that it is programmatic, and calls
 * moe__grid_wait. */
void moe__kernel_await_launches(moe__kernel_t *kernel);

#endif /* MOE_DEVICE_ASYNC_H */
