/* PackWeights.c - the kernel of scaled_grouped_mm.pack_weights: four-bit weights in the order in
 * which the lanes of mixed_mm read them, tiles of 16 rows and 64 columns.
 *
 * A warp takes a tile: 16 rows of 32 bytes come in, 512 bytes side by side go out. A lane needs one
 * byte in four of two rows. It loads both rows whole, as the three lanes beside it do, so that each
 * sector of memory is read once; the warp's lanes store 16 bytes each.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Builder/Inspect.h"
#include "lib/Device/Async.h"
#include "lib/Device/Warp.h"
#include "lib/Dialect/Dialect.h"
#include "lib/Kernels/Kernels.h"
#include "lib/Kernels/Requirements.h"
#include "lib/Kernels/mixed_mm/Layout.h"
#include "lib/Kernels/mixed_mm/Schedule.h"

#include "mlir-c/BuiltinTypes.h"

#define VECTOR 16                                     /* bytes */
#define ROW_BYTES (MOE_WEIGHT_COLUMNS / 2)            /* of a tile */
#define ROW_WORDS (ROW_BYTES / 4)                     /* each has a byte for each of four lanes */
#define TILE_WORDS (MOE_WEIGHT_BYTES / 4 / MOE__WARP) /* of a lane */

MOE__SCHEDULE_KIND(moe__pack_weights_schedule, moe__pack_weights_schedule_t,
                   MOE__PACK_WEIGHTS_SCHEDULE, "pack_weights", "pack_weights");

static moe__candidates_t candidates(MlirOperation op) {
  static const moe__pack_weights_schedule_t ALL[] = {{.warps = 8}, {.warps = 4, .ctas_per_sm = 16}};
  (void)op;
  return MOE__CANDIDATES(ALL);
}

static bool lay_out(MlirOperation op, const void *schedule, void *out) {
  const moe__pack_weights_schedule_t *s = schedule;
  moe__layout_t *l = out;
  (void)op;
  l->threads = s->warps * MOE__WARP;
  l->ctas_per_sm = s->ctas_per_sm;
  l->registers = 32;
  return true;
}

static bool has_kernel(MlirOperation op) {
  return (moe__is_row_major(moe__tensor_type(op, MOE__W)) &&
          moe__is_row_major(moe__tensor_type(op, MOE__PACKED))) ||
         moe__error(op, "the kernel takes w and writes packed row-major; remove their encoding");
}

/* ---- The kernel under construction ---- */

typedef struct pack_t {
  moe__kernel_t kernel;
  moe__extent_t experts, rows, bytes; /* of w */
  MlirValue w, packed;
  bool floats; /* the layout is that of E2M1 */
} pack_t;

/* The words of a row of the tile that starts at `from`; the second half of the last tile may be
 * behind the row's end, where has_second (i1) is false: zeros. */
static void load_row(pack_t *s, MlirValue from, MlirValue has_second, MlirValue words[ROW_WORDS]) {
  moe__builder_t *b = &s->kernel.builder;
  MlirType type = moe__vector_type(b, VECTOR / 4, b->i32);
  MlirValue distance = moe__select(b, has_second, VECTOR, 0);
  MlirValue halves[] = {moe__load_aligned(b, from, type, VECTOR),
                        moe__load_aligned(b, moe__offset(b, from, distance), type, VECTOR)};
  for (int i = 0; i < ROW_WORDS; i++) {
    words[i] = moe__extract(b, halves[i / 4], i % 4);
    if (i >= 4)
      words[i] = moe__select(b, has_second, words[i], 0);
  }
}

/* Bits of `word`, those of `mask` from `bit` on, at bit `to`. */
static MlirValue move_bits(moe__builder_t *b, MlirValue word, uint32_t mask, int bit, int to) {
  MlirValue moved = bit > to ? moe__lshr(b, word, bit - to) : moe__shl(b, word, to - bit);
  return moe__and(b, moved, (int64_t)(int32_t)(mask << to));
}

/* A lane's word for 16 columns: nibble i is that of register i of its fragment, nibble i + 4 that
 * of the column behind it. Each of `bytes` has two columns. */
static MlirValue interleave(moe__builder_t *b, const MlirValue bytes[4]) {
  MlirValue word = moe__i32(b, 0);
  for (int i = 0; i < 4; i++) {
    word = moe__or(b, word, move_bits(b, bytes[i], 0xF, 0, 4 * i));
    word = moe__or(b, word, move_bits(b, bytes[i], 0xF, 4, 4 * i + 16));
  }
  return word;
}

/* The same in the layout of E2M1. */
static MlirValue interleave_floats(moe__builder_t *b, const MlirValue bytes[4]) {
  MlirValue word = moe__i32(b, 0);
  for (int i = 0; i < 4; i++)
    for (int half = 0; half < 2; half++)
      for (int bit = 0, end = 1; bit < MOE__E2M1_BITS; bit = end++) { /* bits side by side */
        const int *at = moe__e2m1_at[i];
        while (end < MOE__E2M1_BITS && at[end] == at[end - 1] + 1)
          end++;
        word = moe__or(b, word,
                       move_bits(b, bytes[i], (1U << (end - bit)) - 1, 4 * half + bit,
                                 (at[bit] + 16 * half) % 32));
      }
  return word;
}

