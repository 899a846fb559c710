/* Resources.c - what each kernel takes of a multiprocessor: from what ptxas says, from its
 * cubin, and from the launch bounds.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Target/Target.h"

#include "lib/Builder/Inspect.h"
#include "lib/Device/Record.h"
#include "moe/limits.h"

#include "mlir-c/BuiltinAttributes.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  REGISTER_PORTION = 256, /* what a warp gets is a multiple of it */
  WARPS_PER_SM = MOE_SM_THREADS / 32,
  CTAS_PER_SM = 32,
  INSTRUCTION_BYTES = 16,
};

typedef struct list_t {
  moe_kernel_resources_t *kernels;
  size_t count;
} list_t;

static int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

static int count_ctas(const moe_kernel_resources_t *kernel) {
  int64_t warps = round_up((kernel->threads + 31) / 32, MOE_SM_QUARTERS);
  int64_t of_warp = round_up((int64_t)kernel->registers * 32, REGISTER_PORTION);
  int64_t least = CTAS_PER_SM;
  int64_t by_warps = warps ? WARPS_PER_SM / warps : least;
  int64_t by_registers =
      of_warp && warps ? MOE_SM_REGISTERS / of_warp / MOE_SM_QUARTERS * MOE_SM_QUARTERS / warps
                       : least;
  int64_t by_memory = MOE_SM_SHARED_MEMORY / (kernel->shared_memory + MOE_SM_SHARED_RESERVED);
  least = by_warps < least ? by_warps : least;
  least = by_registers < least ? by_registers : least;
  return (int)(by_memory < least ? by_memory : least);
}

/* The number before `unit` in a line, 0 where there is none: "0 bytes spill stores". */
static int number_before(const char *line, size_t length, const char *unit) {
  const char *found = memmem(line, length, unit, strlen(unit));
  while (found && found > line && found[-1] >= '0' && found[-1] <= '9')
    found--;
  return found ? (int)strtol(found, NULL, 10) : 0;
}

/* What ptxas -v says of the kernel. */
static void read_log(const char *log, moe_kernel_resources_t *out) {
  char head[300];
  snprintf(head, sizeof head, "Function properties for %s\n", out->kernel);
  const char *line = strstr(log, head);
  if (!line)
    return;
  line += strlen(head);
  for (int i = 0; i < 2; i++) { /* two lines belong to it */
    size_t length = strcspn(line, "\n");
    out->stack_bytes += number_before(line, length, " bytes stack frame");
    out->spill_bytes += number_before(line, length, " bytes spill stores");
    out->spill_bytes += number_before(line, length, " bytes spill loads");
    out->registers += number_before(line, length, " registers");
    out->shared_memory += number_before(line, length, " bytes smem");
    line += length + (line[length] == '\n');
  }
}

/* The length of the kernel's code in the cubin, which ptxas has just written. */
static int count_instructions(moe__bytes_t cubin, const char *kernel) {
  Elf64_Ehdr header;
  if (cubin.length < sizeof header)
    return 0;
  memcpy(&header, cubin.data, sizeof header);
  Elf64_Shdr names, section;
  size_t size = sizeof section, at = header.e_shoff + header.e_shstrndx * size;
  if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_shentsize != size ||
      at + size > cubin.length)
    return 0;
  memcpy(&names, cubin.data + at, size);
  char wanted[300];
  snprintf(wanted, sizeof wanted, ".text.%s", kernel);
  for (size_t i = 0; i < header.e_shnum && header.e_shoff + (i + 1) * size <= cubin.length; i++) {
    memcpy(&section, cubin.data + header.e_shoff + i * size, size);
    size_t name = names.sh_offset + section.sh_name;
    if (name + strlen(wanted) < cubin.length && !strcmp(cubin.data + name, wanted))
      return (int)(section.sh_size / INSTRUCTION_BYTES);
  }
  return 0;
}

static void add_kernel(MlirOperation function, const moe__record_t *record, void *user) {
  list_t *list = user;
  MlirStringRef name = moe__symbol(function);
  list->kernels = realloc(list->kernels, (list->count + 1) * sizeof *list->kernels);
  char *kernel = strndup(name.data, name.length);
  if (!list->kernels || !kernel)
    abort();
  list->kernels[list->count++] =
      (moe_kernel_resources_t){.kernel = kernel,
                               .threads = record->cta[0] * record->cta[1] * record->cta[2],
                               .shared_memory = record->shared_memory};
}

bool moe__target_resources(MlirOperation module, moe__bytes_t cubin, const char *log,
                           moe_kernel_resources_t **out_kernels, size_t *out_count) {
  list_t list = {0};
  bool ok = moe__walk_records(module, add_kernel, &list);
  for (size_t i = 0; i < list.count; i++) {
    moe_kernel_resources_t *kernel = &list.kernels[i];
    read_log(log, kernel);
    kernel->instructions = count_instructions(cubin, kernel->kernel);
    kernel->ctas_per_sm = count_ctas(kernel);
  }
  *out_kernels = list.kernels;
  *out_count = list.count;
  return ok;
}
