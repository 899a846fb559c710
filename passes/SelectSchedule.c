/* SelectSchedule.c - gives each op its schedule, from one table per kernel.
 *
 * Why the numbers are what they are: docs/performance/.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Builder/Shapes.h"
#include "passes/Lowering.h"
#include "passes/Passes.h"
#include "passes/Schedule.h"
#include "passes/mx_quantize/CastKernel.h"

#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/BuiltinTypes.h"

/* ---- mx_quantize: tiles out in rows, in columns and in both ---- */

/* By direction: rows, columns, both. */
typedef enum output_t { ROWS, COLUMNS, BOTH } output_t;

/* Two persistent blocks per multiprocessor, so that one quantizes while the other waits; 64 or 96 KB
 * each in flight. Tiles are ordered down the columns of q in bands of 1024 where columns are written: a
 * wave of blocks then writes long runs of q, and each DRAM page it opens is filled. Where rows are
 * written, in and out are one order, and so is that of the tiles. */
static const moe__quantize_schedule_t QUANTIZE_BF16[] = {
    [ROWS] = {.tile_n = 32,
              .tile_k = 1024,
              .stages = 2,
              .output_stages = 2,
              .warps = 16,
              .blocks_per_sm = 1,
              .band = 1},
    [COLUMNS] = {.tile_n = 128,
                 .tile_k = 128,
                 .stages = 3,
                 .output_stages = 1,
                 .warps = 8,
                 .blocks_per_sm = 2,
                 .band = 1024},
    [BOTH] = {.tile_n = 128,
              .tile_k = 256,
              .stages = 2,
              .output_stages = 1,
              .warps = 16,
              .blocks_per_sm = 1,
              .band = 1},
};
static const moe__quantize_schedule_t QUANTIZE_F32[] = {
    [ROWS] = {.tile_n = 32,
              .tile_k = 256,
              .stages = 2,
              .output_stages = 2,
              .warps = 8,
              .blocks_per_sm = 2,
              .band = 1},
    [COLUMNS] = {.tile_n = 128,
                 .tile_k = 64,
                 .stages = 2,
                 .output_stages = 2,
                 .warps = 8,
                 .blocks_per_sm = 2,
                 .band = 1024},
    [BOTH] = {.tile_n = 128,
              .tile_k = 128,
              .stages = 2,
              .output_stages = 1,
              .warps = 16,
              .blocks_per_sm = 1,
              .band = 1},
};

static bool schedule_tiles(MlirOperation op, output_t output, int max_groups,
                           const moe__quantize_schedule_t *bf16,
                           const moe__quantize_schedule_t *f32) {
  MlirType x = mlirValueGetType(mlirOperationGetOperand(op, 0));
  bool is_bf16 = mlirTypeIsABF16(mlirShapedTypeGetElementType(x));
  if (mlirAttributeIsNull(moe__op_attribute(op, "schedule")))
    moe__quantize_schedule_write(op, &(is_bf16 ? bf16 : f32)[output]);
  moe__quantize_schedule_t schedule;
  moe__directions_t directions = {.rows = output != COLUMNS, .columns = output != ROWS};
  return moe__quantize_schedule_read(op, directions, max_groups, &schedule);
}

static output_t output_of(MlirOperation op) {
  MlirType x = mlirValueGetType(mlirOperationGetOperand(op, 0));
  return moe__op_integer(op, "axis") == mlirShapedTypeGetRank(x) - 1 ? ROWS : COLUMNS;
}

static bool schedule_quantize(MlirOperation op) {
  return schedule_tiles(op, output_of(op), 0, QUANTIZE_BF16, QUANTIZE_F32);
}

static bool schedule_quantize_dual(MlirOperation op) {
  return schedule_tiles(op, BOTH, 0, QUANTIZE_BF16, QUANTIZE_F32);
}

/* As for MX; casting takes less time, and reads factors besides. */
static const moe__quantize_schedule_t CAST_BF16[] = {
    [ROWS] = {.tile_n = 32,
              .tile_k = 512,
              .stages = 2,
              .output_stages = 2,
              .warps = 8,
              .blocks_per_sm = 2,
              .band = 1},
    [COLUMNS] = {.tile_n = 128,
                 .tile_k = 128,
                 .stages = 2,
                 .output_stages = 2,
                 .warps = 8,
                 .blocks_per_sm = 2,
                 .band = 1024},
    [BOTH] = {.tile_n = 128,
              .tile_k = 128,
              .stages = 2,
              .output_stages = 1,
              .warps = 8,
              .blocks_per_sm = 2,
              .band = 1},
};
static const moe__quantize_schedule_t CAST_F32[] = {
    [ROWS] = {.tile_n = 32,
              .tile_k = 256,
              .stages = 2,
              .output_stages = 2,
              .warps = 8,
              .blocks_per_sm = 2,
              .band = 1},
    [COLUMNS] = {.tile_n = 128,
                 .tile_k = 64,
                 .stages = 2,
                 .output_stages = 2,
                 .warps = 8,
                 .blocks_per_sm = 2,
                 .band = 1024},
    [BOTH] = {.tile_n = 128,
              .tile_k = 128,
              .stages = 2,
              .output_stages = 1,
              .warps = 16,
              .blocks_per_sm = 1,
              .band = 1},
};

