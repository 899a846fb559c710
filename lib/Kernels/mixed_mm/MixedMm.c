/* MixedMm.c - the kernel of scaled_grouped_mm.mixed_mm: four-bit weights times tokens of 16 bits.
 * Schedule.c chooses its schedule.
 *
 * Rows of weights are the rows of the tensor core's tiles, tokens their columns, so that few tokens
 * waste little. The weights are its first operand and come from registers, where four bits become
 * 16; the tokens are its second one and come from shared memory.
 *
 * - One thread loads. For each k-tile it waits until a stage is free, and fetches by TMA the
 *   weights, their scales and zero points, and the tokens.
 * - Each warpgroup multiplies 64 rows of weights with all tokens of the tile (Multiply.c); or each
 *   warp 16 rows, and maybe a part of their columns (Panels.c).
 * - Where there are fewer tiles than multiprocessors, the CTAs of a cluster divide the columns of
 *   the weights (Store.c).
 * - With experts a table of their tokens is made from the offsets, in shared memory, by one warp.
 *
 * A tile that reaches past the end of its expert's tokens multiplies those of the next one and
 * drops them: a token depends on nothing but itself.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/mixed_mm/MixedMm.h"

#include "lib/Builder/Inspect.h"
#include "lib/Device/Tiles.h"
#include "lib/Dialect/Shapes.h"
#include "lib/Kernels/Kernels.h"
#include "lib/Kernels/Requirements.h"

#include "mlir-c/BuiltinTypes.h"

/* The numbers of a group, if there are some. */
static bool is_side_by_side(MlirOperation op, moe__role_t role) {
  MlirValue value = moe__operand(op, role);
  if (mlirValueIsNull(value) || moe__is_column_major(mlirValueGetType(value)))
    return true;
  return moe__error(op,
                    "the kernel takes the %s of a group side by side; give '%s' the encoding "
                    "affine_map<%s>",
                    moe__role_name(role), moe__role_name(role),
                    mlirShapedTypeGetRank(mlirValueGetType(value)) == 2 ? "(n, j) -> (j, n)"
                                                                        : "(e, n, j) -> (e, j, n)");
}

static bool has_kernel(MlirOperation op) {
  if (moe__has_fp8_weights(op) && moe__has_plain_weights(op))
    return moe__error(op, "the kernel takes weights of f8E4M3FN in layout \"1x16\": the columns of "
                          "each 16 in the order 0, 8, 1, 9 ... 7, 15; or tokens in layout "
                          "\"evens_first\"");
  if (moe__has_fp8_weights(op) && !mlirTypeIsABF16(moe__element_type(op, MOE__X)))
    return moe__error(op, "the kernel takes bf16 tokens with weights of f8E4M3FN");
  if (moe__has_plain_weights(op))
    return moe__error(op, "the kernel takes packed weights; moe-expand-recipes packs them, or "
                          "scaled_grouped_mm.pack_weights, whose value 'layout' has then");
  if (moe__mixed_has_scales_of_rows(op)) {
    MlirType scales = moe__tensor_type(op, MOE__SCALES);
    if (!moe__needs_multiple_of_16(op, MOE__SCALES, (int)mlirShapedTypeGetRank(scales) - 1))
      return false;
  } else if (!is_side_by_side(op, MOE__SCALES) || !is_side_by_side(op, MOE__ZEROS)) {
    return false;
  }
  MlirValue bias = moe__operand(op, MOE__BIAS);
  return (moe__is_row_major(moe__tensor_type(op, MOE__W)) &&
          moe__is_row_major(moe__tensor_type(op, MOE__X)) &&
          (mlirValueIsNull(bias) || moe__is_row_major(mlirValueGetType(bias))) &&
          moe__is_row_major(moe__tensor_type(op, MOE__OUT))) ||
         moe__error(
             op,
             "the kernel takes all tensors but scales and zeros row-major; remove their encoding");
}

/* ---- Parameters ---- */

static const moe__expression_t *product_of(moe__mixed_mm_t *s, const moe__expression_t *x,
                                           int64_t y) {
  moe__record_t *record = &s->kernel.record;
  return moe__expression_mul(record, MOE__EXPRESSIONS(x, moe__expression_constant(record, y)));
}

/* Adds the dimension of experts, where there are some, behind matrices of so many bytes. */
static void add_experts(moe__mixed_mm_t *s, moe__tensor_map_t *map,
                        const moe__expression_t *matrix_bytes) {
  if (s->experts.size == 1 && mlirValueIsNull(s->offs))
    return;
  map->dims[map->rank] = s->experts.expression;
  map->strides[map->rank - 1] = matrix_bytes;
  map->box[map->rank++] = 1;
}

/* Rows of bytes, of which a box has 128 each. */
static MlirValue add_rows(moe__mixed_mm_t *s, MlirOperation op) {
  moe__tensor_map_t map = {.tensor = moe__tensor_number(op, MOE__W),
                           .element = MOE__MAP_U8,
                           .rank = 2,
                           .dims = {s->depth.expression, s->rows.expression},
                           .strides = {s->depth.expression},
                           .box = {MOE__MIXED_LINE, moe__mixed_box_rows(&s->schedule)},
                           .swizzle = MOE__SWIZZLE_128B};
  add_experts(s, &map,
              moe__expression_mul(&s->kernel.record,
                                  MOE__EXPRESSIONS(s->rows.expression, s->depth.expression)));
  return moe__kernel_tensor_map(&s->kernel, &map);
}

