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
  NAN_BYTE = 0xFF,
  MAX_PROXIES = 192 /* warps of a cluster of which each can be two agents */
};

/* ---- Memory ---- */

static bool create_cta(moe__emu_cluster_t *cluster, uint32_t rank) {
  moe__emu_machine_t *machine = cluster->machine;
  moe__emu_cta_t *cta = &cluster->ctas[rank];
  const moe__emu_kernel_t *kernel = machine->kernel;
  uint32_t warps = machine->warp_count;
  size_t file = ((size_t)kernel->file_bytes + 63) / 64 * 64;
  *cta = (moe__emu_cta_t){.machine = machine,
                          .cluster = cluster,
                          .rank = rank,
                          .shared_bytes = machine->shared_bytes,
                          .order = &cluster->order};
  cta->warps = calloc(warps, sizeof *cta->warps);
  cta->files = aligned_alloc(64, file * warps);
  cta->shadows = calloc((size_t)kernel->row_count * warps, sizeof *cta->shadows);
  cta->shared = aligned_alloc(64, ((size_t)cta->shared_bytes + 128) / 64 * 64);
  if (!cta->warps || !cta->files || !cta->shadows || !cta->shared ||
      !moe__emu_barriers_create(cta) || !moe__emu_mbarriers_create(cta) ||
      !moe__emu_async_create(cta) || !moe__emu_matrix_create(cta))
    return false;
  for (uint32_t w = 0; w < warps; w++) {
    cta->warps[w].kernel = kernel;
    cta->warps[w].agent = rank * warps + w;
    cta->warps[w].file = cta->files + w * file;
    cta->warps[w].shadows = cta->shadows + (size_t)w * kernel->row_count;
  }
  return true;
}

bool moe__emu_cluster_create(moe__emu_cluster_t *cluster, moe__emu_machine_t *machine) {
  *cluster = (moe__emu_cluster_t){.machine = machine};
  cluster->ctas = calloc(machine->cluster_size, sizeof *cluster->ctas);
  bool is_ok = cluster->ctas &&
               moe__emu_order_create(&cluster->order, machine->cluster_size, machine->warp_count,
                                     MOE__EMU_SHARED_BASE, machine->shared_bytes);
  for (uint32_t r = 0; is_ok && r < machine->cluster_size; r++)
    is_ok = create_cta(cluster, r);
  cluster->order.enabled = !machine->options.skip_order;
  cluster->order.arena = machine->races ? &machine->races->arena : NULL;
  cluster->order.has_proxies =
      machine->races && machine->has_bulk && cluster->order.warp_count <= MAX_PROXIES;
  if (!is_ok)
    moe__emu_cluster_free(cluster);
  return is_ok;
}

static void free_cta(moe__emu_cta_t *cta) {
  moe__emu_barriers_free(cta);
  moe__emu_mbarriers_free(cta);
  moe__emu_async_free(cta);
  moe__emu_matrix_free(cta);
  for (uint32_t w = 0; cta->warps && w < cta->machine->warp_count; w++)
    free(cta->warps[w].poison);
  free(cta->warps);
  free(cta->files);
  free(cta->shadows);
  free(cta->shared);
}

void moe__emu_cluster_free(moe__emu_cluster_t *cluster) {
  for (uint32_t r = 0; cluster->ctas && r < cluster->machine->cluster_size; r++)
    free_cta(&cluster->ctas[r]);
  free(cluster->ctas);
  moe__emu_order_free(&cluster->order);
}

/* ---- The start ---- */

static void begin_cta(moe__emu_cta_t *cta) {
  const moe_emu_launch_t *launch = cta->machine->launch;
  uint64_t number = cta->cluster->number * cta->machine->cluster_size + cta->rank;
  uint64_t x = launch->grid[0], y = launch->grid[1];
  cta->number = number;
  cta->index[0] = (uint32_t)(number % x);
  cta->index[1] = (uint32_t)(number / x % y);
  cta->index[2] = (uint32_t)(number / (x * y));
  cta->resumes = 0;
  memset(cta->shared, NAN_BYTE, cta->shared_bytes);
  moe__emu_barriers_reset(cta);
  moe__emu_mbarriers_reset(cta);
  moe__emu_async_reset(cta);
  moe__emu_matrix_reset(cta);
  cta->registers_used = cta->machine->first_registers * cta->machine->warp_count;
  for (uint32_t w = 0; w < cta->machine->warp_count; w++) {
    cta->warps[w].cache = (moe__emu_global_cache_t){0};
    moe__emu_warp_begin(&cta->warps[w], cta, w);
  }
}

