/* CastFp8.c - the kernels of mx_quantize.cast_fp8, cast_fp8_dual and cast_fp8_pair, the second
 * of two passes: x times the factors that the first one found, as FP8, by the pipeline of
 * CastTiles.h.
 *
 * A lane loads its factors before the tile has landed. Two things are rare and cost much: values
 * that `sanitize` replaces, and, in columns, rows of several groups in a strip of 32. Whether
 * there are any is asked once for each unit. Where there are, the first are replaced in code of
 * their own; the rows of all groups but the first are cast again, and their bytes replaced.
 *
 * Where groups are aligned, tiles begin with their group, and no strip has rows of two.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Builder/Inspect.h"
#include "lib/Device/Warp.h"
#include "lib/Kernels/Requirements.h"
#include "lib/Kernels/mx_quantize/CastKernel.h"

#include "mlir-c/BuiltinTypes.h"

#define F32_INFINITY 0x7F800000

/* What a factor is for. */
typedef enum slice_t { OF_ROW, OF_COLUMN, WHOLE } slice_t;

typedef struct factors_t {
  slice_t slice;
  bool by_batch, by_group;                   /* one, or a row of them, for each batch or group */
  MlirValue pointers[MOE__CAST_MAX_TENSORS]; /* by tensor */
  /* Of each unit: the lane's factors, one for each of its columns; in columns those of the group of
   * the strip's first row, and the groups of its first row and its last. */
  MlirValue values[MOE__MAX_UNITS][2], groups[MOE__MAX_UNITS][2];
} factors_t;

typedef struct cast_t {
  moe__kernel_t kernel;
  moe__cast_tiles_t tiles;
  factors_t factors[2]; /* by direction */
} cast_t;

/* ---- Factors ---- */

/* A row in no group belongs to the last one here: it has a factor then, and is not written. */
static MlirValue group_of(cast_t *s, MlirValue row) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue last = moe__sub(b, s->tiles.groups.value, 1);
  return moe__umin(b, moe__groups_find(&s->tiles.table, row), last);
}

/* The last of `count` that `count_of_lane` of a lane may start from: no lane loads behind the
 * end. */
static MlirValue clamped(moe__builder_t *b, MlirValue index, MlirValue count, int count_of_lane) {
  return moe__umin(b, index, moe__sub(b, count, count_of_lane));
}

/* Loads the factors of the unit's slice in batch or group `part` into `out`. */
static void load_factors(cast_t *s, const moe__cast_unit_t *unit, MlirValue part,
                         MlirValue out[2]) {
  moe__builder_t *b = &s->kernel.builder;
  factors_t *factors = &s->factors[unit->direction];
  int count = factors->slice == OF_COLUMN ? s->tiles.elements.per_word : 1;
  MlirValue index = moe__zext(b, part, b->i64);
  if (factors->slice != WHOLE) {
    bool row = factors->slice == OF_ROW;
    MlirValue size = row ? s->tiles.n.value : moe__cast_columns(&s->tiles, unit->is_first);
    MlirValue inner =
        row ? clamped(b, unit->row, s->tiles.row_end, 1) : clamped(b, unit->column, size, count);
    index =
        moe__add(b, moe__mul(b, index, moe__zext(b, size, b->i64)), moe__zext(b, inner, b->i64));
  }
  MlirValue pointer = moe__cast_of_tensor(&s->tiles, unit->is_first, factors->pointers);
  MlirValue address = moe__offset(b, pointer, moe__shl(b, index, 2));
  if (count == 1) {
    out[0] = out[1] = moe__load(b, address, b->f32);
    return;
  }
  MlirValue pair = moe__load(b, address, moe__vector_type(b, count, b->f32));
  for (int i = 0; i < count; i++)
    out[i] = moe__extract(b, pair, i);
}

