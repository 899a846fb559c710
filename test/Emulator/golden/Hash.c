/* Hash.c - prints the XXH3-128 hash of a file, as a bundle's manifest wants it.
 *
 * Why it exists: the probes' bundle is written by a Python script, and Python has no such hash.
 *
 * usage: golden_hash FILE
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <stdio.h>

int main(int argc, char **argv) {
  FILE *file = argc == 2 ? fopen(argv[1], "rb") : NULL;
  if (!file) {
    fprintf(stderr, "usage: golden_hash FILE\n");
    return 2;
  }
  static char cta[1 << 16];
  XXH3_state_t *state = XXH3_createState();
  if (!state || XXH3_128bits_reset(state) != XXH_OK)
    return 1;
  for (size_t size = 0; (size = fread(cta, 1, sizeof cta, file)) > 0;)
    XXH3_128bits_update(state, cta, size);
  const int failed = ferror(file);
  fclose(file);
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state));
  XXH3_freeState(state);
  for (int i = 0; i < 16 && !failed; i++)
    printf("%02x", canonical.digest[i]);
  printf("\n");
  return failed ? 1 : 0;
}
