/* Parser.c - reads a PTX module: its directives, and the bodies of its kernels.
 *
 * Why it exists: a directive that is not known here is an error, as an instruction is that the
 * table of Opcodes.h does not spell. Those that change nothing for an emulator are named as such.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Emulator/Ptx/Parser.h"

#include "lib/Emulator/Ptx/Flow.h"
#include "lib/Emulator/Ptx/Opcodes.h"
#include "lib/Emulator/Ptx/Operands.h"
#include "lib/Emulator/Ptx/Symbols.h"

#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  MAX_PARAMETER_BYTES = 4096,
  MAX_VARIABLE_BYTES = 1 << 28,
  MAX_SHARED_BYTES = 1 << 18,
  SINK_BYTES = 16,
};

static const char *take_name(moe__emu_parser_t *parser, const char *what) {
  if (parser->token.kind != MOE__EMU_WORD || parser->token.text[0] == '.') {
    moe__emu_parse_fail(parser, "'%.*s' where the name of %s should be",
                        MOE__EMU_TOKEN(parser->token), what);
    return NULL;
  }
  moe__emu_token_t token = moe__emu_parse_take(parser);
  return moe__emu_parse_text(parser, token.text, token.length);
}

/* ---- Types ---- */

/* Takes a type such as .b32; bytes of one element, 0 after an error. */
static uint32_t take_type(moe__emu_parser_t *parser) {
  static const struct {
    const char *name;
    uint32_t bytes;
  } types[] = {{".b8", 1},    {".u8", 1},   {".s8", 1},    {".b16", 2},   {".u16", 2},
               {".s16", 2},   {".f16", 2},  {".b32", 4},   {".u32", 4},   {".s32", 4},
               {".f32", 4},   {".b64", 8},  {".u64", 8},   {".s64", 8},   {".f64", 8},
               {".b128", 16}, {".bf16", 2}, {".f16x2", 4}, {".bf16x2", 4}};
  for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
    if (moe__emu_parse_accept(parser, types[i].name))
      return types[i].bytes;
  }
  moe__emu_parse_fail(parser, "'%.*s' where a type should be", MOE__EMU_TOKEN(parser->token));
  return 0;
}

/* .align N, if there; otherwise the element's own. */
static bool take_alignment(moe__emu_parser_t *parser, int64_t *out_alignment) {
  *out_alignment = 0;
  if (!moe__emu_parse_accept(parser, ".align"))
    return true;
  if (!moe__emu_parse_integer(parser, 1, 1 << 15, out_alignment))
    return false;
  if (*out_alignment & (*out_alignment - 1))
    return moe__emu_parse_fail(parser, "an alignment must be a power of two");
  return true;
}

static uint32_t round_up(uint64_t value, uint64_t alignment) {
  return (uint32_t)((value + alignment - 1) / alignment * alignment);
}

/* "[N]...[N]" after a name: the number of elements; 0 with *out_open for "[]". */
static bool take_dimensions(moe__emu_parser_t *parser, int64_t *out_count, bool *out_open) {
  *out_count = 1;
  *out_open = false;
  while (moe__emu_parse_accept(parser, "[")) {
    int64_t size = 0;
    if (moe__emu_parse_accept(parser, "]")) {
      *out_open = true;
      return true;
    }
    if (!moe__emu_parse_integer(parser, 0, MAX_VARIABLE_BYTES, &size) ||
        !moe__emu_parse_expect(parser, "]"))
      return false;
    *out_count *= size;
    if (*out_count > MAX_VARIABLE_BYTES)
      return moe__emu_parse_fail(parser, "the variable is too large");
  }
  return true;
}

/* ---- Variables ---- */

static bool parse_initializer(moe__emu_parser_t *parser, uint8_t *data, uint32_t element,
                              uint64_t bytes) {
  bool is_list = moe__emu_parse_accept(parser, "{");
  uint64_t at = 0;
  if (is_list && moe__emu_parse_accept(parser, "}"))
    return true;
  do {
    bool is_negative = moe__emu_parse_accept(parser, "-");
    if (parser->token.kind != MOE__EMU_NUMBER)
      return moe__emu_parse_fail(parser, "an initializer is a number, or a list of numbers");
    uint64_t value = moe__emu_parse_take(parser).value;
    value = is_negative ? -value : value;
    if (at + element > bytes || element > sizeof value)
      return moe__emu_parse_fail(parser, "the initializer is larger than the variable");
    memcpy(data + at, &value, element);
    at += element;
  } while (is_list && moe__emu_parse_accept(parser, ","));
  return !is_list || moe__emu_parse_expect(parser, "}");
}

