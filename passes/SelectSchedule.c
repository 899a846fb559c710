/* SelectSchedule.c - gives each op its schedule, from tables of candidates per kernel and class of op.
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

#include <stdlib.h>
#include <string.h>

/* ---- Candidates ---- */

/* What is asked for, and what there is. */
typedef struct selection_t {
  int candidate;
  int count; /* of candidates, of the op that has most of them */
} selection_t;

/* The schedules of one kernel for one class of op: the default, then others worth measuring. Each is
 * one that every op of the class can have. select_<kind> gives an op its candidate, unless it has a
 * schedule: of a list that is shorter the default. */
#define MOE__CANDIDATES(kind)                                                                      \
  typedef struct kind##_candidates_t {                                                             \
    int count;                                                                                     \
    const moe__##kind##_schedule_t *schedules;                                                     \
  } kind##_candidates_t;                                                                           \
  static void select_##kind(MlirOperation op, selection_t *selection,                              \
                            kind##_candidates_t candidates) {                                      \
    if (!mlirAttributeIsNull(moe__op_attribute(op, "schedule")))                                   \
      return;                                                                                      \
    if (candidates.count > selection->count)                                                       \
      selection->count = candidates.count;                                                         \
    int number = selection->candidate < candidates.count ? selection->candidate : 0;               \
    moe__##kind##_schedule_write(op, &candidates.schedules[number]);                               \
  }
MOE__CANDIDATES(quantize)
MOE__CANDIDATES(rows)
MOE__CANDIDATES(scale)
MOE__CANDIDATES(blocks)
MOE__CANDIDATES(stream)
MOE__CANDIDATES(dequantize)
MOE__CANDIDATES(pack)
MOE__CANDIDATES(move)
MOE__CANDIDATES(grouped)
#undef MOE__CANDIDATES

#define LIST(schedules)                                                                            \
  { sizeof(schedules) / sizeof(schedules)[0], (schedules) }

/* ---- mx_quantize.quantize along the last dimension, quantize_fp8 in blocks of 1 x 128 ---- */

static bool is_bf16(MlirValue x) {
  return mlirTypeIsABF16(mlirShapedTypeGetElementType(mlirValueGetType(x)));
}

/* chunks, warps, blocks_per_sm, persistent
 *
 * 64 KB of x in flight per multiprocessor, or more. The default is not persistent: blocks that take
 * their chunks once are dealt out until the end, whether or not they divide among multiprocessors. */
static const moe__stream_schedule_t QUANTIZE_STREAM_BF16[] = {
    {1, 8, 6, 0},  {2, 8, 4, 0}, {1, 4, 12, 0}, {2, 4, 8, 0},
    {1, 16, 3, 0}, {4, 8, 2, 0}, {1, 8, 6, 1},  {2, 8, 4, 1},
};
static const moe__stream_schedule_t QUANTIZE_STREAM_F32[] = {
    {1, 8, 4, 0},  {2, 8, 2, 0}, {1, 4, 8, 0}, {2, 4, 5, 0},
    {1, 16, 2, 0}, {1, 8, 4, 1}, {2, 8, 2, 1},
};
/* By whether x is bf16. */
static const stream_candidates_t QUANTIZE_STREAM[2] = {LIST(QUANTIZE_STREAM_F32),
                                                       LIST(QUANTIZE_STREAM_BF16)};

static bool schedule_quantize_stream(MlirOperation op, selection_t *selection) {
  bool bf16 = is_bf16(mlirOperationGetOperand(op, 0));
  select_stream(op, selection, QUANTIZE_STREAM[bf16]);
  moe__stream_schedule_t schedule;
  return moe__stream_schedule_read(op, bf16 ? 2 : 4, &schedule);
}

/* ---- mx_quantize: tiles out in rows, in columns and in both ---- */

/* By direction: rows, columns, both. MX in rows alone is the stream above. */
typedef enum output_t { ROWS, COLUMNS, BOTH } output_t;

/* tile_n, tile_k, stages, output_stages, warps, blocks_per_sm, band
 *
 * Two persistent blocks per multiprocessor, so that one quantizes while the other waits; 64 or 96 KB
 * each in flight. Tiles are ordered down the columns of q in bands of 1024 where columns are written: a
 * wave of blocks then writes long runs of q, and each DRAM page it opens is filled. Where only rows are
 * written, in and out are one order, and so is that of the tiles. */
