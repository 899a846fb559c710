/* GoldenTest.c - what the emulator's modules predict against what an H200 wrote.
 *
 * Why it exists: it names each assumption of the emulator (a layout, a swizzle, a fill, a rounding)
 * that the hardware does not share.
 *
 * usage: golden_test BUNDLE GOLDEN    skipped (exit code 77) where there is no golden file
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "test/Emulator/golden/Predict.h"
#include "test/Emulator/golden/Words.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SKIPPED = 77 };

static size_t words_of(const json_t *function) {
  const json_t *result = json_array_get(json_object_get(function, "results"), 0);
  return (size_t)json_integer_value(json_array_get(json_object_get(result, "shape"), 0));
}

int main(int argc, char **argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: golden_test BUNDLE GOLDEN\n");
    return 2;
  }
  if (access(argv[2], F_OK) != 0) {
    printf("skipped: there is no %s\n", argv[2]);
    return SKIPPED;
  }
  char path[4096];
  snprintf(path, sizeof path, "%s/manifest.json", argv[1]);
  json_t *manifest = json_load_file(path, 0, NULL);
  golden_file_t golden;
  if (!manifest || !golden_read(argv[2], &golden)) {
    fprintf(stderr, "%s or %s cannot be read\n", path, argv[2]);
    return 1;
  }

  int compared = 0;
  int different = 0;
  size_t index = 0;
  json_t *function = NULL;
  json_array_foreach(json_object_get(manifest, "functions"), index, function) {
    const char *name = json_string_value(json_object_get(function, "name"));
    const size_t count = words_of(function);
    const golden_entry_t *entry = golden_find(&golden, name);
    if (!entry) {
      printf("%s: not in the golden file\n", name);
      different++;
      continue;
    }
    uint32_t *words = calloc(count, sizeof *words);
    if (!words)
      return 1;
    const golden_prediction_t prediction = golden_predict(function, words, count);
    if (prediction != GOLDEN_UNKNOWN) {
      compared++;
      different += !golden_compare(entry, prediction == GOLDEN_FAULT ? NULL : words, count);
    }
    free(words);
  }
  if (index != golden.count) {
    printf("the golden file has %zu probes, the bundle %zu\n", golden.count, index);
    different++;
  }
  printf("%d probes compared, %d differ\n", compared, different);
  golden_free(&golden);
  json_decref(manifest);
  return different == 0 && compared > 0 ? 0 : 1;
}
