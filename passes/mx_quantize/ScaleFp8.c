/* ScaleFp8.c - the kernel of mx_quantize.scale_fp8 and scale_fp8_dual, the first of two passes: it
 * reads x, and finds the scales of slices that no block of threads sees whole.
 *
 * A tile is some rows of one expert or group, a vector of 16 bytes wide for each lane of a warp. A
 * block finds the largest magnitudes of its columns, of its rows, or of the whole tile, whatever
 * there are scales for, and raises the maxima in `state` by atomics on their bits. Then it counts
 * itself there; the block that finds that it is the last one of a slice turns the maxima into
 * scales and leaves zeros, so that no launch has to clear anything.
 *
 * Integer maxima have no order, so that the result is the same in every run.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Builder/Shapes.h"
#include "lib/Kernel/Async.h"
#include "lib/Kernel/Elements.h"
#include "lib/Kernel/Fp8.h"
#include "lib/Kernel/Groups.h"
#include "lib/Kernel/Tiles.h"
#include "lib/Kernel/Warp.h"
#include "passes/Lowering.h"
#include "passes/Schedule.h"

#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/BuiltinTypes.h"

#define VECTOR_BYTES 16 /* of x that a lane loads at once */
#define VECTOR_WORDS 4
#define ROW_BYTES (MOE__WARP * VECTOR_BYTES) /* of a tile */
#define MAX_GROUPS 1024
#define MAX_ROWS 32 /* of a warp */

/* What a scale is for. */
typedef enum slices_t { OF_COLUMNS, OF_ROWS, WHOLE } slices_t;

/* The results for one of them. */
typedef struct output_t {
  slices_t slices;
  MlirValue scales, factors, state; /* pointers */
  MlirValue cells; /* i32: scales; the state's counters lie behind as many maxima */
  MlirValue done;  /* shared: whether this block is the slice's last */
} output_t;

typedef struct scale_t {
  moe__kernel_t kernel;
  moe__scale_schedule_t schedule;
  moe__elements_t elements;
  moe__fp8_t element;
  moe__granularity_t granularity;
  bool pow2, grouped;
  int rank;
  MlirValue x, offs, status;
  moe__extent_t extents[3], group_count;
  output_t outputs[2];
  int output_count;
  int32_t tile_rows, tile_columns, partials, flags; /* the last two: offsets in shared memory */
  MlirValue batches, rows, columns;                 /* i32: of x; batches: experts, else 1 */
  MlirValue row_tiles, column_tiles;                /* of an expert, or of x */
  moe__tiles_t tiles;
  moe__groups_t groups;
} scale_t;

/* A tile of this block. */
typedef struct part_t {
  MlirValue batch;        /* i32: expert or group */
  MlirValue first_row;    /* of x that the batch's rows count from */
  MlirValue row, row_end; /* of the batch */
  MlirValue column;       /* first one */
  MlirValue siblings;     /* row tiles of the same batch */
} part_t;

/* ---- What there is a kernel for ---- */

static bool has_kernel(MlirOperation op) {
  MlirType x = mlirValueGetType(mlirOperationGetOperand(op, 0));
  if (!moe__is_row_major(x))
    return moe__error(op, "the kernel takes x row-major; remove its encoding");
  return moe__needs_multiple(op, "x", x, (int)mlirShapedTypeGetRank(x) - 1,
                             VECTOR_BYTES / moe__elements_of(x, false).bytes);
}

bool moe__scale_fp8_has_kernel(MlirOperation op) {
  moe__granularity_t granularity = moe__op_granularity(op);
  MlirType x = mlirValueGetType(mlirOperationGetOperand(op, 0));
  bool last = moe__op_integer(op, "axis") == mlirShapedTypeGetRank(x) - 1;
  if (granularity == MOE__1X128 || granularity == MOE__128X128 || (granularity == MOE__ROW && last))
    return moe__error(
        op, "granularity \"%s\" along axis %d takes one pass; use mx_quantize.quantize_fp8",
        moe__granularity_name(granularity), (int)moe__op_integer(op, "axis"));
  return has_kernel(op);
}