static const moe__quantize_schedule_t QUANTIZE_COLUMNS_BF16[] = {
    {128, 128, 3, 1, 8, 2, 1024}, {128, 128, 3, 1, 8, 2, 64},  {128, 128, 5, 2, 8, 1, 1024},
    {128, 128, 2, 2, 8, 2, 1024}, {256, 64, 3, 1, 8, 2, 1024}, {256, 128, 2, 1, 16, 1, 1024},
};
static const moe__quantize_schedule_t QUANTIZE_COLUMNS_F32[] = {
    {128, 64, 2, 2, 8, 2, 1024}, {128, 64, 2, 2, 8, 2, 64},   {128, 64, 5, 2, 8, 1, 1024},
    {128, 64, 3, 1, 8, 2, 1024}, {256, 32, 2, 2, 8, 2, 1024}, {128, 128, 2, 2, 16, 1, 1024},
};
static const moe__quantize_schedule_t QUANTIZE_BOTH_BF16[] = {
    {128, 256, 2, 1, 16, 1, 1}, {128, 256, 2, 1, 16, 1, 16}, {128, 128, 2, 1, 8, 2, 1},
    {128, 128, 4, 1, 8, 1, 1},  {256, 64, 2, 1, 8, 2, 16},   {256, 128, 2, 1, 16, 1, 16},
};
static const moe__quantize_schedule_t QUANTIZE_BOTH_F32[] = {
    {128, 128, 2, 1, 16, 1, 1}, {128, 128, 2, 1, 16, 1, 16}, {128, 64, 2, 1, 8, 2, 16},
    {128, 64, 5, 1, 8, 1, 16},  {128, 32, 4, 1, 4, 2, 16},
};
static const quantize_candidates_t QUANTIZE[][2] = {
    [COLUMNS] = {LIST(QUANTIZE_COLUMNS_F32), LIST(QUANTIZE_COLUMNS_BF16)},
    [BOTH] = {LIST(QUANTIZE_BOTH_F32), LIST(QUANTIZE_BOTH_BF16)},
};

/* candidates: by direction, and by whether x is bf16. */
static bool schedule_tiles(MlirOperation op, selection_t *selection, output_t output,
                           int max_groups, const quantize_candidates_t candidates[][2]) {
  select_quantize(op, selection, candidates[output][is_bf16(mlirOperationGetOperand(op, 0))]);
  moe__quantize_schedule_t schedule;
  moe__directions_t directions = {.rows = output != COLUMNS, .columns = output != ROWS};
  return moe__quantize_schedule_read(op, directions, max_groups, &schedule);
}

static output_t output_of(MlirOperation op) {
  MlirType x = mlirValueGetType(mlirOperationGetOperand(op, 0));
  return moe__op_integer(op, "axis") == mlirShapedTypeGetRank(x) - 1 ? ROWS : COLUMNS;
}

static bool schedule_quantize(MlirOperation op, selection_t *selection) {
  return output_of(op) == ROWS ? schedule_quantize_stream(op, selection)
                               : schedule_tiles(op, selection, COLUMNS, 0, QUANTIZE);
}

static bool schedule_quantize_dual(MlirOperation op, selection_t *selection) {
  return schedule_tiles(op, selection, BOTH, 0, QUANTIZE);
}

