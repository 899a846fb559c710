/* GemmOracle.c - grouped products a second time: one element after the other, in integers.
 *
 * Why it exists: see GemmOracle.h.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "test/Reference/GemmOracle.h"

#include "test/Reference/Oracle.h"

#include <math.h>
#include <string.h>

/* ---- Groups and indices ---- */

/* The running maximum of what offsets say, no less than 0 and no more than M. */
int64_t oracle_group_end(const gemm_spec_t *spec, int64_t g) {
  int64_t end = 0;
  for (int64_t i = 0; i <= g; i++)
    end = spec->offs[i] > end ? spec->offs[i] : end;
  return end < spec->m ? end : spec->m;
}

/* Rows of the product of group g, and what it sums over. */
static int64_t rows_of(const gemm_spec_t *spec, int64_t g) {
  if (spec->which == ROWS_CASE)
    return oracle_group_end(spec, g) - oracle_group_end(spec, g - 1);
  return spec->which == DEPTH_CASE ? spec->n : spec->m;
}

static int64_t depth_of(const gemm_spec_t *spec, int64_t g) {
  if (spec->which == DEPTH_CASE)
    return oracle_group_end(spec, g) - oracle_group_end(spec, g - 1);
  return spec->k;
}

static int64_t columns_of(const gemm_spec_t *spec) {
  return spec->which == DEPTH_CASE ? spec->k : spec->n;
}

/* Tokens of a and b where those are what is summed: all, and the first of group g. */
static int64_t room_of(const gemm_spec_t *spec) {
  return spec->aligned ? spec->m + 128 * spec->e : spec->m;
}

static int64_t start_of(const gemm_spec_t *spec, int64_t g) {
  const int64_t start = oracle_group_end(spec, g - 1);
  return spec->aligned ? 128 * (start / 128 + g) : start;
}

static int64_t at2(const buffer_t *buffer, int64_t i, int64_t j) {
  return offset_at(&buffer->tensor, (int64_t[]){i, j});
}

static int64_t at3(const buffer_t *buffer, int64_t g, int64_t i, int64_t j) {
  return offset_at(&buffer->tensor, (int64_t[]){g, i, j});
}

static int64_t index_a(const gemm_t *x, int64_t g, int64_t i, int64_t k) {
  switch (x->spec.which) {
  case ROWS_CASE:
    return at2(&x->a, oracle_group_end(&x->spec, g - 1) + i, k);
  case DEPTH_CASE:
    return at2(&x->a, i, start_of(&x->spec, g) + k);
  default:
    return at3(&x->a, g, i, k);
  }
}

static int64_t index_b(const gemm_t *x, int64_t g, int64_t k, int64_t j) {
  if (x->spec.which == DEPTH_CASE)
    return at2(&x->b, start_of(&x->spec, g) + k, j);
  return at3(&x->b, g, k, j);
}

static int64_t index_sa(const gemm_t *x, int64_t g, int64_t i) {
  if (x->spec.scaling != SCALES_EACH)
    return offset_at(&x->sa.tensor, (int64_t[]){x->spec.which == ROWS_CASE ? 0 : g});
  if (x->spec.which == ROWS_CASE)
    return offset_at(&x->sa.tensor, (int64_t[]){oracle_group_end(&x->spec, g - 1) + i});
  return at2(&x->sa, g, i);
}

static int64_t index_sb(const gemm_t *x, int64_t g, int64_t j) {
  if (x->spec.scaling == SCALES_SHARED)
    return offset_at(&x->sb.tensor, (int64_t[]){g});
  return at2(&x->sb, g, j);
}

/* What shares a scale along K, and along N. */
static int64_t block_depth(const gemm_spec_t *spec) {
  return spec->in_mx ? 32 : 128;
}

static int64_t block_width(const gemm_spec_t *spec) {
  return spec->in_mx ? 1 : 128;
}

static int64_t blocks_of(int64_t size, int64_t block) {
  return size / block + (size % block != 0);
}

static int64_t blocks_of_k(const gemm_spec_t *spec) {
  return blocks_of(spec->k, block_depth(spec));
}

