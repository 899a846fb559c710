/* jansson_stdin.c - the symbol that stdin becomes in the copy of libjansson.a that the libraries
 * link.
 *
 * Why it exists: Debian's archive is not made for shared libraries in one place: json_loadf
 * compares its stream with stdin, to call it "<stdin>" in messages, and asks for stdin's address
 * relative to itself. Nothing here calls json_loadf.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include <stdio.h>

extern FILE *const moe__jansson_stdin;
FILE *const moe__jansson_stdin = NULL;