static bool add_variable(moe__emu_parser_t *parser, const char *name, uint32_t element,
                         uint64_t count, bool is_constant) {
  moe__emu_module_t *module = parser->module;
  uint64_t bytes = element * count;
  moe__emu_variable_t *grown =
      realloc(module->variables, (module->variable_count + 1) * sizeof *grown);
  if (grown)
    module->variables = grown;
  uint8_t *data = bytes <= MAX_VARIABLE_BYTES ? aligned_alloc(256, round_up(bytes + 1, 256)) : NULL;
  if (!grown || !data) {
    free(data);
    return moe__emu_parse_fail(parser, "no memory for variable '%.64s'", name);
  }
  memset(data, 0, bytes);
  module->variables[module->variable_count] = (moe__emu_variable_t){name, data, bytes, is_constant};
  if (!moe__emu_symbol_add(parser, name, MOE__EMU_SYMBOL_VARIABLE, module->variable_count++))
    return false;
  return !moe__emu_parse_accept(parser, "=") || parse_initializer(parser, data, element, bytes);
}

/* A variable in shared memory. The module's lie in every kernel alike, so they come first. */
static bool add_shared(moe__emu_parser_t *parser, const char *name, uint32_t alignment,
                       uint64_t bytes, bool is_open) {
  moe__emu_kernel_t *kernel = parser->kernel;
  uint32_t *end = kernel ? &kernel->static_shared_bytes : &parser->shared_bytes;
  if (is_open) {
    /* All open arrays share one place, after the others. */
    if (alignment > parser->dynamic_alignment)
      parser->dynamic_alignment = alignment;
    return moe__emu_symbol_add(parser, name, MOE__EMU_SYMBOL_DYNAMIC, 0);
  }
  if (kernel && kernel->dynamic_shared)
    return moe__emu_parse_fail(parser,
                               "'%.64s' is declared after the first use of an array without "
                               "a size, which lies behind it",
                               name);
  uint32_t address = round_up(MOE__EMU_SHARED_BASE + *end, alignment);
  if (bytes > MAX_SHARED_BYTES || address + bytes > MAX_SHARED_BYTES)
    return moe__emu_parse_fail(parser, "shared memory has at most %d bytes", MAX_SHARED_BYTES);
  *end = address + (uint32_t)bytes - MOE__EMU_SHARED_BASE;
  return moe__emu_symbol_add(parser, name, MOE__EMU_SYMBOL_SHARED, address);
}

/* .shared .align 16 .b8 name[64]; the state space is taken. */
static bool parse_variable(moe__emu_parser_t *parser, const char *space) {
  int64_t alignment = 0, count = 0;
  bool is_open = false;
  if (!take_alignment(parser, &alignment))
    return false;
  uint32_t element = take_type(parser);
  const char *name = element ? take_name(parser, "a variable") : NULL;
  if (!name || !take_dimensions(parser, &count, &is_open))
    return false;
  if (alignment == 0)
    alignment = element;
  bool is_shared = !strcmp(space, ".shared");
  if (is_open && !is_shared)
    return moe__emu_parse_fail(parser, "'%.64s' has no size", name);
  bool is_ok =
      is_shared ? add_shared(parser, name, (uint32_t)alignment, element * (uint64_t)count, is_open)
                : add_variable(parser, name, element, (uint64_t)count, !strcmp(space, ".const"));
  return is_ok && moe__emu_parse_expect(parser, ";");
}

/* ---- Kernels ---- */

