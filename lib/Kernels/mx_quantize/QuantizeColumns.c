/* QuantizeColumns.c - the kernels of FP8 blocks along the dimension before the last, and along
 * both of the last dimensions from one read.
 *
 * Why kernels of their own: a product reads FP8 with the reduction innermost, so that what sums
 * over tokens, or over rows of weights, has to be transposed. Here every byte moves once, by the
 * pipeline of CastTiles.h. A tile has 128 rows, as an FP8 block has, and all of its scales follow
 * from what is in it.
 *
 * - Blocks of 128x128: a tile is one. The largest magnitudes of the strips meet in shared memory.
 * - Blocks of 1x128 along the rows of a column: a tile has one for each column. The strips that lie
 *   below one another put their maxima of each column into shared memory.
 * - Blocks of 1x128 along a row, in a dual op: the lanes that have the pieces of a row exchange
 *   theirs.
 *
 * Blocks of tokens in groups are counted from the start of each group, and so are the tiles. Where
 * groups are aligned, the rows behind the end of one are zeros.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Builder/Inspect.h"
#include "lib/Device/Warp.h"
#include "lib/Kernels/Requirements.h"
#include "lib/Kernels/mx_quantize/CastKernel.h"

#include "mlir-c/BuiltinTypes.h"

#define STRIP_ROWS 32
#define STRIPS (MOE_FP8_BLOCK / STRIP_ROWS) /* of a tile, below one another */

typedef struct columns_t {
  moe__kernel_t kernel;
  moe__cast_tiles_t tiles;
  bool square; /* FP8 blocks are 128x128, else 1x128 */
  bool pow2;
  MlirValue scales[2]; /* by direction */
} columns_t;

/* ---- What units have in common ---- */

/* Where the unit's maxima lie in shared memory: of the lane's columns, those of strip number
 * `strip` (i32); or of squares, those of unit number `number` of the tile. */
static MlirValue slot_of_columns(columns_t *s, const moe__cast_unit_t *unit, MlirValue strip) {
  moe__builder_t *b = &s->kernel.builder;
  int per_word = s->tiles.elements.per_word;
  MlirValue index = moe__add(b, moe__mul(b, strip, s->tiles.schedule.tile_k / per_word),
                             moe__udiv(b, unit->tile_column, per_word));
  return moe__offset_by(b, moe__offset(b, s->kernel.shared, moe__shl(b, index, 2)),
                        s->tiles.layout.staging);
}

static MlirValue slot_of_unit(columns_t *s, MlirValue number) {
  moe__builder_t *b = &s->kernel.builder;
  return moe__offset_by(b, moe__offset(b, s->kernel.shared, moe__shl(b, number, 2)),
                        s->tiles.layout.staging);
}

static MlirValue larger(columns_t *s, const MlirValue *words, int count) {
  moe__builder_t *b = &s->kernel.builder;
  const moe__elements_t *elements = &s->tiles.elements;
  if (!elements->sanitize)
    return moe__words_amax(b, elements, words, count);
  MlirValue amax = moe__word_magnitudes(b, elements, words[0]);
  for (int i = 1; i < count; i++)
    amax = moe__word_max(b, elements, amax, moe__word_magnitudes(b, elements, words[i]));
  return amax;
}

/* The maxima of the lane's columns over those rows of its strip that are of the group. */
static MlirValue larger_of_group(columns_t *s, const moe__cast_unit_t *unit,
                                 const MlirValue words[MOE__CAST_WORDS]) {
  MlirValue own[MOE__CAST_WORDS];
  moe__cast_words_of_group(&s->tiles, unit, words, own);
  return larger(s, own, MOE__CAST_WORDS);
}

