/* Symbols.h - the names of a module, and the rows of a kernel's register file.
 *
 * Why it exists: scopes nest in PTX, and registers, constants and special registers all become
 * rows.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_EMULATOR_PTX_SYMBOLS_H
#define MOE_EMULATOR_PTX_SYMBOLS_H

#include "lib/Emulator/Ptx/Cursor.h"

/* Adds a name to the current scope; an error if it is there. */
bool moe__emu_symbol_add(moe__emu_parser_t *parser, const char *name, moe__emu_symbol_kind_t kind,
                         uint64_t value);
/* The innermost symbol of this name, seen from `scope`; NULL if there is none. */
const moe__emu_symbol_t *moe__emu_symbol_find(const moe__emu_parser_t *parser, uint32_t scope,
                                              const char *name, size_t length);
/* Opens and closes a scope. */
bool moe__emu_scope_push(moe__emu_parser_t *parser);
void moe__emu_scope_pop(moe__emu_parser_t *parser);
/* Forgets every symbol but the module's. */
void moe__emu_symbols_forget_kernel(moe__emu_parser_t *parser);

/* Adds a row to the kernel's register file. */
bool moe__emu_row_add(moe__emu_parser_t *parser, moe__emu_row_t row, uint32_t *out_number);
/* The row that holds a constant, or an address of shared memory, in every lane. */
bool moe__emu_row_constant(moe__emu_parser_t *parser, moe__emu_row_kind_t kind, uint8_t bytes,
                           uint64_t value, uint32_t *out_number);
/* The row of a special register. */
bool moe__emu_row_special(moe__emu_parser_t *parser, const char *name, size_t length,
                          uint32_t *out_number);

#endif /* MOE_EMULATOR_PTX_SYMBOLS_H */