/* As for MX; casting takes less time, and reads factors besides. */
static const moe__quantize_schedule_t CAST_ROWS_BF16[] = {
    {32, 512, 2, 2, 8, 2, 1}, {32, 1024, 2, 2, 16, 1, 1}, {64, 256, 2, 2, 8, 2, 1},
    {32, 256, 2, 2, 4, 3, 1}, {128, 128, 2, 2, 8, 2, 1},
};
static const moe__quantize_schedule_t CAST_ROWS_F32[] = {
    {32, 256, 2, 2, 8, 2, 1}, {64, 128, 2, 2, 8, 2, 1}, {64, 128, 5, 2, 8, 1, 1},
    {32, 128, 4, 2, 4, 2, 1}, {128, 64, 2, 2, 8, 2, 1},
};
static const moe__quantize_schedule_t CAST_COLUMNS_BF16[] = {
    {128, 128, 2, 2, 8, 2, 1024}, {128, 128, 2, 2, 8, 2, 64},    {128, 128, 5, 1, 8, 1, 1024},
    {256, 64, 2, 2, 8, 2, 1024},  {256, 128, 2, 1, 16, 1, 1024},
};
static const moe__quantize_schedule_t CAST_COLUMNS_F32[] = {
    {128, 64, 2, 2, 8, 2, 1024}, {128, 64, 2, 2, 8, 2, 64},     {128, 64, 5, 2, 8, 1, 1024},
    {256, 32, 2, 2, 8, 2, 1024}, {128, 128, 2, 2, 16, 1, 1024},
};
static const moe__quantize_schedule_t CAST_BOTH_BF16[] = {
    {128, 128, 2, 1, 8, 2, 1}, {128, 128, 2, 1, 8, 2, 16}, {128, 128, 4, 1, 8, 1, 16},
    {128, 64, 4, 1, 4, 2, 16}, {256, 64, 2, 1, 8, 2, 16},
};
static const moe__quantize_schedule_t CAST_BOTH_F32[] = {
    {128, 128, 2, 1, 16, 1, 1}, {128, 128, 2, 1, 16, 1, 16}, {128, 64, 2, 1, 8, 2, 16},
    {128, 64, 5, 1, 8, 1, 16},  {128, 32, 4, 1, 4, 2, 16},
};
static const quantize_candidates_t CAST[][2] = {
    [ROWS] = {LIST(CAST_ROWS_F32), LIST(CAST_ROWS_BF16)},
    [COLUMNS] = {LIST(CAST_COLUMNS_F32), LIST(CAST_COLUMNS_BF16)},
    [BOTH] = {LIST(CAST_BOTH_F32), LIST(CAST_BOTH_BF16)},
};

static bool schedule_cast(MlirOperation op, selection_t *selection, output_t output, int offs) {
  MlirValue groups = moe__op_operand(op, offs);
  int max_groups = mlirValueIsNull(groups) ? 0 : moe__cast_max_groups(mlirValueGetType(groups));
  return schedule_tiles(op, selection, output, max_groups, CAST);
}

static bool schedule_cast_fp8(MlirOperation op, selection_t *selection) {
  return schedule_cast(op, selection, output_of(op), 2);
}

static bool schedule_cast_fp8_dual(MlirOperation op, selection_t *selection) {
  return schedule_cast(op, selection, BOTH, 3);
}

static bool schedule_cast_fp8_pair(MlirOperation op, selection_t *selection) {
  return schedule_cast(op, selection, COLUMNS, 4);
}

/* ---- mx_quantize.quantize_fp8, mx_quantize.scale_fp8 ---- */

/* buffer_kb, stages, warps, blocks_per_sm
 * Most of the shared memory for rows: half of it waits to be read, half is being read. */
static const moe__rows_schedule_t QUANTIZE_ROW_BY_ROW[] = {
    {208, 64, 16, 1}, {208, 64, 8, 1},  {104, 64, 8, 2},
    {208, 64, 12, 1}, {208, 64, 24, 1}, {160, 64, 16, 1},
};
static const rows_candidates_t QUANTIZE_ROW = LIST(QUANTIZE_ROW_BY_ROW);

/* warps, blocks_per_sm, band: 128 bytes of x in flight for each of 1024 threads, or 256 for 512. */
static const moe__blocks_schedule_t QUANTIZE_128X128_BF16[] = {
    {8, 4, 1}, {8, 4, 8}, {8, 3, 1}, {4, 4, 1}, {16, 2, 1},
};
static const moe__blocks_schedule_t QUANTIZE_128X128_F32[] = {
    {16, 2, 1},
    {16, 2, 8},
    {8, 2, 1},
    {32, 1, 1},
};
/* By whether x is bf16. */
static const blocks_candidates_t QUANTIZE_BLOCKS[2] = {LIST(QUANTIZE_128X128_F32),
                                                       LIST(QUANTIZE_128X128_BF16)};

static bool schedule_quantize_blocks(MlirOperation op, selection_t *selection) {
  bool bf16 = is_bf16(mlirOperationGetOperand(op, 0));
  select_blocks(op, selection, QUANTIZE_BLOCKS[bf16]);
  moe__blocks_schedule_t schedule;
  return moe__blocks_schedule_read(op, bf16 ? 2 : 4, &schedule);
}

