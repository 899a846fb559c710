/* ScaleFinish.c - the kernel of ScaleFp8.c: how maxima become scales.
 *
 * The CTA that finds that it is the last one of a slice takes the slice's maxima out of `state`,
 * and leaves zeros there. Slices without elements have no CTA; their scales are those of zeros.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Device/Async.h"
#include "lib/Device/Warp.h"
#include "lib/Kernels/mx_quantize/ScaleFp8.h"

static MlirValue counter(moe__scale_t *s, const moe__scale_output_t *output, MlirValue cell) {
  moe__builder_t *b = &s->kernel.builder;
  return moe__scale_pointer(b, moe__scale_pointer(b, output->state, output->cells, 4), cell, 4);
}

/* ---- From maxima to scales ---- */

static void write_scale(moe__scale_t *s, const moe__scale_output_t *output, MlirValue cell,
                        MlirValue bits) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue factor = moe__fp8_factor(b, bits, s->element, s->pow2);
  moe__store(b, factor, moe__scale_pointer(b, output->factors, cell, 4));
  moe__store(b, moe__fp8_inverse(b, factor), moe__scale_pointer(b, output->scales, cell, 4));
}

/* Takes the maximum out of the state, and leaves zero. */
static void finish_cell(moe__scale_t *s, const moe__scale_output_t *output, MlirValue cell,
                        MlirValue column) {
  moe__builder_t *b = &s->kernel.builder;
  (void)column;
  MlirValue bits = moe__atomic_exchange(b, moe__scale_pointer(b, output->state, cell, 4),
                                        moe__i32(b, 0), MOE__RELAXED);
  write_scale(s, output, cell, bits);
}

static void finish_rows(moe__scale_t *s, const moe__scale_output_t *output,
                        const moe__scale_part_t *part) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue rows = moe__umin(b, moe__sub(b, part->row_end, part->row), s->tile_rows);
  for (int first = 0; first < s->tile_rows; first += s->kernel.layout.threads) {
    MlirValue row = moe__add(b, s->kernel.thread, first);
    MOE__IF (b, moe__ult(b, row, rows)) {
      finish_cell(s, output, moe__add(b, moe__scale_first_cell(s, output, part), row), row);
    }
  }
}

/* How many parts there are to the slices of this one. */
static MlirValue parts_of(moe__scale_t *s, const moe__scale_output_t *output,
                          const moe__scale_part_t *part) {
  moe__builder_t *b = &s->kernel.builder;
  switch (output->slices) {
  case MOE__OF_COLUMNS:
    return part->siblings;
  case MOE__OF_ROWS:
    return part->tensor.column_tiles;
  case MOE__OF_WHOLE:
    break;
  }
  return s->granularity == MOE__TENSOR ? s->tiles.total
                                       : moe__mul(b, part->siblings, part->tensor.column_tiles);
}

void moe__scale_count(moe__scale_t *s, const moe__scale_part_t *part) {
  moe__builder_t *b = &s->kernel.builder;
  moe__cta_barrier(b);
  MOE__IF (b, moe__scale_is_thread(s, 0)) {
    for (int i = 0; i < s->output_count; i++) {
      const moe__scale_output_t *output = &part->tensor.outputs[i];
      MlirValue cell = counter(s, output, moe__scale_first_cell(s, output, part));
      MlirValue before = moe__atomic_add(b, cell, moe__i32(b, 1), MOE__ACQUIRE_RELEASE);
      MlirValue all = parts_of(s, output, part);
      MlirValue is_last = moe__eq(b, moe__add(b, before, 1), all);
      moe__store(b, moe__zext(b, is_last, b->i32), output->done);
      MOE__IF (b, is_last) {
        moe__store(b, moe__i32(b, 0), cell);
      }
    }
  }
  moe__cta_barrier(b);
}

void moe__scale_finish(moe__scale_t *s, const moe__scale_part_t *part) {
  moe__builder_t *b = &s->kernel.builder;
  for (int i = 0; i < s->output_count; i++) {
    const moe__scale_output_t *output = &part->tensor.outputs[i];
    MlirValue is_last = moe__ne(b, moe__load(b, output->done, b->i32), 0);
    MOE__IF (b, is_last) {
      switch (output->slices) {
      case MOE__OF_COLUMNS:
        moe__scale_for_columns(s, output, part, finish_cell);
        break;
      case MOE__OF_ROWS:
        finish_rows(s, output, part);
        break;
      case MOE__OF_WHOLE: {
        MOE__IF (b, moe__scale_is_thread(s, 0)) {
          MlirValue cell = moe__scale_first_cell(s, output, part);
          finish_cell(s, output, cell, cell);
        }
        break;
      }
      }
    }
  }
}

/* ---- Slices without elements ---- */

/* Gives `cells` scales from `first` on the value for nothing but zeros; threads `from`, `from +
 * step`, ... share them. */
static void fill(moe__scale_t *s, const moe__scale_output_t *output, MlirValue first,
                 MlirValue cells, MlirValue from, MlirValue step) {
  moe__builder_t *b = &s->kernel.builder;
  MOE__FOR (b, index, from, cells, step) {
    write_scale(s, output, moe__add(b, first, index), moe__i32(b, 0));
  }
}

/* Groups without rows have no parts; the CTAs share them. */
static void fill_empty_groups(moe__scale_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  MOE__FOR (b, index, s->kernel.cta, s->group_count.value, s->kernel.cta_count) {
    MlirValue start, end;
    moe__groups_range(&s->groups, index, &start, &end);
    MOE__IF (b, moe__eq(b, start, end)) {
      for (int i = 0; i < s->tensor_count * s->output_count; i++) {
        const moe__scale_tensor_t *tensor = &s->tensors[i / s->output_count];
        const moe__scale_output_t *output = &tensor->outputs[i % s->output_count];
        MlirValue threads = moe__i32(b, s->kernel.layout.threads);
        if (output->slices == MOE__OF_COLUMNS)
          fill(s, output, moe__mul(b, index, tensor->columns), tensor->columns, s->kernel.thread,
               threads);
        else if (output->slices == MOE__OF_WHOLE)
          fill(s, output, index, moe__i32(b, 1), s->kernel.thread, threads);
      }
    }
  }
}

/* A tensor without elements has no parts at all. Without groups there is one tensor. */
static void fill_empty_tensor(moe__scale_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  MOE__IF (b, moe__eq(b, s->tiles.total, 0)) {
    MlirValue threads = moe__i32(b, s->kernel.layout.threads);
    MlirValue from = moe__add(b, moe__mul(b, s->kernel.cta, threads), s->kernel.thread);
    MlirValue step = moe__mul(b, s->kernel.cta_count, threads);
    for (int i = 0; i < s->output_count; i++)
      fill(s, &s->tensors[0].outputs[i], moe__i32(b, 0), s->tensors[0].outputs[i].cells, from,
           step);
  }
}

void moe__scale_fill_empty(moe__scale_t *s) {
  if (s->grouped)
    fill_empty_groups(s);
  else
    fill_empty_tensor(s);
}