bool moe__scale_fp8_dual_has_kernel(MlirOperation op) {
  return has_kernel(op);
}

/* ---- Addresses ---- */

static MlirValue pointer_to(moe__builder_t *b, MlirValue base, MlirValue index, int bytes) {
  return moe__offset(b, base, moe__mul(b, moe__zext(b, index, b->i64), moe__i64(b, bytes)));
}

static MlirValue counter(scale_t *s, const output_t *output, MlirValue cell) {
  moe__builder_t *b = &s->kernel.builder;
  return pointer_to(b, pointer_to(b, output->state, output->cells, 4), cell, 4);
}

/* The scale of the part's first row, column, or of all of it. */
static MlirValue first_cell(scale_t *s, const output_t *output, const part_t *part) {
  moe__builder_t *b = &s->kernel.builder;
  switch (output->slices) {
  case OF_COLUMNS:
    return moe__add(b, moe__mul(b, part->batch, s->columns), part->column);
  case OF_ROWS:
    return moe__add(b, part->first_row, part->row);
  case WHOLE:
    break;
  }
  return s->granularity == MOE__TENSOR ? moe__i32(b, 0) : part->batch;
}

/* ---- Reading ---- */

/* What a warp found in its rows of a part. */
typedef struct found_t {
  MlirValue columns[VECTOR_WORDS]; /* magnitudes of the lane's columns */
  MlirValue row;                   /* bits of the largest of row number lane / (32 / rows) */
} found_t;

static bool has_slices(const scale_t *s, slices_t slices) {
  for (int i = 0; i < s->output_count; i++)
    if (s->outputs[i].slices == slices)
      return true;
  return false;
}

/* Past the end, rows and columns that are there are read once more: maxima do not change. */
static void read_part(scale_t *s, const part_t *part, MlirValue warp, MlirValue lane,
                      found_t *found) {
  moe__builder_t *b = &s->kernel.builder;
  int rows = s->schedule.rows_per_warp, vector = VECTOR_BYTES / s->elements.bytes;
  MlirValue column = moe__umin(b, moe__add(b, part->column, moe__mul(b, lane, moe__i32(b, vector))),
                               moe__sub(b, s->columns, moe__i32(b, vector)));
  MlirValue row_bytes =
      moe__mul(b, moe__zext(b, s->columns, b->i64), moe__i64(b, s->elements.bytes));
  MlirValue base = pointer_to(b, s->x, column, s->elements.bytes);
  MlirValue first = moe__add(b, part->row, moe__mul(b, warp, moe__i32(b, rows)));
  MlirValue last = moe__sub(b, part->row_end, moe__i32(b, 1));
  MlirValue vectors[MAX_ROWS];
  for (int i = 0; i < rows; i++) {
    MlirValue row = moe__umin(b, moe__add(b, first, moe__i32(b, i)), last);
    MlirValue index = moe__zext(b, moe__add(b, part->first_row, row), b->i64);
    vectors[i] = moe__load(b, moe__offset(b, base, moe__mul(b, index, row_bytes)),
                           moe__vector_type(b, VECTOR_WORDS, b->i32));
  }
  MlirValue row_words[MAX_ROWS];
  for (int i = 0; i < rows; i++) {
    MlirValue words[VECTOR_WORDS];
    for (int j = 0; j < VECTOR_WORDS; j++) {
      words[j] = moe__word_magnitudes(b, &s->elements, moe__extract(b, vectors[i], j));
      found->columns[j] =
          i ? moe__word_max(b, &s->elements, found->columns[j], words[j]) : words[j];
    }
    row_words[i] = words[0];
    for (int j = 1; j < VECTOR_WORDS && has_slices(s, OF_ROWS); j++)
      row_words[i] = moe__word_max(b, &s->elements, row_words[i], words[j]);
  }
  if (has_slices(s, OF_ROWS))
    found->row = moe__word_amax(b, &s->elements,
                                moe__warp_reduce_many(b, rows, row_words, MOE__WARP, lane,
                                                      moe__larger_words, &s->elements));
}

