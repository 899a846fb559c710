/* LineInfo.c - the IR of stage "nvvm" as a source that PTX and cubin name, for profilers.
 *
 * Why the IR is kept in memory first: MLIR's pass writes its file at once, and ends the process
 * where the disk is full. The user's file is to change only when all went well.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Driver/Driver.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static moe_status_t fail(const moe_module_t *module) {
  moe__report(module->compiler, MOE_ERROR, NULL, 0, 0, "cannot write '%s': %s",
              module->compiler->options.line_info, strerror(errno));
  return MOE_IO_ERROR;
}

/* The pass prints the IR to `file`, and makes the lines there the places of its ops. */
static moe_status_t take(moe_module_t *module, int file) {
  char place[32], pipeline[96];
  snprintf(place, sizeof place, "/proc/self/fd/%d", file);
  snprintf(pipeline, sizeof pipeline, "builtin.module(snapshot-op-locations{filename=%s})", place);
  moe_status_t status = moe__run_pipeline(module, pipeline, false);
  if (status != MOE_OK)
    return status;
  moe__rename_places(module, place, module->compiler->options.line_info);
  return moe__file_read_bytes(file, &module->lines.data, &module->lines.length) ? MOE_OK
                                                                                : fail(module);
}

moe_status_t moe__take_lines(moe_module_t *module) {
  int file = memfd_create("lines", MFD_CLOEXEC);
  if (file < 0)
    return fail(module);
  moe_status_t status = take(module, file);
  close(file);
  return status;
}

static bool write_bytes(int file, const void *user) {
  const moe__bytes_t *bytes = user;
  return moe__file_write_bytes(file, bytes->data, bytes->length);
}

moe_status_t moe__write_lines(const moe_module_t *module) {
  const char *path = module->compiler->options.line_info;
  return !module->lines.data || moe__file_replace_held(path, write_bytes, &module->lines)
             ? MOE_OK
             : fail(module);
}
