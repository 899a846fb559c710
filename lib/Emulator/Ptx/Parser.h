/* Parser.h - reads a PTX module.
 *
 * Why it exists: text is read once, into what Program.h describes.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_EMULATOR_PTX_PARSER_H
#define MOE_EMULATOR_PTX_PARSER_H

#include "lib/Emulator/Ptx/Program.h"

/* Reads the PTX in text[0..size). The error begins with "line N: ". Call moe__emu_module_free in
 * any case. */
bool moe__emu_module_parse(const char *text, size_t size, moe__emu_module_t *out_module,
                           moe__emu_error_t *error);

/* The kernel of this name, or NULL. */
const moe__emu_kernel_t *moe__emu_find_kernel(const moe__emu_module_t *module, const char *name);

/* Frees what the module owns. */
void moe__emu_module_free(moe__emu_module_t *module);

#endif /* MOE_EMULATOR_PTX_PARSER_H */
