/* Machine.c - runs a block: which warp goes on, and when asynchronous work is done.
 *
 * Why it exists: see Machine.h. Schedule 0 takes the warps in turn; any other is random, but the
 * same for the same seed.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Emulator/Machine.h"

#include <stdlib.h>
#include <time.h>

enum { TURN = 4096, MAX_RANDOM_TURN = 64, NAN_BYTE = 0xFF };

uint32_t moe__emu_random(moe__emu_block_t *block, uint32_t limit) {
  if (block->machine->options.schedule == 0 || limit < 2)
    return 0;
  /* splitmix64 */
  uint64_t z = block->random += UINT64_C(0x9E3779B97F4A7C15);
  z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
  return (uint32_t)((z ^ z >> 31) >> 32) % limit;
}

bool moe__emu_block_create(moe__emu_block_t *block, moe__emu_machine_t *machine) {
  const moe__emu_kernel_t *kernel = machine->kernel;
  uint32_t warps = machine->warp_count;
  size_t file = ((size_t)kernel->file_bytes + 63) / 64 * 64;
  *block = (moe__emu_block_t){.machine = machine, .shared_bytes = machine->shared_bytes};
  block->warps = calloc(warps, sizeof *block->warps);
  block->files = aligned_alloc(64, file * warps);
  block->shadows = calloc((size_t)kernel->row_count * warps, sizeof *block->shadows);
  block->shared = aligned_alloc(64, ((size_t)block->shared_bytes + 128) / 64 * 64);
  if (!block->warps || !block->files || !block->shadows || !block->shared ||
      !moe__emu_order_create(&block->order, warps, MOE__EMU_SHARED_BASE, block->shared_bytes) ||
      !moe__emu_barriers_create(&block->barriers) ||
      !moe__emu_matrix_create(&block->matrix, warps)) {
    moe__emu_block_free(block);
    return false;
  }
  block->order.enabled = !machine->options.skip_order;
  for (uint32_t w = 0; w < warps; w++) {
    block->warps[w].kernel = kernel;
    block->warps[w].file = block->files + w * file;
    block->warps[w].shadows = block->shadows + (size_t)w * kernel->row_count;
  }
  return true;
}

void moe__emu_block_free(moe__emu_block_t *block) {
  for (uint32_t w = 0; block->warps && w < block->machine->warp_count; w++)
    free(block->warps[w].matrix.ends);
  free(block->warps);
  free(block->files);
  free(block->shadows);
  free(block->shared);
  moe__emu_order_free(&block->order);
  moe__emu_barriers_free(&block->barriers);
  moe__emu_async_free(&block->async);
  moe__emu_matrix_free(&block->matrix);
}

static void begin(moe__emu_block_t *block, uint64_t number) {
  const moe_emu_launch_t *launch = block->machine->launch;
  uint64_t x = launch->grid[0], y = launch->grid[1];
  block->number = number;
  block->index[0] = (uint32_t)(number % x);
  block->index[1] = (uint32_t)(number / x % y);
  block->index[2] = (uint32_t)(number / (x * y));
  block->random = block->machine->options.schedule * UINT64_C(0xD1342543DE82EF95) + number;
  block->now = block->events = 0;
  block->has_waited = false;
  block->status = MOE_EMU_OK;
  block->report.text[0] = '\0';
  memset(block->shared, NAN_BYTE, block->shared_bytes);
  moe__emu_order_reset(&block->order);
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

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Gives each warp a turn, in the schedule's order; whether any has done something. */
static bool run_warps(moe__emu_block_t *block, uint32_t *out_alive) {
  uint32_t warps = block->machine->warp_count;
  uint32_t first = moe__emu_random(block, warps);
  bool is_random = block->machine->options.schedule != 0, is_done = false;
  *out_alive = 0;
  for (uint32_t i = 0; i < warps && block->status == MOE_EMU_OK; i++) {
    moe__emu_warp_t *warp = &block->warps[(first + i) % warps];
    *out_alive += warp->split_count != 0;
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

void moe__emu_block_run(moe__emu_block_t *block, uint64_t number) {
  begin(block, number);
  double deadline = block->machine->deadline;
  while (block->status == MOE_EMU_OK) {
    uint32_t alive = 0;
    uint64_t events = block->events;
    bool is_done = run_warps(block, &alive);
    block->now++;
    if (block->status != MOE_EMU_OK || !moe__emu_async_run(block))
      return;
    if (alive == 0 && block->async.count == 0) {
      moe__emu_barriers_end(block);
      return;
    }
    if (!is_done && block->events == events) {
      uint64_t next = moe__emu_async_next(&block->async);
      if (next == 0)
        moe__emu_fault_deadlock(block);
      else if (next > block->now)
        block->now = next;
    }
    if (deadline != 0 && seconds() > deadline)
      moe__emu_fault_block(block, MOE_EMU_TIMEOUT, "the time limit has passed");
  }
}
