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
 * them: a row depends on nothing but itself, so that even a NaN there does no harm. In the gradient
 * tokens of other groups must not count (Clear.c).
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "passes/scaled_grouped_mm/ScaledMm.h"

#include "lib/Builder/Inspect.h"
#include "lib/Builder/Shapes.h"
#include "lib/Kernel/Warp.h"
#include "passes/Lowering.h"

#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/BuiltinTypes.h"

#define STEPS (MOE__MM_DEPTH / MOE__MM_STEP)
/* Of a block's first token: a sector of L2, of which the TMA then fetches none twice. It takes 16, too. */
#define TOKEN_ALIGNMENT 32

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

/* Whether blocks share tiles by a counter. */
static bool counts_tiles(const moe__scaled_mm_t *s) {
  return s->which == MOE__GRADIENT && s->schedule.cluster == 1;
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
  if (counts_tiles(s))
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

/* ---- Tiles ---- */

/* Those that each expert has, where they do not depend on the groups. */
static moe__tiles_t equal_tiles(moe__scaled_mm_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  return moe__tiles_create(
      b, s->experts.value, moe__ceil_div(b, s->rows.value, s->operands[MOE__MM_QA].rows),
      moe__ceil_div(b, s->columns.value, s->operands[MOE__MM_QB].rows), s->schedule.band);
}

static MlirValue tile_count(moe__scaled_mm_t *s) {
  return s->which == MOE__FORWARD ? moe__groups_total(&s->groups) : equal_tiles(s).total;
}

/* Tiles are taken in turn; but those of the gradient, which are as long as their group, by a counter:
 * whoever is done takes the next one. The longest come first, so that all end at about the same time.
 * Only the thread that loads gets the number: the counter takes its time, and no other one waits here. */
static MlirValue next_tile(moe__scaled_mm_t *s, MlirValue index) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue step = moe__tiles_step(&s->kernel), zero = moe__i32(b, 0), one = moe__i32(b, 1);
  if (!counts_tiles(s))
    return moe__add(b, index, step);
  moe__for_t once = moe__for_begin(b, moe__select(b, s->loads, zero, one), one, one, 1, &zero);
  MlirValue count = moe__atomic_add(b, s->counters, one, MOE__RELAXED);
  moe__for_end(b, &once, &count);
  return moe__add(b, once.carried[0], step);
}

/* Counts the blocks that are done; the last one leaves both counters zero. */
static void finish_counting(moe__scaled_mm_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  if (!counts_tiles(s))
    return;
  MlirValue zero = moe__i32(b, 0), one = moe__i32(b, 1);
  MlirValue done = moe__offset_by(b, s->counters, 4);
  MlirValue before = moe__atomic_add(b, done, one, MOE__ACQUIRE_RELEASE);
  MlirValue is_last = moe__eq(b, moe__add(b, before, one), s->kernel.block_count);
  moe__if_t last = moe__if_begin(b, is_last, false);
  moe__atomic_exchange(b, s->counters, zero, MOE__RELAXED);
  moe__atomic_exchange(b, done, zero, MOE__RELAXED);
  moe__if_end(b, &last);
}

/* Where each expert has the same tiles, one is that of a group of `rows` rows of out, seen as a matrix. */
static moe__group_tile_t tile_at(moe__scaled_mm_t *s, MlirValue index) {
  moe__builder_t *b = &s->kernel.builder;
  if (s->which == MOE__FORWARD)
    return moe__groups_tile(&s->groups, index);
  moe__tiles_t tiles = equal_tiles(s);
  moe__tile_t at = moe__tile_at(b, &tiles, index);
  MlirValue group =
      s->which == MOE__GRADIENT ? moe__groups_by_size(&s->groups, at.batch) : at.batch;
  MlirValue first = moe__mul(b, group, s->rows.value);
  MlirValue row = moe__mul(b, at.row, moe__i32(b, s->operands[MOE__MM_QA].rows));
  return (moe__group_tile_t){.group = group,
                             .row = moe__add(b, first, row),
                             .row_end = moe__add(b, first, s->rows.value),
                             .column = at.column};
}

