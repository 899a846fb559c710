/* Dequantize.h - what the two kernels that dequantize, from MX and from FP8 with f32 scales,
 * share: DequantizeRows.c for q row-major, DequantizeColumns.c for q column-major.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_KERNELS_MX_QUANTIZE_DEQUANTIZE_H
#define MOE_KERNELS_MX_QUANTIZE_DEQUANTIZE_H

#include "lib/Device/Groups.h"
#include "lib/Device/Tiles.h"
#include "lib/Device/Vectors.h"
#include "lib/Dialect/Dialect.h"
#include "lib/Kernels/Kernels.h"
#include "lib/Kernels/mx_quantize/Schedule.h"

/* What a CTA has in shared memory: offsets. */
typedef struct moe__dequantize_layout_t {
  moe__layout_t cta;
  moe__groups_layout_t groups;
  int32_t buffer; /* where q is column-major: the tile, panels of tile_k columns */
  int32_t rows;   /* and what each of its rows is, i32: moe__dequantize_t.grouped */
} moe__dequantize_layout_t;

/* How the schedule divides the work among the threads, and what of the layout the body needs. False
 * after an error. columns: of a vector of x. */
bool moe__dequantize_rows_layout(MlirOperation op, const moe__dequantize_schedule_t *schedule,
                                 int columns, moe__dequantize_layout_t *out);
bool moe__dequantize_columns_layout(MlirOperation op, const moe__dequantize_schedule_t *schedule,
                                    int columns, moe__dequantize_layout_t *out);

#define MOE__MAX_COLUMNS 8 /* of a vector of x, which a thread converts at once */

/* Tensors are seen as (E,N,K), those of rank 2 with E = 1. Where tokens lie side by side in q and
 * in x, N and K have changed places. */
typedef struct moe__dequantize_t {
  moe__kernel_t kernel;
  moe__dequantize_schedule_t schedule;
  moe__dequantize_layout_t layout;
  moe__fp8_t element;       /* of q */
  moe__elements_t elements; /* of x */
  int columns;              /* that are MOE__VECTOR_BYTES of x */
  bool mx;                  /* scales are E8M0, one for 32 elements; else f32, by granularity */
  moe__granularity_t granularity;
  bool column_major; /* q; then a product sums over N */
  /* Rows are in groups; those in none are not written. Of each row of a tile a column-major q has
   * in shared memory its group, or where scales are of MX blocks the row of its scales; or
   * MOE__ROW_OF_NONE or MOE__ROW_OF_ZEROS. */
  bool grouped;
  bool side_by_side; /* tokens of MX blocks, in x too: nothing is transposed, and groups cut K */
  bool evens_first;  /* of each 16 columns of x those with an even number come first */
  bool aligned;      /* groups begin at multiples of MOE_GROUP_ALIGN, with zeros behind each */
  moe__extent_t e, n, k;
  MlirValue q, scales, offs, status, x;
  moe__groups_t groups;
} moe__dequantize_t;

/* Whether q, scales and x are taken for streams, whatever rows they have: of MX blocks along rows,
 * where CTAs are not persistent. */
bool moe__dequantize_is_stream(const moe__dequantize_t *s);

/* The bodies; the parameters are there, and the groups' table is not. */
void moe__dequantize_rows(moe__dequantize_t *s);
void moe__dequantize_columns(moe__dequantize_t *s);

/* A row that is not written, and one that is padding. */
#define MOE__ROW_OF_NONE (-1)
#define MOE__ROW_OF_ZEROS (-2)

/* Where a scale is looked up; all i32. group: that of the row, where there are groups; with MX
 * blocks the row of its scales. column: the first of a vector. */
typedef struct moe__place_t {
  MlirValue expert, group, row, column;
} moe__place_t;

/* The scales of a vector's columns, as f32: `columns` of them, which are all the same unless they
 * belong to columns. */
void moe__dequantize_scales(moe__dequantize_t *s, const moe__place_t *at,
                            MlirValue out[MOE__MAX_COLUMNS]);

/* Number of an element of x in memory, i64; where q is row-major, of q too. */
MlirValue moe__dequantize_offset(moe__dequantize_t *s, MlirValue expert, MlirValue row,
                                 MlirValue column);

/* Writes a vector of x, which starts with element number `offset`: values times scales. kept: for
 * each an i1, +0 is written where it is false; NULL for all. */
void moe__dequantize_store(moe__dequantize_t *s, const MlirValue values[MOE__MAX_COLUMNS],
                           const MlirValue scales[MOE__MAX_COLUMNS], MlirValue offset,
                           const MlirValue kept[MOE__MAX_COLUMNS]);

/* Of row `row` there, where groups are aligned: its place in its group, the group's size, and
 * whether it is behind the room of all groups, an i1. */
typedef struct moe__aligned_place_t {
  MlirValue in_group, size, is_none;
} moe__aligned_place_t;

moe__aligned_place_t moe__dequantize_aligned_place(moe__dequantize_t *s, MlirValue row);

/* Whether it is written (i1): blocks of MOE_GROUP_ALIGN rows that have none of a group are not. */
MlirValue moe__dequantize_is_written(moe__dequantize_t *s, const moe__aligned_place_t *place);

/* Makes the groups' table, with tiles of tile_n rows: the whole CTA. */
void moe__dequantize_groups(moe__dequantize_t *s);

/* Whether what multiplies the tokens is to start while they are dequantized: with few of them that
 * saves time. */
bool moe__dequantize_has_few_tokens(MlirOperation op);

#endif /* MOE_KERNELS_MX_QUANTIZE_DEQUANTIZE_H */
