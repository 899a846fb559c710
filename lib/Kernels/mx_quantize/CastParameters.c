/* CastParameters.c - the pipeline of CastTiles.h as a launch sees it: its schedule, its shared
 * memory, its tensor maps and its grid.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Kernels/mx_quantize/CastParts.h"

#include "moe/limits.h"

#include "lib/Builder/Inspect.h"
#include "lib/Kernels/Requirements.h"

#include "mlir-c/BuiltinTypes.h"

/* ---- Sizes ---- */

int moe__cast_box_k(const moe__cast_tiles_t *tiles) {
  return MOE__CAST_ROW_BYTES / tiles->elements.bytes;
}

int moe__cast_boxes(const moe__cast_tiles_t *tiles) {
  return tiles->schedule.tile_k / moe__cast_box_k(tiles);
}

int32_t moe__cast_tile_elements(const moe__cast_tiles_t *tiles) {
  return tiles->schedule.tile_n * tiles->schedule.tile_k;
}

int moe__cast_units(const moe__cast_schedule_t *schedule, int element_bytes) {
  return schedule->tile_n * schedule->tile_k * element_bytes / MOE__CAST_UNIT_BYTES /
         schedule->warps;
}

bool moe__cast_goes_on(const moe__cast_schedule_t *schedule) {
  return schedule->stages > 1;
}

int moe__cast_run(const moe__cast_tiles_t *tiles) {
  return tiles->layout.run ? tiles->layout.run : 1;
}

/* ---- The schedule ---- */

MOE__SCHEDULE_KIND(
    moe__cast_schedule, moe__cast_schedule_t, MOE__CAST_SCHEDULE, "tiles",
    "quantize along the dimension before the last, quantize_dual, quantize_fp8 in FP8 "
    "blocks along it, quantize_fp8_dual in FP8 blocks, cast_fp8, cast_fp8_dual, "
    "cast_fp8_pair");

#define MAX_BOX 256 /* rows and columns of a box of a tensor map */

/* Whether the tile can be cut into strips that the warps share. */
static bool check_schedule(MlirOperation op, const moe__cast_schedule_t *schedule,
                           const bool writes[2], int element_bytes) {
  int width = MOE__CAST_ROW_BYTES / element_bytes,
      height = writes[MOE__COLUMNS] ? MOE__CAST_ROW_BYTES : MOE__CAST_STRIP_ROWS;
  if (schedule->tile_n % height)
    return moe__error(op, "'schedule.tile_n' is %d; it must be a multiple of %d", schedule->tile_n,
                      height);
  if (writes[MOE__COLUMNS] && schedule->tile_k > MAX_BOX)
    return moe__error(op,
                      "'schedule.tile_k' is %d; with a column-major result it must be at most %d",
                      schedule->tile_k, MAX_BOX);
  if (schedule->tile_k % width)
    return moe__error(op, "'schedule.tile_k' is %d; it must be a multiple of %d", schedule->tile_k,
                      width);
  int strips = schedule->tile_n / MOE__CAST_STRIP_ROWS * (schedule->tile_k / width);
  if (strips % schedule->warps)
    return moe__error(
        op, "'schedule.warps' is %d; it must divide the tile's %d strips of 32 rows and 128 bytes",
        schedule->warps, strips);
  return strips / schedule->warps <= MOE__MAX_UNITS ||
         moe__error(op,
                    "'schedule.warps' is %d; a warp may have at most %d of the tile's %d strips",
                    schedule->warps, MOE__MAX_UNITS, strips);
}

int moe__cast_held(const moe__cast_schedule_t *schedule, int element_bytes) {
  return moe__cast_units(schedule, element_bytes) * MOE__CAST_UNIT_BYTES / MOE__WARP /
         element_bytes / 4;
}

/* Whether the output tiles are as many as are needed. by_group: tiles share lines of results with
 * the one above. */
