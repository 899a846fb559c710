/* Float.c - floating-point arithmetic.
 *
 * Why it exists: see Integer.c. fp32 and fp64 are the host's: round to nearest even, subnormals
 * kept. A NaN result is 0x7FFFFFFF, of 16 bits 0x7FFF, whatever the NaNs among the sources.
 * .ftz and .rz are there where a row says so; .sat and .approx are in no row, so they are errors.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "lib/Emulator/Instructions/Lanes.h"
#include "lib/Emulator/Instructions/Numbers.h"
#include "lib/Emulator/Ptx/Opcodes.h"

/* The sign of zeros decides; a NaN gives way to a number. */
#define MINIMUM(f, x, y)                                                                           \
  (f(x) != f(x)    ? f(y)                                                                          \
   : f(y) != f(y)  ? f(x)                                                                          \
   : f(x) < f(y)   ? f(x)                                                                          \
   : f(y) < f(x)   ? f(y)                                                                          \
   : signbit(f(x)) ? f(x)                                                                          \
                   : f(y))
#define MAXIMUM(f, x, y)                                                                           \
  (f(x) != f(x)    ? f(y)                                                                          \
   : f(y) != f(y)  ? f(x)                                                                          \
   : f(x) > f(y)   ? f(x)                                                                          \
   : f(y) > f(x)   ? f(y)                                                                          \
   : signbit(f(x)) ? f(y)                                                                          \
                   : f(x))

/* ---- fp32 and fp64 ---- */

