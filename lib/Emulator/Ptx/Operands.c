/* Operands.c - reads one instruction: guard, opcode, operands.
 *
 * Why it exists: the letters of a row of the table (Opcodes.h) are read here, one case each.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Emulator/Ptx/Operands.h"

#include "lib/Emulator/Ptx/Opcodes.h"
#include "lib/Emulator/Ptx/Symbols.h"

#include <stdlib.h>
#include <string.h>

/* An instruction while its operands are read. */
typedef struct reading_t {
  moe__emu_parser_t *parser;
  moe__emu_instruction_t *instruction;
  moe__emu_match_t match;
} reading_t;

/* Bytes of the type that a group of the opcode's pattern has matched. */
static uint8_t type_of_group(const reading_t *reading, int group) {
  return moe__emu_type_bytes(reading->match.text[group], reading->match.length[group]);
}

static bool fail_operand(moe__emu_parser_t *parser, const char *what) {
  const moe__emu_token_t *token = &parser->token;
  return token->kind == MOE__EMU_END
             ? moe__emu_parse_fail(parser, "the text ends where %s should be", what)
             : moe__emu_parse_fail(parser, "'%.*s' where %s should be", MOE__EMU_TOKEN(*token),
                                   what);
}

static bool add_operand(reading_t *reading, moe__emu_operand_t operand, bool is_result) {
  moe__emu_parser_t *parser = reading->parser;
  moe__emu_kernel_t *kernel = parser->kernel;
  if (reading->instruction->operand_count == MOE__EMU_MAX_OPERANDS)
    return moe__emu_parse_fail(parser, "an instruction has at most %d operands",
                               MOE__EMU_MAX_OPERANDS);
  if (!moe__emu_parse_grow(parser, (void **)&kernel->operands, kernel->operand_count, 1,
                           &parser->operand_capacity, sizeof *kernel->operands))
    return false;
  kernel->operands[kernel->operand_count++] = operand;
  reading->instruction->operand_count++;
  reading->instruction->result_count += is_result;
  return true;
}

static moe__emu_operand_t operand_of_row(const moe__emu_parser_t *parser, uint32_t number) {
  const moe__emu_row_t *row = &parser->kernel->rows[number];
  return (moe__emu_operand_t){.row = row->offset, .shadow = number, .bytes = row->bytes};
}

static bool value_of(moe__emu_parser_t *parser, moe__emu_row_kind_t kind, uint8_t bytes,
                     uint64_t value, moe__emu_operand_t *out) {
  uint32_t row = 0;
  uint64_t mask = bytes >= 8 ? UINT64_MAX : (UINT64_C(1) << (bytes * 8)) - 1;
  if (!moe__emu_row_constant(parser, kind, bytes == 2 ? 4 : bytes, value & mask, &row))
    return false;
  *out = operand_of_row(parser, row);
  out->addend = (int32_t)value;
  out->bytes = bytes;
  return true;
}

static bool constant(moe__emu_parser_t *parser, uint8_t bytes, uint64_t value,
                     moe__emu_operand_t *out) {
  return value_of(parser, MOE__EMU_ROW_CONSTANT, bytes, value, out);
}

/* What a name stands for that stands for an address. */
static bool address_value(moe__emu_parser_t *parser, const moe__emu_symbol_t *symbol, uint8_t bytes,
                          uint64_t value, moe__emu_operand_t *out) {
  bool is_shared =
      symbol->kind == MOE__EMU_SYMBOL_SHARED || symbol->kind == MOE__EMU_SYMBOL_DYNAMIC;
  return value_of(parser, is_shared ? MOE__EMU_ROW_SHARED : MOE__EMU_ROW_CONSTANT, bytes, value,
                  out);
}

/* The value of a name that stands for an address. */
static bool symbol_address(const moe__emu_parser_t *parser, const moe__emu_symbol_t *symbol,
                           uint64_t *out_value) {
  switch (symbol->kind) {
  case MOE__EMU_SYMBOL_SHARED:
    *out_value = symbol->value;
    return true;
  case MOE__EMU_SYMBOL_DYNAMIC:
    if (parser->kernel->dynamic_shared == 0) {
      uint32_t end = MOE__EMU_SHARED_BASE + parser->kernel->static_shared_bytes;
      uint32_t alignment = parser->dynamic_alignment;
      uint32_t at = (end + alignment - 1) & ~(alignment - 1);
      /* At an address that is aligned to no more than what is promised. */
      parser->kernel->dynamic_padding = at & alignment ? 0 : alignment;
      parser->kernel->dynamic_shared = at + parser->kernel->dynamic_padding;
    }
    *out_value = parser->kernel->dynamic_shared;
    return true;
  case MOE__EMU_SYMBOL_PARAMETER:
    *out_value = parser->kernel->parameters[symbol->value].offset;
    return true;
  case MOE__EMU_SYMBOL_VARIABLE:
    *out_value = (uint64_t)(uintptr_t)parser->module->variables[symbol->value].data;
    return true;
  default:
    return false;
  }
}