static MlirValue add_weights(moe__mixed_mm_t *s, MlirOperation op) {
  if (s->format == MOE__WEIGHT_E4M3)
    return add_rows(s, op);
  moe__record_t *record = &s->kernel.record;
  const moe__expression_t *chunks =
      moe__expression_ceildiv(record, s->depth.expression, MOE_WEIGHT_COLUMNS);
  const moe__expression_t *panels =
      moe__expression_ceildiv(record, s->rows.expression, MOE_WEIGHT_ROWS);
  const moe__expression_t *panel = product_of(s, chunks, MOE_WEIGHT_BYTES);
  moe__tensor_map_t map = {
      .tensor = moe__tensor_number(op, MOE__W),
      .element = MOE__MAP_F32,
      .rank = 3,
      .dims = {moe__expression_constant(record, MOE_WEIGHT_BYTES / 4), chunks, panels},
      .strides = {moe__expression_constant(record, MOE_WEIGHT_BYTES), panel},
      .box = {MOE_WEIGHT_BYTES / 4, s->schedule.depth / MOE_WEIGHT_COLUMNS,
              moe__mixed_box_rows(&s->schedule) / MOE_WEIGHT_ROWS}};
  add_experts(s, &map, moe__expression_mul(record, MOE__EXPRESSIONS(panels, panel)));
  return moe__kernel_tensor_map(&s->kernel, &map);
}

/* A number for each row and group, side by side for a group: scales, or zero points. */
static MlirValue add_numbers(moe__mixed_mm_t *s, MlirOperation op, moe__role_t role, int bytes) {
  moe__record_t *record = &s->kernel.record;
  const moe__expression_t *groups =
      s->group ? moe__expression_ceildiv(record, s->depth.expression, s->group)
               : moe__expression_constant(record, 1);
  const moe__expression_t *row = product_of(s, s->rows.expression, bytes);
  moe__tensor_map_t map = {.tensor = moe__tensor_number(op, role),
                           .element = bytes == 4   ? MOE__MAP_F32
                                      : bytes == 2 ? MOE__MAP_BF16
                                                   : MOE__MAP_U8,
                           .rank = 2,
                           .dims = {s->rows.expression, groups},
                           .strides = {row},
                           .box = {moe__mixed_box_rows(&s->schedule),
                                   moe__mixed_scales_of_stage(s->group, s->schedule.depth)}};
  add_experts(s, &map, moe__expression_mul(record, MOE__EXPRESSIONS(groups, row)));
  return moe__kernel_tensor_map(&s->kernel, &map);
}

/* Scales of E8M0 of a row side by side: a box has 16 of each row, those of a k-tile among them. */
static MlirValue add_scales_of_rows(moe__mixed_mm_t *s, MlirOperation op) {
  moe__record_t *record = &s->kernel.record;
  int number = moe__tensor_number(op, MOE__SCALES);
  const moe__expression_t *groups = moe__expression_ceildiv(record, s->depth.expression, s->group);
  moe__tensor_map_t map = {.tensor = number,
                           .element = MOE__MAP_U8,
                           .rank = 2,
                           .dims = {groups, s->rows.expression},
                           .strides = {groups},
                           .box = {MOE__MIXED_ROW_SCALES, moe__mixed_rows(&s->schedule)}};
  add_experts(s, &map, moe__expression_mul(record, MOE__EXPRESSIONS(s->rows.expression, groups)));
  moe__kernel_require(&s->kernel, number,
                      (int)mlirShapedTypeGetRank(moe__tensor_type(op, MOE__SCALES)) - 1,
                      MOE__MULTIPLE_OF, MOE__MIXED_ROW_SCALES);
  return moe__kernel_tensor_map(&s->kernel, &map);
}

/* Tokens that are loaded at once: of the narrowest tile, or those that the CTAs of a cluster
 * divide. */
static int box_tokens(const moe__mixed_mm_t *s) {
  return (s->schedule.tile_n >> (s->schedule.widths - 1)) / s->schedule.share;
}

static MlirValue add_tokens(moe__mixed_mm_t *s, MlirOperation op) {
  moe__tensor_map_t map = {.tensor = moe__tensor_number(op, MOE__X),
                           .element = MOE__MAP_BF16,
                           .rank = 2,
                           .dims = {s->depth.expression, s->tokens.expression},
                           .strides = {product_of(s, s->depth.expression, 2)},
                           .box = {MOE_WEIGHT_COLUMNS, box_tokens(s)},
                           .swizzle = MOE__SWIZZLE_128B};
  return moe__kernel_tensor_map(&s->kernel, &map);
}