/* A tile and the range of tokens that it sums over, which is that of the gradient's group. */
typedef struct work_t {
  moe__group_tile_t tile;
  MlirValue start, end; /* i32; null but for the gradient */
} work_t;

static work_t work_at(moe__scaled_mm_t *s, MlirValue index) {
  moe__builder_t *b = &s->kernel.builder;
  work_t work = {.tile = tile_at(s, index)};
  if (s->which == MOE__GRADIENT)
    moe__groups_range(&s->groups, work.tile.group, &work.start, &work.end);
  if (s->schedule.cluster > 1) {
    MlirValue above = moe__mul(b, s->kernel.cluster_rank, moe__i32(b, MOE__MM_TILE_ROWS));
    work.tile.row = moe__add(b, work.tile.row, above);
  }
  return work;
}

static moe__mm_reduction_t reduction_of(moe__scaled_mm_t *s, const work_t *work) {
  moe__builder_t *b = &s->kernel.builder;
  moe__mm_reduction_t r = {.first = moe__i32(b, 0), .start = work->start, .end = work->end};
  if (s->which != MOE__GRADIENT) {
    r.blocks = moe__ceil_div(b, s->depth.value, MOE__MM_DEPTH);
    return r;
  }
  r.first = moe__and(b, r.start, moe__i32(b, -TOKEN_ALIGNMENT));
  /* An empty group has one step, all of it cleared: its gradient is zero. */
  MlirValue one = moe__i32(b, 1);
  MlirValue steps = moe__ceil_div(b, moe__sub(b, r.end, r.first), MOE__MM_STEP);
  steps = moe__smax(b, steps, one);
  r.blocks = moe__ceil_div(b, steps, STEPS);
  MlirValue before = moe__mul(b, moe__sub(b, r.blocks, one), moe__i32(b, STEPS));
  r.last_steps = moe__sub(b, steps, before);
  return r;
}

/* Where block number `index`, in the order of multiplication, starts in the reduction. */
static MlirValue block_at(moe__scaled_mm_t *s, const moe__mm_reduction_t *reduction,
                          MlirValue index) {
  moe__builder_t *b = &s->kernel.builder;
  if (s->which == MOE__GRADIENT) { /* the last one first */
    MlirValue is_first = moe__eq(b, index, moe__i32(b, 0));
    MlirValue number = moe__select(b, is_first, reduction->blocks, index);
    index = moe__sub(b, number, moe__i32(b, 1));
  }
  return moe__add(b, reduction->first, moe__mul(b, index, moe__i32(b, MOE__MM_DEPTH)));
}

/* ---- What the loader tells the others of a tile ---- */

/* It writes where a tile is into one of a ring of slots, before it announces the tile's first stage: who
 * has waited for that stage can read it, and looks for no tile itself. Readers do so before they release
 * the stage. One slot more than stages: when the loader comes round, that release has been seen. */
#define SLOT_BYTES 32

static int slots(const moe__scaled_mm_t *s) {
  return s->schedule.stages + 1;
}

static MlirValue slot_at(moe__scaled_mm_t *s, MlirValue slot) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue offset = moe__mul(b, slot, moe__i32(b, SLOT_BYTES));
  return moe__offset_by(b, moe__offset(b, s->kernel.shared, offset), s->slots);
}

static MlirValue next_slot(moe__scaled_mm_t *s, MlirValue slot) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue next = moe__add(b, slot, moe__i32(b, 1));
  return moe__select(b, moe__eq(b, next, moe__i32(b, slots(s))), moe__i32(b, 0), next);
}

