/* Fp8.c - FP8 with fp32 scales: section 3 of the numerics contract.
 *
 * Why it exists: it says what the quantizer kernels must compute, bit for bit. All granularities
 * are one thing here: a tensor is a row of sheets, matrices that are its experts or its groups
 * of rows, and a sheet is cut into cells, whose elements share a scale. Sheets are walked in
 * tiles, each of which lies in one cell, or in cells that are all one row or all one column
 * wide.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Reference/Tiles.h"

#include "moe/limits.h"

enum { ROWS = MOE__REF_TILE_HEIGHT, LANES = MOE__REF_TILE_LANES, FP8_BLOCK = MOE_FP8_BLOCK };
_Static_assert(FP8_BLOCK % ROWS == 0 && FP8_BLOCK % LANES == 0,
               "a tile must not meet two FP8 blocks");

/* ---- The factor of one slice ---- */

float moe_ref_fp8_factor(float amax, bool pow2, moe_ref_dtype_t element) {
  const moe__ref_small_float_t format = element == MOE_REF_E5M2 ? moe__ref_e5m2 : moe__ref_e4m3;
  const double max_finite = moe__ref_f32_from_fp8((uint8_t)format.max_code, format);
  const double bounded = amax < 1e-12 ? 1e-12 : amax;
  const float factor = (float)(max_finite / bounded);
  if (!pow2 || moe__ref_magnitude(factor) > MOE__REF_F32_INF)
    return factor;
  return moe__ref_f32_from_bits(moe__ref_bits_from_f32(factor) & MOE__REF_F32_INF);
}

int moe_ref_fp8_granularity_from_name(const char *name) {
  if (name == NULL)
    return -1;
#define MOE_GRANULARITY(symbol, text)                                                              \
  if (strcmp(name, text) == 0)                                                                     \
    return MOE_REF_##symbol;
#include "moe/fp8_granularities.def"
  return -1;
}

/* ---- Granularities ---- */

int64_t moe_ref_fp8_cell(moe_ref_fp8_granularity_t granularity, int axis, int rank, int dimension) {
  const bool is_expert = dimension < rank - 2;
  switch (granularity) {
  case MOE_REF_ROW:
    return dimension == axis ? 0 : 1;
  case MOE_REF_EXPERT:
    return is_expert ? 1 : 0;
  case MOE_REF_1X128:
    return dimension == axis ? FP8_BLOCK : 1;
  case MOE_REF_128X128:
    return is_expert ? 1 : FP8_BLOCK;
  case MOE_REF_TENSOR:
  case MOE_REF_GROUP:
    break;
  }
  return 0;
}

/* Whether a tensor of this rank can be scaled in this way: the table in moe/reference.h. */
static bool is_scaling(const moe_ref_fp8_scaling_t *scaling, int rank) {
  if (rank < 2 || rank > 3)
    return false;
  const int axis = scaling->axis;
  const bool grouped = scaling->offs != NULL;
  if (axis != rank - 1 && axis != rank - 2)
    return false;
  if (scaling->aligned && (!grouped || axis != 0))
    return false;
  switch (scaling->granularity) {
  case MOE_REF_ROW:
  case MOE_REF_1X128:
    return grouped == (axis == 0);
  case MOE_REF_TENSOR:
    return !grouped;
  case MOE_REF_EXPERT:
    return rank == 3 && !grouped;
  case MOE_REF_GROUP:
    return rank == 2 && grouped;
  case MOE_REF_128X128:
    return !grouped;
  }
  return false;
}

static int64_t cell_along(const moe_ref_fp8_scaling_t *scaling, int rank, int dimension) {
  return moe_ref_fp8_cell(scaling->granularity, scaling->axis, rank, dimension);
}

/* Whether groups cut tokens into FP8 blocks of their own. Scales of group g then begin in row
 * first_token / 128 + g; rows in between belong to nobody. */
static bool has_token_blocks(const moe_ref_fp8_scaling_t *scaling) {
  return scaling->offs != NULL && scaling->granularity == MOE_REF_1X128;
}

