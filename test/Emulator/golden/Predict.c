/* Predict.c - what the emulator's modules say a probe writes.
 *
 * Why it exists: see Predict.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "test/Emulator/golden/Predict.h"

#include "lib/Emulator/Machine/Half.h"
#include "lib/Emulator/Machine/Tma.h"
#include "lib/Emulator/Machine/Wgmma.h"
#include "moe/reference.h"
#include "test/Emulator/golden/Codes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void require(bool condition, const json_t *function, const char *what) {
  if (condition)
    return;
  fprintf(stderr, "%s: %s\n", json_string_value(json_object_get(function, "name")), what);
  exit(1);
}

static const json_t *launch_of(const json_t *function) {
  return json_array_get(json_object_get(function, "launches"), 0);
}

static const json_t *attribute(const json_t *function, const char *name) {
  const json_t *op = json_object_get(launch_of(function), "op");
  return json_object_get(json_object_get(op, "attributes"), name);
}

static int integer(const json_t *function, const char *name) {
  return (int)json_integer_value(attribute(function, name));
}

static uint32_t bits_of(float x) {
  uint32_t bits = 0;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static float float_of(uint32_t bits) {
  float x = 0;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* 0..3 of "none", "32B", "64B", "128B". */
static moe__emu_swizzle_t swizzle_of(const char *name) {
  static const char *const names[] = {"none", "32B", "64B", "128B"};
  int i = 0;
  while (i < 3 && strcmp(names[i], name) != 0)
    i++;
  return (moe__emu_swizzle_t)i;
}

/* ---- wgmma ---- */

enum { CODED_BYTES = 32768 };

static float a_matrix[MOE__EMU_WGMMA_M * MOE__EMU_WGMMA_MAX_K];
static float b_matrix[MOE__EMU_WGMMA_MAX_K * MOE__EMU_WGMMA_MAX_N];
static float d_matrix[MOE__EMU_WGMMA_M * MOE__EMU_WGMMA_MAX_N];

/* The type of this name in PTX ("e4m3"), -1 if there is none. */
static int type_from_name(const char *name) {
#define MOE__EMU_WGMMA_TYPE(constant, name, bits) name,
  static const char *const names[] = {MOE__EMU_WGMMA_TYPES(MOE__EMU_WGMMA_TYPE)};
#undef MOE__EMU_WGMMA_TYPE
  int type = (int)(sizeof names / sizeof *names) - 1;
  while (type >= 0 && strcmp(name, names[type]) != 0)
    type--;
  return type;
}

static moe__emu_wgmma_shape_t shape_of(const json_t *function) {
  const int type = type_from_name(json_string_value(attribute(function, "type")));
  require(type >= 0, function, "has an unknown type");
  const bool wide = type == MOE__EMU_WGMMA_BF16 || type == MOE__EMU_WGMMA_F16;
  return (moe__emu_wgmma_shape_t){.a = (moe__emu_wgmma_type_t)type,
                                  .b = (moe__emu_wgmma_type_t)type,
                                  .n = integer(function, "n"),
                                  .k = wide ? 16 : 32};
}

static uint32_t operand_code(int k, uint32_t word) {
  return k == 16 ? golden_operand_code16(word) : golden_operand_code8(word);
}

/* The other operand: one where k = row (or column) mod K. */
static void select_a(const moe__emu_wgmma_shape_t *shape) {
  for (int i = 0; i < MOE__EMU_WGMMA_M * shape->k; i++)
    a_matrix[i] = i % shape->k == i / shape->k % shape->k ? 1.0F : 0.0F;
}

static void select_b(const moe__emu_wgmma_shape_t *shape) {
  for (int i = 0; i < shape->k * shape->n; i++)
    b_matrix[i] = i / shape->n == i % shape->n % shape->k ? 1.0F : 0.0F;
}

/* The registers of all threads, thread by thread. */
static void product(const moe__emu_wgmma_shape_t *shape, bool accumulate, int scale_a, int scale_b,
                    uint32_t *words) {
  moe__emu_wgmma_multiply(shape, MOE__EMU_WGMMA_M, a_matrix, b_matrix, accumulate, scale_a, scale_b,
                          d_matrix);
  const int registers = shape->n / 2;
  for (int i = 0; i < MOE__EMU_WGMMA_THREADS * registers; i++) {
    int row = 0;
    int column = 0;
    moe__emu_wgmma_d_element(i / registers, i % registers, &row, &column);
    words[i] = bits_of(d_matrix[row * shape->n + column]);
  }
}