/* Along what group g is summed over. */
static int64_t blocks_in(const gemm_spec_t *spec, int64_t g) {
  return blocks_of(depth_of(spec, g), block_depth(spec));
}

static int64_t blocks_of_n(const gemm_spec_t *spec) {
  return blocks_of(spec->n, block_width(spec));
}

static int64_t index_block_sa(const gemm_t *x, int64_t g, int64_t i, int64_t block) {
  if (x->spec.which == ROWS_CASE)
    return at2(&x->sa, oracle_group_end(&x->spec, g - 1) + i, block);
  if (x->spec.which == DEPTH_CASE)
    return at2(&x->sa, oracle_group_end(&x->spec, g - 1) / 128 + g + block, i);
  return at3(&x->sa, g, i, block);
}

/* of_n: as in 128 columns; the gradient has no such blocks. */
static int64_t index_block_sb(const gemm_t *x, int64_t g, int64_t block, int64_t j, int64_t of_n) {
  if (x->spec.which == DEPTH_CASE)
    return at2(&x->sb, oracle_group_end(&x->spec, g - 1) / 128 + g + block, j);
  return at3(&x->sb, g, block, of_n);
}

static int64_t index_out(const gemm_t *x, int64_t g, int64_t i, int64_t j) {
  if (x->spec.which == ROWS_CASE)
    return at2(&x->out, oracle_group_end(&x->spec, g - 1) + i, j);
  return at3(&x->out, g, i, j);
}

/* ---- Making one ---- */

static uint8_t random_byte(uint64_t *random, moe_ref_dtype_t dtype, bool wide) {
  const uint64_t r = random_next(random);
  if (!wide) {
    const double sum = (double)(r & 0xFFFF) + (double)(r >> 16 & 0xFFFF) +
                       (double)(r >> 32 & 0xFFFF) + (double)(r >> 48);
    return oracle_fp8_from_f32(dtype, (float)((sum - 131070) / 37837));
  }
  const uint8_t byte = (uint8_t)(r & 0xFF);
  return isfinite(oracle_fp8_value(dtype, byte)) ? byte : 0;
}

static float random_scale(uint64_t *random, bool wide) {
  const uint64_t r = random_next(random);
  const int exponent = wide ? (int)(r % 41) - 20 : (int)(r % 7) - 3;
  return ldexpf(1 + (float)(r >> 41) * 0x1p-23f, exponent);
}

/* A power of two for MX blocks. */
static float random_block_scale(uint64_t *random, const gemm_spec_t *spec, bool wide) {
  const float scale = random_scale(random, wide);
  return spec->in_mx ? ldexpf(1, ilogbf(scale)) : scale;
}

static void fill_operands(gemm_t *x, bool wide) {
  const gemm_spec_t *spec = &x->spec;
  uint64_t random = spec->seed;
  for (int64_t g = 0; g < spec->e; g++) {
    for (int64_t k = 0; k < depth_of(spec, g); k++) {
      for (int64_t i = 0; i < rows_of(spec, g); i++)
        ((uint8_t *)x->a.tensor.data)[index_a(x, g, i, k)] = random_byte(&random, spec->a, wide);
      for (int64_t j = 0; j < columns_of(spec); j++)
        ((uint8_t *)x->b.tensor.data)[index_b(x, g, k, j)] = random_byte(&random, spec->b, wide);
    }
    for (int64_t i = 0; i < rows_of(spec, g) && !spec->in_blocks; i++)
      element_set(&x->sa.tensor, index_sa(x, g, i), random_scale(&random, wide));
    for (int64_t j = 0; j < columns_of(spec) && !spec->in_blocks; j++)
      element_set(&x->sb.tensor, index_sb(x, g, j), random_scale(&random, wide));
    for (int64_t block = 0; block < blocks_in(spec, g) && spec->in_blocks; block++) {
      const int64_t columns = spec->which == DEPTH_CASE ? columns_of(spec) : blocks_of_n(spec);
      for (int64_t i = 0; i < rows_of(spec, g); i++)
        element_set(&x->sa.tensor, index_block_sa(x, g, i, block),
                    random_block_scale(&random, spec, wide));
      for (int64_t n = 0; n < columns; n++)
        element_set(&x->sb.tensor, index_block_sb(x, g, block, n, n),
                    random_block_scale(&random, spec, wide));
    }
    /* As large as what it is added to, and of both signs. */
    for (int64_t j = 0; spec->biased && j < spec->n; j++)
      element_set(&x->bias.tensor, at2(&x->bias, g, j),
                  random_scale(&random, wide) * (j % 2 == 0 ? 8 : -8));
  }
}