static void add_parameters(moe__mixed_mm_t *s, MlirOperation op) {
  moe__kernel_t *kernel = &s->kernel;
  MlirType scales = moe__tensor_type(op, MOE__SCALES), x = moe__tensor_type(op, MOE__X);
  int scales_number = moe__tensor_number(op, MOE__SCALES),
      x_number = moe__tensor_number(op, MOE__X);
  int rank = (int)mlirShapedTypeGetRank(scales), offs = moe__tensor_number(op, MOE__OFFS);
  s->experts = rank == 3 ? moe__kernel_extent(kernel, scales_number, 0, scales)
                         : moe__kernel_constant_extent(kernel, 1);
  s->rows = moe__kernel_extent(kernel, scales_number, rank - 2, scales);
  s->tokens = moe__kernel_extent(kernel, x_number, 0, x);
  s->depth = moe__kernel_extent(kernel, x_number, 1, x);
  if (rank == 3) {
    s->offs = moe__kernel_pointer(kernel, offs);
    s->status = moe__kernel_status(kernel);
    moe__require_groups(kernel, offs);
  }
  if (s->schedule.direct)
    s->w = moe__kernel_pointer(kernel, moe__tensor_number(op, MOE__W));
  else
    s->w_map = add_weights(s, op);
  s->scale_map = s->layout.scales_of_rows
                     ? add_scales_of_rows(s, op)
                     : add_numbers(s, op, MOE__SCALES, moe__mixed_scale_bytes(s->scale_type));
  if (!mlirValueIsNull(moe__operand(op, MOE__ZEROS)))
    s->zero_map = add_numbers(s, op, MOE__ZEROS, 1);
  s->x_map = add_tokens(s, op);
  if (!mlirValueIsNull(moe__operand(op, MOE__BIAS)))
    s->bias = moe__kernel_pointer(kernel, moe__tensor_number(op, MOE__BIAS));
  s->out = moe__kernel_pointer(kernel, moe__tensor_number(op, MOE__OUT));
  if (s->schedule.spread)
    moe__mixed_spread_parameters(s);
  moe__require_shapes(kernel, op);
  moe__kernel_require(kernel, scales_number, rank - 2, MOE__MULTIPLE_OF, MOE_WEIGHT_ROWS);
  moe__kernel_require(kernel, x_number, 1, MOE__AT_LEAST,
                      s->schedule.common ? 2 * s->schedule.depth : MOE_MX_BLOCK);
  moe__kernel_require(kernel, x_number, 1, MOE__MULTIPLE_OF, s->group ? s->group : MOE_MX_BLOCK);
  if (s->group)
    moe__kernel_require_quotient(kernel, scales_number, rank - 1, x_number, 1, s->group, -1);
}

/* ---- Tiles ---- */

/* Of all CTAs of a cluster that does not divide the columns. */
static int tile_rows(const moe__mixed_mm_t *s) {
  return moe__mixed_tile_rows(&s->schedule);
}

/* Of those of a cluster, the first rows that are a CTA's own. */
static int own_rows(const moe__mixed_mm_t *s) {
  int rows = moe__mixed_rows(&s->schedule);
  return s->schedule.common ? rows - MOE__WGMMA_M : rows;
}

static MlirValue row_tiles(moe__mixed_mm_t *s) {
  return moe__ceil_div(&s->kernel.builder, s->rows.value, tile_rows(s));
}

static MlirValue tile_count(moe__mixed_mm_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  if (!mlirValueIsNull(s->offs))
    return moe__groups_total(&s->groups);
  return moe__mul(b, moe__ceil_div(b, s->tokens.value, s->schedule.tile_n), row_tiles(s));
}

/* The first row of this CTA in row tile `index`. */
static MlirValue first_row(moe__mixed_mm_t *s, MlirValue index) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue row = moe__mul(b, index, tile_rows(s));
  if (s->schedule.share == 1 && !s->schedule.common)
    return row;
  return moe__add(b, row, moe__mul(b, s->kernel.cluster_rank, own_rows(s)));
}

#define ALL_TOKENS 4096 /* a band that has all */

/* Tiles of the same weights come one after another. */
static moe__mixed_tile_t tile_at(moe__mixed_mm_t *s, MlirValue index) {
  moe__builder_t *b = &s->kernel.builder;
  if (!mlirValueIsNull(s->offs)) {
    moe__group_tile_t tile = moe__groups_tile(&s->groups, index);
    return (moe__mixed_tile_t){.expert = tile.group,
                               .row = first_row(s, tile.column),
                               .token = tile.row,
                               .token_end = tile.row_end};
  }
  MlirValue across = moe__ceil_div(b, s->tokens.value, s->schedule.tile_n);
  if (s->schedule.band < ALL_TOKENS) {
    MlirValue of_band = moe__mul(b, row_tiles(s), s->schedule.band);
    MlirValue band = moe__udiv(b, index, of_band), within = moe__urem(b, index, of_band);
    MlirValue before = moe__mul(b, band, s->schedule.band);
    MlirValue width = moe__umin(b, moe__sub(b, across, before), s->schedule.band);
    MlirValue token = moe__add(b, before, moe__urem(b, within, width));
    return (moe__mixed_tile_t){.expert = moe__i32(b, 0),
                               .row = first_row(s, moe__udiv(b, within, width)),
                               .token = moe__mul(b, token, s->schedule.tile_n),
                               .token_end = s->tokens.value};
  }
  return (moe__mixed_tile_t){.expert = moe__i32(b, 0),
                             .row = first_row(s, moe__udiv(b, index, across)),
                             .token = moe__mul(b, moe__urem(b, index, across), s->schedule.tile_n),
                             .token_end = s->tokens.value};
}