static void find(void *user, const moe__cast_unit_t *unit, const MlirValue words[MOE__CAST_WORDS]) {
  columns_t *s = user;
  moe__builder_t *b = &s->kernel.builder;
  MlirValue amax = larger(s, words, MOE__CAST_WORDS);
  if (s->square) {
    amax = moe__warp_reduce(b, moe__word_amax(b, &s->tiles.elements, amax), moe__umax);
    MlirValue number = moe__add(b, s->tiles.warp, unit->index * s->tiles.schedule.warps);
    MOE__IF (b, moe__eq(b, s->tiles.lane, 0)) {
      moe__store(b, amax, slot_of_unit(s, number));
    }
    return;
  }
  if (s->tiles.by_group) {
    MlirValue strip_end = moe__add(b, unit->row, STRIP_ROWS);
    MlirValue is_cut = moe__zext(b, moe__ult(b, unit->row_end, strip_end), b->i32);
    MOE__FOR (b, once, 0, is_cut, 1, &amax) {
      (void)once;
      amax = larger_of_group(s, unit, words);
    }
  }
  moe__store(b, amax, slot_of_columns(s, unit, moe__udiv(b, unit->tile_row, STRIP_ROWS)));
}

/* ---- Scales ---- */

static MlirValue factor_of(columns_t *s, MlirValue amax) {
  return moe__fp8_factor(&s->kernel.builder, amax, s->tiles.element, s->pow2);
}

/* Address of the scale that moe__cast_scale_number counts. */
static MlirValue scale_address(columns_t *s, const moe__cast_unit_t *unit, MlirValue rows,
                               MlirValue columns, MlirValue row, MlirValue column) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue index = moe__cast_scale_number(&s->tiles, unit, rows, columns, row, column);
  return moe__offset(b, s->scales[unit->direction], moe__shl(b, index, 2));
}

static MlirValue blocks_of(columns_t *s, MlirValue size) {
  return moe__ceil_div(&s->kernel.builder, size, MOE_FP8_BLOCK);
}

/* Of the tile that the unit is in: which row of the scales is that of its FP8 blocks. */
static MlirValue row_of_scales(columns_t *s, const moe__cast_unit_t *unit) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue first = moe__sub(b, unit->row, unit->tile_row);
  if (!s->tiles.by_group)
    return moe__lshr(b, first, 7);
  if (s->tiles.aligned)
    return moe__lshr(b, unit->written_row, 7);
  MlirValue start, end;
  moe__groups_range(&s->tiles.table, unit->group, &start, &end);
  MlirValue of_group = moe__add(b, moe__lshr(b, start, 7), unit->group);
  return moe__add(b, of_group, moe__lshr(b, moe__sub(b, first, start), 7));
}

/* The lane's columns: their factors, and their scales stored by the lanes of the first strip. */
static void factors_of_columns(columns_t *s, const moe__cast_unit_t *unit, MlirValue factors[2]) {
  moe__builder_t *b = &s->kernel.builder;
  int count = s->tiles.elements.per_word;
  MlirValue amax = moe__load(b, slot_of_columns(s, unit, moe__i32(b, 0)), b->i32);
  for (int i = 1; i < STRIPS; i++)
    amax = moe__word_max(b, &s->tiles.elements, amax,
                         moe__load(b, slot_of_columns(s, unit, moe__i32(b, i)), b->i32));
  for (int i = 0; i < count; i++)
    factors[i] = factor_of(s, moe__word_magnitude(b, &s->tiles.elements, amax, i));
  MlirValue columns = s->tiles.tensors[0].k.value, is_first = moe__eq(b, unit->tile_row, 0);
  /* K is a multiple of 16: the two columns of a lane are both inside or both outside. */
  MOE__IF (b, moe__and(b, is_first, moe__ult(b, unit->column, columns))) {
    MlirValue inverses[2] = {{NULL}};
    for (int i = 0; i < count; i++)
      inverses[i] = moe__fp8_inverse(b, factors[i]);
    moe__store(b, count == 1 ? inverses[0] : moe__vector(b, count, inverses),
               scale_address(s, unit, blocks_of(s, s->tiles.n.value), columns,
                             row_of_scales(s, unit), unit->column));
  }
}

/* The row that the lane has a piece of: its factor; the scale is stored by the lane that has the
 * first piece, among those of the rows next to it. */
