/* Inspect.h - reads ops: names, attributes, types, and errors at their place. The counterpart of
 * Builder.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_BUILDER_INSPECT_H
#define MOE_BUILDER_INSPECT_H

#include "mlir-c/IR.h"

#include <stdbool.h>
#include <stdint.h>

/* "dialect.op" */
MlirStringRef moe__op_name(MlirOperation op);
bool moe__op_is(MlirOperation op, const char *name);
bool moe__op_in_dialect(MlirOperation op, const char *dialect);

/* The attribute, null if there is none. */
MlirAttribute moe__op_attribute(MlirOperation op, const char *name);
void moe__op_set_attribute(MlirOperation op, const char *name, MlirAttribute value);

/* The value of an integer, bool or string attribute; the caller knows that it is one. */
int64_t moe__op_integer(MlirOperation op, const char *name);
bool moe__op_bool(MlirOperation op, const char *name);
MlirStringRef moe__op_string(MlirOperation op, const char *name);

/* Whether the attribute, which may be null, is an integer that fits 64 bits: of that type, of a
 * narrower one, or an index. */
bool moe__attribute_is_integer(MlirAttribute attribute);

/* Whether both are in one block and `op` stands before `other`. */
bool moe__op_is_before(MlirOperation op, MlirOperation other);

/* Emits a printf-style error at the op's location. Returns false, so that a check can end with it.
 */
bool moe__error(MlirOperation op, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Attribute `name` of argument or result number i of a function; null where it has none. list:
 * "arg_attrs" or "res_attrs". */
MlirAttribute moe__port_attribute(MlirOperation function, const char *list, intptr_t i,
                                  const char *name);

/* The symbol name of a function or module. */
MlirStringRef moe__symbol(MlirOperation op);

/* The first block of the op's only region; null where it has none. */
MlirBlock moe__body(MlirOperation op);

/* Calls visit for op and every op inside it, outermost first, until one returns false; returns what
 * the last call did. */
typedef bool (*moe__visit_t)(MlirOperation op, void *user);
bool moe__walk(MlirOperation op, moe__visit_t visit, void *user);

/* Visits the body of each function of a module that has one; false after the first visit that
 * is. */
bool moe__walk_functions(MlirOperation module, bool (*visit)(MlirBlock body));

/* Visits the ops of a block, each of which may be destroyed by its visit; the same. */
bool moe__walk_block(MlirBlock block, bool (*visit)(MlirOperation op));

/* The text of a type or attribute; free it. */
char *moe__type_text(MlirType type);
char *moe__attribute_text(MlirAttribute attribute);

/* The memory order of a ranked tensor of up to 8 dimensions: order[i] is the logical dimension at
 * memory position i, outermost first. False where the encoding is not a permutation of the tensor's
 * rank. */
#define MOE__MAX_RANK 8
bool moe__memory_order(MlirType tensor, int order[MOE__MAX_RANK]);

#endif /* MOE_BUILDER_INSPECT_H */
