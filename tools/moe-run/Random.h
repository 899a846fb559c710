/* Random.h - deterministic data for arguments that no file gives.
 *
 * Why it exists: a check must be repeatable anywhere from its seed alone, and must meet the values
 * where quantizers go wrong. docs/moe-run.md describes the generator exactly.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_RUN_RANDOM_H
#define MOE_RUN_RANDOM_H

#include "tools/moe-run/Tensor.h"

typedef struct moe__random_t {
  uint64_t seed;
  int argument; /* its number in the function: arguments differ although they share the seed */
  int axis;     /* blocks are `block` consecutive elements along this dimension */
  int64_t block;
  bool edge_blocks; /* plant blocks of special values */
  int threads;
} moe__random_t;

/* Fills the tensor's data. Fails for a dtype that has no random data. */
int moe__random_fill(const moe__random_t *random, const moe__tensor_t *tensor);

#endif /* MOE_RUN_RANDOM_H */