static void write_slot(moe__scaled_mm_t *s, MlirValue slot, const work_t *work) {
  moe__builder_t *b = &s->kernel.builder;
  const moe__group_tile_t *tile = &work->tile;
  MlirValue address = slot_at(s, slot);
  MlirValue where[] = {tile->group, tile->row, tile->row_end, tile->column};
  moe__store_aligned(b, moe__vector(b, 4, where), address, 16);
  if (work->start.ptr)
    moe__store_aligned(b, moe__vector(b, 2, (MlirValue[]){work->start, work->end}),
                       moe__offset_by(b, address, 16), 8);
}

/* Says that there are no more tiles: a group of a number that no group has. */
static void write_end(moe__scaled_mm_t *s, MlirValue slot) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue none = moe__i32(b, -1);
  write_slot(s, slot, &(work_t){.tile = {none, none, none, none}});
}

static MlirValue read_group(moe__scaled_mm_t *s, MlirValue slot) {
  return moe__load(&s->kernel.builder, slot_at(s, slot), s->kernel.builder.i32);
}

static work_t read_slot(moe__scaled_mm_t *s, MlirValue slot) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue address = slot_at(s, slot);
  MlirValue where = moe__load_aligned(b, address, moe__vector_type(b, 4, b->i32), 16);
  work_t work = {.tile = {.group = moe__extract(b, where, 0),
                          .row = moe__extract(b, where, 1),
                          .row_end = moe__extract(b, where, 2),
                          .column = moe__extract(b, where, 3)}};
  if (s->which == MOE__GRADIENT) {
    MlirValue range =
        moe__load_aligned(b, moe__offset_by(b, address, 16), moe__vector_type(b, 2, b->i32), 8);
    work.start = moe__extract(b, range, 0);
    work.end = moe__extract(b, range, 1);
  }
  moe__warp_barrier(b);
  return work;
}

/* ---- The loading warpgroup ---- */

/* Where an operand's part of a tile starts. */
static MlirValue first_row(moe__scaled_mm_t *s, const moe__mm_operand_t *operand,
                           const moe__group_tile_t *tile) {
  moe__builder_t *b = &s->kernel.builder;
  if (operand == &s->operands[MOE__MM_QB])
    return moe__mul(b, tile->column, moe__i32(b, operand->rows));
  if (s->which == MOE__FORWARD)
    return tile->row;
  return moe__sub(b, tile->row, moe__mul(b, tile->group, s->rows.value));
}

/* Loads what a tile takes of an operand, from `at` of the reduction on, to `buffer`. What the blocks of a
 * cluster share each of them loads a part of, for all. */
static void load_operand(moe__scaled_mm_t *s, const moe__mm_operand_t *operand,
                         const moe__group_tile_t *tile, MlirValue at, MlirValue buffer,
                         MlirValue landed) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue row = first_row(s, operand, tile);
  if (s->schedule.cluster == 1 || operand != s->side[1]) {
    moe__tma_load(b, operand->map, buffer, landed, operand->map_rank,
                  (MlirValue[]){at, row, tile->group});
    return;
  }
  MlirValue part = moe__mul(b, s->kernel.cluster_rank, moe__i32(b, operand->box));
  MlirValue all = moe__trunc(b, moe__i32(b, (1 << s->schedule.cluster) - 1),
                             mlirIntegerTypeGet(b->context, 16));
  buffer = moe__offset(b, buffer, moe__mul(b, part, moe__i32(b, MOE__MM_DEPTH)));
  moe__tma_load_multicast(b, operand->map, buffer, landed, operand->map_rank,
                          (MlirValue[]){at, moe__add(b, row, part), tile->group}, all);
}

/* Where the loader stands: the stage it fills next, and of a gradient what is to be cleared. */
typedef struct loader_t {
  moe__cursor_t cursor;
  moe__mm_requests_t requests;
} loader_t;

enum { STAGE, PHASE, NEXT, OLDEST, OLDEST_PHASE, LOADER }; /* as values that loops carry */

static loader_t loader_from(const MlirValue carried[LOADER]) {
  return (loader_t){{carried[STAGE], carried[PHASE]},
                    {carried[NEXT], {carried[OLDEST], carried[OLDEST_PHASE]}}};
}

