/* Random.h - numbers for tests that try many cases: the same ones on every run and machine.
 *
 * Why it exists: rand() differs from libc to libc, and a failing case must be reproducible.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_TEST_EMULATOR_RANDOM_H
#define MOE_TEST_EMULATOR_RANDOM_H

#include <stdint.h>

/* The next number of the sequence that *state, which must not be 0, stands in. */
static inline uint64_t random_next(uint64_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state * UINT64_C(0x2545F4914F6CDD1D);
}

/* low..high, both included. */
static inline int64_t random_between(uint64_t *state, int64_t low, int64_t high) {
  return low + (int64_t)(random_next(state) % (uint64_t)(high - low + 1));
}

#endif /* MOE_TEST_EMULATOR_RANDOM_H */
