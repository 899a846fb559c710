/* Support.h - what several tests of the runtime need: bundles made to measure, and a device that
 * only takes notes.
 *
 * Most of the runtime needs no GPU to be tested: the fake device records what a real one would be
 * asked to do.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_TEST_RUNTIME_SUPPORT_H
#define MOE_TEST_RUNTIME_SUPPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

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

#endif /* MOE_TEST_RUNTIME_SUPPORT_H */
