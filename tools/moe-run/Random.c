/* Random.c - deterministic data for arguments that no file gives.
 *
 * Why it exists: see Random.h. Every element is a function of the seed and its index alone, so
 * threads need no order, and only integer and exact or once-rounded fp32 arithmetic is used, so all
 * machines agree.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "tools/moe-run/Random.h"

#include "tools/moe-run/Parallel.h"
#include "tools/moe-run/Report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Every EDGE_PERIOD-th run of EDGE_KINDS cells is special; a prime, so that they fall on all
 * places of a tile. Where there are fewer cells, which kinds there are depends on the seed. */
enum { EDGE_KINDS = 22, EDGE_PERIOD = 61, FEW_STEP = 7, ROWS_PER_TASK = 64 };
/* The kinds from here on have an amax next to where a scale changes. */
enum { THRESHOLD_KINDS = 16 };
/* By how much the rest of a row is less than its greatest element. */
enum { OUTLIER_EXPONENT = 4 };
/* Rows of a cell have their greatest element at that many magnitudes. */
enum { ROW_MAGNITUDES = 5 };
/* With --exact some of every so many scales are nearly as small, or as great, as fp32 has them. */
enum { EXTREME_PERIOD = 61, TINY_SCALE = 20, HUGE_SCALE = 40 };
/* Every so many groups one is spoiled by --nan-groups. */
enum { NAN_PERIOD = 3 };

/* Bit patterns of the special values of a dtype. */
typedef struct patterns_t {
  const char *dtype;
  uint32_t sign, nan, infinity, least, greatest_subnormal, least_normal, greatest;
} patterns_t;

static const patterns_t all_patterns[] = {
    {"bf16", 0x8000, 0x7FC0, 0x7F80, 0x0001, 0x007F, 0x0080, 0x7F7F},
    {"f16", 0x8000, 0x7E00, 0x7C00, 0x0001, 0x03FF, 0x0400, 0x7BFF},
    {"f32", 0x80000000, 0x7FC00000, 0x7F800000, 1, 0x007FFFFF, 0x00800000, 0x7F7FFFFF},
    {"f8E4M3FN", 0x80, 0x7F, 0x7F, 0x01, 0x07, 0x08, 0x7E},
    {"f8E5M2", 0x80, 0x7F, 0x7C, 0x01, 0x03, 0x04, 0x7B},
    {"f8E8M0FNU", 0, 0xFF, 0xFF, 0x00, 0x00, 0x00, 0xFE},
    {"ui8", 0, 0xFF, 0xFF, 0x01, 0x01, 0x01, 0xFF}, /* any byte is a number */
};

/* What becomes of a token or group: its random data, NaN, or zeros behind an aligned group. */
typedef enum fate_t { KEPT, SPOILED, CLEARED } fate_t;

typedef struct fill_t {
  const moe__run_random_t *random;
  const moe__run_tensor_t *tensor;
  const patterns_t *patterns;
  moe_ref_dtype_t dtype;
  uint64_t element_key, cell_key;
  int64_t rows, row_length; /* a row is the last logical dimension */
  int64_t cells;
  int64_t cell_strides[MOE_RT_MAX_RANK]; /* of a cell's number, by cell coordinate */
  fate_t *fates; /* NULL: all are kept; else by index along use.nan_dimension; owned */
} fill_t;

/* The output function of splitmix64 (Steele, Lea, Flood 2014). */
static uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

/* Draw number i of the splitmix64 stream that starts at key. */
static uint64_t draw(uint64_t key, int64_t i) {
  return mix(key + ((uint64_t)i + 1) * 0x9E3779B97F4A7C15u);
}

