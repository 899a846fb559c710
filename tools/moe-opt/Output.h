/* Output.h - the output of moe-opt, written whole or not at all.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_OPT_OUTPUT_H
#define MOE_OPT_OUTPUT_H

#include "lib/Driver/Text.h"

#include <stdbool.h>

/* Writes to a file, or to stdout for NULL and "-". A file appears complete or not at all: a build
 * that is interrupted must not take half a file for a result. False: it cannot be written, which
 * has been said on stderr. */
bool output_write(const char *path, const moe__text_t *text);

/* Whether the file could be written as far as that can be told beforehand; else the same. */
bool output_may_write(const char *path);

typedef enum output_kind_t { OUTPUT_FILE, OUTPUT_BUNDLE, OUTPUT_CANDIDATES } output_kind_t;

/* Whether the output would take the place of the input: it is the same file, or one that the bundle
 * in the folder `path`, or a candidate in it, has. */
bool output_is_input(const char *path, output_kind_t kind, const char *input);

/* Whether a file that is written as well, and need not be there yet, would be the output itself, or
 * lie in the folder that the output is. Devices and pipes take several outputs. */
bool output_is_at(const char *path, output_kind_t kind, const char *file);

#endif /* MOE_OPT_OUTPUT_H */
