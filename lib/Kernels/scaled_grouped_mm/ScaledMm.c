/* ScaledMm.c - the kernel of scaled_grouped_mm.scaled_mm and of mm: products of FP8 matrices, and
 * of matrices of 16 bits, over ragged groups of tokens, or in batches.
 *
 * One kernel for all cases. Forward: the tokens (M,K) of group e times the weights (K,N) of
 * expert e; a group is a range of rows. Gradient: for each e, (N,M) times (M,K) over the tokens
 * of group e; a group is a range of the reduction, and every expert has the same tiles. Batched:
 * the same tiles, and the whole reduction.
 *
 * - A table of the groups is made from the offsets, in shared memory, by one warp.
 * - One warp loads. For each k-tile of each tile it waits until a stage is free, and one thread
 *   fetches two boxes by TMA.
 * - In a cluster two CTAs have tiles below one another. Each of them loads one half of the columns'
 *   operand, into both. Or the tiles lie side by side, and the rows' operand is shared.
 * - Two warpgroups or three multiply, 64 rows of each tile (Multiply.c); then they scale, round and
 *   store (Epilogue.c), with promoted sums while the first product of the next tile runs. Forward,
 *   a warpgroup whose rows all lie behind the end of the group multiplies nothing. Or each of two
 *   has tiles of its own, and stores one while the other multiplies (PingPong.c). With scales of MX
 *   blocks each multiplies all rows and half of the columns (MxMultiply.c).
 * - The other three warps of the loading warpgroup write the factors of MX blocks (MxScales.c), and
 *   in a gradient move their tokens (MxTokens.c); in another gradient they clear what lies outside
 *   the group (Clear.c).
 *
 * Forward, a tile that reaches past the end of its group multiplies rows of the next one and
 * drops them: a row depends on nothing but itself, so that even a NaN there does no harm.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/scaled_grouped_mm/ScaledMm.h"

#include "lib/Builder/Inspect.h"
#include "lib/Device/Warp.h"
#include "lib/Dialect/Dialect.h"
#include "lib/Kernels/Kernels.h"
#include "lib/Kernels/Requirements.h"

#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/BuiltinTypes.h"

/* Of qa and qb, by MOE__MM_QA and MOE__MM_QB. */
static const moe__role_t SCALE_ROLES[] = {MOE__SA, MOE__SB};

bool moe__mm_is_direct(const moe__scaled_mm_t *s) {
  return s->schedule.direct && !s->schedule.swap_operands;
}

int moe__mm_depth(const moe__scaled_mm_t *s, int bytes) {
  return mlirTypeIsNull(s->half) ? bytes : bytes / 2;
}

/* Batches are experts; tokens are in groups. */
static bool has_groups(const moe__scaled_mm_t *s) {
  return s->which != MOE__BATCHED;
}

/* ---- Parameters ---- */

/* An extent in bytes. */
static const moe__expression_t *bytes_of(moe__scaled_mm_t *s, const moe__extent_t *extent) {
  moe__record_t *record = &s->kernel.record;
  if (mlirTypeIsNull(s->half))
    return extent->expression;
  return moe__expression_mul(
      record, MOE__EXPRESSIONS(extent->expression, moe__expression_constant(record, 2)));
}

/* Makes the map of a matrix of 128-byte rows one of rows in the order of `direct`: of two side by
 * side, of tile_n / 8 that are 8 apart, of four pairs in those 8. */
static void reorder(moe__scaled_mm_t *s, moe__tensor_map_t *map) {
  moe__record_t *record = &s->kernel.record;
  const moe__expression_t *row = map->strides[0];
  map->rank = 4;
  map->dims[2] = moe__expression_ceildiv(record, map->dims[1], 8);
  map->dims[1] = moe__expression_constant(record, 2);
  map->dims[3] = moe__expression_constant(record, 4);
  map->strides[1] =
      moe__expression_mul(record, MOE__EXPRESSIONS(row, moe__expression_constant(record, 8)));
  map->strides[2] =
      moe__expression_mul(record, MOE__EXPRESSIONS(row, moe__expression_constant(record, 2)));
  map->box[1] = 2;
  map->box[2] = s->side[1]->tile / 8;
  map->box[3] = 4;
}

/* How an operand lies in memory: its rows, the dimension along them, and where its matrices are
 * many, these. MN-major, rows and the dimension along them change places. */
