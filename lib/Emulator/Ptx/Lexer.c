/* Lexer.c - the words of a PTX text.
 *
 * Why it exists: see Lexer.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Emulator/Ptx/Lexer.h"

#include <string.h>

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

static bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool starts_word(char c) {
  return is_letter(c) || c == '_' || c == '$' || c == '%' || c == '.';
}

static bool continues_word(char c) {
  return starts_word(c) || is_digit(c);
}

/* Whether the text at `at` begins with `text`. */
static bool sees(const moe__emu_lexer_t *lexer, const char *text) {
  size_t length = strlen(text);
  return (size_t)(lexer->end - lexer->at) >= length && memcmp(lexer->at, text, length) == 0;
}

/* Skips white space and comments; false at a comment without an end. */
static bool skip_space(moe__emu_lexer_t *lexer) {
  while (lexer->at < lexer->end) {
    char c = *lexer->at;
    if (sees(lexer, "//")) {
      while (lexer->at < lexer->end && *lexer->at != '\n')
        lexer->at++;
    } else if (sees(lexer, "/*")) {
      lexer->at += 2;
      while (lexer->at < lexer->end && !sees(lexer, "*/"))
        lexer->line += *lexer->at++ == '\n';
      if (lexer->at == lexer->end)
        return false;
      lexer->at += 2;
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
      lexer->line += c == '\n';
      lexer->at++;
    } else {
      return true;
    }
  }
  return true;
}

static int digit_value(char c) {
  if (is_digit(c))
    return c - '0';
  if (c >= 'a' && c <= 'f')
    return c - 'a' + 10;
  if (c >= 'A' && c <= 'F')
    return c - 'A' + 10;
  return 99;
}

/* Reads digits of a base; false where there are none, or too many for 64 bits. */
static bool read_digits(moe__emu_lexer_t *lexer, unsigned base, uint64_t *out_value,
                        int *out_count) {
  uint64_t value = 0;
  int count = 0;
  bool is_large = false;
  for (; lexer->at < lexer->end && digit_value(*lexer->at) < (int)base; lexer->at++, count++) {
    is_large |= __builtin_mul_overflow(value, base, &value) ||
                __builtin_add_overflow(value, (uint64_t)digit_value(*lexer->at), &value);
  }
  *out_value = value;
  *out_count = count;
  return count > 0 && !is_large;
}

static bool read_number(moe__emu_lexer_t *lexer, moe__emu_token_t *token) {
  int count = 0;
  bool is_ok;
  if (sees(lexer, "0f") || sees(lexer, "0F") || sees(lexer, "0d") || sees(lexer, "0D")) {
    bool is_double = (lexer->at[1] | 0x20) == 'd';
    lexer->at += 2;
    token->number = is_double ? MOE__EMU_FLOAT64 : MOE__EMU_FLOAT32;
    is_ok = read_digits(lexer, 16, &token->value, &count) && count == (is_double ? 16 : 8);
  } else if (sees(lexer, "0x") || sees(lexer, "0X")) {
    lexer->at += 2;
    is_ok = read_digits(lexer, 16, &token->value, &count);
  } else if (sees(lexer, "0b") || sees(lexer, "0B")) {
    lexer->at += 2;
    is_ok = read_digits(lexer, 2, &token->value, &count);
  } else {
    is_ok = read_digits(lexer, *lexer->at == '0' ? 8 : 10, &token->value, &count);
    if (is_ok && lexer->end - lexer->at > 1 && *lexer->at == '.' && is_digit(lexer->at[1])) {
      lexer->at++;
      token->number = MOE__EMU_VERSION;
      is_ok = read_digits(lexer, 10, &token->value, &count);
    }
  }
  if (is_ok && token->number == MOE__EMU_INTEGER && lexer->at < lexer->end && *lexer->at == 'U')
    lexer->at++;
  return is_ok && (lexer->at == lexer->end || !continues_word(*lexer->at));
}

static void read_word(moe__emu_lexer_t *lexer) {
  while (lexer->at < lexer->end) {
    if (continues_word(*lexer->at))
      lexer->at++;
    else if (sees(lexer, "::") && lexer->end - lexer->at > 2 && is_letter(lexer->at[2]))
      lexer->at += 2;
    else
      return;
  }
}

moe__emu_token_t moe__emu_lex(moe__emu_lexer_t *lexer) {
  bool is_closed = skip_space(lexer);
  moe__emu_token_t token = {.text = lexer->at, .line = lexer->line};
  if (!is_closed) {
    token.kind = MOE__EMU_BAD;
  } else if (lexer->at == lexer->end) {
    token.kind = MOE__EMU_END;
  } else if (starts_word(*lexer->at)) {
    token.kind = MOE__EMU_WORD;
    read_word(lexer);
  } else if (is_digit(*lexer->at)) {
    token.kind = read_number(lexer, &token) ? MOE__EMU_NUMBER : MOE__EMU_BAD;
  } else if (*lexer->at == '"') {
    const char *close = lexer->at + 1;
    while (close < lexer->end && *close != '"' && *close != '\n')
      close++;
    token.kind = close < lexer->end && *close == '"' ? MOE__EMU_STRING : MOE__EMU_BAD;
    token.text++;
    token.length = (size_t)(close - token.text);
    lexer->at = token.kind == MOE__EMU_STRING ? close + 1 : close;
    return token;
  } else {
    token.kind =
        strchr("{}()[]<>,;:@!|+-=", *lexer->at) && *lexer->at ? MOE__EMU_PUNCTUATION : MOE__EMU_BAD;
    lexer->at++;
  }
  token.length = (size_t)(lexer->at - token.text);
  return token;
}

bool moe__emu_token_is(const moe__emu_token_t *token, const char *text) {
  return token->kind != MOE__EMU_STRING && strlen(text) == token->length &&
         memcmp(token->text, text, token->length) == 0;
}
