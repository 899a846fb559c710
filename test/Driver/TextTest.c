/* TextTest.c - tests the suggestions for misspelled words: near enough, and the nearest.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Driver/Text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

static const char *nearest(const char *word) {
  static const char *const candidates[] = {"moe-verify", "moe-fuse-quantize", "llvm", "nvvm",
                                           "ptx",        "canonicalize",      "cse"};
  moe__nearest_t nearest = {.word = word};
  for (size_t i = 0; i < sizeof candidates / sizeof candidates[0]; i++)
    moe__nearest_offer(&nearest, candidates[i]);
  return nearest.best;
}

static void typos_find_their_word(void **state) {
  (void)state;
  assert_string_equal(nearest("moe-verfy"), "moe-verify");   /* a letter left out */
  assert_string_equal(nearest("moe-veriffy"), "moe-verify"); /* one too many */
  assert_string_equal(nearest("moe-verifu"), "moe-verify");  /* a wrong one */
  assert_string_equal(nearest("pxt"), "ptx");                /* two swapped */
  assert_string_equal(nearest("canonicalise"), "canonicalize");
  assert_string_equal(nearest("nvm"), "nvvm"); /* llvm is two edits away */
}

static void other_words_find_nothing(void **state) {
  (void)state;
  assert_null(nearest("xyzzy"));
  assert_null(nearest("abc"));
  assert_null(nearest("moe-quantize-fuse"));
  assert_null(nearest(""));
  char longest[200];
  memset(longest, 'a', sizeof longest - 1);
  longest[sizeof longest - 1] = '\0';
  assert_null(nearest(longest));
}

static void texts_grow(void **state) {
  (void)state;
  moe__text_t text = {0};
  for (int i = 0; i < 1000; i++)
    moe__text_printf(&text, "%d,", i % 10);
  assert_int_equal(text.length, 2000);
  assert_int_equal(strlen(text.data), 2000);
  assert_memory_equal(text.data + 1990, "5,6,7,8,9,", 10);
  moe__text_clear(&text);
  assert_string_equal(text.data, "");
  moe__text_append(&text, "a\0b", 3);
  assert_int_equal(text.length, 3);
  moe__text_free(&text);
  assert_null(text.data);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(typos_find_their_word),
      cmocka_unit_test(other_words_find_nothing),
      cmocka_unit_test(texts_grow),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