static void add_map(moe__scaled_mm_t *s, MlirOperation op, int of, const moe__extent_t *inner,
                    const moe__extent_t *rows, const moe__extent_t *matrices) {
  moe__mm_operand_t *operand = &s->operands[of];
  moe__tensor_map_t map = {.tensor = moe__tensor_number(op, moe__factor_role(op, of)),
                           .element = mlirTypeIsNull(s->half) ? MOE__MAP_U8 : MOE__MAP_BF16,
                           .rank = 2,
                           .swizzle = MOE__SWIZZLE_128B};
  if (s->schedule.swap_operands) /* all waits for DRAM: no more is read than what is asked for */
    map.l2_promotion = MOE__L2_PROMOTION_128B;
  const moe__extent_t *line = operand->mn_major ? rows : inner;
  map.dims[0] = line->expression;
  map.strides[0] = bytes_of(s, line);
  map.dims[1] = (operand->mn_major ? inner : rows)->expression;
  map.box[0] = moe__mm_depth(s, MOE__MM_TILE_K);
  map.box[1] = operand->mn_major ? moe__mm_depth(s, MOE__MM_TILE_K) : operand->box;
  const moe__expression_t *lines = map.dims[1];
  if (moe__mm_is_direct(s) && operand == s->side[1])
    reorder(s, &map);
  if (matrices) {
    int last = map.rank++;
    map.dims[last] = matrices->expression;
    map.strides[last - 1] =
        moe__expression_mul(&s->kernel.record, MOE__EXPRESSIONS(lines, map.strides[0]));
    map.box[last] = 1;
  }
  operand->map_rank = map.rank;
  operand->map = moe__kernel_tensor_map(&s->kernel, &map);
}

static void add_extents(moe__scaled_mm_t *s, MlirOperation op) {
  moe__kernel_t *kernel = &s->kernel;
  MlirType qa = moe__factor_type(op, MOE__MM_QA), qb = moe__factor_type(op, MOE__MM_QB);
  int qa_rank = (int)mlirShapedTypeGetRank(qa), qb_rank = (int)mlirShapedTypeGetRank(qb);
  int qa_number = moe__tensor_number(op, moe__factor_role(op, MOE__MM_QA)),
      qb_number = moe__tensor_number(op, moe__factor_role(op, MOE__MM_QB));
  s->rows = moe__kernel_extent(kernel, qa_number, qa_rank - 2, qa);
  s->depth = moe__kernel_extent(kernel, qa_number, qa_rank - 1, qa);
  if (s->which == MOE__GRADIENT)
    s->experts = moe__kernel_extent(kernel, moe__tensor_number(op, MOE__OFFS), 0,
                                    moe__tensor_type(op, MOE__OFFS));
  else
    s->experts = moe__kernel_extent(kernel, qb_number, 0, qb);
  s->columns = moe__kernel_extent(kernel, qb_number, qb_rank - 1, qb);
}

static void add_parameters(moe__scaled_mm_t *s, MlirOperation op) {
  moe__kernel_t *kernel = &s->kernel;
  add_extents(s, op);
  add_map(s, op, MOE__MM_QA, &s->depth, &s->rows, s->which == MOE__BATCHED ? &s->experts : NULL);
  add_map(s, op, MOE__MM_QB, &s->depth, &s->columns,
          s->which == MOE__GRADIENT ? NULL : &s->experts);
  if (moe__mm_has_token_blocks(s))
    moe__mm_token_blocks_parameters(s, op);
  else if (moe__mm_has_block_scales(s))
    moe__mm_block_scales_parameters(s, op);
  if (moe__mm_has_mx_tokens(s) && !s->aligned)
    for (int i = 0; i < 2; i++)
      moe__mm_add_tail_map(s, op, i);
  bool has_scales = mlirTypeIsNull(s->half);
  s->sb_is_row_major = has_scales && moe__is_row_major(moe__tensor_type(op, MOE__SB));
  for (int i = 0; i < 2 && has_scales && !moe__mm_has_block_scales(s); i++)
    s->operands[i].scales = moe__kernel_pointer(kernel, moe__tensor_number(op, SCALE_ROLES[i]));
  if (has_groups(s))
    s->offs = moe__kernel_pointer(kernel, moe__tensor_number(op, MOE__OFFS));
  if (s->has_bias)
    s->bias = moe__kernel_pointer(kernel, moe__tensor_number(op, MOE__BIAS));
  s->out = moe__kernel_pointer(kernel, moe__tensor_number(op, MOE__OUT));
  moe__mm_epilogue_parameters(s, op);
  if (has_groups(s))
    s->status = moe__kernel_status(kernel);
  if (moe__mm_counts_tiles(s))
    s->counters = moe__kernel_counters(kernel);
}

/* Elements of an operand that are 16 bytes. */
static int line_multiple(MlirOperation op) {
  return moe__is_scaled_mm(op) ? 16 : 8;
}

/* What a launcher has to check: sizes that belong together, strides of tensor maps and rows of out
 * in multiples of 16 bytes. */
