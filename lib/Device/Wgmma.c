/* Wgmma.c - see Wgmma.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Device/Wgmma.h"

#include "mlir-c/BuiltinTypes.h"

#include <stdio.h>
#include <stdlib.h>

#define K_BYTES 32 /* of one instruction */
#define TILE_K_BYTES 128
#define SWIZZLE_128B (INT64_C(1) << 62)
#define SWIZZLE_32B (INT64_MIN | INT64_C(1) << 62)
#define STRIDE_8_SHORT_ROWS ((INT64_C(256) >> 4) << 32) /* the same of rows of 32 bytes */
#define STRIDE_8_ROWS ((INT64_C(1024) >> 4) << 32)      /* distance of two groups of 8 rows */
#define OWN_ADDRESS ((1 << 18) - 1) /* the bits of an address that a descriptor has */
/* Not used by swizzled K-major tiles; 1 by convention. In a cluster it has the CTA's rank in it. */
#define LEADING_IGNORED (INT64_C(1) << 16)

static FILE *open_text(char **text, size_t *length) {
  FILE *out = open_memstream(text, length);
  if (!out)
    abort();
  return out;
}

/* !llvm.struct of `sums` f32 and `words` i32. */
static MlirType registers_type(moe__builder_t *b, int sums, int words) {
  char *text = NULL;
  size_t length = 0;
  FILE *out = open_text(&text, &length);
  fputs("!llvm.struct<(", out);
  for (int i = 0; i < sums + words; i++)
    fprintf(out, "%s%s", i ? ", " : "", i < sums ? "f32" : "i32");
  fputs(")>", out);
  fclose(out);
  MlirType type = moe__type(b, text);
  free(text);
  return type;
}

static MlirType accumulator_type(moe__builder_t *b, int n) {
  return registers_type(b, n / 2, 0);
}

moe__accumulator_t moe__wgmma_zero(moe__builder_t *b, int n) {
  return (moe__accumulator_t){
      n, moe__op1(b, "llvm.mlir.zero", accumulator_type(b, n), MOE__NO_VALUES, NULL)};
}

static MlirValue address_of(moe__builder_t *b, MlirValue shared) {
  return moe__op1(b, "llvm.ptrtoint", b->i32, MOE__VALUES(shared), NULL);
}

static MlirValue descriptor_at(moe__builder_t *b, MlirValue address, int64_t layout) {
  return moe__or(b, moe__zext(b, moe__lshr(b, address, 4), b->i64), layout);
}

static MlirValue descriptor(moe__builder_t *b, MlirValue shared, int64_t layout) {
  return descriptor_at(b, address_of(b, shared), layout);
}

MlirValue moe__wgmma_descriptor(moe__builder_t *b, MlirValue shared) {
  return descriptor(b, shared, SWIZZLE_128B | STRIDE_8_ROWS | LEADING_IGNORED);
}

MlirValue moe__wgmma_place(moe__builder_t *b, MlirValue shared) {
  return moe__fresh(b, moe__or(b, moe__lshr(b, address_of(b, shared), 4), LEADING_IGNORED));
}

MlirValue moe__wgmma_descriptor_at(moe__builder_t *b, MlirValue place) {
  return moe__or(b, moe__zext(b, place, b->i64), SWIZZLE_128B | STRIDE_8_ROWS);
}

MlirValue moe__wgmma_descriptor_k32(moe__builder_t *b, MlirValue shared) {
  return descriptor(b, shared, SWIZZLE_32B | STRIDE_8_SHORT_ROWS | LEADING_IGNORED);
}

/* In a cluster an address of shared memory has the CTA's rank in its bits from 24 on, which the
 * shift brings into the leading distance. */
MlirValue moe__wgmma_descriptor_mn(moe__builder_t *b, MlirValue shared, int leading,
                                   bool in_cluster) {
  int64_t layout = SWIZZLE_128B | STRIDE_8_ROWS | (int64_t)(leading >> 4) << 16;
  MlirValue address = address_of(b, shared);
  return descriptor_at(b, in_cluster ? moe__and(b, address, OWN_ADDRESS) : address, layout);
}

MlirValue moe__wgmma_advance(moe__builder_t *b, MlirValue descriptor, int bytes) {
  return moe__add(b, descriptor, moe__i64(b, bytes >> 4));
}

/* What the instructions of one product have in common. */
typedef struct product_t {
  const char *a, *b; /* the operands' types */
  int k;
  bool a_mn_major, b_mn_major; /* of 16-bit types only */
} product_t;

