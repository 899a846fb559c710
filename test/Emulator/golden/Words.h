/* Words.h - golden words: what a probe wrote, as a line of text.
 *
 * Why it exists: the program that runs the probes writes these files, and tests read them.
 *
 * A line is `name: word word ...` in hexadecimal for up to 128 words; longer outputs are folded to
 * 32 words, each a hash of one 32nd of the output, and their lines start with `name/count:`. The
 * line of a probe that the device refused is `name: fault`. A file may also hold every word of long
 * outputs, for finding out why a fold differs.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_TEST_EMULATOR_GOLDEN_WORDS_H
#define MOE_TEST_EMULATOR_GOLDEN_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { GOLDEN_MAX_PLAIN = 128, GOLDEN_FOLDS = 32 };

typedef struct golden_entry_t {
  char *name;
  size_t count; /* words of the output */
  bool folded;  /* words[] has GOLDEN_FOLDS hashes instead */
  bool fault;   /* there are no words: the device refused */
  uint32_t *words;
} golden_entry_t;

typedef struct golden_file_t {
  golden_entry_t *entries;
  size_t count;
} golden_file_t;

/* Writes one line; long outputs in full when `full`. NULL words: a fault. */
void golden_write(FILE *file, const char *name, const uint32_t *words, size_t count, bool full);

/* Reads a file; false, with a message on stderr, when it cannot be read or a line is damaged. */
bool golden_read(const char *path, golden_file_t *out_file);
void golden_free(golden_file_t *file);

/* NULL when there is none. */
const golden_entry_t *golden_find(const golden_file_t *file, const char *name);

/* Compares an output (NULL words: a fault) with its golden words; on a difference prints where it
 * is, up to four places, and gives false. */
bool golden_compare(const golden_entry_t *golden, const uint32_t *words, size_t count);

#endif /* MOE_TEST_EMULATOR_GOLDEN_WORDS_H */
