/* Predict.h - what the emulator's modules say a probe writes.
 *
 * Why it exists: a probe that disagrees with the hardware should point at the module that is wrong,
 * without the rest of the emulator in between.
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MOE_TEST_EMULATOR_GOLDEN_PREDICT_H
#define MOE_TEST_EMULATOR_GOLDEN_PREDICT_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

typedef enum golden_prediction_t {
  GOLDEN_UNKNOWN, /* no module knows: the probe is compared by running the emulator */
  GOLDEN_WORDS,
  GOLDEN_FAULT, /* the hardware refuses the copy */
} golden_prediction_t;

/* Predicts the `count` words that a function of the bundle's manifest writes. A probe that makes no
 * sense ends the program with a message. */
golden_prediction_t golden_predict(const json_t *function, uint32_t *words, size_t count);

#endif /* MOE_TEST_EMULATOR_GOLDEN_PREDICT_H */