static void add_requirements(moe__scaled_mm_t *s, MlirOperation op) {
  moe__kernel_t *kernel = &s->kernel;
  int qa_last = s->which == MOE__BATCHED ? 2 : 1, qb_last = s->which == MOE__GRADIENT ? 1 : 2;
  int qa = moe__tensor_number(op, moe__factor_role(op, MOE__MM_QA)),
      qb = moe__tensor_number(op, moe__factor_role(op, MOE__MM_QB)),
      offs = moe__tensor_number(op, MOE__OFFS);
  int line = line_multiple(op);
  moe__require_shapes(kernel, op);
  moe__kernel_require(kernel, qb, qb_last, MOE__MULTIPLE_OF, line);
  int unit = moe__mm_has_mx_scales(s) && s->which != MOE__GRADIENT ? MOE_MX_BLOCK : line;
  /* MN-major, an operand's rows are what lies side by side. */
  if (s->operands[MOE__MM_QA].mn_major)
    moe__kernel_require(kernel, qa, qa_last - 1, MOE__MULTIPLE_OF, line);
  if (s->operands[MOE__MM_QA].mn_major && s->operands[MOE__MM_QB].mn_major)
    unit = 1;
  if (s->aligned)
    unit = MOE_GROUP_ALIGN;
  moe__kernel_require(kernel, qa, qa_last, MOE__AT_LEAST, unit);
  moe__kernel_require(kernel, qa, qa_last, MOE__MULTIPLE_OF, unit);
  if (has_groups(s)) {
    moe__require_groups(kernel, offs);
  }
  if (moe__mm_has_mx_tokens(s)) /* whose scales are read by four */
    moe__kernel_require(kernel, qa, 0, MOE__MULTIPLE_OF, 4);
}

/* ---- The multiplying warpgroups ---- */

/* What is prepared while the first product of a tile runs. */
typedef struct preparation_t {
  moe__scaled_mm_t *s;
  const moe__mm_position_t *self;
  const moe__group_tile_t *tile;
  MlirValue is_empty; /* i1: the gradient is that of no tokens; null but for the gradient */
  moe__mm_epilogue_t epilogue;
} preparation_t;

static void prepare(void *user) {
  preparation_t *p = user;
  p->epilogue = moe__mm_epilogue_prepare(p->s, p->self, p->tile, p->is_empty);
}

/* Whether any of the warpgroup's rows are stored. */
static MlirValue has_rows(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                          const moe__group_tile_t *tile) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue first = moe__mul(b, self->warpgroup, MOE__WGMMA_M);
  if (s->side[0] == &s->operands[MOE__MM_QA])
    return moe__ult(b, moe__add(b, tile->row, first), tile->row_end);
  MlirValue column = moe__mul(b, tile->column, MOE__MM_TILE_ROWS);
  return moe__ult(b, moe__add(b, column, first), s->columns.value);
}

/* The same, as i1 that ptxas knows to be one for the warp. */
static MlirValue warp_has_rows(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                               const moe__group_tile_t *tile) {
  moe__builder_t *b = &s->kernel.builder;
  return moe__ne(b, moe__warp_uniform(b, moe__zext(b, has_rows(s, self, tile), b->i32)), 0);
}

static void settle(void *user) {
  preparation_t *p = user;
  moe__mm_epilogue_settle(p->s, &p->epilogue);
}

static void multiply_and_store(moe__scaled_mm_t *s, preparation_t *preparation,
                               const moe__mm_reduction_t *reduction, moe__cursor_t cursor) {
  moe__mm_fragment_t registers;
  moe__mm_beside_t beside = {.user = preparation, .first = prepare, .settle = settle};
  moe__mm_multiply(s, preparation->self, reduction, cursor, &beside, 1, &registers);
  moe__mm_epilogue_store(s, &preparation->epilogue, registers);
}

/* A tile that is multiplied and stored. */
typedef struct making_t {
  preparation_t preparation;
  moe__mm_reduction_t reduction;
  moe__cursor_t cursor;
} making_t;

static void make(void *user) {
  making_t *m = user;
  multiply_and_store(m->preparation.s, &m->preparation, &m->reduction, m->cursor);
}

/* What a tile sums over, in values that ptxas knows to be the same in a warp; *is_empty: of a
 * gradient, whether that is nothing. */
static moe__mm_reduction_t reduction_of(moe__scaled_mm_t *s, const moe__mm_work_t *work,
                                        MlirValue *is_empty) {
  moe__builder_t *b = &s->kernel.builder;
  moe__mm_reduction_t reduction = moe__mm_reduction_of(s, work);
  reduction.k_tiles = moe__warp_uniform(b, reduction.k_tiles);
  if (s->which == MOE__GRADIENT)
    *is_empty = moe__eq(b, work->start, work->end);
  if (reduction.last_steps.ptr)
    reduction.last_steps = moe__warp_uniform(b, reduction.last_steps);
  if (reduction.last_steps.ptr && moe__mm_skips_steps(s))
    reduction.skipped = moe__warp_uniform(b, reduction.skipped);
  return reduction;
}

/* Multiplies and stores a tile whose first stage has landed; gives the cursor behind it. Of a
 * gradient, whose rows of out end once for each expert and not once for each group, both
 * warpgroups multiply all tiles: another branch costs promoted sums more than it saves. */
