/* QuantizeTiles.c - the kernels of mx_quantize.quantize along the dimension before the last, and of
 * mx_quantize.quantize_dual: along that and the last one from one read.
 *
 * Why kernels of their own: people transpose, copy, quantize along the last axis and transpose back.
 * Here every byte moves once, by the pipeline of lib/Kernel/CastTiles.h. What is left for this file
 * is a block: find amax and scale, cast, and store the scale.
 *
 * In columns a block is a lane's part of a strip, the 32 rows of one column. In rows it is a half (bf16)
 * or all (fp32) of a lane's 128 bytes; the lanes that have the pieces of one row next to each other
 * put their scales together, so that few stores write them.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Builder/Inspect.h"
#include "lib/Kernel/Warp.h"
#include "passes/Lowering.h"
#include "passes/mx_quantize/CastKernel.h"

#include "mlir-c/BuiltinTypes.h"

#define BLOCK 32 /* elements that share a scale */
#define BLOCK_BITS 5
#define MULTIPLE 16 /* strides of tensor maps are multiples of 16 bytes */

typedef struct quantize_t {
  moe__kernel_t kernel;
  moe__cast_tiles_t tiles;
  moe__mx_mode_t mode;
  MlirValue scales[2]; /* by direction */
  int32_t
      staging; /* where both directions are written: row scales of a run, offset in shared memory */
} quantize_t;

/* ---- A block ---- */

static MlirValue pack(quantize_t *s, const MlirValue elements[4], MlirValue reciprocal) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue scaled[4];
  for (int i = 0; i < 4; i++)
    scaled[i] = moe__fmul(b, elements[i], reciprocal);
  return moe__fp8_pack4(b, scaled, s->tiles.element);
}

/* Address of the scale of row `row` of the scales and column `column`, of `rows` and `columns`. */
static MlirValue scale_address(quantize_t *s, const moe__cast_unit_t *unit, MlirValue rows,
                               MlirValue columns, MlirValue row, MlirValue column) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue line = moe__zext(b, row, b->i64);
  if (s->tiles.rank == 3)
    line = moe__add(b, moe__mul(b, moe__zext(b, unit->batch, b->i64), moe__zext(b, rows, b->i64)),
                    line);
  MlirValue index =
      moe__add(b, moe__mul(b, line, moe__zext(b, columns, b->i64)), moe__zext(b, column, b->i64));
  return moe__offset(b, s->scales[unit->direction], index);
}

/* ---- Columns ---- */

/* Writes the scales of the lane's columns, where they lie inside the tensor. */
static void store_column_scales(quantize_t *s, const moe__cast_unit_t *unit,
                                const MlirValue *scales) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue rows = moe__lshr(b, s->tiles.n.value, BLOCK_BITS),
            columns = s->tiles.tensors[0].k.value;
  MlirValue row = moe__lshr(b, unit->row, BLOCK_BITS);
  bool pair = s->tiles.elements.per_word == 2;
  /* K is a multiple of 16: the two columns of a lane are both inside or both outside. */
  moe__if_t inside = moe__if_begin(
      b, moe__and(b, moe__ult(b, row, rows), moe__ult(b, unit->column, columns)), false);
  MlirValue bytes = scales[0];
  if (pair)
    bytes = moe__or(b, bytes, moe__shl(b, scales[1], 8));
  moe__store(b, moe__trunc(b, bytes, pair ? b->i16 : b->i8),
             scale_address(s, unit, rows, columns, row, unit->column));
  moe__if_end(b, &inside);
}