/* "+12", "-4" or "+-4" after a name, if there. */
static bool parse_addend(moe__emu_parser_t *parser, int32_t *out_addend) {
  int64_t value = 0;
  *out_addend = 0;
  bool is_negative = false;
  if (!moe__emu_parse_accept(parser, "+")) {
    if (!moe__emu_parse_accept(parser, "-"))
      return true;
    is_negative = true;
  }
  if (!moe__emu_parse_integer(parser, -INT32_MAX, INT32_MAX, &value))
    return false;
  *out_addend = (int32_t)(is_negative ? -value : value);
  return true;
}

static const moe__emu_symbol_t *find(const moe__emu_parser_t *parser) {
  if (parser->token.kind != MOE__EMU_WORD)
    return NULL;
  return moe__emu_symbol_find(parser, parser->scope, parser->token.text, parser->token.length);
}

/* A row that the next word names: a register, or a special register; not taken yet. */
static bool named_row(moe__emu_parser_t *parser, uint32_t *out_row) {
  const moe__emu_symbol_t *symbol = find(parser);
  if (symbol && symbol->kind == MOE__EMU_SYMBOL_ROW) {
    *out_row = (uint32_t)symbol->value;
    return true;
  }
  if (!symbol && parser->token.kind == MOE__EMU_WORD)
    return moe__emu_row_special(parser, parser->token.text, parser->token.length, out_row);
  return fail_operand(parser, "a register");
}

static const char *width_name(uint8_t bytes) {
  static const char *const names[] = {
      [1] = "a predicate", [2] = "16 bits", [4] = "32 bits", [8] = "64 bits", [16] = "128 bits"};
  return names[bytes];
}

/* Rows know 16-bit registers by their declaration. */
static bool check_width(moe__emu_parser_t *parser, uint8_t found, uint8_t bytes,
                        bool may_be_wider) {
  if (found == bytes || (may_be_wider && found > bytes && bytes > 1))
    return true;
  return moe__emu_parse_fail(parser, "'%.*s' is %s wide; the instruction takes %s",
                             MOE__EMU_TOKEN(parser->token), width_name(found), width_name(bytes));
}

static bool parse_result(reading_t *reading, uint8_t bytes, bool may_be_wider) {
  moe__emu_parser_t *parser = reading->parser;
  if (moe__emu_token_is(&parser->token, "_")) {
    moe__emu_parse_take(parser);
    moe__emu_operand_t sink = operand_of_row(parser, MOE__EMU_SINK_ROW);
    sink.bytes = bytes;
    return add_operand(reading, sink, true);
  }
  uint32_t row = 0;
  if (!named_row(parser, &row))
    return false;
  if (parser->kernel->rows[row].kind != MOE__EMU_ROW_REGISTER)
    return fail_operand(parser, "a register that can be written");
  if (!check_width(parser, parser->kernel->rows[row].bytes, bytes, may_be_wider))
    return false;
  moe__emu_parse_take(parser);
  return add_operand(reading, operand_of_row(parser, row), true);
}

/* A number as a source of `bytes`. */
static bool parse_number(moe__emu_parser_t *parser, uint8_t bytes, moe__emu_operand_t *out) {
  bool is_negative = moe__emu_parse_accept(parser, "-");
  if (parser->token.kind != MOE__EMU_NUMBER)
    return fail_operand(parser, "a number");
  moe__emu_token_t number = moe__emu_parse_take(parser);
  if (number.number != MOE__EMU_INTEGER) {
    uint8_t width = number.number == MOE__EMU_FLOAT32 ? 4 : 8;
    if (is_negative || width != bytes)
      return moe__emu_parse_fail(parser, "a %s number where %s are taken", width_name(width),
                                 width_name(bytes));
  } else if (bytes < 8) {
    uint64_t limit = UINT64_C(1) << (bytes * 8 - is_negative);
    if (number.value >= limit + is_negative)
      return moe__emu_parse_fail(parser, "a number that does not fit %s", width_name(bytes));
  }
  return constant(parser, bytes, is_negative ? -number.value : number.value, out);
}