/* A buffer of NaN: 0x7F bytes are NaN in E4M3 and E5M2, and 0xFF bytes in F32 and E8M0. */
static buffer_t make_operand(moe_ref_dtype_t dtype, int rank, const int64_t *shape, int turn) {
  buffer_t buffer = buffer_make(dtype, rank, shape, turn, 3);
  memset(buffer.bytes, dtype == MOE_REF_F32 || dtype == MOE_REF_E8M0 ? 0xFF : 0x7F, buffer.size);
  return buffer;
}

/* Every E4M3 and E5M2 is a multiple of 2^-16; NaN and Inf, which no sum here may meet, are huge. */
static void make_units(moe_ref_dtype_t dtype, int64_t units[256]) {
  for (int byte = 0; byte < 256; byte++) {
    const double value = oracle_fp8_value(dtype, (uint8_t)byte);
    units[byte] = isfinite(value) ? (int64_t)ldexp(value, 16) : INT64_MAX;
  }
}

static buffer_t make_scales(const gemm_spec_t *spec, gemm_scaling_t shared_from, int rank,
                            const int64_t *each, int64_t shared, int turn) {
  if (spec->scaling >= shared_from)
    return make_operand(MOE_REF_F32, 1, &shared, 0);
  return make_operand(MOE_REF_F32, rank, each, turn);
}

void gemm_make(gemm_t *x, const gemm_spec_t *spec, bool wide) {
  const int64_t e = spec->e, m = spec->m, n = spec->n, k = spec->k;
  const int turn = spec->turn;
  *x = (gemm_t){.spec = *spec};
  switch (spec->which) {
  case ROWS_CASE:
    x->a = make_operand(spec->a, 2, (int64_t[]){m, k}, turn % 3);
    x->b = make_operand(spec->b, 3, (int64_t[]){e, k, n}, (turn + 2) % 4);
    x->sa = make_scales(spec, SCALE_A_SHARED, 1, (int64_t[]){m}, 1, 0);
    x->sb = make_scales(spec, SCALES_SHARED, 2, (int64_t[]){e, n}, e, turn % 3);
    x->out = buffer_make(spec->out, 2, (int64_t[]){m, n}, turn % 3, 3);
    break;
  case DEPTH_CASE:
    x->a = make_operand(spec->a, 2, (int64_t[]){n, room_of(spec)}, turn % 3);
    x->b = make_operand(spec->b, 2, (int64_t[]){room_of(spec), k}, (turn + 1) % 3);
    x->sa = make_scales(spec, SCALE_A_SHARED, 2, (int64_t[]){e, n}, e, (turn + 1) % 3);
    x->sb = make_scales(spec, SCALES_SHARED, 2, (int64_t[]){e, k}, e, turn % 3);
    x->out = buffer_make(spec->out, 3, (int64_t[]){e, n, k}, turn % 4, 3);
    break;
  case BATCHED_CASE:
    x->a = make_operand(spec->a, 3, (int64_t[]){e, m, k}, turn % 4);
    x->b = make_operand(spec->b, 3, (int64_t[]){e, k, n}, (turn + 2) % 4);
    x->sa = make_scales(spec, SCALE_A_SHARED, 2, (int64_t[]){e, m}, e, turn % 3);
    x->sb = make_scales(spec, SCALES_SHARED, 2, (int64_t[]){e, n}, e, (turn + 1) % 3);
    x->out = buffer_make(spec->out, 3, (int64_t[]){e, m, n}, turn % 4, 3);
    break;
  }
  if (spec->in_blocks) {
    const bool rows = spec->which == ROWS_CASE;
    buffer_free(&x->sa);
    buffer_free(&x->sb);
    const moe_ref_dtype_t dtype = spec->in_mx ? MOE_REF_E8M0 : MOE_REF_F32;
    const int64_t of_k = blocks_of_k(spec), of_n = blocks_of_n(spec);
    x->sa = make_operand(dtype, rows ? 2 : 3, rows ? (int64_t[]){m, of_k} : (int64_t[]){e, m, of_k},
                         turn % 3);
    x->sb = make_operand(dtype, 3, (int64_t[]){e, of_k, of_n}, turn % 4);
  }
  if (spec->in_blocks && spec->which == DEPTH_CASE) {
    buffer_free(&x->sa);
    buffer_free(&x->sb);
    x->sa = make_operand(MOE_REF_F32, 2, (int64_t[]){blocks_of(m, 128) + e, n}, turn % 3);
    x->sb = make_operand(MOE_REF_F32, 2, (int64_t[]){blocks_of(m, 128) + e, k}, (turn + 1) % 3);
  }
  x->mm = (moe_ref_scaled_mm_t){&x->a.tensor,   &x->b.tensor, &x->sa.tensor, &x->sb.tensor, NULL,
                                &x->out.tensor, NULL,         false,         false};
  x->mm.token_blocks = spec->in_blocks && spec->which == DEPTH_CASE;
  x->mm.aligned = spec->aligned;
  if (spec->biased) {
    x->bias = buffer_make(spec->out, 2, (int64_t[]){e, n}, turn % 3, 3);
    memset(x->bias.bytes, 0xFF, x->bias.size);
    x->mm.bias = &x->bias.tensor;
  }
  if (spec->offs) {
    x->offs = buffer_make(MOE_REF_I32, 1, &e, 0, 0);
    memcpy(x->offs.tensor.data, spec->offs, (size_t)e * sizeof *spec->offs);
    x->mm.offs = &x->offs.tensor;
  }
  make_units(spec->a, x->units_a);
  make_units(spec->b, x->units_b);
  fill_operands(x, wide);
}