/* .reg .b32 %r<12>, %x; the directive is taken. */
static bool parse_registers(moe__emu_parser_t *parser) {
  uint8_t bytes = 1;
  if (!moe__emu_parse_accept(parser, ".pred")) {
    bytes = (uint8_t)take_type(parser);
    if (bytes == 0)
      return false;
    if (bytes == 1)
      return moe__emu_parse_fail(parser, "there are no 8-bit registers");
  }
  do {
    const char *name = take_name(parser, "a register");
    int64_t count = -1;
    if (!name)
      return false;
    if (moe__emu_parse_accept(parser, "<") &&
        (!moe__emu_parse_integer(parser, 1, 1 << 16, &count) ||
         !moe__emu_parse_expect(parser, ">")))
      return false;
    for (int64_t i = 0; i < (count < 0 ? 1 : count); i++) {
      char full[160];
      uint32_t row = 0;
      int length =
          snprintf(full, sizeof full, count < 0 ? "%.128s" : "%.128s%lld", name, (long long)i);
      const char *text = moe__emu_parse_text(parser, full, (size_t)length);
      if (!text ||
          !moe__emu_row_add(parser, (moe__emu_row_t){.bytes = bytes, .name = text}, &row) ||
          !moe__emu_symbol_add(parser, text, MOE__EMU_SYMBOL_ROW, row))
        return false;
    }
  } while (moe__emu_parse_accept(parser, ","));
  return moe__emu_parse_expect(parser, ";");
}

/* Skips .loc and .pragma: up to the end of the line, or the semicolon. */
static void skip_line(moe__emu_parser_t *parser) {
  uint32_t line = parser->token.line;
  while (parser->token.kind != MOE__EMU_END && parser->token.line == line) {
    if (moe__emu_parse_accept(parser, ";"))
      return;
    moe__emu_parse_take(parser);
  }
}

static bool fail_directive(moe__emu_parser_t *parser) {
  return moe__emu_parse_fail(parser, "unknown directive '%.*s'", MOE__EMU_TOKEN(parser->token));
}

static bool at_label(const moe__emu_parser_t *parser) {
  moe__emu_lexer_t ahead = parser->lexer;
  moe__emu_token_t next = moe__emu_lex(&ahead);
  return parser->token.kind == MOE__EMU_WORD && moe__emu_token_is(&next, ":");
}

static bool parse_statement(moe__emu_parser_t *parser) {
  if (moe__emu_parse_accept(parser, "{"))
    return moe__emu_scope_push(parser);
  if (moe__emu_parse_accept(parser, ".reg"))
    return parse_registers(parser);
  if (moe__emu_parse_accept(parser, ".shared"))
    return parse_variable(parser, ".shared");
  if (moe__emu_token_is(&parser->token, ".pragma") || moe__emu_token_is(&parser->token, ".loc")) {
    skip_line(parser);
    return true;
  }
  if (parser->token.kind == MOE__EMU_WORD && parser->token.text[0] == '.')
    return fail_directive(parser);
  if (at_label(parser)) {
    const char *name = take_name(parser, "a label");
    return name && moe__emu_parse_expect(parser, ":") &&
           moe__emu_symbol_add(parser, name, MOE__EMU_SYMBOL_LABEL,
                               parser->kernel->instruction_count);
  }
  if (moe__emu_parse_accept(parser, ";"))
    return true;
  return moe__emu_parse_instruction(parser);
}

/* Every row of the kernel's own, the sink first. */
static bool begin_body(moe__emu_parser_t *parser) {
  uint32_t sink = 0;
  if (!moe__emu_scope_push(parser))
    return false;
  parser->kernel_scope = parser->scope;
  parser->jump_count = 0;
  parser->kernel->static_shared_bytes = parser->shared_bytes;
  return moe__emu_row_add(
      parser, (moe__emu_row_t){.kind = MOE__EMU_ROW_REGISTER, .bytes = SINK_BYTES, .name = "_"},
      &sink);
}

static bool resolve_jumps(moe__emu_parser_t *parser) {
  for (uint32_t i = 0; i < parser->jump_count; i++) {
    const moe__emu_jump_t *jump = &parser->jumps[i];
    const moe__emu_symbol_t *label =
        moe__emu_symbol_find(parser, jump->scope, jump->label, strlen(jump->label));
    if (!label || label->kind != MOE__EMU_SYMBOL_LABEL) {
      parser->token.line = jump->line;
      return moe__emu_parse_fail(parser, "no label '%.64s'", jump->label);
    }
    parser->kernel->instructions[jump->instruction].target = (uint32_t)label->value;
  }
  return true;
}