static void quantize_columns(quantize_t *s, const moe__cast_unit_t *unit, const MlirValue *words) {
  moe__builder_t *b = &s->kernel.builder;
  MlirValue amax = moe__words_amax(b, &s->tiles.elements, words, MOE__CAST_WORDS),
            scales[2] = {{NULL}};
  for (int c = 0; c < s->tiles.elements.per_word; c++) {
    scales[c] = moe__mx_scale(b, moe__word_element(b, &s->tiles.elements, amax, c), s->mode,
                              s->tiles.element);
    MlirValue reciprocal = moe__mx_reciprocal(b, scales[c]), packed[MOE__CAST_WORDS / 4];
    for (int i = 0; i < MOE__CAST_WORDS / 4; i++) {
      MlirValue elements[4];
      for (int j = 0; j < 4; j++)
        elements[j] = moe__word_element(b, &s->tiles.elements, words[4 * i + j], c);
      packed[i] = pack(s, elements, reciprocal);
    }
    moe__cast_store(&s->tiles, unit, c, packed);
  }
  store_column_scales(s, unit, scales);
}

/* ---- Rows ---- */

/* The scales of all pieces of a row, in the lanes that have the first ones. */
static MlirValue join_scales(quantize_t *s, MlirValue scales) {
  moe__builder_t *b = &s->kernel.builder;
  int single = s->tiles.elements.per_word, pieces = moe__cast_pieces(&s->tiles);
  MlirValue joint = scales;
  for (int i = 1; i < pieces; i++) {
    MlirValue lane = moe__add(b, s->tiles.lane, moe__i32(b, i * MOE__WARP / pieces));
    joint = moe__or(b, joint, moe__shl(b, moe__shuffle(b, scales, lane), 8 * single * i));
  }
  return joint;
}

/* ---- Row scales of a run ----
 *
 * A tile has four bytes of scales for each of its rows, in lines of their own: stores of so little cost
 * the memory as much as whole ones. A block therefore takes the tiles of 512 columns in turn, keeps
 * their scales, and stores 16 bytes for each row. With 1024 columns they are whole sectors, but there are
 * half as many runs, which divide worse among the blocks. */

/* Puts the unit's scales down. */
static void stage_row_scales(quantize_t *s, const moe__cast_unit_t *unit, MlirValue scales) {
  moe__builder_t *b = &s->kernel.builder;
  int pieces = moe__cast_pieces(&s->tiles), count = pieces * s->tiles.elements.per_word;
  MlirValue joint = join_scales(s, scales);
  MlirValue offset = moe__add(b, moe__mul(b, unit->tile_row, moe__i32(b, MOE__RUN_SCALES)),
                              moe__lshr(b, unit->run_column, BLOCK_BITS));
  moe__if_t first =
      moe__if_begin(b, moe__ult(b, s->tiles.lane, moe__i32(b, MOE__WARP / pieces)), false);
  MlirType type = count == 4 ? b->i32 : count == 2 ? b->i16 : b->i8;
  moe__store(b, count == 4 ? joint : moe__trunc(b, joint, type),
             moe__offset_by(b, moe__offset(b, s->kernel.shared, offset), s->staging));
  moe__if_end(b, &first);
}

/* Copies `bytes` (i32) by elements of this type. */
static void copy_scales(moe__builder_t *b, MlirType type, int element_bytes, MlirValue bytes,
                        MlirValue from, MlirValue to) {
  moe__for_t loop = moe__for_begin(b, moe__i32(b, 0), bytes, moe__i32(b, element_bytes), 0, NULL);
  moe__store(b, moe__load(b, moe__offset(b, from, loop.index), type),
             moe__offset(b, to, loop.index));
  moe__for_end(b, &loop, NULL);
}

