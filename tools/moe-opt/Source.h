/* Source.h - the input of moe-opt: read, and split into pieces.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_OPT_SOURCE_H
#define MOE_OPT_SOURCE_H

#include "lib/Driver/Text.h"

#include <stdbool.h>

/* Reads a file, or stdin for "-". False: it cannot be read, which has been said on stderr. */
bool source_read(const char *path, moe__text_t *out_text);

/* The next piece of a text that is split at lines `// -----`, as text that begins with as many
 * newlines as there were lines before it, so that its line numbers are those of the file. *at is
 * the offset of the piece, 0 at first, and moves behind it. False: there is no further piece. */
bool source_next_piece(const moe__text_t *text, size_t *at, moe__text_t *out_piece);

#endif /* MOE_OPT_SOURCE_H */
