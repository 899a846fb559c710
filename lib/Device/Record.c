/* Record.c - see Record.h: the structs, and how a kernel fills them.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Device/Record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const moe__expression_names[] = {
    [MOE__EXPRESSION_CONSTANT] = NULL,
    [MOE__EXPRESSION_NUM_SMS] = "num_sms",
    [MOE__EXPRESSION_NUM_CLUSTERS] = "num_clusters",
    [MOE__EXPRESSION_DIM] = "dim",
    [MOE__EXPRESSION_CEILDIV] = "ceildiv",
    [MOE__EXPRESSION_MUL] = "mul",
    [MOE__EXPRESSION_ADD] = "add",
    [MOE__EXPRESSION_MIN] = "min",
};
const char *const moe__map_element_names[] = {
    [MOE__MAP_U8] = "u8",
    [MOE__MAP_BF16] = "bf16",
    [MOE__MAP_F32] = "f32",
};
const char *const moe__swizzle_names[] = {
    [MOE__SWIZZLE_NONE] = "none",
    [MOE__SWIZZLE_32B] = "32B",
    [MOE__SWIZZLE_64B] = "64B",
    [MOE__SWIZZLE_128B] = "128B",
};
const char *const moe__l2_promotion_names[] = {
    [MOE__L2_PROMOTION_256B] = "256B",
    [MOE__L2_PROMOTION_128B] = "128B",
    [MOE__L2_PROMOTION_64B] = "64B",
    [MOE__L2_PROMOTION_NONE] = "none",
};
const char *const moe__map_fill_names[] = {
    [MOE__FILL_ZERO] = "zero",
    [MOE__FILL_NAN] = "nan",
};
const char *const moe__parameter_names[] = {
    [MOE__PARAMETER_POINTER] = "pointer",   [MOE__PARAMETER_TENSOR_MAP] = "tensor_map",
    [MOE__PARAMETER_SCALAR] = "scalar",     [MOE__PARAMETER_STATUS] = "status",
    [MOE__PARAMETER_COUNTERS] = "counters", [MOE__PARAMETER_PARTIALS] = "partials",
    [MOE__PARAMETER_ARRIVALS] = "arrivals",
};

void moe__record_destroy(moe__record_t *record) {
  while (record->expressions) {
    moe__expression_t *next = record->expressions->next;
    free(record->expressions);
    record->expressions = next;
  }
}

/* A kernel that does not fit is a bug of this project, as in lib/Builder. */
static void check_room(int count, int room, const char *what) {
  if (count < room)
    return;
  fprintf(stderr, "moe: internal error: too many %s\n", what);
  abort();
}

void moe__record_parameter(moe__record_t *record, const moe__parameter_t *parameter) {
  check_room(record->parameter_count, MOE__MAX_PARAMETERS, "parameters");
  record->parameters[record->parameter_count++] = *parameter;
}

void moe__record_require(moe__record_t *record, const moe__requirement_t *requirement) {
  check_room(record->requirement_count, MOE__MAX_REQUIREMENTS, "requirements");
  record->requirements[record->requirement_count++] = *requirement;
}

void moe__record_zeroed(moe__record_t *record, int tensor) {
  check_room(record->zeroed_count, MOE__MAX_ZEROED, "zeroed tensors");
  record->zeroed[record->zeroed_count++] = tensor;
}

/* ---- Expressions ---- */

moe__expression_t *moe__expression_create(moe__record_t *record, moe__expression_kind_t kind,
                                          int count) {
  moe__expression_t *expression =
      calloc(1, sizeof *expression + (size_t)count * sizeof(moe__expression_t *));
  if (!expression)
    abort();
  expression->next = record->expressions;
  expression->kind = kind;
  expression->count = count;
  record->expressions = expression;
  return expression;
}

const moe__expression_t *moe__expression_constant(moe__record_t *record, int64_t value) {
  moe__expression_t *expression = moe__expression_create(record, MOE__EXPRESSION_CONSTANT, 0);
  expression->constant = value;
  return expression;
}

const moe__expression_t *moe__expression_dim(moe__record_t *record, int tensor, int dimension) {
  moe__expression_t *expression = moe__expression_create(record, MOE__EXPRESSION_DIM, 0);
  expression->dim = (moe__dim_t){tensor, dimension};
  return expression;
}

const moe__expression_t *moe__expression_num_sms(moe__record_t *record) {
  return moe__expression_create(record, MOE__EXPRESSION_NUM_SMS, 0);
}

static const moe__expression_t *of_operands(moe__record_t *record, moe__expression_kind_t kind,
                                            int count, const moe__expression_t *const *operands) {
  moe__expression_t *expression = moe__expression_create(record, kind, count);
  memcpy(expression->operands, operands, (size_t)count * sizeof *operands);
  return expression;
}

const moe__expression_t *moe__expression_ceildiv(moe__record_t *record, const moe__expression_t *x,
                                                 int64_t divisor) {
  return of_operands(record, MOE__EXPRESSION_CEILDIV,
                     MOE__EXPRESSIONS(x, moe__expression_constant(record, divisor)));
}

const moe__expression_t *moe__expression_min(moe__record_t *record, const moe__expression_t *x,
                                             const moe__expression_t *y) {
  if (x->kind == MOE__EXPRESSION_CONSTANT && y->kind == MOE__EXPRESSION_CONSTANT)
    return x->constant < y->constant ? x : y;
  return of_operands(record, MOE__EXPRESSION_MIN, MOE__EXPRESSIONS(x, y));
}

const moe__expression_t *moe__expression_mul(moe__record_t *record, int count,
                                             const moe__expression_t *const *factors) {
  return of_operands(record, MOE__EXPRESSION_MUL, count, factors);
}

const moe__expression_t *moe__expression_add(moe__record_t *record, int count,
                                             const moe__expression_t *const *terms) {
  return of_operands(record, MOE__EXPRESSION_ADD, count, terms);
}

const moe__expression_t *moe__expression_resident(moe__record_t *record, int ctas_per_sm) {
  return moe__expression_mul(record,
                             MOE__EXPRESSIONS(moe__expression_num_sms(record),
                                              moe__expression_constant(record, ctas_per_sm)));
}

const moe__expression_t *
moe__expression_persistent(moe__record_t *record, const moe__expression_t *work, int ctas_per_sm) {
  return moe__expression_min(record, work, moe__expression_resident(record, ctas_per_sm));
}

const moe__expression_t *moe__expression_ctas(moe__record_t *record, const moe__expression_t *work,
                                              bool persistent, int ctas_per_sm) {
  return persistent ? moe__expression_persistent(record, work, ctas_per_sm) : work;
}

const moe__expression_t *moe__expression_persistent_clusters(moe__record_t *record,
                                                             const moe__expression_t *work,
                                                             int32_t cluster_size) {
  const moe__expression_t *resident =
      moe__expression_create(record, MOE__EXPRESSION_NUM_CLUSTERS, 0);
  const moe__expression_t *clusters = moe__expression_min(record, work, resident);
  return moe__expression_mul(
      record, MOE__EXPRESSIONS(clusters, moe__expression_constant(record, cluster_size)));
}