static MlirValue factor_of_row(columns_t *s, const moe__cast_unit_t *unit, const MlirValue *words) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue amax = moe__word_amax(b, &s->tiles.elements, larger(s, words, MOE__CAST_WORDS));
  int height = MOE__WARP / moe__cast_pieces(&s->tiles);
  for (int distance = height; distance < MOE__WARP; distance *= 2)
    amax = moe__umax(b, amax, moe__shuffle_xor(b, amax, distance));
  MlirValue factor = factor_of(s, amax);
  MlirValue columns = s->tiles.tensors[0].k.value, rows = s->tiles.n.value;
  MlirValue row_end = s->tiles.by_group ? unit->row_end : rows;
  MlirValue is_inside =
      moe__and(b, moe__ult(b, unit->row, row_end), moe__ult(b, unit->column, columns));
  MOE__IF (b, moe__and(b, is_inside, moe__ult(b, s->tiles.lane, height))) {
    /* Rows lie side by side. */
    moe__store(b, moe__fp8_inverse(b, factor),
               scale_address(s, unit, blocks_of(s, columns), rows, moe__lshr(b, unit->column, 7),
                             unit->row));
  }
  return factor;
}

/* The tile's: one factor, and one scale, which one lane stores. */
static MlirValue factor_of_square(columns_t *s, const moe__cast_unit_t *unit) {
  moe__builder_t *b = &s->kernel.builder;
  int units = moe__cast_units(&s->tiles.schedule, s->tiles.elements.bytes);
  MlirValue amax = moe__load(b, slot_of_unit(s, moe__i32(b, 0)), b->i32);
  for (int i = 1; i < units * s->tiles.schedule.warps; i++)
    amax = moe__umax(b, amax, moe__load(b, slot_of_unit(s, moe__i32(b, i)), b->i32));
  MlirValue factor = factor_of(s, amax);
  if (unit->index > 0)
    return factor;
  MOE__IF (b, moe__eq(b, s->kernel.thread, 0)) {
    MlirValue tile_column = moe__sub(b, unit->column, unit->tile_column);
    moe__store(b, moe__fp8_inverse(b, factor),
               scale_address(s, unit, blocks_of(s, s->tiles.n.value),
                             blocks_of(s, s->tiles.tensors[0].k.value), row_of_scales(s, unit),
                             moe__lshr(b, tile_column, 7)));
  }
  return factor;
}

/* ---- Casting ---- */

/* Four elements, which are number `first` and on of the lane's words of one part: of all elements
 * of the words, those of columns that are `step` apart. */
static MlirValue cast_four(columns_t *s, const MlirValue *words, int first, int step,
                           MlirValue factor) {
  moe__builder_t *b = &s->kernel.builder;
  const moe__elements_t *elements = &s->tiles.elements;
  MlirValue scaled[4];
  for (int i = 0; i < 4; i++) {
    int element = first + i * step;
    scaled[i] = moe__fmul(b,
                          moe__word_element(b, elements, words[element / elements->per_word],
                                            element % elements->per_word),
                          factor);
  }
  return moe__fp8_pack4(b, scaled, s->tiles.element);
}

static void cast_unit(void *user, const moe__cast_unit_t *unit,
                      const MlirValue words[MOE__CAST_WORDS]) {
  columns_t *s = user;
  int per_word = s->tiles.elements.per_word;
  MlirValue factors[2] = {{NULL}}, packed[MOE__CAST_WORDS / 2];
  if (s->square)
    factors[0] = factors[1] = factor_of_square(s, unit);
  else if (unit->direction == MOE__ROWS)
    factors[0] = factor_of_row(s, unit, words);
  else
    factors_of_columns(s, unit, factors);
  if (unit->direction == MOE__ROWS) {
    for (int i = 0; i < MOE__CAST_WORDS * per_word / 4; i++)
      packed[i] = cast_four(s, words, 4 * i, 1, factors[0]);
    moe__cast_store(&s->tiles, unit, 0, packed);
    return;
  }
  for (int column = 0; column < per_word; column++) {
    for (int i = 0; i < MOE__CAST_WORDS / 4; i++)
      packed[i] = cast_four(s, words, 4 * i * per_word + column, per_word, factors[column]);
    moe__cast_store(&s->tiles, unit, column, packed);
  }
}

/* ---- The kernels ---- */

static bool is_dual(MlirOperation op) {
  return moe__is(op, MOE__OP_QUANTIZE_FP8_DUAL);
}

static bool is_square(MlirOperation op) {
  return moe__op_granularity(op) == MOE__128X128;
}

static bool takes(MlirOperation op) {
  moe__granularity_t granularity = moe__op_granularity(op);
  return (granularity == MOE__1X128 || granularity == MOE__128X128) &&
         (is_dual(op) || moe__op_integer(op, "axis") == moe__tensor_rank(op, MOE__X) - 2);
}

