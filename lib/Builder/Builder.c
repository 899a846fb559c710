/* Builder.c - see Builder.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Builder/Builder.h"

#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/BuiltinTypes.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static MlirStringRef string_ref(const char *text) {
  return mlirStringRefCreateFromCString(text);
}

static void fail(const char *what, const char *detail) {
  fprintf(stderr, "moe: internal error: %s: %s\n", what, detail);
  abort();
}

MlirType moe__type(moe__builder_t *b, const char *text) {
  MlirType type = mlirTypeParseGet(b->context, string_ref(text));
  if (mlirTypeIsNull(type))
    fail("malformed type", text);
  return type;
}

MlirAttribute moe__attribute(MlirContext context, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  char *text = NULL;
  if (vasprintf(&text, format, arguments) < 0)
    fail("out of memory", format);
  va_end(arguments);
  MlirAttribute attribute = mlirAttributeParseGet(context, string_ref(text));
  if (mlirAttributeIsNull(attribute))
    fail("malformed attribute", text);
  free(text);
  return attribute;
}

moe__builder_t moe__builder_create(MlirContext context, MlirLocation location) {
  moe__builder_t b = {.context = context, .location = location};
  b.i1 = mlirIntegerTypeGet(context, 1);
  b.i8 = mlirIntegerTypeGet(context, 8);
  b.i16 = mlirIntegerTypeGet(context, 16);
  b.i32 = mlirIntegerTypeGet(context, 32);
  b.i64 = mlirIntegerTypeGet(context, 64);
  b.f32 = mlirF32TypeGet(context);
  b.ptr = moe__type(&b, "!llvm.ptr");
  b.global_ptr = moe__type(&b, "!llvm.ptr<1>");
  b.shared_ptr = moe__type(&b, "!llvm.ptr<3>");
  b.cluster_ptr = moe__type(&b, "!llvm.ptr<7>");
  return b;
}

moe__builder_t moe__builder_before(MlirOperation op) {
  moe__builder_t b = moe__builder_create(mlirOperationGetContext(op), mlirOperationGetLocation(op));
  b.block = mlirOperationGetBlock(op);
  b.before = op;
  return b;
}

/* ---- Any op ---- */

static MlirOperation create(moe__builder_t *b, MlirOperationState *state, const char *name) {
  MlirOperation op = mlirOperationCreate(state);
  if (mlirOperationIsNull(op))
    fail("cannot create op", name);
  b->closed = (MlirOperation){NULL};
  if (mlirOperationIsNull(b->before))
    mlirBlockAppendOwnedOperation(b->block, op);
  else
    mlirBlockInsertOwnedOperationBefore(b->block, b->before, op);
  return op;
}

static void add_attribute(moe__builder_t *b, MlirOperationState *state, const char *name,
                          MlirAttribute value) {
  MlirNamedAttribute named =
      mlirNamedAttributeGet(mlirIdentifierGet(b->context, string_ref(name)), value);
  mlirOperationStateAddAttributes(state, 1, &named);
}

MlirOperation moe__op(moe__builder_t *b, const char *name, intptr_t result_count,
                      const MlirType *results, intptr_t operand_count, const MlirValue *operands,
                      const char *attributes, intptr_t region_count, MlirRegion *regions) {
  MlirOperationState state = mlirOperationStateGet(string_ref(name), b->location);
  mlirOperationStateAddResults(&state, result_count, results);
  mlirOperationStateAddOperands(&state, operand_count, operands);
  mlirOperationStateAddOwnedRegions(&state, region_count, regions);
  if (attributes) {
    MlirAttribute dictionary = moe__attribute(b->context, "{%s}", attributes);
    for (intptr_t i = 0; i < mlirDictionaryAttrGetNumElements(dictionary); i++) {
      MlirNamedAttribute named = mlirDictionaryAttrGetElement(dictionary, i);
      mlirOperationStateAddAttributes(&state, 1, &named);
    }
  }
  return create(b, &state, name);
}

