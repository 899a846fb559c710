/* Machine.c - runs a cluster: which warp goes on, and when asynchronous work is done.
 *
 * Why it exists: see Machine.h. Schedule 0 takes the warps in turn; any other is random, but the
 * same for the same seed.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Emulator/Machine.h"

#include <stdlib.h>
#include <time.h>

enum { TURN = 4096, MAX_RANDOM_TURN = 64, LATE_EVERY = 64, MAX_LATE = 512, NAN_BYTE = 0xFF };

uint32_t moe__emu_random(moe__emu_block_t *block, uint32_t limit) {
  moe__emu_cluster_t *cluster = block->cluster;
  if (cluster->machine->options.schedule == 0 || limit < 2)
    return 0;
  /* splitmix64 */
  uint64_t z = cluster->random += UINT64_C(0x9E3779B97F4A7C15);
  z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
  return (uint32_t)((z ^ z >> 31) >> 32) % limit;
}

/* ---- Memory ---- */

static bool create_block(moe__emu_cluster_t *cluster, uint32_t rank) {
  moe__emu_machine_t *machine = cluster->machine;
  moe__emu_block_t *block = &cluster->blocks[rank];
  const moe__emu_kernel_t *kernel = machine->kernel;
  uint32_t warps = machine->warp_count;
  size_t file = ((size_t)kernel->file_bytes + 63) / 64 * 64;
  *block = (moe__emu_block_t){.machine = machine,
                              .cluster = cluster,
                              .rank = rank,
                              .shared_bytes = machine->shared_bytes,
                              .order = &cluster->order};
  block->warps = calloc(warps, sizeof *block->warps);
  block->files = aligned_alloc(64, file * warps);
  block->shadows = calloc((size_t)kernel->row_count * warps, sizeof *block->shadows);
  block->shared = aligned_alloc(64, ((size_t)block->shared_bytes + 128) / 64 * 64);
  if (!block->warps || !block->files || !block->shadows || !block->shared ||
      !moe__emu_barriers_create(&block->barriers) || !moe__emu_matrix_create(&block->matrix, warps))
    return false;
  for (uint32_t w = 0; w < warps; w++) {
    block->warps[w].kernel = kernel;
    block->warps[w].agent = rank * warps + w;
    block->warps[w].file = block->files + w * file;
    block->warps[w].shadows = block->shadows + (size_t)w * kernel->row_count;
  }
  return true;
}

bool moe__emu_cluster_create(moe__emu_cluster_t *cluster, moe__emu_machine_t *machine) {
  *cluster = (moe__emu_cluster_t){.machine = machine};
  cluster->blocks = calloc(machine->cluster_size, sizeof *cluster->blocks);
  bool is_ok = cluster->blocks &&
               moe__emu_order_create(&cluster->order, machine->cluster_size, machine->warp_count,
                                     MOE__EMU_SHARED_BASE, machine->shared_bytes);
  for (uint32_t r = 0; is_ok && r < machine->cluster_size; r++)
    is_ok = create_block(cluster, r);
  cluster->order.enabled = !machine->options.skip_order;
  if (!is_ok)
    moe__emu_cluster_free(cluster);
  return is_ok;
}

static void free_block(moe__emu_block_t *block) {
  for (uint32_t w = 0; block->warps && w < block->machine->warp_count; w++)
    free(block->warps[w].matrix.ends);
  free(block->warps);
  free(block->files);
  free(block->shadows);
  free(block->shared);
  moe__emu_barriers_free(&block->barriers);
  moe__emu_async_free(&block->async);
  moe__emu_matrix_free(&block->matrix);
}

void moe__emu_cluster_free(moe__emu_cluster_t *cluster) {
  for (uint32_t r = 0; cluster->blocks && r < cluster->machine->cluster_size; r++)
    free_block(&cluster->blocks[r]);
  free(cluster->blocks);
  moe__emu_order_free(&cluster->order);
}

/* ---- The start ---- */

static void begin_block(moe__emu_block_t *block) {
  const moe_emu_launch_t *launch = block->machine->launch;
  uint64_t number = block->cluster->number * block->machine->cluster_size + block->rank;
  uint64_t x = launch->grid[0], y = launch->grid[1];
  block->number = number;
  block->index[0] = (uint32_t)(number % x);
  block->index[1] = (uint32_t)(number / x % y);
  block->index[2] = (uint32_t)(number / (x * y));
  block->has_waited = false;
  block->resumes = 0;
  memset(block->shared, NAN_BYTE, block->shared_bytes);
  moe__emu_barriers_reset(&block->barriers);
  moe__emu_async_reset(&block->async);
  moe__emu_matrix_reset(&block->matrix);
  block->registers_used = block->machine->first_registers * block->machine->warp_count;
  for (uint32_t w = 0; w < block->machine->warp_count; w++) {
    block->warps[w].cache = (moe__emu_global_cache_t){0};
    uint32_t *ends = block->warps[w].matrix.ends;
    uint32_t capacity = block->warps[w].matrix.capacity;
    block->warps[w].matrix = (moe__emu_matrix_warp_t){.ends = ends, .capacity = capacity};
    moe__emu_warp_begin(&block->warps[w], block, w);
  }
}