/* ---- Raising the maxima ---- */

static void raise(scale_t *s, const output_t *output, MlirValue cell, MlirValue bits) {
  moe__builder_t *b = &s->kernel.builder;
  moe__atomic_umax(b, pointer_to(b, output->state, cell, 4), bits, MOE__RELAXED);
}

static MlirValue shared_at(scale_t *s, int32_t offset, MlirValue bytes) {
  moe__builder_t *b = &s->kernel.builder;
  return moe__offset_by(b, moe__offset(b, s->kernel.shared, bytes), offset);
}

/* Element `index` of the words that all warps have put down at `word`: the largest. */
static MlirValue combined(scale_t *s, MlirValue column) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue word = moe__shl(b, s->elements.per_word == 2 ? moe__lshr(b, column, 1) : column, 2);
  MlirValue address = shared_at(s, s->partials, word), largest = {NULL};
  for (int warp = 0; warp < s->schedule.warps; warp++) {
    MlirValue words = moe__load(b, moe__offset_by(b, address, warp * ROW_BYTES), b->i32);
    largest = warp ? moe__word_max(b, &s->elements, largest, words) : words;
  }
  if (s->elements.per_word == 1)
    return largest;
  MlirValue odd = moe__eq(b, moe__and(b, column, moe__i32(b, 1)), moe__i32(b, 1));
  return moe__select(b, odd, moe__word_magnitude(b, &s->elements, largest, 1),
                     moe__word_magnitude(b, &s->elements, largest, 0));
}

/* Calls `visit` for each of the block's threads' columns of the part that are columns of x. */
static void for_columns(scale_t *s, const output_t *output, const part_t *part,
                        void (*visit)(scale_t *s, const output_t *output, MlirValue cell,
                                      MlirValue column)) {
  moe__builder_t *b = &s->kernel.builder;
  for (int first = 0; first < s->tile_columns; first += s->kernel.threads) {
    MlirValue column = moe__add(b, s->kernel.thread, moe__i32(b, first));
    MlirValue left = moe__sub(b, s->columns, part->column);
    MlirValue inside = moe__ult(b, column, moe__umin(b, left, moe__i32(b, s->tile_columns)));
    moe__if_t branch = moe__if_begin(b, inside, false);
    visit(s, output, moe__add(b, first_cell(s, output, part), column), column);
    moe__if_end(b, &branch);
  }
}

static void raise_column(scale_t *s, const output_t *output, MlirValue cell, MlirValue column) {
  raise(s, output, cell, combined(s, column));
}

static void raise_rows(scale_t *s, const output_t *output, const part_t *part, MlirValue warp,
                       MlirValue lane, const found_t *found) {
  moe__builder_t *b = &s->kernel.builder;
  int rows = s->schedule.rows_per_warp, lanes = MOE__WARP / rows;
  MlirValue row = moe__udiv(b, lane, moe__i32(b, lanes));
  MlirValue offset = moe__add(b, moe__mul(b, warp, moe__i32(b, rows)), row);
  MlirValue is_first = moe__eq(b, moe__urem(b, lane, moe__i32(b, lanes)), moe__i32(b, 0));
  MlirValue inside =
      moe__and(b, is_first, moe__ult(b, moe__add(b, part->row, offset), part->row_end));
  moe__if_t branch = moe__if_begin(b, inside, false);
  raise(s, output, moe__add(b, first_cell(s, output, part), offset), found->row);
  moe__if_end(b, &branch);
}

static MlirValue is_thread(scale_t *s, int32_t thread) {
  moe__builder_t *b = &s->kernel.builder;
  return moe__eq(b, s->kernel.thread, moe__i32(b, thread));
}