static bool check_turns(MlirOperation op, const moe__cast_schedule_t *schedule,
                        const bool writes[2], int element_bytes, bool by_group) {
  bool both = writes[MOE__ROWS] && writes[MOE__COLUMNS];
  if (both && schedule->output_stages != 1)
    return moe__error(op,
                      "'schedule.output_stages' is %d; it must be 1 where both results are "
                      "written, which take turns",
                      schedule->output_stages);
  if (!both && by_group && schedule->output_stages != 2)
    return moe__error(op,
                      "'schedule.output_stages' is %d; it must be 2 where tiles begin with their "
                      "group: what lies above a tile is written with it",
                      schedule->output_stages);
  int held = both && by_group ? moe__cast_held(schedule, element_bytes) : 0;
  if (held > MOE__CAST_HELD)
    return moe__error(op,
                      "'schedule' has tiles of %d x %d for %d warps; of tokens in groups a thread "
                      "keeps %d words of lines then, and may keep %d",
                      schedule->tile_n, schedule->tile_k, schedule->warps, held, MOE__CAST_HELD);
  if (by_group && !moe__cast_goes_on(schedule))
    return moe__error(op,
                      "'schedule.stages' is %d; it must be 2 or more where CTAs take segments "
                      "of tiles",
                      schedule->stages);
  int cluster = schedule->cluster;
  if (cluster > 1 && (!moe__is(op, MOE__OP_QUANTIZE_DUAL) || moe__cast_goes_on(schedule)))
    return moe__error(op,
                      "'schedule.cluster' is %d; it must be 1 where schedule.stages is not 1, and "
                      "in all ops but mx_quantize.quantize_dual",
                      cluster);
  if (cluster & (cluster - 1))
    return moe__error(op, "'schedule.cluster' is %d; it must be a power of two", cluster);
  return by_group || schedule->segment == 1 ||
         moe__error(op,
                    "'schedule.segment' is %d; it must be 1 where no blocks of tokens are counted "
                    "from the start of a group, and where groups are aligned",
                    schedule->segment);
}

bool moe__cast_layout(MlirOperation op, const moe__cast_schedule_t *schedule, const bool writes[2],
                      int element_bytes, int max_groups, bool by_group, moe__cast_layout_t *out) {
  if (!check_schedule(op, schedule, writes, element_bytes) ||
      !check_turns(op, schedule, writes, element_bytes, by_group && !moe__group_align(op)))
    return false;
  int32_t elements = schedule->tile_n * schedule->tile_k;
  /* A CTA that ends has nothing to load while it casts. */
  bool goes_on = moe__cast_goes_on(schedule);
  out->cta.threads = (schedule->warps + goes_on) * MOE__WARP;
  out->cta.ctas_per_sm = schedule->ctas_per_sm;
  int32_t output_bytes = schedule->output_stages * elements, output = -1;
  for (int direction = 0; direction < 2; direction++)
    if (writes[direction]) {
      if (output < 0 || goes_on)
        output = moe__layout_shared(&out->cta, output_bytes, 1024);
      out->outputs[direction] = output;
    }
  out->ring = moe__ring_reserve(&out->cta, schedule->stages, elements * element_bytes);
  /* Where groups are aligned, no one looks into their table once a tile has its place. */
  moe__layout_t inside = {.shared_bytes = output};
  out->groups = moe__groups_reserve(&inside, max_groups, MOE__GROUPS_IN_TURN);
  out->is_table_in_output =
      !goes_on && moe__group_align(op) && inside.shared_bytes <= output + output_bytes;
  if (!out->is_table_in_output)
    out->groups = moe__groups_reserve(&out->cta, max_groups, MOE__GROUPS_IN_TURN);
  return true;
}

/* ---- Parameters ---- */

/* A map of tensor number `number`, of the shape of `tensor`, over rows x columns of each batch,
 * in the order of memory. */
