/* QuantizeTiles.c - the kernels of mx_quantize.quantize along the dimension before the last, and
 * of mx_quantize.quantize_dual: along that and the last one from one read.
 *
 * Why kernels of their own: people transpose, copy, quantize along the last axis and transpose
 * back. Here every byte moves once, by the pipeline of CastTiles.h. What is left for this file
 * is an MX block: find amax and scale, cast, and store the scale.
 *
 * In columns an MX block is a lane's part of a strip, the 32 rows of one column. In rows it is a
 * half (bf16) or all (fp32) of a lane's 128 bytes; the lanes that have the pieces of one row
 * next to each other put their scales together, so that few stores write them.
 *
 * MX blocks of tokens in groups are counted from the start of each group, and so are the tiles.
 * Where groups are aligned, the rows behind the end of one are zeros, and so are the scales of MX
 * blocks of only such rows.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Builder/Inspect.h"
#include "lib/Device/Warp.h"
#include "lib/Dialect/Shapes.h"
#include "lib/Kernels/Requirements.h"
#include "lib/Kernels/mx_quantize/CastKernel.h"

#include "mlir-c/BuiltinTypes.h"

#define MX_BLOCK_BITS 5

typedef struct quantize_t {
  moe__kernel_t kernel;
  moe__cast_tiles_t tiles;
  moe__mx_mode_t mode;
  MlirValue scales[2]; /* by direction */
} quantize_t;

/* ---- An MX block ---- */

static MlirValue pack(quantize_t *s, const MlirValue elements[4], MlirValue reciprocal) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue scaled[4];
  for (int i = 0; i < 4; i++)
    scaled[i] = moe__fmul(b, elements[i], reciprocal);
  return moe__fp8_pack4(b, scaled, s->tiles.element);
}

/* Address of the scale that moe__cast_scale_number counts. */
static MlirValue scale_address(quantize_t *s, const moe__cast_unit_t *unit, MlirValue rows,
                               MlirValue columns, MlirValue row, MlirValue column) {
  moe__builder_t *b = &s->kernel.builder;
  return moe__offset(b, s->scales[unit->direction],
                     moe__cast_scale_number(&s->tiles, unit, rows, columns, row, column));
}

/* ---- Columns ---- */

/* Which row of the scales is that of the lane's MX blocks. Those of group g begin in row
 * ends[g-1] / 32 + g. */
static MlirValue row_of_scales(quantize_t *s, const moe__cast_unit_t *unit) {
  moe__builder_t *b = &s->kernel.builder;
  if (!s->tiles.by_group)
    return moe__lshr(b, unit->row, MX_BLOCK_BITS);
  if (s->tiles.aligned)
    return moe__lshr(b, unit->written_row, MX_BLOCK_BITS);
  MlirValue start, end;
  moe__groups_range(&s->tiles.table, unit->group, &start, &end);
  MlirValue of_group = moe__add(b, moe__lshr(b, start, MX_BLOCK_BITS), unit->group);
  return moe__add(b, of_group, moe__lshr(b, moe__sub(b, unit->row, start), MX_BLOCK_BITS));
}

/* Writes the scales of the lane's columns, where they lie inside the tensor. */
static void store_column_scales(quantize_t *s, const moe__cast_unit_t *unit,
                                const MlirValue *scales) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue rows = moe__lshr(b, s->tiles.n.value, MX_BLOCK_BITS),
            columns = s->tiles.tensors[0].k.value;
  MlirValue row = row_of_scales(s, unit);
  MlirValue line = s->tiles.by_group ? unit->row : row;
  MlirValue end = s->tiles.by_group ? unit->row_end : rows;
  bool pair = s->tiles.elements.per_word == 2;
  /* K is a multiple of 16: the two columns of a lane are both inside or both outside. */
  MlirValue is_inside = moe__ult(b, unit->column, columns);
  if (!s->tiles.aligned)
    is_inside = moe__and(b, moe__ult(b, line, end), is_inside);
  MOE__IF (b, is_inside) {
    MlirValue bytes = scales[0];
    if (pair)
      bytes = moe__or(b, bytes, moe__shl(b, scales[1], 8));
    moe__store(b, moe__trunc(b, bytes, pair ? b->i16 : b->i8),
               scale_address(s, unit, rows, columns, row, unit->column));
  }
}