/* Groups first, then the dimensions of x that cells cut; one scale where nothing is cut. */
int moe_ref_fp8_scale_shape(const moe_ref_tensor_t *x, const moe_ref_fp8_scaling_t *scaling,
                            int64_t *shape) {
  if (!moe__ref_has_shape(x) || scaling == NULL || !is_scaling(scaling, x->rank))
    return -1;
  const moe_ref_tensor_t *const offs = scaling->offs;
  int rank = 0;
  if (offs != NULL) {
    if (!moe__ref_has_shape(offs) || offs->dtype != MOE_REF_I32 || offs->rank != 1)
      return -1;
    if (!has_token_blocks(scaling))
      shape[rank++] = offs->shape[0];
  }
  for (int d = 0; d < x->rank; d++) {
    const int64_t cell = cell_along(scaling, x->rank, d);
    const int64_t more = d == 0 && has_token_blocks(scaling) ? offs->shape[0] : 0;
    if (cell > 0)
      shape[rank++] = moe_ref_padded(x->shape[d], cell) / cell + more;
  }
  if (rank == 0)
    shape[rank++] = 1;
  return rank;
}

/* ---- Sheets ---- */

/* A matrix within the tensors, the same in all of them, and its cells. */
typedef struct {
  int64_t expert, first_row; /* where it begins */
  int64_t rows, columns;
  int64_t group;
  bool row_cells, column_cells; /* cells are a single row high, a single column wide */
} sheet_t;

/* Where the scale of an element lies: (row, column) of a sheet has its scale at
 * data[row / cell_rows * row_step + column / cell_columns * column_step]. */
typedef struct {
  float *data;
  int64_t cell_rows, cell_columns;
  int64_t row_step, column_step;
} cells_t;

static int64_t sheet_count(const moe_ref_tensor_t *x, const moe_ref_fp8_scaling_t *scaling) {
  if (scaling->offs != NULL)
    return scaling->offs->shape[0];
  return x->rank == 3 ? x->shape[0] : 1;
}

/* Sheet number i, where sheet i-1 is `previous`. */
static sheet_t sheet_at(const moe_ref_tensor_t *x, const moe_ref_fp8_scaling_t *scaling, int64_t i,
                        const sheet_t *previous) {
  const int row = x->rank - 2, column = x->rank - 1;
  sheet_t sheet = {.rows = x->shape[row],
                   .columns = x->shape[column],
                   .row_cells = cell_along(scaling, x->rank, row) == 1,
                   .column_cells = cell_along(scaling, x->rank, column) == 1};
  if (scaling->offs != NULL) {
    sheet.group = i;
    sheet.first_row = i > 0 ? previous->first_row + previous->rows : 0;
    sheet.rows =
        moe__ref_group_end(scaling->offs, i, sheet.first_row, x->shape[0]) - sheet.first_row;
  } else if (x->rank == 3) {
    sheet.expert = i;
  }
  return sheet;
}

/* The scales (or factors, or amaxes) of a sheet of x, which has elements. */
static cells_t sheet_cells(const moe_ref_tensor_t *x, const moe_ref_fp8_scaling_t *scaling,
                           const sheet_t *sheet, const moe_ref_tensor_t *scales) {
  cells_t cells = {.cell_rows = 1, .cell_columns = 1};
  int64_t index = 0;
  int d = 0; /* of scales */
  if (has_token_blocks(scaling))
    index += (sheet->first_row / FP8_BLOCK + sheet->group) * scales->strides[0];
  else if (scaling->offs != NULL)
    index += sheet->group * scales->strides[d++];
  for (int i = 0; i < x->rank; i++) {
    const int64_t cell = cell_along(scaling, x->rank, i);
    if (cell == 0)
      continue;
    const int64_t step = scales->strides[d++];
    if (i < x->rank - 2) {
      index += sheet->expert * step;
    } else if (i == x->rank - 2) {
      cells.cell_rows = cell;
      cells.row_step = step;
    } else {
      cells.cell_columns = cell;
      cells.column_step = step;
    }
  }
  cells.data = moe__ref_element_address(scales, index);
  return cells;
}

