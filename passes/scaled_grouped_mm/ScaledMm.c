/* ScaledMm.c - the kernel of scaled_grouped_mm.scaled_mm: products of FP8 matrices over ragged groups
 * of tokens, or in batches.
 *
 * One kernel for all cases. Forward: the tokens (M,K) of group e times the weights (K,N) of expert e; a
 * group is a range of rows. Gradient: for each e, (N,M) times (M,K) over the tokens of group e; a group
 * is a range of the reduction, and every expert has the same tiles. Batched: the same tiles, and the
 * whole reduction.
 *
 * - A table of the groups is made from the offsets, in shared memory, by one warp.
 * - One warp loads. For each tile, for each 128 of the reduction, it waits until a stage is free, and one
 * thread fetches two boxes by TMA. Of a gradient all of the warp clears what lies outside the group
 * (Clear.c).
 * - In a cluster two blocks have tiles below one another. Of the columns' operand each of them loads one
 * half, into both.
 * - Two warpgroups multiply, 64 rows of each tile (Multiply.c); then they scale, round and store
 * (Epilogue.c). Forward, one whose rows all lie behind the end of the group multiplies nothing.
 *
 * Forward, a tile that reaches past the end of its group multiplies rows of the next one and drops
 * them: a row depends on nothing but itself, so that even a NaN there does no harm.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "passes/scaled_grouped_mm/ScaledMm.h"

#include "lib/Builder/Inspect.h"
#include "lib/Builder/Shapes.h"
#include "lib/Kernel/Warp.h"
#include "passes/Lowering.h"

#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/BuiltinTypes.h"

/* ---- Parameters ---- */

/* How an operand lies in memory: its rows, the dimension along them, and where its matrices are many,
 * these. */
static void add_map(moe__scaled_mm_t *s, int number, const moe__extent_t *inner,
                    const moe__extent_t *rows, const moe__extent_t *matrices) {
  char matrix[MOE__EXPRESSION_SIZE];
  moe__mm_operand_t *operand = &s->operands[number];
  moe__tensor_map_t map = {.tensor = number, .element = "u8", .rank = 2, .swizzle = "128B"};
  map.dims[0] = map.strides[0] = inner->expression;
  map.dims[1] = rows->expression;
  map.box[0] = MOE__MM_DEPTH;
  map.box[1] = operand->box;
  if (matrices) {
    moe__expression_mul(matrix, 2, (const char *[]){rows->expression, inner->expression});
    map.rank = 3;
    map.dims[2] = matrices->expression;
    map.strides[1] = matrix;
    map.box[2] = 1;
  }
  operand->map_rank = map.rank;
  operand->map = moe__kernel_tensor_map(&s->kernel, &map);
}

static void add_extents(moe__scaled_mm_t *s, MlirType qa, MlirType qb, MlirType offs) {
  moe__kernel_t *kernel = &s->kernel;
  int qa_rank = (int)mlirShapedTypeGetRank(qa), qb_rank = (int)mlirShapedTypeGetRank(qb);
  s->rows = moe__kernel_extent(kernel, MOE__MM_QA, qa_rank - 2, qa);
  s->depth = moe__kernel_extent(kernel, MOE__MM_QA, qa_rank - 1, qa);
  if (s->which == MOE__GRADIENT)
    s->experts = moe__kernel_extent(kernel, s->offs_number, 0, offs);
  else
    s->experts = moe__kernel_extent(kernel, MOE__MM_QB, 0, qb);
  s->columns = moe__kernel_extent(kernel, MOE__MM_QB, qb_rank - 1, qb);
}

