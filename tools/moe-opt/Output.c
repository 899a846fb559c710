/* Output.c - the output of moe-opt, written whole or not at all.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "tools/moe-opt/Output.h"

#include "lib/Files/Bundle.h"
#include "lib/Files/Files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool write_text(int file, const void *user) {
  const moe__text_t *text = user;
  return moe__file_write_bytes(file, text->data, text->length);
}

static bool is_stdout(const char *path) {
  return !path || !strcmp(path, "-");
}

static void report(const char *path) {
  fprintf(stderr, "moe-opt: error: cannot write '%s': %s\n", is_stdout(path) ? "<stdout>" : path,
          strerror(errno));
}

bool output_write(const char *path, const moe__text_t *text) {
  bool ok =
      is_stdout(path) ? write_text(STDOUT_FILENO, text) : moe__file_replace(path, write_text, text);
  if (!ok)
    report(path);
  return ok;
}

bool output_may_write(const char *path) {
  bool ok = is_stdout(path) || moe__file_may_replace(path);
  if (!ok)
    report(path);
  return ok;
}

/* The last part of a path without links, which is cut off; NULL: there is none. */
static char *cut_name(char *path) {
  char *slash = strrchr(path, '/');
  if (!slash)
    return NULL;
  *slash = '\0';
  return slash + 1;
}

/* PATH/NUMBER/source.mlir, or a file of the bundle beside it. */
static bool is_file_of_candidate(const char *path, const char *input) {
  char *place = realpath(input, NULL);
  char *file = place ? cut_name(place) : NULL, *number = file ? cut_name(place) : NULL;
  bool is_same = number && *number && !number[strspn(number, "0123456789")] &&
                 moe__candidate_has_file(file) && moe__file_is_same(*place ? place : "/", path);
  free(place);
  return is_same;
}

bool output_is_input(const char *path, output_kind_t kind, const char *input) {
  if (kind == OUTPUT_BUNDLE)
    return moe__bundle_holds(path, MOE__BUNDLE_FILES, input);
  return kind == OUTPUT_CANDIDATES ? is_file_of_candidate(path, input)
                                   : moe__file_is_same(path, input);
}

/* The path without links, as far as it exists, and without a slash at its end. */
static char *resolve(const char *path) {
  size_t length = strlen(path), known;
  while (length > 1 && path[length - 1] == '/')
    length--;
  char *head = moe__copy(path, length), *place;
  for (known = length; !(place = realpath(known ? head : ".", NULL)) && known; head[known] = '\0') {
    while (known && head[known - 1] == '/')
      known--;
    while (known && head[known - 1] != '/')
      known--;
  }
  moe__text_t whole = {0};
  moe__text_put(&whole, place ? place : "");
  if (known < length)
    moe__text_printf(&whole, "/%.*s", (int)(length - known), path + known);
  free(head);
  free(place);
  return whole.data;
}

bool output_is_at(const char *path, output_kind_t kind, const char *file) {
  struct stat status;
  if (!stat(file, &status) && !S_ISREG(status.st_mode))
    return false;
  char *place = resolve(path), *other = resolve(file);
  size_t length = strlen(place);
  bool is_inside = kind != OUTPUT_FILE && !strncmp(place, other, length) && other[length] == '/';
  bool is_at = is_inside || !strcmp(place, other) || moe__file_is_same(path, file);
  free(place);
  free(other);
  return is_at;
}