static bool has_dual_kernel(MlirOperation op) {
  MlirType scales = moe__tensor_type(op, MOE__SCALES);
  if (!moe__needs_one_fp8(op, MOE__Q_T, MOE__OP_QUANTIZE_FP8))
    return false;
  if (!is_square(op) && !moe__is_column_major(scales))
    return moe__error(op,
                      "the kernel writes 'scales' of 1x128 with the rows side by side; give them "
                      "the encoding affine_map<%s>",
                      moe__tensor_rank(op, MOE__X) == 2 ? "(m, k) -> (k, m)"
                                                        : "(e, m, k) -> (e, k, m)");
  return (!is_square(op) || moe__needs_row_major(op, MOE__SCALES)) &&
         moe__needs_row_major(op, MOE__Q) && moe__needs_column_major(op, MOE__Q_T) &&
         moe__needs_row_major(op, MOE__SCALES_T);
}

static bool has_kernel(MlirOperation op) {
  int last = moe__tensor_rank(op, MOE__X) - 1;
  return moe__needs_row_major(op, MOE__X) &&
         (is_dual(op)
              ? has_dual_kernel(op)
              : moe__needs_column_major(op, MOE__Q) && moe__needs_row_major(op, MOE__SCALES)) &&
         moe__needs_multiple_of_16(op, MOE__X, last) &&
         (moe__is_grouped(op) || moe__needs_multiple_of_16(op, MOE__X, last - 1));
}

static void add_parameters(columns_t *s, MlirOperation op) {
  moe__kernel_t *kernel = &s->kernel;
  int x = moe__tensor_number(op, MOE__X), last = moe__tensor_rank(op, MOE__X) - 1;
  moe__cast_kernel_quantizer(&s->tiles, op, s->scales);
  moe__kernel_require(kernel, x, last, MOE__MULTIPLE_OF, MOE__CAST_MULTIPLE);
  if (!moe__is_grouped(op))
    moe__kernel_require(kernel, x, last - 1, MOE__MULTIPLE_OF, MOE__CAST_MULTIPLE);
}

/* ---- Schedules ---- */

static const moe__cast_schedule_t COLUMNS_BF16[] = {
    {.tile_n = 128, .tile_k = 128, .output_stages = 2, .band = 1024},
    {.tile_n = 128, .tile_k = 128, .output_stages = 2, .band = 64},
    {.tile_n = 128, .tile_k = 128, .stages = 5, .output_stages = 2, .ctas_per_sm = 1, .band = 1024},
    {.tile_n = 128, .tile_k = 128, .output_stages = 2},
};
/* The same and others, where a tile may have the scales of more columns. */
static const moe__cast_schedule_t TOKENS_BF16[] = {
    {.tile_n = 128, .tile_k = 128, .output_stages = 2, .band = 1024},
    {.tile_n = 128, .tile_k = 128, .output_stages = 2, .band = 64},
    {.tile_n = 128, .tile_k = 128, .stages = 5, .output_stages = 2, .ctas_per_sm = 1, .band = 1024},
    {.tile_n = 128, .tile_k = 256, .output_stages = 2, .warps = 16, .ctas_per_sm = 1, .band = 1024},
    {.tile_n = 128,
     .tile_k = 64,
     .stages = 3,
     .output_stages = 2,
     .warps = 4,
     .ctas_per_sm = 3,
     .band = 1024},
    {.tile_n = 128, .tile_k = 64, .output_stages = 1, .warps = 4, .ctas_per_sm = 4, .band = 1024},
};
/* Tokens in groups: two output tiles, of which one has what lies above. */
static const moe__cast_schedule_t GROUPS_BF16[] = {
    {.tile_n = 128, .tile_k = 128, .output_stages = 2, .segment = 16},
    {.tile_n = 128, .tile_k = 128, .output_stages = 2, .segment = 8},
    {.tile_n = 128, .tile_k = 128, .output_stages = 2, .segment = 32},
    {.tile_n = 128,
     .tile_k = 256,
     .output_stages = 2,
     .warps = 16,
     .ctas_per_sm = 1,
     .segment = 16},
};
static const moe__cast_schedule_t GROUPS_F32[] = {
    {.tile_n = 128,
     .tile_k = 128,
     .output_stages = 2,
     .warps = 16,
     .ctas_per_sm = 1,
     .segment = 16},
    {.tile_n = 128, .tile_k = 128, .output_stages = 2, .warps = 16, .ctas_per_sm = 1, .segment = 8},
    {.tile_n = 128, .tile_k = 64, .output_stages = 2, .segment = 16},
};
static const moe__cast_schedule_t COLUMNS_F32[] = {
    {.tile_n = 128, .tile_k = 128, .output_stages = 2, .warps = 16, .ctas_per_sm = 1, .band = 1024},
    {.tile_n = 128, .tile_k = 128, .output_stages = 2, .warps = 16, .ctas_per_sm = 1, .band = 64},
    {.tile_n = 128, .tile_k = 128, .output_stages = 2, .warps = 16, .ctas_per_sm = 1},
};
/* Four CTAs that end fill shared memory: 48 KB each. */
static const moe__cast_schedule_t BOTH_BF16[] = {
    {.tile_n = 128, .tile_k = 128, .stages = 1, .warps = 4, .ctas_per_sm = 4},
    {.tile_n = 128, .tile_k = 128, .stages = 1, .ctas_per_sm = 3},
    {.tile_n = 128, .tile_k = 128},
    {.tile_n = 128, .tile_k = 128, .band = 16},
    {.tile_n = 128, .tile_k = 128, .band = 1024},
    {.tile_n = 128, .tile_k = 128, .stages = 4, .ctas_per_sm = 1, .band = 16},
};
static const moe__cast_schedule_t BOTH_F32[] = {
    {.tile_n = 128, .tile_k = 128, .warps = 16, .ctas_per_sm = 1},
    {.tile_n = 128, .tile_k = 128, .warps = 16, .ctas_per_sm = 1, .band = 16},
    {.tile_n = 128, .tile_k = 128, .warps = 16, .ctas_per_sm = 1, .band = 1024},
};