static void add_parameters(moe__scaled_mm_t *s, MlirOperation op) {
  moe__kernel_t *kernel = &s->kernel;
  add_extents(s, mlirValueGetType(mlirOperationGetOperand(op, MOE__MM_QA)),
              mlirValueGetType(mlirOperationGetOperand(op, MOE__MM_QB)),
              s->offs_number < 0 ? (MlirType){NULL}
                                 : mlirValueGetType(mlirOperationGetOperand(op, s->offs_number)));
  add_map(s, MOE__MM_QA, &s->depth, &s->rows, s->which == MOE__BATCHED ? &s->experts : NULL);
  add_map(s, MOE__MM_QB, &s->depth, &s->columns, s->which == MOE__GRADIENT ? NULL : &s->experts);
  s->operands[MOE__MM_QA].scales = moe__kernel_pointer(kernel, MOE__MM_SA);
  s->operands[MOE__MM_QB].scales = moe__kernel_pointer(kernel, MOE__MM_SB);
  if (s->offs_number >= 0)
    s->offs = moe__kernel_pointer(kernel, s->offs_number);
  if (s->bias_number >= 0)
    s->bias = moe__kernel_pointer(kernel, s->bias_number);
  s->out = moe__kernel_pointer(kernel, s->out_number);
  if (s->offs_number >= 0)
    s->status = moe__kernel_status(kernel);
  if (moe__mm_counts_tiles(s))
    s->counters = moe__kernel_counters(kernel);
}

/* What a launcher has to check: sizes that belong together, strides of tensor maps and rows of out
 * in multiples of 16 bytes. */
static void add_requirements(moe__scaled_mm_t *s, MlirOperation op) {
  moe__kernel_t *kernel = &s->kernel;
  int qa_last = s->which == MOE__BATCHED ? 2 : 1, qb_last = s->which == MOE__GRADIENT ? 1 : 2;
  moe__kernel_require_same(kernel, MOE__MM_QA, qa_last, MOE__MM_QB, qb_last - 1);
  if (s->which == MOE__BATCHED)
    moe__kernel_require_same(kernel, MOE__MM_QA, 0, MOE__MM_QB, 0);
  if (s->which == MOE__FORWARD)
    moe__kernel_require_same(kernel, MOE__MM_QB, 0, s->offs_number, 0);
  for (int i = MOE__MM_SA; i <= MOE__MM_SB; i++)
    moe__require_scales(kernel, op, i);
  if (s->bias_number >= 0)
    moe__require_scales(kernel, op, s->bias_number);
  moe__kernel_require(kernel, MOE__MM_QB, qb_last, "multiple_of", 16);
  moe__kernel_require(kernel, MOE__MM_QA, qa_last, "at_least", 16);
  moe__kernel_require(kernel, MOE__MM_QA, qa_last, "multiple_of", 16);
  if (s->offs_number >= 0) {
    moe__kernel_require(kernel, s->offs_number, 0, "at_least", 1);
    moe__kernel_require(kernel, s->offs_number, 0, "at_most", MOE__MAX_GROUPS);
  }
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
  MlirValue first = moe__mul(b, self->warpgroup, moe__i32(b, MOE__WGMMA_M));
  if (s->side[0] == &s->operands[MOE__MM_QA])
    return moe__ult(b, moe__add(b, tile->row, first), tile->row_end);
  MlirValue column = moe__mul(b, tile->column, moe__i32(b, MOE__MM_TILE_ROWS));
  return moe__ult(b, moe__add(b, column, first), s->columns.value);
}

static void multiply_and_store(moe__scaled_mm_t *s, preparation_t *preparation,
                               const moe__mm_reduction_t *reduction, moe__cursor_t cursor) {
  MlirValue registers[MOE__WGMMA_MAX_N / 2];
  moe__mm_multiply(s, preparation->self, reduction, cursor, prepare, preparation, registers);
  moe__mm_epilogue_store(s, &preparation->epilogue, registers);
}

/* Multiplies and stores a tile whose first stage has landed; gives the cursor behind it. Of a gradient, whose
 * rows of out end once for each expert and not once for each group, both warpgroups multiply all tiles:
 * another branch costs promoted sums more than it saves. */