static void prepare(void *user, const moe__cast_unit_t *unit) {
  cast_t *s = user;
  moe__builder_t *b = &s->kernel.builder;
  factors_t *factors = &s->factors[unit->direction];
  MlirValue part = factors->by_batch ? unit->batch : moe__i32(b, 0);
  if (factors->by_group && s->tiles.aligned) {
    part = unit->group;
  } else if (factors->by_group && unit->direction == MOE__ROWS) {
    part = group_of(s, unit->row);
  } else if (factors->by_group) {
    MlirValue group = group_of(s, moe__add(b, unit->row, s->tiles.lane));
    MlirValue *ends = factors->groups[unit->index];
    ends[0] = part = moe__shuffle(b, group, moe__i32(b, 0));
    ends[1] = moe__shuffle(b, group, moe__i32(b, MOE__WARP - 1));
  }
  load_factors(s, unit, part, factors->values[unit->index]);
}

/* ---- Casting ---- */

/* The lane's results in a unit are parts: in columns one for each column of the lane, in rows
 * one. */
static int parts_of(const cast_t *s, const moe__cast_unit_t *unit) {
  return unit->direction == MOE__ROWS ? 1 : s->tiles.elements.per_word;
}

/* Casts one part, times `factor`; gives its bytes, four to an i32. rare: in code that is seldom
 * reached. Such code sanitizes, and makes all that it needs of the words itself: what it shared
 * with other code would take registers there. */
static void cast_part(cast_t *s, const moe__cast_unit_t *unit, const MlirValue *words, bool rare,
                      int part, MlirValue factor, MlirValue packed[MOE__CAST_WORDS / 2]) {
  moe__builder_t *b = &s->kernel.builder;
  moe__elements_t elements = s->tiles.elements;
  elements.sanitize &= rare;
  int per_word = elements.per_word / parts_of(s, unit); /* elements of the part */
  for (int i = 0; i < MOE__CAST_WORDS * per_word / 4; i++) {
    MlirValue scaled[4], word = {NULL};
    for (int j = 0; j < 4; j++) {
      if (j % per_word == 0)
        word = words[(4 * i + j) / per_word];
      if (j % per_word == 0 && rare)
        word = moe__fresh(b, word);
      MlirValue element = moe__word_element(b, &elements, word, part + j % per_word);
      scaled[j] = moe__fmul(b, element, factor);
    }
    packed[i] = moe__fp8_pack4(b, scaled, s->tiles.element);
  }
}

/* All rows by the factors that the unit has. */
static void cast_all(cast_t *s, const moe__cast_unit_t *unit, const MlirValue *words, bool rare) {
  for (int part = 0; part < parts_of(s, unit); part++) {
    MlirValue packed[MOE__CAST_WORDS / 2];
    cast_part(s, unit, words, rare, part, s->factors[unit->direction].values[unit->index][part],
              packed);
    moe__cast_store(&s->tiles, unit, part, packed);
  }
}

/* Bits below bit `count`, 0 to 32. */
static MlirValue bits_below(moe__builder_t *b, MlirValue count) {
  MlirValue one = moe__op1(b, "arith.shli", b->i64,
                           MOE__VALUES(moe__i64(b, 1), moe__zext(b, count, b->i64)), NULL);
  return moe__trunc(b, moe__sub(b, one, 1), b->i32);
}

/* The rows of the strip that are of this group, a bit each. */
static MlirValue rows_of_group(cast_t *s, const moe__cast_unit_t *unit, MlirValue group) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue ends[2], bits[2];
  moe__groups_range(&s->tiles.table, group, &ends[0], &ends[1]);
  for (int i = 0; i < 2; i++) {
    MlirValue behind = moe__sub(b, ends[i], moe__umin(b, ends[i], unit->row));
    bits[i] = bits_below(b, moe__umin(b, behind, MOE__WARP));
  }
  return moe__xor(b, bits[0], bits[1]);
}

/* The rows of the groups behind the first one's once more, group by group. */
static void cast_other_groups(cast_t *s, const moe__cast_unit_t *unit, const MlirValue *words) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue *ends = s->factors[MOE__COLUMNS].groups[unit->index], one = moe__i32(b, 1);
  MOE__FOR (b, index, moe__add(b, ends[0], one), moe__add(b, ends[1], one), one) {
    MlirValue rows = rows_of_group(s, unit, index);
    MOE__IF (b, moe__ne(b, rows, 0)) {
      MlirValue factors[2] = {{NULL}};
      load_factors(s, unit, index, factors);
      for (int part = 0; part < parts_of(s, unit); part++) {
        MlirValue packed[MOE__CAST_WORDS / 2];
        cast_part(s, unit, words, true, part, factors[part], packed);
        moe__cast_store_some(&s->tiles, unit, part, packed, rows);
      }
    }
  }
}

