/* Builder.h - builds kernel bodies op by op: the scf, arith, llvm and nvvm dialects under short
 * names.
 *
 * Why it exists: a lowering should read like its algorithm. MLIR's C API takes a page to create one
 * op; these functions take a line. They know nothing of any kernel; idioms made of several ops live
 * in lib/Kernel.
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
  MlirType i1, i8, i16, i32, i64, f32;
  MlirType ptr, global_ptr, shared_ptr, cluster_ptr; /* !llvm.ptr of address space 0, 1, 3, 7 */
} moe__builder_t;

moe__builder_t moe__builder_create(MlirContext context, MlirLocation location);

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
/* Rounds up; x + divisor must not overflow, as it cannot for a dimension below 2^31. */
MlirValue moe__ceil_div(moe__builder_t *b, MlirValue x, int32_t divisor);
MlirValue moe__fmul(moe__builder_t *b, MlirValue x, MlirValue y);
MlirValue moe__fadd(moe__builder_t *b, MlirValue x, MlirValue y);
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

/* The same i32, made where this stands: what is computed from it is not moved out of a loop, where it
 * would take registers. */
MlirValue moe__fresh(moe__builder_t *b, MlirValue x);

/* Vectors of `count` elements. */
MlirType moe__vector_type(moe__builder_t *b, int count, MlirType element);
MlirValue moe__vector(moe__builder_t *b, intptr_t count, const MlirValue *elements);
MlirValue moe__extract(moe__builder_t *b, MlirValue vector, int index);

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

/* Atomics on an i32 or i64 of global memory, as all blocks of the device see it; they give the old
 * value. Relaxed: nothing else is ordered. Acquire-release: what this thread did before is visible to
 * those that see the new value, and what others did before they wrote the old one is visible here. */
typedef enum moe__order_t { MOE__RELAXED, MOE__ACQUIRE_RELEASE } moe__order_t;

MlirValue moe__atomic_add(moe__builder_t *b, MlirValue pointer, MlirValue value,
                          moe__order_t order);
MlirValue moe__atomic_umax(moe__builder_t *b, MlirValue pointer, MlirValue value,
                           moe__order_t order);
MlirValue moe__atomic_or(moe__builder_t *b, MlirValue pointer, MlirValue value, moe__order_t order);
MlirValue moe__atomic_exchange(moe__builder_t *b, MlirValue pointer, MlirValue value,
                               moe__order_t order);

/* Orders this thread's accesses to memory before it and behind it, for all of the device. A block
 * hands on what all its threads wrote by a barrier, then an acquire-release atomic or a fence and a
 * relaxed one, of one thread. */
void moe__fence_device(moe__builder_t *b);

/* ---- Structured control flow ---- */

#define MOE__MAX_CARRIED 8

/* for (index = lower; index < upper; index += step) with `carried` values. Between begin and end,
 * `carried` are the values of this iteration; after end they are the final ones. */
typedef struct moe__for_t {
  MlirOperation op;
  MlirBlock outer;
  MlirValue index;
  intptr_t carried_count;
  MlirValue carried[MOE__MAX_CARRIED];
} moe__for_t;

moe__for_t moe__for_begin(moe__builder_t *b, MlirValue lower, MlirValue upper, MlirValue step,
                          intptr_t carried_count, const MlirValue *carried);
void moe__for_end(moe__builder_t *b, moe__for_t *loop, const MlirValue *next);

/* if (condition) { ... } else { ... }; call moe__else only when created with an else. */
typedef struct moe__if_t {
  MlirBlock outer, otherwise;
} moe__if_t;

moe__if_t moe__if_begin(moe__builder_t *b, MlirValue condition, bool with_else);
void moe__else(moe__builder_t *b, moe__if_t *branch);
void moe__if_end(moe__builder_t *b, moe__if_t *branch);

#endif /* MOE_BUILDER_BUILDER_H */
