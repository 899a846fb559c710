/* ScaleFp8.c - the kernel of mx_quantize.scale_fp8, scale_fp8_dual and scale_fp8_pair, the first of two
 * passes: it reads x, and finds the scales of slices that no block of threads sees whole.
 *
 * A tile is some rows of one expert or group, a vector of 16 bytes wide for each lane of a warp. A
 * block finds the largest magnitudes of its columns, of its rows, or of the whole tile, whatever
 * there are scales for, and raises the maxima in `state` by atomics on their bits. Then it counts
 * itself there; the block that finds that it is the last one of a slice turns the maxima into
 * scales and leaves zeros, so that no launch has to clear anything.
 *
 * Two tensors with the same rows are one list of tiles: those of the second one lie behind those of
 * the first in each row of tiles, and a tile takes pointers and sizes of its tensor.
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
#define MAX_TENSORS 2
#define MAX_OUTPUTS 2 /* of a tensor */

/* What a scale is for. */
typedef enum slices_t { OF_COLUMNS, OF_ROWS, WHOLE } slices_t;

/* The results for one of them. */
typedef struct output_t {
  slices_t slices;
  MlirValue scales, factors, state; /* pointers */
  MlirValue cells; /* i32: scales; the state's counters lie behind as many maxima */
  MlirValue done;  /* shared: whether this block is the slice's last */
} output_t;

/* A tensor that is read. */
typedef struct tensor_t {
  MlirValue x;       /* pointer */
  MlirValue columns; /* i32 */
  MlirValue column_tiles;
  output_t outputs[MAX_OUTPUTS];
} tensor_t;

typedef struct scale_t {
  moe__kernel_t kernel;
  moe__scale_schedule_t schedule;
  moe__elements_t elements;
  moe__fp8_t element;
  moe__granularity_t granularity;
  bool pow2, grouped;
  int rank;
  MlirValue offs, status;
  moe__extent_t group_count;
  tensor_t tensors[MAX_TENSORS];
  int tensor_count, output_count;                   /* output_count: of each tensor */
  int32_t tile_rows, tile_columns, partials, flags; /* the last two: offsets in shared memory */
  MlirValue batches, rows;                          /* i32: of x; batches: experts, else 1 */
  MlirValue row_tiles;                              /* of an expert, or of x */
  moe__tiles_t tiles;
  moe__groups_t groups;
} scale_t;

/* A tile of this block. */
typedef struct part_t {
  tensor_t tensor;        /* the part's */
  MlirValue batch;        /* i32: expert or group */
  MlirValue first_row;    /* of x that the batch's rows count from */
  MlirValue row, row_end; /* of the batch */
  MlirValue column;       /* first one */
  MlirValue siblings;     /* row tiles of the same batch */
} part_t;

/* ---- What there is a kernel for ---- */

