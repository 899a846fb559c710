/* Async.c - see Async.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Device/Async.h"

#include <stdio.h>

/* How long try_wait may sleep before it looks again, in nanoseconds; only a hint. */
#define WAIT_NANOSECONDS 10000000

#define MAX_RANK 5

/* ---- mbarriers ---- */

void moe__mbarrier_initialize(moe__builder_t *b, MlirValue barrier, int32_t arrivals) {
  moe__op0(b, "nvvm.mbarrier.init", MOE__VALUES(barrier, moe__i32(b, arrivals)), NULL);
}

/* The TMA signals barriers through another proxy: it must see them initialized. */
void moe__fence_mbarriers(moe__builder_t *b) {
  moe__op0(b, "nvvm.fence.mbarrier.init", MOE__NO_VALUES, NULL);
}

void moe__mbarrier_wait(moe__builder_t *b, MlirValue barrier, MlirValue phase) {
  moe__op0(b, "nvvm.mbarrier.try_wait.parity",
           MOE__VALUES(barrier, phase, moe__i32(b, WAIT_NANOSECONDS)), NULL);
}

void moe__mbarrier_arrive(moe__builder_t *b, MlirValue barrier) {
  moe__op1(b, "nvvm.mbarrier.arrive", b->i64, MOE__VALUES(barrier), NULL);
}

void moe__mbarrier_arrive_expect(moe__builder_t *b, MlirValue barrier, MlirValue bytes) {
  moe__op0(b, "nvvm.mbarrier.arrive.expect_tx", MOE__VALUES(barrier, bytes), NULL);
}

void moe__mbarrier_arrive_early(moe__builder_t *b, MlirValue barrier, int32_t count) {
  moe__op1(b, "nvvm.mbarrier.arrive.nocomplete", b->i64, MOE__VALUES(barrier, moe__i32(b, count)),
           NULL);
}

/* ---- The ring ---- */

moe__ring_t moe__ring_reserve(moe__layout_t *layout, int stages, int32_t stage_bytes) {
  moe__ring_t ring = {.stages = stages, .stage_bytes = (stage_bytes + 1023) / 1024 * 1024};
  ring.buffers = moe__layout_shared(layout, stages * ring.stage_bytes, 1024);
  ring.full = moe__layout_shared(layout, stages * 8, 8);
  ring.empty = moe__layout_shared(layout, stages * 8, 8);
  return ring;
}

void moe__ring_initialize(moe__kernel_t *kernel, const moe__ring_t *ring, int32_t consumers) {
  moe__ring_initialize_filled(kernel, ring, 1, consumers);
}

void moe__ring_initialize_filled(moe__kernel_t *kernel, const moe__ring_t *ring, int32_t fillers,
                                 int32_t consumers) {
  moe__builder_t *b = &kernel->builder;
  for (int i = 0; i < ring->stages; i++) {
    moe__mbarrier_initialize(b, moe__offset_by(b, kernel->shared, ring->full + 8 * i), fillers);
    moe__mbarrier_initialize(b, moe__offset_by(b, kernel->shared, ring->empty + 8 * i), consumers);
  }
  moe__fence_mbarriers(b);
}

moe__cursor_t moe__cursor_start(moe__builder_t *b) {
  return (moe__cursor_t){moe__i32(b, 0), moe__i32(b, 0)};
}

moe__cursor_t moe__cursor_next(moe__builder_t *b, const moe__ring_t *ring, moe__cursor_t cursor) {
  MlirValue stage = moe__add(b, cursor.stage, 1);
  MlirValue wraps = moe__eq(b, stage, ring->stages);
  return (moe__cursor_t){
      moe__select(b, wraps, 0, stage),
      moe__xor(b, cursor.phase, moe__zext(b, wraps, b->i32)),
  };
}

moe__cursor_t moe__cursor_advance(moe__builder_t *b, const moe__ring_t *ring, moe__cursor_t cursor,
                                  MlirValue count) {
  MlirValue stages = moe__i32(b, ring->stages), end = moe__add(b, cursor.stage, count);
  MlirValue is_odd = moe__and(b, moe__udiv(b, end, stages), 1);
  return (moe__cursor_t){moe__urem(b, end, stages), moe__xor(b, cursor.phase, is_odd)};
}

MlirValue moe__ring_buffer(moe__kernel_t *kernel, const moe__ring_t *ring, moe__cursor_t cursor) {
  moe__builder_t *b = &kernel->builder;
  MlirValue offset = moe__mul(b, cursor.stage, ring->stage_bytes);
  return moe__offset_by(b, moe__offset(b, kernel->shared, offset), ring->buffers);
}

static MlirValue barrier_of(moe__kernel_t *kernel, int32_t barriers, moe__cursor_t cursor) {
  moe__builder_t *b = &kernel->builder;
  return moe__offset_by(b, moe__offset(b, kernel->shared, moe__shl(b, cursor.stage, 3)), barriers);
}

