/* Opcodes.c - finds the row of an instruction in the families' tables.
 *
 * Why it exists: see Opcodes.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Emulator/Ptx/Opcodes.h"

#include <string.h>

static const moe__emu_opcode_t *const families[] = {
    moe__emu_integer_opcodes, moe__emu_bit_opcodes,      moe__emu_float_opcodes,
    moe__emu_convert_opcodes, moe__emu_compare_opcodes,  moe__emu_memory_opcodes,
    moe__emu_atomic_opcodes,  moe__emu_control_opcodes,  moe__emu_warp_opcodes,
    moe__emu_barrier_opcodes, moe__emu_mbarrier_opcodes, moe__emu_bulk_opcodes,
    moe__emu_matrix_opcodes,  moe__emu_product_opcodes,  moe__emu_cluster_opcodes,
};

/* How far a match of a name has come. */
typedef struct cursor_t {
  const char *at, *end;
} cursor_t;

/* Takes `text` if the name goes on with it and a word ends there. */
static bool take(cursor_t *name, const char *text, size_t length) {
  if ((size_t)(name->end - name->at) < length || memcmp(name->at, text, length) != 0)
    return false;
  const char *after = name->at + length;
  if (after != name->end && *after != '.')
    return false;
  name->at = after;
  return true;
}

static bool take_any_word(cursor_t *name) {
  if (name->at == name->end || *name->at != '.')
    return false;
  name->at++;
  while (name->at < name->end && *name->at != '.')
    name->at++;
  return true;
}

/* Takes one of the alternatives of the group that begins at `group`, and returns its number from 0,
 * -1 for none. *out_end is just after the group. */
static int take_choice(cursor_t *name, const char *group, const char **out_end) {
  const char *delimiters = *group == '[' ? "|]" : "|}";
  int found = -1;
  const char *at = group + 1;
  for (int number = 0;; number++) {
    size_t length = strcspn(at, delimiters);
    bool is_any = length == 1 && *at == '*';
    if (found < 0 && (is_any ? take_any_word(name) : take(name, at, length)))
      found = number;
    at += length + 1;
    if (at[-1] != '|')
      break;
  }
  *out_end = at;
  return found;
}

static bool match_pattern(const char *pattern, const char *text, size_t size,
                          moe__emu_match_t *out) {
  cursor_t name = {text, text + size};
  int group = 0;
  for (const char *at = pattern; *at;) {
    if (*at == '{' || *at == '[') {
      bool is_optional = *at == '[';
      const char *begin = name.at;
      int number = take_choice(&name, at, &at);
      if (number < 0 && !is_optional)
        return false;
      out->choice[group] = (uint8_t)(number + is_optional);
      out->text[group] = begin;
      out->length[group] = (int)(name.at - begin);
      group++;
    } else {
      size_t length = strcspn(at, "{[");
      if (!take(&name, at, length))
        return false;
      at += length;
    }
  }
  return name.at == name.end;
}

bool moe__emu_match(const char *name, size_t length, moe__emu_match_t *out_match) {
  const char *dot = memchr(name, '.', length);
  size_t word = dot ? (size_t)(dot - name) : length;
  for (size_t f = 0; f < sizeof families / sizeof families[0]; f++) {
    for (const moe__emu_opcode_t *row = families[f]; row->pattern; row++) {
      if (strncmp(row->pattern, name, word) != 0)
        continue;
      *out_match = (moe__emu_match_t){.opcode = row};
      if (match_pattern(row->pattern, name, length, out_match))
        return true;
    }
  }
  return false;
}

uint8_t moe__emu_type_bytes(const char *word, int length) {
  static const struct {
    const char *word;
    uint8_t bytes;
  } types[] = {
      {".pred", 1}, {".bf16", 2}, {".f16", 2}, {".f32", 4}, {".f64", 8},
  };
  for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
    if (strlen(types[i].word) == (size_t)length && !memcmp(word, types[i].word, (size_t)length))
      return types[i].bytes;
  }
  /* .b8 .u16 .s32 .b64 .b128; a byte takes a 16-bit register, or a wider one. */
  if (length < 3 || !strchr("bsu", word[1]))
    return 0;
  int bits = 0;
  for (int i = 2; i < length && word[i] >= '0' && word[i] <= '9'; i++)
    bits = bits * 10 + (word[i] - '0');
  return (uint8_t)(bits == 8 ? 2 : bits / 8);
}
