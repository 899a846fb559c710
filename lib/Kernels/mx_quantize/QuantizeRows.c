/* QuantizeRows.c - the kernel of mx_quantize.quantize_fp8 row by row along the last dimension: a
 * scale for each row, one read.
 *
 * A row is on chip while its largest magnitude is found, and is then cast from there. One warp
 * loads whole rows into a ring whose stages are as long as a row; how many fit follows from the
 * row's length, at run time. The other warps form teams that take the rows in turn, and each
 * team has stages of its own, two at least: one is at work while the next one lands. As long as
 * there are stages enough, a team is one warp, so that warps never wait for each other; where
 * rows are long, several warps share one.
 *
 * Rows too long for two of them to fit are read twice, the second time most likely from L2.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Device/Async.h"
#include "lib/Device/Vectors.h"
#include "lib/Device/Warp.h"
#include "lib/Dialect/Dialect.h"
#include "lib/Kernels/Kernels.h"
#include "lib/Kernels/Requirements.h"
#include "lib/Kernels/mx_quantize/Schedule.h"

#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/BuiltinTypes.h"

#define UNROLL 4        /* loads in flight for each lane */
#define FIRST_BARRIER 1 /* of the teams */

/* ---- The schedule ---- */

MOE__SCHEDULE_KIND(moe__rows_schedule, moe__rows_schedule_t, MOE__ROWS_SCHEDULE, "rows",
                   "quantize_fp8 row by row along the last dimension");

/* Most of the shared memory for rows: half of it waits to be read, half is being read. */
static const moe__rows_schedule_t ROWS[] = {
    {.buffer_kb = 208, .warps = 16},
    {.buffer_kb = 208, .warps = 8},
    {.buffer_kb = 104, .warps = 8, .ctas_per_sm = 2},
    {.buffer_kb = 208, .warps = 12},
    {.buffer_kb = 208, .warps = 24},
    {.buffer_kb = 160, .warps = 16},
};

static moe__candidates_t candidates(MlirOperation op) {
  (void)op;
  return MOE__CANDIDATES(ROWS);
}

typedef struct rows_layout_t {
  moe__layout_t cta;
  int32_t buffers;  /* offset of the rows */
  moe__ring_t ring; /* barriers alone: its buffers follow from the length of a row */
  int32_t partials; /* offset of what each warp found */
} rows_layout_t;

static bool lay_out(MlirOperation op, const void *schedule, void *out) {
  const moe__rows_schedule_t *s = schedule;
  rows_layout_t *l = out;
  (void)op;
  l->cta.threads = (s->warps + 1) * MOE__WARP;
  l->cta.ctas_per_sm = s->ctas_per_sm;
  l->buffers = moe__layout_shared(&l->cta, s->buffer_kb * 1024, 128);
  l->ring = moe__ring_reserve(&l->cta, s->stages, 0);
  /* Whole vectors, as LLVM reads them. */
  l->partials = moe__layout_shared(&l->cta, (s->warps + 3) / 4 * 16, 16);
  return true;
}

/* ---- The kernel under construction ---- */

typedef struct rows_t {
  moe__kernel_t kernel;
  moe__rows_schedule_t schedule;
  rows_layout_t layout;
  moe__elements_t elements;
  moe__fp8_t element;
  bool pow2;
  MlirValue x, q, scales;
  moe__extent_t extents[3];
  int rank;
  MlirValue rows, row_bytes, vectors; /* i32: of x; bytes and vectors of a row */
  MlirValue stages;                   /* i32: rows in the ring, a multiple of teams */
  MlirValue teams;                    /* i32: of warps that share a row */
  MlirValue team, team_threads;       /* i32: this thread's, and the threads of one */
  MlirValue member;                   /* i32: which thread of the team this one is */
} rows_t;

static bool has_kernel(MlirOperation op) {
  MlirType x = moe__tensor_type(op, MOE__X);
  MlirType q = moe__tensor_type(op, MOE__Q);
  int last = (int)mlirShapedTypeGetRank(x) - 1;
  int vector = MOE__VECTOR_BYTES / moe__elements_of(x, false).bytes;
  if (!moe__is_row_major(x) || !moe__is_row_major(q))
    return moe__error(op, "the kernel takes x and writes q row-major; remove their encoding");
  return moe__needs_multiple(op, MOE__X, last, vector);
}