void moe__ring_wait_empty(moe__kernel_t *kernel, const moe__ring_t *ring, moe__cursor_t cursor) {
  moe__builder_t *b = &kernel->builder;
  /* The other parity: a fresh barrier counts as having completed phase 1, so the first round does
   * not wait. */
  moe__mbarrier_wait(b, barrier_of(kernel, ring->empty, cursor), moe__xor(b, cursor.phase, 1));
}

MlirValue moe__ring_full(moe__kernel_t *kernel, const moe__ring_t *ring, moe__cursor_t cursor) {
  return barrier_of(kernel, ring->full, cursor);
}

MlirValue moe__ring_acquire(moe__kernel_t *kernel, const moe__ring_t *ring, moe__cursor_t cursor,
                            MlirValue bytes) {
  moe__ring_wait_empty(kernel, ring, cursor);
  MlirValue full = moe__ring_full(kernel, ring, cursor);
  moe__mbarrier_arrive_expect(&kernel->builder, full, bytes);
  return full;
}

void moe__ring_wait(moe__kernel_t *kernel, const moe__ring_t *ring, moe__cursor_t cursor) {
  moe__mbarrier_wait(&kernel->builder, barrier_of(kernel, ring->full, cursor), cursor.phase);
}

void moe__ring_release(moe__kernel_t *kernel, const moe__ring_t *ring, moe__cursor_t cursor) {
  moe__mbarrier_arrive(&kernel->builder, barrier_of(kernel, ring->empty, cursor));
}

/* Who empties a stage has read it, and hands nothing on: the order that an arrival makes within
 * its CTA is enough. One with the cluster's scope would wait until all of the thread's
 * accesses to memory are seen by the device, at every stage. */
void moe__ring_release_remote(moe__kernel_t *kernel, const moe__ring_t *ring, moe__cursor_t cursor,
                              MlirValue cluster_rank) {
  moe__builder_t *b = &kernel->builder;
  MlirValue barrier = moe__shared_of_rank(b, barrier_of(kernel, ring->empty, cursor), cluster_rank);
  moe__op0(b, "nvvm.mbarrier.arrive", MOE__VALUES(barrier), "scope = #nvvm.mem_scope<cta>");
}

/* ---- Tensor memory accelerator ---- */

/* Loads take a cluster address, as the form with a CTA's needs more than PTX 8.0; the CTA's own
 * address is valid in it. */
static MlirValue in_cluster(moe__builder_t *b, MlirValue shared) {
  return moe__op1(b, "llvm.addrspacecast", b->cluster_ptr, MOE__VALUES(shared), NULL);
}

/* mask: NULL where there is none. policy: of L2; 0 for the usual one. */
static void load_box(moe__builder_t *b, MlirValue map, MlirValue shared, MlirValue barrier,
                     int rank, const MlirValue *coordinates, const MlirValue *mask,
                     int64_t policy) {
  MlirValue operands[5 + MAX_RANK] = {in_cluster(b, shared), map};
  int count = 3 + rank;
  for (int i = 0; i < rank; i++)
    operands[2 + i] = coordinates[i];
  operands[2 + rank] = barrier;
  if (mask)
    operands[count++] = *mask;
  if (policy)
    operands[count++] = moe__i64(b, policy);
  char attributes[80];
  snprintf(attributes, sizeof attributes,
           "operandSegmentSizes = array<i32: 1, 1, %d, 1, 0, %d, %d, 0>", rank, mask != NULL,
           policy != 0);
  moe__op0(b, "nvvm.cp.async.bulk.tensor.shared.cluster.global", count, operands, attributes);
}

void moe__tma_load(moe__builder_t *b, MlirValue map, MlirValue shared, MlirValue barrier, int rank,
                   const MlirValue *coordinates) {
  load_box(b, map, shared, barrier, rank, coordinates, NULL, 0);
}

/* What createpolicy.fractional.L2::evict_first gives for all accesses. */
#define EVICT_FIRST 0x12F0000000000000

void moe__tma_load_once(moe__builder_t *b, MlirValue map, MlirValue shared, MlirValue barrier,
                        int rank, const MlirValue *coordinates) {
  load_box(b, map, shared, barrier, rank, coordinates, NULL, EVICT_FIRST);
}

void moe__tma_load_multicast(moe__builder_t *b, MlirValue map, MlirValue shared, MlirValue barrier,
                             int rank, const MlirValue *coordinates, MlirValue mask) {
  load_box(b, map, shared, barrier, rank, coordinates, &mask, 0);
}

void moe__tma_store(moe__builder_t *b, MlirValue map, MlirValue shared, int rank,
                    const MlirValue *coordinates) {
  MlirValue operands[2 + MAX_RANK] = {map, shared};
  for (int i = 0; i < rank; i++)
    operands[2 + i] = coordinates[i];
  char attributes[64];
  snprintf(attributes, sizeof attributes, "operandSegmentSizes = array<i32: 1, 1, %d, 0, 0>", rank);
  moe__op0(b, "nvvm.cp.async.bulk.tensor.global.shared.cta", 2 + rank, operands, attributes);
}