/* A kernel that runs past its last instruction returns, so that every label is an instruction. */
static bool end_body(moe__emu_parser_t *parser) {
  static const char ret[] = "ret;";
  moe__emu_kernel_t *kernel = parser->kernel;
  moe__emu_lexer_t lexer = parser->lexer;
  moe__emu_token_t token = parser->token;
  parser->lexer = (moe__emu_lexer_t){ret, ret + sizeof ret - 1, token.line};
  moe__emu_parse_take(parser);
  bool is_ok = moe__emu_parse_instruction(parser);
  parser->lexer = lexer;
  parser->token = token;
  if (!is_ok || !resolve_jumps(parser))
    return false;
  if (!moe__emu_flow(kernel))
    return moe__emu_parse_fail(parser, "out of memory");
  moe__emu_find_uses(kernel);
  return true;
}

static bool parse_body(moe__emu_parser_t *parser) {
  if (!begin_body(parser) || !moe__emu_parse_expect(parser, "{"))
    return false;
  uint32_t depth = parser->depth;
  for (;;) {
    if (parser->depth == depth && moe__emu_token_is(&parser->token, "}"))
      break;
    if (moe__emu_parse_accept(parser, "}"))
      moe__emu_scope_pop(parser);
    else if (parser->token.kind == MOE__EMU_END)
      return moe__emu_parse_fail(parser, "the text ends inside of kernel '%.64s'",
                                 parser->kernel->name);
    else if (!parse_statement(parser))
      return false;
  }
  if (!end_body(parser) || !moe__emu_parse_expect(parser, "}"))
    return false;
  moe__emu_scope_pop(parser);
  return true;
}

/* .param .align 64 .b8 name[128] or .param .u64 .ptr .global .align 16 name */
static bool parse_parameter(moe__emu_parser_t *parser) {
  moe__emu_kernel_t *kernel = parser->kernel;
  int64_t alignment = 0, count = 0, ignored = 0;
  bool is_open = false;
  if (!moe__emu_parse_expect(parser, ".param") || !take_alignment(parser, &alignment))
    return false;
  uint32_t element = take_type(parser);
  if (element == 0)
    return false;
  if (moe__emu_parse_accept(parser, ".ptr")) {
    static const char *const spaces[] = {".global", ".shared", ".const", ".local"};
    for (size_t i = 0; i < sizeof spaces / sizeof spaces[0]; i++)
      moe__emu_parse_accept(parser, spaces[i]);
    if (!take_alignment(parser, &ignored))
      return false;
  }
  const char *name = take_name(parser, "a parameter");
  if (!name || !take_dimensions(parser, &count, &is_open))
    return false;
  uint64_t bytes = element * (uint64_t)count;
  uint64_t offset = round_up(kernel->parameter_bytes, (uint64_t)(alignment ? alignment : element));
  if (is_open || bytes == 0 || bytes > MAX_PARAMETER_BYTES || offset + bytes > MAX_PARAMETER_BYTES)
    return moe__emu_parse_fail(parser, "parameter '%.64s' does not fit the %d bytes there are",
                               name, MAX_PARAMETER_BYTES);
  moe__emu_parameter_t *grown =
      realloc(kernel->parameters, (kernel->parameter_count + 1) * sizeof *grown);
  if (!grown)
    return moe__emu_parse_fail(parser, "out of memory");
  kernel->parameters = grown;
  grown[kernel->parameter_count] = (moe__emu_parameter_t){name, (uint32_t)offset, (uint32_t)bytes};
  kernel->parameter_bytes = (uint32_t)(offset + bytes);
  return moe__emu_symbol_add(parser, name, MOE__EMU_SYMBOL_PARAMETER, kernel->parameter_count++);
}

/* "N" or "N, N" or "N, N, N"; what is missing is 1. */
static bool parse_extent(moe__emu_parser_t *parser, uint32_t out[3]) {
  int64_t value = 0;
  out[0] = out[1] = out[2] = 1;
  for (int i = 0; i < 3 && (i == 0 || moe__emu_parse_accept(parser, ",")); i++) {
    if (!moe__emu_parse_integer(parser, 1, 1024, &value))
      return false;
    out[i] = (uint32_t)value;
  }
  return true;
}