/* ---- Tiles of a sheet ---- */

/* A tile, and where it begins in its sheet. */
typedef struct {
  int64_t row, column;
  moe__ref_tile_t tile;
} piece_t;

static moe__ref_place_t piece_place(const piece_t *piece, const sheet_t *sheet,
                                    const moe_ref_tensor_t *tensor) {
  const int row = tensor->rank - 2, column = tensor->rank - 1;
  const int64_t expert = tensor->rank == 3 ? sheet->expert * tensor->strides[0] : 0;
  const int64_t index = expert + (sheet->first_row + piece->row) * tensor->strides[row] +
                        piece->column * tensor->strides[column];
  return (moe__ref_place_t){.dtype = tensor->dtype,
                            .data = moe__ref_element_address(tensor, index),
                            .row = tensor->strides[row],
                            .lane = tensor->strides[column]};
}

/* The scale of the first element in row r of the piece. That of lane l is l * column_step behind it
 * where cells are columns, else the same. */
static float *row_scales(const piece_t *piece, const cells_t *cells, int r) {
  return cells->data + (piece->row + r) / cells->cell_rows * cells->row_step +
         piece->column / cells->cell_columns * cells->column_step;
}

static float max_finite_of(moe_ref_dtype_t dtype) {
  return dtype == MOE_REF_BF16 ? moe__ref_f32_from_bf16(0x7F7F) : FLT_MAX;
}

/* NaN -> +0, +-Inf -> +-max_finite. */
static void sanitize_tile(moe__ref_tile_t *tile, float max_finite) {
  for (int r = 0; r < tile->rows; r++)
    for (int l = 0; l < tile->lanes; l++) {
      const float x = tile->values[r][l];
      const float below = x > max_finite ? max_finite : x;
      const float inside = below < -max_finite ? -max_finite : below;
      tile->values[r][l] = x != x ? 0.0f : inside;
    }
}

/* Moves on to the next piece, and reads it from x. False after the last one; piece->tile.rows is 0
 * before the first. */
static bool next_piece(piece_t *piece, const sheet_t *sheet, const moe_ref_tensor_t *x,
                       bool sanitize) {
  moe__ref_tile_t *const tile = &piece->tile;
  if (sheet->rows == 0 || sheet->columns == 0)
    return false;
  if (tile->rows > 0)
    piece->column += tile->lanes;
  if (piece->column == sheet->columns) {
    piece->column = 0;
    piece->row += tile->rows;
  }
  if (piece->row == sheet->rows)
    return false;
  const int64_t rows = sheet->rows - piece->row, lanes = sheet->columns - piece->column;
  tile->rows = (int)(rows < ROWS ? rows : ROWS);
  tile->lanes = (int)(lanes < LANES ? lanes : LANES);
  const moe__ref_place_t place = piece_place(piece, sheet, x);
  moe__ref_tile_read(&place, tile);
  if (sanitize)
    sanitize_tile(tile, max_finite_of(x->dtype));
  return true;
}

/* ---- The largest magnitudes ---- */

/* Raises the amaxes of a row of cells, or of one cell, to those of the lanes. In the order of
 * integers NaN is above Inf, so NaN propagates. */
static void raise_amax(const int32_t lanes[LANES], int count, float *amax, bool column_cells,
                       int64_t column_step) {
  int32_t largest = 0;
  for (int l = 0; l < count; l++)
    largest = lanes[l] > largest ? lanes[l] : largest;
  if (!column_cells && largest > moe__ref_bits_from_f32(*amax))
    *amax = moe__ref_f32_from_bits(largest);
  for (int l = 0; column_cells && l < count; l++)
    if (lanes[l] > moe__ref_bits_from_f32(amax[l * column_step]))
      amax[l * column_step] = moe__ref_f32_from_bits(lanes[l]);
}