static bool schedule_quantize_fp8(MlirOperation op, selection_t *selection) {
  if (moe__op_granularity(op) == MOE__1X128)
    return schedule_quantize_stream(op, selection);
  if (moe__op_granularity(op) == MOE__128X128)
    return schedule_quantize_blocks(op, selection);
  select_rows(op, selection, QUANTIZE_ROW);
  moe__rows_schedule_t schedule;
  return moe__rows_schedule_read(op, &schedule);
}

/* rows_per_warp, warps, blocks_per_sm, band
 *
 * 128 KB in flight per multiprocessor; tiles of 256 rows, so that there are few maxima to raise. Where
 * rows are scaled too, a block has more to do with a tile, and two take turns. */
static const moe__scale_schedule_t SCALE_COLUMNS[] = {
    {16, 16, 1, 1}, {16, 16, 1, 8}, {16, 8, 2, 1}, {8, 16, 2, 1}, {8, 8, 4, 1}, {16, 4, 4, 1},
};
static const moe__scale_schedule_t SCALE_BOTH[] = {
    {16, 8, 2, 1}, {16, 8, 2, 8}, {16, 16, 1, 1}, {8, 16, 2, 1}, {8, 8, 4, 1}, {8, 8, 3, 1},
};
static const scale_candidates_t SCALE = LIST(SCALE_COLUMNS), SCALE_DUAL = LIST(SCALE_BOTH);

static bool schedule_scale(MlirOperation op, selection_t *selection,
                           scale_candidates_t candidates) {
  select_scale(op, selection, candidates);
  moe__scale_schedule_t schedule;
  return moe__scale_schedule_read(op, &schedule);
}

static bool schedule_scale_fp8(MlirOperation op, selection_t *selection) {
  return schedule_scale(op, selection, SCALE);
}

static bool schedule_scale_fp8_dual(MlirOperation op, selection_t *selection) {
  return schedule_scale(op, selection, SCALE_DUAL);
}

static bool schedule_scale_fp8_pair(MlirOperation op, selection_t *selection) {
  return schedule_scale(op, selection, SCALE);
}

/* ---- mx_quantize.dequantize, mx_quantize.dequantize_fp8 ---- */

/* tile_n, tile_k, warps, blocks_per_sm, band
 *
 * Long runs of x, of 2 KB, fill the DRAM pages they open: most of the traffic is writes. Through shared
 * memory a tile is 32 KB of q, in runs of 256 bytes of q and of x. */
static const moe__dequantize_schedule_t DEQUANTIZE_ROWS_BF16[] = {
    {16, 1024, 8, 4, 1}, {16, 1024, 8, 4, 8}, {32, 512, 8, 4, 1},
    {8, 1024, 8, 4, 1},  {8, 2048, 8, 4, 1},  {16, 2048, 8, 2, 1},
};
static const moe__dequantize_schedule_t DEQUANTIZE_ROWS_F32[] = {
    {16, 512, 8, 4, 1}, {16, 512, 8, 4, 8}, {32, 256, 8, 4, 1},
    {8, 512, 8, 4, 1},  {8, 1024, 8, 4, 1}, {16, 1024, 8, 2, 1},
};
static const moe__dequantize_schedule_t DEQUANTIZE_COLUMNS[] = {
    {256, 128, 8, 4, 8}, {256, 128, 8, 4, 1}, {256, 128, 8, 4, 64},
    {128, 128, 8, 4, 8}, {128, 256, 8, 4, 8}, {256, 256, 16, 2, 8},
};
/* By whether q is column-major, and by whether x is bf16. */
static const dequantize_candidates_t DEQUANTIZE[2][2] = {
    {LIST(DEQUANTIZE_ROWS_F32), LIST(DEQUANTIZE_ROWS_BF16)},
    {LIST(DEQUANTIZE_COLUMNS), LIST(DEQUANTIZE_COLUMNS)},
};

static bool schedule_dequantize(MlirOperation op, selection_t *selection) {
  bool bf16 = is_bf16(mlirOperationGetResult(op, 0));
  bool columns = !moe__is_row_major(mlirValueGetType(mlirOperationGetOperand(op, 0)));
  select_dequantize(op, selection, DEQUANTIZE[columns][bf16]);
  moe__dequantize_schedule_t schedule;
  return moe__dequantize_schedule_read(op, bf16 ? 2 : 4, columns, moe__max_groups(op, 2),
                                       &schedule);
}