/* 2^exponent, normal. */
static float power_of_two(int exponent) {
  uint32_t bits = (uint32_t)(exponent + 127) << 23;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* Nearly normal, mean 0, variance 1: the sum of four 15-bit numbers (Irwin-Hall), within +-3.47. */
static float normal(uint64_t bits) {
  const float inverse_deviation = 1.0f / 18918.61f; /* sqrt(4 * (2^30 - 1) / 12) */
  int sum = -2 * 32767;
  for (int i = 0; i < 4; i++)
    sum += (int)(bits >> (15 * i) & 0x7FFF);
  return (float)sum * inverse_deviation;
}

/* One element in four is smaller than the rest of its cell by a power of two, so that some quantize
 * to subnormals and to zero. */
static float shrink(uint64_t bits) {
  static const int exponents[16] = {[12] = -4, [13] = -7, [14] = -10, [15] = -16};
  return power_of_two(exponents[bits >> 60]);
}

static uint32_t encode(moe_ref_dtype_t dtype, float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  switch (dtype) {
  case MOE_REF_BF16:
    return moe_ref_bf16_from_f32(x);
  case MOE_REF_F16:
    return moe_ref_f16_from_f32(x);
  case MOE_REF_E4M3:
    return moe_ref_e4m3_from_f32(x);
  case MOE_REF_E5M2:
    return moe_ref_e5m2_from_f32(x);
  case MOE_REF_E8M0: /* its exponent */
    return bits >> 23 & 0xFF;
  case MOE_REF_U8: /* bytes are drawn */
  case MOE_REF_F32:
  case MOE_REF_I32: /* offsets are made otherwise */
    break;
  }
  return bits;
}

/* x > 0 and its neighbors, `step` numbers of the dtype away, none beyond the greatest; zero where
 * x is less than those. */
static uint32_t next_to(const fill_t *fill, float x, int step) {
  const uint32_t bits = encode(fill->dtype, x), greatest = fill->patterns->greatest;
  if (bits == 0)
    return 0;
  return bits + (uint32_t)step < greatest ? bits + (uint32_t)step : greatest;
}

/* Where an element lies: in cell number `cell`, in its row and column there; rows have `columns`
 * elements, the cell `length`. */
typedef struct place_t {
  int64_t cell, row, column, columns, length;
} place_t;

/* Cells whose amax is next to a number where a formula of docs/numerics.md takes another branch:
 * by kind the exponents at which the scales of E4M3 and E5M2 become 2^-127 and 2^-126, the
 * greatest, and an ordinary one; and in turn from cell to cell each mantissa at which some mode
 * goes to the next scale, and its neighbors. Where rows and columns of a cell have scales of
 * their own, each has such an element: they lie on the diagonal. */
static uint32_t threshold_element(const fill_t *fill, int kind, const place_t *place, float x) {
  static const uint32_t fields[] = {8, 9, 15, 16, 135, 254};
  static const uint32_t mantissas[] = {0, 0x600000, 0x700000, 0x780000};
  const uint64_t seed = fill->random->seed;
  const uint32_t field = fields[kind - THRESHOLD_KINDS];
  const bool is_amax = fill->random->use.is_crossed ? place->row == place->column
                                                    : place->row == 0 && place->column == 0;
  if (!is_amax)
    return encode(fill->dtype, x * power_of_two((int)field - 127 - 3));
  const uint64_t turn = (uint64_t)(place->cell / EDGE_PERIOD) + (uint64_t)place->row + seed +
                        seed / (uint64_t)(2 * EDGE_KINDS);
  const uint32_t bits = field << 23 | mantissas[turn % 4];
  float at;
  memcpy(&at, &bits, sizeof at);
  return next_to(fill, at, (int)(turn / 4 % 4) - 1);
}

/* Element of a special cell; `bits` is its own draw. */
static uint32_t edge_element(const fill_t *fill, int kind, const place_t *place, uint64_t bits) {
  const patterns_t *p = fill->patterns;
  const int64_t at = place->row * place->columns + place->column;
  uint32_t alternating = at % 2 ? p->sign : 0;
  float x = normal(bits);
  switch (kind) {
  case 0: /* zeros */
    return encode(fill->dtype, 0.0f);
  case 1: /* negative zeros */
    return encode(fill->dtype, -0.0f);
  case 2: /* one NaN */
    return at == 7 ? p->nan : encode(fill->dtype, x);
  case 3: /* all NaN, of both signs */
    return p->nan | alternating;
  case 4: /* Inf first */
    return at == 0 ? p->infinity : encode(fill->dtype, x);
  case 5: /* -Inf last */
    return at == place->length - 1 ? p->infinity | p->sign : encode(fill->dtype, x);
  case 6: /* subnormals of both signs */
    return (p->least + (uint32_t)(bits % (p->greatest_subnormal - p->least + 1))) | alternating;
  case 7: /* the least subnormal, of both signs */
    return p->least | alternating;
  case 8: /* the least normal number */
    return p->least_normal;
  case 9: /* the greatest finite number, of both signs */
    return p->greatest | alternating;
  case 10: /* zeros and one greatest finite number, negative */
    return at == 3 ? p->greatest | p->sign : encode(fill->dtype, 0.0f);
  case 11: /* amax just fits E4M3 ... */
    return encode(fill->dtype, at == 5 ? 448.0f : x);
  case 12: /* ... just not ... */
    return encode(fill->dtype, at == 5 ? 450.0f : x);
  case 13: /* ... and rounds up to the next power of two */
    return encode(fill->dtype, at == 9 ? -480.0f : x);
  case 14: /* halfway between neighbors of E4M3, and of E5M2 */
    if (at == 0)
      return encode(fill->dtype, 256.0f);
    return encode(fill->dtype, at % 16 < 8 ? 1.0f + (float)(2 * (at % 8) + 1) / 16.0f
                                           : 1.0f + (float)(2 * (at % 4) + 1) / 8.0f);
  case 15: /* amax next to 1e-12, the least that fp32 scales take */
    return at == 0 ? next_to(fill, 1e-12f, (int)(bits % 3) - 1)
                   : encode(fill->dtype, x * power_of_two(-44));
  default:
    return threshold_element(fill, kind, place, x);
  }
}

/* A scale of a whole sum, next to an odd number of 4 bits times a power of two: results are often
 * next to where they round, so that they show in which order the scales were multiplied. */
static uint32_t exact_scale(const fill_t *fill, int64_t index, uint64_t bits) {
  if (fill->tensor->elements >= EXTREME_PERIOD && index % EXTREME_PERIOD == TINY_SCALE)
    return encode(fill->dtype, 0x1p-140f);
  if (fill->tensor->elements >= EXTREME_PERIOD && index % EXTREME_PERIOD == HUGE_SCALE)
    return encode(fill->dtype, 0x1p100f);
  const float odd = (float)(2 * (bits % 8) + 1);
  return next_to(fill, odd * power_of_two((int)((bits >> 32) % 5) - 6), bits >> 63 ? 1 : -1);
}

/* A scale of a part of a sum: sums of these, times small integers, are exact. */
static uint32_t exact_group_scale(const fill_t *fill, uint64_t bits) {
  if (fill->dtype == MOE_REF_E8M0)
    return encode(fill->dtype, power_of_two((int)(bits % 4) - 3));
  return encode(fill->dtype, (float)(2 * (bits % 8) + 1) * power_of_two((int)(bits >> 32 & 3) - 6));
}

/* Sums of products of these are exact in every format on the way, in any order. */
static uint32_t exact_element(const fill_t *fill, int64_t index, uint64_t bits) {
  const int number = (int)(bits % 5) - 2;
  if (fill->random->use.role == MOE__RUN_GROUP_SCALES)
    return exact_group_scale(fill, bits);
  if (fill->dtype == MOE_REF_E8M0)
    return encode(fill->dtype, power_of_two(number));
  if (fill->random->use.role == MOE__RUN_SCALES)
    return exact_scale(fill, index, bits);
  return encode(fill->dtype, (float)number);
}

/* In the selector each row has one 1. Any finite number is an operand: of these each is exact. */
static uint32_t one_hot_element(const fill_t *fill, int64_t index, uint64_t bits) {
  const patterns_t *p = fill->patterns;
  const int64_t row = index / fill->row_length, column = index % fill->row_length;
  if (fill->random->use.role == MOE__RUN_SELECTOR) {
    const uint64_t chosen = draw(fill->cell_key, row) % (uint64_t)fill->row_length;
    return encode(fill->dtype, (uint64_t)column == chosen ? 1.0f : 0.0f);
  }
  if (fill->random->use.role == MOE__RUN_OPERAND && fill->tensor->dtype->bits == 8)
    return (uint32_t)(bits % (p->greatest + 1)) | (bits >> 63 ? p->sign : 0);
  return exact_element(fill, index, bits);
}

/* Uniform mantissa, exponents -4 to 4. */
static float scale(uint64_t bits) {
  return power_of_two((int)((bits >> 32) % 9) - 4) * (1.0f + (float)(bits & 0x7FFFFF) * 0x1p-23f);
}

/* Which kind of special cell it is; EDGE_KINDS and more are none. */
static int edge_kind(const fill_t *fill, int64_t cell) {
  if (fill->cells >= EDGE_PERIOD)
    return (int)(cell % EDGE_PERIOD);
  return (int)((fill->random->seed + (uint64_t)cell * FEW_STEP) % (uint64_t)(2 * EDGE_KINDS));
}

/* The greatest element of a row of a cell: its exponent, relative to the cell's, and its column. */
typedef struct outlier_t {
  int exponent;
  int64_t column; /* -1: none is greater than the others */
} outlier_t;

/* Who misses the greatest element of what shares a scale takes a maximum of less than a half: one
 * element of the cell is greater than all others. The other rows have one too, of one magnitude in
 * half of them, of the next in half of the rest, and so on: of a few rows, which may be a group,
 * mostly one has the greatest. Where rows and columns of a cell have scales of their own, each has
 * one. */
static outlier_t outlier_of_row(const fill_t *fill, const place_t *place, int64_t row,
                                uint64_t of_cell) {
  const int64_t chosen = (int64_t)((of_cell >> 8) % (uint64_t)place->length);
  if (fill->random->use.is_crossed)
    return (outlier_t){0, (place->row + chosen) % place->columns};
  if (chosen / place->columns == place->row)
    return (outlier_t){0, chosen % place->columns};
  if (place->columns == 1)
    return (outlier_t){0, -1};
  const uint64_t of_row = draw(fill->cell_key, fill->cells + row);
  int steps = ROW_MAGNITUDES;
  while (steps > 1 && (of_row >> (ROW_MAGNITUDES - steps) & 1) == 0)
    steps--;
  return (outlier_t){-2 * steps, (int64_t)((of_row >> 8) % (uint64_t)place->columns)};
}

/* An element of a cell that has a magnitude of its own. */
static float cell_element(const fill_t *fill, int64_t index, const place_t *place, uint64_t bits) {
  const uint64_t of_cell = draw(fill->cell_key, place->cell);
  const int exponent = fill->random->normal ? 0 : (int)(of_cell % 33) - 20;
  const float x = fill->random->normal ? normal(bits) : normal(bits) * shrink(bits);
  if (!fill->random->edge_blocks || of_cell >> 62 == 0)
    return x * power_of_two(exponent);
  const outlier_t outlier = outlier_of_row(fill, place, index / fill->row_length, of_cell);
  const float greatest = power_of_two(exponent + outlier.exponent);
  if (outlier.column != place->column)
    return x * greatest * power_of_two(-OUTLIER_EXPONENT);
  return (bits >> 63 ? -greatest : greatest) * (1.0f + (float)(bits & 0x7FFFFF) * 0x1p-23f);
}

static uint32_t element(const fill_t *fill, int64_t index, const place_t *place) {
  uint64_t bits = draw(fill->element_key, index);
  if (fill->random->edge_blocks && edge_kind(fill, place->cell) < EDGE_KINDS)
    return edge_element(fill, edge_kind(fill, place->cell), place, bits);
  if (fill->random->use.role == MOE__RUN_BYTES)
    return (uint32_t)(bits & 0xFF);
  if (fill->random->one_hot)
    return one_hot_element(fill, index, bits);
  if (fill->random->exact)
    return exact_element(fill, index, bits);
  if (fill->random->use.role == MOE__RUN_SCALES || fill->random->use.role == MOE__RUN_GROUP_SCALES)
    return encode(fill->dtype, scale(bits));
  if (fill->random->use.role == MOE__RUN_OPERAND || fill->random->use.role == MOE__RUN_SELECTOR)
    return encode(fill->dtype, normal(bits));
  return encode(fill->dtype, cell_element(fill, index, place, bits));
}

static void store(const moe__run_tensor_t *tensor, int64_t position, uint32_t bits) {
  uint16_t half = (uint16_t)bits;
  switch (tensor->dtype->bits) {
  case 8:
    tensor->data[position] = (uint8_t)bits;
    break;
  case 16:
    memcpy(tensor->data + 2 * position, &half, sizeof half);
    break;
  default:
    memcpy(tensor->data + 4 * position, &bits, sizeof bits);
  }
}

/* How long the cell with element i is along dimension d: the tensor may end within it. */
static int64_t extent(const fill_t *fill, int d, int64_t i) {
  const int64_t cell = fill->random->use.cell[d], left = fill->tensor->shape[d] - i / cell * cell;
  return left < cell ? left : cell;
}

static void fill_row(const fill_t *fill, int64_t row) {
  const moe__run_tensor_t *tensor = fill->tensor;
  const int64_t *cell = fill->random->use.cell;
  const int last = tensor->info->rank - 1, nan = fill->random->use.nan_dimension;
  int64_t rest = row, position = 0, first_cell = 0, at = 0, length = 1;
  fate_t of_row = KEPT;
  for (int d = last - 1; d >= 0; d--) {
    const int64_t i = rest % tensor->shape[d];
    if (fill->fates && d == nan)
      of_row = fill->fates[i];
    rest /= tensor->shape[d];
    position += i * tensor->strides[d];
    first_cell += i / cell[d] * fill->cell_strides[d];
    at += i % cell[d] * length; /* row-major in the cell, in rows of it */
    length *= extent(fill, d, i);
  }
  for (int64_t i = 0; i < fill->row_length; i++, position += tensor->strides[last]) {
    const int64_t columns = extent(fill, last, i);
    const place_t place = {first_cell + i / cell[last], at, i % cell[last], columns,
                           length * columns};
    const fate_t fate = fill->fates && last == nan ? fill->fates[i] : of_row;
    uint32_t bits = fate == SPOILED ? fill->patterns->nan : 0;
    if (fate == KEPT)
      bits = element(fill, row * fill->row_length + i, &place);
    store(tensor, position, bits);
  }
}

static void fill_rows(void *context, int64_t task) {
  const fill_t *fill = context;
  int64_t end = (task + 1) * ROWS_PER_TASK < fill->rows ? (task + 1) * ROWS_PER_TASK : fill->rows;
  for (int64_t row = task * ROWS_PER_TASK; row < end; row++)
    fill_row(fill, row);
}

static int by_value(const void *a, const void *b) {
  const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
  return (x > y) - (x < y);
}

/* Makes one group's end wrong, or beyond the tokens all from one on: which one is by the seed. */
static void spoil_offsets(const moe__run_random_t *random, int64_t count, int32_t *ends) {
  const int64_t first = (int64_t)(random->seed % (uint64_t)count);
  if (random->groups == MOE__RUN_GROUPS_DECREASING)
    ends[first] = (first > 0 ? ends[first - 1] : 0) - 1;
  for (int64_t g = first; g < count && random->groups == MOE__RUN_GROUPS_BEYOND; g++) {
    const int64_t end = random->use.tokens + 1 + g - first;
    ends[g] = (int32_t)(end < INT32_MAX ? end : INT32_MAX);
  }
}

/* Ends of groups. */
static void fill_offsets(const moe__run_random_t *random, uint64_t key, int64_t count,
                         int32_t *ends) {
  static const int edge_sizes[] = {0, 1, 15, 16, 31, 63, 64, 65, 127, 128, 129};
  enum { EDGE_SIZES = sizeof edge_sizes / sizeof *edge_sizes };
  const int64_t tokens = random->use.tokens;
  const int64_t first = (int64_t)(draw(key, 0) % EDGE_SIZES);
  int64_t end = 0;
  for (int64_t g = 0; g < count; g++) {
    switch (random->groups) {
    case MOE__RUN_GROUPS_EQUAL:
    case MOE__RUN_GROUPS_DECREASING:
    case MOE__RUN_GROUPS_BEYOND:
      end = tokens * (g + 1) / count;
      break;
    case MOE__RUN_GROUPS_RAGGED:
      end = g < count - 1 ? (int64_t)(draw(key, g) % ((uint64_t)tokens + 1)) : tokens;
      break;
    case MOE__RUN_GROUPS_EDGE:
      end += edge_sizes[(first + g) % EDGE_SIZES];
      break;
    case MOE__RUN_GROUPS_ONE:
      end = g < count / 2 ? 0 : tokens;
      break;
    case MOE__RUN_GROUPS_NONE:
      break;
    }
    ends[g] = (int32_t)(end < tokens ? end : tokens);
  }
  qsort(ends, (size_t)count, sizeof *ends, by_value);
  spoil_offsets(random, count, ends);
}

/* Offsets of either kind. */
static int fill_i32(const moe__run_random_t *random, uint64_t key,
                    const moe__run_tensor_t *tensor) {
  const char *name = tensor->info->name;
  const moe__run_use_t *use = &random->use;
  if (use->tokens > INT32_MAX)
    return moe__run_input_error("argument '%s': i32 offsets do not reach %" PRId64 " tokens", name,
                                use->tokens);
  if (use->role == MOE__RUN_OFFSETS) {
    fill_offsets(random, key, tensor->elements, (int32_t *)(void *)tensor->data);
    return MOE__RUN_OK;
  }
  const moe_ref_tensor_t padded = moe__run_tensor_view(tensor);
  if (!use->offs.data ||
      moe_ref_pad_offsets(&use->offs, use->tokens, use->align, &padded) != MOE_REF_OK)
    return moe__run_input_error("argument '%s': --random cannot pad what it follows from; give "
                                "--in %s=FILE",
                                name, name);
  return MOE__RUN_OK;
}

/* ---- NaN where it must not matter ---- */

/* Whether the tensor has tokens of aligned groups, with zeros behind them. */
static bool has_aligned_tokens(const moe__run_use_t *use) {
  return use->align && use->nan == MOE__RUN_NAN_TOKENS;
}

bool moe__run_random_follows(const moe__run_random_t *random) {
  const moe__run_use_t *use = &random->use;
  return use->role == MOE__RUN_PADDED_OFFSETS || has_aligned_tokens(use) ||
         (random->nan_groups && use->nan >= MOE__RUN_NAN_TOKENS);
}

static bool is_chosen(const moe__run_random_t *random, int64_t group) {
  return random->nan_groups && (uint64_t)group % NAN_PERIOD == random->seed % NAN_PERIOD;
}

/* Where group g stands, which begins with token `start` of all groups': its first token, or its
 * first block. */
static int64_t first_of(const moe__run_use_t *use, int64_t g, int64_t start) {
  const int64_t unit = use->nan == MOE__RUN_NAN_NO_BLOCK ? use->token_block : 1;
  if (use->align)
    return (start / use->align + g) * (use->align / unit);
  return unit == 1 ? start : start / unit + g;
}

/* What becomes of `size` tokens or groups, by the ends of groups. */
static void decide(const moe__run_random_t *random, const int64_t *ends, int64_t groups,
                   fate_t *fates, int64_t size) {
  const moe__run_use_t *use = &random->use;
  const bool of_tokens = use->nan == MOE__RUN_NAN_TOKENS,
             of_blocks = use->nan == MOE__RUN_NAN_NO_BLOCK;
  for (int64_t i = 0; i < size && (of_tokens || of_blocks); i++)
    fates[i] = random->nan_groups ? SPOILED : KEPT;
  for (int64_t g = 0, start = 0; g < groups; start = ends[g++]) {
    const int64_t tokens = ends[g] - start, first = first_of(use, g, start);
    if (use->nan == MOE__RUN_NAN_EMPTY_GROUPS)
      fates[g] = tokens == 0 ? SPOILED : KEPT;
    for (int64_t i = 0; of_blocks && i < tokens; i += use->token_block)
      fates[first + i / use->token_block] = KEPT;
    for (int64_t i = 0; of_tokens && i < tokens; i++)
      fates[first + i] = is_chosen(random, g) ? SPOILED : KEPT;
    for (int64_t i = tokens; of_tokens && use->align && i % use->align != 0; i++)
      fates[first + i] = CLEARED;
  }
}

static int find_fates(const moe__run_random_t *random, const moe__run_tensor_t *tensor,
                      fate_t **out_fates) {
  const moe__run_use_t *use = &random->use;
  const char *name = tensor->info->name;
  const int64_t size = tensor->shape[use->nan_dimension];
  if (moe__run_random_follows(random) && !use->offs.data)
    return moe__run_input_error("argument '%s': %s does not know its groups; give --in %s=FILE",
                                name, has_aligned_tokens(use) ? "--random" : "--nan-groups", name);
  const int64_t groups = moe__run_random_follows(random) ? use->offs.shape[0] : 0;
  int64_t *ends = calloc((size_t)groups + 1, sizeof *ends);
  /* A manifest may say that there are more tokens, or groups, than along the dimension. */
  const int64_t room =
      size + (use->align + 1) * groups + (moe__run_random_follows(random) ? use->tokens : 0);
  *out_fates = calloc((size_t)room + 1, sizeof **out_fates);
  if (!ends || !*out_fates) {
    free(ends);
    return moe__run_input_error("out of memory");
  }
  for (int64_t g = 0; g < size && use->nan == MOE__RUN_NAN_GROUPS; g++)
    (*out_fates)[g] = is_chosen(random, g) ? SPOILED : KEPT;
  if (groups && moe_ref_group_ends(&use->offs, use->tokens, ends) == MOE_REF_OK)
    decide(random, ends, groups, *out_fates, size);
  free(ends);
  return MOE__RUN_OK;
}

int moe__run_random_fill(const moe__run_random_t *random, const moe__run_tensor_t *tensor) {
  const moe_rt_tensor_info_t *info = tensor->info;
  const moe__run_role_t role = random->use.role;
  fill_t fill = {.random = random, .tensor = tensor, .cells = 1};
  for (size_t i = 0; i < sizeof all_patterns / sizeof *all_patterns; i++)
    if (!strcmp(all_patterns[i].dtype, info->dtype))
      fill.patterns = &all_patterns[i];
  const bool is_offsets =
      (role == MOE__RUN_OFFSETS || role == MOE__RUN_PADDED_OFFSETS) && !strcmp(info->dtype, "i32");
  if (!fill.patterns && !is_offsets)
    return moe__run_input_error("argument '%s': --random does not make %s; give --in %s=FILE",
                                info->name, info->dtype, info->name);
  if (tensor->elements == 0)
    return MOE__RUN_OK;
  fill.dtype = (moe_ref_dtype_t)moe_ref_dtype_from_name(info->dtype);
  fill.element_key = mix(mix(random->seed) + (uint64_t)(2 * random->argument));
  if (is_offsets)
    return fill_i32(random, fill.element_key, tensor);
  fill.cell_key = mix(mix(random->seed) + (uint64_t)(2 * random->argument) + 1);
  for (int d = info->rank - 1; d >= 0; d--) {
    const int64_t cell = random->use.cell[d];
    fill.cell_strides[d] = fill.cells;
    fill.cells *= (tensor->shape[d] + cell - 1) / cell;
  }
  fill.row_length = tensor->shape[info->rank - 1];
  fill.rows = tensor->elements / fill.row_length;
  const bool has_fates = (random->nan_groups && random->use.nan != MOE__RUN_NAN_NONE) ||
                         has_aligned_tokens(&random->use);
  const int rc = has_fates ? find_fates(random, tensor, &fill.fates) : MOE__RUN_OK;
  if (!rc)
    moe__run_parallel("making random data", random->threads,
                      (fill.rows + ROWS_PER_TASK - 1) / ROWS_PER_TASK, fill_rows, &fill);
  free(fill.fates);
  return rc;
}
