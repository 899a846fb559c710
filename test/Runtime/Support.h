/* Support.h - what several tests of the runtime need: bundles made to measure, and a device that
 * only takes notes.
 *
 * Most of the runtime needs no GPU to be tested: the fake device records what a real one would be
 * asked to do.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_TEST_RUNTIME_SUPPORT_H
#define MOE_TEST_RUNTIME_SUPPORT_H

#include "lib/Runtime/Backend.h"

#include <jansson.h>

/* Fails the program with a message when `condition` is false: for what a test takes for granted. */
void require(bool condition, const char *what);

/* Reads a JSON file, or a text file, of the test's inputs. */
json_t *read_json(const char *path);
char *read_text(const char *path, size_t *out_size);

/* The value at a path such as ["functions", 0, "name"]; its parent when `up` is 1. */
json_t *json_at(json_t *root, json_t *path, int up);

/* Sets or, with a NULL value, removes what is at the path. Takes its own reference. */
void json_damage(json_t *root, json_t *path, json_t *value);

/* A new empty folder, and its removal with all files in it. */
char *folder_make(void);
void folder_remove(char *folder);

void file_write(const char *folder, const char *name, const void *data, size_t size);

/* Writes manifest.json, kernels.ptx and, unless cubin is NULL, kernels.cubin. Sizes and hashes in
 * the manifest are set to fit; "cubin" is removed from it when there is none. */
void bundle_write(const char *folder, json_t *manifest, const char *ptx, const void *cubin,
                  size_t cubin_size);

/* A cubin with nothing in it: valid tables, no code. Gives its size. */
const void *empty_cubin(size_t *out_size);

/* ---- The fake device ---- */

enum { FAKE_MAX_LAUNCHES = 8, FAKE_MAX_MAPS = 8, FAKE_MAX_PARAMETERS = 16 };

typedef struct fake_device_t {
  moe_rt_device_t base;
  /* What it shall do. */
  moe_rt_status_t cubin_status, ptx_status, launch_status, allocate_status;
  /* What it was asked to do. */
  int live_allocations, live_code;
  size_t allocated;
  void *workspace;
  int kernel_count;
  int map_count;
  moe__tensor_map_t maps[FAKE_MAX_MAPS];
  atomic_int launch_count; /* notes are taken of the first FAKE_MAX_LAUNCHES */
  struct {
    char kernel[64];
    uint32_t grid[3], block[3], cluster[3], shared_memory;
    int parameter_count;
    uint64_t parameters[FAKE_MAX_PARAMETERS]; /* the first 8 bytes */
    const void *addresses[FAKE_MAX_PARAMETERS];
    void *stream;
  } launches[FAKE_MAX_LAUNCHES];
} fake_device_t;

/* Sets up a device of compute capability 9.0 with 132 multiprocessors. */
void fake_device_init(fake_device_t *fake);

#endif /* MOE_TEST_RUNTIME_SUPPORT_H */