static void predict_layout(const json_t *function, uint32_t *words) {
  static const uint64_t modes[] = {0, 3, 2, 1};
  static uint8_t coded[CODED_BYTES];
  moe__emu_wgmma_shape_t shape = shape_of(function);
  const bool is_b = strcmp(json_string_value(attribute(function, "operand")), "b") == 0;
  const bool mn_major = json_is_true(attribute(function, "mn_major"));
  shape.a_mn_major = !is_b && mn_major;
  shape.b_mn_major = is_b && mn_major;
  for (uint32_t i = 0; i < CODED_BYTES / 4; i++) {
    const uint32_t code = operand_code(shape.k, i);
    memcpy(coded + (size_t)4 * i, &code, sizeof code);
  }
  const char *swizzle = json_string_value(attribute(function, "swizzle"));
  const uint64_t descriptor = (uint64_t)integer(function, "start") / 16 |
                              (uint64_t)integer(function, "leading") / 16 << 16 |
                              (uint64_t)integer(function, "stride") / 16 << 32 |
                              modes[swizzle_of(swizzle)] << 62;
  moe__emu_error_t error = {""};
  moe__emu_wgmma_operand_t operand;
  require(moe__emu_wgmma_shape_check(&shape, &error) &&
              moe__emu_wgmma_descriptor(&shape, is_b, descriptor, &operand, &error),
          function, error.text);
  select_a(&shape);
  select_b(&shape);
  for (int chunk = 0; chunk < moe__emu_wgmma_chunk_count(&operand); chunk++) {
    const uint32_t address = moe__emu_wgmma_chunk_address(&operand, chunk);
    require(address + MOE__EMU_CHUNK <= CODED_BYTES, function, "reads past the coded memory");
    moe__emu_wgmma_unpack_chunk(&operand, is_b, chunk, coded + address, is_b ? b_matrix : a_matrix);
  }
  product(&shape, false, 1, 1, words);
}

static void predict_register_a(const json_t *function, uint32_t *words) {
  const moe__emu_wgmma_shape_t shape = shape_of(function);
  for (uint32_t thread = 0; thread < MOE__EMU_WGMMA_THREADS; thread++) {
    uint32_t registers[MOE__EMU_WGMMA_A_REGISTERS];
    for (uint32_t i = 0; i < MOE__EMU_WGMMA_A_REGISTERS; i++)
      registers[i] = operand_code(shape.k, thread * MOE__EMU_WGMMA_A_REGISTERS + i);
    moe__emu_wgmma_unpack_registers(shape.a, (int)thread, registers, a_matrix);
  }
  select_b(&shape);
  product(&shape, false, 1, 1, words);
}

static void predict_scaled(const json_t *function, uint32_t *words) {
  const moe__emu_wgmma_shape_t shape = shape_of(function);
  select_a(&shape);
  for (int i = 0; i < shape.k * shape.n; i++)
    b_matrix[i] = 1.0F;
  for (int i = 0; i < MOE__EMU_WGMMA_THREADS * shape.n / 2; i++) {
    int row = 0;
    int column = 0;
    moe__emu_wgmma_d_element(i / 4, i % 4, &row, &column);
    d_matrix[row * shape.n + column] = (float)(i % 4);
  }
  const json_t *scales = attribute(function, "scales");
  product(&shape, true, (int)json_integer_value(json_array_get(scales, 0)),
          (int)json_integer_value(json_array_get(scales, 1)), words);
}

/* ---- Tile copies ---- */

enum { X_ADDRESS = 1 << 20, MAX_SHARED_BYTES = 1 << 15 };

typedef struct copy_t {
  const moe__emu_tma_map_t *map;
  uint8_t *global, *shared;
} copy_t;

static bool load_run(void *context, const moe__emu_tma_run_t *run) {
  const copy_t *copy = context;
  if (run->inside)
    memcpy(copy->shared + run->shared, copy->global + (run->global - X_ADDRESS), run->bytes);
  else
    moe__emu_tma_fill(copy->map, copy->shared + run->shared, run->bytes);
  return true;
}

static bool store_run(void *context, const moe__emu_tma_run_t *run) {
  const copy_t *copy = context;
  if (run->inside || run->tail)
    memcpy(copy->global + (run->global - X_ADDRESS), copy->shared + run->shared, run->bytes);
  return true;
}

static moe__emu_tma_map_t map_of(const json_t *function) {
  const json_t *map = json_array_get(json_object_get(launch_of(function), "parameters"), 0);
  const char *element = json_string_value(json_object_get(map, "element"));
  const json_t *dims = json_object_get(map, "dims");
  moe__emu_tma_map_t result = {
      .type = strcmp(element, "u8") == 0     ? MOE__EMU_TMA_U8
              : strcmp(element, "bf16") == 0 ? MOE__EMU_TMA_BF16
                                             : MOE__EMU_TMA_F32,
      .rank = (int)json_array_size(dims),
      .address = X_ADDRESS,
      .swizzle = swizzle_of(json_string_value(json_object_get(map, "swizzle"))),
      .fill = strcmp(json_string_value(json_object_get(map, "fill")), "nan") == 0
                  ? MOE__EMU_TMA_FILL_NAN
                  : MOE__EMU_TMA_FILL_ZERO,
  };
  for (size_t i = 0; i < json_array_size(dims); i++) {
    result.dims[i] = (uint64_t)json_integer_value(json_array_get(dims, i));
    result.box[i] = (uint32_t)json_integer_value(json_array_get(json_object_get(map, "box"), i));
    if (i > 0)
      result.strides[i - 1] =
          (uint64_t)json_integer_value(json_array_get(json_object_get(map, "strides"), i - 1));
  }
  return result;
}