/* ---- One row ---- */

/* Offset in bytes, i64, of the row's first element in a tensor of elements of so many bytes. */
static MlirValue row_offset(rows_t *s, MlirValue row, int element_bytes) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue columns = moe__zext(b, s->extents[s->rank - 1].value, b->i64);
  MlirValue elements = moe__mul(b, moe__zext(b, row, b->i64), columns);
  return moe__mul(b, elements, element_bytes);
}

static MlirValue load_vector(moe__builder_t *b, MlirValue row, MlirValue index) {
  return moe__vector_load(b, moe__offset(b, row, moe__mul(b, index, MOE__VECTOR_BYTES)));
}

/* Until all of the team is here. */
static void team_barrier(rows_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue is_warp = moe__eq(b, s->team_threads, MOE__WARP);
  MOE__IF (b, is_warp) {
    moe__warp_barrier(b);
  }
  MOE__ELSE (b) {
    moe__barrier_of(b, moe__add(b, s->team, FIRST_BARRIER), s->team_threads);
  }
}

/* The largest of what the team's warps found. */
static MlirValue team_amax(rows_t *s, MlirValue found) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue partials = moe__offset_by(b, s->kernel.shared, s->layout.partials);
  MlirValue warp = moe__lshr(b, s->kernel.thread, 5);
  moe__store(b, found, moe__offset(b, partials, moe__shl(b, warp, 2)));
  team_barrier(s);
  MlirValue warps = moe__lshr(b, s->team_threads, 5);
  MlirValue begin = moe__mul(b, s->team, warps);
  MOE__FOR (b, other, begin, moe__add(b, begin, warps), 1, &found) {
    MlirValue partial = moe__load(b, moe__offset(b, partials, moe__shl(b, other, 2)), b->i32);
    found = moe__umax(b, found, partial);
  }
  return found;
}

/* The bits of the largest magnitude of the row at `row`, in shared or global memory; the same in
 * all threads of the team. */
static MlirValue row_amax(rows_t *s, MlirValue row) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue last = moe__sub(b, s->vectors, 1);
  MlirValue step = moe__mul(b, s->team_threads, UNROLL);
  MlirValue amax = moe__i32(b, 0);
  MOE__FOR (b, first, s->member, s->vectors, step, &amax) {
    for (int i = 0; i < UNROLL; i++) {
      /* Past the end the last vector counts once more: a maximum does not change. */
      MlirValue ahead = moe__mul(b, s->team_threads, i);
      MlirValue index = moe__umin(b, moe__add(b, first, ahead), last);
      MlirValue vector = load_vector(b, row, index);
      for (int j = 0; j < MOE__VECTOR_WORDS; j++)
        amax = moe__word_max(b, &s->elements, amax,
                             moe__word_magnitudes(b, &s->elements, moe__extract(b, vector, j)));
    }
  }
  return team_amax(s, moe__warp_reduce(b, moe__word_amax(b, &s->elements, amax), moe__umax));
}

/* Casts the row at `row` to the one at `q`. */
static void cast_row(rows_t *s, MlirValue row, MlirValue q, MlirValue factor) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue step = moe__mul(b, s->team_threads, UNROLL);
  MOE__FOR (b, number, s->member, s->vectors, step) {
    for (int i = 0; i < UNROLL; i++) {
      MlirValue index = moe__add(b, number, moe__mul(b, s->team_threads, i));
      MOE__IF (b, moe__ult(b, index, s->vectors)) {
        MlirValue vector = load_vector(b, row, index), words[MOE__VECTOR_WORDS];
        for (int j = 0; j < MOE__VECTOR_WORDS; j++)
          words[j] = moe__extract(b, vector, j);
        MlirValue offset = moe__mul(b, index, MOE__VECTOR_BYTES / s->elements.bytes);
        moe__vector_store_fp8(b, &s->elements, words, factor, s->element,
                              moe__offset(b, q, offset));
      }
    }
  }
}