static void piece_amax(const piece_t *piece, const sheet_t *sheet, const cells_t *amax) {
  const moe__ref_tile_t *const tile = &piece->tile;
  int32_t lanes[LANES] = {0};
  for (int r = 0; r < tile->rows; r++) {
    for (int l = 0; l < tile->lanes; l++) {
      const int32_t magnitude = moe__ref_magnitude(tile->values[r][l]);
      lanes[l] = magnitude > lanes[l] ? magnitude : lanes[l];
    }
    if (!sheet->row_cells && r < tile->rows - 1)
      continue; /* the next row is of the same cells */
    raise_amax(lanes, tile->lanes, row_scales(piece, amax, r), sheet->column_cells,
               amax->column_step);
    memset(lanes, 0, sizeof lanes);
  }
}

/* ---- Multiplication ---- */

/* What elements are multiplied by: the values of cells, or the factors that follow from them. */
typedef struct {
  cells_t cells;
  bool are_amaxes, pow2;
  moe_ref_dtype_t element;
} factors_t;

static float factor_of(const factors_t *factors, float value) {
  return factors->are_amaxes ? moe_ref_fp8_factor(value, factors->pow2, factors->element) : value;
}

/* The factors of the lanes of row r. */
static void row_factors(const piece_t *piece, const sheet_t *sheet, const factors_t *factors, int r,
                        float lanes[LANES]) {
  const float *const values = row_scales(piece, &factors->cells, r);
  lanes[0] = factor_of(factors, values[0]);
  for (int l = 1; l < piece->tile.lanes; l++)
    lanes[l] =
        sheet->column_cells ? factor_of(factors, values[l * factors->cells.column_step]) : lanes[0];
}

static void piece_multiply(piece_t *piece, const sheet_t *sheet, const factors_t *factors) {
  moe__ref_tile_t *const tile = &piece->tile;
  float lanes[LANES] = {0};
  for (int r = 0; r < tile->rows; r++) {
    if (r == 0 || sheet->row_cells)
      row_factors(piece, sheet, factors, r, lanes);
    for (int l = 0; l < tile->lanes; l++)
      tile->values[r][l] *= lanes[l];
  }
}

/* ---- Passes over whole tensors ---- */

/* Moves on to the next index, in row-major order. False after the last one. */
static bool next_index(const moe_ref_tensor_t *tensor, int64_t *index) {
  for (int d = tensor->rank - 1; d >= 0; d--) {
    if (++index[d] < tensor->shape[d])
      return true;
    index[d] = 0;
  }
  return false;
}

static float *scale_at(const moe_ref_tensor_t *scales, const int64_t *index) {
  int64_t at = 0;
  for (int d = 0; d < scales->rank; d++)
    at += index[d] * scales->strides[d];
  return (float *)scales->data + at;
}

/* Sets all of a tensor of scales, or of a part of one. */
static void clear(const moe_ref_tensor_t *scales) {
  int64_t index[MOE_REF_MAX_RANK] = {0};
  if (moe__ref_is_empty(scales))
    return;
  do
    *scale_at(scales, index) = 0;
  while (next_index(scales, index));
}

/* The rows of scales that are those of a sheet; all rows where no sheet has rows of its own. */
static moe_ref_tensor_t sheet_scales(const moe_ref_fp8_scaling_t *scaling, const sheet_t *sheet,
                                     const moe_ref_tensor_t *scales) {
  moe_ref_tensor_t part = *scales;
  if (!has_token_blocks(scaling))
    return part;
  const int64_t first = sheet->first_row / FP8_BLOCK + sheet->group;
  part.data = moe__ref_element_address(scales, first * scales->strides[0]);
  part.shape[0] = moe_ref_padded(sheet->rows, FP8_BLOCK) / FP8_BLOCK;
  return part;
}

/* amax = the largest magnitude of each slice of x, 0 for an empty one. */
static void find_amax(const moe_ref_tensor_t *x, const moe_ref_fp8_scaling_t *scaling,
                      const moe_ref_tensor_t *amax) {
  if (moe__ref_is_empty(amax))
    return;
  if (!has_token_blocks(scaling))
    clear(amax);
  if (moe__ref_is_empty(x))
    return;
  sheet_t sheet = {0};
  for (int64_t i = 0; i < sheet_count(x, scaling); i++) {
    sheet = sheet_at(x, scaling, i, &sheet);
    if (has_token_blocks(scaling)) {
      const moe_ref_tensor_t own = sheet_scales(scaling, &sheet, amax);
      clear(&own);
    }
    const cells_t cells = sheet_cells(x, scaling, &sheet, amax);
    piece_t piece = {0};
    while (next_piece(&piece, &sheet, x, scaling->sanitize))
      piece_amax(&piece, &sheet, &cells);
  }
}

