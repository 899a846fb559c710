/* Text.h - a growing text, and the nearest of several words.
 *
 * Why it exists: the library and moe-opt both put messages together and both answer a typo with a
 * suggestion.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_DRIVER_TEXT_H
#define MOE_DRIVER_TEXT_H

#include <stdarg.h>
#include <stddef.h>

/* Zero-initialized is the empty text. `data` is NULL until something was appended, then
 * NUL-terminated. */
typedef struct moe__text_t {
  char *data;
  size_t length;
  size_t capacity;
} moe__text_t;

void moe__text_append(moe__text_t *text, const char *data, size_t length);
void moe__text_put(moe__text_t *text, const char *string);
void moe__text_printf(moe__text_t *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void moe__text_vprintf(moe__text_t *text, const char *format, va_list arguments);

/* Makes the text empty and keeps its memory. */
void moe__text_clear(moe__text_t *text);

/* Frees the text; it is the empty text again. */
void moe__text_free(moe__text_t *text);

/* malloc and copies that end the process when memory is exhausted. The caller frees. */
void *moe__allocate(size_t size);
char *moe__copy(const char *data, size_t length);
char *moe__copy_string(const char *string); /* NULL gives NULL */

/* Finds the offered word that is nearest to a misspelled one:
 *   moe__nearest_t nearest = {.word = w}; moe__nearest_offer(&nearest, candidate) ...; nearest.best
 * `best` stays NULL while nothing is near enough to be what was meant. */
typedef struct moe__nearest_t {
  const char *word;
  const char *best;
  size_t distance;
} moe__nearest_t;

void moe__nearest_offer(moe__nearest_t *nearest, const char *candidate);

#endif /* MOE_DRIVER_TEXT_H */