/* The warps' maxima of all their columns lie at `partials`, one behind the other. */
static void raise_whole(scale_t *s, const output_t *output, const part_t *part) {
  moe__builder_t *b = &s->kernel.builder;
  moe__if_t first = moe__if_begin(b, is_thread(s, 0), false);
  MlirValue largest = moe__i32(b, 0);
  for (int warp = 0; warp < s->schedule.warps; warp++)
    largest = moe__umax(
        b, largest,
        moe__load(b, moe__offset_by(b, s->kernel.shared, s->partials + 4 * warp), b->i32));
  raise(s, output, first_cell(s, output, part), largest);
  moe__if_end(b, &first);
}

/* Puts down what the warps found, for the other warps. */
static void share(scale_t *s, MlirValue warp, MlirValue lane, const found_t *found) {
  moe__builder_t *b = &s->kernel.builder;
  if (has_slices(s, OF_COLUMNS)) {
    MlirValue offset = moe__add(b, moe__mul(b, warp, moe__i32(b, ROW_BYTES)),
                                moe__mul(b, lane, moe__i32(b, VECTOR_BYTES)));
    moe__store(b, moe__vector(b, VECTOR_WORDS, found->columns), shared_at(s, s->partials, offset));
  } else if (has_slices(s, WHOLE)) {
    MlirValue word = found->columns[0];
    for (int j = 1; j < VECTOR_WORDS; j++)
      word = moe__word_max(b, &s->elements, word, found->columns[j]);
    MlirValue bits = moe__warp_reduce(b, moe__word_amax(b, &s->elements, word), moe__umax);
    moe__if_t first = moe__if_begin(b, moe__eq(b, lane, moe__i32(b, 0)), false);
    moe__store(b, bits, shared_at(s, s->partials, moe__shl(b, warp, 2)));
    moe__if_end(b, &first);
  }
  moe__block_barrier(b);
}

/* ---- From maxima to scales ---- */

static void write_scale(scale_t *s, const output_t *output, MlirValue cell, MlirValue bits) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue factor = moe__fp8_factor(b, bits, s->element, s->pow2);
  moe__store(b, factor, pointer_to(b, output->factors, cell, 4));
  moe__store(b, moe__fp8_inverse(b, factor), pointer_to(b, output->scales, cell, 4));
}

/* Takes the maximum out of the state, and leaves zero. */
static void finish_cell(scale_t *s, const output_t *output, MlirValue cell, MlirValue column) {
  moe__builder_t *b = &s->kernel.builder;
  (void)column;
  MlirValue bits =
      moe__atomic_exchange(b, pointer_to(b, output->state, cell, 4), moe__i32(b, 0), MOE__RELAXED);
  write_scale(s, output, cell, bits);
}

static void finish_rows(scale_t *s, const output_t *output, const part_t *part) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue rows = moe__umin(b, moe__sub(b, part->row_end, part->row), moe__i32(b, s->tile_rows));
  for (int first = 0; first < s->tile_rows; first += s->kernel.threads) {
    MlirValue row = moe__add(b, s->kernel.thread, moe__i32(b, first));
    moe__if_t inside = moe__if_begin(b, moe__ult(b, row, rows), false);
    finish_cell(s, output, moe__add(b, first_cell(s, output, part), row), row);
    moe__if_end(b, &inside);
  }
}

/* How many parts there are to the slices of this one. */
static MlirValue parts_of(scale_t *s, const output_t *output, const part_t *part) {
  moe__builder_t *b = &s->kernel.builder;
  switch (output->slices) {
  case OF_COLUMNS:
    return part->siblings;
  case OF_ROWS:
    return s->column_tiles;
  case WHOLE:
    break;
  }
  return s->granularity == MOE__TENSOR ? s->tiles.total
                                       : moe__mul(b, part->siblings, s->column_tiles);
}