static void quantize_columns(quantize_t *s, const moe__cast_unit_t *unit, const MlirValue *words) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue amax = moe__words_amax(b, &s->tiles.elements, words, MOE__CAST_WORDS),
            scales[2] = {{NULL}};
  if (s->tiles.by_group) {
    MlirValue strip_end = moe__add(b, unit->row, MOE_MX_BLOCK);
    MlirValue is_cut = moe__zext(b, moe__ult(b, unit->row_end, strip_end), b->i32);
    MOE__FOR (b, once, 0, is_cut, 1, &amax) {
      (void)once;
      MlirValue own[MOE__CAST_WORDS];
      moe__cast_words_of_group(&s->tiles, unit, words, own);
      amax = moe__words_amax(b, &s->tiles.elements, own, MOE__CAST_WORDS);
    }
  }
  for (int c = 0; c < s->tiles.elements.per_word; c++) {
    scales[c] = moe__mx_scale(b, moe__word_element(b, &s->tiles.elements, amax, c), s->mode,
                              s->tiles.element);
    MlirValue reciprocal = moe__mx_reciprocal(b, scales[c]), packed[MOE__CAST_WORDS / 4];
    for (int i = 0; i < MOE__CAST_WORDS / 4; i++) {
      MlirValue elements[4];
      for (int j = 0; j < 4; j++)
        elements[j] = moe__word_element(b, &s->tiles.elements, words[4 * i + j], c);
      packed[i] = pack(s, elements, reciprocal);
    }
    moe__cast_store(&s->tiles, unit, c, packed);
  }
  store_column_scales(s, unit, scales);
}

/* ---- Rows ---- */

/* The scales of all pieces of a row, in the lanes that have the first ones. */
static MlirValue join_scales(quantize_t *s, MlirValue scales) {
  moe__builder_t *b = &s->kernel.builder;
  int single = s->tiles.elements.per_word, pieces = moe__cast_pieces(&s->tiles);
  MlirValue joint = scales;
  for (int i = 1; i < pieces; i++) {
    MlirValue lane = moe__add(b, s->tiles.lane, i * MOE__WARP / pieces);
    joint = moe__or(b, joint, moe__shl(b, moe__shuffle(b, scales, lane), 8 * single * i));
  }
  return joint;
}

/* ---- Row scales of a run ----
 *
 * A tile has four bytes of scales for each of its rows, in lines of their own: stores of so
 * little cost the memory as much as whole ones. So those of several tiles side by side, a run, are
 * brought together in shared memory first.
 *
 * - A CTA that goes on takes the tiles of 512 columns in turn, and then stores 16 bytes for each
 *   row. With 1024 columns they are whole sectors, but there are half as many runs, which divide
 *   worse among the CTAs.
 * - CTAs that end form a cluster, and each sends its scales to the CTA that stores the rows: parts
 *   of a tile's rows belong to the CTAs in turn. With 8 CTAs of 128 columns a row has a whole
 *   sector. The scales land some time later, and are waited for at an mbarrier: a barrier of the
 *   cluster would wait for all stores to memory besides. */

/* Scales of a row that a CTA that goes on stores at once: half of the least that memory moves. */
#define RUN_SCALES 16

/* Scales that a row has room for in shared memory, and those of a run. */
static int row_scales(const moe__cast_schedule_t *schedule) {
  return schedule->cluster > 1 ? schedule->cluster * schedule->tile_k / MOE_MX_BLOCK : RUN_SCALES;
}

/* Where the scales of a row (i32) of the tile are brought together. */
static MlirValue staged_scales(quantize_t *s, MlirValue row, MlirValue first) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue offset = moe__add(b, moe__mul(b, row, row_scales(&s->tiles.schedule)), first);
  return moe__offset_by(b, moe__offset(b, s->kernel.shared, offset), s->tiles.layout.staging);
}

static MlirValue landed_barrier(quantize_t *s) {
  return moe__offset_by(&s->kernel.builder, s->kernel.shared, s->tiles.layout.landed);
}