static moe__mixed_reduction_t reduction_of(moe__mixed_mm_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue all = moe__ceil_div(b, s->depth.value, s->schedule.depth);
  if (s->schedule.split == 1)
    return (moe__mixed_reduction_t){moe__i32(b, 0), all};
  MlirValue rank = s->kernel.cluster_rank;
  MlirValue first = moe__udiv(b, moe__mul(b, all, rank), s->schedule.split);
  MlirValue end = moe__udiv(b, moe__mul(b, all, moe__add(b, rank, 1)), s->schedule.split);
  /* Who has none takes one behind the last, which is all zeros: warps need not ask. */
  MlirValue has_none = moe__eq(b, first, end);
  return (moe__mixed_reduction_t){moe__select(b, has_none, all, first),
                                  moe__umax(b, moe__sub(b, end, first), 1)};
}

/* Of the columns of the rows that two CTAs have in common: k-tiles that this one begins with. */
static MlirValue common_count(moe__mixed_mm_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue all = moe__ceil_div(b, s->depth.value, s->schedule.depth);
  return moe__lshr(b, moe__add(b, all, s->kernel.cluster_rank), 1);
}

/* Between two tiles: the sums of the one before have been read. */
static void end_tile(moe__mixed_mm_t *s, MlirValue index, MlirValue total, bool multiplies) {
  moe__builder_t *b = &s->kernel.builder;
  if (!moe__mixed_meets(&s->schedule) && (s->schedule.slices == 1 || !multiplies))
    return;
  MOE__IF (b, moe__ult(b, moe__add(b, index, moe__tiles_step(&s->kernel)), total)) {
    if (moe__mixed_meets(&s->schedule))
      moe__cluster_barrier(b);
    else
      moe__mixed_slices_barrier(s);
  }
}

/* ---- The warp, or warpgroup, that loads: one thread does ---- */

/* Loads a tile's tokens, from `column` on, to `to`; of those that the CTAs of a cluster share, each
 * loads a part, for all. */
static void load_tokens(moe__mixed_mm_t *s, MlirValue token, MlirValue column, MlirValue to,
                        MlirValue landed) {
  moe__builder_t *b = &s->kernel.builder;
  if (s->schedule.share == 1) {
    moe__tma_load(b, s->x_map, to, landed, 2, (MlirValue[]){column, token});
    return;
  }
  MlirValue part = moe__mul(b, s->kernel.cluster_rank, s->schedule.tile_n / s->schedule.share);
  MlirValue all = moe__trunc(b, moe__i32(b, (1 << s->schedule.share) - 1), b->i16);
  moe__tma_load_multicast(b, s->x_map,
                          moe__offset(b, to, moe__mul(b, part, MOE__MIXED_CHUNK_BYTES)), landed, 2,
                          (MlirValue[]){column, moe__add(b, token, part)}, all);
}

/* Loads the weights of a k-tile to `to`. */
static void load_weights(moe__mixed_mm_t *s, const moe__mixed_tile_t *tile, MlirValue index,
                         MlirValue to, MlirValue landed) {
  moe__builder_t *b = &s->kernel.builder;
  bool experts = !mlirValueIsNull(s->offs);
  if (s->format != MOE__WEIGHT_E4M3) {
    moe__tma_load(b, s->w_map, to, landed, experts ? 4 : 3,
                  (MlirValue[]){moe__i32(b, 0),
                                moe__mul(b, index, s->schedule.depth / MOE_WEIGHT_COLUMNS),
                                moe__lshr(b, tile->row, 4), tile->expert});
    return;
  }
  MlirValue column = moe__mul(b, index, s->schedule.depth);
  for (int i = 0; i < s->schedule.depth; i += MOE__MIXED_LINE)
    moe__tma_load(b, s->w_map, moe__offset_by(b, to, i * moe__mixed_rows(&s->schedule)), landed,
                  experts ? 3 : 2, (MlirValue[]){moe__add(b, column, i), tile->row, tile->expert});
}

/* Which numbers of a row the first ones of a stage are. */
static MlirValue number_at(moe__mixed_mm_t *s, MlirValue index) {
  moe__builder_t *b = &s->kernel.builder;
  if (!s->group)
    return moe__i32(b, 0);
  if (s->group > s->schedule.depth)
    return moe__udiv(b, index, s->group / s->schedule.depth);
  return moe__mul(b, index, s->schedule.depth / s->group);
}

/* From the weights of one warpgroup to those of the next, in a stage or in a line of it. */
static int weight_bytes(const moe__mixed_mm_t *s) {
  int chunks = s->schedule.depth / MOE_WEIGHT_COLUMNS;
  return s->format == MOE__WEIGHT_E4M3 ? MOE__WGMMA_M * MOE__MIXED_LINE
                                       : chunks * MOE__MIXED_WARPS * MOE_WEIGHT_BYTES;
}

/* The weights and scales of a stage where two CTAs have rows in common: of each warpgroup by
 * itself, of those rows if `common`. */
