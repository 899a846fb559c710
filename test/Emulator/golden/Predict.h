/* Predict.h - what the emulator's modules say a probe writes.
 *
 * Why it exists: a probe that disagrees with the hardware should point at the module that is wrong,
 * without the rest of the emulator in between.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_TEST_EMULATOR_GOLDEN_PREDICT_H
#define MOE_TEST_EMULATOR_GOLDEN_PREDICT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Predicts the `count` words that a function of the bundle's manifest writes. False where no module
 * knows: these probes are compared by running the emulator. A probe that a module refuses ends the
 * program with its message. */
bool golden_predict(const json_t *function, uint32_t *words, size_t count);

#endif /* MOE_TEST_EMULATOR_GOLDEN_PREDICT_H */
