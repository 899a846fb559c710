/* ScaleFp8.h - the kernel of mx_quantize.scale_fp8, scale_fp8_dual and scale_fp8_pair under
 * construction: what its parts share.
 *
 * ScaleFp8.c has the kernel: its parameters, and the walk over the tiles. ScaleAmax.c finds the
 * maxima of a tile, ScaleFinish.c makes scales of them.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_KERNELS_MX_QUANTIZE_SCALE_FP8_H
#define MOE_KERNELS_MX_QUANTIZE_SCALE_FP8_H

#include "lib/Device/Elements.h"
#include "lib/Device/Fp8.h"
#include "lib/Device/Groups.h"
#include "lib/Device/Tiles.h"
#include "lib/Device/Vectors.h"
#include "lib/Dialect/Dialect.h"
#include "lib/Kernels/mx_quantize/Schedule.h"

#define MOE__SCALE_ROW_BYTES (MOE__WARP * MOE__VECTOR_BYTES) /* of a tile */
#define MOE__SCALE_MAX_TENSORS 2
#define MOE__SCALE_MAX_OUTPUTS 2 /* of a tensor */

typedef struct moe__scale_layout_t {
  moe__layout_t cta;
  int32_t partials; /* offset of what the warps found */
  int32_t flags;    /* offset of a word for each output */
  moe__groups_layout_t groups;
} moe__scale_layout_t;

/* What a scale is for. */
typedef enum moe__slices_t { MOE__OF_COLUMNS, MOE__OF_ROWS, MOE__OF_WHOLE } moe__slices_t;

/* The results for one of them. */
typedef struct moe__scale_output_t {
  moe__slices_t slices;
  MlirValue scales, factors, state; /* pointers */
  MlirValue cells; /* i32: scales; the state's counters lie behind as many maxima */
  MlirValue done;  /* shared: whether this CTA is the slice's last */
} moe__scale_output_t;

/* A tensor that is read. */
typedef struct moe__scale_tensor_t {
  MlirValue x;       /* pointer */
  MlirValue columns; /* i32 */
  MlirValue column_tiles;
  moe__scale_output_t outputs[MOE__SCALE_MAX_OUTPUTS];
} moe__scale_tensor_t;

typedef struct moe__scale_t {
  moe__kernel_t kernel;
  moe__scale_schedule_t schedule;
  moe__scale_layout_t layout;
  moe__elements_t elements;
  moe__fp8_t element;
  moe__granularity_t granularity;
  bool pow2, grouped;
  int rank;
  MlirValue offs, status;
  moe__extent_t group_count;
  moe__scale_tensor_t tensors[MOE__SCALE_MAX_TENSORS];
  int tensor_count, output_count; /* output_count: of each tensor */
  int32_t tile_rows, tile_columns;
  MlirValue batches, rows; /* i32: of x; batches: experts, else 1 */
  MlirValue row_tiles;     /* of an expert, or of x */
  moe__tiles_t tiles;
  moe__groups_t groups;
} moe__scale_t;

/* A tile of this CTA. */
typedef struct moe__scale_part_t {
  moe__scale_tensor_t tensor; /* the part's */
  MlirValue batch;            /* i32: expert or group */
  MlirValue first_row;        /* of x that the batch's rows count from */
  MlirValue row, row_end;     /* of the batch */
  MlirValue column;           /* first one */
  MlirValue siblings;         /* row tiles of the same batch */
} moe__scale_part_t;

/* ---- ScaleFp8.c ---- */

/* The address of element `index` (i32) of `bytes` bytes. */
MlirValue moe__scale_pointer(moe__builder_t *b, MlirValue base, MlirValue index, int bytes);

/* i1: whether this is thread number `thread` of the CTA. */
MlirValue moe__scale_is_thread(moe__scale_t *s, int32_t thread);

/* The scale of the part's first row, column, or of all of it. */
MlirValue moe__scale_first_cell(moe__scale_t *s, const moe__scale_output_t *output,
                                const moe__scale_part_t *part);

/* Calls `visit` for each column of the part that this thread has and that is a column of x. */
void moe__scale_for_columns(moe__scale_t *s, const moe__scale_output_t *output,
                            const moe__scale_part_t *part,
                            void (*visit)(moe__scale_t *s, const moe__scale_output_t *output,
                                          MlirValue cell, MlirValue column));

/* ---- ScaleAmax.c ---- */

/* Finds the largest magnitudes of the part's columns, rows, or of all of it, and raises the maxima
 * in the outputs' `state`: all threads. */
void moe__scale_amax(moe__scale_t *s, const moe__scale_part_t *part, MlirValue warp,
                     MlirValue lane);

/* ---- ScaleFinish.c: all threads ---- */

/* Counts this CTA for each output, and notes in shared memory where it was the last. */
void moe__scale_count(moe__scale_t *s, const moe__scale_part_t *part);

/* Makes the scales of those outputs of which this CTA was the last. */
void moe__scale_finish(moe__scale_t *s, const moe__scale_part_t *part);

/* Writes the scales of groups without rows, or of a tensor without elements. */
void moe__scale_fill_empty(moe__scale_t *s);

#endif /* MOE_KERNELS_MX_QUANTIZE_SCALE_FP8_H */