static moe__cursor_t multiply_tile(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                                   const moe__mm_work_t *work, moe__cursor_t cursor) {
  moe__builder_t *b = &s->kernel.builder;
  making_t m = {.preparation = {.s = s, .self = self, .tile = &work->tile}, .cursor = cursor};
  m.reduction = reduction_of(s, work, &m.preparation.is_empty);
  if (s->which == MOE__GRADIENT) {
    make(&m);
  } else {
    MOE__IF (b, warp_has_rows(s, self, &work->tile)) {
      moe__mm_fit(s, &work->tile, make, &m);
    }
    MOE__ELSE (b) {
      moe__mm_pass_over(s, self, &m.reduction, cursor);
    }
  }
  return moe__cursor_advance(b, &s->layout.ring, cursor, m.reduction.k_tiles);
}

/* Whether there is a tile in a slot that has been written. */
static MlirValue is_tile(moe__scaled_mm_t *s, MlirValue slot) {
  moe__builder_t *b = &s->kernel.builder;
  return moe__ne(b, moe__warp_uniform(b, moe__mm_read_group(s, slot)), MOE__MM_NO_GROUP);
}

MlirValue moe__mm_has_tile(moe__scaled_mm_t *s, moe__cursor_t cursor, MlirValue slot) {
  moe__ring_wait(&s->kernel, &s->layout.ring, cursor);
  return is_tile(s, slot);
}

static moe__mm_position_t position(moe__scaled_mm_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue thread = s->kernel.thread;
  MlirValue warp = moe__and(b, moe__lshr(b, thread, 5), 3);
  moe__mm_position_t self = {.warpgroup = moe__lshr(b, thread, 7),
                             .lane = moe__and(b, thread, MOE__WARP - 1)};
  self.warp_row = moe__add(b, moe__mul(b, self.warpgroup, MOE__WGMMA_M), moe__shl(b, warp, 4));
  self.row = moe__add(b, self.warp_row, moe__lshr(b, self.lane, 2));
  return self;
}

static void multiply_tiles(moe__scaled_mm_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  moe__mm_position_t self = position(s);
  moe__cursor_t cursor = moe__cursor_start(b);
  MlirValue slot = moe__i32(b, 0);
  MOE__WHILE (b, moe__mm_has_tile(s, cursor, slot), MOE__CARRY_CURSOR(cursor), &slot) {
    moe__mm_work_t work = moe__mm_read_slot(s, slot);
    cursor = multiply_tile(s, &self, &work, cursor);
    slot = moe__mm_next_slot(s, slot);
  }
  moe__mm_epilogue_end(s, &self);
}

/* ---- Where a tile is stored behind the first product of the next ---- */

/* A tile that has been multiplied: its sums, and what its epilogue takes of it. row_end is 0 where
 * there is none yet. */
typedef struct multiplied_t {
  moe__accumulator_t sum;
  moe__group_tile_t tile; /* but for the group */
  MlirValue scales[3];    /* f32, where there are such: of the lane's two rows, of all columns */
} multiplied_t;

static void store_multiplied(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                             const multiplied_t *multiplied) {
  moe__builder_t *b = &s->kernel.builder;
  moe__mm_epilogue_t epilogue = moe__mm_epilogue_of(s, self, &multiplied->tile);
  epilogue.row_scale[0] = multiplied->scales[0];
  epilogue.row_scale[1] = multiplied->scales[1];
  epilogue.column_scale = multiplied->scales[2];
  moe__mm_fragment_t registers;
  moe__accumulator_unpack(b, multiplied->sum, registers);
  MOE__IF (b, moe__ne(b, moe__warp_uniform(b, multiplied->tile.row_end), 0)) {
    moe__mm_epilogue_store(s, &epilogue, registers);
  }
}

/* Whether there is a tile of whose rows the warpgroup has none. */
static MlirValue passes(moe__scaled_mm_t *s, const moe__mm_position_t *self, moe__cursor_t cursor,
                        MlirValue slot) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue has_tile = moe__mm_has_tile(s, cursor, slot);
  moe__mm_work_t work = moe__mm_read_slot(s, slot);
  MlirValue works = moe__warp_uniform(b, moe__zext(b, has_rows(s, self, &work.tile), b->i32));
  return moe__and(b, has_tile, moe__eq(b, works, 0));
}

/* Goes on to the next tile that the warpgroup has rows of, or to the end; waits for its first
 * stage. */