void moe__tma_commit(moe__builder_t *b) {
  moe__op0(b, "nvvm.cp.async.bulk.commit.group", MOE__NO_VALUES, NULL);
}

void moe__tma_wait_read(moe__builder_t *b, int pending) {
  char attributes[48];
  snprintf(attributes, sizeof attributes, "group = %d : i32, read", pending);
  moe__op0(b, "nvvm.cp.async.bulk.wait_group", MOE__NO_VALUES, attributes);
}

void moe__bulk_load(moe__builder_t *b, MlirValue shared, MlirValue global, MlirValue bytes,
                    MlirValue barrier) {
  moe__op0(b, "nvvm.cp.async.bulk.shared.cluster.global",
           MOE__VALUES(in_cluster(b, shared), global, barrier, bytes),
           "operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0>");
}

void moe__tma_prefetch_map(moe__builder_t *b, MlirValue map) {
  moe__op0(b, "nvvm.prefetch", MOE__VALUES(map), "tensormap");
}

/* ---- Fences and barriers ---- */

void moe__fence_shared_to_async(moe__builder_t *b) {
  moe__op0(b, "nvvm.fence.proxy", MOE__NO_VALUES,
           "kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>");
}

void moe__fence_global_to_async(moe__builder_t *b) {
  moe__op0(b, "nvvm.fence.proxy", MOE__NO_VALUES, "kind = #nvvm.proxy_kind<async.global>");
}

void moe__end_reads_of_stage(moe__builder_t *b) {
  moe__fence_shared_to_async(b);
  moe__warp_barrier(b);
}

void moe__cta_barrier(moe__builder_t *b) {
  moe__op0(b, "nvvm.barrier", MOE__NO_VALUES, "operandSegmentSizes = array<i32: 0, 0, 0>");
}

void moe__barrier_of(moe__builder_t *b, MlirValue id, MlirValue threads) {
  moe__op0(b, "nvvm.barrier", MOE__VALUES(id, threads),
           "operandSegmentSizes = array<i32: 1, 1, 0>");
}

void moe__named_barrier(moe__builder_t *b, int32_t id, int32_t threads) {
  MlirValue id_value = moe__i32(b, id);
  moe__barrier_of(b, id_value, moe__i32(b, threads));
}

void moe__warp_barrier(moe__builder_t *b) {
  moe__op0(b, "nvvm.bar.warp.sync", MOE__VALUES(moe__i32(b, -1)), NULL);
}

/* ---- Clusters ---- */

MlirValue moe__shared_of_rank(moe__builder_t *b, MlirValue shared, MlirValue rank) {
  return moe__op1(b, "nvvm.mapa", b->cluster_ptr, MOE__VALUES(shared, rank), NULL);
}

void moe__cluster_arrive(moe__builder_t *b) {
  moe__op0(b, "nvvm.cluster.arrive", MOE__NO_VALUES, "aligned");
}

void moe__cluster_arrive_relaxed(moe__builder_t *b) {
  moe__op0(b, "nvvm.cluster.arrive.relaxed", MOE__NO_VALUES, "aligned");
}

void moe__cluster_wait(moe__builder_t *b) {
  moe__op0(b, "nvvm.cluster.wait", MOE__NO_VALUES, "aligned");
}

void moe__cluster_barrier(moe__builder_t *b) {
  moe__cluster_arrive(b);
  moe__cluster_wait(b);
}

void moe__store_async(moe__builder_t *b, MlirValue value, MlirValue shared, MlirValue barrier,
                      MlirValue rank) {
  moe__op0(b, "llvm.inline_asm",
           MOE__VALUES(moe__shared_of_rank(b, shared, rank), value,
                       moe__shared_of_rank(b, barrier, rank)),
           "asm_dialect = 0 : i64, has_side_effects, asm_string = "
           "\"st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [$0], $1, [$2];\", "
           "constraints = \"l,r,l\"");
}

/* ---- Programmatic dependent launch ---- */

void moe__grid_wait(moe__builder_t *b) {
  moe__op0(b, "nvvm.griddepcontrol", MOE__NO_VALUES, "kind = #nvvm<grid_dep_action wait>");
}

void moe__grid_launch_dependents(moe__builder_t *b) {
  moe__op0(b, "nvvm.griddepcontrol", MOE__NO_VALUES,
           "kind = #nvvm<grid_dep_action launch_dependents>");
}

void moe__grid_pass_on(moe__builder_t *b) {
  moe__grid_wait(b);
  moe__grid_launch_dependents(b);
}

void moe__kernel_await_launches(moe__kernel_t *kernel) {
  moe__kernel_programmatic(kernel);
  moe__grid_wait(&kernel->builder);
}