/* Quantizes the row at `from`, number `row`. */
static void quantize_row(rows_t *s, MlirValue from, MlirValue row) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue factor = moe__fp8_factor(b, row_amax(s, from), s->element, s->pow2);
  MOE__IF (b, moe__eq(b, s->member, 0)) {
    MlirValue index = moe__mul(b, moe__zext(b, row, b->i64), 4);
    moe__store(b, moe__fp8_inverse(b, factor), moe__offset(b, s->scales, index));
  }
  cast_row(s, from, moe__offset(b, s->q, row_offset(s, row, 1)), factor);
}

/* ---- Rows on chip ---- */

/* The cursor of this CTA's row number `number`. */
static moe__cursor_t cursor_of(rows_t *s, MlirValue number) {
  moe__builder_t *b = &s->kernel.builder;
  return (moe__cursor_t){moe__urem(b, number, s->stages),
                         moe__and(b, moe__udiv(b, number, s->stages), 1)};
}

static MlirValue buffer_of(rows_t *s, moe__cursor_t cursor) {
  moe__builder_t *b = &s->kernel.builder;
  return moe__offset_by(b,
                        moe__offset(b, s->kernel.shared, moe__mul(b, cursor.stage, s->row_bytes)),
                        s->layout.buffers);
}

/* Rows of this CTA. */
static MlirValue cta_rows(rows_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue left = moe__sub(b, s->rows, moe__umin(b, s->rows, s->kernel.cta));
  MlirValue others = moe__sub(b, s->kernel.cta_count, 1);
  return moe__udiv(b, moe__add(b, left, others), s->kernel.cta_count);
}

static MlirValue row_number(rows_t *s, MlirValue number) {
  moe__builder_t *b = &s->kernel.builder;
  return moe__add(b, s->kernel.cta, moe__mul(b, number, s->kernel.cta_count));
}

static void load_rows(rows_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  MOE__FOR (b, index, 0, cta_rows(s), 1) {
    moe__cursor_t cursor = cursor_of(s, index);
    MlirValue landed = moe__ring_acquire(&s->kernel, &s->layout.ring, cursor, s->row_bytes);
    MlirValue row = row_number(s, index);
    moe__bulk_load(b, buffer_of(s, cursor),
                   moe__offset(b, s->x, row_offset(s, row, s->elements.bytes)), s->row_bytes,
                   landed);
  }
}

static void quantize_rows(rows_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  MOE__FOR (b, index, s->team, cta_rows(s), s->teams) {
    moe__cursor_t cursor = cursor_of(s, index);
    moe__ring_wait(&s->kernel, &s->layout.ring, cursor);
    quantize_row(s, buffer_of(s, cursor), row_number(s, index));
    team_barrier(s); /* its stage and the partials are written again */
    MOE__IF (b, moe__eq(b, s->member, 0)) {
      moe__ring_release(&s->kernel, &s->layout.ring, cursor);
    }
  }
}

/* ---- Rows that do not fit ---- */

static void quantize_long_rows(rows_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  MOE__FOR (b, index, s->team, cta_rows(s), s->teams) {
    MlirValue row = row_number(s, index);
    quantize_row(s, moe__offset(b, s->x, row_offset(s, row, s->elements.bytes)), row);
    team_barrier(s); /* its stage and the partials are written again */
  }
}

/* ---- The kernel ---- */

static void add_parameters(rows_t *s, MlirOperation op) {
  MlirType x_type = moe__tensor_type(op, MOE__X);
  int number = moe__tensor_number(op, MOE__X);
  moe__kernel_t *kernel = &s->kernel;
  s->x = moe__kernel_pointer(kernel, number);
  s->q = moe__kernel_pointer(kernel, moe__tensor_number(op, MOE__Q));
  s->scales = moe__kernel_pointer(kernel, moe__tensor_number(op, MOE__SCALES));
  for (int i = 0; i < s->rank; i++)
    s->extents[i] = moe__kernel_extent(kernel, number, i, x_type);
  moe__kernel_require(kernel, number, s->rank - 1, MOE__MULTIPLE_OF,
                      MOE__VECTOR_BYTES / s->elements.bytes);
  moe__kernel_require(kernel, number, s->rank - 1, MOE__AT_LEAST, 1); /* no bulk copy has 0 bytes */
  /* The bytes of a row are counted in i32. */
  moe__kernel_require(kernel, number, s->rank - 1, MOE__AT_MOST, INT32_MAX / s->elements.bytes);
}

