/* Scheduler.c - runs a cluster: which warp goes on, and when asynchronous work is done.
 *
 * Why it exists: see Scheduler.h. Schedule 0 takes the warps in turn; any other is random, but the
 * same for the same seed.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Emulator/Scheduler.h"

#include "lib/Emulator/Deadlock.h"
#include "lib/Emulator/Instructions/Barrier.h"
#include "lib/Emulator/Instructions/Cluster.h"
#include "lib/Emulator/Instructions/Matrix.h"
#include "lib/Emulator/Instructions/Mbarrier.h"
#include "lib/Emulator/Machine/Async.h"
#include "lib/Emulator/Machine/Random.h"
#include "lib/Emulator/Machine/Report.h"
#include "lib/Emulator/Machine/Warp.h"

#include <stdlib.h>
#include <string.h>

enum {
  TURN = 4096,
  MAX_RANDOM_TURN = 64,
  MAX_SHORT_TURN = 3,
  LATE_EVERY = 64,
  MAX_LATE = 512,
  MAX_TURNS = 16,
  NAN_BYTE = 0xFF
};

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
      !moe__emu_barriers_create(block) || !moe__emu_mbarriers_create(block) ||
      !moe__emu_async_create(block) || !moe__emu_matrix_create(block))
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
  cluster->order.arena = machine->races ? &machine->races->arena : NULL;
  if (!is_ok)
    moe__emu_cluster_free(cluster);
  return is_ok;
}

static void free_block(moe__emu_block_t *block) {
  moe__emu_barriers_free(block);
  moe__emu_mbarriers_free(block);
  moe__emu_async_free(block);
  moe__emu_matrix_free(block);
  for (uint32_t w = 0; block->warps && w < block->machine->warp_count; w++)
    free(block->warps[w].poison);
  free(block->warps);
  free(block->files);
  free(block->shadows);
  free(block->shared);
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
  block->resumes = 0;
  memset(block->shared, NAN_BYTE, block->shared_bytes);
  moe__emu_barriers_reset(block);
  moe__emu_mbarriers_reset(block);
  moe__emu_async_reset(block);
  moe__emu_matrix_reset(block);
  block->registers_used = block->machine->first_registers * block->machine->warp_count;
  for (uint32_t w = 0; w < block->machine->warp_count; w++) {
    block->warps[w].cache = (moe__emu_global_cache_t){0};
    moe__emu_warp_begin(&block->warps[w], block, w);
  }
}

/* The blocks of a cluster lie side by side along x, of which the grid has a multiple: their numbers
 * follow each other. */
static void begin(moe__emu_cluster_t *cluster, uint64_t number) {
  cluster->number = number;
  cluster->random = cluster->machine->options.schedule * UINT64_C(0xD1342543DE82EF95) + number;
  cluster->now = cluster->events = cluster->steps = 0;
  cluster->status = MOE_EMU_OK;
  cluster->report.text[0] = '\0';
  moe__emu_order_reset(&cluster->order, (uint32_t)number);
  moe__emu_cluster_reset(cluster);
  for (uint32_t r = 0; r < cluster->machine->cluster_size; r++)
    begin_block(&cluster->blocks[r]);
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
    /* Clusters that may learn of each other are interrupted often. */
    bool is_short = block->machine->races && moe__emu_random(block, 2);
    uint32_t most = is_short ? MAX_SHORT_TURN : MAX_RANDOM_TURN;
    is_done |= moe__emu_warp_run(warp, is_random ? 1 + moe__emu_random(block, most) : TURN);
  }
  return is_done;
}

/* Whether a random schedule holds the block back, so that the others of its cluster run ahead as
 * far as they can. */
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
    *out_left += cluster->blocks[r].async->count;
  }
  return true;
}

/* When the next of what is left is due; 0 when there is nothing. */
static uint64_t next_due(const moe__emu_cluster_t *cluster) {
  uint64_t first = 0;
  for (uint32_t r = 0; r < cluster->machine->cluster_size; r++) {
    uint64_t next = moe__emu_async_next(cluster->blocks[r].async);
    if (next && (first == 0 || next < first))
      first = next;
  }
  return first;
}

static void end(moe__emu_cluster_t *cluster) {
  for (uint32_t r = 0; r < cluster->machine->cluster_size; r++) {
    if (!moe__emu_barriers_end(&cluster->blocks[r]) || !moe__emu_mbarriers_end(&cluster->blocks[r]))
      return;
  }
}

/* Gives every block a turn; false when the cluster has ended. */
static bool run_turn(moe__emu_cluster_t *cluster) {
  uint32_t alive = 0, left = 0;
  uint64_t events = cluster->events, limit = cluster->machine->options.step_limit;
  bool is_done = run_blocks(cluster, &alive);
  cluster->now++;
  if (cluster->status != MOE_EMU_OK || !run_async(cluster, &left))
    return false;
  if (alive == 0 && left == 0) {
    end(cluster);
    return false;
  }
  if (!is_done && cluster->events == events) {
    uint64_t next = next_due(cluster);
    if (next == 0)
      moe__emu_fault_deadlock(cluster);
    else if (next > cluster->now)
      cluster->now = next;
  }
  if (limit && cluster->steps > limit)
    moe__emu_fault_block(cluster->blocks, MOE_EMU_LIMIT,
                         "the limit of %llu steps of its cluster is reached",
                         (unsigned long long)limit);
  return cluster->status == MOE_EMU_OK;
}

void moe__emu_cluster_run(moe__emu_cluster_t *cluster, uint64_t number) {
  begin(cluster, number);
  while (run_turn(cluster))
    continue;
}

/* How many turns a cluster has before another one goes on. */
static uint32_t choose_turns(moe__emu_cluster_t *cluster) {
  if (cluster->machine->options.schedule == 0)
    return MAX_TURNS;
  return 1 + moe__emu_random(cluster->blocks, moe__emu_random(cluster->blocks, 4) ? 1 : MAX_TURNS);
}

moe__emu_cluster_t *moe__emu_clusters_run(moe__emu_cluster_t *clusters, uint32_t count,
                                          uint64_t total) {
  moe__emu_cluster_t *list[MOE__EMU_MAX_RUNNING];
  const moe_emu_options_t *options = &clusters->machine->options;
  uint64_t next = 0;
  uint32_t running = 0, last = 0;
  for (; running < count && next < total; running++) {
    list[running] = &clusters[running];
    begin(list[running], next++);
  }
  while (running) {
    uint32_t chosen =
        options->schedule ? moe__emu_random(list[0]->blocks, running) : last % running;
    moe__emu_cluster_t *cluster = list[chosen];
    bool is_running = true;
    for (uint32_t turns = choose_turns(cluster); is_running && turns; turns--)
      is_running = run_turn(cluster);
    if (cluster->status != MOE_EMU_OK)
      return cluster;
    last = is_running ? chosen + 1 : chosen;
    if (!is_running && next < total)
      begin(cluster, next++);
    else if (!is_running)
      list[chosen] = list[--running];
  }
  return NULL;
}
