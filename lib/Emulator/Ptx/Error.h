/* Error.h - one line of text that says what a check found.
 *
 * Why it exists: the modules that know the rules of an instruction do not know the kernel, line,
 * CTA and warp that broke them. They say what is wrong; the machine adds where.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_EMULATOR_PTX_ERROR_H
#define MOE_EMULATOR_PTX_ERROR_H

#include <stdbool.h>

typedef struct moe__emu_error_t {
  char text[256]; /* no newline; unchanged while nothing is wrong */
} moe__emu_error_t;

/* Formats the text, as printf, and returns false, so that a check can end with `return
 * moe__emu_error(...)`. */
bool moe__emu_error(moe__emu_error_t *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif /* MOE_EMULATOR_PTX_ERROR_H */