static MlirValue add_map(moe__cast_tiles_t *tiles, const moe__cast_tensor_t *tensor, int number,
                         moe__map_element_t element, int bytes, const moe__extent_t *rows,
                         const moe__extent_t *columns, int box_rows, int box_columns) {
  static const moe__swizzle_t swizzles[] = {MOE__SWIZZLE_32B, MOE__SWIZZLE_64B, MOE__SWIZZLE_128B};
  moe__record_t *record = &tiles->kernel->record;
  const moe__expression_t *n = tiles->n.expression, *k = tensor->k.expression,
                          *size = moe__expression_constant(record, bytes),
                          *row = columns->expression;
  if (bytes != 1)
    row = moe__expression_mul(record, MOE__EXPRESSIONS(row, size));
  return moe__kernel_tensor_map(
      tiles->kernel,
      &(moe__tensor_map_t){
          .tensor = number,
          .element = element,
          .rank = tiles->rank,
          .dims = {columns->expression, rows->expression, tiles->batches.expression},
          .strides = {row, moe__expression_mul(record, bytes == 1 ? 2 : 3,
                                               (const moe__expression_t *[]){n, k, size})},
          .box = {moe__expression_constant(record, box_columns),
                  moe__expression_constant(record, box_rows), moe__expression_constant(record, 1)},
          .swizzle = swizzles[box_columns * bytes / 64],
      });
}

static void add_maps(moe__cast_tiles_t *tiles, moe__cast_tensor_t *tensor, int number) {
  const moe__extent_t *n = &tiles->n, *k = &tensor->k;
  int bytes = tiles->elements.bytes, tile_n = tiles->schedule.tile_n;
  tensor->x_map = add_map(tiles, tensor, number, bytes == 2 ? MOE__MAP_BF16 : MOE__MAP_F32, bytes,
                          n, k, tile_n, moe__cast_box_k(tiles));
  if (tiles->writes[MOE__ROWS])
    tensor->maps[MOE__ROWS] = add_map(tiles, tensor, tensor->q[MOE__ROWS], MOE__MAP_U8, 1, n, k,
                                      tile_n, moe__cast_panel(tiles));
  if (tiles->writes[MOE__COLUMNS])
    tensor->maps[MOE__COLUMNS] =
        add_map(tiles, tensor, tensor->q[MOE__COLUMNS], MOE__MAP_U8, 1, k, &tiles->written_n,
                tiles->schedule.tile_k, MOE__CAST_ROW_BYTES);
}

/* n as results along tokens have it where groups are aligned: with room for each of `groups`. */
static moe__extent_t aligned(moe__kernel_t *kernel, const moe__extent_t *n,
                             const moe__extent_t *groups) {
  moe__builder_t *b = &kernel->builder;
  moe__record_t *record = &kernel->record;
  if (n->size >= 0 && groups->size >= 0)
    return moe__kernel_constant_extent(
        kernel,
        MOE_GROUP_ALIGN * ((n->size + MOE_GROUP_ALIGN - 1) / MOE_GROUP_ALIGN + groups->size));
  const moe__expression_t *tiles = moe__expression_add(
      record, MOE__EXPRESSIONS(moe__expression_ceildiv(record, n->expression, MOE_GROUP_ALIGN),
                               groups->expression));
  return (moe__extent_t){
      .size = -1,
      .value = moe__mul(b, moe__add(b, moe__ceil_div(b, n->value, MOE_GROUP_ALIGN), groups->value),
                        MOE_GROUP_ALIGN),
      .expression = moe__expression_mul(
          record, MOE__EXPRESSIONS(tiles, moe__expression_constant(record, MOE_GROUP_ALIGN))),
  };
}

/* n, rounded up as results along tokens are. */
static moe__extent_t rounded_up(moe__kernel_t *kernel, const moe__extent_t *n) {
  if (n->size >= 0)
    return moe__kernel_constant_extent(kernel, (n->size + MOE_TOKEN_MULTIPLE - 1) /
                                                   MOE_TOKEN_MULTIPLE * MOE_TOKEN_MULTIPLE);
  moe__builder_t *b = &kernel->builder;
  moe__record_t *record = &kernel->record;
  const moe__expression_t *multiple = moe__expression_constant(record, MOE_TOKEN_MULTIPLE),
                          *quotient =
                              moe__expression_ceildiv(record, n->expression, MOE_TOKEN_MULTIPLE);
  return (moe__extent_t){
      .size = -1,
      .value = moe__mul(b, moe__ceil_div(b, n->value, MOE_TOKEN_MULTIPLE), MOE_TOKEN_MULTIPLE),
      .expression = moe__expression_mul(record, MOE__EXPRESSIONS(quotient, multiple)),
  };
}