static void find_tile(moe__scaled_mm_t *s, const moe__mm_position_t *self, moe__cursor_t *cursor,
                      MlirValue *slot) {
  moe__builder_t *b = &s->kernel.builder;
  if (s->which == MOE__GRADIENT) {
    moe__ring_wait(&s->kernel, &s->layout.ring, *cursor);
    return;
  }
  MOE__WHILE (b, passes(s, self, *cursor, *slot), MOE__CARRY_CURSOR(*cursor), slot) {
    moe__mm_work_t work = moe__mm_read_slot(s, *slot);
    moe__mm_reduction_t reduction = moe__mm_reduction_of(s, &work);
    reduction.k_tiles = moe__warp_uniform(b, reduction.k_tiles);
    moe__mm_pass_over(s, self, &reduction, *cursor);
    *cursor = moe__cursor_advance(b, &s->layout.ring, *cursor, reduction.k_tiles);
    *slot = moe__mm_next_slot(s, *slot);
  }
}

static void multiply_tiles_ahead(moe__scaled_mm_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  moe__mm_position_t self = position(s);
  moe__cursor_t cursor = moe__cursor_start(b);
  MlirValue slot = moe__i32(b, 0), zero = moe__i32(b, 0);
  multiplied_t before = {.sum = moe__wgmma_zero(b, s->schedule.tile_n),
                         .tile = {.row = zero, .row_end = zero, .column = zero}};
  bool has_scales = !moe__mm_scales_sums(s);
  int scales = !has_scales ? 0 : s->side[1]->granularity == MOE__SCALE_OF_ROW ? 2 : 3;
  for (int i = 0; i < scales; i++)
    before.scales[i] = moe__f32(b, 0);
  find_tile(s, &self, &cursor, &slot);
  MOE__WHILE (b, is_tile(s, slot), MOE__CARRY_CURSOR(cursor), &slot, &before.sum.value,
              &before.tile.row, &before.tile.row_end, &before.tile.column,
              scales > 0 ? &before.scales[0] : NULL, scales > 1 ? &before.scales[1] : NULL,
              scales > 2 ? &before.scales[2] : NULL) {
    moe__mm_work_t work = moe__mm_read_slot(s, slot);
    preparation_t preparation = {.s = s, .self = &self, .tile = &work.tile};
    moe__mm_reduction_t reduction = reduction_of(s, &work, &preparation.is_empty);
    moe__accumulator_t first = moe__mm_multiply_first(s, &self, &reduction, cursor);
    moe__mm_block_held_t held;
    bool holds = moe__mm_holds_block_scales(s);
    if (holds)
      held = moe__mm_block_hold(s, &self, &work.tile, reduction.k_tiles);
    prepare(&preparation);
    store_multiplied(s, &self, &before);
    moe__mm_beside_t beside = {.user = &preparation, .settle = settle};
    before.sum =
        moe__mm_promote(s, &self, &reduction, cursor, &beside, first, holds ? &held : NULL);
    before.tile = work.tile;
    before.scales[0] = preparation.epilogue.row_scale[0];
    before.scales[1] = preparation.epilogue.row_scale[1];
    before.scales[2] = preparation.epilogue.column_scale;
    cursor = moe__cursor_advance(b, &s->layout.ring, cursor, reduction.k_tiles);
    slot = moe__mm_next_slot(s, slot);
    find_tile(s, &self, &cursor, &slot);
  }
  store_multiplied(s, &self, &before);
  moe__mm_epilogue_end(s, &self);
}

/* ---- The kernel ---- */

/* Registers of a thread of the loading warpgroup, and of one that multiplies: of 504 that three
 * of them have together, or 512 of four. Promoted sums take two accumulators. What the gradient's
 * loader needs to clear is more than the others', whose speed does not depend on it; and so is what
 * tokens of MX blocks take that are moved. */
static int loader_registers(const moe__scaled_mm_t *s) {
  if (moe__mm_warpgroups(&s->schedule) > MOE__MM_WARPGROUPS)
    return 32;
  return s->promoted && !moe__mm_has_mx_tokens(s) ? 56 : 72;
}

static int multiplier_registers(const moe__scaled_mm_t *s) {
  int count = moe__mm_warpgroups(&s->schedule);
  return ((count == MOE__MM_WARPGROUPS ? 504 : 512) - loader_registers(s)) / count;
}

/* With blocks of any kind. */
static bool takes_order_of_sb(MlirOperation op) {
  MlirType sb = moe__tensor_type(op, MOE__SB);
  return moe__is_row_major(sb) || moe__is_column_major(sb) ||
         moe__error(op, "the kernel takes sb row-major or column-major per expert; remove its "
                        "encoding, or give it affine_map<(e, k, n) -> (e, n, k)>");
}

/* The memory orders of scales of blocks. */
static bool takes_block_scales(MlirOperation op) {
  MlirType sa = moe__tensor_type(op, MOE__SA);
  if (!moe__is_column_major(sa))
    return moe__error(op,
                      "the kernel takes scales of 1x128 blocks with the tokens side by side; give "
                      "sa the encoding affine_map<%s>",
                      moe__mm_case(op) == MOE__FORWARD ? "(m, k) -> (k, m)"
                                                       : "(e, m, k) -> (e, k, m)");
  return takes_order_of_sb(op);
}