static void initialize_landed(void *user) {
  quantize_t *s = user;
  moe__mbarrier_initialize(&s->kernel.builder, landed_barrier(s), 1);
}

/* Rows of a part of the tile; and how many CTAs of the cluster have tiles of the run that begins at
 * `column`, among which the parts are divided (i32). */
static int part_rows(const moe__cast_schedule_t *schedule) {
  return schedule->tile_n / schedule->cluster;
}

static MlirValue sharers(quantize_t *s, MlirValue column) {
  moe__builder_t *b = &s->kernel.builder;
  const moe__cast_schedule_t *schedule = &s->tiles.schedule;
  MlirValue left = moe__sub(b, s->tiles.tensors[0].k.value, column);
  return moe__umin(b, moe__ceil_div(b, left, schedule->tile_k), schedule->cluster);
}

/* Puts the unit's scales down, in the CTA that will store them. */
static void stage_row_scales(quantize_t *s, const moe__cast_unit_t *unit, MlirValue scales) {
  moe__builder_t *b = &s->kernel.builder;
  const moe__cast_schedule_t *schedule = &s->tiles.schedule;
  int pieces = moe__cast_pieces(&s->tiles), count = pieces * s->tiles.elements.per_word;
  MlirValue joint = join_scales(s, scales);
  MlirValue to = staged_scales(s, unit->tile_row, moe__lshr(b, unit->run_column, MX_BLOCK_BITS));
  MOE__IF (b, moe__ult(b, s->tiles.lane, MOE__WARP / pieces)) {
    if (schedule->cluster > 1) {
      MlirValue part = moe__udiv(b, unit->tile_row, part_rows(schedule));
      MlirValue run = moe__sub(b, unit->column, unit->run_column);
      moe__store_async(b, joint, to, landed_barrier(s), moe__urem(b, part, sharers(s, run)));
    } else {
      MlirType type = count == 4 ? b->i32 : count == 2 ? b->i16 : b->i8;
      moe__store(b, count == 4 ? joint : moe__trunc(b, joint, type), to);
    }
  }
}

/* What a CTA stores: the scales of rows of its tile. */
typedef struct stored_scales_t {
  MlirValue batch, row, first; /* i32: of the tile; the run's first scale of a row */
  MlirValue bytes, rows;       /* i32: scales of a row; rows of the tile that exist */
  MlirValue part, step, count; /* i32: the CTA's first part of the rows, steps between parts; rows
                                * of its parts */
} stored_scales_t;

/* Stores them by elements of this type, side by side in lanes: a row has whole sectors, or parts of
 * them, of one instruction. */
static void store_scales_by(quantize_t *s, const stored_scales_t *stored, MlirType type,
                            int bytes) {
  moe__builder_t *b = &s->kernel.builder;
  moe__cast_tiles_t *tiles = &s->tiles;
  const moe__cast_schedule_t *schedule = &tiles->schedule;
  MlirValue mx_blocks = moe__lshr(b, tiles->tensors[0].k.value, MX_BLOCK_BITS);
  int of_row = row_scales(schedule) / bytes;
  if (of_row == 0)
    return; /* no run has so many */
  MlirValue all = moe__mul(b, stored->count, of_row);
  MOE__FOR (b, index, s->kernel.thread, all, schedule->warps * MOE__WARP) {
    MlirValue row = moe__udiv(b, index, of_row);
    MlirValue at = moe__mul(b, moe__urem(b, index, of_row), bytes);
    if (schedule->cluster > 1) {
      MlirValue turn = moe__udiv(b, row, part_rows(schedule));
      MlirValue part = moe__add(b, stored->part, moe__mul(b, turn, stored->step));
      row = moe__add(b, moe__mul(b, part, part_rows(schedule)),
                     moe__urem(b, row, part_rows(schedule)));
    }
    MlirValue is_there =
        moe__and(b, moe__ult(b, row, stored->rows), moe__ult(b, at, stored->bytes));
    MOE__IF (b, is_there) {
      moe__cast_unit_t unit = {.direction = MOE__ROWS, .batch = stored->batch};
      MlirValue to = scale_address(s, &unit, tiles->n.value, mx_blocks,
                                   moe__add(b, stored->row, row), stored->first);
      moe__store(b, moe__load(b, staged_scales(s, row, at), type), moe__offset(b, to, at));
    }
  }
}