static moe__cursor_t multiply_tile(moe__scaled_mm_t *s, const moe__mm_position_t *self,
                                   const moe__mm_work_t *work, moe__cursor_t cursor) {
  moe__builder_t *b = &s->kernel.builder;
  moe__mm_reduction_t reduction = moe__mm_reduction_of(s, work);
  preparation_t preparation = {.s = s, .self = self, .tile = &work->tile};
  reduction.blocks = moe__warp_uniform(b, reduction.blocks);
  if (s->which == MOE__GRADIENT) {
    preparation.is_empty = moe__eq(b, work->start, work->end);
    reduction.last_steps = moe__warp_uniform(b, reduction.last_steps);
    multiply_and_store(s, &preparation, &reduction, cursor);
  } else {
    MlirValue works = moe__warp_uniform(b, moe__zext(b, has_rows(s, self, &work->tile), b->i32));
    moe__if_t has_work = moe__if_begin(b, moe__ne(b, works, moe__i32(b, 0)), true);
    multiply_and_store(s, &preparation, &reduction, cursor);
    moe__else(b, &has_work);
    moe__mm_pass_over(s, self, &reduction, cursor);
    moe__if_end(b, &has_work);
  }
  return moe__cursor_advance(b, &s->ring, cursor, reduction.blocks);
}

static void multiply_tiles(moe__scaled_mm_t *s) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  MlirValue warp = moe__and(b, moe__lshr(b, kernel->thread, 5), moe__i32(b, 3));
  moe__mm_position_t self = {.warpgroup = moe__lshr(b, kernel->thread, 7),
                             .lane = moe__and(b, kernel->thread, moe__i32(b, MOE__WARP - 1))};
  self.warp_row =
      moe__add(b, moe__mul(b, self.warpgroup, moe__i32(b, MOE__WGMMA_M)), moe__shl(b, warp, 4));
  self.row = moe__add(b, self.warp_row, moe__lshr(b, self.lane, 2));
  moe__cursor_t start = moe__cursor_start(b);
  enum { STAGE, PHASE, SLOT, CARRIED };
  moe__while_t tiles = moe__while_begin(
      b, CARRIED, (MlirValue[]){start.stage, start.phase, moe__i32(b, 0)}, CARRIED);
  moe__ring_wait(kernel, &s->ring, (moe__cursor_t){tiles.carried[STAGE], tiles.carried[PHASE]});
  MlirValue group = moe__warp_uniform(b, moe__mm_read_group(s, tiles.carried[SLOT]));
  moe__while_test(b, &tiles, moe__ne(b, group, moe__i32(b, MOE__MM_NO_GROUP)), tiles.carried);
  moe__mm_work_t work = moe__mm_read_slot(s, tiles.carried[SLOT]);
  moe__cursor_t cursor = {tiles.carried[STAGE], tiles.carried[PHASE]};
  cursor = multiply_tile(s, &self, &work, cursor);
  moe__while_end(
      b, &tiles,
      (MlirValue[]){cursor.stage, cursor.phase, moe__mm_next_slot(s, tiles.carried[SLOT])});
}

/* ---- The kernel ---- */

/* Registers of a thread of the loading warpgroup, and of one that multiplies: of 504 that three of them have
 * together. Promoted sums take two accumulators. What the gradient's loader needs to clear is more than
 * the others', whose speed does not depend on it. */
static int loader_registers(const moe__scaled_mm_t *s) {
  return s->promoted ? 56 : 72;
}

static int multiplier_registers(const moe__scaled_mm_t *s) {
  return (504 - loader_registers(s)) / MOE__MM_WARPGROUPS;
}

bool moe__scaled_mm_has_kernel(MlirOperation op) {
  static const char *const qb_orders[] = {
      [MOE__FORWARD] = "column-major per expert; give it the encoding "
                       "affine_map<(e, k, n) -> (e, n, k)>",
      [MOE__GRADIENT] = "column-major; give it the encoding affine_map<(m, k) -> (k, m)>",
      [MOE__BATCHED] = "column-major per expert; give it the encoding "
                       "affine_map<(e, k, n) -> (e, n, k)>"};
  MlirType qa = mlirValueGetType(mlirOperationGetOperand(op, MOE__MM_QA));
  MlirType qb = mlirValueGetType(mlirOperationGetOperand(op, MOE__MM_QB));
  MlirType sa = mlirValueGetType(mlirOperationGetOperand(op, MOE__MM_SA));
  if (!mlirTypeIsAF32(mlirShapedTypeGetElementType(sa)))
    return moe__error(op, "the kernel takes f32 scales");
  bool row_major = moe__is_row_major(mlirValueGetType(mlirOperationGetResult(op, 0)));
  for (int i = 0; i < mlirOperationGetNumOperands(op); i++)
    row_major &=
        i == MOE__MM_QB || moe__is_row_major(mlirValueGetType(mlirOperationGetOperand(op, i)));
  if (!row_major)
    return moe__error(op, "the kernel takes all tensors but qb row-major; remove their encoding");
  if (!moe__is_column_major(qb))
    return moe__error(op, "the kernel takes qb %s", qb_orders[moe__mm_case(op)]);
  return moe__needs_multiple_of_16(op, "qa", qa, (int)mlirShapedTypeGetRank(qa) - 1) &&
         moe__needs_multiple_of_16(op, "qb", qb, (int)mlirShapedTypeGetRank(qb) - 1);
}

