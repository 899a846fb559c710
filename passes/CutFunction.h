/* CutFunction.h - cuts a function in two: what depends on some of its arguments, and what does
 * not.
 *
 * The first part, NAME_forward, computes what does not depend on them; the second one,
 * NAME_backward, the rest. What the second part reads of the first one is saved: a result of the
 * one and an argument of the other, of one name. An argument of the function that both read is
 * an argument of both. Views are not saved, but made again.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_PASSES_CUT_FUNCTION_H
#define MOE_PASSES_CUT_FUNCTION_H

#include "mlir-c/IR.h"

#include <stdbool.h>
#include <stddef.h>

/* A function whose last arguments, and whose last results, are those of the backward part alone. */
typedef struct moe__cut_t {
  MlirOperation function;
  char **argument_names, **result_names; /* of these; owned */
  size_t argument_count, result_count;
} moe__cut_t;

/* Adds the name of one more such argument or result, which it takes. */
void moe__cut_name_argument(moe__cut_t *cut, char *name);
void moe__cut_name_result(moe__cut_t *cut, char *name);
void moe__cut_free(moe__cut_t *cut);

/* The `moe.name` of argument or result number i ("arg_attrs", "res_attrs"), else a name from its
 * number; free it. */
char *moe__cut_name_of(MlirOperation function, const char *list, intptr_t i);

/* Whether the names of the two functions are free; an error says which is not. */
bool moe__cut_is_possible(MlirOperation function);

/* Puts the two functions in the place of the one, which is destroyed. Its transposes have at most
 * MOE__MAX_RANK dimensions. */
void moe__cut(const moe__cut_t *cut);

#endif /* MOE_PASSES_CUT_FUNCTION_H */
