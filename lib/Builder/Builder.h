/* Builder.h - builds kernel bodies op by op: the scf, arith, llvm and nvvm dialects under short
 * names.
 *
 * Why it exists: a lowering should read like its algorithm. MLIR's C API takes a page to create one
 * op; these functions take a line. They know nothing of any kernel; idioms made of several ops live
 * in lib/Device.
 *
 * A malformed op is a bug of this project, never of the user: the functions abort with the op's
 * name.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_BUILDER_BUILDER_H
#define MOE_BUILDER_BUILDER_H

#include "mlir-c/IR.h"

#include <stdbool.h>
#include <stdint.h>

/* Where ops go, and the types kernels are made of. */
typedef struct moe__builder_t {
  MlirContext context;
  MlirLocation location;
  MlirBlock block;      /* ops are appended here, */
  MlirOperation before; /* or inserted before this op of the block, where it is not null */
  MlirOperation closed; /* the branch that has just been closed, for MOE__ELSE; else null */
  MlirType i1, i8, i16, i32, i64, f32;
  MlirType ptr, global_ptr, shared_ptr, cluster_ptr; /* !llvm.ptr of address space 0, 1, 3, 7 */
} moe__builder_t;

moe__builder_t moe__builder_create(MlirContext context, MlirLocation location);

/* One that inserts ops before `op`, at its location. */
moe__builder_t moe__builder_before(MlirOperation op);

