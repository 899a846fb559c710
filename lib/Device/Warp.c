/* Warp.c - see Warp.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Device/Warp.h"

#include "mlir-c/BuiltinTypes.h"

#include <stdio.h>

#define ALL_LANES (-1)

static MlirValue shuffle(moe__builder_t *b, const char *kind, MlirValue value, MlirValue which,
                         int clamp) {
  char attributes[48];
  snprintf(attributes, sizeof attributes, "kind = #nvvm<shfl_kind %s>", kind);
  return moe__op1(b, "nvvm.shfl.sync", mlirValueGetType(value),
                  MOE__VALUES(moe__i32(b, ALL_LANES), value, which, moe__i32(b, clamp)),
                  attributes);
}

MlirValue moe__shuffle(moe__builder_t *b, MlirValue value, MlirValue lane) {
  return shuffle(b, "idx", value, lane, MOE__WARP - 1);
}

MlirValue moe__shuffle_up(moe__builder_t *b, MlirValue value, int distance) {
  return shuffle(b, "up", value, moe__i32(b, distance), 0);
}

MlirValue moe__shuffle_xor(moe__builder_t *b, MlirValue value, int mask) {
  return shuffle(b, "bfly", value, moe__i32(b, mask), MOE__WARP - 1);
}

MlirValue moe__shuffle_among(moe__builder_t *b, MlirValue value, int index, int lanes) {
  /* Above the clamp: the bits of a lane's number that it shares with the lane it asks. */
  int segment = (MOE__WARP - lanes) << 8;
  return shuffle(b, "idx", value, moe__i32(b, index), segment | (MOE__WARP - 1));
}

MlirValue moe__warp_or(moe__builder_t *b, MlirValue value) {
  return moe__op1(b, "nvvm.redux.sync", b->i32, MOE__VALUES(value, moe__i32(b, ALL_LANES)),
                  "kind = #nvvm<redux_kind or>");
}

MlirValue moe__warp_count(moe__builder_t *b, MlirValue condition) {
  return moe__op1(b, "nvvm.redux.sync", b->i32,
                  MOE__VALUES(moe__zext(b, condition, b->i32), moe__i32(b, ALL_LANES)),
                  "kind = #nvvm<redux_kind add>");
}

MlirValue moe__warp_uniform(moe__builder_t *b, MlirValue value) {
  return moe__warp_or(b, value);
}

MlirValue moe__warp_scan(moe__builder_t *b, MlirValue value, MlirValue lane,
                         MlirValue (*combine)(moe__builder_t *, MlirValue, MlirValue)) {
  for (int distance = 1; distance < MOE__WARP; distance *= 2) {
    MlirValue combined = combine(b, value, moe__shuffle_up(b, value, distance));
    value = moe__select(b, moe__ult(b, lane, distance), value, combined);
  }
  return value;
}

MlirValue moe__warp_reduce(moe__builder_t *b, MlirValue value,
                           MlirValue (*combine)(moe__builder_t *, MlirValue, MlirValue)) {
  for (int mask = MOE__WARP / 2; mask; mask /= 2)
    value = combine(b, value, moe__shuffle_xor(b, value, mask));
  return value;
}

MlirValue moe__warp_reduce_many(moe__builder_t *b, int count, const MlirValue *values, int lanes,
                                MlirValue lane,
                                MlirValue (*combine)(moe__builder_t *, const void *context,
                                                     MlirValue, MlirValue),
                                const void *context) {
  MlirValue left[MOE__WARP] = {{NULL}};
  for (int i = 0; i < count; i++)
    left[i] = values[i];
  /* In each step a lane keeps one half of its values, and gets its partner's share of them for the
   * other half. */
  for (int mask = lanes / 2; mask; mask /= 2) {
    MlirValue upper = moe__ne(b, moe__and(b, lane, mask), 0);
    count /= 2;
    for (int i = 0; i < (count ? count : 1); i++) {
      MlirValue kept = left[i], given = left[i];
      if (count) {
        kept = moe__select(b, upper, left[i + count], left[i]);
        given = moe__select(b, upper, left[i], left[i + count]);
      }
      left[i] = combine(b, context, kept, moe__shuffle_xor(b, given, mask));
    }
  }
  return left[0];
}