static void loader_to(const loader_t *loader, MlirValue carried[LOADER]) {
  carried[STAGE] = loader->cursor.stage;
  carried[PHASE] = loader->cursor.phase;
  carried[NEXT] = loader->requests.next;
  carried[OLDEST] = loader->requests.oldest.stage;
  carried[OLDEST_PHASE] = loader->requests.oldest.phase;
}

/* Loads block number `index` of a tile. */
static void load_block(moe__scaled_mm_t *s, const work_t *work,
                       const moe__mm_reduction_t *reduction, MlirValue index, loader_t *loader) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  int32_t row_bytes = MOE__MM_TILE_ROWS * MOE__MM_DEPTH;
  int32_t column_bytes = s->schedule.tile_n * MOE__MM_DEPTH;
  MlirValue at = block_at(s, reduction, index), open = loader->requests.next;
  moe__ring_wait_empty(kernel, &s->ring, loader->cursor);
  MlirValue landed = s->which == MOE__GRADIENT
                         ? moe__mm_request(s, reduction, at, loader->cursor, &loader->requests)
                         : moe__ring_full(kernel, &s->ring, loader->cursor);
  moe__if_t one = moe__if_begin(b, s->loads, false);
  moe__mbarrier_arrive_expect(b, landed, moe__i32(b, row_bytes + column_bytes));
  MlirValue buffer = moe__ring_buffer(kernel, &s->ring, loader->cursor);
  load_operand(s, s->side[0], &work->tile, at, buffer, landed);
  load_operand(s, s->side[1], &work->tile, at, moe__offset_by(b, buffer, row_bytes), landed);
  moe__if_end(b, &one);
  /* Whoever multiplies gives a stage back when the next one is full: of two stages, none waits here. */
  if (s->which == MOE__GRADIENT)
    moe__mm_clear(s, s->schedule.stages > 2 ? open : loader->requests.next, &loader->requests);
  loader->cursor = moe__cursor_next(b, &s->ring, loader->cursor);
}

/* Loads all of a tile. */
static void load_tile(moe__scaled_mm_t *s, const work_t *work, loader_t *loader) {
  moe__builder_t *b = &s->kernel.builder;
  moe__mm_reduction_t reduction = reduction_of(s, work);
  MlirValue carried[LOADER];
  loader_to(loader, carried);
  moe__for_t blocks =
      moe__for_begin(b, moe__i32(b, 0), reduction.blocks, moe__i32(b, 1), LOADER, carried);
  *loader = loader_from(blocks.carried);
  load_block(s, work, &reduction, blocks.index, loader);
  loader_to(loader, carried);
  moe__for_end(b, &blocks, carried);
  *loader = loader_from(blocks.carried);
}

static void load_tiles(moe__scaled_mm_t *s) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  MlirValue total = tile_count(s);
  loader_t loader = {moe__cursor_start(b), moe__mm_requests_start(b)};
  enum { SLOT = LOADER, INDEX, CARRIED };
  MlirValue carried[CARRIED] = {[SLOT] = moe__i32(b, 0), [INDEX] = moe__tiles_first(kernel)};
  loader_to(&loader, carried);
  moe__while_t tiles = moe__while_begin(b, CARRIED, carried, CARRIED);
  moe__while_test(b, &tiles, moe__ult(b, tiles.carried[INDEX], total), tiles.carried);
  MlirValue next = next_tile(s, tiles.carried[INDEX]); /* early: it takes its time */
  work_t work = work_at(s, tiles.carried[INDEX]);
  moe__if_t one = moe__if_begin(b, s->loads, false);
  write_slot(s, tiles.carried[SLOT], &work);
  moe__if_end(b, &one);
  if (s->which == MOE__GRADIENT)
    moe__warp_barrier(b); /* what other lanes have read stays in front of what the one announces */
  loader = loader_from(tiles.carried);
  load_tile(s, &work, &loader);
  loader_to(&loader, carried);
  carried[SLOT] = next_slot(s, tiles.carried[SLOT]);
  carried[INDEX] = counts_tiles(s) ? moe__shuffle(b, next, moe__i32(b, 0)) : next;
  moe__while_end(b, &tiles, carried);
  loader = loader_from(tiles.carried);
  if (s->which == MOE__GRADIENT)
    moe__mm_clear(s, loader.requests.next, &loader.requests);
  /* One more stage, with nothing in it, says that there are no more tiles. */
  one = moe__if_begin(b, s->loads, false);
  write_end(s, tiles.carried[SLOT]);
  moe__ring_acquire(kernel, &s->ring, loader.cursor, moe__i32(b, 0));
  finish_counting(s);
  moe__if_end(b, &one);
}