/* One instruction, 32 bytes of K deep. */
static moe__accumulator_t issue(moe__builder_t *b, moe__accumulator_t accumulator, bool fresh,
                                MlirValue a_descriptor, MlirValue b_descriptor,
                                const product_t *product) {
  char attributes[512];
  snprintf(attributes, sizeof attributes,
           "shape = #nvvm.shape<m = 64, n = %d, k = %d>, typeA = #nvvm.wgmma_type<%s>, "
           "typeB = #nvvm.wgmma_type<%s>, typeD = #nvvm.wgmma_type<f32>, "
           "scaleD = #nvvm.wgmma_scale_out<%s>, scaleA = #nvvm.wgmma_scale_in<one>, "
           "scaleB = #nvvm.wgmma_scale_in<one>, layoutA = #nvvm.mma_layout<%s>, "
           "layoutB = #nvvm.mma_layout<%s>",
           accumulator.n, product->k, product->a, product->b, fresh ? "zero" : "one",
           product->a_mn_major ? "col" : "row", product->b_mn_major ? "row" : "col");
  accumulator.value =
      moe__op1(b, "nvvm.wgmma.mma_async", mlirValueGetType(accumulator.value),
               MOE__VALUES(accumulator.value, a_descriptor, b_descriptor), attributes);
  return accumulator;
}

static product_t fp8_product(moe__fp8_t a, moe__fp8_t b) {
  static const char *const names[] = {[MOE__E4M3] = "e4m3", [MOE__E5M2] = "e5m2"};
  return (product_t){.a = names[a], .b = names[b], .k = K_BYTES};
}

/* How much further the start address is for the next instruction: along K inside the swizzle, or
 * the 16 rows of K further on in an MN-major tile. */
static int step_of(bool mn_major) {
  return (mn_major ? 16 * TILE_K_BYTES : K_BYTES) >> 4;
}

/* The instructions of a tile, 128 bytes of K deep, for `count` accumulators below one another. */
static void issue_tile(moe__builder_t *b, int count, moe__accumulator_t *accumulators, bool fresh,
                       const MlirValue *a_descriptors, MlirValue b_descriptor,
                       const product_t *product) {
  for (int i = 0; i < TILE_K_BYTES / K_BYTES; i++) {
    MlirValue a_step = moe__i64(b, (int64_t)i * step_of(product->a_mn_major));
    MlirValue b_step = moe__i64(b, (int64_t)i * step_of(product->b_mn_major));
    MlirValue columns = moe__add(b, b_descriptor, b_step);
    for (int j = 0; j < count; j++)
      accumulators[j] = issue(b, accumulators[j], fresh && i == 0,
                              moe__add(b, a_descriptors[j], a_step), columns, product);
  }
}

moe__accumulator_t moe__wgmma_k32(moe__builder_t *b, moe__accumulator_t accumulator, bool fresh,
                                  MlirValue a_descriptor, MlirValue b_descriptor, moe__fp8_t a_type,
                                  moe__fp8_t b_type) {
  product_t product = fp8_product(a_type, b_type);
  return issue(b, accumulator, fresh, a_descriptor, b_descriptor, &product);
}

void moe__wgmma_k128_below(moe__builder_t *b, int count, moe__accumulator_t *accumulators,
                           bool fresh, const MlirValue *a_descriptors, MlirValue b_descriptor,
                           moe__fp8_t a_type, moe__fp8_t b_type) {
  product_t product = fp8_product(a_type, b_type);
  issue_tile(b, count, accumulators, fresh, a_descriptors, b_descriptor, &product);
}

moe__accumulator_t moe__wgmma_steps(moe__builder_t *b, moe__accumulator_t accumulator, bool fresh,
                                    MlirValue a_descriptor, MlirValue b_descriptor,
                                    moe__fp8_t a_type, moe__fp8_t b_type, MlirValue begin,
                                    MlirValue end) {
  product_t product = fp8_product(a_type, b_type);
  MlirValue first = moe__zext(b, moe__mul(b, begin, step_of(false)), b->i64);
  accumulator = issue(b, accumulator, fresh, moe__add(b, a_descriptor, first),
                      moe__add(b, b_descriptor, first), &product);
  MOE__FOR (b, number, moe__add(b, begin, 1), end, 1, &accumulator.value) {
    MlirValue step = moe__zext(b, moe__mul(b, number, step_of(false)), b->i64);
    moe__wgmma_fence(b);
    accumulator = issue(b, accumulator, false, moe__add(b, a_descriptor, step),
                        moe__add(b, b_descriptor, step), &product);
  }
  return accumulator;
}

