/* Arena.h - memory that is freed all at once.
 *
 * A program and a call are made of many small pieces with one lifetime; one owner leaves no error
 * path to forget a piece.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_RUNTIME_ARENA_H
#define MOE_RUNTIME_ARENA_H

#include <stddef.h>

/* All zero is an empty arena. */
typedef struct moe__rt_arena_t {
  struct moe__rt_arena_block_t *blocks;
} moe__rt_arena_t;

/* `count` zeroed objects of `size` bytes, aligned for any type; NULL when memory is out. Never NULL
 * for a count of 0. */
void *moe__rt_arena_allocate(moe__rt_arena_t *arena, size_t count, size_t size);

/* A copy of `text`; NULL when memory is out. */
char *moe__rt_arena_string(moe__rt_arena_t *arena, const char *text);

/* Frees everything; the arena is empty again. */
void moe__rt_arena_free(moe__rt_arena_t *arena);

#endif /* MOE_RUNTIME_ARENA_H */