static void load_rows(moe__mixed_mm_t *s, const moe__mixed_tile_t *tile, MlirValue index,
                      MlirValue common, MlirValue buffer, MlirValue landed) {
  moe__builder_t *b = &s->kernel.builder;
  int last = s->schedule.warpgroups - 1;
  int bytes = moe__mixed_scale_bytes(s->scale_type) *
              moe__mixed_scales_of_stage(s->group, s->schedule.depth);
  MlirValue other = moe__mul(b, s->kernel.cluster_rank, own_rows(s));
  for (int w = 0; w <= last; w++) {
    MlirValue row = moe__add(b, tile->row, w * MOE__WGMMA_M);
    if (w == last)
      row = moe__sub(b, moe__add(b, row, own_rows(s)), other);
    MlirValue numbers = moe__offset_by(b, buffer, s->layout.scales + w * MOE__WGMMA_M * bytes);
    moe__mixed_tile_t rows = {.expert = tile->expert, .row = row};
    MlirValue from[] = {row, number_at(s, index)};
    MlirValue to = moe__offset_by(b, buffer, s->layout.weights + w * weight_bytes(s));
    if (w < last) {
      load_weights(s, &rows, index, to, landed);
      moe__tma_load(b, s->scale_map, numbers, landed, 2, from);
      continue;
    }
    MOE__IF (b, common) {
      load_weights(s, &rows, index, to, landed);
      moe__tma_load(b, s->scale_map, numbers, landed, 2, from);
    }
  }
}

/* What a stage has of a tile. */
typedef struct k_tile_t {
  MlirValue index;  /* i32 */
  MlirValue common; /* i1: also rows that two CTAs have in common; null: there are none */
  MlirValue boxes;  /* of tokens, i32; null: one */
} k_tile_t;

/* The tokens of 64 columns, from `column` on. */
static void load_chunk(moe__mixed_mm_t *s, const moe__mixed_tile_t *tile, MlirValue boxes,
                       MlirValue column, MlirValue to, MlirValue landed) {
  moe__builder_t *b = &s->kernel.builder;
  load_tokens(s, tile->token, column, to, landed);
  for (int i = 1; i < 1 << (s->schedule.widths - 1); i++)
    MOE__IF (b, moe__ult(b, moe__i32(b, i), boxes)) {
      int more = i * box_tokens(s);
      load_tokens(s, moe__add(b, tile->token, more), column,
                  moe__offset_by(b, to, more * MOE__MIXED_CHUNK_BYTES), landed);
    }
}

static void load_k_tile(moe__mixed_mm_t *s, const moe__mixed_tile_t *tile, k_tile_t k_tile,
                        moe__cursor_t cursor) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  const moe__mixed_schedule_t *schedule = &s->schedule;
  const moe__mixed_layout_t *l = &s->layout;
  int chunks = schedule->depth / MOE_WEIGHT_COLUMNS;
  MlirValue index = k_tile.index, bytes = moe__i32(b, l->landing);
  int of_tokens = chunks * schedule->tile_n * MOE__MIXED_CHUNK_BYTES;
  if (schedule->common) {
    int of_rows = (l->landing - of_tokens) / schedule->warpgroups;
    bytes = moe__select(b, k_tile.common, bytes, moe__i32(b, l->landing - of_rows));
  }
  if (schedule->widths > 1)
    bytes = moe__add(b, moe__mul(b, k_tile.boxes, of_tokens >> (schedule->widths - 1)),
                     l->landing - of_tokens);
  MlirValue landed = moe__ring_acquire(kernel, &l->ring, cursor, bytes);
  MlirValue buffer = moe__ring_buffer(kernel, &l->ring, cursor);
  bool experts = !mlirValueIsNull(s->offs);
  if (s->schedule.common)
    load_rows(s, tile, index, k_tile.common, buffer, landed);
  else if (!schedule->direct)
    load_weights(s, tile, index, moe__offset_by(b, buffer, l->weights), landed);
  MlirValue numbers[] = {tile->row, number_at(s, index), tile->expert};
  MlirValue of_rows[] = {moe__and(b, numbers[1], -MOE__MIXED_ROW_SCALES), tile->row, tile->expert};
  if (!s->schedule.common)
    moe__tma_load(b, s->scale_map, moe__offset_by(b, buffer, l->scales), landed, experts ? 3 : 2,
                  l->scales_of_rows ? of_rows : numbers);
  if (!mlirValueIsNull(s->zero_map))
    moe__tma_load(b, s->zero_map, moe__offset_by(b, buffer, l->zeros), landed, experts ? 3 : 2,
                  numbers);
  MlirValue column = moe__mul(b, index, schedule->depth);
  for (int i = 0; i < chunks; i++)
    load_chunk(s, tile, k_tile.boxes, moe__add(b, column, i * MOE_WEIGHT_COLUMNS),
               moe__offset_by(b, buffer, i * schedule->tile_n * MOE__MIXED_CHUNK_BYTES), landed);
}

/* Boxes of tokens of a tile: as many as its width has (i32). */
static MlirValue boxes_of(moe__mixed_mm_t *s, const moe__mixed_tile_t *tile) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue count = moe__sub(b, tile->token_end, tile->token), boxes = moe__i32(b, 1);
  for (int w = 1; w < s->schedule.widths; w++)
    boxes = moe__select(b, moe__ult(b, moe__i32(b, box_tokens(s) << (w - 1)), count),
                        moe__i32(b, 1 << w), boxes);
  return boxes;
}

