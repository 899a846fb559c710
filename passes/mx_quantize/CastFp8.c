/* CastFp8.c - the kernels of mx_quantize.cast_fp8, cast_fp8_dual and cast_fp8_pair, the second of two
 * passes: x times the factors that the first one found, as FP8, by the pipeline of
 * lib/Kernel/CastTiles.h.
 *
 * A lane loads its factors before the tile has landed. Two things are rare and cost much: values that
 * `sanitize` replaces, and, in columns, rows of several groups in a strip of 32. Whether there are any
 * is asked once for each unit. Where there are, the first are replaced in code of their own; the rows
 * of all groups but the first are cast again, and their bytes replaced.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Builder/Inspect.h"
#include "lib/Builder/Shapes.h"
#include "lib/Kernel/Warp.h"
#include "passes/Lowering.h"
#include "passes/mx_quantize/CastKernel.h"

#include "mlir-c/BuiltinTypes.h"

#define MULTIPLE 16 /* strides of tensor maps are multiples of 16 bytes */
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
  MlirValue last = moe__sub(b, s->tiles.groups.value, moe__i32(b, 1));
  return moe__umin(b, moe__groups_find(&s->tiles.table, row), last);
}

/* The last of `count` that `count_of_lane` of a lane may start from: no lane loads behind the end. */
static MlirValue clamped(moe__builder_t *b, MlirValue index, MlirValue count, int count_of_lane) {
  return moe__umin(b, index, moe__sub(b, count, moe__i32(b, count_of_lane)));
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
    MlirValue size = row ? s->tiles.n.value : moe__cast_columns(&s->tiles, unit);
    MlirValue inner =
        row ? clamped(b, unit->row, s->tiles.row_end, 1) : clamped(b, unit->column, size, count);
    index =
        moe__add(b, moe__mul(b, index, moe__zext(b, size, b->i64)), moe__zext(b, inner, b->i64));
  }
  MlirValue pointer = moe__cast_of_tensor(&s->tiles, unit, factors->pointers);
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
  if (factors->by_group && unit->direction == MOE__ROWS) {
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

/* The lane's results in a unit are parts: in columns one for each column of the lane, in rows one. */
static int parts_of(const cast_t *s, const moe__cast_unit_t *unit) {
  return unit->direction == MOE__ROWS ? 1 : s->tiles.elements.per_word;
}

/* Casts one part, times `factor`; gives its bytes, four to an i32. rare: in code that is seldom
 * reached. Such code sanitizes, and makes all that it needs of the words itself: what it shared with
 * other code would take registers there. */
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
  return moe__trunc(b, moe__sub(b, one, moe__i64(b, 1)), b->i32);
}

/* The rows of the strip that are of this group, a bit each. */
static MlirValue rows_of_group(cast_t *s, const moe__cast_unit_t *unit, MlirValue group) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue ends[2], bits[2];
  moe__groups_range(&s->tiles.table, group, &ends[0], &ends[1]);
  for (int i = 0; i < 2; i++) {
    MlirValue behind = moe__sub(b, ends[i], moe__umin(b, ends[i], unit->row));
    bits[i] = bits_below(b, moe__umin(b, behind, moe__i32(b, MOE__WARP)));
  }
  return moe__xor(b, bits[0], bits[1]);
}

/* The rows of the groups behind the first one's once more, group by group. */
static void cast_other_groups(cast_t *s, const moe__cast_unit_t *unit, const MlirValue *words) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue *ends = s->factors[MOE__COLUMNS].groups[unit->index], one = moe__i32(b, 1);
  moe__for_t loop =
      moe__for_begin(b, moe__add(b, ends[0], one), moe__add(b, ends[1], one), one, 0, NULL);
  MlirValue rows = rows_of_group(s, unit, loop.index);
  moe__if_t any = moe__if_begin(b, moe__ne(b, rows, moe__i32(b, 0)), false);
  MlirValue factors[2] = {{NULL}};
  load_factors(s, unit, loop.index, factors);
  for (int part = 0; part < parts_of(s, unit); part++) {
    MlirValue packed[MOE__CAST_WORDS / 2];
    cast_part(s, unit, words, true, part, factors[part], packed);
    moe__cast_store_some(&s->tiles, unit, part, packed, rows);
  }
  moe__if_end(b, &any);
  moe__for_end(b, &loop, NULL);
}

/* Whether a word of the lane has something that is to be replaced. */
static MlirValue is_to_sanitize(cast_t *s, const MlirValue *words) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue amax = moe__word_amax(b, &s->tiles.elements,
                                  moe__words_amax(b, &s->tiles.elements, words, MOE__CAST_WORDS));
  return moe__ule(b, moe__i32(b, F32_INFINITY), amax);
}