static const moe__cast_schedule_t GROUPS_BOTH_BF16[] = {
    {.tile_n = 128, .tile_k = 128, .segment = 32},
    {.tile_n = 128, .tile_k = 128, .segment = 16},
    {.tile_n = 128, .tile_k = 128, .segment = 64},
};
static const moe__cast_schedule_t BOTH_FEW_WARPS[] = {
    {.tile_n = 128, .tile_k = 128, .ctas_per_sm = 1},
    {.tile_n = 128, .tile_k = 128, .ctas_per_sm = 1, .band = 16},
    {.tile_n = 128, .tile_k = 128, .ctas_per_sm = 1, .band = 1024},
};
static const moe__cast_schedule_t GROUPS_BOTH_FEW_WARPS[] = {
    {.tile_n = 128, .tile_k = 128, .ctas_per_sm = 1, .segment = 16},
    {.tile_n = 128, .tile_k = 128, .ctas_per_sm = 1, .segment = 8},
    {.tile_n = 128, .tile_k = 128, .ctas_per_sm = 1, .segment = 32},
};

/* To sanitize bf16 a thread needs more registers than 9 warps leave it. */
static const moe__cast_schedule_t GROUPS_BOTH_SANITIZE[] = {
    {.tile_n = 128, .tile_k = 128, .warps = 4, .ctas_per_sm = 1, .segment = 32},
    {.tile_n = 128, .tile_k = 128, .warps = 4, .ctas_per_sm = 1, .segment = 16},
    {.tile_n = 128, .tile_k = 128, .warps = 4, .ctas_per_sm = 1, .segment = 64},
};

/* Whether a thread needs more registers than there are for 17 warps: to sanitize words in both
 * directions, or for groups beside f32. */
static bool takes_registers(MlirOperation op) {
  return is_dual(op) && !is_square(op) &&
         (moe__op_bool(op, "sanitize") || (moe__is_grouped(op) && !moe__cast_reads_bf16(op)));
}

static bool takes_most_registers(MlirOperation op) {
  return takes_registers(op) && moe__is_grouped(op) && moe__cast_reads_bf16(op);
}

static int registers(MlirOperation op) {
  if (moe__group_align(op))
    return takes_registers(op) ? 144 : 96;
  if (takes_most_registers(op))
    return 216;
  return takes_registers(op) ? (moe__is_grouped(op) ? 168 : 128) : 96;
}