MlirValue moe__op1(moe__builder_t *b, const char *name, MlirType result, intptr_t operand_count,
                   const MlirValue *operands, const char *attributes) {
  return mlirOperationGetResult(
      moe__op(b, name, 1, &result, operand_count, operands, attributes, 0, NULL), 0);
}

void moe__op0(moe__builder_t *b, const char *name, intptr_t operand_count,
              const MlirValue *operands, const char *attributes) {
  moe__op(b, name, 0, NULL, operand_count, operands, attributes, 0, NULL);
}

/* ---- Constants and arithmetic ---- */

static MlirValue constant(moe__builder_t *b, MlirType type, MlirAttribute value) {
  MlirOperationState state = mlirOperationStateGet(string_ref("arith.constant"), b->location);
  mlirOperationStateAddResults(&state, 1, &type);
  add_attribute(b, &state, "value", value);
  return mlirOperationGetResult(create(b, &state, "arith.constant"), 0);
}

MlirValue moe__i32(moe__builder_t *b, int32_t value) {
  return constant(b, b->i32, mlirIntegerAttrGet(b->i32, value));
}

MlirValue moe__i64(moe__builder_t *b, int64_t value) {
  return constant(b, b->i64, mlirIntegerAttrGet(b->i64, value));
}

MlirValue moe__f32(moe__builder_t *b, float value) {
  return constant(b, b->f32, mlirFloatAttrDoubleGet(b->context, b->f32, value));
}

MlirValue moe__index(moe__builder_t *b, int64_t value) {
  MlirType type = mlirIndexTypeGet(b->context);
  return constant(b, type, mlirIntegerAttrGet(type, value));
}

static MlirValue binary(moe__builder_t *b, const char *name, MlirValue x, MlirValue y) {
  return moe__op1(b, name, mlirValueGetType(x), MOE__VALUES(x, y), NULL);
}

/* A constant of the type of x. */
static MlirValue constant_like(moe__builder_t *b, MlirValue x, int64_t value) {
  MlirType type = mlirValueGetType(x);
  if (mlirTypeEqual(type, b->i32))
    value = (int32_t)value;
  return constant(b, type, mlirIntegerAttrGet(type, value));
}

MlirValue moe__same(moe__builder_t *b, MlirValue x) {
  (void)b;
  return x;
}

/* In parentheses, since macros of the same names take integers. */
#define MOE__BINARY(function, name)                                                                \
  MlirValue(function)(moe__builder_t * b, MlirValue x, MlirValue y) {                              \
    return binary(b, name, x, y);                                                                  \
  }                                                                                                \
  MlirValue function##_integer(moe__builder_t *b, MlirValue x, int64_t y) {                        \
    return binary(b, name, x, constant_like(b, x, y));                                             \
  }
MOE__BINARY(moe__add, "arith.addi")
MOE__BINARY(moe__sub, "arith.subi")
MOE__BINARY(moe__mul, "arith.muli")
MOE__BINARY(moe__udiv, "arith.divui")
MOE__BINARY(moe__urem, "arith.remui")
MOE__BINARY(moe__umin, "arith.minui")
MOE__BINARY(moe__umax, "arith.maxui")
MOE__BINARY(moe__smin, "arith.minsi")
MOE__BINARY(moe__smax, "arith.maxsi")
MOE__BINARY(moe__and, "arith.andi")
MOE__BINARY(moe__or, "arith.ori")
MOE__BINARY(moe__xor, "arith.xori")
#undef MOE__BINARY

MlirValue moe__fmul(moe__builder_t *b, MlirValue x, MlirValue y) {
  return binary(b, "arith.mulf", x, y);
}

MlirValue moe__fadd(moe__builder_t *b, MlirValue x, MlirValue y) {
  return binary(b, "arith.addf", x, y);
}

