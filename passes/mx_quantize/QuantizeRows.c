/* QuantizeRows.c - the kernel of mx_quantize.quantize_fp8 row by row along the last dimension: a
 * scale for each row, one read.
 *
 * A row is on chip while its largest magnitude is found, and is then cast from there. One warp
 * loads whole rows into a ring whose stages are as long as a row; how many fit follows from the
 * row's length, at run time. The other warps form teams that take the rows in turn, and each team has
 * stages of its own, two at least: one is at work while the next one lands. As long as there are
 * stages enough, a team is one warp, so that warps never wait for each other; where rows are long,
 * several warps share one.
 *
 * Rows too long for two of them to fit are read twice, the second time most likely from L2.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Builder/Shapes.h"
#include "lib/Kernel/Async.h"
#include "lib/Kernel/Vectors.h"
#include "lib/Kernel/Warp.h"
#include "passes/Lowering.h"
#include "passes/Schedule.h"

#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/BuiltinTypes.h"

#define UNROLL 4        /* loads in flight for each lane */
#define FIRST_BARRIER 1 /* of the teams */

/* The op's tensors, by their number in the kernel's record. */
enum { X, Q, SCALES };

typedef struct rows_t {
  moe__kernel_t kernel;
  moe__rows_schedule_t schedule;
  moe__elements_t elements;
  moe__fp8_t element;
  bool pow2;
  MlirValue x, q, scales;
  moe__extent_t extents[3];
  int rank;
  MlirValue rows, row_bytes, vectors; /* i32: of x; bytes and vectors of a row */
  moe__ring_t ring;                   /* barriers alone: its buffers follow from row_bytes */
  int32_t buffers;                    /* offset in shared memory */
  MlirValue stages;                   /* i32: rows in the ring, a multiple of teams */
  MlirValue teams;                    /* i32: of warps that share a row */
  MlirValue team, team_threads;       /* i32: this thread's, and the threads of one */
  MlirValue member;                   /* i32: which thread of the team this one is */
  int32_t partials;                   /* offset in shared memory: what each warp found */
} rows_t;

bool moe__quantize_rows_has_kernel(MlirOperation op) {
  MlirType x = mlirValueGetType(mlirOperationGetOperand(op, 0));
  MlirType q = mlirValueGetType(mlirOperationGetResult(op, 0));
  int last = (int)mlirShapedTypeGetRank(x) - 1;
  int vector = MOE__VECTOR_BYTES / moe__elements_of(x, false).bytes;
  if (!moe__is_row_major(x) || !moe__is_row_major(q))
    return moe__error(op, "the kernel takes x and writes q row-major; remove their encoding");
  return moe__needs_multiple(op, "x", x, last, vector);
}

/* ---- One row ---- */

/* Offset in bytes, i64, of the row's first element in a tensor of elements of so many bytes. */
static MlirValue row_offset(rows_t *s, MlirValue row, int element_bytes) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue columns = moe__zext(b, s->extents[s->rank - 1].value, b->i64);
  MlirValue elements = moe__mul(b, moe__zext(b, row, b->i64), columns);
  return moe__mul(b, elements, moe__i64(b, element_bytes));
}

static MlirValue load_vector(moe__builder_t *b, MlirValue row, MlirValue index) {
  return moe__vector_load(b,
                          moe__offset(b, row, moe__mul(b, index, moe__i32(b, MOE__VECTOR_BYTES))));
}

/* Until all of the team is here. */
static void team_barrier(rows_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue is_warp = moe__eq(b, s->team_threads, moe__i32(b, MOE__WARP));
  moe__if_t branch = moe__if_begin(b, is_warp, true);
  moe__warp_barrier(b);
  moe__else(b, &branch);
  moe__barrier_of(b, moe__add(b, s->team, moe__i32(b, FIRST_BARRIER)), s->team_threads);
  moe__if_end(b, &branch);
}

