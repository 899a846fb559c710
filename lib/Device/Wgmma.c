/* Wgmma.c - see Wgmma.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Device/Wgmma.h"

#include <stdio.h>
#include <stdlib.h>

#define K_BYTES 32 /* of one instruction */
#define TILE_K_BYTES 128
#define SWIZZLE_128B (INT64_C(1) << 62)
#define STRIDE_8_ROWS ((INT64_C(1024) >> 4) << 32) /* distance of two groups of 8 rows */
#define LEADING_IGNORED                                                                            \
  (INT64_C(1)                                                                                      \
   << 16) /* not used by swizzled K-major tiles; 1 by convention                        \
                      */

static MlirType accumulator_type(moe__builder_t *b, int n) {
  char *text = NULL;
  size_t length = 0;
  FILE *out = open_memstream(&text, &length);
  if (!out)
    abort();
  fputs("!llvm.struct<(", out);
  for (int i = 0; i < n / 2; i++)
    fputs(i ? ", f32" : "f32", out);
  fputs(")>", out);
  fclose(out);
  MlirType type = moe__type(b, text);
  free(text);
  return type;
}

moe__accumulator_t moe__wgmma_zero(moe__builder_t *b, int n) {
  return (moe__accumulator_t){
      n, moe__op1(b, "llvm.mlir.zero", accumulator_type(b, n), MOE__NO_VALUES, NULL)};
}

MlirValue moe__wgmma_descriptor(moe__builder_t *b, MlirValue shared) {
  MlirValue address = moe__op1(b, "llvm.ptrtoint", b->i32, MOE__VALUES(shared), NULL);
  return moe__or(b, moe__zext(b, moe__lshr(b, address, 4), b->i64),
                 SWIZZLE_128B | STRIDE_8_ROWS | LEADING_IGNORED);
}

/* One instruction, 32 bytes of K deep. */
static moe__accumulator_t issue(moe__builder_t *b, moe__accumulator_t accumulator, bool fresh,
                                MlirValue a_descriptor, MlirValue b_descriptor, moe__fp8_t a_type,
                                moe__fp8_t b_type) {
  static const char *const names[] = {[MOE__E4M3] = "e4m3", [MOE__E5M2] = "e5m2"};
  char attributes[512];
  snprintf(attributes, sizeof attributes,
           "shape = #nvvm.shape<m = 64, n = %d, k = 32>, typeA = #nvvm.wgmma_type<%s>, "
           "typeB = #nvvm.wgmma_type<%s>, typeD = #nvvm.wgmma_type<f32>, "
           "scaleD = #nvvm.wgmma_scale_out<%s>, scaleA = #nvvm.wgmma_scale_in<one>, "
           "scaleB = #nvvm.wgmma_scale_in<one>, layoutA = #nvvm.mma_layout<row>, "
           "layoutB = #nvvm.mma_layout<col>",
           accumulator.n, names[a_type], names[b_type], fresh ? "zero" : "one");
  accumulator.value =
      moe__op1(b, "nvvm.wgmma.mma_async", mlirValueGetType(accumulator.value),
               MOE__VALUES(accumulator.value, a_descriptor, b_descriptor), attributes);
  return accumulator;
}

/* A step along K inside the swizzle is a step of the start address. */
#define STEP (K_BYTES >> 4)

moe__accumulator_t moe__wgmma_k128(moe__builder_t *b, moe__accumulator_t accumulator, bool fresh,
                                   MlirValue a_descriptor, MlirValue b_descriptor,
                                   moe__fp8_t a_type, moe__fp8_t b_type) {
  for (int i = 0; i < TILE_K_BYTES / K_BYTES; i++) {
    MlirValue step = moe__i64(b, (int64_t)i * STEP);
    accumulator = issue(b, accumulator, fresh && i == 0, moe__add(b, a_descriptor, step),
                        moe__add(b, b_descriptor, step), a_type, b_type);
  }
  return accumulator;
}

void moe__wgmma_k128_below(moe__builder_t *b, int count, moe__accumulator_t *accumulators,
                           bool fresh, const MlirValue *a_descriptors, MlirValue b_descriptor,
                           moe__fp8_t a_type, moe__fp8_t b_type) {
  for (int i = 0; i < TILE_K_BYTES / K_BYTES; i++) {
    MlirValue step = moe__i64(b, (int64_t)i * STEP), columns = moe__add(b, b_descriptor, step);
    for (int j = 0; j < count; j++)
      accumulators[j] = issue(b, accumulators[j], fresh && i == 0,
                              moe__add(b, a_descriptors[j], step), columns, a_type, b_type);
  }
}