static void cast_unit(void *user, const moe__cast_unit_t *unit,
                      const MlirValue words[MOE__CAST_WORDS]) {
  cast_t *s = user;
  moe__builder_t *b = &s->kernel.builder;
  if (s->tiles.elements.sanitize) {
    moe__if_t slow = moe__if_begin(b, is_to_sanitize(s, words), true);
    cast_all(s, unit, words, true);
    moe__else(b, &slow);
    cast_all(s, unit, words, false);
    moe__if_end(b, &slow);
  } else {
    cast_all(s, unit, words, false);
  }
  if (unit->direction == MOE__COLUMNS && s->factors[MOE__COLUMNS].by_group)
    cast_other_groups(s, unit, words);
}

/* ---- The kernels ---- */

static bool is_dual(MlirOperation op) {
  return moe__op_is(op, "mx_quantize.cast_fp8_dual");
}

static bool is_pair(MlirOperation op) {
  return moe__op_is(op, "mx_quantize.cast_fp8_pair");
}

/* x, and in a pair y; then come the factors. */
static int tensor_count(MlirOperation op) {
  return is_pair(op) ? 2 : 1;
}

/* offs follows as many factors as there are results. */
static bool is_grouped(MlirOperation op) {
  return !mlirValueIsNull(
      moe__op_operand(op, tensor_count(op) + (int)mlirOperationGetNumResults(op)));
}

static int rank_of(MlirOperation op) {
  return (int)mlirShapedTypeGetRank(moe__operand_type(op, 0));
}

static moe__directions_t directions_of(MlirOperation op) {
  if (is_pair(op))
    return (moe__directions_t){.columns = true};
  bool last = !is_dual(op) && moe__op_integer(op, "axis") == rank_of(op) - 1;
  return (moe__directions_t){.rows = is_dual(op) || last, .columns = is_dual(op) || !last};
}

/* Sizes that the tensor maps of operand number `operand`, x or y, and of its results need. */
static bool needs_multiples(MlirOperation op, int operand, const char *name) {
  MlirType type = moe__operand_type(op, operand);
  int last = rank_of(op) - 1;
  return moe__needs_multiple_of_16(op, name, type, last) &&
         (!directions_of(op).columns || moe__needs_multiple_of_16(op, name, type, last - 1));
}

bool moe__cast_fp8_has_kernel(MlirOperation op) {
  moe__granularity_t granularity = moe__op_granularity(op);
  if (granularity == MOE__1X128 || granularity == MOE__128X128)
    return moe__error(op,
                      "no kernel casts with granularity \"%s\"; use quantize_fp8, which finds the "
                      "scales and casts at once",
                      moe__granularity_name(granularity));
  return moe__needs_row_major(op, "x", moe__operand_type(op, 0)) &&
         moe__needs_row_major(op, "factors", moe__operand_type(op, 1)) &&
         (directions_of(op).rows ? moe__needs_row_major(op, "q", moe__result_type(op, 0))
                                 : moe__needs_column_major(op, "q", moe__result_type(op, 0))) &&
         needs_multiples(op, 0, "x");
}

bool moe__cast_fp8_dual_has_kernel(MlirOperation op) {
  if (moe__fp8_of(moe__result_type(op, 0)) != moe__fp8_of(moe__result_type(op, 1)))
    return moe__error(op, "the kernel writes 'q' and 'q_t' with one element type; give both the "
                          "same, or use a quantize_fp8 for each");
  return moe__needs_row_major(op, "x", moe__operand_type(op, 0)) &&
         moe__needs_row_major(op, "factors", moe__operand_type(op, 1)) &&
         moe__needs_row_major(op, "factors_t", moe__operand_type(op, 2)) &&
         moe__needs_row_major(op, "q", moe__result_type(op, 0)) &&
         moe__needs_column_major(op, "q_t", moe__result_type(op, 1)) && needs_multiples(op, 0, "x");
}

bool moe__cast_fp8_pair_has_kernel(MlirOperation op) {
  if (moe__fp8_of(moe__result_type(op, 0)) != moe__fp8_of(moe__result_type(op, 1)))
    return moe__error(op, "the kernel writes 'q' and 'q_y' with one element type; give both the "
                          "same, or use a quantize_fp8 for each");
  return moe__needs_one_element(op) && moe__needs_row_major(op, "x", moe__operand_type(op, 0)) &&
         moe__needs_row_major(op, "y", moe__operand_type(op, 1)) &&
         moe__needs_row_major(op, "factors", moe__operand_type(op, 2)) &&
         moe__needs_row_major(op, "factors_y", moe__operand_type(op, 3)) &&
         moe__needs_column_major(op, "q", moe__result_type(op, 0)) &&
         moe__needs_column_major(op, "q_y", moe__result_type(op, 1)) &&
         needs_multiples(op, 0, "x") && needs_multiples(op, 1, "y");
}