/* The largest of what the team's warps found. */
static MlirValue team_amax(rows_t *s, MlirValue found) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue partials = moe__offset_by(b, s->kernel.shared, s->partials);
  MlirValue warp = moe__lshr(b, s->kernel.thread, 5);
  moe__store(b, found, moe__offset(b, partials, moe__shl(b, warp, 2)));
  team_barrier(s);
  MlirValue warps = moe__lshr(b, s->team_threads, 5);
  MlirValue begin = moe__mul(b, s->team, warps);
  moe__for_t loop = moe__for_begin(b, begin, moe__add(b, begin, warps), moe__i32(b, 1), 1, &found);
  MlirValue other = moe__load(b, moe__offset(b, partials, moe__shl(b, loop.index, 2)), b->i32);
  MlirValue larger = moe__umax(b, loop.carried[0], other);
  moe__for_end(b, &loop, &larger);
  return loop.carried[0];
}

/* The bits of the largest magnitude of the row at `row`, in shared or global memory; the same in
 * all threads of the team. */
static MlirValue row_amax(rows_t *s, MlirValue row) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue last = moe__sub(b, s->vectors, moe__i32(b, 1));
  MlirValue step = moe__mul(b, s->team_threads, moe__i32(b, UNROLL));
  moe__for_t loop =
      moe__for_begin(b, s->member, s->vectors, step, 1, (MlirValue[]){moe__i32(b, 0)});
  MlirValue amax = loop.carried[0];
  for (int i = 0; i < UNROLL; i++) {
    /* Past the end the last vector counts once more: a maximum does not change. */
    MlirValue ahead = moe__mul(b, s->team_threads, moe__i32(b, i));
    MlirValue index = moe__umin(b, moe__add(b, loop.index, ahead), last);
    MlirValue vector = load_vector(b, row, index);
    for (int j = 0; j < MOE__VECTOR_WORDS; j++)
      amax = moe__word_max(b, &s->elements, amax,
                           moe__word_magnitudes(b, &s->elements, moe__extract(b, vector, j)));
  }
  moe__for_end(b, &loop, &amax);
  return team_amax(
      s, moe__warp_reduce(b, moe__word_amax(b, &s->elements, loop.carried[0]), moe__umax));
}

/* Casts the row at `row` to the one at `q`. */
static void cast_row(rows_t *s, MlirValue row, MlirValue q, MlirValue factor) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue step = moe__mul(b, s->team_threads, moe__i32(b, UNROLL));
  moe__for_t loop = moe__for_begin(b, s->member, s->vectors, step, 0, NULL);
  for (int i = 0; i < UNROLL; i++) {
    MlirValue index = moe__add(b, loop.index, moe__mul(b, s->team_threads, moe__i32(b, i)));
    moe__if_t inside = moe__if_begin(b, moe__ult(b, index, s->vectors), false);
    MlirValue vector = load_vector(b, row, index), words[MOE__VECTOR_WORDS];
    for (int j = 0; j < MOE__VECTOR_WORDS; j++)
      words[j] = moe__extract(b, vector, j);
    MlirValue offset = moe__mul(b, index, moe__i32(b, MOE__VECTOR_BYTES / s->elements.bytes));
    moe__vector_store_fp8(b, &s->elements, words, factor, s->element, moe__offset(b, q, offset));
    moe__if_end(b, &inside);
  }
  moe__for_end(b, &loop, NULL);
}

/* Quantizes the row at `from`, number `row`. */
static void quantize_row(rows_t *s, MlirValue from, MlirValue row) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue factor = moe__fp8_factor(b, row_amax(s, from), s->element, s->pow2);
  moe__if_t first = moe__if_begin(b, moe__eq(b, s->member, moe__i32(b, 0)), false);
  MlirValue index = moe__mul(b, moe__zext(b, row, b->i64), moe__i64(b, 4));
  moe__store(b, moe__fp8_inverse(b, factor), moe__offset(b, s->scales, index));
  moe__if_end(b, &first);
  cast_row(s, from, moe__offset(b, s->q, row_offset(s, row, 1)), factor);
}

/* ---- Rows on chip ---- */

