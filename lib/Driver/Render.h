/* Render.h - one diagnostic as text: `file:line:col: error: message`, the source line, a caret.
 *
 * Why it exists: the library renders MLIR's diagnostics, moe-opt renders those of
 * --verify-diagnostics; they look alike.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_DRIVER_RENDER_H
#define MOE_DRIVER_RENDER_H

#include "lib/Driver/Text.h"
#include "moe/compiler.h"

/* Start of a line, counted from 1, or NULL. */
const char *moe__find_line(const char *text, int line);

/* Appends file (may be NULL), line and column (0: none), severity and message; and the source line
 * with a caret where `text`, the contents of the file, is not NULL. */
void moe__render(moe__text_t *out, const moe_diagnostic_t *diagnostic, const char *text);

#endif /* MOE_DRIVER_RENDER_H */