/* Replaces each amax by the slice's scale, and gives its factor too unless factors is NULL. */
static void finish_part(const moe_ref_fp8_scaling_t *scaling, moe_ref_dtype_t element,
                        const moe_ref_tensor_t *scales, const moe_ref_tensor_t *factors) {
  int64_t index[MOE_REF_MAX_RANK] = {0};
  if (moe__ref_is_empty(scales))
    return;
  do {
    float *const scale = scale_at(scales, index);
    const float factor = moe_ref_fp8_factor(*scale, scaling->pow2, element);
    *scale = 1.0f / factor;
    if (factors != NULL)
      *scale_at(factors, index) = factor;
  } while (next_index(scales, index));
}

/* The same for the scales of all sheets of x. */
static void finish_scales(const moe_ref_tensor_t *x, const moe_ref_fp8_scaling_t *scaling,
                          moe_ref_dtype_t element, const moe_ref_tensor_t *scales,
                          const moe_ref_tensor_t *factors) {
  const int64_t parts = has_token_blocks(scaling) ? sheet_count(x, scaling) : 1;
  sheet_t sheet = {0};
  for (int64_t i = 0; i < parts; i++) {
    sheet = sheet_at(x, scaling, i, &sheet);
    const moe_ref_tensor_t own = sheet_scales(scaling, &sheet, scales);
    const moe_ref_tensor_t own_factors =
        sheet_scales(scaling, &sheet, factors != NULL ? factors : scales);
    finish_part(scaling, element, &own, factors != NULL ? &own_factors : NULL);
  }
}

/* The sheet as it lies in `to`; where groups are aligned, with zeros behind its last row. */
static sheet_t place_sheet(const moe_ref_fp8_scaling_t *scaling, const sheet_t *sheet,
                           const moe_ref_tensor_t *to) {
  sheet_t placed = *sheet;
  if (!scaling->aligned)
    return placed;
  placed.first_row = moe_ref_aligned_start(sheet->first_row, sheet->group);
  for (int64_t row = sheet->rows; row < moe_ref_padded(sheet->rows, MOE_GROUP_ALIGN); row++)
    for (int64_t column = 0; column < sheet->columns; column++)
      *(uint8_t *)moe__ref_element_address(to, (placed.first_row + row) * to->strides[0] +
                                                   column * to->strides[1]) = 0;
  return placed;
}

/* to = cast(from * factor), where `values` are the factors, or the amaxes that they follow from. */
static void rescale(const moe_ref_tensor_t *from, const moe_ref_fp8_scaling_t *scaling,
                    bool sanitize, const moe_ref_tensor_t *values, bool are_amaxes,
                    const moe_ref_tensor_t *to) {
  if (moe__ref_is_empty(from))
    return;
  factors_t factors = {.are_amaxes = are_amaxes, .pow2 = scaling->pow2, .element = to->dtype};
  sheet_t sheet = {0};
  for (int64_t i = 0; i < sheet_count(from, scaling); i++) {
    sheet = sheet_at(from, scaling, i, &sheet);
    factors.cells = sheet_cells(from, scaling, &sheet, values);
    const sheet_t placed = place_sheet(scaling, &sheet, to);
    piece_t piece = {0};
    while (next_piece(&piece, &sheet, from, sanitize)) {
      piece_multiply(&piece, &sheet, &factors);
      const moe__ref_place_t target = piece_place(&piece, &placed, to);
      moe__ref_tile_write(&target, &piece.tile);
    }
  }
}

/* ---- Checks ---- */