/* Loads the k-tiles of a tile from number `from` to `to` of this CTA's. */
static void load_k_tiles(moe__mixed_mm_t *s, const moe__mixed_tile_t *tile,
                         const moe__mixed_reduction_t *reduction, MlirValue from, MlirValue to,
                         moe__cursor_t cursor) {
  moe__builder_t *b = &s->kernel.builder;
  /* LLVM unrolls a loop whose count it knows, which takes registers that are not left here. */
  if (moe__mixed_is_tight(&s->schedule))
    to = moe__fresh(b, to);
  MlirValue boxes = {NULL};
  if (s->schedule.widths > 1)
    boxes = boxes_of(s, tile);
  MOE__FOR (b, k_tile, from, to, 1, MOE__CARRY_CURSOR(cursor)) {
    k_tile_t loaded = {moe__add(b, reduction->first, k_tile), {NULL}, boxes};
    if (s->schedule.common) { /* the second CTA begins in the middle */
      MlirValue half = moe__lshr(b, reduction->count, 1);
      MlirValue at = moe__add(b, k_tile, moe__mul(b, s->kernel.cluster_rank, half));
      loaded.index =
          moe__select(b, moe__ult(b, at, reduction->count), at, moe__sub(b, at, reduction->count));
      loaded.common = moe__ult(b, k_tile, common_count(s));
    }
    load_k_tile(s, tile, loaded, cursor);
    cursor = moe__cursor_next(b, &s->layout.ring, cursor);
  }
}

/* In a cluster that divides columns the first loads are issued while its CTAs come together; but
 * experts' tiles are known behind that. */
static bool loads_early(const moe__mixed_mm_t *s) {
  return mlirValueIsNull(s->offs) && moe__mixed_meets(&s->schedule);
}

/* How many k-tiles of the first tile are on their way then. */
static MlirValue early_count(moe__mixed_mm_t *s, const moe__mixed_reduction_t *reduction) {
  moe__builder_t *b = &s->kernel.builder;
  if (!loads_early(s))
    return moe__i32(b, 0);
  return moe__umin(b, reduction->count, s->schedule.stages);
}

static void load_early(moe__mixed_mm_t *s) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue first = moe__tiles_first(&s->kernel);
  moe__mixed_reduction_t reduction = reduction_of(s);
  MOE__IF (b, moe__ult(b, first, tile_count(s))) {
    moe__mixed_tile_t tile = tile_at(s, first);
    load_k_tiles(s, &tile, &reduction, moe__i32(b, 0), early_count(s, &reduction),
                 moe__cursor_start(b));
  }
}

/* The same of the shares of this CTA, with spread. */
static void load_shares(moe__mixed_mm_t *s, MlirValue loads) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  moe__cursor_t cursor = moe__cursor_start(b);
  MlirValue tiles = tile_count(s);
  MOE__FOR (b, index, 0, moe__mixed_share_count(s, tiles), 1, MOE__CARRY_CURSOR(cursor)) {
    moe__mixed_share_t share = moe__mixed_share(s, tiles, index);
    moe__mixed_tile_t tile = tile_at(s, share.tile);
    MOE__IF (b, loads) {
      load_k_tiles(s, &tile, &share.reduction, moe__i32(b, 0), share.reduction.count, cursor);
    }
    cursor = moe__cursor_advance(b, &s->layout.ring, cursor, share.reduction.count);
  }
}

static void load_tiles(moe__mixed_mm_t *s, MlirValue loads) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  moe__mixed_reduction_t reduction = reduction_of(s);
  moe__cursor_t cursor = moe__cursor_start(b);
  MlirValue total = tile_count(s), done = early_count(s, &reduction);
  MOE__FOR (b, index, moe__tiles_first(kernel), total, moe__tiles_step(kernel),
            MOE__CARRY_CURSOR(cursor), &done) {
    moe__mixed_tile_t tile = tile_at(s, index);
    MOE__IF (b, loads) {
      load_k_tiles(s, &tile, &reduction, done, reduction.count,
                   moe__cursor_advance(b, &s->layout.ring, cursor, done));
    }
    done = moe__i32(b, 0);
    cursor = moe__cursor_advance(b, &s->layout.ring, cursor, reduction.count);
    if (moe__mixed_meets(&s->schedule)) {
      moe__warp_barrier(b);
      moe__cluster_barrier(b); /* that of moe__mixed_store */
    }
    end_tile(s, index, total, false);
  }
}

/* ---- The warps that multiply ---- */

static moe__mixed_position_t position_of(moe__mixed_mm_t *s, MlirValue thread) {
  moe__builder_t *b = &s->kernel.builder;
  moe__mixed_position_t self = {.panel = moe__lshr(b, thread, 5),
                                .lane = moe__and(b, thread, MOE__WARP - 1)};
  if (s->schedule.slices > 1) {
    self.slice = moe__udiv(b, self.panel, s->schedule.panels);
    self.panel = moe__urem(b, self.panel, s->schedule.panels);
  }
  return self;
}

