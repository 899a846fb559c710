/* ScaleAmax.c - the largest magnitudes of a tile of scale_fp8: see ScaleFp8.h.
 *
 * Each warp reads rows of the tile and keeps the maxima of its lanes' columns in registers. For
 * columns and for the whole tile the warps put them together in shared memory; a row belongs to one
 * warp.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/mx_quantize/ScaleFp8.h"

#include "lib/Device/Async.h"
#include "lib/Device/Warp.h"

#define MAX_ROWS 32 /* of a warp */

/* ---- Reading ---- */

/* What a warp found in its rows of a part. */
typedef struct found_t {
  MlirValue columns[MOE__VECTOR_WORDS]; /* magnitudes of the lane's columns */
  MlirValue row;                        /* bits of the largest of row number lane / (32 / rows) */
} found_t;

/* The tensors have outputs for the same slices. */
static bool has_slices(const moe__scale_t *s, moe__slices_t slices) {
  for (int i = 0; i < s->output_count; i++)
    if (s->tensors[0].outputs[i].slices == slices)
      return true;
  return false;
}

/* Past the end, rows and columns that are there are read once more: maxima do not change. */
static void read_part(moe__scale_t *s, const moe__scale_part_t *part, MlirValue warp,
                      MlirValue lane, found_t *found) {
  moe__builder_t *b = &s->kernel.builder;
  int rows = s->schedule.rows_per_warp, vector = MOE__VECTOR_BYTES / s->elements.bytes;
  MlirValue column = moe__umin(b, moe__add(b, part->column, moe__mul(b, lane, vector)),
                               moe__sub(b, part->tensor.columns, vector));
  MlirValue row_bytes = moe__mul(b, moe__zext(b, part->tensor.columns, b->i64), s->elements.bytes);
  MlirValue base = moe__scale_pointer(b, part->tensor.x, column, s->elements.bytes);
  MlirValue first = moe__add(b, part->row, moe__mul(b, warp, rows));
  MlirValue last = moe__sub(b, part->row_end, 1);
  MlirValue vectors[MAX_ROWS];
  for (int i = 0; i < rows; i++) {
    MlirValue row = moe__umin(b, moe__add(b, first, i), last);
    MlirValue index = moe__zext(b, moe__add(b, part->first_row, row), b->i64);
    vectors[i] = moe__load(b, moe__offset(b, base, moe__mul(b, index, row_bytes)),
                           moe__vector_type(b, MOE__VECTOR_WORDS, b->i32));
  }
  MlirValue row_words[MAX_ROWS];
  for (int i = 0; i < rows; i++) {
    MlirValue words[MOE__VECTOR_WORDS];
    for (int j = 0; j < MOE__VECTOR_WORDS; j++) {
      words[j] = moe__word_magnitudes(b, &s->elements, moe__extract(b, vectors[i], j));
      found->columns[j] =
          i ? moe__word_max(b, &s->elements, found->columns[j], words[j]) : words[j];
    }
    row_words[i] = words[0];
    for (int j = 1; j < MOE__VECTOR_WORDS && has_slices(s, MOE__OF_ROWS); j++)
      row_words[i] = moe__word_max(b, &s->elements, row_words[i], words[j]);
  }
  if (has_slices(s, MOE__OF_ROWS))
    found->row = moe__word_amax(b, &s->elements,
                                moe__warp_reduce_many(b, rows, row_words, MOE__WARP, lane,
                                                      moe__larger_words, &s->elements));
}

/* ---- Raising the maxima ---- */

static void raise(moe__scale_t *s, const moe__scale_output_t *output, MlirValue cell,
                  MlirValue bits) {
  moe__builder_t *b = &s->kernel.builder;
  moe__atomic_umax(b, moe__scale_pointer(b, output->state, cell, 4), bits, MOE__RELAXED);
}

static MlirValue shared_at(moe__scale_t *s, int32_t offset, MlirValue bytes) {
  moe__builder_t *b = &s->kernel.builder;
  return moe__offset_by(b, moe__offset(b, s->kernel.shared, bytes), offset);
}

