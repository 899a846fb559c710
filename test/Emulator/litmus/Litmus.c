/* Litmus.c - runs litmus tests on the emulator over many schedules, and compares what comes out
 * with what is allowed.
 *
 * Usage: emulator_litmus SEEDS FILE...
 *
 * Each allowed outcome must be seen under some seed, and no other. With its checks on, the emulator
 * must report a race of a test that says "race: yes", under some seed, and none of the others.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "moe/emulator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  WORDS = 128,
  MAX_VALUES = 5,
  MAX_OUTCOMES = 32,
  STRIDE = 32,
  LANES = 32,
  CHECKED_SEEDS = 100
};

typedef struct outcome_t {
  int values[MAX_VALUES];
  int count; /* how often it was seen */
} outcome_t;

typedef struct test_t {
  char *text;
  char place[16], names[64];
  int threads, value_count, outcome_count;
  bool has_race;
  outcome_t outcomes[MAX_OUTCOMES];
} test_t;

static char *read_text(const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file)
    return NULL;
  char *text = calloc(1, 1 << 16);
  if (text && fread(text, 1, (1 << 16) - 1, file) == 0)
    text[0] = '\0';
  fclose(file);
  return text;
}

/* The rest of a line of the header: "// name: ...". */
static bool header(const char *text, const char *name, char *out, size_t size) {
  char begin[32];
  snprintf(begin, sizeof begin, "// %s: ", name);
  const char *at = strstr(text, begin);
  if (!at)
    return false;
  at += strlen(begin);
  size_t length = strcspn(at, "\n");
  snprintf(out, size, "%.*s", (int)length, at);
  return true;
}

static bool read_test(const char *path, test_t *out) {
  char line[1024];
  *out = (test_t){.text = read_text(path)};
  if (!out->text || !header(out->text, "place", out->place, sizeof out->place) ||
      !header(out->text, "outcome", out->names, sizeof out->names) ||
      !header(out->text, "threads", line, sizeof line))
    return false;
  out->threads = atoi(line);
  out->value_count = 1;
  for (const char *at = out->names; *at; at++)
    out->value_count += *at == ' ';
  if (!header(out->text, "race", line, sizeof line))
    return false;
  out->has_race = !strcmp(line, "yes");
  if (!header(out->text, "allowed", line, sizeof line))
    return false;
  char *at = line;
  while (*at && out->outcome_count < MAX_OUTCOMES) {
    for (int i = 0; i < out->value_count; i++)
      out->outcomes[out->outcome_count].values[i] = (int)strtol(at, &at, 10);
    out->outcome_count++;
    at += strspn(at, "; ");
  }
  return true;
}

/* Runs a test once. */
static moe_emu_status_t run(const moe_emu_module_t *module, const test_t *test, uint64_t seed,
                            bool skip_order, size_t order_bytes, int *out_values,
                            moe_emu_report_t *out_report) {
  _Alignas(256) uint32_t variables[WORDS] = {0};
  _Alignas(256) uint32_t results[WORDS] = {0};
  const uint32_t *places[2] = {variables, results};
  const void *parameters[] = {&places[0], &places[1]};
  const moe_emu_buffer_t buffers[] = {
      {(uint64_t)(uintptr_t)variables, sizeof variables, true, "vars", MOE_EMU_NOT_PENDING},
      {(uint64_t)(uintptr_t)results, sizeof results, true, "out", MOE_EMU_NOT_PENDING}};
  bool is_cta = !strcmp(test->place, "warp");
  uint32_t threads = (uint32_t)test->threads;
  moe_emu_launch_t launch = {
      .kernel = "litmus",
      .grid = {is_cta ? 1 : threads, 1, 1},
      .block = {is_cta ? LANES * threads : LANES, 1, 1},
      .cluster = {1, 1, 1},
      .parameters = parameters,
      .parameter_count = 2,
      .buffers = buffers,
      .buffer_count = 2,
  };
  moe_emu_options_t options = {.schedule = seed,
                               .threads = 1,
                               .step_limit = 100000,
                               .skip_order = skip_order,
                               .interleave = true,
                               .order_bytes = order_bytes};
  moe_emu_status_t status = moe_emu_launch(module, &launch, &options, out_report);
  const char *name = test->names;
  for (int i = 0; i < test->value_count; i++, name += strcspn(name, " ") + 1) {
    if (name[0] == 'r')
      out_values[i] = (int)results[name[1] - '0'];
    else
      out_values[i] = (int)variables[(name[0] - 'x') * STRIDE];
  }
  return status;
}