/* Whether a product has a kernel as far as its scales are those of MX blocks. */
static bool takes_mx_scales(MlirOperation op) {
  if (!moe__mm_is_promoted(op))
    return moe__error(op, "the kernel adds sums of MX blocks in fp32; give 'accumulate' the value "
                          "\"promoted\"");
  return moe__mm_case(op) == MOE__GRADIENT || takes_order_of_sb(op);
}

/* Of 16 bits an operand's rows may lie side by side in memory too; but tokens that are added up and
 * lie side by side begin at multiples of 16 bytes. */
static bool has_kernel_of_halves(MlirOperation op) {
  MlirType a = moe__factor_type(op, MOE__MM_QA), b = moe__factor_type(op, MOE__MM_QB);
  bool is_gradient = moe__mm_case(op) == MOE__GRADIENT;
  bool is_forward = moe__mm_case(op) == MOE__FORWARD;
  int last = (int)mlirShapedTypeGetRank(b) - 1, line = line_multiple(op);
  if (!moe__is_row_major(moe__tensor_type(op, MOE__OUT)) ||
      !(moe__is_row_major(b) || moe__is_column_major(b)) ||
      !(moe__is_row_major(a) || (!is_forward && moe__is_column_major(a))))
    return moe__error(op, "the kernel takes a and out row-major, and b row-major or column-major; "
                          "unless it is forward a may be column-major too");
  MlirValue bias = moe__operand(op, MOE__BIAS);
  if (!mlirValueIsNull(bias) && !moe__is_row_major(mlirValueGetType(bias)))
    return moe__error(op, "the kernel takes bias row-major; remove its encoding");
  if (is_gradient && !moe__group_align(op) && (moe__is_row_major(a) || moe__is_column_major(b)))
    return moe__error(op, "the kernel takes tokens that lie side by side only with 'align'; give a "
                          "the encoding affine_map<(n, m) -> (m, n)>, and b none");
  int a_last = (int)mlirShapedTypeGetRank(a) - 1;
  if (moe__is_row_major(a) ? !moe__needs_multiple(op, MOE__A, a_last, line)
                           : !moe__needs_multiple(op, MOE__A, a_last - 1, line))
    return false;
  return (moe__is_row_major(b) || moe__needs_multiple(op, MOE__B, last - 1, line)) &&
         moe__needs_multiple(op, MOE__B, last, line);
}

static bool has_kernel(MlirOperation op) {
  if (!moe__is_scaled_mm(op))
    return has_kernel_of_halves(op);
  static const char *const qb_orders[] = {
      [MOE__FORWARD] = "column-major per expert; give it the encoding "
                       "affine_map<(e, k, n) -> (e, n, k)>",
      [MOE__GRADIENT] = "column-major; give it the encoding affine_map<(m, k) -> (k, m)>",
      [MOE__BATCHED] = "column-major per expert; give it the encoding "
                       "affine_map<(e, k, n) -> (e, n, k)>"};
  MlirType qa = moe__tensor_type(op, MOE__QA);
  MlirType qb = moe__tensor_type(op, MOE__QB);
  bool mx = moe__has_mx_scales(op), is_gradient = moe__mm_case(op) == MOE__GRADIENT;
  bool blocks = moe__has_block_scales(op) && !is_gradient;
  if (blocks && !takes_block_scales(op))
    return false;
  if (mx && !takes_mx_scales(op))
    return false;
  bool row_major = moe__is_row_major(moe__tensor_type(op, MOE__OUT));
  for (int i = 0; i < mlirOperationGetNumOperands(op); i++) {
    moe__role_t role = moe__operand_role(op, i);
    bool other = role == MOE__QB || (blocks && (role == MOE__SA || role == MOE__SB)) ||
                 (mx && !is_gradient && role == MOE__SB);
    row_major &= other || moe__is_row_major(mlirValueGetType(mlirOperationGetOperand(op, i)));
  }
  if (!row_major)
    return moe__error(op, "the kernel takes all tensors but qb row-major; remove their encoding");
  if (!moe__is_column_major(qb))
    return moe__error(op, "the kernel takes qb %s", qb_orders[moe__mm_case(op)]);
  if (is_gradient && (mx || moe__has_block_scales(op)) && !moe__needs_multiple(op, MOE__QA, 0, 4))
    return false;
  return moe__needs_multiple_of_16(op, MOE__QA, (int)mlirShapedTypeGetRank(qa) - 1) &&
         moe__needs_multiple_of_16(op, MOE__QB, (int)mlirShapedTypeGetRank(qb) - 1);
}

bool moe__mm_is_promoted(MlirOperation op) {
  return moe__is_scaled_mm(op) && mlirStringRefEqual(moe__op_string(op, "accumulate"),
                                                     mlirStringRefCreateFromCString("promoted"));
}

