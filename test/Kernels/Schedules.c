/* Schedules.c - prints docs/schedules.md from the tables of the kernels' schedules.
 *
 * Why a program: the tables are C, and the page must say what they say. schedules.test compares.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/Kernels.h"

#include <stdio.h>

static const moe__kernel_definition_t *const KERNELS[] = {
#define MOE_KERNEL(symbol) &moe__##symbol##_kernel,
#include "lib/Kernels/Kernels.def"
#undef MOE_KERNEL
};

static bool was_printed(size_t before, const moe__schedule_kind_t *kind) {
  for (size_t i = 0; i < before; i++)
    if (KERNELS[i]->schedule == kind)
      return true;
  return false;
}

int main(void) {
  puts(
      "# Schedules\n"
      "<!-- Printed by test/Kernels/Schedules.c from the tables in lib/Kernels. -->\n"
      "\n"
      "The attribute `schedule` of an op names what is a choice in its kernel. A field that the "
      "source does not give has the\n"
      "value of the op's default, which is candidate 0; in the tables, `usual` is what a candidate "
      "has that says nothing else.\n"
      "`moe-select-schedule` writes all fields, and says what is wrong with those that are given.");
  for (size_t i = 0; i < sizeof KERNELS / sizeof KERNELS[0]; i++) {
    const moe__schedule_kind_t *kind = KERNELS[i]->schedule;
    if (was_printed(i, kind))
      continue;
    printf("\n## %s\nOf %s.\n\n| field | values | usual | what it is |\n|---|---|---|---|\n",
           kind->name, kind->text);
    for (int f = 0; f < kind->count; f++) {
      const moe__schedule_field_t *field = &kind->fields[f];
      printf("| `%s` | %d to %d | %d | %s |\n", field->name, field->least, field->most,
             field->initial, field->text);
      if (field->initial < field->least || field->initial > field->most ||
          (field->least == 0 && field->initial != 0))
        return 1; /* Schedule.h says why */
    }
  }
  return 0;
}