static bool parse_kernel_directives(moe__emu_parser_t *parser) {
  moe__emu_kernel_t *kernel = parser->kernel;
  while (!moe__emu_token_is(&parser->token, "{")) {
    uint32_t extent[3];
    int64_t value = 0;
    if (moe__emu_parse_accept(parser, ".reqntid")) {
      if (!parse_extent(parser, kernel->required_block))
        return false;
      kernel->max_threads =
          kernel->required_block[0] * kernel->required_block[1] * kernel->required_block[2];
    } else if (moe__emu_parse_accept(parser, ".maxntid")) {
      if (!parse_extent(parser, extent))
        return false;
      kernel->max_threads = extent[0] * extent[1] * extent[2];
    } else if (moe__emu_parse_accept(parser, ".minnctapersm")) {
      if (!moe__emu_parse_integer(parser, 1, 32, &value))
        return false;
      kernel->min_ctas_per_sm = (uint32_t)value;
    } else if (moe__emu_parse_accept(parser, ".maxnreg")) {
      if (!moe__emu_parse_integer(parser, 1, 255, &value))
        return false;
      kernel->max_registers = (uint32_t)value;
    } else if (moe__emu_parse_accept(parser, ".reqnctapercluster")) {
      if (!parse_extent(parser, kernel->cluster))
        return false;
    } else if (!moe__emu_parse_accept(parser, ".explicitcluster")) {
      return fail_directive(parser);
    }
  }
  return true;
}

static int compare_names(const void *a, const void *b) {
  return strcmp(((const moe__emu_kernel_name_t *)a)->name,
                ((const moe__emu_kernel_name_t *)b)->name);
}

const moe__emu_kernel_t *moe__emu_find_kernel(const moe__emu_module_t *module, const char *name) {
  moe__emu_kernel_name_t key = {.name = name};
  moe__emu_kernel_name_t *const *found = tfind(&key, &module->kernel_names, compare_names);
  return found ? &module->kernels[(*found)->kernel] : NULL;
}

/* Enters the name of the next kernel. */
static bool enter_kernel(moe__emu_parser_t *parser, const char *name) {
  moe__emu_module_t *module = parser->module;
  moe__emu_kernel_name_t *entry = malloc(sizeof *entry);
  if (!entry)
    return moe__emu_parse_fail(parser, "out of memory");
  *entry = (moe__emu_kernel_name_t){name, module->kernel_count};
  moe__emu_kernel_name_t *const *found = tsearch(entry, &module->kernel_names, compare_names);
  if (found && *found == entry)
    return true;
  free(entry);
  return found ? moe__emu_parse_fail(parser, "kernel '%.64s' is defined twice", name)
               : moe__emu_parse_fail(parser, "out of memory");
}

static bool parse_kernel(moe__emu_parser_t *parser) {
  moe__emu_module_t *module = parser->module;
  const char *name = take_name(parser, "a kernel");
  if (!name)
    return false;
  moe__emu_kernel_t *grown = realloc(module->kernels, (module->kernel_count + 1) * sizeof *grown);
  if (!grown)
    return moe__emu_parse_fail(parser, "out of memory");
  module->kernels = grown;
  if (!enter_kernel(parser, name))
    return false;
  parser->kernel = &grown[module->kernel_count++];
  *parser->kernel = (moe__emu_kernel_t){.name = name};
  parser->instruction_capacity = parser->operand_capacity = parser->row_capacity = 0;
  if (!moe__emu_scope_push(parser))
    return false;
  if (moe__emu_parse_accept(parser, "(") && !moe__emu_parse_accept(parser, ")")) {
    do {
      if (!parse_parameter(parser))
        return false;
    } while (moe__emu_parse_accept(parser, ","));
    if (!moe__emu_parse_expect(parser, ")"))
      return false;
  }
  if (!parse_kernel_directives(parser) || !parse_body(parser))
    return false;
  moe__emu_scope_pop(parser);
  moe__emu_symbols_forget_kernel(parser);
  parser->kernel = NULL;
  return true;
}

/* ---- The module ---- */

