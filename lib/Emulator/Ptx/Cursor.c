/* Cursor.c - tokens, texts and lists of the PTX parser.
 *
 * Why it exists: see Cursor.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Emulator/Ptx/Cursor.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LIST = 1 << 24 };

/* Strings of a module: a list of blocks. */
struct moe__emu_text_t {
  moe__emu_text_t *next;
  size_t used, size;
  char bytes[];
};

bool moe__emu_parse_fail(moe__emu_parser_t *parser, const char *format, ...) {
  char what[200];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(what, sizeof what, format, arguments);
  va_end(arguments);
  /* Names come from an untrusted text; the message stays one line of plain text. */
  for (char *c = what; *c; c++) {
    if ((unsigned char)*c < 0x20 || (unsigned char)*c >= 0x7F)
      *c = '?';
  }
  return moe__emu_error(parser->error, "line %u: %s", parser->token.line, what);
}

moe__emu_token_t moe__emu_parse_take(moe__emu_parser_t *parser) {
  moe__emu_token_t taken = parser->token;
  parser->last_line = taken.line;
  parser->token = moe__emu_lex(&parser->lexer);
  return taken;
}

bool moe__emu_parse_accept(moe__emu_parser_t *parser, const char *text) {
  if (!moe__emu_token_is(&parser->token, text))
    return false;
  moe__emu_parse_take(parser);
  return true;
}

bool moe__emu_parse_expect(moe__emu_parser_t *parser, const char *text) {
  if (moe__emu_parse_accept(parser, text))
    return true;
  if (parser->token.kind == MOE__EMU_END)
    return moe__emu_parse_fail(parser, "the text ends where '%s' should be", text);
  return moe__emu_parse_fail(parser, "'%.*s' where '%s' should be", MOE__EMU_TOKEN(parser->token),
                             text);
}

bool moe__emu_parse_integer(moe__emu_parser_t *parser, int64_t least, int64_t most,
                            int64_t *out_value) {
  bool is_negative = moe__emu_parse_accept(parser, "-");
  const moe__emu_token_t *token = &parser->token;
  if (token->kind != MOE__EMU_NUMBER || token->number != MOE__EMU_INTEGER)
    return moe__emu_parse_fail(parser, "'%.*s' where an integer should be", MOE__EMU_TOKEN(*token));
  if (token->value > INT64_MAX)
    return moe__emu_parse_fail(parser, "a number that does not fit 63 bits");
  *out_value = is_negative ? -(int64_t)token->value : (int64_t)token->value;
  if (*out_value < least || *out_value > most)
    return moe__emu_parse_fail(parser, "%lld is not from %lld to %lld", (long long)*out_value,
                               (long long)least, (long long)most);
  moe__emu_parse_take(parser);
  return true;
}

const char *moe__emu_parse_text(moe__emu_parser_t *parser, const char *text, size_t length) {
  enum { BLOCK = 1 << 14 };
  moe__emu_text_t *block = parser->module->texts;
  if (!block || block->size - block->used < length + 1) {
    size_t size = length + 1 > BLOCK ? length + 1 : BLOCK;
    block = malloc(sizeof *block + size);
    if (!block) {
      moe__emu_parse_fail(parser, "out of memory");
      return NULL;
    }
    *block = (moe__emu_text_t){.next = parser->module->texts, .size = size};
    parser->module->texts = block;
  }
  char *copy = block->bytes + block->used;
  memcpy(copy, text, length);
  copy[length] = '\0';
  block->used += length + 1;
  return copy;
}

bool moe__emu_parse_grow(moe__emu_parser_t *parser, void **list, uint32_t count, uint32_t more,
                         uint32_t *capacity, size_t size) {
  if (more > MAX_LIST || count + more > MAX_LIST)
    return moe__emu_parse_fail(parser, "the module is too large");
  if (count + more <= *capacity)
    return true;
  uint32_t wanted = *capacity * 2 > count + more ? *capacity * 2 : count + more + 16;
  void *grown = realloc(*list, wanted * size);
  if (!grown)
    return moe__emu_parse_fail(parser, "out of memory");
  *list = grown;
  *capacity = wanted;
  return true;
}

void moe__emu_texts_free(moe__emu_module_t *module) {
  while (module->texts) {
    moe__emu_text_t *next = module->texts->next;
    free(module->texts);
    module->texts = next;
  }
}