/* Whether a word of the lane has something that is to be replaced. */
static MlirValue is_to_sanitize(cast_t *s, const MlirValue *words) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue amax = moe__word_amax(b, &s->tiles.elements,
                                  moe__words_amax(b, &s->tiles.elements, words, MOE__CAST_WORDS));
  return moe__ule(b, F32_INFINITY, amax);
}

static void cast_unit(void *user, const moe__cast_unit_t *unit,
                      const MlirValue words[MOE__CAST_WORDS]) {
  cast_t *s = user;
  moe__builder_t *b = &s->kernel.builder;
  if (s->tiles.elements.sanitize) {
    MOE__IF (b, is_to_sanitize(s, words)) {
      cast_all(s, unit, words, true);
    }
    MOE__ELSE (b) {
      cast_all(s, unit, words, false);
    }
  } else {
    cast_all(s, unit, words, false);
  }
  if (unit->direction == MOE__COLUMNS && s->factors[MOE__COLUMNS].by_group && !s->tiles.aligned)
    cast_other_groups(s, unit, words);
}

/* ---- The kernels ---- */

static bool is_dual(MlirOperation op) {
  return moe__is(op, MOE__OP_CAST_FP8_DUAL);
}

static bool is_pair(MlirOperation op) {
  return moe__is(op, MOE__OP_CAST_FP8_PAIR);
}

/* x, and in a pair y; then come the factors. */
static int tensor_count(MlirOperation op) {
  return is_pair(op) ? 2 : 1;
}

static bool writes(MlirOperation op, moe__direction_t direction) {
  if (is_dual(op) || is_pair(op))
    return is_dual(op) || direction == MOE__COLUMNS;
  bool last = moe__op_integer(op, "axis") == moe__tensor_rank(op, MOE__X) - 1;
  return last == (direction == MOE__ROWS);
}

/* Sizes that the tensor maps of x or y, and of its results, need. */
static bool needs_multiples(MlirOperation op, moe__role_t role) {
  int last = moe__tensor_rank(op, MOE__X) - 1;
  return moe__needs_multiple_of_16(op, role, last) &&
         (!writes(op, MOE__COLUMNS) || moe__is_grouped(op) ||
          moe__needs_multiple_of_16(op, role, last - 1));
}

static bool has_plain_kernel(MlirOperation op) {
  moe__granularity_t granularity = moe__op_granularity(op);
  if (granularity == MOE__1X128 || granularity == MOE__128X128)
    return moe__error(op,
                      "no kernel casts with granularity \"%s\"; use %s, which finds the "
                      "scales and casts at once",
                      moe__granularity_name(granularity),
                      moe__op_id_short_name(MOE__OP_QUANTIZE_FP8));
  return moe__needs_row_major(op, MOE__X) && moe__needs_row_major(op, MOE__FACTORS) &&
         (writes(op, MOE__ROWS) ? moe__needs_row_major(op, MOE__Q)
                                : moe__needs_column_major(op, MOE__Q)) &&
         needs_multiples(op, MOE__X);
}

static bool has_dual_kernel(MlirOperation op) {
  return moe__needs_one_fp8(op, MOE__Q_T, MOE__OP_QUANTIZE_FP8) &&
         moe__needs_row_major(op, MOE__X) && moe__needs_row_major(op, MOE__FACTORS) &&
         moe__needs_row_major(op, MOE__FACTORS_T) && moe__needs_row_major(op, MOE__Q) &&
         moe__needs_column_major(op, MOE__Q_T) && needs_multiples(op, MOE__X);
}