static bool parse_version(moe__emu_parser_t *parser) {
  if (parser->token.kind != MOE__EMU_NUMBER || parser->token.number != MOE__EMU_VERSION)
    return moe__emu_parse_fail(parser, "'%.*s' where a version should be",
                               MOE__EMU_TOKEN(parser->token));
  moe__emu_parse_take(parser);
  parser->has_version = true;
  return true;
}

/* Instructions of other chips are not known here, or differ. */
static bool parse_target(moe__emu_parser_t *parser) {
  if (!moe__emu_token_is(&parser->token, "sm_90") && !moe__emu_token_is(&parser->token, "sm_90a"))
    return moe__emu_parse_fail(parser, "'%.*s' where the target sm_90 or sm_90a should be",
                               MOE__EMU_TOKEN(parser->token));
  moe__emu_parse_take(parser);
  parser->has_target = true;
  return true;
}

/* Both stand before all that is declared. */
static bool check_head(moe__emu_parser_t *parser) {
  if (!parser->has_version || !parser->has_target)
    return moe__emu_parse_fail(parser, "there is no %s before this",
                               parser->has_version ? ".target" : ".version");
  return true;
}

/* Debug information, which moves no data: `.section .debug_line { ... }`. */
static bool skip_section(moe__emu_parser_t *parser) {
  while (parser->token.kind != MOE__EMU_END && !moe__emu_token_is(&parser->token, "}"))
    moe__emu_parse_take(parser);
  return moe__emu_parse_expect(parser, "}");
}

static bool parse_directive(moe__emu_parser_t *parser) {
  int64_t value = 0;
  if (moe__emu_parse_accept(parser, ".version"))
    return parse_version(parser);
  if (moe__emu_parse_accept(parser, ".target"))
    return parse_target(parser);
  if (moe__emu_parse_accept(parser, ".address_size"))
    return moe__emu_parse_integer(parser, 64, 64, &value);
  if (moe__emu_token_is(&parser->token, ".file")) {
    skip_line(parser);
    return true;
  }
  if (moe__emu_parse_accept(parser, ".section"))
    return skip_section(parser);
  while (moe__emu_parse_accept(parser, ".visible") || moe__emu_parse_accept(parser, ".extern") ||
         moe__emu_parse_accept(parser, ".weak"))
    continue;
  if (moe__emu_parse_accept(parser, ".entry"))
    return check_head(parser) && parse_kernel(parser);
  if (moe__emu_parse_accept(parser, ".shared"))
    return check_head(parser) && parse_variable(parser, ".shared");
  if (moe__emu_parse_accept(parser, ".global"))
    return check_head(parser) && parse_variable(parser, ".global");
  if (moe__emu_parse_accept(parser, ".const"))
    return check_head(parser) && parse_variable(parser, ".const");
  return fail_directive(parser);
}

bool moe__emu_module_parse(const char *text, size_t size, moe__emu_module_t *out_module,
                           moe__emu_error_t *error) {
  *out_module = (moe__emu_module_t){0};
  moe__emu_parser_t parser = {
      .lexer = {text, text + size, 1}, .error = error, .module = out_module};
  moe__emu_parse_take(&parser);
  /* Scope 0, the module's, is its own parent. */
  bool is_ok = moe__emu_scope_push(&parser);
  while (is_ok && parser.token.kind != MOE__EMU_END)
    is_ok = parse_directive(&parser);
  if (is_ok && out_module->kernel_count == 0)
    is_ok = moe__emu_parse_fail(&parser, "the module has no kernel");
  free(parser.symbols);
  free(parser.parents);
  free(parser.jumps);
  return is_ok;
}

void moe__emu_module_free(moe__emu_module_t *module) {
  for (uint32_t i = 0; i < module->kernel_count; i++) {
    free(module->kernels[i].parameters);
    free(module->kernels[i].instructions);
    free(module->kernels[i].operands);
    free(module->kernels[i].rows);
  }
  for (uint32_t i = 0; i < module->variable_count; i++)
    free(module->variables[i].data);
  tdestroy(module->kernel_names, free);
  moe__emu_texts_free(module);
  free(module->kernels);
  free(module->variables);
  *module = (moe__emu_module_t){0};
}
