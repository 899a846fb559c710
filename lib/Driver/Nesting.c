/* Nesting.c - refuses text that is nested too deeply.
 *
 * Why: MLIR's parser, verifier and printer recurse. What is nested a few thousand deep exhausts the
 * stack, which ends the process without a place.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Driver/Driver.h"

#include <stdbool.h>
#include <string.h>

/* MLIR takes about 3 KB of stack for each: this fits stacks of 2 MB under a sanitizer too. */
enum { DEEPEST_NESTING = 256 };

/* Moves behind a comment or a string that begins at `i`; the same place where there is none. */
static size_t skip(const char *text, size_t i) {
  if (text[i] == '/' && text[i + 1] == '/')
    return i + strcspn(text + i, "\n");
  if (text[i] != '"')
    return i;
  for (i++; text[i] && text[i] != '"' && text[i] != '\n'; i++)
    i += text[i] == '\\' && text[i + 1];
  return i + (text[i] == '"');
}

bool moe__check_nesting(moe_compiler_t *compiler) {
  const char *text = compiler->source.text;
  int depth = 0, signs = 0; /* a chain of minus signs in an affine map nests too */
  for (size_t i = 0; text[i];) {
    size_t next = skip(text, i);
    if (next != i) {
      i = next;
      continue;
    }
    if (text[i] == '-' && text[i + 1] == '>') {
      i += 2;
      continue;
    }
    bool opens = strchr("([{<", text[i]), closes = strchr(")]}>", text[i]);
    depth += opens - (closes && depth > 0);
    if (!strchr(" \t\r\n", text[i]))
      signs = text[i] == '-' ? signs + 1 : 0;
    if (depth + signs > DEEPEST_NESTING) {
      moe__report_at(compiler, MOE_ERROR, &compiler->source, i, "this is nested more than %d deep",
                     DEEPEST_NESTING);
      return false;
    }
    i++;
  }
  return true;
}