/* The sums over some k-tiles; tile: with direct, whose weights the warp loads. */
static void multiply(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                     const moe__mixed_reduction_t *reduction, const moe__mixed_tile_t *tile,
                     moe__cursor_t cursor, moe__mixed_fragment_t sums) {
  if (s->schedule.panels)
    moe__mixed_multiply_panel(s, self, reduction, tile, cursor, sums);
  else
    moe__mixed_multiply(s, self, reduction, cursor, sums);
}

/* The products and the results of tile `index`, over the k-tiles of the warp's; of s->n tokens. */
static void multiply_tile(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                          const moe__mixed_reduction_t *own, MlirValue index,
                          moe__cursor_t cursor) {
  moe__builder_t *b = &s->kernel.builder;
  moe__mixed_fragment_t sums;
  moe__mixed_tile_t of_weights;
  if (s->schedule.direct)
    of_weights = tile_at(s, index);
  multiply(s, self, own, s->schedule.direct ? &of_weights : NULL, cursor, sums);
  if (s->schedule.common) {
    MlirValue rest = moe__sub(b, moe__ceil_div(b, s->depth.value, s->schedule.depth), own->count);
    moe__mixed_pass(s, self, rest, moe__cursor_advance(b, &s->layout.ring, cursor, own->count));
  }
  /* Asked for here, where it is needed: so it takes no registers before. */
  moe__mixed_tile_t tile = tile_at(s, moe__fresh(b, index));
  moe__mixed_position_t same = *self;
  if (moe__mixed_is_tight(&s->schedule))
    same = position_of(s, moe__fresh(b, s->kernel.thread));
  moe__mixed_store(s, &same, &tile, sums);
}

/* The same of a tile of so many tokens (i32), as narrow as they allow: of the tile's tokens shifted
 * right by `width`, or by less. */
static void multiply_by_width(moe__mixed_mm_t *s, const moe__mixed_position_t *self,
                              const moe__mixed_reduction_t *own, MlirValue index,
                              moe__cursor_t cursor, MlirValue tokens, int width) {
  moe__builder_t *b = &s->kernel.builder;
  if (width == 0) {
    multiply_tile(s, self, own, index, cursor);
    return;
  }
  MOE__IF (b, moe__ult(b, tokens, (s->schedule.tile_n >> width) + 1)) {
    s->n = s->schedule.tile_n >> width;
    multiply_tile(s, self, own, index, cursor);
    s->n = s->schedule.tile_n;
  }
  MOE__ELSE (b) {
    multiply_by_width(s, self, own, index, cursor, tokens, width - 1);
  }
}

static void multiply_tiles(moe__mixed_mm_t *s) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  moe__mixed_position_t self = position_of(s, kernel->thread);
  moe__mixed_reduction_t reduction = reduction_of(s);
  moe__cursor_t cursor = moe__cursor_start(b);
  MlirValue total = moe__warp_uniform(b, tile_count(s));
  reduction.count = moe__warp_uniform(b, reduction.count);
  moe__mixed_reduction_t own = reduction;
  if (s->schedule.common) {
    MlirValue is_common = moe__mixed_is_common(s, &self);
    own.count = moe__warp_uniform(b, moe__select(b, is_common, common_count(s), reduction.count));
  }
  MOE__FOR (b, index, moe__tiles_first(kernel), total, moe__tiles_step(kernel),
            MOE__CARRY_CURSOR(cursor)) {
    if (s->schedule.widths > 1) {
      moe__mixed_tile_t tile = tile_at(s, index);
      MlirValue tokens = moe__warp_uniform(b, moe__sub(b, tile.token_end, tile.token));
      multiply_by_width(s, &self, &own, index, cursor, tokens, s->schedule.widths - 1);
    } else {
      multiply_tile(s, &self, &own, index, cursor);
    }
    cursor = moe__cursor_advance(b, &s->layout.ring, cursor, reduction.count);
    end_tile(s, index, total, true);
  }
}

/* The same of the shares of this CTA, with spread. */
static void multiply_shares(moe__mixed_mm_t *s) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  moe__mixed_position_t self = position_of(s, kernel->thread);
  moe__cursor_t cursor = moe__cursor_start(b);
  MlirValue tiles = tile_count(s);
  MlirValue count = moe__warp_uniform(b, moe__mixed_share_count(s, tiles));
  MOE__FOR (b, index, 0, count, 1, MOE__CARRY_CURSOR(cursor)) {
    moe__mixed_reduction_t reduction = moe__mixed_share(s, tiles, index).reduction;
    reduction.count = moe__warp_uniform(b, reduction.count);
    moe__mixed_fragment_t sums;
    multiply(s, &self, &reduction, NULL, cursor, sums);
    /* Asked for here, where it is needed: so it takes no registers before. */
    moe__mixed_share_t share = moe__mixed_share(s, tiles, moe__fresh(b, index));
    MlirValue owns = moe__mixed_meet(s, &self, tiles, &share, sums);
    MOE__IF (b, owns) {
      moe__mixed_tile_t tile = tile_at(s, share.tile);
      moe__mixed_store(s, &self, &tile, sums);
    }
    cursor = moe__cursor_advance(b, &s->layout.ring, cursor, reduction.count);
  }
}

/* ---- The kernel ---- */

