/* PrintIrdl.c - prints a dialect as IRDL text, from the rows of its ops: dialects/<name>.mlir.
 *
 * Usage: print-irdl DIALECT
 *
 * `cmake --build build --target dialects` writes the files, and test/dialects/generated.test
 * compares them.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Dialect/Row.h"

#include <stdio.h>
#include <string.h>

/* Each line of the text behind `prefix`, without a space behind it where the line is empty. */
static void print_comment(const char *prefix, const char *text) {
  while (*text) {
    int length = (int)strcspn(text, "\n");
    printf("%s//%s%.*s\n", prefix, length ? " " : "", length, text);
    text += length + (text[length] == '\n');
  }
}

static void print_types(const moe__tensor_row_t *list) {
  for (; list->role; list++)
    printf("    %%%s = irdl.base \"!builtin.tensor\"\n", moe__role_name(list->role));
}

static void print_tensors(const char *kind, const moe__tensor_row_t *list) {
  printf("    irdl.%s(", kind);
  for (const moe__tensor_row_t *tensor = list; tensor->role; tensor++)
    printf("%s%s: %s%%%s", tensor == list ? "" : ", ", moe__role_name(tensor->role),
           tensor->optional ? "optional " : "", moe__role_name(tensor->role));
  puts(")");
}

/* IRDL cannot say that an attribute is optional: those are left to moe-verify. */
static void print_attributes(const moe__attribute_row_t *list) {
  for (const moe__attribute_row_t *attribute = list; attribute->name; attribute++)
    if (!attribute->optional)
      printf("    %%%s = irdl.base \"#builtin.%s\"\n", attribute->name,
             attribute->kind == MOE__STRING ? "string" : "integer");
}

static void print_attribute_list(const moe__attribute_row_t *list) {
  const char *separator = "    irdl.attributes {";
  for (const moe__attribute_row_t *attribute = list; attribute->name; attribute++) {
    if (attribute->optional)
      continue;
    printf("%s\"%s\" = %%%s", separator, attribute->name, attribute->name);
    separator = ", ";
  }
  if (*separator == ',') /* there was one */
    puts("}");
}

static void print_op(const moe__op_row_t *row) {
  print_comment("  ", row->doc);
  printf("  irdl.operation @%s {\n", strchr(row->name, '.') + 1);
  print_types(row->operands);
  print_types(row->results);
  print_attributes(row->attributes);
  print_tensors("operands", row->operands);
  print_tensors("results", row->results);
  print_attribute_list(row->attributes);
  puts("  }");
}

static void print_dialect(const moe__dialect_row_t *dialect) {
  size_t length = strlen(dialect->name);
  print_comment("", dialect->doc);
  puts("//\n// Generated from lib/Dialect. Do not edit: change the rows, then `cmake --build build "
       "--target dialects`.\n//\n"
       "// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception\n");
  printf("irdl.dialect @%s {\n", dialect->name);
  const char *separator = "";
  for (int id = MOE__NO_OP + 1; id < MOE__NUM_OPS; id++) {
    const moe__op_row_t *row = &moe__op_rows[id];
    if (strncmp(row->name, dialect->name, length) != 0 || row->name[length] != '.')
      continue;
    fputs(separator, stdout);
    print_op(row);
    separator = "\n";
  }
  puts("}");
}

int main(int argc, char **argv) {
  const moe__dialect_row_t *dialect = moe__dialect_rows;
  if (argc == 2)
    while (dialect->name && strcmp(dialect->name, argv[1]) != 0)
      dialect++;
  if (argc != 2 || !dialect->name) {
    fputs("usage: print-irdl DIALECT\n", stderr);
    return 2;
  }
  print_dialect(dialect);
  return fflush(stdout) ? 1 : 0;
}