static const moe__cast_schedule_t ALIGNED_BF16[] = {
    {.tile_n = 128, .tile_k = 128, .stages = 1, .warps = 4, .ctas_per_sm = 4, .band = 1024},
    {.tile_n = 128, .tile_k = 128, .output_stages = 2, .band = 1024},
    {.tile_n = 128, .tile_k = 128, .output_stages = 2, .band = 64},
};

/* Where groups are aligned, tiles go out as those of weights do. */
static moe__candidates_t aligned_candidates(MlirOperation op) {
  if (takes_registers(op))
    return MOE__CANDIDATES(BOTH_FEW_WARPS);
  if (is_dual(op))
    return MOE__CAST_CANDIDATES(op, BOTH);
  return moe__cast_reads_bf16(op) ? MOE__CANDIDATES(ALIGNED_BF16) : MOE__CANDIDATES(COLUMNS_F32);
}

/* As for MX (QuantizeTiles.c). */
static moe__candidates_t candidates(MlirOperation op) {
  if (moe__group_align(op))
    return aligned_candidates(op);
  if (takes_most_registers(op))
    return MOE__CANDIDATES(GROUPS_BOTH_SANITIZE);
  if (takes_registers(op))
    return moe__is_grouped(op) ? MOE__CANDIDATES(GROUPS_BOTH_FEW_WARPS)
                               : MOE__CANDIDATES(BOTH_FEW_WARPS);
  if (moe__is_grouped(op))
    return is_dual(op) ? MOE__CANDIDATES(GROUPS_BOTH_BF16) : MOE__CAST_CANDIDATES(op, GROUPS);
  if (is_dual(op))
    return MOE__CAST_CANDIDATES(op, BOTH);
  if (moe__cast_reads_bf16(op) && !is_square(op))
    return MOE__CANDIDATES(TOKENS_BF16);
  return MOE__CAST_CANDIDATES(op, COLUMNS);
}

static bool lay_out(MlirOperation op, const void *schedule, void *out) {
  const moe__cast_schedule_t *s = schedule;
  moe__cast_layout_t *l = out;
  int bytes = moe__elements_of(moe__tensor_type(op, MOE__X), false).bytes,
      max_groups = moe__max_groups(op);
  if (s->tile_n != MOE_FP8_BLOCK || (s->tile_k != MOE_FP8_BLOCK && is_square(op)))
    return moe__error(op, "'schedule' has tiles of %d x %d; FP8 blocks take tiles of 128 x 128",
                      s->tile_n, s->tile_k);
  if (is_dual(op) && s->tile_k % MOE_FP8_BLOCK)
    return moe__error(op, "'schedule.tile_k' is %d; it must be a multiple of 128", s->tile_k);
  /* What a CTA of one tile needs at least. */
  l->cta.registers = moe__cast_goes_on(s) ? registers(op) : 64;
  l->staging = moe__layout_shared(&l->cta, STRIPS * s->tile_k * 4, 16);
  return moe__cast_layout(op, s, (const bool[]){is_dual(op), true}, bytes, max_groups,
                          moe__is_grouped(op), l);
}

/* ---- The kernel ---- */

static bool lower(const moe__lowering_t *lowering) {
  MlirOperation op = lowering->op;
  columns_t s = {.square = is_square(op), .pow2 = moe__op_bool(op, "pow2")};
  moe__cast_kernel_begin(&s.kernel, &s.tiles, lowering, (const bool[]){is_dual(op), true});
  s.tiles.elements.sanitize = moe__op_bool(op, "sanitize");
  add_parameters(&s, op);
  moe__cast_kernel_end(
      &s.tiles,
      &(moe__cast_t){.user = &s, .find = find, .rows_use_find = s.square, .cast = cast_unit},
      lowering);
  return true;
}

const moe__kernel_definition_t moe__quantize_columns_kernel = {
    .ops = {MOE__OP_QUANTIZE_FP8, MOE__OP_QUANTIZE_FP8_DUAL},
    .takes = takes,
    .has_kernel = has_kernel,
    .schedule = &moe__cast_schedule,
    .candidates = candidates,
    .layout_size = sizeof(moe__cast_layout_t),
    .layout = lay_out,
    .lower = lower,
};