/* Counts this block for each output, and notes in shared memory where it was the last. */
static void count(scale_t *s, const part_t *part) {
  moe__builder_t *b = &s->kernel.builder;
  moe__block_barrier(b);
  moe__if_t first = moe__if_begin(b, is_thread(s, 0), false);
  for (int i = 0; i < s->output_count; i++) {
    const output_t *output = &s->outputs[i];
    MlirValue cell = counter(s, output, first_cell(s, output, part));
    MlirValue before = moe__atomic_add(b, cell, moe__i32(b, 1), MOE__ACQUIRE_RELEASE);
    MlirValue all = parts_of(s, output, part);
    MlirValue is_last = moe__eq(b, moe__add(b, before, moe__i32(b, 1)), all);
    moe__store(b, moe__zext(b, is_last, b->i32), output->done);
    moe__if_t reset = moe__if_begin(b, is_last, false);
    moe__store(b, moe__i32(b, 0), cell);
    moe__if_end(b, &reset);
  }
  moe__if_end(b, &first);
  moe__block_barrier(b);
}

static void finish(scale_t *s, const part_t *part) {
  moe__builder_t *b = &s->kernel.builder;
  for (int i = 0; i < s->output_count; i++) {
    const output_t *output = &s->outputs[i];
    MlirValue is_last = moe__ne(b, moe__load(b, output->done, b->i32), moe__i32(b, 0));
    moe__if_t last = moe__if_begin(b, is_last, false);
    switch (output->slices) {
    case OF_COLUMNS:
      for_columns(s, output, part, finish_cell);
      break;
    case OF_ROWS:
      finish_rows(s, output, part);
      break;
    case WHOLE: {
      moe__if_t first = moe__if_begin(b, is_thread(s, 0), false);
      MlirValue cell = first_cell(s, output, part);
      finish_cell(s, output, cell, cell);
      moe__if_end(b, &first);
      break;
    }
    }
    moe__if_end(b, &last);
  }
}

/* ---- The parts of a block ---- */

static part_t part_at(scale_t *s, MlirValue index) {
  moe__builder_t *b = &s->kernel.builder;
  if (s->grouped) {
    moe__group_tile_t tile = moe__groups_tile(&s->groups, index);
    MlirValue start, end;
    moe__groups_range(&s->groups, tile.group, &start, &end);
    return (part_t){.batch = tile.group,
                    .first_row = moe__i32(b, 0),
                    .row = tile.row,
                    .row_end = tile.row_end,
                    .column = moe__mul(b, tile.column, moe__i32(b, s->tile_columns)),
                    .siblings = moe__ceil_div(b, moe__sub(b, end, start), s->tile_rows)};
  }
  moe__tile_t tile = moe__tile_at(b, &s->tiles, index);
  return (part_t){.batch = tile.batch,
                  .first_row = moe__mul(b, tile.batch, s->rows),
                  .row = moe__mul(b, tile.row, moe__i32(b, s->tile_rows)),
                  .row_end = s->rows,
                  .column = moe__mul(b, tile.column, moe__i32(b, s->tile_columns)),
                  .siblings = s->row_tiles};
}

static void scale_parts(scale_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue warp = moe__lshr(b, s->kernel.thread, 5);
  MlirValue lane = moe__and(b, s->kernel.thread, moe__i32(b, MOE__WARP - 1));
  MlirValue total = s->grouped ? moe__groups_total(&s->groups) : s->tiles.total;
  moe__for_t loop = moe__for_begin(b, s->kernel.block, total, s->kernel.block_count, 0, NULL);
  part_t part = part_at(s, loop.index);
  found_t found = {0};
  read_part(s, &part, warp, lane, &found);
  share(s, warp, lane, &found);
  for (int i = 0; i < s->output_count; i++) {
    const output_t *output = &s->outputs[i];
    if (output->slices == OF_COLUMNS)
      for_columns(s, output, &part, raise_column);
    else if (output->slices == OF_ROWS)
      raise_rows(s, output, &part, warp, lane, &found);
    else
      raise_whole(s, output, &part);
  }
  count(s, &part);
  finish(s, &part);
  moe__for_end(b, &loop, NULL);
}

/* ---- Slices without elements ---- */

/* Gives `cells` scales from `first` on the value for nothing but zeros; threads `from`, `from +
 * step`, ... share them. */
static void fill(scale_t *s, const output_t *output, MlirValue first, MlirValue cells,
                 MlirValue from, MlirValue step) {
  moe__builder_t *b = &s->kernel.builder;
  moe__for_t loop = moe__for_begin(b, from, cells, step, 0, NULL);
  write_scale(s, output, moe__add(b, first, loop.index), moe__i32(b, 0));
  moe__for_end(b, &loop, NULL);
}