/* What the op says; false after an error. */
static bool read_op(moe__scaled_mm_t *s, MlirOperation op, int max_groups) {
  moe__mm_scales_t scales[2];
  s->which = moe__mm_case(op);
  s->promoted = mlirStringRefEqual(moe__op_string(op, "accumulate"),
                                   mlirStringRefCreateFromCString("promoted"));
  s->offs_number = moe__mm_offs_operand(op);
  s->bias_number = moe__mm_bias_operand(op);
  s->out_number = (int)mlirOperationGetNumOperands(op);
  s->out_type = mlirShapedTypeGetElementType(mlirValueGetType(mlirOperationGetResult(op, 0)));
  if (s->bias_number >= 0)
    s->bias_type =
        mlirShapedTypeGetElementType(mlirValueGetType(mlirOperationGetOperand(op, s->bias_number)));
  if (!moe__scaled_mm_has_kernel(op) ||
      !moe__grouped_schedule_read(op, max_groups, s->promoted, s->which == MOE__GRADIENT,
                                  &s->schedule))
    return false;
  for (int i = 0; i < 2; i++) {
    MlirType type = mlirValueGetType(mlirOperationGetOperand(op, MOE__MM_SA + i));
    bool is_one = i == 0 && s->which == MOE__FORWARD && mlirShapedTypeGetDimSize(type, 0) == 1;
    bool of_experts = mlirShapedTypeGetRank(type) == 1 && (i == 1 || s->which != MOE__FORWARD);
    scales[i] = is_one ? MOE__SCALE_OF_ALL : of_experts ? MOE__SCALE_OF_EXPERT : MOE__SCALE_OF_ROW;
    s->operands[i].granularity = scales[i];
    s->operands[i].element = moe__fp8_of(mlirValueGetType(mlirOperationGetOperand(op, i)));
  }
  s->side[0] = &s->operands[s->schedule.swap_operands ? MOE__MM_QB : MOE__MM_QA];
  s->side[1] = &s->operands[s->schedule.swap_operands ? MOE__MM_QA : MOE__MM_QB];
  s->side[0]->box = MOE__MM_TILE_ROWS;
  s->side[0]->rows = MOE__MM_TILE_ROWS * s->schedule.cluster;
  s->side[1]->box = s->schedule.tile_n / s->schedule.cluster;
  s->side[1]->rows = s->schedule.tile_n;
  return true;
}

/* Makes the table of groups, in the first warp; the gradient's experts are ordered by all threads. */
static void initialize_groups(moe__scaled_mm_t *s) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  MlirValue tokens = s->which == MOE__GRADIENT ? s->depth.value : s->rows.value;
  moe__if_t scan = moe__if_begin(b, moe__ult(b, kernel->thread, moe__i32(b, MOE__WARP)), false);
  moe__groups_initialize(&s->groups, s->offs, tokens, kernel->thread, s->status);
  moe__if_end(b, &scan);
  if (s->which != MOE__GRADIENT)
    return;
  moe__block_barrier(b);
  moe__groups_sort(&s->groups);
}

/* What all threads have prepared is seen, and no other block of the cluster is reached before it has
 * begun, or behind its end. */
static void begin_together(moe__scaled_mm_t *s) {
  (s->schedule.cluster > 1 ? moe__cluster_barrier : moe__block_barrier)(&s->kernel.builder);
}