MlirValue moe__fma(moe__builder_t *b, MlirValue x, MlirValue y, MlirValue z) {
  return moe__op1(b, "llvm.intr.fma", mlirValueGetType(x), MOE__VALUES(x, y, z), NULL);
}

MlirValue moe__fdiv(moe__builder_t *b, MlirValue x, MlirValue y) {
  return binary(b, "arith.divf", x, y);
}

MlirValue moe__shl(moe__builder_t *b, MlirValue x, int bits) {
  return binary(b, "arith.shli", x, constant_like(b, x, bits));
}

MlirValue moe__lshr(moe__builder_t *b, MlirValue x, int bits) {
  return binary(b, "arith.shrui", x, constant_like(b, x, bits));
}

MlirValue moe__rotate_left(moe__builder_t *b, MlirValue x, int bits) {
  return moe__op1(b, "llvm.intr.fshl", mlirValueGetType(x),
                  MOE__VALUES(x, x, constant_like(b, x, bits)), NULL);
}

MlirValue moe__ceil_div(moe__builder_t *b, MlirValue x, int32_t divisor) {
  return binary(b, "arith.divui", moe__add(b, x, constant_like(b, x, divisor - 1)),
                constant_like(b, x, divisor));
}

static MlirValue compare(moe__builder_t *b, int predicate, MlirValue x, MlirValue y) {
  char attributes[48];
  snprintf(attributes, sizeof attributes, "predicate = %d : i64", predicate);
  return moe__op1(b, "arith.cmpi", b->i1, MOE__VALUES(x, y), attributes);
}

/* With the numbers of arith.cmpi's predicates. */
#define MOE__COMPARISON(function, predicate)                                                       \
  MlirValue(function)(moe__builder_t * b, MlirValue x, MlirValue y) {                              \
    return compare(b, predicate, x, y);                                                            \
  }                                                                                                \
  MlirValue function##_integer(moe__builder_t *b, MlirValue x, int64_t y) {                        \
    return compare(b, predicate, x, constant_like(b, x, y));                                       \
  }
MOE__COMPARISON(moe__eq, 0)
MOE__COMPARISON(moe__ne, 1)
MOE__COMPARISON(moe__slt, 2)
MOE__COMPARISON(moe__ult, 6)
MOE__COMPARISON(moe__ule, 7)
#undef MOE__COMPARISON

MlirValue(moe__select)(moe__builder_t *b, MlirValue condition, MlirValue x, MlirValue y) {
  return moe__op1(b, "arith.select", mlirValueGetType(x), MOE__VALUES(condition, x, y), NULL);
}

MlirValue moe__bitcast(moe__builder_t *b, MlirValue x, MlirType to) {
  return moe__op1(b, "llvm.bitcast", to, MOE__VALUES(x), NULL);
}

MlirValue moe__zext(moe__builder_t *b, MlirValue x, MlirType to) {
  return moe__op1(b, "arith.extui", to, MOE__VALUES(x), NULL);
}

MlirValue moe__trunc(moe__builder_t *b, MlirValue x, MlirType to) {
  return moe__op1(b, "arith.trunci", to, MOE__VALUES(x), NULL);
}

MlirValue moe__wide_mul(moe__builder_t *b, MlirValue x, MlirValue y) {
  return moe__mul(b, moe__zext(b, x, b->i64), moe__zext(b, y, b->i64));
}

MlirValue moe__fresh(moe__builder_t *b, MlirValue x) {
  return moe__op1(b, "llvm.inline_asm", b->i32, MOE__VALUES(x),
                  "has_side_effects, asm_dialect = 0 : i64, asm_string = \"\", "
                  "constraints = \"=r,0\"");
}

MlirType moe__vector_type(moe__builder_t *b, int count, MlirType element) {
  (void)b;
  int64_t shape = count;
  return mlirVectorTypeGet(1, &shape, element);
}