static bool has_pair_kernel(MlirOperation op) {
  return moe__needs_one_fp8(op, MOE__Q_Y, MOE__OP_QUANTIZE_FP8) && moe__needs_one_element(op) &&
         moe__needs_row_major(op, MOE__X) && moe__needs_row_major(op, MOE__Y) &&
         moe__needs_row_major(op, MOE__FACTORS) && moe__needs_row_major(op, MOE__FACTORS_Y) &&
         moe__needs_column_major(op, MOE__Q) && moe__needs_column_major(op, MOE__Q_Y) &&
         needs_multiples(op, MOE__X) && needs_multiples(op, MOE__Y);
}

static void add_parameters(cast_t *s, MlirOperation op) {
  /* Of each direction of a dual op, or of each tensor of a pair. */
  static const moe__role_t XS[] = {MOE__X, MOE__Y}, QS[] = {MOE__Q, MOE__Q_Y},
                           FACTORS[] = {MOE__FACTORS, MOE__FACTORS_Y};
  moe__kernel_t *kernel = &s->kernel;
  moe__cast_tiles_t *tiles = &s->tiles;
  int last = moe__tensor_rank(op, MOE__X) - 1, x = moe__tensor_number(op, MOE__X);
  tiles->tensor_count = tensor_count(op);
  for (int i = 0; i < tiles->tensor_count; i++)
    tiles->tensors[i] = (moe__cast_tensor_t){
        .type = moe__tensor_type(op, XS[i]),
        .q = {[MOE__ROWS] = moe__tensor_number(op, QS[i]),
              [MOE__COLUMNS] = moe__tensor_number(op, is_dual(op) ? MOE__Q_T : QS[i])},
    };
  moe__cast_kernel_parameters(tiles, op, false);
  for (int direction = 0; direction < 2; direction++)
    for (int i = 0;
         tiles->writes[direction] && i < tiles->tensor_count && i < MOE__CAST_MAX_TENSORS; i++) {
      bool by_columns = is_dual(op) && direction == MOE__COLUMNS;
      s->factors[direction].pointers[i] = moe__kernel_pointer(
          kernel, moe__tensor_number(op, by_columns ? MOE__FACTORS_T : FACTORS[i]));
    }
  moe__require_shapes(kernel, op);
  if (tiles->writes[MOE__COLUMNS] && !moe__is_grouped(op))
    moe__kernel_require(kernel, x, last - 1, MOE__MULTIPLE_OF, MOE__CAST_MULTIPLE);
  for (int i = 0; i < tiles->tensor_count && i < MOE__CAST_MAX_TENSORS; i++)
    moe__kernel_require(kernel, moe__tensor_number(op, XS[i]), last, MOE__MULTIPLE_OF,
                        MOE__CAST_MULTIPLE);
}

/* ---- Schedules ---- */