moe__accumulator_t moe__wgmma_k32_times(moe__builder_t *b, moe__accumulator_t accumulator,
                                        MlirValue a_descriptor, MlirValue b_descriptor,
                                        moe__fp8_t a_type, moe__fp8_t b_type, MlirValue times) {
  product_t product = fp8_product(a_type, b_type);
  /* LLVM is to see that it is once at most. */
  MOE__FOR (b, number, 0, moe__and(b, times, 1), 1, &accumulator.value) {
    moe__wgmma_fence(b);
    accumulator = issue(b, accumulator, false, a_descriptor, b_descriptor, &product);
  }
  return accumulator;
}

static product_t wide_product(MlirType element, bool b_mn_major) {
  const char *name = mlirTypeIsABF16(element) ? "bf16" : "f16";
  return (product_t){.a = name, .b = name, .k = K_BYTES / 2, .b_mn_major = b_mn_major};
}

static product_t half_product(const moe__wgmma_halves_t *halves) {
  product_t product = wide_product(halves->element, halves->b_mn_major);
  product.a_mn_major = halves->a_mn_major;
  return product;
}

void moe__wgmma_k64_below(moe__builder_t *b, int count, moe__accumulator_t *accumulators,
                          bool fresh, const MlirValue *a_descriptors, MlirValue b_descriptor,
                          const moe__wgmma_halves_t *halves) {
  product_t product = half_product(halves);
  issue_tile(b, count, accumulators, fresh, a_descriptors, b_descriptor, &product);
}

/* Step `number` (i32) of an operand. */
static MlirValue at_half_step(moe__builder_t *b, MlirValue descriptor, bool mn_major,
                              MlirValue number) {
  return moe__add(b, descriptor, moe__zext(b, moe__mul(b, number, step_of(mn_major)), b->i64));
}

moe__accumulator_t moe__wgmma_half_steps(moe__builder_t *b, moe__accumulator_t accumulator,
                                         bool fresh, MlirValue a_descriptor, MlirValue b_descriptor,
                                         const moe__wgmma_halves_t *halves, MlirValue begin,
                                         MlirValue end) {
  product_t product = half_product(halves);
  accumulator =
      issue(b, accumulator, fresh, at_half_step(b, a_descriptor, halves->a_mn_major, begin),
            at_half_step(b, b_descriptor, halves->b_mn_major, begin), &product);
  MOE__FOR (b, number, moe__add(b, begin, 1), end, 1, &accumulator.value) {
    moe__wgmma_fence(b);
    accumulator =
        issue(b, accumulator, false, at_half_step(b, a_descriptor, halves->a_mn_major, number),
              at_half_step(b, b_descriptor, halves->b_mn_major, number), &product);
  }
  return accumulator;
}

moe__accumulator_t moe__wgmma_k16(moe__builder_t *b, moe__accumulator_t accumulator, bool fresh,
                                  MlirValue a_descriptor, MlirValue b_descriptor, MlirType element,
                                  bool b_mn_major) {
  product_t product = wide_product(element, b_mn_major);
  return issue(b, accumulator, fresh, a_descriptor, b_descriptor, &product);
}