/* Stores what has been put down: a thread for each row. */
static void store_run_scales(void *user, MlirValue batch, MlirValue row, MlirValue column) {
  quantize_t *s = user;
  moe__builder_t *b = &s->kernel.builder;
  moe__cast_tiles_t *tiles = &s->tiles;
  MlirValue blocks = moe__lshr(b, tiles->tensors[0].k.value, BLOCK_BITS);
  MlirValue first = moe__lshr(b, column, BLOCK_BITS);
  MlirValue bytes =
      moe__umin(b, moe__sub(b, blocks, first), moe__i32(b, tiles->run * tiles->tile_k / BLOCK));
  MlirValue rows = moe__umin(b, moe__sub(b, tiles->n.value, row), moe__i32(b, tiles->tile_n));
  moe__for_t loop =
      moe__for_begin(b, s->kernel.thread, rows, moe__i32(b, tiles->warps * MOE__WARP), 0, NULL);
  moe__cast_unit_t unit = {.direction = MOE__ROWS, .batch = batch};
  MlirValue to =
      scale_address(s, &unit, tiles->n.value, blocks, moe__add(b, row, loop.index), first);
  MlirValue offset = moe__mul(b, loop.index, moe__i32(b, MOE__RUN_SCALES));
  MlirValue from = moe__offset_by(b, moe__offset(b, s->kernel.shared, offset), s->staging);
  /* Where rows and runs of scales begin at multiples of so many bytes. */
  MlirValue begins = moe__or(b, blocks, moe__or(b, first, bytes));
  MlirValue by_16 = moe__eq(b, moe__and(b, begins, moe__i32(b, 15)), moe__i32(b, 0));
  MlirValue by_4 = moe__eq(b, moe__and(b, begins, moe__i32(b, 3)), moe__i32(b, 0));
  moe__if_t vectors = moe__if_begin(b, by_16, true);
  copy_scales(b, moe__vector_type(b, 4, b->i32), 16, bytes, from, to);
  moe__else(b, &vectors);
  moe__if_t words = moe__if_begin(b, by_4, true);
  copy_scales(b, b->i32, 4, bytes, from, to);
  moe__else(b, &words);
  copy_scales(b, b->i8, 1, bytes, from, to);
  moe__if_end(b, &words);
  moe__if_end(b, &vectors);
  moe__for_end(b, &loop, NULL);
}

static void quantize_rows(quantize_t *s, const moe__cast_unit_t *unit, const MlirValue *words) {
  moe__builder_t *b = &s->kernel.builder;
  const moe__elements_t *elements = &s->tiles.elements;
  int count = BLOCK / elements->per_word; /* words of a block */
  MlirValue packed[MOE__CAST_WORDS / 2], scales = {NULL};
  for (int block = 0; block < elements->per_word; block++) {
    const MlirValue *own = words + (ptrdiff_t)block * count;
    MlirValue amax = moe__bitcast(
        b, moe__word_amax(b, elements, moe__words_amax(b, elements, own, count)), b->f32);
    MlirValue scale = moe__mx_scale(b, amax, s->mode, s->tiles.element);
    scales = block == 0 ? scale : moe__or(b, scales, moe__shl(b, scale, 8 * block));
    MlirValue reciprocal = moe__mx_reciprocal(b, scale);
    for (int i = 0; i < BLOCK / 4; i++) {
      MlirValue four[4];
      for (int j = 0; j < 4; j++) {
        int element = 4 * i + j;
        four[j] = moe__word_element(b, elements, own[element / elements->per_word],
                                    element % elements->per_word);
      }
      packed[block * BLOCK / 4 + i] = pack(s, four, reciprocal);
    }
  }
  moe__cast_store(&s->tiles, unit, 0, packed);
  stage_row_scales(s, unit, scales);
}

static void quantize_unit(void *user, const moe__cast_unit_t *unit,
                          const MlirValue words[MOE__CAST_WORDS]) {
  quantize_t *s = user;
  if (unit->direction == MOE__COLUMNS)
    quantize_columns(s, unit, words);
  else
    quantize_rows(s, unit, words);
}

/* ---- The kernels ---- */

static bool is_dual(MlirOperation op) {
  return mlirOperationGetNumResults(op) == 4;
}

/* Whether the op quantizes along the last dimension alone, which takes no tiles. */
static bool is_stream(MlirOperation op) {
  return !is_dual(op) &&
         moe__op_integer(op, "axis") == mlirShapedTypeGetRank(moe__operand_type(op, 0)) - 1;
}