/* A type or an attribute from its text. */
MlirType moe__type(moe__builder_t *b, const char *text);
MlirAttribute moe__attribute(MlirContext context, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- Any op ---- */

/* Operand lists: MOE__VALUES(a, b) expands to the two arguments count, values. */
#define MOE__VALUES(...)                                                                           \
  (intptr_t)(sizeof((MlirValue[]){__VA_ARGS__}) / sizeof(MlirValue)), (MlirValue[]) {              \
    __VA_ARGS__                                                                                    \
  }
#define MOE__NO_VALUES 0, NULL

/* Creates `name` with the attributes of the dictionary text `attributes` ("a = 1 : i32, b"; NULL
 * for none) and appends it. */
MlirOperation moe__op(moe__builder_t *b, const char *name, intptr_t result_count,
                      const MlirType *results, intptr_t operand_count, const MlirValue *operands,
                      const char *attributes, intptr_t region_count, MlirRegion *regions);

/* The same for the two common cases: one result, none. */
MlirValue moe__op1(moe__builder_t *b, const char *name, MlirType result, intptr_t operand_count,
                   const MlirValue *operands, const char *attributes);
void moe__op0(moe__builder_t *b, const char *name, intptr_t operand_count,
              const MlirValue *operands, const char *attributes);

/* ---- Constants and arithmetic (operands of one type) ---- */

MlirValue moe__i32(moe__builder_t *b, int32_t value);
MlirValue moe__i64(moe__builder_t *b, int64_t value);
MlirValue moe__f32(moe__builder_t *b, float value);
MlirValue moe__index(moe__builder_t *b, int64_t value);

MlirValue moe__add(moe__builder_t *b, MlirValue x, MlirValue y);
MlirValue moe__sub(moe__builder_t *b, MlirValue x, MlirValue y);
MlirValue moe__mul(moe__builder_t *b, MlirValue x, MlirValue y);
MlirValue moe__udiv(moe__builder_t *b, MlirValue x, MlirValue y);
MlirValue moe__urem(moe__builder_t *b, MlirValue x, MlirValue y);
MlirValue moe__umin(moe__builder_t *b, MlirValue x, MlirValue y);
MlirValue moe__smin(moe__builder_t *b, MlirValue x, MlirValue y);
MlirValue moe__smax(moe__builder_t *b, MlirValue x, MlirValue y);
MlirValue moe__and(moe__builder_t *b, MlirValue x, MlirValue y);
MlirValue moe__or(moe__builder_t *b, MlirValue x, MlirValue y);
MlirValue moe__xor(moe__builder_t *b, MlirValue x, MlirValue y);
MlirValue moe__shl(moe__builder_t *b, MlirValue x, int bits);
MlirValue moe__lshr(moe__builder_t *b, MlirValue x, int bits);
/* The bits that leave at the upper end come back at the lower one. */
MlirValue moe__rotate_left(moe__builder_t *b, MlirValue x, int bits);
/* Rounds up; x + divisor must not overflow, as it cannot for a dimension below 2^31. */
MlirValue moe__ceil_div(moe__builder_t *b, MlirValue x, int32_t divisor);
MlirValue moe__fmul(moe__builder_t *b, MlirValue x, MlirValue y);
MlirValue moe__fadd(moe__builder_t *b, MlirValue x, MlirValue y);
/* x * y + z, rounded once. */
MlirValue moe__fma(moe__builder_t *b, MlirValue x, MlirValue y, MlirValue z);
MlirValue moe__fdiv(moe__builder_t *b, MlirValue x, MlirValue y);
MlirValue moe__umax(moe__builder_t *b, MlirValue x, MlirValue y);

/* Comparisons give i1; u: as unsigned numbers, s: as signed ones. */
MlirValue moe__eq(moe__builder_t *b, MlirValue x, MlirValue y);
MlirValue moe__ne(moe__builder_t *b, MlirValue x, MlirValue y);
MlirValue moe__ult(moe__builder_t *b, MlirValue x, MlirValue y);
MlirValue moe__ule(moe__builder_t *b, MlirValue x, MlirValue y);
MlirValue moe__slt(moe__builder_t *b, MlirValue x, MlirValue y);
MlirValue moe__select(moe__builder_t *b, MlirValue condition, MlirValue x, MlirValue y);

/* Conversions. */
MlirValue moe__bitcast(moe__builder_t *b, MlirValue x, MlirType to);
MlirValue moe__zext(moe__builder_t *b, MlirValue x, MlirType to);
MlirValue moe__trunc(moe__builder_t *b, MlirValue x, MlirType to);
/* The i64 product of two i32 that are not negative. */
MlirValue moe__wide_mul(moe__builder_t *b, MlirValue x, MlirValue y);

/* The same i32, made where this stands: what is computed from it is not moved out of a loop,
 * where it would take registers. */
MlirValue moe__fresh(moe__builder_t *b, MlirValue x);

/* Vectors of `count` elements. */
MlirType moe__vector_type(moe__builder_t *b, int count, MlirType element);
MlirValue moe__vector(moe__builder_t *b, intptr_t count, const MlirValue *elements);
MlirValue moe__extract(moe__builder_t *b, MlirValue vector, int index);

/* ---- Integers as operands ----
 *
 * A plain integer may stand for an operand of these functions: moe__add(b, x, 4). It is a
 * constant of the type of the operand on its left; on the left side itself it is an i32. */

/* The i32 constant of an integer; a value stays as it is. */
#define MOE__I32(b, x) _Generic((x), MlirValue : moe__same, default : moe__i32)((b), (x))
MlirValue moe__same(moe__builder_t *b, MlirValue x);

#define MOE__OR_INTEGER(function, b, x, y)                                                         \
  _Generic((y), MlirValue : function, default : function##_integer)((b), MOE__I32((b), (x)), (y))
MlirValue moe__add_integer(moe__builder_t *b, MlirValue x, int64_t y);
MlirValue moe__sub_integer(moe__builder_t *b, MlirValue x, int64_t y);
MlirValue moe__mul_integer(moe__builder_t *b, MlirValue x, int64_t y);
MlirValue moe__udiv_integer(moe__builder_t *b, MlirValue x, int64_t y);
MlirValue moe__urem_integer(moe__builder_t *b, MlirValue x, int64_t y);
MlirValue moe__umin_integer(moe__builder_t *b, MlirValue x, int64_t y);
MlirValue moe__umax_integer(moe__builder_t *b, MlirValue x, int64_t y);
MlirValue moe__smin_integer(moe__builder_t *b, MlirValue x, int64_t y);
MlirValue moe__smax_integer(moe__builder_t *b, MlirValue x, int64_t y);
MlirValue moe__and_integer(moe__builder_t *b, MlirValue x, int64_t y);
MlirValue moe__or_integer(moe__builder_t *b, MlirValue x, int64_t y);
MlirValue moe__xor_integer(moe__builder_t *b, MlirValue x, int64_t y);
MlirValue moe__eq_integer(moe__builder_t *b, MlirValue x, int64_t y);
MlirValue moe__ne_integer(moe__builder_t *b, MlirValue x, int64_t y);
MlirValue moe__ult_integer(moe__builder_t *b, MlirValue x, int64_t y);
MlirValue moe__ule_integer(moe__builder_t *b, MlirValue x, int64_t y);
MlirValue moe__slt_integer(moe__builder_t *b, MlirValue x, int64_t y);
#define moe__add(b, x, y) MOE__OR_INTEGER(moe__add, b, x, y)
#define moe__sub(b, x, y) MOE__OR_INTEGER(moe__sub, b, x, y)
#define moe__mul(b, x, y) MOE__OR_INTEGER(moe__mul, b, x, y)
#define moe__udiv(b, x, y) MOE__OR_INTEGER(moe__udiv, b, x, y)
#define moe__urem(b, x, y) MOE__OR_INTEGER(moe__urem, b, x, y)
#define moe__umin(b, x, y) MOE__OR_INTEGER(moe__umin, b, x, y)
#define moe__umax(b, x, y) MOE__OR_INTEGER(moe__umax, b, x, y)
#define moe__smin(b, x, y) MOE__OR_INTEGER(moe__smin, b, x, y)
#define moe__smax(b, x, y) MOE__OR_INTEGER(moe__smax, b, x, y)
#define moe__and(b, x, y) MOE__OR_INTEGER(moe__and, b, x, y)
#define moe__or(b, x, y) MOE__OR_INTEGER(moe__or, b, x, y)
#define moe__xor(b, x, y) MOE__OR_INTEGER(moe__xor, b, x, y)
#define moe__eq(b, x, y) MOE__OR_INTEGER(moe__eq, b, x, y)
#define moe__ne(b, x, y) MOE__OR_INTEGER(moe__ne, b, x, y)
#define moe__ult(b, x, y) MOE__OR_INTEGER(moe__ult, b, x, y)
#define moe__ule(b, x, y) MOE__OR_INTEGER(moe__ule, b, x, y)
#define moe__slt(b, x, y) MOE__OR_INTEGER(moe__slt, b, x, y)
#define moe__select(b, condition, x, y)                                                            \
  moe__select((b), (condition), MOE__I32((b), (x)), MOE__I32((b), (y)))

/* ---- Memory ---- */

/* pointer + offset bytes; the offset is an i32 or i64 value, or a constant. */
MlirValue moe__offset(moe__builder_t *b, MlirValue pointer, MlirValue bytes);
MlirValue moe__offset_by(moe__builder_t *b, MlirValue pointer, int32_t bytes);
MlirValue moe__load(moe__builder_t *b, MlirValue pointer, MlirType type);
void moe__store(moe__builder_t *b, MlirValue value, MlirValue pointer);

/* The same for a pointer that is aligned to more or less than the type: vectors of several bytes.
 */
MlirValue moe__load_aligned(moe__builder_t *b, MlirValue pointer, MlirType type, int alignment);
void moe__store_aligned(moe__builder_t *b, MlirValue value, MlirValue pointer, int alignment);

/* Atomics on an i32 or i64 of global memory, as all CTAs of the device see it; they give the
 * old value. Relaxed: nothing else is ordered. Acquire-release: what this thread did before is
 * visible to those that see the new value, and what others did before they wrote the old one is
 * visible here. */
typedef enum moe__order_t { MOE__RELAXED, MOE__ACQUIRE_RELEASE } moe__order_t;

MlirValue moe__atomic_add(moe__builder_t *b, MlirValue pointer, MlirValue value,
                          moe__order_t order);
MlirValue moe__atomic_umax(moe__builder_t *b, MlirValue pointer, MlirValue value,
                           moe__order_t order);
MlirValue moe__atomic_or(moe__builder_t *b, MlirValue pointer, MlirValue value, moe__order_t order);
MlirValue moe__atomic_exchange(moe__builder_t *b, MlirValue pointer, MlirValue value,
                               moe__order_t order);

/* Adds to an i32 of global memory. Who sees the sum, and has a fence behind that, sees what this
 * thread did before. Unlike an acquire-release atomic it leaves L1 as it is. */
void moe__release_add(moe__builder_t *b, MlirValue pointer, MlirValue value);

/* Orders this thread's accesses to memory before it and behind it, for all of the device. A CTA
 * hands on what all its threads wrote by a barrier, then an acquire-release atomic or a fence and a
 * relaxed one, of one thread. */
void moe__fence_device(moe__builder_t *b);

/* ---- Structured control flow ----
 *
 * The braces behind these macros are those of the op's region:
 *
 *   MOE__FOR(b, row, 0, rows, 1, &sum) {
 *     sum = moe__add(b, sum, row);
 *   }
 *
 * Variables that are carried are given by address. Inside the braces they are the values of this
 * iteration, and what they are at the closing brace is carried on; behind it they are the final
 * ones. Bounds, as operands, may be plain integers. An address that is NULL is passed over.
 *
 * `continue` is a jump to the closing brace. To leave the braces by break, return or goto is a
 * bug: the function aborts. */

#define MOE__MAX_CARRIED 40

/* for (index = lower; index < upper; index += step), with the addresses of the carried
 * variables. */
#define MOE__FOR(b, index, lower, upper, step, ...)                                                \
  MOE__FOR_SCOPE(index, moe__for_open((b), MOE__I32((b), (lower)), MOE__I32((b), (upper)),         \
                                      MOE__I32((b), (step)), MOE__CARRIED(__VA_ARGS__)))

/* The same where `loops` is set. Else the braces are reached once at most, with `lower`, if it is
 * below `upper`: what takes one piece of work and ends. Variables are carried where it loops;
 * behind the braces they have no value. */
#define MOE__FOR_OR_ONCE(b, loops, index, lower, upper, step, ...)                                 \
  MOE__FOR_SCOPE(index, moe__for_or_once_open((b), (loops), (lower), (upper), (step),              \
                                              MOE__CARRIED(__VA_ARGS__)))

/* while (condition) with carried variables. The expression `condition` is built
 * where the loop tests, from the variables as they are carried. */
#define MOE__WHILE(b, condition, ...)                                                              \
  MOE__SCOPE(moe__while_open((b), MOE__CARRIED(__VA_ARGS__)),                                      \
             (moe__while_test(&moe__scope, (condition)), true))

/* if (condition) { ... } MOE__ELSE(b) { ... }, the latter where it is needed. Where the
 * condition is null, there is no branch, and the braces are always reached. */
#define MOE__IF(b, condition) MOE__SCOPE(moe__if_open((b), (condition)), true)
#define MOE__ELSE(b) MOE__SCOPE(moe__else_open((b)), true)

/* What the macros are made of. */
typedef struct moe__scope_t {
  moe__builder_t *b;
  MlirOperation op; /* null where there is no branch */
  MlirBlock outer, body;
  MlirValue index;
  int count;
  MlirValue *carried[MOE__MAX_CARRIED];
  enum { MOE__NOT_ENTERED, MOE__OPEN, MOE__CLOSED } state;
} moe__scope_t;

/* `carried` begins with NULL, and has `count` addresses behind it. */
moe__scope_t moe__for_open(moe__builder_t *b, MlirValue lower, MlirValue upper, MlirValue step,
                           int count, MlirValue *const *carried);
moe__scope_t moe__for_or_once_open(moe__builder_t *b, bool loops, MlirValue lower, MlirValue upper,
                                   MlirValue step, int count, MlirValue *const *carried);
moe__scope_t moe__while_open(moe__builder_t *b, int count, MlirValue *const *carried);
void moe__while_test(moe__scope_t *scope, MlirValue condition);
moe__scope_t moe__if_open(moe__builder_t *b, MlirValue condition);
moe__scope_t moe__else_open(moe__builder_t *b);
/* True once. */
bool moe__scope_enter(moe__scope_t *scope);
void moe__scope_close(moe__scope_t *scope);
/* Aborts where the scope is open still. */
void moe__scope_check(moe__scope_t *scope);

#define MOE__CARRIED(...)                                                                          \
  (int)(sizeof((MlirValue *const[]){NULL, __VA_ARGS__}) / sizeof(MlirValue *)) - 1,                \
      (MlirValue *const[]) {                                                                       \
    NULL, __VA_ARGS__                                                                              \
  }
#define MOE__SCOPE(open, tested)                                                                   \
  for (moe__scope_t moe__scope __attribute__((cleanup(moe__scope_check))) = open;                  \
       moe__scope_enter(&moe__scope) && tested; moe__scope_close(&moe__scope))
#define MOE__FOR_SCOPE(index_name, open)                                                           \
  for (moe__scope_t moe__scope __attribute__((cleanup(moe__scope_check))) = open;                  \
       moe__scope.state == MOE__NOT_ENTERED; moe__scope_check(&moe__scope))                        \
    for (MlirValue index_name __attribute__((unused)) = moe__scope.index;                          \
         moe__scope_enter(&moe__scope); moe__scope_close(&moe__scope))

#endif /* MOE_BUILDER_BUILDER_H */
