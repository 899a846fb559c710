/* MinAssembler.c - the oldest assembler that each kernel needs, read from their PTX.
 *
 * Why from the PTX: kernels may be written by hand in any stage, and only what is assembled counts.
 *
 * ptxas before 13.3 may use the registers of a wgmma operand for something else before the
 * instruction, which is asynchronous, has read them. The sums are then wrong, and nothing says so.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Target/Target.h"

#include <stdlib.h>
#include <string.h>

static const char *skip_spaces(const char *text) {
  return text + strspn(text, " \t\r\n");
}

/* wgmma.mma_async{...} {sums}, A, B, ...: whether A is registers too, and no descriptor. */
static bool has_register_operand(const char *instruction) {
  const char *sums = instruction + strcspn(instruction, "{;");
  const char *end = *sums == '{' ? sums + strcspn(sums, "};") : sums;
  if (*end != '}')
    return false;
  const char *comma = skip_spaces(end + 1);
  return *comma == ',' && *skip_spaces(comma + 1) == '{';
}

json_t *moe__target_min_assemblers(moe__bytes_t ptx) {
  static const char entry[] = ".entry ", product[] = "wgmma.mma_async";
  json_t *kernels = json_object();
  const char *kernel = ptx.data ? strstr(ptx.data, entry) : NULL;
  while (kernel) {
    const char *name = kernel + strlen(entry);
    const char *next = strstr(name, entry);
    const char *end = next ? next : ptx.data + ptx.length;
    bool needs = false;
    for (const char *at = name;
         !needs && (at = memmem(at, (size_t)(end - at), product, strlen(product)));
         at += strlen(product))
      needs = has_register_operand(at);
    if (needs)
      json_object_setn_new(kernels, name, strcspn(name, "( \t\r\n"),
                           json_string(MOE__REGISTER_A_ASSEMBLER));
    kernel = next;
  }
  return kernels;
}

/* The two numbers of "13.3.73" and the like. */
static void read_version(const char *text, long out[2]) {
  char *rest = NULL;
  out[0] = strtol(text, &rest, 10);
  out[1] = *rest == '.' ? strtol(rest + 1, NULL, 10) : 0;
}

bool moe__target_is_older(const char *version, const char *least) {
  long found[2], needed[2];
  read_version(version, found);
  read_version(least, needed);
  return found[0] < needed[0] || (found[0] == needed[0] && found[1] < needed[1]);
}
