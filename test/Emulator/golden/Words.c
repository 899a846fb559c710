/* Words.c - golden words: what a probe wrote, as a line of text.
 *
 * Why it exists: see Words.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "test/Emulator/golden/Words.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Each step can be undone, so that one changed word always changes the hash. */
static uint32_t fold(const uint32_t *words, size_t count) {
  uint32_t hash = 1;
  for (size_t i = 0; i < count; i++) {
    hash = (hash ^ words[i]) * UINT32_C(0x9E3779B1);
    hash ^= hash >> 15;
  }
  return hash;
}

static uint32_t fold_at(const uint32_t *words, size_t count, size_t i) {
  const size_t begin = count * i / GOLDEN_FOLDS;
  return fold(words + begin, count * (i + 1) / GOLDEN_FOLDS - begin);
}

static const char fault_text[] = " fault\n"; /* behind the colon */

void golden_write(FILE *file, const char *name, const uint32_t *words, size_t count, bool full) {
  if (!words) {
    fprintf(file, "%s:%s", name, fault_text);
    return;
  }
  const bool folded = count > GOLDEN_MAX_PLAIN && !full;
  fprintf(file, "%s", name);
  if (folded)
    fprintf(file, "/%zu", count);
  fputc(':', file);
  for (size_t i = 0; i < (folded ? GOLDEN_FOLDS : count); i++)
    fprintf(file, " %08" PRIx32, folded ? fold_at(words, count, i) : words[i]);
  fputc('\n', file);
}

/* "name: ..." or "name/count: ...". Changes the line. */
static bool parse_line(char *line, golden_entry_t *out) {
  char *colon = strchr(line, ':');
  if (!colon)
    return false;
  *colon = '\0';
  char *slash = strchr(line, '/');
  if (slash)
    *slash = '\0';
  out->name = strdup(line);
  out->folded = slash != NULL;
  out->fault = strcmp(colon + 1, fault_text) == 0;
  if (out->fault)
    return out->name && !slash;
  char *at = colon + 1;
  out->words = malloc((strlen(at) / 9 + 1) * sizeof *out->words);
  if (!out->name || !out->words)
    return false;
  for (char *end = NULL;; at = end) {
    const unsigned long word = strtoul(at, &end, 16);
    if (end == at)
      break;
    if (end - at != 9 || at[0] != ' ')
      return false;
    out->words[out->count++] = (uint32_t)word;
  }
  if (strcmp(at, "\n") != 0)
    return false;
  if (slash) {
    if (out->count != GOLDEN_FOLDS)
      return false;
    out->count = strtoul(slash + 1, NULL, 10);
  }
  return true;
}

bool golden_read(const char *path, golden_file_t *out_file) {
  *out_file = (golden_file_t){0};
  FILE *file = fopen(path, "r");
  if (!file) {
    perror(path);
    return false;
  }
  char *line = NULL;
  size_t capacity = 0;
  bool ok = true;
  for (int number = 1; ok && getline(&line, &capacity, file) > 0; number++) {
    if (line[0] == '#')
      continue;
    golden_entry_t *grown =
        realloc(out_file->entries, (out_file->count + 1) * sizeof *out_file->entries);
    if (!grown) {
      ok = false;
      break;
    }
    out_file->entries = grown;
    golden_entry_t *entry = &grown[out_file->count++];
    *entry = (golden_entry_t){0};
    ok = parse_line(line, entry);
    if (!ok)
      fprintf(stderr, "%s:%d: not a line of golden words\n", path, number);
  }
  free(line);
  fclose(file);
  if (!ok)
    golden_free(out_file);
  return ok;
}

void golden_free(golden_file_t *file) {
  for (size_t i = 0; i < file->count; i++) {
    free(file->entries[i].name);
    free(file->entries[i].words);
  }
  free(file->entries);
  *file = (golden_file_t){0};
}

const golden_entry_t *golden_find(const golden_file_t *file, const char *name) {
  for (size_t i = 0; i < file->count; i++) {
    if (strcmp(file->entries[i].name, name) == 0)
      return &file->entries[i];
  }
  return NULL;
}

bool golden_compare(const golden_entry_t *golden, const uint32_t *words, size_t count) {
  enum { SHOWN = 4 };
  if (golden->fault || !words) {
    if (golden->fault && !words)
      return true;
    printf("%s: %s; in the golden file it %s\n", golden->name, words ? "runs" : "faults",
           words ? "faults" : "runs");
    return false;
  }
  if (golden->count != count) {
    printf("%s: %zu words; the golden file has %zu\n", golden->name, count, golden->count);
    return false;
  }
  const size_t compared = golden->folded ? GOLDEN_FOLDS : count;
  size_t differences = 0;
  for (size_t i = 0; i < compared; i++) {
    const uint32_t found = golden->folded ? fold_at(words, count, i) : words[i];
    if (found == golden->words[i])
      continue;
    if (++differences > SHOWN)
      continue;
    if (golden->folded)
      printf("%s: words %zu to %zu differ\n", golden->name, count * i / GOLDEN_FOLDS,
             count * (i + 1) / GOLDEN_FOLDS - 1);
    else
      printf("%s: word %zu is %08" PRIx32 "; the golden one is %08" PRIx32 "\n", golden->name, i,
             found, golden->words[i]);
  }
  if (differences > SHOWN)
    printf("%s: %zu of %zu differ\n", golden->name, differences, compared);
  return differences == 0;
}