static bool is_high(const moe_ref_tensor_t *x) {
  return moe__ref_is_tensor(x) && (x->dtype == MOE_REF_F32 || x->dtype == MOE_REF_BF16);
}

/* Whether `scales` are those of x, and all is there that groups need. */
static bool are_scales(const moe_ref_tensor_t *scales, const moe_ref_tensor_t *x,
                       const moe_ref_fp8_scaling_t *scaling) {
  int64_t shape[MOE_REF_MAX_RANK];
  const int rank = moe_ref_fp8_scale_shape(x, scaling, shape);
  return rank > 0 && moe__ref_is_tensor(scales) && scales->dtype == MOE_REF_F32 &&
         scales->rank == rank && memcmp(scales->shape, shape, (size_t)rank * sizeof *shape) == 0 &&
         (scaling->offs == NULL || moe__ref_is_offsets(scaling->offs));
}

/* Whether q can be x quantized; its scales have been checked. */
static bool is_low(const moe_ref_tensor_t *q, const moe_ref_tensor_t *x,
                   const moe_ref_fp8_scaling_t *scaling) {
  if (!moe__ref_is_tensor(q) || !moe__ref_is_fp8(q->dtype) || q->rank != x->rank)
    return false;
  int64_t rows = x->shape[0];
  if (scaling->aligned)
    rows = moe_ref_aligned_rows(rows, scaling->offs->shape[0]);
  return q->shape[0] == rows &&
         memcmp(q->shape + 1, x->shape + 1, (size_t)(x->rank - 1) * sizeof *x->shape) == 0;
}

static bool can_cast(const moe_ref_tensor_t *x, const moe_ref_fp8_scaling_t *scaling,
                     const moe_ref_tensor_t *q, const moe_ref_tensor_t *scales) {
  return is_high(x) && are_scales(scales, x, scaling) && is_low(q, x, scaling);
}

/* ---- Public functions ---- */

moe_ref_status_t moe_ref_fp8_scale(const moe_ref_tensor_t *x, const moe_ref_fp8_scaling_t *scaling,
                                   moe_ref_dtype_t element, const moe_ref_tensor_t *scales,
                                   const moe_ref_tensor_t *factors) {
  if (!is_high(x) || !moe__ref_is_fp8(element) || !are_scales(scales, x, scaling) ||
      !are_scales(factors, x, scaling))
    return MOE_REF_INVALID_ARGUMENT;
  find_amax(x, scaling, scales);
  finish_scales(x, scaling, element, scales, factors);
  return MOE_REF_OK;
}

moe_ref_status_t moe_ref_fp8_cast(const moe_ref_tensor_t *x, const moe_ref_tensor_t *factors,
                                  const moe_ref_fp8_scaling_t *scaling, const moe_ref_tensor_t *q) {
  if (!can_cast(x, scaling, q, factors))
    return MOE_REF_INVALID_ARGUMENT;
  rescale(x, scaling, scaling->sanitize, factors, false, q);
  return MOE_REF_OK;
}

moe_ref_status_t moe_ref_fp8_quantize(const moe_ref_tensor_t *x,
                                      const moe_ref_fp8_scaling_t *scaling,
                                      const moe_ref_tensor_t *q, const moe_ref_tensor_t *scales) {
  if (!can_cast(x, scaling, q, scales))
    return MOE_REF_INVALID_ARGUMENT;
  /* The amax of a slice waits where its scale will be. */
  find_amax(x, scaling, scales);
  rescale(x, scaling, scaling->sanitize, scales, true, q);
  finish_scales(x, scaling, q->dtype, scales, NULL);
  return MOE_REF_OK;
}

moe_ref_status_t moe_ref_fp8_dequantize(const moe_ref_tensor_t *q, const moe_ref_tensor_t *scales,
                                        const moe_ref_fp8_scaling_t *scaling,
                                        const moe_ref_tensor_t *x) {
  if (scaling == NULL || scaling->aligned || !can_cast(x, scaling, q, scales))
    return MOE_REF_INVALID_ARGUMENT;
  rescale(q, scaling, false, scales, false, x);
  return MOE_REF_OK;
}