moe__mm_scales_t moe__mm_scales(MlirOperation op, int operand) {
  if (!moe__is_scaled_mm(op))
    return MOE__NO_SCALE;
  MlirType type = moe__tensor_type(op, SCALE_ROLES[operand]);
  bool is_forward = moe__mm_case(op) == MOE__FORWARD, is_qa = operand == MOE__MM_QA;
  if (moe__has_block_scales(op))
    return MOE__SCALE_OF_BLOCK;
  if (moe__has_mx_scales(op))
    return MOE__SCALE_OF_MX_BLOCK;
  if (is_qa && is_forward && mlirShapedTypeGetDimSize(type, 0) == 1)
    return MOE__SCALE_OF_ALL;
  bool of_experts = mlirShapedTypeGetRank(type) == 1 && !(is_qa && is_forward);
  return of_experts ? MOE__SCALE_OF_EXPERT : MOE__SCALE_OF_ROW;
}

/* What the op and its schedule say. */
static void read_op(moe__scaled_mm_t *s, MlirOperation op) {
  s->which = moe__mm_case(op);
  s->promoted = moe__mm_is_promoted(op);
  s->aligned = moe__group_align(op) != 0;
  s->has_bias = !mlirValueIsNull(moe__operand(op, MOE__BIAS));
  s->out_type = mlirShapedTypeGetElementType(moe__tensor_type(op, MOE__OUT));
  if (s->has_bias)
    s->bias_type = mlirShapedTypeGetElementType(moe__tensor_type(op, MOE__BIAS));
  for (int i = 0; i < 2; i++) {
    s->operands[i].granularity = moe__mm_scales(op, i);
    if (moe__is_scaled_mm(op))
      s->operands[i].element = moe__fp8_of(moe__factor_type(op, i));
  }
  if (!moe__is_scaled_mm(op)) {
    s->half = mlirShapedTypeGetElementType(moe__factor_type(op, 0));
    s->operands[MOE__MM_QA].mn_major = !moe__is_row_major(moe__factor_type(op, MOE__MM_QA));
    s->operands[MOE__MM_QB].mn_major = moe__is_row_major(moe__factor_type(op, MOE__MM_QB));
  }
  s->side[0] = &s->operands[s->schedule.swap_operands ? MOE__MM_QB : MOE__MM_QA];
  s->side[1] = &s->operands[s->schedule.swap_operands ? MOE__MM_QA : MOE__MM_QB];
  int shared = s->schedule.beside ? 0 : 1; /* by the CTAs of a cluster */
  s->side[0]->tile = moe__mm_tile_rows(&s->schedule);
  s->side[1]->tile = s->schedule.tile_n;
  s->fragment_n = s->schedule.tile_n / (moe__mm_has_mx_scales(s) ? MOE__MM_WARPGROUPS : 1);
  for (int i = 0; i < 2; i++) {
    s->side[i]->rows = s->side[i]->tile * (i == shared ? 1 : s->schedule.cluster);
    s->side[i]->box = s->side[i]->tile / (i == shared ? s->schedule.cluster : 1);
  }
  if (s->schedule.swap_operands)
    s->side[1]->box = s->side[1]->tile / s->schedule.pieces;
}

/* Makes the table of groups, in the first warp; the gradient's experts are ordered by all
 * threads. */
static void initialize_groups(moe__scaled_mm_t *s) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  MlirValue tokens = s->which == MOE__GRADIENT ? s->depth.value : s->rows.value;
  if (s->aligned) /* but for the room between groups */
    tokens = moe__smax(b, moe__sub(b, tokens, moe__mul(b, s->experts.value, MOE_GROUP_ALIGN)),
                       moe__i32(b, 0));
  MOE__IF (b, moe__ult(b, kernel->thread, MOE__WARP)) {
    moe__groups_initialize(&s->groups, s->offs, tokens, kernel->thread, s->status);
  }
  if (s->which != MOE__GRADIENT)
    return;
  moe__cta_barrier(b);
  moe__groups_sort(&s->groups);
}

/* After it every thread sees what all have prepared, and every CTA of the cluster has begun, so
 * that the others may reach it. */
static void begin_together(moe__scaled_mm_t *s) {
  (s->schedule.cluster > 1 ? moe__cluster_barrier : moe__cta_barrier)(&s->kernel.builder);
}

/* No CTA of a cluster ends while another may still reach it. */
static void end_together(moe__scaled_mm_t *s) {
  if (s->schedule.cluster == 1)
    return;
  moe__warp_barrier(&s->kernel.builder);
  moe__cluster_barrier(&s->kernel.builder);
}

/* No more CTAs than tiles, where forward each token may be a group of its own; none for an empty
 * result. */
