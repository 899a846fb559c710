/* Shapes.c - see Shapes.h; Row.h has the letters.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Dialect/Shapes.h"

#include "lib/Dialect/Row.h"

#include "mlir-c/BuiltinTypes.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- Sizes ---- */

int64_t moe__static_dimension(MlirType type, int i) {
  return mlirShapedTypeIsDynamicDim(type, i) ? -1 : mlirShapedTypeGetDimSize(type, i);
}

int64_t moe__static_size(MlirOperation op, const moe__size_t *size) {
  int64_t value = 1, groups = 0;
  if (size->operand >= 0)
    value = moe__static_dimension(mlirValueGetType(mlirOperationGetOperand(op, size->operand)),
                                  size->dimension);
  if (size->groups_operand >= 0)
    groups = moe__static_dimension(
        mlirValueGetType(mlirOperationGetOperand(op, size->groups_operand)), 0);
  if (value < 0 || groups < 0)
    return -1;
  int64_t quotient = (value + size->divisor - 1) / size->divisor;
  return size->multiple * quotient + (size->groups_apart ? 1 : size->multiple) * groups;
}

void moe__append_padded(moe__shape_t *shape, int operand, int dimension, int64_t multiple,
                        int groups_operand) {
  shape->sizes[shape->rank++] = (moe__size_t){.operand = operand,
                                              .dimension = dimension,
                                              .groups_operand = groups_operand,
                                              .divisor = multiple,
                                              .multiple = multiple};
}

void moe__append_divided(moe__shape_t *shape, int operand, int dimension, int64_t divisor) {
  moe__append_padded(shape, operand, dimension, divisor, -1);
  shape->sizes[shape->rank - 1].multiple = 1;
}

void moe__append_copy(moe__shape_t *shape, int operand, int dimension) {
  moe__append_divided(shape, operand, dimension, 1);
}

void moe__append_constant(moe__shape_t *shape, int64_t value) {
  moe__append_copy(shape, -1, 0);
  shape->sizes[shape->rank - 1].multiple = value;
}

/* ---- Reading letters ---- */

/* One dimension of a tensor: a letter, divided by `divisor` or up to a multiple of `multiple`, both
 * rounded up, and one more for each of `groups`; or a number. */
typedef struct dimension_t {
  char letter; /* 0: a number */
  char groups; /* 0: none */
  int number, divisor, multiple;
} dimension_t;

static int read_number(const char **at) {
  char *end;
  int number = (int)strtol(*at, &end, 10);
  *at = end;
  return number;
}

/* False behind the last dimension of an alternative. */
static bool next_dimension(const char **at, dimension_t *out) {
  *out = (dimension_t){.divisor = 1, .multiple = 1};
  if (isdigit((unsigned char)**at)) {
    /* "2EK" is 2, E, K. */
    out->number = read_number(at);
    return true;
  }
  if (!isupper((unsigned char)**at))
    return false;
  out->letter = *(*at)++;
  if (**at == '/' || **at == '%') {
    int *which = **at == '/' ? &out->divisor : &out->multiple;
    ++*at;
    *which = read_number(at);
  }
  if (**at == '+') {
    out->groups = (*at)[1];
    *at += 2;
  }
  return true;
}

static int rank_of(const char *alternative) {
  dimension_t ignored;
  int rank = 0;
  if (*alternative == '*' || *alternative == '@')
    return -1;
  while (next_dimension(&alternative, &ignored))
    rank++;
  return rank;
}

/* What stands behind "name:" or "name?:"; NULL where the string does not name the tensor. */
static const char *find_alternatives(const char *letters, moe__role_t role, bool *out_maybe) {
  const char *name = moe__role_name(role);
  size_t length = strlen(name);
  for (const char *at = letters; at; at = strchr(at, ' ')) {
    at += *at == ' ';
    if (strncmp(at, name, length) != 0)
      continue;
    *out_maybe = at[length] == '?';
    if (at[length + *out_maybe] == ':')
      return at + length + *out_maybe + 1;
  }
  return NULL;
}

moe__presence_t moe__presence(const char *letters, moe__role_t role) {
  bool maybe = false;
  if (!find_alternatives(letters, role, &maybe))
    return MOE__ABSENT;
  return maybe ? MOE__MAYBE : MOE__PRESENT;
}

int moe__letters_rank(const char *letters, moe__role_t role) {
  bool ignored;
  return rank_of(find_alternatives(letters, role, &ignored));
}

/* Behind the '|' of the next alternative; NULL behind the last one. */
static const char *next_alternative(const char *alternative) {
  alternative += strcspn(alternative, "| ");
  return *alternative == '|' ? alternative + 1 : NULL;
}

/* Scales of MX blocks are f8E8M0FNU, all others f32; of those an attribute says whether they are of
 * blocks of tokens, and another one whether the tokens have room for the groups. */
