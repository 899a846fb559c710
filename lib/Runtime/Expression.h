/* Expression.h - sizes that depend on shapes (docs/manifest.md, "Expressions").
 *
 * Shapes, grids and tensor maps all are written in this one small language.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_RUNTIME_EXPRESSION_H
#define MOE_RUNTIME_EXPRESSION_H

#include "lib/Runtime/Json.h"

/* A shape symbol of a function and the sizes it may take. */
typedef struct moe__symbol_t {
  const char *name;
  int64_t multiple_of, min, max;
} moe__symbol_t;

typedef struct moe__symbols_t {
  moe__symbol_t *items;
  int count;
} moe__symbols_t;

typedef enum moe__expression_kind_t {
  MOE__CONSTANT,
  MOE__SYMBOL,
  MOE__NUM_SMS,
  MOE__NUM_CLUSTERS,
  MOE__CEILDIV,
  MOE__MUL,
  MOE__ADD,
  MOE__MIN,
} moe__expression_kind_t;

/* Values are never negative. */
typedef struct moe__expression_t {
  moe__expression_kind_t kind;
  int operand_count;
  int64_t value; /* the constant, or the index of the symbol */
  const struct moe__expression_t *operands;
} moe__expression_t;

/* What the names in an expression stand for. */
typedef struct moe__bindings_t {
  const int64_t *symbols;
  int64_t num_sms;      /* 0 where there is no device */
  int64_t num_clusters; /* of a grid's kernel, at once */
} moe__bindings_t;

/* Parses an expression over `symbols`. Its nodes live in the arena. num_clusters may be in it. */
moe_rt_status_t moe__expression_parse(const moe__json_t *json, const moe__symbols_t *symbols,
                                      moe__arena_t *arena, moe__expression_t *out_expression);

/* The same, but refuses num_clusters: all but the grids of kernels with clusters. */
moe_rt_status_t moe__expression_parse_size(const moe__json_t *json, const moe__symbols_t *symbols,
                                           moe__arena_t *arena, moe__expression_t *out_expression);

/* Whether a node of this kind is in the expression. */
bool moe__expression_uses(const moe__expression_t *expression, moe__expression_kind_t kind);

/* Computes the value in checked 64-bit arithmetic. MOE_RT_INVALID_ARGUMENT on overflow and on a
 * division by zero, MOE_RT_NOT_PREPARED where it needs a device and there is none. */
moe_rt_status_t moe__expression_evaluate(const moe__expression_t *expression,
                                         const moe__bindings_t *bindings, int64_t *out_value);

#endif /* MOE_RUNTIME_EXPRESSION_H */