void gemm_free(gemm_t *x) {
  buffer_t *const buffers[] = {&x->a, &x->b, &x->sa, &x->sb, &x->offs, &x->out, &x->bias};
  for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
    buffer_free(buffers[i]);
}

/* ---- Sums ---- */

/* |a| of an operand whose subnormal numbers count as the least normal one, in 2^-16. */
static __int128 nominal(moe_ref_dtype_t dtype, __int128 units) {
  const __int128 least = dtype == MOE_REF_E4M3 ? 1 << 10 : 1 << 2;
  const __int128 magnitude = units < 0 ? -units : units;
  return magnitude > 0 && magnitude < least ? least : magnitude;
}

/* The magnitude of a b in units of 2^-32, for the bound. */
static __int128 product_magnitude(const gemm_t *x, int64_t a, int64_t b) {
  return nominal(x->spec.a, x->units_a[((const uint8_t *)x->a.tensor.data)[a]]) *
         nominal(x->spec.b, x->units_b[((const uint8_t *)x->b.tensor.data)[b]]);
}

/* a b in units of 2^-32. */
static __int128 exact_product(const gemm_t *x, int64_t a, int64_t b) {
  return (__int128)x->units_a[((const uint8_t *)x->a.tensor.data)[a]] *
         x->units_b[((const uint8_t *)x->b.tensor.data)[b]];
}

/* To nearest, ties to even. */
static float f32_of_exact(__int128 sum) {
  unsigned __int128 magnitude = sum < 0 ? -(unsigned __int128)sum : (unsigned __int128)sum;
  int dropped = 0;
  while (magnitude >> dropped >= (unsigned)1 << 24)
    dropped++;
  uint32_t kept = (uint32_t)(magnitude >> dropped);
  const unsigned __int128 rest = magnitude - ((unsigned __int128)kept << dropped);
  const unsigned __int128 half = dropped ? (unsigned __int128)1 << (dropped - 1) : 0;
  if (dropped && (rest > half || (rest == half && kept % 2 == 1)))
    kept++;
  const float value = ldexpf((float)kept, dropped - 32);
  return sum < 0 ? -value : value;
}

