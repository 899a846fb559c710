/* Contents.c - says what is in a bundle.
 *
 * Why from the manifest's JSON: the runtime has checked it, and what it says to launchers, such as
 * divisibility, is what a reader wants to see.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "tools/moe-run/Contents.h"

#include "lib/Files/Bundle.h"
#include "lib/Files/Files.h"
#include "tools/moe-run/Describe.h"
#include "tools/moe-run/Report.h"

#include <elf.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Registers, from the cubin ---- */

typedef struct cubin_t {
  char *data;
  size_t size;
} cubin_t;

/* Section number i; zeros where it does not lie in the file. */
static Elf64_Shdr section_of(const cubin_t *cubin, size_t i) {
  Elf64_Ehdr header;
  Elf64_Shdr section = {0};
  memcpy(&header, cubin->data, sizeof header);
  if (i >= header.e_shnum || header.e_shoff > cubin->size ||
      i >= (cubin->size - header.e_shoff) / sizeof section)
    return section;
  memcpy(&section, cubin->data + header.e_shoff + i * sizeof section, sizeof section);
  if (section.sh_offset > cubin->size || section.sh_size > cubin->size - section.sh_offset)
    section = (Elf64_Shdr){0};
  return section;
}

static const char *section_name(const cubin_t *cubin, const Elf64_Shdr *section) {
  Elf64_Ehdr header;
  memcpy(&header, cubin->data, sizeof header);
  Elf64_Shdr names = section_of(cubin, header.e_shstrndx);
  return section->sh_name < names.sh_size ? cubin->data + names.sh_offset + section->sh_name : "";
}

/* The number of the section of code that symbol number `index` names; 0 where there is none. */
static size_t code_of_symbol(const cubin_t *cubin, uint32_t index) {
  Elf64_Ehdr header;
  memcpy(&header, cubin->data, sizeof header);
  for (size_t i = 0; i < header.e_shnum; i++) {
    Elf64_Shdr section = section_of(cubin, i);
    if (section.sh_type != SHT_SYMTAB || index >= section.sh_size / sizeof(Elf64_Sym))
      continue;
    Elf64_Sym symbol;
    memcpy(&symbol, cubin->data + section.sh_offset + index * sizeof symbol, sizeof symbol);
    return symbol.st_shndx;
  }
  return 0;
}

/* The registers of a thread of the kernel, from the table .nv.info; -1 where it does not say. Its
 * entries have a format, an attribute and, in format 4, the number of bytes that follow. */
static int count_registers(const cubin_t *cubin, const char *kernel) {
  enum { FORMAT_SIZED = 4, REGISTER_COUNT = 0x2f, HEAD = 4 };
  Elf64_Ehdr header;
  char wanted[300];
  if (cubin->size < sizeof header)
    return -1;
  memcpy(&header, cubin->data, sizeof header);
  snprintf(wanted, sizeof wanted, ".text.%s", kernel);
  for (size_t i = 0; i < header.e_shnum; i++) {
    Elf64_Shdr info = section_of(cubin, i);
    if (strcmp(section_name(cubin, &info), ".nv.info") != 0)
      continue;
    const char *entry = cubin->data + info.sh_offset, *end = entry + info.sh_size;
    while (end - entry >= HEAD) {
      uint16_t size = 0;
      uint32_t values[2];
      if (entry[0] == FORMAT_SIZED)
        memcpy(&size, entry + 2, sizeof size);
      if (end - entry < HEAD + size)
        break;
      if (entry[1] == REGISTER_COUNT && size >= sizeof values) {
        memcpy(values, entry + HEAD, sizeof values);
        Elf64_Shdr code = section_of(cubin, code_of_symbol(cubin, values[0]));
        if (!strcmp(section_name(cubin, &code), wanted))
          return (int)values[1];
      }
      entry += HEAD + size;
    }
  }
  return -1;
}

/* ---- Files ---- */

/* The whole file; NULL data where it cannot be read, which the runtime would have said. */
static cubin_t read_file(const char *folder, const char *name) {
  char *path = NULL;
  cubin_t file = {0};
  if (asprintf(&path, "%s/%s", folder, name) < 0)
    return file;
  (void)moe__file_read(path, &file.data, &file.size);
  free(path);
  return file;
}

static const char *text_of(const json_t *object, const char *key) {
  return json_string_value(json_object_get(object, key));
}