MlirValue moe__vector(moe__builder_t *b, intptr_t count, const MlirValue *elements) {
  MlirType type = moe__vector_type(b, (int)count, mlirValueGetType(elements[0]));
  MlirValue vector = moe__op1(b, "llvm.mlir.undef", type, MOE__NO_VALUES, NULL);
  for (intptr_t i = 0; i < count; i++)
    vector = moe__op1(b, "llvm.insertelement", type,
                      MOE__VALUES(vector, elements[i], moe__i32(b, (int32_t)i)), NULL);
  return vector;
}

MlirValue moe__extract(moe__builder_t *b, MlirValue vector, int index) {
  return moe__op1(b, "llvm.extractelement", mlirShapedTypeGetElementType(mlirValueGetType(vector)),
                  MOE__VALUES(vector, moe__i32(b, index)), NULL);
}

/* ---- Memory ---- */

MlirValue moe__offset(moe__builder_t *b, MlirValue pointer, MlirValue bytes) {
  /* -2147483648 marks the index as an operand. */
  return moe__op1(b, "llvm.getelementptr", mlirValueGetType(pointer), MOE__VALUES(pointer, bytes),
                  "rawConstantIndices = array<i32: -2147483648>, elem_type = i8");
}

MlirValue moe__offset_by(moe__builder_t *b, MlirValue pointer, int32_t bytes) {
  if (bytes == 0)
    return pointer;
  char attributes[80];
  snprintf(attributes, sizeof attributes, "rawConstantIndices = array<i32: %d>, elem_type = i8",
           bytes);
  return moe__op1(b, "llvm.getelementptr", mlirValueGetType(pointer), MOE__VALUES(pointer),
                  attributes);
}

MlirValue moe__load(moe__builder_t *b, MlirValue pointer, MlirType type) {
  return moe__op1(b, "llvm.load", type, MOE__VALUES(pointer), NULL);
}

void moe__store(moe__builder_t *b, MlirValue value, MlirValue pointer) {
  moe__op0(b, "llvm.store", MOE__VALUES(value, pointer), NULL);
}

static const char *alignment_attribute(int alignment, char text[40]) {
  snprintf(text, 40, "alignment = %d : i64", alignment);
  return text;
}

MlirValue moe__load_aligned(moe__builder_t *b, MlirValue pointer, MlirType type, int alignment) {
  char text[40];
  return moe__op1(b, "llvm.load", type, MOE__VALUES(pointer), alignment_attribute(alignment, text));
}

void moe__store_aligned(moe__builder_t *b, MlirValue value, MlirValue pointer, int alignment) {
  char text[40];
  moe__op0(b, "llvm.store", MOE__VALUES(value, pointer), alignment_attribute(alignment, text));
}

/* The numbers of atomicrmw's operations and of its orderings. */
enum {
  ATOMIC_EXCHANGE = 0,
  ATOMIC_ADD = 1,
  ATOMIC_OR = 5,
  ATOMIC_UMAX = 9,
  MONOTONIC = 2,
  ACQ_REL = 6
};

void moe__fence_device(moe__builder_t *b) {
  moe__op0(b, "llvm.fence", MOE__NO_VALUES, "ordering = 6 : i64, syncscope = \"device\"");
}

/* LLVM 22 drops the ordering of an atomicrmw when it writes PTX: fences keep it. Without a scope an
 * atom is the device's. */
static MlirValue atomic(moe__builder_t *b, int operation, MlirValue pointer, MlirValue value,
                        moe__order_t order) {
  char attributes[80];
  bool is_ordered = order == MOE__ACQUIRE_RELEASE;
  snprintf(attributes, sizeof attributes,
           "bin_op = %d : i64, ordering = %d : i64, syncscope = \"device\"", operation,
           is_ordered ? ACQ_REL : MONOTONIC);
  if (is_ordered)
    moe__fence_device(b);
  MlirValue old = moe__op1(b, "llvm.atomicrmw", mlirValueGetType(value),
                           MOE__VALUES(pointer, value), attributes);
  if (is_ordered)
    moe__fence_device(b);
  return old;
}

