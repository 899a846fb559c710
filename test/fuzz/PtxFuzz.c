/* PtxFuzz.c - a libFuzzer target: any text, read as PTX and, where it is some, run.
 *
 * Usage: see CMakeLists.txt. A crash, a hang or a sanitizer's report is a bug of the emulator; a
 * fault that it reports is not.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "moe/emulator.h"

#include <stdalign.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MEMORY = 1 << 14, MAX_PARAMETERS = 16, MAX_TEXT = 1 << 15 };

static alignas(256) uint8_t memory[2 * MEMORY];

/* A parameter of any width: a map of the memory, whose first bytes are no address and whose first
 * word is a small number. */
static void fill_parameter(uint8_t *bytes, int index) {
  const moe_emu_tensor_map_t map = {
      .type = MOE_EMU_MAP_U8,
      .rank = 2,
      .address = (uint64_t)(uintptr_t)memory,
      .dims = {64, 64},
      .strides = {64},
      .box = {64, 32},
      .swizzle = 2,
  };
  moe_emu_report_t report;
  uint64_t address = (uint64_t)(uintptr_t)memory + (index & 1 ? MEMORY : 0);
  memset(bytes, 0, MOE_EMU_TENSOR_MAP_BYTES);
  if (index % 4 == 3)
    (void)moe_emu_tensor_map_encode(&map, bytes, &report);
  else
    memcpy(bytes, &address, sizeof address);
}

/* The name after the first ".entry". */
static int find_kernel(const char *text, size_t size, char name[128]) {
  static const char entry[] = ".entry ";
  const char *found = memmem(text, size, entry, sizeof entry - 1);
  if (!found)
    return 0;
  found += sizeof entry - 1;
  size_t length = 0;
  while (found + length < text + size && length < 127 && !strchr(" (\n\t{", found[length]))
    length++;
  memcpy(name, found, length);
  name[length] = '\0';
  return 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 1 || size > MAX_TEXT)
    return 0;
  /* The first byte is the schedule and the shape of the launch. */
  uint8_t choice = data[0];
  const char *text = (const char *)data + 1;
  size--;
  moe_emu_module_t *module = NULL;
  moe_emu_report_t report;
  char name[128];
  if (moe_emu_module_load(text, size, &module, &report) != MOE_EMU_OK ||
      !find_kernel(text, size, name)) {
    moe_emu_module_destroy(module);
    return 0;
  }
  static alignas(64) uint8_t parameters[MAX_PARAMETERS][4096];
  const void *pointers[MAX_PARAMETERS];
  for (int i = 0; i < MAX_PARAMETERS; i++) {
    fill_parameter(parameters[i], i);
    pointers[i] = parameters[i];
  }
  const moe_emu_buffer_t buffers[] = {
      {(uint64_t)(uintptr_t)memory, MEMORY, false, "in", false},
      {(uint64_t)(uintptr_t)memory + MEMORY, MEMORY, true, "out", false},
  };
  static const uint32_t blocks[] = {32, 64, 128, 160};
  for (int count = 0; count <= MAX_PARAMETERS; count++) {
    const moe_emu_launch_t launch = {
        .kernel = name,
        .grid = {2, 1, 1},
        .block = {blocks[choice & 3], 1, 1},
        .cluster = {1, 1, 1},
        .dynamic_shared = 16384,
        .parameters = pointers,
        .parameter_count = count,
        .buffers = buffers,
        .buffer_count = 2,
    };
    const moe_emu_options_t options = {
        .schedule = choice >> 2 & 7, .threads = 1, .step_limit = 100000};
    /* All counts but the kernel's are refused before anything runs. */
    (void)moe_emu_launch(module, &launch, &options, &report);
  }
  moe_emu_module_destroy(module);
  return 0;
}