/* Of a cluster: waits for the scales of the CTA's parts. */
static void await_scales(quantize_t *s, stored_scales_t *stored, MlirValue column) {
  moe__builder_t *b = &s->kernel.builder;
  const moe__cast_schedule_t *schedule = &s->tiles.schedule;
  MlirValue rank = s->kernel.cluster_rank;
  stored->part = rank;
  stored->step = sharers(s, column);
  MlirValue parts = moe__udiv(
      b, moe__sub(b, moe__add(b, stored->step, schedule->cluster - 1), rank), stored->step);
  stored->count = moe__mul(b, parts, part_rows(schedule));
  MOE__IF (b, moe__eq(b, s->kernel.thread, 0)) {
    MlirValue of_row = moe__mul(b, stored->step, schedule->tile_k / MOE_MX_BLOCK);
    moe__mbarrier_arrive_expect(b, landed_barrier(s), moe__mul(b, stored->count, of_row));
  }
  moe__mbarrier_wait(b, landed_barrier(s), moe__i32(b, 0));
}

/* Stores what has been put down. */
static void store_run_scales(void *user, MlirValue batch, MlirValue row, MlirValue column) {
  quantize_t *s = user;
  moe__builder_t *b = &s->kernel.builder;
  moe__cast_tiles_t *tiles = &s->tiles;
  MlirValue mx_blocks = moe__lshr(b, tiles->tensors[0].k.value, MX_BLOCK_BITS);
  MlirValue first = moe__lshr(b, column, MX_BLOCK_BITS);
  stored_scales_t stored = {
      .batch = batch,
      .row = row,
      .first = first,
      .bytes = moe__umin(b, moe__sub(b, mx_blocks, first),
                         moe__cast_run(tiles) * tiles->schedule.tile_k / MOE_MX_BLOCK),
      .rows = moe__umin(b, moe__sub(b, tiles->n.value, row), tiles->schedule.tile_n),
  };
  stored.count = stored.rows;
  if (tiles->schedule.cluster > 1)
    await_scales(s, &stored, column);
  /* Where rows and runs of scales begin at multiples of so many bytes. */
  MlirValue begins = moe__or(b, mx_blocks, moe__or(b, first, stored.bytes));
  MlirValue by_16 = moe__eq(b, moe__and(b, begins, 15), 0);
  MlirValue by_4 = moe__eq(b, moe__and(b, begins, 3), 0);
  MOE__IF (b, by_16) {
    store_scales_by(s, &stored, moe__vector_type(b, 4, b->i32), 16);
  }
  MOE__ELSE (b) {
    MOE__IF (b, by_4) {
      store_scales_by(s, &stored, b->i32, 4);
    }
    MOE__ELSE (b) {
      store_scales_by(s, &stored, b->i8, 1);
    }
  }
}

static void quantize_rows(quantize_t *s, const moe__cast_unit_t *unit, const MlirValue *words) {
  moe__builder_t *b = &s->kernel.builder;
  const moe__elements_t *elements = &s->tiles.elements;
  int count = MOE_MX_BLOCK / elements->per_word; /* words of an MX block */
  MlirValue packed[MOE__CAST_WORDS / 2], scales = {NULL};
  for (int mx_block = 0; mx_block < elements->per_word; mx_block++) {
    const MlirValue *own = words + (ptrdiff_t)mx_block * count;
    MlirValue amax = moe__bitcast(
        b, moe__word_amax(b, elements, moe__words_amax(b, elements, own, count)), b->f32);
    MlirValue scale = moe__mx_scale(b, amax, s->mode, s->tiles.element);
    scales = mx_block == 0 ? scale : moe__or(b, scales, moe__shl(b, scale, 8 * mx_block));
    MlirValue reciprocal = moe__mx_reciprocal(b, scale);
    for (int i = 0; i < MOE_MX_BLOCK / 4; i++) {
      MlirValue four[4];
      for (int j = 0; j < 4; j++) {
        int element = 4 * i + j;
        four[j] = moe__word_element(b, elements, own[element / elements->per_word],
                                    element % elements->per_word);
      }
      packed[mx_block * MOE_MX_BLOCK / 4 + i] = pack(s, four, reciprocal);
    }
  }
  moe__cast_store(&s->tiles, unit, 0, packed);
  stage_row_scales(s, unit, scales);
}

