/* Source.c - the input of moe-opt: read, and split into pieces.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "tools/moe-opt/Source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool source_read(const char *path, moe__text_t *out_text) {
  bool is_stdin = !strcmp(path, "-");
  int file = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
  if (is_stdin && isatty(file))
    fprintf(stderr,
            "moe-opt: reading the source from the terminal; Ctrl-D ends it, and --help says "
            "what else there is\n");
  bool ok = file >= 0;
  moe__text_put(out_text, "");
  while (ok) {
    char buffer[1 << 16];
    ssize_t length = read(file, buffer, sizeof buffer);
    if (length == 0)
      break;
    if (length > 0)
      moe__text_append(out_text, buffer, (size_t)length);
    ok = length > 0 || errno == EINTR;
  }
  if (!ok)
    fprintf(stderr, "moe-opt: error: cannot read '%s': %s\n", is_stdin ? "<stdin>" : path,
            strerror(errno));
  if (!is_stdin && file >= 0)
    close(file);
  return ok;
}

/* Whether the line at this place is `// -----`. */
static bool is_separator(const char *line, size_t length) {
  static const char marker[] = "// -----";
  size_t marker_length = strlen(marker);
  if (length < marker_length || memcmp(line, marker, marker_length) != 0)
    return false;
  for (size_t i = marker_length; i < length; i++) {
    if (!strchr(" \t\r", line[i]))
      return false;
  }
  return true;
}

static size_t line_length(const moe__text_t *text, size_t at) {
  const char *newline = memchr(text->data + at, '\n', text->length - at);
  return newline ? (size_t)(newline - text->data) - at : text->length - at;
}

bool source_next_piece(const moe__text_t *text, size_t *at, moe__text_t *out_piece) {
  size_t start = *at;
  if (start > text->length)
    return false;
  moe__text_clear(out_piece);
  for (size_t i = 0; i < start; i++) {
    if (text->data[i] == '\n')
      moe__text_put(out_piece, "\n");
  }
  size_t line = start;
  while (line < text->length) {
    size_t length = line_length(text, line);
    if (is_separator(text->data + line, length)) {
      moe__text_append(out_piece, text->data + start, line - start);
      *at = line + length + 1;
      return true;
    }
    line += length + 1;
  }
  moe__text_append(out_piece, text->data + start, text->length - start);
  *at = text->length + 1;
  return true;
}