/* One instruction of a tensor core: all addends cut to a multiple of 2^-13 of the leading one's
 * power of two. */
static double tensor_core_step(double accumulator, const double *products, int count) {
  double largest = fabs(accumulator);
  for (int i = 0; i < count; i++)
    largest = fmax(largest, fabs(products[i]));
  if (largest == 0)
    return 0;
  const double unit = ldexp(1, ilogb(largest) - 13);
  double sum = trunc(accumulator / unit);
  for (int i = 0; i < count; i++)
    sum += trunc(products[i] / unit);
  return (float)(sum * unit);
}

static float sum_of(const gemm_t *x, int64_t g, int64_t i, int64_t j, gemm_way_t way) {
  const int64_t depth = depth_of(&x->spec, g), dropped = way == TAIL_DROPPED ? depth % 16 : 0;
  const int64_t expert = way == EXPERTS_SWAPPED ? (g + 1) % x->spec.e : g;
  const int64_t shift = way == ROWS_OFF_BY_ONE && i + 1 < rows_of(&x->spec, g) ? 1 : 0;
  __int128 exact = 0;
  double accumulator = 0, products[32];
  float promoted = 0;
  for (int64_t k = 0; k < depth - dropped; k++) {
    /* The other expert's tokens may be fewer. */
    const int64_t k_b = expert != g && k >= depth_of(&x->spec, expert) ? 0 : k;
    const __int128 product =
        exact_product(x, index_a(x, g, i + shift, k), index_b(x, expert, k_b, j));
    exact += product;
    products[k % 32] = (double)product * 0x1p-32;
    if (k % 32 == 31 || k == depth - 1)
      accumulator = tensor_core_step(accumulator, products, (int)(k % 32) + 1);
    if (way == TENSOR_CORE_PROMOTED && (k % 128 == 127 || k == depth - 1)) {
      promoted += (float)accumulator;
      accumulator = 0;
    }
  }
  return way == TENSOR_CORE_FAST       ? (float)accumulator
         : way == TENSOR_CORE_PROMOTED ? promoted
                                       : f32_of_exact(exact);
}

/* The sum over one block times its scales, added to what the blocks before give by one fma. */
static float add_block(const gemm_t *x, int64_t g, int64_t i, int64_t j, int64_t block,
                       gemm_way_t way, float before) {
  const int64_t all = depth_of(&x->spec, g), depth = all - (way == TAIL_DROPPED ? all % 16 : 0);
  const int64_t expert = way == EXPERTS_SWAPPED ? (g + 1) % x->spec.e : g;
  const int64_t shift = way == ROWS_OFF_BY_ONE && i + 1 < rows_of(&x->spec, g) ? 1 : 0;
  __int128 exact = 0;
  double accumulator = 0, products[32];
  const int64_t first = block_depth(&x->spec) * block, end = first + block_depth(&x->spec);
  for (int64_t k = first; k < depth && k < end; k++) {
    /* The other expert's tokens may be fewer. */
    const int64_t k_b = expert != g && k >= depth_of(&x->spec, expert) ? 0 : k;
    const __int128 product =
        exact_product(x, index_a(x, g, i + shift, k), index_b(x, expert, k_b, j));
    exact += product;
    products[k % 32] = (double)product * 0x1p-32;
    if (k % 32 == 31 || k == depth - 1)
      accumulator = tensor_core_step(accumulator, products, (int)(k % 32) + 1);
  }
  const int64_t of_k = way == FIRST_BLOCK_OF_K ? 0 : block;
  const int64_t of_n = way == FIRST_BLOCK_OF_N ? 0 : j / block_width(&x->spec);
  const float sa = way == SCALES_IGNORED || way == SCALE_A_IGNORED
                       ? 1
                       : element_get(&x->sa.tensor, index_block_sa(x, g, i, of_k));
  const float sb = way == SCALES_IGNORED || way == SCALE_B_IGNORED
                       ? 1
                       : element_get(&x->sb.tensor, index_block_sb(x, g, of_k, j, of_n));
  const float dot = way == TENSOR_CORE_PROMOTED ? (float)accumulator : f32_of_exact(exact);
  if (x->spec.in_mx) /* sb first, then one fma from +0 on */
    return (float)((long double)(float)((long double)sb * dot) * sa + before);
  /* The product of the scales is rounded; what it is multiplied by is exact in long double, and the
   * sum keeps 40 bits more than fp32 has. */
  const float scale = (float)((long double)sa * sb);
  return (float)((long double)scale * dot + before);
}

