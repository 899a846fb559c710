/* Cursor.h - what the parts of the PTX parser share: the next token, and the module being read.
 *
 * Why it exists: declarations (PtxParser.c), names (PtxSymbols.c) and operands (PtxOperands.c) are
 * three concepts that work on one kernel at a time.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_EMULATOR_PTX_CURSOR_H
#define MOE_EMULATOR_PTX_CURSOR_H

#include "lib/Emulator/Ptx/Lexer.h"
#include "lib/Emulator/Ptx/Program.h"

/* A token as arguments of "%.*s", not too much of it. */
#define MOE__EMU_TOKEN(token) (int)((token).length > 64 ? 64 : (token).length), (token).text

/* What a name stands for. */
typedef enum moe__emu_symbol_kind_t {
  MOE__EMU_SYMBOL_ROW,       /* value: number of the row */
  MOE__EMU_SYMBOL_SHARED,    /* value: address in shared memory */
  MOE__EMU_SYMBOL_DYNAMIC,   /* an array in shared memory whose size the launch gives */
  MOE__EMU_SYMBOL_VARIABLE,  /* value: number of the variable */
  MOE__EMU_SYMBOL_PARAMETER, /* value: number of the parameter */
  MOE__EMU_SYMBOL_LABEL,     /* value: number of the instruction */
} moe__emu_symbol_kind_t;

typedef struct moe__emu_symbol_t {
  const char *name;
  uint32_t scope;
  moe__emu_symbol_kind_t kind;
  uint64_t value;
} moe__emu_symbol_t;

/* A branch whose label may come later. */
typedef struct moe__emu_jump_t {
  uint32_t instruction, scope, line;
  const char *label;
} moe__emu_jump_t;

typedef struct moe__emu_parser_t {
  moe__emu_lexer_t lexer;
  moe__emu_token_t token; /* the next one, not yet taken */
  uint32_t last_line;     /* of the one taken last */
  moe__emu_error_t *error;
  moe__emu_module_t *module;

  bool has_version, has_target;

  moe__emu_kernel_t *kernel; /* the one being read */
  uint32_t instruction_capacity, operand_capacity, row_capacity;

  moe__emu_symbol_t *symbols; /* a hash table */
  uint32_t symbol_count, symbol_capacity;
  uint32_t *parents; /* of each scope; 0 is the module */
  uint32_t scope_count, scope_capacity, scope, depth;
  uint32_t kernel_scope; /* the outermost one of the kernel */

  moe__emu_jump_t *jumps;
  uint32_t jump_count, jump_capacity;
  uint32_t shared_bytes, dynamic_alignment; /* of the module's variables in shared memory */
} moe__emu_parser_t;

/* Sets the error, with the line of the next token, and returns false. */
bool moe__emu_parse_fail(moe__emu_parser_t *parser, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Takes the next token. */
moe__emu_token_t moe__emu_parse_take(moe__emu_parser_t *parser);
/* Takes the next token if it is `text`. */
bool moe__emu_parse_accept(moe__emu_parser_t *parser, const char *text);
/* Takes the next token, which must be `text`. */
bool moe__emu_parse_expect(moe__emu_parser_t *parser, const char *text);
/* An integer from `least` to `most`, maybe with a minus. */
bool moe__emu_parse_integer(moe__emu_parser_t *parser, int64_t least, int64_t most,
                            int64_t *out_value);

/* A copy of the text that lives as long as the module; NULL after an error. */
const char *moe__emu_parse_text(moe__emu_parser_t *parser, const char *text, size_t length);

/* Frees the texts of a module. */
void moe__emu_texts_free(moe__emu_module_t *module);

/* Makes room in a list for `more` elements; false after an error. */
bool moe__emu_parse_grow(moe__emu_parser_t *parser, void **list, uint32_t count, uint32_t more,
                         uint32_t *capacity, size_t size);

#endif /* MOE_EMULATOR_PTX_CURSOR_H */