static bool schedule_cast(MlirOperation op, output_t output, int offs) {
  MlirValue groups = moe__op_operand(op, offs);
  int max_groups = mlirValueIsNull(groups) ? 0 : moe__cast_max_groups(mlirValueGetType(groups));
  return schedule_tiles(op, output, max_groups, CAST_BF16, CAST_F32);
}

static bool schedule_cast_fp8(MlirOperation op) {
  return schedule_cast(op, output_of(op), 2);
}

static bool schedule_cast_fp8_dual(MlirOperation op) {
  return schedule_cast(op, BOTH, 3);
}

/* Most of the shared memory for rows: half of it waits to be read, half is being read. */
static const moe__rows_schedule_t QUANTIZE_ROWS = {
    .buffer_kb = 208, .stages = 64, .warps = 16, .blocks_per_sm = 1};

/* 128 bytes of x in flight for each of 1024 threads. */
static const moe__blocks_schedule_t QUANTIZE_1X128 = {
    .tile_n = 32, .tile_k = 512, .warps = 8, .blocks_per_sm = 4, .band = 1};
static const moe__blocks_schedule_t QUANTIZE_1X128_F32 = {
    .tile_n = 32, .tile_k = 256, .warps = 8, .blocks_per_sm = 4, .band = 1};
static const moe__blocks_schedule_t QUANTIZE_128X128 = {
    .tile_n = 128, .tile_k = 128, .warps = 8, .blocks_per_sm = 4, .band = 1};
static const moe__blocks_schedule_t QUANTIZE_128X128_F32 = {
    .tile_n = 128, .tile_k = 128, .warps = 16, .blocks_per_sm = 2, .band = 1};

static bool schedule_quantize_blocks(MlirOperation op) {
  bool bf16 = mlirTypeIsABF16(
      mlirShapedTypeGetElementType(mlirValueGetType(mlirOperationGetOperand(op, 0))));
  bool square = moe__op_granularity(op) == MOE__128X128;
  const moe__blocks_schedule_t *const schedules[2][2] = {
      {&QUANTIZE_1X128_F32, &QUANTIZE_1X128}, {&QUANTIZE_128X128_F32, &QUANTIZE_128X128}};
  if (mlirAttributeIsNull(moe__op_attribute(op, "schedule")))
    moe__blocks_schedule_write(op, schedules[square][bf16]);
  moe__blocks_schedule_t schedule;
  return moe__blocks_schedule_read(op, bf16 ? 2 : 4, square, &schedule);
}

static bool schedule_quantize_fp8(MlirOperation op) {
  if (moe__op_granularity(op) != MOE__ROW)
    return schedule_quantize_blocks(op);
  if (mlirAttributeIsNull(moe__op_attribute(op, "schedule")))
    moe__rows_schedule_write(op, &QUANTIZE_ROWS);
  moe__rows_schedule_t schedule;
  return moe__rows_schedule_read(op, &schedule);
}

/* 128 KB in flight per multiprocessor; tiles of 256 rows, so that there are few maxima to raise. Where
 * rows are scaled too, a block has more to do with a tile, and two take turns. */
static const moe__scale_schedule_t SCALE = {
    .rows_per_warp = 16, .warps = 16, .blocks_per_sm = 1, .band = 1};
static const moe__scale_schedule_t SCALE_BOTH = {
    .rows_per_warp = 16, .warps = 8, .blocks_per_sm = 2, .band = 1};

static bool schedule_scale(MlirOperation op, const moe__scale_schedule_t *standard) {
  if (mlirAttributeIsNull(moe__op_attribute(op, "schedule")))
    moe__scale_schedule_write(op, standard);
  moe__scale_schedule_t schedule;
  return moe__scale_schedule_read(op, &schedule);
}

static bool schedule_scale_fp8(MlirOperation op) {
  return schedule_scale(op, &SCALE);
}

static bool schedule_scale_fp8_dual(MlirOperation op) {
  return schedule_scale(op, &SCALE_BOTH);
}

/* ---- mx_quantize.dequantize, mx_quantize.dequantize_fp8 ---- */

/* Long runs of x, of 2 KB, fill the DRAM pages they open: most of the traffic is writes. Through shared
 * memory a tile is 32 KB of q, in runs of 256 bytes of q and of x. */
static const moe__dequantize_schedule_t DEQUANTIZE_ROWS_BF16 = {
    .tile_n = 16, .tile_k = 1024, .warps = 8, .blocks_per_sm = 4, .band = 1};
static const moe__dequantize_schedule_t DEQUANTIZE_ROWS_F32 = {
    .tile_n = 16, .tile_k = 512, .warps = 8, .blocks_per_sm = 4, .band = 1};
