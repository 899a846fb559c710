/* Expression.h - sizes that depend on shapes (docs/manifest.md, "Expressions").
 *
 * Shapes, grids and tensor maps all are written in this one small language.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_RUNTIME_EXPRESSION_H
#define MOE_RUNTIME_EXPRESSION_H

#include "lib/Runtime/Json.h"

/* A shape symbol of a function and the sizes it may take. */
typedef struct moe__rt_symbol_t {
  const char *name;
  int64_t multiple_of, min, max;
} moe__rt_symbol_t;

typedef struct moe__rt_symbols_t {
  moe__rt_symbol_t *items;
  int count;
} moe__rt_symbols_t;

typedef enum moe__rt_expression_kind_t {
  MOE__RT_CONSTANT,
  MOE__RT_SYMBOL,
  MOE__RT_NUM_SMS,
  MOE__RT_NUM_CLUSTERS,
  MOE__RT_CEILDIV,
  MOE__RT_MUL,
  MOE__RT_ADD,
  MOE__RT_MIN,
} moe__rt_expression_kind_t;

/* Values are never negative. */
typedef struct moe__rt_expression_t {
  moe__rt_expression_kind_t kind;
  int operand_count;
  int64_t value; /* the constant, or the index of the symbol */
  const struct moe__rt_expression_t *operands;
} moe__rt_expression_t;

/* What the names in an expression stand for. */
typedef struct moe__rt_bindings_t {
  const int64_t *symbols;
  int64_t num_sms;      /* 0 where there is no device */
  int64_t num_clusters; /* of a grid's kernel, at once */
} moe__rt_bindings_t;

/* Parses an expression over `symbols`. Its nodes live in the arena. num_clusters may be in it. */
moe_rt_status_t moe__rt_expression_parse(const moe__rt_json_t *json,
                                         const moe__rt_symbols_t *symbols, moe__rt_arena_t *arena,
                                         moe__rt_expression_t *out_expression);

/* The same, but refuses num_clusters: all but the grids of kernels with clusters. */
moe_rt_status_t moe__rt_expression_parse_size(const moe__rt_json_t *json,
                                              const moe__rt_symbols_t *symbols,
                                              moe__rt_arena_t *arena,
                                              moe__rt_expression_t *out_expression);

/* Whether a node of this kind is in the expression. */
bool moe__rt_expression_uses(const moe__rt_expression_t *expression,
                             moe__rt_expression_kind_t kind);

/* Computes the value in checked 64-bit arithmetic. MOE_RT_INVALID_ARGUMENT on overflow and on a
 * division by zero, MOE_RT_NOT_PREPARED where it needs a device and there is none. */
moe_rt_status_t moe__rt_expression_evaluate(const moe__rt_expression_t *expression,
                                            const moe__rt_bindings_t *bindings, int64_t *out_value);

#endif /* MOE_RUNTIME_EXPRESSION_H */