/* Adds "registers" to each kernel of the manifest, where the cubin says. */
static void add_registers(const char *folder, json_t *manifest) {
  const json_t *artifact = json_object_get(json_object_get(manifest, "artifacts"), "cubin");
  cubin_t cubin = artifact ? read_file(folder, text_of(artifact, "file")) : (cubin_t){0};
  size_t i;
  json_t *kernel;
  json_array_foreach(json_object_get(manifest, "kernels"), i, kernel) {
    int registers = cubin.data ? count_registers(&cubin, text_of(kernel, "name")) : -1;
    if (registers >= 0)
      json_object_set_new(kernel, "registers", json_integer(registers));
  }
  free(cubin.data);
}

/* ---- Printing ---- */

/* An expression as people write it: ceil(w.1 / 32), a * b, min(a, b). */
static void print_expression(const json_t *expression) {
  static const struct {
    const char *operation, *before, *between, *after;
  } forms[] = {{"ceildiv", "ceil(", " / ", ")"},
               {"mul", "", " * ", ""},
               {"add", "(", " + ", ")"},
               {"min", "min(", ", ", ")"}};
  if (json_is_integer(expression))
    printf("%" JSON_INTEGER_FORMAT, json_integer_value(expression));
  if (json_is_string(expression))
    printf("%s", json_string_value(expression));
  for (size_t i = 0; json_is_object(expression) && i < sizeof forms / sizeof *forms; i++) {
    const json_t *operands = json_object_get(expression, forms[i].operation);
    size_t count = json_array_size(operands);
    for (size_t j = 0; j < count; j++) {
      fputs(j ? forms[i].between : forms[i].before, stdout);
      print_expression(json_array_get(operands, j));
    }
    fputs(count ? forms[i].after : "", stdout);
  }
}

static void print_list(const json_t *list, const char *between) {
  for (size_t i = 0; i < json_array_size(list); i++) {
    fputs(i ? between : "", stdout);
    print_expression(json_array_get(list, i));
  }
}

static bool is_permuted(const json_t *order) {
  for (size_t i = 0; i < json_array_size(order); i++)
    if (json_integer_value(json_array_get(order, i)) != (json_int_t)i)
      return true;
  return false;
}

/* The greatest of `width` and the lengths of a list's fields called `key`. */
static int widen(int width, const json_t *list, const char *key) {
  size_t i;
  const json_t *entry;
  json_array_foreach(list, i, entry) {
    const int length = (int)strlen(text_of(entry, key));
    width = length > width ? length : width;
  }
  return width;
}

static void print_tensors(const json_t *function, const char *key, const char *role, int width) {
  size_t i;
  const json_t *tensor;
  json_array_foreach(json_object_get(function, key), i, tensor) {
    printf("  %-9s  %-*s %-9s (", role, width, text_of(tensor, "name"), text_of(tensor, "dtype"));
    print_list(json_object_get(tensor, "shape"), ", ");
    putchar(')');
    if (is_permuted(json_object_get(tensor, "order"))) {
      fputs(", in memory [", stdout);
      print_list(json_object_get(tensor, "order"), ", ");
      putchar(']');
    }
    putchar('\n');
  }
}

static void print_symbols(const json_t *function, int width) {
  enum { MOST = 2147483647 };
  size_t i;
  const json_t *symbol;
  json_array_foreach(json_object_get(function, "symbols"), i, symbol) {
    json_int_t multiple = json_integer_value(json_object_get(symbol, "multiple_of"));
    json_int_t least = json_integer_value(json_object_get(symbol, "min"));
    json_int_t most = json_integer_value(json_object_get(symbol, "max"));
    printf("  size       %-*s", width, text_of(symbol, "name"));
    if (multiple > 1)
      printf(" a multiple of %" JSON_INTEGER_FORMAT, multiple);
    else
      printf(" any");
    if (least > 0)
      printf(", at least %" JSON_INTEGER_FORMAT, least);
    if (most < MOST)
      printf(", at most %" JSON_INTEGER_FORMAT, most);
    putchar('\n');
  }
}

