/* Random.h - deterministic data for arguments that no file gives.
 *
 * Why it exists: a check must be repeatable anywhere from its seed alone, and must meet the values
 * where quantizers go wrong. docs/moe-run.md describes the generator exactly.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_RUN_RANDOM_H
#define MOE_RUN_RANDOM_H

#include "tools/moe-run/Options.h"
#include "tools/moe-run/Tensor.h"

/* What an argument is to the op that reads it. */
typedef enum moe__run_role_t {
  MOE__RUN_CELLS,          /* cells of many magnitudes, for a quantizer */
  MOE__RUN_OPERAND,        /* of a product: normal */
  MOE__RUN_SELECTOR,       /* its first operand: the same, or one-hot along the last dimension */
  MOE__RUN_SCALES,         /* of a product's rows or columns: positive */
  MOE__RUN_GROUP_SCALES,   /* of groups of its sum: the same, and exact ones of few bits */
  MOE__RUN_BYTES,          /* scales that are only moved, four-bit weights: any byte */
  MOE__RUN_OFFSETS,        /* i32 ends of groups of tokens */
  MOE__RUN_PADDED_OFFSETS, /* i32 ends of those groups after they were padded */
} moe__run_role_t;

/* What --nan-groups makes NaN of an argument, by the index along a dimension of it: groups to
 * spoil, their tokens and those of no group, groups without tokens, or rows of scales that belong
 * to no block of `token_block` tokens of a group (numerics.md says where those stand). */
typedef enum moe__run_nan_t {
  MOE__RUN_NAN_NONE,
  MOE__RUN_NAN_GROUPS,
  MOE__RUN_NAN_TOKENS,
  MOE__RUN_NAN_EMPTY_GROUPS,
  MOE__RUN_NAN_NO_BLOCK,
} moe__run_nan_t;

typedef struct moe__run_use_t {
  moe__run_role_t role;
  int64_t cell[MOE_RT_MAX_RANK]; /* elements of a cell, which share a scale, along each dimension */
  bool is_crossed;               /* rows and columns of a cell have scales of their own */
  int64_t tokens;                /* OFFSETS: that are cut into groups */
  moe__run_nan_t nan;
  int nan_dimension;
  int64_t token_block; /* NAN_NO_BLOCK: tokens of a block that shares a scale with no other */
  /* PADDED_OFFSETS: the ends before; NAN_TOKENS and those behind it: the ends of the groups.
   * Without data if not known. */
  moe_ref_tensor_t offs;
  /* PADDED_OFFSETS: what groups are padded to; NAN_TOKENS and NAN_NO_BLOCK: MOE_GROUP_ALIGN, or 0
   * where groups stand side by side. Such tokens are zeros up to the next multiple. */
  int64_t align;
} moe__run_use_t;

typedef struct moe__run_random_t {
  uint64_t seed;
  int argument; /* its number in the function: arguments differ although they share the seed */
  moe__run_use_t use;
  moe__run_groups_t groups;
  bool edge_blocks; /* plant cells of special values */
  bool exact;       /* small integers, whose products have exact sums */
  bool one_hot;     /* a product's result is elements of its second operand */
  bool normal;      /* what has magnitudes of its own has not */
  bool nan_groups;  /* plant NaN as the use says */
  int threads;
} moe__run_random_t;

/* Whether the tensor's data depend on those of use->offs. */
bool moe__run_random_follows(const moe__run_random_t *random);

/* Fills the tensor's data. Fails for a dtype that has no random data. */
int moe__run_random_fill(const moe__run_random_t *random, const moe__run_tensor_t *tensor);

#endif /* MOE_RUN_RANDOM_H */