/* Element `index` of the words that all warps have put down at `word`: the largest. */
static MlirValue combined(moe__scale_t *s, MlirValue column) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue word = moe__shl(b, s->elements.per_word == 2 ? moe__lshr(b, column, 1) : column, 2);
  MlirValue address = shared_at(s, s->layout.partials, word), largest = {NULL};
  for (int warp = 0; warp < s->schedule.warps; warp++) {
    MlirValue words = moe__load(b, moe__offset_by(b, address, warp * MOE__SCALE_ROW_BYTES), b->i32);
    largest = warp ? moe__word_max(b, &s->elements, largest, words) : words;
  }
  if (s->elements.per_word == 1)
    return largest;
  MlirValue odd = moe__eq(b, moe__and(b, column, 1), 1);
  return moe__select(b, odd, moe__word_magnitude(b, &s->elements, largest, 1),
                     moe__word_magnitude(b, &s->elements, largest, 0));
}

static void raise_column(moe__scale_t *s, const moe__scale_output_t *output, MlirValue cell,
                         MlirValue column) {
  raise(s, output, cell, combined(s, column));
}

static void raise_rows(moe__scale_t *s, const moe__scale_output_t *output,
                       const moe__scale_part_t *part, MlirValue warp, MlirValue lane,
                       const found_t *found) {
  moe__builder_t *b = &s->kernel.builder;
  int rows = s->schedule.rows_per_warp, lanes = MOE__WARP / rows;
  MlirValue row = moe__udiv(b, lane, lanes);
  MlirValue offset = moe__add(b, moe__mul(b, warp, rows), row);
  MlirValue is_first = moe__eq(b, moe__urem(b, lane, lanes), 0);
  MlirValue inside =
      moe__and(b, is_first, moe__ult(b, moe__add(b, part->row, offset), part->row_end));
  MOE__IF (b, inside) {
    raise(s, output, moe__add(b, moe__scale_first_cell(s, output, part), offset), found->row);
  }
}

/* The warps' maxima of all their columns lie at `partials`, one behind the other. */
static void raise_whole(moe__scale_t *s, const moe__scale_output_t *output,
                        const moe__scale_part_t *part) {
  moe__builder_t *b = &s->kernel.builder;
  MOE__IF (b, moe__scale_is_thread(s, 0)) {
    MlirValue largest = moe__i32(b, 0);
    for (int warp = 0; warp < s->schedule.warps; warp++)
      largest = moe__umax(
          b, largest,
          moe__load(b, moe__offset_by(b, s->kernel.shared, s->layout.partials + 4 * warp), b->i32));
    raise(s, output, moe__scale_first_cell(s, output, part), largest);
  }
}

/* Puts down what the warps found, for the other warps. */
static void share(moe__scale_t *s, MlirValue warp, MlirValue lane, const found_t *found) {
  moe__builder_t *b = &s->kernel.builder;
  if (has_slices(s, MOE__OF_COLUMNS)) {
    MlirValue offset =
        moe__add(b, moe__mul(b, warp, MOE__SCALE_ROW_BYTES), moe__mul(b, lane, MOE__VECTOR_BYTES));
    moe__store(b, moe__vector(b, MOE__VECTOR_WORDS, found->columns),
               shared_at(s, s->layout.partials, offset));
  } else if (has_slices(s, MOE__OF_WHOLE)) {
    MlirValue word = found->columns[0];
    for (int j = 1; j < MOE__VECTOR_WORDS; j++)
      word = moe__word_max(b, &s->elements, word, found->columns[j]);
    MlirValue bits = moe__warp_reduce(b, moe__word_amax(b, &s->elements, word), moe__umax);
    MOE__IF (b, moe__eq(b, lane, 0)) {
      moe__store(b, bits, shared_at(s, s->layout.partials, moe__shl(b, warp, 2)));
    }
  }
  moe__cta_barrier(b);
}

void moe__scale_amax(moe__scale_t *s, const moe__scale_part_t *part, MlirValue warp,
                     MlirValue lane) {
  found_t found = {0};
  read_part(s, part, warp, lane, &found);
  share(s, warp, lane, &found);
  for (int i = 0; i < s->output_count; i++) {
    const moe__scale_output_t *output = &part->tensor.outputs[i];
    if (output->slices == MOE__OF_COLUMNS)
      moe__scale_for_columns(s, output, part, raise_column);
    else if (output->slices == MOE__OF_ROWS)
      raise_rows(s, output, part, warp, lane, &found);
    else
      raise_whole(s, output, part);
  }
}
