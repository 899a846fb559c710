/* Render.c - one diagnostic as text: `file:line:col: error: message`, the source line, a caret.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Driver/Render.h"

#include <stdbool.h>
#include <string.h>

/* Longer source lines are not shown: a constant of a megabyte helps nobody. */
enum { LONGEST_SHOWN_LINE = 1000 };

const char *moe__find_line(const char *text, int line) {
  for (; text && line > 1; line--) {
    text = strchr(text, '\n');
    if (text)
      text++;
  }
  return line == 1 ? text : NULL;
}

/* Appends the line and, below it, a caret under the column. */
static void append_snippet(moe__text_t *out, const char *text, int line_number, int column) {
  const char *line = moe__find_line(text, line_number);
  if (!line)
    return;
  size_t length = strcspn(line, "\r\n");
  if (length > LONGEST_SHOWN_LINE || column < 1 || (size_t)column > length + 1)
    return;
  moe__text_append(out, line, length);
  moe__text_put(out, "\n");
  for (const char *c = line; c < line + column - 1; c++) {
    bool inside_character = ((unsigned char)*c & 0xC0) == 0x80; /* UTF-8 */
    if (!inside_character)
      moe__text_put(out, *c == '\t' ? "\t" : " ");
  }
  moe__text_put(out, "^\n");
}

void moe__render(moe__text_t *out, const moe_diagnostic_t *diagnostic, const char *text) {
  if (diagnostic->file)
    moe__text_printf(out, "%s:", diagnostic->file);
  if (diagnostic->line)
    moe__text_printf(out, "%d:%d:", diagnostic->line, diagnostic->column);
  moe__text_printf(out, "%s%s: %s\n", diagnostic->file ? " " : "",
                   moe_severity_text(diagnostic->severity), diagnostic->message);
  if (text && diagnostic->line)
    append_snippet(out, text, diagnostic->line, diagnostic->column);
}