static float sum_of_blocks(const gemm_t *x, int64_t g, int64_t i, int64_t j, gemm_way_t way) {
  float sum = 0;
  for (int64_t block = 0; block < blocks_in(&x->spec, g); block++)
    sum = add_block(x, g, i, j, block, way, sum);
  return sum;
}

void oracle_block_sums(const gemm_t *x, int64_t g, int64_t i, int64_t j, int64_t block, double *sum,
                       double *magnitude, double *scale) {
  __int128 exact = 0, exact_magnitude = 0;
  const int64_t first = block_depth(&x->spec) * block, end = first + block_depth(&x->spec);
  for (int64_t k = first; k < x->spec.k && k < end; k++) {
    exact += exact_product(x, index_a(x, g, i, k), index_b(x, g, k, j));
    exact_magnitude += product_magnitude(x, index_a(x, g, i, k), index_b(x, g, k, j));
  }
  *sum = ldexp((double)exact, -32);
  *magnitude = ldexp((double)exact_magnitude, -32);
  *scale = (double)element_get(&x->sa.tensor, index_block_sa(x, g, i, block)) *
           element_get(&x->sb.tensor, at3(&x->sb, g, block, j / block_width(&x->spec)));
}

void oracle_sums(const gemm_t *x, int64_t g, int64_t i, int64_t j, double *sum, double *magnitude) {
  __int128 exact = 0, exact_magnitude = 0;
  for (int64_t k = 0; k < depth_of(&x->spec, g); k++) {
    exact += exact_product(x, index_a(x, g, i, k), index_b(x, g, k, j));
    exact_magnitude += product_magnitude(x, index_a(x, g, i, k), index_b(x, g, k, j));
  }
  *sum = ldexp((double)exact, -32);
  *magnitude = ldexp((double)exact_magnitude, -32);
}

/* ---- The result ---- */

/* A product of two fp32 numbers is exact in long double. */
static float multiply(float x, float y) {
  return (float)((long double)x * y);
}

void oracle_gemm(gemm_t *x, gemm_way_t way) {
  const gemm_spec_t *spec = &x->spec;
  for (int64_t g = 0; g < spec->e; g++)
    for (int64_t i = 0; i < rows_of(spec, g); i++)
      for (int64_t j = 0; j < columns_of(spec); j++) {
        const bool each = !spec->in_blocks;
        float sa = each ? element_get(&x->sa.tensor, index_sa(x, g, i)) : 1;
        float sb = each ? element_get(&x->sb.tensor, index_sb(x, g, j)) : 1;
        if (way == SCALES_IGNORED || way == SCALE_A_IGNORED)
          sa = 1;
        if (way == SCALES_IGNORED || way == SCALE_B_IGNORED)
          sb = 1;
        float value = 0;
        if (way != ALL_ZEROS && !(way == LAST_GROUP_SKIPPED && g == spec->e - 1) &&
            depth_of(spec, g) > 0)
          value = each ? multiply(sb, multiply(sa, sum_of(x, g, i, j, way)))
                       : sum_of_blocks(x, g, i, j, way);
        if (spec->biased && way != BIAS_IGNORED && way != ALL_ZEROS) {
          const float bias = element_get(&x->bias.tensor, at2(&x->bias, g, j));
          /* The sum is exact in long double, unless one of them is too small to matter. */
          value = way == BIAS_SCALED ? value + multiply(sb, multiply(sa, bias))
                                     : (float)((long double)value + bias);
        }
        element_set(&x->out.tensor, index_out(x, g, i, j), value);
      }
}
