/* Lexer.h - the words of a PTX text.
 *
 * Why it exists: the parser thinks in words; where one ends ("shared::cluster" is one, "LOOP:" is
 * two) is decided here, once.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_EMULATOR_PTX_LEXER_H
#define MOE_EMULATOR_PTX_LEXER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum moe__emu_token_kind_t {
  MOE__EMU_END,
  MOE__EMU_WORD,        /* mov.b32 %r1 .reg $L__BB0_1 */
  MOE__EMU_NUMBER,      /* 12 0x1F 0f3F800000 0d3FF0000000000000 */
  MOE__EMU_STRING,      /* "..." without the quotes */
  MOE__EMU_PUNCTUATION, /* one character */
  MOE__EMU_BAD,         /* a character, a number or a string that PTX does not have */
} moe__emu_token_kind_t;

typedef enum moe__emu_number_kind_t {
  MOE__EMU_INTEGER,
  MOE__EMU_FLOAT32, /* value holds the bits */
  MOE__EMU_FLOAT64,
  MOE__EMU_VERSION, /* 8.0 */
} moe__emu_number_kind_t;

typedef struct moe__emu_token_t {
  moe__emu_token_kind_t kind;
  const char *text; /* in the source, not terminated */
  size_t length;
  uint32_t line;
  moe__emu_number_kind_t number;
  uint64_t value;
} moe__emu_token_t;

typedef struct moe__emu_lexer_t {
  const char *at, *end;
  uint32_t line;
} moe__emu_lexer_t;

/* The next token; comments and white space are skipped. */
moe__emu_token_t moe__emu_lex(moe__emu_lexer_t *lexer);

/* Whether the token is this text. */
bool moe__emu_token_is(const moe__emu_token_t *token, const char *text);

#endif /* MOE_EMULATOR_PTX_LEXER_H */
