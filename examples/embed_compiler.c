/* embed_compiler.c - compiles a kernel from a string to PTX inside a program, and prints the PTX.
 *
 *   cc embed_compiler.c $(pkg-config --cflags --libs moe_compiler) -o embed_compiler
 *   ./embed_compiler > kernels.ptx
 *
 * A program that makes kernels at run time writes such a string and hands the PTX to the CUDA
 * driver. Errors in the string appear on stderr, with line, column and a caret.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "moe/compiler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char source[] =
    "#col_major = affine_map<(e, n, k) -> (e, k, n)>\n"
    "func.func @quantize(%w: tensor<?x?x?xf32>)\n"
    "    -> (tensor<?x?x?xf8E5M2, #col_major>, tensor<?x?x?xf8E8M0FNU>) {\n"
    "  %q, %s = \"mx_quantize.quantize\"(%w)\n"
    "      {axis = 1 : i64, block = 32 : i64, mode = \"floor\"}\n"
    "      : (tensor<?x?x?xf32>)\n"
    "      -> (tensor<?x?x?xf8E5M2, #col_major>, tensor<?x?x?xf8E8M0FNU>)\n"
    "  return %q, %s : tensor<?x?x?xf8E5M2, #col_major>, tensor<?x?x?xf8E8M0FNU>\n"
    "}\n";

int main(void) {
  moe_compiler_t *compiler = NULL;
  moe_module_t *module = NULL;
  const char *ptx = NULL;
  size_t length = 0;

  moe_status_t status = moe_compiler_create(NULL, &compiler);
  if (status == MOE_OK)
    status = moe_module_parse(compiler, "quantize", source, strlen(source), &module);
  if (status == MOE_OK)
    status = moe_module_lower(module, "ptx");
  if (status == MOE_OK)
    status = moe_module_artifact(module, "ptx", &ptx, &length);
  if (status == MOE_OK)
    fwrite(ptx, 1, length, stdout);

  moe_module_destroy(module);
  moe_compiler_destroy(compiler);
  return status == MOE_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