/* A predicate that is the same in all lanes, as the number 0 or another one. */
static bool parse_constant_predicate(moe__emu_parser_t *parser, moe__emu_operand_t *out) {
  int64_t value = 0;
  if (parser->token.kind != MOE__EMU_NUMBER && !moe__emu_token_is(&parser->token, "-"))
    return fail_operand(parser, "a predicate");
  if (!moe__emu_parse_integer(parser, INT32_MIN, INT32_MAX, &value) ||
      !constant(parser, 4, value ? UINT32_MAX : 0, out))
    return false;
  out->bytes = 1;
  out->addend = 0;
  return true;
}

static bool parse_source_operand(moe__emu_parser_t *parser, uint8_t bytes, bool may_be_wider,
                                 moe__emu_operand_t *out) {
  if (parser->token.kind != MOE__EMU_WORD)
    return bytes == 1 ? parse_constant_predicate(parser, out) : parse_number(parser, bytes, out);
  const moe__emu_symbol_t *symbol = find(parser);
  uint64_t address = 0;
  if (symbol && symbol_address(parser, symbol, &address)) {
    int32_t addend = 0;
    if (bytes < 4)
      return fail_operand(parser, "a value, not an address,");
    moe__emu_parse_take(parser);
    return parse_addend(parser, &addend) &&
           address_value(parser, symbol, bytes, address + (uint64_t)(int64_t)addend, out);
  }
  uint32_t row = 0;
  if (!named_row(parser, &row) ||
      !check_width(parser, parser->kernel->rows[row].bytes, bytes, may_be_wider))
    return false;
  moe__emu_parse_take(parser);
  *out = operand_of_row(parser, row);
  return true;
}

static bool parse_source(reading_t *reading, uint8_t bytes, bool may_be_wider) {
  moe__emu_operand_t operand;
  return parse_source_operand(reading->parser, bytes, may_be_wider, &operand) &&
         add_operand(reading, operand, false);
}

/* A predicate, maybe inverted: its addend says so. */
static bool parse_condition(moe__emu_parser_t *parser, moe__emu_operand_t *out) {
  bool is_inverted = moe__emu_parse_accept(parser, "!");
  if (!parse_source_operand(parser, 1, false, out))
    return false;
  out->addend = is_inverted;
  return true;
}

/* The inside of an address, between its brackets. */
static bool parse_address_inside(reading_t *reading) {
  moe__emu_parser_t *parser = reading->parser;
  moe__emu_operand_t operand;
  uint64_t address = 0;
  int64_t number = 0;
  int32_t addend = 0;
  const moe__emu_symbol_t *symbol = find(parser);
  if (parser->token.kind == MOE__EMU_NUMBER) {
    if (!moe__emu_parse_integer(parser, 0, INT64_MAX, &number) ||
        !constant(parser, 8, (uint64_t)number, &operand))
      return false;
  } else if (symbol && symbol_address(parser, symbol, &address)) {
    moe__emu_parse_take(parser);
    if (!address_value(parser, symbol, 8, address, &operand) || !parse_addend(parser, &addend))
      return false;
  } else {
    uint32_t row = 0;
    if (!named_row(parser, &row))
      return false;
    operand = operand_of_row(parser, row);
    if (operand.bytes != 4 && operand.bytes != 8)
      return fail_operand(parser, "a register of 32 or 64 bits");
    moe__emu_parse_take(parser);
    if (!parse_addend(parser, &addend))
      return false;
  }
  operand.addend = addend;
  return add_operand(reading, operand, false);
}

static bool parse_address(reading_t *reading) {
  return moe__emu_parse_expect(reading->parser, "[") && parse_address_inside(reading) &&
         moe__emu_parse_expect(reading->parser, "]");
}

/* {a, b, ...}: results or sources of `bytes` each; *out_count of them. */
static bool parse_list(reading_t *reading, uint8_t bytes, bool may_be_wider, bool is_result,
                       int *out_count) {
  moe__emu_parser_t *parser = reading->parser;
  *out_count = 0;
  if (!moe__emu_parse_expect(parser, "{"))
    return false;
  do {
    if (is_result ? !parse_result(reading, bytes, may_be_wider)
                  : !parse_source(reading, bytes, may_be_wider))
      return false;
    ++*out_count;
  } while (moe__emu_parse_accept(parser, ","));
  return moe__emu_parse_expect(parser, "}");
}

