/* RunFragments.c - runs the kernels `fragments` and `transposed` of Idioms.c on the emulator and
 * compares their sums.
 *
 * Why it exists: what LLVM makes of registers that a wgmma still reads shows when it runs, and so
 * does where an operand is thought to lie.
 *
 *   run_fragments FILE.ptx
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "moe/emulator.h"
#include "moe/reference.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 64, K = 64, THREADS = 128, STEP_K = 16, MAX_COLUMNS = 128 };

static float out[THREADS][MAX_COLUMNS / 2];

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

/* A small integer in f16. */
static uint16_t f16_of(int value) {
  uint32_t bits = 0;
  const float x = (float)value;
  memcpy(&bits, &x, sizeof bits);
  return value ? (uint16_t)(bits >> 16 & 0x8000) | (uint16_t)((bits >> 13 & 0x3FFFF) - (112 << 10))
               : 0;
}

/* Where element `i` of row `row` lies in a tile of rows of 128 bytes, with their swizzle. */
static int swizzled(int row, int i) {
  return row * 64 + (i / 8 ^ row % 8) * 8 + i % 8;
}

/* ---- The kernels ---- */

enum { GROUPS = 6, WORDS = K / STEP_K * 4, COLUMNS = 16, WIDE = 128 };

static uint16_t fragments[GROUPS][THREADS][WORDS][2]; /* of a, as a thread loads them */
static uint16_t tile[COLUMNS * K];                    /* b, K-major */
static uint16_t rows[ROWS * K];                       /* a, K-major */
static uint16_t blocks[WIDE / 64][K * 64];            /* b, MN-major */

static void fill(void) {
  for (int group = 0; group < GROUPS; group++)
    for (int thread = 0; thread < THREADS; thread++)
      for (int word = 0; word < WORDS; word++)
        for (int half = 0; half < 2; half++) {
          int k = word / 4 * STEP_K + word % 4 / 2 * 8 + thread % 4 * 2 + half;
          float value = (float)value_of_a(group, row_of(thread, word % 2), k);
          fragments[group][thread][word][half] = moe_ref_bf16_from_f32(value) ^ 0x1C1C;
        }
  for (int k = 0; k < K; k++) {
    for (int column = 0; column < COLUMNS; column++)
      tile[swizzled(column, k)] = moe_ref_bf16_from_f32((float)value_of_b(column, k));
    for (int row = 0; row < ROWS; row++)
      rows[swizzled(row, k)] = f16_of(value_of_a(0, row, k));
    for (int column = 0; column < WIDE; column++)
      blocks[column / 64][swizzled(k, column % 64)] = f16_of(value_of_b(column, k));
  }
}

/* The sum of `groups` groups, each times its number from 1 on. */
static int expected(int groups, int row, int column) {
  int sum = 0;
  for (int group = 0; group < groups; group++)
    for (int k = 0; k < K; k++)
      sum += (group + 1) * value_of_a(group, row, k) * value_of_b(column, k);
  return sum;
}

typedef struct test_kernel_t {
  const char *name;
  void *a, *b;
  size_t a_bytes, b_bytes;
  uint32_t shared;
  int groups, columns;
} test_kernel_t;

static const test_kernel_t kernels[] = {
    {"fragments", fragments, tile, sizeof fragments, sizeof tile, sizeof tile, GROUPS, COLUMNS},
    {"transposed", rows, blocks, sizeof rows, sizeof blocks, sizeof rows + sizeof blocks, 1, WIDE},
};

static bool compare(const test_kernel_t *kernel) {
  const float *found = out[0];
  for (int thread = 0; thread < THREADS; thread++)
    for (int i = 0; i < kernel->columns / 2; i++, found++) {
      int row = row_of(thread, i / 2 % 2), column = i / 4 * 8 + thread % 4 * 2 + i % 2;
      if (*found == (float)expected(kernel->groups, row, column))
        continue;
      printf("%s: [%d, %d] is %g; it must be %d\n", kernel->name, row, column, (double)*found,
             expected(kernel->groups, row, column));
      return false;
    }
  return true;
}

static bool run(const moe_emu_module_t *module, const test_kernel_t *kernel, uint64_t schedule) {
  const uint64_t addresses[] = {(uintptr_t)kernel->a, (uintptr_t)kernel->b, (uintptr_t)out};
  const void *const parameters[] = {&addresses[0], &addresses[1], &addresses[2]};
  const moe_emu_buffer_t buffers[] = {
      {.address = addresses[0], .bytes = kernel->a_bytes, .name = "a"},
      {.address = addresses[1], .bytes = kernel->b_bytes, .name = "b"},
      {.address = addresses[2], .bytes = sizeof out, .writable = true, .name = "out"},
  };
  const moe_emu_launch_t launch = {.kernel = kernel->name,
                                   .grid = {1, 1, 1},
                                   .block = {THREADS, 1, 1},
                                   .cluster = {1, 1, 1},
                                   .dynamic_shared = kernel->shared,
                                   .parameters = parameters,
                                   .parameter_count = 3,
                                   .buffers = buffers,
                                   .buffer_count = 3};
  moe_emu_report_t report;
  memset(out, 0xA5, sizeof out);
  if (moe_emu_launch(module, &launch, &(moe_emu_options_t){.schedule = schedule}, &report) ==
      MOE_EMU_OK)
    return compare(kernel);
  printf("schedule %" PRIu64 ": %s\n", schedule, report.text);
  return false;
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
  bool passed = true;
  for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++)
    for (uint64_t schedule = 0; schedule < 4 && passed; schedule++)
      passed = run(module, &kernels[i], schedule);
  moe_emu_module_destroy(module);
  return !passed;
}