static void quantize_unit(void *user, const moe__cast_unit_t *unit,
                          const MlirValue words[MOE__CAST_WORDS]) {
  quantize_t *s = user;
  if (unit->direction == MOE__COLUMNS)
    quantize_columns(s, unit, words);
  else
    quantize_rows(s, unit, words);
}

/* ---- The kernels ---- */

static bool is_dual(MlirOperation op) {
  return moe__is(op, MOE__OP_QUANTIZE_DUAL);
}

bool moe__quantize_has_kernel(MlirOperation op) {
  MlirType x = moe__tensor_type(op, MOE__X);
  int rank = (int)mlirShapedTypeGetRank(x), axis = (int)moe__op_integer(op, "axis");
  if (rank < 2 || rank > 3 || axis < rank - 2)
    return moe__error(
        op,
        "no kernel quantizes a tensor of rank %d along axis %d yet; there are kernels "
        "for rank 2 and 3 along the last dimension and the one before it",
        rank, axis);
  return moe__needs_multiple_of_16(op, MOE__X, rank - 1) && moe__needs_row_major(op, MOE__X) &&
         moe__needs_row_major(op, MOE__SCALES) &&
         (axis == rank - 1 ? moe__needs_row_major(op, MOE__Q)
                           : moe__needs_column_major(op, MOE__Q));
}

static bool has_dual_kernel(MlirOperation op) {
  return moe__needs_one_fp8(op, MOE__Q_T, MOE__OP_QUANTIZE) && moe__needs_row_major(op, MOE__X) &&
         moe__needs_row_major(op, MOE__Q) && moe__needs_row_major(op, MOE__SCALES) &&
         moe__needs_column_major(op, MOE__Q_T) && moe__needs_row_major(op, MOE__SCALES_T);
}

static bool has_kernel(MlirOperation op) {
  return is_dual(op) ? has_dual_kernel(op) : moe__quantize_has_kernel(op);
}

static void add_parameters(quantize_t *s, MlirOperation op) {
  moe__kernel_t *kernel = &s->kernel;
  int x = moe__tensor_number(op, MOE__X),
      last = (int)mlirShapedTypeGetRank(moe__tensor_type(op, MOE__X)) - 1;
  moe__cast_kernel_quantizer(&s->tiles, op, s->scales);
  if (!moe__is_grouped(op))
    moe__kernel_require(kernel, x, last - 1, MOE__MULTIPLE_OF, MOE_MX_BLOCK);
  moe__kernel_require(kernel, x, last, MOE__MULTIPLE_OF,
                      s->tiles.writes[MOE__ROWS] ? MOE_MX_BLOCK : MOE__CAST_MULTIPLE);
}

/* ---- Schedules ---- */