static bool count(test_t *test, const int *values) {
  for (int o = 0; o < test->outcome_count; o++) {
    if (!memcmp(test->outcomes[o].values, values, (size_t)test->value_count * sizeof *values)) {
      test->outcomes[o].count++;
      return true;
    }
  }
  return false;
}

static void print_values(const test_t *test, const int *values) {
  for (int i = 0; i < test->value_count; i++)
    printf("%s%d", i ? " " : "", values[i]);
}

static bool check_outcomes(const moe_emu_module_t *module, test_t *test, const char *path,
                           uint64_t seeds) {
  bool is_ok = true;
  for (uint64_t seed = 1; seed <= seeds && is_ok; seed++) {
    moe_emu_report_t report;
    int values[MAX_VALUES] = {0};
    if (run(module, test, seed, true, 0, values, &report) != MOE_EMU_OK) {
      printf("%s: seed %llu: %s\n", path, (unsigned long long)seed, report.text);
      is_ok = false;
    } else if (!count(test, values)) {
      printf("%s: seed %llu: an outcome that is not allowed: ", path, (unsigned long long)seed);
      print_values(test, values);
      printf("\n");
      is_ok = false;
    }
  }
  for (int o = 0; o < test->outcome_count; o++) {
    if (test->outcomes[o].count)
      continue;
    printf("%s: an outcome that no seed shows: ", path);
    print_values(test, test->outcomes[o].values);
    printf("\n");
    is_ok = false;
  }
  return is_ok;
}

static bool check_races(const moe_emu_module_t *module, const test_t *test, const char *path,
                        uint64_t seeds) {
  bool is_seen = false;
  for (uint64_t seed = 0; seed < seeds && seed < CHECKED_SEEDS; seed++) {
    moe_emu_report_t report;
    int values[MAX_VALUES];
    if (run(module, test, seed, false, 0, values, &report) == MOE_EMU_OK)
      continue;
    is_seen = true;
    if (test->has_race && strstr(report.text, "races with"))
      continue;
    printf("%s: seed %llu: %s\n", path, (unsigned long long)seed, report.text);
    return false;
  }
  if (test->has_race && !is_seen)
    printf("%s: no race is reported\n", path);
  return test->has_race == is_seen;
}

/* A launch that has no memory left for the order says so, and reports no race that is none. */
static bool check_exhaustion(const moe_emu_module_t *module, const test_t *test, const char *path) {
  moe_emu_report_t report;
  int values[MAX_VALUES];
  moe_emu_status_t status = run(module, test, 1, false, 1, values, &report);
  if (status == MOE_EMU_OUT_OF_MEMORY && strstr(report.text, "needs more than 1 bytes"))
    return true;
  printf("%s: order_bytes of 1: status %d: %s\n", path, (int)status, report.text);
  return false;
}

static bool check(const char *path, uint64_t seeds) {
  test_t test;
  moe_emu_report_t report;
  moe_emu_module_t *module = NULL;
  if (!read_test(path, &test)) {
    printf("%s: no litmus test\n", path);
    free(test.text);
    return false;
  }
  bool is_ok = moe_emu_module_load(test.text, strlen(test.text), &module, &report) == MOE_EMU_OK;
  if (!is_ok)
    printf("%s: %s\n", path, report.text);
  if (is_ok) {
    bool is_as_allowed = check_outcomes(module, &test, path, seeds);
    is_ok = check_races(module, &test, path, seeds) && is_as_allowed;
    is_ok = check_exhaustion(module, &test, path) && is_ok;
  }
  moe_emu_module_destroy(module);
  free(test.text);
  return is_ok;
}

int main(int argc, char **argv) {
  uint64_t seeds = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
  int good = 0;
  if (seeds == 0 || argc < 3) {
    fprintf(stderr, "usage: emulator_litmus SEEDS FILE...\n");
    return 2;
  }
  for (int i = 2; i < argc; i++)
    good += check(argv[i], seeds);
  printf("%d of %d litmus tests: every allowed outcome is seen over %llu seeds, and no other\n",
         good, argc - 2, (unsigned long long)seeds);
  return good == argc - 2 ? 0 : 1;
}