void moe__release_add(moe__builder_t *b, MlirValue pointer, MlirValue value) {
  moe__op0(b, "llvm.inline_asm", MOE__VALUES(pointer, value),
           "asm_dialect = 0 : i64, has_side_effects, asm_string = "
           "\"red.release.gpu.global.add.u32 [$0], $1;\", constraints = \"l,r,~{memory}\"");
}

MlirValue moe__atomic_add(moe__builder_t *b, MlirValue pointer, MlirValue value,
                          moe__order_t order) {
  return atomic(b, ATOMIC_ADD, pointer, value, order);
}

MlirValue moe__atomic_umax(moe__builder_t *b, MlirValue pointer, MlirValue value,
                           moe__order_t order) {
  return atomic(b, ATOMIC_UMAX, pointer, value, order);
}

MlirValue moe__atomic_or(moe__builder_t *b, MlirValue pointer, MlirValue value,
                         moe__order_t order) {
  return atomic(b, ATOMIC_OR, pointer, value, order);
}

MlirValue moe__atomic_exchange(moe__builder_t *b, MlirValue pointer, MlirValue value,
                               moe__order_t order) {
  return atomic(b, ATOMIC_EXCHANGE, pointer, value, order);
}

/* ---- Structured control flow ---- */

static moe__scope_t new_scope(moe__builder_t *b, int count, MlirValue *const *carried) {
  moe__scope_t scope = {.b = b, .outer = b->block};
  for (int i = 1; i <= count; i++) {
    if (!carried[i])
      continue;
    if (scope.count == MOE__MAX_CARRIED)
      fail("too many carried values", "a loop");
    scope.carried[scope.count++] = carried[i];
  }
  return scope;
}

/* The carried variables become the arguments of the block from number `first` on. */
static void take_arguments(moe__scope_t *scope, MlirBlock block, int first) {
  for (int i = 0; i < scope->count; i++)
    *scope->carried[i] = mlirBlockGetArgument(block, first + i);
}

/* A block with an argument for each carried variable, behind the loop's index if there is one. */
static MlirBlock loop_block(moe__scope_t *scope, MlirRegion region, const MlirType *index_type) {
  MlirType types[1 + MOE__MAX_CARRIED];
  MlirLocation locations[1 + MOE__MAX_CARRIED];
  int first = index_type ? 1 : 0;
  if (index_type)
    types[0] = *index_type;
  for (int i = 0; i < scope->count; i++)
    types[first + i] = mlirValueGetType(*scope->carried[i]);
  for (int i = 0; i < first + scope->count; i++)
    locations[i] = scope->b->location;
  MlirBlock block = mlirBlockCreate(first + scope->count, types, locations);
  mlirRegionAppendOwnedBlock(region, block);
  return block;
}

/* Creates the loop, which starts with the operands and then the carried variables. */
static void create_loop(moe__scope_t *scope, const char *name, int count, const MlirValue *operands,
                        int region_count, MlirRegion *regions) {
  MlirValue all[3 + MOE__MAX_CARRIED];
  MlirType types[MOE__MAX_CARRIED];
  for (int i = 0; i < count; i++)
    all[i] = operands[i];
  for (int i = 0; i < scope->count; i++) {
    all[count + i] = *scope->carried[i];
    types[i] = mlirValueGetType(*scope->carried[i]);
  }
  scope->op = moe__op(scope->b, name, scope->count, types, count + scope->count, all, NULL,
                      region_count, regions);
}

moe__scope_t moe__for_open(moe__builder_t *b, MlirValue lower, MlirValue upper, MlirValue step,
                           int count, MlirValue *const *carried) {
  moe__scope_t scope = new_scope(b, count, carried);
  MlirRegion region = mlirRegionCreate();
  MlirType index_type = mlirValueGetType(lower);
  scope.body = loop_block(&scope, region, &index_type);
  create_loop(&scope, "scf.for", 3, (MlirValue[]){lower, upper, step}, 1, &region);
  b->block = scope.body;
  scope.index = mlirBlockGetArgument(scope.body, 0);
  take_arguments(&scope, scope.body, 1);
  return scope;
}