/* No more CTAs than tiles, where each token may be a tile of its own with experts. */
static const moe__expression_t *grid_expression(moe__mixed_mm_t *s) {
  moe__record_t *record = &s->kernel.record;
  const moe__expression_t *rows = moe__expression_ceildiv(record, s->rows.expression, tile_rows(s));
  const moe__expression_t *tokens = s->tokens.expression;
  if (mlirValueIsNull(s->offs))
    tokens = moe__expression_ceildiv(record, tokens, s->schedule.tile_n);
  const moe__expression_t *tiles = moe__expression_mul(record, MOE__EXPRESSIONS(tokens, rows));
  if (s->schedule.spread)
    tiles = moe__expression_mul(
        record, MOE__EXPRESSIONS(tiles, moe__expression_ceildiv(record, s->depth.expression,
                                                                s->schedule.depth)));
  return s->kernel.cluster_size > 1
             ? moe__expression_persistent_clusters(record, tiles, s->kernel.cluster_size)
             : moe__expression_persistent(record, tiles, s->schedule.ctas_per_sm);
}

static void initialize(moe__mixed_mm_t *s, MlirValue loads) {
  moe__kernel_t *kernel = &s->kernel;
  moe__builder_t *b = &kernel->builder;
  MOE__IF (b, loads) {
    if (!s->schedule.direct)
      moe__tma_prefetch_map(b, s->w_map);
    moe__tma_prefetch_map(b, s->scale_map);
    moe__tma_prefetch_map(b, s->x_map);
    if (!mlirValueIsNull(s->zero_map))
      moe__tma_prefetch_map(b, s->zero_map);
    moe__ring_initialize(kernel, &s->layout.ring,
                         moe__mixed_warps(&s->schedule) * s->schedule.share);
  }
  if (!mlirValueIsNull(s->offs)) {
    s->groups = moe__groups_create(kernel, &s->layout.groups, s->experts.value, s->schedule.tile_n,
                                   row_tiles(s), s->schedule.band);
    s->groups.at_once = true; /* with few tokens the start counts */
    MOE__IF (b, moe__ult(b, kernel->thread, MOE__WARP)) {
      moe__groups_initialize(&s->groups, s->offs, s->tokens.value, kernel->thread, s->status);
    }
  }
  moe__warp_barrier(b);
  if (kernel->cluster_size == 1) {
    moe__cta_barrier(b);
    return;
  }
  /* Behind it every CTA of the cluster has begun, so that the others may reach it. */
  moe__cluster_arrive(b);
  if (loads_early(s)) {
    MOE__IF (b, loads) {
      load_early(s);
    }
    moe__warp_barrier(b);
  }
  moe__cluster_wait(b);
}

static bool lower(const moe__lowering_t *lowering) {
  MlirOperation op = lowering->op;
  const moe__mixed_schedule_t *schedule = lowering->schedule;
  const moe__mixed_layout_t *layout = lowering->layout;
  moe__mixed_mm_t s = {.schedule = *schedule,
                       .layout = *layout,
                       .format = moe__mixed_format(op),
                       .n = schedule->tile_n,
                       .group = moe__mixed_group(op),
                       .x_type = moe__element_type(op, MOE__X),
                       .scale_type = moe__element_type(op, MOE__SCALES),
                       .out_type = moe__element_type(op, MOE__OUT)};
  moe__kernel_t *kernel = &s.kernel;
  moe__builder_t *b = &kernel->builder;
  moe__lowering_begin(lowering, kernel);
  add_parameters(&s, op);
  moe__kernel_cluster(kernel, s.schedule.common ? 2 : s.schedule.split * s.schedule.share);
  moe__kernel_prologue(kernel);
  moe__kernel_await_launches(kernel);
  MlirValue loader = moe__i32(b, moe__mixed_warps(&s.schedule) * MOE__WARP);
  MlirValue loads = moe__eq(b, kernel->thread, loader);
  initialize(&s, loads);
  MOE__IF (b, moe__ult(b, kernel->thread, loader)) {
    if (layout->divides)
      moe__registers_increase(b, layout->registers);
    if (s.schedule.spread)
      multiply_shares(&s);
    else
      multiply_tiles(&s);
  }
  MOE__ELSE (b) {
    if (layout->divides)
      moe__registers_decrease(b, layout->loader_registers);
    if (s.schedule.spread)
      load_shares(&s, loads);
    else
      load_tiles(&s, loads);
  }
  if (s.schedule.share > 1) { /* no CTA ends while another may still reach it */
    moe__warp_barrier(b);
    moe__cluster_barrier(b);
  }
  moe__lowering_end(lowering, kernel, grid_expression(&s));
  return true;
}

const moe__kernel_definition_t moe__mixed_mm_kernel = {
    .ops = {MOE__OP_MIXED_MM, MOE__OP_MIXED_MM_ZEROS, MOE__OP_MIXED_MM_BIAS,
            MOE__OP_MIXED_MM_ZEROS_BIAS},
    .has_kernel = has_kernel,
    .schedule = &moe__mixed_schedule,
    .candidates = moe__mixed_candidates,
    .layout_size = sizeof(moe__mixed_layout_t),
    .layout = moe__mixed_lay_out,
    .lower = lower,
};
