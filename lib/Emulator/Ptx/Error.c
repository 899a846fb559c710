/* Error.c - one line of text that says what a check found.
 *
 * Why it exists: see Error.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Emulator/Ptx/Error.h"

#include <stdarg.h>
#include <stdio.h>

bool moe__emu_error(moe__emu_error_t *error, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(error->text, sizeof error->text, format, arguments);
  va_end(arguments);
  return false;
}