static bool schedule_dequantize_fp8(MlirOperation op, selection_t *selection) {
  return schedule_dequantize(op, selection);
}

/* ---- mx_quantize.pack_scales, mx_quantize.pad_groups, mx_quantize.unpad_groups ---- */

/* tile_columns, warps, blocks_per_sm */
static const moe__pack_schedule_t PACK_TILES[] = {
    {64, 8, 5}, {128, 8, 4}, {32, 8, 5}, {64, 16, 2}, {64, 4, 8},
};
enum { PACK_COUNT = sizeof PACK_TILES / sizeof PACK_TILES[0] };

/* A block takes whole rows of scales where they are known not to be long: parts of them leave threads
 * idle. */
static moe__pack_schedule_t pack_default(MlirType scales) {
  if (mlirShapedTypeIsDynamicDim(scales, 1))
    return PACK_TILES[0];
  int64_t columns = (mlirShapedTypeGetDimSize(scales, 1) + 31) / 32 * 32;
  if (columns <= 64 || columns > 320)
    return PACK_TILES[0];
  return (moe__pack_schedule_t){.tile_columns = (int)columns, .warps = 8, .blocks_per_sm = 4};
}

static bool schedule_pack_scales(MlirOperation op, selection_t *selection) {
  moe__pack_schedule_t schedules[PACK_COUNT], schedule;
  memcpy(schedules, PACK_TILES, sizeof schedules);
  schedules[0] = pack_default(mlirValueGetType(mlirOperationGetOperand(op, 0)));
  select_pack(op, selection, (pack_candidates_t){PACK_COUNT, schedules});
  return moe__pack_schedule_read(op, moe__max_groups(op, 1), &schedule);
}

/* vectors, warps, blocks_per_sm
 * Pieces of 2 KB: of most rows none is left over. 64 bytes in flight for each of 1280 threads. */
static const moe__move_schedule_t MOVE_PIECES[] = {
    {4, 8, 5}, {4, 8, 4}, {8, 8, 4}, {2, 8, 5}, {4, 4, 8}, {4, 16, 2},
};
static const move_candidates_t MOVE = LIST(MOVE_PIECES);

static bool schedule_move(MlirOperation op, selection_t *selection) {
  select_move(op, selection, MOVE);
  moe__move_schedule_t schedule;
  return moe__move_schedule_read(op, moe__max_groups(op, 1), &schedule);
}

static bool schedule_pad_groups(MlirOperation op, selection_t *selection) {
  return schedule_move(op, selection);
}

static bool schedule_unpad_groups(MlirOperation op, selection_t *selection) {
  return schedule_move(op, selection);
}

/* ---- scaled_grouped_mm.scaled_mm ---- */

/* swap_operands, tile_n, stages, band, cluster
 * 128 x 256 is as much as two warpgroups can accumulate; with promoted sums a second accumulator
 * takes a part of it. Bands of 8 tile rows keep what concurrent blocks read in L2. */
static const moe__grouped_schedule_t GROUPED_FAST[] = {
    {0, 256, 4, 8, 1}, {0, 256, 4, 4, 1}, {0, 256, 4, 16, 1},
    {0, 256, 3, 8, 1}, {0, 192, 4, 8, 1}, {0, 128, 6, 8, 1},
};
static const moe__grouped_schedule_t GROUPED_PROMOTED[] = {
    {0, 192, 4, 8, 1}, {0, 192, 4, 4, 1}, {0, 192, 4, 16, 1}, {0, 192, 3, 8, 1}, {0, 128, 6, 8, 1},
};
/* The same where groups are rows: operands may be swapped. */
static const moe__grouped_schedule_t ROWS_FAST[] = {
    {0, 256, 4, 8, 1}, {0, 256, 4, 4, 1}, {0, 256, 4, 16, 1}, {0, 192, 4, 8, 1},
    {0, 128, 6, 8, 1}, {1, 16, 10, 8, 1}, {1, 32, 9, 8, 1},   {1, 64, 7, 8, 1},
};
static const moe__grouped_schedule_t ROWS_PROMOTED[] = {
    {0, 192, 4, 8, 1}, {0, 192, 4, 4, 1}, {0, 192, 4, 16, 1}, {0, 128, 6, 8, 1},
    {1, 16, 10, 8, 1}, {1, 32, 9, 8, 1},  {1, 64, 7, 8, 1},
};
/* Few tokens for each expert, at most as many as a tile has columns: all is reading the weights, and
 * tiles are as narrow as the groups. */