moe__scope_t moe__while_open(moe__builder_t *b, int count, MlirValue *const *carried) {
  moe__scope_t scope = new_scope(b, count, carried);
  MlirRegion regions[] = {mlirRegionCreate(), mlirRegionCreate()};
  MlirBlock test = loop_block(&scope, regions[0], NULL);
  scope.body = loop_block(&scope, regions[1], NULL);
  create_loop(&scope, "scf.while", 0, NULL, 2, regions);
  b->block = test;
  take_arguments(&scope, test, 0);
  return scope;
}

void moe__while_test(moe__scope_t *scope, MlirValue condition) {
  MlirValue operands[1 + MOE__MAX_CARRIED] = {condition};
  for (int i = 0; i < scope->count; i++)
    operands[1 + i] = *scope->carried[i];
  moe__op0(scope->b, "scf.condition", 1 + scope->count, operands, NULL);
  scope->b->block = scope->body;
  take_arguments(scope, scope->body, 0);
}

moe__scope_t moe__if_open(moe__builder_t *b, MlirValue condition) {
  moe__scope_t scope = new_scope(b, 0, NULL);
  if (mlirValueIsNull(condition))
    return scope;
  MlirRegion regions[] = {mlirRegionCreate(), mlirRegionCreate()};
  scope.body = mlirBlockCreate(0, NULL, NULL);
  mlirRegionAppendOwnedBlock(regions[0], scope.body);
  scope.op = moe__op(b, "scf.if", 0, NULL, MOE__VALUES(condition), NULL, 2, regions);
  b->block = scope.body;
  return scope;
}

moe__scope_t moe__for_or_once_open(moe__builder_t *b, bool loops, MlirValue lower, MlirValue upper,
                                   MlirValue step, int count, MlirValue *const *carried) {
  if (loops)
    return moe__for_open(b, lower, upper, step, count, carried);
  moe__scope_t scope = moe__if_open(b, moe__ult(b, lower, upper));
  scope.index = lower;
  return scope;
}

moe__scope_t moe__else_open(moe__builder_t *b) {
  moe__scope_t scope = new_scope(b, 0, NULL);
  if (mlirOperationIsNull(b->closed))
    fail("no branch stands right before this", "MOE__ELSE");
  scope.op = b->closed;
  scope.body = mlirBlockCreate(0, NULL, NULL);
  mlirRegionAppendOwnedBlock(mlirOperationGetRegion(scope.op, 1), scope.body);
  b->block = scope.body;
  return scope;
}

bool moe__scope_enter(moe__scope_t *scope) {
  bool enters = scope->state == MOE__NOT_ENTERED;
  if (enters)
    scope->state = MOE__OPEN;
  return enters;
}

void moe__scope_close(moe__scope_t *scope) {
  scope->state = MOE__CLOSED;
  if (mlirOperationIsNull(scope->op))
    return;
  MlirValue next[MOE__MAX_CARRIED];
  for (int i = 0; i < scope->count; i++)
    next[i] = *scope->carried[i];
  moe__op0(scope->b, "scf.yield", scope->count, next, NULL);
  scope->b->block = scope->outer;
  for (int i = 0; i < scope->count; i++)
    *scope->carried[i] = mlirOperationGetResult(scope->op, i);
  bool has_else = mlirOperationGetNumRegions(scope->op) == 2 &&
                  !mlirBlockIsNull(mlirRegionGetFirstBlock(mlirOperationGetRegion(scope->op, 1)));
  scope->b->closed = has_else ? (MlirOperation){NULL} : scope->op;
}

void moe__scope_check(moe__scope_t *scope) {
  if (scope->state == MOE__OPEN)
    fail("a scope was left by break, return or goto", "MOE__FOR, MOE__WHILE, MOE__IF");
}
