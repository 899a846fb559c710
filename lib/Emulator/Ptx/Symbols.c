/* Symbols.c - names, scopes and the rows of a register file.
 *
 * Why it exists: blocks of inline assembly declare registers and labels of their own, so that one
 * name stands for several things in a kernel.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Emulator/Ptx/Symbols.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SCOPES = 1 << 16, MAX_DEPTH = 64, MAX_ROWS = 1 << 16, MAX_FILE_BYTES = 1 << 24 };

/* ---- The table ---- */

static uint32_t hash(uint32_t scope, const char *name, size_t length) {
  uint32_t value = 2166136261U ^ scope * 0x9E3779B9U;
  for (size_t i = 0; i < length; i++)
    value = (value ^ (unsigned char)name[i]) * 16777619U;
  return value ^ value >> 15;
}

static bool is_same(const moe__emu_symbol_t *symbol, uint32_t scope, const char *name,
                    size_t length) {
  return symbol->scope == scope && strncmp(symbol->name, name, length) == 0 &&
         symbol->name[length] == '\0';
}

/* The place of a symbol, or the free place where it would be. The table is never full. */
static moe__emu_symbol_t *slot_of(const moe__emu_parser_t *parser, uint32_t scope, const char *name,
                                  size_t length) {
  uint32_t mask = parser->symbol_capacity - 1;
  for (uint32_t i = hash(scope, name, length) & mask;; i = (i + 1) & mask) {
    moe__emu_symbol_t *slot = &parser->symbols[i];
    if (!slot->name || is_same(slot, scope, name, length))
      return slot;
  }
}

/* A new table of `capacity` with the old symbols, or with the module's only. */
static bool rebuild(moe__emu_parser_t *parser, uint32_t capacity, bool module_only) {
  moe__emu_symbol_t *old = parser->symbols;
  uint32_t old_capacity = parser->symbol_capacity;
  moe__emu_symbol_t *table = calloc(capacity, sizeof *table);
  if (!table)
    return moe__emu_parse_fail(parser, "out of memory");
  parser->symbols = table;
  parser->symbol_capacity = capacity;
  parser->symbol_count = 0;
  for (uint32_t i = 0; i < old_capacity; i++) {
    if (!old[i].name || (module_only && old[i].scope != 0))
      continue;
    *slot_of(parser, old[i].scope, old[i].name, strlen(old[i].name)) = old[i];
    parser->symbol_count++;
  }
  free(old);
  return true;
}

bool moe__emu_symbol_add(moe__emu_parser_t *parser, const char *name, moe__emu_symbol_kind_t kind,
                         uint64_t value) {
  if (parser->symbol_count * 2 >= parser->symbol_capacity &&
      !rebuild(parser, parser->symbol_capacity ? parser->symbol_capacity * 2 : 256, false))
    return false;
  moe__emu_symbol_t *slot = slot_of(parser, parser->scope, name, strlen(name));
  if (slot->name)
    return moe__emu_error(parser->error, "line %u: '%.64s' is declared twice", parser->last_line,
                          name);
  *slot = (moe__emu_symbol_t){name, parser->scope, kind, value};
  parser->symbol_count++;
  return true;
}

const moe__emu_symbol_t *moe__emu_symbol_find(const moe__emu_parser_t *parser, uint32_t scope,
                                              const char *name, size_t length) {
  if (parser->symbol_capacity == 0)
    return NULL;
  for (;; scope = parser->parents[scope]) {
    const moe__emu_symbol_t *slot = slot_of(parser, scope, name, length);
    if (slot->name)
      return slot;
    if (scope == 0)
      return NULL;
  }
}

bool moe__emu_scope_push(moe__emu_parser_t *parser) {
  if (parser->scope_count == MAX_SCOPES || parser->depth == MAX_DEPTH)
    return moe__emu_parse_fail(parser, "blocks are nested too deep, or too many");
  if (!moe__emu_parse_grow(parser, (void **)&parser->parents, parser->scope_count, 1,
                           &parser->scope_capacity, sizeof *parser->parents))
    return false;
  parser->parents[parser->scope_count] = parser->scope;
  parser->scope = parser->scope_count++;
  parser->depth++;
  return true;
}