/* The CTAs of a cluster lie side by side along x, of which the grid has a multiple: their numbers
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
    begin_cta(&cluster->ctas[r]);
}

/* ---- Running ---- */

/* Gives each warp of a CTA a turn, in the schedule's order; whether any has done something. */
static bool run_warps(moe__emu_cta_t *cta, uint32_t *alive) {
  uint32_t warps = cta->machine->warp_count;
  uint32_t first = moe__emu_random(cta, warps);
  bool is_random = cta->machine->options.schedule != 0, is_done = false;
  for (uint32_t i = 0; i < warps && cta->cluster->status == MOE_EMU_OK; i++) {
    moe__emu_warp_t *warp = &cta->warps[(first + i) % warps];
    *alive += warp->split_count != 0;
    /* A random schedule skips some warps, and interrupts the others early. */
    if (is_random && moe__emu_random(cta, 4) == 0) {
      is_done |= warp->split_count != 0;
      continue;
    }
    /* Clusters that may learn of each other are interrupted often. */
    bool is_short = cta->machine->races && moe__emu_random(cta, 2);
    uint32_t most = is_short ? MAX_SHORT_TURN : MAX_RANDOM_TURN;
    is_done |= moe__emu_warp_run(warp, is_random ? 1 + moe__emu_random(cta, most) : TURN);
  }
  return is_done;
}

/* Whether a random schedule holds the CTA back, so that the others of its cluster run ahead as
 * far as they can. */
static bool is_late(moe__emu_cta_t *cta) {
  uint64_t now = cta->cluster->now;
  if (cta->machine->cluster_size == 1)
    return false;
  if (now >= cta->resumes && moe__emu_random(cta, LATE_EVERY) == 1)
    cta->resumes = now + moe__emu_random(cta, MAX_LATE);
  return now < cta->resumes;
}

/* The same of all CTAs. */
static bool run_ctas(moe__emu_cluster_t *cluster, uint32_t *out_alive) {
  uint32_t ctas = cluster->machine->cluster_size;
  uint32_t first = moe__emu_random(cluster->ctas, ctas);
  bool is_done = false;
  *out_alive = 0;
  for (uint32_t i = 0; i < ctas; i++) {
    moe__emu_cta_t *cta = &cluster->ctas[(first + i) % ctas];
    if (is_late(cta)) {
      is_done = true;
      ++*out_alive;
    } else {
      is_done |= run_warps(cta, out_alive);
    }
  }
  return is_done;
}

/* Does what is due in all CTAs. False after a fault. */
static bool run_async(moe__emu_cluster_t *cluster, uint32_t *out_left) {
  *out_left = 0;
  for (uint32_t r = 0; r < cluster->machine->cluster_size; r++) {
    if (!moe__emu_async_run(&cluster->ctas[r]))
      return false;
    *out_left += cluster->ctas[r].async->count;
  }
  return true;
}

/* When the next of what is left is due; 0 when there is nothing. */
static uint64_t next_due(const moe__emu_cluster_t *cluster) {
  uint64_t first = 0;
  for (uint32_t r = 0; r < cluster->machine->cluster_size; r++) {
    uint64_t next = moe__emu_async_next(cluster->ctas[r].async);
    if (next && (first == 0 || next < first))
      first = next;
  }
  return first;
}

static void end(moe__emu_cluster_t *cluster) {
  for (uint32_t r = 0; r < cluster->machine->cluster_size; r++) {
    if (!moe__emu_barriers_end(&cluster->ctas[r]) || !moe__emu_mbarriers_end(&cluster->ctas[r]))
      return;
  }
}

/* Gives every CTA a turn; false when the cluster has ended. */
static bool run_turn(moe__emu_cluster_t *cluster) {
  uint32_t alive = 0, left = 0;
  uint64_t events = cluster->events, limit = cluster->machine->options.step_limit;
  bool is_done = run_ctas(cluster, &alive);
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
    moe__emu_fault_cta(cluster->ctas, MOE_EMU_LIMIT,
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
  return 1 + moe__emu_random(cluster->ctas, moe__emu_random(cluster->ctas, 4) ? 1 : MAX_TURNS);
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
    uint32_t chosen = options->schedule ? moe__emu_random(list[0]->ctas, running) : last % running;
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