/* One operand, or a list as long as the group before says. */
static bool parse_vector(reading_t *reading, int group, bool is_result) {
  uint8_t bytes = type_of_group(reading, group);
  int choice = reading->match.choice[group - 1];
  int wanted = choice ? reading->match.text[group - 1][2] - '0' : 1;
  int count = 1;
  if (wanted == 1)
    return is_result ? parse_result(reading, bytes, true) : parse_source(reading, bytes, true);
  if (!parse_list(reading, bytes, true, is_result, &count))
    return false;
  if (count != wanted)
    return moe__emu_parse_fail(reading->parser, "a list of %d where %d are taken", count, wanted);
  return true;
}

/* One operand of a type, or a list of narrower registers that together have its bits. */
static bool parse_pack(reading_t *reading, int group, bool is_result) {
  moe__emu_parser_t *parser = reading->parser;
  uint8_t bytes = type_of_group(reading, group);
  if (!moe__emu_token_is(&parser->token, "{"))
    return is_result ? parse_result(reading, bytes, false) : parse_source(reading, bytes, false);
  moe__emu_lexer_t ahead = parser->lexer;
  int count = 1;
  for (moe__emu_token_t token = moe__emu_lex(&ahead);
       token.kind != MOE__EMU_END && !moe__emu_token_is(&token, "}"); token = moe__emu_lex(&ahead))
    count += moe__emu_token_is(&token, ",");
  int each = bytes / count;
  if ((count != 2 && count != 4) || (each != 2 && each != 4 && each != 8))
    return moe__emu_parse_fail(parser, "a list of %d does not make up %s", count,
                               width_name(bytes));
  return parse_list(reading, (uint8_t)each, false, is_result, &count);
}

static bool parse_tensor(reading_t *reading) {
  int count = 0;
  return moe__emu_parse_expect(reading->parser, "[") && parse_address_inside(reading) &&
         moe__emu_parse_expect(reading->parser, ",") &&
         parse_list(reading, 4, false, false, &count) &&
         moe__emu_parse_expect(reading->parser, "]");
}

static bool parse_label(reading_t *reading) {
  moe__emu_parser_t *parser = reading->parser;
  if (parser->token.kind != MOE__EMU_WORD)
    return fail_operand(parser, "a label");
  if (!moe__emu_parse_grow(parser, (void **)&parser->jumps, parser->jump_count, 1,
                           &parser->jump_capacity, sizeof *parser->jumps))
    return false;
  moe__emu_token_t token = moe__emu_parse_take(parser);
  const char *label = moe__emu_parse_text(parser, token.text, token.length);
  if (!label)
    return false;
  parser->jumps[parser->jump_count++] =
      (moe__emu_jump_t){parser->kernel->instruction_count, parser->scope, token.line, label};
  return true;
}

static bool parse_immediate(reading_t *reading) {
  int64_t value = 0;
  moe__emu_operand_t operand;
  return moe__emu_parse_integer(reading->parser, INT32_MIN, UINT32_MAX, &value) &&
         constant(reading->parser, 4, (uint64_t)value & UINT32_MAX, &operand) &&
         add_operand(reading, operand, false);
}

/* p or p|q; r or r|p. The second operand is always there: the sink where none is written. */
static bool parse_pair(reading_t *reading, uint8_t bytes) {
  if (!parse_result(reading, bytes, false))
    return false;
  if (moe__emu_parse_accept(reading->parser, "|"))
    return parse_result(reading, 1, false);
  moe__emu_operand_t sink = operand_of_row(reading->parser, MOE__EMU_SINK_ROW);
  sink.bytes = 1;
  return add_operand(reading, sink, true);
}