static const moe__cast_schedule_t COLUMNS_BF16[] = {
    {.tile_n = 128, .tile_k = 128, .stages = 1, .ctas_per_sm = 3, .band = 1024},
    {.tile_n = 128, .tile_k = 128, .stages = 3, .output_stages = 1, .band = 1024},
    {.tile_n = 128, .tile_k = 128, .stages = 3, .output_stages = 1, .band = 64},
    {.tile_n = 128, .tile_k = 128, .stages = 5, .output_stages = 2, .ctas_per_sm = 1, .band = 1024},
    {.tile_n = 128, .tile_k = 128, .stages = 2, .output_stages = 2, .band = 1024},
    {.tile_n = 256, .tile_k = 64, .stages = 3, .output_stages = 1, .band = 1024},
    {.tile_n = 256, .tile_k = 128, .warps = 16, .ctas_per_sm = 1, .band = 1024},
};
/* A tile that begins with its group has 128 rows; of two output tiles one has what lies above. */
static const moe__cast_schedule_t TOKENS_BF16[] = {
    {.tile_n = 128, .tile_k = 128, .output_stages = 2, .segment = 16},
    {.tile_n = 128, .tile_k = 128, .output_stages = 2, .segment = 8},
    {.tile_n = 128, .tile_k = 128, .output_stages = 2, .segment = 32},
};
static const moe__cast_schedule_t TOKENS_F32[] = {
    {.tile_n = 128, .tile_k = 64, .output_stages = 2, .segment = 16},
    {.tile_n = 128, .tile_k = 64, .output_stages = 2, .segment = 8},
    {.tile_n = 128, .tile_k = 64, .output_stages = 2, .segment = 32},
};
/* The same where groups are aligned, and tiles go out as those of weights do. */
static const moe__cast_schedule_t ALIGNED_BF16[] = {
    {.tile_n = 128, .tile_k = 128, .stages = 1, .warps = 4, .ctas_per_sm = 4, .band = 1024},
    {.tile_n = 128, .tile_k = 128, .output_stages = 2, .band = 1024},
    {.tile_n = 128, .tile_k = 128, .output_stages = 2, .band = 64},
    {.tile_n = 128, .tile_k = 128, .stages = 5, .output_stages = 2, .ctas_per_sm = 1, .band = 1024},
};
static const moe__cast_schedule_t ALIGNED_F32[] = {
    {.tile_n = 128, .tile_k = 64, .output_stages = 2, .band = 1024},
    {.tile_n = 128, .tile_k = 64, .output_stages = 2, .band = 64},
    {.tile_n = 128, .tile_k = 64, .stages = 5, .output_stages = 2, .ctas_per_sm = 1, .band = 1024},
};
static const moe__cast_schedule_t COLUMNS_F32[] = {
    {.tile_n = 128, .tile_k = 64, .stages = 2, .output_stages = 2, .band = 1024},
    {.tile_n = 128, .tile_k = 64, .stages = 2, .output_stages = 2, .band = 64},
    {.tile_n = 128, .tile_k = 64, .stages = 5, .output_stages = 2, .ctas_per_sm = 1, .band = 1024},
    {.tile_n = 128, .tile_k = 64, .stages = 3, .output_stages = 1, .band = 1024},
    {.tile_n = 256, .tile_k = 32, .stages = 2, .output_stages = 2, .band = 1024},
    {.tile_n = 128, .tile_k = 128, .output_stages = 2, .warps = 16, .ctas_per_sm = 1, .band = 1024},
};
/* 52 KB of shared memory for each of four CTAs that end. */
static const moe__cast_schedule_t BOTH_BF16[] = {
    {.tile_n = 128, .tile_k = 128, .stages = 1, .warps = 4, .ctas_per_sm = 4, .cluster = 8},
    {.tile_n = 128, .tile_k = 128, .stages = 1, .ctas_per_sm = 3, .cluster = 8},
    {.tile_n = 128, .tile_k = 128, .stages = 1, .warps = 4, .ctas_per_sm = 4, .cluster = 4},
    {.tile_n = 128, .tile_k = 256, .warps = 16, .ctas_per_sm = 1},
    {.tile_n = 128, .tile_k = 128},
};
/* A row of tiles that leaves half of a cluster idle. */
static const moe__cast_schedule_t FEW_BOTH_BF16[] = {
    {.tile_n = 128, .tile_k = 256, .warps = 16, .ctas_per_sm = 1},
    {.tile_n = 128, .tile_k = 256, .warps = 16, .ctas_per_sm = 1, .band = 16},
    {.tile_n = 128, .tile_k = 128},
    {.tile_n = 128, .tile_k = 128, .stages = 4, .ctas_per_sm = 1},
    {.tile_n = 256, .tile_k = 64, .band = 16},
    {.tile_n = 256, .tile_k = 128, .warps = 16, .ctas_per_sm = 1, .band = 16},
};
static const moe__cast_schedule_t BOTH_F32[] = {
    {.tile_n = 128, .tile_k = 128, .warps = 16, .ctas_per_sm = 1},
    {.tile_n = 128, .tile_k = 128, .stages = 1, .cluster = 8},
    {.tile_n = 128, .tile_k = 128, .warps = 16, .ctas_per_sm = 1, .band = 16},
    {.tile_n = 128, .tile_k = 64, .band = 16},
    {.tile_n = 128, .tile_k = 64, .stages = 5, .ctas_per_sm = 1, .band = 16},
    {.tile_n = 128, .tile_k = 32, .stages = 4, .warps = 4, .band = 16},
};