static void end_together(moe__scaled_mm_t *s) {
  if (s->schedule.cluster == 1)
    return;
  moe__warp_barrier(&s->kernel.builder);
  moe__cluster_barrier(&s->kernel.builder);
}

/* No more blocks than tiles, where forward each token may be a group of its own; none for an
 * empty result. */
static void write_grid(const moe__scaled_mm_t *s, char *grid) {
  char columns[MOE__EXPRESSION_SIZE], rows[MOE__EXPRESSION_SIZE], tiles[MOE__EXPRESSION_SIZE];
  moe__expression_ceildiv(columns, s->columns.expression, s->operands[MOE__MM_QB].rows);
  if (s->which == MOE__FORWARD) {
    moe__expression_mul(tiles, 2, (const char *[]){s->rows.expression, columns});
  } else {
    moe__expression_ceildiv(rows, s->rows.expression, s->operands[MOE__MM_QA].rows);
    moe__expression_mul(tiles, 3, (const char *[]){s->experts.expression, rows, columns});
  }
  if (s->schedule.cluster > 1)
    moe__expression_persistent_clusters(grid, tiles, s->schedule.cluster);
  else
    moe__expression_min(grid, tiles, "\"num_sms\"");
}

bool moe__lower_scaled_mm(MlirOperation function, MlirOperation op, MlirBlock gpu_module_body) {
  moe__scaled_mm_t s = {0};
  int max_groups = moe__max_groups(op, moe__mm_offs_operand(op));
  if (!read_op(&s, op, max_groups))
    return false;
  moe__kernel_t *kernel = &s.kernel;
  moe__builder_t *b = &kernel->builder;
  moe__kernel_begin(kernel, mlirOperationGetContext(op), mlirOperationGetLocation(op),
                    MOE__MM_THREADS + MOE__MM_WARPGROUP, 1);
  add_parameters(&s, op);
  add_requirements(&s, op);
  moe__kernel_cluster(kernel, s.schedule.cluster);
  moe__kernel_prologue(kernel);
  moe__kernel_await_launches(kernel);
  s.ring = moe__ring_create(kernel, s.schedule.stages,
                            (MOE__MM_TILE_ROWS + s.schedule.tile_n) * MOE__MM_DEPTH);
  moe__mm_slots_reserve(&s);
  if (s.which == MOE__GRADIENT)
    moe__mm_clear_reserve(&s);
  moe__mm_epilogue_reserve(&s);
  if (s.offs_number >= 0)
    s.groups = moe__groups_create(kernel, max_groups, s.experts.value, s.operands[MOE__MM_QA].rows,
                                  moe__ceil_div(b, s.columns.value, s.operands[MOE__MM_QB].rows),
                                  s.schedule.band);

  MlirValue loader = moe__i32(b, MOE__MM_THREADS);
  s.loads = moe__eq(b, kernel->thread, loader);
  moe__if_t setup = moe__if_begin(b, s.loads, false);
  moe__tma_prefetch_map(b, s.operands[MOE__MM_QA].map);
  moe__tma_prefetch_map(b, s.operands[MOE__MM_QB].map);
  moe__ring_initialize(kernel, &s.ring, MOE__MM_THREADS / MOE__WARP * s.schedule.cluster);
  if (s.which == MOE__GRADIENT)
    moe__mm_clear_initialize(&s);
  moe__if_end(b, &setup);
  if (s.offs_number >= 0)
    initialize_groups(&s);
  begin_together(&s);

  moe__if_t role = moe__if_begin(b, moe__ult(b, kernel->thread, loader), true);
  moe__registers_increase(b, multiplier_registers(&s));
  multiply_tiles(&s);
  moe__else(b, &role);
  moe__registers_decrease(b, loader_registers(&s));
  moe__mm_load(&s);
  moe__if_end(b, &role);
  end_together(&s);
  char grid[MOE__EXPRESSION_SIZE];
  write_grid(&s, grid);
  moe__kernel_end(kernel, gpu_module_body, moe__symbol(function),
                  (const char *const[]){grid, "1", "1"});
  return true;
}