void moe__store_matrix(moe__builder_t *b, MlirValue row_address, const MlirValue words[4],
                       bool transposed) {
  char attributes[160];
  snprintf(attributes, sizeof attributes,
           "layout = #nvvm.mma_layout<%s>, shape = #nvvm.ld_st_matrix_shape<m = 8, n = 8>, "
           "eltType = #nvvm.ld_st_matrix_elt_type<b16>",
           transposed ? "col" : "row");
  moe__op0(b, "nvvm.stmatrix", MOE__VALUES(row_address, words[0], words[1], words[2], words[3]),
           attributes);
}

/* The members of a struct, all of one type. */
static void unpack(moe__builder_t *b, MlirValue structure, MlirType type, MlirValue members[4]) {
  for (int i = 0; i < 4; i++) {
    char position[48];
    snprintf(position, sizeof position, "position = array<i64: %d>", i);
    members[i] = moe__op1(b, "llvm.extractvalue", type, MOE__VALUES(structure), position);
  }
}

void moe__load_matrix(moe__builder_t *b, MlirValue row_address, MlirValue words[4]) {
  MlirType type = moe__type(b, "!llvm.struct<(i32, i32, i32, i32)>");
  MlirValue all = moe__op1(
      b, "nvvm.ldmatrix", type, MOE__VALUES(row_address),
      "num = 4 : i32, layout = #nvvm.mma_layout<row>, shape = "
      "#nvvm.ld_st_matrix_shape<m = 8, n = 8>, eltType = #nvvm.ld_st_matrix_elt_type<b16>");
  unpack(b, all, b->i32, words);
}

MlirValue moe__load_once(moe__builder_t *b, MlirValue address) {
  MlirType type = moe__type(b, "!llvm.struct<(i32, i32, i32, i32)>");
  MlirValue all = moe__op1(b, "llvm.inline_asm", type, MOE__VALUES(address),
                           "asm_dialect = 0 : i64, has_side_effects, asm_string = "
                           "\"ld.global.L1::no_allocate.v4.b32 {$0, $1, $2, $3}, [$4];\", "
                           "constraints = \"=r,=r,=r,=r,l\"");
  MlirValue words[4];
  unpack(b, all, b->i32, words);
  return moe__vector(b, 4, words);
}

void moe__mma_k16(moe__builder_t *b, MlirType element, const MlirValue a_words[4],
                  const MlirValue b_words[2], const MlirValue c[4], MlirValue d[4]) {
  bool is_bf16 = mlirTypeIsABF16(element);
  MlirType type = moe__type(b, "!llvm.struct<(f32, f32, f32, f32)>");
  MlirValue operands[10];
  for (int i = 0; i < 6; i++) {
    MlirValue word = i < 4 ? a_words[i] : b_words[i - 4];
    operands[i] = is_bf16 ? word : moe__bitcast(b, word, moe__vector_type(b, 2, element));
  }
  for (int i = 0; i < 4; i++)
    operands[6 + i] = c ? c[i] : moe__f32(b, 0.0F);
  char attributes[256];
  snprintf(attributes, sizeof attributes,
           "shape = #nvvm.shape<m = 16, n = 8, k = 16>, layoutA = #nvvm.mma_layout<row>, "
           "layoutB = #nvvm.mma_layout<col>, multiplicandAPtxType = #nvvm.mma_type<%s>, "
           "multiplicandBPtxType = #nvvm.mma_type<%s>, operandSegmentSizes = array<i32: 4, 2, 4>",
           is_bf16 ? "bf16" : "f16", is_bf16 ? "bf16" : "f16");
  unpack(b, moe__op1(b, "nvvm.mma.sync", type, 10, operands, attributes), b->f32, d);
}
