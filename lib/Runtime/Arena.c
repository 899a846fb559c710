/* Arena.c - a list of zeroed blocks.
 *
 * Programs are loaded once and have some hundred pieces: a block per piece is fast enough, and lets
 * AddressSanitizer see every overrun.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Runtime/Arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct moe__rt_arena_block_t {
  struct moe__rt_arena_block_t *next;
  max_align_t data[];
};

void *moe__rt_arena_allocate(moe__rt_arena_t *arena, size_t count, size_t size) {
  size_t bytes = 0;
  if (__builtin_mul_overflow(count, size, &bytes) ||
      bytes > SIZE_MAX - sizeof(struct moe__rt_arena_block_t))
    return NULL;
  struct moe__rt_arena_block_t *block = calloc(1, sizeof *block + bytes);
  if (!block)
    return NULL;
  block->next = arena->blocks;
  arena->blocks = block;
  return block->data;
}

char *moe__rt_arena_string(moe__rt_arena_t *arena, const char *text) {
  size_t bytes = strlen(text) + 1;
  char *copy = moe__rt_arena_allocate(arena, bytes, 1);
  return copy ? memcpy(copy, text, bytes) : NULL;
}

void moe__rt_arena_free(moe__rt_arena_t *arena) {
  while (arena->blocks) {
    struct moe__rt_arena_block_t *block = arena->blocks;
    arena->blocks = block->next;
    free(block);
  }
}