/* The cursor of this block's row number `number`. */
static moe__cursor_t cursor_of(rows_t *s, MlirValue number) {
  moe__builder_t *b = &s->kernel.builder;
  return (moe__cursor_t){moe__urem(b, number, s->stages),
                         moe__and(b, moe__udiv(b, number, s->stages), moe__i32(b, 1))};
}

static MlirValue buffer_of(rows_t *s, moe__cursor_t cursor) {
  moe__builder_t *b = &s->kernel.builder;
  return moe__offset_by(
      b, moe__offset(b, s->kernel.shared, moe__mul(b, cursor.stage, s->row_bytes)), s->buffers);
}

/* Rows of this block. */
static MlirValue block_rows(rows_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue left = moe__sub(b, s->rows, moe__umin(b, s->rows, s->kernel.block));
  MlirValue others = moe__sub(b, s->kernel.block_count, moe__i32(b, 1));
  return moe__udiv(b, moe__add(b, left, others), s->kernel.block_count);
}

static MlirValue row_number(rows_t *s, MlirValue number) {
  moe__builder_t *b = &s->kernel.builder;
  return moe__add(b, s->kernel.block, moe__mul(b, number, s->kernel.block_count));
}

static void load_rows(rows_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  moe__for_t loop = moe__for_begin(b, moe__i32(b, 0), block_rows(s), moe__i32(b, 1), 0, NULL);
  moe__cursor_t cursor = cursor_of(s, loop.index);
  MlirValue landed = moe__ring_acquire(&s->kernel, &s->ring, cursor, s->row_bytes);
  MlirValue row = row_number(s, loop.index);
  moe__bulk_load(b, buffer_of(s, cursor),
                 moe__offset(b, s->x, row_offset(s, row, s->elements.bytes)), s->row_bytes, landed);
  moe__for_end(b, &loop, NULL);
}

static void quantize_rows(rows_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  moe__for_t loop = moe__for_begin(b, s->team, block_rows(s), s->teams, 0, NULL);
  moe__cursor_t cursor = cursor_of(s, loop.index);
  moe__ring_wait(&s->kernel, &s->ring, cursor);
  quantize_row(s, buffer_of(s, cursor), row_number(s, loop.index));
  team_barrier(s); /* its stage and the partials are written again */
  moe__if_t first = moe__if_begin(b, moe__eq(b, s->member, moe__i32(b, 0)), false);
  moe__ring_release(&s->kernel, &s->ring, cursor);
  moe__if_end(b, &first);
  moe__for_end(b, &loop, NULL);
}

/* ---- Rows that do not fit ---- */

static void quantize_long_rows(rows_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  moe__for_t loop = moe__for_begin(b, s->team, block_rows(s), s->teams, 0, NULL);
  MlirValue row = row_number(s, loop.index);
  quantize_row(s, moe__offset(b, s->x, row_offset(s, row, s->elements.bytes)), row);
  team_barrier(s); /* its stage and the partials are written again */
  moe__for_end(b, &loop, NULL);
}

/* ---- The kernel ---- */

static void add_parameters(rows_t *s, MlirType x_type) {
  moe__kernel_t *kernel = &s->kernel;
  s->x = moe__kernel_pointer(kernel, X);
  s->q = moe__kernel_pointer(kernel, Q);
  s->scales = moe__kernel_pointer(kernel, SCALES);
  for (int i = 0; i < s->rank; i++)
    s->extents[i] = moe__kernel_extent(kernel, X, i, x_type);
  moe__kernel_require(kernel, X, s->rank - 1, "multiple_of", MOE__VECTOR_BYTES / s->elements.bytes);
  moe__kernel_require(kernel, X, s->rank - 1, "at_least", 1); /* no bulk copy has 0 bytes */
}

static void grid_expression(const rows_t *s, char *out) {
  char rows[MOE__EXPRESSION_SIZE];
  const char *factors[2] = {s->extents[0].expression, s->rank == 3 ? s->extents[1].expression : ""};
  moe__expression_mul(rows, s->rank - 1, factors);
  moe__expression_persistent(out, rows, s->schedule.blocks_per_sm);
}

