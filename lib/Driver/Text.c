/* Text.c - a growing text, and the nearest of several words.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Driver/Text.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *moe__allocate(size_t size) {
  void *memory = malloc(size ? size : 1);
  if (!memory)
    abort();
  return memory;
}

char *moe__copy(const char *data, size_t length) {
  char *copy = moe__allocate(length + 1);
  if (length)
    memcpy(copy, data, length);
  copy[length] = '\0';
  return copy;
}

char *moe__copy_string(const char *string) {
  return string ? moe__copy(string, strlen(string)) : NULL;
}

static void reserve(moe__text_t *text, size_t more) {
  size_t needed = text->length + more + 1;
  if (needed <= text->capacity)
    return;
  size_t capacity = text->capacity * 2 > needed ? text->capacity * 2 : needed;
  char *data = realloc(text->data, capacity);
  if (!data)
    abort();
  text->data = data;
  text->capacity = capacity;
}

void moe__text_append(moe__text_t *text, const char *data, size_t length) {
  reserve(text, length);
  if (length)
    memcpy(text->data + text->length, data, length);
  text->length += length;
  text->data[text->length] = '\0';
}

void moe__text_put(moe__text_t *text, const char *string) {
  moe__text_append(text, string, strlen(string));
}

void moe__text_vprintf(moe__text_t *text, const char *format, va_list arguments) {
  va_list again;
  va_copy(again, arguments);
  int length = vsnprintf(NULL, 0, format, arguments);
  if (length < 0)
    abort();
  reserve(text, (size_t)length);
  vsnprintf(text->data + text->length, (size_t)length + 1, format, again);
  va_end(again);
  text->length += (size_t)length;
}

void moe__text_printf(moe__text_t *text, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  moe__text_vprintf(text, format, arguments);
  va_end(arguments);
}

void moe__text_clear(moe__text_t *text) {
  text->length = 0;
  moe__text_append(text, "", 0);
}

void moe__text_free(moe__text_t *text) {
  free(text->data);
  *text = (moe__text_t){0};
}

enum { LONGEST_WORD = 63 };

/* Edits (insert, delete, replace, swap neighbors) that turn a into b. */
static size_t edit_distance(const char *a, size_t a_length, const char *b, size_t b_length) {
  size_t rows[3][LONGEST_WORD + 1];
  size_t *before = rows[0], *above = rows[1], *row = rows[2];
  for (size_t j = 0; j <= b_length; j++)
    above[j] = j;
  for (size_t i = 1; i <= a_length; i++) {
    row[0] = i;
    for (size_t j = 1; j <= b_length; j++) {
      size_t best = above[j - 1] + (a[i - 1] != b[j - 1]);
      if (above[j] + 1 < best)
        best = above[j] + 1;
      if (row[j - 1] + 1 < best)
        best = row[j - 1] + 1;
      bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped && before[j - 2] + 1 < best)
        best = before[j - 2] + 1;
      row[j] = best;
    }
    size_t *free_row = before;
    before = above;
    above = row;
    row = free_row;
  }
  return above[b_length];
}

void moe__nearest_offer(moe__nearest_t *nearest, const char *candidate) {
  size_t length = strlen(nearest->word), candidate_length = strlen(candidate);
  if (length > LONGEST_WORD || candidate_length > LONGEST_WORD)
    return;
  size_t distance = edit_distance(nearest->word, length, candidate, candidate_length);
  size_t allowed = length < 3 ? 1 : length / 3 > 4 ? 4 : length / 3;
  if (distance > allowed || (nearest->best && distance >= nearest->distance))
    return;
  nearest->best = candidate;
  nearest->distance = distance;
}