static void pack_tile(pack_t *s, MlirValue index, MlirValue lane) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue across = moe__ceil_div(b, s->bytes.value, ROW_BYTES);
  MlirValue panel = moe__udiv(b, index, across), column = moe__urem(b, index, across);
  MlirValue byte = moe__mul(b, column, ROW_BYTES);
  MlirValue has_second = moe__ult(b, moe__add(b, byte, VECTOR), s->bytes.value);
  /* Panels count through all experts: N is a multiple of a panel's rows. */
  MlirValue row = moe__add(b, moe__mul(b, panel, MOE_WEIGHT_ROWS), moe__lshr(b, lane, 2));
  MlirValue words[2][ROW_WORDS];
  for (int h = 0; h < 2; h++) {
    MlirValue at = moe__wide_mul(b, moe__add(b, row, 8 * h), s->bytes.value);
    load_row(s, moe__offset(b, s->w, moe__add(b, at, moe__zext(b, byte, b->i64))), has_second,
             words[h]);
  }
  MlirValue shift = moe__shl(b, moe__and(b, lane, 3), 3);
  MlirValue out[TILE_WORDS];
  for (int i = 0; i < TILE_WORDS; i++) {
    MlirValue bytes[4];
    for (int r = 0; r < 4; r++)
      bytes[r] =
          moe__op1(b, "arith.shrui", b->i32, MOE__VALUES(words[r % 2][2 * i + r / 2], shift), NULL);
    out[i] = s->floats ? interleave_floats(b, bytes) : interleave(b, bytes);
  }
  MlirValue to = moe__add(b, moe__mul(b, moe__zext(b, index, b->i64), MOE_WEIGHT_BYTES),
                          moe__zext(b, moe__shl(b, lane, 4), b->i64));
  moe__store_aligned(b, moe__vector(b, TILE_WORDS, out), moe__offset(b, s->packed, to), VECTOR);
}

static void add_parameters(pack_t *s, MlirOperation op) {
  moe__kernel_t *kernel = &s->kernel;
  MlirType w = moe__tensor_type(op, MOE__W);
  int number = moe__tensor_number(op, MOE__W), rank = (int)mlirShapedTypeGetRank(w);
  moe__kernel_matrices(kernel, number, w, &s->experts, &s->rows, &s->bytes);
  s->w = moe__kernel_pointer(kernel, number);
  s->packed = moe__kernel_pointer(kernel, moe__tensor_number(op, MOE__PACKED));
  moe__kernel_require(kernel, number, rank - 2, MOE__MULTIPLE_OF, MOE_WEIGHT_ROWS);
  moe__kernel_require(kernel, number, rank - 1, MOE__MULTIPLE_OF, VECTOR);
}

static bool lower(const moe__lowering_t *lowering) {
  const moe__pack_weights_schedule_t *schedule = lowering->schedule;
  MlirStringRef floats = mlirStringRefCreateFromCString("16x64_e2m1");
  pack_t s = {.floats = mlirStringRefEqual(moe__op_string(lowering->op, "layout"), floats)};
  moe__kernel_t *kernel = &s.kernel;
  moe__builder_t *b = &kernel->builder;
  moe__lowering_begin(lowering, kernel);
  add_parameters(&s, lowering->op);
  moe__kernel_prologue(kernel);
  moe__kernel_await_launches(kernel);
  MlirValue panels = moe__mul(b, s.experts.value, moe__lshr(b, s.rows.value, 4));
  MlirValue total = moe__mul(b, panels, moe__ceil_div(b, s.bytes.value, ROW_BYTES));
  MlirValue warp = moe__lshr(b, kernel->thread, 5);
  MlirValue lane = moe__and(b, kernel->thread, MOE__WARP - 1);
  MlirValue warps = moe__i32(b, schedule->warps);
  MlirValue first = moe__add(b, moe__mul(b, kernel->cta, warps), warp);
  MOE__FOR (b, index, first, total, moe__mul(b, kernel->cta_count, warps)) {
    pack_tile(&s, index, lane);
  }
  moe__record_t *record = &kernel->record;
  const moe__expression_t *tiles = moe__expression_mul(
      record, MOE__EXPRESSIONS(s.experts.expression,
                               moe__expression_ceildiv(record, s.rows.expression, MOE_WEIGHT_ROWS),
                               moe__expression_ceildiv(record, s.bytes.expression, ROW_BYTES)));
  moe__lowering_end(
      lowering, kernel,
      moe__expression_persistent(record, moe__expression_ceildiv(record, tiles, schedule->warps),
                                 schedule->ctas_per_sm));
  return true;
}

const moe__kernel_definition_t moe__pack_weights_kernel = {
    .ops = {MOE__OP_PACK_WEIGHTS},
    .has_kernel = has_kernel,
    .schedule = &moe__pack_weights_schedule,
    .candidates = candidates,
    .layout_size = sizeof(moe__layout_t),
    .layout = lay_out,
    .lower = lower,
};