void moe__cast_tiles_parameters(moe__cast_tiles_t *tiles, MlirType q_type) {
  moe__kernel_t *kernel = tiles->kernel;
  MlirType x_type = tiles->tensors[0].type;
  tiles->elements = moe__elements_of(x_type, tiles->elements.sanitize);
  tiles->element = moe__fp8_of(q_type);
  tiles->rank = (int)mlirShapedTypeGetRank(x_type);
  /* Extents come first: the tensor maps are written in terms of them. Their parameters do too. */
  int last = tiles->rank - 1;
  if (tiles->rank == 3)
    tiles->batches = moe__kernel_extent(kernel, 0, 0, x_type);
  else
    tiles->batches = moe__kernel_constant_extent(kernel, 1);
  tiles->n = moe__kernel_extent(kernel, 0, last - 1, x_type);
  tiles->written_n = tiles->aligned     ? aligned(kernel, &tiles->n, &tiles->groups)
                     : tiles->pads_rows ? rounded_up(kernel, &tiles->n)
                                        : tiles->n;
  for (int i = 0; i < tiles->tensor_count; i++)
    tiles->tensors[i].k = moe__kernel_extent(kernel, i, last, tiles->tensors[i].type);
  for (int i = 0; i < tiles->tensor_count; i++)
    add_maps(tiles, &tiles->tensors[i], i);
}

void moe__cast_tiles_aligned(moe__cast_tiles_t *tiles, int offs, MlirType offs_type) {
  tiles->by_group = tiles->aligned = true;
  tiles->groups = moe__kernel_extent(tiles->kernel, offs, 0, offs_type);
}

void moe__cast_tiles_groups(moe__cast_tiles_t *tiles, int offs, MlirType offs_type) {
  moe__kernel_t *kernel = tiles->kernel;
  tiles->grouped = true;
  if (!tiles->aligned)
    tiles->groups = moe__kernel_extent(kernel, offs, 0, offs_type);
  moe__require_groups(kernel, offs);
  tiles->offs = moe__kernel_pointer(kernel, offs);
  tiles->status = moe__kernel_status(kernel);
  for (int i = 0; i < tiles->tensor_count; i++) {
    moe__cast_tensor_t *tensor = &tiles->tensors[i];
    for (int direction = 0; direction < 2; direction++)
      if (tiles->writes[direction])
        tensor->pointers[direction] = moe__kernel_pointer(kernel, tensor->q[direction]);
  }
}

const moe__expression_t *moe__cast_tiles_grid(moe__cast_tiles_t *tiles) {
  moe__record_t *record = &tiles->kernel->record;
  const moe__expression_t *columns[MOE__CAST_MAX_TENSORS];
  for (int i = 0; i < tiles->tensor_count; i++)
    columns[i] = moe__expression_ceildiv(record, tiles->tensors[i].k.expression,
                                         (int64_t)moe__cast_run(tiles) * tiles->schedule.tile_k);
  const moe__expression_t *rows =
      moe__expression_ceildiv(record, tiles->n.expression, tiles->schedule.tile_n);
  if (tiles->by_group) { /* each group may have a tile that is not full; none is empty */
    rows = moe__expression_add(record, MOE__EXPRESSIONS(rows, tiles->groups.expression));
    rows = moe__expression_min(record, rows, tiles->n.expression);
  }
  const moe__expression_t *all_columns =
      tiles->tensor_count == 1 ? columns[0]
                               : moe__expression_add(record, tiles->tensor_count, columns);
  const moe__expression_t *total =
      moe__expression_mul(record, MOE__EXPRESSIONS(tiles->batches.expression, rows, all_columns));
  int cluster = tiles->schedule.cluster;
  if (cluster > 1)
    return moe__expression_mul(record,
                               MOE__EXPRESSIONS(total, moe__expression_constant(record, cluster)));
  return moe__expression_ctas(record, total, moe__cast_goes_on(&tiles->schedule),
                              tiles->schedule.ctas_per_sm);
}