static const moe__dequantize_schedule_t DEQUANTIZE_COLUMNS = {
    .tile_n = 256, .tile_k = 128, .warps = 8, .blocks_per_sm = 4, .band = 8};

static bool schedule_dequantize(MlirOperation op) {
  bool bf16 = mlirTypeIsABF16(
      mlirShapedTypeGetElementType(mlirValueGetType(mlirOperationGetResult(op, 0))));
  bool columns = !moe__is_row_major(mlirValueGetType(mlirOperationGetOperand(op, 0)));
  if (mlirAttributeIsNull(moe__op_attribute(op, "schedule")))
    moe__dequantize_schedule_write(op, columns ? &DEQUANTIZE_COLUMNS
                                       : bf16  ? &DEQUANTIZE_ROWS_BF16
                                               : &DEQUANTIZE_ROWS_F32);
  moe__dequantize_schedule_t schedule;
  return moe__dequantize_schedule_read(op, bf16 ? 2 : 4, columns, moe__max_groups(op, 2),
                                       &schedule);
}

static bool schedule_dequantize_fp8(MlirOperation op) {
  return schedule_dequantize(op);
}

/* ---- mx_quantize.pack_scales, mx_quantize.pad_groups, mx_quantize.unpad_groups ---- */

/* A block takes whole rows of scales where they are known not to be long: parts of them leave threads
 * idle. */
static moe__pack_schedule_t pack_schedule(MlirType scales) {
  moe__pack_schedule_t schedule = {.tile_columns = 64, .warps = 8, .blocks_per_sm = 5};
  if (mlirShapedTypeIsDynamicDim(scales, 1))
    return schedule;
  int64_t columns = (mlirShapedTypeGetDimSize(scales, 1) + 31) / 32 * 32;
  if (columns <= 64 || columns > 320)
    return schedule;
  return (moe__pack_schedule_t){.tile_columns = (int)columns, .warps = 8, .blocks_per_sm = 4};
}

static bool schedule_pack_scales(MlirOperation op) {
  moe__pack_schedule_t schedule = pack_schedule(mlirValueGetType(mlirOperationGetOperand(op, 0)));
  if (mlirAttributeIsNull(moe__op_attribute(op, "schedule")))
    moe__pack_schedule_write(op, &schedule);
  return moe__pack_schedule_read(op, moe__max_groups(op, 1), &schedule);
}

/* Pieces of 2 KB: of most rows none is left over. 64 bytes in flight for each of 1280 threads. */
static const moe__move_schedule_t MOVE = {.vectors = 4, .warps = 8, .blocks_per_sm = 5};

static bool schedule_move(MlirOperation op) {
  if (mlirAttributeIsNull(moe__op_attribute(op, "schedule")))
    moe__move_schedule_write(op, &MOVE);
  moe__move_schedule_t schedule;
  return moe__move_schedule_read(op, moe__max_groups(op, 1), &schedule);
}

static bool schedule_pad_groups(MlirOperation op) {
  return schedule_move(op);
}

static bool schedule_unpad_groups(MlirOperation op) {
  return schedule_move(op);
}

/* ---- scaled_grouped_mm.scaled_mm ---- */

/* 128 x 256 is as much as two warpgroups can accumulate; with promoted sums a second accumulator
 * takes a part of it. Bands of 8 tile rows keep what concurrent blocks read in L2. */
static const moe__grouped_schedule_t GROUPED_FAST = {.tile_n = 256, .stages = 4, .band = 8};
static const moe__grouped_schedule_t GROUPED_PROMOTED = {.tile_n = 192, .stages = 4, .band = 8};

static bool schedule_scaled_mm(MlirOperation op) {
  bool promoted = mlirStringRefEqual(moe__op_string(op, "accumulate"),
                                     mlirStringRefCreateFromCString("promoted"));
  if (mlirAttributeIsNull(moe__op_attribute(op, "schedule")))
    moe__grouped_schedule_write(op, promoted ? &GROUPED_PROMOTED : &GROUPED_FAST);
  moe__grouped_schedule_t schedule;
  return moe__grouped_schedule_read(op, 1024, promoted, &schedule);
}

/* ---- The pass ---- */

static bool schedule_op(MlirOperation op, void *user) {
  (void)user;
#define MOE_KERNEL(op_name, symbol)                                                                \
  if (moe__op_is(op, op_name))                                                                     \
    return moe__##symbol##_has_kernel(op) && schedule_##symbol(op);
#include "passes/Kernels.def"
#undef MOE_KERNEL
  MlirStringRef name = moe__op_name(op);
  if (moe__op_in_dialect(op, "mx_quantize") || moe__op_in_dialect(op, "scaled_grouped_mm"))
    return moe__error(op, "'%.*s' has no kernel yet", (int)name.length, name.data);
  return true;
}

bool moe__run_select_schedule(MlirOperation module, const moe__pass_t *pass) {
  if (!moe__run_verify(module, pass)) /* the rest relies on it */
    return false;
  return moe__walk(module, schedule_op, NULL);
}
