/* Lanes.h - makes compute functions from expressions.
 *
 * Why it exists: an instruction such as add.s32 is one expression over 32 lanes; these macros wrap
 * it into the function that Compute.c calls. x, y and z are a lane's sources.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_EMULATOR_INSTRUCTIONS_LANES_H
#define MOE_EMULATOR_INSTRUCTIONS_LANES_H

#include "lib/Emulator/Instructions/Compute.h"

/* A row is an array of uint32_t or uint64_t, or of a type of that width. A result of type R from
 * one to three sources of types X, Y, Z. */
#define MOE__EMU_LANES1(name, R, X, expression)                                                    \
  static void name(void *restrict result, const void *a, const void *b, const void *c) {           \
    const X *restrict xs = a;                                                                      \
    R *restrict to = result;                                                                       \
    (void)b, (void)c;                                                                              \
    for (uint32_t i = 0; i < MOE__EMU_LANES; i++) {                                                \
      const X x = xs[i];                                                                           \
      to[i] = (R)(expression);                                                                     \
    }                                                                                              \
  }

#define MOE__EMU_LANES2(name, R, X, Y, expression)                                                 \
  static void name(void *restrict result, const void *a, const void *b, const void *c) {           \
    const X *restrict xs = a;                                                                      \
    const Y *restrict ys = b;                                                                      \
    R *restrict to = result;                                                                       \
    (void)c;                                                                                       \
    for (uint32_t i = 0; i < MOE__EMU_LANES; i++) {                                                \
      const X x = xs[i];                                                                           \
      const Y y = ys[i];                                                                           \
      to[i] = (R)(expression);                                                                     \
    }                                                                                              \
  }

#define MOE__EMU_LANES3(name, R, X, Y, Z, expression)                                              \
  static void name(void *restrict result, const void *a, const void *b, const void *c) {           \
    const X *restrict xs = a;                                                                      \
    const Y *restrict ys = b;                                                                      \
    const Z *restrict zs = c;                                                                      \
    R *restrict to = result;                                                                       \
    for (uint32_t i = 0; i < MOE__EMU_LANES; i++) {                                                \
      const X x = xs[i];                                                                           \
      const Y y = ys[i];                                                                           \
      const Z z = zs[i];                                                                           \
      to[i] = (R)(expression);                                                                     \
    }                                                                                              \
  }

/* A predicate: one bit for each lane. */
#define MOE__EMU_LANES_TEST(name, X, expression)                                                   \
  static void name(void *restrict result, const void *a, const void *b, const void *c) {           \
    const X *restrict xs = a, *restrict ys = b;                                                    \
    uint32_t *restrict to = result;                                                                \
    uint32_t mask = 0;                                                                             \
    (void)c;                                                                                       \
    for (uint32_t i = 0; i < MOE__EMU_LANES; i++) {                                                \
      const X x = xs[i], y = ys[i];                                                                \
      mask |= (uint32_t)(expression) << i;                                                         \
    }                                                                                              \
    *to = mask;                                                                                    \
  }

/* Rows of a table of opcodes. */
#define MOE__EMU_COMPUTE(pattern, operands, compute)                                               \
  { pattern, operands, moe__emu_execute_compute, compute, 0, NULL }
#define MOE__EMU_EXECUTE(pattern, operands, execute)                                               \
  { pattern, operands, execute, NULL, 0, NULL }
#define MOE__EMU_PURELY(pattern, operands, execute)                                                \
  { pattern, operands, execute, NULL, MOE__EMU_PURE, NULL }
#define MOE__EMU_VERIFIED(pattern, operands, execute, verify)                                      \
  { pattern, operands, execute, NULL, 0, verify }
#define MOE__EMU_END_OF_TABLE                                                                      \
  { NULL, NULL, NULL, NULL, 0, NULL }

#endif /* MOE_EMULATOR_INSTRUCTIONS_LANES_H */