#define FEW_COLUMNS 512 /* half of what the tiles of a cluster have */

/* CTAs that end, three or four on a multiprocessor, so that one quantizes while others wait; or
 * two persistent ones, with 64 or 96 KB each in flight. Tiles are ordered down the columns of q in
 * bands of 1024 where columns are written: a wave of CTAs then writes long runs of q, and fills
 * each DRAM page that it opens. */
static moe__candidates_t candidates(MlirOperation op) {
  if (moe__is_grouped(op))
    return moe__group_align(op) ? MOE__CAST_CANDIDATES(op, ALIGNED)
                                : MOE__CAST_CANDIDATES(op, TOKENS);
  if (!is_dual(op))
    return MOE__CAST_CANDIDATES(op, COLUMNS);
  MlirType x = moe__tensor_type(op, MOE__X);
  int64_t columns = moe__static_dimension(x, (int)mlirShapedTypeGetRank(x) - 1);
  if (moe__cast_reads_bf16(op) && columns >= 0 && columns <= FEW_COLUMNS)
    return MOE__CANDIDATES(FEW_BOTH_BF16);
  return MOE__CAST_CANDIDATES(op, BOTH);
}

static bool lay_out(MlirOperation op, const void *schedule, void *out) {
  const moe__cast_schedule_t *s = schedule;
  moe__cast_layout_t *l = out;
  int bytes = moe__elements_of(moe__tensor_type(op, MOE__X), false).bytes;
  if (moe__is_grouped(op) && s->tile_n != MOE__CAST_GROUP_ROWS)
    return moe__error(op, "'schedule.tile_n' is %d; it must be %d where tokens are in groups",
                      s->tile_n, MOE__CAST_GROUP_ROWS);
  l->cta.registers = moe__is_grouped(op) && moe__cast_goes_on(s) ? 96 : 64;
  if (s->cluster > 1 && s->tile_k % (4 * MOE_MX_BLOCK))
    return moe__error(op, "'schedule.tile_k' is %d; it must be a multiple of 128 with a cluster",
                      s->tile_k);
  if (is_dual(op)) {
    l->staging = moe__layout_shared(&l->cta, s->tile_n * row_scales(s), 16);
    l->run = moe__cast_goes_on(s) ? RUN_SCALES * MOE_MX_BLOCK / s->tile_k : s->cluster;
    if (s->cluster > 1)
      l->landed = moe__layout_shared(&l->cta, 8, 8);
  }
  return moe__cast_layout(op, s, (const bool[]){is_dual(op), true}, bytes, moe__max_groups(op),
                          moe__is_grouped(op), l);
}

/* ---- The kernel ---- */

static bool lower(const moe__lowering_t *lowering) {
  MlirOperation op = lowering->op;
  quantize_t s = {0};
  if (!moe__mx_mode_from_name(moe__op_string(op, "mode"), &s.mode))
    return false;
  moe__cast_kernel_begin(&s.kernel, &s.tiles, lowering, (const bool[]){is_dual(op), true});
  add_parameters(&s, op);
  moe__cast_t cast = {.user = &s, .cast = quantize_unit};
  if (is_dual(op))
    cast.finish = store_run_scales;
  if (s.tiles.schedule.cluster > 1)
    cast.begin = initialize_landed;
  moe__cast_kernel_end(&s.tiles, &cast, lowering);
  return true;
}

const moe__kernel_definition_t moe__quantize_tiles_kernel = {
    .ops = {MOE__OP_QUANTIZE, MOE__OP_QUANTIZE_DUAL},
    .has_kernel = has_kernel,
    .schedule = &moe__cast_schedule,
    .candidates = candidates,
    .layout_size = sizeof(moe__cast_layout_t),
    .layout = lay_out,
    .lower = lower,
};
