/* Output.c - the output of moe-opt, written whole or not at all.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "tools/moe-opt/Output.h"

#include "lib/Files/Files.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool write_text(int file, const void *user) {
  const moe__text_t *text = user;
  return moe__file_write_bytes(file, text->data, text->length);
}

bool output_write(const char *path, const moe__text_t *text) {
  bool to_stdout = !path || !strcmp(path, "-");
  bool ok = to_stdout ? write_text(STDOUT_FILENO, text) : moe__file_replace(path, write_text, text);
  if (!ok)
    fprintf(stderr, "moe-opt: error: cannot write '%s': %s\n", to_stdout ? "<stdout>" : path,
            strerror(errno));
  return ok;
}

bool output_is_input(const char *path, bool is_folder, const char *input) {
  static const char *const files[] = {"manifest.json", "kernels.ptx", "kernels.cubin"};
  if (!is_folder)
    return moe__file_is_same(path, input);
  moe__text_t name = {0};
  bool is_same = false;
  for (size_t i = 0; i < sizeof files / sizeof files[0] && !is_same; i++) {
    moe__text_clear(&name);
    moe__text_printf(&name, "%s/%s", path, files[i]);
    is_same = moe__file_is_same(name.data, input);
  }
  /* PATH/NUMBER/source.mlir */
  moe__text_clear(&name);
  const char *slash = strrchr(input, '/');
  moe__text_printf(&name, "%.*s/..", slash ? (int)(slash - input) : 1, slash ? input : ".");
  is_same |=
      !strcmp(slash ? slash + 1 : input, "source.mlir") && moe__file_is_same(name.data, path);
  moe__text_free(&name);
  return is_same;
}