/* NVVM has no op for a in registers. */
moe__accumulator_t moe__wgmma_k16_fragment(moe__builder_t *b, moe__accumulator_t accumulator,
                                           bool fresh, const MlirValue a[MOE__WGMMA_A_REGISTERS],
                                           MlirValue b_descriptor, MlirType element,
                                           bool b_mn_major) {
  product_t product = wide_product(element, b_mn_major);
  int sums = accumulator.n / 2, count = sums;
  MlirValue operands[MOE__WGMMA_MAX_N / 2 + MOE__WGMMA_A_REGISTERS + 1];
  moe__accumulator_unpack(b, accumulator, operands);
  for (int i = 0; i < MOE__WGMMA_A_REGISTERS; i++)
    operands[count++] = a[i];
  operands[count++] = b_descriptor;

  char *attributes = NULL;
  size_t length = 0;
  FILE *out = open_text(&attributes, &length);
  fprintf(out,
          "has_side_effects, asm_dialect = 0 : i64, asm_string = \"{ .reg .pred p; "
          "setp.ne.b32 p, %d, 0; wgmma.mma_async.sync.aligned.m64n%dk%d.f32.%s.%s {",
          !fresh, accumulator.n, product.k, product.a, product.b);
  for (int i = 0; i < sums; i++)
    fprintf(out, "%s$%d", i ? ", " : "", i);
  fputs("}, {", out);
  for (int i = 0; i < MOE__WGMMA_A_REGISTERS; i++)
    fprintf(out, "%s$%d", i ? ", " : "", 2 * sums + i);
  fprintf(out, "}, $%d, p, 1, 1, %d; }\", constraints = \"", 2 * sums + MOE__WGMMA_A_REGISTERS,
          product.b_mn_major);
  for (int i = 0; i < sums; i++)
    fputs("=f,", out);
  for (int i = 0; i < sums; i++)
    fprintf(out, "%d,", i);
  fputs("r,r,r,r,l\"", out);
  fclose(out);
  accumulator.value = moe__op1(b, "llvm.inline_asm", mlirValueGetType(accumulator.value), count,
                               operands, attributes);
  free(attributes);
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

static MlirValue extract(moe__builder_t *b, MlirValue structure, int position, MlirType type) {
  char attributes[48];
  snprintf(attributes, sizeof attributes, "position = array<i64: %d>", position);
  return moe__op1(b, "llvm.extractvalue", type, MOE__VALUES(structure), attributes);
}

void moe__accumulator_unpack(moe__builder_t *b, moe__accumulator_t accumulator,
                             MlirValue registers[MOE__WGMMA_MAX_N / 2]) {
  for (int i = 0; i < accumulator.n / 2; i++)
    registers[i] = extract(b, accumulator.value, i, b->f32);
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

/* An instruction through which all registers of the accumulators pass, and `words` i32 more,
 * unchanged: what defines them stays before it, what uses them behind it. */
static void pass_through(moe__builder_t *b, const char *instruction, int count,
                         moe__accumulator_t *accumulators, int words, MlirValue *registers) {
  int sums = 0;
  for (int i = 0; i < count; i++)
    sums += accumulators[i].n / 2;
  int total = sums + words;
  MlirValue *values = malloc((size_t)total * sizeof *values);
  if (!values)
    abort();
  for (int i = 0, first = 0; i < count; first += accumulators[i++].n / 2)
    moe__accumulator_unpack(b, accumulators[i], values + first);
  for (int i = 0; i < words; i++)
    values[sums + i] = registers[i];

  char *attributes = NULL;
  size_t length = 0;
  FILE *out = open_text(&attributes, &length);
  fprintf(out, "has_side_effects, asm_dialect = 0 : i64, asm_string = \"%s\", constraints = \"",
          instruction);
  for (int i = 0; i < total; i++)
    fputs(i < sums ? "=f," : "=r,", out);
  for (int i = 0; i < total; i++)
    fprintf(out, "%d%s", i, i + 1 < total ? "," : "\"");
  fclose(out);
  MlirValue passed =
      moe__op1(b, "llvm.inline_asm", registers_type(b, sums, words), total, values, attributes);
  free(attributes);

  if (count == 1 && words == 0) {
    accumulators[0].value = passed;
  } else {
    for (int i = 0; i < total; i++)
      values[i] = extract(b, passed, i, i < sums ? b->f32 : b->i32);
    for (int i = 0, first = 0; i < count; first += accumulators[i++].n / 2)
      accumulators[i] = moe__accumulator_pack(b, accumulators[i].n, values + first);
    for (int i = 0; i < words; i++)
      registers[i] = values[sums + i];
  }
  free(values);
}

moe__accumulator_t moe__wgmma_fence_fresh(moe__builder_t *b, moe__accumulator_t accumulator) {
  moe__wgmma_fence_through(b, 1, &accumulator, 0, NULL);
  return accumulator;
}

void moe__wgmma_fence_through(moe__builder_t *b, int count, moe__accumulator_t *accumulators,
                              int words, MlirValue *fragments) {
  pass_through(b, "wgmma.fence.sync.aligned;", count, accumulators, words, fragments);
}

void moe__wgmma_wait_through(moe__builder_t *b, int pending, int count,
                             moe__accumulator_t *accumulators, int words, MlirValue *fragments) {
  char instruction[48];
  snprintf(instruction, sizeof instruction, "wgmma.wait_group.sync.aligned %d;", pending);
  pass_through(b, instruction, count, accumulators, words, fragments);
}

void moe__wgmma_finish(moe__builder_t *b, moe__accumulator_t accumulator,
                       MlirValue registers[MOE__WGMMA_MAX_N / 2]) {
  moe__wgmma_wait_through(b, 0, 1, &accumulator, 0, NULL);
  moe__accumulator_unpack(b, accumulator, registers);
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
