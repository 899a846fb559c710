/* Row.h - what a row of the op tables says: MxQuantize.def, ScaledGroupedMm.def.
 *
 * A row is the only place that says what an op is. The verifier, shape inference, the
 * requirements of a launch, the IRDL text of dialects/ and the roles in the manifest are made
 * from it.
 *
  *   MOE_OP(SYMBOL, "dialect.name", .doc = "...", .operands = {...}, .results = {...},
 *          .attributes = {...}, .cases = {...}, CHECK(function), SHAPE(function))
 *
 * makes MOE__OP_<SYMBOL> (Dialect.h) and the row of type moe__op_row_t below.
 *
 * A case gives the shape of each tensor in letters, in one string:
 *
 *   "qa:MK qb:EKN offs:E sa:1|M|MK/32 sb:E|EN|EK/32N -> out:MN"
 *
 *   letter   a dimension; one letter is one size in all tensors. The first operand of the string
 *            that has the letter defines its size. There are at most MOE_MAX_GROUPS of E (experts)
 *            and of G (groups).
 *   number   a dimension of this size
 *   K/32     a dimension with one element for each 32 of K: scales of MX blocks, of type f8E8M0FNU.
 *            K must be a multiple of 32.
 *   M/32+E   the same and one more for each of E: room for the MX blocks of E groups of M, which
 *            begin anew in each group and of which the last one may be short
 *   K/128    the same for each 128, rounded up: f32 scales
 *   M/128+E  the same and one more for each of E: room for the blocks of E groups of M, which begin
 *            anew in each group. Where it is one of several, it counts if the op has the attribute
 *            `granularity`, and the others do not. With the attribute `align` M has that room, and
 *            M/128 or M/32 in its first dimension counts in place of M/128+E or M/32+E
 *   M%128    M, rounded up to a multiple of 128; with the attribute `align` there are 128 more for
 *            each of `offs`
 *   *        the shape of the first operand of the string that has a star
 *   @        what the row's function SHAPE says
  *   a|b      one of several. Those with a /32 are for element type f8E8M0FNU, the others for other
 *            types. Of these the first whose rank fits counts, "1" only where the size is 1; where
 *            none fits, the last
 *   name?:   the tensor may be missing; one that the string does not name must be missing
 *
 * The ranks of the first `selectors` operands say which case an op is.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_DIALECT_ROW_H
#define MOE_DIALECT_ROW_H

#include "lib/Dialect/Dialect.h"
#include "lib/Dialect/Shapes.h"

#define MOE__MAX_ALTERNATIVES 6
#define MOE__MAX_ROW_TENSORS 6
#define MOE__MAX_ROW_ATTRIBUTES 5
#define MOE__MAX_CASES 3

/* The element types of the dialects. */
typedef enum moe__dtype_t {
  MOE__NO_DTYPE,
#define MOE_DTYPE(symbol, name, bits, dlpack, safetensors) MOE__DTYPE_##symbol,
#include "moe/dtypes.def"
} moe__dtype_t;

/* An operand or result. */
typedef struct moe__tensor_row_t {
  moe__role_t role; /* MOE__NO_ROLE: no more */
  moe__dtype_t elements[MOE__MAX_ALTERNATIVES];
  bool optional;        /* an operand that may be missing; a row has at most one */
  const char *needed;   /* why it must be there in a case that has it; NULL: nothing to add */
  const char *unwanted; /* why it must not be there in one that does not */
} moe__tensor_row_t;

typedef enum moe__attribute_kind_t { MOE__INTEGER, MOE__STRING, MOE__BOOL } moe__attribute_kind_t;

typedef struct moe__attribute_row_t {
  const char *name; /* NULL: no more */
  moe__attribute_kind_t kind;
  const char *const *values; /* of a string, up to NULL */
  bool optional;
} moe__attribute_row_t;

typedef struct moe__op_row_t {
  const char *name; /* "mx_quantize.quantize" */
  const char *doc;  /* stands in the IRDL text, line by line */
  moe__tensor_row_t operands[MOE__MAX_ROW_TENSORS + 1], results[MOE__MAX_ROW_TENSORS + 1];
  moe__attribute_row_t attributes[MOE__MAX_ROW_ATTRIBUTES + 1];
  int selectors;                     /* 0 is 1 */
  const char *cases[MOE__MAX_CASES]; /* none: the shapes are not checked */
  /* Checks what letters cannot say; called before shapes are compared. Emits an error. */
  bool (*check)(MlirOperation op);
  /* The shape of the tensor of this role, for '@'. */
  void (*shape)(MlirOperation op, moe__role_t role, moe__shape_t *out);
} moe__op_row_t;

/* By moe__op_id_t; row 0, MOE__NO_OP, is empty. */
extern const moe__op_row_t moe__op_rows[];

/* The name of an element type in MLIR. */
const char *moe__dtype_name(moe__dtype_t dtype);

/* A dialect: its name and the comment that its IRDL text begins with. */
typedef struct moe__dialect_row_t {
  const char *name, *doc;
} moe__dialect_row_t;
extern const moe__dialect_row_t moe__dialect_rows[]; /* up to one without a name */

#endif /* MOE_DIALECT_ROW_H */