/* The map as a kernel gets it, and the walk of its box. False where the copy is refused. */
static bool walk(const json_t *function, copy_t *copy, bool store, moe__emu_tma_visit_t visit) {
  moe__emu_tma_map_t map = map_of(function);
  uint8_t parameter[MOE__EMU_TMA_MAP_BYTES];
  moe__emu_error_t error = {""};
  const json_t *at = attribute(function, "at");
  int32_t coordinates[MOE__EMU_TMA_MAX_RANK] = {0};
  for (size_t i = 0; i < json_array_size(at); i++)
    coordinates[i] = (int32_t)json_integer_value(json_array_get(at, i));
  const uint32_t shared = (uint32_t)integer(function, "shared");
  require(moe__emu_tma_encode(&map, parameter, &error) &&
              moe__emu_tma_decode(parameter, &map, &error),
          function, error.text);
  if (!moe__emu_tma_check(&map, (int)json_array_size(at), shared, &error) ||
      !moe__emu_tma_check_coordinates(&map, coordinates, store, &error))
    return false;
  copy->map = &map;
  return moe__emu_tma_walk(&map, coordinates, shared, visit, copy);
}

static void put_words(uint8_t *to, const uint32_t *words, size_t count) {
  memcpy(to, words, count * sizeof *words);
}

static golden_prediction_t predict_load(const json_t *function, uint32_t *words, size_t count) {
  static uint32_t x[16384];
  static uint8_t shared[MAX_SHARED_BYTES];
  for (uint32_t i = 0; i < sizeof x / sizeof x[0]; i++)
    x[i] = golden_position_code(i);
  memset(shared, 0xA5, sizeof shared);
  copy_t copy = {.global = (uint8_t *)x, .shared = shared};
  if (!walk(function, &copy, false, load_run))
    return GOLDEN_FAULT;
  memcpy(words, shared, (count - 1) * 4);
  words[count - 1] = 1; /* the barrier completed */
  return GOLDEN_WORDS;
}

static golden_prediction_t predict_store(const json_t *function, uint32_t *words, size_t count) {
  static uint8_t shared[MAX_SHARED_BYTES];
  for (uint32_t i = 0; i < MAX_SHARED_BYTES / 4; i++)
    put_words(shared + (size_t)4 * i, &(uint32_t){golden_position_code(i)}, 1);
  memset(words, GOLDEN_UNTOUCHED, count * 4);
  copy_t copy = {.global = (uint8_t *)words, .shared = shared};
  return walk(function, &copy, true, store_run) ? GOLDEN_WORDS : GOLDEN_FAULT;
}

/* ---- Conversions ---- */

static void predict_fp8(uint8_t (*convert)(float), uint32_t *words, size_t count) {
  for (size_t i = 0; i < count; i++) {
    const uint32_t bits = (uint32_t)i << 17;
    words[i] = convert(float_of(bits)) | (uint32_t)convert(float_of(bits | 1)) << 8;
  }
}

static void predict_bf16(uint32_t *words, size_t count) {
  static const uint32_t tails[2][2] = {{0x8000, 0x8001}, {0x7FFF, 0x18000}};
  for (size_t i = 0; i < count; i++) {
    const uint32_t bits = (uint32_t)(i / 256 * 128 + i % 128) << 17;
    const uint32_t *tail = tails[i / 128 % 2];
    words[i] = moe_ref_bf16_from_f32(float_of(bits | tail[0])) |
               (uint32_t)moe_ref_bf16_from_f32(float_of(bits | tail[1])) << 16;
  }
}

/* Any NaN becomes the one that the hardware makes. */
static void predict_f32_from_f16(uint32_t *words, size_t count) {
  for (size_t i = 0; i < count; i++) {
    const float x = moe__emu_f32_from_f16((uint16_t)i);
    words[i] = isnan(x) ? 0x7FFFFFFF : bits_of(x);
  }
}

golden_prediction_t golden_predict(const json_t *function, uint32_t *words, size_t count) {
  const char *op =
      json_string_value(json_object_get(json_object_get(launch_of(function), "op"), "name"));
  const char *kind = strchr(op, '.') + 1;
  if (strcmp(kind, "wgmma_layout") == 0)
    predict_layout(function, words);
  else if (strcmp(kind, "wgmma_register_a") == 0)
    predict_register_a(function, words);
  else if (strcmp(kind, "wgmma_scaled") == 0)
    predict_scaled(function, words);
  else if (strcmp(kind, "tma_load") == 0)
    return predict_load(function, words, count);
  else if (strcmp(kind, "tma_store") == 0)
    return predict_store(function, words, count);
  else if (strcmp(kind, "cvt_e4m3") == 0)
    predict_fp8(moe_ref_e4m3_from_f32, words, count);
  else if (strcmp(kind, "cvt_e5m2") == 0)
    predict_fp8(moe_ref_e5m2_from_f32, words, count);
  else if (strcmp(kind, "cvt_bf16") == 0)
    predict_bf16(words, count);
  else if (strcmp(kind, "cvt_f32_f16") == 0)
    predict_f32_from_f16(words, count);
  else
    return GOLDEN_UNKNOWN;
  return GOLDEN_WORDS;
}