/* Factors, operand number `operand`, have the sizes that follow from x and from the groups. */
static void require_sizes(cast_t *s, MlirOperation op, int operand) {
  moe__shape_t shape;
  moe__scales_shape(op, operand, &shape);
  for (int d = 0; d < shape.rank; d++)
    if (shape.sizes[d].operand >= 0)
      moe__kernel_require_same(&s->kernel, shape.sizes[d].operand, shape.sizes[d].dimension,
                               operand, d);
}

static void add_parameters(cast_t *s, MlirOperation op) {
  moe__kernel_t *kernel = &s->kernel;
  moe__cast_tiles_t *tiles = &s->tiles;
  /* Tensors are counted from x, 0, and in a pair y, 1, over the factors and offs, to the results. In a
   * dual op number `direction` of the factors and of the results is that direction's, in a pair number
   * `i` is that tensor's. */
  int operands = (int)mlirOperationGetNumOperands(op), last = rank_of(op) - 1;
  int tensors = tensor_count(op);
  tiles->tensor_count = tensors;
  for (int i = 0; i < tensors; i++)
    tiles->tensors[i] = (moe__cast_tensor_t){
        .type = moe__operand_type(op, i),
        .q = {[MOE__ROWS] = operands + i, [MOE__COLUMNS] = operands + i + is_dual(op)},
    };
  moe__cast_tiles_parameters(tiles, moe__result_type(op, 0));
  if (is_grouped(op))
    moe__cast_tiles_groups(tiles, operands - 1, moe__operand_type(op, operands - 1));
  for (int direction = 0; direction < 2; direction++)
    for (int i = 0; tiles->writes[direction] && i < tensors; i++) {
      int operand = tensors + (is_dual(op) ? (int)direction : i);
      s->factors[direction].pointers[i] = moe__kernel_pointer(kernel, operand);
      require_sizes(s, op, operand);
    }
  if (tiles->writes[MOE__COLUMNS])
    moe__kernel_require(kernel, 0, last - 1, "multiple_of", MULTIPLE);
  for (int i = 0; i < tensors; i++)
    moe__kernel_require(kernel, i, last, "multiple_of", MULTIPLE);
  if (is_pair(op))
    moe__kernel_require_same(kernel, 0, 0, 1, 0);
}

static bool lower(MlirOperation function, MlirOperation op, MlirBlock gpu_module_body,
                  moe__granularity_t granularity) {
  cast_t s = {0};
  int max_groups =
      is_grouped(op)
          ? moe__cast_max_groups(moe__operand_type(op, (int)mlirOperationGetNumOperands(op) - 1))
          : 0;
  if (!moe__cast_kernel_begin(&s.kernel, &s.tiles, op, directions_of(op), max_groups))
    return false;
  bool row = granularity == MOE__ROW, batches = rank_of(op) == 3 && granularity != MOE__TENSOR;
  s.tiles.elements.sanitize = moe__op_bool(op, "sanitize");
  s.tiles.last_first = true; /* the first pass has just read x */
  s.factors[MOE__ROWS] = (factors_t){
      .slice = row ? OF_ROW : WHOLE, .by_batch = batches, .by_group = granularity == MOE__GROUP};
  s.factors[MOE__COLUMNS] = (factors_t){
      .slice = row ? OF_COLUMN : WHOLE, .by_batch = batches, .by_group = is_grouped(op)};
  add_parameters(&s, op);
  moe__cast_kernel_end(&s.tiles, &(moe__cast_t){.user = &s, .prepare = prepare, .cast = cast_unit},
                       function, gpu_module_body);
  return true;
}

bool moe__lower_cast_fp8(MlirOperation function, MlirOperation op, MlirBlock gpu_module_body) {
  return moe__cast_fp8_has_kernel(op) && /* its schedule may have been written by hand */
         lower(function, op, gpu_module_body, moe__op_granularity(op));
}

bool moe__lower_cast_fp8_dual(MlirOperation function, MlirOperation op, MlirBlock gpu_module_body) {
  return moe__cast_fp8_dual_has_kernel(op) && lower(function, op, gpu_module_body, MOE__ROW);
}

bool moe__lower_cast_fp8_pair(MlirOperation function, MlirOperation op, MlirBlock gpu_module_body) {
  return moe__cast_fp8_pair_has_kernel(op) && lower(function, op, gpu_module_body, MOE__ROW);
}
