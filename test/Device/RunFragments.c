/* RunFragments.c - runs the kernel `fragments` of Idioms.c on the emulator and compares its sums.
 *
 * Why it exists: what LLVM makes of registers that a wgmma still reads shows when it runs.
 *
 *   run_fragments FILE.ptx
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "moe/emulator.h"
#include "moe/reference.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 64, COLUMNS = 16, GROUPS = 6, GROUP_K = 64, THREADS = 128 };
enum { STEP_K = 16, STEPS = GROUP_K / STEP_K, WORDS = 4 * STEPS, SUMS = COLUMNS / 2 };

static uint16_t a[GROUPS][THREADS][WORDS][2]; /* as the kernel loads it: a thread's fragments */
static uint16_t b[COLUMNS][GROUP_K];          /* rows of 128 bytes, swizzled */
static float out[THREADS][SUMS];

/* The PTX ISA's figures: where a thread's registers lie in A and D. */
static int row_of(int thread, int lower) {
  return thread / 32 * 16 + thread % 32 / 4 + 8 * lower;
}

static int value_of_a(int group, int row, int k) {
  return (group * 3 + row * 7 + k * 5 + row * k % 13) % 17 - 8;
}

static int value_of_b(int column, int k) {
  return (column * 11 + k * 3 + column * k % 7) % 15 - 7;
}

static void fill(void) {
  for (int group = 0; group < GROUPS; group++)
    for (int thread = 0; thread < THREADS; thread++)
      for (int word = 0; word < WORDS; word++)
        for (int half = 0; half < 2; half++) {
          int k = word / 4 * STEP_K + word % 4 / 2 * 8 + thread % 4 * 2 + half;
          float value = (float)value_of_a(group, row_of(thread, word % 2), k);
          a[group][thread][word][half] = moe_ref_bf16_from_f32(value) ^ 0x1C1C;
        }
  for (int column = 0; column < COLUMNS; column++)
    for (int k = 0; k < GROUP_K; k++)
      b[column][(k / 8 ^ column % 8) * 8 + k % 8] =
          moe_ref_bf16_from_f32((float)value_of_b(column, k));
}

static int expected(int row, int column) {
  int sum = 0;
  for (int group = 0; group < GROUPS; group++)
    for (int k = 0; k < GROUP_K; k++)
      sum += (group + 1) * value_of_a(group, row, k) * value_of_b(column, k);
  return sum;
}

static int compare(void) {
  for (int thread = 0; thread < THREADS; thread++)
    for (int i = 0; i < SUMS; i++) {
      int row = row_of(thread, i / 2 % 2), column = i / 4 * 8 + thread % 4 * 2 + i % 2;
      if (out[thread][i] == (float)expected(row, column))
        continue;
      printf("[%d, %d] is %g; it must be %d\n", row, column, (double)out[thread][i],
             expected(row, column));
      return 1;
    }
  return 0;
}

static moe_emu_module_t *load(const char *path) {
  static char text[1 << 20];
  FILE *file = fopen(path, "r");
  if (!file)
    return NULL;
  size_t length = fread(text, 1, sizeof text, file);
  fclose(file);
  moe_emu_module_t *module = NULL;
  moe_emu_report_t report;
  if (moe_emu_module_load(text, length, &module, &report) != MOE_EMU_OK)
    puts(report.text);
  return module;
}

int main(int argc, char **argv) {
  moe_emu_module_t *module = argc == 2 ? load(argv[1]) : NULL;
  if (!module)
    return 2;
  fill();
  const uint64_t addresses[] = {(uintptr_t)a, (uintptr_t)b, (uintptr_t)out};
  const void *const parameters[] = {&addresses[0], &addresses[1], &addresses[2]};
  const moe_emu_buffer_t buffers[] = {
      {.address = addresses[0], .bytes = sizeof a, .name = "a"},
      {.address = addresses[1], .bytes = sizeof b, .name = "b"},
      {.address = addresses[2], .bytes = sizeof out, .writable = true, .name = "out"},
  };
  const moe_emu_launch_t launch = {.kernel = "fragments",
                                   .grid = {1, 1, 1},
                                   .block = {THREADS, 1, 1},
                                   .cluster = {1, 1, 1},
                                   .dynamic_shared = sizeof b,
                                   .parameters = parameters,
                                   .parameter_count = 3,
                                   .buffers = buffers,
                                   .buffer_count = 3};
  int failed = 0;
  for (uint64_t schedule = 0; schedule < 4 && !failed; schedule++) {
    moe_emu_report_t report;
    if (moe_emu_launch(module, &launch, &(moe_emu_options_t){.schedule = schedule}, &report) !=
        MOE_EMU_OK) {
      printf("schedule %" PRIu64 ": %s\n", schedule, report.text);
      failed = 1;
    } else {
      failed = compare();
    }
  }
  moe_emu_module_destroy(module);
  return failed;
}