static const moe__cast_schedule_t ROWS_BF16[] = {
    {.tile_n = 32, .tile_k = 512, .output_stages = 2},
    {.tile_n = 32, .tile_k = 1024, .output_stages = 2, .warps = 16, .ctas_per_sm = 1},
    {.tile_n = 64, .tile_k = 256, .output_stages = 2},
    {.tile_n = 32, .tile_k = 256, .output_stages = 2, .warps = 4, .ctas_per_sm = 3},
    {.tile_n = 128, .tile_k = 128, .output_stages = 2},
};
static const moe__cast_schedule_t ROWS_F32[] = {
    {.tile_n = 32, .tile_k = 256, .output_stages = 2},
    {.tile_n = 64, .tile_k = 128, .output_stages = 2},
    {.tile_n = 64, .tile_k = 128, .stages = 5, .output_stages = 2, .ctas_per_sm = 1},
    {.tile_n = 32, .tile_k = 128, .stages = 4, .output_stages = 2, .warps = 4},
    {.tile_n = 128, .tile_k = 64, .output_stages = 2},
};
static const moe__cast_schedule_t COLUMNS_BF16[] = {
    {.tile_n = 128, .tile_k = 128, .output_stages = 2, .band = 1024},
    {.tile_n = 128, .tile_k = 128, .output_stages = 2, .band = 64},
    {.tile_n = 128, .tile_k = 128, .stages = 5, .ctas_per_sm = 1, .band = 1024},
    {.tile_n = 256, .tile_k = 64, .output_stages = 2, .band = 1024},
    {.tile_n = 256, .tile_k = 128, .warps = 16, .ctas_per_sm = 1, .band = 1024},
};
static const moe__cast_schedule_t COLUMNS_F32[] = {
    {.tile_n = 128, .tile_k = 64, .output_stages = 2, .band = 1024},
    {.tile_n = 128, .tile_k = 64, .output_stages = 2, .band = 64},
    {.tile_n = 128, .tile_k = 64, .stages = 5, .output_stages = 2, .ctas_per_sm = 1, .band = 1024},
    {.tile_n = 256, .tile_k = 32, .output_stages = 2, .band = 1024},
    {.tile_n = 128, .tile_k = 128, .output_stages = 2, .warps = 16, .ctas_per_sm = 1, .band = 1024},
};
static const moe__cast_schedule_t WEIGHTS_BOTH_BF16[] = {
    {.tile_n = 128, .tile_k = 128, .stages = 1, .warps = 4, .ctas_per_sm = 4},
    {.tile_n = 128, .tile_k = 128, .stages = 1, .ctas_per_sm = 3},
    {.tile_n = 128, .tile_k = 128},
};
static const moe__cast_schedule_t BOTH_BF16[] = {
    {.tile_n = 128, .tile_k = 128, .stages = 1, .ctas_per_sm = 3},
    {.tile_n = 128, .tile_k = 128},
    {.tile_n = 128, .tile_k = 128, .band = 16},
    {.tile_n = 128, .tile_k = 128, .stages = 4, .ctas_per_sm = 1, .band = 16},
    {.tile_n = 128, .tile_k = 64, .stages = 4, .warps = 4, .band = 16},
    {.tile_n = 256, .tile_k = 64, .band = 16},
};
static const moe__cast_schedule_t BOTH_F32[] = {
    {.tile_n = 128, .tile_k = 128, .warps = 16, .ctas_per_sm = 1},
    {.tile_n = 128, .tile_k = 128, .warps = 16, .ctas_per_sm = 1, .band = 16},
    {.tile_n = 128, .tile_k = 64, .band = 16},
    {.tile_n = 128, .tile_k = 64, .stages = 5, .ctas_per_sm = 1, .band = 16},
    {.tile_n = 128, .tile_k = 32, .stages = 4, .warps = 4, .band = 16},
};

/* Where groups are aligned a tile has 128 rows. */
static const moe__cast_schedule_t ALIGNED_BF16[] = {
    {.tile_n = 128, .tile_k = 128, .stages = 1, .warps = 4, .ctas_per_sm = 4, .band = 1024},
    {.tile_n = 128, .tile_k = 128, .output_stages = 2, .band = 1024},
    {.tile_n = 128, .tile_k = 128, .output_stages = 2, .band = 64},
    {.tile_n = 128, .tile_k = 128, .stages = 5, .ctas_per_sm = 1, .band = 1024},
};
static const moe__cast_schedule_t ALIGNED_F32[] = {
    {.tile_n = 128, .tile_k = 64, .output_stages = 2, .band = 1024},
    {.tile_n = 128, .tile_k = 64, .output_stages = 2, .band = 64},
    {.tile_n = 128, .tile_k = 64, .stages = 5, .output_stages = 2, .ctas_per_sm = 1, .band = 1024},
};
static const moe__cast_schedule_t ALIGNED_BOTH_BF16[] = {
    {.tile_n = 128, .tile_k = 128, .stages = 1, .warps = 4, .ctas_per_sm = 4},
    {.tile_n = 128, .tile_k = 128},
    {.tile_n = 128, .tile_k = 128, .band = 16},
    {.tile_n = 128, .tile_k = 128, .stages = 4, .ctas_per_sm = 1, .band = 16},
};
static const moe__cast_schedule_t ALIGNED_BOTH_F32[] = {
    {.tile_n = 128, .tile_k = 128, .warps = 16, .ctas_per_sm = 1},
    {.tile_n = 128, .tile_k = 128, .warps = 16, .ctas_per_sm = 1, .band = 16},
    {.tile_n = 128, .tile_k = 64, .band = 16},
};