moe__accumulator_t moe__wgmma_steps(moe__builder_t *b, moe__accumulator_t accumulator, bool fresh,
                                    MlirValue a_descriptor, MlirValue b_descriptor,
                                    moe__fp8_t a_type, moe__fp8_t b_type, MlirValue steps) {
  accumulator = issue(b, accumulator, fresh, a_descriptor, b_descriptor, a_type, b_type);
  MOE__FOR (b, number, 1, steps, 1, &accumulator.value) {
    MlirValue step = moe__zext(b, moe__mul(b, number, STEP), b->i64);
    moe__wgmma_fence(b);
    accumulator = issue(b, accumulator, false, moe__add(b, a_descriptor, step),
                        moe__add(b, b_descriptor, step), a_type, b_type);
  }
  return accumulator;
}

void moe__wgmma_fence(moe__builder_t *b) {
  moe__op0(b, "nvvm.wgmma.fence.aligned", MOE__NO_VALUES, NULL);
}

void moe__wgmma_commit(moe__builder_t *b) {
  moe__op0(b, "nvvm.wgmma.commit.group.sync.aligned", MOE__NO_VALUES, NULL);
}

void moe__wgmma_wait(moe__builder_t *b, int pending) {
  char attributes[32];
  snprintf(attributes, sizeof attributes, "group = %d : i64", pending);
  moe__op0(b, "nvvm.wgmma.wait.group.sync.aligned", MOE__NO_VALUES, attributes);
}

static MlirValue extract(moe__builder_t *b, MlirValue structure, int position) {
  char attributes[48];
  snprintf(attributes, sizeof attributes, "position = array<i64: %d>", position);
  return moe__op1(b, "llvm.extractvalue", b->f32, MOE__VALUES(structure), attributes);
}

void moe__accumulator_unpack(moe__builder_t *b, moe__accumulator_t accumulator,
                             MlirValue registers[MOE__WGMMA_MAX_N / 2]) {
  for (int i = 0; i < accumulator.n / 2; i++)
    registers[i] = extract(b, accumulator.value, i);
}

moe__accumulator_t moe__accumulator_pack(moe__builder_t *b, int n,
                                         const MlirValue registers[MOE__WGMMA_MAX_N / 2]) {
  MlirType type = accumulator_type(b, n);
  moe__accumulator_t accumulator = {n, moe__op1(b, "llvm.mlir.undef", type, MOE__NO_VALUES, NULL)};
  for (int i = 0; i < n / 2; i++) {
    char attributes[48];
    snprintf(attributes, sizeof attributes, "position = array<i64: %d>", i);
    accumulator.value = moe__op1(b, "llvm.insertvalue", type,
                                 MOE__VALUES(accumulator.value, registers[i]), attributes);
  }
  return accumulator;
}

/* An instruction through which all registers of the accumulator pass, unchanged: what defines them
 * stays before it, what uses them behind it. */
static moe__accumulator_t pass_through(moe__builder_t *b, moe__accumulator_t accumulator,
                                       const char *instruction) {
  MlirValue registers[MOE__WGMMA_MAX_N / 2];
  int count = accumulator.n / 2;
  char *attributes = NULL;
  size_t length = 0;
  FILE *out = open_memstream(&attributes, &length);
  if (!out)
    abort();
  fprintf(out, "has_side_effects, asm_dialect = 0 : i64, asm_string = \"%s\", constraints = \"",
          instruction);
  for (int i = 0; i < count; i++)
    fputs("=f,", out);
  for (int i = 0; i < count; i++)
    fprintf(out, "%d%s", i, i + 1 < count ? "," : "\"");
  fclose(out);
  moe__accumulator_unpack(b, accumulator, registers);
  accumulator.value = moe__op1(b, "llvm.inline_asm", mlirValueGetType(accumulator.value), count,
                               registers, attributes);
  free(attributes);
  return accumulator;
}

moe__accumulator_t moe__wgmma_fence_fresh(moe__builder_t *b, moe__accumulator_t accumulator) {
  return pass_through(b, accumulator, "wgmma.fence.sync.aligned;");
}

void moe__wgmma_finish(moe__builder_t *b, moe__accumulator_t accumulator,
                       MlirValue registers[MOE__WGMMA_MAX_N / 2]) {
  moe__accumulator_unpack(b, pass_through(b, accumulator, "wgmma.wait_group.sync.aligned 0;"),
                          registers);
}

static void set_registers(moe__builder_t *b, const char *action, int count) {
  char attributes[64];
  snprintf(attributes, sizeof attributes, "regCount = %d : i32, action = #nvvm<action %s>", count,
           action);
  moe__op0(b, "nvvm.setmaxregister", MOE__NO_VALUES, attributes);
}

void moe__registers_decrease(moe__builder_t *b, int count) {
  set_registers(b, "decrease", count);
}
void moe__registers_increase(moe__builder_t *b, int count) {
  set_registers(b, "increase", count);
}
