/* Schedule.c - see Schedule.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "passes/Schedule.h"

#include "lib/Builder/Builder.h"
#include "lib/Builder/Inspect.h"
#include "lib/Kernel/Vectors.h"

#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/BuiltinTypes.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What one block may have on sm_90: 227 KB, less room for barriers. Per SM 228 KB, 1 KB of it
 * reserved per block. */
#define SHARED_PER_BLOCK (227 * 1024)
#define SHARED_PER_SM (228 * 1024)
#define SHARED_RESERVED 1024
#define SHARED_BARRIERS 256
#define SHARED_BARRIERS_ALIGNED 1024 /* where a swizzled tile follows them */

/* Each quarter of a multiprocessor has registers of its own, and of all warps every fourth; a thread's
 * come in portions of 8. */
#define QUARTERS 4
#define REGISTERS_PER_QUARTER 16384

/* Rows and columns of a box of a tensor map. */
#define MAX_BOX 256

/* Code is written for each strip that a warp has of a tile. */
#define MAX_STRIPS 16

/* ---- Fields ---- */

typedef struct field_t {
  const char *name;
  size_t offset;
  int least, most;
} field_t;

#define QUANTIZE_FIELD(field, least, most)                                                         \
  {#field, offsetof(moe__quantize_schedule_t, field), least, most},
static const field_t QUANTIZE_FIELDS[] = {MOE__QUANTIZE_SCHEDULE(QUANTIZE_FIELD){0}};
#define ROWS_FIELD(field, least, most) {#field, offsetof(moe__rows_schedule_t, field), least, most},
static const field_t ROWS_FIELDS[] = {MOE__ROWS_SCHEDULE(ROWS_FIELD){0}};
#define SCALE_FIELD(field, least, most)                                                            \
  {#field, offsetof(moe__scale_schedule_t, field), least, most},
static const field_t SCALE_FIELDS[] = {MOE__SCALE_SCHEDULE(SCALE_FIELD){0}};
#define BLOCKS_FIELD(field, least, most)                                                           \
  {#field, offsetof(moe__blocks_schedule_t, field), least, most},
static const field_t BLOCKS_FIELDS[] = {MOE__BLOCKS_SCHEDULE(BLOCKS_FIELD){0}};
#define STREAM_FIELD(field, least, most)                                                           \
  {#field, offsetof(moe__stream_schedule_t, field), least, most},
static const field_t STREAM_FIELDS[] = {MOE__STREAM_SCHEDULE(STREAM_FIELD){0}};
#define DEQUANTIZE_FIELD(field, least, most)                                                       \
  {#field, offsetof(moe__dequantize_schedule_t, field), least, most},
static const field_t DEQUANTIZE_FIELDS[] = {MOE__DEQUANTIZE_SCHEDULE(DEQUANTIZE_FIELD){0}};
#define PACK_FIELD(field, least, most) {#field, offsetof(moe__pack_schedule_t, field), least, most},
static const field_t PACK_FIELDS[] = {MOE__PACK_SCHEDULE(PACK_FIELD){0}};
#define MOVE_FIELD(field, least, most) {#field, offsetof(moe__move_schedule_t, field), least, most},
static const field_t MOVE_FIELDS[] = {MOE__MOVE_SCHEDULE(MOVE_FIELD){0}};
#define GROUPED_FIELD(field, least, most)                                                          \
  {#field, offsetof(moe__grouped_schedule_t, field), least, most},
static const field_t GROUPED_FIELDS[] = {MOE__GROUPED_SCHEDULE(GROUPED_FIELD){0}};

static bool is_field(const field_t *fields, MlirStringRef name) {
  for (; fields->name; fields++)
    if (mlirStringRefEqual(name, mlirStringRefCreateFromCString(fields->name)))
      return true;
  return false;
}

static bool read_fields(MlirOperation op, const field_t *fields, void *out) {
  MlirAttribute dictionary = moe__op_attribute(op, "schedule");
  if (mlirAttributeIsNull(dictionary) || !mlirAttributeIsADictionary(dictionary))
    return moe__error(op, "'schedule' must be a dictionary of integers");
  for (intptr_t i = 0; i < mlirDictionaryAttrGetNumElements(dictionary); i++) {
    MlirNamedAttribute entry = mlirDictionaryAttrGetElement(dictionary, i);
    MlirStringRef name = mlirIdentifierStr(entry.name);
    if (!is_field(fields, name))
      return moe__error(op, "'schedule' has no field '%.*s'", (int)name.length, name.data);
    if (!mlirAttributeIsAInteger(entry.attribute))
      return moe__error(op, "'schedule.%.*s' must be an integer", (int)name.length, name.data);
  }
  for (; fields->name; fields++) {
    int64_t value = moe__dictionary_integer(dictionary, fields->name, INT64_MIN);
    if (value == INT64_MIN)
      return moe__error(op, "'schedule' lacks the field '%s'", fields->name);
    if (value < fields->least || value > fields->most)
      return moe__error(op, "'schedule.%s' is %lld; it must be between %d and %d", fields->name,
                        (long long)value, fields->least, fields->most);
    int narrow = (int)value;
    memcpy((char *)out + fields->offset, &narrow, sizeof narrow);
  }
  return true;
}

static void write_fields(MlirOperation op, const field_t *fields, const void *schedule) {
  char *text = NULL;
  size_t length = 0;
  FILE *out = open_memstream(&text, &length);
  if (!out)
    abort();
  const char *separator = "{";
  for (; fields->name; fields++) {
    int value = 0;
    memcpy(&value, (const char *)schedule + fields->offset, sizeof value);
    fprintf(out, "%s%s = %d", separator, fields->name, value);
    separator = ", ";
  }
  fputc('}', out);
  fclose(out);
  moe__op_set_attribute(op, "schedule", moe__attribute(mlirOperationGetContext(op), "%s", text));
  free(text);
}

static bool check_shared_memory(MlirOperation op, int bytes, int blocks_per_sm) {
  if (bytes <= SHARED_PER_BLOCK && blocks_per_sm * (bytes + SHARED_RESERVED) <= SHARED_PER_SM)
    return true;
  return moe__error(
      op,
      "'schedule' needs %d bytes of shared memory in each of %d blocks; a multiprocessor has %d",
      bytes, blocks_per_sm, SHARED_PER_SM);
}

/* Two tables of the groups. */
static int table_bytes(int max_groups) {
  return 2 * 4 * ((max_groups + 31) / 32 * 32);
}

/* What a thread needs that holds so many vectors of 16 bytes: the rest is for what is done with
 * them. */
#define REGISTERS(vectors) (4 * (vectors) + 32)
#define STREAM_REGISTERS(vectors) (4 * (vectors) + 24) /* where addresses follow from one number */

/* What is left to each thread where so many warps share a multiprocessor. */
static int registers_left(int warps) {
  int of_quarter = (warps + QUARTERS - 1) / QUARTERS;
  return REGISTERS_PER_QUARTER / (32 * of_quarter) / 8 * 8;
}

static bool check_registers(MlirOperation op, int warps, int blocks_per_sm, int needed) {
  int all = warps * blocks_per_sm, registers = registers_left(all);
  return registers >= needed ||
         moe__error(op, "'schedule' leaves %d registers to each of %d threads; the kernel needs %d",
                    registers, 32 * all, needed);
}

/* ---- Quantization ---- */

/* Bytes of an element of x, operand 0. */
static int element_bytes_of(MlirOperation op) {
  MlirType x = mlirValueGetType(mlirOperationGetOperand(op, 0));
  return mlirTypeIsABF16(mlirShapedTypeGetElementType(x)) ? 2 : 4;
}

/* The registers of a thread below which ptxas spills. Casts have factors besides, those of all strips
 * of a warp, and where rows of several groups meet, casts of each. */
static int registers_needed(MlirOperation op, bool bf16, bool grouped, int strips) {
  bool cast = moe__op_is(op, "mx_quantize.cast_fp8") ||
              moe__op_is(op, "mx_quantize.cast_fp8_dual") ||
              moe__op_is(op, "mx_quantize.cast_fp8_pair");
  if (!cast)
    return 64;
  return (bf16 ? 80 : 56) + (grouped ? 16 : 0) + 40 * (strips - 1);
}

bool moe__quantize_schedule_read(MlirOperation op, moe__directions_t directions, int max_groups,
                                 moe__quantize_schedule_t *out) {
  if (!read_fields(op, QUANTIZE_FIELDS, out))
    return false;
  int element_bytes = element_bytes_of(op), box_k = 128 / element_bytes;
  int rows = directions.columns ? 128 : 32;
  if (out->tile_n % rows)
    return moe__error(op, "'schedule.tile_n' is %d; it must be a multiple of %d", out->tile_n,
                      rows);
  if (directions.columns && out->tile_k > MAX_BOX)
    return moe__error(op,
                      "'schedule.tile_k' is %d; with a column-major result it must be at most %d",
                      out->tile_k, MAX_BOX);
  if (out->tile_k % box_k)
    return moe__error(op, "'schedule.tile_k' is %d; it must be a multiple of %d", out->tile_k,
                      box_k);
  int items = out->tile_n / 32 * (out->tile_k / box_k);
  if (items % out->warps)
    return moe__error(
        op, "'schedule.warps' is %d; it must divide the tile's %d strips of 32 rows and 128 bytes",
        out->warps, items);
  if (directions.rows && directions.columns && out->output_stages != 1)
    return moe__error(
        op,
        "'schedule.output_stages' is %d; it must be 1 where both results are written, "
        "which take turns",
        out->output_stages);
  if (items / out->warps > MAX_STRIPS)
    return moe__error(op,
                      "'schedule.warps' is %d; a warp may have at most %d of the tile's %d strips",
                      out->warps, MAX_STRIPS, items);
  int tile = out->tile_n * out->tile_k, results = directions.rows + directions.columns;
  if (!check_shared_memory(op,
                           tile * (out->stages * element_bytes + out->output_stages * results) +
                               SHARED_BARRIERS + table_bytes(max_groups) +
                               (results == 2 ? out->tile_n * MOE__RUN_SCALES : 0),
                           out->blocks_per_sm))
    return false;
  return check_registers(
      op, out->warps + 1, out->blocks_per_sm,
      registers_needed(op, element_bytes == 2, max_groups > 0, items / out->warps));
}

void moe__quantize_schedule_write(MlirOperation op, const moe__quantize_schedule_t *schedule) {
  write_fields(op, QUANTIZE_FIELDS, schedule);
}

/* ---- Quantization row by row ---- */

bool moe__rows_schedule_read(MlirOperation op, moe__rows_schedule_t *out) {
  if (!read_fields(op, ROWS_FIELDS, out))
    return false;
  /* Two barriers for each stage; what each warp found. */
  int bytes = out->buffer_kb * 1024 + 16 * out->stages + 4 * out->warps;
  return check_shared_memory(op, bytes, out->blocks_per_sm);
}

void moe__rows_schedule_write(MlirOperation op, const moe__rows_schedule_t *schedule) {
  write_fields(op, ROWS_FIELDS, schedule);
}

/* ---- The first of two passes ---- */

bool moe__scale_schedule_read(MlirOperation op, moe__scale_schedule_t *out) {
  if (!read_fields(op, SCALE_FIELDS, out))
    return false;
  if (out->rows_per_warp & (out->rows_per_warp - 1))
    return moe__error(op, "'schedule.rows_per_warp' is %d; it must be a power of two",
                      out->rows_per_warp);
  /* A row is a vector of each thread. */
  return check_registers(op, out->warps, out->blocks_per_sm, REGISTERS(out->rows_per_warp));
}

void moe__scale_schedule_write(MlirOperation op, const moe__scale_schedule_t *schedule) {
  write_fields(op, SCALE_FIELDS, schedule);
}

/* ---- Streams: quantization in blocks, dequantization ---- */

static bool check_vectors(MlirOperation op, int vectors) {
  return vectors <= MOE__MAX_VECTORS ||
         moe__error(op, "'schedule' gives each thread %d vectors; it may have at most %d", vectors,
                    MOE__MAX_VECTORS);
}

/* A thread takes one column of vectors of the tile, which are `columns` wide. */
static bool check_dequantize_rows(MlirOperation op, int columns,
                                  const moe__dequantize_schedule_t *s) {
  if (s->tile_k % columns)
    return moe__error(op, "'schedule.tile_k' is %d; it must be a multiple of %d", s->tile_k,
                      columns);
  int lanes = s->tile_k / columns, threads = s->warps * 32;
  if (threads % lanes)
    return moe__error(op, "'schedule.tile_k' is %d; its %d vectors must divide the %d threads",
                      s->tile_k, lanes, threads);
  int step = threads / lanes;
  if (s->tile_n % step)
    return moe__error(op,
                      "'schedule.tile_n' is %d; it must be a multiple of %d, the rows that the "
                      "threads take at once",
                      s->tile_n, step);
  return check_vectors(op, s->tile_n / step) &&
         check_registers(op, s->warps, s->blocks_per_sm, REGISTERS(s->tile_n / step));
}

/* Threads bring in vectors of 16 rows, eight to 128; warps take items of 16 rows x 128 bytes. */
static bool check_dequantize_columns(MlirOperation op, int columns,
                                     const moe__dequantize_schedule_t *s) {
  int item_k = 8 * columns;
  if (s->tile_n % 128)
    return moe__error(op, "'schedule.tile_n' is %d; it must be a multiple of 128", s->tile_n);
  if (s->tile_k % item_k)
    return moe__error(op, "'schedule.tile_k' is %d; it must be a multiple of %d", s->tile_k,
                      item_k);
  int items = s->tile_n / 16 * (s->tile_k / item_k);
  if (items % s->warps || s->tile_k % (4 * s->warps))
    return moe__error(op,
                      "'schedule.warps' is %d; it must divide the tile's %d items of 16 rows and "
                      "128 bytes, and a quarter of its columns",
                      s->warps, items);
  int vectors = s->tile_n * s->tile_k / 16 / (32 * s->warps);
  /* As a lane it has 4 rows of 16 bytes of x, in fp32 twice that, besides what they are made of. */
  int needed = REGISTERS(vectors) > 64 ? REGISTERS(vectors) : 64;
  return check_vectors(op, vectors) && check_registers(op, s->warps, s->blocks_per_sm, needed);
}

bool moe__dequantize_schedule_read(MlirOperation op, int element_bytes, bool columns,
                                   int max_groups, moe__dequantize_schedule_t *out) {
  if (!read_fields(op, DEQUANTIZE_FIELDS, out))
    return false;
  int vector = 16 / element_bytes; /* columns in 16 bytes of x */
  int shared = columns ? out->tile_n * (out->tile_k + (max_groups ? 4 : 0)) : 0;
  return (columns ? check_dequantize_columns : check_dequantize_rows)(op, vector, out) &&
         check_shared_memory(op, shared + table_bytes(max_groups), out->blocks_per_sm);
}

bool moe__blocks_schedule_read(MlirOperation op, int element_bytes, moe__blocks_schedule_t *out) {
  if (!read_fields(op, BLOCKS_FIELDS, out))
    return false;
  int vectors = 128 * 128 * element_bytes / MOE__VECTOR_BYTES / 32;
  if (vectors % out->warps)
    return moe__error(op,
                      "'schedule.warps' is %d; it must divide the %d vectors of the lanes of a "
                      "block of 128 x 128",
                      out->warps, vectors);
  return check_vectors(op, vectors / out->warps) &&
         check_registers(op, out->warps, out->blocks_per_sm, REGISTERS(vectors / out->warps));
}

void moe__blocks_schedule_write(MlirOperation op, const moe__blocks_schedule_t *schedule) {
  write_fields(op, BLOCKS_FIELDS, schedule);
}

bool moe__stream_schedule_read(MlirOperation op, int element_bytes, moe__stream_schedule_t *out) {
  if (!read_fields(op, STREAM_FIELDS, out))
    return false;
  /* Of a chunk a lane has 32 elements. */
  int vectors = out->chunks * 32 * element_bytes / MOE__VECTOR_BYTES;
  return check_vectors(op, vectors) &&
         check_registers(op, out->warps, out->blocks_per_sm, STREAM_REGISTERS(vectors));
}

void moe__stream_schedule_write(MlirOperation op, const moe__stream_schedule_t *schedule) {
  write_fields(op, STREAM_FIELDS, schedule);
}

void moe__dequantize_schedule_write(MlirOperation op, const moe__dequantize_schedule_t *schedule) {
  write_fields(op, DEQUANTIZE_FIELDS, schedule);
}

/* ---- Layouts ---- */

bool moe__pack_schedule_read(MlirOperation op, int max_groups, moe__pack_schedule_t *out) {
  if (!read_fields(op, PACK_FIELDS, out) ||
      !check_registers(op, out->warps, out->blocks_per_sm, REGISTERS(4)))
    return false;
  if (out->tile_columns % 16)
    return moe__error(op, "'schedule.tile_columns' is %d; it must be a multiple of 16",
                      out->tile_columns);
  if (out->tile_columns / 4 % out->warps)
    return moe__error(op, "'schedule.warps' is %d; it must divide the %d tiles of 128 x 4",
                      out->warps, out->tile_columns / 4);
  return check_shared_memory(op, 128 * (out->tile_columns + 4) + table_bytes(max_groups),
                             out->blocks_per_sm);
}

void moe__pack_schedule_write(MlirOperation op, const moe__pack_schedule_t *schedule) {
  write_fields(op, PACK_FIELDS, schedule);
}

bool moe__move_schedule_read(MlirOperation op, int max_groups, moe__move_schedule_t *out) {
  return read_fields(op, MOVE_FIELDS, out) &&
         check_registers(op, out->warps, out->blocks_per_sm, REGISTERS(out->vectors)) &&
         check_shared_memory(op, 2 * table_bytes(max_groups), out->blocks_per_sm);
}

void moe__move_schedule_write(MlirOperation op, const moe__move_schedule_t *schedule) {
  write_fields(op, MOVE_FIELDS, schedule);
}

/* ---- Products of groups ---- */

bool moe__grouped_schedule_read(MlirOperation op, int max_groups, bool promoted, bool gradient,
                                moe__grouped_schedule_t *out) {
  if (!read_fields(op, GROUPED_FIELDS, out))
    return false;
  int unit = out->swap_operands ? 16 : 64;
  if (out->tile_n % unit)
    return moe__error(op, "'schedule.tile_n' is %d; it must be a multiple of %d", out->tile_n,
                      unit);
  if (out->swap_operands && gradient)
    return moe__error(op, "'schedule.swap_operands' is 1; it must be 0 where groups are ranges of "
                          "the reduction");
  if (out->swap_operands && out->cluster > 1)
    return moe__error(op, "'schedule.cluster' is %d; it must be 1 where operands are swapped",
                      out->cluster);
  /* Two accumulators of 64 x tile_n in 224 registers a thread, with room for addresses. */
  if (promoted && out->tile_n > 192)
    return moe__error(op, "'schedule.tile_n' is %d; with promoted sums it must be at most 192",
                      out->tile_n);
  /* Where groups end, their tiles, and of the gradient their order. The epilogue has room for 8 warps
   * to bring results in order, and for scales and a bias of the columns of each warpgroup. What a gradient
   * notes to clear, 24 bytes a stage, lies beside the barriers, in front of the slots. */
  int tables = table_bytes(max_groups) / 2 * (gradient ? 3 : 2);
  int epilogue = 8 * 2048 + 2 * out->tile_n * 4 * 2, slots = 32 * (out->stages + 1);
  return check_shared_memory(op,
                             out->stages * (128 + out->tile_n) * 128 + SHARED_BARRIERS_ALIGNED +
                                 epilogue + slots + tables,
                             1);
}

void moe__grouped_schedule_write(MlirOperation op, const moe__grouped_schedule_t *schedule) {
  write_fields(op, GROUPED_FIELDS, schedule);
}