/* Registers of a thread of the loading warpgroup, and of one that multiplies: of 504 that three of them have
 * together. Promoted sums take two accumulators. */
static int loader_registers(const moe__scaled_mm_t *s) {
  return s->promoted ? 56 : 72;
}

static int multiplier_registers(const moe__scaled_mm_t *s) {
  return (504 - loader_registers(s)) / MOE__MM_WARPGROUPS;
}

/* The loading warpgroup: one thread is here, or of a gradient one warp, of which one thread loads. */
static void load(moe__scaled_mm_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue end = moe__i32(b, MOE__MM_THREADS + MOE__WARP), is_here = s->loads;
  if (s->which == MOE__GRADIENT)
    is_here = moe__ult(b, s->kernel.thread, end);
  else
    s->loads = moe__op1(b, "arith.constant", mlirIntegerTypeGet(b->context, 1), MOE__NO_VALUES,
                        "value = true");
  moe__if_t here = moe__if_begin(b, is_here, false);
  load_tiles(s);
  moe__if_end(b, &here);
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
                                   const work_t *work, moe__cursor_t cursor) {
  moe__builder_t *b = &s->kernel.builder;
  moe__mm_reduction_t reduction = reduction_of(s, work);
  preparation_t preparation = {.s = s, .self = self, .tile = &work->tile};
  reduction.blocks = moe__warp_uniform(b, reduction.blocks);
  if (s->which == MOE__GRADIENT) {
    preparation.is_empty = moe__eq(b, work->start, work->end);
    reduction.last_steps = moe__warp_uniform(b, reduction.last_steps);
    multiply_and_store(s, &preparation, &reduction, cursor);
    return moe__cursor_advance(b, &s->ring, cursor, reduction.blocks);
  }
  MlirValue works = moe__warp_uniform(b, moe__zext(b, has_rows(s, self, &work->tile), b->i32));
  moe__if_t has_work = moe__if_begin(b, moe__ne(b, works, moe__i32(b, 0)), true);
  multiply_and_store(s, &preparation, &reduction, cursor);
  moe__else(b, &has_work);
  moe__mm_pass_over(s, self, &reduction, cursor);
  moe__if_end(b, &has_work);
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
  MlirValue group = moe__warp_uniform(b, read_group(s, tiles.carried[SLOT]));
  moe__while_test(b, &tiles, moe__ne(b, group, moe__i32(b, -1)), tiles.carried);
  work_t work = read_slot(s, tiles.carried[SLOT]);
  moe__cursor_t cursor = {tiles.carried[STAGE], tiles.carried[PHASE]};
  cursor = multiply_tile(s, &self, &work, cursor);
  moe__while_end(b, &tiles,
                 (MlirValue[]){cursor.stage, cursor.phase, next_slot(s, tiles.carried[SLOT])});
}

/* ---- The kernel ---- */

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
  s.slots = moe__kernel_shared(kernel, slots(&s) * SLOT_BYTES, 16);
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
  load(&s);
  moe__if_end(b, &role);
  end_together(&s);
  char grid[MOE__EXPRESSION_SIZE];
  write_grid(&s, grid);
  moe__kernel_end(kernel, gpu_module_body, moe__symbol(function),
                  (const char *const[]){grid, "1", "1"});
  return true;
}