/* As for MX (QuantizeTiles.c); casting takes less time, and reads factors besides. Where only
 * rows are written, in and out are one order, and so is that of the tiles. */
static moe__candidates_t candidates(MlirOperation op) {
  if (moe__group_align(op))
    return is_dual(op) ? MOE__CAST_CANDIDATES(op, ALIGNED_BOTH) : MOE__CAST_CANDIDATES(op, ALIGNED);
  if (is_dual(op) && !moe__is_grouped(op) && moe__cast_reads_bf16(op))
    return MOE__CANDIDATES(WEIGHTS_BOTH_BF16);
  if (is_dual(op))
    return MOE__CAST_CANDIDATES(op, BOTH);
  return writes(op, MOE__ROWS) ? MOE__CAST_CANDIDATES(op, ROWS) : MOE__CAST_CANDIDATES(op, COLUMNS);
}

/* A thread holds factors besides the words of a strip, those of all strips of its warp; and
 * where rows of several groups meet, factors of each. */
static bool lay_out(MlirOperation op, const void *schedule, void *out) {
  const moe__cast_schedule_t *s = schedule;
  moe__cast_layout_t *l = out;
  int bytes = moe__elements_of(moe__tensor_type(op, MOE__X), false).bytes,
      max_groups = moe__max_groups(op);
  const bool directions[] = {writes(op, MOE__ROWS), writes(op, MOE__COLUMNS)};
  if (moe__group_align(op) && s->tile_n != MOE__CAST_GROUP_ROWS)
    return moe__error(op, "'schedule.tile_n' is %d; it must be %d where groups are aligned",
                      s->tile_n, MOE__CAST_GROUP_ROWS);
  if (!moe__cast_layout(op, s, directions, bytes, max_groups, false, l))
    return false;
  int strips = moe__cast_units(s, bytes);
  l->cta.registers = !moe__cast_goes_on(s)
                         ? 64
                         : (bytes == 2 ? 80 : 56) + (max_groups ? 16 : 0) + 40 * (strips - 1);
  return true;
}

/* ---- The kernel ---- */

static bool has_kernel(MlirOperation op) {
  return is_dual(op)   ? has_dual_kernel(op)
         : is_pair(op) ? has_pair_kernel(op)
                       : has_plain_kernel(op);
}

static bool lower(const moe__lowering_t *lowering) {
  MlirOperation op = lowering->op;
  moe__granularity_t granularity = is_dual(op) || is_pair(op) ? MOE__ROW : moe__op_granularity(op);
  cast_t s = {0};
  const bool directions[] = {writes(op, MOE__ROWS), writes(op, MOE__COLUMNS)};
  moe__cast_kernel_begin(&s.kernel, &s.tiles, lowering, directions);
  bool row = granularity == MOE__ROW,
       batches = moe__tensor_rank(op, MOE__X) == 3 && granularity != MOE__TENSOR;
  s.tiles.elements.sanitize = moe__op_bool(op, "sanitize");
  s.tiles.last_first = true; /* the first pass has just read x */
  s.factors[MOE__ROWS] = (factors_t){
      .slice = row ? OF_ROW : WHOLE, .by_batch = batches, .by_group = granularity == MOE__GROUP};
  s.factors[MOE__COLUMNS] = (factors_t){
      .slice = row ? OF_COLUMN : WHOLE, .by_batch = batches, .by_group = moe__is_grouped(op)};
  add_parameters(&s, op);
  moe__cast_kernel_end(&s.tiles, &(moe__cast_t){.user = &s, .prepare = prepare, .cast = cast_unit},
                       lowering);
  return true;
}

const moe__kernel_definition_t moe__cast_fp8_kernel = {
    .ops = {MOE__OP_CAST_FP8, MOE__OP_CAST_FP8_DUAL, MOE__OP_CAST_FP8_PAIR},
    .has_kernel = has_kernel,
    .schedule = &moe__cast_schedule,
    .candidates = candidates,
    .layout_size = sizeof(moe__cast_layout_t),
    .layout = lay_out,
    .lower = lower,
};