/* Groups without rows have no parts; the blocks share them. */
static void fill_empty_groups(scale_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  moe__for_t loop =
      moe__for_begin(b, s->kernel.block, s->group_count.value, s->kernel.block_count, 0, NULL);
  MlirValue start, end;
  moe__groups_range(&s->groups, loop.index, &start, &end);
  moe__if_t empty = moe__if_begin(b, moe__eq(b, start, end), false);
  for (int i = 0; i < s->output_count; i++) {
    const output_t *output = &s->outputs[i];
    MlirValue threads = moe__i32(b, s->kernel.threads);
    if (output->slices == OF_COLUMNS)
      fill(s, output, moe__mul(b, loop.index, s->columns), s->columns, s->kernel.thread, threads);
    else if (output->slices == WHOLE)
      fill(s, output, loop.index, moe__i32(b, 1), s->kernel.thread, threads);
  }
  moe__if_end(b, &empty);
  moe__for_end(b, &loop, NULL);
}

/* A tensor without elements has no parts at all. */
static void fill_empty_tensor(scale_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  moe__if_t empty = moe__if_begin(b, moe__eq(b, s->tiles.total, moe__i32(b, 0)), false);
  MlirValue threads = moe__i32(b, s->kernel.threads);
  MlirValue from = moe__add(b, moe__mul(b, s->kernel.block, threads), s->kernel.thread);
  MlirValue step = moe__mul(b, s->kernel.block_count, threads);
  for (int i = 0; i < s->output_count; i++)
    fill(s, &s->outputs[i], moe__i32(b, 0), s->outputs[i].cells, from, step);
  moe__if_end(b, &empty);
}

/* ---- The kernel ---- */

/* The op's tensors are x, offs where there is one, then for each output scales, factors, state. */
static void add_parameters(scale_t *s, MlirOperation op) {
  moe__kernel_t *kernel = &s->kernel;
  MlirType x_type = mlirValueGetType(mlirOperationGetOperand(op, 0));
  s->x = moe__kernel_pointer(kernel, 0);
  if (s->grouped) {
    s->offs = moe__kernel_pointer(kernel, 1);
    s->status = moe__kernel_status(kernel);
    s->group_count =
        moe__kernel_extent(kernel, 1, 0, mlirValueGetType(mlirOperationGetOperand(op, 1)));
    moe__kernel_require(kernel, 1, 0, "at_least", 1);
    moe__kernel_require(kernel, 1, 0, "at_most", MAX_GROUPS);
  }
  int first_result = s->grouped ? 2 : 1;
  for (int i = 0; i < s->output_count; i++) {
    output_t *output = &s->outputs[i];
    output->scales = moe__kernel_pointer(kernel, first_result + 3 * i);
    output->factors = moe__kernel_pointer(kernel, first_result + 3 * i + 1);
    output->state = moe__kernel_pointer(kernel, first_result + 3 * i + 2);
    moe__kernel_zeroed(kernel, first_result + 3 * i + 2);
  }
  for (int i = 0; i < s->rank; i++)
    s->extents[i] = moe__kernel_extent(kernel, 0, i, x_type);
  moe__kernel_require(kernel, 0, s->rank - 1, "multiple_of", VECTOR_BYTES / s->elements.bytes);
  moe__kernel_require(kernel, 0, s->rank - 1, "at_least", 1);
}

static MlirValue cells_of(scale_t *s, slices_t slices) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue batches = s->grouped ? s->group_count.value : s->batches;
  switch (slices) {
  case OF_COLUMNS:
    return moe__mul(b, batches, s->columns);
  case OF_ROWS:
    return moe__mul(b, s->batches, s->rows);
  case WHOLE:
    break;
  }
  return s->granularity == MOE__TENSOR ? moe__i32(b, 1) : batches;
}