#define ARITHMETIC(suffix, U, f, result, fused)                                                    \
  MOE__EMU_LANES2(add_##suffix, U, U, U, result(f(x) + f(y)))                                      \
  MOE__EMU_LANES2(sub_##suffix, U, U, U, result(f(x) - f(y)))                                      \
  MOE__EMU_LANES2(mul_##suffix, U, U, U, result(f(x) * f(y)))                                      \
  MOE__EMU_LANES2(div_##suffix, U, U, U, result(f(x) / f(y)))                                      \
  MOE__EMU_LANES1(rcp_##suffix, U, U, result(1 / f(x)))                                            \
  MOE__EMU_LANES3(fma_##suffix, U, U, U, U, result(fused(f(x), f(y), f(z))))                       \
  MOE__EMU_LANES2(min_##suffix, U, U, U, result(MINIMUM(f, x, y)))                                 \
  MOE__EMU_LANES2(max_##suffix, U, U, U, result(MAXIMUM(f, x, y)))                                 \
  /* Of NaN too: an H200 gives the canonical one, not the sign bit's change. */                    \
  MOE__EMU_LANES1(abs_##suffix, U, U, result(f(x & ~((U)1 << (sizeof(U) * 8 - 1)))))               \
  MOE__EMU_LANES1(neg_##suffix, U, U, result(f(x ^ (U)1 << (sizeof(U) * 8 - 1))))

ARITHMETIC(f32, uint32_t, moe__emu_float, moe__emu_result, fmaf)
ARITHMETIC(f64, uint64_t, moe__emu_double, moe__emu_result64, fma)
/* The rounding to odd before keeps the rounding to zero right. */
MOE__EMU_LANES2(add_rz, uint32_t, uint32_t, uint32_t,
                moe__emu_result(moe__emu_float_zero(moe__emu_add_odd(moe__emu_float(x),
                                                                     moe__emu_float(y)))))
MOE__EMU_LANES2(mul_rz, uint32_t, uint32_t, uint32_t,
                moe__emu_result(moe__emu_float_zero((double)moe__emu_float(x) * moe__emu_float(y))))

#define FLUSHED(x) moe__emu_float(moe__emu_flush(x))
MOE__EMU_LANES2(add_ftz, uint32_t, uint32_t, uint32_t,
                moe__emu_flush(moe__emu_result(FLUSHED(x) + FLUSHED(y))))
MOE__EMU_LANES2(sub_ftz, uint32_t, uint32_t, uint32_t,
                moe__emu_flush(moe__emu_result(FLUSHED(x) - FLUSHED(y))))
MOE__EMU_LANES2(mul_ftz, uint32_t, uint32_t, uint32_t,
                moe__emu_flush(moe__emu_result(FLUSHED(x) * FLUSHED(y))))
MOE__EMU_LANES3(fma_ftz, uint32_t, uint32_t, uint32_t, uint32_t,
                moe__emu_flush(moe__emu_result(fmaf(FLUSHED(x), FLUSHED(y), FLUSHED(z)))))
MOE__EMU_LANES2(min_ftz, uint32_t, uint32_t, uint32_t, moe__emu_result(MINIMUM(FLUSHED, x, y)))
MOE__EMU_LANES2(max_ftz, uint32_t, uint32_t, uint32_t, moe__emu_result(MAXIMUM(FLUSHED, x, y)))

/* The hardware's result may be one off in its last place, but for powers of two: here it is. */
static inline uint32_t reciprocal(float x) {
  float near = 1 / x;
  return moe__emu_result(near) + (isfinite(near) && fmaf(near, x, -1) != 0 ? 1 : 0);
}
MOE__EMU_LANES1(rcp_approx_ftz, uint32_t, uint32_t, moe__emu_flush(reciprocal(FLUSHED(x))))
MOE__EMU_LANES1(sqrt_f32, uint32_t, uint32_t, moe__emu_result(sqrtf(moe__emu_float(x))))
MOE__EMU_LANES1(sqrt_f64, uint64_t, uint64_t, moe__emu_result64(sqrt(moe__emu_double(x))))
MOE__EMU_LANES2(copysign_f32, uint32_t, uint32_t, uint32_t, (y & 0x7FFFFFFF) | (x & 0x80000000))

/* NaN if one is; otherwise as integers, of which negative ones count backwards. */
static inline uint32_t ordered(uint32_t bits) {
  return bits >> 31 ? ~bits : bits | 0x80000000;
}

static inline bool is_nan(uint32_t bits) {
  return (bits & 0x7FFFFFFF) > 0x7F800000;
}

static inline uint32_t max_nan(uint32_t x, uint32_t y) {
  uint32_t larger = ordered(x) > ordered(y) ? x : y;
  return is_nan(x) || is_nan(y) ? (uint32_t)MOE__EMU_NAN32 : larger;
}

static inline uint32_t min_nan(uint32_t x, uint32_t y) {
  uint32_t smaller = ordered(x) < ordered(y) ? x : y;
  return is_nan(x) || is_nan(y) ? (uint32_t)MOE__EMU_NAN32 : smaller;
}

MOE__EMU_LANES2(max_nan_f32, uint32_t, uint32_t, uint32_t, max_nan(x, y))
MOE__EMU_LANES2(min_nan_f32, uint32_t, uint32_t, uint32_t, min_nan(x, y))

/* ---- bf16 and f16, one or two in a register ---- */

static inline float from_bf16(uint32_t bits) {
  return moe__ref_f32_from_bf16((uint16_t)bits);
}

static inline float from_f16(uint32_t bits) {
  return moe__emu_f32_from_f16((uint16_t)bits);
}

/* min and max choose one of the sources, so that no rounding happens. */
#define CHOOSE16(name, nan_magnitude, choose, nan_wins)                                            \
  static inline uint32_t name(uint32_t x, uint32_t y) {                                            \
    bool x_nan = (x & 0x7FFF) > (nan_magnitude), y_nan = (y & 0x7FFF) > (nan_magnitude);           \
    if ((x_nan && y_nan) || ((nan_wins) && (x_nan || y_nan)))                                      \
      return MOE__EMU_NAN16;                                                                       \
    if (x_nan || y_nan)                                                                            \
      return x_nan ? y : x;                                                                        \
    int32_t a = x & 0x8000 ? ~(int32_t)(x & 0x7FFF) : (int32_t)x;                                  \
    int32_t b = y & 0x8000 ? ~(int32_t)(y & 0x7FFF) : (int32_t)y;                                  \
    return choose ? x : y;                                                                         \
  }

#define LOW(x) ((x)&0xFFFF)

#define SIXTEEN(type, from, to, nan_magnitude)                                                     \
  static inline uint32_t add1_##type(uint32_t x, uint32_t y) {                                     \
    return to(moe__emu_add_odd(from(x), from(y)));                                                 \
  }                                                                                                \
  static inline uint32_t sub1_##type(uint32_t x, uint32_t y) {                                     \
    return to(moe__emu_add_odd(from(x), -from(y)));                                                \
  }                                                                                                \
  static inline uint32_t mul1_##type(uint32_t x, uint32_t y) {                                     \
    return to((double)from(x) * from(y));                                                          \
  }                                                                                                \
  static inline uint32_t fma1_##type(uint32_t x, uint32_t y, uint32_t z) {                         \
    return to(moe__emu_add_odd((double)from(x) * from(y), from(z)));                               \
  }                                                                                                \
  CHOOSE16(min1_##type, nan_magnitude, a < b, false)                                               \
  CHOOSE16(max1_##type, nan_magnitude, a > b, false)                                               \
  CHOOSE16(min_nan1_##type, nan_magnitude, a < b, true)                                            \
  CHOOSE16(max_nan1_##type, nan_magnitude, a > b, true)                                            \
  TWO_WAYS(add, type)                                                                              \
  TWO_WAYS(sub, type)                                                                              \
  TWO_WAYS(mul, type)                                                                              \
  TWO_WAYS(min, type)                                                                              \
  TWO_WAYS(max, type)                                                                              \
  TWO_WAYS(min_nan, type)                                                                          \
  TWO_WAYS(max_nan, type)                                                                          \
  MOE__EMU_LANES3(fma_##type, uint32_t, uint32_t, uint32_t, uint32_t,                              \
                  fma1_##type(LOW(x), LOW(y), LOW(z)))                                             \
  MOE__EMU_LANES3(fma_##type##x2, uint32_t, uint32_t, uint32_t, uint32_t,                          \
                  fma1_##type(LOW(x), LOW(y), LOW(z)) | fma1_##type(x >> 16, y >> 16, z >> 16)     \
                                                            << 16)

/* One and two in a register. */
#define TWO_WAYS(op, type)                                                                         \
  MOE__EMU_LANES2(op##_##type, uint32_t, uint32_t, uint32_t, op##1_##type(LOW(x), LOW(y)))         \
  MOE__EMU_LANES2(op##_##type##x2, uint32_t, uint32_t, uint32_t,                                   \
                  op##1_##type(LOW(x), LOW(y)) | op##1_##type(x >> 16, y >> 16) << 16)

SIXTEEN(bf16, from_bf16, moe__emu_bf16_result, 0x7F80)
SIXTEEN(f16, from_f16, moe__emu_f16_result, 0x7C00)

MOE__EMU_LANES1(abs16, uint32_t, uint32_t, x & 0x7FFF)
MOE__EMU_LANES1(abs16x2, uint32_t, uint32_t, x & 0x7FFF7FFF)
MOE__EMU_LANES1(neg16, uint32_t, uint32_t, x ^ 0x8000)
MOE__EMU_LANES1(neg16x2, uint32_t, uint32_t, x ^ 0x80008000)

#define ROWS16(type)                                                                               \
  MOE__EMU_COMPUTE("add.rn." #type, "Hhh", add_##type),                                            \
      MOE__EMU_COMPUTE("add.rn." #type "x2", "Rrr", add_##type##x2),                               \
      MOE__EMU_COMPUTE("sub.rn." #type, "Hhh", sub_##type),                                        \
      MOE__EMU_COMPUTE("sub.rn." #type "x2", "Rrr", sub_##type##x2),                               \
      MOE__EMU_COMPUTE("mul.rn." #type, "Hhh", mul_##type),                                        \
      MOE__EMU_COMPUTE("mul.rn." #type "x2", "Rrr", mul_##type##x2),                               \
      MOE__EMU_COMPUTE("fma.rn." #type, "Hhhh", fma_##type),                                       \
      MOE__EMU_COMPUTE("fma.rn." #type "x2", "Rrrr", fma_##type##x2),                              \
      MOE__EMU_COMPUTE("min." #type, "Hhh", min_##type),                                           \
      MOE__EMU_COMPUTE("min." #type "x2", "Rrr", min_##type##x2),                                  \
      MOE__EMU_COMPUTE("max." #type, "Hhh", max_##type),                                           \
      MOE__EMU_COMPUTE("max." #type "x2", "Rrr", max_##type##x2),                                  \
      MOE__EMU_COMPUTE("min.NaN." #type, "Hhh", min_nan_##type),                                   \
      MOE__EMU_COMPUTE("min.NaN." #type "x2", "Rrr", min_nan_##type##x2),                          \
      MOE__EMU_COMPUTE("max.NaN." #type, "Hhh", max_nan_##type),                                   \
      MOE__EMU_COMPUTE("max.NaN." #type "x2", "Rrr", max_nan_##type##x2),                          \
      MOE__EMU_COMPUTE("abs." #type, "Hh", abs16),                                                 \
      MOE__EMU_COMPUTE("abs." #type "x2", "Rr", abs16x2),                                          \
      MOE__EMU_COMPUTE("neg." #type, "Hh", neg16),                                                 \
      MOE__EMU_COMPUTE("neg." #type "x2", "Rr", neg16x2)

/* Without a rounding ptxas may fuse a product and a sum into one instruction, which rounds once. */
static bool refuse_contraction(const moe__emu_kernel_t *kernel,
                               const moe__emu_instruction_t *instruction, moe__emu_error_t *error) {
  (void)kernel;
  (void)instruction;
  return moe__emu_error(error,
                        "no rounding is given, so that ptxas may contract it: .rn is needed");
}

#define REFUSED(operation)                                                                         \
  {operation "[.ftz]{.f32|.f64|.f16|.bf16}",                                                       \
   "T1t1t1",                                                                                       \
   moe__emu_execute_compute,                                                                       \
   add_f32,                                                                                        \
   0,                                                                                              \
   refuse_contraction},                                                                            \
  {                                                                                                \
    operation "[.ftz]{.f16x2|.bf16x2}", "Rrr", moe__emu_execute_compute, add_f32, 0,               \
        refuse_contraction                                                                         \
  }

const moe__emu_opcode_t moe__emu_float_opcodes[] = {
    MOE__EMU_COMPUTE("add.rn.f32", "Rrr", add_f32),
    MOE__EMU_COMPUTE("sub.rn.f32", "Rrr", sub_f32),
    MOE__EMU_COMPUTE("mul.rn.f32", "Rrr", mul_f32),
    MOE__EMU_COMPUTE("add.rz.f32", "Rrr", add_rz),
    MOE__EMU_COMPUTE("mul.rz.f32", "Rrr", mul_rz),
    MOE__EMU_COMPUTE("add.rn.ftz.f32", "Rrr", add_ftz),
    MOE__EMU_COMPUTE("sub.rn.ftz.f32", "Rrr", sub_ftz),
    MOE__EMU_COMPUTE("mul.rn.ftz.f32", "Rrr", mul_ftz),
    MOE__EMU_COMPUTE("fma.rn.ftz.f32", "Rrrr", fma_ftz),
    MOE__EMU_COMPUTE("min.ftz.f32", "Rrr", min_ftz),
    MOE__EMU_COMPUTE("max.ftz.f32", "Rrr", max_ftz),
    MOE__EMU_COMPUTE("fma.rn.f32", "Rrrr", fma_f32),
    MOE__EMU_COMPUTE("div.rn.f32", "Rrr", div_f32),
    MOE__EMU_COMPUTE("rcp.rn.f32", "Rr", rcp_f32),
    MOE__EMU_COMPUTE("rcp.approx.ftz.f32", "Rr", rcp_approx_ftz),
    MOE__EMU_COMPUTE("sqrt.rn.f32", "Rr", sqrt_f32),
    MOE__EMU_COMPUTE("min.f32", "Rrr", min_f32),
    MOE__EMU_COMPUTE("max.f32", "Rrr", max_f32),
    MOE__EMU_COMPUTE("min.NaN.f32", "Rrr", min_nan_f32),
    MOE__EMU_COMPUTE("max.NaN.f32", "Rrr", max_nan_f32),
    MOE__EMU_COMPUTE("abs.f32", "Rr", abs_f32),
    MOE__EMU_COMPUTE("neg.f32", "Rr", neg_f32),
    MOE__EMU_COMPUTE("copysign.f32", "Rrr", copysign_f32),
    MOE__EMU_COMPUTE("add.rn.f64", "Lll", add_f64),
    MOE__EMU_COMPUTE("sub.rn.f64", "Lll", sub_f64),
    MOE__EMU_COMPUTE("mul.rn.f64", "Lll", mul_f64),
    MOE__EMU_COMPUTE("fma.rn.f64", "Llll", fma_f64),
    MOE__EMU_COMPUTE("div.rn.f64", "Lll", div_f64),
    MOE__EMU_COMPUTE("rcp.rn.f64", "Ll", rcp_f64),
    MOE__EMU_COMPUTE("sqrt.rn.f64", "Ll", sqrt_f64),
    MOE__EMU_COMPUTE("min.f64", "Lll", min_f64),
    MOE__EMU_COMPUTE("max.f64", "Lll", max_f64),
    MOE__EMU_COMPUTE("abs.f64", "Ll", abs_f64),
    MOE__EMU_COMPUTE("neg.f64", "Ll", neg_f64),
    ROWS16(bf16),
    ROWS16(f16),
    REFUSED("add"),
    REFUSED("sub"),
    REFUSED("mul"),
    MOE__EMU_END_OF_TABLE,
};