void moe__emu_scope_pop(moe__emu_parser_t *parser) {
  parser->scope = parser->parents[parser->scope];
  parser->depth--;
}

void moe__emu_symbols_forget_kernel(moe__emu_parser_t *parser) {
  /* Scopes count on, so that a name kept after a failure here still could not be found. */
  if (parser->symbol_capacity)
    (void)rebuild(parser, parser->symbol_capacity, true);
}

/* ---- Rows ---- */

static uint32_t row_bytes(uint8_t bytes) {
  switch (bytes) {
  case 1:
    return 32; /* one mask; the rest keeps the rows aligned */
  case 8:
    return 8 * MOE__EMU_LANES;
  case 16:
    return 16 * MOE__EMU_LANES;
  default:
    return 4 * MOE__EMU_LANES;
  }
}

bool moe__emu_row_add(moe__emu_parser_t *parser, moe__emu_row_t row, uint32_t *out_number) {
  moe__emu_kernel_t *kernel = parser->kernel;
  if (kernel->row_count == MAX_ROWS)
    return moe__emu_parse_fail(parser, "a kernel may have %d registers and constants", MAX_ROWS);
  if (!moe__emu_parse_grow(parser, (void **)&kernel->rows, kernel->row_count, 1,
                           &parser->row_capacity, sizeof *kernel->rows))
    return false;
  if (kernel->file_bytes > MAX_FILE_BYTES)
    return moe__emu_parse_fail(parser, "the registers of a warp take more than %d bytes",
                               MAX_FILE_BYTES);
  row.offset = kernel->file_bytes;
  kernel->file_bytes += row_bytes(row.bytes);
  *out_number = kernel->row_count;
  kernel->rows[kernel->row_count++] = row;
  return true;
}

/* Rows that many instructions share are found again by a name that no PTX can spell; they belong to
 * the kernel's outermost scope. */
static bool shared_row(moe__emu_parser_t *parser, const char *key, size_t length,
                       moe__emu_row_t row, uint32_t *out_number) {
  const moe__emu_symbol_t *found = moe__emu_symbol_find(parser, parser->kernel_scope, key, length);
  if (found) {
    *out_number = (uint32_t)found->value;
    return true;
  }
  const char *name = moe__emu_parse_text(parser, key, length);
  if (!name || !moe__emu_row_add(parser, row, out_number))
    return false;
  uint32_t scope = parser->scope;
  parser->scope = parser->kernel_scope;
  bool is_ok = moe__emu_symbol_add(parser, name, MOE__EMU_SYMBOL_ROW, *out_number);
  parser->scope = scope;
  return is_ok;
}

bool moe__emu_row_constant(moe__emu_parser_t *parser, moe__emu_row_kind_t kind, uint8_t bytes,
                           uint64_t value, uint32_t *out_number) {
  char key[64];
  int length = snprintf(key, sizeof key, "=%d:%u:%" PRIx64, (int)kind, bytes, value);
  moe__emu_row_t row = {.kind = kind, .bytes = bytes, .value = value};
  return shared_row(parser, key, (size_t)length, row, out_number);
}

bool moe__emu_row_special(moe__emu_parser_t *parser, const char *name, size_t length,
                          uint32_t *out_number) {
  static const char *const names[] = {
#define MOE__EMU_SPECIAL(constant, name) name,
      MOE__EMU_SPECIALS(MOE__EMU_SPECIAL)
#undef MOE__EMU_SPECIAL
  };
  for (uint32_t i = 0; i < MOE__EMU_SPECIAL_COUNT; i++) {
    if (strlen(names[i]) == length && memcmp(names[i], name, length) == 0) {
      moe__emu_row_t row = {.kind = MOE__EMU_ROW_SPECIAL, .bytes = 4, .value = i, .name = names[i]};
      return shared_row(parser, name, length, row, out_number);
    }
  }
  return moe__emu_parse_fail(parser, "unknown register '%.*s'", MOE__EMU_TOKEN(parser->token));
}