/* What does not change from tile to tile. */
static void set_up(scale_t *s) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  s->batches = s->rank == 3 ? s->extents[0].value : moe__i32(b, 1);
  s->rows = s->extents[s->rank - 2].value;
  s->columns = s->extents[s->rank - 1].value;
  s->row_tiles = moe__ceil_div(b, s->rows, s->tile_rows);
  s->column_tiles = moe__ceil_div(b, s->columns, s->tile_columns);
  s->partials = moe__kernel_shared(kernel, s->schedule.warps * ROW_BYTES, 16);
  s->flags = moe__kernel_shared(kernel, 4 * s->output_count, 4);
  for (int i = 0; i < s->output_count; i++) {
    s->outputs[i].cells = cells_of(s, s->outputs[i].slices);
    s->outputs[i].done = moe__offset_by(b, kernel->shared, s->flags + 4 * i);
  }
  if (!s->grouped) {
    s->tiles = moe__tiles_create(b, s->batches, s->row_tiles, s->column_tiles, s->schedule.band);
    return;
  }
  s->groups = moe__groups_create(kernel, MAX_GROUPS, s->group_count.value, s->tile_rows,
                                 s->column_tiles, s->schedule.band);
  moe__if_t first = moe__if_begin(b, moe__ult(b, kernel->thread, moe__i32(b, MOE__WARP)), false);
  moe__groups_initialize(&s->groups, s->offs, s->rows, kernel->thread, s->status);
  moe__if_end(b, &first);
  moe__block_barrier(b);
}

static bool lower(MlirOperation function, MlirOperation op, MlirBlock gpu_module_body, scale_t *s) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  MlirType x_type = mlirValueGetType(mlirOperationGetOperand(op, 0));
  s->elements = moe__elements_of(x_type, moe__op_bool(op, "sanitize"));
  s->element =
      mlirStringRefEqual(moe__op_string(op, "element"), mlirStringRefCreateFromCString("f8E4M3FN"))
          ? MOE__E4M3
          : MOE__E5M2;
  s->pow2 = moe__op_bool(op, "pow2");
  s->rank = (int)mlirShapedTypeGetRank(x_type);
  s->grouped = !mlirValueIsNull(moe__op_operand(op, 1));
  if (!moe__scale_schedule_read(op, &s->schedule))
    return false;
  s->tile_rows = s->schedule.warps * s->schedule.rows_per_warp;
  s->tile_columns = ROW_BYTES / s->elements.bytes;
  moe__kernel_begin(kernel, mlirOperationGetContext(op), mlirOperationGetLocation(op),
                    s->schedule.warps * MOE__WARP, s->schedule.blocks_per_sm);
  add_parameters(s, op);
  moe__kernel_prologue(kernel);
  moe__kernel_await_launches(kernel);
  set_up(s);
  scale_parts(s);
  moe__grid_launch_dependents(b);
  if (s->grouped)
    fill_empty_groups(s);
  else
    fill_empty_tensor(s);
  char grid[MOE__EXPRESSION_SIZE];
  moe__expression_resident(grid, s->schedule.blocks_per_sm);
  moe__kernel_end(kernel, gpu_module_body, moe__symbol(function),
                  (const char *const[]){grid, "1", "1"});
  return true;
}

bool moe__lower_scale_fp8(MlirOperation function, MlirOperation op, MlirBlock gpu_module_body) {
  scale_t s = {.granularity = moe__op_granularity(op), .output_count = 1};
  s.outputs[0].slices = s.granularity == MOE__ROW ? OF_COLUMNS : WHOLE;
  return moe__scale_fp8_has_kernel(op) && lower(function, op, gpu_module_body, &s);
}

bool moe__lower_scale_fp8_dual(MlirOperation function, MlirOperation op,
                               MlirBlock gpu_module_body) {
  scale_t s = {.granularity = MOE__ROW,
               .output_count = 2,
               .outputs = {{.slices = OF_ROWS}, {.slices = OF_COLUMNS}}};
  return moe__scale_fp8_dual_has_kernel(op) && lower(function, op, gpu_module_body, &s);
}