/* The blocks of a cluster lie side by side along x, of which the grid has a multiple: their numbers
 * follow each other. */
static void begin(moe__emu_cluster_t *cluster, uint64_t number) {
  cluster->number = number;
  cluster->random = cluster->machine->options.schedule * UINT64_C(0xD1342543DE82EF95) + number;
  cluster->now = cluster->events = 0;
  cluster->status = MOE_EMU_OK;
  cluster->report.text[0] = '\0';
  moe__emu_order_reset(&cluster->order);
  moe__emu_cluster_reset(cluster);
  for (uint32_t r = 0; r < cluster->machine->cluster_size; r++)
    begin_block(&cluster->blocks[r]);
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* ---- Running ---- */

/* Gives each warp of a block a turn, in the schedule's order; whether any has done something. */
static bool run_warps(moe__emu_block_t *block, uint32_t *alive) {
  uint32_t warps = block->machine->warp_count;
  uint32_t first = moe__emu_random(block, warps);
  bool is_random = block->machine->options.schedule != 0, is_done = false;
  for (uint32_t i = 0; i < warps && block->cluster->status == MOE_EMU_OK; i++) {
    moe__emu_warp_t *warp = &block->warps[(first + i) % warps];
    *alive += warp->split_count != 0;
    /* A random schedule skips some warps, and interrupts the others early. */
    if (is_random && moe__emu_random(block, 4) == 0) {
      is_done |= warp->split_count != 0;
      continue;
    }
    is_done |=
        moe__emu_warp_run(warp, is_random ? 1 + moe__emu_random(block, MAX_RANDOM_TURN) : TURN);
  }
  return is_done;
}

/* Whether a random schedule holds the block back, so that the others of its cluster run ahead as far
 * as they can. */
static bool is_late(moe__emu_block_t *block) {
  uint64_t now = block->cluster->now;
  if (block->machine->cluster_size == 1)
    return false;
  if (now >= block->resumes && moe__emu_random(block, LATE_EVERY) == 1)
    block->resumes = now + moe__emu_random(block, MAX_LATE);
  return now < block->resumes;
}

/* The same of all blocks. */
static bool run_blocks(moe__emu_cluster_t *cluster, uint32_t *out_alive) {
  uint32_t blocks = cluster->machine->cluster_size;
  uint32_t first = moe__emu_random(cluster->blocks, blocks);
  bool is_done = false;
  *out_alive = 0;
  for (uint32_t i = 0; i < blocks; i++) {
    moe__emu_block_t *block = &cluster->blocks[(first + i) % blocks];
    if (is_late(block)) {
      is_done = true;
      ++*out_alive;
    } else {
      is_done |= run_warps(block, out_alive);
    }
  }
  return is_done;
}

/* Does what is due in all blocks. False after a fault. */
static bool run_async(moe__emu_cluster_t *cluster, uint32_t *out_left) {
  *out_left = 0;
  for (uint32_t r = 0; r < cluster->machine->cluster_size; r++) {
    if (!moe__emu_async_run(&cluster->blocks[r]))
      return false;
    *out_left += cluster->blocks[r].async.count;
  }
  return true;
}

/* When the next of what is left is due; 0 when there is nothing. */
static uint64_t next_due(const moe__emu_cluster_t *cluster) {
  uint64_t first = 0;
  for (uint32_t r = 0; r < cluster->machine->cluster_size; r++) {
    uint64_t next = moe__emu_async_next(&cluster->blocks[r].async);
    if (next && (first == 0 || next < first))
      first = next;
  }
  return first;
}

static void end(moe__emu_cluster_t *cluster) {
  for (uint32_t r = 0; r < cluster->machine->cluster_size; r++) {
    if (!moe__emu_barriers_end(&cluster->blocks[r]))
      return;
  }
}

void moe__emu_cluster_run(moe__emu_cluster_t *cluster, uint64_t number) {
  begin(cluster, number);
  double deadline = cluster->machine->deadline;
  while (cluster->status == MOE_EMU_OK) {
    uint32_t alive = 0, left = 0;
    uint64_t events = cluster->events;
    bool is_done = run_blocks(cluster, &alive);
    cluster->now++;
    if (cluster->status != MOE_EMU_OK || !run_async(cluster, &left))
      return;
    if (alive == 0 && left == 0) {
      end(cluster);
      return;
    }
    if (!is_done && cluster->events == events) {
      uint64_t next = next_due(cluster);
      if (next == 0)
        moe__emu_fault_deadlock(cluster);
      else if (next > cluster->now)
        cluster->now = next;
    }
    if (deadline != 0 && seconds() > deadline)
      moe__emu_fault_block(cluster->blocks, MOE_EMU_TIMEOUT, "the time limit has passed");
  }
}