static const moe__grouped_schedule_t SMALL_16[] = {
    {1, 16, 10, 8, 1}, {1, 32, 9, 8, 1}, {1, 16, 6, 8, 1}};
static const moe__grouped_schedule_t SMALL_32[] = {
    {1, 32, 9, 8, 1}, {1, 16, 10, 8, 1}, {1, 64, 7, 8, 1}};
static const moe__grouped_schedule_t SMALL_64[] = {
    {1, 64, 7, 8, 1}, {1, 32, 9, 8, 1}, {1, 128, 5, 8, 1}};

/* By whether sums are promoted, and whether groups are rows. */
static const grouped_candidates_t GROUPED[2][2] = {{LIST(GROUPED_FAST), LIST(ROWS_FAST)},
                                                   {LIST(GROUPED_PROMOTED), LIST(ROWS_PROMOTED)}};

/* By the tokens that each expert has on average, where they are known. */
static grouped_candidates_t product_candidates(MlirOperation op, bool promoted, bool gradient) {
  MlirType qa = mlirValueGetType(mlirOperationGetOperand(op, 0));
  MlirType qb = mlirValueGetType(mlirOperationGetOperand(op, 1));
  int rows = mlirShapedTypeGetRank(qa) == 3 ? 1 : 0;
  if (!gradient && !mlirShapedTypeIsDynamicDim(qa, rows) && !mlirShapedTypeIsDynamicDim(qb, 0)) {
    int64_t tokens = mlirShapedTypeGetDimSize(qa, rows);
    if (rows == 0)
      tokens /= mlirShapedTypeGetDimSize(qb, 0);
    if (tokens <= 16)
      return (grouped_candidates_t)LIST(SMALL_16);
    if (tokens <= 32)
      return (grouped_candidates_t)LIST(SMALL_32);
    if (tokens <= 64)
      return (grouped_candidates_t)LIST(SMALL_64);
  }
  return GROUPED[promoted][!gradient];
}

static bool schedule_scaled_mm(MlirOperation op, selection_t *selection) {
  bool promoted = mlirStringRefEqual(moe__op_string(op, "accumulate"),
                                     mlirStringRefCreateFromCString("promoted"));
  bool gradient = mlirShapedTypeGetRank(mlirValueGetType(mlirOperationGetOperand(op, 1))) == 2;
  int max_groups = moe__max_groups(op, moe__mm_offs_operand(op));
  select_grouped(op, selection, product_candidates(op, promoted, gradient));
  moe__grouped_schedule_t schedule;
  return moe__grouped_schedule_read(op, max_groups, promoted, gradient, &schedule);
}

/* ---- The pass ---- */

static bool schedule_op(MlirOperation op, void *user) {
  selection_t *selection = user;
#define MOE_KERNEL(op_name, symbol)                                                                \
  if (moe__op_is(op, op_name))                                                                     \
    return moe__##symbol##_has_kernel(op) && schedule_##symbol(op, selection);
#include "passes/Kernels.def"
#undef MOE_KERNEL
  MlirStringRef name = moe__op_name(op);
  if (moe__op_in_dialect(op, "mx_quantize") || moe__op_in_dialect(op, "scaled_grouped_mm"))
    return moe__error(op, "'%.*s' has no kernel yet", (int)name.length, name.data);
  return true;
}

bool moe__select_schedules(MlirOperation module, int candidate, int *out_count) {
  selection_t selection = {.candidate = candidate, .count = 1};
  if (!moe__walk(module, schedule_op, &selection))
    return false;
  *out_count = selection.count;
  return candidate < selection.count ||
         moe__error(module, "there is no candidate %d; the ops have %d, from 0 on", candidate,
                    selection.count);
}

bool moe__run_select_schedule(MlirOperation module, const moe__pass_t *pass) {
  int count;
  const char *text = moe__pass_option(pass, "candidate");
  size_t digits = strspn(text, "0123456789");
  if (!digits || digits > 3 || text[digits])
    return moe__error(module, "moe-select-schedule: candidate '%s' is not a number from 0 to 999",
                      text);
  return moe__run_verify(module, pass) && /* the rest relies on it */
         moe__select_schedules(module, atoi(text), &count);
}
