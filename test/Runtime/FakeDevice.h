/* FakeDevice.h - a device that only takes notes.
 *
 * Most of the runtime needs no GPU to be tested: the fake device records what a real one would be
 * asked to do.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_TEST_RUNTIME_FAKE_DEVICE_H
#define MOE_TEST_RUNTIME_FAKE_DEVICE_H

#include "lib/Runtime/Backend.h"

enum { FAKE_MAX_LAUNCHES = 8, FAKE_MAX_MAPS = 8, FAKE_MAX_PARAMETERS = 16 };

typedef struct fake_device_t {
  moe_rt_device_t base;
  /* What it shall do. */
  moe_rt_status_t cubin_status, ptx_status, launch_status, allocate_status, fill_status;
  void (*on_launch)(const moe__rt_ready_launch_t *launch); /* from any thread */
  /* What it was asked to do. */
  int live_allocations, live_code;
  size_t allocated;
  size_t allocations;
  void *workspace; /* the last allocation */
  uint32_t word;   /* what from_device reads, and to_device writes */
  bool is_quiet;   /* several threads use it: it takes no notes of events */
  char events
      [512]; /* fills, transfers, waits and launches in order, with offsets in the workspace */
  int kernel_count;
  int map_count;
  moe__rt_tensor_map_t maps[FAKE_MAX_MAPS];
  atomic_int launch_count; /* notes are taken of the first FAKE_MAX_LAUNCHES */
  struct {
    char kernel[64];
    uint32_t grid[3], block[3], cluster[3], shared_memory;
    bool programmatic;
    char pending[64]; /* names of the buffers that are */
    int parameter_count;
    uint64_t parameters[FAKE_MAX_PARAMETERS]; /* the first 8 bytes */
    const void *addresses[FAKE_MAX_PARAMETERS];
    void *stream;
  } launches[FAKE_MAX_LAUNCHES];
} fake_device_t;

/* Sets up a device of compute capability 9.0 with 132 multiprocessors. */
void fake_device_init(fake_device_t *fake);

#endif /* MOE_TEST_RUNTIME_FAKE_DEVICE_H */