static void print_launches(const json_t *function) {
  size_t i, j;
  const json_t *launch, *operand, *launches = json_object_get(function, "launches");
  const int width = widen(0, launches, "kernel");
  json_array_foreach(launches, i, launch) {
    const json_t *op = json_object_get(launch, "op");
    printf("  launch     %-*s %s(", width, text_of(launch, "kernel"), text_of(op, "name"));
    json_array_foreach(json_object_get(op, "operands"), j, operand) {
      printf("%s%s", j ? ", " : "",
             json_is_string(operand) ? json_string_value(operand) : text_of(operand, "tensor"));
    }
    fputs(") -> ", stdout);
    print_list(json_object_get(op, "results"), ", ");
    fputs(", grid (", stdout);
    print_list(json_object_get(launch, "grid"), ", ");
    puts(")");
  }
}

static void print_kernels(const json_t *manifest) {
  size_t i;
  const json_t *kernel;
  const json_t *artifacts = json_object_get(manifest, "artifacts");
  const json_t *cubin = json_object_get(artifacts, "cubin");
  printf("kernels for %s: PTX %s, %s\n", text_of(manifest, "target"),
         text_of(json_object_get(artifacts, "ptx"), "isa"),
         cubin ? text_of(cubin, "assembler") : "no cubin");
  const int width = widen(28, json_object_get(manifest, "kernels"), "name");
  printf("  %-*s %7s %7s %9s %13s\n", width, "kernel", "threads", "cluster", "registers",
         "shared memory");
  json_array_foreach(json_object_get(manifest, "kernels"), i, kernel) {
    json_int_t threads = 1, ctas = 1;
    for (size_t d = 0; d < 3; d++) {
      threads *= json_integer_value(json_array_get(json_object_get(kernel, "block"), d));
      ctas *= json_integer_value(json_array_get(json_object_get(kernel, "cluster"), d));
    }
    const json_t *registers = json_object_get(kernel, "registers");
    printf("  %-*s %7" JSON_INTEGER_FORMAT " %7" JSON_INTEGER_FORMAT, width,
           text_of(kernel, "name"), threads, ctas);
    if (registers)
      printf(" %9" JSON_INTEGER_FORMAT, json_integer_value(registers));
    else
      printf(" %9s", "?");
    printf(" %13" JSON_INTEGER_FORMAT "\n",
           json_integer_value(json_object_get(kernel, "shared_memory")));
  }
}

static void print_function(const json_t *function) {
  static const struct {
    const char *key, *role;
  } tensors[] = {{"arguments", "argument"}, {"results", "result"}, {"temporaries", "temporary"}};
  enum { KINDS = sizeof tensors / sizeof *tensors };
  int width = widen(12, json_object_get(function, "symbols"), "name");
  for (size_t i = 0; i < KINDS; i++)
    width = widen(width, json_object_get(function, tensors[i].key), "name");
  printf("function %s\n", text_of(function, "name"));
  for (size_t i = 0; i < KINDS; i++)
    print_tensors(function, tensors[i].key, tensors[i].role, width);
  print_symbols(function, width);
  print_launches(function);
  putchar('\n');
}

/* ---- All of it ---- */

int moe__run_contents(const moe__run_options_t *options) {
  moe_rt_program_t *program = NULL;
  const moe_rt_function_info_t *found = NULL;
  moe_rt_status_t status = moe_rt_program_read(options->bundle, &program);
  if (!status && options->function)
    status = moe_rt_program_find(program, options->function, &found);
  moe_rt_program_destroy(program);
  if (status)
    return moe__run_runtime_error(status);

  cubin_t text = read_file(options->bundle, MOE_BUNDLE_MANIFEST);
  json_t *manifest = text.data ? json_loadb(text.data, text.size, 0, NULL) : NULL;
  free(text.data);
  if (!manifest)
    return moe__run_input_error("%s/manifest.json: changed while it was read", options->bundle);
  add_registers(options->bundle, manifest);
  json_t *functions = json_object_get(manifest, "functions");
  for (size_t i = json_array_size(functions); options->function && i-- > 0;)
    if (strcmp(text_of(json_array_get(functions, i), "name"), options->function) != 0)
      json_array_remove(functions, i);
  if (options->json) {
    moe__run_describe_print(manifest);
    return MOE__RUN_OK;
  }
  for (size_t i = 0; i < json_array_size(functions); i++)
    print_function(json_array_get(functions, i));
  print_kernels(manifest);
  json_decref(manifest);
  return MOE__RUN_OK;
}