static bool is_meant(MlirOperation op, const char *alternative, MlirType type) {
  dimension_t dimension;
  bool mx = false, in_groups = false, of_tokens = false;
  for (bool first = true; next_dimension(&alternative, &dimension); first = false) {
    mx |= dimension.divisor == MOE_MX_BLOCK;
    in_groups |= dimension.groups != 0;
    of_tokens |= first && dimension.letter == 'M' && dimension.divisor > 1;
  }
  if (of_tokens && in_groups == (moe__group_align(op) != 0))
    return false;
  if (mx || mlirTypeIsAFloat8E8M0FNU(mlirShapedTypeGetElementType(type)))
    return mx == mlirTypeIsAFloat8E8M0FNU(mlirShapedTypeGetElementType(type));
  return of_tokens == !mlirAttributeIsNull(moe__op_attribute(op, "granularity"));
}

static bool fits(const char *alternative, MlirType type) {
  dimension_t first;
  const char *at = alternative;
  return rank_of(alternative) == mlirShapedTypeGetRank(type) &&
         (!next_dimension(&at, &first) || first.letter ||
          moe__static_dimension(type, 0) == first.number);
}

/* The alternative of Row.h that a tensor of this type is to be. */
static const char *choose(MlirOperation op, const char *alternatives, MlirType type) {
  const char *last = NULL;
  if (!next_alternative(alternatives))
    return alternatives;
  for (const char *at = alternatives; at; at = next_alternative(at)) {
    if (!is_meant(op, at, type))
      continue;
    last = at;
    if (fits(at, type))
      break;
  }
  return last ? last : alternatives;
}

static const char *case_of(MlirOperation op) {
  return moe__op_rows[moe__op_id(op)].cases[moe__op_case(op)];
}

/* ---- Shapes ---- */

/* The operand that owns a letter, or a star, is the one that the string names first with it.
 * Operands with several alternatives own nothing. */
static bool owns(const char *alternatives, char letter, int *out_dimension) {
  dimension_t dimension;
  if (next_alternative(alternatives))
    return false;
  *out_dimension = 0;
  if (letter == '*')
    return *alternatives == '*';
  for (; next_dimension(&alternatives, &dimension); ++*out_dimension)
    if (dimension.letter == letter && dimension.divisor == 1 && dimension.multiple == 1 &&
        !dimension.groups)
      return true;
  return false;
}

moe__role_t moe__letter_owner(MlirOperation op, char letter, int *out_dimension) {
  const moe__op_row_t *row = &moe__op_rows[moe__op_id(op)];
  const char *letters = case_of(op), *first = NULL;
  moe__role_t owner = MOE__NO_ROLE;
  for (int i = 0; row->operands[i].role; i++) {
    bool ignored;
    int dimension;
    const char *at = find_alternatives(letters, row->operands[i].role, &ignored);
    if (at && (!first || at < first) && owns(at, letter, &dimension) &&
        moe__operand_number(op, row->operands[i].role) >= 0) {
      first = at;
      owner = row->operands[i].role;
      *out_dimension = dimension;
    }
  }
  return owner;
}

static void append_all(MlirOperation op, moe__shape_t *shape) {
  int ignored, number = moe__operand_number(op, moe__letter_owner(op, '*', &ignored));
  int rank = (int)mlirShapedTypeGetRank(mlirValueGetType(mlirOperationGetOperand(op, number)));
  for (int d = 0; d < rank; d++)
    moe__append_copy(shape, number, d);
}

void moe__tensor_shape(MlirOperation op, moe__role_t role, moe__shape_t *out) {
  bool ignored;
  const char *at =
      choose(op, find_alternatives(case_of(op), role, &ignored), moe__tensor_type(op, role));
  *out = (moe__shape_t){0};
  if (*at == '@')
    moe__op_rows[moe__op_id(op)].shape(op, role, out);
  else if (*at == '*')
    append_all(op, out);
  for (dimension_t dimension; next_dimension(&at, &dimension);) {
    int of = 0;
    if (dimension.letter) {
      moe__role_t owner = moe__letter_owner(op, dimension.letter, &of);
      int number = moe__operand_number(op, owner);
      if (dimension.multiple == 1)
        moe__append_divided(out, number, of, dimension.divisor);
      else
        moe__append_padded(out, number, of, dimension.multiple,
                           moe__group_align(op) ? moe__operand_number(op, MOE__OFFS) : -1);
      if (dimension.groups)
        out->sizes[out->rank - 1].groups_operand =
            moe__operand_number(op, moe__letter_owner(op, dimension.groups, &of));
    } else {
      moe__append_constant(out, dimension.number);
    }
  }
}

void moe__result_shape(MlirOperation op, int result, moe__shape_t *out) {
  moe__tensor_shape(op, moe__result_role(op, result), out);
}