static const moe__expression_t *grid_expression(rows_t *s) {
  moe__record_t *record = &s->kernel.record;
  const moe__expression_t *factors[] = {s->extents[0].expression, s->extents[1].expression};
  return moe__expression_persistent(record, moe__expression_mul(record, s->rank - 1, factors),
                                    s->schedule.ctas_per_sm);
}

static bool takes(MlirOperation op) {
  MlirType x = moe__tensor_type(op, MOE__X);
  return moe__op_granularity(op) == MOE__ROW &&
         moe__op_integer(op, "axis") == mlirShapedTypeGetRank(x) - 1;
}

static bool lower(const moe__lowering_t *lowering) {
  MlirOperation op = lowering->op;
  const rows_layout_t *layout = lowering->layout;
  const moe__rows_schedule_t *schedule = lowering->schedule;
  MlirType x_type = moe__tensor_type(op, MOE__X);
  rows_t s = {.schedule = *schedule,
              .layout = *layout,
              .elements = moe__elements_of(x_type, moe__op_bool(op, "sanitize")),
              .element = moe__fp8_of(moe__tensor_type(op, MOE__Q)),
              .pow2 = moe__op_bool(op, "pow2"),
              .rank = (int)mlirShapedTypeGetRank(x_type)};
  moe__kernel_t *kernel = &s.kernel;
  moe__builder_t *b = &kernel->builder;
  moe__lowering_begin(lowering, kernel);
  add_parameters(&s, op);
  moe__kernel_prologue(kernel);
  moe__kernel_await_launches(kernel);
  MlirValue columns = s.extents[s.rank - 1].value;
  s.rows = s.rank == 2 ? s.extents[0].value : moe__mul(b, s.extents[0].value, s.extents[1].value);
  s.row_bytes = moe__mul(b, columns, s.elements.bytes);
  s.vectors = moe__udiv(b, s.row_bytes, MOE__VECTOR_BYTES);
  MlirValue room = moe__udiv(b, s.schedule.buffer_kb * 1024, s.row_bytes);
  MlirValue fitting = moe__umin(b, room, s.schedule.stages);
  s.teams = moe__umin(b, moe__lshr(b, fitting, 1), s.schedule.warps);
  s.teams = moe__umax(b, s.teams, 1);
  s.stages = moe__mul(b, moe__udiv(b, fitting, s.teams), s.teams);
  s.team_threads = moe__mul(b, moe__udiv(b, s.schedule.warps, s.teams), MOE__WARP);
  s.team = moe__udiv(b, kernel->thread, s.team_threads);
  s.member = moe__urem(b, kernel->thread, s.team_threads);

  MlirValue is_loader = moe__eq(b, kernel->thread, s.schedule.warps * MOE__WARP);
  MOE__IF (b, is_loader) {
    moe__ring_initialize(kernel, &s.layout.ring, 1);
  }
  moe__cta_barrier(b);

  MlirValue fits = moe__ult(b, 1, fitting);
  /* Warps that are left over when the teams have been formed do nothing; the last one loads. */
  MOE__IF (b, is_loader) {
    MOE__IF (b, fits) {
      load_rows(&s);
    }
  }
  MOE__ELSE (b) {
    MOE__IF (b, moe__ult(b, s.team, s.teams)) {
      MOE__IF (b, fits) {
        quantize_rows(&s);
      }
      MOE__ELSE (b) {
        quantize_long_rows(&s);
      }
    }
  }

  moe__lowering_end(lowering, kernel, grid_expression(&s));
  return true;
}

const moe__kernel_definition_t moe__quantize_rows_kernel = {
    .ops = {MOE__OP_QUANTIZE_FP8},
    .takes = takes,
    .has_kernel = has_kernel,
    .schedule = &moe__rows_schedule,
    .candidates = candidates,
    .layout_size = sizeof(rows_layout_t),
    .layout = lay_out,
    .lower = lower,
};