static bool has_kernel(MlirOperation op, int operand, const char *name) {
  MlirType x = mlirValueGetType(mlirOperationGetOperand(op, operand));
  if (!moe__is_row_major(x))
    return moe__error(op, "the kernel takes %s row-major; remove its encoding", name);
  return moe__needs_multiple(op, name, x, (int)mlirShapedTypeGetRank(x) - 1,
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
  return has_kernel(op, 0, "x");
}

bool moe__scale_fp8_dual_has_kernel(MlirOperation op) {
  return has_kernel(op, 0, "x");
}

bool moe__scale_fp8_pair_has_kernel(MlirOperation op) {
  return moe__needs_one_element(op) && has_kernel(op, 0, "x") && has_kernel(op, 1, "y");
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
    return moe__add(b, moe__mul(b, part->batch, part->tensor.columns), part->column);
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

/* The tensors have outputs for the same slices. */
static bool has_slices(const scale_t *s, slices_t slices) {
  for (int i = 0; i < s->output_count; i++)
    if (s->tensors[0].outputs[i].slices == slices)
      return true;
  return false;
}

/* Past the end, rows and columns that are there are read once more: maxima do not change. */
static void read_part(scale_t *s, const part_t *part, MlirValue warp, MlirValue lane,
                      found_t *found) {
  moe__builder_t *b = &s->kernel.builder;
  int rows = s->schedule.rows_per_warp, vector = VECTOR_BYTES / s->elements.bytes;
  MlirValue column = moe__umin(b, moe__add(b, part->column, moe__mul(b, lane, moe__i32(b, vector))),
                               moe__sub(b, part->tensor.columns, moe__i32(b, vector)));
  MlirValue row_bytes =
      moe__mul(b, moe__zext(b, part->tensor.columns, b->i64), moe__i64(b, s->elements.bytes));
  MlirValue base = pointer_to(b, part->tensor.x, column, s->elements.bytes);
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
    MlirValue left = moe__sub(b, part->tensor.columns, part->column);
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
    return part->tensor.column_tiles;
  case WHOLE:
    break;
  }
  return s->granularity == MOE__TENSOR ? s->tiles.total
                                       : moe__mul(b, part->siblings, part->tensor.column_tiles);
}

/* Counts this block for each output, and notes in shared memory where it was the last. */
static void count(scale_t *s, const part_t *part) {
  moe__builder_t *b = &s->kernel.builder;
  moe__block_barrier(b);
  moe__if_t first = moe__if_begin(b, is_thread(s, 0), false);
  for (int i = 0; i < s->output_count; i++) {
    const output_t *output = &part->tensor.outputs[i];
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
    const output_t *output = &part->tensor.outputs[i];
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

/* The tensor that the tile is of; *column, in tiles, then counts from its start. */
static tensor_t tensor_at(scale_t *s, MlirValue *column) {
  moe__builder_t *b = &s->kernel.builder;
  const tensor_t *x = &s->tensors[0], *y = &s->tensors[1];
  if (s->tensor_count == 1)
    return *x;
  MlirValue is_first = moe__ult(b, *column, x->column_tiles);
  *column = moe__sub(b, *column, moe__select(b, is_first, moe__i32(b, 0), x->column_tiles));
  tensor_t tensor = {.x = moe__select(b, is_first, x->x, y->x),
                     .columns = moe__select(b, is_first, x->columns, y->columns),
                     .column_tiles = moe__select(b, is_first, x->column_tiles, y->column_tiles)};
  for (int i = 0; i < s->output_count; i++) {
    const output_t *of_x = &x->outputs[i], *of_y = &y->outputs[i];
    tensor.outputs[i] =
        (output_t){.slices = of_x->slices,
                   .scales = moe__select(b, is_first, of_x->scales, of_y->scales),
                   .factors = moe__select(b, is_first, of_x->factors, of_y->factors),
                   .state = moe__select(b, is_first, of_x->state, of_y->state),
                   .cells = moe__select(b, is_first, of_x->cells, of_y->cells),
                   .done = of_x->done};
  }
  return tensor;
}

static part_t part_at(scale_t *s, MlirValue index) {
  moe__builder_t *b = &s->kernel.builder;
  if (s->grouped) {
    moe__group_tile_t tile = moe__groups_tile(&s->groups, index);
    MlirValue start, end;
    moe__groups_range(&s->groups, tile.group, &start, &end);
    tensor_t tensor = tensor_at(s, &tile.column);
    return (part_t){.tensor = tensor,
                    .batch = tile.group,
                    .first_row = moe__i32(b, 0),
                    .row = tile.row,
                    .row_end = tile.row_end,
                    .column = moe__mul(b, tile.column, moe__i32(b, s->tile_columns)),
                    .siblings = moe__ceil_div(b, moe__sub(b, end, start), s->tile_rows)};
  }
  moe__tile_t tile = moe__tile_at(b, &s->tiles, index);
  tensor_t tensor = tensor_at(s, &tile.column);
  return (part_t){.tensor = tensor,
                  .batch = tile.batch,
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
    const output_t *output = &part.tensor.outputs[i];
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
  for (int i = 0; i < s->tensor_count * s->output_count; i++) {
    const tensor_t *tensor = &s->tensors[i / s->output_count];
    const output_t *output = &tensor->outputs[i % s->output_count];
    MlirValue threads = moe__i32(b, s->kernel.threads);
    if (output->slices == OF_COLUMNS)
      fill(s, output, moe__mul(b, loop.index, tensor->columns), tensor->columns, s->kernel.thread,
           threads);
    else if (output->slices == WHOLE)
      fill(s, output, loop.index, moe__i32(b, 1), s->kernel.thread, threads);
  }
  moe__if_end(b, &empty);
  moe__for_end(b, &loop, NULL);
}

/* A tensor without elements has no parts at all. Without groups there is one tensor. */
static void fill_empty_tensor(scale_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  moe__if_t empty = moe__if_begin(b, moe__eq(b, s->tiles.total, moe__i32(b, 0)), false);
  MlirValue threads = moe__i32(b, s->kernel.threads);
  MlirValue from = moe__add(b, moe__mul(b, s->kernel.block, threads), s->kernel.thread);
  MlirValue step = moe__mul(b, s->kernel.block_count, threads);
  for (int i = 0; i < s->output_count; i++)
    fill(s, &s->tensors[0].outputs[i], moe__i32(b, 0), s->tensors[0].outputs[i].cells, from, step);
  moe__if_end(b, &empty);
}

/* ---- The kernel ---- */

/* The results for one scale, from tensor number `first` on. */
static void add_output(scale_t *s, output_t *output, int first) {
  output->scales = moe__kernel_pointer(&s->kernel, first);
  output->factors = moe__kernel_pointer(&s->kernel, first + 1);
  output->state = moe__kernel_pointer(&s->kernel, first + 2);
  moe__kernel_zeroed(&s->kernel, first + 2);
}

/* The op's tensors are x, in a pair y, offs where there is one, then for each output of each tensor
 * scales, factors, state. */
static void add_parameters(scale_t *s, MlirOperation op) {
  moe__kernel_t *kernel = &s->kernel;
  MlirType x_type = mlirValueGetType(mlirOperationGetOperand(op, 0));
  int count = s->tensor_count, last = s->rank - 1;
  for (int i = 0; i < count; i++)
    s->tensors[i].x = moe__kernel_pointer(kernel, i);
  if (s->grouped) {
    s->offs = moe__kernel_pointer(kernel, count);
    s->status = moe__kernel_status(kernel);
    s->group_count =
        moe__kernel_extent(kernel, count, 0, mlirValueGetType(mlirOperationGetOperand(op, count)));
    moe__kernel_require(kernel, count, 0, "at_least", 1);
    moe__kernel_require(kernel, count, 0, "at_most", MAX_GROUPS);
  }
  int result = count + s->grouped;
  for (int i = 0; i < count; i++)
    for (int j = 0; j < s->output_count; j++, result += 3)
      add_output(s, &s->tensors[i].outputs[j], result);
  s->batches =
      s->rank == 3 ? moe__kernel_extent(kernel, 0, 0, x_type).value : moe__i32(&kernel->builder, 1);
  s->rows = moe__kernel_extent(kernel, 0, last - 1, x_type).value;
  for (int i = 0; i < count; i++) {
    MlirType type = mlirValueGetType(mlirOperationGetOperand(op, i));
    s->tensors[i].columns = moe__kernel_extent(kernel, i, last, type).value;
    moe__kernel_require(kernel, i, last, "multiple_of", VECTOR_BYTES / s->elements.bytes);
    moe__kernel_require(kernel, i, last, "at_least", 1);
  }
  if (count == 2)
    moe__kernel_require_same(kernel, 0, 0, 1, 0);
}

static MlirValue cells_of(scale_t *s, const tensor_t *tensor, slices_t slices) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue batches = s->grouped ? s->group_count.value : s->batches;
  switch (slices) {
  case OF_COLUMNS:
    return moe__mul(b, batches, tensor->columns);
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
  s->row_tiles = moe__ceil_div(b, s->rows, s->tile_rows);
  for (int i = 0; i < s->tensor_count; i++)
    s->tensors[i].column_tiles = moe__ceil_div(b, s->tensors[i].columns, s->tile_columns);
  MlirValue column_tiles = s->tensors[0].column_tiles;
  if (s->tensor_count == 2)
    column_tiles = moe__add(b, column_tiles, s->tensors[1].column_tiles);
  s->partials = moe__kernel_shared(kernel, s->schedule.warps * ROW_BYTES, 16);
  s->flags = moe__kernel_shared(kernel, 4 * s->output_count, 4);
  for (int i = 0; i < s->tensor_count; i++)
    for (int j = 0; j < s->output_count; j++) {
      output_t *output = &s->tensors[i].outputs[j];
      output->cells = cells_of(s, &s->tensors[i], output->slices);
      output->done = moe__offset_by(b, kernel->shared, s->flags + 4 * j);
    }
  if (!s->grouped) {
    s->tiles = moe__tiles_create(b, s->batches, s->row_tiles, column_tiles, s->schedule.band);
    return;
  }
  s->groups = moe__groups_create(kernel, MAX_GROUPS, s->group_count.value, s->tile_rows,
                                 column_tiles, s->schedule.band);
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
  s->grouped = !mlirValueIsNull(moe__op_operand(op, s->tensor_count));
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
  scale_t s = {.granularity = moe__op_granularity(op), .tensor_count = 1, .output_count = 1};
  s.tensors[0].outputs[0].slices = s.granularity == MOE__ROW ? OF_COLUMNS : WHOLE;
  return moe__scale_fp8_has_kernel(op) && lower(function, op, gpu_module_body, &s);
}

bool moe__lower_scale_fp8_dual(MlirOperation function, MlirOperation op,
                               MlirBlock gpu_module_body) {
  scale_t s = {.granularity = MOE__ROW,
               .tensor_count = 1,
               .output_count = 2,
               .tensors = {{.outputs = {{.slices = OF_ROWS}, {.slices = OF_COLUMNS}}}}};
  return moe__scale_fp8_dual_has_kernel(op) && lower(function, op, gpu_module_body, &s);
}

bool moe__lower_scale_fp8_pair(MlirOperation function, MlirOperation op,
                               MlirBlock gpu_module_body) {
  scale_t s = {
      .granularity = MOE__ROW,
      .tensor_count = 2,
      .output_count = 1,
      .tensors = {{.outputs = {{.slices = OF_COLUMNS}}}, {.outputs = {{.slices = OF_COLUMNS}}}}};
  return moe__scale_fp8_pair_has_kernel(op) && lower(function, op, gpu_module_body, &s);
}
