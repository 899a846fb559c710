/* Dequantize.h - what the two kernels of mx_quantize.dequantize and mx_quantize.dequantize_fp8 share:
 * DequantizeRows.c for q row-major, DequantizeColumns.c for q column-major.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_PASSES_MX_QUANTIZE_DEQUANTIZE_H
#define MOE_PASSES_MX_QUANTIZE_DEQUANTIZE_H

#include "lib/Builder/Shapes.h"
#include "lib/Kernel/Groups.h"
#include "lib/Kernel/Tiles.h"
#include "lib/Kernel/Vectors.h"
#include "passes/Schedule.h"

#define MOE__MAX_COLUMNS 8 /* of a vector of x, which a thread converts at once */

/* Tensors are seen as (E,N,K), those of rank 2 with E = 1. */
typedef struct moe__dequantize_t {
  moe__kernel_t kernel;
  moe__dequantize_schedule_t schedule;
  moe__fp8_t element;       /* of q */
  moe__elements_t elements; /* of x */
  int columns;              /* that are MOE__VECTOR_BYTES of x */
  bool mx;                  /* scales are E8M0, one for 32 elements; else f32, by granularity */
  moe__granularity_t granularity;
  bool column_major; /* q; then a product sums over N */
  bool grouped;      /* rows are in groups; those in none are not written */
  int max_groups;
  moe__extent_t e, n, k;
  MlirValue q, scales, offs, status, x;
  moe__groups_t groups;
} moe__dequantize_t;

/* The bodies; the parameters are there, and the groups' table is not. */
void moe__dequantize_rows(moe__dequantize_t *s);
void moe__dequantize_columns(moe__dequantize_t *s);

/* Where a scale is looked up; all i32. group: that of the row, where there are groups. column: the
 * first of a vector. */
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

/* Writes a vector of x, which starts with element number `offset`: values times scales. */
void moe__dequantize_store(moe__dequantize_t *s, const MlirValue values[MOE__MAX_COLUMNS],
                           const MlirValue scales[MOE__MAX_COLUMNS], MlirValue offset);

/* Makes the groups' table, with tiles of tile_n rows; a block barrier follows. */
void moe__dequantize_groups(moe__dequantize_t *s);

#endif /* MOE_PASSES_MX_QUANTIZE_DEQUANTIZE_H */