/* Reads the operand of a letter, and moves on to the next letter. */
static bool parse_operand(reading_t *reading, const char **letters) {
  static const uint8_t widths[128] = {['h'] = 2, ['r'] = 4, ['l'] = 8, ['q'] = 16, ['p'] = 1};
  char letter = *(*letters)++;
  bool is_result = letter >= 'A' && letter <= 'Z';
  char kind = (char)(letter | 0x20);
  int group = strchr("etvu", kind) ? *(*letters)++ - '0' : 0;
  uint8_t type = strchr("et", kind) ? type_of_group(reading, group) : 0;
  moe__emu_operand_t operand;
  int count = 0;
  switch (letter) {
  case 'D':
    return parse_pair(reading, 1);
  case 'S':
    return parse_pair(reading, 4);
  case 'G':
    return parse_list(reading, 4, false, true, &count);
  case 'g':
    return parse_list(reading, 4, false, false, &count);
  case 'w':
    return moe__emu_token_is(&reading->parser->token, "{")
               ? parse_list(reading, 4, false, false, &count)
               : parse_source(reading, 8, false);
  case 'c':
    return parse_condition(reading->parser, &operand) && add_operand(reading, operand, false);
  case 'a':
    return parse_address(reading);
  case 'm':
    return parse_tensor(reading);
  case 'n':
    return parse_immediate(reading);
  case 'b':
    return parse_label(reading);
  default:
    break;
  }
  switch (kind) {
  case 'v':
    return parse_vector(reading, group, is_result);
  case 'u':
    return parse_pack(reading, group, is_result);
  default: {
    uint8_t bytes = type ? type : widths[(unsigned char)kind];
    bool may_be_wider = kind == 't';
    return is_result ? parse_result(reading, bytes, may_be_wider)
                     : parse_source(reading, bytes, may_be_wider);
  }
  }
}

static bool parse_operands(reading_t *reading) {
  moe__emu_parser_t *parser = reading->parser;
  const char *letters = reading->match.opcode->operands;
  for (bool is_first = true; *letters; is_first = false) {
    bool is_optional = *letters == '?';
    letters += is_optional;
    if (is_optional && moe__emu_token_is(&parser->token, ";"))
      return true;
    if (!is_first && !moe__emu_parse_expect(parser, ","))
      return false;
    if (!parse_operand(reading, &letters))
      return false;
  }
  return true;
}

static bool parse_guard(reading_t *reading) {
  moe__emu_parser_t *parser = reading->parser;
  moe__emu_operand_t operand;
  reading->instruction->guard = -1;
  if (!moe__emu_parse_accept(parser, "@"))
    return true;
  if (!parse_condition(parser, &operand) || !add_operand(reading, operand, false))
    return false;
  reading->instruction->guard = (int32_t)parser->kernel->operand_count - 1;
  reading->instruction->guard_inverted = operand.addend;
  reading->instruction->operand_count = 0;
  return true;
}

bool moe__emu_parse_instruction(moe__emu_parser_t *parser) {
  moe__emu_kernel_t *kernel = parser->kernel;
  moe__emu_instruction_t instruction = {.line = parser->token.line, .reconverge = MOE__EMU_NOWHERE};
  reading_t reading = {.parser = parser, .instruction = &instruction};
  if (!parse_guard(&reading))
    return false;
  instruction.operands = kernel->operand_count;
  moe__emu_token_t name = parser->token;
  int length = (int)(name.length > 96 ? 96 : name.length);
  if (name.kind != MOE__EMU_WORD)
    return fail_operand(parser, "an instruction");
  if (!moe__emu_match(name.text, name.length, &reading.match))
    return moe__emu_parse_fail(parser, "unknown instruction '%.*s'", length, name.text);
  moe__emu_parse_take(parser);

  const moe__emu_opcode_t *opcode = reading.match.opcode;
  instruction.execute = opcode->execute;
  instruction.compute = opcode->compute;
  instruction.is_branch = opcode->flags & MOE__EMU_BRANCH;
  instruction.is_exit = opcode->flags & MOE__EMU_EXIT;
  instruction.is_uniform = opcode->flags & MOE__EMU_UNIFORM;
  instruction.is_pure = opcode->compute || opcode->flags & MOE__EMU_PURE;
  memcpy(instruction.choice, reading.match.choice, sizeof instruction.choice);
  instruction.name = moe__emu_parse_text(parser, name.text, name.length);
  moe__emu_error_t why;
  if (!instruction.name || !parse_operands(&reading) || !moe__emu_parse_expect(parser, ";"))
    return false;
  if (opcode->verify && !opcode->verify(kernel, &instruction, &why))
    return moe__emu_error(parser->error, "line %u: %.96s: %.128s", instruction.line,
                          instruction.name, why.text);
  if (!moe__emu_parse_grow(parser, (void **)&kernel->instructions, kernel->instruction_count, 1,
                           &parser->instruction_capacity, sizeof *kernel->instructions))
    return false;
  kernel->instructions[kernel->instruction_count++] = instruction;
  return true;
}