bool moe__quantize_has_kernel(MlirOperation op) {
  MlirType x = moe__operand_type(op, 0);
  int rank = (int)mlirShapedTypeGetRank(x), axis = (int)moe__op_integer(op, "axis");
  if (rank < 2 || rank > 3 || axis < rank - 2)
    return moe__error(
        op,
        "no kernel quantizes a tensor of rank %d along axis %d yet; there are kernels "
        "for rank 2 and 3 along the last dimension and the one before it",
        rank, axis);
  return moe__needs_multiple_of_16(op, "x", x, rank - 1) && moe__needs_row_major(op, "x", x) &&
         moe__needs_row_major(op, "scales", moe__result_type(op, 1)) &&
         (axis == rank - 1 ? moe__needs_row_major(op, "q", moe__result_type(op, 0))
                           : moe__needs_column_major(op, "q", moe__result_type(op, 0)));
}

bool moe__quantize_dual_has_kernel(MlirOperation op) {
  if (moe__fp8_of(moe__result_type(op, 0)) != moe__fp8_of(moe__result_type(op, 2)))
    return moe__error(op, "the kernel writes 'q' and 'q_t' with one element type; give both the "
                          "same, or use a quantize for each");
  return moe__needs_row_major(op, "x", moe__operand_type(op, 0)) &&
         moe__needs_row_major(op, "q", moe__result_type(op, 0)) &&
         moe__needs_row_major(op, "scales", moe__result_type(op, 1)) &&
         moe__needs_column_major(op, "q_t", moe__result_type(op, 2)) &&
         moe__needs_row_major(op, "scales_t", moe__result_type(op, 3));
}

static void add_parameters(quantize_t *s, MlirOperation op) {
  moe__kernel_t *kernel = &s->kernel;
  moe__cast_tiles_t *tiles = &s->tiles;
  /* Tensors are counted from x, 0; results are q and scales of each direction. */
  int q[2] = {1, 1}, scales[2] = {2, 2},
      last = (int)mlirShapedTypeGetRank(moe__operand_type(op, 0)) - 1;
  if (is_dual(op)) {
    q[MOE__COLUMNS] = 3;
    scales[MOE__COLUMNS] = 4;
  }
  tiles->tensor_count = 1;
  tiles->tensors[0] = (moe__cast_tensor_t){
      .type = moe__operand_type(op, 0),
      .q = {[MOE__ROWS] = q[MOE__ROWS], [MOE__COLUMNS] = q[MOE__COLUMNS]},
  };
  moe__cast_tiles_parameters(tiles, moe__result_type(op, 0));
  for (int direction = 0; direction < 2; direction++)
    if (tiles->writes[direction])
      s->scales[direction] = moe__kernel_pointer(kernel, scales[direction]);
  moe__kernel_require(kernel, 0, last - 1, "multiple_of", BLOCK);
  moe__kernel_require(kernel, 0, last, "multiple_of", tiles->writes[MOE__ROWS] ? BLOCK : MULTIPLE);
}

static bool lower(MlirOperation function, MlirOperation op, MlirBlock gpu_module_body) {
  quantize_t s = {0};
  moe__directions_t directions = {.rows = is_dual(op), .columns = true};
  if (!moe__mx_mode_from_name(moe__op_string(op, "mode"), &s.mode) ||
      !moe__cast_kernel_begin(&s.kernel, &s.tiles, op, directions, 0))
    return false;
  add_parameters(&s, op);
  moe__cast_t cast = {.user = &s, .cast = quantize_unit};
  if (is_dual(op)) {
    s.tiles.run = MOE__RUN_SCALES * BLOCK / s.tiles.tile_k;
    s.staging = moe__kernel_shared(&s.kernel, s.tiles.tile_n * MOE__RUN_SCALES, 16);
    cast.finish = store_run_scales;
  }
  moe__cast_kernel_end(&s.tiles, &cast, function, gpu_module_body);
  return true;
}

bool moe__lower_quantize(MlirOperation function, MlirOperation op, MlirBlock gpu_module_body) {
  /* Its schedule may have been written by hand. */
  return moe__quantize_has_kernel(op) &&
         (is_stream(op) ? moe__lower_quantize_stream : lower)(function, op, gpu_module_body);
}

bool moe__lower_quantize_dual(MlirOperation function, MlirOperation op, MlirBlock gpu_module_body) {
  return moe__quantize_dual_has_kernel(op) && lower(function, op, gpu_module_body);
}