static const moe__expression_t *grid_expression(moe__scaled_mm_t *s) {
  moe__record_t *record = &s->kernel.record;
  const moe__expression_t *tiles, *columns = moe__expression_ceildiv(record, s->columns.expression,
                                                                     s->operands[MOE__MM_QB].rows);
  if (s->which == MOE__FORWARD) {
    tiles = moe__expression_mul(record, MOE__EXPRESSIONS(s->rows.expression, columns));
  } else {
    const moe__expression_t *rows =
        moe__expression_ceildiv(record, s->rows.expression, s->operands[MOE__MM_QA].rows);
    tiles = moe__expression_mul(record, MOE__EXPRESSIONS(s->experts.expression, rows, columns));
  }
  return s->schedule.cluster > 1
             ? moe__expression_persistent_clusters(record, tiles, s->schedule.cluster)
             : moe__expression_min(record, tiles, moe__expression_num_sms(record));
}

static bool lower(const moe__lowering_t *lowering) {
  MlirOperation op = lowering->op;
  const moe__mm_layout_t *layout = lowering->layout;
  const moe__mm_schedule_t *schedule = lowering->schedule;
  moe__scaled_mm_t s = {.schedule = *schedule, .layout = *layout};
  if (!s.schedule.swap_operands)
    s.schedule.pieces = 1;
  read_op(&s, op);
  moe__kernel_t *kernel = &s.kernel;
  moe__builder_t *b = &kernel->builder;
  moe__lowering_begin(lowering, kernel);
  add_parameters(&s, op);
  add_requirements(&s, op);
  moe__kernel_cluster(kernel, s.schedule.cluster);
  moe__kernel_prologue(kernel);
  moe__kernel_await_launches(kernel);
  if (has_groups(&s))
    s.groups = moe__groups_create(
        kernel, &layout->groups, s.experts.value, s.operands[MOE__MM_QA].rows,
        moe__ceil_div(b, s.columns.value, s.operands[MOE__MM_QB].rows), s.schedule.band);

  MlirValue loader = moe__i32(b, moe__mm_threads(&s.schedule));
  s.loads = moe__eq(b, kernel->thread, loader);
  MOE__IF (b, s.loads) {
    moe__tma_prefetch_map(b, s.operands[MOE__MM_QA].map);
    moe__tma_prefetch_map(b, s.operands[MOE__MM_QB].map);
    moe__mm_epilogue_prefetch_map(&s);
    int readers = s.schedule.pingpong
                      ? 1
                      : moe__mm_warpgroups(&s.schedule); /* warpgroups that read a stage */
    if (moe__mm_has_mx_scales(&s))
      moe__ring_initialize_filled(kernel, &s.layout.ring, 1 + MOE__MM_MX_WRITERS,
                                  moe__mm_mx_readers(&s.schedule));
    else
      moe__ring_initialize_filled(kernel, &s.layout.ring, moe__mm_clears(&s) ? MOE__MM_CLEARERS : 1,
                                  readers * MOE__MM_WARPGROUP / MOE__WARP * s.schedule.cluster);
    if (s.schedule.pingpong) {
      moe__mm_slots_initialize(&s);
      moe__mm_turns_initialize(&s);
    }
    if (moe__mm_has_mx_tokens(&s))
      moe__mm_mx_tokens_initialize(&s);
    else if (moe__mm_clears(&s))
      moe__mm_clear_initialize(&s);
  }
  if (has_groups(&s))
    initialize_groups(&s);
  begin_together(&s);

  MOE__IF (b, moe__ult(b, kernel->thread, loader)) {
    moe__registers_increase(b, multiplier_registers(&s));
    if (moe__mm_has_mx_scales(&s))
      moe__mm_multiply_mx(&s);
    else if (s.schedule.pingpong)
      moe__mm_multiply_in_turn(&s);
    else if (moe__mm_stores_behind(&s))
      multiply_tiles_ahead(&s);
    else
      multiply_tiles(&s);
  }
  MOE__ELSE (b) {
    moe__registers_decrease(b, loader_registers(&s));
    if (moe__mm_has_mx_scales(&s) || moe__mm_clears(&s)) {
      MlirValue others = moe__i32(b, moe__mm_threads(&s.schedule) + MOE__WARP);
      MOE__IF (b, moe__ule(b, others, kernel->thread)) {
        if (moe__mm_has_mx_scales(&s))
          moe__mm_mx_write_factors(&s);
        else
          moe__mm_clear(&s);
      }
    }
    moe__mm_load(&s);
  }
  end_together(&s);
  moe__lowering_end(lowering, kernel, grid_expression(&s));
  return true;
}

const moe__kernel_definition_t moe__scaled_mm_kernel = {
    .ops = {MOE__OP_SCALED_MM, MOE__OP_SCALED_MM_BIAS, MOE__OP_MM, MOE__OP_MM_BIAS},
    .has_kernel = has_kernel,
    .schedule = &moe__mm_schedule,
    .candidates = moe__mm_candidates,
    .layout_size = sizeof(moe__mm_layout_t),
    .layout = moe__mm_lay_out,
    .lower = lower,
};