bool moe__lower_quantize_rows(MlirOperation function, MlirOperation op, MlirBlock gpu_module_body) {
  MlirType x_type = mlirValueGetType(mlirOperationGetOperand(op, 0));
  rows_t s = {.elements = moe__elements_of(x_type, moe__op_bool(op, "sanitize")),
              .element = moe__fp8_of(mlirValueGetType(mlirOperationGetResult(op, 0))),
              .pow2 = moe__op_bool(op, "pow2"),
              .rank = (int)mlirShapedTypeGetRank(x_type)};
  if (!moe__rows_schedule_read(op, &s.schedule))
    return false;
  moe__kernel_t *kernel = &s.kernel;
  moe__builder_t *b = &kernel->builder;
  moe__kernel_begin(kernel, mlirOperationGetContext(op), mlirOperationGetLocation(op),
                    (s.schedule.warps + 1) * MOE__WARP, s.schedule.blocks_per_sm);
  add_parameters(&s, x_type);
  moe__kernel_prologue(kernel);
  moe__kernel_await_launches(kernel);
  MlirValue columns = s.extents[s.rank - 1].value;
  s.rows = s.rank == 2 ? s.extents[0].value : moe__mul(b, s.extents[0].value, s.extents[1].value);
  s.row_bytes = moe__mul(b, columns, moe__i32(b, s.elements.bytes));
  s.vectors = moe__udiv(b, s.row_bytes, moe__i32(b, MOE__VECTOR_BYTES));
  s.buffers = moe__kernel_shared(kernel, s.schedule.buffer_kb * 1024, 128);
  s.ring = moe__ring_create(kernel, s.schedule.stages, 0);
  MlirValue room = moe__udiv(b, moe__i32(b, s.schedule.buffer_kb * 1024), s.row_bytes);
  MlirValue fitting = moe__umin(b, room, moe__i32(b, s.schedule.stages));
  s.teams = moe__umin(b, moe__lshr(b, fitting, 1), moe__i32(b, s.schedule.warps));
  s.teams = moe__umax(b, s.teams, moe__i32(b, 1));
  s.stages = moe__mul(b, moe__udiv(b, fitting, s.teams), s.teams);
  s.team_threads =
      moe__mul(b, moe__udiv(b, moe__i32(b, s.schedule.warps), s.teams), moe__i32(b, MOE__WARP));
  s.team = moe__udiv(b, kernel->thread, s.team_threads);
  s.member = moe__urem(b, kernel->thread, s.team_threads);
  s.partials = moe__kernel_shared(kernel, 4 * s.schedule.warps, 4);

  MlirValue is_loader = moe__eq(b, kernel->thread, moe__i32(b, s.schedule.warps * MOE__WARP));
  moe__if_t setup = moe__if_begin(b, is_loader, false);
  moe__ring_initialize(kernel, &s.ring, 1);
  moe__if_end(b, &setup);
  moe__block_barrier(b);

  MlirValue fits = moe__ult(b, moe__i32(b, 1), fitting);
  /* Warps that are left over when the teams have been formed do nothing; the last one loads. */
  moe__if_t role = moe__if_begin(b, is_loader, true);
  {
    moe__if_t loads = moe__if_begin(b, fits, false);
    load_rows(&s);
    moe__if_end(b, &loads);
  }
  moe__else(b, &role);
  {
    moe__if_t works = moe__if_begin(b, moe__ult(b, s.team, s.teams), false);
    moe__if_t on_chip = moe__if_begin(b, fits, true);
    quantize_rows(&s);
    moe__else(b, &on_chip);
    quantize_long_rows(&s);
    moe__if_end(b, &on_chip);
    moe__if_end(b, &works);
  }
  moe__if_end(b, &role);

  char grid[MOE__EXPRESSION_SIZE];
  grid_expression(&s, grid);
  moe__kernel_end(kernel, gpu_module_body, moe__symbol(function),
                  (const char *const[]){grid, "1", "1"});
  return true;
}
